"""Routing: the leaf of each row in each tree, by compiled loops, and the raw output that follows from the leaves.

Over 500 lines, because the ways to route share what they know of the rows: bins, blocks, and leaves found before.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import ExtractionError, RowsError
from debias.parallel import n_allowed, over_parts, worth
from debias.positions import evenly_spaced
from debias.trees.leaf_lines import add_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from debias.trees.ensemble import TreeEnsemble

LEAVES_AT_MOST = 256
CUTS_AT_MOST = 255
"""With at most 255 cuts, a value lies in one of 256 bins. Values of the last bin go right at every split."""


@dataclass(frozen=True, eq=False)
class Bins:
    """The distinct thresholds (cuts) of every feature, and the trees expressed by them.

    Parameters
    ----------
    cuts : array of float
        The cuts of all features, one feature after another; ascending within a feature, in the precision of the rows.
    cut_start : array of int64 of shape (n_features + 1,)
        Position at which the cuts of each feature begin.
    steps : tuple
        The trees in the form that the compiled loops take.
    """

    cuts: NDArray[np.floating[Any]]
    cut_start: NDArray[np.int64]
    steps: tuple[NDArray[np.int32], NDArray[np.int64], int, NDArray[np.int32], NDArray[np.int64]]

    @property
    def n_features(self) -> int:
        """Number of features that are split on."""
        return int(np.count_nonzero(np.diff(self.cut_start)))

    @classmethod
    def of(cls, ensemble: TreeEnsemble) -> Bins | None:
        """Return the bins of an ensemble, or None if it has none.

        An ensemble has bins if one byte can number the leaves of each tree and the cuts of each feature, and if every
        split compares a value with a threshold only.
        """
        from debias.trees.kernels import bins as bin_kernels

        only_thresholds = ensemble.category_set is None and ensemble.zero_is_missing is None
        if not only_thresholds or np.diff(ensemble.tree_start).max() >= 2 * LEAVES_AT_MOST:
            return None
        splits = ensemble.splits
        feature, threshold = ensemble.feature[splits], ensemble.routing_threshold[splits]
        order = np.lexsort((threshold, feature))
        is_new_cut = np.zeros(splits.size, dtype=bool)
        is_new_cut[:1] = True
        for key in (feature[order], threshold[order]):
            is_new_cut[1:] |= key[1:] != key[:-1]
        first = order[is_new_cut]
        cut_start = np.searchsorted(feature[first], np.arange(ensemble.n_features + 1))
        if np.diff(cut_start).max(initial=0) > CUTS_AT_MOST:
            return None
        code = np.zeros(ensemble.n_nodes, dtype=np.int64)
        code[splits[order]] = np.cumsum(is_new_cut) - 1 - cut_start[feature[order]]
        steps = np.empty((splits.size, bin_kernels.STEP), dtype=np.int32)
        step_start, leaf_start = np.zeros((2, ensemble.n_trees + 1), dtype=np.int64)
        leaf = np.empty(ensemble.n_nodes - splits.size, dtype=np.int32)
        n_steps, n_places = bin_kernels.compile_trees(
            ensemble.tree_start,
            ensemble.left,
            ensemble.right,
            ensemble.feature,
            code,
            ensemble.missing_left,
            ensemble.n_features,
            steps,
            step_start,
            leaf,
            leaf_start,
        )
        return cls(threshold[first], cut_start, (steps[:n_steps].copy(), step_start, n_places, leaf, leaf_start))

    def encode(self, X: NDArray[np.floating[Any]], n_jobs: int | None = None) -> NDArray[np.uint8]:
        """Return the bins of rows of shape (n_rows, n_features), as an array of shape (2 * n_features, n_rows)."""
        from debias.trees.kernels import bins as bin_kernels

        codes = np.empty((2 * X.shape[1], X.shape[0]), dtype=np.uint8)
        used = np.flatnonzero(np.diff(self.cut_start))
        over_parts(used.size, lambda part: bin_kernels.encode(X, self.cuts, self.cut_start, used[part], codes), n_jobs)
        return codes

    def leaves(self, X: NDArray[np.floating[Any]]) -> NDArray[np.int32]:
        """Return the leaf of each row in each tree, shape (n_rows, n_trees)."""
        from debias.trees.kernels import bins as bin_kernels

        n_trees = self.steps[1].size - 1
        leaves = np.empty((n_trees, len(X)), dtype=np.int32)
        bin_kernels.route(self.encode(X, 1), np.arange(n_trees), *self.steps, leaves)
        return leaves.T


ROWS_TO_CHECK = 64
ROWS_AT_LEAST = 16
LEAVES_TO_CHECK = 3200
"""With many trees fewer rows are compared, but at least 16: a mistake of an adapter shows in most trees."""
LEAVES_AT_ONCE, LEAVES_IN_CACHE = 2**23, 2**21
VALUES_AT_ONCE = 2**24
VALUES_IN_CACHE = 3 * 2**19
"""Values of rows that are routed together. Deep in a tree the rows of a node are scattered: they should be cached."""
FEATURES_ON_A_WAY = 320
"""Of a row with more features not everything is read: the features on its path fill about twenty cache lines."""
FEW_ROWS = 4096
"""Fewer rows are not worth encoding as bins. This may depend on the block only, or sums would round differently."""


def row_blocks(n_rows: int, n_features: int, n_trees: int = 1) -> list[slice]:
    """Divide rows into blocks of about equal size that begin at multiples of 8.

    A block has at most 16 million values of X, and at most 8 million leaves if the leaves in `n_trees` trees are
    needed. It has no more rows than fit the cache, and no more leaves, unless that leaves too few rows for bins.
    """
    of_leaves = max(LEAVES_IN_CACHE // n_trees, min(2 * FEW_ROWS, LEAVES_AT_ONCE // n_trees))
    at_once = max(1024, min(2**18, VALUES_AT_ONCE // n_features, of_leaves)) // 8 * 8
    in_cache = VALUES_IN_CACHE // min(n_features, FEATURES_ON_A_WAY)
    n_blocks = max(-(-n_rows // at_once), min(-(-n_rows // in_cache), n_rows // FEW_ROWS))
    edges = np.linspace(0, -(-n_rows // 8), n_blocks + 1).astype(np.int64) * 8
    return [slice(int(begin), min(int(end), n_rows)) for begin, end in pairwise(edges)]


class Router:
    """Routes one block of rows to the leaves.

    Parameters
    ----------
    ensemble : TreeEnsemble
    X : array of shape (n_rows, n_features)
        In the ensemble's routing dtype, missing values as NaN.
    skip : array of uint8 of shape (n_trees, ceil(n_rows / 8)), optional
        Rows to leave out of each tree, as bits packed by ``np.packbits``.
    n_jobs : int, optional
        Number of threads, over trees; by default as many as are allowed.
    keep : bool
        Whether to keep the leaves that are found on the way to outputs, without bins, as :attr:`found`.

    Attributes
    ----------
    found : array of int32 of shape (n_rows, n_trees) or None
        Leaves that were kept, as :meth:`leaves` returns them.
    """

    found: NDArray[np.int32] | None = None

    def __init__(
        self,
        ensemble: TreeEnsemble,
        X: NDArray[np.floating[Any]],
        skip: NDArray[np.uint8] | None = None,
        n_jobs: int | None = None,
        *,
        keep: bool = False,
    ) -> None:
        self.ensemble, self.X, self.n_jobs = ensemble, X, n_jobs
        self._skip = np.zeros((0, 0), dtype=np.uint8) if skip is None else skip
        self._any_left_out, self._keeps = skip is not None, keep

    def leaves(self, trees: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the leaf of each row in each of `trees`, shape (n_rows, len(trees)); -1 where the row is left out.

        `skip` must hold the bits of these trees only.
        """
        from debias.trees.kernels import bins as bin_kernels
        from debias.trees.kernels import routing as route_kernels

        leaves = np.empty((trees.size, len(self.X)), dtype=np.int32)
        bins = self._bins(trees.size)

        def route_part(part: slice) -> None:
            if bins is not None:
                bin_kernels.route(self._codes, trees[part], *bins.steps, leaves[part])
            else:
                route_kernels.route(self.X, trees[part], self._nodes, self._skip[part], leaves[part])

        _ = self._nodes if bins is None else self._codes  # computed once, before the threads start
        over_parts(trees.size, route_part, self.n_jobs, self._worth(trees.size))
        return leaves.T

    def known(self) -> KnownLeaves | NumberedLeaves:
        """Return the leaves of the rows in all trees, which are then used as the router is; no row may be left out."""
        from debias.trees.kernels import bins as bin_kernels

        trees = np.arange(self.ensemble.n_trees)
        bins = self._bins(trees.size)
        if bins is None:
            return KnownLeaves(self.ensemble, self.leaves(trees))
        codes, numbers = self._codes, np.empty((trees.size, len(self.X)), dtype=np.uint8)

        def number_part(part: slice) -> None:
            bin_kernels.number(codes, trees[part], *bins.steps[:3], numbers[part])

        over_parts(trees.size, number_part, self.n_jobs, self._worth(trees.size))
        return NumberedLeaves(self.ensemble, numbers)

    def encode_for(self, n_trees: int) -> None:
        """Encode the rows as bins, which all later calls use, if that is worth its time for so many trees."""
        if self._bins(n_trees) is not None:
            _ = self._codes

    def add_outputs(self, trees: NDArray[np.int64], raw: NDArray[np.float64]) -> None:
        """Add the values of the leaves of each row in each of `trees` to `raw` (n_rows, n_outputs), tree by tree.

        `skip` must hold the bits of these trees only.
        """
        from debias.trees.kernels import bins as bin_kernels
        from debias.trees.kernels import routing as route_kernels

        ensemble = self.ensemble
        arrays = (ensemble.tree_start, ensemble.tree_output, ensemble.value)
        bins = self._bins(trees.size)
        if bins is not None:
            codes, steps = self._codes, bins.steps
            over_parts(
                len(self.X),
                lambda rows: bin_kernels.add_outputs(codes, rows.start, rows.stop, trees, *steps, *arrays, raw),
                self.n_jobs,
                at_least=FEW_ROWS,
            )
            return
        nodes = self._nodes
        self._add_unbinned(
            lambda some, skip, leaves: route_kernels.route(self.X, some, nodes, skip, leaves), trees, raw
        )

    def add_codes(
        self,
        codes: NDArray[np.int64],
        weight: NDArray[np.float64],
        n: NDArray[np.float64],
        s: NDArray[np.float64],
        raw: NDArray[np.float64] | None = None,
    ) -> None:
        """Add the weights of the rows to `n` (n_nodes,) and, by class, to `s` (n_nodes, n_classes) at their leaves.

        `raw` (n_rows, n_outputs), if given, gets the values of the leaves, tree by tree.
        """
        from debias.trees.kernels import routing as route_kernels

        def add(trees: NDArray[np.int64], skip: NDArray[np.uint8], leaves: NDArray[np.int32]) -> None:
            route_kernels.add_codes(self.X, trees, nodes, skip, codes, weight, n, s, leaves)

        nodes = self._nodes
        self._add_unbinned(add, np.arange(self.ensemble.n_trees), raw)

    def add_values(
        self,
        values: NDArray[np.float64],
        weight: NDArray[np.float64],
        n: NDArray[np.float64],
        s: NDArray[np.float64],
        q: NDArray[np.float64],
        raw: NDArray[np.float64] | None = None,
        trees: NDArray[np.int64] | None = None,
    ) -> None:
        """Add the rows at their leaves: weights to `n`, a numeric response to `s`, and its squares to `q`.

        `raw` (n_rows, n_outputs), if given, gets the values of the leaves, tree by tree. `trees` are some of the trees,
        if no row is left out; all by default.
        """
        from debias.trees.kernels import bins as bin_kernels
        from debias.trees.kernels import routing as route_kernels

        ensemble = self.ensemble
        chosen = np.arange(ensemble.n_trees) if trees is None else trees
        bins = self._bins(chosen.size) if s.shape[1] == 1 else None
        if bins is None:
            nodes, sums = self._nodes, (weight, n, s, q)

            def add(trees: NDArray[np.int64], skip: NDArray[np.uint8], leaves: NDArray[np.int32]) -> None:
                route_kernels.add_values(self.X, trees, nodes, skip, ensemble.tree_output, values, *sums, leaves)

            self._add_unbinned(add, chosen, raw)
            return
        codes, steps = self._codes, bins.steps
        # Threads take trees, and the trees of a row are added in order: several threads need another pass.
        with_outputs = raw is not None and n_allowed(self.n_jobs) == 1
        for output, y in enumerate(values.T):
            terms = np.stack([weight, weight * y, weight * y * y, np.zeros(len(y))], axis=1)
            of_output = chosen[ensemble.tree_output[chosen] == output]
            column = raw[:, output].copy() if raw is not None and with_outputs else np.zeros(0)
            sums_of_output = (ensemble.tree_start, terms, n, s, q, ensemble.value, column)

            def add_binned(
                part: slice, trees: NDArray[np.int64] = of_output, arrays: tuple[Any, ...] = sums_of_output
            ) -> None:
                bin_kernels.add_values(codes, trees[part], *steps, *arrays)

            over_parts(of_output.size, add_binned, self.n_jobs, self._worth(of_output.size))
            if raw is not None and with_outputs:
                raw[:, output] = column
        if raw is not None and not with_outputs:
            self.add_outputs(chosen, raw)

    def _add_unbinned(
        self,
        add: Callable[[NDArray[np.int64], NDArray[np.uint8], NDArray[np.int32]], None],
        trees: NDArray[np.int64],
        raw: NDArray[np.float64] | None,
    ) -> None:
        """Call `add` with parts of `trees`, their bits in `skip`, and an array that it fills with their leaves.

        The values of the leaves are added to `raw`. Without it, the arrays of leaves have no row.
        """
        if raw is None:
            no_leaves = np.zeros((0, 0), dtype=np.int32)
            over_parts(
                trees.size,
                lambda part: add(trees[part], self._skip[part], no_leaves),
                self.n_jobs,
                self._worth(trees.size),
            )
            return
        at_once = max(1, LEAVES_IN_CACHE // len(self.X))
        n_kept = trees.size if self._keeps else min(at_once, trees.size)
        room = np.empty((n_kept, len(self.X)), dtype=np.int32)
        if self._keeps:
            self.found = room.T
        for begin in range(0, trees.size, at_once):
            some, skip = trees[begin : begin + at_once], self._skip[begin : begin + at_once]
            at = begin if self._keeps else 0
            leaves = room[at : at + some.size]

            def add_part(
                part: slice,
                some: NDArray[np.int64] = some,
                skip: NDArray[np.uint8] = skip,
                leaves: NDArray[np.int32] = leaves,
            ) -> None:
                add(some[part], skip[part], leaves[part])

            over_parts(some.size, add_part, self.n_jobs, self._worth(some.size))
            add_leaf_values(self.ensemble, leaves.T, raw, some)

    def _worth(self, n_trees: int) -> int:
        """Return how many trees are worth a thread."""
        return worth(n_trees, n_trees * len(self.X))

    def _bins(self, n_trees: int) -> Bins | None:
        if self._any_left_out:
            return None
        if "_codes" in self.__dict__:  # once the rows are encoded, bins are faster for a single tree too
            return self.ensemble.bins
        return bins_for(self.ensemble, len(self.X), n_trees) and self._verified_bins

    @cached_property
    def _verified_bins(self) -> Bins:
        assert self.ensemble.bins is not None
        verify_bins(self.ensemble, self.ensemble.bins, self.X)
        return self.ensemble.bins

    @cached_property
    def _codes(self) -> NDArray[np.uint8]:
        assert self.ensemble.bins is not None
        return self.ensemble.bins.encode(self.X, self.n_jobs)

    @cached_property
    def _nodes(self) -> tuple[Any, ...]:
        ensemble = self.ensemble
        zero = ensemble.zero_is_missing
        ways = (ensemble.left, ensemble.right, ensemble.feature, ensemble.routing_threshold, ensemble.missing_left)
        which, sets = _category_sets(ensemble)
        return (ensemble.tree_start, *ways, np.zeros(0, dtype=bool) if zero is None else zero, which, *sets)


def bins_for(ensemble: TreeEnsemble, n_rows: int, n_trees: int) -> Bins | None:
    """Return the bins for routing `n_rows` rows through `n_trees` trees; None if routing without bins is faster."""
    faster = n_rows >= FEW_ROWS and ensemble.bins is not None and n_trees >= ensemble.bins.n_features
    return ensemble.bins if faster else None


def route(
    ensemble: TreeEnsemble,
    X: NDArray[np.floating[Any]],
    trees: NDArray[np.int64] | None = None,
    in_bag: NDArray[np.bool_] | None = None,
    n_jobs: int | None = None,
) -> NDArray[np.int32]:
    """Return the leaf of each row in each tree.

    Parameters
    ----------
    ensemble : TreeEnsemble
    X : array of shape (n_rows, n_features)
        Missing values as NaN. It is rounded to the ensemble's routing dtype.
    trees : array of int of shape (n_trees,), optional
        Which trees; all by default.
    in_bag : array of bool of shape (n_trees, n_rows), optional
        Rows to leave out of each tree.
    n_jobs : int, optional
        Number of threads, over trees; by default as many as are allowed.

    Returns
    -------
    array of int32 of shape (n_rows, n_trees)
        Index of the leaf within its tree; -1 where the row is left out.

    Raises
    ------
    RowsError
        An array has another shape, or a tree does not exist.
    """
    X = np.ascontiguousarray(X, dtype=ensemble.routing_dtype)
    if X.ndim != 2 or X.shape[1] != ensemble.n_features:
        raise RowsError(f"X has shape {X.shape}: it must have rows of {ensemble.n_features} features")
    trees = np.arange(ensemble.n_trees) if trees is None else checked_trees(ensemble, trees)
    if in_bag is not None and np.shape(in_bag) != (trees.size, len(X)):
        raise RowsError(f"in_bag has shape {np.shape(in_bag)} for {trees.size} trees and {len(X)} rows")
    skip = None if in_bag is None else np.packbits(in_bag, axis=1)
    return Router(ensemble, X, skip, n_jobs).leaves(trees)


def checked_trees(ensemble: TreeEnsemble, trees: Any) -> NDArray[np.int64]:
    """Return numbers of trees as int64; raise a RowsError if the ensemble does not have one of them."""
    numbers = np.asarray(trees)
    if numbers.dtype.kind not in "iu" or numbers.ndim != 1:
        raise RowsError(f"trees must be an array of integers of one dimension, not of {numbers.dtype}")
    as_list = numbers.tolist()
    if as_list and not 0 <= min(as_list) <= max(as_list) < ensemble.n_trees:
        raise RowsError(f"trees must be numbers from 0 to {ensemble.n_trees - 1}")
    return np.ascontiguousarray(numbers, dtype=np.int64)


def checked_leaves(
    ensemble: TreeEnsemble, leaves: Any, trees: NDArray[np.int64], n_rows: int, least: int
) -> NDArray[np.int32]:
    """Return leaves as int32; raise a RowsError if their shape is not (n_rows, n_trees), or the trees have no such."""
    leaves = np.asarray(leaves)
    if leaves.dtype.kind not in "iu" or leaves.shape != (n_rows, trees.size):
        raise RowsError(
            f"leaves are an array of {leaves.dtype} of shape {leaves.shape}: they must be integers of shape "
            f"{(n_rows, trees.size)}, with one entry for each row and tree"
        )
    n_nodes = ensemble.tree_start[trees + 1] - ensemble.tree_start[trees]
    if leaves.min(initial=least) < least or (leaves.max(axis=0, initial=least) >= n_nodes).any():
        raise RowsError("leaves name nodes that their trees do not have")
    return leaves.astype(np.int32, copy=False)


def tree_nodes(ensemble: TreeEnsemble, tree: int) -> tuple[Any, ...]:
    """Return the arrays that a compiled loop needs to walk down one tree.

    Parameters
    ----------
    ensemble : TreeEnsemble
    tree : int

    Returns
    -------
    tuple
        Arrays with one entry per node: parent, feature, left, right, threshold, and whether the threshold alone decides
        unless the value is missing. Where it does not, ``goes_left`` decides, which Cython code can ``cimport`` from
        ``debias.trees.kernels.routing``. It takes the rest: where missing values go, whether zeros are missing, the
        number of the category set, and the category sets of the ensemble.
    """
    return nodes_at(ensemble, slice(int(ensemble.tree_start[tree]), int(ensemble.tree_start[tree + 1])))


def nodes_at(ensemble: TreeEnsemble, at: slice) -> tuple[Any, ...]:
    """Return the arrays of :func:`tree_nodes` for some nodes, such as those of all trees."""
    size = len(ensemble.left[at])
    zero = np.zeros(size, dtype=bool) if ensemble.zero_is_missing is None else ensemble.zero_is_missing[at]
    which, sets = _category_sets(ensemble)
    which = which[at] if which.size else np.full(size, -1, dtype=np.int32)
    ways = (ensemble.parent, ensemble.feature, ensemble.left, ensemble.right, ensemble.threshold)
    return (*(array[at] for array in ways), ~zero & (which < 0), ensemble.missing_left[at], zero, which, sets)


def _category_sets(ensemble: TreeEnsemble) -> tuple[Any, tuple[Any, Any, Any]]:
    """Return the number of the category set of each node (empty: no split has one), and the sets."""
    if ensemble.category_set is None:
        no_set = np.zeros(0, dtype=np.int32)
        return no_set, (np.zeros(1, dtype=np.int64), no_set, np.zeros(0, dtype=bool))
    return ensemble.category_set, (ensemble.category_start, ensemble.category_codes, ensemble.listed_left)


def raw_output(
    ensemble: TreeEnsemble, leaves: NDArray[np.int32], X: NDArray[np.floating[Any]] | None = None
) -> NDArray[np.float64]:
    """Return the raw output of rows whose leaves in all trees are known, shape (n_rows, n_outputs).

    X, as for :class:`Router`, is needed if leaves have lines. In an averaged model a leaf may be -1, if the row is not
    used for the tree: the output is the mean over the other trees, and NaN if there are none.
    """
    least = -1 if ensemble.averaged else 0
    leaves = checked_leaves(ensemble, leaves, np.arange(ensemble.n_trees), len(leaves), least)
    raw = np.zeros((len(leaves), ensemble.n_outputs))
    add_leaf_values(ensemble, leaves, raw)
    if ensemble.has_lines:
        if X is None:
            raise ExtractionError(
                f"{ensemble.source}: leaves have lines, so its output needs the rows and not only leaves"
            )
        add_lines(ensemble, X, leaves, raw)
    if ensemble.averaged:
        with np.errstate(invalid="ignore"):  # NaN without any tree
            raw /= np.count_nonzero(leaves >= 0, axis=1)[:, None]
    return raw + ensemble.base


def add_leaf_values(
    ensemble: TreeEnsemble,
    leaves: NDArray[np.int32],
    raw: NDArray[np.float64],
    trees: NDArray[np.int64] | None = None,
) -> None:
    """Add the values of leaves (n_rows, n_trees), as `Router` returns them, to `raw` (n_rows, n_outputs), tree by tree.

    `trees` are the trees of the columns; all by default.
    """
    from debias.trees.kernels import nodes as kernels

    start, output = ensemble.tree_start[:-1], ensemble.tree_output
    if trees is not None:
        start, output = start[trees], output[trees]
    kernels.sum_leaf_values(leaves, start, output, ensemble.value, raw)


class KnownLeaves:
    """Rows whose leaves in all trees are known, in the place of a `Router`.

    Parameters
    ----------
    ensemble : TreeEnsemble
    leaves : array of int32 of shape (n_rows, n_trees)
    """

    def __init__(self, ensemble: TreeEnsemble, leaves: NDArray[np.int32]) -> None:
        self._ensemble, self._leaves = ensemble, leaves

    def leaves(self, trees: NDArray[np.int64]) -> NDArray[np.int32]:
        """See :class:`Router`."""
        if trees.size and (np.diff(trees) == 1).all():
            return self._leaves[:, trees[0] : trees[-1] + 1]
        return self._leaves.T.take(trees, axis=0).T  # tree by tree in memory, as a Router has them

    def add_outputs(self, trees: NDArray[np.int64], raw: NDArray[np.float64]) -> None:
        """See :class:`Router`."""
        for run in np.split(trees, np.flatnonzero(np.diff(trees) != 1) + 1):  # without a copy of the leaves
            if run.size:
                add_leaf_values(self._ensemble, self._leaves[:, run[0] : run[-1] + 1], raw, run)

    numbers = None
    """See :class:`NumberedLeaves`."""


class NumberedLeaves:
    """Rows whose leaves in all trees are known by their numbers in a tree: one byte each, a quarter of the memory.

    Parameters
    ----------
    ensemble : TreeEnsemble
        With bins, whose steps have the nodes of the leaves.
    numbers : array of uint8 of shape (n_trees, n_rows)
    """

    def __init__(self, ensemble: TreeEnsemble, numbers: NDArray[np.uint8]) -> None:
        assert ensemble.bins is not None
        self._ensemble, self._numbers = ensemble, numbers
        self._leaf, self._leaf_start = ensemble.bins.steps[3:]

    def leaves(self, trees: NDArray[np.int64]) -> NDArray[np.int32]:
        """See :class:`Router`."""
        leaves = np.empty((trees.size, self._numbers.shape[1]), dtype=np.int32)
        for row, tree in zip(leaves, trees.tolist(), strict=True):
            self._leaf[self._leaf_start[tree] : self._leaf_start[tree + 1]].take(self._numbers[tree], out=row)
        return leaves.T

    def add_outputs(self, trees: NDArray[np.int64], raw: NDArray[np.float64]) -> None:
        """See :class:`Router`."""
        from debias.trees.kernels import bins as bin_kernels

        ensemble = self._ensemble
        bin_kernels.add_numbered_outputs(
            self._numbers,
            trees,
            self._leaf,
            self._leaf_start,
            ensemble.tree_start,
            ensemble.tree_output,
            ensemble.value,
            raw,
        )

    @property
    def numbers(self) -> tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.int64]]:
        """The numbers, the nodes of the leaves of all trees, and where those of each tree begin."""
        return self._numbers, self._leaf, self._leaf_start


def verify_bins(ensemble: TreeEnsemble, bins: Bins, X: NDArray[np.floating[Any]]) -> None:
    """Check that routing by bins leads sample rows to the same leaves as routing without bins.

    Parameters
    ----------
    ensemble : TreeEnsemble
    bins : Bins
    X : array of shape (n_rows, n_features)
        The rows that will be routed by bins; `rows_to_check` chooses those that are compared.

    Raises
    ------
    ExtractionError
        A leaf differs.
    """
    sample = X[rows_to_check(ensemble, len(X))]
    if (bins.leaves(sample) != route(ensemble, sample)).any():
        raise ExtractionError(
            f"the bins of this {ensemble.source} lead rows to other leaves than its trees do. {REPORT}"
        )


def rows_to_check(ensemble: TreeEnsemble, n_rows: int, n_others: int = 0) -> NDArray[np.int64]:
    """Return the positions of sample rows, evenly spaced, for a check of one way of routing against another.

    `n_others` is the number of other rows that are checked too: so many fewer are chosen, but at least 16.
    """
    n_checked = min(ROWS_TO_CHECK, max(ROWS_AT_LEAST, LEAVES_TO_CHECK // ensemble.n_trees))
    return evenly_spaced(n_rows, max(ROWS_AT_LEAST, n_checked - n_others))


REPORT = "Please report this with the library's version: scores of this model would be wrong."
