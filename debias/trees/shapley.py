"""Exact Shapley values of trees, computed from a TreeEnsemble; neither a model library nor shap is needed.

They are path-dependent: a feature that is not known goes both ways at its splits, in the shares of the training weight
(Lundberg, Erion and Lee, arXiv 1802.03888). The shap package (without background data), XGBoost and LightGBM compute
the same values. :mod:`debias.trees.kernels.shapley` describes the algorithm. For many rows, each tree's values are
tabulated by the answers of a row and looked up (:mod:`debias.trees.kernels.patterns`); a table costs as much as
hundreds of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import UnsupportedModelError
from debias.parallel import over_parts
from debias.progress import task
from debias.trees.routing import tree_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from debias.trees.ensemble import TreeEnsemble
    from debias.trees.kernels import patterns as kernels

ROWS_AT_ONCE = 1024
ROWS_OF_DEEP_TREES = 128
"""In a tree of thousands of leaves, this many rows take a tenth of a second, after which Ctrl-C is answered."""


def shapley_values(ensemble: TreeEnsemble, X: NDArray[np.floating[Any]], n_jobs: int = 1) -> NDArray[np.float64]:
    """Return the Shapley values of rows under the whole ensemble.

    Parameters
    ----------
    ensemble : TreeEnsemble
    X : array of shape (n_rows, n_features)
        In the ensemble's routing dtype, missing values as NaN.
    n_jobs : int
        Number of threads, over blocks of rows; the values do not depend on it.

    Returns
    -------
    array of shape (n_rows, n_features, n_outputs)
        On the scale of the raw output: class shares, means or margins. The sum over features is the raw output minus
        :func:`expected_output`.
    """
    if (np.diff(ensemble.tree_start) > 1).any():
        _leaf_weight(ensemble)  # refuses before anything is computed
    phi = np.zeros((X.shape[0], ensemble.n_outputs, ensemble.n_features))
    # Class shares add up to 1, so the values of the first class follow from those of the other classes.
    shares = ensemble.averaged and ensemble.is_classifier
    outputs = np.arange(1 if shares else 0, ensemble.value.shape[1])
    left_out = look_up(ensemble, X, outputs, n_jobs, phi)
    _follow(ensemble, X, left_out, outputs, n_jobs, phi)
    if shares:
        phi[:, 0] = -phi[:, 1:].sum(axis=1)
    if ensemble.averaged:
        phi /= ensemble.n_trees
    return phi.transpose(0, 2, 1)


def expected_output(ensemble: TreeEnsemble) -> NDArray[np.float64]:
    """Return the raw output when nothing is known about a row, shape (n_outputs,): the weighted mean of the leaves."""
    root = ensemble.value[ensemble.tree_start[:-1]]
    total = np.zeros(ensemble.n_outputs)
    for column in range(root.shape[1]):
        np.add.at(total, ensemble.tree_output + column, root[:, column])
    return total / (ensemble.n_trees if ensemble.averaged else 1) + ensemble.base


def shapley_products(
    ensemble: TreeEnsemble,
    tree: int,
    X: NDArray[np.floating[Any]],
    rows: NDArray[np.int64],
    factor: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the sum over rows of one tree's Shapley values times a factor, without storing the values.

    Parameters
    ----------
    ensemble : TreeEnsemble
    tree : int
    X : array of shape (n_rows, n_features)
        As in :func:`shapley_values`.
    rows : array of int64 of shape (n,)
        Which rows of `X` to add up.
    factor : array of shape (n_rows, width)
        One factor for each output that the tree adds to.

    Returns
    -------
    array of shape (n_features,)
        ``sum_i sum_c factor[i, c] * phi[i, feature, c]``
    """
    from debias.trees.kernels import shapley as kernels

    phi = np.zeros(ensemble.n_features)
    if ensemble.tree_start[tree + 1] - ensemble.tree_start[tree] > 1:
        tables = _tables(ensemble, tree)
        for begin in range(0, rows.size, ROWS_OF_DEEP_TREES):  # one after the other: the sum is that of all rows
            kernels.explain_product(X, rows[begin : begin + ROWS_OF_DEEP_TREES], *tables, factor, phi)
    return phi


def _follow(
    ensemble: TreeEnsemble,
    X: NDArray[np.floating[Any]],
    leaves: dict[int, NDArray[np.bool_]],
    outputs: NDArray[np.int64],
    n_jobs: int,
    phi: NDArray[np.float64],
) -> None:
    """Add the values of some leaves, given by tree, to `phi`, row by row."""
    from debias.trees.kernels import shapley as kernels

    def explain_blocks(part: slice) -> None:
        for begin in range(part.start * ROWS_AT_ONCE, min(part.stop * ROWS_AT_ONCE, len(X)), ROWS_AT_ONCE):
            rows = np.arange(begin, min(begin + ROWS_AT_ONCE, len(X)))
            for tree, tables in tables_of.items():
                kernels.explain(X, rows, *tables, int(ensemble.tree_output[tree]), outputs, phi)
            advance(rows.size)

    tables_of = {tree: _tables(ensemble, tree, of_tree) for tree, of_tree in leaves.items()}
    with task("rows", len(X)) as advance:
        over_parts(-(-len(X) // ROWS_AT_ONCE), explain_blocks, n_jobs)


def _tables(
    ensemble: TreeEnsemble, tree: int, leaves: NDArray[np.bool_] | None = None
) -> tuple[Any, Any, NDArray[np.float64]]:
    """Return one tree's nodes, edges and values for the compiled loops; nodes that lead to other leaves are left out.

    `leaves` has shape (n_nodes,); all leaves by default.
    """
    from debias.trees.kernels import shapley as kernels

    at = slice(int(ensemble.tree_start[tree]), int(ensemble.tree_start[tree + 1]))
    nodes, value = tree_nodes(ensemble, tree), ensemble.value[at]
    parent, feature, left, right = nodes[:4]
    up, share, n_distinct = kernels.edge_shares(left, right, parent, feature, _leaf_weight(ensemble)[at])
    if leaves is not None and not leaves[left < 0].all():
        nodes, up, share, value = _pruned(nodes, up, share, value, leaves)
    t, weight = np.polynomial.legendre.leggauss((int(n_distinct) + 1) // 2)
    edges = (up, *kernels.edge_tables(up, share, (t + 1) / 2, weight / 2))
    return nodes, edges, value


def _pruned(
    nodes: tuple[Any, ...],
    up: NDArray[np.int32],
    share: NDArray[np.float64],
    value: NDArray[np.float64],
    leaves: NDArray[np.bool_],
) -> tuple[tuple[Any, ...], NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]:
    """Return a tree without the splits that lead to none of `leaves`; all other leaves have the value 0."""
    parent, feature, left, right = nodes[:4]
    leads = leaves.copy()
    for node in range(parent.size - 1, 0, -1):  # parents precede children
        leads[parent[node]] |= leads[node]
    kept = leads | leads[parent]  # a split needs both of its children
    number = np.cumsum(kept, dtype=np.int32) - np.int32(1)
    inner = leads & (left >= 0)
    below = (np.where(inner, number[child], np.int32(-1)) for child in (left, right))
    arrays = (number[parent], feature, *below, *nodes[4:9])
    value = np.where(leaves[:, None], value, 0.0)
    return (*(array[kept] for array in arrays), nodes[9]), number[up][kept], share[kept], value[kept]


def _leaf_weight(ensemble: TreeEnsemble) -> NDArray[np.float64]:
    if ensemble.averaging_weight is None:
        raise UnsupportedModelError(
            f"this {ensemble.source} stores no training weights of its leaves, by which Shapley values weigh them. "
            "Use another scorer, such as mdi_oob, or load the model from a format that keeps the weights"
        )
    return ensemble.averaging_weight


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
