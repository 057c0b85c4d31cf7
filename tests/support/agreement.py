"""Assertions that two ways to compute scores give the same numbers."""

import numpy as np

COMPARED = ("values", "standard_error", "z", "p_value", "p_adjusted")


def assert_agree(found, expected, tolerance=1e-10):
    """Assert that arrays agree up to a share of the largest expected number, which must not be 0."""
    scale = np.abs(expected).max()
    assert scale > 0  # two arrays of zeros would agree whatever was computed
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * scale)


def assert_same_scores(found, expected):
    """Assert that two Scores have the same numbers up to rounding, the same rows and the same provenance status."""
    for name in COMPARED:
        one, other = getattr(found, name), getattr(expected, name)
        assert (one is None) == (other is None), name
        if one is not None:
            assert np.abs(one - other).max() <= 1e-12 * np.abs(other).max(), name
    assert (found.rows, found.n_rows, found.feature_names) == (expected.rows, expected.n_rows, expected.feature_names)
    assert found.provenance["status"] == expected.provenance["status"]
