"""Compiled loops of effects at every node: a line, or means of levels, fitted in-bag and evaluated on unseen rows.

The *seat* of a row in a tree is the deepest node with enough in-bag and evaluation rows that it reaches. Seats are
numbered from 0 in each tree, parents first, so sums over nodes run from the last seat to the first and paths from the
first to the last. The innermost loops compute the responses of several permutations together, as lanes.
"""

cimport cython
from libc.stdint cimport int32_t, uint16_t
from libc.string cimport memcpy, memset

import numpy as np

# A feature is constant in a node if its sum of squares about the mean is this small beside that about 0.
cdef double CONSTANT = 1e-12


def find_seats(
    const int32_t[::1] left,
    const int32_t[::1] right,
    const int32_t[::1] parent,
    double[::1] inside,
    double[::1] outside,
    double least_inside,
    double least_outside,
    int32_t[::1] seat_of_node,
    int32_t[::1] parent_of_seat,
):
    """Find the nodes of one tree with enough rows; return their number.

    `inside` and `outside` are the in-bag weight and the number of evaluation rows in each leaf, 0 at inner nodes.
    """
    cdef Py_ssize_t node
    cdef int32_t n = 0
    with nogil:
        for node in range(left.shape[0] - 1, 0, -1):
            inside[parent[node]] += inside[node]
            outside[parent[node]] += outside[node]
        for node in range(left.shape[0]):
            if node == 0 or (inside[node] >= least_inside and outside[node] >= least_outside):
                parent_of_seat[n] = seat_of_node[parent[node]] if node > 0 else -1
                seat_of_node[node] = n
                n += 1
            else:
                seat_of_node[node] = seat_of_node[parent[node]]
    return n


def sum_seats(
    const int32_t[::1] rows,
    const int32_t[::1] seats,
    const double[::1] weight,
    const double[:, ::1] y,
    const int32_t[::1] parent,
    double[::1] n,
    double[:, ::1] s,
):
    """Write the weight and the sum of the response at the seats of one tree to `n` (n_seats,) and `s` (n_seats, width).

    `rows`, `seats` and `weight` are the rows of the tree, their seats and weights.
    """
    cdef Py_ssize_t j, seat, width = y.shape[1]
    with nogil:
        n[:] = 0.0
        memset(&s[0, 0], 0, s.shape[0] * width * sizeof(double))
        for j in range(rows.shape[0]):
            n[seats[j]] += weight[j]
            add(width, weight[j], &y[rows[j], 0], &s[seats[j], 0])
        for seat in range(n.shape[0] - 1, 0, -1):
            n[parent[seat]] += n[seat]
            add(width, 1.0, &s[seat, 0], &s[parent[seat], 0])


@cython.final
cdef class Memory:
    """Memory of the loops below, for `most` seats, or seats x levels."""

    cdef double[::1] sx, sxx, n_missing, ex, exx, en, slope
    cdef double[:, ::1] sxy, sy_missing, a, b, a_mean, b_mean
    cdef int32_t[::1] kept, kept_parent

    def __init__(self, Py_ssize_t most, Py_ssize_t n_seats, Py_ssize_t width_in, Py_ssize_t width, Py_ssize_t lanes):
        self.sx, self.sxx, self.n_missing, self.ex, self.exx, self.en = (np.empty(most) for _ in range(6))
        self.sxy, self.sy_missing = np.empty((most, width_in)), np.empty((most, width_in))
        self.a, self.b = np.empty((most, width)), np.empty((most, width))
        self.a_mean, self.b_mean = np.empty((most, lanes)), np.empty((most, lanes))
        self.slope = np.empty(max(width_in, width))
        self.kept, self.kept_parent = np.empty(n_seats, dtype=np.int32), np.empty(n_seats, dtype=np.int32)


def add_lines(
    Py_ssize_t begin,
    Py_ssize_t end,
    const int32_t[::1] feature,
    const int32_t[::1] place,
    const double[:, ::1] x_of_code,
    const uint16_t[:, ::1] codes_in,
    const uint16_t[:, ::1] codes_out,
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
    Memory memory,
    double[:, :, ::1] phi,
):
    """Add to `phi` (n_places, n_rows, lanes) the contributions of evaluation rows to lines begin..end in one tree.

    Parameters
    ----------
    feature, place : arrays of shape (n_lines,)
        Feature of each line, and its place in `phi`.
    x_of_code : array of shape (n_lines, n_codes)
        Value of the feature for each code; NaN: the row is left out of the line.
    codes_in, codes_out : arrays of shape (n_features, n)
    rows_in, seats_in, weight_in, rows_out, seats_out, weight_out : arrays of shape (n_rows of the tree,)
        In-bag rows and evaluation rows of the tree, their seats and weights.
    y_in : array of shape (n, width x lanes), or (n, width)
        The responses may be the same in all lanes.
    y_out : array of shape (n_rows, width x lanes)
    n_in, s_in, mean_out : arrays of shape (n_seats,), (n_seats, columns of y_in), (n_seats, width x lanes)
        In-bag weight and sum of the response, and mean response of the evaluation rows, at the seats.
    scale : array of shape (n_seats,)
        Factor of the term of each node.
    """
    cdef Py_ssize_t line, lanes = phi.shape[2]
    cdef bint missing
    with nogil:
        for line in range(begin, end):
            missing = sum_line(
                x_of_code[line], codes_in[feature[line]], rows_in, seats_in, weight_in,
                codes_out[feature[line]], rows_out, seats_out, weight_out, y_in, parent, memory,
            )
            fit_line(missing, y_in.shape[1], y_out.shape[1], lanes, parent, n_in, s_in, mean_out, scale, least_inside,
                     memory)
            evaluate_line(x_of_code[line], codes_out[feature[line]], rows_out, seats_out, weight_out, y_out, lanes,
                          memory, &phi[place[line], 0, 0])


cdef bint sum_line(
    const double[::1] x_of_code,
    const uint16_t[::1] codes_in,
    const int32_t[::1] rows_in,
    const int32_t[::1] seats_in,
    const double[::1] weight_in,
    const uint16_t[::1] codes_out,
    const int32_t[::1] rows_out,
    const int32_t[::1] seats_out,
    const double[::1] weight_out,
    const double[:, ::1] y_in,
    const int32_t[::1] parent,
    Memory memory,
) noexcept nogil:
    """Write the sums at all seats to the memory; return whether an in-bag row has no x."""
    cdef Py_ssize_t i, j, seat, up, n_seats = parent.shape[0], width = y_in.shape[1]
    cdef double w, x
    cdef bint missing = False
    for seat in range(n_seats):
        memory.sx[seat], memory.sxx[seat], memory.n_missing[seat] = 0.0, 0.0, 0.0
        memory.ex[seat], memory.exx[seat], memory.en[seat] = 0.0, 0.0, 0.0
    memset(&memory.sxy[0, 0], 0, n_seats * width * sizeof(double))
    for j in range(rows_in.shape[0]):
        i, seat, w = rows_in[j], seats_in[j], weight_in[j]
        x = x_of_code[codes_in[i]]
        if x != x:
            if not missing:
                missing = True
                memset(&memory.sy_missing[0, 0], 0, n_seats * width * sizeof(double))
            memory.n_missing[seat] += w
            add(width, w, &y_in[i, 0], &memory.sy_missing[seat, 0])
            continue
        w *= x
        memory.sx[seat] += w
        memory.sxx[seat] += w * x
        add(width, w, &y_in[i, 0], &memory.sxy[seat, 0])
    for j in range(rows_out.shape[0]):
        x = x_of_code[codes_out[rows_out[j]]]
        if x == x:
            memory.en[seats_out[j]] += weight_out[j]
            memory.ex[seats_out[j]] += weight_out[j] * x
            memory.exx[seats_out[j]] += weight_out[j] * x * x
    for seat in range(n_seats - 1, 0, -1):
        up = parent[seat]
        memory.sx[up] += memory.sx[seat]
        memory.sxx[up] += memory.sxx[seat]
        memory.ex[up] += memory.ex[seat]
        memory.exx[up] += memory.exx[seat]
        memory.en[up] += memory.en[seat]
        add(width, 1.0, &memory.sxy[seat, 0], &memory.sxy[up, 0])
        if missing:
            memory.n_missing[up] += memory.n_missing[seat]
            add(width, 1.0, &memory.sy_missing[seat, 0], &memory.sy_missing[up, 0])
    return missing


cdef void fit_line(
    bint missing,
    Py_ssize_t width_in,
    Py_ssize_t width,
    Py_ssize_t lanes,
    const int32_t[::1] parent,
    const double[::1] n_in,
    const double[:, ::1] s_in,
    const double[:, ::1] mean_out,
    const double[::1] scale,
    double least_inside,
    Memory memory,
) noexcept nogil:
    """Write to the memory, for every seat, the lines of the nodes on its path: a row adds w y (x a - b) in all.

    `a_mean` and `b_mean` are the same for the means of the response of the evaluation rows in these nodes.
    """
    cdef Py_ssize_t b, c, seat
    cdef double n, v, factor, centre, centre_out
    cdef const double* y
    cdef const double* s
    cdef double* slope = &memory.slope[0]
    for seat in range(parent.shape[0]):
        inherit(seat, parent[seat], width, memory.a)
        inherit(seat, parent[seat], width, memory.b)
        inherit(seat, parent[seat], lanes, memory.a_mean)
        inherit(seat, parent[seat], lanes, memory.b_mean)
        n = n_in[seat] - memory.n_missing[seat]
        if n < least_inside or memory.en[seat] <= 0:
            continue
        centre = memory.sx[seat] / n
        # The difference loses its digits if x hardly varies beside its mean: CONSTANT refuses such a line.
        v = memory.sxx[seat] - centre * memory.sx[seat]
        if not v > CONSTANT * memory.sxx[seat]:
            continue
        factor, centre_out = scale[seat] / v, memory.ex[seat] / memory.en[seat]
        # Without a second value among the evaluation rows the term is 0, and its rounding would be studentised.
        if not memory.exx[seat] - centre_out * memory.ex[seat] > CONSTANT * memory.exx[seat]:
            continue
        y, s = &memory.sxy[seat, 0], &s_in[seat, 0]
        for b in range(width_in):
            slope[b] = factor * (y[b] - centre * s[b])
        if missing:
            # `s_in` has the rows without x too, which take no part in the line: their sum of responses is put back.
            add(width_in, factor * centre, &memory.sy_missing[seat, 0], slope)
        spread_lanes(width_in, width, slope)
        add(width, 1.0, slope, &memory.a[seat, 0])
        add(width, centre_out, slope, &memory.b[seat, 0])
        for c in range(width // lanes):
            add_products(lanes, 1.0, slope + c * lanes, &mean_out[seat, c * lanes], &memory.a_mean[seat, 0])
            add_products(lanes, centre_out, slope + c * lanes, &mean_out[seat, c * lanes], &memory.b_mean[seat, 0])


cdef void evaluate_line(
    const double[::1] x_of_code,
    const uint16_t[::1] codes_out,
    const int32_t[::1] rows_out,
    const int32_t[::1] seats_out,
    const double[::1] weight_out,
    const double[:, ::1] y_out,
    Py_ssize_t lanes,
    Memory memory,
    double* phi,
) noexcept nogil:
    """Add the contributions of the evaluation rows to `phi` (n_rows x lanes)."""
    cdef Py_ssize_t b, c, i, j, seat, width = y_out.shape[1]
    cdef double w, x
    cdef const double* y
    cdef double* to
    cdef double* a
    cdef double* b_of
    cdef double* a_mean
    cdef double* b_mean
    for j in range(rows_out.shape[0]):
        i = rows_out[j]
        x = x_of_code[codes_out[i]]
        if x == x:
            w, seat, y, to = weight_out[j], seats_out[j], &y_out[i, 0], phi + i * lanes
            a, b_of = &memory.a[seat, 0], &memory.b[seat, 0]
            a_mean, b_mean = &memory.a_mean[seat, 0], &memory.b_mean[seat, 0]
            for b in range(lanes):
                to[b] += w * (b_mean[b] - x * a_mean[b])
            for c in range(width // lanes):
                for b in range(lanes):
                    to[b] += w * y[b] * (x * a[b] - b_of[b])
                y, a, b_of = y + lanes, a + lanes, b_of + lanes


def add_levels(
    const uint16_t[::1] codes_in,
    const uint16_t[::1] codes_out,
    Py_ssize_t n_levels,
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
    Memory memory,
    double[:, ::1] phi,
):
    """Add to `phi` (n_rows, lanes) the contributions of evaluation rows to the level means of one feature in one tree.

    Parameters as for `add_lines`. Nodes with less in-bag weight than `least_inside` are skipped, so that seats x levels
    are not many more than rows.
    """
    cdef Py_ssize_t i, j, b, c, level, at, seat, up, n_kept = 0, n_seats = parent.shape[0], lanes = phi.shape[1]
    cdef Py_ssize_t width_in = y_in.shape[1], width = y_out.shape[1]
    cdef double w, mean
    cdef double* to
    cdef const double* s
    cdef double* slope = &memory.slope[0]
    with nogil:
        for seat in range(n_seats):
            if seat == 0 or n_in[seat] >= least_inside:
                memory.kept_parent[n_kept] = memory.kept[parent[seat]] if seat > 0 else -1
                memory.kept[seat] = <int32_t> n_kept
                n_kept += 1
            else:
                memory.kept[seat] = memory.kept[parent[seat]]
        for at in range(n_kept * n_levels):
            memory.sx[at], memory.ex[at] = 0.0, 0.0
        for seat in range(n_kept):
            memory.en[seat] = 0.0
        memset(&memory.sxy[0, 0], 0, n_kept * n_levels * width_in * sizeof(double))
        for j in range(rows_in.shape[0]):
            i, w = rows_in[j], weight_in[j]
            at = memory.kept[seats_in[j]] * n_levels + codes_in[i]
            memory.sx[at] += w
            add(width_in, w, &y_in[i, 0], &memory.sxy[at, 0])
        for j in range(rows_out.shape[0]):
            seat = memory.kept[seats_out[j]]
            memory.ex[seat * n_levels + codes_out[rows_out[j]]] += weight_out[j]
            memory.en[seat] += weight_out[j]
        for seat in range(n_kept - 1, 0, -1):
            up = memory.kept_parent[seat]
            memory.en[up] += memory.en[seat]
            for level in range(n_levels):
                memory.sx[up * n_levels + level] += memory.sx[seat * n_levels + level]
                memory.ex[up * n_levels + level] += memory.ex[seat * n_levels + level]
            add(n_levels * width_in, 1.0, &memory.sxy[seat * n_levels, 0], &memory.sxy[up * n_levels, 0])
        at = -1
        for seat in range(n_seats):  # the last seat that is mapped to a kept one is not the kept one itself
            if memory.kept[seat] <= at:
                continue
            at = memory.kept[seat]
            up, s = memory.kept_parent[at], &s_in[seat, 0]
            # The mean of the fitted values over the evaluation rows is subtracted: `b` and `b_mean` of the kept seat.
            memset(&memory.b[at, 0], 0, width * sizeof(double))
            memset(&memory.b_mean[at, 0], 0, lanes * sizeof(double))
            for level in range(n_levels):
                inherit(at * n_levels + level, up * n_levels + level if up >= 0 else -1, width, memory.a)
                inherit(at * n_levels + level, up * n_levels + level if up >= 0 else -1, lanes, memory.a_mean)
            if memory.en[at] <= 0 or n_in[seat] <= 0:
                continue
            for level in range(n_levels):
                i = at * n_levels + level
                if not memory.sx[i] > 0 or not memory.ex[i] > 0:
                    continue
                for b in range(width_in):
                    slope[b] = scale[seat] * (memory.sxy[i, b] / memory.sx[i] - s[b] / n_in[seat])
                spread_lanes(width_in, width, slope)
                w = memory.ex[i] / memory.en[at]
                add(width, 1.0, slope, &memory.a[i, 0])
                add(width, -w, slope, &memory.b[at, 0])
                for c in range(width // lanes):
                    add_products(lanes, 1.0, slope + c * lanes, &mean_out[seat, c * lanes], &memory.a_mean[i, 0])
                    add_products(lanes, -w, slope + c * lanes, &mean_out[seat, c * lanes], &memory.b_mean[at, 0])
            for level in range(n_levels):
                i = at * n_levels + level
                add(width, 1.0, &memory.b[at, 0], &memory.a[i, 0])
                add(lanes, 1.0, &memory.b_mean[at, 0], &memory.a_mean[i, 0])
        for j in range(rows_out.shape[0]):
            i = rows_out[j]
            at, to = memory.kept[seats_out[j]] * n_levels + codes_out[i], &phi[i, 0]
            add(lanes, -weight_out[j], &memory.a_mean[at, 0], to)
            for c in range(width // lanes):
                add_products(lanes, weight_out[j], &y_out[i, c * lanes], &memory.a[at, c * lanes], to)


cdef inline void add(Py_ssize_t n, double factor, const double* what, double* to) noexcept nogil:
    cdef Py_ssize_t b
    for b in range(n):
        to[b] += factor * what[b]


cdef inline void add_products(
    Py_ssize_t n, double factor, const double* one, const double* other, double* to
) noexcept nogil:
    cdef Py_ssize_t b
    for b in range(n):
        to[b] += factor * one[b] * other[b]


cdef inline void inherit(Py_ssize_t seat, Py_ssize_t parent, Py_ssize_t n, double[:, ::1] sums) noexcept nogil:
    """Copy the sums of the parent, or write zeros for the root."""
    if parent < 0:
        memset(&sums[seat, 0], 0, n * sizeof(double))
    else:
        memcpy(&sums[seat, 0], &sums[parent, 0], n * sizeof(double))


cdef inline void spread_lanes(Py_ssize_t width_in, Py_ssize_t width, double* slope) noexcept nogil:
    """Repeat each slope in all lanes, if the in-bag responses are the same in all lanes."""
    cdef Py_ssize_t b, lanes = width // width_in
    if lanes == 1:
        return
    # From the last lane to the first, because the slopes that are read stand at the beginning of the same array.
    for b in range(width - 1, -1, -1):
        slope[b] = slope[b // lanes]
