import linecache
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeRegressor

import debias
from support import simulated
from support.versions import needs

LIBRARIES = ["sklearn", "xgboost", "lightgbm"]


@pytest.fixture(scope="module")
def data():
    return simulated.rows(300, 4, (1, 0.5), names="abcd")


@pytest.fixture(scope="module")
def fitted(data, models):
    X, y = data
    return {library: models(library).fit(X[:200], y[:200]) for library in LIBRARIES}


@pytest.fixture
def fresh(data):
    X, y = data
    return X[200:], y[200:]


@pytest.mark.parametrize("library", LIBRARIES)
def test_an_unfitted_model_is_named(library, models, fresh):
    with pytest.raises(debias.UnsupportedModelError, match="not fitted; fit it first"):
        debias.score(models(library), *fresh)


@pytest.mark.parametrize("model", [KNeighborsClassifier(), 3])
def test_an_unsupported_model_is_named(model, fresh):
    with pytest.raises(debias.UnsupportedModelError, match=f"no adapter recognises .*{type(model).__name__}"):
        debias.score(model, *fresh)


def test_boosters_without_plain_trees_are_refused(data, fresh):
    import lightgbm
    import xgboost

    X, y = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # XGBoost 3.4 deprecates it
        linear = xgboost.train({"booster": "gblinear"}, xgboost.DMatrix(X, y), 2)
        with pytest.raises(debias.UnsupportedModelError, match="'gblinear': it is linear"):
            debias.score(linear, *fresh)
    lines = {"linear_tree": True, "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5, "verbose": -1}
    booster = lightgbm.train(lines, lightgbm.Dataset(X, y), 2)
    with pytest.raises(debias.UnsupportedModelError, match="is a forest .* linear_tree"):
        debias.score(booster, *fresh)


@pytest.mark.parametrize("library", LIBRARIES)
class TestX:
    def test_reordered_columns_are_matched_by_name_with_a_warning(self, library, fitted, fresh):
        X, y = fresh
        expected = debias.score(fitted[library], X, y)
        with pytest.warns(debias.DebiasWarning, match="another order.*matched by name"):
            found = debias.score(fitted[library], X[list("dbca")], y)
        assert found.feature_names == expected.feature_names
        np.testing.assert_array_equal(found.values, expected.values)

    def test_other_columns_are_named(self, library, fitted, fresh):
        X, y = fresh
        told = r"missing: d; unknown to the model: dd\. Is 'dd' the 'd' of the model\? Then rename it\."
        with pytest.raises(debias.RowsError, match=told):
            debias.score(fitted[library], X.rename(columns={"d": "dd"}), y)

    def test_fewer_columns_are_refused(self, library, fitted, fresh):
        X, y = fresh
        with pytest.raises(debias.RowsError, match="missing: d"):
            debias.score(fitted[library], X.reindex(columns=list("abc"), fill_value=0.0), y)

    @pytest.mark.parametrize("columns", ["abcde", "eafdcb"])
    def test_columns_that_the_model_does_not_know_are_left_out(self, library, fitted, fresh, columns):
        X, y = fresh
        more = X.assign(e="text", f=1.0)[list(columns)]
        with pytest.warns(debias.DebiasWarning) as caught:
            found = debias.score(fitted[library], more, y)
        told = [str(warning.message) for warning in caught]
        unknown = ", ".join(column for column in columns if column in "ef")
        assert f"columns of X that the model does not know are left out: {unknown}" in told
        assert any("another order" in text for text in told) == (columns == "eafdcb")
        expected = debias.score(fitted[library], X, y)
        assert found.feature_names == expected.feature_names
        np.testing.assert_array_equal(found.values, expected.values)

    @pytest.mark.parametrize("columns", [list("abc"), list("abcd") + ["e"]])
    def test_fewer_or_more_columns_without_names(self, library, fitted, fresh, columns):
        X, y = fresh
        with pytest.raises(debias.RowsError, match=f"X has {len(columns)} features, but the model was trained on 4"):
            debias.score(fitted[library], X.reindex(columns=columns, fill_value=0.0).to_numpy(), y)

    @pytest.mark.parametrize("X", [np.zeros(5), np.zeros((5, 4, 1)), 3])
    def test_x_of_another_dimension_is_refused(self, library, fitted, X):
        with pytest.raises(debias.RowsError, match="X must be two-dimensional"):
            debias.score(fitted[library], X, np.zeros(5))

    def test_text_columns_are_named(self, library, fitted, fresh):
        X, y = fresh
        X = X.assign(c="text")
        with pytest.raises(debias.RowsError, match=rf"not numeric: c \({X.dtypes['c']}\)"):
            debias.score(fitted[library], X, y)

    def test_no_rows_are_refused(self, library, fitted, fresh):
        X, y = fresh
        with pytest.raises(debias.RowsError, match="no rows"):
            debias.score(fitted[library], X[:0], y[:0])

    def test_other_containers_give_the_same_scores(self, library, fitted, fresh):
        import polars

        X, y = fresh
        expected = debias.score(fitted[library], X, y, rows="held-out").values
        for other in (X.to_numpy(), polars.from_pandas(X), polars.from_pandas(X).to_arrow(), X.astype("Float64")):
            found = debias.score(fitted[library], other, y.to_numpy(), rows="held-out")
            np.testing.assert_array_equal(found.values, expected)


@pytest.mark.parametrize("library", LIBRARIES)
class TestY:
    def test_a_response_of_another_length_is_refused(self, library, fitted, fresh):
        X, y = fresh
        with pytest.raises(debias.RowsError, match="y has 99 entries, but X has 100 rows"):
            debias.score(fitted[library], X, y[:99])

    def test_missing_values_of_the_response_are_refused(self, library, fitted, fresh):
        X, y = fresh
        with pytest.raises(debias.RowsError, match="missing or infinite in 1 rows, the first at position 3"):
            debias.score(fitted[library], X, np.where(np.arange(100) == 3, np.nan, y))

    def test_two_columns_of_a_response_are_refused(self, library, fitted, fresh):
        X, y = fresh
        with pytest.raises(debias.RowsError, match="one value per row"):
            debias.score(fitted[library], X, np.c_[y, y])

    def test_a_missing_response_is_refused(self, library, fitted, fresh):
        with pytest.raises(debias.RowsError, match="y is missing"):
            debias.score(fitted[library], fresh[0])

    def test_labels_the_model_never_saw_are_refused(self, library, data, models):
        X, y = data
        labels = (y > 0).astype(int)
        model = models(library, "classification").fit(X[:200], labels[:200])
        with pytest.raises(debias.RowsError, match=r"labels that the model never saw: \[datetime.datetime\(2026, 1, 1"):
            debias.score(model, X[200:], pd.date_range("2026-01-01", periods=100))
        with pytest.raises(debias.RowsError, match=r"labels that the model never saw: \[7\]; it knows \[0, 1\]"):
            debias.score(model, X[200:], labels[200:].where(X["a"][200:] < 1, 7))
        with pytest.raises(debias.RowsError, match="missing in 1 rows"):
            debias.score(model, X[200:], np.where(np.arange(100) == 5, np.nan, labels[200:]))

    def test_text_where_numbers_are_due(self, library, fitted, fresh):
        with pytest.raises(debias.RowsError, match="y is not numeric"):
            debias.score(fitted[library], fresh[0], ["a"] * 100)


@pytest.mark.thorough
def test_labels_of_any_type_are_understood(data):
    X, y = data
    for labels in (
        np.where(y > 0, "yes", "no"),
        np.where(y > 0, "yes", "no").astype(object),
        (y > 0).to_numpy(),
        pd.Series(np.where(y > 0, "yes", "no"), dtype="category"),
        np.where(y > 0, 2.0, -1.0),
    ):
        forest = RandomForestClassifier(20, random_state=0).fit(X, labels)
        np.testing.assert_allclose(
            debias.score(forest, X, labels, rows="oob").values,
            debias.score(RandomForestClassifier(20, random_state=0).fit(X, y > 0), X, y > 0, rows="oob").values,
            atol=1e-15,
        )


@pytest.mark.parametrize("weight", [np.ones(3), np.full(100, -1.0), np.zeros(100), np.full(100, np.nan)])
def test_wrong_weights_are_refused(weight, fitted, fresh):
    with pytest.raises(debias.RowsError, match="sample_weight"):
        debias.score(fitted["xgboost"], *fresh, sample_weight=weight)


def test_out_of_bag_rows_of_a_model_without_bags_point_to_held_out_rows(data, fitted):
    X, y = data
    models = [
        ExtraTreesRegressor(5).fit(X, y),
        RandomForestRegressor(5, bootstrap=False).fit(X, y),
        DecisionTreeRegressor().fit(X, y),
    ]
    for model in models:
        with pytest.raises(debias.InBagUnavailableError, match="rows='held-out'"):
            debias.score(model, X, y, rows="oob")
    for library in ("xgboost", "lightgbm"):
        with pytest.raises(debias.InBagUnavailableError, match="rows='held-out'"):
            debias.score(fitted[library], X[:200], y[:200], rows="oob")


def test_a_word_for_rows_that_does_not_exist(fitted, fresh):
    with pytest.raises(debias.RowsError, match="'holdout' is not one of 'auto', 'oob', 'held-out', 'train'"):
        debias.score(fitted["sklearn"], *fresh, rows="holdout")


def test_what_needs_in_bag_sums_says_how_to_give_them(fitted, fresh):
    for scorer in ("ufi", "mdi", "mdi_oob(weights='in_bag')", "mdi_oob(shrinkage=10)"):
        with pytest.raises(debias.RowsError, match=r"train=\(X_train, y_train\)"):
            debias.score(fitted["xgboost"], *fresh, scorer)
    with pytest.raises(debias.RowsError, match="pass X and y"):
        debias.score(fitted["sklearn"], scorer="mdi_oob")
    with pytest.raises(debias.plugin.CompositionError, match="stores no gain"):
        debias.score(fitted["sklearn"], scorer="gain")


@pytest.mark.filterwarnings("ignore:.* of these rows are also in train=:debias.DebiasWarning")
def test_wrong_training_rows_beside_held_out_ones_are_refused(data, fitted, fresh):
    X, y = data
    for wrong in (slice(100, 300), slice(0, 100), slice(200, 300)):  # half of them fresh, a half, none
        with pytest.raises(debias.ProvenanceError, match="train does not look like the training rows"):
            debias.score(fitted["lightgbm"], *fresh, "ufi", train=(X[wrong], y[wrong]))
        with pytest.warns(debias.DebiasWarning, match="train does not look like the training rows"):
            debias.score(fitted["xgboost"], *fresh, "ufi", train=(X[wrong], y[wrong]), rows="held-out")
    with pytest.raises(debias.ProvenanceError, match="train.*trained on 200 rows, but X has 100"):
        debias.score(fitted["sklearn"], *fresh, train=fresh)
    with pytest.raises(debias.ProvenanceError, match="train is not the training rows"):
        debias.score(fitted["sklearn"], *fresh, train=(X[100:], y[100:]))
    for wrong in (X, (X,), 3):
        with pytest.raises(debias.RowsError, match="train must be \\(X_train, y_train\\)"):
            debias.score(fitted["xgboost"], *fresh, "ufi", train=wrong)


def test_wrong_values_of_options_are_refused(fitted, fresh):
    for scorer, message in {
        "mdi(criterion='gini')": "criterion='gini' is not one of None, 'variance'",
        "mdi_oob(centre='root')": "centre='root'",
        "mdi_oob(shrinkage=-1)": "shrinkage must be 0 or more",
        "mdi_oob(centre='none', weights='in_bag')": "eq. 14 as printed",
    }.items():
        with pytest.raises(debias.plugin.CompositionError, match=message):
            debias.score(fitted["sklearn"], *fresh, scorer)


@pytest.mark.parametrize("library", LIBRARIES)
def test_single_leaf_trees_and_constant_features_score_0(library, data, models):
    X, y = data
    constant = X.assign(d=1.0)
    stumps = models(library).fit(constant[:200], np.full(200, 3.0))
    assert (debias.score(stumps, constant[200:], y[200:], rows="held-out").values == 0).all()
    model = models(library).fit(constant[:200], y[:200])
    scores = debias.score(model, constant[200:], y[200:], rows="held-out").to_frame()["mdi_oob"]
    assert scores["d"] == 0
    assert scores["a"] > 0
    assert debias.audit(stumps, constant[200:], y[200:], rows="held-out").share.tolist() == [0, 0, 0, 0]


def global_random_state():
    return np.random.get_state()[1].tolist()  # noqa: NPY002 - it is the legacy state that must stay untouched


@pytest.mark.parametrize("library", LIBRARIES)
def test_nothing_of_the_users_is_changed_and_the_numbers_repeat(library, data, models):
    import pickle

    X, y = data
    X, y, weight = X.copy(), y.copy(), np.linspace(1, 2, 100)
    model = models(library).fit(X[:200], y[:200])
    before = (pickle.dumps(model), X.copy(), y.copy(), weight.copy(), global_random_state())
    first = debias.audit(model, X[200:], y[200:], rows="held-out", sample_weight=weight)
    again = debias.audit(model, X[200:], y[200:], rows="held-out", sample_weight=weight, n_jobs=2)
    assert first.to_json() == again.to_json()
    assert pickle.dumps(model) == before[0]
    pd.testing.assert_frame_equal(X, before[1])
    pd.testing.assert_series_equal(y, before[2])
    np.testing.assert_array_equal(weight, before[3])
    assert global_random_state() == before[4]
    if library == "sklearn":
        oob = [debias.score(model, X[:200], y[:200], rows="oob", n_jobs=n).values for n in (1, 2)]
        np.testing.assert_array_equal(*oob)
        assert global_random_state() == before[4]


def test_read_only_and_float32_input(data, fitted):
    X, y = data
    array = X[200:].to_numpy()
    array.flags.writeable = False
    debias.score(fitted["sklearn"], array, y[200:])
    debias.score(fitted["lightgbm"], array.astype(np.float32), y[200:])


def test_integer_column_names_are_names_where_the_library_took_them_for_names(data, models):
    X, y = data
    numbered = X.set_axis(range(4), axis=1)
    for library in ("xgboost", "lightgbm"):
        model = models(library).fit(numbered[:200], y[:200])
        expected = debias.score(model, numbered[200:], y[200:]).values
        with pytest.warns(debias.DebiasWarning, match="matched by name"):
            np.testing.assert_array_equal(debias.score(model, numbered[200:][[3, 2, 1, 0]], y[200:]).values, expected)


def test_names_with_white_space_are_those_lightgbm_stores(data, models):
    X, y = data
    spaced = X.set_axis(["a b", " c", "d  e", "f"], axis=1)
    model = models("lightgbm").fit(spaced[:200], y[:200])
    assert np.isfinite(debias.score(model, spaced[200:], y[200:]).values).all()


@pytest.mark.parametrize("library", ["sklearn", "xgboost"])
@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e39])
def test_values_the_library_refuses_are_refused_with_column_and_row(library, value, fitted, fresh):
    X, y = fresh
    X = X.copy()
    X.iloc[50, 2] = value
    with pytest.raises(debias.RowsError, match=r"column 'c' of X .* \(row 50\)"):
        debias.score(fitted[library], X, y)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda X: X.set_axis(list("abcc"), axis=1), "columns of the same name: c"),
        (lambda X: X.to_numpy() + 0j, "dtype complex128"),
        (lambda X: X.to_numpy().astype("datetime64[s]"), "dtype datetime64"),
        (lambda X: X.to_numpy().astype(str), "must be numeric; it has dtype <U"),
        (lambda X: np.ma.masked_invalid(X.to_numpy()), "masked array"),
        (lambda X: [[1.0, 2.0], [3.0]], "different lengths"),
    ],
)
def test_x_that_is_no_table_of_numbers_is_refused(make, message, fitted, fresh):
    X, y = fresh
    with pytest.raises(debias.RowsError, match=message):
        debias.score(fitted["sklearn"], make(X), y)


def test_y_of_other_kinds_is_understood_or_refused(fitted, fresh):
    import pyarrow

    X, y = fresh
    expected = debias.score(fitted["xgboost"], X, y).values
    for other in (list(y), pyarrow.array(y), pd.DataFrame({"y": y}), y.astype("Float64")):
        np.testing.assert_array_equal(debias.score(fitted["xgboost"], X, other).values, expected)
    with_missing = y.astype("Float64").mask(np.arange(100) == 0)
    for other in (pyarrow.array([None, *y[1:]]), with_missing, with_missing.astype(object)):
        with pytest.raises(debias.RowsError, match="missing or infinite in 1 rows"):
            debias.score(fitted["xgboost"], X, other)
    with pytest.raises(debias.RowsError, match="different lengths"):
        debias.score(fitted["xgboost"], X, [[1, 2], [3]])


@pytest.mark.parametrize("n_jobs", [0, "x", 1.5, True])
def test_wrong_numbers_of_threads_are_refused(n_jobs, fitted, fresh):
    with pytest.raises(debias.RowsError, match="is not a number of threads"):
        debias.score(fitted["xgboost"], *fresh, n_jobs=n_jobs)


@pytest.mark.parametrize("option", ["shrinkage='a'", "shrinkage=1e999", "shrinkage=True"])
def test_options_that_are_no_numbers(option, fitted, fresh):
    with pytest.raises(debias.plugin.CompositionError, match="shrinkage must be 0 or more, and finite"):
        debias.score(fitted["sklearn"], *fresh, f"mdi_oob({option})")


def test_options_of_numpy_make_names_that_can_be_read_back():
    assert debias.plugin.scorer("mdi_oob", shrinkage=np.float64(3)).name == "mdi_oob(shrinkage=3.0)"


def test_scorers_that_look_at_no_rows_prove_none(fitted, data):
    X, y = data
    assert debias.score(fitted["xgboost"], X[:200], y[:200], "gain").rows is None
    assert debias.score(fitted["xgboost"], X[:200], None, "split_count").values.sum() > 0


def test_boosters_without_trees_are_refused(fresh):
    import xgboost

    with pytest.raises(debias.UnsupportedModelError, match="no trees; train it first"):
        debias.score(xgboost.Booster(), *fresh)


@needs("xgboost", "3.2", "it trains on one class from a base score that is not 0")
def test_boosters_of_one_class_are_refused(data, fresh):
    import xgboost

    X, y = data
    booster = xgboost.train({"objective": "binary:logistic"}, xgboost.DMatrix(X, 0 * y), 2)
    with pytest.raises(debias.UnsupportedModelError, match="single class|no trees"):
        debias.score(booster, fresh[0], 0 * fresh[1])


def test_classes_that_may_be_coded_otherwise_are_warned_of(data):
    import lightgbm

    X, y = data
    codes = np.digitize(y, [-0.5, 0.5])
    booster = lightgbm.train(
        {"objective": "multiclass", "num_class": 3, "verbose": -1}, lightgbm.Dataset(X[:200], codes[:200]), 5
    )
    some = np.flatnonzero(codes[200:] > 0) + 200
    with pytest.warns(debias.DebiasWarning, match="y has no label 0"):
        debias.score(booster, X.iloc[some], codes[some], rows="held-out")


def test_early_stopping_is_noted(data, models):
    X, y = data
    model = models("xgboost", early_stopping_rounds=2, n_estimators=200)
    model.fit(X[:150], y[:150], eval_set=[(X[150:200], y[150:200])], verbose=False)
    scores = debias.score(model, X[200:], y[200:])
    assert scores.settings["n_trees"] == model.best_iteration + 1
    assert "chosen by the loss on rows that the model does not store" in " ".join(scores.warnings)
    assert "early stopping: scores are of the first" in " ".join(scores.warnings)
    assert "all its" in " ".join(debias.score(model.get_booster(), X[200:], y[200:]).warnings)


def test_warnings_travel_with_the_scores(fitted, fresh):
    X, y = fresh
    with pytest.warns(debias.DebiasWarning, match="matched by name"):
        audit = debias.audit(fitted["xgboost"], X[list("dcba")], y)
    assert "matched by name" in audit.warnings[0]
    assert audit.to_dict()["warnings"] == list(audit.warnings)


def test_a_warning_points_at_the_line_that_called_debias(fitted, fresh):
    X, y = fresh
    with pytest.warns(debias.DebiasWarning) as caught:
        debias.score(fitted["xgboost"], X[list("dcba")], y)
    assert caught[0].filename == __file__
    assert "debias.score" in linecache.getline(__file__, caught[0].lineno)


def test_groups_and_seeds_that_are_none(fitted, fresh):
    with pytest.raises(debias.RowsError, match="group 'q' has a column 3 that the model does not know"):
        debias.score(fitted["xgboost"], *fresh, groups={"q": 3})
    for seed in ("a", 1.5, -1, True):
        with pytest.raises(debias.RowsError, match=r"random_state=.* must be a whole number"):
            debias.score(fitted["xgboost"], *fresh, random_state=seed)


@pytest.mark.parametrize("dtype", ["Int64", "string"])
def test_a_missing_label_of_pandas_own_kind_is_named(dtype):
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = pd.Series((X[:, 0] > 0).astype(int)).astype(dtype)
    forest = RandomForestClassifier(3, random_state=0).fit(X, y.to_numpy(dtype=object if dtype == "string" else int))
    y[3] = pd.NA
    with pytest.raises(debias.RowsError, match="y is missing in 1 rows, the first at position 3"):
        debias.audit(forest, X, y)


@pytest.mark.parametrize("kind", [np.int64, np.bool_])
def test_labels_may_be_numbers_of_numpy_in_a_list(fitted, fresh, kind):
    X, y = fresh
    labels = np.asarray(y > np.median(y)).astype(kind)
    forest = RandomForestClassifier(3, random_state=0).fit(X[::2], labels[::2])
    unseen, of_unseen = X[1::2], labels[1::2]
    of_objects = debias.score(forest, unseen, np.array(list(of_unseen), dtype=object), rows="held-out")
    np.testing.assert_array_equal(of_objects.values, debias.score(forest, unseen, of_unseen, rows="held-out").values)


@pytest.mark.parametrize("unit", [1e-150, 1e150])
def test_responses_whose_squares_are_no_floats_are_refused(unit):
    X = np.random.default_rng(0).normal(size=(60, 2))
    forest = RandomForestRegressor(3, random_state=0).fit(X, X[:, 0] * unit)
    with pytest.raises(debias.RowsError, match="another unit"):
        debias.audit(forest, X, X[:, 0] * unit)


def test_what_neither_says_yes_nor_no_is_refused():
    X = np.random.default_rng(0).normal(size=(60, 2))
    forest = RandomForestRegressor(3, random_state=0).fit(X, X[:, 0])
    with pytest.raises(debias.plugin.CompositionError, match="adaptive must be True or False"):
        debias.audit(forest, X, X[:, 0], test=debias.Permutation(adaptive="no"))
    with pytest.raises(debias.plugin.CompositionError, match="adaptive='no' must be True or False"):
        debias.score(forest, X, X[:, 0], "response_permutation(mdi, adaptive='no')")
    with pytest.raises(debias.plugin.CompositionError, match="shrinkage is set twice"):
        debias.plugin.scorer("mdi_oob(shrinkage=1, shrinkage=2)")


def test_seeds_are_whole_numbers_wherever_they_are_used():
    X = np.random.default_rng(0).normal(size=(60, 2))
    forest = RandomForestRegressor(3, random_state=0).fit(X, X[:, 0])
    for seed in (-1, "x", 1.5):
        with pytest.raises(debias.RowsError, match="must be a whole number"):
            debias.audit(forest, X, X[:, 0], random_state=seed)
        with pytest.raises(debias.RowsError, match="must be a whole number"):
            debias.score(forest, X, X[:, 0], "response_permutation(mdi, replicates=2)", random_state=seed)


def test_a_response_in_a_frame_whose_column_has_a_number():
    X = np.random.default_rng(0).normal(size=(60, 2))
    forest = RandomForestRegressor(3, random_state=0).fit(X, X[:, 0])
    found = debias.score(forest, X, pd.DataFrame(X[:, 0]), rows="oob")
    np.testing.assert_array_equal(found.values, debias.score(forest, X, X[:, 0], rows="oob").values)
