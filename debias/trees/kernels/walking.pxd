"""The nodes of one tree, for compiled loops that follow rows from the root, one row at a time."""

from cython cimport floating
from libc.math cimport isnan
from libc.stdint cimport int32_t, int64_t, uint8_t

from debias.trees.kernels.routing cimport goes_left


cdef class Walk:
    cdef const int32_t[::1] feature, left, right, category_set
    cdef const double[::1] threshold
    cdef const uint8_t[::1] plain, missing_left, zero_is_missing
    cdef const int64_t[::1] set_start
    cdef const int32_t[::1] set_codes
    cdef const uint8_t[::1] listed_left


cdef inline int64_t child(Walk tree, int64_t node, double x) noexcept nogil:
    """Return the child of a split to which a value goes."""
    cdef bint on_left
    if tree.plain[node] and not isnan(x):
        on_left = x <= tree.threshold[node]
    else:
        on_left = goes_left(
            x,
            tree.threshold[node],
            tree.missing_left[node],
            tree.zero_is_missing[node],
            tree.category_set[node],
            tree.set_start,
            tree.set_codes,
            tree.listed_left,
        )
    return tree.left[node] if on_left else tree.right[node]


cdef inline void go_left(Walk tree, int64_t node, const floating* x, double* to_left, int64_t n) noexcept nogil:
    """Write 1 for each of n values that goes to the left at a split, 0 for the others."""
    cdef int64_t i
    cdef double threshold = tree.threshold[node]
    cdef bint missing_left = tree.missing_left[node]
    if tree.plain[node]:
        for i in range(n):
            to_left[i] = (x[i] <= threshold) | ((x[i] != x[i]) & missing_left)
    else:
        for i in range(n):
            to_left[i] = child(tree, node, x[i]) == tree.left[node]
