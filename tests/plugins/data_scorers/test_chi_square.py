import numpy as np
import pytest
from scipy import special, stats

from debias_plugins.data_scorers.kernels.chi_square import log_tail, quantile_1df


@pytest.mark.parametrize("df", [1, 2, 3, 7, 30, 200, 5000])
def test_the_log_of_the_tail_is_scipys_where_that_does_not_underflow(df):
    x = df * np.array([1e-6, 0.01, 0.3, 0.9, 1, 1.1, 1.5, 2])
    expected = stats.chi2.logsf(x, df)
    kept = expected > -600
    found = np.array([log_tail(each, df) for each in x])
    np.testing.assert_allclose(found[kept], expected[kept], rtol=1e-9, atol=1e-12)


def test_far_out_the_log_of_the_tail_is_that_of_the_normal_and_of_the_exponential():
    x = np.array([50.0, 500, 5e3, 5e5])
    np.testing.assert_allclose([log_tail(each, 1) for each in x], np.log(2) + special.log_ndtr(-np.sqrt(x)), rtol=1e-12)
    np.testing.assert_allclose([log_tail(each, 2) for each in x], -x / 2, rtol=1e-13)


def test_quantiles_are_squares_of_normal_quantiles_from_log_p():
    log_p = -np.array([1e-12, 1e-6, 1e-3, 0.1, 0.5, 0.7, 1, 3, 30, 700, 1e4, 1e6])
    expected = special.ndtri_exp(log_p - np.log(2)) ** 2
    np.testing.assert_allclose([quantile_1df(each) for each in log_p], expected, rtol=1e-7, atol=1e-20)
    np.testing.assert_allclose([log_tail(quantile_1df(each), 1) for each in log_p[2:]], log_p[2:], rtol=1e-11)


def test_the_ends():
    assert log_tail(0.0, 3) == log_tail(5.0, 0) == 0
    assert quantile_1df(0.0) == 0
