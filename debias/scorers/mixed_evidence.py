"""Evidence for features that act in one of several ways, where all features together say how common each way is.

Each kind of effect has a p-value for each feature. It is turned into an e-value, which is 1 or less on average for
noise, and larger the more the data favour an effect. Fixed weights of kinds would let a kind that no feature has, such
as lines in exclusive ors, add its noise to the ranking. So every feature is taken to be noise or to act by one kind,
and the shares of kinds are fitted to all features.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

PRIOR_RELEVANT, PRIOR_NOISE = 0.5, 9.0
"""Numbers of relevant features, of any kind, and of noise features that are counted before the data are seen."""
TOLERANCE = 1e-9
MOST_STEPS = 1000
SMALL = 1e-3
"""Below this -log p the series of the e-value is used, because the closed form cancels."""


def mixed_evidence(log_p: NDArray[np.float64], prior: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log of the weighted mean of each feature's e-values, with the weights that fit all features.

    Parameters
    ----------
    log_p : array of shape (n_kinds, n_features)
        Logs of p-values.
    prior : array of shape (n_kinds,)
        Weights of kinds before the data are seen, which sum to 1.

    Returns
    -------
    array of shape (n_features,)
    """
    log_e = log_e_values(log_p)
    evidence: NDArray[np.float64] = np.logaddexp.reduce(np.log(fitted_weights(log_e, prior))[:, None] + log_e, axis=0)
    return evidence


def log_e_values(log_p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return logs of e-values ``(1 - p + p log p) / (p log(p)^2)``: the mean of k p^(k - 1) over all k in [0, 1].

    Parameters
    ----------
    log_p : array
        Logs of p-values.

    Returns
    -------
    array
        At least log(1/2), for p = 1.
    """
    minus = -log_p
    safe = np.maximum(minus, SMALL)
    closed = safe + np.log1p(-(1 + safe) * np.exp(-safe)) - 2 * np.log(safe)
    log_e: NDArray[np.float64] = np.where(minus < SMALL, np.log(1 / 2 + minus / 6 + minus**2 / 24), closed)
    return log_e


def fitted_weights(log_e: NDArray[np.float64], prior: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weights of kinds: shares of features, without noise, in a mixture that is fitted by EM.

    Parameters
    ----------
    log_e : array of shape (n_kinds, n_features)
        Logs of e-values; that of noise is 0.
    prior : array of shape (n_kinds,)
        See :func:`mixed_evidence`.

    Returns
    -------
    array of shape (n_kinds,)
        Above 0, with sum 1. The fit has one maximum, so the order of features changes nothing but rounding.
    """
    unit = np.maximum(log_e.max(axis=0), 0.0)
    of_kinds, of_noise = np.exp(log_e - unit), np.exp(-unit)
    counted = PRIOR_RELEVANT * prior
    n = PRIOR_RELEVANT + PRIOR_NOISE + log_e.shape[1]
    share = counted / (PRIOR_RELEVANT + PRIOR_NOISE)
    for _ in range(MOST_STEPS):
        parts = share[:, None] * of_kinds
        belongs = parts / (parts.sum(axis=0) + (1 - share.sum()) * of_noise)
        before, share = share, (counted + belongs.sum(axis=1)) / n
        if np.abs(share - before).max() < TOLERANCE:
            break
    return share / share.sum()
