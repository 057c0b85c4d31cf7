"""Compiled loops for Shapley interactions of blocks of rows, in the notation of `shapley.pyx`.

The Shapley interaction of features f and g is the integral over t from 0 to 1 of the derivative by both features of
Owen's multilinear extension (Grabisch and Roubens 1999). A leaf with value v adds to the integrand

    v (o_f - z_f) (o_g - z_g) * product over other features h of (z_h (1 - t) + o_h t)

All leaves below a split on f together add S = P g (T of left - T of right) to the integrand of the Shapley value of f.
To the integrand of f with g they add S times (o_g - z_g) / (z_g (1 - t) + o_g t), with z_g and o_g of the lowest edge
above the split that is on g. This is (1 - z_g) / (z_g (1 - t) + t) for a row that takes the edge, and -1 / (1 - t) for
others. Summed over the splits on f and on g, this counts each leaf as above, because its factors are sums over the edges
of f and of g on the way: of any two edges one is below. So a split adds one sum over quadrature nodes for each other
feature on the way to it, and time is linear in splits, features on a path, and nodes. With m features on a path, m // 2
nodes are exact.
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
from debias.trees.kernels.walking cimport Walk


@cython.final
cdef class Tree:
    """One tree with its shares, and the other features on the way to each split.

    Parameters
    ----------
    nodes : tuple
        The result of ``routing.tree_nodes``.
    threshold : array of shape (n_nodes,)
        ``TreeEnsemble.routing_threshold`` of the tree.
    up, share : arrays of shape (n_nodes,)
        As from ``shapley.edge_shares``.
    value : array of shape (n_nodes, width)
    t, weight : arrays of shape (n_quadrature,)
        The quadrature, with nodes of weight 0 at the end so that `n_quadrature` is a multiple of LANES.

    Attributes
    ----------
    depth : int
        The largest number of splits on a path.
    n_quadrature : int
    """

    cdef readonly int64_t depth, n_quadrature
    cdef Walk walk
    cdef const int32_t[::1] parent, up
    cdef const double[::1] threshold, share, t, weight
    cdef const double[:, ::1] value
    cdef int32_t[::1] level
    cdef int64_t[::1] start  # of each split in `above`: the lowest edge of each other feature on the way
    cdef int32_t[::1] above
    cdef double[:, ::1] derivative  # by edge: of rows that do not take it, and of those that do

    def __init__(
        self,
        tuple nodes,
        const double[::1] threshold,
        const int32_t[::1] up,
        const double[::1] share,
        const double[:, ::1] value,
        const double[::1] t,
        const double[::1] weight,
    ):
        cdef int64_t size = up.shape[0], n_q = t.shape[0], node, q
        self.walk, self.parent = Walk(*nodes), nodes[0]
        self.threshold, self.up, self.share, self.value, self.t, self.weight = threshold, up, share, value, t, weight
        self.n_quadrature = n_q
        self.level, self.start = np.zeros(size, dtype=np.int32), np.zeros(size + 1, dtype=np.int64)
        self.derivative = np.empty((size, 2 * n_q))
        cdef uint8_t[::1] met = np.zeros(1 + np.asarray(self.walk.feature).max(initial=0), dtype=np.uint8)
        with nogil:
            for node in range(1, size):
                self.level[node] = self.level[self.parent[node]] + 1
                self.depth = max(self.depth, self.level[node])
            for node in range(size):
                self.start[node + 1] = self.start[node] + self.others(node, met, NULL)
                for q in range(n_q):
                    self.derivative[node, q] = -1 / (1 - t[q])
                    self.derivative[node, n_q + q] = (1 - share[node]) / (share[node] * (1 - t[q]) + t[q])
        self.above = np.empty(max(1, self.start[size]), dtype=np.int32)
        with nogil:
            for node in range(size):
                if self.start[node + 1] > self.start[node]:
                    self.others(node, met, &self.above[self.start[node]])

    cdef int64_t others(self, int64_t split, uint8_t[::1] met, int32_t* edges) noexcept nogil:
        """Return the number of other features on the way to a split, and write the lowest edge of each."""
        cdef int64_t n = 0, edge = split, feature
        if self.walk.left[split] < 0:
            return 0
        met[self.walk.feature[split]] = True
        while edge > 0:
            feature = self.walk.feature[self.parent[edge]]
            if not met[feature]:
                met[feature] = True
                if edges != NULL:
                    edges[n] = <int32_t>edge
                n += 1
            edge = self.parent[edge]
        met[self.walk.feature[split]] = False
        edge = split
        while edge > 0:
            edge = self.parent[edge]
            met[self.walk.feature[edge]] = False
        return n


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
    n_pairs : int
    n_sums : int
        The number of outputs of all trees together.
    """

    cdef uint8_t[:, ::1] on, state  # by level
    cdef double[:, ::1] factor  # by level: of the left edge, of the right edge, and g, for each state
    cdef double[:, ::1] product, from_left  # P, and T of left children, by level
    cdef double[::1] from_right, S
    cdef double[:, :, :, ::1] total  # (n_sums, n_pairs, n_rows, LANES)

    def __init__(self, list trees, int64_t n_rows, int64_t n_outputs, int64_t n_pairs, int64_t n_sums):
        cdef int64_t depth = 0, n_q = 0
        cdef Tree tree
        for tree in trees:
            depth, n_q = max(depth, tree.depth), max(n_q, tree.n_quadrature)
        self.on, self.state = np.ones((depth + 1, n_rows), dtype=np.uint8), np.empty((depth, n_rows), dtype=np.uint8)
        self.factor, self.product = np.empty((depth, 9 * n_q)), np.empty((depth + 1, n_rows * n_q))
        self.from_left = np.empty((depth, n_outputs * n_rows * n_q))
        self.from_right, self.S = np.empty(n_outputs * n_rows * n_q), np.empty(n_rows * n_q)
        self.total = np.zeros((n_sums, n_pairs, n_rows, LANES))


def explain(
    const floating[:, ::1] X,
    int64_t begin,
    int64_t end,
    list trees,
    const int32_t[::1] first_output,
    const int64_t[::1] outputs,
    const int32_t[:, ::1] number,
    Room room,
    double[:, :, ::1] interaction,
):
    """Add the interactions of rows `begin` to `end` under some trees to `interaction` (n_rows, n_pairs, n_outputs).

    `outputs` are the columns of the values of a tree to explain; column c is added to output first_output[tree] + c.
    `number` has the number of each pair of features, symmetric; -1 for pairs that are not wanted.
    """
    cdef int64_t n = end - begin, r, k, j, o
    cdef floating[:, ::1] column = np.empty((X.shape[1], n), dtype=np.asarray(X).dtype)
    cdef Tree tree
    with nogil:
        for r in range(n):
            for k in range(X.shape[1]):
                column[k, r] = X[begin + r, k]
    for j in range(len(trees)):
        tree = trees[j]
        PyErr_CheckSignals()
        with nogil:
            for r in range(n):
                for k in range(tree.n_quadrature):
                    room.product[0, r * tree.n_quadrature + k] = tree.weight[k]
            run(column, n, tree, first_output[j], outputs, number, room)
    with nogil:
        for o in range(room.total.shape[0]):
            for k in range(room.total.shape[1]):
                for r in range(n):
                    interaction[begin + r, k, o] += added(&room.total[o, k, r, 0])


cdef void run(
    const floating[:, ::1] column,
    int64_t n,
    Tree tree,
    int64_t first,
    const int64_t[::1] outputs,
    const int32_t[:, ::1] number,
    Room room,
) noexcept nogil:
    """Add the interactions of n rows to the totals: down to each split, and up again."""
    cdef int64_t level
    cdef int32_t node = 0, before = -1, left, right
    while True:
        level, left, right = tree.level[node], tree.walk.left[node], tree.walk.right[node]
        if before != left and before != right:  # from above
            compare(column, n, tree, node, room)
            factors_of_edges(
                tree.share[left],
                tree.share[right],
                tree.share[tree.up[left]],
                &tree.t[0],
                tree.n_quadrature,
                &room.factor[level, 0],
            )
            if tree.walk.left[left] >= 0:
                descend(n, tree, node, LEFT, room)
                before, node = node, left
                continue
            fill(tree, left, outputs, n, &room.from_left[level, 0])
            before = left
        if before == left:
            if tree.walk.left[right] >= 0:
                descend(n, tree, node, RIGHT, room)
                before, node = node, right
                continue
            fill(tree, right, outputs, n, &room.from_right[0])
        add(n, tree, node, first, outputs, number, room)
        if node == 0:
            return
        before, node = node, tree.parent[node]


cdef void descend(int64_t n, Tree tree, int32_t split, uint8_t side, Room room) noexcept nogil:
    """Write P of a child of a split, and which rows take its edge."""
    cdef int64_t level = tree.level[split], r
    cdef const uint8_t* state = &room.state[level, 0]
    cdef uint8_t* on = &room.on[level + 1, 0]
    for r in range(n):
        on[r] = state[r] == side
    multiply(
        n,
        tree.n_quadrature,
        state,
        &room.factor[level, 0 if side == LEFT else 3 * tree.n_quadrature],
        &room.product[level, 0],
        &room.product[level + 1, 0],
    )


cdef void add(
    int64_t n,
    Tree tree,
    int32_t node,
    int64_t first,
    const int64_t[::1] outputs,
    const int32_t[:, ::1] number,
    Room room,
) noexcept nogil:
    """Write T of a split for each output, and add what its feature does with the others on the way."""
    cdef int64_t level = tree.level[node], n_q = tree.n_quadrature, c, x, begin
    cdef int32_t edge, pair
    cdef double* T = &room.from_right[0]
    if node > 0 and tree.walk.left[tree.parent[node]] == node:
        T = &room.from_left[level - 1, 0]
    for c in range(outputs.shape[0]):
        begin = c * n * n_q
        combine(
            n,
            n_q,
            &room.state[level, 0],
            &room.factor[level, 0],
            &room.product[level, 0],
            &room.from_left[level, begin],
            n_q if tree.walk.left[tree.walk.left[node]] >= 0 else 0,
            &room.from_right[begin],
            n_q if tree.walk.left[tree.walk.right[node]] >= 0 else 0,
            &T[begin],
            &room.S[0],
        )
        for x in range(tree.start[node], tree.start[node + 1]):
            edge = tree.above[x]
            pair = number[tree.walk.feature[node], tree.walk.feature[tree.parent[edge]]]
            if pair >= 0:
                interact(
                    n,
                    n_q,
                    &room.on[tree.level[edge], 0],
                    &tree.derivative[edge, 0],
                    &room.S[0],
                    &room.total[first + outputs[c], pair, 0, 0],
                )


cdef void compare(const floating[:, ::1] column, int64_t n, Tree tree, int32_t node, Room room) noexcept nogil:
    """Write the states of n rows at a split."""
    cdef int64_t r, level = tree.level[node]
    cdef int32_t above = tree.up[tree.walk.left[node]]
    cdef uint8_t* state = &room.state[level, 0]
    cdef const uint8_t* on
    answers(
        &column[tree.walk.feature[node], 0],
        n,
        <floating>tree.threshold[node],
        tree.walk.plain[node],
        tree.walk.missing_left[node],
        tree.walk.zero_is_missing[node],
        tree.walk.category_set[node],
        tree.walk.set_start,
        tree.walk.set_codes,
        tree.walk.listed_left,
        state,
    )
    if above > 0:
        on = &room.on[tree.level[above], 0]
        for r in range(n):
            state[r] = state[r] if on[r] else GONE


cdef void fill(Tree tree, int32_t leaf, const int64_t[::1] outputs, int64_t n, double* T) noexcept nogil:
    """Write T of a leaf, which is the same for all rows, once for each output."""
    cdef int64_t c, q, n_q = tree.n_quadrature
    for c in range(outputs.shape[0]):
        for q in range(n_q):
            T[c * n * n_q + q] = tree.value[leaf, outputs[c]]


cdef void combine(
    int64_t n,
    int64_t n_q,
    const uint8_t* state,
    const double* factor,
    const double* P,
    const double* from_left,
    int64_t step_left,
    const double* from_right,
    int64_t step_right,
    double* T,
    double* S,
) noexcept nogil:
    """Write T and S of a split for one output. The loops are faster if the number of nodes is a constant.

    `T` may be the same memory as `from_right` if that has a line for each row: a line is read before it is written.
    Where all rows share the line of a leaf, it is kept until it has been used.
    """
    if n_q == 4:
        combine_rows(n, 4, state, factor, P, from_left, step_left, from_right, step_right, T, S)
    elif n_q == 8:
        combine_rows(n, 8, state, factor, P, from_left, step_left, from_right, step_right, T, S)
    elif n_q == 12:
        combine_rows(n, 12, state, factor, P, from_left, step_left, from_right, step_right, T, S)
    else:
        combine_rows(n, n_q, state, factor, P, from_left, step_left, from_right, step_right, T, S)


cdef inline void combine_rows(
    int64_t n,
    int64_t n_q,
    const uint8_t* state,
    const double* factor,
    const double* P,
    const double* from_left,
    int64_t step_left,
    const double* from_right,
    int64_t step_right,
    double* T,
    double* S,
) noexcept nogil:
    cdef int64_t r, q
    cdef Lanes right, difference
    cdef const double* left
    cdef const double* g
    for r in range(n - 1, -1, -1):  # from the last one, so that the one line of a leaf is overwritten last
        left = &factor[state[r] * n_q]
        g = &factor[(6 + state[r]) * n_q]
        for q from 0 <= q < n_q by WIDTH:
            right = at(&from_right[r * step_right + q])
            difference = at(&from_left[r * step_left + q]) - right
            put(&S[r * n_q + q], at(&P[r * n_q + q]) * at(&g[q]) * difference)
            put(&T[r * n_q + q], right + at(&left[q]) * difference)


cdef void interact(
    int64_t n, int64_t n_q, const uint8_t* on, const double* derivative, const double* S, double* total
) noexcept nogil:
    """Add S times the derivative by another feature to the sums of a pair."""
    if n_q == 4:
        interact_rows(n, 4, on, derivative, S, total)
    elif n_q == 8:
        interact_rows(n, 8, on, derivative, S, total)
    elif n_q == 12:
        interact_rows(n, 12, on, derivative, S, total)
    else:
        interact_rows(n, n_q, on, derivative, S, total)


cdef inline void interact_rows(
    int64_t n, int64_t n_q, const uint8_t* on, const double* derivative, const double* S, double* total
) noexcept nogil:
    cdef int64_t r, q, lane
    cdef Lanes sums
    cdef const double* by
    for r in range(n):
        by = &derivative[on[r] * n_q]
        for lane from 0 <= lane < LANES by WIDTH:
            sums = at(&total[r * LANES + lane])
            for q from lane <= q < n_q by LANES:
                sums += at(&S[r * n_q + q]) * at(&by[q])
            put(&total[r * LANES + lane], sums)
