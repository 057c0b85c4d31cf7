"""The folds of a bag: which training rows each model has not seen, proven by the predictions that AutoGluon stored."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import ProvenanceError

if TYPE_CHECKING:
    from numpy.typing import NDArray

TOLERANCE = 1e-4
"""Predictions are stored as float32."""
_PASS = (
    "Pass all rows of the training data, unchanged and in training order, or rows the model has not seen, with "
    "rows='held-out'"
)


def unseen(bag: Any, X: Any, y: NDArray[Any]) -> list[NDArray[np.int64]]:
    """Return for each model of a bag the positions of the rows of its own fold, on which it was not trained.

    Parameters
    ----------
    bag : BaggedEnsembleModel
    X : DataFrame of shape (n_rows, n_features)
        The features that AutoGluon makes.
    y : array of shape (n_rows,)
        The response as AutoGluon encodes it.

    Raises
    ------
    ProvenanceError
        The stored predictions are not those of the models for these rows, or the stored validation score is not that
        of these predictions for this response.
    """
    import pandas as pd

    loaded = copy(bag)
    try:
        loaded._load_oof()
    except OSError as error:
        raise ProvenanceError(
            "AutoGluon did not keep its predictions of the training rows, so rows cannot be proven to be training "
            "rows. Pass rows the model has not seen, with rows='held-out'"
        ) from error
    stored, n_models = loaded._oof_pred_proba, loaded._oof_pred_model_repeats
    if len(stored) != len(X):
        raise ProvenanceError(f"AutoGluon trained this model on {len(stored)} rows, but X has {len(X)}. {_PASS}")
    labels = pd.Series(y)
    positions = _folds(bag, X, labels)
    predicted = np.zeros(stored.shape)
    for child, of_fold in zip(bag.models, positions, strict=True):
        predicted[of_fold] += bag.load_child(child).predict_proba(X.iloc[of_fold])
    agree = np.isclose(predicted, stored, rtol=TOLERANCE, atol=TOLERANCE * np.abs(stored).mean())
    if not agree.all():
        share = agree.reshape(len(X), -1).all(axis=1)[n_models > 0].mean()
        raise ProvenanceError(
            "these are not the training rows in training order: the models predict what AutoGluon stored for "
            f"{share:.0%} of them only. {_PASS}"
        )
    if bag.val_score is not None and not np.isclose(loaded.score_with_oof(labels), bag.val_score, rtol=TOLERANCE):
        raise ProvenanceError(
            "y is not the training response: with it, the predictions of the training rows do not have the validation "
            f"score that AutoGluon stored. {_PASS}"
        )
    return positions


def _folds(bag: Any, X: Any, labels: Any) -> list[NDArray[np.int64]]:
    positions, first = [], 0
    for splitter, n_folds in zip(bag._cv_splitters, bag._k_per_n_repeat, strict=True):
        of_repeat = splitter.split(X=X, y=labels)[first : first + n_folds]
        positions += [np.asarray(of_fold, dtype=np.int64) for _, of_fold in of_repeat]
        first += n_folds
    return positions
