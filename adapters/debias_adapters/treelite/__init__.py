"""Adapter of treelite, and of cuML by way of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from debias.hooks.library import Library

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def _small_model(X: NDArray[np.float64], y: NDArray[np.float64]) -> Any:
    import treelite
    from sklearn.ensemble import RandomForestRegressor

    return treelite.sklearn.import_model(RandomForestRegressor(5, random_state=0).fit(X, y))


LIBRARY = Library(
    "treelite", "treelite", _small_model, tested=("4.4", "4.8"), extra="treelite", page="libraries/treelite"
)
