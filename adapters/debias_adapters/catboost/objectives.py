"""Objectives of CatBoost models."""

from __future__ import annotations

from typing import Any

import numpy as np

from debias.errors import UnsupportedModelError
from debias.trees.objectives import Objective, UnscoredObjective, expit
from debias.trees.ranking_objectives import Deviation, Pairwise, RankingObjective
from debias.trees.survival_objectives import CoxObjective

OF_CLASSES = ("Logloss", "MultiClass", "MultiClassOneVsAll")
"""Objectives of one label. The response of the others is a number or several; for CrossEntropy a probability."""
OF_SEVERAL_RESPONSES = ("MultiRMSE", "MultiLogloss", "MultiCrossEntropy")
LOSSES: dict[str, tuple[str, str | None, str]] = {
    "RMSE": ("squared_error", None, ""),
    "MultiRMSE": ("squared_error", None, ""),
    "Logloss": ("logistic", None, ""),
    "CrossEntropy": ("logistic", None, ""),
    "MultiClass": ("softmax", None, ""),
    "MultiClassOneVsAll": ("logistic", None, ""),
    "MultiLogloss": ("logistic", None, ""),
    "MultiCrossEntropy": ("logistic", None, ""),
    "MAE": ("absolute_error", None, ""),
    "MAPE": ("absolute_percentage_error", None, ""),
    "Quantile": ("quantile", "alpha", "0.5"),
    "MultiQuantile": ("quantile", "alpha", "0.5"),
    "Expectile": ("expectile", "alpha", "0.5"),
    "Huber": ("huber", "delta", ""),
    "Poisson": ("poisson", None, ""),
    "Tweedie": ("tweedie", "variance_power", ""),
}
"""CatBoost's name of a loss, the name in debias, CatBoost's name of its parameter, and the default."""

_OF_GROUPS = "it compares rows of one group with each other"
_UNKNOWN = "debias has no formula for its loss"
_PAIRS = ("pairs of the user, which the model does not keep: all pairs of a query with different y are used",)
UNSCORED = {
    **dict.fromkeys(
        (
            "LambdaMart",
            "StochasticRank",
            "QueryCrossEntropy",
        ),
        _OF_GROUPS,
    ),
    **dict.fromkeys(("SurvivalAft", "Lq", "LogCosh", "LogLinQuantile", "Focal"), _UNKNOWN),
    "PythonUserDefinedPerObject": "it is a function of the user, which the model does not keep",
}
"""CatBoost's names of losses that give rows no gradient that debias knows: the reason."""
_RANKING: dict[str, RankingObjective] = {
    "QueryRMSE": Deviation("QueryRMSE"),
    "QuerySoftMax": Deviation("QuerySoftMax"),
    "PairLogit": Pairwise("PairLogit", left_out=_PAIRS),
    "PairLogitPairwise": Pairwise("PairLogitPairwise", left_out=_PAIRS),
}
_LINKS: dict[str, Any] = {"SurvivalAft": np.exp, "LogLinQuantile": np.exp, "Focal": expit}


def objective_of(model: Any) -> tuple[str, Objective]:
    """Return CatBoost's name of the loss a model was trained for, and the objective.

    Raises
    ------
    UnsupportedModelError
        The model does not keep its objective, or debias does not know its loss.
    """
    source = f"CatBoost {type(model).__name__}"
    if "params" not in dict(model.get_metadata()):
        raise UnsupportedModelError(
            f"this {source} keeps no training parameters, so its objective is not known, as after "
            "catboost.sum_models. Audit the models that it was made of"
        )
    text = str(model.get_all_params().get("loss_function", "an objective function"))
    name, _, options = text.partition(":")
    settings = dict(option.split("=", 1) for option in options.split(";") if option)
    if name == "Cox":
        return name, CoxObjective(link=np.exp)
    if name in ("YetiRank", "YetiRankPairwise"):
        return name, _yeti_rank(name, settings)
    if name in _RANKING:
        return name, _RANKING[name]
    if name in UNSCORED:
        return name, UnscoredObjective(name, reason=UNSCORED[name], link=_LINKS.get(name))
    if name not in LOSSES:
        raise UnsupportedModelError(f"this {source} was trained for {name}. Supported are {', '.join(LOSSES)}.")
    loss, parameter, default = LOSSES[name]
    if parameter is None:
        # LOSSES of debias.trees.objectives: margins of "poisson" are taken as they are, which is 0 added to them.
        return name, Objective(loss, (0.0,)) if loss == "poisson" else Objective(loss)
    values = settings.get(parameter, default).split(",")
    return name, Objective(loss, tuple(float(value) for value in values))


def _yeti_rank(name: str, settings: dict[str, str]) -> Objective:
    mode = settings.get("mode", "Classic")
    if mode != "Classic":
        reason = f"debias has no formula for its mode {mode}, only for Classic"
        return UnscoredObjective(name, reason=reason)
    return Deviation(name, decay=float(settings.get("decay", 0.85)))
