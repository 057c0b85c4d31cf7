"""Adapter of XGBoost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from debias.hooks.library import Library

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def _small_model(X: NDArray[np.float64], y: NDArray[np.float64]) -> Any:
    from xgboost import XGBRegressor

    return XGBRegressor(n_estimators=5, max_depth=3, n_jobs=1).fit(X, y)


LIBRARY = Library("XGBoost", "xgboost", _small_model, tested=("2.1", "3.4"), extra="xgboost", page="libraries/xgboost")
