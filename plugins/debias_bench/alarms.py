"""How often a history raises an alarm though nothing is wrong, over 1,000 days, and how soon after a fault.

Beside it stand what is usually watched: the loss alone, the population stability index and the Kolmogorov-Smirnov test
of single columns, and a forecast of the loss from predictions.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from debias import DebiasWarning
from debias_bench.alarm_streams import CHART_LIMIT, N_ROWS, RECENT, REFERENCE
from debias_bench.alarm_trials import (
    BATCH,
    BY_COLUMN,
    CALM,
    DAILY,
    END,
    FAULT,
    FAULTS,
    LATER,
    LOOKS,
    N_DAYS,
    RECORDED,
    WATCHED,
    WEEKS,
    found_in,
    level_of,
)
from debias_bench.loss_changes import ALPHA, LARGE_INDEX, N_TRAINING_ROWS
from debias_bench.markdown import markdown_table
from debias_bench.measurement import Estimate, Measurement, rate, with_error
from debias_bench.runner import machine_line

if TYPE_CHECKING:
    from collections.abc import Iterator

ANY_LOOK = {
    "loss": "the loss rose or fell",
    "cost": "a feature costs more",
    "residual": "the mean residual",
    "response": "the mean response",
    "prediction": "the mean prediction",
}
AS_PLANNED = {**ANY_LOOK, "effect": "the response to a feature", "shift": "rows shifted at the splits of a feature"}
WAITING = {
    "broken": "values of a column changed or are broken",
    "expected": "a feature is expected to save more or less",
    "prediction": "the mean prediction",
    "shift": "rows shifted at the splits of a feature",
}
OTHERS = {"chart": "control chart of the loss", "psi": "PSI", "ks": "KS"}
OF_WATCHED = {
    "any, loss": "the loss, any look",
    "any, cost": "features, any look",
    "planned": f"the check, {LOOKS} looks",
    "waiting": "before the responses",
    "forecast": "forecast of the loss",
    **OTHERS,
}
NAMING = ("any, cost", "planned", "waiting", "psi", "ks")
"""Those that name features."""


EFFECT = {"to half": "the effect of x0 falls to half", "to zero": "the effect of x0 falls to zero"}
"""Names of faults that say too little without the heading of their table."""


def _trial(kind: str, name: str, repeat: int) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DebiasWarning)
        result = level_of(name, repeat) if kind == "calm" else found_in(name, repeat)
    return {"design": f"{kind} / {name}", "repeat": repeat, "scores": result}


def _tasks(repeats: int) -> Iterator[tuple[Any, ...]]:
    for repeat in range(repeats):  # what matters most, if the run is stopped
        yield "calm / nothing", repeat, _trial, "calm", "nothing", repeat
    for repeat in range(repeats):
        for name in FAULTS if 2 * repeat < repeats else ():
            yield f"fault / {name}", repeat, _trial, "fault", name, repeat
        for name, calm in CALM.items():
            if name != "nothing" and repeat < max(1, int(repeats * calm.share)):
                yield f"calm / {name}", repeat, _trial, "calm", name, repeat


def parts(trials: list[dict[str, Any]], repeats: int) -> list[str]:
    """Return the paragraphs of the page."""
    return [
        "# Alarms over 1,000 days",
        f"`debias bench alarms`: a model of 8 features, 4 of which are correlated ({N_TRAINING_ROWS:,} training rows; "
        f"as in [the study of causes](loss-changes.md)), gets {N_ROWS} rows a day. The first {REFERENCE} days are the "
        f"reference. Every alarm has an error rate of {ALPHA:.0%} over all looks together.",
        f'*Any look*: `looks="any"`; looks on each of the first {DAILY} days, and on every {LATER}th day after that. '
        "Where few days of the reference lie far from the others, the ranks of days are compared. "
        f"*Planned*: the full comparison of the last {RECENT} days, a look each week, {len(WEEKS)} planned looks. "
        "*Before the responses*: the same looks at days whose responses are not known yet. *Control chart*: the mean "
        f"loss of {RECENT} days is more than {CHART_LIMIT:g} standard errors above the reference, a look each week. "
        f"*PSI*: the population stability index of any column is above {LARGE_INDEX:g}; *KS*: any column differs "
        "by the test of Kolmogorov and Smirnov (Bonferroni over columns and looks), each week.",
        f"*Written by the runner; {machine_line()}.*",
        "## Nothing is broken",
        f"Shares of streams with an alarm on any of {N_DAYS:,} days. The streams of a model are drawn from {RECORDED} "
        f"recorded days for each position, {BATCH} streams a model, so that any two share a sixth of their days; "
        f"{BY_COLUMN} of them has PSI and KS, and {CALM['month'].checked} have planned looks and "
        "looks before the responses (all of them where nothing changes). In () the standard error, from the "
        f"differences between models. {_limits(trials)} The response depends on the columns as ever. "
        "Alarms that may tell the truth are in *italics*: with a season of a year, and with a drift, the mean response "
        "and the mean prediction do change, and so do the loss, its parts and the mean residual, because the model "
        "errs more, and is more biased, on some rows than on others; the rows do shift, the values of x1 (and x0) do "
        "change, and so does what features are expected to save. The response to a feature never changes. Of a season "
        "of 30 days, a single week differs from the reference, which has two whole seasons. Weekends change nothing in "
        "the columns, nor in what is predicted.",
        _calm_table(trials),
        "## A fault on the 91st day",
        f"Streams of {END} days, a model each: the share with an alarm within the {END - FAULT} days of the fault, and "
        "the median number of days until it (0: on the first day; no median if fewer than half were found). Looks are "
        f"daily in the first 15 days. *Check*: the full comparison of the last {RECENT} days, as {LOOKS} planned "
        "looks: a feature costs more, its response changed or its rows shifted, the loss rose, or the mean residual "
        "moved. *Before the responses*: the same days without them: values of a column are broken, rows shifted, or "
        "the mean prediction or what features are expected to save changed. *Forecast*: at any look, the mean loss of "
        "the rows of the reference with similar predictions (tenths) rose.",
        _fault_table(trials),
        "## Which feature is named",
        "Of the alarms above that name features, the share whose first feature is one that the fault is about.",
        _named_table(trials),
        "## What a forecast of the loss is worth",
        "How much the loss rose with the fault, and how much its forecast from the predictions alone did; mean and "
        "standard error over streams.",
        _forecast_table(trials),
        "## The parts add up",
        _inexact(trials),
        "[The daily check](days.md) has the response to single features, shifts, new categories and repeated rows on "
        "120 streams of 120 days; [windows](monitor.md) has their error rates in one look; and "
        "[causes](loss-changes.md) has which features are called causes.",
    ]


def _scores(trials: list[dict[str, Any]], kind: str, name: str) -> list[dict[str, Any]]:
    return [trial["scores"] for trial in trials if trial["design"] == f"{kind} / {name}"]


OF_ROWS = ("loss", "cost", "residual", "response", "prediction")
OF_COLUMNS = ("planned, shift", *(f"waiting, {name}" for name in WAITING))
TRUE_ALARMS = {
    "month": (*(f"planned, {name}" for name in OF_ROWS if name != "residual"), *OF_COLUMNS, "psi", "ks"),
    "year": (*(f"{looks}, {name}" for looks in ("any", "planned") for name in OF_ROWS), *OF_COLUMNS, *OTHERS),
    "drift": (*(f"{looks}, {name}" for looks in ("any", "planned") for name in OF_ROWS), *OF_COLUMNS, *OTHERS),
}
"""Alarms that tell the truth in streams in which nothing is broken."""
OF_CALM = {
    **{f"any, {name}": f"any look: {what}" for name, what in ANY_LOOK.items()},
    **{f"planned, {name}": f"planned: {what}" for name, what in AS_PLANNED.items()},
    **{f"waiting, {name}": f"before the responses: {what}" for name, what in WAITING.items()},
    **OTHERS,
}


def _share(found: list[dict[str, Any]], alarm: str) -> Estimate:
    """Return the share of streams with an alarm, and its standard error from the differences between models."""
    return rate(np.array([np.mean([day is not None for day in each["first"][alarm]]) for each in found]))


def _calm_table(trials: list[dict[str, Any]]) -> str:
    by_kind = {kind: found for kind in CALM if (found := _scores(trials, "calm", kind))}
    lines = []
    for alarm, words in OF_CALM.items():
        cells = []
        for kind, found in by_kind.items():
            cell = with_error(_share(found, alarm))
            is_true = alarm in TRUE_ALARMS.get(kind, ())
            cells.append(f"*{cell}*" if is_true else cell)
        lines.append([words, *cells])
    return markdown_table(["alarm", *(CALM[kind].words for kind in by_kind)], lines)


def _limits(trials: list[dict[str, Any]]) -> str:
    told = []
    for kind, calm in CALM.items():
        n = BATCH * len(_scores(trials, "calm", kind))
        if n:
            told.append(f"{n:,} streams ({calm.words}: at most {ALPHA + 2 * np.sqrt(ALPHA * (1 - ALPHA) / n):.3f})")
    return f"{'; '.join(told)}, if the error rate holds, by two standard errors of independent streams."


def _fault_table(trials: list[dict[str, Any]]) -> str:
    lines = []
    for _, found, words in _faults(trials):
        cells = []
        for way in WATCHED:
            delays = [each["delay"][way] for each in found]
            share = np.mean([delay is not None for delay in delays])
            median = np.median([np.inf if delay is None else delay for delay in delays])
            cells.append(f"{share:.2f}" + ("" if np.isinf(median) else f", {median:.0f} d"))
        lines.append([words, str(len(found)), *cells])
    early = [each["early"] for name, found, _ in _faults(trials) for each in found]
    lines.append(
        ["before the fault (share)", str(len(early)), *(f"{np.mean([e[w] for e in early]):.2f}" for w in WATCHED)]
    )
    return markdown_table(["fault", "streams", *OF_WATCHED.values()], lines)


def _named_table(trials: list[dict[str, Any]]) -> str:
    lines = []
    for _, found, words in _faults(trials):
        cells = []
        for way in NAMING:
            named = [each["named"][way] for each in found if each["named"].get(way) is not None]
            cells.append(f"{np.mean(named):.2f} of {len(named)}" if named else "-")
        lines.append([words, *cells])
    return markdown_table(["fault", *(OF_WATCHED[way] for way in NAMING)], lines)


def _forecast_table(trials: list[dict[str, Any]]) -> str:
    lines = []
    for _, found, words in _faults(trials):
        cells = [with_error(rate(np.array([each[what] for each in found]))) for what in ("loss", "forecast")]
        lines.append([words, *cells])
    return markdown_table(["fault", "the loss rose by", "its forecast by"], lines)


def _faults(trials: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]], str]]:
    return [(name, found, EFFECT.get(name, name)) for name in FAULTS if (found := _scores(trials, "fault", name))]


def _inexact(trials: list[dict[str, Any]]) -> str:
    inexact = np.array([each["inexact"] for kind in CALM for each in _scores(trials, "calm", kind)])
    n_rows = len(inexact) * RECORDED * (REFERENCE + N_DAYS) * N_ROWS
    largest = inexact.max(axis=0)
    return (
        f"The loss of a row is the base less what features save: the largest difference of {n_rows:,} rows is "
        f"{largest[0]:.1g}. The change of the mean loss is that of the base and of all costs: the largest "
        f"difference of {len(inexact) * BATCH:,} streams is {largest[1]:.1g}."
    )


def lines(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the lines of the CSV file."""
    rows = []
    for kind, calm in CALM.items():
        found = _scores(trials, "calm", kind)
        for alarm in OF_CALM if found else ():
            share, error = _share(found, alarm)
            n = sum(len(each["first"][alarm]) for each in found)
            row = {"streams": n, "setting": calm.words, "quantity": alarm, "value": share, "standard_error": error}
            rows.append(row)
    for _, found, words in _faults(trials):
        for way in WATCHED:
            delays = [each["delay"][way] for each in found]
            share, error = rate(np.array([delay is not None for delay in delays], dtype=float))
            row = {"streams": len(found), "setting": words, "quantity": f"found: {way}"}
            rows.append(row | {"value": share, "standard_error": error})
            known = [delay for delay in delays if delay is not None]
            row["quantity"] = f"median delay of those found: {way}"
            rows.append(row | {"value": float(np.median(known)) if known else np.nan, "standard_error": np.nan})
    return rows


run = Measurement("alarms", 12, _tasks, parts, lines).run
