"""How well features replace one another: mistakes of surrogate splits, counted by brute force."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor

import debias
from debias.rows import surrogates
from debias.rows.surrogates import associations
from support.missing_values import needs_them_in_forests
from support.prepared import held_out_rows

N = 150


def made(missing=True):
    """Return a column, one that is nearly the same, one of few values, one of noise; some values are missing."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=N)
    X = np.column_stack([x, x + 0.2 * rng.normal(size=N), np.round(x), rng.normal(size=N)])
    if missing:
        X[rng.random(N) < 0.1, 1] = np.nan
    return X.astype(np.float32), x + 0.3 * X[:, 3] + 0.3 * rng.normal(size=N)


def fewest_mistakes(left, x):
    """Return the mistakes of the best split of the rows of a node on numbers: every cut, both ways, and none."""
    blind = 2 * left.sum() >= left.size
    present = ~np.isnan(x)
    of_missing = (left[~present] != blind).sum()
    tried = [(left[present] != blind).sum()]
    for cut in np.unique(x[present]):
        below = x[present] <= cut
        tried += [(left[present] != below).sum(), (left[present] != ~below).sum()]
    return min(min(tried) + of_missing, min(left.sum(), (~left).sum()))


def brute_force(forest, X):
    n_features, of = X.shape[1], [[] for _ in range(X.shape[1])]
    for tree in forest.estimators_:
        inner = tree.tree_
        passes = tree.decision_path(X).toarray().astype(bool)
        for node in range(inner.node_count):
            if inner.feature[node] >= 0:
                here = passes[:, node]
                left = passes[here, inner.children_left[node]]
                of[inner.feature[node]].append((inner.weighted_n_node_samples[node], here, left))
    result = np.zeros((n_features, n_features))
    for j, splits in enumerate(of):
        largest = [each for each in sorted(splits, key=lambda each: -each[0])[:20] if each[1].sum() >= 30]
        blind = sum(min(left.sum(), (~left).sum()) for _, _, left in largest)
        for k in range(n_features) if blind >= 50 else ():
            result[j, k] = 1 - sum(fewest_mistakes(left, X[here, k]) for _, here, left in largest) / blind
    return result


@pytest.mark.parametrize("missing", [False, pytest.param(True, marks=needs_them_in_forests)])
def test_associations_are_those_of_all_cuts_of_the_rows_of_each_node(missing):
    X, y = made(missing)
    forest = RandomForestRegressor(6, min_samples_leaf=3, max_features=2, random_state=0).fit(X, y)
    found = associations(held_out_rows(forest, X, y), np.arange(4), [])
    np.testing.assert_allclose(found, brute_force(forest, X), atol=1e-12)
    np.testing.assert_allclose(np.diag(found)[[0, 2, 3]], 1, err_msg="a column replaces itself")
    assert found[0, 2] > 0.5 > 0.3 > found[0, 3]


@needs_them_in_forests
def test_with_many_features_fewer_splits_are_looked_at(monkeypatch):
    X, y = made()
    forest = RandomForestRegressor(6, min_samples_leaf=3, max_features=2, random_state=0).fit(X, y)
    monkeypatch.setattr(surrogates, "MOST_CELLS", 2 * N * 4**2)
    few = associations(held_out_rows(forest, X, y), np.arange(4), [])
    monkeypatch.setattr(surrogates, "MOST_CELLS", surrogates.MOST_SPLITS * N * 4**2)
    assert not np.allclose(few, associations(held_out_rows(forest, X, y), np.arange(4), []))
    assert ((few >= 0) & (few <= 1)).all()


def test_columns_of_noise_are_not_alike_by_chance():
    """The best of many splits makes few mistakes by chance where splits divide few rows."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 150)), rng.normal(size=100)
    forest = RandomForestRegressor(20, max_features=0.3, random_state=0, n_jobs=1).fit(X, y)
    found = associations(held_out_rows(forest, X, y), np.arange(150), [])
    assert (found - np.eye(150) * found).max() < 0.45


def test_rows_of_a_category_follow_the_others_of_it():
    rng = np.random.default_rng(0)
    for _ in range(30):
        code, left, here = rng.integers(0, 6, 40), rng.random(40) < 0.4, rng.random(40) < 0.8
        larger = bool(2 * (left & here).sum() >= here.sum())
        wrong = 0
        for i in np.flatnonzero(here):
            others = np.flatnonzero(here & (code == code[i]) & (np.arange(40) != i))
            votes = int(left[others].sum()) - int((~left[others]).sum())
            goes_left = larger if votes == 0 else votes > 0
            wrong += goes_left != left[i]
        assert surrogates._mistakes_of_categories(code, left, here, larger) == wrong


def test_categories_of_one_row_each_replace_nothing():
    """A set of such categories could follow any split of the rows at hand, and says nothing of others."""
    X, y = made(missing=False)
    X[:, 2] = np.arange(N)
    forest = RandomForestRegressor(6, min_samples_leaf=3, max_features=2, random_state=0).fit(X, y)
    assert associations(held_out_rows(forest, X, y), np.arange(4), [2])[0, 2] == 0


def test_an_area_code_within_a_state_replaces_it():
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    state = rng.integers(0, 6, 600)
    X = pd.DataFrame({"state": state, "area": 4 * state + rng.integers(0, 4, 600), "x": rng.normal(size=600)})
    y = rng.normal(size=6)[state] + X["x"] + rng.normal(size=600)
    X = X.astype({"state": "category", "area": "category"})
    model = lightgbm.LGBMRegressor(n_estimators=15, min_child_samples=10, max_cat_to_onehot=1, verbose=-1, n_jobs=1)
    model.fit(X[:300], y[:300])
    found = debias.clusters(model, X[300:], y[300:], rows="held-out", n_permutations=39, random_state=0)
    [each] = [each for each in found.clusters if set(each.features) == {"state", "area"}]
    assert each.likeness > 0.95, "the rank correlation of two columns of categories is not defined"
