"""Compiled loops over the paths of rows: the output of trees without their splits on a feature, and their steps there.

At a split on the feature both children are followed, in fixed shares; at all other splits the row goes its own way.
"""

from cython cimport floating
from libc.stdint cimport int32_t, int64_t

import numpy as np

from debias.trees.kernels.walking cimport Walk, child


def add_effects(
    const floating[:, ::1] X,
    tuple nodes,
    const double[::1] share,
    const double[:, ::1] value,
    int64_t first,
    const int64_t[::1] group,
    double[:, ::1] raw,
    double[:, :, ::1] effect,
    const double[:, :, ::1] step,
    double[:, :, :, ::1] steps,
):
    """Add the output of one tree for each row, and its difference from the output without the splits on each group.

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
    raw : array of shape (n_rows, n_outputs)
        The output is added to it.
    effect : array of shape (n_rows, n_groups, n_outputs)
        The difference is added to it.
    step : array of shape (n_versions, n_nodes, width)
        What the step from its parent to each node adds to the sums of a row; there may be no version.
    steps : array of shape (n_versions, n_rows, n_groups, n_outputs)
        The sums of the steps at the splits on each group, on the path of each row, are added to it.

    Notes
    -----
    If the path of a row has no split on a group, the difference is 0. So only the groups on its path are followed, from
    the first node that splits on them. A stack holds the nodes that are still to be followed, with the product of the
    shares that led to them.
    """
    cdef Walk tree = Walk(*nodes)
    cdef int64_t size = value.shape[0], width = value.shape[1], n_groups = effect.shape[1]
    cdef int64_t[::1] last = np.full(n_groups, -1, dtype=np.int64)
    cdef int64_t[::1] met = np.empty(n_groups, dtype=np.int64), start = np.empty(n_groups, dtype=np.int64)
    cdef int64_t[::1] waiting = np.empty(size, dtype=np.int64)
    cdef double[::1] waiting_share = np.empty(size)
    cdef int64_t i, node, leaf, at, n_met, n_waiting, m, g, k, c, v, n_versions = step.shape[0]
    cdef double reached
    with nogil:
        for i in range(X.shape[0]):
            leaf, n_met = 0, 0
            while tree.left[leaf] >= 0:
                k = tree.feature[leaf]
                g = group[k]
                if g >= 0 and last[g] < i:
                    last[g], met[n_met], start[n_met] = i, g, leaf
                    n_met += 1
                leaf = child(tree, leaf, X[i, k])
                if g >= 0:
                    for v in range(n_versions):
                        for c in range(width):
                            steps[v, i, g, first + c] += step[v, leaf, c]
            for c in range(width):
                raw[i, first + c] += value[leaf, c]
            for m in range(n_met):
                g = met[m]
                waiting[0], waiting_share[0] = start[m], 1.0
                n_waiting = 1
                while n_waiting > 0:
                    n_waiting -= 1
                    at, reached = waiting[n_waiting], waiting_share[n_waiting]
                    while tree.left[at] >= 0:
                        k = tree.feature[at]
                        if group[k] != g:
                            at = child(tree, at, X[i, k])
                            continue
                        node = tree.right[at]
                        if share[node] > 0:
                            waiting[n_waiting], waiting_share[n_waiting] = node, reached * share[node]
                            n_waiting += 1
                        at = tree.left[at]
                        reached *= share[at]
                    for c in range(width):
                        effect[i, g, first + c] += reached * (value[leaf, c] - value[at, c])
