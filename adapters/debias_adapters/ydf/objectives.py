"""Objectives of YDF's boosted models."""

from __future__ import annotations

from typing import Any

import numpy as np

from debias.errors import UnsupportedModelError
from debias.trees.objectives import Objective, UnscoredObjective, expit

LOSSES = {
    "BINOMIAL_LOG_LIKELIHOOD": Objective("logistic"),
    "MULTINOMIAL_LOG_LIKELIHOOD": Objective("softmax"),
    "SQUARED_ERROR": Objective("squared_error"),
    "MEAN_AVERAGE_ERROR": Objective("absolute_error"),
    "POISSON": Objective("poisson", (0.0,)),
}
DEFAULTS = ("BINOMIAL_LOG_LIKELIHOOD", "MULTINOMIAL_LOG_LIKELIHOOD", "SQUARED_ERROR")
_OF_GROUPS = "it compares rows of one group with each other"
UNSCORED: dict[str, tuple[str, Any]] = {
    "LAMBDA_MART_NDCG": (_OF_GROUPS, None),
    "LAMBDA_MART_NDCG5": (_OF_GROUPS, None),
    "XE_NDCG_MART": (_OF_GROUPS, None),
    "COX_PROPORTIONAL_HAZARD": ("it compares each row with the rows at risk at its time", None),
    "BINARY_FOCAL_LOSS": ("debias has no formula for its loss", expit),
}
"""Losses that give rows no gradient that debias knows: the reason, and the link function."""


def objective_of(model: Any, source: str) -> tuple[str, Objective]:
    """Return YDF's name of the loss a model was trained for, and the objective.

    Raises
    ------
    UnsupportedModelError
        The loss is a function of the user, which models do not keep.
    """
    from yggdrasil_decision_forests.model.gradient_boosted_trees import gradient_boosted_trees_pb2 as messages

    name = messages.Loss.Name(model._model.loss())
    logs = model.training_logs()
    # For a loss of the user, the model names the default of the task. But only YDF's own loss logs a metric beside it.
    if name in DEFAULTS and logs and not logs[0].training_evaluation.to_dict().keys() - {"loss"}:
        raise UnsupportedModelError(
            f"this {source} was trained for a loss of the user, which it does not keep. Supported are "
            f"{', '.join([*LOSSES, *UNSCORED])}"
        )
    if name in LOSSES:
        return name, LOSSES[name]
    reason, link = UNSCORED.get(name, ("debias has no formula for its loss", None))
    return name, UnscoredObjective(name, reason=reason, link=link)


def margins_of(name: str, predictions: Any) -> Any:
    """Return margins from what ``predict`` returns: log of the mean for POISSON; other losses predict margins."""
    return np.log(predictions) if name == "POISSON" else predictions
