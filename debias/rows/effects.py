"""Linear effects: at every node, a line in every feature, fitted on in-bag rows and evaluated on unseen rows.

A frozen forest can be asked only about the splits it made. Effects ask about every feature at every node: the line (for
categories, the level means) is fitted on the in-bag rows of the node, and its covariance with the response is computed
on the evaluation rows there. The fit never sees the rows it is evaluated on, and the cells of the node do not depend on
them, so a feature that is independent of the response and of the other features has mean 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.table import route_table
from debias.errors import RowsError
from debias.parallel import allowed
from debias.results.vocabulary import RowsKind
from debias.rows import aligned
from debias.rows.binned import Binned
from debias.rows.paths import bags_in_order, row_order
from debias.rows.seats import SeatsOfTree, seats_of_tree
from debias.rows.shared_rows import SharedRows, row_digests

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from debias.rows.rows import Rows
    from debias.trees.ensemble import TreeEnsemble

    _Part = tuple[list[NDArray[np.int64]], list[NDArray[Any]], list[NDArray[Any]]]

MIN_NODE_SIZE = 30.0
"""Nodes with less in-bag weight are skipped. Their terms have almost no weight, and they are most of the nodes."""
SHRINKAGE = 300.0
"""The term of a node is multiplied by n_t / (n_t + 300): slopes in small nodes are mostly noise."""
BINS = 256
"""Number of ranks of a feature with more values; so many ranks lose nothing."""
MEMORY = 2**22
"""About the number of bytes of contributions that a thread adds to at once."""
TILES_A_CALL = 4
"""About the least number of tiles of lines whose memory is made once."""
ROWS_A_CALL = 2**14
"""About the number of rows of all trees that a kernel gets together."""
ROWS_PER_LEVEL = 2
"""Level means are fitted in nodes with at least this in-bag weight per level."""


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearEffects:
    """Lines and level means of every feature at every node, ready for the real response and for permuted ones.

    Use :meth:`of`. Numbers are replaced by their middle ranks among the training rows, so scores do not change under
    monotone transformations, as trees do not. Missing numbers are left out of the line, and whether a number is missing
    is a second line. Features that the model splits as categories have level means, with missing values as a level.

    Parameters
    ----------
    ensemble : TreeEnsemble
    binned : Binned
    order : array of int64 of shape (n_rows,)
        Positions of the evaluation rows in the order used here: rows of a block are together.
    block : array of int64 of shape (n_rows,)
        Block of each row, in this order.
    weight : array of shape (n_rows,)
        Evaluation weights, in this order.
    codes_in, codes : arrays of uint16 of shape (n_features, n)
        Bins of the in-bag rows and of the evaluation rows.
    response_in : array of shape (n_rows in the bag, n_columns), or None
        Response of the training rows, less its mean. None: evaluation rows and training rows are the same, so a
        permutation changes both.
    response : array of shape (n_rows, n_columns)
    trees : list of SeatsOfTree
        Trees with evaluation rows.
    min_node_size : float
    n_jobs : int
    """

    ensemble: TreeEnsemble
    binned: Binned
    order: NDArray[np.int64]
    block: NDArray[np.int64]
    weight: NDArray[np.float64]
    codes_in: NDArray[np.uint16]
    codes: NDArray[np.uint16]
    response_in: NDArray[np.float64] | None
    response: NDArray[np.float64]
    trees: list[SeatsOfTree]
    min_node_size: float
    n_jobs: int

    @classmethod
    def of(
        cls,
        rows: Rows,
        *,
        min_node_size: float = MIN_NODE_SIZE,
        shrinkage: float = SHRINKAGE,
        bins: int = BINS,
    ) -> LinearEffects:
        """Route training rows and evaluation rows, and find the nodes with enough of both.

        Parameters
        ----------
        rows : Rows
            Out-of-bag rows, or held-out rows together with training rows.
        min_node_size : float
            Skip nodes with less in-bag weight.
        shrinkage : float
            The term of a node is multiplied by n_t / (n_t + shrinkage), where n_t is the in-bag weight.
        bins : int
            Number of ranks of a feature with more values.

        Raises
        ------
        RowsError
            There are held-out rows but no training rows, or no rows that the trees have not seen.
        """
        ensemble, source = rows.ensemble, training_rows(rows, "honest_effects")
        same = source is rows
        X = source.table.matrix(ensemble)
        binned = Binned(ensemble, X, bins)
        order, block = row_order(rows)
        in_bag, evaluated = bags_in_order(rows, order)
        weight = rows.weight[order]
        evaluated &= weight > 0
        leaves = np.take(route_table(ensemble, rows.table, n_jobs=rows.n_jobs).T, order, axis=1)
        if same:
            leaves_in, weight_in = leaves, np.empty(0)
            codes_in = codes = np.ascontiguousarray(binned.train[:, order])
        else:
            leaves_in = route_table(ensemble, source.table, n_jobs=rows.n_jobs).T
            weight_in = source.weight / _unit(source.weight)
            codes_in = binned.train
            codes = np.ascontiguousarray(binned.of(rows.table.matrix(ensemble))[:, order])
        seen = evaluated.any(axis=1)
        if not seen.any():
            raise RowsError(
                "no row is out of bag in any tree, so there is nothing to evaluate on. Pass rows the model has not "
                "seen, with rows='held-out' and train=(X_train, y_train)"
            )
        unit = 1.0 if in_bag is None else _unit(in_bag)
        output = ensemble.tree_output
        per_output = np.bincount(output[seen], minlength=ensemble.n_outputs)
        trees = [
            seats_of_tree(
                ensemble,
                tree,
                (leaves_in[tree], weight_in if in_bag is None else in_bag[tree] / unit),
                (leaves[tree], weight * evaluated[tree]),
                min_node_size,
                shrinkage,
                per_output[output[tree]],
            )
            for tree in map(int, np.flatnonzero(seen))
        ]
        return cls(
            ensemble=ensemble,
            binned=binned,
            order=order,
            block=block,
            weight=weight,
            codes_in=codes_in,
            codes=codes,
            response_in=None if same else _less_mean(response_columns(source), weight_in),
            response=response_columns(rows)[order],
            trees=trees,
            min_node_size=float(min_node_size),
            n_jobs=rows.n_jobs,
        )

    @property
    def n_rows(self) -> int:
        """Number of evaluation rows."""
        return self.order.size

    @property
    def fits_nothing(self) -> bool:
        """Whether all rows of each bag have the same response, so that every line is flat."""
        y_in = self.response if self.response_in is None else self.response_in
        return all(_is_flat(tree, y_in[:, tree.first : tree.first + self.width]) for tree in self.trees)

    def of_first_trees(self, n: int) -> LinearEffects:
        """Return the effects in the first `n` trees of each output, up to a factor."""
        counts: dict[int, int] = {}
        chosen = []
        for tree in self.trees:
            counts[tree.first] = counts.get(tree.first, 0) + 1
            if counts[tree.first] <= n:
                chosen.append(tree)
        return self if len(chosen) == len(self.trees) else replace(self, trees=chosen)

    def with_response(self, values: NDArray[np.float64]) -> LinearEffects:
        """Return the effects on other values of the evaluation rows, (n_rows, n_columns), in the order of the user.

        Lines that are fitted to these rows are fitted to the values too; those of training rows stay.
        """
        return replace(self, response=values[self.order])

    def contributions(self, n_rows: int, folded: bool = False) -> NDArray[np.float64]:
        """Return the contribution of every row to the score of every feature, shape (n_rows, n_features).

        The score is their sum over rows. Rows that are in all bags have 0. With `folded`, the lines are those of the
        distance of a rank from the middle rank, for effects that are U-shaped; categories have none.
        """
        y = self.centred(self.response[:, :, None])
        phi = np.zeros((n_rows, self.ensemble.n_features))

        def write(features: NDArray[np.int64], contributed: NDArray[np.float64]) -> None:
            phi[self.order[:, None], features] = contributed[:, :, 0]

        self.for_groups(self.singles, y, write, folded)
        return phi

    @property
    def singles(self) -> list[list[int]]:
        """Groups of one feature each."""
        groups: list[list[int]] = np.arange(self.ensemble.n_features)[:, None].tolist()
        return groups

    @cached_property
    def moments(self) -> NDArray[np.float64]:
        """Sums of the contributions to each feature, and of squares of their totals by block, (2, n_features)."""
        return self.moments_of(self.singles, self.response[:, :, None])[..., 0]

    def moments_of(
        self, members: list[list[int]], response: NDArray[np.float64], folded: bool = False
    ) -> NDArray[np.float64]:
        """Return the same for groups of features and several responses, shape (2, n_groups, lanes)."""
        starts = np.flatnonzero(np.r_[True, self.block[1:] != self.block[:-1]])
        sums = np.zeros((2, len(members), response.shape[2]))

        def write(groups: NDArray[np.int64], contributed: NDArray[np.float64]) -> None:
            of_block = contributed if starts.size == self.n_rows else np.add.reduceat(contributed, starts, axis=0)
            sums[0, groups] = of_block.sum(axis=0)
            sums[1, groups] = (of_block**2).sum(axis=0)

        self.for_groups(members, self.centred(response), write, folded)
        return sums

    @property
    def lines(self) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """The lines, see :attr:`debias.rows.binned.Binned.lines`."""
        return self.binned.lines

    @property
    def width(self) -> int:
        """Number of columns of the response of a tree, from its first one."""
        all_outputs = all(tree.first == 0 for tree in self.trees)
        return self.response.shape[1] if all_outputs else self.ensemble.value.shape[1]

    def centred(self, response: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the response less its weighted mean, which does not change under permutations of equal weights."""
        mean: NDArray[np.float64] = np.average(self.response, axis=0, weights=self.weight)
        return response - mean[:, None]

    def for_groups(
        self,
        members: list[list[int]],
        response: NDArray[np.float64],
        write: Callable[[NDArray[np.int64], NDArray[np.float64]], None],
        folded: bool = False,
    ) -> None:
        """Call `write` with the numbers of some groups of features, and the contributions (n_rows, n_groups, lanes)."""
        from debias.rows.kernels import effects as kernels
        from debias.rows.kernels import one_response

        n_rows, lanes, width = len(response), response.shape[2], self.width
        response_in = response if self.response_in is None else self.response_in[:, :, None]
        of_column: dict[int, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
        for first in sorted({tree.first for tree in self.trees}):
            y = np.ascontiguousarray(response[:, first : first + width]).reshape(n_rows, -1)
            y_in = y
            if self.response_in is not None:
                y_in = np.ascontiguousarray(self.response_in[:, first : first + width])
            of_column[first] = (y_in, y)
        # The slopes of a flat line are rounding, whose studentised sum could be any number.
        trees = [tree for tree in self.trees if not _is_flat(tree, of_column[tree.first][0])]
        fits = [self._sums(tree, *of_column[tree.first]) for tree in trees]
        feature_of_line, values = self.lines
        if folded:
            values = np.abs(values)
        alone = self.complete_lines(members) if lanes == 1 else np.empty((2, 0), dtype=np.int64)
        parts = _parts(trees, fits) if alone.size and trees else []
        of_all_columns = [np.ascontiguousarray(each[:, :, 0]) for each in (response_in, response)]
        others = np.setdiff1d(np.arange(len(members)), alone[0])
        place_of_feature = np.full(self.ensemble.n_features, -1, dtype=np.int32)
        for place, group in enumerate(others):
            place_of_feature[members[group]] = place
        place_of_line = place_of_feature[feature_of_line]
        by_place = np.argsort(place_of_line, kind="stable")
        sorted_lines = feature_of_line[by_place], values[by_place]
        place_of_line = place_of_line[by_place]
        size = max(1, MEMORY // (8 * n_rows * lanes))
        most_seats = max(tree.parent.size for tree in self.trees)

        def add_together(tiles: list[NDArray[np.int64]]) -> None:
            """Sum the contributions to groups of one line without missing values, several together."""
            codes = [self.codes] if self.response_in is None else [self.codes_in, self.codes]
            x = [aligned.empty((each.shape[1], one_response.LINES), np.float64) for each in codes]
            shapes = (
                (most_seats, 4 + width, one_response.LINES),
                (most_seats,),
                (most_seats, 2 + 2 * width, one_response.LINES),
            )
            memory: list[Any] = [aligned.empty(shape, np.float64) for shape in shapes]
            phi = aligned.empty((n_rows, one_response.LINES), np.float64)
            for groups, lines in tiles:
                for each, to in zip(codes, x, strict=True):
                    one_response.write_values(feature_of_line[lines], values[lines], each, to)
                phi.fill(0)
                for first, rows_of_trees, seats_of_trees in parts:
                    of_trees = (*first, x[0], x[-1], *rows_of_trees, *of_all_columns, *seats_of_trees)
                    arrays: tuple[Any, ...] = (*of_trees, self.min_node_size, *memory, phi)
                    one_response.add_lines(*arrays)
                write(groups, phi[:, : groups.size, None])

        def add(begin: int) -> None:
            """Sum the contributions to groups from `begin` on, as many as fit into memory that the processor keeps."""
            end = min(begin + size, others.size)
            first, last = np.searchsorted(place_of_line, (begin, end))
            phi = np.zeros((end - begin, n_rows, lanes))
            places = place_of_line - np.int32(begin)
            of_lines = (sorted_lines[0], places, sorted_lines[1], self.codes_in, self.codes)
            lines: tuple[Any, ...] = (int(first), int(last), *of_lines)
            memory: Any = None
            for tree, sums in zip(trees, fits, strict=True):
                y_in, y = of_column[tree.first]
                of_tree = (*tree.inside, *tree.outside, y_in, y, tree.parent, *sums, tree.scale)
                if memory is None:
                    memory = kernels.Memory(most_seats, most_seats, y_in.shape[1], y.shape[1], lanes)
                arrays: tuple[Any, ...] = (*lines, *of_tree, self.min_node_size, memory, phi)
                kernels.add_lines(*arrays)
                for place in range(begin, end):
                    for feature in members[others[place]]:
                        if self.binned.categorical[feature] and not folded:
                            self._add_levels(feature, sums[0], of_tree, phi[place - begin])
            for place in range(begin, end):
                write(others[place : place + 1], phi[place - begin][:, None])

        with allowed(self.n_jobs) as threads:
            starts = range(0, alone.shape[1], one_response.LINES)
            tiles = [alone[:, at : at + one_response.LINES] for at in starts]
            shares = threads.shares(len(tiles), TILES_A_CALL)
            threads.map(add_together, [tiles[begin:end] for begin, end in shares])
            threads.map(add, range(0, others.size, size))

    def complete_lines(self, members: list[list[int]]) -> NDArray[np.int64]:
        """Return the groups that are one line without missing values, and the number of the line, shape (2, n)."""
        feature_of_line, _ = self.lines
        n_lines = np.bincount(feature_of_line, minlength=self.ensemble.n_features)
        complete = n_lines == 1
        for codes in [self.codes] if self.response_in is None else [self.codes_in, self.codes]:
            complete &= codes.max(axis=1) < self.binned.n_bins
        line_of = np.cumsum(n_lines) - 1
        found = [
            (group, line_of[features[0]])
            for group, features in enumerate(members)
            if len(features) == 1 and complete[features[0]]
        ]
        return np.array(found, dtype=np.int64).reshape(-1, 2).T

    def _sums(
        self, tree: SeatsOfTree, y_in: NDArray[np.float64], y: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], ...]:
        """Return in-bag weights and sums of the response, and means of the evaluation rows, at the seats of a tree."""
        from debias.rows.kernels import effects as kernels

        n_seats = tree.parent.size
        n_in, n = np.empty(n_seats), np.empty(n_seats)
        s_in, mean = np.empty((n_seats, y_in.shape[1])), np.empty((n_seats, y.shape[1]))
        kernels.sum_seats(*tree.inside, y_in, tree.parent, n_in, s_in)
        kernels.sum_seats(*tree.outside, y, tree.parent, n, mean)
        mean /= np.where(n > 0, n, 1.0)[:, None]
        return n_in, s_in, mean

    def _add_levels(
        self, feature: int, n_in: NDArray[np.float64], of_tree: tuple[Any, ...], phi: NDArray[np.float64]
    ) -> None:
        """Add the contributions to the level means of a feature in one tree."""
        from debias.rows.kernels import effects as kernels

        n_levels = int(self.binned.n_bins[feature]) + 1
        least = max(self.min_node_size, float(ROWS_PER_LEVEL * n_levels))
        most = n_levels * (1 + int((n_in[1:] >= least).sum()))
        width_in, width = of_tree[6].shape[1], of_tree[7].shape[1]
        memory = kernels.Memory(most, n_in.size, width_in, width, phi.shape[1])
        codes = (self.codes_in[feature], self.codes[feature])
        arrays: tuple[Any, ...] = (*codes, n_levels, *of_tree, least, memory, phi)
        kernels.add_levels(*arrays)


def training_rows(rows: Rows, scorer: str) -> Rows:
    """Return the rows on which fits at nodes are made: those with bags, or ``train=``."""
    if rows.kind == RowsKind.TRAIN:
        raise RowsError(
            f"{scorer} evaluates fits on rows the trees have not seen, but with rows='train' the trees were grown on "
            "all rows. Use rows='oob', or held-out rows together with train=(X_train, y_train)"
        )
    source = rows if rows.kind == RowsKind.OOB else rows.train
    if source is None:
        how = "pass the training rows with rows='oob', or " if rows.ensemble.averaged else ""
        raise RowsError(
            f"{scorer} makes fits on training rows, but there are only held-out rows: {how}pass "
            "train=(X_train, y_train) together with them"
        )
    if source is not rows:
        refuse_shared(rows, source)
    return source


def refuse_shared(rows: Rows, source: Rows) -> None:
    """Refuse training rows that contain the evaluation rows: fits would be evaluated on rows they have seen.

    Raises
    ------
    RowsError
        More rows are in both than rows that repeat by chance explain.
    """
    ours, theirs = (row_digests(each.ensemble, each.table, each.response) for each in (rows, source))
    shared = SharedRows.of(ours, theirs)
    if shared.too_many:
        raise RowsError(
            f"{shared.share:.0%} of the evaluation rows are also in train=, with the same features and response. Pass "
            "in train= only the rows that the model was trained on, and evaluate on other rows"
        )


def response_columns(rows: Rows) -> NDArray[np.float64]:
    """Return the response as columns; two classes become one column times sqrt(2), which has the same products."""
    response = rows.response
    if response.values is not None:
        return response.values
    assert response.codes is not None
    if rows.ensemble.n_outputs == 2:
        return np.sqrt(2.0) * (response.codes == 1)[:, None]
    return np.eye(rows.ensemble.n_outputs)[response.codes]


def _parts(trees: list[SeatsOfTree], fits: list[tuple[NDArray[np.float64], ...]]) -> list[_Part]:
    """Put trees and their sums side by side, as many as few rows have: a call for each small tree takes longer."""
    sizes = np.cumsum([tree.inside[0].size + tree.outside[0].size for tree in trees])
    parts = []
    for of_part in np.split(np.arange(len(trees)), np.flatnonzero(np.diff(sizes // ROWS_A_CALL)) + 1):
        chosen = [trees[k] for k in of_part]
        counts = [[each.parent.size for each in chosen]]
        counts += [
            [each[0].size for each in side] for side in zip(*((t.inside, t.outside) for t in chosen), strict=True)
        ]
        first = [np.cumsum([0, *count], dtype=np.int64) for count in counts]
        columns = np.array([tree.first for tree in chosen], dtype=np.int64)
        rows = [_joined(list(each)) for each in zip(*((*t.inside, *t.outside) for t in chosen), strict=True)]
        seats = [
            _joined(list(each))
            for each in zip(*((t.parent, *fits[k], t.scale) for k, t in zip(of_part, chosen, strict=True)), strict=True)
        ]
        parts.append(([*first, columns], rows, seats))
    return parts


def _joined(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _is_flat(tree: SeatsOfTree, y_in: NDArray[np.float64]) -> bool:
    """Whether all in-bag rows of a tree have the same response."""
    rows = tree.inside[0]
    return not bool((y_in[rows] != y_in[rows[:1]]).any())


def _unit(weight: NDArray[Any]) -> float:
    """Return the weight of a usual row, so that node sizes are numbers of rows in any unit of the weights."""
    if weight.dtype == np.uint8:  # numbers of draws
        return 1.0
    positive = weight[weight > 0]
    return float(np.median(positive)) if positive.size else 1.0


def _less_mean(response: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    mean: NDArray[np.float64] = np.average(response, axis=0, weights=weight)
    return response - mean
