"""Tests of reading results from JSON: every field is checked, and other files are refused."""

import dataclasses
import json
import random
from dataclasses import replace

import numpy as np
import pytest

import debias
from debias.results.performance import NearDuplicates
from debias.results.stored import OF_SCORES
from support.audits import made

NAMES = ["age", "income", "city", "customer_id"]
HUGE = 10**400


def written():
    return json.loads(made(NAMES).to_json())


def changed(plain, path, value):
    """Return JSON with the entry at a path, as 'scores.mdi_oob.z', replaced; value `...` takes it away."""
    *above, last = path.split(".")
    inside = plain
    for name in above:
        inside = inside[name]
    if value is ...:
        del inside[last]
    else:
        inside[last] = value
    return json.dumps(plain)


MAIN = "scores.mdi_oob"
MALFORMED = [
    ("scores", {}, "no 'mdi_oob'"),
    ("scores", [], "scores is not a JSON object"),
    ("scores", ..., "has no scores"),
    (MAIN, ..., "no 'mdi_oob'"),
    (MAIN, 3, "scores.mdi_oob is not a JSON object"),
    (f"{MAIN}.schema_version", ..., "no schema_version"),
    (f"{MAIN}.schema_version", 2, "scores of schema version 2"),
    (f"{MAIN}.values", [1.0, 2.0], r"values has shape \(2,\) for 4 features"),
    (f"{MAIN}.values", [[1.0], [2.0], [3.0], [4.0]], "values is not a list of numbers"),
    (f"{MAIN}.values", ["1", "2", "3", "4"], "values is not a list of numbers"),
    (f"{MAIN}.values", [True, 1.0, 1.0, 1.0], "values is not a list of numbers"),
    (f"{MAIN}.values", [None, 1.0, 1.0, 1.0], "values is not a list of numbers"),
    (f"{MAIN}.values", [float("nan"), 1.0, 1.0, 1.0], "NaN"),
    (f"{MAIN}.values", [float("-inf"), 1.0, 1.0, 1.0], "-Infinity"),
    (f"{MAIN}.values", [HUGE, 1.0, 1.0, 1.0], "not finite"),
    (f"{MAIN}.values", [1.7e308, 1.7e308, 1.0, 1.0], "too large to add"),
    (f"{MAIN}.values", "abcd", "values is not a list"),
    (f"{MAIN}.feature_names", ["a", "b", "c"], "values has shape"),
    (f"{MAIN}.feature_names", ["a", "b", "c", "a"], "'a' twice"),
    (f"{MAIN}.feature_names", ["a", "b", "c", 4], "feature_names is not text"),
    (f"{MAIN}.feature_names", "abcd", "feature_names is not a list"),
    (f"{MAIN}.rows", None, "of kind None"),
    (f"{MAIN}.rows", "fresh", "of kind 'fresh'"),
    (f"{MAIN}.n_rows", None, "None rows"),
    (f"{MAIN}.n_rows", 0, "0 rows"),
    (f"{MAIN}.n_rows", 1.5, "n_rows is not a whole number"),
    (f"{MAIN}.n_rows", True, "n_rows is not a whole number"),
    (f"{MAIN}.n_rows", -3, "n_rows is not a whole number"),
    (f"{MAIN}.provenance", {}, "no status"),
    (f"{MAIN}.provenance", {"status": 3, "detail": "x"}, "no status"),
    (f"{MAIN}.provenance.shift", HUGE, "not finite"),
    (f"{MAIN}.details.test", ..., "no details.test"),
    (f"{MAIN}.details.test.alpha", 5, "not an error rate"),
    (f"{MAIN}.details.test.alpha", "0.05", "not an error rate"),
    (f"{MAIN}.details.test.error", "fwr", "not a kind of error rate"),
    (f"{MAIN}.details.test.alpha", 0.95, "selected contradicts p_adjusted"),
    (f"{MAIN}.standard_error", [-1.0, 0.1, 0.1, 0.1], "below 0"),
    (f"{MAIN}.p_adjusted", [0.02, 0.9, 0.9, 1.1], "outside 0 to 1"),
    (f"{MAIN}.p_adjusted", None, "no p_adjusted"),
    (f"{MAIN}.z", None, "no z"),
    (f"{MAIN}.z", ..., "has no scores.mdi_oob.z"),
    (f"{MAIN}.selected", None, "unsupported_share does not follow"),
    (f"{MAIN}.selected", [1, 0, 0, 0], "selected is not a list of true and false"),
    (f"{MAIN}.selected", [False, False, False, False], "selected contradicts p_adjusted"),
    (f"{MAIN}.threshold", [3.0], "threshold is not a list of numbers"),
    (f"{MAIN}.null", [[1.0], [1.0, 2.0]], "different lengths"),
    (f"{MAIN}.null", [1.0], "null is not a list"),
    (f"{MAIN}.spare", 1, "spare is not a field"),
    ("spare", 1, "spare is not a field"),
    ("reported", [0.5, 0.5], r"reported has shape \(2,\)"),
    ("reported", [-0.5, 0.5, 0.5, 0.5], "outside 0 to 1"),
    ("reported", [0.1, 0.1, 0.1, 0.1], "sum to 0.4"),
    ("reported", {"age": 1.0}, "reported is not a list"),
    ("reported_unseen", [0.1, 0.1, 0.1, 0.1], "reported_unseen has shares that sum to 0.4"),
    ("no_unseen_because", "unknown", "no_unseen_because contradicts reported_unseen"),
    ("reported_kind", None, "reported_kind is not text"),
    ("n_values", [1.5, 2, 3, 4], "n_values is not a whole number"),
    ("n_values", [2**70, 2, 3, 4], "n_values is not a whole number"),
    ("n_values", [1, 2], "n_values has shape"),
    ("fingerprints", {"model_blake3": 3}, "fingerprints.model_blake3 is not text"),
    ("near_duplicates", {}, "near_duplicates is not a list"),
    ("near_duplicates", [3], r"near_duplicates\[0\] is not a JSON object"),
    ("near_duplicates", [{"features": ["age"]}], r"no near_duplicates\[0\].correlation"),
    ("near_duplicates", [{"features": ["age", "age"], "correlation": 0.97}], "each feature in one set"),
    ("near_duplicates", [{"features": ["age"], "correlation": 0.97}], "two or more features in each set"),
    ("near_duplicates", [{"features": ["age", "city"], "correlation": 0.97}], "'city', which is no informative"),
    ("near_duplicates", [{"features": ["age", 3], "correlation": 0.97}], r"near_duplicates\[0\].features is not text"),
    ("near_duplicates", [{"features": [], "correlation": 1, "spare": 0}], r"near_duplicates\[0\].spare is not a field"),
    ("share", [0.25, 0.25, 0.25, 0.25], "share does not follow"),
    ("share", [1.5, 0, 0, 0], "share does not follow"),
    ("share", "none", "share does not follow"),
    ("verdict", ["indistinguishable"] * 4, "verdict contradicts"),
    ("verdict", None, "verdict contradicts"),
    ("unsupported_share", None, "unsupported_share does not follow"),
    ("unsupported_share", HUGE, "unsupported_share does not follow"),
    ("unsupported_share", 0.0, "unsupported_share does not follow"),
    ("provenance", [], "provenance is not a JSON object"),
    ("provenance", {"status": "known"}, "provenance.status contradicts"),
    ("schema_version", ..., "no schema_version"),
    ("schema_version", True, "schema_version is True"),
    ("schema_version", [3], "schema_version is a list"),
    ("schema_version", 0, "an audit of schema version 0, .* An older debias wrote it: write it again"),
    ("schema_version", 9, "an audit of schema version 9, .* A newer debias wrote it: update"),
]


@pytest.mark.parametrize(("path", "value", "message"), MALFORMED)
def test_a_malformed_audit_is_refused_by_what_is_wrong(path, value, message):
    text = changed(written(), path, value)
    with pytest.raises(debias.DebiasError, match=message):
        debias.Audit.from_json(text)


def test_what_is_refused_was_fine_before():
    audit = made(NAMES)
    for given in (audit.to_json(), *(audit.to_json().encode(code) for code in ("utf-8", "utf-8-sig", "utf-16"))):
        assert debias.Audit.from_json(given).to_json() == audit.to_json()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot be read as JSON"),
        ("\x00", "cannot be read as JSON"),
        (b"\xff\xfe\xff", "cannot be read as JSON"),
        ("[1]", "not a JSON object"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        ('{"schema_version": 4, "schema_version": 4}', "'schema_version' twice"),
        ("1" * 5000, "cannot be read as JSON"),
        (None, "cannot be read as JSON"),
        ({}, "cannot be read as JSON"),
    ],
)
def test_what_is_no_json_of_ours_is_refused(text, message):
    for kind in (debias.Audit, debias.Scores):
        with pytest.raises(debias.DebiasError, match=message):
            kind.from_json(text)


@pytest.mark.parametrize("levels", [60, 400, 900])
@pytest.mark.parametrize("at", ["details.deep", "provenance.deep", "settings.deep"])
def test_what_has_no_fixed_form_is_not_nested_without_end(levels, at):
    deep = 0
    for _ in range(levels):
        deep = [deep]
    plain = written()
    with pytest.raises(debias.DebiasError, match="nested too deeply"):
        debias.Audit.from_json(changed(plain, f"{MAIN}.{at}", deep))


def test_a_number_too_large_for_a_float_is_not_finite():
    text = made(NAMES).to_json().replace('"alpha": 0.05', '"alpha": 0.05, "spare": 1e999')
    with pytest.raises(debias.DebiasError, match="details has numbers that are not finite"):
        debias.Audit.from_json(text)


def test_near_duplicates_are_read_back():
    audit = replace(made(NAMES, informative=[1, 1, 0, 0]), near_duplicates=(NearDuplicates(("age", "income"), 0.97),))
    assert json.loads(audit.to_json())["near_duplicates"] == [{"features": ["age", "income"], "correlation": 0.97}]
    assert debias.Audit.from_json(audit.to_json()).near_duplicates == audit.near_duplicates


@pytest.mark.parametrize("correlation", [-0.1, 1.1])
def test_a_correlation_is_between_0_and_1(correlation):
    audit = made(NAMES, informative=[1, 1, 0, 0])
    text = replace(audit, near_duplicates=(NearDuplicates(("age", "income"), correlation),)).to_json()
    with pytest.raises(debias.DebiasError, match="correlation outside 0 to 1"):
        debias.Audit.from_json(text)


def test_scores_are_no_audit_and_an_audit_is_no_scores():
    audit = made(NAMES)
    with pytest.raises(debias.DebiasError, match="the scores of one scorer"):
        debias.Audit.from_json(audit.tested_scores.to_json())
    with pytest.raises(debias.DebiasError, match="has no values"):
        debias.Scores.from_json(audit.to_json())


def test_scores_of_other_features_make_no_audit():
    plain = written()
    plain["scores"]["other"] = json.loads(made(["a", "b", "c", "d"], tested=False).tested_scores.to_json())
    with pytest.raises(debias.DebiasError, match=r"scores.other has other features"):
        debias.Audit.from_json(json.dumps(plain))


def test_every_field_of_scores_has_a_reader():
    assert set(OF_SCORES) == {field.name for field in dataclasses.fields(debias.Scores)}


@pytest.mark.thorough
def test_mutants_are_refused_clearly_or_read_as_something_that_can_be_written_again():
    """Random damage to the text never gives an error that is none of ours, nor numbers that are not finite."""
    text = made(NAMES, n_permutations=3).to_json(indent=None)
    rng = random.Random(0)
    pieces = ["null", "[]", "{}", "true", "-1", "1e999", "NaN", '""', "[[", "}", ",", "\ud800", "9" * 400, "0.5"]
    refused = 0
    for _ in range(2000):
        start = rng.randrange(len(text))
        mutant = text[:start] + rng.choice(pieces) + text[start + rng.choice([0, 1, 4, 20, 200]) :]
        try:
            audit = debias.Audit.from_json(mutant)
        except debias.DebiasError:
            refused += 1
            continue
        assert np.isfinite(audit.share).all()
        audit.to_json()
    assert refused > 1000
