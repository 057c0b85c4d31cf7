"""Compiled loops over lines at every node for one response (debias.rows.effects), eight lines together.

The numbers are those of ``effects.add_lines`` bit for bit: each line has the same operations in the same order.
"""

from libc.stdint cimport int32_t, int64_t, uint16_t
from libc.string cimport memcpy, memset

import numpy as np

cdef extern from "debias/rows/kernels/lanes.h" nogil:
    ctypedef struct doubles:
        pass
    doubles load_doubles(const double* address)
    void store_doubles(double* address, doubles a)
    doubles spread_doubles(double x)
    doubles add_doubles(doubles a, doubles b)
    doubles subtract_doubles(doubles a, doubles b)
    doubles multiply_doubles(doubles a, doubles b)

cdef extern from *:
    """
    /* Compilers do not make a choice for several numbers at once, because a comparison could raise an exception. */
    #if defined(__GNUC__) || defined(__clang__)
    #define IF_ABOVE(a, b, c) ((vector_double)(((a) > (b)) & (__typeof__((a) > (b)))(c)))
    #else
    #define IF_ABOVE(a, b, c) ((a) > (b) ? (c) : 0)
    #endif

    static inline void fit_lines(
        doubles sx, doubles sxx, doubles sx_out, doubles sxx_out, double n_in, double n_out, double scale, double least,
        doubles *centre, doubles *centre_out, doubles *factor
    ) {
        for (int k = 0; k < (int)(sizeof sx.v / sizeof sx.v[0]); k++) {
            vector_double mean = sx.v[k] / n_in, mean_out = sx_out.v[k] / n_out;
            vector_double v = sxx.v[k] - mean * sx.v[k], v_out = sxx_out.v[k] - mean_out * sx_out.v[k];
            vector_double low = least * sxx.v[k], low_out = least * sxx_out.v[k];
            centre->v[k] = IF_ABOVE(v, low, IF_ABOVE(v_out, low_out, mean));
            centre_out->v[k] = IF_ABOVE(v, low, IF_ABOVE(v_out, low_out, mean_out));
            factor->v[k] = IF_ABOVE(v, low, IF_ABOVE(v_out, low_out, scale / v));
        }
    }
    """
    # The means of x in the bag and over the evaluation rows, and the scale over the sum of squares in the bag: 0 where x
    # has one value only.
    void fit_lines(
        doubles sx, doubles sxx, doubles sx_out, doubles sxx_out, double n_in, double n_out, double scale, double least,
        doubles* centre, doubles* centre_out, doubles* factor
    ) nogil

cdef enum:
    TILE = 8  # lines

LINES = TILE

# As in effects.pyx.
cdef double CONSTANT = 1e-12


def write_values(
    const int32_t[::1] feature, const double[:, ::1] x_of_code, const uint16_t[:, ::1] codes, double[:, ::1] x
):
    """Write the values of at most 8 lines, with `feature` (n_lines,) and `x_of_code` (n_lines, n_codes), to `x` (n, 8).

    The values of other lines are 0.
    """
    cdef Py_ssize_t i, j
    with nogil:
        for j in range(TILE):
            for i in range(x.shape[0]):
                x[i, j] = x_of_code[j, codes[feature[j], i]] if j < feature.shape[0] else 0


def add_lines(
    const int64_t[::1] first_seat,
    const int64_t[::1] first_in,
    const int64_t[::1] first_out,
    const int64_t[::1] column,
    const double[:, ::1] x_in,
    const double[:, ::1] x_out,
    const int32_t[::1] rows_in,
    const int32_t[::1] seats_in,
    const double[::1] weight_in,
    const int32_t[::1] rows_out,
    const int32_t[::1] seats_out,
    const double[::1] weight_out,
    const double[:, ::1] y_in,
    const double[:, ::1] y_out,
    const int32_t[::1] parent,
    const double[::1] n_in,
    const double[:, ::1] s_in,
    const double[:, ::1] mean_out,
    const double[::1] scale,
    double least_inside,
    double[:, :, ::1] sums,
    double[::1] en,
    double[:, :, ::1] path,
    double[:, ::1] phi,
):
    """Add to `phi` (n_rows, 8) the contributions of evaluation rows to eight lines in some trees.

    Parameters
    ----------
    first_seat, first_in, first_out : arrays of shape (n_trees + 1,)
        Where the seats, in-bag rows and evaluation rows of each tree begin. Those of a tree are sorted by seat.
    column : array of shape (n_trees,)
        First column of the response of each tree.
    x_in, x_out : arrays of shape (n, 8)
        No value is missing.
    y_in, y_out : arrays of shape (n, n_columns)
    sums : array of shape (most seats of a tree, 4 + width, 8)
        Memory: sums of x and of its squares in the bag, and over the evaluation rows, and of x y. `en` (most,) is the
        weight of the evaluation rows.
    path : array of shape (most, 2 + 2 width, 8)
        Memory: `a_mean`, `b_mean`, `a` and `b` of ``effects.fit_line``.
    Others
        As for ``effects.add_lines``, one tree after the other; `s_in` and `mean_out` (n_seats, width).
    """
    cdef Py_ssize_t tree, seat, in_bag, out
    with nogil:
        for tree in range(first_seat.shape[0] - 1):
            seat, in_bag, out = first_seat[tree], first_in[tree], first_out[tree]
            add_tree(
                first_seat[tree + 1] - seat, first_in[tree + 1] - in_bag, first_out[tree + 1] - out, column[tree],
                x_in, x_out, rows_in[in_bag:], seats_in[in_bag:], weight_in[in_bag:], rows_out[out:], seats_out[out:],
                weight_out[out:], y_in, y_out, parent[seat:], n_in[seat:], s_in[seat:], mean_out[seat:], scale[seat:],
                least_inside, sums, en, path, phi,
            )


cdef void add_tree(
    Py_ssize_t n_seats,
    Py_ssize_t n_rows_in,
    Py_ssize_t n_rows_out,
    Py_ssize_t column,
    const double[:, ::1] x_in,
    const double[:, ::1] x_out,
    const int32_t[::1] rows_in,
    const int32_t[::1] seats_in,
    const double[::1] weight_in,
    const int32_t[::1] rows_out,
    const int32_t[::1] seats_out,
    const double[::1] weight_out,
    const double[:, ::1] y_in,
    const double[:, ::1] y_out,
    const int32_t[::1] parent,
    const double[::1] n_in,
    const double[:, ::1] s_in,
    const double[:, ::1] mean_out,
    const double[::1] scale,
    double least_inside,
    double[:, :, ::1] sums,
    double[::1] en,
    double[:, :, ::1] path,
    double[:, ::1] phi,
) noexcept nogil:
    """Add the contributions in one tree."""
    cdef Py_ssize_t i, j, k, c, seat, up, width = s_in.shape[1]
    cdef doubles x, wx, w, total, sx, sxx, sxy, slope, at_mean, centre, centre_out, factor
    cdef doubles a_mean, b_mean, a, b
    memset(&sums[0, 0, 0], 0, n_seats * (4 + width) * TILE * sizeof(double))
    memset(&en[0], 0, n_seats * sizeof(double))
    j = 0
    while j < n_rows_in:
        # The sums of a seat stay in registers: its rows are together.
        seat, sx, sxx, sxy = seats_in[j], spread_doubles(0), spread_doubles(0), spread_doubles(0)
        while j < n_rows_in and seats_in[j] == seat:
            i = rows_in[j]
            x = load_doubles(&x_in[i, 0])
            wx = multiply_doubles(spread_doubles(weight_in[j]), x)
            sx, sxx = add_doubles(sx, wx), add_doubles(sxx, multiply_doubles(wx, x))
            sxy = add_doubles(sxy, multiply_doubles(wx, spread_doubles(y_in[i, column])))
            for c in range(1, width):
                increase(&sums[seat, 4 + c, 0], multiply_doubles(wx, spread_doubles(y_in[i, column + c])))
            j += 1
        store_doubles(&sums[seat, 0, 0], sx)
        store_doubles(&sums[seat, 1, 0], sxx)
        store_doubles(&sums[seat, 4, 0], sxy)
    j = 0
    while j < n_rows_out:
        seat, sx, sxx = seats_out[j], spread_doubles(0), spread_doubles(0)
        while j < n_rows_out and seats_out[j] == seat:
            en[seat] += weight_out[j]
            x = load_doubles(&x_out[rows_out[j], 0])
            wx = multiply_doubles(spread_doubles(weight_out[j]), x)
            sx, sxx = add_doubles(sx, wx), add_doubles(sxx, multiply_doubles(wx, x))
            j += 1
        store_doubles(&sums[seat, 2, 0], sx)
        store_doubles(&sums[seat, 3, 0], sxx)
    for seat in range(n_seats - 1, 0, -1):
        up = parent[seat]
        en[up] += en[seat]
        for k in range(4 + width):
            increase(&sums[up, k, 0], load_doubles(&sums[seat, k, 0]))
    for seat in range(n_seats):
        if seat == 0:
            memset(&path[0, 0, 0], 0, (2 + 2 * width) * TILE * sizeof(double))
        else:
            memcpy(&path[seat, 0, 0], &path[parent[seat], 0, 0], (2 + 2 * width) * TILE * sizeof(double))
        if n_in[seat] < least_inside or en[seat] <= 0:
            continue
        fit_lines(
            load_doubles(&sums[seat, 0, 0]), load_doubles(&sums[seat, 1, 0]), load_doubles(&sums[seat, 2, 0]),
            load_doubles(&sums[seat, 3, 0]), n_in[seat], en[seat], scale[seat], CONSTANT, &centre, &centre_out, &factor,
        )
        for c in range(width):
            slope = multiply_doubles(centre, spread_doubles(s_in[seat, c]))
            slope = subtract_doubles(load_doubles(&sums[seat, 4 + c, 0]), slope)
            slope = multiply_doubles(factor, slope)
            at_mean = multiply_doubles(centre_out, slope)
            increase(&path[seat, 2 + 2 * c, 0], slope)
            increase(&path[seat, 3 + 2 * c, 0], at_mean)
            increase(&path[seat, 0, 0], multiply_doubles(slope, spread_doubles(mean_out[seat, c])))
            increase(&path[seat, 1, 0], multiply_doubles(at_mean, spread_doubles(mean_out[seat, c])))
    j = 0
    while j < n_rows_out:
        seat = seats_out[j]
        a_mean, b_mean = load_doubles(&path[seat, 0, 0]), load_doubles(&path[seat, 1, 0])
        a, b = load_doubles(&path[seat, 2, 0]), load_doubles(&path[seat, 3, 0])
        while j < n_rows_out and seats_out[j] == seat:
            i = rows_out[j]
            x, w = load_doubles(&x_out[i, 0]), spread_doubles(weight_out[j])
            total = multiply_doubles(w, subtract_doubles(b_mean, multiply_doubles(x, a_mean)))
            total = add_doubles(load_doubles(&phi[i, 0]), total)
            wx = subtract_doubles(multiply_doubles(x, a), b)
            total = add_doubles(total, multiply_doubles(multiply_doubles(w, spread_doubles(y_out[i, column])), wx))
            for c in range(1, width):
                wx = multiply_doubles(x, load_doubles(&path[seat, 2 + 2 * c, 0]))
                wx = subtract_doubles(wx, load_doubles(&path[seat, 3 + 2 * c, 0]))
                total = add_doubles(
                    total, multiply_doubles(multiply_doubles(w, spread_doubles(y_out[i, column + c])), wx)
                )
            store_doubles(&phi[i, 0], total)
            j += 1


cdef inline void increase(double* to, doubles a) noexcept nogil:
    store_doubles(to, add_doubles(load_doubles(to), a))
