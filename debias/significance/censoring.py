"""The warning that censoring depends on a feature, so that its verdict may come from who was followed for how long.

The response of models of censored times is the martingale residual with the hazard of all rows. Where trees have split
the rows by another feature, the hazard of a node is another one, and the rest grows with the follow-up. So a feature
that only decides who is censored is informative with enough rows (docs/survival.md).

Censoring is examined as events are, with events and censoring exchanged: the residual of censoring has mean 0 for every
value of a feature on which censoring does not depend, whether times of events depend on it or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.significance.subjects_and_places import ranks
from debias.text import counted, escaped
from debias.trees.survival_objectives import cumulative_hazard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from debias.warning_log import WarningLog

    Array = NDArray[np.float64]

LEVEL = 0.01
"""Probability of naming any feature if censoring depends on none."""


def warn_of_censoring(names: Sequence[str], log: WarningLog) -> None:
    """Warn that censoring depends on features that were found.

    Parameters
    ----------
    names : sequence of str
        The features, those on which it depends most clearly first.
    log : WarningLog
    """
    others = f" and {counted(len(names) - 1, 'more feature')} that this audit found" if len(names) > 1 else ""
    log.warn(
        f"censoring depends on {escaped(names[0])}{others}: how long rows are followed differs with the values. A "
        "feature that decides only this, and not the times of events, is called informative or related too, and the "
        "more often the more rows there are. This audit cannot tell the two apart. A Cox regression on all features "
        "compares rows at risk at the same time, and can, if hazards are about proportional"
    )


def features_of_censoring(
    X: NDArray[np.floating[Any]], feature: NDArray[np.int64], time: Array, event: NDArray[np.bool_], weight: Array
) -> NDArray[np.int64]:
    """Return the features on which censoring depends, the most clearly first.

    Ranks of each column, and their distances from the middle, are correlated with the residual of censoring; the
    standard error allows for residuals whose variance differs with the feature. P-values are normal, and multiplied by
    the number of correlations.

    Parameters
    ----------
    X : array of shape (n_rows, n_columns)
    feature : array of int64 of shape (n_columns,)
        Feature of each column.
    time : array of shape (n_rows,)
    event : array of bool of shape (n_rows,)
        False for rows that were censored at their time.
    weight : array of shape (n_rows,)

    Returns
    -------
    array of int64
    """
    from scipy.stats import norm

    z = dependence_of_censoring(X, time, event, weight)
    largest = np.zeros(int(feature.max()) + 1)
    np.maximum.at(largest, feature, z.max(axis=0))
    least = norm.isf(LEVEL / 2 / z.size)
    order = np.argsort(-largest, kind="stable")
    found: NDArray[np.int64] = order[largest[order] > least]
    return found


def dependence_of_censoring(
    X: NDArray[np.floating[Any]], time: Array, event: NDArray[np.bool_], weight: Array
) -> Array:
    """Return how much the residual of censoring depends on each column, in standard errors, shape (2, n_columns).

    The first row is of ranks, the second of their distances from the middle.

    Parameters
    ----------
    X, time, event, weight
        As for :func:`features_of_censoring`.
    """
    left = ~event - cumulative_hazard(time, ~event, weight, weight)
    ranked = ranks(X.astype(np.float64))
    folded = np.abs(ranked)
    forms = np.stack([ranked, folded - np.average(folded, axis=0, weights=weight)])
    products = forms * (weight * left)[:, None]
    error = np.sqrt((products**2).sum(axis=1))
    z: Array = np.divide(np.abs(products.sum(axis=1)), error, out=np.zeros_like(error), where=error > 0)
    return z
