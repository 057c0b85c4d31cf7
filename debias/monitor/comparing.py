"""The comparison of two windows of a history."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from debias.monitor.times import shown_time
from debias.results.changes import Changes, WindowOfPeriods
from debias.rows.node_sums import added
from debias.significance.change import MOST_GROUPS, compare_windows
from debias.text import counted

if TYPE_CHECKING:
    from debias.monitor.records import Records
    from debias.monitor.store import Period, Series
    from debias.rows.period_sums import PeriodSums


class _Joined(Sequence["PeriodSums"]):
    """Sums of periods, each read when it is asked for, so that few are in memory.

    Many periods are joined to the groups of consecutive periods that :func:`compare_windows` would join them to.
    """

    def __init__(self, records: Records, series: Series, periods: Sequence[Period], notes: list[str]) -> None:
        self._records, self._series, self._notes = records, series, notes
        n_groups = min(len(periods), MOST_GROUPS)
        bounds = [-(-k * len(periods) // n_groups) for k in range(n_groups + 1)]  # rounded up
        self._groups = [periods[begin:end] for begin, end in pairwise(bounds)]

    def __len__(self) -> int:
        return len(self._groups)

    def __getitem__(self, position: Any) -> Any:
        total: dict[str, Any] = {}
        for period in self._groups[position]:
            state, notes = self._records.state_of_period(self._series, period)
            total = added(total, state) if total else state
            self._notes += notes
        return self._records.trees(self._series).sums(total)


def comparison_of(
    records: Records,
    series: Series,
    periods: list[Period],
    before: range,
    after: range,
    *,
    alpha: float,
    least: float,
    looks: int,
    n_other_series: int,
) -> Changes:
    """Return what changed between two windows of the periods of a series.

    Parameters
    ----------
    records : Records
    series : Series
    periods : list of Period
        All periods of the series.
    before, after : range
        Positions of the periods of each window.
    alpha, least, looks
        As for :func:`debias.significance.change.compare_windows`.
    n_other_series : int
        Number of other models in the history.

    Returns
    -------
    Changes
    """
    trees, notes = records.trees(series), list[str]()
    windows = [_window(records, [periods[k] for k in window]) for window in (before, after)]
    of_series: dict[str, Any] = {
        "series": series.label,
        "model": trees.ensemble.source,
        "reference": windows[0],
        "recent": windows[1],
        "alpha": alpha,
        "least": least,
        "looks": looks,
        "feature_names": trees.grouping.names,
        "n_other_series": n_other_series,
        "last_period": periods[-1].moment.as_datetime,
    }
    because = _nothing_to_compare(len(periods), len(before), len(after))
    if because is not None:
        return Changes(not_compared_because=because, **of_series)
    stored = [_Joined(records, series, [periods[k] for k in window], notes) for window in (before, after)]
    n_periods = (len(before), len(after))
    comparison = compare_windows(
        stored[0], stored[1], trees.grouping, alpha=alpha, least=least, looks=looks, n_periods=n_periods
    )
    figures = {name: getattr(comparison, name) for name in Changes.FIGURES}
    return Changes(
        figures=figures,
        splits=comparison.shift_split,
        method=comparison.method,
        warnings=(*comparison.warnings, *_each_once(notes)),
        **of_series,
    )


def _window(records: Records, periods: list[Period]) -> WindowOfPeriods:
    if not periods:
        return WindowOfPeriods(None, None, 0, 0)
    n_rows = sum(part.n_rows for period in periods for part in records.content.parts(period.id))
    return WindowOfPeriods(shown_time(periods[0].moment), shown_time(periods[-1].moment), len(periods), n_rows)


def _nothing_to_compare(n_periods: int, n_before: int, n_after: int) -> str | None:
    """Return why there is nothing to compare; None if there is."""
    if n_before and n_after:
        return None
    if n_periods < 2:
        return f"this model has {counted(n_periods, 'period')}, and a comparison needs two"
    which = "the recent window" if n_before else "the reference window"
    return f"no period is in {which}; this model has {counted(n_periods, 'period')}"


def _each_once(notes: list[str]) -> list[str]:
    """Return the warnings about rows, one of each kind: the figures after the first colon differ between periods."""
    kinds: dict[str, list[str]] = {}
    for note in notes:
        kinds.setdefault(note.partition(":")[0], []).append(note)
    return [
        texts[0] if len(texts) == 1 else f"{texts[-1]} ({len(texts):,} periods or parts)" for texts in kinds.values()
    ]
