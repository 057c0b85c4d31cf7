"""Rows that show what is special in a table: where our reading of it and that of the model's library could part."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.table import Table
    from debias.trees.ensemble import TreeEnsemble

MOST = 64
"""Rows that are chosen at most."""
VALUES_SEEN = 2**19
"""Numbers that are looked at: all of a small table, and evenly spaced rows of a large one, at most this many."""
ROWS_SEEN = 2**14


def odd_rows(table: Table, ensemble: TreeEnsemble) -> NDArray[np.int64]:
    """Choose rows for a comparison with the model's library.

    Of columns of labels, each way a label is missing has a row, then those the model never saw, then the rarest. Of
    columns of numbers, missing values and the smallest, the largest and the one nearest to zero, among which are the
    infinite ones, those too large for a type, and zeros. Where there are too many, rows that show several come first.

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
    if table.n_rows <= MOST:
        return np.arange(table.n_rows)
    of_labels = np.array(list(dict.fromkeys(table.special_labels.values())), dtype=np.int64)[: MOST // 2]
    of_numbers = _of_numbers(table, ensemble)
    others = of_numbers[~np.isin(of_numbers, of_labels)][: MOST - of_labels.size]
    return np.sort(np.concatenate([of_labels, others]))


def _of_numbers(table: Table, ensemble: TreeEnsemble) -> NDArray[np.int64]:
    """Return rows with extremes of columns, those with most of them first."""
    n_seen = max(1, min(table.n_rows, ROWS_SEEN, VALUES_SEEN // ensemble.n_features))
    seen = np.unique(np.linspace(0, table.n_rows - 1, n_seen).astype(np.int64))
    X = table.matrix(ensemble, seen)
    missing = np.isnan(X)
    above = np.where(missing, np.inf, X)
    extremes = [above.argmin(axis=0), np.where(missing, -np.inf, X).argmax(axis=0), np.abs(above).argmin(axis=0)]
    extremes.append(missing.argmax(axis=0)[missing.any(axis=0)])
    rows, count = np.unique(np.concatenate(extremes), return_counts=True)
    return seen[rows[np.argsort(-count, kind="stable")]]
