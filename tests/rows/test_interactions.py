"""Interactions and main effects of trees against their definition, leaf by leaf."""

from itertools import combinations

import numpy as np
import pytest

import debias
from debias.rows.interactions import interactions, main_effects, pairs_on_paths
from support.without import CASES, drawn, evaluation_weight, fitted, output_without

N_GROUPS = 4
GROUP = np.array([0, 1, 2, 3, 1])  # columns 1 and 4 are one feature


def parts(ensemble, X, weight, group=GROUP):
    """Pairs, interactions and main effects as they are computed."""
    n_groups = int(group.max()) + 1
    pairs = np.array(list(combinations(range(n_groups), 2)))
    reached = evaluation_weight(ensemble, X, weight)
    arguments = ensemble, X.astype(ensemble.routing_dtype), reached, group
    return pairs, interactions(*arguments, pairs, n_groups), main_effects(*arguments, n_groups)


@pytest.mark.parametrize(("library", "kind"), CASES)
def test_interactions_and_main_effects_are_sums_over_leaves(models, library, kind):
    model, X, _ = fitted(models, library, kind)
    ensemble = debias.plugin.extract(model)
    X = X.astype(ensemble.routing_dtype)
    weight = np.random.default_rng(0).integers(0, 3, len(X)).astype(float)
    reached = evaluation_weight(ensemble, X, weight)
    pairs, found, alone = parts(ensemble, X, weight)
    assert found.any(axis=(0, 2)).sum() >= 4

    def without(groups):
        return np.array([output_without(ensemble, x, np.flatnonzero(np.isin(GROUP, groups)), reached) for x in X])

    full = without([])
    for k, (one, other) in enumerate(pairs):
        expected = full - without([one]) - without([other]) + without([one, other])
        np.testing.assert_allclose(found[:, k], expected, rtol=1e-9, atol=1e-12)
    for g in range(N_GROUPS):
        others = [h for h in range(N_GROUPS) if h != g]
        expected = without(others) - without(list(range(N_GROUPS)))
        np.testing.assert_allclose(alone[:, g], expected, rtol=1e-9, atol=1e-12)


def test_the_parts_of_trees_of_two_features_sum_to_the_output(models):
    X, y = drawn("regression")
    model = models("xgboost", n_estimators=5, max_depth=4).fit(X[:, :2], y)
    ensemble = debias.plugin.extract(model)
    _, found, alone = parts(ensemble, X[:, :2], np.ones(len(X)), np.array([0, 1]))
    rest = model.predict(X[:, :2]) - found[:, 0, 0] - alone[:, :, 0].sum(axis=1)
    np.testing.assert_allclose(rest, rest[0], atol=1e-6)


def test_stumps_have_no_interactions_and_only_pairs_on_a_path_have(models):
    X, y = drawn("regression")
    stumps = debias.plugin.extract(models("xgboost", n_estimators=20, max_depth=1).fit(X, y))
    assert not parts(stumps, X, np.ones(len(X)))[1].any()
    assert not pairs_on_paths(stumps, GROUP, N_GROUPS).any()
    one_tree = debias.plugin.extract(models("xgboost", n_estimators=1, max_depth=3).fit(X, y))
    pairs, found, _ = parts(one_tree, X, np.ones(len(X)), np.arange(5))
    meets = pairs_on_paths(one_tree, np.arange(5), 5)
    assert 0 < meets.sum() / 2 < len(pairs)
    np.testing.assert_array_equal(found.any(axis=(0, 2)), meets[pairs[:, 0], pairs[:, 1]])
