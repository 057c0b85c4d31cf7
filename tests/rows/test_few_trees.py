"""Sums of the parts of the loss from a few trees a row, beside those from all trees."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from xgboost import XGBRegressor

from debias.models.wrappers import extract
from debias.rows import few_trees
from debias.rows.few_trees import sums_of_few_trees, trees_a_row
from debias.trees.routing import raw_output, route
from debias.trees.shapley import expected_output, shapley_sums, shapley_sums_of_trees
from support.missing_values import needs_them_in_forests

P, UNUSED, N_TREES = 6, 5, 12
MODELS = {
    "numbers": (RandomForestRegressor(N_TREES, max_features=2, random_state=0), "numbers"),
    "two responses": (RandomForestRegressor(N_TREES, max_features=2, random_state=0), "two responses"),
    "two classes": (RandomForestClassifier(N_TREES, random_state=0), "two classes"),
    "three classes": (RandomForestClassifier(N_TREES, random_state=0), "three classes"),
    "missing values": (RandomForestRegressor(N_TREES, max_features=2, random_state=0), "missing values"),
}


def drawn(task, n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, P))
    X[:, UNUSED] = 1.0
    mean, noise = X[:, 0] + X[:, 1] * (X[:, 2] > 0), rng.normal(size=n)
    if task == "missing values":
        X[rng.random(X.shape) < 0.1] = np.nan
    y = {
        "two responses": np.column_stack([mean + noise, noise - 3 * mean]),
        "two classes": (mean + noise > 0.5).astype(int),
        "three classes": np.digitize(mean + noise, [-0.5, 1.0]),
    }
    return X, y.get(task, mean + noise)


@pytest.fixture(
    scope="module",
    params=[pytest.param(each, marks=needs_them_in_forests if each == "missing values" else ()) for each in MODELS],
)
def case(request):
    model, task = MODELS[request.param]
    ensemble = extract(model.fit(*drawn(task, 400, 0)))
    return ensemble, *rows_of(ensemble, task, 1100)


def rows_of(ensemble, task, n, seed=1):
    """Rows, factors of them, and what their Shapley values add up to."""
    X = np.ascontiguousarray(drawn(task, n, seed)[0], dtype=ensemble.routing_dtype)
    output = raw_output(ensemble, route(ensemble, X)) - expected_output(ensemble)
    slope = output + 0.3 * np.random.default_rng(seed).normal(size=(2, n, ensemble.n_outputs))
    return X, slope, output


def assert_near(found, expected, times=1e-12):
    np.testing.assert_allclose(found, expected, rtol=0, atol=times * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("n", [1, 30, 700])
def test_the_mean_over_all_trees_is_the_sum_of_the_forest(case, n):
    ensemble, X, factor, _ = case
    of_trees = shapley_sums_of_trees(ensemble, np.arange(N_TREES), X[:n], factor[:, :n])
    assert of_trees.shape == (N_TREES, 2, P)
    assert_near(of_trees.mean(axis=0), shapley_sums(ensemble, X[:n], factor[:, :n]))
    some = np.array([7, 2])
    np.testing.assert_array_equal(shapley_sums_of_trees(ensemble, some, X[:n], factor[:, :n], n_jobs=2), of_trees[some])


@pytest.mark.parametrize("n", [0, 1, 499, 1100])
def test_with_all_trees_nothing_is_estimated(case, n):
    ensemble, X, factor, output = case
    found = sums_of_few_trees(ensemble, X[:n], factor[:, :n], output[:n], N_TREES)
    assert_near(found, shapley_sums(ensemble, X[:n], factor[:, :n]))


@pytest.mark.parametrize("n", [1, 90, 1100])
def test_estimates_add_up_and_unused_features_have_none(case, n):
    ensemble, X, factor, output = case
    found = sums_of_few_trees(ensemble, X[:n], factor[:, :n], output[:n], 2)
    assert_near(found.sum(axis=1), np.einsum("jic,ic->j", factor[:, :n], output[:n]))
    if not np.isnan(X).any():
        assert (found[:, UNUSED] == 0).all()


def test_the_same_rows_get_the_same_trees(case):
    ensemble, X, factor, output = case
    found = sums_of_few_trees(ensemble, X, factor, output, 3)
    np.testing.assert_array_equal(sums_of_few_trees(ensemble, X, factor, output, 3, n_jobs=2), found)
    other = X.copy()
    other[0, 0] += 1
    assert (sums_of_few_trees(ensemble, other, factor, output, 3) != found).any()


def test_estimates_lie_around_the_exact_sums(case, monkeypatch):
    ensemble, X, factor, output = case
    exact = shapley_sums(ensemble, X, factor)
    monkeypatch.setattr(few_trees, "ROWS_OF_A_BLOCK", 200)
    found = []
    for number in range(40):
        monkeypatch.setattr(few_trees, "crc32", lambda _, number=number: number)
        found.append(sums_of_few_trees(ensemble, X, factor, output, 2))
    error, spread = np.mean(found, axis=0) - exact, np.std(found, axis=0, ddof=1)
    assert (spread[:, :UNUSED] > 0).all()
    assert (np.abs(error) <= 4 * spread / np.sqrt(len(found)) + 1e-12).all()
    assert spread.max() < 0.1 * np.abs(exact).max()


def test_trees_that_are_all_alike_are_exact():
    X, y = drawn("numbers", 300, 0)
    ensemble = extract(RandomForestRegressor(5, bootstrap=False, max_depth=4, random_state=0).fit(X, y))
    X, factor, output = rows_of(ensemble, "numbers", 50)
    assert_near(sums_of_few_trees(ensemble, X, factor, output, 2), shapley_sums(ensemble, X, factor))
    assert (sums_of_few_trees(ensemble, X, 0 * factor, output, 2) == 0).all()


def test_equal_trees_of_a_block_do_not_tell_where_the_rest_belongs(monkeypatch):
    X, y = drawn("numbers", 300, 0)
    ensemble = extract(RandomForestRegressor(6, random_state=0).fit(X, y))
    X, factor, output = rows_of(ensemble, "numbers", 50)
    exact = shapley_sums(ensemble, X, factor)
    one = shapley_sums_of_trees(ensemble, np.array([0]), X, factor)
    monkeypatch.setattr(few_trees, "shapley_sums_of_trees", lambda *_: np.concatenate([one, one]))
    np.testing.assert_array_equal(sums_of_few_trees(ensemble, X, factor, output, 2), exact)


@pytest.mark.thorough
def test_only_forests_of_large_trees_are_estimated():
    X, y = drawn("numbers", 3000, 0)
    forest = RandomForestRegressor(20, n_jobs=1, random_state=0)
    grown = extract(forest.fit(X, y))
    n_leaves = (grown.left < 0).sum() / 20
    assert few_trees.leaves_of_a_tree(grown) == n_leaves
    assert trees_a_row(grown) == round(20 * 256 / n_leaves) < 20
    assert trees_a_row(extract(forest.set_params(max_leaf_nodes=256).fit(X, y))) == 20
    assert trees_a_row(extract(RandomForestRegressor(3, random_state=0).fit(X, y))) == 2
    assert trees_a_row(extract(XGBRegressor(n_estimators=4, max_depth=20, n_jobs=1).fit(X, y))) == 4
