"""Exact Shapley values of trees, computed from a TreeEnsemble; neither a model library nor shap is needed.

They are path-dependent: a feature that is not known goes both ways at its splits, in the shares of the training weight
(Lundberg, Erion and Lee, arXiv 1802.03888). The shap package (without background data), XGBoost and LightGBM compute
the same values. :mod:`debias.trees.kernels.shapley` describes the algorithm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import UnsupportedModelError
from debias.parallel import over_parts
from debias.progress import task
from debias.trees.patterns import look_up
from debias.trees.routing import tree_nodes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.trees.ensemble import TreeEnsemble

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
