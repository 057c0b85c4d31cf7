"""Sums of gradients at the nodes of a boosted model, each at the margin that the trees before it have left."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from debias.parallel import over_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.rows.rows import Rows
    from debias.trees.ensemble import TreeEnsemble
    from debias.trees.in_bag import InBag
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
    running : callable
        Returns the sums of gradients for ``ahead``, see `running_sums`.
    """

    running: Callable[[float], RunningSums]
    in_bag: InBag | None = None


def running_sums(rows: Rows | SummedRows, ahead: float = 0.0) -> RunningSums:
    """Return the sums over rows at the nodes of an additive ensemble whose trees have one output each.

    Parameters
    ----------
    rows : Rows
        Their objective has a loss of each row, and they are in no bag.
    ahead : float
        The gradients in a tree are those at the margin before it, plus `ahead` times the value of the leaf of the row.
    """
    if isinstance(rows, SummedRows):
        return rows.running(ahead)
    n, gradient, hessian = sums_by_group(rows, rows.leaf_blocks(), ahead)[:, :, 0]
    return RunningSums(n, gradient, hessian)


def sums_by_group(
    rows: Rows,
    blocks: Iterable[tuple[slice | NDArray[np.int64], NDArray[np.int32]]],
    ahead: float,
    group: NDArray[np.int64] | None = None,
    n_groups: int = 1,
) -> NDArray[np.float64]:
    """Return sums over groups of rows at every node.

    Parameters
    ----------
    rows : Rows
    blocks : iterable of (slice or array, array of shape (n, n_trees))
        Positions of rows, and their leaves in every tree.
    ahead : float
        See `running_sums`.
    group : array of int of shape (n_rows,), optional
        The group of each row. By default all rows are in one.
    n_groups : int

    Returns
    -------
    array of float64 of shape (3, n_nodes, n_groups)
        Weights, weighted sums of negative gradients, and of second derivatives.
    """
    ensemble = rows.ensemble
    sums = np.zeros((ensemble.n_nodes, 3, n_groups))
    for part, leaves in blocks:
        _add(rows, part, leaves, ahead, None if group is None else group[part], sums)
    _sum_up(ensemble, np.zeros(ensemble.n_nodes), sums.reshape(ensemble.n_nodes, -1))
    return np.ascontiguousarray(sums.transpose(1, 0, 2))


def _add(
    rows: Rows,
    part: slice | NDArray[np.int64],
    leaves: NDArray[np.int32],
    ahead: float,
    group: NDArray[np.int64] | None,
    sums: NDArray[np.float64],
) -> None:
    """Add a block of rows at their leaves, in the column of their group."""
    ensemble, response, weight = rows.ensemble, rows.response.part(part), rows.weight[part]
    objective, target, margin = ensemble.objective, response.target, response.margin
    assert target is not None
    margin = np.tile(ensemble.base, (len(target), 1)) if margin is None else margin.copy()
    at_once, n_groups = ensemble.trees_a_round, sums.shape[2]
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
            cell, shape = leaf if group is None else leaf * n_groups + group, (end - begin, n_groups)
            for column, added in enumerate((weight, weight * gradient[:, k], weight * hessian[:, k])):
                of_cell = np.bincount(cell, weights=added, minlength=shape[0] * n_groups)
                sums[begin:end, column] += of_cell.reshape(shape)
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
