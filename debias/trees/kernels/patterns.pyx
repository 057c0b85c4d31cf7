"""Compiled loops for Shapley values of many rows: tables of values by the answers of a row.

The values of a leaf depend on a row only by one bit for each feature on its path: whether the row follows the path at
all splits on it (Nadel and Wettenstein, "From decision trees to Boolean logic", 2025, call these bits the decision
pattern of the row). So they can be computed once for every pattern, and looked up for every row. Here the leaves of a
whole subtree share one table. Its pattern has one bit for each feature on the path above the subtree, and one for the
answer at each split in it. A row then needs one lookup per feature for all these leaves.

The table holds the values that :mod:`debias.trees.kernels.shapley` defines, by the same quadrature.
"""

cimport cython
from cython cimport floating
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t

import numpy as np

from debias.trees.kernels.routing cimport answers

cdef enum:
    # A pattern is a uint16, and a table has 2^bits values for each feature.
    MOST_BITS = 16  # of a pattern
    MOST_ROWS = 8192  # are looked up together: a table that was read is used for all of them
    MOST_VALUES = 2097152  # of those rows are summed up at a time


@cython.final
cdef class Subtrees:
    """How one tree is divided into subtrees, each with a table of its own.

    Parameters
    ----------
    nodes : tuple
        The result of ``routing.tree_nodes``.
    threshold : array of shape (n_nodes,)
        ``TreeEnsemble.routing_threshold`` of the tree.
    up, share : arrays of shape (n_nodes,)
        As from ``shapley.edge_shares``.
    merged : int
        A subtree of several leaves has at most that many bits in its pattern. One of a single leaf has as many as there
        are features on its path, which must be at most 16.

    Attributes
    ----------
    table_start : array of int64 of shape (n_subtrees + 1,)
        Where the table of each subtree begins, for one output.
    """

    cdef readonly object table_start
    cdef const int32_t[::1] parent, feature, left, right, category_set, set_codes, up
    cdef const int64_t[::1] set_start
    cdef const double[::1] threshold, share
    cdef const uint8_t[::1] plain, missing_left, zero_is_missing, listed_left
    cdef int32_t[::1] level, visited, subtree  # `subtree` of a visited node: its number, or -1
    # For each subtree the deepest edges of the features above it, its splits, its leaves, and all these features.
    cdef int32_t[::1] root, path, splits, leaves, features
    cdef int32_t[::1] path_start, splits_start, leaves_start, features_start
    cdef int64_t[::1] start
    cdef int32_t deepest, bits

    def __init__(
        self,
        tuple nodes,
        const double[::1] threshold,
        const int32_t[::1] up,
        const double[::1] share,
        int merged,
    ):
        self.parent, self.feature, self.left, self.right = nodes[:4]
        self.threshold, self.plain = threshold, nodes[5]
        self.missing_left, self.zero_is_missing, self.category_set = nodes[6:9]
        self.set_start, self.set_codes, self.listed_left = nodes[9]
        self.up, self.share = up, share
        cdef int64_t size = up.shape[0], node, above, n_entries = 0
        cdef int32_t[::1] n_above = np.zeros(size, dtype=np.int32), n_inside = np.zeros(size, dtype=np.int32)
        self.level = np.zeros(size, dtype=np.int32)
        for node in range(1, size):
            above = self.parent[node]
            n_above[node] = n_above[above] + (1 if up[node] == 0 else 0)
            self.level[node] = self.level[above] + 1
            self.deepest = max(self.deepest, self.level[node])
        for node in range(size - 1, -1, -1):
            if self.left[node] >= 0:
                n_inside[node] = 1 + n_inside[self.left[node]] + n_inside[self.right[node]]
        visited, subtree, root, path, splits, leaves, features, starts = [], [], [], [], [], [], [], [0]
        ends = ([0], [0], [0], [0])
        stack = [0]
        while stack:
            node = stack.pop()
            visited.append(node)
            if self.left[node] >= 0 and n_above[node] + n_inside[node] > merged:
                subtree.append(-1)
                stack += [self.right[node], self.left[node]]
                continue
            self.bits = max(self.bits, n_above[node] + n_inside[node])
            subtree.append(len(root))
            root.append(node)
            known = {}
            above = node
            while above > 0:
                known.setdefault(self.feature[self.parent[above]], above)
                above = self.parent[above]
            path += known.values()
            below = [node]
            while below:
                above = below.pop()
                if self.left[above] < 0:
                    leaves.append(above)
                else:
                    splits.append(above)
                    known.setdefault(self.feature[above], -1)
                    below += [self.right[above], self.left[above]]
            features += known
            for end, found in zip(ends, (path, splits, leaves, features)):
                end.append(len(found))
            n_entries += len(known) << (n_above[node] + n_inside[node])
            starts.append(n_entries)
        self.visited, self.subtree, self.root, self.path, self.splits, self.leaves, self.features = (
            np.array(found, dtype=np.int32) for found in (visited, subtree, root, path, splits, leaves, features)
        )
        self.path_start, self.splits_start, self.leaves_start, self.features_start = (
            np.array(end, dtype=np.int32) for end in ends
        )
        self.table_start = np.array(starts, dtype=np.int64)
        self.start = self.table_start


@cython.final
cdef class Part:
    """Some subtrees of one tree, `first` to `end`, whose tables are in memory together."""

    cdef Subtrees tree
    cdef int64_t first, end
    cdef int32_t[::1] visited, subtree  # what leads to these subtrees, parents before children

    def __init__(self, Subtrees tree, int64_t first, int64_t end):
        self.tree, self.first, self.end = tree, first, end
        cdef int64_t g, node
        leads = np.zeros(tree.parent.shape[0], dtype=bool)
        cdef uint8_t[::1] to_them = leads
        for g in range(first, end):
            node = tree.root[g]
            while not to_them[node]:
                to_them[node] = True
                if node > 0:
                    node = tree.parent[node]
        kept = leads[np.asarray(tree.visited)]
        self.visited, self.subtree = np.asarray(tree.visited)[kept], np.asarray(tree.subtree)[kept]


def fill(
    Part part,
    const double[:, ::1] value,
    const int64_t[::1] outputs,
    const double[:, ::1] t,
    const double[:, ::1] weight,
):
    """Return the tables of some subtrees, shape (n_entries * n_outputs,).

    `outputs` are the columns of `value` (n_nodes, width) to explain. Row d of `t` and `weight` is the quadrature for
    paths of d features, with d // 2 + d % 2 nodes.
    """
    cdef Subtrees tree = part.tree
    cdef double[::1] table = np.zeros((tree.start[part.end] - tree.start[part.first]) * outputs.shape[0])
    cdef double[::1] product = np.empty(1 << tree.bits), lone = np.empty(tree.bits << tree.bits)
    cdef uint16_t[::1] which = np.empty(1 << tree.bits, dtype=np.uint16)
    cdef int64_t g, j, at
    with nogil:
        for g in range(part.first, part.end):
            at = (tree.start[g] - tree.start[part.first]) * outputs.shape[0]
            for j in range(tree.leaves_start[g], tree.leaves_start[g + 1]):
                add_leaf(tree, g, tree.leaves[j], value, outputs, t, weight, &table[at], product, lone, which)
    return np.asarray(table)


cdef void add_leaf(
    Subtrees tree,
    int64_t g,
    int32_t leaf,
    const double[:, ::1] value,
    const int64_t[::1] outputs,
    const double[:, ::1] t,
    const double[:, ::1] weight,
    double* table,
    double[::1] product,
    double[::1] lone,
    uint16_t[::1] which,
) noexcept nogil:
    """Add the values of one leaf for every pattern of its subtree to the table of the subtree."""
    cdef int32_t known[MOST_BITS]
    cdef int32_t place[MOST_BITS]
    cdef uint64_t mask[MOST_BITS]
    cdef uint64_t wanted[MOST_BITS]
    cdef double z[MOST_BITS]
    cdef int64_t d = 0, x, j, c, q, b, o, edge, above, first = tree.path_start[g]
    cdef int64_t n_path = tree.path_start[g + 1] - first, n_splits = tree.splits_start[g + 1] - tree.splits_start[g]
    cdef int64_t size = 1LL << (n_path + n_splits), half, start
    cdef uint64_t bit
    cdef double stay, follow, gain_off, gain_on, v
    cdef double* row
    # The splits of the subtree on the way to the leaf, from the leaf up: the first edge of a feature is the deepest.
    edge = leaf
    while n_splits > 0 and tree.parent[edge] >= 0 and inside(tree, g, tree.parent[edge]) >= 0:
        above = tree.parent[edge]
        bit = 1ULL << (n_path + inside(tree, g, above))
        x = position(known, d, tree.feature[above])
        if x == d:
            known[d], mask[d], wanted[d], z[d] = tree.feature[above], 0, 0, tree.share[edge]
            d += 1
        mask[x] |= bit
        if tree.left[above] == edge:
            wanted[x] |= bit
        edge = above
    for j in range(n_path):
        edge = tree.path[first + j]
        x = position(known, d, tree.feature[tree.parent[edge]])
        if x == d:
            known[d], mask[d], wanted[d], z[d] = tree.feature[tree.parent[edge]], 0, 0, tree.share[edge]
            d += 1
        mask[x] |= 1ULL << j
        wanted[x] |= 1ULL << j
    for x in range(d):
        place[x] = 0
        while tree.features[tree.features_start[g] + place[x]] != known[x]:
            place[x] += 1
    # The values of a leaf of value 1, by whether the row follows the path at each of its features.
    for o in range(d << d):
        lone[o] = 0.0
    for q in range((d + 1) // 2):
        product[0] = 1.0
        for x in range(d):
            half = 1LL << x
            stay, follow = z[x] * (1 - t[d, q]), z[x] * (1 - t[d, q]) + t[d, q]
            for o in range(half):
                product[half + o] = product[o] * follow
                product[o] = product[o] * stay
        for x in range(d):
            gain_off = -weight[d, q] / (1 - t[d, q])
            gain_on = weight[d, q] * (1 - z[x]) / (z[x] * (1 - t[d, q]) + t[d, q])
            row = &lone[x << d]
            for o in range(1LL << d):
                row[o] += product[o] * (gain_on if o >> x & 1 else gain_off)
    for b in range(size):
        o = 0
        for x in range(d):
            o |= <int64_t>((<uint64_t>b & mask[x]) == wanted[x]) << x
        which[b] = <uint16_t>o
    for x in range(d):
        row = &lone[x << d]
        for c in range(outputs.shape[0]):
            v = value[leaf, outputs[c]]
            start = (place[x] * outputs.shape[0] + c) * size
            for b in range(size):
                table[start + b] += v * row[which[b]]


cdef inline int64_t inside(Subtrees tree, int64_t g, int64_t node) noexcept nogil:
    """Return the number of a split within subtree `g`; -1 if it is not in it."""
    cdef int64_t j
    for j in range(tree.splits_start[g], tree.splits_start[g + 1]):
        if tree.splits[j] == node:
            return j - tree.splits_start[g]
    return -1


cdef inline int64_t position(int32_t* known, int64_t n, int32_t wanted) noexcept nogil:
    """Return where `wanted` is among the first n; n if it is not."""
    cdef int64_t x
    for x in range(n):
        if known[x] == wanted:
            return x
    return n


def explain(
    const floating[:, ::1] X,
    int64_t begin,
    int64_t end,
    list parts,
    list tables,
    const int32_t[::1] first_output,
    const int64_t[::1] outputs,
    double[:, :, ::1] phi,
):
    """Add the values of rows `begin` to `end` in the subtrees of all `parts` to `phi` (n_rows, n_outputs, n_features).

    `tables` are the results of ``fill``; column c of `outputs` is added to output first_output[part] + c.
    """
    cdef int64_t n_features = X.shape[1], n_outputs = phi.shape[1], at, n, r, k, c, j
    cdef Part part
    cdef Subtrees tree
    cdef int64_t deepest = 0
    for part in parts:
        deepest = max(deepest, part.tree.deepest)
    cdef int64_t n_block = min(end - begin, min(MOST_ROWS, max(64, MOST_VALUES // (n_features * n_outputs))))
    cdef uint8_t[:, ::1] on = np.ones((deepest + 1, n_block), dtype=np.uint8)
    cdef uint8_t[::1] side = np.empty(n_block, dtype=np.uint8)
    cdef uint16_t[::1] pattern = np.empty(n_block, dtype=np.uint16)
    cdef double[:, :, ::1] total = np.empty((n_outputs, n_features, n_block))
    cdef floating[:, ::1] column = np.empty((n_features, n_block), dtype=np.asarray(X).dtype)
    cdef const double[::1] table
    for at in range(begin, end, n_block):
        n = min(n_block, end - at)
        with nogil:
            for r in range(n):
                for k in range(n_features):
                    column[k, r] = X[at + r, k]
            total[:, :, :] = 0.0
        for j in range(len(parts)):
            part, table = parts[j], tables[j]
            tree = part.tree
            with nogil:
                look_up(column, n, part, tree, table, first_output[j], outputs, on, side, pattern, total)
        with nogil:
            for r in range(n):
                for c in range(n_outputs):
                    for k in range(n_features):
                        phi[at + r, c, k] += total[c, k, r]


cdef void look_up(
    const floating[:, ::1] column,
    int64_t n,
    Part part,
    Subtrees tree,
    const double[::1] table,
    int64_t first_output,
    const int64_t[::1] outputs,
    uint8_t[:, ::1] on,
    uint8_t[::1] side,
    uint16_t[::1] pattern,
    double[:, :, ::1] total,
) noexcept nogil:
    """Add the values of n rows in some subtrees to `total` (n_outputs, n_features, n_block)."""
    cdef int64_t v, j, g, c, r, size, bits, start
    cdef int32_t node, above
    cdef uint8_t other
    cdef const uint8_t* before
    cdef uint8_t* here
    cdef uint8_t* answer = &side[0]
    cdef uint16_t* found = &pattern[0]
    cdef const double* values
    cdef double* sums
    for v in range(part.visited.shape[0]):
        node = part.visited[v]
        if node > 0:
            above = tree.parent[node]
            decide(column, n, tree, above, answer)
            before, here = &on[tree.level[tree.up[node]], 0], &on[tree.level[node], 0]
            other = tree.left[above] != node
            for r in range(n):
                here[r] = before[r] & (answer[r] ^ other)
        g = part.subtree[v]
        if g < 0:
            continue
        for r in range(n):
            found[r] = 0
        bits = 0
        for j in range(tree.path_start[g], tree.path_start[g + 1]):
            here = &on[tree.level[tree.path[j]], 0]
            for r in range(n):
                found[r] |= <uint16_t>here[r] << bits
            bits += 1
        for j in range(tree.splits_start[g], tree.splits_start[g + 1]):
            decide(column, n, tree, tree.splits[j], answer)
            for r in range(n):
                found[r] |= <uint16_t>answer[r] << bits
            bits += 1
        size = 1LL << bits
        start = (tree.start[g] - tree.start[part.first]) * outputs.shape[0]
        for j in range(tree.features_start[g], tree.features_start[g + 1]):
            for c in range(outputs.shape[0]):
                values, sums = &table[start], &total[first_output + outputs[c], tree.features[j], 0]
                for r in range(n):
                    sums[r] += values[found[r]]
                start += size


cdef inline void decide(
    const floating[:, ::1] column, int64_t n, Subtrees tree, int32_t node, uint8_t* answer
) noexcept nogil:
    """Write whether each of n rows goes left at a split."""
    answers(
        &column[tree.feature[node], 0],
        n,
        <floating>tree.threshold[node],
        tree.plain[node],
        tree.missing_left[node],
        tree.zero_is_missing[node],
        tree.category_set[node],
        tree.set_start,
        tree.set_codes,
        tree.listed_left,
        answer,
    )
