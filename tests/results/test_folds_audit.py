"""``FoldsAudit``: its table and sentences, recomputed from made-up audits, and its files."""

import io
import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest
from referencing import Registry, Resource
from rich.console import Console
from scipy.stats import spearmanr

import debias
from debias.errors import DebiasError
from debias.results.audit import Audit
from debias.results.console import print_folds
from debias.results.folds_audit import FoldsAudit
from debias.results.scores import Scores
from debias.results.untested import with_reason

SCHEMAS = [
    json.loads((Path(__file__).parents[2] / f"docs/schema/{name}.schema.json").read_text())
    for name in ("folds", "audit")
]
REGISTRY = Registry().with_resource("audit.schema.json", Resource.from_contents(SCHEMAS[1]))
NAMES = ("strong", "weak", "lucky", "noise")
VALUES = np.array([[5.0, 1.0, 0.4, -0.1], [4.0, 2.0, -0.3, 0.1], [6.0, 0.5, -0.2, -0.3]])
FOUND = np.array([[1, 0, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0]], dtype=bool)
P_ADJUSTED = np.array([0.005, 0.02, 0.4, 0.9])


def of_fold(values, found, status="proven held-out", warnings=(), names=NAMES):
    values = np.asarray(values)
    scores = Scores(
        values=values,
        feature_names=tuple(names),
        scorer="mdi_oob",
        unit="covariance of tree and response",
        rows="held-out",
        n_rows=50,
        provenance={"kind": "held-out", "status": status, "detail": f"they are {status}"},
        details={"test": {"method": "permutation", "alpha": 0.05, "error": "fwer"}},
        warnings=warnings,
        settings={
            "model": "made-up forest",
            "library_version": "1",
            "n_trees": 1,
            "debias_version": debias.__version__,
            "seed": None,
        },
        standard_error=np.ones(values.size),
        z=np.where(found, 4.0, 0.5),
        p_value=np.where(found, 0.01, 0.3),
        p_adjusted=np.where(found, 0.01, 0.6),
        selected=np.asarray(found),
        threshold=3.0,
    )
    return Audit.of(None, "not reported", {"mdi_oob": scores})


def made(values=VALUES, found=FOUND, p_adjusted=P_ADJUSTED, audits=None, **changes):
    if audits is None:
        audits = {f"fold {k}": of_fold(*each) for k, each in enumerate(zip(values, found, strict=True))}
    fields = {
        "n_train": (100,) * len(audits),
        "standard_error": np.array([0.5, 0.4, 0.3, 0.2]),
        "z": np.array([6.0, 3.5, 1.0, -0.5]),
        "p_value": p_adjusted / 4,
        "p_adjusted": p_adjusted,
        "test": {"alpha": 0.05, "error": "fwer", "method": "sum of z", "correlation": 0.5, "n_permutations": 199},
    }
    return FoldsAudit(audits=audits, **fields | changes)


def untested(audit, tell_nothing=False):
    main = with_reason(audit.tested_scores, "there are too few rows. Pass more", tell_nothing=tell_nothing)
    return Audit.of(None, "not reported", {"mdi_oob": main})


def test_the_table_has_what_its_columns_mean():
    table = made().to_frame()
    assert list(table.index) == ["strong", "weak", "lucky", "noise"]
    means = dict(zip(NAMES, VALUES.mean(axis=0), strict=True))
    positive = {name: max(mean, 0) for name, mean in means.items()}
    for name in NAMES:
        k = NAMES.index(name)
        ranks = [1 + sum(other > row[k] for other in row) for row in VALUES]
        assert table.loc[name, "mean"] == pytest.approx(means[name])
        assert table.loc[name, "share"] == pytest.approx(positive[name] / sum(positive.values()))
        assert table.loc[name, "lowest_rank"] == max(ranks)
        assert table.loc[name, "highest_rank"] == min(ranks)
        assert table.loc[name, "rank"] == 1 + sum(other > means[name] for other in means.values())
        assert table.loc[name, "informative_folds"] == FOUND[:, k].sum()
    assert table["folds"].tolist() == [3] * 4
    assert table["verdict"].tolist() == ["informative", "informative", "indistinguishable", "indistinguishable"]
    # 4.3027 is the 97.5% quantile of Student's t with 2 degrees of freedom
    assert (table["high"] - table["mean"]).tolist() == pytest.approx([4.302653 * e for e in (0.5, 0.4, 0.3, 0.2)])
    assert (table["mean"] - table["low"]).tolist() == pytest.approx([4.302653 * e for e in (0.5, 0.4, 0.3, 0.2)])


def test_scores_and_ranks_have_a_row_for_each_fold():
    audit = made()
    assert audit.scores.index.tolist() == ["fold 0", "fold 1", "fold 2"]
    assert audit.scores.index.name == "fold"
    assert np.array_equal(audit.scores.to_numpy(), VALUES)
    assert audit.ranks.to_numpy().tolist() == [[1, 2, 3, 4], [1, 2, 4, 3], [1, 2, 3, 4]]


def test_the_stability_of_ranks_is_the_mean_spearman_correlation():
    pairs = [spearmanr(one, other).statistic for one, other in combinations(VALUES, 2)]
    assert made().rank_stability == pytest.approx(np.mean(pairs))
    assert made(VALUES[:1], FOUND[:1]).rank_stability is None
    assert made(np.ones((3, 4)), FOUND).rank_stability is None


@pytest.mark.parametrize(
    ("stability", "words"),
    [
        (0.5 - 1e-16, "partly alike: the mean rank correlation of two folds is 0.50."),
        (0.494, "differently: the mean rank correlation of two folds is 0.49."),
        (0.896, "alike: the mean rank correlation of two folds is 0.90."),
        (0.997, "alike: the mean rank correlation of two folds is 0.99."),
        (-0.001, "differently: the mean rank correlation of two folds is 0.00."),
    ],
)
def test_ranks_are_judged_by_the_correlation_that_is_shown(stability, words, monkeypatch):
    monkeypatch.setattr(FoldsAudit, "rank_stability", stability)
    assert any(line.startswith(f"The folds rank the features {words}") for line in made().summary())


def test_a_fold_that_tells_nothing_is_left_out_of_the_mean_and_one_that_is_not_tested_is_not():
    folds = [of_fold(*each) for each in zip(VALUES, FOUND, strict=True)]
    silent = made(audits={"a": folds[0], "b": folds[1], "c": untested(folds[2], tell_nothing=True)})
    assert silent.mean == pytest.approx(VALUES[:2].mean(axis=0))
    assert silent.scores.loc["c"].isna().all()
    assert silent.to_frame()["folds"].tolist() == [2] * 4
    assert silent.informative_folds.tolist() == FOUND[:2].sum(axis=0).tolist()
    assert silent.summary()[:2] == [
        "The audit could not test c: there are too few rows. Pass more.",
        "The verdicts and the mean scores are from the other 2 folds.",
    ]
    scored = made(audits={"a": folds[0], "b": folds[1], "c": untested(folds[2])})
    assert scored.mean == pytest.approx(VALUES.mean(axis=0))
    assert scored.summary()[1] == "The verdicts are from the other 2 folds."
    assert "1 of them is informative in every tested fold, each tested by itself." in scored.summary()
    alone = made(audits={"a": folds[0], "b": untested(folds[1], True), "c": untested(folds[2], True)})
    assert alone.summary()[1] == "The verdicts and the mean scores are from the other fold."
    two = made(audits={"a": folds[0], "b": untested(folds[1]), "c": untested(folds[2], True)})
    assert two.summary()[1] == "The verdicts are from the other fold, and the mean scores from 2 folds."


def test_how_many_folds_find_a_feature_is_unknown_if_no_fold_was_tested():
    folds = {f"fold {k}": untested(of_fold(*each)) for k, each in enumerate(zip(VALUES, FOUND, strict=True))}
    audit = replace(made(audits=folds), p_adjusted=None, p_value=None, test={})
    assert audit.informative_folds is None
    assert audit.to_frame()["informative_folds"].isna().all()
    assert audit.to_frame()["folds"].tolist() == [0] * 4
    console = Console(width=200, record=True, file=io.StringIO())
    print_folds(console, audit)
    assert "informative folds" not in console.export_text() + repr(audit)
    plain = json.loads(audit.to_json())
    assert plain["informative_folds"] is None
    jsonschema.Draft202012Validator(SCHEMAS[0], registry=REGISTRY).validate(plain)
    for written in (None, [0] * 4):  # an earlier version wrote zeros
        again = FoldsAudit.from_json(json.dumps(plain | {"informative_folds": written}))
        assert again.to_json() == audit.to_json()
    with pytest.raises(DebiasError, match="informative_folds does not follow"):
        FoldsAudit.from_json(json.dumps(plain | {"informative_folds": [0, 1, 0, 0]}))


def test_a_feature_that_no_fold_could_test_has_no_number_of_folds():
    folds = [of_fold(*each) for each in zip(VALUES, FOUND, strict=True)]
    for fold in folds:
        fold.tested_scores.details["untested_features"] = {"noise": "it is empty in these rows"}
    audit = made(audits={f"fold {k}": fold for k, fold in enumerate(folds)})
    found = audit.to_frame()["informative_folds"]
    assert np.isnan(found["noise"])
    assert found[["strong", "weak", "lucky"]].tolist() == [3, 1, 1]
    assert "In the fewest folds: weak in 1 of 3." in audit.summary()
    [head, *_, line] = repr(audit).splitlines()[-5:]
    assert line.split()[0] == "noise"
    assert line[: head.index("informative folds") + len("informative folds")].split()[-1] == "-"


def test_sentences_are_true_of_the_table():
    assert made().summary() == [
        "2 of 4 features are informative over 3 folds. Strongest first: strong and weak.",
        "1 of them is informative in every fold, each tested by itself.",
        "In the fewest folds: weak in 1 of 3.",
        "Informative in single folds, but not over all folds together: lucky (1 of 3). Each fold has an error rate of "
        "its own, so some of this is chance.",
        "The folds rank the features partly alike: the mean rank correlation of two folds is 0.87. lucky has ranks "
        "from 3 to 4.",
        "Test: sum of z, a correlation of 0.50 between folds allowed for, 199 permutations in each fold, family-wise "
        "error rate 5%.",
        "Standard errors are about the mean score of models trained on 100 rows, over other data of this kind. They "
        "allow for the rows that folds share, and are approximate.",
        "Scored on held-out rows of 3 folds, 50 rows in each.",
        "It is proven for every fold that none of its rows is a training row of its model.",
    ]


@pytest.mark.parametrize(
    ("p_adjusted", "found", "expected"),
    [
        ([0.9] * 4, 0, ["None of the 4 features is informative over 3 folds."]),
        ([0.01] * 4, 1, ["All 4 features are informative over 3 folds.", "All of them are informative in every fold"]),
        (
            [0.01, 0.9, 0.9, 0.9],
            1,
            ["1 of 4 features is informative over 3 folds: strong.", "It is informative in every"],
        ),
        (
            [0.01, 0.9, 0.9, 0.9],
            0,
            ["1 of 4 features is informative over 3 folds: strong.", "It is informative in 0 of 3"],
        ),
        ([0.01, 0.9, 0.9, 0.9], 1, ["Informative in single folds, but not over all folds together: weak (3 of 3), "]),
    ],
)
def test_sentences_of_extremes_are_true(p_adjusted, found, expected):
    audit = made(found=np.full((3, 4), bool(found)), p_adjusted=np.array(p_adjusted))
    lines = audit.summary()
    for part in expected:
        assert any(line.startswith(part) for line in lines), part


@pytest.mark.parametrize(
    ("status", "clause"),
    [
        ("proven held-out", "over 3 folds."),
        ("not recognised as training rows", "over 3 folds."),
        ("cannot be told", "over 3 folds, if no row is a training row of the model of its fold."),
        ("stated by the user", "over 3 folds, but rows of a fold look like training rows of its model."),
    ],
)
def test_the_headline_says_what_is_not_known_about_the_rows(status, clause):
    folds = [of_fold(*each) for each in zip(VALUES, FOUND, strict=True)]
    folds[1] = of_fold(VALUES[1], FOUND[1], status)
    audit = made(audits={f"fold {k}": fold for k, fold in enumerate(folds)})
    assert clause in audit.summary()[0]
    assert audit.rows_in_words == ("assumed held-out" if "." not in clause[:13] else "held-out")
    if status != "proven held-out":
        assert f"Fold 1: they are {status}." in audit.summary()


def test_warnings_name_the_folds_that_they_are_about():
    folds = [of_fold(*each, warnings=("in all folds",)) for each in zip(VALUES, FOUND, strict=True)]
    folds[2] = of_fold(VALUES[2], FOUND[2], warnings=("in all folds", "in one"))
    audit = made(audits={f"fold {k}": fold for k, fold in enumerate(folds)}, notes=("chosen on these folds",))
    assert audit.summary()[0] == "Chosen on these folds."
    assert audit.warnings == ("chosen on these folds", "in all folds", "fold 2: in one")
    for notes in (("in one",), ("fold 2: in one",)):
        audit = made(audits={f"fold {k}": fold for k, fold in enumerate(folds)}, notes=notes)
        assert audit.warnings == (*notes, "in all folds")


def test_json_is_read_without_loss_and_keeps_the_schema(tmp_path):
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[0])
    for audit in (made(), made(z=None), made(standard_error=None, no_error_because="there are 2 folds")):
        jsonschema.Draft202012Validator(SCHEMAS[0], registry=REGISTRY).validate(json.loads(audit.to_json()))
        again = FoldsAudit.from_json(audit.to_json())
        assert again.to_json() == audit.to_json()
        pd.testing.assert_frame_equal(again.to_frame(), audit.to_frame())
        assert again.summary() == audit.summary()
    made().to_json(tmp_path / "folds.json")
    assert FoldsAudit.from_json(tmp_path / "folds.json").to_json() == made().to_json()


OF_TEST = {"alpha": 0.05, "error": "fwer", "method": "sum of z"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "audit"}, "its kind is not 'folds audit'"),
        ({"schema_version": 2}, "schema version 2, but this debias reads schema version 1"),
        ({"mean": [1.0, 2.0, 3.0, 4.0]}, "mean does not follow from its audits"),
        ({"share": [0.7, 0.1, 0.1, 0.1]}, "share does not follow from its audits"),
        ({"verdict": ["informative"] * 4}, "verdict does not follow from its audits"),
        ({"informative_folds": [3, 3, 3, 3]}, "informative_folds does not follow"),
        ({"rank_stability": None}, "rank_stability does not follow"),
        ({"p_adjusted": [2.0, 0.1, 0.1, 0.1]}, "p_adjusted is not between 0 and 1"),
        ({"p_adjusted": None}, "p_adjusted or test contradicts the tests of its audits"),
        ({"test": {}}, "p_adjusted or test contradicts the tests of its audits"),
        ({"test": {"correlation": float("nan")}}, "it holds NaN, which is not JSON"),
        ({"z": [1.0]}, "z is not a list of 4 numbers"),
        ({"standard_error": ["a"] * 4}, "standard_error is not a list of 4 numbers"),
        ({"n_train": [100]}, "n_train is not a list of 3 numbers of rows"),
        ({"n_train": [100, 0, 100]}, "n_train has entries that are not numbers of rows"),
        ({"test": {"alpha": 7}}, "test.alpha is not a number between 0 and 1"),
        ({"test": {"alpha": 0.05, "method": 1}}, "test has no method"),
        ({"test": []}, "test is not a JSON object"),
        ({"test": OF_TEST | {"correlation": "x"}}, "test.correlation is not a number between 0 and 1"),
        ({"test": OF_TEST | {"correlation": None}}, "test.correlation is not a number between 0 and 1"),
        ({"test": OF_TEST | {"n_permutations": "many"}}, "test.n_permutations is not a number of permutations"),
        ({"standard_error": [-1.0] * 4}, "standard_error has negative numbers"),
        ({"standard_error": None}, "standard_error contradicts no_error_because"),
        ({"tested_scorer": ["mdi"]}, "its audits have different features or scorers"),
        ({"notes": "x"}, "notes is not a list"),
        ({"no_error_because": 1}, "no_error_because is not text"),
        ({"audits": {}}, "audits is not a JSON object with an audit for each fold"),
        ({"audits": {"fold 0": {"schema_version": 1}}}, "audits.fold 0: not an audit"),
        ({"tested_scorer": "mdi"}, "its audits have different features or scorers"),
    ],
)
def test_json_that_contradicts_itself_is_refused(change, message):
    with pytest.raises(DebiasError, match=message):
        FoldsAudit.from_json(json.dumps(json.loads(made().to_json()) | change))


def test_json_of_something_else_is_refused(tmp_path):
    for text, message in (("[1]", "not a JSON object"), ("{", "cannot be read"), ("[" * 100_000, "nested too deeply")):
        with pytest.raises(DebiasError, match=message):
            FoldsAudit.from_json(text)
    with pytest.raises(DebiasError, match=r"it holds one audit \(Audit.from_json reads it\)"):
        FoldsAudit.from_json(made().first.to_json())
    with pytest.raises(DebiasError, match="it has no audits"):
        FoldsAudit.from_json(json.dumps({k: v for k, v in json.loads(made().to_json()).items() if k != "audits"}))
    silent = {f"fold {k}": untested(of_fold(*each), True) for k, each in enumerate(zip(VALUES, FOUND, strict=True))}
    plain = json.loads(made().to_json()) | {"audits": {name: each.to_dict() for name, each in silent.items()}}
    with pytest.raises(DebiasError, match="none of its audits tells anything"):
        FoldsAudit.from_json(json.dumps(plain))
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(DebiasError, match=r"other\.json: not an audit of folds"):
        FoldsAudit.from_json(tmp_path / "other.json")


def test_csv_is_safe_for_spreadsheets(tmp_path):
    folds = [of_fold(*each, names=("=cmd", "b", "c", "d")) for each in zip(VALUES, FOUND, strict=True)]
    text = made(audits={f"fold {k}": fold for k, fold in enumerate(folds)}).to_csv(tmp_path / "folds.csv")
    assert text.splitlines()[1].startswith("'=cmd,")
    assert (tmp_path / "folds.csv").read_text() == text


def test_the_prompt_shows_the_headline_and_the_largest_shares():
    text = repr(made())
    assert text.splitlines()[0] == "Audit of 3 folds of made-up forest: held-out rows, 4 features"
    assert "2 of 4 features are informative over 3 folds." in text
    assert [line.split()[0] for line in text.splitlines()[-4:]] == ["strong", "weak", "lucky", "noise"]


@pytest.mark.parametrize("width", [60, 100])
def test_a_terminal_shows_the_table_between_the_sentences(width):
    console = Console(width=width, record=True, file=io.StringIO())
    print_folds(console, made())
    text = console.export_text()
    assert text.index("Strongest") < text.index("made-up forest") < text.index("Test: sum of z")
    assert "informative" in text
    assert max(map(len, text.splitlines())) <= width


def test_markup_in_names_is_shown_as_it_is():
    names = ("[red]x[/red]", "b\u202e", "c", "d")
    folds = {f"fold {k}": of_fold(*each, names=names) for k, each in enumerate(zip(VALUES, FOUND, strict=True))}
    audit = made(audits=folds)
    console = Console(width=120, record=True, file=io.StringIO())
    print_folds(console, audit)
    assert "[red]x[/red]" in console.export_text()
    assert r"b\u202e" in audit.summary()[0]
    assert r"b\u202e" in audit._repr_html_()
