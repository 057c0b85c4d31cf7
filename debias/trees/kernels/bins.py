"""Compiled loops that route many rows through small trees, by bins.

The thresholds of a feature, over all trees, divide its values into bins. With few bins a value fits into one byte. A
small tree is evaluated from its leaves up: at every split, a loop without branches chooses the result of the left or
the right child, for a few thousand rows at once. Processors do this for 32 or 64 rows in one step, so visiting every
split of a tree costs less than following each row along its path. Importing this module imports numba, so the core
imports it on first use.
"""

import numpy as np
from numba import njit, uint64

ROWS_AT_ONCE = 4096


@njit(cache=True, nogil=True)
def compile_trees(start, left, right, feature, code, missing_left, n_features, steps, step_start, leaf, leaf_start):
    """Write each tree as steps, one per split: a column of codes, the largest code that goes left, and three places.

    The three places are those of the result, of the result of the left child, and of the result of the right child.
    A place -1 - r stands for the leaf with number r within the tree. Children come before their parent, so the last
    step of a tree gives the result. `leaf` lists the nodes of the leaves of each tree by their numbers. Return the
    largest number of places that a tree needs.
    """
    n_steps = n_leaves = 0
    most = 1
    for tree in range(start.size - 1):
        root, size = start[tree], start[tree + 1] - start[tree]
        place = np.zeros(size, dtype=np.int32)
        turn = np.zeros(size, dtype=np.uint8)
        stack, top = np.zeros(size, dtype=np.int32), 1
        free, n_free, n_places = np.zeros(size, dtype=np.int32), 0, 0
        for node in range(size):
            if left[root + node] < 0:
                place[node] = -1 - (n_leaves - leaf_start[tree])
                leaf[n_leaves] = node
                n_leaves += 1
        leaf_start[tree + 1] = n_leaves
        while top:
            node = stack[top - 1]
            at = root + node
            if left[at] < 0 or turn[node] == 2:
                if left[at] >= 0:
                    a, b = place[left[at]], place[right[at]]
                    if n_free:
                        n_free -= 1
                        place[node] = free[n_free]
                    else:
                        place[node] = n_places
                        n_places += 1
                    column = feature[at] + (n_features if missing_left[at] else 0)
                    step = steps[n_steps]
                    step[0], step[1], step[2], step[3], step[4] = column, code[at], place[node], a, b
                    n_steps += 1
                    for child in (a, b):
                        if child >= 0:
                            free[n_free] = child
                            n_free += 1
                top -= 1
            else:
                stack[top] = left[at] if turn[node] == 0 else right[at]
                turn[node] += 1
                top += 1
        step_start[tree + 1] = n_steps
        most = max(most, n_places)
    return most


@njit(cache=True, nogil=True)
def encode(X, cuts, cut_start, columns, codes):
    """Write the number of cuts below each value to `codes` (2 * n_features, n_rows), for the features `columns`.

    A value lies at or below cut k if its code is at most k. A missing value has the highest code in the first half,
    which goes right at every split, and code 0 in the second half, which goes left at every split.
    """
    n_rows, n_features = X.shape
    at = np.empty(256, dtype=np.uint8)
    x = np.empty(256, dtype=X.dtype)
    padded = np.empty(256, dtype=X.dtype)
    for k in columns:
        n_cuts = cut_start[k + 1] - cut_start[k]
        for cut in range(256):
            padded[cut] = cuts[cut_start[k] + cut] if cut < n_cuts else np.inf
        widest = 1
        while 2 * widest <= n_cuts:
            widest *= 2
        for begin in range(0, n_rows, 256):
            size = min(256, n_rows - begin)
            for i in range(size):
                x[i], at[i] = X[begin + i, k], 0
            width = widest
            while width:  # one step of bisection for all values at once, so that no value waits for another step
                _halve(x[:size], padded, np.uint8(width), at[:size])
                width //= 2
            for i in range(size):
                missing = np.isnan(x[i])
                codes[k, begin + i] = np.uint8(255) if missing else at[i]
                codes[n_features + k, begin + i] = np.uint8(0) if missing else at[i]


@njit(cache=True, nogil=True)
def _halve(x, cuts, width, at):
    for i in range(x.size):
        here = at[i]
        above = x[i] > cuts[uint64(here) + uint64(width) - uint64(1)]
        at[i] = here + width if above else here


@njit(cache=True, nogil=True)
def route(codes, trees, steps, step_start, n_places, leaf, leaf_start, leaves):
    """Write the leaf of each row in each of `trees` to `leaves` (len(trees), n_rows)."""
    n_rows = codes.shape[1]
    places = np.zeros((n_places, ROWS_AT_ONCE), dtype=np.uint8)
    for begin in range(0, n_rows, ROWS_AT_ONCE):
        end = min(begin + ROWS_AT_ONCE, n_rows)
        for j in range(trees.size):
            tree = trees[j]
            reached = _evaluate(codes, begin, end, steps[step_start[tree] : step_start[tree + 1]], places)
            numbered = leaf[leaf_start[tree] : leaf_start[tree + 1]]
            for i in range(end - begin):
                leaves[j, begin + i] = numbered[uint64(reached[i])]


@njit(cache=True, nogil=True)
def add_values(codes, trees, steps, step_start, n_places, leaf, leaf_start, tree_start, terms, n, s, q):
    """Add rows to the sums at the leaves of trees that feed the same output.

    `terms` (n_rows, 4) are the numbers that each row adds: its weight, the weight times the response, the weight times
    the squared response, and 0. The 0 makes them four numbers, which the processor adds in one step.
    """
    n_rows = codes.shape[1]
    places = np.zeros((n_places, ROWS_AT_ONCE), dtype=np.uint8)
    total = np.empty((256, 4))
    for begin in range(0, n_rows, ROWS_AT_ONCE):
        end = min(begin + ROWS_AT_ONCE, n_rows)
        for j in range(trees.size):
            tree = trees[j]
            reached = _evaluate(codes, begin, end, steps[step_start[tree] : step_start[tree + 1]], places)
            for r in range(leaf_start[tree + 1] - leaf_start[tree]):
                total[r, 0] = total[r, 1] = total[r, 2] = total[r, 3] = 0.0
            _add(reached, terms[begin:end], total)
            for r in range(leaf_start[tree + 1] - leaf_start[tree]):
                node = tree_start[tree] + leaf[leaf_start[tree] + r]
                n[node] += total[r, 0]
                s[node, 0] += total[r, 1]
                q[node] += total[r, 2]


@njit(cache=True, nogil=True)
def _evaluate(codes, begin, end, steps, places):
    """Return the number of the leaf that each row from `begin` to `end` reaches in a tree."""
    size = end - begin
    for w in range(steps.shape[0]):
        column, code = codes[steps[w, 0], begin:end], np.uint8(steps[w, 1])
        result, a, b = places[steps[w, 2], :size], steps[w, 3], steps[w, 4]
        if a >= 0 and b >= 0:
            _pick(column, code, places[a, :size], places[b, :size], result)
        elif a >= 0:
            _pick_or_right(column, code, places[a, :size], np.uint8(-1 - b), result)
        elif b >= 0:
            _pick_or_left(column, code, np.uint8(-1 - a), places[b, :size], result)
        else:
            _pick_leaf(column, code, np.uint8(-1 - a), np.uint8(-1 - b), result)
    if steps.shape[0] == 0:  # a tree of one leaf
        for i in range(size):
            places[0, i] = 0
        return places[0, :size]
    return places[steps[-1, 2], :size]


# These loops are separate functions because the compiler vectorises them only then.


@njit(cache=True, nogil=True)
def _pick(column, code, a, b, result):
    for i in range(result.size):
        on_left, on_right = a[i], b[i]
        result[i] = on_left if column[i] <= code else on_right


@njit(cache=True, nogil=True)
def _pick_or_right(column, code, a, right, result):
    for i in range(result.size):
        on_left = a[i]
        result[i] = on_left if column[i] <= code else right


@njit(cache=True, nogil=True)
def _pick_or_left(column, code, left, b, result):
    for i in range(result.size):
        on_right = b[i]
        result[i] = left if column[i] <= code else on_right


@njit(cache=True, nogil=True)
def _pick_leaf(column, code, left, right, result):
    for i in range(result.size):
        result[i] = left if column[i] <= code else right


@njit(cache=True, nogil=True)
def _add(reached, terms, total):
    for i in range(reached.size):
        r = uint64(reached[i])
        a, b = total[r, 0] + terms[i, 0], total[r, 1] + terms[i, 1]
        c, d = total[r, 2] + terms[i, 2], total[r, 3] + terms[i, 3]
        total[r, 0], total[r, 1], total[r, 2], total[r, 3] = a, b, c, d
