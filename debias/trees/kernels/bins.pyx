"""Compiled loops that route many rows through small trees, by bins.

The thresholds of a feature, over all trees, divide its values into bins. With few bins a value fits into one byte. A
small tree is evaluated from its leaves up: at every split, a loop without branches chooses the result of the left or
the right child, for a few thousand rows at once. Processors do this for 16 to 64 rows in one step, so visiting every
split of a tree costs less than following each row along its path.

Over 500 lines: all loops work on these bins and on the one evaluation of a tree.
"""

from cython cimport floating
from libc.math cimport INFINITY, isnan
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

import numpy as np

cdef enum:
    # A place then takes 4 kB, so that the few places of a small tree stay in the cache.
    ROWS_AT_ONCE = 4096
    # Kinds of steps, see `compile_trees`.
    SPLIT = 0
    SUBTREE = 1
    LEVEL = 2
    LEVELS_OF_SUBTREE = 3
    # Trees whose sums are added up together: the processor works on one while it waits for the sums of another.
    TREES_AT_ONCE = 4
    # Largest number of leaves of a tree.
    LEAVES = 256
    SPLITS_OF_SUBTREE = 7

STEP = 24
"""Numbers of a step."""


def compile_trees(
    const int64_t[::1] start,
    const int32_t[::1] left,
    const int32_t[::1] right,
    const int32_t[::1] feature,
    const int64_t[::1] code,
    const uint8_t[::1] missing_left,
    int64_t n_features,
    int32_t[:, ::1] steps,
    int64_t[::1] step_start,
    int32_t[::1] leaf,
    int64_t[::1] leaf_start,
):
    """Write each tree as steps (STEP numbers each), at most one per split: the kind of the step and its place, then

    - SPLIT: a column of codes, the largest code that goes left, and the places of the results of both children. A
      place -1 - r stands for the leaf with number r within the tree.
    - SUBTREE: the columns of the 7 splits of a tree of three levels, their codes, and the numbers of its 8 leaves. The
      children of split k are 2 k + 1 and 2 k + 2. Where the tree has fewer splits, a leaf is repeated.
    - LEVEL: a column, a code, and whether it is the first level of a tree with one split in each level. The number of
      the leaf then has one bit for each level.

    Children come before their parent, so the last step of a tree gives the result. `leaf` lists the nodes of the leaves
    of each tree by their numbers. Return the number of steps, and the largest number of places that a tree needs.
    """
    cdef int64_t largest = np.diff(start).max(initial=0)
    cdef int32_t[::1] place = np.empty(largest, dtype=np.int32), stack = np.empty(largest, dtype=np.int32)
    cdef int32_t[::1] free = np.empty(largest, dtype=np.int32), height = np.empty(largest, dtype=np.int32)
    cdef uint8_t[::1] turn = np.empty(largest, dtype=np.uint8)
    cdef int32_t[::1] column = np.empty(largest, dtype=np.int32)
    cdef int64_t tree, root, size, node, at, top, n_free, n_places, n_steps = 0, n_leaves = 0, most = 1
    cdef int32_t[2] children
    cdef int32_t child
    cdef int32_t* step
    with nogil:
        for tree in range(start.shape[0] - 1):
            root, size = start[tree], start[tree + 1] - start[tree]
            for node in range(size):
                if left[root + node] < 0:
                    place[node] = -1 - (n_leaves - leaf_start[tree])
                    leaf[n_leaves] = node
                    n_leaves += 1
                column[node] = feature[root + node] + (n_features if missing_left[root + node] else 0)
            leaf_start[tree + 1] = n_leaves
            for node in range(size - 1, -1, -1):
                at, height[node] = root + node, 0
                if left[at] >= 0:
                    height[node] = 1 + max(height[left[at]], height[right[at]])
            if height[0] > LEVELS_OF_SUBTREE and is_by_levels(
                &left[root], &right[root], &code[root], column, place, height[0], size, stack
            ):
                node = 0
                while height[node]:
                    step = &steps[n_steps, 0]
                    step[0], step[1], step[2], step[3] = LEVEL, 0, column[node], code[root + node]
                    step[4] = node == 0
                    n_steps += 1
                    node = left[root + node]
                step_start[tree + 1] = n_steps
                continue
            # Children before their parent: `turn` counts the children of a node that were visited.
            turn[:] = 0
            stack[0], top = 0, 1
            n_free = n_places = 0
            while top:
                node = stack[top - 1]
                at = root + node
                if height[node] > LEVELS_OF_SUBTREE and turn[node] < 2:
                    stack[top] = left[at] if turn[node] == 0 else right[at]
                    turn[node] += 1
                    top += 1
                    continue
                top -= 1
                if left[at] < 0:
                    continue
                step = &steps[n_steps, 0]
                n_steps += 1
                if 1 < height[node] <= LEVELS_OF_SUBTREE:
                    step[0] = SUBTREE
                    write_subtree(&left[root], &right[root], &code[root], column, place, node, 0, step)
                    children[0] = children[1] = -1
                else:
                    children[0], children[1] = place[left[at]], place[right[at]]
                    step[0], step[2], step[3] = SPLIT, column[node], code[at]
                    step[4], step[5] = children[0], children[1]
                # A result has a place of its own while both children are read; theirs are free from then on.
                if n_free:
                    n_free -= 1
                    place[node] = free[n_free]
                else:
                    place[node] = n_places
                    n_places += 1
                step[1] = place[node]
                for child in children:
                    if child >= 0:
                        free[n_free] = child
                        n_free += 1
            step_start[tree + 1] = n_steps
            most = max(most, n_places)
    return n_steps, most


cdef void write_subtree(
    const int32_t* left,
    const int32_t* right,
    const int64_t* code,
    const int32_t[::1] column,
    const int32_t[::1] place,
    int64_t node,
    int64_t k,
    int32_t* step,
) noexcept nogil:
    """Write a node, and all below it, as split or leaf `k` of a subtree."""
    if k >= SPLITS_OF_SUBTREE:
        step[2 + SPLITS_OF_SUBTREE + k] = -1 - place[node]
        return
    if left[node] >= 0:
        step[2 + k], step[2 + SPLITS_OF_SUBTREE + k] = column[node], code[node]
    else:  # both sides are this leaf, so any split will do
        step[2 + k], step[2 + SPLITS_OF_SUBTREE + k] = step[2], step[2 + SPLITS_OF_SUBTREE]
    write_subtree(left, right, code, column, place, left[node] if left[node] >= 0 else node, 2 * k + 1, step)
    write_subtree(left, right, code, column, place, right[node] if left[node] >= 0 else node, 2 * k + 2, step)


cdef bint is_by_levels(
    const int32_t* left,
    const int32_t* right,
    const int64_t* code,
    const int32_t[::1] column,
    const int32_t[::1] place,
    int64_t n_levels,
    int64_t size,
    int32_t[::1] level,
) noexcept nogil:
    """Whether all nodes of a level have the same split, and leaves are numbered from left to right.

    `level` is memory for the nodes of a level.
    """
    cdef int64_t width = 1, k
    if n_levels > 8 or size != (2 << n_levels) - 1:  # a byte has the bits of 8 levels
        return False
    level[0] = 0
    while width < (1 << n_levels):
        for k in range(width):
            if left[level[k]] < 0 or column[level[k]] != column[level[0]] or code[level[k]] != code[level[0]]:
                return False
        for k in range(width - 1, -1, -1):  # from the end, where nothing is read any more
            level[2 * k + 1] = right[level[k]]
            level[2 * k] = left[level[k]]
        width *= 2
    for k in range(width):
        if place[level[k]] != -1 - k:
            return False
    return True


def encode(
    const floating[:, ::1] X,
    const floating[::1] cuts,
    const int64_t[::1] cut_start,
    const int64_t[::1] columns,
    uint8_t[:, ::1] codes,
):
    """Write the number of cuts below each value to `codes` (2 * n_features, n_rows), for the features `columns`.

    A value lies at or below cut k if its code is at most k. A missing value has the highest code in the first half,
    which goes right at every split, and code 0 in the second half, which goes left at every split.
    """
    cdef int64_t n_rows = X.shape[0], n_features = X.shape[1], j, k, cut, n_cuts, begin, size, i
    cdef int widest, width
    cdef uint8_t[256] at
    cdef floating[256] x
    cdef floating[256] padded
    with nogil:
        for j in range(columns.shape[0]):
            k = columns[j]
            n_cuts = cut_start[k + 1] - cut_start[k]
            for cut in range(256):
                # No value lies above infinity, so bisection in steps of powers of two needs no check of the end.
                padded[cut] = cuts[cut_start[k] + cut] if cut < n_cuts else INFINITY
            widest = 1
            while 2 * widest <= n_cuts:
                widest *= 2
            for begin in range(0, n_rows, 256):
                size = min(256, n_rows - begin)
                for i in range(size):
                    x[i] = X[begin + i, k]
                    at[i] = 0
                width = widest
                while width:  # one step of bisection for all values at once, so that no value waits for another step
                    halve(x, padded, width, at, size)
                    width //= 2
                for i in range(size):
                    # There are at most 255 cuts, so 255 lies above all of them: it goes right at every split.
                    codes[k, begin + i] = 255 if isnan(x[i]) else at[i]
                    codes[n_features + k, begin + i] = 0 if isnan(x[i]) else at[i]


cdef inline void halve(const floating* x, const floating* cuts, int width, uint8_t* at, int64_t size) noexcept nogil:
    """Add `width` to the code of each value that lies above as many more cuts."""
    cdef int64_t i
    for i in range(size):
        at[i] += width if x[i] > cuts[at[i] + width - 1] else 0


def route(
    const uint8_t[:, ::1] codes,
    const int64_t[::1] trees,
    const int32_t[:, ::1] steps,
    const int64_t[::1] step_start,
    int64_t n_places,
    const int32_t[::1] leaf,
    const int64_t[::1] leaf_start,
    int32_t[:, ::1] leaves,
):
    """Write the leaf of each row in each of `trees` to `leaves` (len(trees), n_rows)."""
    cdef int64_t n_rows = codes.shape[1], block, begin, end, j, i, first
    cdef uint8_t[:, ::1] places = np.empty((n_places, ROWS_AT_ONCE), dtype=np.uint8)
    cdef const uint8_t* reached
    with nogil:
        for block in range((n_rows + ROWS_AT_ONCE - 1) // ROWS_AT_ONCE):
            begin = block * ROWS_AT_ONCE
            end = min(begin + ROWS_AT_ONCE, n_rows)
            for j in range(trees.shape[0]):
                # All trees see one block of rows before the next one: `places` has the results of one block only.
                reached = evaluate(codes, begin, end, steps, step_start[trees[j]], step_start[trees[j] + 1], places)
                first = leaf_start[trees[j]]
                for i in range(end - begin):
                    leaves[j, begin + i] = leaf[first + reached[i]]


def number(
    const uint8_t[:, ::1] codes,
    const int64_t[::1] trees,
    const int32_t[:, ::1] steps,
    const int64_t[::1] step_start,
    int64_t n_places,
    uint8_t[:, ::1] numbers,
):
    """Write the number of the leaf of each row in each of `trees` to `numbers` (len(trees), n_rows)."""
    cdef int64_t n_rows = codes.shape[1], begin = 0, end, j
    cdef uint8_t[:, ::1] places = np.empty((n_places, ROWS_AT_ONCE), dtype=np.uint8)
    with nogil:
        while begin < n_rows:
            end = min(begin + ROWS_AT_ONCE, n_rows)
            for j in range(trees.shape[0]):
                memcpy(
                    &numbers[j, begin],
                    evaluate(codes, begin, end, steps, step_start[trees[j]], step_start[trees[j] + 1], places),
                    end - begin,
                )
            begin = end


def add_values(
    const uint8_t[:, ::1] codes,
    const int64_t[::1] trees,
    const int32_t[:, ::1] steps,
    const int64_t[::1] step_start,
    int64_t n_places,
    const int32_t[::1] leaf,
    const int64_t[::1] leaf_start,
    const int64_t[::1] tree_start,
    const double[:, ::1] terms,
    double[::1] n,
    double[:, ::1] s,
    double[::1] q,
    const double[:, ::1] value,
    double[::1] raw,
):
    """Add rows to the sums at the leaves of trees that feed the same output, and leaf values to the output of rows.

    `terms` (n_rows, 4) are the numbers that each row adds: its weight, the weight times the response, the weight times
    the squared response, and 0. The 0 makes them four numbers, which the processor adds in one or two steps. The value
    (n_nodes, 1) of the leaf of each row is added to `raw` (n_rows,), tree by tree, unless it is empty.
    """
    cdef int64_t n_rows = codes.shape[1], block, begin, end, j, k, together, tree, r, n_leaves, node
    cdef uint8_t[:, ::1] places = np.empty((n_places, ROWS_AT_ONCE), dtype=np.uint8)
    cdef uint8_t[:, ::1] reached = np.empty((TREES_AT_ONCE, ROWS_AT_ONCE), dtype=np.uint8)
    cdef const uint8_t* of_trees[TREES_AT_ONCE]
    cdef double[4 * LEAVES * TREES_AT_ONCE] total
    cdef double[LEAVES * TREES_AT_ONCE] of_leaf
    cdef double* of_tree
    with nogil:
        for block in range((n_rows + ROWS_AT_ONCE - 1) // ROWS_AT_ONCE):
            begin = block * ROWS_AT_ONCE
            end = min(begin + ROWS_AT_ONCE, n_rows)
            j = 0
            while j < trees.shape[0]:
                together = min(TREES_AT_ONCE, trees.shape[0] - j)
                for k in range(together):
                    tree, of_trees[k] = trees[j + k], &reached[k, 0]
                    memcpy(
                        &reached[k, 0],
                        evaluate(codes, begin, end, steps, step_start[tree], step_start[tree + 1], places),
                        end - begin,
                    )
                    memset(&total[4 * LEAVES * k], 0, (leaf_start[tree + 1] - leaf_start[tree]) * 4 * sizeof(double))
                if together == TREES_AT_ONCE:
                    add_four(reached, &terms[begin, 0], end - begin, total)
                else:
                    for k in range(together):
                        add(&reached[k, 0], &terms[begin, 0], end - begin, &total[4 * LEAVES * k])
                for k in range(together):
                    tree = trees[j + k]
                    n_leaves = leaf_start[tree + 1] - leaf_start[tree]
                    for r in range(n_leaves):
                        node = tree_start[tree] + leaf[leaf_start[tree] + r]
                        of_tree = &total[4 * (LEAVES * k + r)]
                        n[node] += of_tree[0]
                        s[node, 0] += of_tree[1]
                        q[node] += of_tree[2]
                        of_leaf[LEAVES * k + r] = value[node, 0]
                if raw.shape[0]:
                    add_leaf_values(of_trees, together, of_leaf, &raw[begin], 1, end - begin)
                j += together


def add_outputs(
    const uint8_t[:, ::1] codes,
    int64_t first,
    int64_t last,
    const int64_t[::1] trees,
    const int32_t[:, ::1] steps,
    const int64_t[::1] step_start,
    int64_t n_places,
    const int32_t[::1] leaf,
    const int64_t[::1] leaf_start,
    const int64_t[::1] tree_start,
    const int32_t[::1] tree_output,
    const double[:, ::1] value,
    double[:, ::1] raw,
):
    """Add the value of the leaf of each row from `first` to `last` to its outputs `raw`, tree by tree."""
    cdef int64_t begin = first, end, j, k, tree, together
    cdef uint8_t[:, ::1] places = np.empty((n_places, ROWS_AT_ONCE), dtype=np.uint8)
    cdef uint8_t[:, ::1] room = np.empty((TREES_AT_ONCE, ROWS_AT_ONCE), dtype=np.uint8)
    cdef const uint8_t* reached[TREES_AT_ONCE]
    with nogil:
        while begin < last:
            end = min(begin + ROWS_AT_ONCE, last)
            j = 0
            while j < trees.shape[0]:
                together = of_same_outputs(&trees[j], trees.shape[0] - j, tree_output)
                for k in range(together):
                    tree = trees[j + k]
                    memcpy(
                        &room[k, 0],
                        evaluate(codes, begin, end, steps, step_start[tree], step_start[tree + 1], places),
                        end - begin,
                    )
                    reached[k] = &room[k, 0]
                add_values_of(
                    reached, &trees[j], together, leaf, leaf_start, tree_start, tree_output, value, raw, begin, end
                )
                j += together
            begin = end


def add_numbered_outputs(
    const uint8_t[:, ::1] numbers,
    const int64_t[::1] trees,
    const int32_t[::1] leaf,
    const int64_t[::1] leaf_start,
    const int64_t[::1] tree_start,
    const int32_t[::1] tree_output,
    const double[:, ::1] value,
    double[:, ::1] raw,
):
    """Do what `add_outputs` does for rows whose leaves `number` has written, of all trees: `numbers` (n_trees, n_rows).
    """
    cdef int64_t begin = 0, end, j, k, together
    cdef const uint8_t* reached[TREES_AT_ONCE]
    with nogil:
        while begin < numbers.shape[1]:
            end = min(begin + ROWS_AT_ONCE, numbers.shape[1])
            j = 0
            while j < trees.shape[0]:
                together = of_same_outputs(&trees[j], trees.shape[0] - j, tree_output)
                for k in range(together):
                    reached[k] = &numbers[trees[j + k], begin]
                add_values_of(
                    reached, &trees[j], together, leaf, leaf_start, tree_start, tree_output, value, raw, begin, end
                )
                j += together
            begin = end


cdef inline int64_t of_same_outputs(const int64_t* trees, int64_t n_trees, const int32_t[::1] tree_output) noexcept nogil:
    """Return how many of the next trees add to the same outputs as the first: up to four."""
    cdef int64_t k = 1
    while k < min(TREES_AT_ONCE, n_trees) and tree_output[trees[k]] == tree_output[trees[0]]:
        k += 1
    return k


cdef inline void add_values_of(
    const uint8_t** reached,
    const int64_t* trees,
    int64_t n_trees,
    const int32_t[::1] leaf,
    const int64_t[::1] leaf_start,
    const int64_t[::1] tree_start,
    const int32_t[::1] tree_output,
    const double[:, ::1] value,
    double[:, ::1] raw,
    int64_t begin,
    int64_t end,
) noexcept nogil:
    """Add the values of the leaves that rows reach in up to four trees of the same outputs to their outputs `raw`."""
    cdef double[LEAVES * TREES_AT_ONCE] of_leaf
    cdef int64_t output, k, r, tree
    for output in range(value.shape[1]):
        for k in range(n_trees):
            tree = trees[k]
            for r in range(leaf_start[tree + 1] - leaf_start[tree]):
                of_leaf[LEAVES * k + r] = value[tree_start[tree] + leaf[leaf_start[tree] + r], output]
        add_leaf_values(
            reached, n_trees, of_leaf, &raw[begin, tree_output[trees[0]] + output], raw.shape[1], end - begin
        )


cdef inline void add_leaf_values(
    const uint8_t** reached, int64_t n_trees, const double* of_leaf, double* raw, int64_t step, int64_t size
) noexcept nogil:
    """Add the values of the leaves that each row reaches in up to four trees to its output, tree by tree.

    `step` is the distance between the outputs of two rows.
    """
    cdef int64_t i, k
    cdef const uint8_t* a
    cdef const uint8_t* b
    cdef const uint8_t* c
    cdef const uint8_t* d
    if n_trees == TREES_AT_ONCE:
        a, b, c, d = reached[0], reached[1], reached[2], reached[3]
        for i in range(size):
            raw[i * step] = (
                raw[i * step]
                + of_leaf[a[i]]
                + of_leaf[LEAVES + b[i]]
                + of_leaf[2 * LEAVES + c[i]]
                + of_leaf[3 * LEAVES + d[i]]
            )
        return
    for k in range(n_trees):
        a = reached[k]
        for i in range(size):
            raw[i * step] += of_leaf[LEAVES * k + a[i]]


cdef inline void add_four(
    const uint8_t[:, ::1] reached, const double* terms, int64_t size, double* total
) noexcept nogil:
    """Do what `add` does in four trees."""
    cdef int64_t i, k
    cdef double a, b, c, d
    for i in range(size):
        a, b, c, d = terms[4 * i], terms[4 * i + 1], terms[4 * i + 2], terms[4 * i + 3]
        for k in range(TREES_AT_ONCE):
            add_row(&total[4 * (LEAVES * k + reached[k, i])], a, b, c, d)


cdef inline void add(const uint8_t* reached, const double* terms, int64_t size, double* total) noexcept nogil:
    """Add the four terms of each row to the total of the leaf that it reaches."""
    cdef int64_t i
    for i in range(size):
        add_row(&total[4 * reached[i]], terms[4 * i], terms[4 * i + 1], terms[4 * i + 2], terms[4 * i + 3])


cdef inline void add_row(double* sums, double a, double b, double c, double d) noexcept nogil:
    """Add four numbers. They are written after all are read: so this is vector code."""
    a, b, c, d = a + sums[0], b + sums[1], c + sums[2], d + sums[3]
    sums[0], sums[1], sums[2], sums[3] = a, b, c, d


cdef const uint8_t* evaluate(
    const uint8_t[:, ::1] codes,
    int64_t begin,
    int64_t end,
    const int32_t[:, ::1] steps,
    int64_t first_step,
    int64_t last_step,
    uint8_t[:, ::1] places,
) noexcept nogil:
    """Return the number of the leaf that each row from `begin` to `end` reaches in a tree."""
    cdef int64_t size = end - begin, w
    cdef int32_t a, b
    cdef const uint8_t* column
    cdef const int32_t* step
    cdef uint8_t* result = &places[0, 0]
    cdef uint8_t code
    if first_step == last_step:  # a tree of one leaf
        memset(result, 0, size)
    for w in range(first_step, last_step):
        step = &steps[w, 0]
        result = &places[step[1], 0]
        if step[0] == SUBTREE:
            pick_of_subtree(&codes[0, begin], codes.shape[1], step + 2, result, size)
            continue
        column = &codes[step[2], begin]
        code = step[3]
        if step[0] == LEVEL:
            if step[4]:
                memset(result, 0, size)
            add_level(column, code, result, size)
            continue
        a, b = step[4], step[5]
        if a >= 0 and b >= 0:
            pick(column, code, &places[a, 0], &places[b, 0], result, size)
        elif a >= 0:
            pick_or_right(column, code, &places[a, 0], -1 - b, result, size)
        elif b >= 0:
            pick_or_left(column, code, -1 - a, &places[b, 0], result, size)
        else:
            pick_leaf(column, code, -1 - a, -1 - b, result, size)
    return result


# The compiler vectorises these loops because both results are read before one of them is chosen. A child is the result
# of a step, or the number of a leaf.


cdef void add_level(const uint8_t* column, uint8_t code, uint8_t* result, int64_t size) noexcept nogil:
    """Append the bit of a level to the number of the leaf."""
    cdef int64_t i
    for i in range(size):
        result[i] = result[i] + result[i] + (1 if column[i] > code else 0)


cdef void pick_of_subtree(
    const uint8_t* codes, int64_t n_rows, const int32_t* step, uint8_t* result, int64_t size
) noexcept nogil:
    """Choose between the leaves of three levels of splits; `codes` begins at the first row."""
    cdef int64_t i
    cdef const uint8_t* c0 = codes + step[0] * n_rows
    cdef const uint8_t* c1 = codes + step[1] * n_rows
    cdef const uint8_t* c2 = codes + step[2] * n_rows
    cdef const uint8_t* c3 = codes + step[3] * n_rows
    cdef const uint8_t* c4 = codes + step[4] * n_rows
    cdef const uint8_t* c5 = codes + step[5] * n_rows
    cdef const uint8_t* c6 = codes + step[6] * n_rows
    cdef uint8_t k0 = step[7], k1 = step[8], k2 = step[9], k3 = step[10], k4 = step[11], k5 = step[12], k6 = step[13]
    cdef uint8_t l0 = step[14], l1 = step[15], l2 = step[16], l3 = step[17]
    cdef uint8_t l4 = step[18], l5 = step[19], l6 = step[20], l7 = step[21]
    cdef uint8_t a, b, c, d, e, f
    for i in range(size):
        a = l0 if c3[i] <= k3 else l1
        b = l2 if c4[i] <= k4 else l3
        c = l4 if c5[i] <= k5 else l5
        d = l6 if c6[i] <= k6 else l7
        e = a if c1[i] <= k1 else b
        f = c if c2[i] <= k2 else d
        result[i] = e if c0[i] <= k0 else f


cdef void pick(
    const uint8_t* column, uint8_t code, const uint8_t* a, const uint8_t* b, uint8_t* result, int64_t size
) noexcept nogil:
    """Choose between the results of two steps."""
    cdef int64_t i
    cdef uint8_t on_left, on_right
    for i in range(size):
        on_left, on_right = a[i], b[i]
        result[i] = on_left if column[i] <= code else on_right


cdef void pick_or_right(
    const uint8_t* column, uint8_t code, const uint8_t* a, uint8_t right, uint8_t* result, int64_t size
) noexcept nogil:
    """Choose between the result of a step and a leaf."""
    cdef int64_t i
    cdef uint8_t on_left
    for i in range(size):
        on_left = a[i]
        result[i] = on_left if column[i] <= code else right


cdef void pick_or_left(
    const uint8_t* column, uint8_t code, uint8_t left, const uint8_t* b, uint8_t* result, int64_t size
) noexcept nogil:
    """Choose between a leaf and the result of a step."""
    cdef int64_t i
    cdef uint8_t on_right
    for i in range(size):
        on_right = b[i]
        result[i] = left if column[i] <= code else on_right


cdef void pick_leaf(
    const uint8_t* column, uint8_t code, uint8_t left, uint8_t right, uint8_t* result, int64_t size
) noexcept nogil:
    """Choose between two leaves."""
    cdef int64_t i
    for i in range(size):
        result[i] = left if column[i] <= code else right
