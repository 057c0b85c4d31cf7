"""Compiled loops of honest splits: the best in-bag split of every feature at every node, on evaluation rows.

Let d = s_l - (n_l / n_t) s_t over the rows of a node. The decrease of variance in a split is |d|^2 n_t / (n_l n_r), and
the means of its two sides differ by d n_t / (n_l n_r). So the covariance, centred in the node, between the prediction
of the split and the response of the evaluation rows, n'_l n'_r / n'_t (m_l - m_r) . (m'_l - m'_r), is d . d' n_t / (n_l
n_r), where d' is the same sum as d over the evaluation rows.
"""

import numpy as np
from numba import njit

TIE = 1e-9
"""A split replaces a split on smaller values only if it is better by this share, so that rounding does not decide."""
SORTED_UP_TO = 32
"""Nodes with at most this many rows are sorted; for larger nodes a histogram is faster."""


@njit(cache=True, nogil=True)
def arrange(leaves, weight, left, right):
    """Return the rows of positive weight, ordered by node, and the first place and the number of rows of each node."""
    size = np.zeros(left.size, dtype=np.int64)
    for i in range(leaves.size):
        if weight[i] > 0:
            size[leaves[i]] += 1
    for t in range(left.size - 1, -1, -1):
        if left[t] >= 0:
            size[t] = size[left[t]] + size[right[t]]
    begin = np.zeros(left.size, dtype=np.int64)
    for t in range(left.size):
        if left[t] >= 0:
            begin[left[t]] = begin[t]
            begin[right[t]] = begin[t] + size[left[t]]
    order = np.empty(size[0], dtype=np.int64)
    place = begin.copy()
    for i in range(leaves.size):
        if weight[i] > 0:
            order[place[leaves[i]]] = i
            place[leaves[i]] += 1
    return order, begin, size


@njit(cache=True, nogil=True)
def score_tree(left, inside, outside, n_bins, categorical, min_node_size, shrinkage, score):
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
    bins, weight, response, order, begin, size = inside
    bins_out, weight_out, response_out, order_out, begin_out, size_out = outside
    width = response.shape[1]
    w, r = weight[order], response[order]
    w_out, r_out = weight_out[order_out], response_out[order_out]
    n, s = _sums(left, w, r, begin, size)
    n_out, s_out = _sums(left, w_out, r_out, begin_out, size_out)
    most = n_bins.max() + 1
    groups = (np.empty(most, dtype=np.int64), np.empty(most), np.empty((most, width)))
    histogram = (np.zeros(most), np.zeros((most, width)))
    goes_left = np.zeros(most, dtype=np.bool_)
    d, d_out = np.empty(width), np.empty(width)
    for k in range(n_bins.size):
        codes, codes_out = bins[k][order], bins_out[k][order_out]
        for t in range(left.size):
            if left[t] < 0 or size[t] < 2 or size_out[t] < 2 or n[t] < min_node_size:
                continue
            at = slice(begin[t], begin[t] + size[t])
            n_groups = _group(codes[at], w[at], r[at], n_bins[k], groups, histogram)
            if n_groups < 2:
                continue
            n_left = _best_split(n_groups, groups, n[t], s[t], n_bins[k], categorical[k], goes_left, d)
            if n_left == 0:
                continue
            d_out[:] = 0.0
            n_left_out = 0.0
            for j in range(begin_out[t], begin_out[t] + size_out[t]):
                if goes_left[codes_out[j]]:
                    n_left_out += w_out[j]
                    for c in range(width):
                        d_out[c] += w_out[j] * r_out[j, c]
            if n_left_out == 0 or n_left_out == n_out[t]:
                continue
            term = 0.0
            for c in range(width):
                term += d[c] * (d_out[c] - n_left_out / n_out[t] * s_out[t, c])
            score[k] += term * n[t] / (n_left * (n[t] - n_left)) * n[t] / (n[t] + shrinkage)


@njit(cache=True, nogil=True)
def _sums(left, weight, response, begin, size):
    """Return the weight and the sum of the response of each inner node; leaves have zeros."""
    n, s = np.zeros(left.size), np.zeros((left.size, response.shape[1]))
    for t in range(left.size):
        if left[t] >= 0:
            for j in range(begin[t], begin[t] + size[t]):
                n[t] += weight[j]
                for c in range(response.shape[1]):
                    s[t, c] += weight[j] * response[j, c]
    return n, s


@njit(cache=True, nogil=True)
def _group(codes, weight, response, n_bins, groups, histogram):
    """Sum the rows by bin, and return the number of bins that occur; `groups` receives these bins, ascending."""
    bin_of, n_of, s_of = groups
    width = response.shape[1]
    n_groups = 0
    if codes.size <= SORTED_UP_TO:
        order = np.empty(SORTED_UP_TO, dtype=np.int64)
        for j in range(codes.size):
            at = j
            while at > 0 and codes[order[at - 1]] > codes[j]:
                order[at] = order[at - 1]
                at -= 1
            order[at] = j
        for at in range(codes.size):
            j = order[at]
            if n_groups == 0 or bin_of[n_groups - 1] != codes[j]:
                bin_of[n_groups] = codes[j]
                n_of[n_groups] = 0.0
                s_of[n_groups] = 0.0
                n_groups += 1
            n_of[n_groups - 1] += weight[j]
            for c in range(width):
                s_of[n_groups - 1, c] += weight[j] * response[j, c]
        return n_groups
    n_in, s_in = histogram
    for j in range(codes.size):
        n_in[codes[j]] += weight[j]
        for c in range(width):
            s_in[codes[j], c] += weight[j] * response[j, c]
    for b in range(n_bins + 1):
        if n_in[b] > 0:
            bin_of[n_groups], n_of[n_groups] = b, n_in[b]
            s_of[n_groups] = s_in[b]
            n_groups += 1
            n_in[b] = 0.0
            s_in[b] = 0.0
    return n_groups


@njit(cache=True, nogil=True)
def _best_split(n_groups, groups, n, s, n_bins, categorical, goes_left, d):
    """Return the in-bag weight left of the best split, 0 if there is none; write to `goes_left` and `d`."""
    bin_of, n_of, s_of = groups
    if categorical:
        order = _by_mean(n_groups, groups, s)
        cut, n_left, _ = _best_cut(order, n_of, s_of, n, s, 0.0, np.zeros(s.size), -1.0, d)
        c = _key_column(n_groups, groups, s)
        # A level without in-bag rows in the node is placed at the mean of the node.
        goes_left[: n_bins + 1] = n_left > 0 and s[c] / n <= s_of[order[cut], c] / n_of[order[cut]]
        for at in range(n_groups):
            goes_left[bin_of[order[at]]] = n_left > 0 and at <= cut
        return n_left
    missing = bin_of[n_groups - 1] == n_bins
    present = np.arange(n_groups - 1 if missing else n_groups)
    none = np.zeros(s.size)
    cut, n_left, best = _best_cut(present, n_of, s_of, n, s, 0.0, none, -1.0, d)
    missing_left = n_left > n - n_left  # no in-bag value is missing: missing values go to the side with more rows
    if missing:
        last = n_groups - 1
        # The last cut above already separates present from missing values.
        cut_2, n_left_2, _ = _best_cut(present, n_of, s_of, n, s, n_of[last], s_of[last], best, d)
        missing_left = n_left_2 > 0
        if missing_left:
            cut, n_left = cut_2, n_left_2
    if n_left == 0:
        return n_left
    # The threshold is halfway to the next bin with in-bag rows.
    edge = (bin_of[cut] + bin_of[cut + 1]) // 2 if cut + 1 < present.size else bin_of[cut]
    for b in range(n_bins):
        goes_left[b] = b <= edge if cut + 1 < present.size else True
    goes_left[n_bins] = missing_left
    return n_left


@njit(cache=True, nogil=True)
def _best_cut(order, n_of, s_of, n, s, n_first, s_first, best, d):
    """Return the last group left of the best cut, the weight left of it, and its decrease; 0 if none exceeds `best`.

    `n_first` and `s_first` are the weight and sum of rows that go left at every cut.
    """
    width = s.size
    cut, n_at_cut, n_left = 0, 0.0, n_first
    s_left = s_first.copy()
    for at in range(order.size):
        n_left += n_of[order[at]]
        for c in range(width):
            s_left[c] += s_of[order[at], c]
        if n - n_left <= 1e-12 * n:
            break
        gain = 0.0
        for c in range(width):
            gain += (s_left[c] - n_left / n * s[c]) ** 2
        gain *= n / (n_left * (n - n_left))
        if gain > best * (1 + TIE) and gain > 0:
            best, cut, n_at_cut = gain, at, n_left
            for c in range(width):
                d[c] = s_left[c] - n_left / n * s[c]
    return cut, n_at_cut, best


@njit(cache=True, nogil=True)
def _key_column(n_groups, groups, s):
    """Return the response column whose group means vary most; levels are ordered by it."""
    _, n_of, s_of = groups
    chosen, most = 0, -1.0
    for c in range(s.size):
        between, n = 0.0, 0.0
        for g in range(n_groups):
            between += s_of[g, c] ** 2 / n_of[g]
            n += n_of[g]
        between -= s[c] ** 2 / n
        if between > most * (1 + TIE):
            chosen, most = c, between
    return chosen


@njit(cache=True, nogil=True)
def _by_mean(n_groups, groups, s):
    """Return the groups ordered by their means; with one output the best split of levels is a cut of this order."""
    _, n_of, s_of = groups
    c = _key_column(n_groups, groups, s)
    return np.argsort(s_of[:n_groups, c] / n_of[:n_groups], kind="mergesort")
