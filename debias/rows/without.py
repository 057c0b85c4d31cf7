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

_NO_STEPS = np.empty((0, 0, 0))
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
) -> tuple[Array, Array, Array]:
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
    effect : array of shape (n_groups, n_rows, n_outputs)
        The output minus the output without the splits on each group.
    steps : array of shape (n_rows, n_groups, n_versions, n_outputs)
        The sums of steps at these splits on the path of a row.
    """
    step = _NO_STEPS if step is None else step
    sums = _no_sums(ensemble, len(X), n_groups, len(step))
    sets, columns = np.equal.outer(np.arange(n_groups), group).view(np.uint8), np.ascontiguousarray(X.T)
    for tree in range(ensemble.n_trees):
        if _is_small(ensemble, tree):
            _add(ensemble, tree, columns, share, (sets, group), step, *sums)
        else:
            _add(ensemble, tree, X, share, (group,), step, *sums)
    if ensemble.averaged:
        for each in sums:
            each /= ensemble.n_trees
    return sums


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
    raw, effect, no_steps = _no_sums(ensemble, len(X), len(left_out), 0)
    sets, columns = np.ascontiguousarray(left_out).view(np.uint8), np.ascontiguousarray(X.T)
    groups, unused = np.where(left_out, 0, -1), np.empty_like(raw)
    for tree in range(ensemble.n_trees if len(left_out) else 0):
        if _is_small(ensemble, tree):
            _add(ensemble, tree, columns, share, (sets, groups[0]), _NO_STEPS, raw, effect, no_steps)
            continue
        for k, group in enumerate(groups):
            sums = (unused if k else raw, effect[k : k + 1], no_steps)
            _add(ensemble, tree, X, share, (group,), _NO_STEPS, *sums)
    output = raw - effect
    return output / ensemble.n_trees if ensemble.averaged else output


def _no_sums(ensemble: TreeEnsemble, n_rows: int, n_groups: int, n_versions: int) -> tuple[Array, Array, Array]:
    n_outputs = ensemble.n_outputs
    return (
        np.zeros((n_rows, n_outputs)),
        np.zeros((n_groups, n_rows, n_outputs)),
        np.zeros((n_rows, n_groups, n_versions, n_outputs)),
    )


def _add(
    ensemble: TreeEnsemble,
    tree: int,
    X: NDArray[np.floating[Any]],
    share: Array,
    groups: Any,
    step: Array,
    *sums: Array,
) -> None:
    """Add the output of a tree, and effects and steps of groups, one row after the other or many together.

    Parameters
    ----------
    ensemble, tree, share, step
        As for :func:`effects`.
    X : array
        Rows; or columns, if many rows are added together.
    groups : (group,) or (left_out, group)
        As for the kernels; the latter if many rows are added together.
    *sums : arrays
        Output, effects and steps.
    """
    from debias.rows.kernels import without as kernels

    at = slice(int(ensemble.tree_start[tree]), int(ensemble.tree_start[tree + 1]))
    value, first = ensemble.centred_value[at], int(ensemble.tree_output[tree])
    of_tree = np.ascontiguousarray(step[:, at]) if len(step) else np.empty((0, *value.shape))
    arrays: tuple[Any, ...] = (X, tree_nodes(ensemble, tree), share[at], value, first, *groups, of_tree, *sums)
    if len(groups) == 1:
        kernels.add_effects(*arrays)
    else:
        kernels.add_effects_at_once(*arrays)


def _is_small(ensemble: TreeEnsemble, tree: int) -> bool:
    """Whether a tree has so few nodes that many rows are added together."""
    return bool(ensemble.tree_start[tree + 1] - ensemble.tree_start[tree] <= MOST_NODES)
