"""Harrell's concordance index of censored times: how often the row with the earlier event has the higher risk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

TIED = 1e-8
"""Risks that differ by at most this much are tied, as in scikit-survival."""
PAIRS_AT_ONCE = 2**22


def concordance(
    time: NDArray[np.float64],
    event: NDArray[np.bool_],
    risk: NDArray[np.float64],
    weight: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return the share of comparable pairs of rows in which the row with the earlier event has the higher risk.

    A pair is comparable if one row has an event, and the other is known to have none until then: its time is later, or
    it was censored at the same time. Tied risks count one half.

    Parameters
    ----------
    time : array of shape (n_rows,)
    event : array of bool of shape (n_rows,)
        False for rows that were censored at this time.
    risk : array of shape (n_outcomes, n_rows)
        Several predictions of each row.
    weight : array of shape (n_rows,), optional
        A pair counts as the product of the weights of its rows; ones by default.

    Returns
    -------
    array of shape (n_outcomes,)
        NaN if no pair is comparable.
    """
    weight = np.ones(time.size) if weight is None else weight
    with_event = np.flatnonzero(event)
    concordant, comparable = np.zeros(len(risk)), 0.0
    step = max(1, PAIRS_AT_ONCE // (time.size * len(risk)))
    for begin in range(0, with_event.size, step):
        first = with_event[begin : begin + step]
        outlives = (time > time[first, None]) | ((time == time[first, None]) & ~event)
        pair_weight = outlives * weight[first, None] * weight
        comparable += pair_weight.sum()
        higher_by = risk[:, first, None] - risk[:, None, :]
        share = np.where(np.abs(higher_by) <= TIED, 0.5, higher_by > 0)
        concordant += np.einsum("kij,ij->k", share, pair_weight)
    return concordant / comparable if comparable else np.full(len(risk), np.nan)
