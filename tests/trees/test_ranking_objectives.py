"""Responses of ranking losses, against the mean gradient over all orders of the rows of a query."""

from itertools import permutations

import numpy as np
import pytest

from debias import RowsError
from debias.trees.ranking_objectives import AveragePrecision, CrossEntropyNdcg, Deviation, Ndcg, Pairwise

QUERIES = [[2, 0, 1, 1, 0], [0, 3], [1, 1, 0], [2], [0, 0, 0, 0], [1, 2, 0, 4, 2, 0]]


def response(objective, y, query=None, weight=None, margin=None):
    n = len(y)
    query = np.zeros(n, dtype=np.int64) if query is None else query
    margin = np.zeros(n) if margin is None else margin
    weight = np.ones(n) if weight is None else weight
    return objective.joint_response(np.asarray(y, float)[:, None], margin[:, None], weight, query)[:, 0]


def together(queries):
    """Return the relevance and the query of all rows, with the rows of queries mixed up."""
    y, query = np.concatenate(queries), np.repeat(np.arange(len(queries)), [len(each) for each in queries])
    order = np.random.default_rng(0).permutation(y.size)
    return y[order].astype(float), query[order]


def dcg(gain_in_order):
    return sum(gain / np.log2(2 + rank) for rank, gain in enumerate(gain_in_order))


def average_precision(relevant_in_order):
    found, total = 0, 0.0
    for rank, relevant in enumerate(relevant_in_order):
        found += relevant
        total += relevant * found / (rank + 1)
    return total / max(found, 1)


def change_of_ndcg(truncation):
    def change(y, i, j):
        gain = np.exp2(y) - 1
        swapped = gain.copy()
        swapped[[i, j]] = gain[[j, i]]
        ideal = dcg(np.sort(gain)[::-1][:truncation])
        return abs(dcg(gain) - dcg(swapped)) / ideal

    return change


def change_of_average_precision(y, i, j):
    swapped = y.copy()
    swapped[[i, j]] = y[[j, i]]
    return abs(average_precision(y) - average_precision(swapped))


def mean_over_orders(y, change, truncation=None):
    """Return the mean LambdaMART gradient of each row over all orders in which tied rows can stand."""
    y = np.asarray(y, float)
    total, n_orders = np.zeros(y.size), 0
    for order in permutations(range(y.size)):
        ranked = y[list(order)]
        for i in range(y.size):
            for j in range(i + 1, y.size):
                if ranked[i] != ranked[j] and (truncation is None or i < truncation):
                    step = change(ranked, i, j) / 2 * np.sign(ranked[i] - ranked[j])
                    total[order[i]] += step
                    total[order[j]] -= step
        n_orders += 1
    return total / n_orders


def by_query(queries, objective, change, truncation=None):
    """Compare the response of all queries together with the mean over orders of each query."""
    y, query = together(queries)
    got = response(objective, y, query)
    for k in range(len(queries)):
        at = query == k
        np.testing.assert_allclose(got[at], mean_over_orders(y[at], change, truncation), atol=1e-12)


@pytest.mark.parametrize("truncation", [None, 1, 3, 10])
def test_pairwise_response_is_the_mean_gradient_over_orders(truncation):
    by_query(QUERIES, Pairwise(truncation=truncation), lambda y, i, j: 1.0, truncation)


@pytest.mark.thorough
@pytest.mark.parametrize("truncation", [None, 1, 3, 10])
def test_response_of_ndcg_is_the_mean_gradient_over_orders(truncation):
    by_query(QUERIES, Ndcg(truncation=truncation), change_of_ndcg(truncation), truncation)


@pytest.mark.parametrize("truncation", [None, 1, 3])
def test_response_of_average_precision_is_the_mean_gradient_over_orders(truncation):
    queries = [[1, 0, 0, 1, 0, 1], [0, 1], [1, 1, 0], [0, 0], [1, 0, 0, 0]]
    by_query(queries, AveragePrecision(truncation=truncation), change_of_average_precision, truncation)


def test_response_of_yetirank_is_the_mean_gradient_over_orders():
    decay = 0.85
    for y in QUERIES[:3]:
        y = np.asarray(y, float)
        total = np.zeros(y.size)
        orders = list(permutations(range(y.size)))
        for order in orders:
            for rank, (i, j) in enumerate(zip(order[:-1], order[1:], strict=True)):
                total[i] += decay**rank * (y[i] - y[j]) / 2
                total[j] -= decay**rank * (y[i] - y[j]) / 2
        np.testing.assert_allclose(response(Deviation(decay=decay), y), total / len(orders), atol=1e-12)


def test_deviation_is_from_the_mean_of_the_query():
    np.testing.assert_allclose(response(Deviation(), [3.0, 1.0, 2.0], np.array([0, 0, 1])), [1.0, -1.0, 0.0])


@pytest.mark.parametrize(
    "objective", [Pairwise(), Pairwise(truncation=2, normalised=True), Ndcg(normalised=True), Ndcg(linear=True),
                  Ndcg(gains=(0.0, 1.0, 1.5, 7.0, 9.0)), CrossEntropyNdcg(), Deviation(), Deviation(decay=1.0)],
    ids=lambda objective: f"{objective.name}",
)  # fmt: skip
def test_response_sums_to_0_in_every_query_and_rises_with_relevance(objective):
    y, query = together(QUERIES)
    got = response(objective, y, query)
    np.testing.assert_allclose(np.bincount(query, weights=got), 0, atol=1e-12)
    for k in range(len(QUERIES)):
        at = query == k
        higher = y[at][:, None] > y[at]
        assert (got[at][:, None] > got[at])[higher].all()
        assert np.ptp(got[at]) == 0 or np.ptp(y[at]) > 0


def test_normalised_queries_have_log_sums():
    y = np.array(QUERIES[5], float)
    plain, normalised = response(Pairwise(), y), response(Pairwise(normalised=True), y)
    n_pairs = (y[:, None] > y).sum()
    np.testing.assert_allclose(normalised, plain * np.log2(1 + n_pairs) / n_pairs)


def test_margins_and_weights_that_differ_within_a_query_are_refused():
    y, query = together(QUERIES)
    of_query = np.arange(len(QUERIES), dtype=float)[query]
    np.testing.assert_allclose(response(Pairwise(), y, query, margin=of_query), response(Pairwise(), y, query))
    with pytest.raises(RowsError, match="base_margin differs between the rows of a query"):
        response(Pairwise(), y, query, margin=np.arange(y.size, dtype=float))
    with pytest.raises(RowsError, match="one weight for each query"):
        response(Pairwise(), y, query, weight=1 + np.arange(y.size, dtype=float))


def test_queries_without_anything_to_rank_are_refused():
    with pytest.raises(RowsError, match="each query has one row"):
        response(Pairwise(), [2, 0, 1], np.arange(3))
    with pytest.raises(RowsError, match="all rows of each query have the same relevance"):
        response(Ndcg(), [2, 2, 1, 1], np.array([0, 0, 1, 1]))
    with pytest.raises(RowsError, match="nothing can be told"):
        response(Pairwise(), [2, 0, 1, 1], np.array([0, 0, 1, 1]), weight=np.array([0.0, 0.0, 1.0, 1.0]))


@pytest.mark.parametrize(
    ("objective", "y", "said"),
    [
        (Ndcg(), [0.5, 1], "whole numbers from 0 to 31"),
        (Ndcg(gains=(0.0, 1.0)), [2, 1], "whole numbers from 0 to 1"),
        (Ndcg(linear=True), [-1, 1], "numbers of 0 or more"),
        (AveragePrecision(), [2, 0], "must be 0 or 1"),
        (CrossEntropyNdcg(), [-1, 0], "must be 0 or more"),
    ],
)
def test_relevance_out_of_range_is_refused(objective, y, said):
    with pytest.raises(RowsError, match=said):
        objective.check(np.asarray(y, float)[:, None])
