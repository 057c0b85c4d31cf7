"""Compiled loop of the jackknife over groups of rows: figures of averaged trees without each group.

One tree at a time: the sums over each group at its leaves, at its nodes, and then what each split adds without the
group. The groups of a node lie side by side, so that the loops over them are vectorised.
"""

from libc.stdint cimport int32_t, int64_t

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
    double[:, :, ::1] sums,
    double[:, ::1] out,
):
    """Add the figures of some trees without each group of rows to `out`, shape (n_features, n_groups).

    `leaves` has the leaf of each row in each of `trees`, or -1; `group` the group of each row, or -1. `per_covariance`
    is, for each inner node, what its split adds to the figure for a covariance of 1 in a tree of weight 1. `sums`, of
    shape (nodes of the largest tree, 1 + width, n_groups), is overwritten.
    """
    cdef int64_t width = value.shape[1], n_groups = out.shape[1], of_node = (1 + width) * n_groups
    cdef int64_t i, j, k, g, c, node, begin, size, first, at
    cdef double w, step, whole, n_node
    cdef double[MOST_GROUPS] per_root, n_a, n_b, covariance
    cdef double *parent
    cdef double *a
    cdef double *b
    cdef double *total
    if not 0 < n_groups <= MOST_GROUPS:
        raise ValueError(f"{n_groups} groups")
    with nogil:
        for j in range(trees.shape[0]):
            begin = start[trees[j]]
            size = start[trees[j] + 1] - begin
            first = tree_output[trees[j]] if width < response.shape[1] else 0
            sums[:size] = 0.0
            for i in range(leaves.shape[0]):
                at, g = leaves[i, j], group[i]
                if at < 0 or g < 0:
                    continue
                w = weight[i]
                sums[at, 0, g] += w
                for k in range(width):
                    sums[at, 1 + k, g] += w * response[i, first + k]
            for node in range(size - 1, -1, -1):
                if left[begin + node] < 0:
                    continue
                parent = &sums[node, 0, 0]
                a, b = &sums[left[begin + node], 0, 0], &sums[right[begin + node], 0, 0]
                for c in range(of_node):
                    parent[c] = a[c] + b[c]
            whole = less(&sums[0, 0, 0], n_groups, per_root)
            for g in range(n_groups):
                per_root[g] = 1 / per_root[g] if per_root[g] > NOTHING * whole else 0.0
            for node in range(size):
                at = begin + node
                if left[at] < 0 or per_covariance[at] == 0:
                    continue
                a, b = &sums[left[at], 0, 0], &sums[right[at], 0, 0]
                n_node = less(a, n_groups, n_a) + less(b, n_groups, n_b)
                for g in range(n_groups):
                    covariance[g] = 0.0
                for k in range(width):
                    step = value[begin + left[at], k] - value[begin + right[at], k]
                    a, b = a + n_groups, b + n_groups
                    add_covariance(a, b, n_a, n_b, n_groups, step, covariance)
                total = &out[feature[at], 0]
                for g in range(n_groups):
                    w = n_a[g] + n_b[g]
                    total[g] += per_covariance[at] * per_root[g] * (covariance[g] / w if w > NOTHING * n_node else 0.0)


cdef inline double less(const double *of_groups, int64_t n_groups, double *without) noexcept nogil:
    """Write the sum of all groups less that of each group, and return the sum of all."""
    cdef double total = 0.0
    cdef int64_t g
    for g in range(n_groups):
        total += of_groups[g]
    for g in range(n_groups):
        without[g] = total - of_groups[g]
    return total


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
    cdef double s_a = 0.0, s_b = 0.0
    cdef int64_t g
    for g in range(n_groups):
        s_a += a[g]
        s_b += b[g]
    for g in range(n_groups):
        covariance[g] += step * (n_b[g] * (s_a - a[g]) - n_a[g] * (s_b - b[g]))
