"""The comparison of two windows, against a brute force of its definition, and against what was simulated."""

import numpy as np
import pytest
from scipy.stats import t as student
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from xgboost import XGBClassifier, XGBRegressor

import debias
from debias.data.groups import Grouping
from debias.p_values import holm
from debias.rows.period_sums import PeriodSums
from debias.rows.shift import compare_shares
from debias.significance import change
from debias.significance.change import ENOUGH_PERIODS, MOST_GROUPS, compare_windows
from debias_bench import change as bench
from support.windows import compared

SIZES = (30, 45, 38)
"""Numbers of rows of the periods of a window."""


def drawn(seed, n, factor=1.0, moved=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[:, 0] += moved
    return X, factor * X[:, 0] + X[:, 1] + rng.normal(size=n)


def boosted(kind, **settings):
    return kind(n_estimators=6, max_depth=3, n_jobs=1, random_state=0, **settings)


MODELS = {
    "forest": RandomForestRegressor(5, min_samples_leaf=5, random_state=0),
    "forest of classes": RandomForestClassifier(5, min_samples_leaf=5, random_state=0),
    "XGBoost": boosted(XGBRegressor),
    "XGBoost, three classes": boosted(XGBClassifier),
}


@pytest.fixture(scope="module", params=MODELS)
def case(request):
    """A model, and the rows of the periods of two windows as tuples (X, y, weight)."""
    model = MODELS[request.param]
    with_classes = hasattr(model, "predict_proba")

    def labelled(X, y):
        return X, np.digitize(y, [-1.0, 1.0]) if with_classes else y

    model.fit(*labelled(*drawn(0, 300)))
    rng = np.random.default_rng(9)
    windows = [
        [
            (*labelled(*drawn(100 + 10 * k + j, n, 1.0 - 0.5 * k, 0.3 * k)), rng.uniform(0.5, 2, n))
            for j, n in enumerate(SIZES)
        ]
        for k in (0, 1)
    ]
    return model, windows


@pytest.fixture(scope="module")
def forest():
    return RandomForestRegressor(20, min_samples_leaf=5, random_state=0).fit(*drawn(0, 600))


def summed(model, periods):
    empty = PeriodSums(model)
    sums = [empty.empty() for _ in periods]
    for period, rows in zip(sums, periods, strict=True):
        period.update(*rows)
    return sums


def found(model, before, after, groups=None, **settings):
    before, after = summed(model, before), summed(model, after)
    return compare_windows(before, after, Grouping.of(groups, before[0].ensemble.feature_names), **settings)


def stream(seed, n_periods, n_rows=200, **how):
    return [drawn(1000 * seed + k, n_rows, **how) for k in range(n_periods)]


def rows_of(model, periods):
    """Return X, response, residual and weight of all rows, as the brute force takes them."""
    X, y, weight = (np.concatenate(part) for part in zip(*periods, strict=True))
    if hasattr(model, "predict_proba"):
        response = np.eye(3)[y]
        return X, response, response - model.predict_proba(X), weight
    return X, y[:, None], (y - model.predict(X))[:, None], weight


def test_numbers_are_those_of_the_definition(case):
    model, windows = case
    comparison = found(model, *windows)
    ensemble = PeriodSums(model).ensemble
    expected = compared(ensemble, *(rows_of(model, window) for window in windows))
    close = {"rtol": 1e-4, "atol": 1e-6}  # libraries predict in float32
    for name in ("before", "after", "response_change", "believed"):
        np.testing.assert_allclose(getattr(comparison, name), expected[name], **close, err_msg=name)
    np.testing.assert_allclose(comparison.slope_before, expected["slopes"][0], **close)
    np.testing.assert_allclose(comparison.slope_after, expected["slopes"][1], **close)
    np.testing.assert_allclose(comparison.change, comparison.response_change + comparison.rows_change)
    np.testing.assert_allclose(comparison.change, comparison.after - comparison.before)
    for window, scores in zip(windows, (comparison.before, comparison.after), strict=True):
        X, y, weight = (np.concatenate(part) for part in zip(*window, strict=True))
        own = debias.score(model, X, y, rows="held-out", sample_weight=weight)
        np.testing.assert_allclose(scores, own.values, rtol=1e-9)


@pytest.mark.thorough
def test_errors_between_periods_are_those_of_comparisons_without_a_period(forest):
    windows = [summed(forest, stream(1, 9, 60)), summed(forest, stream(2, ENOUGH_PERIODS, 80, factor=0.5))]
    grouping = Grouping.of(None, windows[0][0].ensemble.feature_names)
    comparison = compare_windows(*windows, grouping)
    assert comparison.method == "between periods"
    variance, parts = np.zeros(4), []
    of_score = [comparison.before_error, comparison.after_error]
    for k, window in enumerate(windows):
        scores, changes = [], []
        for out in range(len(window)):
            others = list(windows)
            others[k] = window[:out] + window[out + 1 :]
            without = compare_windows(*others, grouping)
            scores.append((without.before, without.after)[k])
            changes.append(without.response_change)
        share = 1 / len(window)
        whole = (comparison.before, comparison.after)[k]
        np.testing.assert_allclose(of_score[k] ** 2, (1 - share) * ((scores - whole) ** 2).sum(axis=0), rtol=1e-8)
        parts.append((1 - share) * ((np.array(changes) - comparison.response_change) ** 2).sum(axis=0))
        variance += parts[-1]
    np.testing.assert_allclose(comparison.response_error**2, variance, rtol=1e-8)
    welch = variance**2 / (parts[0] ** 2 / 8 + parts[1] ** 2 / 7)
    np.testing.assert_allclose(comparison.degrees_of_freedom, welch, rtol=1e-8)
    t = comparison.response_change / comparison.response_error
    np.testing.assert_allclose(comparison.t, t)
    exact = compare_windows(*windows, grouping, least=0.0)
    np.testing.assert_allclose(exact.p_value, 2 * student.sf(np.abs(t), welch), rtol=1e-8)
    np.testing.assert_allclose(exact.p_adjusted, holm(exact.p_value))
    margin = 0.25 * comparison.believed / comparison.response_error
    beyond = student.sf(np.abs(t) - margin, welch) + student.sf(np.abs(t) + margin, welch)
    np.testing.assert_allclose(comparison.p_value, beyond, rtol=1e-8)


@pytest.mark.thorough
def test_errors_within_and_between_periods_agree_if_rows_are_independent(forest):
    """Means over 8 pairs of windows, with 14 degrees of freedom each: the relative error of a mean is .13."""
    of_few, of_many = [], []
    for seed in range(8):
        before, after = stream(2 * seed, 8, 60), stream(2 * seed + 1, 8, 60)
        of_many.append(found(forest, before, after))
        joined = [tuple(np.concatenate(part) for part in zip(*window, strict=True)) for window in (before, after)]
        of_few.append(found(forest, joined[:1], joined[1:]))
    assert of_few[0].method == "within periods"
    for name in ("response_error", "before_error", "after_error"):
        variances = [np.mean([getattr(each, name) ** 2 for each in group], axis=0) for group in (of_few, of_many)]
        np.testing.assert_allclose(variances[0][:2], variances[1][:2], rtol=0.5)


@pytest.mark.thorough
def test_one_window_of_many_periods_shows_how_days_differ(forest):
    """The effect of the first feature differs by day: one day alone does not show this."""
    rng = np.random.default_rng(0)
    days = [drawn(k, 300, factor=1 + 0.5 * rng.normal()) for k in range(21)]
    many, alone = found(forest, days[:20], days[20:]), found(forest, days[19:20], days[20:])
    assert many.method == "between periods of one window"
    assert many.response_error[0] > 2 * alone.response_error[0]
    reversed_windows = found(forest, days[20:], days[:20])
    np.testing.assert_allclose(reversed_windows.response_error, many.response_error, rtol=1e-8)
    np.testing.assert_allclose(reversed_windows.response_change, -many.response_change, rtol=1e-8)


@pytest.mark.thorough
def test_many_periods_are_compared_in_groups(forest):
    days = stream(3, 2 * MOST_GROUPS, 20)
    pairs = [tuple(np.concatenate(part) for part in zip(*days[k : k + 2], strict=True)) for k in range(0, len(days), 2)]
    single, joined = found(forest, days, stream(4, 10)), found(forest, pairs, stream(4, 10))
    for name in ("response_change", "response_error", "before_error", "shift"):
        np.testing.assert_allclose(getattr(single, name), getattr(joined, name), rtol=1e-6, atol=1e-9)
    assert single.n_periods == (40, 10)


@pytest.mark.thorough
def test_a_change_of_the_response_is_told_from_a_drift_of_the_rows(forest):
    before = stream(5, 10)
    stationary = found(forest, before, stream(6, 10))
    assert not (stationary.changed | stationary.faded | stationary.shifted).any()
    assert stationary.informative_before.tolist() == [True, True, False, False]
    drifted = found(forest, before, stream(7, 10, moved=0.7))
    assert not (drifted.changed | drifted.faded).any()
    assert drifted.shifted.tolist() == [True, False, False, False]
    assert drifted.left_after[0] < drifted.left_before[0]
    faded = found(forest, before, stream(8, 10, factor=0.0))
    assert faded.changed.tolist() == faded.faded.tolist() == faded.undetected.tolist() == [True, False, False, False]
    assert faded.slope_after[0] == pytest.approx(0, abs=0.15)
    assert abs(faded.rows_change[0]) < 0.2 * abs(faded.response_change[0])
    weaker = found(forest, before, stream(9, 10, factor=0.4))
    assert (weaker.changed[0], weaker.faded[0], weaker.informative_after[0]) == (True, False, True)


def test_a_window_without_power_is_not_fading(forest):
    few = found(forest, stream(5, 10), stream(6, 1, 12))
    assert not few.informative_after[:2].any()
    assert few.undetected[:2].all()
    assert not few.faded.any()


def test_the_scale_of_weights_does_not_matter(case):
    model, windows = case
    doubled = [[(X, y, 2 * weight) for X, y, weight in window] for window in windows]
    one, two = found(model, *windows), found(model, *doubled)
    for name in ("before", "response_change", "response_error", "before_error", "shift", "shift_p_value", "t"):
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-8, atol=1e-12)


@pytest.mark.thorough
def test_groups_of_features_are_compared_by_their_sums(forest):
    windows = stream(5, 10), stream(8, 10, factor=0.0)
    single, grouped = found(forest, *windows), found(forest, *windows, groups={"pair": ["x0", "x2"]})
    assert grouped.names == ("pair", "x1", "x3")
    assert grouped.before[0] == pytest.approx(single.before[0] + single.before[2])
    assert grouped.changed.tolist() == [True, False, False]
    few = found(forest, windows[0][:2], windows[1][:2], groups={"pair": ["x0", "x2"]})
    apart = found(forest, windows[0][:2], windows[1][:2])
    assert few.before_error[0] == pytest.approx(apart.before_error[[0, 2]].sum())  # the largest that it can be


def apart(seed, low, high, slope):
    """Periods whose first column is between two bounds."""
    periods = []
    for k in range(10):
        rng = np.random.default_rng([seed, k])
        X = rng.normal(size=(200, 4))
        X[:, 0] = rng.uniform(low, high, 200)
        periods.append((X, slope * X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=200)))
    return periods


@pytest.mark.parametrize("slope", [1.0, 0.3, -1.0])
def test_a_feature_is_untested_if_the_rows_at_its_splits_cannot_be_compared(slope):
    """The first column is below 0 before and above 0 after: no leaf below its splits has rows of both windows."""
    X, y = drawn(0, 1500)
    model = boosted(XGBRegressor).fit(np.clip(X, -2, 2), y)
    comparison = found(model, apart(1, -2, 0, 1.0), apart(2, 0, 2, slope))
    assert np.isnan([comparison.response_error[0], comparison.p_value[0], comparison.p_adjusted[0]]).all()
    assert not comparison.changed[0]
    assert comparison.shifted[0]
    assert np.isfinite(comparison.p_value[1])
    assert comparison.warnings[0].startswith("the change of f0, f2 was not tested: less than 10% of what the splits on")


@pytest.mark.thorough
def test_a_change_in_the_few_rows_that_can_be_compared_counts():
    X, y = drawn(0, 1500)
    forest = RandomForestRegressor(20, min_samples_leaf=5, random_state=0).fit(np.clip(X, -2, 2), y)
    for slope, changed in ((1.0, False), (-3.0, True)):
        comparison = found(forest, apart(1, -2, 0.1, 1.0), apart(2, -0.1, 2, slope))
        assert comparison.changed[0] == changed
        assert np.isnan(comparison.response_error[0]) != changed
        assert np.isnan(comparison.p_adjusted[0]) != changed


def test_whether_the_response_to_a_feature_without_splits_changed_is_not_known():
    X, y = drawn(0, 400)
    X[:, 3] = 0
    forest = RandomForestRegressor(5, min_samples_leaf=5, random_state=0).fit(X, y)
    comparison = found(forest, stream(1, 9), stream(2, 9))
    assert not comparison.used[3]
    assert np.isnan([comparison.response_error[3], comparison.p_adjusted[3], comparison.shift[3]]).all()
    assert not [comparison.changed[3], comparison.shifted[3], comparison.kept[3]].count(True)


def test_a_split_that_divides_no_rows_tells_nothing(forest):
    """A column that is stuck at one value in both windows."""
    windows = [[(np.column_stack([np.full(len(y), 9.0), X[:, 1:]]), y) for X, y in stream(k, 9)] for k in (1, 2)]
    comparison = found(forest, *windows)
    assert np.isnan(comparison.p_value[0])
    assert np.isfinite(comparison.p_value[1:]).all()


@pytest.mark.slow
@pytest.mark.parametrize(("n_before", "n_after"), [(100, 3), (1000, 10), (1000, 40)])
def test_a_day_that_is_not_complete_is_no_change(n_before, n_after):
    """Nothing changes, and the recent day has few rows: errors are for these, not for those of a whole day."""
    n_trials, n_false, n_noise = 16, 0, 0
    for trial in range(n_trials):
        if trial % 8 == 0:
            X, y = drawn([trial, 0], 1500)
            empty = PeriodSums(XGBRegressor(n_estimators=60, max_depth=3, learning_rate=0.15, n_jobs=1).fit(X, y))
        windows = []
        for n_periods, n_rows in ((12, n_before), (1, n_after)):
            window = [empty.empty() for _ in range(n_periods)]
            for k, sums in enumerate(window):
                sums.update(*drawn([trial, 1 + n_periods, k], n_rows))
            windows.append(window)
        comparison = compare_windows(*windows, Grouping.of(None, empty.ensemble.feature_names))
        n_false += comparison.changed.any()
        n_noise += comparison.informative_after[2:].any()
    # More than 4 of 16 have a probability of .001 at 5 % (before, 4 to 34 of 40 were false).
    assert n_false <= 4
    assert n_noise <= 4


@pytest.mark.thorough
def test_a_single_day_varies_as_a_day_of_a_long_window(forest):
    """The periods of a long window are joined to groups: a single day does not vary as a group does."""
    rng = np.random.default_rng(0)
    rows = [drawn([3, k], 60, 1 + 0.6 * rng.normal()) for k in range(120)]
    days = summed(forest, rows)
    grouping = Grouping.of(None, days[0].ensemble.feature_names)
    after = summed(forest, [drawn(7, 60)])
    comparison = compare_windows(days, after, grouping)
    assert (comparison.after_error > 3 * comparison.before_error).all()  # of one day, and of 120
    assert comparison.n_periods == (120, 1)


@pytest.mark.thorough
def test_few_recent_periods_vary_at_least_as_they_differ_where_few_rows_count(forest, monkeypatch):
    monkeypatch.setattr(change, "MANY_ROWS", np.inf)
    rng = np.random.default_rng(5)
    days = [drawn([4, k], 60) for k in range(24)]
    recent = [drawn([5, k], 60, factor=1 + rng.normal()) for k in range(3)]  # far more than those of the reference
    before, after = summed(forest, days), summed(forest, recent)
    grouping = Grouping.of(None, before[0].ensemble.feature_names)
    comparison = compare_windows(before, after, grouping)
    without = [compare_windows(before, after[:k] + after[k + 1 :], grouping) for k in range(3)]
    own = 2 / 3 * sum((each.response_change - comparison.response_change) ** 2 for each in without)
    of_reference = compare_windows(before, before[:3], grouping).response_error[0] ** 2
    assert own[0] > 3 * of_reference
    assert comparison.response_error[0] ** 2 > own[0]
    np.testing.assert_allclose(comparison.response_error[0] ** 2, own[0], rtol=0.1)  # that of the reference is small


def test_a_change_that_began_within_the_recent_periods_is_found(forest):
    """With many rows, days that differ for this reason are not taken for noise."""
    days = summed(forest, [drawn([6, k], 100) for k in range(24)])
    recent = summed(forest, [drawn([7, k], 100, factor=float(k < 2)) for k in range(7)])  # five of seven
    comparison = compare_windows(days, recent, Grouping.of(None, days[0].ensemble.feature_names), looks=365)
    assert comparison.changed.tolist() == [True, False, False, False]


@pytest.mark.thorough
@pytest.mark.parametrize("n_recent", [1, 3, 7])
def test_a_skewed_response_is_seldom_found_to_change(n_recent):
    """A few rows of the long tail change neither the mean nor the effect of the features at whose splits they are."""
    rng = np.random.default_rng(6)

    def skewed(n):
        X = rng.normal(size=(n, 6))
        return X, np.exp(0.8 * (X[:, 0] + X[:, 1] + rng.normal(size=n)))

    model = XGBRegressor(n_estimators=30, max_depth=4, learning_rate=0.2, n_jobs=1, random_state=0).fit(*skewed(600))
    days, n_found = summed(model, [skewed(40) for _ in range(40 + 60 * n_recent)]), 0
    grouping = Grouping.of(None, days[0].ensemble.feature_names)
    for first in range(40, len(days), n_recent):
        recent = days[first : first + n_recent]
        comparison = compare_windows(days[:40], recent, grouping, looks=142)
        n_found += comparison.changed.any() or comparison.means.changed.any()
    # One of 60 would be 50 times the rate of a look. By normal distributions 2 to 7 were found.
    assert n_found == 0


def test_a_shift_is_not_told_if_no_split_has_enough_rows(forest):
    comparison = found(forest, stream(1, 9), [drawn(5, 2)])
    assert np.isnan([comparison.shift, comparison.shift_p_value, comparison.shift_p_adjusted]).all()
    assert not comparison.shifted.any()


def test_shift_is_that_of_the_shares_at_the_splits():
    """A stump: one split, whose shares are compared as those of two samples."""
    X, y = drawn(0, 400)
    stump = RandomForestRegressor(1, max_depth=1, bootstrap=False).fit(X, y)
    before, after = stream(1, 3, 150), stream(2, 3, 100, moved=0.5)
    comparison = found(stump, before, after)
    feature, threshold = stump.estimators_[0].tree_.feature[0], stump.estimators_[0].tree_.threshold[0]
    left = [np.concatenate([X[:, feature] <= threshold for X, _ in window]) for window in (before, after)]
    _, squared_z, squared_w = compare_shares(*(np.array([float(f(side))]) for side in left for f in (len, np.sum)))
    assert comparison.left_before[feature] == pytest.approx(left[0].mean())
    assert comparison.left_after[feature] == pytest.approx(left[1].mean())
    assert comparison.shift[feature] ** 2 == pytest.approx(max(squared_w[0], 0))
    assert comparison.shift_p_value[feature] == pytest.approx(2 * student.sf(np.sqrt(squared_z[0]), np.inf))
    assert comparison.shift_split[feature] == f"x{feature} <= {threshold:.4g}"
    others = np.arange(4) != feature
    assert comparison.used.tolist() == (~others).tolist()
    for name in (
        "shift",
        "shift_p_value",
        "shift_p_adjusted",
        "response_error",
        "p_value",
        "p_adjusted",
        "left_before",
    ):
        assert np.isnan(getattr(comparison, name)[others]).all(), name
        assert np.isfinite(getattr(comparison, name)[feature]), name
    assert not (comparison.changed | comparison.kept | comparison.shifted)[others].any()


def test_looks_share_alpha(forest):
    windows = stream(5, 10), stream(9, 10, factor=0.65)
    once = found(forest, *windows, least=0.0)
    assert once.changed[0]
    p = once.p_adjusted[0]
    looks = int(np.ceil(0.05 / p)) + 1
    often = found(forest, *windows, least=0.0, looks=looks)
    assert often.p_adjusted[0] == p
    assert not often.changed[0]
    assert any("this comparison alone" in text for text in once.warnings)
    assert not any("this comparison alone" in text for text in often.warnings)


def test_what_varies_between_few_periods_only_is_not_tested(forest):
    """A feature that is the same for all rows of a day, whose effect turns round."""
    windows = []
    for factor in (1.0, -1.0):
        periods = stream(5, 3, factor=0.0)
        for (X, y), of_day in zip(periods, (-1.0, 0.5, 1.2), strict=True):
            X[:, 0] = of_day
            y += factor * of_day
        windows.append(periods)
    comparison = found(forest, *windows)
    assert comparison.method == "within periods"
    assert comparison.response_change[0] < -0.3
    for error in (comparison.before_error, comparison.after_error, comparison.response_error):
        assert np.isnan(error[0])
        assert np.isfinite(error[1:]).all()
    assert not comparison.changed[0]
    assert any("the change of 1 feature was not tested" in text for text in comparison.warnings)
    many = found(forest, windows[0] * 3, windows[1] * 3)
    assert many.response_error[0] > 0


@pytest.mark.thorough
def test_features_at_whose_splits_few_rows_count_are_not_tested_within_periods():
    """The groups of a jackknife may all miss these rows: the error was 0 up to rounding, and the change certain."""
    n_features, n_found = 300, 0
    for seed in (1, 2, 3):
        rng = np.random.default_rng(seed)
        X = [rng.normal(size=(n, n_features)) for n in (200, *[20] * 10)]
        y = [x[:, 0] + rng.normal(size=len(x)) for x in X]
        model = RandomForestRegressor(20, random_state=seed).fit(X[0], y[0])
        rows = list(zip(X, y, strict=True))
        comparison = found(model, rows[1:6], rows[6:])
        tested = np.isfinite(comparison.response_error)
        used = np.isin(np.arange(n_features), summed(model, rows[1:2])[0].ensemble.feature)
        assert tested[0]
        assert tested[used].mean() < 0.5
        assert any("rows count at the splits" in text for text in comparison.warnings)
        n_found += comparison.changed.sum()
    assert n_found == 0


@pytest.mark.parametrize("weight", [1.0, 2.5])
def test_effective_rows_are_those_of_the_shares_of_each_row(forest, weight):
    X, y = drawn(3, 150)
    sums = summed(forest, [(X, y, np.full(150, weight))])
    ensemble = sums[0].ensemble
    grouping = Grouping.of(None, ensemble.feature_names)
    shares = np.zeros((4, 2))  # sums of squares and of fourth powers
    for tree in forest.estimators_:
        reached, nodes = tree.decision_path(X.astype(np.float32)).toarray(), tree.tree_
        for t in np.flatnonzero(nodes.children_left >= 0):
            left, right = (reached[:, nodes.children_left[t]] == 1, reached[:, nodes.children_right[t]] == 1)
            if left.any() and right.any():
                distance = abs(np.subtract(*nodes.value[[nodes.children_left[t], nodes.children_right[t]], 0, 0]))
                of_rows = distance * (left * right.sum() + right * left.sum()) / (left | right).sum()
                shares[nodes.feature[t]] += (of_rows**2).sum(), (of_rows**4).sum()
    effective = change._effective_rows(ensemble, grouping, change._Window.of(sums, "before"))
    np.testing.assert_allclose(effective, shares[:, 0] ** 2 / shares[:, 1], rtol=1e-9)


def test_few_periods_are_said_to_be_few(forest):
    few = found(forest, stream(5, 2), stream(6, 2))
    assert any("2 before, 2 after" in text and "days that differ" in text for text in few.warnings)
    rows = stream(5, 3, 1)
    alone = found(forest, rows, rows)
    assert np.isnan(alone.p_value).all()
    assert (alone.p_before == 1).all()
    assert any("nothing was tested" in text for text in alone.warnings)


def test_windows_that_cannot_be_compared_are_refused(forest, case):
    grouping = Grouping.of(None, ("x0", "x1", "x2", "x3"))
    good, other = summed(forest, stream(5, 1)), summed(case[0], case[1][0])
    with pytest.raises(debias.RowsError, match="different models"):
        compare_windows(good, other, grouping)
    with pytest.raises(debias.RowsError, match="window after are of different models"):
        compare_windows(good, [*good, *other], grouping)
    with pytest.raises(debias.RowsError, match="window before has no rows"):
        compare_windows([], good, grouping)
    with pytest.raises(debias.RowsError, match="window after has no rows"):
        compare_windows(good, [PeriodSums(forest)], grouping)
    named = {"alpha": "the error rate", "least": "least", "looks": "looks"}
    for wrong in ({"alpha": 1.0}, {"alpha": True}, {"least": -0.1}, {"looks": 0}, {"looks": 1.5}):
        with pytest.raises(debias.plugin.CompositionError, match=named[next(iter(wrong))]):
            compare_windows(good, good, grouping, **wrong)


@pytest.mark.slow
@pytest.mark.parametrize("model", bench.MODELS)
@pytest.mark.parametrize(
    "setting",
    [each for each in bench.settings() if each.table in (bench.NULL, bench.X_ONLY)],
    ids=lambda each: each.name,
)
def test_no_change_is_found_more_often_than_stated(setting, model):
    """40 streams of other seeds than those of docs/results/monitor.md; within 3 Monte-Carlo errors."""
    outcomes = [bench.outcome(setting, model, 10_000 + number) for number in range(40)]
    limit = 0.05 + 3 * np.sqrt(0.05 * 0.95 / len(outcomes))
    assert np.mean([each["false"] for each in outcomes]) <= limit
    if setting.drift is None:
        for name in ("false, least 0", "shift"):
            assert np.mean([each[name] for each in outcomes]) <= limit


def test_columns_without_a_split_do_not_count_among_the_tests():
    X, y = drawn(0, 400)
    found = []
    for n_constants in (0, 40):

        def wider(rows, n_constants=n_constants):
            return np.column_stack([rows, np.ones((len(rows), n_constants))])

        model = boosted(XGBRegressor).fit(wider(X), y)
        empty, windows = PeriodSums(model, loss_rows=0), ([], [])
        for k, window in enumerate(windows):
            for day in range(8):
                of_day, response = drawn(50 + 10 * k + day, 60, 1.0 - 0.5 * k, 0.2 * k)
                window.append(empty.empty())
                window[-1].update(wider(of_day), response)
        found.append(compare_windows(*windows, Grouping.of(None, empty.ensemble.feature_names)))
    few, many = found
    assert few.changed[0]
    for name in ("p_adjusted", "p_before", "p_after", "shift_p_adjusted", "changed", "shifted"):
        np.testing.assert_allclose(getattr(many, name)[:4], getattr(few, name), rtol=1e-9, err_msg=name)
        untested = getattr(many, name)[4:]
        assert not untested.any() if untested.dtype == bool else np.isnan(untested).all()
