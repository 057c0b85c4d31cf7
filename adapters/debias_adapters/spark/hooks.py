"""Hooks for Spark: forests and boosted trees of Spark ML, pipelines around them, and boosters trained on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.errors import InBagUnavailableError, with_article
from debias.hooks.reported import Measure, ReportedImportance
from debias.hooks.wrapping import Inner, Unwrapped
from debias_adapters.spark import LIBRARY, fitted, saved
from debias_adapters.spark.pipelines import SparkPipeline
from debias_adapters.spark.trees import SparkTrees

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from debias.hooks.library import Library
    from debias.trees.ensemble import TreeEnsemble
    from debias.trees.in_bag import InBag


@debias.plugin.hookimpl
def debias_libraries() -> list[Library]:
    """Declare the library."""
    return [LIBRARY]


@debias.plugin.hookimpl
def debias_unwrap(model: Any) -> Unwrapped | None:
    """Return a fitted model as data that needs no Java; of a pipeline, the trees and the columns that they see."""
    if isinstance(model, SparkPipeline):
        return model.unwrapped()
    fitted.refuse_unfitted(model)
    kind = type(model).__name__
    if fitted.is_trees(model):
        return Unwrapped(kind, (Inner(fitted.trees_of(model), "trees"),))
    if fitted.is_pipeline(model):
        return Unwrapped(kind, (Inner(fitted.pipeline_of(model), "stages"),))
    if fitted.is_search(model):
        return Unwrapped(kind, (Inner(model.bestModel, "bestModel"),))
    booster = fitted.booster_of(model)
    if booster is None:
        return None
    names = tuple(model.getOrDefault("features_cols")) if model.hasParam("features_cols") else ()
    return Unwrapped(kind, (Inner(booster, "booster", feature_names=names or None),))


@debias.plugin.hookimpl
def debias_extract(model: Any) -> TreeEnsemble | None:
    """Return the nodes that Spark shows or saves, with their in-bag statistics."""
    return model.ensemble() if isinstance(model, SparkTrees) else None


@debias.plugin.hookimpl
def debias_leaves(model: Any, X: NDArray[np.floating[Any]]) -> NDArray[np.int32] | None:
    """Return Spark's leaves; of a model from files, those of a walk through its records, row by row."""
    return model.leaves(X) if isinstance(model, SparkTrees) else None


@debias.plugin.hookimpl
def debias_predict_raw(model: Any, X: NDArray[np.floating[Any]]) -> NDArray[np.float64] | None:
    """Return class probabilities, means, or the margin of boosted trees."""
    return model.predict(X) if isinstance(model, SparkTrees) else None


@debias.plugin.hookimpl
def debias_in_bag(model: Any, y: NDArray[Any], sample_weight: NDArray[np.float64] | None) -> InBag | None:
    """Refuse: boosted trees have seen every row, and Spark draws the bags of forests by partition."""
    if not isinstance(model, SparkTrees):
        return None
    if model.boosted:
        raise InBagUnavailableError.of_boosted(with_article(model.source))
    raise InBagUnavailableError(
        f"the bags of {with_article(model.source)} cannot be redrawn: Spark draws them in each partition of the "
        "training rows, and does not keep the partitions. Pass rows the model has not seen, with rows='held-out'."
    )


@debias.plugin.hookimpl
def debias_reported_importance(model: Any) -> ReportedImportance | None:
    """Return Spark's ``featureImportances``.

    Those of boosted models have no measure: the first tree is grown for the response, and the others for gradients on
    another scale.
    """
    if not isinstance(model, SparkTrees):
        return None
    measure = None if model.boosted else Measure.IMPURITY_BY_TREE
    return ReportedImportance(model.reported_importance(), "featureImportances", measure)


@debias.plugin.hookimpl
def debias_load_model(path: Path, try_apart: Callable[[], None]) -> Any | None:
    """Load a directory that Spark saved. Parquet is read by native code, so a separate process tries it first."""
    metadata = saved.metadata_of(path) if path.is_dir() else None
    if metadata is None:
        return None
    try_apart()
    return saved.model_of(path, metadata)
