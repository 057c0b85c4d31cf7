"""The compiled loop of ablation: the output of trees without their splits on a feature.

At a split on the feature both children are followed, in fixed shares; at all other splits the row goes its own way.
"""

from cython cimport floating
from libc.stdint cimport int32_t, int64_t, uint8_t

import numpy as np

from debias.trees.kernels.walking cimport Walk, child


def child_shares(const int32_t[::1] left, const int32_t[::1] right, const double[::1] leaf_weight):
    """Return the share of each node in the weight of its parent, shape (n_nodes,); one half if that weight is 0."""
    cdef int64_t size = left.shape[0], node
    cdef double total
    cdef double[::1] weight = np.array(leaf_weight)  # inner entries are not read
    cdef double[::1] share = np.ones(size)
    with nogil:
        for node in range(size - 1, -1, -1):
            if left[node] >= 0:
                total = weight[left[node]] + weight[right[node]]
                weight[node] = total
                share[left[node]] = weight[left[node]] / total if total > 0 else 0.5
                share[right[node]] = weight[right[node]] / total if total > 0 else 0.5
    return np.asarray(share)


def add_effects(
    const floating[:, ::1] X,
    tuple nodes,
    const double[::1] share,
    const double[:, ::1] value,
    int64_t first,
    const int64_t[::1] group,
    double[:, ::1] raw,
    double[:, :, ::1] effect,
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
    cdef int64_t i, node, leaf, at, n_met, n_waiting, m, g, k, c
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


def add_steps(
    const int32_t[:, ::1] leaves,
    const int64_t[::1] start,
    const int32_t[::1] tree_output,
    const int32_t[::1] feature,
    const int32_t[::1] left,
    const int32_t[::1] right,
    const int32_t[::1] parent,
    const double[:, ::1] value,
    const double[::1] reached,
    const uint8_t[::1] member,
    const double[::1] weight,
    const double[:, ::1] residual,
    double[::1] term,
):
    """Add the term of each row at the splits on some columns: its step there times its centred residual.

    The step is the value of the child that the row goes to less the mean of both children; the residual is centred by
    the mean of the node. Both means are over the evaluation rows.

    Parameters
    ----------
    leaves : array of shape (n_trees, n_rows)
    start, tree_output, feature, left, right, parent, value
        The ensemble's arrays.
    reached : array of shape (n_nodes,)
        Evaluation weight of each node.
    member : array of shape (n_features,)
        1 for the columns whose splits count.
    weight : array of shape (n_rows,)
    residual : array of shape (n_rows, n_outputs)
    term : array of shape (n_rows,)
    """
    cdef int64_t most = np.max(np.diff(start), initial=0), width = value.shape[1], n_rows = leaves.shape[1]
    cdef double[:, ::1] total = np.empty((most, width)), mean = np.empty((most, width))
    cdef int64_t t, i, c, begin, size, node, above, first
    cdef bint any_split
    with nogil:
        for t in range(leaves.shape[0]):
            begin, size, first, any_split = start[t], start[t + 1] - start[t], tree_output[t], False
            for node in range(size):
                if left[begin + node] < 0 or not member[feature[begin + node]]:
                    continue
                any_split = True
                for c in range(width):
                    total[node, c] = mean[node, c] = 0.0
                    if reached[begin + node] > 0:
                        mean[node, c] = (
                            reached[begin + left[begin + node]] * value[begin + left[begin + node], c]
                            + reached[begin + right[begin + node]] * value[begin + right[begin + node], c]
                        ) / reached[begin + node]
            if not any_split:
                continue
            for i in range(n_rows):
                node = leaves[t, i]
                while node > 0:
                    above = parent[begin + node]
                    if member[feature[begin + above]]:
                        for c in range(width):
                            total[above, c] += weight[i] * residual[i, first + c]
                    node = above
            for i in range(n_rows):
                node = leaves[t, i]
                while node > 0:
                    above = parent[begin + node]
                    if member[feature[begin + above]] and reached[begin + above] > 0:
                        for c in range(width):
                            term[i] += (value[begin + node, c] - mean[above, c]) * (
                                residual[i, first + c] - total[above, c] / reached[begin + above]
                            )
                    node = above
