"""A new model on the days of the old one: what is added and refused, and differences by hand."""

import numpy as np
import pytest
from scipy import stats
from sklearn.ensemble import GradientBoostingRegressor

import debias
from debias.errors import HistoryError
from debias.p_values import holm


def rows_of(days, n_days=20, changed_from=10):
    return [(k, *days(k, 60, effect=1.0 if k < changed_from else 0.0)) for k in range(n_days)]


@pytest.fixture
def old(model, path, days):
    history = debias.History(model, path)
    for at, X, y in rows_of(days):
        history.add(X, y, at=at)
    return history


@pytest.fixture
def without_a(days):
    """A model that knows the effect of b only."""
    X, y = days(1002, 500)
    return GradientBoostingRegressor(n_estimators=30, random_state=0).fit(X.assign(a=0.0), y)


@pytest.mark.thorough
def test_the_parts_are_differences_of_the_scores_of_days_and_errors_are_those_of_scipy(old, without_a, days):
    new = debias.History(without_a, old.path, label="new")
    assert new.backfill(rows_of(days), trained_until=None) == 20
    assert new.backfill(rows_of(days), trained_until=None) == 0  # all are there
    found = new.data_or_model(recent=10)
    scores, series = new.scores(), new.periods["series"].to_numpy()
    first, second = scores[series == "model 1"].to_numpy(), scores[series == "new"].to_numpy()
    welch = stats.ttest_ind(first[10:], first[:10], equal_var=False)
    difference = second[10:] - first[10:]
    np.testing.assert_allclose(found.data, first[10:].mean(axis=0) - first[:10].mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.model, difference.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.change, second[10:].mean(axis=0) - first[:10].mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.model_error, stats.sem(difference), rtol=1e-9)
    np.testing.assert_allclose(found.data_error, found.data / welch.statistic, rtol=1e-9)
    expected = holm(np.concatenate([welch.pvalue, stats.ttest_1samp(difference, 0).pvalue]))
    np.testing.assert_allclose(np.append(found.data_p_adjusted, found.model_p_adjusted), expected, rtol=1e-7)
    verdict = found.to_frame()["verdict"]
    assert verdict["a"] == "model"
    assert "data" in verdict["b"]
    assert found.summary()[0].startswith("model 1 on 0 to 9 (10 periods) and new on 10 to 19 (10 periods)")


def test_few_days_are_not_tested_and_days_without_the_new_model_are_named(old, without_a, days):
    new = debias.History(without_a, old.path)
    new.backfill(rows_of(days)[13:], trained_until=None)
    found = new.data_or_model(recent=8)  # one of these was not backfilled
    assert found.left_out == ("12",)
    assert found.verdict[0] == "untested"
    assert np.isnan(found.model_error).all()
    assert any("Left out" in sentence and "12" in sentence for sentence in found.summary())


def test_few_days_before_leave_only_the_model_tested(old, without_a, days):
    new = debias.History(without_a, old.path, label="{0}")
    new.backfill(rows_of(days)[10:], trained_until=None)
    found = new.data_or_model(recent=10, reference=5)
    assert np.isnan(found.data_p_adjusted).all()
    assert not np.isnan(found.model_p_adjusted).any()
    assert found.verdict[0] == "model"
    assert (
        "Whether the data changed scores is not tested: the window before has fewer than 8 periods." in found.summary()
    )


def test_other_periods_and_other_rows_are_refused_and_those_before_stay(old, retrained, days):
    new = debias.History(retrained, old.path, label="new")
    with pytest.raises(HistoryError, match="'model 1' has no period 99"):
        new.backfill([rows_of(days)[0], (99, *days(99))], trained_until=None)
    with pytest.raises(HistoryError, match="period 1 has 59 rows here and 60 rows"):
        new.backfill([(1, *days(1, 59))], trained_until=None)
    periods = new.periods
    assert periods.index[periods["series"] == "new"].tolist() == [0]
    with pytest.raises(HistoryError, match="not \\(at, X, y\\)"):
        new.backfill([1], trained_until=None)
    with pytest.raises(HistoryError, match="a dict of base_margin or sample_weight"):
        new.backfill([(1, *days(1), {"part": "x"})], trained_until=None)


def test_periods_of_the_training_are_refused(old, retrained, days):
    new = debias.History(retrained, old.path)
    with pytest.raises(HistoryError, match="period 3 is not after trained_until=3: .* 0 periods before it"):
        new.backfill(rows_of(days)[3:5], trained_until=3)
    assert new.backfill(rows_of(days)[4:6], trained_until=3) == 2
    with pytest.raises(HistoryError, match="not of the kind"):
        new.backfill([], trained_until="2026-01-01")


def test_the_last_label_of_the_training_is_one_of_the_history(model, retrained, path, days):
    history = debias.History(model, path)
    for at in ("b", "a"):
        history.add(*days(1 if at == "b" else 2), at=at)
    new = debias.History(retrained, path)
    with pytest.raises(HistoryError, match="no period with this label"):
        new.backfill([], trained_until="c")
    with pytest.raises(HistoryError, match="period b is not after trained_until='b'"):
        new.backfill([("b", *days(1))], trained_until="b")
    assert new.backfill([("a", *days(2))], trained_until="b") == 1


def test_training_rows_of_the_new_model_are_refused(old, days):
    at, X, y = rows_of(days)[0]
    seen = GradientBoostingRegressor(n_estimators=30, random_state=0).fit(X, y)
    with pytest.raises(debias.ProvenanceError):
        debias.History(seen, old.path).backfill([(at, X, y)], trained_until=None)
    assert len(old.models) == 1


def test_wrong_windows_and_models_are_refused(old, retrained, days):
    with pytest.raises(HistoryError, match="no other model"):
        old.data_or_model(recent=5)
    with pytest.raises(HistoryError, match="without a model"):
        debias.History.open(old.path).backfill([], trained_until=None)
    new = debias.History(retrained, old.path)
    new.backfill(rows_of(days)[:3], trained_until=None)
    with pytest.raises(HistoryError, match="no recent period with the same rows"):
        new.data_or_model(recent=5)
    with pytest.raises(HistoryError, match="none in common"):
        new.data_or_model(recent=30)
    with pytest.raises(HistoryError, match="old='x' is not another model"):
        new.data_or_model(recent=5, old="x")
    with pytest.raises(HistoryError, match="the error rate 2 is not between 0 and 1"):
        new.data_or_model(recent=5, error_rate=2)


@pytest.mark.thorough
def test_scores_that_are_the_same_on_all_days_are_not_tested_and_do_not_count_for_holm(path, days):
    def fitted(number, seed):
        X, y = days(number, 500)
        return GradientBoostingRegressor(n_estimators=20, random_state=seed).fit(X.assign(noise=0.0), y)

    old, new = debias.History(fitted(1000, 0), path), debias.History(fitted(1001, 1), path, label="new")
    for at, X, y in rows_of(days):
        old.add(X, y, at=at)
    new.backfill(rows_of(days), trained_until=None)
    found = new.data_or_model(recent=10)
    assert found.verdict[2] == "untested"
    assert np.isnan([found.data_error[2], found.model_error[2], found.data_p_adjusted[2]]).all()
    first = old.scores()[old.periods["series"].to_numpy() == "model 1"]["b"].to_numpy()
    p = stats.ttest_ind(first[10:], first[:10], equal_var=False).pvalue
    np.testing.assert_allclose(found.data_p_adjusted[1], 4 * p, rtol=1e-6)  # the smallest of four


def test_rows_without_responses_are_not_left_waiting(old, retrained, days):
    new = debias.History(retrained, old.path, label="new")
    with pytest.raises(HistoryError, match="has rows without responses here"):
        new.backfill([(1, days(1)[0], None)], trained_until=None)
    assert not len(new.waiting)
