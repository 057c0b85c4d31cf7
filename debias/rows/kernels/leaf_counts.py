"""Compiled loops over the leaves that rows reach: sums in each leaf, and the overlap of the leaves of two trees."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def add_at_leaves(nodes, number, curvature, at, sums):
    """Write the number of the leaf of each row in one tree, and add up curvatures and their squares in each leaf.

    `number` gives the number of each node among the leaves; `curvature` may be empty, and is 1 then. `at` (n_rows,) is
    filled; `sums` (2, n_leaves) is added to.
    """
    for i in range(nodes.size):
        k = number[nodes[i]]
        at[i] = k
        h = curvature[i] if curvature.size else 1.0
        sums[0, k] += h
        sums[1, k] += h * h


@njit(cache=True, nogil=True)
def overlap(a, b, classes_a, classes_b):
    """Return phi^2 of the leaves of two trees that see the same rows, less phi^2 of the classes that they predict.

    `a` and `b` (n_rows,) are the leaves of each row, `classes_a` and `classes_b` the class of each leaf.
    """
    leaves = np.zeros((classes_a.size, classes_b.size), dtype=np.int64)
    for i in range(a.size):
        leaves[a[i], b[i]] += 1
    classes = np.zeros((classes_a.max() + 1, classes_b.max() + 1), dtype=np.int64)
    for j in range(classes_a.size):
        for k in range(classes_b.size):
            classes[classes_a[j], classes_b[k]] += leaves[j, k]
    return _contingency(leaves) - _contingency(classes)


@njit(cache=True, nogil=True)
def _contingency(table):
    """Return phi^2 = chi^2 / n of two partitions of the same rows; `table` has the number of rows in each pair."""
    in_row, in_column = table.sum(axis=1), table.sum(axis=0)
    total = 0.0
    for j in range(table.shape[0]):
        for k in range(table.shape[1]):
            if table[j, k]:
                total += table[j, k] / in_row[j] * (table[j, k] / in_column[k])
    return total - 1.0
