"""Hooks for NGBoost's models, scored on held-out rows."""

from __future__ import annotations

import inspect
import sys
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.errors import InBagUnavailableError
from debias.hooks.reported import ReportedImportance
from debias_adapters.ngboost import LIBRARY, reading
from debias_adapters.ngboost.objective import global_state, refuse_other_events
from debias_adapters.sklearn.reading import quiet
from debias_adapters.sklearn.refit import fresh

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from debias.hooks.library import Library
    from debias.trees.ensemble import TreeEnsemble
    from debias.trees.in_bag import InBag


@debias.plugin.hookimpl
def debias_libraries() -> list[Library]:
    """Declare the library."""
    return [LIBRARY]


@debias.plugin.hookimpl
def debias_extract(model: Any) -> TreeEnsemble | None:
    """Concatenate the trees of all parameters."""
    return reading.extract(model) if _is_mine(model) else None


@debias.plugin.hookimpl
def debias_leaves(model: Any, ensemble: TreeEnsemble, X: NDArray[np.floating[Any]]) -> NDArray[np.int32] | None:
    """Apply each tree to its own columns."""
    if not _is_mine(model):
        return None
    return np.stack([tree.apply(X[:, columns]) for tree, columns in reading.trees(model)], axis=1).astype(np.int32)


@debias.plugin.hookimpl
def debias_predict_raw(model: Any, X: NDArray[np.floating[Any]]) -> NDArray[np.float64] | None:
    """Return the parameters of the distribution of each row, in the units of the margin."""
    return _raw(model, X) if _is_mine(model) else None


@debias.plugin.hookimpl
def debias_predict_native(model: Any, X: Any) -> NDArray[np.float64] | None:
    """Return the same for the user's rows."""
    if not _is_mine(model):
        return None
    return _raw(model, X.tocsr() if hasattr(X, "tocsr") else np.asarray(X, dtype=np.float64))


@debias.plugin.hookimpl
def debias_in_bag(model: Any, y: NDArray[Any], sample_weight: NDArray[np.float64] | None) -> InBag | None:
    """Refuse: other trees have seen the rows that are not in the sample of one tree."""
    if not _is_mine(model):
        return None
    raise InBagUnavailableError.of_boosted(f"an NGBoost {type(model).__name__}")


@debias.plugin.hookimpl
def debias_reported_importance(model: Any) -> ReportedImportance | None:
    """Return ``feature_importances_``, of which NGBoost has one for each parameter, averaged over the parameters."""
    if not _is_mine(model):
        return None
    with np.errstate(invalid="ignore"):  # the trees of a parameter may have no splits
        values = model.feature_importances_
    if values is None or not np.isfinite(values).all():
        return None
    kind = "feature_importances_" + (", mean over parameters" if len(values) > 1 else "")
    return ReportedImportance(np.mean(values, axis=0), kind)


@debias.plugin.hookimpl
def debias_refit(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: NDArray[np.float64] | None,
    seed: int | None,
    params: Mapping[str, Any] | None,
) -> Any | None:
    """Fit a new model with the same settings and as many rounds, without early stopping."""
    if not _is_mine(model):
        return None
    settings = {
        **model.get_params(deep=False),
        "Dist": _distribution(model),
        "Base": _fresh_learners(model.Base, seed),
        "random_state": deepcopy(model.random_state) if seed is None else seed,
        "n_estimators": len(model.base_models),
        "early_stopping_rounds": None,
        "verbose": False,
    }
    accepted = inspect.signature(type(model).__init__).parameters  # fewer in old versions of NGBoost
    settings = {name: value for name, value in settings.items() if name in accepted} | dict(params or {})
    refitted = type(model)(**settings)
    rows = (X, *_time_and_event(y)) if reading.is_survival(model) else (X, y)
    weights = {} if sample_weight is None else {"sample_weight": sample_weight}
    with global_state(seed):
        return refitted.fit(*rows, **weights)


def _is_mine(model: Any) -> bool:
    ngboost = sys.modules.get("ngboost")
    return ngboost is not None and isinstance(model, (ngboost.NGBRegressor, ngboost.NGBClassifier, ngboost.NGBSurvival))


def _raw(model: Any, X: Any) -> NDArray[np.float64]:
    units = reading.units_of_parameters(model, reading.parameters_of_start(model))
    with quiet():
        raw = np.asarray(model.pred_param(X), dtype=np.float64) * units
    before = np.zeros((len(raw), reading.n_before(model)))
    return np.concatenate([before, raw], axis=1)


def _distribution(model: Any) -> Any:
    """Return the distribution that the user passed: NGBoost keeps a class that it derived from it."""
    if reading.is_survival(model):
        return model.Dist._basedist
    return model.Dist.__base__ if model.Dist.__name__ == "DistWithUncensoredScore" else model.Dist


def _fresh_learners(base: Any, seed: int | None) -> Any:
    if isinstance(base, (list, tuple)):
        return type(base)(fresh(learner, None if seed is None else seed + k) for k, learner in enumerate(base))
    return fresh(base, seed)


def _time_and_event(y: Any) -> tuple[Any, Any]:
    """Return times and events, of an array with fields or with two columns."""
    names = getattr(getattr(y, "dtype", None), "names", None)
    if names is not None:
        event = next(name for name in names if y.dtype[name].kind == "b")
        time = next(name for name in names if name != event)
        return y[time], y[event]
    columns = np.asarray(y, dtype=np.float64)
    refuse_other_events(columns)
    return columns[:, 0], columns[:, 1]
