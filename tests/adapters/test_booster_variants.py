"""Tests of all variants of XGBoost and LightGBM: extracted trees predict what the library predicts, leaf by leaf.

One file for all variants, since they go through the same checks.
"""

from __future__ import annotations

import warnings

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import debias
from debias.data.table import Table
from debias.trees.routing import raw_output, route
from debias.warning_log import WarningLog
from support import families
from support.versions import at_least, before, needs

N = 160
VARIED = settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])

XGB_OBJECTIVES = {
    "reg:squarederror": {},
    "reg:squaredlogerror": {},
    "reg:pseudohubererror": {"huber_slope": 0.7},
    "reg:absoluteerror": {},
    "reg:quantileerror": {"quantile_alpha": 0.3},
    "count:poisson": {},
    "reg:gamma": {},
    "reg:tweedie": {"tweedie_variance_power": 1.3},
    "binary:logistic": {},
    "binary:logitraw": {},
    "binary:hinge": {},
    "reg:logistic": {},
    "multi:softprob": {"num_class": 3},
    "multi:softmax": {"num_class": 3},
}
LGB_OBJECTIVES = {
    "regression": {},
    "regression_l1": {},
    "huber": {"alpha": 0.6},
    "fair": {"fair_c": 0.7},
    "poisson": {},
    "quantile": {"alpha": 0.3},
    "mape": {},
    "gamma": {},
    "tweedie": {"tweedie_variance_power": 1.3},
    "binary": {"sigmoid": 1.7},
    "cross_entropy": {},
    "multiclass": {"num_class": 3},
    "multiclassova": {"num_class": 3},
}


def features(seed=0, missing=True, categories=False):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "normal": rng.normal(size=N),
            "binary": rng.integers(0, 2, N).astype(float),
            "small": rng.integers(-3, 4, N).astype(float),  # zeros, for zero_as_missing
            "large": rng.normal(size=N) * 1e-3 + 1e3,  # float32 does not hold these exactly
        }
    )
    if missing:
        for column in ("normal", "small"):
            X.loc[rng.random(N) < 0.2, column] = np.nan
    if categories:
        many, few = rng.integers(0, 12, N), rng.integers(0, 3, N)
        X["many"] = pd.Categorical.from_codes(np.where(rng.random(N) < 0.1, -1, many) if missing else many, _LABELS)
        X["few"] = pd.Categorical.from_codes(few, [7, 3, 11])
    return X


# As objects: XGBoost 3.1 does not know the str of pandas 3.
_LABELS = pd.Index([f"label {k}" for k in range(11, -1, -1)], dtype=object)


def response(objective, X, seed=0):
    rng = np.random.default_rng(seed + 100)
    latent = X["normal"].fillna(0).to_numpy() + X["binary"].to_numpy() + rng.normal(size=N) / 2
    if "many" in X:
        latent = latent + np.isin(X["many"].cat.codes, [1, 4, 5, 9]) * 2 + (X["few"] == 3).to_numpy()
    family = objective.split(":")[-1]
    if objective.startswith("multi"):
        return np.digitize(latent, [0.0, 1.2])
    if family in ("logistic", "logitraw", "hinge", "binary"):
        return (latent > 0.5).astype(int)
    if family == "cross_entropy":
        return 1 / (1 + np.exp(-latent))
    if family == "poisson":
        return rng.poisson(np.exp(latent / 2))
    if family in ("squaredlogerror", "gamma", "tweedie"):
        return np.exp(latent) * (1 if family != "tweedie" else rng.random(N) < 0.7)
    return latent


def assert_alike(model, X, raw, leaves, rtol):
    """Compare the common form with raw output and leaves of the library, which were given the user's own frame."""
    ensemble = debias.plugin.extract(model)
    table = Table(X).aligned_to(ensemble, WarningLog())
    ours = route(ensemble, table.matrix(ensemble))
    native = ours if ensemble.native_node is None else ensemble.native_node[ensemble.tree_start[:-1] + ours]
    np.testing.assert_array_equal(native, leaves)
    raw = np.reshape(raw, (N, -1))
    tolerance = rtol * (
        np.abs(raw).max() + np.abs(ensemble.base).max() + ensemble.n_trees * np.abs(ensemble.value).max()
    )
    np.testing.assert_allclose(raw_output(ensemble, ours), raw, rtol=0, atol=tolerance)
    return ensemble


# --- XGBoost -------------------------------------------------------------------------------------------


def xgb_data(X, y=None, **more):
    return xgboost.DMatrix(X, y, enable_categorical=True, nthread=1, **more)


def xgb_train(objective, X, y, rounds=4, **params):
    params = {"objective": objective, "nthread": 1, "max_depth": 4, **XGB_OBJECTIVES.get(objective, {}), **params}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # XGBoost 3.4 deprecates booster="dart"
        return xgboost.train(params, xgb_data(X, y), rounds)


def as_passed(X):
    """Rows as debias takes them: as codes, if XGBoost keeps no labels of categories."""
    if at_least("xgboost", "3.1"):
        return X
    labelled = X.select_dtypes("category")
    return X.assign(**{name: column.cat.codes.where(column.notna(), np.nan) for name, column in labelled.items()})


def assert_xgboost_alike(booster, X):
    data = xgb_data(X)
    leaves = booster.predict(data, pred_leaf=True).reshape(N, -1)
    return assert_alike(booster, as_passed(X), booster.predict(data, output_margin=True), leaves, 3e-7)


@pytest.mark.parametrize("objective", XGB_OBJECTIVES)
def test_every_objective_of_xgboost_is_read_and_scored(objective):
    X = features()
    booster = xgb_train(objective, X, response(objective, X))
    ensemble = assert_xgboost_alike(booster, features(seed=1))
    assert ensemble.splits.size
    held = features(seed=1)
    assert np.abs(debias.score(booster, held, response(objective, held, 1), rows="held-out").values).max() > 0


@pytest.mark.thorough
@VARIED
@given(
    objective=st.sampled_from(sorted(XGB_OBJECTIVES)),
    categories=st.booleans(),
    missing=st.booleans(),
    varied=st.fixed_dictionaries(
        {
            "booster": st.sampled_from(["gbtree", "dart"]),
            "tree_method": st.sampled_from(["hist", "approx", "exact"]),
            "rate_drop": st.sampled_from([0.3, 0.9]),
            "normalize_type": st.sampled_from(["tree", "forest"]),
            "max_depth": st.sampled_from([1, 3, 8]),
            "gamma": st.sampled_from([0.0, 1.0, 4.0]),  # "exact" grows first and prunes then
            "grow_policy": st.sampled_from(["depthwise", "lossguide"]),
            "num_parallel_tree": st.sampled_from([1, 3]),
            "subsample": st.sampled_from([1.0, 0.6]),
            "max_cat_to_onehot": st.sampled_from([1, 5, 20]),
            "learning_rate": st.sampled_from([0.1, 1.0]),
            "seed": st.integers(0, 3),
        }
    ),
)
def test_xgboost_of_any_variant_predicts_alike(objective, categories, missing, varied):
    assume(not (categories and varied["tree_method"] == "exact"))  # which takes none
    if objective in ("reg:absoluteerror", "reg:quantileerror") and not at_least("xgboost", "3.2"):
        varied = {**varied, "num_parallel_tree": 1}  # it trains no parallel trees for them
    X = features(missing=missing, categories=categories)
    if varied["booster"] == "gbtree":
        varied = {k: v for k, v in varied.items() if k not in ("rate_drop", "normalize_type")}
    if varied["tree_method"] == "exact":
        varied = {k: v for k, v in varied.items() if k not in ("grow_policy", "max_cat_to_onehot")}
    booster = xgb_train(objective, X, response(objective, X), **varied)
    assert_xgboost_alike(booster, features(seed=1, missing=True, categories=categories))


def test_xgboost_dropout_scales_trees_and_they_are_multiplied():
    X = features()
    booster = xgb_train("reg:squarederror", X, response("reg:squarederror", X), rounds=8, booster="dart", rate_drop=0.5)
    assert assert_xgboost_alike(booster, features(seed=1)).rescaled


def test_xgboost_nodes_that_were_pruned_are_left_out():
    X = features()
    y = response("reg:squarederror", X)
    booster = xgb_train("reg:squarederror", X, y, tree_method="exact", gamma=4.0, max_depth=8)
    ensemble = assert_xgboost_alike(booster, features(seed=1))
    assert ensemble.native_node is not None
    gains = booster.get_score(importance_type="total_gain")
    expected = [gains.get(name, 0.0) for name in booster.feature_names or ["f0", "f1", "f2", "f3"]]
    np.testing.assert_allclose(debias.score(booster, scorer="gain").values, expected, rtol=1e-6)
    held = features(seed=1)
    debias.score(booster, held, response("reg:squarederror", held, 1), rows="held-out")  # verifies native leaves


@needs("xgboost", "3.1", "it keeps no labels of categories")
@pytest.mark.parametrize("onehot", [1, 20], ids=["partition", "one-hot"])
def test_xgboost_categories_are_matched_by_label(onehot):
    X = features(categories=True)
    booster = xgb_train("reg:squarederror", X, response("", X), max_cat_to_onehot=onehot)
    ensemble = assert_xgboost_alike(booster, features(seed=1, categories=True))
    assert ensemble.category_set is not None
    assert ensemble.category_labels.keys() == {4, 5}
    # The same labels in another order of categories, and as plain text, are the same values.
    held = features(seed=1, categories=True)
    y = response("", held, 1)
    expected = debias.score(booster, held, y, rows="held-out").values
    other = held.assign(
        many=held["many"].cat.reorder_categories(sorted(_LABELS)), few=held["few"].astype(int).astype(object)
    )
    np.testing.assert_array_equal(debias.score(booster, other, y, rows="held-out").values, expected)


@pytest.mark.parametrize("onehot", [1, 20], ids=["partition", "one-hot"])
@before("xgboost", "3.1", "it keeps the labels of categories")
def test_xgboost_categories_without_labels_are_taken_as_codes_only(onehot):
    X = features(categories=True)
    booster = xgb_train("reg:squarederror", X, response("", X), max_cat_to_onehot=onehot)
    held = features(seed=1, categories=True)
    y = response("", held, 1)
    with pytest.raises(debias.RowsError, match="does not keep their labels"):
        debias.score(booster, held, y, rows="held-out")
    assert assert_xgboost_alike(booster, held).category_labels is None
    assert debias.score(booster, as_passed(held), y, rows="held-out").values.any()


@pytest.mark.parametrize("strategy", ["one_output_per_tree", "multi_output_tree"])
@pytest.mark.parametrize("of", ["targets", "labels", "classes"])
@pytest.mark.parametrize("parallel", [1, 2])
def test_xgboost_of_several_outputs_predicts_alike(strategy, of, parallel):
    X = features(missing=False)
    y = response("", X)
    settings = {
        "multi_strategy": strategy,
        "n_estimators": 4,
        "max_depth": 3,
        "n_jobs": 1,
        "num_parallel_tree": parallel,
    }
    if strategy == "multi_output_tree" and tuple(map(int, xgboost.__version__.split(".")[:2])) < (3, 2):
        model = xgboost.XGBRegressor(**settings).fit(X, np.column_stack([y, -y]))
        with pytest.raises(debias.UnsupportedModelError, match="train it with XGBoost 3.2 or later"):
            debias.plugin.extract(model)
        return
    if of == "classes":
        model = xgboost.XGBClassifier(**settings).fit(X, np.digitize(y, [0.0, 1.0]))
        y_held = np.digitize(response("", features(seed=1), 1), [0.0, 1.0])
    else:
        kind, of_y = (xgboost.XGBRegressor, float) if of == "targets" else (xgboost.XGBClassifier, int)
        model = kind(**settings).fit(X, np.column_stack([y > 0, y + X["large"] > 1000, y > 1]).astype(of_y))
        y_held = np.random.default_rng(0).integers(0, 2, (N, 3))
    ensemble = assert_xgboost_alike(model.get_booster(), features(seed=1))
    assert ensemble.n_outputs == 3
    assert ensemble.value.shape[1] == (3 if strategy == "multi_output_tree" else 1)
    for scorer in ("mdi_oob", "oob_loss"):
        assert np.isfinite(debias.score(model, features(seed=1), y_held, scorer, rows="held-out").values).all()


def test_xgboost_of_several_quantiles_is_read_and_scored():
    X = features()
    booster = xgb_train("reg:quantileerror", X, response("", X), quantile_alpha=[0.1, 0.5, 0.9])
    ensemble = assert_xgboost_alike(booster, features(seed=1))
    assert ensemble.objective.parameter == pytest.approx((0.1, 0.5, 0.9))
    held = features(seed=1)
    debias.score(booster, held, response("", held, 1), rows="held-out")


def test_xgboost_forests_predict_alike_and_have_no_bags():
    X = features()
    y = response("", X)
    for kind, labels in ((xgboost.XGBRFRegressor, y), (xgboost.XGBRFClassifier, np.digitize(y, [0.0, 1.0]))):
        model = families.xgb_forest(kind, n_estimators=7, n_jobs=1, random_state=0).fit(X, labels)
        ensemble = assert_xgboost_alike(model.get_booster(), features(seed=1))
        assert ensemble.n_trees == ensemble.trees_a_round == 7 * ensemble.n_outputs
        with pytest.raises(debias.InBagUnavailableError, match="XGBRF"):
            debias.score(model, X, labels, rows="oob")


# --- LightGBM ------------------------------------------------------------------------------------------


def lgb_train(objective, X, y, rounds=4, **params):
    params = {
        "objective": objective, "num_threads": 1, "min_data_in_leaf": 5, "verbose": -1, "min_data_per_group": 5,
        **LGB_OBJECTIVES.get(objective, {}), **params,
    }  # fmt: skip
    return lightgbm.train(params, lightgbm.Dataset(X, y), rounds)


def assert_lightgbm_alike(booster, X):
    leaves = booster.predict(X, pred_leaf=True).reshape(N, -1)
    leaves = leaves + [tree["num_leaves"] - 1 for tree in booster.dump_model()["tree_info"]]
    raw = booster.predict(X, raw_score=True).reshape(N, -1)
    if "average_output" in booster.model_to_string():
        raw /= booster.num_trees() // raw.shape[1]
    return assert_alike(booster, X, raw, leaves, 1e-14)


SAMPLING = {
    "gbdt": {},
    "bagged": {"bagging_fraction": 0.6, "bagging_freq": 2},
    "dart": {"boosting": "dart", "drop_rate": 0.6},
    "goss": {"data_sample_strategy": "goss", "learning_rate": 0.6},
    "rf": {"boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1},
}


@pytest.mark.parametrize("boosting", SAMPLING)
@pytest.mark.parametrize("objective", LGB_OBJECTIVES)
def test_every_objective_of_lightgbm_is_read_and_scored(objective, boosting):
    X = features()
    booster = lgb_train(objective, X, response(objective, X), **SAMPLING[boosting])
    ensemble = assert_lightgbm_alike(booster, features(seed=1))
    assert ensemble.splits.size
    held = features(seed=1)
    assert np.abs(debias.score(booster, held, response(objective, held, 1), rows="held-out").values).max() > 0


@pytest.mark.thorough
@VARIED
@given(
    objective=st.sampled_from(sorted(LGB_OBJECTIVES)),
    boosting=st.sampled_from(sorted(SAMPLING)),
    categories=st.booleans(),
    missing=st.booleans(),
    varied=st.fixed_dictionaries(
        {
            "use_missing": st.booleans(),
            "zero_as_missing": st.booleans(),
            "boost_from_average": st.booleans(),
            "num_leaves": st.sampled_from([2, 8, 31]),
            "max_cat_to_onehot": st.sampled_from([1, 4, 20]),
            "cat_l2": st.sampled_from([0.0, 10.0]),
            "lambda_l2": st.sampled_from([0.0, 3.0]),
            "extra_trees": st.booleans(),
            "seed": st.integers(0, 3),
        }
    ),
)
def test_lightgbm_of_any_variant_predicts_alike(objective, boosting, categories, missing, varied):
    X = features(missing=missing, categories=categories)
    booster = lgb_train(objective, X, response(objective, X), **SAMPLING[boosting], **varied)
    assert_lightgbm_alike(booster, features(seed=1, missing=True, categories=categories))


@pytest.mark.parametrize("onehot", [1, 20], ids=["many-against-many", "one-hot"])
def test_lightgbm_categories_are_matched_by_label(onehot):
    X = features(categories=True)
    booster = lgb_train("regression", X, response("", X), max_cat_to_onehot=onehot, cat_smooth=1)
    ensemble = assert_lightgbm_alike(booster, features(seed=1, categories=True))
    assert ensemble.category_set is not None
    assert ensemble.category_labels.keys() == {4, 5}


@pytest.mark.parametrize("value", [-1.0, 2.7, 11.0, 12.0, 5000.0, np.nan])
def test_lightgbm_codes_that_are_unknown_negative_or_fractions(value):
    X = features(categories=True)
    X, codes = X.assign(few=X["few"].cat.codes), X["many"].cat.codes
    X["many"] = codes.where(codes >= 0).astype(float)
    rng = np.random.default_rng(0)
    y = np.isin(codes, [1, 2, 4, 9]) + rng.normal(size=N) / 10
    data = lightgbm.Dataset(X, y, categorical_feature=["many", "few"])
    booster = lightgbm.train({"min_data_per_group": 3, "min_data_in_leaf": 3, "cat_smooth": 1, "verbose": -1}, data, 3)
    X.loc[::2, "many"] = value
    assert assert_lightgbm_alike(booster, X).category_set is not None


def test_lightgbm_losses_are_those_of_the_root_of_the_response():
    X = features()
    y = response("", X) * 3
    booster = lgb_train("regression", X, y, reg_sqrt=True)
    assert assert_lightgbm_alike(booster, features(seed=1)).objective.root
    held = features(seed=1)
    y = response("", held, 1)
    loss = debias.score(booster, held, y, "oob_loss", rows="held-out")
    t, f = np.sign(y) * np.sqrt(np.abs(y)), booster.predict(held, raw_score=True)
    base = debias.plugin.extract(booster).base[0]
    saved = np.mean((t - base) ** 2 - (t - f) ** 2)
    assert loss.values.sum() + loss.details["base"] == pytest.approx(saved)


@pytest.mark.parametrize("ends", ["\n", "\r\n"], ids=["unix", "windows"])
def test_lightgbm_files_with_either_line_end(ends, tmp_path):
    X = features(categories=True)
    booster = lgb_train("quantile", X, response("", X))
    path = tmp_path / "model.txt"
    path.write_bytes(booster.model_to_string().replace("\n", ends).encode())
    loaded = debias.load_model(path)
    ensemble = assert_lightgbm_alike(loaded, features(seed=1, categories=True))
    assert ensemble.objective.parameter == (0.3,)
    assert ensemble.category_labels.keys() == {4, 5}


# --- Objectives that only scorers without a response can score -------------------------------------------


def mean_absolute_contributions(booster, X):
    """The library's own SHAP values."""
    if hasattr(booster, "save_raw"):
        values = booster.predict(xgboost.DMatrix(X), pred_contribs=True)
    else:
        values = booster.predict(X, pred_contrib=True)
    return np.abs(values[:, :-1]).mean(axis=0)


def negative_error(estimator, X, y):
    return -np.mean((estimator.predict(X) - y) ** 2)


def scored_without_a_response(booster, X, y, objective):
    X = features(seed=1)  # fresh rows; y is any response
    shap = debias.score(booster, X, y, "shap", rows="held-out").values
    np.testing.assert_allclose(shap, mean_absolute_contributions(booster, X), rtol=1e-4, atol=1e-6)
    native = debias.score(booster, X, y, "native", rows="held-out").values
    assert np.isfinite(native).all()
    drop = debias.score(
        booster, X, y, "permutation", metric=negative_error, n_repeats=1, rows="held-out", random_state=0
    )
    predicted = booster.predict(xgboost.DMatrix(X) if hasattr(booster, "save_raw") else X)
    assert drop.details["baseline"] == pytest.approx(-np.mean((predicted - y) ** 2), rel=1e-4)
    with pytest.raises(debias.plugin.CompositionError, match="no metric by default: pass metric="):
        debias.score(booster, X, y, "permutation", rows="held-out")
    for ask in (
        lambda: debias.score(booster, X, y, rows="held-out"),
        lambda: debias.score(booster, X, y, "oob_loss", rows="held-out"),
        lambda: debias.score(booster, X, y, "shap_oob", rows="held-out"),
        lambda: debias.audit(booster, X, y, rows="held-out"),
    ):
        with pytest.raises(
            debias.plugin.CompositionError, match=f"objective '{objective}': .* native, gain, .* metric="
        ):
            ask()


def test_lightgbms_cross_entropy_lambda_is_scored_without_a_response():
    X = features()
    y = (response("", X) > 0).astype(int)
    booster = lightgbm.train({"objective": "cross_entropy_lambda", "verbose": -1}, lightgbm.Dataset(X, y), 2)
    scored_without_a_response(booster, X, y, "cross_entropy_lambda")


# --- a third reader ------------------------------------------------------------------------------------

READ_BY_TREELITE = {
    "xgboost": lambda X, y: xgb_train("reg:squarederror", X, y),
    "xgboost dart": lambda X, y: xgb_train("reg:squarederror", X, y, booster="dart", rate_drop=0.5),
    "xgboost pruned": lambda X, y: xgb_train("reg:squarederror", X, y, tree_method="exact", gamma=4.0, max_depth=8),
    "xgboost forest": lambda X, y: xgb_train("reg:squarederror", X, y, num_parallel_tree=3, subsample=0.6),
    "xgboost poisson": lambda X, y: xgb_train("count:poisson", X, np.abs(y)),
    "lightgbm": lambda X, y: lgb_train("regression", X, y),
    "lightgbm dart": lambda X, y: lgb_train("regression", X, y, **SAMPLING["dart"]),
    "lightgbm rf": lambda X, y: lgb_train("regression", X, y, **SAMPLING["rf"]),
    "lightgbm classes": lambda X, y: lgb_train("multiclass", X, np.digitize(y, [0.0, 1.2])),
}


@pytest.mark.parametrize(
    ("name", "categories"),
    [(name, False) for name in READ_BY_TREELITE] + [(name, True) for name in READ_BY_TREELITE if "light" in name],
)
def test_treelite_agrees_where_it_can_read_the_model(name, categories):
    """It reads no XGBoost model with labels of categories, and ``zero_as_missing`` of LightGBM otherwise than it is."""
    treelite = pytest.importorskip("treelite")
    X, held = features(categories=categories), features(seed=1, categories=categories)
    model = READ_BY_TREELITE[name](X, response("", X))
    read = treelite.frontend.from_xgboost if name.startswith("xgboost") else treelite.frontend.from_lightgbm
    theirs = read(model)
    ensemble = debias.plugin.extract(model)
    matrix = Table(held).aligned_to(ensemble, WarningLog()).matrix(ensemble)
    ours, other = route(ensemble, matrix), treelite.gtil.predict_leaf(theirs, matrix)
    for tree in range(ensemble.n_trees):  # leaves are numbered otherwise, but rows must fall together
        pairs = set(zip(ours[:, tree].tolist(), other[:, tree].tolist(), strict=True))
        assert len(pairs) == len(set(ours[:, tree].tolist())) == len(set(other[:, tree].tolist()))
    margin = np.reshape(treelite.gtil.predict(theirs, matrix, pred_margin=True), (N, -1))
    np.testing.assert_allclose(raw_output(ensemble, ours), margin, rtol=1e-5, atol=1e-6)


def test_an_xgboost_model_that_lost_its_objective_is_no_model_of_squared_error(tmp_path):
    rng = np.random.default_rng(0)
    X, fresh = rng.normal(size=(N, 3)), rng.normal(size=(N, 3))
    y, labels = X[:, 0] + rng.normal(size=N), (X[:, 0] > 0.4).astype(int)

    def logistic(y, margin):
        p = 1 / (1 + np.exp(-margin))
        return p - y, p * (1 - p)

    def train(response, gradient=None):
        return xgboost.train(
            {"nthread": 1},
            xgboost.DMatrix(X, response),
            3,
            obj=gradient and (lambda margin, data: gradient(data.get_label(), margin)),
        )

    lost = train(labels, logistic)
    wrapper = xgboost.XGBRegressor(objective=logistic, n_estimators=3, n_jobs=1).fit(X, labels)
    debias.score(wrapper, fresh, labels, rows="held-out")
    wrapper.save_model(tmp_path / "m.ubj")
    with pytest.raises(debias.UnsupportedModelError, match="m.ubj: .*a function as its objective"):
        debias.load_model(tmp_path / "m.ubj")
    for model in (lost, xgboost.Booster(model_file=tmp_path / "m.ubj")):
        with pytest.raises(debias.UnsupportedModelError, match="a function as its objective"):
            debias.score(model, fresh, labels, rows="held-out")
        with pytest.raises(debias.UnsupportedModelError, match="a function as its objective"):
            debias.refit(model, X, labels)
    halves = train(y, lambda y, margin: (np.tanh(margin - y), np.ones_like(y)))
    assert "a function as objective" in debias.score(halves, fresh, y, rows="held-out").warnings[0]
    assert debias.score(train(y), fresh, y, rows="held-out").warnings == ()


def test_labels_of_another_type_are_no_unknown_categories():
    rng = np.random.default_rng(0)
    codes, other = rng.integers(3, 9, N), rng.normal(size=N)
    X = pd.DataFrame({"k": pd.Categorical(codes), "x": other})
    model = lightgbm.LGBMRegressor(n_estimators=2, n_jobs=1, verbose=-1, min_data_per_group=1).fit(X, codes % 2 + other)
    text = pd.DataFrame({"k": pd.Categorical(codes.astype(str)), "x": other})
    with pytest.raises(debias.RowsError, match=r"'k' has the value '\d' \(str\), but the model was trained on \d"):
        debias.score(model, text, other, rows="held-out")
