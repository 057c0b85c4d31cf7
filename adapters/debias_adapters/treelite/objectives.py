"""Objectives of treelite's models. A model does not keep its loss: the function of its output says which it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from debias.errors import UnsupportedModelError
from debias.trees.objectives import Objective, UnscoredObjective

if TYPE_CHECKING:
    from debias_adapters.treelite.reading import Header

_GUESS = (
    "treelite does not keep the loss that a model was trained for; it is scored with the {}, because its output is {!r}"
)


def objective_of(header: Header, source: str) -> tuple[Objective, tuple[str, ...]]:
    """Return the objective of a model whose trees are added, and a note where several losses have such an output.

    Raises
    ------
    UnsupportedModelError
        There is no loss for such an output.
    """
    name, alpha = header.postprocessor, header.sigmoid_alpha
    if header.task == "kLearningToRank":
        return UnscoredObjective(name, reason="it compares rows of one group with each other"), ()
    if name == "identity":
        return Objective("squared_error"), (_GUESS.format("squared error", name),)
    if name == "signed_square":
        return Objective("squared_error", root=True), ()
    if name == "exponential":
        return Objective("poisson", (0.0,)), (_GUESS.format("Poisson loss", name),)
    if name in ("sigmoid", "multiclass_ova"):
        return Objective("logistic", (alpha,)), ()
    if name == "softmax":
        return Objective("softmax"), ()
    if name == "hinge":
        return Objective("hinge"), ()
    if name == "logarithm_one_plus_exp":
        reason = "row weights are part of its link function, and the model does not store them"
        return UnscoredObjective(name, reason=reason, link=lambda margin: np.log1p(np.exp(margin))), ()
    raise UnsupportedModelError(f"this {source} has the output function {name!r}, for which debias has no loss")
