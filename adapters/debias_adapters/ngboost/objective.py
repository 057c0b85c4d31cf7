"""The scoring rule of NGBoost's distributions as an objective: its loss, its gradient, and the unit of parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import RowsError
from debias.trees.objectives import RowLoss

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


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
    def predicts_response(self) -> bool:
        """Whether predictions are on the scale of y: the means of the distribution are."""
        return not self.censored

    @property
    def no_loss(self) -> str:
        """Why the running loss is not computed."""
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
        if self.censored and not np.isin(y[:, 1], (0, 1)).all():
            raise RowsError(
                "y must have the time in its first column, and 1 for an event or 0 for a censored row in its second"
            )
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
            score = self._rule(len(y), margin).score(self.as_y(y))
        return np.asarray(score, dtype=np.float64).reshape(len(y))

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
        if self.information is None:
            return None
        fitted: Array = np.linalg.solve(np.asarray(self.information), response.T).T
        return fitted

    def time_bounds(self, y: Array) -> tuple[Array, Array] | None:
        """Return the time of each row, and infinity as the upper bound if it was censored; None if y has no times."""
        return (y[:, 0], np.where(y[:, 1] > 0, y[:, 0], np.inf)) if self.censored else None

    def risk(self, margin: Array) -> Array:
        """Return minus the mean time."""
        return -self.mean(margin)[:, 0]

    def best_constant(self, y: Array, weight: Array) -> Array:
        """Return the constant margin with the least weighted loss, by a search from the start."""
        from scipy.optimize import minimize

        weight = weight / weight.sum()

        def loss(margin: Array) -> float:
            value = float(np.sum(weight * self.loss(y, np.tile(margin, (len(y), 1)))))
            return value if np.isfinite(value) else np.inf

        # Without gradients, because those of some rules in NGBoost are not the derivatives of their scores.
        found = minimize(loss, np.array(self.start), method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-12})
        best: Array = found.x
        return best

    def least_loss(self, y: Array) -> Array:
        """Return -inf for the log score, since a density may be as high as one likes, and 0 otherwise."""
        return np.full(len(y), -np.inf if self.is_log_score else 0.0)

    def _rule(self, n_rows: int, margin: Array) -> Any:
        parameters = np.broadcast_to(margin, (n_rows, len(self.parameter))) / np.asarray(self.parameter)
        return self.rule(parameters.T)


@contextmanager
def global_state(seed: int | None) -> Iterator[None]:
    """Seed numpy's global state, from which NGBoost draws, and leave it afterwards as it was."""
    state = np.random.get_state()  # noqa: NPY002
    try:
        np.random.seed(seed)  # noqa: NPY002
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002
