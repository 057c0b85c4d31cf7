"""Exact Shapley values of trees, computed from a TreeEnsemble; neither a model library nor shap is needed.

They are path-dependent: a feature that is not known goes both ways at its splits, in the shares of the training weight
(Lundberg, Erion and Lee, arXiv 1802.03888). The shap package (without background data), XGBoost and LightGBM compute
the same values. :mod:`debias.trees.kernels.shapley` describes the algorithm. For many rows, each tree's values are
tabulated by the answers of a row and looked up (:mod:`debias.trees.kernels.patterns`); a table costs as much as
hundreds of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
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
    split = np.flatnonzero(np.diff(ensemble.tree_start) > 1)
    if split.size:
        _leaf_weight(ensemble)  # refuses before anything is computed
    phi = np.zeros((X.shape[0], ensemble.n_outputs, ensemble.n_features))
    # Class shares add up to 1, so the values of the first class follow from those of the other classes.
    shares = ensemble.averaged and ensemble.is_classifier
    outputs = np.arange(1 if shares else 0, ensemble.value.shape[1])
    _integrate(ensemble, X, split, outputs, n_jobs, phi)
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
    if ensemble.tree_start[tree + 1] - ensemble.tree_start[tree] > 1 and rows.size:
        outputs = np.arange(factor.shape[1])
        prepared = [_tree(ensemble, tree, rows.size)]
        step, room = _room(ensemble, prepared, rows.size, outputs.size)
        for begin in range(0, rows.size, step):  # one after the other: the sum is that of all rows
            kernels.explain_product(X, rows[begin : begin + step], prepared[0], factor, outputs, room, phi)
    return phi


def _integrate(
    ensemble: TreeEnsemble,
    X: NDArray[np.floating[Any]],
    which: NDArray[np.int64],
    outputs: NDArray[np.int64],
    n_jobs: int,
    phi: NDArray[np.float64],
) -> None:
    """Add the values of some trees to `phi`, in blocks of rows."""
    from debias.trees.kernels import shapley as kernels

    if not which.size or not len(X):
        return
    trees = [_tree(ensemble, int(tree), len(X)) for tree in which]
    first = ensemble.tree_output[which]
    step, _ = _room(ensemble, trees, len(X), outputs.size)

    def explain(part: slice) -> None:
        _, room = _room(ensemble, trees, len(X), outputs.size)
        for begin in range(part.start * step, min(part.stop * step, len(X)), step):
            end = min(begin + step, len(X))
            kernels.explain(X, begin, end, trees, first, outputs, room, phi)
            advance(end - begin)

    with task("rows", len(X)) as advance:
        over_parts(-(-len(X) // step), explain, n_jobs)


MOST_ROWS = int(__import__("os").environ.get("MR", 256))
MOST_PATTERNS = int(__import__("os").environ.get("MP", 32))
BLOCK = 2**int(__import__("os").environ.get("BL", 17))
"""Numbers that belong to a block of rows: they stay in the second cache."""


def _tree(ensemble: TreeEnsemble, tree: int, n_rows: int) -> kernels.Tree:
    from debias.trees.kernels import shapley as kernels

    nodes = tree_nodes(ensemble, tree)
    parent, feature, left, right = nodes[:4]
    up, share, n_distinct = kernels.edge_shares(
        left, right, parent, feature, _part_of(ensemble, tree, _leaf_weight(ensemble))
    )
    threshold = _part_of(ensemble, tree, ensemble.routing_threshold).astype(np.float64)
    most = max(1, min(MOST_PATTERNS, n_rows // 8))
    value = _part_of(ensemble, tree, ensemble.value)
    return kernels.Tree(nodes, threshold, up, share, value, *_quadrature(int(n_distinct)), most)


def _room(ensemble, trees, n_rows, n_outputs):
    from debias.trees.kernels import shapley as kernels

    depth = max(tree.depth for tree in trees)
    n_q = max(tree.n_quadrature for tree in trees)
    used = max(tree.used.size for tree in trees)
    numbers = depth * n_q * (1 + n_outputs) + used * 4 * n_outputs + ensemble.n_features * (1 + ensemble.n_outputs)
    n_rows = max(1, min(n_rows, MOST_ROWS, max(16, BLOCK // numbers)))
    return n_rows, kernels.Room(n_rows, depth, n_q, used, trees[0].most, n_outputs)


@cache
def _quadrature(n_features):
    n = (n_features + 1) // 2
    padded = -(-n // 4) * 4
    t, weight = np.full(padded, 0.5), np.zeros(padded)
    nodes, weights = np.polynomial.legendre.leggauss(n)
    t[:n], weight[:n] = (nodes + 1) / 2, weights / 2
    return t, weight


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
