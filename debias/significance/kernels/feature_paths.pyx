"""Compiled loops over paths ordered by feature (debias.significance.feature_paths), for many permutations at once.

The innermost loops compute several permutations together, as *lanes*. In each row of an array
the lanes of column 0 come first, then those of column 1, and so on. These loops take pointers and a number of values,
so that the compiler can use vector instructions.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t

import numpy as np

from debias.rows.kernels.paths cimport response_type, slot_type
from debias.significance.kernels.rounding cimport unless_rounding


cdef enum:
    AT_ONCE = 64  # number of rows whose contributions are added up together

ctypedef fused place_type:
    uint16_t
    int32_t


def places_above(
    Py_ssize_t begin,
    Py_ssize_t end,
    const int64_t[::1] start,
    const int32_t[::1] slot_of_split,
    const int32_t[::1] column,
    const int64_t[::1] position,
    const int32_t[::1] place,
    int32_t[::1] above,
):
    """Write the deepest place of the same column on the path to each split of trees begin..end to `above`; -1: none.

    Place and position of a split, and the order of `above`, are those of ``FeaturePaths``.
    """
    cdef Py_ssize_t tree, d, at, upper
    with nogil:
        for tree in range(begin, end):
            for d in range(start[tree], start[tree + 1]):
                above[position[d]] = -1
                at = slot_of_split[d]
                while at > 0:
                    upper = start[tree] + ((at - 1) >> 1)
                    if column[upper] == column[d]:
                        # The side of the upper split that the path takes: the next place if it goes right.
                        above[position[d]] = <int32_t> (place[upper] + ((at - 1) & 1))
                        break
                    at = slot_of_split[upper]


def count_visits(
    Py_ssize_t begin,
    Py_ssize_t end,
    const slot_type[:, ::1] slots,
    const uint8_t[:, ::1] evaluated,
    const int64_t[::1] start,
    const int32_t[::1] slot_of_split,
    const int32_t[::1] column,
    int64_t[::1] n_visits,
    int64_t[::1] n_rows,
):
    """Count, for rows begin..end and each column, the visits (one per row and tree) and the rows with a visit."""
    cdef int64_t[::1] last = np.full(n_visits.shape[0], -1, dtype=np.int64)
    cdef Py_ssize_t i, tree, d, at, k, n_trees = start.shape[0] - 1
    cdef int64_t now
    with nogil:
        for i in range(begin, end):
            for tree in range(n_trees):
                if not evaluated[tree, i]:
                    continue
                # A number for each pair of row and tree that only grows, so that `last` is never cleared.
                now = i * n_trees + tree
                at = slots[tree, i]
                while at > 0:
                    d = start[tree] + ((at - 1) >> 1)
                    k = column[d]
                    # The walk goes up, so the first place of a column that it meets is the deepest one. Places are
                    # cumulated, so this one is enough. `last` also tells whether an earlier tree met the row.
                    if last[k] < now:
                        n_visits[k] += 1
                        n_rows[k] += last[k] < i * n_trees
                        last[k] = now
                    at = slot_of_split[d]


def list_visits(
    Py_ssize_t begin,
    Py_ssize_t end,
    const slot_type[:, ::1] slots,
    const uint8_t[:, ::1] evaluated,
    const int64_t[::1] start,
    const int32_t[::1] slot_of_split,
    const int32_t[::1] column,
    const int32_t[::1] place,
    int64_t[::1] visit,
    int64_t[::1] entry,
    place_type[::1] visits,
    int32_t[::1] rows,
    int32_t[::1] sizes,
):
    """Write for each column the rows of begin..end that visit it, the number of visits, and the place of each visit.

    `visit` and `entry` (n_columns,) are the positions where the lists of each column begin, in `visits` and in `rows`
    and `sizes`. They are moved to the ends of the lists.
    """
    cdef int64_t[::1] last = np.full(visit.shape[0], -1, dtype=np.int64)
    cdef Py_ssize_t i, tree, d, at, k, n_trees = start.shape[0] - 1
    cdef int64_t now
    with nogil:
        for i in range(begin, end):
            for tree in range(n_trees):
                if not evaluated[tree, i]:
                    continue
                now = i * n_trees + tree
                at = slots[tree, i]
                while at > 0:
                    d = start[tree] + ((at - 1) >> 1)
                    k = column[d]
                    # The deepest place only, as in `count_visits`, which has told how long the lists are.
                    if last[k] < now:
                        if last[k] < i * n_trees:
                            rows[entry[k]] = <int32_t> i
                            sizes[entry[k]] = 0
                            entry[k] += 1
                        last[k] = now
                        sizes[entry[k] - 1] += 1
                        visits[visit[k]] = <place_type> (place[d] + ((at - 1) & 1))
                        visit[k] += 1
                    at = slot_of_split[d]


def moments(
    const int64_t[:] columns,
    Py_ssize_t begin,
    Py_ssize_t end,
    const place_type[::1] visits,
    const int32_t[::1] rows,
    const int32_t[::1] sizes,
    const int64_t[:, :] visit_start,
    const int64_t[:, :] entry_start,
    const int64_t[::1] first_split,
    const int32_t[::1] above,
    const int32_t[::1] output,
    const double[:, ::1] factor,
    const double[:, :, ::1] step,
    const response_type[:, ::1] y,
    const double[::1] weight,
    const int64_t[::1] block,
    Py_ssize_t lanes,
    double[:, :, :, ::1] sums,
    double[:, ::1] at_places,
):
    """Write sums of contributions, and of squares of their totals by block, of some columns in parts begin..end.

    Parameters
    ----------
    columns : array of int64
    visits, rows, sizes
        As `list_visits` writes them.
    visit_start, entry_start : arrays of shape (n_columns, n_parts + 1)
        Where the lists of each column in each part begin.
    first_split : array of shape (n_columns + 1,)
        Position of the first dividing split of each column in the following arrays.
    above : array of shape (n_dividing,)
    output : array of shape (n_dividing,), or empty
        First output of the tree of each split; empty: all trees have all outputs.
    factor : array of shape (n_dividing, 2)
    step : array of shape (n_dividing, 2, width x lanes)
    y : array of shape (n_rows, n_outputs x lanes)
    weight : array of shape (n_rows,)
    block : array of shape (n_rows,), or empty
        Block of each row; the rows of a block must be together. Empty: every row is a block.
    lanes : int
    sums : array of shape (n_parts, 2, n_columns, lanes)
    at_places : array of shape (n_places, step.shape[2] + lanes)
        Working memory of this thread, with twice as many places as a column has dividing splits, or more.

    Notes
    -----
    A row contributes weight x (response . slope - offset), where slope = sum of factor x difference and
    offset = sum of factor x (difference . mean) over its path. Both are cumulated down the trees, place by place, so
    that a row adds one place for each tree.
    """
    cdef double[::1] along = np.empty(y.shape[1] + lanes)
    cdef double[::1] phi = np.empty(lanes)
    cdef double[::1] of_block = np.zeros(lanes)
    cdef double[:, :, ::1] of_rows = np.zeros((2, 2, lanes))  # sums, and sums of squares, of even and of odd rows
    cdef Py_ssize_t c, k, part, r, e, begins, stop, b, n_outputs = y.shape[1] // lanes
    cdef bint has_blocks = block.shape[0] > 0
    with nogil:
        for c in range(columns.shape[0]):
            k = columns[c]
            _cumulate(first_split[k], first_split[k + 1], above, factor, step, lanes, at_places)
            for part in range(begin, end):
                for b in range(lanes):
                    sums[part, 0, k, b] = 0.0
                    sums[part, 1, k, b] = 0.0
                e = visit_start[k, part]
                begins = entry_start[k, part]
                stop = entry_start[k, part + 1]
                for r in range(begins, stop):
                    if output.shape[0] > 0:
                        _add_places_of_outputs(
                            e, e + sizes[r], visits, output, first_split[k], at_places, lanes, along
                        )
                    else:
                        _add_places(&visits[e], sizes[r], &at_places[0, 0], at_places.shape[1], &along[0])
                    e += sizes[r]
                    _write_contribution(&y[rows[r], 0], weight[rows[r]], &along[0], n_outputs, lanes, &phi[0])
                    if has_blocks:
                        for b in range(lanes):
                            of_block[b] += phi[b]
                        if r + 1 == stop or block[rows[r + 1]] != block[rows[r]]:
                            _add(&of_block[0], lanes, &sums[part, 0, k, 0], &sums[part, 1, k, 0])
                            of_block[:] = 0.0
                        continue
                    # Even and odd rows have sums of their own, so that an addition does not wait for the one before.
                    _add(&phi[0], lanes, &of_rows[(r - begins) & 1, 0, 0], &of_rows[(r - begins) & 1, 1, 0])
                    if r + 1 == stop or (r + 1 - begins) % AT_ONCE == 0:
                        for b in range(lanes):
                            sums[part, 0, k, b] = sums[part, 0, k, b] + of_rows[0, 0, b] + of_rows[1, 0, b]
                            sums[part, 1, k, b] = sums[part, 1, k, b] + of_rows[0, 1, b] + of_rows[1, 1, b]
                        of_rows[:] = 0.0


cdef void _cumulate(
    Py_ssize_t first,
    Py_ssize_t last,
    const int32_t[::1] above,
    const double[:, ::1] factor,
    const double[:, :, ::1] step,
    Py_ssize_t lanes,
    double[:, ::1] at_places,
) noexcept nogil:
    """Write slope and offset at every place of one column to `at_places` (n_places, (width + 1) x lanes)."""
    cdef Py_ssize_t r, side, place, b, k, width = step.shape[2]
    for r in range(first, last):
        for side in range(2):
            place = 2 * (r - first) + side
            for b in range(width):
                at_places[place, b] = factor[r, side] * step[r, 0, b]
            for b in range(lanes):
                at_places[place, width + b] = 0.0
            for k in range(width // lanes):
                for b in range(lanes):
                    at_places[place, width + b] += at_places[place, k * lanes + b] * step[r, 1, k * lanes + b]
            # Splits of a column are in the order of trees, parents first, so the place above is complete.
            if above[r] >= 0:
                for b in range(width + lanes):
                    at_places[place, b] += at_places[above[r], b]


cdef inline void _add_places(
    const place_type* visits, Py_ssize_t n, const double* at_places, Py_ssize_t width, double* along
) noexcept nogil:
    """Write the sums of slopes and offsets over the n places of a row to `along` ((n_outputs + 1) x lanes,)."""
    cdef Py_ssize_t b, e = 0
    cdef const double *p0
    cdef const double *p1
    cdef const double *p2
    cdef const double *p3
    for b in range(width):
        along[b] = 0.0
    # Several at a time, which saves waiting for stored values.
    for e in range(0, n - 3, 4):
        p0 = at_places + visits[e] * width
        p1 = at_places + visits[e + 1] * width
        p2 = at_places + visits[e + 2] * width
        p3 = at_places + visits[e + 3] * width
        for b in range(width):
            along[b] = along[b] + (p0[b] + p1[b]) + (p2[b] + p3[b])
    e = n - n % 4
    if n % 4 >= 2:
        p0 = at_places + visits[e] * width
        p1 = at_places + visits[e + 1] * width
        for b in range(width):
            along[b] += p0[b] + p1[b]
    if n % 2:
        p0 = at_places + visits[n - 1] * width
        for b in range(width):
            along[b] += p0[b]


cdef void _add_places_of_outputs(
    Py_ssize_t begin,
    Py_ssize_t end,
    const place_type[::1] visits,
    const int32_t[::1] output,
    Py_ssize_t first_split,
    const double[:, ::1] at_places,
    Py_ssize_t lanes,
    double[::1] along,
) noexcept nogil:
    """Write the same sums for trees that have their own outputs."""
    cdef Py_ssize_t b, e, place, first, width = at_places.shape[1] - lanes, offset = along.shape[0] - lanes
    along[:] = 0.0
    for e in range(begin, end):
        place = visits[e]
        first = output[first_split + (place >> 1)] * lanes
        for b in range(width):
            along[first + b] += at_places[place, b]
        for b in range(lanes):
            along[offset + b] += at_places[place, width + b]


cdef inline void _write_contribution(
    const response_type* y,
    double weight,
    const double* along,
    Py_ssize_t n_outputs,
    Py_ssize_t lanes,
    double* phi,
) noexcept nogil:
    """Write the contribution of a row to `phi` (lanes,)."""
    cdef Py_ssize_t b, k
    cdef double offset
    for b in range(lanes):
        phi[b] = 0.0
    for k in range(n_outputs):
        for b in range(lanes):
            phi[b] += y[k * lanes + b] * (weight * along[k * lanes + b])
    for b in range(lanes):
        offset = weight * along[n_outputs * lanes + b]
        # What is left where all rows of the nodes have the same response is rounding.
        phi[b] = unless_rounding(phi[b] - offset, offset)


cdef inline void _add(const double* phi, Py_ssize_t lanes, double* total, double* squares) noexcept nogil:
    """Add contributions, and their squares, to sums."""
    cdef Py_ssize_t b
    for b in range(lanes):
        total[b] += phi[b]
        squares[b] += phi[b] * phi[b]
