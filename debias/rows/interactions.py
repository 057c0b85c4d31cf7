"""What the trees do with two features together on each row, and with each feature alone.

Without the splits on a set of features, the output is the path-dependent expectation of :mod:`debias.rows.without`.
With e_S for the output less the output without S, the interaction of j and k is e_j + e_k - e_jk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.rows.without import child_shares
from debias.trees.routing import tree_nodes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.trees.ensemble import TreeEnsemble

    Array = NDArray[np.float64]


def pairs_on_paths(ensemble: TreeEnsemble, group: NDArray[np.int64], n_groups: int) -> NDArray[np.bool_]:
    """Return which pairs of groups have splits on one path of a tree. Other pairs have no interaction, exactly.

    Parameters
    ----------
    ensemble : TreeEnsemble
    group : array of int64 of shape (n_features,)
    n_groups : int

    Returns
    -------
    array of bool of shape (n_groups, n_groups)
        Symmetric, False on the diagonal.
    """
    meets = np.zeros((n_groups, n_groups), dtype=bool)
    begin = np.repeat(ensemble.tree_start[:-1], np.diff(ensemble.tree_start))
    below = above = ensemble.splits
    while below.size:  # one level further up each time
        inside = ensemble.parent[above] >= 0
        below, above = below[inside], above[inside]
        above = begin[above] + ensemble.parent[above]
        meets[group[ensemble.feature[below]], group[ensemble.feature[above]]] = True
    meets |= meets.T
    np.fill_diagonal(meets, False)
    return meets


def interactions(
    ensemble: TreeEnsemble,
    X: NDArray[np.floating[Any]],
    n: Array,
    group: NDArray[np.int64],
    pairs: NDArray[np.int64],
    n_groups: int,
) -> Array:
    """Return what the splits on both groups of each pair do together on each row.

    Parameters
    ----------
    ensemble : TreeEnsemble
    X : array of shape (n_rows, n_features)
        The float matrix on which the library routes.
    n : array of shape (n_nodes,)
        Evaluation weight of each node.
    group : array of int64 of shape (n_features,)
    pairs : array of int64 of shape (n_pairs, 2)
        Different groups; each pair once.
    n_groups : int

    Returns
    -------
    array of shape (n_rows, n_pairs, n_outputs)
        e_j + e_k - e_jk, in the unit of the output.
    """
    from debias.rows.kernels import interactions as kernels

    share, number = child_shares(ensemble, n), np.full((n_groups, n_groups), -1, dtype=np.int32)
    number[pairs[:, 0], pairs[:, 1]] = number[pairs[:, 1], pairs[:, 0]] = np.arange(len(pairs), dtype=np.int32)
    together = np.zeros((len(X), len(pairs), ensemble.n_outputs))
    for tree in range(ensemble.n_trees):
        at = slice(int(ensemble.tree_start[tree]), int(ensemble.tree_start[tree + 1]))
        value, first = ensemble.centred_value[at], int(ensemble.tree_output[tree])
        kernels.add_interactions(X, tree_nodes(ensemble, tree), share[at], value, first, group, number, together)
    return together / ensemble.n_trees if ensemble.averaged else together


def main_effects(
    ensemble: TreeEnsemble, X: NDArray[np.floating[Any]], n: Array, group: NDArray[np.int64], n_groups: int
) -> Array:
    """Return what the splits on each group do on each row without the splits on all other groups.

    Parameters
    ----------
    ensemble, X, n, group, n_groups
        As for :func:`interactions`.

    Returns
    -------
    array of shape (n_rows, n_groups, n_outputs)
        A function of the columns of the group alone; 0 on average in the shares of the nodes.
    """
    from debias.rows.kernels import interactions as kernels

    share, effect = child_shares(ensemble, n), np.zeros((len(X), n_groups, ensemble.n_outputs))
    for tree in range(ensemble.n_trees):
        at = slice(int(ensemble.tree_start[tree]), int(ensemble.tree_start[tree + 1]))
        value, first = ensemble.centred_value[at], int(ensemble.tree_output[tree])
        kernels.add_main_effects(X, tree_nodes(ensemble, tree), share[at], value, first, group, effect)
    return effect / ensemble.n_trees if ensemble.averaged else effect
