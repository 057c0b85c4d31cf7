"""Compiled loops that route rows: a tree divides the rows among its leaves, node by node, as in training.

At every node, one loop without branches divides the rows that arrive. No step of that loop depends on the one before,
and the rule for missing values, zeros and categories is chosen once per node instead of once per row. This takes half
the time of following each row from the root to its leaf.
"""

cimport cython
from cython cimport floating
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

import numpy as np

# `nodes` are the arrays of all trees: tree_start, left, right, feature, threshold (in the precision of X),
# missing_left, zero_is_missing (empty: no zero is missing), category_set (empty: no split is on categories), and the
# category sets: start of each, codes, and whether listed codes go left. `skip` are packed bits of shape
# (len(trees), n_bytes); a set bit is a row to leave out; of shape (0, 0) to leave out none.


def route(
    const floating[:, ::1] X,
    const int64_t[::1] trees,
    tuple nodes,
    const uint8_t[:, :] skip,
    int32_t[:, ::1] leaves,
):
    """Write the leaf of each row in each of `trees` to `leaves` (len(trees), n_rows); -1 where `skip` is set."""
    cdef Nodes ways = Nodes(nodes)
    cdef const floating[::1] threshold = nodes[4]
    cdef Room room = Room(X.shape[0], trees, ways)
    cdef int64_t j, n_leaves
    with nogil:
        for j in range(trees.shape[0]):
            n_leaves = divide(X, trees[j], threshold, ways, skip, j, room)
            write_leaves(room, n_leaves, skip.shape[0] > 0, leaves, j)


def add_codes(
    const floating[:, ::1] X,
    const int64_t[::1] trees,
    tuple nodes,
    const uint8_t[:, :] skip,
    const int64_t[::1] codes,
    const double[::1] weight,
    double[::1] n,
    double[:, ::1] s,
    int32_t[:, ::1] leaves,
):
    """Add rows of a one-hot response to the sums at their leaves; `codes` (n_rows,) are the classes.

    `leaves` is written as by `route`, unless it has no row.
    """
    cdef Nodes ways = Nodes(nodes)
    cdef const floating[::1] threshold = nodes[4]
    cdef Room room = Room(X.shape[0], trees, ways)
    cdef int64_t j, g, n_leaves, node
    cdef uint64_t begin, i
    cdef uint32_t r
    cdef double total
    with nogil:
        for j in range(trees.shape[0]):
            n_leaves = divide(X, trees[j], threshold, ways, skip, j, room)
            begin = 0
            for g in range(n_leaves):
                node = ways.start[trees[j]] + room.leaf[g]
                total = 0.0
                for i in range(begin, room.end[g]):
                    r = room.rows[i]
                    total += weight[r]
                    s[node, codes[r]] += weight[r]
                n[node] += total
                begin = room.end[g]
            if leaves.shape[0]:
                write_leaves(room, n_leaves, skip.shape[0] > 0, leaves, j)


def add_values(
    const floating[:, ::1] X,
    const int64_t[::1] trees,
    tuple nodes,
    const uint8_t[:, :] skip,
    const int32_t[::1] tree_output,
    const double[:, :] values,
    const double[::1] weight,
    double[::1] n,
    double[:, ::1] s,
    double[::1] q,
    int32_t[:, ::1] leaves,
):
    """Add rows of a numeric response (n_rows, n_outputs) to the sums at their leaves.

    `leaves` is written as by `route`, unless it has no row.
    """
    cdef Nodes ways = Nodes(nodes)
    cdef const floating[::1] threshold = nodes[4]
    cdef Room room = Room(X.shape[0], trees, ways)
    cdef int64_t j, g, k, n_leaves, node, first
    cdef uint64_t begin, i
    cdef uint32_t r
    cdef double total, squares, column, y
    with nogil:
        for j in range(trees.shape[0]):
            first = tree_output[trees[j]]
            n_leaves = divide(X, trees[j], threshold, ways, skip, j, room)
            begin = 0
            for g in range(n_leaves):
                node = ways.start[trees[j]] + room.leaf[g]
                total = squares = 0.0
                for i in range(begin, room.end[g]):
                    total += weight[room.rows[i]]
                for k in range(s.shape[1]):
                    column = 0.0
                    for i in range(begin, room.end[g]):
                        r = room.rows[i]
                        y = values[r, first + k]
                        column += weight[r] * y
                        squares += weight[r] * y * y
                    s[node, k] += column
                n[node] += total
                q[node] += squares
                begin = room.end[g]
            if leaves.shape[0]:
                write_leaves(room, n_leaves, skip.shape[0] > 0, leaves, j)


@cython.final
cdef class Nodes:
    """The arrays of all trees, without the thresholds: their precision differs."""

    cdef const int64_t[::1] start, set_start
    cdef const int32_t[::1] left, right, feature, category_set, set_codes
    cdef const uint8_t[::1] missing_left, zero_is_missing, listed_left

    def __init__(self, tuple nodes):
        self.start, self.left, self.right, self.feature = nodes[:4]
        self.missing_left, self.zero_is_missing, self.category_set = nodes[5:8]
        self.set_start, self.set_codes, self.listed_left = nodes[8:]


@cython.final
cdef class Room:
    """Memory for `divide`: two lists of rows in one array, a stack, the leaves, and the end of their rows."""

    cdef uint32_t[::1] rows
    cdef uint64_t[:, ::1] stack
    cdef int32_t[::1] leaf
    cdef uint64_t[::1] end

    def __init__(self, int64_t n_rows, const int64_t[::1] trees, Nodes nodes):
        cdef int64_t j, most = 1
        for j in range(trees.shape[0]):
            most = max(most, nodes.start[trees[j] + 1] - nodes.start[trees[j]])
        # A binary tree of n nodes has (n + 1) / 2 leaves.
        n_leaves = most // 2 + 1
        # 8 more: `list_rows` writes the bits of the last byte that are beyond the last row too.
        self.rows = np.empty(2 * (n_rows + 8), dtype=np.uint32)
        self.stack = np.empty((most + 1, 4), dtype=np.uint64)
        self.leaf, self.end = np.empty(n_leaves, dtype=np.int32), np.empty(n_leaves, dtype=np.uint64)


cdef inline void write_leaves(
    Room room, int64_t n_leaves, bint any_left_out, int32_t[:, ::1] leaves, int64_t j
) noexcept nogil:
    """Write the leaf of each row that `divide` has sorted to row j of `leaves`; -1 for rows that were left out."""
    cdef int64_t g
    cdef uint64_t begin = 0, i
    cdef int32_t leaf
    if any_left_out:
        leaves[j, :] = -1
    for g in range(n_leaves):
        leaf = room.leaf[g]
        for i in range(begin, room.end[g]):
            leaves[j, room.rows[i]] = leaf
        begin = room.end[g]


cdef int64_t divide(
    const floating[:, ::1] X,
    int64_t tree,
    const floating[::1] threshold,
    Nodes nodes,
    const uint8_t[:, :] skip,
    int64_t j,
    Room room,
) noexcept nogil:
    """Sort rows by the leaf that they reach in a tree, and return the number of leaves that are reached.

    The first half of `room.rows` then has the rows, `room.leaf` the leaves, and `room.end` the positions at which the
    rows of each leaf end. Row `j` of `skip` has the bits of the tree.
    """
    cdef uint32_t[::1] rows = room.rows
    cdef uint64_t[:, ::1] stack = room.stack
    cdef uint64_t half = rows.shape[0] // 2, begin = 0, end = list_rows(skip, j, X.shape[0], rows)
    cdef uint64_t swapped, n, n_left, i
    cdef int64_t root = nodes.start[tree], at, which, n_leaves = 0, top = 0
    cdef const floating* column
    cdef const uint32_t* source
    cdef uint32_t* to
    cdef floating t
    cdef bint zero
    if end > 0:
        stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = root, begin, end, 0
        top = 1
    while top:
        top -= 1
        at, begin, end, swapped = stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3]
        while nodes.left[at] >= 0:
            # The two lists take turns. The other side waits in the list it was written to, as the stack remembers.
            source = &rows[swapped * half + begin]
            to = &rows[(1 - swapped) * half + begin]
            n = end - begin
            column = &X[0, nodes.feature[at]]
            t = threshold[at]
            which = nodes.category_set[at] if nodes.category_set.shape[0] else -1
            zero = nodes.zero_is_missing.shape[0] and nodes.zero_is_missing[at]
            if which >= 0 or zero:
                n_left = part_by_rule(column, X.shape[1], t, nodes.missing_left[at], zero, which, nodes, source, to, n)
            elif nodes.missing_left[at]:
                n_left = part_missing_left(column, X.shape[1], t, source, to, n)
            else:
                n_left = part_missing_right(column, X.shape[1], t, source, to, n)
            swapped = 1 - swapped
            if n_left == 0:
                at = root + nodes.right[at]
                continue
            if n_left < n:
                stack[top, 0], stack[top, 1] = root + nodes.right[at], begin + n_left
                stack[top, 2], stack[top, 3] = end, swapped
                top += 1
            at = root + nodes.left[at]
            end = begin + n_left
        # The result is in the first list.
        if swapped:
            for i in range(begin, end):
                rows[i] = rows[half + i]
        room.leaf[n_leaves] = at - root
        room.end[n_leaves] = end
        n_leaves += 1
    return n_leaves


cdef uint64_t list_rows(const uint8_t[:, :] skip, int64_t j, uint64_t n_rows, uint32_t[::1] rows) noexcept nogil:
    """Write the rows whose bit is not set, ascending, and return their number."""
    cdef uint64_t n = 0, i, byte, bits, k
    if skip.shape[0] == 0:
        for i in range(n_rows):
            rows[i] = i
        return n_rows
    for byte in range((n_rows + 7) // 8):
        bits = skip[j, byte]
        for k in range(8):
            rows[n] = byte * 8 + k
            n += 1 - ((bits >> (7 - k)) & 1)
    while n and rows[n - 1] >= n_rows:  # bits of the last byte beyond the last row
        n -= 1
    return n


cdef inline uint64_t part_missing_left(
    const floating* column, int64_t width, floating t, const uint32_t* source, uint32_t* to, uint64_t n
) noexcept nogil:
    """Write rows that go left to the front of `to` and the others to the back; return the number that go left.

    The value of row r is `column[r * width]`. Each row is written to both ends, and the next one overwrites one of the
    two.
    """
    cdef uint64_t n_left = 0, i
    cdef uint32_t r
    cdef uint32_t* back = to + n - 1
    for i in range(n):
        r = source[i]
        to[n_left] = r
        back[n_left] = r
        back -= 1
        n_left += not column[r * width] > t  # true where missing
    return n_left


cdef inline uint64_t part_missing_right(
    const floating* column, int64_t width, floating t, const uint32_t* source, uint32_t* to, uint64_t n
) noexcept nogil:
    """Do the same as `part_missing_left`, with missing values going right."""
    cdef uint64_t n_left = 0, i
    cdef uint32_t r
    cdef uint32_t* back = to + n - 1
    for i in range(n):
        r = source[i]
        to[n_left] = r
        back[n_left] = r
        back -= 1
        n_left += column[r * width] <= t  # false where missing
    return n_left


cdef uint64_t part_by_rule(
    const floating* column,
    int64_t width,
    floating t,
    bint missing_left,
    bint zero,
    int64_t which,
    Nodes nodes,
    const uint32_t* source,
    uint32_t* to,
    uint64_t n,
) noexcept nogil:
    """Do the same as `part_missing_left`, at a split on categories or one that treats zeros as missing."""
    cdef uint64_t n_left = 0, i
    cdef uint32_t r
    cdef uint32_t* back = to + n - 1
    for i in range(n):
        r = source[i]
        to[n_left] = r
        back[n_left] = r
        back -= 1
        n_left += goes_left(
            column[r * width], t, missing_left, zero, which, nodes.set_start, nodes.set_codes, nodes.listed_left
        )
    return n_left
