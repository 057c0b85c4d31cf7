"""The loss of trees without sets of features, against its definition leaf by leaf."""

import numpy as np
import pytest
import xgboost
from sklearn.ensemble import RandomForestRegressor
from sklearn.metrics import ndcg_score

import debias
from debias.rows import without
from debias.rows.frozen_loss import FrozenLoss, mean_rises
from support.prepared import held_out_rows
from support.survival import concordance
from support.without import CASES, evaluation_weight, fitted, output_without


def losses(ensemble, y, raw):
    """Squared error, Brier score of a forest, or log loss of a booster, by row."""
    if not ensemble.is_classifier:
        return (y - raw[:, 0]) ** 2
    n_classes = len(ensemble.classes)
    if ensemble.averaged:
        return ((np.eye(n_classes)[y] - raw) ** 2).sum(axis=1) * (0.5 if n_classes == 2 else 1.0)
    margin = np.column_stack([np.zeros(len(raw)), raw]) if n_classes == 2 else raw
    return np.log(np.exp(margin).sum(axis=1)) - margin[np.arange(len(y)), y]


@pytest.mark.parametrize(("library", "kind"), CASES)
def test_the_rise_of_a_set_is_that_of_the_definition(models, library, kind):
    model, X, y = fitted(models, library, kind)
    X, y = X[:25], y[:25]
    weight = np.random.default_rng(0).integers(1, 3, len(y)).astype(float)
    ensemble, rows = debias.plugin.extract(model), X.astype(debias.plugin.extract(model).routing_dtype)
    reached = evaluation_weight(ensemble, rows, weight)
    feature = np.array([0, 1, 2, 1, 3])  # columns 1 and 3 are one feature
    frozen = FrozenLoss(held_out_rows(model, X, y, weight), feature, 4)
    sets = np.array([[0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [1, 0, 1, 1]], dtype=bool)
    full = losses(ensemble, y, np.array([output_without(ensemble, x, (), reached) for x in rows]))
    for left_out, rise in zip(sets, frozen.rises(sets), strict=True):
        columns = tuple(np.flatnonzero(left_out[feature]))
        without = losses(ensemble, y, np.array([output_without(ensemble, x, columns, reached) for x in rows]))
        np.testing.assert_allclose(rise, weight @ (without - full), rtol=1e-5, atol=1e-6)
    assert np.abs(frozen.rises(sets)[1:]).min() > 1e-3
    assert frozen.used.tolist() == [
        bool(np.isin(np.flatnonzero(feature == k), ensemble.feature).any()) for k in range(4)
    ]


@pytest.mark.quick
def test_leaving_out_nothing_or_a_feature_without_a_split_changes_nothing(models):
    model, X, y = fitted(models, "sklearn", "regression")
    frozen = FrozenLoss(held_out_rows(model, X, y), np.arange(5), 6)  # a sixth feature without a column
    np.testing.assert_allclose(frozen.rises(np.eye(6, dtype=bool)[5:]), 0, atol=1e-12)
    np.testing.assert_allclose(frozen.rises(np.zeros((1, 6), dtype=bool)), 0, atol=1e-12)
    assert not frozen.used[5]


def test_several_models_are_averaged_by_the_weights_of_their_rows(models):
    model, X, y = fitted(models, "xgboost", "regression")
    parts = [
        FrozenLoss(held_out_rows(model, X[rows], y[rows]), np.arange(5), 5) for rows in (slice(0, 15), slice(15, 60))
    ]
    sets = np.eye(5, dtype=bool)
    expected = (parts[0].rises(sets) + parts[1].rises(sets)) / 60
    np.testing.assert_allclose(mean_rises(parts, sets), expected, rtol=1e-12)


def test_large_trees_are_followed_row_by_row_with_the_same_result(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 4)), rng.normal(size=500)
    model = RandomForestRegressor(3, random_state=0).fit(X[:400], y[:400])
    assert np.diff(debias.plugin.extract(model).tree_start).min() > without.MOST_NODES
    sets = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [1, 1, 1]], dtype=bool)

    def rises():
        return FrozenLoss(held_out_rows(model, X[400:], y[400:]), np.array([0, 1, 2, 1]), 3).rises(sets)

    by_row = rises()
    monkeypatch.setattr(without, "MOST_NODES", 10**6)
    np.testing.assert_allclose(by_row, rises(), rtol=1e-9)


@pytest.mark.parametrize("kind", ["ranker", "cox"])
def test_the_rise_of_losses_that_compare_rows_is_that_of_the_definition(kind):
    rng, query = np.random.default_rng(0), np.repeat(np.arange(10), 6)
    X = rng.normal(size=(60, 4)).astype(np.float32)
    latent, settings = X[:, 0] + X[:, 1] + rng.normal(size=60), {"max_depth": 3, "nthread": 1}
    if kind == "ranker":
        y = np.digitize(latent, [-1, 0, 1])
        model = xgboost.train({"objective": "rank:ndcg", **settings}, xgboost.DMatrix(X, y, qid=query), 3)
        weight = np.repeat(rng.integers(1, 3, 5), 6).astype(float)
    else:
        y = np.where(rng.random(60) < 0.7, np.exp(-latent), -np.exp(-latent))
        model = xgboost.train({"objective": "survival:cox", **settings}, xgboost.DMatrix(X, y), 3)
        weight = rng.integers(1, 3, 30).astype(float)
    X, y, query = X[:30], y[:30], query[:30]
    ensemble = debias.plugin.extract(model)
    reached = evaluation_weight(ensemble, X, weight)
    frozen = FrozenLoss(held_out_rows(model, X, y, weight, query if kind == "ranker" else None), np.arange(4), 4)
    sets = np.array([[1, 0, 0, 0], [0, 1, 1, 0], [1, 1, 1, 1]], dtype=bool)

    def loss(columns):
        margin = np.array([output_without(ensemble, x, columns, reached)[0] for x in X]).round(9)
        if kind == "cox":
            return weight.sum() * (1 - concordance(y > 0, np.abs(y), margin, weight))
        each = [ndcg_score([2.0 ** y[query == q] - 1], [margin[query == q]]) for q in range(5)]
        return weight[::6] @ (1 - np.array(each))

    for left_out, rise in zip(sets, frozen.rises(sets), strict=True):
        np.testing.assert_allclose(rise, loss(tuple(np.flatnonzero(left_out))) - loss(()), rtol=1e-5, atol=1e-6)
    assert np.abs(frozen.rises(sets)).max() > 0.1
    assert frozen.weight == (weight[::6].sum() if kind == "ranker" else weight.sum())
