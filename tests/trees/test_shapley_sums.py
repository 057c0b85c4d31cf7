"""Sums over rows of Shapley values times factors: those of the values of each row, which other tests prove."""

import numpy as np
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor
from xgboost import XGBClassifier, XGBRegressor

import debias
from debias.models.wrappers import extract
from debias.trees import shapley
from debias.trees.shapley import shapley_sums, shapley_values

P = 24
BOOSTED = {"n_estimators": 20, "n_jobs": 1}
LEAFWISE = {**BOOSTED, "max_depth": 0, "grow_policy": "lossguide"}
MODELS = {
    "a forest": (RandomForestRegressor(20, max_depth=5, random_state=0), "numbers"),
    "deep trees with many features on a path": (RandomForestRegressor(3, max_features=2, random_state=0), "numbers"),
    "one feature at many splits": (RandomForestRegressor(9, max_depth=9, random_state=0), "one feature"),
    "several responses": (RandomForestRegressor(9, max_depth=4, random_state=0), "several"),
    "two classes": (RandomForestClassifier(9, max_depth=4, random_state=0), "two"),
    "three classes": (RandomForestClassifier(9, max_depth=7, random_state=0), "three"),
    "a booster": (XGBRegressor(max_depth=6, **BOOSTED), "numbers"),
    "a booster by leaves": (XGBRegressor(max_leaves=200, **LEAFWISE), "numbers"),
    "a booster of three classes": (XGBClassifier(max_depth=4, **BOOSTED), "three"),
    "categories and missing values": (LGBMRegressor(num_leaves=60, verbose=-1, **BOOSTED), "categories"),
    "zeros that are missing": (LGBMClassifier(zero_as_missing=True, verbose=-1, **BOOSTED), "two"),
}


def drawn(task, n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 1 if task == "one feature" else P))
    X[rng.random(X.shape) < 0.05] = 0.0
    mean = X[:, 0] + X[:, -1] * (X[:, X.shape[1] // 2] > 0)
    noise = rng.normal(size=n)
    if task == "categories":
        X[:, 1] = rng.integers(12, size=n)
        mean = mean + X[:, 1] % 3
        X[rng.random(X.shape) < 0.1] = np.nan
    y = {
        "several": np.column_stack([mean + noise, noise - 3 * mean]),
        "two": (mean + noise > 0.5).astype(int),
        "three": np.digitize(mean + noise, [-0.5, 1.0]),
    }
    return X, y.get(task, mean + noise)


@pytest.fixture(scope="module", params=MODELS)
def case(request):
    model, task = MODELS[request.param]
    further = {"categorical_feature": [1]} if task == "categories" else {}
    model.fit(*drawn(task, 1500, 0), **further)
    return extract(model), task


def rows_of(ensemble, task, n, seed=1):
    rng = np.random.default_rng(seed)
    X = np.ascontiguousarray(drawn(task, n, seed)[0], dtype=ensemble.routing_dtype)
    return X, rng.normal(size=(2, n, ensemble.n_outputs))


def by_rows(ensemble, X, factor):
    return np.einsum("jic,ikc->jk", factor, shapley_values(ensemble, X))


def assert_equal_sums(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("n", [1, 30, 700])
def test_sums_are_those_of_the_values_of_each_row(case, n):
    X, factor = rows_of(case[0], case[1], n)
    assert_equal_sums(shapley_sums(case[0], X, factor), by_rows(case[0], X, factor))


def test_without_rows_sums_are_zero(case):
    X, factor = rows_of(case[0], case[1], 0)
    np.testing.assert_array_equal(shapley_sums(case[0], X, factor), np.zeros((2, case[0].n_features)))


@pytest.mark.parametrize("ours", [0.0, 1e9])
def test_trees_may_be_summed_up_in_both_ways(case, ours, monkeypatch):
    """By the values of rows, if sums are said to take too long; by sums, however long that takes."""
    monkeypatch.setattr(shapley, "OF_A_LEAF", ours)
    X, factor = rows_of(case[0], case[1], 100)
    assert_equal_sums(shapley_sums(case[0], X, factor), by_rows(case[0], X, factor))


def test_threads_and_blocks_of_rows_make_the_same_sums(monkeypatch):
    model, task = MODELS["a booster"]
    ensemble = extract(model.fit(*drawn(task, 1500, 0)))
    X, factor = rows_of(ensemble, task, 700)
    whole = shapley_sums(ensemble, X, factor)
    np.testing.assert_array_equal(shapley_sums(ensemble, X, factor, n_jobs=2), whole)
    monkeypatch.setattr(shapley, "ROWS_OF_SUMS", 128)
    assert_equal_sums(shapley_sums(ensemble, X, factor), whole)


def test_more_features_on_a_path_than_the_sums_take_are_no_obstacle():
    """A chain of 40 features has 40 of them above its last leaves: its values are those of rows."""
    X = np.eye(40)
    ensemble = extract(DecisionTreeRegressor().fit(X, 1.5 ** np.arange(40)))
    factor = np.random.default_rng(0).normal(size=(2, 40, 1))
    rows = X.astype(ensemble.routing_dtype)
    assert_equal_sums(shapley_sums(ensemble, rows, factor), by_rows(ensemble, rows, factor))


def test_a_model_without_training_weights_is_refused():
    from dataclasses import replace

    ensemble = extract(DecisionTreeRegressor(max_depth=2).fit(np.eye(4), np.arange(4)))
    bare = replace(ensemble, averaging_weight=None)
    with pytest.raises(debias.errors.UnsupportedModelError, match="no training weights"):
        shapley_sums(bare, np.zeros((1, 4), dtype=ensemble.routing_dtype), np.zeros((2, 1, 1)))
