"""Differences of means of periods, with errors that allow for neighbouring periods that are alike.

The variance of a mean of n periods with variance s^2 is taken to be s^2 / n (1 + r) / (1 - r), as for a series whose
periods depend on the one before with correlation r. r is estimated from the same periods: that of each value by itself,
or the mean over all values if this is larger. One value alone, in a few weeks, does not show it well enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from debias.significance.any_look import memory_of
from debias.significance.period_means import ENOUGH_PERIODS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

LARGEST_MEMORY = 0.95
"""A correlation of neighbouring periods is not taken to be larger, so that errors stay finite."""


class Difference(NamedTuple):
    """A difference of means, by value. Errors, degrees of freedom and memory are NaN where nothing is known."""

    change: Array
    error: Array
    freedom: Array
    memory: Array

    def p_value(self) -> Array:
        """Return the two-sided p-value that there is no difference."""
        from scipy.special import stdtr

        with np.errstate(divide="ignore", invalid="ignore"):
            p: Array = 2 * stdtr(self.freedom, -np.abs(self.change / self.error))
        return p


def difference_of(windows: Sequence[Array]) -> Difference:
    """Return the difference of the means of two windows, or the mean of one, which is compared with 0.

    Parameters
    ----------
    windows : sequence of array of shape (n_periods, n_values)
        One or two, in the order of time.

    Returns
    -------
    Difference
        Welch's degrees of freedom, for as many periods as would be independent. Errors are NaN with fewer than 8
        periods in a window, or if all periods of each window have the same value.

    Examples
    --------
    >>> import numpy as np
    >>> from debias.significance.days_with_memory import difference_of
    >>> rng = np.random.default_rng(0)
    >>> found = difference_of([rng.normal(size=(60, 5)), rng.normal(size=(30, 5))])
    >>> found.error.round(1).tolist()
    [0.2, 0.2, 0.2, 0.3, 0.2]
    """
    means = [each.mean(axis=0) for each in windows]
    change = means[-1] - means[0] if len(windows) > 1 else means[0]
    constant = np.all([np.ptp(each, axis=0) == 0 for each in windows], axis=0)
    if min(map(len, windows)) < ENOUGH_PERIODS or constant.all():
        return Difference(change, *np.full((3, change.size), np.nan))
    memory = _memory(windows, constant)
    larger = (1 + memory) / (1 - memory)
    parts = [each.var(axis=0, ddof=1) / len(each) * larger for each in windows]
    squared = np.sum(parts, axis=0)
    own = [np.maximum(len(each) / larger - 1, 1.0) for each in windows]
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = squared**2 / np.sum([part**2 / each for part, each in zip(parts, own, strict=True)], axis=0)
    return Difference(change, *(np.where(constant, np.nan, each) for each in (np.sqrt(squared), freedom, memory)))


def _memory(windows: Sequence[Array], constant: NDArray[np.bool_]) -> Array:
    """Return the correlation of neighbouring periods that is allowed for, by value: 0 or more."""
    each = np.average([memory_of(window) for window in windows], axis=0, weights=[len(window) for window in windows])
    memory: Array = np.clip(np.maximum(each, each[~constant].mean()), 0.0, LARGEST_MEMORY)
    return memory
