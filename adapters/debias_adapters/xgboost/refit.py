"""Train an XGBoost model again on other rows, with the settings it was trained with."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from debias.errors import UnsupportedModelError
from debias_adapters.xgboost.params import ALIASES, ARE_KEPT, OF_WRAPPERS, given, require_known

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


def refit_wrapper(
    model: Any,
    rounds: int,
    X: Any,
    y: Any,
    sample_weight: NDArray[Any] | None,
    seed: int | None,
    params: Mapping[str, Any] | None,
) -> Any:
    """Clone a scikit-learn wrapper and fit the clone, with `rounds` rounds and without early stopping."""
    from sklearn.base import clone

    _refuse_lost(model.get_booster(), params, type(model).__name__)
    fresh = clone(model)
    changed: dict[str, Any] = {"early_stopping_rounds": None, "callbacks": None}
    if not _is_forest(model):
        changed["n_estimators"] = rounds
    fresh.set_params(**{**changed, **(params or {}), **({} if seed is None else {"random_state": seed})})
    return fresh.fit(X, y, sample_weight=sample_weight)


def refit_booster(
    model: Any,
    rounds: int,
    X: Any,
    y: Any,
    sample_weight: NDArray[Any] | None,
    seed: int | None,
    params: Mapping[str, Any] | None,
) -> Any:
    """Train a Booster with the settings of another."""
    import xgboost

    _refuse_lost(model, params, "Booster")
    asked = given(model) | dict(params or {})
    lost = {ALIASES.get(name, name): value for name, value in asked.items() if name not in OF_WRAPPERS}
    lost = {name: value for name, value in lost.items() if value is not None}
    settings = {**_settings(json.loads(model.save_config())["learner"]), **lost, "verbosity": 0}
    if seed is not None:
        settings["seed"] = seed
    named = (
        {} if hasattr(X, "columns") else {"feature_names": model.feature_names, "feature_types": model.feature_types}
    )
    if asked.get("missing") is not None:
        named["missing"] = asked["missing"]
    data = xgboost.DMatrix(X, y, weight=sample_weight, enable_categorical=True, **named)
    return xgboost.train(settings, data, num_boost_round=rounds)


def _refuse_lost(booster: Any, params: Mapping[str, Any] | None, kind: str) -> None:
    """Refuse a model that came from a file: the format keeps trees and objective, and no other setting.

    Training sets an evaluation metric, loading does not; the other settings then stand at their defaults.
    """
    if params is not None:
        require_known(booster, params)
    elif not json.loads(booster.save_config())["learner"].get("metrics") and booster.attr(ARE_KEPT) is None:
        raise UnsupportedModelError(
            f"this XGBoost {kind} was loaded from a file, which does not keep its hyper-parameters; pass them as "
            "params={...} (params={} if it was trained with the defaults)"
        )


def _settings(learner: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of training, which the configuration of a Booster spreads over sections."""
    grown = learner["gradient_booster"]
    found: dict[str, Any] = {
        **_section(learner, "tree_train_param"),
        **(grown["dart_train_param"] if grown["name"] == "dart" else {}),
        **{
            name: value
            for section in learner["objective"].values()
            if isinstance(section, dict)
            for name, value in section.items()
        },
    }
    found = {name: value for name, value in found.items() if name not in ALIASES and value not in ("", "()")}
    found |= {name: learner["learner_train_param"][name] for name in ("booster", "objective", "multi_strategy")}
    found |= {name: learner["generic_param"][name] for name in ("seed", "seed_per_iteration", "device", "nthread")}
    found["tree_method"] = _section(learner, "gbtree_train_param")["tree_method"]
    found["num_parallel_tree"] = _section(learner, "gbtree_model_param")["num_parallel_tree"]
    if learner["learner_model_param"]["boost_from_average"] == "0":
        found["base_score"] = learner["learner_model_param"]["base_score"]
    return found


def _gbtree(learner: dict[str, Any]) -> dict[str, Any]:
    grown: dict[str, Any] = learner["gradient_booster"]
    return grown.get("gbtree", grown)


def _section(learner: dict[str, Any], name: str) -> dict[str, Any]:
    section: dict[str, Any] = _gbtree(learner).get(name, {})
    return section


def _is_forest(model: Any) -> bool:
    """Whether n_estimators counts parallel trees, and not rounds."""
    import xgboost

    return isinstance(model, (xgboost.XGBRFRegressor, xgboost.XGBRFClassifier))
