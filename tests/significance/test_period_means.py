"""The means of periods: against brute force, and their error rate."""

import numpy as np
import pytest
from scipy.stats import t as student
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from xgboost import XGBClassifier, XGBRegressor

from debias.rows.period_sums import PeriodSums
from debias.significance.period_means import PeriodMeans, compare_means, means_of

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
    if "forest" in kind:
        np.testing.assert_allclose(prediction, np.average(predicted, axis=0, weights=weight)[used], atol=1e-9)


def means(values, weight=None):
    values = np.asarray(values, dtype=float)
    return PeriodMeans(
        np.ones(len(values)) if weight is None else np.asarray(weight), np.stack([values] * 3, 1)[..., None]
    )


def test_the_test_is_that_of_its_definition():
    rng = np.random.default_rng(1)
    before, after = rng.normal(size=12), np.array([0.3, -0.2, 4.0])
    found = compare_means(means(before), means(after), 0.05)
    spread, n, m = before.std(ddof=1), before.size, after.size
    alone = np.abs(after - before.mean()) / (spread * np.sqrt(1 + 1 / n))
    together = abs(after.mean() - before.mean()) / (spread * np.sqrt(1 / m + 1 / n))
    expected = 2 * student.sf(max(alone.max(), together), n - 1) * (m + 1)
    np.testing.assert_allclose(found.p_value, expected)
    assert found.most == (2, 2, 2)
    assert found.changed.all()
    assert not compare_means(means(before), means(after), expected * 0.99).changed.any()


def test_periods_of_few_rows_may_deviate_more():
    rng = np.random.default_rng(2)
    before = means(rng.normal(size=20), np.full(20, 100.0))
    p_value = [compare_means(before, means([3.0], [rows]), 0.05).p_value[0] for rows in (1000.0, 100.0, 25.0)]
    assert p_value[0] == p_value[1] < 0.05 < p_value[2]


def test_few_periods_to_compare_with_are_not_tested():
    found = compare_means(means(range(7)), means([99.0]), 0.05)
    assert np.isnan(found.p_value).all()
    assert not found.changed.any()


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
