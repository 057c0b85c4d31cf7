"""Looks at streams of days, calm ones and ones with a fault, for the study of alarms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.p_values import holm
from debias.results.provisional import NOT_LOOKED_FOR
from debias.results.windows import WindowOfPeriods
from debias.significance.any_look import PeriodValues, evidence_of
from debias.significance.change import compare_windows, groups_of
from debias.significance.kept_windows import KeptWindow
from debias.significance.period_means import OF
from debias.significance.provisional import compare_waiting, with_broken
from debias_bench.alarm_streams import (
    N_ROWS,
    RECENT,
    REFERENCE,
    Stream,
    above_chart,
    by_column,
    costs,
    trained,
)
from debias_bench.change import MODELS
from debias_bench.loss_changes import (
    ALPHA,
    NOTHING,
    Setting,
    drawn,
    response,
    settings,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.groups import Grouping
    from debias.results.any_look import Starts
    from debias.results.provisional import Provisional
    from debias.rows.period_sums import PeriodSums

    Array = NDArray[np.float64]

N_DAYS = 1000
"""Days after the reference."""
DAILY, LATER = 100, 5
"""The first days after the reference have a look each, and later every fifth day, so that a stream takes seconds."""
DAYS_WITH_LOOK = (*range(1, DAILY + 1), *range(DAILY + LATER, N_DAYS + 1, LATER))
WEEK = 7
WEEKS = range(WEEK, N_DAYS + 1, WEEK)
"""Days with a look of what looks a planned number of times."""
BATCH, RECORDED = 25, 6
"""Streams of one model, and the days that are recorded for each of their positions: a stream has one of these."""
BY_COLUMN = 1
"""So many of the streams of a model are looked at by PSI and KS."""
SMALLEST_T = 3.0
"""A smaller t has a p-value above .05 at any look: its Bayes factor is below 2 (1 + t^2 / df)^((df + 1) / 2), which is
below 200, and its share of the error rate is at most 1 / 53."""
LOOKS = 365
"""Planned looks at streams with a fault."""
FAULT, END = 90, 140
"""Number of the first day with the fault, and of days."""
LOOKED_AT = (*range(69, FAULT + 1, 3), *range(FAULT + 1, FAULT + 16), *range(FAULT + 18, END + 1, 3))
"""Numbers of known days at the looks at streams with a fault."""
QUIET = Setting(NOTHING, "all periods alike")
FAULTS = {
    setting.name: setting
    for setting in settings()
    if setting.truth
    and setting.name not in ("changes its sign", "x0 permuted while the mean of x1 moves")
}  # fmt: skip


@dataclass(frozen=True)
class Calm:
    """Streams in which the response depends on the columns as ever.

    Parameters
    ----------
    words : str
    shift : callable
        ``shift(day)`` returns what is added to x0 and to x1, for an array of days.
    weekend : float
        On two of seven days the loss, and the mean response, are larger by so many standard deviations of a day.
    share : float
        Share of the usual number of models.
    checked : int
        Number of the streams of a model that the full check looks at, which is what takes the time.
    level : float
        Added to half of the log odds of a class.
    skewed : bool
        Whether the response is the exponential of .6 times what it is otherwise: skewed, with a long tail.
    """

    words: str
    shift: Callable[[Array], tuple[Any, Any]] = lambda day: (0.0, 0.0)
    weekend: float = 0.0
    share: float = 1.0
    checked: int = 8
    level: float = 0.0
    skewed: bool = False

    @property
    def models(self) -> tuple[str, ...]:
        """The models of the streams in turn: classes have no noise that could be larger on weekends."""
        if self.level:
            return ("XGBoost, classes",)
        return ("XGBoost",) if self.weekend or self.skewed else ("XGBoost", "XGBoost, classes")

    def response(self, rng: np.random.Generator, X: Array, model: str) -> Array:
        """Return the responses of rows."""
        y = response(rng, X, model, level=self.level)
        return np.exp(0.6 * y) if self.skewed else y


def _wave(days: float) -> Callable[[Array], tuple[Any, Any]]:
    return lambda day: (0.0, 0.7 * np.sin(2 * np.pi * day / days))


RARE = -3.0
"""A class has about 5 % of the rows then."""
CALM = {
    "nothing": Calm("nothing changes", checked=BATCH),
    "month": Calm("a season of x1 of 30 days, by .7", _wave(30), share=1 / 3),
    "year": Calm("a season of x1 of 365 days, by .7", _wave(365)),
    "drift": Calm("the means of x0 and x1 rise by .5 in 1,000 days", lambda day: (day / 2000, day / 2000)),
    "rare": Calm("a class of 5 %", share=1 / 2, level=RARE),
    "skewed": Calm("a lognormal response", share=1 / 2, skewed=True),
    "weekend 1": Calm("weekends differ by 1 standard deviation", weekend=1.0, share=1 / 3),
    "weekend 2": Calm("weekends differ by 2 standard deviations", weekend=2.0, share=1 / 3),
}
OTHERS = ("chart", "psi", "ks")
WATCHED = ("any, loss", "any, cost", "planned", "waiting", "forecast", *OTHERS)
"""Ways of looking at a stream with a fault."""


def recorded_days(kind: str, number: int) -> Stream:
    """Return RECORDED days for each of 1,060 positions of a stream in which no effect and no column is broken.

    The days of one position stand together.
    """
    setting = CALM[kind]
    model = setting.models[number % len(setting.models)]
    rng = np.random.default_rng([*f"calm {kind}".encode(), number])
    empty = trained(QUIET, model, rng, setting.response)
    position = np.repeat(np.arange(REFERENCE + N_DAYS), RECORDED)
    X = drawn(QUIET, rng, position.size * N_ROWS, 0, False)[0].reshape(position.size, N_ROWS, -1)
    for column, shift in enumerate(setting.shift(position.astype(float))):
        X[..., column] += np.broadcast_to(shift, position.size)[:, None]
    y = setting.response(rng, X.reshape(-1, X.shape[-1]), model).reshape(position.size, N_ROWS)
    if setting.weekend:
        # A day's mean of squared normal errors of variance 1 has the standard deviation sqrt(2 / N_ROWS).
        larger = setting.weekend * np.sqrt(2 / N_ROWS)
        more = np.sqrt(larger) * rng.normal(size=y.shape) + setting.weekend / np.sqrt(N_ROWS)
        y = y + np.where((position + number) % WEEK >= 5, 1.0, 0.0)[:, None] * more
    return Stream(empty, X, y)


def fault_stream(fault: str, number: int) -> Stream:
    """Return a stream of 140 days with a fault from the 91st day on."""
    setting, model = FAULTS[fault], MODELS[number % len(MODELS)]
    rng = np.random.default_rng([*f"fault {fault}".encode(), number])
    empty = trained(setting, model, rng)
    rows, responses = [], []
    for day in range(END):
        X, seen = drawn(setting, rng, N_ROWS, day, day >= FAULT)
        rows.append(seen)
        responses.append(response(rng, X, model, setting.effects if day >= FAULT else (1.0, 1.0)))
    return Stream(empty, np.array(rows), np.array(responses))


def at_any_look(values: Array, n: int, used: NDArray[np.bool_]) -> dict[str, NDArray[np.bool_]]:
    """Return the alarms of ``looks="any"`` when n days are known, of each stream.

    Parameters
    ----------
    values : array of shape (n_days, n_streams, 2 + n_features + 3)
        By day the loss, the base, what each feature costs, and the means of the response, prediction and residual.
    n : int
    used : array of bool of shape (n_features,)
    """
    n_streams = values.shape[1]
    starts = evidence_of(*_values(values.reshape(len(values), -1), n)).starts
    of_loss, cost, of_means = np.ones(n_streams), np.ones(n_streams), np.ones((len(OF), n_streams))
    for k, each in enumerate(starts):
        stream, column = divmod(k, values.shape[2])
        if each is None or _largest_t(each) < SMALLEST_T:
            continue
        if column == 0:
            of_loss[stream] = 2 * min(each.above()[0], each.below()[0])
        elif column >= 2 + used.size:
            of_means[column - 2 - used.size, stream] = each.other()[0]
        elif column >= 2 and used[column - 2]:
            cost[stream] = min(cost[stream], each.above()[0] * used.sum())
    found = {"loss": of_loss <= ALPHA, "cost": cost <= ALPHA}
    return found | {of: p <= ALPHA for of, p in zip(OF, of_means, strict=True)}


def _largest_t(starts: Starts) -> float:
    """Return the largest absolute t of all starts."""
    return float(np.abs(starts.difference / np.sqrt(starts.squares / starts.freedom * starts.variance)).max())


def as_planned(sums: list[PeriodSums], n: int, grouping: Grouping) -> dict[str, bool]:
    """Return the alarms of the full comparison of the last days, a look each week, when n days are known."""
    changes = compare_windows(sums[:REFERENCE], sums[n - RECENT : n], grouping, alpha=ALPHA, looks=len(WEEKS))
    loss = changes.loss
    assert loss is not None
    found = {"loss": loss.direction is not None, "cost": loss.costs_more.size > 0}
    found |= {of: bool(each) for of, each in zip(OF, changes.means.changed, strict=True)}
    return found | {"effect": bool(changes.changed.any()), "shift": bool(changes.shifted.any())}


def without_responses(sums: list[PeriodSums], n: int, grouping: Grouping) -> dict[str, bool]:
    """Return the alarms of the same looks at the same days, before their responses are known."""
    found = _provisional(sums[:REFERENCE], sums[n - RECENT : n], grouping, len(WEEKS))
    moved = found.prediction is not None and found.prediction.changed
    shifted = bool(found.statistics["shifted"].any())
    return {"broken": bool(found.broken), "expected": found.changed.size > 0, "prediction": moved, "shift": shifted}


def level_of(kind: str, number: int) -> dict[str, Any]:
    """Look at the streams of a model in which nothing is broken.

    Returns
    -------
    dict of str to value
        ``first``: of each alarm, for each stream that it looked at, the number of days after the reference until the
        first one, or None. ``inexact``: the largest difference of a row's loss from the sum of its parts; and of the
        change of the loss of a stream from that of its parts.
    """
    recorded = recorded_days(kind, number)
    sums = [recorded.sums(day) for day in range(len(recorded.y))]
    rng = np.random.default_rng([*f"streams {kind}".encode(), number])
    n_days = REFERENCE + N_DAYS
    chosen = RECORDED * np.arange(n_days)[:, None] + rng.integers(RECORDED, size=(n_days, BATCH))
    of_days = np.hstack([costs(recorded.loss_sums), recorded.means])
    values = of_days[chosen]  # (n_days, BATCH, n_values)
    first: dict[str, list[int | None]] = {}

    def note(name: str, day: int, is_on: Any) -> None:
        on = np.atleast_1d(is_on)
        known = first.setdefault(name, [None] * on.size)
        for stream in np.flatnonzero(on):
            known[stream] = known[stream] or day

    for day in DAYS_WITH_LOOK:
        for name, is_on in at_any_look(values, REFERENCE + day, recorded.used).items():
            note(f"any, {name}", day, is_on)
    for day in WEEKS:
        n = REFERENCE + day
        note("chart", day, [above_chart(values[:, stream, 0], n) for stream in range(BATCH)])
        for looks, alarms in (("planned", as_planned), ("waiting", without_responses)):
            found = [alarms([sums[k] for k in at], n, recorded.grouping) for at in chosen.T[: CALM[kind].checked]]
            for name in found[0]:
                note(f"{looks}, {name}", day, [each[name] for each in found])
        columns = [by_column(*_rows(recorded.X[at], n), len(WEEKS)) for at in chosen.T[:BY_COLUMN]]
        for k, name in enumerate(("psi", "ks")):
            note(name, day, [bool(each[k]) for each in columns])
    parts = recorded.parts
    change = values[-RECENT:].mean(axis=0) - values[:REFERENCE].mean(axis=0)
    of_parts = change[:, 1 : -len(OF)].sum(axis=1)
    inexact = [
        float(np.abs(parts.loss - parts.base + parts.saved.sum(axis=1)).max()),
        float(np.abs(change[:, 0] - of_parts).max()),
    ]
    return {"first": first, "inexact": inexact}


def found_in(fault: str, number: int) -> dict[str, Any]:
    """Look at a stream with a fault on LOOKED_AT.

    Returns
    -------
    dict of str to value
        ``delay``: of each way of looking the number of days from the fault to the first alarm, 0 on its first day, or
        None. ``early``: whether it had an alarm before the fault. ``named``: whether that first alarm names a feature
        that the fault is about before any other; None if it names none. ``loss`` and ``forecast``: how much the loss
        rose with the fault, and the forecast of it.
    """
    stream, truth = fault_stream(fault, number), set(FAULTS[fault].truth)
    sums = [stream.sums(day) for day in range(END)]
    forecast = stream.forecast()
    delay: dict[str, int | None] = dict.fromkeys(WATCHED)
    early, named = dict.fromkeys(WATCHED, False), dict[str, bool | None]()
    for n in LOOKED_AT:
        for name, (is_on, features) in _looked(stream, sums, forecast, n, delay).items():
            if n <= FAULT:
                early[name] |= is_on
            elif is_on and delay[name] is None:
                delay[name] = n - FAULT - 1
                named[name] = features[0] in truth if features else None
    values = costs(stream.loss_sums)[:, 0]
    rise = [float(each[FAULT:].mean() - each[:REFERENCE].mean()) for each in (values, forecast)]
    return {"delay": delay, "early": early, "named": named, "loss": rise[0], "forecast": rise[1]}


Looked = dict[str, tuple[bool, list[int] | None]]


def _looked(stream: Stream, sums: list[PeriodSums], forecast: Array, n: int, delay: dict[str, int | None]) -> Looked:
    """Return whether each way of looking has an alarm when n days are known, and the features that it names first.

    What has found the fault is not asked again.
    """
    found: Looked = {}
    grouping, recent = stream.grouping, sums[n - RECENT : n]
    if delay["any, loss"] is None or delay["any, cost"] is None:
        evidence = evidence_of(*_values(costs(stream.loss_sums), n))
        p = evidence.p_values(upward=True)[0]
        adjusted = np.where(stream.used, p[2:], np.nan)
        tested = np.isfinite(adjusted)
        adjusted[tested] = holm(adjusted[tested])
        found["any, loss"] = bool(p[0] <= ALPHA / 2), None
        found["any, cost"] = _by_p_value(adjusted, ALPHA)
    if delay["planned"] is None:
        changes = compare_windows(sums[:REFERENCE], recent, grouping, alpha=ALPHA, looks=LOOKS)
        assert changes.loss is not None
        is_changed = np.flatnonzero(changes.changed | changes.shifted)
        by_loss = changes.loss.costs_more
        features = by_loss.tolist() or is_changed.tolist()
        is_on = bool(features) or bool(changes.means.changed[OF.index("residual")]) or changes.loss.direction == "rose"
        found["planned"] = is_on, features
    if delay["waiting"] is None:
        provisional = _provisional(sums[:REFERENCE], recent, grouping, LOOKS)
        broken = [grouping.names.index(name) for name in provisional.broken]
        shifted = np.flatnonzero(provisional.statistics["shifted"]).tolist()
        moved = provisional.prediction is not None and provisional.prediction.changed
        is_on = bool(broken or shifted or moved or provisional.changed.size)
        found["waiting"] = is_on, broken or shifted
    if delay["forecast"] is None:
        p = evidence_of(*_values(forecast[:, None], n)).p_values(upward=True)[0]
        found["forecast"] = bool(p[0] <= ALPHA / 2), None
    if delay["chart"] is None:
        found["chart"] = above_chart(costs(stream.loss_sums)[:, 0], n), None
    if delay["psi"] is None or delay["ks"] is None:
        for name, columns in zip(("psi", "ks"), by_column(*_rows(stream.X, n), LOOKS), strict=True):
            found[name] = bool(columns), sorted(columns)
    return found


def _provisional(reference: list[PeriodSums], recent: list[PeriodSums], grouping: Grouping, looks: int) -> Provisional:
    """Return what days tell without their responses."""
    windows = [WindowOfPeriods("", "", len(each), len(each) * N_ROWS) for each in (reference, recent)]
    times = [""] * len(recent)
    found = compare_waiting(reference, recent, grouping, ALPHA / looks, (windows[0], windows[1]), times)
    if found.no_broken_because != NOT_LOOKED_FOR:
        return found
    kept = [KeptWindow.of([each.kept for each in own], groups_of(len(own))) for own in (reference, recent)]
    return with_broken(found, recent[0].ensemble, grouping, kept[0], kept[1])


def _by_p_value(adjusted: Array, level: float) -> tuple[bool, list[int]]:
    order = np.argsort(adjusted, kind="stable")
    found = [int(k) for k in order if adjusted[k] <= level]
    return bool(found), found


def _values(values: Array, n: int) -> tuple[PeriodValues, PeriodValues, list[str]]:
    """Return the days of the reference and those after it, of the first n days."""
    of_days = [
        PeriodValues(each, np.full(len(each), float(N_ROWS)), np.arange(len(each)) // WEEK)
        for each in (values[:REFERENCE], values[REFERENCE:n])
    ]
    return of_days[0], of_days[1], [""] * (n - REFERENCE)


def _rows(X: Array, n: int) -> tuple[Array, Array]:
    return X[:REFERENCE].reshape(-1, X.shape[-1]), X[n - RECENT : n].reshape(-1, X.shape[-1])
