"""Linear effects of permuted responses: the moments that a permutation test compares, in single precision.

Nodes, weights and features stay the same in every permutation, so everything that does not depend on the response is
computed once. Lines are computed four at a time, for 16 permutations (:mod:`debias.rows.kernels.lines`). Level means of
categories, and features with very many ranks, are computed in double precision by :class:`LinearEffects` itself, whose
numbers are the same up to rounding. Where features are many, most lines need no standard error
(:mod:`debias.rows.screened_lines`).
"""

from __future__ import annotations

import itertools
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from debias.parallel import allowed
from debias.rows import aligned
from debias.rows.screened_lines import MEMORY, AtSeats, ScreenedLines, random_orders
from debias.rows.seats import Seats

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.groups import Grouping
    from debias.parallel import Threads
    from debias.rows.effects import LinearEffects

    Single = NDArray[np.float32]
    Positions = NDArray[np.int32]

ROUNDING = 2.0**-16
"""Bound for the error of a studentised score in single precision, in standard errors."""
MOST_RANKS = 2**10
"""With more ranks the values in a small node differ too little from one another for single precision."""
MOST_WEIGHT = 2.0**60
"""Larger in-bag weights, in units of a usual one, are outside of the range of single precision when they are summed."""
MOST_UNEQUAL = 2.0**8
"""If a response is more times as far from the mean as the median one, or an in-bag weight more times as large as the
smallest one, the many small ones lose their digits beside it. In-bag weights count how often a row was drawn."""
MOST_UNEQUAL_ROWS = 2.0**6
"""The same for the weights of evaluation rows."""
LEAST_BLOCKS = 20
"""With fewer blocks of rows their variance may be so small beside the sum of squares that digits are lost."""
ROWS_A_CALL = 2**17
"""About the number of rows of all trees, for each tile, that a kernel gets together: calling it takes time too."""
MOST_WORK = 2e7
"""Largest number of rows x lines x trees whose lines are tested. Of larger data, the lines of the first trees are."""
LEAST_TREES = 20
"""The lines of at least so many trees of each output are tested: a row is then out of bag in about seven of them."""
LEAST_SCREENED = 50
"""So many lines are screened. The largest of fewer ones may be among those whose rough z is not high."""
FIT_SHARE = 0.5
"""A forest tries about sqrt(n_features) features at each of log2(n_rows) depths of a tree. Within the time of a fit,
lines times trees are at most this share of the features that all trees try, if `LEAST_TREES` allow it."""


class PermutedEffects:
    """Moments of the contributions of rows to linear effects, for several permuted responses at once.

    Parameters
    ----------
    effects : LinearEffects
    grouping : Grouping
        Contributions to a group of features are summed first.
    within_fit : bool
        Whether to take the lines of fewer trees where features are many beside those that a forest tries, down to
        `LEAST_TREES`: about as many as take the time of its fit. If these are too many, lines are screened.

    Attributes
    ----------
    n_trees, most_trees : int
        Number of trees with lines, and of those whose lines are taken without `within_fit`.
    steps : float
        Rows times lines times columns of the response, summed over the trees whose lines are taken: the time of a
        permutation is proportional to it.
    screens : bool
        Whether lines get a standard error only in permutations in which they score high.
    """

    def __init__(self, effects: LinearEffects, grouping: Grouping, *, within_fit: bool = False) -> None:
        self.n_trees = len(effects.trees)
        self.most_trees = len(effects.of_first_trees(_n_trees(effects, within_fit=False)).trees)
        n_trees = _n_trees(effects, within_fit)
        self.screens = within_fit and n_trees < LEAST_TREES and effects.lines[0].size >= LEAST_SCREENED
        self.effects = effects = effects.of_first_trees(max(n_trees, LEAST_TREES))
        self.n_groups = len(grouping.names)
        starts = np.flatnonzero(np.r_[True, effects.block[1:] != effects.block[:-1]])
        self._starts = starts if starts.size < effects.n_rows else starts[:0]
        self._n_blocks = starts.size
        self._groups: dict[int, list[int]] = {group: [] for group in range(self.n_groups)}
        for feature, group in enumerate(grouping.index.tolist()):
            self._groups[group].append(feature)
        with_levels = set(grouping.index[effects.binned.categorical].tolist())
        fits = self._fits_single
        self._in_double = {
            group: features for group, features in self._groups.items() if not fits or group in with_levels
        }
        n_rows = sum(tree.inside[0].size + tree.outside[0].size for tree in effects.trees)
        self.steps = float(n_rows * effects.lines[0].size * effects.width)
        self._n_together = max(1, ROWS_A_CALL // max(n_rows, 1))
        alone = effects.complete_lines(list(self._groups.values())) if self.screens else np.empty((2, 0), np.int64)
        self._alone = alone[:, [group not in self._in_double for group in alone[0].tolist()]]
        self.screens = self._alone.size > 0
        tiles = _tiles(effects.lines[0], grouping.index, {*self._in_double, *self._alone[0].tolist()})
        self._runs = _runs(tiles, effects.lines[0], self._n_together)

    @property
    def _fits_single(self) -> bool:
        """Whether ranks, weights and responses are within the precision and range of single precision."""
        effects = self.effects
        if self._n_blocks < LEAST_BLOCKS or effects.binned.n_bins.max() > MOST_RANKS:
            return False
        inside = [tree.inside[2][tree.inside[2] > 0] for tree in effects.trees]
        largest = max(float(weight.max(initial=0.0)) for weight in inside)
        smallest = min(float(weight.min(initial=np.inf)) for weight in inside)
        outside = effects.weight[effects.weight > 0]
        if largest > min(MOST_WEIGHT, MOST_UNEQUAL * smallest) or outside.max() > MOST_UNEQUAL_ROWS * outside.min():
            return False
        responses = [effects.centred(effects.response[:, :, None])[:, :, 0], effects.response_in]
        return all(response is None or _is_even(response) for response in responses)

    def moments(self, response: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return sums of contributions, and of squares of their totals by block, and the rough z of screened groups.

        Contributions have an unknown unit, which is the same in all lanes.

        Parameters
        ----------
        response : array of shape (n_rows, n_columns, lanes)
            Permuted responses, in the order of ``effects.order``.

        Returns
        -------
        sums : array of shape (2, n_groups, lanes)
            Without those of screened groups where their rough z is below `screened_lines.HIGH`.
        rough : array of shape (n_groups, lanes)
            In units of its spread; infinite for groups that are not screened.
        """
        from debias.rows.kernels import lines as kernels

        lanes = response.shape[2]
        sums = np.zeros((2, self.n_groups, lanes))  # a column that a pipeline drops is a group without a line
        rough = np.full((self.n_groups, lanes), np.inf)
        if self._runs or self.screens:
            centred = self.effects.centred(response) / self._unit
            for begin in range(0, lanes, kernels.LANES):
                part = slice(begin, min(begin + kernels.LANES, lanes))
                self._add(centred[:, :, part], sums[:, :, part], rough[:, part])
        if self._in_double:
            sums[:, list(self._in_double)] = self.effects.moments_of(list(self._in_double.values()), response)
        return sums, rough

    def moments_in_double(self) -> NDArray[np.float64]:
        """Return the same moments for the response as it is, in double precision, shape (2, n_groups)."""
        sums = np.zeros((2, self.n_groups))
        alone = {group: members[0] for group, members in self._groups.items() if len(members) == 1}
        sums[:, list(alone)] = self.effects.moments[:, list(alone.values())]
        others = [group for group in self._groups if group not in alone]
        if others:
            members = [self._groups[group] for group in others]
            sums[:, others] = self.effects.moments_of(members, self.effects.response[:, :, None])[..., 0]
        return sums

    @cached_property
    def _unit(self) -> float:
        """The largest response, by which responses are divided: those of permutations are the same numbers."""
        effects = self.effects
        largest = float(np.abs(effects.centred(effects.response[:, :, None])).max())
        return largest if largest > 0 else 1.0

    def _add(self, response: NDArray[np.float64], sums: NDArray[np.float64], rough: NDArray[np.float64]) -> None:
        """Write the moments of at most 16 permutations, in single precision, and their rough z."""
        from debias.rows.kernels import lines as kernels

        lanes, y = response.shape[2], self._in_lanes(response)
        moments = np.zeros((2, self.n_groups, kernels.LANES))
        of_alone = np.zeros((self.n_groups, kernels.LANES), dtype=np.float32)
        with allowed(self.effects.n_jobs) as threads:
            at_seats = self._at_seats(threads, y)
            threads.map(partial(self._add_run, y, at_seats, moments), self._runs)
            if self.screens:
                self._screened.add(threads, y, at_seats, lanes, self._spread, of_alone, moments)
        for run in self._runs:
            groups = run.groups[:, 1]
            sums[:, groups] = moments[:, groups, :lanes]
        if self.screens:
            groups = self._alone[0]
            sums[:, groups], rough[groups] = moments[:, groups, :lanes], of_alone[groups, :lanes]

    def _in_lanes(self, response: NDArray[np.float64]) -> Single:
        """Return responses of shape (n_columns, n_rows, 16); those that are missing are 0."""
        from debias.rows.kernels import lines as kernels

        y = aligned.zeros((response.shape[1], len(response), kernels.LANES))
        y[:, :, : response.shape[2]] = response.transpose(1, 0, 2)
        return y

    def _at_seats(self, threads: Threads, y: Single) -> AtSeats:
        """Return sums, means and variances of responses at the seats."""
        from debias.rows.kernels import lines as kernels

        seats, fixed = self._seats, self.effects.response_in is not None
        sums = aligned.zeros((3, self._width, seats.parent.size, kernels.LANES))
        of_sums = [] if fixed else [(seats.inside, y, sums[0])]
        of_sums += [(seats.outside, y, sums[1]), *([(seats.outside, y * y, sums[2])] if self.screens else [])]

        def add_sums(share: tuple[int, int]) -> None:
            for side, of_rows, to in of_sums:
                arrays: tuple[Any, ...] = (seats.first, *side.arrays, seats.parent, seats.column, of_rows, to)
                kernels.sum_lanes(*share, *arrays)

        threads.map(add_sums, threads.shares(len(self.effects.trees)))
        n = np.where(seats.outside.n > 0, seats.outside.n, 1.0).astype(np.float32)[:, None]
        mean = sums[1] / n
        return AtSeats(sums[0], sums[1], mean, np.maximum(sums[2] / n - mean * mean, 0))

    def _add_run(self, y: Single, at_seats: AtSeats, moments: NDArray[np.float64], run: _Run) -> None:
        from debias.rows.kernels import lines as kernels

        seats, n_rows, fixed = self._seats, y.shape[1], self.effects.response_in is not None
        phi = aligned.empty((n_rows, kernels.LINES, kernels.LANES))
        total = aligned.empty((n_rows if run.carries else 0, kernels.LANES))
        memory = aligned.empty((seats.most, kernels.LINES, kernels.LANES))
        stack = aligned.empty((seats.deepest + 1, kernels.LINES, 4, kernels.LANES))
        values, factors = self._prepared(run)
        arrays: tuple[Any, ...] = (
            *(seats.first, *seats.inside.arrays, *seats.outside.arrays[:3], seats.parent, seats.depth),
            *(seats.column, run.indicator, values.missing, fixed, values.known, values.x[1], y[:, :0] if fixed else y),
            *(y, factors, at_seats.inside, at_seats.mean, run.groups, self._weight, self._starts, memory, stack, phi),
            *(total, moments),
        )
        kernels.add_tiles(*arrays)

    @cached_property
    def _screened(self) -> ScreenedLines:
        of_rows = (self._response_in, self._weight, self._starts)
        groups, lines = self._alone
        return ScreenedLines(self.effects, self._seats, *of_rows, lines, groups, self._n_together)

    @cached_property
    def _spread(self) -> float:
        """Root of the mean square of rough z in random orders of the response."""
        from debias.rows.kernels import lines as kernels

        effects = self.effects
        orders = list(random_orders(effects.block, kernels.LANES))
        response = np.stack([effects.response[order] for order in orders], axis=2)
        y = self._in_lanes(effects.centred(response) / self._unit)
        with allowed(effects.n_jobs) as threads:
            rough = self._screened.rough_of_some(y, self._at_seats(threads, y))
        return float(np.sqrt(np.mean(rough.astype(np.float64) ** 2))) or 1.0

    @cached_property
    def _weight(self) -> Single:
        weight: Single = (self.effects.weight / self.effects.weight.max()).astype(np.float32)
        return weight

    @cached_property
    def _width(self) -> int:
        """Number of columns of the response of a tree."""
        return self.effects.width

    @cached_property
    def _seats(self) -> Seats:
        return Seats.of(self.effects)

    def _prepared(self, run: _Run) -> tuple[_Values, Single]:
        """Return the values of the lines of a run, and what does not depend on the permutation at every node."""
        kept = self._kept.get(run.number)
        if kept is None:
            values = self._values(run)
            kept = values, self._factors(values)
            if (kept[1].nbytes + sum(x.nbytes for x in values.x)) * (len(self._kept) + 1) <= MEMORY:
                self._kept[run.number] = kept
        return kept

    @cached_property
    def _kept(self) -> dict[int, tuple[_Values, Single]]:
        return {}

    def _values(self, run: _Run) -> _Values:
        from debias.rows.kernels import lines as kernels

        effects = self.effects
        feature_of_line, of_code = effects.lines
        feature = np.where(run.lines >= 0, feature_of_line[run.lines], -1).astype(np.int32)
        x_of_code = of_code[run.lines].astype(np.float32)
        x, missing = [], np.zeros(len(run.lines), dtype=np.uint8)
        for codes in [effects.codes] if effects.response_in is None else [effects.codes_in, effects.codes]:
            x.append(aligned.empty((len(run.lines), codes.shape[1], kernels.LINES)))
            kernels.write_values(feature, x_of_code, codes, x[-1], missing)
        return _Values((x[0], x[-1]), np.nan_to_num(x[0]) if missing.any() else x[0], missing)

    def _factors(self, values: _Values) -> Single:
        from debias.rows.kernels import lines as kernels

        effects, seats = self.effects, self._seats
        fixed = effects.response_in is not None
        width, n_tiles = self._width if fixed else 1, values.missing.size
        factors = aligned.empty((n_tiles, width, seats.parent.size, 3, kernels.LINES))
        of_seats = (seats.parent, seats.column, seats.scale, effects.min_node_size)
        sides: tuple[Any, ...] = (*seats.inside.arrays, *seats.outside.arrays)
        arrays: tuple[Any, ...] = (seats.first, *sides, *of_seats, *values.x, self._response_in, factors)
        kernels.fit_factors(*arrays)
        return factors

    @cached_property
    def _response_in(self) -> Single:
        """The responses of the bags if they are fixed; otherwise empty."""
        response = self.effects.response_in
        if response is None:
            return np.empty((0, 0), dtype=np.float32)
        largest = float(np.abs(response).max())
        divided: Single = (response / (largest if largest > 0 else 1.0)).astype(np.float32)
        return divided


def _is_even(response: NDArray[np.float64]) -> bool:
    """Whether no centred response is so large that the usual ones lose their digits beside it."""
    size = np.abs(response)
    usual = [float(np.median(column[column > 0], axis=0)) if column.any() else np.inf for column in size.T]
    return bool((size.max(axis=0) <= MOST_UNEQUAL * np.array(usual)).all())


def _n_trees(effects: LinearEffects, within_fit: bool) -> int:
    """Return of how many trees for each output the lines are tested: as many as `MOST_WORK` allows, or a fit.

    With `within_fit` they may be fewer than `LEAST_TREES`, which are then taken.
    """
    work_of_tree = np.mean([tree.inside[0].size + tree.outside[0].size for tree in effects.trees])
    n_outputs, n_lines = len({tree.first for tree in effects.trees}), effects.lines[0].size
    most = max(LEAST_TREES, int(MOST_WORK / (work_of_tree * n_lines * effects.width * n_outputs + 1)))
    if not within_fit:
        return most
    tried = np.log2(max(effects.n_rows, 2)) * np.sqrt(effects.ensemble.n_features)
    return min(most, int(FIT_SHARE * tried * len(effects.trees) / max(n_lines * effects.width * n_outputs, 1)))


class _Run(NamedTuple):
    """Tiles, of four lines that are computed together, which one call of a kernel computes one after the other.

    `lines` (n_tiles, 4) are the numbers of their lines, -1 for none; `indicator` (n_tiles, 4) is 1 where the next line
    tells of missing values; `groups` (n_parts, 4) has the parts of groups, see ``kernels.add_tiles``; `carries` says
    whether a group has parts in several tiles.
    """

    number: int
    lines: Positions
    indicator: Positions
    groups: Positions
    carries: bool


class _Values(NamedTuple):
    """The x of the in-bag rows and of the evaluation rows (n_tiles, n, 4), with NaN for missing values.

    `known` are those of the in-bag rows with 0 for missing values, and `missing` (n_tiles,) is 1 where there are some.
    """

    x: tuple[Single, Single]
    known: Single
    missing: NDArray[np.uint8]


def _tiles(
    feature_of_line: Positions, group_of_feature: NDArray[np.int64], without: set[int]
) -> list[list[tuple[int, int]]]:
    """Lay out the lines in tiles, as (line, group): those of a group side by side, and those of a feature in one tile.

    A group with more than four lines has tiles of its own.
    """
    from debias.rows.kernels import lines as kernels

    of_feature: dict[int, list[int]] = {}
    for line, feature in enumerate(feature_of_line.tolist()):
        of_feature.setdefault(feature, []).append(line)
    lines_of: dict[int, list[list[int]]] = {}  # of each group: the lines of each of its features
    for feature, lines in of_feature.items():
        if group_of_feature[feature] not in without:
            lines_of.setdefault(int(group_of_feature[feature]), []).append(lines)
    tiles: list[list[tuple[int, int]]] = []
    alone = True  # whether the last tile is of one group, which has more than four lines
    # Features with two lines come first, so that they fill tiles without a gap.
    for group in sorted(lines_of, key=lambda group: -max(map(len, lines_of[group]))):
        n_lines = sum(map(len, lines_of[group]))
        if alone or len(tiles[-1]) + n_lines > kernels.LINES:
            tiles.append([])
        alone = n_lines > kernels.LINES
        for lines in sorted(lines_of[group], key=len, reverse=True):
            if len(tiles[-1]) + len(lines) > kernels.LINES:
                tiles.append([])
            tiles[-1].extend((line, group) for line in lines)
    return tiles


def _runs(tiles: list[list[tuple[int, int]]], feature_of_line: Positions, n_together: int) -> list[_Run]:
    """Return runs of about `n_together` tiles; the tiles of a group are in one run."""
    from debias.rows.kernels import lines as kernels

    if not tiles:
        return []
    lines, groups = np.full((2, len(tiles), kernels.LINES), -1, dtype=np.int32)
    for number, tile in enumerate(tiles):
        for place, (line, group) in enumerate(tile):
            lines[number, place], groups[number, place] = line, group
    features = np.where(lines >= 0, feature_of_line[lines], -1)
    indicator = np.zeros_like(lines)
    indicator[:, :-1] = (features[:, 1:] == features[:, :-1]) & (features[:, 1:] >= 0)
    continues = np.array([False] + [before[-1][1] == tile[0][1] for before, tile in itertools.pairwise(tiles)])
    runs: list[_Run] = []
    begin = 0
    for end in range(1, len(tiles) + 1):
        if end < len(tiles) and (continues[end] or end - begin < n_together):
            continue
        carries = bool(continues[begin:end].any())
        runs.append(_Run(len(runs), lines[begin:end], indicator[begin:end], _parts_of(groups[begin:end]), carries))
        begin = end
    return runs


def _parts_of(groups: Positions) -> Positions:
    """Return the parts of groups in tiles, as tile, group, first line and end; `groups` (n_tiles, 4), -1 for none."""
    before = np.insert(groups[:, :-1], 0, -1, axis=1)
    tile, first = np.nonzero((groups != before) & (groups >= 0))
    group = groups[tile, first]
    n_lines = (groups[tile] == group[:, None]).sum(axis=1)
    return np.ascontiguousarray(np.column_stack([tile, group, first, first + n_lines]), dtype=np.int32)
