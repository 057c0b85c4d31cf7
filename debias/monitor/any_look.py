"""Comparisons that hold at any look: all periods after a reference that stays, with the reference."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import HistoryArgumentError
from debias.monitor.comparing import Comparison, StoredPeriods, with_newer
from debias.monitor.few_numbers import Summaries
from debias.monitor.times import (
    FIRST,
    LEAST_PINNED,
    LOCAL,
    PINNED,
    PINNED_PERIODS,
    STEP,
    STEP_PERIODS,
    ZONED,
    Window,
    parsed,
    positions_of,
    time_text,
)
from debias.p_values import holm
from debias.results.any_look import ANY, NOT_AT_ANY_LOOK, THE_LOSS, AnyLook
from debias.results.windows import MeanOfPeriods, not_judged_mean
from debias.significance.any_look import ENOUGH_UNITS, IN_A_WEEK, Evidence, PeriodValues, evidence_of
from debias.significance.change import ONE_LOOK, check_settings
from debias.significance.loss_change import mean_parts
from debias.significance.period_means import (
    CONSTANT,
    OF,
    OUTLIERS,
    PeriodMeans,
    names_of_outputs,
    not_known,
    without_rounding,
)
from debias.text import counted, escaped, listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from debias.monitor.records import Records
    from debias.monitor.store import Period, Series
    from debias.monitor.summaries import PeriodSummary
    from debias.results.changes import Changes
    from debias.results.fleet import Findings
    from debias.results.loss_change import LossChange
    from debias.trees.ensemble import TreeEnsemble

    Integers = NDArray[np.int64]

NOT_HELD = ("p_value", "p_adjusted", "shift_p_adjusted")
FLAGS_NOT_HELD = ("changed", "informative_after", "faded", "undetected", "kept", "shifted")
"""Statistics of a comparison whose tests hold for a planned number of looks only."""
MOST_NAMED = 5
MICROSECOND = timedelta(microseconds=1)
"""The unit of the keys of periods with dates."""


@dataclass(frozen=True)
class Windows:
    """The periods of a comparison at any look, as positions.

    Parameters
    ----------
    before : range
        The reference.
    later : range
        All periods after it, up to the last recent one.
    recent : range
        Those of the recent window among these.
    weeks : tuple of two arrays of int64
        The number of the week of each period of the reference, and of each later one, counted from where they begin.
    """

    before: range
    later: range
    recent: range
    weeks: tuple[Integers, Integers]

    @classmethod
    def of(cls, periods: Sequence[Period], recent: Any, reference: Any) -> Windows:
        """Return the windows of the periods of a model, some of which may be empty.

        Parameters
        ----------
        periods : sequence of Period
            Sorted by time; one or more.
        recent, reference : int, str, timedelta, (first, last), or None
            As for ``History.changes``.

        Raises
        ------
        HistoryError
            These are no windows, or the reference moves along with time.
        """
        chosen = f"{FIRST}{default_length(periods)}" if reference is None else reference
        refuse_moving(reference)
        length = parsed(chosen, "reference")
        before = positions_of(periods, chosen, "reference", len(periods) - 1)
        if reference is None:
            before = range(min(max(before.stop, LEAST_PINNED), len(periods)))
        now = positions_of(periods, recent, "recent", len(periods) - 1)
        later = range(before.stop, max(before.stop, now.stop))
        begin = max(now.start, before.stop)
        weeks = _weeks(periods, before, later, length.span if isinstance(length, Window) else None)
        return cls(before, later, range(begin, max(begin, later.stop)), weeks)


def refuse_moving(reference: Any) -> None:
    """Raise a HistoryError if a reference moves along with time, or is none."""
    is_first = isinstance(reference, str) and reference.strip().startswith(FIRST)
    if reference is not None and not is_first and isinstance(parsed(reference, "reference"), Window):
        raise HistoryArgumentError(
            f"reference={str(reference)!r} moves along with time, and looks='any' needs a reference that stays: pass "
            "the first periods, such as reference='first 60d' ('first 60' without dates), two periods, such as "
            "reference='2026-01-01..2026-03-01', or leave it out"
        )


def _weeks(periods: Sequence[Period], before: range, later: range, span: timedelta | None) -> tuple[Integers, Integers]:
    """Return the numbers of the weeks of the periods of the reference, and of later ones.

    Weeks are of the calendar, so that a day that comes late leaves the weeks of the others as they are. Without dates,
    they are of 7 periods. The first week after a reference of a length of time begins when this time is over.
    """
    if not before or not has_dates(periods):
        return _sevens(before), _sevens(later)
    key = [int(period.key) for period in periods]
    begin, end = key[before.start], key[before.stop - 1] + 1
    if span is not None:
        end = max(end, begin + span // MICROSECOND)
    week = STEP.span
    assert week is not None
    of_before, of_later = (
        (np.array([key[k] for k in window], dtype=np.int64) - start) // (week // MICROSECOND)
        for window, start in ((before, begin), (later, end))
    )
    return of_before, of_later


def _sevens(window: range) -> Integers:
    return np.arange(len(window), dtype=np.int64) // STEP_PERIODS


def has_dates(periods: Sequence[Period]) -> bool:
    """Return whether the periods of a model have dates, which is assumed if there are none."""
    return not periods or periods[0].kind in (LOCAL, ZONED)


def default_length(periods: Sequence[Period]) -> str:
    """Return how much of the beginning is the reference by default."""
    assert PINNED.span is not None
    return f"{PINNED.span.days}d" if has_dates(periods) else str(PINNED_PERIODS)


def comparison_at_any_look(
    records: Records,
    series: Series,
    recent: Any,
    reference: Any,
    *,
    alpha: float,
    least: float,
    ensemble: TreeEnsemble | None = None,
) -> Changes:
    """Return what changed after a reference that stays, with p-values that hold at any look.

    Parameters
    ----------
    records : Records
    series : Series
    recent, reference, alpha, least, ensemble
        As for :func:`debias.monitor.comparing.comparison_of`. A reference that moves along with time is refused.

    Raises
    ------
    HistoryError
        These are no windows, or the reference moves along with time.
    CompositionError
        `alpha` or `least` is out of range.
    """
    check_settings(alpha, least, 1)
    stored, read = StoredPeriods(records, series), Summaries(records, series, ensemble)
    windows = Windows.of(stored.periods, recent, reference)
    plain = Comparison(stored, reference, {}).between(
        windows.before, windows.recent, {"alpha": alpha, "least": least, "looks": 1}
    )
    given = plain.reference_given if reference is not None else default_in_words(stored.periods)
    plain = replace(plain, looks=ANY, reference_given=given)
    if not plain.compared:
        return with_newer(replace(plain, not_compared_because=nothing_later(windows, stored.periods)), records, series)
    judged = Judged.of(read, windows, plain.loss, plain.no_loss_because, alpha)
    n_features = len(plain.feature_names)
    not_judged = tuple(not_judged_mean(of) for of in OF)
    of_means = [text for text in plain.warnings if text == OUTLIERS or text.startswith(not_judged)]
    of_one_look = (ONE_LOOK, *of_means, *(() if plain.loss is None else plain.loss.warnings))
    not_held = {name: np.full(n_features, np.nan) for name in NOT_HELD}
    flags = {name: np.zeros(n_features, dtype=bool) for name in FLAGS_NOT_HELD}
    found = replace(
        plain,
        statistics=plain.statistics | not_held | flags,
        warnings=(*(text for text in plain.warnings if text not in of_one_look), *judged.warnings),
        loss=judged.loss,
        no_loss_because=judged.no_loss_because,
        means=judged.means,
        any_look=judged.about,
        pairs=None,
    )
    return with_newer(found, records, series)


def findings_at_any_look(read: Summaries, recent: Any, reference: Any, alpha: float) -> Findings | str:
    """Return the same for a fleet, as far as it is known without sums at leaves; or why there is nothing to compare."""
    windows = Windows.of(read.periods, recent, reference)
    if not windows.before or not windows.recent:
        return nothing_later(windows, read.periods)
    found = read.between(windows.before, windows.recent, alpha)
    judged = Judged.of(read, windows, found.loss, found.no_loss_because, alpha)
    residual = next(mean for mean in judged.means if mean.of == "residual")
    return replace(
        found,
        loss=judged.loss,
        no_loss_because=judged.no_loss_because,
        residual=residual,
        warnings=judged.warnings,
    )


def default_in_words(periods: Sequence[Period]) -> str:
    """Return what the reference is by default."""
    length = default_length(periods)
    return f"the first {length.removesuffix('d')} {'days' if length.endswith('d') else 'periods'} of the model"


def nothing_later(windows: Windows, periods: Sequence[Period]) -> str:
    """Return why there is nothing to compare."""
    if not windows.before:
        return "no period is in the reference"
    ends = [escaped(time_text(periods[k].moment)) for k in (windows.before[0], windows.before[-1])]
    until = "Until there are later ones, choose a shorter reference, such as 'first 30d', or a planned number of looks"
    return (
        f"at any look, periods after the reference are compared with it, and none of them is in the recent window. The "
        f"reference has {counted(len(windows.before), 'period')}, from {ends[0]} to {ends[1]}. "
        f"{until if windows.before.stop == len(periods) else 'Choose a recent window that ends later'}"
    )


@dataclass(frozen=True)
class Judged:
    """What holds at any look of a comparison.

    Parameters
    ----------
    loss : LossChange or None
    no_loss_because : str or None
    means : tuple of MeanOfPeriods
    warnings : tuple of str
    about : AnyLook
    """

    loss: LossChange | None
    no_loss_because: str | None
    means: tuple[MeanOfPeriods, ...]
    warnings: tuple[str, ...]
    about: AnyLook

    @classmethod
    def of(
        cls, read: Summaries, windows: Windows, loss: LossChange | None, no_loss_because: str | None, alpha: float
    ) -> Judged:
        """Return what holds at any look.

        Parameters
        ----------
        read : Summaries
        windows : Windows
        loss : LossChange or None
            The change of the loss between the reference and the recent window, whose p-values are for one look.
        no_loss_because : str or None
            Why it is not known, or which periods it lacks.
        alpha : float
            Family-wise error rate of each test.
        """
        names = [time_text(read.periods[k].moment) for k in windows.later]
        periods = read.each(windows.before), read.each(windows.later)
        of_weeks: list[str] = []
        by_ranks: list[str] = []
        warnings: list[str] = []
        if loss is not None:
            evidence = _of_losses(periods, windows.weeks, names, read)
            called = (THE_LOSS, "the base", *loss.feature_names)
            of_weeks += compress(called, evidence.judged_by_weeks)
            by_ranks += compress(called, evidence.judged_by_ranks)
            if evidence.starts[0] is None:
                loss, no_loss_because = None, too_few(evidence, 0)
            else:
                unjudged = [
                    starts is None and used for starts, used in zip(evidence.starts[2:], read.used, strict=True)
                ]
                if any(unjudged):
                    named = listed([escaped(name) for name in compress(loss.feature_names, unjudged)], MOST_NAMED)
                    warnings.append(f"what {named} cost is not judged: {too_few(evidence, 2 + unjudged.index(True))}")
                loss = _loss_at_any_look(loss, evidence, read.used, alpha)
        evidence = _of_means(periods, windows.weeks, names)
        of_weeks += [
            f"the mean {of}"
            for of, own in zip(OF, np.split(evidence.judged_by_weeks, len(OF)), strict=True)
            if own.any()
        ]
        means, reasons = _means_at_any_look(read, windows, evidence, alpha)
        by_ranks = [f"the {mean.name}" for mean in means if mean.typical_change is not None] + by_ranks
        for mean, reason in zip(means, reasons, strict=True):
            if reason is not None:
                of_which = "" if mean.output is None else f"of {escaped(mean.output)}, "
                warnings.append(f"{not_judged_mean(mean.of)}{of_which}{reason}")
        n_starts = int(np.unique(windows.weeks[1]).size)
        about = AnyLook(names[0], names[-1], len(names), n_starts, tuple(of_weeks), tuple(by_ranks))
        of_loss = () if loss is None else loss.warnings
        return cls(loss, no_loss_because, means, (*warnings, *of_loss), about)


def _of_losses(
    periods: tuple[list[PeriodSummary], list[PeriodSummary]],
    weeks: tuple[Integers, Integers],
    names: list[str],
    read: Summaries,
) -> Evidence:
    """Return the evidence that the loss, its base, and the cost of each feature changed."""
    values, kept = [], []
    for each, week in zip(periods, weeks, strict=True):
        has_parts = np.array([period.loss_parts is not None for period in each])
        kept.append(has_parts)
        sums = np.array([period.loss_parts for period in each if period.loss_parts is not None])
        parts = mean_parts(sums, read.grouping)[:, : 2 + len(read.grouping.names)]
        values.append(PeriodValues(parts, sums[:, 0], week[has_parts]))
    return evidence_of(values[0], values[1], list(compress(names, kept[1])))


def _of_means(
    periods: tuple[list[PeriodSummary], list[PeriodSummary]], weeks: tuple[Integers, Integers], names: list[str]
) -> Evidence:
    """Return the evidence that means changed: the outputs of the response, of the prediction, and of the residual."""
    before, later = (
        PeriodValues(np.array([period.means.ravel() for period in each]), np.array([p.weight for p in each]), week)
        for each, week in zip(periods, weeks, strict=True)
    )
    return evidence_of(before, later, names)


def _loss_at_any_look(loss: LossChange, evidence: Evidence, used: NDArray[np.bool_], alpha: float) -> LossChange:
    """Return the change of the loss with p-values that hold at any look."""
    found_p, found_cost, found_since = evidence.p_values(upward=True)
    p_value, cost_since, since = found_p[2:], found_cost[2:], found_since[2:]  # after the loss and its base
    tested = used & np.isfinite(p_value)
    adjusted = np.full(p_value.size, np.nan)
    adjusted[tested] = holm(p_value[tested])
    statistics = loss.statistics | {"p_value": np.where(tested, p_value, np.nan), "p_adjusted": adjusted}
    found = replace(
        loss,
        level=alpha,
        loss=replace(loss.loss, starts=evidence.starts[0]),
        base=replace(loss.base, starts=evidence.starts[1]),
        statistics=statistics,
        since=tuple(first if is_tested else "" for first, is_tested in zip(since, tested, strict=True)),
        cost_since=np.where(tested, cost_since, np.nan),
    )
    return replace(found, no_causes_because=NOT_AT_ANY_LOOK if found.costs_more.size else None)


def _means_at_any_look(
    read: Summaries, windows: Windows, evidence: Evidence, alpha: float
) -> tuple[tuple[MeanOfPeriods, ...], list[str | None]]:
    """Return the means of both windows, with p-values that hold at any look, and why they are not judged, if so.

    Of each the output that changed most; or the first that is not judged, if none changed.
    """
    p_value, differences, since = evidence.p_values(upward=False)
    n_outputs = p_value.size // len(OF)
    means = [
        (np.array([p.means for p in each]), np.array([p.weight for p in each]))
        for each in (read.each(windows.before), read.each(windows.recent))
    ]
    is_constant = not_known(PeriodMeans(means[0][1], means[0][0]))
    found, reasons = [], list[str | None]()
    for k, of in enumerate(OF):
        own = np.where(is_constant[k], np.nan, p_value[k * n_outputs : (k + 1) * n_outputs])
        output = int(np.argmin(np.where(np.isnan(own), np.inf, own)))
        p = float(np.minimum(own[output] * n_outputs, 1.0))
        if p > alpha and np.isnan(own).any():  # of what is not judged nobody knows whether it changed
            output, p = int(np.flatnonzero(np.isnan(own))[0]), np.nan
        because = CONSTANT if is_constant[k, output] else too_few(evidence, k * n_outputs + output)
        reasons.append(because if np.isnan(p) else None)
        centre, last = (np.average(mean[:, k, output], weights=weight) for mean, weight in means)
        most = int(np.argmax(np.abs(means[1][0][:, k, output] - centre)))
        largest = np.maximum(*(np.abs(mean[:, :, output]).max() for mean, _ in means))
        before, recent = map(float, without_rounding(centre, last, largest))
        start = since[k * n_outputs + output] or None
        name = time_text(read.periods[windows.recent[most]].moment)
        called = names_of_outputs(read.own, n_outputs)[output] if n_outputs > 1 else None
        at = k * n_outputs + output
        typical = float(differences[at]) if evidence.judged_by_ranks[at] and np.isfinite(p) else None
        found.append(
            MeanOfPeriods(of, before, recent, p, p <= alpha, name, start, output=called, typical_change=typical)
        )
    return tuple(found), reasons


def too_few(evidence: Evidence, k: int) -> str:
    """Return why the mean number k is not judged."""
    n_periods, n_weeks = evidence.n_units
    needed = f"{ENOUGH_UNITS} are needed to show how much they vary. Choose a longer reference"
    if n_periods < ENOUGH_UNITS:
        return f"the reference has {counted(n_periods, 'period')}: {needed}"
    if evidence.of_weeks[k]:
        weeks = "periods of the reference depend on those before them, so that weeks are compared"
        if n_weeks < ENOUGH_UNITS:
            return f"{weeks}, and it has {counted(n_weeks, 'complete week')} of {IN_A_WEEK} periods or more: {needed}"
        if not evidence.n_later_weeks:
            return f"{weeks}, and none after the reference is complete so far"
    if evidence.unknown[k]:
        return evidence.unknown[k]
    return "it is the same in all periods of the reference"
