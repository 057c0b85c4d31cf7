"""Thresholds in the precision of the rows."""

import numpy as np

from debias.trees.kernels import nodes as kernels


def test_numbers_are_rounded_down_to_the_next_float():
    rng = np.random.default_rng(0)
    values = np.concatenate(
        [
            rng.normal(size=2_000) * 10.0 ** rng.integers(-50, 39, 2_000),
            np.float32(rng.normal(size=500)),
            [0.0, -0.0, 1e-50, -1e-50, 1e300, -1e300, np.inf, -np.inf, 16777217.0, -16777217.0],
        ]
    )
    rounded = np.empty(values.size, dtype=np.float32)
    kernels.round_down(values, rounded)
    with np.errstate(over="ignore"):
        nearest = values.astype(np.float32)
    expected = np.where(nearest > values, np.nextafter(nearest, np.float32(-np.inf)), nearest)
    np.testing.assert_array_equal(rounded, expected)
    assert (rounded <= values).all()
    exact = np.empty_like(values)
    kernels.round_down(values, exact)
    np.testing.assert_array_equal(exact, values)
