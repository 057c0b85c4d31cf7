"""A new model on the days of the old one: what is added and refused, and differences by hand."""

import html
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from io import StringIO

import numpy as np
import pytest
from lightgbm import LGBMRegressor
from matplotlib.figure import Figure
from rich.console import Console
from scipy import stats
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor, RandomForestRegressor
from xgboost import XGBRegressor

import debias
from debias.data.groups import Grouping
from debias.errors import HistoryError
from debias.monitor.scores import scores_with_errors
from debias.p_values import holm
from debias.results.console import print_data_or_model
from debias.results.data_or_model import DataOrModel
from debias.rows.period_sums import PeriodSums
from debias.rows.preparation import batch_rows
from debias.significance.days_with_memory import difference_of


def rows_of(days, n_days=20, changed_from=10):
    return [(k, *days(k, 60, effect=1.0 if k < changed_from else 0.0)) for k in range(n_days)]


@pytest.fixture
def old(model, path, days):
    history = debias.History(model, path)
    for at, X, y in rows_of(days):
        history.add(X, y, at=at)
    return history


def by_definition(windows):
    """Difference, error and degrees of freedom, feature by feature; the memory by its definition."""
    n_features, found = windows[0].shape[1], []
    own = np.zeros((len(windows), n_features))
    for w, window in enumerate(windows):
        for k in range(n_features):
            apart = window[:, k] - window[:, k].mean()
            own[w, k] = (apart[1:] @ apart[:-1]) / (apart @ apart) + 1 / len(window)
    sizes = [len(window) for window in windows]
    memory = [sum(n * each[k] for n, each in zip(sizes, own, strict=True)) / sum(sizes) for k in range(n_features)]
    for k in range(n_features):
        r = max(memory[k], np.mean(memory), 0.0)
        larger = (1 + r) / (1 - r)
        parts = [window[:, k].var(ddof=1) / len(window) * larger for window in windows]
        means = [window[:, k].mean() for window in windows]
        freedom = sum(parts) ** 2 / sum(part**2 / max(n / larger - 1, 1) for part, n in zip(parts, sizes, strict=True))
        found.append((means[-1] - (means[0] if len(means) > 1 else 0.0), sum(parts) ** 0.5, freedom))
    return np.array(found).T


def test_without_a_memory_the_errors_are_those_of_scipy():
    """Neighbouring days of opposite deviations have a correlation below 0, which is taken for none."""
    rng = np.random.default_rng(0)
    windows = [rng.normal(size=(n, 3)) * 0.1 + np.where(np.arange(n) % 2, 1.0, -1.0)[:, None] for n in (20, 12)]
    found, paired = difference_of(windows), difference_of(windows[:1])
    welch = stats.ttest_ind(windows[1], windows[0], equal_var=False)
    assert found.memory.tolist() == [0.0] * 3
    np.testing.assert_allclose(found.p_value(), welch.pvalue)
    np.testing.assert_allclose(paired.p_value(), stats.ttest_1samp(windows[0], 0).pvalue)


@pytest.mark.slow
@pytest.mark.parametrize("memory", [0.0, 0.3, 0.6])
@pytest.mark.parametrize("sizes", [(60, 30), (30, 30), (8, 8)])
def test_the_level_of_days_with_a_memory(sizes, memory):
    """Ten features, both questions, 1,000 series: docs/monitoring.md cites these shares, which `pytest -rP` shows."""
    rng, found, n_series = np.random.default_rng(1), 0, 1000
    limit = 0.1 if sizes == (8, 8) and memory == 0.6 else 0.05  # so few days do not show so long a memory

    def series(n):
        values = rng.normal(size=(n, 10))
        for k in range(1, n):
            values[k] = memory * values[k - 1] + np.sqrt(1 - memory**2) * values[k]
        return values

    for _ in range(n_series):
        old, apart = series(sum(sizes)), series(sizes[1])
        p = [difference_of([old[: sizes[0]], old[sizes[0] :]]).p_value(), difference_of([apart]).p_value()]
        found += bool((holm(np.concatenate(p)) <= 0.05).any())
    print(f"{sizes} days, memory {memory}: {found / n_series:.3f}")
    assert found / n_series <= limit + 2 * np.sqrt(limit * (1 - limit) / n_series)


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
    difference = second[10:] - first[10:]
    np.testing.assert_allclose(found.data, first[10:].mean(axis=0) - first[:10].mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.model, difference.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.change, second[10:].mean(axis=0) - first[:10].mean(axis=0), rtol=1e-9)
    both = by_definition([first[:10], first[10:]]), by_definition([difference])
    np.testing.assert_allclose(found.data_error, both[0][1], rtol=1e-9)
    np.testing.assert_allclose(found.model_error, both[1][1], rtol=1e-9)
    expected = holm(np.concatenate([2 * stats.t.sf(np.abs(each[0] / each[1]), each[2]) for each in both]))
    np.testing.assert_allclose(np.append(found.data_p_adjusted, found.model_p_adjusted), expected, rtol=1e-7)
    verdict = found.to_frame()["verdict"]
    assert verdict["a"] == "model"
    assert "data" in verdict["b"]
    assert found.summary()[0].startswith("model 1 on 0 to 9 (10 periods) and new on 10 to 19 (10 periods)")


@pytest.mark.thorough
def test_few_days_are_not_tested_and_days_without_the_new_model_are_named(old, without_a, days):
    new = debias.History(without_a, old.path)
    new.backfill(rows_of(days)[13:], trained_until=None)
    found = new.data_or_model(recent=8)  # one of these was not backfilled
    assert found.left_out == ("12",)
    assert found.verdict[0] == "untested"
    assert np.isnan(found.model_error).all()
    assert any("Left out" in sentence and "12" in sentence for sentence in found.summary())


@pytest.mark.thorough
def test_few_days_before_leave_only_the_model_tested(old, without_a, days):
    new = debias.History(without_a, old.path, label="{0}")
    new.backfill(rows_of(days)[10:], trained_until=None)
    found = new.data_or_model(recent=10, reference=5)
    assert np.isnan(found.data_p_adjusted).all()
    assert not np.isnan(found.model_p_adjusted).any()
    assert found.verdict[0] == "model, data untested"
    assert found.which("model") == []
    assert "data, model untested" not in found.verdict
    assert (
        "Whether the data changed scores is not tested: the window before has fewer than 8 periods." in found.summary()
    )


@pytest.mark.thorough
def test_other_periods_are_left_out_and_other_rows_are_refused(old, retrained, days):
    new = debias.History(retrained, old.path, label="new")
    with pytest.warns(
        debias.DebiasWarning, match="1 period left out \\(99\\): 'model 1' has no such periods"
    ) as caught:
        assert new.backfill([rows_of(days)[0], (99, *days(99))], trained_until=None) == 1
    assert len(caught) == 1
    with pytest.raises(HistoryError, match="no period was added: 2 periods left out \\(98, 99\\)"):
        new.backfill([(98, *days(98)), (99, *days(99))], trained_until=None)
    with pytest.raises(HistoryError, match="period 1 has 59 rows here and 60 rows"):
        new.backfill([(1, *days(1, 59))], trained_until=None)
    periods = new.periods
    assert periods.index[periods["series"] == "new"].tolist() == [0]
    with pytest.raises(HistoryError, match="not \\(at, X, y\\)"):
        new.backfill([1], trained_until=None)
    with pytest.raises(HistoryError, match="a dict of base_margin, part, sample_weight"):
        new.backfill([(1, *days(1), {"parts": "x"})], trained_until=None)


@pytest.mark.thorough
def test_periods_of_the_training_are_left_out(old, retrained, days):
    new = debias.History(retrained, old.path)
    with pytest.warns(debias.DebiasWarning, match=r"2 periods left out \(2, 3\): .* up to trained_until=3"):
        assert new.backfill(rows_of(days)[2:5], trained_until=3) == 1
    assert new.periods.query("series != 'model 1'").index.tolist() == [4]
    assert new.backfill(rows_of(days)[4:6], trained_until=3) == 1
    with pytest.warns(debias.DebiasWarning, match=r"2 periods up to trained_until=5 \(4, 5\) are in the series"):
        assert new.backfill(rows_of(days)[6:7], trained_until=5) == 1
    with pytest.raises(HistoryError, match="not of the kind"):
        new.backfill([], trained_until="2026-01-01")


@pytest.mark.parametrize(
    "last", ["2026-01-02", date(2026, 1, 2), np.datetime64("2026-01-02")], ids=lambda last: str(type(last))
)
def test_all_hours_of_the_last_day_of_the_training_are_left_out(model, retrained, path, days, last):
    of_hours = [(datetime(2026, 1, 1) + timedelta(hours=8 * k), *days(k, 60)) for k in range(7)]
    old = debias.History(model, path)
    for at, X, y in of_hours:
        old.add(X, y, at=at)
    new = debias.History(retrained, path)
    for k in range(6):  # until January 2, 16:00
        with pytest.raises(HistoryError, match="the new model has seen the rows of periods up to trained_until="):
            new.backfill(of_hours[k : k + 1], trained_until=last)
    assert new.backfill(of_hours[6:], trained_until=last) == 1
    assert new.backfill(of_hours[4:6], trained_until=datetime(2026, 1, 2)) == 2  # a time is that time


def test_the_last_label_of_the_training_is_one_of_the_history(model, retrained, path, days):
    history = debias.History(model, path)
    for at in ("b", "a"):
        history.add(*days(1 if at == "b" else 2), at=at)
    new = debias.History(retrained, path)
    with pytest.raises(HistoryError, match="no period with this label"):
        new.backfill([], trained_until="c")
    with pytest.raises(HistoryError, match=r"left out \(b\): the new model has seen .* trained_until='b'"):
        new.backfill([("b", *days(1))], trained_until="b")
    assert new.backfill([("a", *days(2))], trained_until="b") == 1


@pytest.mark.thorough
def test_training_rows_of_the_new_model_are_refused(old, days):
    at, X, y = rows_of(days)[0]
    seen = GradientBoostingRegressor(n_estimators=30, random_state=0).fit(X, y)
    with pytest.raises(debias.ProvenanceError):
        debias.History(seen, old.path).backfill([(at, X, y)], trained_until=None)
    assert len(old.models) == 1


@pytest.mark.thorough
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
    with pytest.raises(HistoryError, match="reference= is after recent=: exchange them"):
        new.data_or_model(recent=(0, 4), reference=(10, 14))
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
    first = old.scores()[old.periods["series"].to_numpy() == "model 1"][["a", "b"]].to_numpy()
    change, error, freedom = by_definition([first[:10], first[10:]])[:, 1]
    p = 2 * stats.t.sf(abs(change / error), freedom)
    np.testing.assert_allclose(found.data_p_adjusted[1], 4 * p, rtol=1e-6)  # the smallest of four


def test_rows_without_responses_are_not_left_waiting(old, retrained, days):
    new = debias.History(retrained, old.path, label="new")
    with pytest.raises(HistoryError, match="has rows without responses here"):
        new.backfill([(1, days(1)[0], None)], trained_until=None)
    assert not len(new.waiting)


@pytest.mark.thorough
def test_parts_are_those_of_the_old_model(model, retrained, path, days):
    old = debias.History(model, path)
    halves = [(k, part, *days(10 * k + j, 40 + j)) for k in range(9) for j, part in enumerate(("east", "west"))]
    for k, part, X, y in halves:
        old.add(X, y, at=k, part=part)
    new = debias.History(retrained, path, label="new")
    items = [(k, X, y, {"part": part}) for k, part, X, y in halves]
    with pytest.raises(HistoryError, match="of 'model 1' has no part 'north'; it has 'east', 'west'. 0 periods"):
        new.backfill([(0, *days(0, 40), {"part": "north"})], trained_until=None)
    with pytest.raises(HistoryError, match="period 0, part 'east', has 39 rows here and 40 rows"):
        new.backfill([(0, *days(0, 39), {"part": "east"})], trained_until=None)
    assert new.backfill(items[:-1], trained_until=None) == 17
    few = new.data_or_model(recent=3)
    assert few.left_out == ("8",)  # a part of it is missing
    assert new.backfill(items, trained_until=None) == 1
    assert new.data_or_model(recent=3).left_out == ()
    by_series = new.periods.groupby("series")["parts"].sum()
    assert by_series["model 1"] == by_series["new"] == 18


@pytest.fixture
def found(old, without_a, days):
    new = debias.History(without_a, old.path, label="new")
    new.backfill(rows_of(days), trained_until=None)
    return new.data_or_model(recent=10)


@pytest.mark.thorough
def test_what_was_not_tested_is_told_alike_everywhere(found):
    """Each question is open in turn, for all features or for one."""
    nan, tiny = np.full(3, np.nan), np.array([1e-6, 0.5, 0.7])
    whole = replace(found, data_p_adjusted=tiny[::-1], model_p_adjusted=tiny)
    assert whole.headline == (
        "Of 3 features, the data changed the scores of 1; the model changed the scores of 1; no change of the scores "
        "of 1 was detected"
    )
    data = replace(found, data_p_adjusted=nan, model_p_adjusted=tiny)
    model = replace(found, data_p_adjusted=tiny, model_p_adjusted=nan)
    one = replace(found, data_p_adjusted=np.array([np.nan, 0.2, 0.7]), model_p_adjusted=tiny)
    assert data.verdict == ["model, data untested", "untested", "untested"]
    assert model.verdict == ["data, model untested", "untested", "untested"]
    assert one.verdict == ["model, data untested", "no change detected", "no change detected"]
    assert data.headline == (
        "Of 3 features, the model changed the scores of 1; whether the data changed scores was not tested"
    )
    assert model.headline == (
        "Of 3 features, the data changed the scores of 1; whether the model changed scores was not tested"
    )
    assert one.headline == (
        "Of 3 features, the model changed the scores of 1; no change of the scores of 2 was detected; 1 was not "
        "tested, or not completely"
    )
    none = replace(data, model_p_adjusted=np.array([np.nan, 0.5, 0.7]))
    assert none.headline == (
        "Of 3 features, no change of a score by the model was detected; whether the data changed scores was not "
        "tested, and for 1 feature whether the model did"
    )
    for each in (data, model, one):
        first = each.verdict[0]
        page, shell = html.unescape(each.to_html()), Console(file=StringIO(), width=200)
        print_data_or_model(shell, each)
        for shown in (page, repr(each), shell.file.getvalue(), each.to_json()):
            assert first in shown
        assert each.headline in page
        for shown in (page, shell.file.getvalue()):
            assert "< 0.001" in shown
            assert "0.0000 " not in shown
        assert any("changed these scores was not tested" in text for text in each.summary())
        assert DataOrModel.from_dict(each.to_dict()).verdict == each.verdict


@pytest.mark.thorough
def test_the_result_is_written_read_drawn_and_shown(found, tmp_path):
    text = found.to_json(tmp_path / "a.json")
    again = DataOrModel.from_json(tmp_path / "a.json")
    assert again.to_json() == text
    assert repr(again) == repr(found)
    assert found.to_csv().splitlines()[0].startswith("feature,change,data,")
    page = found.to_html()
    assert found.headline == (
        "Of 3 features, the data changed the scores of 1; the model changed the scores of 1; no change of the scores "
        "of 1 was detected"
    )
    for sentence in (found.headline, *found.summary()):
        assert sentence in html.unescape(page)
    axes = found.plot(ax=Figure().subplots(), max_features=2)
    drawn = {line.get_label(): line.get_xdata() for line in axes.lines if not line.get_label().startswith("_")}
    order = np.argsort(-np.fmax(np.abs(found.data), np.abs(found.model)), kind="stable")[:2]
    np.testing.assert_array_equal(drawn["by the data"], found.data[order])
    np.testing.assert_array_equal(drawn["by the model"], found.model[order])
    assert len(axes.get_yticklabels()) == 3  # the last one stands for the others
    for change, message in (
        (lambda plain: plain.update(kind="x"), "its kind is not"),
        (lambda plain: plain["data"].pop(), "its columns do not have"),
        (lambda plain: plain.update(verdict=["data"] * 3), "verdict does not follow"),
        (lambda plain: plain["model_p_adjusted"].__setitem__(0, 2.0), "out of range"),
        (lambda plain: plain.update(names=["a", "a", "b"]), "twice"),
        (lambda plain: plain.update(error_rate=1.5), "not between 0 and 1"),
    ):
        plain = found.to_dict()
        change(plain)
        with pytest.raises(debias.DebiasError, match=message):
            DataOrModel.from_dict(plain)


@pytest.mark.thorough
def test_days_that_are_alike_have_larger_errors_and_this_is_said(found):
    rng, walk = np.random.default_rng(0), np.zeros((40, 2))
    for k in range(1, 40):
        walk[k] = 0.8 * walk[k - 1] + rng.normal(size=2)
    alike, shuffled = difference_of([walk]), difference_of([rng.permutation(walk)])
    assert (alike.error > 1.5 * shuffled.error).all()
    memory = np.full(found.data.size, 0.42)
    assert not any(
        "alike" in text for text in replace(found, data_memory=0 * memory, model_memory=0 * memory).summary()
    )
    (said,) = [text for text in replace(found, data_memory=memory).summary() if "alike" in text]
    assert "a correlation of up to 0.42" in said


def whole_histories(setting, number, before=60, recent=30, n_rows=60):
    """Verdicts of two models on the days of a history, by the same sums and scores as a file has."""
    rng = np.random.default_rng([43, number, *setting.encode()])
    effect = {"x0 falls to .8": 0.8, "x0 falls to .5": 0.5}.get(setting, 1.0)

    def rows(n, slope=1.0, moved=0.0):
        X = rng.normal(size=(n, 4))
        X[:, 0] += moved
        return X, slope * X[:, 0] + np.sin(2 * X[:, 1]) + 0.3 * X[:, 2] + rng.normal(size=n)

    def fitted(columns):
        X, y = rows(1000)
        settings = {"n_estimators": 20, "max_depth": 3, "learning_rate": 0.3, "n_jobs": 1}
        return PeriodSums(XGBRegressor(**settings).fit(X * columns, y), loss_rows=0)

    old = fitted(np.ones(4))
    new = fitted(np.array([1.0, 0.0, 1.0, 1.0])) if setting == "the new model lacks x1" else fitted(np.ones(4))
    grouping, scores, day = Grouping.of(None, old.ensemble.feature_names), [[], []], np.zeros(2)
    for k in range(before + recent):
        day = 0.3 * day + np.sqrt(1 - 0.3**2) * rng.normal(size=2)
        of_day = 0.2 * day if setting == "days with memory .3" else np.zeros(2)
        X, y = rows(n_rows, (effect if k >= before else 1.0) + of_day[0], of_day[1])
        for own, empty in zip(scores, (old, new), strict=True):
            sums = empty.empty()
            sums.add_rows(batch_rows(empty.model, empty.ensemble, X, y, None, empty.notes, 1, False))
            own.append(scores_with_errors(sums, grouping)[0])
    first, second = map(np.array, scores)
    both = difference_of([first[:before], first[before:]]), difference_of([second[before:] - first[before:]])
    p = holm(np.concatenate([each.p_value() for each in both]))
    return p[:4] <= 0.05, p[4:] <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize(
    "setting",
    ["nothing changes", "days with memory .3", "x0 falls to .8", "x0 falls to .5", "the new model lacks x1"],
)
def test_levels_and_power_in_whole_histories(setting):
    """200 histories of real models, 60 days and 30 of 60 rows: docs/monitoring.md cites these shares."""
    n = 200
    found = [whole_histories(setting, number) for number in range(n)]
    data, model = (np.array([each[k] for each in found]) for k in (0, 1))
    changed = 0 if "falls" in setting else None
    false = data if changed is None else np.delete(data, changed, axis=1)
    share = false.any(axis=1).mean()
    power = "" if changed is None else f", data of x0 {data[:, 0].mean():.3f}"
    print(f"{setting}: false data {share:.3f}{power}, model {np.round(model.mean(axis=0), 3)}")
    assert share <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / n)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "kind",
    [
        XGBRegressor(n_estimators=20, max_depth=3, n_jobs=1),
        LGBMRegressor(n_estimators=20, verbose=-1, n_jobs=1),
        RandomForestRegressor(10, random_state=0),
        GradientBoostingRegressor(n_estimators=20, random_state=0),
        HistGradientBoostingRegressor(max_iter=20),
    ],
    ids=lambda kind: type(kind).__name__,
)
def test_another_unit_of_the_response_is_refused(old, days, kind):
    X, y = days(1003, 500)
    at, rows, response = rows_of(days)[0]
    assert debias.History(clone(kind).fit(X, y), old.path).backfill([(at, rows, response)], trained_until=None) == 1
    cents = debias.History(clone(kind).fit(X, 100 * y), old.path)
    with pytest.raises(HistoryError, match=r"has a mean response of \S+ here and \S+ of 'model 1': pass the same"):
        cents.backfill([(at, rows, 100 * response)], trained_until=None, like="model 1")
    last, rows, response = rows_of(days)[-1]
    cents.add(rows, 100 * response, at=last)  # add does not know of the other model
    with pytest.raises(HistoryError, match="no recent period with the same rows and responses"):
        cents.data_or_model(recent=10, old="model 1")


def test_a_part_has_the_same_weights(model, retrained, path, days):
    X, y = days(1, 60)
    weight = np.linspace(0.5, 2, 60)
    debias.History(model, path).add(X, y, at=1, part="A", sample_weight=weight)
    new = debias.History(retrained, path)
    with pytest.raises(HistoryError, match="period 1, part 'A', has a total weight of 60 here and 75 of"):
        new.backfill([(1, X, y, {"part": "A"})], trained_until=None)
    assert new.backfill([(1, X, y, {"part": "A", "sample_weight": weight})], trained_until=None) == 1


def test_periods_that_wait_for_their_responses_are_left_out(model, retrained, path, days):
    old = debias.History(model, path)
    old.add(*days(1, 60), at=1)
    old.add(days(2, 60)[0], at=2)
    with pytest.warns(debias.DebiasWarning, match=r"1 period left out \(2\): they wait for their responses"):
        assert debias.History(retrained, path).backfill([(k, *days(k, 60)) for k in (1, 2)], trained_until=None) == 1


def test_times_with_a_zone_need_one_in_trained_until(model, retrained, path, days):
    debias.History(model, path).add(*days(1, 60), at=datetime(2026, 1, 1, tzinfo=UTC))
    with pytest.raises(HistoryError, match="which are times with a zone. Pass a time with a zone."):
        debias.History(retrained, path).backfill([], trained_until="2026-01-01")
