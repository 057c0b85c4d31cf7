import numpy as np
import pytest

from debias.rows.dependent_columns import dependent


@pytest.fixture
def columns():
    rng = np.random.default_rng(0)
    x, code = rng.normal(size=(600, 3)), rng.integers(0, 6, 600).astype(float)
    x[rng.random(600) < 0.3, 2] = np.nan
    shown = {
        "x": x[:, 0],
        "its exponential": np.exp(3 * x[:, 0]),
        "its square": x[:, 0] ** 2,
        "alone": x[:, 1],
        "code": code,
        "part of the code": np.isin(code, [1, 4]).astype(float),
        "sometimes missing": x[:, 2],
        "where it is missing": np.isnan(x[:, 2]) * 1.0,
        "constant": np.ones(600),
        "only missing": np.full(600, np.nan),
    }
    return list(shown), np.column_stack(list(shown.values()))


def test_pairs_that_depend_on_one_another_are_found(columns):
    names, X = columns
    found = dependent(X, np.array([name == "code" for name in names]), 0.2)
    pairs = {(names[i], names[j]) for i, j in zip(*np.nonzero(np.triu(found, 1)), strict=True)}
    assert pairs == {
        ("x", "its exponential"),
        ("x", "its square"),
        ("its exponential", "its square"),
        ("code", "part of the code"),
        ("sometimes missing", "where it is missing"),
    }
    np.testing.assert_array_equal(found, found.T)
    assert found.diagonal().all()


def test_a_category_with_other_numbers_is_found():
    rng = np.random.default_rng(2)
    code = rng.integers(0, 8, 400).astype(float)
    X = np.column_stack([code, np.where(code == 2, 3.0, 0.0) + rng.normal(size=400)])
    assert dependent(X, np.array([True, False]), 0.4)[0, 1]
    assert not dependent(X, np.zeros(2, dtype=bool), 0.4)[0, 1]  # it shows less if the code is read as a number


def test_a_monotone_pair_is_found_at_its_rank_correlation():
    from scipy.stats import spearmanr

    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 2)) @ np.array([[1, 0.4], [0, 1]])
    correlation = abs(spearmanr(X).statistic)
    numeric = np.zeros(2, dtype=bool)
    assert dependent(X, numeric, correlation - 1e-8)[0, 1]  # 1e-9 is taken for rounding
    assert not dependent(X, numeric, correlation + 1e-8)[0, 1]


def test_many_columns_are_compared_in_parts(monkeypatch, columns):
    names, X = columns
    categorical = np.array([name == "code" for name in names])
    whole = dependent(X, categorical, 0.2)
    monkeypatch.setattr("debias.rows.dependent_columns.COLUMNS_AT_ONCE", 3)
    np.testing.assert_array_equal(dependent(X, categorical, 0.2), whole)


def test_the_order_of_the_rows_does_not_decide_about_a_correlation_of_just_the_least():
    rng, ranks = np.random.default_rng(0), np.arange(1.0, 21)
    centred = ranks - ranks.mean()
    drawn = (rng.permutation(20) for _ in range(10_000))
    exact = [order for order in drawn if 5 * (centred @ centred[order]) == centred @ centred][:5]
    assert len(exact) == 5
    for order in exact:
        X = np.column_stack([ranks, ranks[order]])
        assert all(dependent(X[rng.permutation(20)], np.zeros(2, dtype=bool), 0.2).all() for _ in range(30))


@pytest.mark.parametrize("n_rows", [50, 700, 3000])
def test_products_in_parts_are_those_of_all_rows(n_rows, monkeypatch):
    X = np.random.default_rng(1).normal(size=(n_rows, 30))
    X[:, 1] += 0.4 * X[:, 0]
    found = dependent(X, np.zeros(30, dtype=bool), 0.2)
    monkeypatch.setattr("debias.rows.dependent_columns.SMALL_PRODUCT", 0)
    np.testing.assert_array_equal(dependent(X, np.zeros(30, dtype=bool), 0.2), found)
    assert found[0, 1]
