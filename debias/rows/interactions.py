"""What the trees do with each feature alone, and what they do with two or three features together, on each row.

With the splits on a set of features only, the output is the path-dependent expectation of :mod:`debias.rows.without`.
Its part that needs all features of a set and no other is the sum over the subsets with alternating signs, so the parts
of all sets sum to the output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.rows.without import child_shares
from debias.trees.routing import tree_nodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from debias.trees.ensemble import TreeEnsemble

    Array = NDArray[np.float64]


ROWS_AT_ONCE = 32
"""The kernel follows so many rows at a time."""
VALUES_AT_ONCE = 2**24
"""Rows times sets times outputs that are in memory at a time, where not all are needed: 128 MB."""


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


def parts(
    ensemble: TreeEnsemble,
    X: NDArray[np.floating[Any]],
    n: Array,
    group: NDArray[np.int64],
    sets: Sequence[Sequence[int]] | NDArray[np.int64],
    n_groups: int,
) -> Array:
    """Return the part of the output that needs all groups of a set and no other, on each row.

    Parameters
    ----------
    ensemble : TreeEnsemble
    X : array of shape (n_rows, n_features)
        The float matrix on which the library routes.
    n : array of shape (n_nodes,)
        Evaluation weight of each node.
    group : array of int64 of shape (n_features,)
    sets : sequence of sets
        Of one, two or three different groups; each set once.
    n_groups : int

    Returns
    -------
    array of shape (n_rows, n_sets, n_outputs)
        In the unit of the output: a function of the columns of the set. With v_S for the output with the splits on S
        only, v_j - v for one group; v_jk - v_j - v_k + v for two; and so on.
    """
    from debias.rows.kernels import interactions as kernels

    share, numbered = child_shares(ensemble, n), _numbered(sets, n_groups)
    columns = np.ascontiguousarray(np.pad(X.T, ((0, 0), (0, -len(X) % ROWS_AT_ONCE)), mode="edge"))
    part = np.zeros((len(sets), ensemble.n_outputs, columns.shape[1]))
    for tree in range(ensemble.n_trees):
        at = slice(int(ensemble.tree_start[tree]), int(ensemble.tree_start[tree + 1]))
        value, first = ensemble.centred_value[at], int(ensemble.tree_output[tree])
        kernels.add_parts(columns, tree_nodes(ensemble, tree), share[at], value, first, group, *numbered, part)
    of_rows: Array = np.ascontiguousarray(np.moveaxis(part[:, :, : len(X)], 2, 0))
    return of_rows / ensemble.n_trees if ensemble.averaged else of_rows


def spreads(
    ensemble: TreeEnsemble,
    X: NDArray[np.floating[Any]],
    n: Array,
    group: NDArray[np.int64],
    sets: Sequence[Sequence[int]] | NDArray[np.int64],
    n_groups: int,
    weight: Array,
) -> Array:
    """Return the standard deviations of many parts, a few rows at a time.

    Parameters
    ----------
    ensemble, X, n, group, sets, n_groups
        As for :func:`parts`.
    weight : array of shape (n_rows,)

    Returns
    -------
    array of shape (n_sets,)
    """
    n_blocks = VALUES_AT_ONCE // max(1, len(sets) * ensemble.n_outputs) // ROWS_AT_ONCE
    n_at_once, share = max(1, n_blocks) * ROWS_AT_ONCE, weight / weight.sum()
    mean, square = np.zeros((2, len(sets), ensemble.n_outputs))
    for begin in range(0, len(X) if len(sets) else 0, n_at_once):
        some = slice(begin, begin + n_at_once)
        part = parts(ensemble, X[some], n, group, sets, n_groups)
        mean += np.tensordot(share[some], part, axes=1)
        square += np.tensordot(share[some], part**2, axes=1)
    spread: Array = np.sqrt(np.maximum(square - mean**2, 0.0).sum(axis=1))
    return spread


def _numbered(
    sets: Sequence[Sequence[int]] | NDArray[np.int64], n_groups: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """Return the numbers of single groups and of pairs, and the triples with theirs, as the kernel reads them."""
    alone, pair = np.full(n_groups, -1, dtype=np.int32), np.full((n_groups, n_groups), -1, dtype=np.int32)
    triples = [(*members, number) for number, members in enumerate(sets) if len(members) == 3]
    for number, members in enumerate(sets):
        if len(members) == 1:
            alone[members[0]] = number
        elif len(members) == 2:
            pair[members[0], members[1]] = pair[members[1], members[0]] = number
    return alone, pair, np.array(triples, dtype=np.int64).reshape(-1, 4)
