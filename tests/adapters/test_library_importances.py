"""Tests of extracted trees against the libraries: importances, predictions and leaves."""

from __future__ import annotations

import warnings

import lightgbm
import numpy as np
import pytest
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor

import debias
from debias.data.table import Table
from debias.trees.routing import raw_output, route
from support.missing_values import IN_FORESTS, needs_them_in_forests

N = 160
TASKS = ["regression", "binary", "3-class"]
VARIED = settings(max_examples=15)


def draw(task="regression", missing=True, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [
            rng.normal(size=N),
            rng.integers(0, 2, N),
            rng.integers(-3, 4, N),  # zeros, for zero_as_missing
            np.round(rng.normal(size=N), 1),
            rng.normal(size=N) * 1e-3 + 1e3,  # float32 does not hold these exactly
        ]
    )
    latent = X[:, 0] + X[:, 1] - 0.3 * X[:, 2] + rng.normal(size=N)
    if missing:
        for column in (0, 2, 4):
            X[rng.random(N) < 0.2, column] = np.nan
    if task == "regression":
        return X, latent
    return X, np.digitize(latent, [0.8] if task == "binary" else [-0.3, 1.2])


def assert_predicts_alike(model, X, raw, leaves, rtol):
    """Compare the raw output and the leaves of the common form with the library's own."""
    ensemble = debias.plugin.extract(model)
    ours = route(ensemble, Table(X).matrix(ensemble))
    np.testing.assert_array_equal(ours, leaves)
    scale = np.abs(raw).max()
    np.testing.assert_allclose(raw_output(ensemble, ours), np.reshape(raw, (len(X), -1)), rtol=0, atol=rtol * scale)


# --- scikit-learn --------------------------------------------------------------------------------------

CLASSIFIERS = [RandomForestClassifier, ExtraTreesClassifier, DecisionTreeClassifier, ExtraTreeClassifier]
REGRESSORS = [RandomForestRegressor, ExtraTreesRegressor, DecisionTreeRegressor, ExtraTreeRegressor]
CRITERIA = [(kind, criterion) for kind in CLASSIFIERS for criterion in ("gini", "entropy", "log_loss")] + [
    (kind, criterion)
    for kind in REGRESSORS
    for criterion in ("squared_error", "absolute_error", "friedman_mse", "poisson")
]


def grown(kind, y, X, **settings):
    if kind in (*CLASSIFIERS[:2], *REGRESSORS[:2]):
        settings = {"n_estimators": 8, **settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # friedman_mse goes in scikit-learn 1.11
        return kind(random_state=0, **settings).fit(X, y)


@pytest.mark.parametrize("depth", [None, 3], ids=["deep", "shallow"])
@pytest.mark.parametrize(("kind", "criterion"), CRITERIA, ids=lambda value: getattr(value, "__name__", value))
def test_mdi_is_feature_importances(kind, criterion, depth):
    X, y = draw("3-class" if kind in CLASSIFIERS else "regression", missing=False)
    y = y - y.min() if criterion == "poisson" else y
    model = grown(kind, y, X, criterion=criterion, max_depth=depth)
    found = debias.score(model, scorer="mdi", normalize="tree").values
    np.testing.assert_allclose(found, model.feature_importances_, rtol=0, atol=1e-12)


@VARIED
@given(
    kind=st.sampled_from([RandomForestClassifier, RandomForestRegressor, ExtraTreesClassifier, ExtraTreesRegressor]),
    varied=st.fixed_dictionaries(
        {
            "bootstrap": st.booleans(),
            "max_features": st.sampled_from([1, 3, 1.0]),
            "min_samples_leaf": st.integers(1, 30),
            "max_leaf_nodes": st.sampled_from([None, 2, 9]),
            "ccp_alpha": st.sampled_from([0.0, 0.02, 10.0]),  # 10: nothing is left but roots
        }
    ),
    missing=st.booleans() if IN_FORESTS else st.just(False),
    weighted=st.booleans(),
)
def test_forests_of_any_settings_give_the_librarys_importances_and_predictions(kind, varied, missing, weighted):
    classes = kind in CLASSIFIERS
    X, y = draw("3-class" if classes else "regression", missing)
    weight = np.random.default_rng(1).uniform(0.5, 2, N) if weighted else None
    model = kind(n_estimators=5, random_state=0, **varied).fit(X, y, sample_weight=weight)
    found = debias.score(model, scorer="mdi", normalize="tree").values
    np.testing.assert_allclose(found, model.feature_importances_, rtol=0, atol=1e-12)
    X_new, _ = draw(missing=IN_FORESTS, seed=1)  # forests take missing values even where they saw none
    raw = model.predict_proba(X_new) if classes else model.predict(X_new)
    assert_predicts_alike(model, X_new, raw, model.apply(X_new), 1e-13)


@needs_them_in_forests
@pytest.mark.parametrize("kind", [*CLASSIFIERS, *REGRESSORS], ids=lambda kind: kind.__name__)
def test_scikit_learn_predicts_alike_with_missing_values(kind):
    classes = kind in CLASSIFIERS
    X, y = draw("3-class" if classes else "regression")
    model = grown(kind, y, X)
    X_new, _ = draw(seed=1)
    raw = model.predict_proba(X_new) if classes else model.predict(X_new)
    assert_predicts_alike(model, X_new, raw, model.apply(X_new).reshape(N, -1), 1e-13)


# --- XGBoost -------------------------------------------------------------------------------------------

XGB_OBJECTIVE = {
    "regression": {"objective": "reg:squarederror"},
    "binary": {"objective": "binary:logistic"},
    "3-class": {"objective": "multi:softprob", "num_class": 3},
}


def xgb_wrapper(task, X, y, **settings):
    kind = xgboost.XGBRegressor if task == "regression" else xgboost.XGBClassifier
    return kind(**{"n_estimators": 6, "max_depth": 4, "n_jobs": 1, "random_state": 0, **settings}).fit(X, y)


def xgb_raw(task, X, y, names=None, **settings):
    data = xgboost.DMatrix(X, y, feature_names=names, nthread=1)
    return xgboost.train({"max_depth": 4, "nthread": 1, **XGB_OBJECTIVE[task], **settings}, data, num_boost_round=6)


def assert_xgboost_numbers(model, booster, names):
    for scorer, kind in (("split_count", "weight"), ("gain", "total_gain"), ("cover", "total_cover")):
        theirs = booster.get_score(importance_type=kind)
        expected = [theirs.get(name, 0.0) for name in names]
        assert max(expected) > 0
        np.testing.assert_allclose(debias.score(model, scorer=scorer).values, expected, rtol=1e-6)


@pytest.mark.parametrize("task", TASKS)
def test_an_xgboost_wrapper_gives_the_librarys_numbers(task):
    X, y = draw(task)
    model = xgb_wrapper(task, X, y)
    assert_xgboost_numbers(model, model.get_booster(), [f"f{k}" for k in range(5)])
    X_new, _ = draw(seed=1)
    assert_predicts_alike(model, X_new, model.predict(X_new, output_margin=True), model.apply(X_new), 1e-6)


@pytest.mark.parametrize("names", [None, ["a", "b", "c", "d", "e"]], ids=["unnamed", "named"])
@pytest.mark.parametrize("task", TASKS)
def test_an_xgboost_booster_gives_the_librarys_numbers(task, names):
    X, y = draw(task)
    model = xgb_raw(task, X, y, names)
    assert_xgboost_numbers(model, model, names or [f"f{k}" for k in range(5)])
    X_new, _ = draw(seed=1)
    data = xgboost.DMatrix(X_new, feature_names=names, nthread=1)
    raw, leaves = model.predict(data, output_margin=True), model.predict(data, pred_leaf=True)
    assert_predicts_alike(model, X_new, raw, leaves.reshape(N, -1), 1e-6)


@pytest.mark.parametrize("objective", ["binary:logitraw", "reg:logistic", "multi:softmax"])
@pytest.mark.parametrize("base_score", [None, 0.3])
def test_xgboost_objectives_and_their_base_score(objective, base_score):
    # base_score is a probability for some objectives, a margin for others.
    task = "3-class" if objective.startswith("multi") else "binary"
    X, y = draw(task)
    given_base = {} if base_score is None else {"base_score": base_score}
    model = xgb_raw(task, X, y, objective=objective, **given_base)
    data = xgboost.DMatrix(draw(seed=1)[0], nthread=1)
    raw, leaves = model.predict(data, output_margin=True), model.predict(data, pred_leaf=True)
    assert_predicts_alike(model, draw(seed=1)[0], raw, leaves.reshape(N, -1), 1e-6)


@pytest.mark.thorough
@VARIED
@given(
    task=st.sampled_from(TASKS),
    varied=st.fixed_dictionaries(
        {
            "max_depth": st.sampled_from([1, 3, 10]),
            "tree_method": st.sampled_from(["hist", "exact", "approx"]),
            "subsample": st.sampled_from([1.0, 0.6]),
            "min_child_weight": st.sampled_from([0.0, 1.0, 20.0]),
            "num_parallel_tree": st.sampled_from([1, 2]),
            "learning_rate": st.sampled_from([0.1, 1.0]),
            "reg_alpha": st.sampled_from([0.0, 1.0]),
        }
    ),
)
def test_xgboost_of_any_settings_gives_the_librarys_numbers(task, varied):
    X, y = draw(task)
    model = xgb_wrapper(task, X, y, **varied)
    X_new, _ = draw(seed=1)
    leaves = np.reshape(model.apply(X_new), (N, -1))
    assert_predicts_alike(model, X_new, model.predict(X_new, output_margin=True), leaves, 1e-6)
    if model.get_booster().get_score():  # XGBoost has nothing to say of trees that do not split
        assert_xgboost_numbers(model, model.get_booster(), [f"f{k}" for k in range(5)])


def test_the_missing_value_of_an_xgboost_wrapper_is_used():
    X, y = draw()
    X = np.nan_to_num(X, nan=-9.0)
    model = xgb_wrapper("regression", X, y, missing=-9.0)
    X_new = np.nan_to_num(draw(seed=1)[0], nan=-9.0)
    assert_predicts_alike(model, X_new, model.predict(X_new, output_margin=True), model.apply(X_new), 1e-6)


# --- LightGBM ------------------------------------------------------------------------------------------

LGB_OBJECTIVE = {
    "regression": {"objective": "regression"},
    "binary": {"objective": "binary"},
    "3-class": {"objective": "multiclass", "num_class": 3},
}


def lgb_wrapper(task, X, y, **settings):
    kind = lightgbm.LGBMRegressor if task == "regression" else lightgbm.LGBMClassifier
    settings = {"n_estimators": 6, "min_child_samples": 5, "n_jobs": 1, "random_state": 0, "verbose": -1, **settings}
    return kind(**settings).fit(X, y)


def lgb_raw(task, X, y, names="auto", **settings):
    settings = {"min_data_in_leaf": 5, "num_threads": 1, "verbose": -1, **LGB_OBJECTIVE[task], **settings}
    return lightgbm.train(settings, lightgbm.Dataset(X, y, feature_name=names), num_boost_round=6)


def lgb_leaves(booster, X):
    """Return native leaf indices as node ids: inner nodes stand before them, one fewer than there are leaves."""
    indices = booster.predict(X, pred_leaf=True).reshape(len(X), -1)
    return indices + [tree["num_leaves"] - 1 for tree in booster.dump_model()["tree_info"]]


def assert_lightgbm_alike(model, booster, X_new):
    for scorer, kind in (("split_count", "split"), ("gain", "gain")):
        expected = booster.feature_importance(kind)
        # The model text has six digits of a gain.
        np.testing.assert_allclose(debias.score(model, scorer=scorer).values, expected, rtol=1e-5)
    raw = booster.predict(X_new, raw_score=True)
    assert_predicts_alike(model, X_new, raw, lgb_leaves(booster, X_new), 1e-13)


@pytest.mark.parametrize("task", TASKS)
def test_a_lightgbm_wrapper_gives_the_librarys_numbers(task):
    X, y = draw(task)
    model = lgb_wrapper(task, X, y)
    assert model.booster_.feature_importance("gain").max() > 0
    assert_lightgbm_alike(model, model.booster_, draw(seed=1)[0])


@pytest.mark.parametrize("names", ["auto", ["a", "b", "c", "d", "e"]], ids=["unnamed", "named"])
@pytest.mark.parametrize("task", TASKS)
def test_a_lightgbm_booster_gives_the_librarys_numbers(task, names):
    X, y = draw(task)
    model = lgb_raw(task, X, y, names)
    assert_lightgbm_alike(model, model, draw(seed=1)[0])


@pytest.mark.thorough
@VARIED
@given(
    task=st.sampled_from(TASKS),
    missing=st.booleans(),
    varied=st.fixed_dictionaries(
        {
            "num_leaves": st.sampled_from([2, 6, 31]),
            "boosting_type": st.sampled_from(["gbdt", "dart"]),
            "boost_from_average": st.booleans(),
            "use_missing": st.booleans(),
            "zero_as_missing": st.booleans(),
            "min_child_samples": st.sampled_from([1, 10, 90]),  # 90: nothing splits
            "learning_rate": st.sampled_from([0.1, 1.0]),
            "reg_lambda": st.sampled_from([0.0, 10.0]),
        }
    ),
)
def test_lightgbm_of_any_settings_gives_the_librarys_numbers(task, missing, varied):
    X, y = draw(task, missing)
    model = lgb_wrapper(task, X, y, **varied)
    assert_lightgbm_alike(model, model.booster_, draw(seed=1)[0])


@pytest.mark.parametrize("value", [0.0, -0.0, 1e-36, 1e-34, -1e-34, np.nan])
def test_lightgbm_zeros_that_are_missing(value):
    # LightGBM takes all within 1e-35 of zero for zero.
    X, y = draw()
    model = lgb_raw("regression", X, y, zero_as_missing=True)
    X_new, _ = draw(seed=1)
    X_new[::2, 2] = value
    assert_lightgbm_alike(model, model, X_new)


# --- early stopping: the rounds the library predicts with ----------------------------------------------


def stopped(fit):
    X, y = draw()
    rng = np.random.default_rng(3)
    X_valid = X.copy()
    X_valid[::2] = X[rng.permutation(N)][::2]  # half of it tells nothing, so that training soon does harm
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # LightGBM 4.7 renames eval_set; 4.6 knows no other name
        return fit(X, y, X_valid)


def test_early_stopped_xgboost_wrapper_predicts_up_to_its_best_round():
    settings = {"n_estimators": 60, "early_stopping_rounds": 4, "n_jobs": 1, "learning_rate": 0.5}
    model = stopped(lambda X, y, V: xgboost.XGBRegressor(**settings).fit(X, y, eval_set=[(V, y)], verbose=False))
    assert model.best_iteration + 1 < model.get_booster().num_boosted_rounds()
    X_new, _ = draw(seed=1)
    leaves = model.apply(X_new)
    assert leaves.shape[1] == model.best_iteration + 1
    assert_predicts_alike(model, X_new, model.predict(X_new, output_margin=True), leaves, 1e-6)


def test_early_stopped_xgboost_booster_predicts_with_all_rounds():
    params = {"nthread": 1, "learning_rate": 0.5}
    model = stopped(
        lambda X, y, V: xgboost.train(
            params,
            xgboost.DMatrix(X, y, nthread=1),
            60,
            evals=[(xgboost.DMatrix(V, y, nthread=1), "valid")],
            early_stopping_rounds=4,
            verbose_eval=False,
        )
    )
    assert model.best_iteration + 1 < model.num_boosted_rounds()
    data = xgboost.DMatrix(draw(seed=1)[0], nthread=1)
    leaves = model.predict(data, pred_leaf=True)
    assert leaves.shape[1] == model.num_boosted_rounds()
    assert_predicts_alike(model, draw(seed=1)[0], model.predict(data, output_margin=True), leaves, 1e-6)
    assert_xgboost_numbers(model, model, [f"f{k}" for k in range(5)])


@pytest.mark.parametrize("raw", [False, True], ids=["wrapper", "booster"])
def test_early_stopped_lightgbm_uses_its_best_rounds_only(raw):
    settings = {"learning_rate": 0.5, "num_leaves": 20, "min_child_samples": 3, "n_jobs": 1, "verbose": -1}
    callbacks = [lightgbm.early_stopping(4, verbose=False)]

    def fit(X, y, V):
        if not raw:
            model = lightgbm.LGBMRegressor(n_estimators=60, **settings)
            return model.fit(X, y, eval_set=[(V, y)], callbacks=callbacks)
        data = lightgbm.Dataset(X, y)
        return lightgbm.train(
            settings, data, 60, valid_sets=[lightgbm.Dataset(V, y, reference=data)], callbacks=callbacks
        )

    model = stopped(fit)
    booster = model if raw else model.booster_
    assert 0 < booster.best_iteration < 60
    X_new, _ = draw(seed=1)
    assert lgb_leaves(booster, X_new).shape[1] == booster.best_iteration
    assert_lightgbm_alike(model, booster, X_new)


def test_the_constant_lightgbm_starts_from_is_the_mean_of_y_or_0():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = 20 + X[:, 0] + rng.normal(size=200)
    for from_average, expected in ((True, y.mean()), (False, 0.0)):
        model = lightgbm.LGBMRegressor(n_estimators=5, boost_from_average=from_average, verbose=-1).fit(X, y)
        assert debias.plugin.extract(model).base[0] == pytest.approx(expected, rel=1e-6)
