"""Tests of scores of boosted models against their definitions: gradients, losses, weights, bags, margins of rows.

One file for all objectives and libraries, since they go through the same checks.
"""

from __future__ import annotations

import lightgbm
import numpy as np
import pytest
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st

import debias
from debias.rows.kernels import running_loss as kernels
from debias.trees.objectives import LOSSES, Objective
from debias.trees.routing import route
from support import families
from support.versions import at_least

N = 300
PARAMETERS = {
    "logistic": 1.7,
    "quantile": 0.3,
    "expectile": 0.2,
    "huber": 0.6,
    "pseudo_huber": 0.7,
    "fair": 0.7,
    "tweedie": 1.3,
}


def draw(seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=N), rng.integers(0, 2, N), rng.integers(0, 10, N), rng.normal(size=N)])
    return X, X[:, 0] + X[:, 1] + rng.normal(size=N)


def response(objective, latent, seed=0):
    rng = np.random.default_rng(seed + 50)
    if objective.startswith("multi"):
        return np.digitize(latent, [0.0, 1.2])
    if objective.startswith("binary") or objective == "reg:logistic":
        return (latent > 0.5).astype(int)
    if objective == "cross_entropy":
        return 1 / (1 + np.exp(-latent))
    if objective.endswith("poisson"):
        return rng.poisson(np.exp(latent / 2))
    if objective.endswith(("squaredlogerror", "gamma", "tweedie")):
        return np.exp(latent) * (1 if not objective.endswith("tweedie") else rng.random(N) < 0.7)
    return latent


# --- the losses by themselves ----------------------------------------------------------------------------


def range_of(objective):
    low, high = LOSSES[objective.name].domain
    return st.floats(max(low, -3.0) + 0.01, min(high, 3.0))


@pytest.mark.thorough
@settings(max_examples=300)
@given(data=st.data(), name=st.sampled_from(sorted(LOSSES)), margin=st.floats(-0.9, 3.0))
def test_gradients_and_curvatures_are_the_derivatives_of_the_losses(data, name, margin):
    objective = Objective(name, (PARAMETERS.get(name, 0.0 if name == "poisson" else 1.0),))
    whole = name in ("hinge", "exponential")
    y = np.array([[float(data.draw(st.integers(0, 1)) if whole else data.draw(range_of(objective)))]])
    # Kinks have no derivative: at y, where Huber's branches meet, at the margin 1 of the hinge.
    kinks = [y[0, 0], y[0, 0] - PARAMETERS["huber"], y[0, 0] + PARAMETERS["huber"], 1.0, -1.0]
    if min(abs(margin - kink) for kink in kinks) < 1e-3:
        margin += 5e-3
    step = 1e-5
    around = [objective.loss(y, np.array([[margin + d]]))[0] for d in (-step, step)]
    slope = -(around[1] - around[0]) / (2 * step) / (2 if name == "squared_error" else 1)
    found = objective.response(y, np.array([margin]))[0, 0]
    assert found == pytest.approx(slope, rel=1e-5, abs=1e-6)
    sloping = ("absolute_error", "quantile", "huber", "absolute_percentage_error", "hinge", "squared_error")
    if name in sloping:  # no curvature at all, or one that libraries replace by 1
        return
    g = [-objective.response(y, np.array([margin + d]))[0, 0] for d in (-step, step)]
    curvature = objective.curvature(np.array([[margin]]), y)[0, 0]
    assert curvature == pytest.approx(max((g[1] - g[0]) / (2 * step), 1e-6), rel=1e-4, abs=1e-5)


@settings(max_examples=200)
@given(data=st.data(), name=st.sampled_from(sorted(LOSSES)), margin=st.floats(-3.0, 3.0))
def test_compiled_losses_are_the_plain_ones(data, name, margin):
    objective = Objective(name, (PARAMETERS.get(name, 1.0),))
    y = data.draw(range_of(objective))
    plain = objective.loss(np.array([[y]]), np.array([[margin]]))[0]
    compiled = kernels._loss_of_one(objective.code, objective.parameter[0], y, margin)
    assert compiled == pytest.approx(plain, rel=1e-12, abs=1e-12)


def test_every_loss_has_its_own_code():
    codes = [loss.code for loss in LOSSES.values()]
    assert len(set(codes)) == len(codes)
    assert Objective("softmax").code not in codes


# --- against the libraries' own numbers -----------------------------------------------------------------

XGB = {
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
    "multi:softprob": {"num_class": 3},
}
LGB = {
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
BOTH = [(xgboost, each) for each in XGB] + [(lightgbm, each) for each in LGB]
NAMED = pytest.mark.parametrize(("library", "objective"), BOTH, ids=lambda value: getattr(value, "__name__", value))


def train(library, objective, X, y, rounds=6, **params):
    if library is xgboost:
        params = {"objective": objective, "nthread": 1, "max_depth": 3, **XGB[objective], **params}
        return xgboost.train(params, xgboost.DMatrix(X, y, nthread=1), rounds)
    params = {"objective": objective, "num_threads": 1, "num_leaves": 6, "verbose": -1, **LGB[objective], **params}
    return lightgbm.train(params, lightgbm.Dataset(X, y), rounds)


def margins(model, X, rounds):
    if isinstance(model, xgboost.Booster):
        data = xgboost.DMatrix(X, nthread=1)
        return model.predict(data, output_margin=True, iteration_range=(0, rounds)).reshape(N, -1).astype(float)
    return model.predict(X, raw_score=True, num_iteration=rounds).reshape(N, -1)


@NAMED
def test_the_first_split_gains_what_the_response_makes_of_it(library, objective):
    """gain = sum over children of S^2 / H, less that of the root, S being sums of r_0 and H of hessians (the cover).

    Where XGBoost takes smooth losses (from 3.4 on), S are sums of their negative gradient.
    """
    X, latent = draw()
    y = response(objective, latent)
    plain = {"lambda": 0.0, "min_child_weight": 0} if library is xgboost else {"learning_rate": 1e-3}
    model = train(library, objective, X, y, rounds=1, **plain)
    ensemble = debias.plugin.extract(model)
    r_0 = debias.data.response.encode(y, ensemble, N).values
    if ensemble.objective.smoothed:
        r_0 = smooth_response(objective, y[:, None] - ensemble.base)
    leaves = route(ensemble, X.astype(ensemble.routing_dtype))
    for tree in range(ensemble.n_outputs):
        one = ensemble.tree(tree)
        leaf = np.flatnonzero(one.left < 0)
        s = np.zeros(one.left.size)
        s[leaf] = [r_0[leaves[:, tree] == node, tree].sum() for node in leaf]
        for node in range(one.left.size - 1, 0, -1):
            s[one.parent[node]] += s[node]
        h = hessians(model, ensemble, tree)
        at, a, b = 0, one.left[0], one.right[0]
        expected = s[a] ** 2 / h[a] + s[b] ** 2 / h[b] - s[at] ** 2 / h[at]
        assert ensemble.gain[ensemble.tree_start[tree]] == pytest.approx(expected, rel=2e-3)


def smooth_response(objective, r):
    """-g of XGBoost 3.4's smooth losses (dmlc/xgboost, pull requests 12373 and 12391), given the residuals."""
    scale = np.sqrt(np.abs(r)).mean() ** 2
    if objective == "reg:absoluteerror":
        return r * scale / np.sqrt(scale**2 + r**2)
    return scale / 2 * (np.tanh(r / (0.04 * scale)) + 2 * XGB[objective]["quantile_alpha"] - 1)


def hessians(model, ensemble, tree):
    nodes = slice(ensemble.tree_start[tree], ensemble.tree_start[tree + 1])
    if isinstance(model, xgboost.Booster):
        return ensemble.cover[nodes]
    from debias_adapters.lightgbm.reading import ModelText

    trees = ModelText.parse(model.model_to_string(), "test").trees
    left, right, h = trees.left[nodes], trees.right[nodes], np.zeros(nodes.stop - nodes.start)
    h[left < 0] = trees.hessians(slice(tree, tree + 1))
    for node in range(left.size // 2 - 1, -1, -1):  # the text has six digits of their own
        h[node] = h[left[node]] + h[right[node]]
    return h


METRICS = {
    "reg:squarederror": "rmse",
    "reg:squaredlogerror": "rmsle",
    "reg:pseudohubererror": "mphe",
    "reg:absoluteerror": "mae",
    "reg:quantileerror": "quantile",
    "count:poisson": "poisson-nloglik",
    "reg:gamma": "gamma-nloglik",
    "reg:tweedie": "tweedie-nloglik@1.3",
    "binary:logistic": "logloss",
    "multi:softprob": "mlogloss",
    "regression": "l2",
    "regression_l1": "l1",
    "huber": "huber",
    "fair": "fair",
    "poisson": "poisson",
    "quantile": "quantile",
    "mape": "mape",
    "tweedie": "tweedie",
    "binary": "binary_logloss",
    "cross_entropy": "cross_entropy",
    "multiclass": "multi_logloss",
}


@pytest.mark.parametrize(
    ("library", "objective"), [each for each in BOTH if each[1] in METRICS], ids=lambda v: getattr(v, "__name__", v)
)
def test_losses_are_the_libraries_own_metrics(library, objective):
    """Up to a constant that depends on y alone: compared is what is saved between rounds 2 and 6."""
    X, latent = draw()
    X_held, latent_held = draw(1)
    y, y_held = response(objective, latent), response(objective, latent_held, 1)
    seen = {}
    if library is xgboost:
        params = {"objective": objective, "nthread": 1, "eval_metric": METRICS[objective], **XGB[objective]}
        held = [(xgboost.DMatrix(X_held, y_held, nthread=1), "held")]
        model = xgboost.train(
            params, xgboost.DMatrix(X, y, nthread=1), 6, evals=held, evals_result=seen, verbose_eval=False
        )
    else:
        params = {"objective": objective, "num_threads": 1, "verbose": -1, "metric": METRICS[objective]}
        data = lightgbm.Dataset(X, y)
        held = [lightgbm.Dataset(X_held, y_held, reference=data)]
        model = lightgbm.train(
            {**params, **LGB[objective]}, data, 6, held, ["held"], callbacks=[lightgbm.record_evaluation(seen)]
        )
    (metric,) = seen["held"].values()
    metric = (
        np.array(metric) ** 2 / (2 if METRICS[objective] == "rmsle" else 1) if "rms" in METRICS[objective] else metric
    )
    theirs = metric[1] - metric[5]
    if objective == "quantile" or objective == "reg:quantileerror":
        assert theirs != 0
    ensemble = debias.plugin.extract(model)
    target = debias.data.response.encode(y_held, ensemble, N).target
    ours = [ensemble.objective.loss(target, margins(model, X_held, rounds)).mean() for rounds in (2, 6)]
    assert ours[0] - ours[1] == pytest.approx(theirs, rel=2e-4, abs=2e-6)


# --- identities ------------------------------------------------------------------------------------------


@NAMED
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_losses_saved_add_up(library, objective, weighted):
    X, latent = draw()
    X_held, latent_held = draw(1)
    model = train(library, objective, X, response(objective, latent))
    y = response(objective, latent_held, 1)
    weight = np.random.default_rng(2).uniform(0, 2, N) if weighted else None
    ensemble = debias.plugin.extract(model)
    target = debias.data.response.encode(y, ensemble, N).target
    before = ensemble.objective.loss(target, np.tile(ensemble.base, (N, 1)))
    after = ensemble.objective.loss(target, margins(model, X_held, 6))
    scores = debias.score(model, X_held, y, "oob_loss", rows="held-out", sample_weight=weight)
    saved = np.average(before - after, weights=weight)
    assert scores.values.sum() + scores.details["base"] == pytest.approx(saved, rel=1e-6, abs=1e-6)
    assert np.abs(scores.values).max() > 1e-3


@NAMED
def test_weights_of_rows_are_repetitions(library, objective):
    X, latent = draw()
    X_held, latent_held = draw(1)
    model = train(library, objective, X, response(objective, latent))
    y = response(objective, latent_held, 1)
    weight = np.random.default_rng(3).integers(0, 4, N)
    for scorer in ("mdi_oob", "mdi_oob(centre='none')", "oob_split", "oob_loss"):
        weighted = debias.score(model, X_held, y, scorer, rows="held-out", sample_weight=weight).values
        repeated = debias.score(
            model, np.repeat(X_held, weight, axis=0), np.repeat(y, weight, axis=0), scorer, rows="held-out"
        ).values
        np.testing.assert_allclose(weighted, repeated, rtol=1e-10, atol=1e-10 * np.abs(repeated).max())


# --- margins of rows, objectives of one's own ------------------------------------------------------------


@pytest.mark.parametrize("library", [xgboost, lightgbm], ids=lambda library: library.__name__)
@pytest.mark.parametrize("task", ["regression", "binary", "multi"])
def test_margins_of_rows_count_in_the_scores(library, task):
    X, latent = draw()
    X_held, latent_held = draw(1)
    rng = np.random.default_rng(5)
    n_outputs = 3 if task == "multi" else 1
    margin, margin_held = rng.normal(size=(2, N, n_outputs))
    names = {"regression": "reg:squarederror", "binary": "binary:logistic", "multi": "multi:softprob"}
    if library is xgboost:
        name = names[task]
        y, y_held = response(name, latent), response(name, latent_held)
        params = {"objective": name, "nthread": 1, **XGB[name]}
        model = xgboost.train(params, xgboost.DMatrix(X, y, base_margin=margin.squeeze(), nthread=1), 5)
        data = xgboost.DMatrix(X_held, base_margin=margin_held.squeeze(), nthread=1)
        after = model.predict(data, output_margin=True).reshape(N, -1)
    else:
        name = {"multi": "multiclass"}.get(task, task)
        y, y_held = response(name, latent), response(name, latent_held)
        params = {"objective": name, "num_threads": 1, "verbose": -1, **LGB[name], "sigmoid": 1.0}
        model = lightgbm.train(params, lightgbm.Dataset(X, y, init_score=margin.squeeze()), 5)
        after = margin_held + model.predict(X_held, raw_score=True).reshape(N, -1)
    ensemble = debias.plugin.extract(model)
    target = debias.data.response.encode(y_held, ensemble, N).target
    loss = ensemble.objective.loss
    scores = debias.score(
        model, debias.Dataset(X_held, y_held, base_margin=margin_held), scorer="oob_loss", rows="held-out"
    )
    saved = np.mean(loss(target, margin_held) - loss(target, after))
    assert scores.values.sum() + scores.details["base"] == pytest.approx(saved, rel=1e-5, abs=1e-5)
    with_margin = debias.score(model, debias.Dataset(X_held, y_held, base_margin=margin_held), rows="held-out").values
    without = debias.score(model, X_held, y_held, rows="held-out").values
    assert np.abs(with_margin - without).max() > 1e-4
    if task == "regression":  # r_0 = y - margin: the same scores as of a response that has the margin taken off
        residual = debias.score(model, X_held, y_held - margin_held[:, 0], rows="held-out").values
        np.testing.assert_allclose(with_margin, residual, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("margin", [np.zeros(3), np.full(N, np.nan), "text"])
def test_wrong_margins_of_rows_are_refused(margin):
    X, y = draw()
    model = train(xgboost, "reg:squarederror", X, y)
    with pytest.raises(debias.RowsError, match="base_margin"):
        debias.score(model, debias.Dataset(*draw(1), base_margin=margin), rows="held-out")
    with pytest.raises(debias.RowsError, match="train= cannot be used together with base_margin"):
        debias.score(model, debias.Dataset(*draw(1), base_margin=np.zeros(N)), rows="held-out", train=(X, y))


def squared(y, f):
    return f - y, np.ones_like(f)


def softmax(y, f, *_):
    p = np.exp(f - f.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return p - np.eye(3)[np.asarray(y, dtype=int)], 2 * p * (1 - p)


@pytest.mark.parametrize("library", [xgboost, lightgbm], ids=lambda library: library.__name__)
def test_an_objective_of_ones_own_gives_the_gradient(library):
    X, y = draw()
    X_held, y_held = draw(1)
    quiet = {"verbose": -1} if library is lightgbm else {}
    kind = xgboost.XGBRegressor if library is xgboost else lightgbm.LGBMRegressor
    start = {"base_score": 0.5} if library is xgboost else {"boost_from_average": False}
    own, plain = (
        kind(n_estimators=5, n_jobs=1, objective=each, **start, **quiet).fit(X, y)
        for each in (squared, "reg:squarederror" if library is xgboost else "regression")
    )
    found = debias.audit(own, X_held, y_held, rows="held-out")
    assert list(found.scores) == ["mdi_oob"]  # the loss is not known
    expected = debias.score(plain, X_held, y_held, rows="held-out").values
    np.testing.assert_allclose(found.scores["mdi_oob"].values, expected, rtol=1e-5, atol=1e-7)
    with pytest.raises(debias.plugin.CompositionError, match="a custom objective gives only its gradient"):
        debias.score(own, X_held, y_held, "oob_loss", rows="held-out")


@pytest.mark.parametrize("library", [xgboost, lightgbm], ids=lambda library: library.__name__)
def test_a_response_of_three_classes_is_the_gradient_of_ones_own_objective(library):
    X, latent = draw()
    y, y_held = (response("multi", each) for each in (latent, draw(1)[1]))
    labels = np.array(["u", "v", "w"])
    kind = xgboost.XGBClassifier if library is xgboost else lightgbm.LGBMClassifier
    quiet = {"verbose": -1} if library is lightgbm else {"base_score": 0.5}
    model = kind(n_estimators=4, n_jobs=1, objective=softmax, **quiet)
    model.fit(X, y if library is xgboost else labels[y])
    held = y_held if library is xgboost else labels[y_held]
    ensemble = debias.plugin.extract(model)
    r_0 = debias.data.response.encode(held, ensemble, N).values
    np.testing.assert_allclose(r_0, np.eye(3)[y_held] - 1 / 3, atol=1e-7)
    debias.score(model, draw(1)[0], held, rows="held-out")


def test_a_lightgbm_booster_does_not_keep_an_objective_of_ones_own():
    X, y = draw()
    own = {"objective": lambda f, data: squared(data.get_label(), f), "verbose": -1}
    model = lightgbm.train(own, lightgbm.Dataset(X, y), 3)
    with pytest.raises(
        debias.UnsupportedModelError, match="a function as its objective, and the model does not keep the function"
    ):
        debias.score(model, X, y)


@pytest.mark.parametrize(
    ("objective", "wrong"), [("count:poisson", -1.0), ("reg:squaredlogerror", -1.5), ("binary:hinge", 2.0)]
)
def test_a_response_out_of_range_is_refused(objective, wrong):
    X, latent = draw()
    y = response(objective, latent).astype(float)
    model = train(xgboost, objective, X, y)
    y[3] = wrong
    with pytest.raises(debias.RowsError, match="was trained on a response .* but y has values from"):
        debias.score(model, X, y, rows="held-out")


# --- forests of LightGBM: bags replayed, and proven -----------------------------------------------------

FOREST = {"boosting": "rf", "bagging_fraction": 0.6, "num_leaves": 31, "min_data_in_leaf": 5}


def forest(objective, X, y, every=1, rounds=10, weight=None, **params):
    params = {
        "objective": objective, "num_threads": 1, "verbose": -1, "bagging_freq": every, **FOREST, **LGB[objective],
        **params,
    }  # fmt: skip
    return lightgbm.train(params, lightgbm.Dataset(X, y, weight=weight), rounds)


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("n", [200, 1024, 2500])
def test_bags_of_a_forest_are_proven(n, every):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 3))
    y = X[:, 0] + rng.normal(size=n)
    scores = debias.score(forest("regression", X, y, every, bagging_seed=n), X, y)
    assert scores.rows == "oob"
    assert scores.provenance["status"] == "proven"


@pytest.mark.parametrize("objective", ["regression_l1", "huber", "quantile"])
def test_rows_of_other_forests_are_proven(objective):
    X, latent = draw()
    y = response(objective, latent)
    scores = debias.audit(forest(objective, X, y), X, y, ["mdi_oob"], rows="oob").scores["mdi_oob"]
    assert scores.provenance["status"] == "rows proven, y unproven"
    assert scores.values[:2].min() > np.abs(scores.values[2:]).max()


def test_oob_scores_of_a_forest_are_those_of_its_trees():
    """By definition: the centred covariance on rows out of each tree's bag, over their number; a mean over trees."""
    X, latent = draw()
    y = response("regression", latent)
    model = forest("regression", X, y)
    ensemble = debias.plugin.extract(model)
    leaves = route(ensemble, X)
    in_bag = debias.hooks.registry.plugin_manager().hook.debias_in_bag(model=model, y=y, sample_weight=None)
    expected = np.zeros(4)
    for tree in range(10):
        one, out = ensemble.tree(tree), in_bag.draw(tree) == 0
        for node in np.flatnonzero(one.left >= 0):
            below = {child: under(one, leaves[:, tree], child) & out for child in (one.left[node], one.right[node])}
            here = np.logical_or(*below.values())
            if here.any():
                centred = y[here].mean()
                expected[one.feature[node]] += sum(
                    one.value[child, 0] * (y[rows] - centred).sum() for child, rows in below.items()
                ) / (out.sum() * 10)
    found = debias.score(model, X, y, rows="oob").values
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-15)


def under(tree, leaves, node):
    reached = leaves.copy()
    found = reached == node
    while (reached > 0).any():
        reached = np.where(reached > 0, tree.parent[reached], 0)
        found |= reached == node
    return found


def test_weights_of_a_forest_go_into_its_nodes():
    X, y = draw()
    weight = np.random.default_rng(0).integers(1, 4, N).astype(float)
    model = forest("regression", X, y, weight=weight)
    assert debias.score(model, X, y, rows="oob", sample_weight=weight).provenance["status"] == "proven"
    with pytest.raises(debias.ProvenanceError, match="weights"):
        debias.score(model, X, y, rows="oob")
    model = forest("binary", X, (y > 0.5).astype(int), weight=weight)
    with pytest.raises(debias.InBagUnavailableError, match="weights of rows or classes"):
        debias.score(model, X, (y > 0.5).astype(int), rows="oob")


@pytest.mark.thorough
def test_what_the_bags_of_a_forest_cannot_prove_is_refused():
    X, y = draw()
    model = forest("regression", X, y)
    order = np.random.default_rng(0).permutation(N)
    for X_wrong, y_wrong in ((X[order], y[order]), (X, y[order]), (X[order], y), (X[:-1], y[:-1])):
        with pytest.raises(debias.ProvenanceError):
            debias.score(model, X_wrong, y_wrong, rows="oob")
    with pytest.raises(debias.InBagUnavailableError, match="without bags"):
        debias.score(forest("regression", X, y, bagging_fraction=1.0, feature_fraction=0.5), X, y, rows="oob")
    labels = (y > 0.5).astype(int)
    by_label = forest("binary", X, labels, pos_bagging_fraction=0.5, neg_bagging_fraction=0.6)
    with pytest.raises(debias.InBagUnavailableError, match="pos_bagging_fraction=0.5, neg_bagging_fraction=0.6"):
        debias.score(by_label, X, labels, rows="oob")


@pytest.mark.parametrize("objective", ["binary", "cross_entropy", "multiclass", "poisson"])
def test_forests_of_margins_are_scored_on_fresh_rows_only(objective):
    X, latent = draw()
    y = response(objective, latent)
    model = forest(objective, X, y)
    with pytest.raises(debias.InBagUnavailableError, match="leaves are steps of a margin"):
        debias.score(model, X, y, rows="oob")
    X_held, latent_held = draw(1)
    scores = debias.score(model, X_held, response(objective, latent_held, 1), rows="held-out").values
    assert scores[:2].min() > np.abs(scores[2:]).max()


# --- training rows are known whatever the loss -----------------------------------------------------------

GROWN = {"plain": {}, "dart": {"rate_drop": 0.5, **families.XGB_DROPOUT}, "parallel": {"num_parallel_tree": 3}}


NOT_PARALLEL = ("reg:absoluteerror", "reg:quantileerror")


@pytest.mark.filterwarnings("ignore:.*are training rows, by the counts:debias.DebiasWarning")
@pytest.mark.parametrize(
    ("library", "objective", "how"),
    [(*each, how) for each in BOTH for how in (GROWN if each[0] is xgboost else ["plain"])],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_shuffled_training_rows_are_recognised_and_fresh_ones_are_not(library, objective, how):
    if how == "parallel" and objective in NOT_PARALLEL and not at_least("xgboost", "3.2"):
        pytest.skip(f"xgboost {xgboost.__version__}: it trains no parallel trees for {objective}")
    X, latent = draw()
    y = response(objective, latent)
    model = train(library, objective, X, y, **GROWN[how])
    order = np.random.default_rng(0).permutation(N)
    with pytest.raises(debias.ProvenanceError, match="these are the training rows"):
        debias.score(model, X[order], y[order])
    X_fresh, latent_fresh = draw(1)
    y_fresh = response(objective, latent_fresh, 1)
    stated = "auto"
    if not debias.plugin.extract(model).uniform_rows:  # sums of hessians that depend on the response
        stated = "held-out"
        with pytest.raises(
            debias.ProvenanceError, match="cannot check whether these rows contain training rows of this"
        ):
            debias.score(model, X_fresh, y_fresh)
    assert debias.score(model, X_fresh, y_fresh, rows=stated).rows == "held-out"
