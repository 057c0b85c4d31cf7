"""Rows without responses: the tests behind a column that may be broken, by the definition."""

import numpy as np
import pytest
from scipy.stats import ttest_ind

from debias.p_values import holm
from debias.significance.loss_causes import Steps
from significance.test_loss_causes import GROUPING, N_AFTER, N_BEFORE, N_ROWS, parts_of, periods, windows


def steps(fault, used=4):
    found = periods("numbers", fault)
    return Steps(np.arange(4) < used, 0.05, found[0].ensemble, GROUPING, *windows(found)), found


def of_periods(values):
    """The means of periods, which all have as many rows."""
    return values.reshape(-1, N_ROWS, values.shape[1]).mean(axis=1)


def p_values(before, after):
    """Welch's test of the means of periods."""
    assert (len(before), len(after)) == (N_BEFORE, N_AFTER)
    return ttest_ind(after, before, equal_var=False).pvalue


@pytest.mark.thorough
@pytest.mark.parametrize("fault", ["none", "values", "unit"])
def test_moved_columns_are_those_of_ranks_among_the_reference(fault):
    search, found = steps(fault)
    before, after = windows(found)
    p = np.zeros((2, 4))
    for k in range(4):
        own = before.rows.X[:, k]
        ranks = [
            np.array([((own < x).mean() + (own <= x).mean()) / 2 - 0.5 for x in window.rows.X[:, k]])[:, None]
            for window in (before, after)
        ]
        for row, power in enumerate((1, 2)):
            p[row, k] = p_values(*(of_periods(each**power) for each in ranks))[0]
    expected = holm(p.ravel()).reshape(2, 4).min(axis=0)
    np.testing.assert_allclose(search.moved_columns(), expected, rtol=1e-6)
    assert (expected[0] < 0.01) == (fault == "unit")  # a permuted column has the same values


def test_columns_that_are_not_used_are_not_tested():
    moved = steps("unit", used=2)[0].moved_columns()
    assert np.isnan(moved).tolist() == [False, False, True, True]


@pytest.mark.thorough
def test_what_is_reproduced_is_the_parts_by_the_rows():
    search, found = steps("values")
    before, after = windows(found)
    parts = [of_periods(parts_of(found, window.rows).rows) for window in (before, after)]
    assert search.reproduced() == pytest.approx(holm(p_values(*parts)).min(), rel=1e-6)
    assert search.reproduced() < 1e-3
    X = before.rows.X.copy()
    X[:, 0] = after.rows.X[search.drawn[0], 0]
    broken = parts_of(found, type(before.rows)(X, before.rows.y, before.rows.start)).rows
    at_random = holm(p_values(of_periods(broken), parts[1])).min()
    assert search.reproduced(0) >= at_random * (1 - 1e-6)
    assert search.reproduced(0) > 0.05
    assert search.reproduced(2) < 0.01  # to break another column does not explain it
