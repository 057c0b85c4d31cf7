"""Shapley interactions against their definition, the shap package, XGBoost and identities."""

import itertools
import math

import numpy as np
import pytest
import shap
import xgboost
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)

import debias
from debias.trees.shapley import shapley_values
from debias.trees.shapley_interactions import interaction_matrix, shapley_interactions
from plugins.scorers.test_shap_values import KINDS, data, fitted, random_tree


def all_pairs(p):
    """The number of each pair, and how many there are."""
    number = np.full((p, p), -1, dtype=np.int32)
    one, other = np.triu_indices(p, 1)
    number[one, other] = number[other, one] = np.arange(one.size)
    return number, one.size


def by_definition(ensemble, x):
    """Sum over all coalitions (Grabisch and Roubens 1999) of what two features add together, for one tree."""
    weight, p = ensemble.averaging_weight, x.size

    def worth(known, node=0):
        a, b, k = ensemble.left[node], ensemble.right[node], ensemble.feature[node]
        if a < 0:
            return ensemble.value[node]
        if k in known:
            on_left = ensemble.missing_left[node] if np.isnan(x[k]) else x[k] <= ensemble.threshold[node]
            return worth(known, a if on_left else b)
        share = weight[a] / weight[node] if weight[node] > 0 else 0.5
        return share * worth(known, a) + (1 - share) * worth(known, b)

    found = np.zeros((p, p, ensemble.value.shape[1]))
    for j, k in itertools.combinations(range(p), 2):
        others = [m for m in range(p) if m not in (j, k)]
        for size in range(p - 1):
            chance = math.factorial(size) * math.factorial(p - size - 2) / math.factorial(p - 1)
            for known in map(set, itertools.combinations(others, size)):
                both = worth(known | {j, k}) - worth(known | {j}) - worth(known | {k}) + worth(known)
                found[j, k] += chance * both
        found[k, j] = found[j, k]
    return found


@pytest.mark.parametrize(
    ("n_leaves", "n_features", "width", "deep"),
    [(2, 2, 1, 0), (7, 3, 2, 0), (30, 2, 1, 0.5), (40, 5, 1, 0.5), (40, 6, 3, 0.9), (25, 7, 1, 1)],
)
def test_interactions_are_those_of_the_definition(n_leaves, n_features, width, deep):
    """Features again and again on a path, weights of 0, missing values, several outputs."""
    rng = np.random.default_rng(n_leaves + n_features)
    ensemble = random_tree(rng, n_leaves, n_features, width, deep)
    X = np.where(rng.random((40, n_features)) < 0.1, np.nan, rng.normal(size=(40, n_features)))
    number, n_pairs = all_pairs(n_features)
    found = shapley_interactions(ensemble, X, number, n_pairs)
    bound = 1e-12 * np.abs(ensemble.value[ensemble.left < 0]).max()
    for x, of_row in zip(X[:4], found, strict=False):
        expected = by_definition(ensemble, x)[np.triu_indices(n_features, 1)]
        np.testing.assert_allclose(of_row, expected, atol=bound, rtol=0)
    assert (shapley_interactions(ensemble, X, number, n_pairs, n_jobs=2) == found).all()
    np.testing.assert_array_equal(shapley_interactions(ensemble, X[:1], number, n_pairs), found[:1])


@pytest.mark.parametrize(("n_leaves", "n_features", "deep"), [(90, 12, 0.9), (90, 40, 0.98), (60, 50, 1), (250, 3, 1)])
def test_interactions_on_long_paths_are_sums_over_leaves(n_leaves, n_features, deep):
    rng = np.random.default_rng(n_features)
    ensemble = random_tree(rng, n_leaves, n_features, 1, deep)
    x = rng.normal(size=n_features)
    number, n_pairs = all_pairs(n_features)
    found = shapley_interactions(ensemble, x[None], number, n_pairs)[0, :, 0]
    expected = leaf_by_leaf(ensemble, x)[np.triu_indices(n_features, 1)]
    bound = 1e-12 * np.abs(ensemble.value[ensemble.left < 0]).max()
    np.testing.assert_allclose(found, expected, atol=bound, rtol=0)


def leaf_by_leaf(ensemble, x):
    """Return interactions leaf by leaf and pair by pair, from the integral of the product of all other factors."""
    weight, parent = ensemble.averaging_weight, ensemble.parent
    found = np.zeros((x.size, x.size))
    for leaf in np.flatnonzero(ensemble.left < 0):
        follows, share, node = {}, {}, leaf
        while node > 0:
            above = parent[node]
            k = ensemble.feature[above]
            on_left = ensemble.missing_left[above] if np.isnan(x[k]) else x[k] <= ensemble.threshold[above]
            follows[k] = follows.get(k, True) and on_left == (ensemble.left[above] == node)
            of_edge = weight[node] / weight[above] if weight[above] > 0 else 0.5
            share[k] = share.get(k, 1.0) * of_edge
            node = above
        names = list(follows)
        z, o = np.array([share[k] for k in names]), np.array([float(follows[k]) for k in names])
        d, gain = len(names), o - z
        # Polynomials in t of all factors but two, integrated by many nodes of a quadrature.
        t, w = np.polynomial.legendre.leggauss(d // 2 + 2)
        t, w = (t + 1) / 2, w / 2
        factors = z[:, None] * (1 - t) + o[:, None] * t
        before = np.vstack([np.ones_like(t), np.cumprod(factors, axis=0)])
        for i in range(d):
            between = np.ones_like(t)
            after = np.vstack([np.cumprod(factors[::-1], axis=0)[::-1], np.ones_like(t)])
            for j in range(i + 1, d):
                rest = (w * before[i] * between * after[j + 1]).sum()
                found[names[i], names[j]] += ensemble.value[leaf, 0] * gain[i] * gain[j] * rest
                between = between * factors[j]
    return found + found.T


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("library", ["sklearn", "xgboost", "lightgbm"])
def test_rows_of_the_matrix_add_up_to_shapley_values(models, library, kind):
    model, X, _ = fitted(models, library, kind)
    ensemble = debias.plugin.extract(model)
    X = X.astype(ensemble.routing_dtype)
    number, n_pairs = all_pairs(6)
    halves = shapley_interactions(ensemble, X, number, n_pairs) / 2
    matrix = interaction_matrix(ensemble, X)
    np.testing.assert_allclose(matrix.sum(axis=2), shapley_values(ensemble, X), atol=1e-12)
    np.testing.assert_array_equal(matrix[:, *np.triu_indices(6, 1)], halves)
    np.testing.assert_array_equal(matrix, matrix.transpose(0, 2, 1, 3))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("library", ["sklearn", "xgboost", "lightgbm"])
@pytest.mark.filterwarnings("ignore:LightGBM binary classifier:UserWarning")
def test_interactions_are_those_of_the_shap_package(models, library, kind):
    # shap fails on missing values of scikit-learn's forests here.
    model, X, _ = fitted(models, library, kind, missing=0 if library == "sklearn" else 0.1, n_estimators=5)
    ensemble = debias.plugin.extract(model)
    X = X[:60]
    explainer = shap.TreeExplainer(model, feature_perturbation="tree_path_dependent")
    theirs = explainer.shap_interaction_values(X)
    theirs = np.stack(theirs, axis=3) if isinstance(theirs, list) else np.asarray(theirs).reshape(60, 6, 6, -1)
    if ensemble.n_outputs == 1:
        theirs = theirs[..., -1:]
    ours = interaction_matrix(ensemble, X.astype(ensemble.routing_dtype))
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    assert np.abs(theirs[:, 0, 1]).max() > 1e-3


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_interactions_are_those_of_xgboost(models, kind):
    model, X, _ = fitted(models, "xgboost", kind)
    ensemble = debias.plugin.extract(model)
    theirs = model.get_booster().predict(xgboost.DMatrix(X), pred_interactions=True).reshape(len(X), -1, 7, 7)
    ours = interaction_matrix(ensemble, X.astype(ensemble.routing_dtype))
    np.testing.assert_allclose(ours, theirs[:, :, :6, :6].transpose(0, 2, 3, 1), atol=5e-5)


@pytest.mark.parametrize(
    "model",
    [
        HistGradientBoostingRegressor(max_iter=10),
        GradientBoostingClassifier(n_estimators=5, random_state=0),
        ExtraTreesClassifier(5, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_rows_add_up_for_other_families(model):
    X, y = data("three classes" if hasattr(model, "predict_proba") else "regression", missing=0)
    ensemble = debias.plugin.extract(model.fit(X, y))
    X = X.astype(ensemble.routing_dtype)
    np.testing.assert_allclose(interaction_matrix(ensemble, X).sum(axis=2), shapley_values(ensemble, X), atol=1e-12)


@pytest.mark.integration
def test_rows_add_up_for_symmetric_trees():
    catboost = pytest.importorskip("catboost")
    X, y = data("regression", missing=0)
    model = catboost.CatBoostRegressor(iterations=10, depth=4, verbose=0, allow_writing_files=False).fit(X, y)
    ensemble = debias.plugin.extract(model)
    X = X.astype(ensemble.routing_dtype)
    np.testing.assert_allclose(interaction_matrix(ensemble, X).sum(axis=2), shapley_values(ensemble, X), atol=1e-12)


def test_splits_on_categories_add_up(models):
    import pandas as pd

    X, y = data("regression", missing=0)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    frame["c"] = pd.Categorical(np.digitize(X[:, 2], [-1, 0, 1]))
    model = models("lightgbm", min_data_per_group=5, cat_smooth=1).fit(frame, y)
    ensemble = debias.plugin.extract(model)
    assert ensemble.category_set is not None
    codes = np.ascontiguousarray(frame.assign(c=frame["c"].cat.codes).to_numpy(dtype=np.float64))
    matrix = interaction_matrix(ensemble, codes)
    contributions = np.asarray(model.predict(frame, pred_contrib=True))
    np.testing.assert_allclose(matrix.sum(axis=2)[:, :, 0], contributions[:, :6], atol=1e-9)


def test_pairs_of_one_number_are_added_up_and_unwanted_ones_are_left_out(models):
    model, X, _ = fitted(models, "xgboost", "regression")
    ensemble = debias.plugin.extract(model)
    X = X.astype(ensemble.routing_dtype)
    number, n_pairs = all_pairs(6)
    single = shapley_interactions(ensemble, X, number, n_pairs)
    group = np.array([0, 1, 0, 2, 2, 2])
    of_groups, n_groups = all_pairs(3)
    found = shapley_interactions(ensemble, X, np.ascontiguousarray(of_groups[np.ix_(group, group)]), n_groups)
    expected = np.zeros_like(found)
    for (j, k), of_pair in zip(itertools.combinations(range(6), 2), range(n_pairs), strict=True):
        if group[j] != group[k]:
            expected[:, of_groups[group[j], group[k]]] += single[:, of_pair]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert not shapley_interactions(ensemble, X, np.full((6, 6), -1, dtype=np.int32), 1).any()


def test_stumps_have_no_interactions_and_trees_of_an_ensemble_add_up(models):
    X, y = data("regression", missing=0)
    number, n_pairs = all_pairs(6)
    stumps = debias.plugin.extract(models("xgboost", max_depth=1).fit(X, y))
    assert not shapley_interactions(stumps, X, number, n_pairs).any()
    ensemble = debias.plugin.extract(models("sklearn", n_estimators=4).fit(X, y))
    of_trees = [shapley_interactions(ensemble, X, number, n_pairs, trees=[tree]) for tree in range(4)]
    np.testing.assert_allclose(
        np.mean(of_trees, axis=0), shapley_interactions(ensemble, X, number, n_pairs), atol=1e-12
    )


def test_interactions_stay_exact_on_deep_paths_of_many_features():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 30)).astype(np.float32)
    model = ExtraTreesRegressor(2, max_features=1, random_state=0).fit(X, rng.normal(size=800))
    ensemble = debias.plugin.extract(model)
    matrix = interaction_matrix(ensemble, X[:40])
    theirs = shap.TreeExplainer(model, feature_perturbation="tree_path_dependent").shap_interaction_values(X[:2])
    np.testing.assert_allclose(matrix[:2, :, :, 0], theirs, atol=1e-5)


def test_a_model_without_splits_has_none():
    ensemble = debias.plugin.extract(RandomForestRegressor(3, random_state=0).fit(np.zeros((9, 2)), np.arange(9.0)))
    assert not interaction_matrix(ensemble, np.zeros((4, 2), dtype=ensemble.routing_dtype)).any()
