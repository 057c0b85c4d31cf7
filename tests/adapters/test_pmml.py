"""Tests of the adapter of PMML: files of sklearn2pmml and nyoka, files drawn at random, and files with faults.

tests/old_files/make_pmml.py made the files and wrote down what JPMML answers.
"""

from __future__ import annotations

import json
import pickle
import re
from functools import cache
from pathlib import Path

import lightgbm
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy.special import expit, softmax
from sklearn.ensemble import HistGradientBoostingRegressor

import debias
from debias.cli import main
from debias.errors import InBagUnavailableError, RowsError, UnsupportedModelError
from debias.testing import check_adapter
from debias.trees.routing import route
from debias_adapters.pmml.hooks import debias_extract, debias_leaves, debias_predict_raw
from debias_adapters.pmml.model import PmmlModel
from debias_adapters.pmml.nodes import texts_of
from support import pmml
from support.versions import needs

HOME = Path(__file__).parents[1] / "old_files/pmml"
ANSWERS = json.loads((HOME / "answers.json").read_text())
N_TRAIN = 200
WITHOUT_MISSING = ("forest", "tree", "extra_trees", "gradient_two")
EXACT, FLOAT32 = 1e-12, 1e-6
PLAIN = ["a", "b", "count"]


@cache
def table():
    return pd.read_csv(HOME / "rows.csv")


@cache
def loaded(name):
    return debias.load_model(HOME / f"{name}.pmml")


def rows_of(model, part=slice(N_TRAIN, None)):
    return table()[list(model.names)][part]


def response_of(model):
    """Return the response that a file was made for."""
    kind = {"yes": "two", "low": "three", "1": "number"}
    return next((column for label, column in kind.items() if label in model.said.labels), "y")


def predicted(model, X):
    """Return what the file predicts: a number, or the shares of the classes by their labels."""
    raw, said = debias_predict_raw(model.trees, model.trees.transform(X)), model.said
    if not said.is_classifier:
        return {"": np.exp(raw[:, 0]) if said.link == "exp" else raw[:, 0]}
    if said.link == "logit":
        raw = np.column_stack([expit(-raw[:, 0]), expit(raw[:, 0])])
    shares = softmax(raw, axis=1) if said.link == "softmax" else raw
    return {f"probability({label})": shares[:, k] for k, label in enumerate(said.labels)}


# --- files of converters


@pytest.mark.parametrize("name", ANSWERS["rows"])
def test_predictions_are_those_of_jpmml_or_of_the_library(name):
    model, answer = loaded(name), ANSWERS["rows"][name]
    found = predicted(model, rows_of(model))
    near = FLOAT32 if "extreme" in name else EXACT
    assert len(found) == len(answer)
    for label, expected in answer.items():
        np.testing.assert_allclose(found.get(label, found.get("")), expected, rtol=near, atol=near)


@pytest.mark.parametrize("name", ANSWERS["rows"])
def test_an_audit_agrees_with_the_file_leaf_by_leaf(name):
    model = loaded(name)
    X, y = rows_of(model), table()[response_of(model)][N_TRAIN:]
    if name == "extreme_poisson":
        y = table()["events"][N_TRAIN:]
    audit = debias.audit(model, X, y, rows="held-out", random_state=0)  # compares leaves and outputs of sample rows
    assert audit.tested_scores.feature_names == model.names
    assert not np.isnan(audit.tested_scores.values).any()
    ensemble = debias_extract(model.trees)
    assert (debias_leaves(model.trees, model.trees.transform(X)) >= 0).all()
    assert ensemble.objective.name == {
        "none": "squared_error",
        "logit": "logistic",
        "softmax": "softmax",
        "exp": "poisson",
    }.get(model.said.link)


EXTREME = pytest.param("extreme", marks=needs("xgboost", "3.1", "it reads 0.5 for the base score of newer files"))
ORIGINAL = {"light": "plain_light.txt", "extreme": "plain_extreme.json"}
SCORERS = ("mdi_oob", "oob_loss", "honest_effects(kind='linear')", "shap_oob", "oob_split")
"""Not ``kind="both"``, whose weights are fitted to all features: the file leaves out those without splits."""


@pytest.mark.parametrize("form", ["plain", "whole"])
@pytest.mark.parametrize("name", ["light", EXTREME])
def test_scores_are_those_of_the_model_that_was_converted(name, form):
    """Also where sklearn2pmml has joined nodes (plain): children in their order are the splits in theirs."""
    X, y = table()[PLAIN], table()["y"]
    train = (X[:N_TRAIN], y[:N_TRAIN])
    model, original = loaded(f"{form}_{name}"), debias.load_model(HOME / ORIGINAL[name])
    for scorer in SCORERS:
        given = {"rows": "held-out", "train": train}
        ours = debias.score(model, X[N_TRAIN:][list(model.names)], y[N_TRAIN:], scorer, **given)
        theirs = debias.score(original, X[N_TRAIN:], y[N_TRAIN:], scorer, **given)
        expected = [dict(zip(theirs.feature_names, theirs.values, strict=True))[each] for each in model.names]
        # The file rounds the leaves of XGBoost, which are in float32, to 8 digits.
        np.testing.assert_allclose(ours.values, expected, rtol=1e-9 if name == "light" else 1e-4)


@pytest.mark.parametrize("version", ["4.2", "4.3", "4.4.1"])
def test_older_versions_have_the_same_trees(version):
    content = (HOME / "forest_two.pmml").read_bytes()
    namespace = version[:3].replace(".", "_").encode()
    older = content.replace(b"PMML-4_4", b"PMML-" + namespace).replace(
        b'version="4.4"', f'version="{version}"'.encode()
    )
    X = rows_of(loaded("forest_two"))
    for label, share in predicted(PmmlModel(older), X).items():
        np.testing.assert_array_equal(share, predicted(loaded("forest_two"), X)[label])


def test_numbers_of_rows_that_add_up_are_weights():
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(300, 3)), columns=["x<1", "y&z", "w"])
    y = X["w"] + random.normal(size=300)
    booster = lightgbm.LGBMRegressor(n_estimators=5, num_leaves=6, verbose=-1, n_jobs=1).fit(X[:200], y[:200])
    read = PmmlModel(pmml.written(debias.plugin.extract(booster)))
    ours = debias.score(read, X[200:], y[200:], "mdi_oob", rows="held-out")
    theirs = debias.score(booster, X[200:], y[200:], "mdi_oob", rows="held-out")
    np.testing.assert_allclose(ours.values, theirs.values, rtol=EXACT)
    assert ours.feature_names == theirs.feature_names == tuple(X.columns)


def test_categories_and_missing_values_of_a_written_file():
    random = np.random.default_rng(1)
    X = pd.DataFrame({"x": random.normal(size=300), "kind": pd.Categorical(random.choice(["a b", "c", "d<"], 300))})
    y = X["x"] + (X["kind"] == "c") + random.normal(size=300) / 4
    X.loc[::7, "x"] = np.nan
    hist = HistGradientBoostingRegressor(max_iter=5, categorical_features="from_dtype").fit(X, y)
    read = PmmlModel(pmml.written(debias.plugin.extract(hist)))
    np.testing.assert_allclose(predicted(read, X)[""], hist.predict(X), rtol=EXACT)


def test_rows_with_missing_values_are_refused_where_the_file_gives_no_prediction():
    for name in WITHOUT_MISSING:
        model = loaded(name)
        X = rows_of(model)
        with pytest.raises(
            RowsError,
            match=r"row 0 has missing values in a, and the PMML model .*60 such rows of 60: 0, 1, 2",
        ):
            debias.score(model, X.assign(a=np.nan), table()[response_of(model)][N_TRAIN:], rows="held-out")


def test_columns_come_by_name_and_an_array_in_the_order_of_the_file():
    model, y = loaded("light"), table()["y"][N_TRAIN:]
    X = rows_of(model)
    expected = debias.score(model, X, y, rows="held-out").values
    for other in (X[list(X.columns)[::-1]], X.assign(more=1.0), X.to_numpy(dtype=object)):
        np.testing.assert_array_equal(debias.score(model, other, y, rows="held-out").values, expected)
    with pytest.raises(RowsError, match="no column 'kind', which the PMML model needs"):
        predicted(model, X.rename(columns={"kind": "sort"}))
    with pytest.raises(RowsError, match="takes 3 columns"):
        predicted(model, X.to_numpy(dtype=object)[:, :2])


def test_a_value_that_the_model_refuses_is_an_error_of_the_row():
    X = rows_of(loaded("forest")).reset_index(drop=True)
    with pytest.raises(RowsError, match=r"column 'kind' has the value 'pink' in row 3, .* \(2 such rows\)"):
        predicted(
            loaded("forest"), X.assign(kind=["pink" if k in (3, 7) else each for k, each in enumerate(X["kind"])])
        )
    with pytest.raises(RowsError, match="column 'a' has the value 'much', and the model takes numbers"):
        predicted(loaded("forest"), X.assign(a="much"))


@pytest.mark.parametrize("name", ["light", "forest_two", "gradient_three", "hist", "extreme"])
def test_the_adapter_passes_the_checks(name):
    model = loaded(name)
    check_adapter(model, rows_of(model), table()[response_of(model)][N_TRAIN:])


def test_out_of_bag_rows_and_refits_are_refused():
    model = loaded("forest")
    X, y = rows_of(model, slice(N_TRAIN)), table()["y"][:N_TRAIN]
    with pytest.raises(InBagUnavailableError, match="does not keep which rows its trees were grown on"):
        debias.score(model, X, y, rows="oob")
    with pytest.raises(UnsupportedModelError, match="cannot be refitted: that needs the fitted model of a library"):
        debias.refit(model, X, y)


@pytest.mark.thorough
def test_an_audit_in_the_shell(tmp_path):
    path = tmp_path / "rows.csv"
    table()[["a_missing", "b_missing", "count", "kind", "two"]][N_TRAIN:].to_csv(path, index=False)
    done = CliRunner().invoke(
        main,
        ["audit", str(HOME / "light_two.pmml"), str(path), "--target", "two", "--rows", "held-out", "--format", "csv"],
    )
    assert done.exit_code == 0, done.output
    assert "a_missing" in done.output


def test_models_are_kept_by_pickle_and_not_changed():
    model = loaded("light_three")
    before = model.content
    again = pickle.loads(pickle.dumps(model))
    X = rows_of(model)
    for label, share in predicted(again, X).items():
        np.testing.assert_array_equal(share, predicted(model, X)[label])
    assert model.content is before
    assert "SkLearn2PMML" in repr(model)


# --- files drawn at random


@pytest.mark.parametrize("seed", range(40))
def test_drawn_files_are_answered_as_jpmml_does(seed):
    answer, rows = ANSWERS["drawn"][str(seed)], pmml.rows(seed)
    compare(pmml.drawn(seed), rows, [{k: values[row] for k, values in answer.items()} for row in range(len(rows))])


@pytest.mark.thorough
@pytest.mark.parametrize("first", range(40, 140, 20))
def test_drawn_files_are_answered_by_the_words_of_the_standard(first):
    for seed in range(first, first + 20):
        content, rows = pmml.drawn(seed), pmml.rows(seed)
        found = [pmml.evaluated(content, dict(zip(pmml.WORDS, row, strict=True))) for row in rows]
        compare(content, rows, [_named(each) for each in found])


def _named(answer):
    if answer is None:
        return {"y": None}
    if isinstance(answer, dict):
        return {f"probability({label})": answer.get(label, 0.0) for label in pmml.CLASSES}
    return {"y": answer}


def compare(content, rows, answers):
    """Compare predictions and leaves with the answers for the rows; a row without an answer must be refused."""
    model = PmmlModel(content)
    ensemble = debias_extract(model.trees)
    X = pd.DataFrame(rows, columns=pmml.WORDS)
    assert ensemble.missing_refusal is None
    without = model.trees.without_prediction(model.said.fields.columns(X, model.said.columns)).any(axis=1)
    none = np.array([None in answer.values() for answer in answers])
    # JPMML leaves trees without a prediction out of a vote: what is left is no mean over the trees.
    assert (without >= none).all() if "Vote" in model.said.sums[0].method else (without == none).all()
    for row in np.flatnonzero(without):
        with pytest.raises(RowsError, match=r"row 0 has missing values in .* that has a leaf in every tree \(1 such"):
            model.trees.transform(X[row : row + 1])
    answers = [answer for answer, refused in zip(answers, without, strict=True) if not refused]
    X = X[~without]
    matrix = model.trees.transform(X)
    found, leaves = predicted(model, X), debias_leaves(model.trees, matrix)
    for row, answer in enumerate(answers):
        assert (leaves[row] >= 0).all()
        for label, expected in answer.items():
            assert found.get(label, found.get(""))[row] == pytest.approx(expected, rel=EXACT, abs=EXACT)


# --- one text, many forms

PREFIXES = re.compile(r"<(/?)(?=[A-Z])")
SIMPLE = re.compile(r"<SimplePredicate([^>]*)/>")
WITH_TREE = '<Extension name="q"><Node score="1"><True/></Node><TreeModel><Node/></TreeModel></Extension>'
FORMS = {
    "other ends of lines": lambda text: text.replace("\n", "\r\n"),
    "one line": lambda text: re.sub(r">\s+<", "><", text),
    "comments": lambda text: re.sub(r"(<(?:Simple|True|Node|Score))", r"<!-- <Node score='9'/> -->\1", text),
    "extensions before predicates": lambda text: text.replace("<SimplePredicate", WITH_TREE + "<SimplePredicate"),
    "extensions last": lambda text: text.replace("</Node>", "<Extension/></Node>"),
    "extensions in predicates": lambda text: SIMPLE.sub(rf"<SimplePredicate\1>{WITH_TREE}</SimplePredicate>", text),
    "ends of their own": lambda text: SIMPLE.sub(r"<SimplePredicate\1></SimplePredicate>", text),
    "no namespace": lambda text: re.sub(r' xmlns="[^"]*"', "", text),
    "a prefix": lambda text: PREFIXES.sub(r"<\1p:", text.replace("xmlns=", "xmlns:p=")),
    "instructions": lambda text: text.replace("<Node", "<?a b?><Node"),
    "CDATA": lambda text: text.replace("<Header>", "<Header><![CDATA[ <Node> ]]>"),
    "blanks around numbers": lambda text: re.sub(r'(value|score)="(-?\d[^"]*)"', r'\1=" \2 "', text),
    "other quotes": lambda text: re.sub(r"""(value|score|operator|field)="([^"']*)\"""", r"\1='\2'", text),
    "references": lambda text: text.replace('operator="less', 'operator="&#108;ess'),
}


@pytest.mark.parametrize("form", [*FORMS, "UTF-16"])
def test_the_form_of_the_text_does_not_matter(form):
    for name in ("light", "forest_two", "gradient_three"):
        text = (HOME / f"{name}.pmml").read_text()
        if form == "blanks around numbers" and name == "forest_two":  # its scores are labels
            continue
        if form == "UTF-16":
            content = text.replace('encoding="UTF-8"', 'encoding="UTF-16"').encode("utf-16")
        else:
            content = FORMS[form](text).encode()
        assert content != text.encode()
        X = rows_of(loaded(name))
        for label, found in predicted(PmmlModel(content), X).items():
            np.testing.assert_array_equal(found, predicted(loaded(name), X)[label])


def test_predicates_after_the_children_of_their_node():
    predicate = '<SimplePredicate field="x" operator="lessThan" value="{}"/>'
    inside = f'<Node score="1">{predicate.format(-1)}</Node>{predicate.format(0)}'
    root = f'<Node score="3"><Node score="2">{inside}</Node><True/></Node>'
    model = PmmlModel(simple(pmml.tree(pmml.schema(["x"]), root, noTrueChildStrategy="returnLastPrediction")))
    np.testing.assert_array_equal(predicted(model, pd.DataFrame({"x": [-2.0, -0.5, 1.0]}))[""], [1, 2, 3])


@pytest.mark.thorough
def test_a_thousand_trees_are_read_as_those_of_the_library(tmp_path):
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(400, 3)), columns=list("abc"))
    booster = lightgbm.LGBMRegressor(n_estimators=1000, num_leaves=4, verbose=-1, n_jobs=1).fit(X, X["a"])
    trees = debias.plugin.extract(booster)
    (tmp_path / "model.pmml").write_bytes(pmml.written(trees))
    model = debias.load_model(tmp_path / "model.pmml")
    read = debias.plugin.extract(model.trees)
    assert read.n_trees == 1000
    of_leaves = [
        each.value[route(each, rows) + each.tree_start[:-1], 0]
        for each, rows in ((read, model.trees.transform(X)), (trees, X.to_numpy()))
    ]
    np.testing.assert_array_equal(*of_leaves)
    np.testing.assert_allclose(predicted(model, X)[""], booster.predict(X), rtol=EXACT)


def test_labels_of_many_words_of_bits():
    """Sets of 300 labels are read as the standard says: each label, and a label that the file does not list."""
    names, draw = [f"l{k}" for k in range(300)], np.random.default_rng(0)
    chosen = [set(draw.choice(names, 140, replace=False)) for _ in range(3)]
    arrays = [f'<Array type="string" n="{len(each)}">{" ".join(sorted(each))}</Array>' for each in chosen]
    inside = "".join(
        f'<Node score="{k}"><SimpleSetPredicate field="x" booleanOperator="isIn">{each}</SimpleSetPredicate></Node>'
        for k, each in enumerate(arrays)
    )
    root = f'<Node score="9"><True/>{inside}</Node>'
    tree = pmml.tree(pmml.schema(["x"], invalidValueTreatment="asIs"), root, noTrueChildStrategy="returnLastPrediction")
    model = PmmlModel(simple(tree, pmml.labels("x", names)))
    given = [*names, "another"]
    expected = [next((k for k, each in enumerate(chosen) if name in each), 9) for name in given]
    np.testing.assert_array_equal(predicted(model, pd.DataFrame({"x": given}))[""], expected)


# --- what the columns are made of


def with_derived(expression, kind="double", column='<DataField name="x" optype="continuous" dataType="double"/>'):
    """Return a file whose only tree splits the column `made` at 1."""
    made = f'<DerivedField name="made" optype="continuous" dataType="{kind}">{expression}</DerivedField>'
    root = (
        '<Node><True/><Node score="1"><SimplePredicate field="made" operator="lessOrEqual" value="1"/></Node>'
        '<Node score="2"><SimplePredicate field="made" operator="greaterThan" value="1"/></Node></Node>'
    )
    transformations = f"<TransformationDictionary>{made}</TransformationDictionary>"
    return pmml.file([column], pmml.numbers("y"), pmml.tree(pmml.schema(["x"]), root), transformations)


LINEAR = (
    '<NormContinuous field="x"><LinearNorm orig="0" norm="0"/><LinearNorm orig="2" norm="1"/>'
    '<LinearNorm orig="3" norm="3"/></NormContinuous>'
)


@pytest.mark.parametrize(
    ("expression", "kind", "values", "expected"),
    [
        (LINEAR, "double", [-2, 0, 1, 2, 2.5, 4], [-1, 0, 0.5, 1, 2, 5]),
        ('<FieldRef field="x"/>', "float", [0.1, 2.0], [np.float32(0.1), 2.0]),
        (
            '<Apply function="/"><Apply function="-"><FieldRef field="x"/><Constant>3</Constant></Apply>'
            "<Constant>0.7</Constant></Apply>",
            "double",
            [3.7, 1.0],
            [(3.7 - 3) / 0.7, -2 / 0.7],
        ),
    ],
)
def test_derived_numbers(expression, kind, values, expected):
    model = PmmlModel(with_derived(expression, kind))
    made = model.trees.transform(pd.DataFrame({"x": values}))
    np.testing.assert_array_equal(made[:, 0], np.array(expected, dtype=float))
    np.testing.assert_array_equal(predicted(model, pd.DataFrame({"x": values}))[""], np.where(made[:, 0] <= 1, 1, 2))


def test_one_hot_columns_are_traced_to_the_label():
    one_hot = '<NormDiscrete field="x" value="red"/>'
    content = with_derived(one_hot, column=pmml.labels("x", ("red", "blue"))).replace(b'value="1"', b'value="0.5"')
    model = PmmlModel(content)
    X = pd.DataFrame({"x": ["red", "blue"] * 20})
    np.testing.assert_array_equal(predicted(model, X)[""], [2, 1] * 20)
    scores = debias.score(model, X, np.array([2.1, 1.0] * 20), rows="held-out")
    assert scores.feature_names == ("x",)
    assert scores.values[0] == pytest.approx(0.275)  # the covariance of the tree and the response


def test_valid_intervals_and_texts_for_missing_values():
    inside = '<Interval closure="openClosed" leftMargin="0" rightMargin="5"/><Value value="-9" property="missing"/>'
    content = with_derived('<FieldRef field="x"/>', column=pmml.numbers("x", inside=inside))
    read = PmmlModel(content).said.fields.columns(pd.DataFrame({"x": [5.0, 0.5, "-9"]}), ["made"])
    np.testing.assert_array_equal(read[:, 0], [5, 0.5, np.nan])
    for wrong in (0.0, 5.5):
        with pytest.raises(RowsError, match="for which the PMML model gives no prediction"):
            PmmlModel(content).trees.transform(pd.DataFrame({"x": [1.0, wrong]}))


def test_texts_in_an_array():
    assert texts_of(' a  "b c" "the \\"d\\"" e ') == ["a", "b c", 'the "d"', "e"]


# --- what is refused

TREE = pmml.tree(pmml.schema(["x"]), '<Node score="1"><True/></Node>')
SUM = pmml.ensemble(pmml.schema(["x"]), [TREE, TREE], "sum")


def simple(model, column='<DataField name="x" optype="continuous" dataType="double"/>'):
    return pmml.file([column], pmml.numbers("y"), model)


CHAIN = pmml.ensemble(pmml.schema(["x"]), [TREE], "modelChain")
CUT = pmml.ensemble(pmml.schema(["x"]), [TREE], "sum", targets='<Targets><Target field="y" max="1"/></Targets>')
GAP = pmml.tree(
    pmml.schema(["x"]),
    '<Node score="1"><True/><Node score="1"><SimplePredicate field="x" operator="lessThan" value="0"/></Node>'
    '<Node score="1"><SimplePredicate field="x" operator="greaterThan" value="0"/></Node></Node>',
)


def nested(depth):
    model = TREE
    for _ in range(depth):
        model = pmml.ensemble(pmml.schema(["x"]), [model], "sum")
    return model


def table_of(*values):
    rows = "".join(f"<row><in>{value}</in><out>0</out></row>" for value in values)
    pair = '<FieldColumnPair field="x" column="in"/>'
    return f'<MapValues outputColumn="out">{pair}<InlineTable>{rows}</InlineTable></MapValues>'


WRONG = {
    "a document type": (
        b'<?xml version="1.0"?><!DOCTYPE PMML [<!ENTITY a "aaaa">]><PMML version="4.4">&a;</PMML>',
        "DOCTYPE",
    ),
    "not whole": (simple(TREE)[:-9], "no whole XML"),
    "another element": (b"<html></html>", "has the element 'html'"),
    "an old version": (simple(TREE).replace(b'version="4.4"', b'version="3.2"'), "PMML of the version 3.2"),
    "no trees": (simple("<RegressionModel/>"), "has a RegressionModel, which has no trees"),
    "two models": (simple(TREE + TREE), "has 2 models"),
    "no response": (simple(TREE.replace('<MiningField name="y" usageType="target"/>', "")), "no response"),
    "a median": (simple(SUM.replace('"sum"', '"median"')), "put together by 'median'"),
    "parts of the rows": (simple(SUM.replace("<True/><TreeModel", "<False/><TreeModel")), "a part of the rows"),
    "a chain": (simple(CHAIN), "whose last one is no RegressionModel"),
    "a limit": (simple(CUT), "max of a Target"),
    "a gap": (simple(GAP), "no prediction for some rows without missing values"),
    "a score that is none": (simple(TREE.replace('score="1"', 'score="much"')), "a finite number"),
    "no score": (simple(TREE.replace(' score="1"', "")), "a node without children has no score"),
    "an unknown field": (simple(GAP.replace('field="x"', 'field="z"')), "uses the field 'z'"),
    "an infinite limit": (simple(GAP.replace('value="0"', 'value="INF"')), "must be a finite number"),
    "a date": (simple(TREE, '<DataField name="x" optype="continuous" dataType="date"/>'), "type 'date'"),
    "outliers": (simple(TREE.replace('name="x"', 'name="x" outliers="asExtremeValues"')), "outliers="),
    "another expression": (with_derived('<TextIndex textField="x"/>'), "a derived field by TextIndex"),
    "no table of values": (
        with_derived('<MapValues outputColumn="z"/>'),
        "MapValues of several columns, or without an",
    ),
    "a value twice in a table": (
        with_derived(table_of(1, 1)),
        "the MapValues of 'x' has the value '1' twice",
    ),
    "a table without its column": (
        with_derived(table_of(1).replace('column="in"', 'column="other"')),
        "a row of the MapValues of 'x' has no value, or nothing that it is mapped to",
    ),
    "a table in a function": (
        with_derived(f'<Apply function="+">{table_of(1)}<Constant>1</Constant></Apply>'),
        "a MapValues or a Discretize inside of the function",
    ),
    "another function": (with_derived('<Apply function="exp"><FieldRef field="x"/></Apply>'), "the function 'exp'"),
    "another operator": (
        simple(
            GAP.replace(
                "<SimplePredicate", '<CompoundPredicate booleanOperator="nor"><True/><SimplePredicate', 1
            ).replace('value="0"/></Node>', 'value="0"/></CompoundPredicate></Node>', 1)
        ),
        "joined by 'nor'",
    ),
    "an operator that is a number": (simple(GAP.replace('"lessThan"', '"0"')), "the operator '0', or no value"),
    "no value": (simple(GAP.replace(' value="0"', "", 1)), "the operator 'lessThan', or no value"),
    "another element in a node": (simple(TREE.replace("<True/>", "<True/><Regression/>")), "has Regression in a node"),
    "an unknown encoding": (simple(TREE).replace(b"UTF-8", b"color"), "no whole XML"),
    "two predicates": (simple(TREE.replace("<True/>", "<True/><False/>")), "a node has 2 predicates"),
    "an ensemble of votes": (
        simple(pmml.ensemble(pmml.schema(["x"]), [SUM.replace('"sum"', '"majorityVote"')] * 2, "average")),
        "a vote of ensembles, or an ensemble of votes",
    ),
    "an ensemble of chains": (
        simple(pmml.ensemble(pmml.schema(["x"]), [CHAIN, TREE], "sum")),
        "put together by 'modelChain'",
    ),
    "ensembles in many levels": (simple(nested(30)), "more than 20 levels"),
    "functions in many levels": (
        with_derived('<Apply function="+">' * 60 + '<FieldRef field="x"/>' + "</Apply>" * 60),
        "more than 50 levels",
    ),
    "a condition that is a number": (
        with_derived(f'<Apply function="if">{"<Constant>1</Constant>" * 3}</Apply>'),
        "a Constant is neither true nor false",
    ),
    "truth as a number": (
        with_derived('<Apply function="isMissing"><FieldRef field="x"/></Apply>'),
        "the function 'isMissing', which is true or false, as a number",
    ),
    "a bin without limits": (
        with_derived('<Discretize field="x"><DiscretizeBin binValue="1"/></Discretize>'),
        "no Interval",
    ),
    "no columns": (simple(TREE.replace('<MiningField name="x"/>', "")), "takes no columns, whose trees have no splits"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_not_read_is_refused_by_name(what, tmp_path):
    content, message = WRONG[what]
    path = tmp_path / "model.pmml"
    path.write_bytes(content)
    with pytest.raises(debias.DebiasError, match=message):
        debias.load_model(path)


def test_a_comparison_of_a_missing_value_refuses_the_row():
    """Only where the comparison is made: here not for rows whose first condition does not hold."""
    condition = '<Apply function="lessThan"><FieldRef field="x"/><Constant>1</Constant></Apply>'
    choice = f'<Apply function="if">{condition}<Constant>1</Constant><Constant>2</Constant></Apply>'
    X = pd.DataFrame({"x": [0.0, 2.0, np.nan]})
    with pytest.raises(
        RowsError, match="row 2 has a missing value in 'x', which the PMML model compares by .*'lessThan'"
    ):
        PmmlModel(with_derived(choice)).trees.transform(X)
    known = '<Apply function="isNotMissing"><FieldRef field="x"/></Apply>'
    guarded = f'<Apply function="if">{known}{choice}<Constant>3</Constant></Apply>'
    np.testing.assert_array_equal(PmmlModel(with_derived(guarded)).trees.transform(X)[:, 0], [1, 2, 3])


def test_scores_of_a_choice_are_of_its_column():
    known = '<Apply function="isNotMissing"><FieldRef field="x"/></Apply>'
    filled = f'<Apply function="if">{known}<FieldRef field="x"/><Constant>5</Constant></Apply>'
    model = PmmlModel(with_derived(filled))
    X = pd.DataFrame({"x": [0.0, np.nan] * 20})
    scores = debias.score(model, X, np.array([1.0, 2.1] * 20), rows="held-out")
    assert scores.feature_names == ("x",)
    assert scores.values[0] == pytest.approx(0.275)  # the covariance of the tree and the response


def test_an_isolation_forest_is_refused():
    with pytest.raises(UnsupportedModelError, match="isolation forest"):
        loaded("isolation")


@pytest.mark.thorough
def test_predicates_that_would_take_too_long_are_refused():
    """Each of many children asks for two columns, so that each split looks at all children."""
    test = '<SimplePredicate field="{}" operator="lessThan" value="{}"/>'
    children = "".join(
        f'<Node score="{k}"><CompoundPredicate booleanOperator="and">{test.format("x", k)}{test.format("z", -k)}'
        "</CompoundPredicate></Node>"
        for k in range(6000)
    )
    tree = pmml.tree(
        pmml.schema(["x", "z"]), f'<Node score="0"><True/>{children}</Node>', noTrueChildStrategy="returnLastPrediction"
    )
    model = PmmlModel(pmml.file([pmml.numbers("x"), pmml.numbers("z")], pmml.numbers("y"), tree))
    with pytest.raises(UnsupportedModelError, match="or far too long"):
        debias_extract(model.trees)


@pytest.mark.thorough
def test_deep_files_need_no_recursion():
    depth = 20_000
    node = '<Node score="{}"><SimplePredicate field="x" operator="lessThan" value="{}"/>'
    inside = "".join(node.format(-k, -k) for k in range(1, depth))
    root = f'<Node score="0"><True/>{inside}{"</Node>" * (depth - 1)}</Node>'
    model = PmmlModel(simple(pmml.tree(pmml.schema(["x"]), root, noTrueChildStrategy="returnLastPrediction")))
    found = predicted(model, pd.DataFrame({"x": [1.0, -0.5, -1.5, -19_999.5]}))[""]
    np.testing.assert_array_equal(found, [0, 0, -1, -19_999])
