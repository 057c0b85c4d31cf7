"""The description of a container with the models of a cross-validation: the answer of ``debias_cross_validated``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class CrossValidated:
    """The models of a cross-validation, and what the library keeps of its folds.

    Parameters
    ----------
    kind : str
        Kind of the container, for messages.
    models : sequence or mapping of object, or None
        The fitted models in the order of the folds; None if the library keeps none and `fit` trains them.
    cv : object
        The folds that the container keeps, in a form that ``cv=`` takes; None if it keeps none. If the user passes
        ``cv=``, it is not used.
    fit : callable, optional
        Called with X, y, the positions of the training rows of a fold, and the sample weights of all rows as the user
        passed them (None without weights). Returns the model of that fold, trained with these weights.
    unseen : callable, optional
        Called with X and y. Returns for each model the positions of the rows that it was not trained on. It must prove
        this, and raise a ProvenanceError if it cannot. Then neither `cv` nor ``cv=`` is used.
    proof : str, or None
        How `unseen` proves it, for readers of the provenance.
    is_classifier : bool, or None
        Whether the models predict classes; None to ask the first of `models`.
    note : str, or None
        A warning for readers of the scores.
    tuned_on_test : str, or None
        What was chosen by the predictions for the rows that each model had not seen, such as the number of trees: a
        clause for messages. Scores on these rows are then too high on average.
    """

    kind: str
    models: Sequence[Any] | Mapping[str, Any] | None = None
    cv: Any = None
    fit: Callable[[Any, Any, NDArray[np.int64], Any], Any] | None = None
    unseen: Callable[[Any, Any], Sequence[NDArray[np.int64]]] | None = None
    proof: str | None = None
    is_classifier: bool | None = None
    note: str | None = None
    tuned_on_test: str | None = None
