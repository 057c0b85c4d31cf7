"""Compiled loops over the nodes of trees.

Node indices are local to their tree (the root is 0), and tree t begins at `start[t]` in the flat arrays. Parents
precede children in every ensemble (TreeEnsemble checks it), so one reverse loop is a bottom-up pass.
"""

from cython cimport floating
from libc.math cimport isfinite, isnan
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

import numpy as np

ctypedef fused index_t:
    int32_t
    int64_t


def check_trees(
    const int64_t[::1] start,
    const int32_t[::1] left,
    const int32_t[::1] right,
    const int32_t[::1] feature,
    const double[::1] threshold,
    const double[:, ::1] value,
    const double[::1] weight,
    int64_t n_features,
):
    """Return the first faulty node (-1: none), and the number of its fault in ``debias.trees.ensemble.FAULTS``."""
    cdef uint8_t[::1] has_parent = np.empty(largest_tree(start), dtype=np.uint8)
    cdef int64_t tree, node = -1
    cdef int fault = 0
    with nogil:
        for tree in range(start.shape[0] - 1):
            fault = check_tree(
                start[tree],
                start[tree + 1],
                left,
                right,
                feature,
                threshold,
                value,
                weight,
                n_features,
                has_parent,
                &node,
            )
            if node >= 0:
                break
    return node, fault


cdef int check_tree(
    int64_t begin,
    int64_t end,
    const int32_t[::1] left,
    const int32_t[::1] right,
    const int32_t[::1] feature,
    const double[::1] threshold,
    const double[:, ::1] value,
    const double[::1] weight,
    int64_t n_features,
    uint8_t[::1] has_parent,
    int64_t* faulty,
) noexcept nogil:
    """Return the number of the first fault of a tree, and write its node to `faulty`, which stays as it is if none."""
    cdef int64_t size = end - begin, node, at, k, child
    cdef int64_t[2] children
    has_parent[:size] = False
    for node in range(size):
        at = begin + node
        faulty[0] = at
        if node > 0 and not has_parent[node]:
            return 2
        children[0], children[1] = left[at], right[at]
        if (left[at] < 0) != (right[at] < 0):
            return 0
        if (left[at] < 0) != (feature[at] < 0):
            return 3
        if left[at] < 0:
            if not (isfinite(weight[at]) and weight[at] >= 0):
                return 7
            for k in range(value.shape[1]):
                if not isfinite(value[at, k]):
                    return 6
            continue
        if feature[at] >= n_features:
            return 4
        if isnan(threshold[at]):
            return 5
        for child in children:
            if child <= node or child >= size:
                return 1
            # A node with two parents would be counted twice, and its rows could not be summed from below.
            if has_parent[child]:
                faulty[0] = begin + child
                return 2
            has_parent[child] = True
    faulty[0] = -1
    return 0


def list_parents(const int64_t[::1] start, const int32_t[::1] left, const int32_t[::1] right, int32_t[::1] parent):
    """Write the parent of every node but the roots."""
    cdef int64_t tree, begin, node
    with nogil:
        for tree in range(start.shape[0] - 1):
            begin = start[tree]
            for node in range(start[tree + 1] - begin):
                if left[begin + node] >= 0:
                    parent[begin + left[begin + node]] = parent[begin + right[begin + node]] = node


def average_leaves(
    const int64_t[::1] start,
    const int32_t[::1] left,
    const int32_t[::1] right,
    double[:, ::1] value,
    const double[::1] weight,
):
    """Overwrite `value` of every inner node with the weighted mean of the leaves below it."""
    cdef double[::1] below = np.empty(largest_tree(start))
    cdef int64_t tree, begin, node, a, b, k
    cdef double total, share
    with nogil:
        for tree in range(start.shape[0] - 1):
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
                for k in range(value.shape[1]):
                    value[node, k] = share * value[a, k] + (1 - share) * value[b, k]


def list_splits(
    const int64_t[::1] start,
    int64_t first,
    const int32_t[::1] left,
    const int32_t[::1] right,
    index_t[::1] splits,
    index_t[:, ::1] children,
    index_t[::1] tree_of_split,
):
    """List the inner nodes of trees from `first` on, the two children of each, and the tree it belongs to."""
    cdef int64_t tree, node, j = 0
    with nogil:
        for tree in range(start.shape[0] - 1):
            for node in range(start[tree], start[tree + 1]):
                if left[node] >= 0:
                    splits[j] = node
                    tree_of_split[j] = first + tree
                    children[j, 0] = start[tree] + left[node]
                    children[j, 1] = start[tree] + right[node]
                    j += 1


def round_down(const double[::1] values, floating[::1] rounded):
    """Write numbers in the precision of `rounded`, rounded down."""
    cdef int64_t i
    with nogil:
        for i in range(values.shape[0]):
            # For x in float32, x <= t and x <= (t rounded down) are the same; rounded up, a row would change sides.
            rounded[i] = _below(values[i]) if floating is float else values[i]


cdef inline float _below(double value) noexcept nogil:
    """Return the largest float that is not above a number, without a branch: every other one is rounded up."""
    cdef float rounded = <float> value
    cdef int32_t bits
    memcpy(&bits, &rounded, sizeof(bits))
    bits += (rounded > value) * (-1 - 2 * (bits >> 31))  # one less in size if positive, one more if negative
    memcpy(&rounded, &bits, sizeof(bits))
    return rounded


def sum_leaf_values(
    const int32_t[:, :] leaves,
    const int64_t[::1] start,
    const int32_t[::1] tree_output,
    const double[:, ::1] value,
    double[:, ::1] raw,
):
    """Add the value of each row's leaf to its outputs, tree by tree; a leaf of -1 is left out."""
    cdef int64_t i, j, k
    with nogil:
        for j in range(leaves.shape[1]):
            for i in range(leaves.shape[0]):
                if leaves[i, j] < 0:
                    continue
                for k in range(value.shape[1]):
                    raw[i, tree_output[j] + k] += value[start[j] + leaves[i, j], k]


def sum_up(
    const int64_t[::1] start,
    const int32_t[::1] left,
    const int32_t[::1] right,
    double[::1] n,
    double[:, ::1] s,
    double[::1] q,
):
    """Turn sums at leaves into sums at every node. `q` may be empty."""
    cdef int64_t tree, begin, node, a, b, k
    with nogil:
        for tree in range(start.shape[0] - 1):
            begin = start[tree]
            for node in range(start[tree + 1] - 1, begin - 1, -1):
                if left[node] < 0:
                    continue
                a, b = begin + left[node], begin + right[node]
                n[node] = n[a] + n[b]
                if q.shape[0]:
                    q[node] = q[a] + q[b]
                for k in range(s.shape[1]):
                    s[node, k] = s[a, k] + s[b, k]


cdef int64_t largest_tree(const int64_t[::1] start) noexcept nogil:
    """Return the number of nodes of the largest tree."""
    cdef int64_t tree, most = 0
    for tree in range(start.shape[0] - 1):
        most = max(most, start[tree + 1] - start[tree])
    return most
