"""Adapter of NGBoost, which boosts scikit-learn's trees for each parameter of a distribution of y."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from debias.hooks.library import Library

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def _small_model(X: NDArray[np.float64], y: NDArray[np.float64]) -> Any:
    from ngboost import NGBRegressor

    return NGBRegressor(n_estimators=5, verbose=False, random_state=0).fit(X, y)


LIBRARY = Library("NGBoost", "ngboost", _small_model, tested=("0.5", "0.6"), extra="ngboost", page="libraries/ngboost")
