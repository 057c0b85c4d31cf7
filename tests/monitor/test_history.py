"""The class History: what is added, kept, merged, shown and compared, against the same rows in memory.

One file, because all tests share the model and the days.
"""

import json
import warnings
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from lightgbm import Booster as LightGBMBooster
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures
from xgboost import Booster, XGBClassifier, XGBRegressor

import debias
from debias.data.groups import Grouping
from debias.early_stopping import STOPPED_EARLY
from debias.errors import UnsupportedModelError
from debias.monitor.records import from_arrays, to_arrays
from debias.rows.period_sums import PeriodSums
from debias.rows.sealed import Damage
from debias.significance import change
from debias.significance.change import compare_windows
from support.versions import needs

FIRST = date(2026, 1, 1)


def scored(model, *rows, **options):
    """The scores that `debias.score` gives the rows of several periods together."""
    X, y = pd.concat([X for X, _ in rows]), np.concatenate([y for _, y in rows])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)  # of the shift, on some days
        return debias.score(model, X, y, rows="held-out", **options).values


@pytest.mark.quick
def test_the_scores_of_a_period_are_those_of_its_rows(model, path, days):
    history = debias.History(model, path)
    for number in range(3):
        assert history.add(*days(number), at=FIRST + timedelta(number)) is True
    expected = [scored(model, days(number)) for number in range(3)]
    for looked in (history, debias.History.open(path)):
        scores = looked.scores()
        np.testing.assert_allclose(scores, expected, rtol=1e-12)
        assert list(scores.columns) == ["a", "b", "noise"]
        assert scores.index.tolist() == list(pd.date_range("2026-01-01", periods=3))
    periods = history.periods
    assert periods["n_rows"].tolist() == [60] * 3
    assert periods["parts"].tolist() == [1] * 3
    assert periods["series"].tolist() == ["model 1"] * 3
    assert periods.index.equals(scores.index)


def test_errors_are_those_of_the_jackknife(model, path, days):
    history = debias.History(model, path)
    history.add(*days(0), at=0)
    sums = PeriodSums(model)
    sums.update(*days(0))
    np.testing.assert_allclose(history.standard_errors().loc[0], np.sqrt(sums.variances()[0][0]), rtol=1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize("window", ["1d", "3d", "10d", 1, 4, 100])
def test_a_window_has_the_scores_of_its_rows_together(model, kept, days, window):
    history = debias.History.open(kept)
    scores = history.scores(window)
    at = history.periods.index
    rows = {
        FIRST + timedelta(number): days(number, 60 + number, float(number < 14), 0.0 if number < 14 else 0.6)
        for number in range(25)
    }
    for k in (0, 3, 4, 5, 9, 23):
        if isinstance(window, int):
            chosen = at[max(0, k + 1 - window) : k + 1]
        else:
            chosen = at[(at > at[k] - pd.Timedelta(days=int(window[:-1]))) & (at <= at[k])]
        expected = scored(model, *(rows[each.date()] for each in chosen))
        np.testing.assert_allclose(scores.iloc[k], expected, rtol=1e-9, err_msg=f"{window} to {at[k]}")
    assert scores.index.equals(at)
    assert (history.standard_errors(window) > 0).all(axis=None)


def test_a_column_that_is_the_same_all_day_has_no_error_within_days(model, path, days):
    history = debias.History(model, path)
    for number, of_day in enumerate((-1.0, 0.0, 1.0)):
        X, y = days(number)
        history.add(X.assign(a=of_day), y - X["a"] + of_day, at=number)
    assert history.standard_errors().loc[0, "a"] == history.scores().loc[0, "a"] == 0
    assert history.scores(3).loc[2, "a"] > 0.3
    errors = history.standard_errors(3).loc[2]
    assert errors.isna().tolist() == [True, False, False]
    history.plot(window=3)


def test_parts_of_a_period_add_up(model, path, days):
    history = debias.History(model, path)
    for number, part in enumerate((None, "one", "two")):
        history.add(*days(number), at="2026-01-01", part=part)
    np.testing.assert_allclose(history.scores().iloc[0], scored(model, days(0), days(1), days(2)), rtol=1e-12)
    assert history.periods["parts"].tolist() == [3]
    assert history.periods["n_rows"].tolist() == [180]


def test_rows_of_a_period_are_not_one_more_of_its_named_parts(model, path, days):
    both, others = (tuple(map(np.concatenate, zip(*map(days, pair), strict=True))) for pair in ((0, 1), (2, 3)))
    both, others = ((pd.DataFrame(X, columns=["a", "b", "noise"]), y) for X, y in (both, others))
    history = debias.History(model, path)
    for number, part in enumerate(("m1", "m2")):
        history.add(*days(number), at="2026-01-01", part=part)
    content = path.read_bytes()
    for replace in (False, True):
        assert history.add(*both, at="2026-01-01", replace=replace) is False  # the same rows as those of both parts
    there = (
        r"period 2026-01-01 has 2 parts already \('m1', 'm2'\): 120 rows, and these are 120.*replace=True.*part='...'"
    )
    with pytest.raises(debias.errors.HistoryError, match=there):
        history.add(*others, at="2026-01-01")
    assert path.read_bytes() == content
    assert history.add(*others, at="2026-01-01", replace=True)
    assert history.periods[["parts", "n_rows"]].to_numpy().tolist() == [[1, 120]]
    np.testing.assert_allclose(history.scores().iloc[0], scored(model, days(2), days(3)), rtol=1e-12)
    assert history.add(*days(4), at="2026-01-01", part="late")
    assert history.periods[["parts", "n_rows"]].to_numpy().tolist() == [[2, 180]]
    assert history.add(*others, at="2026-01-01") is False
    with pytest.raises(debias.errors.HistoryError, match="has other rows already: 120 rows, added"):
        history.add(*both, at="2026-01-01")


def test_all_parts_at_once_are_there_before_with_an_unnamed_part_too(model, path, days):
    (X, y), (late_X, late_y) = days(0), days(1)
    history = debias.History(model, path)
    history.add(X, y, at=0)
    history.add(late_X, late_y, at=0, part="late")
    assert history.add(pd.concat([late_X, X]), np.concatenate([late_y, y]), at=0, replace=True) is False
    assert history.periods["n_rows"].tolist() == [120]


def test_adding_the_same_rows_again_changes_nothing(model, path, days):
    X, y = days(0)
    history = debias.History(model, path)
    assert history.add(X, y, at="2026-01-01")
    before, content = history.scores(), path.read_bytes()
    assert history.add(X, y, at=date(2026, 1, 1)) is False
    backwards = np.arange(len(y))[::-1]
    assert debias.History(model, path).add(X.iloc[backwards], y[backwards], at="2026-01-01", replace=True) is False
    assert path.read_bytes() == content
    pd.testing.assert_frame_equal(history.scores(), before)


@pytest.mark.thorough
@pytest.mark.parametrize("change", ["row", "response", "weight"])
def test_other_rows_are_refused_unless_they_replace(model, path, days, change):
    X, y = days(0)
    history = debias.History(model, path)
    history.add(X, y, at="2026-01-01")
    content, weight = path.read_bytes(), None
    if change == "row":
        X, y = X[1:], y[1:]
    elif change == "response":
        y = y + 1e-3
    else:
        weight = np.linspace(0.5, 1.5, len(y))
    with pytest.raises(
        debias.errors.HistoryError, match=r"period 2026-01-01 has other rows already: 60 rows, .*replace=True"
    ):
        history.add(X, y, at="2026-01-01", sample_weight=weight)
    assert path.read_bytes() == content
    assert history.add(X, y, at="2026-01-01", sample_weight=weight, replace=True)
    np.testing.assert_allclose(history.scores().iloc[0], scored(model, (X, y), sample_weight=weight), rtol=1e-12)
    assert len(history.periods) == 1


def test_outputs_of_other_units_are_compared_each_by_itself(path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.stack([1e9 * X[:, 0], X[:, 1]], axis=1)
    model = RandomForestRegressor(5, random_state=0).fit(X[:200], y[:200])
    history = debias.History(model, path)
    history.add(X[200:], y[200:], at=0)
    y[200:, 1] += 0.1
    with pytest.raises(debias.errors.HistoryError, match="has other rows already"):
        history.add(X[200:], y[200:], at=0)


def test_a_model_that_was_fitted_again_needs_another_history(path, days):
    model = GradientBoostingRegressor(n_estimators=5, random_state=0).fit(*days(7, 200))
    history = debias.History(model, path)
    history.add(*days(0), at=0)
    model.fit(*days(8, 200))
    with pytest.raises(debias.errors.HistoryError, match="fitted again"):
        history.add(*days(1), at=1)
    assert debias.History(model, path).add(*days(1), at=1)
    assert len(history.models) == 2


def test_the_same_rows_in_two_periods_are_warned_of(model, path, days):
    history = debias.History(model, path)
    history.add(*days(0), at="2026-01-01")
    with pytest.warns(debias.DebiasWarning, match="2026-01-02 has the same rows as period 2026-01-01"):
        assert history.add(*days(0), at="2026-01-02")
    with pytest.warns(debias.DebiasWarning, match="2026-01-01, part 'b' has the same rows as period 2026-01-01"):
        history.add(*days(0), at="2026-01-01", part="b")


@pytest.mark.parametrize("weights", ["none", "tenths", "any"])
def test_the_same_rows_in_another_order_are_warned_of(model, path, days, tmp_path, weights):
    (X, y), rng = days(0), np.random.default_rng(3)
    weight = {"none": None, "tenths": rng.integers(1, 9, len(y)) / 10, "any": rng.uniform(0.5, 2, len(y))}[weights]
    history, other = debias.History(model, path), debias.History(model, tmp_path / "other.history")
    history.add(X, y, at=0, sample_weight=weight)
    for number in range(1, 6):
        order = rng.permutation(len(y))
        rows = {"X": X.iloc[order], "y": y[order], "sample_weight": None if weight is None else weight[order]}
        with pytest.warns(debias.DebiasWarning, match=f"period {number} has the same rows as period 0"):
            history.add(**rows, at=number)
        with pytest.warns(debias.DebiasWarning, match=f"period 0, part 'p{number}' has the same rows as period"):
            history.add(**rows, at=0, part=f"p{number}")
    other.add(**rows, at=9)
    with pytest.warns(debias.DebiasWarning, match="period 9 has the same rows as period 0"):
        history.merge(other.path)


def test_other_responses_or_weights_of_the_same_rows_are_no_warning(model, path, days):
    X, y = days(0)
    history = debias.History(model, path)
    history.add(X, y, at=0)
    history.add(X, y + 1e-3, at=1)
    history.add(X, y, at=2, sample_weight=np.linspace(0.9, 1.1, len(y)))


def test_models_that_were_stopped_early_are_no_warning_of_a_history(path, days):
    (X, y), (test_X, test_y) = days(7, 400), days(8, 100)
    booster = XGBRegressor(n_estimators=200, max_depth=3, early_stopping_rounds=5, n_jobs=1)
    booster.fit(X, y, eval_set=[(test_X, test_y)], verbose=False)
    assert STOPPED_EARLY in debias.score(booster, *days(0), rows="held-out").warnings
    history = debias.History(booster, path)
    for number in range(4):
        history.add(*days(number), at=number)
    changes = history.changes(2)
    assert changes.compared
    assert not any("early stopping)" in text for text in changes.warnings)


@pytest.mark.parametrize("kind", ["classifier", "forest", "classes", "pipeline", "products", "responses"])
def test_histories_of_other_models_hold_their_scores(kind, path, days):
    X, y = days(7, 400)
    new_X, new_y = days(8)
    if kind == "classifier":
        y, new_y = y > 0, new_y > 0
        model = GradientBoostingClassifier(n_estimators=10, random_state=0).fit(X, y)
    elif kind == "classes":
        y, new_y = (np.digitize(each, [-1, 1]) for each in (y, new_y))
        y, new_y = (np.array(["low", "mid", "high"])[each] for each in (y, new_y))
        model = RandomForestClassifier(10, random_state=0).fit(X, y)
    elif kind == "pipeline":
        X, new_X = (frame.assign(city=np.where(frame["noise"] > 0, "Rome", "Oslo")) for frame in (X, new_X))
        columns = make_column_transformer((OneHotEncoder(), ["city"]), remainder="passthrough")
        model = make_pipeline(columns, RandomForestRegressor(10, random_state=0)).fit(X, y)
    elif kind == "products":  # which columns they are of is found by trying the rows
        products = PolynomialFeatures(2, interaction_only=True, include_bias=False)
        model = make_pipeline(products, RandomForestRegressor(10, random_state=0)).fit(X, y)
    elif kind == "responses":
        y, new_y = np.stack([y, -y], axis=1), np.stack([new_y, -new_y], axis=1)
        model = RandomForestRegressor(10, random_state=0).fit(X, y)
    else:
        model = RandomForestRegressor(10, random_state=0).fit(X, y)
    history = debias.History(model, path)
    history.add(new_X, new_y, at=1)
    history.add(new_X[:30], new_y[:30], at=2)
    expected = debias.score(model, new_X, new_y, rows="held-out")
    for looked in (history, debias.History.open(path)):
        np.testing.assert_allclose(looked.scores().loc[1], expected.values, rtol=1e-12)
        assert tuple(looked.scores().columns) == expected.feature_names
        both = scored(model, (new_X, pd.DataFrame(new_y).to_numpy()), (new_X[:30], pd.DataFrame(new_y).to_numpy()[:30]))
        np.testing.assert_allclose(looked.scores(2).loc[2], both, rtol=1e-9)
    errors = history.standard_errors()
    assert (errors.drop(columns="city", errors="ignore")[["a", "b"]] > 0).all(axis=None)
    assert kind != "pipeline" or errors["city"].isna().all()


def test_columns_that_cannot_be_traced_are_refused_with_what_helps(path, days):
    X, y = days(7, 200)
    model = make_pipeline(PCA(2), RandomForestRegressor(5, random_state=0)).fit(X, y)
    with pytest.raises(UnsupportedModelError, match="divided among them. Keep a history of the model inside, and add"):
        debias.History(model, path).add(*days(8), at=1)
    inside = debias.History(model[-1], path)
    assert inside.add(model[0].transform(days(8)[0]), days(8)[1], at=1)


def test_shifts_behind_steps_name_the_columns_of_the_user(path):
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(600, 3)), columns=["age", "height", "weight"])
    X["city"] = np.where(random.random(600) > 0.5, "Rome", "Oslo")
    X.loc[400:, "age"] += 3
    y = X["weight"] + (X["city"] == "Rome") + 0.1 * random.normal(size=600) + X["age"] - 3 * (np.arange(600) >= 400)
    columns = make_column_transformer((OneHotEncoder(), ["city"]), ("passthrough", ["weight", "age"]))
    history = debias.History(
        make_pipeline(columns, RandomForestRegressor(10, random_state=0)).fit(X[:200], y[:200]), path
    )
    for day in range(8):
        rows = slice(200 + 50 * day, 250 + 50 * day)
        history.add(X[rows], y[rows], at=day)
    changes = history.changes(recent=4, reference="first 4")
    split = changes.splits[changes.feature_names.index("age")]
    assert split.startswith("a column made of 'age' <= ")
    assert f"at {split}, " in "\n".join(changes.summary())
    assert changes.splits[changes.feature_names.index("height")] == ""


CATEGORICAL = {
    "lightgbm": lambda: LGBMRegressor(n_estimators=10, verbose=-1, n_jobs=1, min_data_per_group=1, cat_smooth=1),
    "xgboost": lambda: XGBRegressor(n_estimators=10, max_depth=3, enable_categorical=True, n_jobs=1),
    "sklearn": lambda: HistGradientBoostingRegressor(max_iter=10, categorical_features="from_dtype"),
    "catboost": lambda: pytest.importorskip("catboost").CatBoostRegressor(
        20, depth=3, cat_features=["store"], one_hot_max_size=20, silent=True, allow_writing_files=False
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize(
    "kind",
    [
        "lightgbm",
        pytest.param("xgboost", marks=needs("xgboost", "3.1", "it keeps no labels of categories")),
        "sklearn",
        pytest.param("catboost", marks=pytest.mark.integration),
    ],
)
def test_splits_on_categories_are_told_as_such(kind, path, tmp_path):
    rng = np.random.default_rng(0)

    def rows(n_rows, law):
        codes = rng.choice(8, n_rows, p=law)
        store = pd.Categorical.from_codes(codes, [f"s{code}" for code in range(8)])
        X = pd.DataFrame({"a": rng.normal(size=n_rows), "store": store})
        return X, (X["a"] + 3 * (codes % 3) + rng.normal(size=n_rows)).to_numpy()

    before, after = np.full(8, 1 / 8), np.array([10, 1, 1, 10, 1, 1, 10, 1]) / 35
    history = debias.History(CATEGORICAL[kind]().fit(*rows(1000, before)), path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)
        for number in range(12):
            history.add(*rows(200, before if number < 6 else after), at=number)
    merged = debias.History.open(tmp_path / "merged", must_exist=False)
    merged.merge(path)
    for looked in (debias.History.open(path), merged):
        changes = looked.changes(6)
        assert changes.splits[1] == "store in some set of categories"
        assert any("at store in some set of categories, " in line for line in changes.summary())
        assert changes.splits[0].startswith("a <= ")


def test_which_splits_are_on_categories_is_stored():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"store": pd.Categorical.from_codes(rng.choice(4, 200), list("pqrs"))})
    model = CATEGORICAL["sklearn"]().fit(X, X["store"].cat.codes % 2)
    ensemble = PeriodSums(model).ensemble
    facts, arrays = to_arrays(ensemble, Grouping.of(None, ("store",)))
    read, _ = from_arrays(facts, arrays)
    np.testing.assert_array_equal(read.category_set >= 0, ensemble.category_set >= 0)
    for forged in (arrays["by_category"].astype(int), arrays["by_category"][1:], ensemble.left < 0):
        with pytest.raises(Damage, match="the stored trees are not complete"):
            from_arrays(facts, arrays | {"by_category": forged})


@pytest.mark.thorough
def test_rows_from_files_and_batches_are_the_same_rows(model, path, days, tmp_path):
    X, y = days(0)
    X.assign(y=y).to_parquet(tmp_path / "rows.parquet")
    history = debias.History(model, path)
    history.add(tmp_path / "rows.parquet", "y", at=1)
    assert history.add(X, y, at=1) is False
    assert history.add([(X[:20], y[:20]), (X[20:], y[20:])], at=1) is False
    assert history.add(((X[k : k + 1], y[k : k + 1]) for k in range(60)), at=1) is False
    sums = PeriodSums(model)
    sums.update(X, y)
    assert history.add(sums, at=1) is False
    assert sums.n_rows == 60
    assert sums.counter is not None  # the sums of the user are as they were


def test_a_retrained_model_begins_a_new_series(model, retrained, path, days):
    for number in range(3):
        debias.History(model, path).add(*days(number), at=number)
    for number in range(2, 5):
        debias.History(retrained, path, label="version 2").add(*days(number), at=number)
    history = debias.History.open(path)
    assert history.periods["series"].tolist() == ["model 1"] * 3 + ["version 2"] * 3
    assert history.periods.index.tolist() == [0, 1, 2, 2, 3, 4]
    scores = history.scores(3)
    np.testing.assert_allclose(scores.iloc[2], scored(model, days(0), days(1), days(2)), rtol=1e-9)
    np.testing.assert_allclose(scores.iloc[3], scored(retrained, days(2)), rtol=1e-9)
    np.testing.assert_allclose(scores.iloc[5], scored(retrained, days(2), days(3), days(4)), rtol=1e-9)
    assert history.models.index.tolist() == ["model 1", "version 2"]
    assert history.changes(1).series == "version 2"
    assert history.changes(1, series="model 1").series == "model 1"
    assert any("1 other model in this history" in sentence for sentence in history.changes(1).summary())
    with pytest.raises(debias.errors.HistoryError, match="there is no series 'x'; there are model 1, version 2"):
        history.changes(1, series="x")


def test_other_columns_of_a_new_model_are_missing_before(model, path, days):
    X, y = days(5, 300)
    other = RandomForestRegressor(5, random_state=0).fit(X.rename(columns={"noise": "new"}), y)
    debias.History(model, path).add(*days(0), at=0)
    debias.History(other, path).add(days(1)[0].rename(columns={"noise": "new"}), days(1)[1], at=1)
    scores = debias.History.open(path).scores()
    assert list(scores.columns) == ["a", "b", "new", "noise"]
    assert scores.isna().to_numpy().tolist() == [[False, False, True, False], [False, False, False, True]]


def test_labels_of_models_are_kept_and_not_given_twice(model, retrained, path, days):
    debias.History(model, path, label="v1").add(*days(0), at=0)
    assert debias.History(model, path).add(*days(0), at=0) is False
    with pytest.raises(debias.errors.HistoryError, match="this model is in .* already, as 'v1'"):
        debias.History(model, path, label="v2")
    for label, message in (("v1", "that of another model"), ("model 3", "choose another one")):
        with pytest.raises(debias.errors.HistoryError, match=message):
            debias.History(retrained, path, label=label).add(*days(0), at=0)
    with pytest.raises(debias.errors.HistoryError, match="is not a name"):
        debias.History(model, path, label="")
    with pytest.raises(debias.errors.HistoryError, match="nothing was added for this model yet"):
        debias.History(retrained, path).changes(1)


def test_times_of_two_kinds_are_refused(model, path, days):
    history = debias.History(model, path)
    history.add(*days(0), at=datetime(2026, 1, 2, 10, tzinfo=UTC))
    history.add(*days(1), at="2026-01-01T23:00-02:00")
    assert history.scores().index.tz is not None
    assert history.periods["n_rows"].index.tolist() == [
        pd.Timestamp("2026-01-02 01:00", tz="UTC"),
        pd.Timestamp("2026-01-02 10:00", tz="UTC"),
    ]
    for at in (date(2026, 1, 3), 3, "batch"):
        with pytest.raises(debias.errors.HistoryError, match="are times with a zone: pass at= of the same kind"):
            history.add(*days(2), at=at)


def test_labels_keep_their_order(model, path, days):
    history = debias.History(model, path)
    for number, at in enumerate(("b10", "b9", "a")):
        history.add(*days(number), at=at)
    history.add(*days(5), at="b9", replace=True)
    assert history.scores().index.tolist() == ["b10", "b9", "a"]
    np.testing.assert_allclose(history.scores(2).loc["a"], scored(model, days(5), days(2)), rtol=1e-9)
    assert history.changes(("b9", "a"), ("b10", "b10")).recent.n_periods == 2
    with pytest.raises(debias.errors.HistoryError, match="there is no period with this label"):
        history.changes(("b9", "c"))
    with pytest.raises(debias.errors.HistoryError, match="pass a number of periods"):
        history.changes("7d")


def test_rows_that_cannot_be_judged_are_not_added(model, path, days):
    history, (X, y) = debias.History(model, path), days(0)
    with pytest.raises(debias.RowsError):
        history.add(X, y[:-1], at=0)
    with pytest.raises(debias.errors.HistoryError, match="there are no rows"):
        history.add(iter([]), at=0)
    with pytest.raises(debias.errors.HistoryError, match="no rows with a weight above 0"):
        history.add([(X, y, np.zeros(60))], at=0)
    with pytest.raises(debias.ProvenanceError, match="training rows"):
        history.add(*days(1000, 500), at=0)
    with pytest.raises(debias.plugin.CompositionError, match="'auto', 'held-out'"):
        history.add(X, y, at=0, rows="oob")
    with pytest.raises(debias.errors.HistoryError, match="part=3 is not a name"):
        history.add(X, y, at=0, part=3)
    with pytest.raises(debias.errors.HistoryError, match="is not a time"):
        history.add(X, y, at=None)
    assert not path.exists()
    with pytest.raises(debias.errors.HistoryError, match="nothing was added"):
        history.scores()
    assert repr(history).endswith("nothing was added")
    with pytest.raises(debias.errors.HistoryError, match="opened without a model"):
        debias.History.open(path, must_exist=False).add(X, y, at=0)


def test_paths_may_have_any_characters(model, tmp_path, days):
    path = tmp_path / "a b?mode=ro#%41é.history"
    debias.History(model, path).add(*days(0), at=0)
    assert path.exists()
    assert len(debias.History.open(str(path)).periods) == 1


@pytest.fixture(scope="module")
def exposed():
    """Rows of days with other exposures, and models that were trained with the log of the exposure as a margin."""

    def rows(number, exposure, n_rows=300):
        rng = np.random.default_rng([26, number])
        X = pd.DataFrame(rng.standard_normal((n_rows, 3)), columns=["a", "b", "noise"])
        margin = np.log(exposure * rng.uniform(0.5, 1.5, n_rows))
        return X, rng.poisson(np.exp(0.5 * X["a"] + 0.3 * X["b"] + margin)), margin

    X, y, margin = rows(1000, 1.0, 3000)
    settings = {"n_estimators": 60, "learning_rate": 0.2, "n_jobs": 1}
    return rows, {
        "xgboost": XGBRegressor(objective="count:poisson", max_depth=2, **settings).fit(X, y, base_margin=margin),
        "lightgbm": LGBMRegressor(objective="poisson", num_leaves=4, verbose=-1, **settings).fit(
            X, y, init_score=margin
        ),
    }


@pytest.mark.thorough
@pytest.mark.parametrize("library", ["xgboost", "booster", "lightgbm"])
def test_models_with_margins_are_followed_with_those_of_the_rows(exposed, path, tmp_path, library):
    rows, models = exposed
    model = models["xgboost"].get_booster() if library == "booster" else models[library]
    history, without = debias.History(model, path), debias.History(model, tmp_path / "without")
    for number in range(16):
        X, y, margin = rows(number, 1.0 if number < 8 else 4.0)
        assert history.add(X, y, at=number, base_margin=margin, rows="held-out")
        assert history.add(X, y, at=number, base_margin=margin, rows="held-out") is False
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", debias.DebiasWarning)
            without.add(X, y, at=number, rows="held-out")
    X, y, margin = rows(15, 4.0)
    expected = debias.score(model, debias.Dataset(X, y, base_margin=margin), rows="held-out").values
    np.testing.assert_allclose(history.scores().loc[15], expected, rtol=1e-9)
    with pytest.raises(debias.errors.HistoryError, match="has other rows already"):
        history.add(X, y, at=15, base_margin=margin + 0.1, rows="held-out")
    assert set(history.changes(8).verdict) == {"no change detected"}
    assert without.changes(8).to_frame().loc[["a", "b"], "verdict"].tolist() == ["changed (stronger)"] * 2


@pytest.mark.thorough
def test_rows_whose_margins_were_forgotten_are_refused_until_all_are_replaced(exposed, path):
    rows, models = exposed
    history, (X, y, margin) = debias.History(models["xgboost"], path), rows(0, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)
        history.add(X, y, at=0, base_margin=margin, rows="held-out")
        X, y, margin = rows(1, 1.0)
        for given in ((X, y), (X,)):
            with pytest.raises(
                debias.errors.HistoryError,
                match="and period 0 was added with them: pass base_margin=, otherwise this period looks",
            ):
                history.add(*given, at=1, rows="held-out")
        history.add(X, y, at=1, rows="held-out", replace=True)
        X, y, margin = rows(2, 1.0)
        with pytest.raises(
            debias.errors.HistoryError, match="period 1 was added without them. If the model needs margins"
        ):
            history.add(X, y, at=2, base_margin=margin, rows="held-out")
        history.add(X, y, at=2, base_margin=margin, rows="held-out", replace=True)
        mixed = "2 of 3 periods were added with start margins and the others without (period 1 is the first of them)"
        assert [text for text in history.changes(1).warnings if "margin" in text] == [
            f"{mixed}: they differ for that reason alone. Add all of them with margins, or none, before you look at "
            "changes"
        ]
        for html in (None, path.with_suffix(".html")):  # from a few numbers a period, and in full
            (line,) = debias.History.fleet(path, recent=1, html=html).lines
            assert line.verdict == "needs a look"
            assert line.why.startswith(mixed)
        X, y, margin = rows(1, 1.0)
        history.add(X, y, at=1, base_margin=margin, rows="held-out", replace=True)
    assert not [text for text in history.changes(1).warnings if "margin" in text]
    assert "margin" not in debias.History.fleet(path, recent=1).lines[0].why


def test_margins_need_rows_in_memory_and_a_boosted_model(exposed, path, days, tmp_path):
    rows, models = exposed
    X, y, margin = rows(0, 1.0)
    history, needed = debias.History(models["xgboost"], path), "a call with base_margin needs all rows at once"
    X.assign(y=y).to_parquet(tmp_path / "rows.parquet")
    sums = PeriodSums(models["xgboost"])
    sums.update(X, y)
    for source in ((tmp_path / "rows.parquet", "y"), ([(X, y)],), (sums,)):
        with pytest.raises(debias.plugin.CompositionError, match=needed):
            history.add(*source, at=0, base_margin=margin)
    with pytest.raises(debias.RowsError, match="base_margin must have 1 number"):
        history.add(X, y, at=0, base_margin=margin[1:])
    forest = debias.History(RandomForestRegressor(5, random_state=0).fit(X, y), path)
    with pytest.raises(debias.RowsError, match="base_margin is for boosted models only"):
        forest.add(*days(0), at=0, base_margin=np.zeros(60))
    assert not path.exists()


def test_sums_of_another_model_are_refused(model, retrained, path, days):
    sums = PeriodSums(retrained)
    sums.update(*days(0))
    with pytest.raises(debias.RowsError, match="another model"):
        debias.History(model, path).add(sums, at=0)
    with pytest.raises(debias.RowsError, match="leave y and sample_weight out"):
        debias.History(retrained, path).add(sums, [1], at=0)


def test_columns_of_a_model_without_names_keep_their_names(path, days):
    X, y = days(7, 300)
    forest = RandomForestRegressor(5, random_state=0).fit(X.to_numpy(), y)
    history = debias.History(forest, path)
    history.add(*days(0), at=0)
    with pytest.raises(debias.errors.HistoryError, match="rows have the columns b, a, noise"):
        history.add(days(1)[0][["b", "a", "noise"]], days(1)[1], at=1)
    assert list(history.scores().columns) == ["a", "b", "noise"]


def test_a_model_without_a_history_of_its_own_is_refused(path, days):
    from sklearn.ensemble import VotingRegressor

    X, y = days(7, 200)
    voting = VotingRegressor([(name, RandomForestRegressor(3, random_state=0)) for name in "pq"]).fit(X, y)
    with pytest.raises(debias.UnsupportedModelError, match="several models"):
        debias.History(voting, path)
    with pytest.raises(debias.UnsupportedModelError):
        debias.History(RandomForestRegressor(), path)


def test_nothing_of_the_user_is_changed(model, path, days):
    import pickle

    X, y = days(0)
    before = pickle.dumps((model, X, y))
    debias.History(model, path).add(X, y, at=0)
    assert pickle.dumps((model, X, y)) == before


def test_merging_adds_what_is_missing(model, retrained, tmp_path, days):
    paths = [tmp_path / f"{name}.history" for name in "xyz"]
    one, two = (debias.History(model, path) for path in paths[:2])
    one.add(*days(0), at=0)
    one.add(*days(1), at=1, part="x")
    two.add(*days(0), at=0)
    two.add(*days(2), at=1, part="y")
    debias.History(retrained, paths[1], label="new").add(*days(3), at=3)
    assert one.merge(paths[1]) == 2
    assert one.merge(paths[1]) == 0
    assert one.periods["parts"].tolist() == [1, 2, 1]
    assert one.periods["series"].tolist() == ["model 1", "model 1", "new"]
    np.testing.assert_allclose(one.scores().iloc[1], scored(model, days(1), days(2)), rtol=1e-12)
    np.testing.assert_allclose(one.scores().iloc[2], scored(retrained, days(3)), rtol=1e-12)
    fresh = debias.History.open(paths[2], must_exist=False)
    assert fresh.merge(paths[0]) == 4
    pd.testing.assert_frame_equal(fresh.scores(), one.scores())


def test_merging_warns_of_rows_that_are_counted_twice(model, tmp_path, days):
    one, two = (debias.History(model, tmp_path / name) for name in ("x", "y"))
    for number in range(2):
        one.add(*days(number), at=number)
        two.add(*days(number), at=number + 2, part="machine-2")
    with pytest.warns(debias.DebiasWarning, match="same rows as period 0.*with 1 other part") as warned:
        assert one.merge(two.path) == 2
    assert len(warned) == 1


@pytest.mark.thorough
@pytest.mark.parametrize("weighted", [False, True])
def test_merging_knows_the_rows_of_a_whole_period_that_come_in_parts(model, tmp_path, days, weighted):
    """In both directions nothing is added; parts of which some are missing have a warning, and other rows none."""
    whole, parts, some, rest, other = (debias.History(model, tmp_path / name) for name in "wpsro")
    for number in range(2):
        X, y = days(number)
        weight = np.random.default_rng(number).uniform(0.5, 2, len(y)) if weighted else np.ones(len(y))
        whole.add(X, y, at=number, sample_weight=weight)
        for part, rows in (("a", slice(0, 20)), ("b", slice(20, None))):
            parts.add(X[rows], y[rows], at=number, part=part, sample_weight=weight[rows])
        some.add(X[:20], y[:20], at=number, part="a", sample_weight=weight[:20])
        rest.add(X[20:], y[20:], at=number, part="b", sample_weight=weight[20:])
        other.add(*days(number + 10), at=number, part="late")
    before = whole.scores()
    assert parts.merge(whole.path) == 0
    assert whole.merge(parts.path) == 0
    assert whole.merge(parts.path, replace=True) == 0
    pd.testing.assert_frame_equal(whole.scores(), before)
    assert whole.periods["n_rows"].tolist() == [60, 60]
    with pytest.warns(debias.DebiasWarning, match="period 0, part 'a' may have rows that .* without a part.*1 other"):
        assert whole.merge(some.path) == 2
    with pytest.warns(debias.DebiasWarning, match="period 0: its parts with names have together the same rows"):
        assert whole.merge(rest.path) == 2
    for number in range(2):
        whole.remove(at=number, part="a"), whole.remove(at=number, part="b")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert whole.merge(other.path) == 2


def test_parts_that_are_the_whole_period_again_have_a_warning(model, path, days):
    history, (X, y) = debias.History(model, path), days(0)
    history.add(X, y, at=0)
    with pytest.warns(debias.DebiasWarning, match="part 'a' may have rows that the period has without a part already"):
        history.add(X[:20], y[:20], at=0, part="a")
    with pytest.warns(debias.DebiasWarning, match="period 0: its parts with names .* each is counted twice"):
        history.add(X[20:], y[20:], at=0, part="b")


def test_merging_keeps_labels(model, retrained, tmp_path, days):
    for name, label in (("x", None), ("y", "prod"), ("z", "other")):
        debias.History(model, tmp_path / name, label=label).add(*days(0), at=0)
    history = debias.History.open(tmp_path / "x")
    assert history.merge(tmp_path / "y") == 0
    assert history.models.index.tolist() == ["prod"]
    history.merge(tmp_path / "z")
    assert history.models.index.tolist() == ["prod"]  # its own label stays
    debias.History(retrained, tmp_path / "w").add(*days(0), at=0)
    debias.History(model, tmp_path / "w", label="prod").add(*days(0), at=0)
    debias.History(retrained, tmp_path / "v", label="prod").add(*days(1), at=1)
    stays = "'model 1' stays without a label: 'prod', its label in .*v, is that of another model in .*w$"
    with pytest.warns(debias.DebiasWarning, match=stays):
        assert debias.History.open(tmp_path / "w").merge(tmp_path / "v") == 1
    assert debias.History.open(tmp_path / "w").models.index.tolist() == ["model 1", "prod"]
    assert debias.History.open(tmp_path / "w").periods["series"].tolist() == ["model 1", "prod", "model 1"]


def test_merging_takes_another_model_of_the_same_label_without_it(model, retrained, tmp_path, days):
    one, two = (debias.History(each, tmp_path / name, label="prod") for each, name in ((model, "x"), (retrained, "y")))
    one.add(*days(0), at=0)
    two.add(*days(1), at=1)
    with pytest.warns(debias.DebiasWarning, match="'model 2' stays without a label: 'prod'") as warned:
        assert one.merge(two.path) == 1
    assert len(warned) == 1
    assert one.models.index.tolist() == ["prod", "model 2"]
    assert one.periods["series"].tolist() == ["prod", "model 2"]


def test_merging_tells_of_labels_and_of_rows_that_are_counted_twice(model, retrained, tmp_path, days):
    one, two = (debias.History(model, tmp_path / name, label=label) for name, label in (("x", None), ("y", "prod")))
    debias.History(retrained, one.path, label="prod").add(*days(5), at=5)
    for number in range(2):
        one.add(*days(number), at=number)
        two.add(*days(number), at=number + 2, part="machine-2")
    text = "'model 2' stays without a label: .*; period 2, part 'machine-2' has the same rows.*with 1 other part$"
    with pytest.warns(debias.DebiasWarning, match=text) as warned:
        assert one.merge(two.path) == 2
    assert len(warned) == 1


def test_merging_tells_what_to_do_with_other_rows_of_a_period(model, tmp_path, days):
    names = ("one", "two", "named")
    one, two, named = (debias.History(model, tmp_path / name) for name in names)
    one.add(*days(0), at=0)
    two.add(*days(1), at=0)
    named.add(*days(2), at=0, part="m1")
    for history, what in ((one, "has other rows already: 60 rows"), (named, r"has 1 part already \('m1'\): 60 rows")):
        text = rf"period 0 {what}.*, and \S*two has 60 for it.*to take the rows of \S*two.*each machine with a part="
        with pytest.raises(debias.errors.HistoryError, match=text):
            history.merge(two.path)
    for history, number, part in ((one, 0, "one"), (two, 1, "two")):
        history.remove(at=0)
        history.add(*days(number), at=0, part=part)
    assert one.merge(two.path) == 1
    assert one.periods["n_rows"].tolist() == [120]


def test_merging_replaces_named_parts_by_rows_without_a_part(model, tmp_path, days):
    one, two = (debias.History(model, tmp_path / name) for name in ("x", "y"))
    one.add(*days(0), at=0, part="m1")
    one.add(*days(1), at=0, part="m2")
    two.add(*days(2), at=0)
    two.add(*days(3), at=0, part="m2")
    assert one.merge(two.path, replace=True) == 2
    pd.testing.assert_frame_equal(one.scores(), two.scores())
    assert one.periods["n_rows"].tolist() == [120]


@pytest.mark.filterwarnings("ignore::debias.DebiasWarning")
def test_rows_without_a_part_replace_the_named_parts_that_are_among_them(model, path, days):
    """And leave others, which were added to them: no row is counted twice, and none is lost."""
    (X, y), (late, of_late) = days(0), days(1)
    history = debias.History(model, path)
    history.add(X[:40], y[:40], at=0)
    history.add(X[40:50], y[40:50], at=0, part="b")
    history.add(late, of_late, at=0, part="late")
    with pytest.warns(
        debias.DebiasWarning, match="the rows without part replace part 'b' too, since its rows are among"
    ):
        assert history.add(X, y, at=0, replace=True)
    assert history.periods[["n_rows", "parts"]].to_numpy().tolist() == [[120, 2]]
    assert history.add(X, y + 1, at=0, replace=True)  # a correction of them leaves the late rows
    assert history.periods[["n_rows", "parts"]].to_numpy().tolist() == [[120, 2]]


def test_parts_that_share_rows_that_wait_are_warned_of(model, path, days):
    X, y = days(0)
    history = debias.History(model, path)
    history.add(X, at=0)
    history.add(X[:40], y[:40], at=0, part="a")
    with pytest.warns(debias.DebiasWarning, match="60 rows wait for their responses, and parts with 75 responses have"):
        history.add(X[25:], y[25:], at=0, part="b")


def test_merging_is_all_or_nothing(model, tmp_path, days):
    one, two = (debias.History(model, tmp_path / name) for name in ("x", "y"))
    one.add(*days(0), at=0)
    two.add(*days(1), at=-1)
    two.add(*days(2), at=0)
    content = (tmp_path / "x").read_bytes()
    with pytest.raises(debias.errors.HistoryError, match="period 0 has other rows already"):
        one.merge(tmp_path / "y")
    assert (tmp_path / "x").read_bytes() == content
    assert one.merge(tmp_path / "y", replace=True) == 2
    np.testing.assert_allclose(one.scores().loc[0], scored(model, days(2)), rtol=1e-12)
    with pytest.raises(debias.errors.HistoryError, match="this history itself"):
        one.merge(tmp_path / "x")
    with pytest.raises(debias.errors.HistoryError, match="there is no history"):
        one.merge(tmp_path / "z")


def test_what_is_removed_is_gone_and_nothing_else(model, retrained, path, days):
    history = debias.History(model, path)
    history.add(*days(0), at="x")
    history.add(*days(2), at="y")
    history.add(*days(1), at="y", part="one")
    debias.History(retrained, path).add(*days(2), at="y")
    with pytest.raises(debias.errors.HistoryError, match="'model 1' has no period y, part 'two'"):
        history.remove(at="y", part="two")
    with pytest.raises(debias.errors.HistoryError, match="'model 2' has no period x"):
        history.remove(at="x", series="model 2")
    assert history.remove(at="y", part="") == 1
    np.testing.assert_allclose(history.scores(1).iloc[1], scored(model, days(1)), rtol=1e-9)
    np.testing.assert_allclose(history.scores().iloc[1], scored(model, days(1)), rtol=1e-12)
    assert history.remove(at="y", series="model 2") == 1
    assert history.periods.index.tolist() == ["x", "y"]
    assert history.remove(at="x") == history.remove(at="y") == 1
    assert history.periods.empty
    assert history.scores().empty
    assert history.add(*days(0), at=date(2026, 1, 1))  # of any kind again


@pytest.mark.thorough
@pytest.mark.parametrize("groups", [20, 8])
def test_changes_are_those_of_the_windows(model, kept, days, groups, monkeypatch):
    history = debias.History.open(kept)
    monkeypatch.setattr(change, "MOST_GROUPS", groups)
    changes = history.changes("9d", error_rate=0.1, looks=2, least=0.2)
    periods = []
    for number in range(25):
        if number != 5:
            rows = days(number, 60 + number, float(number < 14), 0.0 if number < 14 else 0.6)
            periods.append(PeriodSums(model))
            periods[-1].update(*rows)
    grouping = Grouping.of(None, ("a", "b", "noise"))
    expected = compare_windows(periods[:15], periods[15:], grouping, alpha=0.1, looks=2, least=0.2)
    assert changes.recent.n_periods == 9
    assert changes.reference.n_periods == 15
    for name in changes.STATISTICS:
        np.testing.assert_allclose(changes.statistics[name], getattr(expected, name), rtol=1e-9, err_msg=name)
    assert (changes.alpha, changes.looks, changes.least) == (0.1, 2, 0.2)
    assert changes.recent.first == "2026-01-17"
    assert changes.recent.n_rows == expected.n_rows[1]


@pytest.mark.thorough
def test_windows_of_changes(kept):
    with pytest.raises(debias.errors.HistoryError, match="its first period comes after its last"):
        debias.History.open(kept).changes(recent=("2026-01-20", "2026-01-10"))
    history = debias.History.open(kept)

    def of(*windows):
        changes = history.changes(*windows)
        return [(window.first, window.last) for window in (changes.reference, changes.recent)]

    assert of(2) == [("2026-01-01", "2026-01-23"), ("2026-01-24", "2026-01-25")]
    assert of("2d", "3d") == [("2026-01-21", "2026-01-23"), ("2026-01-24", "2026-01-25")]
    assert of(("2026-01-07", "2026-01-09"), "2d") == [("2026-01-04", "2026-01-05"), ("2026-01-07", "2026-01-09")]
    assert of(("2026-01-05", "2026-01-07"), 2) == [("2026-01-03", "2026-01-04"), ("2026-01-05", "2026-01-07")]
    with pytest.raises(debias.errors.HistoryError, match="reference= is after recent=: exchange them"):
        of(("2026-01-01", "2026-01-02"), ("2026-01-05", "2026-01-05"))
    with pytest.raises(debias.errors.HistoryError, match="have periods in common"):
        of(3, ("2026-01-01", "2026-01-25"))
    with pytest.raises(debias.errors.HistoryError, match="pass the first and the last"):
        of((1, 2, 3))
    with pytest.raises(debias.errors.HistoryError, match="not of the kind"):
        of((1, 2))
    with pytest.raises(debias.plugin.CompositionError, match="the error rate must be between 0 and 1"):
        history.changes(2, error_rate=2)


def test_too_few_periods_are_told_and_not_compared(model, path, days):
    history = debias.History(model, path)
    history.add(*days(0), at="2026-01-01")
    for recent, reference in (("30d", None), (1, 1)):
        changes = history.changes(recent, reference)
        assert not changes.compared
        assert changes.verdict == ["not compared"] * 3
        assert "a comparison needs two" in changes.summary()[0]
    history.add(*days(1), at="2026-01-02")
    assert history.changes("30d").summary()[0] == (
        "Nothing was compared: no period is in the reference window, because the recent one begins with the first of "
        "the 2 periods of this model. Pass a shorter recent window, such as recent=1."
    )
    assert history.changes(1).compared  # what was suggested
    empty = history.changes(("2027-01-01", "2027-02-01"))
    has = "this model has 2 periods, from 2026-01-01 to 2026-01-02"
    assert f"no period is in the recent window; {has}. Pass another recent=." in empty.summary()[0]
    before = history.changes(1, ("2025-01-01", "2025-02-01"))
    assert f"no period is in the reference window; {has}. Pass another reference=." in before.summary()[0]
    # The recent window is all that follows, and begins with the first period.
    after_it = history.changes(reference=("2025-01-01", "2025-02-01"))
    assert f"no period is in the reference window; {has}. Pass another reference=." in after_it.summary()[0]
    after_it.to_html(path.with_suffix(".html"))
    page = path.with_suffix(".html").read_text()
    assert page.count("no period is in the reference window") == 1


def test_reading_in_the_middle_of_a_change_shows_the_state_before(model, path, days, monkeypatch):
    from debias.monitor.records import Records

    debias.History(model, path).add(*days(0), at=0)
    seen, put = [], Records.put

    def looked(*arguments):
        result = put(*arguments)
        seen.append(len(debias.History.open(path).periods))
        return result

    monkeypatch.setattr(Records, "put", looked)
    debias.History(model, path).add(*days(1), at=1)
    assert seen == [1]
    assert len(debias.History.open(path).periods) == 2


def test_json_and_csv_have_the_scores(model, path, days, tmp_path):
    history = debias.History(model, path)
    for number in range(3):
        history.add(*days(number), at=FIRST + timedelta(number))
    plain = json.loads(history.to_json(tmp_path / "scores.json", window=2))
    assert json.loads((tmp_path / "scores.json").read_text()) == plain
    scores = history.scores(2)
    np.testing.assert_array_equal([each["scores"] for each in plain["periods"]], scores)
    assert history.to_csv(tmp_path / "scores.csv", window=2) == (tmp_path / "scores.csv").read_text()
    table = pd.read_csv(tmp_path / "scores.csv", index_col="at", parse_dates=True)
    np.testing.assert_allclose(table[list(scores)], scores, rtol=1e-12)  # older pandas rounds what it reads
    assert list(table.index) == list(scores.index)


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm"])
def test_a_classifier_and_its_file_have_one_series(path, tmp_path, kind):
    """The file has no labels, and those of the classifier are 0 and 1."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(900, 3)), columns=list("abc"))
    y = (X.a + rng.normal(size=900) > 0).astype(int)
    if kind == "xgboost":
        model = XGBClassifier(n_estimators=10, max_depth=2, n_jobs=1).fit(X[:500], y[:500])
        model.save_model(tmp_path / "model.ubj")
        booster = Booster(model_file=tmp_path / "model.ubj")
    else:
        model = LGBMClassifier(n_estimators=10, num_leaves=4, n_jobs=1, verbose=-1).fit(X[:500], y[:500])
        model.booster_.save_model(tmp_path / "model.txt")
        booster = LightGBMBooster(model_file=tmp_path / "model.txt")
    history = debias.History(model, path)
    for day in range(4):
        rows = slice(500 + 100 * day, 600 + 100 * day)
        history.add(X[rows], y[rows], at=f"2026-01-0{day + 1}")
    again = debias.History(booster, path)
    assert again.changes(2).summary() == history.changes(2).summary()
    assert len(again.models) == 1
