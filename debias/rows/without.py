"""What the splits on a feature do to the output of trees on each row.

The output without a feature is the path-dependent expectation of Lundberg, Erion and Lee (2018): a row goes both ways
at the splits on the feature, in the shares of the evaluation rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.trees.routing import tree_nodes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.trees.ensemble import TreeEnsemble

    Array = NDArray[np.float64]

MOST_NODES = 255
"""In larger trees rows are followed one by one: most nodes are not on the way of a row."""


def child_shares(ensemble: TreeEnsemble, n: Array) -> Array:
    """Return the share of each node in the two children of its parent; one half if no row reaches the parent.

    Parameters
    ----------
    ensemble : TreeEnsemble
    n : array of shape (n_nodes,)
        Evaluation weight of each node.

    Returns
    -------
    array of shape (n_nodes,)
        1 for roots.
    """
    share, children = np.ones(n.size), ensemble.children
    of_children = n[children]
    total = of_children.sum(axis=1, keepdims=True)
    share[children] = np.divide(of_children, total, out=np.full(of_children.shape, 0.5), where=total > 0)
    return share


def effects(
    ensemble: TreeEnsemble,
    X: NDArray[np.floating[Any]],
    share: Array,
    group: NDArray[np.int64],
    n_groups: int,
    step: Array | None = None,
) -> tuple[Array, Array]:
    """Return the output without the constant, and what the splits on each group of features do to it.

    Parameters
    ----------
    ensemble : TreeEnsemble
    X : array of shape (n_rows, n_features)
        The float matrix on which the library routes.
    share : array of shape (n_nodes,)
        From :func:`child_shares`.
    group : array of int64 of shape (n_features,)
        Group of each feature; -1 for features whose splits stay.
    n_groups : int
    step : array of shape (n_versions, n_nodes, width), optional
        What the step from its parent to each node adds to the sums of a row.

    Returns
    -------
    raw : array of shape (n_rows, n_outputs)
    sums : array of shape (n_rows, n_groups, 1 + n_versions, n_outputs)
        The effect, which is the output minus the output without the splits on each group; then the sums of steps at
        these splits on the path of a row.
    """
    raw, sums = _no_sums(ensemble, len(X), n_groups, 0 if step is None else len(step))
    for tree in range(ensemble.n_trees):
        _add_effects(ensemble, tree, X, share, group, raw, sums, step)
    return (raw / ensemble.n_trees, sums / ensemble.n_trees) if ensemble.averaged else (raw, sums)


def outputs_without(
    ensemble: TreeEnsemble, X: NDArray[np.floating[Any]], share: Array, left_out: NDArray[np.bool_]
) -> Array:
    """Return the output, without the constant, of trees without the splits on each of several sets of features.

    Parameters
    ----------
    ensemble, X, share
        As for :func:`effects`.
    left_out : array of bool of shape (n_sets, n_features)
        The features of each set. They may be in several sets.

    Returns
    -------
    array of shape (n_sets, n_rows, n_outputs)
    """
    from debias.rows.kernels import without as kernels

    output = np.zeros((len(left_out), len(X), ensemble.n_outputs))
    if not len(left_out):
        return output
    sets, columns = np.ascontiguousarray(left_out).view(np.uint8), np.ascontiguousarray(X.T)
    for tree in range(ensemble.n_trees):
        if ensemble.tree_start[tree + 1] - ensemble.tree_start[tree] <= MOST_NODES:
            arrays: tuple[Any, ...] = (columns, *_tree(ensemble, tree, share), sets, output)
            kernels.add_outputs_without(*arrays)
            continue
        for of_set, group in zip(output, np.where(left_out, 0, -1), strict=True):
            raw, sums = _no_sums(ensemble, len(X), 1, 0)
            _add_effects(ensemble, tree, X, share, group, raw, sums)
            of_set += raw - sums[:, 0, 0]
    return output / ensemble.n_trees if ensemble.averaged else output


def _no_sums(ensemble: TreeEnsemble, n_rows: int, n_groups: int, n_versions: int) -> tuple[Array, Array]:
    return np.zeros((n_rows, ensemble.n_outputs)), np.zeros((n_rows, n_groups, 1 + n_versions, ensemble.n_outputs))


def _tree(ensemble: TreeEnsemble, tree: int, share: Array) -> tuple[Any, ...]:
    """Return the nodes of a tree, their shares and values, and its first output."""
    at = slice(int(ensemble.tree_start[tree]), int(ensemble.tree_start[tree + 1]))
    return tree_nodes(ensemble, tree), share[at], ensemble.centred_value[at], int(ensemble.tree_output[tree])


def _add_effects(
    ensemble: TreeEnsemble,
    tree: int,
    X: NDArray[np.floating[Any]],
    share: Array,
    group: NDArray[np.int64],
    raw: Array,
    sums: Array,
    step: Array | None = None,
) -> None:
    from debias.rows.kernels import without as kernels

    nodes, of_nodes, value, first = _tree(ensemble, tree, share)
    begin = int(ensemble.tree_start[tree])
    of_step = np.empty((0, *value.shape)) if step is None else step[:, begin : begin + len(value)]
    kernels.add_effects(X, nodes, of_nodes, value, first, group, np.ascontiguousarray(of_step), raw, sums)
