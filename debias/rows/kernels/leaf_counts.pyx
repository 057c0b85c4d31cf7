"""Compiled loops over the leaves that rows reach: sums in each leaf, and the overlap of the leaves of two trees."""

import numpy as np

from libc.stdint cimport int32_t, int64_t


def add_at_leaves(
    const int32_t[:] nodes,
    const int64_t[::1] number,
    const double[::1] curvature,
    int32_t[:] at,
    double[:, ::1] sums,
):
    """Write the number of the leaf of each row in one tree, and add up curvatures and their squares in each leaf.

    `number` gives the number of each node among the leaves; `curvature` may be empty, and is 1 then. `at` (n_rows,) is
    filled; `sums` (2, n_leaves) is added to.
    """
    cdef Py_ssize_t i, k
    cdef bint has_curvature = curvature.shape[0] > 0
    cdef double h
    with nogil:
        for i in range(nodes.shape[0]):
            k = number[nodes[i]]
            at[i] = <int32_t> k
            h = curvature[i] if has_curvature else 1.0
            sums[0, k] += h
            sums[1, k] += h * h


def overlap(const int32_t[:] a, const int32_t[:] b, const int64_t[::1] classes_a, const int64_t[::1] classes_b):
    """Return phi^2 of the leaves of two trees that see the same rows, less phi^2 of the classes that they predict.

    `a` and `b` (n_rows,) are the leaves of each row, `classes_a` and `classes_b` the class of each leaf.
    """
    cdef Py_ssize_t i, j, k
    cdef int64_t[:, ::1] leaves = np.zeros((classes_a.shape[0], classes_b.shape[0]), dtype=np.int64)
    cdef int64_t[:, ::1] classes = np.zeros((np.max(classes_a) + 1, np.max(classes_b) + 1), dtype=np.int64)
    with nogil:
        for i in range(a.shape[0]):
            leaves[a[i], b[i]] += 1
        for j in range(classes_a.shape[0]):
            for k in range(classes_b.shape[0]):
                classes[classes_a[j], classes_b[k]] += leaves[j, k]
    # Leaves of one class hold the same rows in both trees because of the response. The tests compare leaves within
    # a class, so this part of the overlap is no dependence between them.
    return _contingency(leaves) - _contingency(classes)


cdef double _contingency(const int64_t[:, ::1] table):
    """Return phi^2 = chi^2 / n of two partitions of the same rows; `table` has the number of rows in each pair."""
    cdef int64_t[::1] in_row = np.zeros(table.shape[0], dtype=np.int64)
    cdef int64_t[::1] in_column = np.zeros(table.shape[1], dtype=np.int64)
    cdef Py_ssize_t j, k
    cdef double n, total = 0.0
    with nogil:
        for j in range(table.shape[0]):
            for k in range(table.shape[1]):
                in_row[j] += table[j, k]
                in_column[k] += table[j, k]
        for j in range(table.shape[0]):
            for k in range(table.shape[1]):
                if table[j, k]:
                    n = <double> table[j, k]
                    # Ratios first: the square of a large number of rows has more digits than a double.
                    total += n / in_row[j] * (n / in_column[k])
    # chi^2 / n is the sum of n_jk^2 / (n_j n_k) over all pairs, less 1.
    return total - 1.0
