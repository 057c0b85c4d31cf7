"""The loss of each row of one model, and what each of its features saves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from debias.errors import RowsError
from debias.rows.loss_parts import loss_parts
from debias.significance.model_losses import RowLosses

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.groups import Grouping
    from debias.rows.rows import Rows


def row_losses(
    rows: Rows, grouping: Grouping, names: tuple[str, ...], used: NDArray[np.bool_], called: str
) -> RowLosses:
    """Return the losses of the rows that are used, and what each group of columns saves.

    Parameters
    ----------
    rows : Rows
    grouping : Grouping
        What columns save is summed within its groups.
    names : tuple of str
        How the groups are called.
    used : array of bool of shape (n_rows,)
    called : str
        What a message calls the loss.

    Raises
    ------
    RowsError
        The loss of some rows is not finite.
    """
    ensemble, at = rows.ensemble, np.flatnonzero(used)
    X = np.ascontiguousarray(rows.table.matrix(ensemble, at))
    with np.errstate(over="ignore", invalid="ignore"):
        parts = loss_parts(ensemble, X, rows.response.part(at), rows.n_jobs)
    saved = grouping.sum_columns(parts.saved)
    if not (np.isfinite(parts.loss).all() and np.isfinite(saved).all()):
        raise RowsError(f"{called} is not finite in some rows: see what it predicts there")
    split = np.bincount(grouping.index[ensemble.feature[ensemble.splits]], minlength=len(grouping.names))
    return RowLosses(names, parts.loss, parts.base, saved, split > 0)
