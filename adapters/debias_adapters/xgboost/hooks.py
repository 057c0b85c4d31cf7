"""Hooks for XGBoost: scikit-learn wrappers and Boosters, of every objective of XGBoost."""

from __future__ import annotations

import sys
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.errors import InBagUnavailableError, UnsupportedModelError
from debias.hooks.reported import LeafSums, Measure, ReportedImportance
from debias.trees.ensemble import PERHAPS_STOPPED_EARLY, STOPPED_EARLY, TreeEnsemble
from debias.trees.objectives import CustomObjective, Objective
from debias_adapters.xgboost import LIBRARY, file_checks, reading, refit

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from debias.hooks.library import Library
    from debias.trees.in_bag import InBag

MEASURES = {"gain": Measure.MEAN_GAIN, "total_gain": Measure.TOTAL_GAIN, "weight": Measure.SPLITS}
"""What XGBoost's importances measure; its covers, which do not depend on the response, have no entry."""


@debias.plugin.hookimpl
def debias_libraries() -> list[Library]:
    """Declare the library."""
    return [LIBRARY]


@debias.plugin.hookimpl
def debias_extract(model: Any) -> TreeEnsemble | None:
    """Read the trees from the binary form of the booster."""
    if not _is_mine(model):
        return None
    source = f"XGBoost {type(model).__name__}"
    booster = _booster(model)
    learner = reading.read_learner(booster, source)
    trees = reading.read_trees(learner, _n_rounds(model, booster), source)
    own_objective = _own_objective(model)
    objective_notes = () if own_objective else reading.objective_notes(learner, trees, source)
    objective = own_objective or reading.read_objective(learner, trees, source)
    base = reading.read_base(learner, objective, source)
    n_features = int(learner["learner_model_param"]["num_feature"])
    names = list(booster.feature_names or [])
    return TreeEnsemble(
        tree_start=trees.start,
        feature=trees.feature,
        # XGBoost sends x < threshold left, in float32. That is x <= the largest float32 below.
        threshold=np.nextafter(trees.condition, np.float32(-np.inf)).astype(np.float64),
        left=trees.left,
        right=trees.right,
        missing_left=trees.default_left,
        value=trees.value,
        averaging_weight=np.where(trees.left < 0, trees.cover, 0.0),
        tree_output=trees.output,
        base=base,
        averaged=False,
        objective=objective,
        feature_names=tuple(names or [f"f{k}" for k in range(n_features)]),
        named=bool(names),
        classes=_classes(model, learner),
        labelled=hasattr(model, "classes_"),
        routing_dtype=np.dtype(np.float32),
        output_dtype=np.dtype(np.float32),
        category_labels=reading.category_labels(learner, source) or None,
        missing_value=_missing(model),
        sparse_absent=np.nan,
        source=source,
        version=sys.modules["xgboost"].__version__,
        tested_versions=LIBRARY.tested_versions,
        gain=trees.gain,
        cover=trees.cover,
        cover_factor=2.0 if objective.name == "softmax" else 1.0,  # XGBoost's hessian of softmax is 2 p (1 - p)
        native_node=trees.native_node,
        trees_a_round=trees.trees_a_round,
        sampled_share=reading.read_sampled_share(booster),
        rescaled=trees.rescaled,
        margin_replaces_base=True,
        # Covers of such losses depend on the response and weights: only all training rows together can be recognised.
        uniform_rows=not objective.curvature_needs_response,
        positive_weight=float(learner["objective"].get("reg_loss_param", {}).get("scale_pos_weight", 1.0)),
        notes=(*refit.notes(booster), *_notes(model, booster), *objective_notes, *objective.notes),
        **trees.sets,
    )


@debias.plugin.hookimpl
def debias_leaves(model: Any, ensemble: TreeEnsemble, X: NDArray[np.floating[Any]]) -> NDArray[np.int32] | None:
    """Predict leaf indices. XGBoost's numbers of nodes count pruned nodes too."""
    if not _is_mine(model):
        return None
    leaves = _predict(model, X, pred_leaf=True).reshape(len(X), -1).astype(np.int32)
    if ensemble.native_node is None:
        return leaves
    for tree, (begin, end) in enumerate(zip(ensemble.tree_start[:-1], ensemble.tree_start[1:], strict=True)):
        leaves[:, tree] = np.searchsorted(ensemble.native_node[begin:end], leaves[:, tree])
    return leaves


@debias.plugin.hookimpl
def debias_predict_raw(model: Any, X: NDArray[np.floating[Any]]) -> NDArray[np.float64] | None:
    """Return margins."""
    if not _is_mine(model):
        return None
    return np.asarray(_predict(model, X, output_margin=True), dtype=np.float64).reshape(len(X), -1)


@debias.plugin.hookimpl
def debias_predict_native(model: Any, X: Any) -> NDArray[np.float64] | None:
    """Return margins. For a Booster, the rows are put into a DMatrix, as users do."""
    if not _is_mine(model):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if hasattr(model, "get_booster"):
            raw = model.predict(X, output_margin=True, validate_features=False)
        else:
            raw = model.predict(_user_matrix(model, X), output_margin=True, validate_features=False)
    return np.asarray(raw, dtype=np.float64).reshape(X.shape[0], -1)


@debias.plugin.hookimpl
def debias_in_bag(model: Any, y: NDArray[Any], sample_weight: NDArray[np.float64] | None) -> InBag | None:
    """Refuse: boosted trees have seen every row, and forests of XGBoost do not keep their bags."""
    if not _is_mine(model):
        return None
    booster = _booster(model)
    n_trees = len(booster.get_dump()) if booster.num_boosted_rounds() == 1 else 0
    if n_trees > 1:
        raise InBagUnavailableError(
            f"an XGBoost {type(model).__name__} of one round is a forest, but XGBoost does not keep its bags, and they "
            "cannot be redrawn outside it. Pass rows the model has not seen, with rows='held-out'."
        )
    raise InBagUnavailableError.of_boosted(f"an XGBoost {type(model).__name__}")


@debias.plugin.hookimpl
def debias_reported_importance(model: Any) -> ReportedImportance | None:
    """Return ``feature_importances_`` of a wrapper, the default ``get_score()`` of a Booster."""
    if not _is_mine(model):
        return None
    if hasattr(model, "feature_importances_"):
        kind, importances = model.importance_type or "gain", np.asarray(model.feature_importances_, dtype=np.float64)
    else:
        score, kind = model.get_score(), "weight"
        names = model.feature_names or [f"f{k}" for k in range(model.num_features())]
        importances = np.array([float(score.get(name, 0.0)) for name in names])
    return ReportedImportance(importances, kind, MEASURES.get(kind), partial(_leaf_sums, model))


@debias.plugin.hookimpl
def debias_refit(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: NDArray[np.float64] | None,
    seed: int | None,
    params: Mapping[str, Any] | None,
    n_jobs: int | None,
    qid: NDArray[np.int64] | None,
) -> Any | None:
    """Refit the wrapper, or a Booster with its configuration."""
    if not _is_mine(model):
        return None
    rounds = _n_rounds(model, _booster(model))
    if hasattr(model, "get_booster"):
        params = params if n_jobs is None else {"n_jobs": n_jobs, **(params or {})}
        return refit.refit_wrapper(model, rounds, X, y, sample_weight, seed, params, qid)
    source = "XGBoost Booster"
    learner = reading.read_learner(model, source)
    reading.objective_notes(learner, reading.read_trees(learner, rounds, source), source)
    return refit.refit_booster(model, rounds, X, y, sample_weight, seed, params, qid)


@debias.plugin.hookimpl
def debias_restore(model: Any, params: Any) -> Any | None:
    """Restore the hyper-parameters of a Booster from a file, or make it the booster of a wrapper."""
    if not _is_mine(model):
        return None
    return refit.restored(_booster(model), params)


@debias.plugin.hookimpl
def debias_load_model(path: Path) -> Any | None:
    """Load JSON or UBJSON files of ``save_model``, which are checked before XGBoost reads them."""
    if path.is_dir():
        return None
    with open(path, "rb") as file:
        head = file.read(200).lstrip()
    if path.suffix not in (".json", ".ubj", ".ubjson") or not head.startswith(b"{") or b"learner" not in head:
        return None
    try:
        import xgboost
    except ImportError as error:
        raise UnsupportedModelError(
            f"{path} is an XGBoost model, but xgboost is not installed: pip install xgboost"
        ) from error
    data = file_checks.checked(path.read_bytes(), str(path))
    try:
        return xgboost.Booster(model_file=data)
    except xgboost.core.XGBoostError as error:
        raise UnsupportedModelError(
            f"{path} cannot be loaded by XGBoost {xgboost.__version__}, which may be older than the file: "
            f"{str(error).splitlines()[0]}"
        ) from error


@debias.plugin.hookimpl
def debias_save_model(model: Any, path: Path) -> bool | None:
    """Write JSON or UBJSON files."""
    if not _is_mine(model) or path.suffix not in (".json", ".ubj", ".ubjson"):
        return None
    model.save_model(path)
    return True


def _leaf_sums(model: Any, ensemble: TreeEnsemble) -> LeafSums:
    """Return the sums of hessians in the leaves. A model file has not kept the penalty: XGBoost then says 1."""
    assert ensemble.cover is not None
    return LeafSums(hessian=ensemble.cover, penalty=reading.read_penalty(_booster(model)))


def _is_mine(model: Any) -> bool:
    xgboost = sys.modules.get("xgboost")
    if xgboost is None:
        return False
    wrapper = getattr(xgboost, "XGBModel", None)  # absent if scikit-learn is not installed
    return isinstance(model, xgboost.Booster) or (wrapper is not None and isinstance(model, wrapper))


def _booster(model: Any) -> Any:
    if not hasattr(model, "get_booster"):
        return model
    if not model.__sklearn_is_fitted__():
        raise UnsupportedModelError(f"this XGBoost {type(model).__name__} is not fitted; fit it first")
    return model.get_booster()


def _n_rounds(model: Any, booster: Any) -> int:
    """Return the number of rounds that predictions use. Wrappers use the best one of early stopping, Boosters all."""
    if hasattr(model, "get_booster") and booster.attr("best_iteration") is not None:
        return int(booster.attr("best_iteration")) + 1
    return int(booster.num_boosted_rounds())


def _notes(model: Any, booster: Any) -> tuple[str, ...]:
    best_iteration = booster.attr("best_iteration")
    n_used, n_rounds = _n_rounds(model, booster), int(booster.num_boosted_rounds())
    if best_iteration is None:
        return ()
    if n_rounds == int(best_iteration) + 1:
        if not hasattr(model, "get_booster"):  # a Booster does not keep how many were asked for
            return (PERHAPS_STOPPED_EARLY,)
        return () if n_rounds == model.get_num_boosting_rounds() else (STOPPED_EARLY,)
    if n_used < n_rounds:
        return (
            STOPPED_EARLY,
            f"early stopping: scores are of the first {n_used} of {n_rounds} rounds, as predictions are; the reported "
            "importance is of all rounds",
        )
    return (
        PERHAPS_STOPPED_EARLY,
        f"early stopping: this Booster predicts with all its {n_rounds} rounds, so all are scored; the best was round "
        f"{int(best_iteration) + 1} (slice the Booster to score that)",
    )


def _own_objective(model: Any) -> Objective | None:
    """Return the objective function that was passed to a wrapper."""
    function = getattr(model, "objective", None)
    if not callable(function):
        return None
    is_multiclass = getattr(model, "n_classes_", 2) > 2

    def gradient(y: NDArray[np.float64], margin: NDArray[np.float64]) -> NDArray[np.float64]:
        gradients: NDArray[np.float64] = function(y.argmax(axis=1) if is_multiclass else y, margin)[0]
        return gradients

    return CustomObjective(gradient=gradient)


def _classes(model: Any, learner: dict[str, Any]) -> NDArray[Any] | None:
    n_classes, n_targets = (int(learner["learner_model_param"].get(name, 1)) for name in ("num_class", "num_target"))
    if n_targets > 1:  # several targets, or several labels for each row: y has columns of numbers
        return None
    if hasattr(model, "classes_"):
        return np.asarray(model.classes_)
    return np.arange(n_classes) if n_classes > 1 else None


def _missing(model: Any) -> float:
    missing = model.missing if hasattr(model, "get_booster") else refit.restored_params(model).get("missing")
    return np.nan if missing is None else float(missing)


def _user_matrix(booster: Any, X: Any) -> Any:
    """Return the user's rows as a DMatrix. An array gets the names and types of training."""
    import xgboost

    is_frame = hasattr(X, "columns")
    return xgboost.DMatrix(
        X,
        missing=_missing(booster),
        feature_names=None if is_frame else booster.feature_names,
        feature_types=None if is_frame else booster.feature_types,
        enable_categorical=True,
        nthread=1,
    )


def _predict(model: Any, X: NDArray[np.floating[Any]], **output: bool) -> NDArray[Any]:
    import xgboost

    booster = _booster(model)
    data = xgboost.DMatrix(
        X,
        feature_names=booster.feature_names,
        feature_types=booster.feature_types,
        enable_categorical=True,
        nthread=1,  # there are few rows: starting several threads takes longer if cores are busy
    )
    predicted: NDArray[Any] = booster.predict(data, iteration_range=(0, _n_rounds(model, booster)), **output)
    return predicted
