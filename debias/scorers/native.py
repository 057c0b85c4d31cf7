"""The libraries' own importances: number of splits, gain, cover. They are biased, and serve for comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import CompositionError, RowsError
from debias.hooks.registry import plugin_manager
from debias.hooks.reported import ReportedImportance
from debias.hooks.scorers import scorer_plugin
from debias.hooks.specs import hookimpl

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.hooks.contracts import Scorer
    from debias.rows.rows import Rows
    from debias.trees.ensemble import TreeEnsemble


@scorer_plugin("split_count", unit="splits", needs_rows=False, lines="left out")
def split_count(ensemble: TreeEnsemble, rows: Rows | None) -> NDArray[np.float64]:
    """Return the number of splits on each feature: "weight" in XGBoost, "split" in LightGBM."""
    return np.bincount(ensemble.feature[ensemble.splits], minlength=ensemble.n_features).astype(np.float64)


@scorer_plugin("gain", unit="total gain", needs_rows=False, lines="left out")
def gain(ensemble: TreeEnsemble, rows: Rows | None) -> NDArray[np.float64]:
    """Return the sum of the library's split gains: "total_gain" in XGBoost, "gain" in LightGBM."""
    return _total(ensemble, ensemble.gain, "gain")


@scorer_plugin("cover", unit="total cover", needs_rows=False, lines="left out")
def cover(ensemble: TreeEnsemble, rows: Rows | None) -> NDArray[np.float64]:
    """Return the sum of the cover of splits: "total_cover" (hessians) in XGBoost, training rows in LightGBM."""
    return _total(ensemble, ensemble.cover, "cover")


@scorer_plugin("native", unit="as the library reports it", needs_rows=False, lines="left out")
def native(ensemble: TreeEnsemble, rows: Rows | None) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Return the importance the model itself reports: ``feature_importances_``, or the default of a Booster.

    Returns
    -------
    (array of shape (n_features,), dict)
        ``details["kind"]`` is the library's name for it.

    Raises
    ------
    RowsError
        X and y were not passed. Their values are not used, but the model comes with the rows.
    CompositionError
        The model reports no importance.
    """
    if rows is None:
        raise RowsError("native reads the model that comes with the rows: pass X and y")
    reported = reported_importance(rows.model)
    if reported is None:
        raise CompositionError(f"this {ensemble.source} reports no importance of its own; use 'mdi' or 'split_count'")
    return np.asarray(reported.values, dtype=np.float64), {"kind": reported.kind}


def reported_importance(model: Any) -> ReportedImportance | None:
    """Return the importance that the library of a model reports; None if it reports none."""
    returned = plugin_manager().hook.debias_reported_importance(model=model)
    return None if returned is None else ReportedImportance(*returned)


@hookimpl
def debias_scorers() -> Sequence[Scorer]:
    """Return the scorers of the libraries' own importances."""
    return [split_count, gain, cover, native]


def _total(ensemble: TreeEnsemble, per_node: NDArray[np.float64] | None, what: str) -> NDArray[np.float64]:
    if per_node is None:
        raise CompositionError(f"this {ensemble.source} stores no {what}; use 'mdi' or 'split_count'")
    at = ensemble.splits
    total: NDArray[np.float64] = np.bincount(
        ensemble.feature[at], weights=per_node[at], minlength=ensemble.n_features
    ).astype(np.float64)
    return total
