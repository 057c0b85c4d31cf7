"""The losses of the models of a cross-validation, divided into the base and each feature, with errors.

Two errors are of different things. That of a fold is over its rows, and takes its model as it is. That of the mean over
folds allows for the training rows that folds share (:mod:`debias.significance.fold_evidence`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from debias.results.folds_loss import FoldsLoss
from debias.significance.fold_evidence import standard_error
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
    train, test, n_rows
        As for :func:`debias.significance.fold_evidence.standard_error`.
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
    of_mean = standard_error(np.array(means), train, test, n_rows)
    return FoldsLoss(
        metric=first.metric,
        fold_names=tuple(folds),
        feature_names=first.losses.feature_names,
        means=np.array(means),
        errors=np.array(errors),
        freedom=np.array(freedom, dtype=np.float64),
        n_units=np.array(n_units, dtype=np.int64),
        in_blocks=first.blocks is not None,
        error_of_mean=np.full(means[0].size, np.nan) if of_mean is None else of_mean,
        alpha=alpha,
    )
