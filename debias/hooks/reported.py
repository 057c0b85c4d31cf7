"""The importance that a library reports, and what is needed to compute the same figure on unseen rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    LeafSumsOf = Callable[[Any], "LeafSums"]


class Measure(StrEnum):
    """What a reported importance measures. :mod:`debias.scorers.native_unseen` has the formula of each."""

    IMPURITY = "impurity"
    """The decreases of the impurity, weighted by rows and summed over the trees."""
    IMPURITY_BY_TREE = "impurity by tree"
    """The same, scaled to sum 1 in each tree, and then summed over the trees."""
    TOTAL_GAIN = "total gain"
    """The gains of the splits, summed."""
    MEAN_GAIN = "mean gain"
    """The mean gain of a split."""
    SPLITS = "splits"
    """The number of splits. It has no counterpart on unseen rows."""
    PREDICTION_CHANGE = "prediction change"
    """CatBoost's change of predictions between leaves that differ in one split."""


@dataclass(frozen=True, eq=False, kw_only=True)
class LeafSums:
    """What a boosted model keeps of the training rows in its leaves, beside the values of the leaves.

    The value of a leaf is ``learning_rate * G / (hessian + penalty)``, where G is the sum of the negative gradients of
    the training rows.

    Parameters
    ----------
    hessian : array of float64 of shape (n_nodes,)
        Sum of second derivatives of the training rows in each leaf; entries of inner nodes are not read.
    penalty : float or array of float64 of shape (n_nodes,)
        Of each node as a child; as a parent, a node has the smallest penalty.
    learning_rate : float
    n_steps : int
        Number of Newton steps that the values of leaves come from. With more than one, the formula is that of a step.
    """

    hessian: NDArray[np.float64]
    penalty: float | NDArray[np.float64]
    learning_rate: float = 1.0
    n_steps: int = 1


class ReportedImportance(NamedTuple):
    """The importance that a library reports.

    Parameters
    ----------
    values : array of shape (n_features,)
        The importances, not scaled.
    kind : str
        Their name in the library, for example ``"total_gain"``.
    measure : Measure or None
        What they measure. None if debias has no name for it: then nothing can be said about their bias.
    leaf_sums : callable, optional
        ``leaf_sums(ensemble)`` returns the :class:`LeafSums` of a boosted model. Without it the splits of a boosted
        model are taken to be chosen by the variance of the gradients.
    """

    values: NDArray[np.float64]
    kind: str
    measure: Measure | None = None
    leaf_sums: LeafSumsOf | None = None
