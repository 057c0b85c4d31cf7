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
OTHERS_OF_VALUE = 2.0
"""With so many other rows of the same value on average, rows are compared with these."""
SEED = 0
"""Of the order of rows with equal values."""


class Remains:
    """What an additive model leaves of a response, and whether something is left along a column.

    Parameters
    ----------
    left : array of shape (n_rows,)
        Residuals of weighted least squares, times the square roots of the weights.
    fitted : array of shape (n_rows, n_functions)
        Its product with its transpose is the matrix that projects, or shrinks, on what was fitted.
    weight : array of shape (n_rows,)
        Weights of these least squares.
    block : array of int64 of shape (n_rows,), or None
        Rows of one block are not compared.
    """

    def __init__(self, left: Array, fitted: Array, weight: Array, block: NDArray[np.int64] | None) -> None:
        self._left, self._weight, self._block = left, weight, block
        inner = fitted.T @ fitted
        # With F the functions, errors leave the residuals I - F F', whose square is I less the product of this and its
        # transpose.
        self._taken = fitted @ np.linalg.cholesky(2 * np.eye(len(inner)) - inner)
        self._variance = float(left @ left) / max(left.size - float((self._taken**2).sum()), 1.0)

    def p_value(self, column: NDArray[np.floating[Any]]) -> float:
        """Return a one-sided p-value that rows with equal, or neighbouring, values are alike in what is left of them.

        Its null hypothesis is that what was fitted has all functions of the column that the response needs. Then the
        residuals, times the weights of the rows, are 0 on average along the column, also if the response has
        interactions: these are the normal equations. The sum of their products over pairs of rows has the mean and, as
        an upper bound, the variance of least squares with independent errors; the variance is larger if large errors
        are in rows that are compared.

        Parameters
        ----------
        column : array of shape (n_rows,)
            Missing values are NaN. Their rows are compared with one another.

        Returns
        -------
        float
            1 if no rows can be compared.
        """
        from scipy.special import ndtr

        code = np.unique(column, return_inverse=True)[1]  # all missing values are equal
        is_code = (np.bincount(code)[code] - 1).mean() >= OTHERS_OF_VALUE
        of_pairs = (_sums_of_equal if is_code else _sums_of_neighbours)(code, self._block)
        root, large = np.sqrt(self._weight)[:, None], self._weight * self._left**2

        def products(values: Array) -> Array:
            return root * of_pairs(root * values)

        squared = float(self._weight @ of_pairs(self._weight[:, None])[:, 0])
        if not squared > 0:
            return 1.0
        along, variance = products(self._taken), self._variance
        mean = -variance * float((self._taken * along).sum())
        of_errors = max(squared - float((along**2).sum()), 0.0)
        of_large = float(large @ of_pairs(large[:, None])[:, 0]) / (variance**2 * squared)
        error = variance * float(np.sqrt(2 * of_errors * max(1.0, of_large)))
        if not error > 0:
            return 1.0
        return float(ndtr((mean - self._left @ products(self._left[:, None])[:, 0]) / error))


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
        ordered = values[order]
        found, result = np.zeros_like(ordered), np.empty_like(ordered)
        for step in range(1, min(NEIGHBOURS, code.size - 1) + 1):
            low, high = ordered[:-step], ordered[step:]
            if block is not None:
                apart = (block[order[:-step]] != block[order[step:]])[:, None]
                low, high = apart * low, apart * high
            found[:-step] += high
            found[step:] += low
        result[order] = found
        return result

    return sums
