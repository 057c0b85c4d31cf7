"""SHAP interactions over rows: what they add up to, and rows they cannot use."""

import numpy as np
import pytest

import debias
from debias.api.prepared import prepared_members
from debias.hooks.expressions import scorer
from debias.rows import shap_interactions as module
from debias.rows.request import Request
from debias.trees.shapley import shapley_values
from debias.trees.shapley_interactions import interaction_matrix

TRAINING = "ignore:these are scores on training rows:debias.DebiasWarning"


def sample(kind, n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5)).round(1)
    y = X[:, 0] * X[:, 1] + X[:, 2] + rng.normal(size=n)
    if kind != "regression":
        y = np.digitize(y, np.quantile(y, [0.5] if kind == "binary" else [0.3, 0.7]))
    return X, y


def with_diagonal(pairs, name, diagonal):
    """What each feature has: half of each of its pairs, and the rest of its SHAP values."""
    total = diagonal.copy()
    for pair, value in zip(pairs.pairs, getattr(pairs, name), strict=True):
        total[pair] += value / 2
    return total


@pytest.mark.parametrize("kind", ["regression", "binary", "three classes"])
@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_held_out_covariances_of_halves_and_diagonal_are_those_of_shap_values(models, library, kind):
    X, y = sample(kind)
    task = "regression" if kind == "regression" else "classification"
    model = models(library, task, n_estimators=10).fit(X[:150], y[:150])
    pairs = debias.compare(model, X[150:], y[150:], of="pairs", rows="held-out")
    ensemble = debias.plugin.extract(model)
    matrix = interaction_matrix(ensemble, X[150:].astype(ensemble.routing_dtype))
    weight = np.full(150, 1 / 150)
    response = evaluated(model, X[150:], y[150:], rows="held-out").response.values
    centred = weight[:, None] * (response - response.mean(axis=0))
    diagonal = np.einsum("ijjo,io->j", matrix, centred)
    expected = debias.score(model, X[150:], y[150:], "shap_oob", rows="held-out").values
    np.testing.assert_allclose(
        with_diagonal(pairs, "shap_interactions_oob", diagonal), expected, rtol=1e-7, atol=1e-9 * np.abs(expected).max()
    )
    one, other = pairs.pairs.T
    size = 2 * np.abs(matrix[:, one, other]).mean(axis=0).sum(axis=1)
    np.testing.assert_allclose(pairs.shap_interactions, size, rtol=1e-9)


def evaluated(model, X, y, **settings):
    """The evaluation rows that debias makes of these rows."""
    (prepared,) = prepared_members(Request.of(model, X, y, **settings), [scorer("mdi_oob")])
    return prepared.rows


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_out_of_bag_covariances_are_means_over_trees(models, task):
    X, y = sample("regression" if task == "regression" else "three classes", n=120)
    weight = np.random.default_rng(1).integers(0, 3, 120).astype(float) if task == "regression" else None
    model = models("sklearn", task, n_estimators=8).fit(X, y)
    pairs = debias.compare(model, X, y, of="pairs", rows="oob", sample_weight=weight)
    rows = evaluated(model, X, y, rows="oob", sample_weight=weight)
    w = np.ones(120) if weight is None else weight
    response = y[:, None] if task == "regression" else np.eye(3)[y]
    of_trees = []
    for t, tree in enumerate(model.estimators_):
        out = rows.in_bag.out_of_bag(t)
        phi = interaction_matrix(debias.plugin.extract(tree), X[out].astype(np.float32))
        centred = w[out, None] * (response[out] - np.average(response[out], axis=0, weights=w[out])) / w[out].sum()
        of_trees.append(2 * np.einsum("ijko,io->jk", phi, centred))
    expected = np.mean(of_trees, axis=0)[tuple(pairs.pairs.T)]
    np.testing.assert_allclose(pairs.shap_interactions_oob, expected, rtol=1e-9, atol=1e-12)


def test_columns_of_a_feature_are_one_and_rows_are_read_in_blocks(models, monkeypatch):
    X, y = sample("regression", n=900)
    model = models("xgboost", n_estimators=10).fit(X[:300], y[:300])
    rows = evaluated(model, X[300:], y[300:], rows="held-out")
    group = np.array([0, 1, 0, 2, 3])
    whole = module.shap_interactions(rows, group, 4)
    monkeypatch.setattr(module, "VALUES_AT_ONCE", 1)
    in_blocks = module.shap_interactions(rows, group, 4)
    np.testing.assert_allclose(in_blocks.size, whole.size, rtol=1e-12)
    np.testing.assert_allclose(in_blocks.covariance, whole.covariance, rtol=1e-9, atol=1e-15)
    matrix = interaction_matrix(rows.ensemble, X[300:].astype(np.float32))[..., 0]
    expected = 2 * np.abs(matrix[:, 0, 1] + matrix[:, 2, 1]).mean()
    np.testing.assert_allclose(whole.size[whole.pairs.tolist().index([0, 1])], expected, rtol=1e-9)


@pytest.mark.filterwarnings(TRAINING)
def test_training_rows_have_no_covariance(models):
    X, y = sample("regression")
    model = models("xgboost", n_estimators=5, max_depth=3).fit(X, y)
    pairs = debias.compare(model, X, y, of="pairs", rows="train")
    assert np.isnan(pairs.shap_interactions_oob).all()
    assert (pairs.shap_interactions > 0).all()
    ensemble = debias.plugin.extract(model)
    phi = shapley_values(ensemble, X.astype(np.float32))[:, :, 0]
    assert pairs.shap_interactions.max() < 2 * np.abs(phi).sum(axis=1).max()


@pytest.mark.thorough
def test_noise_has_covariances_of_mean_0_and_sizes_above_0(models):
    """60 forests on noise: the mean over sets is within 4 of its standard errors."""
    oob, size = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
        model = models("sklearn", n_estimators=5, random_state=seed).fit(X, y)
        pairs = debias.compare(model, X, y, of="pairs", rows="oob")
        assert len(pairs.pairs) == 3
        oob.append(pairs.shap_interactions_oob)
        size.append(pairs.shap_interactions)
    oob, size = np.array(oob), np.array(size)
    error = oob.std(axis=0, ddof=1) / np.sqrt(60)
    assert (np.abs(oob.mean(axis=0)) < 4 * error).all()
    assert (size.mean(axis=0) > 10 * error).all()
