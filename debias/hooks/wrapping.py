"""The description of a model around other models: the models inside, their columns, and a way to refit it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Inner:
    """A model inside another.

    Parameters
    ----------
    model : object
    name : str
        Its place in the outer model, for messages: ``"step 'forest'"``.
    weight : float
        Its factor in the output of the outer model.
    transform : callable, optional
        Transformation of X by the outer model before this model sees it; by default none.
    response : callable, optional
        Transformation of y by the outer model.
    columns : array of int64, or None
        For each column of this model, the column of the outer model that it comes from; None if they are the same.
    """

    model: Any
    name: str
    weight: float = 1.0
    transform: Callable[[Any], Any] | None = None
    response: Callable[[Any], Any] | None = None
    columns: NDArray[np.int64] | None = None


class RefitInputs(NamedTuple):
    """The inputs of the refit of a wrapper.

    ``train(model, X, y, number)`` refits a model inside; each model inside has its own number.
    """

    X: Any
    y: Any
    sample_weight: NDArray[np.float64] | None
    seed: int | None
    n_jobs: int | None
    train: Callable[[Any, Any, Any, int], Any]


@dataclass(frozen=True, eq=False)
class Unwrapped:
    """The answer of ``debias_unwrap``: the models inside, and the columns of the outer model.

    Parameters
    ----------
    kind : str
        Kind of the outer model, for messages.
    inner : tuple of Inner
        One or several models. The output of the outer model is the sum of their outputs times their weights.
    feature_names : tuple of str, or None
        Columns of the outer model; needed if an `Inner` has `columns`.
    note : str, or None
        A warning for readers of the scores.
    rewrap : callable, or None
        Returns an outer model around refitted inner models; None if that is not possible.
    named : bool
        False if the outer model saw no names and `feature_names` were made up.
    """

    kind: str
    inner: tuple[Inner, ...]
    feature_names: tuple[str, ...] | None = None
    note: str | None = None
    rewrap: Callable[[RefitInputs], Any] | None = None
    named: bool = True
