"""What the libraries count themselves: splits, gain, cover. Biased, and there to be compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias import CompositionError, RowsError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias import Rows, TreeEnsemble


@debias.scorer_plugin("split_count", unit="splits", needs_rows=False)
def split_count(ensemble: TreeEnsemble, rows: Rows | None) -> NDArray[np.float64]:
    """Count the splits on each feature: XGBoost's "weight", LightGBM's "split"."""
    return np.bincount(ensemble.feature[ensemble.splits], minlength=ensemble.n_features).astype(np.float64)


@debias.scorer_plugin("gain", unit="total gain", needs_rows=False)
def gain(ensemble: TreeEnsemble, rows: Rows | None) -> NDArray[np.float64]:
    """Sum of the library's split gains: XGBoost's "total_gain", LightGBM's "gain"."""
    return _total(ensemble, ensemble.gain, "gain")


@debias.scorer_plugin("cover", unit="total cover", needs_rows=False)
def cover(ensemble: TreeEnsemble, rows: Rows | None) -> NDArray[np.float64]:
    """Sum of the cover of splits: XGBoost's "total_cover" (of hessians); of LightGBM, training rows."""
    return _total(ensemble, ensemble.cover, "cover")


@debias.scorer_plugin("native", unit="as the library reports it", needs_rows=False)
def native(ensemble: TreeEnsemble, rows: Rows | None) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Return what the model reports today, to the digit: ``feature_importances_``, or a Booster's own default.

    Returns
    -------
    (array of shape (n_features,), dict)
        ``details["kind"]`` is what the library calls it.

    Raises
    ------
    RowsError
        X and y were not passed; they are not looked at, but the model comes with them.
    CompositionError
        The model reports none.
    """
    from debias.hooks.registry import plugin_manager

    if rows is None:
        raise RowsError("native reads the model that comes with the rows: pass X and y")
    found = plugin_manager().hook.debias_reported_importance(model=rows.model)
    if found is None:
        raise CompositionError(f"a {ensemble.source} reports no importance of its own; use 'mdi' or 'split_count'")
    values, kind = found
    return np.asarray(values, dtype=np.float64), {"kind": kind}


@debias.hookimpl
def debias_scorers() -> Sequence[debias.Scorer]:
    """Offer the library's own figures."""
    return [split_count, gain, cover, native]


def _total(ensemble: TreeEnsemble, per_node: NDArray[np.float64] | None, what: str) -> NDArray[np.float64]:
    if per_node is None:
        raise CompositionError(f"a {ensemble.source} stores no {what}; use 'mdi' or 'split_count'")
    at = ensemble.splits
    total: NDArray[np.float64] = np.bincount(
        ensemble.feature[at], weights=per_node[at], minlength=ensemble.n_features
    ).astype(np.float64)
    return total
