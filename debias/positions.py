"""Positions that are spread evenly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def evenly_spaced(n: int, at_most: int) -> NDArray[np.int64]:
    """Return positions spread evenly over 0, ..., n - 1, including the first and the last, ascending.

    Parameters
    ----------
    n, at_most : int
        At least 1. All positions are returned if they are not more than `at_most`.

    Returns
    -------
    array of int64 of shape (min(n, at_most),)

    Examples
    --------
    >>> evenly_spaced(10, 4)
    array([0, 3, 6, 9])
    """
    size = min(n, at_most)
    return np.arange(size, dtype=np.int64) * (n - 1) // max(size - 1, 1)
