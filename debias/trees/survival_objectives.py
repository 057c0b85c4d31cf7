"""Objectives of times to an event: Cox's partial likelihood, which compares rows, and accelerated failure times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from debias.errors import CompositionError, RowsError, nearest
from debias.trees.objectives import ComparedBy, JointObjective, RowLoss

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


@dataclass(frozen=True)
class CoxObjective(JointObjective):
    """The partial likelihood of Cox's model; its gradient at a constant margin is the log-rank score of a row.

    The response is the martingale residual r_i = d_i - e^(m_i) H(t_i), where d_i is 1 for an event and 0 for a censored
    row, m_i is the margin, and H is Breslow's cumulative hazard of all evaluation rows: the sum, over the times t of
    events until t_i, of the weight of the events at t over the sum of weight times e^m of the rows at risk at t. If all
    margins are equal they cancel, and e^m H is the Nelson-Aalen estimate. The weighted sum of the responses is 0.

    Parameters
    ----------
    name : str
    signed : bool
        Whether y is one column of times, negative for censored rows (XGBoost, CatBoost). Otherwise it has two columns:
        the time, and 1 for an event or 0 for a censored row.

    Examples
    --------
    >>> import numpy as np
    >>> from debias.trees.survival_objectives import CoxObjective
    >>> y = np.array([[1.0], [2.0], [-3.0]])
    >>> CoxObjective().joint_response(y, np.zeros((3, 1)), np.ones(3), None).ravel().round(3)
    array([ 0.667,  0.167, -0.833])
    """

    name: str = "cox"
    signed: bool = True

    @property
    def n_response_columns(self) -> int:
        """Number of columns of y."""
        return 1 if self.signed else 2

    @property
    def columns_in_words(self) -> str | None:
        """What the columns of y are, for messages."""
        if self.signed:
            return None
        return (
            "a structured array with a boolean, True for an event, and a time, such as Surv.from_arrays of "
            "scikit-survival makes; or two columns, the time and 1 for an event or 0 for a censored row"
        )

    @property
    def compared_by(self) -> ComparedBy:
        """What has a loss: pairs of rows."""
        return "pairs"

    @property
    def instead_of_fields(self) -> str | None:
        """How to pass times and events in one column; None if y has two, which an array with fields gives too."""
        return ". For times and events, np.where(event, time, -time) makes them" if self.signed else None

    def check(self, y: Array) -> None:
        """Raise a RowsError if the second of two columns is not 0 or 1, or the first has negative times."""
        if self.signed:
            return
        if not np.isin(y[:, 1], (0, 1)).all():
            raise RowsError(
                "y must have the time in its first column, and 1 for an event or 0 for a censored row in its second"
            )
        if (y[:, 0] < 0).any():
            raise RowsError(f"y has negative times, the first at position {np.flatnonzero(y[:, 0] < 0)[0]}")

    @property
    def predicts_risk(self) -> bool:
        """Whether the output is a risk: the log of a hazard, up to a constant."""
        return True

    def time_bounds(self, y: Array) -> tuple[Array, Array]:
        """Return the time of each row twice if it had an event then, and infinity as the upper bound if not."""
        time, event = self.times_and_events(y)
        return time, np.where(event, time, np.inf)

    def times_and_events(self, y: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Return the time of each row, and whether it had an event then or was censored."""
        return (np.abs(y[:, 0]), y[:, 0] > 0) if self.signed else (y[:, 0], y[:, 1] > 0)

    def joint_response(self, y: Array, margin: Array, weight: Array, query: NDArray[np.int64] | None) -> Array:
        """See :class:`debias.trees.objectives.JointObjective`."""
        time, event = self.times_and_events(y)
        if not (event & (weight > 0)).any():
            censored = "negative y are censored" if self.signed else "all are censored"
            raise RowsError(f"none of these rows has an event ({censored}), so nothing can be told: pass more rows")
        hazard = np.exp(margin[:, 0] - margin.max())
        return (event - hazard * cumulative_hazard(time, event, weight, weight * hazard))[:, None]


def cumulative_hazard(time: Array, event: NDArray[np.bool_], weight: Array, at_risk: Array) -> Array:
    """Return Breslow's cumulative hazard at the time of each row; with ``at_risk=weight`` it is that of Nelson-Aalen.

    Parameters
    ----------
    time : array of shape (n_rows,)
    event : array of bool of shape (n_rows,)
        False for rows that were censored at this time.
    weight : array of shape (n_rows,)
        What a row counts as an event.
    at_risk : array of shape (n_rows,)
        What a row counts among the rows at risk: those with a time not before that of an event.
    """
    times, number = np.unique(time, return_inverse=True)
    events = np.bincount(number, weights=weight * event, minlength=times.size)
    leaving = np.bincount(number, weights=at_risk, minlength=times.size)
    remaining = np.cumsum(leaving[::-1])[::-1]
    steps = np.divide(events, remaining, out=np.zeros_like(events), where=events > 0)
    hazard: Array = np.cumsum(steps)[number]
    return hazard


LARGEST_GRADIENT = 15.0
"""XGBoost keeps gradients within this distance of 0."""
FARTHEST = 500.0
"""Standardised times are kept within this distance of 0, so that nothing overflows."""
LARGEST_LOSS = float(-np.log(1e-12))
"""XGBoost's metric counts densities and probabilities as this at least, so that one row does not decide a mean."""
CONSTANTS = 256
"""Number of constants that are tried."""


@dataclass(frozen=True)
class AftObjective(RowLoss):
    """Accelerated failure time: log(T) = margin + scale Z. The response has a lower and an upper bound of T.

    Equal bounds: the event was at this time. An infinite upper bound: the row was censored at the lower bound. A lower
    bound of 0: the event was before the upper bound. The loss is minus the log of the density of T, or of the
    probability of the interval, and each row has a gradient of its own: the derivative with respect to the margin
    (Barnwal, Cho and Hocking 2022, Journal of Computational and Graphical Statistics 31, 1292-1302).

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
    >>> from debias.trees.survival_objectives import AftObjective
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
    def metric(self) -> str:
        """Name of the loss, for readers."""
        return "negative log likelihood"

    @property
    def no_loss(self) -> str:
        """Why the running loss is not computed."""
        return "debias does not compute the running loss of accelerated failure times"

    @property
    def n_response_columns(self) -> int:
        """Number of columns of y: two, the bounds."""
        return 2

    @property
    def columns_in_words(self) -> str | None:
        """What the columns of y are, for messages."""
        return "a lower and an upper bound of the time: equal if it is known, infinity above if the row is censored"

    @property
    def may_be_infinite(self) -> bool:
        """Whether values of y may be infinite: upper bounds of censored rows are."""
        return True

    def target_of(self, numbers: Array, n_outputs: int) -> Array:
        """Return y with its own columns, the bounds."""
        self.check(numbers)
        return numbers

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
        low, high = self._standardised(y, margin, of.largest)
        open_start, open_end = y[:, 0] == 0, np.isinf(y[:, 1])
        is_exact = (low == high) & ~open_start & ~open_end  # or so far from the margin that the bounds are as one
        log_share = _log_share(of, low, np.where(is_exact, low + 1, high), open_start, open_end)
        at_low = np.where(open_start, 0.0, np.exp(np.minimum(of.log_density(low) - log_share, FARTHEST)))
        at_high = np.where(open_end, 0.0, np.exp(np.minimum(of.log_density(high) - log_share, FARTHEST)))
        slope = np.where(is_exact, -of.slope(low), at_low - at_high)
        return np.clip(slope / scale, -LARGEST_GRADIENT, LARGEST_GRADIENT)[:, None]

    def loss(self, y: Array, margin: Array) -> Array:
        """Return the loss of each row, shape (n_rows,): what XGBoost's metric ``aft-nloglik`` is the mean of.

        It is minus the log of the density of T or of the probability of the interval, and like in XGBoost at most
        27.6, minus the log of 1e-12.
        """
        of, scale = DISTRIBUTIONS[self.distribution], self.parameter[0]
        low, high = self._standardised(y, margin, FARTHEST)
        open_start, open_end, is_exact = y[:, 0] == 0, np.isinf(y[:, 1]), y[:, 0] == y[:, 1]
        log_share = _log_share(of, low, np.where(is_exact, low + 1, high), open_start, open_end)
        log_density = of.log_density(low) - np.log(scale) - np.log(np.where(is_exact, y[:, 0], 1.0))
        return np.minimum(-np.where(is_exact, log_density, log_share), LARGEST_LOSS)

    def least_loss(self, y: Array) -> Array:
        """Return the loss of each row at the best prediction for it alone, shape (n_rows,)."""
        lower, upper, scale = y[:, 0], y[:, 1], self.parameter[0]
        is_open = (lower == 0) | np.isinf(upper)
        log_lower = np.log(np.where(is_open, 1.0, lower))
        width = (np.log(np.where(is_open, 1.0, upper)) - log_lower) / scale
        # The densities at both ends of the best interval are equal. The mode of all distributions is 0.
        low = -width / 2
        if self.distribution == "extreme":
            low = np.log(np.divide(width, np.expm1(width), out=np.ones_like(width), where=width > 0))
        at_best = self.loss(y, (log_lower - scale * low)[:, None])
        return np.where(is_open, 0.0, at_best)

    def best_constant(self, y: Array, weight: Array) -> Array:
        """Return the constant margin with the least weighted loss, shape (1,).

        The loss is not convex where it is at its largest, so the best of many constants is improved.
        """
        from scipy.optimize import minimize_scalar

        bounds = y[(weight > 0)[:, None] & (y > 0) & np.isfinite(y)]
        reach = 10 * self.parameter[0]
        constants = np.linspace(np.log(bounds.min()) - reach, np.log(bounds.max()) + reach, CONSTANTS)

        def loss(constant: float) -> float:
            return float(np.sum(weight * self.loss(y, np.full((len(y), 1), constant))))

        best = int(np.argmin([loss(constant) for constant in constants]))
        around = constants[[max(best - 1, 0), min(best + 1, CONSTANTS - 1)]]
        found = minimize_scalar(loss, bounds=around, method="bounded", options={"xatol": 1e-10})
        return np.array([min((constants[best], float(found.x)), key=loss)])

    def _standardised(self, y: Array, margin: Array, largest: float) -> tuple[Array, Array]:
        """Return both bounds of Z, between -FARTHEST and `largest`."""
        with np.errstate(divide="ignore"):  # the log of a lower bound of 0
            z = (np.log(y) - np.broadcast_to(margin, (len(y), 1))) / self.parameter[0]
        low, high = np.clip(z, -FARTHEST, largest).T
        return low, high

    def time_bounds(self, y: Array) -> tuple[Array, Array]:
        """Return the two columns of y."""
        return y[:, 0], y[:, 1]

    def risk(self, margin: Array) -> Array:
        """Return minus the margin, which is the log of a time."""
        return -margin[:, 0]

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
