"""What is said of many models as gauges, in the text exposition format 0.0.4 of Prometheus.

Each gauge has the labels `history` and `series`. A number that is not known has no sample.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from math import isnan
from typing import TYPE_CHECKING

from debias.errors import DebiasError
from debias.results.vocabulary import FleetVerdict
from debias.text import escaped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from debias.results.fleet import Fleet, FleetLine

HELP = {
    "debias_model_info": "1; the kind of the model and the name of its loss are labels.",
    "debias_verdict": "1 for the verdict on the model, 0 for the others: needs a look, not judged, nothing found.",
    "debias_last_period_timestamp_seconds": "The last period, also if it waits for responses; without a zone, in UTC.",
    "debias_periods": "Number of periods of the model with responses.",
    "debias_periods_waiting": "Number of periods with rows that wait for their responses and are not judged.",
    "debias_periods_missing": "Periods that did not come since the recent window began, at their usual distance.",
    "debias_loss": "Mean loss of the model in the recent window.",
    "debias_loss_reference": "Mean loss of the model in the reference.",
    "debias_loss_change": "Difference of the two.",
    "debias_loss_change_error": "Standard error of the difference.",
    "debias_loss_rose": "1 if the loss rose by more than chance, 0 if that is not shown; missing if it was not tested.",
    "debias_feature_saved_loss": "Mean loss that the model saves by the feature in the recent window.",
    "debias_feature_cost": "How much more loss the feature costs than in the reference.",
    "debias_feature_costs_more": "1 if that is above 0 by more than chance, 0 if that is not shown.",
}
"""The gauges, in their order, and what each is."""


def exposition(fleet: Fleet) -> str:
    """Return the gauges of all models as text.

    Raises
    ------
    DebiasError
        Two models have the same labels, which Prometheus refuses.
    """
    samples: dict[str, dict[str, float]] = defaultdict(dict)
    files = {line.history for line in fleet.lines}
    # Escaped, a character that is not shown looks like a name with a backslash.
    alike = len({escaped(file) for file in files}) < len(files)
    for line in fleet.lines:
        for name, more, value in _samples(line):
            history = line.history.replace("\\", r"\\") if alike else line.history
            labels = {"history": history, "series": line.series or "", **more}
            text = ",".join(f'{label}="{_label(each)}"' for label, each in labels.items())
            if text in samples[name]:
                raise DebiasError(f"there would be two samples of {name}{{{text}}}: rename a feature or a file")
            if not isnan(value):
                samples[name][text] = value
    lines = []
    for name, about in HELP.items():
        if samples[name]:
            lines += [f"# HELP {name} {about}", f"# TYPE {name} gauge"]
            lines += [f"{name}{{{labels}}} {float(value)!r}" for labels, value in samples[name].items()]
    return "".join(f"{line}\n" for line in lines)


def _samples(line: FleetLine) -> Iterator[tuple[str, dict[str, str], float]]:
    """Yield the gauges of a model: name, further labels, value."""
    for verdict in FleetVerdict:
        yield "debias_verdict", {"verdict": verdict.value}, line.verdict is verdict
    if line.series is None:
        return
    yield "debias_model_info", {"model": line.model or "", "metric": line.metric or ""}, 1
    yield "debias_periods", {}, line.n_periods
    yield "debias_periods_waiting", {}, line.waiting
    if line.last_at is not None:
        yield "debias_last_period_timestamp_seconds", {}, _seconds(line.last_at)
    if line.missing is not None:
        yield "debias_periods_missing", {}, line.missing
    yield "debias_loss", {}, line.loss_recent
    yield "debias_loss_reference", {}, line.loss_before
    yield "debias_loss_change", {}, line.loss_change
    yield "debias_loss_change_error", {}, line.loss_error
    if line.trend is not None:
        yield "debias_loss_rose", {}, line.trend == "rose"
    for each in line.features:
        feature = {"feature": each.feature}
        yield "debias_feature_saved_loss", feature, each.saved_recent
        yield "debias_feature_cost", feature, each.cost
        if each.costs_more is not None:
            yield "debias_feature_costs_more", feature, each.costs_more


def _seconds(at: datetime) -> float:
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()


def _label(text: str) -> str:
    """Return the value of a label; invisible characters are escaped as in all that debias shows."""
    return escaped(text).replace("\\", r"\\").replace('"', r"\"")
