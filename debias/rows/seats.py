"""The seats of trees, the nodes where lines are fitted, and the rows at them.

Compiled loops over permuted responses read the seats of all trees in preorder, and rows sorted by seat.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.rows.effects import LinearEffects
    from debias.trees.ensemble import TreeEnsemble

    Single = NDArray[np.float32]
    Positions = NDArray[np.int32]
    RowsOfTree = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]


@dataclass(frozen=True, eq=False, kw_only=True)
class SeatsOfTree:
    """The seats of one tree (see debias.rows.kernels.effects).

    Parameters
    ----------
    first : int
        First response column of the tree.
    inside, outside : tuples of arrays of shape (n_rows of the tree,)
        In-bag rows and evaluation rows of the tree, by their seats: their numbers, seats and weights.
    parent : array of int32 of shape (n_seats,)
    scale : array of float64 of shape (n_seats,)
        Factor of the term of each node.
    """

    first: int
    inside: RowsOfTree
    outside: RowsOfTree
    parent: NDArray[np.int32]
    scale: NDArray[np.float64]


def seats_of_tree(
    ensemble: TreeEnsemble,
    tree: int,
    inside: tuple[NDArray[np.int32], NDArray[np.float64]],
    outside: tuple[NDArray[np.int32], NDArray[np.float64]],
    min_node_size: float,
    shrinkage: float,
    n_trees: int,
) -> SeatsOfTree:
    """Return the seats of one tree; `inside` and `outside` are the leaves and weights of all rows."""
    from debias.rows.kernels import effects as kernels

    nodes = slice(int(ensemble.tree_start[tree]), int(ensemble.tree_start[tree + 1]))
    left, right = ensemble.left[nodes], ensemble.right[nodes]
    n_in: NDArray[np.float64] = np.bincount(inside[0], weights=inside[1], minlength=left.size).astype(np.float64)
    n: NDArray[np.float64] = np.bincount(outside[0], weights=outside[1] > 0, minlength=left.size).astype(np.float64)
    seat_of_node, parent = np.empty((2, left.size), dtype=np.int32)
    n_seats = kernels.find_seats(left, right, ensemble.parent[nodes], n_in, n, min_node_size, 2.0, seat_of_node, parent)
    at_seats = n_in[np.unique(seat_of_node, return_index=True)[1]]  # parents first: the node of a seat is the first
    enough = at_seats >= max(min_node_size, np.finfo(float).tiny)
    scale = np.divide(at_seats, at_seats + shrinkage, out=np.zeros(n_seats), where=enough)

    def of_tree(leaves: NDArray[np.int32], weight: NDArray[np.float64]) -> RowsOfTree:
        rows = np.flatnonzero(weight)
        seats = seat_of_node[leaves[rows]]
        by_seat = np.argsort(seats.astype(np.uint16) if n_seats < 2**16 else seats, kind="stable")  # radix sort
        rows = rows[by_seat]
        return rows.astype(np.int32), seats[by_seat], weight[rows]

    return SeatsOfTree(
        first=int(ensemble.tree_output[tree]),
        inside=of_tree(*inside),
        outside=of_tree(*outside),
        parent=parent[:n_seats].copy(),
        scale=scale / (outside[1].sum() * n_trees),
    )


@dataclass(frozen=True, eq=False)
class Side:
    """The in-bag rows or the evaluation rows of all trees, sorted by seat in each.

    Parameters
    ----------
    first : array of int64 of shape (n_trees + 1,)
        Where the rows of each tree begin.
    start : array of int32 of shape (n_seats + n_trees,)
        Where the rows of each seat begin in its tree, and where those of the tree end.
    rows, weight : arrays of shape (n_rows of all trees + padding,)
    n : array of float64 of shape (n_seats,)
        Weight at each seat.
    """

    first: NDArray[np.int64]
    start: Positions
    rows: Positions
    weight: Single
    n: NDArray[np.float64]

    @classmethod
    def of_trees(
        cls, sides: list[RowsOfTree], positions: list[Positions], first_seat: NDArray[np.int64], parent: Positions
    ) -> Side:
        """Sort the rows of every tree by the positions of their seats."""
        from debias.rows.kernels import lines as kernels

        first, at = np.cumsum([0, *(side[0].size for side in sides)]), first_seat + np.arange(first_seat.size)
        start, n = np.empty(at[-1], dtype=np.int32), np.empty(parent.size)
        rows = np.zeros(first[-1] + kernels.PADDING, dtype=np.int32)
        weight = np.zeros(rows.size, dtype=np.float32)
        for tree, (side, position) in enumerate(zip(sides, positions, strict=True)):
            seats = slice(int(first_seat[tree]), int(first_seat[tree + 1]))
            of_tree = slice(int(first[tree]), int(first[tree + 1]))
            sorted_rows = (start[at[tree] : at[tree + 1]], rows[of_tree], weight[of_tree], n[seats])
            arrays: tuple[Any, ...] = (*side, position, parent[seats], *sorted_rows)
            kernels.sort_rows(*arrays)
        return cls(first, start, rows, weight, n)

    @property
    def arrays(self) -> tuple[NDArray[np.int64], Positions, Positions, Single]:
        """The arrays that kernels take."""
        return self.first, self.start, self.rows, self.weight


@dataclass(frozen=True, eq=False, kw_only=True)
class Seats:
    """The seats of all trees in preorder, with their rows.

    Parameters
    ----------
    first : array of int64 of shape (n_trees + 1,)
        Where the seats of each tree begin.
    parent, depth : arrays of int32 of shape (n_seats,)
        In each tree from 0.
    scale : array of float64 of shape (n_seats,)
        Factor of the term of each node, up to a constant.
    column : array of int32 of shape (n_trees,)
        First response column of each tree.
    inside, outside : Side
        Evaluation weights are divided by the largest.
    """

    first: NDArray[np.int64]
    parent: Positions
    depth: Positions
    scale: NDArray[np.float64]
    column: Positions
    inside: Side
    outside: Side

    @classmethod
    def of(cls, effects: LinearEffects) -> Seats:
        """Put the seats of every tree in preorder."""
        from debias.rows.kernels import lines as kernels

        trees = effects.trees
        first = np.cumsum([0, *(tree.parent.size for tree in trees)])
        parent, depth = np.empty((2, first[-1]), dtype=np.int32)
        scale, positions = np.empty(first[-1]), []
        for tree, begin, end in zip(trees, first[:-1], first[1:], strict=True):
            position = np.empty(tree.parent.size, dtype=np.int32)
            kernels.order_seats(tree.parent, position, parent[begin:end], depth[begin:end])
            scale[begin + position] = tree.scale
            positions.append(position)
        unit = effects.weight.max()
        evaluated = [(rows, seats, weight / unit) for rows, seats, weight in (tree.outside for tree in trees)]
        return cls(
            first=first,
            parent=parent,
            depth=depth,
            scale=scale / max(scale.max(), np.finfo(float).tiny),
            column=np.array([tree.first for tree in trees], dtype=np.int32),
            inside=Side.of_trees([tree.inside for tree in trees], positions, first, parent),
            outside=Side.of_trees(evaluated, positions, first, parent),
        )

    @cached_property
    def most(self) -> int:
        """Largest number of seats of a tree."""
        return int(np.diff(self.first).max())

    @cached_property
    def deepest(self) -> int:
        """Depth of the deepest seat."""
        return int(self.depth.max())
