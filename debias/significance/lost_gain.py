"""How much of the gain of a model others lose: estimates, their bounds, tests, and the rows that would decide.

With the losses of rows that no model has seen, let d be the loss of the other model minus that of the model, and g the
loss of the best constant minus that of the model. The share of the gain that is lost is ``mean(d) / mean(g)``. At a
tolerance tau, ``u = d - tau g`` has a mean below 0 if less than this share is lost, which a one-sided t-test by rows
tells. The bounds are all tau that these tests do not reject (as Fieller 1954, Journal of the Royal Statistical Society
B 16, 175-185).

A feature that matters in few rows gives u a long right tail. A sample with few such rows has a mean that is too low and
a standard error that is too small, so that the plain test certifies in .08 to .19 of samples instead of .05. So t is
corrected for the skewness, with Hall's (1992) transformation (Journal of the Royal Statistical Society B 54, 221-228),
where it makes the test stricter, and has the degrees of freedom of the effective number of rows (of blocks;
:func:`debias.significance.contributions.effective_number`) less one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from debias.p_values import p_of_mean_below
from debias.significance.contributions import effective_number
from debias.significance.row_test import ROUNDING, row_test

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

POWER = 0.8
"""Probability with which the rows that are needed decide."""
DOUBLINGS = 30
"""A bound is looked for within 2^30 times the tolerance, or the largest estimate."""
HALVINGS = 40
"""A bound is known to 1e-12 of where it was looked for."""


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
    from scipy.special import ndtri, stdtrit

    both = row_test(np.column_stack([risen, gain]), weight, blocks)
    n, deviation = both.n_independent, both.deviation * both.standard_error
    d, g = both.mean[:-1], both.mean[-1]
    units = _Units(d, g, deviation[:, :-1], deviation[:, -1:])
    estimate = d / g
    low, high = np.full(d.size, -np.inf), np.full(d.size, np.inf)
    p_value = np.ones(d.size)
    if both.z[-1] > float(stdtrit(n - 1, 1 - alpha)):  # without a gain beyond chance, a share of it has no bounds
        p_value = units.p_below(np.full(d.size, tolerance))
        high = _bound(units.p_below, estimate, tolerance, alpha, 1.0)
        low = _bound(units.p_above, estimate, tolerance, alpha, -1.0)
    above = d - tolerance * g
    squared = units.error(np.full(d.size, tolerance)) ** 2
    factor = (ndtri(1 - np.where(above < 0, alpha / d.size, alpha)) + ndtri(POWER)) ** 2
    needed = np.divide(n * factor * squared, above**2, out=np.full(d.size, np.inf), where=above != 0)
    return LostGain(estimate, low, high, p_value, needed)


class _Units(NamedTuple):
    """The means of d, of shape (n_models,), and g, and the deviations of rows (blocks) from them, over their number."""

    mean: Array
    mean_gain: float
    deviation: Array
    deviation_of_gain: Array

    def p_below(self, tau: Array) -> Array:
        """Return p-values, one for each model, of a share of lost gain below tau."""
        return _lower_tail(self.mean - tau * self.mean_gain, self._at(tau))

    def p_above(self, tau: Array) -> Array:
        """Return p-values of a share of lost gain above tau."""
        return _lower_tail(tau * self.mean_gain - self.mean, -self._at(tau))

    def error(self, tau: Array) -> Array:
        """Return the standard errors of the means of u."""
        return _errors(self._at(tau))

    def _at(self, tau: Array) -> Array:
        deviation = self.deviation - tau * self.deviation_of_gain
        # What is left of equal numbers is rounding.
        size = np.abs(self.deviation).max(axis=0) + np.abs(tau) * np.abs(self.deviation_of_gain).max()
        return np.where(np.abs(deviation).max(axis=0) > ROUNDING * size, deviation, 0.0)


def _errors(deviation: Array) -> Array:
    n = len(deviation)
    error: Array = np.sqrt((deviation**2).sum(axis=0) * n / (n - 1))
    return error


def _lower_tail(mean: Array, deviation: Array) -> Array:
    """Return one-sided p-values of means below 0; deviations are over the number of units."""
    n, error = len(deviation), _errors(deviation)
    varies = error > 0
    z = np.divide(mean, error, out=np.copysign(np.inf, mean), where=varies)
    scaled = np.divide(deviation, error, out=np.zeros_like(deviation), where=varies)
    squares = scaled * scaled
    of_squares = [np.einsum("ij,ij->j", squares, each) for each in (scaled, squares)]
    sums = np.stack([scaled.sum(axis=0), squares.sum(axis=0), *of_squares])
    skewness = sums[2] * (n / (n - 1)) ** 1.5  # with the standard deviation over n
    return p_of_mean_below(z, np.maximum(effective_number(sums, n) - 1, 1.0), skewness)


def _bound(test: Callable[[Array], Array], estimate: Array, tolerance: float, alpha: float, side: float) -> Array:
    """Return for each model the tau next to its estimate, on one side of it, that the test rejects.

    At the tolerance the test decides on which side of it the bound is, so that both tell the same.
    """
    scale = max(abs(tolerance), float(np.abs(estimate).max()), 1e-3)
    outside = (tolerance - estimate) * side > 0
    rejected = outside & (test(np.full(estimate.size, tolerance)) <= alpha)
    inner = np.where(outside & ~rejected, tolerance, estimate)  # not rejected
    outer = np.where(rejected, tolerance, inner + side * scale)
    found = rejected.copy()
    for _ in range(DOUBLINGS):
        found |= test(outer) <= alpha
        if found.all():
            break
        inner = np.where(found, inner, outer)
        outer = np.where(found, outer, estimate + 2 * (outer - estimate))
    for _ in range(HALVINGS):
        middle = (inner + outer) / 2
        is_rejected = test(middle) <= alpha
        inner, outer = np.where(is_rejected, inner, middle), np.where(is_rejected, middle, outer)
    return np.where(found, outer, side * np.inf)
