"""The description of a model around other models: the models inside, their columns, and a way to refit it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from debias.results import vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    Columns = NDArray[np.int64] | Sequence[tuple[int, ...]]
    Labels = Mapping[int, list[Any] | None]

BEFORE_CALIBRATION = vocabulary.BEFORE_CALIBRATION
"""The note of an outer model that calibrates the probabilities of the models inside."""


@dataclass(frozen=True, eq=False)
class Supervised:
    """Steps of an outer model that were fitted with the training response, before the model inside was trained.

    They have seen y of all training rows, so no training row is out of bag for the outer model as a whole.

    Parameters
    ----------
    steps : str
        The steps in words: ``"the step 'selectkbest' (SelectKBest)"``.
    cross_fitted : str, or None
        Those steps, in words, that give rows other values while they are fitted to them than later on, as encoders with
        cross-fitting do. The rows of the trees are then not the transformed training rows.
    fitted_on_these : callable, optional
        Returns whether such a step was fitted on the given rows, in any order.
    in_training : callable, optional
        Returns the columns that the model inside was trained on if the given rows are its training rows; None if these
        cannot be made again.
    """

    steps: str
    cross_fitted: str | None = None
    fitted_on_these: Callable[[], bool] | None = None
    in_training: Callable[[], Any] | None = None


@dataclass(frozen=True, eq=False)
class Predictions:
    """How an outer model predicts by itself, with all that it does to the outputs of the models inside.

    Parameters
    ----------
    predict : callable
        Called with X as the outer model sees it. Returns probabilities of classes, shape (n_rows, n_classes), or
        numbers, shape (n_rows,) or (n_rows, n_responses), on the scale of y as the outer model sees it.
    classes : tuple, or None
        The classes in the order of the probabilities; None for numbers.
    """

    predict: Callable[[Any], Any]
    classes: tuple[Any, ...] | None = None


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
    columns : array of int64, sequence of tuples of int, or callable; or None
        For each column of this model, the column of the outer model that it comes from, or a tuple of those that it is
        computed from. A callable gets X as the outer model sees it, or None, and returns them; it may raise an
        UnsupportedModelError. It is called only if scores are traced back to the columns of the outer model. None if
        the columns are the same.
    resampled : str, or None
        Why the rows that this model was grown on are not rows of X: the outer model resampled them before. Such a model
        is scored only on rows that the user states the kind of.
    feature_names : tuple of str, or None
        Names that the outer model gives to the columns of this model, if it gives any.
    training_order : callable, optional
        Called with the training response as this model sees it. Returns the positions of the training rows in the
        order in which the outer model passed them to this model, an array of int64; a position may be repeated. By
        default the order is that of the user. The bags of the model are then proven in this order.
    tuned_on_unseen : str, or None
        What was chosen by the predictions of this model for the training rows that it had not seen, such as its number
        of trees: a clause for messages. Scores on these rows are then too high on average, so they are given only with
        ``rows="oob"``, and with a warning.
    predicts : callable, optional
        Called with rows of X as this model sees them. Returns what the outer model predicts for them, if this is not
        what this model predicts: y that is equal to it was predicted and not observed. The shape is that of y; a
        further dimension is of several predictions for each row.
    supervised : callable, optional
        Called with X and y as the outer model sees them, which may be None. Returns what the steps of the outer model
        before this one have seen of y, a :class:`Supervised`; None if they have seen nothing.
    labels : callable, optional
        Called with the labels of categories that this model knows: by the position of each of its columns of
        categories a list, or None if it does not keep them. Returns the same of the columns of the outer model: those
        that `transform` knows as categories, and those that it passes on unchanged. Tables in text are read by these
        labels. Without it nothing is known of the columns that are transformed.
    reweights : bool
        Whether the outer model trained this model with weights of its own, such as how often it drew each row. If the
        user passes no weights, rows then count alike.
    note_of_margin : str, or None
        A warning for readers of the scores if the output of this model is a margin, as that of boosted classifiers is,
        and the outer model adds up the probabilities that are computed from it.
    """

    model: Any
    name: str
    weight: float = 1.0
    transform: Callable[[Any], Any] | None = None
    response: Callable[[Any], Any] | None = None
    columns: Columns | Callable[[Any], Columns] | None = None
    resampled: str | None = None
    feature_names: tuple[str, ...] | None = None
    training_order: Callable[[Any], NDArray[np.int64]] | None = None
    tuned_on_unseen: str | None = None
    predicts: Callable[[Any], NDArray[np.float64]] | None = None
    supervised: Callable[[Any, Any], Supervised | None] | None = None
    labels: Callable[[Labels], Labels] | None = None
    reweights: bool = False
    note_of_margin: str | None = None


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
        Columns of the outer model. None if it does not store them: if an `Inner` has `columns`, they are then those of
        X as the outer model sees it.
    note : str, or None
        A warning for readers of the scores.
    rewrap : callable, or None
        Returns an outer model around refitted inner models; None if that is not possible.
    named : bool
        False if the outer model saw no names and `feature_names` were made up.
    unseen : callable, optional
        For models that were each trained without one fold of the rows. Called with X and y as the outer model sees
        them. Returns for each inner model the positions of the rows that it was not trained on. Raises a
        ProvenanceError if X and y cannot be proven to be the training rows in training order. Each model is then scored
        on these rows, if the user passes the training rows.
    whole : Predictions or None
        How the outer model predicts. An audit tells how well it does, where this is not what the one model inside
        predicts: of several models, of a weight other than 1, and of calibrated probabilities.
    has_link : bool
        Whether the sum of the outputs is a margin, of which the outer model computes its predictions. It is on another
        scale than the outputs of the models inside, such as the shares of classes in forests.
    """

    kind: str
    inner: tuple[Inner, ...]
    feature_names: tuple[str, ...] | None = None
    note: str | None = None
    rewrap: Callable[[RefitInputs], Any] | None = None
    named: bool = True
    unseen: Callable[[Any, Any], Sequence[NDArray[np.int64]]] | None = None
    whole: Predictions | None = None
    has_link: bool = False


def together(parts: Sequence[Labels]) -> Labels:
    """Return the labels of columns that several models or transformers take."""
    labels: dict[int, list[Any] | None] = {}
    for part in parts:
        for k, more in part.items():
            before = labels.get(k, [])
            labels[k] = None if before is None or more is None else [*before, *more]
    return labels
