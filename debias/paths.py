"""The paths of rows through the splits that tell evaluation rows apart, laid out for the compiled loops."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import RowsError
from debias.routing import block_size, route

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.ensemble import TreeEnsemble
    from debias.rows import Rows


ROWS_AT_ONCE = 512


@dataclass(frozen=True, eq=False)
class Paths:
    """Routed rows, kept: a slot for each row and tree, and the dividing splits (see debias.path_kernels).

    Parameters
    ----------
    ensemble : TreeEnsemble
    order : array of int64 of shape (n_rows,)
        Positions of the rows in the order they are kept here, rows of one block together.
    block : array of int64 of shape (n_rows,)
        Block of each row, in that order.
    weight : array of float64 of shape (n_rows,)
        Evaluation weights, in that order.
    slots : array of int of shape (n_trees, n_rows)
    evaluated : array of bool of shape (n_trees, n_rows)
        Whether the row is an evaluation row of the tree.
    in_bag : array of shape (n_trees, n_rows), or None
        Weight in the tree's bag, without the part that depends on the response; None if there are no bags.
    start : array of int64 of shape (n_trees + 1,)
        Where each tree's dividing splits begin.
    splits : array of int64 of shape (n_dividing,)
        Flat indices of the dividing splits in the ensemble.
    slot_of_split : array of int32 of shape (n_dividing,)
    """

    ensemble: TreeEnsemble
    order: NDArray[np.int64]
    block: NDArray[np.int64]
    weight: NDArray[np.float64]
    slots: NDArray[Any]
    evaluated: NDArray[np.bool_]
    in_bag: NDArray[Any] | None
    start: NDArray[np.int64]
    splits: NDArray[np.int64]
    slot_of_split: NDArray[np.int32]

    @classmethod
    def of(cls, rows: Rows) -> Paths:
        """Route the rows and lay out their paths.

        Rows that take no part, because they had no weight in training, are left out.
        """
        from debias import path_kernels

        ensemble = rows.ensemble
        used = np.ones(rows.n_rows, dtype=bool)
        if rows.in_bag is not None and rows.in_bag.excluded is not None:
            used = ~rows.in_bag.excluded
        block = np.arange(rows.n_rows) if rows.blocks is None else rows.blocks
        order = np.argsort(block, kind="stable")
        order = order[used[order]]
        leaves = np.take(_leaves(rows), order, axis=1)
        weight = rows.weight[order]
        in_bag, evaluated = _bags(rows, order)
        evaluated &= weight > 0
        splits, slots_of = [], []
        for tree in range(ensemble.n_trees):
            nodes = slice(ensemble.tree_start[tree], ensemble.tree_start[tree + 1])
            left, parent = ensemble.left[nodes], ensemble.parent[nodes]
            seen, grown = np.zeros(left.size), np.zeros(left.size)
            path_kernels.add_at_leaves(leaves[tree], weight * evaluated[tree], seen)
            if in_bag is None:
                grown[left < 0] = 1.0
            else:
                path_kernels.add_at_leaves(leaves[tree], in_bag[tree], grown)
            dividing, lies_in = np.empty((2, left.size // 2 + 1), dtype=np.int32)
            tree_arrays = (left, ensemble.right[nodes], parent, seen, grown, leaves[tree])
            n = path_kernels.find_slots(*tree_arrays, leaves[tree], dividing, lies_in)  # slots take the leaves' place
            splits.append(dividing[:n].astype(np.int64) + nodes.start)
            slots_of.append(lies_in[:n])
        start = np.cumsum([0, *(part.size for part in splits)])
        if not evaluated.any():
            raise RowsError("no row is an evaluation row of any tree: there is nothing to test")
        small = np.diff(start).max() < 2**15
        return cls(
            ensemble=ensemble,
            order=order,
            block=np.ascontiguousarray(block[order]),
            weight=weight,
            slots=leaves.astype(np.uint16) if small else leaves,
            evaluated=evaluated,
            in_bag=in_bag,
            start=start,
            splits=np.concatenate(splits),
            slot_of_split=np.concatenate(slots_of),
        )

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.order.size

    @property
    def n_splits(self) -> int:
        """Number of dividing splits of all trees."""
        return self.splits.size

    @cached_property
    def n_blocks(self) -> int:
        """Number of blocks; of rows if there are no blocks."""
        return np.unique(self.block).size

    @cached_property
    def evaluated_blocks(self) -> float:
        """Number of blocks (rows, if there are none) that a tree is evaluated on, on average."""
        _, of_row, size = np.unique(self.block, return_inverse=True, return_counts=True)
        return float((self.evaluated.sum(axis=0) / size[of_row]).sum() / self.ensemble.n_trees)

    @cached_property
    def evaluation_weight(self) -> list[NDArray[np.float64]]:
        """Weight n' of the evaluation rows in every slot, tree by tree."""
        return [self._slot_weights(tree, self.weight * self.evaluated[tree]) for tree in range(self.ensemble.n_trees)]

    @cached_property
    def in_bag_weight(self) -> list[NDArray[np.float64]]:
        """Weight of the in-bag rows in every slot, tree by tree."""
        assert self.in_bag is not None
        return [self._slot_weights(tree, self.in_bag[tree]) for tree in range(self.ensemble.n_trees)]

    def of_tree(self, tree: int) -> slice:
        """Return where the dividing splits of a tree stand."""
        return slice(int(self.start[tree]), int(self.start[tree + 1]))

    def factor(self, node_weight: NDArray[np.float64], inflated: bool = False) -> NDArray[np.float64]:
        """Return what a row's deviation is multiplied with on either side of each dividing split.

        Parameters
        ----------
        node_weight : array of shape (n_nodes,)
            What the scorer multiplies each split's term with.
        inflated : bool
            Whether residuals, which are taken from the node's own mean and so are too small, are enlarged by
            sqrt(n'_t / (n'_t - 1)), n'_t the effective number of blocks (of rows, if there are none), at least 2.

        Returns
        -------
        array of shape (n_dividing, 2)
        """
        ensemble = self.ensemble
        n_root = np.array([n[0] for n in self.evaluation_weight])
        scale = np.divide(1.0, n_root, out=np.zeros_like(n_root), where=n_root > 0)
        if ensemble.averaged:
            scale /= (n_root > 0).sum()
        factor = np.empty((self.n_splits, 2))
        for tree, n in enumerate(self.evaluation_weight):
            at = self.of_tree(tree)
            inside = n[self.slot_of_split[at]]
            factor[at, 0], factor[at, 1] = n[2::2] / inside, -n[1::2] / inside
            factor[at] *= scale[tree]
            if inflated:
                effective = np.maximum(inside**2 / self._squares_of_blocks(tree)[self.slot_of_split[at]], 2.0)
                factor[at] *= np.sqrt(effective / (effective - 1))[:, None]
        return factor * node_weight[self.splits][:, None]

    def slot_sums(self, tree: int, weight: NDArray[Any], y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weighted sums of y, shape (n_rows, width), in every slot of a tree, shape (n_slots, width)."""
        from debias import path_kernels

        at = self.of_tree(tree)
        sums = np.empty((2 * (at.stop - at.start) + 1, y.shape[1], 1))
        path_kernels.sum_slots(self.slots[tree], weight, y[:, :, None], self.slot_of_split[at], sums)
        return sums[:, :, 0]

    def parts(self) -> list[tuple[int, int]]:
        """Divide the rows into parts that do not cut a block, the same whatever the number of threads."""
        begins = np.flatnonzero(np.r_[True, self.block[1:] != self.block[:-1]])
        edges = [int(begins[np.searchsorted(begins, at)]) for at in range(0, int(begins[-1]) + 1, ROWS_AT_ONCE)]
        edges = [*dict.fromkeys(edges), self.n_rows]
        return list(zip(edges[:-1], edges[1:], strict=True))

    def _squares_of_blocks(self, tree: int) -> NDArray[np.float64]:
        from debias import path_kernels

        weight, at = self.weight * self.evaluated[tree], self.of_tree(tree)
        squares = np.zeros(2 * (at.stop - at.start) + 1)
        path_kernels.sum_squares_of_blocks(self.slots[tree], weight, self.block, self.slot_of_split[at], squares)
        return squares

    def _slot_weights(self, tree: int, weight: NDArray[Any]) -> NDArray[np.float64]:
        return self.slot_sums(tree, weight, np.ones((self.n_rows, 1)))[:, 0]


def _leaves(rows: Rows) -> NDArray[np.int32]:
    """Return the leaf of every row in every tree, shape (n_trees, n_rows)."""
    ensemble = rows.ensemble
    leaves = np.empty((ensemble.n_trees, rows.n_rows), dtype=np.int32)
    step = block_size(ensemble.n_trees)
    for begin in range(0, rows.n_rows, step):
        part = slice(begin, min(begin + step, rows.n_rows))
        leaves[:, part] = route(ensemble, rows.table.matrix(ensemble, part), n_jobs=rows.n_jobs).T
    return leaves


def _bags(rows: Rows, order: NDArray[np.int64]) -> tuple[NDArray[Any] | None, NDArray[np.bool_]]:
    """Return in-bag weights (small integers where they are) and who is evaluated, shape (n_trees, n_rows) each."""
    shape = (rows.ensemble.n_trees, order.size)
    bags = rows.in_bag
    if bags is None:
        return None, np.ones(shape, dtype=bool)
    in_bag: NDArray[Any] = np.empty(shape, dtype=np.uint8)
    for tree in range(shape[0]):
        drawn = bags.multiplicity(tree)[order]
        if in_bag.dtype == np.uint8 and (drawn.max() > 255 or (drawn != np.floor(drawn)).any()):
            in_bag = in_bag.astype(np.float64)
        in_bag[tree] = drawn
    evaluated = np.empty((shape[0], rows.n_rows), dtype=bool)
    step = 65536
    for begin in range(0, rows.n_rows, step):
        end = min(begin + step, rows.n_rows)
        evaluated[:, begin:end] = ~bags.not_evaluated(begin, end)
    return in_bag, np.take(evaluated, order, axis=1)
