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
