"""Compiled loops over the nodes of trees. Importing this module imports numba, so the core imports it on first use.

Node indices are local to their tree (the root is 0), and tree t begins at `start[t]` in the flat arrays. Parents
precede children in every ensemble (TreeEnsemble checks it), so one reverse loop is a bottom-up pass.
"""

import numpy as np
from numba import njit, uint64


@njit(cache=True, nogil=True)
def check_trees(start, left, right, feature, threshold, value, weight, n_features):
    """Return the first faulty node (-1: none), and the number of its fault in ``debias.trees.ensemble.FAULTS``."""
    most = 0
    for tree in range(start.size - 1):
        most = max(most, start[tree + 1] - start[tree])
    has_parent = np.empty(most, dtype=np.bool_)
    for tree in range(start.size - 1):
        begin, size = start[tree], start[tree + 1] - start[tree]
        has_parent[:size] = False
        for node in range(size):
            at = begin + node
            if node > 0 and not has_parent[node]:
                return at, 2
            a, b = left[at], right[at]
            if (a < 0) != (b < 0):
                return at, 0
            if (a < 0) != (feature[at] < 0):
                return at, 3
            if a < 0:
                if not (np.isfinite(weight[at]) and weight[at] >= 0):
                    return at, 7
                for k in range(value.shape[1]):
                    if not np.isfinite(value[at, k]):
                        return at, 6
                continue
            if feature[at] >= n_features:
                return at, 4
            if np.isnan(threshold[at]):
                return at, 5
            for child in (a, b):
                if child <= node or child >= size:
                    return at, 1
                if has_parent[child]:
                    return begin + child, 2
                has_parent[child] = True
    return -1, 0


@njit(cache=True, nogil=True)
def list_parents(start, left, right, parent):
    """Write the parent of every node but the roots."""
    for tree in range(start.size - 1):
        begin = start[tree]
        for node in range(start[tree + 1] - begin):
            if left[begin + node] >= 0:
                parent[begin + left[begin + node]] = parent[begin + right[begin + node]] = node


@njit(cache=True, nogil=True)
def average_leaves(start, left, right, value, weight):
    """Overwrite `value` of every inner node with the weighted mean of the leaves below it."""
    n_outputs = value.shape[1]
    most = 0
    for tree in range(start.size - 1):
        most = max(most, start[tree + 1] - start[tree])
    below = np.empty(most)
    for tree in range(start.size - 1):
        begin = start[tree]
        for node in range(start[tree + 1] - 1, begin - 1, -1):
            if left[node] < 0:
                below[node - begin] = weight[node]
                continue
            a, b = begin + left[node], begin + right[node]
            total = below[a - begin] + below[b - begin]
            below[node - begin] = total
            # Leaves that no training row reaches have weight 0; the plain mean of two such leaves is finite.
            share = below[a - begin] / total if total > 0 else 0.5
            for k in range(n_outputs):
                value[node, k] = share * value[a, k] + (1 - share) * value[b, k]


@njit(cache=True, nogil=True)
def list_splits(start, first, left, right, splits, children, tree_of_split):
    """List the inner nodes of trees from `first` on, the two children of each, and the tree it belongs to."""
    j = uint64(0)
    for tree in range(start.size - 1):
        for node in range(uint64(start[tree]), uint64(start[tree + 1])):
            if left[node] >= 0:
                splits[j], tree_of_split[j] = node, first + tree
                children[j, 0], children[j, 1] = start[tree] + left[node], start[tree] + right[node]
                j += uint64(1)


@njit(cache=True, nogil=True)
def round_down(values, rounded):
    """Write numbers in the precision of `rounded`, rounded down."""
    for i in range(values.size):
        rounded[i] = values[i]
        if rounded[i] > values[i]:
            rounded[i] = np.nextafter(rounded[i], rounded.dtype.type(-np.inf))


@njit(cache=True, nogil=True)
def sum_leaf_values(leaves, start, tree_output, value, raw):
    """Add the value of each row's leaf to its outputs, tree by tree."""
    for j in range(leaves.shape[1]):
        for i in range(leaves.shape[0]):
            for k in range(value.shape[1]):
                raw[i, tree_output[j] + k] += value[start[j] + leaves[i, j], k]


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
