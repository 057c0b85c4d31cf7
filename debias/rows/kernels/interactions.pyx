"""Compiled loop over the splits of a tree: what one feature does alone, and what two or three need one another for."""

from cython cimport floating
from libc.stdint cimport int32_t, int64_t

import numpy as np

from debias.trees.kernels.walking cimport Walk, go_left

cdef enum:
    LANES = 32  # rows that are followed at a time


def add_parts(
    const floating[:, ::1] columns,
    tuple nodes,
    const double[::1] share,
    const double[:, ::1] value,
    int64_t first,
    const int64_t[::1] group,
    const int32_t[::1] alone,
    const int32_t[:, ::1] pair,
    const int64_t[:, ::1] triple,
    double[:, :, ::1] part,
):
    """Add the part of one tree that needs all groups of a set and no other, for each row and set.

    Parameters
    ----------
    columns : array of shape (n_features, n_rows)
        The columns of X. The number of rows is a multiple of `LANES`.
    nodes : tuple
        The tree, as :func:`debias.trees.routing.tree_nodes` returns it.
    share : array of shape (n_nodes,)
        Share of each node in its parent; the shares of two children sum to 1.
    value : array of shape (n_nodes, width)
    first : int
        First output of the tree.
    group : array of shape (n_features,)
    alone : array of shape (n_groups,)
        Number of the set of this group alone; -1 for groups that are not wanted.
    pair : array of shape (n_groups, n_groups)
        Number of each pair, symmetric; -1 for pairs that are not wanted.
    triple : array of shape (n_triples, 4)
        Three groups and the number of their set.
    part : array of shape (n_sets, n_outputs, n_rows)
        The parts are added to it.

    Notes
    -----
    Let the output with the splits on a set S only be that where rows go both ways, in the shares, at all other splits.
    It is the sum over the splits on S of the probability that the row comes there, times the step from the mean of the
    split to that of its child. The probability is the product of a_g over the groups g of S above the split, 1 if the
    row agrees with all splits on g and else 0, and of the shares s_g of the other groups. The part of a set is the sum
    of these outputs over its subsets, with alternating signs. So a split on g counts for a set with g if all its other
    groups h are above: a_g times the product of all a_h - s_h, and of the shares of the groups that are not in the set.
    """
    cdef Walk tree = Walk(*nodes)
    cdef int64_t size = value.shape[0], width = value.shape[1], n_rows = columns.shape[1]
    cdef double[:, ::1] mean = np.array(value)
    cdef int64_t[::1] above = np.full(size, -1, dtype=np.int64), start
    cdef int32_t[::1] number
    cdef double[::1] coefficient
    cdef double[:, ::1] of_way
    cdef int64_t[:, ::1] on_way
    cdef int64_t at, left, right, c, t, row, lane
    cdef double factor, of_left, of_right
    cdef const double* second
    cdef const double* third
    if n_rows % LANES:
        raise ValueError(f"the number of rows must be a multiple of {LANES}, not {n_rows}")
    for at in range(size - 1, -1, -1):
        if tree.left[at] >= 0:
            for c in range(width):
                mean[at, c] = share[tree.left[at]] * mean[tree.left[at], c] + share[tree.right[at]] * mean[tree.right[at], c]
    start, number, coefficient, of_way, on_way = _terms(tree, share, group, alone, pair, triple, above)
    # Whether each row of a few goes to a node and agrees with all splits on the group of its parent above.
    cdef double[:, ::1] agrees = np.empty((size, LANES))
    cdef double[:, ::1] step = np.empty((width, LANES))
    cdef double[::1] to_left = np.empty(LANES)
    with nogil:
        row = 0
        while row < n_rows:
            for at in range(size):
                left, right = tree.left[at], tree.right[at]
                if left < 0:
                    continue
                go_left(tree, at, &columns[tree.feature[at], row], &to_left[0], LANES)
                _agree(&agrees[left, 0], &agrees[right, 0], &to_left[0], &agrees[above[at], 0] if above[at] >= 0 else NULL)
                if start[at] == start[at + 1]:
                    continue
                for c in range(width):
                    of_left, of_right = mean[left, c] - mean[at, c], mean[right, c] - mean[at, c]
                    for lane in range(LANES):
                        step[c, lane] = of_left * agrees[left, lane] + of_right * agrees[right, lane]
                for t in range(start[at], start[at + 1]):
                    second = &agrees[on_way[t, 0], 0] if on_way[t, 0] >= 0 else NULL
                    third = &agrees[on_way[t, 1], 0] if on_way[t, 1] >= 0 else NULL
                    for c in range(width):
                        _add_products(
                            &part[number[t], first + c, row], &step[c, 0], coefficient[t], second, of_way[t, 0], third, of_way[t, 1]
                        )
            row += LANES


cdef inline void _agree(double* left, double* right, const double* to_left, const double* above) noexcept nogil:
    """Write which rows agree with a split, and with those on its group above it, if there are any."""
    cdef int64_t lane
    if above == NULL:
        for lane in range(LANES):
            left[lane], right[lane] = to_left[lane], 1 - to_left[lane]
    else:
        for lane in range(LANES):
            left[lane], right[lane] = above[lane] * to_left[lane], above[lane] * (1 - to_left[lane])


cdef inline void _add_products(
    double* part, const double* step, double coefficient, const double* second, double of_second, const double* third, double of_third
) noexcept nogil:
    """Add the coefficient times a - s of the second and the third group, if there are such groups, times the step."""
    cdef int64_t lane
    if second == NULL:
        for lane in range(LANES):
            part[lane] += coefficient * step[lane]
    elif third == NULL:
        for lane in range(LANES):
            part[lane] += coefficient * (second[lane] - of_second) * step[lane]
    else:
        for lane in range(LANES):
            part[lane] += coefficient * (second[lane] - of_second) * (third[lane] - of_third) * step[lane]


cdef tuple _terms(
    Walk tree,
    const double[::1] share,
    const int64_t[::1] group,
    const int32_t[::1] alone,
    const int32_t[:, ::1] pair,
    const int64_t[:, ::1] triple,
    int64_t[::1] above,
):
    """Return the sets for which each split counts, one split after another.

    `above` is filled with the child, on the way, of the nearest split above each split that is on its group; -1 for
    none.

    Returns
    -------
    start : array of shape (n_nodes + 1,)
        Of the terms of each node.
    number : array of shape (n_terms,)
        The set.
    coefficient : array of shape (n_terms,)
        Product of the shares of the groups above that are not in the set.
    of_way, on_way : arrays of shape (n_terms, 2)
        Of the second and the third group of the set: product of the shares, and the child, on the way, of the nearest
        split. 1 and -1 if the set has no such group.
    """
    cdef int64_t size = tree.left.shape[0], n_groups = alone.shape[0], n_above = 0, n_terms = 0
    cdef int64_t at, up, below, g, h, k, t, second, third
    cdef double others
    cdef int64_t[::1] parent = np.full(size, -1, dtype=np.int64), start = np.zeros(size + 1, dtype=np.int64)
    cdef int64_t[::1] depth = np.zeros(size, dtype=np.int64), place = np.full(n_groups, -1, dtype=np.int64)
    for at in range(size):
        if tree.left[at] >= 0:
            parent[tree.left[at]] = parent[tree.right[at]] = at
            depth[tree.left[at]] = depth[tree.right[at]] = depth[at] + 1
            n_terms += 1 + min(depth[at], n_groups) + triple.shape[0]
    cdef int32_t[::1] number = np.empty(n_terms, dtype=np.int32)
    cdef double[::1] coefficient = np.empty(n_terms)
    cdef double[:, ::1] of_way = np.ones((n_terms, 2))
    cdef int64_t[:, ::1] on_way = np.full((n_terms, 2), -1, dtype=np.int64)
    # The groups above a split, without its own: the product of the shares, and the nearest child on the way.
    cdef int64_t[::1] above_group = np.empty(n_groups, dtype=np.int64), nearest = np.empty(n_groups, dtype=np.int64)
    cdef double[::1] product = np.empty(n_groups)
    t = 0
    for at in range(size):
        if tree.left[at] >= 0:
            g, below, up, n_above = group[tree.feature[at]], at, parent[at], 0
            while up >= 0:
                h = group[tree.feature[up]]
                if h == g:
                    if above[at] < 0:
                        above[at] = below
                elif place[h] >= 0:
                    product[place[h]] *= share[below]
                else:
                    place[h], above_group[n_above], nearest[n_above], product[n_above] = n_above, h, below, share[below]
                    n_above += 1
                below, up = up, parent[up]
            for second in range(-1, n_above):
                k = alone[g] if second < 0 else pair[g, above_group[second]]
                if k < 0:
                    continue
                others = 1.0
                for h in range(n_above):
                    if h != second:
                        others *= product[h]
                if others > 0:
                    number[t], coefficient[t] = k, others
                    if second >= 0:
                        of_way[t, 0], on_way[t, 0] = product[second], nearest[second]
                    t += 1
            for k in range(triple.shape[0]):
                if g == triple[k, 0]:
                    second, third = place[triple[k, 1]], place[triple[k, 2]]
                elif g == triple[k, 1]:
                    second, third = place[triple[k, 0]], place[triple[k, 2]]
                elif g == triple[k, 2]:
                    second, third = place[triple[k, 0]], place[triple[k, 1]]
                else:
                    continue
                if second < 0 or third < 0:
                    continue
                others = 1.0
                for h in range(n_above):
                    if h != second and h != third:
                        others *= product[h]
                if others > 0:
                    number[t], coefficient[t] = <int32_t> triple[k, 3], others
                    of_way[t, 0], on_way[t, 0] = product[second], nearest[second]
                    of_way[t, 1], on_way[t, 1] = product[third], nearest[third]
                    t += 1
            for h in range(n_above):
                place[above_group[h]] = -1
        start[at + 1] = t
    return start, number, coefficient, of_way, on_way
