"""Compiled loops of GUIDE's tests of association between a feature and the signs or classes Z of the rows of a node.

Codes, and the segments of `rows` and `order`, are those of :mod:`debias_plugins.data_scorers.kernels.guide`.
"""

from libc.math cimport log
from libc.stdint cimport int32_t, int64_t, uint8_t

from debias_plugins.data_scorers.kernels.chi_square cimport log_tail

import numpy as np

cdef enum:
    # Largest numbers of cells, and of columns for each row of the node, of a table of pairs that is counted in place.
    # Larger tables are mostly empty: sort rows.
    MOST_CELLS = 1 << 16
    MOST_COLUMNS = 3
    # Largest number of groups of an ordinal feature: four quarters, and missing values.
    MOST_ORDINAL = 5

# Log p-values and decreases with a smaller relative difference are equal up to rounding; the first one counts.
TIE = 1e-10


cdef class Rows:
    """The features and rows of a tree, and room to test the features in a node.

    Parameters
    ----------
    codes, n_values, categorical
        As for `guide.unadjusted`.
    order, rows : arrays of int32 of shapes (n_features, n_rows) and (n_rows,)
        Rows in the order of nodes.
    n_z : int
        Number of values of Z, the signs or classes `z`. They must be set before a test.
    """

    def __init__(
        self,
        const int32_t[:, ::1] codes,
        const int64_t[::1] n_values,
        const uint8_t[::1] categorical,
        int32_t[:, ::1] order,
        int32_t[::1] rows,
        Py_ssize_t n_z,
    ):
        cdef Py_ssize_t n_features = codes.shape[0], n_rows = codes.shape[1]
        cdef Py_ssize_t k, most_values = 0, most_groups = MOST_ORDINAL
        for k in range(n_features):
            if categorical[k]:
                most_values = max(most_values, n_values[k] + 1)
                most_groups = max(most_groups, min(most_values, n_rows))
        self.codes, self.n_values, self.categorical = codes, n_values, categorical
        self.order, self.rows = order, rows
        self.n_features, self.n_z = n_features, n_z
        self.z = np.empty(n_rows, dtype=np.int16)
        self.z_total = np.empty(n_z)
        self.n_groups = np.empty(n_features, dtype=np.int64)
        self.group = np.empty((n_features, n_rows), dtype=np.int32)
        self.group_and_z = np.empty((n_features, n_rows), dtype=np.int32)
        self.place = np.empty(n_rows, dtype=np.int32)
        self.count = np.empty(max(MOST_CELLS, most_groups * n_z), dtype=np.int32)
        self.of_value = np.empty(max(most_values, most_groups), dtype=np.int32)
        self.by_one = np.empty(n_rows, dtype=np.int32)
        self.by_both = np.empty(n_rows, dtype=np.int32)
        self.cut = np.empty(MOST_ORDINAL, dtype=np.intp)


cdef void test(Rows of, Py_ssize_t begin, Py_ssize_t end, double[::1] log_p) noexcept nogil:
    """Write log p_1(k, t) of every feature to `log_p` (steps 3 to 6)."""
    cdef Py_ssize_t n_features = of.n_features, i, k, c
    cdef double smallest = 0.0
    cdef int m = 3 if end - begin < 60 else 4
    of.n = end - begin
    of.z_total[:] = 0
    for i in range(begin, end):
        of.z_total[of.z[of.rows[i]]] += 1
        of.place[of.rows[i]] = i - begin
    of.n_z_present = 0
    for c in range(of.n_z):
        of.n_z_present += of.z_total[c] > 0
    for k in range(n_features):
        if of.categorical[k]:
            of.n_groups[k] = _group_categories(of, k, begin, end)
        else:
            of.n_groups[k] = _group_ordinal(of, k, begin, end, m, False)
        log_p[k] = _log_p(of, k, begin, end)
        smallest = min(smallest, log_p[k])
    if n_features < 2 or smallest < log(0.10 / n_features):
        return
    for k in range(n_features):
        if not of.categorical[k]:
            of.n_groups[k] = _group_ordinal(of, k, begin, end, 3, True)
    _test_pairs(of, begin, end, log_p)


cdef Py_ssize_t first_above(Rows of, Py_ssize_t k, Py_ssize_t begin, Py_ssize_t end, int64_t value) noexcept nogil:
    """Return the first place in begin:end of an ordinal feature's order with a code above `value`."""
    cdef Py_ssize_t middle
    while begin < end:
        middle = (begin + end) // 2
        if of.codes[k, of.order[k, middle]] > value:
            end = middle
        else:
            begin = middle + 1
    return begin


cdef Py_ssize_t _cuts(Rows of, Py_ssize_t k, Py_ssize_t begin, Py_ssize_t end, int m) noexcept nogil:
    """Write to `cut` the places that cut a sorted segment into at most m groups of about equal size; return how many.

    With at most m distinct values each value is a group. Otherwise each of the m - 1 quantiles is cut at the nearest
    place where the value changes; of two equally near places, at the lower one.
    """
    cdef Py_ssize_t n_cuts = 0, i = begin, high, low, nearest
    cdef int64_t value
    cdef double target
    cdef int j
    while i < end and n_cuts < m:
        i = first_above(of, k, i, end, of.codes[k, of.order[k, i]])
        if i < end:
            of.cut[n_cuts] = i
            n_cuts += 1
    if n_cuts < m:
        return n_cuts
    n_cuts = 0
    for j in range(1, m):
        target = begin + <double>(j * (end - begin)) / m
        value = of.codes[k, of.order[k, <Py_ssize_t>target]]
        high = first_above(of, k, begin, end, value)
        low = first_above(of, k, begin, end, value - 1)
        nearest = low if low > begin and (high == end or target - low <= high - target) else high
        if n_cuts == 0 or nearest > of.cut[n_cuts - 1]:
            of.cut[n_cuts] = nearest
            n_cuts += 1
    return n_cuts


cdef Py_ssize_t _group_ordinal(
    Rows of, Py_ssize_t k, Py_ssize_t begin, Py_ssize_t end, int m, bint of_pairs
) noexcept nogil:
    """Write the group of each row (step 3a, or 6a for pairs; missing is a group); return the number of groups."""
    cdef Py_ssize_t present = first_above(of, k, begin, end, of.n_values[k] - 1), n_cuts = 0, i = begin, stop, g
    if of_pairs and present < end:
        m = 2
    if present > begin:
        n_cuts = _cuts(of, k, begin, present, m)
        if present < end:
            of.cut[n_cuts] = present
            n_cuts += 1
    for g in range(n_cuts + 1):
        stop = of.cut[g] if g < n_cuts else end
        while i < stop:
            of.group[k, of.place[of.order[k, i]]] = g
            i += 1
    return n_cuts + 1


cdef Py_ssize_t _group_categories(Rows of, Py_ssize_t k, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    """Write the group of each row, which is its category; return the number of groups. Missing is a category."""
    cdef Py_ssize_t n_groups = 0, i
    cdef int32_t code
    of.of_value[: of.n_values[k] + 1] = -1
    for i in range(begin, end):
        code = of.codes[k, of.rows[i]]
        if of.of_value[code] < 0:
            of.of_value[code] = n_groups
            n_groups += 1
        of.group[k, i - begin] = of.of_value[code]
    return n_groups


cdef double _log_p(Rows of, Py_ssize_t k, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    """Return log p of the chi-square test of a feature's groups against Z (step 5)."""
    cdef Py_ssize_t i
    if of.n_groups[k] < 2:
        return 0.0
    of.count[: of.n_groups[k] * of.n_z] = 0
    for i in range(begin, end):
        of.count[of.group[k, i - begin] * of.n_z + of.z[of.rows[i]]] += 1
    return _log_p_of_table(of, of.n_groups[k])


cdef double _log_p_of_table(Rows of, Py_ssize_t n_columns) noexcept nogil:
    """Return log p of the table with count[a * n_z + c] in column a and row Z = c, without empty columns and rows."""
    cdef Py_ssize_t n_filled = 0, total, a, c
    cdef double statistic = 0.0
    for a in range(n_columns):
        total = 0
        for c in range(of.n_z):
            total += of.count[a * of.n_z + c]
        if total > 0:
            n_filled += 1
            statistic = _with_column(of, a, total, statistic)
    return log_tail(statistic, (n_filled - 1.0) * (of.n_z_present - 1.0))


cdef inline double _with_column(Rows of, Py_ssize_t a, double total, double statistic) noexcept nogil:
    """Add the cells of a column to the chi-square statistic."""
    cdef double mean, difference
    cdef Py_ssize_t c
    for c in range(of.n_z):
        if of.z_total[c] > 0:
            mean = total * of.z_total[c] / of.n
            difference = of.count[a * of.n_z + c] - mean
            statistic += difference * difference / mean
    return statistic


cdef void _test_pairs(Rows of, Py_ssize_t begin, Py_ssize_t end, double[::1] log_p) noexcept nogil:
    """Test pairs of features for interaction (steps 6b, 6c); a feature with one value in the node is in no pair."""
    cdef Py_ssize_t n_features = of.n_features, n = end - begin, n_columns, width, first = -1, second = -1
    cdef Py_ssize_t i, j, k
    cdef double smallest = 0.0, log_p_of_pair
    for k in range(n_features):
        for i in range(n):
            of.group_and_z[k, i] = of.group[k, i] * of.n_z + of.z[of.rows[begin + i]]
    for j in range(n_features):
        if of.n_groups[j] < 2:
            continue
        for k in range(j + 1, n_features):
            if of.n_groups[k] < 2:
                continue
            n_columns = of.n_groups[j] * of.n_groups[k]
            if n_columns * of.n_z <= MOST_CELLS and n_columns <= MOST_COLUMNS * n:
                for i in range(n_columns * of.n_z):
                    of.count[i] = 0
                width = of.n_groups[k] * of.n_z
                for i in range(n):
                    of.count[of.group[j, i] * width + of.group_and_z[k, i]] += 1
                log_p_of_pair = _log_p_of_table(of, n_columns)
            else:
                log_p_of_pair = _log_p_of_large_table(of, j, k, begin, n)
            if log_p_of_pair < smallest * (1 + TIE):
                smallest, first, second = log_p_of_pair, j, k
    if first >= 0 and smallest < log(0.20 / (n_features * (n_features - 1))):
        log_p[first] = log_p[second] = smallest


cdef double _log_p_of_large_table(Rows of, Py_ssize_t j, Py_ssize_t k, Py_ssize_t begin, Py_ssize_t n) noexcept nogil:
    """Return log p of a pair's table that is large, column by column from sorted rows."""
    cdef Py_ssize_t n_columns = 0, total, i
    cdef int32_t here, of_j, of_k
    cdef double statistic = 0.0
    for i in range(n):
        of.by_both[i] = i
    _sort(of, k, n, of.by_both, of.by_one)
    _sort(of, j, n, of.by_one, of.by_both)
    i = 0
    while i < n:
        here = of.by_both[i]
        of_j, of_k = of.group[j, here], of.group[k, here]
        of.count[: of.n_z] = 0
        total = 0
        while of.group[j, here] == of_j and of.group[k, here] == of_k:
            of.count[of.z[of.rows[begin + here]]] += 1
            total += 1
            i += 1
            if i == n:
                break
            here = of.by_both[i]
        n_columns += 1
        statistic = _with_column(of, 0, total, statistic)
    return log_tail(statistic, (n_columns - 1.0) * (of.n_z_present - 1.0))


cdef void _sort(Rows of, Py_ssize_t k, Py_ssize_t n, int32_t[::1] places, int32_t[::1] by_group) noexcept nogil:
    """Sort places by the group of a feature, stably."""
    cdef int32_t begin = 0, size
    cdef Py_ssize_t i, g
    of.of_value[: of.n_groups[k]] = 0
    for i in range(n):
        of.of_value[of.group[k, i]] += 1
    for g in range(of.n_groups[k]):
        size = of.of_value[g]
        of.of_value[g] = begin
        begin += size
    for i in range(n):
        g = of.group[k, places[i]]
        by_group[of.of_value[g]] = places[i]
        of.of_value[g] += 1
