"""Markdown, briefs and explanations of an audit: each sentence and number is computed again from its table."""

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import debias
from debias.results.answers import answers
from debias.results.brief import MOST_BYTES
from debias.results.tables import for_markdown
from debias.text import UNKNOWN, percent_in_table
from results.test_sentences import PERCENT, Facts, headline_condition, shows, verdict_condition, whole
from results.test_vocabulary import with_dependence
from support.audits import made
from support.drawn_audits import drawn
from support.pages import HOSTILE

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/schema/brief.schema.json").read_text())
RANK = r"(rank|tied for rank) ([\d,]+) of ([\d,]+)"


def ranked(values, k, tied, rank, n):
    assert whole(n) == len(values)
    assert whole(rank) == 1 + (values > values[k]).sum()
    assert (tied == "tied for rank") == ((values == values[k]).sum() > 1)


def about(facts, k, name, share, tied, rank, n, n_rows, noun, part, kind, of_reported):
    assert name == facts.tested_scores.feature_names[k]
    ranked(facts.tested_scores.values, k, tied, rank, n)
    assert shows(share, facts.share[name])
    assert whole(n_rows) == facts.tested_scores.n_rows
    assert noun == ("row" if n_rows == "1" else "rows")
    assert (part is not None) == (facts.audit.reported is not None)
    if part is not None:
        assert kind == facts.audit.reported_kind
        assert shows(part, facts.audit.reported[k])
        ranked(facts.audit.reported, k, *re.fullmatch(RANK, of_reported).groups())


def verdict(facts, k, found, numbers, condition, after):
    name, scores = facts.tested_scores.feature_names[k], facts.tested_scores
    wanted = {"informative": "informative", "not confirmed alone": "indistinguishable"}[found]
    assert facts.verdict[name] == wanted
    assert (after is None) == (wanted == "informative")
    (verdict_condition if wanted == "informative" else headline_condition)(facts, condition)
    told = (numbers or "").split(", ")
    if scores.z is not None:
        assert float(told.pop(0).removeprefix("z ")) == pytest.approx(scores.z[k], abs=0.00501)
    if scores.p_adjusted is not None:
        p_is(told.pop(0).removeprefix("adjusted p "), scores.p_adjusted[k])
    if "alpha" in facts.test:
        assert float(re.search(r"([\d.]+)%", told.pop(0))[1]) == pytest.approx(100 * facts.test["alpha"])
    assert told in ([], [""], ["not adjusted for multiple testing"])


def p_is(text, p):
    assert (text == "< 0.001") == (p < 0.001)
    assert text == "< 0.001" or float(text) == pytest.approx(p, abs=0.000501)


def not_tested(facts, k, reason):
    assert facts.audit.untested_because == reason


def unused(facts, k):
    scores = facts.tested_scores
    assert scores.feature_names[k] in scores.details["unused_features"]
    dependence = facts.audit.dependence
    related = dependence is not None and dependence[k] == "dependent"
    assert facts.audit.finding[k] == ("related, no splits" if related else "no splits")


def of_dependence(facts, k, p, unconfirmed):
    scores = facts.audit.scores["honest_effects"]
    assert scores.selected[k]
    p_of(scores, k, p)
    is_used = facts.tested_scores.feature_names[k] not in facts.tested_scores.details.get("unused_features", ())
    assert (unconfirmed is not None) == (is_used and facts.audit.verdict[k] == "indistinguishable")


def of_no_dependence(facts, k, p):
    scores = facts.audit.scores["honest_effects"]
    assert not scores.selected[k]
    p_of(scores, k, p)


def p_of(scores, k, text):
    assert (text is None) == (scores.p_adjusted is None)
    if text is not None:
        p_is(text, scores.p_adjusted[k])


def the_rows(facts, k):
    assert facts.audit.dependence is None or not facts.audit.tested


def nearly_the_same(facts, k, names, unconfirmed):
    scores = facts.tested_scores
    name = scores.feature_names[k]
    sets = [each.features for each in facts.audit.near_duplicates or ()]
    if unconfirmed:
        assert not scores.selected[k]
        sets = [each["features"] for each in scores.details["unconfirmed_twins"]]
    [each] = [each for each in sets if name in each]
    others = [other for other in each if other != name]
    shown = re.split(", | and ", names)
    assert shown[: len(others[:5])] == others[:5]


PATTERNS = {
    rf"(.+?) has ({PERCENT}) of the debiased scores \({RANK}\) on ([\d,]+) [a-z -]+ (rows?)\.(?: The model reports "
    rf"({PERCENT}) of the importance by (.+) for it \((.+)\)\.)?": about,
    r"It is (informative|not confirmed alone)(?: \((.*)\))?(, (?:if|but) [a-z\d%, ]+)?\.( This alone is no reason "
    r"to drop it\.)?": verdict,
    r"It was not tested: (.+)\.": not_tested,
    r"No tree of this model splits on it\. A model that is trained again may use "
    r"it\.": unused,
    r"The response depends on it in the nodes of the trees(?: \(adjusted p (.+?)\))?(, although what "
    r"this model does with it is not confirmed)?\.": of_dependence,
    r"No dependence of the response on it was detected in the nodes of the trees(?: \(adjusted p (.+)\))?\.": (
        of_no_dependence
    ),
    r"Scored on .+": the_rows,
    r"It is nearly the same column as (.+) \(absolute rank correlation .+\): they may share their score\.( None of "
    r"them is confirmed alone; debias\.clusters tests them together\.)?": nearly_the_same,
}


@pytest.mark.thorough
def test_every_explanation_is_true_of_the_table():
    used = Counter()
    for seed in range(80):
        audit = drawn(seed) if seed % 2 else with_dependence(drawn(seed), seed)
        facts = Facts(audit)
        for k, name in list(enumerate(audit.tested_scores.feature_names))[:12]:
            lines = audit.explain(name)
            in_set = any(name in each.features for each in audit.near_duplicates or ())
            in_set += any(name in each["features"] for each in audit.tested_scores.details.get("unconfirmed_twins", ()))
            assert len(lines) == 3 + in_set
            for line in lines:
                [(check, match)] = [(f, m) for p, f in PATTERNS.items() if (m := re.fullmatch(p, line))]
                check(facts, k, *match.groups())
                used[check.__name__] += 1
    assert min(used[each.__name__] for each in PATTERNS.values()) > 5, used


def test_a_feature_that_could_not_be_tested_has_no_number():
    audit = made(["income", "empty"], informative=[1, 0])
    scores = audit.tested_scores
    details = {**scores.details, "untested_features": {"empty": "it has only one value on these rows"}}
    values = scores.values * [1, 0]
    audit = replace(audit, scores={"mdi_oob": replace(scores, values=values, details=details)})
    first, second, _ = audit.explain("empty")
    assert first.startswith("empty has no debiased score on these rows. The model reports ")
    assert second == "It was not tested: it has only one value on these rows."


def test_an_unknown_feature_is_refused_with_the_most_similar_name():
    with pytest.raises(debias.DebiasError, match=r"no feature 'incom'. The most similar: income"):
        made(["income", "age"]).explain("incom")


@pytest.mark.thorough
def test_a_brief_keeps_its_schema_and_its_numbers_are_those_of_the_table():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    for seed in range(80):
        audit = drawn(seed) if seed % 2 else with_dependence(drawn(seed), seed)
        plain, frame = audit.to_dict(brief=True), audit.to_frame()
        text = json.dumps(plain)
        jsonschema.validate(json.loads(text), SCHEMA)
        assert len(text) < MOST_BYTES
        assert plain["answers"] == answers(audit)
        assert plain["headline"] == audit.summary()[:1] or not audit.tested
        assert plain["verdicts"] == frame["verdict"].value_counts().to_dict()
        assert plain["n_features_left_out"] == len(frame) - len(plain["features"])
        assert [entry[0] for entry in plain["features"]] == list(frame.index[: len(plain["features"])])
        for column, name in list(enumerate(plain["columns"]))[1:]:
            for entry, value in zip(plain["features"], frame[name], strict=False):
                if isinstance(value, str):
                    assert entry[column] == value
                else:
                    assert entry[column] == (None if np.isnan(value) else pytest.approx(value, rel=0.0051))


def test_long_names_that_are_not_ascii_leave_room_for_numbers():
    names = [f"очень длинное имя столбца номер {k}" for k in range(20)]
    audit = made(names, seed=1, informative=[1] * 14 + [0] * 6)
    assert len(json.dumps(answers(audit)).encode()) > MOST_BYTES / 2
    plain = audit.to_dict(brief=True)
    assert len(json.dumps(plain)) < 4000
    assert len(plain["features"]) >= 3
    assert plain["answers"]["Keep"][0].endswith("holds on rows that it has not seen.")
    assert "and 11 more are informative" in plain["answers"]["Keep"][0]


def test_thirty_features_are_in_a_brief_and_in_20_kilobytes_of_json():
    audit = with_dependence(made([f"column_{k}" for k in range(30)], n_permutations=199), 0)
    assert audit.to_dict(brief=True)["n_features_left_out"] <= 5
    assert len(json.dumps(audit.to_dict(brief=True))) < 4000
    assert len(audit.to_json().encode()) < 20_000
    long_names = with_dependence(made([f"column_{k:053}" for k in range(30)], n_permutations=199), 0)
    assert {len(name) for name in long_names.tested_scores.feature_names} == {60}
    assert len(long_names.to_json(indent=None).encode()) < 20_000
    assert len(long_names.to_json().encode()) < 21_500


@pytest.mark.thorough
def test_markdown_has_each_cell_and_says_what_the_others_have():
    used = Counter()
    for seed in range(40):
        audit = drawn(seed)
        text, frame = audit.to_markdown(max_features=10), audit.to_frame()
        rows = [line for line in text.splitlines() if line.startswith("| f")][1:]
        cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in rows]
        heads = next(line for line in text.splitlines() if line.startswith("| feature")).strip("|").split(" | ")
        at = [head.strip() for head in heads].index("debiased")
        names = [cell[0].replace("\\", "") for cell in cells]
        for name, row in zip(names, cells, strict=True):
            wanted = percent_in_table(frame["share"][name])
            assert row[at].replace("&lt;", "<").replace("\\", "") == (UNKNOWN if wanted == "nan" else wanted)
        for question, lines in answers(audit).items():
            assert f"**{question}**" in text
            assert all(f"- {for_markdown(line)}" in text for line in lines)
        assert all(for_markdown(line) in text for line in audit.summary())
        others = frame.drop(index=names)
        found = re.search(r"\n\nThe other (?:([\d,]+) features|feature) (.*)\.\n", text)
        assert (found is None) == (len(others) == 0)
        if found is None:
            continue
        assert whole(found[1] or "1") == len(others)
        said = found[2].replace("&lt;", "<")
        for words, column in (("of the reported importance", "reported"), ("of the debiased scores", "share")):
            if part := re.search(rf"({PERCENT}) {words}", said):
                assert shows(part[1], others[column].sum())
                used[column] += 1
        if number := re.search(r"(none|[\d,]+) of them (is|are) informative", said):
            n = int((others["verdict"] == "informative").sum())
            assert number[1] == (f"{n:,}" if n else "none")
            assert number[2] == ("is" if n < 2 else "are")
            used["verdict"] += 1
        assert ("of them" in said) == audit.tested
    assert min(used[name] for name in ("reported", "share", "verdict")) > 5, used


def test_names_stay_text_in_markdown(tmp_path):
    text = made(HOSTILE).to_markdown(tmp_path / "audit.md")
    assert (tmp_path / "audit.md").read_text(encoding="utf-8") == text
    assert "<" not in text.replace("&lt;", "")
    table = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(table) == 1 + len(HOSTILE)
    columns = {len(re.findall(r"(?<!\\)\|", line)) for line in table}
    assert len(columns) == 1
