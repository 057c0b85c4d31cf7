"""The compiled loop of the running log-loss; importing this module imports numba, so it is done on first use.

Where the margin F stands before a tree, a node of value v makes the loss log(1 + e^(F + v)) - y (F + v). Less that at F
itself, the first part is log(q + p e^v), p and q = 1 - p the probabilities at F. A split saves what its rows lose at
it less what they lose at its children, so that sums over rows at each node are enough: of y, and of the logarithms, and
these are gathered as one product.
"""

import numpy as np
from numba import njit

LARGEST_LOGARITHM = 600.0
"""Of a product that neither overflows nor vanishes."""


@njit(cache=True, nogil=True)
def add_running_log_loss(leaves, start, feature, left, parent, value, y, base, drop):
    """Walk rows of equal weight through all trees, their margins growing; add the log-loss each split saves.

    Parameters
    ----------
    leaves : array of shape (n_rows, n_trees)
    start, feature, left, parent, value
        The ensemble's node arrays, with one output; parents come before children.
    y : array of shape (n_rows,)
        0, 1, or what lies between.
    base : float
        The margin before the first tree.
    drop : array of shape (n_features + 1,)
        Gains the decrease of the loss at each split under the split's feature, and in its last place that of the root
        steps.
    """
    n_rows, n_trees, of_root = leaves.shape[0], leaves.shape[1], drop.size - 1
    p, q = np.empty(n_rows), np.empty(n_rows)
    odds = np.full(n_rows, np.exp(base))
    p[:], q[:] = odds[0] / (1.0 + odds[0]), 1.0 / (1.0 + odds[0])
    most = 0
    for j in range(n_trees):
        most = max(most, start[j + 1] - start[j])
    growth, product, loss, response = np.empty(most), np.ones(most), np.empty(most), np.empty(most)
    for j in range(n_trees):
        begin, size = start[j], start[j + 1] - start[j]
        up, largest = parent[begin : start[j + 1]], 1e-3
        for node in range(size):
            growth[node] = np.exp(value[begin + node, 0])
            largest = max(largest, abs(value[begin + node, 0]))
            loss[node] = response[node] = 0.0
        at_once = max(1, int(LARGEST_LOGARITHM / largest))
        for first in range(0, n_rows, at_once):
            last = min(first + at_once, n_rows)
            for i in range(first, last):
                node = leaves[i, j]
                response[node] += y[i]
                odds[i] *= growth[node]
                a, b = p[i], q[i]
                while node > 0:
                    product[node] *= b + a * growth[node]
                    node = up[node]
                product[0] *= b + a * growth[0]
            for node in range(size):
                if product[node] != 1.0:
                    loss[node] += np.log(product[node])
                    product[node] = 1.0
        for i in range(n_rows):
            q[i] = 1.0 / (1.0 + odds[i])
            p[i] = odds[i] * q[i]
        for node in range(size - 1, 0, -1):
            response[up[node]] += response[node]
            lost = loss[node] - response[node] * value[begin + node, 0]
            drop[feature[begin + up[node]]] -= lost
        for node in range(size):
            if left[begin + node] >= 0:
                drop[feature[begin + node]] += loss[node] - response[node] * value[begin + node, 0]
        drop[of_root] -= loss[0] - response[0] * value[begin, 0]
