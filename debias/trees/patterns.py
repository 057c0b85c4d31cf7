"""Shapley values of many rows at once: each tree's values are tabulated by the answers of a row, and looked up.

A table costs as much as hundreds of rows, so this is for many rows. :mod:`debias.trees.kernels.patterns` describes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.parallel import over_parts
from debias.progress import task
from debias.trees.routing import tree_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from debias.trees.ensemble import TreeEnsemble
    from debias.trees.kernels import patterns as kernels

FEWEST_ROWS = 256
"""For fewer rows no table is worth its cost."""
MOST_BITS_MERGED = 12
"""Bits of the pattern of a subtree of several leaves: with more, the table of a feature leaves the fastest cache."""
MOST_BITS = 15
"""Bits of the pattern of a single leaf."""
ENTRIES_AT_ONCE = 2**23
"""Tables of several subtrees are in memory together, with at most about this many entries (64 MB)."""


@dataclass(frozen=True, eq=False)
class _Part:
    """Some subtrees of a tree, and the number of entries of their tables."""

    tree: int
    subtrees: kernels.Part
    n_entries: int


def look_up(
    ensemble: TreeEnsemble,
    X: NDArray[np.floating[Any]],
    outputs: NDArray[np.int64],
    n_jobs: int,
    phi: NDArray[np.float64],
) -> dict[int, NDArray[np.bool_]]:
    """Add the Shapley values of all leaves that are worth a table, and return the other leaves.

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
    dict of int to array of bool of shape (n_nodes,)
        By the number of the tree, for trees that have such leaves.
    """
    split = np.flatnonzero(np.diff(ensemble.tree_start) > 1)
    if len(X) < FEWEST_ROWS:
        return {int(tree): _part_of(ensemble, int(tree), ensemble.left) < 0 for tree in split}
    from debias.trees.kernels import patterns as kernels

    t, weight = _quadratures()
    left_out: dict[int, NDArray[np.bool_]] = {}
    with task("trees", split.size) as advance:
        n_before = 0
        for batch in _batches(ensemble, split, len(X), outputs.size, left_out):
            tables: list[Any] = [None] * len(batch)

            def fill(some: slice, batch: list[_Part] = batch, tables: list[Any] = tables) -> None:
                for k in range(some.start, some.stop):
                    value = _part_of(ensemble, batch[k].tree, ensemble.value)
                    tables[k] = kernels.fill(batch[k].subtrees, value, outputs, t, weight)

            over_parts(len(batch), fill, n_jobs)
            parts = [each.subtrees for each in batch]
            first = ensemble.tree_output[[each.tree for each in batch]]

            def explain(some: slice, parts: list[Any] = parts, tables: list[Any] = tables, first: Any = first) -> None:
                kernels.explain(X, some.start, some.stop, parts, tables, first, outputs, phi)

            over_parts(len(X), explain, n_jobs, at_least=2 * FEWEST_ROWS)
            n_done = int(np.searchsorted(split, batch[-1].tree))  # the last tree of a batch may go on in the next
            advance(n_done - n_before)
            n_before = n_done
        advance(split.size - n_before)
    return left_out


def _batches(
    ensemble: TreeEnsemble,
    trees: NDArray[np.int64],
    n_rows: int,
    n_outputs: int,
    left_out: dict[int, NDArray[np.bool_]],
) -> Iterator[list[_Part]]:
    """Yield successive parts of trees whose tables are in memory together; note leaves in no part in `left_out`."""
    from debias.trees.kernels import patterns as kernels

    batch: list[_Part] = []
    room = ENTRIES_AT_ONCE // n_outputs
    for tree in map(int, trees):
        subtrees = _divided(ensemble, tree, n_rows)
        if subtrees.left_out.any():
            left_out[tree] = subtrees.left_out
        start, first = subtrees.table_start, 0
        while first < start.size - 1:
            taken = sum(each.n_entries for each in batch)
            end = int(np.searchsorted(start, start[first] + room - taken, side="right")) - 1
            if end <= first and batch:  # the next table does not fit beside these
                yield batch
                batch = []
                continue
            end = max(end, first + 1)
            batch.append(_Part(tree, kernels.Part(subtrees, first, end), int(start[end] - start[first])))
            first = end
    if batch:
        yield batch


def _divided(ensemble: TreeEnsemble, tree: int, n_rows: int) -> kernels.Subtrees:
    """Divide one tree into subtrees; the more rows, the larger tables are worth their cost."""
    from debias.trees.kernels import patterns as kernels
    from debias.trees.kernels import shapley as shapley_kernels

    assert ensemble.averaging_weight is not None
    nodes = tree_nodes(ensemble, tree)
    parent, feature, left, right = nodes[:4]
    leaf_weight = _part_of(ensemble, tree, ensemble.averaging_weight)
    up, share, _ = shapley_kernels.edge_shares(left, right, parent, feature, leaf_weight)
    threshold = _part_of(ensemble, tree, ensemble.routing_threshold).astype(np.float64)
    worth = int(np.log2(n_rows))
    return kernels.Subtrees(nodes, threshold, up, share, min(MOST_BITS_MERGED, worth - 4), min(MOST_BITS, worth))


def _part_of(ensemble: TreeEnsemble, tree: int, array: NDArray[Any]) -> NDArray[Any]:
    return array[ensemble.tree_start[tree] : ensemble.tree_start[tree + 1]]


def _quadratures() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return nodes and weights of the exact quadrature for each number of features on a path, 0 to MOST_BITS."""
    t, weight = np.zeros((2, MOST_BITS + 1, (MOST_BITS + 1) // 2))
    for d in range(1, MOST_BITS + 1):
        n = (d + 1) // 2
        nodes, weights = np.polynomial.legendre.leggauss(n)
        t[d, :n], weight[d, :n] = (nodes + 1) / 2, weights / 2
    return t, weight
