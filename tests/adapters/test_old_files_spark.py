"""Directories that Spark 3.5 and 4.3 saved, read without Spark: tests/old_files/make_spark.py made them."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import debias
import debias.testing
from debias.models.wrappers import unwrap
from debias.trees.routing import raw_output, route
from support import oracle

pytest.importorskip("pyarrow")
HOME = Path(__file__).parents[1] / "old_files/spark"
N_TRAIN = 100
VERSIONS = ("3.5.9", "4.3.0")
RESPONSES = {"forest": "sold", "means": "price", "steps": "price", "odds": "sold", "tree": "sold"}
READS = {
    "forest": ("a", "b", "city", "floors"),
    "means": ("a", "b", "city", "floors"),
    "steps": ("a", "b", "city", "floors"),
    "odds": ("a", "b", "floors"),
    "tree": ("a", "city", "floors"),
}
EACH = pytest.mark.parametrize(("version", "name"), [(version, name) for version in VERSIONS for name in RESPONSES])
NAMES = pytest.mark.parametrize("name", RESPONSES)
FRESH = "ignore:(these rows differ|the labels|the mean of y):debias.DebiasWarning"


@pytest.fixture(scope="module")
def saved():
    """Return a function that loads each directory once."""
    models = {}

    def load(name, version="4.3.0"):
        if (version, name) not in models:
            with pytest.MonkeyPatch.context() as patch:  # one is read in a process of its own, which takes a second
                if (version, name) != ("4.3.0", "forest"):
                    patch.setattr("debias.models.sandbox.check", lambda *_, **__: None)
                models[version, name] = debias.load_model(HOME / version / name)
        return models[version, name]

    return load


def rows(name=None, part=slice(N_TRAIN, None)):
    table = pd.read_csv(HOME / "rows.csv")[part].reset_index(drop=True)
    return table if name is None else (table, table[RESPONSES[name]])


@pytest.mark.thorough
@EACH
def test_columns_output_and_importance_are_those_of_spark(version, name, saved):
    expected = json.loads((HOME / version / "expected.json").read_text())[name]
    X, _ = rows(name)
    (member,) = unwrap(saved(name, version), X)
    np.testing.assert_array_equal(member.X, expected["features"])
    raw = raw_output(member.ensemble, route(member.ensemble, member.X))
    np.testing.assert_allclose(raw, np.reshape(expected["output"], (len(X), -1)), rtol=0, atol=1e-12)
    np.testing.assert_allclose(member.model.reported_importance(), expected["importance"], rtol=0, atol=1e-12)
    assert member.ensemble.version == version


@pytest.mark.thorough
@NAMES
@pytest.mark.filterwarnings(FRESH)
def test_scores_are_of_the_columns_of_the_user(name, saved):
    X, y = rows(name)
    scores = debias.score(saved(name), X, y, rows="held-out")
    assert scores.feature_names == READS[name]
    assert any("not compared with those of Spark" in warning for warning in scores.warnings)
    of_model = debias.score(saved(name), X, y, rows="held-out", level="model")
    np.testing.assert_allclose(of_model.values.sum(), scores.values.sum(), rtol=1e-10)


@pytest.mark.thorough
@pytest.mark.filterwarnings(FRESH)
def test_columns_at_the_level_of_the_model_are_called_as_in_spark(saved):
    scores = debias.score(saved("forest"), *rows("forest"), rows="held-out", level="model")
    cities = [name for name in scores.feature_names if name.startswith("city_hot_")]
    assert set(cities) < {f"city_hot_{city}" for city in ("Aix", "Bonn", "Cork", "Dax", "Enns")}
    assert scores.feature_names == ("a", "b_whole", *cities, "height")


@pytest.mark.filterwarnings(FRESH)
@pytest.mark.parametrize("container", ["polars", "pyarrow", "array", "other order"])
def test_rows_in_any_container_score_alike(container, saved):
    X, y = rows("forest")
    expected = debias.score(saved("forest"), X, y, rows="held-out")
    used = list(READS["forest"])
    if container == "array":
        given = X[used].to_numpy(dtype=object)
    elif container == "other order":
        given = X[used[::-1]].astype({"city": "category", "floors": "Int64"})
    else:
        library = pytest.importorskip(container)
        table = {name: X[name].astype(object).where(X[name].notna(), None).tolist() for name in used}
        given = library.DataFrame(table) if container == "polars" else library.table(table)
    found = debias.score(saved("forest"), given, y, rows="held-out")
    np.testing.assert_array_equal(found.values, expected.values)


def goes_left(record):
    """Return Spark's rule: at most the threshold, or in the list of categories."""
    split = record["split"]
    if split["numCategories"] < 0:
        return lambda x: x <= split["leftCategoriesOrThreshold"][0]
    return lambda x: x in split["leftCategoriesOrThreshold"]


def brute_force(name, n_features):
    """Read a directory as the oracle has models. Margins of odds are doubled: then the loss is the usual log-loss."""
    import pyarrow.parquet as pq

    (folder,) = (path.parent for path in (HOME / "4.3.0" / name).rglob("treesMetadata"))
    records = pq.read_table(folder / "data").to_pylist()
    weights = {record["_1"]: record["_3"] for record in pq.read_table(folder / "treesMetadata").to_pylist()}
    boosted, factor = name in ("steps", "odds"), 2.0 if name == "odds" else 1.0
    trees, base = [], 0.0
    for number, weight in sorted(weights.items()):
        stored = sorted((r["nodeData"] for r in records if r["treeID"] == number), key=lambda node: node["id"])
        start = stored[0]["prediction"] if boosted and number == 0 else 0.0
        base += factor * start
        nodes = []
        for node in stored:
            stats = node["impurityStats"]
            total = sum(stats) if name == "forest" else stats[0]
            value = [s / total for s in stats] if name == "forest" else [factor * weight * (node["prediction"] - start)]
            rule = () if node["leftChild"] < 0 else (node["split"]["featureIndex"], goes_left(node))
            children = {"left": node["leftChild"], "right": node["rightChild"]}
            # Spark stores an impurity of -1 at leaves that it could not split.
            impurity = 1 - sum(v**2 for v in value) if name == "forest" else stats[2] / total - (stats[1] / total) ** 2
            nodes.append(oracle.Node(value, total, *rule, **children, weight=total, impurity=impurity))
        trees.append(oracle.Tree(nodes))
    loss, classes = ("logistic", ["no", "yes"]) if name == "odds" else ("squared_error", None)
    classes = ["no", "yes"] if name == "forest" else classes
    return oracle.Model(trees, n_features, averaged=not boosted, loss=loss, base=[base], classes=classes)


@pytest.mark.filterwarnings(FRESH)
@pytest.mark.parametrize("scorer", ["mdi_oob", "oob_split", "oob_loss", "mdi"])
@pytest.mark.parametrize("name", ["forest", "means", "steps", "odds"])
def test_held_out_scores_are_the_definition(name, scorer, saved):
    X, y = rows(name)
    (member,) = unwrap(saved(name), X, y)
    form = brute_force(name, member.X.shape[1])
    boosted = name in ("steps", "odds")
    if boosted and (scorer == "mdi" or (name == "steps" and scorer == "oob_loss")):
        pytest.skip("boosted trees have no mdi without training rows; the oracle has no loss of absolute errors")
    found = debias.score(saved(name), X, y, scorer, rows="held-out", level="model").values
    if boosted and scorer == "oob_loss":
        expected, _ = oracle.running_loss(form, member.X, y)
    else:
        response = np.sign(y.to_numpy()[:, None] - form.base) if name == "steps" else form.response(y)
        everyone = [(row, 1.0) for row in range(len(y))]
        seen = [
            oracle.Seen(
                tree,
                [tree.value(t) for t in range(len(tree.nodes))],
                oracle.arrivals(tree, member.X, np.array(response).tolist(), everyone),
                None,
                one_hot=name == "forest",
            )
            for tree in form.trees
        ]
        expected = oracle.score(scorer, seen, form.n_features, averaged=not boosted)
        expected *= 4 if name == "odds" and scorer == "oob_split" else 1  # of squares of a response that is doubled
    assert found.any()
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@NAMES
def test_a_model_without_bootstrap_recognises_its_training_rows(name, saved):
    X, y = rows(name, slice(None, N_TRAIN))
    if name == "forest":  # its counts are of drawn rows
        scores = debias.score(saved(name), X, y, rows="held-out")
        assert any("does not store how many training rows its leaves hold" in text for text in scores.warnings)
        return
    with pytest.raises(debias.ProvenanceError, match="these are the training rows"):
        debias.score(saved(name), X[::-1], y[::-1])


def test_bags_are_not_redrawn(saved):
    with pytest.raises(debias.InBagUnavailableError, match="in each partition of the training rows"):
        debias.score(saved("forest"), *rows("forest"), rows="oob")
    with pytest.raises(debias.InBagUnavailableError, match="every training row has been seen"):
        debias.score(saved("odds"), *rows("odds"), rows="oob")


@pytest.mark.filterwarnings(FRESH)
@NAMES
def test_models_are_sent_to_other_processes(name, saved):
    X, y = rows(name)
    sent = pickle.loads(pickle.dumps(saved(name)))
    there, here = (debias.score(model, X, y, rows="held-out").values for model in (sent, saved(name)))
    np.testing.assert_array_equal(there, here)
    (member,) = unwrap(sent)
    assert pickle.loads(pickle.dumps(member.model)).source == member.model.source


@pytest.mark.parametrize("name", ["means", "steps"])
def test_trees_alone_pass_the_contract(name, saved):
    X, y = rows(name, slice(None, N_TRAIN))
    (member,) = unwrap(saved(name), X, y)
    answered = debias.testing.check_adapter(member.model, member.X, y.to_numpy())
    assert {"debias_extract", "debias_leaves", "debias_predict_raw", "debias_reported_importance"} <= set(answered)
    assert debias.testing.check_adapter(saved(name), X[list(READS[name])], y) == ("debias_unwrap",)


WRONG_ROWS = {
    "a new label": (lambda X: X.assign(city="Graz"), "refuses such rows: the new label 'Graz' in column 'city'"),
    "no label": (lambda X: X.assign(city=None), "a missing value in column 'city'"),
    "a missing number": (lambda X: X.assign(a=np.nan), "VectorAssembler of the pipeline refuses such rows"),
    "text for a number": (lambda X: X.assign(a="1"), "takes numbers, and column 'a' of X has the value '1'"),
    "a date": (lambda X: X.assign(city=pd.Timestamp("2020-01-01")), "reads text and numbers"),
    "beyond the splits": (lambda X: X.assign(floors=np.nan), "Bucketizer of the pipeline refuses such rows"),
    "no column": (lambda X: X.drop(columns=["a", "b"]), "missing: a, b"),
    "an array of another width": (lambda X: X[["a", "b"]].to_numpy(), "reads 4 columns: a, b, city, floors"),
    "a lazy frame": (
        lambda X: pytest.importorskip("polars").from_pandas(X).lazy(),
        "name of the column with the response",
    ),
}


@pytest.mark.parametrize("case", WRONG_ROWS)
def test_rows_that_spark_refuses_are_refused(case, saved):
    X, y = rows("forest")
    change, message = WRONG_ROWS[case]
    with pytest.raises(debias.RowsError, match=message):
        debias.score(saved("forest"), change(X), y, rows="held-out")


def test_a_label_of_y_that_the_pipeline_never_saw_is_refused(saved):
    X, y = rows("forest")
    with pytest.raises(debias.RowsError, match=r"the label 'maybe' \(row 0\), which the pipeline never saw"):
        debias.score(saved("forest"), X, ["maybe", *y[1:]], rows="held-out")


def test_numbers_are_looked_up_by_value():
    from debias_adapters.spark.pipelines import LabelsOf
    from debias_adapters.spark.stages import codes_of

    numbers = np.array([0.0, 1.0, 1e7, np.nan, 2.0])
    np.testing.assert_array_equal(codes_of(numbers, ["1.0", "0.0", "1.0E7", "none"]), [1, 0, 2, -1, -1])
    np.testing.assert_array_equal(codes_of(np.array([1.0, 0.0]), ["false", "true"]), [1, 0])
    np.testing.assert_array_equal(codes_of(np.array(["b", None, "c"], dtype=object), ["a", "b"]), [1, -1, -1])
    with pytest.raises(debias.RowsError, match="stand for one number"):
        codes_of(numbers, ["1", "1.0"])
    assert LabelsOf(("1", "0"), as_text=True)(pd.Series([0, 1])).tolist() == ["0", "1"]
    assert LabelsOf(("yes", "no"), as_text=False)(["no", "yes"]).tolist() == [1, 0]
    with pytest.raises(debias.RowsError, match="one value per row; it has 2 columns"):
        LabelsOf(("1", "0"), as_text=True)(np.zeros((2, 2)))
