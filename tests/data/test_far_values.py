"""Values far from all others are told apart from columns that are spread widely."""

import numpy as np
import pytest

from debias.plugin import apart_from_far

X = np.random.default_rng(0).normal(size=300)


@pytest.mark.parametrize("low", [None, -np.inf, -9e20])
@pytest.mark.parametrize("high", [None, np.inf, 1e10])
def test_each_side_has_an_indicator_and_the_rest_is_kept(low, high):
    values, rows_far = X.copy(), []
    for far, begin in ((low, 0), (high, 5)):
        if far is not None:
            values[begin : begin + 5] = far
            rows_far.append(np.arange(300) // 5 == begin // 5)
    near, far = apart_from_far(values)
    np.testing.assert_array_equal(far, np.column_stack([np.empty((300, 0)), *rows_far]))
    is_far = far.any(axis=1)
    np.testing.assert_array_equal(near[~is_far], X[~is_far])
    assert (near[is_far] == np.median(X[~is_far])).all()


def test_a_code_of_many_rows_is_far_from_the_others():
    values = X.copy()
    values[:120] = -1e9
    near, far = apart_from_far(values)
    np.testing.assert_array_equal(far[:, 0], np.arange(300) < 120)
    assert np.abs(near).max() < 5


@pytest.mark.parametrize(
    "values",
    [np.exp(3 * X), np.random.default_rng(1).standard_cauchy(300), np.array([0.0, 1e10] * 50), np.zeros(9), 1e300 * X],
)
def test_wide_columns_and_those_of_two_values_are_kept(values):
    near, far = apart_from_far(values)
    np.testing.assert_array_equal(near, values)
    assert far.shape == (len(values), 0)


def test_of_a_column_without_a_number_the_signs_are_left():
    near, far = apart_from_far(np.array([np.inf, -np.inf]))
    np.testing.assert_array_equal(near, [0, 0])
    np.testing.assert_array_equal(far, [[0, 1], [1, 0]])
