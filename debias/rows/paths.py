"""The paths of rows through the splits that divide evaluation rows, laid out for the compiled loops.

A *dividing split* has evaluation rows on both sides. It has two *slots*, one on each side; a row lies in the deepest
slot that it reaches. :mod:`debias.rows.kernels.paths` describes how they are numbered.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.table import RoutedTable
from debias.errors import RowsError
from debias.parallel import allowed
from debias.trees.routing import LEAVES_AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from debias.rows.rows import Rows
    from debias.trees.ensemble import TreeEnsemble

LEAST_ROWS = 512
MOST_PARTS = 64
LEAST_EXPONENT = -900
"""Least power of 2 by which numbers are divided, so that its reciprocal is far from infinity."""


@dataclass(frozen=True, eq=False, kw_only=True)
class DividingSplits:
    """The splits that divide evaluation rows, and their slots (see debias.rows.kernels.paths).

    Parameters
    ----------
    ensemble : TreeEnsemble
    start : array of int64 of shape (n_trees + 1,)
        Index of the first dividing split of each tree.
    splits : array of int64 of shape (n_dividing,)
        Flat indices of the dividing splits in the ensemble.
    slot_of_split : array of int32 of shape (n_dividing,)
    """

    ensemble: TreeEnsemble
    start: NDArray[np.int64]
    splits: NDArray[np.int64]
    slot_of_split: NDArray[np.int32]

    @property
    def n_splits(self) -> int:
        """Number of dividing splits of all trees."""
        return self.splits.size

    @cached_property
    def first_slot(self) -> NDArray[np.int64]:
        """Index of the first slot of each tree among the slots of all trees, shape (n_trees + 1,)."""
        return 2 * self.start + np.arange(self.start.size)

    @cached_property
    def inside(self) -> NDArray[np.int64]:
        """The slot that each dividing split lies in, among the slots of all trees, shape (n_dividing,)."""
        return np.repeat(self.first_slot[:-1], np.diff(self.start)) + self.slot_of_split

    @cached_property
    def to_left(self) -> NDArray[np.int64]:
        """The slot to the left of each dividing split, among the slots of all trees; the slot to its right is next."""
        return 2 * np.arange(self.n_splits) + np.repeat(np.arange(1, self.start.size), np.diff(self.start))

    def side_factors(
        self,
        node_weight: NDArray[np.float64],
        n_root: NDArray[np.float64],
        n_inside: NDArray[np.float64],
        n_left: NDArray[np.float64],
        n_right: NDArray[np.float64],
        effective: NDArray[np.float64] | None,
    ) -> NDArray[np.float64]:
        """Return the factor of a row's deviation on either side of each dividing split.

        Parameters
        ----------
        node_weight : array of shape (n_nodes,)
            Factor of each split's term in the score.
        n_root : array of shape (n_trees,)
            Evaluation weight n'_T of each tree.
        n_inside, n_left, n_right : arrays of shape (n_dividing,)
            Evaluation weight at each dividing split, and on its sides.
        effective : array of shape (n_dividing,), or None
            Effective number n of rows (blocks) at each split. If it is not None, deviations are enlarged by
            sqrt(n / (n - 1)), because they are taken from the mean of the node itself and are too small.

        Returns
        -------
        array of shape (n_dividing, 2)
        """
        scale = np.divide(1.0, n_root, out=np.zeros_like(n_root), where=n_root > 0)
        if self.ensemble.averaged:
            scale /= (n_root > 0).sum()
        factor = np.stack([n_right / n_inside, -n_left / n_inside], axis=1)
        factor *= np.repeat(scale, np.diff(self.start))[:, None]
        if effective is not None:
            factor *= np.sqrt(effective / (effective - 1))[:, None]
        return factor * node_weight[self.splits][:, None]


@dataclass(frozen=True, eq=False, kw_only=True)
class Paths(DividingSplits):
    """The routed rows: a slot for each row and tree, and the dividing splits (see debias.rows.kernels.paths).

    Parameters
    ----------
    ensemble, start, splits, slot_of_split
        As for :class:`DividingSplits`.
    order : array of int64 of shape (n_rows,)
        Positions of the rows in the order used here, with the rows of a block together.
    block : array of int64 of shape (n_rows,)
        Block of each row, in this order.
    weight : array of float64 of shape (n_rows,)
        Evaluation weights, in this order.
    slots : array of int of shape (n_trees, n_rows)
    evaluated : array of bool of shape (n_trees, n_rows)
        Whether the row is an evaluation row of the tree.
    in_bag : array of shape (n_trees, n_rows), or None
        Weight in the bag of the tree, without the part that depends on the response; None if there are no bags.
    n_jobs : int
        Number of threads.
    """

    order: NDArray[np.int64]
    block: NDArray[np.int64]
    weight: NDArray[np.float64]
    slots: NDArray[Any]
    evaluated: NDArray[np.bool_]
    in_bag: NDArray[Any] | None
    n_jobs: int

    @classmethod
    def of(cls, rows: Rows) -> Paths:
        """Route the rows and lay out their paths.

        Rows that had no weight in training are left out.
        """
        from debias.rows.kernels import paths as path_kernels

        ensemble = rows.ensemble
        order, block = row_order(rows)
        weight = rows.weight[order]
        in_bag, evaluated = bags_in_order(rows, order)
        evaluated &= weight > 0
        slots: NDArray[Any] = np.empty((ensemble.n_trees, order.size), dtype=np.uint16)
        splits, slots_of = [], []
        for tree, leaves in enumerate(_leaves_in_order(rows, order)):
            nodes = slice(ensemble.tree_start[tree], ensemble.tree_start[tree + 1])
            left, parent = ensemble.left[nodes], ensemble.parent[nodes]
            seen, grown = np.zeros(left.size), np.zeros(left.size)
            path_kernels.add_at_leaves(leaves, weight * evaluated[tree], seen)
            if in_bag is None:
                grown[left < 0] = 1.0
            else:
                path_kernels.add_at_leaves(leaves, in_bag[tree], grown)
            dividing, lies_in = np.empty((2, left.size // 2 + 1), dtype=np.int32)
            tree_arrays = (left, ensemble.right[nodes], parent, seen, grown, leaves)
            n = path_kernels.find_slots(*tree_arrays, leaves, dividing, lies_in)  # slots overwrite the leaves
            if n >= 2**15 and slots.dtype == np.uint16:
                slots = slots.astype(np.int32)
            slots[tree] = leaves
            splits.append(dividing[:n].astype(np.int64) + nodes.start)
            slots_of.append(lies_in[:n])
        start = np.cumsum([0, *(part.size for part in splits)])
        if not evaluated.any():
            raise RowsError("no row is an evaluation row of any tree, so there is nothing to test")
        return cls(
            ensemble=ensemble,
            order=order,
            block=block,
            weight=weight,
            slots=slots,
            evaluated=evaluated,
            in_bag=in_bag,
            start=start,
            splits=np.concatenate(splits),
            slot_of_split=np.concatenate(slots_of),
            n_jobs=rows.n_jobs,
        )

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.order.size

    @cached_property
    def n_blocks(self) -> int:
        """Number of blocks; number of rows if there are no blocks."""
        return np.unique(self.block).size

    @cached_property
    def n_weighted_blocks(self) -> int:
        """Number of blocks, or rows, with a weight above 0: others add nothing to any score."""
        return np.unique(self.block[self.weight > 0]).size

    @cached_property
    def evaluated_blocks(self) -> float:
        """Average number of blocks (rows, if there are no blocks) that a tree is evaluated on."""
        _, of_row, size = np.unique(self.block, return_inverse=True, return_counts=True)
        return float((self.evaluated.sum(axis=0) / size[of_row]).sum() / self.ensemble.n_trees)

    @cached_property
    def evaluation_weight(self) -> NDArray[np.float64]:
        """Weight n' of the evaluation rows in every slot of all trees, shape (n_slots,)."""
        return self.slot_sums(self.evaluated, self.weight, np.ones((self.n_rows, 1)))[:, 0]

    @cached_property
    def in_bag_weight(self) -> NDArray[np.float64]:
        """Weight of the in-bag rows in every slot of all trees, shape (n_slots,)."""
        assert self.in_bag is not None
        return self.slot_sums(self.in_bag, np.ones(self.n_rows), np.ones((self.n_rows, 1)))[:, 0]

    def factor(self, node_weight: NDArray[np.float64], enlarged: bool = False) -> NDArray[np.float64]:
        """Return the factor of the deviation of a row on either side of each dividing split.

        Parameters
        ----------
        node_weight : array of shape (n_nodes,)
            Factor of the term of each split in the score.
        enlarged : bool
            Whether deviations are enlarged by sqrt(n'_t / (n'_t - 1)), where n'_t is the effective number of blocks (of
            rows, if there are no blocks), at least 2. They are taken from the mean of the node itself and are too
            small.

        Returns
        -------
        array of shape (n_dividing, 2)
        """
        n = self.evaluation_weight
        n_inside, effective = n[self.inside], None
        if enlarged:
            effective = np.maximum(self._effective_blocks[self.inside], 2.0)
        n_root, n_left, n_right = n[self.first_slot[:-1]], n[self.to_left], n[self.to_left + 1]
        return self.side_factors(node_weight, n_root, n_inside, n_left, n_right, effective)

    def slot_sums(
        self,
        share: NDArray[Any],
        weight: NDArray[np.float64],
        y: NDArray[np.float64],
        tree_output: NDArray[np.int32] | None = None,
        width: int | None = None,
    ) -> NDArray[np.float64]:
        """Return the weighted sums of responses in every slot of all trees.

        Parameters
        ----------
        share : array of shape (n_trees, n_rows)
        weight : array of shape (n_rows,)
            The weight of row i is ``share[tree, i] * weight[i]``.
        y : array of shape (n_rows, n_outputs)
        tree_output : array of shape (n_trees,), optional
            First output of each tree; 0 by default.
        width : int, optional
            Number of outputs of each tree; all by default.

        Returns
        -------
        array of shape (n_slots of all trees, width)
        """
        from debias.rows.kernels import paths as path_kernels

        first = np.zeros(self.ensemble.n_trees, dtype=np.int32) if tree_output is None else tree_output
        sums = np.empty((self.first_slot[-1], y.shape[1] if width is None else width))
        share = share.view(np.uint8) if share.dtype == bool else share
        arrays: tuple[Any, ...] = (self.slots, share, weight, y, first, self.start, self.slot_of_split, sums)
        self._over_trees(lambda trees: path_kernels.sum_trees(*trees, *arrays))
        return sums

    @cached_property
    def parts(self) -> list[tuple[int, int]]:
        """Parts of the rows that do not cut a block; they do not depend on the number of threads."""
        begins = np.flatnonzero(np.r_[True, self.block[1:] != self.block[:-1]])
        part_size = max(LEAST_ROWS, -(-self.n_rows // MOST_PARTS))
        edges = [int(begins[np.searchsorted(begins, at)]) for at in range(0, int(begins[-1]) + 1, part_size)]
        edges = [*dict.fromkeys(edges), self.n_rows]
        return list(zip(edges[:-1], edges[1:], strict=True))

    @cached_property
    def _effective_blocks(self) -> NDArray[np.float64]:
        """Effective number n'^2 / (sum of squared weights of blocks) in every slot of all trees, shape (n_slots,)."""
        from debias.rows.kernels import paths as path_kernels

        # Squares of weights below 1e-154 would be 0. A power of 2 that is about 1 / n' changes no other result.
        n, squares = self.evaluation_weight, np.empty(self.first_slot[-1])
        unit = np.ldexp(1.0, -np.maximum(np.frexp(n)[1], LEAST_EXPONENT))
        arrays: tuple[Any, ...] = (
            self.slots,
            self.evaluated,
            self.weight,
            self.block,
            self.start,
            self.slot_of_split,
            unit,
            squares,
        )
        self._over_trees(lambda trees: path_kernels.sum_squares_of_blocks(*trees, *arrays))
        return np.divide((n * unit) ** 2, squares, out=np.zeros_like(n), where=n > 0)

    def _over_trees(self, function: Callable[[tuple[int, int]], None]) -> None:
        with allowed(self.n_jobs) as threads:
            threads.map(function, threads.shares(self.ensemble.n_trees))


def _leaves_in_order(rows: Rows, order: NDArray[np.int64]) -> Iterator[NDArray[np.int32]]:
    """Yield the leaf of each row in one tree after another. Only a few trees are in memory."""
    routed, n_trees = RoutedTable(rows.ensemble, rows.table), rows.ensemble.n_trees
    at_once = max(1, LEAVES_AT_ONCE // rows.n_rows)
    with allowed(rows.n_jobs):
        for begin in range(0, n_trees, at_once):
            for leaves in routed.leaves(np.arange(begin, min(begin + at_once, n_trees))).T:
                yield leaves[order]


def row_order(rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions of the rows that had weight in training, rows of a block together, and their blocks.

    Rows of a query are together in a random order. In the data the relevant rows often come first, and a permutation of
    whole queries would then not change the response.
    """
    used = np.ones(rows.n_rows, dtype=bool)
    if rows.in_bag is not None and rows.in_bag.excluded is not None:
        used = ~rows.in_bag.excluded
    block = np.arange(rows.n_rows) if rows.blocks is None else rows.blocks
    if rows.query is None:
        order = np.argsort(block, kind="stable")
    else:
        random = np.random.default_rng([1, rows.seed or 0]).permutation(rows.n_rows)
        order = np.lexsort((random, rows.query, block))
    order = order[used[order]]
    return order, np.ascontiguousarray(block[order])


def bags_in_order(rows: Rows, order: NDArray[np.int64]) -> tuple[NDArray[Any] | None, NDArray[np.bool_]]:
    """Return in-bag weights (as small integers if possible), and whether each row is evaluated.

    The weights do not contain the factor that depends on the response. Both arrays have shape (n_trees, n_rows).
    """
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
    evaluated = np.empty(shape, dtype=bool)
    for tree in range(shape[0]):
        is_out = np.zeros(rows.n_rows, dtype=bool)
        is_out[bags.out_of_bag(tree)] = True
        evaluated[tree] = is_out[order]
    return in_bag, evaluated
