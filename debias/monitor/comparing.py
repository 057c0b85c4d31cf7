"""The comparison of two windows of a history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from debias.errors import HistoryError
from debias.monitor.times import (
    FIRST,
    LOCAL,
    PINNED,
    PINNED_PERIODS,
    ZONED,
    Window,
    parsed,
    pinned,
    positions_of,
    time_text,
)
from debias.results.changes import Changes, MeanOfPeriods, WindowOfPeriods
from debias.significance.change import ENOUGH_PERIODS, compare_windows
from debias.significance.period_means import OF
from debias.text import counted

if TYPE_CHECKING:
    from debias.data.groups import Grouping
    from debias.monitor.records import Records
    from debias.monitor.store import Period, Series
    from debias.rows.period_sums import PeriodSums

LONGER = 3
"""So many longer windows are tried, each twice as long as the one before it."""
MORE_FAULTS = 0.05
"""More than this share of the rows with a new category, or repeated rows, makes periods unfit for the reference."""
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
    stored = StoredPeriods(records, series)
    return Comparison(stored, reference, {"alpha": alpha, "least": least, "looks": looks}).of(recent)


class Periods(Protocol):
    """The periods of a series, and what is known about it."""

    periods: list[Period]
    grouping: Grouping
    facts: dict[str, Any]
    """Fields of Changes that are the same for all windows."""
    notes: dict[tuple[int, int], str]
    """What a reader must know about the rows that were read, by period and number."""

    def sums(self, position: int) -> PeriodSums:
        """Return the sums of a period."""

    def n_rows(self, position: int) -> int:
        """Return the number of rows of a period."""


class Comparison:
    """Comparisons of windows of one series.

    Parameters
    ----------
    source : Periods
    reference : int, str, timedelta, (first, last), or None
        As for ``History.changes``.
    settings : dict of str to value
        ``alpha``, ``least`` and ``looks``, as for :func:`debias.significance.change.compare_windows`.
    """

    def __init__(self, source: Periods, reference: Any, settings: dict[str, Any]) -> None:
        self._source, self._reference, self._settings = source, reference, settings
        self._known: dict[tuple[range, range], bool] = {}

    def of(self, recent: Any) -> Changes:
        """Return what changed in the recent periods, and in longer windows if these cannot judge a feature."""
        periods, settings = self._source.periods, self._settings
        after = positions_of(periods, recent, "recent", len(periods) - 1)
        found = self._changes(self._before(after), after, settings)
        if not found.compared or not _ends_with_the_last(recent):
            return found
        # Together the longer windows have the error rate of one comparison more.
        settings = settings | {"looks": settings["looks"] * LONGER}
        longer: list[Changes] = []
        undecided = found.undecided
        while undecided.any() and len(longer) < LONGER:
            after = range(max(0, after.stop - 2 * len(after)), after.stop)
            before = self._before(after, may_overlap=True)
            if len(before) < ENOUGH_PERIODS or before.stop > after.start:
                break
            longer.append(self._changes(before, after, settings))
            undecided = undecided & longer[-1].undecided
        return replace(found, longer=tuple(longer))

    def _before(self, after: range, may_overlap: bool = False) -> range:
        """Return the positions of the reference of a recent window."""
        periods, reference = self._source.periods, self._reference
        if reference is None:
            return pinned(periods, after.start, self._differs)
        before = positions_of(periods, reference, "reference", after.start - 1)
        if may_overlap:
            return before
        if before.stop > after.start and after.stop > before.start and len(before) and len(after):
            raise HistoryError("reference= and recent= have periods in common: pass windows that do not overlap")
        if len(before) and len(after) and before.start >= after.stop:
            raise HistoryError("reference= is after recent=: exchange them, so that a change is one over time")
        return before

    def _changes(self, before: range, after: range, settings: dict[str, Any]) -> Changes:
        """Return what changed between two windows, whose positions are given."""
        source = self._source
        facts: dict[str, Any] = {
            **source.facts,
            "reference": self._window(before),
            "recent": self._window(after),
            "feature_names": source.grouping.names,
            "last_period": source.periods[-1].moment.as_datetime,
            "reference_given": _in_words(self._reference, source.periods),
            **settings,
        }
        because = _nothing_to_compare(len(source.periods), len(before), len(after))
        if because is not None:
            return Changes(not_compared_because=because, **facts)
        source.notes.clear()
        comparison = compare_windows(_Rows(source, before), _Rows(source, after), source.grouping, **settings)
        means = comparison.means
        return Changes(
            statistics={name: getattr(comparison, name) for name in Changes.STATISTICS},
            splits=comparison.shift_split,
            method=comparison.method,
            warnings=(*comparison.warnings, *_each_once(source.notes, source.periods)),
            repeated=comparison.repeated,
            means=tuple(
                MeanOfPeriods(
                    of,
                    float(means.before[k]),
                    float(means.after[k]),
                    float(means.p_value[k]),
                    bool(means.changed[k]),
                    time_text(source.periods[after[means.most[k]]].moment),
                )
                for k, of in enumerate(OF)
            ),
            **facts,
        )

    def _differs(self, before: range, after: range) -> bool:
        """Return whether two windows differ in the response, the mean residual, or the rows."""
        if (before, after) not in self._known:
            source = self._source
            rows = _Rows(source, before), _Rows(source, after)
            found = compare_windows(*rows, source.grouping, **self._settings)
            more = np.append(found.unseen_after - found.unseen_before, found.repeated[1] - found.repeated[0])
            faults = (found.changed, found.shifted, found.means.changed[OF.index("residual")], more > MORE_FAULTS)
            self._known[before, after] = any(np.any(each) for each in faults)
        return self._known[before, after]

    def _window(self, positions: range) -> WindowOfPeriods:
        if not positions:
            return WindowOfPeriods(None, None, 0, 0)
        ends = [time_text(self._source.periods[k].moment) for k in (positions[0], positions[-1])]
        return WindowOfPeriods(ends[0], ends[1], len(positions), sum(map(self._source.n_rows, positions)))


class StoredPeriods:
    """The periods of a series in a file, each read when it is asked for. They stay in memory only if they are small."""

    def __init__(self, records: Records, series: Series) -> None:
        self._records, self._series = records, series
        self._trees = records.trees(series)
        self.periods, self.grouping = records.content.periods(series.id), self._trees.grouping
        self.facts: dict[str, Any] = {
            "series": series.label,
            "model": self._trees.ensemble.source,
            "n_other_series": len(records.content.series()) - 1,
        }
        self.notes: dict[tuple[int, int], str] = {}
        self._read: dict[int, tuple[PeriodSums, list[str]]] = {}
        self._keeps = self._trees.ensemble.value.nbytes * 3 * len(self.periods) < KEPT_IN_MEMORY

    def sums(self, position: int) -> PeriodSums:
        """Return the sums of a period."""
        if position in self._read:
            sums, notes = self._read[position]
        else:
            state, notes = self._records.state_of_period(self._series, self.periods[position])
            sums = self._trees.sums(state)
        if self._keeps:
            self._read[position] = sums, notes
        self.notes |= {(position, number): note for number, note in enumerate(notes)}
        return sums

    def n_rows(self, position: int) -> int:
        """Return the number of rows of a period."""
        return sum(part.n_rows for part in self._records.content.parts(self.periods[position].id))


class _Rows(Sequence["PeriodSums"]):
    """The periods at some positions."""

    def __init__(self, source: Periods, positions: range) -> None:
        self._source, self._positions = source, positions

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, number: Any) -> Any:
        return self._source.sums(self._positions[number])


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


def _nothing_to_compare(n_periods: int, n_before: int, n_after: int) -> str | None:
    """Return why there is nothing to compare; None if there is."""
    if n_before and n_after:
        return None
    if n_periods < 2:
        return f"this model has {counted(n_periods, 'period')}, and a comparison needs two"
    which = "the recent window" if n_before else "the reference window"
    return f"no period is in {which}; this model has {counted(n_periods, 'period')}"


def _each_once(notes: dict[tuple[int, int], str], periods: list[Period]) -> list[str]:
    """Return the warnings about rows, one of each kind: the numbers after the first colon differ between periods."""
    kinds: dict[str, list[tuple[int, int]]] = {}
    for at in sorted(notes):
        kinds.setdefault(notes[at].partition(":")[0], []).append(at)
    warnings = []
    for found in kinds.values():
        first, last = (time_text(periods[position].moment) for position, _ in (found[0], found[-1]))
        which = f"period {first}" if len(found) == 1 else f"{len(found):,} periods or parts from {first} to {last}"
        warnings.append(f"{notes[found[-1]]} ({which})")
    return warnings
