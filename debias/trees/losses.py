"""The losses of one margin: their formulas, with gradients, curvatures and the responses they are defined for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Loss(NamedTuple):
    """A loss of one margin, and what belongs to it; each function takes the response, the margin and the parameter."""

    code: int
    loss: Callable[[Any, Any, Any], Any]
    response: Callable[[Any, Any, Any], Any]
    curvature: Callable[[Any, Any, Any], Any]
    domain: tuple[float, float] = (-np.inf, np.inf)


def expit(x: Any) -> Any:
    """Return 1 / (1 + exp(-x))."""
    return np.exp(-np.logaddexp(0.0, -x))


def _logistic_density(x: Any) -> Any:
    """Return expit(x) expit(-x), with one exponential and no loss of digits far out."""
    below = np.exp(-np.abs(x))
    return below / (1 + below) ** 2


def _one(y: Any, f: Any, a: Any) -> Any:
    return np.ones_like(f)


def _huber(y: Any, f: Any, a: Any) -> Any:
    r = np.abs(y - f)
    return np.where(r <= a, r**2 / 2, a * (r - a / 2))


def _log1p(f: Any) -> Any:
    """Log of one more than a margin, which XGBoost keeps above -1."""
    return np.log1p(np.maximum(f, _ABOVE_MINUS_1))


_ABOVE_MINUS_1 = -1 + 1e-6
LOSSES = {
    "squared_error": Loss(0, lambda y, f, a: (y - f) ** 2, lambda y, f, a: y - f, _one),
    "logistic": Loss(
        1,
        lambda y, f, a: np.logaddexp(0.0, a * f) - y * a * f,
        lambda y, f, a: a * (y - expit(a * f)),
        lambda y, f, a: a**2 * _logistic_density(a * f),
        (0.0, 1.0),
    ),
    "absolute_error": Loss(3, lambda y, f, a: np.abs(y - f), lambda y, f, a: np.sign(y - f), _one),
    "quantile": Loss(
        4,
        lambda y, f, a: np.where(y > f, a * (y - f), (1 - a) * (f - y)),
        lambda y, f, a: np.where(y > f, a, a - 1),
        _one,
    ),
    "expectile": Loss(
        5,
        lambda y, f, a: np.where(y > f, a, 1 - a) * (y - f) ** 2 / 2,
        lambda y, f, a: np.where(y > f, a, 1 - a) * (y - f),
        lambda y, f, a: np.where(y > f, a, 1 - a),
    ),
    "huber": Loss(6, _huber, lambda y, f, a: np.clip(y - f, -a, a), _one),
    "pseudo_huber": Loss(
        7,
        lambda y, f, a: a**2 * (np.sqrt(1 + ((y - f) / a) ** 2) - 1),
        lambda y, f, a: (y - f) / np.sqrt(1 + ((y - f) / a) ** 2),
        lambda y, f, a: (1 + ((y - f) / a) ** 2) ** -1.5,
    ),
    "fair": Loss(
        8,
        lambda y, f, a: a * np.abs(y - f) - a**2 * np.log1p(np.abs(y - f) / a),
        lambda y, f, a: a * (y - f) / (np.abs(y - f) + a),
        lambda y, f, a: (a / (np.abs(y - f) + a)) ** 2,
    ),
    "absolute_percentage_error": Loss(
        9,
        lambda y, f, a: np.abs(y - f) / np.maximum(1, np.abs(y)),
        lambda y, f, a: np.sign(y - f) / np.maximum(1, np.abs(y)),
        _one,
    ),
    "squared_log_error": Loss(
        10,
        lambda y, f, a: (np.log1p(y) - _log1p(f)) ** 2 / 2,
        lambda y, f, a: (np.log1p(y) - _log1p(f)) / (1 + np.maximum(f, _ABOVE_MINUS_1)),
        lambda y, f, a: np.maximum(
            (np.log1p(y) - _log1p(f) + 1) / (1 + np.maximum(f, _ABOVE_MINUS_1)) ** 2,
            1e-6,
        ),
        (_ABOVE_MINUS_1, np.inf),
    ),
    "poisson": Loss(
        11,
        lambda y, f, a: np.exp(f) - y * f,
        lambda y, f, a: y - np.exp(f),
        lambda y, f, a: np.exp(f + a),
        (0.0, np.inf),
    ),
    "gamma": Loss(
        12,
        lambda y, f, a: y * np.exp(-f) + f,
        lambda y, f, a: y * np.exp(-f) - 1,
        lambda y, f, a: y * np.exp(-f),
        (0.0, np.inf),
    ),
    "tweedie": Loss(
        13,
        lambda y, f, a: np.exp((2 - a) * f) / (2 - a) - y * np.exp((1 - a) * f) / (1 - a),
        lambda y, f, a: y * np.exp((1 - a) * f) - np.exp((2 - a) * f),
        lambda y, f, a: (2 - a) * np.exp((2 - a) * f) - (1 - a) * y * np.exp((1 - a) * f),
        (0.0, np.inf),
    ),
    "hinge": Loss(
        14,
        lambda y, f, a: np.maximum(0.0, 1 - (2 * y - 1) * f),
        lambda y, f, a: np.where((2 * y - 1) * f < 1, 2 * y - 1, 0.0),
        lambda y, f, a: ((2 * y - 1) * f < 1).astype(np.float64),
        (0.0, 1.0),
    ),
    "exponential": Loss(
        15,
        lambda y, f, a: np.exp(-(2 * y - 1) * f),
        lambda y, f, a: (2 * y - 1) * np.exp(-(2 * y - 1) * f),
        lambda y, f, a: np.exp(-(2 * y - 1) * f),
        (0.0, 1.0),
    ),
}
"""The losses of one margin. `y > f` and not `>=`: at equality the libraries count a row as overestimated."""
