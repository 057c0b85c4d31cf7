"""The class Simulation: simulated data, and the truth about them."""

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
        Groups of equally informative features in the expected order of importance, the most important group first. The
        last group is noise, if there is noise.
    relevant : tuple of str
        Features that the response depends on, directly or through correlated features; empty for ``null=True``.
    """

    X: pd.DataFrame
    y: NDArray[np.int64] | NDArray[np.float64]
    groups: tuple[tuple[str, ...], ...]
    relevant: tuple[str, ...]

    @property
    def is_relevant(self) -> NDArray[np.bool_]:
        """Whether each feature is relevant, shape (n_features,)."""
        return np.isin(self.X.columns, self.relevant)

    @property
    def expected_rank(self) -> NDArray[np.int64]:
        """Position of each feature's group, shape (n_features,); 0 is the most important group."""
        rank = {name: place for place, group in enumerate(self.groups) for name in group}
        return np.array([rank[name] for name in self.X.columns])

    @property
    def numeric(self) -> pd.DataFrame:
        """X as float64 for scikit-learn's forests: categories become their codes, and missing values NaN."""
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
    """Return a Simulation of drawn data; with `null`, the response is permuted and all features are one group of noise.

    The last of `groups` holds the irrelevant features; all others are relevant.
    """
    if null:
        return Simulation(X, rng.permutation(y), (tuple(X.columns),), ())
    relevant = tuple(name for name in X.columns if any(name in group for group in groups[:-1]))
    return Simulation(X, y, tuple(tuple(group) for group in groups if group), relevant)
