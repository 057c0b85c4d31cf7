"""The simulations of Deng, Runger and Tuv (2011), section 4."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from debias import RowsError
from debias_bench.simulate._simulation import Simulation, finish

if TYPE_CHECKING:
    from numpy.typing import NDArray

N_ROWS = 5120
CARDINALITIES = (64, 8, 2, 8, 32)
"""Numbers of values of attributes 2 to 6. They are only in the paper's figure. Attribute 4 must be binary."""
FLIPPED = 0.05
PERMUTED = {5: 0.3, 6: 0.5}
"""Share of the rows of attributes 5 and 6 that are permuted."""


def deng_t1(
    n_rows: int = N_ROWS,
    *,
    cardinalities: tuple[int, ...] = CARDINALITIES,
    null: bool = False,
    seed: int | None = None,
) -> Simulation:
    """Draw twelve attributes, six of which carry the same signal with different cardinality and noise; target T1.

    Parameters
    ----------
    n_rows : int
        5120 in the paper, so that every value of an attribute has the same number of rows.
    cardinalities : tuple of 5 int
        Number of values of attributes 2 to 6; that of attribute 4 must be 2.
    null : bool
        Whether to permute the response, so that it is independent of the features.
    seed : int, optional

    Returns
    -------
    Simulation
        ``X1`` is normal with mean 0 and standard deviation 10 (the paper's "Normal(0, 10)"; trees do not depend on the
        scale). ``X2`` .. ``X6`` are its equal-frequency discretisations, with 30 % of the rows of X5 and 50 % of those
        of X6 permuted. ``U1``, uniform on (-10, 10), and its discretisations are irrelevant. y equals X4 with
        probability 0.95. Expected: X1 = ... = X4 > X5 > X6 > U1 = ... = U6.
    """
    import pandas as pd

    rng = np.random.default_rng(seed)
    X = _family("X", rng.normal(0, 10, n_rows), cardinalities, rng, noisy=True)
    X |= _family("U", rng.uniform(-10, 10, n_rows), cardinalities, rng, noisy=False)
    y = _flip(X["X4"], rng)
    groups = [["X1", "X2", "X3", "X4"], ["X5"], ["X6"], [f"U{k}" for k in range(1, 7)]]
    return finish(pd.DataFrame(X), y, groups, null, rng)


def deng_t2(
    n_rows: int = N_ROWS,
    *,
    cardinalities: tuple[int, ...] = CARDINALITIES,
    null: bool = False,
    seed: int | None = None,
) -> Simulation:
    """Draw eighteen attributes; target T2 is the exclusive or of two of them, an interaction without main effects.

    Parameters
    ----------
    n_rows, cardinalities, null, seed
        As for :func:`deng_t1`.

    Returns
    -------
    Simulation
        X and U are as in :func:`deng_t1`. ``Y1`` .. ``Y6`` are another family like X, independent of it. y equals
        XOR(X4, Y4) with probability 0.95. Expected: X1 = ... = X4 = Y1 = ... = Y4 > X5 = Y5 > X6 = Y6 > U1 = ... = U6.
    """
    import pandas as pd

    rng = np.random.default_rng(seed)
    X = _family("X", rng.normal(0, 10, n_rows), cardinalities, rng, noisy=True)
    X |= _family("Y", rng.normal(0, 10, n_rows), cardinalities, rng, noisy=True)
    X |= _family("U", rng.uniform(-10, 10, n_rows), cardinalities, rng, noisy=False)
    y = _flip(np.bitwise_xor(X["X4"], X["Y4"]), rng)
    groups = [
        [f"{family}{k}" for family in "XY" for k in range(1, 5)],
        ["X5", "Y5"],
        ["X6", "Y6"],
        [f"U{k}" for k in range(1, 7)],
    ]
    return finish(pd.DataFrame(X), y, groups, null, rng)


def _family(
    letter: str,
    values: NDArray[np.float64],
    cardinalities: tuple[int, ...],
    rng: np.random.Generator,
    noisy: bool,
) -> dict[str, NDArray[np.int64] | NDArray[np.float64]]:
    if len(cardinalities) != 5 or cardinalities[2] != 2 or min(cardinalities) < 2:
        raise RowsError(
            f"cardinalities={cardinalities}: pass five numbers of 2 or more; the third (attribute 4) must be 2"
        )
    family: dict[str, NDArray[np.int64] | NDArray[np.float64]] = {f"{letter}1": values}
    place = np.argsort(np.argsort(values))
    for k, n_values in enumerate(cardinalities, start=2):
        discrete = place * n_values // values.size
        if noisy and k in PERMUTED:
            rows = rng.choice(values.size, round(PERMUTED[k] * values.size), replace=False)
            discrete[rows] = discrete[rng.permutation(rows)]
        family[f"{letter}{k}"] = discrete
    return family


def _flip(target: NDArray[np.int64] | NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    return np.where(rng.random(target.size) < FLIPPED, 1 - target, target).astype(np.int64)
