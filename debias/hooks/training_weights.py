"""The training weights of rows and classes that an adapter reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray


class TrainingWeights(NamedTuple):
    """What a model shows of the weights it was trained with: the answer of ``debias_training_weights``.

    Parameters
    ----------
    rows : array of shape (n_train,), or None
        Weights of the training rows, if the model keeps them.
    classes : bool
        True if the settings of the model weigh classes. Weights in its nodes then differ from numbers of rows, also
        where rows had no weights of their own.
    multiplied : bool
        True if the weights of classes are factors of the weights of rows, both of those the model keeps and of those
        its nodes were grown with.
    """

    rows: NDArray[Any] | None = None
    classes: bool = False
    multiplied: bool = False
