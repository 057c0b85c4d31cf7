"""Training rows of XGBoost models are recognised, or it is said that they cannot be told: for every objective."""

from __future__ import annotations

import numpy as np
import pytest
import xgboost

import debias
from debias.trees.routing import route
from support.families import XGB_DROPOUT
from support.versions import at_least, before, needs

ALL = "these are the training rows|the training rows are among these"
SOME = r"training rows( of trees \d+ to \d+)?, as estimated from the leaf counts"
UNTOLD = "cannot check whether these rows contain training rows"
VECTOR = {"multi_strategy": "multi_output_tree"}
SMOOTH = at_least("xgboost", "3.4")


def own_square(y, f):
    return f - y, np.ones_like(f)


def own_logistic(y, f):
    p = 1 / (1 + np.exp(-f))
    return p - y, p * (1 - p)


def number(X, y):
    return y


def positive(X, y):
    return np.exp(y)


def label(X, y):
    return (y > 0).astype(int)


def three(X, y):
    return np.digitize(y, [-1, 1])


def two_numbers(X, y):
    return np.column_stack([y, X[:, 1]])


def two_labels(X, y):
    return (two_numbers(X, y) > 0).astype(int)


CASES = {
    "squared": (number, {}, SOME),
    "squared, sampled": (number, {"subsample": 0.5}, SOME),
    "squared, weight of ones": (label, {"scale_pos_weight": 3, "objective": "reg:squarederror"}, SOME),
    "squared, dart": (number, {"rate_drop": 0.2, **XGB_DROPOUT}, SOME),
    "squared, vector leaf": (two_numbers, VECTOR, SOME),
    "absolute": (number, {"objective": "reg:absoluteerror"}, UNTOLD if SMOOTH else SOME),
    "absolute, dart": (
        number,
        {"objective": "reg:absoluteerror", "rate_drop": 0.5, **XGB_DROPOUT},
        UNTOLD if SMOOTH else SOME,
    ),
    "absolute, parallel": (
        number,
        {"objective": "reg:absoluteerror", "num_parallel_tree": 3},
        UNTOLD if SMOOTH else SOME,
    ),
    "absolute, two targets": (two_numbers, {"objective": "reg:absoluteerror"}, UNTOLD if SMOOTH else SOME),
    "absolute, vector leaf": (two_numbers, {"objective": "reg:absoluteerror", **VECTOR}, UNTOLD if SMOOTH else SOME),
    "quantile": (number, {"objective": "reg:quantileerror", "quantile_alpha": 0.3}, UNTOLD if SMOOTH else SOME),
    "two quantiles": (
        number,
        {"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.9]},
        UNTOLD if SMOOTH else SOME,
    ),
    "quantiles, vector leaf": (
        number,
        {"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.9], **VECTOR},
        UNTOLD if SMOOTH else SOME,
    ),
    "expectile": (number, {"objective": "reg:expectileerror", "expectile_alpha": 0.3}, UNTOLD),
    "pseudo-Huber": (number, {"objective": "reg:pseudohubererror"}, UNTOLD),
    "pseudo-Huber, vector leaf": (two_numbers, {"objective": "reg:pseudohubererror", **VECTOR}, UNTOLD),
    "gamma": (positive, {"objective": "reg:gamma"}, UNTOLD),
    "tweedie": (positive, {"objective": "reg:tweedie"}, UNTOLD),
    "poisson": (positive, {"objective": "count:poisson"}, SOME),
    "squared log": (positive, {"objective": "reg:squaredlogerror"}, UNTOLD),
    "hinge": (label, {"objective": "binary:hinge"}, UNTOLD),
    "logistic": (label, {"objective": "binary:logistic"}, SOME),
    "softmax": (three, {"objective": "multi:softprob", "num_class": 3}, SOME),
    "softmax, vector leaf": (three, {"objective": "multi:softprob", "num_class": 3, **VECTOR}, SOME),
    "two labels": (two_labels, {"objective": "binary:logistic", "scale_pos_weight": 3}, SOME),
    "two labels, vector leaf": (two_labels, {"objective": "binary:logistic", **VECTOR}, SOME),
    "own square": (number, {"objective": own_square}, UNTOLD),
    "own logistic": (label, {"objective": own_logistic}, UNTOLD),
}
"""Response and settings of a model, and what is said of a half of its training rows."""
NEEDS = {
    "expectile": [needs("xgboost", "3.3", "it has no expectile loss")],
    "absolute, parallel": [needs("xgboost", "3.2", "it trains no parallel trees for the absolute error")],
    **{
        name: [needs("xgboost", "3.2", "it stores no sums of hessians of vector leaves")]
        for name, (_, settings, _) in CASES.items()
        if "multi_strategy" in settings
    },
}


def cases(names):
    return pytest.mark.parametrize("name", [pytest.param(name, marks=NEEDS.get(name, ())) for name in names])


def is_own(name):
    """Whether the objective is a function of the user: its hessians are not known."""
    return callable(CASES[name][1].get("objective"))


def rows(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6)).astype(np.float32)
    return X, X[:, 0] + rng.normal(size=n)


def fitted(name, n, rounds=12, sample_weight=None):
    response, settings, _ = CASES[name]
    X, latent = rows(n, 0)
    y = response(X, latent)
    model = xgboost.XGBRegressor(n_estimators=rounds, max_depth=4, n_jobs=1, **settings)
    return model.fit(X, y, sample_weight=sample_weight), X, y


@cases(CASES)
@pytest.mark.parametrize("n", [200, 1500])
def test_training_rows_are_refused_or_cannot_be_told(name, n):
    model, X, y = fitted(name, n)
    order = np.random.default_rng(1).permutation(n)
    of_half = CASES[name][2]
    of_all = of_half if is_own(name) else f"{ALL}|{SOME}" if "subsample" in CASES[name][1] else ALL
    for part, words in ((order, of_all), (order[: n // 2], of_half)):
        with pytest.raises((debias.ProvenanceError, debias.DebiasWarning), match=words):  # halves may be warned of
            debias.score(model, X[part], y[part])


@cases(CASES)
def test_training_rows_that_are_stated_to_be_fresh_are_told_of(name):
    model, X, y = fitted(name, 200)
    if is_own(name):
        scores = debias.score(model, X, y, rows="held-out")
        assert scores.provenance["status"] == "cannot be told"
        assert UNTOLD in " ".join(scores.warnings)
        return
    with pytest.warns(debias.DebiasWarning, match="scores on training rows are as biased"):
        scores = debias.score(model, X, y, rows="held-out")
    assert scores.provenance["status"] == "stated by the user"
    assert "but they look like training rows" in scores.provenance["detail"]


@cases(CASES)
def test_fresh_rows_are_not_taken_for_training_rows(name):
    model, _, _ = fitted(name, 200)
    X, latent = rows(200, 1)
    y = CASES[name][0](X, latent)
    if CASES[name][2] == UNTOLD:
        with pytest.raises(debias.ProvenanceError, match=UNTOLD):
            debias.score(model, X, y)
    assert debias.score(model, X, y, rows="held-out").provenance["status"] != "stated by the user"


# --- the smooth losses of XGBoost 3.4 --------------------------------------------------------------------

SMOOTHED = [name for name in CASES if name.startswith(("absolute", "quantile", "two quantiles"))]


def smooth_hessians(name, r, weight):
    """dmlc/xgboost, pull requests 12373 (absolute error) and 12391 (quantiles), for one output."""
    scale = np.average(np.sqrt(np.abs(r)), weights=weight) ** 2
    if name.startswith("absolute"):
        return weight * scale / np.sqrt(scale**2 + r**2)
    x = r / (0.04 * scale)
    return weight / (2 * 0.04) * np.maximum(np.tanh(x) / x, 3e-4)


@cases([name for name in SMOOTHED if name != "absolute, dart"])
@needs("xgboost", "3.4", "hessians of the absolute error and of quantiles are 1")
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_covers_are_sums_of_the_smooth_losses(name, weighted):
    """Of every leaf of every round, at the margins that the library predicts. debias knows no weights."""
    weight = np.random.default_rng(3).uniform(0.5, 2, 400) if weighted else np.ones(400)
    model, X, y = fitted(name, 400, rounds=5, sample_weight=weight if weighted else None)
    ensemble = debias.plugin.extract(model)
    leaves, target = route(ensemble, X), np.broadcast_to(y.reshape(400, -1), (400, ensemble.n_outputs))
    width = ensemble.value.shape[1]
    margin = np.tile(ensemble.base, (400, 1))
    for tree in range(ensemble.n_trees):
        if tree % ensemble.trees_a_round == 0:
            before_round = tree // ensemble.trees_a_round
            if before_round:
                margin = model.predict(X, output_margin=True, iteration_range=(0, before_round)).reshape(400, -1)
            r = target - margin.astype(float)
            hessian = np.column_stack([smooth_hessians(name, column, weight) for column in r.T])
            if not weighted:
                np.testing.assert_allclose(ensemble.objective.curvature(margin, target), hessian, rtol=1e-6)
        nodes = slice(ensemble.tree_start[tree], ensemble.tree_start[tree + 1])
        first = ensemble.tree_output[tree]
        found = np.bincount(leaves[:, tree], hessian[:, first : first + width].sum(axis=1), nodes.stop - nodes.start)
        leaf = ensemble.left[nodes] < 0
        np.testing.assert_allclose(found[leaf], ensemble.cover[nodes][leaf], rtol=1e-5)


@pytest.mark.parametrize("name", ["absolute", "quantile"])
@needs("xgboost", "3.4", "hessians of the absolute error and of quantiles are 1")
def test_what_hides_training_rows_of_a_smooth_loss_is_said(name):
    weighted, X, y = fitted(name, 200, sample_weight=np.random.default_rng(3).uniform(0.5, 2, 200))
    with pytest.raises(debias.ProvenanceError, match=r"XGBoost 3\.4 grows trees .* depend on all training rows"):
        debias.score(weighted, X, y)
    model, X, y = fitted(name, 200)
    sums = debias.NodeSums(model)
    sums.update(X[:100], y[:100])
    sums.update(X[100:], y[100:])
    with pytest.raises(debias.ProvenanceError, match=r"XGBoost 3\.4 grows trees .* depend on all training rows"):
        debias.score(model, sums)
    assert debias.score(model, sums, rows="held-out").provenance["status"] == "cannot be told"


@pytest.mark.parametrize("name", ["absolute", "quantile"])
@before("xgboost", "3.4", "hessians of the absolute error and of quantiles are not 1")
def test_weights_of_unit_hessians_are_not_taken_for_counts(name):
    model, X, y = fitted(name, 200, sample_weight=np.random.default_rng(3).uniform(0.5, 2, 200))
    with pytest.raises(debias.ProvenanceError, match=UNTOLD):
        debias.score(model, X, y)


def test_a_smooth_loss_without_residuals_has_a_finite_curvature():
    for objective in ("absolute_error", "quantile"):
        smooth = debias.trees.objectives.Objective(objective, smoothed=True)
        assert np.isfinite(smooth.curvature(np.zeros((5, 1)), np.zeros((5, 1)))).all()


@pytest.mark.parametrize("weight", [5.0, 1.7])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_training_rows_of_a_model_with_class_weights_are_recognised(n_classes, weight):
    rng = np.random.default_rng(0)
    X, fresh = rng.normal(size=(2, 300, 4))
    y, fresh_y = rng.integers(0, n_classes, (2, 300))
    model = xgboost.XGBClassifier(n_estimators=20, max_depth=4, n_jobs=1)
    model.fit(X, y, sample_weight=np.where(y == 1, weight, 1.0))
    order = rng.permutation(300)
    for rows in (slice(None), order):
        with pytest.raises(debias.ProvenanceError, match="these are the training rows"):
            debias.score(model, X[rows], y[rows])
    with pytest.warns(debias.DebiasWarning, match="these are the training rows"):
        audit = debias.audit(model, X, y, rows="held-out", test=debias.Permutation(19), random_state=0)
    assert "but the rows look like training rows" in audit.summary()[0]
    scores = debias.score(model, fresh, fresh_y, rows="held-out")
    assert scores.unproven_because is not None or "without weights" in scores.provenance["detail"]
