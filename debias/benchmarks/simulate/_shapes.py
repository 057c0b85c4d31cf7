"""Effects that are not linear, on the features of Li et al. (2019): a U, a step, and an exclusive or."""

from __future__ import annotations

import numpy as np

from debias.benchmarks.simulate._simulation import Simulation, finish
from debias.errors import RowsError

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
