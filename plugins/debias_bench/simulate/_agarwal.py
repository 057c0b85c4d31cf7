"""The responses of Agarwal, Kenney, Tan, Tang and Yu (2023), MDI+."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from debias import RowsError
from debias_bench.simulate._simulation import Simulation, finish

if TYPE_CHECKING:
    from numpy.typing import NDArray

RESPONSES = ("linear", "lss", "polynomial", "linear + lss")
N_ROWS, N_FEATURES, N_IN_BLOCK = 250, 100, 25


def agarwal(
    response: str,
    pve: float = 0.4,
    *,
    X: Any = None,
    correlation: float = 0.0,
    null: bool = False,
    seed: int | None = None,
) -> Simulation:
    """Draw one of the four regression responses of the MDI+ paper, with a given share of explained variance.

    Parameters
    ----------
    response : {"linear", "lss", "polynomial", "linear + lss"}
        With standardised features x: the sum of five features; three products of two indicators of x > 0 (locally
        spiky sparse); x_a + x_b + x_a x_b for three pairs; x_a plus the product of indicators, for three pairs.
    pve : float
        Share of the variance of y that the mean explains, above 0 and at most 1.
    X : array or DataFrame of shape (n_rows, n_features), optional
        A real matrix; 250 of its rows are drawn. Otherwise 100 normal features.
    correlation : float
        Correlation of the first 25 normal features with one another; the relevant ones are among these.
    null : bool
        Whether to permute the response, so that it is independent of the features.
    seed : int, optional

    Returns
    -------
    Simulation
        A noise feature that is correlated with relevant ones counts as noise, as in the paper.

    Raises
    ------
    RowsError
        The response or a size is not one of those above.
    """
    import pandas as pd

    if response not in RESPONSES or not 0 < pve <= 1:
        raise RowsError(
            f"response={response!r}, pve={pve}: pass one of {', '.join(RESPONSES)}, and a share above 0 and at most 1"
        )
    rng = np.random.default_rng(seed)
    if X is None:
        values = rng.normal(size=(N_ROWS, N_FEATURES))
        shared = rng.normal(size=(N_ROWS, 1))
        values[:, :N_IN_BLOCK] *= np.sqrt(1 - correlation)
        values[:, :N_IN_BLOCK] += np.sqrt(correlation) * shared
        frame, pool = pd.DataFrame(values, columns=[f"X{k + 1}" for k in range(N_FEATURES)]), np.arange(N_IN_BLOCK)
    else:
        frame = pd.DataFrame(X).astype(np.float64)
        frame.columns = [str(name) for name in frame.columns]
        frame = frame.iloc[np.sort(rng.choice(len(frame), min(N_ROWS, len(frame)), replace=False))].reset_index(
            drop=True
        )
        pool = np.flatnonzero(frame.std().to_numpy() > 0)
    relevant = rng.choice(pool, 5 if response == "linear" else 6, replace=False)
    values = frame.to_numpy()[:, relevant]
    mean = _mean((values - values.mean(axis=0)) / values.std(axis=0), response)
    y = mean + rng.normal(scale=np.sqrt(mean.var() * (1 - pve) / pve), size=len(mean))
    names = [str(frame.columns[k]) for k in np.sort(relevant)]
    return finish(frame, y, [names, [name for name in frame.columns if name not in names]], null, rng)


def _mean(x: NDArray[np.float64], response: str) -> NDArray[np.float64]:
    if response == "linear":
        return np.asarray(x.sum(axis=1))
    total = np.zeros(len(x))
    for a, b in list(pairwise(range(6)))[::2]:
        both = ((x[:, a] > 0) & (x[:, b] > 0)).astype(np.float64)
        if response == "lss":
            total += both
        elif response == "polynomial":
            total += x[:, a] + x[:, b] + x[:, a] * x[:, b]
        else:
            total += x[:, a] + both
    return total
