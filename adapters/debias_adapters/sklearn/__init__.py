"""Adapter of scikit-learn.

Its six families are six plugins, with a module of hooks each: `forests`, `boosting`, `hist_boosting`, `adaboost`,
`bagging` and `wrappers` (pipelines, searches, votes). They share the modules beside them. Adapters of libraries that
are built on scikit-learn may import `reading` and `refit`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from debias.hooks.library import Library

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def _small_model(X: NDArray[np.float64], y: NDArray[np.float64]) -> Any:
    from sklearn.ensemble import RandomForestRegressor

    return RandomForestRegressor(5, random_state=0).fit(X, y)


LIBRARY = Library(
    "scikit-learn", "scikit-learn", _small_model, "sklearn", tested=("1.5", "1.9"), page="libraries/scikit-learn"
)
