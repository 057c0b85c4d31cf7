"""Compiled loops over permuted responses for lines, most of which need no standard error (debias.rows.screened_lines).

The score of a line is a sum over nodes, and takes sums over the rows of each seat. Its standard error over rows takes
the contribution of every row, which is most of the work, and only lines with a high score in a permutation need it. So
tiles of four lines get their scores in a few trees, in 16 permutations, with a rough standard error: that if the terms
of nodes were independent. Then 16 pairs of a line and a permutation, whose scores are high, get the contributions of
rows together. These have the bits of :mod:`debias.rows.kernels.lines`: the same operations in the same order.

No value is missing, and no line is part of a group. See ``lines.add_tiles`` for seats, rows and tiles.

Over 500 lines, because both passes keep the same operations in the same order.
"""

from libc.math cimport sqrtf
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

import numpy as np

from debias.rows import aligned

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

# As in lines.pyx.
cdef enum:
    N_LANES = 16
    TILE = 4
    AHEAD = 8
    AT_ONCE = 64
    OF_SEAT = 4 * TILE  # numbers of a tile at a seat: factor, mean of x in the bag, mean of x evaluated, root
cdef double CONSTANT = 1e-12


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
    """Write what does not depend on the permutation to `factors` (n_tiles, width, n_seats, 4, 4).

    The first three numbers of each seat and line are those of ``lines.fit_factors``, bit for bit. The fourth is the
    root of the sum of squares of x about its mean, over the evaluation rows.
    """
    cdef Py_ssize_t tile, tree, seat, width = factors.shape[1], most = int(np.diff(first_seat).max())
    cdef Py_ssize_t first, n_seats, size = 1 + 2 * TILE
    cdef bint fixed = y_in.shape[0] > 0
    cdef Py_ssize_t of_y = width * (1 + TILE) if fixed else 0
    cdef double[:, ::1] inside = np.empty((most, size + of_y))  # n, sums of x and of squares; of y and x y
    cdef double[:, ::1] outside = np.empty((most, size))
    cdef const float[:, ::1] none = np.empty((1, 1), dtype=np.float32)
    if not fixed:
        y_in = none
    with nogil:
        for tile in range(factors.shape[0]):
            for tree in range(first_seat.shape[0] - 1):
                first, n_seats = first_seat[tree], first_seat[tree + 1] - first_seat[tree]
                sum_values(n_seats, &start_in[first + tree], &rows_in[first_in[tree]], &weight_in[first_in[tree]],
                           &parent[first], &x_in[tile, 0, 0], &y_in[0, 0] + column[tree] * fixed, y_in.shape[1],
                           width if fixed else 0, inside)
                sum_values(n_seats, &start_out[first + tree], &rows_out[first_out[tree]], &weight_out[first_out[tree]],
                           &parent[first], &x_out[tile, 0, 0], &none[0, 0], 0, 0, outside)
                for seat in range(n_seats):
                    fit_seat(&inside[seat, 0], &outside[seat, 0], scale[first + seat], least_inside, fixed,
                             factors[tile], first + seat)


cdef void sum_values(
    Py_ssize_t n_seats,
    const int32_t* start,
    const int32_t* rows,
    const float* weight,
    const int32_t* parent,
    const float* x,
    const float* y,
    Py_ssize_t n_columns,
    Py_ssize_t width,
    double[:, ::1] sums,
) noexcept nogil:
    """Write sums over the rows at the seats of one tree: n, and of each line x and x x; of each column y, and x y."""
    cdef Py_ssize_t seat, r, j, c, k, size = sums.shape[1]
    cdef double w, wx, n, x_of_row
    cdef double sx[TILE]
    cdef double sxx[TILE]
    cdef double* at
    cdef double* up
    cdef const float* x_of
    cdef const float* y_of
    memset(&sums[0, 0], 0, n_seats * size * sizeof(double))
    for seat in range(n_seats - 1, -1, -1):
        at, n = &sums[seat, 0], 0
        for j in range(TILE):
            sx[j], sxx[j] = 0, 0
        for r in range(start[seat], start[seat + 1]):
            w, x_of = weight[r], x + rows[r] * TILE
            n += w
            for j in range(TILE):
                x_of_row = x_of[j]
                wx = w * x_of_row
                sx[j] += wx
                sxx[j] += wx * x_of_row
        for c in range(width):
            k = 1 + 2 * TILE + c * (1 + TILE)
            for r in range(start[seat], start[seat + 1]):
                w, x_of, y_of = weight[r], x + rows[r] * TILE, y + rows[r] * n_columns
                at[k] += w * y_of[c]
                for j in range(TILE):
                    x_of_row = x_of[j]
                    at[k + 1 + j] += w * x_of_row * y_of[c]
        at[0] = n
        for j in range(TILE):
            at[1 + j], at[1 + TILE + j] = sx[j], sxx[j]
    for seat in range(n_seats - 1, 0, -1):
        at, up = &sums[seat, 0], &sums[parent[seat], 0]
        for k in range(size):
            up[k] += at[k]


cdef void fit_seat(
    const double* inside,
    const double* outside,
    double scale,
    double least_inside,
    bint fixed,
    float[:, :, :, ::1] factors,
    Py_ssize_t seat,
) noexcept nogil:
    """Write the numbers of the four lines of a tile at one seat."""
    cdef Py_ssize_t j, c, k
    cdef double centre, centre_out, v, v_out, products
    cdef bint fits
    cdef float* to
    for j in range(TILE):
        centre, centre_out = inside[1 + j] / inside[0], outside[1 + j] / outside[0]
        v = inside[1 + TILE + j] - centre * inside[1 + j]
        v_out = outside[1 + TILE + j] - centre_out * outside[1 + j]
        # Without a second value among the evaluation rows the term is 0, and its rounding would be studentised.
        fits = inside[0] >= least_inside and inside[0] > 0 and outside[0] > 0
        fits = fits and v > CONSTANT * inside[1 + TILE + j] and v_out > CONSTANT * outside[1 + TILE + j]
        for c in range(factors.shape[0]):
            to = &factors[c, seat, 0, j]
            to[0], to[TILE], to[2 * TILE], to[3 * TILE] = 0, 0, 0, 0
            if not fits:
                continue
            to[0], to[TILE], to[2 * TILE] = <float> (scale / v), <float> centre, <float> centre_out
            to[3 * TILE] = sqrtf(<float> v_out)
            if fixed:
                k = 1 + 2 * TILE + c * (1 + TILE)
                to[0] = <float> (scale / v * (inside[k + 1 + j] - centre * inside[k]))


def score_tiles(
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
    const int32_t[::1] depth,
    const int32_t[::1] column,
    bint fixed,
    const float[:, :, ::1] x,
    const float[:, :, ::1] y,
    const float[:, :, :, :, ::1] factors,
    const float[:, :, ::1] s_in,
    const float[:, :, ::1] s_out,
    const float[:, :, ::1] mean_out,
    const float[:, :, ::1] variance_out,
    const int32_t[:, ::1] groups,
    Py_ssize_t n_lanes,
    Py_ssize_t n_rough,
    float spread_of_rough,
    float high,
    const float[::1] weight,
    const int64_t[::1] starts,
    float[:, ::1] rough,
    double[:, :, ::1] moments,
):
    """Write the rough z of lines in some tiles over its spread, and the moments of contributions where it is high.

    Parameters
    ----------
    fixed : bool
        Whether the in-bag responses are the same in all permutations. Otherwise the in-bag rows are among the
        evaluation rows of other trees.
    x : array of shape (n_tiles, n_rows, 4)
    y : array of shape (n_columns, n_rows, 16)
    factors : array of shape (n_tiles, width, n_seats, 4, 4), or (n_tiles, 1, ...) if in-bag responses are permuted
    s_in, s_out, mean_out, variance_out : arrays of shape (width, n_seats, 16)
        In-bag sums of the response of a tree at the seats; sums, means and variances over the evaluation rows.
    groups : array of shape (n_tiles, 4)
        The group of each line; -1: none.
    n_lanes : int
        Number of permutations.
    n_rough : int
        Number of trees whose rough z is taken, the first ones.
    high : float
        The least rough z with moments, after it is divided by `spread_of_rough`.
    rough : array of shape (n_groups, 16)
    moments : array of shape (2, n_groups, 16)
        As for ``lines.add_tiles``.
    Others
        As for ``lines.add_tiles``.
    """
    cdef Py_ssize_t most = int(np.diff(first_seat).max()), deepest = int(np.max(depth)) + 1, n_rows = x.shape[1]
    cdef Py_ssize_t tile, tree, c, j, b, first, n_pairs = 0, width = s_out.shape[0], of_factors
    cdef float[:, :, ::1] sums = aligned.empty((2, most, TILE * N_LANES))
    cdef float[:, ::1] score = aligned.empty((2, TILE * N_LANES))
    cdef float[:, ::1] stack = aligned.empty((deepest, 4 * N_LANES))
    cdef float[:, :, ::1] of_rows = aligned.empty((2 + width, n_rows, N_LANES))  # phi, x, y
    cdef int32_t pairs[3][N_LANES]
    cdef float z
    with nogil:
        for tile in range(x.shape[0]):
            memset(&score[0, 0], 0, 2 * TILE * N_LANES * sizeof(float))
            for tree in range(n_rough):
                first = first_seat[tree]
                for c in range(width):
                    of_factors = 0 if factors.shape[1] == 1 else c
                    add_scores(
                        first_seat[tree + 1] - first, &start_in[first + tree], &rows_in[first_in[tree]],
                        &weight_in[first_in[tree]], &start_out[first + tree], &rows_out[first_out[tree]],
                        &weight_out[first_out[tree]], &parent[first], fixed, &x[tile, 0, 0], &y[column[tree] + c, 0, 0],
                        &factors[tile, of_factors, first, 0, 0], &s_in[c, first, 0], &s_out[c, first, 0],
                        &variance_out[c, first, 0], &sums[0, 0, 0], &sums[1, 0, 0], &score[0, 0],
                    )
            for j in range(TILE):
                if groups[tile, j] < 0:
                    continue
                for b in range(n_lanes):
                    z = score[1, j * N_LANES + b]
                    z = score[0, j * N_LANES + b] / (sqrtf(z) * spread_of_rough) if z > 0 else 0
                    rough[groups[tile, j], b] = z
                    if z >= high:
                        pairs[0][n_pairs], pairs[1][n_pairs], pairs[2][n_pairs] = <int32_t> tile, <int32_t> j, <int32_t> b
                        n_pairs += 1
                    if n_pairs == N_LANES:
                        add_pairs(n_pairs, pairs[0], pairs[1], pairs[2], first_seat, first_in, start_in, rows_in,
                                  weight_in, first_out, start_out, rows_out, parent, depth, column, fixed, x, y, factors,
                                  s_in, mean_out, groups, weight, starts, &sums[0, 0, 0], stack, of_rows, moments)
                        n_pairs = 0
        if n_pairs:
            add_pairs(n_pairs, pairs[0], pairs[1], pairs[2], first_seat, first_in, start_in, rows_in, weight_in,
                      first_out, start_out, rows_out, parent, depth, column, fixed, x, y, factors, s_in, mean_out,
                      groups, weight, starts, &sums[0, 0, 0], stack, of_rows, moments)


cdef void add_scores(
    Py_ssize_t n_seats,
    const int32_t* start_in,
    const int32_t* rows_in,
    const float* weight_in,
    const int32_t* start_out,
    const int32_t* rows_out,
    const float* weight_out,
    const int32_t* parent,
    bint fixed,
    const float* x,
    const float* y,
    const float* factor,
    const float* s_in,
    const float* s_out,
    const float* variance,
    float* inside,
    float* outside,
    float* score,
) noexcept nogil:
    """Add the scores of the four lines of a tile in one tree, and the squares of the rough errors of their terms.

    Seats go from the last to the first, so that the sums of a seat have those of its children.
    """
    cdef Py_ssize_t seat, j
    cdef lanes slope, term, error, of_seat, out_of_seat, spread_out
    cdef const float* f
    cdef float* in_at
    cdef float* out_at
    memset(outside, 0, n_seats * TILE * N_LANES * sizeof(float))
    if not fixed:
        memset(inside, 0, n_seats * TILE * N_LANES * sizeof(float))
    for seat in range(n_seats - 1, -1, -1):
        in_at, out_at, f = inside + seat * TILE * N_LANES, outside + seat * TILE * N_LANES, factor + seat * OF_SEAT
        if not fixed:
            add_products(start_in[seat], start_in[seat + 1], rows_in, weight_in, x, y, in_at)
        add_products(start_out[seat], start_out[seat + 1], rows_out, weight_out, x, y, out_at)
        of_seat, out_of_seat = load(s_in + seat * N_LANES), load(s_out + seat * N_LANES)
        spread_out = load(variance + seat * N_LANES)
        for j in range(TILE):
            slope = spread(f[j])
            if not fixed:
                slope = multiply(slope, subtract(load(in_at + j * N_LANES), multiply(spread(f[TILE + j]), of_seat)))
            term = subtract(load(out_at + j * N_LANES), multiply(spread(f[2 * TILE + j]), out_of_seat))
            error = multiply(slope, spread(f[3 * TILE + j]))
            increase(score + j * N_LANES, multiply(slope, term))
            increase(score + (TILE + j) * N_LANES, multiply(multiply(error, error), spread_out))
        if seat:
            for j in range(TILE):
                increase(outside + (parent[seat] * TILE + j) * N_LANES, load(out_at + j * N_LANES))
                if not fixed:
                    increase(inside + (parent[seat] * TILE + j) * N_LANES, load(in_at + j * N_LANES))


cdef inline void add_products(
    Py_ssize_t begin, Py_ssize_t end, const int32_t* rows, const float* weight, const float* x, const float* y, float* sums
) noexcept nogil:
    """Add the products of x and y of some rows to the sums (4, 16) of a seat, which stay in registers."""
    cdef Py_ssize_t r, i
    cdef lanes a = load(sums), b = load(sums + N_LANES), c = load(sums + 2 * N_LANES), d = load(sums + 3 * N_LANES)
    cdef lanes of_row
    for r in range(begin, end):
        prefetch(y + rows[r + AHEAD] * N_LANES, N_LANES)
        i = rows[r]
        of_row = multiply(spread(weight[r]), load(y + i * N_LANES))
        a = add(a, multiply(spread(x[i * TILE]), of_row))
        b = add(b, multiply(spread(x[i * TILE + 1]), of_row))
        c = add(c, multiply(spread(x[i * TILE + 2]), of_row))
        d = add(d, multiply(spread(x[i * TILE + 3]), of_row))
    store(sums, a)
    store(sums + N_LANES, b)
    store(sums + 2 * N_LANES, c)
    store(sums + 3 * N_LANES, d)


cdef void add_pairs(
    Py_ssize_t n_pairs,
    const int32_t* tiles,
    const int32_t* lines,
    const int32_t* permutations,
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
    bint fixed,
    const float[:, :, ::1] x,
    const float[:, :, ::1] y,
    const float[:, :, :, :, ::1] factors,
    const float[:, :, ::1] s_in,
    const float[:, :, ::1] mean_out,
    const int32_t[:, ::1] groups,
    const float[::1] weight,
    const int64_t[::1] starts,
    float* sums,
    float[:, ::1] stack,
    float[:, :, ::1] of_rows,
    double[:, :, ::1] moments,
) noexcept nogil:
    """Write the moments of the contributions of rows for at most 16 pairs of a line and a permutation."""
    cdef Py_ssize_t tree, c, i, l, at, first, n_seats, of_factors, n_rows = x.shape[1], width = s_in.shape[0]
    cdef float* of_pairs = &of_rows[1, 0, 0]
    cdef float* to = &of_rows[2, 0, 0]
    cdef float numbers[5 * N_LANES]
    # Plain addresses, of the numbers of each pair: indices would take as long as the numbers.
    cdef const float* of_line[N_LANES]
    cdef const float* of_lane[N_LANES]
    memset(&of_rows[0, 0, 0], 0, (2 + width) * n_rows * N_LANES * sizeof(float))
    for l in range(n_pairs):
        of_line[l] = &x[tiles[l], 0, lines[l]]
    for i in range(n_rows):
        for l in range(n_pairs):
            of_pairs[i * N_LANES + l] = of_line[l][i * TILE]
    memset(numbers, 0, 5 * N_LANES * sizeof(float))
    for tree in range(first_seat.shape[0] - 1):
        first, n_seats = first_seat[tree], first_seat[tree + 1] - first_seat[tree]
        for c in range(width):
            if tree == 0 or column[tree] != column[tree - 1]:
                for l in range(n_pairs):
                    of_lane[l] = &y[column[tree] + c, 0, permutations[l]]
                for i in range(n_rows):
                    for l in range(n_pairs):
                        to[(c * n_rows + i) * N_LANES + l] = of_lane[l][i * N_LANES]
            of_factors = 0 if factors.shape[1] == 1 else c
            if not fixed:
                sum_pairs(n_seats, &start_in[first + tree], &rows_in[first_in[tree]], &weight_in[first_in[tree]],
                          &parent[first], of_pairs, to + c * n_rows * N_LANES, sums)
            for l in range(n_pairs):
                of_line[l] = &factors[tiles[l], of_factors, first, 0, lines[l]]
            for i in range(n_seats):
                for l in range(n_pairs):
                    at = i * OF_SEAT
                    numbers[l] = of_line[l][at]
                    numbers[N_LANES + l] = of_line[l][at + TILE]
                    numbers[2 * N_LANES + l] = of_line[l][at + 2 * TILE]
                    numbers[3 * N_LANES + l] = s_in[c, first + i, permutations[l]]
                    numbers[4 * N_LANES + l] = mean_out[c, first + i, permutations[l]]
                evaluate_seat(start_out[first + tree + i], start_out[first + tree + i + 1], &rows_out[first_out[tree]],
                              depth[first + i], fixed, of_pairs, to + c * n_rows * N_LANES, numbers, sums + i * N_LANES,
                              stack, &of_rows[0, 0, 0])
    add_moments(n_pairs, tiles, lines, permutations, groups, &of_rows[0, 0, 0], weight, starts, moments)


cdef void sum_pairs(
    Py_ssize_t n_seats,
    const int32_t* start,
    const int32_t* rows,
    const float* weight,
    const int32_t* parent,
    const float* x,
    const float* y,
    float* sums,
) noexcept nogil:
    """Write the in-bag sums of x y at the seats of one tree to `sums` (n_seats, 16)."""
    cdef Py_ssize_t seat, r, i
    cdef lanes total
    for seat in range(n_seats):
        total = spread(0)
        for r in range(start[seat], start[seat + 1]):
            i = rows[r] * N_LANES
            total = add(total, multiply(load(x + i), multiply(spread(weight[r]), load(y + i))))
        store(sums + seat * N_LANES, total)
    for seat in range(n_seats - 1, 0, -1):
        increase(sums + parent[seat] * N_LANES, load(sums + seat * N_LANES))


cdef void evaluate_seat(
    Py_ssize_t begin,
    Py_ssize_t end,
    const int32_t* rows,
    Py_ssize_t depth,
    bint fixed,
    const float* x,
    const float* y,
    const float* numbers,
    const float* sums,
    float[:, ::1] stack,
    float* phi,
) noexcept nogil:
    """Add the contributions of the evaluation rows at one seat to `phi` (n_rows, 16), as ``lines.evaluate`` does."""
    cdef Py_ssize_t r, i
    cdef lanes slope = load(numbers), of_mean, a, b, c, d
    cdef lanes centre = load(numbers + 2 * N_LANES)
    cdef float* at = &stack[depth, 0]
    cdef const float* up
    if not fixed:
        slope = multiply(slope, subtract(load(sums), multiply(load(numbers + N_LANES), load(numbers + 3 * N_LANES))))
    of_mean = multiply(slope, load(numbers + 4 * N_LANES))
    a, b, c, d = slope, multiply(centre, slope), of_mean, multiply(centre, of_mean)
    if depth > 0:
        up = at - 4 * N_LANES
        a, b = add(load(up), a), add(load(up + N_LANES), b)
        c, d = add(load(up + 2 * N_LANES), c), add(load(up + 3 * N_LANES), d)
    store(at, a)
    store(at + N_LANES, b)
    store(at + 2 * N_LANES, c)
    store(at + 3 * N_LANES, d)
    for r in range(begin, end):
        i = rows[r] * N_LANES
        increase(phi + i, subtract(
            multiply(load(y + i), subtract(multiply(load(x + i), a), b)), subtract(multiply(load(x + i), c), d)
        ))


cdef void add_moments(
    Py_ssize_t n_pairs,
    const int32_t* tiles,
    const int32_t* lines,
    const int32_t* permutations,
    const int32_t[:, ::1] groups,
    const float* phi,
    const float[::1] weight,
    const int64_t[::1] starts,
    double[:, :, ::1] moments,
) noexcept nogil:
    """Write sums of contributions, and of squares of their totals by block, as ``lines.add_moments`` does."""
    cdef Py_ssize_t i, l, group, block = 0, n_rows = weight.shape[0], n_blocks = starts.shape[0]
    cdef lanes of_block = spread(0), added = spread(0), squares = spread(0)
    cdef float memory[2 * N_LANES]
    cdef double total[2 * N_LANES]
    cdef bint ends
    for l in range(2 * N_LANES):
        total[l] = 0
    for i in range(n_rows):
        of_block = add(of_block, multiply(spread(weight[i]), load(phi + i * N_LANES)))
        ends = n_blocks == 0 or i + 1 == (starts[block + 1] if block + 1 < n_blocks else n_rows)
        if ends:
            added, squares, of_block = add(added, of_block), add(squares, multiply(of_block, of_block)), spread(0)
            block += 1
        if (ends and block % AT_ONCE == 0) or i + 1 == n_rows:
            store(memory, added)
            store(memory + N_LANES, squares)
            for l in range(2 * N_LANES):
                total[l] += memory[l]
            added, squares = spread(0), spread(0)
    for l in range(n_pairs):
        group = groups[tiles[l], lines[l]]
        moments[0, group, permutations[l]] = total[l]
        moments[1, group, permutations[l]] = total[N_LANES + l]


cdef inline void increase(float* to, lanes a) noexcept nogil:
    store(to, add(load(to), a))
