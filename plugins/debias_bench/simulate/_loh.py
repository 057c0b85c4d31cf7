"""The simulations of Loh and Zhou (2020), sections 4 and 7."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from debias import RowsError
from debias.errors import nearest
from debias_bench.simulate._simulation import Simulation, finish

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

N_ROWS = 400
NAMES = ["B1", "B2", "C1", "C2", "N1", "N2", "N3", "N4", "S1", "S2", "S3"]
GROUPS = {
    "E0": [],
    "E1": [["N2"], ["N3", "N4"]],
    "E2": [["N1", "N2"], ["N3", "N4"]],
    "E3": [["B1"]],
    "E4": [["B2", "C2"]],
    "E5": [["B1", "C1"]],
}
"""Expected order for each model; N3 and N4 matter through their correlation with N2, and B2 is a function of C2."""
MISSING = {"N1": 0.95, "N4": 0.5, "S1": 0.25, "B1": 0.25, "C2": 0.5}
"""Default shares of missing values, up to 95 %, in ordinal, categorical, related and unrelated columns."""


def loh(model: str = "E0", n_rows: int = N_ROWS, *, null: bool = False, seed: int | None = None) -> Simulation:
    """Draw eleven variables of mixed type and correlation, and y by one of six models of its mean (Table 2).

    Parameters
    ----------
    model : {"E0", "E1", "E2", "E3", "E4", "E5"}
        The mean of y: 0; 0.2 N2; 0.1 (N1 + N2); 0.2 B1; 0.2 B2; 0.5 if B1 = 0 and C1 <= 5 or B1 = 1 and C1 > 5.
    n_rows : int
        400 in the paper.
    null : bool
        Whether to permute the response, so that it is independent of the features; in E0 it is independent anyway.
    seed : int, optional

    Returns
    -------
    Simulation
        ``B1`` is Bernoulli(1/2). ``C1``, ``C2`` are categories 1..10 with equal probability. ``B2`` is 1 if C2 <= 5.
        ``N1`` is standard normal. ``N2``, ``N3``, ``N4`` are standard normal with correlation 0.9. With two uniform
        variables U1, U2: ``S1`` = min(U1, U2), ``S2`` = ``|U1 - U2|``, ``S3`` = 1 - max(U1, U2); these sum to 1. y is
        the mean plus standard normal noise.
    """
    if model not in GROUPS:
        raise RowsError(f"there is no model {model!r}.{nearest(model, GROUPS)} The models are {', '.join(GROUPS)}")
    rng = np.random.default_rng(seed)
    X, mean = _draw(model, n_rows, rng)
    groups = [*GROUPS[model], []]
    groups[-1] = [name for name in NAMES if not any(name in group for group in groups)]
    return finish(X, mean + rng.normal(size=n_rows), groups, null or model == "E0", rng)


def loh_missing(
    model: str = "E0",
    n_rows: int = N_ROWS,
    *,
    missing: Mapping[str, float] | None = None,
    null: bool = False,
    seed: int | None = None,
) -> Simulation:
    """Draw data of :func:`loh` with values missing completely at random (section 7).

    Parameters
    ----------
    model, n_rows, null, seed
        As for :func:`loh`.
    missing : mapping of str to float, optional
        Share of missing values of each column. The paper uses survey data in which 0 to 95 % of a column are missing;
        the default has such shares in variables of every type.

    Returns
    -------
    Simulation
        The response is drawn before values are removed.
    """
    drawn = loh(model, n_rows, null=null, seed=seed)
    shares = MISSING if missing is None else missing
    for name, share in shares.items():
        if name not in NAMES or not 0 <= share < 1:
            raise RowsError(
                f"missing={{{name!r}: {share}}}: pass a share of at least 0 and below 1 for any of {', '.join(NAMES)}"
            )
    rng = np.random.default_rng(np.random.SeedSequence(seed).spawn(1)[0] if seed is not None else None)
    X = drawn.X.copy()
    for name, share in shares.items():
        rows = rng.random(n_rows) < share
        column = X[name] if X[name].dtype == "category" else X[name].astype(np.float64)
        X[name] = column.mask(rows)
    return Simulation(X, drawn.y, drawn.groups, drawn.relevant)


def _draw(model: str, n_rows: int, rng: np.random.Generator) -> tuple[pd.DataFrame, NDArray[np.float64]]:
    import pandas as pd

    b1 = rng.integers(0, 2, n_rows)
    c1, c2 = rng.integers(1, 11, n_rows), rng.integers(1, 11, n_rows)
    b2 = (c2 <= 5).astype(np.int64)
    n1 = rng.normal(size=n_rows)
    n234 = np.sqrt(0.9) * rng.normal(size=(n_rows, 1)) + np.sqrt(0.1) * rng.normal(size=(n_rows, 3))
    u1, u2 = rng.random(n_rows), rng.random(n_rows)
    columns: dict[str, Any] = {"B1": b1, "B2": b2}
    columns |= {name: pd.Categorical(c, categories=range(1, 11)) for name, c in (("C1", c1), ("C2", c2))}
    columns |= {"N1": n1, "N2": n234[:, 0], "N3": n234[:, 1], "N4": n234[:, 2]}
    columns |= {"S1": np.minimum(u1, u2), "S2": np.abs(u1 - u2), "S3": 1 - np.maximum(u1, u2)}
    means = {
        "E0": np.zeros(n_rows),
        "E1": 0.2 * n234[:, 0],
        "E2": 0.1 * (n1 + n234[:, 0]),
        "E3": 0.2 * b1,
        "E4": 0.2 * b2,
        "E5": 0.5 * ((b1 == 0) == (c1 <= 5)),
    }
    return pd.DataFrame(columns), means[model]
