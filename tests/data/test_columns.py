"""Compiled loops over columns, against NumPy."""

import numpy as np
import pytest

from debias.data.kernels import columns as kernels


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extremes_of_columns_are_those_of_numpy(dtype):
    rng = np.random.default_rng(0)
    for _ in range(200):
        X = rng.integers(-3, 4, size=(rng.integers(1, 40), rng.integers(1, 6))).astype(dtype) / 2
        X[rng.random(X.shape) < rng.choice([0, 0.3, 1])] = np.nan
        X[rng.random(X.shape) < 0.1] = rng.choice([np.inf, -np.inf, 0.0, -0.0])
        missing = np.isnan(X)
        above = np.where(missing, np.inf, X)
        rows = np.empty((4, X.shape[1]), dtype=np.int64)
        kernels.extremes(X, rows)
        np.testing.assert_array_equal(rows[0], above.argmin(axis=0))
        np.testing.assert_array_equal(rows[1], np.where(missing, -np.inf, X).argmax(axis=0))
        np.testing.assert_array_equal(rows[2], np.abs(above).argmin(axis=0))
        np.testing.assert_array_equal(rows[3], np.where(missing.any(axis=0), missing.argmax(axis=0), -1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distinct_values_of_columns_are_those_of_numpy(dtype):
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(1_003, 37)) * rng.choice([1, 10, 1e6], 37)).astype(dtype)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:5], X[5:9], X[9] = -0.0, 0.0, np.inf
    columns = np.flatnonzero(rng.random(37) < 0.8)
    counts = np.empty(columns.size, dtype=np.int64)
    kernels.count_distinct(X, columns, counts)
    assert counts.tolist() == [np.unique(X[:, k][~np.isnan(X[:, k])]).size for k in columns]
