"""What features do alone and together, against the definition, leaf by leaf."""

from itertools import chain, combinations

import numpy as np
import pytest

import debias
from debias.rows.interactions import pairs_on_paths, parts
from support.without import CASES, drawn, evaluation_weight, fitted, output_without

GROUP = np.array([0, 1, 2, 3, 1])  # columns 1 and 4 are one feature
SETS = list(chain.from_iterable(combinations(range(4), size) for size in (1, 2, 3)))


def computed(ensemble, X, weight, sets, group=GROUP):
    reached = evaluation_weight(ensemble, X, weight)
    X = X.astype(ensemble.routing_dtype)
    return parts(ensemble, X, reached, group, sets, int(group.max()) + 1)


@pytest.mark.thorough
@pytest.mark.parametrize(("library", "kind"), CASES)
def test_a_part_is_the_alternating_sum_over_outputs_with_fewer_features(models, library, kind):
    model, X, _ = fitted(models, library, kind)
    ensemble = debias.plugin.extract(model)
    X = X[:24].astype(ensemble.routing_dtype)
    weight = np.random.default_rng(0).integers(0, 3, len(X)).astype(float)
    reached = evaluation_weight(ensemble, X, weight)

    def only(kept):
        columns = np.flatnonzero(~np.isin(GROUP, kept))
        return np.array([output_without(ensemble, x, columns, reached) for x in X])

    output = {kept: only(kept) for size in range(5) for kept in combinations(range(4), size)}

    def part(members):
        subsets = chain.from_iterable(combinations(members, size) for size in range(len(members) + 1))
        return sum((-1) ** (len(members) - len(subset)) * output[subset] for subset in subsets)

    found = computed(ensemble, X, weight, SETS)
    assert found.any(axis=(0, 2))[: 4 + 6].sum() >= 8
    for k, members in enumerate(SETS):
        np.testing.assert_allclose(found[:, k], part(members), rtol=1e-9, atol=1e-12)
    everything = output[()] + found.sum(axis=1) + part((0, 1, 2, 3))
    np.testing.assert_allclose(everything, output[0, 1, 2, 3], rtol=1e-9, atol=1e-12)


def test_the_parts_of_trees_of_three_levels_sum_to_the_output(models):
    X, y = drawn("regression")
    model = models("xgboost", n_estimators=5, max_depth=3).fit(X, y)
    found = computed(debias.plugin.extract(model), X, np.ones(len(X)), SETS)
    rest = model.predict(X) - found.sum(axis=1)[:, 0]
    np.testing.assert_allclose(rest, rest[0], atol=1e-6)


def test_a_part_is_the_same_in_any_order_of_its_features_and_depends_on_their_columns_only(models):
    X, y = drawn("regression")
    ensemble = debias.plugin.extract(models("xgboost", n_estimators=5, max_depth=5).fit(X, y))
    weight = np.ones(len(X))
    found = computed(ensemble, X, weight, SETS)
    turned = computed(ensemble, X, weight, [members[::-1] for members in SETS])
    np.testing.assert_allclose(turned, found, rtol=1e-12, atol=1e-15)
    reached = evaluation_weight(ensemble, X, weight)
    for k, members in enumerate(SETS):
        other = np.where(np.isin(GROUP, members), X, X[::-1]).astype(ensemble.routing_dtype)
        np.testing.assert_array_equal(parts(ensemble, other, reached, GROUP, SETS, 4)[:, k], found[:, k])


def test_stumps_have_no_interactions_and_only_features_on_a_path_have(models):
    X, y = drawn("regression")
    stumps = debias.plugin.extract(models("xgboost", n_estimators=20, max_depth=1).fit(X, y))
    assert not computed(stumps, X, np.ones(len(X)), SETS[4:]).any()
    assert not pairs_on_paths(stumps, GROUP, 4).any()
    one_tree = debias.plugin.extract(models("xgboost", n_estimators=1, max_depth=3).fit(X, y))
    pairs, each = list(combinations(range(5), 2)), np.arange(5)
    found = computed(one_tree, X, np.ones(len(X)), pairs, each)
    meets = pairs_on_paths(one_tree, each, 5)
    assert 0 < meets.sum() / 2 < len(pairs)
    np.testing.assert_array_equal(found.any(axis=(0, 2)), meets[tuple(np.transpose(pairs))])


def test_a_part_does_not_depend_on_the_rows_that_are_followed_with_it(models):
    """Rows are followed 32 at a time. The definition is tested on 24."""
    X, y = drawn("regression")
    ensemble = debias.plugin.extract(models("xgboost", n_estimators=5, max_depth=5).fit(X, y))
    reached, X = evaluation_weight(ensemble, X, np.ones(len(X))), X.astype(ensemble.routing_dtype)
    found = parts(ensemble, X, reached, GROUP, SETS, 4)
    for begin, end in ((0, 1), (1, 32), (3, 35), (40, 73), (7, 72), (100, 160), (5, 5)):
        np.testing.assert_array_equal(parts(ensemble, X[begin:end], reached, GROUP, SETS, 4), found[begin:end])


def test_the_kernel_follows_as_many_rows_as_the_caller_fills(models, monkeypatch):
    X, y = drawn("regression")
    ensemble = debias.plugin.extract(models("xgboost", n_estimators=2).fit(X, y))
    monkeypatch.setattr("debias.rows.interactions.ROWS_AT_ONCE", 3)
    with pytest.raises(ValueError, match="must be a multiple of 32, not 33"):
        computed(ensemble, X[:33], np.ones(33), SETS)
