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
AT_ONCE = 8
"""So many functions are summed along a column at once: their values of 10,000 rows fit in the cache."""


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
        self._taken = np.linalg.cholesky(2 * np.eye(len(inner)) - inner).T @ fitted.T
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
        block = np.arange(code.size) if self._block is None else self._block
        shuffled = np.random.default_rng(SEED).permutation(code.size)  # rows of one value have no order of their own
        order = np.lexsort((shuffled, block, code) if is_code else (shuffled, code))
        of_pairs = (_sums_of_equal if is_code else _sums_of_neighbours)(code[order], block[order])
        left, weight = self._left[order], self._weight[order]
        root, large, variance = np.sqrt(weight), weight * left**2, self._variance

        def products(values: Array) -> Array:
            return root * of_pairs(root * values)

        squared = float(weight @ of_pairs(weight))
        if not squared > 0:
            return 1.0
        trace, squares = 0.0, 0.0
        for begin in range(0, len(self._taken), AT_ONCE):
            taken = self._taken[begin : begin + AT_ONCE, order]
            along = products(taken)
            trace, squares = trace + float((taken * along).sum()), squares + float((along**2).sum())
        mean, of_errors = -variance * trace, max(squared - squares, 0.0)
        of_large = float(large @ of_pairs(large)) / (variance**2 * squared)
        error = variance * float(np.sqrt(2 * of_errors * max(1.0, of_large)))
        if not error > 0:
            return 1.0
        return float(ndtr((mean - left @ products(left)) / error))


def _sums_of_equal(code: NDArray[np.int64], block: NDArray[np.int64]) -> Callable[[Array], Array]:
    """Return a function that sums values, in the order of code and block, over rows of the same value and other blocks.

    Values have shape (n_rows,) or (n_functions, n_rows), here and below.
    """
    new = np.diff(code, prepend=-1) != 0
    of_code, of_own = new, new | (np.diff(block, prepend=-1) != 0)

    def sums(values: Array) -> Array:
        return _sums_by(of_code, values) - _sums_by(of_own, values)

    return sums


def _sums_by(is_first: NDArray[np.bool_], values: Array) -> Array:
    """Return, for each row, the sum over the rows from the last first one to the next."""
    sums = np.add.reduceat(values, np.flatnonzero(is_first), axis=-1)
    return np.asarray(sums[..., np.cumsum(is_first) - 1], dtype=np.float64)


def _sums_of_neighbours(_: NDArray[np.int64], block: NDArray[np.int64]) -> Callable[[Array], Array]:
    """Return a function that sums values over the next rows on both sides that are of other blocks."""
    steps = range(1, min(NEIGHBOURS, block.size - 1) + 1)
    apart = [block[:-step] != block[step:] for step in steps]

    def sums(values: Array) -> Array:
        found = np.zeros_like(values)
        for step, is_apart in zip(steps, apart, strict=True):
            low, high = values[..., :-step], values[..., step:]
            if not is_apart.all():
                low, high = is_apart * low, is_apart * high
            found[..., :-step] += high
            found[..., step:] += low
        return found

    return sums
