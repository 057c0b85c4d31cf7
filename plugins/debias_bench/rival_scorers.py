"""Scores of other packages, and restated ones, that take part in studies beside debias's scorers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from debias import DebiasError
from debias_bench.power_methods import boruta_hits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias_bench.simulate import Simulation

BORUTA_ROUNDS = 10


def absolute_correlation(model: Any, train: Simulation, seed: int) -> NDArray[np.float64]:
    """Return the absolute value of Pearson's correlation with the response; for classes the largest of them.

    A constant feature has 0. The model is not used.
    """
    X = train.numeric.to_numpy()
    y = train.y
    columns = (y[:, None] == np.unique(y)).astype(np.float64) if y.dtype.kind == "i" else y[:, None]
    X, columns = X - X.mean(axis=0), columns - columns.mean(axis=0)
    size = np.outer(np.linalg.norm(X, axis=0), np.linalg.norm(columns, axis=0))
    r = np.divide(X.T @ columns, size, out=np.zeros_like(size), where=size > 0)
    return np.asarray(np.abs(r).max(axis=1))


def boruta(model: Any, train: Simulation, seed: int) -> NDArray[np.float64]:
    """Return in how many of 10 forests a feature is more important than all permuted copies (Kursa, Rudnicki 2010).

    Features with the same number are ordered by their mean importance, a fraction that is added to the number.
    """
    from sklearn.base import clone

    def unfitted(refit_seed: int) -> Any:
        return clone(model).set_params(random_state=refit_seed)

    hits, importance = boruta_hits(unfitted, train.numeric.to_numpy(), train.y, BORUTA_ROUNDS, seed)
    return np.asarray(hits + importance / importance.sum())


def mdi_plus(model: Any, train: Simulation, seed: int) -> NDArray[np.float64]:
    """Return MDI+ of the package imodels with its default settings, for the given forest (Agarwal et al. 2023)."""
    try:
        importance: Any = import_module("imodels.importance")
    except ImportError as error:
        raise DebiasError(f"mdi_plus needs the package imodels: {error}") from error
    from sklearn.base import clone

    kind = "Classifier" if train.y.dtype.kind == "i" else "Regressor"
    X = train.numeric.to_numpy()
    plus = getattr(importance, f"RandomForestPlus{kind}")(rf_model=clone(model))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # imodels uses what pandas deprecates
        plus.fit(X, train.y)
        return np.asarray(plus.get_mdi_plus_scores(X, train.y)["importance"], dtype=np.float64)


RIVALS: dict[str, Callable[[Any, Simulation, int], NDArray[np.float64]]] = {
    "|correlation|": absolute_correlation,
    "boruta": boruta,
    "mdi_plus": mdi_plus,
}
"""Scores by name: functions of a fitted model, the training rows and a seed."""


def is_installed(name: str) -> bool:
    """Whether the package of a rival is there."""
    return name != "mdi_plus" or find_spec("imodels") is not None
