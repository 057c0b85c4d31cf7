"""Sums over the rows in the slots of a tree, shared with other kernels."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t

ctypedef fused slot_type:
    uint16_t
    int32_t

ctypedef fused share_type:
    uint8_t
    double

ctypedef fused response_type:
    uint8_t
    double

ctypedef fused sum_type:
    int32_t
    double


cdef inline void sum_slots(
    Py_ssize_t tree,
    const slot_type[:, ::1] slots,
    const share_type[:, ::1] share,
    const double[::1] weight,
    const response_type[:, ::1] y,
    Py_ssize_t first_column,
    const int64_t[::1] start,
    const int32_t[::1] slot_of_split,
    int32_t[::1] rows,
    sum_type[:, ::1] sums,
    Py_ssize_t first_slot,
    Py_ssize_t width,
) noexcept nogil:
    """Write the weighted sums of responses in the slots of one tree to the rows of `sums` from `first_slot` on.

    The weight of row i is ``share[tree, i] * weight[i]``, or ``share[tree, i]`` if `weight` is empty; its response
    is as many columns of `y` as `sums` has, from `first_column` on. `rows` (n_rows,) is memory.
    """
    cdef Py_ssize_t b, d, i, r, slot, n = 0
    cdef double w
    for i in range(slots.shape[1]):
        # Every row is written, and the next one overwrites it if it does not count: a branch cannot be predicted.
        rows[n] = <int32_t> i
        n += share[tree, i] != 0
    for slot in range(first_slot, first_slot + 2 * (start[tree + 1] - start[tree]) + 1):
        for b in range(width):
            sums[slot, b] = 0
    for r in range(n):
        i = rows[r]
        slot = first_slot + slots[tree, i]
        if sum_type is int32_t:
            for b in range(width):
                # The product of two bytes fits into 16 bits; so narrow, more of them are multiplied in one step.
                sums[slot, b] += <uint16_t> (share[tree, i] * y[i, first_column + b])
        else:
            w = share[tree, i] * weight[i] if weight.shape[0] > 0 else share[tree, i]
            for b in range(width):
                sums[slot, b] += w * y[i, first_column + b]
    # Splits are numbered parents first, so both sides of a split are complete when they are added to its slot.
    for d in range(start[tree + 1] - start[tree] - 1, -1, -1):
        slot = first_slot + slot_of_split[start[tree] + d]
        for b in range(width):
            sums[slot, b] += sums[first_slot + 2 * d + 1, b] + sums[first_slot + 2 * d + 2, b]
