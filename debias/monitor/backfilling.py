"""A retrained model on the days of the one before: its history over them, and whether data or model changed scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import HistoryError
from debias.monitor.comparing import window_of
from debias.monitor.times import Moment, positions_of, time_text
from debias.p_values import holm_of_known
from debias.significance.change import ENOUGH_PERIODS
from debias.text import counted, escaped, feature_index, listed

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd
    from numpy.typing import NDArray

    from debias.monitor.history import History
    from debias.monitor.records import Records
    from debias.monitor.store import Period, Series
    from debias.results.windows import WindowOfPeriods

    Array = NDArray[np.float64]

SAME_WEIGHT = 1e-9
"""Two sums of the weights of the same rows differ by a smaller share: by rounding errors."""
NEITHER = "no change detected"
UNTESTED = "untested"


@dataclass(frozen=True, eq=False, kw_only=True)
class DataOrModel:
    """Whether scores changed by the data or by the model. Arrays have one entry for each feature of both models.

    ``change = data + model``: from the score of the old model on the days before to that of the new model on the
    recent days. A score is the mean of the scores (``mdi_oob``) of single days.

    Parameters
    ----------
    old, new : str
        Labels of the models.
    names : tuple of str
        Features of both models.
    before, after : WindowOfPeriods
        The days before and the recent ones.
    data : array of float64
        Score of the old model on the recent days, less that on the days before.
    model : array of float64
        On the recent days, score of the new model less that of the old one.
    data_error, model_error : array of float64
        Standard errors from differences between days: Welch's, and of the differences on the same days. NaN if a
        window has fewer than 8 days, or if the feature has the same score on all days.
    data_p_adjusted, model_p_adjusted : array of float64
        Two-sided, Student's t, adjusted by Holm over both questions of all features. NaN if not tested.
    error_rate : float
    left_out : tuple of str
        Days of the windows that only the old model has, or that have other rows in the two series.
    only_one : tuple of str
        Features of one model only.
    """

    old: str
    new: str
    names: tuple[str, ...]
    before: WindowOfPeriods
    after: WindowOfPeriods
    data: Array
    model: Array
    data_error: Array
    model_error: Array
    data_p_adjusted: Array
    model_p_adjusted: Array
    error_rate: float
    left_out: tuple[str, ...]
    only_one: tuple[str, ...]

    @property
    def change(self) -> Array:
        """The sum of both parts."""
        return self.data + self.model

    @property
    def verdict(self) -> list[str]:
        """For each feature "data", "model", "data and model", "no change detected" or "untested"."""
        found = []
        for data, model in zip(self.data_p_adjusted, self.model_p_adjusted, strict=True):
            by = [name for name, p in (("data", data), ("model", model)) if p <= self.error_rate]
            unknown = np.isnan(data) or np.isnan(model)
            found.append(" and ".join(by) or (UNTESTED if unknown else NEITHER))
        return found

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with a row for each feature."""
        import pandas as pd

        columns = ("change", "data", "data_error", "data_p_adjusted", "model", "model_error", "model_p_adjusted")
        frame = {name: getattr(self, name) for name in (*columns, "verdict")}
        return pd.DataFrame(frame, index=feature_index(self.names))

    def summary(self) -> list[str]:
        """Return sentences: the days, the features of each verdict, and what was left out."""
        sentences = [
            f"{escaped(self.old)} on {self.before.first} to {self.before.last} "
            f"({counted(self.before.n_periods, 'period')}) and {escaped(self.new)} on {self.after.first} to "
            f"{self.after.last} ({counted(self.after.n_periods, 'period')})."
        ]
        on_new_days = f"{escaped(self.old)} has other scores on the recent days too."
        why = {
            "data": ("The data changed the scores of", on_new_days),
            "model": ("The model changed the scores of", "On the same days the two models have other scores."),
            "data and model": ("Both the data and the model changed the scores of", on_new_days),
            NEITHER: ("No change was detected of", "This does not show that there is none."),
            UNTESTED: (
                "Not tested, or not completely",
                f"This needs {ENOUGH_PERIODS} periods in each window, and scores that vary between periods.",
            ),
        }
        verdict = self.verdict
        for each, (what, reason) in why.items():
            features = [escaped(name) for name, own in zip(self.names, verdict, strict=True) if own == each]
            if features:
                sentences.append(f"{what}: {listed(features)}. {reason}")
        if self.before.n_periods < ENOUGH_PERIODS <= self.after.n_periods:
            sentences.append(
                f"Whether the data changed scores is not tested: the window before has fewer than {ENOUGH_PERIODS} "
                "periods."
            )
        if self.left_out:
            sentences.append(
                f"Left out, because one model has no rows or other rows there: {listed(list(self.left_out))}."
            )
        if self.only_one:
            sentences.append(f"Features of one model only: {listed([escaped(name) for name in self.only_one])}.")
        return sentences


def backfilled(history: History, periods: Iterable[Any], trained_until: Any, like: str | None, rows: Any) -> int:
    """Add past periods to the series of a new model, as ``History.backfill`` says."""
    with history._reading() as records:
        old = _other(records, history._own, like)
        of_old = records.content.periods(old.id)
        known = {period.at: _size(records, old, period) for period in of_old}
    seen = _seen(of_old, trained_until)
    number = 0
    for at, X, y, further in map(_item, periods):
        moment = Moment.of(at)
        if moment.text not in known:
            raise HistoryError(
                f"{old.label!r} has no period {time_text(moment)}, so the models cannot be compared there: leave it "
                f"out, or add it with add(). {counted(number, 'period')} before it stayed in the history"
            )
        if moment.text in seen:
            raise HistoryError(
                f"period {time_text(moment)} is not after trained_until={trained_until!r}: the new model has seen its "
                f"rows. Leave it out. {counted(number, 'period')} before it stayed in the history"
            )
        added = history.add(X, y, at=at, rows=rows, **further)
        with history._reading() as records:
            own = records.series_of(history._own.digest)  # type: ignore[union-attr]
            period = None if own is None else records.period_at(own, moment)
            there = None if own is None or period is None else _size(records, own, period)
        if there is None or not _same_size(there, known[moment.text]):
            if added:
                history.remove(at=at, series=None if own is None else own.label)
            n_rows = "rows without responses" if there is None else f"{there[0]:,.0f} rows"
            raise HistoryError(
                f"period {time_text(moment)} has {n_rows} here and {known[moment.text][0]:,.0f} rows of "
                f"{old.label!r}, or other weights: pass the same rows. This period was not added; "
                f"{counted(number, 'period')} before it stayed in the history"
            )
        number += added
    return number


def data_or_model(
    records: Records, newer: Series, recent: Any, reference: Any, old: str | None, error_rate: float
) -> DataOrModel:
    """Divide the changes of scores into data and model, as ``History.data_or_model`` says."""
    if isinstance(error_rate, bool) or not isinstance(error_rate, (int, float)) or not 0 < error_rate < 1:
        raise HistoryError(f"the error rate {error_rate!r} is not between 0 and 1")
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
    of_new = {period.at: period for period in records.content.periods(newer.id)}
    shared = [k for k in after if _are_same(records, older, periods[k], newer, of_new.get(periods[k].at))]
    if not shared:
        raise HistoryError(
            f"{newer.label!r} and {older.label!r} have no recent period with the same rows: call backfill() of the "
            "history of the new model first"
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
    sizes = {k: int(_size(records, older, periods[k])[0]) for k in (*before, *shared)}
    data, data_error, freedom = _welch(first, second)
    model, model_error, paired = _welch(np.zeros((0, len(names))), third - second)
    p = holm_of_known(np.concatenate([_p_value(data, data_error, freedom), _p_value(model, model_error, paired)]))
    kept = [periods[k] for k in shared]
    return DataOrModel(
        old=older.label,
        new=newer.label,
        names=names,
        before=window_of(periods, before, sizes.__getitem__),
        after=window_of(kept, range(len(kept)), lambda k: sizes[shared[k]]),
        data=data,
        model=model,
        data_error=data_error,
        model_error=model_error,
        data_p_adjusted=p[: len(names)],
        model_p_adjusted=p[len(names) :],
        error_rate=error_rate,
        left_out=tuple(time_text(periods[k].moment) for k in after if k not in set(shared)),
        only_one=tuple(name for name in dict.fromkeys((*names_old, *names_new)) if name not in names),
    )


def _welch(before: Array, after: Array) -> tuple[Array, Array, Array]:
    """Return the difference of means, its standard error and Welch's degrees of freedom, by column.

    Without rows before, the mean after is compared with 0. Errors are NaN with few rows, or if all are the same.
    """
    windows = [each for each in (before, after) if len(each)]
    means = [each.mean(axis=0) for each in windows]
    difference = means[-1] - means[0] if len(windows) > 1 else means[0]
    if min(map(len, windows)) < ENOUGH_PERIODS:
        unknown = np.full(difference.shape, np.nan)
        return difference, unknown, unknown
    parts = [each.var(axis=0, ddof=1) / len(each) for each in windows]
    squared = np.sum(parts, axis=0)
    constant = np.all([np.ptp(each, axis=0) == 0 for each in windows], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = squared**2 / np.sum([part**2 / (len(each) - 1) for part, each in zip(parts, windows, strict=True)], 0)
    return difference, np.where(constant, np.nan, np.sqrt(squared)), np.where(constant, np.nan, freedom)


def _p_value(estimate: Array, error: Array, freedom: Array) -> Array:
    from scipy.special import stdtr

    with np.errstate(divide="ignore", invalid="ignore"):
        p: Array = 2 * stdtr(freedom, -np.abs(estimate / error))
    return p


def _seen(periods: list[Period], trained_until: Any) -> set[str]:
    """Return the times of the periods up to the last one that the new model was trained on."""
    if trained_until is None or not periods:
        return set()
    moment = Moment.of(trained_until)
    if moment.kind != periods[0].kind:
        raise HistoryError(f"trained_until={trained_until!r} is not of the kind of the times of this history")
    key = moment.key
    if key is None:
        key = next((period.key for period in periods if period.at == moment.text), None)
    if key is None:
        raise HistoryError(f"trained_until={trained_until!r}: there is no period with this label")
    return {period.at for period in periods if period.key <= key}


def _scores(records: Records, series: Series, periods: list[Period], names: tuple[str, ...]) -> Array:
    """Return scores of shape (n_periods, n_names)."""
    own = records.trees(series).grouping.names
    places = [own.index(name) for name in names]
    return np.array([records.scores_and_errors(series, period)[0][places] for period in periods])


def _size(records: Records, series: Series, period: Period) -> tuple[float, float]:
    """Return the number of rows of a period and their weight."""
    summary = records.summaries(series, [period])[0]
    return summary.n_rows, summary.weight


def _same_size(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[0] == other[0] and abs(one[1] - other[1]) <= SAME_WEIGHT * abs(one[1])


def _are_same(records: Records, older: Series, period: Period, newer: Series, there: Period | None) -> bool:
    return there is not None and _same_size(_size(records, older, period), _size(records, newer, there))


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
        raise HistoryError(f"{what}: pass {name}=, one of {', '.join(map(repr, labels))}")
    return others[labels.index(label)]


def _item(item: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
    """Return the period, X, y and further arguments of an item that a user passed."""
    if not isinstance(item, (tuple, list)) or len(item) not in (3, 4):
        raise HistoryError("periods yields items that are not (at, X, y), or (at, X, y, {'sample_weight': ...})")
    at, X, y, further = (*item, {})[:4]
    known = {"sample_weight", "base_margin"}
    if not isinstance(further, dict) or not further.keys() <= known:
        raise HistoryError(f"the fourth entry of a period is not a dict of {' or '.join(sorted(known))}")
    return at, X, y, further
