"""Hooks for scikit-survival: its forests and trees, its boosted Cox models, and scorers around them."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import debias
from debias.errors import InBagUnavailableError, UnsupportedModelError
from debias.hooks.training_weights import TrainingWeights
from debias.hooks.wrapping import Inner, Unwrapped
from debias_adapters.scikit_survival import LIBRARY, reading
from debias_adapters.sklearn.reading import apply_trees, predicted
from debias_adapters.sklearn.refit import fitted, refit_attribute

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from debias.hooks.library import Library
    from debias.trees.ensemble import TreeEnsemble
    from debias.trees.in_bag import InBag

FORESTS = ("RandomSurvivalForest", "ExtraSurvivalTrees")
BOOSTED = ("GradientBoostingSurvivalAnalysis",)
SCORERS = (
    "as_concordance_index_ipcw_scorer",
    "as_cumulative_dynamic_auc_scorer",
    "as_integrated_brier_score_scorer",
)


@debias.plugin.hookimpl
def debias_libraries() -> list[Library]:
    """Declare the library."""
    return [LIBRARY]


@debias.plugin.hookimpl
def debias_unwrap(model: Any) -> Unwrapped | None:
    """Return the model inside a scorer, which gives it another ``score`` for searches and predicts the same."""
    if not _is_one(model, "metrics", SCORERS):
        return None
    _require_fitted(model, "estimator_")
    inner = Inner(model.estimator_, "estimator_")
    return Unwrapped(type(model).__name__, (inner,), rewrap=partial(refit_attribute, "estimator_", model))


@debias.plugin.hookimpl
def debias_extract(model: Any) -> TreeEnsemble | None:
    """Concatenate the trees."""
    if _is_one(model, "ensemble", ("ComponentwiseGradientBoostingSurvivalAnalysis",)):
        raise UnsupportedModelError(
            f"a scikit-survival {type(model).__name__} has linear base learners and no trees, so it cannot be scored"
        )
    if not _is_mine(model):
        return None
    _require_fitted(model, "tree_" if _is_tree(model) else "estimators_")
    return reading.extract_boosted(model) if _is_boosted(model) else reading.extract_forest(model)


@debias.plugin.hookimpl
def debias_leaves(model: Any, ensemble: TreeEnsemble, X: NDArray[np.floating[Any]]) -> NDArray[np.int32] | None:
    """Return the leaves that each tree's apply returns."""
    return apply_trees(reading.trees(model), X) if _is_mine(model) else None


@debias.plugin.hookimpl
def debias_predict_raw(model: Any, X: NDArray[np.floating[Any]]) -> NDArray[np.float64] | None:
    """Return the risk scores of forests, and the log hazard ratios of boosted models."""
    return predicted(model, X) if _is_mine(model) else None


@debias.plugin.hookimpl
def debias_predict_native(model: Any, X: Any) -> NDArray[np.float64] | None:
    """Return the same as debias_predict_raw for the user's rows."""
    return predicted(model, X) if _is_mine(model) else None


@debias.plugin.hookimpl
def debias_in_bag(model: Any, y: NDArray[Any], sample_weight: NDArray[np.float64] | None) -> InBag | None:
    """Redraw the bags of a forest, and compare times and events with its roots; refuse boosted models."""
    if not _is_mine(model):
        return None
    if _is_boosted(model):
        raise InBagUnavailableError.of_boosted(f"a scikit-survival {type(model).__name__}")
    return reading.in_bag(model, y, sample_weight)


@debias.plugin.hookimpl
def debias_training_weights(model: Any) -> TrainingWeights | None:
    """Return the sample weights that a forest keeps."""
    return TrainingWeights(getattr(model, "_sample_weight", None)) if _is_mine(model) else None


@debias.plugin.hookimpl
def debias_reported_importance(model: Any) -> tuple[NDArray[np.float64], str] | None:
    """Return ``feature_importances_`` of a boosted model. Forests report none."""
    return (model.feature_importances_, "mean decrease in impurity") if _is_boosted(model) else None


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
    """Fit a clone; a boosted model with as many stages as it has, without early stopping."""
    if not _is_mine(model):
        return None
    stages = {"n_estimators": model.n_estimators_, "n_iter_no_change": None} if _is_boosted(model) else {}
    return fitted(model, X, y, sample_weight, seed, {**stages, **(params or {})}, n_jobs)


def _is_mine(model: Any) -> bool:
    return _is_one(model, "ensemble", FORESTS) or _is_boosted(model) or _is_tree(model)


def _is_boosted(model: Any) -> bool:
    return _is_one(model, "ensemble", BOOSTED)


def _is_tree(model: Any) -> bool:
    return _is_one(model, "tree", ("SurvivalTree",))


def _is_one(model: Any, module: str, names: tuple[str, ...]) -> bool:
    """Return whether a model is of one of the classes of a module, which is loaded if the user has such a model."""
    home = sys.modules.get(f"sksurv.{module}")
    return home is not None and isinstance(model, tuple(getattr(home, name) for name in names))


def _require_fitted(model: Any, attribute: str) -> None:
    if not hasattr(model, attribute):
        raise UnsupportedModelError(f"this scikit-survival {type(model).__name__} is not fitted; fit it first")
