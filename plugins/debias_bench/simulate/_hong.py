"""The simulations of Hong, Hosking and Winograd (1996), section 4."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias import RowsError
from debias_bench.simulate._simulation import Simulation, finish

if TYPE_CHECKING:
    from numpy.typing import NDArray


def hong_exor(n: int = 3, m: int = 10, n_rows: int = 200, *, null: bool = False, seed: int | None = None) -> Simulation:
    """Draw EXOR(n, m, N): the class is the parity of n binary variables, and m binary variables are random.

    Parameters
    ----------
    n, m : int
        Number of variables that decide the class, and number of random ones; 3 and 10 in the paper's Table 2.
    n_rows : int
        N.
    null : bool
        Whether to permute the response, so that it is independent of the features.
    seed : int, optional

    Returns
    -------
    Simulation
        ``X1`` .. ``Xn`` and ``R1`` .. ``Rm`` are 0 or 1; y is 1 if the number of ones among the X is odd. N rows are
        drawn without replacement from the truth table, which is repeated until it just exceeds 2 N rows.
    """
    import pandas as pd

    if n < 1 or m < 0 or n_rows < 1:
        raise RowsError(f"EXOR({n}, {m}, {n_rows}): pass n and n_rows of 1 or more, and m of 0 or more")
    rng = np.random.default_rng(seed)
    table = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    repeated = np.tile(table, (2 * n_rows // 2**n + 1, 1))
    bits = repeated[rng.choice(len(repeated), n_rows, replace=False)]
    random = rng.integers(0, 2, (n_rows, m))
    truth, noise = [f"X{k + 1}" for k in range(n)], [f"R{k + 1}" for k in range(m)]
    X = pd.DataFrame(np.hstack([bits, random]), columns=truth + noise)
    return finish(X, bits.sum(axis=1) % 2, [truth, noise], null, rng)


def rannum(column: Any, R: int = 100, *, seed: int | np.random.Generator | None = None) -> NDArray[np.int64]:
    """Return a binary column as numbers: a random integer of 0..R-1 for each 0, and of R..2R-1 for each 1 (RANNUM).

    Parameters
    ----------
    column : array-like of shape (n_rows,)
        Values 0 and 1.
    R : int
        100 in the paper's Table 2.
    seed : int or Generator, optional

    Returns
    -------
    array of int64 of shape (n_rows,)
        The original bit is ``result >= R``.
    """
    bits = np.asarray(column)
    if not np.isin(bits, (0, 1)).all() or R < 1:
        raise RowsError("rannum takes a column of values 0 and 1, and R of 1 or more")
    return np.random.default_rng(seed).integers(0, R, bits.size) + R * bits.astype(np.int64)


def hong_case(case: str = "A", *, R: int = 100, null: bool = False, seed: int | None = None) -> Simulation:
    """Draw EXOR(3, 10, 200) as in Table 2: case "A" is binary; in case "B", X3 and R1 to R4 are made numeric.

    Parameters
    ----------
    case : {"A", "B"}
        The paper's case C has the data of case B; only the distance threshold of the merit differs.
    R : int
        As for :func:`rannum`.
    null : bool
        Whether to permute the response, so that it is independent of the features.
    seed : int, optional

    Returns
    -------
    Simulation
    """
    if case not in ("A", "B"):
        raise RowsError(f"case={case!r} must be 'A' or 'B' (case C has the data of case B)")
    drawn = hong_exor(null=null, seed=seed)
    if case == "A":
        return drawn
    rng = np.random.default_rng(np.random.SeedSequence(seed).spawn(1)[0] if seed is not None else None)
    numeric = {name: rannum(drawn.X[name], R, seed=rng) for name in ("X3", "R1", "R2", "R3", "R4")}
    return Simulation(drawn.X.assign(**numeric), drawn.y, drawn.groups, drawn.relevant)
