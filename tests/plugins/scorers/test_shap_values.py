import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
import shap
import xgboost
from sklearn.datasets import load_iris
from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor

import debias
from debias.trees.routing import raw_output, route
from debias.trees.shapley import expected_output, shapley_products, shapley_values
from support.missing_values import IN_FORESTS


def data(kind, n=150, missing=0.1):
    """Rounded columns, so that features come up again and again on one path, and missing values."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n, 6)).round(1).astype(np.float32)
    signal = X[:, 0] * X[:, 1] + X[:, 2]
    y = signal + rng.normal(size=n)
    if kind != "regression":
        y = np.digitize(y, np.quantile(y, [0.5] if kind == "binary" else [0.3, 0.7]))
    X[rng.random(X.shape) < missing] = np.nan
    return X, y


def fitted(models, library, kind, missing=0.1, **settings):
    X, y = data(kind, missing=missing if IN_FORESTS or library != "sklearn" else 0)
    return models(library, "regression" if kind == "regression" else "classification", **settings).fit(X, y), X, y


TRAINING = "ignore:these are scores on training rows:debias.DebiasWarning"  # no matter where formulas are compared
KINDS = ["regression", "binary", "three classes"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("library", ["sklearn", "xgboost", "lightgbm"])
def test_values_add_up_to_the_output(models, library, kind):
    model, X, _ = fitted(models, library, kind)
    ensemble = debias.plugin.extract(model)
    phi = shapley_values(ensemble, X.astype(ensemble.routing_dtype))
    raw = raw_output(ensemble, route(ensemble, X.astype(ensemble.routing_dtype)))
    np.testing.assert_allclose(phi.sum(axis=1) + expected_output(ensemble), raw, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("library", ["sklearn", "xgboost", "lightgbm"])
@pytest.mark.filterwarnings("ignore:LightGBM binary classifier:UserWarning", TRAINING)
def test_values_are_those_of_the_shap_package(models, library, kind):
    model, X, y = fitted(models, library, kind, n_estimators=10)
    ensemble = debias.plugin.extract(model)
    phi = shapley_values(ensemble, X.astype(ensemble.routing_dtype))
    theirs = shap.TreeExplainer(model, feature_perturbation="tree_path_dependent").shap_values(X)
    theirs = np.stack(theirs, axis=2) if isinstance(theirs, list) else theirs.reshape(*X.shape, -1)
    if ensemble.n_outputs == 1:
        theirs = theirs[:, :, -1:]
    np.testing.assert_allclose(phi, theirs, atol=1e-6)
    explained = theirs[:, :, -1:] if kind == "binary" else theirs
    scores = debias.score(model, X, y, "shap", rows="train" if library != "sklearn" else "oob")
    np.testing.assert_allclose(scores.values, np.abs(explained).sum(axis=2).mean(axis=0), atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_values_are_the_librarys_own_contributions(models, library, kind):
    model, X, _ = fitted(models, library, kind)
    ensemble = debias.plugin.extract(model)
    phi = shapley_values(ensemble, X.astype(ensemble.routing_dtype))
    if library == "xgboost":
        theirs = model.get_booster().predict(xgboost.DMatrix(X), pred_contribs=True).reshape(len(X), -1, 7)
    else:
        theirs = np.asarray(model.predict(X, pred_contrib=True)).reshape(len(X), -1, 7)
    np.testing.assert_allclose(phi, theirs[:, :, :6].transpose(0, 2, 1), atol=2e-5 if library == "xgboost" else 1e-10)


def by_definition(tree, weight, value, x):
    """Return Shapley values by summing over all coalitions (Shapley 1953) of the path-dependent game."""

    def worth(known, node=0):
        if tree.left[node] < 0:
            return value[node]
        a, b = tree.left[node], tree.right[node]
        k = tree.feature[node]
        if k in known:
            missing = np.isnan(x[k])
            return worth(known, a if (tree.missing_left[node] if missing else x[k] <= tree.threshold[node]) else b)
        return (weight[a] * worth(known, a) + weight[b] * worth(known, b)) / weight[node]

    p = len(x)
    phi = np.zeros(p)
    for k in range(p):
        others = [j for j in range(p) if j != k]
        for size in range(p):
            chance = math.factorial(size) * math.factorial(p - size - 1) / math.factorial(p)
            for known in itertools.combinations(others, size):
                phi[k] += chance * (worth({*known, k}) - worth(set(known)))
    return phi


def test_values_are_shapleys_by_definition(models):
    model, X, _ = fitted(models, "sklearn", "regression", n_estimators=2)
    ensemble = debias.plugin.extract(model)
    for i in range(4):
        expected = np.mean(
            [
                by_definition(
                    ensemble.tree(t), forest_tree.tree_.weighted_n_node_samples, forest_tree.tree_.value[:, 0, 0], X[i]
                )
                for t, forest_tree in enumerate(model.estimators_)
            ],
            axis=0,
        )
        np.testing.assert_allclose(shapley_values(ensemble, X[i : i + 1])[0, :, 0], expected, atol=1e-12)


def test_splits_on_categories_give_the_values_by_hand():
    """By hand: a tree that asks a category and then a number, of rows listed, not listed, negative and missing."""
    forest = debias.plugin.extract(RandomForestRegressor(1, random_state=0).fit(np.zeros((5, 2)), np.arange(5.0)))
    kept = {name: getattr(forest, name) for name in ("base", "objective", "classes", "named", "version")}
    ensemble = debias.plugin.TreeEnsemble(
        **kept,
        tree_start=np.array([0, 5]),
        feature=np.array([0, 1, -1, -1, -1]),
        threshold=np.array([0.0, 0.5, 0, 0, 0]),
        left=np.array([1, 3, -1, -1, -1]),
        right=np.array([2, 4, -1, -1, -1]),
        missing_left=np.array([True, False, False, False, False]),
        category_set=np.array([0, -1, -1, -1, -1]),
        category_start=np.array([0, 2]),
        category_codes=np.array([2, 5]),
        listed_left=np.array([True]),
        value=np.array([[0.0], [0], [7], [1], [4]]),
        averaging_weight=np.array([0.0, 0, 2, 3, 5]),
        tree_output=np.array([0]),
        averaged=True,
        feature_names=("a", "b"),
        routing_dtype=np.dtype(np.float64),
        source="test trees",
    )
    X = np.array([[2, 0], [5, 1], [3, 0], [-1, 1], [np.nan, np.nan]])
    left, right = (3 * 1 + 5 * 4) / 8, 7.0  # means below the root
    listed = np.array([True, True, False, False, True])
    answer = np.array([1.0, 4, 1, 4, 4])  # of the number's split
    nothing = 0.8 * left + 0.2 * right
    only_a, only_b = np.where(listed, left, right), 0.8 * answer + 0.2 * right
    both = np.where(listed, answer, right)
    a = (only_a - nothing + both - only_b) / 2
    b = (only_b - nothing + both - only_a) / 2
    np.testing.assert_allclose(shapley_values(ensemble, X)[:, :, 0], np.column_stack([a, b]), atol=1e-12)
    many = shapley_values(ensemble, np.tile(X, (500, 1)))[:, :, 0]  # looked up in tables
    np.testing.assert_allclose(many, np.tile(np.column_stack([a, b]), (500, 1)), atol=1e-12)

    from debias.trees.routing import tree_nodes
    from debias_plugins.scorers.kernels import permutation as permutation_kernels

    raw, donors = np.zeros((5, 2, 1)), np.array([[2, 3, 4, 0, 1]])
    nodes = tree_nodes(ensemble, 0)
    permutation_kernels.add_permuted_outputs(X, np.arange(5), donors, nodes, ensemble.value, 0, np.arange(2), raw)
    for k in range(2):
        permuted = X.copy()
        permuted[:, k] = X[donors[0], k]
        np.testing.assert_array_equal(raw[:, k], raw_output(ensemble, route(ensemble, permuted)))


def test_values_stay_exact_on_deep_paths_of_many_features():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 40)).astype(np.float32)
    model = ExtraTreesRegressor(3, max_features=1, random_state=0).fit(X, rng.normal(size=1500))
    ensemble = debias.plugin.extract(model)
    phi = shapley_values(ensemble, X[:20])
    theirs = shap.TreeExplainer(model, feature_perturbation="tree_path_dependent").shap_values(X[:20])
    np.testing.assert_allclose(phi[:, :, 0], theirs, atol=1e-6)
    np.testing.assert_allclose(phi.sum(axis=1)[:, 0] + expected_output(ensemble), model.predict(X[:20]), atol=1e-12)


@pytest.fixture
def by(monkeypatch):
    """Compute values by tables, or by integrals, whatever the number of rows."""

    def values(way, ensemble, X, n_jobs=1):
        with monkeypatch.context() as patch:
            patch.setattr("debias.trees.shapley.tables_pay", lambda n_features, n_rows: way == "tables")
            return shapley_values(ensemble, X, n_jobs)

    return values


def random_tree(rng, n_leaves, n_features, width, deep):
    """Return a tree that splits random leaves, or the last one, with weights of which a quarter are 0."""
    feature, threshold, left, right, leaves = [-1], [0.0], [-1], [-1], [0]
    while len(leaves) < n_leaves:
        node = leaves.pop(-1 if rng.random() < deep else rng.integers(len(leaves)))
        feature[node], threshold[node] = int(rng.integers(n_features)), float(rng.normal(scale=0.5))
        left[node], right[node] = len(feature), len(feature) + 1
        leaves += [len(feature), len(feature) + 1]
        for column, entry in ((feature, -1), (threshold, 0.0), (left, -1), (right, -1)):
            column += [entry, entry]
    size = len(feature)
    weight = rng.exponential(size=size) * (rng.random(size) < 0.75)
    value = rng.normal(size=(size, width))
    for node in range(size - 1, -1, -1):
        if left[node] >= 0:
            a, b = left[node], right[node]
            weight[node] = weight[a] + weight[b]
            share = weight[a] / weight[node] if weight[node] > 0 else 0.5
            value[node] = share * value[a] + (1 - share) * value[b]
    forest = debias.plugin.extract(RandomForestRegressor(1, random_state=0).fit(np.zeros((5, 2)), np.arange(5.0)))
    kept = {name: getattr(forest, name) for name in ("objective", "classes", "named", "version")}
    return debias.plugin.TreeEnsemble(
        **kept,
        base=np.zeros(width),
        tree_start=np.array([0, size]),
        feature=np.array(feature),
        threshold=np.array(threshold),
        left=np.array(left),
        right=np.array(right),
        missing_left=rng.random(size) < 0.5,
        value=value,
        averaging_weight=weight,
        tree_output=np.array([0]),
        averaged=True,
        feature_names=tuple(f"x{k}" for k in range(n_features)),
        routing_dtype=np.dtype(np.float64),
        source="test trees",
    )


def leaf_by_leaf(ensemble, x):
    """Return Shapley values as sums over leaves and sizes of coalitions: no integral, no table, nothing subtracted.

    The worth of a coalition is, at each leaf, the product of what the row does for the features in it and of the shares
    of the others.
    """
    weight, parent = ensemble.averaging_weight, ensemble.parent
    phi = np.zeros((x.size, ensemble.value.shape[1]))
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
        d = len(follows)
        by_size = np.zeros((d, d + 1))  # row k: for each size of a coalition without k, the sum of its products
        by_size[:, 0] = 1
        for j, k in enumerate(follows):
            others = np.arange(d) != j
            before = by_size[others]
            by_size[others] = share[k] * before
            by_size[others, 1:] += float(follows[k]) * before[:, :-1]
        chance = np.array([1 / (d * math.comb(d - 1, size)) for size in range(d)])
        gain = [float(follows[k]) - share[k] for k in follows]
        phi[list(follows)] += ensemble.value[leaf] * (gain * (by_size[:, :d] @ chance))[:, None]
    return phi


@pytest.mark.parametrize(
    ("n_leaves", "n_features", "width", "deep"),
    [
        *((2, 1, 1, 0), (7, 3, 2, 0), (40, 1, 1, 0), (60, 4, 1, 0.5), (60, 8, 3, 0.5), (80, 10, 1, 0.9)),
        *((31, 30, 1, 1), (31, 2, 2, 1), (90, 12, 1, 0.9)),
        *(pytest.param(*large, marks=pytest.mark.thorough) for large in ((120, 40, 2, 0.98), (150, 100, 1, 1))),
    ],
)
def test_both_ways_give_the_values_leaf_by_leaf(by, n_leaves, n_features, width, deep):
    """Depth 1 to 149, features again and again, weights of 0, missing values, several outputs.

    The bound is 1e-12 of the largest value of a leaf.
    """
    rng = np.random.default_rng(n_leaves + n_features)
    ensemble = random_tree(rng, n_leaves, n_features, width, deep)
    X = np.where(rng.random((300, n_features)) < 0.1, np.nan, rng.normal(size=(300, n_features)))
    bound = 1e-12 * np.abs(ensemble.value[ensemble.left < 0]).max()
    expected = np.array([leaf_by_leaf(ensemble, x) for x in X[:5]])
    raw = raw_output(ensemble, route(ensemble, X))
    for way in ["integrals", *(["tables"] if n_features <= 10 else [])]:
        phi = by(way, ensemble, X)
        np.testing.assert_allclose(phi[:5], expected, atol=bound, rtol=0)
        np.testing.assert_allclose(phi.sum(axis=1) + expected_output(ensemble), raw, atol=n_features * bound, rtol=0)
        assert (by(way, ensemble, X, n_jobs=2) == phi).all()
    alone = np.concatenate([by("integrals", ensemble, x[None]) for x in X[:5]])  # no subtree is tabulated
    np.testing.assert_allclose(alone, expected, atol=bound, rtol=0)
    factor = rng.normal(size=(300, width))
    product = shapley_products(ensemble, 0, X, np.arange(5), factor)
    np.testing.assert_allclose(product, np.einsum("ikc,ic->k", expected, factor[:5]), atol=100 * bound, rtol=0)


@pytest.mark.thorough
def test_a_path_of_more_than_a_thousand_splits_is_followed(by):
    ensemble = random_tree(np.random.default_rng(0), 1500, 3, 1, 1)
    X = np.random.default_rng(1).normal(size=(20, 3))
    phi = by("integrals", ensemble, X)
    np.testing.assert_allclose(phi[0], leaf_by_leaf(ensemble, X[0]), atol=1e-12)
    raw = raw_output(ensemble, route(ensemble, X))
    np.testing.assert_allclose(phi.sum(axis=1) + expected_output(ensemble), raw, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("library", ["sklearn", "xgboost", "lightgbm"])
def test_tables_have_the_values_of_integrals(by, models, library, kind):
    model, _, _ = fitted(models, library, kind)
    X, _ = data(kind, n=1200, missing=0.1 if IN_FORESTS or library != "sklearn" else 0)
    ensemble = debias.plugin.extract(model)
    X = X.astype(ensemble.routing_dtype)
    tables = by("tables", ensemble, X)
    np.testing.assert_allclose(tables, by("integrals", ensemble, X), atol=1e-13)
    assert (by("tables", ensemble, X, n_jobs=2) == tables).all()


def test_tables_that_do_not_fit_into_memory_together_are_made_one_after_the_other(by, models, monkeypatch):
    model, X, _ = fitted(models, "xgboost", "three classes")
    ensemble = debias.plugin.extract(model)
    X = np.tile(X, (4, 1)).astype(ensemble.routing_dtype)
    together = by("tables", ensemble, X)
    monkeypatch.setattr("debias.trees.shapley.ENTRIES_AT_ONCE", 1)  # every subtree is a batch of its own
    np.testing.assert_allclose(by("tables", ensemble, X), together, atol=1e-13)


def test_tables_are_for_many_rows_in_trees_of_few_features_on_a_path(monkeypatch):
    from debias.trees import shapley

    assert not shapley.tables_pay(4, 2047)
    assert shapley.tables_pay(4, 2048)
    assert not shapley.tables_pay(8, 16383)
    assert shapley.tables_pay(8, 16384)
    assert not shapley.tables_pay(11, 10**9)  # no table of a leaf has more than 2^10 entries for a feature
    X = np.random.default_rng(0).normal(size=(2048, 8)).astype(np.float32)
    y = X @ np.arange(8)
    few, many = (RandomForestRegressor(1, max_depth=depth, random_state=0).fit(X, y) for depth in (4, 8))
    looked_up = []
    monkeypatch.setattr(shapley, "look_up", lambda *args: looked_up.append(len(args[2])))
    for model in (few, many):
        shapley_values(debias.plugin.extract(model), X)
    assert looked_up == [1, 0]


@pytest.mark.filterwarnings(TRAINING)
def test_threads_and_blocks_do_not_matter(models, monkeypatch):
    model, X, y = fitted(models, "xgboost", "three classes")
    ensemble = debias.plugin.extract(model)
    one = shapley_values(ensemble, X)
    product = shapley_products(ensemble, 1, X, np.arange(50, 90), np.arange(150.0)[:, None])
    whole = debias.score(model, X, y, "shap", rows="train").values
    monkeypatch.setattr("debias.trees.shapley.MOST_ROWS", 16)
    assert (shapley_values(ensemble, X, n_jobs=2) == one).all()
    again = shapley_products(ensemble, 1, X, np.arange(50, 90), np.arange(150.0)[:, None])
    np.testing.assert_allclose(product, again, atol=1e-12)
    monkeypatch.setattr("debias_plugins.scorers.shap_values.VALUES_AT_ONCE", 1)
    np.testing.assert_allclose(debias.score(model, X, y, "shap", rows="train", n_jobs=2).values, whole, atol=1e-12)


# --- out of bag ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_out_of_bag_covariance_is_that_of_the_shap_package_tree_by_tree(models, kind):
    model, X, y = fitted(models, "sklearn", kind, missing=0, n_estimators=6)
    expected = []
    for tree, bag in zip(model.estimators_, model.estimators_samples_, strict=True):
        out = np.setdiff1d(np.arange(len(X)), bag)
        phi = shap.TreeExplainer(tree, feature_perturbation="tree_path_dependent").shap_values(X[out])
        response = y[out][:, None] if kind == "regression" else np.eye(y.max() + 1)[y[out]]
        centred = response - response.mean(axis=0)
        expected.append(np.einsum("ikc,ic->k", phi.reshape(len(out), 6, -1), centred) / len(out))
    scores = debias.score(model, X, y, "shap_oob", rows="oob")
    np.testing.assert_allclose(scores.values, np.mean(expected, axis=0), atol=1e-9)
    assert (debias.score(model, X, y, "shap_oob", rows="oob", n_jobs=2).values == scores.values).all()


@pytest.mark.parametrize("library", ["sklearn", "xgboost", "lightgbm"])
@pytest.mark.parametrize("kind", KINDS)
def test_on_held_out_rows_the_scores_add_up_to_the_covariance_of_output_and_response(models, library, kind):
    X, y = data(kind, n=300, missing=0.1 if IN_FORESTS or library != "sklearn" else 0)
    task = "regression" if kind == "regression" else "classification"
    model = models(library, task).fit(X[:150], y[:150])
    weight = np.random.default_rng(0).exponential(size=150)
    scores = debias.score(model, X[150:], y[150:], "shap_oob", rows="held-out", sample_weight=weight)
    ensemble = debias.plugin.extract(model)
    raw = raw_output(ensemble, route(ensemble, X[150:].astype(ensemble.routing_dtype)))
    response = np.eye(y.max() + 1)[y[150:]] if raw.shape[1] > 1 else y[150:, None].astype(float)
    mean = np.average(response, axis=0, weights=weight)
    expected = np.average(((response - mean) * raw).sum(axis=1), weights=weight)
    assert scores.values.sum() == pytest.approx(expected, abs=1e-5)


@pytest.mark.thorough
def test_a_forest_needs_no_shap_package():
    code = (
        "import sys; sys.modules['shap'] = None\n"
        "import debias, numpy as np\n"
        "from sklearn.ensemble import RandomForestRegressor\n"
        "X = np.random.default_rng(0).normal(size=(60, 3))\n"
        "forest = RandomForestRegressor(5, random_state=0).fit(X, X[:, 0])\n"
        "assert debias.score(forest, X, X[:, 0], 'shap').values.argmax() == 0"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_row_out_of_bag_is_refused():
    X, y = load_iris(return_X_y=True)
    forest = RandomForestClassifier(2, random_state=0).fit(X, y)
    weight = np.zeros(150)
    weight[forest.estimators_samples_[0]] = 0
    in_both = np.intersect1d(*forest.estimators_samples_)
    weight[in_both] = 1
    for name in ("shap_oob", "permutation"):
        with pytest.raises(debias.RowsError, match="no row is out of bag"):
            debias.score(forest, X, y, name, rows="oob", sample_weight=weight)


def test_a_stump_without_splits_explains_nothing():
    forest = RandomForestRegressor(3, random_state=0).fit(np.zeros((30, 2)), np.arange(30.0))
    for name in ("shap", "shap_oob", "permutation"):
        assert (debias.score(forest, np.zeros((30, 2)), np.arange(30.0), name).values == 0).all()
