"""The scoring rule of NGBoost's distributions as an objective: its loss, its gradient, and the unit of parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import RowsError
from debias.trees.objectives import ComparedBy, Objective, RowLoss
from debias_adapters.sklearn.reading import quiet

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

MANY_PARAMETERS, MOST_ITERATIONS = 4, 100
STANDS_FOR_INFINITY = 1e8
"""The score of a value that the distribution cannot give, in distributions that NGBoost derives by SymPy."""
SIDE = 0.05
"""Side of the first simplex of a search, in units of margins: a standard deviation of a row's gradient is about 1."""


@dataclass(frozen=True)
class NaturalSoftmax(Objective):
    """The log-loss of several classes, for trees that are fitted to the natural gradient.

    Parameters
    ----------
    name : str
    information : tuple of tuple of float
        The information matrix of the logits at the start, without the first class, whose logit is 0.
    """

    name: str = "softmax"
    information: tuple[tuple[float, ...], ...] = ()

    def fitted_first(self, response: Array) -> Array:
        """Return the negative natural gradient; 0 for the first class."""
        fitted = np.zeros_like(response)
        fitted[:, 1:] = _natural(response[:, 1:], self.information)
        return fitted


@dataclass(frozen=True)
class DistributionObjective(RowLoss):
    """A scoring rule of the distribution of y, whose parameters are the outputs of the trees.

    The margin of parameter j is the parameter times u_j, the square root of its entry on the diagonal of the
    information matrix at the start. The gradients of all parameters are then in one unit, which does not depend on the
    unit of y: the negative gradient of the log score has variance 1 if y has the distribution of the start.

    Parameters
    ----------
    name : str
        Of the distribution and the rule.
    parameter : tuple of float
        The factors u.
    information : tuple of tuple of float, or None
        The information matrix at the start, divided by u_j u_k; None if NGBoost has no formula for it.
    natural : bool
        Whether the trees are fitted to the natural gradient: the inverse of the information matrix times the gradient.
    start : tuple of float
        The margin before any tree.
    rule : type
        NGBoost's class of the distribution with its rule: `rule(parameters)` has `score(y)` and `d_score(y)`.
    as_y : callable
        Returns y as the rule takes it, from an array of shape (n_rows, n_columns).
    n_columns : int
        Number of columns of y.
    censored : bool
        Whether y has a time in its first column, and in its second 1 for an event or 0 for a censored row.
    is_log_score : bool
        Whether the loss is minus the log of a density or probability; otherwise it is 0 for a perfect prediction.
    is_normalised : bool
        Whether probabilities of whole numbers sum to 1, so that models can be compared by them. Those of NGBoost's
        beta-binomial with an unknown number of trials do not, because this number is not a whole one.
    """

    name: str = "distribution"
    information: tuple[tuple[float, ...], ...] | None = None
    natural: bool = True
    start: tuple[float, ...] = ()
    rule: Any = field(default=None, compare=False)
    as_y: Callable[[Array], Any] = field(default=np.asarray, compare=False)
    n_columns: int = 1
    censored: bool = False
    is_log_score: bool = True
    is_normalised: bool = True

    @property
    def n_response_columns(self) -> int:
        """Number of columns of y."""
        return self.n_columns

    @property
    def columns_in_words(self) -> str | None:
        """What the columns of y are, for messages."""
        if not self.censored:
            return None
        return (
            "a structured array with a boolean, True for an event, and a time; or two columns, the time and 1 for an "
            "event or 0 for a censored row"
        )

    @property
    def instead_of_fields(self) -> str | None:
        """How to pass y instead of an array with fields; None if y may be such an array."""
        return None if self.censored else ""

    @property
    def compared_by(self) -> ComparedBy | None:
        """What has a loss of its own: each row, unless it is that of no distribution."""
        return "rows" if self.is_normalised else None

    @property
    def predicts_response(self) -> bool:
        """Whether predictions are on the scale of y: the means of the distribution are."""
        return not self.censored

    @property
    def no_loss(self) -> str:
        """Why the running loss is not computed, or no loss at all."""
        if not self.is_normalised:
            return (
                f"the probabilities of its distribution ({self.name}) do not sum to 1, so they are no measure of models"
            )
        return "debias does not compute the running loss of distributions with several parameters"

    @property
    def metric(self) -> str:
        """Name of the loss, for readers."""
        return "negative log likelihood" if self.is_log_score else "CRPS"

    def target_of(self, numbers: Array, n_outputs: int) -> Array:
        """Return y with its own columns."""
        self.check(numbers)
        return numbers

    def check(self, y: Array) -> None:
        """Raise a RowsError if the distribution of the start cannot give a value."""
        if self.censored:
            refuse_other_events(y)
        loss = self.loss(y, np.tile(self.start, (len(y), 1)))
        impossible = np.flatnonzero(~np.isfinite(loss))
        if impossible.size:
            raise RowsError(
                f"the distribution of this model ({self.name}) cannot give {impossible.size} of the values of y, the "
                f"first at position {impossible[0]}: {y[impossible[0], 0]:g}. Pass y as in training"
            )

    def response(self, y: Array, margin: Array) -> Array:
        """Return the negative gradient with respect to the margins, shape (n_rows, n_outputs)."""
        with np.errstate(all="ignore"):  # what is not finite is refused
            gradient = self._rule(len(y), margin).d_score(self.as_y(y))
        return -np.asarray(gradient, dtype=np.float64) / np.asarray(self.parameter)

    def loss(self, y: Array, margin: Array) -> Array:
        """Return the score of NGBoost for each row, shape (n_rows,)."""
        with np.errstate(all="ignore"):
            score = np.array(self._rule(len(y), margin).score(self.as_y(y)), dtype=np.float64).reshape(len(y))
        score[score == STANDS_FOR_INFINITY] = np.inf
        return score

    def mean(self, margin: Array) -> Array:
        """Return the prediction of NGBoost, the mean of the distribution; shape (..., n_columns), or (..., 1)."""
        flat = margin.reshape(-1, margin.shape[-1])
        with global_state(0), np.errstate(all="ignore"):  # some means are those of draws
            mean = np.asarray(self._rule(len(flat), flat).predict(), dtype=np.float64)
        return mean.reshape(*margin.shape[:-1], -1)

    def expected_response(self, margin: Array, start: Array) -> Array:
        """Return the mean of r_0 at a margin, to first order: the information matrix times the step from the start."""
        if self.information is None:
            return margin - start
        expected: Array = (margin - start) @ np.asarray(self.information)
        return expected

    def fitted_first(self, response: Array) -> Array | None:
        """Return the negative gradient that the trees of the first round are fitted to; None if it is not known."""
        if not self.natural:
            return response
        return None if self.information is None else _natural(response, self.information)

    def time_bounds(self, y: Array) -> tuple[Array, Array] | None:
        """Return the time of each row, and infinity as the upper bound if it was censored; None if y has no times."""
        return (y[:, 0], np.where(y[:, 1] > 0, y[:, 0], np.inf)) if self.censored else None

    def risk(self, margin: Array) -> Array:
        """Return minus the mean time."""
        return -self.mean(margin)[:, 0]

    def best_constant(self, y: Array, weight: Array) -> Array:
        """Return the constant margin with the least weighted loss, by a search from the start or NGBoost's own fit."""
        from scipy.optimize import minimize

        weight = weight / weight.sum()

        def loss(margin: Array) -> float:
            value = float(np.sum(weight * self.loss(y, np.tile(margin, (len(y), 1)))))
            return value if np.isfinite(value) else np.inf

        with quiet(), np.errstate(all="ignore"):
            best = min((np.array(self.start), *self._fitted(y)), key=loss)
            # By differences, because the gradients of some rules in NGBoost are not the derivatives of their scores.
            smooth = minimize(loss, best, method="BFGS", options={"maxiter": MOST_ITERATIONS}).x
            best = min(best, smooth, key=loss)
            if best.size < MANY_PARAMETERS:  # losses with edges; simplices of many dimensions stop too early
                simplex = np.vstack([best, best + SIDE * np.eye(best.size)])
                options = {"xatol": 1e-7, "fatol": 1e-12, "initial_simplex": simplex}
                best = minimize(loss, best, method="Nelder-Mead", options=options).x
        return best

    def _fitted(self, y: Array) -> list[Array]:
        """Return the constant that NGBoost would start from with these rows, without their weights, if it finds one."""
        with global_state(0):
            try:
                parameters = np.asarray(self.rule.fit(self.as_y(y)), dtype=np.float64).ravel()
            except Exception:  # noqa: BLE001 - fits of distributions fail in any way; the search has another start
                return []
        return [np.broadcast_to(parameters, len(self.parameter)) * np.asarray(self.parameter)]

    def least_loss(self, y: Array) -> Array:
        """Return -inf for the log score, since a density may be as high as one likes, and 0 otherwise."""
        return np.full(len(y), -np.inf if self.is_log_score else 0.0)

    def _rule(self, n_rows: int, margin: Array) -> Any:
        parameters = np.broadcast_to(margin, (n_rows, len(self.parameter))) / np.asarray(self.parameter)
        return self.rule(parameters.T)


def refuse_other_events(y: Array) -> None:
    """Raise a RowsError unless the second column of y has ones and zeros only."""
    if not np.isin(y[:, 1], (0, 1)).all():
        raise RowsError(
            "y must have the time in its first column, and 1 for an event or 0 for a censored row in its second"
        )


def _natural(gradient: Array, information: tuple[tuple[float, ...], ...]) -> Array:
    """Return the information matrix inverted, times the gradient of each row."""
    natural: Array = gradient @ np.linalg.pinv(np.asarray(information))
    return natural


@contextmanager
def global_state(seed: int | None) -> Iterator[None]:
    """Seed numpy's global state, from which NGBoost draws, and leave it afterwards as it was."""
    state = np.random.get_state()  # noqa: NPY002
    try:
        np.random.seed(seed)  # noqa: NPY002
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002
