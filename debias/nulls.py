"""From null draws to decisions: p-values, adjusted p-values, when to stop drawing. Pure functions of arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

TIE = 1e-9
"""Values that differ by less, relatively, are equal up to rounding, and ties count against the feature."""


def exceeds(null: NDArray[np.float64], z: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return where null draws reach the observed values, up to rounding."""
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
    """Return p-values of draws that stopped, feature by feature, at the h-th exceedance (Besag and Clifford 1991).

    Parameters
    ----------
    z, null
        As for :func:`permutation_p_values`.
    h : int
        h / B_k if the h-th exceedance was draw B_k; (1 + #) / (1 + B) if there were fewer.

    Returns
    -------
    (p-values, number of draws each rests on), arrays of shape (n_features,)
    """
    count = exceeds(null, z).cumsum(axis=0)
    reached = count[-1] >= h
    n = np.where(reached, (count < h).sum(axis=0) + 1, len(null))
    return np.where(reached, h / n, (1 + count[-1]) / (1 + len(null))), n


def step_down_max(z: NDArray[np.float64], null: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return step-down max-z adjusted p-values: family-wise (Westfall and Young 1993, algorithm 4.1).

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
    """Return in each column the largest of it and the columns to its right."""
    return np.maximum.accumulate(null[:, ::-1], axis=1)[:, ::-1]


def holm(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Holm's (1979) adjusted p-values: family-wise under any dependence."""
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)), 1.0)
    return adjusted


def false_discovery(p: NDArray[np.float64], any_dependence: bool = False) -> NDArray[np.float64]:
    """Return Benjamini and Hochberg's (1995) adjusted p-values, or Benjamini and Yekutieli's (2001)."""
    order = np.argsort(p, kind="stable")
    factor = p.size / np.arange(1, p.size + 1) * ((1 / np.arange(1, p.size + 1)).sum() if any_dependence else 1.0)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.minimum.accumulate((p[order] * factor)[::-1])[::-1], 1.0)
    return adjusted


@dataclass(frozen=True, eq=False)
class Boundaries:
    """When the count of exceedances tells on which side of alpha a p-value lies (Gandy 2009).

    Parameters
    ----------
    lower, upper : array of int64 of shape (n_max,)
        After draw n a count of at most ``lower[n - 1]`` says p <= alpha, one of at least ``upper[n - 1]`` p > alpha.

    Notes
    -----
    For any p the probability ever to end on the wrong side, the resampling risk, is at most `risk`; half of it is for
    either side, spent as n / (1000 + n).
    """

    lower: NDArray[np.int64]
    upper: NDArray[np.int64]

    @classmethod
    def of(cls, alpha: float, n_max: int, risk: float = 1e-3) -> Boundaries:
        """Return the boundaries for up to `n_max` draws."""
        lower, upper = np.empty((2, n_max), dtype=np.int64)
        alive = np.zeros(n_max + 2)  # probability of each count, had p been alpha and no boundary been met
        alive[0] = 1.0
        below = above = 0.0
        for n in range(1, n_max + 1):
            alive[1:] = (1 - alpha) * alive[1:] + alpha * alive[:-1]
            alive[0] *= 1 - alpha
            spend = risk / 2 * n / (1000 + n)
            up = above + np.cumsum(alive[::-1])[::-1]  # alive[j] or more counted as met
            upper[n - 1] = int(np.argmax(up <= spend))
            above = float(up[upper[n - 1]])
            alive[upper[n - 1] :] = 0.0
            down = below + np.cumsum(alive)
            lower[n - 1] = int((down <= spend).sum()) - 1 if down[0] <= spend else -1
            if lower[n - 1] >= 0:
                below = float(down[lower[n - 1]])
                alive[: lower[n - 1] + 1] = 0.0
        return cls(lower, upper)

    def settled(self, exceeding: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return for each column of draws, shape (B, n_features), whether its side of alpha is settled."""
        count = exceeding.cumsum(axis=0)
        n = len(exceeding)
        met = (count <= self.lower[:n, None]) | (count >= self.upper[:n, None])
        return np.asarray(met.any(axis=0))


def mirrored_p_values(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return p-values against the non-positive scores and their mirror image (Janitza, Celik and Boulesteix 2018).

    Parameters
    ----------
    values : array of shape (n_features,)
        Scores whose distribution for noise is symmetric about 0 and the same for all features.

    Returns
    -------
    p_values : array of shape (n_features,)
        (1 + #{null >= v}) / (1 + size of the null), never 0.
    null : array
        The non-positive scores and, of the negative ones, the mirror image.
    """
    null = np.sort(np.concatenate([values[values <= 0], -values[values < 0]]))
    at_least = null.size - np.searchsorted(null, values - TIE * np.abs(values), side="left")
    return (1 + at_least) / (1 + null.size), null
