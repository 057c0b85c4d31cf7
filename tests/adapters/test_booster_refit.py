"""Tests of refits of boosters: on the same rows with the same seed the model is the same, bit by bit."""

from __future__ import annotations

import pickle
import warnings
from functools import partial

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost

import debias
from debias.hooks.registry import plugin_manager
from support import families

N = 240


def refit(model, X, y, sample_weight=None, seed=None, params=None, qid=None):
    return plugin_manager().hook.debias_refit(
        model=model, X=X, y=y, sample_weight=sample_weight, seed=seed, params=params, n_jobs=None, qid=qid
    )


def draw(seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(N, 4)), columns=list("abcd"))
    X["c"] = pd.Categorical.from_codes(rng.integers(0, 6, N), pd.Index(list("uvwxyz"), dtype=object))
    y = X["a"].to_numpy() + (X["c"] == "w").to_numpy() * 2.0 + rng.normal(size=N)
    return X, y


def quietly(train, *args, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that newer versions deprecate
        return train(*args, **settings)


XGB_SETTINGS = {
    "plain": {},
    "sampled": {"subsample": 0.6, "colsample_bynode": 0.5, "seed": 7, "eta": 0.2, "lambda": 3.0, "alpha": 0.1},
    "lossguide": {"grow_policy": "lossguide", "max_leaves": 5, "max_depth": 0, "base_score": 0.4},
    "dart": {"booster": "dart", "rate_drop": 0.4, "seed": 3},
    "constrained": {"monotone_constraints": "(1,0,0,-1)", "interaction_constraints": "[[0,1],[2,3]]"},
    "forest": {"num_parallel_tree": 4, "subsample": 0.7, "colsample_bylevel": 0.5},
    "approx": {"tree_method": "approx", "max_bin": 16, "max_cat_to_onehot": 1},
    "quantiles": {"objective": "reg:quantileerror", "quantile_alpha": [0.2, 0.8]},
    "huber": {"objective": "reg:pseudohubererror", "huber_slope": 0.3},
    "classes": {"objective": "multi:softprob", "num_class": 3},
    "weighed": {"objective": "binary:logistic", "scale_pos_weight": 3.0},
}


def xgb_data(X, y=None, weight=None):
    return xgboost.DMatrix(X, y, weight=weight, enable_categorical=True, nthread=1)


def xgb_response(settings, y):
    objective = settings.get("objective", "reg:squarederror")
    return np.digitize(y, [0.0, 1.0]) if "multi" in objective else (y > 0) * 1.0 if "binary" in objective else y


@pytest.mark.parametrize("how", ["live", "pickled"])
@pytest.mark.parametrize("name", XGB_SETTINGS)
def test_an_xgboost_booster_keeps_its_settings(name, how):
    X, y = draw()
    settings = XGB_SETTINGS[name]
    y = xgb_response(settings, y)
    weight = np.random.default_rng(1).uniform(0.5, 2, N)
    model = quietly(xgboost.train, {"nthread": 1, **settings}, xgb_data(X, y, weight), 6)
    before = model.predict(xgb_data(X))
    again = quietly(refit, pickle.loads(pickle.dumps(model)) if how == "pickled" else model, X, y, weight)
    np.testing.assert_array_equal(again.predict(xgb_data(X)), before)
    np.testing.assert_array_equal(model.predict(xgb_data(X)), before)
    shuffled = quietly(refit, model, X, np.random.default_rng(0).permutation(y))
    assert np.abs(shuffled.predict(xgb_data(X)) - before).max() > 1e-3


@pytest.mark.parametrize("name", ["sampled", "quantiles", "dart"])
def test_a_file_of_xgboost_needs_the_parameters(name, tmp_path):
    X, y = draw()
    settings = XGB_SETTINGS[name]
    model = quietly(xgboost.train, {"nthread": 1, **settings}, xgb_data(X, y), 6)
    model.save_model(tmp_path / "model.ubj")
    loaded = debias.load_model(tmp_path / "model.ubj")
    with pytest.raises(
        debias.UnsupportedModelError, match=r"does not keep .*; pass them as refits=debias.Refits\(params="
    ):
        refit(loaded, X, y)
    np.testing.assert_array_equal(
        quietly(refit, loaded, X, y, params=settings).predict(xgb_data(X)), model.predict(xgb_data(X))
    )


def test_aliases_of_parameters_go_before_what_was_kept():
    X, y = draw()
    model = xgboost.train({"eta": 0.1, "lambda": 2.0, "nthread": 1}, xgb_data(X, y), 4)
    expected = xgboost.train({"eta": 0.7, "lambda": 9.0, "nthread": 1}, xgb_data(X, y), 4)
    found = refit(model, X, y, params={"learning_rate": 0.7, "reg_lambda": 9.0})
    np.testing.assert_array_equal(found.predict(xgb_data(X)), expected.predict(xgb_data(X)))


XGB_WRAPPERS = {
    "regressor": (xgboost.XGBRegressor, {"subsample": 0.7, "random_state": 3}),
    "classifier": (xgboost.XGBClassifier, {"colsample_bytree": 0.5}),
    "forest": (xgboost.XGBRFRegressor, {"random_state": 2}),
    "dart": (xgboost.XGBRegressor, {"booster": "dart", "rate_drop": 0.4, "subsample": 0.7}),
    "own objective": (xgboost.XGBRegressor, {"objective": lambda y, f: (f - y, np.ones_like(f)), "base_score": 0.1}),
}


@pytest.mark.parametrize("name", XGB_WRAPPERS)
def test_an_xgboost_wrapper_is_cloned(name):
    """Without a word of what XGBoost deprecates: the user was told of it. (Warnings are errors in these tests.)"""
    X, y = draw()
    kind, settings = XGB_WRAPPERS[name]
    y = np.digitize(y, [0.0, 1.0]) if kind is xgboost.XGBClassifier else y
    make = partial(families.xgb_forest, kind) if kind is xgboost.XGBRFRegressor else kind
    model = quietly(make(n_estimators=7, n_jobs=1, enable_categorical=True, **settings).fit, X, y)
    params, trees = model.get_params(), model.get_booster().save_raw()
    again = refit(model, X, y)
    assert type(again) is kind
    assert again is not model
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert (model.get_params(), model.get_booster().save_raw()) == (params, trees)
    other = refit(model, X, y, seed=11)
    if "subsample" in settings or kind is xgboost.XGBRFRegressor:
        assert np.abs(other.predict(X) - model.predict(X)).max() > 1e-4
        np.testing.assert_array_equal(refit(model, X, y, seed=11).predict(X), other.predict(X))


def test_an_xgboost_wrapper_from_a_file_needs_the_parameters(tmp_path):
    X, y = draw()
    model = xgboost.XGBRegressor(n_estimators=5, max_depth=2, n_jobs=1, enable_categorical=True).fit(X, y)
    model.save_model(tmp_path / "model.json")
    loaded = xgboost.XGBRegressor()
    loaded.load_model(tmp_path / "model.json")
    with pytest.raises(debias.UnsupportedModelError, match="XGBRegressor was loaded from a file"):
        refit(loaded, X, y)
    again = refit(loaded, X, y, params={"max_depth": 2, "n_jobs": 1, "enable_categorical": True})
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_xgboost_early_stopping_is_off_with_the_best_number_of_rounds():
    X, y = draw()
    X_valid, y_valid = draw(1)
    stop = xgboost.callback.EarlyStopping(rounds=3)
    for how in ({"early_stopping_rounds": 3}, {"callbacks": [stop]}):
        model = xgboost.XGBRegressor(n_estimators=80, n_jobs=1, enable_categorical=True, learning_rate=0.5, **how)
        model.fit(X, y, eval_set=[(X_valid, y_valid)], verbose=False)
        assert model.best_iteration + 1 < model.get_booster().num_boosted_rounds()
        again = refit(model, X, y)
        assert again.get_booster().num_boosted_rounds() == model.best_iteration + 1
        np.testing.assert_array_equal(again.predict(X), model.predict(X))


# --- LightGBM ------------------------------------------------------------------------------------------

LGB_SETTINGS = {
    "plain": {},
    "sampled": {"bagging_fraction": 0.6, "bagging_freq": 2, "feature_fraction": 0.5, "seed": 5, "lambda_l2": 2.0},
    "dart": {"boosting": "dart", "drop_rate": 0.4},
    "goss": {"data_sample_strategy": "goss"},
    "rf": {"boosting": "rf", "bagging_fraction": 0.5, "bagging_freq": 1},
    "constrained": {"monotone_constraints": [1, 0, 0, -1]},
    "quantile": {"objective": "quantile", "alpha": 0.2},
    "classes": {"objective": "multiclass", "num_class": 3},
}


@pytest.mark.parametrize("how", ["live", "pickled", "file"])
@pytest.mark.parametrize("name", LGB_SETTINGS)
def test_a_lightgbm_booster_keeps_its_settings(name, how, tmp_path):
    X, y = draw()
    settings = {"num_threads": 1, "verbose": -1, "min_data_per_group": 5, **LGB_SETTINGS[name]}
    y = np.digitize(y, [0.0, 1.0]) if name == "classes" else y
    weight = np.random.default_rng(1).uniform(0.5, 2, N)
    model = lightgbm.train(settings, lightgbm.Dataset(X, y, weight=weight), 6)
    before = model.predict(X)
    if how == "pickled":
        model = pickle.loads(pickle.dumps(model))
    elif how == "file":
        model.save_model(tmp_path / "model.txt")
        model = debias.load_model(tmp_path / "model.txt")
    params = dict(model.params)
    again = refit(model, X, y, weight)
    np.testing.assert_array_equal(again.predict(X), before)
    np.testing.assert_array_equal(model.predict(X), before)
    assert model.params == params
    if name in ("sampled", "rf"):
        assert np.abs(refit(model, X, y, weight, seed=99).predict(X) - before).max() > 1e-4


def test_a_lightgbm_booster_on_codes_keeps_which_features_are_categories():
    X, y = draw()
    X = X.assign(c=X["c"].cat.codes).to_numpy(dtype=float)
    data = lightgbm.Dataset(X, y, categorical_feature=[2])
    model = lightgbm.train({"verbose": -1, "num_threads": 1, "min_data_per_group": 5}, data, 5)
    assert debias.plugin.extract(model).category_set is not None
    for response in (y, y.tolist()):
        np.testing.assert_array_equal(refit(model, X, response).predict(X), model.predict(X))


@pytest.mark.parametrize("kind", [lightgbm.LGBMRegressor, lightgbm.LGBMClassifier])
@pytest.mark.parametrize("rounds", ["n_estimators", "num_iterations"])
def test_a_lightgbm_wrapper_is_cloned_with_the_best_number_of_rounds(kind, rounds):
    X, y = draw()
    X_valid, y_valid = draw(1)
    if kind is lightgbm.LGBMClassifier:
        y, y_valid = (y > 0.5).astype(int), (y_valid > 0.5).astype(int)
    model = kind(learning_rate=0.5, n_jobs=1, verbose=-1, early_stopping_round=3, **{rounds: 90})
    quietly(model.fit, X, y, eval_set=[(X_valid, y_valid)])
    assert 0 < model.best_iteration_ < 80
    params = model.get_params()
    again = quietly(refit, model, X, y)
    assert type(again) is kind
    assert again.booster_.num_trees() == model.best_iteration_
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert model.get_params() == params


def test_text_in_tables_is_refused_before_lightgbm_sees_it():
    """From an Arrow or polars table it would abort the process."""
    X, y = draw()
    model = lightgbm.LGBMRegressor(n_estimators=2, verbose=-1, n_jobs=1).fit(X, y)
    text = X.assign(c=X["c"].astype(str))
    for table in (text, pl.from_pandas(text), pl.from_pandas(text).to_arrow()):
        with pytest.raises(debias.RowsError, match=r"cannot be trained on these columns: c \("):
            refit(model, table, y)


def test_tables_of_numbers_train_the_same_model():
    X, y = draw()
    X = X.drop(columns="c")
    model = lightgbm.LGBMRegressor(n_estimators=3, verbose=-1, n_jobs=1).fit(X.to_numpy(), y)
    for table in (pl.from_pandas(X), pl.from_pandas(X).to_arrow()):
        again = refit(model, table, y).booster_.predict(X.to_numpy())
        np.testing.assert_array_equal(again, model.booster_.predict(X.to_numpy()))


def test_a_lightgbm_booster_of_an_objective_of_ones_own_is_refused():
    X, y = draw()
    own = {"objective": lambda f, data: (f - data.get_label(), np.ones_like(f)), "verbose": -1}
    model = lightgbm.train(own, lightgbm.Dataset(X, y), 3)
    with pytest.raises(debias.UnsupportedModelError, match="cannot be refitted"):
        refit(model, X, y)


def test_a_lightgbm_booster_without_settings_needs_the_parameters():
    X, y = draw()
    model = lightgbm.train({"num_leaves": 5, "verbose": -1, "num_threads": 1}, lightgbm.Dataset(X, y), 3)
    bare = lightgbm.Booster(model_str=model.model_to_string())
    bare.params = {}  # as LightGBM 4.6 leaves it
    with pytest.raises(debias.UnsupportedModelError, match=r"kept no .*; pass them as refits=debias.Refits"):
        refit(bare, X, y)
    again = refit(bare, X, y, params={"num_leaves": 5, "num_threads": 1})
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.filterwarnings("ignore::debias.DebiasWarning")
@pytest.mark.parametrize(
    "scorer",
    [
        "response_permutation(mdi_oob, replicates=2)",
        "feature_permutation(mdi_oob, replicates=2, rule='difference')",
        "partial_permutation(mdi_oob, replicates=2)",
        "shadow(mdi_oob, replicates=2)",
    ],
)
def test_methods_that_refit_find_columns_whose_names_lightgbm_changes(scorer):
    """LightGBM stores "a_b" for "a b": columns are changed and scored by the names they have in X."""
    rng = np.random.default_rng(0)
    plain = pd.DataFrame(rng.normal(size=(N, 3)), columns=["a_b", "c_d", "e"])
    spaced = plain.set_axis(["a b", "c d", "e"], axis=1)
    y = plain["a_b"].to_numpy() + rng.normal(size=N)
    fresh = rng.normal(size=(N, 3))
    found = []
    for X in (plain, spaced):
        model = lightgbm.LGBMRegressor(n_estimators=5, n_jobs=1, verbose=-1).fit(X, y)
        rows = pd.DataFrame(fresh, columns=X.columns)
        found.append(debias.score(model, rows, fresh[:, 0], scorer, rows="held-out", train=(X, y), random_state=0))
    assert (found[0].feature_names, found[1].feature_names) == (("a_b", "c_d", "e"), ("a b", "c d", "e"))
    np.testing.assert_array_equal(found[0].values, found[1].values)
    if found[0].null is not None:
        np.testing.assert_array_equal(found[0].null, found[1].null)
