"""Tests of the comparison of evaluation rows with training rows, against brute force."""

import warnings

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


@pytest.mark.thorough
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
    ensemble = debias.plugin.extract(models("lightgbm", "classification", n_estimators=2).fit(X, y))

    def of(X):
        return row_digests(ensemble, Table(X), encode(y, ensemble, 500))

    rows = [tuple(row) for row in np.column_stack([np.where(np.isnan(X), 9, X), y])]
    assert len(set(of(X).tolist())) == len(set(rows))
    by_row = {}
    for row, digest in zip(rows, of(X).tolist(), strict=True):
        assert by_row.setdefault(row, digest) == digest
    np.testing.assert_array_equal(of(np.where(X == 0, -0.0, X)), of(X))


def told(model, X, y, train):
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        provenance = debias.score(model, X, y, train=train).provenance
    return provenance, [str(each.message) for each in heard]


def test_few_training_rows_among_fresh_ones_are_not_explained_by_repeated_rows(models):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(800, 3)), rng.normal(size=800)
    model, train = models("lightgbm", n_estimators=3).fit(X[:400], y[:400]), (X[:400], y[:400])
    mixed = np.r_[:10, 410:800]  # ten rows of both: as a division of ten pairs by chance, which has mean 5
    provenance, heard = told(model, X[mixed], y[mixed], train)
    assert any(text.startswith("2.5% of these rows are also in train=") for text in heard)
    assert provenance["status"] == "cannot be told"
    p_value = SharedRows.of(digests(mixed), digests(np.arange(400))).p_value
    assert provenance["detail"].endswith(f"as many would be with probability {p_value:.2g}")
    one = np.r_[:1, 401:800]  # a single pair is no evidence
    provenance, heard = told(model, X[one], y[one], train)
    assert heard == []
    assert provenance["status"] == "not recognised as training rows"
    assert "if all rows were divided by chance, as many would be with probability" in provenance["detail"]


def test_copies_of_repeated_training_rows_cannot_be_told(models):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 3)), rng.normal(size=400)
    train = np.tile(X[:200], (2, 1)), np.tile(y[:200], 2)
    provenance, _ = told(models("lightgbm", n_estimators=3).fit(*train), X[150:], y[150:], train)
    assert provenance["status"] == "cannot be told"
    assert provenance["detail"].endswith(
        "100.0% of the rows of train= repeat one another, so copies cannot be told from other cases"
    )
