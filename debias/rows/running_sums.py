"""Sums of gradients at the nodes of a boosted model, each at the margin that the trees before it have left."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.parallel import over_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.rows.rows import Rows
    from debias.trees.ensemble import TreeEnsemble
    from debias.trees.objectives import Objective


@dataclass(frozen=True, eq=False)
class RunningSums:
    """Sums over evaluation rows at every node, from which the library's gains are made.

    Parameters
    ----------
    n : array of float64 of shape (n_nodes,)
        Weight of the rows.
    gradient : array of float64 of shape (n_nodes,)
        Weighted sum of the negative gradients of the loss.
    hessian : array of float64 of shape (n_nodes,)
        Weighted sum of its second derivatives.
    """

    n: NDArray[np.float64]
    gradient: NDArray[np.float64]
    hessian: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SummedRows:
    """Rows of which only sums at the nodes are known, for figures that are made of such sums.

    Parameters
    ----------
    node_sums : object
        With attributes n, s and n_root, as :class:`debias.rows.node_totals.NodeTotals` has them.
    running : callable
        Returns the sums of gradients for ``ahead``, see `running_sums`.
    """

    node_sums: Any
    running: Callable[[float], RunningSums]
    in_bag: None = None


def running_sums(rows: Rows | SummedRows, ahead: float = 0.0) -> RunningSums:
    """Return the sums over rows at the nodes of an additive ensemble whose trees have one output each.

    Parameters
    ----------
    rows : Rows
        Their objective has a loss of each row, and they are in no bag.
    ahead : float
        The gradients in a tree are those at the margin before it, plus `ahead` times the value of the leaf of the row.
    """
    return rows.running(ahead) if isinstance(rows, SummedRows) else sums_of(rows, rows.leaf_blocks(), ahead)


def sums_of(
    rows: Rows, blocks: Iterable[tuple[slice | NDArray[np.int64], NDArray[np.int32]]], ahead: float
) -> RunningSums:
    """Return the sums over some of the rows: `blocks` has their positions and their leaves in every tree."""
    ensemble = rows.ensemble
    n, sums = np.zeros(ensemble.n_nodes), np.zeros((ensemble.n_nodes, 2))
    for part, leaves in blocks:
        _add(rows, part, leaves, ahead, n, sums)
    _sum_up(ensemble, n, sums)
    return RunningSums(n, sums[:, 0].copy(), sums[:, 1].copy())


def _add(
    rows: Rows,
    part: slice | NDArray[np.int64],
    leaves: NDArray[np.int32],
    ahead: float,
    n: NDArray[np.float64],
    sums: NDArray[np.float64],
) -> None:
    """Add a block of rows at their leaves."""
    ensemble, response, weight = rows.ensemble, rows.response.part(part), rows.weight[part]
    objective, target, margin = ensemble.objective, response.target, response.margin
    assert target is not None
    margin = np.tile(ensemble.base, (len(target), 1)) if margin is None else margin.copy()
    at_once = ensemble.trees_a_round
    for first in range(0, ensemble.n_trees, at_once):
        trees = range(first, min(first + at_once, ensemble.n_trees))
        steps = np.zeros_like(margin)
        at_margin = None if ahead else _derivatives(objective, target, margin)
        for tree in trees:
            begin, end = ensemble.tree_start[tree : tree + 2]
            leaf, k = leaves[:, tree], ensemble.tree_output[tree]
            step = ensemble.value[begin + leaf, 0]
            if at_margin is None:
                looked_at = margin.copy()
                looked_at[:, k] += ahead * step
                gradient, hessian = _derivatives(objective, target, looked_at)
            else:
                gradient, hessian = at_margin
            for into, added in ((n, 1.0), (sums[:, 0], gradient[:, k]), (sums[:, 1], hessian[:, k])):
                into[begin:end] += np.bincount(leaf, weights=weight * added, minlength=end - begin)
            steps[:, k] += step
        margin += steps


def _derivatives(
    objective: Objective, target: NDArray[np.float64], margin: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the negative gradients and the second derivatives of rows at their margins."""
    return objective.response(target, margin), objective.curvature(margin, target)


def _sum_up(ensemble: TreeEnsemble, n: NDArray[np.float64], sums: NDArray[np.float64]) -> None:
    """Sum up the leaves at the nodes above."""
    from debias.trees.kernels import nodes as kernels

    arrays = (ensemble.left, ensemble.right, n, sums, np.zeros(0))
    over_parts(
        ensemble.n_trees,
        lambda trees: kernels.sum_up(ensemble.tree_start[trees.start : trees.stop + 1], *arrays),
        at_least=ensemble.trees_worth,
    )


def of_leaves(ensemble: TreeEnsemble, at_leaves: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return sums at every node of what the leaves below have; entries of inner nodes are not read.

    Parameters
    ----------
    ensemble : TreeEnsemble
    at_leaves : array of shape (n_nodes,)

    Returns
    -------
    array of shape (n_nodes,)
    """
    total = np.where(ensemble.left < 0, at_leaves, 0.0)
    _sum_up(ensemble, total, np.zeros((total.size, 0)))
    return total
