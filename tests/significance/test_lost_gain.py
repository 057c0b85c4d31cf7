"""The share of the gain that a refit loses: by hand, as an inverted test, and its level."""

import numpy as np
import pytest
from scipy import stats

from debias.p_values import passed_on
from debias.significance.lost_gain import lost_gain


def drawn(seed, n=200, mean=0.1, spread=0.5):
    rng = np.random.default_rng(seed)
    gain = rng.normal(1.0, 0.7, n)
    return mean * gain + rng.normal(0, spread, n), gain


def stricter(u):
    """The p-value of a mean below 0 by the definition: Hall's transformation of t, if the right tail is longer."""
    n, t = u.size, u.mean() / (u.std(ddof=1) / np.sqrt(u.size))
    a = max(stats.skew(u), 0) / np.sqrt(n)
    effective = n / np.clip(1 + stats.kurtosis(u), 1, n)
    return stats.t.cdf(t + a * t**2 / 3 + a**2 * t**3 / 27 + a / 6, max(effective - 1, 1))


@pytest.mark.quick
def test_the_bounds_by_hand():
    """d = (1, 3, 2, 2), g = (8, 12, 8, 12): means 2 and 10; variances of the means 1/6 and 4/3, covariance 1/3."""
    d, g = np.array([1.0, 3.0, 2.0, 2.0]), np.array([8.0, 12.0, 8.0, 12.0])
    found = lost_gain(d[:, None], g, np.ones(4), None, tolerance=0.4, alpha=0.05)
    t = stats.t.ppf(0.95, 3)
    variance_d, variance_g, covariance = 2 / 3 / 4, 16 / 3 / 4, (2 + 2) / 3 / 4
    a, b, c = 100 - t**2 * variance_g, 20 - t**2 * covariance, 4 - t**2 * variance_d
    roots = (b + np.array([-1, 1]) * np.sqrt(b**2 - a * c)) / a
    np.testing.assert_allclose([found.estimate[0], found.low[0], found.high[0]], [0.2, *roots], rtol=1e-10)


@pytest.mark.thorough
@pytest.mark.parametrize("tolerance", [0.02, 0.1, 0.3])
def test_the_bound_is_below_the_tolerance_if_and_only_if_the_test_rejects(tolerance):
    sides = []
    for seed in range(60):
        d, g = drawn(seed, mean=tolerance + 0.05 * np.sin(seed), spread=0.3)
        found = lost_gain(d[:, None], g, np.ones(d.size), None, tolerance=tolerance, alpha=0.05)
        u = d - tolerance * g
        below, above = stricter(u), stricter(-u)
        assert (found.high[0] < tolerance) == (below < 0.05) == (found.p_value[0] < 0.05)
        assert found.p_value[0] == pytest.approx(below, rel=1e-9)
        assert (found.low[0] > tolerance) == (above < 0.05)
        assert stricter(d - found.high[0] * g) == pytest.approx(0.05, rel=1e-6)
        assert stricter(found.low[0] * g - d) == pytest.approx(0.05, rel=1e-6)
        sides.append((found.high[0] < tolerance, found.low[0] > tolerance))
    assert {(True, False), (False, True), (False, False)} <= set(sides)


def test_a_refit_that_is_the_model_loses_nothing_and_one_that_is_a_constant_loses_all():
    _, g = drawn(0)
    found = lost_gain(np.column_stack([0 * g, g]), g, np.ones(g.size), None, tolerance=0.05, alpha=0.05)
    for part in (found.estimate, found.low, found.high, found.p_value):
        np.testing.assert_allclose(part, [0, 1], atol=1e-9)


def test_a_row_of_weight_two_counts_twice_and_the_rows_of_a_block_as_one():
    d, g = drawn(1, n=40)
    weight, block = np.repeat([1.0, 2.0], 20), np.arange(40) // 4
    found = lost_gain(d[:, None], g, weight, block, tolerance=0.1, alpha=0.05)
    twice = np.repeat(np.arange(40), weight.astype(int))
    by_row = lost_gain(d[twice, None], g[twice], np.ones(60), block[twice], tolerance=0.1, alpha=0.05)
    np.testing.assert_allclose([each[0] for each in found], [each[0] for each in by_row], rtol=1e-10)
    u = np.bincount(block, weights=weight * (d - 0.1 * g))
    sums_d, sums_g = (np.bincount(block, weights=weight * values) for values in (d, g))
    assert found.estimate[0] == pytest.approx(sums_d.sum() / sums_g.sum())
    mean = (weight * (d - 0.1 * g)).sum() / weight.sum()
    deviation = u - mean * np.bincount(block, weights=weight)
    z = mean / (np.sqrt((deviation**2).sum() * 10 / 9) / weight.sum())
    assert found.needed[0] == pytest.approx(10 * ((stats.norm.ppf(0.95) + stats.norm.ppf(0.8)) / z) ** 2)


def test_without_a_gain_beyond_chance_there_are_no_bounds():
    d, g = drawn(2, n=50)
    found = lost_gain(d[:, None], g - g.mean() + 0.01, np.ones(50), None, tolerance=0.05, alpha=0.05)
    assert (found.low[0], found.high[0], found.p_value[0]) == (-np.inf, np.inf, 1)


@pytest.mark.thorough
def test_with_the_rows_that_are_needed_the_test_decides_as_often_as_promised():
    """Power of .8, from 2,000 draws: SE .009. The normal approximation and its estimated spread add a little."""
    d, g = drawn(3, n=4000, mean=0.02, spread=0.4)
    needed = int(np.ceil(lost_gain(d[:, None], g, np.ones(4000), None, tolerance=0.05, alpha=0.05).needed[0]))
    rng, decided = np.random.default_rng(0), []
    for _ in range(2000):
        rows = rng.integers(0, 4000, needed)
        again = lost_gain(d[rows, None], g[rows], np.ones(needed), None, tolerance=0.05, alpha=0.05)
        decided.append(again.high[0] < 0.05)
    assert abs(np.mean(decided) - 0.8) < 3 * np.sqrt(0.8 * 0.2 / 2000) + 0.01


@pytest.mark.slow
@pytest.mark.parametrize(("n", "rare"), [(300, 0.023), (1000, 0.01), (100, 0.05), (300, None)])
def test_a_loss_of_few_rows_is_certified_by_error_no_more_often_than_alpha(n, rare):
    """Plain t-tests err in .071, .081 and .113 of these draws, and in .074 of those of a lognormal loss: all fail."""
    rng, wrong = np.random.default_rng(n), 0
    for _ in range(2000):
        gain = rng.normal(1.0, 0.5, n)
        risen = 0.05 / rare * (rng.random(n) < rare) if rare else 0.05 * rng.lognormal(-0.5, 1.0, n)
        wrong += lost_gain(risen[:, None], gain, np.ones(n), None, tolerance=0.05, alpha=0.05).p_value[0] <= 0.05
    assert wrong / 2000 < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 2000)


@pytest.mark.slow
@pytest.mark.parametrize("n", [100, 300])
def test_sets_that_share_alpha_err_in_at_most_alpha_of_draws(n):
    """Sizes from clearly below to above the tolerance, on correlated losses with heavy tails: 4,000 draws each."""
    lost = np.array([0.0, 0.03, 0.05, 0.05, 0.08, 0.2])  # the third is at the tolerance: any certificate of it is wrong
    rng, wrong = np.random.default_rng(n), 0
    for _ in range(4000):
        gain = rng.gamma(1.0, 1.0, n)
        shared = rng.standard_t(5, n)
        risen = gain[:, None] * lost + 0.1 * shared[:, None] + 0.1 * rng.standard_t(5, (n, lost.size))
        found = lost_gain(risen, gain, np.ones(n), None, tolerance=0.05, alpha=0.05)
        wrong += passed_on(found.p_value, 0.05)[2:].any()
    assert wrong / 4000 < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 4000)
