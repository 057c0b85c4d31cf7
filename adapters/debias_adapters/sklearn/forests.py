"""Hooks for scikit-learn's random forests, extra trees and single trees, for classification and regression."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.errors import UnsupportedModelError, with_article
from debias.hooks.reported import Measure, ReportedImportance
from debias.hooks.training_weights import TrainingWeights
from debias.parallel import over_parts
from debias.trees.ensemble import TreeEnsemble
from debias.trees.objectives import SQUARED_ERROR
from debias_adapters.sklearn import LIBRARY, bags
from debias_adapters.sklearn.missing_values import missing_refusal, refuse_grown_otherwise, with_doubt
from debias_adapters.sklearn.reading import apply_trees, common_arrays, names_of, quiet, values_are_means
from debias_adapters.sklearn.refit import fitted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from debias.hooks.library import Library
    from debias.trees.in_bag import InBag

KIND = "mean decrease in impurity"


@debias.plugin.hookimpl
def debias_libraries() -> list[Library]:
    """Declare the library."""
    return [LIBRARY]


@debias.plugin.hookimpl
def debias_extract(model: Any) -> TreeEnsemble | None:
    """Concatenate the trees of a forest, or take a single tree."""
    _refuse(model)
    if not _is_mine(model):
        return None
    source = f"scikit-learn {type(model).__name__}"
    if not hasattr(model, "estimators_") and not hasattr(model, "tree_"):
        raise UnsupportedModelError(f"this {source} is not fitted; fit it first")
    trees = _trees(model)
    classes, class_sets = _classes(model)
    value = np.concatenate([_flat(tree.value, class_sets) for tree in trees])
    ensemble = TreeEnsemble(
        **common_arrays(trees),
        **names_of(model),
        value=value,
        tree_output=np.zeros(len(trees), dtype=np.int32),
        base=np.zeros(value.shape[1]),
        averaged=True,
        objective=SQUARED_ERROR,
        classes=classes,
        class_sets=class_sets,
        source=source,
        criterion=str(model.criterion),
        mean_values=values_are_means(model),
        n_train=getattr(model, "_n_samples", None),
        sampled_share=None if bags.drew_bags(model) else 1.0,
        uniform_rows=getattr(model, "_sample_weight", None) is None or not bags.drew_bags(model),
        missing_refusal=missing_refusal(),
    )
    return with_doubt(model, refuse_grown_otherwise(ensemble))


@debias.plugin.hookimpl
def debias_leaves(model: Any, ensemble: TreeEnsemble, X: NDArray[np.floating[Any]]) -> NDArray[np.int32] | None:
    """Return the leaves that each tree's apply returns."""
    if not _is_mine(model):
        return None
    return apply_trees(_trees(model), X)


@debias.plugin.hookimpl
def debias_predict_raw(model: Any, X: NDArray[np.floating[Any]]) -> NDArray[np.float64] | None:
    """Average the predictions of the compiled trees: what predict and predict_proba return, with less overhead."""
    return _averaged(model, X) if _is_mine(model) else None


@debias.plugin.hookimpl
def debias_predict_native(model: Any, X: Any) -> NDArray[np.float64] | None:
    """Average the predictions for the user's rows, converted as predict and predict_proba convert them."""
    if not _is_mine(model):
        return None
    with quiet():
        converted = model._validate_X_predict(X, *([] if hasattr(model, "estimators_") else [True]))
    return _averaged(model, converted)


@debias.plugin.hookimpl
def debias_in_bag(model: Any, y: NDArray[Any], sample_weight: NDArray[np.float64] | None) -> InBag | None:
    """Redraw the bootstrap samples from the seeds of the trees, one tree at a time."""
    if not _is_mine(model):
        return None
    return bags.of_forest(model, y, sample_weight)


@debias.plugin.hookimpl
def debias_training_weights(model: Any) -> TrainingWeights | None:
    """Return the weights a forest keeps: sample weights times class weights."""
    if not _is_mine(model):
        return None
    weighed = getattr(model, "class_weight", None) is not None
    return TrainingWeights(getattr(model, "_sample_weight", None), classes=weighed, multiplied=weighed)


@debias.plugin.hookimpl
def debias_reported_importance(model: Any) -> ReportedImportance | None:
    """Return ``feature_importances_``, computed as in scikit-learn, without the overhead of its thread pool."""
    if not _is_mine(model):
        return None
    trees = [tree for tree in _trees(model) if tree.node_count > 1]
    importances_by_part = over_parts(
        len(trees), lambda part: [tree.compute_feature_importances() for tree in trees[part]]
    )
    importances = [importance for importances_of_part in importances_by_part for importance in importances_of_part]
    if not importances or not hasattr(model, "estimators_"):
        return ReportedImportance(model.feature_importances_, KIND, Measure.IMPURITY_BY_TREE)
    mean = np.mean(importances, axis=0)
    return ReportedImportance(mean / mean.sum(), KIND, Measure.IMPURITY_BY_TREE)


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
    ensemble, tree = sys.modules.get("sklearn.ensemble"), sys.modules.get("sklearn.tree")
    if tree is not None and isinstance(model, (tree.DecisionTreeClassifier, tree.DecisionTreeRegressor)):
        return True
    return ensemble is not None and isinstance(
        model,
        (
            ensemble.RandomForestClassifier,
            ensemble.RandomForestRegressor,
            ensemble.ExtraTreesClassifier,
            ensemble.ExtraTreesRegressor,
        ),
    )


def _refuse(model: Any) -> None:
    """Refuse ensembles that are grown without a response, or whose outputs are not sums over trees."""
    ensemble = sys.modules.get("sklearn.ensemble")
    if ensemble is None:
        return
    if isinstance(model, (ensemble.IsolationForest, ensemble.RandomTreesEmbedding)):
        raise UnsupportedModelError(
            f"{with_article(type(model).__name__)} is grown without a response, so it cannot be scored"
        )
    if isinstance(model, ensemble.AdaBoostRegressor):
        raise UnsupportedModelError(
            "an AdaBoostRegressor predicts a median of its trees, and scores do not add up over medians. Score its "
            "members, model.estimators_, one by one."
        )


def _trees(model: Any) -> list[Any]:
    return [estimator.tree_ for estimator in getattr(model, "estimators_", [model])]


def _averaged(model: Any, X: Any) -> NDArray[np.float64]:
    trees, (_, class_sets) = _trees(model), _classes(model)

    def sum_of(part: slice) -> NDArray[np.float64]:
        return np.asarray(sum(_flat(tree.predict(X), class_sets) for tree in trees[part]), dtype=np.float64)

    return np.asarray(sum(over_parts(len(trees), sum_of)) / len(trees), dtype=np.float64)


def _classes(model: Any) -> tuple[NDArray[Any] | None, tuple[NDArray[Any], ...] | None]:
    """Return the labels of the one response, or those of each of several responses."""
    classes = getattr(model, "classes_", None)
    return (None, tuple(classes)) if isinstance(classes, list) else (classes, None)


def _flat(value: NDArray[np.float64], class_sets: tuple[NDArray[Any], ...] | None) -> NDArray[np.float64]:
    """Put the columns of all responses side by side, without the padding to the largest number of classes."""
    if class_sets is None:
        return value.reshape(len(value), -1)
    return np.concatenate([value[:, k, : classes.size] for k, classes in enumerate(class_sets)], axis=1)
