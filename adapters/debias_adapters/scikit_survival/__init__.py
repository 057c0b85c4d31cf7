"""Adapter of scikit-survival, whose forests and boosted models are made of scikit-learn's compiled trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from debias.hooks.library import Library

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def _small_model(X: NDArray[np.float64], y: NDArray[np.float64]) -> Any:
    from sksurv.ensemble import RandomSurvivalForest
    from sksurv.util import Surv

    times = Surv.from_arrays(y > y.min(), y - y.min() + 1)
    return RandomSurvivalForest(5, random_state=0).fit(X, times), X, times


LIBRARY = Library(
    "scikit-survival",
    "scikit-survival",
    _small_model,
    "sksurv",
    tested=("0.23", "0.28"),
    extra="scikit-survival",
    page="libraries/scikit-survival",
)
