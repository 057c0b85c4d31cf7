"""Compiled loops of honest splits: the best in-bag split of every feature at every node, on evaluation rows.

Let d = s_l - (n_l / n_t) s_t over the rows of a node. The decrease of variance in a split is |d|^2 n_t / (n_l n_r), and
the means of its two sides differ by d n_t / (n_l n_r). So the covariance, centred in the node, between the prediction
of the split and the response of the evaluation rows, n'_l n'_r / n'_t (m_l - m_r) . (m'_l - m'_r), is d . d' n_t / (n_l
n_r), where d' is the same sum as d over the evaluation rows.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t
from libc.stdlib cimport qsort

import numpy as np

# A split replaces a split on smaller values only if it is better by this share, so that rounding does not decide.
cdef double TIE = 1e-9
# Nodes with at most this many rows are sorted; for larger nodes a histogram is faster.
cdef enum:
    SORTED_UP_TO = 32

cdef struct Cut:
    int64_t last  # the last group that goes left
    double n_left
    double gain

cdef struct Level:
    double mean
    int64_t group


def arrange(const int32_t[::1] leaves, const double[::1] weight, const int32_t[::1] left, const int32_t[::1] right):
    """Return the rows of positive weight, ordered by node, and the first place and the number of rows of each node."""
    cdef int64_t[::1] size = np.zeros(left.shape[0], dtype=np.int64)
    cdef int64_t[::1] begin = np.zeros(left.shape[0], dtype=np.int64)
    cdef int64_t[::1] place = np.empty(left.shape[0], dtype=np.int64)
    cdef int64_t[::1] order
    cdef int64_t i, t
    with nogil:
        for i in range(leaves.shape[0]):
            if weight[i] > 0:
                size[leaves[i]] += 1
        for t in range(left.shape[0] - 1, -1, -1):
            if left[t] >= 0:
                size[t] = size[left[t]] + size[right[t]]
        for t in range(left.shape[0]):
            if left[t] >= 0:
                begin[left[t]] = begin[t]
                begin[right[t]] = begin[t] + size[left[t]]
        place[:] = begin
    order = np.empty(size[0], dtype=np.int64)
    with nogil:
        for i in range(leaves.shape[0]):
            if weight[i] > 0:
                order[place[leaves[i]]] = i
                place[leaves[i]] += 1
    return order.base, begin.base, size.base


@cython.final
cdef class Rows:
    """Rows ordered by node, and the weight and the sum of the response of each inner node; leaves have zeros."""

    cdef const uint16_t[:, ::1] bins
    cdef const int64_t[::1] order, begin, size
    cdef const double[::1] weight
    cdef const double[:, ::1] response
    cdef uint16_t[::1] codes  # the bins of one feature
    cdef double[::1] n
    cdef double[:, ::1] s

    def __init__(self, const int32_t[::1] left, bins, weight, response, order, begin, size):
        self.bins, self.order, self.begin, self.size = bins, order, begin, size
        self.weight, self.response = weight[order], response[order]
        self.codes = np.empty(order.size, dtype=np.uint16)
        self.n, self.s = np.zeros(left.shape[0]), np.zeros((left.shape[0], response.shape[1]))
        with nogil:
            self.sum_nodes(left)

    cdef void sum_nodes(self, const int32_t[::1] left) noexcept nogil:
        """Add up the rows of each inner node."""
        cdef int64_t t, j, c
        for t in range(left.shape[0]):
            if left[t] >= 0:
                for j in range(self.begin[t], self.begin[t] + self.size[t]):
                    self.n[t] += self.weight[j]
                    for c in range(self.response.shape[1]):
                        self.s[t, c] += self.weight[j] * self.response[j, c]

    cdef void choose(self, int64_t feature) noexcept nogil:
        """Copy the bins of a feature, in the order of the rows."""
        cdef int64_t j
        for j in range(self.order.shape[0]):
            self.codes[j] = self.bins[feature, self.order[j]]


@cython.final
cdef class Groups:
    """The rows of a node summed by bin: the bins that occur, ascending, with their weight and sum of the response."""

    cdef int64_t[::1] bin_of
    cdef double[::1] n_of
    cdef double[:, ::1] s_of
    # Memory of the searches.
    cdef double[::1] n_in, s_left
    cdef double[:, ::1] s_in
    cdef int64_t[::1] order
    cdef Level[::1] levels

    def __init__(self, int64_t most, int64_t width):
        self.bin_of, self.n_of, self.s_of = np.empty(most, dtype=np.int64), np.empty(most), np.empty((most, width))
        self.n_in, self.s_in = np.zeros(most), np.zeros((most, width))
        self.s_left = np.empty(width)
        self.order = np.empty(max(most, <int64_t>SORTED_UP_TO), dtype=np.int64)
        self.levels = np.empty(most, dtype=[("mean", np.float64), ("group", np.int64)])


def score_tree(
    const int32_t[::1] left,
    tuple inside,
    tuple outside,
    const int64_t[::1] n_bins,
    const uint8_t[::1] categorical,
    double min_node_size,
    double shrinkage,
    double[::1] score,
):
    """Add to `score` (n_features,) the terms of every feature at every inner node of one tree, unscaled.

    Parameters
    ----------
    left : array of int32 of shape (n_nodes,)
        Left children, -1 at leaves.
    inside, outside : tuple
        Of the in-bag and of the evaluation rows: bins (n_features, n_rows), weight (n_rows,), response
        (n_rows, width), and what `arrange` returned.
    n_bins : array of int64 of shape (n_features,)
        Bins of each feature; that number itself is the bin of missing values.
    categorical : array of bool of shape (n_features,)
    """
    cdef Rows rows = Rows(left, *inside), out = Rows(left, *outside)
    cdef int64_t width = rows.response.shape[1], most = np.max(n_bins) + 1, n_groups, k, t, j, c
    cdef Groups groups = Groups(most, width)
    cdef uint8_t[::1] goes_left = np.zeros(most, dtype=np.uint8)
    cdef double[::1] d = np.empty(width), d_out = np.empty(width)
    cdef double n, n_left, n_left_out, term
    with nogil:
        for k in range(n_bins.shape[0]):
            rows.choose(k)
            out.choose(k)
            for t in range(left.shape[0]):
                n = rows.n[t]
                if left[t] < 0 or rows.size[t] < 2 or out.size[t] < 2 or n < min_node_size:
                    continue
                n_groups = group(rows, t, n_bins[k], groups)
                if n_groups < 2:
                    continue
                n_left = best_split(n_groups, groups, rows, t, n_bins[k], categorical[k], goes_left, d)
                if n_left == 0:
                    continue
                d_out[:] = 0.0
                n_left_out = 0.0
                for j in range(out.begin[t], out.begin[t] + out.size[t]):
                    if goes_left[out.codes[j]]:
                        n_left_out += out.weight[j]
                        for c in range(width):
                            d_out[c] += out.weight[j] * out.response[j, c]
                # With evaluation rows on one side only, d' is 0 but for rounding.
                if n_left_out == 0 or n_left_out == out.n[t]:
                    continue
                term = 0.0
                for c in range(width):
                    term += d[c] * (d_out[c] - n_left_out / out.n[t] * out.s[t, c])
                score[k] += term * n / (n_left * (n - n_left)) * n / (n + shrinkage)


cdef int64_t group(Rows rows, int64_t t, int64_t n_bins, Groups groups) noexcept nogil:
    """Sum the rows of a node by bin, and return the number of bins that occur."""
    cdef int64_t begin = rows.begin[t], size = rows.size[t], width = rows.response.shape[1]
    cdef int64_t n_groups = 0, g = -1, at, j, b, c
    if size <= SORTED_UP_TO:
        for j in range(size):
            at = j
            while at > 0 and rows.codes[groups.order[at - 1]] > rows.codes[begin + j]:
                groups.order[at] = groups.order[at - 1]
                at -= 1
            groups.order[at] = begin + j
        for at in range(size):
            j = groups.order[at]
            if g < 0 or groups.bin_of[g] != rows.codes[j]:
                g += 1
                groups.bin_of[g] = rows.codes[j]
                groups.n_of[g] = 0.0
                for c in range(width):
                    groups.s_of[g, c] = 0.0
            groups.n_of[g] += rows.weight[j]
            for c in range(width):
                groups.s_of[g, c] += rows.weight[j] * rows.response[j, c]
        return g + 1
    for j in range(begin, begin + size):
        b = rows.codes[j]
        groups.n_in[b] += rows.weight[j]
        for c in range(width):
            groups.s_in[b, c] += rows.weight[j] * rows.response[j, c]
    for b in range(n_bins + 1):
        if groups.n_in[b] > 0:
            groups.bin_of[n_groups], groups.n_of[n_groups] = b, groups.n_in[b]
            groups.n_in[b] = 0.0
            for c in range(width):
                groups.s_of[n_groups, c] = groups.s_in[b, c]
                groups.s_in[b, c] = 0.0
            n_groups += 1
    return n_groups


cdef double best_split(
    int64_t n_groups,
    Groups groups,
    Rows rows,
    int64_t t,
    int64_t n_bins,
    bint categorical,
    uint8_t[::1] goes_left,
    double[::1] d,
) noexcept nogil:
    """Return the in-bag weight left of the best split, 0 if there is none; write to `goes_left` and `d`."""
    cdef double n = rows.n[t]
    cdef bint missing, missing_left, inner
    cdef int64_t present, edge, at, b, c
    cdef Cut cut, with_missing
    if categorical:
        c = key_column(n_groups, groups, rows, t)
        order_by_mean(n_groups, groups, c)
        cut = best_cut(n_groups, groups, rows, t, -1, -1.0, d)
        # A level without in-bag rows in the node is placed at the mean of the node.
        at = groups.order[cut.last]
        goes_left[: n_bins + 1] = cut.n_left > 0 and rows.s[t, c] / n <= groups.s_of[at, c] / groups.n_of[at]
        for at in range(n_groups):
            goes_left[groups.bin_of[groups.order[at]]] = cut.n_left > 0 and at <= cut.last
        return cut.n_left
    missing = groups.bin_of[n_groups - 1] == n_bins
    present = n_groups - 1 if missing else n_groups
    for at in range(present):
        groups.order[at] = at
    cut = best_cut(present, groups, rows, t, -1, -1.0, d)
    missing_left = cut.n_left > n - cut.n_left  # no in-bag value is missing: missing values follow most rows
    if missing:
        # The last cut above already separates present from missing values.
        with_missing = best_cut(present, groups, rows, t, n_groups - 1, cut.gain, d)
        missing_left = with_missing.n_left > 0
        if missing_left:
            cut = with_missing
    if cut.n_left == 0:
        return 0.0
    # The threshold is halfway to the next bin with in-bag rows.
    inner = cut.last + 1 < present
    edge = (groups.bin_of[cut.last] + groups.bin_of[cut.last + 1]) // 2 if inner else n_bins
    for b in range(n_bins):
        goes_left[b] = b <= edge
    goes_left[n_bins] = missing_left
    return cut.n_left


cdef Cut best_cut(
    int64_t n_groups, Groups groups, Rows rows, int64_t t, int64_t first, double best, double[::1] d
) noexcept nogil:
    """Return the best cut of the groups in `groups.order`; its weight is 0 if none exceeds `best`.

    `first` is a group that goes left at every cut, -1 for none. `d` is written if there is a cut.
    """
    cdef double n = rows.n[t], n_left = groups.n_of[first] if first >= 0 else 0.0, gain, step
    cdef int64_t width = d.shape[0], at, g, c
    cdef Cut cut
    cut.last, cut.n_left, cut.gain = 0, 0.0, best
    for c in range(width):
        groups.s_left[c] = groups.s_of[first, c] if first >= 0 else 0.0
    for at in range(n_groups):
        g = groups.order[at]
        n_left += groups.n_of[g]
        for c in range(width):
            groups.s_left[c] += groups.s_of[g, c]
        # Nothing is left on the right but the rounding of weights.
        if n - n_left <= 1e-12 * n:
            break
        gain = 0.0
        for c in range(width):
            step = groups.s_left[c] - n_left / n * rows.s[t, c]
            gain += step * step
        gain *= n / (n_left * (n - n_left))
        if gain > cut.gain * (1 + TIE) and gain > 0:
            cut.last, cut.n_left, cut.gain = at, n_left, gain
            for c in range(width):
                d[c] = groups.s_left[c] - n_left / n * rows.s[t, c]
    return cut


cdef int64_t key_column(int64_t n_groups, Groups groups, Rows rows, int64_t t) noexcept nogil:
    """Return the response column whose group means vary most; levels are ordered by it."""
    cdef int64_t chosen = 0, c, g
    cdef double most = -1.0, between, n
    for c in range(rows.s.shape[1]):
        between, n = 0.0, 0.0
        for g in range(n_groups):
            between += groups.s_of[g, c] * groups.s_of[g, c] / groups.n_of[g]
            n += groups.n_of[g]
        between -= rows.s[t, c] * rows.s[t, c] / n
        if between > most * (1 + TIE):
            chosen, most = c, between
    return chosen


cdef void order_by_mean(int64_t n_groups, Groups groups, int64_t c) noexcept nogil:
    """Order the groups by their means; with one output the best split of levels is a cut of this order."""
    cdef int64_t g
    for g in range(n_groups):
        groups.levels[g].mean, groups.levels[g].group = groups.s_of[g, c] / groups.n_of[g], g
    qsort(&groups.levels[0], n_groups, sizeof(Level), by_mean)
    for g in range(n_groups):
        groups.order[g] = groups.levels[g].group


cdef int by_mean(const void* first, const void* second) noexcept nogil:
    """Compare two levels by their means, and equal means by their numbers."""
    cdef const Level* a = <const Level*>first
    cdef const Level* b = <const Level*>second
    # qsort may order equal levels in any way, and C libraries differ: their numbers decide.
    if a.mean != b.mean:
        return 1 if a.mean > b.mean else -1
    return (a.group > b.group) - (a.group < b.group)
