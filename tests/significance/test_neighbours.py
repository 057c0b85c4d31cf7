"""Tests of the check whether consecutive rows are alike."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from debias.significance.dependent_rows import alike_neighbours, block_means, reach_of, stretches
from support.simulated import autoregressive

N, P = 300, 6


def clusters(rng, shape, size):
    """Columns in clusters of consecutive rows; half of the variance is between clusters."""
    n_rows, n_columns = shape
    between = rng.normal(size=(n_rows, n_columns))[np.arange(n_rows) // size]
    return (between + rng.normal(size=shape)) / np.sqrt(2)


def rows(kind, rng):
    """Return y, shape (N, 1), and X."""
    X, y = rng.normal(size=(N, P)), rng.normal(size=N)
    if kind == "y depends":
        y = autoregressive(rng, (N, 1), 0.8)[:, 0]
    if kind == "y of two values depends":
        X, y = X > 1.5, autoregressive(rng, (N, 1), 0.8)[:, 0] > 0
    if kind == "X depends":
        X = autoregressive(rng, (N, P), 0.8)
    if kind == "sorted by class":
        y = np.sort(rng.integers(0, 3, N))
        X[:, :3] += y[:, None]
    if kind == "sorted by y":
        y = X[:, 0] + X[:, 1] + rng.normal(size=N)
        X, y = X[np.argsort(y)], np.sort(y)
    if kind == "sorted by y that is nearly X":
        X = X + 2 * rng.normal(size=(N, 1))
        y = X[:, 0] + 0.3 * rng.normal(size=N)
        X, y = X[np.argsort(y)], np.sort(y)
    if kind == "sorted by a feature":
        X = X + rng.normal(size=(N, 1))
        order = np.argsort(X[:, 0])
        X, y = X[order], (X[:, 0] + y)[order]
    if kind == "series":
        both = autoregressive(rng, (N, P + 1), 0.8)
        X, y = both[:, 1:], both[:, 0]
    if kind == "classes of a series":
        both = autoregressive(rng, (N, P + 1), 0.8)
        X, y = both[:, 1:], both[:, 0] > 0
    if kind == "one feature of a series":
        both = autoregressive(rng, (N, 2), 0.8)
        X[:, 3], y = both[:, 1], both[:, 0]
    if kind == "clusters":
        both = clusters(rng, (N, P + 1), 3)
        X, y = both[:, 1:], both[:, 0]
    return np.asarray(y, dtype=np.float64)[:, None], np.asarray(X, dtype=np.float64)


@pytest.mark.parametrize("kind", ["series", "classes of a series", "one feature of a series", "clusters"])
def test_dependent_rows_are_found(kind):
    found = [alike_neighbours(*rows(kind, np.random.default_rng(seed))) for seed in range(5)]
    assert all(columns is not None for columns in found)
    if kind == "one feature of a series":
        assert {columns[0] for columns in found} == {3}


INDEPENDENT = [
    *("both independent", "y depends", "y of two values depends", "X depends"),
    *("sorted by class", "sorted by y", "sorted by y that is nearly X", "sorted by a feature"),
]


@pytest.mark.thorough
@pytest.mark.parametrize("kind", INDEPENDENT)
def test_independent_rows_are_hardly_ever_taken_for_dependent_ones(kind):
    """At most 1 in 100: the data that are tested have a probability below 1e-4 to be found more often than that."""
    found = sum(alike_neighbours(*rows(kind, np.random.default_rng(seed))) is not None for seed in range(12))
    assert binomtest(found, 12, 0.01, alternative="greater").pvalue > 1e-4  # `slow` draws 400


@pytest.mark.slow
@pytest.mark.parametrize("kind", INDEPENDENT)
def test_the_rate_of_false_alarms_is_kept(kind):
    found = sum(alike_neighbours(*rows(kind, np.random.default_rng(seed))) is not None for seed in range(400))
    assert binomtest(found, 400, 0.01, alternative="greater").pvalue > 1e-3


def test_what_no_tree_uses_and_columns_that_rows_are_sorted_by_are_left_out():
    y, X = rows("one feature of a series", np.random.default_rng(0))
    assert alike_neighbours(y, X, np.array([1, 1, 1, 0, 1, 1])) is None
    assert alike_neighbours(y, np.arange(N)[:, None] * [1.0, -1.0]) is None


def test_missing_values_do_not_matter_much():
    rng = np.random.default_rng(0)
    y, X = rows("series", rng)
    X[rng.random(X.shape) < 0.2] = np.nan
    X[:, 0] = np.nan
    columns = alike_neighbours(y, X)
    assert 0 not in columns
    assert columns.size >= 3


def test_the_answer_is_the_same_in_every_call():
    y, X = rows("series", np.random.default_rng(1))
    np.testing.assert_array_equal(alike_neighbours(y, X), alike_neighbours(y, X))


def test_of_many_features_those_that_the_model_uses_most_are_examined():
    both = autoregressive(np.random.default_rng(0), (1000, 151), 0.7)
    columns = alike_neighbours(both[:, :1], both[:, 1:], np.arange(150))
    assert columns.size == 100
    assert columns.min() == 50


def test_of_many_rows_stretches_from_all_parts_are_examined():
    np.testing.assert_array_equal(stretches(2000, 50), np.arange(2000))
    rows = stretches(100_000, 50)
    assert rows.size == 2000
    assert (rows[0], rows[-1]) == (0, 99_999)
    assert (np.diff(rows) > 1).sum() == 9  # ten stretches
    assert stretches(100_000, 5000).size == 1000


def test_few_rows_are_not_examined():
    y, X = np.arange(19.0)[:, None], np.arange(19.0)[::-1, None] ** 2
    assert alike_neighbours(y, X + np.sin(y)) is None


def test_means_of_blocks_are_in_the_order_in_which_blocks_appear():
    values = np.array([[1.0, np.nan], [5.0, 2.0], [3.0, np.nan], [7.0, 4.0], [0.0, 1.0]])
    means = block_means(values, np.array([4, 1, 4, 1, 9]))
    np.testing.assert_array_equal(means, [[2, np.nan], [6, 3], [0, 1]])


def test_the_reach_is_that_of_the_autocorrelation():
    """Of AR(1) .8 and 4,000 rows, .8^lag is below 2 / sqrt(4,000) = .032 from lag 16; moving sums of 5 reach 4 rows."""
    rng = np.random.default_rng(0)
    both = autoregressive(rng, (4000, 5), 0.8)
    assert 10 <= reach_of(both[:, :1], both[:, 1:]) <= 40
    noise = rng.normal(size=(4004, 2))
    sums = sum(noise[at : at + 4000] for at in range(5))
    assert 4 <= reach_of(sums[:, :1], sums[:, 1:]) <= 6
    assert reach_of(noise[:, :1], noise[:, 1:]) == 1
