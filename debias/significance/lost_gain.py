"""How much of the gain of a model others lose: estimates, their bounds, tests, and the rows that would decide.

With the losses of rows that no model has seen, let d be the loss of the other model minus that of the model, and g the
loss of the best constant minus that of the model. The share of the gain that is lost is ``mean(d) / mean(g)``. At a
tolerance tau, ``u = d - tau g`` has a mean below 0 if less than this share is lost, which a one-sided t-test by rows
tells. The bounds are all tau that these tests do not reject (Fieller 1954, Journal of the Royal Statistical Society B
16, 175-185). The degrees of freedom are the number of rows (of blocks) less one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from debias.significance.row_test import row_test

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

POWER = 0.8
"""Probability with which the rows that are needed decide."""


class LostGain(NamedTuple):
    """The share of the gain that each of several models loses, arrays of shape (n_models,)."""

    estimate: Array
    low: Array
    """Lower bound: the share is below it with probability at most alpha. -inf if there is none."""
    high: Array
    """Upper bound: the share is above it with probability at most alpha. inf if there is none."""
    p_value: Array
    """One-sided, of the test that the share is below the tolerance. 1 if there are no bounds."""
    needed: Array
    """Number of rows (of blocks) of which a test at the tolerance decides, if the estimate is right; inf for none.

    A share below the tolerance is tested at alpha divided by the number of models, one above it at alpha.
    """


def lost_gain(
    risen: Array, gain: Array, weight: Array, blocks: NDArray[Any] | None, *, tolerance: float, alpha: float
) -> LostGain:
    """Return the share of the gain of a model that other models lose.

    Parameters
    ----------
    risen : array of shape (n_rows, n_models)
        Loss of each row by each other model, minus that by the model.
    gain : array of shape (n_rows,)
        Loss of each row by the best constant, minus that by the model. Its mean must be above 0.
    weight : array of shape (n_rows,)
    blocks : array of shape (n_rows,), or None
        Blocks of rows that depend on one another; their sums are the independent units.
    tolerance : float
        The upper bound is below it if and only if the test at this tolerance rejects, and the same for the lower bound.
    alpha : float
        Error rate of each bound, and of the tests of all models together.

    Returns
    -------
    LostGain

    Examples
    --------
    >>> gain = np.array([1.0, 2.0, 1.0, 2.0])
    >>> lost_gain(0.1 * gain[:, None], gain, np.ones(4), None, tolerance=0.2, alpha=0.05).high.round(3)
    array([0.1])
    """
    from scipy.special import ndtri, stdtr, stdtrit

    both = row_test(np.column_stack([risen, gain]), weight, blocks)
    n, deviation = both.n_independent, both.deviation * both.standard_error
    covariances = deviation.T @ deviation[:, -1:] * n / (n - 1)
    variance = both.standard_error[:-1] ** 2
    covariance, variance_of_gain = covariances[:-1, 0], covariances[-1, 0]
    d, g = both.mean[:-1], both.mean[-1]
    # The bounds are the roots of a tau^2 - 2 b tau + c.
    quantile = float(stdtrit(n - 1, 1 - alpha))
    a = g**2 - quantile**2 * variance_of_gain
    b, c = d * g - quantile**2 * covariance, d**2 - quantile**2 * variance
    low, high = np.full(d.size, -np.inf), np.full(d.size, np.inf)
    if a > 0 and g > 0:
        reach = np.sqrt(np.maximum(b**2 - a * c, 0.0))
        low, high = (b - reach) / a, (b + reach) / a
    above = d - tolerance * g
    squared = variance - 2 * tolerance * covariance + tolerance**2 * variance_of_gain
    z = np.divide(above, np.sqrt(squared), out=np.copysign(np.inf, above), where=squared > 0)
    p_value = np.where(np.isfinite(high), stdtr(n - 1, z), 1.0)
    factor = (ndtri(1 - np.where(above < 0, alpha / d.size, alpha)) + ndtri(POWER)) ** 2
    needed = np.divide(n * factor * squared, above**2, out=np.full(d.size, np.inf), where=above != 0)
    return LostGain(d / g, low, high, p_value, needed)
