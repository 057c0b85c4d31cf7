"""Compiled loops for Shapley values.

The Shapley value of feature f for one leaf with value v is

    v (o_f - z_f) * integral over t from 0 to 1 of product over g != f of (z_g (1 - t) + o_g t)

where g runs over the distinct features on the path to the leaf, z_g is the share of training weight that follows the
path at all splits on g, and o_g is 1 if the row follows it at all of them, else 0 (Owen's multilinear extension of the
path-dependent game of Lundberg, Erion and Lee, arXiv 1802.03888). The integrand is a polynomial, so Gauss-Legendre
quadrature with half as many nodes as features is exact. All factors lie between 0 and 1, and nothing that was added is
subtracted again. Products run down the tree and sums over leaves run up, so the number of steps is linear in tree nodes
times quadrature nodes.

An edge is named by the node it leads to. `up` of an edge is the nearest edge above it that belongs to a split on the
same feature. If there is none, `up` is the root, which has share 1 and is taken by every row.
"""

cimport cython
from cython cimport floating
from libc.math cimport isnan
from libc.stdint cimport int32_t, int64_t, uint8_t

import numpy as np

from debias.trees.kernels.routing cimport goes_left


def edge_shares(
    const int32_t[::1] left,
    const int32_t[::1] right,
    const int32_t[::1] parent,
    const int32_t[::1] feature,
    const double[::1] leaf_weight,
):
    """Return `up` and the share z of every edge, and the largest number of distinct features on a path."""
    cdef int64_t size = left.shape[0], node, above, edge
    cdef double[::1] below = np.array(leaf_weight)  # inner entries are not read
    cdef int32_t[::1] up = np.zeros(size, dtype=np.int32), distinct = np.zeros(size, dtype=np.int32)
    cdef double[::1] share = np.ones(size)
    cdef int32_t most = 0
    with nogil:
        for node in range(size - 1, -1, -1):
            if left[node] >= 0:
                below[node] = below[left[node]] + below[right[node]]
        for node in range(1, size):
            above = parent[node]
            edge = above
            while edge > 0 and feature[parent[edge]] != feature[above]:
                edge = parent[edge]
            up[node] = edge
            # Nodes that no training row reached get one half, as in the means of leaves.
            share[node] = share[edge] * (below[node] / below[above] if below[above] > 0 else 0.5)
            distinct[node] = distinct[above] + (1 if edge == 0 else 0)
            most = max(most, distinct[node])
    return np.asarray(up), np.asarray(share), most


def edge_tables(const int32_t[::1] up, const double[::1] share, const double[::1] t, const double[::1] weight):
    """Return, for each edge and quadrature node, the factor of the product and the weight of the sum over its leaves.

    ratio, gain : arrays of shape (n_nodes, 2, n_quadrature)
        Factor and weight for rows that take the edges of the same feature above; entry [0] for rows that do not take
        this edge, entry [1] for rows that take it.
    stay : array of shape (n_nodes,)
        The factor for rows that left the path at an earlier split on this feature; their weight is 0.
    """
    cdef int64_t size = up.shape[0], n = t.shape[0], node, q
    cdef double[:, :, ::1] ratio = np.ones((size, 2, n)), gain = np.zeros((size, 2, n))
    cdef double[::1] stay = np.ones(size)
    cdef double z, z_up, before, after, earlier
    with nogil:
        for node in range(1, size):
            z, z_up = share[node], share[up[node]]
            stay[node] = z / z_up if z_up > 0 else 0.0
            # Divided by the factor of the edge above on the same feature, which the product already contains.
            for q in range(n):
                before = z_up * (1 - t[q]) + t[q]
                after = z * (1 - t[q]) + t[q]
                earlier = weight[q] * (1 - z_up) / before
                ratio[node, 0, q] = z * (1 - t[q]) / before
                ratio[node, 1, q] = after / before
                gain[node, 0, q] = -weight[q] / (1 - t[q]) - earlier
                gain[node, 1, q] = weight[q] * (1 - z) / after - earlier
    return np.asarray(ratio), np.asarray(gain), np.asarray(stay)


def explain(
    const floating[:, ::1] X,
    const int64_t[::1] rows,
    tuple nodes,
    tuple edges,
    const double[:, ::1] value,
    int64_t first,
    const int64_t[::1] outputs,
    double[:, :, ::1] phi,
):
    """Add one tree's Shapley values of each of `rows` to `phi` (n_rows, n_outputs, n_features).

    `nodes` is the result of ``routing.tree_nodes``; `edges` is `up` and the result of ``edge_tables``. `outputs` are
    the columns of `value` (n_nodes, width) to explain; column c is added to output `first` + c.
    """
    cdef Tree tree = Tree(nodes, edges)
    cdef int64_t j, i, c, node
    with nogil:
        for j in range(rows.shape[0]):
            i = rows[j]
            descend(&X[i, 0], tree)
            for c in range(outputs.shape[0]):
                for node in range(value.shape[0]):
                    tree.leaf_value[node] = value[node, outputs[c]]
                ascend(tree, &phi[i, first + outputs[c], 0])


def explain_product(
    const floating[:, ::1] X,
    const int64_t[::1] rows,
    tuple nodes,
    tuple edges,
    const double[:, ::1] value,
    const double[:, :] factor,
    double[::1] phi,
):
    """Add the sum over `rows` of their Shapley values times `factor` (n_rows, width) to `phi` (n_features,)."""
    cdef Tree tree = Tree(nodes, edges)
    cdef int64_t j, i, c, node
    cdef double dot
    with nogil:
        for j in range(rows.shape[0]):
            i = rows[j]
            descend(&X[i, 0], tree)
            for node in range(value.shape[0]):
                dot = 0.0
                for c in range(value.shape[1]):
                    dot += value[node, c] * factor[i, c]
                tree.leaf_value[node] = dot
            ascend(tree, &phi[0])


@cython.final
cdef class Tree:
    """One tree, its edges, and memory for what depends on the row."""

    cdef const int32_t[::1] parent, feature, left, right, category_set, set_codes, up
    cdef const int64_t[::1] set_start
    cdef const double[::1] threshold, stay
    cdef const uint8_t[::1] plain, missing_left, zero_is_missing, listed_left
    cdef const double[:, :, ::1] ratio, gain
    cdef uint8_t[::1] on
    cdef double[:, ::1] product, total
    cdef double[::1] leaf_value

    def __init__(self, tuple nodes, tuple edges):
        self.parent, self.feature, self.left, self.right, self.threshold, self.plain = nodes[:6]
        self.missing_left, self.zero_is_missing, self.category_set = nodes[6:9]
        self.set_start, self.set_codes, self.listed_left = nodes[9]
        self.up, self.ratio, self.gain, self.stay = edges
        size, n = self.up.shape[0], self.ratio.shape[2]
        self.on, self.leaf_value = np.empty(size, dtype=np.uint8), np.empty(size)
        self.product, self.total = np.empty((2, size, n))


cdef void descend(const floating* x, Tree tree) noexcept nogil:
    """Mark the edges that a row takes at all splits on their feature so far, and run the products down the tree."""
    cdef int64_t n = tree.product.shape[1], node, above, q
    cdef double value, stay
    cdef bint on_left
    cdef const double* ratio
    cdef const double* before
    cdef double* product
    tree.on[0] = True
    tree.product[0, :] = 1.0
    for node in range(1, tree.on.shape[0]):
        above = tree.parent[node]
        before, product = &tree.product[above, 0], &tree.product[node, 0]
        if tree.on[tree.up[node]]:
            value = x[tree.feature[above]]
            if tree.plain[above] and not isnan(value):
                on_left = value <= tree.threshold[above]
            else:
                on_left = goes_left(
                    value,
                    tree.threshold[above],
                    tree.missing_left[above],
                    tree.zero_is_missing[above],
                    tree.category_set[above],
                    tree.set_start,
                    tree.set_codes,
                    tree.listed_left,
                )
            tree.on[node] = on_left == (tree.left[above] == node)
            ratio = &tree.ratio[node, tree.on[node], 0]
            for q in range(n):
                product[q] = before[q] * ratio[q]
        else:
            tree.on[node] = False
            stay = tree.stay[node]
            for q in range(n):
                product[q] = before[q] * stay


cdef void ascend(Tree tree, double* phi) noexcept nogil:
    """Sum leaves up the tree, and add the weighted sum of each edge to its feature."""
    cdef int64_t n = tree.product.shape[1], node, q
    cdef double leaf_value, dot
    cdef const double* product
    cdef const double* a
    cdef const double* b
    cdef const double* gain
    cdef double* total
    for node in range(tree.on.shape[0] - 1, 0, -1):
        total = &tree.total[node, 0]
        if tree.left[node] < 0:
            product, leaf_value = &tree.product[node, 0], tree.leaf_value[node]
            for q in range(n):
                total[q] = leaf_value * product[q]
        else:
            a, b = &tree.total[tree.left[node], 0], &tree.total[tree.right[node], 0]
            for q in range(n):
                total[q] = a[q] + b[q]
        if tree.on[tree.up[node]]:
            gain = &tree.gain[node, tree.on[node], 0]
            dot = 0.0
            for q in range(n):
                dot += gain[q] * total[q]
            phi[tree.feature[tree.parent[node]]] += dot
