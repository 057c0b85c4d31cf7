"""Compiled loops over columns of X."""

import numpy as np

from cython cimport floating
from libc.math cimport INFINITY, fabs
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy, memset

cdef enum:
    COLUMNS_AT_ONCE = 16


def count_distinct(const floating[:, ::1] X, const int64_t[::1] columns, int64_t[::1] counts):
    """Write the number of distinct values that are not missing of some columns to `counts` (len(columns),).

    The values of a column are put into a hash table with open addressing. NaN marks an empty place, since NaN is not
    counted. Columns are copied together, as many as lie side by side in a cache line.
    """
    cdef Py_ssize_t n_rows = X.shape[0], bits = 4
    while (1 << bits) < 2 * n_rows:
        bits += 1
    dtype = np.float32 if floating is float else np.float64
    cdef floating[:, ::1] copied = np.empty((COLUMNS_AT_ONCE, n_rows), dtype=dtype)
    cdef floating[::1] table = np.empty(1 << bits, dtype=dtype)
    cdef Py_ssize_t begin = 0, at_once, j, i
    with nogil:
        while begin < columns.shape[0]:
            at_once = min(COLUMNS_AT_ONCE, columns.shape[0] - begin)
            for i in range(n_rows):
                for j in range(at_once):
                    copied[j, i] = X[i, columns[begin + j]]
            for j in range(at_once):
                counts[begin + j] = _n_distinct(copied, j, table, 64 - bits)
            begin += at_once


cdef Py_ssize_t _n_distinct(
    const floating[:, ::1] copied, Py_ssize_t j, floating[::1] table, Py_ssize_t shift
) noexcept nogil:
    cdef Py_ssize_t i, at, mask = table.shape[0] - 1, n = 0
    cdef uint64_t code = 0
    cdef floating x
    memset(&table[0], 255, table.shape[0] * sizeof(floating))  # these bits are NaN
    for i in range(copied.shape[1]):
        x = copied[j, i] + <floating> 0  # -0 becomes 0
        if x != x:
            continue
        memcpy(&code, &x, sizeof(x))
        at = <Py_ssize_t> ((code * <uint64_t> 0x9E3779B97F4A7C15) >> shift)  # the upper bits depend on all of x
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


def all_finite(const floating[:, ::1] X):
    """Return whether no value is missing or infinite."""
    cdef Py_ssize_t i, k
    cdef bint other
    with nogil:
        for i in range(X.shape[0]):
            other = False
            for k in range(X.shape[1]):
                other |= not fabs(X[i, k]) < INFINITY  # without a branch, so that this is vector code
            if other:
                break
        else:
            other = False
    return not other
