"""Hooks for CatBoost models: regression and classification, all shapes of trees, numbers and categories."""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.errors import InBagUnavailableError, RowsError, UnsupportedModelError, with_article
from debias.hooks.cross_validated import CrossValidated
from debias.hooks.reported import LeafSums, Measure, ReportedImportance
from debias.hooks.wrapping import Inner, Unwrapped
from debias.trees.ensemble import STOPPED_EARLY, TreeEnsemble
from debias.trees.in_bag import InBag
from debias.trees.ranking_objectives import required_queries
from debias_adapters.catboost import LIBRARY
from debias_adapters.catboost.encoding import Encoded, encoding_of
from debias_adapters.catboost.reading import (
    NODE_FIELDS,
    OF_CLASSES,
    OF_SEVERAL_RESPONSES,
    as_text,
    from_document,
    margins,
    objective_of,
    symmetric_leaves,
    trees,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from debias.hooks.library import Library
    from debias_adapters.catboost.encoding import Encoding

WITH_LEAF_SUMS = ("RMSE", "Logloss", "CrossEntropy")
"""Losses whose leaf values are Newton steps for one margin."""


@debias.plugin.hookimpl
def debias_libraries() -> list[Library]:
    """Declare the library."""
    return [LIBRARY]


@debias.plugin.hookimpl
def debias_unwrap(model: Any) -> Unwrapped | None:
    """Return the encoder of categories and the trees that split on its codes, for a model with categories."""
    if not _is_catboost(model) or not model.is_fitted() or not model.get_cat_feature_indices():
        return None
    encoding, kind = encoding_of(model), type(model).__name__
    loss, _ = objective_of(model)
    if encoding.has_statistics and loss in OF_SEVERAL_RESPONSES:
        raise UnsupportedModelError(
            f"this {_source(model)} was trained for {loss} with statistics of the response in each category, and "
            "CatBoost does not show of which response they are. Train one model for each response, or train this one "
            "with one_hot_max_size= of at least the largest number of categories (up to 255)"
        )
    encoded = Encoded(model, encoding)
    inner = Inner(
        encoded,
        f"trees of the {kind}",
        transform=partial(encoding.encode, model),
        columns=encoding.sources,
        labels=lambda _: dict.fromkeys(encoding.categorical),  # CatBoost keeps numbers made of the texts
    )
    return Unwrapped(
        kind,
        (inner,),
        tuple(model.feature_names_),
        rewrap=lambda inputs: inputs.train(encoded, inputs.X, inputs.y, 0),
        named=_named(model),
    )


@debias.plugin.hookimpl
def debias_cross_validated(results: Any) -> CrossValidated | None:
    """Return the models of ``catboost.cv(..., return_models=True)``, which gives a pair of scores and models."""
    if not isinstance(results, tuple) or len(results) != 2 or not isinstance(results[1], list):
        return None
    if not results[1] or not all(map(_is_catboost, results[1])):
        return None
    return CrossValidated("pair of catboost.cv", tuple(results[1]))


@debias.plugin.hookimpl
def debias_extract(model: Any) -> TreeEnsemble | None:
    """Read the model's JSON: splits, leaf values and training weights of leaves; None for a model to be unwrapped."""
    if isinstance(model, Encoded):
        return _ensemble(model.model, model.encoding)
    if not _is_catboost(model):
        return None
    if not model.is_fitted():
        raise UnsupportedModelError(f"this {_source(model)} is not fitted; fit it first")
    return None if model.get_cat_feature_indices() else _ensemble(model, None)


@debias.plugin.hookimpl
def debias_leaves(model: Any, ensemble: TreeEnsemble, X: NDArray[np.floating[Any]]) -> NDArray[np.int32] | None:
    """Return the node of each leaf index that CatBoost returns."""
    if not _is_mine(model):
        return None
    numeric, numbers = _numeric(model, X)
    if numeric._object._is_oblivious():
        return symmetric_leaves(ensemble, np.asarray(numeric.calc_leaf_indexes(numbers)).reshape(len(X), -1))
    stored = json.loads(as_text(numeric))
    if "trees" in stored:
        numeric = from_document(stored)  # its leaves are numbered as `trees` does
    indexes = np.asarray(numeric.calc_leaf_indexes(numbers)).reshape(len(X), -1)
    nodes = np.empty(indexes.shape, dtype=np.int32)
    for number, tree in enumerate(trees(stored)):
        leaf = np.array(tree.leaf)
        node_of = np.empty(leaf.max() + 1, dtype=np.int32)
        node_of[leaf[leaf >= 0]] = np.flatnonzero(leaf >= 0)
        nodes[:, number] = node_of[indexes[:, number]]
    return nodes


@debias.plugin.hookimpl
def debias_predict_raw(model: Any, X: NDArray[np.floating[Any]]) -> NDArray[np.float64] | None:
    """Return margins."""
    if not _is_mine(model):
        return None
    numeric, numbers = _numeric(model, X)
    return margins(numeric, numbers).reshape(len(X), -1)


@debias.plugin.hookimpl
def debias_predict_native(model: Any, X: Any) -> NDArray[np.float64] | None:
    """Return margins, with one thread; None for a model with categories, whose encoder compares them."""
    if not _is_catboost(model):
        return None
    return margins(model, X, thread_count=1).reshape(X.shape[0], -1)


@debias.plugin.hookimpl
def debias_in_bag(model: Any, y: NDArray[Any], sample_weight: NDArray[np.float64] | None) -> InBag | None:
    """Refuse: the trees are boosted."""
    if not _is_mine(model):
        return None
    raise InBagUnavailableError.of_boosted(with_article(_source(_of_user(model))))


@debias.plugin.hookimpl
def debias_reported_importance(model: Any) -> ReportedImportance | None:
    """Return how much predictions change on average, CatBoost's default. It needs no rows, also for a ranker.

    CatBoost divides the importance of a combination among its columns. Here the combination has it.
    """
    if not _is_mine(model):
        return None
    numeric = model.encoding.numeric if isinstance(model, Encoded) else model
    change = np.asarray(numeric.get_feature_importance(type="PredictionValuesChange"), dtype=np.float64)
    change = model.encoding.summed(change) if isinstance(model, Encoded) else change
    measure = Measure.PREDICTION_CHANGE if objective_of(_of_user(model))[0] in WITH_LEAF_SUMS else None
    return ReportedImportance(change, "prediction values change", measure, partial(_leaf_sums, model))


@debias.plugin.hookimpl
def debias_refit(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: NDArray[np.float64] | None,
    seed: int | None,
    params: Mapping[str, Any] | None,
    qid: NDArray[np.int64] | None,
) -> Any | None:
    """Refit with as many trees as the model has, without early stopping."""
    if not _is_mine(model):
        return None
    return _refitted(_of_user(model), X, y, sample_weight, seed, params, qid)


@debias.plugin.hookimpl
def debias_load_model(path: Path, try_apart: Callable[[], None]) -> Any | None:
    """Load ``.cbm`` files. Only CatBoost can read them, so a separate process tries it first."""
    if path.is_dir():
        return None
    with open(path, "rb") as file:
        if file.read(4) != b"CBM1":
            return None
    try:
        import catboost
    except ImportError as error:
        raise UnsupportedModelError(
            f"{path} is a CatBoost model, but catboost is not installed: pip install catboost"
        ) from error
    try_apart()
    try:
        return catboost.CatBoost().load_model(str(path))
    except catboost.CatBoostError as error:
        raise UnsupportedModelError(f"{path} cannot be loaded by CatBoost: {error}") from error


@debias.plugin.hookimpl
def debias_save_model(model: Any, path: Path) -> bool | None:
    """Write ``.cbm`` files."""
    if not _is_catboost(model) or path.suffix != ".cbm":
        return None
    model.save_model(str(path))
    return True


def _is_catboost(model: Any) -> bool:
    catboost = sys.modules.get("catboost")
    return catboost is not None and isinstance(model, catboost.CatBoost)


def _is_mine(model: Any) -> bool:
    return isinstance(model, Encoded) or _is_catboost(model)


def _of_user(model: Any) -> Any:
    return model.model if isinstance(model, Encoded) else model


def _numeric(model: Any, X: NDArray[np.floating[Any]]) -> tuple[Any, NDArray[np.floating[Any]]]:
    """Return a model of numbers only, and its rows."""
    return (model.encoding.numeric, model.encoding.numbers(X)) if isinstance(model, Encoded) else (model, X)


def _source(model: Any) -> str:
    return f"CatBoost {type(model).__name__}"


def _named(model: Any) -> bool:
    return tuple(model.feature_names_) != tuple(str(k) for k in range(len(model.feature_names_)))


def _ensemble(model: Any, encoding: Encoding | None) -> TreeEnsemble:
    """Return the trees of the user's model, with splits on codes if there is an encoding."""
    loss, objective = objective_of(model)
    stored = json.loads(as_text(model if encoding is None else encoding.numeric))
    per_tree = trees(stored)
    nodes = {name: np.concatenate([getattr(tree, name) for tree in per_tree]) for name in NODE_FIELDS}
    left, right = nodes["left"].astype(np.int32), nodes["right"].astype(np.int32)
    feature, threshold = nodes["feature"].astype(np.int64), nodes["threshold"]
    splits = {"feature": feature} if encoding is None else encoding.sets_of_codes(feature, threshold)
    scale, bias = stored["scale_and_bias"]
    value = nodes["value"].astype(np.float64) * scale
    start = np.cumsum([0] + [len(tree.feature) for tree in per_tree])
    settings, weight = model.get_all_params(), nodes["weight"]
    # Whole weights are numbers of rows, or sums of whole sample weights: the model does not say which. CatBoost routed
    # its training rows by other statistics of categories than new rows, so then the weights are not their counts.
    is_whole = np.array_equal(weight, np.round(weight)) and (encoding is None or not encoding.has_statistics)
    cover = _summed_up(start, left, right, weight) if is_whole else None
    classes = np.asarray(model.classes_) if loss in OF_CLASSES and len(model.classes_) else None
    return TreeEnsemble(
        tree_start=start,
        threshold=threshold,
        left=left,
        right=right,
        missing_left=nodes["missing_left"],
        value=value,
        averaging_weight=weight,
        tree_output=np.zeros(len(per_tree), dtype=np.int32),
        base=np.broadcast_to(np.asarray(bias, dtype=np.float64), value.shape[1]).copy(),
        averaged=False,
        objective=objective,
        feature_names=tuple(model.feature_names_) if encoding is None else encoding.names,
        named=encoding is not None or _named(model),
        classes=classes,
        routing_dtype=np.dtype(np.float32),
        sparse_absent=0.0,
        takes_tables=False,
        rescaled=float(settings.get("model_shrink_rate", 0)) > 0,
        uniform_rows=not settings.get("class_weights") and settings.get("auto_class_weights", "None") in (None, "None"),
        cover=cover,
        count=None if cover is None else cover.astype(np.int64),
        sampled_share=1.0,  # weights of leaves are those of all rows, also where splits were chosen on some of them
        source=_source(model),
        version=sys.modules["catboost"].__version__,
        tested_versions=LIBRARY.tested_versions,
        notes=(STOPPED_EARLY,) if _was_stopped(model, settings) else (),
        **splits,
    )


def _leaf_sums(model: Any, ensemble: TreeEnsemble) -> LeafSums:
    """Return how the values of leaves were estimated. Rows of other weights than 1 change the penalty a little."""
    assert ensemble.averaging_weight is not None
    settings = _of_user(model).get_all_params()
    return LeafSums(
        hessian=ensemble.averaging_weight,
        penalty=float(settings["l2_leaf_reg"]),
        learning_rate=float(settings["learning_rate"]),
        n_steps=int(settings["leaf_estimation_iterations"]),
    )


def _was_stopped(model: Any, settings: Mapping[str, Any]) -> bool:
    """Whether rows of ``eval_set`` chose the number of trees. Without ``use_best_model`` they need not."""
    return model.get_best_iteration() is not None and model.tree_count_ < settings.get("iterations", 0)


def _summed_up(
    start: NDArray[np.int64], left: NDArray[np.int32], right: NDArray[np.int32], weight: NDArray[np.float64]
) -> NDArray[np.float64]:
    total, root = weight.copy(), np.repeat(start[:-1], np.diff(start))
    levels, level = list["NDArray[np.int64]"](), start[:-1]
    while level.size:  # the splits of a level of all trees
        level = level[left[level] >= 0]
        levels.append(level)
        level = np.concatenate([root[level] + left[level], root[level] + right[level]])
    for level in reversed(levels):
        total[level] = total[root[level] + left[level]] + total[root[level] + right[level]]
    return total


def _categories(model: Any, X: Any) -> list[int] | None:
    """Return the positions in X of the columns with categories, by their names if X has fewer columns."""
    positions, names = model.get_cat_feature_indices(), list(model.feature_names_)
    if not positions or X.shape[1] == len(names):
        return positions or None
    if not hasattr(X, "columns"):
        raise RowsError(
            f"the model has categories in some of its {len(names)} columns by position, and these rows have "
            f"{X.shape[1]} columns without names: pass a data frame, also in training"
        )
    kept = [str(name) for name in X.columns]
    return [kept.index(names[k]) for k in positions if names[k] in kept] or None


def _refitted(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: NDArray[Any] | None,
    seed: int | None,
    params: Mapping[str, Any] | None,
    qid: NDArray[np.int64] | None,
) -> Any:
    """Fit a new model of the same class and parameters, with as many trees as the model has."""
    stopping_names = ("use_best_model", "od_type", "od_wait", "od_pval", "early_stopping_rounds", "eval_fraction")
    count_names = ("iterations", "n_estimators", "num_boost_round", "num_trees")
    settings = {
        name: value for name, value in model.get_params().items() if name not in (*stopping_names, *count_names)
    }
    # Settings that CatBoost chose by the number of rows or rounds, or for an evaluation set, stay the same.
    automatic_names = ("learning_rate", "leaf_estimation_iterations", "leaf_estimation_method")
    all_settings = model.get_all_params()
    settings |= {name: all_settings[name] for name in automatic_names if name in all_settings and name not in settings}
    settings |= {
        "iterations": model.tree_count_,
        "cat_features": _categories(model, X),
        "allow_writing_files": False,
        "logging_level": "Silent",
    }
    for name in ("verbose", "silent", "verbose_eval", "metric_period"):
        settings.pop(name, None)
    if seed is not None:
        settings.pop("random_state", None)
        settings["random_seed"] = seed
    settings |= params or {}
    # Only the class of all losses takes its settings as one mapping.
    refitted = type(model)(settings) if type(model) is sys.modules["catboost"].CatBoost else type(model)(**settings)
    if not objective_of(model)[1].by_query:
        return refitted.fit(X, y, sample_weight=sample_weight)
    return refitted.fit(X, y, group_id=required_queries(qid), group_weight=sample_weight)
