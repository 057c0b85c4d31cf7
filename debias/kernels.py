"""Compiled loops over flat trees. Importing this module imports numba, so the core does it on first use.

Node indices of one tree are local to it (the root is 0); `start[t]` is where tree t begins in the flat arrays.
Parents precede children in every ensemble (TreeEnsemble checks it), so one reverse loop is a bottom-up pass.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def count_parents(start, left, right):
    """Return how many parents each node has (-1: a child out of range or before its parent), and the parent."""
    n_parents = np.zeros(left.size, dtype=np.int32)
    parent = np.full(left.size, -1, dtype=np.int32)
    for tree in range(start.size - 1):
        begin, end = start[tree], start[tree + 1]
        for node in range(begin, end):
            if left[node] < 0 and right[node] < 0:
                continue
            for child in (left[node], right[node]):
                if child <= node - begin or child >= end - begin:
                    n_parents[node] = -1
                else:
                    if n_parents[begin + child] >= 0:
                        n_parents[begin + child] += 1
                    parent[begin + child] = node - begin
    return n_parents, parent


@njit(cache=True, nogil=True)
def average_leaves(start, left, right, value, weight):
    """Overwrite `value` of every inner node with the weighted mean of the leaves below it."""
    n_outputs = value.shape[1]
    below = weight.copy()
    for tree in range(start.size - 1):
        begin = start[tree]
        for node in range(start[tree + 1] - 1, begin - 1, -1):
            if left[node] < 0:
                continue
            a, b = begin + left[node], begin + right[node]
            below[node] = below[a] + below[b]
            # Leaves no training row reaches have weight 0; a plain mean of two such keeps the value finite.
            share = below[a] / below[node] if below[node] > 0 else 0.5
            for k in range(n_outputs):
                value[node, k] = share * value[a, k] + (1 - share) * value[b, k]


@njit(cache=True, nogil=True)
def route(X, trees, start, feature, threshold, left, right, missing_left, zero_is_missing, skip, leaves):
    """Write the leaf of each row in each of `trees` to `leaves` (n_rows, len(trees)); -1 where `skip` is set.

    `skip` has shape (len(trees), n_rows), or (0, 0) to route every row.
    """
    for j in range(trees.size):
        begin = start[trees[j]]
        for i in range(X.shape[0]):
            if skip.size and skip[j, i]:
                leaves[i, j] = -1
                continue
            node = 0
            while left[begin + node] >= 0:
                at = begin + node
                x = X[i, feature[at]]
                if np.isnan(x) or (zero_is_missing[at] and abs(x) <= 1e-35):
                    go_left = missing_left[at]
                else:
                    go_left = x <= threshold[at]
                node = left[at] if go_left else right[at]
            leaves[i, j] = node


@njit(cache=True, nogil=True)
def add_codes(leaves, trees, start, codes, weight, n, s):
    """Add rows of a one-hot response to the sums at their leaves. `codes` (n_rows,) are the classes."""
    for j in range(trees.size):
        begin = start[trees[j]]
        for i in range(leaves.shape[0]):
            if leaves[i, j] >= 0:
                node = begin + leaves[i, j]
                n[node] += weight[i]
                s[node, codes[i]] += weight[i]


@njit(cache=True, nogil=True)
def add_values(leaves, trees, start, tree_output, values, weight, n, s, q):
    """Add rows of a numeric response (n_rows, n_outputs) to the sums at their leaves."""
    width = s.shape[1]
    for j in range(trees.size):
        begin = start[trees[j]]
        first = tree_output[trees[j]]
        for i in range(leaves.shape[0]):
            if leaves[i, j] < 0:
                continue
            node = begin + leaves[i, j]
            n[node] += weight[i]
            for k in range(width):
                y = values[i, first + k]
                s[node, k] += weight[i] * y
                q[node] += weight[i] * y * y


@njit(cache=True, nogil=True)
def sum_up(start, left, right, n, s, q):
    """Turn sums at leaves into sums at every node. `q` may be empty."""
    for tree in range(start.size - 1):
        begin = start[tree]
        for node in range(start[tree + 1] - 1, begin - 1, -1):
            if left[node] < 0:
                continue
            a, b = begin + left[node], begin + right[node]
            n[node] = n[a] + n[b]
            if q.size:
                q[node] = q[a] + q[b]
            for k in range(s.shape[1]):
                s[node, k] = s[a, k] + s[b, k]


@njit(cache=True, nogil=True)
def sum_leaf_values(leaves, start, tree_output, value, raw):
    """Add the value of each row's leaf to its outputs, tree by tree."""
    for j in range(leaves.shape[1]):
        for i in range(leaves.shape[0]):
            for k in range(value.shape[1]):
                raw[i, tree_output[j] + k] += value[start[j] + leaves[i, j], k]


@njit(cache=True, nogil=True)
def add_running_loss(leaves, start, tree_output, feature, parent, value, objective, codes, values, weight, margin, drop):
    """Walk every row through all trees, its margin growing tree by tree; add the loss each step saves.

    `drop` (n_features + 1,) gains the weighted decrease of the loss at each split, under the split's feature, and
    in its last place the decrease of the root steps. `margin` (n_rows, n_outputs) ends at F_M.
    """
    base = drop.size - 1
    for i in range(leaves.shape[0]):
        for j in range(leaves.shape[1]):
            begin, k = start[j], tree_output[j]
            running = margin[i, k]
            node = leaves[i, j]
            below = _loss(objective, codes, values, margin, i, k, running + value[begin + node, 0])
            margin[i, k] = running + value[begin + node, 0]
            while node > 0:
                node = parent[begin + node]
                here = _loss(objective, codes, values, margin, i, k, running + value[begin + node, 0])
                drop[feature[begin + node]] += weight[i] * (here - below)
                below = here
            drop[base] += weight[i] * (_loss(objective, codes, values, margin, i, k, running) - below)


@njit(cache=True, nogil=True)
def _loss(objective, codes, values, margin, i, k, f):
    """Return the loss of row i where output k has margin f and the others stand in `margin`."""
    if objective == 0:  # squared error
        return (values[i, k] - f) ** 2
    if objective == 1:  # log-loss of a probability, stable for large |f|
        return max(f, 0.0) - values[i, k] * f + np.log1p(np.exp(-abs(f)))
    top = f
    for c in range(margin.shape[1]):
        if c != k:
            top = max(top, margin[i, c])
    total = 0.0
    for c in range(margin.shape[1]):
        total += np.exp((f if c == k else margin[i, c]) - top)
    observed = f if codes[i] == k else margin[i, codes[i]]
    return top + np.log(total) - observed
