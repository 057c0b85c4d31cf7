"""XGBoost models of survival times: their response against XGBoost's own gradients, and scores of noise."""

import warnings

import numpy as np
import pandas as pd
import pytest
import xgboost

import debias
from debias.data.response import encode

N = 300
COX = {"objective": "survival:cox", "max_depth": 3, "nthread": 1}


def survival(n, seed, effect=1.0):
    """Return features, of which only the first matters, and signed times."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=n), rng.integers(0, 2, n), rng.integers(0, 200, n)]).astype(np.float32)
    time, censored = rng.exponential(np.exp(-effect * X[:, 0])), rng.exponential(2, n)
    return X, np.where(time <= censored, time, -censored)


def cox_model(X, y, rounds=20):
    return xgboost.train(COX, xgboost.DMatrix(X, y), rounds)


def test_response_of_cox_sums_to_the_gradients_of_xgboost():
    X, y = survival(N, 0)
    one = {**COX, "learning_rate": 1, "reg_lambda": 0, "min_child_weight": 0}
    ensemble = debias.plugin.extract(xgboost.train(one, xgboost.DMatrix(X, y), 1))
    leaves = debias.trees.routing.route(ensemble, X)[:, 0]
    r_0 = encode(y, ensemble, N).values[:, 0]
    sums = np.bincount(leaves, weights=r_0, minlength=ensemble.n_nodes)
    leaf = ensemble.left < 0
    np.testing.assert_allclose(sums[leaf], (ensemble.value[:, 0] * ensemble.cover)[leaf], rtol=1e-4)


def test_response_of_cox_gives_the_leaves_of_catboost():
    catboost = pytest.importorskip("catboost")
    X, y = survival(N, 0)
    settings = {"learning_rate": 1, "l2_leaf_reg": 0, "leaf_estimation_method": "Gradient", "random_strength": 0}
    settings |= {"leaf_estimation_iterations": 1, "bootstrap_type": "No", "thread_count": 1, "verbose": False}
    model = catboost.CatBoost({"loss_function": "Cox", "iterations": 1, "allow_writing_files": False, **settings})
    ensemble = debias.plugin.extract(model.fit(X, y))
    leaf = debias.trees.routing.route(ensemble, X)[:, 0]
    mean = np.bincount(leaf, weights=encode(y, ensemble, N).values[:, 0]) / np.maximum(np.bincount(leaf), 1)
    np.testing.assert_allclose(mean[leaf], ensemble.value[leaf, 0], rtol=1e-4, atol=1e-6)


def test_start_margins_of_rows_change_the_response_of_cox():
    X, y = survival(N, 0)
    start = np.random.default_rng(1).normal(size=N)
    one = {**COX, "learning_rate": 1, "reg_lambda": 0, "min_child_weight": 0}
    ensemble = debias.plugin.extract(xgboost.train(one, xgboost.DMatrix(X, y, base_margin=start), 1))
    leaves = debias.trees.routing.route(ensemble, X)[:, 0]
    r_0 = encode(y, ensemble, N, base_margin=start).values[:, 0]
    sums = np.bincount(leaves, weights=r_0, minlength=ensemble.n_nodes)
    leaf = ensemble.left < 0
    np.testing.assert_allclose(sums[leaf], (ensemble.value[:, 0] * ensemble.cover)[leaf], rtol=1e-4)


def test_an_audit_of_cox_finds_the_feature_that_matters():
    X, y = survival(N, 1)
    audit = debias.audit(cox_model(*survival(N, 0)), X, y, rows="held-out", train=survival(N, 0), random_state=0)
    assert audit.to_frame().loc["f0", "verdict"] == "informative"
    assert audit.to_frame().loc["f0", "dependence"] == "dependent"
    assert "oob_loss" not in audit.to_frame()


def test_scores_of_cox_that_cannot_be_are_refused():
    model, (X, y) = cox_model(*survival(N, 0)), survival(N, 1)
    for scorer in ("oob_loss", "ablation"):
        with pytest.raises(debias.plugin.CompositionError, match="compares rows with each other"):
            debias.score(model, X, y, scorer, rows="held-out")
    with pytest.raises(debias.plugin.CompositionError, match="not on the scale of y"):
        debias.score(model, X, y, "conditional_importance", rows="held-out")
    with pytest.raises(debias.plugin.CompositionError, match="another kind of response"):
        debias.score(model, X, y, "guide")
    with pytest.raises(debias.plugin.CompositionError, match="use metric='concordance'"):
        debias.score(model, X, y, "permutation(metric='r2')", rows="held-out")
    with pytest.raises(debias.plugin.CompositionError, match="all rows are needed at once"):
        debias.score(model, [(X, y)], rows="held-out")
    with pytest.raises(debias.RowsError, match="none of these rows has an event"):
        debias.score(model, X, -np.abs(y), rows="held-out")


AFT = {"objective": "survival:aft", "max_depth": 3, "nthread": 1}


def intervals(n, seed, effect=1.0):
    """Return features, of which only the first matters, and bounds of times: exact, censored, between bounds."""
    rng = np.random.default_rng([seed, 1])
    X = survival(n, seed)[0]
    time = np.exp(effect * X[:, 0] + rng.normal(size=n))
    kind = rng.integers(0, 4, n)
    lower = np.where(kind == 1, time * rng.random(n), np.where(kind == 2, 0.0, np.where(kind == 3, time / 2, time)))
    upper = np.where(
        kind == 1, np.inf, np.where(kind == 2, time * (1 + rng.random(n)), time * np.where(kind == 3, 2, 1))
    )
    return X, np.column_stack([lower, upper])


def aft_model(X, y, rounds=20, **settings):
    rows = xgboost.DMatrix(X, label_lower_bound=y[:, 0], label_upper_bound=y[:, 1])
    return xgboost.train({**AFT, **settings}, rows, rounds)


@pytest.mark.parametrize("scale", [0.7, 2.0])
@pytest.mark.parametrize("distribution", ["normal", "logistic", "extreme"])
def test_response_of_aft_sums_to_the_gradients_of_xgboost(distribution, scale):
    X, y = intervals(N, 0, effect=0.2)  # in the far tails XGBoost's gradients are rough
    loss = {"aft_loss_distribution": distribution, "aft_loss_distribution_scale": scale}
    one = {"learning_rate": 1, "reg_lambda": 0, "min_child_weight": 0, "base_score": 1.7}
    ensemble = debias.plugin.extract(aft_model(X, y, rounds=1, **one, **loss))
    leaves = debias.trees.routing.route(ensemble, X)[:, 0]
    r_0 = encode(y, ensemble, N).values[:, 0]
    sums = np.bincount(leaves, weights=r_0, minlength=ensemble.n_nodes)
    leaf = ensemble.left < 0
    np.testing.assert_allclose(sums[leaf], (ensemble.value[:, 0] * ensemble.cover)[leaf], rtol=1e-3, atol=1e-3)


def test_an_audit_of_aft_finds_the_feature_that_matters():
    model, (X, y) = aft_model(*intervals(N, 0)), intervals(N, 1)
    audit = debias.audit(model, X, y, rows="held-out", train=intervals(N, 0), random_state=0)
    assert audit.to_frame().loc["f0", "verdict"] == "informative"
    assert audit.to_frame().loc["f0", "dependence"] == "dependent"
    as_frame = debias.score(model, X, pd.DataFrame(y, columns=["lower", "upper"]), rows="held-out")
    np.testing.assert_array_equal(as_frame.values, audit.scores["mdi_oob"].values)
    assert np.isfinite(debias.score(model, X, y, "ablation", rows="held-out").values).all()
    in_batches = debias.score(model, [(X[:200], y[:200]), (X[200:], y[200:])], rows="held-out")
    np.testing.assert_allclose(in_batches.values, as_frame.values, rtol=1e-9)


def test_a_comparison_of_aft_leaves_out_scores_that_need_a_metric():
    with pytest.warns(debias.DebiasWarning, match="permutation is left out of the comparison: .*no metric by default"):
        compared = debias.compare(aft_model(*intervals(N, 0)), *intervals(N, 1), rows="held-out")
    assert [*compared.scores] == ["native", "mdi_oob", "shap", "shap_oob"]


def test_scores_of_aft_that_cannot_be_are_refused():
    model, (X, y) = aft_model(*intervals(N, 0)), intervals(N, 1)
    with pytest.raises(
        debias.plugin.CompositionError, match="does not compute the running loss of accelerated failure times"
    ):
        debias.score(model, X, y, "oob_loss", rows="held-out")
    with pytest.raises(debias.plugin.CompositionError, match="no metric by default"):
        debias.score(model, X, y, "permutation", rows="held-out")
    with pytest.raises(debias.plugin.CompositionError, match="not on the scale of y"):
        debias.score(model, X, y, "conditional_importance", rows="held-out")
    with pytest.raises(debias.RowsError, match="must have 2 values per row .a lower and an upper bound"):
        debias.score(model, X, y[:, 0], rows="held-out")
    with pytest.raises(debias.RowsError, match="an upper bound that is not smaller"):
        debias.score(model, X, y[:, ::-1], rows="held-out")
    with pytest.raises(debias.RowsError, match="missing or infinite in 300 rows"):
        debias.score(model, X, np.full_like(y, np.nan), rows="held-out")
    with pytest.raises(debias.plugin.CompositionError, match="another kind of response"):
        debias.score(model, X, y[:, 0], "guide")


def test_an_array_with_fields_is_refused():
    X, y = survival(N, 1)
    fields = np.array(list(zip(y > 0, np.abs(y), strict=True)), dtype=[("event", bool), ("time", float)])
    with pytest.raises(debias.RowsError, match=r"np.where\(event, time, -time\)"):
        debias.score(cox_model(*survival(N, 0)), X, fields, rows="held-out")
    with pytest.raises(debias.RowsError, match="takes plain numbers or labels"):
        debias.score(aft_model(*intervals(N, 0)), X, fields, rows="held-out")


def test_a_refit_of_aft_takes_both_bounds():
    X, y = intervals(N, 0)
    settings = {"replicates": 3, "rows": "train", "random_state": 0}
    with pytest.warns(debias.DebiasWarning):  # training rows, few replicates
        scores = debias.score(aft_model(X, y), X, y, "response_permutation(mdi_oob)", **settings)
    assert scores.values.argmax() == 0


def noise(train, rows, n_fits):
    """Return scores of models of noise on held-out and on training rows, two arrays of shape (n_fits, 3)."""
    held_out, seen = [], []
    for fit in range(n_fits):
        (X, y), (fresh, answer) = (rows(N, 2 * fit + k, effect=0) for k in (0, 1))
        model = train(X, y, rounds=10)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            held_out.append(debias.score(model, fresh, answer, rows="held-out").values)
            seen.append(debias.score(model, X, y, rows="train").values)
    return np.array(held_out), np.array(seen)


def z_of_mean(scores):
    return scores.mean(axis=0) / (scores.std(axis=0, ddof=1) / np.sqrt(len(scores)))


@pytest.mark.thorough
@pytest.mark.parametrize(("train", "rows"), [(cox_model, survival), (aft_model, intervals)], ids=["cox", "aft"])
def test_noise_scores_0_on_average(train, rows):
    held_out, seen = noise(train, rows, n_fits=60)
    assert (np.abs(z_of_mean(held_out)) < 3.5).all()
    assert z_of_mean(seen)[2] > 10


@pytest.mark.slow
@pytest.mark.parametrize(("train", "rows"), [(cox_model, survival), (aft_model, intervals)], ids=["cox", "aft"])
def test_noise_scores_0_on_average_over_many_fits(train, rows):
    held_out, _ = noise(train, rows, n_fits=400)
    assert (np.abs(z_of_mean(held_out)) < 3.5).all()
