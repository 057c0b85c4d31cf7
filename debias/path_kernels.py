"""Compiled loops over the paths of rows: contributions of rows, and the same under permuted responses.

A *dividing split* has evaluation rows on both sides; the others contribute nothing, whatever the responses. They are
numbered from 0 within their tree, parents first. Dividing split d has two *slots*, 2 d + 1 to its left and 2 d + 2 to
its right; slot 0 is the root. A row lies in the deepest slot it reaches, and `slot_of_split` is the slot a dividing
split lies in: both together are the row's path.

Responses have shape (n_rows, n_outputs, n_lanes): permutations go side by side through the innermost loops, which are
written over slices of one row each because that is the form the compiler turns into vector instructions.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def find_slots(left, right, parent, evaluated, trained, leaves, slots, splits, slot_of_split):
    """Find the dividing splits of one tree and the slot of every row; return the number of dividing splits.

    `evaluated` and `trained` are the weights of evaluation and in-bag rows at each node: leaves filled, inner nodes 0.
    """
    slot_of_node = np.zeros(left.size, dtype=np.int32)
    number = np.full(left.size, -1, dtype=np.int32)
    for node in range(left.size - 1, 0, -1):
        evaluated[parent[node]] += evaluated[node]
        trained[parent[node]] += trained[node]
    n = 0
    for node in range(left.size):
        above = parent[node]
        if above >= 0:
            if number[above] < 0:
                slot_of_node[node] = slot_of_node[above]
            else:
                slot_of_node[node] = 2 * number[above] + (1 if left[above] == node else 2)
        a, b = left[node], right[node]
        if a >= 0 and evaluated[a] > 0 and evaluated[b] > 0 and trained[a] > 0 and trained[b] > 0:
            number[node] = n
            splits[n] = node
            slot_of_split[n] = slot_of_node[node]
            n += 1
    for i in range(leaves.size):
        slots[i] = slot_of_node[leaves[i]]
    return n


@njit(cache=True, nogil=True)
def add_at_leaves(leaves, weight, total):
    """Add the weight of every row to its leaf."""
    for i in range(leaves.size):
        total[leaves[i]] += weight[i]


@njit(cache=True, nogil=True)
def look_up(leaves, start, slot_of_node, slots):
    """Write the slot of each row in each tree to `slots` (n_trees, n_rows); `leaves` are (n_rows, n_trees)."""
    for tree in range(start.size - 1):
        for i in range(leaves.shape[0]):
            if leaves[i, tree] >= 0:
                slots[tree, i] = slot_of_node[start[tree] + leaves[i, tree]]


@njit(cache=True, nogil=True)
def sum_slots(slots, weight, y, slot_of_split, sums):
    """Write the weighted sums of the responses in every slot of one tree to `sums` (n_slots, width, n_lanes)."""
    sums[:] = 0.0
    width, lanes = y.shape[1], y.shape[2]
    for i in range(slots.size):
        if weight[i] > 0:
            w, at = np.float64(weight[i]), np.uint64(slots[i])
            for k in range(width):
                total, row = sums[at, k, :], y[np.uint64(i), k, :]
                for b in range(lanes):
                    total[b] += w * row[b]
    for d in range(slot_of_split.size - 1, -1, -1):
        for k in range(width):
            total = sums[slot_of_split[d], k, :]
            left, right = sums[2 * d + 1, k, :], sums[2 * d + 2, k, :]
            for b in range(lanes):
                total[b] += left[b] + right[b]


@njit(cache=True, nogil=True)
def sum_squares_of_blocks(slots, weight, block, slot_of_split, squares):
    """Add to `squares` (n_slots,) the squares of the total weights of the blocks in every slot of one tree.

    Rows of one block stand together; `block` (n_rows,) are its labels.
    """
    total = np.zeros(squares.size)
    of = np.full(squares.size, -1, dtype=np.int64)  # a row of the block that `total` is of
    for i in range(slots.size):
        if weight[i] <= 0:
            continue
        at = np.int64(slots[i])
        while at >= 0:
            if of[at] >= 0 and block[of[at]] != block[i]:
                squares[at] += total[at] ** 2
                total[at] = 0.0
            of[at] = i
            total[at] += weight[i]
            at = np.int64(slot_of_split[(at - 1) >> 1]) if at > 0 else np.int64(-1)
    squares += total**2


@njit(cache=True, nogil=True)
def write_differences(sums, n, step):
    """Write mean on the left less mean on the right of every dividing split to ``step[:, 0]``; `n` are slot weights."""
    for d in range(step.shape[0]):
        a, b = 1 / n[2 * d + 1], 1 / n[2 * d + 2]
        for k in range(step.shape[2]):
            for lane in range(step.shape[3]):
                step[d, 0, k, lane] = a * sums[2 * d + 1, k, lane] - b * sums[2 * d + 2, k, lane]


@njit(cache=True, nogil=True)
def write_class_differences(sums, class_weight, step):
    """Do the same for one-hot responses whose rows weigh in the bag by their class.

    `class_weight` (n_classes,) has the weights; if it is empty, all classes weigh the same in every bag.
    """
    width, lanes = step.shape[2], step.shape[3]
    factor = np.ones((width, lanes))
    for k in range(width):
        for lane in range(lanes):
            if class_weight.size:
                factor[k, lane] = class_weight[k]
            elif sums[0, k, lane] > 0:
                factor[k, lane] = 1 / sums[0, k, lane]
    n = np.zeros((sums.shape[0], lanes))
    for slot in range(sums.shape[0]):
        for k in range(width):
            for lane in range(lanes):
                sums[slot, k, lane] *= factor[k, lane]
                n[slot, lane] += sums[slot, k, lane]
    for d in range(step.shape[0]):
        a, b = 2 * d + 1, 2 * d + 2
        for k in range(width):
            for lane in range(lanes):
                if n[a, lane] > 0 and n[b, lane] > 0:  # not if all rows there have come to be of a class of weight 0
                    step[d, 0, k, lane] = sums[a, k, lane] / n[a, lane] - sums[b, k, lane] / n[b, lane]
                else:
                    step[d, 0, k, lane] = 0.0


@njit(cache=True, nogil=True)
def write_means(sums, n, slot_of_split, step):
    """Write the mean response at every dividing split to ``step[:, 1]``; `n` (n_slots,) are slot weights."""
    for d in range(step.shape[0]):
        at = slot_of_split[d]
        for k in range(step.shape[2]):
            for lane in range(step.shape[3]):
                step[d, 1, k, lane] = sums[at, k, lane] / n[at]


@njit(cache=True, nogil=True)
def contributions(
    begin, end, slots, evaluated, start, slot_of_split, column, factor, step, tree_output, y, weight, phi
):
    """Write the contributions of rows begin..end to `phi` (end - begin, n_columns, n_lanes)."""
    for i in range(begin, end):
        _walk(i, slots, evaluated, start, slot_of_split, column, factor, step, tree_output, y, weight, phi[i - begin])


@njit(cache=True, nogil=True)
def moments(
    begin, end, block, slots, evaluated, start, slot_of_split, column, factor, step, tree_output, y, weight, sums
):
    """Add the contributions of rows begin..end to ``sums[0]``, and squares of their totals by block to ``sums[1]``.

    Rows of one block stand together; `block` (n_rows,) are its labels. `sums` has shape (2, n_columns, n_lanes).
    """
    phi = np.zeros(sums.shape[1:])
    for i in range(begin, end):
        _walk(i, slots, evaluated, start, slot_of_split, column, factor, step, tree_output, y, weight, phi)
        if i + 1 == end or block[i + 1] != block[i]:
            for k in range(phi.shape[0]):
                for b in range(phi.shape[1]):
                    sums[0, k, b] += phi[k, b]
                    sums[1, k, b] += phi[k, b] * phi[k, b]
                    phi[k, b] = 0.0


@njit(cache=True, nogil=True)
def influences(begin, end, slots, in_bag, start, slot_of_split, column, pull, mean, y, psi):
    """Add what the bags' rows begin..end do to the score by the node means they make, to `psi` (n_rows, n_columns).

    `pull` (n_dividing, width) is the derivative of the score by the mean on the left of each dividing split, less
    that on the right; `mean` (n_slots of all trees, width + 1) has the in-bag mean of every slot and its weight.
    """
    width = pull.shape[1]
    for i in range(begin, end):
        for tree in range(start.size - 1):
            if in_bag[tree, i] <= 0:
                continue
            first_slot = 2 * start[tree] + tree
            at = np.int64(slots[tree, i])
            while at > 0:
                d = start[tree] + ((at - 1) >> 1)
                move = 0.0
                for k in range(width):
                    move += pull[d, k] * (y[i, k] - mean[first_slot + at, k])
                move *= in_bag[tree, i] / mean[first_slot + at, width]
                psi[i - begin, column[d]] += -move if (at - 1) & 1 else move
                at = np.int64(slot_of_split[d])


@njit(cache=True, nogil=True)
def _walk(i, slots, evaluated, start, slot_of_split, column, factor, step, tree_output, y, weight, phi):
    """Add the contributions of row i to `phi` (n_columns, n_lanes).

    On its way a row adds weight x factor x (difference of the children's values) x (its response less the node's mean).
    """
    width, lanes = step.shape[2], step.shape[3]
    one = np.uint64(1)
    for tree in range(start.size - 1):
        if not evaluated[tree, i]:
            continue
        begin, first = np.uint64(start[tree]), tree_output[tree]
        at = np.uint64(slots[tree, i])
        while at > 0:
            d, side = begin + ((at - one) >> one), (at - one) & one
            c = weight[i] * factor[d, side]
            into = phi[np.uint64(column[d]), :]
            for k in range(width):
                difference, mean, response = step[d, 0, k, :], step[d, 1, k, :], y[np.uint64(i), first + k, :]
                for b in range(lanes):
                    into[b] += c * difference[b] * (response[b] - mean[b])
            at = np.uint64(slot_of_split[d])
