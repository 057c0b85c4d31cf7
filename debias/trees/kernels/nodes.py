"""Compiled loops over flat trees. Importing this module imports numba, so the core does it on first use.

Node indices of one tree are local to it (the root is 0); `start[t]` is where tree t begins in the flat arrays.
Parents precede children in every ensemble (TreeEnsemble checks it), so one reverse loop is a bottom-up pass.
"""

import numpy as np
from numba import njit, uint64


@njit(cache=True, nogil=True)
def check_trees(start, left, right, feature, threshold, value, weight, n_features):
    """Return the first faulty node (-1: none), and the number of its fault (ensemble_checks.FAULTS)."""
    most = 0
    for tree in range(start.size - 1):
        most = max(most, start[tree + 1] - start[tree])
    has_parent = np.empty(most, dtype=np.bool_)
    for tree in range(start.size - 1):
        begin, size = start[tree], start[tree + 1] - start[tree]
        has_parent[:size] = False
        for node in range(size):
            at = begin + node
            if node > 0 and not has_parent[node]:
                return at, 2
            a, b = left[at], right[at]
            if (a < 0) != (b < 0):
                return at, 0
            if (a < 0) != (feature[at] < 0):
                return at, 3
            if a < 0:
                if not (np.isfinite(weight[at]) and weight[at] >= 0):
                    return at, 7
                for k in range(value.shape[1]):
                    if not np.isfinite(value[at, k]):
                        return at, 6
                continue
            if feature[at] >= n_features:
                return at, 4
            if np.isnan(threshold[at]):
                return at, 5
            for child in (a, b):
                if child <= node or child >= size:
                    return at, 1
                if has_parent[child]:
                    return begin + child, 2
                has_parent[child] = True
    return -1, 0


@njit(cache=True, nogil=True)
def list_parents(start, left, right, parent):
    """Write the parent of every node but the roots."""
    for tree in range(start.size - 1):
        begin = start[tree]
        for node in range(start[tree + 1] - begin):
            if left[begin + node] >= 0:
                parent[begin + left[begin + node]] = parent[begin + right[begin + node]] = node


@njit(cache=True, nogil=True)
def average_leaves(start, left, right, value, weight):
    """Overwrite `value` of every inner node with the weighted mean of the leaves below it."""
    n_outputs = value.shape[1]
    most = 0
    for tree in range(start.size - 1):
        most = max(most, start[tree + 1] - start[tree])
    below = np.empty(most)
    for tree in range(start.size - 1):
        begin = start[tree]
        for node in range(start[tree + 1] - 1, begin - 1, -1):
            if left[node] < 0:
                below[node - begin] = weight[node]
                continue
            a, b = begin + left[node], begin + right[node]
            total = below[a - begin] + below[b - begin]
            below[node - begin] = total
            # Leaves no training row reaches have weight 0; a plain mean of two such keeps the value finite.
            share = below[a - begin] / total if total > 0 else 0.5
            for k in range(n_outputs):
                value[node, k] = share * value[a, k] + (1 - share) * value[b, k]


@njit(cache=True, nogil=True)
def list_splits(start, first, left, right, splits, children, tree_of_split):
    """List the inner nodes of trees from `first` on, the two children of each, and the tree it belongs to."""
    j = uint64(0)
    for tree in range(start.size - 1):
        for node in range(uint64(start[tree]), uint64(start[tree + 1])):
            if left[node] >= 0:
                splits[j], tree_of_split[j] = node, first + tree
                children[j, 0], children[j, 1] = start[tree] + left[node], start[tree] + right[node]
                j += uint64(1)


@njit(cache=True, nogil=True)
def round_down(values, rounded):
    """Write numbers in the precision of `rounded`, none above what it was."""
    for i in range(values.size):
        rounded[i] = values[i]
        if rounded[i] > values[i]:
            rounded[i] = np.nextafter(rounded[i], rounded.dtype.type(-np.inf))


@njit(cache=True, nogil=True)
def count_distinct(values, bits):
    """Return the number of distinct values that are not missing; `bits` are the same numbers as unsigned integers.

    By hashing with open addressing: NaN marks an empty place, since missing values are not counted.
    """
    size = 16
    while size < 2 * values.size:
        size *= 2
    table = np.full(size, np.nan, dtype=values.dtype)
    shift, mask = np.uint64(32), np.uint64(size - 1)
    n = 0
    for i in range(values.size):
        x = values[i]
        if np.isnan(x):
            continue
        code = np.uint64(0) if x == 0 else np.uint64(bits[i])  # 0 and -0 are one value
        at = ((code * np.uint64(0x9E3779B97F4A7C15)) >> shift) & mask
        while not np.isnan(table[at]) and table[at] != x:
            at = (at + np.uint64(1)) & mask
        if np.isnan(table[at]):
            table[at] = x
            n += 1
    return n


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


@njit(cache=True, nogil=True)
def sum_up(start, left, right, n, s, q):
    """Turn sums at leaves into sums at every node. `q` may be empty."""
    for tree in range(start.size - 1):
        begin = start[tree]
        for node in range(start[tree + 1] - 1, begin - 1, -1):
            if left[node] < 0:
                continue
            a, b = begin + left[node], begin + right[node]
            n[node] = n[a] + n[b]
            if q.size:
                q[node] = q[a] + q[b]
            for k in range(s.shape[1]):
                s[node, k] = s[a, k] + s[b, k]


@njit(cache=True, nogil=True)
def sum_leaf_values(leaves, start, tree_output, value, raw):
    """Add the value of each row's leaf to its outputs, tree by tree."""
    for j in range(leaves.shape[1]):
        for i in range(leaves.shape[0]):
            for k in range(value.shape[1]):
                raw[i, tree_output[j] + k] += value[start[j] + leaves[i, j], k]


@njit(cache=True, nogil=True)
def add_running_loss(
    leaves, start, tree_output, feature, parent, value, objective, parameter, codes, target, weight, margin, drop
):
    """Walk every row through all trees, its margin growing tree by tree; add the loss each step saves.

    `drop` (n_features + 1,) gains the weighted decrease of the loss at each split, under the split's feature, and
    in its last place the decrease of the root steps. `margin` (n_rows, n_outputs) ends at F_M. `parameter`
    (n_outputs,) is what the objective depends on.
    """
    base, width = drop.size - 1, value.shape[1]
    of = (objective, parameter, codes, target, margin)
    for i in range(leaves.shape[0]):
        for j in range(leaves.shape[1]):
            begin, k = start[j], tree_output[j]
            leaf = node = leaves[i, j]
            below = _loss(of, i, k, value, begin + leaf)
            while node > 0:
                node = parent[begin + node]
                here = _loss(of, i, k, value, begin + node)
                drop[feature[begin + node]] += weight[i] * (here - below)
                below = here
            drop[base] += weight[i] * (_loss(of, i, k, value, -1) - below)
            for c in range(width):
                margin[i, k + c] += value[begin + leaf, c]


@njit(cache=True, nogil=True)
def add_running_log_loss(leaves, start, feature, parent, value, values, weight, base, drop):
    """Do what `add_running_loss` does for the log-loss of one margin, without a logarithm at every node.

    A split saves log(1 + e^(F + v_t)) - log(1 + e^(F + v_c)) - y (v_t - v_c). The logarithms of a feature are gathered
    as one product of ratios over all trees, and e^v is known for each node.
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


@njit(cache=True, nogil=True)
def _loss(of, i, k, value, step):
    """Return the loss of row i where outputs from k on are one step (a row of `value`; -1: none) from their margins.

    Losses of one margin are summed over the outputs that step, since the others stay; softmax is of all outputs.
    """
    objective, parameter, codes, target, margin = of
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
