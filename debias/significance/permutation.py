"""The frozen-forest permutation test: structure and bags stay, the response moves, nothing is fitted.

Each permutation of the response gives new in-bag means of the nodes, new evaluation means and so a new studentised
score z*; the observed z is compared with them. The observed splits were chosen to fit the real response, so scores
themselves would not be comparable; studentised ones are (docs/significance.md has the error rates).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.parallel import allowed
from debias.significance.contributions import fixed_differences, one_hot, spread
from debias.significance.feature_paths import FeaturePaths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from debias.data.groups import Grouping
    from debias.rows.paths import Paths
    from debias.rows.rows import Rows

MEMORY = 2**29
"""Bytes that node values of permutations which go side by side may take."""
LANES = 16
"""Permutations side by side, where memory allows: more do not stay in the processor's caches."""


@dataclass(frozen=True, eq=False)
class Draws:
    """What a permutation test drew.

    Parameters
    ----------
    z : array of shape (n_groups,)
        Observed studentised scores.
    null : array of shape (B, n_groups)
        Those of the permuted responses, in the order they were drawn.
    stopped : str
        Why there are no more: "all drawn", "settled", "budget".
    """

    z: NDArray[np.float64]
    null: NDArray[np.float64]
    stopped: str


def permutation_draws(
    paths: Paths,
    rows: Rows,
    node_weight: NDArray[np.float64],
    grouping: Grouping,
    n_permutations: int,
    seed: int,
    settled: Callable[[NDArray[np.float64], NDArray[np.float64]], bool],
    budget: float | None = None,
) -> Draws:
    """Permute the response over all rows, or over blocks, and studentise the scores of each permutation.

    Parameters
    ----------
    paths, rows, node_weight, grouping
        As for :func:`debias.significance.contributions.standard_error`. With bags, the in-bag means of the nodes are
        computed again from each permuted response. Without bags the node values are those of the model, and only the
        response of the evaluation rows is permuted.
    n_permutations : int
        At most so many.
    seed : int
    settled : callable
        ``settled(z, null)`` tells after each batch whether no further draw can matter.
    budget : float, optional
        Seconds after which no batch is begun.

    Returns
    -------
    Draws
        The same for the same seed, whatever the number of threads.
    """
    begun = perf_counter()
    lanes = lanes_that_fit(paths, rows)
    column = grouping.index[rows.ensemble.feature[paths.splits]].astype(np.int32)
    with allowed(rows.n_jobs) as threads:
        along = FeaturePaths(paths, column, len(grouping.names), threads)
        statistic = _Statistic(along, rows, paths.factor(node_weight))
        responses = _Responses(paths, statistic.response, seed)
        drawn = np.empty((0, along.n_columns))
        ahead = threads.begin(partial(responses.draw, min(lanes, 1 + n_permutations)))
        while len(drawn) < 1 + n_permutations:
            response = ahead()
            left = 1 + n_permutations - len(drawn) - response.shape[2]
            ahead = threads.begin(partial(responses.draw, min(lanes, left)))
            drawn = np.concatenate([drawn, statistic.of(response)])
            if len(drawn) > 1 and settled(drawn[0], drawn[1:]):
                return Draws(drawn[0], drawn[1:], "settled" if len(drawn) <= n_permutations else "all drawn")
            if budget is not None and perf_counter() - begun > budget and 1 < len(drawn) <= n_permutations:
                return Draws(drawn[0], drawn[1:], "budget")
    return Draws(drawn[0], drawn[1:], "all drawn")


def lanes_that_fit(paths: Paths, rows: Rows) -> int:
    """Return how many permutations go side by side."""
    width = max(1, rows.ensemble.value.shape[1])
    each = 8 * (2 * width * paths.n_splits + rows.ensemble.n_outputs * paths.n_rows)
    return max(1, min(LANES, MEMORY // max(each, 1)))


class _Statistic:
    """The studentised scores under several permuted responses at once."""

    def __init__(self, along: FeaturePaths, rows: Rows, factor: NDArray[np.float64]) -> None:
        from debias.significance.kernels import steps as step_kernels

        self.along, self.rows, self.factor = along, rows, factor[along.splits]
        paths, bags = along.paths, rows.in_bag
        self.class_weight = None if bags is None else bags.class_weight
        # Whole numbers stay exact, so that what contributes nothing has contributions of 0, and they take less room.
        self.weight = np.ones(paths.n_rows, dtype=np.uint8) if (paths.weight == 1).all() else paths.weight
        self.response: NDArray[Any]
        if rows.response.values is not None:
            self.kind, self.response = step_kernels.VALUES, rows.response.values[paths.order]
        elif self.class_weight is None:
            self.kind, self.response = step_kernels.SHARES, one_hot(rows)[paths.order, 1:]
        else:
            self.kind, self.response = step_kernels.WEIGHED, one_hot(rows)[paths.order]
        self.width = self.response.shape[1] if rows.ensemble.averaged else rows.ensemble.value.shape[1]

    def of(self, response: NDArray[Any]) -> NDArray[np.float64]:
        """Return z of permuted responses, shape (n_permutations, n_columns).

        `response` has shape (n_rows, n_outputs, n_permutations).
        """
        lanes = response.shape[2]
        y = response.reshape(len(response), -1)
        sums = self.along.moments(self.factor, self._steps(y, lanes), y, lanes)
        error = spread(sums, self.along.paths.n_blocks)
        return np.divide(sums[0], error, out=np.zeros_like(error), where=error > 0).T

    def _steps(self, y: NDArray[Any], lanes: int) -> NDArray[np.float64]:
        """Return what rows add at the dividing splits, see ``step_kernels.write_steps``."""
        from debias.significance.kernels import steps as step_kernels

        paths, threads = self.along.paths, self.along.threads
        step = np.empty((paths.n_splits, 2, self.width * lanes))
        if paths.in_bag is None:
            step[:, 0] = np.repeat(self._fixed_differences, lanes, axis=1)
        in_bag = np.empty((0, 0), dtype=np.uint8) if paths.in_bag is None else paths.in_bag
        n_in_bag = np.empty(0) if paths.in_bag is None else paths.in_bag_weight
        class_weight = self.class_weight if isinstance(self.class_weight, np.ndarray) else np.empty(0)
        of_rows = (paths.slots, in_bag, paths.evaluated.view(np.uint8), self.weight, y, lanes, self.kind)
        of_trees = (self.rows.ensemble.tree_output * lanes, paths.start, paths.slot_of_split)
        of_slots = (n_in_bag, paths.evaluation_weight, class_weight, self.along.position)
        room = (2 * int(np.diff(paths.start).max()) + 1, step.shape[2])
        types = (_sum_type(in_bag, y), _sum_type(self.weight, y))

        def write(trees: tuple[int, int]) -> None:
            sums = [np.empty(room, dtype=each) for each in types]
            step_kernels.write_steps(*trees, *of_rows, *of_trees, *of_slots, *sums, step)

        threads.map(write, threads.shares(paths.ensemble.n_trees))
        return step

    @cached_property
    def _fixed_differences(self) -> NDArray[np.float64]:
        return fixed_differences(self.along.paths, self.width)[self.along.splits]


def _sum_type(*arrays: NDArray[Any]) -> type[np.generic]:
    """Return what sums of products of these are kept in: whole numbers, if they are."""
    return np.int32 if all(array.dtype == np.uint8 for array in arrays) else np.float64


class _Responses:
    """The response as it is, then in random orders; whole blocks change places where there are blocks."""

    def __init__(self, paths: Paths, response: NDArray[Any], seed: int) -> None:
        self._random = np.random.default_rng(np.random.SeedSequence(seed))
        self._blocks = np.arange(paths.n_rows).reshape(paths.n_blocks, -1)
        self._response = response
        self._orders = self._all_orders()

    def draw(self, n: int) -> NDArray[Any]:
        """Return the next n, shape (n_rows, n_outputs, n)."""
        from debias.significance.kernels import steps as step_kernels

        drawn = np.empty((*self._response.shape, n), dtype=self._response.dtype)
        if n:
            step_kernels.put_in_order(np.stack(list(islice(self._orders, n))), self._response, drawn)
        return drawn

    def _all_orders(self) -> Iterator[NDArray[np.int64]]:
        yield self._blocks.ravel()
        while True:
            yield self._blocks[self._random.permutation(len(self._blocks))].ravel()
