"""Which features could replace one another in fitted trees: how well a split on one does what a split on another does.

A split on feature j sends the rows of its node left or right. The *surrogate split* on feature k is the split of the
same rows on k with the fewest mistakes (Breiman et al. 1984, section 5.3). The blind rule, which sends all rows to the
larger side, makes as many mistakes as the smaller side has rows. Over all splits v on j that are looked at::

    association(j, k) = 1 - sum_v mistakes of the surrogate split on k / sum_v mistakes of the blind rule

It is 1 if k does all that j does, and 0 if a split on k is no better than the blind rule. Means of it over forests
measure relations of variables (Seifert, Gundlach and Szymczak 2019, Bioinformatics 35, 3663-3671).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from debias.positions import evenly_spaced
from debias.trees.routing import Router

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from debias.rows.rows import Rows
    from debias.trees.ensemble import TreeEnsemble

    Array = NDArray[np.float64]

MOST_SPLITS = 20
"""At most this many splits on a feature are looked at: those that divide the most rows."""
LEAST_ROWS = 30
"""Splits with fewer of the rows are not looked at: by chance, the best of many splits makes few mistakes."""
LEAST_MISTAKES = 50
"""For the same reason, the blind rule must make so many mistakes at the splits on a feature together."""
MOST_ROWS, FEW_ROWS = 2_000, 500
"""So many rows, spread evenly, are looked at; the smaller number with more features than"""
MANY_FEATURES = 100
MOST_CELLS = 200_000_000
"""Splits times rows times features: with many features, fewer splits on each are looked at."""


def associations(rows: Rows, columns: NDArray[np.int64], of_categories: Sequence[int]) -> Array:
    """Return how well each feature replaces each other one in the trees of a model.

    Parameters
    ----------
    rows : Rows
        Their responses are not used.
    columns : array of int64 of shape (n_features,)
        The column of the trees of each feature.
    of_categories : sequence of int
        Columns that hold codes of categories. A split on them may send any set of categories left. So that categories
        of few rows do not follow any split by chance, a row goes where the other rows of its category go, or to the
        larger side if these are divided evenly.

    Returns
    -------
    array of shape (n_features, n_features)
        Row j has the associations of the splits on j with every feature. A row is 0 if the splits on its feature divide
        too few rows (``LEAST_ROWS``, ``LEAST_MISTAKES``). Rows in which feature k is missing go to the larger side.
    """
    ensemble = rows.ensemble
    n, p = MOST_ROWS if columns.size <= MANY_FEATURES else FEW_ROWS, columns.size
    matrix = np.ascontiguousarray(rows.table.matrix(ensemble, evenly_spaced(rows.n_rows, n)))
    most = int(np.clip(MOST_CELLS // max(1, len(matrix) * p**2), 1, MOST_SPLITS))
    looked_at = _largest_splits(ensemble, columns, most)
    rules = _Rules(matrix[:, columns], np.isin(columns, of_categories))
    blind, mistakes = np.zeros(p), np.zeros((p, p))
    position = {int(column): k for k, column in enumerate(columns)}
    for tree in np.unique(ensemble.tree_of_split[looked_at]):
        path = _path(ensemble, int(tree), matrix)
        begin = ensemble.tree_start[tree]
        for split in ensemble.splits[looked_at[ensemble.tree_of_split[looked_at] == tree]]:
            here, left = (path == split - begin).any(axis=0), (path == ensemble.left[split]).any(axis=0)
            if here.sum() < LEAST_ROWS:
                continue
            j = position[int(ensemble.feature[split])]
            smaller = min(int(left.sum()), int(here.sum() - left.sum()))
            blind[j] += smaller
            mistakes[j] += rules.mistakes(left, here, smaller)
    return np.where(blind[:, None] >= LEAST_MISTAKES, 1 - mistakes / np.maximum(blind, 1.0)[:, None], 0.0)


def _largest_splits(ensemble: TreeEnsemble, columns: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Return positions among all splits: those on each column with the most training rows, or else the first."""
    known = (size for size in (ensemble.weight, ensemble.count, ensemble.cover) if size is not None)
    size, feature = next(known, np.zeros(ensemble.n_nodes))[ensemble.splits], ensemble.feature[ensemble.splits]
    chosen = [(of := np.flatnonzero(feature == k))[np.argsort(-size[of], kind="stable")[:most]] for k in columns]
    return np.concatenate(chosen) if chosen else np.empty(0, dtype=np.int64)


def _path(ensemble: TreeEnsemble, tree: int, matrix: NDArray[np.floating]) -> NDArray[np.int64]:
    """Return the nodes of a tree that each row passes, shape (depth, n_rows), from its leaf up; -1 above the root."""
    parent = ensemble.parent[ensemble.tree_start[tree] : ensemble.tree_start[tree + 1]]
    path = [Router(ensemble, matrix).leaves(np.array([tree]))[:, 0].astype(np.int64)]
    while (path[-1] >= 0).any():
        path.append(np.where(path[-1] >= 0, parent[path[-1]], -1))
    return np.array(path)


class _Rules:
    """The columns of features, sorted once, to find the surrogate split on each of them."""

    def __init__(self, X: NDArray[np.floating], is_category: NDArray[np.bool_]) -> None:
        self._missing = np.isnan(X)
        self._numeric, self._labelled = np.flatnonzero(~is_category), np.flatnonzero(is_category)
        self._order = np.argsort(X[:, self._numeric], axis=0, kind="stable")  # missing values come last
        ordered = np.take_along_axis(X[:, self._numeric], self._order, axis=0)
        self._present = ~np.isnan(ordered)
        self._cuts = self._present.copy()  # after these rows: equal values cannot be divided
        self._cuts[:-1] &= (ordered[:-1] < ordered[1:]) | ~self._present[1:]
        self._codes = [np.unique(X[:, k], return_inverse=True)[1] for k in self._labelled]

    def mistakes(self, left: NDArray[np.bool_], here: NDArray[np.bool_], smaller: int) -> Array:
        """Return how many rows of a node the surrogate split on each feature sends to the wrong side.

        Parameters
        ----------
        left, here : array of bool of shape (n_rows,)
            Rows that the split sends left, and all rows of its node.
        smaller : int
            Number of rows on the smaller side.
        """
        left_is_larger = 2 * left.sum() >= here.sum()
        unlike_most = here & (left != left_is_larger)
        wrong = (unlike_most[:, None] & self._missing).sum(axis=0).astype(np.float64)
        # Rows that go left less rows that go right, below each cut: n_present - 2 mistakes = +-(2 below - total).
        sign = (np.where(left, 1, -1) * here)[self._order] * self._present
        before = np.cumsum(sign, axis=0)
        below, n_present = np.where(self._cuts, before, 0), (sign != 0).sum(axis=0)
        best = np.maximum(2 * below.max(axis=0) - before[-1], before[-1] - 2 * below.min(axis=0))
        wrong[self._numeric] += (n_present - best) / 2
        for k, code in zip(self._labelled, self._codes, strict=True):
            wrong[k] += _mistakes_of_categories(code, left, here & ~self._missing[:, k], bool(left_is_larger))
        return np.minimum(wrong, smaller)


def _mistakes_of_categories(
    code: NDArray[np.int64], left: NDArray[np.bool_], known: NDArray[np.bool_], left_is_larger: bool
) -> int:
    """Return how many rows do not go where most other rows of their category go."""
    n_left, n_right = (np.bincount(code[known & side], minlength=int(code.max()) + 1) for side in (left, ~left))
    # Of the others of a row that goes left, n_left - 1 go left and n_right go right.
    wrong_left = (n_left - 1 < n_right) | ((n_left - 1 == n_right) & (not left_is_larger))
    wrong_right = (n_right - 1 < n_left) | ((n_right - 1 == n_left) & left_is_larger)
    return int(n_left[wrong_left].sum() + n_right[wrong_right].sum())
