"""Tests of the values, types and predicates of PMML: small files with JPMML's answers, and predicates drawn at random.

tests/old_files/make_pmml_cases.py made the files and wrote down what JPMML answers.
"""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import debias
from debias.cli import main
from debias.errors import DebiasError, RowsError, UnsupportedModelError
from debias.trees.routing import raw_output, route
from debias_adapters.pmml.hooks import debias_extract, debias_leaves, debias_predict_raw
from debias_adapters.pmml.model import PmmlModel
from support import pmml

CASES = json.loads((Path(__file__).parents[1] / "old_files/pmml/cases.json").read_text())
REFUSED = {
    "Targets, of the chain": "Targets that change the result",
    "Targets, of the last model": "Targets that change",
}
"""Cases whose file is refused, and the message."""


def predicted(model, row):
    """Return the prediction for one row, by the splits; it must be that of the walk through the nodes."""
    ensemble = debias_extract(model.trees)
    matrix = model.trees.transform(
        pd.DataFrame({name: pd.Series([value], dtype=object) for name, value in row.items()})
    )
    assert ensemble.missing_refusal is None
    leaves = route(ensemble, matrix)
    np.testing.assert_array_equal(debias_leaves(model.trees, matrix), leaves)
    raw = raw_output(ensemble, leaves)
    np.testing.assert_allclose(debias_predict_raw(model.trees, matrix), raw, rtol=1e-15)
    return float(ensemble.objective.mean(raw)[0, 0])


@pytest.mark.parametrize("name", [name for name in CASES if name not in REFUSED])
def test_predictions_are_those_of_jpmml(name):
    """Rows that JPMML refuses, or for which it gives no prediction, are refused, and no others."""
    case = CASES[name]
    model = PmmlModel(case["file"].encode())
    for row, answer in zip(case["rows"], case["answers"], strict=True):
        if not isinstance(answer, float):
            with pytest.raises(RowsError):
                predicted(model, row)
        else:
            assert predicted(model, row) == pytest.approx(answer, rel=1e-15), row


def test_the_answers_are_of_all_kinds():
    """What the cases show: predictions, rows without one, and errors of values."""
    answers = [answer for case in CASES.values() for answer in case["answers"]]
    kinds = {answer if isinstance(answer, str) else type(answer).__name__ for answer in answers}
    assert kinds == {"float", "NoneType", "ValueCheckException", "MissingArgumentException"}


@pytest.mark.parametrize("name", REFUSED)
def test_targets_of_a_chain_are_refused(name):
    with pytest.raises(UnsupportedModelError, match=REFUSED[name]):
        PmmlModel(CASES[name]["file"].encode()).said  # noqa: B018


# --- predicates of several columns, drawn at random

VALUES = {"a": (-1.0, 0.0, 1.0, None), "b": (-1.0, 0.0, 1.0, None), "c": ("u", "v", "w", None)}
COMPARED = {
    "lessThan": lambda value, limit: value < limit,
    "lessOrEqual": lambda value, limit: value <= limit,
    "greaterThan": lambda value, limit: value > limit,
    "greaterOrEqual": lambda value, limit: value >= limit,
    "equal": lambda value, limit: value == limit,
    "notEqual": lambda value, limit: value != limit,
}


def drawn_predicate(draw, depth=2):
    """Return a predicate as XML, and as a function of a row that gives True, False, or None if it is not known."""
    if depth and draw.random() < 0.6:
        operator = draw.choice(["and", "or", "xor", "surrogate"])
        parts = [drawn_predicate(draw, depth - 1) for _ in range(draw.randrange(2, 4))]
        text = "".join(xml for xml, _ in parts)
        asked = [function for _, function in parts]
        return (
            f'<CompoundPredicate booleanOperator="{operator}">{text}</CompoundPredicate>',
            lambda row: joined(operator, [function(row) for function in asked]),
        )
    field = draw.choice("abc")
    if draw.random() < 0.15:
        operator = draw.choice(["isMissing", "isNotMissing"])
        xml = f'<SimplePredicate field="{field}" operator="{operator}"/>'
        return xml, lambda row: (row[field] is None) == (operator == "isMissing")
    operator = draw.choice(["equal", "notEqual"] if field == "c" else list(COMPARED))
    limit = draw.choice([value for value in VALUES[field] if value is not None])
    xml = f'<SimplePredicate field="{field}" operator="{operator}" value="{limit}"/>'
    return xml, lambda row: None if row[field] is None else COMPARED[operator](row[field], limit)


def joined(operator, answers):
    """The tables of the standard, in words."""
    if operator == "surrogate":
        return next((answer for answer in answers if answer is not None), None)
    if operator == "xor":
        return None if None in answers else sum(answers) % 2 == 1
    if operator == "and":
        return False if False in answers else None if None in answers else True
    return True if True in answers else None if None in answers else False


def drawn_tree(draw, strategy, predicate="<True/>", depth=2):
    """Return a node as XML, its name, and a function of a row that gives the prediction."""
    name, score = f"n{draw.randrange(10**9)}", round(draw.gauss(0, 1), 6)
    tests = [drawn_predicate(draw) for _ in range(draw.randrange(1, 4))] if depth else []
    children = [drawn_tree(draw, strategy, test, depth - 1) for test, _ in tests]
    default = draw.choice(children) if children else None

    def ends(row):
        for (_, holds), (_, _, below) in zip(tests, children, strict=True):
            answer = holds(row)
            if answer is None and strategy == "lastPrediction":
                return score
            if answer is None and strategy == "defaultChild":
                return default[2](row)
            if answer:
                return below(row)
        return score

    named = f' defaultChild="{default[1]}"' if default and strategy == "defaultChild" else ""
    inside = "".join(xml for xml, _, _ in children)
    return f'<Node id="{name}" score="{score}"{named}>{predicate}{inside}</Node>', name, ends


@pytest.mark.parametrize("strategy", ["none", "lastPrediction", "defaultChild"])
@pytest.mark.parametrize("first", range(0, 60, 20))
def test_drawn_predicates_are_answered_by_the_words_of_the_standard(strategy, first):
    """For every row of 64: three values of each of three columns, or none."""
    rows = [dict(zip(VALUES, values, strict=True)) for values in itertools.product(*VALUES.values())]
    fields = [pmml.numbers("a"), pmml.numbers("b"), pmml.labels("c", "uvw")]
    refused = 0
    for seed in range(first, first + 20):
        root, _, ends = drawn_tree(random.Random(seed), strategy)
        settings = {"missingValueStrategy": strategy, "noTrueChildStrategy": "returnLastPrediction"}
        tree = pmml.tree(pmml.schema("abc"), root, **settings)
        model = PmmlModel(pmml.file(fields, pmml.numbers("y"), tree))
        try:
            ensemble = debias_extract(model.trees)
        except UnsupportedModelError as error:
            assert "would need more than" in str(error)  # noqa: PT017
            refused += 1
            continue
        whole = rows
        if ensemble.missing_refusal is not None:  # the splits would be too many
            refused += 1
            whole = [row for row in rows if None not in row.values()]
        matrix = model.trees.transform(pd.DataFrame(whole))
        leaves = route(ensemble, matrix)
        np.testing.assert_array_equal(debias_leaves(model.trees, matrix), leaves)
        np.testing.assert_array_equal(raw_output(ensemble, leaves)[:, 0], [ends(row) for row in whole])
    assert refused <= 4


# --- notes, and tables in text


def test_a_note_names_what_the_file_computes_of_the_prediction():
    output = '<OutputField name="doubled" feature="transformedValue"><FieldRef field="y"/></OutputField>'
    root = '<Node score="1"><True/></Node>'
    tree = pmml.tree(f"{pmml.schema('x')}<Output>{output}</Output>", root)
    model = PmmlModel(pmml.file([pmml.numbers("x")], pmml.numbers("y"), tree))
    assert any("what the file computes from it (doubled)" in note for note in debias_extract(model.trees).notes)


@pytest.mark.thorough
def test_labels_that_look_like_numbers_are_read_from_a_table_as_texts(tmp_path):
    test = '<SimplePredicate field="code" operator="equal" value="01"/>'
    root = f'<Node score="0"><True/><Node score="1">{test}</Node></Node>'
    tree = pmml.tree(pmml.schema(["code"]), root, noTrueChildStrategy="returnLastPrediction")
    (tmp_path / "model.pmml").write_bytes(pmml.file([pmml.labels("code", ("01", "1"))], pmml.numbers("y"), tree))
    (tmp_path / "rows.csv").write_text("code,y\n" + "01,1.2\n1,-0.2\n" * 30)
    arguments = [str(tmp_path / "model.pmml"), str(tmp_path / "rows.csv"), "--target", "y", "--rows", "held-out"]
    done = CliRunner().invoke(main, ["score", *arguments, "--format", "json"])
    assert done.exit_code == 0, done.output
    assert '"code"' in done.output
    model = debias.load_model(tmp_path / "model.pmml")
    rows = pd.read_csv(tmp_path / "rows.csv", dtype={"code": str})
    assert debias.score(model, rows[["code"]], rows["y"], rows="held-out").values[0] == pytest.approx(
        0.35
    )  # the covariance of the tree and the response
    with pytest.raises(DebiasError, match="column 'code' has the value '2'"):
        debias.score(model, rows[["code"]].replace("1", "2"), rows["y"], rows="held-out")
