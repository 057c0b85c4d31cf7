"""Compiled loops that add the rows of a period to the sums at their leaves, and find scores without parts of them.

Rows from ``edges[g]`` to ``edges[g + 1]`` are group g, of up to 16. Weights are added to `n` (n_nodes,), the response
`values` to `s` (n_nodes, width), and its `residual` to `e`. In ``terms[g, 0]`` the terms of ``mdi_oob`` are summed by
feature over all rows but those of group g; in ``terms[g, 1]``, those of the residual. The last entries of `terms` are
over all rows.

The numbers of a row at a leaf are its weight, and weight times response and residual of each output. For one output a 0
follows: processors add four numbers in one or two steps. `added` (n_outputs, n_rows, 4) has these. From the leaves up,
the weights without each group are side by side instead, and so are the sums: a split takes four groups at a time.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from debias.trees.kernels.quadrature cimport LANES, WIDTH, Lanes, at, put, spread

import numpy as np

cdef enum:
    # Trees whose rows are added together: the processor works on one while it waits for the sums of another.
    TREES_AT_ONCE = 4
    OF_ONE_OUTPUT = 4
    MOST_GROUPS = 16
    OF_A_SPLIT = 3  # weight, and sums of response and residual
    NO_ROW = -1

cdef extern from *:
    """
    #if defined(__GNUC__)
    typedef long long debias_mask __attribute__((vector_size(32)));
    static inline debias_lanes debias_if_both(debias_lanes a, debias_lanes b, debias_lanes x) {
        return (debias_lanes)((debias_mask)x & (debias_mask)(a > 0) & (debias_mask)(b > 0));
    }
    #else
    static inline double debias_if_both(double a, double b, double x) { return a > 0 && b > 0 ? x : 0.0; }
    #endif
    """
    # Return x where both a and b are above 0, and 0 elsewhere.
    Lanes if_both "debias_if_both"(Lanes a, Lanes b, Lanes x) noexcept nogil


def add_numbered_groups(
    const uint8_t[:, ::1] numbers,
    const int32_t[::1] leaf,
    const int64_t[::1] leaf_start,
    const int64_t[::1] trees,
    const int64_t[::1] start,
    const int32_t[::1] left,
    const int32_t[::1] right,
    const int32_t[::1] feature,
    const int32_t[::1] tree_output,
    const double[:, ::1] mu,
    const double[:, :, ::1] added,
    const int64_t[::1] edges,
    double[::1] n,
    double[:, ::1] s,
    double[:, ::1] e,
    double[:, :, ::1] terms,
):
    """Add rows at the leaves of trees of one output, whose leaves have numbers, as in ``TreeEnsemble.bins``.

    `numbers` (len(trees), n_rows) are those of the leaves that rows reach; `leaf` has the nodes of the leaves of all
    trees, those of a tree from ``leaf_start[tree]`` on.
    """
    cdef int64_t n_groups = edges.shape[0] - 1, most = 1, most_leaves = 1, j, k, g, tree, together, of_tree
    cdef const uint8_t* reached[TREES_AT_ONCE]
    cdef double[::1] at_leaves, sums
    cdef double[:, :, ::1] found = np.zeros((terms.shape[2], 2, padded(n_groups + 1)))
    cdef int32_t[::1] place
    cdef double* of_group
    for j in range(trees.shape[0]):
        most = max(most, start[trees[j] + 1] - start[trees[j]])
        most_leaves = max(most_leaves, leaf_start[trees[j] + 1] - leaf_start[trees[j]])
    of_tree = n_groups * most_leaves * OF_ONE_OUTPUT
    at_leaves = np.empty(TREES_AT_ONCE * of_tree)
    sums = np.empty(most_leaves * room_of_node(n_groups, 1))
    place = np.empty(most, dtype=np.int32)
    with nogil:
        j = 0
        while j < trees.shape[0]:
            together = of_same_output(&trees[j], trees.shape[0] - j, tree_output)
            memset(&at_leaves[0], 0, together * of_tree * sizeof(double))
            for k in range(together):
                reached[k] = &numbers[j + k, 0]
            for g in range(n_groups):
                of_group = &at_leaves[g * most_leaves * OF_ONE_OUTPUT]
                if together == TREES_AT_ONCE:
                    add_four(reached, edges[g], edges[g + 1], &added[tree_output[trees[j]], 0, 0], of_tree, of_group)
                else:
                    for k in range(together):
                        add_rows(
                            reached[k],
                            edges[g],
                            edges[g + 1],
                            &added[tree_output[trees[j]], 0, 0],
                            &of_group[k * of_tree],
                        )
            for k in range(together):
                tree = trees[j + k]
                gather(
                    leaf_start[tree + 1] - leaf_start[tree],
                    n_groups,
                    room_of_node(n_groups, 1),
                    most_leaves * OF_ONE_OUTPUT,
                    &leaf[leaf_start[tree]],
                    &at_leaves[k * of_tree],
                    &place[0],
                    &sums[0],
                )
                finish(tree, n_groups, start, left, right, feature, mu, &place[0], &sums[0], n, s, e, found)
            j += together
    add_found(found, terms)


def add_groups(
    const int32_t[:, ::1] leaves,
    const int64_t[::1] trees,
    const int64_t[::1] start,
    const int32_t[::1] left,
    const int32_t[::1] right,
    const int32_t[::1] feature,
    const int32_t[::1] tree_output,
    const double[:, ::1] mu,
    const double[:, ::1] values,
    const double[:, ::1] residual,
    const double[::1] weight,
    const int64_t[::1] edges,
    double[::1] n,
    double[:, ::1] s,
    double[:, ::1] e,
    double[:, :, ::1] terms,
):
    """Add rows at their leaves (len(trees), n_rows), which are nodes of the trees."""
    cdef int64_t width = mu.shape[1], n_groups = edges.shape[0] - 1, n_rows = weight.shape[0]
    cdef int64_t n_columns = columns(width), of_node = room_of_node(n_groups, width)
    cdef int64_t most = 1, j, g, i, k, first, node, n_used
    cdef double[::1] sums
    cdef double[:, :, ::1] found = np.zeros((terms.shape[2], 2, padded(n_groups + 1)))
    cdef int32_t[::1] place
    cdef double* to
    for j in range(trees.shape[0]):
        most = max(most, start[trees[j] + 1] - start[trees[j]])
    # Only leaves that a row reaches need memory: of grown-out trees and few rows these are some of them.
    sums = np.empty(min((most + 1) // 2, max(1, n_rows)) * of_node)
    place = np.empty(most, dtype=np.int32)
    with nogil:
        for j in range(trees.shape[0]):
            first, n_used = tree_output[trees[j]], 0
            for node in range(start[trees[j] + 1] - start[trees[j]]):
                place[node] = NO_ROW
            for g in range(n_groups):
                for i in range(edges[g], edges[g + 1]):
                    node = leaves[j, i]
                    if place[node] == NO_ROW:
                        place[node] = <int32_t>n_used
                        memset(&sums[n_used * of_node], 0, n_groups * n_columns * sizeof(double))
                        n_used += 1
                    to = &sums[place[node] * of_node + g * n_columns]
                    to[0] += weight[i]
                    for k in range(width):
                        to[1 + k] += weight[i] * values[i, first + k]
                        to[1 + width + k] += weight[i] * residual[i, first + k]
            finish(trees[j], n_groups, start, left, right, feature, mu, &place[0], &sums[0], n, s, e, found)
    add_found(found, terms)


cdef inline int64_t columns(int64_t width) noexcept nogil:
    """Return how many numbers a row has at a leaf."""
    return OF_ONE_OUTPUT if width == 1 else 1 + 2 * width


cdef inline int64_t padded(int64_t n_sums) noexcept nogil:
    """Return the number of sums up to a multiple of LANES."""
    return (n_sums + LANES - 1) // LANES * LANES


cdef inline int64_t room_of_node(int64_t n_groups, int64_t width) noexcept nogil:
    """Return how many numbers a leaf or node has room for."""
    return max((n_groups + 1) * columns(width), OF_A_SPLIT * padded(n_groups + 1) if width == 1 else 0)


cdef inline int64_t of_same_output(const int64_t* trees, int64_t n_trees, const int32_t[::1] tree_output) noexcept nogil:
    """Return how many of the next trees add to the same output as the first: up to four."""
    cdef int64_t k = 1
    while k < min(TREES_AT_ONCE, n_trees) and tree_output[trees[k]] == tree_output[trees[0]]:
        k += 1
    return k


cdef inline void add_four(
    const uint8_t** reached, int64_t begin, int64_t end, const double* added, int64_t of_tree, double* sums
) noexcept nogil:
    """Do what `add_rows` does in four trees, whose sums are `of_tree` apart."""
    cdef int64_t i
    cdef double a, b, c, d
    cdef const uint8_t* in_first = reached[0]
    cdef const uint8_t* in_second = reached[1]
    cdef const uint8_t* in_third = reached[2]
    cdef const uint8_t* in_fourth = reached[3]
    cdef double* second = sums + of_tree
    cdef double* third = second + of_tree
    cdef double* fourth = third + of_tree
    for i in range(begin, end):
        a, b, c, d = added[4 * i], added[4 * i + 1], added[4 * i + 2], added[4 * i + 3]
        add_row(&sums[4 * <int64_t>in_first[i]], a, b, c, d)
        add_row(&second[4 * <int64_t>in_second[i]], a, b, c, d)
        add_row(&third[4 * <int64_t>in_third[i]], a, b, c, d)
        add_row(&fourth[4 * <int64_t>in_fourth[i]], a, b, c, d)


cdef inline void add_rows(
    const uint8_t* reached, int64_t begin, int64_t end, const double* added, double* sums
) noexcept nogil:
    """Add the four numbers of each row to the sums of its leaf."""
    cdef int64_t i
    for i in range(begin, end):
        add_row(&sums[4 * <int64_t>reached[i]], added[4 * i], added[4 * i + 1], added[4 * i + 2], added[4 * i + 3])


cdef inline void add_row(double* sums, double a, double b, double c, double d) noexcept nogil:
    """Add four numbers. They are written after all are read: so this is vector code."""
    a, b, c, d = a + sums[0], b + sums[1], c + sums[2], d + sums[3]
    sums[0], sums[1], sums[2], sums[3] = a, b, c, d


cdef void gather(
    int64_t n_leaves,
    int64_t n_groups,
    int64_t of_node,
    int64_t of_group,
    const int32_t* leaf,
    const double* at_leaves,
    int32_t* place,
    double* sums,
) noexcept nogil:
    """Write the sums of a leaf over all groups, which are `of_group` apart, one after the other, and its place."""
    cdef int64_t number, g, c
    cdef const double* here
    for number in range(n_leaves):
        place[leaf[number]] = <int32_t>number
        here = &at_leaves[number * OF_ONE_OUTPUT]
        for g in range(n_groups):
            for c in range(OF_ONE_OUTPUT):
                sums[g * OF_ONE_OUTPUT + c] = here[c]
            here = &here[of_group]
        sums = &sums[of_node]


cdef void finish(
    int64_t tree,
    int64_t n_groups,
    const int64_t[::1] start,
    const int32_t[::1] left,
    const int32_t[::1] right,
    const int32_t[::1] feature,
    const double[:, ::1] mu,
    int32_t* place,
    double* sums,
    double[::1] n,
    double[:, ::1] s,
    double[:, ::1] e,
    double[:, :, ::1] found,
) noexcept nogil:
    """Add the sums of a tree, and the terms of its splits, given the sums of each group at the leaves.

    `sums` has the sums of a leaf or node at its place. Nodes without rows have none.
    """
    cdef int64_t width = mu.shape[1], n_columns = columns(width), of_node = room_of_node(n_groups, width)
    cdef int64_t begin = start[tree], node, a, b, k
    cdef double whole[OF_A_SPLIT]
    cdef double* here
    # Children come after their parent, so they are complete here.
    for node in range(start[tree + 1] - begin - 1, -1, -1):
        a, b = left[begin + node], right[begin + node]
        if a < 0:
            if place[node] == NO_ROW:
                continue
            here = &sums[place[node] * of_node]
            if width == 1:
                leave_out_side_by_side(n_groups, here, whole)
                n[begin + node] += whole[0]
                s[begin + node, 0] += whole[1]
                e[begin + node, 0] += whole[2]
                continue
            leave_out(n_groups, n_columns, here)
            here = &here[n_groups * n_columns]
            n[begin + node] += here[0]
            for k in range(width):
                s[begin + node, k] += here[1 + k]
                e[begin + node, k] += here[1 + width + k]
        elif place[a] == NO_ROW or place[b] == NO_ROW:
            place[node] = place[b] if place[a] == NO_ROW else place[a]
        else:
            place[node] = place[a]
            if width == 1:
                add_split(
                    padded(n_groups + 1),
                    mu[begin + a, 0] - mu[begin + b, 0],
                    &sums[place[a] * of_node],
                    &sums[place[b] * of_node],
                    &found[feature[begin + node], 0, 0],
                )
            else:
                add_wide_split(
                    n_groups + 1,
                    found.shape[2],
                    width,
                    &mu[begin + a, 0],
                    &mu[begin + b, 0],
                    &sums[place[a] * of_node],
                    &sums[place[b] * of_node],
                    &found[feature[begin + node], 0, 0],
                )


cdef inline void leave_out(int64_t n_groups, int64_t n_columns, double* sums) noexcept nogil:
    """Replace the sums of each group at a leaf by those of all other groups; the last ones are over all."""
    cdef int64_t g, c
    cdef double* whole = &sums[n_groups * n_columns]
    for c in range(n_columns):
        whole[c] = 0.0
    for g in range(n_groups):
        for c in range(n_columns):
            whole[c] += sums[g * n_columns + c]
    for g in range(n_groups):
        for c in range(n_columns):
            # Only leaves subtract. Above them, sums without a group are added up as those of all rows.
            sums[g * n_columns + c] = whole[c] - sums[g * n_columns + c]


cdef inline void leave_out_side_by_side(int64_t n_groups, double* sums, double* whole) noexcept nogil:
    """Do the same for a tree of one output; write the weights side by side, and the sums, and `whole` of all rows."""
    cdef int64_t g, c, n_sums = padded(n_groups + 1)
    cdef double of_group[MOST_GROUPS * OF_ONE_OUTPUT]
    memcpy(of_group, sums, n_groups * OF_ONE_OUTPUT * sizeof(double))
    for c in range(OF_A_SPLIT):
        whole[c] = 0.0
        for g in range(n_groups):
            whole[c] += of_group[g * OF_ONE_OUTPUT + c]
        for g in range(n_groups):
            # Only leaves subtract. Above them, sums without a group are added up as those of all rows.
            sums[c * n_sums + g] = whole[c] - of_group[g * OF_ONE_OUTPUT + c]
        sums[c * n_sums + n_groups] = whole[c]
        for g in range(n_groups + 1, n_sums):
            sums[c * n_sums + g] = 0.0


# (n_b s_a - n_a s_b) / n = s_a - n_a (s_a + s_b) / n: the sum on the left, about the mean. With its group a side may
# have lost all rows: such a split contributes nothing, as in mdi_oob.


cdef inline void add_split(int64_t n_sums, double difference, double* a, const double* b, double* found) noexcept nogil:
    """Add the sums of the right child of a split to those of the left, and its terms; of a tree of one output."""
    cdef int64_t g
    cdef Lanes n_a, n_b, s_a, s_b, e_a, e_b, n_both, scale, one = spread(1.0), by = spread(difference)
    for g from 0 <= g < n_sums by WIDTH:
        n_a, s_a, e_a = at(&a[g]), at(&a[n_sums + g]), at(&a[2 * n_sums + g])
        n_b, s_b, e_b = at(&b[g]), at(&b[n_sums + g]), at(&b[2 * n_sums + g])
        n_both = n_a + n_b
        put(&a[g], n_both)
        put(&a[n_sums + g], s_a + s_b)
        put(&a[2 * n_sums + g], e_a + e_b)
        scale = one / n_both
        put(&found[g], at(&found[g]) + if_both(n_a, n_b, by * (n_b * s_a - n_a * s_b) * scale))
        put(&found[n_sums + g], at(&found[n_sums + g]) + if_both(n_a, n_b, by * (n_b * e_a - n_a * e_b) * scale))


cdef void add_wide_split(
    int64_t n_sums,
    int64_t apart,
    int64_t width,
    const double* mu_a,
    const double* mu_b,
    double* a,
    const double* b,
    double* found,
) noexcept nogil:
    """Do the same as `add_split`, of a tree of several outputs."""
    cdef int64_t g, k, n_columns = columns(width)
    cdef double scale, difference, of_response, of_residual
    for g in range(n_sums):
        if a[0] > 0 and b[0] > 0:
            of_response = of_residual = 0.0
            scale = 1 / (a[0] + b[0])
            for k in range(width):
                difference = mu_a[k] - mu_b[k]
                of_response += difference * (b[0] * a[1 + k] - a[0] * b[1 + k]) * scale
                of_residual += difference * (b[0] * a[1 + width + k] - a[0] * b[1 + width + k]) * scale
            found[g] += of_response
            found[apart + g] += of_residual
        for k in range(n_columns):
            a[k] += b[k]
        a, b = &a[n_columns], &b[n_columns]


cdef void add_found(const double[:, :, ::1] found, double[:, :, ::1] terms) noexcept nogil:
    """Add terms (n_features, 2, sums and more) to those in the order of the module."""
    cdef int64_t i, g
    for i in range(found.shape[0]):
        for g in range(terms.shape[0]):
            terms[g, 0, i] += found[i, 0, g]
            terms[g, 1, i] += found[i, 1, g]
