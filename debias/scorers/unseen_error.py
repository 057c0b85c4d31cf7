"""Standard errors of shares of the reported importance on unseen rows: a jackknife that leaves out groups of rows.

The reported shares are figures of this model, and known exactly. The same shares on other rows are not: they vary with
the rows. Rows (blocks of rows) are divided at random into ten groups, and the shares are computed without each group.
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


def unseen_error(ensemble: TreeEnsemble, rows: Any, grouping: Grouping) -> NDArray[np.float64] | None:
    """Return the standard error of each share of ``native_unseen``, with ``GROUPS_OF_ROWS - 1`` degrees of freedom.

    Parameters
    ----------
    ensemble : TreeEnsemble
    rows : Rows
        For which the figure is defined.
    grouping : Grouping
        Figures of a group of columns are summed first.

    Returns
    -------
    array of shape (n_groups,), or None
        A share is max(figure, 0), scaled to sum 1. None if the rows came in batches, or there are fewer than
        ``GROUPS_OF_ROWS`` rows (blocks) that count.
    """
    if not isinstance(rows, Rows):
        return None
    unit = np.arange(rows.n_rows) if rows.blocks is None else rows.blocks
    units = np.unique(unit[rows.weight > 0])
    if units.size < GROUPS_OF_ROWS:
        return None
    group = np.full(int(unit.max()) + 1, -1)
    group[np.random.default_rng(rows.seed or 0).permutation(units)] = np.arange(units.size) % GROUPS_OF_ROWS
    of_row = group[unit]

    def shares(weight: NDArray[np.float64]) -> NDArray[np.float64]:
        part = replace(rows, weight=weight, shared=None, needs_sums=False, needs_loss=False, _effects=None)
        figures = grouping.sum(native_unseen.score(ensemble, part)[0])
        # Not clipped: a feature whose figure is below 0 without each group would have no error.
        return figures / (np.maximum(figures, 0.0).sum() or 1.0)

    without = np.array([shares(np.where(of_row == g, 0.0, rows.weight)) for g in range(GROUPS_OF_ROWS)])
    weight = np.bincount(of_row[rows.weight > 0], weights=rows.weight[rows.weight > 0], minlength=GROUPS_OF_ROWS)
    variance, _ = group_variance(shares(rows.weight), without, weight / weight.sum())
    return six_digits(np.sqrt(variance))  # an estimate, which need not fill the JSON
