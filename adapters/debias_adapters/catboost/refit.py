"""Refits of CatBoost models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


def refit_model(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: NDArray[Any] | None,
    seed: int | None,
    params: Mapping[str, Any] | None,
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
        "cat_features": model.get_cat_feature_indices() or None,
        "allow_writing_files": False,
        "logging_level": "Silent",
    }
    for name in ("verbose", "silent", "verbose_eval", "metric_period"):
        settings.pop(name, None)
    if seed is not None:
        settings.pop("random_state", None)
        settings["random_seed"] = seed
    refitted = type(model)(**{**settings, **(params or {})})
    return refitted.fit(X, y, sample_weight=sample_weight)
