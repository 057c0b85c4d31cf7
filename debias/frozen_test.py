"""The frozen-forest permutation test: structure and bags stay, the response moves, nothing is fitted.

Each permutation of the response gives new in-bag means of the nodes, new evaluation means and so a new studentised
score z*; the observed z is compared with them. The observed splits were chosen to fit the real response, so scores
themselves would not be comparable; studentised ones are (docs/significance.md has the error rates).
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.contributions import (
    coded_response,
    spread,
    write_fixed_differences,
    write_tree_means,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from debias.groups import Grouping
    from debias.paths import Paths
    from debias.rows import Rows

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
        As for :func:`debias.contributions.standard_error`. With bags, the in-bag means are made anew of each permuted
        response; without, the node values are the model's and the evaluation rows' response alone moves.
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
    statistic = _Statistic(paths, rows, paths.factor(node_weight), column, len(grouping.names))
    shuffles = _Shuffles(paths, seed)
    drawn = np.empty((0, statistic.n_columns))
    while len(drawn) < 1 + n_permutations:
        size = min(lanes, 1 + n_permutations - len(drawn))
        orders = [np.arange(paths.n_rows)] if not len(drawn) else []
        orders += [shuffles.draw() for _ in range(size - len(orders))]
        drawn = np.concatenate([drawn, statistic.of(np.stack(orders, axis=1))])
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
    """The studentised scores under several orders of the response at once."""

    def __init__(
        self,
        paths: Paths,
        rows: Rows,
        factor: NDArray[np.float64],
        column: NDArray[np.int32],
        n_columns: int,
    ) -> None:
        self.paths, self.rows, self.factor, self.column, self.n_columns = paths, rows, factor, column, n_columns
        bags = rows.in_bag
        self.class_weight = None if bags is None else bags.class_weight
        if self.class_weight is None:
            self.response = coded_response(rows)[paths.order]
        else:
            assert rows.response.codes is not None
            self.response = np.eye(rows.ensemble.n_outputs)[rows.response.codes[paths.order]]
        self.width = self.response.shape[1] if rows.ensemble.averaged else rows.ensemble.value.shape[1]

    def of(self, orders: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return z of each order, shape (n_orders, n_columns); `orders` has shape (n_rows, n_orders)."""
        from debias import path_kernels

        paths = self.paths
        y = np.ascontiguousarray(self.response[orders].transpose(0, 2, 1))
        step = np.empty((paths.n_splits, 2, self.width, orders.shape[1]))
        if paths.in_bag is None:
            write_fixed_differences(paths, step)

        def in_tree(tree: int) -> None:
            if paths.in_bag is not None:
                self._write_differences(tree, y, step)
            write_tree_means(paths, tree, y, step)

        def in_rows(part: tuple[int, int]) -> NDArray[np.float64]:
            sums = np.zeros((2, self.n_columns, orders.shape[1]))
            where = (*part, paths.block, paths.slots, paths.evaluated, paths.start, paths.slot_of_split)
            what = (self.column, self.factor, step, self.rows.ensemble.tree_output, y, paths.weight)
            path_kernels.moments(*where, *what, sums)
            return sums

        self._each(in_tree, range(paths.ensemble.n_trees))
        sums = np.sum(self._each(in_rows, paths.parts()), axis=0)
        error = spread(sums, paths.n_blocks)
        return np.divide(sums[0], error, out=np.zeros_like(error), where=error > 0).T

    def _write_differences(self, tree: int, y: NDArray[np.float64], step: NDArray[np.float64]) -> None:
        from debias import path_kernels

        paths = self.paths
        assert paths.in_bag is not None
        at, n = paths.of_tree(tree), paths.in_bag_weight[tree]
        sums = np.empty((n.size, *y.shape[1:]))
        path_kernels.sum_slots(paths.slots[tree], paths.in_bag[tree], y, paths.slot_of_split[at], sums)
        if self.class_weight is None:
            path_kernels.write_differences(sums, n, step[at])
        else:
            fixed = np.empty(0) if isinstance(self.class_weight, str) else self.class_weight
            path_kernels.write_class_differences(sums, fixed, step[at])

    def _each(self, function: Callable[[Any], Any], over: Iterable[Any]) -> list[Any]:
        """Call a function over items, in threads; the results in order, so that sums do not depend on the threads."""
        if self.rows.n_jobs == 1:
            return [function(item) for item in over]
        from joblib import Parallel, delayed

        return Parallel(n_jobs=self.rows.n_jobs, require="sharedmem")(delayed(function)(item) for item in over)


class _Shuffles:
    """Random orders of the rows; whole blocks change places where there are blocks."""

    def __init__(self, paths: Paths, seed: int) -> None:
        self._random = np.random.default_rng(np.random.SeedSequence(seed))
        self._blocks = np.arange(paths.n_rows).reshape(paths.n_blocks, -1)

    def draw(self) -> NDArray[np.int64]:
        return self._blocks[self._random.permutation(len(self._blocks))].ravel()
