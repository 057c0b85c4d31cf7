"""Refits of YDF models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import UnsupportedModelError, with_article
from debias_adapters.ydf import bags

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

_WEIGHT = "weight of the row"
"""Name of the column of weights. No learner takes it for a feature, because all features are named."""


def refit_model(
    model: Any,
    source: str,
    X: Any,
    y: Any,
    sample_weight: NDArray[Any] | None,
    seed: int | None,
    params: Mapping[str, Any] | None,
) -> Any:
    """Train a learner of the same kind, task and columns, with as many trees as the model has.

    Raises
    ------
    UnsupportedModelError
        The user passed no settings.
    """
    if params is None:
        raise UnsupportedModelError(
            f"{with_article(source)} does not keep the settings of its learner; pass them as "
            "refits=debias.Refits(params={...}) (params={} if it was trained with the defaults), or as params= of "
            "debias.refit"
        )
    import ydf

    learner, settings = _learner(ydf, model)
    rows = _frame(X, model.input_feature_names())
    # Meta-methods add columns; YDF finds out their kinds as it does for the columns of a user.
    kinds = {feature.name: (feature.name, feature.semantic) for feature in model.input_features()}
    settings |= {
        "label": model.label(),
        "task": model.task(),
        "features": [kinds.get(name, name) for name in rows.columns],
        "num_threads": 1,  # boosted trees of several classes depend on it
    }
    rows[model.label()] = np.asarray(y)
    if sample_weight is not None:
        settings["weights"] = _WEIGHT
        rows[_WEIGHT] = sample_weight
    settings |= params
    if seed is not None:
        settings["random_seed"] = seed % 2**31
    refitted = learner(**settings).train(rows, verbose=0)
    metadata = refitted.metadata()
    metadata.custom_fields[bags.SEED_FIELD] = str(settings.get("random_seed", bags.SEEDS[0]))
    refitted.set_metadata(metadata)
    return refitted


def _learner(ydf: Any, model: Any) -> tuple[Any, dict[str, Any]]:
    """Return the class of the learner of a model, and the settings that the model shows."""
    if isinstance(model, ydf.GradientBoostedTreesModel):
        rounds = model.num_trees() // model.num_trees_per_iteration()
        return ydf.GradientBoostedTreesLearner, {
            "num_trees": rounds,
            "early_stopping": "NONE",
            "validation_ratio": 0.0,
        }
    if model.num_trees() == 1 and bags.saw_rows_once(bags.first_roots(model), model.data_spec().created_num_rows):
        return ydf.CartLearner, {}
    return ydf.RandomForestLearner, {
        "num_trees": model.num_trees(),
        "winner_take_all": model.winner_takes_all(),
        "compute_oob_performances": False,
    }


def _frame(X: Any, names: list[str]) -> Any:
    """Return a pandas frame of the rows, which may be changed; `names` are those of the columns of an array."""
    import pandas as pd

    if hasattr(X, "iloc"):
        return X.astype({name: object for name, dtype in X.dtypes.items() if str(dtype) == "category"})
    if isinstance(X, np.ndarray):
        return pd.DataFrame(X, columns=[*names, *(f"column {k}" for k in range(len(names), X.shape[1]))])
    return pd.DataFrame({name: X[name].to_numpy() for name in X.columns})
