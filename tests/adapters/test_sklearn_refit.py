"""Tests of refits with scikit-learn: same settings, new random states, and the same wrappers."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMRegressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.feature_selection import RFE
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, QuantileTransformer, StandardScaler
from sklearn.tree import DecisionTreeRegressor
from threadpoolctl import threadpool_limits
from xgboost import XGBRegressor

import debias
from support.frozen import frozen

N = 120
RNG = np.random.default_rng(0)
X = pd.DataFrame({"a": RNG.normal(size=N), "town": RNG.choice(list("ABC"), N), "b": RNG.normal(size=N)})
NUMBERS = X[["a", "b"]]
Y = np.exp(X["a"] + RNG.normal(size=N)).to_numpy()
LABELS = np.where(Y > 1, "high", "low")


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Small models wait longer for threads than they compute."""
    with threadpool_limits(1, user_api="openmp"):
        yield


def forest(**settings):
    return RandomForestRegressor(5, random_state=0, **settings)


def columns():
    return ColumnTransformer([("hot", OneHotEncoder(), ["town"])], remainder="passthrough")


MODELS = {
    "forest": (lambda: forest(min_samples_leaf=3), NUMBERS, Y),
    "warm start": (lambda: forest(warm_start=True).fit(NUMBERS, Y).set_params(n_estimators=8), NUMBERS, Y),
    "extra trees": (lambda: ExtraTreesClassifier(5, random_state=0, class_weight="balanced"), NUMBERS, LABELS),
    "tree": (lambda: DecisionTreeRegressor(max_depth=4, random_state=0), NUMBERS, Y),
    "bagging": (lambda: BaggingRegressor(DecisionTreeRegressor(), 5, max_features=1, random_state=0), NUMBERS, Y),
    "boosting": (lambda: GradientBoostingRegressor(n_estimators=5, subsample=0.5, random_state=0), NUMBERS, Y),
    "boosting of classes": (lambda: GradientBoostingClassifier(n_estimators=5, random_state=0), NUMBERS, LABELS),
    "histograms": (
        lambda: HistGradientBoostingRegressor(max_iter=5, max_features=0.5, random_state=0, loss="poisson"),
        NUMBERS,
        Y,
    ),
    "histograms with categories": (
        lambda: HistGradientBoostingClassifier(max_iter=5, random_state=0, categorical_features=["town"]),
        X,
        LABELS,
    ),
    "pipeline": (lambda: Pipeline([("columns", columns()), ("forest", forest())]), X, Y),
    "bare pipeline": (lambda: Pipeline([("forest", forest())]), NUMBERS, Y),
    "search": (lambda: GridSearchCV(make_pipeline(columns(), forest()), {}, cv=2), X, Y),
    "threshold": (lambda: FixedThresholdClassifier(RandomForestClassifier(5, random_state=0)), NUMBERS, LABELS),
    "frozen": (lambda: frozen(forest().fit(NUMBERS, Y)), NUMBERS, Y),
    "elimination": (lambda: RFE(forest(), n_features_to_select=1), NUMBERS, Y),
    "calibration": (lambda: CalibratedClassifierCV(RandomForestClassifier(5, random_state=0), cv=2), NUMBERS, LABELS),
    "transformed response": (
        lambda: TransformedTargetRegressor(forest(), transformer=QuantileTransformer(n_quantiles=20)),
        NUMBERS,
        Y,
    ),
    "vote": (lambda: VotingRegressor([("a", forest()), ("b", forest(max_depth=2))], weights=[1, 2]), NUMBERS, Y),
    "vote of classes": (
        lambda: VotingClassifier([(n, RandomForestClassifier(5, random_state=0)) for n in "ab"], voting="soft"),
        NUMBERS,
        LABELS,
    ),
    "stack": (
        lambda: StackingRegressor([("a", forest()), ("b", forest(max_depth=2))], LinearRegression(), cv=2),
        NUMBERS,
        Y,
    ),
    "stack of classes": (
        lambda: StackingClassifier([(n, RandomForestClassifier(5, random_state=0)) for n in "ab"], cv=2),
        NUMBERS,
        LABELS,
    ),
    "several responses": (lambda: MultiOutputRegressor(forest()), NUMBERS, np.c_[Y, np.log(Y)]),
    "deep": (
        lambda: TransformedTargetRegressor(
            make_pipeline(columns(), StandardScaler(with_mean=False), VotingRegressor([("a", forest())])),
            func=np.log,
            inverse_func=np.exp,
        ),
        X,
        Y,
    ),
}


def global_random_state():
    return np.random.get_state()[1].tolist()  # noqa: NPY002 - it is the legacy state that must stay untouched


def predicted(model, rows):
    return model.predict_proba(rows) if hasattr(model, "predict_proba") else model.predict(rows)


@pytest.mark.parametrize("name", MODELS)
def test_on_the_same_rows_it_is_the_same_model(name):
    make, rows, y = MODELS[name]
    model = make().fit(rows, y)
    again = debias.refit(model, rows, y)
    assert again is not model
    np.testing.assert_array_equal(predicted(again, rows), predicted(model, rows))


@pytest.mark.thorough
@pytest.mark.parametrize("name", MODELS)
def test_rows_and_seed_decide_alone(name):
    make, rows, y = MODELS[name]
    model = make().fit(rows, y)
    before, state = pickle.dumps(model), global_random_state()
    half = rows.iloc[::2], y[::2]
    one, same, other = (debias.refit(model, *half, random_state=seed, n_jobs=1) for seed in (1, 1, 2))
    np.testing.assert_array_equal(predicted(one, rows), predicted(same, rows))
    if name not in ("tree", "boosting of classes", "histograms with categories"):  # nothing random in these
        assert (predicted(one, rows) != predicted(other, rows)).any()
    assert pickle.dumps(model) == before
    assert global_random_state() == state


@pytest.mark.parametrize("name", ["forest", "bagging", "pipeline", "search", "transformed response", "vote", "deep"])
def test_what_is_trained_again_is_scored_on_its_own_bags(name):
    make, rows, y = MODELS[name]
    half = rows.iloc[::2], y[::2]
    scores = debias.score(debias.refit(make().fit(rows, y), *half, random_state=1), *half)
    assert scores.rows == "oob"
    assert scores.feature_names == tuple(rows.columns)


@pytest.mark.parametrize("kind", [XGBRegressor, LGBMRegressor])
def test_boosters_of_other_libraries_inside_a_pipeline_are_refitted(kind):
    settings = {"n_estimators": 5, "random_state": 0, "n_jobs": 1} | ({"verbose": -1} if kind is LGBMRegressor else {})
    model = make_pipeline(columns().set_output(transform="pandas"), kind(**settings))
    model.set_params(columntransformer__hot__sparse_output=False).fit(X, Y)
    again = debias.refit(model, X, Y)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    half = debias.refit(model, X[::2], Y[::2], random_state=1)
    scores = debias.score(half, X[1::2], Y[1::2], rows="held-out")
    assert scores.feature_names == tuple(X.columns)


@pytest.mark.parametrize("kind", [HistGradientBoostingRegressor, GradientBoostingRegressor])
def test_early_stopping_is_off_and_the_rounds_stay(kind):
    stop = {"early_stopping": True} if kind is HistGradientBoostingRegressor else {"n_estimators": 80}
    model = kind(n_iter_no_change=2, random_state=0, **stop).fit(NUMBERS, Y)
    rounds = debias.plugin.extract(model).n_trees
    assert rounds < 80
    again = debias.refit(model, NUMBERS, Y)
    assert debias.plugin.extract(again).n_trees == rounds
    assert debias.plugin.extract(again).count[0] == N  # no rows were kept back to stop on


def test_weights_and_settings_reach_the_trees():
    model = make_pipeline(StandardScaler(), forest(bootstrap=False)).fit(NUMBERS, Y)
    weight = np.random.default_rng(0).uniform(1, 2, N)
    again = debias.refit(model, NUMBERS, Y, weight, params={"max_depth": 2}, n_jobs=2)
    assert debias.plugin.extract(again).weight[0] == pytest.approx(weight.sum())
    assert again[-1].get_params()["max_depth"] == 2
    assert again[-1].n_jobs == 2


def test_transformers_learn_from_the_new_rows():
    model = make_pipeline(StandardScaler(), forest()).fit(NUMBERS, Y)
    again = debias.refit(model, NUMBERS[:50], Y[:50])
    np.testing.assert_allclose(again[0].mean_, NUMBERS[:50].mean())
    assert model[0].mean_[0] != again[0].mean_[0]


def test_columns_that_cannot_be_traced_do_not_matter_for_a_refit():
    model = make_pipeline(PCA(1), forest()).fit(NUMBERS, Y)
    np.testing.assert_array_equal(debias.refit(model, NUMBERS, Y).predict(NUMBERS), model.predict(NUMBERS))


def test_a_linear_model_is_not_refitted():
    with pytest.raises(debias.UnsupportedModelError, match="no adapter can refit .*, not a file or a conversion"):
        debias.refit(LinearRegression(), NUMBERS, Y)


def test_what_a_library_does_not_take_is_an_error_of_the_rows():
    stack = StackingRegressor([("p", make_pipeline(StandardScaler(), forest()))], LinearRegression(), cv=2)
    stack.fit(NUMBERS, Y)
    with pytest.raises(debias.RowsError, match="this StackingRegressor cannot be refitted on the rows passed"):
        debias.refit(stack, NUMBERS, Y, np.ones(N))  # no pipeline takes sample_weight by that name
    own = XGBRegressor(objective=lambda y, margin: (margin - y, np.ones_like(y)), n_estimators=2, n_jobs=1)
    with pytest.raises(debias.RowsError, match="this XGBRegressor cannot be refitted on the rows passed: Custom"):
        debias.refit(own.fit(NUMBERS, Y), NUMBERS, Y, np.ones(N))


def test_a_stack_of_members_fitted_before_is_not_trained_again():
    members = [("a", forest().fit(NUMBERS, Y)), ("b", forest(max_depth=2).fit(NUMBERS, Y))]
    stack = StackingRegressor(members, LinearRegression(), cv="prefit").fit(NUMBERS, Y)
    with pytest.raises(debias.UnsupportedModelError, match="refit the models inside it"):
        debias.refit(stack, NUMBERS, Y)


@pytest.mark.parametrize("kind", [CalibratedClassifierCV, RFE])
def test_a_wrapper_that_would_keep_frozen_trees_is_not_trained_again(kind):
    labels = (Y - np.median(Y)) > 0
    model = kind(frozen(RandomForestClassifier(5, random_state=0).fit(NUMBERS, labels)))
    model.fit(NUMBERS, labels)
    with pytest.raises(debias.UnsupportedModelError, match="FrozenEstimator"):
        debias.refit(model, NUMBERS[::2], labels[::2], random_state=1)
