"""Compiled loops that route rows: a tree divides the rows among its leaves, node by node, as in training.

At every node, one loop without branches divides the rows that arrive. No step of that loop depends on the one before,
and the rule for missing values, zeros and categories is chosen once per node instead of once per row. This takes half
the time of following each row from the root to its leaf. Indices are unsigned, so that numba does not test whether they
are negative. Importing this module imports numba, so the core imports it on first use.
"""

import numpy as np
from numba import njit, uint64

# `nodes` are the arrays of all trees: tree_start, left, right, feature, threshold (in the precision of X),
# missing_left, zero_is_missing (empty: no zero is missing), category_set (empty: no split is on categories), and the
# category sets: start of each, codes, and whether listed codes go left. `skip` are packed bits of shape
# (len(trees), n_bytes); a set bit is a row to leave out; of shape (0, 0) to leave out none.


@njit(cache=True, nogil=True)
def route(X, trees, nodes, skip, leaves):
    """Write the leaf of each row in each of `trees` to `leaves` (len(trees), n_rows); -1 where `skip` is set."""
    work = _room(X.shape[0], trees, nodes[0])
    for j in range(trees.size):
        if skip.size:
            for i in range(X.shape[0]):
                leaves[j, i] = -1
        n_leaves = _divide(X, trees[j], nodes, skip[j : j + 1], work)
        rows, leaf, end = work[0], work[2], work[3]
        begin = uint64(0)
        for g in range(n_leaves):
            for i in range(begin, end[g]):
                leaves[j, rows[i]] = leaf[g]
            begin = end[g]


@njit(cache=True, nogil=True)
def add_codes(X, trees, nodes, skip, codes, weight, n, s):
    """Add rows of a one-hot response to the sums at their leaves; `codes` (n_rows,) are the classes."""
    work = _room(X.shape[0], trees, nodes[0])
    for j in range(trees.size):
        n_leaves = _divide(X, trees[j], nodes, skip[j : j + 1], work)
        rows, leaf, end = work[0], work[2], work[3]
        begin = uint64(0)
        for g in range(n_leaves):
            node = uint64(nodes[0][trees[j]] + leaf[g])
            total = 0.0
            for i in range(begin, end[g]):
                r = rows[i]
                total += weight[r]
                s[node, uint64(codes[r])] += weight[r]
            n[node] += total
            begin = end[g]


@njit(cache=True, nogil=True)
def add_values(X, trees, nodes, skip, tree_output, values, weight, n, s, q):
    """Add rows of a numeric response (n_rows, n_outputs) to the sums at their leaves."""
    work = _room(X.shape[0], trees, nodes[0])
    for j in range(trees.size):
        first = uint64(tree_output[trees[j]])
        n_leaves = _divide(X, trees[j], nodes, skip[j : j + 1], work)
        rows, leaf, end = work[0], work[2], work[3]
        begin = uint64(0)
        for g in range(n_leaves):
            node = uint64(nodes[0][trees[j]] + leaf[g])
            total, squares = 0.0, 0.0
            for i in range(begin, end[g]):
                total += weight[rows[i]]
            for k in range(uint64(s.shape[1])):
                column = 0.0
                for i in range(begin, end[g]):
                    y = values[rows[i], first + k]
                    column += weight[rows[i]] * y
                    squares += weight[rows[i]] * y * y
                s[node, k] += column
            n[node] += total
            q[node] += squares
            begin = end[g]


@njit(cache=True, nogil=True)
def _room(n_rows, trees, start):
    """Return memory for `_divide`: two lists of rows in one array, a stack, the leaves, and the end of their rows."""
    most = 1
    for j in range(trees.size):
        most = max(most, start[trees[j] + 1] - start[trees[j]])
    rows = np.empty(2 * (n_rows + 8), dtype=np.uint32)
    stack = np.empty((most + 1, 4), dtype=np.uint64)
    n_leaves = most // 2 + 1
    return rows, stack, np.empty(n_leaves, dtype=np.int32), np.empty(n_leaves, dtype=np.uint64)


@njit(cache=True, nogil=True)
def _divide(X, tree, nodes, skip, work):
    """Sort rows by the leaf that they reach in a tree, and return the number of leaves that are reached.

    The first array of `work` has the rows in its first half, the third array has the leaves, and the fourth array has
    the positions at which the rows of each leaf end.
    """
    start, left, right, feature, threshold, missing_left, zero_is_missing, category_set = nodes[:8]
    rows, stack, leaf, end = work
    half = uint64(rows.size // 2)
    root = start[tree]
    n_leaves = 0
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = root, 0, _listed_rows(skip, X.shape[0], rows), 0
    top = 1 if stack[0, 2] > 0 else 0
    while top:
        top -= 1
        at, begin, stop, swapped = stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3]
        while left[at] >= 0:
            source, to = swapped * half, (uint64(1) - swapped) * half
            k, t = uint64(feature[at]), threshold[at]
            if (category_set.size and category_set[at] >= 0) or (zero_is_missing.size and zero_is_missing[at]):
                middle = _part_by_rule(X, at, nodes, rows, source, to, begin, stop)
            elif missing_left[at]:
                middle = _part_missing_left(X, k, t, rows, source, to, begin, stop)
            else:
                middle = _part_missing_right(X, k, t, rows, source, to, begin, stop)
            swapped = uint64(1) - swapped
            if middle == begin:
                at = uint64(root + right[at])
                continue
            if middle < stop:
                stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3] = root + right[at], middle, stop, swapped
                top += 1
            at, stop = uint64(root + left[at]), middle
        if swapped:
            for i in range(begin, stop):
                rows[i] = rows[half + i]
        leaf[n_leaves], end[n_leaves] = at - uint64(root), stop
        n_leaves += 1
    return n_leaves


@njit(cache=True, nogil=True)
def _listed_rows(skip, n_rows, rows):
    """Write the rows whose bit is not set, ascending, and return their number."""
    n = uint64(0)
    if skip.size == 0:
        for i in range(uint64(n_rows)):
            rows[i] = i
        return uint64(n_rows)
    for byte in range(uint64((n_rows + 7) // 8)):
        bits = skip[0, byte]
        for k in range(uint64(8)):
            rows[n] = byte * uint64(8) + k
            n += uint64(1) - ((uint64(bits) >> (uint64(7) - k)) & uint64(1))
    while n and rows[n - uint64(1)] >= n_rows:  # bits of the last byte beyond the last row
        n -= uint64(1)
    return n


@njit(cache=True, nogil=True, inline="always")
def _part_missing_left(X, k, t, rows, source, to, begin, stop):
    """Move rows that go left to the front and the others to the back; return the position where the others begin."""
    front, back = begin, stop - uint64(1)
    for i in range(begin, stop):
        r = rows[source + i]
        go_right = uint64(X[uint64(r), k] > t)  # false where missing
        rows[to + front] = r
        rows[to + back] = r
        front += uint64(1) - go_right
        back -= go_right
    return front


@njit(cache=True, nogil=True, inline="always")
def _part_missing_right(X, k, t, rows, source, to, begin, stop):
    """Do the same as `_part_missing_left`, with missing values going right."""
    front, back = begin, stop - uint64(1)
    for i in range(begin, stop):
        r = rows[source + i]
        go_left = uint64(X[uint64(r), k] <= t)  # false where missing
        rows[to + front] = r
        rows[to + back] = r
        front += go_left
        back -= uint64(1) - go_left
    return front


@njit(cache=True, nogil=True)
def _part_by_rule(X, at, nodes, rows, source, to, begin, stop):
    """Do the same as `_part_missing_left`, at a split on categories or one that treats zeros as missing."""
    _, _, _, feature, threshold, missing_left, zero_is_missing, category_set = nodes[:8]
    which = category_set[at] if category_set.size else -1
    zero = zero_is_missing.size > 0 and zero_is_missing[at]
    front, back = begin, stop - uint64(1)
    for i in range(begin, stop):
        r = rows[source + i]
        x = X[uint64(r), uint64(feature[at])]
        go_left = uint64(goes_left(x, threshold[at], missing_left[at], zero, which, nodes[8:]))
        rows[to + front] = r
        rows[to + back] = r
        front += go_left
        back -= uint64(1) - go_left
    return front


@njit(cache=True, nogil=True)
def goes_left(x, threshold, missing_left, zero_is_missing, which, sets):
    """Return whether one value goes left at one split, as `route` decides.

    `which` is the number of the category set of the split, -1 if it has none. Passing `sets` takes several times as
    long as a comparison, so call this only where the threshold alone does not decide.
    """
    if which >= 0:
        return missing_left if np.isnan(x) else listed(x, which, *sets)
    if np.isnan(x) or (zero_is_missing and abs(x) <= 1e-35):
        return missing_left
    return x <= threshold


@njit(cache=True, nogil=True)
def listed(x, which, start, codes, listed_left):
    """Return whether a category goes left at a split with category set `which`."""
    if not -1 < x < 2147483647:  # not a code, so not listed
        return not listed_left[which]
    code, low, high = np.int32(x), start[which], start[which + 1]
    while low < high:
        middle = (low + high) // 2
        if codes[middle] < code:
            low = middle + 1
        else:
            high = middle
    is_listed = low < start[which + 1] and codes[low] == code
    return is_listed == listed_left[which]
