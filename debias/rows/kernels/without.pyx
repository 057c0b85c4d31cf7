"""Compiled loops over the paths of rows: the output of trees without their splits on a feature, and their steps there.

At a split on the feature both children are followed, in fixed shares; at all other splits the row goes its own way.
"""

from cython cimport floating
from libc.stdint cimport int64_t, uint8_t

import numpy as np

from debias.trees.kernels.walking cimport Walk, child, go_left

cdef enum:
    ROWS_AT_ONCE = 256  # their values of a tree of 127 nodes fit in the cache


def add_effects(
    const floating[:, ::1] X,
    tuple nodes,
    const double[::1] share,
    const double[:, ::1] value,
    int64_t first,
    const int64_t[::1] group,
    const double[:, :, ::1] step,
    double[:, ::1] raw,
    double[:, :, ::1] effect,
    double[:, :, :, ::1] steps,
):
    """Add the output of one tree for each row, and what the splits on each group do to it.

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
        Number of the group of each column; -1 for columns whose splits stay.
    step : array of shape (n_versions, n_nodes, width)
        What the step from its parent to each node adds to the sums of a row; there may be no version.
    raw : array of shape (n_rows, n_outputs)
        The output is added to it.
    effect : array of shape (n_groups, n_rows, n_outputs)
        The difference of the output from the output without the splits on each group is added to it.
    steps : array of shape (n_rows, n_groups, n_versions, n_outputs)
        The steps at the splits on each group on the path of a row are added to it.

    Notes
    -----
    Without its splits on a group a row goes to both sides of each of them. On the side of its own path it comes to its
    own leaf, or to another split on the group. So only the other side of each split on the path is followed. A stack
    holds the nodes that are still to be followed, with the product of the shares that led to them.
    """
    cdef Walk tree = Walk(*nodes)
    cdef int64_t size = value.shape[0], width = value.shape[1], n_groups = effect.shape[0], n_versions = step.shape[0]
    cdef int64_t[::1] last = np.full(n_groups, -1, dtype=np.int64)
    cdef double[::1] own = np.empty(n_groups)
    cdef int64_t[::1] path = np.empty(size, dtype=np.int64), waiting = np.empty(size, dtype=np.int64)
    cdef double[::1] waiting_share = np.empty(size)
    cdef int64_t i, at, leaf, below, other, depth, n_waiting, j, g, k, c, v
    cdef double reached
    with nogil:
        for i in range(X.shape[0]):
            leaf, depth = 0, 0
            while tree.left[leaf] >= 0:
                path[depth] = leaf
                depth += 1
                leaf = child(tree, leaf, X[i, tree.feature[leaf]])
            path[depth] = leaf
            for c in range(width):
                raw[i, first + c] += value[leaf, c]
            for j in range(depth):
                g, below = group[tree.feature[path[j]]], path[j + 1]
                if g < 0:
                    continue
                for v in range(n_versions):
                    for c in range(width):
                        steps[i, g, v, first + c] += step[v, below, c]
                if last[g] < i:
                    last[g], own[g] = i, 1.0
                other = tree.left[path[j]] + tree.right[path[j]] - below
                waiting[0], waiting_share[0] = other, own[g] * share[other]
                own[g] *= share[below]
                n_waiting = waiting_share[0] > 0
                while n_waiting > 0:
                    n_waiting -= 1
                    at, reached = waiting[n_waiting], waiting_share[n_waiting]
                    while tree.left[at] >= 0:
                        k = tree.feature[at]
                        if group[k] != g:
                            at = child(tree, at, X[i, k])
                            continue
                        other = tree.right[at]
                        if share[other] > 0:
                            waiting[n_waiting], waiting_share[n_waiting] = other, reached * share[other]
                            n_waiting += 1
                        at = tree.left[at]
                        reached *= share[at]
                    for c in range(width):
                        effect[g, i, first + c] += reached * (value[leaf, c] - value[at, c])


def add_effects_at_once(
    const floating[:, ::1] columns,
    tuple nodes,
    const double[::1] share,
    const double[:, ::1] value,
    int64_t first,
    const uint8_t[:, ::1] left_out,
    const int64_t[::1] group,
    const double[:, :, ::1] step,
    double[:, ::1] raw,
    double[:, :, ::1] effect,
    double[:, :, :, ::1] steps,
):
    """Add the output of one tree for each row, what the splits on each of several sets of features do to it, and steps.

    Parameters
    ----------
    columns : array of shape (n_features, n_rows)
        The columns of X.
    nodes, share, value, first, group, step, raw, steps
        As for `add_effects`.
    left_out : array of shape (n_sets, n_features)
        1 for the features of each set.
    effect : array of shape (n_sets, n_rows, n_outputs)
        The difference of the output from the output without the splits on each set is added to it.

    Notes
    -----
    The values of all nodes are computed from the leaves up, for `ROWS_AT_ONCE` rows together: the mean of both children
    at a split that is left out, and the value of the child to which the row goes at the others. The effect of a set is
    what changes at the first of its splits on the way of a row, so values without the set are computed only below these
    splits. Where a row meets none, the effect is exactly 0.
    """
    cdef Walk tree = Walk(*nodes)
    cdef int64_t size = value.shape[0], width = value.shape[1], n_sets = left_out.shape[0], n_versions = step.shape[0]
    cdef uint8_t[:, ::1] differs = np.zeros((n_sets, size), dtype=np.uint8), below_split = np.zeros((n_sets, size), dtype=np.uint8)
    cdef double[:, ::1] to_left = np.empty((size, ROWS_AT_ONCE)), reaches = np.empty((size, ROWS_AT_ONCE))
    cdef double[:, ::1] whole = np.empty((size, ROWS_AT_ONCE)), own = np.empty((size, ROWS_AT_ONCE))
    cdef const double* left
    cdef const double* right
    cdef const floating* x
    cdef int64_t begin = 0, n, s, node, below, g, i, c, v
    with nogil:
        for s in range(n_sets):
            for node in range(size - 1, -1, -1):
                if tree.left[node] >= 0:
                    differs[s, node] = (
                        left_out[s, tree.feature[node]]
                        or differs[s, tree.left[node]]
                        or differs[s, tree.right[node]]
                    )
            for node in range(size):
                if tree.left[node] >= 0:
                    below_split[s, tree.left[node]] = below_split[s, node] or left_out[s, tree.feature[node]]
                    below_split[s, tree.right[node]] = below_split[s, tree.left[node]]
        while begin < columns.shape[1]:
            n = min(ROWS_AT_ONCE, columns.shape[1] - begin)
            for i in range(n):
                reaches[0, i] = 1
            for node in range(size):
                if tree.left[node] >= 0:
                    x = &columns[tree.feature[node], begin]
                    go_left(tree, node, x, &to_left[node, 0], n)
                    _divide(&reaches[tree.left[node], 0], &reaches[tree.right[node], 0], &reaches[node, 0], &to_left[node, 0], n)
            for c in range(width):
                for node in range(size - 1, -1, -1):
                    if tree.left[node] < 0:
                        for i in range(n):
                            whole[node, i] = value[node, c]
                    else:
                        _choose(&whole[node, 0], &whole[tree.left[node], 0], &whole[tree.right[node], 0], &to_left[node, 0], n)
                for i in range(n):
                    raw[begin + i, first + c] += whole[0, i]
                for s in range(n_sets):
                    if not differs[s, 0]:
                        continue
                    for node in range(size - 1, -1, -1):
                        if not differs[s, node]:
                            continue
                        if not (below_split[s, node] or left_out[s, tree.feature[node]]):
                            continue  # the first split of the set is below: nothing is needed here
                        left = &own[tree.left[node], 0] if differs[s, tree.left[node]] else &whole[tree.left[node], 0]
                        right = &own[tree.right[node], 0] if differs[s, tree.right[node]] else &whole[tree.right[node], 0]
                        if left_out[s, tree.feature[node]]:
                            _average(&own[node, 0], left, right, share[tree.left[node]], share[tree.right[node]], n)
                        else:
                            _choose(&own[node, 0], left, right, &to_left[node, 0], n)
                        if not below_split[s, node]:
                            for i in range(n):
                                effect[s, begin + i, first + c] += reaches[node, i] * (whole[node, i] - own[node, i])
            if n_versions > 0:
                for i in range(n):
                    node = 0
                    while tree.left[node] >= 0:
                        below = tree.left[node] if to_left[node, i] > 0 else tree.right[node]
                        g = group[tree.feature[node]]
                        if g >= 0:
                            for v in range(n_versions):
                                for c in range(width):
                                    steps[begin + i, g, v, first + c] += step[v, below, c]
                        node = below
            begin += n


cdef inline void _divide(double* left, double* right, const double* whole, const double* to_left, int64_t n) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        left[i] = to_left[i] * whole[i]
        right[i] = whole[i] - left[i]


cdef inline void _choose(double* to, const double* left, const double* right, const double* to_left, int64_t n) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        to[i] = to_left[i] * left[i] + (1 - to_left[i]) * right[i]


cdef inline void _average(
    double* to, const double* left, const double* right, double of_left, double of_right, int64_t n
) noexcept nogil:
    cdef int64_t i
    # From the larger share, so that it is exactly that value if the other share is 0, or if both values are one.
    if of_left > of_right:
        for i in range(n):
            to[i] = left[i] + of_right * (right[i] - left[i])
    else:
        for i in range(n):
            to[i] = right[i] + of_left * (left[i] - right[i])
