"""Compiled loops that grow one tree of an OOBForest, and that predict with it.

Let d = s_l - (n_l / n_t) s_t over the rows of a node. Then n times the decrease of the impurity (variance, or Gini
impurity of one-hot columns) in a split is |d|^2 n_t / (n_l n_r), for in-bag rows and for out-of-bag rows.
"""

import numpy as np
from numba import njit

TIE = 1e-10
"""A split replaces an earlier one only if better by this share of the sum of squares: rounding must not decide."""


@njit(cache=True, nogil=True)
def grow(X, codes, n_codes, response, value, weight, inside, multiplicity, options, seed, importance):
    """Grow a tree, add its out-of-bag decreases to `importance`, and return its nodes.

    Parameters
    ----------
    X : array of float64 of shape (n_features, n_rows)
    codes : array of int32 of shape (n_features, n_rows)
        Rank of each value among the distinct values of its feature; a missing value has the rank `n_codes`, an array of
        shape (n_features,).
    response : array of shape (n_rows, width)
        The centred response, for impurities.
    value : array of shape (n_rows, n_outputs)
        The values that are averaged in the leaves.
    weight : array of shape (n_rows,)
        Weights of the rows, not counting how often they are in the bag.
    inside, multiplicity : array of bool, of float64, of shape (n_rows,)
        Which rows are in the bag, and how often.
    options : tuple of (max_features, max_depth, min_samples_leaf)
        A `max_depth` of -1 means no limit.
    seed : int

    Returns
    -------
    tuple
        Arrays with one entry per node: feature, threshold, left, right, missing_left, value (n_nodes, n_outputs),
        count, weight, impurity. Then the leaf of every evaluated out-of-bag row, and -1 for other rows.
    """
    max_features, max_depth, min_leaf = options
    n_rows, width = response.shape
    rows = np.flatnonzero(inside & (weight > 0))
    out = np.flatnonzero(~inside & (weight > 0))
    w_in = weight * multiplicity
    n_root = weight[out].sum()
    most = max(2 * rows.size - 1, 1)
    feature = np.full(most, -1, dtype=np.int32)
    threshold = np.zeros(most)
    children = np.full((most, 2), -1, dtype=np.int32)
    missing_left = np.zeros(most, dtype=np.bool_)
    values = np.zeros((most, value.shape[1]))
    count = np.zeros(most, dtype=np.int64)
    n_of = np.zeros(most)
    impurity = np.zeros(most)
    leaf = np.full(n_rows, -1, dtype=np.int32)
    order = np.arange(X.shape[0])
    random = np.array([seed], dtype=np.uint64)
    size = max(rows.size, n_codes.max() + 1)
    work = (np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64), np.zeros(size), np.zeros((size, width)))
    histogram = (np.zeros(size, dtype=np.int64), np.zeros(size), np.zeros((size, width)))
    split, best = _new_split(width), _new_split(width)
    # begin and end of in-bag rows, of out-of-bag rows, depth, parent, side
    stack = [(0, rows.size, 0, out.size, 0, -1, 0)]
    t = -1
    while len(stack) > 0:
        begin, end, begin_out, end_out, depth, parent, side = stack.pop()
        t += 1
        if parent >= 0:
            children[parent, side] = t
        here, here_out = rows[begin:end], out[begin_out:end_out]
        n, s, mass, tie = _moments(here, w_in, response)
        count[t], n_of[t], impurity[t] = end - begin, n, mass / n
        for i in here:
            for c in range(value.shape[1]):
                values[t, c] += w_in[i] * value[i, c] / n
        has_split = False
        if depth != max_depth and end - begin >= 2 * min_leaf and not _pure(here, response):
            n_out, s_out, _, tie_out = _moments(here_out, weight, response)
            decrease, decrease_out, tried, at = -np.inf, 0.0, 0, 0
            while at < order.size and tried < max_features:
                pick = at + np.int64(_draw(random) % np.uint64(order.size - at))
                order[at], order[pick] = order[pick], order[at]
                k = order[at]
                at += 1
                data = (here, w_in, response, n, s, tie)
                if not _best_split(k, X, codes, n_codes, *data, min_leaf, work, histogram, split):
                    continue
                tried += 1
                gain = split[0][1]
                gain_out = _decrease(X[k], here_out, weight, response, n_out, s_out, split)
                better = gain_out > decrease_out + tie_out
                # While no split is better than none on out-of-bag rows, the in-bag rows choose.
                if better or (decrease_out == 0 and gain > decrease + tie):
                    decrease = gain
                    decrease_out = gain_out if better else 0.0
                    best[0][:], best[1][:] = split[0], split[1]
                    feature[t] = k
                    has_split = True
            if has_split:
                importance[feature[t]] += decrease_out / n_root if n_root > 0 else 0.0
        if not has_split:
            for i in here_out:
                leaf[i] = t
            continue
        threshold[t], missing_left[t] = best[0][0], best[0][2] > 0
        middle = _part(X[feature[t]], here, threshold[t], missing_left[t])
        middle_out = _part(X[feature[t]], here_out, threshold[t], missing_left[t])
        stack.append((begin + middle, end, begin_out + middle_out, end_out, depth + 1, t, 1))
        stack.append((begin, begin + middle, begin_out, begin_out + middle_out, depth + 1, t, 0))
    t += 1
    links = (children[:t, 0].copy(), children[:t, 1].copy(), missing_left[:t].copy())
    figures = (values[:t].copy(), count[:t].copy(), n_of[:t].copy(), impurity[:t].copy(), leaf)
    return (feature[:t].copy(), threshold[:t].copy(), *links, *figures)


@njit(cache=True, nogil=True)
def add_values(X, feature, threshold, left, right, missing_left, value, total):
    """Add the prediction of a tree for each row of X (n_rows, n_features) to `total` (n_rows, n_outputs)."""
    for i in range(X.shape[0]):
        t = 0
        while left[t] >= 0:
            x = X[i, feature[t]]
            go_left = missing_left[t] if np.isnan(x) else x <= threshold[t]
            t = left[t] if go_left else right[t]
        for c in range(value.shape[1]):
            total[i, c] += value[t, c]


@njit(cache=True, nogil=True)
def leaves(X, feature, threshold, left, right, missing_left, leaf):
    """Write the leaf of each row of X (n_rows, n_features) to `leaf` (n_rows,)."""
    for i in range(X.shape[0]):
        t = 0
        while left[t] >= 0:
            x = X[i, feature[t]]
            go_left = missing_left[t] if np.isnan(x) else x <= threshold[t]
            t = left[t] if go_left else right[t]
        leaf[i] = t


@njit(cache=True, nogil=True)
def _draw(state):
    """Return the next number of SplitMix64 (Steele, Lea and Flood 2014). Each tree has its own state, for threads."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(cache=True, nogil=True)
def _new_split(width):
    """Return arrays for (threshold, decrease, whether missing values go left) and for d."""
    return np.zeros(3), np.zeros(width)


@njit(cache=True, nogil=True)
def _moments(rows, weight, response):
    """Return weight, sum and n times impurity of rows, and the difference up to which such sums are tied."""
    width = response.shape[1]
    n, squares = 0.0, 0.0
    s = np.zeros(width)
    for i in rows:
        n += weight[i]
        for c in range(width):
            s[c] += weight[i] * response[i, c]
            squares += weight[i] * response[i, c] ** 2
    mass = squares
    for c in range(width):
        mass -= s[c] ** 2 / n if n > 0 else 0.0
    return n, s, max(mass, 0.0), TIE * squares


@njit(cache=True, nogil=True)
def _pure(rows, response):
    for i in rows:
        for c in range(response.shape[1]):
            if response[i, c] != response[rows[0], c]:
                return False
    return True


@njit(cache=True, nogil=True)
def _best_split(k, X, codes, n_codes, rows, weight, response, n, s, tie, min_leaf, work, histogram, split):
    """Write the best in-bag split of a feature to `split`; return whether there is one."""
    first, count, n_of, s_of = work
    n_groups = _group(codes[k], n_codes[k], rows, weight, response, work, histogram)
    if n_groups < 2:
        return False
    missing = codes[k, first[n_groups - 1]] == n_codes[k]
    n_present = n_groups - 1 if missing else n_groups
    width = s.size
    best, cut, way = -np.inf, -1, False
    s_left = np.empty(width)
    for missing_left in (False, True):
        if missing_left and not missing:
            break
        n_left, n_rows_left = 0.0, 0
        s_left[:] = 0.0
        if missing_left:
            n_left, n_rows_left = n_of[n_groups - 1], count[n_groups - 1]
            s_left[:] = s_of[n_groups - 1]
        # The last cut of the first pass separates missing values from all others.
        for g in range(n_present if missing and not missing_left else n_present - 1):
            n_left += n_of[g]
            n_rows_left += count[g]
            for c in range(width):
                s_left[c] += s_of[g, c]
            if n_rows_left < min_leaf or rows.size - n_rows_left < min_leaf:
                continue
            gain = 0.0
            for c in range(width):
                gain += (s_left[c] - n_left / n * s[c]) ** 2
            gain *= n / (n_left * (n - n_left))
            if gain > best + tie:
                best, cut = gain, g
                way = missing_left if missing else n_left > n - n_left  # none is missing: the side with more rows
    if cut < 0:
        return False
    numbers, _ = split
    if cut + 1 < n_present:
        low, high = X[k, first[cut]], X[k, first[cut + 1]]
        middle = low / 2 + high / 2
        numbers[0] = middle if low <= middle < high else low
    else:
        numbers[0] = np.inf
    numbers[1], numbers[2] = best, 1.0 if way else 0.0
    return True


@njit(cache=True, nogil=True)
def _group(codes, n_codes, rows, weight, response, work, histogram):
    """Sum the rows by distinct value, ascending, missing last; return the number of values.

    For each value, `work` receives one row with this value, the number of rows, their weight and sum of the response.
    """
    first, count, n_of, s_of = work
    width = response.shape[1]
    n_groups = 0
    if n_codes < 2 * rows.size:
        count_at, n_at, s_at = histogram
        for i in rows:
            code = codes[i]
            if count_at[code] == 0:
                first[code] = i
            count_at[code] += 1
            n_at[code] += weight[i]
            for c in range(width):
                s_at[code, c] += weight[i] * response[i, c]
        for code in range(n_codes + 1):
            if count_at[code] > 0:
                first[n_groups], count[n_groups], n_of[n_groups] = first[code], count_at[code], n_at[code]
                count_at[code], n_at[code] = 0, 0.0
                for c in range(width):
                    s_of[n_groups, c] = s_at[code, c]
                    s_at[code, c] = 0.0
                n_groups += 1
        return n_groups
    keys = np.empty(rows.size, dtype=np.int64)
    for j in range(rows.size):
        keys[j] = (np.int64(codes[rows[j]]) << 32) | rows[j]
    keys.sort()
    last = -1
    for key in keys:
        code, i = key >> 32, key & 0xFFFFFFFF
        if code != last:
            last = code
            first[n_groups], count[n_groups], n_of[n_groups] = i, 0, 0.0
            s_of[n_groups] = 0.0
            n_groups += 1
        g = n_groups - 1
        count[g] += 1
        n_of[g] += weight[i]
        for c in range(width):
            s_of[g, c] += weight[i] * response[i, c]
    return n_groups


@njit(cache=True, nogil=True)
def _decrease(x, rows, weight, response, n, s, split):
    """Return n times the decrease of the impurity of out-of-bag rows in a split; 0 if all are on one side."""
    numbers, d = split
    n_left = 0.0
    d[:] = 0.0
    n_rows_left = 0
    for i in rows:
        if numbers[2] > 0 if np.isnan(x[i]) else x[i] <= numbers[0]:
            n_left += weight[i]
            n_rows_left += 1
            for c in range(d.size):
                d[c] += weight[i] * response[i, c]
    if n_rows_left == 0 or n_rows_left == rows.size:
        return 0.0
    gain = 0.0
    for c in range(d.size):
        gain += (d[c] - n_left / n * s[c]) ** 2
    return gain * n / (n_left * (n - n_left))


@njit(cache=True, nogil=True)
def _part(x, rows, threshold, missing_left):
    """Move the rows that go left before those that go right, in place; return how many go left."""
    kept = np.empty(rows.size, dtype=np.int64)
    n_left = n_right = 0
    for i in rows:
        if missing_left if np.isnan(x[i]) else x[i] <= threshold:
            rows[n_left] = i
            n_left += 1
        else:
            kept[n_right] = i
            n_right += 1
    rows[n_left:] = kept[:n_right]
    return n_left
