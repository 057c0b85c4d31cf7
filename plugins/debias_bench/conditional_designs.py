"""Level and power of the test of `conditional_importance`: a column that depends on a relevant one.

Three columns: the first is relevant, the second depends on the first, the third is noise. The response does not depend
on the second given the others (level), or its mean rises by `effect` with it (power). Run a table with
``python -m debias_bench.studies.conditional 300 100``: 300 rows, and 100 trials of each cell.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import debias

if TYPE_CHECKING:
    from numpy.typing import NDArray

DEPENDENCES = ("linear", "square", "binary", "category", "product", "xor")
CONFOUNDED = (
    *("3 sites", "15 sites", "50 sites", "field", "max", "sine", "jump", "rule", "slopes by site"),
    *("circle", "band", "ball", "parity"),
)
"""Both columns follow a function of the others that is not a straight line; see :func:`confounding`."""
TESTED = 1
"""The column whose p-value counts."""
ALPHA = 0.05


@dataclass(frozen=True)
class Cell:
    """One cell of the tables.

    Parameters
    ----------
    dependence : {"linear", "square", "binary", "category", "product", "xor"} or one of CONFOUNDED
        How the second column depends on the first: linearly; on its square, on which the response also depends; as the
        sign of a linear function with noise; as five unordered categories of that function. "product", "xor":
        column and response depend on the product of the first and the third column, or on the sign of this product.
    correlation : float
        Correlation of the second column with what it depends on, before it is cut into categories.
    n : int
        Number of training rows, and of held-out rows.
    model : {"forest", "xgboost"}
    effect : float
        0: the null hypothesis is true.
    statistic : {"covariance", "loss"}
    train : bool
        Whether the training rows are passed too.
    """

    dependence: str
    correlation: float
    n: int
    model: str
    effect: float = 0.0
    statistic: str = "covariance"
    train: bool = False


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
    if cell.dependence == "square":
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
    if cell.model == "forest":
        from sklearn.ensemble import RandomForestRegressor

        return RandomForestRegressor(50, min_samples_leaf=3, max_features=1, random_state=seed).fit(X, y)
    from xgboost import XGBRegressor

    return XGBRegressor(n_estimators=60, max_depth=3, learning_rate=0.1, n_jobs=1, random_state=seed).fit(X, y)


@dataclass(frozen=True)
class Trial:
    """The test of the second column in one trial: its p-value, and whether it was not tested."""

    p_value: float
    untested: bool


def tested(cell: Cell, trial: int) -> Trial:
    """Return the test in one trial; the same trial of other models has the same data."""
    X, y = draw(cell, np.random.default_rng(np.random.SeedSequence(trial, spawn_key=(cell.n,))))
    model = fit(cell, X[: cell.n], y[: cell.n], trial)
    scorer = debias.plugin.scorer("conditional_importance", statistic=cell.statistic)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)
        train = (X[: cell.n], y[: cell.n]) if cell.train else None
        held_out = X[cell.n :], y[cell.n :]
        scores = debias.score(model, *held_out, scorer, rows="held-out", train=train, random_state=trial)
    assert scores.p_value is not None
    untested = scores.feature_names[TESTED] in scores.details.get("untested_features", {})
    return Trial(float(scores.p_value[TESTED]), untested)


def rate(cell: Cell, n_trials: int) -> float:
    """Return the share of trials with a p-value of at most 0.05.

    Parameters
    ----------
    cell : Cell
    n_trials : int

    Returns
    -------
    float
        Its standard error is ``sqrt(rate * (1 - rate) / n_trials)``.
    """
    return float(np.mean([tested(cell, trial).p_value <= ALPHA for trial in range(n_trials)]))


def cells(n: int = 300) -> list[Cell]:
    """Return the cells of the tables in the documentation, for n training rows and n held-out rows."""
    models = ("forest", "xgboost")
    settings = [("linear", 0.8), ("square", 0.8), ("product", 0.8), ("binary", 0.8), ("category", 0.8), ("xor", 0.8)]
    settings += [("linear", 0.95), ("square", 0.95), ("linear", 0.5)]
    null = [Cell(dependence, r, n, model) for dependence, r in settings for model in models]
    power = [Cell("linear", r, n, model, 0.3) for r in (0.8, 0.5, 0.95) for model in models]
    confounded = [
        Cell(dependence, 0.8, n, "forest", train=train) for dependence in CONFOUNDED for train in (False, True)
    ]
    loss = [Cell(dependence, 0.8, n, "forest", statistic="loss") for dependence in ("linear", "square", "product")]
    loss_power = [Cell("linear", 0.8, n, "forest", 0.3, "loss")]
    return null + confounded + power + loss + loss_power


def main(n: int, n_trials: int) -> None:
    """Print the shares of rejections, with its standard error, and of untested columns of every cell as a table."""
    for cell in cells(n):
        trials = [tested(cell, trial) for trial in range(n_trials)]
        found = float(np.mean([trial.p_value <= ALPHA for trial in trials]))
        error = np.sqrt(found * (1 - found) / n_trials)
        untested = np.mean([trial.untested for trial in trials])
        what = f"{cell.dependence} | {cell.correlation} | {cell.n} | {cell.model} | {cell.effect} | {cell.statistic}"
        print(f"| {what} | {cell.train} | {found:.3f} ({error:.3f}) | {untested:.2f} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
