"""Adapter of the OOBForest that debias provides.

Adapters may not import plugins, so these models are recognised by the name of their class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.errors import UnsupportedModelError
from debias.hooks.training_weights import TrainingWeights
from debias.trees.ensemble import TreeEnsemble
from debias.trees.in_bag import InBag
from debias.trees.objectives import SQUARED_ERROR
from debias_adapters.sklearn.reading import names_of, predicted
from debias_adapters.sklearn.refit import fitted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


HOME = ("debias_plugins.oob_forest.base", "BaseOOBForest")


@debias.plugin.hookimpl
def debias_extract(model: Any) -> TreeEnsemble | None:
    """Concatenate the trees."""
    if not _is_mine(model):
        return None
    source = type(model).__name__
    if not hasattr(model, "trees_"):
        raise UnsupportedModelError(f"this {source} is not fitted; fit it first")
    names = ("feature", "threshold", "left", "right", "missing_left", "value", "count", "weight", "impurity")
    joined: dict[str, Any] = {name: np.concatenate([getattr(tree, name) for tree in model.trees_]) for name in names}
    classes = getattr(model, "classes_", None)
    return TreeEnsemble(
        **joined,
        **names_of(model),
        tree_start=np.cumsum([0] + [tree.feature.size for tree in model.trees_]),
        averaging_weight=joined["weight"].copy(),
        tree_output=np.zeros(len(model.trees_), dtype=np.int32),
        base=np.zeros(joined["value"].shape[1]),
        averaged=True,
        objective=SQUARED_ERROR,
        classes=classes,
        routing_dtype=np.dtype(np.float64),
        rows_as_frame=hasattr(model, "feature_names_in_"),  # it warns if rows do not have the names of training
        source=source,
        version=debias.__version__,
        criterion="squared_error" if classes is None else "gini",
        mean_values=True,
        n_train=model.n_samples_,
        notes=(
            "an OOBForest chose its split features by its out-of-bag rows, so it has seen them: prefer other rows, "
            "with rows='held-out'",
        ),
    )


@debias.plugin.hookimpl
def debias_leaves(model: Any, ensemble: TreeEnsemble, X: NDArray[np.floating[Any]]) -> NDArray[np.int32] | None:
    """Return the leaves that the forest's apply returns."""
    return model.apply(X) if _is_mine(model) else None


@debias.plugin.hookimpl
def debias_predict_raw(model: Any, X: NDArray[np.floating[Any]]) -> NDArray[np.float64] | None:
    """Return class fractions, or means in regression."""
    if not _is_mine(model):
        return None
    return model.predict_proba(X) if hasattr(model, "classes_") else model.predict(X)[:, None]


@debias.plugin.hookimpl
def debias_predict_native(model: Any, X: Any) -> NDArray[np.float64] | None:
    """Return what predict or predict_proba returns."""
    return predicted(model, X) if _is_mine(model) else None


@debias.plugin.hookimpl
def debias_in_bag(model: Any, y: NDArray[Any], sample_weight: NDArray[np.float64] | None) -> InBag | None:
    """Redraw the bags. Weights are those that the forest was fitted with."""
    if not _is_mine(model):
        return None
    weight, class_factor = model._sample_weight, model._class_factor

    def multiplicity(tree: int) -> NDArray[np.float64]:
        draw_counts = np.bincount(model.in_bag(tree), minlength=model.n_samples_).astype(np.float64)
        return draw_counts if weight is None else draw_counts * weight

    def draw(tree: int) -> NDArray[np.float64]:
        return multiplicity(tree) if class_factor is None else multiplicity(tree) * class_factor[y]

    excluded = None if weight is None or weight.all() else np.asarray(weight == 0)
    return InBag(draw, model.n_samples_, len(model.trees_), excluded, multiplicity, class_factor)


@debias.plugin.hookimpl
def debias_training_weights(model: Any) -> TrainingWeights | None:
    """Return the sample weights that the forest keeps, and whether it weighs classes."""
    if not _is_mine(model):
        return None
    weighed = getattr(model, "class_weight", None) is not None
    return TrainingWeights(getattr(model, "_sample_weight", None), classes=weighed, multiplied=weighed)


@debias.plugin.hookimpl
def debias_reported_importance(model: Any) -> tuple[NDArray[np.float64], str] | None:
    """Return ``feature_importances_``."""
    return (model.feature_importances_, "out-of-bag decrease in impurity") if _is_mine(model) else None


@debias.plugin.hookimpl
def debias_refit(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: NDArray[np.float64] | None,
    seed: int | None,
    params: Mapping[str, Any] | None,
    n_jobs: int | None,
) -> Any | None:
    """Fit a clone of the estimator."""
    return fitted(model, X, y, sample_weight, seed, {**(params or {})}, n_jobs) if _is_mine(model) else None


def _is_mine(model: Any) -> bool:
    return any((base.__module__, base.__name__) == HOME for base in type(model).__mro__)
