"""Compiled loop of the jackknife over groups of rows: figures of averaged trees without each group.

One tree at a time, from the leaves up: the sums over each group at a node are those at its two children, which a stack
keeps until they are added up. It is as high as the tree is deep, so that it stays in the cache. The groups of a node lie
side by side, so that the loops over them are vectorised.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t

import numpy as np

cdef enum:
    MOST_GROUPS = 64

cdef double NOTHING = 1e-9
"""What rounding leaves of the weight of a node without the group that has all its rows, as a share of that weight."""


def add_without_groups(
    const int64_t[::1] trees,
    const int32_t[:, :] leaves,
    const int64_t[::1] start,
    const int32_t[::1] left,
    const int32_t[::1] right,
    const int32_t[::1] feature,
    const int32_t[::1] tree_output,
    const double[:, ::1] value,
    const double[::1] per_covariance,
    const int64_t[::1] group,
    const double[::1] weight,
    const double[:, ::1] response,
    double[:, ::1] out,
):
    """Add the figures of some trees without each group of rows to `out`, shape (n_features, n_groups).

    `leaves` has the leaf of each row in each of `trees`, or -1; `group` the group of each row, or -1. `per_covariance`
    is, for each inner node, what its split adds to the figure for a covariance of 1 in a tree of weight 1.
    """
    cdef int64_t width = value.shape[1], n_groups = out.shape[1], n_rows = leaves.shape[0]
    cdef int64_t i, j, k, g, node, begin, first, at, top, n_waiting, largest = 1
    cdef double step
    cdef double[MOST_GROUPS] per_root, n_a, n_b, covariance
    cdef double *sums
    cdef double *a
    cdef double *b
    if not 0 < n_groups <= MOST_GROUPS:
        raise ValueError(f"{n_groups} groups")
    for j in range(trees.shape[0]):
        largest = max(largest, start[trees[j] + 1] - start[trees[j]])
    # The rows of a leaf are a chain: the first row, and for each row the next one; -1 at the end.
    cdef int32_t[::1] first_row = np.empty(largest, dtype=np.int32), next_row = np.empty(n_rows, dtype=np.int32)
    cdef int32_t[::1] waiting = np.empty(largest, dtype=np.int32)
    # Of a node on the stack: the weights and the weighted responses, of each group and at the end of all groups.
    cdef int64_t entry = n_groups + 1, of_node = (1 + width) * entry
    # A leaf waits with at most one node of each depth above. Memory that is not used costs nothing.
    cdef double[:, ::1] stack = np.empty((largest // 2 + 1, of_node))
    with nogil:
        for j in range(trees.shape[0]):
            begin = start[trees[j]]
            first = tree_output[trees[j]] if width < response.shape[1] else 0
            first_row[: start[trees[j] + 1] - begin] = -1
            for g in range(n_groups):
                per_root[g] = 0.0
            for i in range(n_rows - 1, -1, -1):
                at = leaves[i, j]
                if at < 0 or group[i] < 0:
                    continue
                next_row[i] = first_row[at]
                first_row[at] = i
                per_root[group[i]] += weight[i]
            weigh_roots(per_root, n_groups)
            # A node waits as itself until its children are on the stack, and then as -1 - itself.
            waiting[0], n_waiting, top = 0, 1, 0
            while n_waiting:
                n_waiting -= 1
                node = waiting[n_waiting]
                at = begin + node if node >= 0 else begin - 1 - node
                if node >= 0 and left[at] >= 0:
                    waiting[n_waiting], waiting[n_waiting + 1] = -1 - node, right[at]
                    waiting[n_waiting + 2] = left[at]
                    n_waiting += 3
                    continue
                if node >= 0:
                    sums = &stack[top, 0]
                    top += 1
                    i = first_row[node]
                    sums[n_groups] = 0.0
                    if i < 0:
                        continue  # of a node without rows, nothing else is read
                    for k in range(of_node):
                        sums[k] = 0.0
                    while i >= 0:
                        g = group[i]
                        sums[g] += weight[i]
                        sums[n_groups] += weight[i]
                        for k in range(width):
                            step = weight[i] * response[i, first + k]
                            sums[(1 + k) * entry + g] += step
                            sums[(1 + k) * entry + n_groups] += step
                        i = next_row[i]
                    continue
                top -= 1
                a, b = &stack[top - 1, 0], &stack[top, 0]
                # If all rows of a node take one way, its covariance is 0.
                if b[n_groups] == 0:
                    continue
                if a[n_groups] == 0:
                    for k in range(of_node):
                        a[k] = b[k]
                    continue
                if per_covariance[at] != 0:
                    for g in range(n_groups):
                        n_a[g], n_b[g], covariance[g] = a[n_groups] - a[g], b[n_groups] - b[g], 0.0
                    for k in range(width):
                        step = value[begin + left[at], k] - value[begin + right[at], k]
                        add_covariance(a + (1 + k) * entry, b + (1 + k) * entry, n_a, n_b, n_groups, step, covariance)
                    add_figures(
                        covariance,
                        n_a,
                        n_b,
                        NOTHING * (a[n_groups] + b[n_groups]),
                        per_root,
                        per_covariance[at],
                        n_groups,
                        &out[feature[at], 0],
                    )
                for k in range(of_node):
                    a[k] += b[k]


cdef inline void weigh_roots(double *per_root, int64_t n_groups) noexcept nogil:
    """Replace the weight of each group in a tree by 1 / the weight of the others; 0 if they have none."""
    cdef double whole = 0.0
    cdef int64_t g
    for g in range(n_groups):
        whole += per_root[g]
    for g in range(n_groups):
        per_root[g] = whole - per_root[g]
        per_root[g] = 1 / per_root[g] if per_root[g] > NOTHING * whole else 0.0


cdef inline void add_covariance(
    const double *a,
    const double *b,
    const double *n_a,
    const double *n_b,
    int64_t n_groups,
    double step,
    double *covariance,
) noexcept nogil:
    """Add the step times ``n_b s_a - n_a s_b``, which is to be divided by the weight of the node."""
    cdef int64_t g
    for g in range(n_groups):
        covariance[g] += step * (n_b[g] * (a[n_groups] - a[g]) - n_a[g] * (b[n_groups] - b[g]))


cdef inline void add_figures(
    const double *covariance,
    const double *n_a,
    const double *n_b,
    double least,
    const double *per_root,
    double per_covariance,
    int64_t n_groups,
    double *figure,
) noexcept nogil:
    """Add what a split adds to the figure without each group; 0 if the weight of the node is not above `least`."""
    cdef int64_t g
    cdef double n
    for g in range(n_groups):
        n = n_a[g] + n_b[g]
        n = n if n > least else INFINITY
        figure[g] += per_covariance * per_root[g] * (covariance[g] / n)
