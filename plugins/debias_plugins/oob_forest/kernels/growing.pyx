"""Compiled loops that grow one tree of an OOBForest, and that predict with it.

Let d = s_l - (n_l / n_t) s_t over the rows of a node. Then n times the decrease of the impurity (variance, or Gini
impurity of one-hot columns) in a split is |d|^2 n_t / (n_l n_r), for in-bag rows and for out-of-bag rows.
"""

cimport cython
from libc.math cimport INFINITY, isnan
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

import numpy as np

# A split replaces an earlier one only if better by this share of the sum of squares: rounding must not decide.
cdef double TIE = 1e-10

cdef enum:
    # In-bag and out-of-bag sums of the response in a node.
    IN_BAG
    OUT_OF_BAG
    # Up to so many rows are sorted by insertion.
    FEW = 48


cdef struct Split:
    double threshold
    double gain
    bint missing_left


cdef struct Moments:
    # Weight, n times impurity, and the difference up to which sums of squares are tied.
    double n
    double mass
    double tie


NODE = ("begin", "end", "begin_out", "end_out", "depth", "parent", "side")


cdef struct Node:
    # Segments of in-bag and of out-of-bag rows; side is 1 for the right child of the parent.
    Py_ssize_t begin
    Py_ssize_t end
    Py_ssize_t begin_out
    Py_ssize_t end_out
    Py_ssize_t depth
    Py_ssize_t parent
    Py_ssize_t side


def grow(
    const double[:, ::1] X,
    const int32_t[:, ::1] codes,
    const int64_t[::1] n_codes,
    const double[:, ::1] response,
    const double[:, ::1] value,
    const double[::1] weight,
    const uint8_t[::1] inside,
    const double[::1] multiplicity,
    options,
    uint64_t seed,
    double[::1] importance,
):
    """Grow a tree, add its out-of-bag decreases to `importance`, and return its nodes.

    Parameters
    ----------
    X : array of float64 of shape (n_features, n_rows)
    codes : array of int32 of shape (n_features, n_rows)
        Rank of each value among the distinct values of its feature; a missing value has the rank `n_codes`, an array of
        int64 of shape (n_features,).
    response : array of float64 of shape (n_rows, width)
        The centred response, for impurities.
    value : array of float64 of shape (n_rows, n_outputs)
        The values that are averaged in the leaves.
    weight : array of float64 of shape (n_rows,)
        Weights of the rows, not counting how often they are in the bag.
    inside, multiplicity : array of bool, of float64, of shape (n_rows,)
        Which rows are in the bag, and how often.
    options : tuple of (max_features, max_depth, min_samples_leaf)
        A `max_depth` of -1 means no limit.
    seed : int
    importance : array of float64 of shape (n_features,)

    Returns
    -------
    tuple
        Arrays with one entry per node: feature, threshold, left, right, missing_left, value (n_nodes, n_outputs),
        count, weight, impurity. Then the leaf of every evaluated out-of-bag row, and -1 for other rows.
    """
    cdef Py_ssize_t max_features = options[0], max_depth = options[1], min_leaf = options[2]
    cdef Py_ssize_t n_features = X.shape[0], n_rows = X.shape[1], n_outputs = value.shape[1]
    cdef Py_ssize_t n_in = 0, n_out = 0, most, n_stack = 1, t = -1, at, tried, pick, middle, middle_out, i, j, c, k
    cdef double n_root = 0.0, decrease, decrease_out, gain_out
    cdef bint is_large, has_split, better
    cdef Node node
    cdef Moments of_in, of_out
    cdef Split split, best
    cdef uint64_t random = seed
    cdef _Rows rows = _Rows(X, codes, n_codes, response, min_leaf)
    cdef Py_ssize_t[::1] order = np.arange(n_features, dtype=np.intp)
    cdef int32_t[::1] leaf = np.full(n_rows, -1, dtype=np.int32)
    with nogil:
        for i in range(n_rows):
            if weight[i] > 0 and inside[i]:
                rows.rows[n_in] = i
                rows.weight[i] = weight[i] * multiplicity[i]
                n_in += 1
        for i in range(n_rows):
            if weight[i] > 0 and not inside[i]:
                rows.rows[n_in + n_out] = i
                rows.weight[i] = weight[i]
                n_root += weight[i]
                n_out += 1
    most = max(2 * n_in - 1, 1)
    cdef int32_t[::1] feature = np.full(most, -1, dtype=np.int32)
    cdef double[::1] threshold = np.zeros(most)
    cdef int32_t[:, ::1] children = np.full((2, most), -1, dtype=np.int32)
    cdef uint8_t[::1] missing_left = np.zeros(most, dtype=np.uint8)
    cdef double[:, ::1] values = np.zeros((most, n_outputs))
    cdef int64_t[::1] count = np.zeros(most, dtype=np.int64)
    cdef double[::1] n_of = np.zeros(most)
    cdef double[::1] impurity = np.zeros(most)
    cdef Node[::1] stack = np.empty(max(n_in, 1), dtype=[(name, np.intp) for name in NODE])
    stack[0] = Node(0, n_in, n_in, n_in + n_out, 0, -1, 0)
    with nogil:
        while n_stack > 0:
            n_stack -= 1
            node = stack[n_stack]
            t += 1
            if node.parent >= 0:
                children[node.side, node.parent] = t
            of_in = rows.moments(node.begin, node.end, IN_BAG)
            count[t], n_of[t], impurity[t] = node.end - node.begin, of_in.n, of_in.mass / of_in.n
            for j in range(node.begin, node.end):
                i = rows.rows[j]
                for c in range(n_outputs):
                    values[t, c] += rows.weight[i] * value[i, c] / of_in.n
            has_split = False
            is_large = node.depth != max_depth and node.end - node.begin >= 2 * min_leaf
            if is_large and not rows.pure(node.begin, node.end):
                of_out = rows.moments(node.begin_out, node.end_out, OUT_OF_BAG)
                decrease, decrease_out, tried, at = -INFINITY, 0.0, 0, 0
                while at < n_features and tried < max_features:
                    pick = at + <Py_ssize_t>(_draw(&random) % <uint64_t>(n_features - at))
                    order[at], order[pick] = order[pick], order[at]
                    k = order[at]
                    at += 1
                    if not rows.best_split(k, node.begin, node.end, of_in, &split):
                        continue
                    tried += 1
                    gain_out = rows.decrease(k, node.begin_out, node.end_out, of_out.n, split)
                    better = gain_out > decrease_out + of_out.tie
                    # While no split is better than none on out-of-bag rows, the in-bag rows choose.
                    if better or (decrease_out == 0 and split.gain > decrease + of_in.tie):
                        decrease = split.gain
                        decrease_out = gain_out if better else 0.0
                        best = split
                        feature[t] = k
                        has_split = True
            if not has_split:
                for j in range(node.begin_out, node.end_out):
                    leaf[rows.rows[j]] = t
                continue
            k = feature[t]
            threshold[t], missing_left[t] = best.threshold, best.missing_left
            if n_root > 0:
                importance[k] += decrease_out / n_root
            middle = rows.part(k, node.begin, node.end, best)
            middle_out = rows.part(k, node.begin_out, node.end_out, best)
            stack[n_stack] = Node(middle, node.end, middle_out, node.end_out, node.depth + 1, t, 1)
            stack[n_stack + 1] = Node(node.begin, middle, node.begin_out, middle_out, node.depth + 1, t, 0)
            n_stack += 2
    t += 1
    links = (np.array(children[0, :t]), np.array(children[1, :t]), np.array(missing_left[:t]).view(np.bool_))
    of_nodes = (np.array(values[:t]), np.array(count[:t]), np.array(n_of[:t]), np.array(impurity[:t]), np.asarray(leaf))
    return (np.array(feature[:t]), np.array(threshold[:t]), *links, *of_nodes)


def add_values(
    const double[:, ::1] X,
    const int32_t[::1] feature,
    const double[::1] threshold,
    const int32_t[::1] left,
    const int32_t[::1] right,
    const uint8_t[::1] missing_left,
    const double[:, ::1] value,
    double[:, ::1] total,
):
    """Add the prediction of a tree for each row of X (n_rows, n_features) to `total` (n_rows, n_outputs)."""
    cdef Py_ssize_t i, c
    cdef int32_t t
    with nogil:
        for i in range(X.shape[0]):
            t = _leaf(X, i, feature, threshold, left, right, missing_left)
            for c in range(value.shape[1]):
                total[i, c] += value[t, c]


def leaves(
    const double[:, ::1] X,
    const int32_t[::1] feature,
    const double[::1] threshold,
    const int32_t[::1] left,
    const int32_t[::1] right,
    const uint8_t[::1] missing_left,
    int32_t[::1] leaf,
):
    """Write the leaf of each row of X (n_rows, n_features) to `leaf` (n_rows,)."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(X.shape[0]):
            leaf[i] = _leaf(X, i, feature, threshold, left, right, missing_left)


cdef inline int32_t _leaf(
    const double[:, ::1] X,
    Py_ssize_t i,
    const int32_t[::1] feature,
    const double[::1] threshold,
    const int32_t[::1] left,
    const int32_t[::1] right,
    const uint8_t[::1] missing_left,
) noexcept nogil:
    """Return the leaf of a row."""
    cdef int32_t t = 0
    while left[t] >= 0:
        t = left[t] if _goes_left(X[i, feature[t]], threshold[t], missing_left[t]) else right[t]
    return t


cdef inline bint _goes_left(double x, double threshold, bint missing_left) noexcept nogil:
    """Return whether a value goes left. Comparing first takes less time: NaN is not at most any number."""
    return x <= threshold or (missing_left and isnan(x))


cdef inline uint64_t _draw(uint64_t* state) noexcept nogil:
    """Return the next number of SplitMix64 (Steele, Lea and Flood 2014). Each tree has its own state, for threads."""
    cdef uint64_t z
    state[0] += 0x9E3779B97F4A7C15ULL
    z = state[0]
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL
    return z ^ (z >> 31)


@cython.final
cdef class _Rows:
    """The rows of a tree in the order of its nodes, and room to find the splits of a node."""

    cdef const double[:, ::1] X
    cdef const int32_t[:, ::1] codes
    cdef const int64_t[::1] n_codes
    cdef const double[:, ::1] response
    cdef Py_ssize_t width, min_leaf
    # A node has a segment of in-bag rows and one of out-of-bag rows, both ascending. In-bag rows are weighted by how
    # often they are in the bag.
    cdef int32_t[::1] rows
    cdef double[::1] weight
    # Sums of the response in the node, and on the left of a split.
    cdef double[:, ::1] s
    cdef double[::1] s_left
    # For each distinct value of a feature in the node, ascending, missing last: one row that has it, the number of
    # rows, their weight and sum of the response.
    cdef int32_t[::1] first
    cdef int64_t[::1] count
    cdef double[::1] n_of
    cdef double[:, ::1] s_of
    # The same for all values of a feature; 0 between uses.
    cdef int64_t[::1] count_at
    cdef double[::1] n_at
    cdef double[:, ::1] s_at
    # Work space for sorting and partitioning rows.
    cdef int64_t[::1] keys, sorted_keys, place
    cdef int32_t[::1] kept

    def __init__(
        self,
        const double[:, ::1] X,
        const int32_t[:, ::1] codes,
        const int64_t[::1] n_codes,
        const double[:, ::1] response,
        Py_ssize_t min_leaf,
    ):
        cdef Py_ssize_t n_rows = X.shape[1], width = response.shape[1], size = max(n_rows, np.max(n_codes) + 1)
        self.X, self.codes, self.n_codes, self.response = X, codes, n_codes, response
        self.width, self.min_leaf = width, min_leaf
        self.rows = np.empty(n_rows, dtype=np.int32)
        self.weight = np.empty(n_rows)
        self.s = np.empty((2, width))
        self.s_left = np.empty(width)
        self.first = np.empty(size, dtype=np.int32)
        self.count = np.empty(size, dtype=np.int64)
        self.n_of = np.empty(size)
        self.s_of = np.empty((size, width))
        self.count_at = np.zeros(size, dtype=np.int64)
        self.n_at = np.zeros(size)
        self.s_at = np.zeros((size, width))
        self.keys = np.empty(n_rows, dtype=np.int64)
        self.sorted_keys = np.empty(n_rows, dtype=np.int64)
        self.place = np.empty(256, dtype=np.int64)
        self.kept = np.empty(n_rows, dtype=np.int32)

    cdef Moments moments(self, Py_ssize_t begin, Py_ssize_t end, Py_ssize_t which) noexcept nogil:
        """Return the moments of a segment of rows, and write the sums of their response to `s`."""
        cdef double n = 0.0, squares = 0.0, mass
        cdef Py_ssize_t i, j, c
        self.s[which] = 0
        for j in range(begin, end):
            i = self.rows[j]
            n += self.weight[i]
            for c in range(self.width):
                self.s[which, c] += self.weight[i] * self.response[i, c]
                squares += self.weight[i] * (self.response[i, c] * self.response[i, c])
        mass = squares
        if n > 0:
            for c in range(self.width):
                mass -= self.s[which, c] * self.s[which, c] / n
        return Moments(n, max(mass, 0.0), TIE * squares)

    cdef bint pure(self, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
        """Return whether all rows of a segment have the same response."""
        cdef Py_ssize_t j, c
        for j in range(begin + 1, end):
            for c in range(self.width):
                if self.response[self.rows[j], c] != self.response[self.rows[begin], c]:
                    return False
        return True

    cdef bint best_split(self, Py_ssize_t k, Py_ssize_t begin, Py_ssize_t end, Moments of, Split* split) noexcept nogil:
        """Write the best in-bag split of a feature to `split`; return whether there is one."""
        cdef Py_ssize_t n_groups = self._group(k, begin, end), n_present, n_rows = end - begin, n_rows_left, cut = -1
        cdef Py_ssize_t g, c
        cdef double best = -INFINITY, n_left, gain, difference, apart, low, high, middle
        cdef bint missing, missing_left
        if n_groups < 2:
            return False
        missing = self.codes[k, self.first[n_groups - 1]] == self.n_codes[k]
        n_present = n_groups - 1 if missing else n_groups
        for missing_left in range(2 if missing else 1):
            n_left, n_rows_left = 0.0, 0
            self.s_left[:] = 0
            if missing_left:
                n_left, n_rows_left = self.n_of[n_groups - 1], self.count[n_groups - 1]
                self.s_left[:] = self.s_of[n_groups - 1]
            # The last cut of the first pass separates missing values from all others.
            for g in range(n_present if missing and not missing_left else n_present - 1):
                n_left += self.n_of[g]
                n_rows_left += self.count[g]
                for c in range(self.width):
                    self.s_left[c] += self.s_of[g, c]
                if n_rows_left < self.min_leaf or n_rows - n_rows_left < self.min_leaf:
                    continue
                apart = n_left * (of.n - n_left)
                if apart == 0:  # up to rounding, all weight is on one side
                    continue
                gain = 0.0
                for c in range(self.width):
                    difference = self.s_left[c] - n_left / of.n * self.s[IN_BAG, c]
                    gain += difference * difference
                gain *= of.n / apart
                if gain > best + of.tie:
                    best, cut = gain, g
                    # If none is missing: the side with more rows.
                    split.missing_left = missing_left if missing else n_left > of.n - n_left
        if cut < 0:
            return False
        split.gain = best
        split.threshold = INFINITY
        if cut + 1 < n_present:
            low, high = self.X[k, self.first[cut]], self.X[k, self.first[cut + 1]]
            middle = low / 2 + high / 2
            split.threshold = middle if low <= middle < high else low
        return True

    cdef double decrease(self, Py_ssize_t k, Py_ssize_t begin, Py_ssize_t end, double n, Split split) noexcept nogil:
        """Return n times the decrease of the impurity of out-of-bag rows in a split; 0 if all are on one side."""
        cdef double n_left = 0.0, gain = 0.0, weight, difference, apart
        cdef Py_ssize_t n_rows_left = 0, i, j, c
        cdef bint left
        self.s_left[:] = 0
        for j in range(begin, end):
            i = self.rows[j]
            left = _goes_left(self.X[k, i], split.threshold, split.missing_left)
            n_rows_left += left
            # Adding 0 for the other rows is faster than a branch.
            weight = self.weight[i] if left else 0.0
            n_left += weight
            for c in range(self.width):
                self.s_left[c] += weight * self.response[i, c]
        apart = n_left * (n - n_left)
        if n_rows_left == 0 or n_rows_left == end - begin or apart == 0:
            return 0.0
        for c in range(self.width):
            difference = self.s_left[c] - n_left / n * self.s[OUT_OF_BAG, c]
            gain += difference * difference
        return gain * n / apart

    cdef Py_ssize_t part(self, Py_ssize_t k, Py_ssize_t begin, Py_ssize_t end, Split split) noexcept nogil:
        """Move the rows that go left before those that go right, in place; return where the right ones begin."""
        cdef Py_ssize_t n_left = begin, n_right = 0, j
        cdef int32_t i
        cdef bint left
        for j in range(begin, end):
            i = self.rows[j]
            left = _goes_left(self.X[k, i], split.threshold, split.missing_left)
            # Writing the row to both sides, and counting it on one, is faster than a branch.
            self.rows[n_left] = i
            self.kept[n_right] = i
            n_left += left
            n_right += not left
        self.rows[n_left:end] = self.kept[:n_right]
        return n_left

    cdef Py_ssize_t _group(self, Py_ssize_t k, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
        """Sum the in-bag rows by distinct value of a feature; return the number of values."""
        if self.n_codes[k] < 2 * (end - begin):
            return self._group_by_counting(k, begin, end)
        return self._group_by_sorting(k, begin, end)

    cdef Py_ssize_t _group_by_counting(self, Py_ssize_t k, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
        cdef Py_ssize_t n_groups = 0, j, c
        cdef int32_t i, code
        for j in range(begin, end):
            i = self.rows[j]
            code = self.codes[k, i]
            if self.count_at[code] == 0:
                self.first[code] = i
            self.count_at[code] += 1
            self.n_at[code] += self.weight[i]
            for c in range(self.width):
                self.s_at[code, c] += self.weight[i] * self.response[i, c]
        for code in range(self.n_codes[k] + 1):
            if self.count_at[code] > 0:
                self.first[n_groups] = self.first[code]
                self.count[n_groups], self.n_of[n_groups] = self.count_at[code], self.n_at[code]
                self.count_at[code], self.n_at[code] = 0, 0.0
                for c in range(self.width):
                    self.s_of[n_groups, c] = self.s_at[code, c]
                    self.s_at[code, c] = 0.0
                n_groups += 1
        return n_groups

    cdef Py_ssize_t _group_by_sorting(self, Py_ssize_t k, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
        cdef Py_ssize_t n = end - begin, g = -1, j, c
        cdef int64_t code, last = -1
        cdef int32_t i
        for j in range(n):
            i = self.rows[begin + j]
            self.keys[j] = (<int64_t>self.codes[k, i] << 32) | i
        self._sort_keys(n, self.n_codes[k])
        for j in range(n):
            code, i = self.keys[j] >> 32, <int32_t>self.keys[j]
            if code != last:
                last = code
                g += 1
                self.first[g], self.count[g], self.n_of[g] = i, 0, 0.0
                self.s_of[g] = 0
            self.count[g] += 1
            self.n_of[g] += self.weight[i]
            for c in range(self.width):
                self.s_of[g, c] += self.weight[i] * self.response[i, c]
        return g + 1

    cdef void _sort_keys(self, Py_ssize_t n, int64_t largest) noexcept nogil:
        """Sort the first n keys stably by their code, which is at most `largest`."""
        cdef int64_t key, size, start
        cdef Py_ssize_t j, to
        cdef int shift = 32
        if n <= FEW:
            for j in range(1, n):
                key = self.keys[j]
                to = j
                while to > 0 and self.keys[to - 1] > key:
                    self.keys[to] = self.keys[to - 1]
                    to -= 1
                self.keys[to] = key
            return
        # Radix sort, by 8 bits at a time.
        while largest > 0:
            self.place[:] = 0
            for j in range(n):
                self.place[(self.keys[j] >> shift) & 255] += 1
            start = 0
            for j in range(256):
                size = self.place[j]
                self.place[j] = start
                start += size
            for j in range(n):
                key = self.keys[j]
                to = (key >> shift) & 255
                self.sorted_keys[self.place[to]] = key
                self.place[to] += 1
            self.keys, self.sorted_keys = self.sorted_keys, self.keys
            shift += 8
            largest >>= 8
