"""Models that Spark saved: directories of JSON and Parquet, read without Spark and without Java."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import UnsupportedModelError
from debias.text import listed
from debias_adapters.spark.nodes import joined
from debias_adapters.spark.pipelines import SparkPipeline
from debias_adapters.spark.stages import Stage
from debias_adapters.spark.trees import KINDS, SparkTrees
from debias_adapters.xgboost import file_checks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias_adapters.spark.nodes import Nodes

LARGEST = 1 << 24
"""Largest size of a file of metadata in bytes; real ones have a few thousand, more for the stages of wide tables."""
DEEPEST = 20
"""Largest number of pipelines and searches inside each other."""
SEARCHES = ("CrossValidatorModel", "TrainValidationSplitModel")
OF_XGBOOST = ("SparkXGBClassifierModel", "SparkXGBRegressorModel", "SparkXGBRankerModel")
OF_SYNAPSE = ("LightGBMClassificationModel", "LightGBMRegressionModel", "LightGBMRankerModel")


def metadata_of(directory: Path) -> dict[str, Any] | None:
    """Return the metadata of a model that Spark saved; None if the directory is not one."""
    folder = directory / "metadata"
    parts = sorted(folder.glob("part-*")) if folder.is_dir() else []
    if not parts:
        return None
    if sum(part.stat().st_size for part in parts) > LARGEST:
        raise UnsupportedModelError(f"{folder} has more than {LARGEST:,} bytes; real metadata of Spark is smaller")
    text = "".join(part.read_text(encoding="utf-8") for part in parts)
    try:
        metadata = json.loads(text)
    except (ValueError, RecursionError):
        raise UnsupportedModelError(f"{folder} is damaged: it is not JSON") from None
    if not isinstance(metadata, dict) or not isinstance(metadata.get("class"), str):
        return None
    for name in ("paramMap", "defaultParamMap"):  # Spark 2.3 and before had no second one
        if not isinstance(metadata.setdefault(name, {}), dict):
            raise UnsupportedModelError(f"{folder} is damaged: its {name} is not a mapping")
    return metadata


def model_of(directory: Path, metadata: dict[str, Any], depth: int = 0) -> Any:
    """Return the model in a directory: trees, a pipeline, the best model of a search, or a model of XGBoost.

    Raises
    ------
    UnsupportedModelError
        The directory is damaged, or has a model of another kind.
    """
    kind = _kind(metadata)
    if depth > DEEPEST:
        raise UnsupportedModelError(f"{directory} is damaged: it has more than {DEEPEST} models inside each other")
    if kind in SEARCHES:
        best = directory / "bestModel"
        return model_of(best, _required(best), depth + 1)
    if kind == "PipelineModel":
        return SparkPipeline(kind, tuple(_stages(directory, metadata, depth)))
    model = _stage(directory, metadata).model
    if model is None:
        raise UnsupportedModelError(
            f"{directory} has a Spark {kind}, which has no trees that debias knows. It reads "
            f"{listed(['PipelineModel', *SEARCHES, *KINDS, *OF_XGBOOST])}"
        )
    return model


def _kind(metadata: dict[str, Any]) -> str:
    return str(metadata["class"]).rpartition(".")[2]


def _required(directory: Path) -> dict[str, Any]:
    metadata = metadata_of(directory)
    if metadata is None:
        raise UnsupportedModelError(f"{directory} is damaged: it has no metadata of Spark")
    return metadata


def _stages(directory: Path, metadata: dict[str, Any], depth: int) -> list[Stage]:
    folders = {}
    for folder in directory.glob("stages/*"):
        number, _, name = folder.name.partition("_")
        folders[name] = (int(number) if number.isdecimal() else -1, folder)
    stages: list[Stage] = []
    for name in metadata["paramMap"].get("stageUids") or []:
        if name not in folders:
            raise UnsupportedModelError(f"{directory} is damaged: it has no directory of its stage {name!r}")
        folder = folders[name][1]
        of_stage = _required(folder)
        if _kind(of_stage) == "PipelineModel":
            if depth > DEEPEST:
                raise UnsupportedModelError(f"{folder} is damaged: it has too many pipelines inside each other")
            stages += _stages(folder, of_stage, depth + 1)
        else:
            stages.append(_stage(folder, of_stage))
    return stages


def _stage(directory: Path, metadata: dict[str, Any]) -> Stage:
    kind, params = _kind(metadata), {**metadata["defaultParamMap"], **metadata["paramMap"]}
    if kind in KINDS:
        return Stage(kind, params, model=_trees(directory, metadata, params))
    if kind in OF_XGBOOST:
        return Stage(
            kind,
            {"featuresCol": "features", "labelCol": "label", **params},
            model=_booster(directory, kind, params),
        )
    if kind in OF_SYNAPSE:
        raise UnsupportedModelError(
            f"a saved {kind} of SynapseML is written as objects of Java, which debias does not read. Load it in Spark, "
            "write model.saveNativeModel(path), and pass the text file to debias.load_model"
        )
    data = _learned(kind, directory / "data") if (directory / "data").is_dir() else {}
    return Stage(kind, params, data)


def _booster(directory: Path, kind: str, params: dict[str, Any]) -> Any:
    """Return the model of XGBoost that `xgboost.spark` saved: its JSON, in lines of text."""
    try:
        import xgboost
    except ImportError as error:
        raise UnsupportedModelError(
            f"{directory} is an XGBoost model, but xgboost is not installed: pip install xgboost"
        ) from error
    parts = sorted((directory / "model").glob("part-*"))
    text = b"".join(line for part in parts for line in part.read_bytes().splitlines())
    data = file_checks.checked(text, str(directory))
    model = getattr(xgboost, kind.replace("Spark", "").replace("Model", ""))(
        missing=float(params.get("missing", "nan"))
    )
    model.load_model(bytearray(data))
    return model


def _trees(directory: Path, metadata: dict[str, Any], params: dict[str, Any]) -> SparkTrees:
    kind = _kind(metadata)
    boosted = kind.startswith("GBT")
    table, weights = _table(directory / "data"), np.ones(1)
    if not kind.startswith("DecisionTree"):
        weights = _tree_weights(_table(directory / "treesMetadata"))
    n_classes = 0
    if kind.endswith("ClassificationModel"):
        n_classes = 2 if boosted else int(metadata["numClasses"])
    return SparkTrees(
        kind=kind,
        nodes=_nodes(table),
        tree_weights=weights,
        n_features=int(metadata["numFeatures"]),
        n_classes=n_classes,
        params=params,
        version=str(metadata.get("sparkVersion", "unknown")),
    )


def _table(folder: Path) -> Any:
    """Return the rows of all Parquet files in a directory."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise UnsupportedModelError(
            f"{folder} is read with pyarrow, which is not installed: pip install pyarrow"
        ) from error
    files = sorted(folder.glob("*.parquet"))
    if not files:
        raise UnsupportedModelError(f"{folder} has no Parquet files: the model was not saved whole")
    try:
        return pa.concat_tables([pq.ParquetFile(file).read() for file in files]).combine_chunks()
    except (pa.ArrowException, OSError) as error:
        raise UnsupportedModelError(f"{folder} is damaged: {error}") from error


def _nodes(table: Any) -> Nodes:
    import pyarrow.compute as pc

    if "nodeData" in table.column_names:  # of several trees
        tree, record = table.column("treeID"), table.column("nodeData")
        column = {name.name: pc.struct_field(record, name.name) for name in record.type}
    else:
        tree, column = None, {name: table.column(name) for name in table.column_names}
    split = column["split"]
    column |= {name.name: pc.struct_field(split, name.name) for name in split.type}
    columns: dict[str, Any] = {"rawCount": None}
    for name in PLAIN:
        if name in column:
            columns[name] = _array(column[name])
        elif name != "rawCount":
            raise UnsupportedModelError(f"the Spark model is damaged: its nodes have no {name}")
    for name in ("impurityStats", "leftCategoriesOrThreshold"):
        columns[name] = _array(pc.list_value_length(column[name])), _array(pc.list_flatten(column[name]))
    trees = np.zeros(table.num_rows, dtype=np.int64) if tree is None else _array(tree)
    return joined(trees, columns)


PLAIN = ("id", "leftChild", "rightChild", "prediction", "gain", "rawCount", "featureIndex", "numCategories")


def _array(column: Any) -> NDArray[Any]:
    if column.null_count:
        raise UnsupportedModelError("the Spark model is damaged: some of its nodes have no values")
    return np.asarray(column.to_numpy())


def _tree_weights(table: Any) -> NDArray[np.float64]:
    """Return the weights of trees by their numbers. Spark 4 leaves the columns without names."""
    number, _, weight = table.column_names
    order = np.argsort(_array(table.column(number)), kind="stable")
    if (_array(table.column(number))[order] != np.arange(order.size)).any():
        raise UnsupportedModelError("the Spark model is damaged: the numbers of its trees are not 0, 1, 2, ...")
    return _array(table.column(weight)).astype(np.float64)[order]


def _learned(kind: str, folder: Path) -> dict[str, Any]:
    """Return what a stage learned, from the one row that Spark writes of it."""
    rows = _table(folder).to_pylist()
    if len(rows) != 1:
        return {}
    row = {name: _plain(value) for name, value in rows[0].items()}
    if kind == "ImputerModel":
        return {"surrogates": row}
    if "labels" in row:  # Spark 2
        row["labelsArray"] = [row["labels"]]
    if "categoryMaps" in row:
        row["categoryMaps"] = {entry: dict(codes) for entry, codes in row["categoryMaps"]}
    return row


def _plain(value: Any) -> Any:
    """Return a vector of Spark as an array, and other values as they are."""
    if not isinstance(value, dict) or set(value) != {"type", "size", "indices", "values"}:
        return value
    if value["type"] == 1:
        return np.array(value["values"], dtype=np.float64)
    dense = np.zeros(int(value["size"]))
    dense[np.array(value["indices"], dtype=np.int64)] = value["values"]
    return dense
