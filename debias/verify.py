"""An adapter is checked, not believed: its trees must predict what the library predicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import ExtractionError
from debias.routing import raw_output, route

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.bins import Bins
    from debias.ensemble import TreeEnsemble
    from debias.table import Table

ROWS_TO_CHECK = 64
LEAVES_TO_CHECK = 3200
"""Of many trees fewer rows are compared, but at least 16: what an adapter gets wrong shows in every few trees."""


def verify_prediction(ensemble: TreeEnsemble, model: Any, table: Table) -> None:
    """Compare leaves and raw output of sample rows with the library's own.

    Parameters
    ----------
    ensemble : TreeEnsemble
    model : object
    table : Table
        Up to 64 rows, evenly spaced, are compared; of more than 50 trees fewer.

    Raises
    ------
    ExtractionError
        A leaf or an output differs; the message says which.
    """
    from debias.discovery import plugin_manager

    rows = _rows_to_check(ensemble, table.n_rows)
    X = table.matrix(ensemble, rows)
    ours = route(ensemble, X)
    theirs = plugin_manager().hook.debias_leaves(model=model, ensemble=ensemble, X=X)
    expected = plugin_manager().hook.debias_predict_raw(model=model, X=X)
    if theirs is None or expected is None:
        raise ExtractionError(
            f"the adapter of this {ensemble.source} gives no leaves or raw output of the library's own, so its trees "
            "cannot be checked"
        )
    if ours.shape != theirs.shape or (ours != theirs).any():
        where = (
            f"row {rows[np.argwhere(ours != theirs)[0][0]]} in tree {np.argwhere(ours != theirs)[0][1]}"
            if ours.shape == theirs.shape
            else f"shapes {ours.shape} and {theirs.shape}"
        )
        raise ExtractionError(
            f"the extracted trees of this {ensemble.source} route rows to other leaves than the library does "
            f"({where}). {_REPORT}"
        )
    found = raw_output(ensemble, ours)
    # XGBoost adds up float32 margins; one rounding a tree is allowed for.
    precision = np.finfo(np.float32).eps if not ensemble.averaged else 1e-9
    scale = np.abs(ensemble.base).max() + np.abs(expected).max() + _largest_step(ensemble)
    gap = np.abs(found - expected).max(initial=0.0) if found.shape == expected.shape else np.inf
    if not gap <= precision * scale * (4 + ensemble.n_trees):
        raise ExtractionError(
            f"the extracted trees of this {ensemble.source} predict otherwise than the library does (largest gap "
            f"{gap:.3g}). {_REPORT}"
        )


def verify_bins(ensemble: TreeEnsemble, bins: Bins, X: NDArray[np.floating[Any]]) -> None:
    """Compare leaves of some rows by bins with those node by node.

    Parameters
    ----------
    ensemble : TreeEnsemble
    bins : Bins
    X : array of shape (n_rows, n_features)
        Rows that are going to be routed by bins; as many of them are compared as with the library.

    Raises
    ------
    ExtractionError
        A leaf differs.
    """
    some = X[_rows_to_check(ensemble, len(X))]
    if (bins.leaves(some) != route(ensemble, some)).any():
        raise ExtractionError(f"the trees of this {ensemble.source} lead rows to other leaves by bins. {_REPORT}")


def _rows_to_check(ensemble: TreeEnsemble, n_rows: int) -> NDArray[np.int64]:
    n_checked = min(n_rows, ROWS_TO_CHECK, max(16, LEAVES_TO_CHECK // ensemble.n_trees))
    return np.unique(np.linspace(0, n_rows - 1, n_checked).astype(np.int64))


def _largest_step(ensemble: TreeEnsemble) -> float:
    return float(max(ensemble.value.max(), -ensemble.value.min()))


_REPORT = "Please report this with the library's version: no score would be right."
