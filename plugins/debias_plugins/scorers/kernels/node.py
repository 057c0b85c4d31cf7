"""Compiled loops of the scorers of node sums: the term of each split, one formula each.

`children` holds the two children of each of `splits`, and `out` receives the term of each split. mu are node values, w
in-bag weights; n and s are the weight and the sum of the response of the evaluation rows at each node, q the sum of its
squares, so mu' = s / n. The terms are those of docs/methods.md, not yet divided by the weight at the root of the tree.
Importing this module imports numba, so import it on first use.
"""

from numba import njit, uint64


@njit(cache=True, nogil=True)
def sum_by_feature(splits, tree_of_split, feature, contributions, scale, total):
    """Add the term of each split, times the scale of its tree, to the total of its feature."""
    for j in range(splits.size):
        total[uint64(feature[uint64(splits[j])])] += contributions[j] * scale[uint64(tree_of_split[j])]


@njit(cache=True, nogil=True)
def centred_covariance(splits, children, mu, n, s, out):
    """Compute the terms of ``mdi_oob``: sum_c mu_c . (s_c - (n_c / n_t) s_t).

    This is eq. 14 of Li et al. (2019), centred in the node. With two children a and b the sum is
    (mu_a - mu_b) . (n_b s_a - n_a s_b) / n_t.
    """
    for j in range(splits.size):
        t, a, b, total = uint64(splits[j]), uint64(children[j, 0]), uint64(children[j, 1]), 0.0
        if n[a] > 0 and n[b] > 0:  # otherwise the term is 0, also under rounding
            for k in range(mu.shape[1]):
                total += (mu[a, k] - mu[b, k]) * (n[b] * s[a, k] - n[a] * s[b, k])
            total /= n[t]
        out[j] = total


@njit(cache=True, nogil=True)
def raw_covariance(splits, children, mu, n, s, centre, out):
    """Compute the terms of ``mdi_oob(centre='none')``: sum_c (mu_c - mu_t) . s_c, eq. 14 as printed.

    `centre` is added back to the response.
    """
    for j in range(splits.size):
        t, total = uint64(splits[j]), 0.0
        for side in range(2):
            c = uint64(children[j, side])
            for k in range(mu.shape[1]):
                total += (mu[c, k] - mu[t, k]) * (s[c, k] + n[c] * centre[k])
        out[j] = total


@njit(cache=True, nogil=True)
def weighted_covariance(splits, children, mu, w, n, s, out):
    """Compute the terms of ``mdi_oob(weights='in_bag')``: sum_c w_c (mu_c - mu_t) . (s_c / n_c - s_t / n_t).

    The term is 0 where a child has no evaluation row.
    """
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
    """Compute the terms of ``ufi`` (Zhou and Hooker): w_t H_t - sum_c w_c H_c.

    H is half of the mean squared error of the evaluation rows about mu plus half of the in-bag variance. With a one-hot
    response H is 1 - mu . mu'. The in-bag part is the variance between the children, so the stored impurity is not
    needed. The term is 0 where a child has no evaluation row.
    """
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
    """Compute the terms of ``oob_split``: n_t I_t - n_a I_a - n_b I_b, I the impurity of the evaluation rows.

    The sums of squares cancel.
    """
    for j in range(splits.size):
        t, a, b = uint64(splits[j]), uint64(children[j, 0]), uint64(children[j, 1])
        total = 0.0
        if n[a] > 0 and n[b] > 0:
            for k in range(s.shape[1]):
                # The sum of squares between the children: rounding cannot make it negative.
                total += (s[a, k] / n[a] - s[b, k] / n[b]) ** 2
            total *= n[a] * n[b] / n[t]
        out[j] = total


@njit(cache=True, nogil=True)
def loss_decrease(splits, children, mu, n, s, out):
    """Compute the terms of ``oob_loss``: n_t L_t - n_a L_a - n_b L_b, L the mean squared error (Brier score) of mu.

    The sums of squares cancel.
    """
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
    """Compute the terms of ``mdi(criterion='variance')``: sum_c w_c |mu_c - mu_t|^2 (Li et al. 2019, eq. 4 and 13)."""
    for j in range(splits.size):
        t, total = uint64(splits[j]), 0.0
        for side in range(2):
            c = uint64(children[j, side])
            for k in range(mu.shape[1]):
                total += w[c] * (mu[c, k] - mu[t, k]) ** 2
        out[j] = total


@njit(cache=True, nogil=True)
def impurity_decrease(splits, children, weight, impurity, out):
    """Compute the terms of ``mdi``: w_t I_t - w_a I_a - w_b I_b, I the stored impurity (Li et al. 2019, eq. 4)."""
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
