"""Standard errors of shares of the reported importance on unseen rows: a jackknife that leaves out groups of rows.

The reported shares are figures of this model, and known exactly. The same shares on other rows are not: they vary with
the rows. Rows (blocks of rows) are divided at random into groups, and the shares are computed without each group.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.results.vocabulary import GROUPS_OF_ROWS
from debias.rows.period_sums import group_variance
from debias.rows.rows import Rows
from debias.rows.running_sums import RunningSums, SummedRows, running_sums, sums_by_group
from debias.scorers.native_unseen import AveragedFigures, refuse_other_frequencies
from debias.text import six_digits
from debias.trees.routing import Router, row_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.groups import Grouping
    from debias.scorers.native_unseen import Figures

    Array = NDArray[np.float64]


SUMS_KEPT = 2**25
"""Sums at nodes of groups of rows that are kept at once, in 512 MB at the peak. With more, it takes several passes."""


NOTHING = 1e-9
"""What rounding leaves of a weight, as a share of it."""


def unseen_figures(
    figures_on: Figures, rows: Any, grouping: Grouping, reported: Array
) -> tuple[Array, Array, Array] | tuple[Array, None, None]:
    """Return ``native_unseen`` of each group of columns, the standard error of its share, and a p-value.

    Parameters
    ----------
    figures_on : callable
        As `figures_of` returns it.
    rows : Rows
    grouping : Grouping
        Figures of a group of columns are summed first.
    reported : array of shape (n_groups,)
        The importance that the library reports, not scaled.

    Returns
    -------
    (array of shape (n_groups,), array of shape (n_groups,) or None, array of shape (n_groups,) or None)
        The figures are not scaled. The p-values, that the share is as large as is reported, are those of one-sided
        t-tests with ``GROUPS_OF_ROWS - 1`` degrees of freedom, fewer if some groups weigh more than others, and not
        adjusted for the number of features. Errors and p-values are None if the rows came in batches, if fewer than
        ``GROUPS_OF_ROWS`` rows (blocks) count, or if one group has all of the weight.

    Raises
    ------
    CompositionError
        The figures are not defined for these rows; the message says why.
    """
    from scipy.special import stdtr

    group = _groups_of(rows)
    if group is None:
        return grouping.sum(figures_on(rows)), None, None
    if isinstance(figures_on, AveragedFigures):
        figures, without = figures_on(rows), figures_on.without_groups(rows, group, GROUPS_OF_ROWS).T
    else:
        refuse_other_frequencies(rows)
        sums = _GroupSums(rows, group)
        figures = figures_on(SummedRows(sums.of_all, rows.in_bag))
        without = np.array([figures_on(SummedRows(partial(sums.without, g))) for g in range(GROUPS_OF_ROWS)])
    figures = grouping.sum(figures)
    whole, without = _shares(figures), np.array([_shares(grouping.sum(each)) for each in without])
    variance, freedom = group_variance(whole, without, _shares_of_weight(rows, group))
    error, excess = np.sqrt(variance), reported / (reported.sum() or 1.0) - whole
    t = np.divide(excess, error, out=np.where(excess > 0, np.inf, 0.0), where=error > 0)
    # Estimates, which need not fill the JSON.
    return figures, six_digits(error), six_digits(stdtr(freedom, -t))


def _groups_of(rows: Any) -> NDArray[np.int64] | None:
    """Return the group of each row, -1 for rows without weight; None if there are no groups."""
    if not isinstance(rows, Rows):
        return None
    unit, used = np.arange(rows.n_rows) if rows.blocks is None else rows.blocks, rows.weight > 0
    units = np.unique(unit[used])
    if units.size < GROUPS_OF_ROWS:
        return None
    group = np.full(int(unit.max()) + 1, -1)
    group[np.random.default_rng(rows.seed or 0).permutation(units)] = np.arange(units.size) % GROUPS_OF_ROWS
    of_row = np.where(used, group[unit], -1)
    return None if _shares_of_weight(rows, of_row).max() > 1 - NOTHING else of_row


def _shares_of_weight(rows: Rows, group: NDArray[np.int64]) -> Array:
    """Return the share of each group of the weight of all rows."""
    used = group >= 0
    weight = np.bincount(group[used], weights=rows.weight[used], minlength=GROUPS_OF_ROWS)
    return weight / weight.sum()


def _shares(figures: Array) -> Array:
    """Return shares of the sum of the figures above 0."""
    # Not clipped: a feature whose figure is below 0 without each group would have no error.
    return figures / (np.maximum(figures, 0.0).sum() or 1.0)


class _GroupSums:
    """Sums at the nodes of boosted trees over all rows but a group: those over all rows less those over the group."""

    def __init__(self, rows: Rows, group: NDArray[np.int64]) -> None:
        self._rows, self._group = rows, group
        self._at_once = max(1, SUMS_KEPT // (3 * rows.ensemble.n_nodes))
        last = lru_cache(maxsize=1)
        self._of_groups, self.of_all = last(self._of_groups_from), last(self._over_all)

    def without(self, g: int, ahead: float) -> RunningSums:
        """Return the sums without the rows of a group."""
        of_all, first = self.of_all(ahead), g - g % self._at_once
        of_group = self._of_groups(ahead, first)[:, :, g - first]
        n = _less(of_all.n, of_group[0])
        gradient, hessian = (
            np.where(n > 0, of_rows - of_its, 0.0)
            for of_rows, of_its in zip((of_all.gradient, of_all.hessian), of_group[1:], strict=True)
        )
        return RunningSums(n, gradient, hessian)

    def _over_all(self, ahead: float) -> RunningSums:
        """Return the sums over all rows; those of all groups added up, if they are kept at once."""
        if self._at_once < GROUPS_OF_ROWS:
            return running_sums(self._rows, ahead)
        return RunningSums(*self._of_groups(ahead, 0).sum(axis=2))

    def _of_groups_from(self, ahead: float, first: int) -> Array:
        """Return the sums of as many groups as are kept at once, in one pass over their rows."""
        stop = min(first + self._at_once, GROUPS_OF_ROWS)
        return sums_by_group(self._rows, self._leaves(first, stop), ahead, self._group - first, stop - first)

    def _leaves(self, first: int, stop: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int32]]]:
        """Yield positions of the rows of some groups, and their leaves in every tree."""
        ensemble, table = self._rows.ensemble, self._rows.table
        at = np.flatnonzero((self._group >= first) & (self._group < stop))
        for block in row_blocks(at.size, ensemble.n_features, ensemble.n_trees):
            router = Router(ensemble, table.matrix(ensemble, at[block]), n_jobs=self._rows.n_jobs)
            yield at[block], router.leaves(np.arange(ensemble.n_trees))


def _less(of_all: Array, of_group: Array) -> Array:
    """Return weights of nodes without a group; what rounding leaves of nothing is 0."""
    n = of_all - of_group
    return np.where(n > NOTHING * of_all, n, 0.0)
