"""The losses by which two models are compared on the same rows: values whose mean is the loss of a model.

- *Rows.* The loss that the trees were grown for.
- *Queries*, of rankers: 1 - NDCG, a mean over all orders of rows with equal predictions. A constant leaves the order
  to chance. Queries of one row, and those whose rows are all equally relevant, have nothing to rank and do not count.
- *Pairs of rows*, of survival models: the share of comparable pairs in the wrong order, 1 minus Harrell's concordance;
  a pair with equal predictions counts as half. It is a mean over pairs, a U-statistic (Hoeffding 1948, Annals of
  Mathematical Statistics 19, 293-325), and the value of a row is its pseudo-value in the jackknife (Arvesen 1969,
  Annals of Mathematical Statistics 40, 2076-2100). Let c_ij be 1 for a comparable pair in the wrong order, 1/2 for one
  with equal predictions and 0 otherwise, W the sum of the weights w, n the number of rows, and N the sum of w_i w_j
  over all i and j that are comparable. The value of row i is::

      (2 (n - 1) v_i - n v) / (n - 2),    v_i = W sum_j w_j c_ij / N,    v = sum_i w_i v_i / W

  Their mean is v, and their variance that of the U-statistic times n. N depends on times and events alone and is the
  same for all models, so it cancels where two models are compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from debias.errors import RowsError
from debias.rows.order_of_predictions import ndcg, pairs_of_rows
from debias.rows.performance import UNITS_AT_LEAST, Measure

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from debias.rows.rows import Rows

    Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class ComparedLosses:
    """The losses of models on the same rows; a unit is a row, or a query of a ranker.

    Parameters
    ----------
    loss : callable
        Returns the loss of each unit at raw outputs of shape (n_rows, n_outputs), an array of shape (n_units,).
    of_constant : callable
        Returns the loss of each unit for the best constant.
    weight : array of shape (n_units,)
    blocks : array of shape (n_units,), or None
        Labels of units that depend on one another.
    unit : str
        What is independent, in the plural, for messages.
    n_least : int
        With fewer independent units nothing is tested.
    """

    loss: Callable[[Array], Array]
    of_constant: Callable[[], Array]
    weight: Array
    blocks: NDArray[np.int64] | None
    unit: str = "rows, or blocks of rows"
    n_least: int = 2

    @property
    def n_independent(self) -> int:
        """Number of units that count, or of their blocks."""
        used = self.weight > 0
        return int(used.sum() if self.blocks is None else np.unique(self.blocks[used]).size)


def compared_losses(rows: Rows) -> ComparedLosses:
    """Return the losses by which models are compared on rows; the objective must have some (`compared_by`).

    Raises
    ------
    RowsError
        These rows have no pair to compare, or no query to rank.
    """
    losses_of = {"rows": _of_rows, "queries": _of_queries, "pairs": _of_pairs}
    by = rows.ensemble.objective.compared_by
    assert by is not None
    return losses_of[by](rows)


def queries_to_rank(rows: Rows) -> NDArray[np.int64]:
    """Return the numbers of the queries whose rows differ in relevance."""
    return ndcg(np.zeros(rows.n_rows), *_gains(rows))[0]


def _of_rows(rows: Rows) -> ComparedLosses:
    measure = Measure.of(rows.ensemble, rows.response)
    return ComparedLosses(
        loss=measure.loss,
        of_constant=lambda: measure.loss_of_constant(rows.weight),
        weight=rows.weight,
        blocks=rows.blocks,
    )


def _of_queries(rows: Rows) -> ComparedLosses:
    gain, query = _gains(rows)
    to_rank, _, by_chance = ndcg(np.zeros(query.size), gain, query)
    if not to_rank.size:
        raise RowsError("no query has rows of different relevance, so there is nothing to rank: pass other queries")
    first = np.unique(query, return_index=True)[1][to_rank]  # a query has one weight, and is in one block
    return ComparedLosses(
        loss=lambda margin: 1 - ndcg(margin[:, 0], gain, query)[1],
        of_constant=lambda: 1 - by_chance,
        weight=rows.weight[first],
        blocks=None if rows.blocks is None else rows.blocks[first],
        unit="queries with rows to rank, or blocks of these",
        n_least=UNITS_AT_LEAST,
    )


def _gains(rows: Rows) -> tuple[Array, NDArray[np.int64]]:
    """Return the gain of each row, and its query."""
    assert rows.response.target is not None
    assert rows.query is not None
    return rows.ensemble.objective.gain(rows.response.target[:, 0]), rows.query


def _of_pairs(rows: Rows) -> ComparedLosses:
    objective, target, weight = rows.ensemble.objective, rows.response.target, rows.weight
    assert target is not None
    bounds = objective.time_bounds(target)
    assert bounds is not None
    n, share = int((weight > 0).sum()), weight / weight.sum()

    def loss_at(risk: Array) -> Array:
        ordered, pairs = pairs_of_rows(risk, *bounds, weight)
        n_pairs = float(np.sum(share * pairs))
        if n < 3 or n_pairs == 0:
            raise RowsError("no pair of these rows can be compared: too few of them have an event. Pass more rows")
        of_row = (pairs - ordered) / (2 * n_pairs)
        pseudo: Array = (2 * (n - 1) * of_row - n * float(np.sum(share * of_row))) / (n - 2)
        return pseudo

    return ComparedLosses(
        loss=lambda margin: loss_at(objective.risk(margin)),
        of_constant=lambda: loss_at(np.zeros(rows.n_rows)),
        weight=weight,
        blocks=rows.blocks,
        n_least=UNITS_AT_LEAST,
    )
