"""Tests of bagging, boosting and forests of several responses, against scikit-learn.

One file for all families, since they go through the same checks.
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import (
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
)
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor
from threadpoolctl import threadpool_limits

import debias
from debias.data.table import Table
from debias.trees.routing import raw_output, route
from debias.warning_log import WarningLog
from support.missing_values import IN_FORESTS
from support.versions import needs

N = 160
TASKS = ["regression", "binary", "3-class"]
VARIED = settings(max_examples=15)


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Small models wait longer for threads than they compute."""
    with threadpool_limits(1, user_api="openmp"):
        yield


def draw(task="regression", missing=False, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [rng.normal(size=N), rng.integers(0, 2, N), rng.integers(-3, 4, N), np.round(rng.normal(size=N), 1)]
    ).astype(float)
    latent = X[:, 0] + X[:, 1] - 0.3 * X[:, 2] + rng.normal(size=N)
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    if task == "regression":
        return X, latent
    return X, np.array(["low", "mid", "top"])[np.digitize(latent, [0.8] if task == "binary" else [-0.3, 1.2])]


def assert_predicts_alike(model, X, raw, leaves, rtol=1e-12):
    """Compare the raw output and the leaves of the common form with the library's own."""
    ensemble = debias.plugin.extract(model)
    ours = route(ensemble, Table(X).aligned_to(ensemble, WarningLog()).matrix(ensemble))
    np.testing.assert_array_equal(ours, leaves)
    scale = np.abs(raw).max() + np.abs(ensemble.base).max()
    np.testing.assert_allclose(raw_output(ensemble, ours), np.reshape(raw, (len(X), -1)), rtol=0, atol=rtol * scale)


# --- several responses ---------------------------------------------------------------------------------

FORESTS = [RandomForestRegressor, ExtraTreesRegressor, RandomForestClassifier, ExtraTreesClassifier]


def two_responses(classes):
    X, y = draw()
    other = X[:, 3] + 0.1 * np.random.default_rng(5).normal(size=N)
    if not classes:
        return X, np.column_stack([y, 3 * other])
    return X, np.column_stack([np.digitize(y, [0.0, 1.0]), np.digitize(other, [0.0])])


@VARIED
@given(
    kind=st.sampled_from(FORESTS),
    min_samples_leaf=st.integers(1, 20),
    bootstrap=st.booleans(),
    max_leaf_nodes=st.sampled_from([None, 5]),
)
def test_forests_of_two_responses_predict_and_score_alike(kind, min_samples_leaf, bootstrap, max_leaf_nodes):
    classes = hasattr(kind, "predict_proba")
    X, Y = two_responses(classes)
    varied = {"min_samples_leaf": min_samples_leaf, "bootstrap": bootstrap, "max_leaf_nodes": max_leaf_nodes}
    model = kind(5, random_state=0, **varied).fit(X, Y)
    X_new, _ = draw(missing=IN_FORESTS, seed=1)
    raw = np.concatenate(model.predict_proba(X_new), axis=1) if classes else model.predict(X_new)
    assert_predicts_alike(model, X_new, raw, model.apply(X_new))
    found = debias.score(model, scorer="mdi", normalize="tree").values
    np.testing.assert_allclose(found, model.feature_importances_, rtol=0, atol=1e-12)


@pytest.mark.parametrize("scorer", ["mdi_oob", "oob_split", "oob_loss", "ufi"])
@pytest.mark.parametrize("kind", [RandomForestRegressor, RandomForestClassifier])
def test_scores_of_two_equal_responses_are_twice_those_of_one(kind, scorer):
    """Two copies of one response grow the trees of one: each score is a sum over responses."""
    X, y = draw("3-class" if kind is RandomForestClassifier else "regression")
    one = debias.score(kind(20, random_state=0).fit(X, y), X, y, scorer=scorer)
    twice = np.column_stack([y, y])
    two = debias.score(kind(20, random_state=0).fit(X, twice), X, pd.DataFrame(twice), scorer=scorer)
    assert one.rows == two.rows == "oob"
    assert two.provenance["status"] == "proven"
    np.testing.assert_allclose(two.values, 2 * one.values, rtol=1e-9, atol=1e-12)


def test_the_shape_of_several_responses_is_checked():
    X, Y = two_responses(classes=False)
    model = RandomForestRegressor(5, random_state=0).fit(X, Y)
    for wrong in (Y[:, 0], Y[:, [0, 1, 1]]):
        with pytest.raises(debias.RowsError, match="2 values per row"):
            debias.score(model, X, wrong)
    with pytest.raises(debias.ProvenanceError, match="y is not the training response"):
        debias.score(model, X, Y[:, ::-1], rows="oob")
    labels = two_responses(classes=True)[1]
    forest = RandomForestClassifier(5, random_state=0, class_weight="balanced_subsample").fit(X, labels)
    with pytest.raises(debias.InBagUnavailableError, match="several outputs"):
        debias.score(forest, X, labels, rows="oob")


# --- bagging -------------------------------------------------------------------------------------------

TREES = {
    False: [DecisionTreeRegressor, ExtraTreeRegressor],
    True: [DecisionTreeClassifier, ExtraTreeClassifier],
}
BAGS = st.fixed_dictionaries(
    {
        "max_features": st.sampled_from([1, 0.5, 1.0]),
        "bootstrap_features": st.booleans(),
        "bootstrap": st.booleans(),
        "max_samples": st.sampled_from([0.3, 0.8, 1.0]),
    }
)


def bagged(classes, which, bags, weight=None, **tree):
    X, y = draw("3-class" if classes else "regression")
    base = TREES[classes][which](random_state=0, **tree)
    kind = BaggingClassifier if classes else BaggingRegressor
    return kind(base, 6, random_state=1, **bags).fit(X, y, sample_weight=weight), X, y


@pytest.mark.thorough
@VARIED
@given(classes=st.booleans(), which=st.integers(0, 1), bags=BAGS, min_samples_leaf=st.integers(1, 20))
def test_bags_of_any_settings_predict_alike(classes, which, bags, min_samples_leaf):
    model, _, _ = bagged(classes, which, bags, min_samples_leaf=min_samples_leaf)
    X_new, _ = draw(missing=IN_FORESTS, seed=1)
    raw = model.predict_proba(X_new) if classes else model.predict(X_new)
    each = zip(model.estimators_, model.estimators_features_, strict=True)
    assert_predicts_alike(model, X_new, raw, np.stack([tree.apply(X_new[:, f]) for tree, f in each], axis=1))


@pytest.mark.thorough
@settings(VARIED, max_examples=25)
@given(
    classes=st.booleans(),
    which=st.integers(0, 1),
    bags=BAGS,
    weighted=st.booleans(),
    class_weight=st.sampled_from([None, "balanced"]),
)
def test_bags_are_recovered_at_every_node(classes, which, bags, weighted, class_weight):
    weighted = weighted and bags["bootstrap"]  # scikit-learn advises against weights without
    weight = np.random.default_rng(0).integers(0, 4, N).astype(float) if weighted else None
    settings = {"class_weight": class_weight} if classes else {}
    model, X, y = bagged(classes, which, bags, weight, **settings)
    if not bags["bootstrap"] and bags["max_samples"] == 1.0:
        with pytest.raises(debias.InBagUnavailableError, match="none is out of bag"):
            debias.score(model, X, y, rows="oob")
        return
    scores = debias.score(model, X, y, rows="oob", sample_weight=weight)
    assert scores.provenance["status"] == "proven"
    assert_bags_fill_every_node(model, X, y, weight)


def assert_bags_fill_every_node(model, X, y, weight=None):
    """Route the recovered bags with the model's own stored trees: distinct rows and their weight, at every node."""
    from debias.hooks.registry import plugin_manager

    ensemble = debias.plugin.extract(model)
    codes = y if ensemble.classes is None else np.searchsorted(ensemble.classes, y)
    in_bag = plugin_manager().hook.debias_in_bag(model=model, y=codes, sample_weight=weight)
    leaves = route(ensemble, X.astype(np.float32))
    for tree in range(ensemble.n_trees):
        nodes = slice(*ensemble.tree_start[tree : tree + 2])
        drawn = in_bag.draw(tree)
        count, total = np.zeros(nodes.stop - nodes.start), np.zeros(nodes.stop - nodes.start)
        for leaf, w in zip(leaves[:, tree], drawn, strict=True):
            node = leaf
            while w and node >= 0:
                count[node] += 1
                total[node] += w
                node = ensemble.parent[nodes][node]
        np.testing.assert_array_equal(count, ensemble.count[nodes])
        np.testing.assert_allclose(total, ensemble.weight[nodes], rtol=1e-12)


WRONG = {
    "y permuted": lambda X, y, order: (X, y[order]),
    "rows permuted": lambda X, y, order: (X[order], y[order]),
    "columns reversed": lambda X, y, order: (X[:, ::-1], y),
    "one column permuted": lambda X, y, order: (np.column_stack([X[order, 0], X[:, 1:]]), y),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_rows_of_a_bag_are_found_out(wrong):
    model, X, y = bagged(False, 0, {"max_features": 0.5})
    X, y = WRONG[wrong](X, y, np.random.default_rng(0).permutation(N))
    with pytest.raises(debias.ProvenanceError):
        debias.score(model, X, y, rows="oob")


def test_a_forest_that_forgot_its_number_of_rows_has_no_bags_to_recover():
    X, y = draw()
    model = RandomForestRegressor(5, random_state=0).fit(X[50:], y[50:])
    expected = debias.score(model, X[:50], y[:50], rows="held-out").values
    del model._n_samples
    with pytest.raises(debias.InBagUnavailableError, match="how many rows its bags were drawn from"):
        debias.score(model, X[50:], y[50:], rows="oob")
    np.testing.assert_array_equal(debias.score(model, X[:50], y[:50], rows="held-out").values, expected)


@pytest.mark.parametrize("seed", [3, None])
def test_bags_of_a_warm_start(seed):
    X, y = draw()
    model = BaggingRegressor(DecisionTreeRegressor(), 4, random_state=seed, warm_start=True).fit(X, y)
    model.set_params(n_estimators=7).fit(X, y)
    if seed is None:
        with pytest.raises(debias.InBagUnavailableError, match="fitted in parts"):
            debias.score(model, X, y, rows="oob")
    else:
        assert debias.score(model, X, y, rows="oob").provenance["status"] == "proven"


def test_a_bag_of_a_whole_feature_set_scores_as_a_forest_of_its_trees():
    """With all features and the same trees and bags, bagging is a forest with max_features=1.0."""
    X, y = draw()
    model = BaggingRegressor(DecisionTreeRegressor(), 30, random_state=0).fit(X, y)
    in_bag = debias.plugin.InBag.from_rows(model.estimators_samples_, N)
    expected = np.zeros(4)
    for number, tree in enumerate(model.estimators_):
        out = ~in_bag.block(0, N)[number]
        t, path = tree.tree_, tree.decision_path(X[out]).toarray().astype(bool)
        for node in np.flatnonzero(t.children_left >= 0):
            for child in (t.children_left[node], t.children_right[node]):
                here, all_here = y[out][path[:, child]], y[out][path[:, node]]
                if len(all_here):
                    term = t.value[child, 0, 0] * (here.sum() - len(here) * all_here.mean())
                    expected[t.feature[node]] += term / out.sum() / 30
    np.testing.assert_allclose(debias.score(model, X, y).values, expected, rtol=1e-9)


def test_bags_of_anything_but_trees_are_refused():
    X, y = draw()
    with pytest.raises(debias.UnsupportedModelError, match="LinearRegression"):
        debias.score(BaggingRegressor(LinearRegression(), 3).fit(X, y), X, y)
    with pytest.raises(debias.UnsupportedModelError, match="not fitted"):
        debias.plugin.extract(BaggingRegressor())


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        (IsolationForest, "without a response"),
        (RandomTreesEmbedding, "without a response"),
        (AdaBoostRegressor, "medians"),
    ],
)
def test_ensembles_that_cannot_be_scored_are_refused_by_name(kind, complaint):
    X, y = draw()
    with pytest.raises(debias.UnsupportedModelError, match=f"{kind.__name__} .*{complaint}"):
        debias.score(kind(n_estimators=3).fit(X, y), X, y)


# --- gradient boosting ---------------------------------------------------------------------------------


@pytest.mark.thorough
@VARIED
@given(
    task=st.sampled_from(TASKS),
    init=st.sampled_from([None, "zero"]),
    varied=st.fixed_dictionaries(
        {
            "learning_rate": st.sampled_from([0.1, 1.0]),
            "subsample": st.sampled_from([1.0, 0.6]),
            "max_depth": st.sampled_from([1, 4]),
            "max_leaf_nodes": st.sampled_from([None, 5]),
            "ccp_alpha": st.sampled_from([0.0, 0.01]),
            "n_iter_no_change": st.sampled_from([None, 2]),
        }
    ),
    weighted=st.booleans(),
)
def test_gradient_boosting_of_any_settings_predicts_alike(task, init, varied, weighted):
    X, y = draw(task)
    weight = np.random.default_rng(1).uniform(0.5, 2, N) if weighted else None
    kind = GradientBoostingRegressor if task == "regression" else GradientBoostingClassifier
    model = kind(n_estimators=6, random_state=0, init=init, **varied).fit(X, y, sample_weight=weight)
    X_new, y_new = draw(task, seed=1)
    raw = model.predict(X_new) if task == "regression" else model.decision_function(X_new)
    assert_predicts_alike(model, X_new, raw, model.apply(X_new).reshape(N, -1))
    found = debias.score(model, scorer="mdi").values
    if found.sum() > 0:
        np.testing.assert_allclose(found / found.sum(), model.feature_importances_, rtol=0, atol=1e-12)
    for scorer in ("mdi_oob", "oob_loss"):
        assert debias.score(model, X_new, y_new, scorer=scorer, rows="held-out").rows == "held-out"


BOOSTED_LOSSES = [
    (GradientBoostingRegressor, {"loss": "absolute_error"}),
    (GradientBoostingRegressor, {"loss": "quantile", "alpha": 0.8}),
    (GradientBoostingClassifier, {"loss": "exponential"}),
    (HistGradientBoostingRegressor, {"loss": "absolute_error"}),
    (HistGradientBoostingRegressor, {"loss": "poisson"}),
    (HistGradientBoostingRegressor, {"loss": "gamma"}),
    (HistGradientBoostingRegressor, {"loss": "quantile", "quantile": 0.8}),
]


@pytest.mark.parametrize(("kind", "loss"), BOOSTED_LOSSES, ids=lambda value: getattr(value, "__name__", str(value)))
def test_losses_of_boosting_are_scikit_learns_and_add_up(kind, loss):
    """r_0 falls as scikit-learn's own loss does, by finite differences, and running losses add up to its decrease."""
    X, y = draw("binary" if "exponential" in loss.values() else "regression")
    y = y if y.dtype.kind == "U" else np.exp(y / 4)
    model = kind(**loss, random_state=0).fit(X, y)
    ensemble = debias.plugin.extract(model)
    codes = (y == "mid").astype(float) if y.dtype.kind == "U" else y
    theirs, base, step = model._loss, ensemble.base[0], 1e-6
    before, up, down = (theirs.loss(codes, np.full(N, base + d)) for d in (0.0, step, -step))
    slope = (down - up) / (2 * step)
    r_0 = ensemble.objective.response(codes[:, None], ensemble.base)[:, 0]
    smooth = np.abs(codes - base) > 1e-5
    np.testing.assert_allclose(r_0[smooth], slope[smooth], rtol=1e-4, atol=1e-7)
    with pytest.warns(debias.DebiasWarning, match="on training rows"):
        scores = debias.score(model, X, y, scorer="oob_loss", rows="train")
    saved = before.mean() - theirs.loss(codes, model._raw_predict(X.astype(np.float32))[:, 0]).mean()
    np.testing.assert_allclose(scores.values.sum() + scores.details["base"], saved, rtol=1e-6)


def constrained(**constraints):
    """Return a model of four columns, of which two pairs work together in the data, with fresh rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 4))
    y = X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3] + X[:, 0] * X[:, 2] + X[:, 0] + rng.normal(size=1200) / 2
    model = HistGradientBoostingRegressor(max_iter=40, max_depth=4, random_state=0, **constraints)
    return model.fit(X[:600], y[:600]), X[600:], y[600:]


def assert_sums_are_predictions(model, X):
    """Compare the output of a model that does not tell leaves."""
    ensemble = debias.plugin.extract(model)
    np.testing.assert_allclose(raw_output(ensemble, route(ensemble, X))[:, 0], model.predict(X), rtol=0, atol=1e-12)


def test_interaction_constraints_keep_pairs_apart():
    model, X, y = constrained(interaction_cst=[{0, 1}, {2, 3}])
    assert_sums_are_predictions(model, X)
    found = debias.interactions(model, X, y, rows="held-out")
    assert set(found.sets) == {("x0", "x1"), ("x2", "x3")}
    free = debias.interactions(*constrained(), rows="held-out")
    assert ("x0", "x2") in free.confirmed


@pytest.mark.parametrize("sign", [1, -1])
def test_monotonic_constraints_are_kept_by_the_extracted_trees(sign):
    model, X, y = constrained(monotonic_cst=[sign, 0, 0, 0])
    assert_sums_are_predictions(model, X)
    ensemble, grid = debias.plugin.extract(model), np.repeat(X[:30], 25, axis=0)
    grid[:, 0] = np.tile(np.linspace(-3, 3, 25), 30)
    raw = raw_output(ensemble, route(ensemble, grid)).reshape(30, 25)
    assert (sign * np.diff(raw, axis=1) >= -1e-12).all()
    free = debias.plugin.extract(constrained()[0])
    assert (sign * np.diff(raw_output(free, route(free, grid)).reshape(30, 25), axis=1) < -1e-3).any()
    assert debias.score(model, X, y, rows="held-out").rows == "held-out"


def test_the_huber_loss_is_refused_by_name():
    X, y = draw()
    with pytest.raises(debias.UnsupportedModelError, match="changes in each stage"):
        debias.plugin.extract(GradientBoostingRegressor(loss="huber", n_estimators=3).fit(X, y))


def test_gradient_boosting_has_no_bags_whatever_it_samples():
    X, y = draw()
    for subsample in (1.0, 0.5):
        model = GradientBoostingRegressor(n_estimators=20, subsample=subsample, random_state=0).fit(X, y)
        with pytest.raises(debias.InBagUnavailableError, match="every training row has been seen"):
            debias.score(model, X, y, rows="oob")
        with pytest.raises((debias.ProvenanceError, debias.DebiasWarning), match="training rows"):
            debias.score(model, X, y)


def test_the_start_of_gradient_boosting_has_to_be_a_constant():
    X, y = draw()
    model = GradientBoostingRegressor(n_estimators=3, init=DummyRegressor(strategy="constant", constant=2.5)).fit(X, y)
    assert debias.plugin.extract(model).base.tolist() == [2.5]
    model = GradientBoostingRegressor(n_estimators=3, init=LinearRegression()).fit(X, y)
    with pytest.raises(debias.UnsupportedModelError, match="init=LinearRegression"):
        debias.plugin.extract(model)


def test_missing_values_gradient_boosting_refuses_are_refused():
    X, y = draw()
    model = GradientBoostingRegressor(n_estimators=3).fit(X, y)
    X_new, y_new = draw(seed=1)
    X_new[7, 2] = np.nan
    with pytest.raises(debias.RowsError, match=r"'x2' of X has a missing value \(row 7\)"):
        debias.score(model, X_new, y_new, rows="held-out")


# --- histogram gradient boosting -----------------------------------------------------------------------


def hist_leaves(model, X):
    """Walk every row down scikit-learn's own node records: the leaf of each row in each tree."""
    inner = model._preprocess_X(X, reset=False)
    leaves = []
    for stage in model._predictors:
        for tree in stage:
            at = np.zeros(len(inner), dtype=int)
            for i, row in enumerate(inner):
                node = tree.nodes[0]
                while not node["is_leaf"]:
                    x = row[node["feature_idx"]]
                    if np.isnan(x):
                        left = node["missing_go_to_left"]
                    elif node["is_categorical"]:
                        words = tree.raw_left_cat_bitsets[node["bitset_idx"]]
                        left = (words[int(x) // 32] >> (int(x) % 32)) & 1
                    else:
                        left = x <= node["num_threshold"]
                    at[i] = node["left"] if left else node["right"]
                    node = tree.nodes[at[i]]
            leaves.append(at)
    return np.stack(leaves, axis=1)


HIST = st.fixed_dictionaries(
    {
        "max_leaf_nodes": st.sampled_from([3, 15]),
        "learning_rate": st.sampled_from([0.1, 1.0]),
        "min_samples_leaf": st.sampled_from([1, 20]),
        "l2_regularization": st.sampled_from([0.0, 5.0]),
        "early_stopping": st.booleans(),
        "max_features": st.sampled_from([0.5, 1.0]),
    }
)


def hist(task, X, y, weight=None, **varied):
    kind = HistGradientBoostingRegressor if task == "regression" else HistGradientBoostingClassifier
    return kind(max_iter=6, random_state=0, **varied).fit(X, y, sample_weight=weight)


def hist_raw(model, X):
    return model.predict(X) if not hasattr(model, "classes_") else model.decision_function(X)


@pytest.mark.thorough
@VARIED
@pytest.mark.filterwarnings("ignore:about .* of these 160 rows are training rows")  # a few fresh samples look so
@given(task=st.sampled_from(TASKS), missing=st.booleans(), varied=HIST, weighted=st.booleans())
def test_hist_gradient_boosting_of_any_settings_predicts_alike(task, missing, varied, weighted):
    X, y = draw(task, missing)
    weight = np.random.default_rng(1).uniform(0.5, 2, N) if weighted else None
    model = hist(task, X, y, weight, **varied)
    X_new, y_new = draw(task, missing=True, seed=1)
    assert_predicts_alike(model, X_new, hist_raw(model, X_new), hist_leaves(model, X_new))
    assert debias.score(model, X_new, y_new, rows="held-out").rows == "held-out"


def labelled(X, how):
    """Return the numeric columns with two categorical ones among them, as a data frame."""
    towns = np.array(["Aarhus", "Bonn", "Cork", "Delft", "Essen", "Faro", "Gent"])
    frame = pd.DataFrame(
        {
            "b": X[:, 1],
            "town": towns[X[:, 2].astype(int) + 3],
            "a": X[:, 0],
            "grade": np.round(X[:, 3]).astype(int),
        }
    )
    frame.loc[::9, "town"] = None
    return frame.astype({"town": how, "grade": "category"})


@pytest.mark.thorough
@VARIED
@given(task=st.sampled_from(TASKS), varied=HIST, how=st.sampled_from(["category", "object", "str"]))
def test_categories_of_hist_gradient_boosting_are_routed_alike(task, varied, how):
    """Categorical columns come first inside the model, and new rows have labels it never saw."""
    X, y = draw(task)
    train = labelled(X, how)
    known = train["town"] != "Gent"
    model = hist(task, train[known], y[known], categorical_features=["town", "grade"], **varied)
    X_new, y_new = draw(task, seed=1)
    new = labelled(X_new, how)
    ensemble = debias.plugin.extract(model)
    assert ensemble.feature_names == ("b", "town", "a", "grade")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)
        if how != "category":  # scikit-learn's own encoder refuses categories it has not seen in a category column
            assert_predicts_alike(model, new, hist_raw(model, new), hist_leaves(model, new))
        seen = new[new["town"] != "Gent"]
        assert_predicts_alike(model, seen, hist_raw(model, seen), hist_leaves(model, seen))
        assert debias.score(model, new, y_new, rows="held-out").feature_names == ensemble.feature_names


def test_categories_given_as_numbers_are_routed_alike():
    X, y = draw()
    X[:, 2] = X[:, 2] * 10 + 7  # labels that are no codes
    model = hist("regression", X, y, categorical_features=[2])
    X_new, _ = draw(seed=1)
    X_new[:, 2] = X_new[:, 2] * 10 + 7
    assert debias.plugin.extract(model).category_set is not None
    assert_predicts_alike(model, X_new, hist_raw(model, X_new), hist_leaves(model, X_new))


CONTAINERS = {
    "pandas str": lambda frame: frame.astype({"town": "str"}),
    "pandas Arrow": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "pandas nullable": lambda frame: frame.convert_dtypes(),
    "polars": pl.from_pandas,
    "polars categorical": lambda frame: pl.from_pandas(frame).with_columns(pl.col("town").cast(pl.Categorical)),
    "Arrow": pa.Table.from_pandas,
    "Arrow dictionary": lambda frame: pa.Table.from_pandas(frame.astype({"town": "category"})),
    "objects": lambda frame: frame.to_numpy(dtype=object),
}


def with_nan(frame):
    """Return the frame with NaN for None: to scikit-learn, None is a label of its own, and pandas 3 has none."""
    return frame.assign(town=frame["town"].where(frame["town"].notna(), np.nan))


NO_TEXT = {"pandas str": needs("pandas", "3.0", "writes missing values as the text nan")}


@pytest.mark.parametrize("container", [pytest.param(name, marks=NO_TEXT.get(name, ())) for name in CONTAINERS])
def test_rows_in_any_container_score_alike(container):
    """Fitted on a pandas frame with text, a model scores the same rows in any container alike."""
    X, y = draw()
    frame = with_nan(labelled(X, "object").astype({"grade": int}))
    model = hist("regression", frame, y, categorical_features=["town"], min_samples_leaf=2, max_features=0.5)
    X_new, y_new = draw(seed=1)
    new = with_nan(labelled(X_new, "object").astype({"grade": int}))
    new.loc[3, "a"] = np.nan
    if container == "Arrow dictionary":  # see the test below
        new["town"] = new["town"].fillna("Faro")
    expected = debias.score(model, new, y_new, rows="held-out").values
    assert np.abs(expected).min() > 0
    found = debias.score(model, CONTAINERS[container](new), y_new, rows="held-out").values
    np.testing.assert_array_equal(found, expected)


def test_a_missing_label_of_an_arrow_dictionary_is_refused():
    """numpy, and so scikit-learn, reads the null of an Arrow dictionary as its last category: the model predicts so."""
    X, y = draw()
    frame = labelled(X, "object").astype({"grade": int})
    model = hist("regression", frame, y, categorical_features=["town"], min_samples_leaf=2, max_features=0.5)
    X_new, y_new = draw(seed=1)
    table = pa.Table.from_pandas(labelled(X_new, "category").astype({"grade": int}))
    assert table["town"].null_count
    assert table["town"].to_numpy()[0] is not None
    with pytest.raises(debias.errors.ExtractionError, match="predicts otherwise for X as it was passed"):
        debias.score(model, table, y_new, rows="held-out")


def test_training_rows_of_hist_gradient_boosting_are_recognised():
    X, y = draw()
    model = HistGradientBoostingRegressor(max_iter=30, min_samples_leaf=3).fit(X, y)
    order = np.random.default_rng(0).permutation(N)
    with pytest.raises(debias.ProvenanceError, match="training rows"):
        debias.score(model, X[order], y[order])


# --- weights of held-out rows --------------------------------------------------------------------------

EVERY_FAMILY = {
    "forest": (RandomForestClassifier(8, random_state=0), "3-class"),
    "forest of two responses": (RandomForestRegressor(8, random_state=0), "two"),
    "bagging": (BaggingRegressor(DecisionTreeRegressor(), 8, max_features=0.5, random_state=0), "regression"),
    "boosting": (GradientBoostingClassifier(n_estimators=8, random_state=0), "binary"),
    "histograms": (HistGradientBoostingClassifier(max_iter=4), "3-class"),
}


@pytest.mark.parametrize("scorer", ["mdi_oob", "oob_split", "oob_loss", "ufi", "mdi(criterion='variance')"])
@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_whole_weights_are_repeated_rows(family, scorer):
    """Repeating a row is weighing it, in every node score of every family."""
    model, task = EVERY_FAMILY[family]
    X, y = two_responses(classes=False) if task == "two" else draw(task)
    X_new, y_new = draw("regression" if task == "two" else task, seed=1)
    y_new = np.column_stack([y_new, y_new**2]) if task == "two" else y_new
    model.fit(X, y)
    times = np.random.default_rng(0).integers(0, 4, N)
    asked = {"scorer": scorer, "rows": "held-out", "train": (X, y)}
    weighted = debias.score(model, X_new, y_new, sample_weight=times, **asked).values
    repeated = debias.score(model, np.repeat(X_new, times, axis=0), np.repeat(y_new, times, axis=0), **asked).values
    np.testing.assert_allclose(weighted, repeated, rtol=0, atol=1e-10 * np.abs(repeated).max())


# --- forests of special settings -----------------------------------------------------------------------

SPECIAL = [
    (RandomForestRegressor(criterion="absolute_error"), "rows proven, y unproven"),
    (RandomForestRegressor(criterion="poisson"), "proven"),
    (RandomForestRegressor(monotonic_cst=[1, 0, 0, 0]), "rows proven, y unproven"),
    (RandomForestClassifier(monotonic_cst=[1, 0, 0, 0]), "rows proven, y unproven"),
    (RandomForestRegressor(max_samples=0.3), "proven"),
    (RandomForestClassifier(max_samples=20, class_weight="balanced_subsample"), "proven"),
    (RandomForestClassifier(class_weight={"low": 3.0, "mid": 1.0}), "proven"),
    (ExtraTreesRegressor(bootstrap=True, ccp_alpha=0.05), "proven"),
    (ExtraTreesClassifier(bootstrap=True, max_leaf_nodes=6), "proven"),
    (RandomForestRegressor(min_impurity_decrease=0.05, max_features=2), "proven"),
]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("model", "status"), SPECIAL, ids=lambda value: str(value))
def test_bags_of_forests_of_special_settings_are_proven_and_wrong_rows_refused(model, status, weighted):
    X, y = draw("binary" if hasattr(model, "predict_proba") else "regression")
    y = y if y.dtype.kind == "U" else y - y.min()
    weight = np.random.default_rng(0).integers(0, 4, N).astype(float) if weighted else None
    model.set_params(n_estimators=6, random_state=0).fit(X, y, sample_weight=weight)
    scores = debias.score(model, X, y, rows="oob", sample_weight=weight)
    assert scores.provenance["status"] == status
    assert_bags_fill_every_node(model, X, y, weight)
    for wrong in ("rows permuted", "one column permuted"):
        X_wrong, y_wrong = WRONG[wrong](X, y, np.random.default_rng(0).permutation(N))
        with pytest.raises(debias.ProvenanceError):
            debias.score(model, X_wrong, y_wrong, rows="oob", sample_weight=weight)


def test_a_warm_start_on_the_same_rows_is_proven_and_on_others_refused():
    X, y = draw()
    model = RandomForestRegressor(4, random_state=0, warm_start=True).fit(X, y)
    assert debias.score(model.set_params(n_estimators=8).fit(X, y), X, y).provenance["status"] == "proven"
    model = RandomForestRegressor(4, random_state=0, warm_start=True).fit(X, y)
    model.set_params(n_estimators=8).fit(X[:100], y[:100])
    for rows in (X, y), (X[:100], y[:100]):
        with pytest.raises(debias.ProvenanceError):
            debias.score(model, *rows, rows="oob")
