"""Compiled loop that finds the bins of values (debias.rows.binned)."""

from libc.stdint cimport int64_t, uint16_t


def write_bins(
    const double[:, ::1] values, const double[::1] edges, const int64_t[::1] start, uint16_t[:, ::1] bins
):
    """Write the number of edges below each value to `bins` (n_columns, n_rows), as ``numpy.searchsorted`` does.

    The edges of column k, in ascending order, are ``edges[start[k] : start[k + 1]]``. Missing values get any number.
    """
    cdef Py_ssize_t k, i, at, n, half
    cdef double value
    with nogil:
        for k in range(values.shape[0]):
            for i in range(values.shape[1]):
                # Halves without branches: processors cannot foresee where a value goes.
                at, n, value = start[k], start[k + 1] - start[k], values[k, i]
                while n > 1:
                    half = n >> 1
                    at += half * (edges[at + half - 1] < value)
                    n -= half
                if n:
                    at += edges[at] < value
                bins[k, i] = <uint16_t> (at - start[k])
