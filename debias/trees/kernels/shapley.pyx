"""Compiled loops for Shapley values of blocks of rows, in time linear in nodes and in the features on a path.

The Shapley value of feature f for one leaf with value v is

    v (o_f - z_f) * integral over t from 0 to 1 of product over g != f of (z_g (1 - t) + o_g t)

where g runs over the distinct features on the path to the leaf, z_g is the share of training weight that follows the
path at all splits on g, and o_g is 1 if the row follows it at all of them, else 0 (Owen's multilinear extension of the
path-dependent game of Lundberg, Erion and Lee, arXiv 1802.03888; Wettenstein, Mitchell and Yu, arXiv 2605.04497, use
it too). The integrand is a polynomial, so Gauss-Legendre quadrature with half as many nodes as features is exact.

At one quadrature node t, P of a tree node is the weight of t times the product of the factors above it, and T is the
sum over the leaves below it of their values times the factors below. Write b for the factor z (1 - t) + t that the
feature of a split has before it, with z of the split (b = 1 if the feature is not split above), and a and c for the
shares of its left and right edge. A row is at the split in one of three states:

    it goes right          the factors of the edges, divided by b: left a (1 - t) / b, right (c (1 - t) + t) / b
    it goes left           left (a (1 - t) + t) / b, right c (1 - t) / b
    it left the path at an earlier split on this feature           left a / z, right c / z

The two factors add up to 1, so T of the split is the mean of T of its children by these factors. All leaves below the
split together add the sum over t of P g (T of left - T of right) to the feature, where g is -a / b^2, c / b^2 or 0.
So P runs down the tree and T runs up. Every factor lies between 0 and 1, T is a mean of values of leaves, and P is
never divided by what it was multiplied by.

A subtree of few splits has few patterns of states. There T, and the sums of P g (T - T) for P = 1 at its root, are
computed once for each pattern, for a whole block of rows. A row then needs one product for each feature in it.

An edge is named by the node it leads to. `up` of an edge is the nearest edge above it that belongs to a split on the
same feature. If there is none, `up` is the root, which has share 1 and is taken by every row.

Over 500 lines, because one recursion goes down and up a tree, by rows and by patterns.
"""

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from cython cimport floating
from libc.stdint cimport int32_t, int64_t, uint8_t

import numpy as np

from debias.trees.kernels.quadrature cimport (
    GONE, LANES, LEFT, RIGHT, WIDTH, Lanes, added, at, factors_of_edges, multiply, put
)
from debias.trees.kernels.routing cimport answers

cdef enum:
    MOST_FEATURES = 8  # in a subtree with patterns


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


@cython.final
cdef class Tree:
    """One tree with its shares and patterns.

    Parameters
    ----------
    nodes : tuple
        The result of ``routing.tree_nodes``.
    threshold : array of shape (n_nodes,)
        ``TreeEnsemble.routing_threshold`` of the tree.
    up, share : arrays of shape (n_nodes,)
        As from ``edge_shares``.
    value : array of shape (n_nodes, width)
    t, weight : arrays of shape (n_quadrature,)
        The quadrature, with nodes of weight 0 at the end so that `n_quadrature` is a multiple of LANES.
    most : int
        Subtrees with at most that many patterns of states, up to 255, are tabulated.

    Attributes
    ----------
    depth : int
        The largest number of splits on a path.
    n_quadrature : int
    used : array of int32
        The features of the splits.
    """

    cdef readonly int64_t depth, most, n_quadrature
    cdef readonly object used
    cdef const int32_t[::1] parent, feature, left, right, category_set, set_codes, up, features
    cdef const int64_t[::1] set_start
    cdef const double[::1] threshold, share, t, weight
    cdef const double[:, ::1] value
    cdef const uint8_t[::1] plain, missing_left, zero_is_missing, listed_left
    # For each node: its level, its number of patterns or 0 if there are more than `most`, by how much its state counts
    # in the number of a pattern, which of the features it splits on, and whether a split below it needs its edge.
    cdef int32_t[::1] level, n_patterns, stride, place
    cdef uint8_t[::1] needed

    def __init__(
        self,
        tuple nodes,
        const double[::1] threshold,
        const int32_t[::1] up,
        const double[::1] share,
        const double[:, ::1] value,
        const double[::1] t,
        const double[::1] weight,
        int64_t most,
    ):
        self.parent, self.feature, self.left, self.right = nodes[:4]
        self.threshold, self.plain = threshold, nodes[5]
        self.missing_left, self.zero_is_missing, self.category_set = nodes[6:9]
        self.set_start, self.set_codes, self.listed_left = nodes[9]
        self.up, self.share, self.value, self.t, self.weight, self.most = up, share, value, t, weight, most
        self.n_quadrature = t.shape[0]
        cdef int64_t size = up.shape[0], node, n
        cdef int32_t left, right, above
        self.level, self.n_patterns = np.zeros(size, dtype=np.int32), np.zeros(size, dtype=np.int32)
        self.stride, self.needed = np.ones(size, dtype=np.int32), np.zeros(size, dtype=np.uint8)
        splits = np.asarray(self.left) >= 0
        self.used, places = np.unique(np.asarray(self.feature)[splits], return_inverse=True)
        self.features = self.used
        place = np.zeros(size, dtype=np.int32)
        place[splits] = places
        self.place = place
        with nogil:
            for node in range(1, size):
                self.level[node] = self.level[self.parent[node]] + 1
                self.depth = max(self.depth, self.level[node])
                self.needed[up[node]] = True
            for node in range(size - 1, -1, -1):
                left, right = self.left[node], self.right[node]
                if left < 0:
                    self.n_patterns[node] = 1
                else:
                    n = self.n_patterns[left] * self.n_patterns[right] * self.n_states(node)
                    self.n_patterns[node] = n if n <= most else 0
            for node in range(1, size):
                above = self.parent[node]
                if self.n_patterns[above] > 0:
                    self.stride[node] = self.stride[above] * self.n_states(above)
                    if self.right[above] == node:
                        self.stride[node] *= self.n_patterns[self.left[above]]

    cdef inline int32_t n_states(self, int64_t split) noexcept nogil:
        return 2 if self.up[self.left[split]] == 0 else 3


@cython.final
cdef class Room:
    """Memory for a block of rows in any of some trees.

    Parameters
    ----------
    trees : list of Tree
    n_rows : int
        The largest number of rows in a block.
    n_outputs : int
        The number of outputs to explain of each tree.
    """

    cdef uint8_t[:, ::1] on, state  # by level
    cdef uint8_t[::1] answer, pattern
    cdef double[:, ::1] factor  # by level: of the left edge, of the right edge, and g, for each state
    cdef double[:, ::1] product, from_left  # P, and T of left children, by level
    cdef double[::1] from_right, table, scratch
    cdef double[:, :, :, ::1] total  # (n_outputs, n_used, n_rows, LANES)

    def __init__(self, list trees, int64_t n_rows, int64_t n_outputs):
        cdef int64_t depth = 0, n_quadrature = 0, most = 0, n_used = 0
        cdef Tree tree
        for tree in trees:
            depth, n_quadrature = max(depth, tree.depth), max(n_quadrature, tree.n_quadrature)
            most, n_used = max(most, tree.most), max(n_used, tree.features.shape[0])
        self.on, self.state = np.ones((depth + 1, n_rows), dtype=np.uint8), np.empty((depth, n_rows), dtype=np.uint8)
        self.answer, self.pattern = np.empty(n_rows, dtype=np.uint8), np.empty(n_rows, dtype=np.uint8)
        self.factor = np.empty((depth, 9 * n_quadrature))
        self.product = np.empty((depth + 1, n_rows * n_quadrature))
        self.from_left = np.empty((depth, n_outputs * n_rows * n_quadrature))
        self.from_right = np.empty(n_outputs * n_rows * n_quadrature)
        self.table = np.empty(most * (MOST_FEATURES + 1) * n_quadrature)
        self.scratch = np.empty(2 * most * (MOST_FEATURES + 1) * n_quadrature + 9 * n_quadrature)
        self.total = np.zeros((n_outputs, n_used, n_rows, LANES))


def explain(
    const floating[:, ::1] X,
    int64_t begin,
    int64_t end,
    list trees,
    const int32_t[::1] first_output,
    const int64_t[::1] outputs,
    Room room,
    double[:, :, ::1] phi,
):
    """Add the Shapley values of rows `begin` to `end` under some trees to `phi` (n_rows, n_outputs, n_features).

    `outputs` are the columns of the values of a tree to explain; column c is added to output first_output[tree] + c.
    """
    cdef int64_t n = end - begin, r, k, c, j, o
    cdef floating[:, ::1] column = np.empty((X.shape[1], n), dtype=np.asarray(X).dtype)
    cdef double[:, :, ::1] sums = np.zeros((phi.shape[1], X.shape[1], n))
    cdef double* lanes
    cdef Tree tree
    with nogil:
        for r in range(n):
            for k in range(X.shape[1]):
                column[k, r] = X[begin + r, k]
    for j in range(len(trees)):
        tree = trees[j]
        PyErr_CheckSignals()
        with nogil:
            run(column, n, tree, outputs, room)
            for c in range(outputs.shape[0]):
                o = first_output[j] + outputs[c]
                for k in range(tree.features.shape[0]):
                    lanes = &room.total[c, k, 0, 0]
                    for r in range(n):
                        sums[o, tree.features[k], r] += added(&lanes[r * LANES])
    with nogil:
        for r in range(n):
            for o in range(phi.shape[1]):
                for k in range(X.shape[1]):
                    phi[begin + r, o, k] += sums[o, k, r]


def explain_product(
    const floating[:, ::1] X,
    const int64_t[::1] rows,
    Tree tree,
    const double[:, :] factor,
    const int64_t[::1] outputs,
    Room room,
    double[::1] phi,
):
    """Add the sum over `rows` of their Shapley values times `factor` (n_rows, n_outputs) to `phi` (n_features,)."""
    cdef int64_t n = rows.shape[0], r, k, c
    cdef floating[:, ::1] column = np.empty((X.shape[1], n), dtype=np.asarray(X).dtype)
    cdef double* lanes
    cdef double dot
    with nogil:
        for r in range(n):
            for k in range(X.shape[1]):
                column[k, r] = X[rows[r], k]
        run(column, n, tree, outputs, room)
        for k in range(tree.features.shape[0]):
            dot = 0.0
            for c in range(outputs.shape[0]):
                lanes = &room.total[c, k, 0, 0]
                for r in range(n):
                    dot += factor[rows[r], c] * added(&lanes[r * LANES])
            phi[tree.features[k]] += dot


cdef void run(
    const floating[:, ::1] column, int64_t n, Tree tree, const int64_t[::1] outputs, Room room
) noexcept nogil:
    """Add the values of n rows to the totals, which are 0: down to each leaf or tabulated subtree, and up again."""
    cdef int64_t r, q, n_q = tree.t.shape[0], level
    cdef int32_t node = 0, before = -1
    cdef double* T
    cdef double* product = &room.product[0, 0]
    for r in range(n):
        for q in range(n_q):
            product[r * n_q + q] = tree.weight[q]
    while True:
        level = tree.level[node]
        T = &room.from_right[0]
        if node > 0 and tree.left[tree.parent[node]] == node:
            T = &room.from_left[level - 1, 0]
        if tree.n_patterns[node] > 0:
            look_up(column, n, tree, node, outputs, room, T)
        elif before == tree.right[node]:
            combine(n, tree, node, outputs, room, T)
        else:
            if before == tree.left[node]:
                before, node = node, tree.right[node]
            else:
                compare(column, n, tree, node, room)
                find_factors(tree, node, &room.factor[level, 0])
                before, node = node, tree.left[node]
            descend(n, tree, node, room)
            continue
        if node == 0:
            return
        before, node = node, tree.parent[node]


cdef void descend(int64_t n, Tree tree, int32_t edge, Room room) noexcept nogil:
    """Write P of a child, and which rows take its edge if a split below on the same feature needs it."""
    cdef int64_t level = tree.level[edge] - 1, n_q = tree.t.shape[0]
    cdef uint8_t side = LEFT if tree.left[tree.parent[edge]] == edge else RIGHT
    mark(n, tree, edge, side, room)
    multiply(
        n,
        n_q,
        &room.state[level, 0],
        &room.factor[level, 0 if side == LEFT else 3 * n_q],
        &room.product[level, 0],
        &room.product[level + 1, 0],
    )


cdef void combine(
    int64_t n, Tree tree, int32_t node, const int64_t[::1] outputs, Room room, double* T
) noexcept nogil:
    """Write T of a split for each output, and add the values of its feature."""
    cdef int64_t level = tree.level[node], n_q = tree.t.shape[0], c, first
    for c in range(outputs.shape[0]):
        first = c * n * n_q
        ascend(
            n,
            n_q,
            &room.state[level, 0],
            &room.factor[level, 0],
            &room.product[level, 0],
            &room.from_left[level, first],
            &room.from_right[first],
            &T[first],
            &room.total[c, tree.place[node], 0, 0],
        )


cdef void compare(const floating[:, ::1] column, int64_t n, Tree tree, int32_t node, Room room) noexcept nogil:
    """Write the states of n rows at a split."""
    cdef int64_t r, level = tree.level[node], feature = tree.feature[node]
    cdef int32_t above = tree.up[tree.left[node]]
    cdef uint8_t* state = &room.state[level, 0]
    cdef const uint8_t* on
    answers(
        &column[feature, 0],
        n,
        <floating>tree.threshold[node],
        tree.plain[node],
        tree.missing_left[node],
        tree.zero_is_missing[node],
        tree.category_set[node],
        tree.set_start,
        tree.set_codes,
        tree.listed_left,
        state,
    )
    if above > 0:
        on = &room.on[tree.level[above], 0]
        for r in range(n):
            state[r] = state[r] if on[r] else GONE


cdef void mark(int64_t n, Tree tree, int32_t edge, uint8_t side, Room room) noexcept nogil:
    """Note which rows take an edge, for splits on the same feature below it."""
    cdef int64_t r, level = tree.level[edge]
    cdef const uint8_t* state = &room.state[level - 1, 0]
    cdef uint8_t* on = &room.on[level, 0]
    if tree.needed[edge]:
        for r in range(n):
            on[r] = state[r] == side


cdef void find_factors(Tree tree, int32_t node, double* factor) noexcept nogil:
    """Write the factors of the left edge, those of the right edge, and g, for each state of a row at a split."""
    cdef double a = tree.share[tree.left[node]], c = tree.share[tree.right[node]]
    factors_of_edges(a, c, tree.share[tree.up[tree.left[node]]], &tree.t[0], tree.t.shape[0], factor)


cdef void ascend(
    int64_t n,
    int64_t n_q,
    const uint8_t* state,
    const double* factor,
    const double* product,
    const double* from_left,
    const double* from_right,
    double* T,
    double* total,
) noexcept nogil:
    """Write T of a split for one output, and add the values of its feature."""
    if n_q == 4:
        ascend_rows(n, 4, state, factor, product, from_left, from_right, T, total)
    elif n_q == 8:
        ascend_rows(n, 8, state, factor, product, from_left, from_right, T, total)
    elif n_q == 12:
        ascend_rows(n, 12, state, factor, product, from_left, from_right, T, total)
    elif n_q == 16:
        ascend_rows(n, 16, state, factor, product, from_left, from_right, T, total)
    else:
        ascend_rows(n, n_q, state, factor, product, from_left, from_right, T, total)


cdef inline void ascend_rows(
    int64_t n,
    int64_t n_q,
    const uint8_t* state,
    const double* factor,
    const double* product,
    const double* from_left,
    const double* from_right,
    double* T,
    double* total,
) noexcept nogil:
    cdef int64_t r, q, lane
    cdef Lanes right, difference, sums
    cdef const double* left
    cdef const double* g
    for r in range(n):
        left = &factor[state[r] * n_q]
        g = &factor[(6 + state[r]) * n_q]
        for lane from 0 <= lane < LANES by WIDTH:
            sums = at(&total[r * LANES + lane])
            for q from lane <= q < n_q by LANES:
                right = at(&from_right[r * n_q + q])
                difference = at(&from_left[r * n_q + q]) - right
                sums += at(&product[r * n_q + q]) * at(&g[q]) * difference
                put(&T[r * n_q + q], right + at(&left[q]) * difference)
            put(&total[r * LANES + lane], sums)


cdef void look_up(
    const floating[:, ::1] column,
    int64_t n,
    Tree tree,
    int32_t root,
    const int64_t[::1] outputs,
    Room room,
    double* T,
) noexcept nogil:
    """Write T of a tabulated subtree for each output, and add the values of its features."""
    cdef int32_t place[MOST_FEATURES]
    cdef int64_t n_q = tree.t.shape[0], n_places = 0, c, r, x, width
    cdef double* totals[MOST_FEATURES]
    for r in range(n):
        room.pattern[r] = 0
    number(column, n, tree, root, room, place, &n_places)
    width = (n_places + 1) * n_q
    for c in range(outputs.shape[0]):
        fill(tree, root, outputs[c], place, n_places, &room.table[0], &room.scratch[0])
        for x in range(n_places):
            totals[x] = &room.total[c, place[x], 0, 0]
        gather(
            n,
            n_q,
            n_places,
            &room.pattern[0],
            &room.table[0],
            &room.product[tree.level[root], 0],
            &T[c * n * n_q],
            totals,
        )


cdef void number(
    const floating[:, ::1] column,
    int64_t n,
    Tree tree,
    int32_t node,
    Room room,
    int32_t* place,
    int64_t* n_places,
) noexcept nogil:
    """Add the states of n rows at the splits below a node to the numbers of their patterns, and list the features."""
    cdef int64_t r
    cdef uint8_t stride = <uint8_t>tree.stride[node]
    cdef uint8_t* state
    if tree.left[node] < 0:
        return
    compare(column, n, tree, node, room)
    state = &room.state[tree.level[node], 0]
    for r in range(n):
        room.pattern[r] += stride * state[r]
    if position(place, n_places[0], tree.place[node]) == n_places[0]:
        place[n_places[0]] = tree.place[node]
        n_places[0] += 1
    mark(n, tree, tree.left[node], LEFT, room)
    number(column, n, tree, tree.left[node], room, place, n_places)
    mark(n, tree, tree.right[node], RIGHT, room)
    number(column, n, tree, tree.right[node], room, place, n_places)


cdef inline int64_t position(const int32_t* place, int64_t n, int32_t wanted) noexcept nogil:
    """Return where `wanted` is among the first n; n if it is not."""
    cdef int64_t x
    for x in range(n):
        if place[x] == wanted:
            return x
    return n


cdef void fill(
    Tree tree, int32_t node, int64_t output, const int32_t* place, int64_t n_places, double* table, double* scratch
) noexcept nogil:
    """Write, for each pattern of the states below a node, T and the sums of each feature for P = 1 at the node."""
    cdef int64_t n_q = tree.t.shape[0], width = (n_places + 1) * n_q, n_states, n_left, n_right, s, i, j, q
    cdef int64_t mine
    cdef double difference
    cdef double* factor = scratch
    cdef double* of_left
    cdef double* of_right
    cdef double* entry
    cdef const double* a
    cdef const double* b
    if tree.left[node] < 0:
        for q in range(n_q):
            table[q] = tree.value[node, output]
        for q in range(n_q, width):
            table[q] = 0.0
        return
    n_left, n_right = tree.n_patterns[tree.left[node]], tree.n_patterns[tree.right[node]]
    n_states = tree.n_states(node)
    of_left = &scratch[0]
    of_right = &of_left[n_left * width]
    factor = &of_right[n_right * width]
    fill(tree, tree.left[node], output, place, n_places, of_left, factor)
    fill(tree, tree.right[node], output, place, n_places, of_right, factor)
    find_factors(tree, node, factor)
    mine = (1 + position(place, n_places, tree.place[node])) * n_q
    entry = table
    for j in range(n_right):
        for i in range(n_left):
            a, b = &of_left[i * width], &of_right[j * width]
            for s in range(n_states):
                weigh(n_q, width, a, b, &factor[s * n_q], &factor[(3 + s) * n_q], entry)
                for q in range(n_q):
                    entry[mine + q] += factor[(6 + s) * n_q + q] * (a[q] - b[q])
                entry = &entry[width]


cdef inline void weigh(
    int64_t n_q, int64_t width, const double* a, const double* b, const double* left, const double* right, double* entry
) noexcept nogil:
    """Write T and the sums of a split in one state from those of its children."""
    cdef int64_t x, q
    for q from 0 <= q < n_q by WIDTH:
        put(&entry[q], at(&b[q]) + at(&left[q]) * (at(&a[q]) - at(&b[q])))
    for x from n_q <= x < width by n_q:
        for q from 0 <= q < n_q by WIDTH:
            put(&entry[x + q], at(&left[q]) * at(&a[x + q]) + at(&right[q]) * at(&b[x + q]))


cdef void gather(
    int64_t n,
    int64_t n_q,
    int64_t n_places,
    const uint8_t* pattern,
    const double* table,
    const double* product,
    double* T,
    double** totals,
) noexcept nogil:
    """Do so for one output, from the entries of n rows."""
    if n_q == 4:
        gather_rows(n, 4, n_places, pattern, table, product, T, totals)
    elif n_q == 8:
        gather_rows(n, 8, n_places, pattern, table, product, T, totals)
    elif n_q == 12:
        gather_rows(n, 12, n_places, pattern, table, product, T, totals)
    elif n_q == 16:
        gather_rows(n, 16, n_places, pattern, table, product, T, totals)
    else:
        gather_rows(n, n_q, n_places, pattern, table, product, T, totals)


cdef inline void gather_rows(
    int64_t n,
    int64_t n_q,
    int64_t n_places,
    const uint8_t* pattern,
    const double* table,
    const double* product,
    double* T,
    double** totals,
) noexcept nogil:
    cdef int64_t r, q, x, lane, width = (n_places + 1) * n_q
    cdef Lanes sums
    cdef const double* entry
    cdef const double* P
    cdef double* total
    for r in range(n):
        entry, P = &table[pattern[r] * width], &product[r * n_q]
        for q from 0 <= q < n_q by WIDTH:
            put(&T[r * n_q + q], at(&entry[q]))
        for x in range(n_places):
            entry = &entry[n_q]
            total = &totals[x][r * LANES]
            for lane from 0 <= lane < LANES by WIDTH:
                sums = at(&total[lane])
                for q from lane <= q < n_q by LANES:
                    sums += at(&P[q]) * at(&entry[q])
                put(&total[lane], sums)
