"""Leaf counts: how many rows the leaves of some trees hold, and how many training rows the model stored for them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from debias.data.table import RoutedTable
from debias.errors import RowsError
from debias.positions import evenly_spaced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from debias.data.response import Response
    from debias.data.table import Table
    from debias.rows.shared_pass import SharedPass
    from debias.trees.ensemble import TreeEnsemble

    FirstOutputs = Callable[[int], NDArray[np.float64]]

TREES_AT_MOST = 30
PARTS = ((0, 2), (2, 4), (0, 1), (1, 2), (2, 3), (3, 4))
"""Parts of a boosted model that are looked at on their own, in quarters: the training may have been continued on other
rows."""
TREES_OF_A_QUARTER = 8
"""Number of trees of a quarter, if a round has fewer trees."""
ROUNDS_TO_DIVIDE = 8
"""A model of fewer rounds is not divided into parts."""
SMALLEST_LEAF = 5
"""In trees with empty leaves, smaller leaves are counted together with the smallest leaf of at least this size."""
LIKE_THE_LARGEST = 0.8
"""A tree of a boosted model is used if it was grown on at least this share of the largest number of rows."""
ROUNDS_AT_MOST = 10
"""Number of rounds used of a boosted model that stores sums of hessians, for the model as a whole: later rounds depend
on the few rows that are not fitted yet."""


class Routed(Protocol):
    """Rows whose leaves can be asked for: a :class:`debias.trees.routing.Router`, and what is like it."""

    def leaves(self, trees: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the leaf of each row in each of `trees`, shape (n_rows, len(trees))."""

    def add_outputs(self, trees: NDArray[np.int64], raw: NDArray[np.float64]) -> None:
        """Add the values of the leaves in each of `trees` to `raw` (n_rows, n_outputs), tree by tree."""


@dataclass(frozen=True, eq=False)
class LeafCounts:
    """Counts in the leaves of one tree.

    Parameters
    ----------
    tree : int
        Number of the tree.
    node : array of int64 of shape (n_leaves,)
        The leaves, by their numbers in the tree.
    at : array of int32 of shape (n_rows,)
        Leaf of each row, numbered from 0. If not all rows are kept, of the first rows only.
    reached, stored : array of float64 of shape (n_leaves,)
        Number of rows that reach each leaf, and number of training rows that the model stores. If the library stores
        sums of hessians, both are such sums, in units of a typical row.
    group : array of int64 of shape (n_leaves,)
        Class that the leaf predicts; always 0 in regression.
    """

    tree: int
    node: NDArray[np.int64]
    at: NDArray[np.int32]
    reached: NDArray[np.float64]
    stored: NDArray[np.float64]
    group: NDArray[np.int64]

    @cached_property
    def freedom(self) -> int:
        """Number of leaves minus number of classes: the free counts, given the number of rows of each class."""
        return self.group.size - int(np.count_nonzero(np.bincount(self.group)))

    @cached_property
    def n_reached(self) -> float:
        """Sum of `reached`."""
        return float(self.reached.sum())

    @cached_property
    def n_stored(self) -> float:
        """Sum of `stored`."""
        return float(self.stored.sum())

    @cached_property
    def dispersion(self) -> float:
        """Pearson's sum over its degrees of freedom, with expected counts taken within the leaves of each class."""
        reached, stored = np.bincount(self.group, self.reached), np.bincount(self.group, self.stored)
        expected = self.stored * (reached / np.maximum(stored, 1e-300))[self.group]
        expects_rows = expected > 0
        squares = ((self.reached - expected) ** 2)[expects_rows]
        return float(squares @ (1 / expected[expects_rows])) / self.freedom

    @cached_property
    def excess_variance(self) -> float:
        """Variance of Pearson's sum over that of chi-square: 1 + sum(1 / p) / m for m rows, to first order."""
        share = self.stored / self.stored.sum()
        n_leaves, n_rows = share.size, max(self.reached.sum(), 1.0)
        extra = (np.sum(1 / share) - n_leaves**2 - 2 * n_leaves + 2) / n_rows
        return float(max(1.0, (1 - 1 / n_rows) + extra / (2 * max(n_leaves - 1, 1))))

    @cached_property
    def mean_k(self) -> float:
        """Mean of 1 - 1 / (2 n) over leaves of n training rows."""
        return float(np.mean(1 - 0.5 / np.maximum(self.stored, 1)))

    @cached_property
    def log_p_of_expected(self) -> float:
        """Logarithm of the probability of the expected counts in each class, with `n_reached` rows."""
        from scipy.special import gammaln, xlogy

        of_class, rows = np.bincount(self.group, weights=self.stored), np.bincount(self.group, weights=self.reached)
        share = self.stored / np.maximum(of_class, 1)[self.group]
        expected = share * rows[self.group]
        return float(gammaln(rows + 1).sum() + (xlogy(expected, share) - gammaln(expected + 1)).sum())

    @cached_property
    def pooled(self) -> LeafCounts:
        """The same counts with small leaves counted together, if some leaves are empty, as in symmetric trees.

        The leaves of such trees are cut at fixed places, so they may be empty. Leaves that happen to hold one training
        row get fewer fresh rows than this count suggests. So the dispersion is not that of leaves that were made to
        hold some rows.
        """
        if self.stored.min() > 0:
            return self
        enough = self.stored[self.stored >= SMALLEST_LEAF].min(initial=self.stored.max())
        alone = self.stored > enough
        number = np.cumsum(alone) * alone  # leaves with number 0 are counted together
        first = np.append(np.flatnonzero(self.stored == enough)[:1], np.flatnonzero(alone))
        return LeafCounts(
            self.tree,
            self.node[first],
            number[self.at].astype(np.int32),
            np.bincount(number, self.reached).astype(np.float64),
            np.bincount(number, self.stored).astype(np.float64),
            self.group[first],
        )


class LeafCounter:
    """Counts rows in the leaves of the trees of all looks (:func:`looks`), batch by batch.

    The counts of two sets of rows add up to the counts of their union.

    Parameters
    ----------
    ensemble : TreeEnsemble
    keep : int, optional
        Number of rows whose leaves are kept, to estimate the overlap of trees. If it is not given, all are kept, and
        all rows must be added at once.
    """

    def __init__(self, ensemble: TreeEnsemble, keep: int | None = None) -> None:
        self.ensemble, self.keep = ensemble, keep
        by_batches = keep is not None  # the scale of a smoothed loss is that of all rows
        tells = _tells(ensemble) and not (by_batches and ensemble.objective.smoothed)
        self.trees = np.unique(np.concatenate(looks(ensemble))) if tells else np.zeros(0, dtype=np.int64)
        self.n_rows = 0
        self._nodes = [slice(ensemble.tree_start[tree], ensemble.tree_start[tree + 1]) for tree in self.trees]
        self._leaf = [np.flatnonzero(ensemble.left[nodes] < 0) for nodes in self._nodes]
        self._number = [np.cumsum(ensemble.left[nodes] < 0) - 1 for nodes in self._nodes]
        self._sums = [np.zeros((2, leaf.size)) for leaf in self._leaf]  # rows or hessians; squares of these
        self._kept: list[NDArray[np.int32]] = []

    def add(self, routed: Routed, response: Response, first_outputs: FirstOutputs | None = None) -> None:
        """Count rows, which have a response; `first_outputs` is as for :func:`curvatures`."""
        from debias.rows.kernels import leaf_counts as leaf_kernels

        if not self.trees.size:
            return
        if not holds_hessians(self.ensemble):
            leaves, ones = routed.leaves(self.trees), np.zeros(0)
            added: Iterator[tuple[NDArray[np.int32], NDArray[np.float64]]] = ((reached, ones) for reached in leaves.T)
        else:
            added = curvatures(self.ensemble, self.trees, routed, response, first_outputs)
        # Tree by tree in memory, because trees are counted one after another.
        at = np.empty((self.trees.size, response.n_rows), dtype=np.int32).T
        for j, (reached, h) in enumerate(added):
            sums = np.zeros_like(self._sums[j])
            leaf_kernels.add_at_leaves(reached, self._number[j], h, at[:, j], sums)
            self._sums[j] += sums
        n_to_keep = len(at) if self.keep is None else self.keep - sum(map(len, self._kept))
        if n_to_keep > 0:
            # A view of a part would keep the whole array in memory.
            self._kept.append(at if n_to_keep >= len(at) else at[:n_to_keep].copy(order="K"))
        self.n_rows += len(at)

    def counts(self) -> list[LeafCounts]:
        """Return the counts of each tree; an empty list if the model stores no numbers of training rows."""
        counted = []
        kept = np.concatenate(self._kept) if self._kept else np.zeros((0, self.trees.size), dtype=np.int32)
        for j, (tree, nodes, leaf) in enumerate(zip(self.trees.tolist(), self._nodes, self._leaf, strict=True)):
            reached, squares = self._sums[j][0], self._sums[j][1]
            if self.ensemble.count is not None:
                stored = self.ensemble.count[nodes][leaf].astype(np.float64)
            else:
                assert self.ensemble.cover is not None
                if not reached.any():
                    continue
                stored = self.ensemble.cover[nodes][leaf]
                if stored.min() <= 0:  # hessians of 0 do not count rows
                    continue
                if _covers_are_counts(self.ensemble):
                    stored = stored / self.ensemble.value.shape[1]  # a row adds 1 for each output of a vector leaf
                else:
                    # The total is then (sum h)^2 / sum h^2: the number of equal rows that would vary as much.
                    unit = squares.sum() / reached.sum()
                    reached, stored = reached / unit, stored / unit
            at = np.ascontiguousarray(kept[:, j])  # a view, but for counts that were restored
            counted.append(LeafCounts(tree, leaf, at, reached, stored, _group(self.ensemble, nodes, leaf)))
        return [leaf_counts for leaf_counts in counted if leaf_counts.group.size > 1]

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the counts as arrays."""
        sums = np.concatenate(self._sums, axis=1) if self._sums else np.zeros((2, 0))
        kept = np.concatenate(self._kept) if self._kept else np.zeros((0, self.trees.size), dtype=np.int32)
        return {"leaf_counts": sums, "leaves_kept": kept, "rows_counted": np.array(self.n_rows)}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Replace the counts by the :meth:`state` of another counter of the same trees.

        Raises
        ------
        RowsError
            The state belongs to other trees, or has leaf numbers that do not exist: compiled loops would write outside
            the arrays.
        """
        sizes, kept = np.array([leaf.size for leaf in self._leaf], dtype=np.int64), state["leaves_kept"]
        shapes_fit = state["leaf_counts"].shape == (2, sizes.sum()) and kept.shape[1:] == sizes.shape
        if not shapes_fit or kept.min(initial=0) < 0 or (kept >= sizes).any():
            raise RowsError("the leaf counts are damaged, or were made by another version of debias")
        edges = np.cumsum(sizes)[:-1]
        self._sums = np.split(np.array(state["leaf_counts"]), edges, axis=1) if self._leaf else []
        self._kept, self.n_rows = [state["leaves_kept"]], int(state["rows_counted"])


def looks(ensemble: TreeEnsemble) -> list[NDArray[np.int64]]:
    """Return the trees of each look at a model: first of the model as a whole, then of each half and each quarter.

    Only boosted models are divided: their training may have been continued on other rows. Where the covers depend on
    the margin, and the margin before later trees is not known (dart, a smoothed loss), there is one look.
    """
    whole = _sample(ensemble)
    n_rounds = ensemble.n_trees // ensemble.trees_a_round
    unknown_margin = holds_hessians(ensemble) and (ensemble.rescaled or ensemble.objective.smoothed)
    if ensemble.averaged or n_rounds < ROUNDS_TO_DIVIDE or unknown_margin:
        return [whole]
    edges = np.linspace(0, n_rounds, 5).astype(np.int64)
    at_most = max(1, TREES_OF_A_QUARTER // ensemble.trees_a_round)
    of_a_round = np.arange(ensemble.trees_a_round)
    quarters = []
    for begin, end in pairwise(edges):
        rounds = begin + evenly_spaced(int(end - begin), at_most)
        trees = (rounds[:, None] * ensemble.trees_a_round + of_a_round).ravel()
        quarters.append(_like_most(ensemble, trees))
    return [whole, *(np.concatenate(quarters[begin:end]) for begin, end in PARTS)]


def holds_hessians(ensemble: TreeEnsemble) -> bool:
    """Whether what a row adds at leaves depends on its margin before the tree."""
    return ensemble.count is None and not _covers_are_counts(ensemble)


def curvatures(
    ensemble: TreeEnsemble,
    trees: NDArray[np.int64],
    routed: Routed,
    response: Response,
    first_outputs: FirstOutputs | None = None,
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.float64]]]:
    """Yield for each tree the leaf of each row and what the row adds to its covers.

    This is the hessian before this tree, times the class weight. To the cover of a vector leaf, a row adds the hessians
    of all its outputs. Rows are routed through all trees before the last one, because the margin is their sum.

    Parameters
    ----------
    ensemble : TreeEnsemble
        A boosted model that stores sums of hessians.
    trees : array of int64
        Ascending.
    routed : Routed
        The rows.
    response : Response
    first_outputs : callable, optional
        ``first_outputs(n)`` returns the sum of the values of the leaves of each row in the first n trees, shape
        (n_rows, n_outputs), for ascending n. By default they are added up here.
    """
    assert response.target is not None
    if first_outputs is None:
        first_outputs = _in_turn(ensemble, routed, response.n_rows)
    factor: Any = ensemble.cover_factor
    if ensemble.positive_weight != 1:
        factor = factor * np.where(response.target == 1, ensemble.positive_weight, 1.0)
    start = ensemble.base if response.margin is None else response.margin
    wanted = set(trees.tolist())
    for number in np.unique(trees // ensemble.trees_a_round).tolist():
        of_round = np.arange(number * ensemble.trees_a_round, (number + 1) * ensemble.trees_a_round)
        margin = start + first_outputs(int(of_round[0]))
        before = ensemble.objective.curvature(margin, response.target) * factor
        leaves = routed.leaves(of_round)
        for tree, reached in zip(of_round.tolist(), leaves.T, strict=True):
            if tree in wanted:
                outputs = _outputs(ensemble, tree)
                of_outputs = before[:, outputs]
                # numpy is slow at sums over rows of one number.
                h = of_outputs.sum(axis=1) if of_outputs.shape[1] > 1 else np.ascontiguousarray(of_outputs[:, 0])
                yield reached, h


def _in_turn(ensemble: TreeEnsemble, routed: Routed, n_rows: int) -> FirstOutputs:
    raw, n_added = np.zeros((n_rows, ensemble.n_outputs)), 0

    def first_outputs(n_trees: int) -> NDArray[np.float64]:
        nonlocal n_added
        routed.add_outputs(np.arange(n_added, n_trees), raw)
        n_added = n_trees
        return raw

    return first_outputs


def first_trees(ensemble: TreeEnsemble) -> NDArray[np.int64]:
    """Return the first trees of a boosted model, whose covers are compared with sums of hessians."""
    return np.arange(min(ensemble.n_trees, (1 if ensemble.rescaled else ROUNDS_AT_MOST) * ensemble.trees_a_round))


def count_leaves(
    ensemble: TreeEnsemble, table: Table, response: Response, shared: SharedPass | None = None
) -> list[LeafCounts]:
    """Count the rows of a table in the leaves of the trees of all looks.

    Parameters
    ----------
    ensemble : TreeEnsemble
    table : Table
        Rows in question, columns in the model's order.
    response : Response
        Response of the rows; it gives the classes that had a weight in training.
    shared : SharedPass, optional
        The pass of the scores over the same rows, which then need not be routed twice.

    Returns
    -------
    list of LeafCounts
        Of trees with more than one leaf. Empty if the model stores no numbers of training rows.
    """
    counter = LeafCounter(ensemble)
    if shared is None:
        counter.add(RoutedTable(ensemble, table), response)
    else:
        counter.add(shared.routed, response, shared.first_outputs)
    return counter.counts()


def of_trees(counted: list[LeafCounts], trees: NDArray[np.int64]) -> list[LeafCounts]:
    """Return the counts of some trees."""
    wanted = set(trees.tolist())
    return [tree for tree in counted if tree.tree in wanted]


def _tells(ensemble: TreeEnsemble) -> bool:
    if ensemble.count is not None:
        return True
    return ensemble.cover is not None and not ensemble.averaged and _covers_count_rows(ensemble)


def _sample(ensemble: TreeEnsemble) -> NDArray[np.int64]:
    """Return trees spread over the ensemble; the first trees if covers depend on the margin before the tree."""
    if holds_hessians(ensemble):
        return first_trees(ensemble)
    trees = _like_the_largest(ensemble, np.arange(ensemble.n_trees))
    return trees[evenly_spaced(trees.size, TREES_AT_MOST)]


def _like_the_largest(ensemble: TreeEnsemble, trees: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return those of some trees of a boosted model that were grown on about as many rows as the largest of them.

    With goss, LightGBM uses all rows at first, and fewer rows, chosen by gradient, later. Bags differ by a few rows.
    """
    if ensemble.count is None or ensemble.averaged:
        return trees
    at_root = ensemble.count[ensemble.tree_start[trees]]
    return trees[at_root >= LIKE_THE_LARGEST * at_root.max()]


def _like_most(ensemble: TreeEnsemble, trees: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return those of some trees of a boosted model that were grown on about as many rows as most of them."""
    if ensemble.count is None:
        return trees
    at_root = ensemble.count[ensemble.tree_start[trees]]
    usual = np.median(at_root)
    return trees[(at_root >= LIKE_THE_LARGEST * usual) & (LIKE_THE_LARGEST * at_root <= usual)]


def _covers_count_rows(ensemble: TreeEnsemble) -> bool:
    """Whether the covers of the first round are whole numbers of rows; with weights or margins they are not."""
    if not ensemble.objective.has_loss:
        return False
    if ensemble.objective.curvature_needs_response:
        return True
    n_first = ensemble.trees_a_round
    first = slice(0, ensemble.tree_start[n_first])
    leaf = ensemble.left[first] < 0
    assert ensemble.cover is not None
    at_base = ensemble.objective.curvature(ensemble.base) * ensemble.cover_factor
    of_trees = [at_base[_outputs(ensemble, tree)].sum() for tree in range(n_first)]
    per_row = np.repeat(of_trees, np.diff(ensemble.tree_start[: n_first + 1]))
    rows = ensemble.cover[first][leaf] / per_row[leaf]
    if ensemble.positive_weight != 1:
        return True  # the cover of a leaf is n_0 + w n_1 in units of rows
    return bool(np.allclose(rows, np.round(rows), rtol=1e-4, atol=1e-3))


def _covers_are_counts(ensemble: TreeEnsemble) -> bool:
    """Whether each row adds 1 to the covers, for each output, at whatever margin."""
    return ensemble.objective.unit_curvature and ensemble.positive_weight == 1


def _outputs(ensemble: TreeEnsemble, tree: int) -> slice:
    """Return the outputs that a tree adds to."""
    first = int(ensemble.tree_output[tree])
    return slice(first, first + ensemble.value.shape[1])


def _group(ensemble: TreeEnsemble, nodes: slice, leaf: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the class that each leaf predicts: the most frequent one; for boosted models, whether the margin rises."""
    value = ensemble.value[nodes][leaf]
    if ensemble.objective.name not in ("logistic", "softmax", "hinge") and not ensemble.is_classifier:
        return np.zeros(leaf.size, dtype=np.int64)
    return value.argmax(axis=1) if value.shape[1] > 1 else (value[:, 0] > 0).astype(np.int64)
