"""A score against its draws under chance: ratio, difference, z, p-value. Pure functions of arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias import CompositionError, DebiasError
from debias.p_values import Boundaries, exceeds, permutation_p_values

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from debias.retraining.replicates import Replicates

RULES = ("z", "ratio", "difference", "pvalue")
TAILS = ("empirical", "normal", "gamma")


def check_rule(name: str, rule: object, tail: object, replicates: object) -> None:
    """Refuse options that `normalise` and `tail_p_values` do not have; `name` is for the message."""
    for option, value, known in (("rule", rule, RULES), ("tail", tail, TAILS)):
        if value not in known:
            raise CompositionError(f"{name}: {option}={value!r} is none of {', '.join(map(repr, known))}")
    if isinstance(replicates, bool) or not isinstance(replicates, int) or replicates < 1:
        raise CompositionError(f"{name}: replicates={replicates!r} must be a whole number of 1 or more")
    if replicates < 2 and (rule == "z" or tail != "empirical"):
        raise CompositionError(f"{name}: one replicate has no spread, so rule='z' and fitted tails need 2 or more")


def check_level(name: str, alpha: object, adaptive: object) -> None:
    """Refuse an error rate that is none, and what neither says yes nor no; `name` is for the message."""
    if not isinstance(adaptive, bool):
        raise CompositionError(f"{name}: adaptive={adaptive!r} must be True or False")
    if isinstance(alpha, bool) or not isinstance(alpha, (int, float)) or not 0 < alpha < 1:
        raise CompositionError(f"{name}: alpha={alpha!r} must be between 0 and 1")


def decided(score: NDArray[np.float64], alpha: float) -> Callable[[NDArray[np.float64]], bool]:
    """Return what tells from draws, shape (n_drawn, n_features), whether further ones can change a decision at alpha.

    For every feature it is settled on which side of alpha its counted p-value is, but for a risk of 1e-3 (Gandy 2009).
    """
    bounds = Boundaries(alpha)
    return lambda null: bool(bounds.settled(exceeds(null, score)).all())


def against_draws(
    score: NDArray[np.float64], drawn: Replicates, rule: str, tail: str
) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Return what :func:`normalise` makes of scores and replicates under chance, and the details of the scores."""
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
    """Return scores freed of what chance gives each feature.

    Parameters
    ----------
    score : array of shape (n_features,)
    null : array of shape (n_replicates, n_features)
    rule : {"z", "ratio", "difference", "pvalue"}
        (v - mean v*) / sd v*; v / mean v*; v - mean v*; -log10 of the p-value.
    tail : {"empirical", "normal", "gamma"}
        Of the p-value.

    Returns
    -------
    array of shape (n_features,)
        Finite. A feature whose draws are all 0 (ratio) or all the same (z) counts as one draw itself, so that it has
        at most n + 1, or n / sqrt(n + 1); 0 if it does not differ from them.

    Raises
    ------
    DebiasError
        "ratio" of a score whose mean for noise is not clearly above 0.
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
    """Return P(v* >= v): counted, (1 + #) / (1 + n); or of a normal or gamma law fitted to the draws (Altmann 2010).

    Parameters
    ----------
    score, null, tail
        As for :func:`normalise`.

    Returns
    -------
    array of shape (n_features,)
        At least 1e-300. Features whose draws are all the same have the counted one.

    Raises
    ------
    DebiasError
        "gamma" of draws that are not all above 0.
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
    """Return tails of gamma laws fitted by maximum likelihood, with the origin at 0."""
    from scipy.optimize import brentq
    from scipy.special import digamma, gammaincc

    if (null[:, varies] <= 0).any():
        raise DebiasError("tail='gamma' is for scores above 0, but some of permuted responses are not; use 'normal'")
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
            f"rule='ratio' divides by the mean for noise, which for {int(unclear.sum())} of {null.shape[1]} features "
            "is not clearly above 0: use rule='z' or 'difference', or a score of impurity such as mdi"
        )
