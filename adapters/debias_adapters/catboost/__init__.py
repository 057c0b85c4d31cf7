"""Adapter of CatBoost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from debias.hooks.library import Library

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def _small_model(X: NDArray[np.float64], y: NDArray[np.float64]) -> Any:
    from catboost import CatBoostRegressor

    settings = {"allow_writing_files": False, "thread_count": 1, "verbose": False}
    return CatBoostRegressor(iterations=5, depth=3, **settings).fit(X, y)


LIBRARY = Library(
    "CatBoost", "catboost", _small_model, tested=("1.2", "1.2"), extra="catboost", page="libraries/catboost"
)
