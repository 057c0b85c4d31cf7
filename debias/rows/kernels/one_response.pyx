"""Compiled loops over lines at every node for one response (debias.rows.effects), eight lines together.

The numbers are those of ``effects.add_lines`` bit for bit: each line has the same operations in the same order.
"""

from libc.stdint cimport int32_t, uint16_t
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
    """Add to `phi` (n_rows, 8) the contributions of evaluation rows to eight lines in one tree.

    Parameters
    ----------
    x_in, x_out : arrays of shape (n, 8)
        No value is missing.
    sums : array of shape (most seats of a tree, 4 + width, 8)
        Memory: sums of x and of its squares in the bag, and over the evaluation rows, and of x y. `en` (most,) is the
        weight of the evaluation rows.
    path : array of shape (most, 2 + 2 width, 8)
        Memory: `a_mean`, `b_mean`, `a` and `b` of ``effects.fit_line``.
    Others
        As for ``effects.add_lines``.
    """
    cdef Py_ssize_t i, j, k, c, seat, up, width = y_in.shape[1], n_seats = parent.shape[0]
    cdef doubles x, wx, w, total, sx, sxx, sxy
    cdef double centre, v, factor, centre_out, slope
    with nogil:
        memset(&sums[0, 0, 0], 0, n_seats * (4 + width) * TILE * sizeof(double))
        memset(&en[0], 0, n_seats * sizeof(double))
        j = 0
        while j < rows_in.shape[0]:
            # The sums of a seat stay in registers: its rows are together.
            seat, sx, sxx, sxy = seats_in[j], spread_doubles(0), spread_doubles(0), spread_doubles(0)
            while j < rows_in.shape[0] and seats_in[j] == seat:
                i = rows_in[j]
                x = load_doubles(&x_in[i, 0])
                wx = multiply_doubles(spread_doubles(weight_in[j]), x)
                sx, sxx = add_doubles(sx, wx), add_doubles(sxx, multiply_doubles(wx, x))
                sxy = add_doubles(sxy, multiply_doubles(wx, spread_doubles(y_in[i, 0])))
                for c in range(1, width):
                    increase(&sums[seat, 4 + c, 0], multiply_doubles(wx, spread_doubles(y_in[i, c])))
                j += 1
            store_doubles(&sums[seat, 0, 0], sx)
            store_doubles(&sums[seat, 1, 0], sxx)
            store_doubles(&sums[seat, 4, 0], sxy)
        j = 0
        while j < rows_out.shape[0]:
            seat, sx, sxx = seats_out[j], spread_doubles(0), spread_doubles(0)
            while j < rows_out.shape[0] and seats_out[j] == seat:
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
            for j in range(TILE):
                centre = sums[seat, 0, j] / n_in[seat]
                v = sums[seat, 1, j] - centre * sums[seat, 0, j]
                if not v > CONSTANT * sums[seat, 1, j]:
                    continue
                factor, centre_out = scale[seat] / v, sums[seat, 2, j] / en[seat]
                if not sums[seat, 3, j] - centre_out * sums[seat, 2, j] > CONSTANT * sums[seat, 3, j]:
                    continue
                for c in range(width):
                    slope = factor * (sums[seat, 4 + c, j] - centre * s_in[seat, c])
                    path[seat, 2 + 2 * c, j] += slope
                    path[seat, 3 + 2 * c, j] += centre_out * slope
                    path[seat, 0, j] += slope * mean_out[seat, c]
                    path[seat, 1, j] += centre_out * slope * mean_out[seat, c]
        for j in range(rows_out.shape[0]):
            i, seat = rows_out[j], seats_out[j]
            x, w = load_doubles(&x_out[i, 0]), spread_doubles(weight_out[j])
            total = multiply_doubles(x, load_doubles(&path[seat, 0, 0]))
            total = multiply_doubles(w, subtract_doubles(load_doubles(&path[seat, 1, 0]), total))
            total = add_doubles(load_doubles(&phi[i, 0]), total)
            for c in range(width):
                wx = multiply_doubles(x, load_doubles(&path[seat, 2 + 2 * c, 0]))
                wx = subtract_doubles(wx, load_doubles(&path[seat, 3 + 2 * c, 0]))
                total = add_doubles(
                    total, multiply_doubles(multiply_doubles(w, spread_doubles(y_out[i, c])), wx)
                )
            store_doubles(&phi[i, 0], total)


cdef inline void increase(double* to, doubles a) noexcept nogil:
    store_doubles(to, add_doubles(load_doubles(to), a))
