"""Tests of the adapter of AutoGluon, against the library."""

from __future__ import annotations

import logging
import warnings
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest

import debias
from debias.data.table import Table
from debias.errors import DebiasWarning, ProvenanceError, RowsError, UnsupportedModelError
from debias.models.wrappers import unwrap
from debias.testing import check_adapter
from debias.trees.routing import raw_output, route
from debias.warning_log import WarningLog

pytestmark = pytest.mark.integration
N = 240
FAST = {
    "GBM": {"num_boost_round": 15},
    "XGB": {"n_estimators": 15},
    "CAT": {"iterations": 15},
    "RF": {"n_estimators": 15, "n_jobs": 1},
    "XT": {"n_estimators": 15, "n_jobs": 1},
}
NAMES = {"GBM": "LightGBM", "XGB": "XGBoost", "CAT": "CatBoost", "RF": "RandomForest", "XT": "ExtraTrees"}
TASKS = ["regression", "binary", "multiclass"]


def rows(seed, task="regression", n=N):
    """Return a frame with numbers, missing values, categories, text, a constant and dates, and a response."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "constant": 1.0,
            "number": rng.normal(size=n),
            "category": pd.Categorical(rng.choice(["u", "v", "w"], n)),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D"),
            "text": rng.choice(["x", "y"], n),
            "noise": rng.integers(0, 5, n),
        }
    )
    y = X["number"] + 2 * (X["category"] == "u") + (X["day"].dt.month > 6) + 0.3 * rng.normal(size=n)
    X.loc[rng.random(n) < 0.1, "number"] = np.nan
    y = y.to_numpy()
    if task == "regression":
        return X, y
    return X, np.array(["low", "middle", "top"])[np.digitize(y, [1] if task == "binary" else [0.4, 1.8])]


@contextmanager
def quiet():
    with warnings.catch_warnings():  # of the libraries, while they train
        warnings.simplefilter("ignore")
        yield


def fitted(path, X, y, kinds, **settings):
    """Return a predictor of some kinds of models; with num_bag_folds=0 without folds."""
    tabular = pytest.importorskip("autogluon.tabular")
    fixed = {"num_bag_folds": 3, "num_bag_sets": 1, "num_stack_levels": 0, "num_cpus": 1, "num_gpus": 0}
    if settings.get("num_bag_folds", 3):
        fixed["ag_args_ensemble"] = {"fold_fitting_strategy": "sequential_local"}
    else:
        del fixed["num_bag_sets"], fixed["num_stack_levels"]
    hyperparameters = {kind: FAST.get(kind, {}) for kind in kinds}
    with quiet():
        predictor = tabular.TabularPredictor(label="y", path=str(path), verbosity=0)
        return predictor.fit(X.assign(y=y), hyperparameters=hyperparameters, **{**fixed, **settings})


@pytest.fixture(scope="module")
def predictors(tmp_path_factory):
    """Return a function that gives the predictor of a task, with one bag of each kind and their weighted ensemble."""
    made = {}

    def of(task):
        if task not in made:
            made[task] = fitted(tmp_path_factory.mktemp("models") / task, *rows(0, task), NAMES)
        return made[task]

    return of


@contextmanager
def best(predictor, name):
    """Let a predictor predict with one of its models."""
    before = predictor._trainer.model_best
    predictor.set_model_best(name)
    try:
        yield predictor
    finally:
        predictor._trainer.model_best = before


def output(member):
    """Return what the trees of a member predict for its rows: means or probabilities."""
    ensemble = member.ensemble
    table = Table(member.X).aligned_to(ensemble, WarningLog())
    raw = raw_output(ensemble, route(ensemble, table.matrix(ensemble)))
    if ensemble.averaged or ensemble.objective.name not in ("logistic", "softmax"):
        return raw
    if raw.shape[1] == 1:
        positive = 1 / (1 + np.exp(-raw))
        return np.hstack([1 - positive, positive])
    share = np.exp(raw - raw.max(axis=1, keepdims=True))
    return share / share.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("kind", [*NAMES.values(), None])
def test_the_trees_inside_give_the_predictions_of_the_predictor(predictors, kind, task):
    predictor = predictors(task)
    name = f"{kind}_BAG_L1" if kind else next(each for each in predictor.model_names() if each.startswith("Weighted"))
    X_new, y_new = rows(1, task)
    with best(predictor, name):
        members = unwrap(predictor, X_new, y_new)
        combined = sum(member.weight * output(member) for member in members)
        if task == "regression":
            np.testing.assert_allclose(combined[:, 0], predictor.predict(X_new), rtol=1e-5, atol=1e-5)
        else:
            np.testing.assert_allclose(combined, predictor.predict_proba(X_new), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("kind", NAMES.values())
def test_scores_of_new_rows_are_means_over_the_folds(predictors, kind, task):
    predictor = predictors(task)
    X_new, y_new = rows(1, task)
    with best(predictor, f"{kind}_BAG_L1"):
        scores = debias.score(predictor, X_new, y_new, rows="held-out")
        members = unwrap(predictor, X_new, y_new)
    assert scores.feature_names[: X_new.shape[1]] == tuple(X_new.columns)
    assert scores.values[0] == 0  # AutoGluon drops the constant column
    by_member = [debias.score(each.model, each.X, each.y, rows="held-out").values.sum() for each in members]
    np.testing.assert_allclose(scores.values.sum(), np.mean(by_member), rtol=1e-10)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("kind", ["LightGBM", "XGBoost", "CatBoost"])
def test_each_fold_is_scored_on_the_rows_it_was_not_trained_on(predictors, kind, task):
    predictor = predictors(task)
    X, y = rows(0, task)
    with best(predictor, f"{kind}_BAG_L1"):
        with pytest.warns(DebiasWarning, match="chose the number of trees in each fold by the loss on its rows"):
            scores = debias.score(predictor, X, y, rows="oob")
        bag = predictor._trainer.load_model(predictor.model_best)
        seen = predictor.transform_features(X)
        labels = predictor.transform_labels(pd.Series(y))
        expected = 0.0
        (splitter,) = bag._cv_splitters
        for (_, fold), name in zip(splitter.split(seen, labels), bag.models, strict=True):
            child = bag.load_child(name)
            prepared = child.preprocess(seen.iloc[fold])
            expected += debias.score(child.model, prepared, labels.to_numpy()[fold], rows="held-out").values.sum() / 3
        phi = None
        if kind == "LightGBM":
            with pytest.warns(DebiasWarning):
                phi = debias.contributions(predictor, X, y, rows="oob")
    assert scores.rows == "oob"
    assert scores.provenance["status"] == "proven"
    assert scores.n_rows == N
    np.testing.assert_allclose(scores.values.sum(), expected, rtol=1e-9)
    if phi is not None:
        assert phi.shape[0] == N
        np.testing.assert_allclose(phi.sum(), scores.values, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["RandomForest", "ExtraTrees"])
def test_a_forest_is_scored_on_its_out_of_bag_rows(predictors, kind):
    predictor = predictors("binary")
    X, y = rows(0, "binary")
    with best(predictor, f"{kind}_BAG_L1"):
        scores = debias.score(predictor, X, y)
        (member,) = unwrap(predictor, X, y)
    assert (scores.rows, scores.provenance["status"]) == ("oob", "proven")
    direct = debias.score(member.model, member.X, member.y, rows="oob")
    np.testing.assert_allclose(scores.values.sum(), direct.values.sum(), rtol=1e-10)


def test_forests_of_folds_are_scored_on_their_folds_without_a_warning(tmp_path):
    X, y = rows(0)
    settings = {"fold_fitting_strategy": "sequential_local", "use_child_oof": False}
    predictor = fitted(tmp_path / "folds", X, y, ["RF"], ag_args_ensemble=settings, fit_weighted_ensemble=False)
    scores = debias.score(predictor, X, y)
    assert (scores.rows, scores.n_rows, scores.provenance["status"]) == ("oob", N, "proven")
    assert len(scores.details["members"]) == 3


def test_oob_rows_of_repeated_folds_are_proven(tmp_path):
    X, y = rows(0)
    predictor = fitted(tmp_path / "sets", X, y, ["GBM"], num_bag_sets=2, fit_weighted_ensemble=False)
    with pytest.warns(DebiasWarning):
        scores = debias.score(predictor, X, y, rows="oob")
    assert len(scores.details["members"]) == 6
    assert (scores.n_rows, scores.provenance["status"]) == (N, "proven")


def test_rows_that_chose_the_number_of_trees_must_be_asked_for(predictors):
    X, y = rows(0)
    with best(predictors("regression"), "LightGBM_BAG_L1") as predictor:
        with pytest.raises(ProvenanceError, match=r"chose the number of trees.*too high on average.*rows='held-out'"):
            debias.score(predictor, X, y)
        with pytest.raises(ProvenanceError, match="chose the number of trees"):
            debias.audit(predictor, X, y)


@pytest.mark.parametrize("task", ["regression", "binary"])
def test_other_rows_are_no_training_rows(predictors, task):
    X, y = rows(0, task)
    X_new, y_new = rows(1, task)
    with best(predictors(task), "LightGBM_BAG_L1") as predictor:
        with pytest.raises(ProvenanceError, match="predict what AutoGluon stored"):
            debias.score(predictor, X[::-1], y[::-1], rows="oob")
        with pytest.raises(ProvenanceError, match="predict what AutoGluon stored"):
            debias.score(predictor, X_new, y_new, rows="oob")
        with pytest.raises(ProvenanceError, match="trained this model on 240 rows, but X has 239"):
            debias.score(predictor, X[1:], y[1:], rows="oob")
        with pytest.raises(ProvenanceError, match=r"y is not the training response|predict what AutoGluon stored"):
            debias.score(predictor, X, np.random.default_rng(3).permutation(y), rows="oob")
        # The leaf counts of 240 rows give evidence of .01 to .02: enough for a warning, not for a refusal.
        with pytest.raises((ProvenanceError, debias.DebiasWarning), match="training rows"):
            debias.score(predictor, X[::-1], y[::-1])


def test_a_response_with_unknown_labels_is_refused(predictors):
    X, y = rows(0, "binary")
    with pytest.raises(RowsError, match=r"labels that the model never saw: \['other'\]"):
        debias.score(predictors("binary"), X, np.where(y == "low", "other", y), rows="held-out")


def test_rows_without_a_column_are_refused(predictors):
    X, y = rows(1)
    with pytest.raises(RowsError, match=r"has not the columns of this TabularPredictor \(missing: number\)"):
        debias.score(predictors("regression"), X.drop(columns="number"), y, rows="held-out")


def test_an_ensemble_of_probabilities_and_margins_is_refused(tmp_path):
    X, y = rows(0, "binary")
    predictor = fitted(tmp_path / "mixed", X, y, ["GBM", "RF"])
    weights = {"LightGBM_BAG_L1": 0.5, "RandomForest_BAG_L1": 0.5}
    mixed = predictor._trainer.load_model("WeightedEnsemble_L2")
    predictor._trainer.models["WeightedEnsemble_L2"] = mixed
    mixed._get_model_weights = lambda: weights
    predictor.set_model_best("WeightedEnsemble_L2")
    with pytest.raises(UnsupportedModelError, match="outputs on different scales"):
        debias.score(predictor, X, y, rows="held-out")


def test_members_without_trees_are_refused_and_another_model_is_named(tmp_path):
    X, y = rows(0)
    predictor = fitted(tmp_path / "linear", X, y, ["LR", "GBM"])
    predictor.set_model_best("LinearModel_BAG_L1")
    with pytest.raises(UnsupportedModelError, match=r"no models of trees.*set_model_best\(\"LightGBM_BAG_L1\"\)"):
        debias.score(predictor, X, y)


def test_a_second_level_is_refused(tmp_path):
    X, y = rows(0)
    predictor = fitted(tmp_path / "stacked", X, y, ["GBM"], num_stack_levels=1)
    predictor.set_model_best("LightGBM_BAG_L2")
    with pytest.raises(UnsupportedModelError, match=r"'LightGBM_BAG_L2' have predictions of other models as features"):
        debias.score(predictor, X, y)


def test_a_predictor_without_folds_is_scored_on_new_rows(tmp_path):
    X, y = rows(0)
    X_new, y_new = rows(1)
    predictor = fitted(tmp_path / "plain", X, y, ["GBM", "RF"], num_bag_folds=0)
    members = unwrap(predictor, X_new, y_new)
    combined = sum(member.weight * output(member)[:, 0] for member in members)
    np.testing.assert_allclose(combined, predictor.predict(X_new), rtol=1e-5, atol=1e-5)
    scores = debias.score(predictor, X_new, y_new, rows="held-out").to_frame()["mdi_oob"]
    assert set(scores.nlargest(2).index) == {"number", "category"}


@pytest.mark.parametrize("kind", ["XGB", "RF"])
def test_columns_that_a_model_makes_are_scored_at_its_level(tmp_path, kind):
    X, y = rows(0)
    predictor = fitted(tmp_path / "plain", X, y, [kind], num_bag_folds=0)
    X_new, y_new = rows(1)
    (member,) = unwrap(predictor, X_new, y_new)
    scores = debias.score(predictor, X_new, y_new, rows="held-out", level="model")
    assert len(scores.feature_names) == member.ensemble.n_features
    if kind == "RF":  # it sees the features as they are, so they keep their names
        assert {"number", "noise"} <= set(scores.feature_names)


@pytest.mark.parametrize("task", TASKS)
def test_the_folds_of_the_best_bag_are_audited_and_proven_by_the_stored_predictions(predictors, task):
    predictor = predictors(task)
    X, y = rows(0, task)
    with quiet(), best(predictor, "XGBoost_BAG_L1"):
        audit = debias.audit_folds(predictor, X, y, level="model", test=None)
        bag = predictor._trainer.load_model("XGBoost_BAG_L1")
        children = [bag.load_child(name) for name in bag.models]
        splits = bag._cv_splitters[0].split(X=X, y=predictor.transform_labels(pd.Series(y)))
        assert len(audit.audits) == len(children) == 3
        for (name, of_fold), child, (_, test) in zip(audit.audits.items(), children, splits, strict=True):
            seen = predictor.transform_features(X)[children[0].features].reset_index(drop=True).iloc[test]
            labels = predictor.transform_labels(pd.Series(y)).to_numpy()[test]
            by_hand = debias.score(child, seen, labels, rows="held-out", level="model")
            np.testing.assert_allclose(of_fold.tested_scores.values, by_hand.values, rtol=1e-12, err_msg=name)
            assert of_fold.provenance["status"] == "proven held-out"
            assert "what AutoGluon stored" in of_fold.provenance["detail"]
    assert "AutoGluon chose the number of trees in each fold" in audit.notes[0]


def test_of_several_bags_that_of_the_largest_weight_is_named(predictors):
    predictor = predictors("binary")
    name = next(each for each in predictor.model_names() if each.startswith("Weighted"))
    with quiet(), best(predictor, name):
        audit = debias.audit_folds(predictor, *rows(0, "binary"), test=None)
    weights = predictor._trainer.load_model(name)._get_model_weights()
    with_folds = {each: weight for each, weight in weights.items() if not each.startswith(("RandomF", "ExtraT"))}
    if len(weights) > 1:
        assert f"the folds are those of {max(with_folds, key=with_folds.get)!r}" in audit.notes[1]


def test_rows_in_another_order_and_bags_without_folds_are_refused(predictors):
    predictor = predictors("regression")
    X, y = rows(0)
    other_order, message = X[::-1].reset_index(drop=True), "these are not the training rows in training order"
    with quiet(), best(predictor, "LightGBM_BAG_L1"), pytest.raises(ProvenanceError, match=message):
        debias.audit_folds(predictor, other_order, y[::-1])
    with best(predictor, "RandomForest_BAG_L1"), pytest.raises(UnsupportedModelError, match="use_child_oof"):
        debias.audit_folds(predictor, X, y)


def test_forests_have_folds_if_they_are_asked_for(tmp_path):
    settings = {"fold_fitting_strategy": "sequential_local", "use_child_oof": False}
    X, y = rows(0)
    predictor = fitted(tmp_path / "folds", X, y, ["RF"], ag_args_ensemble=settings, fit_weighted_ensemble=False)
    with quiet():
        audit = debias.audit_folds(predictor, X, y, test=None)
    assert len(audit.audits) == 3
    assert audit.notes == ()


def test_a_refitted_predictor_has_no_folds(tmp_path):
    X, y = rows(0)
    predictor = fitted(tmp_path / "full", X, y, ["GBM"], fit_weighted_ensemble=False)
    with quiet():
        predictor.refit_full(set_best_to_refit_full=True)
    assert predictor.model_best == "LightGBM_BAG_L1_FULL"
    with pytest.raises(UnsupportedModelError, match="no bag of trees in it has models of folds"):
        debias.audit_folds(predictor, X, y)
    with pytest.raises(ProvenanceError, match="these are the training rows"):
        debias.score(predictor, X, y)
    debias.score(predictor, *rows(1), rows="held-out")


def test_quantiles_and_unfitted_predictors_are_refused(tmp_path):
    tabular = pytest.importorskip("autogluon.tabular")
    X, y = rows(0)
    with pytest.raises(UnsupportedModelError, match="is not fitted"):
        debias.score(tabular.TabularPredictor(label="y", path=str(tmp_path / "none"), verbosity=0), X, y)
    with quiet():
        predictor = tabular.TabularPredictor(
            label="y", path=str(tmp_path / "q"), problem_type="quantile", quantile_levels=[0.1, 0.9], verbosity=0
        ).fit(X.assign(y=y), hyperparameters={"RF": FAST["RF"]}, num_cpus=1, num_gpus=0)
    with pytest.raises(UnsupportedModelError, match="problem 'quantile'"):
        debias.score(predictor, X, y)


def test_scores_of_noise_have_mean_zero(tmp_path):
    """With forests, in which AutoGluon chooses nothing by the rows of a fold."""
    settings = {"fold_fitting_strategy": "sequential_local", "use_child_oof": False}

    def score(seed):
        rng = np.random.default_rng(seed)
        X = pd.DataFrame({"fine": rng.normal(size=120), "coarse": rng.integers(0, 2, 120)})
        y = rng.normal(size=120)
        folder = tmp_path / str(seed)
        predictor = fitted(folder, X, y, ["RF"], ag_args_ensemble=settings, fit_weighted_ensemble=False)
        return debias.score(predictor, X, y, rows="oob").values

    values = np.array([score(seed) for seed in range(40)])
    z = values.mean(axis=0) / (values.std(axis=0, ddof=1) / np.sqrt(len(values)))
    assert (abs(z) < 3.3).all()


def test_the_adapter_keeps_its_contract(predictors):
    X, y = rows(0)
    with best(predictors("regression"), "RandomForest_BAG_L1") as predictor:
        assert check_adapter(predictor, X, y) == ("debias_unwrap",)


def test_nothing_is_logged_or_changed(predictors, caplog):
    predictor = predictors("regression")
    X, y = rows(1)
    before = X.copy()
    with caplog.at_level(logging.WARNING):
        debias.score(predictor, X, y, rows="held-out")
    pd.testing.assert_frame_equal(X, before)
