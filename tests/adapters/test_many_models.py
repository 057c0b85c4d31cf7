"""Tests of wrappers around several models: one class against the rest, and the boosters of a cross-validation."""

from __future__ import annotations

import lightgbm
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from threadpoolctl import threadpool_limits

import debias
from support.versions import needs

N = 300


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Small models wait longer for threads than they compute."""
    with threadpool_limits(1, user_api="openmp"):
        yield


def draw(seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(N, 4)), columns=list("abcd"))
    return X, np.array(["u", "v", "w"])[np.digitize(X["a"] + rng.normal(size=N) / 3, [-0.5, 0.5])]


def forest():
    return RandomForestClassifier(15, random_state=0)


def test_one_against_the_rest_is_the_sum_over_the_classes():
    X, y = draw()
    model = OneVsRestClassifier(forest()).fit(X, y)
    scores = debias.score(model, X, y)
    parts = [
        debias.score(part, X, (y == label).astype(int))
        for part, label in zip(model.estimators_, model.classes_, strict=True)
    ]
    assert scores.rows == "oob"
    np.testing.assert_allclose(scores.values, sum(part.values for part in parts), atol=1e-15)
    assert any("each of which tells one class from the others" in text for text in scores.warnings)
    with pytest.raises(debias.RowsError, match="labels that the model never saw"):
        debias.score(model, X, np.where(y == "w", "x", y))
    refitted = debias.refit(model, X, y)
    np.testing.assert_array_equal(refitted.predict(X), model.predict(X))


def test_one_against_the_rest_of_two_classes_and_of_label_sets():
    X, y = draw()
    two = np.where(y == "w", "v", y)
    model = OneVsRestClassifier(forest()).fit(X, two)
    expected = debias.score(model.estimators_[0], X, (two == "v").astype(int)).values
    np.testing.assert_array_equal(debias.score(model, X, two).values, expected)
    sets = np.column_stack([y == "u", X["b"] > 0]).astype(int)
    model = OneVsRestClassifier(forest()).fit(X, sets)
    expected = sum(debias.score(part, X, column).values for part, column in zip(model.estimators_, sets.T, strict=True))
    np.testing.assert_allclose(debias.score(model, X, sets).values, expected, atol=1e-15)


def test_a_constant_model_of_one_class_is_refused():
    X, y = draw()
    sets = np.column_stack([y == "u", np.zeros(N)]).astype(int)
    with pytest.warns(UserWarning, match="not 1 is present"):
        model = OneVsRestClassifier(forest()).fit(X, sets)
    with pytest.raises(debias.UnsupportedModelError, match="is a constant"):
        debias.score(model, X, sets)


def test_one_against_one_is_refused_with_the_line_to_write():
    X, y = draw()
    model = OneVsOneClassifier(forest()).fit(X, y)
    with pytest.raises(debias.UnsupportedModelError, match="rows of two classes only") as refusal:
        debias.score(model, X, y)
    assert "debias.score(model.estimators_[0], X[rows], (y[rows] == model.classes_[1]).astype(int))" in str(
        refusal.value
    )
    rows = np.isin(y, model.classes_[:2])
    scores = debias.score(model.estimators_[0], X[rows], (y[rows] == model.classes_[1]).astype(int))
    assert scores.provenance["status"] == "proven"


def test_codes_of_classes_are_refused_with_the_column_to_use():
    X, y = draw()
    model = OutputCodeClassifier(forest(), random_state=0).fit(X, y)
    with pytest.raises(debias.UnsupportedModelError, match="random sets of classes"):
        debias.score(model, X, y)
    column = model.code_book_[np.searchsorted(model.classes_, y)][:, 0]
    assert debias.score(model.estimators_[0], X, column.astype(int)).provenance["status"] == "proven"


@needs("lightgbm", "4.5", "lightgbm.cv fails with numpy 2")
@pytest.mark.filterwarnings("ignore:about .* rows (are|may be) training rows:debias.DebiasWarning")  # they are
@pytest.mark.parametrize("stop", [False, True])
def test_boosters_of_a_cross_validation_are_averaged(stop):
    X, y = draw()
    settings = {"objective": "binary", "verbose": -1, "num_threads": 1, "seed": 0}
    callbacks = [lightgbm.early_stopping(3, verbose=False)] if stop else None
    data = lightgbm.Dataset(X, (y == "u").astype(int))
    cv = lightgbm.cv(settings, data, 20, nfold=4, return_cvbooster=True, callbacks=callbacks)["cvbooster"]
    fresh, y_fresh = draw(1)
    y_fresh = (y_fresh == "u").astype(int)
    scores = debias.score(cv, fresh, y_fresh, rows="held-out")
    parts = [debias.score(booster, fresh, y_fresh, rows="held-out").values for booster in cv.boosters]
    np.testing.assert_allclose(scores.values, np.mean(parts, axis=0), atol=1e-15)
    with pytest.raises(debias.ProvenanceError, match="training rows"):
        debias.score(cv, X, (y == "u").astype(int))
    with pytest.raises(debias.UnsupportedModelError, match="has no boosters"):
        debias.score(lightgbm.CVBooster(), X, y)
