"""The compiled loop of permutation importance."""

from cython cimport floating
from libc.stdint cimport int64_t

import numpy as np

from debias.trees.kernels.walking cimport Walk, child


def add_permuted_outputs(
    const floating[:, ::1] X,
    const int64_t[::1] rows,
    const int64_t[:, ::1] donors,
    tuple nodes,
    const double[:, ::1] value,
    int64_t first,
    const int64_t[::1] group,
    double[:, :, ::1] raw,
):
    """Add the output of one tree for each row, with the columns of one group at a time taken from another row.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
    rows : array of shape (n,)
        Rows of X to evaluate.
    donors : array of shape (1, n) or (n_groups, n)
        The row of X from which each row takes its values: one for all groups, or one per group.
    nodes : tuple
        The tree, as :func:`debias.trees.routing.tree_nodes` returns it.
    value : array of shape (n_nodes, width)
    first : int
        First output of the tree.
    group : array of shape (n_features,)
        Number of the group of each column; -1 for columns that are not permuted.
    raw : array of shape (n, n_groups, n_outputs)
        The output is added to it.

    Notes
    -----
    If the path of a row has no split on a group, the row reaches the same leaf. So only the groups on its path are
    routed again, from the first node that splits on them.
    """
    cdef Walk tree = Walk(*nodes)
    cdef int64_t n_groups = raw.shape[1], width = value.shape[1]
    cdef int64_t[::1] last = np.full(n_groups, -1, dtype=np.int64)
    cdef int64_t[::1] met = np.empty(n_groups, dtype=np.int64), start = np.empty(n_groups, dtype=np.int64)
    cdef int64_t i, own, donor, node, at, n_met, m, g, k, c
    with nogil:
        for i in range(rows.shape[0]):
            own, node, n_met = rows[i], 0, 0
            while tree.left[node] >= 0:
                k = tree.feature[node]
                g = group[k]
                if g >= 0 and last[g] < i:
                    last[g], met[n_met], start[n_met] = i, g, node
                    n_met += 1
                node = child(tree, node, X[own, k])
            for g in range(n_groups):
                if last[g] < i:
                    for c in range(width):
                        raw[i, g, first + c] += value[node, c]
            for m in range(n_met):
                g, at = met[m], start[m]
                donor = donors[g if donors.shape[0] > 1 else 0, i]
                while tree.left[at] >= 0:
                    k = tree.feature[at]
                    at = child(tree, at, X[donor if group[k] == g else own, k])
                for c in range(width):
                    raw[i, g, first + c] += value[at, c]
