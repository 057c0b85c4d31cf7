"""What an audit says of what to keep, to drop and to look at, computed again from its table."""

import re
from collections import Counter
from dataclasses import replace

import pytest

from debias.results.answers import DROP, KEEP, LOOK_AT, NOTHING_ELSE, answers
from results.test_sentences import Facts, named, verdict_condition, whole
from results.test_vocabulary import with_dependence
from support.audits import made
from support.drawn_audits import drawn

ALONE = "This audit found no feature that matters by itself. That is no reason to drop all of them."
NOT_TESTED = "No feature was tested, so this audit does not say which features matter."


def kept(facts, names, verb, them, condition):
    named(names, facts.informative, most=10)
    assert (verb, them) == (("is", "it") if len(facts.informative) == 1 else ("are", "them"))
    verdict_condition(facts, condition)


def doubted(facts, names, verb, condition):
    assert ", but" in condition
    kept(facts, names, verb, "it" if verb == "is" else "them", condition)


def related(facts):
    """Features that the response depends on and that are not informative: those that no tree splits on, and others."""
    if "dependence" not in facts.table:
        return [], []
    found = facts.table.index[(facts.verdict == "indistinguishable") & (facts.table["dependence"] == "dependent")]
    unused = facts.tested_scores.details.get("unused_features", [])
    return [name for name in found if name in unused], [name for name in found if name not in unused]


def little_used(facts, names, them):
    unconfirmed = related(facts)[1]
    named(names, unconfirmed, most=10)
    assert them == ("it" if len(unconfirmed) == 1 else "them")


def unused(facts, names, them):
    not_used = related(facts)[0]
    named(names, not_used, most=10)
    assert them == ("it" if len(not_used) == 1 else "them")


def none_kept(facts):
    assert facts.audit.tested
    assert not facts.informative


def not_tested(facts):
    assert set(facts.verdict) == {"untested"}


def not_said(facts):
    assert facts.n


def warned(facts, verb, n, noun):
    assert whole(n) == len(facts.audit.warnings) > 0
    assert (verb, noun) == (("is", "warning") if n == "1" else ("are", "warnings"))


def nothing_else(facts):
    assert not facts.audit.warnings
    assert not any("too high" in line or "leak" in line for line in facts.audit.summary())


PATTERNS = {
    KEEP: {
        r"(.+) (is|are) informative: what the model does with (it|them) holds on rows that it has not seen"
        r"(, if [a-z\d%, ]+)?\.": kept,
        r"(.+?) (is|are) informative(, (?:if [a-z ]+, )?but [a-z\d%, ]+)\.": doubted,
        r"The response also depends on (.+)\. What this model does with (it|them) is not confirmed\.": little_used,
        r"The response also depends on (.+)\. No tree splits on (it|them)\.": unused,
        re.escape(ALONE): none_kept,
        re.escape(NOT_TESTED): not_tested,
    },
    DROP: {
        r"This audit does not say which features may go\. debias\.droppable answers that: it fits the model again "
        r"without them, so it needs a model that can be fitted again\.": not_said,
    },
    LOOK_AT: {re.escape(NOTHING_ELSE): nothing_else, r"There (is|are) ([\d,]+) (warnings?)\.": warned},
}


@pytest.mark.thorough
def test_every_answer_is_true_of_the_table():
    used = Counter()
    for seed in range(80):
        audit = with_dependence(drawn(seed), seed)
        if seed % 3 == 0:
            warnings = tuple(f"warning {k}" for k in range(1 + seed % 2))
            scores = replace(audit.tested_scores, warnings=warnings)
            audit = replace(audit, scores={**audit.scores, "mdi_oob": scores})
        facts = Facts(audit)
        told = answers(audit)
        assert list(told) == [KEEP, DROP, LOOK_AT]
        for question, lines in told.items():
            for line in lines:
                fitting = [(f, m) for p, f in PATTERNS[question].items() if (m := re.fullmatch(p, line))]
                if question != KEEP and not fitting:
                    assert line in audit.summary()  # tested with the other sentences of a summary
                    continue
                [(check, match)] = fitting
                check(facts, *match.groups())
                used[check.__name__] += 1
        assert len(told[KEEP]) == 1 + sum(map(bool, related(facts)))
        rest_is_used = audit.rest is not None and not set(audit.rest.features) <= set(audit.unused_features)
        assert len(told[DROP]) == 1 + rest_is_used + bool(audit.unused_features)
    assert min(used[f.__name__] for each in PATTERNS.values() for f in each.values()) > 1, used


def test_no_question_is_left_without_an_answer():
    nothing = "This audit found nothing else to look at."
    said = [
        answers(replace(made(["income", "age"], informative=[1, 0]), reported=None)),
        *(answers(drawn(seed)) for seed in range(60)),
    ]
    assert all(lines for each in said for lines in each.values())
    assert said[0][LOOK_AT] == [nothing]
    assert all(nothing not in each[LOOK_AT] or len(each[LOOK_AT]) == 1 for each in said)


def test_what_to_look_at_is_all_that_a_summary_says_of_a_bias_a_leak_and_the_untested():
    for seed in range(60):
        audit = drawn(seed)
        said = answers(audit)[LOOK_AT]
        begins = ("Reported too high", "Not tested", "No feature was tested") if audit.tested else ("No feature was",)
        of_summary = [
            line
            for line in audit.summary()
            if line.startswith(begins)
            or (audit.tested and ("may be a leak" in line or "may be leaks" in line or "nearly the same" in line))
        ]
        assert [line for line in said if line in of_summary] == of_summary


@pytest.mark.parametrize("informative", [[1, 0], [0, 0], [1, 1]])
def test_an_audit_names_no_feature_to_drop(informative):
    said = answers(made(["income", "age"], informative=informative))
    assert not any("income" in line or "age" in line for line in said[DROP])
