"""Compiled loops that add rows to the sums at their leaves; this module imports numba, so import it on first use."""

from numba import njit


@njit(cache=True, nogil=True)
def add_codes(leaves, trees, start, codes, weight, n, s):
    """Add rows of a one-hot response to the sums at their leaves. `codes` (n_rows,) are the classes."""
    for j in range(trees.size):
        begin = start[trees[j]]
        for i in range(leaves.shape[0]):
            if leaves[i, j] >= 0:
                node = begin + leaves[i, j]
                n[node] += weight[i]
                s[node, codes[i]] += weight[i]


@njit(cache=True, nogil=True)
def add_values(leaves, trees, start, tree_output, values, weight, n, s, q):
    """Add rows of a numeric response (n_rows, n_outputs) to the sums at their leaves."""
    width = s.shape[1]
    for j in range(trees.size):
        begin = start[trees[j]]
        first = tree_output[trees[j]]
        for i in range(leaves.shape[0]):
            if leaves[i, j] < 0:
                continue
            node = begin + leaves[i, j]
            n[node] += weight[i]
            for k in range(width):
                y = values[i, first + k]
                s[node, k] += weight[i] * y
                q[node] += weight[i] * y * y


@njit(cache=True, nogil=True)
def add_weights(leaves, trees, start, weight, total):
    """Add weights of rows to the sums at their leaves."""
    for j in range(trees.size):
        begin = start[trees[j]]
        for i in range(leaves.shape[0]):
            if leaves[i, j] >= 0:
                total[begin + leaves[i, j]] += weight[i]
