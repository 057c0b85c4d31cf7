"""Lines of many features in permuted responses: a rough z of each, and a standard error over rows where that is high.

The standard error takes most of the time, and with many features almost all lines are far from the largest one. The
statistic of a line is therefore its rough z, in units of `ScreenedLines.spread`, if this is below `HIGH`, and otherwise
its z, or `HIGH` if that is larger. Line, response and trees determine it, so it is permuted as z itself is.

A rough z is the score in a few trees over the standard error that it would have if the terms of nodes were independent,

    sum_t b_t C_t / sqrt(sum_t b_t^2 sum_E (x - mean_E x)^2 var_E(y)),    C_t = sum_E (x - mean_E x) y,

where b_t is the slope at node t times its factor, and E are the evaluation rows there. Nodes and trees have rows in
common, so its spread is about 5, not 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from debias.rows import aligned

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from debias.parallel import Threads
    from debias.rows.effects import LinearEffects
    from debias.rows.seats import Seats

    Single = NDArray[np.float32]
    Positions = NDArray[np.int32]

ROUGH_TREES = 5
"""The rough z is that of so many trees of each output, the first ones."""
HIGH = 1.5
"""Lines get a standard error over rows in the permutations in which their rough z is this many times its spread: about
one of fourteen. In four designs, 5 of 200 z of noise that were 2.5 or more were of other lines, and none of 33 of 3."""
TILES_OF_SPREAD = 32
"""The spread is that of this many tiles of four lines, in 16 random orders of the response."""
SEED_OF_SPREAD = 38
"""For these orders, which are drawn for the spread alone. It is then the same for the real response and for permuted
ones, in distribution, so that the test stays exact where it is."""
MEMORY = 2**28
"""Largest number of bytes of what is kept for all lines at all nodes. Otherwise it is computed for each batch."""


class AtSeats(NamedTuple):
    """Sums of 16 responses over the rows at the seats of all trees, arrays of shape (width, n_seats, 16).

    In-bag sums (not used if in-bag responses are fixed); sums, means and variances over the evaluation rows.
    """

    inside: Single
    outside: Single
    mean: Single
    variance: Single


class ScreenedLines:
    """Lines without missing values, each the only one of its group.

    Parameters
    ----------
    effects : LinearEffects
    seats : Seats
    response_in : array of float32 of shape (n_rows in the bag, n_columns)
        The response of the bags if it is fixed; otherwise empty.
    weight : array of float32 of shape (n_rows,)
        Evaluation weights, divided by the largest.
    starts : array
        Where the blocks of rows begin; empty: every row is a block.
    lines, groups : arrays of shape (n_lines,)
        Numbers of the lines and of their groups.
    n_together : int
        Number of tiles of four lines that a kernel gets together.
    """

    def __init__(
        self,
        effects: LinearEffects,
        seats: Seats,
        response_in: Single,
        weight: Single,
        starts: NDArray[np.int64],
        lines: NDArray[np.int64],
        groups: NDArray[np.int64],
        n_together: int,
    ) -> None:
        from debias.rows.kernels import lines as kernels

        self._effects, self._seats, self._response_in = effects, seats, response_in
        self._weight, self._starts = weight, starts
        self._n_rough = min(len(effects.trees), ROUGH_TREES * len({tree.first for tree in effects.trees}))
        self._lines, self._groups = np.full((2, -(-lines.size // kernels.LINES), kernels.LINES), -1, dtype=np.int32)
        self._lines.ravel()[: lines.size], self._groups.ravel()[: lines.size] = lines, groups
        self.n_groups = lines.size
        self._parts = np.split(np.arange(len(self._lines)), np.arange(n_together, len(self._lines), n_together))
        self._kept: dict[int, tuple[Single, Single]] = {}

    def add(
        self,
        threads: Threads,
        y: Single,
        at_seats: AtSeats,
        n_lanes: int,
        spread: float,
        rough: Single,
        moments: NDArray[np.float64],
    ) -> None:
        """Write the rough z of all lines over its spread to `rough` (n_groups, 16), and `moments` where it is high.

        `y` (n_columns, n_rows, 16) has the responses, and `moments` the shape (2, n_groups, 16).
        """

        def add_part(number: int) -> None:
            self._add(self._parts[number], self._prepared(number), y, at_seats, n_lanes, (spread, HIGH), rough, moments)

        threads.map(add_part, range(len(self._parts)))

    def rough_of_some(self, y: Single, at_seats: AtSeats) -> Single:
        """Return the rough z of lines that are spread over all lines, shape (n_chosen, 16)."""
        n_tiles = len(self._lines)
        chosen = np.unique(np.linspace(0, n_tiles - 1, min(TILES_OF_SPREAD, n_tiles)).astype(np.int64))
        groups = np.where(self._groups[chosen] >= 0, np.arange(chosen.size * 4).reshape(-1, 4), -1).astype(np.int32)
        rough = np.zeros((groups.size, y.shape[2]), dtype=np.float32)
        self._add(chosen, self._of_tiles(chosen), y, at_seats, 16, (1.0, np.inf), rough, np.empty((2, 0, 16)), groups)
        return rough[groups.ravel() >= 0]

    def _add(
        self,
        tiles: NDArray[np.int64],
        prepared: tuple[Single, Single],
        y: Single,
        at_seats: AtSeats,
        n_lanes: int,
        limits: tuple[float, float],
        rough: Single,
        moments: NDArray[np.float64],
        groups: Positions | None = None,
    ) -> None:
        from debias.rows.kernels import screened_lines as kernels

        seats, (x, factors) = self._seats, prepared
        kernels.score_tiles(
            *(seats.first, *seats.inside.arrays, *seats.outside.arrays, seats.parent, seats.depth, seats.column),
            *(self._effects.response_in is not None, x, y, factors, *at_seats),
            *(self._groups[tiles] if groups is None else groups, n_lanes, self._n_rough, *limits),
            *(self._weight, self._starts, rough, moments),
        )

    def _prepared(self, number: int) -> tuple[Single, Single]:
        """Return the values of the lines of a part, and what does not depend on the permutation at every node."""
        kept = self._kept.get(number)
        if kept is None:
            kept = self._of_tiles(self._parts[number])
            if (kept[0].nbytes + kept[1].nbytes) * (len(self._kept) + 1) <= MEMORY:
                self._kept[number] = kept
        return kept

    def _of_tiles(self, tiles: NDArray[np.int64]) -> tuple[Single, Single]:
        from debias.rows.kernels import lines as kernels
        from debias.rows.kernels import screened_lines

        effects, seats, lines = self._effects, self._seats, self._lines[tiles]
        feature_of_line, of_code = effects.lines
        feature = np.where(lines >= 0, feature_of_line[lines], -1).astype(np.int32)
        x_of_code, fixed = of_code[lines].astype(np.float32), effects.response_in is not None
        x = []
        for codes in [effects.codes_in, effects.codes] if fixed else [effects.codes]:
            x.append(aligned.empty((len(lines), codes.shape[1], kernels.LINES)))
            kernels.write_values(feature, x_of_code, codes, x[-1], np.zeros(len(lines), dtype=np.uint8))
        n_seats = seats.parent.size
        factors = aligned.empty((len(lines), effects.width if fixed else 1, n_seats, 4, kernels.LINES))
        sides: tuple[Any, ...] = (seats.first, *seats.inside.arrays, *seats.outside.arrays)
        of_seats = (seats.parent, seats.column, seats.scale, effects.min_node_size)
        arrays: tuple[Any, ...] = (*sides, *of_seats, x[0], x[-1], self._response_in, factors)
        screened_lines.fit_factors(*arrays)
        return x[-1], factors


def random_orders(block: NDArray[np.int64], n: int) -> Iterator[NDArray[np.int64]]:
    """Yield n random orders of rows for the spread; blocks of one size stay together."""
    rng = np.random.default_rng(SEED_OF_SPREAD)
    blocks = np.arange(block.size).reshape(np.unique(block).size, -1)
    for _ in range(n):
        yield blocks[rng.permutation(len(blocks))].ravel()
