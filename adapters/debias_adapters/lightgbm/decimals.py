"""Reader of the numbers of a text: correctly rounded, and several times as fast as ``float``."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

LARGEST_POWER = 100


def read_lines(lines: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Read the numbers of lines.

    Parameters
    ----------
    lines : sequence of str
        Numbers separated by white space, without line breaks.

    Returns
    -------
    values : array of float64
        The numbers of all lines in order, as ``float`` reads them.
    in_line : array of int64 of shape (len(lines),)
        How many numbers each line has.

    Raises
    ------
    ValueError
        A word is not a number.

    Examples
    --------
    >>> read_lines(["1 2.5", "", "-5e-1"])
    (array([ 1. ,  2.5, -0.5]), array([2, 0, 1]))
    """
    from debias_adapters.lightgbm.kernels import decimals

    data = "\n".join(lines).encode()
    values = np.empty(len(data) // 2 + 1)
    begin, in_line = np.empty(values.size, dtype=np.int64), np.zeros(len(lines), dtype=np.int64)
    decimals.read_numbers(np.frombuffer(data, dtype=np.uint8), *_powers_of_ten(), values, begin, in_line)
    n = int(in_line.sum())
    values, begin = values[:n].copy(), np.append(begin[:n], len(data))
    for k in np.flatnonzero(np.isnan(values)):
        values[k] = float(data[begin[k] : begin[k + 1]])
    return values, in_line


@cache
def _powers_of_ten() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return 10^-100 to 10^100 as sums of two doubles, exact to 106 bits."""
    exact = [Fraction(10) ** exponent for exponent in range(-LARGEST_POWER, LARGEST_POWER + 1)]
    high = np.array([float(power) for power in exact])
    return high, np.array(
        [float(power - Fraction(rounded)) for power, rounded in zip(exact, high.tolist(), strict=True)]
    )
