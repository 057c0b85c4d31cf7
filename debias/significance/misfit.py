"""Whether something is left of a response along a column, beside an additive model of it.

A code of many values, such as a postcode, has more values than there are functions for it. What is left of its effect
goes with what the model does with it and a column that depends on it, and so looks like an interaction of the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

NEIGHBOURS = 8
"""Rows are compared with so many on either side, in the order of the column, if few rows have equal values."""
ROWS_PER_VALUE = 2.0
"""With so many other rows of the same value on average, rows are compared with these."""
SEED = 0
"""Of the order of rows with equal values."""


def p_left(
    column: NDArray[np.floating[Any]], left: Array, fitted: Array, weight: Array, block: NDArray[np.int64] | None
) -> float:
    """Return a one-sided p-value that rows with equal, or neighbouring, values are alike in what is left of a response.

    Its null hypothesis is that what was fitted has all functions of the column that the response needs. Then the
    residuals, times the weights of the rows, are 0 on average along the column, also if the response has interactions:
    these are the normal equations. The sum of their products over pairs of rows has the mean and, as an upper bound,
    the variance of least squares with independent errors; the variance is larger if large errors are in rows that are
    compared.

    Parameters
    ----------
    column : array of shape (n_rows,)
        Missing values are NaN. Their rows are compared with one another.
    left : array of shape (n_rows,)
        Residuals of weighted least squares, times the square roots of the weights.
    fitted : array of shape (n_rows, n_functions)
        Its product with its transpose is the matrix that projects, or shrinks, on what was fitted.
    weight : array of shape (n_rows,)
        Weights of these least squares.
    block : array of int64 of shape (n_rows,), or None
        Rows of one block are not compared.

    Returns
    -------
    float
        1 if no rows can be compared.
    """
    from scipy.special import ndtr

    code = np.unique(column, return_inverse=True)[1]  # all missing values are equal
    others = np.bincount(code)[code] - 1
    of_pairs = _sums_of_equal(code, block) if others.mean() >= ROWS_PER_VALUE else _sums_of_neighbours(code, block)
    root = np.sqrt(weight)[:, None]

    def sums(values: Array) -> Array:
        return root * of_pairs(root * values)

    squared = float(weight @ of_pairs(weight[:, None])[:, 0])
    if not squared > 0:
        return 1.0
    inner = fitted.T @ fitted
    rest = 2 * np.eye(len(inner)) - inner  # less this, between `fitted` and its transpose, is what least squares leave
    along = sums(fitted)
    variance = left @ left / max(code.size - 2 * np.trace(inner) + np.trace(inner @ inner), 1.0)
    mean = -variance * float(np.einsum("ik,kl,il->", fitted, rest, along, optimize=True))
    of_errors = squared - float(np.einsum("ik,kl,il->", along, rest, along, optimize=True))
    large = weight * left**2
    squares = float(large @ of_pairs(large[:, None])[:, 0]) / (variance**2 * squared)
    error = variance * np.sqrt(2 * max(of_errors, 0.0) * max(1.0, squares))
    if not error > 0:
        return 1.0
    return float(ndtr((mean - left @ sums(left[:, None])[:, 0]) / error))


def _sums_of_equal(code: NDArray[np.int64], block: NDArray[np.int64] | None) -> Callable[[Array], Array]:
    """Return a function that sums values over the other rows of the same value."""
    own = np.arange(code.size) if block is None else np.unique([code, block], axis=1, return_inverse=True)[1].ravel()

    def sums(values: Array) -> Array:
        return _sums_by(code, values) - (values if block is None else _sums_by(own, values))

    return sums


def _sums_by(code: NDArray[np.int64], values: Array) -> Array:
    """Return, for each row, the sum over the rows with its code."""
    order = np.argsort(code, kind="stable")
    starts = np.flatnonzero(np.diff(code[order], prepend=-1))
    return np.asarray(np.add.reduceat(values[order], starts)[code], dtype=np.float64)


def _sums_of_neighbours(code: NDArray[np.int64], block: NDArray[np.int64] | None) -> Callable[[Array], Array]:
    """Return a function that sums values over the next rows in the order of the column, on both sides."""
    order = np.lexsort((np.random.default_rng(SEED).permutation(code.size), code))

    def sums(values: Array) -> Array:
        ordered, found = values[order], np.zeros_like(values)
        for step in range(1, min(NEIGHBOURS, code.size - 1) + 1):
            low, high = order[:-step], order[step:]
            apart = 1.0 if block is None else (block[low] != block[high]).astype(np.float64)[:, None]
            found[low] += apart * ordered[step:]
            found[high] += apart * ordered[:-step]
        return found

    return sums
