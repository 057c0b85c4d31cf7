"""The paths of rows, ordered by feature, for the statistics of many permutations.

A loop over rows and trees reads node values from many places in memory, and repeats this for each small group of
permutations. Here one feature (or group) is finished before the next one starts: its splits are few and stay in the
cache. The slots below the
splits of a feature are its *places*, two per split, numbered from 0. In each tree where the feature is on the path of a
row, the row *visits* the deepest place of the feature. Dividing splits have a *position*: ordered by feature, parents
before children.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from debias.parallel import Threads
    from debias.rows.paths import Paths

    Lists = tuple[NDArray[Any], ...]

MEMORY = 2**29
"""Largest number of bytes of the lists of visits that are kept. Larger lists are made again for each batch."""


@dataclass(frozen=True, eq=False)
class FeaturePaths:
    """Where the paths of rows meet the splits of each feature.

    Parameters
    ----------
    paths : Paths
    column : array of int32 of shape (n_dividing,)
        Group of features that each dividing split uses.
    n_columns : int
    threads : Threads
    n_wanted : int, optional
        Number of columns that have moments, the first ones; those of others are 0. By default all.
    """

    paths: Paths
    column: NDArray[np.int32]
    n_columns: int
    threads: Threads
    n_wanted: int | None = None

    def moments(
        self, factor: NDArray[np.float64], step: NDArray[np.float64], y: NDArray[np.float64], lanes: int
    ) -> NDArray[np.float64]:
        """Return sums of contributions, and of squares of their totals by block, shape (2, n_columns, lanes).

        Parameters
        ----------
        factor : array of shape (n_dividing, 2)
            As ``paths.factor`` returns it, by position.
        step : array of shape (n_dividing, 2, width x lanes)
            Difference of the values of the two children, and mean response, at every dividing split for each
            permutation, by position.
        y : array of shape (n_rows, n_outputs x lanes)
            Permuted responses.
        lanes : int
            Number of permutations.
        """
        from debias.significance.kernels import feature_paths as feature_path_kernels

        paths, parts = self.paths, self.paths.parts
        sums = np.zeros((len(parts), 2, self.n_columns, lanes))
        # Trees that have outputs of their own have fewer columns than y.
        output = self._output if step.shape[2] < y.shape[1] else np.empty(0, dtype=np.int32)
        splits = (self._first_split, self._above, output)
        block = paths.block if paths.n_blocks < paths.n_rows else np.empty(0, dtype=np.int64)
        n_places = 2 * int(np.diff(self._first_split)[: self.n_wanted].max(initial=0))
        own = threading.local()  # megabytes, which the system would make anew for each task
        for section, lists in self._sections():
            arrays = (*lists, *splits, factor, step, y, paths.weight, block, lanes, sums[section])

            def add(task: tuple[NDArray[np.int64], int, int], arrays: tuple[Any, ...] = arrays) -> None:
                if not hasattr(own, "at_places"):
                    own.at_places = np.empty((n_places, step.shape[2] + lanes))
                given: tuple[Any, ...] = (*task, *arrays, own.at_places)
                feature_path_kernels.moments(*given)

            self.threads.map(add, self._tasks(section.stop - section.start))
            del lists, arrays, add  # before the lists of the next section are made
        # In the order of the parts, whichever thread ended first.
        total: NDArray[np.float64] = sums.sum(axis=0)
        return total

    def _tasks(self, n_parts: int) -> list[tuple[NDArray[np.int64], int, int]]:
        """Return tasks for threads: sets of columns, those with most visits first, and ranges of parts."""
        # The longest tasks begin first, so that threads end at about the same time.
        order = np.argsort(-self._counts[0].sum(axis=0)[: self.n_wanted], kind="stable")
        threads = self.threads
        # Several sets for each thread, because tasks differ in length; parts are divided only if columns are few.
        n_sets = 1 if threads.n == 1 else min(order.size, 8 * threads.n)
        ranges = [(0, n_parts)] if n_sets >= 2 * threads.n or threads.n == 1 else threads.shares(n_parts)
        return [(order[i::n_sets], *part_range) for i in range(n_sets) for part_range in ranges]

    def _sections(self) -> Iterator[tuple[slice, Lists]]:
        """Yield the parts of the rows with their lists of visits, as many parts at a time as memory allows."""
        kept = self._kept
        if kept is not None:
            yield slice(0, len(self.paths.parts)), kept
            return
        first = 0
        size = self._bytes
        for part in range(1, size.size + 1):
            if part == size.size or size[first : part + 1].sum() > MEMORY:
                yield slice(first, part), self._lists(first, part)
                first = part

    @cached_property
    def _kept(self) -> Lists | None:
        return self._lists(0, self._bytes.size) if self._bytes.sum() <= MEMORY else None

    def _lists(self, first: int, last: int) -> Lists:
        """Return the lists of visits in parts first..last of the rows, see ``feature_path_kernels.moments``."""
        from debias.significance.kernels import feature_paths as feature_path_kernels

        starts = []
        for count in self._counts[:, first:last]:
            ends = np.cumsum(count.T).reshape(count.T.shape)  # column by column, part by part
            starts.append(np.concatenate([np.r_[0, ends[:-1, -1]][:, None], ends], axis=1))
        visits = np.empty(starts[0][-1, -1], dtype=self._place_type)
        rows, sizes = np.empty((2, starts[1][-1, -1]), dtype=np.int32)

        def fill(part: int) -> None:
            heads = (starts[0][:, part - first].copy(), starts[1][:, part - first].copy())
            lists: tuple[Any, ...] = (self._place, *heads, visits, rows, sizes)
            feature_path_kernels.list_visits(*self._walked(part), *lists)

        self.threads.map(fill, range(first, last))
        return visits, rows, sizes, *starts

    def _walked(self, part: int) -> tuple[Any, ...]:
        paths = self.paths
        arrays = (paths.slots, paths.evaluated, paths.start, paths.slot_of_split, self.column)
        return *paths.parts[part], *arrays

    @cached_property
    def _counts(self) -> NDArray[np.int64]:
        """Number of visits, and number of rows with visits, in each part of the rows, shape (2, n_parts, n_columns)."""
        from debias.significance.kernels import feature_paths as feature_path_kernels

        counts = np.zeros((2, len(self.paths.parts), self.n_columns), dtype=np.int64)

        def count(part: int) -> None:
            feature_path_kernels.count_visits(*self._walked(part), *counts[:, part])

        self.threads.map(count, range(counts.shape[1]))
        return counts

    @cached_property
    def _bytes(self) -> NDArray[np.int64]:
        visits, rows = self._counts.sum(axis=2)
        size: NDArray[np.int64] = self._place_type.itemsize * visits + 8 * rows
        return size

    @cached_property
    def splits(self) -> NDArray[np.int64]:
        """Dividing splits by position."""
        return np.argsort(self.column, kind="stable")

    @cached_property
    def _first_split(self) -> NDArray[np.int64]:
        return np.searchsorted(self.column[self.splits], np.arange(self.n_columns + 1))

    @cached_property
    def position(self) -> NDArray[np.int64]:
        """Position of each dividing split, shape (n_dividing,)."""
        position = np.empty(self.column.size, dtype=np.int64)
        position[self.splits] = np.arange(self.column.size)
        return position

    @cached_property
    def _place(self) -> NDArray[np.int32]:
        """The place to the left of each dividing split; the place to its right is the next one."""
        return (2 * (self.position - self._first_split[self.column])).astype(np.int32)

    @cached_property
    def _place_type(self) -> np.dtype[Any]:
        fits = self._place.max(initial=0) < 2**16 - 1
        return np.dtype(np.uint16 if fits else np.int32)

    @cached_property
    def _above(self) -> NDArray[np.int32]:
        """The deepest place of the same column on the path to each split, by position; -1 if there is none."""
        from debias.significance.kernels import feature_paths as feature_path_kernels

        above = np.empty(self.column.size, dtype=np.int32)
        splits = (self.paths.start, self.paths.slot_of_split, self.column)
        arrays: tuple[Any, ...] = (*splits, self.position, self._place, above)
        shares = self.threads.shares(self.paths.ensemble.n_trees)
        self.threads.map(lambda trees: feature_path_kernels.places_above(*trees, *arrays), shares)
        return above

    @cached_property
    def _output(self) -> NDArray[np.int32]:
        """First output of the tree of each split, by position."""
        return np.repeat(self.paths.ensemble.tree_output, np.diff(self.paths.start))[self.splits]
