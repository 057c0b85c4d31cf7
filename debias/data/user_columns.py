"""Columns of the user's X, in any container, as the user sees their values."""

from __future__ import annotations

from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def copied(X: Any) -> Any:
    """Return a copy of an array, a matrix, a frame or a list, for code that may change it.

    Parameters
    ----------
    X : object

    Returns
    -------
    object
        A copy by the object's own method; the object itself if it has none, for example an Arrow table, which cannot be
        changed.

    Examples
    --------
    >>> rows = [1, 2]
    >>> copied(rows) is rows
    False
    """
    return X.copy() if hasattr(X, "copy") else X


def column_values(X: Any, position: int) -> NDArray[Any]:
    """Return one column of an array, a sparse matrix or a data frame.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n_rows, n_features)
    position : int

    Returns
    -------
    array of shape (n_rows,)
        float64 with NaN where missing, if all other values are numbers, and the column is not one of categories; else
        objects, with None where missing.

    Raises
    ------
    IndexError
        There is no such column.

    Examples
    --------
    >>> import numpy as np
    >>> column_values(np.array([["Bonn", 3], [None, 4]], dtype=object), 0)
    array(['Bonn', None], dtype=object)
    """
    import narwhals.stable.v2 as nw

    frame, is_category = nw.from_native(X, pass_through=True), False
    if isinstance(frame, nw.DataFrame):
        column = frame.get_column(frame.columns[position])
        values = np.empty(len(frame), dtype=object)
        values[:] = column.to_list()
        is_category = column.dtype in (nw.Categorical, nw.Enum)
    elif hasattr(X, "tocsr"):
        values = X.tocsr()[:, [position]].toarray().ravel().astype(object)
    else:
        values = np.asarray(X)[:, position].astype(object)
    missing = is_missing(values)
    if not is_category and all(isinstance(value, (Number, np.bool_)) for value in values[~missing]):
        values[missing] = np.nan
        return values.astype(np.float64)
    values[missing] = None
    return values


def chosen_columns(X: Any, positions: NDArray[np.int64]) -> Any:
    """Return some columns of X, in the same container.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n_rows, n_features)
    positions : array of int64 of shape (n_chosen,)

    Examples
    --------
    >>> import numpy as np
    >>> chosen_columns(np.array([[1, 2, 3]]), np.array([2, 0]))
    array([[3, 1]])
    """
    import narwhals.stable.v2 as nw

    frame = nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return frame[:, positions.tolist()].to_native()
    if hasattr(X, "tocsr"):
        return X.tocsr()[:, positions].asformat(X.format)
    return np.take(np.asarray(X), positions, axis=1)


def with_column_from(X: Any, position: int, rows: NDArray[np.int64], source: NDArray[np.int64]) -> Any:
    """Return rows of X in which one column comes from other rows, in the same container.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n_rows, n_features)
    position : int
        The column that is taken from other rows.
    rows, source : array of int64 of shape (n_new_rows,)
        The row of X that each new row is, and the row that its column `position` is taken from.

    Returns
    -------
    array, sparse matrix or data frame of shape (n_new_rows, n_features)
        Types of columns are kept. The rows of a pandas frame are numbered anew.
    """
    import narwhals.stable.v2 as nw

    frame = nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        name = frame.columns[position]
        new, column = (nw.maybe_reset_index(frame[at.tolist()]) for at in (rows, source))
        return new.with_columns(column.get_column(name)).to_native()
    if hasattr(X, "tocsr"):
        from scipy.sparse import hstack

        new, column = X.tocsr()[rows], X.tocsr()[source]
        parts = [new[:, :position], column[:, [position]], new[:, position + 1 :]]
        return hstack(parts).asformat(X.format)
    array = np.asarray(X)
    new = array[rows]
    new[:, position] = array[source, position]
    return new


def is_missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which values of a column are missing: None, NaN, NA or NaT."""
    import pandas as pd

    return np.asarray(pd.isna(values), dtype=bool)
