"""How often a history raises an alarm though nothing is wrong, over 1,000 days, and how soon after a fault.

Beside it stand what is usually watched: the loss alone, the population stability index and the Kolmogorov-Smirnov test
of single columns, and a forecast of the loss from predictions.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias import DebiasWarning
from debias.p_values import holm
from debias.results.provisional import NOT_LOOKED_FOR
from debias.significance.any_look import PeriodValues, evidence_of
from debias.significance.change import compare_windows, groups_of
from debias.significance.loss_causes import KeptWindow
from debias.significance.loss_change import PeriodLosses, compare_losses
from debias.significance.period_means import OF, PeriodMeans, compare_means
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
from debias_bench.measurement import Measurement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

N_DAYS = 1000
"""Days after the reference."""
DAILY, LATER = 100, 5
"""The first days after the reference have a look each, and later every fifth day, so that a stream takes seconds."""
DAYS_WITH_LOOK = (*range(1, DAILY + 1), *range(DAILY + LATER, N_DAYS + 1, LATER))
PLANNED = len(DAYS_WITH_LOOK)
COLUMNS_OF = 10
"""PSI and KS, which take longest, are computed for every tenth stream, each week."""
LOOKS = 365
"""Planned looks at streams with a fault."""
FAULT, END = 90, 140
"""Number of the first day with the fault, and of days."""
WEEK = 7
QUIET = Setting(NOTHING, "all periods alike")
FAULTS = {
    setting.name: setting
    for setting in settings()
    if setting.truth
    and setting.name not in ("changes its sign", "x0 permuted while the mean of x1 moves")
}  # fmt: skip
EFFECT = {"to half": "the effect of x0 falls to half", "to zero": "the effect of x0 falls to zero"}
"""Names of faults that say too little without the heading of their table."""


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
        Share of the usual number of streams.
    """

    words: str
    shift: Callable[[Array], tuple[Any, Any]] = lambda day: (0.0, 0.0)
    weekend: float = 0.0
    share: float = 1.0

    @property
    def models(self) -> tuple[str, ...]:
        """The models of the streams in turn: classes have no noise that could be larger on weekends."""
        return ("XGBoost",) if self.weekend else ("XGBoost", "XGBoost, classes")


def _wave(days: float) -> Callable[[Array], tuple[Any, Any]]:
    return lambda day: (0.0, 0.7 * np.sin(2 * np.pi * day / days))


CALM = {
    "nothing": Calm("nothing changes"),
    "month": Calm("a season of x1 of 30 days, by .7", _wave(30), share=1 / 3),
    "year": Calm("a season of x1 of 365 days, by .7", _wave(365)),
    "drift": Calm("the means of x0 and x1 rise by .5 in 1,000 days", lambda day: (day / 2000, day / 2000)),
    "weekend 1": Calm("weekends differ by 1 standard deviation", weekend=1.0, share=1 / 3),
    "weekend 2": Calm("weekends differ by 2 standard deviations", weekend=2.0, share=1 / 3),
}
ANY_LOOK = {
    "loss": "the loss rose or fell",
    "cost": "a feature costs more",
    "residual": "the mean residual",
    "response": "the mean response",
    "prediction": "the mean prediction",
}
OTHERS = {"chart": "control chart of the loss", "psi": "PSI", "ks": "KS"}
WATCHED = {
    "any, loss": "the loss, any look",
    "any, cost": "features, any look",
    "planned": f"the check, {LOOKS} looks",
    "waiting": "before the responses",
    "forecast": "forecast of the loss",
    **OTHERS,
}
NAMING = ("any, cost", "planned", "waiting", "psi", "ks")
"""Those that name features."""


def calm_stream(kind: str, number: int) -> Stream:
    """Return a stream of 1,060 days in which no effect and no column is broken."""
    setting = CALM[kind]
    model = setting.models[number % len(setting.models)]
    rng = np.random.default_rng([*f"calm {kind}".encode(), number])
    empty = trained(QUIET, model, rng)
    n_days = REFERENCE + N_DAYS
    X = drawn(QUIET, rng, n_days * N_ROWS, 0, False)[0].reshape(n_days, N_ROWS, -1)
    for column, shift in enumerate(setting.shift(np.arange(n_days, dtype=float))):
        X[..., column] += np.broadcast_to(shift, n_days)[:, None]
    y = response(rng, X.reshape(-1, X.shape[-1]), model).reshape(n_days, N_ROWS)
    if setting.weekend:
        # A day's mean of squared normal errors of variance 1 has the standard deviation sqrt(2 / N_ROWS).
        larger = setting.weekend * np.sqrt(2 / N_ROWS)
        more = np.sqrt(larger) * rng.normal(size=y.shape) + setting.weekend / np.sqrt(N_ROWS)
        y = y + np.where((np.arange(n_days) + number) % WEEK >= 5, 1.0, 0.0)[:, None] * more
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
        responses.append(response(rng, X, model, setting.effect if day >= FAULT else 1.0))
    return Stream(empty, np.array(rows), np.array(responses))


def at_any_look(stream: Stream, n: int) -> dict[str, bool]:
    """Return the alarms of ``looks="any"`` when n days are known."""
    starts = evidence_of(*_values(np.hstack([costs(stream.loss_sums), stream.means]), n)).starts
    p = [each.above()[0] for each, used in zip(starts[2 : -len(OF)], stream.used, strict=True) if each and used]
    of_loss = [] if starts[0] is None else [starts[0].above()[0], starts[0].below()[0]]
    found = {"loss": any(each <= ALPHA / 2 for each in of_loss), "cost": min(p, default=1.0) * len(p) <= ALPHA}
    return found | {
        of: each is not None and each.other()[0] <= ALPHA for of, each in zip(OF, starts[-len(OF) :], strict=True)
    }


def as_planned(stream: Stream, n: int, level: float) -> dict[str, bool]:
    """Return the same alarms of a planned number of looks, of the last days, when n days are known."""
    windows = [slice(REFERENCE), slice(n - RECENT, n)]
    losses = [_losses(stream, window) for window in windows]
    loss, _ = compare_losses(losses[0], losses[1], stream.grouping, stream.used, level)
    assert loss is not None
    means = [
        PeriodMeans(np.full(len(at), float(N_ROWS)), at[:, :, None]) for at in map(stream.means.__getitem__, windows)
    ]
    changed = compare_means(means[0], means[1], level).changed
    found = {"loss": loss.direction is not None, "cost": loss.costs_more.size > 0}
    return found | {of: bool(each) for of, each in zip(OF, changed, strict=True)}


def level_of(kind: str, number: int) -> dict[str, Any]:
    """Look at a calm stream on DAYS_WITH_LOOK.

    Returns
    -------
    dict of str to value
        Of each alarm the number of days after the reference until the first one, or None. ``inexact``: the largest
        difference of a row's loss from the sum of its parts; and of the change of the loss.
    """
    stream = calm_stream(kind, number)
    first: dict[str, int | None] = {}
    for day in DAYS_WITH_LOOK:
        n = REFERENCE + day
        found = {f"any, {name}": is_on for name, is_on in at_any_look(stream, n).items()}
        if n >= REFERENCE + RECENT:
            found |= {f"planned, {name}": on for name, on in as_planned(stream, n, ALPHA / PLANNED).items()}
            found["chart"] = above_chart(costs(stream.loss_sums)[:, 0], n)
        if number % COLUMNS_OF == 0 and (day <= DAILY or day % (WEEK * LATER) == 0) and day % WEEK == 0:
            by = by_column(*_rows(stream, n), PLANNED)
            found |= {"psi": bool(by[0]), "ks": bool(by[1])}
        for name, is_on in found.items():
            if first.setdefault(name) is None and is_on:
                first[name] = day
    parts, values = stream.parts, costs(stream.loss_sums)
    change = values[-RECENT:].mean(axis=0) - values[:REFERENCE].mean(axis=0)
    inexact = [
        float(np.abs(parts.loss - parts.base + parts.saved.sum(axis=1)).max()),
        float(abs(change[0] - change[1:].sum())),
    ]
    return {"first": first, "inexact": inexact}


def found_in(fault: str, number: int) -> dict[str, Any]:
    """Look at a stream with a fault every day.

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
    for n in range(REFERENCE + RECENT, END + 1):
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


def _looked(stream: Stream, sums: list[Any], forecast: Array, n: int, delay: dict[str, int | None]) -> Looked:
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
        found["waiting"] = _waiting(stream, sums[:REFERENCE], recent)
    if delay["forecast"] is None:
        p = evidence_of(*_values(forecast[:, None], n)).p_values(upward=True)[0]
        found["forecast"] = bool(p[0] <= ALPHA / 2), None
    if delay["chart"] is None:
        found["chart"] = above_chart(costs(stream.loss_sums)[:, 0], n), None
    if delay["psi"] is None or delay["ks"] is None:
        for name, columns in zip(("psi", "ks"), by_column(*_rows(stream, n), LOOKS), strict=True):
            found[name] = bool(columns), sorted(columns)
    return found


def _waiting(stream: Stream, reference: list[Any], recent: list[Any]) -> tuple[bool, list[int]]:
    """Return whether days tell anything without responses, and the features whose values may be broken, or shifted."""
    from debias.results.windows import WindowOfPeriods

    grouping = stream.grouping
    windows = [WindowOfPeriods("", "", len(each), len(each) * N_ROWS) for each in (reference, recent)]
    times = [""] * len(recent)
    found = compare_waiting(reference, recent, grouping, ALPHA / LOOKS, (windows[0], windows[1]), times)
    broken: list[int] = []
    if found.no_broken_because == NOT_LOOKED_FOR:
        kept = [KeptWindow.of([each.kept for each in own], groups_of(len(own))) for own in (reference, recent)]
        names = with_broken(found, stream.empty.ensemble, grouping, kept[0], kept[1]).broken
        broken = [grouping.names.index(name) for name in names]
    shifted = np.flatnonzero(found.statistics["shifted"]).tolist()
    moved = found.prediction is not None and found.prediction.changed
    return bool(broken or shifted or moved or found.changed.size), broken or shifted


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


def _losses(stream: Stream, window: slice) -> PeriodLosses:
    sums = stream.loss_sums[window]
    return PeriodLosses(sums, groups_of(len(sums)), len(sums), ("loss",), ())


def _rows(stream: Stream, n: int) -> tuple[Array, Array]:
    n_features = stream.X.shape[-1]
    return stream.X[:REFERENCE].reshape(-1, n_features), stream.X[n - RECENT : n].reshape(-1, n_features)


def _trial(kind: str, name: str, repeat: int) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DebiasWarning)
        result = level_of(name, repeat) if kind == "calm" else found_in(name, repeat)
    return {"design": f"{kind} / {name}", "repeat": repeat, "scores": result}


def _tasks(repeats: int) -> Iterator[tuple[Any, ...]]:
    for repeat in range(repeats):
        for name, calm in CALM.items():
            if repeat < max(1, int(repeats * calm.share)):
                yield f"calm / {name}", repeat, _trial, "calm", name, repeat
        for name in FAULTS if repeat < max(1, repeats // 25) else ():
            yield f"fault / {name}", repeat, _trial, "fault", name, repeat


def _parts(trials: list[dict[str, Any]], repeats: int) -> list[str]:
    return []


def _lines(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return []


run = Measurement("alarms", 300, _tasks, _parts, _lines).run
