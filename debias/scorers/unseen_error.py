"""Standard errors of shares of the reported importance on unseen rows: a jackknife that leaves out groups of rows.

The reported shares are figures of this model, and known exactly. The same shares on other rows are not: they vary with
the rows. Rows (blocks of rows) are divided at random into groups, and the shares are computed without each group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from debias.results.vocabulary import GROUPS_OF_ROWS
from debias.rows.node_totals import NodeTotals
from debias.rows.period_sums import group_variance
from debias.rows.rows import Rows
from debias.rows.running_sums import RunningSums, SummedRows, running_sums, sums_of
from debias.scorers.native import reported_importance
from debias.scorers.native_unseen import REPRODUCE
from debias.text import six_digits
from debias.trees.routing import Router

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.groups import Grouping
    from debias.trees.ensemble import TreeEnsemble

    Array = NDArray[np.float64]


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
    sums, library = _GroupSums(ensemble, rows), reported_importance(rows.model)
    assert library is not None
    assert library.measure is not None
    figures_on = REPRODUCE[library.measure](ensemble, library)

    def shares(positions: NDArray[np.int64]) -> Array:
        figures = grouping.sum(figures_on(sums.without(positions)))
        # Not clipped: a feature whose figure is below 0 without each group would have no error.
        return figures / (np.maximum(figures, 0.0).sum() or 1.0)

    whole = shares(np.empty(0, dtype=np.int64))
    without = np.array([shares(np.flatnonzero(used & (of_row == g))) for g in range(GROUPS_OF_ROWS)])
    weight = np.bincount(of_row[used], weights=rows.weight[used], minlength=GROUPS_OF_ROWS)
    variance, _ = group_variance(whole, without, weight / weight.sum())
    error, excess = np.sqrt(variance), reported / (reported.sum() or 1.0) - whole
    t = np.divide(excess, error, out=np.where(excess > 0, np.inf, 0.0), where=error > 0)
    # Estimates, which need not fill the JSON.
    return six_digits(error), six_digits(stdtr(GROUPS_OF_ROWS - 1, -t))


class _GroupSums:
    """Sums at the nodes over all rows but a group: those over all rows less those over the group, one pass in all."""

    def __init__(self, ensemble: TreeEnsemble, rows: Rows) -> None:
        self._ensemble, self._rows = ensemble, rows
        self._all: dict[float, RunningSums] = {}
        bags = rows.in_bag
        self._skip = None if bags is None else bags.not_evaluated(0, rows.n_rows)

    def without(self, positions: NDArray[np.int64]) -> SummedRows:
        """Return the sums without the rows at some positions."""
        ensemble, rows = self._ensemble, self._rows
        skip = None if self._skip is None else np.packbits(self._skip[:, positions], axis=1)
        router = Router(ensemble, rows.table.matrix(ensemble, positions), skip, rows.n_jobs)
        leaves = router.leaves(np.arange(ensemble.n_trees))
        if not ensemble.averaged:
            return SummedRows(None, lambda ahead: self._running(positions, leaves, ahead))
        group, of_all = NodeTotals(ensemble), rows.node_sums
        group.add(leaves, rows.response.part(positions), rows.weight[positions], n_jobs=rows.n_jobs)
        n = _less(of_all.n, group.n)
        s = np.where(n[:, None] > 0, of_all.s - group.s, 0.0)
        return SummedRows(_Sums(n, s, n[ensemble.tree_start[:-1]]), self._no_margins)

    def _running(self, positions: NDArray[np.int64], leaves: NDArray[np.int32], ahead: float) -> RunningSums:
        if ahead not in self._all:
            self._all[ahead] = running_sums(self._rows, ahead)
        of_all, group = self._all[ahead], sums_of(self._rows, [(positions, leaves)], ahead)
        n = _less(of_all.n, group.n)
        gradient, hessian = (
            np.where(n > 0, getattr(of_all, name) - getattr(group, name), 0.0) for name in ("gradient", "hessian")
        )
        return RunningSums(n, gradient, hessian)

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
