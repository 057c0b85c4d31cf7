"""How the mean losses of two models on the same rows differ, divided into the base and each feature, with errors.

Both losses of a row are known, so the differences of rows are what is averaged: what both models find difficult about a
row cancels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from debias.p_values import holm_of_known, p_of_mean_below
from debias.results.loss_change import PartOfLoss
from debias.results.model_comparison import LEAST_UNITS, ONLY_BASELINE, ONLY_MODEL
from debias.significance.contributions import POWERS, effective_number
from debias.significance.loss_change import ROUNDING, variance_of_mean

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RowLosses:
    """The parts of the losses of one model.

    Parameters
    ----------
    feature_names : tuple of str
        Columns, or groups of columns, that the model takes.
    loss, base : array of shape (n_rows,)
    saved : array of shape (n_rows, n_features)
    used : array of bool of shape (n_features,)
        Whether the model has a split on the feature.
    """

    feature_names: tuple[str, ...]
    loss: Array
    base: Array
    saved: Array
    used: NDArray[np.bool_]

    def of(self, names: tuple[str, ...]) -> tuple[Array, NDArray[np.bool_], NDArray[np.bool_]]:
        """Return what features of these names save, whether the model uses them, and whether it has them."""
        at = {name: k for k, name in enumerate(self.feature_names)}
        saved, used = np.zeros((len(self.loss), len(names))), np.zeros(len(names), dtype=bool)
        for k, name in enumerate(names):
            if name in at:
                saved[:, k], used[k] = self.saved[:, at[name]], self.used[at[name]]
        return saved, used, np.array([name in at for name in names], dtype=bool)


@dataclass(frozen=True, eq=False)
class ModelLosses:
    """The difference of the mean losses of two models: ``loss.change = base.change + cost.sum()``.

    Parameters
    ----------
    feature_names : tuple of str
        Features of either model: those of the new one first.
    loss, base : PartOfLoss
        Of the baseline (before) and of the new model (after).
    only_in : tuple of str
        For each feature "model" or "baseline" if only one of them has it, and else "".
    statistics : dict of str to array of shape (n_features,)
        As ``ModelComparison.statistics``.
    n_units : int
        Number of rows, or of blocks of rows, that are independent.
    """

    feature_names: tuple[str, ...]
    loss: PartOfLoss
    base: PartOfLoss
    only_in: tuple[str, ...]
    statistics: dict[str, Array]
    n_units: int


def compare_models(
    baseline: RowLosses, newer: RowLosses, weight: Array, blocks: NDArray[np.int64] | None
) -> ModelLosses:
    """Compare the mean losses of two models on the same rows, and their parts.

    Parameters
    ----------
    baseline, newer : RowLosses
    weight : array of shape (n_rows,)
        Above 0.
    blocks : array of int64 of shape (n_rows,), or None
        Block of each row. Rows of one block depend on one another.

    Returns
    -------
    ModelLosses
        Errors and p-values are NaN with fewer than 10 rows, or blocks. P-values are two-sided, by Student's t,
        corrected for skewness where this makes them larger.
    """
    names = tuple(dict.fromkeys((*newer.feature_names, *baseline.feature_names)))
    (old, old_used, in_baseline), (new, new_used, in_model) = baseline.of(names), newer.of(names)
    share = weight / weight.sum()
    difference = np.column_stack([newer.loss - baseline.loss, newer.base - baseline.base, old - new])
    mean = share @ difference
    error, of_weights, n_units = errors_of_mean(difference, weight, blocks)
    of_large, skewness = _tails_of_mean(difference, weight, blocks)
    freedom = np.minimum(of_weights, of_large)
    scale = share @ np.abs(np.column_stack([baseline.loss, newer.loss]))
    error = np.where(error <= ROUNDING * scale.max(), np.nan, error)  # equal up to rounding in all rows
    cost, cost_error = mean[2:], error[2:]
    with np.errstate(invalid="ignore", divide="ignore"):
        t = cost / cost_error
    p_value = np.fmin(*(p_of_mean_below(side * t, freedom[2:], side * skewness[2:]) for side in (1, -1)))
    p_value = np.where(old_used | new_used, np.minimum(2 * p_value, 1.0), np.nan)
    adjusted = holm_of_known(p_value)
    statistics = {
        "saved_baseline": share @ old,
        "saved_model": share @ new,
        "cost": cost,
        "error": cost_error,
        "p_value": p_value,
        "p_adjusted": adjusted,
    }
    loss, base = (
        PartOfLoss(
            float(share @ before), float(share @ after), float(error[k]), float(freedom[k]), skewness=float(skewness[k])
        )
        for k, (before, after) in enumerate(((baseline.loss, newer.loss), (baseline.base, newer.base)))
    )
    only_in = np.where(in_model & in_baseline, "", np.where(in_model, ONLY_MODEL, ONLY_BASELINE))
    return ModelLosses(names, loss, base, tuple(only_in.tolist()), statistics, n_units)


def errors_of_mean(values: Array, weight: Array, blocks: NDArray[np.int64] | None) -> tuple[Array, float, int]:
    """Return standard errors of weighted means of rows, their degrees of freedom, and the number of units.

    Parameters
    ----------
    values : array of shape (n_rows, n_values)
    weight : array of shape (n_rows,)
    blocks : array of int64 of shape (n_rows,), or None
        Block of each row. Blocks are the units then, and rows otherwise.

    Returns
    -------
    (array of shape (n_values,), float, int)
        Errors are NaN with fewer than 10 units.
    """
    values, weight = _units(values, weight, blocks)
    if weight.size < LEAST_UNITS:
        return np.full(values.shape[1], np.nan), 1.0, weight.size
    variance, freedom = variance_of_mean(values, weight)
    return np.sqrt(variance), freedom, weight.size


def _units(values: Array, weight: Array, blocks: NDArray[np.int64] | None) -> tuple[Array, Array]:
    """Return the means and the weights of what is independent: of blocks, or of rows."""
    if blocks is None:
        return values, weight
    at = np.unique(blocks, return_inverse=True)[1]
    total = np.bincount(at, weight).astype(np.float64)
    sums = np.zeros((total.size, values.shape[1]))
    np.add.at(sums, at, weight[:, None] * values)
    return sums / total[:, None], total


def _tails_of_mean(values: Array, weight: Array, blocks: NDArray[np.int64] | None) -> tuple[Array, Array]:
    """Return the effective number of units minus 1, and the skewness of the means, each of shape (n_values,).

    Where few units have large values, as the rows of a rare class, a mean is known no better than from these few.
    """
    values, weight = _units(values, weight, blocks)
    share = weight / weight.sum()
    deviation = share[:, None] * (values - share @ values)
    scaled = deviation / np.maximum(np.abs(deviation).max(axis=0), np.finfo(float).tiny)
    powers = np.array([(scaled**power).sum(axis=0) for power in range(1, POWERS + 1)])
    of_sum = powers[1] ** 1.5
    skewness = np.divide(powers[2], of_sum, out=np.zeros_like(of_sum), where=of_sum > 0)
    return np.maximum(effective_number(powers, weight.size) - 1, 1.0), skewness
