"""Compiled loops over columns of X. Importing this module imports numba, so the core imports it on first use."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def count_distinct(values, bits):
    """Return the number of distinct values that are not missing; `bits` are the same values as unsigned integers.

    The values are put into a hash table with open addressing. NaN marks an empty place, since NaN is not counted.
    """
    size = 16
    while size < 2 * values.size:
        size *= 2
    table = np.full(size, np.nan, dtype=values.dtype)
    shift, mask = np.uint64(32), np.uint64(size - 1)
    n = 0
    for i in range(values.size):
        x = values[i]
        if np.isnan(x):
            continue
        code = np.uint64(0) if x == 0 else np.uint64(bits[i])  # 0 and -0 are one value
        at = ((code * np.uint64(0x9E3779B97F4A7C15)) >> shift) & mask
        while not np.isnan(table[at]) and table[at] != x:
            at = (at + np.uint64(1)) & mask
        if np.isnan(table[at]):
            table[at] = x
            n += 1
    return n
