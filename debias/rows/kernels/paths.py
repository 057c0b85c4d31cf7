"""Compiled loops over the paths of rows: their layout, and the contributions of rows to scores.

A *dividing split* has evaluation rows on both sides; other splits contribute 0 for any response. Dividing
splits are numbered from 0 within their tree, parents first. Dividing split d has two *slots*, 2 d + 1 on its left and
2 d + 2 on its right; slot 0 is the root. A row lies in the deepest slot that it reaches, and `slot_of_split` is the
slot that a dividing split lies in. Both together give the path of the row.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def find_slots(left, right, parent, evaluated, trained, leaves, slots, splits, slot_of_split):
    """Find the dividing splits of one tree and the slot of every row; return the number of dividing splits.

    `evaluated` and `trained` are the weights of evaluation rows and in-bag rows in each leaf, and 0 at inner nodes.
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
def sum_trees(begin, end, slots, share, weight, y, tree_output, start, slot_of_split, sums):
    """Write the sums of the responses in every slot of trees begin..end to `sums` (n_slots of all trees, width).

    Row i counts ``share[tree, i] * weight[i]``; its response is as many columns of `y` (n_rows, n_columns) as `sums`
    has, from ``tree_output[tree]`` on.
    """
    for tree in range(begin, end):
        splits = slot_of_split[start[tree] : start[tree + 1]]
        mine = sums[2 * start[tree] + tree : 2 * start[tree + 1] + tree + 1]
        _sum_slots(slots[tree], share[tree], weight, y, tree_output[tree], splits, mine)


@njit(cache=True, nogil=True)
def _sum_slots(slots, share, weight, y, first, slot_of_split, sums):
    sums[:] = 0
    width = sums.shape[1]
    for i in range(slots.size):
        # Rows that do not count are added too, as 0: a branch would be slower, because it cannot be predicted.
        w, total, row = share[i] * weight[i], sums[np.uint64(slots[i])], y[np.uint64(i), first : first + width]
        for b in range(width):
            total[b] += w * row[b]
    for d in range(slot_of_split.size - 1, -1, -1):
        total, left, right = sums[slot_of_split[d]], sums[2 * d + 1], sums[2 * d + 2]
        for b in range(width):
            total[b] += left[b] + right[b]


@njit(cache=True, nogil=True)
def sum_squares_of_blocks(begin, end, slots, evaluated, weight, block, start, slot_of_split, squares):
    """Write the sums of the squared weights of blocks in every slot of trees begin..end to `squares` (n_slots of all,).

    Only evaluation rows count. The rows of a block must be together; `block` (n_rows,) has the block of each row.
    """
    for tree in range(begin, end):
        first_slot = 2 * start[tree] + tree
        n_slots = 2 * (start[tree + 1] - start[tree]) + 1
        total = np.zeros(n_slots)
        row_in_block = np.full(n_slots, -1, dtype=np.int64)  # a row of the block that is being summed in `total`
        mine = squares[first_slot : first_slot + n_slots]
        mine[:] = 0.0
        for i in range(weight.size):
            if not evaluated[tree, i]:
                continue
            at = np.int64(slots[tree, i])
            while at >= 0:
                if row_in_block[at] >= 0 and block[row_in_block[at]] != block[i]:
                    mine[at] += total[at] ** 2
                    total[at] = 0.0
                row_in_block[at] = i
                total[at] += weight[i]
                at = np.int64(slot_of_split[start[tree] + ((at - 1) >> 1)]) if at > 0 else np.int64(-1)
        mine += total**2


@njit(cache=True, nogil=True)
def contributions(begin, end, of_rows, phi):
    """Write the contributions of rows begin..end to `phi` (n_rows, n_columns).

    `of_rows` are the arguments of `_walk` between `i` and `phi`.
    """
    for i in range(begin, end):
        _walk(i, *of_rows, phi[i])


@njit(cache=True, nogil=True)
def moments(begin, end, block, of_rows, sums):
    """Add the powers of the contributions of rows begin..end, summed by block first, to `sums` (n_powers, n_columns).

    The rows of a block must be together; `block` (n_rows,) has the block of each row.
    """
    phi = np.zeros(sums.shape[1])
    for i in range(begin, end):
        _walk(i, *of_rows, phi)
        _end_of_block(i, end, block, phi, sums)


@njit(cache=True, nogil=True)
def jackknife_moments(begin, end, block, of_rows, in_bag, pull, mean, sums):
    """Do the same as `moments`, including the effect of rows on the score through the in-bag means of the nodes.

    `pull` (n_dividing, width) is the derivative of the score with respect to the mean on the left of each dividing
    split, minus the mean on the right. `mean` (n_slots of all trees, width + 1) has the in-bag mean of every slot and
    its weight.
    """
    slots, _, start, slot_of_split, column, _, _, _, y, _ = of_rows
    phi = np.zeros(sums.shape[1])
    for i in range(begin, end):
        _walk(i, *of_rows, phi)
        _walk_in_bags(i, slots, in_bag, start, slot_of_split, column, pull, mean, y, phi)
        _end_of_block(i, end, block, phi, sums)


@njit(cache=True, nogil=True)
def _walk(i, slots, evaluated, start, slot_of_split, column, factor, step, tree_output, y, weight, phi):
    """Add the contributions of row i to `phi` (n_columns,).

    At each split of its path a row adds weight x factor x (difference of the values of the children) x (its response
    minus the mean of the node).
    """
    width = step.shape[2]
    one = np.uint64(1)
    for tree in range(start.size - 1):
        if not evaluated[tree, i]:
            continue
        begin, first = np.uint64(start[tree]), tree_output[tree]
        at = np.uint64(slots[tree, i])
        while at > 0:
            d, side = begin + ((at - one) >> one), (at - one) & one
            product = 0.0
            for k in range(width):
                product += step[d, 0, k] * (y[i, first + k] - step[d, 1, k])
            phi[column[d]] += weight[i] * factor[d, side] * product
            at = np.uint64(slot_of_split[d])


@njit(cache=True, nogil=True)
def _walk_in_bags(i, slots, in_bag, start, slot_of_split, column, pull, mean, y, phi):
    """Add to `phi` the effect of row i on the score through the in-bag means of the nodes."""
    width = pull.shape[1]
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
            phi[column[d]] += -move if (at - 1) & 1 else move
            at = np.int64(slot_of_split[d])


@njit(cache=True, nogil=True)
def _end_of_block(i, end, block, phi, sums):
    """If row i is the last of its block, add the powers of the contributions of the block to the sums."""
    if i + 1 < end and block[i + 1] == block[i]:
        return
    for k in range(phi.size):
        power = phi[k]
        sums[0, k] += power
        for exponent in range(1, sums.shape[0]):
            power *= phi[k]
            sums[exponent, k] += power
        phi[k] = 0.0
