"""The daily check of a history by the recipe, on data that do not change and on faults, by simulation with fixed seeds.

Each trial is a stream of days of one model. It is checked every day with the policy of docs/recipes.md, beside the two
checks by column that are in common use.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from debias import DebiasWarning
from debias.data.groups import Grouping
from debias.monitor.comparing import Comparison
from debias.monitor.store import Period
from debias.monitor.times import Moment
from debias.rows.period_sums import PeriodSums
from debias.rows.preparation import batch_rows
from debias.significance.change import LEAST
from debias_bench.markdown import markdown_table
from debias_bench.measurement import Measurement, rate, with_error
from debias_bench.runner import machine_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

POLICY: dict[str, Any] = {
    "max_unseen": 0.05,
    "max_repeated": 0.05,
    "must_not_be_biased": True,
    "max_shift": 0.5,
    "must_not_fade": "all",
}
RECENT, LOOKS, ALPHA = "7d", 365, 0.05
"""The policy and the options of the job in docs/recipes.md."""
MODELS = ("LightGBM", "XGBoost, classes", "forest")
N_ROWS = 100
"""Rows of a day."""
FIRST_CHECK, N_CHECKS = 60, 120
"""Days before the first check, and number of checks, if nothing changes."""
BEGIN, END = 40, 120
"""The day on which a fault begins, and the number of days."""
FAULTS = {
    "permuted": ("a sensor is permuted", ("sensor",)),
    "reversed": ("a scale is reversed", ("speed",)),
    "cents": ("EUR become cents", ("price",)),
    "stuck": ("a sensor is stuck", ("sensor",)),
    "category": ("30 % of the rows have a new category", ("shop",)),
    "repeated": ("a third of the rows come twice", ()),
    "season": ("a season: two means rise by 1.5 and 0.9 in 30 days", ("sensor", "twin")),
}
"""What each fault is, and the features it is about."""
SHOPS = ("north", "east", "south", "west")
NAMES = ("sensor", "speed", "twin", "price", "shop", "weekday", "weather", "luck")
PSI_LIMIT, BINS = 0.2, 10
"""A population stability index above .2 is usually called a shift; it is made of tenths of the reference."""
WITHIN = 5
"""Days after the fault within which it should be found."""


class Day(NamedTuple):
    """The rows of a day: as the model sees them, and their sums."""

    X: Array
    sums: PeriodSums


@dataclass
class Stream:
    """The days of one model so far, as :class:`debias.monitor.comparing.Periods`."""

    grouping: Grouping
    facts: dict[str, Any]
    periods: list[Period]
    days: list[Day]
    notes: dict[tuple[int, int], str]

    def sums(self, position: int) -> PeriodSums:
        """Return the sums of a day."""
        return self.days[position].sums

    def n_rows(self, position: int) -> int:
        """Return the number of rows of a day."""
        return self.days[position].sums.n_rows

    def append(self, day: Day) -> None:
        """Add a day."""
        number = len(self.days)
        moment = Moment.of(np.datetime64("2026-01-01") + number)
        assert moment.key is not None
        self.days.append(day)
        self.periods.append(Period(number, 1, moment.kind, moment.key, moment.text))


def _tasks(repeats: int) -> Iterator[tuple[Any, ...]]:
    for repeat in range(repeats):
        for fault in (None, *FAULTS):
            for model in MODELS:
                if repeat < _repeats_of(fault, repeats) and (fault != "category" or model == "LightGBM"):
                    yield _key(fault, model), repeat, _trial, fault, model, repeat


def _parts(trials: list[dict[str, Any]], repeats: int) -> list[str]:
    return [
        "# The daily check of a history",
        f"`debias bench days`: streams of {N_ROWS} rows a day are checked every day with the policy and options of "
        f"[the recipe](../recipes.md#a-history-in-a-scheduled-job) (`--recent {RECENT} --looks {LOOKS}`, the "
        "reference by default). The response depends on a sensor, a column that is correlated with it (twin), a "
        "speed, a price, a shop, and on the weekday and the weather, which are the same or nearly the same for all "
        "rows of a day; luck is noise. Days have effects of their own.",
        f"*PSI*: the population stability index of any column is above {PSI_LIMIT} (tenths of the reference). "
        "*KS*: the test of Kolmogorov and Smirnov of any column (a chi-squared test of the shop) has p below "
        f"{ALPHA} / {len(NAMES)} / {LOOKS}. Both compare the same days as the check, each row by itself, so that "
        "they take the weather of a day for that of 100 rows. Standard errors of shares, over streams, in ().",
        f"*Written by the runner; {machine_line()}.*",
        "## Nothing changes",
        f"Shares of days, of {N_CHECKS} days of each stream after its first {FIRST_CHECK}: the check failed (red), "
        "or a rule was not judged and none failed.",
        _stationary(trials),
        f"## A fault on day {BEGIN + 1}, for good",
        f"*delay*: days from the fault until the first check from which on all are red, up to day {END}: 0 is the "
        "day of the fault; the largest of the streams. *found*: share of the checks that are red, from the "
        f"{WITHIN}th day after the fault to the end. *healthy first*: share of the red checks since the fault "
        "whose first feature is one that the fault is not about. A season begins slowly: its rows are others, and "
        "nothing is broken. The forest gets shops as numbers, so no category is new to it; and XGBoost 3.2 "
        "gives rows with a new category to another one, which is an error when the day is added.",
        _faults(trials),
    ]


def outcome(fault: str | None, model: str, number: int) -> dict[str, list[Any]]:
    """Check a stream every day.

    Parameters
    ----------
    fault : str or None
        One of FAULTS.
    model : str
        One of MODELS.
    number : int
        Number of the stream.

    Returns
    -------
    dict of str to list
        For each check: ``gate`` ("passed", "failed" or "not judged"), ``gate first`` (the first feature that a failed
        rule names, or None), ``psi`` and ``ks`` (whether they are red), ``psi first`` and ``ks first``.
    """
    stream, empty = _stream(model, number)
    comparison = Comparison(stream, None, {"alpha": ALPHA, "least": LEAST, "looks": LOOKS})
    rng = np.random.default_rng([number, MODELS.index(model), 2])
    results: dict[str, list[Any]] = {
        name: [] for name in ("gate", "gate first", "psi", "psi first", "ks", "ks first", "rules")
    }
    first, end = (FIRST_CHECK, FIRST_CHECK + N_CHECKS) if fault is None else (BEGIN, END)
    for number_of_day in range(end):
        X, y = _day(rng, number_of_day, model, None if number_of_day < BEGIN else fault)
        stream.append(_summed(empty, X, y, model))
        if number_of_day < first:
            continue
        changes = comparison.of(RECENT)
        gate = changes.check(POLICY)
        failed = " ".join(result.reason for result in gate.failures)
        results["gate"].append(gate.status)
        results["gate first"].append(next(iter(re.findall(rf"\b({'|'.join(NAMES)})\b", failed)), None))
        results["rules"].append([result.rule for result in gate.failures or gate.not_judged])
        windows = [
            np.concatenate([day.X for day in days])
            for days in (stream.days[: changes.reference.n_periods], stream.days[-changes.recent.n_periods :])
        ]
        for name, (is_red, named) in _by_column(*windows).items():
            results[name].append(is_red)
            results[f"{name} first"].append(named)
    return results


def _stream(model: str, number: int) -> tuple[Stream, PeriodSums]:
    rng = np.random.default_rng([number, MODELS.index(model), 1])
    rows = [_day(rng, day, model, None, 40) for day in range(70)]
    import pandas as pd

    X, y = pd.concat([X for X, _ in rows], ignore_index=True), np.concatenate([y for _, y in rows])
    empty = PeriodSums(_fitted(model, X, y, number))
    facts = {"series": "model 1", "model": model, "n_other_series": 0}
    return Stream(Grouping.of(None, empty.ensemble.feature_names), facts, [], [], {}), empty


def _fitted(model: str, X: pd.DataFrame, y: Array, seed: int) -> Any:
    if model == "forest":
        from sklearn.ensemble import RandomForestRegressor

        settings = {"min_samples_leaf": 5, "max_features": 0.5, "max_leaf_nodes": 32, "random_state": seed}
        return RandomForestRegressor(12, **settings).fit(_as_numbers(X), y)
    settings = {"n_estimators": 40, "max_depth": 3, "learning_rate": 0.2, "n_jobs": 1, "random_state": seed}
    if model == "LightGBM":
        from lightgbm import LGBMRegressor

        return LGBMRegressor(num_leaves=8, verbose=-1, **settings).fit(X, y)
    from xgboost import XGBClassifier

    return XGBClassifier(enable_categorical=True, **settings).fit(X, y)


def _as_numbers(X: pd.DataFrame) -> pd.DataFrame:
    """Return the rows for models that take numbers only: a new shop has a number that was not there before."""
    return X.assign(shop=X["shop"].cat.codes.astype(float))


def _summed(empty: PeriodSums, X: pd.DataFrame, y: Array, model: str) -> Day:
    numbers, sums = _as_numbers(X), empty.empty()
    rows = batch_rows(
        empty.model, empty.ensemble, numbers if model == "forest" else X, y, None, empty.notes, 1, verify=False
    )
    sums.add_rows(rows)
    return Day(numbers.to_numpy(), sums)


def _day(
    rng: np.random.Generator, number: int, model: str, fault: str | None, n_rows: int = N_ROWS
) -> tuple[pd.DataFrame, Array]:
    """Return the rows of a day and their responses. A fault changes the columns, not what the response depends on."""
    import pandas as pd

    sensor = 0.3 * rng.normal() + rng.normal(size=n_rows)
    twin = 0.6 * sensor + 0.8 * rng.normal(size=n_rows)
    if fault == "season":
        risen = 1.5 * min((number - BEGIN + 1) / 30, 1.0)
        sensor, twin = sensor + risen, twin + 0.6 * risen
    speed, price = rng.normal(size=n_rows), np.exp(3 + 0.5 * rng.normal(size=n_rows))
    shop, weather = rng.integers(0, len(SHOPS), n_rows), rng.normal() + 0.1 * rng.normal(size=n_rows)
    luck, weekday = rng.normal(size=n_rows), np.full(n_rows, number % 7.0)
    mean = sensor + 0.7 * speed + 0.5 * twin + 1.2 * (np.log(price) - 3) + 0.4 * (shop == 1) - 0.4 * (shop == 2)
    mean = mean + 0.5 * (weekday >= 5) + 0.4 * weather + 0.1 * rng.normal()
    if model == "XGBoost, classes":
        y = (rng.random(n_rows) < 1 / (1 + np.exp(-1.5 * mean))).astype(np.float64)
    else:
        y = mean + rng.normal(size=n_rows)
    if fault == "permuted":
        sensor = rng.permutation(sensor)
    elif fault == "stuck":
        sensor = np.full(n_rows, 0.4)
    elif fault == "reversed":
        speed = -speed
    elif fault == "cents":
        price = 100 * price
    elif fault == "category":
        shop = np.where(rng.random(n_rows) < 0.3, len(SHOPS), shop)
    kinds = [*SHOPS, "online"] if fault == "category" else list(SHOPS)
    shops = pd.Categorical(np.array(kinds)[shop], categories=kinds)
    columns = (sensor, speed, twin, price, shops, weekday, weather, luck)
    X = pd.DataFrame(dict(zip(NAMES, columns, strict=True)))
    if fault == "repeated":
        twice = np.append(np.arange(n_rows), rng.choice(n_rows, n_rows // 3, replace=False))
        return X.iloc[twice].reset_index(drop=True), y[twice]
    return X, y


def _by_column(before: Array, after: Array) -> dict[str, tuple[bool, str | None]]:
    """Return whether the two usual checks are red, and the column that differs most."""
    from scipy.stats import chi2_contingency, ks_2samp

    psi, p_value = np.zeros(len(NAMES)), np.ones(len(NAMES))
    for k, name in enumerate(NAMES):
        values = [before[:, k], after[:, k]]
        if name == "shop":
            counts = np.array([np.bincount(each.astype(int), minlength=len(SHOPS) + 1) for each in values])
            p_value[k] = chi2_contingency(counts[:, counts.sum(axis=0) > 0]).pvalue
        else:
            edges = np.unique(np.quantile(values[0], np.linspace(0, 1, BINS + 1)[1:-1]))
            counts = np.array([np.bincount(np.searchsorted(edges, each), minlength=edges.size + 1) for each in values])
            p_value[k] = ks_2samp(*values, method="asymp").pvalue
        shares = np.maximum(counts / counts.sum(axis=1, keepdims=True), 1e-4)
        psi[k] = ((shares[1] - shares[0]) * np.log(shares[1] / shares[0])).sum()
    reds = psi > PSI_LIMIT, p_value <= ALPHA / len(NAMES) / LOOKS
    order = psi, -p_value
    return {
        name: (bool(red.any()), NAMES[int(np.argmax(most))] if red.any() else None)
        for name, red, most in zip(("psi", "ks"), reds, order, strict=True)
    }


def _trial(fault: str | None, model: str, repeat: int) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DebiasWarning)
        result = outcome(fault, model, repeat)
    return {"design": _key(fault, model), "repeat": repeat, "scores": result}


def _key(fault: str | None, model: str) -> str:
    return f"{fault or 'nothing'} / {model}"


def _repeats_of(fault: str | None, repeats: int) -> int:
    return repeats if fault is None else max(1, repeats // 8)


def _of(trials: list[dict[str, Any]], fault: str | None, model: str) -> list[dict[str, list[Any]]]:
    return [trial["scores"] for trial in trials if trial["design"] == _key(fault, model)]


def _stationary(trials: list[dict[str, Any]]) -> str:
    lines: list[list[str]] = []
    together: list[dict[str, list[Any]]] = []
    for model in (*MODELS, "all"):
        found = together if model == "all" else _of(trials, None, model)
        together = [*together, *found] if model != "all" else together
        if not found:
            continue  # a run that was stopped
        shares = [
            [float(np.mean([each == status for each in stream["gate"]])) for stream in found]
            for status in ("failed", "not judged", "passed")
        ]
        shares += [[float(np.mean(stream[name])) for stream in found] for name in ("psi", "ks")]
        lines.append([model, str(len(found)), *(with_error(rate(np.array(of_streams))) for of_streams in shares)])
    return markdown_table(["model", "streams", "red", "not judged", "green", "PSI red", "KS red"], lines)


def _faults(trials: list[dict[str, Any]]) -> str:
    columns = [f"{of}: {what}" for of in ("check", "PSI", "KS") for what in ("delay", "found", "healthy first")]
    lines = []
    for fault, (words, _) in FAULTS.items():
        for model in MODELS:
            found = _of(trials, fault, model)
            if found:
                cells = [cell for name in ("gate", "psi", "ks") for cell in _of_fault(found, fault, name)]
                lines.append([words, model, str(len(found)), *cells])
    return markdown_table(["fault", "model", "streams", *columns], lines, texts=(0, 1))


def _of_fault(streams: list[dict[str, list[Any]]], fault: str, name: str) -> list[str]:
    """Return the largest delay, the share of checks that found the fault, and that of those that name another first."""
    reds = [np.array([each in ("failed", True) for each in stream[name]]) for stream in streams]
    delays = [red.size - int(np.argmin(red[::-1])) if not red.all() else 0 for red in reds]
    delay = "not found" if any(not red[-1] for red in reds) else str(max(delays))
    named = [first for stream, red in zip(streams, reds, strict=True) for first, is_red in
             zip(stream[f"{name} first"], red, strict=True) if is_red]  # fmt: skip
    wrong = [first is not None and first not in FAULTS[fault][1] for first in named]
    return [
        delay,
        f"{np.mean([red[WITHIN:].mean() for red in reds]):.2f}",
        f"{np.mean(wrong):.2f}" if wrong else "",
    ]


def _lines(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    lines = []
    for fault in (None, *FAULTS):
        for model in MODELS:
            for number, stream in enumerate(_of(trials, fault, model)):
                row = {"fault": fault or "nothing", "model": model, "stream": number, "checks": len(stream["gate"])}
                row |= {f"gate {status}": stream["gate"].count(status) for status in ("failed", "not judged", "passed")}
                lines.append(row | {f"{name} red": sum(stream[name]) for name in ("psi", "ks")})
    return lines


run = Measurement("days", 8, _tasks, _parts, _lines).run  # streams on which nothing changes; an eighth of each fault
