"""The comparison of two windows of a history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from debias.errors import HistoryError
from debias.monitor.times import LOCAL, ZONED, Window, shown_time
from debias.monitor.windows import FIRST, PINNED, PINNED_PERIODS, parsed, pinned, positions_of
from debias.results.changes import Changes, MeanOfPeriods, WindowOfPeriods
from debias.significance.change import ENOUGH_PERIODS, compare_windows
from debias.significance.period_means import OF
from debias.text import counted

if TYPE_CHECKING:
    from debias.monitor.records import Records
    from debias.monitor.store import Period, Series
    from debias.rows.period_sums import PeriodSums

LONGER = 3
"""So many longer windows are tried, each twice as long as the one before it."""
KEPT_IN_MEMORY = 2**28
"""Sums of all periods are kept while windows are compared if they take fewer bytes."""


def comparison_of(
    records: Records,
    series: Series,
    recent: Any,
    reference: Any,
    *,
    alpha: float,
    least: float,
    looks: int,
) -> Changes:
    """Return what changed between two windows of the periods of a series.

    Parameters
    ----------
    records : Records
    series : Series
    recent, reference : int, str, timedelta, (first, last), or None
        As for ``History.changes``.
    alpha, least, looks
        As for :func:`debias.significance.change.compare_windows`.

    Returns
    -------
    Changes

    Raises
    ------
    HistoryError
        These are no windows, or they overlap.
    """
    periods = records.content.periods(series.id)
    both = _Comparison(records, series, periods, reference, {"alpha": alpha, "least": least, "looks": looks})
    after = positions_of(periods, recent, "recent", len(periods) - 1)
    found = both.changes(both.before(after), after)
    if not found.compared or not _ends_with_the_last(recent):
        return found
    # Together the longer windows have the error rate of one comparison more.
    both.settings["looks"] = looks * LONGER
    longer: list[Changes] = []
    undecided = found.undecided
    while undecided.any() and len(longer) < LONGER:
        after = range(max(0, after.stop - 2 * len(after)), after.stop)
        before = both.before(after)
        if len(before) < ENOUGH_PERIODS or before.stop > after.start:
            break
        longer.append(both.changes(before, after))
        undecided = undecided & longer[-1].undecided
    return replace(found, longer=tuple(longer))


class _Comparison:
    """Comparisons of windows of one series."""

    def __init__(
        self, records: Records, series: Series, periods: list[Period], reference: Any, settings: dict[str, Any]
    ) -> None:
        self._records, self._series, self._periods, self._reference = records, series, periods, reference
        self._stored = _Stored(records, series, periods)
        self.settings = settings

    def before(self, after: range) -> range:
        """Return the positions of the reference of a recent window."""
        periods, reference = self._periods, self._reference
        if reference is None:
            return pinned(periods, after.start, self._differs)
        before = positions_of(periods, reference, "reference", after.start - 1)
        if before.stop > after.start and after.stop > before.start and len(before) and len(after):
            raise HistoryError("reference= and recent= have periods in common: pass windows that do not overlap")
        if len(before) and len(after) and before.start >= after.stop:
            raise HistoryError("reference= is after recent=: exchange them, so that a change is one over time")
        return before

    def changes(self, before: range, after: range) -> Changes:
        """Return what changed between two windows, whose positions are given."""
        records, periods = self._records, self._periods
        trees = records.trees(self._series)
        windows = [_window(records, [periods[k] for k in window]) for window in (before, after)]
        of_series: dict[str, Any] = {
            "series": self._series.label,
            "model": trees.ensemble.source,
            "reference": windows[0],
            "recent": windows[1],
            "feature_names": trees.grouping.names,
            "n_other_series": len(records.content.series()) - 1,
            "last_period": periods[-1].moment.as_datetime,
            "reference_given": _in_words(self._reference, periods),
            **self.settings,
        }
        because = _nothing_to_compare(len(periods), len(before), len(after))
        if because is not None:
            return Changes(not_compared_because=because, **of_series)
        self._stored.notes.clear()
        rows = [self._stored.of(window) for window in (before, after)]
        comparison = compare_windows(*rows, trees.grouping, **self.settings)
        means = comparison.means
        return Changes(
            figures={name: getattr(comparison, name) for name in Changes.FIGURES},
            splits=comparison.shift_split,
            method=comparison.method,
            warnings=(*comparison.warnings, *_each_once(list(self._stored.notes.values()))),
            repeated=comparison.repeated,
            means=tuple(
                MeanOfPeriods(
                    of,
                    float(means.before[k]),
                    float(means.after[k]),
                    float(means.p_value[k]),
                    bool(means.changed[k]),
                    shown_time(periods[after[means.most[k]]].moment),
                )
                for k, of in enumerate(OF)
            ),
            **of_series,
        )

    def _differs(self, before: range, after: range) -> bool:
        found = self.changes(before, after).figures
        return bool(found["changed"].any() or found["shifted"].any())


class _Stored:
    """Sums of the periods of a series, each read when it is asked for; few are in memory unless they are small."""

    def __init__(self, records: Records, series: Series, periods: list[Period]) -> None:
        self._records, self._series, self._periods = records, series, periods
        self.notes: dict[tuple[int, int], str] = {}
        """What a reader must know about the rows that were read, by period and number."""
        self._read: dict[int, tuple[PeriodSums, list[str]]] = {}
        ensemble = records.trees(series).ensemble
        self._keeps = ensemble.value.nbytes * 3 * len(periods) < KEPT_IN_MEMORY

    def of(self, window: range) -> Sequence[PeriodSums]:
        """Return the periods at these positions."""
        return _Window(self, window)

    def at(self, position: int) -> PeriodSums:
        """Return the sums of a period."""
        sums, notes = self._read.get(position) or self._of(position)
        if self._keeps:
            self._read[position] = sums, notes
        self.notes |= {(position, number): note for number, note in enumerate(notes)}
        return sums

    def _of(self, position: int) -> tuple[PeriodSums, list[str]]:
        state, notes = self._records.state_of_period(self._series, self._periods[position])
        return self._records.trees(self._series).sums(state), notes


class _Window(Sequence["PeriodSums"]):
    def __init__(self, stored: _Stored, positions: range) -> None:
        self._stored, self._positions = stored, positions

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, number: Any) -> Any:
        return self._stored.at(self._positions[number])


def _ends_with_the_last(recent: Any) -> bool:
    """Whether a window has the last periods, so that it can be made longer."""
    is_first = isinstance(recent, str) and recent.strip().startswith(FIRST)
    return isinstance(parsed(recent, "recent"), Window) and not is_first


def _in_words(reference: Any, periods: list[Period]) -> str:
    """Return how a reference was chosen."""
    if isinstance(reference, (tuple, list)):
        return f"{reference[0]}..{reference[1]}"
    if reference is not None:
        return str(reference)
    dated = not periods or periods[0].kind in (LOCAL, ZONED)
    length = f"{PINNED.span.days} days" if dated and PINNED.span is not None else f"{PINNED_PERIODS} periods"
    return f"the first {length} of the model, as far as they are alike"


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
