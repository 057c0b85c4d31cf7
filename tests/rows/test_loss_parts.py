"""The parts of the loss of rows: brute force from the definition, and the loss of each row of every family."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from scipy.integrate import quad_vec
from sklearn import metrics
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from xgboost import XGBClassifier, XGBRegressor

import debias
from debias.data.response import encode
from debias.models.wrappers import extract
from debias.rows.loss_parts import KeptRows, Line, loss_parts, loss_sums, metric_of
from debias.rows.period_sums import margin_of
from debias.trees.objectives import SQUARED_ERROR
from debias.trees.routing import KnownLeaves, route
from debias.trees.shapley import expected_output, shapley_values

N = 160
SMALL = {"n_estimators": 12, "max_depth": 3, "random_state": 0}
LIGHT = {"n_estimators": 12, "num_leaves": 6, "min_child_samples": 5, "verbose": -1, "n_jobs": 1}
MODELS = {
    "forest": (RandomForestRegressor(**SMALL), "numbers", "mean squared error"),
    "forest of several responses": (ExtraTreesRegressor(**SMALL), "several", "mean squared error"),
    "forest of two classes": (RandomForestClassifier(**SMALL), "two", "Brier score"),
    "forest of three classes": (RandomForestClassifier(**SMALL), "three", "Brier score"),
    "forest of two responses of classes": (RandomForestClassifier(**SMALL), "classes of two", "Brier score"),
    "sklearn, squared error": (GradientBoostingRegressor(**SMALL), "numbers", "mean squared error"),
    "sklearn, two classes": (GradientBoostingClassifier(**SMALL), "two", "log loss"),
    "sklearn, three classes": (GradientBoostingClassifier(**SMALL), "three", "log loss"),
    "sklearn, exponential": (GradientBoostingClassifier(loss="exponential", **SMALL), "two", "exponential loss"),
    "sklearn, gamma": (HistGradientBoostingRegressor(loss="gamma", max_iter=12), "positive", "gamma deviance"),
    "XGBoost": (XGBRegressor(n_jobs=1, **SMALL), "numbers", "mean squared error"),
    "XGBoost, two classes": (XGBClassifier(n_jobs=1, **SMALL), "two", "log loss"),
    "XGBoost, three classes": (XGBClassifier(n_jobs=1, **SMALL), "three", "log loss"),
    "XGBoost, counts": (XGBRegressor(objective="count:poisson", n_jobs=1, **SMALL), "counts", "Poisson deviance"),
    "XGBoost, Tweedie": (XGBRegressor(objective="reg:tweedie", n_jobs=1, **SMALL), "counts", "Tweedie deviance"),
    "XGBoost, absolute": (
        XGBRegressor(objective="reg:absoluteerror", n_jobs=1, **SMALL),
        "numbers",
        "mean absolute error",
    ),
    "XGBoost, quantiles": (
        XGBRegressor(objective="reg:quantileerror", quantile_alpha=[0.2, 0.8], n_jobs=1, **SMALL),
        "numbers",
        "pinball loss",
    ),
    "LightGBM, quantile": (LGBMRegressor(objective="quantile", alpha=0.3, **LIGHT), "numbers", "pinball loss"),
    "LightGBM, Huber": (LGBMRegressor(objective="huber", **LIGHT), "numbers", "huber loss"),
    "LightGBM, fair": (LGBMRegressor(objective="fair", **LIGHT), "numbers", "fair loss"),
    "LightGBM, roots": (LGBMRegressor(reg_sqrt=True, **LIGHT), "counts", "mean squared error of the square root of y"),
    "LightGBM, three classes": (LGBMClassifier(**LIGHT), "three", "log loss"),
}


def drawn(seed, task, n=N):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[rng.random((n, 4)) < 0.02] = 0.0
    mean = X[:, 0] + X[:, 1] * (X[:, 2] > 0)
    noise = rng.normal(size=n)
    two, three = (mean + noise > 0.5).astype(int), np.digitize(mean + noise, [-0.5, 1.0])
    y = {
        "numbers": mean + noise,
        "several": np.column_stack([mean + noise, noise - 3 * mean]),
        "two": two,
        "three": three,
        "classes of two": np.column_stack([two, three]),
        "counts": rng.poisson(np.exp(mean / 3)).astype(float),
        "positive": np.exp(mean / 3 + noise),
    }
    return X, y[task]


@pytest.fixture(scope="module", params=MODELS)
def case(request):
    model, task, metric = MODELS[request.param]
    model.fit(*drawn(0, task))
    return model, task, metric


def divided(model, X, y, margin=None):
    ensemble = extract(model)
    X = np.ascontiguousarray(X, dtype=ensemble.routing_dtype)
    return loss_parts(ensemble, X, encode(y, ensemble, len(X), base_margin=margin))


def test_the_parts_add_up_to_the_loss_of_each_row(case):
    model, task, metric = case
    for seed, n in ((1, 120), (2, 1), (3, 0)):
        X, y = drawn(seed, task, n)
        parts = divided(model, X, y)
        assert metric_of(extract(model)) == metric
        np.testing.assert_allclose(parts.base - parts.saved.sum(axis=1), parts.loss, rtol=0, atol=1e-12)
        np.testing.assert_allclose(parts.rows + parts.response, parts.saved, rtol=0, atol=1e-15)


def test_sums_are_those_of_the_parts_of_each_row(case):
    model, task, _ = case
    X, y = drawn(7, task)
    ensemble, parts = extract(model), divided(model, X, y)
    X = np.ascontiguousarray(X, dtype=ensemble.routing_dtype)
    response, weight = encode(y, ensemble, len(X)), np.random.default_rng(0).uniform(size=len(X))
    margin = margin_of(ensemble, response, KnownLeaves(ensemble, route(ensemble, X)))
    expected = weight @ np.column_stack([parts.loss, parts.base, parts.saved, parts.rows])
    found = loss_sums(ensemble, X, response, margin, weight)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_the_loss_is_the_metric_of_the_library(case):
    model, task, metric = case
    X, y = drawn(1, task)
    found = divided(model, X, y).loss.mean()
    prediction = model.predict(X)
    if metric == "log loss":
        expected = metrics.log_loss(y, model.predict_proba(X))
    elif task in ("two", "three") and metric == "Brier score":
        n_classes = int(y.max()) + 1
        expected = ((np.eye(n_classes)[y] - model.predict_proba(X)) ** 2).sum(1).mean() / (2 if n_classes == 2 else 1)
    elif metric == "mean squared error":
        expected = metrics.mean_squared_error(y, prediction) * (prediction.shape[1] if prediction.ndim > 1 else 1)
    elif metric.endswith("deviance"):
        power = {"Poisson": 1, "gamma": 2, "Tweedie": 1.5}[metric.split()[0]]
        expected = metrics.mean_tweedie_deviance(y, prediction, power=power)
    elif metric == "mean absolute error":
        expected = metrics.mean_absolute_error(y, prediction)
    elif metric == "pinball loss" and prediction.ndim > 1:
        expected = sum(metrics.mean_pinball_loss(y, prediction[:, k], alpha=a) for k, a in enumerate((0.2, 0.8)))
    elif metric == "pinball loss":
        expected = metrics.mean_pinball_loss(y, prediction, alpha=0.3)
    elif metric.endswith("root of y"):
        expected = ((np.sqrt(y) - np.sign(prediction) * np.sqrt(np.abs(prediction))) ** 2).mean()
    else:  # the library has no such metric
        return
    assert found == pytest.approx(expected, rel=1e-5)  # XGBoost predicts in float32


def test_the_base_is_the_loss_of_one_constant(case):
    model, task, _ = case
    X, y = drawn(4, task)
    parts, moved = divided(model, X, y), divided(model, X[::-1], y)
    np.testing.assert_array_equal(parts.base, moved.base)  # other features, the same responses


def test_the_part_of_the_rows_does_not_depend_on_the_response(case):
    model, task, _ = case
    X, y = drawn(5, task)
    rows = [divided(model, X, each).rows for each in (y, y[::-1])]
    np.testing.assert_array_equal(*rows)


def test_the_unexpected_loss_is_the_loss_less_its_mean_over_responses_as_predicted(case):
    model, task, metric = case
    X, y = drawn(6, task)
    ensemble = extract(model)
    routed = np.ascontiguousarray(X, dtype=ensemble.routing_dtype)

    def ends(y):
        return Line.of(ensemble, KeptRows.of(ensemble, routed, encode(y, ensemble, len(X)))).ends

    def loss(y):
        return ends(y).losses()[0]

    if task in ("two", "three", "classes of two"):  # the mean over all classes, or pairs of classes
        shares = model.predict_proba(X) if task == "classes of two" else [model.predict_proba(X)]
        mean = np.zeros(len(X))
        for classes in itertools.product(*(range(each.shape[1]) for each in shares)):
            probability = np.prod([each[:, k] for each, k in zip(shares, classes, strict=True)], axis=0)
            responses = np.tile(classes, (len(X), 1))
            mean += probability * loss(responses if task == "classes of two" else responses[:, 0])
        expected = loss(y) - mean
    elif metric in ("Poisson deviance", "Tweedie deviance"):  # the terms with the prediction; not those of y alone
        mu = model.predict(X).astype(float)
        slope = -np.log(mu) if metric.startswith("Poisson") else 2 / np.sqrt(mu)
        expected = 2 * (y - mu) * slope
    else:
        expected = loss(y)
    np.testing.assert_allclose(ends(y).unexpected_loss(), expected, rtol=1e-5, atol=1e-5)


def test_saved_is_shapleys_value_times_the_mean_slope_by_definition():
    """Shapley values by brute force over all sets of features, and the integral of the gradient by adaptive rules."""
    for name in ("forest", "sklearn, two classes", "XGBoost, three classes", "XGBoost, counts"):
        model, task, _ = MODELS[name]
        model.fit(*drawn(0, task))
        ensemble = extract(model)
        X, y = drawn(6, task, 3)
        parts = divided(model, X, y)
        matrix = X.astype(ensemble.routing_dtype)
        response = encode(y, ensemble, len(X))
        target = response.values + ensemble.centre if response.target is None else response.target
        objective = SQUARED_ERROR if ensemble.averaged else ensemble.objective
        scale = 2 if name in ("forest", "XGBoost, counts") else 1  # the gradient is halved; a deviance
        for row in range(3):
            worth = {
                known: _output(ensemble, matrix[row], known)
                for size in range(5)
                for known in itertools.combinations(range(4), size)
            }
            first, last = worth[()], worth[(0, 1, 2, 3)]

            at, step, y_row = first[None], (last - first)[None], target[row : row + 1]
            gradient = partial(_slope_at, objective, y_row, at, step)
            slope = scale * quad_vec(gradient, 0, 1, epsabs=1e-12)[0]
            for feature in range(4):
                phi = np.zeros(ensemble.n_outputs)
                others = [k for k in range(4) if k != feature]
                for size in range(4):
                    chance = math.factorial(size) * math.factorial(3 - size) / math.factorial(4)
                    for known in itertools.combinations(others, size):
                        phi += chance * (worth[tuple(sorted((*known, feature)))] - worth[known])
                assert parts.saved[row, feature] == pytest.approx(phi @ slope, abs=1e-9), (name, row, feature)


def _slope_at(objective, y, at, step, u):
    return objective.response(y, at + u * step)[0]


def _output(ensemble, x, known):
    """The output if only some features are known: both ways at the other splits, by the weights of training rows."""
    total = np.zeros(ensemble.n_outputs)
    weight = ensemble.averaging_weight.copy()
    for node in np.flatnonzero(ensemble.left >= 0)[::-1]:
        root = ensemble.tree_start[np.searchsorted(ensemble.tree_start, node, side="right") - 1]
        weight[node] = weight[root + ensemble.left[node]] + weight[root + ensemble.right[node]]
    for tree, root in enumerate(ensemble.tree_start[:-1]):

        def mean(node, root=root):
            at = root + node
            if ensemble.left[at] < 0:
                return ensemble.value[at]
            left, right = ensemble.left[at], ensemble.right[at]
            if ensemble.feature[at] in known:
                return mean(left if x[ensemble.feature[at]] <= ensemble.threshold[at] else right)
            share = weight[root + left] / weight[at]
            return share * mean(left) + (1 - share) * mean(right)

        first = ensemble.tree_output[tree]
        total[first : first + ensemble.value.shape[1]] += mean(0)
    return total / (ensemble.n_trees if ensemble.averaged else 1) + ensemble.base


def test_margins_of_rows_move_both_ends():
    X, y = drawn(0, "counts")
    offset = np.random.default_rng(7).normal(size=N) / 2
    model = XGBRegressor(objective="count:poisson", n_jobs=1, **SMALL).fit(X, y, base_margin=offset)
    parts = divided(model, X, y, margin=offset)
    prediction = model.predict(X, base_margin=offset)
    assert parts.loss.mean() == pytest.approx(metrics.mean_poisson_deviance(y, prediction), rel=1e-5)
    np.testing.assert_allclose(parts.base - parts.saved.sum(axis=1), parts.loss, atol=1e-12)


def test_a_feature_without_splits_saves_nothing():
    X, y = drawn(0, "numbers")
    X[:, 3] = 1.0
    parts = divided(GradientBoostingRegressor(**SMALL).fit(X, y), X, y)
    assert (parts.saved[:, 3] == 0).all()
    assert (parts.rows[:, 3] == 0).all()


def test_responses_in_random_order_save_what_is_their_mean():
    """With y independent of X, a feature saves on average what it saves with the squared errors of the constant y."""
    X, y = drawn(8, "numbers", 2000)
    model = RandomForestRegressor(**SMALL).fit(*drawn(0, "numbers"))
    shuffled = divided(model, X, np.random.default_rng(9).permutation(y))
    ensemble = extract(model)
    phi = shapley_values(ensemble, X.astype(ensemble.routing_dtype))[:, :, 0]
    prediction, start = model.predict(X), expected_output(ensemble)[0]
    expected = (phi * (2 * y.mean() - prediction - start)[:, None]).mean(axis=0)
    error = 2 * y.std() * phi.std(axis=0) / np.sqrt(len(y))
    assert (np.abs(shuffled.saved.mean(axis=0) - expected) < 4 * error).all()


def test_blocks_and_threads_do_not_change_the_parts(monkeypatch):
    model, task, _ = MODELS["XGBoost, three classes"]
    model.fit(*drawn(0, task))
    X, y = drawn(10, task, 700)
    whole = divided(model, X, y)
    monkeypatch.setattr("debias.rows.loss_parts.VALUES_AT_ONCE", 1)
    np.testing.assert_allclose(divided(model, X, y).saved, whole.saved, rtol=0, atol=1e-13)


def test_models_without_a_loss_of_rows_are_refused_by_name():
    X, y = drawn(0, "numbers")

    def squared(y, margin):
        return margin - y, np.ones_like(y)

    custom = extract(XGBRegressor(objective=squared, n_jobs=1, **SMALL).fit(X, y))
    with pytest.raises(
        debias.plugin.CompositionError, match="XGBRegressor has no parts of the loss: a custom objective"
    ):
        metric_of(custom)
