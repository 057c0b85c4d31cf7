"""The simulations of Li, Wang, Basu, Kumbier and Yu (2019), section 4; other effects of their features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias import RowsError
from debias_bench.simulate._simulation import Simulation, finish

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

N_RELEVANT = 5
POOL = 10
"""Number of features, the first or the last, from which the relevant ones are drawn."""
NOISE_TO_SIGNAL = 100.0
"""Variance of the regression noise divided by that of the mean."""


def strobl(n_rows: int = 200, *, null: bool = False, seed: int | None = None) -> Simulation:
    """Draw five features with 2 to infinitely many values, of which only the binary one matters (first simulation).

    Parameters
    ----------
    n_rows : int
        200 in the paper.
    null : bool
        Whether to permute the response, so that it is independent of the features.
    seed : int, optional

    Returns
    -------
    Simulation
        ``X1`` is standard normal, ``X2`` is Bernoulli(1/2), and ``X3``, ``X4``, ``X5`` are uniform on 4, 10, 20 values
        from 0. P(y = 1) = (1 + X2) / 3.
    """
    import pandas as pd

    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"X1": rng.normal(size=n_rows)})
    for name, n_values in zip(("X2", "X3", "X4", "X5"), (2, 4, 10, 20), strict=True):
        X[name] = rng.integers(0, n_values, n_rows)
    y = (rng.random(n_rows) < (1 + X["X2"].to_numpy()) / 3).astype(np.int64)
    return finish(X, y, [["X2"], ["X1", "X3", "X4", "X5"]], null, rng)


def li(
    task: str = "classification",
    *,
    n_rows: int = 1000,
    n_features: int = 50,
    mirror: bool = False,
    matched: bool = False,
    variant: str = "text",
    null: bool = False,
    seed: int | None = None,
) -> Simulation:
    """Draw fifty discrete features, the j-th with j + 1 values; five of the first ten matter (second simulation).

    Parameters
    ----------
    task : {"classification", "regression"}
    n_rows, n_features : int
        1000 and 50 in the paper; 10 features or more.
    mirror : bool
        Whether to draw the relevant features from the last ten instead, which have the most values. A method that is
        biased against features with many values wins on the original and loses on the mirror.
    matched : bool
        Whether to scale the logit of a mirror to the variance it has on average in the original. Features with many
        values have a smaller variance on [0, 1], so the mirror has less signal otherwise. Nothing changes for
        regression, where the noise is scaled to the signal, or without `mirror`.
    variant : {"text", "published"}
        "text": as the paper describes it. "published": as in the authors' own runs: no "- 1" in the logit, so that the
        base rate is 0.73, and regression noise whose standard deviation, not variance, is 100 times the variance.
    null : bool
        Whether to permute the response, so that it is independent of the features.
    seed : int, optional

    Returns
    -------
    Simulation
        ``X1`` .. ``X50``, where feature j is uniform on 0..j. With sums over the relevant features, P(y = 1) =
        logistic(2/5 sum X_j / j - 1), or y = 1/5 sum X_j / j + e with Var e = 100 Var(1/5 sum X_j / j).

    Raises
    ------
    RowsError
        There are too few features, or the task or variant is unknown.

    Notes
    -----
    The paper does not say which variance it means; here it is the variance in the drawn sample.
    """
    import pandas as pd

    if n_features < POOL:
        raise RowsError(f"n_features={n_features}: the relevant features are drawn from {POOL}; pass {POOL} or more")
    rng = np.random.default_rng(seed)
    drawn = {f"X{j}": rng.integers(0, j + 1, n_rows) for j in range(1, n_features + 1)}
    X = pd.DataFrame(drawn)
    pool = np.arange(n_features - POOL, n_features) if mirror else np.arange(POOL)
    relevant = np.sort(rng.choice(pool, N_RELEVANT, replace=False))
    scaled = X.to_numpy()[:, relevant] / (relevant + 1)
    total = scaled.sum(axis=1)
    if mirror and matched:
        middle = N_RELEVANT / 2
        ratio = _mean_variance(np.arange(POOL)) / _mean_variance(pool)
        total = middle + np.sqrt(ratio) * (total - middle)
    y = _response(total, task, variant, rng)
    return finish(X, y, _groups(X, relevant), null, rng)


def chip_style(
    X: Any,
    task: str = "classification",
    *,
    variant: str = "text",
    null: bool = False,
    seed: int | None = None,
) -> Simulation:
    """Draw five relevant columns of a real matrix, and permute the other columns (the ChIP study).

    Parameters
    ----------
    X : array or DataFrame of shape (n_rows, n_features)
        A numeric matrix with more than five columns, none of them constant.
    task, variant, null, seed
        As for :func:`li`.

    Returns
    -------
    Simulation
        Each column of X is scaled to [0, 1]. Five columns are drawn as relevant, and each other column is permuted
        separately (the paper does not say whether jointly). The response is as in :func:`li`, with the scaled columns.

    Raises
    ------
    RowsError
        X has too few columns, or columns that are constant, have missing values, have equal names, or are not numeric.
    """
    import pandas as pd

    try:
        frame = pd.DataFrame(X).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise RowsError(f"X must be a matrix of numbers: {error}") from error
    frame.columns = [str(name) for name in frame.columns]
    if frame.shape[1] <= N_RELEVANT:
        raise RowsError(f"X must have more than {N_RELEVANT} columns, but has {frame.shape[1]}")
    if not frame.columns.is_unique:
        raise RowsError(f"X has two columns named {frame.columns[frame.columns.duplicated()][0]!r}; rename one")
    spread = frame.max() - frame.min()
    wrong = [name for name in frame.columns if not (np.isfinite(spread[name]) and spread[name] > 0)]
    wrong += [name for name in frame.columns if frame[name].isna().any() and name not in wrong]
    if wrong:
        raise RowsError(f"these columns are constant or have missing values: {', '.join(wrong[:10])}")
    rng = np.random.default_rng(seed)
    scaled = ((frame - frame.min()) / spread).reset_index(drop=True)
    relevant = np.sort(rng.choice(scaled.shape[1], N_RELEVANT, replace=False))
    for k in range(scaled.shape[1]):
        if k not in relevant:
            scaled.isetitem(k, rng.permutation(scaled.iloc[:, k].to_numpy()))
    y = _response(scaled.to_numpy()[:, relevant].sum(axis=1), task, variant, rng)
    return finish(scaled, y, _groups(scaled, relevant), null, rng)


def _response(
    total: NDArray[np.float64], task: str, variant: str, rng: np.random.Generator
) -> NDArray[np.int64] | NDArray[np.float64]:
    if variant not in ("text", "published") or task not in ("classification", "regression"):
        raise RowsError(
            f"task={task!r}, variant={variant!r}: task must be 'classification' or 'regression', and variant 'text' or "
            "'published'"
        )
    if task == "classification":
        logit = 2 / 5 * total - (1 if variant == "text" else 0)
        return (rng.random(total.size) < 1 / (1 + np.exp(-logit))).astype(np.int64)
    mean = total / 5
    variance = NOISE_TO_SIGNAL * mean.var()
    return mean + rng.normal(scale=np.sqrt(variance) if variant == "text" else variance, size=total.size)


def _mean_variance(pool: NDArray[np.int64]) -> float:
    """Return the mean variance of X_j / j, uniform on 0, 1/j, ..., 1, over the features of a pool."""
    j = pool + 1
    return float(((j + 2) / (12 * j)).mean())


def _groups(X: pd.DataFrame, relevant: NDArray[np.int64]) -> list[list[str]]:
    """Return two groups: the relevant features, among which the paper gives no order, and the others."""
    names = [X.columns[k] for k in relevant]
    return [names, [name for name in X.columns if name not in names]]


N_FEATURES, POOL_STEP = 50, 5
SHAPES = {"U": (5, 20.0), "step": (5, 20.0), "xor": (4, 4.0)}
"""Number of relevant features, and variance of the noise divided by that of the mean."""


def shapes(shape: str, n_rows: int = 1000, *, null: bool = False, seed: int | None = None) -> Simulation:
    """Draw fifty discrete features, the j-th with j + 1 values, of which four or five have an effect of a given shape.

    Parameters
    ----------
    shape : {"U", "step", "xor"}
        With z = X_j / j in [0, 1], the mean of y is the sum over relevant features of (2 z - 1)^2 ("U") or of
        1 if z > 3/4 ("step"), or over two pairs of the product of the signs of z - 1/2 ("xor").
    n_rows : int
    null : bool
        Whether to permute the response, so that it is independent of the features.
    seed : int, optional

    Returns
    -------
    Simulation
        The relevant features are drawn from X5, X10, ..., X50, so a bias for or against features with many values
        does not help. Normal noise has 20 times the variance of the mean, 4 times for "xor".

    Raises
    ------
    RowsError
        There is no such shape.
    """
    import pandas as pd

    if shape not in SHAPES:
        raise RowsError(f"there is no shape {shape!r}; the shapes are {', '.join(SHAPES)}")
    n_relevant, noise = SHAPES[shape]
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({f"X{j}": rng.integers(0, j + 1, n_rows) for j in range(1, N_FEATURES + 1)})
    relevant = np.sort(rng.choice(np.arange(POOL_STEP, N_FEATURES + 1, POOL_STEP), n_relevant, replace=False))
    z = X.to_numpy()[:, relevant - 1] / relevant
    if shape == "U":
        mean = ((2 * z - 1) ** 2).sum(axis=1)
    elif shape == "step":
        mean = (z > 0.75).sum(axis=1).astype(np.float64)
    else:
        above = np.sign(z - 0.5)
        mean = above[:, 0] * above[:, 1] + above[:, 2] * above[:, 3]
    y = mean + rng.normal(scale=np.sqrt(noise * mean.var()), size=n_rows)
    names = [f"X{j}" for j in relevant]
    return finish(X, y, [names, [name for name in X.columns if name not in names]], null, rng)
