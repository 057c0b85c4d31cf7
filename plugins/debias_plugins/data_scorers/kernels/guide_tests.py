"""Compiled loops of GUIDE's tests of association between a feature and the signs or classes Z of the rows of a node.

Codes, and the segments of `rows` and `order`, are those of :mod:`debias_plugins.data_scorers.kernels.guide`.
"""

import math

import numpy as np
from numba import njit

from debias_plugins.data_scorers.kernels.chi_square import log_tail

DENSE = 1 << 16
"""Largest number of cells of a table of pairs that is counted in place. Larger tables are mostly empty: sort keys."""
TIE = 1e-10
"""Log p-values and decreases with a smaller relative difference are equal up to rounding; the first one counts."""


@njit(cache=True, nogil=True)
def test(codes, n_values, categorical, order, rows, begin, end, z, n_z, log_p):
    """Write log p_1(k, t) of every feature to `log_p` (steps 3 to 6)."""
    n_features, n = codes.shape[0], end - begin
    z_total = np.zeros(n_z)
    for i in range(begin, end):
        z_total[z[rows[i]]] += 1
    group = np.zeros((n_features, n), dtype=np.int32)
    n_groups = np.zeros(n_features, dtype=np.int64)
    place = np.zeros(codes.shape[1], dtype=np.int32)
    for i in range(begin, end):
        place[rows[i]] = i - begin
    smallest = 0.0
    for k in range(n_features):
        if categorical[k]:
            n_groups[k] = _group_categories(codes[k], n_values[k], rows, begin, end, group[k])
        else:
            n_groups[k] = _group_ordinal(
                codes[k], n_values[k], order[k], begin, end, 3 if n < 60 else 4, False, place, group[k]
            )
        log_p[k] = _log_p(group[k], n_groups[k], rows, begin, end, z, z_total)
        smallest = min(smallest, log_p[k])
    if n_features < 2 or smallest < math.log(0.10 / n_features):
        return
    for k in range(n_features):
        if not categorical[k]:
            n_groups[k] = _group_ordinal(codes[k], n_values[k], order[k], begin, end, 3, True, place, group[k])
    _test_pairs(group, n_groups, rows, begin, end, z, z_total, log_p)


@njit(cache=True, nogil=True)
def first_above(code, order, begin, end, value):
    """Return the first place in begin:end with a code above `value`."""
    while begin < end:
        middle = (begin + end) // 2
        if code[order[middle]] > value:
            end = middle
        else:
            begin = middle + 1
    return begin


@njit(cache=True, nogil=True)
def _cuts(code, order, begin, end, m, cut):
    """Write to `cut` the places that cut a sorted segment into at most m groups of about equal size; return how many.

    With at most m distinct values each value is a group. Otherwise each of the m - 1 quantiles is cut at the nearest
    place where the value changes; of two equally near places, at the lower one.
    """
    n_cuts, i = 0, begin
    while i < end and n_cuts < m:
        i = first_above(code, order, i, end, code[order[i]])
        if i < end:
            cut[n_cuts] = i
            n_cuts += 1
    if n_cuts < m:
        return n_cuts
    n_cuts = 0
    for j in range(1, m):
        target = begin + j * (end - begin) / m
        value = code[order[int(target)]]
        high = first_above(code, order, begin, end, value)
        low = first_above(code, order, begin, end, value - 1)
        nearest = low if low > begin and (high == end or target - low <= high - target) else high
        if n_cuts == 0 or nearest > cut[n_cuts - 1]:
            cut[n_cuts] = nearest
            n_cuts += 1
    return n_cuts


@njit(cache=True, nogil=True)
def _group_ordinal(code, missing, order, begin, end, m, of_pairs, place, group):
    """Write the group of each row (step 3a, or 6a for pairs; missing is a group); return the number of groups."""
    cut = np.zeros(m + 1, dtype=np.int64)
    present = first_above(code, order, begin, end, missing - 1)
    if of_pairs and present < end:
        m = 2
    n_cuts = _cuts(code, order, begin, present, m, cut) if present > begin else 0
    if present < end and present > begin:
        cut[n_cuts] = present
        n_cuts += 1
    g = 0
    for i in range(begin, end):
        if g < n_cuts and i == cut[g]:
            g += 1
        group[place[order[i]]] = g
    return n_cuts + 1


@njit(cache=True, nogil=True)
def _group_categories(code, missing, rows, begin, end, group):
    """Write the group of each row, which is its category; return the number of groups. Missing is a category."""
    new = np.full(missing + 1, -1, dtype=np.int32)
    n_groups = 0
    for i in range(begin, end):
        c = code[rows[i]]
        if new[c] < 0:
            new[c] = n_groups
            n_groups += 1
        group[i - begin] = new[c]
    return n_groups


@njit(cache=True, nogil=True)
def _log_p(group, n_groups, rows, begin, end, z, z_total):
    """Return log p of the chi-square test of a feature's groups against Z (step 5)."""
    if n_groups < 2:
        return 0.0
    n_z = z_total.size
    count = np.zeros(n_groups * n_z)
    for i in range(begin, end):
        count[group[i - begin] * n_z + z[rows[i]]] += 1
    return _log_p_of_table(count, n_groups, z_total)


@njit(cache=True, nogil=True)
def _log_p_of_table(count, n_columns, z_total):
    """Return log p of the table with count[a * n_z + c] in column a and row Z = c, without empty columns and rows."""
    n_z, n = z_total.size, z_total.sum()
    statistic, filled, n_rows = 0.0, 0, 0
    for c in range(n_z):
        n_rows += z_total[c] > 0
    for a in range(n_columns):
        total = 0.0
        for c in range(n_z):
            total += count[a * n_z + c]
        if total == 0:
            continue
        filled += 1
        for c in range(n_z):
            if z_total[c] > 0:
                mean = total * z_total[c] / n
                statistic += (count[a * n_z + c] - mean) ** 2 / mean
    return log_tail(statistic, (filled - 1.0) * (n_rows - 1.0))


@njit(cache=True, nogil=True)
def _test_pairs(group, n_groups, rows, begin, end, z, z_total, log_p):
    """Test pairs of features for interaction (steps 6b, 6c); a feature with one value in the node is in no pair."""
    n_features, n = group.shape
    n_z = z_total.size
    with_z = np.empty((n_features, n), dtype=np.int32)
    for k in range(n_features):
        for i in range(n):
            with_z[k, i] = group[k, i] * n_z + z[rows[begin + i]]
    count = np.zeros(DENSE)
    smallest, first, second = 0.0, -1, -1
    for j in range(n_features):
        for k in range(j + 1, n_features):
            if n_groups[j] < 2 or n_groups[k] < 2:
                continue
            n_columns = n_groups[j] * n_groups[k]
            width = n_groups[k] * n_z
            if n_columns * n_z <= DENSE:
                count[: n_columns * n_z] = 0
                for i in range(n):
                    count[group[j, i] * width + with_z[k, i]] += 1
                log_p_of_pair = _log_p_of_table(count, n_columns, z_total)
            else:
                log_p_of_pair = _log_p_of_keys(group[j], with_z[k], width, z_total)
            if log_p_of_pair < smallest * (1 + TIE):
                smallest, first, second = log_p_of_pair, j, k
    if first >= 0 and smallest < math.log(0.20 / (n_features * (n_features - 1))):
        log_p[first] = log_p[second] = smallest


@njit(cache=True, nogil=True)
def _log_p_of_keys(group, with_z, width, z_total):
    """Return log p of a table that is too large to hold in memory, column by column from sorted keys."""
    n_z = z_total.size
    keys = np.sort(group.astype(np.int64) * width + with_z)
    count = np.zeros(keys.size * n_z)
    column, last = -1, -1
    for key in keys:
        if key // n_z != last:
            last = key // n_z
            column += 1
        count[column * n_z + key % n_z] += 1
    return _log_p_of_table(count, column + 1, z_total)
