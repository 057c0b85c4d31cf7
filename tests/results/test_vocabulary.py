"""Words of results are displayed as one table says: if every word in it changes, all that is shown changes with it."""

import codecs
import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from debias.results import vocabulary
from debias.results.console import print_audit, print_changes, print_folds, print_gate
from debias.results.vocabulary import ChangeVerdict, Dependence, Finding, GateStatus, Verdict
from results.test_changes import changes
from support.drawn_audits import drawn
from support.made_over_time import made_folds

KINDS = (Verdict, Dependence, Finding, ChangeVerdict, GateStatus)
ORDINARY = {"untested", "not tested", "failed", "passed", "not judged", "not compared", "not detected", "changed"}
"""Words that sentences also use for other things, such as rows that were not compared."""
PAGES = (0, 1, 2, 3, 4, 5, 7, 8, 10, 12, 13)
"""Drawn audits whose pages run every line of debias/results that the first 15 run."""
SEEDS = (*PAGES, 17, 22, 31, 34, 39)
"""Drawn audits whose texts run every line that the first 40 run."""
HISTORY_RULES = {"must_not_fade": ["income", "age", "city"], "max_shift": 0.2, "must_not_shift": ["income"]}


@pytest.fixture
def other_words(monkeypatch):
    """Return a function that changes each displayed word: rotated letters have the same length and the same spaces."""

    def change():
        for kind in KINDS:
            table = {
                word: replace(display, text=rotated(display.text), phrase=rotated(display.phrase))
                for word, display in vocabulary.DISPLAYS[kind].items()
            }
            monkeypatch.setitem(vocabulary.DISPLAYS, kind, table)

    return change


def rotated(text):
    return codecs.encode(text, "rot13")


WORDS = sorted(
    {
        form
        for kind in KINDS
        for word in kind
        for text in (word.text, word.phrase)
        for form in (text, text.capitalize())
    },
    key=len,
    reverse=True,
)


def restored(text):
    """Return a text with each changed word as it was."""
    changed = {rotated(word): word for word in WORDS}
    return re.sub("|".join(map(re.escape, changed)), lambda found: changed[found[0]], text)


def printed(show, result, width=200):
    file = io.StringIO()
    show(Console(file=file, width=width), result)
    return file.getvalue()


def text_of(page):
    """Return what a page says, without its styles, and without the places of what figures show."""
    return re.sub(r"<[^>]*>", " ", re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL))


def texts_of_audit(seed):
    audit = with_dependence(drawn(seed), seed)
    can_be_checked = audit.tested_scores.rows != "train" and (
        not audit.tested or audit.tested_scores.p_adjusted is not None
    )
    gate = audit.check(rules(audit)) if can_be_checked else None
    yield repr(audit)
    yield from audit.summary()
    yield printed(print_audit, audit)
    if seed in PAGES:
        yield text_of(audit.to_html())
    if gate is not None:
        yield from texts_of_gate(gate)


def with_dependence(audit, seed):
    """Return a tested audit that also has verdicts on dependence."""
    if not audit.tested:
        return audit
    found = np.random.default_rng(seed).random(audit.share.size) < 0.5
    of_dependence = replace(audit.tested_scores, scorer="honest_effects", selected=found)
    return replace(audit, scores={**audit.scores, "honest_effects": of_dependence})


def rules(audit):
    first, last = audit.tested_scores.feature_names[0], audit.tested_scores.feature_names[-1]
    return {
        "must_be_informative": [first],
        "must_not_matter": [last],
        "min_informative": 1,
        "max_unsupported_share": 0.1,
        "min_provenance": "unknown",
    }


def texts_of_gate(gate):
    yield repr(gate)
    yield printed(print_gate, gate)
    yield gate.to_markdown()
    yield gate.to_junit()
    yield from gate.to_annotations()
    yield from (change.in_words() for change in gate.changes)


def texts_of_folds():
    folds = made_folds(["age", "city", "noise"])
    return [repr(folds), *folds.summary(), printed(print_folds, folds), text_of(folds.to_html())]


def texts_of_changes(faded=True):
    made = changes(statistics={"faded": np.array([faded, False, False, False, False])})
    shown = [repr(made), *made.summary(), printed(print_changes, made), text_of(made.to_html())]
    _, *of_gate = texts_of_gate(made.check(HISTORY_RULES))  # the first cuts long values off
    return [*shown, *of_gate]


def texts_of_a_baseline():
    audits = [drawn(seed) for seed in range(60)]
    audits = [
        each for each in audits if each.tested_scores.p_adjusted is not None and each.tested_scores.rows != "train"
    ]
    return [text for audit in audits for text in texts_of_gate(audit.check({"max_shift": 1.0}, audits[0]))]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "texts",
    [*(pytest.param(lambda seed=seed: texts_of_audit(seed), id=f"audit-{seed}") for seed in SEEDS)]
    + [texts_of_folds, texts_of_changes, lambda: texts_of_changes(faded=False), texts_of_a_baseline],
)
def test_all_that_is_shown_follows_the_table_of_words(texts, other_words):
    before = list(texts())
    other_words()
    after = list(texts())
    assert [restored(text) for text in after] == before
    kept = re.compile(rf"\b({'|'.join(re.escape(word) for word in WORDS if word.lower() not in ORDINARY)})\b")
    assert [found[0] for text in after for found in kept.finditer(text.replace("blocks of dependent rows", ""))] == []


@pytest.mark.thorough
def test_every_word_is_shown_somewhere():
    shown = "\n".join(
        [
            *(text for seed in SEEDS for text in texts_of_audit(seed)),
            *texts_of_folds(),
            *texts_of_changes(),
            *texts_of_changes(False),
        ]
    )
    missing = [word for kind in KINDS for word in kind if word.text not in shown.lower()]
    assert missing == []


@pytest.mark.quick
def test_what_is_stored_does_not_change_with_the_words(other_words):
    audit, made = drawn(3), changes()

    def stored():
        gate = json.loads(audit.check(rules(audit)).to_json())
        results = [{name: of[name] for name in ("rule", "status", "value", "limit")} for of in gate["results"]]
        read = type(audit).from_json(audit.to_json())
        return (
            audit.to_csv(),
            list(read.to_frame()["verdict"]),
            results,
            json.loads(made.to_json())["verdict"],
            made.to_csv(),
            [result.value for result in made.check(HISTORY_RULES).results],
        )

    before = stored()
    assert {"informative", "indistinguishable"} & set(before[1])
    other_words()
    assert stored() == before
