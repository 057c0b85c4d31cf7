"""Objectives of trees: the loss of a response given a margin, its gradient and its curvature.

The file has more than 500 lines because the losses stand in one table, and everything that is asked of an objective in
one class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from debias.errors import CompositionError, RowsError, nearest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

ComparedBy = Literal["rows", "queries", "pairs"]
LEAST_MARGIN = -1 + 1e-6
"""XGBoost keeps the margins of the squared log error above this."""


@dataclass(frozen=True)
class Objective:
    """A loss of a response given a margin.

    Parameters
    ----------
    name : str
        A name in ``LOSSES`` in this module, which has the formulas; or "softmax", the log-loss of a class given one
        margin per class.
    parameter : tuple of float
        The parameter of the loss, one for all outputs or one for each: ``alpha`` of "quantile" and "expectile", the
        slope of "huber", "pseudo_huber" and "fair", the power of "tweedie", the factor of margins in "logistic", the
        number added to margins in the curvature of "poisson" (``max_delta_step``).
    root : bool
        Whether the trees were grown for ``sign(y) sqrt(|y|)`` (LightGBM's ``reg_sqrt``).
    smoothed : bool
        Whether the library grew the trees for a smooth loss close to "absolute_error" or "quantile" (XGBoost 3.4). Its
        hessians depend on the residuals of all training rows. Everything but the curvature is that of the loss itself.

    Raises
    ------
    CompositionError
        There is no loss of this name; the message lists the names.

    Examples
    --------
    >>> import numpy as np
    >>> from debias.trees.objectives import Objective
    >>> Objective("quantile", (0.9,)).response(np.array([[1.0], [3.0]]), np.array([2.0])).ravel()
    array([-0.1,  0.9])
    """

    name: str
    parameter: tuple[float, ...] = (1.0,)
    root: bool = False
    smoothed: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        known = [*LOSSES, "softmax"]
        if self.name not in known:
            raise CompositionError(
                f"there is no loss {self.name!r}.{nearest(str(self.name), known)} There are: {', '.join(known)}. For "
                "another loss pass a CustomObjective with its gradient"
            )

    @property
    def code(self) -> int:
        """Number of the loss in the compiled loops."""
        return _SOFTMAX if self.name == "softmax" else LOSSES[self.name].code

    @property
    def has_loss(self) -> bool:
        """Whether the loss itself is known, and not only its gradient, so that it can run along the trees."""
        return True

    @property
    def compared_by(self) -> ComparedBy | None:
        """What has a loss of its own, by which two models can be compared; None if nothing has one."""
        return "rows"

    @property
    def predicts_response(self) -> bool:
        """Whether predictions are on the scale of y, so that they can be compared with it."""
        return True

    @property
    def compares_rows(self) -> bool:
        """Whether the gradient of a row depends on other rows (:mod:`debias.trees.survival_objectives`)."""
        return False

    @property
    def by_query(self) -> bool:
        """Whether only the rows of one query are compared, so that the query of each row must be known."""
        return False

    @property
    def n_response_columns(self) -> int | None:
        """Number of columns of y; None if there is one for each output."""
        return 1 if self.name in ("quantile", "expectile") else None

    @property
    def notes(self) -> tuple[str, ...]:
        """What readers of scores must know about the response of this objective."""
        return ()

    @property
    def columns_in_words(self) -> str | None:
        """What the columns of y are, for messages; None if there is one number for each output."""
        return None

    @property
    def no_loss(self) -> str:
        """Why the loss of a row is not known, if `has_loss` is False; part of a sentence about the model."""
        return ""

    @property
    def curvature_needs_response(self) -> bool:
        """Whether the hessian of a row depends on its response, and not on its margin alone."""
        depending = ("gamma", "tweedie", "expectile", "pseudo_huber", "squared_log_error", "hinge")
        return self.smoothed or self.name in depending

    @property
    def unit_curvature(self) -> bool:
        """Whether libraries take 1 for the hessian of every row."""
        return self.name in ("squared_error", "absolute_error", "quantile") and not self.smoothed

    def check(self, y: Array) -> None:
        """Raise a RowsError if the loss is not defined for a response.

        Parameters
        ----------
        y : array of shape (n_rows,) or (n_rows, n_outputs)

        Raises
        ------
        RowsError
            A value is out of range.
        """
        low, high = (0.0, 1.0) if self.name == "softmax" else LOSSES[self.name].domain
        if y.size and (y.min() < low or y.max() > high):
            span = f"between {low:g} and {high:g}" if np.isfinite(high) else f"of {low:g} or more"
            raise RowsError(
                f"this model was trained on a response {span} ({self.name.replace('_', ' ')}), but y has values from "
                f"{y.min()} to {y.max()}; pass y as in training"
            )

    @property
    def may_be_infinite(self) -> bool:
        """Whether values of y may be infinite: bounds that are open."""
        return False

    @property
    def instead_of_fields(self) -> str | None:
        """How to pass y instead of an array with fields, the end of a sentence; None if y may be such an array."""
        return ""

    def why_unscored(self, has_queries: bool) -> str | None:
        """Return why rows have no gradient, and what works without one; None if they have.

        Parameters
        ----------
        has_queries : bool
            Whether the query of each row is known.
        """
        return None

    @property
    def predicts_risk(self) -> bool:
        """Whether the output is a risk, which is not on the scale of the times in y."""
        return False

    def time_bounds(self, y: Array) -> tuple[Array, Array] | None:
        """Return a lower and an upper bound of the time of the event of each row; None if y has no times.

        The bounds are equal if the time is known, and the upper one is infinite if the row was censored.
        """
        return None

    def risk(self, margin: Array) -> Array:
        """Return a number for each row that is higher if the event is predicted to be earlier; for times only."""
        return margin[:, 0]

    def gain(self, y: Array) -> Array:
        """Return the gain of each row in NDCG. Raise a CompositionError if the loss ranks no rows (`by_query`)."""
        raise CompositionError(f"the loss {self.name} does not rank the rows of queries")

    def target_of(self, numbers: Array, n_outputs: int) -> Array:
        """Return y as the loss takes it, shape (n_rows, n_outputs), unless the loss has columns of its own.

        Parameters
        ----------
        numbers : array of shape (n_rows, 1) or (n_rows, n_outputs)
        n_outputs : int

        Raises
        ------
        RowsError
            The loss is not defined for a value.
        """
        numbers = np.broadcast_to(numbers, (len(numbers), n_outputs))
        self.check(numbers)
        return self.transformed(numbers)

    def first_response(
        self, y: Array, start: Array, weight: Array | None = None, query: NDArray[np.int64] | None = None
    ) -> Array:
        """Return the response r_0 of all rows: the negative gradient at the margin before any tree.

        Parameters
        ----------
        y : array
            From `target_of`, for all evaluation rows.
        start : array of shape (n_outputs,) or (n_rows, n_outputs)
            The margin before any tree.
        weight : array of shape (n_rows,), optional
            Evaluation weights, for losses that compare rows; ones by default.
        query : array of int64 of shape (n_rows,), optional
            The query of each row, for rankers.
        """
        return self.response(y, start)

    def transformed(self, y: Array) -> Array:
        """Return the response on the scale of the margins, if the model transforms it."""
        return np.sign(y) * np.sqrt(np.abs(y)) if self.root else y

    def response(self, y: Array, margin: Array) -> Array:
        """Return the negative gradient -g of the loss at a margin; for the squared error, half of it.

        Parameters
        ----------
        y : array of shape (n_rows, n_outputs)
            Response; one-hot for "softmax".
        margin : array broadcastable to the shape of `y`

        Returns
        -------
        array of shape (n_rows, n_outputs)
            If `margin` is the constant F_0, this is the response r_0 that a boosted model is scored on.
        """
        if self.name == "softmax":
            return y - self.mean(margin)
        return LOSSES[self.name].response(y, np.broadcast_to(margin, y.shape), np.asarray(self.parameter))

    def mean(self, margin: Array) -> Array:
        """Return the prediction on the scale of y (the inverse link) at a margin of shape (..., n_outputs)."""
        if self.name == "logistic":
            return expit(np.asarray(self.parameter) * margin)
        if self.name == "softmax":
            shifted = np.exp(margin - margin.max(axis=-1, keepdims=True))
            total: Array = shifted / shifted.sum(axis=-1, keepdims=True)
            return total
        if self.name in ("poisson", "gamma", "tweedie"):
            return np.exp(margin)
        return np.sign(margin) * margin**2 if self.root else margin

    def expected_response(self, margin: Array, start: Array) -> Array:
        """Return the mean of r_0 over responses that the model expects at a margin.

        Parameters
        ----------
        margin : array of shape (..., n_outputs)
        start : array of shape (n_outputs,) or of the shape of `margin`
            The margin before any tree.
        """
        return self.mean(margin) - self.mean(start)

    def fitted_first(self, response: Array) -> Array | None:
        """Return what the trees of the first round were fitted to, given r_0; None if it is not known."""
        return response

    def curvature(self, margin: Array, y: Array | None = None) -> Array:
        """Return the hessian of each row, up to the constant factor that the library uses; same shape as `margin`.

        Parameters
        ----------
        margin : array of shape (..., n_outputs)
        y : array of the same shape, optional
            The response, if `curvature_needs_response`; of all training rows together, if `smoothed`.
        """
        if self.smoothed:
            assert y is not None
            return _SMOOTHED_CURVATURES[self.name](y - margin)
        if self.name == "softmax":
            mean = self.mean(margin)
            return mean * (1 - mean)
        return LOSSES[self.name].curvature(y, margin, np.asarray(self.parameter))

    def loss(self, y: Array, margin: Array) -> Array:
        """Return the loss of each row, summed over outputs, shape (n_rows,); `y` and `margin` as in `response`."""
        if self.name == "softmax":
            top = margin.max(axis=-1, keepdims=True)
            return (top[..., 0] + np.log(np.exp(margin - top).sum(axis=-1))) - (y * margin).sum(axis=-1)
        return LOSSES[self.name].loss(y, margin, np.asarray(self.parameter)).sum(axis=-1)


@dataclass(frozen=True)
class WithoutLoss(Objective):
    """An objective of which the compiled loops have no loss; a base for those that give a gradient only, or nothing.

    Parameters
    ----------
    name : str
        Any name.
    link : callable, optional
        Returns the prediction at margins; by default it is the margin.
    """

    link: Callable[[Array], Array] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Accept any name."""

    @property
    def code(self) -> int:
        """Raise a CompositionError: no compiled loop has the loss."""
        raise CompositionError(self.no_loss)

    @property
    def has_loss(self) -> bool:
        """Whether the loss is known to the compiled loops: never."""
        return False

    @property
    def compared_by(self) -> ComparedBy | None:
        """What has a loss of its own: nothing, unless a subclass says more."""
        return None

    @property
    def predicts_response(self) -> bool:
        """Whether predictions are on the scale of y: not for all such objectives."""
        return False

    @property
    def curvature_needs_response(self) -> bool:
        """Whether the hessian depends on the response: always True, because it may."""
        return True

    def check(self, y: Array) -> None:
        """Accept any response, unless a subclass says more."""

    def mean(self, margin: Array) -> Array:
        """Return the prediction of the library at a margin."""
        return margin if self.link is None else self.link(margin)

    def loss(self, y: Array, margin: Array) -> Array:
        """Raise a CompositionError: the loss of a row is not known."""
        raise CompositionError(self.no_loss)


@dataclass(frozen=True)
class RowLoss(WithoutLoss, ABC):
    """A loss of each row that the compiled loops do not have: models are compared by it, and it is not run along trees.

    Parameters
    ----------
    name : str
    """

    name: str = "row_loss"

    @property
    @abstractmethod
    def metric(self) -> str:
        """Name of the loss, for readers."""

    @property
    def compared_by(self) -> ComparedBy | None:
        """What has a loss of its own: each row."""
        return "rows"

    @abstractmethod
    def loss(self, y: Array, margin: Array) -> Array:
        """Return the loss of each row, shape (n_rows,)."""

    @abstractmethod
    def best_constant(self, y: Array, weight: Array) -> Array:
        """Return the constant margin with the least weighted loss, shape (n_outputs,).

        Parameters
        ----------
        y : array of shape (n_rows, n_columns)
        weight : array of shape (n_rows,)
        """

    @abstractmethod
    def least_loss(self, y: Array) -> Array:
        """Return the loss of each row at the best prediction for it alone, shape (n_rows,).

        It is -inf for a density that has no largest value.
        """


@dataclass(frozen=True)
class CustomObjective(WithoutLoss):
    """A custom objective of the user. Its gradient is known if the model keeps the function; its loss is not known.

    Parameters
    ----------
    name : str
    gradient : callable
        ``gradient(labels, margins)`` returns an array of the shape of `margins`. Both have shape (n_rows,), or
        (n_rows, n_outputs) if there are several outputs.
    """

    name: str = "custom"
    gradient: Callable[[Array, Array], Array] | None = None

    @property
    def predicts_response(self) -> bool:
        """Whether predictions are on the scale of y: taken to be so."""
        return True

    @property
    def no_loss(self) -> str:
        """Why the loss of a row is not known."""
        return "a custom objective gives only its gradient"

    def response(self, y: Array, margin: Array) -> Array:
        """Return the negative gradient at a margin, computed by the user's function."""
        assert self.gradient is not None
        margins = np.array(np.broadcast_to(margin, y.shape), dtype=np.float64)
        one = y.shape[1] == 1
        gradient = np.asarray(
            self.gradient(y[:, 0].copy() if one else y.copy(), margins[:, 0] if one else margins), dtype=np.float64
        )
        if gradient.size != y.size or not np.isfinite(gradient).all():
            raise RowsError(
                f"the model's custom objective returned a gradient of shape {gradient.shape}, or one that is not "
                f"finite, for {y.shape[0]} rows and {y.shape[1]} outputs"
            )
        return -gradient.reshape(y.shape)


@dataclass(frozen=True)
class UnscoredObjective(WithoutLoss):
    """An objective without a gradient that debias knows: no row has a response that scores could use.

    Only scorers that need the trees, or predictions and a metric, can score such a model.

    Parameters
    ----------
    name : str
        As the library calls it.
    reason : str
        Why a row has no gradient.
    """

    name: str = "unscored"
    reason: str = field(default="", compare=False)

    @property
    def no_loss(self) -> str:
        """What cannot be computed, why, and which scorers work."""
        return (
            f"scores against the response are not defined for a model with objective {self.name!r}: {self.reason}. "
            "The scorers native, gain, cover, split_count and shap work, and permutation with metric=, a function "
            "(estimator, X, y) -> number, higher is better"
        )

    def why_unscored(self, has_queries: bool) -> str | None:
        """Return why no row has a gradient, whatever is known of it."""
        return self.no_loss

    def response(self, y: Array, margin: Array) -> Array:
        """Raise a CompositionError: there is no gradient of a row."""
        raise CompositionError(self.no_loss)


_SOFTMAX = 2


class Loss(NamedTuple):
    """A loss of one margin, with its gradient and curvature. Each function takes response, margin and parameter."""

    code: int
    loss: Callable[[Any, Any, Any], Any]
    response: Callable[[Any, Any, Any], Any]
    curvature: Callable[[Any, Any, Any], Any]
    domain: tuple[float, float] = (-np.inf, np.inf)


def expit(x: Any) -> Any:
    """Return 1 / (1 + exp(-x))."""
    return np.exp(-np.logaddexp(0.0, -x))


def _logistic_density(x: Any) -> Any:
    """Return expit(x) expit(-x), with one exponential and without loss of digits at large x."""
    decay = np.exp(-np.abs(x))
    return decay / (1 + decay) ** 2


def _one(y: Any, f: Any, a: Any) -> Any:
    return np.ones_like(f)


def _huber(y: Any, f: Any, a: Any) -> Any:
    r = np.abs(y - f)
    return np.where(r <= a, r**2 / 2, a * (r - a / 2))


def _log1p(f: Any) -> Any:
    """Return the log of 1 plus a margin. XGBoost keeps these margins above -1."""
    return np.log1p(np.maximum(f, LEAST_MARGIN))


def _scale(r: Any) -> Any:
    """Return the scale of the residuals of all rows, one for each output; not 0, which the hessians are divided by."""
    return np.maximum(np.sqrt(np.abs(r)).mean(axis=0) ** 2, np.finfo(np.float64).tiny)


def _smoothed_quantile_curvature(r: Any) -> Any:
    x = np.maximum(np.abs(r) / (0.04 * _scale(r)), 1e-9)
    return np.maximum(np.tanh(x) / x, 3e-4) / 0.08


_SMOOTHED_CURVATURES: dict[str, Callable[[Any], Any]] = {
    "absolute_error": lambda r: _scale(r) / np.hypot(_scale(r), r),
    "quantile": _smoothed_quantile_curvature,
}
"""Hessians of XGBoost 3.4, given the residuals (n_rows, n_outputs) of all training rows."""


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
        lambda y, f, a: (np.log1p(y) - _log1p(f)) / (1 + np.maximum(f, LEAST_MARGIN)),
        lambda y, f, a: np.maximum(
            (np.log1p(y) - _log1p(f) + 1) / (1 + np.maximum(f, LEAST_MARGIN)) ** 2,
            1e-6,
        ),
        (LEAST_MARGIN, np.inf),
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
"""The losses of one margin. They test `y > f` and not `>=`: the libraries count a row with y == f as overestimated."""
SQUARED_ERROR = Objective("squared_error")
LOGISTIC = Objective("logistic")
SOFTMAX = Objective("softmax")


@dataclass(frozen=True)
class JointObjective(WithoutLoss, ABC):
    """A loss that compares rows. All rows together give each row its gradient, the response that scores use.

    Parameters
    ----------
    name : str
    """

    name: str = "joint"

    @abstractmethod
    def joint_response(self, y: Array, margin: Array, weight: Array, query: NDArray[np.int64] | None) -> Array:
        """Return the negative gradient of each row.

        Parameters
        ----------
        y : array of shape (n_rows, n_columns)
            Response of all evaluation rows.
        margin : array of shape (n_rows, 1)
            Margins, all the same unless each row has a start margin of its own.
        weight : array of shape (n_rows,)
            Evaluation weights. A row of weight 2 counts as two equal rows.
        query : array of int64 of shape (n_rows,), or None
            The query of each row, numbered from 0; for losses that compare the rows of one query.

        Returns
        -------
        array of shape (n_rows, 1)

        Raises
        ------
        RowsError
            The gradients of all rows are 0, whatever the features.
        """

    @property
    def no_loss(self) -> str:
        """Why there is no loss of a row."""
        return f"its loss, {self.name}, compares rows with each other, so a single row has no loss"

    @property
    def compares_rows(self) -> bool:
        """Whether the gradient of a row depends on other rows: always."""
        return True

    def target_of(self, numbers: Array, n_outputs: int) -> Array:
        """Return y with its own columns, such as times and events."""
        self.check(numbers)
        return numbers

    def first_response(
        self, y: Array, start: Array, weight: Array | None = None, query: NDArray[np.int64] | None = None
    ) -> Array:
        """Return the response of all rows together, see `joint_response`."""
        margin = np.broadcast_to(start, (len(y), start.shape[-1]))
        return self.joint_response(y, margin, np.ones(len(y)) if weight is None else weight, query)

    def response(self, y: Array, margin: Array) -> Array:
        """Raise a CompositionError: the margins of single rows give no gradient."""
        raise CompositionError(self.no_loss)
