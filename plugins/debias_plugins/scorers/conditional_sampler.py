"""Draws of some columns given all others, from rows that are like the row: the leaves of a forest.

A draw for a row comes from a donor: a row in the same leaf of a tree, which saw the donor, but not the row. A category,
a missing value and a number with few values are taken from the donor as they are. Other numbers are the prediction for
the row plus what the prediction misses at the donor, since rows of one leaf still differ in what is predicted for them.
The sum is replaced by the nearest value that the column has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias_plugins.scorers.conditional_mean import Forest

    Array = NDArray[np.float64]
    Numbers = NDArray[np.int64]

FEW_VALUES = 10
"""Numbers with at most this many distinct values are taken from the donors as they are."""


def is_shifted(own: Array, categorical: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which columns are drawn as a prediction plus an error; the others are values of donors."""
    return ~categorical & np.array([_known(column).size > FEW_VALUES for column in own.T], dtype=bool)


def draws(
    own: Array,
    shifted: NDArray[np.bool_],
    predicted: Array,
    forest: Forest,
    n_draws: int,
    n_rows: int,
    generator: np.random.Generator,
) -> Array:
    """Draw columns again.

    Parameters
    ----------
    own : array of shape (n_known, n_own)
        The columns, missing values as NaN.
    shifted : array of bool of shape (n_own,)
    predicted : array of shape (n_known, n_shifted)
        Left-out predictions of the shifted columns.
    forest : Forest
        Its leaves hold rows that are alike.
    n_draws : int
    n_rows : int
        The first so many rows get draws; all rows are donors.
    generator : numpy.random.Generator

    Returns
    -------
    array of shape (n_draws, n_rows, n_own)
    """
    donors = _donors(forest, n_draws, n_rows, generator)
    drawn = own[donors]
    missed = own[:, shifted] - predicted
    drawn[:, :, shifted] = predicted[:n_rows] + missed[donors]
    for k in np.flatnonzero(shifted):
        drawn[:, :, k] = _nearest(drawn[:, :, k], own[:, k])
    return drawn


def _donors(forest: Forest, n_draws: int, n_rows: int, generator: np.random.Generator) -> Numbers:
    """Return a random row in the same leaf of a random tree that did not see the row, for each draw and row."""
    out = forest.out[:, :n_rows]
    # The smallest number is that of a random tree among those that did not see the row.
    trees = np.array([np.argmin(generator.random(out.shape) - out, axis=0) for _ in range(n_draws)])
    part, donors = generator.random(trees.shape), np.empty(trees.shape, dtype=np.int64)
    for number, leaf in enumerate(forest.leaf):
        seen = np.flatnonzero(~forest.out[number])
        seen = seen[np.argsort(leaf[seen], kind="stable")]
        draw, row = np.nonzero(trees == number)
        begin, end = (np.searchsorted(leaf[seen], leaf[row], side=side) for side in ("left", "right"))
        donors[draw, row] = seen[begin + (part[draw, row] * (end - begin)).astype(np.int64)]
    return donors


def _known(column: Array) -> Array:
    return np.asarray(np.unique(column[~np.isnan(column)]))


def _nearest(values: Array, column: Array) -> Array:
    """Return the nearest value that a column has; missing values stay missing."""
    known = _known(column)
    after = np.clip(np.searchsorted(known, values), 1, known.size - 1)
    below, above = known[after - 1], known[after]
    nearest: Array = np.where(values - below <= above - values, below, above)
    return np.where(np.isnan(values), np.nan, nearest)
