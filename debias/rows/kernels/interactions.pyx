"""Compiled loops over the leaves of trees: what needs two features together, and what one feature does alone."""

from cython cimport floating
from libc.stdint cimport int32_t, int64_t

import numpy as np

from debias.trees.kernels.walking cimport Walk, child


def add_interactions(
    const floating[:, ::1] X,
    tuple nodes,
    const double[::1] share,
    const double[:, ::1] value,
    int64_t first,
    const int64_t[::1] group,
    const int32_t[:, ::1] pair,
    double[:, :, ::1] interaction,
):
    """Add what the splits of one tree on both groups of each pair do together, for each row.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
    nodes : tuple
        The tree, as :func:`debias.trees.routing.tree_nodes` returns it.
    share : array of shape (n_nodes,)
        Share of each node in its parent; the shares of two children sum to 1.
    value : array of shape (n_nodes, width)
    first : int
        First output of the tree.
    group : array of shape (n_features,)
    pair : array of shape (n_groups, n_groups)
        Number of each pair, symmetric; -1 for pairs that are not wanted.
    interaction : array of shape (n_rows, n_pairs, n_outputs)
        The effect of both groups is added to it.

    Notes
    -----
    Let a_g be 1 if a row agrees with all splits on group g on the way to a leaf of value v, else 0, and s_g the product
    of the shares at these splits. The output is the sum over leaves of v times the product of all a_g; without a group
    its a_g is s_g. So the effect of j plus that of k less that of both is the sum over leaves of
    v (a_j - s_j) (a_k - s_k) times the product of the other a_g. A leaf counts only if at most two groups disagree.
    """
    cdef Walk tree = Walk(*nodes)
    cdef int64_t size = value.shape[0], width = value.shape[1]
    cdef int64_t[::1] start
    cdef int32_t[::1] on_way
    cdef double[::1] way_share
    cdef int64_t[::1] waiting = np.empty(size, dtype=np.int64)
    cdef int64_t[:, ::1] waiting_broken = np.empty((size, 2), dtype=np.int64)
    cdef int64_t i, at, other, below, n_waiting, g, one, two, a, b, c, p
    cdef double product
    start, on_way, way_share = _groups_above(tree, share, group, size)
    with nogil:
        for i in range(X.shape[0]):
            waiting[0], waiting_broken[0, 0], waiting_broken[0, 1] = 0, -1, -1
            n_waiting = 1
            while n_waiting > 0:
                n_waiting -= 1
                at, one, two = waiting[n_waiting], waiting_broken[n_waiting, 0], waiting_broken[n_waiting, 1]
                while tree.left[at] >= 0:
                    g = group[tree.feature[at]]
                    below = child(tree, at, X[i, tree.feature[at]])
                    if g == one or g == two or two < 0:
                        other = tree.left[at] + tree.right[at] - below
                        waiting[n_waiting] = other
                        waiting_broken[n_waiting, 0], waiting_broken[n_waiting, 1] = one, two
                        if g != one and g != two:
                            waiting_broken[n_waiting, one >= 0] = g
                        n_waiting += 1
                    at = below
                for a in range(start[at], start[at + 1]):
                    if one >= 0 and on_way[a] != one and on_way[a] != two:
                        continue
                    for b in range(start[at], start[at + 1]):
                        # Each pair once: the group that disagrees first, else by their order.
                        if b == a or (two >= 0 and on_way[b] != one and on_way[b] != two):
                            continue
                        if (one < 0 or two >= 0) and b < a:
                            continue
                        p = pair[on_way[a], on_way[b]]
                        if p < 0:
                            continue
                        product = -way_share[a] if one >= 0 else 1.0 - way_share[a]
                        product *= -way_share[b] if two >= 0 else 1.0 - way_share[b]
                        for c in range(width):
                            interaction[i, p, first + c] += product * value[at, c]


def add_main_effects(
    const floating[:, ::1] X,
    tuple nodes,
    const double[::1] share,
    const double[:, ::1] value,
    int64_t first,
    const int64_t[::1] group,
    double[:, :, ::1] effect,
):
    """Add what the splits of one tree on each group do, for each row, without the splits on all other groups.

    Parameters
    ----------
    X, nodes, share, value, first, group
        As for `add_interactions`.
    effect : array of shape (n_rows, n_groups, n_outputs)

    Notes
    -----
    A split on group g is reached in the shares of all splits above it that are on other groups, by the rows that agree
    with those above it that are on g. There the row goes from the mean of the split, in the shares of its children, to
    that of the child.
    """
    cdef Walk tree = Walk(*nodes)
    cdef int64_t size = value.shape[0], width = value.shape[1]
    cdef double[:, ::1] mean = np.array(value)
    cdef int64_t[::1] above = np.full(size, -1, dtype=np.int64), side = np.full(size, -1, dtype=np.int64)
    cdef int64_t[::1] went = np.full(size, -1, dtype=np.int64), parent = np.full(size, -1, dtype=np.int64)
    cdef double[::1] reached = np.ones(size)
    cdef int64_t i, at, up, below, g, c
    for at in range(size - 1, -1, -1):
        if tree.left[at] >= 0:
            parent[tree.left[at]] = parent[tree.right[at]] = at
            for c in range(width):
                mean[at, c] = share[tree.left[at]] * mean[tree.left[at], c] + share[tree.right[at]] * mean[tree.right[at], c]
    for at in range(size):
        if tree.left[at] < 0:
            continue
        g, below, up = group[tree.feature[at]], at, parent[at]
        while up >= 0:
            if group[tree.feature[up]] != g:
                reached[at] *= share[below]
            elif above[at] < 0:
                above[at], side[at] = up, below
            below, up = up, parent[up]
    with nogil:
        for i in range(X.shape[0]):
            for at in range(size):
                if tree.left[at] < 0:
                    continue
                went[at] = -1
                if above[at] >= 0 and went[above[at]] != side[at]:
                    continue
                below = child(tree, at, X[i, tree.feature[at]])
                went[at], g = below, group[tree.feature[at]]
                for c in range(width):
                    effect[i, g, first + c] += reached[at] * (mean[below, c] - mean[at, c])


cdef tuple _groups_above(Walk tree, const double[::1] share, const int64_t[::1] group, int64_t size):
    """Return the groups that each leaf has on its way and the products of the shares there, one leaf after another."""
    cdef int64_t[::1] start = np.zeros(size + 1, dtype=np.int64)
    above = {0: {}}
    groups, shares = [], []
    for at in range(size):
        way = above.pop(at)
        if tree.left[at] < 0:
            groups.extend(way)
            shares.extend(way.values())
        else:
            g = group[tree.feature[at]]
            for below in (tree.left[at], tree.right[at]):
                above[below] = {**way, g: way.get(g, 1.0) * share[below]}
        start[at + 1] = len(groups)
    return start, np.array(groups, dtype=np.int32), np.array(shares, dtype=np.float64)
