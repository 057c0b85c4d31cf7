"""The mean slope of a loss between two outputs of a model, exactly.

The mean of -dL/dF over the straight line from one output to another, multiplied by the step, is the loss that the step
saves. For a loss of one output it is a quotient of differences, which is written here so that it keeps its digits for
steps of any size. The log-loss of several classes needs an integral.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.trees.objectives import LEAST_MARGIN, LOSSES, expit

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from debias.trees.objectives import Objective

    Array = NDArray[np.float64]

NODES = 24
"""Nodes of the Gauss-Legendre quadrature of a panel."""
PANEL = 7.0
"""Along a panel, the differences between the margins of classes change by at most this much. Then the integrand is
analytic and below 3.2 where its phases differ by less than 2.5: in the ellipse of Bernstein with rho = 1.94, up to an
imaginary part of 2.5 / 7. The error of the mean is below (32 / 15) * 3.2 * rho^-48 / (1 - rho^-2) < 2e-13 (Trefethen
2008, theorem 4.5)."""
EXPONENTIAL = 30.0
"""Over a longer step, the difference of two softpluses keeps its digits."""


def mean_slope(objective: Objective, y: Array, first: Array, last: Array) -> Array:
    """Return the mean of the negative gradient of the loss over the straight line between two outputs.

    Parameters
    ----------
    objective : Objective
        With a loss.
    y : array of shape (n_rows, n_outputs)
        As for ``Objective.loss``.
    first, last : array of shape (n_rows, n_outputs)

    Returns
    -------
    array of shape (n_rows, n_outputs)
        ``((last - first) * slope).sum(axis=1)`` is ``loss(y, first) - loss(y, last)``. Where the two outputs are equal,
        it is the negative gradient there. The squared error is not halved.

    Raises
    ------
    CompositionError
        The loss of a row is not known.
    """
    if not objective.has_loss:
        objective.loss(y, last)  # raises the error that says why
    if objective.name == "softmax":
        return y - _mean_softmax(first, last)
    parameter = np.asarray(objective.parameter)
    found: Array = _SLOPES[objective.name](y, np.minimum(first, last), np.maximum(first, last), parameter)
    return found


def y_as_predicted(objective: Objective, margin: Array) -> Array:
    """Return the response that the model expects: the one for which the slope of the loss is 0 at the margin.

    Parameters
    ----------
    objective : Objective
        With a loss.
    margin : array of shape (n_rows, n_outputs)

    Returns
    -------
    array of shape (n_rows, n_outputs)
        On the scale of `y` of ``Objective.loss``.
    """
    if objective.name in ("logistic", "softmax", "poisson", "gamma", "tweedie"):
        return objective.mean(margin)
    if objective.name == "exponential":
        return np.asarray(expit(2 * margin))
    if objective.name == "hinge":
        return (margin > 0).astype(np.float64)
    return np.maximum(margin, LEAST_MARGIN) if objective.name == "squared_log_error" else margin


# Each function takes the response, the lower and the upper end of the line, and the parameter of the loss.


def _absolute_error(y: Any, low: Any, high: Any, a: Any) -> Any:
    share = _share_below(y, low, high)
    return np.where((low == high) & (y == low), 0.0, 2 * share - 1)


def _quantile(y: Any, low: Any, high: Any, a: Any) -> Any:
    return _share_below(y, low, high) + a - 1


def _expectile(y: Any, low: Any, high: Any, a: Any) -> Any:
    knot, length = np.clip(y, low, high), high - low
    below = (knot - low) * (2 * y - low - knot) / 2
    above = (high - knot) * (high + knot - 2 * y) / 2
    return _per_length(a * below - (1 - a) * above, length, LOSSES["expectile"].response(y, low, a))


def _huber(y: Any, low: Any, high: Any, a: Any) -> Any:
    one, other = np.clip(y - a, low, high), np.clip(y + a, low, high)
    middle = (other - one) * (y - (one + other) / 2)
    return _per_length(a * (one - low) + middle - a * (high - other), high - low, np.clip(y - low, -a, a))


def _pseudo_huber(y: Any, low: Any, high: Any, a: Any) -> Any:
    one, other = (y - low) / a, (y - high) / a
    return a * (one + other) / (np.hypot(1, one) + np.hypot(1, other))


def _fair(y: Any, low: Any, high: Any, a: Any) -> Any:
    knot = np.clip(y, low, high)
    sides = [
        length - a * np.log1p(length / (a + np.abs(y - knot)))  # |r| / (|r| + a), from |r| to |r| + length
        for length in (knot - low, high - knot)
    ]
    return _per_length(a * (sides[0] - sides[1]), high - low, LOSSES["fair"].response(y, low, a))


def _squared_log_error(y: Any, low: Any, high: Any, a: Any) -> Any:
    begin, end = np.maximum(low, LEAST_MARGIN), np.maximum(high, LEAST_MARGIN)
    log_step = np.log1p((end - begin) / (1 + begin))
    mean_error = np.log1p(y) - np.log1p(begin) - log_step / 2
    return _per_length(mean_error * log_step, high - low, LOSSES["squared_log_error"].response(y, low, a))


def _hinge(y: Any, low: Any, high: Any, a: Any) -> Any:
    sign = 2 * y - 1
    return sign * _share_below(1.0, np.minimum(sign * low, sign * high), np.maximum(sign * low, sign * high))


def _logistic(y: Any, low: Any, high: Any, a: Any) -> Any:
    begin, step = np.minimum(a * low, a * high), np.abs(a * (high - low))
    short = np.log1p(expit(begin) * np.expm1(np.minimum(step, EXPONENTIAL)))  # log (1 + e^end) / (1 + e^begin)
    long = np.logaddexp(0.0, begin + step) - np.logaddexp(0.0, begin)
    return a * (y - _per_length(np.where(step < EXPONENTIAL, short, long), step, expit(begin)))


def _mean_exp(one: Any, other: Any) -> Any:
    """Return the mean of the exponential function between two numbers."""
    from scipy.special import exprel

    return np.exp(np.maximum(one, other)) * exprel(-np.abs(one - other))


def _tweedie(y: Any, low: Any, high: Any, a: Any) -> Any:
    return y * _mean_exp((1 - a) * low, (1 - a) * high) - _mean_exp((2 - a) * low, (2 - a) * high)


def _exponential(y: Any, low: Any, high: Any, a: Any) -> Any:
    # Linear in y, also between the two labels.
    return y * _mean_exp(-low, -high) - (1 - y) * _mean_exp(low, high)


def _share_below(y: Any, low: Any, high: Any) -> Any:
    """Return the share of the line that is below a response."""
    length = high - low
    return np.clip(_per_length(np.clip(y, low, high) - low, length, y > low), 0.0, 1.0)


def _per_length(integral: Any, length: Any, at_a_point: Any) -> Any:
    """Return the integral over the length; where that is 0, the value there."""
    known = np.broadcast_to(at_a_point, np.shape(integral)).astype(np.float64)
    return np.divide(integral, length, out=known, where=length > 0)


_SLOPES: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "squared_error": lambda y, low, high, a: (y - low) + (y - high),
    "logistic": _logistic,
    "absolute_error": _absolute_error,
    "quantile": _quantile,
    "expectile": _expectile,
    "huber": _huber,
    "pseudo_huber": _pseudo_huber,
    "fair": _fair,
    "absolute_percentage_error": lambda y, low, high, a: _absolute_error(y, low, high, a) / np.maximum(1, np.abs(y)),
    "squared_log_error": _squared_log_error,
    "poisson": lambda y, low, high, a: y - _mean_exp(low, high),
    "gamma": lambda y, low, high, a: y * _mean_exp(-low, -high) - 1,
    "tweedie": _tweedie,
    "hinge": _hinge,
    "exponential": _exponential,
}


def _mean_softmax(first: Array, last: Array) -> Array:
    """Return the mean of the shares of the classes between two rows of margins, shape (n_rows, n_classes)."""
    step = last - first
    n_panels = np.maximum(1, np.ceil(np.ptp(step, axis=1) / PANEL)).astype(np.int64) if len(step) else np.zeros(0)
    mean = np.empty_like(step)
    for number in np.unique(n_panels):
        at = n_panels == number
        nodes, weights = _panels(int(number))
        total = np.zeros((int(at.sum()), step.shape[1]))
        for u, weight in zip(nodes, weights, strict=True):
            margin = first[at] + u * step[at]
            shares = np.exp(margin - margin.max(axis=1, keepdims=True))
            total += weight * shares / shares.sum(axis=1, keepdims=True)
        mean[at] = total
    return mean


@cache
def _panels(number: int) -> tuple[list[float], list[float]]:
    """Return the nodes and weights of the quadrature from 0 to 1 in so many panels."""
    node, weight = np.polynomial.legendre.leggauss(NODES)
    begin = np.arange(number)[:, None]
    nodes = (begin + (node + 1) / 2) / number
    return nodes.ravel().tolist(), np.tile(weight / 2 / number, number).tolist()
