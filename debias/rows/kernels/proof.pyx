"""Compiled comparison of rows with the nodes of a tree, to prove that they are its training rows."""

from libc.math cimport fabs
from libc.stdint cimport int32_t, int64_t, uint8_t

import numpy as np


def compare_tree(
    const int32_t[:] leaves,
    const double[::1] weight,
    const double[::1] samples,
    codes,
    values,
    const int32_t[::1] left,
    const int32_t[::1] right,
    const int64_t[::1] count,
    const double[:, ::1] value,
    double tolerance,
    uint8_t[::1] counts_agree,
    uint8_t[::1] values_agree,
):
    """Write which nodes have the number of samples and the mean response of the rows.

    Parameters
    ----------
    leaves : array of shape (n_rows,)
        Leaf of each row; negative where it is out of bag.
    weight, samples : array of shape (n_rows,)
        In-bag weight of each row, and the number of training samples it contributes.
    codes : array of int64 of shape (n_rows,), or None
        Classes, for a one-hot response.
    values : array of float64 of shape (n_rows, n_outputs), or None
        Numeric response, if there are no classes.
    left, right, count : array of shape (n_nodes,)
    value : array of shape (n_nodes, n_outputs)
        Mean response that the tree has stored.
    tolerance : float
        Largest difference of equal means.
    counts_agree, values_agree : array of bool of shape (n_nodes,)
        The result.
    """
    cdef Py_ssize_t n_nodes = left.shape[0], width = value.shape[1]
    cdef bint one_hot = codes is not None
    cdef const int64_t[::1] code = codes if one_hot else np.zeros(0, dtype=np.int64)
    cdef const double[:, :] response = np.zeros((0, width)) if one_hot else values
    cdef double[::1] n = np.zeros(n_nodes), counted = np.zeros(n_nodes)
    cdef double[:, ::1] s = np.zeros((n_nodes, width))
    cdef Py_ssize_t i, node, k, a, b
    cdef bint agrees
    with nogil:
        for i in range(leaves.shape[0]):
            node = leaves[i]
            if node < 0:
                continue
            n[node] += weight[i]
            counted[node] += samples[i]
            if one_hot:
                s[node, code[i]] += weight[i]
            else:
                for k in range(width):
                    s[node, k] += weight[i] * response[i, k]
        # Parents precede children, so every child is complete before its parent takes it.
        for node in range(n_nodes - 1, -1, -1):
            if left[node] >= 0:
                a, b = left[node], right[node]
                n[node] = n[a] + n[b]
                counted[node] = counted[a] + counted[b]
                for k in range(width):
                    s[node, k] = s[a, k] + s[b, k]
            # Both are whole numbers, which doubles hold exactly: no tolerance.
            counts_agree[node] = counted[node] == count[node]
            # A node that no in-bag row reaches has no mean to compare.
            agrees = n[node] > 0
            for k in range(width):
                agrees = agrees and fabs(s[node, k] / n[node] - value[node, k]) <= tolerance
            values_agree[node] = agrees
