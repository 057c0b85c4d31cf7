"""What changed, its sentences and its gate, from statistics that are made up."""

import csv
import io
import json
import re
import time
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from debias import Changes
from debias.cli.output import terminal
from debias.errors import PolicyError
from debias.results.console import print_gate
from debias.results.gate_of_changes import check
from debias.results.performance import Y_IS_PREDICTED
from debias.results.policy import HistoryPolicy, Policy
from debias.results.windows import MeanOfPeriods, WindowOfPeriods

NAMES = ("income", "age", "city", "noise", "<b>id\u202e")
FLAGS = (
    "changed", "informative_before", "informative_after", "faded", "undetected", "comparable", "kept", "used",
    "shifted",
)  # fmt: skip


def changes(**given):
    """Changes of five features: income faded, age is stronger, city is no longer distinguishable and shifted."""
    statistics = {name: np.zeros(5, dtype=bool if name in FLAGS else float) for name in Changes.STATISTICS}
    statistics |= {
        "before": np.array([0.5, 0.2, 0.1, 0.01, 0.0]),
        "after": np.array([0.01, 0.9, 0.02, 0.0, 0.0]),
        "response_change": np.array([-0.4, 0.6, -0.05, 0.0, 0.0]),
        "p_value": np.array([0.002, 0.001, 0.4, 0.9, 1.0]),
        "p_adjusted": np.array([0.008, 0.005, 1.0, 1.0, 1.0]),
        "changed": np.array([True, True, False, False, False]),
        "informative_before": np.array([True, True, True, False, False]),
        "informative_after": np.array([False, True, False, False, False]),
        "faded": np.array([True, False, False, False, False]),
        "undetected": np.array([True, False, True, False, False]),
        "comparable": np.ones(5, dtype=bool),
        "used": np.ones(5, dtype=bool),
        "shift": np.array([0.0, 0.05, 0.4, 0.0, 0.0]),
        "shift_p_adjusted": np.array([1.0, 0.2, 1e-6, 1.0, 1.0]),
        "shifted": np.array([False, False, True, False, False]),
        "left_before": np.array([0.5, 0.5, 0.2, 0.5, np.nan]),
        "left_after": np.array([0.5, 0.5, 0.35, 0.5, np.nan]),
        "slope_before": np.array([1.0, 1.0, 1.0, np.nan, np.nan]),
    }
    settings = {
        "series": "model 2",
        "model": "a forest",
        "feature_names": NAMES,
        "reference": WindowOfPeriods("2026-01-01", "2026-01-20", 20, 2000),
        "recent": WindowOfPeriods("2026-01-21", "2026-01-21", 1, 1234),
        "alpha": 0.05,
        "least": 0.25,
        "splits": ("", "", "city <= 3.1", "", ""),
        "method": "within periods",
        "warnings": ("mind this",),
    }
    return Changes(**settings | {"statistics": statistics | given.pop("statistics", {})} | given)


NOTHING = {"statistics": {}, "not_compared_because": "this model has 1 period, and a comparison needs two"}


def nothing():
    compared = changes()
    kept = {name: getattr(compared, name) for name in ("series", "model", "feature_names", "recent", "alpha", "least")}
    return Changes(**kept, reference=WindowOfPeriods(None, None, 0, 0), **NOTHING)


def test_verdicts_follow_the_numbers():
    assert changes().verdict == [
        "faded",
        "changed (stronger)",
        "no longer distinguishable",
        "no change detected",
        "no change detected",
    ]
    weaker = changes(statistics={"faded": np.zeros(5, dtype=bool)})
    assert weaker.verdict[0] == "changed (weaker)"
    untested = changes(statistics={"response_error": np.array([0, 0, 0, np.nan, 0])})
    assert untested.verdict[3] == "not compared"
    assert nothing().verdict == ["not compared"] * 5


def test_the_table_is_sorted_by_evidence():
    table = changes().to_frame()
    assert list(table.index) == ["age", "income", "city", "noise", "<b>id\u202e"]
    assert table.loc["income", "verdict"] == "faded"
    assert table.loc["city", "shift"] == 0.4
    assert list(nothing().to_frame().columns) == ["verdict"]
    assert nothing().to_csv().splitlines()[0] == "feature,verdict,not_compared_because"


def test_the_summary_says_what_the_table_says():
    sentences = changes(n_other_series=2).summary()
    assert sentences == [
        "The response to 2 of 5 features changed: age became stronger (score 0.2 before, 0.9 recently), income became "
        "weaker (score 0.5 before, 0.01 recently).",
        "Faded: income. Before, its score was above 0 by more than chance; recently it is not, and the change is more "
        "than chance.",
        "No longer distinguishable from noise, without a change downwards that is more than chance: city. The recent "
        "window (1 period, 1,234 rows) may be too short to show it. Shifted rows may be the reason for city.",
        "Rows shifted at the splits on city (effect size 0.40; at city <= 3.1, 20.0% of the rows there went left "
        "before, 35.0% recently).",
        "Compared: 1 period (2026-01-21, 1,234 rows) with 20 periods (2026-01-01 to 2026-01-20, 2,000 rows), of model "
        "2 (a forest).",
        "The periods of 2 other models in this history were not used: scores of two models differ.",
        "Test: a change counts if the slope of the response changed by more than 0.25; standard errors from "
        "differences within periods; family-wise error rate 5% of this comparison alone.",
    ]


def test_shifted_rows_are_no_reason_for_features_that_did_not_shift():
    here = {"shifted": np.array([True, True, False, True, False])}
    assert "reason" not in " ".join(changes(statistics=here).summary())


def test_an_effect_that_goes_the_other_way_is_more_than_faded():
    clear = {"after": np.array([-0.4, 0.9, -0.4, 0.0, 0.0]), "after_error": np.full(5, 0.05)}
    told = "Recently the response goes the other way than the splits of the model on income (score -0.4, standard error"
    assert told in " ".join(changes(statistics=clear).summary())
    for error in (np.full(5, 0.2), np.zeros(5), np.full(5, np.nan)):
        assert "other way" not in " ".join(changes(statistics=clear | {"after_error": error}).summary())


def test_a_score_that_moves_against_the_response_is_explained():
    sentence = changes(statistics={"after": np.array([0.01, 0.15, 0.02, 0.0, 0.0])}).summary()[0]
    assert "age became stronger (score 0.2 before, 0.15 recently; other rows moved it the other way)" in sentence
    assert "income became weaker (score 0.5 before, 0.01 recently)" in sentence


def test_the_summary_says_that_nothing_was_found_or_compared():
    quiet = {name: np.zeros(5, dtype=bool) for name in FLAGS if name != "used"}
    sentences = changes(statistics=quiet, looks=365).summary()
    assert sentences[0] == "No change of the response was detected for any of 5 features."
    assert sentences[1] == "No shift of the rows was detected at the splits on any feature (effect size 0.1 or more)."
    assert len(sentences) == 4
    assert "5% of 365 comparisons together" in sentences[-1]
    assert nothing().summary() == ["Nothing was compared: this model has 1 period, and a comparison needs two."]


def test_what_was_not_tested_comes_first():
    error = np.array([0.1, 0.1, np.nan, 0.1, np.inf])
    first, second, *others = changes(statistics={"response_error": error}).summary()
    assert first == (
        r"The change of 2 of 5 features could not be tested: city, <b>id\u202e. No longer distinguishable from noise "
        "among these: city."
    )
    assert second.startswith("The response to 2 of the 3 tested features changed")
    assert not any("city" in sentence for sentence in others if sentence.startswith("No longer"))
    calm = {"response_error": error, "changed": np.zeros(5, dtype=bool), "faded": np.zeros(5, dtype=bool)}
    assert "for any of the 3 tested features" in changes(statistics=calm).summary()[1]
    untested = calm | {"response_error": np.full(5, np.nan)}
    assert changes(statistics=untested).summary()[1] == "No change of the response was tested."


def test_directions_of_effects_that_go_against_the_splits():
    """A score far below 0: the response goes the other way than the model believes."""
    score = {"before": np.array([-0.8, -0.8, 0.2, 0.5, 0.0]), "after": np.array([-2.7, 0.02, -0.9, 0.4, 0.0])}
    moved = {"response_change": np.array([-1.9, 0.82, -1.1, -0.1, 0.0])}
    flags = {
        "changed": np.array([True, True, True, False, False]),
        "faded": np.array([False, False, True, False, False]),
    }
    errors = {"before_error": np.full(5, 0.1), "after_error": np.full(5, 0.1)}
    text = "\n".join(changes(statistics=score | moved | flags | errors).summary())
    assert "income goes further against the splits of the model (score -0.8 before, -2.7 recently)" in text
    assert "age goes less against the splits of the model (score -0.8 before, 0.02 recently)" in text
    assert "city became weaker" in text
    assert "goes the other way than the splits of the model on income (score -2.7, standard error 0.1), city" in text


def test_many_features_are_counted_and_not_listed():
    names = tuple(f"x{k}" for k in range(1000))
    statistics = {name: np.ones(1000, dtype=bool if name in FLAGS else float) for name in Changes.STATISTICS}
    sentences = changes(feature_names=names, statistics=statistics, splits=("",) * 1000).summary()
    assert all(sentence.count("x") < 20 for sentence in sentences)
    assert "and 995 more" in sentences[0]
    assert max(map(len, sentences)) < 500


def test_json_and_csv_hold_the_numbers():
    found = changes()
    plain = json.loads(found.to_json())
    assert plain["verdict"] == found.verdict
    assert plain["statistics"]["left_before"][4] is None
    assert plain["statistics"]["changed"] == [True, True, False, False, False]
    assert plain["recent"] == {"first": "2026-01-21", "last": "2026-01-21", "n_periods": 1, "n_rows": 1234}
    assert plain["summary"] == found.summary()
    assert json.loads(nothing().to_json())["not_compared_because"] == NOTHING["not_compared_because"]
    rows = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert [row["feature"] for row in rows][:2] == ["age", "income"]
    assert float(rows[0]["response_change"]) == 0.6
    assert r"\u202e" in rows[4]["feature"]


def test_files_are_written(tmp_path):
    found = changes()
    assert (tmp_path / "x.json").write_text("") == 0
    assert found.to_json(tmp_path / "x.json") + "\n" == (tmp_path / "x.json").read_text()
    assert found.to_csv(tmp_path / "x.csv") == (tmp_path / "x.csv").read_text()


def test_the_prompt_shows_the_first_sentence_and_the_strongest():
    lines = repr(changes()).splitlines()
    assert lines[0] == "Changes of model 2 (a forest): 5 features"
    assert lines[1].startswith("The response to 2 of 5 features changed")
    assert re.match(r"age +0\.2000 +0\.9000 +0\.005 +0\.05 +changed \(stronger\)", lines[4])
    assert "not compared" in repr(nothing())
    assert max(map(len, lines)) <= 80


def statuses(found, policy):
    return {result.rule: (result.status, result.value) for result in found.check(policy).results}


def test_rules_for_named_features_are_judged_one_by_one():
    policy = {"must_not_fade": ["income", "age", "city", "noise"], "must_not_shift": ["age", "city"]}
    gate = changes().check(policy)
    assert statuses(changes(), policy) == {
        "must_not_fade: income": ("failed", "faded"),
        "must_not_fade: age": ("passed", "changed (stronger)"),
        "must_not_fade: city": ("not judged", "no longer distinguishable"),
        "must_not_fade: noise": ("not judged", "no change detected"),
        "must_not_shift: age": ("passed", "no shift detected"),
        "must_not_shift: city": ("failed", "shifted"),
    }
    assert not gate.passed
    reasons = {result.rule: result.reason for result in gate.results}
    assert "too few rows to exclude" in reasons["must_not_fade: city"]
    assert "cannot fade" in reasons["must_not_fade: noise"]
    assert gate.warnings == ("mind this",)


def test_rules_for_all_features_count_those_that_fail():
    assert statuses(changes(), {"must_not_fade": "all", "must_not_shift": "all"}) == {
        "must_not_fade": ("failed", "2 of 3"),
        "must_not_shift": ("failed", "1 of 5"),
    }
    none = {name: np.zeros(5, dtype=bool) for name in ("changed", "faded", "undetected", "shifted")}
    calm = changes(statistics=none | {"kept": np.ones(5, dtype=bool)})
    assert statuses(calm, {"must_not_fade": "all", "must_not_shift": "all"}) == {
        "must_not_fade": ("passed", "0 of 3"),
        "must_not_shift": ("passed", "0 of 5"),
    }
    assert calm.check({"must_not_fade": "all"})
    blind = changes(statistics={"informative_before": np.zeros(5, dtype=bool)})
    (result,) = blind.check({"must_not_fade": "all"}).results
    assert result.status == "not judged"
    assert "none can fade" in result.reason


def test_the_largest_shift_fails_only_if_it_is_no_chance():
    assert statuses(changes(), {"max_shift": 0.39}) == {"max_shift": ("failed", "0.40")}
    assert statuses(changes(), {"max_shift": 0.4}) == {"max_shift": ("passed", "0.40")}
    chance = changes(statistics={"shifted": np.zeros(5, dtype=bool)})
    assert statuses(chance, {"max_shift": 0.4}) == {"max_shift": ("passed", "0.00")}
    # An effect above the limit that may be chance is no evidence that there is none.
    assert statuses(chance, {"max_shift": 0.39}) == {"max_shift": ("not judged", "none")}
    assert (
        "city: effect size 0.40, adjusted p = 1e-06, so it may be" in chance.check({"max_shift": 0}).results[0].reason
    )
    unknown = changes(statistics={"shift": np.full(5, np.nan)})
    assert statuses(unknown, {"max_shift": 1, "must_not_shift": ["age"]}) == {
        "must_not_shift: age": ("not judged", "none"),
        "max_shift": ("not judged", "none"),
    }
    assert "max_shift = 2 sets no limit" in changes().check({"max_shift": 2}).warnings


def test_features_whose_shift_is_not_told_are_named():
    """Too few rows at their splits: the rule is not judged, never passed, whether it names them or is for all."""
    calm = {"shift": np.array([np.nan, 0.0, 0.0, 0.0, np.nan]), "shifted": np.zeros(5, dtype=bool)}
    found = changes(statistics=calm)
    gate = found.check({"must_not_shift": "all", "max_shift": 0.1})
    assert [result.status for result in gate.results] == ["not judged", "not judged"]
    told = r"income: no split has enough rows to compare, <b>id\u202e: no split has enough rows to compare"
    assert all(each.reason == told for each in gate.results)
    assert not any("0.00" in each.value for each in gate.results)
    assert statuses(found, {"must_not_shift": ["income"]}) == {"must_not_shift: income": ("not judged", "none")}
    sentence = next(text for text in found.summary() if "No shift" in text)
    assert "any feature with enough rows (effect size 0.1 or more)." in sentence
    assert r"Too few rows to tell at the splits on income, <b>id\u202e." in sentence
    nothing_told = changes(statistics=calm | {"shift": np.full(5, np.nan)})
    assert "No shift was tested: no split has enough rows." in nothing_told.summary()
    assert not nothing_told.check({"must_not_shift": "all"})


def test_too_few_rows_or_periods_fail_and_leave_others_unjudged():
    policy = {"min_periods": 2, "min_reference_periods": 20, "min_rows": 1234, "must_not_fade": ["age", "income"]}
    gate = changes().check(policy)
    assert {result.rule: result.status for result in gate.results} == {
        "min_periods": "failed",
        "min_reference_periods": "passed",
        "min_rows": "passed",
        "must_not_fade: age": "not judged",
        "must_not_fade: income": "failed",
    }
    assert gate.results[0].reason == "1 period in the recent window, but the policy requires 2"
    assert gate.results[3].reason.startswith("too few to judge: 1 period")


def test_a_response_that_is_predicted_leaves_rules_about_it_unjudged():
    policy = {"must_not_be_biased": True, "must_not_fade": ["age", "income"], "must_not_shift": ["age"]}
    means = (MeanOfPeriods("residual", 1.0, 1.0, 0.9, False, "2026-11-02"),)
    assert changes(means=means).check(policy).results[0].status == "passed"
    said = Y_IS_PREDICTED + " of the model in 40% of these rows"
    gate = changes(means=means, warnings=("something else", said)).check(policy)
    assert {result.rule: result.status for result in gate.results} == {
        "must_not_be_biased": "not judged",
        "must_not_shift: age": "passed",
        "must_not_fade: age": "not judged",
        "must_not_fade: income": "failed",
    }
    assert gate.results[0].reason == said
    assert changes(warnings=(said,)).summary()[0] == f"{said}."


@pytest.fixture
def zone(monkeypatch):
    """Return a function that sets the local time zone of this process for the test."""
    if not hasattr(time, "tzset"):
        pytest.skip("the time zone of a process cannot be set on Windows")

    def set_to(name):
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield set_to
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("last", "limit", "result"),
    [
        ("2026-11-22", 2, ("passed", "1.5")),
        ("2026-11-22", 1.4, ("failed", "1.5")),
        ("2026-11-23T11:00:00", 1, ("passed", "0.05")),
        ("2026-11-23T20:00:00", 1, ("passed", "0")),  # a machine in another zone
        ("2026-11-24T13:00:00", 9, ("failed", "in the future")),
        ("2026-11-21T12:00:00Z", 2, ("passed", "2")),
        ("2026-11-21T11:59:00Z", 2, ("failed", "2.01")),
        (None, 9, ("failed", "none")),
    ],
)
def test_a_history_that_nobody_adds_to_fails(last, limit, result, zone):
    zone("UTC")
    noon = datetime(2026, 11, 23, 12, tzinfo=UTC)
    compared = changes(last_period=None if last is None else datetime.fromisoformat(last))
    of_age, *others = check(compared, {"max_age_days": limit}, noon).results
    assert (of_age.status, of_age.value) == result
    assert not others


def test_times_without_a_zone_are_local(zone):
    zone("Asia/Tokyo")
    at = datetime(2026, 11, 23, 3, tzinfo=UTC)  # noon in Tokyo
    gate = check(changes(last_period=datetime(2026, 11, 23)), {"max_age_days": 1}, at)
    assert gate.results[0].value == "0.5"


def test_the_age_is_that_of_today():
    old, new = datetime(2026, 1, 2), datetime.now(UTC)
    assert statuses(changes(last_period=old), {"max_age_days": 9})["max_age_days"][0] == "failed"
    assert statuses(changes(last_period=new), {"max_age_days": 0.5})["max_age_days"][0] == "passed"


def test_a_gate_that_compared_nothing_says_so():
    gate = replace(nothing(), last_period=datetime.now(UTC)).check({"max_age_days": 1})
    assert gate.passed
    assert "nothing was compared: this model has 1 period" in gate.warnings[0]


def test_a_gate_does_not_pass_if_nothing_failed_and_a_rule_is_not_judged(capsys):
    unseen = {"faded": np.zeros(5, dtype=bool), "changed": np.zeros(5, dtype=bool)}
    gate = changes(statistics=unseen).check({"must_not_fade": ["city"]})
    assert [result.status for result in gate.results] == ["not judged"]
    assert not gate.passed
    assert not gate.failures
    print_gate(terminal(), gate)
    assert "The gate was not judged: must_not_fade: city." in capsys.readouterr().out
    assert 'errors="1"' in gate.to_junit()
    assert 'failures="0"' in gate.to_junit()
    assert gate.to_markdown().startswith("## debias monitor check: not judged (1 rule not judged)")
    assert gate.to_annotations()[0].startswith("::warning title=debias monitor check::must_not_fade: city not judged")


def test_what_cannot_be_judged_fails_with_the_reason():
    gate = nothing().check({"must_not_fade": "all", "must_not_shift": ["age"], "max_shift": 1})
    assert [result.status for result in gate.results] == ["not judged"] * 3
    assert not gate.passed
    assert {result.reason for result in gate.results} == {NOTHING["not_compared_because"]}
    untested = changes(statistics={"response_error": np.full(5, np.nan)})
    assert untested.check({"must_not_fade": ["city"]}).results[0].reason == "its change could not be tested"


def unused(which):
    """Changes of a model that does not split on some of the five features."""
    which = np.array(which, dtype=bool)
    found = changes()
    missing = {
        name: np.where(which, np.nan, found.statistics[name])
        for name in ("response_error", "p_value", "p_adjusted", "shift", "shift_p_adjusted")
    }
    names = ("changed", "faded", "undetected", "shifted", "informative_before", "informative_after")
    flags = {name: found.statistics[name] & ~which for name in names}
    return changes(statistics=missing | flags | {"used": ~which})


def test_features_without_splits_are_not_judged_and_are_no_part_of_all():
    found = unused([0, 0, 0, 1, 1])
    assert found.verdict[3:] == ["no splits", "no splits"]
    assert not found.undecided[3:].any()
    assert found.tested.tolist() == [True, True, True, False, False]
    summary = " ".join(found.summary())
    assert "No tree splits on 2 of 5 features, so whether the response to them changed is not known: noise, " in summary
    assert "could not be tested" not in summary
    assert "Too few rows" not in summary
    gate = found.check({"must_not_shift": "all", "max_shift": 0.5})
    assert [(each.rule, each.status, each.value) for each in gate.results] == [
        ("max_shift", "passed", "0.40"),
        ("must_not_shift", "failed", "1 of 3"),
    ]
    named = found.check({"must_not_shift": ["noise"], "must_not_fade": ["noise"]})
    assert [each.status for each in named.results] == ["not judged"] * 2
    assert all("no tree splits on it" in each.reason for each in named.results)


def test_of_a_model_without_splits_nothing_is_told_by_feature():
    found = unused([1, 1, 1, 1, 1])
    assert set(found.verdict) == {"no splits"}
    assert "No shift was tested: the model has no splits." in found.summary()
    assert "No change of the response was tested." in found.summary()
    gate = found.check({"must_not_shift": "all", "must_not_fade": "all", "max_shift": 0.5})
    assert {each.reason for each in gate.results} == {"the model has no splits"}
    assert {each.status for each in gate.results} == {"not judged"}


def test_a_column_that_cannot_be_compared_any_more_is_lost():
    """Stuck, or in another unit: all its rows are where none were before."""
    none = {"comparable": np.array([True, True, False, False, True]), "response_error": np.full(5, np.nan)}
    gate = changes(statistics=none | {"changed": np.zeros(5, dtype=bool)}).check({"must_not_fade": ["city", "noise"]})
    assert [result.status for result in gate.results] == ["failed", "not judged"]  # noise had nothing to lose
    assert "stuck, empty, or in another unit" in gate.results[0].reason


def test_a_feature_whose_loss_is_excluded_passes_although_its_score_is_not_distinguishable():
    kept = {"kept": np.array([False, False, True, False, False])}
    (result,) = changes(statistics=kept).check({"must_not_fade": ["city"]}).results
    assert (result.status, result.value) == ("passed", "no change detected")


def test_the_shortest_window_that_can_judge_a_feature_does():
    two, four = (replace(changes(), recent=WindowOfPeriods(f"2026-01-{day}", "2026-01-21", n, 9)) for day, n in
                 ((20, 2), (18, 4)))  # fmt: skip
    kept = {"kept": np.array([False, False, True, False, False])}
    nan = {"shift": np.array([0, 0, np.nan, 0, 0]), "shifted": np.zeros(5, dtype=bool)}
    judged = replace(four, statistics=four.statistics | kept)
    gate = changes(longer=(two, judged)).check({"must_not_fade": ["city"]})
    assert gate.passed
    assert gate.results[0].reason.endswith("(judged in the last 4 periods from 2026-01-18: fewer do not tell)")
    predicted = replace(judged, warnings=(Y_IS_PREDICTED,))
    assert changes(longer=(two, predicted)).check({"must_not_fade": ["city"]}).results[0].status == "not judged"
    gate = changes(longer=(two,)).check({"must_not_fade": ["city"]})
    assert gate.results[0].status == "not judged"
    shifted = changes(statistics=nan, longer=(two, judged)).check({"max_shift": 0.3, "must_not_shift": ["city"]})
    assert [(each.status, each.value) for each in shifted.results] == [("failed", "0.40"), ("failed", "shifted")]
    assert all("judged in the last 2 periods" in each.reason for each in shifted.results)


def test_unseen_categories_and_repeated_rows_fail_above_their_limits():
    found = changes(statistics={"unseen_after": np.array([0, 0, 0.3, 0, 0])}, repeated=(0.0, 0.25))
    assert statuses(found, {"max_unseen": 0.3, "max_repeated": 0.25}) == {
        "max_unseen": ("passed", "0.3"),
        "max_repeated": ("passed", "0.25"),
    }
    gate = found.check({"max_unseen": 0.29, "max_repeated": 0.24})
    assert [result.status for result in gate.results] == ["failed", "failed"]
    assert "city 30.0%" in gate.results[0].reason
    first, second, *_ = found.summary()
    assert first.startswith("Categories that the model never saw: city (30.0% of the recent rows; before, 0%)")
    assert second.startswith("Repeated rows: 25.0% of the recent rows")
    old = changes(statistics={"unseen_after": np.full(5, np.nan)})  # of a file that an earlier version wrote
    assert {each.status for each in old.check({"max_unseen": 1, "max_repeated": 1}).results} == {"not judged"}
    assert "Repeated" not in " ".join(old.summary())
    assert {each.status for each in nothing().check({"max_unseen": 1, "max_repeated": 1}).results} == {"not judged"}


def test_the_mean_residual_comes_first():
    def of(p_value, changed):
        named = ("response", "prediction", "residual")
        return tuple(MeanOfPeriods(each, 0.0, 0.5, p_value, changed, "2026-01-21") for each in named)

    moved = changes(means=of(1e-9, True))
    assert moved.summary()[0].startswith("The mean residual changed, for whatever reason: 0 before, 0.5 recently")
    assert moved.summary()[0].endswith(" The mean response moved too, by +0.5, and the mean prediction by +0.5.")
    one = tuple(replace(mean, changed=mean.of != "prediction") for mean in moved.means)
    assert changes(means=one).summary()[0].endswith(" The mean response moved too, by +0.5.")
    policy = {"must_not_be_biased": True}
    assert statuses(moved, policy) == {"must_not_be_biased": ("failed", "changed")}
    assert statuses(changes(means=of(0.3, False)), policy) == {"must_not_be_biased": ("passed", "no change detected")}
    for none in (changes(means=of(np.nan, False)), changes(), nothing()):
        assert none.check(policy).results[0].status == "not judged"
    assert json.loads(changes(means=of(np.nan, False)).to_json())["means"][0]["p_value"] is None


def test_a_large_shift_is_named_before_the_features_that_may_follow_it():
    far = {"shift": np.array([0.0, 0.05, 0.8, 0.0, 0.0])}
    assert "shifted" in changes(statistics=far).summary()[0]
    assert "shifted" not in changes().summary()[0]


def test_the_reference_of_a_policy_is_that_of_the_changes():
    rules = {"must_not_fade": "all", "reference": "first 30d"}
    with pytest.raises(PolicyError, match="compares with reference = 'first 30d', and these changes with first 60"):
        changes(reference_given="first 60").check(rules)
    assert changes(reference_given="first 30d").check(rules).results
    assert (
        HistoryPolicy.of(rules).reference_or(None) == HistoryPolicy.of(rules).reference_or("first 30d") == "first 30d"
    )
    with pytest.raises(PolicyError, match="leave one of them out"):
        HistoryPolicy.of(rules).reference_or("7d")


def test_features_that_the_model_does_not_have():
    policy = {"must_not_fade": ["Income", {"name": "AGE", "optional": True}, {"name": "zip", "optional": True}]}
    gate = changes().check(policy)
    assert [result.status for result in gate.results] == ["failed", "passed", "passed"]
    assert "it has 'income'" in gate.results[0].reason
    assert any("'AGE', which is optional, but it has 'age'" in text for text in gate.warnings)


def test_the_gate_has_all_its_outputs():
    gate = changes().check({"must_not_fade": "all"})
    assert "failures=" in gate.to_junit()
    assert "must\\_not\\_fade" in gate.to_markdown()
    assert gate.to_annotations()[0].startswith("::error")
    assert json.loads(gate.to_json())["passed"] is False


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({}, "without rules would pass everything"),
        ({"history": {}}, "without rules"),
        ({"history": [1]}, "is not a table of rules"),
        ({"history": {"min_rows": 1}, "must_not_fade": "all"}, "'must_not_fade' is outside of it and would be ignored"),
        ({"min_informative": 1}, "'min_informative'; that rule is for an audit.*in the table 'history'"),
        ({"history": {"min_informative": 1}}, "table history has no rule 'min_informative'; that rule is for an audit"),
        ({"must_not_fad": "all"}, "Did you mean 'must_not_fade'"),
        ({"must_not_fade": "some"}, "must be a list of feature names"),
        ({"must_not_fade": []}, "must be a list of feature names"),
        ({"max_shift": 3}, "effect size from 0 to 2"),
        ({"max_unseen": 3}, "share from 0 to 1"),
        ({"max_repeated": True}, "share from 0 to 1"),
        ({"must_not_be_biased": False}, "must be true, or left out"),
        ({"reference": "first 30d"}, "without rules would pass everything"),
        ({"max_shift": 1, "reference": ["a"]}, "reference must be periods"),
        ({"min_periods": 1.5}, "whole number"),
        ({"min_periods": None}, "is None"),
        ({"max_age_days": 0}, "number of days above 0"),
        ({"max_age_days": "2d"}, "number of days above 0"),
        ({"max_age_days": float("inf")}, "number of days above 0"),
    ],
)
def test_wrong_policies_are_refused(policy, message):
    with pytest.raises(PolicyError, match=message):
        changes().check(policy)


def test_rules_for_audits_and_histories_are_read_from_one_file(tmp_path):
    path = tmp_path / "rules.toml"
    path.write_text('min_rows = 10\n[history]\nmust_not_fade = ["age"]\nmin_rows = 20\n')
    assert Policy.of(path).min_rows == 10
    assert HistoryPolicy.of(path).min_rows == 20
    assert HistoryPolicy.of(HistoryPolicy.of(path)).must_not_fade[0].name == "age"
    project = tmp_path / "pyproject.toml"
    project.write_text('[project]\nname = "x"\n[tool.debias]\nmin_rows = 10\n[tool.debias.history]\nmax_shift = 0.3\n')
    assert Policy.of(project).min_rows == 10
    assert HistoryPolicy.of(project).max_shift == 0.3
    path.write_text("[history]\nmax_shift = 0.3\n")
    with pytest.raises(PolicyError, match="rules for a history only: check those with debias monitor check"):
        Policy.of(path)
    with pytest.raises(PolicyError, match="'must_not_fade'; that rule is for a history: put it in the table 'history'"):
        Policy.of({"must_not_fade": "all"})
