"""Values far from all others of their column: infinite ones, and codes such as 1e10 for "unknown"."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

FAR = 1e4
"""In interquartile ranges of the different values, beyond the quartiles."""


def apart_from_far(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a column without values that are far from all others, and where these were.

    A regression on a column cannot follow it where most values are if a few are far away: in units of its standard
    deviation, all others are alike. Trees do not care, so a model may well be trained on such a column.

    Parameters
    ----------
    values : array of float64 of shape (n_rows,)
        Numbers of one column, none of them missing; they may be infinite.

    Returns
    -------
    near : array of float64 of shape (n_rows,)
        The values, with the median of those that are not far in place of the others.
    far : array of float64 of shape (n_rows, n_sides)
        For values far below and for those far above an indicator, 1 or 0; no column for a side without such values. Far
        is what lies ten thousand interquartile ranges of the different values, or more, beyond their quartiles.

    Examples
    --------
    >>> import numpy as np
    >>> from debias.plugin import apart_from_far
    >>> near, far = apart_from_far(np.array([1.0, 2.0, 3.0, 1e10]))
    >>> near
    array([1., 2., 3., 2.])
    >>> far[:, 0]
    array([0., 0., 0., 1.])
    """
    different = np.unique(values[np.isfinite(values)])
    if not different.size:
        return np.zeros_like(values), np.column_stack([values < 0, values > 0]).astype(np.float64)
    low, high = np.quantile(different, [0.25, 0.75], method="nearest")
    with np.errstate(over="ignore"):  # nothing is beyond bounds that are infinite
        sides = np.column_stack([values < low - FAR * (high - low), values > high + FAR * (high - low)])
    if not sides.any():
        return values, np.empty((len(values), 0))
    is_far = sides.any(axis=1)
    return np.where(is_far, np.median(values[~is_far]), values), sides[:, sides.any(axis=0)].astype(np.float64)
