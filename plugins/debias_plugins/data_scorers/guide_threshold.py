"""GUIDE's threshold: which scores exceed the largest score that noise would have (Loh and Zhou 2020, section 6)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from debias.plugin import CompositionError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def critical_value(null: NDArray[np.float64], alpha: float) -> float:
    """Return the level that the largest score of noise exceeds with probability at most alpha.

    Parameters
    ----------
    null : array of shape (n_replicates, n_features)
        Scores of permuted responses.
    alpha : float

    Returns
    -------
    float
        The order statistic ceil((1 - alpha) (n + 1)) of the largest score of each replicate, which makes the level
        exact.
    """
    return float(np.sort(null.max(axis=1))[math.ceil((1 - alpha) * (len(null) + 1) - 1e-9) - 1])


def check_alpha(name: str, alpha: object, replicates: int) -> None:
    """Raise a CompositionError if alpha is too small for the number of replicates; `name` is for the message."""
    if not isinstance(alpha, (int, float)) or not 1 / (replicates + 1) <= alpha < 1:
        raise CompositionError(
            f"{name}: with {replicates} permuted responses alpha={alpha!r} must be from {1 / (replicates + 1):.3g} to "
            "below 1; increase replicates for a smaller alpha"
        )


def decide(
    importance: NDArray[np.float64],
    unadjusted: NDArray[np.float64],
    critical: float,
    at_level: Callable[[int], float] | None = None,
) -> tuple[NDArray[np.bool_], float]:
    """Return which features are important, and the threshold between them and the others.

    Parameters
    ----------
    importance, unadjusted : array of shape (n_features,)
        Scores of eq. 2 and eq. 1.
    critical : float
        Quantile of the largest unadjusted score of permuted responses.
    at_level : callable, optional
        Returns the importance that feature k would have if its unadjusted score were `critical`. Needed if the
        importance is not a ratio.

    Returns
    -------
    (array of bool of shape (n_features,), float)
        The m features with the largest importance, where m is the number of unadjusted scores above `critical`; and the
        value half-way between the m-th and the next importance. If m is 0 or all features, it is the importance that
        the largest, or the smallest, would have at `critical`.
    """
    m = int((unadjusted > critical).sum())
    order = np.argsort(-importance, kind="stable")
    important = np.zeros(importance.size, dtype=bool)
    important[order[:m]] = True
    if 0 < m < importance.size:
        return important, float(importance[order[m - 1 : m + 1]].mean())
    edge = int(order[0] if m == 0 else order[-1])
    if at_level is not None:
        return important, at_level(edge)
    own = float(unadjusted[edge])
    return important, float(importance[edge]) * (critical / own) if own > 0 else 0.0
