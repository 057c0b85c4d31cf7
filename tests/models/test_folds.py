"""The folds of every container, against the splits that made them."""

import numpy as np
import pandas as pd
import pyarrow
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    RandomizedSearchCV,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
    cross_validate,
)
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from debias.errors import RowsError, UnsupportedModelError
from debias.models.folds import folds_of, models_in
from support import simulated

N_ROWS = 60


@pytest.fixture(scope="module")
def data():
    return simulated.rows(N_ROWS, names=["a", "b", "c"])


@pytest.fixture(scope="module")
def classes():
    X, y = simulated.rows(N_ROWS, names=["a", "b", "c"], cuts=[0])
    return X, y.map({0: "no", 1: "yes"})


def trees(X, y, splits, model=DecisionTreeRegressor):
    return [model(random_state=0).fit(X.iloc[train], y.iloc[train]) for train, _ in splits]


def require(folds, splits, models=None):
    """Require that folds have these rows, and these models."""
    assert len(folds) == len(splits)
    for fold, (train, test) in zip(folds, splits, strict=True):
        np.testing.assert_array_equal(fold.train, train)
        np.testing.assert_array_equal(fold.test, test)
    if models is not None:
        assert all(fold.model is model for fold, model in zip(folds, models, strict=True))


@pytest.mark.quick
def test_results_of_cross_validate_have_models_and_rows(data):
    cv = KFold(4, shuffle=True)  # other folds on each call: only the results know which
    results = cross_validate(DecisionTreeRegressor(), *data, cv=cv, return_estimator=True, return_indices=True)
    splits = list(zip(results["indices"]["train"], results["indices"]["test"], strict=True))
    folds = folds_of(results, *data)
    require(folds, splits, results["estimator"])
    assert [fold.name for fold in folds] == ["fold 0", "fold 1", "fold 2", "fold 3"]
    require(folds_of(results, *data, splits), splits, results["estimator"])
    labels = np.empty(N_ROWS, dtype=int)
    for k, (_, test) in enumerate(splits):
        labels[test] = k
    require(folds_of(results, *data, labels), splits, results["estimator"])
    with pytest.raises(RowsError, match="other folds than the results"):
        folds_of(results, *data, 4)


@pytest.mark.parametrize(
    ("left_out", "message"),
    [
        ({"return_estimator": False}, r"have no models: call cross_validate\(\.\.\., return_estimator=True"),
        ({"return_indices": False}, "call cross_validate with return_indices=True, or pass cv="),
    ],
)
def test_results_without_models_or_rows_are_refused_with_the_arguments(data, left_out, message):
    given = {"return_estimator": True, "return_indices": True} | left_out
    results = cross_validate(DecisionTreeRegressor(), *data, cv=3, **given)
    with pytest.raises(RowsError, match=message):
        folds_of(results, *data)


def test_results_without_rows_take_them_from_cv(data):
    results = cross_validate(DecisionTreeRegressor(), *data, cv=3, return_estimator=True)
    require(folds_of(results, *data, 3), list(KFold(3).split(data[0])), results["estimator"])


@pytest.mark.parametrize("container", [list, tuple, lambda models: {f"m{k}": each for k, each in enumerate(models)}])
@pytest.mark.parametrize(
    "cv",
    [
        KFold(5, shuffle=True, random_state=2),
        RepeatedKFold(n_splits=2, n_repeats=2, random_state=0),  # test folds overlap
        ShuffleSplit(3, test_size=7, random_state=1),  # and leave rows out
        TimeSeriesSplit(3),
    ],
    ids=lambda cv: type(cv).__name__,
)
def test_lists_and_mappings_take_a_splitter_or_its_pairs(data, cv, container):
    splits = list(cv.split(*data))
    models = container(trees(*data, splits))
    for given in (cv, splits, iter(splits), cv.split(*data), [tuple(map(np.ndarray.tolist, pair)) for pair in splits]):
        require(folds_of(models, *data, given), splits, models_in(models))


def test_pairs_may_be_masks(data):
    masks = [(np.arange(N_ROWS) >= 20, np.arange(N_ROWS) < 20), (np.arange(N_ROWS) < 40, np.arange(N_ROWS) >= 40)]
    splits = [tuple(map(np.flatnonzero, pair)) for pair in masks]
    require(folds_of(trees(*data, splits), *data, masks), splits)


def test_a_number_of_folds_is_that_of_scikit_learn(data, classes):
    of_numbers, of_classes = list(KFold(4).split(*data)), list(StratifiedKFold(4).split(*classes))
    require(folds_of(trees(*data, of_numbers), *data, 4), of_numbers)
    require(folds_of(trees(*classes, of_classes, DecisionTreeClassifier), *classes, 4), of_classes)


@pytest.mark.parametrize("kind", [np.asarray, list, pd.Series, pd.Categorical, pyarrow.array])
@pytest.mark.parametrize("names", [["2", "10", "7"], [2, 10, 7], [2.0, 10.0, 7.0], ["south", "north", "west"]])
def test_labels_are_matched_to_the_names_of_models_and_in_order_to_a_list(data, names, kind):
    of_row = [names[k % 3] for k in range(N_ROWS)]
    in_order = sorted(names)
    splits = [
        (np.flatnonzero([label != name for label in of_row]), np.flatnonzero([label == name for label in of_row]))
        for name in in_order
    ]
    models = trees(*data, splits)
    folds = folds_of(models, *data, kind(of_row))
    require(folds, splits, models)
    assert all(fold.others_are_train for fold in folds)
    shown = [str(int(name)) if isinstance(name, float) else str(name) for name in in_order]
    assert [fold.name for fold in folds] == [f"fold {name}" if name.isdecimal() else name for name in shown]
    by_name = dict(reversed(list(zip(shown, models, strict=True))))
    require(folds_of(by_name, *data, kind(of_row)), splits, models)


def test_rows_without_a_label_were_never_held_out(data):
    labels = np.arange(N_ROWS) % 4 - 1
    models = trees(*data, [(np.flatnonzero(labels != k), None) for k in range(3)])
    missing = pd.Series(labels, dtype="float64").replace(-1, np.nan)
    for given in (labels, missing):
        folds = folds_of(models, *data, given)
        require(folds, [(np.flatnonzero(labels != k), np.flatnonzero(labels == k)) for k in range(3)], models)
        assert [fold.name for fold in folds] == ["fold 0", "fold 1", "fold 2"]


@pytest.mark.parametrize(("labels", "name"), [(["1", "fold 1", "2"], "fold 1"), ([1, "1", 2], "fold 1")])
def test_labels_that_name_the_same_fold_are_refused(data, labels, name):
    models = [DecisionTreeRegressor().fit(*data)] * 3
    search = GridSearchCV(DecisionTreeRegressor(), {"max_depth": [2]}).fit(*data)
    for given in (models, dict(zip("123", models, strict=True)), search):
        with pytest.raises(RowsError, match=rf"several labels in cv= give folds the same name \({name}\)"):
            folds_of(given, *data, labels * (N_ROWS // 3))


def test_models_whose_names_are_the_same_text_are_refused(data):
    models = dict.fromkeys((1, "1", 2), DecisionTreeRegressor().fit(*data))
    with pytest.raises(RowsError, match=r"several models have the same name as text \(1\)"):
        folds_of(models, *data, KFold(3))


def test_names_and_labels_that_do_not_agree_are_listed_on_both_sides(data):
    models = dict.fromkeys(("0", "2"), DecisionTreeRegressor().fit(*data))
    with pytest.raises(RowsError, match="models without held-out rows: 2; labels without a model: 1"):
        folds_of(models, *data, np.arange(N_ROWS) % 2)


@pytest.mark.parametrize(
    "cv",
    [KFold(3, shuffle=True), ShuffleSplit(3), RepeatedKFold(n_splits=3), KFold(3, shuffle=True, random_state=None)],
    ids=["KFold", "ShuffleSplit", "RepeatedKFold", "None"],
)
def test_splitters_with_other_folds_on_each_call_are_refused(data, cv):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    with pytest.raises(RowsError, match=r"gives other folds on each call.*as cv=.*whole number as random_state"):
        folds_of(trees(*data, list(KFold(3).split(*data))), *data, cv)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_a_generator_as_random_state_is_refused_and_not_used(data):
    generator = np.random.RandomState(0)
    before = generator.get_state()[1].copy()
    with pytest.raises(RowsError, match="gives other folds on each call"):
        folds_of([DecisionTreeRegressor().fit(*data)] * 3, *data, KFold(3, shuffle=True, random_state=generator))
    np.testing.assert_array_equal(generator.get_state()[1], before)


WRONG = {
    "a number of models": (4, "there are 3 models, but 4 folds"),
    "groups are not passed on": (GroupKFold(3), r"pass cv=list\(splitter.split\(X, y, groups\)\)"),
    "used up": (iter(()), r"cv= has no folds\. An iterator such as cv\.split\(X, y\) is empty when it has been used"),
    "no folds": ("5", "cv='5' is no number of folds"),
    "an object": (object(), "cv= is an object: pass"),
    "too few labels": (np.zeros(5), "cv= has 5 labels, but X has 60 rows"),
    "one label": (np.zeros(N_ROWS), "the same label for all rows"),
    "triples": ([(1, 2, 3)], "fold 0 of cv= is not a pair"),
    "training rows": ([([1, 2], [2, 3])] * 3, "1 of the 2 test rows of fold 0 are training rows of the same fold"),
    "rows that are not there": ([([1], [60])] * 3, "fold 0 has the test row 60, but the rows of X are 0 to 59"),
    "negative rows": ([([-1], [0])] * 3, "fold 0 has the train row -1"),
    "no rows": ([([1], [])] * 3, "the test rows of fold 0 are empty"),
    "twice": ([([1], [2, 2])] * 3, "contain a row more than once"),
    "numbers": ([([0.5], [2])] * 3, "the train rows of fold 0 are float64"),
    "too many folds": (100, "the rows cannot be divided by cv=100"),
}


@pytest.mark.parametrize(("cv", "message"), WRONG.values(), ids=WRONG)
def test_wrong_folds_are_refused_with_what_is_wrong(data, cv, message):
    models = trees(*data, list(KFold(3).split(*data)))
    with pytest.raises(RowsError, match=message):
        folds_of(models, *data, cv)


def test_y_and_labels_in_another_order_are_refused(data):
    X, y = data
    models = trees(X, y, list(KFold(3).split(X)))
    with pytest.raises(RowsError, match="y has the same index as X, but in another order"):
        folds_of(models, X, y[::-1], 3)
    with pytest.raises(RowsError, match="cv has the same index as X, but in another order"):
        folds_of(models, X, y, pd.Series(np.arange(N_ROWS) % 3, index=y.index[::-1]))
    with pytest.raises(RowsError, match="y has 59 entries, but X has 60 rows"):
        folds_of(models, X, y[1:], 3)


def test_what_holds_no_models_of_folds_is_refused(data):
    forest = RandomForestRegressor(2).fit(*data)
    with pytest.raises(UnsupportedModelError, match=r"a RandomForestRegressor holds no models.*debias\.audit"):
        folds_of(forest, *data, 3)
    with pytest.raises(RowsError, match="there are no models"):
        folds_of([], *data, 3)
    with pytest.raises(RowsError, match="by position: pass X and y in memory"):
        folds_of([forest], "rows.parquet", "y", 3)


@pytest.mark.parametrize("cv", [3, None, StratifiedKFold(3, shuffle=True, random_state=0)])
def test_a_calibrated_classifier_has_its_models_and_its_folds(classes, cv):
    calibrated = CalibratedClassifierCV(RandomForestClassifier(3), cv=cv).fit(*classes)
    splitter = cv if hasattr(cv, "split") else StratifiedKFold(cv or 5)
    models = [each.estimator for each in calibrated.calibrated_classifiers_]
    folds = folds_of(calibrated, *classes)
    require(folds, list(splitter.split(*classes)), models)
    assert folds[0].notes == ("scores are of the trees before their probabilities are calibrated",)


def test_a_calibrated_classifier_without_models_of_folds_is_refused(classes):
    calibrated = CalibratedClassifierCV(RandomForestClassifier(3), cv=3, ensemble=False).fit(*classes)
    with pytest.raises(UnsupportedModelError, match="ensemble=False.*trained on all rows"):
        folds_of(calibrated, *classes)
    with pytest.raises(UnsupportedModelError, match="not fitted"):
        folds_of(CalibratedClassifierCV(RandomForestClassifier(3)), *classes)
    shuffled = CalibratedClassifierCV(RandomForestClassifier(3), cv=KFold(3, shuffle=True)).fit(*classes)
    with pytest.raises(RowsError, match="gives other folds on each call"):
        folds_of(shuffled, *classes)


@pytest.mark.parametrize("search", [GridSearchCV, RandomizedSearchCV])
def test_a_search_is_trained_again_on_each_fold_and_says_so(classes, search):
    settings = {} if search is GridSearchCV else {"n_iter": 2, "random_state": 0}
    found = search(DecisionTreeClassifier(random_state=0), {"max_depth": [2, 3]}, cv=3, **settings).fit(*classes)
    X, y = classes
    splits = list(StratifiedKFold(3).split(X, y))
    folds = folds_of(found, X, y)
    require(folds, splits)
    for fold, (train, test) in zip(folds, splits, strict=True):
        alone = DecisionTreeClassifier(random_state=0, **found.best_params_).fit(X.iloc[train], y.iloc[train])
        np.testing.assert_array_equal(fold.model.predict_proba(X.iloc[test]), alone.predict_proba(X.iloc[test]))
        assert "keeps no models of folds" in fold.notes[0]
        assert "such as groups or eval_set, are not used again" in fold.notes[0]
        assert "chosen on these folds" in fold.notes[0]
        assert "trained again without weights" in fold.notes[1]


@pytest.mark.parametrize("kind", [np.asarray, list, pd.Series, pyarrow.array])
@pytest.mark.parametrize("name", ["sample_weight", "tree__sample_weight", "pipeline__tree__sample_weight"])
def test_a_search_is_trained_again_with_the_weights_of_the_training_rows(data, name, kind):
    X, y = data
    weight = np.random.default_rng(0).integers(0, 9, N_ROWS).astype(float)
    model = DecisionTreeRegressor(min_samples_leaf=5, random_state=0)
    for step in reversed(name.split("__")[:-1]):
        model = Pipeline([("scaler", StandardScaler()), (step, model)])
    found = GridSearchCV(model, {}, cv=3).fit(X, y, **{name: weight})
    folds = folds_of(found, X, y, sample_weight=kind(weight))
    for fold, (train, _) in zip(folds, KFold(3).split(X), strict=True):
        by_hand = clone(model).fit(X.iloc[train], y.iloc[train], **{name: weight[train]})
        np.testing.assert_array_equal(fold.model.predict(X), by_hand.predict(X))
        assert not np.array_equal(fold.model.predict(X), clone(model).fit(X.iloc[train], y.iloc[train]).predict(X))
        assert len(fold.notes) == 1


def test_a_search_that_cannot_be_trained_again_is_refused_with_the_fold_and_the_reason(data):
    class Unweighted(DecisionTreeRegressor):
        def fit(self, X, y, check_input=True):  # scikit-learn 1.7 needs the second argument
            return super().fit(X, y)

    found = GridSearchCV(Unweighted(), {}, cv=3).fit(*data)
    folds_of(found, *data)
    with pytest.raises(
        RowsError,
        match=r"fold 0: the Unweighted of this GridSearchCV cannot .* with sample_weight, so .*keyword argument",
    ):
        folds_of(found, *data, sample_weight=np.ones(N_ROWS))
    X, y = data[0], data[1].copy()
    y.iloc[0] = np.nan
    with pytest.raises(RowsError, match=r"fold 1: the Unweighted .* again on the training rows, so .*NaN"):
        folds_of(found, X, y)


def test_a_search_without_its_best_model_is_refused(data):
    search = GridSearchCV(DecisionTreeRegressor(), {"max_depth": [2]}, refit=False).fit(*data)
    with pytest.raises(UnsupportedModelError, match="has no best_estimator_"):
        folds_of(search, *data)


def test_models_in_any_container_are_found():
    assert models_in([1, 2]) == models_in((1, 2)) == models_in({"a": 1, "b": 2}) == [1, 2]
    assert models_in({"estimator": [1, 2], "fit_time": [0.1, 0.2]}) == [1, 2]
    assert models_in(1) == [1]
