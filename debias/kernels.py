"""Compiled loops over flat trees. Importing this module imports numba, so the core does it on first use.

Node indices of one tree are local to it (the root is 0); `start[t]` is where tree t begins in the flat arrays.
Parents precede children in every ensemble (TreeEnsemble checks it), so one reverse loop is a bottom-up pass.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def check_trees(start, left, right, feature, threshold, value, weight, n_features):
    """Return each node's parent, the first faulty node (-1: none) and the number of its fault (see ensemble.FAULTS)."""
    parent = np.full(left.size, -1, dtype=np.int32)
    for tree in range(start.size - 1):
        begin, size = start[tree], start[tree + 1] - start[tree]
        for node in range(size):
            at = begin + node
            if node > 0 and parent[at] < 0:
                return parent, at, 2
            a, b = left[at], right[at]
            if (a < 0) != (b < 0):
                return parent, at, 0
            if (a < 0) != (feature[at] < 0):
                return parent, at, 3
            if a < 0:
                if not (np.isfinite(weight[at]) and weight[at] >= 0):
                    return parent, at, 7
                for k in range(value.shape[1]):
                    if not np.isfinite(value[at, k]):
                        return parent, at, 6
                continue
            if feature[at] >= n_features:
                return parent, at, 4
            if np.isnan(threshold[at]):
                return parent, at, 5
            for child in (a, b):
                if child <= node or child >= size:
                    return parent, at, 1
                if parent[begin + child] >= 0:
                    return parent, begin + child, 2
                parent[begin + child] = node
    return parent, -1, 0


@njit(cache=True, nogil=True)
def average_leaves(start, left, right, value, weight):
    """Overwrite `value` of every inner node with the weighted mean of the leaves below it."""
    n_outputs = value.shape[1]
    below = weight.copy()
    for tree in range(start.size - 1):
        begin = start[tree]
        for node in range(start[tree + 1] - 1, begin - 1, -1):
            if left[node] < 0:
                continue
            a, b = begin + left[node], begin + right[node]
            below[node] = below[a] + below[b]
            # Leaves no training row reaches have weight 0; a plain mean of two such keeps the value finite.
            share = below[a] / below[node] if below[node] > 0 else 0.5
            for k in range(n_outputs):
                value[node, k] = share * value[a, k] + (1 - share) * value[b, k]


@njit(cache=True, nogil=True)
def route(
    X, trees, start, feature, threshold, left, right, missing_left, zero_is_missing, category_set, sets, skip, leaves
):
    """Write the leaf of each row in each of `trees` to `leaves` (n_rows, len(trees)); -1 where `skip` is set.

    `skip` has shape (len(trees), n_rows), or (0, 0) to route every row. `category_set` is empty if no split is on
    categories; `sets` are the ensemble's category_start, category_codes and listed_left.
    """
    for j in range(trees.size):
        begin = start[trees[j]]
        for i in range(X.shape[0]):
            if skip.size and skip[j, i]:
                leaves[i, j] = -1
                continue
            node = 0
            while left[begin + node] >= 0:
                at = begin + node
                x = X[i, feature[at]]
                if category_set.size and category_set[at] >= 0:
                    go_left = missing_left[at] if np.isnan(x) else _listed(x, category_set[at], *sets)
                elif np.isnan(x) or (zero_is_missing[at] and abs(x) <= 1e-35):
                    go_left = missing_left[at]
                else:
                    go_left = x <= threshold[at]
                node = left[at] if go_left else right[at]
            leaves[i, j] = node


@njit(cache=True, nogil=True)
def goes_left(x, threshold, missing_left, zero_is_missing, which, sets):
    """Return what `route` decides at one split; `which` is the number of its category set, -1 without one.

    Handing over `sets` takes several times as long as a comparison, so `route` does not call this, and others call it
    only where a threshold does not decide.
    """
    if which >= 0:
        return missing_left if np.isnan(x) else _listed(x, which, *sets)
    if np.isnan(x) or (zero_is_missing and abs(x) <= 1e-35):
        return missing_left
    return x <= threshold


@njit(cache=True, nogil=True)
def _listed(x, which, start, codes, listed_left):
    """Return whether a category goes left by a set."""
    if not -1 < x < 2147483647:  # no code at all: not listed
        return not listed_left[which]
    code, low, high = np.int32(x), start[which], start[which + 1]
    while low < high:
        middle = (low + high) // 2
        if codes[middle] < code:
            low = middle + 1
        else:
            high = middle
    found = low < start[which + 1] and codes[low] == code
    return found == listed_left[which]


@njit(cache=True, nogil=True)
def pack_children(start, left, right, nodes, at, depth):
    """Write the children of each node to two columns of `nodes`, a leaf being its own; and how deep each tree is."""
    for tree in range(start.size - 1):
        level = np.zeros(start[tree + 1] - start[tree], dtype=np.int32)
        for node in range(start[tree], start[tree + 1]):
            here = level[node - start[tree]]
            depth[tree] = max(depth[tree], here)
            if left[node] < 0:
                nodes[node, at] = nodes[node, at + 1] = node - start[tree]
            else:
                nodes[node, at], nodes[node, at + 1] = left[node], right[node]
                level[left[node]] = level[right[node]] = here + 1


@njit(cache=True, nogil=True)
def route_complete(X, trees, start, nodes, floats, at, depth, skip, leaves):
    """Do what `route` does, for rows without missing values.

    Eight rows go down a tree together and without branches, so that the processor need not wait for one row's node
    before it fetches the next row's; leaves lead to themselves until all eight have arrived. Whether they have is
    asked once in a shallow tree, and every other step in a deep one. Indices are unsigned, which spares the question
    whether they count from the end. `nodes`, `floats`, `at` and `depth` are those of TreeEnsemble.packed_nodes.
    """
    n_rows = X.shape[0]
    rows = np.empty(n_rows + 8, dtype=np.uint64)
    feature, child = np.uint64(at), np.uint64(at + 1)
    for j in range(trees.size):
        begin, end = start[trees[j]], start[trees[j] + 1]
        q, h = nodes[begin:end], floats[begin:end]
        n = 0
        for i in range(n_rows):
            rows[n] = i
            if skip.size and skip[j, i]:
                leaves[i, j] = -1
            else:
                n += 1
        if n == 0:
            continue
        rows[n : n + 8] = rows[n - 1]
        steps = depth[trees[j]] if depth[trees[j]] <= 8 else 2
        for g in range(0, n, 8):
            i0, i1, i2, i3 = rows[g], rows[g + 1], rows[g + 2], rows[g + 3]
            i4, i5, i6, i7 = rows[g + 4], rows[g + 5], rows[g + 6], rows[g + 7]
            x0, x1, x2, x3, x4, x5, x6, x7 = X[i0], X[i1], X[i2], X[i3], X[i4], X[i5], X[i6], X[i7]
            n0 = n1 = n2 = n3 = n4 = n5 = n6 = n7 = np.uint64(0)
            while True:
                for _ in range(steps):
                    n0 = np.uint64(q[n0, child + np.uint64(x0[np.uint64(q[n0, feature])] > h[n0, 0])])
                    n1 = np.uint64(q[n1, child + np.uint64(x1[np.uint64(q[n1, feature])] > h[n1, 0])])
                    n2 = np.uint64(q[n2, child + np.uint64(x2[np.uint64(q[n2, feature])] > h[n2, 0])])
                    n3 = np.uint64(q[n3, child + np.uint64(x3[np.uint64(q[n3, feature])] > h[n3, 0])])
                    n4 = np.uint64(q[n4, child + np.uint64(x4[np.uint64(q[n4, feature])] > h[n4, 0])])
                    n5 = np.uint64(q[n5, child + np.uint64(x5[np.uint64(q[n5, feature])] > h[n5, 0])])
                    n6 = np.uint64(q[n6, child + np.uint64(x6[np.uint64(q[n6, feature])] > h[n6, 0])])
                    n7 = np.uint64(q[n7, child + np.uint64(x7[np.uint64(q[n7, feature])] > h[n7, 0])])
                if (
                    np.uint64(q[n0, child]) == n0
                    and np.uint64(q[n1, child]) == n1
                    and np.uint64(q[n2, child]) == n2
                    and np.uint64(q[n3, child]) == n3
                    and np.uint64(q[n4, child]) == n4
                    and np.uint64(q[n5, child]) == n5
                    and np.uint64(q[n6, child]) == n6
                    and np.uint64(q[n7, child]) == n7
                ):
                    break
            leaves[i0, j], leaves[i1, j], leaves[i2, j], leaves[i3, j] = n0, n1, n2, n3
            leaves[i4, j], leaves[i5, j], leaves[i6, j], leaves[i7, j] = n4, n5, n6, n7


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
