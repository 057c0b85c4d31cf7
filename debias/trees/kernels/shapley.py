"""Compiled loops for Shapley values. Importing this module imports numba, so the core imports it on first use.

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

import numpy as np
from numba import njit

from debias.trees.kernels.routing import goes_left


@njit(cache=True, nogil=True)
def edge_shares(left, right, parent, feature, leaf_weight):
    """Return `up` and the share z of every edge, and the largest number of distinct features on a path."""
    size = left.size
    below = leaf_weight.copy()  # inner entries are not read
    for node in range(size - 1, -1, -1):
        if left[node] >= 0:
            below[node] = below[left[node]] + below[right[node]]
    up = np.zeros(size, dtype=np.int32)
    share = np.ones(size)
    distinct = np.zeros(size, dtype=np.int32)
    for node in range(1, size):
        above = parent[node]
        edge = above
        while edge > 0 and feature[parent[edge]] != feature[above]:
            edge = parent[edge]
        up[node] = edge
        # Nodes that no training row reached get one half, as in the means of leaves.
        share[node] = share[edge] * (below[node] / below[above] if below[above] > 0 else 0.5)
        distinct[node] = distinct[above] + (1 if edge == 0 else 0)
    return up, share, distinct.max()


@njit(cache=True, nogil=True)
def edge_tables(up, share, t, weight):
    """Return, for each edge and quadrature node, the factor of the product and the weight of the sum over its leaves.

    ratio, gain : arrays of shape (n_nodes, 2, n_quadrature)
        Factor and weight for rows that take the edges of the same feature above; entry [0] for rows that do not take
        this edge, entry [1] for rows that take it.
    stay : array of shape (n_nodes,)
        The factor for rows that left the path at an earlier split on this feature; their weight is 0.
    """
    size, n = up.size, t.size
    ratio, gain = np.ones((size, 2, n)), np.zeros((size, 2, n))
    stay = np.ones(size)
    for node in range(1, size):
        z, z_up = share[node], share[up[node]]
        stay[node] = z / z_up if z_up > 0 else 0.0
        for q in range(n):
            before = z_up * (1 - t[q]) + t[q]
            after = z * (1 - t[q]) + t[q]
            earlier = weight[q] * (1 - z_up) / before
            ratio[node, 0, q] = z * (1 - t[q]) / before
            ratio[node, 1, q] = after / before
            gain[node, 0, q] = -weight[q] / (1 - t[q]) - earlier
            gain[node, 1, q] = weight[q] * (1 - z) / after - earlier
    return ratio, gain, stay


@njit(cache=True, nogil=True)
def explain(X, rows, nodes, edges, value, first, outputs, phi):
    """Add one tree's Shapley values of each of `rows` to `phi` (n_rows, n_outputs, n_features).

    `nodes` is the result of ``routing.tree_nodes``; `edges` is `up` and the result of ``edge_tables``. `outputs` are
    the columns of `value` (n_nodes, width) to explain; column c is added to output `first` + c.
    """
    size, n = value.shape[0], edges[1].shape[2]
    on, product, total = np.empty(size, dtype=np.bool_), np.empty((size, n)), np.empty((size, n))
    leaf_value = np.empty(size)
    for i in rows:
        _descend(X, i, nodes, edges, on, product)
        for c in outputs:
            leaf_value[:] = value[:, c]
            _ascend(nodes, edges, on, product, total, leaf_value, phi[i, first + c])


@njit(cache=True, nogil=True)
def explain_product(X, rows, nodes, edges, value, factor, phi):
    """Add the sum over `rows` of their Shapley values times `factor` (n_rows, width) to `phi` (n_features,)."""
    size, n = value.shape[0], edges[1].shape[2]
    on, product, total = np.empty(size, dtype=np.bool_), np.empty((size, n)), np.empty((size, n))
    leaf_value = np.empty(size)
    for i in rows:
        _descend(X, i, nodes, edges, on, product)
        for node in range(size):
            dot = 0.0
            for c in range(value.shape[1]):
                dot += value[node, c] * factor[i, c]
            leaf_value[node] = dot
        _ascend(nodes, edges, on, product, total, leaf_value, phi)


@njit(cache=True, nogil=True)
def _descend(X, i, nodes, edges, on, product):
    """Mark the edges that a row takes at all splits on their feature so far, and run the products down the tree."""
    parent, feature, left, _, threshold, plain, missing_left, zero_is_missing, category_set, sets = nodes
    up, ratio, _, stay = edges
    n = ratio.shape[2]
    on[0] = True
    product[0, :] = 1.0
    for node in range(1, on.size):
        above = parent[node]
        if on[up[node]]:
            x = X[i, feature[above]]
            if plain[above] and not np.isnan(x):
                on_left = x <= threshold[above]
            else:
                split = threshold[above], missing_left[above], zero_is_missing[above], category_set[above]
                on_left = goes_left(x, *split, sets)
            taken = on_left == (left[above] == node)
            on[node] = taken
            row = ratio[node, 1 if taken else 0]
            for q in range(n):
                product[node, q] = product[above, q] * row[q]
        else:
            on[node] = False
            for q in range(n):
                product[node, q] = product[above, q] * stay[node]


@njit(cache=True, nogil=True)
def _ascend(nodes, edges, on, product, total, leaf_value, phi):
    """Sum leaves up the tree, and add the weighted sum of each edge to its feature."""
    parent, feature, left, right = nodes[:4]
    up, _, gain, _ = edges
    n = product.shape[1]
    for node in range(on.size - 1, 0, -1):
        if left[node] < 0:
            for q in range(n):
                total[node, q] = leaf_value[node] * product[node, q]
        else:
            a, b = left[node], right[node]
            for q in range(n):
                total[node, q] = total[a, q] + total[b, q]
        if on[up[node]]:
            row = gain[node, 1 if on[node] else 0]
            dot = 0.0
            for q in range(n):
                dot += row[q] * total[node, q]
            phi[feature[parent[node]]] += dot
