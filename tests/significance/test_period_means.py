"""The means of periods: against brute force, and their error rate."""

import numpy as np
import pytest
from scipy.stats import mannwhitneyu, norm, pearson3
from scipy.stats import t as student
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from xgboost import XGBClassifier, XGBRegressor

from debias.rows.period_sums import PeriodSums
from debias.significance.period_means import PeriodMeans, compare_means, means_of, variances_of

SMALL = {"n_estimators": 5, "random_state": 0}
MODELS = {
    "forest": RandomForestRegressor(max_depth=4, **SMALL),
    "forest of two classes": RandomForestClassifier(max_depth=4, **SMALL),
    "XGBoost": XGBRegressor(max_depth=3, n_jobs=1, **SMALL),
    "XGBoost, three classes": XGBClassifier(max_depth=3, n_jobs=1, **SMALL),
}


@pytest.mark.parametrize("kind", MODELS)
def test_means_are_those_of_the_rows(kind):
    rng = np.random.default_rng(0)
    X, noise = rng.normal(size=(200, 3)), rng.normal(size=200)
    y = X[:, 0] + noise
    classes = {"forest of two classes": 2, "XGBoost, three classes": 3}.get(kind)
    if classes:
        y = np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))
    model = MODELS[kind].fit(X[:120], y[:120])
    sums = PeriodSums(model)
    weight = rng.uniform(0.5, 2, 80)
    sums.update(X[120:], y[120:], weight)
    response, prediction, residual = means_of(sums)
    truth = np.eye(classes)[y[120:]] if classes else y[120:, None].astype(float)
    predicted = model.predict_proba(X[120:]) if classes else model.predict(X[120:])[:, None]
    expected = np.average(truth - predicted, axis=0, weights=weight)
    used = slice(1, None) if classes == 2 else slice(None)  # two classes mirror each other
    np.testing.assert_allclose(residual, expected[used], atol=1e-5)
    np.testing.assert_allclose(response - prediction, residual, atol=1e-12)
    # The variance of a weighted mean of independent rows, from the rows.
    share = weight / weight.sum()
    parts = (truth, predicted, truth - predicted)
    variance = [(share**2) @ (part - np.average(part, axis=0, weights=weight)) ** 2 for part in parts]
    variance = np.array(variance)[:, used] / (1 - (share**2).sum())
    if classes:  # labels cannot be far from one another
        assert np.isnan(variances_of(sums)).all()
    else:
        np.testing.assert_allclose(variances_of(sums)[[0, 2]], variance[[0, 2]], rtol=1e-4)
    if kind == "forest":
        np.testing.assert_allclose(variances_of(sums)[1], variance[1], rtol=1e-9)
    if "forest" in kind:
        np.testing.assert_allclose(prediction, np.average(predicted, axis=0, weights=weight)[used], atol=1e-9)


def means(values, weight=None, variance=None):
    values = np.asarray(values, dtype=float)
    return PeriodMeans(
        np.ones(len(values)) if weight is None else np.asarray(weight),
        np.stack([values] * 3, 1)[..., None],
        None if variance is None else np.stack([variance] * 3, 1)[..., None],
    )


def by_definition(before, of_before, after, of_after, within=None):
    """P-values of each recent period and of all together, before Bonferroni's bound, with scipy's distributions."""
    n, m, size = before.size, after.size, np.median(of_before)
    r_before, r_after = (np.maximum(size / weight, 1) for weight in (of_before, of_after))
    share, more = of_before / of_before.sum(), np.ones(m)
    apart = (before - share @ before) / np.sqrt(r_before)
    spread, skewness = np.sqrt((apart**2).sum() / (n - 1)), 1.5 * n**0.5 * (n - 1) ** 0.5 / (n - 2)
    if within is not None:
        of_rows, usual = within[1] / r_after, np.mean(within[0] / r_before)
        more = np.minimum(of_rows / usual, 1 + (of_rows - usual) / spread**2)
    skewness *= (apart**3).mean() / (apart**2).mean() ** 1.5
    parts = [(np.array([1.0]), slice(k, k + 1)) for k in range(m)] + [(of_after / of_after.sum(), slice(None))]
    found = []
    for shares, at in parts:
        variance = (shares**2 * r_after[at]).sum() + (share**2 * r_before).sum()
        third = (shares**3 * r_after[at] ** 2).sum() - (share**3 * r_before**2).sum()
        t = (shares @ after[at] - share @ before) / spread / np.sqrt(variance)
        z = norm.isf(student.sf(abs(t), n - 1))
        tilt = max(np.sign(t) * skewness * third / variance**1.5, 0)
        larger = max((shares**2 * r_after[at] * more[at]).sum() + (share**2 * r_before).sum(), variance)
        of_student = student.sf(abs(t) * np.sqrt(variance / larger), n - 1)
        found.append(2 * max(of_student, pearson3.sf(z, tilt) if tilt else 0))
    alike = np.median(of_after) < 1.5 * size and size < 1.5 * np.median(of_after)
    ranks = mannwhitneyu(before, after, method="asymptotic").pvalue if alike else 1.0
    found[-1] = min(2 * min(found[-1], ranks), 1.0)
    return np.array(found)


@pytest.mark.parametrize("kind", ["normal", "exponential", "the other way round"])
@pytest.mark.parametrize("sizes", [(100, 101), (20, 300)])
@pytest.mark.parametrize("with_variances", [False, True])
def test_the_test_is_that_of_its_definition(kind, sizes, with_variances):
    rng = np.random.default_rng(1)
    before, after = rng.normal(size=12), np.array([0.3, -0.2, 4.0])
    if kind != "normal":
        before, after = rng.exponential(size=12), np.array([0.3, 1.2, 6.0])
    if kind == "the other way round":
        before, after = -before, -after
    of_before, of_after = (rng.integers(*sizes, size=n).astype(float) for n in (12, 3))
    within = [rng.uniform(0.1, 1.0, n) for n in (12, 3)] if with_variances else [None, None]
    windows = means(before, of_before, within[0]), means(after, of_after, within[1])
    found = compare_means(*windows, 0.05)
    p = by_definition(before, of_before, after, of_after, within if with_variances else None)
    expected = min(p.min() * 4, 1.0)
    by_few_rows = expected > 0.05 >= by_definition(before, of_before, after, of_after).min() * 4
    assert found.by_few_rows.tolist() == [by_few_rows] * 3
    np.testing.assert_allclose(found.p_value, np.nan if by_few_rows else expected)
    assert found.most == (2, 2, 2)
    assert found.most_mean.tolist() == [after[2]] * 3
    changed = compare_means(*windows, expected * 1.001)
    assert changed.changed.all()
    assert changed.alone.tolist() == [bool(p[-1] * 4 > expected * 1.001)] * 3
    assert not compare_means(*windows, expected * 0.999).changed.any()


def test_one_period_of_very_many_rows_is_not_the_measure_of_the_others():
    """Its own deviation is that of the centre, so a mean of many recent periods is compared with one period."""
    rng = np.random.default_rng(5)
    before, after = rng.normal(size=60), rng.normal(size=200)
    before[0] = 2.0
    sizes = np.r_[1e5, np.full(59, 100.0)]
    found = compare_means(means(before, sizes), means(after, np.full(200, 100.0)), 0.05)
    assert not found.changed.any()
    assert compare_means(means(before[1:], sizes[1:]), means(after + 2, np.full(200, 100.0)), 0.05).changed.all()


def test_variances_of_parts_add_up_and_those_that_are_not_known_are_missing():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(90, 3))
    y = 1e4 + X[:, 0] + rng.normal(size=90)
    model = MODELS["forest"].fit(X, y)

    def summed(rows):
        sums = PeriodSums(model)
        sums.update(rng.normal(size=(len(rows), 3)) if rows.size > 1 else X[:1], rows)
        return sums

    parts = [summed(y[:30]), summed(y[30:])]
    np.testing.assert_allclose(variances_of(parts[0] + parts[1])[0], y.var(ddof=1) / 90, rtol=1e-6)
    assert np.isnan(variances_of(summed(y[:1]))).all()  # one row
    old = parts[0].empty()
    old.merge({name: array for name, array in parts[0].state().items() if name != "squares_of_rows"})
    assert np.isnan(variances_of(old)).all()  # an earlier version kept none
    assert np.isnan(variances_of(old + parts[1])).all()


def of_rows(rows):
    """Means of periods with all rows, shape (n_periods, n_rows), and their variances."""
    each = [np.repeat(part[:, None, None], 3, axis=1) for part in (rows.mean(1), rows.var(1, ddof=1) / rows.shape[1])]
    return PeriodMeans(np.full(len(rows), float(rows.shape[1])), *each)


def test_one_row_that_is_far_from_the_others_makes_no_change():
    rng = np.random.default_rng(8)
    before, after = rng.normal(size=(60, 50)), rng.normal(size=(7, 50))
    after[3, 0] = 1e4
    found = compare_means(of_rows(before), of_rows(after), 0.05)
    assert not found.changed.any()
    assert np.isnan(found.p_value).all()  # nor is it shown that nothing changed
    residual, *others = found.warnings
    assert residual.startswith(
        "the mean residual is not judged: the recent mean differs from that of the reference, but"
    )
    assert others == [
        f"the mean {of} is not judged: few rows may be the reason that it differs, as for the mean residual"
        for of in ("response", "prediction")
    ]
    without = [PeriodMeans(each.weight, each.mean) for each in (of_rows(before), of_rows(after))]
    assert compare_means(*without, 0.05).changed.all()
    after[3, :] = rng.normal(2, 1, size=50)  # all rows of a day: found, with its day
    found = compare_means(of_rows(before), of_rows(after), 0.05)
    assert found.changed.all()
    assert found.most == (3, 3, 3)


def test_rows_that_differ_more_do_not_make_days_differ_more():
    """Days differ by far more than rows do, and half of the rows of seven days are wrong."""
    rng = np.random.default_rng(12)
    before, after = (rng.normal(size=(n, 1)) + rng.normal(0, 0.1, size=(n, 100)) for n in (60, 7))
    after[:, :50] += 40
    assert compare_means(of_rows(before), of_rows(after), 0.05 / 365).changed.all()


def test_rows_that_differ_from_one_another_as_ever_hide_no_change():
    """The same 50 shops each day: they differ by far more than the days do."""
    rng = np.random.default_rng(9)
    shops = np.linspace(0, 100, 50)
    before, after = (shops + rng.normal(0, 0.1, size=(n, 50)) for n in (60, 7))
    assert not compare_means(of_rows(before), of_rows(after), 0.05).changed.any()
    assert compare_means(of_rows(before), of_rows(after + 0.1), 0.05).changed.all()


@pytest.mark.thorough
@pytest.mark.parametrize("n_rows", [20, 200])
@pytest.mark.parametrize(
    "draw",
    [
        lambda rng, shape: rng.lognormal(0, 1.34, shape),
        lambda rng, shape: rng.poisson(0.3, shape).astype(float),
        lambda rng, shape: (rng.random(shape) < 0.1) * rng.gamma(1, 1, shape),
    ],
)
def test_skewed_rows_are_seldom_found_to_change(draw, n_rows):
    """At the level of 142 looks too. A limit allows for two standard errors of 200 runs."""
    rng = np.random.default_rng(10)
    p_value = np.array(
        [
            compare_means(of_rows(draw(rng, (30, n_rows))), of_rows(draw(rng, (n, n_rows))), 0.05).p_value[0]
            for n in (1, 7, 14, 30)
            for _ in range(200)
        ]
    ).reshape(4, 200)
    for level in (0.05, 0.05 / 142):
        assert np.mean(p_value <= level, axis=1).max() <= level + 2 * np.sqrt(level * (1 - level) / 200)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("draw", "most"),
    [
        (lambda rng, n: rng.poisson(1.5, n), 0.05),  # 50 rows of a class of 3 %
        (lambda rng, n: rng.exponential(size=n), 0.05),
        (lambda rng, n: rng.lognormal(0, 1.34, (n, 50)).mean(axis=1), 0.1),  # .08 of 500; with Student's t alone .34
    ],
)
def test_skewed_means_are_seldom_found_to_change(draw, most):
    """30 periods against 60. The limits allow for two standard errors of 200 runs."""
    rng = np.random.default_rng(4)
    found = [compare_means(means(draw(rng, 60)), means(draw(rng, 30)), 0.05).changed[0] for _ in range(200)]
    assert np.mean(found) <= most + 2 * np.sqrt(most * (1 - most) / 200)


def test_the_output_is_named_if_there_are_several():
    rng = np.random.default_rng(6)
    values = rng.normal(size=(20, 3, 3))
    recent = values[:4].copy()
    recent[:, 2, 1] += 5
    found = compare_means(PeriodMeans(np.ones(20), values), PeriodMeans(np.ones(4), recent), 0.05)
    mean = found.of(2, list("abcd"), ["class low", "class middle", "class top"])
    assert (mean.name, mean.changed) == ("mean residual of class middle", True)
    assert compare_means(means(range(9)), means([99.0]), 0.05).of(2, "a", ["prediction"]).output is None


def test_periods_of_few_rows_may_deviate_more():
    rng = np.random.default_rng(2)
    before = means(rng.normal(size=20), np.full(20, 100.0))
    p_value = [compare_means(before, means([3.0], [rows]), 0.05).p_value[0] for rows in (1000.0, 100.0, 25.0)]
    assert p_value[0] == p_value[1] < 0.05 < p_value[2]


def test_few_periods_to_compare_with_are_not_tested():
    found = compare_means(means(range(7)), means([99.0]), 0.05)
    assert np.isnan(found.p_value).all()
    assert not found.changed.any()


@pytest.mark.thorough
def test_the_error_rate_is_the_level():
    rng = np.random.default_rng(3)
    found = [compare_means(means(rng.normal(size=20)), means(rng.normal(size=7)), 0.05).changed[0] for _ in range(1000)]
    assert 0.02 < np.mean(found) < 0.064  # 5 %, and 2 standard errors; Bonferroni's bound is below


def test_rounding_errors_of_sums_are_no_change_of_a_mean():
    """The same numbers, added in another order, and numbers that are 0 but for rounding."""
    values = [0.1, 0.7, -0.3, 0.2, 0.9, 0.4, -0.6, 0.3]
    found = compare_means(means(values), means([sum(values[::-1]) / 8 + 5.6e-17]), 0.05)
    assert found.after.tolist() == found.before.tolist()
    balanced = [1.0, -1.0] * 4
    found = compare_means(means(balanced), means([-2.08e-17]), 0.05)
    assert (found.before.tolist(), found.after.tolist()) == ([0.0] * 3, [0.0] * 3)
    small = compare_means(means(balanced), means([1e-6]), 0.05)
    assert small.after.tolist() == [1e-6] * 3  # a small mean stays


def test_outliers_in_the_reference_are_told_where_nothing_was_found():
    rng = np.random.default_rng(7)
    before, after = rng.normal(size=30), rng.normal(size=7)
    assert compare_means(means(before), means(after), 0.05).warnings == ()
    before[3] = 20.0
    (told,) = compare_means(means(before), means(after), 0.05).warnings
    assert "only larger changes of it are found" in told
    found = compare_means(means(before), means(after + 20), 0.05)
    assert (found.changed.all(), found.warnings) == (True, ())


def test_one_odd_day_in_the_reference_does_not_hide_a_lasting_change():
    rng = np.random.default_rng(8)
    before, after = rng.normal(size=60), rng.normal(size=14) + 3
    before[5] = 30.0
    found = compare_means(means(before), means(after), 0.05 / 365)
    assert found.changed.all()
    assert not found.alone.any()
    # Of days of other sizes the medians may differ by their sizes alone, so that ranks tell nothing.
    sizes = np.full(60, 100.0), np.full(14, 160.0)
    assert not compare_means(means(before, sizes[0]), means(after, sizes[1]), 0.05 / 365).changed.any()


def test_a_response_that_does_not_vary_in_the_reference_is_not_judged():
    """As of a class without rows: its first row would be a change beyond any doubt."""
    values = np.zeros((30, 3, 2))
    values[:, :, 1] = np.random.default_rng(9).normal(size=(30, 3))
    values[:, 1:, 0] = 1e-3 * np.random.default_rng(10).normal(size=(30, 2))
    recent = values[:7].copy()
    recent[2, [0, 2], 0] = 0.02
    found = compare_means(PeriodMeans(np.ones(30), values), PeriodMeans(np.ones(7), recent), 0.05)
    assert not found.changed.any()
    assert np.isnan(found.p_value).tolist() == [True, False, True]
    assert found.output[2] == 0  # the other output is no answer for this one
    recent[:, :, 1] += 5
    other = compare_means(PeriodMeans(np.ones(30), values), PeriodMeans(np.ones(7), recent), 0.05)
    assert (other.changed.all(), other.output, other.warnings) == (True, (1, 1, 1), ())
    alone = compare_means(PeriodMeans(np.ones(30), values[:, :, :1]), PeriodMeans(np.ones(7), recent[:, :, :1]), 0.05)
    assert np.isnan(alone.p_value).tolist() == [True, False, True]
    assert not alone.changed.any()
    (told,) = alone.warnings
    assert told.startswith("the mean residual is not judged: the response is the same in all periods of the reference")
    assert compare_means(means(np.arange(10) * 1e200), means([0.0, 1e202]), 0.05).changed.all()
