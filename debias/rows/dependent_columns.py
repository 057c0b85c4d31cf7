"""Which columns depend on one another, by the correlations of several forms of each column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from blake3 import blake3

from debias.positions import evenly_spaced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from debias.rows.rows import Rows
    from debias.trees.ensemble import TreeEnsemble

ROWS_TO_COMPARE = 20_000
"""At most this many rows, evenly spaced, tell which columns depend on one another."""
MOST_CATEGORIES = 16
"""Of a column of categories, this many frequent ones are compared."""
COLUMNS_AT_ONCE = 2048
"""Correlations of this many columns with all others are held in memory."""
ROUNDING = 1e-9
"""Correlations of ranks may equal `least` exactly. The order of the rows must not decide whether they do."""
SMALL_PRODUCT, WITHOUT_THREADS = 2**25, 2**18
"""OpenBLAS divides matrix products of more than 2**18 multiplications among threads. Below 2**25, to wake the threads
takes longer than to multiply."""


def used_columns(
    ensemble: TreeEnsemble, X: NDArray[np.floating[Any]], least_correlation: float
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the columns that have splits, and which pairs of them depend on one another.

    Parameters
    ----------
    ensemble : TreeEnsemble
        Its splits say which columns are categories.
    X : array of shape (n_rows, n_features)
        Missing values are NaN. At most `ROWS_TO_COMPARE` rows are compared.
    least_correlation : float
        As `least` of :func:`dependent`.

    Returns
    -------
    columns : array of int64 of shape (n_used,)
    pairs : array of bool of shape (n_used, n_used)
        Symmetric, and True on the diagonal.
    """
    columns = np.unique(ensemble.feature[ensemble.splits]).astype(np.int64)
    compared = X[evenly_spaced(len(X), min(len(X), ROWS_TO_COMPARE))]
    return columns, dependent(compared[:, columns], categorical_columns(ensemble)[columns], least_correlation)


def dependent_features(
    rows: Rows, group: NDArray[np.int64], used: NDArray[np.int64], least_correlation: float
) -> dict[int, NDArray[np.bool_]]:
    """Return, for each used group of features, its columns and those that depend on one of them.

    Columns without splits are not compared: leaving them out does not change the model.

    Parameters
    ----------
    rows : Rows
    group : array of int64 of shape (n_features,)
        Group of each feature.
    used : array of int64 of shape (n_used,)
        The groups of interest.
    least_correlation : float
        As `least` of :func:`dependent`.

    Returns
    -------
    dict of int to array of bool of shape (n_features,)
        A mask of the columns for each used group.
    """
    columns, pairs = rows.used_columns(least_correlation)
    masks = {}
    for g in used.tolist():
        masks[g] = group == g
        masks[g][columns] |= pairs[group[columns] == g].any(axis=0)
    return masks


def dependent_features_of_members(
    members: Sequence[tuple[Rows, NDArray[np.int64]]], used: NDArray[np.int64], least_correlation: float
) -> list[dict[int, NDArray[np.bool_]]]:
    """Return the same masks for each of several models of trees, which may see other columns of the same rows.

    A column of one model depends on a group if it depends on a column of the group in any of the models.

    Parameters
    ----------
    members : sequence of (Rows, array of int64 of shape (n_features,))
        The rows as each model sees them, and the group of each of its columns.
    used, least_correlation
        As for :func:`dependent_features`.

    Returns
    -------
    list of dict of int to array of bool of shape (n_features,)
        For each model a mask of its columns for each used group.
    """
    if len(members) == 1:
        ((rows, group),) = members
        return [dependent_features(rows, group, used, least_correlation)]
    compared: list[NDArray[np.float64]] = []
    categorical: list[bool] = []
    place_of: dict[tuple[bytes, bool], int] = {}  # most models see the same columns, so each is compared once
    seen: list[_Seen] = []
    for rows, group in members:
        ensemble = rows.ensemble
        columns = np.unique(ensemble.feature[ensemble.splits]).astype(np.int64)
        X, is_category = rows.table.matrix(ensemble), categorical_columns(ensemble)
        X, places = X[evenly_spaced(len(X), min(len(X), ROWS_TO_COMPARE))], []
        for k in columns.tolist():
            column, of_categories = np.ascontiguousarray(X[:, k], dtype=np.float64), bool(is_category[k])
            place = place_of.setdefault((blake3(column.tobytes()).digest(), of_categories), len(compared))
            if place == len(compared):
                compared.append(column)
                categorical.append(of_categories)
            places.append(place)
        seen.append(_Seen(group, columns, np.array(places, dtype=np.int64)))
    pairs = dependent(np.column_stack(compared), np.array(categorical), least_correlation) if compared else None
    masks: list[dict[int, NDArray[np.bool_]]] = [{} for _ in members]
    for g in used.tolist():
        assert pairs is not None
        depends = pairs[np.concatenate([each.places[each.group[each.columns] == g] for each in seen])].any(axis=0)
        for mask, each in zip(masks, seen, strict=True):
            mask[g] = each.group == g
            mask[g][each.columns] |= depends[each.places]
    return masks


class _Seen(NamedTuple):
    """The group of each column of a model, its columns with splits, and their places among all that are compared."""

    group: NDArray[np.int64]
    columns: NDArray[np.int64]
    places: NDArray[np.int64]


def categorical_columns(ensemble: TreeEnsemble) -> NDArray[np.bool_]:
    """Return which columns the splits treat as codes without an order, shape (n_features,)."""
    categorical = np.zeros(ensemble.n_features, dtype=bool)
    if ensemble.category_set is not None:
        categorical[np.unique(ensemble.feature[ensemble.category_set >= 0])] = True
    return categorical


def dependent(X: NDArray[np.floating[Any]], categorical: NDArray[np.bool_], least: float) -> NDArray[np.bool_]:
    """Return which pairs of columns have an absolute correlation of at least `least` in one of several forms.

    A column of numbers has two forms: its ranks, and the distance of its ranks from their middle, which shows
    dependence that is not monotone. A column of categories has a form for each frequent category. A column with missing
    values has one more form, which says where they are. Missing values have the mean of a form.

    Parameters
    ----------
    X : array of shape (n_rows, n_columns)
        Missing values are NaN.
    categorical : array of bool of shape (n_columns,)
        Whether the values of a column are codes without an order.
    least : float

    Returns
    -------
    array of bool of shape (n_columns, n_columns)
        Symmetric, and True on the diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> from debias.rows.dependent_columns import dependent
    >>> x = np.linspace(-1, 1, 50)
    >>> other = np.tile([1.0, -1.0], 25)
    >>> dependent(np.column_stack([x, x**2, other]), np.zeros(3, dtype=bool), 0.2).astype(int)
    array([[1, 1, 0],
           [1, 1, 0],
           [0, 0, 1]])
    """
    n_columns = X.shape[1]
    forms = [_forms(X[:, k], bool(categorical[k])) for k in range(n_columns)]
    owner = np.repeat(np.arange(n_columns), [part.shape[1] for part in forms])
    form = np.concatenate([np.empty((len(X), 0)), *forms], axis=1)
    found = np.eye(n_columns, dtype=bool)
    for begin in range(0, owner.size, COLUMNS_AT_ONCE):
        some = slice(begin, begin + COLUMNS_AT_ONCE)
        one, other = np.nonzero(np.abs(_products(form[:, some], form)) >= least - ROUNDING)
        found[owner[some][one], owner[other]] = True
    return found | found.T


def _products(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the products of columns, summed over the rows; small ones in this thread only."""
    a_row = one.shape[1] * other.shape[1]
    at_once = WITHOUT_THREADS // max(a_row, 1)
    if not at_once or len(one) * a_row > SMALL_PRODUCT:
        return one.T @ other
    total = np.zeros((one.shape[1], other.shape[1]))
    for begin in range(0, len(one), at_once):
        part = slice(begin, begin + at_once)
        total += one[part].T @ other[part]
    return total


def _forms(column: NDArray[np.floating[Any]], categorical: bool) -> NDArray[np.float64]:
    """Return the forms of a column that vary, shape (n_rows, n_forms), each with mean 0 and norm 1."""
    from scipy.stats import rankdata

    missing = np.isnan(column)
    known = np.asarray(column, dtype=np.float64)[~missing]
    if categorical:
        values, count = np.unique(known, return_counts=True)
        frequent = np.sort(values[np.argsort(-count, kind="stable")[:MOST_CATEGORIES]])
        shown = (known[:, None] == frequent).astype(np.float64)
    else:
        rank = rankdata(known)
        shown = np.column_stack([rank, np.abs(rank - (known.size + 1) / 2)])
    forms = np.zeros((column.size, shown.shape[1] + 1))
    if known.size:
        forms[~missing, :-1] = shown - shown.mean(axis=0)
    forms[:, -1] = missing - missing.mean()
    norm = np.sqrt((forms**2).sum(axis=0))
    varies = norm > 1e-9 * column.size
    return forms[:, varies] / norm[varies]
