"""Tests of leaf counts against brute force."""

import numpy as np
import pytest
import xgboost
from scipy.special import expit
from scipy.stats import chi2_contingency

import debias
from debias.data.response import encode
from debias.rows.kernels import leaf_counts as leaf_kernels
from debias.rows.leaf_counts import LeafCounter, looks
from debias.trees.objectives import Objective
from debias.trees.routing import KnownLeaves, route
from support import simulated

N = 300


@pytest.fixture(scope="module")
def data():
    return simulated.rows(N, 4)


CASES = {
    "squared error": ({"objective": "reg:squarederror"}, lambda y: y),
    "logistic": ({"objective": "binary:logistic"}, lambda y: (y > 0).astype(int)),
    "weighted class": ({"objective": "binary:logistic", "scale_pos_weight": 3.0}, lambda y: (y > 0).astype(int)),
    "three classes": ({"objective": "multi:softprob", "num_class": 3}, lambda y: np.digitize(y, [-1, 1])),
    "parallel trees": (
        {"objective": "multi:softprob", "num_class": 3, "num_parallel_tree": 2, "subsample": 0.7},
        lambda y: np.digitize(y, [-1, 1]),
    ),
    "poisson": ({"objective": "count:poisson"}, lambda y: np.round(np.exp(y))),
    "gamma": ({"objective": "reg:gamma"}, lambda y: np.exp(y)),
}


@pytest.mark.parametrize("case", CASES)
def test_sums_of_hessians_are_those_of_every_row_on_its_own(data, case):
    """Each row's margin runs through the rounds; the hessian is that of the objective there, row by row."""
    settings, response = CASES[case]
    X, y = data[0], response(data[1])
    booster = xgboost.train({"max_depth": 3, "nthread": 1, **settings}, xgboost.DMatrix(X, y), 24)
    ensemble = debias.plugin.extract(booster)
    encoded = encode(y, ensemble, N)
    counter = LeafCounter(ensemble)
    leaves = route(ensemble, X.astype(np.float32))
    counter.add(KnownLeaves(ensemble, leaves), encoded)
    counted = {each.tree: each for each in counter.counts()}
    assert max(counted) >= ensemble.n_trees * 3 // 4  # later trees too: training may have been continued
    expected = [dict.fromkeys(range(ensemble.n_nodes), 0.0) for _ in range(ensemble.n_trees)]
    squares = [0.0] * ensemble.n_trees
    for row in range(N):
        margin = ensemble.base.copy()
        for tree in range(ensemble.n_trees):
            if tree % ensemble.trees_a_round == 0:
                before = ensemble.objective.curvature(margin, encoded.target[row])
            h = 1.0 if case == "squared error" else before[ensemble.tree_output[tree]]
            h *= 2.0 if ensemble.objective.name == "softmax" else 1.0
            h *= 3.0 if case == "weighted class" and y[row] == 1 else 1.0
            expected[tree][leaves[row, tree]] += h
            squares[tree] += h * h
            margin[ensemble.tree_output[tree]] += ensemble.value[ensemble.tree_start[tree] + leaves[row, tree], 0]
    for tree, found in counted.items():
        nodes = np.flatnonzero(ensemble.tree(tree).left < 0)
        sums = np.array([expected[tree][node] for node in nodes])
        unit = squares[tree] / sums.sum()
        np.testing.assert_allclose(found.reached, sums / unit, rtol=1e-10)
        np.testing.assert_array_equal(nodes[found.at], leaves[:, tree])
        if "subsample" not in settings:  # then these are the training rows, and XGBoost has added up the same
            np.testing.assert_allclose(found.reached, found.stored, rtol=1e-3)


@pytest.mark.parametrize("n_classes", [1, 3])
def test_a_booster_is_looked_at_as_a_whole_and_by_halves_and_quarters(data, models, n_classes):
    X, y = data
    y = y if n_classes == 1 else np.digitize(y, [-1, 1])
    task = "regression" if n_classes == 1 else "classification"
    ensemble = debias.plugin.extract(models("lightgbm", task, n_estimators=40).fit(X, y))
    whole, *parts = [set((trees // n_classes).tolist()) for trees in looks(ensemble)]
    assert (min(whole), max(whole)) == (0, 39)
    first, second, *quarters = parts
    assert [min(quarter) // 10 for quarter in quarters] == [max(quarter) // 10 for quarter in quarters] == [0, 1, 2, 3]
    assert first == quarters[0] | quarters[1]
    assert second == quarters[2] | quarters[3]
    assert len(looks(debias.plugin.extract(models("lightgbm", task, n_estimators=7).fit(X, y)))) == 1


def test_counts_of_rows_are_counts_of_rows(data, models):
    X, y = data
    model = models("lightgbm", n_estimators=5, num_leaves=7).fit(X, y)
    ensemble = debias.plugin.extract(model)
    counter = LeafCounter(ensemble, keep=50)
    leaves = route(ensemble, X)
    for part in (slice(0, 120), slice(120, N)):
        counter.add(KnownLeaves(ensemble, leaves[part]), encode(y[part], ensemble, part.stop - part.start))
    for j, counted in enumerate(counter.counts()):
        nodes = np.flatnonzero(ensemble.tree(counter.trees[j]).left < 0)
        assert counted.reached.tolist() == [(leaves[:, counter.trees[j]] == node).sum() for node in nodes]
        assert counted.reached.tolist() == counted.stored.tolist()  # training rows
        np.testing.assert_array_equal(nodes[counted.at], leaves[:50, j])


@pytest.mark.parametrize("most", [12, 60])  # fewer pairs of leaves than rows, and more
@pytest.mark.parametrize("n_classes", [1, 3])
@pytest.mark.parametrize("seed", range(5))
def test_overlap_is_phi_squared_of_the_leaves_less_that_of_the_classes(seed, n_classes, most):
    rng = np.random.default_rng(seed)
    n_a, n_b = rng.integers(most // 2, most, 2)
    a, b = rng.integers(0, n_a, 400), rng.integers(0, n_b, 400)
    b = np.where(rng.random(400) < 0.5, a % n_b, b)
    classes_a, classes_b = rng.integers(0, n_classes, n_a), rng.integers(0, min(n_classes, 2), n_b)
    found = leaf_kernels.overlap(a.astype(np.int32), b.astype(np.int32), classes_a, classes_b)
    assert found == pytest.approx(phi2(a, b) - phi2(classes_a[a], classes_b[b]), abs=1e-12)


def phi2(a, b):
    table = np.array([[((a == j) & (b == k)).sum() for k in np.unique(b)] for j in np.unique(a)])
    return chi2_contingency(table, correction=False).statistic / a.size if min(table.shape) > 1 else 0.0


def test_leaves_no_row_reaches_add_nothing_to_the_overlap():
    a = np.array([0, 0, 2, 2, 2, 5] * 10, dtype=np.int32)
    one_class = np.zeros(9, dtype=np.int64)
    assert leaf_kernels.overlap(a, a, one_class, one_class) == pytest.approx(2.0, abs=1e-12)  # three parts alike
    assert leaf_kernels.overlap(a, np.zeros_like(a), one_class, one_class) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("scale", [1.0, 0.7])
def test_logistic_curvature_has_all_digits_far_out(scale):
    margin = np.concatenate([np.linspace(-700, 700, 1401), [0.0, 1e-300, 36.7, -36.7]])
    found = Objective("logistic", (scale,)).curvature(margin)
    np.testing.assert_allclose(found, scale**2 * expit(scale * margin) * expit(-scale * margin), rtol=1e-13)
    assert Objective("logistic").curvature(np.array([-1e5, 1e5])).tolist() == [0.0, 0.0]
