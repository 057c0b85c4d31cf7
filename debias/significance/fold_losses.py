"""The losses of the models of a cross-validation, divided into the base and each feature, with errors.

Two errors are of different things. That of a fold is over its rows, and takes its model as it is. That of the mean over
folds is from the differences between folds, with the correction of Nadeau and Bengio (2003) for the training rows that
folds share: S sqrt(1 / K + n_test / n_train). A loss, and what a feature saves of it, hardly depend on single training
rows, because training makes it smallest: their derivative is 0 there. So this is rather too large, and the factor of
scores (:func:`debias.significance.fold_evidence.standard_error`) would be far too large.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from debias.results.folds_loss import FoldsLoss
from debias.significance.fold_evidence import FEWEST_FOLDS
from debias.significance.loss_change import ROUNDING
from debias.significance.model_losses import RowLosses, errors_of_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LossOfFold:
    """The losses of the rows that were held out from one model.

    Parameters
    ----------
    metric : str
    losses : RowLosses
    weight : array of shape (n_rows,)
        Above 0.
    blocks : array of int64 of shape (n_rows,), or None
        Block of each row. Rows of one block depend on one another.
    """

    metric: str
    losses: RowLosses
    weight: Array
    blocks: NDArray[np.int64] | None


def losses_of_folds(
    folds: Mapping[str, LossOfFold],
    train: Sequence[NDArray[np.int64] | None],
    test: Sequence[NDArray[np.int64]],
    n_rows: int,
    alpha: float,
) -> FoldsLoss:
    """Return the mean losses of folds, and their parts.

    Parameters
    ----------
    folds : mapping of str to LossOfFold
        By the name of the fold. All have one metric and the same features.
    train : sequence of (array of int64, or None)
        Positions of the training rows of each fold. If they are not known (None), all rows that are not test rows.
    test : sequence of array of int64
        Positions of the test rows of each fold.
    n_rows : int
        Number of rows of the cross-validation.
    alpha : float
        Error rate of what is said of single folds.

    Returns
    -------
    FoldsLoss
    """
    first = next(iter(folds.values()))
    means, errors, freedom, n_units = [], [], [], []
    for fold in folds.values():
        values = np.column_stack([fold.losses.loss, fold.losses.base, fold.losses.saved])
        share = fold.weight / fold.weight.sum()
        error, own_freedom, number = errors_of_mean(values, fold.weight, fold.blocks)
        error[error <= ROUNDING * (share @ np.abs(fold.losses.loss))] = np.nan  # the same in all rows
        means.append(share @ values)
        errors.append(error)
        freedom.append(own_freedom)
        n_units.append(number)
    return FoldsLoss(
        metric=first.metric,
        fold_names=tuple(folds),
        feature_names=first.losses.feature_names,
        means=np.array(means),
        errors=np.array(errors),
        freedom=np.array(freedom, dtype=np.float64),
        n_units=np.array(n_units, dtype=np.int64),
        in_blocks=first.blocks is not None,
        error_of_mean=_error_of_mean(np.array(means), train, test, n_rows),
        alpha=alpha,
    )


def _error_of_mean(
    values: Array, train: Sequence[NDArray[np.int64] | None], test: Sequence[NDArray[np.int64]], n_rows: int
) -> Array:
    """Return standard errors of means over folds; NaN with fewer than 3 folds."""
    if len(values) < FEWEST_FOLDS:
        return np.full(values.shape[1], np.nan)
    sizes = [
        (np.unique(own).size, n_rows - np.unique(own).size if of is None else np.unique(of).size)
        for own, of in zip(test, train, strict=True)
    ]
    share = np.mean([n_test / n_train for n_test, n_train in sizes])
    error: Array = np.sqrt(1 / len(values) + share) * values.std(axis=0, ddof=1)
    return error
