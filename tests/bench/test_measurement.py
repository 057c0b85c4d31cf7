"""Rates of data sets, as the pages of measurements show them."""

import numpy as np
import pytest

from debias_bench.measurement import holds, rate_of


def test_a_share_of_none_or_all_has_the_standard_error_of_one_other():
    for found in (np.zeros(100), np.ones(100)):
        assert rate_of(found) == (found[0], pytest.approx(np.sqrt(0.01 * 0.99 / 100)))


def test_a_test_of_level_5_percent_holds_it_up_to_two_standard_errors():
    """Of 100 data sets .05 + 2 * .0218 = .0936: nine."""
    assert holds(np.arange(100) < 9)
    assert not holds(np.arange(100) < 10)
