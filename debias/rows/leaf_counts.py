"""How many rows the leaves of some trees hold, beside how many training rows the model says they held."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.table import route_table
from debias.errors import RowsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from debias.data.response import Response
    from debias.data.table import Table
    from debias.trees.ensemble import TreeEnsemble

TREES_AT_MOST = 30
SMALLEST_LEAF = 5
"""Of trees with empty leaves: smaller ones are counted together, with the smallest that is none of them."""
LIKE_THE_LARGEST = 0.8
"""Share of the largest number of rows from which a booster's tree was grown on as good a sample."""
ROUNDS_AT_MOST = 10
"""Of a booster that stores sums of hessians: later ones rest on the few rows that are not yet fitted."""


@dataclass(frozen=True, eq=False)
class LeafCounts:
    """Counts in the leaves of one tree.

    Parameters
    ----------
    tree : int
        Which tree it is.
    node : array of int64 of shape (n_leaves,)
        The leaves, by their numbers in the tree.
    at : array of int32 of shape (n_rows,)
        Leaf of each row, numbered from 0; of the first rows only, where not all are kept.
    found, stored : array of float64 of shape (n_leaves,)
        Rows that reach each leaf, and training rows it held. Where the library stores sums of hessians, both are such
        sums, in units of a typical row.
    group : array of int64 of shape (n_leaves,)
        Which class the leaf speaks for; 0 throughout in regression.
    """

    tree: int
    node: NDArray[np.int64]
    at: NDArray[np.int32]
    found: NDArray[np.float64]
    stored: NDArray[np.float64]
    group: NDArray[np.int64]

    @cached_property
    def freedom(self) -> int:
        """Leaves less classes: how many counts are free once the rows of each class are counted."""
        return self.group.size - np.unique(self.group).size

    @property
    def pooled(self) -> LeafCounts:
        """The same with small leaves counted together, if there are empty ones, as in symmetric trees.

        Leaves that are cut at fixed places may be empty, and fresh rows fill those that happen to hold one training
        row less than it says: their dispersion is not that of leaves that were made to hold some.
        """
        if self.stored.min() > 0:
            return self
        enough = self.stored[self.stored >= SMALLEST_LEAF].min(initial=self.stored.max())
        alone = self.stored > enough
        number = np.cumsum(alone) * alone  # 0: counted together
        first = np.append(np.flatnonzero(self.stored == enough)[:1], np.flatnonzero(alone))
        return LeafCounts(
            self.tree,
            self.node[first],
            number[self.at].astype(np.int32),
            np.bincount(number, self.found).astype(np.float64),
            np.bincount(number, self.stored).astype(np.float64),
            self.group[first],
        )


class LeafCounter:
    """Counts rows in the leaves of up to 30 trees that have more leaves than classes, part by part.

    Counts add: those of two sets of rows to those of the union.

    Parameters
    ----------
    ensemble : TreeEnsemble
    keep : int, optional
        Of so many rows the leaves are kept, from which the overlap of trees is estimated; of all by default.
    """

    def __init__(self, ensemble: TreeEnsemble, keep: int | None = None) -> None:
        self.ensemble, self.keep = ensemble, keep
        self.trees = _sample(ensemble) if _tells(ensemble) else np.zeros(0, dtype=np.int64)
        self.n_rows = 0
        self._nodes = [slice(ensemble.tree_start[tree], ensemble.tree_start[tree + 1]) for tree in self.trees]
        self._leaf = [np.flatnonzero(ensemble.left[nodes] < 0) for nodes in self._nodes]
        self._number = [np.cumsum(ensemble.left[nodes] < 0) - 1 for nodes in self._nodes]
        self._sums = [np.zeros((2, leaf.size)) for leaf in self._leaf]  # rows or hessians; squares of these
        self._kept: list[NDArray[np.int32]] = []

    def add(self, leaves: NDArray[np.int32], response: Response) -> None:
        """Count rows whose leaves in `trees` are known, shape (n_rows, len(trees)); `response` is theirs."""
        from debias.rows.kernels import leaf_counts as leaf_kernels

        ones = np.zeros(0)
        counting = self.ensemble.count is not None or _unit_curvature(self.ensemble)
        curvatures = (ones for _ in self.trees) if counting else self._curvatures(leaves, response)
        at = np.empty(leaves.shape[::-1], dtype=np.int32).T
        for j, h in enumerate(curvatures):
            sums = np.zeros_like(self._sums[j])
            leaf_kernels.add_at_leaves(leaves[:, j], self._number[j], h, at[:, j], sums)
            self._sums[j] += sums
        room = len(at) if self.keep is None else self.keep - sum(map(len, self._kept))
        if room > 0:
            self._kept.append(at[:room].copy(order="K"))  # a view would keep all of it
        self.n_rows += len(leaves)

    def counts(self) -> list[LeafCounts]:
        """Return the counts of each tree; of none, if the model stores nothing that tells numbers of training rows."""
        counted = []
        kept = np.concatenate(self._kept) if self._kept else np.zeros((0, self.trees.size), dtype=np.int32)
        for j, (tree, nodes, leaf) in enumerate(zip(self.trees.tolist(), self._nodes, self._leaf, strict=True)):
            found, squares = self._sums[j][0], self._sums[j][1]
            if self.ensemble.count is not None:
                stored = self.ensemble.count[nodes][leaf].astype(np.float64)
            else:
                assert self.ensemble.cover is not None
                if not found.any():
                    continue
                unit = squares.sum() / found.sum()
                if self.ensemble.cover[nodes][leaf].min() <= 0:  # hessians that vanish count nothing
                    continue
                found, stored = found / unit, self.ensemble.cover[nodes][leaf] / unit
            counted.append(LeafCounts(tree, leaf, kept[:, j], found, stored, _group(self.ensemble, nodes, leaf)))
        return [each for each in counted if each.group.size > 1]

    def state(self) -> dict[str, NDArray[Any]]:
        """Return what was counted, as arrays."""
        sums = np.concatenate(self._sums, axis=1) if self._sums else np.zeros((2, 0))
        kept = np.concatenate(self._kept) if self._kept else np.zeros((0, self.trees.size), dtype=np.int32)
        return {"leaf_counts": sums, "leaves_kept": kept, "rows_counted": np.array(self.n_rows)}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take what :meth:`state` of another counter of the same trees returned in the place of one's own.

        Raises
        ------
        RowsError
            It is none of the same trees, or has numbers of leaves there are not: kernels would write beside the arrays.
        """
        sizes, kept = np.array([leaf.size for leaf in self._leaf], dtype=np.int64), state["leaves_kept"]
        right = state["leaf_counts"].shape == (2, sizes.sum()) and kept.shape[1:] == sizes.shape
        if not right or kept.min(initial=0) < 0 or (kept >= sizes).any():
            raise RowsError("what was counted in the leaves is damaged, or was counted by another version of debias")
        edges = np.cumsum(sizes)[:-1]
        self._sums = np.split(np.array(state["leaf_counts"]), edges, axis=1) if self._leaf else []
        self._kept, self.n_rows = [state["leaves_kept"]], int(state["rows_counted"])

    def _curvatures(self, leaves: NDArray[np.int32], response: Response) -> Iterator[NDArray[np.float64]]:
        """Yield each row's hessian as each tree saw it, weighed as the classes were."""
        ensemble = self.ensemble
        assert response.target is not None
        factor: Any = ensemble.cover_factor
        if ensemble.n_outputs == 1 and ensemble.positive_weight != 1:
            factor = np.where(response.target[:, 0] == 1, ensemble.positive_weight, 1.0)
        margin = np.tile(ensemble.base, (len(leaves), 1)) if response.margin is None else response.margin.copy()
        for j, tree in enumerate(self.trees):
            output = ensemble.tree_output[tree]
            if tree % ensemble.trees_a_round == 0:
                before = ensemble.objective.curvature(margin, response.target)
            yield np.ascontiguousarray(before[:, output] * factor)
            margin[:, output] += ensemble.value[ensemble.tree_start[tree] + leaves[:, j], 0]


def count_leaves(ensemble: TreeEnsemble, table: Table, response: Response) -> list[LeafCounts]:
    """Count the rows of a table in the leaves of up to 30 trees.

    Parameters
    ----------
    ensemble : TreeEnsemble
    table : Table
        Rows in question, columns in the model's order.
    response : Response
        Gives the classes that were weighed in training.

    Returns
    -------
    list of LeafCounts
        Empty if the model stores nothing that tells numbers of training rows.
    """
    counter = LeafCounter(ensemble)
    if not counter.trees.size:
        return []
    counter.add(route_table(ensemble, table, counter.trees), response)
    return counter.counts()


def _tells(ensemble: TreeEnsemble) -> bool:
    if ensemble.count is not None:
        return True
    return ensemble.cover is not None and not ensemble.averaged and _covers_count_rows(ensemble)


def _sample(ensemble: TreeEnsemble) -> NDArray[np.int64]:
    """Return trees spread over the ensemble; the first ones where covers depend on the margin before the tree."""
    if ensemble.count is None and not _unit_curvature(ensemble):
        return np.arange(min(ensemble.n_trees, (1 if ensemble.rescaled else ROUNDS_AT_MOST) * ensemble.trees_a_round))
    trees = np.arange(ensemble.n_trees)
    if ensemble.count is not None and not ensemble.averaged:
        at_root = ensemble.count[ensemble.tree_start[:-1]]
        # LightGBM's goss takes all rows at first, and fewer by gradient later; bags differ by a few rows.
        trees = trees[at_root >= LIKE_THE_LARGEST * at_root.max()]
    return trees[np.unique(np.linspace(0, trees.size - 1, min(TREES_AT_MOST, trees.size)).astype(np.int64))]


def _covers_count_rows(ensemble: TreeEnsemble) -> bool:
    """Whether the covers of the first round are whole numbers of rows: they are not if rows had weights or margins."""
    if not ensemble.objective.has_loss or ensemble.value.shape[1] > 1:
        return False
    if ensemble.objective.curvature_needs_response:
        return True
    n_first = ensemble.trees_a_round
    first = slice(0, ensemble.tree_start[n_first])
    leaf = ensemble.left[first] < 0
    assert ensemble.cover is not None
    at_base = ensemble.objective.curvature(ensemble.base)[ensemble.tree_output[:n_first]]
    per_row = np.repeat(at_base * ensemble.cover_factor, np.diff(ensemble.tree_start[: n_first + 1]))
    rows = ensemble.cover[first][leaf] / per_row[leaf]
    if ensemble.positive_weight != 1:
        return True  # a leaf holds n_0 + w n_1 rows' worth
    return bool(np.allclose(rows, np.round(rows), rtol=1e-4, atol=1e-3))


def _unit_curvature(ensemble: TreeEnsemble) -> bool:
    return ensemble.objective.name in ("squared_error", "absolute_error", "quantile")


def _group(ensemble: TreeEnsemble, nodes: slice, leaf: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the class each leaf speaks for: the most frequent one, or whether a booster's margin goes up."""
    value = ensemble.value[nodes][leaf]
    if ensemble.objective.name not in ("logistic", "softmax", "hinge") and not ensemble.is_classifier:
        return np.zeros(leaf.size, dtype=np.int64)
    return value.argmax(axis=1) if value.shape[1] > 1 else (value[:, 0] > 0).astype(np.int64)
