"""The test of change of named pairs: its numbers by brute force, its error rate and its power."""

import numpy as np
import pytest
from scipy.stats import t
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from xgboost import XGBRegressor

from debias.data.groups import Grouping
from debias.p_values import holm
from debias.rows.period_sums import PeriodSums
from debias.significance.change import compare_windows
from debias.significance.pair_change import slopes

GROUP, PAIRS = np.arange(5), np.array([[0, 1], [1, 2]])
N_DAYS, N_ROWS = 12, 100


def smooth(X, pair=1.0, x0=1.0, x2=1.0, x4=0.0):
    alone = x0 * (X[:, 0] + 0.5 * X[:, 0] ** 2) + X[:, 1] + x2 * X[:, 2] ** 2 + 0.7 * np.sin(2 * X[:, 3])
    return alone + 2 * x4 * (X[:, 4] > 0.5) + pair * X[:, 0] * X[:, 1]


def steps(X, pair=1.0, x0=1.0, x2=1.0, x4=0.0):
    alone = 2 * x0 * (X[:, 0] > 0.3) + X[:, 1] + x2 * np.abs(X[:, 2])
    return alone + 2 * x4 * (X[:, 4] > 0.5) + 2 * pair * ((X[:, 0] > 0) == (X[:, 1] > 0))


NOTHING = {
    "nothing changes": ({}, {}),
    "x0 alone turns": ({"x0": -1.0}, {}),
    "x2 alone vanishes": ({"x2": 0.0}, {}),
    "x4 alone appears": ({"x4": 1.0}, {}),
    "means move": ({}, {"moved": 0.5}),
    "correlations change": ({}, {"correlation": 0.25}),
}
CHANGES = {"the pair vanishes": {"pair": 0.0}, "the pair turns": {"pair": -1.0}, "the pair halves": {"pair": 0.5}}


def rows(rng, n, correlation, moved=0.0):
    X = np.sqrt(1 - correlation) * rng.normal(size=(n, 5)) + np.sqrt(correlation) * rng.normal(size=(n, 1))
    X[:, :2] += moved
    return X


def drawn(number, library, cases):
    """The comparisons of a set, one for each case: with the pair that the truth has, and one that it has not."""
    rng = np.random.default_rng([41, number])
    correlation, truth = 0.5 * (number % 2), (smooth, steps)[number // 2 % 2]
    X = rows(rng, 1200, correlation)
    y = truth(X) + rng.normal(size=len(X))
    if library == "xgboost":
        model = XGBRegressor(n_estimators=50, max_depth=4, learning_rate=0.15, n_jobs=1)
    else:
        model = RandomForestRegressor(40, min_samples_leaf=5, max_features=0.6, random_state=number, n_jobs=1)
    empty = PeriodSums(model.fit(X, y), loss_rows=0)

    def window(effects, drift):
        periods = []
        for _ in range(N_DAYS):
            X = rows(rng, N_ROWS, **({"correlation": correlation} | drift))
            periods.append(empty.empty())
            periods[-1].watch(lambda _: (GROUP, PAIRS))
            periods[-1].update(X, truth(X, **effects) + 0.1 * rng.normal() + rng.normal(size=len(X)))
        return periods

    grouping, before = Grouping.of(None, empty.ensemble.feature_names), window({}, {})
    return {name: compare_windows(before, window(*case), grouping).pairs for name, case in cases.items()}


@pytest.mark.thorough
def test_the_numbers_are_those_of_brute_force():
    """Each period left out by itself, and Welch's test beyond the margin."""
    rng = np.random.default_rng(0)
    X = rows(rng, 600, 0.0)
    model = XGBRegressor(n_estimators=20, max_depth=3, n_jobs=1).fit(X, smooth(X))
    empty = PeriodSums(model, loss_rows=0)
    windows = []
    for pair, n_days in ((1.0, 9), (0.3, 12)):
        windows.append([])
        for day in range(n_days):
            X = rows(rng, 70 + 10 * day, 0.0)
            windows[-1].append(empty.empty())
            windows[-1][-1].watch(lambda _: (GROUP, PAIRS))
            windows[-1][-1].update(X, smooth(X, pair=pair) + rng.normal(size=len(X)))
    found = compare_windows(*windows, Grouping.of(None, empty.ensemble.feature_names), looks=3).pairs
    slope, variance, freedom = [], [], []
    for window in windows:
        total = sum((day.pairs for day in window[1:]), window[0].pairs)
        slope.append(slopes(total)[0])
        share = np.array([day.total_weight for day in window])
        share /= share.sum()
        without = np.array([slopes(total - day.pairs)[0] for day in window])
        variance.append(((1 - share)[:, None] * (slope[-1] - without) ** 2).sum(axis=0))
        freedom.append(1 / (share**2).sum() - 1)
    change, error = slope[1] - slope[0], np.sqrt(variance[0] + variance[1])
    welch = error**4 / (variance[0] ** 2 / freedom[0] + variance[1] ** 2 / freedom[1])
    margin = 0.25 * np.maximum(1, (abs(slope[0]) + abs(slope[1])) / 2)
    p_value = t.sf((abs(change) - margin) / error, welch) + t.sf((abs(change) + margin) / error, welch)
    expected = {"slope_before": slope[0], "slope_after": slope[1], "change": change, "error": error, "p_value": p_value}
    expected |= {"before_error": np.sqrt(variance[0]), "p_adjusted": holm(np.minimum(p_value, 1))}
    expected["p_before"] = holm(t.sf(slope[0] / np.sqrt(variance[0]), freedom[0]))
    expected["p_lost"] = t.sf((change + margin) / error, welch)
    expected |= {"periods_before": 9, "periods_after": 12, "rows_before": 990, "rows_after": 1500}
    for name, values in expected.items():
        np.testing.assert_allclose(found.statistics[name], values, rtol=1e-6, err_msg=name)
    assert found.level == 0.05 / 3
    assert found.changed.tolist() == [True, False]


def test_few_periods_are_told():
    rng = np.random.default_rng(0)
    X = rows(rng, 300, 0.0)
    empty = PeriodSums(XGBRegressor(n_estimators=5, max_depth=2, n_jobs=1).fit(X, smooth(X)), loss_rows=0)
    period = empty.empty()
    period.watch(lambda _: (GROUP, PAIRS))
    period.update(X, smooth(X))
    grouping = Grouping.of(None, empty.ensemble.feature_names)
    found = compare_windows([period] * 7, [period] * 8, grouping).pairs
    assert found.not_tested_because == (
        "the reference window has 7 periods with sums for these pairs, and 8 are needed"
    )
    assert np.isnan(found.statistics["p_value"]).all()
    plain = empty.empty()
    plain.update(X, smooth(X))
    assert compare_windows([plain] * 8, [plain] * 8, grouping).pairs is None


@pytest.mark.slow
@pytest.mark.parametrize("library", ["xgboost", "sklearn"])
def test_the_error_rate_is_kept_and_changes_are_found(library):
    """The numbers of docs/methods.md are of more such sets, and of two more settings."""
    cases = NOTHING | {name: (effects, {}) for name, effects in CHANGES.items()}
    found = [drawn(number, library, cases) for number in range(40)]
    for name in NOTHING:
        false = np.mean([each[name].changed.any() for each in found])
        assert false <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / len(found)), name
    for name, least in zip(CHANGES, (0.9, 0.9, 0.7), strict=True):
        assert np.mean([each[name].changed[0] for each in found]) >= least, name
        assert np.mean([each[name].changed[1] for each in found]) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / len(found)), name
    vanished = [str(each["the pair vanishes"].verdict[0]) for each in found]
    assert np.mean([verdict == "faded" for verdict in vanished]) >= 0.9


@pytest.mark.thorough
def test_a_constant_in_the_response_changes_nothing():
    """Beside a large constant, what the model does with three features would be lost in least squares."""
    found = []
    for constant in (64.0, 2.0**17):  # which round alike, so that the trees are the same
        rng = np.random.default_rng(0)
        X = rows(rng, 300, 0.5)
        model = GradientBoostingRegressor(n_estimators=30, random_state=0).fit(X, smooth(X) + constant)
        empty, windows = PeriodSums(model, loss_rows=0), []
        for pair in (1.0, 0.0):
            windows.append([])
            for _ in range(8):
                X = rows(rng, 80, 0.5)
                windows[-1].append(empty.empty())
                windows[-1][-1].watch(lambda _: (GROUP, PAIRS))
                windows[-1][-1].update(X, smooth(X, pair=pair) + constant)
        found.append(compare_windows(*windows, Grouping.of(None, empty.ensemble.feature_names)).pairs)
    for name, values in found[0].statistics.items():
        np.testing.assert_allclose(found[1].statistics[name], values, rtol=1e-5, atol=1e-9, err_msg=name)
    assert np.isfinite(found[0].statistics["p_value"]).all()
