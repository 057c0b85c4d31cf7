"""XGBoost models of survival times: their response against XGBoost's own gradients, and scores of noise."""

import warnings

import numpy as np
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


def cox_model(seed=0, effect=1.0, rounds=20):
    X, y = survival(N, seed, effect)
    return xgboost.train(COX, xgboost.DMatrix(X, y), rounds)


def test_response_of_cox_sums_to_the_gradients_of_xgboost():
    X, y = survival(N, 0)
    one = {**COX, "learning_rate": 1, "reg_lambda": 0, "min_child_weight": 0}
    ensemble = debias.extract(xgboost.train(one, xgboost.DMatrix(X, y), 1))
    leaves = debias.trees.routing.route(ensemble, X)[:, 0]
    r_0 = encode(y, ensemble, N).values[:, 0]
    sums = np.bincount(leaves, weights=r_0, minlength=ensemble.n_nodes)
    leaf = ensemble.left < 0
    np.testing.assert_allclose(sums[leaf], (ensemble.value[:, 0] * ensemble.cover)[leaf], rtol=1e-4)


def test_start_margins_of_rows_change_the_response_of_cox():
    X, y = survival(N, 0)
    start = np.random.default_rng(1).normal(size=N)
    one = {**COX, "learning_rate": 1, "reg_lambda": 0, "min_child_weight": 0}
    ensemble = debias.extract(xgboost.train(one, xgboost.DMatrix(X, y, base_margin=start), 1))
    leaves = debias.trees.routing.route(ensemble, X)[:, 0]
    r_0 = encode(y, ensemble, N, base_margin=start).values[:, 0]
    sums = np.bincount(leaves, weights=r_0, minlength=ensemble.n_nodes)
    leaf = ensemble.left < 0
    np.testing.assert_allclose(sums[leaf], (ensemble.value[:, 0] * ensemble.cover)[leaf], rtol=1e-4)


def test_an_audit_of_cox_finds_the_feature_that_matters():
    X, y = survival(N, 1)
    audit = debias.audit(cox_model(), X, y, rows="held-out", train=survival(N, 0), seed=0)
    assert audit.table.loc["f0", "verdict"] == "informative"
    assert audit.table.loc["f0", "dependence"] == "dependent"
    assert "oob_loss" not in audit.table


def test_scores_of_cox_that_cannot_be_are_refused():
    model, (X, y) = cox_model(), survival(N, 1)
    for scorer in ("oob_loss", "ablation", "conditional_importance"):
        with pytest.raises(debias.CompositionError, match="compares rows with each other"):
            debias.score(model, X, y, scorer, rows="held-out")
    with pytest.raises(debias.CompositionError, match="no metric by default"):
        debias.score(model, X, y, "permutation", rows="held-out")
    with pytest.raises(debias.CompositionError, match="all rows are needed at once"):
        debias.score(model, [(X, y)], rows="held-out")
    with pytest.raises(debias.RowsError, match="none of these rows has an event"):
        debias.score(model, X, -np.abs(y), rows="held-out")


def mean_scores(n_fits):
    """Return scores of noise, of which the last column has many values; shape (n_fits, n_features)."""
    scores = []
    for fit in range(n_fits):
        model, (X, y) = cox_model(2 * fit, effect=0, rounds=10), survival(N, 2 * fit + 1, effect=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores.append(debias.score(model, X, y, rows="held-out").values)
    return np.array(scores)


def test_noise_scores_0_on_average_for_cox():
    scores = mean_scores(60)
    z = scores.mean(axis=0) / (scores.std(axis=0, ddof=1) / np.sqrt(len(scores)))
    assert (np.abs(z) < 3.5).all()
