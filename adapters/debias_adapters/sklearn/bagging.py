"""Hooks for scikit-learn's bagging of trees, which samples rows, and optionally features, for each tree."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.errors import UnsupportedModelError
from debias.hooks.training_weights import TrainingWeights
from debias.trees.ensemble import TreeEnsemble
from debias.trees.objectives import SQUARED_ERROR
from debias_adapters.sklearn import bags
from debias_adapters.sklearn.missing_values import missing_refusal, refuse_grown_otherwise
from debias_adapters.sklearn.reading import common_arrays, names_of, predicted, values_are_means
from debias_adapters.sklearn.refit import fitted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from debias.trees.in_bag import InBag


@debias.plugin.hookimpl
def debias_extract(model: Any) -> TreeEnsemble | None:
    """Concatenate the trees. Each tree numbers its own features: map them to the features of the model."""
    if not _is_mine(model):
        return None
    source = f"scikit-learn {type(model).__name__}"
    trees = _trees(model, source)
    arrays = common_arrays([tree.tree_ for tree in trees])
    for begin, end, features_of_tree in zip(
        arrays["tree_start"][:-1], arrays["tree_start"][1:], model.estimators_features_, strict=True
    ):
        local_feature = arrays["feature"][begin:end]
        arrays["feature"][begin:end] = np.where(local_feature < 0, -1, np.asarray(features_of_tree)[local_feature])
    value = np.concatenate([_values(model, tree, tree.tree_.value) for tree in trees])
    ensemble = TreeEnsemble(
        **arrays,
        **names_of(model),
        value=value,
        tree_output=np.zeros(len(trees), dtype=np.int32),
        base=np.zeros(value.shape[1]),
        averaged=True,
        objective=SQUARED_ERROR,
        classes=getattr(model, "classes_", None),
        source=source,
        criterion=str(trees[0].criterion),
        mean_values=values_are_means(trees[0]),
        n_train=model._n_samples,
        uniform_rows=getattr(model, "_sample_weight", None) is None,
        missing_refusal=missing_refusal(),
    )
    return refuse_grown_otherwise(ensemble)


@debias.plugin.hookimpl
def debias_leaves(model: Any, ensemble: TreeEnsemble, X: NDArray[np.floating[Any]]) -> NDArray[np.int32] | None:
    """Apply each tree to its own features."""
    if not _is_mine(model):
        return None
    members = zip(model.estimators_, model.estimators_features_, strict=True)
    leaves = [tree.tree_.apply(X[:, features_of_tree]) for tree, features_of_tree in members]
    return np.stack(leaves, axis=1).astype(np.int32)


@debias.plugin.hookimpl
def debias_predict_raw(model: Any, X: NDArray[np.floating[Any]]) -> NDArray[np.float64] | None:
    """Average the predictions of the compiled trees, as predict and predict_proba do."""
    if not _is_mine(model):
        return None
    members = zip(model.estimators_, model.estimators_features_, strict=True)
    total = sum(_values(model, tree, tree.tree_.predict(X[:, features_of_tree])) for tree, features_of_tree in members)
    return np.asarray(total / len(model.estimators_), dtype=np.float64)


@debias.plugin.hookimpl
def debias_predict_native(model: Any, X: Any) -> NDArray[np.float64] | None:
    """Return what predict or predict_proba returns."""
    return predicted(model, X) if _is_mine(model) else None


@debias.plugin.hookimpl
def debias_in_bag(model: Any, y: NDArray[Any], sample_weight: NDArray[np.float64] | None) -> InBag | None:
    """Redraw the rows of each tree from its seed."""
    if not _is_mine(model):
        return None
    return bags.of_bagging(model, y, sample_weight)


@debias.plugin.hookimpl
def debias_training_weights(model: Any) -> TrainingWeights | None:
    """Return the sample weights, and whether the trees have class weights."""
    if not _is_mine(model):
        return None
    trees = model.estimators_[0].get_params()
    return TrainingWeights(getattr(model, "_sample_weight", None), classes=trees.get("class_weight") is not None)


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
    if not _is_mine(model):
        return None
    return fitted(model, X, y, sample_weight, seed, {**(params or {})}, n_jobs)


def _is_mine(model: Any) -> bool:
    ensemble = sys.modules.get("sklearn.ensemble")
    return ensemble is not None and isinstance(model, (ensemble.BaggingClassifier, ensemble.BaggingRegressor))


def _trees(model: Any, source: str) -> list[Any]:
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    if not hasattr(model, "estimators_"):
        raise UnsupportedModelError(f"this {source} is not fitted; fit it first")
    for tree in model.estimators_:
        if not isinstance(tree, (DecisionTreeClassifier, DecisionTreeRegressor)):
            raise UnsupportedModelError(
                f"this {source} bags {type(tree).__name__} estimators; only bags of single scikit-learn trees are "
                "supported. Score its members, model.estimators_, one by one."
            )
    return list(model.estimators_)


def _values(model: Any, tree: Any, value: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return values or predictions of a tree with one column for each class. A bag may lack classes."""
    value = value.reshape(len(value), -1)
    if not hasattr(model, "classes_") or len(tree.classes_) == len(model.classes_):
        return value
    spread = np.zeros((len(value), len(model.classes_)))
    spread[:, np.asarray(tree.classes_, dtype=np.int64)] = value
    return spread
