"""Data for tests of conditional independence: a column that depends on others, of which the response is a function.

The response does not depend on the column given the others (level), or its mean rises by `effect` with it (power).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

CONFOUNDED = (
    *("3 sites", "15 sites", "50 sites", "field", "max", "sine", "jump", "rule", "slopes by site"),
    *("circle", "band", "ball", "parity"),
)
"""Both columns follow a function of the others that is not a straight line; see :func:`confounding`."""
TESTED = 1
"""The column whose p-value counts."""


@dataclass(frozen=True)
class Cell:
    """One line of the tables.

    Parameters
    ----------
    dependence : {"linear", "changed", "square", "binary", "category", "product", "xor"} or one of CONFOUNDED
        How the second column depends on the first: linearly; linearly, with three tenths of the slope among the new
        rows, as that of the response; on its square, on which the response also depends; as the
        sign of a linear function with noise; as five unordered categories of that function. "product", "xor":
        column and response depend on the product of the first and the third column, or on the sign of this product.
    correlation : float
        Correlation of the second column with what it depends on, before it is cut into categories.
    n : int
        Number of training rows, and of held-out rows.
    model : {"forest", "xgboost"}
    effect : float
        0: the null hypothesis is true.
    """

    dependence: str
    correlation: float
    n: int
    model: str
    effect: float = 0.0


def confounding(name: str, n: int, rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return columns, shape (n, n_columns), and a function of them with mean 0 and standard deviation 1.

    "... sites": the mean of a site, whose code is stored as an integer. "field": a smooth field of two coordinates.
    "max": the largest of three columns. "sine": of twice a column. "jump": the sign of a column. "rule": two columns
    are above 0, or a third is above 1. "slopes by site": a column times the slope of one of 10 sites. "circle", "ball":
    whether two or three columns are near 0. "band": whether the sum of two columns is. "parity": the sign of the
    product of three columns.
    """
    z = rng.normal(size=(n, 3))
    if name.endswith("sites"):
        n_sites = int(name.split()[0])
        z[:, 0] = rng.integers(0, n_sites, n)
        value = rng.normal(size=n_sites)[z[:, 0].astype(np.int64)]
    elif name == "field":
        z[:, :2] = rng.random((n, 2))
        value = np.cos(z[:, :2] @ rng.normal(0, 1 / 0.3, (2, 30)) + rng.uniform(0, 2 * np.pi, 30)).sum(axis=1)
    elif name == "slopes by site":
        z[:, 0] = rng.integers(0, 10, n)
        value = rng.normal(size=10)[z[:, 0].astype(np.int64)] * z[:, 1]
    else:
        of_name: dict[str, NDArray[Any]] = {
            "max": z.max(axis=1),
            "sine": np.sin(2 * z[:, 0]),
            "jump": np.sign(z[:, 0]),
            "rule": ((z[:, 0] > 0) & (z[:, 1] > 0)) | (z[:, 2] > 1),
            "circle": (z[:, :2] ** 2).sum(axis=1) < 2 * np.log(2),
            "band": np.abs(z[:, 0] + z[:, 1]) < 0.95,
            "ball": (z**2).sum(axis=1) < 2.37,
            "parity": np.sign(z.prod(axis=1)),
        }
        value = of_name[name].astype(np.float64)
    return z, (value - value.mean()) / value.std()


def draw(cell: Cell, rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return X and y of the training rows and as many held-out rows."""
    n = 2 * cell.n
    if cell.dependence in CONFOUNDED:
        others, signal = confounding(cell.dependence, n, rng)
        x = cell.correlation * signal + np.sqrt(1 - cell.correlation**2) * rng.normal(size=n)
        return np.insert(others, TESTED, x, axis=1), signal + cell.effect * x + rng.normal(size=n)
    X = rng.normal(size=(n, 3))
    signal = X[:, 0].copy()
    if cell.dependence == "changed":
        signal[cell.n :] *= 0.3
    elif cell.dependence == "square":
        signal = (signal**2 - 1) / np.sqrt(2)
    elif cell.dependence == "product":
        signal *= X[:, 2]
    elif cell.dependence == "xor":
        signal = np.sign(signal * X[:, 2])
    latent = cell.correlation * signal + np.sqrt(1 - cell.correlation**2) * X[:, 1]
    X[:, 1], effect = latent, latent
    if cell.dependence == "binary":
        X[:, 1] = effect = (latent > 0).astype(np.float64)
    elif cell.dependence == "category":
        X[:, 1] = np.array([2, 0, 4, 1, 3])[np.digitize(latent, [-1.0, -0.3, 0.3, 1.0])]
        effect = (X[:, 1] == 4).astype(np.float64)
    y = signal + cell.effect * effect / effect.std() + rng.normal(size=n)
    return X, y


def fit(cell: Cell, X: NDArray[np.float64], y: NDArray[np.float64], seed: int) -> Any:
    """Return a fitted model of the cell."""
    return unfitted(cell, seed).fit(X, y)


def unfitted(cell: Cell, seed: int) -> Any:
    """Return the model of the cell, which is not fitted."""
    if cell.model == "forest":
        from sklearn.ensemble import RandomForestRegressor

        return RandomForestRegressor(50, min_samples_leaf=3, max_features=1, random_state=seed)
    from xgboost import XGBRegressor

    return XGBRegressor(n_estimators=60, max_depth=3, learning_rate=0.1, n_jobs=1, random_state=seed)
