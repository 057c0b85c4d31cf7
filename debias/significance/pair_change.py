"""Whether the response goes in another way than before with what a model does with two features together.

In each window the residual is regressed on functions of all columns, on what the model does with each feature alone, on
the rest of its output, and on the interactions of the named pairs. One more than the coefficient of a pair is its
*slope*: 1 if the response follows the interaction as the model believes, 0 if it does not follow it. A changed effect
of single features is among the functions. Standard errors are from the differences between periods, as for features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from debias.p_values import holm
from debias.results.pair_changes import PairChanges
from debias.rows.pair_sums import PairSums
from debias.rows.period_sums import group_variance
from debias.significance.margins import above, beyond
from debias.significance.period_means import ENOUGH_PERIODS
from debias.text import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.groups import Grouping
    from debias.rows.period_sums import PeriodSums

    Array = NDArray[np.float64]

SINGULAR = 1e-9
"""A smaller eigenvalue of the correlations of the functions, relative to the largest one, is 0 up to rounding."""
LEAST_LEFT = 1e-4
"""A pair is not tested if a smaller share of the squares of its interaction is left beside the functions."""
ROWS_PER_COLUMN = 4
"""A window is not tested if it has fewer rows for each column of the least squares."""


@dataclass(frozen=True, eq=False)
class WindowPairs:
    """The sums for pairs of the periods of a window.

    Parameters
    ----------
    groups : list of PairSums
        Of groups of consecutive periods, which are left out one at a time.
    weight : array of shape (n_groups,)
    n_periods : int
        Number of periods in the sums.
    n_lacking : int
        Number of other periods, which have none for these pairs.
    """

    groups: list[PairSums]
    weight: Array
    n_periods: int
    n_lacking: int

    @property
    def total(self) -> PairSums:
        """The sums over all groups."""
        first, *others = self.groups
        return sum(others, first)


class PairsOfPeriods:
    """Collects the sums for pairs of periods."""

    def __init__(self) -> None:
        self._periods: list[tuple[int, float, PairSums | None]] = []

    def add(self, period: PeriodSums, group: int) -> None:
        """Add a period, and the number of its group."""
        self._periods.append((group, period.total_weight, period.pairs))

    @property
    def pairs(self) -> NDArray[np.int64] | None:
        """The pairs of the last period that has any."""
        return next((sums.pairs for _, _, sums in reversed(self._periods) if sums is not None), None)

    def of(self, pairs: NDArray[np.int64]) -> WindowPairs:
        """Return the sums for these pairs."""
        groups: dict[int, PairSums] = {}
        weight: dict[int, float] = {}
        n_periods = 0
        for group, of_period, sums in self._periods:
            if sums is not None and np.array_equal(sums.pairs, pairs):
                groups[group] = groups[group] + sums if group in groups else sums
                weight[group] = weight.get(group, 0.0) + of_period
                n_periods += 1
        return WindowPairs(
            list(groups.values()), np.array(list(weight.values())), n_periods, len(self._periods) - n_periods
        )


def compare_pairs(
    before: PairsOfPeriods, after: PairsOfPeriods, grouping: Grouping, *, alpha: float, least: float, looks: int
) -> PairChanges | None:
    """Compare the slopes of named pairs in two windows.

    Parameters
    ----------
    before, after : PairsOfPeriods
    grouping : Grouping
        The columns of the user.
    alpha, least, looks
        As for :func:`debias.significance.change.compare_windows`. The error rate is that of all pairs together, beside
        that of the features.

    Returns
    -------
    PairChanges or None
        None if no period has sums for pairs.
    """
    pairs = after.pairs if after.pairs is not None else before.pairs
    if pairs is None:
        return None
    windows = [collected.of(pairs) for collected in (before, after)]
    because = _why_untested(windows)
    statistics = {name: np.full(len(pairs), np.nan) for name in PairChanges.STATISTICS}
    if because is None:
        statistics |= _statistics(windows, least)
    return PairChanges(
        pairs=tuple((grouping.names[j], grouping.names[k]) for j, k in pairs.tolist()),
        alpha=alpha,
        looks=looks,
        n_periods=(windows[0].n_periods, windows[1].n_periods),
        n_rows=(_n_rows(windows[0]), _n_rows(windows[1])),
        statistics=statistics,
        not_tested_because=because,
    )


def slopes(sums: PairSums) -> tuple[Array, Array]:
    """Return the slope of each pair, and the sum of squares of its interaction that is left beside everything else.

    Returns
    -------
    (array, array), each of shape (n_pairs,)
        Slopes are NaN for pairs whose interaction is 0, or follows from functions of single columns.
    """
    n_pairs = len(sums.pairs)
    left, score, whole = np.zeros((n_pairs, n_pairs)), np.zeros(n_pairs), np.zeros(n_pairs)
    beside, pairs = slice(0, -1 - n_pairs), slice(-1 - n_pairs, -1)
    for of_output in sums.matrix:
        scale = np.sqrt(np.diag(of_output))
        inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
        scaled = of_output * np.outer(inverse, inverse)
        size, axes = np.linalg.eigh(scaled[beside, beside])
        kept = size > SINGULAR * size[-1]
        projected = (axes[:, kept] / size[kept]) @ (axes[:, kept].T @ scaled[beside])
        freed = (scaled - scaled[:, beside] @ projected) * np.outer(scale, scale)
        left, score = left + freed[pairs, pairs], score + freed[pairs, -1]
        whole += scale[pairs] ** 2
    slope, squares = np.full(n_pairs, np.nan), np.zeros(n_pairs)
    known = np.diag(left) > LEAST_LEFT * whole
    if known.any():
        among = np.linalg.pinv(left[np.ix_(known, known)], rcond=LEAST_LEFT, hermitian=True)
        slope[known] = 1 + among @ score[known]
        squares[known] = 1 / np.diag(among)
    return slope, squares


def _statistics(windows: list[WindowPairs], least: float) -> dict[str, Array]:
    """Return the statistics of :class:`PairChanges`."""
    slope, variance, freedom, sizes = [], [], [], []
    for window in windows:
        total = window.total
        of_all, squares = slopes(total)
        without = np.array([slopes(total - group)[0] for group in window.groups])
        share = window.weight / window.weight.sum()
        of_window, degrees = group_variance(of_all, without, share)
        slope.append(of_all)
        variance.append(of_window)
        freedom.append(degrees)
        sizes.append(np.sqrt(squares / (window.weight.sum() * len(total.products))))
    change, both = slope[1] - slope[0], variance[0] + variance[1]
    squares = variance[0] ** 2 / freedom[0] + variance[1] ** 2 / freedom[1]
    welch = np.divide(both**2, squares, out=np.ones_like(both), where=squares > 0)
    # A model that has learned half of an interaction has a slope of 2, and another one in other rows.
    margin = least * np.maximum(1.0, (np.abs(slope[0]) + np.abs(slope[1])) / 2)
    error = np.sqrt(both)
    tested = np.isfinite(change) & (error > 0)

    def adjusted(p: Array) -> Array:
        found = np.full(tested.size, np.nan)
        found[tested] = holm(p[tested])
        return found

    with np.errstate(invalid="ignore"):
        p_value = np.where(tested, beyond(change, margin, error, welch), np.nan)
        p_windows = [
            above(of_window, 0.0, np.sqrt(of_all), np.full_like(change, degrees))
            for of_window, of_all, degrees in zip(slope, variance, freedom, strict=True)
        ]
        p_lost = np.where(tested, above(change, -margin, error, welch), np.nan)
    return {
        "slope_before": slope[0],
        "slope_after": slope[1],
        "before_error": np.sqrt(variance[0]),
        "after_error": np.sqrt(variance[1]),
        "change": change,
        "error": np.where(tested, error, np.nan),
        "p_value": p_value,
        "p_adjusted": adjusted(p_value),
        "p_before": adjusted(p_windows[0]),
        "p_after": adjusted(p_windows[1]),
        "p_lost": p_lost,
        "size": (sizes[0] + sizes[1]) / 2,
    }


def _why_untested(windows: list[WindowPairs]) -> str | None:
    """Return why no pair can be tested; None if that is not so."""
    for window, name in zip(windows, ("reference", "recent"), strict=True):
        lacking = f"{counted(window.n_lacking, f'{name} period')} without sums for these pairs" * bool(window.n_lacking)
        if len(window.groups) < ENOUGH_PERIODS:
            few = f"the {name} window has {counted(window.n_periods, 'period')} with sums for these pairs, and "
            return f"{few}{ENOUGH_PERIODS} are needed" + (f" ({lacking})" if lacking else "")
        needed = ROWS_PER_COLUMN * window.groups[0].n_columns
        if _n_rows(window) < needed:
            return f"the {name} window has {_n_rows(window):,} rows in these sums, and {needed:,} are needed"
    return None


def _n_rows(window: WindowPairs) -> int:
    return int(sum(group.n_rows for group in window.groups))
