"""Compiled loops of contextual merit."""

import numpy as np
from libc.math cimport INFINITY, fabs, floor, log2
from libc.stdint cimport int64_t

cdef enum:
    BLOCK = 512  # rows compared at a time, so that their distances stay in the processor's cache
    PLACES = 64  # enough for log2 of any number of rows

# Distances that differ by less are equal up to rounding: they are sums of the same terms.
cdef double TIE = 1e-9


def add_merits(
    const double[:, ::1] Z,
    const double[:, :, ::1] permuted,
    const int64_t[::1] start,
    int64_t begin,
    int64_t end,
    bint by_all,
    int64_t neighbours,
    double[:, ::1] merit,
    double[::1] weight,
):
    """Add the merits of rows begin:end.

    Parameters
    ----------
    Z : array of shape (n_features, n_rows)
        Scaled so that rows differ by min(abs(z_r - z_s), 1); rows sorted by class.
    permuted : array of shape (n_permutations, n_features, n_rows), or empty
    start : array of shape (n_classes + 1,)
        Where each class begins.
    by_all : bool
        True: neighbours by D and weights 1 / D^2 (CM0). False: by Delta and 1 / (1 + Delta)^2 (CM1).
    neighbours : int
        0 for log2 of the number of rows of other classes.
    merit : array of shape (1 + n_permutations, n_features)
    weight : array of shape (n_features,)
        Sum of the weights, for the features without permutation.
    """
    cdef int64_t n_features = Z.shape[0], n_rows = Z.shape[1], n_versions = merit.shape[0]
    cdef int64_t n_places = 1 + (neighbours if neighbours else PLACES)
    # For each version of each feature: the distinct distances of the nearest rows so far, ascending; the number of rows
    # at each distance; and the sum of their differences in the feature.
    cdef double[:, :, ::1] key = np.empty((n_versions, n_features, n_places))
    cdef int64_t[:, :, ::1] count = np.empty((n_versions, n_features, n_places), dtype=np.int64)
    cdef double[:, :, ::1] total = np.empty((n_versions, n_features, n_places))
    cdef int64_t[:, ::1] used = np.empty((n_versions, n_features), dtype=np.int64)
    cdef double[:, ::1] limit = np.empty((n_versions, n_features))
    cdef double[::1] distance = np.empty(BLOCK)
    cdef int64_t label = 0, r, others, k, side, s0, last, size, f, v, j, i, n, left, places
    cdef double zr, own, d, x, near, w, bound
    cdef const double* of
    with nogil:
        for r in range(begin, end):
            while start[label + 1] <= r:
                label += 1
            others = n_rows - (start[label + 1] - start[label])
            k = min(neighbours, others) if neighbours else max(1, <int64_t>floor(log2(others) + 1e-12))
            used[:, :] = 0
            limit[:, :] = INFINITY
            for side in range(2):
                s0 = 0 if side == 0 else start[label + 1]
                last = start[label] if side == 0 else n_rows
                while s0 < last:
                    size = min(<int64_t>BLOCK, last - s0)
                    distance[:size] = 0.0
                    for f in range(n_features):
                        zr = Z[f, r]
                        for j in range(size):
                            distance[j] += difference(Z[f, s0 + j], zr)
                    for v in range(n_versions):
                        for f in range(n_features):
                            of = &Z[f, 0] if v == 0 else &permuted[v - 1, f, 0]
                            zr, own = of[r], Z[f, r]
                            bound, n = limit[v, f], used[v, f]
                            for j in range(size):
                                d = difference(of[s0 + j], zr)
                                if by_all:
                                    x = distance[j]
                                    if v > 0:
                                        x += d - difference(Z[f, s0 + j], own)
                                else:
                                    x = distance[j] - d
                                if x <= bound:
                                    n = insert(key, count, total, v, f, n, k, x, d)
                                    bound = bound_of(key, count, v, f, n, k)
                            limit[v, f], used[v, f] = bound, n
                    s0 += size
            for v in range(n_versions):
                for f in range(n_features):
                    left = k
                    for i in range(used[v, f]):
                        places = min(count[v, f, i], left)
                        left -= places
                        x = key[v, f, i]
                        near = x if by_all else 1.0 + x
                        w = 1.0 / (near * near) if near > TIE else 0.0
                        merit[v, f] += w * total[v, f, i] * places / count[v, f, i]
                        if v == 0:
                            weight[f] += w * places


cdef inline double difference(double a, double b) noexcept nogil:
    """Return how far two rows differ in a feature."""
    return min(fabs(a - b), 1.0)


cdef inline int64_t insert(
    double[:, :, ::1] key,
    int64_t[:, :, ::1] count,
    double[:, :, ::1] total,
    int64_t v,
    int64_t f,
    int64_t n,
    int64_t k,
    double x,
    double d,
) noexcept nogil:
    """Insert a row at distance x among the nearest, drop distances no longer needed, and return how many are left."""
    cdef int64_t i = n, j, rows = 0
    while i > 0 and key[v, f, i - 1] > x + TIE:
        i -= 1
    if i > 0 and key[v, f, i - 1] >= x - TIE:
        count[v, f, i - 1] += 1
        total[v, f, i - 1] += d
    else:
        for j in range(n, i, -1):
            key[v, f, j], count[v, f, j], total[v, f, j] = key[v, f, j - 1], count[v, f, j - 1], total[v, f, j - 1]
        key[v, f, i], count[v, f, i], total[v, f, i] = x, 1, d
        n += 1
    for i in range(n):
        rows += count[v, f, i]
        if rows >= k:
            return i + 1
    return n


cdef inline double bound_of(
    double[:, :, ::1] key, int64_t[:, :, ::1] count, int64_t v, int64_t f, int64_t n, int64_t k
) noexcept nogil:
    """Return the distance beyond which a row is not among the nearest."""
    cdef int64_t rows = 0, i
    for i in range(n):
        rows += count[v, f, i]
    return key[v, f, n - 1] + TIE if rows >= k else INFINITY
