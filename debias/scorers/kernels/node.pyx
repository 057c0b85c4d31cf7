"""Compiled loops of the scorers of node sums: the term of each split, one formula each.

`children` holds the two children of each of `splits`, and `out` receives the term of each split. mu are node values, w
in-bag weights; n and s are the weight and the sum of the response of the evaluation rows at each node, q the sum of its
squares, so mu' = s / n. The terms are those of docs/methods.md, not yet divided by the weight at the root of the tree.
"""

from libc.math cimport frexp, ldexp
from libc.stdint cimport int32_t, int64_t

ctypedef fused index:
    int32_t
    int64_t


def sum_by_feature(
    const index[::1] splits,
    const index[::1] tree_of_split,
    const int32_t[::1] feature,
    const double[::1] contributions,
    const double[::1] scale,
    double[::1] total,
):
    """Add the term of each split, times the scale of its tree, to the total of its feature."""
    cdef int64_t j, k
    with nogil:
        for j in range(splits.shape[0]):
            k = feature[splits[j]]
            total[k] += contributions[j] * scale[tree_of_split[j]]


def centred_covariance(
    const index[::1] splits,
    const index[:, ::1] children,
    const double[:, ::1] mu,
    const double[::1] n,
    const double[:, ::1] s,
    double[::1] out,
):
    """Compute the terms of ``mdi_oob``: sum_c mu_c . (s_c - (n_c / n_t) s_t).

    This is eq. 14 of Li et al. (2019), centred in the node. With two children a and b the sum is
    (mu_a - mu_b) . (n_b s_a - n_a s_b) / n_t.
    """
    cdef int64_t j, k, a, b
    cdef double total, scale, n_a, n_b
    with nogil:
        for j in range(splits.shape[0]):
            a, b, total = children[j, 0], children[j, 1], 0.0
            if n[a] > 0 and n[b] > 0:  # otherwise the term is 0, also under rounding
                scale = about_1_over(n[splits[j]])
                n_a, n_b = n[a] * scale, n[b] * scale
                for k in range(mu.shape[1]):
                    total += (mu[a, k] - mu[b, k]) * (n_b * s[a, k] - n_a * s[b, k])
                total /= n[splits[j]] * scale
            out[j] = total


def raw_covariance(
    const index[::1] splits,
    const index[:, ::1] children,
    const double[:, ::1] mu,
    const double[::1] n,
    const double[:, ::1] s,
    const double[::1] centre,
    double[::1] out,
):
    """Compute the terms of ``mdi_oob(centre='none')``: sum_c (mu_c - mu_t) . s_c, eq. 14 as printed.

    `centre` is added back to the response.
    """
    cdef int64_t j, k, t, c, side
    cdef double total
    with nogil:
        for j in range(splits.shape[0]):
            t, total = splits[j], 0.0
            for side in range(2):
                c = children[j, side]
                for k in range(mu.shape[1]):
                    total += (mu[c, k] - mu[t, k]) * (s[c, k] + n[c] * centre[k])
            out[j] = total


def weighted_covariance(
    const index[::1] splits,
    const index[:, ::1] children,
    const double[:, ::1] mu,
    const double[::1] w,
    const double[::1] n,
    const double[:, ::1] s,
    double[::1] out,
):
    """Compute the terms of ``mdi_oob(weights='in_bag')``: sum_c w_c (mu_c - mu_t) . (s_c / n_c - s_t / n_t).

    The term is 0 where a child has no evaluation row.
    """
    cdef int64_t j, k, t, c, side
    cdef double total
    with nogil:
        for j in range(splits.shape[0]):
            t, total = splits[j], 0.0
            if n[children[j, 0]] > 0 and n[children[j, 1]] > 0:
                for side in range(2):
                    c = children[j, side]
                    for k in range(mu.shape[1]):
                        total += w[c] * (mu[c, k] - mu[t, k]) * (s[c, k] / n[c] - s[t, k] / n[t])
            out[j] = total


def unbiased_decrease(
    const index[::1] splits,
    const index[:, ::1] children,
    const double[:, ::1] mu,
    const double[::1] w,
    const double[::1] n,
    const double[:, ::1] s,
    const double[::1] q,
    double[::1] out,
):
    """Compute the terms of ``ufi`` (Zhou and Hooker): w_t H_t - sum_c w_c H_c.

    H is half of the mean squared error of the evaluation rows about mu plus half of the in-bag variance. With a one-hot
    response H is 1 - mu . mu'. The in-bag part is the variance between the children, so the stored impurity is not
    needed. The term is 0 where a child has no evaluation row.
    """
    cdef int64_t j, k, t, c, side
    cdef double total, between, step
    with nogil:
        for j in range(splits.shape[0]):
            t, total = splits[j], 0.0
            if n[children[j, 0]] > 0 and n[children[j, 1]] > 0:
                # Of in-bag variances V, w_t V_t - sum_c w_c V_c is sum_c w_c |mu_c - mu_t|^2, whatever V is.
                total = w[t] / n[t] * squared_error(t, mu, n, s, q)
                for side in range(2):
                    c, between = children[j, side], 0.0
                    for k in range(mu.shape[1]):
                        step = mu[c, k] - mu[t, k]
                        between += step * step
                    total += w[c] * (between - squared_error(c, mu, n, s, q) / n[c])
            out[j] = total / 2


def evaluation_decrease(
    const index[::1] splits,
    const index[:, ::1] children,
    const double[::1] n,
    const double[:, ::1] s,
    double[::1] out,
):
    """Compute the terms of ``oob_split``: n_t I_t - n_a I_a - n_b I_b, I the impurity of the evaluation rows.

    The sums of squares cancel.
    """
    cdef int64_t j, k, a, b
    cdef double total, step, scale
    with nogil:
        for j in range(splits.shape[0]):
            a, b, total = children[j, 0], children[j, 1], 0.0
            if n[a] > 0 and n[b] > 0:
                for k in range(s.shape[1]):
                    # The sum of squares between the children: rounding cannot make it negative.
                    step = s[a, k] / n[a] - s[b, k] / n[b]
                    total += step * step
                scale = about_1_over(n[splits[j]])
                total *= n[a] * scale * n[b] / (n[splits[j]] * scale)
            out[j] = total


def loss_decrease(
    const index[::1] splits,
    const index[:, ::1] children,
    const double[:, ::1] mu,
    const double[::1] n,
    const double[:, ::1] s,
    double[::1] out,
):
    """Compute the terms of ``oob_loss``: n_t L_t - n_a L_a - n_b L_b, L the mean squared error (Brier score) of mu.

    The sums of squares cancel.
    """
    cdef int64_t j, k, t, c, side
    cdef double total, step
    with nogil:
        for j in range(splits.shape[0]):
            t, total = splits[j], 0.0
            for side in range(2):
                c = children[j, side]
                for k in range(mu.shape[1]):
                    step = mu[c, k] - mu[t, k]
                    # |y - mu_t|^2 - |y - mu_c|^2 is (mu_c - mu_t) . (2 y - mu_c - mu_t), here summed over rows.
                    total += step * (2 * s[c, k] - n[c] * (mu[c, k] + mu[t, k]))
            out[j] = total


def between_variance(
    const index[::1] splits,
    const index[:, ::1] children,
    const double[:, ::1] mu,
    const double[::1] w,
    double[::1] out,
):
    """Compute the terms of ``mdi(criterion='variance')``: sum_c w_c |mu_c - mu_t|^2 (Li et al. 2019, eq. 4 and 13).

    mu_t is the mean over the two children a and b, so the sum is w_a w_b / (w_a + w_b) |mu_a - mu_b|^2.
    """
    cdef int64_t j, k, a, b
    cdef double total, step
    with nogil:
        for j in range(splits.shape[0]):
            a, b, total = children[j, 0], children[j, 1], 0.0
            if w[a] > 0 and w[b] > 0:
                for k in range(mu.shape[1]):
                    step = mu[a, k] - mu[b, k]
                    total += step * step
                total *= w[a] * (w[b] / (w[a] + w[b]))
            out[j] = total


def impurity_decrease(
    const index[::1] splits,
    const index[:, ::1] children,
    const double[::1] weight,
    const double[::1] impurity,
    double[::1] out,
):
    """Compute the terms of ``mdi``: w_t I_t - w_a I_a - w_b I_b, I the stored impurity (Li et al. 2019, eq. 4)."""
    cdef int64_t j, t, a, b
    with nogil:
        for j in range(splits.shape[0]):
            t, a, b = splits[j], children[j, 0], children[j, 1]
            out[j] = weight[t] * impurity[t] - (weight[a] * impurity[a] + weight[b] * impurity[b])


cdef inline double about_1_over(double n) noexcept nogil:
    """Return a power of 2 near 1 / n. Weights times it have products that are not 0, and other bits do not change."""
    cdef int exponent
    frexp(n, &exponent)
    return ldexp(1.0, -max(exponent, -1020))


cdef inline double squared_error(
    int64_t t, const double[:, ::1] mu, const double[::1] n, const double[:, ::1] s, const double[::1] q
) noexcept nogil:
    """Return the sum over evaluation rows of |y - mu_t|^2."""
    cdef double total = q[t]
    cdef int64_t k
    for k in range(mu.shape[1]):
        total += mu[t, k] * (n[t] * mu[t, k] - 2 * s[t, k])
    return total
