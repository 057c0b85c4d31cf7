"""A model around other models, as an adapter describes it: the models inside, and their columns."""

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
        Where it is, for messages: ``"step 'forest'"``.
    weight : float
        Its factor in the outer model's output.
    transform : callable, optional
        What the outer model does to X before this one sees it; nothing by default.
    response : callable, optional
        What it does to y.
    columns : array of int64, or None
        Which of the outer model's columns each of this one's comes from; None if they are the same.
    """

    model: Any
    name: str
    weight: float = 1.0
    transform: Callable[[Any], Any] | None = None
    response: Callable[[Any], Any] | None = None
    columns: NDArray[np.int64] | None = None


class Again(NamedTuple):
    """What a wrapper is trained again with.

    ``train(model, X, y, number)`` trains the models inside, each with a number of its own.
    """

    X: Any
    y: Any
    sample_weight: NDArray[np.float64] | None
    seed: int | None
    n_jobs: int | None
    train: Callable[[Any, Any, Any, int], Any]


@dataclass(frozen=True, eq=False)
class Unwrapped:
    """What an adapter's ``debias_unwrap`` returns: the models inside, and what the outer one knows of its columns.

    Parameters
    ----------
    kind : str
        What the outer model is, for messages.
    inner : tuple of Inner
        One or several; the outer output is the sum of theirs times their weights.
    feature_names : tuple of str, or None
        The outer model's columns; needed where an `Inner` has `columns`.
    note : str, or None
        What a reader of the scores must know.
    rewrap : callable, or None
        Makes an outer model around inner ones that are trained again; None if that cannot be.
    named : bool
        False if the outer model saw no names and `feature_names` were made up.
    """

    kind: str
    inner: tuple[Inner, ...]
    feature_names: tuple[str, ...] | None = None
    note: str | None = None
    rewrap: Callable[[Again], Any] | None = None
    named: bool = True
