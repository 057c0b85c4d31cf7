"""Compiled loops over the paths of rows: their layout, and the contributions of rows to scores.

A *dividing split* has evaluation rows on both sides; other splits contribute 0 for any response. Dividing
splits are numbered from 0 within their tree, parents first. Dividing split d has two *slots*, 2 d + 1 on its left and
2 d + 2 on its right; slot 0 is the root. A row lies in the deepest slot that it reaches, and `slot_of_split` is the
slot that a dividing split lies in. Both together give the path of the row.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t

import numpy as np


def find_slots(
    const int32_t[::1] left,
    const int32_t[::1] right,
    const int32_t[::1] parent,
    double[::1] evaluated,
    double[::1] trained,
    const int32_t[::1] leaves,
    int32_t[::1] slots,
    int32_t[::1] splits,
    int32_t[::1] slot_of_split,
):
    """Find the dividing splits of one tree and the slot of every row; return the number of dividing splits.

    `evaluated` and `trained` are the weights of evaluation rows and in-bag rows in each leaf, and 0 at inner nodes.
    """
    cdef int32_t[::1] slot_of_node = np.zeros(left.shape[0], dtype=np.int32)
    cdef int32_t[::1] number = np.full(left.shape[0], -1, dtype=np.int32)
    cdef Py_ssize_t node, i
    cdef int32_t above, a, b, n = 0
    with nogil:
        # Parents come before their children, so a node is complete when it is added to its parent.
        for node in range(left.shape[0] - 1, 0, -1):
            evaluated[parent[node]] += evaluated[node]
            trained[parent[node]] += trained[node]
        for node in range(left.shape[0]):
            above = parent[node]
            if above >= 0:
                # A split with rows on one side only adds 0: rows below it stay in the slot that they were in.
                if number[above] < 0:
                    slot_of_node[node] = slot_of_node[above]
                else:
                    slot_of_node[node] = 2 * number[above] + (1 if left[above] == node else 2)
            a = left[node]
            b = right[node]
            # In-bag means of both children are divided by their in-bag weights, with permuted responses too.
            if a >= 0 and evaluated[a] > 0 and evaluated[b] > 0 and trained[a] > 0 and trained[b] > 0:
                number[node] = n
                splits[n] = <int32_t> node
                slot_of_split[n] = slot_of_node[node]
                n += 1
        for i in range(leaves.shape[0]):
            slots[i] = slot_of_node[leaves[i]]
    return n


def add_at_leaves(const int32_t[::1] leaves, const share_type[::1] weight, double[::1] total):
    """Add the weight of every row to its leaf."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(leaves.shape[0]):
            total[leaves[i]] += weight[i]


def look_up(
    const int32_t[:, ::1] leaves, const int64_t[::1] start, const int32_t[::1] slot_of_node, int32_t[:, ::1] slots
):
    """Write the slot of each row in each tree to `slots`; `leaves` and `slots` are (n_trees, n_rows)."""
    cdef Py_ssize_t tree, i
    with nogil:
        for tree in range(start.shape[0] - 1):
            for i in range(leaves.shape[1]):
                if leaves[tree, i] >= 0:
                    slots[tree, i] = slot_of_node[start[tree] + leaves[tree, i]]


def sum_trees(
    Py_ssize_t begin,
    Py_ssize_t end,
    const slot_type[:, ::1] slots,
    const share_type[:, ::1] share,
    const double[::1] weight,
    const double[:, ::1] y,
    const int32_t[::1] tree_output,
    const int64_t[::1] start,
    const int32_t[::1] slot_of_split,
    double[:, ::1] sums,
):
    """Write the sums of the responses in every slot of trees begin..end to `sums` (n_slots of all trees, width).

    Row i counts ``share[tree, i] * weight[i]``; its response is as many columns of `y` (n_rows, n_columns) as `sums`
    has, from ``tree_output[tree]`` on.
    """
    cdef Py_ssize_t tree, first, first_slot, n_rows = weight.shape[0]
    cdef int32_t[::1] rows = np.empty(n_rows, dtype=np.int32)
    with nogil:
        for tree in range(begin, end):
            first = tree_output[tree]
            # Each tree before this one has two slots for each of its dividing splits, and one for its root.
            first_slot = 2 * start[tree] + tree
            # A width that the compiler knows makes the usual case, one column, a loop without an inner loop.
            if sums.shape[1] == 1:
                sum_slots(tree, slots, share, weight, y, first, start, slot_of_split, rows, sums, first_slot, 1)
            else:
                sum_slots(
                    tree, slots, share, weight, y, first, start, slot_of_split, rows, sums, first_slot, sums.shape[1]
                )


def sum_squares_of_blocks(
    Py_ssize_t begin,
    Py_ssize_t end,
    const slot_type[:, ::1] slots,
    const uint8_t[:, ::1] evaluated,
    const double[::1] weight,
    const int64_t[::1] block,
    const int64_t[::1] start,
    const int32_t[::1] slot_of_split,
    const double[::1] unit,
    double[::1] squares,
):
    """Write the sums of the squared weights of blocks in every slot of trees begin..end to `squares` (n_slots of all,).

    Only evaluation rows count. The rows of a block must be together; `block` (n_rows,) has the block of each row.
    Weights are multiplied by `unit` (n_slots of all,) before they are squared, or squares of tiny weights would be 0.
    """
    most = int(np.diff(start[begin : end + 1]).max(initial=0))
    cdef double[::1] total = np.empty(2 * most + 1)
    cdef int64_t[::1] row_in_block = np.empty(2 * most + 1, dtype=np.int64)  # a row of the block in `total`
    cdef Py_ssize_t tree, i, slot, at, first_slot, n_slots
    cdef double of_block
    with nogil:
        for tree in range(begin, end):
            first_slot = 2 * start[tree] + tree
            n_slots = 2 * (start[tree + 1] - start[tree]) + 1
            for slot in range(n_slots):
                total[slot] = 0.0
                row_in_block[slot] = -1
                squares[first_slot + slot] = 0.0
            for i in range(weight.shape[0]):
                if not evaluated[tree, i]:
                    continue
                at = slots[tree, i]
                while at >= 0:
                    # The rows of a block are together, so a block ends in a slot when a row of another one comes there.
                    if row_in_block[at] >= 0 and block[row_in_block[at]] != block[i]:
                        of_block = total[at] * unit[first_slot + at]
                        squares[first_slot + at] += of_block * of_block
                        total[at] = 0.0
                    row_in_block[at] = i
                    total[at] += weight[i]
                    # Up the path: (at - 1) >> 1 is the split of this slot, and lies in the slot above.
                    at = slot_of_split[start[tree] + ((at - 1) >> 1)] if at > 0 else -1
            for slot in range(n_slots):
                of_block = total[slot] * unit[first_slot + slot]
                squares[first_slot + slot] += of_block * of_block


def contributions(
    Py_ssize_t begin,
    Py_ssize_t end,
    const slot_type[:, ::1] slots,
    const uint8_t[:, ::1] evaluated,
    const int64_t[::1] start,
    const int32_t[::1] slot_of_split,
    const int32_t[::1] column,
    const double[:, ::1] factor,
    const double[:, :, ::1] step,
    const int32_t[::1] tree_output,
    const double[:, ::1] y,
    const double[::1] weight,
    double[:, ::1] phi,
):
    """Write the contributions of rows begin..end to `phi` (n_rows, n_columns); see `_walk` for the other arguments."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(begin, end):
            _walk(
                i, slots, evaluated, start, slot_of_split, column, factor, step, tree_output, y, weight, &phi[i, 0]
            )


def moments(
    Py_ssize_t begin,
    Py_ssize_t end,
    const int64_t[::1] block,
    const slot_type[:, ::1] slots,
    const uint8_t[:, ::1] evaluated,
    const int64_t[::1] start,
    const int32_t[::1] slot_of_split,
    const int32_t[::1] column,
    const double[:, ::1] factor,
    const double[:, :, ::1] step,
    const int32_t[::1] tree_output,
    const double[:, ::1] y,
    const double[::1] weight,
    double[:, ::1] sums,
):
    """Add the powers of the contributions of rows begin..end, summed by block first, to `sums` (n_powers, n_columns).

    The rows of a block must be together; `block` (n_rows,) has the block of each row. See `_walk` for the other
    arguments.
    """
    cdef double[::1] phi = np.zeros(sums.shape[1])
    cdef Py_ssize_t i
    with nogil:
        for i in range(begin, end):
            _walk(i, slots, evaluated, start, slot_of_split, column, factor, step, tree_output, y, weight, &phi[0])
            # Parts of the rows do not cut a block, so the last row of a part ends one.
            if i + 1 == end or block[i + 1] != block[i]:
                _end_block(phi, sums)


def influences(
    Py_ssize_t begin,
    Py_ssize_t end,
    const slot_type[:, ::1] slots,
    const uint8_t[:, ::1] evaluated,
    const int64_t[::1] start,
    const int32_t[::1] slot_of_split,
    const int32_t[::1] column,
    const double[:, ::1] factor,
    const double[:, :, ::1] step,
    const int32_t[::1] tree_output,
    const double[:, ::1] y,
    const double[::1] weight,
    const share_type[:, ::1] in_bag,
    const double[:, ::1] pull,
    const double[:, ::1] mean,
    double[:, ::1] phi,
):
    """Write to `phi` (end - begin, n_columns) the contributions of rows, with their effects through the in-bag means.

    `pull` (n_dividing, width) is the derivative of the score with respect to the mean on the left of each dividing
    split, minus the mean on the right. `mean` (n_slots of all trees, width + 1) has the in-bag mean of every slot and
    its weight.
    """
    cdef Py_ssize_t i
    cdef double* of_row
    with nogil:
        for i in range(begin, end):
            of_row = &phi[i - begin, 0]
            _walk(i, slots, evaluated, start, slot_of_split, column, factor, step, tree_output, y, weight, of_row)
            _walk_in_bags(i, slots, in_bag, start, slot_of_split, column, pull, mean, y, of_row)


cdef inline void _walk(
    Py_ssize_t i,
    const slot_type[:, ::1] slots,
    const uint8_t[:, ::1] evaluated,
    const int64_t[::1] start,
    const int32_t[::1] slot_of_split,
    const int32_t[::1] column,
    const double[:, ::1] factor,
    const double[:, :, ::1] step,
    const int32_t[::1] tree_output,
    const double[:, ::1] y,
    const double[::1] weight,
    double* phi,
) noexcept nogil:
    """Add the contributions of row i to `phi` (n_columns,).

    At each split of its path a row adds weight x factor x (difference of the values of the children) x (its response
    minus the mean of the node).
    """
    cdef Py_ssize_t tree, at, d, k, first_split, first, width = step.shape[2]
    cdef double product, w = weight[i]
    for tree in range(start.shape[0] - 1):
        if not evaluated[tree, i]:
            continue
        first_split = start[tree]
        first = tree_output[tree]
        at = slots[tree, i]
        # From the deepest slot up: (at - 1) >> 1 is the split of a slot, and (at - 1) & 1 is 1 on its right.
        while at > 0:
            d = first_split + ((at - 1) >> 1)
            product = 0.0
            for k in range(width):
                # The mean is subtracted before the product, so that responses far from 0 lose fewer digits.
                product += step[d, 0, k] * (y[i, first + k] - step[d, 1, k])
            phi[column[d]] += w * factor[d, (at - 1) & 1] * product
            at = slot_of_split[d]


cdef inline void _walk_in_bags(
    Py_ssize_t i,
    const slot_type[:, ::1] slots,
    const share_type[:, ::1] in_bag,
    const int64_t[::1] start,
    const int32_t[::1] slot_of_split,
    const int32_t[::1] column,
    const double[:, ::1] pull,
    const double[:, ::1] mean,
    const double[:, ::1] y,
    double* phi,
) noexcept nogil:
    """Add to `phi` the effect of row i on the score through the in-bag means of the nodes."""
    cdef Py_ssize_t tree, at, d, k, first_split, first_slot, width = pull.shape[1]
    cdef double move, w
    for tree in range(start.shape[0] - 1):
        if in_bag[tree, i] <= 0:
            continue
        w = in_bag[tree, i]
        first_split = start[tree]
        first_slot = 2 * first_split + tree
        at = slots[tree, i]
        while at > 0:
            d = first_split + ((at - 1) >> 1)
            move = 0.0
            for k in range(width):
                move += pull[d, k] * (y[i, k] - mean[first_slot + at, k])
            # A row of weight w moves the mean of a node of weight n by w / n times its deviation from it.
            move *= w / mean[first_slot + at, width]
            # `pull` is that of the left mean minus that of the right one: on the right the sign is the other one.
            phi[column[d]] += -move if (at - 1) & 1 else move
            at = slot_of_split[d]


cdef inline void _end_block(double[::1] phi, double[:, ::1] sums) noexcept nogil:
    """Add the powers of the contributions of a block to the sums, and set the contributions to 0."""
    cdef Py_ssize_t k, exponent
    cdef double power
    # Rows of a block depend on one another, so the powers are those of its total and not of its rows.
    for k in range(phi.shape[0]):
        power = 1.0
        for exponent in range(sums.shape[0]):
            power *= phi[k]
            sums[exponent, k] += power
        phi[k] = 0.0
