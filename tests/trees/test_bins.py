"""Two routers, one answer: rows by bins of small trees, and rows divided node by node."""

import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestRegressor
from xgboost import XGBRegressor

import debias
from debias.trees.objectives import SQUARED_ERROR
from debias.trees.routing import CUTS_AT_MOST, FEW_ROWS, LEAVES_AT_MOST, Bins, Router, bins_for


def random_ensemble(rng, n_trees, n_leaves, n_features, cuts, dtype, width=1):
    """Grow trees at random: any leaf is split, on any feature, at one of its cuts."""
    parts, start = [], [0]
    for _ in range(n_trees):
        left, right, feature, threshold = [-1], [-1], [-1], [0.0]
        for _ in range(int(rng.integers(0, n_leaves))):
            leaf = int(rng.choice(np.flatnonzero(np.array(left) < 0)))
            left[leaf], right[leaf] = len(left), len(left) + 1
            feature[leaf] = int(rng.integers(n_features))
            threshold[leaf] = float(rng.choice(cuts))
            for array, leaf_value in ((left, -1), (right, -1), (feature, -1), (threshold, 0.0)):
                array += [leaf_value, leaf_value]
        parts.append((left, right, feature, threshold))
        start.append(start[-1] + len(left))
    left, right, feature, threshold = (np.concatenate(each) for each in zip(*parts, strict=True))
    return debias.plugin.TreeEnsemble(
        tree_start=np.array(start),
        feature=feature,
        threshold=threshold,
        left=left,
        right=right,
        missing_left=rng.random(left.size) < 0.5,
        value=rng.normal(size=(left.size, width)),
        averaging_weight=np.ones(left.size),
        tree_output=np.zeros(n_trees, dtype=np.int32),
        base=np.zeros(width),
        averaged=True,
        objective=SQUARED_ERROR,
        feature_names=tuple(f"x{k}" for k in range(n_features)),
        named=False,
        classes=None,
        routing_dtype=np.dtype(dtype),
        source="random trees",
        version="1",
    )


def leaf_of(ensemble, tree, row):
    """Walk one row down one tree, as the definition has it."""
    nodes, node = ensemble.tree(tree), 0
    while nodes.left[node] >= 0:
        x = float(row[nodes.feature[node]])
        left = nodes.missing_left[node] if np.isnan(x) else x <= nodes.threshold[node]
        node = nodes.left[node] if left else nodes.right[node]
    return node


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    n_leaves=st.sampled_from([1, 2, 7, 40]),
    n_cuts=st.sampled_from([1, 2, 3, 63, 64, 255]),
    dtype=st.sampled_from([np.float32, np.float64]),
    missing=st.booleans(),
    n_jobs=st.sampled_from([1, 2]),
)
def test_bins_lead_every_row_where_a_walk_leads_it(seed, n_leaves, n_cuts, dtype, missing, n_jobs):
    rng = np.random.default_rng(seed)
    special = [-np.inf, np.inf, -0.0, 0.1, 1e-45, -1e38]
    cuts = np.concatenate([rng.normal(size=max(n_cuts - 6, 1)), special])[:n_cuts]
    ensemble = random_ensemble(rng, 5, n_leaves, 3, cuts, dtype)
    n = FEW_ROWS + 37
    X = rng.normal(size=(n, 3)).astype(dtype)
    on_cut = rng.random(X.shape) < 0.5
    X[on_cut] = rng.choice(cuts, on_cut.sum())
    if missing:
        X[rng.random(X.shape) < 0.2] = np.nan
    router = Router(ensemble, X, n_jobs=n_jobs)
    assert ensemble.bins is not None
    leaves = router.leaves(np.arange(5))
    some = rng.integers(0, n, 60)
    assert leaves[some].tolist() == [[leaf_of(ensemble, tree, X[i]) for tree in range(5)] for i in some]
    by_node = Router(ensemble, X, np.zeros((5, (n + 7) // 8), dtype=np.uint8), n_jobs).leaves(np.arange(5))
    np.testing.assert_array_equal(leaves, by_node)
    np.testing.assert_array_equal(router.leaves(np.array([3, 1])), leaves[:, [3, 1]])


@pytest.mark.parametrize("depth", range(9))
@pytest.mark.parametrize("spoilt", [False, True])
def test_trees_with_one_split_a_level_are_read_by_bits(depth, spoilt):
    rng = np.random.default_rng(depth)
    parts = []

    def unfold(level):
        node = len(parts)
        parts.append([level if level < depth else -1, -1, -1])
        if level < depth:
            parts[node][1:] = unfold(level + 1), unfold(level + 1)
        return node

    unfold(0)
    level, left, right = np.array(parts).T
    feature, threshold, missing_left = rng.integers(0, 3, 9), rng.normal(size=9), rng.random(9) < 0.5
    ensemble = random_ensemble(rng, 1, 2, 3, np.zeros(1), np.float32)
    of_node = {"feature": np.where(level < 0, -1, feature[level]), "left": left, "right": right}
    cuts = threshold[level]
    if spoilt and depth > 1:  # another split at the last inner node
        cuts[np.flatnonzero(level >= 0)[-1]] += 0.5
    ensemble = dataclasses.replace(
        ensemble,
        **of_node,
        threshold=cuts,
        missing_left=missing_left[level],
        tree_start=np.array([0, left.size]),
        value=np.zeros((left.size, 1)),
        averaging_weight=np.ones(left.size),
        tree_output=np.zeros(1, dtype=np.int32),
    )
    X = rng.normal(size=(FEW_ROWS + 3, 3)).astype(np.float32)
    X[rng.random(X.shape) < 0.2] = np.nan
    assert ensemble.bins is not None
    by_node = Router(ensemble, X, np.zeros((1, len(X) // 8 + 1), dtype=np.uint8)).leaves(np.array([0]))
    np.testing.assert_array_equal(ensemble.bins.leaves(X), by_node)
    by_levels = ensemble.bins.steps[0].shape[0] == depth
    assert by_levels == (depth in (0, 1) or (depth > 3 and not spoilt))


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("n_rows", [100, FEW_ROWS, 2 * FEW_ROWS + 11])
def test_sums_are_those_of_the_rows_at_each_leaf(n_rows, n_jobs):
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, 6, 30, 4, rng.normal(size=50), np.float32)
    X = rng.normal(size=(n_rows, 4)).astype(np.float32)
    y, weight = rng.normal(size=(n_rows, 1)), rng.random(n_rows)
    n, s, q = np.zeros(ensemble.n_nodes), np.zeros((ensemble.n_nodes, 1)), np.zeros(ensemble.n_nodes)
    router = Router(ensemble, X, n_jobs=n_jobs)
    router.add_values(y, weight, n, s, q)
    at = router.leaves(np.arange(6)) + ensemble.tree_start[:-1]
    for found, terms in ((n, weight), (s[:, 0], weight * y[:, 0]), (q, weight * y[:, 0] ** 2)):
        expected = np.bincount(at.ravel(), weights=np.repeat(terms, 6), minlength=ensemble.n_nodes)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_sums_are_the_same_bit_by_bit_whatever_the_threads():
    rng = np.random.default_rng(1)
    ensemble = random_ensemble(rng, 9, 30, 4, rng.normal(size=50), np.float32)
    X = rng.normal(size=(FEW_ROWS + 5, 4)).astype(np.float32)
    y, weight = rng.normal(size=(len(X), 1)), rng.random(len(X))
    out_of_bag = np.packbits(rng.random((9, len(X))) < 0.6, axis=1)
    for skip in (None, out_of_bag):
        found = []
        for n_jobs in (1, 2, 3):
            sums = np.zeros(ensemble.n_nodes), np.zeros((ensemble.n_nodes, 1)), np.zeros(ensemble.n_nodes)
            Router(ensemble, X, skip, n_jobs).add_values(y, weight, *sums)
            found.append(np.concatenate([each.ravel() for each in sums]))
        assert (found[0] == found[1]).all()
        assert (found[0] == found[2]).all()


def test_rows_left_out_add_nothing():
    rng = np.random.default_rng(2)
    ensemble = random_ensemble(rng, 4, 200, 3, rng.normal(size=400), np.float32)
    X = rng.normal(size=(803, 3)).astype(np.float32)
    codes, weight = rng.integers(0, 3, 803), rng.random(803)
    out = rng.random((4, 803)) < 0.6
    out[3] = True
    n, s = np.zeros(ensemble.n_nodes), np.zeros((ensemble.n_nodes, 3))
    Router(ensemble, X, np.packbits(out, axis=1)).add_codes(codes, weight, n, s)
    expected = np.zeros((ensemble.n_nodes, 3))
    for tree in range(4):
        for i in np.flatnonzero(~out[tree]):
            expected[ensemble.tree_start[tree] + leaf_of(ensemble, tree, X[i]), codes[i]] += weight[i]
    np.testing.assert_allclose(s, expected, rtol=1e-12)
    np.testing.assert_allclose(n, expected.sum(axis=1), rtol=1e-12)
    assert not n[ensemble.tree_start[3] :].any()


def test_several_outputs_get_what_is_theirs():
    rng = np.random.default_rng(4)
    ensemble = random_ensemble(rng, 6, 20, 2, rng.normal(size=50), np.float32)
    ensemble = dataclasses.replace(ensemble, tree_output=np.array([0, 1, 2, 0, 1, 2]), base=np.zeros(3))
    X = rng.normal(size=(FEW_ROWS + 9, 2)).astype(np.float32)
    y, weight = rng.normal(size=(len(X), 3)), rng.random(len(X))
    n, s, q = np.zeros(ensemble.n_nodes), np.zeros((ensemble.n_nodes, 1)), np.zeros(ensemble.n_nodes)
    router = Router(ensemble, X)
    router.add_values(y, weight, n, s, q)
    leaves = router.leaves(np.arange(6))
    for tree, output in enumerate(ensemble.tree_output):
        nodes = slice(ensemble.tree_start[tree], ensemble.tree_start[tree + 1])
        expected = np.bincount(leaves[:, tree], weights=weight * y[:, output], minlength=nodes.stop - nodes.start)
        np.testing.assert_allclose(s[nodes, 0], expected, rtol=1e-12, atol=1e-12)


USES = {
    "held-out": lambda model, X, y: debias.score(model, X, y, rows="held-out"),
    "later batch": lambda model, X, y: debias.score(model, [(X[:500], y[:500]), (X, y)], rows="held-out"),
    "sums": lambda model, X, y: debias.NodeSums(model).update(X, y),
    "train": lambda model, X, y: debias.score(model, -X[:500], y[:500], "ufi", train=(X, y)),
    "p-values": lambda model, X, y: debias.audit(model, X, y, rows="held-out", test="naive", dependence=False),
}


@pytest.mark.parametrize("use", USES)
def test_bins_that_lead_astray_are_found_out(use, monkeypatch):
    """Whatever is routed by bins is compared with what goes node by node, which is compared with the library."""
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(FEW_ROWS, 3)), rng.normal(size=FEW_ROWS)
    model = XGBRegressor(n_estimators=10, max_depth=3)
    model.fit(*((X, y) if use == "train" else (rng.normal(size=(500, 3)), rng.normal(size=500))))
    USES[use](model, X, y)
    _lead_astray(monkeypatch)
    with pytest.raises(debias.errors.ExtractionError, match="the bins of this"):
        USES[use](model, X, y)


def test_bins_are_compared_where_tests_of_out_of_bag_scores_use_them(monkeypatch):
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=(FEW_ROWS, 3)), rng.normal(size=FEW_ROWS)
    forest = RandomForestRegressor(10, max_depth=3, random_state=0).fit(X, y)
    _lead_astray(monkeypatch)
    assert debias.score(forest, X, y, rows="oob").rows == "oob"  # no bins: rows in the bag are left out
    with pytest.raises(debias.errors.ExtractionError, match="the bins of this"):
        debias.audit(forest, X, y, rows="oob")


def _lead_astray(monkeypatch):
    encode = Bins.encode
    monkeypatch.setattr(Bins, "encode", lambda self, X, n_jobs=1: np.roll(encode(self, X, n_jobs), 1, axis=0))


def test_few_trees_of_many_features_are_not_worth_bins():
    rng = np.random.default_rng(6)
    ensemble = random_ensemble(rng, 4, 30, 40, rng.normal(size=50), np.float32)
    assert ensemble.bins.n_features > 4
    assert bins_for(ensemble, FEW_ROWS, 4) is None
    assert bins_for(ensemble, FEW_ROWS, 40) is ensemble.bins
    assert bins_for(ensemble, FEW_ROWS - 1, 40) is None


def test_a_pickled_ensemble_leaves_behind_what_can_be_worked_out_again():
    rng = np.random.default_rng(7)
    ensemble = random_ensemble(rng, 4, 30, 4, rng.normal(size=50), np.float32)
    before = len(pickle.dumps(ensemble))
    assert ensemble.bins is not None
    assert ensemble.children.size
    assert len(pickle.dumps(ensemble)) == before
    again = pickle.loads(pickle.dumps(ensemble))
    assert (again.children == ensemble.children).all()
    assert not again.value.flags.writeable


@pytest.mark.thorough
def test_trees_that_a_byte_does_not_number_have_no_bins():
    rng = np.random.default_rng(3)
    cuts = np.arange(CUTS_AT_MOST + 50.0)
    chain = random_ensemble(rng, 1, 1, 1, cuts, np.float32)
    assert chain.bins is not None

    def comb(n_splits):
        """Split the right child again and again, at rising cuts."""
        left = np.array([2 * k + 1 if side == 0 else -1 for k in range(n_splits) for side in (0, 1)] + [-1])
        right = np.where(left >= 0, left + 1, -1)
        feature = np.where(left >= 0, 0, -1)
        threshold = np.where(left >= 0, np.arange(left.size) // 2, 0.0)
        return {"left": left, "right": right, "feature": feature, "threshold": threshold}

    for n_splits, fits in ((CUTS_AT_MOST, True), (CUTS_AT_MOST + 1, False)):
        nodes = comb(n_splits)
        size = nodes["left"].size
        ensemble = debias.plugin.TreeEnsemble(
            **{name: getattr(chain, name) for name in ("base", "averaged", "objective", "feature_names", "named")},
            **{name: getattr(chain, name) for name in ("classes", "routing_dtype", "source", "version")},
            **nodes,
            tree_start=np.array([0, size]),
            missing_left=np.zeros(size, dtype=bool),
            value=np.zeros((size, 1)),
            averaging_weight=np.ones(size),
            tree_output=np.array([0]),
        )
        assert (ensemble.bins is not None) == fits
        assert n_splits + 1 <= LEAVES_AT_MOST or not fits
        X = rng.uniform(-1, n_splits, size=(FEW_ROWS, 1)).astype(np.float32)
        X[:100, 0] = np.arange(100)
        leaves = Router(ensemble, X).leaves(np.array([0]))[:, 0]
        assert leaves.tolist() == [leaf_of(ensemble, 0, row) for row in X]
