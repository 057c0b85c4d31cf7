"""The designs of the power tables: data with a known truth, and the models that are tested."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from debias_bench import simulate
from debias_bench.significance_settings import N_TREES, seed_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias_bench.simulate import Simulation

BLOCK, N_BLOCKS, CORRELATION = 5, 20, 0.5
AICO_CORRELATION = 0.85
"""Of X1 with X6, and of the noise features X15 and X16."""


@dataclass(frozen=True, eq=False)
class Sample:
    """One data set, with the truth.

    Parameters
    ----------
    simulation : Simulation
        The rows for training. On its relevant features power is counted.
    noise : array of bool of shape (n_features,)
        Features that are independent of the response; on these, errors are counted. Features that are only correlated
        with a relevant one are in neither set.
    held_out : Simulation or None
        Rows that the model has not seen; if there are none, it is tested on its out-of-bag rows.
    """

    simulation: Simulation
    noise: NDArray[np.bool_]
    held_out: Simulation | None = None


@dataclass(frozen=True)
class PowerDesign:
    """One design: how to draw data, and which model to fit.

    Parameters
    ----------
    name, about : str
        The name in tables, and the description on the page.
    draw : callable
        ``draw(seed)`` returns a Sample.
    model : callable
        ``model(seed, y)`` returns an unfitted model.
    refits : bool
        Whether tests that fit many forests take part: not where one forest takes long.
    """

    name: str
    about: str
    draw: Callable[[int], Sample]
    model: Callable[[int, NDArray[Any]], Any]
    refits: bool = True


def forests() -> list[PowerDesign]:
    """Return the designs of the study `power`: forests, tested on their out-of-bag rows."""
    leaf_5 = partial(forest, min_samples_leaf=5)
    return [
        PowerDesign(
            "p = 100",
            "300 rows of 100 normal features in 20 blocks of five with correlation .5 inside a block; y = 0.2 times "
            "the sum of the first features of five blocks, plus N(0, 1). The other features of these blocks are not "
            "counted.",
            blocks,
            leaf_5,
        ),
        PowerDesign(
            "Li C", "Li et al. (2019), second simulation, classification, 1,000 rows.", li_rows, forest, refits=False
        ),
        PowerDesign("Li R", "The same, regression.", partial(li_rows, task="regression"), forest, refits=False),
        *(
            PowerDesign(
                model,
                f"Loh and Zhou (2020), {model}, 400 rows.",
                partial(loh_rows, model=model),
                leaf_5,
                refits=model in ("E3", "E5"),
            )
            for model in ("E1", "E2", "E3", "E4", "E5")
        ),
        PowerDesign("E0", "The same, no feature matters: errors only.", partial(loh_rows, model="E0"), leaf_5),
    ]


def boosters() -> list[PowerDesign]:
    """Return the designs of the study `aico`: boosted models, tested on held-out rows."""
    return [
        PowerDesign(
            f"sd {deviation}, rate {rate}",
            f"noise with standard deviation {deviation}, learning rate {rate}.",
            partial(aico, deviation=deviation),
            partial(booster, rate=rate),
        )
        for deviation in (1, 5, 10)
        for rate in (0.1, 0.3)
    ]


def forest(seed: int, y: NDArray[Any], **settings: Any) -> Any:
    """Return an unfitted forest: a third of the features is tried for numbers, the square root for classes."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    settings = {"n_estimators": N_TREES, "random_state": seed, **settings}
    if y.dtype.kind == "i":
        return RandomForestClassifier(**settings)
    return RandomForestRegressor(max_features=1 / 3, **settings)


def booster(seed: int, y: NDArray[Any], rate: float) -> Any:
    """Return an unfitted boosted regression of XGBoost."""
    from xgboost import XGBRegressor

    return XGBRegressor(n_estimators=100, max_depth=3, learning_rate=rate, random_state=seed, n_jobs=1)


def blocks(seed: int, n_rows: int = 300) -> Sample:
    """Draw 100 normal features in blocks; the first features of the first five blocks matter."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(n_rows, N_BLOCKS, 1))
    X = np.sqrt(CORRELATION) * shared + np.sqrt(1 - CORRELATION) * rng.normal(size=(n_rows, N_BLOCKS, BLOCK))
    X = X.reshape(n_rows, -1)
    relevant = np.arange(0, 5 * BLOCK, BLOCK)
    y = 0.2 * X[:, relevant].sum(axis=1) + rng.normal(size=n_rows)
    frame = pd.DataFrame(X, columns=[f"X{k + 1}" for k in range(X.shape[1])])
    return Sample(_known(frame, y, relevant), np.arange(X.shape[1]) >= 5 * BLOCK)


def li_rows(seed: int, task: str = "classification") -> Sample:
    """Draw the second simulation of Li et al. (2019)."""
    drawn = simulate.li(task, seed=seed)
    return Sample(drawn, ~drawn.is_relevant)


def loh_rows(seed: int, model: str) -> Sample:
    """Draw one of the models of Loh and Zhou (2020), with categories as numbers.

    B2 is a function of C2, so both matter in E4. In E1 and E2 the response depends on N2 (and N1); N3 and N4 are only
    correlated with it and are not counted.
    """
    drawn = simulate.loh(model, seed=seed)
    causes = {"E1": ("N2",), "E2": ("N1", "N2")}.get(model, drawn.relevant)
    numeric = replace(drawn, X=drawn.numeric, relevant=causes)
    return Sample(numeric, ~drawn.is_relevant)


def aico(seed: int, deviation: float, n_rows: int = 1000) -> Sample:
    """Draw the simulated regression of AICO (Giesecke, Horel and Jirachotkulthorn 2025).

    The distributions and coefficients are those of their public simulation: twelve features of seven kinds matter, and
    seven are independent of the response. X9 depends on X2.
    """
    import pandas as pd

    rng = np.random.default_rng(seed)
    n = 2 * n_rows
    x = {k: rng.normal(size=n) for k in (2, 3, 4, 5, 7, 13, 14)}
    x[1], x[6] = _correlated(rng, n)
    x[8] = rng.uniform(-1, 1, size=n)
    x[9] = (x[2] + rng.normal(size=n) < 0).astype(np.float64)
    x[10] = rng.poisson(3, size=n).astype(np.float64)
    x[15], x[16] = _correlated(rng, n)
    x.update((k, rng.standard_t(5, size=n)) for k in (11, 12, 17, 18, 19))
    mean = 3 + 4 * x[1] + x[1] * x[2] + 3 * x[3] ** 2 + 2 * x[4] * x[5] + 6 * x[6] + 2 * np.sin(x[7]) + np.exp(x[8])
    mean += 5 * x[9] + 3 * x[10] + 4 * x[11] + 5 * x[12]
    y = mean + rng.normal(scale=deviation, size=n)
    frame = pd.DataFrame({f"X{k}": x[k] for k in sorted(x)})
    halves = (slice(None, n_rows), slice(n_rows, None))
    train, held_out = (_known(frame.iloc[half].reset_index(drop=True), y[half], np.arange(12)) for half in halves)
    return Sample(train, ~train.is_relevant, held_out)


def seeds(seed: int, name: str, repeat: int) -> tuple[int, int]:
    """Return the seeds of data and model of one trial."""
    rng = np.random.default_rng([seed, *name.encode(), repeat])
    return seed_of(rng), seed_of(rng)


def _known(frame: Any, y: NDArray[np.float64], relevant: NDArray[np.int64]) -> Simulation:
    names = tuple(frame.columns[relevant])
    others = tuple(name for name in frame.columns if name not in names)
    return simulate.Simulation(frame, y, (names, others), names)


def _correlated(rng: np.random.Generator, n_rows: int) -> NDArray[np.float64]:
    """Draw two normal features with variance 1 and a correlation of AICO_CORRELATION."""
    covariance = [[1, AICO_CORRELATION], [AICO_CORRELATION, 1]]
    return rng.multivariate_normal(np.zeros(2), covariance, size=n_rows).T
