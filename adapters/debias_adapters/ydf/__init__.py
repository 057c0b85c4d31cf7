"""Adapter of YDF (Yggdrasil Decision Forests)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from debias.hooks.library import Library

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def _small_model(X: NDArray[np.float64], y: NDArray[np.float64]) -> Any:
    import pandas as pd
    import ydf

    frame = pd.DataFrame(X, columns=list("abcd"))
    ydf.verbose(0)
    learner = ydf.RandomForestLearner("y", task=ydf.Task.REGRESSION, num_trees=5, num_threads=1)
    return learner.train(frame.assign(y=y)), frame, y


LIBRARY = Library("YDF", "ydf", _small_model, tested=("0.16", "0.16"), extra="ydf", page="libraries/ydf")
