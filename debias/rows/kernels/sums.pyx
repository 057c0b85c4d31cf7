"""Compiled loops that add rows to the sums at their leaves."""

from libc.stdint cimport int32_t, int64_t


def add_codes(
    const int32_t[:, :] leaves,
    const int64_t[::1] trees,
    const int64_t[::1] start,
    const int64_t[::1] codes,
    const double[::1] weight,
    double[::1] n,
    double[:, ::1] s,
):
    """Add rows of a one-hot response to the sums at their leaves. `codes` (n_rows,) are the classes."""
    cdef Py_ssize_t i, j, begin, node
    with nogil:
        # Tree by tree, in the order of the rows: threads take different trees, so they change no sum.
        for j in range(trees.shape[0]):
            begin = start[trees[j]]
            for i in range(leaves.shape[0]):
                if leaves[i, j] >= 0:
                    node = begin + leaves[i, j]
                    n[node] += weight[i]
                    s[node, codes[i]] += weight[i]


def add_values(
    const int32_t[:, :] leaves,
    const int64_t[::1] trees,
    const int64_t[::1] start,
    const int32_t[::1] tree_output,
    const double[:, :] values,
    const double[::1] weight,
    double[::1] n,
    double[:, ::1] s,
    double[::1] q,
):
    """Add rows of a numeric response (n_rows, n_outputs) to the sums at their leaves."""
    cdef Py_ssize_t i, j, k, begin, node, first
    cdef Py_ssize_t width = s.shape[1]
    cdef double y
    with nogil:
        for j in range(trees.shape[0]):
            begin, first = start[trees[j]], tree_output[trees[j]]
            for i in range(leaves.shape[0]):
                if leaves[i, j] < 0:
                    continue
                node = begin + leaves[i, j]
                n[node] += weight[i]
                for k in range(width):
                    y = values[i, first + k]
                    s[node, k] += weight[i] * y
                    q[node] += weight[i] * y * y


def add_weights(
    const int32_t[:, :] leaves,
    const int64_t[::1] trees,
    const int64_t[::1] start,
    const double[::1] weight,
    double[::1] total,
):
    """Add weights of rows to the sums at their leaves."""
    cdef Py_ssize_t i, j, begin
    with nogil:
        for j in range(trees.shape[0]):
            begin = start[trees[j]]
            for i in range(leaves.shape[0]):
                if leaves[i, j] >= 0:
                    total[begin + leaves[i, j]] += weight[i]
