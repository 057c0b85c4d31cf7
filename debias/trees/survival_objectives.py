"""The loss of accelerated failure times, whose response is an interval: exact, censored or unknown between bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from debias.errors import CompositionError, RowsError, nearest
from debias.trees.objectives import WithoutLoss

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

LARGEST_GRADIENT = 15.0
"""XGBoost keeps gradients within this distance of 0."""
FARTHEST = 500.0
"""Standardised times are kept within this distance of 0, so that nothing overflows."""


@dataclass(frozen=True)
class AftObjective(WithoutLoss):
    """Accelerated failure time: log(T) = margin + scale Z. The response has a lower and an upper bound of T.

    Equal bounds: the event was at this time. An infinite upper bound: the row was censored at the lower bound. A lower
    bound of 0: the event was before the upper bound. The loss is minus the log of the density of T, or of the
    probability of the interval, and each row has a gradient of its own: the derivative with respect to the margin.

    Parameters
    ----------
    name : str
    parameter : tuple of float
        The scale.
    distribution : {"normal", "logistic", "extreme"}
        Distribution of Z, as XGBoost calls it.

    Raises
    ------
    CompositionError
        There is no such distribution.

    Examples
    --------
    >>> import numpy as np
    >>> from debias.trees.interval_objective import AftObjective
    >>> y = np.array([[1.0, 1.0], [np.e, np.e], [1.0, np.inf]])
    >>> AftObjective().response(y, np.zeros((3, 1))).ravel().round(3)
    array([0.   , 1.   , 0.798])
    """

    name: str = "aft"
    distribution: str = "normal"

    def __post_init__(self) -> None:
        if self.distribution not in DISTRIBUTIONS:
            raise CompositionError(
                f"there is no distribution {self.distribution!r}.{nearest(self.distribution, [*DISTRIBUTIONS])} There "
                f"are: {', '.join(DISTRIBUTIONS)}"
            )

    @property
    def no_loss(self) -> str:
        """Why the running loss is not computed."""
        return "debias does not compute the loss of accelerated failure times"

    @property
    def n_response_columns(self) -> int:
        """Number of columns of y: two, the bounds."""
        return 2

    @property
    def columns_in_words(self) -> str | None:
        """What the columns of y are, for messages."""
        return "a lower and an upper bound of the time: equal if it is known, infinity above if the row is censored"

    def check(self, y: Array) -> None:
        """Raise a RowsError if a row has no interval of times."""
        lower, upper = y[:, 0], y[:, 1]
        wrong = np.flatnonzero(~((lower >= 0) & np.isfinite(lower) & (upper >= lower) & (upper > 0)))
        if wrong.size:
            raise RowsError(
                "y must have a lower bound of 0 or more in its first column, and in its second an upper bound that is "
                f"not smaller (infinite for a censored row). {wrong.size} rows have other bounds, the first at "
                f"position {wrong[0]}: {lower[wrong[0]]:g} and {upper[wrong[0]]:g}"
            )

    def response(self, y: Array, margin: Array) -> Array:
        """Return the negative gradient, of shape (n_rows, 1), within +-15; `y` has shape (n_rows, 2)."""
        of, scale = DISTRIBUTIONS[self.distribution], self.parameter[0]
        margin = np.broadcast_to(margin, (len(y), 1))
        with np.errstate(divide="ignore"):  # the log of a lower bound of 0
            low, high = np.clip((np.log(y) - margin) / scale, -FARTHEST, of.largest).T
        open_start, open_end = y[:, 0] == 0, np.isinf(y[:, 1])
        is_exact = (low == high) & ~open_start & ~open_end  # or so far from the margin that the bounds are as one
        log_share = _log_share(of, low, np.where(is_exact, low + 1, high), open_start, open_end)
        at_low = np.where(open_start, 0.0, np.exp(np.minimum(of.log_density(low) - log_share, FARTHEST)))
        at_high = np.where(open_end, 0.0, np.exp(np.minimum(of.log_density(high) - log_share, FARTHEST)))
        slope = np.where(is_exact, -of.slope(low), at_low - at_high)
        return np.clip(slope / scale, -LARGEST_GRADIENT, LARGEST_GRADIENT)[:, None]

    def mean(self, margin: Array) -> Array:
        """Return the prediction of XGBoost at a margin: exp(margin)."""
        return np.exp(margin)


class Distribution(NamedTuple):
    """Logs of density, distribution function and survival function, and the derivative of the log density.

    `largest` is the value from which on gradients are clipped, or do not change in float64.
    """

    log_density: Callable[[Any], Any]
    log_below: Callable[[Any], Any]
    log_above: Callable[[Any], Any]
    slope: Callable[[Any], Any]
    largest: float


def _log_share(of: Distribution, low: Array, high: Array, open_start: Any, open_end: Any) -> Array:
    """Return the log of the probability between two values, from the tail in which no digits are lost."""
    above = low > 0
    larger = np.where(above, of.log_above(low), of.log_below(high))
    smaller = np.where(above, of.log_above(high), of.log_below(low))
    with np.errstate(divide="ignore"):  # bounds that are equal in float64: the gradient is clipped
        between = larger + np.log(-np.expm1(np.minimum(smaller - larger, 0.0)))
    share: Array = np.where(open_end, of.log_above(low), np.where(open_start, of.log_below(high), between))
    return share


def _log_normal_below(z: Any) -> Any:
    from scipy.special import log_ndtr

    return log_ndtr(z)


DISTRIBUTIONS = {
    "normal": Distribution(
        lambda z: -(z**2) / 2 - np.log(2 * np.pi) / 2,
        _log_normal_below,
        lambda z: _log_normal_below(-z),
        lambda z: -z,
        FARTHEST,
    ),
    "logistic": Distribution(
        lambda z: -np.abs(z) - 2 * np.log1p(np.exp(-np.abs(z))),
        lambda z: -np.logaddexp(0.0, -z),
        lambda z: -np.logaddexp(0.0, z),
        lambda z: -np.tanh(z / 2),
        FARTHEST,
    ),
    "extreme": Distribution(
        lambda z: z - np.exp(z),
        lambda z: np.log(-np.expm1(-np.exp(z))),
        lambda z: -np.exp(z),
        lambda z: 1 - np.exp(z),
        20.0,
    ),
}
