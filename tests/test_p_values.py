"""P-values, adjustments and stopping rules against their definitions and against scipy."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.stats import binom, false_discovery_control

from debias import p_values

RNG = np.random.default_rng(0)


def test_permutation_p_values_count_ties_and_are_never_0():
    null = np.array([[0.0, 1.0], [0.0, 2.0], [0.0, 3.0]])
    assert p_values.permutation_p_values(np.array([0.0, 2.0]), null).tolist() == [1.0, 0.75]
    assert p_values.permutation_p_values(np.array([9.0, 9.0]), null).tolist() == [0.25, 0.25]
    # Equal up to rounding is a tie, for either sign of z.
    assert p_values.permutation_p_values(np.array([-2 + 1e-12, 2 + 1e-12]), np.array([[-2.0, 2.0]])).tolist() == [1, 1]


def test_sequential_p_values_stop_at_the_h_th_exceedance():
    null = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0], [1, 1, 0]], dtype=float)
    p, n = p_values.sequential_p_values(np.array([1.0, 1.0, 1.0]), null, h=2)
    assert p.tolist() == [2 / 2, 2 / 4, 1 / 5]
    assert n.tolist() == [2, 4, 4]


def test_step_down_max_is_the_definition():
    z, null = RNG.normal(1, 1, 6), RNG.normal(size=(50, 6))
    expected, largest = np.empty(6), 0.0
    for step, k in enumerate(np.argsort(-z)):
        rest = np.argsort(-z)[step:]
        count = sum(max(draw[j] for j in rest) >= z[k] for draw in null)
        largest = max(largest, (1 + count) / 51)
        expected[k] = largest
    np.testing.assert_array_equal(p_values.step_down_max(z, null), expected)
    assert (expected >= p_values.permutation_p_values(z, null)).all()


@pytest.mark.parametrize("n", [1, 2, 3, 5, 7])
def test_alpha_that_passes_on_is_a_closed_test(n):
    """A hypothesis is rejected if all intersections with it are, each at weights that pass over what it lacks."""
    rng = np.random.default_rng(n)
    numbers = set()
    for _ in range(60):
        p = rng.choice([1e-4, 1.0], n) * rng.uniform(0, 1, n) + rng.choice([0.0, 0.05 / n], n)
        rejected = {}
        for members in range(1, 2**n):
            inside = [k for k in range(n) if members >> k & 1]
            weight = dict.fromkeys(inside, 0)
            for k in range(n):
                weight[next((k + step) % n for step in range(n) if (k + step) % n in weight)] += 1
            rejected[members] = any(p[k] <= 0.05 * weight[k] / n for k in inside)
        expected = [all(value for members, value in rejected.items() if members >> k & 1) for k in range(n)]
        found = p_values.passed_on(p, 0.05)
        assert found.tolist() == expected
        numbers.add(found.sum())
    assert len(numbers) > 1


def test_alpha_passes_on_by_hand():
    """Of .06, each of three has .02: the second is rejected and the third gets .04, then the first .06."""
    assert p_values.passed_on(np.array([0.05, 0.01, 0.04]), 0.06).tolist() == [True, True, True]
    assert p_values.passed_on(np.array([0.03, 0.01, 0.05]), 0.06).tolist() == [False, True, False]
    assert p_values.passed_on(np.array([]), 0.06).tolist() == []


def test_adjustments_agree_with_scipy_and_by_hand():
    p = np.array([0.01, 0.04, 0.03, 0.005, 0.5, 0.5])
    np.testing.assert_allclose(p_values.false_discovery(p), false_discovery_control(p, method="bh"))
    np.testing.assert_allclose(
        p_values.false_discovery(p, any_dependence=True), false_discovery_control(p, method="by")
    )
    np.testing.assert_allclose(p_values.holm(p), [0.05, 0.12, 0.12, 0.03, 1, 1])


@pytest.mark.parametrize(("alpha", "n_draws"), [(0.01, 299), (0.05, 200), (0.05, 59), (0.3, 120)])
def test_the_risk_that_all_draws_would_decide_otherwise_is_kept(alpha, n_draws):
    """Follow the exact law of the count, for p-values between those for which the boundaries were made too."""
    risk, most = 2e-3, int(alpha * (1 + n_draws) + 1e-9) - 1
    lower, upper = p_values.Boundaries(alpha, n_draws, risk).upto(n_draws)
    p = np.linspace(alpha / 3, min(3 * alpha, 0.9), 200)[:, None]
    law, wrong = np.ones((200, 1)), np.zeros(200)
    for n, low, high in zip(range(1, n_draws), lower, upper, strict=False):
        law = np.hstack([(1 - p) * law, np.zeros((200, 1))]) + np.hstack([np.zeros((200, 1)), p * law])
        rejects = binom.cdf(most - np.arange(n + 1), n_draws - n, p)
        wrong += (law * (1 - rejects))[:, : low + 1].sum(axis=1) + (law * rejects)[:, high:].sum(axis=1)
        law[:, : low + 1] = law[:, high:] = 0
    assert risk / 20 < wrong.max() <= risk


@pytest.mark.parametrize(("alpha", "n_draws"), [(0.01, 299), (0.05, 200), (0.05, 19), (0.3, 120)])
def test_a_settled_decision_is_that_of_the_p_value_of_these_draws(alpha, n_draws):
    lower, upper = p_values.Boundaries(alpha, n_draws).upto(n_draws)
    n = np.arange(1, n_draws + 1)
    assert ((1 + lower)[lower >= 0] / (1 + n)[lower >= 0] <= alpha).all()
    assert ((1 + upper) / (1 + n) > alpha).all()
    assert upper[-1] == lower[-1] + 1
    assert (lower < upper).all()


def test_boundaries_stop_early_where_all_draws_are_sure_to_decide_alike():
    bounds = p_values.Boundaries(0.05, 200)
    always, never = np.ones((20, 1), dtype=bool), np.zeros((200, 1), dtype=bool)
    assert bounds.settled(always).all()
    first = 1 + int(np.argmax(bounds.upto(200)[0] >= 0))  # draws without any exceedance that tell a rejection
    assert bounds.settled(never[:first]).all()
    assert not bounds.settled(never[: first - 1]).any()
    assert first < 100  # ten exceedances in the other half: binom.sf(9, 109, .065) * .935 ** 91 is less than 1e-3
    assert binom.sf(9, 200 - first, 0.065) * 0.935**first <= 1e-3
    assert bounds.settled(np.zeros((200, 1), dtype=bool) | (np.arange(200) % 20 == 0)[:, None]).all()


def test_stopping_early_keeps_the_level():
    """Under the null hypothesis the observed value is one of equal ones, so the count is that of a uniform p-value."""
    alpha, n_draws = 0.05, 200
    lower, upper = p_values.Boundaries(alpha, n_draws).upto(n_draws)
    p = ((np.arange(1000) + 0.5) / 1000)[:, None]
    law, rejected = np.ones((1000, 1)), 0.0
    for low, high in zip(lower, upper, strict=True):
        law = np.hstack([(1 - p) * law, np.zeros((1000, 1))]) + np.hstack([np.zeros((1000, 1)), p * law])
        rejected += law[:, : low + 1].sum(axis=1).mean()
        law[:, : low + 1] = law[:, high:] = 0
    assert 10 / 201 < rejected < 10 / 201 + 5e-5 < alpha


def test_nothing_is_settled_where_all_draws_are_too_few_to_reject():
    bounds = p_values.Boundaries(0.05, 10)
    assert not bounds.settled(np.ones((9, 2), dtype=bool)).any()
    assert bounds.settled(np.ones((10, 2), dtype=bool)).all()


@pytest.mark.quick
def test_mirrored_p_values_are_those_by_hand():
    p, null = p_values.mirrored_p_values(np.array([-2.0, -1.0, 0.0, 0.5, 3.0]))
    assert null.tolist() == [-2, -1, 0, 1, 2]
    np.testing.assert_allclose(p, [1, 5 / 6, 4 / 6, 3 / 6, 1 / 6])


def test_boundaries_grow_with_the_draws_whoever_asks_first():
    at_once, step_by_step = p_values.Boundaries(0.05, 500).upto(500), p_values.Boundaries(0.05, 500)
    for n in (1, 7, 8, 500):
        for found, expected in zip(step_by_step.upto(n), at_once, strict=True):
            np.testing.assert_array_equal(found, expected[:n])


def test_pooled_p_values_count_the_draws_of_all_features():
    rng = np.random.default_rng(0)
    null = rng.normal(size=(40, 30)) * np.linspace(0.5, 2, 30)
    null[:, 7] = 0.0
    z = np.linspace(0.1, 5, 30)
    scale = [math.sqrt((sum(max(v, 0) ** 2 for v in null[:, k]) + z[k] ** 2) / 41) for k in range(30)]
    pool = [value / s for k, s in enumerate(scale) if k != 7 for value in null[:, k]]
    expected = [
        1.0 if k == 7 else (1 + sum(v >= z[k] / s for v in pool)) / (1 + len(pool)) for k, s in enumerate(scale)
    ]
    np.testing.assert_allclose(p_values.pooled_p_values(z, null), expected)
    assert min(expected) < 1 / 41  # smaller than the draws of one feature can give


@pytest.mark.thorough
@pytest.mark.parametrize("law", ["normal", "heavy tails", "skewed"])
def test_pooled_p_values_keep_the_rate_of_false_discoveries(law):
    """Of equal rows, the first one has any discovery as rarely as Benjamini-Hochberg allows."""
    rng, found = np.random.default_rng(0), 0
    for _ in range(400):
        u = rng.standard_t(6, size=(121, 100)) if law == "heavy tails" else rng.normal(size=(121, 100))
        rows = u**2 - 1 if law == "skewed" else u
        found += (p_values.false_discovery(p_values.pooled_p_values(rows[0], rows[1:])) <= 0.1).any()
    assert found / 400 <= 0.1 + 3 * math.sqrt(0.1 * 0.9 / 400)


def test_the_correction_for_skewness_only_makes_p_values_larger():
    """It is a cubic of t whose third power wins far from 0."""
    t_values, skewness = np.meshgrid(np.linspace(-30, 30, 241), [0.0, 0.1, 0.5, 1.0, 4.0])
    plain = stats.t.cdf(t_values, 9)
    corrected = p_values.p_of_mean_below(t_values, 9.0, skewness)
    assert (corrected >= plain * (1 - 1e-12)).all()
    is_near = (np.abs(t_values) < 3) & (skewness > 0) & (skewness <= 1)
    assert (corrected[is_near] > plain[is_near]).all()
    np.testing.assert_array_equal(p_values.p_of_mean_below(t_values, 9.0, -skewness), plain)
    assert np.isnan(p_values.p_of_mean_below(np.nan, 9.0, 0.1))
