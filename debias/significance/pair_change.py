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

from debias.p_values import holm_of_known
from debias.results.pair_changes import OF_WINDOWS, PairChanges
from debias.rows.pair_sums import PairSums, common_pairs
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
ADJUSTED = ("p_adjusted", "p_before", "p_after")
"""P-values that are adjusted for all pairs together."""
NOT_TOGETHER = "the model does not use the two features together, or these rows do not show it"
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

    @property
    def n_rows(self) -> int:
        """Number of rows in the sums."""
        return int(sum(group.n_rows for group in self.groups))


class PairsOfPeriods:
    """Collects the sums for pairs of periods."""

    def __init__(self) -> None:
        self._periods: list[tuple[int, float, PairSums | None]] = []

    def add(self, period: PeriodSums, group: int) -> None:
        """Add a period, and the number of its group."""
        self._periods.append((group, period.total_weight, period.pairs))

    @property
    def named(self) -> NDArray[np.int64]:
        """The pairs of the last period that has any, shape (n_pairs, 2)."""
        none = np.zeros((0, 2), dtype=np.int64)
        return next((sums.pairs for _, _, sums in reversed(self._periods) if sums is not None), none)

    @property
    def n_incomplete(self) -> int:
        """Number of periods that have sums for pairs of some of their rows only."""
        return sum(sums is not None and not sums.complete for _, _, sums in self._periods)

    def having(self, pair: NDArray[np.int64]) -> tuple[bool, ...]:
        """Return which periods have sums for a pair."""
        return tuple(
            sums is not None and sums.complete and bool(len(common_pairs([pair[None], sums.pairs])))
            for _, _, sums in self._periods
        )

    def pairs_in(self, periods: tuple[bool, ...]) -> list[NDArray[np.int64]]:
        """Return the pairs of each of these periods."""
        return [sums.pairs for (_, _, sums), taken in zip(self._periods, periods, strict=True) if taken and sums]

    def of(self, pairs: NDArray[np.int64], periods: tuple[bool, ...]) -> WindowPairs:
        """Return the sums for these pairs over periods that have them."""
        groups: dict[int, PairSums] = {}
        weight: dict[int, float] = {}
        for (group, of_period, sums), taken in zip(self._periods, periods, strict=True):
            if taken and sums is not None:
                own = sums.of(pairs)
                groups[group] = groups[group] + own if group in groups else own
                weight[group] = weight.get(group, 0.0) + of_period
        n_periods = sum(periods)
        return WindowPairs(
            list(groups.values()), np.array(list(weight.values())), n_periods, len(self._periods) - n_periods
        )


def compare_pairs(
    before: PairsOfPeriods, after: PairsOfPeriods, grouping: Grouping, *, alpha: float, least: float, looks: int
) -> PairChanges | None:
    """Compare the slopes of named pairs in two windows.

    A pair is compared in the periods with sums for it, beside the other pairs that all these periods have.

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
    pairs = after.named if len(after.named) else before.named
    if not len(pairs):
        return None
    n_incomplete = (before.n_incomplete, after.n_incomplete)
    statistics = {name: np.full(len(pairs), np.nan) for name in PairChanges.STATISTICS}
    reasons: list[str | None] = [None] * len(pairs)
    having = [(before.having(pair), after.having(pair)) for pair in pairs]
    for periods in dict.fromkeys(having):
        own = [k for k, each in enumerate(having) if each == periods]
        in_all = common_pairs([*before.pairs_in(periods[0]), *after.pairs_in(periods[1]), pairs])
        windows = [collected.of(in_all, of) for collected, of in zip((before, after), periods, strict=True)]
        because = _why_untested(windows, n_incomplete)
        found: dict[str, Array | float] = dict(zip(OF_WINDOWS, map(float, _sizes(windows)), strict=True))
        if because is None:
            at = [int(np.flatnonzero((in_all == pairs[k]).all(axis=1))[0]) for k in own]
            found |= {name: values[at] for name, values in _statistics(windows, least).items()}
        for name, values in found.items():
            statistics[name][own] = values
        for k in own:
            reasons[k] = because or (NOT_TOGETHER if np.isnan(statistics["p_value"][k]) else None)
    for name in ADJUSTED:
        statistics[name] = holm_of_known(statistics[name])
    return PairChanges(
        pairs=tuple((grouping.names[j], grouping.names[k]) for j, k in pairs.tolist()),
        alpha=alpha,
        looks=looks,
        n_incomplete=n_incomplete,
        statistics=statistics,
        untested_because=tuple(reasons),
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
    """Return the statistics of :class:`PairChanges`, those of all pairs not adjusted yet."""
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
    with np.errstate(invalid="ignore"):
        p_value = np.where(tested, beyond(change, margin, error, welch), np.nan)
        p_windows = [
            np.where(tested, above(of_window, 0.0, np.sqrt(of_all), np.full_like(change, degrees)), np.nan)
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
        "p_adjusted": p_value,
        "p_before": p_windows[0],
        "p_after": p_windows[1],
        "p_lost": p_lost,
        "size": (sizes[0] + sizes[1]) / 2,
    }


def _sizes(windows: list[WindowPairs]) -> tuple[int, ...]:
    """Return the number of periods in the sums of each window, and that of their rows."""
    return (*(window.n_periods for window in windows), *(window.n_rows for window in windows))


def _why_untested(windows: list[WindowPairs], n_incomplete: tuple[int, int]) -> str | None:
    """Return why these pairs cannot be tested; None if that is not so."""
    for window, incomplete, name in zip(windows, n_incomplete, ("reference", "recent"), strict=True):
        if len(window.groups) < ENOUGH_PERIODS:
            few = f"the {name} window has {counted(window.n_periods, 'period')} with sums for these pairs, and "
            others = f"{counted(window.n_lacking, f'{name} period')} without sums for these pairs"
            of_some = f", {incomplete:,} of them because some of their rows have none" * bool(incomplete)
            return f"{few}{ENOUGH_PERIODS} are needed" + f" ({others}{of_some})" * bool(window.n_lacking)
        needed = ROWS_PER_COLUMN * window.groups[0].n_columns
        if window.n_rows < needed:
            return f"the {name} window has {window.n_rows:,} rows in these sums, and {needed:,} are needed"
    return None
