"""The quick and the threaded running loss against the plain loop; that one is held to the definition elsewhere."""

from dataclasses import replace

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from xgboost import XGBClassifier, XGBRegressor

import debias
from debias.data.response import encode
from debias.rows.kernels import running_loss as kernels
from debias.rows.running_loss import ROWS_AT_ONCE, loss_of_rows, running_loss
from debias.trees.routing import route


def drawn(n, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).astype(np.float32)
    return X, np.clip(np.round(X[:, 0] + rng.normal(size=n) + (n_classes - 1) / 2), 0, n_classes - 1).astype(int)


def by_the_plain_loop(ensemble, response, weight, leaves):
    drop = np.zeros((1, ensemble.n_features + 1))
    codes = np.zeros(len(leaves), dtype=np.int64) if response.codes is None else response.codes
    parameter = np.broadcast_to(np.asarray(ensemble.objective.parameter), ensemble.n_outputs).copy()
    tree = (ensemble.tree_start, ensemble.tree_output, ensemble.feature, ensemble.parent, ensemble.value)
    margin = np.tile(ensemble.base, (len(leaves), 1))
    kernels.add_running_loss(
        leaves, *tree, ensemble.objective.code, parameter, codes, response.target, weight, margin, drop
    )
    return drop[0]


MODELS = {
    "xgboost": lambda: XGBClassifier(n_estimators=30, max_depth=4, n_jobs=1),
    "large steps": lambda: XGBClassifier(n_estimators=4, max_depth=6, learning_rate=30.0, reg_lambda=0, n_jobs=1),
    "lightgbm": lambda: LGBMClassifier(n_estimators=30, num_leaves=12, n_jobs=1, verbose=-1),
    "regression": lambda: XGBRegressor(n_estimators=10, max_depth=3, n_jobs=1),
    "3 classes": lambda: XGBClassifier(n_estimators=5, max_depth=3, n_jobs=1),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", MODELS)
def test_it_is_that_of_the_plain_loop_and_threads_change_nothing(kind, weighted):
    X, y = drawn(600, 3 if kind == "3 classes" else 2)
    ensemble = debias.plugin.extract(MODELS[kind]().fit(X, y))
    fresh, labels = drawn(2 * ROWS_AT_ONCE + 300, 3 if kind == "3 classes" else 2, seed=1)
    response = encode(labels, ensemble, len(fresh))
    leaves = route(ensemble, fresh.astype(ensemble.routing_dtype))
    weight = np.random.default_rng(2).uniform(0.5, 2.0, len(fresh)) if weighted else np.ones(len(fresh))
    found = running_loss(ensemble, response, weight, leaves)
    expected = by_the_plain_loop(ensemble, response, weight, leaves)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * np.abs(expected).max())
    np.testing.assert_array_equal(running_loss(ensemble, response, weight, leaves, n_jobs=2), found)


@pytest.mark.parametrize("kind", MODELS)
def test_the_rows_add_up_to_the_running_loss(kind):
    X, y = drawn(600, 3 if kind == "3 classes" else 2)
    ensemble = debias.plugin.extract(MODELS[kind]().fit(X, y))
    fresh, labels = drawn(400, 3 if kind == "3 classes" else 2, seed=1)
    response, leaves = encode(labels, ensemble, 400), route(ensemble, fresh.astype(ensemble.routing_dtype))
    weight = np.random.default_rng(2).uniform(0.5, 2.0, 400)
    saved = loss_of_rows(ensemble, response, leaves)
    expected = running_loss(ensemble, response, weight, leaves)[:-1]
    np.testing.assert_allclose(weight @ saved, expected, rtol=0, atol=1e-9 * np.abs(expected).max())
    alone = loss_of_rows(ensemble, response.part(slice(7, 8)), leaves[7:8])
    np.testing.assert_allclose(saved[7:8], alone, rtol=1e-12, atol=1e-12)


def test_products_neither_overflow_nor_vanish():
    """Steps of 40 leave room for 15 rows in a product; probabilities come as near to 0 and 1 as e^-160."""
    X, y = drawn(400)
    ensemble = debias.plugin.extract(XGBClassifier(n_estimators=4, max_depth=3, n_jobs=1).fit(X, y))
    rng = np.random.default_rng(0)
    ensemble = replace(ensemble, value=rng.choice([-40.0, 40.0], size=ensemble.value.shape))
    leaves, target = route(ensemble, X.astype(ensemble.routing_dtype)), y[:, None].astype(np.float64)
    drop = np.zeros(ensemble.n_features + 1)
    arrays = (ensemble.tree_start, ensemble.feature, ensemble.left, ensemble.parent, ensemble.value)
    kernels.add_log_loss(leaves, *arrays, target[:, 0], float(ensemble.base[0]), drop)
    response = encode(y, ensemble, len(y))
    expected = by_the_plain_loop(ensemble, response, np.ones(len(y)), leaves)
    assert np.isfinite(drop).all()
    np.testing.assert_allclose(drop, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


def test_squared_errors_of_several_outputs_are_those_of_the_plain_loop():
    X, y = drawn(900, 3)
    responses = np.column_stack([y, -2.0 * y + X[:, 1]])
    ensemble = debias.plugin.extract(XGBRegressor(n_estimators=6, max_depth=3, n_jobs=1).fit(X[:500], responses[:500]))
    assert set(ensemble.tree_output.tolist()) == {0, 1}
    response, leaves = encode(responses[500:], ensemble, 400), route(ensemble, X[500:].astype(ensemble.routing_dtype))
    weight = np.random.default_rng(3).uniform(0.5, 2.0, 400)
    expected = by_the_plain_loop(ensemble, response, weight, leaves)
    found = running_loss(ensemble, response, weight, leaves)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * np.abs(expected).max())
