"""Choice of rows by position, with repetitions, and weights of rows: what a meta-method can do to the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.table import Table
from debias.errors import RowsError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def row_positions(indices: Any, n_rows: int) -> NDArray[np.int64]:
    """Return the positions of rows as an array; raise a RowsError if they are not positions of rows.

    Parameters
    ----------
    indices : array-like of int of shape (n_chosen,)
    n_rows : int
    """
    positions = np.asarray(indices)
    if positions.dtype.kind not in "iu" or positions.ndim != 1 or positions.size == 0:
        of_bool = ": np.flatnonzero(mask) makes them from a mask" if positions.dtype.kind == "b" else ""
        raise RowsError(
            f"rows(indices) takes positions of rows, whole numbers in an array of one dimension, not an array of "
            f"{positions.dtype} of shape {positions.shape}{of_bool}"
        )
    if positions.min() < 0 or positions.max() >= n_rows:
        wrong = positions[(positions < 0) | (positions >= n_rows)][0]
        raise RowsError(f"rows(indices) has the position {wrong}, but the training rows are 0 to {n_rows - 1}")
    return positions.astype(np.int64)


def rows_of(X: Any, positions: NDArray[np.int64]) -> Any:
    """Return some rows in the user's own container; a pandas frame gets a new index, without repetitions."""
    if isinstance(X, (list, tuple)):
        return [X[position] for position in positions.tolist()]
    if hasattr(X, "iloc"):
        return X.iloc[positions].reset_index(drop=True)
    return Table(X).native(positions)


def taken(values: Any, positions: NDArray[np.int64]) -> Any:
    """Return some rows of X, y or weights in the user's own container; a pandas object keeps its index.

    Parameters
    ----------
    values : array, sparse matrix, data frame or sequence of shape (n_rows, ...); or None
    positions : array of int64 of shape (n_chosen,)

    Returns
    -------
    The same kind of container with n_chosen rows, or an array for one column; None for None.
    """
    if values is None:
        return None
    if hasattr(values, "iloc"):
        return values.iloc[positions]
    if isinstance(values, (list, tuple)):
        return [values[position] for position in positions.tolist()]
    if not hasattr(values, "shape") or len(values.shape) == 1:  # arrays of pyarrow have no shape
        return np.asarray(values)[positions]
    return values[positions] if isinstance(values, np.ndarray) else Table(values).native(positions)


def originals(copy_of: NDArray[np.int64] | None, positions: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Return the original row that each chosen row is a copy of, shape (n_chosen,); None if none is repeated.

    Parameters
    ----------
    copy_of : array of int64 of shape (n_rows,), or None
        The same of the rows from which are chosen.
    positions : array of int64 of shape (n_chosen,)
    """
    chosen = positions if copy_of is None else copy_of[positions]
    return chosen if np.unique(chosen).size < chosen.size else None


def permuted_response(
    rng: np.random.Generator,
    y: NDArray[Any],
    copy_of: NDArray[np.int64] | None = None,
    query: NDArray[np.int64] | None = None,
) -> NDArray[Any]:
    """Return a permuted response. Copies of a row get the same value: rows are permuted as if before they were copied.

    Parameters
    ----------
    rng : Generator
    y : array of shape (n_rows,) or (n_rows, n_responses)
    copy_of : array of int64 of shape (n_rows,), or None
    query : array of int64 of shape (n_rows,), or None
        The query of each row: rows of a ranker are permuted within their query.
    """
    if copy_of is None:
        return y[permuted_positions(rng, query)] if query is not None else rng.permutation(y)
    _, first, original = np.unique(copy_of, return_index=True, return_inverse=True)
    return permuted_response(rng, y[first], None, None if query is None else query[first])[original]


def permuted_positions(rng: np.random.Generator, query: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the positions of rows in a random order, in which each row is replaced by a row of its own query.

    Parameters
    ----------
    rng : Generator
    query : array of int64 of shape (n_rows,)

    Returns
    -------
    array of int64 of shape (n_rows,)
        All orders of the rows of a query have the same probability, and queries are independent of one another.

    Examples
    --------
    >>> import numpy as np
    >>> query = np.array([5, 7, 5, 7, 9])
    >>> order = permuted_positions(np.random.default_rng(0), query)
    >>> query[order].tolist()
    [5, 7, 5, 7, 9]
    """
    order = np.empty(query.size, dtype=np.int64)
    order[np.argsort(query, kind="stable")] = np.lexsort((rng.random(query.size), query))
    return order


def times(weight: Any, factors: Any, n_rows: int) -> NDArray[np.float64]:
    """Return the weights of rows multiplied by factors; raise a RowsError if these are not weights.

    Parameters
    ----------
    weight : array of shape (n_rows,), or None
        None means 1 for each row.
    factors : array-like of shape (n_rows,)
    n_rows : int
    """
    try:
        product = np.array(factors, dtype=np.float64)
    except (TypeError, ValueError):
        raise RowsError("weighted(weights) takes one number for each training row") from None
    if product.shape != (n_rows,):
        raise RowsError(f"weighted(weights) has weights of shape {product.shape} for {n_rows} training rows")
    if not np.isfinite(product).all() or (product < 0).any() or not product.any():
        raise RowsError("weighted(weights) has weights that are negative or not finite, or all are zero")
    return product if weight is None else product * np.asarray(weight, dtype=np.float64)
