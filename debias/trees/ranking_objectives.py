"""Ranking losses at equal margins: the gradient of a row is its mean over all orders of the tied rows of its query.

At equal margins all rows of a query tie. Libraries break the ties by the order of the rows, which says nothing. The
weight that LambdaMART gives a pair depends on the ranks of its rows, so its mean over all orders is the same for all
pairs of a query (for average precision: all pairs of a relevant and another row). What remains is closed (docs:
methods, section 3): each row is compared with the other rows of its query, times one scale for the query.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from debias.errors import RowsError
from debias.trees.objectives import ComparedBy, JointObjective

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Discount = Callable[[NDArray[np.int64]], Array]

FROM_SIZES = "From the sizes of groups, it is np.repeat(np.arange(len(group)), group)"
LARGEST_RELEVANCE = 31
"""Largest relevance whose gain is 2^y - 1."""


def refuse_weights_in_queries(weight: Array | None, query: NDArray[np.int64]) -> None:
    """Raise a RowsError if weights differ between the rows of a query."""
    if weight is not None and _varies(weight, query).any():
        raise RowsError("a ranker takes one weight for each query: sample_weight differs between rows of a query")


def required_queries(qid: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """Return the queries; raise a RowsError if a ranker is to be trained again without them."""
    if qid is None:
        raise RowsError(
            "this is a ranker, and its queries are needed to train it again: pass qid=, the query of each training "
            "row, to debias.refit, or train=debias.Dataset(X, y, qid=...)"
        )
    return qid


@dataclass(frozen=True)
class RankingObjective(JointObjective):
    """A loss that compares the rows of each query. Its response sums to 0 over every query.

    Parameters
    ----------
    name : str
        As the library calls it.
    left_out : tuple of str
        Settings of the model that the response does not have, for a note.
    """

    name: str = "ranking"
    left_out: tuple[str, ...] = field(default=(), compare=False)

    @property
    def by_query(self) -> bool:
        """Whether only rows of one query are compared: always."""
        return True

    @property
    def compared_by(self) -> ComparedBy:
        """What has a loss: each query."""
        return "queries"

    @property
    def notes(self) -> tuple[str, ...]:
        """What readers of scores must know of the settings in `left_out`."""
        if not self.left_out:
            return ()
        return (f"the response of this ranker is the gradient of {self.name} without {' and '.join(self.left_out)}",)

    def why_unscored(self, has_queries: bool) -> str | None:
        """Return why rows have no gradient without queries, and what works without them; None with queries."""
        if has_queries:
            return None
        return (
            f"this is a ranker, and its loss, {self.name}, compares the rows of one query: pass "
            f"debias.Dataset(X, y, qid=...), the query of each row. {FROM_SIZES}. Without it the scorers native, gain, "
            "cover, split_count and shap work, and permutation with metric="
        )

    @abstractmethod
    def of_queries(self, queries: Queries) -> Array:
        """Return the response of each row at equal margins, shape (n_rows,)."""

    def gain(self, y: Array) -> Array:
        """Return the gain of each row in NDCG: 2^y - 1 for relevances of 0, 1, ... 31, else y less its least value."""
        whole = np.array_equal(y, np.round(y)) and y.min(initial=0) >= 0 and y.max(initial=0) <= LARGEST_RELEVANCE
        return np.exp2(y) - 1 if whole else y - y.min(initial=np.inf)

    def joint_response(self, y: Array, margin: Array, weight: Array, query: NDArray[np.int64] | None) -> Array:
        """See :class:`debias.trees.objectives.JointObjective`."""
        assert query is not None
        if _varies(margin[:, 0], query).any():
            raise RowsError(
                "base_margin differs between the rows of a query, so these rows do not tie before the first tree, and "
                "the response of a ranker is defined for ties only: leave base_margin out"
            )
        refuse_weights_in_queries(weight, query)
        response = self.of_queries(Queries(y[:, 0], query))
        if not response[weight > 0].any():
            alone = (np.bincount(query) <= 1).all()
            why = "each query has one row" if alone else "all rows of each query have the same relevance"
            raise RowsError(
                f"{why}, so there is nothing to rank and nothing can be told: pass queries with rows to rank"
            )
        return response[:, None]


@dataclass(frozen=True)
class Pairwise(RankingObjective):
    """Pairs of rows of different relevance, with the logistic loss of the difference of their margins.

    At equal margins the gradient of a pair is 1/2: the response is half the number of rows of the query that are less
    relevant, minus half the number of those that are more relevant.

    Parameters
    ----------
    name, left_out
        As for :class:`RankingObjective`.
    parameter : tuple of float
        The factor of differences of margins in the logistic loss: LightGBM's `sigmoid`.
    truncation : int, optional
        Only pairs with a row among the first so many ranks count. It multiplies a query by the share of such pairs.
    normalised : bool
        Whether a query is multiplied by log2(1 + S) / S, where S is the sum of the weights of its pairs, as LightGBM
        and XGBoost do by default; here S is the mean over orders. Large queries then count less.

    Examples
    --------
    >>> import numpy as np
    >>> from debias.trees.ranking_objectives import Pairwise
    >>> y, query = np.array([[2.0], [0.0], [1.0], [1.0], [0.0]]), np.array([0, 0, 0, 1, 1])
    >>> Pairwise().joint_response(y, np.zeros((5, 1)), np.ones(5), query).ravel()
    array([ 1. , -1. ,  0. ,  0.5, -0.5])
    """

    name: str = "pairwise"
    truncation: int | None = None
    normalised: bool = False

    def of_queries(self, queries: Queries) -> Array:
        """See :class:`RankingObjective`."""
        n_less, n_more = queries.n_less, queries.n_more
        pairs = queries.sums(n_less + n_more) / 2
        return self._weighted(queries, n_less - n_more, pairs, _share_of_pairs(queries.size, self.truncation))

    def _weighted(self, queries: Queries, compared: Array, pairs: Array, scale: Array) -> Array:
        """Return half the comparisons of each row, times the scale of its query, normalised if the model does so.

        `pairs` is the sum of absolute differences over the pairs of a query.
        """
        scale = self.parameter[0] * scale
        if self.normalised:
            total = scale * pairs
            scale = scale * np.divide(np.log2(1 + total), total, out=np.ones_like(total), where=total > 0)
        return compared / 2 * scale[queries.of_row]


@dataclass(frozen=True)
class Ndcg(Pairwise):
    """LambdaMART with NDCG: the weight of a pair is the change of NDCG if its rows are swapped.

    Parameters
    ----------
    name, left_out, truncation, normalised
        As for :class:`Pairwise`; NDCG is that of the first `truncation` ranks.
    gains : tuple of float, optional
        The gain of each relevance 0, 1, 2, ...; by default 2^y - 1.
    linear : bool
        Whether the gain is the relevance itself.
    """

    name: str = "ndcg"
    gains: tuple[float, ...] | None = None
    linear: bool = False

    def check(self, y: Array) -> None:
        """Raise a RowsError if the relevance has no gain."""
        most = np.inf if self.linear else LARGEST_RELEVANCE if self.gains is None else len(self.gains) - 1
        whole = self.linear or np.array_equal(y, np.round(y))
        if not whole or y.min(initial=0) < 0 or y.max(initial=0) > most:
            kind = "numbers" if self.linear else "whole numbers"
            span = "of 0 or more" if self.linear else f"from 0 to {most:g}"
            raise RowsError(
                f"y of a ranker by NDCG must be {kind} {span}, and it has values from {y.min()} to {y.max()}"
            )

    def of_queries(self, queries: Queries) -> Array:
        """See :class:`RankingObjective`."""
        gain = self.gain(queries.y)
        scale = _mean_gap(queries.size, _dcg_discount, self.truncation)
        ideal = queries.ideal_sum(gain, _dcg_discount, self.truncation)
        scale = np.divide(scale, ideal, out=np.zeros_like(scale), where=ideal > 0)
        return self._weighted(queries, *queries.differences(gain), scale)

    def gain(self, y: Array) -> Array:
        """Return the gain of each row, as the model counts it."""
        if self.linear:
            return y
        return np.exp2(y) - 1 if self.gains is None else np.asarray(self.gains)[y.astype(np.int64)]


@dataclass(frozen=True)
class AveragePrecision(Pairwise):
    """LambdaMART with average precision, for relevances 0 and 1.

    Swapping a relevant row at rank a with another row at rank b > a changes the average precision of a query with k
    relevant rows of n by (g(a) - g(b)) / k, on average over all orders of the other rows, where g(a) = (1 - p) / a - p
    (1 + 1/2 + ... + 1/a) and p = (k - 1) / (n - 2).

    Parameters
    ----------
    name, left_out, truncation, normalised
        As for :class:`Pairwise`.
    """

    name: str = "average_precision"

    def check(self, y: Array) -> None:
        """Raise a RowsError if the relevance is not 0 or 1."""
        if not np.isin(y, (0, 1)).all():
            raise RowsError("y of a ranker by average precision must be 0 or 1")

    def of_queries(self, queries: Queries) -> Array:
        """See :class:`RankingObjective`."""
        relevant = queries.sums(queries.y)
        share = np.divide(relevant - 1, queries.size - 2, out=np.zeros_like(relevant), where=queries.size > 2)
        gap = (1 - share) * _mean_gap(queries.size, _inverse_rank, self.truncation)
        gap += share * _mean_gap(queries.size, _minus_harmonic, self.truncation)
        return self._weighted(queries, *queries.differences(queries.y), gap / np.maximum(relevant, 1))


@dataclass(frozen=True)
class CrossEntropyNdcg(RankingObjective):
    """LightGBM's rank_xendcg: the cross entropy of softmax scores and the shares of 2^y - g in the sum of its query.

    LightGBM draws g between 0 and 1 for each row in every round; the response has its mean, 1/2.
    """

    name: str = "rank_xendcg"

    def check(self, y: Array) -> None:
        """Raise a RowsError if the relevance is negative."""
        if y.min(initial=0) < 0:
            raise RowsError(f"y of a ranker must be 0 or more, and it has the value {y.min()}")

    def of_queries(self, queries: Queries) -> Array:
        """See :class:`RankingObjective`."""
        part = np.exp2(queries.y) - 0.5
        share = part / queries.sums(part)[queries.of_row]
        n = queries.size
        # LightGBM adds terms of second and third order, which at equal margins are the first, times such factors.
        rest = 1 / np.maximum(n - 1, 1)
        return ((1 - rest + rest**2)[queries.of_row]) * (share - 1 / n[queries.of_row])


@dataclass(frozen=True)
class Deviation(RankingObjective):
    """The relevance less its mean in the query, times a scale of the query.

    It is the response of CatBoost's QueryRMSE and QuerySoftMax (scale 1), and of YetiRank, which takes pairs of
    neighbours in random orders with the weight ``decay**rank`` times their difference of relevance.

    Parameters
    ----------
    name, left_out
        As for :class:`RankingObjective`.
    decay : float, optional
        That of YetiRank; None for a scale of 1.
    """

    name: str = "query_rmse"
    decay: float | None = None

    def of_queries(self, queries: Queries) -> Array:
        """See :class:`RankingObjective`."""
        deviation = queries.y - (queries.sums(queries.y) / queries.size)[queries.of_row]
        if self.decay is None:
            return deviation
        n = queries.size
        # Of n (n - 1) / 2 pairs, each is at one of the n - 1 neighbouring ranks equally often; a row is in n of them.
        weights = (n - 1) if self.decay == 1 else (1 - self.decay ** (n - 1)) / (1 - self.decay)
        scale = weights / np.maximum(n - 1, 1)
        return deviation * scale[queries.of_row]


@dataclass(frozen=True, eq=False)
class Queries:
    """The relevance of rows and their queries.

    Parameters
    ----------
    y : array of shape (n_rows,)
    of_row : array of int64 of shape (n_rows,)
        The query of each row, numbered from 0. Rows of a query need not be together.
    """

    y: Array
    of_row: NDArray[np.int64]

    @cached_property
    def size(self) -> Array:
        """Number of rows of each query."""
        return np.bincount(self.of_row).astype(np.float64)

    def sums(self, values: Array) -> Array:
        """Return the sum of values of rows over each query."""
        return np.bincount(self.of_row, weights=values).astype(np.float64)

    @cached_property
    def n_less(self) -> Array:
        """Number of rows of the same query that are less relevant than each row."""
        order = np.lexsort((self.y, self.of_row))
        query, y = self.of_row[order], self.y[order]
        is_first = np.ones(y.size, dtype=bool)
        is_first[1:] = (query[1:] != query[:-1]) | (y[1:] != y[:-1])
        first_equal = np.maximum.accumulate(np.where(is_first, np.arange(y.size), 0))
        n_less = np.empty(y.size)
        n_less[order] = first_equal - self._start[query]
        return n_less

    @cached_property
    def n_more(self) -> Array:
        """Number of rows of the same query that are more relevant than each row."""
        return Queries(-self.y, self.of_row).n_less

    def differences(self, gain: Array) -> tuple[Array, Array]:
        """Return the sum of differences of each row's gain to those of its query, and the sum over pairs by query."""
        order, rank = self._ranked(gain)
        compared = self.size[self.of_row] * gain - self.sums(gain)[self.of_row]
        query = self.of_row[order]
        of_pairs = np.bincount(query, weights=(2 * rank - self.size[query] + 1) * gain[order])
        return compared, of_pairs.astype(np.float64)

    def ideal_sum(self, gain: Array, discount: Discount, truncation: int | None) -> Array:
        """Return the sum of gain times discount over the first ranks of the best order of each query."""
        order, rank = self._ranked(-gain)
        weight = discount(np.arange(1, int(self.size.max()) + 1))[rank]
        if truncation is not None:
            weight = np.where(rank < truncation, weight, 0.0)
        return np.bincount(self.of_row[order], weights=gain[order] * weight).astype(np.float64)

    @cached_property
    def _start(self) -> NDArray[np.int64]:
        return np.concatenate(([0], np.cumsum(self.size)[:-1])).astype(np.int64)

    def _ranked(self, values: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return rows by query and ascending value, and the rank of each in its query from 0."""
        order = np.lexsort((values, self.of_row))
        return order, np.arange(order.size) - self._start[self.of_row[order]]


def _varies(values: Array, query: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return for each row whether its value differs from that of the first row of its query."""
    _, first, number = np.unique(query, return_index=True, return_inverse=True)
    return values != values[first][number]


def _share_of_pairs(size: Array, truncation: int | None) -> Array:
    """Return the share of pairs of ranks, in queries of some sizes, of which one is up to `truncation`."""
    rest = np.zeros_like(size) if truncation is None else np.maximum(size - truncation, 0)
    share: Array = 1 - rest * (rest - 1) / np.maximum(size * (size - 1), 1)
    return share


def _mean_gap(size: Array, discount: Discount, truncation: int | None) -> Array:
    """Return the mean of g(a) - g(b) over all pairs of ranks a < b in queries of some sizes; 0 if b is not possible.

    Pairs without a rank up to `truncation` count as 0.
    """
    largest = int(size.max())
    g = discount(np.arange(1, largest + 1))
    sums = np.concatenate(([0.0], np.cumsum(g)))
    sums_of_sums = np.concatenate(([0.0], np.cumsum(sums[1:])))
    n = size.astype(np.int64)
    k = n if truncation is None else np.minimum(n, truncation)
    a = np.arange(1, largest + 1)
    weighted = np.concatenate(([0.0], np.cumsum(a * g)))
    # The sum over a <= k and b > a: g(a) occurs n - a times, and what follows a is the sum up to n less that up to a.
    total = n * sums[k] - weighted[k] - (k * sums[n] - sums_of_sums[k])
    gap: Array = np.divide(2 * total, n * (n - 1), out=np.zeros(n.size), where=n > 1)
    return gap


def _dcg_discount(rank: NDArray[np.int64]) -> Array:
    return 1 / np.log2(1 + rank)


def _inverse_rank(rank: NDArray[np.int64]) -> Array:
    return 1 / rank


def _minus_harmonic(rank: NDArray[np.int64]) -> Array:
    return -np.cumsum(1 / rank)
