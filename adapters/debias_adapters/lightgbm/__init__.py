"""Adapter of LightGBM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from debias.hooks.library import Library

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def _small_model(X: NDArray[np.float64], y: NDArray[np.float64]) -> Any:
    from lightgbm import LGBMRegressor

    return LGBMRegressor(n_estimators=5, min_child_samples=5, n_jobs=1, verbose=-1).fit(X, y)


LIBRARY = Library(
    "LightGBM", "lightgbm", _small_model, tested=("4.3", "4.7"), extra="lightgbm", page="libraries/lightgbm"
)
