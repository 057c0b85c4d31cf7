"""Compiled loops of the running loss.

The log-loss: let F be the margin before a tree. A node of value v gives the loss log(1 + e^(F + v)) - y (F + v). If the
loss at F is subtracted, the first part becomes log(q + p e^v), with the probabilities p and q = 1 - p at F. A split
saves the loss of its rows at the split minus their loss at its children. So two sums over rows at each node are enough:
the sum of y, and the sum of the logarithms, which is kept as one product. Each leaf has a slot for each node on its
path to the root. A row is multiplied into the slots of its leaf, which lie side by side; in the end, the slots of a
node are multiplied together.
"""

import numpy as np

from libc.math cimport INFINITY, exp, fabs, log, log1p, sqrt
from libc.stdint cimport int32_t, int64_t

# exp(709) is about the largest double, and exp(-745) the smallest above 0.
cdef double LARGEST_LOGARITHM = 600.0  # largest logarithm of a product that neither overflows nor vanishes


def add_log_loss(
    const int32_t[:, :] leaves,
    const int64_t[::1] start,
    const int32_t[::1] feature,
    const int32_t[::1] left,
    const int32_t[::1] parent,
    const double[:, ::1] value,
    const double[:] y,
    double base,
    double[::1] drop,
):
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
    cdef Py_ssize_t n_rows = leaves.shape[0], most = np.max(np.diff(start), initial=0)
    cdef Py_ssize_t i, j, k, begin, size, node, up, n_slots, at_once
    cdef double p, q, largest
    cdef double[::1] odds = np.full(n_rows, exp(base))
    cdef double[::1] growth = np.empty(most), product = np.empty(most), loss = np.empty(most), response = np.empty(most)
    cdef int64_t[::1] first = np.empty(most + 1, dtype=np.int64)
    cdef int64_t[::1] n_in_slots = np.empty(most, dtype=np.int64), n_in_product = np.empty(most, dtype=np.int64)
    cdef double[:, ::1] slots = np.empty((2, _most_slots(start, left, parent, first)))
    with nogil:
        for j in range(leaves.shape[1]):
            begin, size = start[j], start[j + 1] - start[j]
            # No value is too small: a product then takes 600,000 rows at most, and nothing is divided by 0.
            largest = 1e-3
            n_slots = 0
            for node in range(size):
                growth[node] = exp(value[begin + node, 0])
                largest = max(largest, fabs(value[begin + node, 0]))
                product[node] = 1.0
                loss[node] = response[node] = 0.0
                n_in_slots[node] = n_in_product[node] = 0
                first[node] = n_slots
                if left[begin + node] >= 0:
                    continue
                up = node
                while up >= 0:
                    slots[0, n_slots] = growth[up]
                    n_slots += 1
                    up = parent[begin + up]
                # Four slots are multiplied at a time. Those that fill up the last four are never collected.
                while n_slots % 4:
                    slots[0, n_slots] = 1.0
                    n_slots += 1
            first[size] = n_slots
            for k in range(n_slots):
                slots[1, k] = 1.0
            # Each factor q + p e^v lies between e^-|v| and e^|v|, as p + q = 1.
            at_once = max(1, <Py_ssize_t> (LARGEST_LOGARITHM / largest))
            for i in range(n_rows):
                node = leaves[i, j]
                response[node] += y[i]
                q = 1.0 / (1.0 + odds[i])
                p = odds[i] * q
                # The odds are kept instead of the margin: one exponential for each node then replaces one for each row.
                odds[i] *= growth[node]
                k = first[node]
                while k < first[node + 1]:
                    _multiply_four(slots, k, p, q)
                    k += 4
                n_in_slots[node] += 1
                if n_in_slots[node] == at_once:
                    _collect(node, parent, begin, slots, first[node], n_in_slots, at_once, product, n_in_product, loss)
            for node in range(size):
                if n_in_slots[node]:
                    _collect(node, parent, begin, slots, first[node], n_in_slots, at_once, product, n_in_product, loss)
            for node in range(size - 1, 0, -1):
                response[parent[begin + node]] += response[node]
            for node in range(size):
                if n_in_product[node]:
                    loss[node] += log(product[node])
                loss[node] -= response[node] * value[begin + node, 0]
            _add_savings(feature, left, parent, begin, size, loss, drop)


cdef Py_ssize_t _most_slots(
    const int64_t[::1] start, const int32_t[::1] left, const int32_t[::1] parent, int64_t[::1] depth
) noexcept nogil:
    """Return the largest number of slots of a tree: for each leaf, the nodes of its path, and up to three more."""
    cdef Py_ssize_t j, node, n_slots, most = 0
    for j in range(start.shape[0] - 1):
        n_slots = 0
        for node in range(start[j + 1] - start[j]):
            depth[node] = depth[parent[start[j] + node]] + 1 if node > 0 else 1
            if left[start[j] + node] < 0:
                n_slots += (depth[node] + 3) // 4 * 4
        most = max(most, n_slots)
    return most


cdef inline void _multiply_four(double[:, ::1] slots, Py_ssize_t k, double p, double q) noexcept nogil:
    """Multiply q + p e^v of a row into four slots. They are written after all are read: so this is vector code."""
    cdef double a = slots[1, k] * (q + p * slots[0, k])
    cdef double b = slots[1, k + 1] * (q + p * slots[0, k + 1])
    cdef double c = slots[1, k + 2] * (q + p * slots[0, k + 2])
    cdef double d = slots[1, k + 3] * (q + p * slots[0, k + 3])
    slots[1, k], slots[1, k + 1], slots[1, k + 2], slots[1, k + 3] = a, b, c, d


cdef inline void _collect(
    Py_ssize_t leaf,
    const int32_t[::1] parent,
    Py_ssize_t begin,
    double[:, ::1] slots,
    Py_ssize_t k,
    int64_t[::1] n_in_slots,
    Py_ssize_t at_once,
    double[::1] product,
    int64_t[::1] n_in_product,
    double[::1] loss,
) noexcept nogil:
    """Multiply the products in the slots of a leaf, from k on, into those of the nodes on its path.

    A product of more than `at_once` factors could overflow, so its logarithm is added to the loss before.
    """
    cdef Py_ssize_t node = leaf
    while node >= 0:
        if n_in_product[node] + n_in_slots[leaf] > at_once:
            loss[node] += log(product[node])
            product[node] = 1.0
            n_in_product[node] = 0
        product[node] *= slots[1, k]
        n_in_product[node] += n_in_slots[leaf]
        slots[1, k] = 1.0
        k += 1
        node = parent[begin + node]
    n_in_slots[leaf] = 0


def add_squared_error(
    const int32_t[:, :] leaves,
    const int64_t[::1] start,
    const int32_t[::1] tree_output,
    const int32_t[::1] feature,
    const int32_t[::1] left,
    const int32_t[::1] parent,
    const double[:, ::1] value,
    const double[::1] weight,
    double[:, ::1] residual,
    double[::1] drop,
):
    """Add the same as `add_running_loss` for the squared error of trees with one output.

    A node of value v changes the loss of its rows by n v^2 - 2 v s, where n is their weight and s the sum of their
    residuals. `residual` (n_outputs, n_rows) starts at y - F_0 and ends at y - F_M.
    """
    cdef Py_ssize_t most = np.max(np.diff(start), initial=0)
    cdef Py_ssize_t i, j, k, begin, size, node
    cdef double[::1] n = np.empty(most), s = np.empty(most)
    with nogil:
        for j in range(leaves.shape[1]):
            begin, size, k = start[j], start[j + 1] - start[j], tree_output[j]
            for node in range(size):
                n[node] = s[node] = 0.0
            for i in range(leaves.shape[0]):
                node = leaves[i, j]
                n[node] += weight[i]
                s[node] += weight[i] * residual[k, i]
                # Last, because a tree is judged by what the trees before it have left.
                residual[k, i] -= value[begin + node, 0]
            for node in range(size - 1, 0, -1):
                n[parent[begin + node]] += n[node]
                s[parent[begin + node]] += s[node]
            for node in range(size):
                s[node] = value[begin + node, 0] * (n[node] * value[begin + node, 0] - 2 * s[node])
            _add_savings(feature, left, parent, begin, size, s, drop)


cdef inline void _add_savings(
    const int32_t[::1] feature,
    const int32_t[::1] left,
    const int32_t[::1] parent,
    Py_ssize_t begin,
    Py_ssize_t size,
    const double[::1] loss,
    double[::1] drop,
) noexcept nogil:
    """Add the decreases of the loss at the splits of a tree; `loss` is that at each node less that before the tree."""
    cdef Py_ssize_t node
    # The root moves all rows alike, so its step belongs to no feature.
    drop[drop.shape[0] - 1] -= loss[0]
    for node in range(size):
        if left[begin + node] >= 0:
            drop[feature[begin + node]] += loss[node]
        if node > 0:
            drop[feature[begin + parent[begin + node]]] -= loss[node]


def add_weighted_log_loss(
    const int32_t[:, :] leaves,
    const int64_t[::1] start,
    const int32_t[::1] feature,
    const int32_t[::1] parent,
    const double[:, ::1] value,
    const double[:] values,
    const double[::1] weight,
    double base,
    double[::1] drop,
):
    """Add the same as `add_running_loss` for the log-loss of one margin, without a logarithm at every node.

    A split saves log(1 + e^(F + v_t)) - log(1 + e^(F + v_c)) - y (v_t - v_c). The logarithms of a feature are collected
    as one product of ratios over all trees, and e^v is computed once for each node.
    """
    cdef Py_ssize_t n_features = drop.shape[0] - 1
    cdef Py_ssize_t i, j, k, begin, node, up
    cdef double odds, last, below, here
    cdef double[::1] e_value = np.empty(value.shape[0]), ratio = np.ones(n_features + 1)
    with nogil:
        for node in range(value.shape[0]):
            e_value[node] = exp(value[node, 0])
        for i in range(leaves.shape[0]):
            odds = exp(base)
            for k in range(n_features + 1):
                ratio[k] = 1.0
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
                    # The logarithm is taken before the product overflows or vanishes, with room for one more ratio.
                    if not 1e-200 < ratio[k] < 1e200:
                        drop[k] += weight[i] * log(ratio[k])
                        ratio[k] = 1.0
                    node, below = up, here
                ratio[n_features] *= (1.0 + odds) / below
                drop[n_features] += weight[i] * values[i] * value[node, 0]
                if not 1e-200 < ratio[n_features] < 1e200:
                    drop[n_features] += weight[i] * log(ratio[n_features])
                    ratio[n_features] = 1.0
                odds = last
            for k in range(n_features + 1):
                if ratio[k] != 1.0:
                    drop[k] += weight[i] * log(ratio[k])


def add_running_loss(
    const int32_t[:, :] leaves,
    const int64_t[::1] start,
    const int32_t[::1] tree_output,
    const int32_t[::1] feature,
    const int32_t[::1] parent,
    const double[:, ::1] value,
    int objective,
    const double[::1] parameter,
    const int64_t[::1] codes,
    const double[:, ::1] target,
    const double[::1] weight,
    double[:, ::1] margin,
    double[:, ::1] drop,
):
    """Follow every row through all trees, tree by tree; add the loss that each step saves.

    The weighted decrease of the loss at each split is added to the entry of its feature in `drop`, that of root steps
    to the last entry. `drop` has one row of n_features + 1 entries for the sum over all rows, or one for each row.
    `margin` (n_rows, n_outputs) ends at F_M. `parameter` (n_outputs,) is the parameter of the objective.
    """
    cdef Py_ssize_t of_root = drop.shape[1] - 1, n_outputs = margin.shape[1], width = value.shape[1]
    cdef Py_ssize_t i, j, k, c, node, leaf, at
    cdef double here, below
    cdef const double* y
    cdef const double* f
    cdef double[::1] no_step = np.zeros(width)
    with nogil:
        for i in range(leaves.shape[0]):
            at = i if drop.shape[0] > 1 else 0
            for j in range(leaves.shape[1]):
                k = tree_output[j]
                node = leaf = start[j] + leaves[i, j]
                y, f = &target[i, 0], &margin[i, 0]
                # Up from the leaf, so that the loss at each node is computed once for the splits above and below it.
                below = _loss(objective, &parameter[0], codes[i], y, f, n_outputs, &value[leaf, 0], k, width)
                while node > start[j]:
                    node = start[j] + parent[node]
                    here = _loss(objective, &parameter[0], codes[i], y, f, n_outputs, &value[node, 0], k, width)
                    drop[at, feature[node]] += weight[i] * (here - below)
                    below = here
                here = _loss(objective, &parameter[0], codes[i], y, f, n_outputs, &no_step[0], k, width)
                drop[at, of_root] += weight[i] * (here - below)
                for c in range(width):
                    margin[i, k + c] += value[leaf, c]


cdef double _loss(
    int objective,
    const double* parameter,
    Py_ssize_t code,
    const double* y,
    const double* margin,
    Py_ssize_t n_outputs,
    const double* step,
    Py_ssize_t k,
    Py_ssize_t width,
) noexcept nogil:
    """Return the loss of a row after one step of the `width` outputs from k on.

    Losses of one margin are summed over the outputs that step, because the others stay. Softmax uses all outputs.
    """
    cdef Py_ssize_t c
    cdef double f, observed = 0.0, top = -INFINITY, total = 0.0
    if objective == 2:
        for c in range(n_outputs):
            f = margin[c] + (step[c - k] if 0 <= c - k < width else 0.0)
            # The largest margin is subtracted before exponentials are taken, so that none overflows.
            top = max(top, f)
            if c == code:
                observed = f
        for c in range(n_outputs):
            total += exp(margin[c] + (step[c - k] if 0 <= c - k < width else 0.0) - top)
        return top + log(total) - observed
    for c in range(width):
        total += _loss_of_one(objective, parameter[k + c], y[k + c], margin[k + c] + step[c])
    return total


cpdef double _loss_of_one(int objective, double a, double y, double f) noexcept nogil:
    """Return the loss of a response y at a margin f: the formulas of `objectives.LOSSES`, by their code."""
    cdef double r = fabs(y - f)
    if objective == 0:
        return r * r
    if objective == 1:
        # log(1 + e^f) = max(f, 0) + log(1 + e^-|f|), which never overflows.
        return max(a * f, 0.0) - y * a * f + log1p(exp(-fabs(a * f)))
    if objective == 3:
        return r
    if objective == 4:
        return a * r if y > f else (1 - a) * r
    if objective == 5:
        return (a if y > f else 1 - a) * r * r / 2
    if objective == 6:
        return r * r / 2 if r <= a else a * (r - a / 2)
    if objective == 7:
        return a * a * (sqrt(1 + (r / a) * (r / a)) - 1)
    if objective == 8:
        return a * r - a * a * log1p(r / a)
    if objective == 9:
        return r / max(1.0, fabs(y))
    if objective == 10:
        # XGBoost takes smaller margins for this one, so that the logarithm exists.
        r = log1p(y) - log1p(max(f, -1 + 1e-6))
        return r * r / 2
    if objective == 11:
        return exp(f) - y * f
    if objective == 12:
        return y * exp(-f) + f
    if objective == 13:
        return exp((2 - a) * f) / (2 - a) - y * exp((1 - a) * f) / (1 - a)
    if objective == 14:
        return max(0.0, 1 - (2 * y - 1) * f)
    return exp(-(2 * y - 1) * f)  # exponential
