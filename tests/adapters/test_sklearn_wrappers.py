"""Tests of meta-estimators: scores are those of the trees inside, in the user's columns.

Over 500 lines: one table of meta-estimators, each held to the same few statements.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sklearn
from lightgbm import LGBMRegressor
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.feature_selection import RFE, SelectKBest, VarianceThreshold, f_regression
from sklearn.impute import KNNImputer, MissingIndicator, SimpleImputer
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    RidgeClassifier,
    RidgeCV,
    SGDClassifier,
)
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, RandomizedSearchCV
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor, RegressorChain
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_limits
from xgboost import XGBClassifier, XGBRegressor

import debias
from debias.models.wrappers import unwrap
from debias.trees.routing import raw_output, route
from debias_adapters.sklearn.columns import sources
from support.frozen import frozen
from support.versions import at_least

N = 300


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Small models wait longer for threads than they compute."""
    with threadpool_limits(1, user_api="openmp"):
        yield


def draw(n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": rng.normal(size=n),
            "town": rng.choice(list("ABCDE"), n),
            "size": rng.normal(size=n),
            "colour": rng.choice(["red", "blue", None], n),
            "id": rng.permutation(n),
        }
    )
    X.loc[rng.random(n) < 0.1, "size"] = np.nan
    X.loc[X["colour"].isna(), "colour"] = np.nan  # None is no missing value to an imputer before pandas 3
    return X, X["age"].to_numpy() + 2 * (X["town"] == "C").to_numpy() + rng.normal(size=n)


def encoder():
    """Make columns in another order than X has them, one-hot, ordinal, passed through, dropped."""
    return ColumnTransformer(
        [
            ("hot", make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(drop="first")), ["colour"]),
            ("town", OneHotEncoder(min_frequency=50), ["town"]),
            ("gone", "drop", ["id"]),
            ("number", SimpleImputer(add_indicator=True), ["size"]),
        ],
        remainder="passthrough",
    )


def pipeline(model=None):
    return Pipeline(
        [("columns", encoder()), ("model", RandomForestRegressor(20, random_state=0) if model is None else model)]
    )


SOURCE = {"colour": 1, "town": 5, "id": 0, "size": 2, "age": 1}  # how many inner columns come of each


def test_pipeline_scores_are_sums_of_the_inner_columns_scores():
    X, y = draw()
    model = pipeline().fit(X, y)
    names = model[:-1].get_feature_names_out()
    inner = debias.score(model[-1], model[:-1].transform(X), y).values
    scores = debias.score(model, X, y)
    assert scores.feature_names == tuple(X.columns)
    assert scores.rows == "oob"
    assert scores.provenance["status"] == "proven"
    found = dict(zip(scores.feature_names, scores.values, strict=True))
    for column in X.columns:
        mine = [f"__{column}" in name or name.endswith(f"missingindicator_{column}") for name in names]
        assert sum(mine) == SOURCE[column]
        assert found[column] == pytest.approx(inner[mine].sum(), abs=1e-12)
    assert found["id"] == 0
    np.testing.assert_array_equal(debias.score(model, X, y, groups="auto").values, scores.values)
    grouped = debias.score(model, X, y, groups={"both": ["town", "colour"]}).to_frame()["mdi_oob"]
    assert grouped["both"] == pytest.approx(found["town"] + found["colour"], abs=1e-12)


class Doubled(TransformerMixin, BaseEstimator):
    """A transformer of the user, which learns nothing and stores nothing about its columns."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return 2 * np.asarray(X)


@pytest.mark.parametrize("steps", [(Doubled(),), (Doubled(), StandardScaler()), ("passthrough", Doubled())])
@pytest.mark.parametrize("as_frame", [True, False])
def test_a_transformer_that_stores_nothing_leaves_the_names_of_x(steps, as_frame):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(N, 3)), columns=["age", "size", "id"])
    y = X["age"] + rng.normal(size=N)
    rows = X if as_frame else X.to_numpy()
    model = make_pipeline(*steps, RandomForestRegressor(10, random_state=0)).fit(rows, y)
    scaler = model.named_steps.get("standardscaler", FunctionTransformer())
    inner = debias.score(model[-1], scaler.transform(2 * X.to_numpy()), y).values
    scores = debias.score(model, rows, y)
    assert scores.feature_names == (tuple(X.columns) if as_frame else ("x0", "x1", "x2"))
    np.testing.assert_array_equal(scores.values, inner)
    assert scores.provenance["status"] == "proven"
    refitted = debias.refit(model, rows, y, random_state=0)
    np.testing.assert_array_equal(refitted.predict(rows), debias.refit(model, rows, y, random_state=0).predict(rows))


class WithRatio(TransformerMixin, BaseEstimator):
    """A transformer of the user, which passes on a frame and stores nothing."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X.assign(ratio=X["age"] / X["size"])


@pytest.mark.filterwarnings("ignore:(the )?columns of X:debias.DebiasWarning")
@pytest.mark.parametrize("step", [FunctionTransformer(WithRatio().transform), WithRatio()], ids=["function", "class"])
def test_columns_that_such_a_step_passes_on_by_name_may_come_in_another_order(step):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(1, 2, size=(N, 3)), columns=["age", "size", "id"])
    y = 3 * X["age"] / X["size"] + X["id"]
    model = make_pipeline(step, RandomForestRegressor(10, random_state=0)).fit(X[:200], y[:200])
    new, expected = X[200:], None
    for columns in (["age", "size", "id"], ["id", "size", "age"], ["more", "size", "age", "id"]):
        scores = debias.score(model, new.assign(more=1.0)[columns], y[200:], rows="held-out").to_frame().iloc[:, 0]
        found = {frozenset(name.split(" + ")): value for name, value in scores.items() if name != "more"}
        expected = found if expected is None else expected
        assert found == expected
    assert max(expected, key=expected.get) == {"age", "size"}


def test_a_pipeline_of_nothing_but_a_model_has_the_names_of_the_model():
    catboost = pytest.importorskip("catboost")
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(N, 2)), columns=["age", "size"])
    settings = {"iterations": 5, "depth": 2, "thread_count": 1, "verbose": False, "allow_writing_files": False}
    model = make_pipeline("passthrough", catboost.CatBoostRegressor(**settings)).fit(X, X["age"])
    fresh = pd.DataFrame(np.random.default_rng(1).normal(size=(N, 2)), columns=["age", "size"])
    scores = debias.score(model, fresh, fresh["age"])
    assert scores.feature_names == ("age", "size")
    np.testing.assert_array_equal(scores.values, debias.score(model[-1], fresh, fresh["age"]).values)


def test_groups_are_summed_before_the_null_is_formed():
    """The audit of a pipeline is that of its forest, grouped: the same permutations, the same standard errors."""
    X, y = draw()
    model = pipeline().fit(X, y)
    seen = pd.DataFrame(model[:-1].transform(X), columns=model[:-1].get_feature_names_out())
    forest = RandomForestRegressor(20, random_state=0).fit(seen, y)
    groups = {
        column: [n for n in seen if f"__{column}" in n or n.endswith(f"indicator_{column}")]
        for column in X.columns
        if column != "id"
    }
    outer = debias.audit(model, X, y, random_state=0).to_frame()
    inner = debias.audit(forest, seen, y, groups=groups, random_state=0).to_frame()
    columns = ["reported", "mdi_oob", "standard_error", "z", "oob_loss"]
    np.testing.assert_allclose(outer.loc[list(groups), columns], inner.loc[list(groups), columns], rtol=1e-9)
    assert (outer.loc[list(groups), "verdict"] == inner.loc[list(groups), "verdict"]).all()
    phi = debias.contributions(model, X, y)
    assert list(phi.columns) == list(X.columns)
    np.testing.assert_allclose(phi.sum(), outer.loc[X.columns, "mdi_oob"], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("sparse", [0.0, 1.0], ids=["dense", "sparse"])
@pytest.mark.parametrize("kind", [XGBRegressor, LGBMRegressor, GradientBoostingRegressor, ExtraTreesRegressor])
def test_pipelines_of_other_libraries_read_sparse_encodings_as_they_do(kind, sparse):
    """XGBoost takes what a sparse matrix leaves out for missing, the others for 0."""
    X, y = draw()
    settings = {"verbose": -1, "min_child_samples": 5, "n_jobs": 1} if kind is LGBMRegressor else {}
    model = pipeline(kind(n_estimators=15, random_state=0, **settings))
    model.set_params(columns__sparse_threshold=sparse)
    model.fit(X.drop(columns="colour").assign(colour=X["colour"].fillna("red")), y)
    X_new, y_new = draw(seed=1)
    X_new = X_new.drop(columns="colour").assign(colour=X_new["colour"].fillna("red"))
    assert scipy.sparse.issparse(model[:-1].transform(X_new)) == bool(sparse)
    scores = debias.score(model, X_new, y_new, rows="held-out")
    assert set(scores.feature_names) == set(X.columns)
    # The predictions behind the scores are the pipeline's own.
    from debias.data.table import Table
    from debias.trees.routing import raw_output, route

    ensemble = debias.plugin.extract(model)
    matrix = Table(model[:-1].transform(X_new)).matrix(ensemble)
    np.testing.assert_allclose(raw_output(ensemble, route(ensemble, matrix))[:, 0], model.predict(X_new), rtol=1e-5)


def test_sparse_rows_score_as_dense_ones():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4)) * (rng.random((N, 4)) < 0.5)
    y = X[:, 0] + rng.normal(size=N)
    model = RandomForestRegressor(20, random_state=0).fit(X, y)
    for container in (scipy.sparse.csr_matrix, scipy.sparse.csc_array, scipy.sparse.coo_array):
        for scorer in ("mdi_oob", "ufi"):
            sparse = debias.score(model, container(X), y, scorer=scorer, test="auto" if scorer == "mdi_oob" else None)
            np.testing.assert_array_equal(sparse.values, debias.score(model, X, y, scorer=scorer).values)
    booster = HistGradientBoostingRegressor(max_iter=3).fit(X, y)
    with pytest.raises(debias.RowsError, match=r"toarray\(\)"):
        debias.score(booster, scipy.sparse.csr_matrix(X), y)


# --- which column comes from which ---------------------------------------------------------------------

NUMBERS = np.random.default_rng(0).normal(size=(N, 3))
HOLES = np.where(np.random.default_rng(1).random((N, 3)) < [0.2, 0.0, 0.2], np.nan, NUMBERS)
CODES = np.random.default_rng(2).integers(0, 4, (N, 3)).astype(float)
RESPONSE = NUMBERS[:, 0] + np.random.default_rng(3).normal(size=N)
HAS_METHODS = at_least("scikit-learn", "1.7")  # which of several definitions of a quantile
AVERAGED = {"quantile_method": "averaged_inverted_cdf"} if HAS_METHODS else {}
LINEAR = {"quantile_method": "linear"} if HAS_METHODS else {}
TRACEABLE = [
    (StandardScaler(), NUMBERS),
    (QuantileTransformer(n_quantiles=20), NUMBERS),
    (OneHotEncoder(sparse_output=False), CODES),
    (OneHotEncoder(sparse_output=False, drop="if_binary", max_categories=3), CODES),
    (OneHotEncoder(sparse_output=False, drop="first"), CODES),
    (OrdinalEncoder(), CODES),
    (TargetEncoder(target_type="continuous"), CODES),
    (KBinsDiscretizer(4, encode="onehot-dense", **AVERAGED), NUMBERS),
    (KBinsDiscretizer(4, encode="ordinal", **AVERAGED), NUMBERS),
    (SplineTransformer(n_knots=4), NUMBERS),
    (SimpleImputer(add_indicator=True), HOLES),
    (MissingIndicator(), HOLES),
    (FunctionTransformer(np.abs, feature_names_out="one-to-one"), NUMBERS),
    (SelectKBest(f_regression, k=2), NUMBERS),
    (VarianceThreshold(), NUMBERS),
    (FeatureUnion([("a", MinMaxScaler()), ("b", SelectKBest(f_regression, k=1))]), NUMBERS),
    (make_pipeline(SimpleImputer(), KBinsDiscretizer(3, encode="onehot-dense", **LINEAR)), HOLES),
    (
        ColumnTransformer([("hot", OneHotEncoder(sparse_output=False), [2, 0])], remainder=StandardScaler()),
        CODES,
    ),
    (ColumnTransformer([("pca", PCA(1), [1]), ("gone", "drop", [0])], remainder="passthrough"), NUMBERS),
]


@pytest.mark.parametrize(("transformer", "X"), TRACEABLE, ids=lambda value: str(value)[:40].replace("\n", ""))
def test_columns_are_traced_to_those_that_move_them(transformer, X):
    """Shuffle one input column at a time: no output column but its own may move, and all that move are its own."""
    fitted = transformer.fit(X, RESPONSE)
    out = np.asarray(fitted.transform(X), dtype=float)
    (source,) = np.transpose(sources(fitted, X.shape[1]))
    assert source.shape == (out.shape[1],)
    moved = np.zeros((X.shape[1], out.shape[1]), dtype=bool)
    for k in range(X.shape[1]):
        shuffled = X.copy()
        shuffled[:, k] = np.random.default_rng(5).permutation(X[:, k])
        moved[k] = (np.asarray(fitted.transform(shuffled), dtype=float) != out).any(axis=0)
    assert moved.any(axis=0).all()
    np.testing.assert_array_equal(moved, np.arange(X.shape[1])[:, None] == source)


@pytest.mark.parametrize("transformer", [PCA(2), Normalizer()], ids=lambda value: type(value).__name__)
def test_columns_that_all_come_from_all_columns_are_scored_at_the_level_of_the_model(transformer):
    model = make_pipeline(transformer, RandomForestRegressor(10, random_state=0)).fit(NUMBERS, RESPONSE)
    with pytest.raises(debias.UnsupportedModelError, match=r"the same 3 columns of X \(x0, x1, x2\).*level='model'"):
        debias.score(model, NUMBERS, RESPONSE)
    scores = debias.score(model, NUMBERS, RESPONSE, level="model")
    assert scores.feature_names == tuple(model[:-1].get_feature_names_out())
    expected = debias.score(model[-1], model[:-1].transform(NUMBERS), RESPONSE)
    np.testing.assert_array_equal(scores.values, expected.values)


def test_an_imputer_from_neighbours_keeps_its_columns():
    fitted = KNNImputer(add_indicator=True).fit(HOLES)
    assert sources(fitted, 3) == [(0,), (1,), (2,), (0,), (2,)]


# --- searches, calibration, transformed responses ------------------------------------------------------


def numeric(classes=False):
    return (NUMBERS, RESPONSE) if not classes else (NUMBERS, np.array(["no", "yes"])[(RESPONSE > 0).astype(int)])


def test_wrappers_without_an_effect_on_the_trees_change_no_score():
    X, y = numeric()
    forest = RandomForestRegressor(10, random_state=0)
    expected = debias.score(forest.fit(X, y), X, y)
    for model in (
        GridSearchCV(forest, {"max_features": [1.0]}, cv=2),
        RandomizedSearchCV(forest, {"max_features": [1.0]}, n_iter=1, cv=2),
        Pipeline([("only", forest)]),
        Pipeline([("nothing", "passthrough"), ("deeper", Pipeline([("a", "passthrough"), ("forest", forest)]))]),
        make_pipeline(
            StandardScaler(with_mean=False, with_std=False), GridSearchCV(forest, {"max_depth": [None]}, cv=2)
        ),
    ):
        scores = debias.score(model.fit(X, y), X, y)
        np.testing.assert_array_equal(scores.values, expected.values)
        assert scores.feature_names == expected.feature_names
        assert scores.provenance["status"] == "proven"
    X, y = numeric(classes=True)
    forest = RandomForestClassifier(10, random_state=0)
    expected = debias.score(forest.fit(X, y), X, y).values
    model = FixedThresholdClassifier(forest, threshold=0.3).fit(X, y)
    np.testing.assert_array_equal(debias.score(model, X, y).values, expected)


def test_a_frozen_forest_is_scored_like_the_forest():
    X, y = numeric()
    forest = RandomForestRegressor(10, random_state=0).fit(X, y)
    scores = debias.score(frozen(forest), X, y)
    np.testing.assert_array_equal(scores.values, debias.score(forest, X, y).values)
    assert scores.provenance["status"] == "proven"


def test_features_left_by_elimination_score_as_in_the_inner_model():
    X, y = draw()
    X = X[["id", "age"]].assign(noise=np.random.default_rng(4).normal(size=N))
    model = RFE(RandomForestRegressor(20, random_state=0), n_features_to_select=2).fit(X, y)
    with pytest.warns(debias.DebiasWarning, match="This RFE saw y of all training rows"):
        scores = debias.score(model, X, y, rows="oob").to_frame()["mdi_oob"]
    kept = X.columns[model.support_]
    inner = debias.score(model.estimator_, X[kept].to_numpy(), y).values
    np.testing.assert_array_equal(scores[kept], inner)
    assert scores[X.columns[~model.support_]].tolist() == [0.0]


def test_a_transformed_response_is_transformed():
    X, y = numeric()
    y = np.exp(y)
    model = TransformedTargetRegressor(RandomForestRegressor(20, random_state=0), func=np.log, inverse_func=np.exp)
    scores = debias.score(model.fit(X, y), X, y)
    expected = debias.score(RandomForestRegressor(20, random_state=0).fit(X, np.log(y)), X, np.log(y)).values
    np.testing.assert_allclose(scores.values, expected, rtol=1e-6)
    assert "transformed response" in " ".join(scores.warnings)


def test_calibrated_folds_are_averaged():
    X, y = numeric(classes=True)
    model = CalibratedClassifierCV(RandomForestClassifier(10, random_state=0), cv=3).fit(X[:200], y[:200])
    scores = debias.score(model, X[200:], y[200:])
    parts = [
        debias.score(part.estimator, X[200:], y[200:], rows="held-out").values for part in model.calibrated_classifiers_
    ]
    np.testing.assert_allclose(scores.values, np.mean(parts, axis=0), rtol=1e-12)
    one = CalibratedClassifierCV(RandomForestClassifier(10, random_state=0), cv=3, ensemble=False).fit(X, y)
    assert debias.score(one, X, y).rows == "oob"


# --- several models ------------------------------------------------------------------------------------


def raw_sum(scores):
    return scores.values.sum()


@pytest.mark.parametrize("weights", [None, [3.0, 1.0]])
def test_a_vote_of_regressors_scores_as_its_mean_predicts(weights):
    """By eq. 14 to the letter scores of an average add up to mean(F y) - mean(y) x the roots, F its prediction."""
    X, y = numeric()
    members = [
        ("forest", RandomForestRegressor(10, random_state=0)),
        ("extra", ExtraTreesRegressor(10, random_state=0)),
    ]
    model = VotingRegressor(members, weights=weights).fit(X[:200], y[:200])
    X_new, y_new = X[200:], y[200:]
    scores = debias.score(model, X_new, y_new, scorer="mdi_oob(centre='none')", rows="held-out")
    share = np.full(2, 0.5) if weights is None else np.array(weights) / np.sum(weights)
    root = [np.mean([tree.tree_.value[0, 0, 0] for tree in each.estimators_]) for each in model.estimators_]
    expected = np.mean(model.predict(X_new) * y_new) - share @ root * y_new.mean()
    assert raw_sum(scores) == pytest.approx(expected, rel=1e-9)
    assert scores.details["weights"] == pytest.approx(share.tolist())


def test_a_linear_stack_scores_as_it_predicts():
    X, y = numeric()
    members = [
        ("forest", RandomForestRegressor(10, random_state=0)),
        ("extra", ExtraTreesRegressor(10, random_state=0)),
    ]
    model = StackingRegressor(members, LinearRegression(), cv=3).fit(X[:200], y[:200])
    X_new, y_new = X[200:], y[200:]
    scores = debias.score(model, X_new, y_new, scorer="mdi_oob(centre='none')", rows="held-out")
    coefficients, intercept = model.final_estimator_.coef_, model.final_estimator_.intercept_
    root = [np.mean([tree.tree_.value[0, 0, 0] for tree in each.estimators_]) for each in model.estimators_]
    expected = np.mean((model.predict(X_new) - intercept) * y_new) - coefficients @ root * y_new.mean()
    assert raw_sum(scores) == pytest.approx(expected, rel=1e-9)


def test_a_stack_with_scaled_members_scores_as_it_predicts():
    X, y = numeric()
    members = [(name, RandomForestRegressor(5, random_state=k)) for k, name in enumerate("ab")]
    model = StackingRegressor(members, make_pipeline(StandardScaler(), MaxAbsScaler(), RidgeCV()), cv=2)
    model.fit(X[:200], y[:200])
    scores = debias.score(model, X[200:], y[200:], rows="held-out")
    outputs = np.column_stack([each.predict(X) for each in model.estimators_])
    np.testing.assert_allclose(np.ptp(model.predict(X) - outputs @ scores.details["weights"]), 0, atol=1e-12)
    assert "scores are sums over 2 members, times their coefficients" in scores.warnings


def test_a_linear_stack_with_a_link_says_so():
    """It predicts the exponential of the sum, which is on another scale than the members."""
    X, y = numeric()
    y = np.exp(y / 2)
    members = [(name, RandomForestRegressor(5, random_state=k)) for k, name in enumerate("ab")]
    stack = StackingRegressor(members, PoissonRegressor(), cv=2)
    model = stack.fit(X[:200], y[:200])
    sums = np.exp(np.column_stack([each.predict(X) for each in model.estimators_]) @ model.final_estimator_.coef_)
    np.testing.assert_allclose(model.predict(X), sums * np.exp(model.final_estimator_.intercept_))
    scores = debias.score(model, X[200:], y[200:], rows="held-out")
    assert "times their coefficients, of which PoissonRegressor computes its predictions" in scores.warnings[0]
    parts = [debias.score(each, X[200:], y[200:], rows="held-out").values for each in model.estimators_]
    np.testing.assert_allclose(scores.values, model.final_estimator_.coef_ @ parts, rtol=1e-10)
    vote = VotingRegressor([*members, ("s", stack)]).fit(X[:200], y[:200])
    with pytest.raises(debias.UnsupportedModelError, match="outputs on different scales"):
        debias.score(vote, X[200:], y[200:], rows="held-out")
    of_sums = VotingRegressor([*members, ("s", StackingRegressor(members, RidgeCV(), cv=2))]).fit(X[:200], y[:200])
    found = debias.score(of_sums, X[200:], y[200:], rows="held-out")
    assert "scores are sums over 2 members, times their coefficients" in found.warnings


# --- stacks of classifiers -----------------------------------------------------------------------------


def forests_of_classes(**settings):
    """One member has the weights of rare classes, the other all rows."""
    balanced = RandomForestClassifier(8, max_depth=4, class_weight="balanced", random_state=0, **settings)
    return [("forest", balanced), ("extra", ExtraTreesClassifier(8, max_depth=4, random_state=0))]


def boosters_of_classes():
    return [
        ("g", GradientBoostingClassifier(n_estimators=5, random_state=0)),
        ("h", HistGradientBoostingClassifier(max_iter=5, random_state=0)),
    ]


def two_classes(labels=(0, 1)):
    return NUMBERS, np.array(labels)[(RESPONSE > 0).astype(int)]


def sum_of_outputs(model, X):
    """Return the outputs of the members, as debias has them, times their weights, and the constant of the stack."""
    members = unwrap(model, X)
    total = np.full(len(X), model.final_estimator_.decision_function(np.zeros((1, len(members)))).item())
    for member in members:
        ensemble = member.ensemble
        total += member.weight * raw_output(ensemble, route(ensemble, member.X.astype(ensemble.routing_dtype)))[:, -1]
    return total


FINAL = [LogisticRegression(), LogisticRegressionCV(cv=2), SGDClassifier(loss="log_loss", random_state=0),
         RidgeClassifier(), LinearSVC(), LinearDiscriminantAnalysis(),
         make_pipeline(StandardScaler(), "passthrough", RobustScaler(), LogisticRegression()),
         GridSearchCV(make_pipeline(MinMaxScaler(), LogisticRegression()), {"minmaxscaler__clip": [False]}, cv=2),
         ]  # fmt: skip


@pytest.mark.filterwarnings("ignore::FutureWarning")  # LogisticRegressionCV tells of a default
@pytest.mark.parametrize("final", FINAL, ids=lambda final: type(final).__name__)
def test_the_decision_function_of_a_stack_is_the_sum_of_its_members(final):
    X, y = two_classes(("no", "yes"))
    model = StackingClassifier(forests_of_classes(), final, cv=3).fit(X[:200], y[:200])
    np.testing.assert_allclose(sum_of_outputs(model, X), model.decision_function(X), rtol=0, atol=1e-12)
    margins = StackingClassifier(boosters_of_classes(), final, cv=3, stack_method="decision_function")
    margins.fit(X[:200], y[:200])
    np.testing.assert_allclose(sum_of_outputs(margins, X), margins.decision_function(X), rtol=0, atol=1e-12)


def test_a_stack_of_classifiers_scores_as_its_decision_function():
    """By eq. 14 to the letter scores add up to mean(F y) - mean(y) x the roots, F the decision function.

    Both classes have an output, F and -F, and so the scores of members and stack are twice this.
    """
    X, y = two_classes(("no", "yes"))
    model = StackingClassifier(forests_of_classes(), cv=3).fit(X[:200], y[:200])
    X_new, y_new, is_yes = X[200:], y[200:], y[200:] == "yes"
    scores = debias.score(model, X_new, y_new, scorer="mdi_oob(centre='none')", rows="held-out")
    coefficients, intercept = model.final_estimator_.coef_[0], model.final_estimator_.intercept_[0]
    margin = model.decision_function(X_new) - intercept
    root = [np.mean([tree.tree_.value[0, 0] for tree in each.estimators_], axis=0) for each in model.estimators_]
    of_yes = np.mean(margin * is_yes) - coefficients @ [share[1] for share in root] * is_yes.mean()
    rest = coefficients.sum() - margin
    of_no = np.mean(rest * ~is_yes) - coefficients @ [share[0] for share in root] * (~is_yes).mean()
    assert raw_sum(scores) == pytest.approx(of_yes + of_no, rel=1e-9)
    assert scores.details["weights"] == pytest.approx(coefficients.tolist())
    parts = [debias.score(each, X_new, is_yes.astype(int), rows="held-out").values for each in model.estimators_]
    whole = debias.score(model, X_new, y_new, rows="held-out").values
    np.testing.assert_allclose(whole, coefficients @ parts, rtol=1e-10, atol=1e-14)
    assert "in the decision function of LogisticRegression" in scores.warnings[0]


@pytest.mark.parametrize("labels", [(0, 1), ("no", "yes"), (False, True), (3, 7)])
def test_labels_of_a_stack_are_those_of_the_user(labels):
    """scikit-learn fits members to the places of the labels; those that were fitted before have their own."""
    X, y = two_classes(labels)
    places = two_classes()[1]
    expected = debias.score(StackingClassifier(forests_of_classes(), cv=3).fit(X[:200], places[:200]), X[200:],
                            places[200:], rows="held-out").values  # fmt: skip
    model = StackingClassifier(forests_of_classes(), cv=3).fit(X[:200], y[:200])
    for X_new, y_new in ((X[200:], y[200:]), (pd.DataFrame(X[200:]), pd.Series(y[200:]).astype("category"))):
        scores = debias.score(model, X_new, y_new, rows="held-out")
        np.testing.assert_allclose(scores.values, expected, rtol=1e-12)
    with pytest.raises(debias.RowsError, match="labels that the model never saw"):
        debias.score(model, X[200:], np.where(places[200:] == 1, "other", "none"), rows="held-out")


def test_members_of_a_stack_that_were_fitted_before_keep_their_labels():
    X, y = two_classes(("no", "yes"))
    places = two_classes()[1]
    (_, one), (_, other) = forests_of_classes()
    of_labels, of_places = one.fit(X[:100], y[:100]), other.fit(X[:100], places[:100])
    model = StackingClassifier([("a", of_labels), ("b", of_places), ("c", "drop")], cv="prefit").fit(
        X[100:200], y[100:200]
    )
    scores = debias.score(model, X[200:], y[200:], rows="held-out")
    parts = [debias.score(of_labels, X[200:], y[200:], rows="held-out").values,
             debias.score(of_places, X[200:], places[200:], rows="held-out").values]  # fmt: skip
    np.testing.assert_allclose(scores.values, model.final_estimator_.coef_[0] @ parts, rtol=1e-10, atol=1e-14)
    assert "debias cannot tell whether its coefficients were fitted to these rows" in scores.warnings[0]
    turned = RandomForestClassifier(3).fit(X[:100], np.where(y[:100] == "yes", "a", "b"))
    model = StackingClassifier([("t", turned)], cv="prefit").fit(X[100:200], y[100:200])
    with pytest.raises(
        debias.UnsupportedModelError, match=r"member 't' .* to the classes \['a', 'b'\], and the stack to"
    ):
        debias.score(model, X[200:], y[200:], rows="held-out")


def test_a_stack_of_frozen_members_has_the_note_too():
    X, y = two_classes(("no", "yes"))
    member = forests_of_classes()[0][1].fit(X[:100], y[:100])
    model = StackingClassifier([("a", frozen(member))], cv=2).fit(X[100:200], y[100:200])
    scores = debias.score(model, X[200:], y[200:], rows="held-out")
    assert "debias cannot tell whether its coefficients were fitted to these rows" in scores.warnings[0]
    expected = debias.score(member, X[200:], y[200:], rows="held-out").values * model.final_estimator_.coef_.item()
    np.testing.assert_allclose(scores.values, expected, rtol=1e-12)


def test_a_stack_that_dropped_a_member_is_the_stack_without_it():
    X, y = two_classes()
    members = forests_of_classes()
    without = StackingClassifier(members, cv=3).fit(X[:200], y[:200])
    dropped = StackingClassifier([members[0], ("gone", "drop"), members[1]], cv=3).fit(X[:200], y[:200])
    one, other = (debias.score(each, X[200:], y[200:], rows="held-out").values for each in (without, dropped))
    np.testing.assert_array_equal(one, other)


@pytest.mark.thorough
def test_pipelines_sparse_rows_and_weights_are_those_of_the_members():
    X, _ = draw()
    y = (X["age"] + 2 * (X["town"] == "C") > 0.5).to_numpy()
    X = X.assign(colour=X["colour"].fillna("none"))
    members = [(name, pipeline(RandomForestClassifier(5, random_state=k))) for k, name in enumerate("ab")]
    model = StackingClassifier(members, cv=2).fit(X[:200], y[:200])
    scores = debias.score(model, X[200:], y[200:], rows="held-out")
    assert scores.feature_names == tuple(X.columns)
    parts = [debias.score(each, X[200:], y[200:].astype(int), rows="held-out").values for each in model.estimators_]
    np.testing.assert_allclose(scores.values, model.final_estimator_.coef_[0] @ parts, rtol=1e-10, atol=1e-14)

    X, y = two_classes()
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    model = StackingClassifier(forests_of_classes(), cv=2).fit(X[:200], y[:200], sample_weight=weight[:200])
    dense = debias.score(model, X[200:], y[200:], rows="held-out", sample_weight=weight[200:])
    given = {"rows": "held-out", "sample_weight": weight[200:]}
    sparse = debias.score(model, scipy.sparse.csr_array(X[200:]), y[200:], **given)
    np.testing.assert_allclose(sparse.values, dense.values, rtol=1e-12)
    times = weight[200:].astype(int)
    repeated = debias.score(model, X[200:].repeat(times, axis=0), y[200:].repeat(times), rows="held-out")
    np.testing.assert_allclose(dense.values, repeated.values, rtol=1e-9)


@pytest.mark.parametrize("classes", [False, True])
def test_out_of_bag_rows_of_a_stack_have_fitted_its_coefficients(classes):
    """So the scores of noise have a mean above 0: they are given if asked for, with a warning, and not tested."""
    X, y = two_classes(("no", "yes")) if classes else numeric()
    make, forest = (
        (StackingClassifier, RandomForestClassifier) if classes else (StackingRegressor, RandomForestRegressor)
    )
    model = make([(name, forest(8, random_state=k)) for k, name in enumerate("ab")], cv=3).fit(X, y)
    told = f"the coefficients of this {make.__name__} were fitted to predictions of its members for them, so scores on"
    with pytest.raises(debias.ProvenanceError, match=f"these are the training rows, and {told}"):
        debias.score(model, X, y)
    with pytest.warns(debias.DebiasWarning, match=told) as caught:
        scores = debias.score(model, X, y, rows="oob")
    assert sum(told in str(each.message) for each in caught) == 1
    assert (scores.rows, scores.provenance["status"]) == ("oob", "proven")
    of_members = (y == "yes").astype(int) if classes else y
    parts = [debias.score(each, X, of_members).values for each in model.estimators_]
    np.testing.assert_allclose(scores.values, np.ravel(model.final_estimator_.coef_) @ parts, rtol=1e-10, atol=1e-14)
    with pytest.warns(debias.DebiasWarning, match=told):
        audit = debias.audit(model, X, y, rows="oob")
    assert audit.untested_because.startswith(f"the coefficients of this {make.__name__} were fitted to predictions")
    alone = make([("a", forest(8, random_state=0))], cv=3).fit(X, y)  # its one coefficient was fitted to them too
    with pytest.warns(debias.DebiasWarning, match=told):
        assert not debias.audit(alone, X, y, rows="oob").tested
    if not classes:
        before = [(name, member) for (name, _), member in zip(model.estimators, model.estimators_, strict=True)]
        of_other_rows = make(before, RidgeCV(), cv="prefit").fit(X[:100], y[:100])
        assert debias.score(of_other_rows, X, y).rows == "oob"


@pytest.mark.thorough
def test_margins_that_are_added_for_probabilities_are_told():
    X, y = two_classes()
    inner = StackingClassifier(forests_of_classes(), LogisticRegression(), cv=2)
    told = "the margins of the members are added, though the final estimator takes their probabilities"
    for members, method, is_told in (
        (boosters_of_classes(), "auto", True),
        (boosters_of_classes(), "decision_function", False),
        (forests_of_classes(), "auto", False),
        ([("inner", inner)], "decision_function", False),
        ([("inner", inner)], "auto", True),
    ):
        model = StackingClassifier(members, LogisticRegression(), cv=2, stack_method=method).fit(X[:200], y[:200])
        assert (told in debias.score(model, X[200:], y[200:], rows="held-out").warnings) == is_told


def test_votes_of_classes():
    X, y = numeric(classes=True)
    members = [(name, RandomForestClassifier(8, random_state=k)) for k, name in enumerate("ab")]
    model = VotingClassifier(members, voting="soft").fit(X, y)
    scores = debias.score(model, X, y)
    assert scores.rows == "oob"
    alone = [debias.score(forest.fit(X, y), X, y).values for _, forest in members]
    np.testing.assert_allclose(scores.values, np.mean(alone, axis=0), rtol=1e-12)
    audit = debias.audit(model, X, y)
    np.testing.assert_allclose(audit.scores["mdi_oob"].values, scores.values)
    np.testing.assert_array_equal(debias.score(model, X, y, test="auto").p_adjusted, audit.tested_scores.p_adjusted)
    with pytest.raises(debias.UnsupportedModelError, match="voting='hard'"):
        debias.score(VotingClassifier(members).fit(X, y), X, y)
    model.weights = [1, -1]
    with pytest.raises(debias.UnsupportedModelError, match="weights of this VotingClassifier add up to 0"):
        debias.score(model, X, y)


@pytest.mark.parametrize("classes", [False, True])
def test_several_responses_are_summed(classes):
    X, y = numeric()
    Y = np.column_stack([y, X[:, 1] ** 2])
    Y = (Y > 0.5).astype(int) if classes else Y
    kind, forest = (
        (MultiOutputClassifier, RandomForestClassifier(8, random_state=0))
        if classes
        else (MultiOutputRegressor, RandomForestRegressor(8, random_state=0))
    )
    scores = debias.score(kind(forest).fit(X, Y), X, pd.DataFrame(Y))
    alone = [debias.score(forest.fit(X, column), X, column).values for column in Y.T]
    np.testing.assert_allclose(scores.values, np.sum(alone, axis=0), rtol=1e-12)
    assert scores.rows == "oob"


def test_wrappers_of_any_depth_are_unwrapped():
    X, y = draw()
    X = X.assign(colour=X["colour"].fillna("none"))
    vote = VotingRegressor(
        [("r", RandomForestRegressor(5, random_state=0)), ("e", ExtraTreesRegressor(5, bootstrap=True))]
    )
    inner = Pipeline([("columns", encoder()), ("scale", StandardScaler(with_mean=False)), ("vote", vote)])
    model = GridSearchCV(TransformedTargetRegressor(inner, transformer=StandardScaler()), {}, cv=2).fit(X, y)
    scores = debias.score(model, X, y)
    assert scores.rows == "oob"
    assert scores.feature_names == tuple(X.columns)
    pipe = model.best_estimator_.regressor_
    seen, standard = pipe[:-1].transform(X), (y - y.mean()) / y.std()
    parts = [debias.score(each, seen, standard).values for each in pipe[-1].estimators_]
    source = [X.columns.get_loc(c) for c in ("colour",) * 2 + ("town",) * 5 + ("size",) * 2 + ("age",)]
    expected = np.bincount(source, np.mean(parts, axis=0), minlength=5)
    np.testing.assert_allclose(scores.values, expected, rtol=1e-6, atol=1e-12)


def test_training_rows_beside_held_out_ones_are_transformed_too():
    X, y = draw()
    X = X.assign(colour=X["colour"].fillna("none"))
    model = pipeline(GradientBoostingRegressor(n_estimators=10, random_state=0)).fit(X[:200], y[:200])
    given = (X[200:], y[200:])
    scores = debias.score(model, *given, scorer="ufi", rows="held-out", train=(X[:200], y[:200]))
    see = model[:-1].transform
    inner = debias.score(
        model[-1], see(X[200:]), y[200:], scorer="ufi", rows="held-out", train=(see(X[:200]), y[:200])
    ).values
    assert scores.values.sum() == pytest.approx(inner.sum())


REFUSED = [
    (lambda X, y: RegressorChain(RandomForestRegressor(3)).fit(X, np.c_[y, y]), "passes predicted responses"),
    (lambda X, y: GridSearchCV(RandomForestRegressor(3), {}, cv=2, refit=False).fit(X, y), "refit=False"),
    (lambda X, y: GridSearchCV(RandomForestRegressor(3), {}), "not fitted"),
    (lambda X, y: make_pipeline(StandardScaler(), LinearRegression()).fit(X, y), "no adapter recognises"),
    (
        lambda X, y: StackingRegressor([("a", RandomForestRegressor(3))], RandomForestRegressor(3), cv=2).fit(X, y),
        "by RandomForestRegressor",
    ),
    (
        lambda X, y: StackingRegressor([("a", RandomForestRegressor(3))], passthrough=True, cv=2).fit(X, y),
        "passes X on",
    ),
    (
        lambda X, y: VotingRegressor(
            [("a", RandomForestRegressor(3)), ("b", HistGradientBoostingRegressor(loss="gamma", max_iter=3))]
        ).fit(X, np.exp(y)),
        "different scales",
    ),
]


@pytest.mark.parametrize(("make", "complaint"), REFUSED, ids=[complaint for _, complaint in REFUSED])
def test_what_cannot_be_unwrapped_is_refused_by_name(make, complaint):
    model = make(NUMBERS, RESPONSE)
    with pytest.raises(debias.UnsupportedModelError, match=complaint):
        debias.score(model, NUMBERS, RESPONSE)


FORESTS = [("a", RandomForestClassifier(3, random_state=0))]
REFUSED_STACKS = [
    (
        lambda X, y: StackingClassifier(FORESTS, RandomForestClassifier(3), cv=2).fit(X, np.where(y, "yes", "no")),
        "by RandomForestClassifier: only a linear .* LogisticRegression, .*, with y = numpy.searchsorted",
    ),
    (
        lambda X, y: StackingClassifier(FORESTS, make_pipeline(PolynomialFeatures(), LogisticRegression()), cv=2).fit(
            X, y
        ),
        "combines its members by Pipeline",
    ),
    (
        lambda X, y: StackingClassifier(FORESTS, make_pipeline(MinMaxScaler(clip=True), LogisticRegression())).fit(
            X, y
        ),
        "this StackingClassifier combines its members by Pipeline",
    ),
    (lambda X, y: StackingClassifier(FORESTS, SVC(), cv=2).fit(X, y), "combines its members by SVC"),
    (lambda X, y: StackingClassifier(FORESTS, passthrough=True, cv=2).fit(X, y), "LogisticRegression and passes X"),
    (lambda X, y: StackingClassifier(FORESTS, cv=2).fit(X, np.digitize(X[:, 0], [0, 1])), "tells 3 classes apart"),
    (
        lambda X, y: StackingClassifier(FORESTS, KNeighborsClassifier(), cv=2).fit(X, np.c_[y, ~y].astype(int)),
        "StackingClassifier has 2 responses",
    ),
    (
        lambda X, y: StackingClassifier(FORESTS, stack_method="predict", cv=2).fit(X, y),
        "member 'a' of this StackingClassifier passes predicted labels",
    ),
    (
        lambda X, y: StackingClassifier([("a", RandomForestRegressor(3))], cv=2).fit(X, y),
        "member 'a' of this StackingClassifier passes predicted labels or numbers",
    ),
    (
        lambda X, y: StackingClassifier([*FORESTS, ("l", LogisticRegression())], cv=2).fit(X, y),
        "no adapter recognises sklearn.linear_model._logistic.LogisticRegression",
    ),
    (
        lambda X, y: StackingClassifier([*FORESTS, ("x", HistGradientBoostingClassifier(max_iter=3))], cv=2).fit(
            X, y > 0
        ),
        "the members of this StackingClassifier have outputs on different scales",
    ),
    (  # the inner stack has a margin, and the forest a share
        lambda X, y: VotingClassifier([*FORESTS, ("s", StackingClassifier(FORESTS, cv=2))], voting="soft").fit(
            X, y > 0
        ),
        "the members of this VotingClassifier have outputs on different scales",
    ),
]


@pytest.mark.parametrize(("make", "complaint"), REFUSED_STACKS, ids=[complaint for _, complaint in REFUSED_STACKS])
def test_stacks_of_classes_that_are_no_sums_are_refused_by_name(make, complaint):
    y = RESPONSE > 0
    model = make(NUMBERS, y)
    with pytest.raises(debias.UnsupportedModelError, match=complaint):
        debias.score(model, NUMBERS, y, rows="held-out")


def test_rows_a_transformer_does_not_take_are_refused():
    X, y = draw()
    model = pipeline().fit(X, y)
    with pytest.raises(debias.RowsError, match="has not the columns of this Pipeline .missing: town"):
        debias.score(model, X.drop(columns="town"), y)
    with pytest.raises(debias.RowsError, match="cannot transform X"):
        debias.score(model, X.assign(town="Z"), y)


def test_columns_that_are_not_selected_by_type_score_0():
    X, y = draw()
    X["size"] = X["size"].fillna(0)
    columns = ColumnTransformer([("number", "passthrough", make_column_selector(dtype_include="number"))])
    model = Pipeline([("columns", columns), ("model", RandomForestRegressor(5, random_state=0))]).fit(X, y)
    scores = debias.score(model, X, y).to_frame()["mdi_oob"]
    assert (scores[["town", "colour"]] == 0).all()
    assert scores["age"] > 0


def test_what_looks_at_columns_and_not_at_trees_is_sent_to_them():
    X, y = numeric(classes=True)
    forest = RandomForestClassifier(5, random_state=0)
    wrapped = make_pipeline(StandardScaler(), forest).fit(X, y)
    merit = debias.score(wrapped, X, y, scorer="gini_merit")
    np.testing.assert_array_equal(merit.values, debias.score(None, X, y, scorer="gini_merit").values)
    with pytest.raises(debias.plugin.CompositionError, match="Score X alone"):
        debias.audit(wrapped, X, y, scorers=["gini_merit"])
    search = GridSearchCV(forest, {}, cv=2).fit(X, y)
    expected = debias.compare(forest.fit(X, y), X, y, random_state=0).to_frame()
    pd.testing.assert_frame_equal(debias.compare(search, X, y, random_state=0).to_frame(), expected)


def test_members_of_several_libraries_that_saw_an_array_have_the_same_columns():
    rng = np.random.default_rng(0)
    numbers, fresh = rng.normal(size=(120, 3)), rng.normal(size=(60, 3))
    y = numbers[:, 0] + rng.normal(size=120)
    members = [
        ("forest", RandomForestRegressor(3, random_state=0)),
        ("xgboost", XGBRegressor(n_estimators=3, n_jobs=1)),
        ("lightgbm", LGBMRegressor(n_estimators=3, n_jobs=1, verbose=-1)),
    ]
    vote = VotingRegressor(members, weights=[1, 2, 3]).fit(numbers, y)
    scores = debias.score(vote, fresh, fresh[:, 0], rows="held-out")
    each = [debias.score(model, fresh, fresh[:, 0], rows="held-out").values for model in vote.estimators_]
    assert scores.feature_names == ("x0", "x1", "x2")
    np.testing.assert_allclose(scores.values, np.average(each, axis=0, weights=[1, 2, 3]), rtol=1e-12)


# --- bags of several trees each ------------------------------------------------------------------------


@pytest.mark.parametrize("named", [False, True])
def test_a_bag_of_boosted_models_is_the_mean_of_its_members(named):
    """Its members see other columns of the same table, as an array without names."""
    X, y = numeric()
    X = pd.DataFrame(X).add_prefix("number ") if named else X
    bag = BaggingRegressor(XGBRegressor(n_estimators=4, n_jobs=1), 3, max_features=0.7, random_state=0)
    bag.fit(X[:200], y[:200])
    fresh = X[200:][X.columns[::-1]] if named else X[200:]  # named columns may have another order
    audit = debias.audit(bag, fresh, y[200:], rows="held-out", random_state=0)
    names = tuple(X.columns) if named else tuple(f"x{k}" for k in range(X.shape[1]))
    expected = np.zeros(X.shape[1])
    for member, features in zip(bag.estimators_, bag.estimators_features_, strict=True):
        assert len(set(features)) < X.shape[1]
        values = debias.score(member, np.asarray(X)[200:, features], y[200:], rows="held-out").values
        np.add.at(expected, features, values / 3)
    assert audit.tested_scores.feature_names == names
    np.testing.assert_allclose(audit.tested_scores.values, expected, rtol=1e-10)
    assert audit.tested
    assert audit.n_values.tolist() == [100, 100, 100]  # the first member sees two of the columns
    assert audit.performance.value == pytest.approx(bag.score(X[200:], y[200:]))


@pytest.mark.skipif(
    tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9),
    reason="forests keep the weights of a bag since scikit-learn 1.9",
)
def test_training_rows_of_a_bag_of_forests_count_alike():
    """The bag gives each forest weights, how often it drew each row: the user has none to pass."""
    X, y = numeric()
    bag = BaggingRegressor(RandomForestRegressor(8, random_state=0), 3, random_state=0).fit(X, y)
    scores = debias.score(bag, X, y)
    assert scores.rows == "oob"
    of_members = [debias.score(each, X, y, sample_weight=np.ones(len(y))).values for each in bag.estimators_]
    np.testing.assert_allclose(scores.values, np.mean(of_members, axis=0), rtol=1e-10)
    # Weights of the user's own count, and are asked for by a forest that the user weighted.
    with pytest.warns(debias.DebiasWarning, match="trained with other weights"):
        weighted = debias.score(bag, X, y, sample_weight=np.where(y > y.mean(), 3.0, 1.0), rows="oob")
    assert not np.allclose(weighted.values, scores.values)
    with pytest.raises(debias.ProvenanceError, match="was trained with sample_weight, and these training rows"):
        debias.score(bag.estimators_[0], X, y)


@pytest.mark.parametrize("rows", ["auto", "oob"])
def test_training_rows_of_a_bag_of_forests_without_their_weights_are_refused_with_the_reason(rows):
    """As before scikit-learn 1.9, and in models that it saved: the bags cannot be drawn again."""
    X, y = numeric()
    bag = BaggingRegressor(RandomForestRegressor(8, random_state=0), 3, random_state=0).fit(X[:200], y[:200])
    for forest in bag.estimators_:
        vars(forest).pop("_sample_weight", None)
    with pytest.raises(debias.ProvenanceError, match="weights in training, .* does not keep them"):
        debias.score(bag, X[:200], y[:200], rows=rows)
    assert debias.score(bag, X[200:], y[200:]).rows == "held-out"


def test_a_bag_of_classifiers_takes_labels_and_refuses_others():
    X, labels = numeric(classes=True)
    y = (labels == "yes").astype(int)
    members = XGBClassifier(n_estimators=4, n_jobs=1)
    bag = BaggingClassifier(members, 3, random_state=0).fit(X[:200], labels[:200])
    audit = debias.audit(bag, X[200:], labels[200:], rows="held-out", random_state=0)
    brier = np.mean((bag.predict_proba(X[200:])[:, 1] - y[200:]) ** 2)
    assert audit.performance.value == pytest.approx(brier)
    votes = [debias.score(each, X[200:], y[200:], rows="held-out").values for each in bag.estimators_]
    np.testing.assert_allclose(audit.tested_scores.values, np.mean(votes, axis=0), rtol=1e-10)
    with pytest.raises(debias.RowsError, match=r"labels that the model never saw: \['maybe'\]"):
        debias.score(bag, X[200:], np.where(y[200:] == 1, "maybe", "no"), rows="held-out")
    with pytest.warns(debias.DebiasWarning, match="training rows"):
        debias.audit(bag, X[:200], labels[:200])
