import dataclasses
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import lightgbm
import numpy as np
import pandas as pd
import pytest

import debias
from debias.api.evaluation import combined
from debias.models.wrappers import Member
from debias.results.gate_outcome import Gate, Result
from debias.results.policy import PROVENANCE
from debias.testing.scorers import TASKS, toy_rows
from support.audits import made

NAMES = ["age", "income", "city", "customer_id", "noise", "weekday"]


def audit_of(informative, shares=None, names=NAMES, **given):
    """Return an audit with these verdicts, and these debiased shares (equal among the informative by default)."""
    made_up = made(names, informative=informative, **given)
    shares = np.array(informative, dtype=float) if shares is None else np.array(shares, dtype=float)
    main = dataclasses.replace(made_up.tested_scores, values=shares)
    return dataclasses.replace(made_up, scores={"mdi_oob": main})


def outcome(audit, policy, baseline=None):
    gate = audit.check(policy, baseline)
    assert gate.passed == all(result.status != "failed" for result in gate.results)
    return {result.rule: result for result in gate.results}


@pytest.mark.quick
def test_unsupported_share_is_that_of_the_audit_and_either_side_of_the_limit_counts():
    audit = audit_of([1, 1, 0, 0, 0, 0])
    share = float(audit.reported[2:].sum())
    for limit, status in ((share + 1e-9, "passed"), (share - 1e-9, "failed")):
        result = outcome(audit, {"max_unsupported_share": limit})["max_unsupported_share"]
        assert (result.status, result.value) == (status, f"{share:.1%}")
        assert "4 of 6 features are not confirmed alone" in result.reason
    largest = NAMES[2 + int(np.argmax(audit.reported[2:]))]
    assert f"the largest shares: {largest}" in result.reason


def test_with_too_few_rows_the_share_is_not_judged_but_the_gate_fails():
    audit = audit_of([1, 1, 0, 0, 0, 0])
    found = outcome(audit, {"max_unsupported_share": 0.0, "min_rows": 501})
    assert {rule: each.status for rule, each in found.items()} == {
        "min_rows": "failed",
        "max_unsupported_share": "not judged",
    }
    assert not audit.check({"max_unsupported_share": 1.0, "min_rows": 501}).passed
    assert audit.check({"max_unsupported_share": 1.0, "min_rows": 500}).passed


def test_features_that_must_and_must_not_matter():
    audit = audit_of([1, 0, 0, 1, 0, 0])
    found = outcome(audit, {"must_be_informative": ["age", "income", "agee"], "must_not_matter": NAMES[3:5]})
    assert {rule: each.status for rule, each in found.items()} == {
        "must_be_informative: age": "passed",
        "must_be_informative: income": "failed",
        "must_be_informative: agee": "failed",
        "must_not_matter: customer_id": "failed",
        "must_not_matter: noise": "passed",
    }
    assert "but it has 'age'" in found["must_be_informative: agee"].reason
    assert f"z = {audit.tested_scores.z[3]:.2f}" in found["must_not_matter: customer_id"].reason


@pytest.mark.parametrize("rule", ["must_not_matter", "must_be_informative"])
@pytest.mark.parametrize(
    ("name", "likely"),
    [
        ("CUSTOMER_ID", "'customer_id'"),
        ("customer id", "'customer_id'"),
        ("customerId", "'customer_id'"),
        ("custmer_id", "'customer_id'"),
        ("cust_id", "'customer_id'"),
        (" income", "'income'"),
        ("inc", "'income'"),
        ("wkday", "'weekday'"),
        ("passport", None),
    ],
)
def test_a_name_that_is_no_feature_fails_and_what_may_be_meant_is_named(rule, name, likely):
    audit = audit_of([1, 0, 0, 1, 0, 0])
    (result,) = audit.check({rule: [name]}).results
    assert (result.status, result.value) == ("failed", "not in the model")
    assert "optional = true" in result.reason
    assert (f"but it has {likely}" in result.reason) if likely else "but it has" not in result.reason


@pytest.mark.parametrize("rule", ["must_not_matter", "must_be_informative"])
def test_an_optional_name_may_be_absent_but_what_is_like_it_is_warned_of(rule):
    audit = audit_of([1, 0, 0, 1, 0, 0])
    gate = audit.check({rule: [{"name": "passport", "optional": True}]})
    assert (gate.passed, gate.warnings) == (True, ())
    gate = audit.check({rule: [{"name": "CUSTOMER_ID", "optional": True}]})
    (warning,) = gate.warnings
    assert gate.passed
    assert "'CUSTOMER_ID', which is optional, but it has 'customer_id'" in warning
    for shown in (gate.to_json(), gate.to_junit(), gate.to_annotations()[-1], gate.to_markdown().replace("\\", "")):
        assert "CUSTOMER_ID" in shown
    named = audit.check({rule: [{"name": "customer_id", "optional": True}, {"name": "noise", "optional": True}]})
    assert [each.status for each in named.results] == (
        ["failed", "passed"] if rule == "must_not_matter" else ["passed", "failed"]
    )


def test_the_number_of_informative_features_and_inflation_have_limits():
    audit = audit_of([1, 1, 0, 0, 0, 0])
    assert audit.check({"min_informative": 2}).passed
    assert not audit.check({"min_informative": 3}).passed
    excess = (audit.reported - audit.reported_unseen).max()
    assert audit.check({"max_inflation": excess + 1e-9}).passed
    k = int(np.argmax(audit.reported - audit.reported_unseen))
    of_shares = (
        f"{NAMES[k]}: reported {audit.reported[k]:.1%} by gain, {audit.reported_unseen[k]:.1%} on the out-of-bag rows"
    )
    error = {"reported_unseen_error": np.full(6, 0.01), "inflation_p": np.full(6, 1e-6)}
    result = outcome(dataclasses.replace(audit, **error), {"max_inflation": excess - 1e-9})["max_inflation"]
    assert (result.status, result.value) == ("failed", f"{excess:.1%}")
    assert result.reason == f"{of_shares} (standard error 1.0%)"
    without = audit.check({"max_inflation": excess - 1e-9})
    assert (without.results[0].status, without.results[0].value) == ("not judged", f"{excess:.1%}")
    assert without.results[0].reason == (
        f"{of_shares}: the error of the second share is not known, so this may be chance. Audit rows that are in "
        "memory, at least 20 of them, and in at least 20 blocks if they are in blocks"
    )
    assert not without.passed
    assert not without.failures


@pytest.mark.quick
def test_inflation_is_not_judged_from_two_units():
    """The debiased share of the first feature is far below its reported one, and that is no bias."""
    audit = dataclasses.replace(
        audit_of([1, 1, 0, 0, 0, 0], [1, 9, 0, 0, 0, 0]), reported_unseen=None, no_unseen_because="it is a cover"
    )
    (result,) = audit.check({"max_inflation": 0.0}).results
    assert (result.status, result.value) == ("not judged", "none")
    assert "it is a cover" in result.reason
    assert "another unit" in result.reason
    nothing = dataclasses.replace(audit, reported_unseen=np.zeros(6), no_unseen_because=None)
    assert nothing.check({"max_inflation": 0.0}).results[0].status == "not judged"


@pytest.mark.parametrize(("at", "wanted"), [(a, w) for a in range(5) for w in range(5)])
def test_provenance_is_ordered(at, wanted):
    levels = list(PROVENANCE)
    audit = audit_of([1, 0, 0, 0, 0, 0])
    for status in PROVENANCE[levels[at]]:
        audit.tested_scores.provenance["status"] = status
        assert audit.check({"min_provenance": levels[wanted]}).passed == (at >= wanted)


def test_every_status_of_the_code_has_its_place():
    from pathlib import Path

    import debias.rows.provenance

    text = Path(debias.rows.provenance.__file__).read_text()
    listed = re.search(r"status : str\n(.*?)detail", text, re.S).group(1)
    assert set(re.findall(r'"(.*?)"', re.sub(r"\s+", " ", listed))) == {s for each in PROVENANCE.values() for s in each}


def test_training_rows_and_missing_baselines_are_refused():
    audit = audit_of([1, 0, 0, 0, 0, 0])
    with pytest.raises(debias.RowsError, match="training rows cannot pass a gate"):
        made(NAMES, rows="train").check({"min_rows": 1})
    with pytest.raises(debias.errors.PolicyError, match="max_rank_change need a baseline"):
        audit.check({"max_rank_change": 1})
    with pytest.raises(debias.errors.PolicyError, match="the baseline has none: .*without a test"):
        audit.check({"max_rank_change": 1}, made(NAMES, tested=False))


def test_what_was_not_tested_or_reported_does_not_pass():
    untested = made(NAMES, tested=False)
    for rule in ({"max_unsupported_share": 1.0}, {"must_be_informative": ["age"]}, {"must_not_matter": ["age"]}):
        (result,) = untested.check(rule).results
        assert (result.status, "without a test" in result.reason) == ("failed", True)
    silent = made(NAMES, reported=False)
    for rule in ({"max_unsupported_share": 1.0}, {"max_inflation": 1.0}):
        assert not silent.check(rule).passed


@pytest.mark.parametrize(
    "rule",
    [
        {"must_not_matter": ["noise"]},
        {"must_be_informative": ["age"]},
        {"min_informative": 0},
        {"max_unsupported_share": 1.0},
    ],
)
def test_verdicts_of_a_test_that_can_find_nothing_do_not_pass(rule):
    audit = audit_of([1, 0, 0, 0, 0, 0])
    assert audit.check(rule).passed
    (result,) = with_main(audit, threshold=None).check(rule).results
    assert (result.status, "too few permutations" in result.reason) == ("failed", True)


def test_shares_of_a_model_that_reports_no_importance_at_all_are_not_judged_and_do_not_pass():
    zeros = dataclasses.replace(audit_of([1, 1, 0, 0, 0, 0]), reported=np.zeros(6))
    for audit in (zeros, made(NAMES, reported=False)):
        for rule in ({"max_unsupported_share": 0.5}, {"max_inflation": 0.5}):
            outcome = audit.check(rule)
            (result,) = outcome.results
            assert (result.status, "no importance for any feature" in result.reason) == ("not judged", True)
            assert not outcome.passed


def with_main(audit, **changes):
    return dataclasses.replace(audit, scores={"mdi_oob": dataclasses.replace(audit.tested_scores, **changes)})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"values": np.full(6, np.nan)}, "values has numbers that are not finite"),
        ({"values": np.array([1, 0, 0, 0, 0, np.inf])}, "values has numbers that are not finite"),
        ({"values": np.ones(5)}, r"values has shape \(5,\) for 6 features"),
        ({"z": np.full(6, np.nan)}, "z has numbers that are not finite"),
        ({"feature_names": ("a", "b", "c", "d", "e", "a")}, "'a' twice"),
        ({"selected": np.zeros(6, dtype=bool)}, "selected contradicts p_adjusted"),
        ({"rows": None}, "rows of kind None"),
        ({"provenance": {}}, "no status"),
    ],
)
def test_an_audit_that_does_not_fit_together_is_not_judged(changes, message):
    sound = audit_of([1, 0, 0, 0, 0, 0])
    broken = with_main(sound, **changes)
    with pytest.raises(debias.DebiasError, match=f"the audit cannot be checked: .*{message}"):
        broken.check({"min_rows": 1})
    with pytest.raises(debias.DebiasError, match=f"the baseline cannot be checked: .*{message}"):
        sound.check({"min_rows": 1}, broken)


def test_a_baseline_is_an_audit():
    audit = audit_of([1, 0, 0, 0, 0, 0])
    for baseline in ("old.json", audit.to_dict(), audit.tested_scores):
        with pytest.raises(debias.errors.PolicyError, match=r"the baseline is a .*, not an Audit.*from_json"):
            audit.check({"max_share_change": 0.1}, baseline)


def test_a_gate_is_true_if_and_only_if_every_rule_passed():
    audit = audit_of([1, 0, 0, 0, 0, 0])
    assert audit.check({"min_rows": 500})
    assert not audit.check({"min_rows": 501})
    assert not Gate(())
    assert not Gate((Result("a", "not judged", "", "", ""),))


def test_with_too_few_rows_what_must_not_matter_is_not_judged_unless_it_matters():
    audit = audit_of([1, 0, 0, 0, 0, 0])
    found = outcome(audit, {"min_rows": 501, "must_not_matter": ["noise", "age"]})
    assert [each.status for each in found.values()] == ["failed", "not judged", "failed"]


def test_rows_that_look_like_training_rows_fail_unless_the_policy_takes_the_word_for_it():
    audit = audit_of([1, 0, 0, 0, 0, 0], rows="held-out")
    for status, passed in (("stated by the user", False), ("cannot be told", True), ("of a later version", False)):
        audit.tested_scores.provenance["status"] = status
        assert audit.check({"min_rows": 1}).passed == passed
    assert not audit.check({"min_provenance": "stated"}).passed  # a status that has no place
    audit.tested_scores.provenance["status"] = "stated by the user"
    assert audit.check({"min_provenance": "stated"}).passed


def test_rows_of_which_a_part_looks_like_training_rows_beyond_doubt_fail_unless_the_policy_accepts_the_unknown():
    audit = audit_of([1, 0, 0, 0, 0, 0], rows="held-out")
    for what, passed in (
        ("are training rows", False),
        ("are training rows of trees 0 to 14", False),
        ("may be training rows", True),
    ):
        detail = f"about 49% of these rows {what}, as estimated from the leaf counts (rows ...)"
        audit.tested_scores.provenance.update(status="cannot be told", detail=detail, training_share=0.49)
        result = outcome(audit, {"min_rows": 1})["min_provenance"]
        assert (result.status, result.value) == ("passed" if passed else "failed", "unknown")
        assert ('set min_provenance = "unknown"' in result.reason) != passed
        assert audit.check({"min_rows": 1}).passed == passed
        assert audit.check({"min_provenance": "unknown"}).passed


def shifted(rows, status, **entries):
    audit = audit_of([1, 0, 0, 0, 0, 0], rows=rows)
    return with_main(audit, provenance=audit.tested_scores.provenance | {"kind": rows, "status": status} | entries)


FRESH = ("held-out", "not recognised as training rows")


@pytest.mark.parametrize(("shift", "status"), [(0.0, "passed"), (0.3, "passed"), (0.301, "failed"), (1.4, "failed")])
def test_rows_that_are_shifted_fail_and_the_shifted_features_are_named(shift, status):
    audit = shifted(*FRESH, shift=shift, shifted_features=["income", "age"] if shift else [])
    for each in (audit, debias.Audit.from_json(audit.to_json())):
        (result,) = each.check({"max_shift": 0.3}).results
        assert (result.status, result.value, result.limit) == (status, f"{shift:.2f}", "<= 0.3")
        assert ("on 'income', 'age'" if shift else "within chance") in result.reason


@pytest.mark.parametrize("entries", [{}, {"shift": None, "shifted_features": []}])
@pytest.mark.parametrize("status", [status for level in PROVENANCE.values() for status in level])
def test_a_shift_that_cannot_be_told_fails_but_for_proven_training_rows(status, entries):
    rows = "oob" if "proven" in status else "held-out"
    *_, result = shifted(rows, status, **entries).check({"max_shift": 1}).results
    expected = ("passed", "there is no shift") if rows == "oob" else ("failed", "could not be compared")
    assert (result.status, expected[1] in result.reason) == (expected[0], True)


def test_of_several_models_the_one_that_knows_least_of_the_rows_counts():
    found = [
        dataclasses.replace(
            shifted("held-out", status, shift=shift, shifted_features=names).tested_scores,
            p_value=None,
            p_adjusted=None,
        )
        for status, shift, names in (
            ("not recognised as training rows", 0.5, ["age"]),
            ("stated by the user", 0.2, ["income", "age"]),
            ("cannot be told", 0.0, []),
        )
    ]
    members = [Member(None, None, None, None, path=("vote", name)) for name in "abc"]
    for member in members:
        vars(member)["ensemble"] = toy_rows(TASKS[0]).ensemble
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        together = combined([members[k] for k in order], [found[k] for k in order])
        assert together.provenance["status"] == "stated by the user"
        assert together.provenance["shift"] == 0.5
        assert set(together.provenance["shifted_features"]) == {"age", "income"}
    untold = dataclasses.replace(found[0], provenance=found[0].provenance | {"shift": None})
    assert combined(members[:2], [untold, found[1]]).provenance["shift"] is None


@pytest.mark.parametrize("shift", ["1.0", True, float("nan"), float("inf"), [1.0]])
def test_a_shift_that_is_no_number_fails(shift):
    (result,) = shifted(*FRESH, shift=shift).check({"max_shift": 1}).results
    assert (result.status, "not a number" in result.reason) == ("failed", True)


def test_drift_names_features_whose_standing_changed_with_the_numbers():
    old = audit_of([1, 1, 1, 0, 0, 0], [50, 30, 20, 0, 0, 0])
    new = audit_of([1, 1, 0, 1, 0, 0], [20, 50, 0, 30, 0, 0])
    gate = new.check({"max_rank_change": 1, "max_share_change": 0.25}, old)
    words = [change.in_words() for change in gate.changes]
    assert sorted(words) == sorted(
        [
            "age: rank 1, 50.0%, informative -> rank 3, 20.0%, informative",
            "customer_id: rank 4, 0.0%, unconfirmed alone -> rank 2, 30.0%, informative",
            "city: rank 3, 20.0%, informative -> rank 4, 0.0%, unconfirmed alone",
            "income: rank 2, 30.0%, informative -> rank 1, 50.0%, informative",
        ]
    )
    rank, share = gate.results
    assert (rank.status, rank.value) == ("failed", "2")
    assert rank.reason == "ranks changed: age from 1 to 3, customer_id from 4 to 2"
    assert (share.status, share.value, share.reason) == ("failed", "30.0%", "age: from 50.0% to 20.0%")
    assert new.check({"max_rank_change": 2, "max_share_change": 0.31}, old).passed


def test_changed_verdicts_are_counted_among_the_features_of_both():
    old, new = audit_of([1, 1, 1, 0, 0, 0]), audit_of([1, 1, 0, 1, 0, 0])
    (result,) = new.check({"max_verdict_changes": 1}, old).results
    assert (result.status, result.value) == ("failed", "2")
    assert "city from informative to unconfirmed alone" in result.reason
    assert new.check({"max_verdict_changes": 2}, old).passed


def test_noise_that_stays_noise_has_not_moved():
    old, new = audit_of([1, 1, 1, 0, 0, 0], [5, 3, 2, 0, 0, 0]), audit_of([1, 1, 0, 0, 0, 0], [5, 3, 0, 0, 0.1, 0])
    gate = new.check({"max_rank_change": 0}, old)
    assert [change.feature for change in gate.changes] == ["city"]
    assert old.check({"max_rank_change": 0, "max_share_change": 0}, old).passed
    assert old.check({"max_rank_change": 0}, old).changes == ()


def test_features_that_come_and_go_are_named():
    old, new = audit_of([1, 0], [1, 0], names=["a", "b"]), audit_of([1, 1], [1, 1], names=["a", "c"])
    words = [change.in_words() for change in new.check({"max_rank_change": 0}, old).changes]
    assert "c: not in the model -> rank 1, 50.0%, informative" in words
    assert "b: rank 2, 0.0%, unconfirmed alone -> not in the model" in words
    assert not audit_of([1], [1], names=["z"]).check({"max_rank_change": 9}, old).passed


HOSTILE = "a|b`<script>\n::error::x\x00[l](u)%0A"


def test_junit_has_a_case_a_rule_and_survives_any_name():
    gate = audit_of([0, 1, 1, 1, 1, 1]).check(
        {
            "must_be_informative": ["age"],
            "must_not_matter": [{"name": HOSTILE, "optional": True}],
            "min_rows": 10**6,
            "max_unsupported_share": 0.5,
        }
    )
    root = ElementTree.fromstring(gate.to_junit())
    (suite,) = root
    counts = {key: suite.get(key) for key in ("tests", "failures", "skipped", "errors")}
    assert counts == {"tests": "4", "failures": "2", "skipped": "0", "errors": "1"}
    failed = {case.get("name"): case.find("failure") for case in suite}
    assert "unconfirmed alone" in failed["must_be_informative: age"].get("message")
    assert failed["max_unsupported_share"] is None
    (unjudged,) = (case for case in suite if case.find("error") is not None)
    assert unjudged.get("name") == "max_unsupported_share"
    (suite,) = ElementTree.fromstring(gate.allowing("max_unsupported_share").to_junit())
    assert (suite.get("skipped"), suite.get("errors"), suite.get("failures")) == ("1", "0", "2")


@pytest.mark.parametrize(
    ("statuses", "allowed", "status", "code"),
    [
        (["passed", "passed"], [], "passed", 0),
        (["passed", "not judged"], [], "not judged", 4),
        (["not judged", "failed"], [], "failed", 1),
        (["passed", "not judged"], ["b"], "passed", 0),
        (["passed", "not judged"], ["a"], "not judged", 4),
        (["passed", "failed"], ["b"], "failed", 1),
        ([], [], "not judged", 4),
    ],
)
def test_every_form_of_the_outcome_tells_the_same(statuses, allowed, status, code):
    rules = [f"{name}: x" for name in "ab"]
    gate = Gate(tuple(Result(rule, each, "v", "l", "r") for rule, each in zip(rules, statuses, strict=False)))
    gate = gate.allowing(*allowed)
    assert (gate.status, gate.exit_code, gate.passed, bool(gate)) == (status, code, code == 0, code == 0)
    plain = json.loads(gate.to_json())
    assert (plain["status"], plain["exit_code"], plain["passed"]) == (status, code, code == 0)
    assert repr(gate).startswith(f"Gate {status}: ")
    assert gate.to_markdown().startswith(f"## debias check: {status}")
    root = ElementTree.fromstring(gate.to_junit())
    n_failures, n_errors = int(root.get("failures")), int(root.get("errors"))
    assert (n_failures > 0) == (status == "failed")
    assert n_failures == len(root.findall(".//failure"))
    assert n_errors == len(root.findall(".//error"))
    assert (n_errors > 0) == ("not judged" in statuses and not allowed.count("b"))
    lines = gate.to_annotations()
    assert sum(line.startswith("::error") for line in lines) == n_failures
    assert sum(line.startswith("::warning") for line in lines) == statuses.count("not judged")


def test_markdown_and_annotations_cannot_be_broken_by_a_name():
    audit = made([HOSTILE, "b"], informative=[True, False])
    gate = audit.check({"must_not_matter": [HOSTILE]})
    rows = [line for line in gate.to_markdown().splitlines() if line.startswith("| must")]
    assert len(rows) == 1
    assert len(re.findall(r"(?<!\\)\|", rows[0])) == 6
    assert "<script" not in rows[0]
    (line,) = gate.to_annotations()
    assert "\n" not in line
    assert line.startswith("::error title=debias check::must_not_matter")
    assert "%250A" in line


def test_no_name_can_print_a_line_of_its_own(capsys):
    """A line of stdout or stderr that begins with :: is a command to a GitHub runner."""
    from rich.console import Console

    from debias.cli.output import warn
    from debias.results.console import print_gate

    names = ["a", "b\n::stop-commands::x\r\nThe gate passed.\u2028"]
    now, before = made(names, informative=[False, True]), made(names, informative=[True, False])
    gate = now.check({"must_not_matter": [names[1]], "min_informative": 0}, before)
    print_gate(Console(width=200), gate)
    warn((names[1],))
    printed = capsys.readouterr()
    lines = (printed.out + printed.err).splitlines()
    assert "The gate failed: must_not_matter: b\\n::stop-commands::x" in printed.out
    assert not [line for line in lines if line.strip().startswith("::") or line == "The gate passed."]


def test_the_outcome_is_plain_json_and_csv():
    gate = audit_of([1, 1, 0, 0, 0, 0]).check({"min_rows": 1}, audit_of([1, 0, 0, 0, 0, 0]))
    plain = json.loads(gate.to_json())
    assert plain["passed"] is True
    assert plain["results"][0]["rule"] == "min_rows"
    assert {"feature", "rank", "share", "verdict"} == set(plain["changes"][0])
    assert gate.to_csv().splitlines()[0] == "rule,status,value,limit,reason"


@pytest.mark.filterwarnings("ignore::debias.errors.DebiasWarning")
def test_unseen_categories_and_repeated_rows_have_rules():
    rng = np.random.default_rng(0)
    shop, x = rng.integers(0, 3, 600), rng.normal(size=600)
    X = pd.DataFrame({"shop": pd.Categorical(np.array(list("abc"))[shop]), "x": x})
    y = x + shop + 0.1 * rng.normal(size=600)
    model = lightgbm.LGBMRegressor(n_estimators=5, verbose=-1, n_jobs=1).fit(X[:300], y[:300])
    X, y = X[300:].reset_index(drop=True), y[300:]
    healthy = debias.audit(model, X, y, ["mdi_oob"], test=None)
    strict = {"max_unseen": 0.0, "max_repeated": 0.0}
    assert healthy.check(strict).status == "passed"
    X["shop"] = X["shop"].cat.add_categories("new")
    X.loc[:29, "shop"] = "new"
    twice = np.append(np.arange(300), np.arange(250, 300))
    odd = debias.audit(model, X.iloc[twice], y[twice], ["mdi_oob"], test=None)
    unseen, repeated = odd.check(strict).failures[-2:]
    assert (unseen.rule, repeated.rule) == ("max_unseen", "max_repeated")
    assert unseen.reason == "rows with a category that the model never saw: shop 8.6%"  # 30 of 350
    assert repeated.reason == "14.3% of these rows repeat another row"  # 50 of 350
    assert debias.Audit.from_json(odd.to_json()).check({"max_unseen": 0.09, "max_repeated": 0.15}).status == "passed"

    class Batches:
        def __iter__(self):
            return iter([(X, y)])

    in_batches = debias.audit(model, Batches(), None, scorers=["mdi_oob"], test=None)
    assert in_batches.check({"max_unseen": 1.0, "max_repeated": 1.0}).status == "not judged"


@pytest.mark.parametrize(
    ("policy", "status"),
    [
        ({"min_rows": 10}, "passed"),
        ({"min_rows": 501, "must_not_matter": ["c"]}, "failed"),
        ({"max_unseen": 0.1}, "not judged"),
    ],
)
def test_outcomes_keep_the_schema(policy, status):
    audit, baseline = made("abc"), made("abd", seed=1)
    outcome = json.loads(audit.check(policy, baseline).allowing("max_shift").to_json())
    assert (outcome["status"], bool(outcome["changes"])) == (status, True)
    schema = json.loads((Path(__file__).parents[2] / "docs/schema/gate.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(outcome, schema)
    for wrong in ({"exit_code": 3}, {"passed": status != "passed"}, {"spare": 1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(outcome | wrong, schema)
