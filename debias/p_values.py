"""P-values from null draws, adjusted p-values, and the rule when to stop drawing. Pure functions of arrays."""

from __future__ import annotations

from functools import lru_cache, partial
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

TIE = 1e-9
"""Values with a relative difference below this are equal up to rounding. Ties count against the feature."""


def exceeds(null: NDArray[np.float64], z: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return where null draws reach the observed values, up to rounding.

    Parameters
    ----------
    null : array of shape (B, n_features)
    z : array of shape (n_features,)

    Returns
    -------
    array of bool of shape (B, n_features)
    """
    return null >= z - TIE * np.abs(z)


def permutation_p_values(z: NDArray[np.float64], null: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (1 + #{z* >= z}) / (1 + B), never 0 (Phipson and Smyth 2010).

    Parameters
    ----------
    z : array of shape (n_features,)
    null : array of shape (B, n_features)

    Returns
    -------
    array of shape (n_features,)
    """
    p: NDArray[np.float64] = (1 + exceeds(null, z).sum(axis=0)) / (1 + len(null))
    return p


def sequential_p_values(
    z: NDArray[np.float64], null: NDArray[np.float64], h: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return p-values where the draws of each feature stop at its h-th exceedance (Besag and Clifford 1991).

    Parameters
    ----------
    z, null
        As for :func:`permutation_p_values`.
    h : int
        The p-value is h / B_k if draw B_k was the h-th exceedance, and (1 + #) / (1 + B) if there were fewer than h.

    Returns
    -------
    p_values : array of shape (n_features,)
    n_draws : array of int64 of shape (n_features,)
        Number of draws that each p-value uses.
    """
    count = exceeds(null, z).cumsum(axis=0)
    reached = count[-1] >= h
    n = np.where(reached, (count < h).sum(axis=0) + 1, len(null))
    return np.where(reached, h / n, (1 + count[-1]) / (1 + len(null))), n


def pooled_p_values(z: NDArray[np.float64], null: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return p-values from the null draws of all features together, each divided by the spread of its own feature.

    With few draws and many features this gives p-values far below 1 / (1 + B). The spread is that of the draws and the
    observed value together, so that under the null hypothesis the observed value is one of B + 1 equal ones. P-values
    are averages over features: they are right for each feature if the null distributions differ in scale only.

    Parameters
    ----------
    z, null
        As for :func:`permutation_p_values`.

    Returns
    -------
    array of shape (n_features,)
        1 for features whose draws are never above 0.
    """
    scale = np.sqrt((np.maximum(np.vstack([z, null]), 0.0) ** 2).mean(axis=0))
    varies = (null > 0).any(axis=0)
    p = np.ones(z.size)
    if varies.any():
        pool = np.sort((null[:, varies] / scale[varies]).ravel())
        observed = z[varies] / scale[varies]
        reached = pool.size - np.searchsorted(pool, observed - TIE * np.abs(observed), side="left")
        p[varies] = (1 + reached) / (1 + pool.size)
    return p


def step_down_max(z: NDArray[np.float64], null: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return step-down max-z adjusted p-values, which control the family-wise error rate.

    This is algorithm 4.1 of Westfall and Young (1993).

    Parameters
    ----------
    z, null
        As for :func:`permutation_p_values`.

    Returns
    -------
    array of shape (n_features,)
    """
    order = np.argsort(-z, kind="stable")
    p = permutation_p_values(z[order], successive_max(null[:, order]))
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(p)
    return adjusted


def successive_max(null: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return, for each column, the row-wise maximum over this column and the columns to its right."""
    return np.maximum.accumulate(null[:, ::-1], axis=1)[:, ::-1]


def holm(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Holm's (1979) adjusted p-values: family-wise under any dependence.

    Parameters
    ----------
    p : array of shape (n_features,)

    Returns
    -------
    array of shape (n_features,)
    """
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)), 1.0)
    return adjusted


def holm_of_known(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Holm's adjusted p-values of those that are known, over all of them; NaN for the others.

    Parameters
    ----------
    p : array of any shape
    """
    adjusted, known = np.full(p.shape, np.nan), ~np.isnan(p)
    adjusted[known] = holm(p[known])
    return adjusted


def passed_on(p: NDArray[np.float64], alpha: float) -> NDArray[np.bool_]:
    """Return which hypotheses are rejected if alpha is divided evenly, and passes on from those that are rejected.

    What a rejected one had goes to the next one that is not rejected, and after the last to the first. This fallback
    procedure (Wiens and Dmitrienko 2005), as a graph (Bretz, Maurer, Brannath and Posch 2009), is family-wise under any
    dependence.

    Parameters
    ----------
    p : array of shape (n_hypotheses,)
        In the order in which alpha passes on.
    alpha : float

    Returns
    -------
    array of bool of shape (n_hypotheses,)
    """
    share, is_open = np.full(p.size, alpha / max(p.size, 1)), np.ones(p.size, dtype=bool)
    while (found := np.flatnonzero(is_open & (p <= share))).size:
        is_open[found[0]] = False
        rest = np.flatnonzero(is_open)
        if rest.size:
            share[rest[np.searchsorted(rest, found[0]) % rest.size]] += share[found[0]]
    return ~is_open


def false_discovery(p: NDArray[np.float64], any_dependence: bool = False) -> NDArray[np.float64]:
    """Return Benjamini and Hochberg's (1995) adjusted p-values, or Benjamini and Yekutieli's (2001).

    Parameters
    ----------
    p : array of shape (n_features,)
    any_dependence : bool
        True: Benjamini and Yekutieli's, which hold under any dependence.

    Returns
    -------
    array of shape (n_features,)
    """
    order = np.argsort(p, kind="stable")
    factor = p.size / np.arange(1, p.size + 1) * ((1 / np.arange(1, p.size + 1)).sum() if any_dependence else 1.0)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.minimum.accumulate((p[order] * factor)[::-1])[::-1], 1.0)
    return adjusted


ADJUSTMENTS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "fwer": holm,
    "fdr": false_discovery,
    "fdr_by": partial(false_discovery, any_dependence=True),
}
"""How p-values are adjusted for each error rate; see :func:`adjusted`."""


def adjusted(p: NDArray[np.float64], error: str, testable: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return p-values adjusted for the number of features that can be tested.

    Parameters
    ----------
    p : array of shape (n_features,)
    error : {"fwer", "fdr", "fdr_by"}
        Family-wise error rate (Holm), or false discovery rate (Benjamini and Hochberg, Benjamini and Yekutieli).
    testable : array of bool of shape (n_features,)
        Whether a feature could have a small p-value with other responses. A feature on which the model does not split
        cannot: it has p = 1, and is no test.

    Returns
    -------
    array of shape (n_features,)
        1 where a feature cannot be tested.

    Examples
    --------
    >>> import numpy as np
    >>> adjusted(np.array([0.02, 0.5, 1.0]), "fwer", np.array([True, True, False]))
    array([0.04, 0.5 , 1.  ])
    """
    of_all = np.ones(p.size)
    of_all[testable] = ADJUSTMENTS[error](p[testable])
    return of_all


def adjusted_by_draws(
    p: NDArray[np.float64], error: str, z: NDArray[np.float64], null: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Do the same with null draws: the family-wise error rate is that of step-down max-z.

    Parameters
    ----------
    p, error
        As for :func:`adjusted`.
    z, null
        As for :func:`permutation_p_values`. A feature can be tested if any of its values is not 0.

    Returns
    -------
    array of shape (n_features,)
    """
    testable = (z != 0) | (null != 0).any(axis=0)
    if error != "fwer":
        return adjusted(p, error, testable)
    of_all = np.ones(p.size)
    of_all[testable] = step_down_max(z[testable], null[:, testable])
    return of_all


def p_of_mean_below(
    t: NDArray[np.float64] | float, freedom: NDArray[np.float64] | float, skewness: NDArray[np.float64] | float
) -> NDArray[np.float64]:
    """Return one-sided p-values of means below 0, by Student's t corrected for skewness (Hall 1992).

    With a long right tail, samples without values from it have a mean that is too low and a standard error that is too
    small. The correction is made where it makes the test stricter.

    Parameters
    ----------
    t : array or float
        Means over their standard errors.
    freedom : array or float
        Degrees of freedom.
    skewness : array or float
        Of the means: that of a unit over the root of their number.

    Returns
    -------
    array
    """
    from scipy.special import stdtr

    a = np.maximum(skewness, 0.0)
    known = np.where(np.isfinite(t), t, 0.0)
    corrected = known + a * known**2 / 3 + a**2 * known**3 / 27 + a / 6
    # Beyond the range in which the correction holds, it would make p-values smaller.
    p_value: NDArray[np.float64] = stdtr(freedom, np.where(np.isfinite(t), np.maximum(corrected, known), t))
    return p_value


def log_bayes_factor(
    t: NDArray[np.float64],
    freedom: NDArray[np.float64] | float,
    variance: NDArray[np.float64] | float,
    prior: float,
    upward: bool = False,
) -> NDArray[np.float64]:
    """Return the logarithm of the Bayes factor of a t statistic, against no difference (Gönen et al. 2005).

    For normal units and a fixed `prior`, 1 / factor is a p-value that holds at any look (Ville 1939).

    Parameters
    ----------
    t : array
        The difference of two means over its standard error with a pooled variance.
    freedom : array or float
        Its degrees of freedom.
    variance : array or float
        Variance of the difference of the means if a unit has variance 1.
    prior : float
        Variance of the true difference in the same unit, under the alternative: normal about 0.
    upward : bool
        Whether the alternative is an increase only: the upper half of this normal distribution.

    Returns
    -------
    array
    """
    from scipy.special import stdtr

    c = variance / (variance + prior)
    squared = t**2 / freedom
    both: NDArray[np.float64] = 0.5 * np.log(c) + (freedom + 1) / 2 * (np.log1p(squared) - np.log1p(c * squared))
    if not upward:
        return both
    # Twice the probability of an increase after the data, which is that of Student's t.
    above = stdtr(freedom + 1, t * np.sqrt((1 - c) * (freedom + 1) / (freedom + c * t**2)))
    return both + np.log(2 * np.maximum(above, 1e-300))


@lru_cache(maxsize=16)
def boundaries(alpha: float, n_draws: int, risk: float) -> Boundaries:
    """Return :class:`Boundaries`, made once: they take as long as a small test."""
    return Boundaries(alpha, n_draws, risk)


class Boundaries:
    """Boundaries for the count of exceedances that show how all draws will decide: curtailed sampling.

    All draws reject if ``(1 + count) / (1 + n_draws) <= alpha``. Given its p-value, the draws of a feature are
    independent, so the probability that a count meets a boundary and all draws decide otherwise is known for every
    p-value. The boundaries are as narrow as a bound for the largest of these probabilities allows.

    Parameters
    ----------
    alpha : float
    n_draws : int
        Number of all draws.
    risk : float
        The resampling risk: for any p-value, the probability that all draws would decide otherwise is at most this.
        Each side gets half of the risk. After n draws, n / n_draws of it may be spent.
    """

    def __init__(self, alpha: float, n_draws: int, risk: float = 2e-3) -> None:
        self.n_draws, self.risk = n_draws, risk
        self._most = int(alpha * (1 + n_draws) + 1e-9) - 1  # the largest count of all draws that rejects; -1: none
        # P-values on a scale on which the error of a share of all draws is the same everywhere, a quarter of this error
        # apart. Four errors away from alpha a wrong decision is far less likely than next to it.
        angles = np.arcsin(np.sqrt(alpha)) + np.arange(-16, 17) / (8 * np.sqrt(n_draws))
        self._p: NDArray[np.float64] = np.sin(np.clip(angles, 0.0, np.pi / 2)) ** 2
        self._below: NDArray[np.float64] = np.zeros_like(self._p)  # risk spent on each side
        self._above: NDArray[np.float64] = np.zeros_like(self._p)
        self._lock = Lock()
        self._lower: list[int] = []
        self._upper: list[int] = []
        self._first = 0  # the smallest count that has met no boundary
        self._law: NDArray[np.float64] = np.ones((self._p.size, 1))  # probabilities of the counts from there on

    def upto(self, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the lower and upper boundaries of the first n draws, each of shape (n,).

        After draw m, a count of at most ``lower[m - 1]`` shows that all draws reject, and a count of at least
        ``upper[m - 1]`` shows that they do not.
        """
        with self._lock:
            while len(self._lower) < n:
                self._extend()
        return np.array(self._lower[:n], dtype=np.int64), np.array(self._upper[:n], dtype=np.int64)

    def settled(self, exceeding: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return, for each column of draws of shape (n, n_features), whether its decision is settled.

        The decision of these n draws is then that of all draws. Nothing is settled before all draws if these are so
        few that they reject nothing.
        """
        n = len(exceeding)
        if n >= self.n_draws or self._most < 0:
            return np.full(exceeding.shape[1], n >= self.n_draws)
        lower, upper = self.upto(n)
        count = exceeding.sum(axis=0)
        return np.asarray((count <= lower[-1]) | (count >= upper[-1]))

    def _extend(self) -> None:
        """Add one draw, and move the boundaries inwards as far as the risk that may be spent by now allows."""
        n, p = len(self._lower) + 1, self._p[:, None]
        law = np.zeros((self._p.size, self._law.shape[1] + 1))
        law[:, :-1] = (1 - p) * self._law
        law[:, 1:] += p * self._law
        allowed, begin, end = self.risk / 2 * n / self.n_draws, 0, law.shape[1]
        while begin < end:
            below = self._below + law[:, begin] * (1 - self._rejecting(n, self._first + begin))
            if (below > allowed).any():
                break
            self._below, begin = below, begin + 1
        while begin < end:
            above = self._above + law[:, end - 1] * self._rejecting(n, self._first + end - 1)
            if (above > allowed).any():
                break
            self._above, end = above, end - 1
        self._lower.append(self._first + begin - 1)
        self._upper.append(self._first + end)
        self._first += begin
        self._law = law[:, begin:end]

    def _rejecting(self, n: int, count: int) -> NDArray[np.float64]:
        """Return the probability that all draws reject after this count of n draws, for each p-value."""
        from scipy.special import bdtr

        if count > self._most:
            return np.zeros_like(self._p)
        rejecting: NDArray[np.float64] = bdtr(self._most - count, self.n_draws - n, self._p)
        return rejecting


def mirrored_p_values(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return p-values from the non-positive scores and their mirror image (Janitza, Celik and Boulesteix 2018).

    Parameters
    ----------
    values : array of shape (n_features,)
        Scores whose distribution for noise is symmetric about 0 and the same for all features.

    Returns
    -------
    p_values : array of shape (n_features,)
        (1 + #{null >= v}) / (1 + size of the null), never 0.
    null : array
        The non-positive scores, and the mirror image of the negative scores.
    """
    null = np.sort(np.concatenate([values[values <= 0], -values[values < 0]]))
    at_least = null.size - np.searchsorted(null, values - TIE * np.abs(values), side="left")
    return (1 + at_least) / (1 + null.size), null
