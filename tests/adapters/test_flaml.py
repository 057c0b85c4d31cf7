"""Tests of the adapter of FLAML, against the library."""

from __future__ import annotations

import pickle
import warnings
from copy import copy
from functools import reduce

import numpy as np
import pandas as pd
import pytest

import debias
from debias.data.table import Table
from debias.errors import ProvenanceError, RowsError, UnsupportedModelError, UntrustedModelError
from debias.models.wrappers import unwrap
from debias.testing import check_adapter
from debias.trees.routing import raw_output, route
from debias.warning_log import WarningLog

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore:Series.dt.day:Warning"),  # FLAML calls what pandas 3.1 deprecates
]
N = 200
TREES = ["lgbm", "xgboost", "xgb_limitdepth", "rf", "extra_tree", "histgb", "catboost"]


@pytest.fixture(scope="module")
def flaml():
    with warnings.catch_warnings():  # of pyspark, which FLAML imports where it is installed
        warnings.simplefilter("ignore")
        return pytest.importorskip("flaml")


def rows(seed, n=N):
    """Return a frame with numbers, missing values, categories, text, a constant and dates, and a response."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "constant": 1.0,
            "number": rng.normal(size=n),
            "category": pd.Categorical(rng.choice(["u", "v", "w"], n)),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D"),
            "text": pd.Series(rng.choice(["x", "y"], n)),
            "noise": rng.integers(0, 5, n),
        }
    )
    y = X["number"] + 2 * (X["category"] == "u") + (X["day"].dt.month > 6) + 0.3 * rng.normal(size=n)
    X.loc[rng.random(n) < 0.1, "number"] = np.nan
    return X, y.to_numpy()


def labels(y):
    return np.where(y > 1, "yes", "no")


def search(flaml, X, y, estimator="rf", task="regression", **settings):
    found = flaml.AutoML()
    estimators = [estimator] if isinstance(estimator, str) else estimator
    fixed = {"max_iter": len(estimators), "time_budget": -1, "seed": 1, "n_jobs": 1, "verbose": 0, "log_file_name": ""}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found.fit(X, y, task=task, estimator_list=estimators, **{**fixed, **settings})
    return found


def output(member):
    """Return what the trees of a member say of its rows: means, or margins."""
    ensemble = member.ensemble
    table = Table(member.X).aligned_to(ensemble, WarningLog())
    return raw_output(ensemble, route(ensemble, table.matrix(ensemble)))


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("estimator", TREES)
def test_the_trees_inside_give_the_predictions_of_the_search(flaml, estimator, task):
    X, y = rows(0)
    X_new, y_new = rows(1)
    if task == "classification":
        y, y_new = labels(y), labels(y_new)
    found = search(flaml, X, y, estimator, task)
    (member,) = unwrap(found, X_new, y_new)
    trees = output(member)
    if task == "regression":
        np.testing.assert_allclose(trees[:, 0], found.predict(X_new), rtol=1e-5, atol=1e-6)
    else:
        positive = trees[:, 1] if trees.shape[1] == 2 else 1 / (1 + np.exp(-trees[:, 0]))
        np.testing.assert_allclose(positive, found.predict_proba(X_new)[:, 1], rtol=1e-5, atol=1e-6)
    scores = debias.score(found, X_new, y_new, rows="held-out")
    assert set(scores.feature_names) >= {"number", "category", "day", "text", "noise"}
    assert "constant" not in scores.feature_names
    assert any("differ in each row, without a score: 1" in text for text in scores.warnings)


def test_parts_of_dates_count_for_the_date(flaml):
    X, y = rows(0)
    found = search(flaml, X, y, "lgbm", max_iter=5)
    X_new, y_new = rows(1)
    by_source = debias.score(found, X_new, y_new, rows="held-out").to_frame()["mdi_oob"]
    by_model = debias.score(found, X_new, y_new, rows="held-out", level="model").to_frame()["mdi_oob"]
    of_day = [name for name in by_model.index if name == "day" or name.endswith("_day")]
    assert "month_day" in of_day
    np.testing.assert_allclose(by_source["day"], by_model[of_day].sum(), rtol=1e-12)
    np.testing.assert_allclose(by_source.sum(), by_model.sum(), rtol=1e-12)


def test_combined_categories_of_catboost_are_scored_one_by_one_at_the_level_of_the_model(flaml):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"number": rng.normal(size=200), "one": rng.choice(list("abcde"), 200)}).astype({"one": object})
    X["other"] = pd.Series(rng.choice(list("abcde"), 200), dtype=object)
    y = (X["number"] + (X["one"] == "a") + rng.normal(size=200)).to_numpy()
    found = search(flaml, X, y, "catboost", max_iter=2)
    by_model = debias.score(found, X, y, rows="held-out", level="model")
    (member,) = unwrap(found)
    assert by_model.feature_names == member.ensemble.feature_names
    assert any(" + " in name for name in by_model.feature_names)


def test_a_column_with_the_name_of_a_part_of_a_date_is_refused(flaml):
    X, y = rows(0)
    X["month_day"] = np.random.default_rng(3).integers(0, 4, N)
    found = search(flaml, X, y, "lgbm")
    with pytest.raises(RowsError, match="'month_day', which is also FLAML's name for a part of a date"):
        debias.score(found, X, y)


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_training_rows_of_a_forest_are_proven_in_the_order_of_flaml(flaml, task):
    X, y = rows(0)
    y = labels(y) if task == "classification" else y
    found = search(flaml, X, y, task=task, max_iter=5)
    scores = debias.score(found, X, y, rows="oob")
    assert scores.provenance["status"] == "proven"
    forest, prepared = found.model.estimator, found.model._preprocess(found.preprocess(X))
    # The few trees of the search have drawn some rows all of them: these are not evaluated.
    in_every_bag = reduce(np.intersect1d, forest.estimators_samples_)
    assert scores.n_rows == N - len(in_every_bag)
    # The same forest with its rows in the order of training, without FLAML.
    order = np.random.RandomState(1).permutation(N)
    y_order = (y == "yes").astype(int)[order] if task == "classification" else y[order]
    direct = debias.score(forest, prepared.iloc[order].reset_index(drop=True), y_order, rows="oob")
    assert direct.provenance["status"] == "proven"
    by_model = debias.score(found, X, y, rows="oob", level="model")
    np.testing.assert_allclose(by_model.values, direct.values, rtol=1e-10, atol=1e-14)
    with pytest.raises(ProvenanceError, match="not the training rows in training order"):
        debias.score(found, X[::-1], y[::-1], rows="oob")
    with pytest.raises(ProvenanceError, match="trained on 200 rows, but X has 199"):
        debias.score(found, X[1:], y[1:], rows="oob")
    phi = debias.contributions(found, X, y)
    np.testing.assert_allclose(phi.sum(), scores.values, rtol=1e-10, atol=1e-14)


def test_rows_of_rare_classes_are_out_of_bag_if_all_their_copies_are(flaml):
    X, y = rows(0)
    classes = np.digitize(y, [1.0, np.sort(y)[-7]])  # the last has 7 rows, which FLAML makes 21
    found = search(flaml, X, classes, task="classification")
    forest = found.model.estimator
    n_copies = forest._n_samples - N
    assert n_copies == 2 * (classes == 2).sum() > 0
    scores = debias.score(found, X, classes, rows="oob")
    assert scores.provenance["status"] == "proven"
    # From the definition: a row is evaluated for a tree only if none of its copies was drawn.
    rare = np.flatnonzero(classes == 2)
    original = np.random.RandomState(1).permutation(np.concatenate([np.arange(N), rare, rare]))
    prepared, values = found.model._preprocess(found.preprocess(X)), np.zeros(X.shape[1] - 1)
    one_tree = copy(forest)
    for tree, drawn in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        out = np.setdiff1d(np.arange(N), original[drawn])
        one_tree.estimators_ = [tree]
        by_model = debias.score(one_tree, prepared.iloc[out], classes[out], rows="held-out")
        for name, value in zip(by_model.feature_names, by_model.values, strict=True):
            values[X.columns.get_loc("day" if name.endswith("_day") else name) - 1] += value / forest.n_estimators
    np.testing.assert_allclose(scores.to_frame()["mdi_oob"][list(X.columns[1:])], values, rtol=1e-10, atol=1e-14)


def test_weights_follow_their_rows(flaml):
    X, y = rows(0)
    weight = np.random.default_rng(5).integers(1, 4, N).astype(float)
    found = search(flaml, X, y, sample_weight=weight)
    assert debias.score(found, X, y, rows="oob", sample_weight=weight).provenance["status"] == "proven"


@pytest.mark.parametrize("estimator", ["lgbm", "extra_tree", "histgb"])
def test_training_rows_of_models_without_bags_are_refused_in_any_order(flaml, estimator):
    X, y = rows(0)
    found = search(flaml, X, y, estimator, max_iter=5)
    with pytest.raises(ProvenanceError, match="training rows"):
        debias.score(found, X, y)
    with pytest.raises(ProvenanceError, match="training rows"):
        debias.score(found, X[::-1], y[::-1])


def test_arrays_are_passed_on(flaml):
    X, y = rows(0)
    numbers = X[["noise", "number"]].fillna(0).to_numpy()
    found = search(flaml, numbers, y)
    scores = debias.score(found, numbers, y, rows="oob")
    assert scores.provenance["status"] == "proven"
    assert len(scores.values) == 2


def test_an_array_of_labels_is_refused(flaml):
    X, y = rows(0)
    array = X[["noise", "text"]].astype(object).to_numpy()
    found = search(flaml, array, y)
    with pytest.raises(RowsError, match=r"numbers the labels in an array anew in each call.*data frame"):
        debias.score(found, array, y)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["rf", "lgbm"])
def test_scores_of_noise_have_mean_zero(flaml, estimator):
    def score(seed):
        rng = np.random.default_rng(seed)
        X = pd.DataFrame({"fine": rng.normal(size=120), "coarse": rng.integers(0, 2, 120)})
        y = rng.normal(size=120)
        fixed = {"n_estimators": {"domain": 10}, "max_leaves": {"domain": 30}}
        found = search(flaml, X, y, estimator, custom_hp={estimator: fixed})
        if estimator == "rf":
            return debias.score(found, X, y, rows="oob").values
        X_new = pd.DataFrame({"fine": rng.normal(size=120), "coarse": X["coarse"].to_numpy()})
        return debias.score(found, X_new, rng.normal(size=120), rows="held-out").values

    values = np.array([score(seed) for seed in range(50)])
    z = values.mean(axis=0) / (values.std(axis=0, ddof=1) / np.sqrt(len(values)))
    assert (abs(z) < 3.3).all()


def test_a_stack_with_a_linear_end_is_the_sum_of_its_members(flaml):
    from sklearn.linear_model import LinearRegression

    X, y = rows(0)
    ensemble = {"final_estimator": LinearRegression(), "passthrough": False, "n_jobs": 1}
    found = search(flaml, X, y, ["rf", "extra_tree"], max_iter=4, ensemble=ensemble, learner_selector="roundrobin")
    X_new, y_new = rows(1)
    members = unwrap(found, X_new, y_new)
    total = sum(member.weight * output(member)[:, 0] for member in members) + found.model.final_estimator_.intercept_
    np.testing.assert_allclose(total, found.predict(X_new), rtol=1e-10)
    scores = debias.score(found, X_new, y_new, rows="held-out")
    np.testing.assert_allclose(scores.details["weights"], found.model.final_estimator_.coef_)
    assert scores.values[scores.feature_names.index("number")] > 0


def test_a_stack_that_passes_columns_on_is_refused(flaml):
    X, y = rows(0)
    X = X[["number", "noise"]].fillna(0)
    found = search(flaml, X, y, ["rf", "extra_tree"], max_iter=4, ensemble={"n_jobs": 1}, learner_selector="roundrobin")
    with pytest.raises(UnsupportedModelError, match="StackingRegressor combines its members"):
        debias.score(found, X, y)


@pytest.mark.parametrize(("estimator", "task"), [("lrl1", "classification"), ("kneighbor", "regression")])
def test_a_model_without_trees_is_refused(flaml, estimator, task):
    X, y = rows(0)
    X = X[["number", "noise"]].fillna(0)
    y = labels(y) if task == "classification" else y
    found = search(flaml, X, y, estimator, task)
    with pytest.raises(UnsupportedModelError, match=r"LogisticRegression|KNeighborsRegressor"):
        debias.score(found, X, y)


def test_a_search_that_is_not_fitted_is_refused(flaml):
    with pytest.raises(UnsupportedModelError, match="holds no model: it is not fitted"):
        debias.score(flaml.AutoML(), *rows(0))


def test_a_ranking_is_refused(flaml):
    X, y = rows(0)
    X = X[["number", "noise"]].fillna(0)
    found = search(flaml, X, np.digitize(y, [0, 1]), "lgbm", "rank", groups=np.repeat(np.arange(10), N // 10))
    with pytest.raises(UnsupportedModelError, match="task 'rank'"):
        debias.score(found, X, y)


def test_meta_methods_refit_the_model_that_was_found(flaml):
    X, y = rows(0)
    found = search(flaml, X, y, max_iter=3)
    again = debias.refit(found, X, y, random_state=3)
    assert again.best_estimator == found.best_estimator
    assert again.model.estimator.n_estimators == found.model.estimator.n_estimators
    assert debias.score(again, X, y, rows="oob").provenance["status"] == "proven"
    scores = debias.score(found, X, y, "response_permutation(mdi, replicates=10)", random_state=0)
    assert scores.p_value[scores.feature_names.index("number")] < 0.2


def test_the_adapter_keeps_its_contract(flaml):
    X, y = rows(0)
    X = X.drop(columns="constant")
    found = search(flaml, X, y)
    assert check_adapter(found, X, y) == ("debias_unwrap",)
    assert check_adapter(found.model, found.preprocess(X), y) == ("debias_unwrap",)
    loaded = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(debias.score(loaded, X, y).values, debias.score(found, X, y).values)


def test_a_pickled_search_needs_trust_and_scores_the_same(flaml, tmp_path):
    X, y = rows(0)
    found = search(flaml, X, y)
    path = tmp_path / "search.pkl"
    path.write_bytes(pickle.dumps(found))
    with pytest.raises(UntrustedModelError, match="allow_pickle"):
        debias.load_model(path)
    loaded = debias.load_model(path, allow_pickle=True)
    np.testing.assert_array_equal(debias.score(loaded, X, y).values, debias.score(found, X, y).values)
