"""From rows to leaves: our own compiled router, and raw output of the common form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.ensemble import TreeEnsemble

LEAVES_AT_ONCE = 2**23
VALUES_AT_ONCE = 2**20


def block_size(n_trees: int, n_features: int = 1) -> int:
    """Return how many rows to route at once, a multiple of 8.

    About eight million leaf ids, and no more values than stay in the cache while all trees go over them.
    """
    return max(1024, min(65536, LEAVES_AT_ONCE // n_trees, VALUES_AT_ONCE // n_features)) // 8 * 8


def route(
    ensemble: TreeEnsemble,
    X: NDArray[np.floating[Any]],
    trees: NDArray[np.int64] | None = None,
    in_bag: NDArray[np.bool_] | None = None,
    n_jobs: int = 1,
) -> NDArray[np.int32]:
    """Route rows through the flat arrays.

    Parameters
    ----------
    ensemble : TreeEnsemble
    X : array of shape (n_rows, n_features)
        In the ensemble's routing dtype, missing values as NaN.
    trees : array of int64, optional
        Which trees; all by default.
    in_bag : array of bool of shape (n_trees, n_rows), optional
        Rows to leave out, tree by tree.
    n_jobs : int
        Threads, over trees.

    Returns
    -------
    array of int32 of shape (n_rows, n_trees)
        Leaf within its tree; -1 where left out.
    """
    from debias import kernels

    which = np.arange(ensemble.n_trees) if trees is None else trees
    leaves = np.empty((which.size, X.shape[0]), dtype=np.int32)
    skip = np.zeros((0, 0), dtype=bool) if in_bag is None else in_bag
    zero = ensemble.zero_is_missing

    def part(of: slice) -> None:
        rest = (skip if in_bag is None else skip[of], leaves[of].T)
        if zero is None and ensemble.category_set is None and not has_missing:
            kernels.route_complete(X, which[of], ensemble.tree_start, *ensemble.packed_nodes, *rest)
            return
        no_zero = np.zeros(ensemble.n_nodes, dtype=bool)
        ways = (ensemble.left, ensemble.right, ensemble.missing_left, no_zero if zero is None else zero)
        kernels.route(X, which[of], ensemble.tree_start, ensemble.feature, ensemble.threshold, *ways, *sets, *rest)

    sets = _category_sets(ensemble)
    has_missing = bool(np.isnan(X).any())
    if n_jobs == 1:
        part(slice(None))
    else:
        from joblib import Parallel, delayed, effective_n_jobs

        edges = np.linspace(0, which.size, min(which.size, 4 * effective_n_jobs(n_jobs)) + 1).astype(int)
        parts = [slice(a, b) for a, b in zip(edges[:-1], edges[1:], strict=True)]
        Parallel(n_jobs=n_jobs, require="sharedmem")(delayed(part)(of) for of in parts)
    return leaves.T


def tree_nodes(ensemble: TreeEnsemble, tree: int) -> tuple[Any, ...]:
    """Return what compiled walks read of one tree.

    Arrays of one entry a node: parent, feature, left, right, threshold, whether the threshold alone decides unless the
    value is missing (which spares most calls of ``kernels.goes_left``), then what else that takes: where missing values
    go, whether zeros are missing, the number of the category set; and the category sets of the ensemble.
    """
    at = slice(int(ensemble.tree_start[tree]), int(ensemble.tree_start[tree + 1]))
    size = at.stop - at.start
    zero = np.zeros(size, dtype=bool) if ensemble.zero_is_missing is None else ensemble.zero_is_missing[at]
    which, sets = _category_sets(ensemble)
    which = which[at] if which.size else np.full(size, -1, dtype=np.int32)
    ways = (ensemble.parent, ensemble.feature, ensemble.left, ensemble.right, ensemble.threshold)
    return (*(array[at] for array in ways), ~zero & (which < 0), ensemble.missing_left[at], zero, which, sets)


def _category_sets(ensemble: TreeEnsemble) -> tuple[Any, tuple[Any, Any, Any]]:
    """Return which set each split lists (empty: none does), and the sets."""
    if ensemble.category_set is None:
        no_set = np.zeros(0, dtype=np.int32)
        return no_set, (np.zeros(1, dtype=np.int64), no_set, np.zeros(0, dtype=bool))
    return ensemble.category_set, (ensemble.category_start, ensemble.category_codes, ensemble.listed_left)


def raw_output(ensemble: TreeEnsemble, leaves: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return the raw output of rows whose leaves in all trees are known, shape (n_rows, n_outputs)."""
    from debias import kernels

    raw = np.zeros((leaves.shape[0], ensemble.n_outputs))
    kernels.sum_leaf_values(leaves, ensemble.tree_start, ensemble.tree_output, ensemble.value, raw)
    if ensemble.averaged:
        raw /= ensemble.n_trees
    return raw + ensemble.base
