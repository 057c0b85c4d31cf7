"""Functions of single columns that the trees of a model determine, so that they are the same for all rows, at any time.

Sums of their products over rows of several periods, or machines, add up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.rows.dependent_columns import categorical_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.trees.ensemble import TreeEnsemble

    Array = NDArray[np.float64]
    Function = Callable[[Array], Array]

MOST_FUNCTIONS = 80
"""Of all columns together, as far as each has"""
FEWEST_OF_COLUMN, MOST_OF_COLUMN = 4, 12
"""at least, and at most, so many."""
HATS = 0.6
"""This part of the functions of a column are hats, the others steps."""


def threshold_functions(ensemble: TreeEnsemble, X: NDArray[np.floating[Any]]) -> Array:
    """Return functions of the columns that the trees split on, shape (n_rows, n_functions).

    A column of numbers has hat functions with knots at quantiles of its thresholds, which together follow any line
    between the knots and are constant beyond the first and the last, and steps at thresholds. A column of categories
    has an indicator of those that most splits list. Each column has an indicator of missing values.

    Parameters
    ----------
    ensemble : TreeEnsemble
    X : array of shape (n_rows, n_features)
        The float matrix on which the library routes.
    """
    return np.column_stack(
        [np.empty((len(X), 0)), *(of_column(np.asarray(X[:, j], np.float64)) for j, of_column in _functions(ensemble))]
    )


def _functions(ensemble: TreeEnsemble) -> list[tuple[int, Function]]:
    """Return the columns that the trees split on, and what maps each to its functions."""
    splits = ensemble.splits
    used, categorical = np.unique(ensemble.feature[splits]), categorical_columns(ensemble)
    most = int(np.clip(MOST_FUNCTIONS // max(1, used.size), FEWEST_OF_COLUMN, MOST_OF_COLUMN))
    functions: list[tuple[int, Function]] = []
    for j in used.tolist():
        of_column = splits[ensemble.feature[splits] == j]
        if categorical[j]:
            functions.append((j, _of_categories(_listed(ensemble, of_column), most)))
        else:
            functions.append((j, _of_numbers(ensemble.threshold[of_column], most)))
    return functions


def _listed(ensemble: TreeEnsemble, splits: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the codes that splits on categories list, each as often as it is listed."""
    assert ensemble.category_set is not None
    assert ensemble.category_start is not None
    assert ensemble.category_codes is not None
    sets = ensemble.category_set[splits]
    start, codes = ensemble.category_start, ensemble.category_codes
    return np.concatenate([codes[:0], *(codes[start[k] : start[k + 1]] for k in sets[sets >= 0].tolist())])


def _of_categories(listed: NDArray[np.int32], most: int) -> Function:
    codes, count = np.unique(listed, return_counts=True)
    chosen = codes[np.argsort(-count, kind="stable")[:most]]

    def functions(x: Array) -> Array:
        return np.column_stack([np.isnan(x), *(x == code for code in chosen)]).astype(np.float64)

    return functions


def _of_numbers(thresholds: NDArray[np.floating[Any]], most: int) -> Function:
    cuts = np.sort(thresholds[np.isfinite(thresholds)].astype(np.float64))
    distinct = np.unique(cuts)
    n_steps = most - round(HATS * most)
    # Thresholds as they are, and not means of two: a step between two of them is none that the trees can take.
    edges = distinct if distinct.size <= most else _quantiles(cuts, (np.arange(n_steps) + 0.5) / n_steps)
    knots = _quantiles(cuts, np.linspace(0, 1, most - n_steps + 1)) if distinct.size > 1 else cuts[:0]

    def functions(x: Array) -> Array:
        missing = np.isnan(x)
        known = np.where(missing, -np.inf, x)
        parts = [missing, *(known > edge for edge in edges)]
        if knots.size:
            # The first hat is 1 less the others.
            parts += [np.interp(known, knots, hat) for hat in np.eye(knots.size)[1:]]
        return np.column_stack(parts).astype(np.float64)

    return functions


def _quantiles(sorted_values: Array, at: Array) -> Array:
    """Return the distinct ones of these quantiles; each is one of the values."""
    if not sorted_values.size:
        return sorted_values
    return np.unique(sorted_values[np.round(at * (sorted_values.size - 1)).astype(np.int64)])
