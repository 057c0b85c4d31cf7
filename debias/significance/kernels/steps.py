"""Compiled loops over permuted responses (see debias.significance.permutation): the steps at the dividing splits.

The innermost loops compute several permutations together, as lanes; see debias.significance.kernels.feature_paths.
"""

import numpy as np
from numba import njit

from debias.rows.kernels.paths import _sum_slots
from debias.significance.kernels.feature_paths import ROUNDING

VALUES, SHARES, WEIGHED = 0, 1, 2
"""Responses are numbers; one-hot columns of all classes but the first; or of all classes, with weights in the bags."""


@njit(cache=True, nogil=True)
def put_in_order(orders, response, drawn):
    """Write the responses (n_rows, n_outputs) in each of the orders (lanes, n_rows) to `drawn`, lanes innermost."""
    for i in range(response.shape[0]):
        for lane in range(orders.shape[0]):
            for k in range(response.shape[1]):
                drawn[i, k, lane] = response[orders[lane, i], k]


@njit(cache=True, nogil=True)
def write_steps(
    begin,
    end,
    slots,
    in_bag,
    evaluated,
    weight,
    y,
    lanes,
    kind,
    tree_output,
    start,
    slot_of_split,
    n_in_bag,
    n_evaluated,
    class_weight,
    position,
    of_bag,
    of_rows,
    step,
):
    """Write the steps of trees begin..end for each permuted response to `step` (n_dividing, 2, width x lanes).

    Parameters
    ----------
    in_bag : array of shape (n_trees, n_rows)
        If it has no trees, the differences are not changed.
    y : array of shape (n_rows, n_outputs x lanes)
    lanes : int
    kind : int
        Kind of `y`: VALUES, SHARES or WEIGHED.
    tree_output : array of shape (n_trees,)
        First column of `y` of the response of each tree.
    n_in_bag, n_evaluated : array of shape (n_slots of all trees,)
        In-bag and evaluation weights.
    class_weight : array of shape (n_classes,)
        Weights of the classes, for WEIGHED. If it is empty, all classes have the same weight in every bag.
    position : array of shape (n_dividing,)
        Position of each dividing split in `step`.
    of_bag, of_rows : array of shape (n_slots of the largest tree, width x lanes)
        Memory for sums; integers if all that is summed is integers.
    step
        Mean on the left minus mean on the right, and mean response of the evaluation rows, for every dividing split.
        Differences of SHARES are replaced by their ``contributions.class_product``.
    """
    one = np.ones(weight.size, dtype=np.uint8)
    for tree in range(begin, end):
        splits, to = slot_of_split[start[tree] : start[tree + 1]], position[start[tree] : start[tree + 1]]
        first_slot, n_slots = 2 * start[tree] + tree, 2 * splits.size + 1
        if in_bag.shape[0] > 0:
            sums = of_bag[:n_slots]
            _sum_slots(slots[tree], in_bag[tree], one, y, tree_output[tree], splits, sums)
            if kind == WEIGHED:
                _write_weighed_differences(sums, lanes, class_weight, to, step)
            else:
                _write_differences(sums, n_in_bag[first_slot : first_slot + n_slots], to, step)
            if kind == SHARES:
                _make_products(lanes, to, step)
        sums = of_rows[:n_slots]
        _sum_slots(slots[tree], evaluated[tree], weight, y, tree_output[tree], splits, sums)
        _write_means(sums, n_evaluated[first_slot : first_slot + n_slots], splits, to, step)


@njit(cache=True, nogil=True)
def _write_differences(sums, n, position, step):
    for d in range(position.size):
        into, left, right = step[position[d], 0], sums[2 * d + 1], sums[2 * d + 2]
        for b in range(into.size):
            one, other = left[b] / n[2 * d + 1], right[b] / n[2 * d + 2]
            into[b] = one - other if abs(one - other) > ROUNDING * abs(one) else 0.0


@njit(cache=True, nogil=True)
def _make_products(lanes, position, step):
    total = np.empty(lanes)
    for at in position:
        difference = step[at, 0]
        total[:] = 0.0
        for k in range(difference.size // lanes):
            for b in range(lanes):
                total[b] += difference[k * lanes + b]
        for k in range(difference.size // lanes):
            for b in range(lanes):
                one = difference[k * lanes + b]
                difference[k * lanes + b] = one + total[b] if abs(one + total[b]) > ROUNDING * abs(one) else 0.0


@njit(cache=True, nogil=True)
def _write_weighed_differences(sums, lanes, class_weight, position, step):
    factor = np.ones(step.shape[2])
    for b in range(factor.size):
        if class_weight.size:
            factor[b] = class_weight[b // lanes]
        elif sums[0, b] > 0:
            factor[b] = 1 / sums[0, b]
    n = np.zeros((sums.shape[0], lanes))
    for slot in range(sums.shape[0]):
        for b in range(factor.size):
            n[slot, b % lanes] += sums[slot, b] * factor[b]
    for d in range(position.size):
        for b in range(factor.size):
            a, c, difference = n[2 * d + 1, b % lanes], n[2 * d + 2, b % lanes], 0.0
            if a > 0 and c > 0:  # not if all rows there have come to be of a class of weight 0
                one, other = sums[2 * d + 1, b] * factor[b] / a, sums[2 * d + 2, b] * factor[b] / c
                difference = one - other if abs(one - other) > ROUNDING * abs(one) else 0.0
            step[position[d], 0, b] = difference


@njit(cache=True, nogil=True)
def _write_means(sums, n, slot_of_split, position, step):
    for d in range(position.size):
        into, total, weight = step[position[d], 1], sums[slot_of_split[d]], n[slot_of_split[d]]
        for b in range(into.size):
            into[b] = total[b] / weight
