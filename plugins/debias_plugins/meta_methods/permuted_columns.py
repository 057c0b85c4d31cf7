"""Permuted copies of columns, with the same dtype, categories and missing values, and with unique names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

PREFIX = "shadow_"


def names_of_copies(names: tuple[str, ...]) -> dict[str, str]:
    """Return a name for the copy of each column, mapped to the column. No column begins with the prefix of the names.

    Examples
    --------
    >>> names_of_copies(("x", "shadow_x"))
    {'shadow_shadow_x': 'x', 'shadow_shadow_shadow_x': 'shadow_x'}
    """
    prefix = PREFIX
    while any(name.startswith(prefix) for name in names):
        prefix += PREFIX
    return {prefix + name: name for name in names}


def with_copies(
    rng: np.random.Generator, copies: dict[str, str], share: float = 1.0, jointly: bool = False
) -> Callable[[Any], Any]:
    """Return a function that adds permuted copies of all columns.

    Parameters
    ----------
    rng : Generator
    copies : dict of str to str
        Names of the copies, from :func:`names_of_copies`, in the order of the columns.
    share : float
        Share of the rows, drawn at random, whose values are permuted among each other. Other rows keep their values.
    jointly : bool
        Permute whole rows, so the copies have the same correlations as the columns.
    """

    def change(frame: pd.DataFrame) -> pd.DataFrame:
        import pandas as pd

        common = _order(rng, len(frame), share) if jointly else None
        shuffled = {
            copy: frame.iloc[:, k].take(_order(rng, len(frame), share) if common is None else common).array
            for k, copy in enumerate(copies)
        }
        both = pd.concat([frame, pd.DataFrame(shuffled, index=frame.index)], axis=1)
        return both.set_axis([*map(str, frame.columns), *copies], axis=1)

    return change


def with_permuted(rng: np.random.Generator, columns: tuple[str, ...]) -> Callable[[Any], Any]:
    """Return a function that permutes the rows of some columns jointly, and does not change the others."""

    def change(frame: pd.DataFrame) -> pd.DataFrame:
        order = rng.permutation(len(frame))
        changed = frame.copy()
        for k, name in enumerate(frame.columns):
            if str(name) in columns:
                changed.isetitem(k, frame.iloc[:, k].take(order).array)
        return changed

    return change


def _order(rng: np.random.Generator, n_rows: int, share: float) -> Any:
    order = np.arange(n_rows)
    which = rng.choice(n_rows, size=max(1, round(share * n_rows)), replace=False) if share < 1 else order
    order[which] = rng.permutation(order[which])
    return order
