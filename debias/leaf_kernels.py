"""Compiled loops over the leaves rows reach: how much each leaf holds, and how leaves of two trees overlap."""

from numba import njit


@njit(cache=True, nogil=True)
def add_at_leaves(nodes, number, curvature, at, sums):
    """Number the leaf of each row in one tree, and add up curvatures and their squares in each leaf.

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
def cross(a, b, table):
    """Count the rows that reach each pair of leaves of two trees in `table` (n_leaves, n_leaves)."""
    for i in range(a.size):
        table[a[i], b[i]] += 1
