"""Hooks for CatBoost models: regression and classification, all shapes of trees, numbers and one-hot categories."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.errors import InBagUnavailableError, RowsError, UnsupportedModelError
from debias.trees.ensemble import TreeEnsemble
from debias.trees.in_bag import InBag
from debias.trees.objectives import LOGISTIC, SOFTMAX, SQUARED_ERROR, Objective
from debias_adapters import CATBOOST
from debias_adapters.catboost import refit
from debias_adapters.catboost.reading import LABELS, Nodes, as_json, category_sets, trees

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

OBJECTIVES = {"RMSE": SQUARED_ERROR, "Logloss": LOGISTIC, "CrossEntropy": LOGISTIC, "MultiClass": SOFTMAX}
OF_CLASSES = ("Logloss", "MultiClass")
"""Objectives of labels. The response of the others is a number, and for CrossEntropy a probability."""


def remember_labels(model: Any, X: Any) -> None:
    """Store the labels of categorical columns in a CatBoost model, which itself keeps their hashes only.

    Call it before such a model is scored, unless its categories are integers from 0 to 4095. The labels are stored in
    the model's metadata (``model.get_metadata()``) and in its files; predictions do not change.

    Parameters
    ----------
    model : CatBoost
        Fitted; its metadata are changed.
    X : pandas.DataFrame of shape (n_rows, n_features)
        Rows with all labels the model was trained on, columns in the model's order.

    Raises
    ------
    RowsError
        A categorical column holds values that are neither str nor int.

    Examples
    --------
    >>> remember_labels(model, X_train)  # doctest: +SKIP
    >>> debias.score(model, X_test, y_test)  # doctest: +SKIP
    """
    labels = {}
    for feature in model.get_cat_feature_indices():
        unique = X.iloc[:, feature].unique().tolist()
        if not all(isinstance(label, (str, int)) and not isinstance(label, bool) for label in unique):
            raise RowsError(f"column {model.feature_names_[feature]!r} has categories that are neither str nor int")
        labels[feature] = sorted(unique, key=str)
    model.get_metadata()[LABELS] = json.dumps(labels)


@debias.hookimpl
def debias_extract(model: Any) -> TreeEnsemble | None:
    """Read the model's JSON: splits, leaf values and training weights of leaves."""
    if not _is_mine(model):
        return None
    source = _source(model)
    if not model.is_fitted():
        raise UnsupportedModelError(f"this {source} is not fitted; fit it first")
    objective, stored = _objective(model), as_json(model)
    per_tree, all_nodes = trees(stored, source), Nodes()
    for tree in per_tree:
        for name, values in vars(all_nodes).items():
            values.extend(getattr(tree, name))
    scale, bias = stored["scale_and_bias"]
    value = np.array(all_nodes.value, dtype=np.float64) * scale
    start = np.cumsum([0] + [len(tree.feature) for tree in per_tree])
    labels, settings = _labels(model), model.get_all_params()
    names = tuple(model.feature_names_)
    weight = np.array(all_nodes.weight)
    # Whole weights are numbers of rows, or sums of whole sample weights: the model does not say which.
    is_whole = np.array_equal(weight, np.round(weight))
    cover = _summed_up(start, np.array(all_nodes.left), np.array(all_nodes.right), weight) if is_whole else None
    classes = np.asarray(model.classes_) if settings["loss_function"] in OF_CLASSES and len(model.classes_) else None
    return TreeEnsemble(
        tree_start=start,
        feature=np.array(all_nodes.feature),
        threshold=np.array(all_nodes.threshold),
        left=np.array(all_nodes.left),
        right=np.array(all_nodes.right),
        missing_left=np.array(all_nodes.missing_left),
        value=value,
        averaging_weight=weight,
        tree_output=np.zeros(len(per_tree), dtype=np.int32),
        base=np.broadcast_to(np.asarray(bias, dtype=np.float64), value.shape[1]).copy(),
        averaged=False,
        objective=objective,
        feature_names=names,
        named=names != tuple(str(k) for k in range(len(names))),
        classes=classes,
        routing_dtype=np.dtype(np.float32),
        sparse_absent=None if model.get_cat_feature_indices() else 0.0,
        takes_tables=False,
        category_labels={k: _array(labels_of_feature) for k, labels_of_feature in labels.items()} or None,
        rescaled=float(settings.get("model_shrink_rate", 0)) > 0,
        uniform_rows=not settings.get("class_weights") and settings.get("auto_class_weights", "None") in (None, "None"),
        cover=cover,
        count=None if cover is None else cover.astype(np.int64),
        source=source,
        version=sys.modules["catboost"].__version__,
        tested_versions=CATBOOST,
        **category_sets(model, all_nodes, labels, source),
    )


@debias.hookimpl
def debias_leaves(model: Any, ensemble: TreeEnsemble, X: NDArray[np.floating[Any]]) -> NDArray[np.int32] | None:
    """Return the node of each leaf index that CatBoost returns."""
    if not _is_mine(model):
        return None
    indexes = np.asarray(model.calc_leaf_indexes(_native(model, X))).reshape(len(X), -1)
    nodes = np.empty(indexes.shape, dtype=np.int32)
    for number, tree in enumerate(trees(as_json(model), ensemble.source)):
        leaf = np.array(tree.leaf)
        node_of = np.empty(leaf.max() + 1, dtype=np.int32)
        node_of[leaf[leaf >= 0]] = np.flatnonzero(leaf >= 0)
        nodes[:, number] = node_of[indexes[:, number]]
    return nodes


@debias.hookimpl
def debias_predict_raw(model: Any, X: NDArray[np.floating[Any]]) -> NDArray[np.float64] | None:
    """Return margins."""
    if not _is_mine(model):
        return None
    raw = np.asarray(model.predict(_native(model, X), prediction_type="RawFormulaVal"), dtype=np.float64)
    return raw.reshape(len(X), -1)


@debias.hookimpl
def debias_predict_native(model: Any, X: Any) -> NDArray[np.float64] | None:
    """Return margins, with one thread. Categories must be text or whole numbers."""
    if not _is_mine(model):
        return None
    dtypes = X.dtypes if hasattr(X, "dtypes") else [X.dtype] * X.shape[1]
    floats = [str(dtype).startswith("float") for dtype in dtypes]
    float_categories = [feature for feature in model.get_cat_feature_indices() if floats[feature]]
    _require_exact(model, float_categories)
    if float_categories:
        return None  # CatBoost refuses codes of categories that are floats, in every container
    raw = model.predict(X, prediction_type="RawFormulaVal", thread_count=1)
    return np.asarray(raw, dtype=np.float64).reshape(X.shape[0], -1)


@debias.hookimpl
def debias_in_bag(model: Any, y: NDArray[Any], sample_weight: NDArray[np.float64] | None) -> InBag | None:
    """Refuse: the trees are boosted."""
    if not _is_mine(model):
        return None
    raise InBagUnavailableError.of_boosted(f"a {_source(model)}")


@debias.hookimpl
def debias_reported_importance(model: Any) -> tuple[NDArray[np.float64], str] | None:
    """Return ``feature_importances_``."""
    if not _is_mine(model):
        return None
    return np.asarray(model.feature_importances_, dtype=np.float64), "prediction values change"


@debias.hookimpl
def debias_refit(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: NDArray[np.float64] | None,
    seed: int | None,
    params: Mapping[str, Any] | None,
) -> Any | None:
    """Refit with as many trees as the model has, without early stopping."""
    if not _is_mine(model):
        return None
    return refit.refit_model(model, X, y, sample_weight, seed, params)


@debias.hookimpl
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
            f"{path} is a CatBoost model, but catboost is not installed: pip install debias-trees[catboost]"
        ) from error
    try_apart()
    try:
        return catboost.CatBoost().load_model(str(path))
    except catboost.CatBoostError as error:
        raise UnsupportedModelError(f"{path} cannot be loaded by CatBoost: {error}") from error


def _is_mine(model: Any) -> bool:
    catboost = sys.modules.get("catboost")
    return catboost is not None and isinstance(model, catboost.CatBoost)


def _source(model: Any) -> str:
    return f"CatBoost {type(model).__name__}"


def _objective(model: Any) -> Objective:
    if "params" not in dict(model.get_metadata()):
        raise UnsupportedModelError(
            f"this {_source(model)} keeps no training parameters, so its objective is not known, as after "
            "catboost.sum_models. Audit the models that it was made of"
        )
    name = str(model.get_all_params().get("loss_function", "an objective function"))
    if name not in OBJECTIVES:
        raise UnsupportedModelError(
            f"this {_source(model)} was trained for {name}. Supported are {', '.join(OBJECTIVES)}."
        )
    return OBJECTIVES[name]


def _labels(model: Any) -> dict[int, list[Any]]:
    stored = dict(model.get_metadata()).get(LABELS, "{}")
    return {int(feature): labels for feature, labels in json.loads(stored).items()}


def _array(labels: list[Any]) -> NDArray[Any]:
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array


def _require_exact(model: Any, float_categories: list[int]) -> None:
    """Refuse floats as categories if the model has labels so large that two of them may be the same float."""
    labels_by_feature = _labels(model)
    for feature in float_categories:
        if any(isinstance(label, int) and abs(label) >= 2**53 for label in labels_by_feature.get(feature, [])):
            raise RowsError(
                f"column {model.feature_names_[feature]!r} holds floats, but the model has categories of 2**53 or "
                "more there, which floats do not hold exactly. Pass the column as whole numbers, e.g. in a pandas frame"
            )


def _native(model: Any, X: NDArray[np.floating[Any]]) -> Any:
    """Return rows as CatBoost takes them: codes become labels or integers, missing values a text that is no label."""
    categorical = model.get_cat_feature_indices()
    if not categorical:
        return X
    labels_by_feature, rows = _labels(model), X.astype(object)
    for feature in categorical:
        labels = labels_by_feature.get(feature)
        rows[:, feature] = [
            "\0missing" if np.isnan(code) else str(int(code) if labels is None else labels[int(code)])
            for code in X[:, feature]
        ]
    return rows


def _summed_up(
    start: NDArray[np.int64], left: NDArray[np.int64], right: NDArray[np.int64], weight: NDArray[np.float64]
) -> NDArray[np.float64]:
    total = weight.copy()
    for begin, end in zip(start[:-1], start[1:], strict=True):
        for node in range(end - 1, begin - 1, -1):  # parents precede children
            if left[node] >= 0:
                total[node] = total[begin + left[node]] + total[begin + right[node]]
    return total
