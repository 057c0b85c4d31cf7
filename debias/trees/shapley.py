"""Exact Shapley values of trees, computed from a TreeEnsemble; neither a model library nor shap is needed.

They are path-dependent: a feature that is not known goes both ways at its splits, in the shares of the training weight
(Lundberg, Erion and Lee, arXiv 1802.03888). The shap package (without background data), XGBoost and LightGBM compute
the same values. There are two ways, both exact up to rounding: integrals, for blocks of rows that go through a tree
together (:mod:`debias.trees.kernels.shapley`); and tables of the values by the answers of a row
(:mod:`debias.trees.kernels.patterns`), for many rows in trees with few features on a path.

Over 500 lines: values, sums and products of all trees and of some share their outputs, weights and quadratures.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import UnsupportedModelError
from debias.parallel import over_parts
from debias.progress import task
from debias.trees.routing import nodes_at, tree_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from debias.trees.ensemble import TreeEnsemble
    from debias.trees.kernels import patterns as pattern_kernels
    from debias.trees.kernels import shapley as kernels
    from debias.trees.kernels import shapley_sums as sum_kernels

    Edges = tuple[NDArray[np.int32], NDArray[np.float64], int]


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
    phi = np.zeros((X.shape[0], ensemble.n_outputs, ensemble.n_features))
    outputs = _outputs_to_explain(ensemble)
    _add_values(ensemble, X, np.arange(ensemble.n_trees), outputs, n_jobs, phi)
    if outputs[0]:
        phi[:, 0] = -phi[:, 1:].sum(axis=1)
    if ensemble.averaged:
        phi /= ensemble.n_trees
    return phi.transpose(0, 2, 1)


def _outputs_to_explain(ensemble: TreeEnsemble) -> NDArray[np.int64]:
    """Return the columns of the values of a tree from which all others follow.

    Class shares add up to 1, so the values of the first class follow from those of the other classes.
    """
    shares = ensemble.averaged and ensemble.is_classifier
    return np.arange(1 if shares else 0, ensemble.value.shape[1])


def _add_values(
    ensemble: TreeEnsemble,
    X: NDArray[np.floating[Any]],
    trees: NDArray[np.int64],
    outputs: NDArray[np.int64],
    n_jobs: int,
    phi: NDArray[np.float64],
) -> None:
    """Add the Shapley values of some trees to `phi` (n_rows, n_outputs, n_features)."""
    split = trees[np.diff(ensemble.tree_start)[trees] > 1]
    edges = {int(tree): tree_edges(ensemble, int(tree)) for tree in split}
    few = {tree: of_tree for tree, of_tree in edges.items() if tables_pay(of_tree[2], len(X))}
    look_up(ensemble, X, few, outputs, n_jobs, phi)
    integrate(ensemble, X, {tree: of_tree for tree, of_tree in edges.items() if tree not in few}, outputs, n_jobs, phi)


def expected_output(ensemble: TreeEnsemble) -> NDArray[np.float64]:
    """Return the raw output when nothing is known about a row, shape (n_outputs,): the weighted mean of the leaves."""
    root = ensemble.value[ensemble.tree_start[:-1]]
    total = np.zeros(ensemble.n_outputs)
    for column in range(root.shape[1]):
        np.add.at(total, ensemble.tree_output + column, root[:, column])
    return total / (ensemble.n_trees if ensemble.averaged else 1) + ensemble.base


SHARES = 32
TREES_A_SHARE = 8
"""The trees are divided into at most 32 shares of 8 trees or more, whatever the number of threads: sums then round in
the same way."""
ROWS_OF_SUMS = 4096
"""Rows that go through the trees together: their states at a split stay in the cache."""
OF_A_LEAF = 3.0
"""Nanoseconds that the values of a row take at a leaf, if they are not summed up; see `A_ROW` of the kernel."""
MOST_SUMMED_UP = 32
"""Features on a path, at most, of the trees that the kernel of :func:`shapley_sums` takes."""


def shapley_sums(
    ensemble: TreeEnsemble, X: NDArray[np.floating[Any]], factor: NDArray[np.float64], n_jobs: int = 1
) -> NDArray[np.float64]:
    """Return sums over rows of Shapley values times two factors, which is faster than the values if trees are not deep.

    Parameters
    ----------
    ensemble : TreeEnsemble
    X : array of shape (n_rows, n_features)
        As in :func:`shapley_values`.
    factor : array of shape (2, n_rows, n_outputs)
    n_jobs : int
        Number of threads, over trees; the sums do not depend on it.

    Returns
    -------
    array of shape (2, n_features)
        ``sum_i sum_c factor[j, i, c] * shapley_values(ensemble, X)[i, feature, c]``

    Raises
    ------
    UnsupportedModelError
        The model does not store the training weights of its leaves.
    """
    outputs = _outputs_to_explain(ensemble)
    by_output = _by_output(ensemble, factor / ensemble.n_trees if ensemble.averaged else factor)
    trees = _kernel_trees(ensemble, 0, ensemble.n_trees, outputs)
    n_shares = max(1, min(SHARES, ensemble.n_trees // TREES_A_SHARE))
    edges = np.linspace(0, ensemble.n_trees, n_shares + 1).astype(np.int64)
    sums = np.zeros((n_shares, 2, ensemble.n_features))
    left_out = np.zeros(ensemble.n_trees, dtype=bool)
    for column, of_rows, rows in _blocks_of_sums(X, by_output):

        def add(shares: slice, column: Any = column, of_rows: Any = of_rows) -> None:
            for share in range(shares.start, shares.stop):
                numbers = np.arange(edges[share], edges[share + 1])
                arrays = (column, of_rows, ensemble.tree_output, outputs, sums[share])
                left_out[numbers] = _add_sums(trees, numbers, *arrays)

        over_parts(n_shares, add, n_jobs)
        _add_others(ensemble, X[rows], np.flatnonzero(left_out), of_rows, outputs, n_jobs, sums[0])
    total: NDArray[np.float64] = sums.sum(axis=0)
    return total


def shapley_sums_of_trees(
    ensemble: TreeEnsemble,
    trees: NDArray[np.int64],
    X: NDArray[np.floating[Any]],
    factor: NDArray[np.float64],
    n_jobs: int = 1,
) -> NDArray[np.float64]:
    """Return :func:`shapley_sums` of some trees of an averaged ensemble, each as if it were the only tree.

    Parameters
    ----------
    ensemble : TreeEnsemble
    trees : array of int64
        Which trees.
    X, factor, n_jobs
        As for :func:`shapley_sums`.

    Returns
    -------
    array of shape (len(trees), 2, n_features)
        The mean over all trees of the ensemble is the result of :func:`shapley_sums`.

    Raises
    ------
    UnsupportedModelError
        The model does not store the training weights of its leaves.
    """
    outputs, by_output = _outputs_to_explain(ensemble), _by_output(ensemble, factor)
    sums, number = np.zeros((len(trees), 2, ensemble.n_features)), np.zeros(1, dtype=np.int64)
    left_out = np.zeros(len(trees), dtype=bool)
    of_tree = [_kernel_trees(ensemble, tree, tree + 1, outputs) for tree in trees.tolist()]
    first = ensemble.tree_output[trees]
    for column, of_rows, rows in _blocks_of_sums(X, by_output):

        def add(some: slice, column: Any = column, of_rows: Any = of_rows) -> None:
            for k in range(some.start, some.stop):
                left_out[k] = _add_sums(of_tree[k], number, column, of_rows, first[k : k + 1], outputs, sums[k])[0]

        over_parts(len(trees), add, n_jobs)
        for k in np.flatnonzero(left_out):
            _add_others(ensemble, X[rows], trees[k : k + 1], of_rows, outputs, n_jobs, sums[k])
    return sums


def _by_output(ensemble: TreeEnsemble, factor: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the factors of the outputs to explain, shape (n_outputs, n_rows, 2)."""
    if _outputs_to_explain(ensemble)[0]:
        factor = factor - factor[:, :, :1]
    return np.ascontiguousarray(factor.transpose(2, 1, 0))


def _kernel_trees(ensemble: TreeEnsemble, begin: int, end: int, outputs: NDArray[np.int64]) -> sum_kernels.Trees:
    """Return the trees `begin` to `end` in the form of the kernel of sums."""
    from debias.trees.kernels import shapley_sums as kernels

    start = ensemble.tree_start[begin : end + 1]
    at = slice(start[0], start[-1])
    threshold, weight = ensemble.routing_threshold[at].astype(np.float64), _leaf_weight(ensemble)[at]
    arrays = (nodes_at(ensemble, at), threshold, weight, ensemble.value[at], outputs)
    return kernels.Trees(start - start[0], *arrays, *_quadratures(MOST_SUMMED_UP))


def _blocks_of_sums(
    X: NDArray[np.floating[Any]], by_output: NDArray[np.float64]
) -> Iterator[tuple[NDArray[np.floating[Any]], NDArray[np.float64], slice]]:
    """Yield the columns of blocks of rows, their factors, and which rows they are."""
    for begin in range(0, len(X), ROWS_OF_SUMS):
        rows = slice(begin, begin + ROWS_OF_SUMS)
        yield np.ascontiguousarray(X[rows].T), np.ascontiguousarray(by_output[:, rows]), rows


def _add_sums(
    trees: sum_kernels.Trees,
    numbers: NDArray[np.int64],
    column: NDArray[np.floating[Any]],
    of_rows: NDArray[np.float64],
    first_output: NDArray[np.int32],
    outputs: NDArray[np.int64],
    sums: NDArray[np.float64],
) -> NDArray[np.bool_]:
    """Add sums over a block of rows, and return which trees were left out, because another way takes less time."""
    from debias.trees.kernels import shapley_sums as kernels

    of_a_leaf = OF_A_LEAF * column.shape[1] * outputs.size
    return kernels.add_sums(trees, numbers, column, of_rows, first_output, of_a_leaf, sums)


def _add_others(
    ensemble: TreeEnsemble,
    X: NDArray[np.floating[Any]],
    trees: NDArray[np.int64],
    of_rows: NDArray[np.float64],
    outputs: NDArray[np.int64],
    n_jobs: int,
    sums: NDArray[np.float64],
) -> None:
    """Add the sums of trees that were left out, from the values of each row."""
    if trees.size:
        phi = np.zeros((len(X), ensemble.n_outputs, ensemble.n_features))
        _add_values(ensemble, X, trees, outputs, n_jobs, phi)
        sums += np.einsum("ick,cij->jk", phi, of_rows)


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
        trees = [_tree(ensemble, tree, tree_edges(ensemble, tree), rows.size)]
        step = _rows_at_once(ensemble, trees, rows.size, outputs.size)
        room = kernels.Room(trees, step, outputs.size)
        for begin in range(0, rows.size, step):  # one after the other: the sum is that of all rows
            kernels.explain_product(X, rows[begin : begin + step], trees[0], factor, outputs, room, phi)
    return phi


def shapley_values_of_leaves(
    ensemble: TreeEnsemble, tree: int, X: NDArray[np.floating[Any]], rows: NDArray[np.int64]
) -> Iterator[tuple[int, NDArray[np.int32], NDArray[np.float64]]]:
    """Yield, leaf by leaf, what a leaf of one tree adds to the Shapley values of rows if its value is 1.

    Parameters
    ----------
    ensemble : TreeEnsemble
    tree : int
    X : array of shape (n_rows, n_features)
        As in :func:`shapley_values`.
    rows : array of int64 of shape (n,)
        Which rows of `X` to explain.

    Yields
    ------
    tuple
        The number of the leaf in the tree, the features on its path, shape (m,), and the values, shape (m, n). The
        Shapley values of the tree are the sum of these times the values of the leaves.
    """
    from debias.trees.kernels import leaf_shares as kernels

    _, share, most = tree_edges(ensemble, tree)
    nodes = tree_nodes(ensemble, tree)
    threshold = part_of(ensemble, tree, ensemble.routing_threshold).astype(np.float64)
    left_of = np.zeros((len(threshold), rows.size), dtype=np.uint8)
    kernels.on_left(X, rows, nodes, threshold, left_of)
    features, found = np.empty(most, dtype=np.int32), np.empty((most, rows.size))
    for leaf in np.flatnonzero(nodes[2] < 0) if most else ():
        n_features = kernels.of_leaf(int(leaf), nodes, share, left_of, *_quadrature(most), features, found)
        yield int(leaf), features[:n_features].copy(), found[:n_features].copy()


MOST_TABULATED = 10
"""Tables are for trees of at most so many distinct features on a path."""
ROWS_AN_ENTRY = 64
"""An entry of a table of a leaf costs what the table saves with so many rows."""
FEWEST_TABULATED = 5
"""With fewer features on a path, tables do not become cheaper: dividing the tree into subtrees takes the time."""


def tables_pay(n_features: int, n_rows: int) -> bool:
    """Whether tables take less time than integrals.

    The table of a leaf has ``2**n_features`` entries, whatever the rows, and then saves time with each row. The three
    constants are from measured times of trees of 3 to 10 features on a path, 500 to 100,000 rows.

    Parameters
    ----------
    n_features : int
        The largest number of distinct features on a path of the tree.
    n_rows : int
    """
    return n_features <= MOST_TABULATED and n_rows >= ROWS_AN_ENTRY << max(n_features, FEWEST_TABULATED)


def tree_edges(ensemble: TreeEnsemble, tree: int) -> Edges:
    """Return `up` and the share of every edge of a tree, and the largest number of distinct features on a path."""
    from debias.trees.kernels import shapley as kernels

    parent, feature, left, right = tree_nodes(ensemble, tree)[:4]
    return kernels.edge_shares(left, right, parent, feature, part_of(ensemble, tree, _leaf_weight(ensemble)))


def _leaf_weight(ensemble: TreeEnsemble) -> NDArray[np.float64]:
    """Return the training weights of the leaves of all trees."""
    if ensemble.averaging_weight is None:
        raise UnsupportedModelError(
            f"this {ensemble.source} stores no training weights of its leaves, by which Shapley values weigh them. "
            "Use another scorer, such as mdi_oob, or load the model from a format that keeps the weights"
        )
    return ensemble.averaging_weight


def part_of(ensemble: TreeEnsemble, tree: int, array: NDArray[Any]) -> NDArray[Any]:
    """Return the entries of the nodes of one tree."""
    return array[ensemble.tree_start[tree] : ensemble.tree_start[tree + 1]]


# --- integrals -----------------------------------------------------------------------------------------


MOST_ROWS = 256
"""Rows that go through a tree together."""
MOST_PATTERNS = 64
"""Patterns of a tabulated subtree: for a block of rows, its table takes a few kB."""
ROWS_A_PATTERN = 4
"""A tabulated pattern costs about as much as a row, so there are fewer of them if there are few rows."""
NUMBERS_AT_ONCE = 2**18
"""About this many numbers (2 MB) belong to a block of rows, whatever the depth: they stay in the cache."""
FEWEST_ROWS = 16
"""But at least this many rows go through a tree together."""
LANES = 4
"""The kernel takes that many nodes of the quadrature at a time."""


def integrate(
    ensemble: TreeEnsemble,
    X: NDArray[np.floating[Any]],
    edges: dict[int, Edges],
    outputs: NDArray[np.int64],
    n_jobs: int,
    phi: NDArray[np.float64],
) -> None:
    """Add the Shapley values of some trees by integrals.

    Parameters
    ----------
    ensemble : TreeEnsemble
    X : array of shape (n_rows, n_features)
        In the ensemble's routing dtype, missing values as NaN.
    edges : dict
        By the number of the tree, the result of ``edge_shares``.
    outputs : array of int64
        Columns of the values of a tree to explain.
    n_jobs : int
        Number of threads, over rows.
    phi : array of shape (n_rows, n_outputs, n_features)
        Is added to.
    """
    from debias.trees.kernels import shapley as kernels

    if not edges or not len(X) or not outputs.size:
        return
    trees = [_tree(ensemble, tree, of_tree, len(X)) for tree, of_tree in edges.items()]
    first_output = ensemble.tree_output[list(edges)]
    step = _rows_at_once(ensemble, trees, len(X), outputs.size)

    def explain(blocks: slice) -> None:
        room = kernels.Room(trees, step, outputs.size)
        for begin in range(blocks.start * step, min(blocks.stop * step, len(X)), step):
            end = min(begin + step, len(X))
            kernels.explain(X, begin, end, trees, first_output, outputs, room, phi)
            advance(end - begin)

    with task("rows", len(X)) as advance:
        over_parts(-(-len(X) // step), explain, n_jobs)


def _tree(ensemble: TreeEnsemble, tree: int, edges: Edges, n_rows: int) -> kernels.Tree:
    from debias.trees.kernels import shapley as kernels

    up, share, n_features = edges
    threshold = part_of(ensemble, tree, ensemble.routing_threshold).astype(np.float64)
    value = part_of(ensemble, tree, ensemble.value)
    most = max(1, min(MOST_PATTERNS, n_rows // ROWS_A_PATTERN))
    return kernels.Tree(tree_nodes(ensemble, tree), threshold, up, share, value, *padded_quadrature(n_features), most)


def _rows_at_once(ensemble: TreeEnsemble, trees: list[kernels.Tree], n_rows: int, n_outputs: int) -> int:
    """Return how many rows go through the trees together: the deeper the trees, the fewer."""
    a_level = max(tree.n_quadrature for tree in trees) * (1 + n_outputs)
    a_row = max(tree.depth for tree in trees) * a_level + ensemble.n_features * (1 + ensemble.n_outputs)
    a_row += LANES * max(tree.used.size for tree in trees) * n_outputs
    return min(n_rows, MOST_ROWS, max(FEWEST_ROWS, NUMBERS_AT_ONCE // a_row))


@cache
def padded_quadrature(n_features: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the quadrature for paths of so many features, with nodes of weight 0 up to a multiple of LANES."""
    nodes, weights = _quadrature(n_features)
    t, weight = np.full(-(-nodes.size // LANES) * LANES, 0.5), np.zeros(-(-nodes.size // LANES) * LANES)
    t[: nodes.size], weight[: nodes.size] = nodes, weights
    return t, weight


@cache
def _quadrature(n_features: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return nodes and weights that integrate from 0 to 1 exactly what paths of so many features need."""
    t, weight = np.polynomial.legendre.leggauss((n_features + 1) // 2)
    return (t + 1) / 2, weight / 2


# --- tables --------------------------------------------------------------------------------------------


MOST_BITS = 12
"""Bits of the pattern of a subtree of several leaves: with more, the table of a feature leaves the fastest cache."""
ENTRIES_AT_ONCE = 2**23
"""Tables of several subtrees are in memory together, with at most about this many entries (64 MB)."""


@dataclass(frozen=True, eq=False)
class _Part:
    """Some subtrees of a tree, and the number of entries of their tables."""

    tree: int
    subtrees: pattern_kernels.Part
    n_entries: int


def look_up(
    ensemble: TreeEnsemble,
    X: NDArray[np.floating[Any]],
    edges: dict[int, Edges],
    outputs: NDArray[np.int64],
    n_jobs: int,
    phi: NDArray[np.float64],
) -> None:
    """Add the Shapley values of some trees by tables, as :func:`integrate` does; `n_jobs` threads, over trees and rows.

    A table of a leaf has 2^n entries for n features on its path.
    """
    from debias.trees.kernels import patterns as kernels

    if not edges:
        return
    numbers = np.array(list(edges))
    t, weight = _quadratures(max(MOST_BITS, *(n_features for _, _, n_features in edges.values())))
    with task("trees", numbers.size) as advance:
        n_before = 0
        for batch in _batches(ensemble, edges, len(X), outputs.size):
            tables: list[Any] = [None] * len(batch)

            def fill(some: slice, batch: list[_Part] = batch, tables: list[Any] = tables) -> None:
                for k in range(some.start, some.stop):
                    value = part_of(ensemble, batch[k].tree, ensemble.value)
                    tables[k] = kernels.fill(batch[k].subtrees, value, outputs, t, weight)

            over_parts(len(batch), fill, n_jobs)
            parts = [each.subtrees for each in batch]
            first = ensemble.tree_output[[each.tree for each in batch]]

            def explain(some: slice, parts: list[Any] = parts, tables: list[Any] = tables, first: Any = first) -> None:
                kernels.explain(X, some.start, some.stop, parts, tables, first, outputs, phi)

            over_parts(len(X), explain, n_jobs, at_least=512)
            n_done = int(np.searchsorted(numbers, batch[-1].tree))  # the last tree of a batch may go on in the next
            advance(n_done - n_before)
            n_before = n_done
        advance(numbers.size - n_before)


def _batches(ensemble: TreeEnsemble, edges: dict[int, Edges], n_rows: int, n_outputs: int) -> Iterator[list[_Part]]:
    """Yield successive parts of trees whose tables are in memory together."""
    from debias.trees.kernels import patterns as kernels

    batch: list[_Part] = []
    room = ENTRIES_AT_ONCE // n_outputs
    merged = min(MOST_BITS, int(np.log2(n_rows)) - 4)  # the more rows, the larger tables are worth their cost
    for tree, (up, share, _) in edges.items():
        threshold = part_of(ensemble, tree, ensemble.routing_threshold).astype(np.float64)
        subtrees = kernels.Subtrees(tree_nodes(ensemble, tree), threshold, up, share, merged)
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


def _quadratures(most: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return nodes and weights of the exact quadrature for each number of features on a path, 0 to `most`."""
    t, weight = np.zeros((2, most + 1, (most + 1) // 2))
    for n_features in range(1, most + 1):
        n = (n_features + 1) // 2
        t[n_features, :n], weight[n_features, :n] = _quadrature(n_features)
    return t, weight
