"""Compiled loops of the scores in debias_plugins.scorers.node_scores, where the formulas stand.

`children` holds the two children of each of `splits`; `out` takes what each split contributes. Importing this module
imports numba, so the core does it on first use.
"""

from numba import njit, uint64


@njit(cache=True, nogil=True)
def sum_by_feature(splits, tree_of_split, feature, contributions, scale, total):
    """Add each split's contribution, times its tree's scale, to the total of its feature."""
    for j in range(splits.size):
        total[uint64(feature[uint64(splits[j])])] += contributions[j] * scale[uint64(tree_of_split[j])]


@njit(cache=True, nogil=True)
def centred_covariance(splits, children, mu, n, s, out):
    """Terms of ``mdi_oob``."""
    for j in range(splits.size):
        t, a, b, total = uint64(splits[j]), uint64(children[j, 0]), uint64(children[j, 1]), 0.0
        if n[a] > 0 and n[b] > 0:  # else it is 0, and no rounding may say otherwise
            for k in range(mu.shape[1]):
                total += (mu[a, k] - mu[b, k]) * (n[b] * s[a, k] - n[a] * s[b, k])
            total /= n[t]
        out[j] = total


@njit(cache=True, nogil=True)
def raw_covariance(splits, children, mu, n, s, centre, out):
    """Terms of ``mdi_oob(centre='none')``."""
    for j in range(splits.size):
        t, total = uint64(splits[j]), 0.0
        for side in range(2):
            c = uint64(children[j, side])
            for k in range(mu.shape[1]):
                total += (mu[c, k] - mu[t, k]) * (s[c, k] + n[c] * centre[k])
        out[j] = total


@njit(cache=True, nogil=True)
def weighted_covariance(splits, children, mu, w, n, s, out):
    """Terms of ``mdi_oob(weights='in_bag')``."""
    for j in range(splits.size):
        t, total = uint64(splits[j]), 0.0
        if n[uint64(children[j, 0])] > 0 and n[uint64(children[j, 1])] > 0:
            for side in range(2):
                c = uint64(children[j, side])
                for k in range(mu.shape[1]):
                    total += w[c] * (mu[c, k] - mu[t, k]) * (s[c, k] / n[c] - s[t, k] / n[t])
        out[j] = total


@njit(cache=True, nogil=True)
def unbiased_decrease(splits, children, mu, w, n, s, q, out):
    """Terms of ``ufi``."""
    for j in range(splits.size):
        t, a, b = uint64(splits[j]), uint64(children[j, 0]), uint64(children[j, 1])
        if n[a] > 0 and n[b] > 0:
            total = w[t] / n[t] * _squared_error(t, mu, n, s, q)
            for c in (a, b):
                between = 0.0
                for k in range(mu.shape[1]):
                    between += (mu[c, k] - mu[t, k]) ** 2
                total += w[c] * (between - _squared_error(c, mu, n, s, q) / n[c])
            out[j] = total / 2
        else:
            out[j] = 0.0


@njit(cache=True, nogil=True)
def evaluation_decrease(splits, children, n, s, out):
    """Terms of ``oob_split``."""
    for j in range(splits.size):
        t, a, b = uint64(splits[j]), uint64(children[j, 0]), uint64(children[j, 1])
        total = 0.0
        if n[a] > 0 and n[b] > 0:
            for k in range(s.shape[1]):
                # The between-children sum of squares, which cannot come out negative by rounding.
                total += (s[a, k] / n[a] - s[b, k] / n[b]) ** 2
            total *= n[a] * n[b] / n[t]
        out[j] = total


@njit(cache=True, nogil=True)
def loss_decrease(splits, children, mu, n, s, out):
    """Terms of ``oob_loss``."""
    for j in range(splits.size):
        t, total = uint64(splits[j]), 0.0
        for side in range(2):
            c = uint64(children[j, side])
            for k in range(mu.shape[1]):
                step = mu[c, k] - mu[t, k]
                total += step * (2 * s[c, k] - n[c] * (mu[c, k] + mu[t, k]))
        out[j] = total


@njit(cache=True, nogil=True)
def between_variance(splits, children, mu, w, out):
    """Terms of ``mdi(criterion='variance')``."""
    for j in range(splits.size):
        t, total = uint64(splits[j]), 0.0
        for side in range(2):
            c = uint64(children[j, side])
            for k in range(mu.shape[1]):
                total += w[c] * (mu[c, k] - mu[t, k]) ** 2
        out[j] = total


@njit(cache=True, nogil=True)
def impurity_decrease(splits, children, weight, impurity, out):
    """Terms of ``mdi``."""
    for j in range(splits.size):
        t, a, b = uint64(splits[j]), uint64(children[j, 0]), uint64(children[j, 1])
        out[j] = weight[t] * impurity[t] - (weight[a] * impurity[a] + weight[b] * impurity[b])


@njit(cache=True, nogil=True)
def _squared_error(t, mu, n, s, q):
    """Return the sum over evaluation rows of |y - mu_t|^2."""
    total = q[t]
    for k in range(mu.shape[1]):
        total += mu[t, k] * (n[t] * mu[t, k] - 2 * s[t, k])
    return total
