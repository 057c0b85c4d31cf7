"""Compiled loops over columns of X."""

import numpy as np

from cython cimport floating
from libc.stdint cimport uint64_t
from libc.string cimport memcpy


def count_distinct(const floating[::1] values):
    """Return the number of distinct values that are not missing.

    The values are put into a hash table with open addressing. NaN marks an empty place, since NaN is not counted.
    """
    cdef Py_ssize_t size = 16
    while size < 2 * values.shape[0]:
        size *= 2
    cdef floating[::1] table = np.full(size, np.nan, dtype=np.float32 if floating is float else np.float64)
    cdef Py_ssize_t i, at, mask = size - 1, n = 0
    cdef uint64_t code = 0
    cdef floating x
    with nogil:
        for i in range(values.shape[0]):
            x = values[i] + <floating> 0  # -0 becomes 0
            if x != x:
                continue
            memcpy(&code, &x, sizeof(x))
            at = <Py_ssize_t> ((code * <uint64_t> 0x9E3779B97F4A7C15) >> 32) & mask
            while table[at] != x:
                if table[at] != table[at]:
                    table[at] = x
                    n += 1
                    break
                at = (at + 1) & mask
    return n
