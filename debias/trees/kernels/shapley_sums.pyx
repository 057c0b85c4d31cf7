"""Compiled loops for sums over rows of Shapley values times factors, without the values of the rows.

The notation is that of :mod:`debias.trees.kernels.shapley`: P of a node is the product of the factors above it, at one
node t of the quadrature, and T the mean of the leaves below it. Here a tree is divided into subtrees. P at the root of
a subtree depends on one bit for each feature on the path above it: whether the row follows the path at all splits on
the feature. T depends on the states of the row at the splits of the subtree. So for all leaves of a subtree it is
enough to know, for each pair of bits u and states l, the sum W[u, l] of the factors of the rows that have them. The
subtree then adds

    sum over t, u and l of P[u] gain_k(u) W[u, l] T[l]      to each feature k above it, where the gain is
        (1 - z) / (z (1 - t) + t)  if bit k of u is set, and -1 / (1 - t)  if not

and to the features of its own splits the sum of ``P g (T of left - T of right)``, as in the other kernel. With
R[l] = sum over u of P[u] W[u, l], this is a sum over l, in which states of other splits are added up first: R of a split
is divided among its children, from the root of the subtree down. Gains follow from the formula of the Shapley value of
a leaf; those of the splits of the subtree are the difference between a gain below and above the split.

The cost of a row is one addition for each subtree, and not one for each feature and leaf. All else does not depend on
the number of rows.

Deep in a tree there are more pairs of u and l than rows. Then the features above a subtree are divided into two halves,
with bits u1 and u2, and P[u] = P1[u1] P2[u2]. Each row adds its factor times T[l] P2[u2] to sums of its u1, times
T[l] P1[u1] to sums of its u2, and times P1[u1] P2[u2] to R[l], for all nodes of the quadrature at once. The sums of u1,
times P1[u1], are those that the features of the first half need.

The subtrees, and which of both is done, are chosen so that a tree takes the least time.

Over 500 lines, because both ways share the subtrees, their storage and the loops over the quadrature.
"""

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from cython cimport floating
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memset

import numpy as np

from debias.trees.kernels.quadrature cimport (
    GONE, LANES, LEFT, RIGHT, WIDTH, Lanes, at, factors_of_edges, put, spread
)
from debias.trees.kernels.routing cimport answers

cdef enum:
    MOST_BITS = 20  # features above a subtree
    MOST_HALF_BITS = 10
    MOST_FEATURES = 32  # on a path
    MOST_NODES = 16  # of the quadrature
    MOST_CELLS = 8192  # pairs of bits and states of a subtree: their number is a uint16
    MOST_PATTERNS = 256  # of the states of a subtree
    MOST_LEVELS = 200  # of a tree: functions call themselves once a level

cdef double A_ROW = 1.0, A_ROW_OF_A_SPLIT = 1.0, A_CELL = 0.6, A_SUBTREE = 50.0, FOUR_NODES = 2.0, A_SUM = 0.5
cdef double NEVER = 1e300
"""Nanoseconds: of a row in a subtree; of a row at a split outside of subtrees beyond that at one inside; of a cell and
node of the quadrature; of a subtree; of a row and four nodes of the quadrature in a deep subtree; and of a sum or state
and node there."""


@cython.final
cdef class Trees:
    """The trees of an ensemble, one after the other.

    Parameters
    ----------
    start : array of shape (n_trees + 1,)
        Where the nodes of each tree begin.
    nodes : tuple
        The result of ``routing.nodes_at`` for all nodes.
    threshold : array of shape (n_nodes,)
        ``TreeEnsemble.routing_threshold``.
    weight : array of shape (n_nodes,)
        Training weight of the leaves.
    value : array of shape (n_nodes, width)
    outputs : array of int64
        Columns of `value` to explain.
    t, quadrature_weight : arrays of shape (most + 1, n)
        Row d is the quadrature for paths of d features, with ``(d + 1) // 2`` nodes; up to `most` features.
    """

    cdef const int64_t[::1] start, set_start, outputs
    cdef const int32_t[::1] parent, feature, left, right, category_set, set_codes
    cdef const double[::1] threshold, weight
    cdef const double[:, ::1] value, t, quadrature_weight
    cdef const uint8_t[::1] plain, missing_left, zero_is_missing, listed_left

    def __init__(
        self,
        const int64_t[::1] start,
        tuple nodes,
        const double[::1] threshold,
        const double[::1] weight,
        const double[:, ::1] value,
        const int64_t[::1] outputs,
        const double[:, ::1] t,
        const double[:, ::1] quadrature_weight,
    ):
        self.start, self.threshold, self.weight, self.value, self.outputs = start, threshold, weight, value, outputs
        self.parent, self.feature, self.left, self.right = nodes[:4]
        self.plain, self.missing_left, self.zero_is_missing, self.category_set = nodes[5:9]
        self.set_start, self.set_codes, self.listed_left = nodes[9]
        self.t, self.quadrature_weight = t, quadrature_weight


@cython.final
cdef class Room:
    """One tree at a time, with memory for its rows: `n_rows` at most, of trees of at most `most` nodes."""

    # The nodes of the tree, from `begin` on, and for each: the nearest edge above on the same feature (0: none), its
    # share, level, distinct features above it and on the longest path below, the bit of its feature among those above,
    # the number of patterns of states below it (0: too many), whether a split below needs its edge, its cost, whether
    # it is the root of a subtree, and of a deep one, and where its T is.
    cdef int64_t begin, size, deepest
    cdef int32_t[::1] up, level, n_above, n_below, bit, n_patterns, place
    cdef uint8_t[::1] needed, is_root, is_deep
    cdef double[::1] share, below, cost
    # By level: which rows take the edge, and their bits; the answers of rows at the split.
    cdef uint8_t[:, ::1] on, answer
    cdef uint32_t[:, ::1] bits
    cdef uint8_t[::1] state
    cdef uint16_t[::1] cell
    # Of a subtree, with the nodes of the quadrature in a row: T of all its nodes, and R of both factors.
    cdef double[::1] T, R
    # The same of its root at one node of the quadrature, T twice; W in pairs of factors, P, and W T P.
    cdef double[::1] twice, pairs, W, P, M
    # Of a deep subtree: P and sums of both halves.
    cdef double[:, ::1] half_P, half_sums
    cdef int64_t n_places

    def __init__(self, int64_t n_rows, int64_t most):
        self.up, self.level, self.n_above, self.n_below, self.bit, self.n_patterns, self.place = (
            np.zeros(most, dtype=np.int32) for _ in range(7)
        )
        self.needed, self.is_root, self.is_deep = (np.zeros(most, dtype=np.uint8) for _ in range(3))
        self.share, self.below, self.cost = np.ones(most), np.empty(most), np.empty(most)
        self.on = np.ones((MOST_LEVELS + 1, n_rows), dtype=np.uint8)
        self.answer = np.empty((MOST_LEVELS + 1, n_rows), dtype=np.uint8)
        self.bits = np.zeros((MOST_LEVELS + 1, n_rows), dtype=np.uint32)
        self.state, self.cell = np.empty(n_rows, dtype=np.uint8), np.empty(n_rows, dtype=np.uint16)
        self.T, self.R = np.empty(3 * MOST_PATTERNS * MOST_NODES), np.empty(12 * MOST_PATTERNS * MOST_NODES)
        self.twice, self.pairs = np.empty(2 * MOST_PATTERNS), np.empty(2 * MOST_PATTERNS)
        self.W, self.P, self.M = np.empty(2 * MOST_CELLS), np.empty(MOST_CELLS), np.empty(2 * MOST_CELLS)
        self.half_P = np.empty((2, MOST_NODES << MOST_HALF_BITS))
        self.half_sums = np.empty((2, 2 * MOST_NODES << MOST_HALF_BITS))


def add_sums(
    Trees trees,
    const int64_t[::1] numbers,
    const floating[:, ::1] column,
    const double[:, :, ::1] factor,
    const int32_t[::1] first_output,
    double of_a_leaf,
    double[:, ::1] sums,
):
    """Add the sums over rows of the Shapley values of some trees times two factors, and return the trees left out.

    Parameters
    ----------
    trees : Trees
    numbers : array of int64
        Which trees.
    column : array of shape (n_features, n_rows)
    factor : array of shape (n_outputs, n_rows, 2)
        Two factors of each row for each output.
    first_output : array of shape (n_trees,)
        Column c of the values of a tree belongs to output first_output[tree] + c.
    of_a_leaf : float
        Nanoseconds that a leaf takes otherwise. Trees that take less in this way are left out.
    sums : array of shape (2, n_features)
        Is added to.
    """
    cdef int64_t n = column.shape[1], j, most = 1, c
    for j in range(numbers.shape[0]):
        most = max(most, trees.start[numbers[j] + 1] - trees.start[numbers[j]])
    cdef Room room = Room(n, most)
    cdef uint8_t[::1] left_out = np.zeros(numbers.shape[0], dtype=np.uint8)
    for j in range(numbers.shape[0]):
        if j % 16 == 0:
            PyErr_CheckSignals()
        with nogil:
            prepare(trees, numbers[j], room)
            left_out[j] = divide(trees, n, room) > of_a_leaf * (room.size + 1) / 2 or room.deepest > MOST_LEVELS
            if not left_out[j] and room.size > 1:
                visit(trees, column, factor, first_output[numbers[j]], 0, room, sums)
    return np.asarray(left_out).astype(bool)


cdef void prepare(Trees trees, int64_t number, Room room) noexcept nogil:
    """Find the edges of a tree and their shares."""
    cdef int64_t begin = trees.start[number], size = trees.start[number + 1] - begin, node, above, edge
    cdef const int32_t* left = &trees.left[begin]
    cdef const int32_t* right = &trees.right[begin]
    cdef const int32_t* parent = &trees.parent[begin]
    cdef const int32_t* feature = &trees.feature[begin]
    room.begin, room.size, room.deepest = begin, size, 0
    room.up[0] = room.level[0] = room.n_above[0] = 0
    for node in range(size - 1, -1, -1):
        room.needed[node] = False
        if left[node] >= 0:
            room.below[node] = room.below[left[node]] + room.below[right[node]]
        else:
            room.below[node] = trees.weight[begin + node]
    for node in range(1, size):
        above = parent[node]
        edge = above
        while edge > 0 and feature[parent[edge]] != feature[above]:
            edge = parent[edge]
        room.up[node] = <int32_t>edge
        room.needed[edge] = True
        # Nodes that no training row reached get one half, as in the means of leaves.
        room.share[node] = room.share[edge] * (room.below[node] / room.below[above] if room.below[above] > 0 else 0.5)
        room.n_above[node] = room.n_above[above] + (1 if edge == 0 else 0)
        room.bit[node] = room.bit[edge] if edge > 0 else room.n_above[above]
        room.level[node] = room.level[above] + 1
        room.deepest = max(room.deepest, room.level[node])


cdef double divide(Trees trees, int64_t n, Room room) noexcept nogil:
    """Divide the tree into the subtrees that take the least time, and return the time in nanoseconds."""
    cdef const int32_t* left = &trees.left[room.begin]
    cdef const int32_t* right = &trees.right[room.begin]
    cdef int64_t node, n_patterns, n_above, n_nodes, n_outputs = trees.outputs.shape[0]
    cdef double whole, parts, deep
    for node in range(room.size - 1, -1, -1):
        n_above = room.n_above[node]
        if left[node] < 0:
            n_patterns, parts = 1, NEVER
            room.n_below[node] = room.n_above[node]
        else:
            n_patterns = <int64_t>room.n_patterns[left[node]] * room.n_patterns[right[node]] * n_states(room, left[node])
            parts = room.cost[left[node]] + room.cost[right[node]] + n * A_ROW_OF_A_SPLIT
            room.n_below[node] = max(room.n_below[left[node]], room.n_below[right[node]])
        n_patterns = n_patterns if n_patterns <= MOST_PATTERNS else 0
        n_nodes = (room.n_below[node] + 1) // 2
        whole = deep = NEVER
        if n_patterns > 0 and n_above <= MOST_BITS and room.n_below[node] <= MOST_FEATURES:
            if padded(n_patterns) << n_above <= MOST_CELLS:
                whole = A_CELL * (padded(n_patterns) << n_above) * n_nodes + A_SUBTREE * (n_patterns + 1)
                whole = n_outputs * (n * A_ROW + whole)
            n_nodes = (n_nodes + LANES - 1) // LANES
            deep = n * (A_ROW + n_nodes * FOUR_NODES) + A_SUBTREE * (n_patterns + 1)
            deep = n_outputs * (deep + A_SUM * LANES * n_nodes * ((2 << (n_above + 1) // 2) + 4 * n_patterns))
        room.n_patterns[node] = <int32_t>n_patterns
        room.is_deep[node] = deep < whole
        whole = min(whole, deep)
        room.is_root[node] = whole <= parts
        room.cost[node] = min(whole, parts)
    return room.cost[0]


cdef inline int64_t padded(int64_t n_patterns) noexcept nogil:
    """Return the number of cells for each u: two of them are one step of the loops, but for a single leaf."""
    return n_patterns + (n_patterns & 1 if n_patterns > 1 else 0)


cdef inline int64_t n_states(Room room, int64_t left) noexcept nogil:
    """Return the number of states of a row at the split whose left child is given."""
    return 2 if room.up[left] == 0 else 3


cdef void answer(
    Trees trees, const floating[:, ::1] column, int64_t node, uint8_t* on_left
) noexcept nogil:
    """Write whether each row goes left at a split."""
    cdef int64_t at_node = node
    answers(
        &column[trees.feature[at_node], 0],
        column.shape[1],
        <floating>trees.threshold[at_node],
        trees.plain[at_node],
        trees.missing_left[at_node],
        trees.zero_is_missing[at_node],
        trees.category_set[at_node],
        trees.set_start,
        trees.set_codes,
        trees.listed_left,
        on_left,
    )


cdef void visit(
    Trees trees,
    const floating[:, ::1] column,
    const double[:, :, ::1] factor,
    int64_t first_output,
    int64_t node,
    Room room,
    double[:, ::1] sums,
) noexcept nogil:
    """Go down to the subtrees below a node, and add what they have."""
    cdef int64_t left = trees.left[room.begin + node], right = trees.right[room.begin + node]
    if room.is_root[node]:
        add_subtree(trees, column, factor, first_output, node, room, sums)
        return
    answer(trees, column, room.begin + node, &room.answer[room.level[node], 0])
    follow(column.shape[1], left, 0, room)
    visit(trees, column, factor, first_output, left, room, sums)
    follow(column.shape[1], right, 1, room)
    visit(trees, column, factor, first_output, right, room, sums)


cdef void follow(int64_t n, int64_t edge, uint8_t other, Room room) noexcept nogil:
    """Write which rows take an edge, and their bits below it; `other` is 1 for edges to the right."""
    cdef int64_t r, level = room.level[edge]
    cdef const uint8_t* on_left = &room.answer[level - 1, 0]
    cdef const uint8_t* before
    cdef const uint32_t* bits_before = &room.bits[level - 1, 0]
    cdef uint8_t* on = &room.on[level, 0]
    cdef uint32_t* bits = &room.bits[level, 0]
    cdef uint32_t bit = <uint32_t>room.bit[edge], others = ~(<uint32_t>1 << bit)
    if room.up[edge] == 0:
        for r in range(n):
            on[r] = on_left[r] ^ other
        for r in range(n):
            bits[r] = bits_before[r] | <uint32_t>on[r] << bit
    else:
        before = &room.on[room.level[room.up[edge]], 0]
        for r in range(n):
            on[r] = before[r] & (on_left[r] ^ other)
        for r in range(n):
            bits[r] = (bits_before[r] & others) | <uint32_t>on[r] << bit


cdef void add_subtree(
    Trees trees,
    const floating[:, ::1] column,
    const double[:, :, ::1] factor,
    int64_t first_output,
    int64_t root,
    Room room,
    double[:, ::1] sums,
) noexcept nogil:
    """Add what a subtree has to the sums."""
    cdef int64_t n = column.shape[1], n_above = room.n_above[root], n_cells = padded(room.n_patterns[root])
    cdef int64_t r, c, output, k, edge
    cdef double z[MOST_BITS]
    cdef int32_t feature[MOST_BITS]
    cdef uint8_t known[MOST_BITS]
    cdef uint16_t step = 0 if room.is_deep[root] else <uint16_t>n_cells
    cdef const uint32_t* bits = &room.bits[room.level[root], 0]
    cdef uint16_t* cell = &room.cell[0]
    for k in range(n_above):
        known[k] = False
    edge = root
    while edge > 0:
        k = room.bit[edge]
        if not known[k]:  # this is the deepest edge of the feature
            known[k], z[k] = True, room.share[edge]
            feature[k] = trees.feature[room.begin + trees.parent[room.begin + edge]]
        edge = trees.parent[room.begin + edge]
    for r in range(n):
        cell[r] = <uint16_t>bits[r] * step
    room.n_places = 0
    number(trees, column, root, 1, room)
    for c in range(trees.outputs.shape[0]):
        output = trees.outputs[c]
        if room.is_deep[root]:
            add_deep(trees, &factor[first_output + output, 0, 0], n, root, output, n_above, z, feature, room, sums)
            continue
        add_pairs(n, n_cells << n_above, cell, &factor[first_output + output, 0, 0], &room.W[0])
        add_products(trees, root, output, n_above, z, feature, room, sums)


cdef inline void add_pairs(
    int64_t n, int64_t n_cells, const uint16_t* cell, const double* pair, double* W
) noexcept nogil:
    """Write the sums of the pairs of rows in each cell. Rows take turns at four tables: neighbours are often alike, and
    the sum of one would be awaited."""
    cdef int64_t r, x, tables = 4 if 4 * n_cells <= MOST_CELLS else 1, step = 2 * n_cells if tables == 4 else 0
    memset(W, 0, tables * n_cells * 2 * sizeof(double))
    r = 0
    while r + 4 <= n:
        add_pair(&pair[2 * r], &W[2 * cell[r]])
        add_pair(&pair[2 * r + 2], &W[2 * cell[r + 1] + step])
        add_pair(&pair[2 * r + 4], &W[2 * cell[r + 2] + 2 * step])
        add_pair(&pair[2 * r + 6], &W[2 * cell[r + 3] + 3 * step])
        r += 4
    for r in range(r, n):
        add_pair(&pair[2 * r], &W[2 * cell[r]])
    if tables == 4:
        for x in range(step):
            W[x] = (W[x] + W[step + x]) + (W[2 * step + x] + W[3 * step + x])


cdef inline void add_pair(const double* pair, double* to) noexcept nogil:
    """Add two numbers. They are written after both are read: so this is vector code."""
    cdef double a = to[0] + pair[0], b = to[1] + pair[1]
    to[0], to[1] = a, b


cdef void number(
    Trees trees, const floating[:, ::1] column, int64_t node, int64_t stride, Room room
) noexcept nogil:
    """Add the states of the rows at a split, and at those below, to the numbers of their cells."""
    cdef int64_t r, n = column.shape[1], above, edge, level = room.level[node]
    cdef int64_t left = trees.left[room.begin + node], right = trees.right[room.begin + node]
    cdef uint16_t step = <uint16_t>stride
    cdef uint8_t* state
    cdef uint8_t* on
    cdef const uint8_t* before
    cdef uint16_t* cell = &room.cell[0]
    room.place[node] = <int32_t>room.n_places
    room.n_places += room.n_patterns[node]
    if left < 0:
        return
    state = &room.answer[level, 0]
    answer(trees, column, room.begin + node, state)
    above = room.up[left]
    if above > 0:
        before = &room.on[room.level[above], 0]
        for r in range(n):
            state[r] = state[r] if before[r] else <uint8_t>GONE
    for r in range(n):
        cell[r] += step * state[r]
    stride *= n_states(room, left)
    if room.needed[left]:
        on = &room.on[level + 1, 0]
        for r in range(n):
            on[r] = state[r] == LEFT
    number(trees, column, left, stride, room)
    if room.needed[right]:
        on = &room.on[level + 1, 0]
        for r in range(n):
            on[r] = state[r] == RIGHT
    number(trees, column, right, stride * room.n_patterns[left], room)


cdef inline int64_t nodes_of(Trees trees, int64_t n_features, double* t) noexcept nogil:
    """Write the nodes of a quadrature, and further ones up to a multiple of LANES; return the number of all."""
    cdef int64_t n_nodes = (n_features + 1) // 2, n_q = (n_nodes + LANES - 1) // LANES * LANES, q
    for q in range(n_q):
        t[q] = trees.t[n_features, q] if q < n_nodes else 0.5
    return n_q


cdef void add_products(
    Trees trees,
    int64_t root,
    int64_t output,
    int64_t n_above,
    const double* z,
    const int32_t* feature,
    Room room,
    double[:, ::1] sums,
) noexcept nogil:
    """Add what a subtree has, from W."""
    cdef int64_t n_features = room.n_below[root], n_patterns = room.n_patterns[root], n_q, q, l
    cdef double t[MOST_NODES]
    n_q = nodes_of(trees, n_features, t)
    fill(trees, root, output, t, n_q, room)
    if n_patterns > 1:
        memset(&room.R[0], 0, 2 * n_patterns * n_q * sizeof(double))
    for q in range((n_features + 1) // 2):
        for l in range(n_patterns):
            room.twice[2 * l] = room.twice[2 * l + 1] = room.T[(room.place[root] + l) * n_q + q]
        add_product(n_patterns, t[q], trees.quadrature_weight[n_features, q], n_above, z, feature, room, sums)
        if n_patterns > 1:
            for l in range(2 * n_patterns):
                room.R[l * n_q + q] = room.pairs[l]
    add_inside(trees, root, t, n_q, &room.R[0], &room.R[2 * n_patterns * n_q], room, sums)


cdef void add_product(
    int64_t n_patterns,
    double t,
    double weight,
    int64_t n_above,
    const double* z,
    const int32_t* feature,
    Room room,
    double[:, ::1] sums,
) noexcept nogil:
    """Add what the features above a subtree have at one node of the quadrature, and write R of the subtree."""
    cdef int64_t n_cells = padded(n_patterns), size = 1LL << n_above, u, k, half
    cdef double stay, follow, p
    cdef double on[2]
    cdef double off[2]
    cdef double* P = &room.P[0]
    cdef double* M = &room.M[0]
    cdef double* R = &room.pairs[0]
    cdef double* twice = &room.twice[0]
    P[0] = weight
    for k in range(n_above):
        half = 1LL << k
        stay, follow = z[k] * (1 - t), z[k] * (1 - t) + t
        for u in range(half):
            P[half + u] = P[u] * follow
            P[u] = P[u] * stay
    if n_patterns == 1:
        p = twice[0]
        for u in range(size):
            M[2 * u] = room.W[2 * u] * (p * P[u])
            M[2 * u + 1] = room.W[2 * u + 1] * (p * P[u])
    else:
        if n_cells > n_patterns:
            twice[2 * n_patterns] = twice[2 * n_patterns + 1] = 0.0
        memset(R, 0, 2 * n_cells * sizeof(double))
        u = 0
        while u + 4 <= size:
            multiply_four(n_cells, &room.W[2 * u * n_cells], twice, &P[u], R, &M[2 * u])
            u += 4
        for u in range(u, size):
            multiply_cells(n_cells, &room.W[2 * u * n_cells], twice, P[u], R, &M[2 * u])
    for k in range(n_above - 1, -1, -1):
        half = 1LL << k
        if half == 1:
            off[0], off[1], on[0], on[1] = M[0], M[1], M[2], M[3]
        else:
            halve(2 * half, M, on, off)
        stay, follow = 1 / (1 - t), (1 - z[k]) / (z[k] * (1 - t) + t)
        sums[0, feature[k]] += follow * on[0] - stay * off[0]
        sums[1, feature[k]] += follow * on[1] - stay * off[1]


cdef inline void halve(int64_t n, double* M, double* on, double* off) noexcept nogil:
    """Write the sums of n numbers of pairs, and of the n that follow; add the latter to the former, one by one."""
    cdef int64_t x, lane
    cdef double sums_off[LANES]
    cdef double sums_on[LANES]
    cdef Lanes here, there, total_off, total_on
    for lane from 0 <= lane < LANES by WIDTH:
        total_off = total_on = spread(0.0)
        for x from lane <= x < n by LANES:
            here, there = at(&M[x]), at(&M[n + x])
            total_off += here
            total_on += there
            put(&M[x], here + there)
        put(&sums_off[lane], total_off)
        put(&sums_on[lane], total_on)
    off[0], off[1] = sums_off[0] + sums_off[2], sums_off[1] + sums_off[3]
    on[0], on[1] = sums_on[0] + sums_on[2], sums_on[1] + sums_on[3]


cdef inline void multiply_four(
    int64_t n_cells, const double* W, const double* twice, const double* p, double* R, double* M
) noexcept nogil:
    """Do what `multiply_cells` does for four u in a row: R is then read and written once for all."""
    cdef int64_t x, lane, u, n = 2 * n_cells
    cdef const double* W1 = &W[n]
    cdef const double* W2 = &W[2 * n]
    cdef const double* W3 = &W[3 * n]
    cdef double found[4 * LANES]
    cdef Lanes a, b, c, d, T, total0, total1, total2, total3
    cdef Lanes P0 = spread(p[0]), P1 = spread(p[1]), P2 = spread(p[2]), P3 = spread(p[3])
    for lane from 0 <= lane < LANES by WIDTH:
        total0 = total1 = total2 = total3 = spread(0.0)
        for x from lane <= x < n by LANES:
            a, b, c, d, T = at(&W[x]), at(&W1[x]), at(&W2[x]), at(&W3[x]), at(&twice[x])
            total0 += a * T
            total1 += b * T
            total2 += c * T
            total3 += d * T
            put(&R[x], at(&R[x]) + ((a * P0 + b * P1) + (c * P2 + d * P3)))
        put(&found[lane], total0)
        put(&found[LANES + lane], total1)
        put(&found[2 * LANES + lane], total2)
        put(&found[3 * LANES + lane], total3)
    for u in range(4):
        M[2 * u] = (found[u * LANES] + found[u * LANES + 2]) * p[u]
        M[2 * u + 1] = (found[u * LANES + 1] + found[u * LANES + 3]) * p[u]


cdef inline void multiply_cells(
    int64_t n_cells, const double* W, const double* twice, double p, double* R, double* M
) noexcept nogil:
    """Add p W to R, and write the sums of W T times p, a pair; two cells at a time."""
    cdef int64_t x, lane
    cdef double found[LANES]
    cdef Lanes here, total, P = spread(p)
    for lane from 0 <= lane < LANES by WIDTH:
        total = spread(0.0)
        for x from lane <= x < 2 * n_cells by LANES:
            here = at(&W[x])
            total += here * at(&twice[x])
            put(&R[x], at(&R[x]) + here * P)
        put(&found[lane], total)
    M[0] = (found[0] + found[2]) * p
    M[1] = (found[1] + found[3]) * p


cdef void add_deep(
    Trees trees,
    const double* pair,
    int64_t n,
    int64_t root,
    int64_t output,
    int64_t n_above,
    const double* z,
    const int32_t* feature,
    Room room,
    double[:, ::1] sums,
) noexcept nogil:
    """Add what a deep subtree has."""
    cdef int64_t n_features = room.n_below[root], n_nodes = (n_features + 1) // 2, n_patterns = room.n_patterns[root]
    cdef int64_t first = n_above // 2, n_q, h, k, q, u, half
    cdef int64_t begin[3]
    cdef double t[MOST_NODES]
    cdef double stay[MOST_NODES]
    cdef double follow[MOST_NODES]
    cdef double* P
    begin[0], begin[1], begin[2] = 0, first, n_above
    n_q = nodes_of(trees, n_features, t)
    for h in range(2):
        P = &room.half_P[h, 0]
        for q in range(n_q):
            P[q] = 1.0 if h else trees.quadrature_weight[n_features, q] if q < n_nodes else 0.0
        for k in range(begin[h], begin[h + 1]):
            half = n_q << (k - begin[h])
            for q in range(n_q):
                stay[q], follow[q] = z[k] * (1 - t[q]), z[k] * (1 - t[q]) + t[q]
            for u from 0 <= u < half by n_q:
                for q from 0 <= q < n_q by WIDTH:
                    put(&P[half + u + q], at(&P[u + q]) * at(&follow[q]))
                    put(&P[u + q], at(&P[u + q]) * at(&stay[q]))
        memset(&room.half_sums[h, 0], 0, (2 * n_q << (begin[h + 1] - begin[h])) * sizeof(double))
    fill(trees, root, output, t, n_q, room)
    memset(&room.R[0], 0, 2 * n_q * n_patterns * sizeof(double))
    if n_q == 4:
        add_rows(n, 4, first, pair, root, room)
    elif n_q == 8:
        add_rows(n, 8, first, pair, root, room)
    elif n_q == 12:
        add_rows(n, 12, first, pair, root, room)
    else:
        add_rows(n, n_q, first, pair, root, room)
    add_inside(trees, root, t, n_q, &room.R[0], &room.R[2 * n_patterns * n_q], room, sums)
    for h in range(2):
        add_half(n_nodes, n_q, begin[h + 1] - begin[h], &t[0], &z[begin[h]], &feature[begin[h]], h, room, sums)


cdef inline void add_rows(
    int64_t n, int64_t n_q, int64_t first, const double* pair, int64_t root, Room room
) noexcept nogil:
    """Add all rows to the sums of both halves and to R of a deep subtree."""
    cdef const uint32_t* bits = &room.bits[room.level[root], 0]
    cdef const uint16_t* cell = &room.cell[0]
    cdef uint32_t mask = (<uint32_t>1 << first) - 1
    cdef int64_t r, q
    cdef double* one
    cdef double* other
    cdef double* R
    cdef const double* root_T = &room.T[room.place[root] * n_q]
    cdef const double* T
    cdef const double* P1
    cdef const double* P2
    cdef Lanes a, b, x, here, of_first, of_second
    for r in range(n):
        P1, P2 = &room.half_P[0, (bits[r] & mask) * n_q], &room.half_P[1, (bits[r] >> first) * n_q]
        one, other = &room.half_sums[0, 2 * (bits[r] & mask) * n_q], &room.half_sums[1, 2 * (bits[r] >> first) * n_q]
        T, R = &root_T[cell[r] * n_q], &room.R[2 * cell[r] * n_q]
        a, b = spread(pair[2 * r]), spread(pair[2 * r + 1])
        for q from 0 <= q < n_q by WIDTH:
            of_first, of_second, here = at(&P1[q]), at(&P2[q]), at(&T[q])
            x = here * of_second
            put(&one[q], at(&one[q]) + a * x)
            put(&one[n_q + q], at(&one[n_q + q]) + b * x)
            x = here * of_first
            put(&other[q], at(&other[q]) + a * x)
            put(&other[n_q + q], at(&other[n_q + q]) + b * x)
            x = of_first * of_second
            put(&R[q], at(&R[q]) + a * x)
            put(&R[n_q + q], at(&R[n_q + q]) + b * x)


cdef void add_half(
    int64_t n_nodes,
    int64_t n_q,
    int64_t n_bits,
    const double* t,
    const double* z,
    const int32_t* feature,
    int64_t h,
    Room room,
    double[:, ::1] sums,
) noexcept nogil:
    """Add what the features of one half of those above a deep subtree have."""
    cdef int64_t k, u, j, q, half, pair = 2 * n_q
    cdef double* M = &room.half_sums[h, 0]
    cdef const double* P = &room.half_P[h, 0]
    cdef double on[2 * MOST_NODES]
    cdef double off[2 * MOST_NODES]
    cdef double stay[MOST_NODES]
    cdef double follow[MOST_NODES]
    cdef Lanes here, there, total_on, total_off
    for u in range(1LL << n_bits):
        for q from 0 <= q < n_q by WIDTH:
            here = at(&P[u * n_q + q])
            put(&M[u * pair + q], at(&M[u * pair + q]) * here)
            put(&M[u * pair + n_q + q], at(&M[u * pair + n_q + q]) * here)
    for q in range(n_q):
        stay[q] = 1 / (1 - t[q])
    for k in range(n_bits - 1, -1, -1):
        half = pair << k
        for j from 0 <= j < pair by WIDTH:
            total_off, total_on = at(&M[j]), at(&M[half + j])
            put(&M[j], total_off + total_on)
            for u from pair + j <= u < half by pair:
                here, there = at(&M[u]), at(&M[half + u])
                total_off += here
                total_on += there
                put(&M[u], here + there)
            put(&off[j], total_off)
            put(&on[j], total_on)
        for q in range(n_q):
            follow[q] = (1 - z[k]) / (z[k] * (1 - t[q]) + t[q])
        for j in range(2):
            for q in range(n_nodes):
                sums[j, feature[k]] += follow[q] * on[j * n_q + q] - stay[q] * off[j * n_q + q]


cdef void fill(
    Trees trees, int64_t node, int64_t output, const double* t, int64_t n_q, Room room
) noexcept nogil:
    """Write T of a node and those below it in a subtree, for each pattern of the states below it and each t."""
    cdef int64_t left = trees.left[room.begin + node], right = trees.right[room.begin + node], i, j, s, q, states
    cdef double factor[9 * MOST_NODES]
    cdef double* T = &room.T[room.place[node] * n_q]
    cdef const double* a
    cdef const double* b
    if left < 0:
        for q in range(n_q):
            T[q] = trees.value[room.begin + node, output]
        return
    fill(trees, left, output, t, n_q, room)
    fill(trees, right, output, t, n_q, room)
    factors_of_edges(room.share[left], room.share[right], room.share[room.up[left]], t, n_q, factor)
    states = n_states(room, left)
    b = &room.T[room.place[right] * n_q]
    for j in range(room.n_patterns[right]):
        a = &room.T[room.place[left] * n_q]
        for i in range(room.n_patterns[left]):
            for s in range(states):
                for q from 0 <= q < n_q by WIDTH:
                    put(&T[q], at(&b[q]) + at(&factor[s * n_q + q]) * (at(&a[q]) - at(&b[q])))
                T = &T[n_q]
            a = &a[n_q]
        b = &b[n_q]


cdef void add_inside(
    Trees trees,
    int64_t node,
    const double* t,
    int64_t n_q,
    const double* R,
    double* rest,
    Room room,
    double[:, ::1] sums,
) noexcept nogil:
    """Add what the splits of a subtree have, from R of a node and memory for R of those below."""
    cdef int64_t left = trees.left[room.begin + node], right = trees.right[room.begin + node], i, j, q, states
    cdef int64_t n_left, n_right, feature, of_pattern
    cdef double factor[9 * MOST_NODES]
    cdef double dot[2 * MOST_NODES]
    cdef double* of_left  # by pattern of the left child, state and factor: R summed over patterns of the right child
    cdef double* of_right
    cdef Lanes here
    if left < 0:
        return
    n_left, n_right, states = room.n_patterns[left], room.n_patterns[right], n_states(room, left)
    of_pattern = 2 * states * n_q
    factors_of_edges(room.share[left], room.share[right], room.share[room.up[left]], t, n_q, factor)
    of_left, of_right = rest, &rest[of_pattern * n_left]
    rest = &rest[of_pattern * (n_left + n_right)]
    memset(of_left, 0, of_pattern * (n_left + n_right) * sizeof(double))
    for j in range(n_right):
        for i in range(n_left):
            for q from 0 <= q < of_pattern by WIDTH:
                here = at(&R[q])
                put(&of_left[i * of_pattern + q], at(&of_left[i * of_pattern + q]) + here)
                put(&of_right[j * of_pattern + q], at(&of_right[j * of_pattern + q]) + here)
            R = &R[of_pattern]
    for q in range(2 * n_q):
        dot[q] = 0.0
    add_dots(n_left, states, n_q, &factor[6 * n_q], of_left, &room.T[room.place[left] * n_q], dot)
    for q in range(2 * n_q):
        dot[q] = -dot[q]
    add_dots(n_right, states, n_q, &factor[6 * n_q], of_right, &room.T[room.place[right] * n_q], dot)
    feature = trees.feature[room.begin + node]
    for q in range(n_q):
        sums[0, feature] -= dot[q]
        sums[1, feature] -= dot[n_q + q]
    # Each pattern of a child has its states in a row: they become R of the child, in place.
    shrink(n_left, states, n_q, factor, of_left)
    shrink(n_right, states, n_q, &factor[3 * n_q], of_right)
    add_inside(trees, left, t, n_q, of_left, rest, room, sums)
    add_inside(trees, right, t, n_q, of_right, rest, room, sums)


cdef inline void add_dots(
    int64_t n, int64_t states, int64_t n_q, const double* g, const double* R, const double* T, double* dot
) noexcept nogil:
    """Add ``R g T`` of the patterns of a child to the sums of both factors. (The state GONE has no g.)"""
    cdef int64_t i, q
    cdef Lanes on_right, on_left
    for i in range(n):
        for q from 0 <= q < n_q by WIDTH:
            on_right, on_left = at(&g[RIGHT * n_q + q]) * at(&T[q]), at(&g[LEFT * n_q + q]) * at(&T[q])
            put(&dot[q], at(&dot[q]) + (on_right * at(&R[q]) + on_left * at(&R[2 * n_q + q])))
            put(&dot[n_q + q], at(&dot[n_q + q]) + (on_right * at(&R[n_q + q]) + on_left * at(&R[3 * n_q + q])))
        T, R = &T[n_q], &R[2 * states * n_q]


cdef inline void shrink(int64_t n, int64_t states, int64_t n_q, const double* factor, double* R) noexcept nogil:
    """Replace pairs of each pattern and state by pairs of each pattern: their sums times the factors of the states."""
    cdef int64_t i, s, c, q
    cdef Lanes found
    for i in range(n):
        for c in range(2):
            for q from 0 <= q < n_q by WIDTH:
                found = at(&factor[q]) * at(&R[(2 * states * i + c) * n_q + q])
                for s in range(1, states):
                    found += at(&factor[s * n_q + q]) * at(&R[(2 * (states * i + s) + c) * n_q + q])
                put(&R[(2 * i + c) * n_q + q], found)
