"""Standard errors of shares of the reported importance on unseen rows: a jackknife that leaves out groups of rows.

The reported shares are figures of this model, and known exactly. The same shares on other rows are not: they vary with
the rows. Rows (blocks of rows) are divided at random into groups, and the shares are computed without each group.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.results.vocabulary import GROUPS_OF_ROWS
from debias.rows.period_sums import group_variance
from debias.rows.rows import Rows
from debias.scorers.native_unseen import native_unseen
from debias.text import six_digits

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

    def shares(weight: Array) -> Array:
        part = replace(rows, weight=weight, shared=None, needs_sums=False, needs_loss=False, _effects=None)
        figures = grouping.sum(native_unseen.score(ensemble, part)[0])
        # Not clipped: a feature whose figure is below 0 without each group would have no error.
        return figures / (np.maximum(figures, 0.0).sum() or 1.0)

    whole = shares(rows.weight)
    without = np.array([shares(np.where(of_row == g, 0.0, rows.weight)) for g in range(GROUPS_OF_ROWS)])
    weight = np.bincount(of_row[used], weights=rows.weight[used], minlength=GROUPS_OF_ROWS)
    variance, _ = group_variance(whole, without, weight / weight.sum())
    error, excess = np.sqrt(variance), reported / (reported.sum() or 1.0) - whole
    t = np.divide(excess, error, out=np.where(excess > 0, np.inf, 0.0), where=error > 0)
    # Estimates, which need not fill the JSON.
    return six_digits(error), six_digits(stdtr(GROUPS_OF_ROWS - 1, -t))
