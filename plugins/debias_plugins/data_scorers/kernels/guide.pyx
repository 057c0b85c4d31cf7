"""Compiled loops of GUIDE's tree.

Features are codes 0, 1, 2, ... of their values in order; missing values have the last code. A node is a segment
begin:end of `rows`. For ordinal features it is the same segment of `order`, where the rows are sorted by code. A split
partitions the segments. So cut points are found by bisection, and one pass over a segment counts a contingency table.
"""

cimport cython
from libc.math cimport fabs, sqrt
from libc.stdint cimport int32_t, int64_t, uint8_t

from debias_plugins.data_scorers.kernels.chi_square cimport quantile_1df
from debias_plugins.data_scorers.kernels.guide_tests cimport TIE, Rows, first_above, test

import numpy as np

# Residuals up to this share of the largest response are rounding errors, and count as not positive.
cdef double ZERO_RESIDUAL = 1e-12

cdef enum:
    # Rows of `_Tree.sums`; the levels of a categorical feature follow.
    TOTAL
    LEFT
    ABSENT
    WITH_ABSENT
    FIRST_LEVEL


def unadjusted(
    const int32_t[:, ::1] codes,
    const int64_t[::1] n_values,
    const uint8_t[::1] categorical,
    const int32_t[:, ::1] sorted_rows,
    const double[::1] y,
    Py_ssize_t n_classes,
    Py_ssize_t levels,
    Py_ssize_t min_node_size,
):
    """Grow one tree and return the unadjusted scores, eq. 1.

    Parameters
    ----------
    codes : array of int32 of shape (n_features, n_rows)
        ``n_values[k]`` is the code of missing values.
    n_values : array of int64 of shape (n_features,)
        Number of distinct values that are not missing.
    categorical : array of bool of shape (n_features,)
    sorted_rows : array of int32 of shape (n_features, n_rows)
        Rows sorted by code, for ordinal features.
    y : array of float64 of shape (n_rows,)
        Numbers, or class codes.
    n_classes : int
        0 for regression.
    levels, min_node_size : int

    Returns
    -------
    array of shape (n_features,)
    """
    cdef Py_ssize_t n_features = codes.shape[0], n_rows = codes.shape[1]
    cdef int32_t[:, ::1] order = np.array(sorted_rows)
    cdef int32_t[::1] rows = np.arange(n_rows, dtype=np.int32)
    cdef _Tree tree = _Tree(codes, n_values, categorical, order, rows, y, n_classes, min_node_size)
    cdef double[::1] v = np.zeros(n_features), log_p = np.empty(n_features)
    # Begin, end and depth; of each level at most one node waits, and two of the last.
    cdef int64_t[:, ::1] stack = np.empty((min(levels, n_rows) + 2, 3), dtype=np.int64)
    cdef Py_ssize_t n_stack = 1, begin, middle, end, depth, best, k
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, n_rows, 0
    with nogil:
        while n_stack > 0:
            n_stack -= 1
            begin, end, depth = stack[n_stack, 0], stack[n_stack, 1], stack[n_stack, 2]
            if end - begin < 2 * min_node_size:
                continue
            tree.set_z(begin, end)
            test(tree, begin, end, log_p)
            best = 0
            for k in range(1, n_features):
                if log_p[k] < log_p[best] * (1 + TIE):
                    best = k
            if log_p[best] >= 0 or not tree.split(best, begin, end):
                continue
            for k in range(n_features):
                v[k] += sqrt(end - begin) * quantile_1df(log_p[k])
            if depth + 1 == levels:
                continue
            middle = tree.partition(rows, begin, end)
            for k in range(n_features):
                if not categorical[k]:
                    tree.partition(order[k], begin, end)
            stack[n_stack, 0], stack[n_stack, 1], stack[n_stack, 2] = middle, end, depth + 1
            stack[n_stack + 1, 0], stack[n_stack + 1, 1], stack[n_stack + 1, 2] = begin, middle, depth + 1
            n_stack += 2
    return np.asarray(v)


@cython.final
cdef class _Tree(Rows):
    """The response, and the splits of nodes."""

    cdef const double[::1] y
    cdef double[::1] residual
    cdef uint8_t[::1] go_left
    cdef Py_ssize_t n_classes, n_sums, min_node_size
    # Sums of residuals, or counts of classes. Of each level: number of rows, mean, whether it goes left.
    cdef double[:, ::1] sums
    cdef double[::1] n_of, mean
    cdef uint8_t[::1] level_left
    # Levels in the order of their means; work space for sorting them, and for the rows that go right.
    cdef int32_t[::1] ordered, spare, right

    def __init__(
        self,
        const int32_t[:, ::1] codes,
        const int64_t[::1] n_values,
        const uint8_t[::1] categorical,
        int32_t[:, ::1] order,
        int32_t[::1] rows,
        const double[::1] y,
        Py_ssize_t n_classes,
        Py_ssize_t min_node_size,
    ):
        cdef Py_ssize_t n_rows = codes.shape[1], most_levels = 0, k
        super().__init__(codes, n_values, categorical, order, rows, n_classes if n_classes > 0 else 2)
        for k in range(self.n_features):
            if categorical[k]:
                most_levels = max(most_levels, n_values[k] + 1)
        self.y, self.n_classes, self.min_node_size = y, n_classes, min_node_size
        self.n_sums = max(n_classes, 1)
        self.residual = np.empty(n_rows)
        self.go_left = np.empty(n_rows, dtype=np.uint8)
        self.sums = np.empty((FIRST_LEVEL + most_levels, self.n_sums))
        self.n_of = np.empty(most_levels)
        self.mean = np.empty(most_levels)
        self.level_left = np.empty(most_levels, dtype=np.uint8)
        self.ordered = np.empty(most_levels, dtype=np.int32)
        self.spare = np.empty(most_levels, dtype=np.int32)
        self.right = np.empty(n_rows, dtype=np.int32)

    cdef void set_z(self, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
        """Set Z to the sign of the residuals, or to the class (steps 1 and 2)."""
        cdef double total = 0.0, largest = 0.0, mean
        cdef Py_ssize_t i
        cdef int32_t row
        if self.n_classes > 0:
            for i in range(begin, end):
                row = self.rows[i]
                self.z[row] = <int>self.y[row]
            return
        for i in range(begin, end):
            row = self.rows[i]
            total += self.y[row]
            largest = max(largest, fabs(self.y[row]))
        mean = total / (end - begin)
        for i in range(begin, end):
            row = self.rows[i]
            self.residual[row] = self.y[row] - mean
            self.z[row] = 0 if self.residual[row] > ZERO_RESIDUAL * largest else 1

    cdef bint split(self, Py_ssize_t k, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
        """Find the best split on a feature, and mark the rows that go left (step 7); return whether there is one."""
        if self.categorical[k]:
            return self._categories(k, begin, end)
        return self._ordinal(k, begin, end)

    cdef Py_ssize_t partition(self, int32_t[::1] rows, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
        """Move the rows that go left to the front of the segment, keeping the order; return the start of the others."""
        cdef Py_ssize_t n_left = begin, n_right = 0, i
        cdef int32_t row
        cdef bint left
        for i in range(begin, end):
            row = rows[i]
            left = self.go_left[row]
            # Write it to both sides and count it on one: there is no branch to be guessed wrongly.
            rows[n_left] = row
            self.right[n_right] = row
            n_left += left
            n_right += not left
        rows[n_left:end] = self.right[:n_right]
        return n_left

    cdef bint _ordinal(self, Py_ssize_t k, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
        """Find the best cut, with missing values on either side or alone."""
        cdef Py_ssize_t present = first_above(self, k, begin, end, self.n_values[k] - 1)
        cdef Py_ssize_t n = end - begin, n_absent = end - present, least = self.min_node_size, at = -1, n_left, i, c
        cdef double best = -1.0, value
        cdef bint missing_left = False
        self.sums[:FIRST_LEVEL] = 0
        for i in range(begin, end):
            self._add(TOTAL, self.order[k, i])
            if i >= present:
                self._add(ABSENT, self.order[k, i])
        for i in range(begin, present):
            self._add(LEFT, self.order[k, i])
            n_left = i + 1 - begin
            if i + 1 < present and self.codes[k, self.order[k, i + 1]] == self.codes[k, self.order[k, i]]:
                continue
            if min(n_left, n - n_left) >= least:
                value = self._between(LEFT, n_left, n)
                if value > best * (1 + TIE):
                    best, at, missing_left = value, i, False
            if n_absent > 0 and i + 1 < present and min(n_left + n_absent, n - n_left - n_absent) >= least:
                for c in range(self.n_sums):
                    self.sums[WITH_ABSENT, c] = self.sums[LEFT, c] + self.sums[ABSENT, c]
                value = self._between(WITH_ABSENT, n_left + n_absent, n)
                if value > best * (1 + TIE):
                    best, at, missing_left = value, i, True
        if at < 0:
            return False
        for i in range(begin, end):
            self.go_left[self.order[k, i]] = i <= at if i < present else missing_left
        return True

    cdef bint _categories(self, Py_ssize_t k, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
        """Find the best cut of levels in the order of their means.

        Missing is a level too. For numbers and two classes this cut is the best of all subsets. With more classes, the
        levels are ordered by the share of each class in turn.
        """
        cdef Py_ssize_t n = end - begin, n_codes = self.n_values[k] + 1, n_levels, n_left, n_chosen, i, c, d
        cdef int32_t row, code
        cdef double best = -1.0, value
        self.sums[: FIRST_LEVEL + n_codes] = 0
        self.n_of[:n_codes] = 0
        for i in range(begin, end):
            row = self.rows[i]
            code = self.codes[k, row]
            self._add(FIRST_LEVEL + code, row)
            self._add(TOTAL, row)
            self.n_of[code] += 1
        for c in range(1 if self.n_classes == 2 else 0, self.n_sums):
            n_levels = 0
            for code in range(n_codes):
                if self.n_of[code] > 0:
                    self.mean[code] = self.sums[FIRST_LEVEL + code, c] / self.n_of[code]
                    self.ordered[n_levels] = code
                    n_levels += 1
            self._sort_levels(n_levels)
            self.sums[LEFT] = 0
            n_left = n_chosen = 0
            for i in range(n_levels - 1):
                code = self.ordered[i]
                for d in range(self.n_sums):
                    self.sums[LEFT, d] += self.sums[FIRST_LEVEL + code, d]
                n_left += <Py_ssize_t>self.n_of[code]
                if min(n_left, n - n_left) < self.min_node_size:
                    continue
                value = self._between(LEFT, n_left, n)
                if value > best * (1 + TIE):
                    best, n_chosen = value, i + 1
            if n_chosen > 0:
                self.level_left[:n_codes] = False
                for i in range(n_chosen):
                    self.level_left[self.ordered[i]] = True
        if best < 0:
            return False
        for i in range(begin, end):
            row = self.rows[i]
            self.go_left[row] = self.level_left[self.codes[k, row]]
        return True

    cdef inline void _add(self, Py_ssize_t at, int32_t row) noexcept nogil:
        """Add a row to the sums at a place."""
        if self.n_classes > 0:
            self.sums[at, self.z[row]] += 1
        else:
            self.sums[at, 0] += self.residual[row]

    cdef inline double _between(self, Py_ssize_t left, Py_ssize_t n_left, Py_ssize_t n) noexcept nogil:
        """Return the decrease of the sum of squares, plus a constant; for classes, n times the Gini decrease."""
        cdef double between = 0.0, of_left, of_right
        cdef Py_ssize_t c
        for c in range(self.n_sums):
            of_left = self.sums[left, c]
            of_right = self.sums[TOTAL, c] - of_left
            between += of_left * of_left / n_left + of_right * of_right / (n - n_left)
        return between

    cdef void _sort_levels(self, Py_ssize_t n) noexcept nogil:
        """Sort the first n levels by mean, stably (merge sort)."""
        cdef Py_ssize_t size = 1, begin, middle, end, i, j, at
        while size < n:
            begin = 0
            while begin < n:
                middle, end = min(begin + size, n), min(begin + 2 * size, n)
                i, j = begin, middle
                for at in range(begin, end):
                    if i < middle and (j == end or self.mean[self.ordered[i]] <= self.mean[self.ordered[j]]):
                        self.spare[at] = self.ordered[i]
                        i += 1
                    else:
                        self.spare[at] = self.ordered[j]
                        j += 1
                begin = end
            self.ordered[:n] = self.spare[:n]
            size *= 2
