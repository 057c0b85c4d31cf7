import numpy as np
import pytest

from debias_plugins.scorers.conditional_design import Design, curves, encoded
from debias_plugins.scorers.conditional_mean import PENALTIES, ConditionalMean, Forest, _ridge
from debias_plugins.scorers.conditional_sampler import Sampler

N = 3000


def fitted(own, others, categorical=False, seed=0):
    design = Design.of(others, np.zeros(others.shape[1], dtype=bool))
    columns = design.plain, design.curves
    return Sampler.fit(own.reshape(len(own), -1), np.array([categorical]), columns, seed), columns


# --- the sampler against the distribution it estimates -------------------------------------------------


@pytest.mark.parametrize("again", [True, False])
@pytest.mark.parametrize("relation", [lambda z: 0.8 * z, lambda z: z**2, lambda z: np.sin(1.5 * z)])
def test_draws_of_numbers_have_the_conditional_mean_and_spread(relation, again):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(2 * N, 2))
    x = relation(z[:, 0]) + 0.6 * rng.normal(size=2 * N)
    design = Design.of(z, np.zeros(2, dtype=bool))
    here = np.arange(N)
    sampler = Sampler.fit(x[here, None], np.array([False]), (design.plain[here], design.curves[here]), 1)
    if again:
        drawn, signal = sampler.draw_again(4, rng)[:, :, 0], relation(z[here, 0])
    else:
        there = np.arange(N, 2 * N)
        drawn, signal = (
            sampler.draw((design.plain[there], design.curves[there]), 4, rng)[:, :, 0],
            relation(z[there, 0]),
        )
    rest = drawn - signal
    # The rest is that of the truth, 0.36, with an error of the curves; four draws of 3,000 rows are of one fit.
    assert abs(rest.mean()) < 4 * 0.6 / np.sqrt(N)
    assert rest.var() == pytest.approx(0.36, rel=0.12)
    assert abs(np.corrcoef(rest.mean(axis=0), signal)[0, 1]) < 0.15
    assert sampler.explained == pytest.approx(signal.var() / (signal.var() + 0.36), abs=0.05)


def test_a_draw_knows_nothing_of_the_row_itself_beyond_the_others():
    rng = np.random.default_rng(3)
    z = rng.normal(size=(N, 2))
    own = rng.normal(size=N)
    sampler, _ = fitted(0.8 * z[:, 0] + 0.6 * own, z)
    for drawn in sampler.draw_again(3, rng)[:, :, 0]:
        rest = drawn - 0.8 * z[:, 0]
        assert abs(np.corrcoef(rest, own)[0, 1]) < 4 / np.sqrt(N)


def test_the_spread_may_depend_on_the_others():
    rng = np.random.default_rng(1)
    z = rng.uniform(-1, 1, size=(N, 1))
    sampler, _ = fitted(z[:, 0] + np.where(z[:, 0] > 0, 2.0, 0.2) * rng.normal(size=N), z)
    rest = sampler.draw_again(5, rng)[:, :, 0] - z[:, 0]
    ratio = rest[:, z[:, 0] > 0.3].std() / rest[:, z[:, 0] < -0.3].std()
    assert ratio > 2


def test_draws_of_categories_have_the_conditional_shares():
    rng = np.random.default_rng(0)
    z = rng.integers(0, 3, size=(N, 1)).astype(float)
    shares = np.array([[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7]])
    x = np.array([rng.choice(3, p=shares[int(row)]) for row in z[:, 0]]).astype(float)
    sampler, _ = fitted(x, z, categorical=True)
    drawn = sampler.draw_again(5, rng)[:, :, 0]
    for level in range(3):
        of_level = drawn[:, z[:, 0] == level]
        found = np.array([(of_level == code).mean() for code in range(3)])
        true = np.array([(x[z[:, 0] == level] == code).mean() for code in range(3)])
        np.testing.assert_allclose(found, true, atol=4 * np.sqrt(0.25 / (N / 3)))


def test_missing_values_are_drawn_where_they_are_likely():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(N, 1))
    x = np.where(rng.random(N) < np.where(z[:, 0] > 0, 0.5, 0.05), np.nan, z[:, 0] + rng.normal(size=N))
    sampler, _ = fitted(x, z)
    missing = np.isnan(sampler.draw_again(5, rng)[:, :, 0])
    assert missing[:, z[:, 0] > 0.2].mean() == pytest.approx(0.5, abs=0.06)
    assert missing[:, z[:, 0] < -0.2].mean() == pytest.approx(0.05, abs=0.04)


def test_draws_are_values_that_the_column_has():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(500, 1))
    counts = rng.poisson(np.exp(1 + z[:, 0]))
    drawn = fitted(counts.astype(float), z)[0].draw_again(3, rng)
    assert set(np.unique(drawn)) <= set(counts.astype(float))


def test_without_other_columns_every_other_row_is_a_donor():
    rng = np.random.default_rng(0)
    own = np.arange(4.0)[:, None]
    sampler = Sampler.fit(own, np.array([True]), (np.empty((4, 0)), np.empty((4, 0))), 0)
    drawn = sampler.draw_again(3000, rng)[:, :, 0]
    for row in range(4):
        counts = np.bincount(drawn[:, row].astype(int), minlength=4)
        assert counts[row] == 0
        assert np.abs(np.delete(counts, row) - 1000).max() < 4 * np.sqrt(3000 * 2 / 9)


# --- the regressions -----------------------------------------------------------------------------------


def test_residuals_of_the_ridge_regression_are_those_without_the_row():
    rng = np.random.default_rng(0)
    n = 30
    weight = rng.uniform(0.5, 2.0, n)
    Z = rng.normal(size=(n, 4))
    Z -= np.average(Z, axis=0, weights=weight)
    target = (Z @ [1.0, 0.5, 0.0, 0.0] + rng.normal(size=n))[:, None]
    _, _, left = _ridge(Z, target, weight)

    def without(row, penalty):
        kept = np.arange(n) != row
        A = np.column_stack([np.ones(n), Z])
        w = weight / weight.mean()
        squares = (A[kept] * w[kept, None]).T @ A[kept] + np.diag([0.0, *[penalty * n] * 4])
        return target[row, 0] - A[row] @ np.linalg.solve(squares, (A[kept] * w[kept, None]).T @ target[kept, 0])

    by_hand = np.array([[without(row, penalty) for row in range(n)] for penalty in PENALTIES])
    best = np.argmin((weight * by_hand**2).sum(axis=1))
    np.testing.assert_allclose(left[:, 0], by_hand[best], rtol=1e-8)


def test_wide_and_narrow_designs_give_the_same_ridge_regression():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(40, 39))
    Z -= Z.mean(axis=0)
    target, ones = rng.normal(size=(40, 1)), np.ones(40)
    wide = np.column_stack([Z, np.zeros((40, 5))])
    for one, other in zip(_ridge(Z, target, ones), _ridge(wide, target, ones), strict=True):
        np.testing.assert_allclose(one, other[: len(one)], atol=1e-7)


def test_trees_do_not_see_the_rows_they_predict():
    """If each row has a target of its own, predictions of rows by trees that saw them would follow it."""
    rng = np.random.default_rng(0)
    columns, noise = rng.normal(size=(400, 3)), rng.normal(size=(400, 1))
    forest = Forest.fit(columns, noise, np.ones(400), 0)
    assert np.corrcoef(forest.unseen[:, 0], noise[:, 0])[0, 1] < 0.1
    assert np.corrcoef(forest.predict(columns)[:, 0], noise[:, 0])[0, 1] > 0.5
    assert forest.out.mean() == 0.5


def test_an_interaction_is_left_to_the_forest_and_a_line_is_not():
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(2000, 2))
    targets = np.column_stack([columns[:, 0], np.sign(columns[:, 0] * columns[:, 1])]) + 0.3 * rng.normal(
        size=(2000, 2)
    )
    fit = ConditionalMean.fit((columns, columns[:, :0]), targets, np.ones(2000), 0)
    assert fit.share[1] > 0.8
    missed = targets - fit.unseen
    assert missed[:, 0].std() < 0.31
    assert missed[:, 1].std() < 0.6
    other = rng.normal(size=(500, 2))
    np.testing.assert_allclose(fit.predict((other, other[:, :0]))[:, 0], other[:, 0], atol=0.2)


# --- the design ----------------------------------------------------------------------------------------


def test_columns_become_numbers_with_their_gaps_marked():
    gaps = np.array([1.0, np.nan, 3.0, 4.0])
    np.testing.assert_array_equal(encoded(gaps, False), [[1, 0], [3, 1], [3, 0], [4, 0]])
    np.testing.assert_array_equal(encoded(gaps, True), np.eye(4)[[1, 0, 2, 3]])
    assert encoded(np.ones(4), False).shape == encoded(np.ones(4), True).shape == (4, 0)
    assert encoded(np.full(4, np.nan), False).shape == (4, 0)
    assert encoded(np.arange(50.0), True).shape == (50, 20)


def test_trees_see_the_digits_of_large_numbers():
    """Seconds since 1970 have no digits below 128 in float32, in which trees compare."""
    z = np.random.default_rng(0).normal(size=(500, 1))
    plain = Design.of(1.7e9 + z, np.zeros(1, dtype=bool)).plain
    assert np.unique(plain.astype(np.float32)).size == 500


def test_curves_and_lines_hold_a_parabola():
    x = np.random.default_rng(0).normal(size=200)
    A = np.column_stack([np.ones(200), x, curves(x, 5)])
    assert A.shape == (200, 7)
    left = x**2 - A @ np.linalg.lstsq(A, x**2, rcond=None)[0]
    assert np.abs(left).max() < 1e-9
    assert curves(np.repeat([0.0, 1.0], 5), 5).shape == (10, 0)
    assert curves(x, 0).shape == (200, 0)


def test_the_columns_of_a_feature_leave_together():
    X = np.column_stack([np.arange(12.0), np.tile([0.0, 1.0, 2.0], 4), np.r_[np.nan, np.arange(11.0)]])
    design = Design.of(X, np.array([False, True, False]))
    assert design.feature.tolist() == [0, 1, 1, 1, 2, 2]
    plain, bent = design.without(np.array([1]))
    assert plain.shape == (12, 3)
    assert bent.shape[1] == design.curves.shape[1]


def test_products_are_of_the_most_used_columns_and_leave_with_either():
    X = np.random.default_rng(0).normal(size=(60, 4))
    design = Design.of(X, np.zeros(4, dtype=bool), np.array([5, 0, 9, 7]))
    pairs = design.feature_of_curve[design.feature_of_curve[:, 0] != design.feature_of_curve[:, 1]]
    assert pairs.tolist() == [[2, 3], [2, 0], [3, 0]]  # feature 1 has no split
    standard = (X - X.mean(axis=0)) / X.std(axis=0)
    np.testing.assert_allclose(design.plain, standard)
    np.testing.assert_allclose(design.curves[:, -3], standard[:, 2] * standard[:, 3])
    assert (
        design.without(np.array([3]))[1].shape[1]
        == design.curves.shape[1] - 2 - (design.feature_of_curve == [3, 3]).all(axis=1).sum()
    )
    # 60 rows have room for 6 products, which are those of 4 columns; 50 rows for 5, so there are 3.
    for n, n_products in ((60, 6), (50, 3), (9, 0)):
        of_pairs = Design.of(X[:n], np.zeros(4, dtype=bool), np.ones(4, dtype=int)).feature_of_curve
        assert (of_pairs[:, 0] != of_pairs[:, 1]).sum() == n_products
