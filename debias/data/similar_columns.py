"""Columns that are nearly the same, by the rank correlation: a monotone function of a column gives the same splits."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from debias.results.performance import NearDuplicates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

NEARLY_THE_SAME = 0.95
"""Two columns are nearly the same if their absolute rank correlation is at least this,"""
LEAST_ROWS = 10
"""over at least this many rows,"""
MOST_ROWS = 2_000
"""and at most this many, spread evenly: the standard error of a rank correlation of 0.95 is then 0.002."""


def near_duplicates(
    X: NDArray[np.floating], names: Sequence[str], of_categories: NDArray[np.bool_]
) -> tuple[NearDuplicates, ...]:
    """Return the sets of columns that are nearly the same.

    Parameters
    ----------
    X : array of shape (n_rows, n_columns)
        The columns with the largest scores first, missing values as NaN.
    names : sequence of str of length n_columns
    of_categories : array of bool of shape (n_columns,)
        Which columns hold codes of categories. The codes have no order, so two such columns are the same if their
        categories correspond one to one.

    Returns
    -------
    tuple of NearDuplicates
        Every two columns of a set are nearly the same. A column is in at most one set: each set begins with the first
        column that is in none, and takes the others in their order. Two columns are compared only if they are missing
        in the same rows, and if in each at least ``LEAST_ROWS`` rows differ from its most frequent value.

    Examples
    --------
    >>> x = np.arange(20.0)
    >>> X = np.column_stack([x, x % 7, x**2])
    >>> [each.features for each in near_duplicates(X, ["x", "rest", "square"], np.zeros(3, dtype=bool))]
    [('x', 'square')]
    """
    related = rank_correlations(X, of_categories)
    near, free = related >= NEARLY_THE_SAME, np.ones(len(names), dtype=bool)
    sets = list[NearDuplicates]()
    for first in range(len(names)):
        if not free[first]:
            continue
        chosen = [first]
        for k in np.flatnonzero(near[first] & free):
            if k > first and near[k, chosen].all():
                chosen.append(int(k))
        free[chosen] = False
        if len(chosen) > 1:
            least = related[np.ix_(chosen, chosen)][~np.eye(len(chosen), dtype=bool)].min()
            sets.append(NearDuplicates(tuple(names[k] for k in chosen), float(least)))
    return tuple(sets)


def rank_correlations(X: NDArray[np.floating], of_categories: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the absolute rank correlation of every two columns, 0 for columns that are not compared.

    The parameters are those of :func:`near_duplicates`.
    """
    related = np.zeros((X.shape[1], X.shape[1]))
    if len(X) < LEAST_ROWS:
        return related
    numeric = defaultdict[bytes, list[int]](list)
    same_categories = defaultdict[bytes, list[int]](list)
    for k, column in enumerate(X.T):
        if _unlike_most(column) < LEAST_ROWS:  # the few rows of a rare value may agree by chance
            continue
        if of_categories[k]:
            same_categories[_by_first_row(column).tobytes()].append(k)
        else:
            numeric[np.isnan(column).tobytes()].append(k)
    for columns in same_categories.values():
        related[np.ix_(columns, columns)] = 1.0
    for columns in numeric.values():
        present = X[~np.isnan(X[:, columns[0]])][:, columns]
        if len(present) >= LEAST_ROWS:
            ranks = np.column_stack([_ranks(column) for column in present.T])
            related[np.ix_(columns, columns)] = _correlations(ranks)
    return related


def _unlike_most(column: NDArray[np.floating]) -> int:
    """Return the number of rows that are not missing and differ from the most frequent value."""
    _, count = np.unique(column[~np.isnan(column)], return_counts=True)
    return int(count.sum() - count.max(initial=0))


def _by_first_row(column: NDArray[np.floating]) -> NDArray[np.int64]:
    """Return the number of each row's category, in the order in which the categories first occur."""
    _, first, code = np.unique(column, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[code.ravel()]


def _ranks(column: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the rank of each row; equal values share their mean rank."""
    _, code, count = np.unique(column, return_inverse=True, return_counts=True)
    mean_rank: NDArray[np.float64] = np.cumsum(count) - (count - 1) / 2
    return mean_rank[code.ravel()]


def _correlations(ranks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the absolute correlation of every two columns, 0 with a constant column."""
    centred = ranks - ranks.mean(axis=0)
    length = np.sqrt((centred**2).sum(axis=0))
    unit = centred / np.where(length > 0, length, 1.0)
    return np.minimum(np.abs(unit.T @ unit), 1.0)
