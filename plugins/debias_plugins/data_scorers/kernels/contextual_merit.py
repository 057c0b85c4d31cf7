"""Compiled loops of contextual merit. Importing this module imports numba, so import it on first use."""

import math

import numpy as np
from numba import njit

BLOCK = 512
"""Number of rows compared at a time, so that their distances stay in the processor's cache."""
TIE = 1e-9
"""Distances that differ by less are equal up to rounding: they are sums of the same terms."""


@njit(cache=True, nogil=True, error_model="numpy")
def add_merits(Z, permuted, start, begin, end, by_all, neighbours, merit, weight):
    """Add the merits of rows begin:end.

    Parameters
    ----------
    Z : array of shape (n_features, n_rows)
        Scaled so that rows differ by min(abs(z_r - z_s), 1); rows sorted by class.
    permuted : array of shape (n_permutations, n_features, n_rows), or empty
    start : array of shape (n_classes + 1,)
        Where each class begins.
    by_all : bool
        True: neighbours by D and weights 1 / D^2 (CM0). False: by Delta and 1 / (1 + Delta)^2 (CM1).
    neighbours : int
        0 for log2 of the number of rows of other classes.
    merit : array of shape (1 + n_permutations, n_features)
    weight : array of shape (n_features,)
        Sum of the weights, for the features without permutation.
    """
    n_features, n_rows = Z.shape
    n_versions = merit.shape[0]
    n_places = neighbours if neighbours else 64
    # For each version of each feature: the distinct distances of the nearest rows so far, ascending; the number of rows
    # at each distance; and the sum of their differences in the feature.
    key = np.empty((n_versions, n_features, n_places + 1))
    count = np.empty((n_versions, n_features, n_places + 1), dtype=np.int64)
    total = np.empty((n_versions, n_features, n_places + 1))
    used = np.empty((n_versions, n_features), dtype=np.int64)
    limit = np.empty((n_versions, n_features))
    distance = np.empty(BLOCK)
    label = 0
    for r in range(begin, end):
        while start[label + 1] <= r:
            label += 1
        others = n_rows - (start[label + 1] - start[label])
        k = min(neighbours, others) if neighbours else max(1, int(math.floor(math.log2(others) + 1e-12)))
        used[:] = 0
        limit[:] = np.inf
        for side in range(2):
            first, last = (0, start[label]) if side == 0 else (start[label + 1], n_rows)
            for s0 in range(first, last, BLOCK):
                size = min(BLOCK, last - s0)
                distance[:size] = 0.0
                for f in range(n_features):
                    zr = Z[f, r]
                    for j in range(size):
                        distance[j] += min(abs(Z[f, s0 + j] - zr), 1.0)
                for v in range(n_versions):
                    for f in range(n_features):
                        of = Z[f] if v == 0 else permuted[v - 1, f]
                        here = (key[v, f], count[v, f], total[v, f])
                        zr, own = of[r], Z[f, r]
                        bound, n = limit[v, f], used[v, f]
                        for j in range(size):
                            d = min(abs(of[s0 + j] - zr), 1.0)
                            if by_all:
                                x = distance[j]
                                if v > 0:
                                    x += d - min(abs(Z[f, s0 + j] - own), 1.0)
                            else:
                                x = distance[j] - d
                            if x <= bound:
                                n = _insert(here[0], here[1], here[2], n, k, x, d)
                                bound = _bound(here[0], here[1], n, k)
                        limit[v, f], used[v, f] = bound, n
        for v in range(n_versions):
            for f in range(n_features):
                left = k
                for i in range(used[v, f]):
                    places = min(count[v, f, i], left)
                    left -= places
                    x = key[v, f, i]
                    near = x if by_all else 1.0 + x
                    w = 1.0 / (near * near) if near > TIE else 0.0
                    merit[v, f] += w * total[v, f, i] * places / count[v, f, i]
                    if v == 0:
                        weight[f] += w * places


@njit(cache=True, nogil=True)
def _insert(key, count, total, n, k, x, d):
    """Insert a row at distance x among the nearest, drop distances no longer needed, and return how many are left."""
    i = n
    while i > 0 and key[i - 1] > x + TIE:
        i -= 1
    if i > 0 and key[i - 1] >= x - TIE:
        count[i - 1] += 1
        total[i - 1] += d
    else:
        for j in range(n, i, -1):
            key[j], count[j], total[j] = key[j - 1], count[j - 1], total[j - 1]
        key[i], count[i], total[i] = x, 1, d
        n += 1
    rows = 0
    for i in range(n):
        rows += count[i]
        if rows >= k:
            return i + 1
    return n


@njit(cache=True, nogil=True)
def _bound(key, count, n, k):
    rows = 0
    for i in range(n):
        rows += count[i]
    return key[n - 1] + TIE if rows >= k else np.inf
