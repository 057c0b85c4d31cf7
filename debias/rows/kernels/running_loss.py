"""Compiled loops of the running loss; importing this module imports numba, so it is imported on first use.

The log-loss: let F be the margin before a tree. A node of value v gives the loss log(1 + e^(F + v)) - y (F + v). If
the loss at F is subtracted, the first part becomes log(q + p e^v), with the probabilities p and q = 1 - p at F. A split
saves the loss of its rows at the split minus their loss at its children. So two sums over rows at each node are enough:
the sum of y, and the sum of the logarithms, which is kept as one product.
"""

import numpy as np
from numba import njit

LARGEST_LOGARITHM = 600.0
"""Largest logarithm of a product that neither overflows nor vanishes."""


@njit(cache=True, nogil=True)
def add_log_loss(leaves, start, feature, left, parent, value, y, base, drop):
    """Follow rows of equal weight through all trees, tree by tree; add the log-loss that each split saves.

    Parameters
    ----------
    leaves : array of shape (n_rows, n_trees)
    start, feature, left, parent, value
        The ensemble's node arrays, with one output; parents come before children.
    y : array of shape (n_rows,)
        Values from 0 to 1.
    base : float
        The margin before the first tree.
    drop : array of shape (n_features + 1,)
        The decrease of the loss at each split is added to the entry of its feature, that of root steps to the last.
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


@njit(cache=True, nogil=True)
def add_running_loss(
    leaves, start, tree_output, feature, parent, value, objective, parameter, codes, target, weight, margin, drop
):
    """Follow every row through all trees, tree by tree; add the loss that each step saves.

    The weighted decrease of the loss at each split is added to the entry of its feature in `drop` (n_features + 1,),
    that of root steps to the last entry. `margin` (n_rows, n_outputs) ends at F_M. `parameter` (n_outputs,) is the
    parameter of the objective.
    """
    base, width = drop.size - 1, value.shape[1]
    loss_arguments = (objective, parameter, codes, target, margin)
    for i in range(leaves.shape[0]):
        for j in range(leaves.shape[1]):
            begin, k = start[j], tree_output[j]
            leaf = node = leaves[i, j]
            below = _loss(loss_arguments, i, k, value, begin + leaf)
            while node > 0:
                node = parent[begin + node]
                here = _loss(loss_arguments, i, k, value, begin + node)
                drop[feature[begin + node]] += weight[i] * (here - below)
                below = here
            drop[base] += weight[i] * (_loss(loss_arguments, i, k, value, -1) - below)
            for c in range(width):
                margin[i, k + c] += value[begin + leaf, c]


@njit(cache=True, nogil=True)
def _loss(loss_arguments, i, k, value, step):
    """Return the loss of row i after one step of the outputs from k on (`step` is a row of `value`; -1: no step).

    Losses of one margin are summed over the outputs that step, because the others stay. Softmax uses all outputs.
    """
    objective, parameter, codes, target, margin = loss_arguments
    width = value.shape[1]
    if objective == 2:
        top = -np.inf
        for c in range(margin.shape[1]):
            f = margin[i, c] + (value[step, c - k] if step >= 0 and 0 <= c - k < width else 0.0)
            top = max(top, f)
            if c == codes[i]:
                observed = f
        total = 0.0
        for c in range(margin.shape[1]):
            total += np.exp(margin[i, c] + (value[step, c - k] if step >= 0 and 0 <= c - k < width else 0.0) - top)
        return top + np.log(total) - observed
    loss = 0.0
    for c in range(width):
        f = margin[i, k + c] + (value[step, c] if step >= 0 else 0.0)
        loss += _loss_of_one(objective, parameter[k + c], target[i, k + c], f)
    return loss


@njit(cache=True, nogil=True)
def _loss_of_one(objective, a, y, f):
    """Return the loss of a response y at a margin f: the formulas of `objectives.LOSSES`, by their code."""
    r = abs(y - f)
    if objective == 0:
        return r * r
    if objective == 1:
        return max(a * f, 0.0) - y * a * f + np.log1p(np.exp(-abs(a * f)))
    if objective == 3:
        return r
    if objective == 4:
        return a * r if y > f else (1 - a) * r
    if objective == 5:
        return (a if y > f else 1 - a) * r * r / 2
    if objective == 6:
        return r * r / 2 if r <= a else a * (r - a / 2)
    if objective == 7:
        return a * a * (np.sqrt(1 + (r / a) ** 2) - 1)
    if objective == 8:
        return a * r - a * a * np.log1p(r / a)
    if objective == 9:
        return r / max(1.0, abs(y))
    if objective == 10:
        return (np.log1p(y) - np.log1p(max(f, -1 + 1e-6))) ** 2 / 2
    if objective == 11:
        return np.exp(f) - y * f
    if objective == 12:
        return y * np.exp(-f) + f
    if objective == 13:
        return np.exp((2 - a) * f) / (2 - a) - y * np.exp((1 - a) * f) / (1 - a)
    if objective == 14:
        return max(0.0, 1 - (2 * y - 1) * f)
    return np.exp(-(2 * y - 1) * f)  # exponential


@njit(cache=True, nogil=True)
def add_weighted_log_loss(leaves, start, feature, parent, value, values, weight, base, drop):
    """Add the same as `add_running_loss` for the log-loss of one margin, without a logarithm at every node.

    A split saves log(1 + e^(F + v_t)) - log(1 + e^(F + v_c)) - y (v_t - v_c). The logarithms of a feature are collected
    as one product of ratios over all trees, and e^v is computed once for each node.
    """
    n_features = drop.size - 1
    e_value = np.exp(value[:, 0])
    ratio = np.ones(n_features + 1)
    for i in range(leaves.shape[0]):
        odds = np.exp(base)
        ratio[:] = 1.0
        for j in range(leaves.shape[1]):
            begin = start[j]
            node = begin + leaves[i, j]
            last = odds * e_value[node]
            below = 1.0 + last
            while node > begin:
                up = begin + parent[node]
                here = 1.0 + odds * e_value[up]
                k = feature[up]
                ratio[k] *= here / below
                drop[k] -= weight[i] * values[i] * (value[up, 0] - value[node, 0])
                if not 1e-200 < ratio[k] < 1e200:
                    drop[k] += weight[i] * np.log(ratio[k])
                    ratio[k] = 1.0
                node, below = up, here
            ratio[n_features] *= (1.0 + odds) / below
            drop[n_features] += weight[i] * values[i] * value[node, 0]
            if not 1e-200 < ratio[n_features] < 1e200:
                drop[n_features] += weight[i] * np.log(ratio[n_features])
                ratio[n_features] = 1.0
            odds = last
        for k in range(n_features + 1):
            if ratio[k] != 1.0:
                drop[k] += weight[i] * np.log(ratio[k])
