"""How well predictions order rows: the area under the ROC curve, concordance of times, and NDCG of queries.

Equal predictions count as half in the right order; for NDCG, all orders of rows with equal predictions count the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


def roc_area(predicted: Array, positive: NDArray[np.bool_], weight: Array) -> float | None:
    """Return the area under the ROC curve; None if all rows, or none, are positive.

    Parameters
    ----------
    predicted : array of shape (n_rows,)
    positive : array of bool of shape (n_rows,)
    weight : array of shape (n_rows,)
    """
    _, level = np.unique(predicted, return_inverse=True)
    of_positive = np.bincount(level, weights=weight * positive)
    of_negative = np.bincount(level, weights=weight * ~positive)
    pairs = of_positive.sum() * of_negative.sum()
    if pairs == 0:
        return None
    # Rows with equal predictions count as half in the right order.
    below = np.cumsum(of_negative) - of_negative / 2
    return weighted_sum(of_positive, below) / float(pairs)


def concordance(risk: Array, lower: Array, upper: Array, weight: Array) -> float | None:
    """Return Harrell's concordance; None if no pair of rows can be compared.

    Of the pairs of which one row is sure to have the event first, it is the share whose first row has the higher risk.

    Parameters
    ----------
    risk : array of shape (n_rows,)
        Higher for rows whose event is predicted to be earlier.
    lower, upper : arrays of shape (n_rows,)
        Bounds of the time of the event: equal if it is known, an infinite upper bound if the row was censored.
    weight : array of shape (n_rows,)
        A pair has the product of the weights of its rows.
    """
    later, pairs = _compared(risk, lower, upper, weight, first=True)
    n_pairs = weighted_sum(weight, pairs)
    if n_pairs == 0:
        return None
    return 0.5 + weighted_sum(weight, later) / (2 * n_pairs)


def pairs_of_rows(risk: Array, lower: Array, upper: Array, weight: Array) -> tuple[Array, Array]:
    """Return for each row its pairs in the right order less those in the wrong one, and all its comparable pairs.

    Each pair counts for both of its rows, with the weight of the other one. The arguments are those of
    :func:`concordance`, which is 1/2 + (the sum of the first, times weight) / (twice that of the second).
    """
    of_first, of_later = (_compared(risk, lower, upper, weight, first=first) for first in (True, False))
    return of_first[0] + of_later[0], of_first[1] + of_later[1]


def _compared(risk: Array, lower: Array, upper: Array, weight: Array, *, first: bool) -> tuple[Array, Array]:
    """Return what :func:`pairs_of_rows` does, of the pairs in which the row is the first one, or of the others."""
    known = np.flatnonzero(np.isfinite(upper))
    # Rows as the later ones of a pair, and as the first ones, in one sequence from the last time to the first. At equal
    # times censored rows come before an event, and the row of another event after it.
    time = np.concatenate([lower, upper[known]])
    place = np.concatenate([np.where(lower < upper, 0, 2), np.ones(known.size, dtype=np.int64)])
    order = np.lexsort((place, -time))
    row, is_first = np.concatenate([np.arange(risk.size), known])[order], (place == 1)[order]
    if not first:  # a row is later than those that follow in the sequence
        row, is_first = row[::-1], is_first[::-1]
    asks = is_first == first
    counted = np.where(asks, 0.0, weight[row])
    lower_risk = _sums_before(risk[row], counted)[asks]
    higher_risk = _sums_before(-risk[row], counted)[asks]
    ordered, pairs = np.zeros(risk.size), np.zeros(risk.size)
    ordered[row[asks]] = (lower_risk - higher_risk) if first else (higher_risk - lower_risk)
    pairs[row[asks]] = np.cumsum(counted)[asks]
    return ordered, pairs


def ndcg(predicted: Array, gain: Array, query: NDArray[np.int64]) -> tuple[NDArray[np.int64], Array, Array]:
    """Return the queries with rows to rank, the NDCG of each, and its mean over all orders of the rows of the query.

    Parameters
    ----------
    predicted, gain : arrays of shape (n_rows,)
    query : array of int64 of shape (n_rows,)
        The query of each row, numbered from 0. Rows of a query need not be together.
    """
    size = np.bincount(query)
    start = np.concatenate(([0], np.cumsum(size)[:-1]))
    discount = 1 / np.log2(np.arange(size.max()) + 2)
    order = np.lexsort((-predicted, query))
    ordered = query[order]
    of_rank = discount[np.arange(query.size) - start[ordered]]
    # Rows with equal predictions share their discounts.
    new = np.ones(query.size, dtype=bool)
    new[1:] = (np.diff(ordered) != 0) | (np.diff(predicted[order]) != 0)
    tie = np.cumsum(new) - 1
    shared = (np.bincount(tie, weights=of_rank) / np.bincount(tie))[tie]
    reached = np.bincount(ordered, weights=gain[order] * shared, minlength=size.size)
    best_order = np.lexsort((-gain, query))
    best = np.bincount(ordered, weights=gain[best_order] * of_rank, minlength=size.size)
    by_chance = np.bincount(query, weights=gain) * np.bincount(ordered, weights=of_rank) / np.maximum(size, 1)
    # Where all rows of a query have the same gain, every order is the best one.
    to_rank = np.flatnonzero(best > by_chance * (1 + 1e-12))
    return to_rank, reached[to_rank] / best[to_rank], by_chance[to_rank] / best[to_rank]


def _sums_before(values: Array, weight: Array) -> Array:
    """Return, for each entry of a sequence, the sum of the weights of entries before it with a smaller value.

    Blocks of 1, 2, 4, ... entries are merged in pairs: the entries of the first block are counted for the second.
    """
    n = values.size
    by_value = np.argsort(values, kind="stable")
    total, half = np.zeros(n), 1
    while half < n:
        at = by_value[np.argsort(by_value // (2 * half), kind="stable")]  # by pair of blocks, then by value
        pair, is_first = at // (2 * half), (at // half) % 2 == 0
        before = np.concatenate(([0.0], np.cumsum(np.where(is_first, weight[at], 0.0))))
        new = np.ones(n, dtype=bool)
        new[1:] = (np.diff(pair) != 0) | (np.diff(values[at]) != 0)
        smaller = np.maximum.accumulate(np.where(new, np.arange(n), 0))  # where entries of this value begin
        begin = pair * 2 * half
        total[at[~is_first]] += (before[smaller] - before[begin])[~is_first]
        half *= 2
    return total


def weighted_sum(weight: NDArray[np.float64] | NDArray[np.int_], values: Array) -> float:
    """Return the sum of weight times value.

    ``weight @ values`` would start threads of its own for many rows, which wait actively for the next product, and its
    last bits depend on their number and on the processor.
    """
    return float(np.sum(weight * values))
