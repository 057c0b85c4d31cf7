"""XGBoost: the scikit-learn wrappers and raw Boosters with trees; regression, binary, multi-class."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.ensemble import TreeEnsemble
from debias.errors import InBagUnavailableError, UnsupportedModelError
from debias.objectives import LOGISTIC, SOFTMAX, SQUARED_ERROR
from debias_adapters import ubjson

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from debias.inbag import InBag

OBJECTIVES = {
    "reg:squarederror": SQUARED_ERROR,
    "binary:logistic": LOGISTIC,
    "binary:logitraw": LOGISTIC,
    "reg:logistic": LOGISTIC,
    "multi:softprob": SOFTMAX,
    "multi:softmax": SOFTMAX,
}


@debias.hookimpl
def debias_extract(model: Any) -> TreeEnsemble | None:
    """Read the trees from the booster's own binary form."""
    if not _is_mine(model):
        return None
    source = f"XGBoost {type(model).__name__}"
    booster = _booster(model)
    if callable(getattr(model, "objective", None)):
        raise UnsupportedModelError(
            f"this {source} was trained with an objective of your own, whose gradient is unknown"
        )
    learner = _learner(booster, source)
    trees, outputs, objective = _checked(learner, source, _n_trees(model, booster, learner))
    left = np.concatenate([tree["left_children"] for tree in trees])
    leaf = left < 0
    condition = np.concatenate([tree["split_conditions"] for tree in trees])
    cover = np.concatenate([tree["sum_hessian"] for tree in trees]).astype(np.float64)
    n_features = int(learner["learner_model_param"]["num_feature"])
    names = list(booster.feature_names or [])
    n_classes = max(1, int(learner["learner_model_param"]["num_class"]))
    return TreeEnsemble(
        tree_start=np.cumsum([0] + [len(tree["left_children"]) for tree in trees]),
        feature=np.where(leaf, -1, np.concatenate([tree["split_indices"] for tree in trees])),
        # XGBoost sends x < threshold left, in float32: x <= the next float32 below is the same.
        threshold=np.nextafter(condition, np.float32(-np.inf)).astype(np.float64),
        left=left,
        right=np.where(leaf, -1, np.concatenate([tree["right_children"] for tree in trees])),
        missing_left=np.concatenate([tree["default_left"] for tree in trees]).astype(bool),
        value=np.where(leaf, condition, 0.0).astype(np.float64)[:, None],
        averaging_weight=np.where(leaf, cover, 0.0),
        tree_output=outputs,
        base=_base(learner, n_classes, objective.name),
        averaged=False,
        objective=objective,
        feature_names=tuple(names or [f"f{k}" for k in range(n_features)]),
        named=bool(names),
        classes=_classes(model, n_classes),
        labelled=hasattr(model, "classes_"),
        routing_dtype=np.dtype(np.float32),
        missing_value=_missing(model),
        sparse_absent=np.nan,
        source=source,
        version=sys.modules["xgboost"].__version__,
        gain=np.where(leaf, 0.0, np.concatenate([tree["loss_changes"] for tree in trees])),
        cover=cover,
        positive_weight=float(learner["objective"].get("reg_loss_param", {}).get("scale_pos_weight", 1.0)),
        notes=_notes(model, booster),
    )


@debias.hookimpl
def debias_leaves(model: Any, ensemble: TreeEnsemble, X: NDArray[np.floating[Any]]) -> NDArray[np.int32] | None:
    """Predict leaf indices; XGBoost's are node ids."""
    if not _is_mine(model):
        return None
    return _predict(model, X, pred_leaf=True).reshape(len(X), -1).astype(np.int32)


@debias.hookimpl
def debias_predict_raw(model: Any, X: NDArray[np.floating[Any]]) -> NDArray[np.float64] | None:
    """Return margins."""
    if not _is_mine(model):
        return None
    return np.asarray(_predict(model, X, output_margin=True), dtype=np.float64).reshape(len(X), -1)


@debias.hookimpl
def debias_in_bag(model: Any, y: NDArray[Any], sample_weight: NDArray[np.float64] | None) -> InBag | None:
    """Refuse: rows out of one boosted tree's sample were seen by the others."""
    if not _is_mine(model):
        return None
    raise InBagUnavailableError.of_boosted(f"an XGBoost {type(model).__name__}")


@debias.hookimpl
def debias_reported_importance(model: Any) -> tuple[NDArray[np.float64], str] | None:
    """Return ``feature_importances_`` of a wrapper, the default ``get_score()`` of a Booster."""
    if not _is_mine(model):
        return None
    if hasattr(model, "feature_importances_"):
        kind = model.importance_type or "gain"
        return np.asarray(model.feature_importances_, dtype=np.float64), kind
    score = model.get_score()
    names = model.feature_names or [f"f{k}" for k in range(model.num_features())]
    return np.array([float(score.get(name, 0.0)) for name in names]), "weight"


@debias.hookimpl
def debias_load_model(path: Path) -> Any | None:
    """Load ``save_model`` files: JSON or UBJSON."""
    with open(path, "rb") as file:
        head = file.read(200).lstrip()
    if path.suffix not in (".json", ".ubj", ".ubjson") or not head.startswith(b"{") or b"learner" not in head:
        return None
    try:
        import xgboost
    except ImportError as error:
        raise UnsupportedModelError(
            f"{path} is an XGBoost model, but xgboost is not installed: pip install debias-trees[xgboost]"
        ) from error
    try:
        return xgboost.Booster(model_file=path)
    except xgboost.core.XGBoostError as error:
        raise UnsupportedModelError(f"{path} cannot be loaded by XGBoost: {str(error).splitlines()[0]}") from error


def _is_mine(model: Any) -> bool:
    xgboost = sys.modules.get("xgboost")
    if xgboost is None:
        return False
    wrapper = getattr(xgboost, "XGBModel", None)  # absent where scikit-learn is
    return isinstance(model, xgboost.Booster) or (wrapper is not None and isinstance(model, wrapper))


def _booster(model: Any) -> Any:
    if not hasattr(model, "get_booster"):
        return model
    if not model.__sklearn_is_fitted__():
        raise UnsupportedModelError(f"this XGBoost {type(model).__name__} is not fitted; fit it first")
    return model.get_booster()


def _learner(booster: Any, source: str) -> dict[str, Any]:
    try:
        learner: dict[str, Any] = ubjson.read(bytes(booster.save_raw("ubj")))["learner"]
    except sys.modules["xgboost"].core.XGBoostError as error:  # a Booster that was made, and never trained
        raise UnsupportedModelError(f"this {source} cannot be read: it has no trees; train it first") from error
    return learner


def _n_rounds(model: Any, booster: Any) -> int:
    """Return the rounds that predictions use: wrappers stop at the best of early stopping, Boosters do not."""
    if hasattr(model, "get_booster") and booster.attr("best_iteration") is not None:
        return int(booster.attr("best_iteration")) + 1
    return int(booster.num_boosted_rounds())


def _notes(model: Any, booster: Any) -> tuple[str, ...]:
    best, used, there = booster.attr("best_iteration"), _n_rounds(model, booster), int(booster.num_boosted_rounds())
    if best is None or there == int(best) + 1:
        return ()
    if used < there:
        return (
            f"early stopping: scores are of the first {used} of {there} rounds, as predictions are; the reported "
            "importance is of all rounds",
        )
    return (
        f"early stopping: this Booster predicts with all its {there} rounds, and they are scored; the best was round "
        f"{int(best) + 1} (slice the Booster to score that)",
    )


def _n_trees(model: Any, booster: Any, learner: dict[str, Any]) -> int:
    if learner["gradient_booster"]["name"] != "gbtree":
        name = learner["gradient_booster"]["name"]
        raise UnsupportedModelError(
            f"this XGBoost model has booster={name!r}; "
            + ("it is linear and has no trees" if name == "gblinear" else "only 'gbtree' is supported so far")
        )
    return int(learner["gradient_booster"]["model"]["iteration_indptr"][_n_rounds(model, booster)])


def _checked(learner: dict[str, Any], source: str, n_trees: int) -> tuple[list[Any], NDArray[np.int32], Any]:
    """Return trees, their outputs and the objective, or refuse what cannot be audited yet."""
    objective = learner["objective"]["name"]
    if objective not in OBJECTIVES:
        raise UnsupportedModelError(
            f"this {source} has objective {objective!r}; supported so far: {', '.join(sorted(OBJECTIVES))}"
        )
    model = learner["gradient_booster"]["model"]
    trees = model["trees"][:n_trees]
    if not trees:
        raise UnsupportedModelError(f"this {source} has no trees; train it first")
    if int(learner["learner_model_param"].get("num_target", 1)) > 1:
        raise UnsupportedModelError(f"this {source} has several targets; only one is supported so far")
    if any(weight != 1 for weight in model.get("weight_drop", [])):  # XGBoost 3.4; 'dart' before
        raise UnsupportedModelError(f"this {source} was trained with dropout of trees (dart); not supported so far")
    for number, tree in enumerate(trees):
        if len(tree["categories_nodes"]):
            raise UnsupportedModelError(
                f"tree {number} of this {source} splits on categories; only numeric splits are supported so far"
            )
        if int(tree["tree_param"]["size_leaf_vector"]) > 1:
            raise UnsupportedModelError(f"this {source} has vector leaves (multi_output_tree); not supported so far")
        if int(tree["tree_param"]["num_deleted"]):
            raise UnsupportedModelError(f"tree {number} of this {source} was pruned after growth; not supported so far")
    return trees, np.asarray(model["tree_info"][:n_trees], dtype=np.int32), OBJECTIVES[objective]


def _base(learner: dict[str, Any], n_classes: int, objective: str) -> NDArray[np.float64]:
    """Return the margin before any tree.

    XGBoost stores it as float32 on the scale of the response; as margins for softmax and logitraw.
    """
    text = learner["learner_model_param"]["base_score"].strip("[]")
    score = np.array([np.float32(part) for part in text.split(",")]).astype(np.float64)
    if objective == "logistic" and learner["objective"]["name"] != "binary:logitraw":
        if score.min() <= 0 or score.max() >= 1:
            raise UnsupportedModelError(f"this XGBoost model has base_score {text}: it was trained on a single class")
        score = np.log(score) - np.log1p(-score)
    return np.broadcast_to(score, (n_classes,)).copy()


def _classes(model: Any, n_classes: int) -> NDArray[Any] | None:
    if hasattr(model, "classes_"):
        return np.asarray(model.classes_)
    return np.arange(n_classes) if n_classes > 1 else None


def _missing(model: Any) -> float:
    missing = getattr(model, "missing", None)
    return np.nan if missing is None else float(missing)


def _predict(model: Any, X: NDArray[np.floating[Any]], **what: bool) -> NDArray[Any]:
    import xgboost

    booster = _booster(model)
    data = xgboost.DMatrix(X, feature_names=booster.feature_names, feature_types=booster.feature_types)
    predicted: NDArray[Any] = booster.predict(data, iteration_range=(0, _n_rounds(model, booster)), **what)
    return predicted
