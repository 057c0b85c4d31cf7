"""Objectives that compare rows: a row has a gradient only together with the other evaluation rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from debias.errors import CompositionError, RowsError
from debias.trees.objectives import WithoutLoss

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


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

    def response(self, y: Array, margin: Array) -> Array:
        """Raise a CompositionError: the margins of single rows give no gradient."""
        raise CompositionError(self.no_loss)


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
    >>> from debias.trees.joint_objectives import CoxObjective
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

    def times_and_events(self, y: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Return the time of each row, and whether it had an event then or was censored."""
        return (np.abs(y[:, 0]), y[:, 0] > 0) if self.signed else (y[:, 0], y[:, 1] > 0)

    def joint_response(self, y: Array, margin: Array, weight: Array, query: NDArray[np.int64] | None) -> Array:
        """See :class:`JointObjective`."""
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
