"""P-values of estimates beyond a margin, by Student's t."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


def beyond(change: Array, margin: Array, error: Array, freedom: Array) -> Array:
    """Return p-values of the hypothesis that a change is within a margin: its largest probability is at the margin."""
    from scipy.stats import t

    # Both tails: far beyond a margin only the first counts, and with a margin of 0 this is the two-sided test.
    tails = [t.sf(_in_errors(np.abs(change) + side * margin, error), freedom) for side in (-1, 1)]
    return np.where(error > 0, np.minimum(tails[0] + tails[1], 1.0), 1.0)


def above(estimate: Array, limit: Array | float, error: Array, freedom: Array) -> Array:
    """Return p-values of the hypothesis that an estimate is at most a limit; 1 where the error is 0 or not known."""
    from scipy.stats import t

    return np.where(error > 0, t.sf(_in_errors(estimate - limit, error), freedom), 1.0)


def _in_errors(difference: Array, error: Array) -> Array:
    """Return a difference in standard errors, and 0 where the error is 0 or not known."""
    return np.divide(difference, error, out=np.zeros(np.shape(difference)), where=np.abs(error) > 0)
