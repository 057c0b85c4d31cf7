"""The scores: one formula each on node sums. Notation and sources are in docs/methods.md, section 1.

Every kernel gives the contribution of each split, unscaled by the evaluation rows of its tree. `children` holds
the two children of each split; mu are node values, w in-bag weights, n and s the sums over evaluation rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.ensemble import TreeEnsemble


def by_feature(
    ensemble: TreeEnsemble, contributions: NDArray[np.float64], scale: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Add up the contributions of splits, each times its tree's scale, under the feature they split on.

    Parameters
    ----------
    ensemble : TreeEnsemble
    contributions : array of shape (n_splits,)
    scale : array of shape (n_trees,)

    Returns
    -------
    array of shape (n_features,)
    """
    weighted = contributions * scale[ensemble.tree_of_split]
    total = np.bincount(ensemble.feature[ensemble.splits], weights=weighted, minlength=ensemble.n_features)
    return total.astype(np.float64)


@njit(cache=True)
def centred_covariance(splits, children, mu, n, s):
    """Sum mu_c . (s_c - (n_c / n_t) s_t): covariance of child value and response (002 eq. 14, centred in the node)."""
    out = np.zeros(splits.size)
    for j in range(splits.size):
        t = splits[j]
        if n[t] > 0:
            for c in children[j]:
                for k in range(mu.shape[1]):
                    out[j] += mu[c, k] * (s[c, k] - n[c] / n[t] * s[t, k])
    return out


@njit(cache=True)
def raw_covariance(splits, children, mu, n, s, centre):
    """sum_c (mu_c - mu_t) . s_c with the centre added back to the response: 002 eq. 14 to the letter."""
    out = np.zeros(splits.size)
    for j in range(splits.size):
        t = splits[j]
        for c in children[j]:
            for k in range(mu.shape[1]):
                out[j] += (mu[c, k] - mu[t, k]) * (s[c, k] + n[c] * centre[k])
    return out


@njit(cache=True)
def weighted_covariance(splits, children, mu, w, n, s):
    """sum_c w_c (mu_c - mu_t) . (mu'_c - mu'_t); 0 where a child has no evaluation row."""
    out = np.zeros(splits.size)
    for j in range(splits.size):
        t, a, b = splits[j], children[j, 0], children[j, 1]
        if n[a] > 0 and n[b] > 0:
            for c in (a, b):
                for k in range(mu.shape[1]):
                    out[j] += w[c] * (mu[c, k] - mu[t, k]) * (s[c, k] / n[c] - s[t, k] / n[t])
    return out


@njit(cache=True)
def unbiased_decrease(splits, children, mu, w, n, s, q):
    """UFI (Zhou and Hooker): decrease of H = (evaluation error about mu + in-bag variance) / 2, in-bag weights.

    With a one-hot response H is 1 - mu . mu'. The in-bag part is the between-children variance, so no stored
    impurity is needed; 0 where a child has no evaluation row.
    """
    out = np.zeros(splits.size)
    for j in range(splits.size):
        t, a, b = splits[j], children[j, 0], children[j, 1]
        if n[a] > 0 and n[b] > 0:
            out[j] = w[t] * _squared_error(t, mu, n, s, q) / n[t]
            for c in (a, b):
                out[j] -= w[c] * _squared_error(c, mu, n, s, q) / n[c]
                for k in range(mu.shape[1]):
                    out[j] += w[c] * (mu[c, k] - mu[t, k]) ** 2
            out[j] /= 2
    return out


@njit(cache=True)
def evaluation_decrease(splits, children, n, s):
    """n'_t I'_t - n'_l I'_l - n'_r I'_r, impurity on evaluation rows alone ("naive-oob"); the squares cancel."""
    out = np.zeros(splits.size)
    for j in range(splits.size):
        t, a, b = splits[j], children[j, 0], children[j, 1]
        if n[a] > 0 and n[b] > 0:
            for k in range(s.shape[1]):
                # The between-children sum of squares, which cannot come out negative by rounding.
                out[j] += n[a] * n[b] / n[t] * (s[a, k] / n[a] - s[b, k] / n[b]) ** 2
    return out


@njit(cache=True)
def loss_decrease(splits, children, mu, n, s):
    """n'_t L_t - n'_l L_l - n'_r L_r, L the mean squared error (Brier score) of mu; the squares of y cancel."""
    out = np.zeros(splits.size)
    for j in range(splits.size):
        t = splits[j]
        for c in children[j]:
            for k in range(mu.shape[1]):
                step = mu[c, k] - mu[t, k]
                out[j] += step * (2 * s[c, k] - n[c] * (mu[c, k] + mu[t, k]))
    return out


@njit(cache=True)
def between_variance(splits, children, mu, w):
    """w_t V_t - w_l V_l - w_r V_r = sum_c w_c |mu_c - mu_t|^2: variance or Gini decrease (002 eq. 4, 13)."""
    out = np.zeros(splits.size)
    for j in range(splits.size):
        t = splits[j]
        for c in children[j]:
            for k in range(mu.shape[1]):
                out[j] += w[c] * (mu[c, k] - mu[t, k]) ** 2
    return out


def impurity_decrease(ensemble: TreeEnsemble) -> NDArray[np.float64]:
    """n_t I_t - n_l I_l - n_r I_r by the stored impurity and weights, shape (n_splits,) (002 eq. 4)."""
    assert ensemble.weight is not None
    assert ensemble.impurity is not None
    mass = ensemble.weight * ensemble.impurity
    decrease: NDArray[np.float64] = mass[ensemble.splits] - mass[ensemble.children].sum(axis=1)
    return decrease


@njit(cache=True)
def _squared_error(t, mu, n, s, q):
    """Return the sum over evaluation rows of |y - mu_t|^2."""
    total = q[t]
    for k in range(mu.shape[1]):
        total += mu[t, k] * (n[t] * mu[t, k] - 2 * s[t, k])
    return total
