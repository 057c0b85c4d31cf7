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


def overlap(const int32_t[::1] a, const int32_t[::1] b, const int64_t[::1] classes_a, const int64_t[::1] classes_b):
    """Return phi^2 of the leaves of two trees that see the same rows, less phi^2 of the classes that they predict.

    `a` and `b` (n_rows,) are the leaves of each row, `classes_a` and `classes_b` the class of each leaf.
    """
    cdef int64_t n_a = classes_a.shape[0], n_b = classes_b.shape[0], most_a = 0, most_b = 0, i, j, k
    cdef int32_t[::1] leaves = np.zeros(n_a * n_b, dtype=np.int32), of_class
    cdef int64_t[:, ::1] classes
    for j in range(n_a):
        most_a = max(most_a, classes_a[j])
    for k in range(n_b):
        most_b = max(most_b, classes_b[k])
    if most_a == 0 and most_b == 0:
        with nogil:
            for i in range(a.shape[0]):
                leaves[a[i] * n_b + b[i]] += 1
        return phi_squared(a, b, leaves, n_a, n_b)
    of_class = np.zeros(n_a * (most_b + 1), dtype=np.int32)  # by leaf of a and class of b
    classes = np.zeros((most_a + 1, most_b + 1), dtype=np.int64)
    with nogil:
        for i in range(a.shape[0]):
            leaves[a[i] * n_b + b[i]] += 1
            of_class[a[i] * (most_b + 1) + classes_b[b[i]]] += 1
        for j in range(n_a):
            for k in range(most_b + 1):
                classes[classes_a[j], k] += of_class[j * (most_b + 1) + k]
    # Leaves of one class hold the same rows in both trees because of the response. The tests compare leaves within
    # a class, so this part of the overlap is no dependence between them.
    return phi_squared(a, b, leaves, n_a, n_b) - phi_squared_of_classes(classes)


cdef double phi_squared(
    const int32_t[::1] a, const int32_t[::1] b, const int32_t[::1] table, int64_t n_a, int64_t n_b
):
    """Return phi^2 = chi^2 / n of two partitions a and b of rows; `table` has the number of rows in each pair of parts.

    chi^2 / n is the sum of n_jk^2 / (n_j n_k) over all pairs, less 1; or of n_jk / (n_j n_k) over all rows.
    """
    cdef int32_t[::1] in_b = np.zeros(n_b, dtype=np.int32)
    cdef double[::1] share_a = np.zeros(n_a), share_b = np.zeros(n_b)
    cdef int64_t i, j, k
    cdef int32_t in_a
    cdef double total = 0.0, of_row
    with nogil:
        for j in range(n_a):
            in_a = 0
            for k in range(n_b):
                in_a += table[j * n_b + k]
                in_b[k] += table[j * n_b + k]
            share_a[j] = 1.0 / max(in_a, 1)
        for k in range(n_b):
            share_b[k] = 1.0 / max(in_b[k], 1)
        if n_a * n_b > a.shape[0]:
            for i in range(a.shape[0]):
                total += table[a[i] * n_b + b[i]] * (share_a[a[i]] * share_b[b[i]])
        else:
            for j in range(n_a):
                of_row = 0.0
                for k in range(n_b):
                    of_row += <double>table[j * n_b + k] * <double>table[j * n_b + k] * share_b[k]
                total += of_row * share_a[j]
    return total - 1.0


cdef double phi_squared_of_classes(const int64_t[:, ::1] table):
    """Return phi^2 of two partitions into few parts."""
    cdef int64_t[::1] in_row = np.zeros(table.shape[0], dtype=np.int64)
    cdef int64_t[::1] in_column = np.zeros(table.shape[1], dtype=np.int64)
    cdef int64_t j, k
    cdef double n, total = 0.0
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
    return total - 1.0
