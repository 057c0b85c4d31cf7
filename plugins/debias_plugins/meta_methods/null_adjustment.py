"""Adjustment of scores by their values for noise: ratio, difference, z, p-value. Pure functions of arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias import DebiasError
from debias.p_values import Boundaries, exceeds, permutation_p_values
from debias.plugin import CompositionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from debias.retraining.replicates import Replicates

RULES = ("z", "ratio", "difference", "pvalue")
TAILS = ("empirical", "normal", "gamma")


def check_rule(name: str, rule: object, tail: object, replicates: object) -> None:
    """Raise a CompositionError unless the options are valid for :func:`normalise` and :func:`tail_p_values`.

    `name` is the meta-method, for the message.
    """
    for option, value, known in (("rule", rule, RULES), ("tail", tail, TAILS)):
        check_known(name, option, value, known)
    if check_replicates(name, replicates) < 2 and (rule == "z" or tail != "empirical"):
        raise CompositionError(f"{name}: rule='z' and fitted tails need 2 or more replicates")


def check_level(name: str, alpha: object, adaptive: object) -> None:
    """Raise a CompositionError unless alpha is an error rate and adaptive a bool; `name` is for the message."""
    if not isinstance(adaptive, bool):
        raise CompositionError(f"{name}: adaptive={adaptive!r} must be True or False")
    check_error_rate(name, alpha)


def check_known(name: str, option: str, value: object, known: tuple[str, ...]) -> None:
    """Raise a CompositionError unless an option has one of its known values; `name` is for the message."""
    if value not in known:
        raise CompositionError(f"{name}: {option}={value!r} is not one of {', '.join(map(repr, known))}")


def check_replicates(name: str, replicates: object) -> int:
    """Return the number of replicates; raise a CompositionError unless it is one. `name` is for the message."""
    if isinstance(replicates, bool) or not isinstance(replicates, int) or replicates < 1:
        raise CompositionError(f"{name}: replicates={replicates!r} must be a whole number of 1 or more")
    return replicates


def check_error_rate(name: str, alpha: object) -> None:
    """Raise a CompositionError unless alpha is an error rate; `name` is for the message."""
    if isinstance(alpha, bool) or not isinstance(alpha, (int, float)) or not 0 < alpha < 1:
        raise CompositionError(f"{name}: alpha={alpha!r} must be between 0 and 1")


def all_settled(score: NDArray[np.float64], alpha: float, replicates: int) -> Callable[[NDArray[np.float64]], bool]:
    """Return a function of draws, shape (n_drawn, n_features), that says whether every decision at alpha is settled.

    A decision is settled if all replicates move the counted p-value of the feature to the other side of alpha with a
    probability of at most 2e-3.
    """
    bounds = Boundaries(alpha, replicates)
    return lambda null: bool(bounds.settled(exceeds(null, score)).all())


def against_draws(
    score: NDArray[np.float64], drawn: Replicates, rule: str, tail: str
) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Return the scores adjusted by :func:`normalise`, and their details."""
    return normalise(score, drawn.values, rule, tail), {
        **drawn.report(),
        "rule": rule,
        "unadjusted": score.tolist(),
        "null": drawn.values,
        "p_value": tail_p_values(score, drawn.values, tail),
    }


def normalise(
    score: NDArray[np.float64], null: NDArray[np.float64], rule: str, tail: str = "empirical"
) -> NDArray[np.float64]:
    """Return scores adjusted by the scores that each feature has under permutation.

    Parameters
    ----------
    score : array of shape (n_features,)
    null : array of shape (n_replicates, n_features)
    rule : {"z", "ratio", "difference", "pvalue"}
        (v - mean v*) / sd v*; v / mean v*; v - mean v*; -log10 of the p-value. v are the scores, v* those in `null`.
    tail : {"empirical", "normal", "gamma"}
        How the p-value is computed, see :func:`tail_p_values`.

    Returns
    -------
    array of shape (n_features,)
        All values are finite. If the draws of a feature are all 0 (ratio) or all equal (z), its own score counts as one
        more draw. So the value is at most n + 1, or n / sqrt(n + 1), and 0 if the score equals the draws.

    Raises
    ------
    DebiasError
        `rule` is "ratio", and the mean of the score for noise is not clearly above 0.
    """
    mean, n = null.mean(axis=0), len(null)
    if rule == "difference":
        return score - mean
    if rule == "pvalue":
        return -np.log10(tail_p_values(score, null, tail))
    if rule == "ratio":
        _refuse_means_around_zero(null)
        ratio = np.divide(score, mean, out=np.zeros_like(mean), where=mean != 0)
        return np.where((mean == 0) & (score != 0), np.sign(score) * (n + 1.0), ratio)
    flat = null.max(axis=0) == null.min(axis=0)
    spread = np.where(flat, 0.0, null.std(axis=0, ddof=1)) if n > 1 else np.zeros_like(mean)
    z = np.divide(score - mean, spread, out=np.zeros_like(mean), where=spread > 0)
    return np.where(flat, np.sign(score - null[0]) * n / np.sqrt(n + 1), z)


def tail_p_values(score: NDArray[np.float64], null: NDArray[np.float64], tail: str) -> NDArray[np.float64]:
    """Return P(v* >= v), counted or by a distribution fitted to the draws (Altmann et al. 2010).

    "empirical": (1 + #{v* >= v}) / (1 + n). "normal", "gamma": the tail of that distribution.

    Parameters
    ----------
    score, null, tail
        As for :func:`normalise`.

    Returns
    -------
    array of shape (n_features,)
        At least 1e-300. If all draws of a feature are equal, its p-value is counted.

    Raises
    ------
    DebiasError
        `tail` is "gamma", and not all draws are above 0.
    """
    p = permutation_p_values(score, null)
    if tail == "empirical":
        return p
    varies = null.max(axis=0) > null.min(axis=0)
    if tail == "normal":
        from scipy.special import ndtr

        spread = np.where(varies, null.std(axis=0, ddof=1), 1.0)
        fitted = ndtr(-(score - null.mean(axis=0)) / spread)
    else:
        fitted = _gamma_tail(score, null, varies)
    return np.where(varies, np.maximum(fitted, 1e-300), p)


def _gamma_tail(
    score: NDArray[np.float64], null: NDArray[np.float64], varies: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return the tails of gamma distributions fitted by maximum likelihood, with the origin at 0."""
    from scipy.optimize import brentq
    from scipy.special import digamma, gammaincc

    if (null[:, varies] <= 0).any():
        raise DebiasError("tail='gamma' needs scores above 0, but some are not under permutation; use tail='normal'")
    p = np.ones_like(score)
    for k in np.flatnonzero(varies):
        mean = null[:, k].mean()
        gap = float(np.log(mean) - np.log(null[:, k]).mean())  # log(shape) - digamma(shape) at the maximum
        shape = brentq(lambda a, gap=gap: np.log(a) - digamma(a) - gap, 0.4 / gap, 1.1 / gap)
        p[k] = gammaincc(shape, shape * max(score[k], 0.0) / mean)
    return p


def _refuse_means_around_zero(null: NDArray[np.float64]) -> None:
    error = null.std(axis=0, ddof=1) / np.sqrt(len(null)) if len(null) > 1 else np.full(null.shape[1], np.inf)
    unclear = (null < 0).any(axis=0) & (null.mean(axis=0) < 3 * error)
    if unclear.any():
        raise DebiasError(
            f"rule='ratio' divides by the mean for noise, but for {int(unclear.sum())} of {null.shape[1]} features "
            "this mean is not clearly above 0: use rule='z' or 'difference', or an impurity score such as mdi"
        )
