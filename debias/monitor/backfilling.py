"""A retrained model on the days of the one before: its history over them, and whether data or model changed scores."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import DebiasWarning, HistoryArgumentError, HistoryError
from debias.monitor.comparing import window_of
from debias.monitor.records import HAS_MARGINS, About
from debias.monitor.times import IN_WORDS, MICROSECONDS_OF_A_DAY, ZONED, Moment, is_a_day, positions_of, time_text
from debias.p_values import holm_of_known
from debias.results.data_or_model import DataOrModel
from debias.significance.days_with_memory import difference_of
from debias.significance.period_means import means_of
from debias.text import counted, few_digits, listed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from debias.monitor.history import History
    from debias.monitor.records import Records
    from debias.monitor.store import Period, Series
    from debias.trees.ensemble import TreeEnsemble

    Array = NDArray[np.float64]

NAMED = 5
"""Number of periods that a message names."""
SAME = 1e-9
"""Sums over the same rows differ by a smaller share: by rounding errors."""
SAME_MEAN = 1e-6
"""The same for means of a response, which a model may round to single precision."""
SQUARED = "mean squared error"
"""The loss of models whose sums tell the mean response."""


def backfilled(
    history: History, periods: Iterable[Any], trained_until: Any, like: str | None, rows: Any
) -> tuple[int, int]:
    """Add past periods to the series of a new model, as ``History.backfill`` says.

    Returns
    -------
    n_added, n_there : int
        Numbers of the periods that were added, and that were there before.
    """
    with history._reading() as records:
        old = _other(records, history._own, like)
        of_old = records.content.periods(old.id)
        known = {period.at: period for period in of_old}
        waits = {each.at for each in records.content.waiting(old.id)}
        own = records.series_of(history._own.digest)  # type: ignore[union-attr]
        of_new = records.content.periods(own.id) if own else []
    seen = _seen(of_old, trained_until)
    kept = [time_text(period.moment) for period in of_new if period.at in seen]
    left_out: dict[str, list[str]] = {"seen": [], "waits": [], "absent": []}
    number = n_there = 0
    for at, X, y, further in map(_item, periods):
        moment = Moment.of(at)
        if moment.text in seen or moment.text not in known:
            why = "seen" if moment.text in seen else "waits" if moment.text in waits else "absent"
            left_out[why].append(time_text(moment))
            continue
        part = further.get("part")
        with history._reading() as records:
            parts = [each.part for each in records.content.parts(known[moment.text].id)]
            wanted = None if part not in (None, *parts) else _content(records, old, known[moment.text], part)
        if wanted is None:
            named = ", ".join(map(repr, filter(None, parts))) or "no parts with names"
            raise HistoryError(
                f"period {time_text(moment)} of {old.label!r} has no part {part!r}; it has {named}. "
                f"{counted(number, 'period')} before it stayed in the history"
            )
        added = history.add(X, y, at=at, rows=rows, **further)
        with history._reading() as records:
            own = records.series_of(history._own.digest)  # type: ignore[union-attr]
            period = None if own is None else records.period_at(own, moment)
            there = None if own is None or period is None else _content(records, own, period, part)
        other = "rows without responses here" if there is None else there.difference(wanted, old.label)
        if other is not None:
            if added:
                history.remove(at=at, part=part, series=None if own is None else own.label)
            of = "" if part is None else f", part {part!r},"
            raise HistoryError(
                f"period {time_text(moment)}{of} has {other}: pass the same rows, with the response in the same unit. "
                f"This period was not added; {counted(number, 'period')} before it stayed in the history"
            )
        number += added
        n_there += not added
    reasons = _left_out(left_out, set(kept), old.label, trained_until)
    if kept:
        reasons.append(
            f"{counted(len(kept), 'period')} up to trained_until={trained_until!r} ({listed(kept, NAMED)}) are in the "
            "series of the new model from before, and are used although it has seen their rows: remove them (remove)"
        )
    if reasons and not number + n_there:
        raise HistoryError(f"no period was added: {'; '.join(reasons)}. Pass periods of {old.label!r} after those")
    for reason in reasons:
        warnings.warn(reason, DebiasWarning, stacklevel=3)
    return number, n_there


def data_or_model(
    records: Records, newer: Series, recent: Any, reference: Any, old: str | None, error_rate: float
) -> DataOrModel:
    """Divide the changes of scores into data and model, as ``History.data_or_model`` says."""
    if isinstance(error_rate, bool) or not isinstance(error_rate, (int, float)) or not 0 < error_rate < 1:
        raise HistoryArgumentError(f"the error rate {error_rate!r} is not between 0 and 1")
    older = _other_than(records, newer, old)
    periods = records.content.periods(older.id)
    after = positions_of(periods, recent, "recent", len(periods) - 1)
    end = after.start if len(after) else 0
    before = range(end) if reference is None else positions_of(periods, reference, "reference", end - 1)
    if not len(after) or not len(before) or set(after) & set(before):
        raise HistoryError(
            f"{older.label!r} has {counted(len(before), 'period')} in reference and "
            f"{counted(len(after), 'period')} in recent: pass two windows that have periods and none in common"
        )
    if before.start >= after.stop:
        raise HistoryArgumentError("reference= is after recent=: exchange them, so that a change is one over time")
    of_new = {period.at: period for period in records.content.periods(newer.id)}
    shared = [k for k in after if _are_same(records, older, periods[k], newer, of_new.get(periods[k].at))]
    if not shared:
        raise HistoryError(
            f"{newer.label!r} and {older.label!r} have no recent period with the same rows and responses: give the new "
            "model the past periods first (backfill)"
        )
    metrics = {
        records.summaries(series, [period])[0].metric
        for series, period in ((older, periods[shared[0]]), (newer, of_new[periods[shared[0]].at]))
    }
    if len(metrics) > 1:
        raise HistoryError(
            f"{older.label!r} and {newer.label!r} have different losses, so their scores have different units: "
            "compare models of one loss"
        )
    names_old, names_new = (records.trees(each).grouping.names for each in (older, newer))
    names = tuple(name for name in names_new if name in names_old)
    if not names:
        raise HistoryError(f"{older.label!r} and {newer.label!r} have no feature in common")
    first = _scores(records, older, [periods[k] for k in before], names)
    second = _scores(records, older, [periods[k] for k in shared], names)
    third = _scores(records, newer, [of_new[periods[k].at] for k in shared], names)
    sizes = {k: int(_content(records, older, periods[k]).n_rows) for k in (*before, *shared)}
    of_data, of_model = difference_of([first, second]), difference_of([third - second])
    p = holm_of_known(np.concatenate([of_data.p_value(), of_model.p_value()]))
    kept = [periods[k] for k in shared]
    return DataOrModel(
        old=older.label,
        new=newer.label,
        names=names,
        before=window_of(periods, before, sizes.__getitem__),
        after=window_of(kept, range(len(kept)), lambda k: sizes[shared[k]]),
        data=of_data.change,
        model=of_model.change,
        data_error=of_data.error,
        model_error=of_model.error,
        data_memory=of_data.memory,
        model_memory=of_model.memory,
        data_p_adjusted=p[: len(names)],
        model_p_adjusted=p[len(names) :],
        error_rate=error_rate,
        left_out=tuple(time_text(periods[k].moment) for k in after if k not in set(shared)),
        only_one=tuple(name for name in dict.fromkeys((*names_old, *names_new)) if name not in names),
    )


def _seen(periods: list[Period], trained_until: Any) -> set[str]:
    """Return the times of the periods up to the last one that the new model was trained on."""
    if trained_until is None or not periods:
        return set()
    moment = Moment.of(trained_until)
    if moment.kind != periods[0].kind:
        zone = " Pass a time with a zone." if periods[0].kind == ZONED else ""
        raise HistoryArgumentError(
            f"trained_until={trained_until!r} is not of the kind of the times of this history, which are "
            f"{IN_WORDS[periods[0].kind]}.{zone}"
        )
    key = moment.key
    if key is not None and is_a_day(trained_until):
        key += MICROSECONDS_OF_A_DAY - 1  # the model has seen the hours of that day too
    if key is None:
        key = next((period.key for period in periods if period.at == moment.text), None)
    if key is None:
        raise HistoryArgumentError(f"trained_until={trained_until!r}: there is no period with this label")
    return {period.at for period in periods if period.key <= key}


def _left_out(times_of: dict[str, list[str]], kept: set[str], older: str, trained_until: Any) -> list[str]:
    """Return which periods were left out, and why, without those that the new model has from before."""
    reasons = []
    for name, why in (
        ("seen", f"the new model has seen the rows of periods up to trained_until={trained_until!r}"),
        ("waits", f"they wait for their responses in the series of {older!r}"),
        ("absent", f"{older!r} has no such periods, so the models cannot be compared there"),
    ):
        times = [each for each in dict.fromkeys(times_of[name]) if each not in kept]
        if times:
            reasons.append(f"{counted(len(times), 'period')} left out ({listed(times, NAMED)}): {why}")
    return reasons


def _scores(records: Records, series: Series, periods: list[Period], names: tuple[str, ...]) -> Array:
    """Return scores of shape (n_periods, n_names)."""
    own = records.trees(series).grouping.names
    places = [own.index(name) for name in names]
    return np.array([records.scores_and_errors(series, period)[0][places] for period in periods])


@dataclass(frozen=True, eq=False)
class _Content:
    """What tells whether two models have the same rows of a period, or of one part of it."""

    n_rows: float
    weight: float
    response: Array | None
    """Mean of the response, shape (n_outputs,), of a squared error; those of other losses cannot be told from sums."""
    size: Array | None
    """Sum of the sizes of the means of response, prediction and residual, shape (n_outputs,)."""

    @classmethod
    def of(cls, ensemble: TreeEnsemble, n_rows: float, weight: float, means: Array, about: About) -> _Content:
        """Return it for sums of these means (:class:`debias.rows.period_sums.PeriodSums`)."""
        if about.metric != SQUARED or ensemble.is_classifier or HAS_MARGINS in about.notes:
            return cls(n_rows, weight, None, None)
        start = 0.0 if ensemble.averaged else ensemble.base  # a boosted model has what is left of the response
        return cls(n_rows, weight, means[0] + start, np.abs(means).sum(axis=0) + np.abs(start))

    def difference(self, other: _Content, label: str) -> str | None:
        """Return in what these rows differ from those of the model with a label; None if they are the same."""
        if self.n_rows != other.n_rows:
            return f"{self.n_rows:,.0f} rows here and {other.n_rows:,.0f} rows of {label!r}"
        if abs(self.weight - other.weight) > SAME * self.weight:
            return f"a total weight of {few_digits(self.weight, 6)} here and {few_digits(other.weight, 6)} of {label!r}"
        if self.response is None or other.response is None or self.response.shape != other.response.shape:
            return None
        apart = np.abs(self.response - other.response) > SAME_MEAN * np.asarray(self.size)
        if not apart.any():
            return None
        k = int(np.argmax(apart))
        means = [few_digits(each.response[k], 6) for each in (self, other) if each.response is not None]
        return f"a mean response of {means[0]} here and {means[1]} of {label!r}"


def _content(records: Records, series: Series, period: Period, part: str | None = None) -> _Content:
    """Return it for a period, or for one of its parts; without rows if there is no such part."""
    trees = records.trees(series)
    if part is None:
        summary = records.summaries(series, [period])[0]
        about = About(list(summary.notes), summary.metric, summary.no_loss)
        return _Content.of(trees.ensemble, summary.n_rows, summary.weight, summary.means, about)
    for each in records.content.parts(period.id):
        if each.part == part:
            state, about = records.state(series, period, each)
            sums = trees.sums(state)
            return _Content.of(trees.ensemble, sums.n_rows, sums.total_weight, means_of(sums), about)
    return _Content(0.0, 0.0, None, None)


def _are_same(records: Records, older: Series, period: Period, newer: Series, there: Period | None) -> bool:
    if there is None:
        return False
    return _content(records, newer, there).difference(_content(records, older, period), older.label) is None


def _other(records: Records, own: Any, like: str | None) -> Series:
    """Return the series of the model before: that with a label, or the only other one."""
    if own is None:
        raise HistoryError("this history was opened without a model: open it with debias.History(new_model, path)")
    return _one_of([each for each in records.content.series() if each.digest != own.digest], like, "like")


def _other_than(records: Records, newer: Series, label: str | None) -> Series:
    return _one_of([each for each in records.content.series() if each.id != newer.id], label, "old")


def _one_of(others: list[Series], label: str | None, name: str) -> Series:
    labels = [each.label for each in others]
    if not others:
        raise HistoryError("there is no other model in this history: the new model needs the file of the old one")
    if label is None and len(others) == 1:
        return others[0]
    if label not in labels:
        what = f"{name}={label!r} is not another model" if label is not None else "there are several other models"
        raise HistoryArgumentError(f"{what}: pass {name}=, one of {', '.join(map(repr, labels))}")
    return others[labels.index(label)]


def _item(item: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
    """Return the period, X, y and further arguments of an item that a user passed."""
    if not isinstance(item, (tuple, list)) or len(item) not in (3, 4):
        raise HistoryError(
            "periods yields items that are not (at, X, y), or (at, X, y, {'part': ..., 'sample_weight': ...})"
        )
    at, X, y, further = (*item, {})[:4]
    known = {"part", "sample_weight", "base_margin"}
    if not isinstance(further, dict) or not further.keys() <= known:
        raise HistoryError(f"the fourth entry of a period is not a dict of {', '.join(sorted(known))}")
    return at, X, y, further
