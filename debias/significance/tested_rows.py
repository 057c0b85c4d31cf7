"""Which rows are tested for interactions where they are too many: drawn at random, with more rows of rare classes."""

from __future__ import annotations

from bisect import bisect_right
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from debias.significance.additive_functions import (
    FEWEST_PER_COLUMN,
    FUNCTIONS_PER_ROW,
    ROWS_PER_FUNCTION_OF_MISSING,
    ROWS_PER_FUNCTION_WITHIN,
    most_of,
)
from debias.significance.interactions import MOST_WITH_MISSING, ROWS_PER_PAIR
from debias.significance.permutation import seed_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.rows.rows import Rows

MOST_VALUES = 2**24
"""About so many rows times functions and interactions at most: 128 MB, of which a test holds about 18."""
ROWS_PER_COLUMN = 12
"""But at least so many rows for each column that varies, so that there is room for functions of all."""
ROWS_PER_COLUMN_WITHIN = 15
"""The same if features have several columns."""
LEAST_OF_CLASS = 0.25
"""A class keeps at least this part of the rows of a comparison, as far as it has rows."""
ROWS_PER_TRIPLE = 50
"""Pairs are also freed of one triple for every 50 rows, those that vary most,"""
MOST_IN_TRIPLES = 30
"""of so many features."""


def rows_to_test(rows: Rows, group: NDArray[np.int64], n_pairs: int) -> NDArray[np.int64] | None:
    """Return positions of the rows that are tested, ascending; None if they are not too many.

    One row of each block is drawn first. Log odds are additive, or not, whatever the shares of the classes.

    Parameters
    ----------
    rows : Rows
        Held-out rows with weights above 0.
    group : array of int64 of shape (n_features,)
    n_pairs : int
        Number of pairs that the model uses.
    """
    return drawn_rows(rows, _most_rows(rows.table.matrix(rows.ensemble), group, n_pairs))


def drawn_rows(rows: Rows, most: int) -> NDArray[np.int64] | None:
    """Return positions of rows drawn at random, `most` for the comparison of a class with the most frequent one.

    None if there are no more rows; else as for :func:`rows_to_test`.
    """
    codes = rows.response.codes
    of_classes = np.array([rows.n_rows]) if codes is None else np.bincount(codes)
    wanted = _of_classes(of_classes, most)
    if (wanted == of_classes).all():
        return None
    order = np.random.default_rng(seed_of(rows)).permutation(rows.n_rows)
    if rows.blocks is not None:
        is_first = np.zeros(order.size, dtype=bool)
        is_first[np.unique(rows.blocks[order], return_index=True)[1]] = True
        order = np.concatenate([order[is_first], order[~is_first]])
    in_order = np.zeros(order.size, dtype=np.int64) if codes is None else codes[order]
    return np.sort(np.concatenate([order[in_order == c][:n] for c, n in enumerate(wanted.tolist())]))


def _of_classes(n_rows: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Return how many rows of each class are tested, if each is compared with the most frequent one on `most` rows."""
    first = int(n_rows.argmax())
    others = np.arange(n_rows.size) != first
    in_comparison = n_rows[first] + n_rows[others].max(initial=0)
    if in_comparison <= most:
        return n_rows
    in_proportion = (n_rows * (most / in_comparison)).astype(np.int64)
    wanted = np.minimum(n_rows, np.maximum(in_proportion, int(LEAST_OF_CLASS * most)))
    wanted[first] = min(n_rows[first], most - wanted[others].max(initial=0))
    return wanted


def _most_rows(X: NDArray[np.floating], group: NDArray[np.int64], n_pairs: int) -> int:
    """Return the largest number of rows, up to that of X, whose functions and interactions are not too many."""
    n_values = np.array([np.unique(column).size for column in X.T])
    n_varying, n_groups, has_missing = int((n_values > 1).sum()), int(group.max()) + 1, bool(np.isnan(X).any())
    within, n_triples = n_groups < group.size, comb(min(n_groups, MOST_IN_TRIPLES), 3)

    def values(n: int) -> int:
        shared = max(int(FUNCTIONS_PER_ROW * n) - n_varying, FEWEST_PER_COLUMN * n_varying)
        n_functions = min(shared, sum(most_of(k, n) for k in n_values.tolist())) + n_groups
        if has_missing:
            room = max(int(MOST_WITH_MISSING * n) - n_functions, 0)
            n_functions += min(n // ROWS_PER_FUNCTION_OF_MISSING, room)
        n_functions += n // ROWS_PER_FUNCTION_WITHIN if within else 0
        return n * (n_functions + min(n // ROWS_PER_PAIR, n_pairs) + min(n // ROWS_PER_TRIPLE, n_triples))

    enough = n_varying * (ROWS_PER_COLUMN_WITHIN if within else ROWS_PER_COLUMN)
    return max(bisect_right(range(len(X) + 1), MOST_VALUES, key=values) - 1, enough)
