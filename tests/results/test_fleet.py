"""What is said of a model in a line and on top of its page, from made comparisons."""

from dataclasses import replace
from math import nan

import numpy as np
import pytest

from debias.results import vocabulary
from debias.results.changes import MeanOfPeriods
from debias.results.fleet import Findings, Fleet, FleetLine, headline_of, short_number, verdict_of
from debias.results.gate_outcome import Result
from debias.results.loss_change import LossCause
from debias.results.vocabulary import FleetVerdict, LossKind
from debias.text import escaped
from results.test_changes import changes, nothing
from results.test_loss_change import changes as with_loss

SAME = (MeanOfPeriods("residual", 0.0, 0.1, 0.5, False, "2026-01-30"),)
QUIET = {
    name: np.zeros(5, dtype=bool)
    for name in ("faded", "changed", "shifted", "undetected")
} | {"unseen_before": np.zeros(5), "unseen_after": np.zeros(5), "comparable": np.ones(5, dtype=bool)}  # fmt: skip


def made(**statistics):
    """Return changes of five features in which nothing was found but what is given."""
    return changes(statistics=QUIET | statistics, means=SAME)


def only(k):
    return np.arange(5) == k


def test_further_reasons_do_not_read_as_further_features():
    """A list of features ends in "and 1 more" too, and a reason more is no feature more."""
    two = {"faded": only(1), "changed": only(1), "shifted": only(3), "shift": np.full(5, 0.6)}
    assert "more reason" not in headline_of(made(**two))
    three = two | {"unseen_before": np.full(5, 0.01), "unseen_after": np.where(only(4), 0.07, 0.05)}
    one = made(**three)
    assert len(Findings.of(one).reasons()) == 3
    assert headline_of(one).endswith("; and 1 more reason.")
    assert headline_of(replace(one, repeated=(0.0, 0.5))).endswith("; and 2 more reasons.")


@pytest.mark.parametrize(
    ("n_periods", "warnings", "because"),
    [
        (1, (), "1 period to compare with does not show how much means vary"),
        (7, (), "7 periods to compare with do not show how much means vary"),
        (20, ("the mean residual is not judged: weeks are compared",), "weeks are compared"),
        (20, ("the mean response is not judged: weeks are compared",), "the means of these periods are not known"),
    ],
)
def test_why_the_mean_residual_is_not_judged_is_the_reason_of_the_comparison(n_periods, warnings, because):
    one = made()
    unknown = (replace(SAME[0], p_value=nan),)
    one = replace(one, means=unknown, warnings=warnings, reference=replace(one.reference, n_periods=n_periods))
    assert f"the mean residual: {because}" in Findings.of(one).not_judged()
    (rule,) = [each for each in one.check({"must_not_be_biased": True}).results if each.rule == "must_not_be_biased"]
    assert (rule.status, rule.reason) == ("not judged", because)


def test_without_a_finding_there_is_no_reason():
    found = Findings.of(made())
    assert found.reasons() == []
    assert found.worst is None


@pytest.mark.parametrize(
    ("statistics", "reason"),
    [
        ({"faded": only(1), "changed": only(1), "response_change": -np.ones(5)}, "faded: {1}"),
        ({"changed": only(2), "response_change": -np.ones(5)}, "the response follows these less: {2}"),
        (
            {"comparable": ~only(0), "informative_before": np.ones(5, dtype=bool)},
            "perhaps stuck, empty or in another unit: {0}",
        ),
        ({"shifted": only(3), "shift": np.full(5, 0.6)}, "rows moved far at the splits on: {3}"),
        (
            {"unseen_before": np.full(5, 0.01), "unseen_after": np.where(only(4), 0.07, 0.05)},
            "categories that the model never saw: {4} (7.0% of the recent rows)",
        ),
    ],
)
def test_each_fault_of_a_feature_is_a_reason_and_names_it(statistics, reason):
    one = made(**statistics)
    found, names = Findings.of(one), one.feature_names
    expected = reason.format(*map(escaped, names))
    assert expected in found.reasons()
    assert found.worst == names[int(reason.partition("{")[2][0])]
    assert expected in headline_of(one)


def test_a_small_shift_and_a_stronger_effect_are_no_reason():
    one = made(shifted=only(0), shift=np.full(5, 0.4), changed=only(1), response_change=np.ones(5))
    assert Findings.of(one).reasons() == []


def test_repeated_rows_and_the_mean_residual_are_reasons():
    one = replace(
        made(), repeated=(0.01, 0.07), means=(MeanOfPeriods("residual", 0.0, 3.0, 0.001, True, "2026-01-30"),)
    )
    assert Findings.of(one).reasons() == [
        "the mean residual moved: 0 before, 3 recently; 2026-01-30 deviates most",
        "repeated rows: 7.0% of the recent rows",
    ]
    assert Findings.of(replace(one, repeated=(0.03, 0.07), means=SAME)).reasons() == []


def test_the_worst_feature_is_the_first_cause_then_the_largest_cost():
    one = with_loss()
    cause = LossCause(one.feature_names[one.loss.costs_more[-1]], LossKind.VALUES, 0.5, 0.01)
    found = Findings.of(replace(one, loss=replace(one.loss, causes=(cause,))))
    assert one.loss.costs_more.size > 1
    assert found.worst == cause.feature
    without = Findings.of(one)
    assert without.worst == one.feature_names[one.loss.costs_more[0]]
    line = FleetLine(history="a", verdict=FleetVerdict.NOTHING).judged_by(without)
    assert line.cost == one.loss.statistics["cost"][one.loss.costs_more[0]]
    assert [each.costs_more for each in line.features].count(True) == one.loss.costs_more.size


def test_what_is_not_known_is_not_judged():
    one = replace(made(), means=(), no_loss_because="no period has parts")
    texts = Findings.of(one).not_judged()
    assert texts[0] == "the loss: no period has parts"
    assert texts[1].startswith("the mean residual: ")
    assert headline_of(one).startswith("Nothing was found in the last ")
    assert "but this was not judged: the loss" in headline_of(one)
    assert headline_of(replace(one, recent=replace(one.recent, n_periods=1))).startswith(
        "Nothing was found in the last period, but "
    )
    assert headline_of(nothing()).startswith("Not judged: ")
    assert verdict_of((), ("x",)) is FleetVerdict.NOT_JUDGED
    assert verdict_of(("y",), ("x",)) is FleetVerdict.LOOK
    assert verdict_of((), ()) is FleetVerdict.NOTHING


OLD = "the last period is old"


@pytest.mark.parametrize(("value", "reason"), [("3.5", f"{OLD}, 3.5 days ago"), ("in the future", OLD), ("none", OLD)])
def test_an_old_last_period_is_told_also_if_nothing_was_compared(value, reason):
    late = Result("max_age_days", "failed", value, "<= 1", OLD)
    line = FleetLine(history="a", verdict=FleetVerdict.NOTHING).judged_by("there is one period", late)
    assert line.reasons == (reason,)
    assert line.not_judged == ("there is one period",)
    assert line.verdict is FleetVerdict.LOOK
    assert line.why == f"{reason}; not judged: there is one period"


def fleet(*lines):
    return Fleet(lines=lines, alpha=0.05, looks=1, recent="30d", reference="first 30d")


def test_models_are_sorted_by_what_needs_a_person_first():
    lines = [
        FleetLine(history="large rise", verdict=FleetVerdict.LOOK, series="m", loss_change=2.0, loss_error=0.1),
        FleetLine(history="small rise", verdict=FleetVerdict.LOOK, series="m", loss_change=900.0, loss_error=300.0),
        FleetLine(history="damaged", verdict=FleetVerdict.NOT_JUDGED, not_judged=("damaged",)),
        FleetLine(history="few", verdict=FleetVerdict.NOT_JUDGED, series="m", not_judged=("few",)),
        FleetLine(history="gaps", verdict=FleetVerdict.NOTHING, series="m", missing=3),
        FleetLine(history="quiet", verdict=FleetVerdict.NOTHING, series="m", missing=0),
    ]
    assert sorted((lines[k] for k in (3, 5, 1, 0, 4, 2)), key=lambda line: line.urgency) == lines
    found = fleet(*lines)
    assert found.summary()[:2] == [
        "2 of 6 models need a look: large rise, small rise.",
        "Not judged, or not in all: 2 of 6 models (damaged, few).",
    ]
    assert [fleet(*lines[k:]).exit_code for k in (0, 2, 4, 6)] == [1, 4, 0, 0]
    assert fleet(*lines[4:]).summary()[0] == "Nothing was found in 2 of 2 models."
    assert fleet(*lines[2:4]).summary()[0] == "Not judged, or not in all: 2 of 2 models (damaged, few)."
    texts = fleet(*lines[3:]).summary()  # no good news first
    assert texts[0].startswith("Not judged, or not in all: 1 of 3 models")
    assert texts[1] == "Nothing was found in 2 of 3 models."


def test_newer_periods_that_wait_are_told_whatever_the_verdict():
    settled = {"history": "a", "series": "m", "n_periods": 40}
    ten = FleetLine(verdict=FleetVerdict.NOTHING, waiting=12, newer_waiting=10, **settled)
    assert ten.why == "10 newer periods wait for their responses and are not judged"
    one = FleetLine(verdict=FleetVerdict.LOOK, waiting=1, newer_waiting=1, reasons=("old",), **settled)
    assert one.why == "old; 1 newer period waits for its responses and is not judged"
    late = FleetLine(verdict=FleetVerdict.NOTHING, waiting=3, **settled)  # they are not the newest
    assert late.why == ""
    said = "The newest periods wait for their responses and are not judged: "
    assert f"{said}a." in fleet(ten, replace(late, history="b")).summary()
    assert said not in " ".join(fleet(late).summary())
    assert "waiting" in repr(fleet(late))
    assert "waiting" not in repr(fleet(replace(late, waiting=0)))
    assert fleet(ten, late).to_frame()["waiting"].tolist() == [12, 3]
    assert fleet(ten).exit_code == 0


@pytest.mark.parametrize("one", [made(), nothing(), replace(made(), no_loss_because="no period has parts")])
def test_the_headline_ends_with_newer_periods_that_wait(one):
    plain = headline_of(one)
    assert headline_of(replace(one, newer_waiting=10)) == (
        f"{plain} 10 newer periods wait for their responses and are not judged."
    )
    assert headline_of(replace(one, newer_waiting=1)) == (
        f"{plain} 1 newer period waits for its responses and is not judged."
    )


def test_two_models_of_a_file_are_told_apart():
    lines = [FleetLine(history="a", verdict=FleetVerdict.NOT_JUDGED, series=name) for name in ("old", "new")]
    found = fleet(*lines, FleetLine.unread("b", "damaged"))
    assert [found.name_of(line) for line in found.lines] == ["a (old)", "a (new)", "b"]
    assert "(a (old), a (new), b)" in found.summary()[0]
    assert "a (new)" in found.to_html()


@pytest.mark.parametrize(
    ("value", "text"), [(nan, "–"), (0.0123456, "0.0123"), (12345.6, "12,346"), (3e12, "3e+12"), (-2.0, "-2")]
)
def test_losses_have_three_digits(value, text):
    assert short_number(value) == text


def test_words_of_the_verdict_are_those_of_the_vocabulary(monkeypatch):
    table = {
        word: replace(display, text=f"<{word.value}>") for word, display in vocabulary.DISPLAYS[FleetVerdict].items()
    }
    monkeypatch.setitem(vocabulary.DISPLAYS, FleetVerdict, table)
    found = fleet(FleetLine.unread("a", "damaged"))
    assert "<not judged>" in repr(found)
    assert "&lt;not judged&gt;" in found.to_html()
    assert headline_of(nothing()).startswith("<not judged>: ")
