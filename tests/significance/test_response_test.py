"""The test of shap_oob by permutations of the response: scores by matrices, z by the definition."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import debias
from debias.api.prepared import prepared_members
from debias.plugin import out_of_bag_effects, response_test
from debias.rows.request import Request
from debias.significance.response_test import EffectTimesResponse
from debias.trees.routing import route
from debias.trees.shapley import shapley_values, shapley_values_of_leaves
from debias_bench import out_of_bag

N = 60


def data(n=N, classes=0, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, 3)), rng.integers(0, 3, n)]).astype(np.float64)
    y = X[:, 0] + X[:, 1] * (X[:, 3] > 0) + rng.normal(size=n)
    return X, np.digitize(y, np.quantile(y, np.arange(1, classes) / classes)) if classes else y


def forest(X, y, **settings):
    kind = RandomForestClassifier if y.dtype.kind == "i" else RandomForestRegressor
    return kind(**{"n_estimators": 8, "min_samples_leaf": 3, "random_state": 0} | settings).fit(X, y)


def rows_of(model, X, y, kind="oob", **more):
    scorer = debias.plugin.scorer("shap_oob")
    (prepared,) = prepared_members(Request.of(model, X, y, rows=kind, random_state=3, **more), [scorer])
    return prepared.rows


def shap_effects(rows):
    X = rows.table.matrix(rows.ensemble)
    return out_of_bag_effects(rows, lambda tree, at: shapley_values_of_leaves(rows.ensemble, tree, X, at))


def columns(rows):
    """One column for each class: the oracle does not use that two classes need one."""
    if rows.response.values is not None:
        return rows.response.values
    return np.eye(rows.ensemble.n_outputs)[rows.response.codes]


@pytest.mark.parametrize("classes", [0, 2])
def test_values_of_leaves_times_the_leaves_are_shapley_values(classes):
    X, y = data(classes=classes)
    ensemble = debias.plugin.extract(forest(X, y, min_samples_leaf=1))
    at = np.arange(5, 40)
    phi = np.zeros((at.size, X.shape[1], ensemble.n_outputs))
    X = np.ascontiguousarray(X, dtype=np.float32)
    for tree in range(ensemble.n_trees):
        begin = ensemble.tree_start[tree]
        for leaf, features, found in shapley_values_of_leaves(ensemble, tree, X, at):
            phi[:, features] += found.T[:, :, None] * ensemble.value[begin + leaf] / ensemble.n_trees
    np.testing.assert_allclose(phi, shapley_values(ensemble, X[at]), atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [0, 2, 3])
def test_effects_times_the_response_sum_to_shap_oob(classes, weighted):
    X, y = data(classes=classes)
    weight = np.random.default_rng(1).integers(0, 3, N).astype(float) if weighted else None
    model = forest(X, y)
    rows = rows_of(model, X, y, sample_weight=weight)
    of = columns(rows)[:, :, None]
    products = shap_effects(rows)(of - of.mean(axis=0)) * (of - of.mean(axis=0))
    expected = debias.score(model, X, y, "shap_oob", sample_weight=weight).values
    np.testing.assert_allclose(products.sum(axis=(1, 2, 3)), expected, atol=1e-12)


def studentised(terms):
    n, total = len(terms), terms.sum(axis=0)
    spread = np.sqrt(((terms**2).sum(axis=0) - total**2 / n) * n / (n - 1))
    return np.divide(total, spread, out=np.zeros_like(total), where=spread > 0)


def z_by_definition(rows, response):
    """Shapley values of trees whose leaves have the means of this response in the bags; no matrix."""
    ensemble, X = rows.ensemble, rows.table.matrix(rows.ensemble)
    terms = np.zeros((rows.n_rows, ensemble.n_features))
    centred = response - response.mean(axis=0)
    leaves = route(ensemble, X)
    value = np.zeros((ensemble.n_nodes, response.shape[1]))
    for tree in range(ensemble.n_trees):
        drawn, begin = rows.in_bag.draw(tree), ensemble.tree_start[tree]
        for leaf in np.unique(leaves[:, tree]):
            inside = (leaves[:, tree] == leaf) & (drawn > 0)
            value[begin + leaf] = np.average(response[inside], axis=0, weights=drawn[inside])
    for tree in range(ensemble.n_trees):
        alone = np.zeros_like(value)
        alone[ensemble.tree_start[tree] : ensemble.tree_start[tree + 1]] = value[
            ensemble.tree_start[tree] : ensemble.tree_start[tree + 1]
        ]
        of_tree = replace(ensemble, value=alone)
        at = rows.in_bag.out_of_bag(tree)
        phi = shapley_values(of_tree, X)[at] * ensemble.n_trees
        terms[at] += np.einsum("ikc,ic->ik", phi - phi.mean(axis=0), centred[at]) / at.size / ensemble.n_trees
    return studentised(terms)


@pytest.mark.parametrize("classes", [0, 3])
def test_z_of_permuted_responses_is_that_of_trees_with_the_means_of_these(classes):
    X, y = data(classes=classes)
    rows = rows_of(forest(X, y), X, y)
    statistic = EffectTimesResponse(rows, shap_effects(rows), None)
    response = columns(rows)
    orders = [np.arange(N), *(np.random.default_rng(k).permutation(N) for k in range(3))]
    drawn = np.stack([statistic.response[order] for order in orders], axis=2)
    expected = [z_by_definition(rows, response[order]) for order in orders]
    np.testing.assert_allclose(statistic.of(drawn), expected, atol=1e-9)


def test_held_out_the_effects_are_shap_values_and_the_response_is_permuted():
    X, y = data(120)
    model = forest(X[:60], y[:60])
    tested = debias.score(model, X[60:], y[60:], "shap_oob(p_values=True)", rows="held-out", random_state=0)
    phi = shapley_values(debias.plugin.extract(model), X[60:].astype(np.float32))[:, :, 0]
    phi, centred = phi - phi.mean(axis=0), y[60:] - y[60:].mean()

    def z(response):
        return studentised(phi * response[:, None] / 60)

    np.testing.assert_allclose(tested.z, z(centred), rtol=1e-9)
    null = np.array([z(np.random.default_rng(k).permutation(centred)) for k in range(2000)])
    by_count = (1 + (null >= tested.z).sum(axis=0)) / 2001
    n_drawn = tested.details["test"]["n_permutations"]
    error = np.sqrt(by_count * (1 - by_count) * (1 / n_drawn + 1 / 2000))
    assert (np.abs(tested.p_value - by_count) <= 4 * error + 2 / n_drawn).all()


def test_the_seed_gives_the_p_values_with_any_number_of_threads():
    X, y = data()
    scorer = "shap_oob(p_values=True)"
    model = forest(X, y)
    first, again = (debias.score(model, X, y, scorer, random_state=1, n_jobs=n) for n in (1, 2))
    np.testing.assert_array_equal(first.p_value, again.p_value)
    other = debias.score(model, X, y, scorer, random_state=2)
    assert (first.p_value != other.p_value).any()


def test_scores_are_the_same_with_p_values():
    X, y = data()
    model = forest(X, y)
    plain = debias.score(model, X, y, "shap_oob", random_state=1)
    tested = debias.score(model, X, y, "shap_oob(p_values=True)", random_state=1)
    np.testing.assert_array_equal(plain.values, tested.values)
    assert plain.p_value is None
    assert tested.details["test"]["null_hypothesis"].endswith("is independent of the response")
    np.testing.assert_array_equal(tested.selected, tested.p_adjusted <= 0.05)
    assert tested.standard_error is None
    with pytest.raises(debias.DebiasError, match="has no intervals: permutations of the response give p-values"):
        tested.interval()


def test_a_feature_that_matters_is_found_and_one_that_no_tree_uses_is_not():
    X, y = data(200)
    X = np.column_stack([X, np.zeros(len(y))])
    tested = debias.score(forest(X, y), X, y, "shap_oob(p_values=True)", random_state=0)
    assert tested.selected[0]
    assert tested.p_value[4] == 1


def test_rows_in_blocks_are_permuted_as_blocks():
    X, y = data(120)
    block = np.repeat(np.arange(60), 2)
    rows = debias.Dataset(np.repeat(X[::2], 2, axis=0), np.repeat(y[::2], 2), blocks=block)
    model = forest(rows.X, rows.y, n_estimators=20)
    tested = debias.score(model, rows, scorer="shap_oob(p_values=True)", random_state=0)
    assert tested.details["test"]["n_independent"] == 60
    uneven = debias.Dataset(X, y, blocks=np.minimum(np.arange(120) // 2, 55))
    with pytest.raises(debias.RowsError, match="only blocks of one size can be permuted"):
        debias.score(forest(X, y), uneven, scorer="shap_oob(p_values=True)")


@pytest.mark.parametrize(
    ("settings", "scorer", "match"),
    [
        ({"criterion": "absolute_error"}, "shap_oob(p_values=True)", "are not such means"),
        ({}, "shap_oob(p_values=1)", "p_values must be True or False"),
        ({}, "shap_oob(p_values=True, alpha=2)", "alpha must be between 0 and 1"),
    ],
)
def test_what_cannot_be_tested_is_refused(settings, scorer, match):
    X, y = data()
    with pytest.raises(debias.plugin.CompositionError, match=match):
        debias.score(forest(X, y, **settings), X, y, scorer)


@pytest.mark.filterwarnings("ignore:these are scores on training rows")
def test_training_rows_a_constant_response_and_too_many_rows_are_refused(monkeypatch):
    X, y = data()
    model = forest(X, y)
    with pytest.raises(debias.RowsError, match="scores of training rows cannot be tested"):
        debias.score(model, X, y, "shap_oob(p_values=True)", rows="train")
    with pytest.raises(debias.RowsError, match="the response is the same"):
        debias.score(model, X + 1, np.zeros(N), "shap_oob(p_values=True)", rows="held-out")
    monkeypatch.setattr("debias.significance.response_test.MOST_EFFECTS", 1000)
    with pytest.raises(debias.plugin.CompositionError, match="features x rows x rows"):
        debias.score(model, X, y, "shap_oob(p_values=True)")


def test_effects_that_a_plugin_computes_are_tested():
    """Held-out rows of two columns: one is the response, the other noise."""
    X, y = data(60)
    rows = rows_of(forest(X, y), *data(60, seed=1), kind="held-out")
    response = rows.response.values[:, 0]
    fixed = np.stack([response, np.random.default_rng(0).normal(size=60), np.zeros(60), np.zeros(60)])
    fixed = (fixed - fixed.mean(axis=1, keepdims=True))[:, :, None, None]
    found = response_test(rows, lambda y: fixed)
    assert found["selected"].tolist() == [True, False, False, False]
    assert found["p_value"][2:].tolist() == [1, 1]


N_SETS = 40


@pytest.mark.slow
@pytest.mark.parametrize("design", out_of_bag.DESIGNS)
def test_noise_is_found_no_more_often_than_stated_and_effects_as_often_as_by_mdi_oob(design):
    """The first data sets of `debias bench out-of-bag`; tolerances of three standard errors."""
    found = [out_of_bag.trial(design, number) for number in range(N_SETS)]
    one, any_noise, power = np.array([each["shap_oob"] for each in found]).T
    print(f"{design}: {one.mean():.3f} ({one.std(ddof=1) / np.sqrt(N_SETS):.3f}), {any_noise.mean():.3f}")
    assert one.mean() <= 0.05 + 3 * one.std(ddof=1) / np.sqrt(N_SETS)
    assert any_noise.mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / N_SETS)
    if not np.isnan(power).any():
        less = np.array([each["mdi_oob"][2] for each in found]) - power
        assert less.mean() <= 3 * less.std(ddof=1) / np.sqrt(N_SETS) + 1e-12
