"""The response of accelerated failure times, against its definition by scipy's distributions."""

import numpy as np
import pytest
from scipy import stats

from debias import RowsError
from debias.plugin import CompositionError
from debias.trees.survival_objectives import AftObjective

SCIPY = {"normal": stats.norm, "logistic": stats.logistic, "extreme": stats.gumbel_l}


def bounds(n=60, seed=0):
    """Return exact, right-censored, left-censored and interval-censored times, 15 rows of each."""
    rng = np.random.default_rng(seed)
    lower = rng.exponential(2, n) + 0.05
    upper = lower.copy()
    upper[15:30] = np.inf
    lower[30:45], upper[45:] = 0.0, lower[45:] + rng.exponential(1, 15)
    return np.column_stack([lower, upper])


def log_likelihood(y, margin, scale, distribution):
    with np.errstate(divide="ignore"):
        low, high = ((np.log(y) - margin[:, None]) / scale).T
    above, below = distribution.sf(low) - distribution.sf(high), distribution.cdf(high) - distribution.cdf(low)
    share = np.log(np.where(low == high, 1.0, np.where(low > 0, above, below)))
    return np.where(low == high, distribution.logpdf(low), share)


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("name", SCIPY)
def test_response_is_the_derivative_of_the_log_likelihood(name, scale):
    y, margin, step = bounds(), np.random.default_rng(1).normal(size=60) / 2, 1e-5
    above, below = (log_likelihood(y, margin + sign * step, scale, SCIPY[name]) for sign in (1, -1))
    got = AftObjective(parameter=(scale,), distribution=name).response(y, margin[:, None])[:, 0]
    expected = np.clip((above - below) / (2 * step), -15, 15)
    assert (np.abs(expected) < 15).mean() > 0.7
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", SCIPY)
def test_responses_of_margins_far_from_the_times_are_finite_and_clipped(name):
    y = bounds()
    objective = AftObjective(distribution=name, parameter=(0.1,))
    for margin in (-1000.0, -30.0, 30.0, 1000.0):
        got = objective.response(y, np.array([[margin]]))
        assert np.isfinite(got).all()
        assert np.abs(got).max() <= 15
    assert (objective.response(y, np.array([[-30.0]]))[:30] == 15).all() or name == "logistic"


def test_prediction_is_the_exponential_of_the_margin():
    np.testing.assert_allclose(AftObjective().mean(np.array([[0.0], [1.0]])), [[1.0], [np.e]])


@pytest.mark.parametrize("row", [(2.0, 1.0), (-1.0, 1.0), (0.0, 0.0), (np.inf, np.inf)])
def test_bounds_that_are_no_interval_are_refused(row):
    y = bounds()
    y[7] = row
    with pytest.raises(RowsError, match="1 rows have other bounds, the first at position 7"):
        AftObjective().check(y)


def test_an_unknown_distribution_is_refused():
    with pytest.raises(CompositionError, match="Did you mean 'normal'"):
        AftObjective(distribution="norml")
