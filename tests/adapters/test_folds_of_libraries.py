"""Containers of libraries with the models of a cross-validation, against audits of each model by hand."""

import warnings

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, cross_validate

import debias
from debias.early_stopping import PERHAPS_STOPPED_EARLY, STOPPED_EARLY
from support import simulated
from support.versions import at_least

N_ROWS, K = 150, 3
SPLITS = list(KFold(K, shuffle=True, random_state=4).split(range(N_ROWS)))
SETTINGS = {"test": None, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    return simulated.rows(N_ROWS, names=["a", "b", "c"])


def require_audits_by_hand(audit, models, X, y, splits=SPLITS):
    """Require that the audit of each fold is that of its model on its test rows, and that this is proven."""
    by_hand = {
        f"fold {k}": debias.audit(model, X.iloc[test], y.iloc[test], rows="held-out", **SETTINGS)
        for k, (model, (_, test)) in enumerate(zip(models, splits, strict=True))
    }
    assert audit.audits.keys() == by_hand.keys()
    for name, of_fold in audit.audits.items():
        expected = by_hand[name].to_frame().drop(columns="unproven_because", errors="ignore")
        pd.testing.assert_frame_equal(of_fold.to_frame(), expected)
        assert of_fold.provenance["status"] == "proven held-out"


def boosted(data, rounds=8, **settings):
    if not at_least("lightgbm", "4.5"):
        pytest.skip("cv of LightGBM before 4.5 fails with NumPy 2")
    quiet = {"objective": "l2", "verbose": -1, "num_threads": 1, "num_leaves": 4}
    rows = lightgbm.Dataset(*data, free_raw_data=False)
    return lightgbm.cv(quiet, rows, rounds, folds=SPLITS, return_cvbooster=True, **settings)


@pytest.mark.thorough
def test_boosters_of_lightgbm_cv_are_audited_as_by_hand(data):
    results = boosted(data)
    for given in (results, results["cvbooster"], results["cvbooster"].boosters):
        audit = debias.audit_folds(given, *data, SPLITS, **SETTINGS)
        require_audits_by_hand(audit, results["cvbooster"].boosters, *data)
        assert audit.notes == ()
    with pytest.raises(debias.RowsError, match="the rows of each fold are not known: pass cv="):
        debias.audit_folds(results, *data)


def test_boosters_that_were_stopped_by_their_test_rows_are_said_to_be_tuned(data):
    results = boosted(data, 200, callbacks=[lightgbm.early_stopping(3, verbose=False)])
    audit = debias.audit_folds(results, *data, SPLITS, **SETTINGS)
    assert "LightGBM chose the number of trees by the loss on the test rows" in audit.notes[0]
    assert audit.audits["fold 0"].tested_scores.settings["n_trees"] == results["cvbooster"].best_iteration
    assert audit.warnings == audit.notes
    assert audit.notes[0] in audit.audits["fold 0"].warnings
    never = boosted(data, 3, callbacks=[lightgbm.early_stopping(3, verbose=False)])
    assert debias.audit_folds(never, *data, SPLITS, **SETTINGS).warnings == ()


@pytest.mark.thorough
@pytest.mark.parametrize("library", ["xgboost", "lightgbm", pytest.param("catboost", marks=pytest.mark.integration)])
def test_models_that_were_stopped_early_are_said_so_first(data, library):
    """A model does not store the rows of ``eval_set``: they may be the test rows."""
    X, y = (np.asarray(values) for values in data)
    audit = debias.audit_folds([stopped(library, X, y, *rows) for rows in SPLITS], X, y, SPLITS, **SETTINGS)
    assert audit.notes == (STOPPED_EARLY,)
    assert "does not store (early stopping)" in audit.summary()[0]
    assert audit.warnings.count(STOPPED_EARLY) == 1
    tested = debias.audit_folds(
        [stopped(library, X, y, *rows) for rows in SPLITS], X, y, SPLITS, test=debias.Permutation(20)
    )
    assert "does not store (early stopping)" in tested.summary()[0]
    never = [stopped(library, X, y, *rows, rounds=3) for rows in SPLITS]
    assert debias.audit_folds(never, X, y, SPLITS, **SETTINGS).warnings == ()  # all trees were grown and are used
    models = [never[0], stopped(library, X, y, *SPLITS[1]), never[2]]
    one = debias.audit_folds(models, X, y, SPLITS, **SETTINGS)
    assert one.notes == (f"fold 1: {STOPPED_EARLY}",)
    assert one.summary()[0].startswith("Fold 1: the number of trees was chosen by the loss on rows")
    assert [text for text in one.warnings if STOPPED_EARLY in text] == [f"fold 1: {STOPPED_EARLY}"]


def test_a_booster_of_xgboost_that_may_have_been_stopped_says_may(data):
    X, y = (np.asarray(values) for values in data)
    for rounds in (3, 200):
        boosters = [stopped("xgboost", X, y, *rows, rounds=rounds).get_booster() for rows in SPLITS]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            audit = debias.audit_folds(boosters, X, y, SPLITS, **SETTINGS)
        assert audit.notes[0] == PERHAPS_STOPPED_EARLY


def stopped(library, X, y, train, test, rounds=200):
    """Return a model that the test rows stopped, if it has many rounds."""
    sides = (X[train], y[train]), (X[test], y[test])
    if library == "catboost":
        catboost = pytest.importorskip("catboost")
        model = catboost.CatBoostRegressor(iterations=rounds, learning_rate=0.3, verbose=0, allow_writing_files=False)
        return model.fit(*sides[0], eval_set=sides[1], early_stopping_rounds=5)
    if library == "xgboost":
        model = xgboost.XGBRegressor(n_estimators=rounds, max_depth=3, early_stopping_rounds=5, n_jobs=1)
        return model.fit(*sides[0], eval_set=[sides[1]], verbose=False)
    model = lightgbm.LGBMRegressor(n_estimators=rounds, num_leaves=4, n_jobs=1, verbose=-1)
    callbacks = [lightgbm.early_stopping(5, verbose=False)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # LightGBM 4.7 renames eval_set; 4.6 knows no other name
        return model.fit(*sides[0], eval_set=[sides[1]], callbacks=callbacks)


def test_an_empty_cvbooster_is_refused(data):
    with pytest.raises(debias.UnsupportedModelError, match="has no boosters"):
        debias.audit_folds(lightgbm.CVBooster(), *data, SPLITS)


def test_boosters_of_xgboost_cv_are_audited_as_by_hand(data):
    class Keep(xgboost.callback.TrainingCallback):
        def after_training(self, model):
            self.boosters = [fold.bst for fold in model.cvfolds]
            return model

    keep = Keep()
    xgboost.cv({"max_depth": 3, "nthread": 1}, xgboost.DMatrix(*data), 8, folds=SPLITS, callbacks=[keep])
    audit = debias.audit_folds(keep.boosters, *data, SPLITS, **SETTINGS)
    require_audits_by_hand(audit, keep.boosters, *data)


@pytest.mark.filterwarnings("ignore:The groups parameter is ignored")  # CatBoost passes them to every splitter
@pytest.mark.integration
def test_models_of_catboost_cv_are_audited_as_by_hand(data, tmp_path):
    catboost = pytest.importorskip("catboost")
    settings = {
        "loss_function": "RMSE",
        "iterations": 8,
        "learning_rate": 0.3,
        "thread_count": 1,
        "train_dir": str(tmp_path),
    }
    pool = catboost.Pool(*data)
    results = catboost.cv(pool, settings, folds=SPLITS, return_models=True, logging_level="Silent")
    for given in (results, results[1]):
        require_audits_by_hand(debias.audit_folds(given, *data, SPLITS, **SETTINGS), results[1], *data)


def test_results_of_cross_validate_are_audited_as_by_hand(data):
    forest = RandomForestRegressor(8, random_state=0)
    results = cross_validate(forest, *data, cv=SPLITS, return_estimator=True, return_indices=True)
    require_audits_by_hand(debias.audit_folds(results, *data, **SETTINGS), results["estimator"], *data)


def test_a_calibrated_classifier_is_audited_as_by_hand():
    X, y = simulated.rows(N_ROWS, names=["a", "b", "c"], cuts=[0])
    calibrated = CalibratedClassifierCV(RandomForestClassifier(8, random_state=0), cv=K).fit(X, y)
    models = [each.estimator for each in calibrated.calibrated_classifiers_]
    audit = debias.audit_folds(calibrated, X, y, **SETTINGS)
    require_audits_by_hand(audit, models, X, y, list(StratifiedKFold(K).split(X, y)))


def test_a_search_is_trained_again_on_its_folds_and_says_so(data):
    X, y = data
    forest = RandomForestRegressor(8, random_state=0)
    search = GridSearchCV(forest, {"min_samples_leaf": [2, 20]}, cv=SPLITS).fit(X, y)
    models = [search.best_estimator_.__class__(**search.best_estimator_.get_params()) for _ in SPLITS]
    models = [model.fit(X.iloc[train], y.iloc[train]) for model, (train, _) in zip(models, SPLITS, strict=True)]
    audit = debias.audit_folds(search, X, y, **SETTINGS)
    require_audits_by_hand(audit, models, X, y)
    assert "keeps no models of folds, so debias has trained its best_estimator_ again" in audit.notes[0]
    assert audit.notes[1].startswith("these models were trained again without weights")


@pytest.mark.thorough
@pytest.mark.parametrize("library", ["scikit-learn", "lightgbm", "xgboost"])
def test_a_search_with_weights_is_trained_again_with_them(data, library):
    X, y = data
    weight = pd.Series(np.random.default_rng(0).integers(1, 9, N_ROWS))
    model = {
        "scikit-learn": RandomForestRegressor(8, random_state=0),
        "lightgbm": lightgbm.LGBMRegressor(n_estimators=8, num_leaves=4, n_jobs=1, verbose=-1),
        "xgboost": xgboost.XGBRegressor(n_estimators=8, max_depth=3, n_jobs=1),
    }[library]
    search = GridSearchCV(model, {}, cv=SPLITS).fit(X, y, sample_weight=weight)
    models = [clone(model).fit(X.iloc[train], y.iloc[train], sample_weight=weight[train]) for train, _ in SPLITS]
    audit = debias.audit_folds(search, X, y, sample_weight=weight, **SETTINGS)
    expected = debias.audit_folds(models, X, y, SPLITS, sample_weight=weight, **SETTINGS)
    pd.testing.assert_frame_equal(audit.to_frame(), expected.to_frame())
    assert {each.provenance["status"] for each in audit.audits.values()} == {"proven held-out"}
    assert len(audit.notes) == 1
