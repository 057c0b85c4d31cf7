"""The comparison of two windows of a history."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from debias.errors import HistoryArgumentError
from debias.monitor.records import HAS_MARGINS
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
from debias.results.changes import Changes
from debias.results.fleet import MIXED_MARGINS, MORE_FAULTS
from debias.results.provisional import NOT_LOOKED_FOR
from debias.results.vocabulary import loss_in_words
from debias.results.windows import WindowOfPeriods
from debias.significance.change import ENOUGH_PERIODS, compare_windows, groups_of
from debias.significance.kept_windows import KeptWindow
from debias.significance.loss_causes import with_causes
from debias.significance.period_means import OF, names_of_outputs
from debias.significance.provisional import compare_waiting, with_broken
from debias.text import counted, escaped

if TYPE_CHECKING:
    from collections.abc import Callable

    from debias.data.groups import Grouping
    from debias.monitor.records import Records
    from debias.monitor.store import Period, Series, Waiting
    from debias.results.loss_change import LossChange
    from debias.results.provisional import Provisional
    from debias.rows.period_sums import PeriodSums
    from debias.trees.ensemble import TreeEnsemble

LONGER = 3
"""So many longer windows are tried, each twice as long as the one before it."""
NO_MODEL = "this history was opened without the model of these periods"
NO_ROWS_KEPT = "some periods have no rows that were kept"
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
    ensemble: TreeEnsemble | None = None,
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
    ensemble : TreeEnsemble, optional
        The trees of the model itself, without which the causes of a change of the loss are not known.

    Returns
    -------
    Changes

    Raises
    ------
    HistoryError
        These are no windows, or they overlap.
    """
    stored = StoredPeriods(records, series)
    comparison = Comparison(stored, reference, {"alpha": alpha, "least": least, "looks": looks}, ensemble)
    found = with_newer(comparison.of(recent), records, series)
    return replace(found, provisional=comparison.of_waiting(WaitingPeriods(records, series), recent))


def with_newer(changes: Changes, records: Records, series: Series) -> Changes:
    """Return changes with what came after the periods that have responses, of this model and of others."""
    periods = records.content.periods(series.id)
    newer = WaitingPeriods(records, series).newer(periods)
    return replace(
        changes,
        newer_waiting=len(newer),
        last_waiting=newer[-1].moment.as_datetime if newer else None,
        warnings=(*changes.warnings, *_of_newer_models(records, series, newer[-1] if newer else periods[-1])),
    )


def _of_newer_models(records: Records, series: Series, last: Period | Waiting) -> list[str]:
    """Return a warning of another model whose rows came after the last of this one, and wait for their responses."""
    waiting = [each for each in records.content.waiting() if each.series != series.id and each.key > last.key]
    if not waiting:
        return []
    label = next(each.label for each in records.content.series() if each.id == waiting[-1].series)
    last_of = time_text(waiting[-1].moment)
    return [f"{escaped(label)} has newer periods, up to {escaped(last_of)}, which wait for their responses: not judged"]


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
    ensemble : TreeEnsemble, optional
        As for :func:`comparison_of`.
    """

    def __init__(
        self, source: Periods, reference: Any, settings: dict[str, Any], ensemble: TreeEnsemble | None = None
    ) -> None:
        self._source, self._reference, self._settings = source, reference, settings
        self._ensemble = ensemble
        self._known: dict[tuple[range, range], bool] = {}

    def of(self, recent: Any) -> Changes:
        """Return what changed in the recent periods, and in longer windows if these cannot judge a feature."""
        periods, settings = self._source.periods, self._settings
        after = positions_of(periods, recent, "recent", len(periods) - 1)
        before = self._before(after)
        found = self.between(before, after, settings)
        if found.loss is not None:
            found = replace(found, loss=self._with_causes(found.loss, before, after))
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
            longer.append(self.between(before, after, settings))
            undecided = undecided & longer[-1].undecided
        return replace(found, longer=tuple(longer))

    def of_waiting(self, waiting: WaitingPeriods, recent: Any) -> Provisional | None:
        """Return what the recent periods without responses tell; None if there are none, or nothing to compare with.

        Their reference is that of a recent window that begins with the first of them, so it may have periods that are
        recent ones for what has responses.
        """
        source = self._source
        if not waiting.periods:
            return None
        # A period of which some rows wait and others do not is one.
        known = {period.key for period in source.periods}
        both: list[Period | Waiting] = [*source.periods, *(each for each in waiting.periods if each.key not in known)]
        both.sort(key=lambda period: period.key)
        within = positions_of(both, recent, "recent", len(both) - 1)
        keys = {both[k].key for k in within}
        after = [k for k, period in enumerate(waiting.periods) if period.key in keys]
        if not after:
            return None
        n_before = bisect_left([period.key for period in source.periods], waiting.periods[after[0]].key)
        before = self._before(range(n_before, n_before))
        before = range(min(before.start, n_before), min(before.stop, n_before))
        if not before:
            return None
        rows, own = _Rows(source, before), [waiting.sums(position) for position in after]
        times = [time_text(waiting.periods[k].moment) for k in after]
        window = WindowOfPeriods(times[0], times[-1], len(after), sum(sums.n_rows for sums in own))
        level = self._settings["alpha"] / self._settings["looks"]
        windows_in_words = (window_of(source.periods, before, source.n_rows), window)
        found = compare_waiting(rows, own, source.grouping, level, windows_in_words, times, self._ensemble)
        if found.no_broken_because != NOT_LOOKED_FOR:
            return found
        if self._ensemble is None:
            return replace(found, no_broken_because=NO_MODEL)
        kept = [[sums.kept for sums in each] for each in (rows, own)]
        if not all(weight.size for each in kept for _, weight in each):
            return replace(found, no_broken_because=NO_ROWS_KEPT)
        windows = [KeptWindow.of(each, groups_of(len(each))) for each in kept]
        return with_broken(found, self._ensemble, source.grouping, windows[0], windows[1])

    def _with_causes(self, loss: LossChange, before: range, after: range) -> LossChange:
        """Return the change of the loss with its causes, or why they are not known."""
        if not loss.costs_more.size:
            return replace(loss, no_causes_because=None)
        if self._ensemble is None:
            return replace(loss, no_causes_because=NO_MODEL)
        windows = []
        for window in (before, after):
            kept = [self._source.sums(position).kept for position in window]
            if not all(weight.size for _, weight in kept):
                return replace(loss, no_causes_because=NO_ROWS_KEPT)
            windows.append(KeptWindow.of(kept, groups_of(len(kept))))
        return with_causes(loss, self._ensemble, self._source.grouping, windows[0], windows[1])

    def _before(self, after: range, may_overlap: bool = False) -> range:
        """Return the positions of the reference of a recent window."""
        return reference_of(self._source.periods, self._reference, after, self._differs, may_overlap)

    def between(self, before: range, after: range, settings: dict[str, Any]) -> Changes:
        """Return what changed between two windows, whose positions are given."""
        source = self._source
        facts: dict[str, Any] = {
            **source.facts,
            "reference": window_of(source.periods, before, source.n_rows),
            "recent": window_of(source.periods, after, source.n_rows),
            "feature_names": source.grouping.names,
            "last_period": source.periods[-1].moment.as_datetime,
            "reference_given": reference_in_words(self._reference, source.periods),
            **settings,
        }
        because = nothing_to_compare(source.periods, before, after, self._reference is not None)
        if because is not None:
            return Changes(not_compared_because=because, **facts)
        source.notes.clear()
        comparison = compare_windows(_Rows(source, before), _Rows(source, after), source.grouping, **settings)
        means, loss = comparison.means, comparison.loss
        warnings = (*comparison.warnings, *_of_rows(source.notes, source.periods, [*before, *after]))
        return Changes(
            statistics={name: getattr(comparison, name) for name in Changes.STATISTICS},
            splits=comparison.shift_split,
            method=comparison.method,
            warnings=warnings,
            repeated=comparison.repeated,
            loss=None if loss is None else replace(loss, metric=loss_in_words(loss.metric, warnings)),
            no_loss_because=comparison.no_loss_because,
            pairs=comparison.pairs,
            means=tuple(
                means.of(
                    k,
                    [time_text(source.periods[at].moment) for at in after],
                    names_of_outputs(self._ensemble, means.n_outputs),
                )
                for k in range(len(OF))
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
            faults = [found.changed, found.shifted, found.means.changed[OF.index("residual")], more > MORE_FAULTS]
            faults += [] if found.pairs is None else [found.pairs.changed]
            self._known[before, after] = any(np.any(each) for each in faults)
        return self._known[before, after]


def reference_of(
    periods: list[Period],
    reference: Any,
    after: range,
    differs: Callable[[range, range], bool],
    may_overlap: bool = False,
) -> range:
    """Return the positions of the reference of a recent window.

    Parameters
    ----------
    periods : list of Period
    reference : int, str, timedelta, (first, last), or None
        As for ``History.changes``.
    after : range
        The positions of the recent window.
    differs : callable
        As for :func:`debias.monitor.times.pinned`.
    may_overlap : bool
        Whether the two may have periods in common.

    Raises
    ------
    HistoryError
        This is no window, it overlaps with the recent one, or comes after it.
    """
    if reference is None:
        return pinned(periods, after.start, differs)
    before = positions_of(periods, reference, "reference", after.start - 1)
    if may_overlap:
        return before
    if before.stop > after.start and after.stop > before.start and len(before) and len(after):
        raise HistoryArgumentError("reference= and recent= have periods in common: pass windows that do not overlap")
    if len(before) and len(after) and before.start >= after.stop:
        raise HistoryArgumentError("reference= is after recent=: exchange them, so that a change is one over time")
    return before


def window_of(periods: list[Period], positions: range, n_rows: Callable[[int], int]) -> WindowOfPeriods:
    """Return the window of the periods at some positions."""
    if not positions:
        return WindowOfPeriods(None, None, 0, 0)
    ends = [time_text(periods[k].moment) for k in (positions[0], positions[-1])]
    return WindowOfPeriods(ends[0], ends[1], len(positions), sum(map(n_rows, positions)))


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
            state, about = self._records.state_of_period(self._series, self.periods[position])
            sums, notes = self._trees.sums(state, about), about.notes
        if self._keeps:
            self._read[position] = sums, notes
        self.notes |= {(position, number): note for number, note in enumerate(notes)}
        return sums

    def n_rows(self, position: int) -> int:
        """Return the number of rows of a period."""
        return sum(part.n_rows for part in self._records.content.parts(self.periods[position].id))


class WaitingPeriods:
    """The periods of a series in a file whose responses are not known, with their parts added up."""

    def __init__(self, records: Records, series: Series) -> None:
        self._records, self._series = records, series
        self._parts: dict[str, list[Waiting]] = {}
        for part in records.content.waiting(series.id):
            self._parts.setdefault(part.at, []).append(part)
        self.periods = [parts[0] for parts in self._parts.values()]

    def newer(self, periods: Sequence[Period]) -> list[Waiting]:
        """Return those that come after all of these periods, which have responses."""
        return [each for each in self.periods if not periods or each.key > periods[-1].key]

    def sums(self, position: int) -> PeriodSums:
        """Return the sums of a period, with responses as predicted."""
        trees, total = self._records.trees(self._series), None
        for part in self._parts[self.periods[position].at]:
            sums = trees.sums(*self._records.waiting_state(self._series, part))
            total = sums if total is None else _both(total, sums)
        assert total is not None
        return total


def _both(one: PeriodSums, other: PeriodSums) -> PeriodSums:
    """Return the sums over the rows of two parts."""
    one.merge(other.state())
    one.metric, one.no_loss = one.metric or other.metric, one.no_loss or other.no_loss
    return one


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


def reference_in_words(reference: Any, periods: list[Period]) -> str:
    """Return how a reference was chosen."""
    if isinstance(reference, (tuple, list)):
        return f"{reference[0]}..{reference[1]}"
    if reference is not None:
        return str(reference)
    dated = not periods or periods[0].kind in (LOCAL, ZONED)
    length = f"{PINNED.span.days} days" if dated and PINNED.span is not None else f"{PINNED_PERIODS} periods"
    return f"the first {length} of the model, as far as they are alike"


RECENT_OF = 4
"""If all periods are recent ones, this part of them is suggested as the recent window."""


def nothing_to_compare(periods: Sequence[Period], before: range, after: range, given: bool) -> str | None:
    """Return why there is nothing to compare, and what to pass; None if there is something.

    Parameters
    ----------
    periods : sequence of Period
        Those of the model.
    before, after : range
        The positions of the reference and of the recent window.
    given : bool
        Whether the reference was given.
    """
    if before and after:
        return None
    n_periods = len(periods)
    if n_periods < 2:
        return f"this model has {counted(n_periods, 'period')}, and a comparison needs two"
    if after and after.start == 0 and not given:
        return (
            f"no period is in the reference window, because the recent one begins with the first of the {n_periods:,} "
            f"periods of this model. Pass a shorter recent window, such as recent={max(1, n_periods // RECENT_OF)}"
        )
    first, last = (escaped(time_text(periods[k].moment)) for k in (0, -1))
    which, argument = ("recent", "recent=") if not after else ("reference", "reference=")
    return (
        f"no period is in the {which} window; this model has {n_periods:,} periods, from {first} to {last}. Pass "
        f"another {argument}"
    )


def mixed_margins(periods: list[Period], compared: Sequence[int], with_margins: set[int]) -> str | None:
    """Return that some of the compared periods have start margins and others have none; None if that is not so."""
    without = [position for position in compared if position not in with_margins]
    if not with_margins or not without:
        return None
    return (
        f"{len(with_margins):,} of {len(compared):,} periods {MIXED_MARGINS} (period "
        f"{time_text(periods[without[0]].moment)} is the first of them): they differ for that reason alone. Add all of "
        "them with margins, or none, before you look at changes"
    )


def _of_rows(notes: dict[tuple[int, int], str], periods: list[Period], compared: Sequence[int]) -> list[str]:
    """Return the warnings about rows, one of each kind: the numbers after the first colon differ between periods."""
    kinds: dict[str, list[tuple[int, int]]] = {}
    for at in sorted(notes):
        kinds.setdefault(notes[at].partition(":")[0], []).append(at)
    warnings = []
    with_margins = {position for position, _ in kinds.pop(HAS_MARGINS, ())}
    mixed = mixed_margins(periods, compared, with_margins)
    if mixed is not None:
        warnings.append(mixed)
    for found in kinds.values():
        first, last = (time_text(periods[position].moment) for position, _ in (found[0], found[-1]))
        which = f"period {first}" if len(found) == 1 else f"{len(found):,} periods or parts from {first} to {last}"
        warnings.append(f"{notes[found[-1]]} ({which})")
    return warnings
