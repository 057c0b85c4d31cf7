"""Rows that depend on one another: blocks the user names, and repeated rows nobody named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import RowsError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.table import Table
    from debias.warning_log import WarningLog

FINE = 20
"""A column tells rows apart if its values lie on a grid of more steps than this within the quartiles,"""
REPEATED = 0.01
"""if more than this share of the rows have a value that another row has as well;"""
BEYOND_CHANCE = 3
"""and repeated rows are no chance if they are this many times as many as chance would make."""
ROWS_TO_JUDGE = 20
LARGEST_BLOCK, SHARE_OF_MASS = 10, 0.05
"""A value of more rows than both, ten and a share of all, is a point mass of its column and no trace of a block."""


def encode_blocks(blocks: Any, n_rows: int) -> NDArray[np.int64] | None:
    """Give the blocks numbers from 0.

    Parameters
    ----------
    blocks : array-like of shape (n_rows,), or None
        A label for each row.
    n_rows : int

    Returns
    -------
    array of int64 of shape (n_rows,), or None

    Raises
    ------
    RowsError
        There is not one label a row, or a label is missing.
    """
    if blocks is None:
        return None
    import pandas as pd

    try:
        labels = np.asarray(blocks)
    except ValueError:
        raise RowsError("blocks must be one label a row") from None
    if labels.shape != (n_rows,):
        raise RowsError(f"blocks has shape {labels.shape} for {n_rows} rows: pass one label a row")
    codes = pd.factorize(labels)[0].astype(np.int64)
    if (codes < 0).any():
        raise RowsError(f"blocks has no label in row {int(np.argmax(codes < 0))}: every row belongs to a block")
    if codes.max() < 1:
        raise RowsError("all rows are of one block: nothing can be learnt of chance from a single block")
    return codes


def warn_of_repeats(table: Table, notes: WarningLog) -> None:
    """Warn of rows that repeat others where that cannot be chance: p-values would take them for independent.

    Equal rows are legitimate where columns have few values. So equality is looked for in columns of fine values only,
    and compared with the chance that values of such fineness coincide.
    """
    n_rows = table.n_rows
    if n_rows < ROWS_TO_JUDGE:
        return
    joint, chance = np.zeros(n_rows, dtype=np.int64), 1.0
    for codes, coincidence in table.fine_columns(FINE, REPEATED):
        codes = _without_masses(codes)
        if (np.bincount(codes)[codes] > 1).mean() <= REPEATED:
            continue
        finer = np.unique(joint * (codes.max() + 1) + codes, return_inverse=True)[1].ravel()
        if finer.max() > joint.max():
            # A column that divides the rows no further, such as the same in another unit, is no second witness.
            joint, chance = finer, chance * coincidence
    share = float((np.bincount(joint)[joint] > 1).mean()) if joint.any() else 0.0
    if share > max(REPEATED, BEYOND_CHANCE * n_rows * chance):
        notes.warn(
            f"{share:.0%} of the rows repeat the values of another row in columns that are otherwise nearly unique. "
            "If they are measurements of the same thing they depend on one another, and p-values are too small: pass "
            "blocks=, one label a row, or hold out whole groups of rows"
        )


def _without_masses(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Tell apart the rows at values that very many share: zero among amounts, a limit of detection; -1 is missing.

    Such a value is a fact about the column, not about the rows, as a value that a few rows share is.
    """
    count = np.bincount(codes + 1)[codes + 1]
    mass = (codes < 0) | (count > max(LARGEST_BLOCK, SHARE_OF_MASS * codes.size))
    return np.where(mass, codes.max() + 1 + np.arange(codes.size), codes)
