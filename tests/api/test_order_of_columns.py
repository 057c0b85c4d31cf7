"""Numbers of a test belong to the features they stand beside, also if the trees see the columns in another order."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestRegressor, StackingRegressor, VotingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder
from xgboost import XGBRegressor

import debias
from debias.errors import CompositionError, UnsupportedModelError

NAMES = ["noise", "x", "weak"]
OTHER = ["weak", "x", "noise"]
TESTED = [
    "ablation",
    "ablation(measure='loss')",
    "ablation(measure='both')",
    "permutation(p_values=True)",
    "oob_loss(p_values=True)",
    "conditional_importance",
    "shap_oob",
    "permutation",
    "mdi_oob",
]
FIELDS = ("values", "standard_error", "z", "p_value", "p_adjusted", "selected")


def intervals(scores):
    """The intervals of scores; of permutation, which has none, a row of NaN each."""
    if scores.scorer.startswith("permutation"):
        return np.full((len(scores.values), 2), np.nan)
    return np.asarray(scores.interval())


@pytest.fixture(scope="module")
def rows():
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(400, 3)), columns=NAMES)
    return X, X["x"] + 0.3 * X["weak"] + 0.5 * random.normal(size=400)


def fitted(columns, X, y, more=()):
    steps = make_column_transformer(*more, *[("passthrough", [name]) for name in columns])
    model = make_pipeline(steps, XGBRegressor(n_estimators=15, max_depth=3, n_jobs=1))
    return model.fit(X[:200], y[:200])


@pytest.mark.thorough
@pytest.mark.parametrize("scorer", TESTED)
def test_scores_are_those_of_the_same_trees_with_columns_in_their_order(scorer, rows):
    X, y = rows
    model = fitted(OTHER, X, y)
    given = {"rows": "held-out", "random_state": 0}
    found = debias.score(model, X[200:], y[200:], scorer, **given)
    same_trees = model[-1]
    expected = debias.score(same_trees, model[0].transform(X[200:]), y[200:], scorer, **given)
    assert found.feature_names == tuple(NAMES)
    order = [OTHER.index(name) for name in NAMES]
    for field in FIELDS:
        ours, theirs = getattr(found, field), getattr(expected, field)
        assert (ours is None) == (theirs is None)
        if theirs is not None:
            np.testing.assert_array_equal(ours, theirs[order])
    for name in ("loss_saved", "standard_error"):
        assert (name in found.details) == (name in expected.details)
        if name in expected.details:
            assert found.details[name] == [expected.details[name][k] for k in order]
    if found.standard_error is not None:
        np.testing.assert_array_equal(intervals(found), intervals(expected)[order])


@pytest.mark.parametrize("scorer", TESTED[:6])
def test_a_column_that_the_steps_drop_is_one_that_no_tree_splits_on(scorer, rows):
    X, y = rows
    model = fitted(["x"], X, y)
    given = {"rows": "held-out", "random_state": 0}
    found = debias.score(model, X[200:], y[200:], scorer, **given)
    alone = debias.score(model[-1], X.loc[200:, ["x"]].to_numpy(), y[200:], scorer, **given)
    assert found.feature_names == tuple(NAMES)
    for field, of_unused in (("values", 0), ("standard_error", 0), ("z", 0), ("p_value", 1), ("p_adjusted", 1)):
        expected = [of_unused, getattr(alone, field)[0], of_unused]
        np.testing.assert_array_equal(getattr(found, field), expected)
    assert found.selected.tolist() == [False, True, False]
    if "p_value_of" in found.details:
        assert all(p[0] is p[2] is None for p in found.details["p_value_of"].values())
    if "loss_saved" in found.details:
        assert found.details["loss_saved"] == [None, alone.details["loss_saved"][0], None]
    np.testing.assert_array_equal(intervals(found)[1], intervals(alone)[0])
    assert debias.Scores.from_json(found.to_json()).to_json() == found.to_json()


@pytest.mark.parametrize("scorer", TESTED[:6])
def test_a_column_that_no_tree_splits_on_keeps_its_place(scorer, rows):
    X, y = rows
    X = X.assign(weak=1.0)
    model = fitted(OTHER, X, y)
    given = {"rows": "held-out", "random_state": 0}
    found = debias.score(model, X[200:], y[200:], scorer, **given)
    expected = debias.score(model[-1], model[0].transform(X[200:]), y[200:], scorer, **given)
    order = [OTHER.index(name) for name in NAMES]
    np.testing.assert_array_equal(intervals(found), intervals(expected)[order])
    assert found.p_value[2] == 1
    for name in ("explained", "allowance", "p_plain", "loss_saved"):
        if name in expected.details:
            assert found.details[name] == [expected.details[name][k] for k in order]


def test_sums_over_several_columns_are_refused_whatever_their_number(rows):
    X, y = rows
    X = X.assign(kind=np.where(X["weak"] > 0, "a", "b"))
    model = fitted(["x"], X, y, [(OneHotEncoder(sparse_output=False), ["kind"])])  # 3 columns of the trees, 4 of X
    with pytest.raises(CompositionError, match="ablation tests columns, so it cannot test sums"):
        debias.score(model, X[200:], y[200:], "ablation", rows="held-out")


@pytest.mark.thorough
def test_out_of_bag_tests_of_shap_values(rows):
    X, y = rows
    steps = make_column_transformer(*[("passthrough", [name]) for name in OTHER])
    model = make_pipeline(steps, RandomForestRegressor(30, random_state=0)).fit(X, y)
    scorer = "shap_oob(p_values=True)"
    found = debias.score(model, X, y, scorer, random_state=0)
    expected = debias.score(model[-1], model[0].transform(X), y, scorer, random_state=0)
    order = [OTHER.index(name) for name in NAMES]
    np.testing.assert_array_equal(found.p_value, expected.p_value[order])
    assert found.null is None or np.array_equal(found.null, expected.null[:, order])


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:the other columns explain", "ignore:conditional_importance could not test")
def test_reasons_by_column_are_told_of_the_features(rows):
    X, y = rows
    site = np.random.default_rng(1).integers(0, 200, 400)
    X = X.assign(noise=site + 0.0, weak=site * 2.0)
    given = {"rows": "held-out", "random_state": 0}
    found = debias.score(fitted(OTHER, X, y), X[200:], y[200:], "conditional_importance", **given)
    assert set(found.details["untested_features"]) & {"noise", "weak"}
    assert set(found.details["untested_features"]) <= set(NAMES)


def summing(columns, others):
    """A pipeline whose trees see two mixtures of some columns, and then the others."""
    mixtures = make_column_transformer((PCA(2, random_state=0), columns), ("passthrough", others))
    return make_pipeline(mixtures, XGBRegressor(n_estimators=15, max_depth=3, n_jobs=1))


def voting(members, X, y):
    return VotingRegressor([(f"m{k}", member) for k, member in enumerate(members)]).fit(X[:200], y[:200])


SAME = [summing([0, 1], [2, 3]), summing([0, 1], [3, 2])]
OTHERS = [summing([0, 1], [2, 3]), summing([1, 2], [0, 3])]


def test_members_that_sum_columns_of_an_array_keep_the_names_of_the_sums(rows):
    X, y = rows
    X = np.column_stack([X, X["noise"]])
    model = voting(SAME, X, y)
    given = {"rows": "held-out"}
    found = debias.score(model, X[200:], y[200:], **given)
    members = [debias.score(member, X[200:], y[200:], **given) for member in model.estimators_]
    assert found.feature_names == members[0].feature_names == ("x2", "x3", "x0 + x1")
    np.testing.assert_allclose(found.values, (members[0].values + members[1].values) / 2)
    phi = debias.contributions(model, X[200:], y[200:], **given)
    assert tuple(phi.columns) == found.feature_names
    np.testing.assert_allclose(phi.sum(), found.values)


@pytest.mark.parametrize("ask", [debias.score, debias.audit, debias.contributions])
@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame])
def test_members_that_sum_other_columns_are_refused(ask, kind, rows):
    X, y = rows
    X = kind(np.column_stack([X, X["noise"]]))
    if kind is pd.DataFrame:
        X.columns = list("abcd")
    model = voting(OTHERS, X, y)
    with pytest.raises(UnsupportedModelError, match="the members of this VotingRegressor have different columns"):
        ask(model, X[200:], y[200:], rows="held-out")


def test_members_that_number_the_columns_of_an_array_in_their_own_way_are_added(rows):
    X, y = rows
    X = X.to_numpy()
    reordered = make_pipeline(make_column_transformer(("passthrough", [2, 0, 1])), XGBRegressor(n_estimators=15))
    model = voting([reordered, XGBRegressor(n_estimators=15)], X, y)
    given = {"rows": "held-out"}
    found = debias.score(model, X[200:], y[200:], **given)
    members = [debias.score(member, X[200:], y[200:], **given) for member in model.estimators_]
    assert found.feature_names == tuple(debias.contributions(model, X[200:], y[200:], **given)) == ("x0", "x1", "x2")
    np.testing.assert_allclose(found.values, (members[0].values + members[1].values) / 2)


def test_details_by_column_are_those_of_features_with_one_column(rows):
    X, y = rows
    X = X.assign(kind=np.where(X["weak"] > 0, "a", "b"), unused=1.0)
    more = [(OneHotEncoder(sparse_output=False), ["kind"])]
    model = fitted(["weak", "x", "noise"], X, y, more)  # 5 columns of the trees, and 5 of X
    given = {"rows": "held-out", "random_state": 0}
    found = debias.score(model, X[200:], y[200:], "permutation", **given)
    transformed = model[0].transform(X[200:])
    error = debias.score(model[-1], transformed, y[200:], "permutation", **given).details["standard_error"]
    assert found.feature_names == ("noise", "x", "weak", "kind", "unused")
    assert found.details["standard_error"] == [error[4], error[3], error[2], None, None]
    grouped = debias.score(model[-1], transformed, y[200:], "permutation", groups={"g": ["f2", "f4"]}, **given)
    assert grouped.feature_names == ("f0", "f1", "g", "f3")
    assert grouped.details["standard_error"] == [error[0], error[1], None, error[3]]


def product(X):
    """The product of two columns, which shows nothing of one if the other is 0."""
    values = np.asarray(X)
    return values[:, [0]] * values[:, [1]]


@pytest.mark.parametrize("step", [PCA(2, random_state=0), FunctionTransformer(product)])
def test_steps_that_mix_columns_get_their_own_if_x_has_another_order(step, rows):
    X, y = rows
    X = X.assign(zero=0.0, other=X["x"] ** 2)
    steps = make_column_transformer((step, ["x", "weak"]), ("passthrough", ["noise", "zero", "other"]))
    model = make_pipeline(steps, XGBRegressor(n_estimators=15, max_depth=3, n_jobs=1)).fit(X[:200], y[:200])
    given = {"rows": "held-out"}
    expected = debias.score(model, X[200:], y[200:], **given)
    assert expected.feature_names == ("noise", "zero", "other", "x + weak")
    found = debias.score(model, X.loc[200:, ["other", "zero", "weak", "noise", "x"]], y[200:], **given)
    assert found.feature_names == expected.feature_names
    np.testing.assert_array_equal(found.values, expected.values)


@pytest.mark.filterwarnings("ignore:y goes down where the predictions")
def test_numbers_of_a_stack_of_one_model_are_those_of_the_model_times_its_coefficient(rows):
    X, y = rows
    of_opposite = XGBRegressor(n_estimators=15, max_depth=3, n_jobs=1).fit(X[:200], -y[:200])
    stack = StackingRegressor([("m", of_opposite)], final_estimator=LinearRegression(), cv="prefit").fit(
        X[:200], y[:200]
    )
    (weight,) = stack.final_estimator_.coef_
    assert weight < 0
    given = {"rows": "held-out", "random_state": 0}
    found, alone = (debias.score(each, X[200:], y[200:], "permutation", **given) for each in (stack, of_opposite))
    np.testing.assert_allclose(found.values, weight * alone.values)
    errors = [each.details["standard_error"] for each in (found, alone)]
    np.testing.assert_allclose(errors[0], -weight * np.array(errors[1]))
    with pytest.raises(CompositionError, match="times a weight. Audit that model .* with ablation"):
        debias.score(stack, X[200:], y[200:], "ablation", **given)
