"""Compiled loops over permuted responses (see debias.significance.permutation): the steps at the dividing splits.

The innermost loops compute several permutations together, as lanes; see debias.significance.kernels.feature_paths.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t

import numpy as np

from debias.rows.kernels.paths cimport response_type, share_type, slot_type, sum_slots, sum_type
from debias.significance.kernels.rounding cimport unless_rounding

VALUES, SHARES, WEIGHED = 0, 1, 2
"""Responses are numbers; one-hot columns of all classes but the first; or of all classes, with weights in the bags."""

cdef enum:
    AS_SHARES = 1
    AS_WEIGHED = 2


def put_in_order(const int64_t[:, ::1] orders, const response_type[:, ::1] response, response_type[:, :, ::1] drawn):
    """Write the responses (n_rows, n_outputs) in each of the orders (lanes, n_rows) to `drawn`, lanes innermost."""
    cdef Py_ssize_t i, lane, k
    with nogil:
        for i in range(response.shape[0]):
            for lane in range(orders.shape[0]):
                for k in range(response.shape[1]):
                    drawn[i, k, lane] = response[orders[lane, i], k]


def write_steps(
    Py_ssize_t begin,
    Py_ssize_t end,
    const slot_type[:, ::1] slots,
    const share_type[:, ::1] in_bag,
    const uint8_t[:, ::1] evaluated,
    const double[::1] weight,
    const response_type[:, ::1] y,
    Py_ssize_t lanes,
    int kind,
    const int32_t[::1] tree_output,
    const int64_t[::1] start,
    const int32_t[::1] slot_of_split,
    const double[::1] n_in_bag,
    const double[::1] n_evaluated,
    const double[::1] class_weight,
    const int64_t[::1] position,
    double[:, :, ::1] step,
):
    """Write the steps of trees begin..end for each permuted response to `step` (n_dividing, 2, width x lanes).

    Parameters
    ----------
    in_bag : array of shape (n_trees, n_rows)
        If it has no trees, the differences are not changed.
    weight : array of shape (n_rows,), or empty
        Evaluation weights; empty: all are 1.
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
    step
        Mean on the left minus mean on the right, and mean response of the evaluation rows, for every dividing split.
        Differences of SHARES are replaced by their ``contributions.class_product``.
    """
    cdef Py_ssize_t tree, first, n_rows = slots.shape[1], width = step.shape[2]
    cdef Py_ssize_t n_slots = 2 * int(np.diff(start[begin : end + 1]).max(initial=0)) + 1
    cdef int32_t[::1] rows = np.empty(n_rows, dtype=np.int32)
    cdef double[:, ::1] sums = np.empty((n_slots, width))
    # Sums of whole numbers are exact, so that contributions that should be 0 are 0, and they need less memory.
    cdef int32_t[:, ::1] int_sums = np.empty((n_slots, width), dtype=np.int32)
    cdef double[::1] no_weight = np.empty(0)
    cdef double[::1] total = np.empty(lanes)
    cdef double[::1] factor = np.empty(width)
    cdef double[:, ::1] n_weighed = np.empty((n_slots, lanes))
    with nogil:
        for tree in range(begin, end):
            first = tree_output[tree]
            if in_bag.shape[0] > 0:
                if share_type is uint8_t and response_type is uint8_t:
                    sum_slots(tree, slots, in_bag, no_weight, y, first, start, slot_of_split, rows, int_sums, 0, width)
                    if kind == AS_WEIGHED:
                        _write_weighed_differences(
                            tree, int_sums, start, position, lanes, class_weight, factor, n_weighed, step
                        )
                    else:
                        _write_differences(tree, int_sums, start, position, n_in_bag, step)
                else:
                    sum_slots(tree, slots, in_bag, no_weight, y, first, start, slot_of_split, rows, sums, 0, width)
                    if kind == AS_WEIGHED:
                        _write_weighed_differences(
                            tree, sums, start, position, lanes, class_weight, factor, n_weighed, step
                        )
                    else:
                        _write_differences(tree, sums, start, position, n_in_bag, step)
                if kind == AS_SHARES:
                    _make_products(tree, start, position, lanes, total, step)
            # Evaluation weights of 1 and one-hot columns: these sums are whole numbers too.
            if response_type is uint8_t and weight.shape[0] == 0:
                sum_slots(tree, slots, evaluated, no_weight, y, first, start, slot_of_split, rows, int_sums, 0, width)
                _write_means(tree, int_sums, start, slot_of_split, position, n_evaluated, step)
            else:
                sum_slots(tree, slots, evaluated, weight, y, first, start, slot_of_split, rows, sums, 0, width)
                _write_means(tree, sums, start, slot_of_split, position, n_evaluated, step)


cdef inline void _write_differences(
    Py_ssize_t tree,
    const sum_type[:, ::1] sums,
    const int64_t[::1] start,
    const int64_t[::1] position,
    const double[::1] n,
    double[:, :, ::1] step,
) noexcept nogil:
    cdef Py_ssize_t d, b, at, left, first_slot = 2 * start[tree] + tree
    cdef double n_left, n_right, one, other
    for d in range(start[tree + 1] - start[tree]):
        at = position[start[tree] + d]
        left = 2 * d + 1
        # Both are above 0: a dividing split has in-bag rows on both sides.
        n_left = n[first_slot + left]
        n_right = n[first_slot + left + 1]
        for b in range(sums.shape[1]):
            # A difference that is rounding would be studentised like a real one, so it is made 0.
            one = sums[left, b] / n_left
            other = sums[left + 1, b] / n_right
            step[at, 0, b] = unless_rounding(one - other, one)


cdef inline void _make_products(
    Py_ssize_t tree,
    const int64_t[::1] start,
    const int64_t[::1] position,
    Py_ssize_t lanes,
    double[::1] total,
    double[:, :, ::1] step,
) noexcept nogil:
    cdef Py_ssize_t d, k, b, at, n_columns = step.shape[2] // lanes
    cdef double one
    for d in range(start[tree], start[tree + 1]):
        at = position[d]
        total[:] = 0.0
        for k in range(n_columns):
            for b in range(lanes):
                total[b] += step[at, 0, k * lanes + b]
        for k in range(n_columns):
            for b in range(lanes):
                one = step[at, 0, k * lanes + b]
                # See `contributions.class_product`: the difference of the class that is left out is minus the total.
                step[at, 0, k * lanes + b] = unless_rounding(one + total[b], one)


cdef inline void _write_weighed_differences(
    Py_ssize_t tree,
    const sum_type[:, ::1] sums,
    const int64_t[::1] start,
    const int64_t[::1] position,
    Py_ssize_t lanes,
    const double[::1] class_weight,
    double[::1] factor,
    double[:, ::1] n,
    double[:, :, ::1] step,
) noexcept nogil:
    """Do the same with classes that are weighted; `factor` (width x lanes,) and `n` (n_slots, lanes) are memory."""
    cdef Py_ssize_t d, b, k, at, left, slot, n_splits = start[tree + 1] - start[tree]
    cdef double n_left, n_right, one, other
    for b in range(factor.shape[0]):
        if class_weight.shape[0] > 0:
            factor[b] = class_weight[b // lanes]
        else:
            # Equal weights of the classes in each bag, whose class counts a permutation changes (balanced_subsample).
            factor[b] = 1.0 / sums[0, b] if sums[0, b] > 0 else 1.0
    # A permutation puts other classes into a node, so its in-bag weight is that of this permutation.
    for slot in range(2 * n_splits + 1):
        n[slot, :] = 0.0
        for k in range(factor.shape[0] // lanes):
            for b in range(lanes):
                n[slot, b] += sums[slot, k * lanes + b] * factor[k * lanes + b]
    for d in range(n_splits):
        at = position[start[tree] + d]
        left = 2 * d + 1
        for b in range(factor.shape[0]):
            n_left = n[left, b % lanes]
            n_right = n[left + 1, b % lanes]
            step[at, 0, b] = 0.0
            if n_left > 0 and n_right > 0:  # not if all rows there have come to be of a class of weight 0
                one = sums[left, b] * factor[b] / n_left
                other = sums[left + 1, b] * factor[b] / n_right
                step[at, 0, b] = unless_rounding(one - other, one)


cdef inline void _write_means(
    Py_ssize_t tree,
    const sum_type[:, ::1] sums,
    const int64_t[::1] start,
    const int32_t[::1] slot_of_split,
    const int64_t[::1] position,
    const double[::1] n,
    double[:, :, ::1] step,
) noexcept nogil:
    cdef Py_ssize_t d, b, at, slot, first_slot = 2 * start[tree] + tree
    for d in range(start[tree], start[tree + 1]):
        at = position[d]
        slot = slot_of_split[d]
        for b in range(sums.shape[1]):
            # A dividing split has evaluation rows, so this weight is above 0.
            step[at, 1, b] = sums[slot, b] / n[first_slot + slot]
