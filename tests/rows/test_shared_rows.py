"""Tests of the comparison of evaluation rows with training rows, against brute force."""

import numpy as np
import pytest

import debias
from debias.data.response import encode
from debias.data.table import Table
from debias.rows.shared_rows import SharedRows, row_digests


def digests(rows):
    return np.asarray(rows, dtype=np.uint64)


def test_shares_are_those_of_a_count_by_hand():
    found = SharedRows.of(digests([1, 1, 2, 3, 9]), digests([1, 2, 2, 4, 5]))
    assert found.share == 3 / 5
    assert found.repeated == 2 / 5
    assert found.beyond_chance == pytest.approx((0.6 - 0.4) / 0.6)


@pytest.mark.parametrize("n_values", [30, 300, 3000])
@pytest.mark.parametrize("at_random", [0.25, 0.6])
def test_rows_divided_by_chance_are_hardly_ever_more_than_chance(n_values, at_random):
    """The p-value is that of 2,000 random divisions: mean and spread of the number of shared rows agree."""
    rng = np.random.default_rng(n_values)
    rows = digests(rng.integers(0, n_values, 400))
    n_here = int(400 * at_random)
    order = np.argsort(rng.random((2000, 400)), axis=1)
    found = [SharedRows.of(rows[k[:n_here]], rows[k[n_here:]]) for k in order]
    p_values = np.array([each.p_value for each in found])
    assert (p_values < 0.05).mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 2000)
    assert np.mean([each.more_than_chance for each in found]) <= 0.003


@pytest.mark.parametrize("n_values", [3000, 10**9])
def test_training_rows_among_others_are_more_than_chance(n_values):
    rng = np.random.default_rng(0)
    train, fresh = np.split(digests(rng.integers(0, n_values, 900)), [600])
    found = SharedRows.of(np.concatenate([train[:150], fresh[:150]]), train)
    assert found.more_than_chance
    assert found.too_many
    assert found.beyond_chance == pytest.approx(0.5, abs=0.1)


def test_digests_are_equal_for_equal_rows_only(models):
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 3, (500, 4)).astype(float), rng.integers(0, 2, 500)
    X[rng.random(X.shape) < 0.1] = np.nan
    ensemble = debias.extract(models("lightgbm", "classification", n_estimators=2).fit(X, y))

    def of(X):
        return row_digests(ensemble, Table(X), encode(y, ensemble, 500))

    rows = [tuple(row) for row in np.column_stack([np.where(np.isnan(X), 9, X), y])]
    assert len(set(of(X).tolist())) == len(set(rows))
    by_row = {}
    for row, digest in zip(rows, of(X).tolist(), strict=True):
        assert by_row.setdefault(row, digest) == digest
    np.testing.assert_array_equal(of(np.where(X == 0, -0.0, X)), of(X))
