"""Standard errors of shares of the reported importance on unseen rows: a jackknife that leaves out groups of rows.

The reported shares are figures of this model, and known exactly. The same shares on other rows are not: they vary with
the rows. Rows (blocks of rows) are divided at random into groups, and the shares are computed without each group.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from debias.results.vocabulary import GROUPS_OF_ROWS
from debias.rows.node_totals import NodeTotals
from debias.rows.period_sums import group_variance
from debias.rows.rows import Rows
from debias.rows.running_sums import RunningSums, SummedRows, running_sums, sums_by_group
from debias.scorers.native import reported_importance
from debias.scorers.native_unseen import REPRODUCE
from debias.text import six_digits
from debias.trees.routing import Router, row_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.groups import Grouping
    from debias.trees.ensemble import TreeEnsemble

    Array = NDArray[np.float64]


SUMS_KEPT = 2**26
"""Sums at nodes of groups of rows that are kept at once, in 512 MB. With more, the groups take several passes."""


def unseen_error(
    ensemble: TreeEnsemble, rows: Any, grouping: Grouping, reported: Array
) -> tuple[Array, Array] | tuple[None, None]:
    """Return the standard error of each share of ``native_unseen``, and p-values that it is as large as is reported.

    Parameters
    ----------
    ensemble : TreeEnsemble
    rows : Rows
        For which the figure is defined.
    grouping : Grouping
        Figures of a group of columns are summed first.
    reported : array of shape (n_groups,)
        The importance that the library reports, not scaled.

    Returns
    -------
    (array of shape (n_groups,), array of shape (n_groups,)), or (None, None)
        The p-values are those of one-sided t-tests with ``GROUPS_OF_ROWS - 1`` degrees of freedom, and not adjusted for
        the number of features. None if the rows came in batches, or there are fewer than ``GROUPS_OF_ROWS`` rows
        (blocks) that count.
    """
    from scipy.special import stdtr

    if not isinstance(rows, Rows):
        return None, None
    unit = np.arange(rows.n_rows) if rows.blocks is None else rows.blocks
    units = np.unique(unit[rows.weight > 0])
    if units.size < GROUPS_OF_ROWS:
        return None, None
    group = np.full(int(unit.max()) + 1, -1)
    group[np.random.default_rng(rows.seed or 0).permutation(units)] = np.arange(units.size) % GROUPS_OF_ROWS
    of_row, used = group[unit], rows.weight > 0
    sums, library = _GroupSums(ensemble, rows, np.where(used, of_row, -1)), reported_importance(rows.model)
    assert library is not None
    assert library.measure is not None
    figures_on = REPRODUCE[library.measure](ensemble, library)

    def shares(of: SummedRows) -> Array:
        figures = grouping.sum(figures_on(of))
        # Not clipped: a feature whose figure is below 0 without each group would have no error.
        return figures / (np.maximum(figures, 0.0).sum() or 1.0)

    whole, without = shares(sums.without(None)), np.array([shares(sums.without(g)) for g in range(GROUPS_OF_ROWS)])
    weight = np.bincount(of_row[used], weights=rows.weight[used], minlength=GROUPS_OF_ROWS)
    variance, _ = group_variance(whole, without, weight / weight.sum())
    error, excess = np.sqrt(variance), reported / (reported.sum() or 1.0) - whole
    t = np.divide(excess, error, out=np.where(excess > 0, np.inf, 0.0), where=error > 0)
    # Estimates, which need not fill the JSON.
    return six_digits(error), six_digits(stdtr(GROUPS_OF_ROWS - 1, -t))


class _GroupSums:
    """Sums at the nodes over all rows but a group: those over all rows less those over the group."""

    def __init__(self, ensemble: TreeEnsemble, rows: Rows, group: NDArray[np.int64]) -> None:
        self._ensemble, self._rows, self._group = ensemble, rows, group
        self._at_once = max(1, SUMS_KEPT // (3 * ensemble.n_nodes))
        last = lru_cache(maxsize=1)
        self._of_groups, self._of_all = last(self._of_groups_from), last(partial(running_sums, rows))
        bags = rows.in_bag
        self._skip = None if bags is None else bags.not_evaluated(0, rows.n_rows)

    def without(self, g: int | None) -> SummedRows:
        """Return the sums without the rows of a group."""
        if not self._ensemble.averaged:
            return SummedRows(None, partial(self._running, g))
        of_all = self._rows.node_sums
        if g is None:
            return SummedRows(of_all, self._no_margins)
        of_group = NodeTotals(self._ensemble)
        for positions, leaves in self._leaves(g, g + 1):
            response, weight = self._rows.response.part(positions), self._rows.weight[positions]
            of_group.add(leaves, response, weight, n_jobs=self._rows.n_jobs)
        n = _less(of_all.n, of_group.n)
        s = np.where(n[:, None] > 0, of_all.s - of_group.s, 0.0)
        return SummedRows(_Sums(n, s, n[self._ensemble.tree_start[:-1]]), self._no_margins)

    def _running(self, g: int | None, ahead: float) -> RunningSums:
        of_all = self._of_all(ahead)
        if g is None:
            return of_all
        first = g - g % self._at_once
        of_group = self._of_groups(ahead, first)[:, :, g - first]
        n = _less(of_all.n, of_group[0])
        gradient, hessian = (
            np.where(n > 0, of_rows - of_its, 0.0)
            for of_rows, of_its in zip((of_all.gradient, of_all.hessian), of_group[1:], strict=True)
        )
        return RunningSums(n, gradient, hessian)

    def _of_groups_from(self, ahead: float, first: int) -> Array:
        """Return the sums of as many groups as are kept at once, in one pass over their rows."""
        stop = min(first + self._at_once, GROUPS_OF_ROWS)
        return sums_by_group(self._rows, self._leaves(first, stop), ahead, self._group - first, stop - first)

    def _leaves(self, first: int, stop: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int32]]]:
        """Yield positions of the rows of some groups, and their leaves in every tree."""
        ensemble, table = self._ensemble, self._rows.table
        at = np.flatnonzero((self._group >= first) & (self._group < stop))
        for block in row_blocks(at.size, ensemble.n_features, ensemble.n_trees):
            skip = None if self._skip is None else np.packbits(self._skip[:, at[block]], axis=1)
            router = Router(ensemble, table.matrix(ensemble, at[block]), skip, self._rows.n_jobs)
            yield at[block], router.leaves(np.arange(ensemble.n_trees))

    def _no_margins(self, ahead: float) -> RunningSums:
        raise AssertionError("averaged trees have no margins")


class _Sums(NamedTuple):
    n: Array
    s: Array
    n_root: Array


def _less(of_all: Array, of_group: Array) -> Array:
    """Return weights of nodes without a group; what rounding leaves of nothing is 0."""
    n = of_all - of_group
    return np.where(n > 1e-9 * of_all, n, 0.0)
