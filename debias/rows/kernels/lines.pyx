"""Compiled loops over permuted responses for lines at every node (debias.rows.permuted_effects), in single precision.

Responses of 16 permutations are one value (``lanes.h``), and four lines are computed together, a *tile*. The rows of a
tree are sorted by their seat (see debias.rows.kernels.effects), so the sums of a seat stay in registers. Seats are in
the order of a walk that finishes a subtree before the next one (preorder), so the lines of a path are a stack as deep as
the tree.

Over 500 lines, because the loops of one pass over the rows of a tree stand together.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t
from libc.string cimport memset

import numpy as np

cdef extern from "debias/rows/kernels/lanes.h" nogil:
    ctypedef struct lanes:
        pass
    lanes load(const float* address)
    void store(float* address, lanes a)
    lanes spread(float x)
    lanes add(lanes a, lanes b)
    lanes subtract(lanes a, lanes b)
    lanes multiply(lanes a, lanes b)
    void prefetch(const float* address, int n)

cdef enum:
    N_LANES = 16
    TILE = 4  # lines
    OF_LINE = 4 * N_LANES  # numbers of a line that are summed over the path
    AHEAD = 8  # rows whose memory is asked for before it is needed
    AT_ONCE = 64  # rows whose contributions are added in single precision

LANES, LINES, PADDING = N_LANES, TILE, AHEAD

# A feature is constant in a node if its sum of squares about the mean is this small beside that about 0.
cdef double CONSTANT = 1e-12


def order_seats(
    const int32_t[::1] parent, int32_t[::1] position, int32_t[::1] parent_in_order, int32_t[::1] depth
):
    """Write the position of each seat of one tree in preorder, and the parents and depths of the seats in that order.

    `parent` (n_seats,) has parents first, and -1 for the root.
    """
    cdef Py_ssize_t seat, n_seats = parent.shape[0]
    cdef int32_t[::1] size = np.ones(n_seats, dtype=np.int32)
    cdef int32_t[::1] free = np.empty(n_seats, dtype=np.int32)  # where the next child of each seat goes
    with nogil:
        for seat in range(n_seats - 1, 0, -1):
            size[parent[seat]] += size[seat]
        for seat in range(n_seats):
            position[seat] = 0 if seat == 0 else free[parent[seat]]
            free[seat] = position[seat] + 1
            parent_in_order[position[seat]] = -1 if seat == 0 else position[parent[seat]]
            depth[position[seat]] = 0 if seat == 0 else depth[position[parent[seat]]] + 1
            if seat > 0:
                free[parent[seat]] += size[seat]


def sort_rows(
    const int32_t[::1] rows,
    const int32_t[::1] seats,
    const double[::1] weight,
    const int32_t[::1] position,
    const int32_t[::1] parent_in_order,
    int32_t[::1] start,
    int32_t[::1] sorted_rows,
    float[::1] sorted_weight,
    double[::1] n,
):
    """Sort the rows of one tree by the position of their seat, and write the weights at all seats to `n` (n_seats,).

    `start` (n_seats + 1,) is where the rows of each seat begin.
    """
    cdef Py_ssize_t j, seat, to, n_seats = position.shape[0]
    cdef int32_t[::1] free = np.empty(n_seats, dtype=np.int32)
    with nogil:
        for seat in range(n_seats + 1):
            start[seat] = 0
        for j in range(rows.shape[0]):
            start[position[seats[j]] + 1] += 1
        for seat in range(n_seats):
            start[seat + 1] += start[seat]
            free[seat] = start[seat]
            n[seat] = 0
        for j in range(rows.shape[0]):
            seat = position[seats[j]]
            to = free[seat]
            free[seat] += 1
            sorted_rows[to] = rows[j]
            sorted_weight[to] = <float> weight[j]
            n[seat] += weight[j]
        for seat in range(n_seats - 1, 0, -1):
            n[parent_in_order[seat]] += n[seat]


def sum_lanes(
    Py_ssize_t begin,
    Py_ssize_t end,
    const int64_t[::1] first_seat,
    const int64_t[::1] first_row,
    const int32_t[::1] start,
    const int32_t[::1] rows,
    const float[::1] weight,
    const int32_t[::1] parent,
    const int32_t[::1] column,
    const float[:, :, ::1] y,
    float[:, :, ::1] sums,
):
    """Write the sums of the responses at the seats of trees begin..end to `sums` (width, n_seats, 16).

    Arguments are those of `add_tiles`, for the in-bag rows or for the evaluation rows.
    """
    cdef Py_ssize_t tree, c, seat, r, first, row, starts
    cdef lanes total
    with nogil:
        for tree in range(begin, end):
            first, row, starts = first_seat[tree], first_row[tree], first_seat[tree] + tree
            for c in range(sums.shape[0]):
                for seat in range(first_seat[tree + 1] - first):
                    total = spread(0)
                    for r in range(row + start[starts + seat], row + start[starts + seat + 1]):
                        total = add(total, multiply(spread(weight[r]), load(&y[column[tree] + c, rows[r], 0])))
                    store(&sums[c, first + seat, 0], total)
                for seat in range(first_seat[tree + 1] - 1, first, -1):
                    r = first + parent[seat]
                    store(&sums[c, r, 0], add(load(&sums[c, r, 0]), load(&sums[c, seat, 0])))


def write_values(
    const int32_t[:, ::1] feature,
    const float[:, :, ::1] x_of_code,
    const uint16_t[:, ::1] codes,
    float[:, :, ::1] x,
    uint8_t[::1] missing,
):
    """Write the values of the lines of some tiles to `x` (n_tiles, n_rows, 4), and 1 to `missing` if one is NaN.

    `feature` (n_tiles, 4) and `x_of_code` (n_tiles, 4, n_codes) are those of the lines. A feature of -1 is no line, and
    its values are 0.
    """
    cdef Py_ssize_t tile, i, j
    with nogil:
        for tile in range(x.shape[0]):
            for j in range(TILE):
                for i in range(x.shape[1]):
                    x[tile, i, j] = x_of_code[tile, j, codes[feature[tile, j], i]] if feature[tile, j] >= 0 else 0
                    missing[tile] |= x[tile, i, j] != x[tile, i, j]


def fit_factors(
    const int64_t[::1] first_seat,
    const int64_t[::1] first_in,
    const int32_t[::1] start_in,
    const int32_t[::1] rows_in,
    const float[::1] weight_in,
    const int64_t[::1] first_out,
    const int32_t[::1] start_out,
    const int32_t[::1] rows_out,
    const float[::1] weight_out,
    const int32_t[::1] parent,
    const int32_t[::1] column,
    const double[::1] scale,
    double least_inside,
    const float[:, :, ::1] x_in,
    const float[:, :, ::1] x_out,
    const float[:, ::1] y_in,
    float[:, :, :, :, ::1] factors,
):
    """Write what does not depend on the permutation to `factors` (n_tiles, width, n_seats, 3, 4).

    For each of the four lines of a tile, at the seats of all trees: scale / sum of squares of x about its in-bag mean, or 0 if there is no line; the in-bag
    mean of x; and the mean of x over the evaluation rows. If `y_in` (n, n_columns) is not empty, the in-bag responses
    are the same in all permutations, and the first number is the slope itself, times the scale.

    Sums are in double precision. Other arguments are those of `add_tiles`; values that are missing are NaN.
    """
    cdef Py_ssize_t tile, width = factors.shape[1]
    cdef Py_ssize_t most = int(np.diff(first_seat).max())
    cdef bint fixed = y_in.shape[0] > 0
    cdef double[:, :, ::1] inside = np.empty((most, TILE, 3))  # n, sum of x, sum of squares
    cdef double[:, :, ::1] outside = np.empty((most, TILE, 3))
    cdef double[:, :, :, ::1] products = np.empty((most, TILE, width, 2))  # sums of x y, and of y
    cdef const float[:, ::1] none = np.empty((0, 0), dtype=np.float32)
    with nogil:
        for tile in range(factors.shape[0]):
            fit_tile(
                first_seat, first_in, start_in, rows_in, weight_in, first_out, start_out, rows_out, weight_out, parent,
                column, scale, least_inside, x_in[tile], x_out[tile], y_in, none, fixed, inside, outside, products,
                factors[tile],
            )


cdef void fit_tile(
    const int64_t[::1] first_seat,
    const int64_t[::1] first_in,
    const int32_t[::1] start_in,
    const int32_t[::1] rows_in,
    const float[::1] weight_in,
    const int64_t[::1] first_out,
    const int32_t[::1] start_out,
    const int32_t[::1] rows_out,
    const float[::1] weight_out,
    const int32_t[::1] parent,
    const int32_t[::1] column,
    const double[::1] scale,
    double least_inside,
    const float[:, ::1] x_in,
    const float[:, ::1] x_out,
    const float[:, ::1] y_in,
    const float[:, ::1] none,
    bint fixed,
    double[:, :, ::1] inside,
    double[:, :, ::1] outside,
    double[:, :, :, ::1] products,
    float[:, :, :, ::1] factor,
) noexcept nogil:
    """Write what does not depend on the permutation for one tile."""
    cdef Py_ssize_t tree, j, c, seat, up, first, n_seats, width = factor.shape[0]
    cdef double centre, v
    for tree in range(first_seat.shape[0] - 1):
        first, n_seats = first_seat[tree], first_seat[tree + 1] - first_seat[tree]
        memset(&inside[0, 0, 0], 0, n_seats * TILE * 3 * sizeof(double))
        memset(&outside[0, 0, 0], 0, n_seats * TILE * 3 * sizeof(double))
        memset(&products[0, 0, 0, 0], 0, n_seats * TILE * width * 2 * sizeof(double))
        sum_values(
            n_seats, start_in[first + tree :], rows_in[first_in[tree] :], weight_in[first_in[tree] :], x_in,
            y_in, column[tree], width if fixed else 0, inside, products,
        )
        sum_values(
            n_seats, start_out[first + tree :], rows_out[first_out[tree] :], weight_out[first_out[tree] :], x_out,
            none, 0, 0, outside, products,
        )
        for seat in range(n_seats - 1, 0, -1):
            up = parent[first + seat]
            for j in range(TILE):
                for c in range(3):
                    inside[up, j, c] += inside[seat, j, c]
                    outside[up, j, c] += outside[seat, j, c]
                for c in range(width if fixed else 0):
                    products[up, j, c, 0] += products[seat, j, c, 0]
                    products[up, j, c, 1] += products[seat, j, c, 1]
        for seat in range(n_seats):
            for j in range(TILE):
                for c in range(width):
                    factor[c, first + seat, 0, j] = 0
                    factor[c, first + seat, 1, j] = 0
                    factor[c, first + seat, 2, j] = 0
                if inside[seat, j, 0] < least_inside or not varies(&inside[seat, j, 0]):
                    continue
                # Without a second value among the evaluation rows the term is 0, and its rounding would be
                # studentised.
                if not varies(&outside[seat, j, 0]):
                    continue
                centre = inside[seat, j, 1] / inside[seat, j, 0]
                v = inside[seat, j, 2] - centre * inside[seat, j, 1]
                for c in range(width):
                    factor[c, first + seat, 0, j] = <float> (scale[first + seat] / v)
                    factor[c, first + seat, 1, j] = <float> centre
                    factor[c, first + seat, 2, j] = <float> (outside[seat, j, 1] / outside[seat, j, 0])
                    if fixed:
                        factor[c, first + seat, 0, j] = <float> (
                            scale[first + seat] / v * (products[seat, j, c, 0] - centre * products[seat, j, c, 1])
                        )


cdef void sum_values(
    Py_ssize_t n_seats,
    const int32_t[::1] start,
    const int32_t[::1] rows,
    const float[::1] weight,
    const float[:, ::1] x_of_rows,
    const float[:, ::1] y,
    Py_ssize_t column,
    Py_ssize_t width,
    double[:, :, ::1] sums,
    double[:, :, :, ::1] products,
) noexcept nogil:
    """Add the rows at the seats of one tree to `sums`, and their products with some columns of `y` to `products`."""
    cdef Py_ssize_t seat, r, i, j, c
    cdef double w, x
    for seat in range(n_seats):
        for r in range(start[seat], start[seat + 1]):
            i, w = rows[r], weight[r]
            for j in range(TILE):
                x = x_of_rows[i, j]
                if x == x:
                    sums[seat, j, 0] += w
                    sums[seat, j, 1] += w * x
                    sums[seat, j, 2] += w * x * x
                    for c in range(width):
                        products[seat, j, c, 0] += w * x * y[i, column + c]
                        products[seat, j, c, 1] += w * y[i, column + c]


cdef inline bint varies(const double* sums) noexcept nogil:
    """Whether x varies, by its n, sum and sum of squares: their difference loses its digits if it hardly does."""
    return sums[0] > 0 and sums[2] - sums[1] / sums[0] * sums[1] > CONSTANT * sums[2]


def add_tiles(
    const int64_t[::1] first_seat,
    const int64_t[::1] first_in,
    const int32_t[::1] start_in,
    const int32_t[::1] rows_in,
    const float[::1] weight_in,
    const int64_t[::1] first_out,
    const int32_t[::1] start_out,
    const int32_t[::1] rows_out,
    const int32_t[::1] parent,
    const int32_t[::1] depth,
    const int32_t[::1] column,
    const int32_t[:, ::1] indicator,
    const uint8_t[::1] missing,
    bint fixed,
    const float[:, :, ::1] x_in,
    const float[:, :, ::1] x_out,
    const float[:, :, ::1] y_in,
    const float[:, :, ::1] y_out,
    const float[:, :, :, :, ::1] factors,
    const float[:, :, ::1] s_in,
    const float[:, :, ::1] mean_out,
    const int32_t[:, ::1] groups,
    const float[::1] weight,
    const int64_t[::1] starts,
    float[:, :, ::1] sums,
    float[:, :, :, ::1] stack,
    float[:, :, ::1] phi,
    float[:, ::1] total,
    double[:, :, ::1] moments,
):
    """Write the moments of the contributions of evaluation rows to the lines of some tiles, in all trees.

    Parameters
    ----------
    first_seat, first_in, first_out : arrays of shape (n_trees + 1,)
        Where the seats, in-bag rows and evaluation rows of each tree begin.
    start_in, start_out : arrays of shape (n_seats + n_trees,)
        Where the rows of each seat begin among the rows of the tree; each tree has one more entry than seats.
    rows_in, weight_in, rows_out : arrays
        Rows of each tree, sorted by seat, and their weights. `PADDING` more entries are read, and not used.
    parent, depth : arrays of shape (n_seats,)
        In preorder, from 0 in each tree.
    column : array of shape (n_trees,)
        First column of the response of each tree.
    indicator : array of shape (n_tiles, 4)
        1 if the next line tells of the rows without x.
    missing : array of shape (n_tiles,)
        1 if there are evaluation rows without x, whose x is NaN. In-bag rows without x have 0.
    fixed : bool
        Whether the in-bag responses are the same in all permutations.
    x_in, x_out : arrays of shape (n_tiles, n, 4)
    y_in, y_out : arrays of shape (n_columns, n, 16)
    factors : array of shape (n_tiles, width, n_seats, 3, 4), or (n_tiles, 1, ...) if in-bag responses are permuted
        See `fit_factors`.
    s_in, mean_out : arrays of shape (width, n_seats, 16)
        In-bag sums and evaluation means of the response of a tree at the seats.
    groups : array of shape (n_parts, 4)
        The parts of groups that are in one tile, in the order of the tiles: tile, group, first line in the tile and end.
        A group with more than four lines has parts in tiles that follow one another, and no other group is in these.
    weight : array of shape (n_rows,)
    starts : array
        Where the blocks of rows begin; empty: every row is a block.
    sums : array of shape (most seats of a tree, 4, 16)
        Memory, as `stack` (most depth + 1, 4, 4, 16): slope, slope x mean of x, slope x mean of y, slope x both means,
        summed over the path; and `phi` (n_rows, 4, 16), the contributions to the lines of a tile; and `total` (n_rows,
        16), those to a group so far, which may be empty if every group is in one tile.
    moments : array of shape (2, n_groups, 16)
        For the sums of contributions to each group, and of squares of their totals by block.
    """
    cdef Py_ssize_t tile, part = 0, n_parts = groups.shape[0]
    cdef bint carried, carries
    with nogil:
        for tile in range(x_out.shape[0]):
            add_tile(
                first_seat, first_in, start_in, rows_in, weight_in, first_out, start_out, rows_out, parent, depth, column,
                indicator[tile], missing[tile], fixed, x_in[tile], x_out[tile], y_in, y_out, factors[tile], s_in,
                mean_out, sums, stack, phi,
            )
            while part < n_parts and groups[part, 0] == tile:
                carried = part > 0 and groups[part - 1, 1] == groups[part, 1]
                carries = part + 1 < n_parts and groups[part + 1, 1] == groups[part, 1]
                add_moments(
                    phi, groups[part, 2], groups[part, 3], weight, starts, carried, carries, total,
                    &moments[0, groups[part, 1], 0], &moments[1, groups[part, 1], 0],
                )
                part += 1


cdef void add_tile(
    const int64_t[::1] first_seat,
    const int64_t[::1] first_in,
    const int32_t[::1] start_in,
    const int32_t[::1] rows_in,
    const float[::1] weight_in,
    const int64_t[::1] first_out,
    const int32_t[::1] start_out,
    const int32_t[::1] rows_out,
    const int32_t[::1] parent,
    const int32_t[::1] depth,
    const int32_t[::1] column,
    const int32_t[::1] indicator,
    bint missing,
    bint fixed,
    const float[:, ::1] x_in,
    const float[:, ::1] x_out,
    const float[:, :, ::1] y_in,
    const float[:, :, ::1] y_out,
    const float[:, :, :, ::1] factor,
    const float[:, :, ::1] s_in,
    const float[:, :, ::1] mean_out,
    float[:, :, ::1] sums,
    float[:, :, :, ::1] stack,
    float[:, :, ::1] phi,
) noexcept nogil:
    """Write to `phi` the contributions of evaluation rows to the lines of one tile, to be multiplied by their weights."""
    cdef Py_ssize_t tree, c, first, n_seats, width = mean_out.shape[0], of_column
    memset(&phi[0, 0, 0], 0, phi.shape[0] * TILE * N_LANES * sizeof(float))
    for tree in range(first_seat.shape[0] - 1):
        first, n_seats = first_seat[tree], first_seat[tree + 1] - first_seat[tree]
        for c in range(width):
            of_column = column[tree] + c
            if not fixed:
                sum_products(
                    n_seats, start_in[first + tree :], rows_in[first_in[tree] :], weight_in[first_in[tree] :],
                    parent[first:], x_in, y_in[of_column], sums,
                )
            evaluate(
                n_seats, start_out[first + tree :], rows_out[first_out[tree] :], depth[first:], indicator, missing,
                fixed, x_out, y_out[of_column], factor[0 if factor.shape[0] == 1 else c, first:], s_in[c, first:],
                mean_out[c, first:], sums, stack, phi,
            )


cdef void sum_products(
    Py_ssize_t n_seats,
    const int32_t[::1] start,
    const int32_t[::1] rows,
    const float[::1] weight,
    const int32_t[::1] parent,
    const float[:, ::1] x,
    const float[:, ::1] y,
    float[:, :, ::1] sums,
) noexcept nogil:
    """Write the in-bag sums of x y at the seats of one tree to `sums`."""
    cdef Py_ssize_t seat, r, i, up
    cdef lanes a, b, c, d, of_row
    cdef const float* x_of = &x[0, 0]
    cdef const float* y_of = &y[0, 0]
    for seat in range(n_seats):
        a, b, c, d = spread(0), spread(0), spread(0), spread(0)
        for r in range(start[seat], start[seat + 1]):
            i = rows[r + AHEAD]
            prefetch(y_of + i * N_LANES, N_LANES)
            prefetch(x_of + i * TILE, TILE)
            i = rows[r]
            of_row = multiply(spread(weight[r]), load(y_of + i * N_LANES))
            a = add(a, multiply(spread(x_of[i * TILE]), of_row))
            b = add(b, multiply(spread(x_of[i * TILE + 1]), of_row))
            c = add(c, multiply(spread(x_of[i * TILE + 2]), of_row))
            d = add(d, multiply(spread(x_of[i * TILE + 3]), of_row))
        store(&sums[seat, 0, 0], a)
        store(&sums[seat, 1, 0], b)
        store(&sums[seat, 2, 0], c)
        store(&sums[seat, 3, 0], d)
    for seat in range(n_seats - 1, 0, -1):
        up = parent[seat]
        for i in range(TILE):
            store(&sums[up, i, 0], add(load(&sums[up, i, 0]), load(&sums[seat, i, 0])))


cdef void evaluate(
    Py_ssize_t n_seats,
    const int32_t[::1] start,
    const int32_t[::1] rows,
    const int32_t[::1] depth,
    const int32_t[::1] indicator,
    bint missing,
    bint fixed,
    const float[:, ::1] x,
    const float[:, ::1] y,
    const float[:, :, ::1] factor,
    const float[:, ::1] s_in,
    const float[:, ::1] mean_out,
    const float[:, :, ::1] sums,
    float[:, :, :, ::1] stack,
    float[:, :, ::1] phi,
) noexcept nogil:
    """Add the contributions of the evaluation rows of one tree to `phi`: a row adds y (x a - b) - (x c - d)."""
    cdef Py_ssize_t seat, r, i, j
    cdef lanes slope, inside, mean, of_mean, centre
    # Plain addresses: indices of several dimensions would take as long as the numbers.
    cdef const float* x_of = &x[0, 0]
    cdef const float* y_of = &y[0, 0]
    cdef float* phi_of = &phi[0, 0, 0]
    cdef float* at_seat
    cdef float* at
    cdef const float* up
    for seat in range(n_seats):
        at_seat, mean = &stack[depth[seat], 0, 0, 0], load(&mean_out[seat, 0])
        for j in range(TILE):
            slope = spread(factor[seat, 0, j])
            if not fixed:
                inside = load(&s_in[seat, 0])
                if indicator[j]:
                    # `s_in` has the rows without x too. The next line, whose x is 1 for them, has their sum.
                    inside = subtract(inside, load(&sums[seat, j + 1, 0]))
                inside = subtract(load(&sums[seat, j, 0]), multiply(spread(factor[seat, 1, j]), inside))
                slope = multiply(slope, inside)
            centre = spread(factor[seat, 2, j])
            of_mean = multiply(slope, mean)
            at = at_seat + j * OF_LINE
            if depth[seat] == 0:
                store(at, slope)
                store(at + N_LANES, multiply(centre, slope))
                store(at + 2 * N_LANES, of_mean)
                store(at + 3 * N_LANES, multiply(centre, of_mean))
            else:
                up = at - TILE * OF_LINE
                store(at, add(load(up), slope))
                store(at + N_LANES, add(load(up + N_LANES), multiply(centre, slope)))
                store(at + 2 * N_LANES, add(load(up + 2 * N_LANES), of_mean))
                store(at + 3 * N_LANES, add(load(up + 3 * N_LANES), multiply(centre, of_mean)))
        for r in range(start[seat], start[seat + 1]):
            i = rows[r + AHEAD]
            prefetch(phi_of + i * TILE * N_LANES, TILE * N_LANES)
            prefetch(y_of + i * N_LANES, N_LANES)
            prefetch(x_of + i * TILE, TILE)
            i = rows[r]
            if missing:
                for j in range(TILE):
                    if x_of[i * TILE + j] == x_of[i * TILE + j]:
                        add_row(x_of[i * TILE + j], y_of + i * N_LANES, at_seat + j * OF_LINE,
                                phi_of + (i * TILE + j) * N_LANES)
            else:
                for j in range(TILE):
                    add_row(x_of[i * TILE + j], y_of + i * N_LANES, at_seat + j * OF_LINE,
                            phi_of + (i * TILE + j) * N_LANES)


cdef inline void add_row(float x, const float* y, const float* at, float* phi) noexcept nogil:
    """Add the contribution of a row to one line."""
    cdef lanes u = spread(x)
    store(phi, add(load(phi), subtract(
        multiply(load(y), subtract(multiply(u, load(at)), load(at + N_LANES))),
        subtract(multiply(u, load(at + 2 * N_LANES)), load(at + 3 * N_LANES)),
    )))


cdef void add_moments(
    const float[:, :, ::1] phi,
    Py_ssize_t begin,
    Py_ssize_t end,
    const float[::1] weight,
    const int64_t[::1] starts,
    bint carried,
    bint carries,
    float[:, ::1] total,
    double* sum_of_rows,
    double* sum_of_squares,
) noexcept nogil:
    """Write sums of the contributions to lines begin..end of a tile, and of squares of their totals by block.

    `carried` and `carries`: whether the lines of an earlier tile are part of the sum, and those of a later one will be.
    """
    cdef Py_ssize_t i, j, b, block = 0, n_rows = phi.shape[0], n_blocks = starts.shape[0]
    cdef lanes of_row, of_block, added, squares
    cdef float memory[N_LANES]
    cdef bint ends
    if not carries:
        for b in range(N_LANES):
            sum_of_rows[b], sum_of_squares[b] = 0, 0
    of_block, added, squares = spread(0), spread(0), spread(0)
    for i in range(n_rows):
        of_row = load(&phi[i, begin, 0])
        for j in range(begin + 1, end):
            of_row = add(of_row, load(&phi[i, j, 0]))
        if carried:
            of_row = add(of_row, load(&total[i, 0]))
        if carries:
            store(&total[i, 0], of_row)
            continue
        of_block = add(of_block, multiply(spread(weight[i]), of_row))
        ends = n_blocks == 0 or i + 1 == (starts[block + 1] if block + 1 < n_blocks else n_rows)
        if ends:
            added, squares, of_block = add(added, of_block), add(squares, multiply(of_block, of_block)), spread(0)
            block += 1
        if (ends and block % AT_ONCE == 0) or i + 1 == n_rows:
            store(memory, added)
            for b in range(N_LANES):
                sum_of_rows[b] += memory[b]
            store(memory, squares)
            for b in range(N_LANES):
                sum_of_squares[b] += memory[b]
            added, squares = spread(0), spread(0)
