"""What a generator returns: data, and the truth about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Simulation:
    """One simulated data set.

    Parameters
    ----------
    X : DataFrame of shape (n_rows, n_features)
        Integers for discrete ordered features, floats for continuous ones, pandas categories for unordered ones.
    y : array of shape (n_rows,)
        Class codes (int64) or numbers (float64).
    groups : tuple of tuples of str
        Features in the expected order of importance, the most important group first; features of one group are equally
        informative. The last group is noise, unless there is none.
    relevant : tuple of str
        Features the response depends on, directly or through correlated ones; empty under ``null=True``.
    """

    X: pd.DataFrame
    y: NDArray[np.int64] | NDArray[np.float64]
    groups: tuple[tuple[str, ...], ...]
    relevant: tuple[str, ...]

    @property
    def is_relevant(self) -> NDArray[np.bool_]:
        """Whether each feature is among the relevant ones, shape (n_features,)."""
        return np.isin(self.X.columns, self.relevant)

    @property
    def expected_rank(self) -> NDArray[np.int64]:
        """Position of each feature's group, 0 the most important, shape (n_features,)."""
        rank = {name: place for place, group in enumerate(self.groups) for name in group}
        return np.array([rank[name] for name in self.X.columns])

    @property
    def numeric(self) -> pd.DataFrame:
        """X with categories as their codes in float64, missing ones as NaN: what scikit-learn's forests take."""
        codes = {
            str(name): column.cat.codes.astype(np.float64).where(column.notna())
            for name, column in self.X.items()
            if column.dtype == "category"
        }
        return self.X.assign(**codes).astype(np.float64)


def finish(
    X: pd.DataFrame,
    y: NDArray[np.int64] | NDArray[np.float64],
    groups: list[list[str]],
    null: bool,
    rng: np.random.Generator,
) -> Simulation:
    """Make a Simulation of drawn data; under `null` permute the response, so that all features are one group of noise.

    The last of `groups` holds the features that have no say; all others are relevant.
    """
    if null:
        return Simulation(X, rng.permutation(y), (tuple(X.columns),), ())
    relevant = tuple(name for name in X.columns if any(name in group for group in groups[:-1]))
    return Simulation(X, y, tuple(tuple(group) for group in groups if group), relevant)
