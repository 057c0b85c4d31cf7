"""The outputs of rows that are added up while rows are routed, or summed at leaves: the same bits as from leaves."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from xgboost import XGBClassifier, XGBRegressor

import debias
from debias.data.response import encode
from debias.data.table import RoutedTable, Table
from debias.rows.node_totals import NodeTotals
from debias.trees.routing import KnownLeaves, Router, raw_output, route
from debias.warning_log import WarningLog

N = 5000  # enough for bins
MODELS = {
    "forest of classes": RandomForestClassifier(7, max_depth=6, random_state=0),
    "forest of numbers": RandomForestRegressor(7, random_state=0),
    "booster with bins": XGBRegressor(n_estimators=12, max_depth=4, n_jobs=1),
    "booster of classes": XGBClassifier(n_estimators=5, max_depth=3, n_jobs=1),
    "deep booster": XGBRegressor(n_estimators=6, max_depth=12, n_jobs=1),
}


@pytest.fixture(scope="module", params=MODELS)
def routed(request):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 5)).astype(np.float32)
    y = X[:, 0] + rng.normal(size=N)
    y = y if "Regressor" in type(MODELS[request.param]).__name__ else np.digitize(y, [-1, 1])
    ensemble = debias.plugin.extract(MODELS[request.param].fit(X[:1000], y[:1000]))
    return ensemble, X, encode(y, ensemble, N)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_sums_with_outputs_are_the_sums_and_the_outputs(routed, n_jobs):
    ensemble, X, response = routed
    weight = np.random.default_rng(1).random(N)
    alone, together = NodeTotals(ensemble), NodeTotals(ensemble)
    raw = np.zeros((N, ensemble.n_outputs))
    alone.add_routed(Router(ensemble, X, None, n_jobs), response, weight)
    together.add_routed(Router(ensemble, X, None, n_jobs), response, weight, raw=raw)
    for name in ("n", "s", "q"):
        np.testing.assert_array_equal(getattr(together, name), getattr(alone, name))
    raw /= ensemble.n_trees if ensemble.averaged else 1
    np.testing.assert_array_equal(raw + ensemble.base, raw_output(ensemble, route(ensemble, X)))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_outputs_of_some_trees_are_added_whether_rows_are_routed_or_their_leaves_known(routed, n_jobs):
    ensemble, X, _ = routed
    trees = np.arange(1, ensemble.n_trees - 1)
    leaves = route(ensemble, X)
    expected = np.zeros((N, ensemble.n_outputs))
    for tree in trees.tolist():
        output = slice(ensemble.tree_output[tree], ensemble.tree_output[tree] + ensemble.value.shape[1])
        expected[:, output] += ensemble.value[ensemble.tree_start[tree] + leaves[:, tree]]
    table = Table(X).aligned_to(ensemble, WarningLog())
    router = Router(ensemble, X, None, n_jobs)
    for rows in (router, router.known(), KnownLeaves(ensemble, leaves), RoutedTable(ensemble, table)):
        raw = np.zeros((N, ensemble.n_outputs))
        rows.add_outputs(trees, raw)
        np.testing.assert_array_equal(raw, expected)
        np.testing.assert_array_equal(rows.leaves(trees), leaves[:, trees])


def test_known_leaves_of_some_trees_with_gaps_give_the_same(routed):
    ensemble, X, _ = routed
    trees = np.array([0, 1, 4])
    router, leaves = Router(ensemble, X, None, 1), route(ensemble, X)
    expected = np.zeros((N, ensemble.n_outputs))
    router.add_outputs(trees, expected)
    for rows in (router.known(), KnownLeaves(ensemble, leaves)):
        raw = np.zeros((N, ensemble.n_outputs))
        rows.add_outputs(trees, raw)
        np.testing.assert_array_equal(raw, expected)
        np.testing.assert_array_equal(rows.leaves(trees), leaves[:, trees])


def test_rows_that_are_left_out_of_a_tree_get_nothing_of_it():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)).astype(np.float32)
    ensemble = debias.plugin.extract(RandomForestRegressor(4, random_state=0).fit(X, X[:, 0]))
    skip = rng.random((4, 300)) < 0.6
    raw = np.zeros((300, 1))
    Router(ensemble, X, np.packbits(skip, axis=1)).add_outputs(np.arange(4), raw)
    leaves, expected = route(ensemble, X), np.zeros(300)
    for tree in range(4):
        value = ensemble.value[ensemble.tree_start[tree] + leaves[:, tree], 0]
        expected += np.where(skip[tree], 0.0, value)
    np.testing.assert_array_equal(raw[:, 0], expected)
