"""Directories of Spark with one thing wrong in each: all are refused in words where they are loaded."""

import json
import re
import shutil
from pathlib import Path

import pytest

import debias
from debias.models.loading import load

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
HOME = Path(__file__).parents[1] / "old_files/spark/4.3.0"


def nodes_of(path):
    (file,) = path.glob("stages/*RandomForest*/data/*.parquet")
    return file


def of_node(number, **changes):
    """Change fields of one record of a node, or of its split."""

    def change(path):
        file = nodes_of(path)
        table = pq.read_table(file)
        records = table.to_pylist()
        record = records[number]["nodeData"]
        for name, value in changes.items():
            (record if name in record else record["split"])[name] = value
        pq.write_table(pa.Table.from_pylist(records, schema=table.schema), file)

    return change


def of_records(edit):
    def change(path):
        file = nodes_of(path)
        table = pq.read_table(file)
        pq.write_table(pa.Table.from_pylist(edit(table.to_pylist()), schema=table.schema), file)

    return change


def of_weights(edit):
    def change(path):
        (file,) = path.glob("stages/*RandomForest*/treesMetadata/*.parquet")
        table = pq.read_table(file)
        pq.write_table(pa.Table.from_pylist(edit(table.to_pylist()), schema=table.schema), file)

    return change


def of_metadata(where, **changes):
    """Change metadata of a stage."""

    def change(path):
        (file,) = path.glob(f"{where}/metadata/part-*")
        metadata = json.loads(file.read_text())
        for name, value in changes.items():
            holder = metadata if name in metadata or name not in metadata["paramMap"] else metadata["paramMap"]
            holder[name] = value
        file.write_text(json.dumps(metadata))

    return change


def of_text(where, text):
    def change(path):
        (file,) = path.glob(where)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())

    return change


def without(where):
    def change(path):
        (found,) = path.glob(where)
        shutil.rmtree(found) if found.is_dir() else found.unlink()

    return change


def without_column(path):
    file = nodes_of(path)
    records = [
        {"treeID": record["treeID"], "nodeData": {"id": record["nodeData"]["id"]}}
        for record in pq.read_table(file).to_pylist()
    ]
    pq.write_table(pa.Table.from_pylist(records), file)


def inside_itself(path):
    (stage,) = path.glob("stages/7_*")
    shutil.rmtree(stage)
    stage.symlink_to(path, target_is_directory=True)


FOREST = "stages/6_*"
HUGE = 2**31 - 1
WRONG = {
    "metadata that is not JSON": (of_text("metadata/part-*", "{"), "it is not JSON"),
    "metadata nested deeply": (of_text("metadata/part-*", "[" * 100_000), "it is not JSON"),
    "bytes for metadata": (of_text("metadata/part-*", b"\xff\xfe"), "damaged"),
    "metadata of another kind": (
        of_metadata(".", **{"class": "org.apache.spark.ml.clustering.KMeansModel"}),
        "Spark KMeansModel",
    ),
    "parameters that are no mapping": (of_metadata(".", paramMap=[]), "paramMap is not a mapping"),
    "a stage without directory": (without(FOREST), "no directory of its stage"),
    "a stage without metadata": (without(f"{FOREST}/metadata"), "no metadata of Spark"),
    "a pipeline inside itself": (inside_itself, "inside each other"),
    "no trees": (of_metadata(FOREST, **{"class": "org.apache.spark.ml.feature.Tokenizer"}), "no models of trees"),
    "no nodes": (without(f"{FOREST}/data"), "no Parquet files"),
    "nodes that are not Parquet": (of_text(f"{FOREST}/data/*.parquet", "PAR1 no"), "damaged"),
    "half of the nodes": (of_records(lambda records: records[: len(records) // 2]), "damaged"),
    "no record": (of_records(lambda records: []), "records of some tree are missing"),
    "a node twice": (of_records(lambda records: [records[0], *records]), "missing or there twice"),
    "a tree less than weights": (
        of_records(lambda records: [r for r in records if r["treeID"] < 3]),
        "no weight for some",
    ),
    "no field but the number": (without_column, "damaged"),
    "a child out of range": (of_node(0, rightChild=99_999), "child"),
    "a child before its parent": (of_node(0, leftChild=0), "child"),
    "one child": (of_node(0, rightChild=-1), "one child only"),
    "an unknown feature": (of_node(0, featureIndex=99), "feature"),
    "no threshold": (of_node(0, leftCategoriesOrThreshold=[], numCategories=-1), "without one threshold"),
    "two thresholds": (of_node(0, leftCategoriesOrThreshold=[0.0, 1.0], numCategories=-1), "without one threshold"),
    "a threshold that is no number": (
        of_node(0, leftCategoriesOrThreshold=[float("nan")], numCategories=-1),
        "threshold",
    ),
    "a category that is not there": (
        of_node(0, leftCategoriesOrThreshold=[7.0], numCategories=3),
        "categories that do not exist",
    ),
    "a fraction of a category": (
        of_node(0, leftCategoriesOrThreshold=[0.5], numCategories=3),
        "categories that do not exist",
    ),
    "too many categories": (
        of_node(0, leftCategoriesOrThreshold=[0.0], numCategories=HUGE),
        "more than 16,777,216 categories",
    ),
    "statistics that are not finite": (of_node(2, impurityStats=[float("inf"), 1.0]), "statistics that are not finite"),
    "statistics of three classes": (of_node(2, impurityStats=[1.0, 1.0, 1.0]), "different numbers of statistics"),
    "no training rows": (of_node(2, impurityStats=[0.0, 0.0]), "nodes without training weight"),
    "negative weights": (of_node(2, impurityStats=[-5.0, 1.0]), "nodes without training weight"),
    "another number of classes": (of_metadata(FOREST, numClasses=3), "have 2 statistics, not 3"),
    "billions of features": (
        of_metadata(FOREST, numFeatures=2**40),
        "columns, but its trees were trained on 1099511627776",
    ),
    "no feature": (of_metadata(FOREST, numFeatures=0), "trained on 0"),
    "text for a number": (of_metadata(FOREST, numFeatures="many"), "damaged"),
    "a weight of a tree": (of_weights(lambda rows: [rows[0] | {"_3": 2.0}, *rows[1:]]), "trees of different weights"),
    "weights of other trees": (of_weights(lambda rows: rows[1:]), "numbers of its trees"),
    "a stage without what it learned": (without("stages/0_*/data"), "damaged"),
    "another order of columns": (
        of_metadata("stages/5_*", inputCols=["a"]),
        "make 1 columns, but its trees were trained on 7",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_directory_with_one_thing_wrong_is_refused(case, tmp_path):
    change, message = WRONG[case]
    path = tmp_path / "model"
    shutil.copytree(HOME / "forest", path)
    change(path)
    with pytest.raises((debias.UnsupportedModelError, debias.errors.ExtractionError), match=message):
        load(path, guard=False)


@pytest.mark.thorough
def test_a_wrong_directory_is_first_tried_in_a_process_of_its_own(tmp_path):
    path = tmp_path / "model"
    shutil.copytree(HOME / "forest", path)
    of_node(0, rightChild=99_999)(path)
    with pytest.raises((debias.UnsupportedModelError, debias.errors.ExtractionError), match=re.escape(str(path))):
        debias.load_model(path)


def test_an_older_directory_without_counts(tmp_path):
    """Spark 2 saved no counts of rows."""
    path = tmp_path / "model"
    shutil.copytree(HOME / "means", path)
    (file,) = path.glob("stages/*RandomForest*/data/*.parquet")
    records = pq.read_table(file).to_pylist()
    for record in records:
        del record["nodeData"]["rawCount"]
    pq.write_table(pa.Table.from_pylist(records), file)
    ensemble = debias.plugin.extract(load(path, guard=False))
    assert ensemble.count is None
    assert ensemble.n_trees == 3


def test_a_directory_of_something_else_is_refused(tmp_path):
    (tmp_path / "metadata").mkdir()
    with pytest.raises(debias.UnsupportedModelError, match="no adapter reads it"):
        debias.load_model(tmp_path)
