"""Compiled loops over columns of X."""

import numpy as np

from cython cimport floating
from libc.math cimport fabs
from libc.stdint cimport int64_t, uint64_t
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


def extremes(const floating[:, ::1] X, int64_t[:, ::1] rows):
    """Write the first row with the smallest, the largest, the absolutely smallest and a missing value of each column.

    `rows` has the shape (4, n_columns). Missing values are not compared. A row is 0 where all values are missing or
    infinite, and -1 for a column without missing values.
    """
    cdef Py_ssize_t n_columns = X.shape[1], i, k
    cdef floating[::1] low = np.full(n_columns, np.inf, dtype=np.asarray(X).dtype), high = -np.asarray(low)
    cdef floating[::1] near = np.array(low)
    cdef floating x
    rows[:3] = 0
    rows[3] = -1
    with nogil:
        for i in range(X.shape[0]):
            for k in range(n_columns):
                x = X[i, k]
                if x < low[k]:
                    low[k], rows[0, k] = x, i
                if x > high[k]:
                    high[k], rows[1, k] = x, i
                if fabs(x) < near[k]:
                    near[k], rows[2, k] = <floating> fabs(x), i
                if x != x and rows[3, k] < 0:
                    rows[3, k] = i
