"""Compiled loops of GUIDE's tree. Importing this module imports numba, so import it on first use.

Features are codes 0, 1, 2, ... of their values in order; missing values have the last code. A node is a segment
begin:end of `rows`. For ordinal features it is the same segment of `order`, where the rows are sorted by code. A split
partitions the segments. So cut points are found by bisection, and one pass over a segment counts a contingency table.
"""

import math

import numpy as np
from numba import njit

from debias_plugins.data_scorers.kernels.chi_square import quantile_1df
from debias_plugins.data_scorers.kernels.guide_tests import TIE, first_above, test

ZERO_RESIDUAL = 1e-12
"""Residuals up to this share of the largest response are rounding errors, and count as not positive."""


@njit(cache=True, nogil=True)
def unadjusted(codes, n_values, categorical, sorted_rows, y, n_classes, levels, min_node_size):
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
    n_features, n_rows = codes.shape
    v = np.zeros(n_features)
    order = sorted_rows.copy()
    rows = np.arange(n_rows).astype(np.int32)
    z = np.zeros(n_rows, dtype=np.int16)
    residual = np.zeros(n_rows)
    go_left = np.zeros(n_rows, dtype=np.bool_)
    log_p = np.zeros(n_features)
    stack = np.zeros((2 * levels + 2, 3), dtype=np.int64)
    stack[0, 1] = n_rows
    n_stack = 1
    while n_stack > 0:
        n_stack -= 1
        begin, end, depth = stack[n_stack]
        if end - begin < 2 * min_node_size:
            continue
        n_z = _set_z(rows, begin, end, y, n_classes, z, residual)
        test(codes, n_values, categorical, order, rows, begin, end, z, n_z, log_p)
        best = 0
        for k in range(1, n_features):
            if log_p[k] < log_p[best] * (1 + TIE):
                best = k
        if log_p[best] >= 0:
            continue
        if categorical[best]:
            has_split = _split_categories(
                codes[best], n_values[best], rows, begin, end, z, residual, n_classes, min_node_size, go_left
            )
        else:
            has_split = _split_ordinal(
                codes[best], n_values[best], order[best], begin, end, z, residual, n_classes, min_node_size, go_left
            )
        if not has_split:
            continue
        for k in range(n_features):
            v[k] += math.sqrt(end - begin) * quantile_1df(log_p[k])
        if depth + 1 == levels:
            continue
        middle = _partition(rows, begin, end, go_left)
        for k in range(n_features):
            if not categorical[k]:
                _partition(order[k], begin, end, go_left)
        stack[n_stack] = middle, end, depth + 1
        stack[n_stack + 1] = begin, middle, depth + 1
        n_stack += 2
    return v


@njit(cache=True, nogil=True)
def _set_z(rows, begin, end, y, n_classes, z, residual):
    """Set Z to the sign of the residuals, or to the class (steps 1 and 2); return the number of its values."""
    if n_classes > 0:
        for i in range(begin, end):
            z[rows[i]] = int(y[rows[i]])
        return n_classes
    total = largest = 0.0
    for i in range(begin, end):
        total += y[rows[i]]
        largest = max(largest, abs(y[rows[i]]))
    mean = total / (end - begin)
    for i in range(begin, end):
        residual[rows[i]] = y[rows[i]] - mean
        z[rows[i]] = 0 if residual[rows[i]] > ZERO_RESIDUAL * largest else 1
    return 2


@njit(cache=True, nogil=True)
def _add(sums, row, z, residual, n_classes):
    if n_classes > 0:
        sums[z[row]] += 1
    else:
        sums[0] += residual[row]


@njit(cache=True, nogil=True)
def _between(left, n_left, total, n):
    """Return the decrease of the sum of squares in a node, plus a constant; for classes, n times the Gini decrease."""
    between = 0.0
    for c in range(total.size):
        right = total[c] - left[c]
        between += left[c] * left[c] / n_left + right * right / (n - n_left)
    return between


@njit(cache=True, nogil=True)
def _split_ordinal(code, missing, order, begin, end, z, residual, n_classes, min_node_size, go_left):
    """Find the best cut, with missing values on either side or alone; mark the rows that go left (step 7)."""
    q = max(n_classes, 1)
    total, left, absent, with_absent = np.zeros(q), np.zeros(q), np.zeros(q), np.zeros(q)
    present = first_above(code, order, begin, end, missing - 1)
    for i in range(begin, end):
        _add(total, order[i], z, residual, n_classes)
        if i >= present:
            _add(absent, order[i], z, residual, n_classes)
    n, n_absent = end - begin, end - present
    best, at, missing_left = -1.0, -1, False
    for i in range(begin, present):
        _add(left, order[i], z, residual, n_classes)
        n_left = i + 1 - begin
        if i + 1 < present and code[order[i + 1]] == code[order[i]]:
            continue
        if min(n_left, n - n_left) >= min_node_size:
            value = _between(left, n_left, total, n)
            if value > best * (1 + TIE):
                best, at, missing_left = value, i, False
        if n_absent > 0 and i + 1 < present and min(n_left + n_absent, n - n_left - n_absent) >= min_node_size:
            for c in range(q):
                with_absent[c] = left[c] + absent[c]
            value = _between(with_absent, n_left + n_absent, total, n)
            if value > best * (1 + TIE):
                best, at, missing_left = value, i, True
    if at < 0:
        return False
    for i in range(begin, end):
        go_left[order[i]] = i <= at if i < present else missing_left
    return True


@njit(cache=True, nogil=True)
def _split_categories(code, missing, rows, begin, end, z, residual, n_classes, min_node_size, go_left):
    """Find the best cut of levels in the order of their means; mark the rows that go left (step 7).

    Missing is a level too. For numbers and two classes this cut is the best of all subsets. With more classes, the
    levels are ordered by the share of each class in turn.
    """
    q = max(n_classes, 1)
    sums, count = np.zeros((missing + 1, q)), np.zeros(missing + 1)
    total, left = np.zeros(q), np.zeros(q)
    for i in range(begin, end):
        _add(sums[code[rows[i]]], rows[i], z, residual, n_classes)
        _add(total, rows[i], z, residual, n_classes)
        count[code[rows[i]]] += 1
    levels = np.flatnonzero(count > 0)
    n = end - begin
    best, chosen, n_chosen = -1.0, levels, 0
    for c in range(1 if n_classes == 2 else 0, q):
        ordered = levels[np.argsort(sums[levels, c] / count[levels], kind="mergesort")]
        left[:] = 0
        n_left = 0.0
        for i in range(ordered.size - 1):
            left += sums[ordered[i]]
            n_left += count[ordered[i]]
            if min(n_left, n - n_left) < min_node_size:
                continue
            value = _between(left, n_left, total, n)
            if value > best * (1 + TIE):
                best, chosen, n_chosen = value, ordered, i + 1
    if n_chosen == 0:
        return False
    to_left = np.zeros(missing + 1, dtype=np.bool_)
    to_left[chosen[:n_chosen]] = True
    for i in range(begin, end):
        go_left[rows[i]] = to_left[code[rows[i]]]
    return True


@njit(cache=True, nogil=True)
def _partition(rows, begin, end, go_left):
    """Move the rows that go left to the front of the segment, keeping the order; return the start of the right ones."""
    right = np.empty(end - begin, dtype=rows.dtype)
    n_left, n_right = begin, 0
    for i in range(begin, end):
        row = rows[i]
        if go_left[row]:
            rows[n_left] = row
            n_left += 1
        else:
            right[n_right] = row
            n_right += 1
    rows[n_left:end] = right[:n_right]
    return n_left
