"""Every result has the same table, files and picture: what is written is read back without loss."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

import debias
from debias.errors import CompositionError, DebiasError
from debias.results.comparison import Comparison
from debias.results.partial_dependence import Curve, PartialDependence
from results.test_changes import changes, nothing
from support.audits import made
from support.made_over_time import made_folds

NAMES = ["age", "income", "=city", "b\u202e"]


def comparison():
    audit = made(NAMES)
    other = replace(audit.tested_scores, scorer="other", values=audit.tested_scores.values[::-1].copy())
    traits = pd.DataFrame(
        {
            "n_values": [2, 3, 400, 5],
            "correlation": [0.0, 0.6, 0.6, 1.0],
            "correlated_with": ["", "=city", "income", "age"],
            "interaction": [0.1, np.nan, 0.3, 0.0],
            "not_upheld": [np.nan] * 4,
        },
        index=pd.Index(NAMES, name="feature"),
    )
    return Comparison({"mdi_oob": audit.tested_scores, "other": other}, traits)


def curves(lowest=-np.inf):
    rng = np.random.default_rng(0)
    labels = np.array(["b", 3, True, None], dtype=object)
    numbers = np.array([lowest, 0.1, 2.5, np.nan])
    return PartialDependence(
        {
            name: Curve(name, values, rng.normal(size=(4, 2)), rng.normal(size=(3, 4, 2)), 5)
            for name, values in (("age", numbers), ("income", labels), ("city", np.array([1.0, 2.0, 3.0, 4.0])))
        },
        ("yes", "no"),
        "probability",
        np.array([0, 4, 7]),
        "Forest",
        ("a note",),
    )


def lasting():
    """Return changes that hold all that changes can hold."""
    return changes(
        longer=(changes(), nothing()),
        last_period=datetime(2026, 1, 21, 12, tzinfo=UTC),
        repeated=(np.nan, 0.25),
        reference_given="first 30d",
    )


RESULTS = {
    "audit": lambda: made(NAMES),
    "untested audit": lambda: made(NAMES, tested=False),
    "folds": lambda: made_folds(NAMES),
    "scores": lambda: made(NAMES).tested_scores,
    "changes": lasting,
    "nothing": nothing,
    "comparison": comparison,
    "curves": curves,
}


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(params=RESULTS)
def result(request):
    return RESULTS[request.param]()


def test_json_is_read_without_loss_from_text_bytes_and_files(result, tmp_path):
    text = result.to_json(tmp_path / "a.json")
    assert (tmp_path / "a.json").read_text() == text + "\n"
    (tmp_path / "b.json").write_text(text, encoding="utf-16")
    sources = (text, text.encode(), result.to_json(indent=None), tmp_path / "a.json", str(tmp_path / "b.json"))
    for source in sources:
        again = type(result).from_json(source)
        assert again.to_json() == text
        assert repr(again) == repr(result)
        pd.testing.assert_frame_equal(again.to_frame(), result.to_frame())
    assert type(result).from_dict(json.loads(text)).to_dict() == json.loads(text)


def test_what_is_missing_of_json_is_named(result):
    plain = result.to_dict()
    for name in plain:
        # Some may be missing, as in files of earlier versions; the kind is asked for first.
        of_later_versions = (
            "loss",
            "no_loss_because",
            "provisional",
            "newer_waiting",
            "last_waiting",
            "any_look",
            "pairs",
        )
        if name in ("untested_because", "null", "interactions", "kind", *of_later_versions):
            continue
        with pytest.raises(DebiasError, match=rf"^not .* written by debias .*it has no {name}"):
            type(result).from_json(json.dumps({key: value for key, value in plain.items() if key != name}))


def test_json_of_another_version_or_kind_is_refused(result, tmp_path):
    plain = result.to_dict()
    with pytest.raises(
        DebiasError, match="of schema version 2, but this debias reads schema version 1. A newer debias"
    ):
        type(result).from_json(json.dumps(plain | {"schema_version": 2}))
    if "kind" in plain:
        with pytest.raises(DebiasError, match=f"its kind is not '{plain['kind']}'"):
            type(result).from_json(json.dumps(plain | {"kind": "other"}))
    (tmp_path / "empty.json").write_text("{}")
    with pytest.raises(DebiasError, match=r"empty\.json: not .* written by debias"):
        type(result).from_json(tmp_path / "empty.json")
    with pytest.raises(DebiasError, match="cannot be read as JSON, and there is no file of this name"):
        type(result).from_json("missing.json")
    with pytest.raises(OSError, match="missing"):
        type(result).from_json(tmp_path / "missing.json")


WRONG = [
    (
        "changes",
        "statistics",
        lambda statistics: statistics | {"before": [1.0]},
        "statistics has entries that are not 5 numbers",
    ),
    ("changes", "statistics", lambda statistics: {"before": statistics["before"]}, "statistics has no after"),
    ("changes", "verdict", lambda verdict: verdict[::-1], "verdict does not follow from statistics"),
    ("changes", "not_compared_because", lambda _: "so", "statistics contradict not_compared_because"),
    ("changes", "shift_split", lambda splits: splits[1:], "shift_split does not have one split for each feature"),
    ("changes", "last_period", lambda _: "yesterday", "last_period is not a time: 'yesterday'"),
    ("changes", "repeated", lambda _: [0.1], "repeated is not a list of two shares"),
    (
        "changes",
        "longer",
        lambda longer: [longer[0] | {"verdict": []}],
        r"longer: verdict does not follow from statistics",
    ),
    ("changes", "recent", lambda recent: recent | {"n_rows": -1}, "recent.n_rows is not a whole number"),
    ("comparison", "traits", lambda traits: traits | {"n_values": [1]}, "columns that do not have 4 entries"),
    ("comparison", "scores", lambda _: {}, "its scores are of different features"),
    (
        "comparison",
        "scores",
        lambda all_of: all_of | {"other": all_of["other"] | {"values": [1.0]}},
        "values has shape",
    ),
    ("curves", "curves", lambda _: [], "curves is empty"),
    ("curves", "curves", lambda each: [each[0] | {"mean": [[1.0, 2.0]]}], "does not have an output for each value"),
    ("curves", "curves", lambda each: [each[0] | {"values": ["x"] * 4}], r"values is not a list of numbers"),
    ("curves", "curves", lambda each: [each[1] | {"values": [[], 1, 2, 3]}], "values has entries that are no labels"),
    ("curves", "curves", lambda each: [each[0], each[0]], r"curves has 'age' twice"),
    ("curves", "rows", lambda _: [-1], "rows is not a whole number"),
]


@pytest.mark.parametrize(("name", "field", "change", "message"), WRONG)
def test_json_that_contradicts_itself_is_refused(name, field, change, message):
    result = RESULTS[name]()
    plain = json.loads(result.to_json())
    with pytest.raises(DebiasError, match=message):
        type(result).from_json(json.dumps(plain | {field: change(plain[field])}))


def test_random_damage_never_gives_an_error_that_is_none_of_ours(result):
    text, rng = result.to_json(indent=None), np.random.default_rng(0)
    pieces = ["null", "[]", "{}", "true", "-1", "1e999", "NaN", '""', "[[", "}", ",", "0.5"]
    refused = 0
    for _ in range(100):
        start, length = int(rng.integers(len(text))), int(rng.choice([0, 1, 4, 20, 200]))
        try:
            read = type(result).from_json(text[:start] + str(rng.choice(pieces)) + text[start + length :])
        except DebiasError:
            refused += 1
            continue
        read.to_json()
    assert refused > 30


def test_labels_that_json_cannot_hold_are_refused():
    labels = np.array([pd.Timestamp("2026-01-01")], dtype=object)
    one = PartialDependence(
        {"day": Curve("day", labels, np.zeros((1, 1)))}, ("prediction",), "prediction", np.arange(1), ""
    )
    with pytest.raises(DebiasError, match="day has the label Timestamp"):
        one.to_json()


def test_a_frame_is_new_each_time_so_that_nobody_changes_the_result(result):
    frame = result.to_frame()
    frame.iloc[0, 0] = None
    assert not frame.equals(result.to_frame())


def test_every_result_is_drawn_with_the_same_arguments(result):
    if isinstance(result, debias.Changes) and not result.compared:
        with pytest.raises(ValueError, match="there is nothing to draw: this model has 1 period"):
            result.plot()
        return
    with pytest.raises(CompositionError, match="kind='pie' is not one of "):
        result.plot("pie")
    with pytest.raises(ValueError, match="max_features must be a whole number and at least 1, not 0"):
        result.plot(max_features=0)
    several = isinstance(result, PartialDependence)
    result = curves(lowest=0.0) if several else result  # an axis has no infinity
    mine = Figure().subplots(1, 2) if several else Figure().subplots()
    drawn = result.plot(ax=mine, max_features=2)
    assert drawn.tolist() == mine.tolist() if several else drawn is mine
    assert result.plot() is not mine


@pytest.mark.parametrize("kind", ["bar", "interval", "slope", "evidence"])
def test_an_audit_has_the_kinds_of_its_display(kind):
    audit = made(NAMES)
    (ours, theirs) = (Figure().subplots(), Figure().subplots())
    audit.plot(kind, ours)
    debias.plot.ImportanceDisplay(audit).plot(theirs, kind=kind)
    for one, other in zip(ours.lines, theirs.lines, strict=True):
        np.testing.assert_array_equal(one.get_xydata(), other.get_xydata())


def test_what_a_kind_needs_is_said():
    with pytest.raises(CompositionError, match="the reported importance was not computed on these rows"):
        made(NAMES, reported=False).plot("slope")
    with pytest.raises(CompositionError, match="draws the z of the test, and these scores have none"):
        made(NAMES, tested=False).plot("evidence")


def test_the_ranks_of_a_comparison_are_drawn_and_the_largest_disagreement_stands_out():
    found, axes = comparison(), Figure().subplots()
    found.plot(ax=axes)
    ranks = found.ranks.loc[found.ranks.mean(axis=1).sort_values(kind="stable").index]
    for line, (_, expected) in zip(axes.lines, ranks.iterrows(), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), expected)
    (marked,) = [line for line in axes.lines if line.get_label() == "largest disagreement"]
    assert np.ptp(marked.get_ydata()) == np.ptp(found.ranks.to_numpy(), axis=1).max()
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # rank 1 is on top
    few = Figure().subplots()
    found.plot(ax=few, max_features=3)
    assert (len(few.lines), few.get_title(loc="right")) == (3, "+1 more")


def test_the_first_curves_are_drawn_with_the_verdicts_of_an_audit():
    axes = curves(lowest=0.0).plot(ax=Figure().subplots(1, 2), max_features=2, audit=made(NAMES))
    assert [each.get_title(loc="left") for each in axes] == ["age", "income"]
    assert axes[-1].get_title(loc="right") == "+1 more"
    assert any("informative, share" in text.get_text() for text in axes[0].texts)


def test_features_are_the_informative_ones_the_strongest_first():
    audit = made([f"f{k}" for k in range(9)])
    frame = audit.to_frame()
    assert audit.features == list(frame.index[frame["verdict"] == "informative"])
    assert len(audit.features) == 3
    assert made(NAMES, informative=[0] * 4).features == []  # it was tested, and nothing was found
    folds = made_folds(NAMES)
    frame = folds.to_frame()
    assert folds.features == list(frame.index[frame["verdict"] == "informative"]) != []


def test_an_audit_that_could_find_nothing_names_no_features():
    """An empty list would be a reason to drop all features; with 10 permutations no p-value is below 1 / 11."""
    audit = made(NAMES, informative=[0] * 4, n_permutations=10)
    with pytest.raises(
        DebiasError, match="too few permutations: 10 permutations can find no feature at the error rate"
    ):
        audit.features  # noqa: B018
    assert made(NAMES, informative=[0] * 4, n_permutations=19).features == []
    assert made(NAMES, n_permutations=10).features == ["age"]
    with pytest.raises(DebiasError, match="the audit says of no feature whether it is informative: .* without a test"):
        made(NAMES, tested=False).features  # noqa: B018
    with pytest.raises(DebiasError, match="the folds say of no feature whether it is informative"):
        made_folds(NAMES, tested=False).features  # noqa: B018
