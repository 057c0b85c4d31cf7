"""Sums for named pairs of features, against the definition of the interaction and against plain least squares."""

import numpy as np
import pytest

import debias
from debias.errors import CompositionError
from debias.rows.pair_sums import OF_PAIRS, PairSums, added_pairs, are_possible, pair_sums, training_weight
from debias.rows.threshold_functions import threshold_functions
from debias.rows.without import effects
from debias.significance.pair_change import slopes
from support.without import CASES, drawn, fitted, output_without

GROUP = np.array([0, 1, 2, 3, 1])  # columns 1 and 4 are one feature
PAIRS = np.array([[0, 1], [1, 3]])


def of_rows(ensemble, X, y=None, pairs=PAIRS, group=GROUP, weight=None):
    """The sums over rows, with y as the residual."""
    y = np.zeros(len(X)) if y is None else y
    residual = np.repeat(y[:, None], ensemble.n_outputs, axis=1)
    weight = np.ones(len(X)) if weight is None else weight
    X = X.astype(ensemble.routing_dtype)
    output = effects(ensemble, X, np.ones(ensemble.n_nodes), np.full(group.size, -1), 0)[0]
    return pair_sums(ensemble, X, group, pairs, output, residual, weight)


def interaction(ensemble, x, pair, group):
    """e_j + e_k - e_jk of trees of two features j and k, where e_S is the output less the output without S."""
    n = training_weight(ensemble)

    def effect(*members):
        return output(ensemble, x, ()) - output(ensemble, x, members)

    def output(ensemble, x, left_out):
        return output_without(ensemble, x, np.flatnonzero(np.isin(group, left_out)), n)

    return effect(pair[0]) + effect(pair[1]) - effect(*pair)


def test_the_interaction_of_two_features_is_e_j_plus_e_k_less_e_jk(models):
    """If the trees use no other feature, the part that needs both is what leaving out tells."""
    X, y = drawn("regression")
    X = X[:, :2]
    group = np.arange(2)
    model = models("xgboost", n_estimators=5, max_depth=4).fit(X, y)
    ensemble = debias.plugin.extract(model)
    for x in X[:20]:
        found = of_rows(ensemble, x[None], pairs=np.array([[0, 1]]), group=group).matrix[:, 0, -2]
        routed = x.astype(ensemble.routing_dtype)
        np.testing.assert_allclose(found, interaction(ensemble, routed, (0, 1), group), rtol=1e-9, atol=1e-12)
    assert abs(found).max() > 0


@pytest.mark.thorough
@pytest.mark.parametrize(("library", "kind"), [case for case in CASES if case[1] == "regression"])
def test_interactions_are_those_of_the_definition(models, library, kind):
    """v_jk - v_j - v_k + v with the shares of the training rows, which the trees store."""
    model, X, _ = fitted(models, library, kind)
    ensemble, features = debias.plugin.extract(model), range(4)
    n = training_weight(ensemble)
    assert n.any()
    for x in X[:12]:
        sums = of_rows(ensemble, x[None])
        routed = x.astype(ensemble.routing_dtype)

        def only(*kept, routed=routed):
            left_out = [g for g in features if g not in kept]
            return output_without(ensemble, routed, np.flatnonzero(np.isin(GROUP, left_out)), n)

        for k, (one, other) in enumerate(PAIRS):
            expected = only(one, other) - only(one) - only(other) + only()
            np.testing.assert_allclose(sums.matrix[:, 0, k - 3], expected, rtol=1e-9, atol=1e-12)


@pytest.fixture
def trees(models):
    X, y = drawn("regression")
    return debias.plugin.extract(models("xgboost", n_estimators=8, max_depth=4).fit(X, y))


def test_sums_add_up_in_any_order_and_weights_count_rows(trees):
    X, y = drawn("regression", seed=1)
    whole, halves = of_rows(trees, X, y), [of_rows(trees, X[rows], y[rows]) for rows in (slice(40, None), slice(40))]
    both = halves[0] + halves[1]
    np.testing.assert_allclose(both.products, whole.products, rtol=1e-9, atol=1e-9)
    assert both.n_rows == whole.n_rows == len(X)
    np.testing.assert_allclose((both - halves[0]).products, halves[1].products, rtol=1e-9, atol=1e-8)
    weight = np.arange(len(X)) % 3
    repeated = np.repeat(np.arange(len(X)), weight)
    np.testing.assert_allclose(
        of_rows(trees, X, y, weight=weight.astype(float)).products,
        of_rows(trees, X[repeated], y[repeated]).products,
        rtol=1e-9,
        atol=1e-9,
    )


def test_a_slope_is_one_more_than_the_coefficient_of_least_squares(trees):
    """By numpy, on the columns themselves; of which the sums of one row at a time are the products with 1."""
    X, _ = drawn("regression", seed=2)
    y = np.random.default_rng(0).normal(size=len(X))
    columns = np.stack([of_rows(trees, x[None]).matrix[0, 0, :-1] for x in X])
    coefficient = np.linalg.lstsq(columns, y, rcond=1e-10)[0][-2:]
    slope, squares = slopes(of_rows(trees, X, y))
    np.testing.assert_allclose(slope, 1 + coefficient, rtol=1e-6, atol=1e-6)
    for k in (-2, -1):
        others = np.delete(columns, len(columns[0]) + k, axis=1)
        left = columns[:, k] - others @ np.linalg.lstsq(others, columns[:, k], rcond=1e-10)[0]
        np.testing.assert_allclose(squares[k], (left**2).sum(), rtol=1e-6)


def test_effects_of_single_columns_do_not_move_a_slope(trees):
    """Whatever a column does, as far as the functions follow it: a step, a line, a curve between knots."""
    X, y = drawn("regression", seed=3)
    functions = threshold_functions(trees, X.astype(trees.routing_dtype))
    added = functions @ np.random.default_rng(1).normal(size=functions.shape[1])
    np.testing.assert_allclose(slopes(of_rows(trees, X, y + added))[0], slopes(of_rows(trees, X, y))[0], atol=1e-6)


def test_functions_depend_on_the_trees_alone_and_are_hats_and_steps(trees):
    X, _ = drawn("regression")
    X = X.astype(trees.routing_dtype)
    functions = threshold_functions(trees, X)
    np.testing.assert_array_equal(threshold_functions(trees, X[5:6]), functions[5:6])
    assert functions.min() >= 0
    assert functions.max() <= 1
    far = np.vstack([X[:1], X[:1]])
    far[0], far[1] = -1e6, -1e9
    of_far = threshold_functions(trees, far)
    np.testing.assert_array_equal(of_far[0], of_far[1])  # constant beyond the first and the last threshold


def test_a_pair_that_the_model_does_not_use_has_no_slope(models):
    X, y = drawn("regression")
    ensemble = debias.plugin.extract(models("xgboost", n_estimators=5, max_depth=1).fit(X, y))
    assert np.isnan(slopes(of_rows(ensemble, X, y))[0]).all()


def state(n_rows, sums=None, weight=None):
    return {"totals": np.array([float(n_rows), n_rows if weight is None else weight, 0, 0])} | (
        {} if sums is None else sums.state()
    )


def test_states_with_and_without_pairs_are_added(trees):
    X, y = drawn("regression")
    one, other = of_rows(trees, X[:30], y[:30]), of_rows(trees, X[30:], y[30:])
    both = PairSums.of_state(added_pairs(state(30, one), state(10, other)))
    np.testing.assert_array_equal(both.products, one.products + other.products)
    assert PairSums.of_state(added_pairs(state(0), state(30, one))).n_rows == 30
    for states in ((state(30, one), state(10, weight=0)), (state(10, weight=0), state(30, one))):
        assert PairSums.of_state(added_pairs(*states)).n_rows == 30  # rows of weight 0 change nothing
    assert added_pairs(state(10), state(10)) == {}
    for states in ((state(30, one), state(10)), (state(10), state(30, one))):  # of some rows nothing is known
        lacking = added_pairs(*states)
        assert not PairSums.of_state(lacking).complete
        assert are_possible(state(40) | lacking, 1, 4)
        assert not PairSums.of_state(added_pairs(state(40) | lacking, state(30, one))).complete
    no_common = of_rows(trees, X[30:], y[30:], pairs=np.array([[2, 3]]))
    assert not PairSums.of_state(added_pairs(state(30, one), state(10, no_common))).complete


def test_sums_for_some_of_the_pairs_are_those_of_these_alone(trees):
    X, y = drawn("regression")
    more = np.array([[2, 3], PAIRS[1], PAIRS[0]])
    wide, narrow = of_rows(trees, X, y, pairs=more), of_rows(trees, X, y)
    np.testing.assert_allclose(wide.of(PAIRS).products, narrow.products, rtol=1e-9, atol=1e-9)
    assert wide.of(more) is wide
    both = PairSums.of_state(added_pairs(state(len(X), wide), state(len(X), narrow)))  # the common pairs are added up
    np.testing.assert_array_equal(both.pairs, more[1:])
    np.testing.assert_allclose(both.of(PAIRS).products, 2 * narrow.products, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "changed",
    [
        {"pairs": PAIRS[:, ::-1].copy()},
        {"pairs": PAIRS.astype(float)},
        {"pairs": PAIRS + 5},
        {"pair_rows": np.array([-1.0])},
        {"pair_rows": np.array([1e9])},
        {"pair_sums": np.zeros((1, 7))},
        {"pair_sums": np.zeros((2, 6))},
        {"pair_sums": -np.ones((1, 120))},
    ],
)
def test_forged_sums_are_not_possible(trees, changed):
    X, y = drawn("regression")
    true = state(len(X), of_rows(trees, X, y))
    assert are_possible(true, 1, 4)
    assert are_possible(state(10), 1, 4)
    assert not are_possible(true | changed, 1, 4)
    assert not are_possible({name: array for name, array in true.items() if name != OF_PAIRS[1]}, 1, 4)


def test_a_model_of_many_columns_is_refused(models):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 90))
    model = models("xgboost", n_estimators=90, max_depth=3, colsample_bytree=0.1).fit(X, X.sum(axis=1))
    ensemble = debias.plugin.extract(model)
    with pytest.raises(CompositionError, match=r"uses \d+ columns.*Leave interactions out"):
        of_rows(ensemble, X, pairs=np.array([[0, 1]]), group=np.arange(90))
