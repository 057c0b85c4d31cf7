"""The gauges of a fleet follow the grammar of the text exposition format 0.0.4, and have the numbers of its lines."""

import math
import re
from datetime import UTC, datetime

import pytest

from debias.errors import DebiasError
from debias.results.fleet import FeatureCost, Fleet, FleetLine
from debias.results.prometheus import HELP
from debias.results.vocabulary import FleetVerdict

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"'
SAMPLE = re.compile(rf"({NAME})\{{({LABEL}(?:,{LABEL})*)\}} (\S+)")
ODD = 'a "b" \\ {x="1"} \n # HELP 年齢'


def parsed(text):
    """Return the samples of each gauge; fail on anything that the format does not have, in the order that it wants."""
    assert text.endswith("\n")
    assert "\r" not in text
    found, helped = {}, []
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("# HELP "):
            name, about = re.fullmatch(rf"# HELP ({NAME}) (.*)", line).groups()
            assert name not in helped, "all lines of a gauge are together"
            assert re.fullmatch(r"(?:[^\\]|\\\\|\\n)*", about)
            helped.append(name)
        elif line.startswith("#"):
            assert re.fullmatch(rf"# TYPE ({NAME}) gauge", line)[1] == helped[-1]
            found[helped[-1]] = {}
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample, line
            assert sample[1] == helped[-1]
            labels = tuple(
                (name, re.sub(r"\\(.)", lambda each: {"n": "\n"}.get(each[1], each[1]), value))
                for name, value in re.findall(LABEL, sample[2])
            )
            assert len(dict(labels)) == len(labels)
            assert labels not in found[sample[1]], "a sample is there once"
            found[sample[1]][labels] = float(sample[sample.re.groups])
    assert all(found[name] for name in helped)
    return found


def line(history="a.history", **more):
    fields = {
        "verdict": FleetVerdict.LOOK,
        "series": "model 1",
        "model": "forest",
        "last_period": "2026-11-23",
        "last_at": datetime(2026, 11, 23),
        "n_periods": 90,
        "waiting": 5,
        "missing": 2,
        "metric": "log loss",
        "loss_before": 0.4,
        "loss_recent": 0.5,
        "loss_change": 0.1,
        "loss_error": 1e-20,
        "trend": "rose",
        "features": (FeatureCost("age", 0.2, 0.1, 0.1, 0.01, True), FeatureCost(ODD, 0.0, -0.0, 0.0, math.nan, None)),
    }
    return FleetLine(history=history, **fields | more)


def fleet(*lines):
    return Fleet(lines=lines, alpha=0.05, looks=1, recent="30d", reference="first 30d")


def test_every_gauge_has_the_numbers_of_the_lines():
    unread = FleetLine.unread(ODD, "damaged")
    dated = line("b.history", last_at=datetime(2026, 11, 23, tzinfo=UTC), trend="may be chance")
    found = parsed(fleet(line(), dated, unread).to_prometheus())
    assert list(found) == list(HELP)
    a, b = (("history", "a.history"), ("series", "model 1")), (("history", "b.history"), ("series", "model 1"))
    assert found["debias_loss"] == {a: 0.5, b: 0.5}
    assert found["debias_loss_change_error"][a] == 1e-20
    assert found["debias_loss_rose"] == {a: 1, b: 0}
    assert found["debias_periods_missing"][a] == 2
    assert found["debias_periods_waiting"][a] == 5
    assert found["debias_last_period_timestamp_seconds"] == {a: 1795392000.0, b: 1795392000.0}
    age, odd = (*a, ("feature", "age")), (*a, ("feature", ODD.replace("\n", "\\n")))  # shown as debias shows it
    assert found["debias_feature_cost"][age] == 0.1
    assert found["debias_feature_saved_loss"][odd] == 0
    assert found["debias_feature_costs_more"][age] == 1
    assert odd not in found["debias_feature_costs_more"]
    told = {dict(labels)["verdict"]: value for labels, value in found["debias_verdict"].items() if labels[:2] == a}
    assert told == {"needs a look": 1, "not judged": 0, "nothing found": 0}
    of_unread = [value for labels, value in found["debias_verdict"].items() if labels[1] == ("series", "")]
    assert of_unread == [0, 1, 0]


def test_numbers_that_are_not_known_have_no_sample():
    missing = line(
        last_at=None, missing=None, loss_before=math.nan, loss_recent=math.nan, loss_change=math.nan,
        loss_error=math.nan, trend=None, metric=None, features=(),
    )  # fmt: skip
    found = parsed(fleet(missing).to_prometheus())
    assert list(found) == ["debias_model_info", "debias_verdict", "debias_periods", "debias_periods_waiting"]


def test_two_models_with_the_same_labels_are_refused():
    with pytest.raises(DebiasError, match="two samples of debias_verdict"):
        fleet(line(), line()).to_prometheus()
    with pytest.raises(DebiasError, match="two samples of debias_verdict"):
        fleet(line("a"), line("a", series="model 1")).to_prometheus()
    twins = (FeatureCost("a\u202e", 0, 0, 0, 0, False), FeatureCost("a\\u202e", 0, 0, 0, 0, False))
    with pytest.raises(DebiasError, match="two samples of debias_feature_saved_loss"):
        fleet(line(features=twins)).to_prometheus()


def test_two_files_that_are_shown_alike_have_two_labels():
    found = parsed(fleet(line("x\u202e.history"), line("x\\u202e.history")).to_prometheus())
    assert [dict(labels)["history"] for labels in found["debias_loss"]] == ["x\\u202e.history", "x\\\\u202e.history"]


def test_an_empty_fleet_has_no_line():
    assert fleet().to_prometheus() == ""
