"""Choice of unusual rows of a table: those where debias and the model's library might read values differently."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from debias.spread import spread
from debias.trees.routing import LEAVES_TO_CHECK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.table import Table
    from debias.trees.ensemble import TreeEnsemble

MOST, MOST_OF_MANY_TREES = 64, 32
"""Largest number of rows that are chosen; fewer for more than 50 trees, because every row visits every tree."""
VALUES_SEEN = 2**19
"""Largest number of values that are searched: all of a small table, and evenly spaced rows of a large one."""
ROWS_SEEN = 2**14
"""Largest number of rows that are searched."""


def odd_rows(table: Table, ensemble: TreeEnsemble) -> NDArray[np.int64]:
    """Choose unusual rows for a comparison with the model's library.

    For columns of labels: rows with each kind of missing value, then with labels that the model never saw, then with
    the rarest labels. For columns of numbers: rows with a missing value, and with the smallest value, the largest value
    and the value nearest to zero. These include infinite values, values too large for a type, and zeros. If there are
    too many, rows that are unusual in several columns come first.

    Parameters
    ----------
    table : Table
        In the model's order.
    ensemble : TreeEnsemble

    Returns
    -------
    array of int64
        At most `MOST` rows, ascending; all of a small table.
    """
    most = min(MOST, max(MOST_OF_MANY_TREES, LEAVES_TO_CHECK // ensemble.n_trees))
    if table.n_rows <= most:
        return np.arange(table.n_rows)
    with_labels = np.array(list(dict.fromkeys(table.special_labels.values())), dtype=np.int64)[: most // 2]
    with_extremes = _with_extremes(table, ensemble)
    others = with_extremes[~np.isin(with_extremes, with_labels)][: most - with_labels.size]
    return np.sort(np.concatenate([with_labels, others]))


def _with_extremes(table: Table, ensemble: TreeEnsemble) -> NDArray[np.int64]:
    """Return rows with missing or extreme values of columns; those with most of them come first."""
    from debias.data.kernels import columns as kernels

    seen = spread(table.n_rows, max(1, min(ROWS_SEEN, VALUES_SEEN // ensemble.n_features)))
    X = table.matrix(ensemble, seen)
    extremes = np.empty((4, ensemble.n_features), dtype=np.int64)
    kernels.extremes(X, extremes)
    rows, count = np.unique(extremes[extremes >= 0], return_counts=True)
    return seen[rows[np.argsort(-count, kind="stable")]]
