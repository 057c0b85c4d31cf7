"""The means of the response, the prediction and the residual of periods: whether they differ between two windows.

This comes before any question about features. If the mean residual of a period moves (a sensor is stuck, a price rose),
every column that is nearly the same for all rows of a period follows it, and seems to have become important.

The residual is the response minus the prediction, or the negative gradient of the loss there. A period varies around
the mean of its window as the periods of the reference window do, and more if it has fewer rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.rows.period_sums import PeriodSums

    Array = NDArray[np.float64]

OF = ("response", "prediction", "residual")
ENOUGH_PERIODS = 8
"""With fewer periods in the reference window, it is not known how much means of periods vary."""
ROUNDING = 1e-9
"""Deviations that are smaller, relative to the largest mean, are rounding errors."""


@dataclass(frozen=True, eq=False)
class PeriodMeans:
    """Means of periods.

    Parameters
    ----------
    weight : array of shape (n_periods,)
    mean : array of shape (n_periods, 3, n_outputs)
        Of the response, the prediction and the residual. For boosted trees the first two are less a constant.
    """

    weight: Array
    mean: Array


@dataclass(frozen=True, eq=False)
class MeansComparison:
    """Whether the means of two windows differ. Arrays have one entry for each of OF.

    Parameters
    ----------
    before, after : array of shape (3,)
        Means of the output whose mean changed with the smallest p-value.
    p_value : array of shape (3,)
        Of the window and of each of its periods alone, with Bonferroni's bound over these and over outputs. NaN if the
        reference window has fewer than 8 periods.
    changed : array of bool of shape (3,)
    most : tuple of int
        Position, in the recent window, of the period that deviates most.
    """

    before: Array
    after: Array
    p_value: Array
    changed: NDArray[np.bool_]
    most: tuple[int, ...]


def compare_means(before: PeriodMeans, after: PeriodMeans, level: float) -> MeansComparison:
    """Compare the means of the periods of two windows.

    Parameters
    ----------
    before, after : PeriodMeans
    level : float
        Largest p-value of a change.
    """
    from scipy.special import stdtr

    centre, recent = (np.average(each.mean, axis=0, weights=each.weight) for each in (before, after))
    n_before, n_after = before.weight.size, after.weight.size
    deviation, apart = after.mean - centre, recent - centre
    p_each = np.full((n_after + 1, *centre.shape), np.nan)
    if n_before >= ENOUGH_PERIODS:
        size = before.weight.mean()
        # Weighted, so that a period of few rows does not make the others look as if they varied more.
        squares = (before.weight[:, None, None] / size * (before.mean - centre) ** 2).sum(axis=0) / (n_before - 1)
        floor = (ROUNDING * np.abs(before.mean).max()) ** 2
        # A period of more rows is not taken to vary less: what its rows share does not average out.
        rows = np.maximum(size / after.weight, 1.0)[:, None, None]
        # 1 / n_before: the centre is estimated from the periods of the reference.
        variances = np.concatenate([squares * (rows + 1 / n_before), [squares * _of_mean(after, size, n_before)]])
        parts = np.concatenate([deviation, apart[None]])
        ratio = np.abs(parts) / np.sqrt(np.maximum(variances, max(floor, 1e-300)))
        p_each = np.minimum(2 * stdtr(n_before - 1, -ratio) * (n_after + 1) * centre.shape[1], 1.0)
    smallest = p_each.min(axis=0)  # (3, n_outputs)
    output = np.argmin(np.where(np.isnan(smallest), np.inf, smallest), axis=1)
    at = np.arange(len(OF))
    p_value = smallest[at, output]
    largest = np.maximum(*(np.abs(each.mean).max(axis=(0, 1)) for each in (before, after)))
    return MeansComparison(
        *without_rounding(centre[at, output], recent[at, output], largest[output]),
        p_value,
        p_value <= level,
        tuple(int(np.argmax(np.abs(deviation[:, k, j]))) for k, j in enumerate(output)),
    )


def without_rounding(before: Array, after: Array, largest: Array) -> tuple[Array, Array]:
    """Return means of two windows without what is rounding error of their sums.

    Means of the same rows in another order are equal then, and a mean that is 0 but for rounding is 0.

    Parameters
    ----------
    before, after : array
    largest : array
        Largest mean of a period, in size, of the same output.
    """
    tiny = ROUNDING * largest
    after = np.where(np.abs(after - before) <= tiny, before, after)
    return np.where(np.abs(before) <= tiny, 0.0, before), np.where(np.abs(after) <= tiny, 0.0, after)


def _of_mean(after: PeriodMeans, size: float, n_before: int) -> float:
    """Return the variance of the difference of the windows' means, in units of that of a period."""
    share = after.weight / after.weight.sum()
    return float((share**2 * np.maximum(size / after.weight, 1.0)).sum() + 1 / n_before)


def means_of(sums: PeriodSums) -> Array:
    """Return the means of a period, shape (3, n_outputs), see :class:`PeriodMeans`."""
    ensemble = sums.ensemble
    roots = ensemble.tree_start[:-1]
    if sums.s.shape[1] == ensemble.n_outputs:
        response, residual = sums.s[roots[0]], sums.residual[roots[0]]
        centre = ensemble.centre if ensemble.averaged else 0.0
    else:  # each tree has one output
        first = [int(np.argmax(ensemble.tree_output == output)) for output in range(ensemble.n_outputs)]
        response, residual, centre = sums.s[roots[first], 0], sums.residual[roots[first], 0], 0.0
    means = np.stack([response, response - residual, residual]) / sums.total_weight
    means[:2] += centre
    # The two classes of a forest mirror each other.
    return means[:, 1:] if ensemble.averaged and ensemble.is_classifier and ensemble.n_outputs == 2 else means
