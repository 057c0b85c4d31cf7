"""Compiled loops for what each leaf of a tree adds to the Shapley values of rows, for a leaf value of 1.

For feature f on the path to a leaf this is

    (o_f - z_f) * integral over t from 0 to 1 of product over g != f of (z_g (1 - t) + o_g t)

with the notation of :mod:`debias.trees.kernels.shapley`. Shapley values are linear in the values of the leaves, so they
follow for any values.
"""

from cython cimport floating
from libc.stdint cimport int32_t, int64_t, uint8_t

import numpy as np

from debias.trees.kernels.routing cimport answers


def on_left(
    const floating[:, ::1] X,
    const int64_t[::1] rows,
    tuple nodes,
    const double[::1] threshold,
    uint8_t[:, ::1] left_of,
):
    """Write for each split of a tree whether each of some rows goes left there, whether it gets there or not.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
    rows : array of shape (n,)
    nodes : tuple
        The result of ``routing.tree_nodes``.
    threshold : array of shape (n_nodes,)
    left_of : array of shape (n_nodes, n)
        Is written at the splits.
    """
    cdef const int32_t[::1] feature = nodes[1], left = nodes[2], which = nodes[8], codes = nodes[9][1]
    cdef const uint8_t[::1] plain = nodes[5].view(np.uint8), missing_left = nodes[6].view(np.uint8)
    cdef const uint8_t[::1] zero = nodes[7].view(np.uint8), listed_left = nodes[9][2].view(np.uint8)
    cdef const int64_t[::1] start = nodes[9][0]
    cdef int64_t n = rows.shape[0], node, r
    cdef floating[::1] x = np.empty(n, dtype=np.asarray(X).dtype)
    with nogil:
        for node in range(left.shape[0]):
            if left[node] < 0 or n == 0:
                continue
            for r in range(n):
                x[r] = X[rows[r], feature[node]]
            answers(
                &x[0],
                n,
                <floating>threshold[node],
                plain[node],
                missing_left[node],
                zero[node],
                which[node],
                start,
                codes,
                listed_left,
                &left_of[node, 0],
            )


def of_leaf(
    int64_t leaf,
    tuple nodes,
    const double[::1] share,
    const uint8_t[:, ::1] left_of,
    const double[::1] t,
    const double[::1] weight,
    int32_t[::1] features,
    double[:, ::1] found,
):
    """Write the features on the path to a leaf, and what the leaf adds to their values; return their number.

    Parameters
    ----------
    leaf : int
    nodes : tuple
        The result of ``routing.tree_nodes``.
    share : array of shape (n_nodes,)
        As from ``shapley.edge_shares``.
    left_of : array of shape (n_nodes, n)
        As from `on_left`.
    t, weight : arrays
        A quadrature that is exact for as many features as are on the path.
    features : array with room for the features on the path
    found : array of shape (room, n)
    """
    cdef const int32_t[::1] parent = nodes[0], feature = nodes[1], left = nodes[2]
    cdef int64_t n = left_of.shape[1], n_places = 0, room = features.shape[0], edge = leaf, above, place, r, q, f
    cdef double[::1] z = np.empty(room), factor = np.empty(room), before = np.empty(room + 1)
    cdef uint8_t[:, ::1] on = np.empty((room, n), dtype=np.uint8)
    cdef uint8_t side
    cdef double after
    with nogil:
        while edge > 0:
            above = parent[edge]
            side = left[above] == edge
            place = 0
            while place < n_places and features[place] != feature[above]:
                place += 1
            if place == n_places:  # the deepest edge of the feature, whose share is that of all its splits on the path
                features[place], z[place] = feature[above], share[edge]
                n_places += 1
                for r in range(n):
                    on[place, r] = left_of[above, r] == side
            else:
                for r in range(n):
                    on[place, r] &= left_of[above, r] == side
            edge = above
        for r in range(n):
            for f in range(n_places):
                found[f, r] = 0.0
            for q in range(t.shape[0]):
                before[0] = weight[q]
                for f in range(n_places):
                    factor[f] = z[f] * (1 - t[q]) + on[f, r] * t[q]
                    before[f + 1] = before[f] * factor[f]
                after = 1.0
                for f in range(n_places - 1, -1, -1):
                    found[f, r] += before[f] * after * (on[f, r] - z[f])
                    after *= factor[f]
    return n_places
