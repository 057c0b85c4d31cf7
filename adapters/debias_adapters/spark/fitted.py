"""Fitted models of pyspark, read through its gateway to Java into data that needs neither."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from debias.errors import UnsupportedModelError
from debias_adapters.spark.nodes import from_records
from debias_adapters.spark.pipelines import SparkPipeline
from debias_adapters.spark.stages import Stage
from debias_adapters.spark.trees import KINDS, SparkTrees

if TYPE_CHECKING:
    from collections.abc import Callable

    from debias_adapters.spark.nodes import Nodes

_nodes_of: WeakKeyDictionary[Any, Nodes] = WeakKeyDictionary()
"""Nodes that were read before: a model is read several times in one call, and its trees never change."""


def is_trees(model: Any) -> bool:
    """Whether a model is a fitted forest, tree or boosted model of Spark ML."""
    modules = [sys.modules.get(f"pyspark.ml.{name}") for name in ("classification", "regression")]
    kinds = tuple(getattr(module, kind) for module in modules for kind in KINDS if hasattr(module, kind))
    return isinstance(model, kinds)


def refuse_unfitted(model: Any) -> None:
    """Raise an UnsupportedModelError for what Spark has not fitted yet."""
    module = sys.modules.get("pyspark.ml.base")
    if module is not None and isinstance(model, module.Estimator):
        raise UnsupportedModelError(
            f"this Spark {type(model).__name__} is not fitted: pass the model that its fit() returns"
        )


def is_pipeline(model: Any) -> bool:
    """Whether a model is a fitted pipeline of Spark ML."""
    module = sys.modules.get("pyspark.ml.pipeline")
    return module is not None and isinstance(model, module.PipelineModel)


def is_search(model: Any) -> bool:
    """Whether a model is the result of a search for parameters, which keeps the best model."""
    module = sys.modules.get("pyspark.ml.tuning")
    return module is not None and isinstance(model, (module.CrossValidatorModel, module.TrainValidationSplitModel))


def trees_of(model: Any) -> SparkTrees:
    """Return the trees of a fitted model.

    Raises
    ------
    UnsupportedModelError
        The model is on a server of Spark Connect, or its Spark has stopped.
    """
    import pyspark

    _refuse_out_of_reach(model)
    kind, params = type(model).__name__, _params(model)
    return SparkTrees(
        kind=kind,
        nodes=_nodes(model),
        tree_weights=np.array(model.treeWeights if hasattr(model, "treeWeights") else [1.0]),
        n_features=int(model.numFeatures),
        n_classes=int(model.numClasses) if kind.endswith("ClassificationModel") else 0,
        params=params,
        version=pyspark.__version__,
        live=model,
    )


def booster_of(model: Any) -> Any | None:
    """Return the model of XGBoost or LightGBM inside a model that was trained on Spark; None for any other model."""
    xgboost, synapse = sys.modules.get("xgboost.spark.core"), sys.modules.get("synapse.ml.lightgbm.mixin")
    if xgboost is not None and isinstance(model, xgboost._SparkXGBModel):
        if model._xgb_sklearn_model is None:
            raise UnsupportedModelError(f"this {type(model).__name__} is not fitted; fit it first")
        return model._xgb_sklearn_model
    if synapse is not None and isinstance(model, synapse.LightGBMModelMixin):
        import lightgbm

        return lightgbm.Booster(model_str=model.getNativeModel())
    return None


def pipeline_of(model: Any) -> SparkPipeline:
    """Return the stages of a fitted pipeline."""
    return SparkPipeline(type(model).__name__, tuple(_stages(model)))


def _stages(model: Any) -> list[Stage]:
    stages: list[Stage] = []
    for stage in model.stages:
        if is_pipeline(stage):
            stages += _stages(stage)
            continue
        _refuse_out_of_reach(stage)
        trees = trees_of(stage) if is_trees(stage) else booster_of(stage)
        kind = type(stage).__name__
        data = _LEARNED[kind](stage) if kind in _LEARNED else {}
        stages.append(Stage(kind, _params(stage), data, trees))
    return stages


def _params(model: Any) -> dict[str, Any]:
    return {param.name: value for param, value in model.extractParamMap().items()}


def _refuse_out_of_reach(model: Any) -> None:
    from pyspark import SparkContext

    java = getattr(model, "_java_obj", None)
    if java is not None and not hasattr(java, "_target_id"):
        raise UnsupportedModelError(
            f"this Spark {type(model).__name__} is on a server of Spark Connect, which does not show its trees. Save "
            "it with model.write().save(path), copy the directory to this machine, and pass debias.load_model(path)"
        )
    if java is not None and SparkContext._active_spark_context is None:
        raise UnsupportedModelError(
            f"the Spark that holds this {type(model).__name__} has stopped: pass the model before spark.stop(), or "
            "save it before with model.write().save(path), and pass debias.load_model(path)"
        )


def _nodes(model: Any) -> Nodes:
    """Return the nodes, which Spark makes records of and Jackson writes as JSON: one call to Java for each tree."""
    if model not in _nodes_of:
        from pyspark import SparkContext

        java = SparkContext._active_spark_context._jvm
        records = getattr(java.org.apache.spark.ml.tree, "DecisionTreeModelReadWrite$NodeData$")
        build = getattr(records, "MODULE$").build
        jackson = java.com.fasterxml.jackson
        mapper = jackson.databind.ObjectMapper()
        mapper.registerModule(getattr(getattr(jackson.module.scala, "DefaultScalaModule$"), "MODULE$"))
        access, visibility = (
            jackson.annotation.PropertyAccessor,
            getattr(jackson.annotation, "JsonAutoDetect$Visibility"),
        )
        mapper.setVisibility(access.ALL, visibility.NONE)  # a method of a record fails at leaves
        mapper.setVisibility(access.FIELD, visibility.ANY)
        trees = model._java_obj.trees() if hasattr(model, "trees") else [model._java_obj]
        texts = [mapper.writeValueAsString(build(tree.rootNode(), 0)._1()) for tree in trees]
        _nodes_of[model] = from_records([json.loads(text) for text in texts])
    return _nodes_of[model]


def _vectors(*names: str) -> Callable[[Any], dict[str, Any]]:
    return lambda stage: {name: np.array(getattr(stage, name).toArray()) for name in names}


def _chosen(stage: Any) -> dict[str, Any]:
    return {"selectedFeatures": list(stage.selectedFeatures)}


_LEARNED: dict[str, Callable[[Any], dict[str, Any]]] = {
    "StringIndexerModel": lambda stage: {"labelsArray": [list(labels) for labels in stage.labelsArray]},
    "OneHotEncoderModel": lambda stage: {"categorySizes": list(stage.categorySizes)},
    "ImputerModel": lambda stage: {"surrogates": stage.surrogateDF.first().asDict()},
    "VectorIndexerModel": lambda stage: {
        "numFeatures": stage.numFeatures,
        "categoryMaps": {entry: dict(codes) for entry, codes in dict(stage.categoryMaps).items()},
    },
    "StandardScalerModel": _vectors("mean", "std"),
    "RobustScalerModel": _vectors("median", "range"),
    "MinMaxScalerModel": _vectors("originalMin", "originalMax"),
    "MaxAbsScalerModel": _vectors("maxAbs"),
    "ChiSqSelectorModel": _chosen,
    "UnivariateFeatureSelectorModel": _chosen,
    "VarianceThresholdSelectorModel": _chosen,
}
"""What a stage learned, by the names in Spark's files."""
