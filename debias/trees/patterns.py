"""Shapley values of many rows at once: each tree's values are tabulated by the answers of a row, and looked up.

A table costs as much as hundreds of rows, so this is for many rows. :mod:`debias.trees.kernels.patterns` describes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.parallel import over_parts
from debias.trees.routing import tree_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from debias.trees.ensemble import TreeEnsemble
    from debias.trees.kernels.patterns import Subtrees

FEWEST_ROWS = 256
"""For fewer rows no table is worth its cost."""
MOST_BITS_MERGED = 12
"""Bits of the pattern of a subtree of several leaves: with more, the table of a feature leaves the fastest cache."""
MOST_BITS = 15
"""Bits of the pattern of a single leaf."""
ENTRIES_AT_ONCE = 2**23
"""Tables of several trees are in memory together, with at most about this many entries (64 MB)."""
ENTRIES_OF_TREE = 2**26
"""A tree with more entries is not tabulated."""


@dataclass(frozen=True, eq=False)
class _Tabulated:
    """One tree, how it is divided, and the shares of its edges."""

    tree: int
    subtrees: Subtrees
    share: NDArray[np.float64]
    n_entries: int


def look_up(
    ensemble: TreeEnsemble,
    X: NDArray[np.floating[Any]],
    outputs: NDArray[np.int64],
    n_jobs: int,
    phi: NDArray[np.float64],
) -> list[int]:
    """Add the Shapley values of all trees that are worth a table, and return the numbers of the other trees.

    Parameters
    ----------
    ensemble : TreeEnsemble
        With ``averaging_weight``.
    X : array of shape (n_rows, n_features)
        In the ensemble's routing dtype, missing values as NaN.
    outputs : array of int64
        Columns of the values of a tree to explain.
    n_jobs : int
        Number of threads, over trees and over rows.
    phi : array of shape (n_rows, n_outputs, n_features)
        Is added to.

    Returns
    -------
    list of int
    """
    if len(X) < FEWEST_ROWS:
        return list(range(ensemble.n_trees))
    from debias.trees.kernels import patterns as kernels

    t, weight = _quadratures()
    found = [_tabulated(ensemble, tree, len(X), outputs.size) for tree in range(ensemble.n_trees)]
    for batch in _batches([each for each in found if isinstance(each, _Tabulated)]):
        tables: list[Any] = [None] * len(batch)

        def fill(part: slice, batch: list[_Tabulated] = batch, tables: list[Any] = tables) -> None:
            for k in range(part.start, part.stop):
                value = _values(ensemble, batch[k].tree)
                tables[k] = kernels.fill(batch[k].subtrees, batch[k].share, value, outputs, t, weight)

        over_parts(len(batch), fill, n_jobs)
        subtrees = [each.subtrees for each in batch]
        first = ensemble.tree_output[[each.tree for each in batch]]

        def explain(
            part: slice, subtrees: list[Any] = subtrees, tables: list[Any] = tables, first: Any = first
        ) -> None:
            kernels.explain(X, part.start, part.stop, subtrees, tables, first, outputs, phi)

        over_parts(len(X), explain, n_jobs, at_least=2 * FEWEST_ROWS)
    return [tree for tree, each in enumerate(found) if each is None]


def _tabulated(ensemble: TreeEnsemble, tree: int, n_rows: int, n_outputs: int) -> _Tabulated | None:
    """Return a tree that is worth a table; None if it is not."""
    from debias.trees.kernels import patterns as kernels
    from debias.trees.kernels import shapley as shapley_kernels

    at = slice(int(ensemble.tree_start[tree]), int(ensemble.tree_start[tree + 1]))
    if at.stop - at.start == 1:
        return None
    nodes = tree_nodes(ensemble, tree)
    parent, feature, left, right = nodes[:4]
    assert ensemble.averaging_weight is not None
    up, share, _ = shapley_kernels.edge_shares(left, right, parent, feature, ensemble.averaging_weight[at])
    worth = int(np.log2(n_rows))
    threshold = ensemble.routing_threshold[at].astype(np.float64)
    subtrees = kernels.Subtrees(nodes, threshold, up, min(MOST_BITS_MERGED, worth - 4), min(MOST_BITS, worth - 2))
    if not subtrees.fits or subtrees.n_entries * n_outputs > ENTRIES_OF_TREE:
        return None
    return _Tabulated(tree, subtrees, share, subtrees.n_entries * n_outputs)


def _batches(trees: list[_Tabulated]) -> Iterator[list[_Tabulated]]:
    """Yield lists of successive trees whose tables are in memory together."""
    ends = np.cumsum([each.n_entries for each in trees])
    for _, batch in groupby(zip(ends // ENTRIES_AT_ONCE, trees, strict=True), key=lambda pair: int(pair[0])):
        yield [each for _, each in batch]


def _values(ensemble: TreeEnsemble, tree: int) -> NDArray[np.float64]:
    return ensemble.value[ensemble.tree_start[tree] : ensemble.tree_start[tree + 1]]


def _quadratures() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return nodes and weights of the exact quadrature for each number of features on a path, 0 to MOST_BITS."""
    t, weight = np.zeros((2, MOST_BITS + 1, (MOST_BITS + 1) // 2))
    for d in range(1, MOST_BITS + 1):
        n = (d + 1) // 2
        nodes, weights = np.polynomial.legendre.leggauss(n)
        t[d, :n], weight[d, :n] = (nodes + 1) / 2, weights / 2
    return t, weight
