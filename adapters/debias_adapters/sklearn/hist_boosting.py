"""Hooks for scikit-learn's HistGradientBoosting, scored on held-out rows."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.errors import InBagUnavailableError, UnsupportedModelError
from debias.hooks.training_weights import TrainingWeights
from debias.trees.ensemble import TreeEnsemble
from debias_adapters.sklearn import LIBRARY
from debias_adapters.sklearn.reading import names_of, objective_of, quiet
from debias_adapters.sklearn.refit import fitted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from debias.trees.in_bag import InBag


@debias.plugin.hookimpl
def debias_extract(model: Any) -> TreeEnsemble | None:
    """Concatenate the trees. The trees number categorical features first; leaf values include the learning rate."""
    if not _is_mine(model):
        return None
    source = f"scikit-learn {type(model).__name__}"
    if not hasattr(model, "_predictors"):
        raise UnsupportedModelError(f"this {source} is not fitted; fit it first")
    trees = _trees(model)
    nodes = np.concatenate([tree.nodes for tree in trees])
    leaf = nodes["is_leaf"].astype(bool)
    _require_categories(model, nodes[~leaf], source)
    n_outputs = model.n_trees_per_iteration_
    return TreeEnsemble(
        tree_start=np.cumsum([0] + [len(tree.nodes) for tree in trees]),
        feature=np.where(leaf, -1, _user_order(model)[nodes["feature_idx"].astype(np.int64)]),
        threshold=np.where(leaf, 0.0, nodes["num_threshold"]),
        left=np.where(leaf, -1, nodes["left"].astype(np.int64)),
        right=np.where(leaf, -1, nodes["right"].astype(np.int64)),
        missing_left=nodes["missing_go_to_left"].astype(bool),
        value=np.where(leaf, nodes["value"], 0.0)[:, None],
        averaging_weight=nodes["count"].astype(np.float64),
        tree_output=np.tile(np.arange(n_outputs, dtype=np.int32), len(model._predictors)),
        base=np.asarray(model._baseline_prediction, dtype=np.float64).ravel(),
        averaged=False,
        objective=objective_of(model.loss, n_outputs, getattr(model, "quantile", None), source),
        **names_of(model),
        classes=getattr(model, "classes_", None),
        routing_dtype=np.dtype(np.float64),
        source=source,
        version=sys.modules["sklearn"].__version__,
        tested_versions=LIBRARY.tested_versions,
        count=nodes["count"],
        sampled_share=1.0,
        gain=np.where(leaf, 0.0, nodes["gain"]),
        category_labels=_labels(model),
        **_category_sets(trees, nodes),
    )


@debias.plugin.hookimpl
def debias_leaves(model: Any, ensemble: TreeEnsemble, X: NDArray[np.floating[Any]]) -> NDArray[np.int32] | None:
    """Predict with trees whose node values are node numbers: no public function returns leaves."""
    if not _is_mine(model):
        return None
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

    reordered = np.ascontiguousarray(X[:, _user_order(model)])
    known_bitsets, bitset_index = model._bin_mapper.make_known_categories_bitsets()
    leaves = np.empty((len(X), ensemble.n_trees), dtype=np.int32)
    for number, tree in enumerate(_trees(model)):
        nodes = tree.nodes.copy()
        nodes["value"] = np.arange(len(nodes))
        numbered = TreePredictor(nodes, tree.binned_left_cat_bitsets, tree.raw_left_cat_bitsets)
        leaves[:, number] = numbered.predict(reordered, known_bitsets, bitset_index, 1)
    return leaves


@debias.plugin.hookimpl
def debias_predict_raw(model: Any, X: NDArray[np.floating[Any]]) -> NDArray[np.float64] | None:
    """Return margins; the categories in `X` are encoded already."""
    if not _is_mine(model):
        return None
    raw = np.zeros((len(X), model.n_trees_per_iteration_), order="F") + model._baseline_prediction
    reordered = np.ascontiguousarray(X[:, _user_order(model)])
    model._predict_iterations(reordered, model._predictors, raw, False, 1)
    return raw


@debias.plugin.hookimpl
def debias_predict_native(model: Any, X: Any) -> NDArray[np.float64] | None:
    """Return margins; the model encodes the categories."""
    if not _is_mine(model):
        return None
    with quiet():
        return np.asarray(model._raw_predict(X, n_threads=1), dtype=np.float64)


@debias.plugin.hookimpl
def debias_in_bag(model: Any, y: NDArray[Any], sample_weight: NDArray[np.float64] | None) -> InBag | None:
    """Refuse: every tree is grown on all rows."""
    if not _is_mine(model):
        return None
    raise InBagUnavailableError.of_boosted(f"a scikit-learn {type(model).__name__}")


@debias.plugin.hookimpl
def debias_training_weights(model: Any) -> TrainingWeights | None:
    """Return whether classes were weighed."""
    if not _is_mine(model):
        return None
    weighed = getattr(model, "class_weight", None) is not None
    return TrainingWeights(classes=weighed, multiplied=weighed)


@debias.plugin.hookimpl
def debias_refit(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: NDArray[np.float64] | None,
    seed: int | None,
    params: Mapping[str, Any] | None,
) -> Any | None:
    """Fit a clone with as many rounds as the model has, without early stopping."""
    if not _is_mine(model):
        return None
    settings = {"max_iter": model.n_iter_, "early_stopping": False, **(params or {})}
    return fitted(model, X, y, sample_weight, seed, settings)


def _is_mine(model: Any) -> bool:
    ensemble = sys.modules.get("sklearn.ensemble")
    return ensemble is not None and isinstance(
        model, (ensemble.HistGradientBoostingClassifier, ensemble.HistGradientBoostingRegressor)
    )


def _require_categories(model: Any, splits: NDArray[Any], source: str) -> None:
    """Refuse a damaged model that splits by categories on features that its bins treat as numbers."""
    n_features, categorical_in_bins = model.n_features_in_, np.asarray(model._bin_mapper.is_categorical_)
    categorical_in_model = (
        np.zeros(n_features, bool) if model.is_categorical_ is None else np.asarray(model.is_categorical_)
    )
    on_codes = splits["feature_idx"][splits["is_categorical"] != 0]
    same_shape = (
        categorical_in_bins.shape == categorical_in_model.shape == (n_features,) and (on_codes < n_features).all()
    )
    if (
        not same_shape
        or not categorical_in_bins[on_codes].all()
        or categorical_in_bins.sum() != categorical_in_model.sum()
    ):
        raise UnsupportedModelError(
            f"this {source} is damaged: a split on categories is on a feature with bins of numbers"
        )


def _trees(model: Any) -> list[Any]:
    return [tree for stage in model._predictors for tree in stage]


def _user_order(model: Any) -> NDArray[np.int64]:
    """Return the user's feature for each feature of the trees."""
    categorical = model.is_categorical_
    if categorical is None:
        return np.arange(model.n_features_in_)
    return np.r_[np.flatnonzero(categorical), np.flatnonzero(~categorical)]


def _labels(model: Any) -> dict[int, NDArray[Any]] | None:
    """Return the labels of the codes of each categorical feature. None is a label like others, NaN is not."""
    if model.is_categorical_ is None:
        return None
    categories = model._preprocessor.named_transformers_["encoder"].categories_
    return {
        int(k): labels[[label is None or label == label for label in labels.tolist()]]
        for k, labels in zip(np.flatnonzero(model.is_categorical_), categories, strict=True)
    }


def _category_sets(trees: list[Any], nodes: NDArray[Any]) -> dict[str, Any]:
    """Return the arrays of category sets: the codes that go left, stored as 256 bits for each split.

    The model treats unknown codes as missing values; `category_labels` does the same.
    """
    is_category_split = (nodes["is_categorical"] == 1) & (nodes["is_leaf"] == 0)
    if not is_category_split.any():
        return {}
    bitsets = []
    for tree in trees:
        splits = (tree.nodes["is_categorical"] == 1) & (tree.nodes["is_leaf"] == 0)
        bitsets.append(tree.raw_left_cat_bitsets[tree.nodes["bitset_idx"][splits]])
    words = np.ascontiguousarray(np.concatenate(bitsets), dtype="<u4")
    bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
    return {
        "category_set": np.where(is_category_split, np.cumsum(is_category_split) - 1, -1),
        "category_start": np.r_[0, np.cumsum(bits.sum(axis=1, dtype=np.int64))],
        "category_codes": np.nonzero(bits)[1],
        "listed_left": np.ones(len(words), dtype=bool),
    }
