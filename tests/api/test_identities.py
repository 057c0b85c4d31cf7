"""Tests of identities that hold for the scores of any data: methods.md, "Facts to respect"."""

from __future__ import annotations

from dataclasses import fields, replace

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import debias
from debias.data.response import encode
from debias.data.table import Table
from debias.rows.node_sums import NodeSums
from debias.rows.provenance import Provenance
from debias.rows.rows import Rows, in_bag_sums
from debias.trees.in_bag import InBag
from debias.trees.routing import route
from support import oracle, simulated
from support.missing_values import IN_FORESTS

# A few dozen fresh rows look like training rows now and then; that recognition is tested elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore:about .* rows (are|may be) training rows:debias.DebiasWarning")

FEW = settings(max_examples=12)
SEEDS = st.integers(0, 10_000)
TASKS = st.sampled_from(["regression", "binary", "3-class"])
STATED = Provenance("held-out", "stated by the user", "made by a test")

EVALUATED = [
    "mdi_oob",
    "mdi_oob(centre='none')",
    "mdi_oob(weights='in_bag')",
    "ufi",
    "oob_split",
    "oob_loss",
]


def draw(seed, n=90, task="regression", missing=False):
    kinds = ("normal", range(2), range(6), "normal")
    cuts = {"regression": None, "binary": [0.8], "3-class": [0.0, 1.2]}[task]
    return simulated.rows(n, kinds, (1, 1), cuts=cuts, missing=0.2 * missing, missing_in=(2,), seed=seed)


def forest(task, seed, deep=True, extra=False, n_estimators=5, **settings):
    settings = {"n_estimators": n_estimators, "random_state": seed, "max_depth": None if deep else 3, **settings}
    if extra:
        kind = ExtraTreesRegressor if task == "regression" else ExtraTreesClassifier
        return kind(bootstrap=True, **settings)
    return (RandomForestRegressor if task == "regression" else RandomForestClassifier)(**settings)


def rows_of(ensemble, model, X, y, **kept):
    kept = {"weight": np.ones(len(y)), "kind": "held-out", "provenance": STATED, **kept}
    return Rows(ensemble=ensemble, model=model, table=Table(X), response=encode(y, ensemble, len(y)), **kept)


def changed(ensemble, **arrays):
    same = {each.name: getattr(ensemble, each.name) for each in fields(ensemble) if each.init}
    return replace(ensemble, **{**same, **arrays})


def held_out(model, X, y, scorer="mdi_oob", **kept):
    return debias.score(model, X, y, scorer, rows="held-out", **kept).values


def assert_close(found, expected, relative=1e-10):
    found, expected = np.asarray(found), np.asarray(expected)
    scale = np.abs(expected).max()
    assert scale > 0
    np.testing.assert_allclose(found, expected, rtol=0, atol=relative * scale)


# --- (a) on the rows a tree was grown on, every score is MDI -------------------------------------------


@FEW
@given(
    seed=SEEDS,
    task=TASKS,
    deep=st.booleans(),
    extra=st.booleans(),
    missing=st.booleans() if IN_FORESTS else st.just(False),
)
def test_every_score_on_in_bag_rows_is_mdi(seed, task, deep, extra, missing):
    X, y = draw(seed, task=task, missing=missing)
    model = forest(task, seed, deep, extra).fit(X, y)
    ensemble = debias.plugin.extract(model)
    in_bag = InBag.from_rows(model.estimators_samples_, len(y))
    rows = rows_of(ensemble, model, X, y, kind="oob", in_bag=in_bag)
    rows.__dict__["node_sums"] = in_bag_sums(rows, in_bag)
    expected, _ = debias.plugin.scorer("mdi(criterion='variance')").score(ensemble, None)
    for name in EVALUATED:
        found, _ = debias.plugin.scorer(name).score(ensemble, rows)
        assert_close(found, expected)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::debias.DebiasWarning")  # scores on training rows: that is the point
@FEW
@given(seed=SEEDS, task=TASKS, deep=st.booleans())
def test_every_score_of_a_tree_on_its_in_bag_rows_is_mdi(seed, task, deep):
    # The same through the front door: one tree of a forest, its rows weighted by how often they were drawn.
    X, y = draw(seed, task=task)
    model = forest(task, seed, deep).fit(X, y)
    times = np.bincount(model.estimators_samples_[0], minlength=len(y)).astype(float)
    tree = model.estimators_[0]
    expected = debias.score(tree, scorer="mdi", criterion="variance").values
    for name in EVALUATED:
        found = debias.score(tree, X, y.astype(float), name, rows="train", sample_weight=times)
        assert_close(found.values, expected)


@pytest.mark.parametrize("criterion", ["squared_error", "absolute_error"])
def test_scores_without_node_values_are_mdi_in_bag_even_where_values_are_no_means(criterion):
    X, y = draw(3)
    model = forest("regression", 3, deep=False, criterion=criterion).fit(X, y)
    ensemble = debias.plugin.extract(model)
    in_bag = InBag.from_rows(model.estimators_samples_, len(y))
    rows = rows_of(ensemble, model, X, y, kind="oob", in_bag=in_bag)
    expected, _ = debias.plugin.scorer("mdi(criterion='variance')").score(ensemble, rows)
    rows.__dict__["node_sums"] = in_bag_sums(rows, in_bag)
    for name in ("ufi", "oob_split"):
        found, _ = debias.plugin.scorer(name).score(ensemble, rows)
        assert_close(found, expected)


@pytest.mark.filterwarnings("ignore::debias.DebiasWarning")
@pytest.mark.parametrize("task", ["regression", "binary", "3-class"])
@pytest.mark.parametrize("kind", ["xgboost", "lightgbm"])
def test_on_training_rows_of_boosters_scores_without_node_values_are_mdi(kind, task):
    # Node values are margins here, no means, so the scores that use none are the ones that turn into MDI.
    X, y = draw(11, 150, task)
    model = booster(kind, task, X, y)
    expected = debias.score(model, X, y, "mdi", rows="train", train=(X, y)).values
    for name in ("ufi", "oob_split"):
        assert_close(debias.score(model, X, y, name, rows="train", train=(X, y)).values, expected)


# --- (b) a constant added to y, or to the node values, is no evidence ----------------------------------

SHIFTS = st.one_of(st.just(1e6), st.just(-1e6), st.floats(-1e6, 1e6))
SHIFT_FREE = ["mdi_oob", "mdi_oob(weights='in_bag')", "mdi_oob(shrinkage=20)", "oob_split"]


def shift_tolerance(y, c):
    """y + c holds y to eps |c| only; what is lost there no formula brings back. Ten times that, relative to y."""
    return 1e-10 + 10 * np.finfo(float).eps * abs(c) / np.std(y)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:y does not look like the response:debias.DebiasWarning")
@FEW
@given(seed=SEEDS, c=SHIFTS, deep=st.booleans())
def test_a_shifted_response_changes_no_score_of_a_forest(seed, c, deep):
    X, y = draw(seed)
    X_held, y_held = draw(seed + 1, 70)
    model = forest("regression", seed, deep).fit(X, y)
    for name in SHIFT_FREE:
        expected = held_out(model, X_held, y_held, name)
        assert_close(held_out(model, X_held, y_held + c, name), expected, shift_tolerance(y, c))


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:y does not look like the response:debias.DebiasWarning")
@FEW
@given(seed=SEEDS, c=SHIFTS, kind=st.sampled_from(["xgboost", "lightgbm"]))
def test_a_shifted_response_changes_no_score_of_a_booster(seed, c, kind):
    X, y = draw(seed)
    X_held, y_held = draw(seed + 1, 70)
    model = booster(kind, "regression", X, y)
    for name in ("mdi_oob", "oob_split"):
        expected = held_out(model, X_held, y_held, name)
        assert_close(held_out(model, X_held, y_held + c, name), expected, shift_tolerance(y, c))


@pytest.mark.filterwarnings("ignore:y does not look like the response:debias.DebiasWarning")
def test_equation_14_to_the_letter_is_not_shift_invariant():
    # So the tests above would see it if the centring were lost.
    X, y = draw(5)
    X_held, y_held = draw(6, 70)
    model = forest("regression", 5).fit(X, y)
    plain, shifted = (held_out(model, X_held, y_held + c, "mdi_oob(centre='none')") for c in (0.0, 1000.0))
    assert np.abs(shifted - plain).max() > 10 * np.abs(plain).max()


@FEW
@given(seed=SEEDS, c=st.floats(-1e3, 1e3), task=TASKS)
def test_shifted_node_values_change_no_centred_score(seed, c, task):
    X, y = draw(seed, task=task)
    X_held, y_held = draw(seed + 1, 70, task)
    model = forest(task, seed).fit(X, y)
    ensemble = debias.plugin.extract(model)
    shifted = changed(ensemble, value=ensemble.value + c)
    for name in ("mdi_oob", "mdi_oob(weights='in_bag')"):
        expected, _ = debias.plugin.scorer(name).score(ensemble, rows_of(ensemble, model, X_held, y_held))
        found, _ = debias.plugin.scorer(name).score(shifted, rows_of(shifted, model, X_held, y_held))
        assert_close(found, expected, 1e-10 + 1e-13 * abs(c))


# --- (c) node sums add ---------------------------------------------------------------------------------


@FEW
@given(seed=SEEDS, task=TASKS, how=st.sampled_from(["add", "+", "both"]), data=st.data())
def test_node_sums_of_any_partition(seed, task, how, data):
    X, y = draw(seed, task=task)
    model = forest(task, seed, n_estimators=3).fit(X, y)
    ensemble = debias.plugin.extract(model)
    X, y = draw(seed + 1, 60, task)
    weight = np.random.default_rng(seed).integers(0, 4, 60).astype(float)
    leaves = route(ensemble, X.astype(ensemble.routing_dtype))
    order = np.array(data.draw(st.permutations(range(60))))
    cuts = sorted(data.draw(st.lists(st.integers(0, 60), max_size=6)))

    whole = NodeSums(ensemble)
    whole.add(leaves, encode(y, ensemble, 60), weight)

    total = NodeSums(ensemble)
    for number, block in enumerate(np.split(order, cuts)):
        part = NodeSums(ensemble) if how == "+" or (how == "both" and number % 2) else total
        part.add(leaves[block], encode(y[block], ensemble, len(block)), weight[block])
        if number % 3 == 0:
            assert part.n_root[0] >= 0  # sums may be read and then added to
        if part is not total:
            total = total + part if number % 2 else part + total

    np.testing.assert_array_equal(total.n, whole.n)  # whole numbers: no rounding
    np.testing.assert_allclose(total.s, whole.s, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(total.q, whole.q, rtol=1e-12, atol=1e-12)
    if task != "regression":
        np.testing.assert_array_equal(total.s, whole.s)


@FEW
@given(seed=SEEDS, cut=st.integers(0, 60), kind=st.sampled_from(["xgboost", "lightgbm"]))
def test_node_sums_of_slices_of_a_booster(seed, cut, kind):
    X, y = draw(seed)
    ensemble = debias.plugin.extract(booster(kind, "regression", X, y))
    X, y = draw(seed + 1, 60)
    leaves, response, weight = route(ensemble, X.astype(ensemble.routing_dtype)), encode(y, ensemble, 60), np.ones(60)
    whole, parts = NodeSums(ensemble), NodeSums(ensemble)
    whole.add(leaves, response, weight)
    for rows in (slice(cut, 60), slice(0, cut)):
        parts.add(leaves[rows], response, weight[rows], rows)
    np.testing.assert_array_equal(parts.n, whole.n)
    np.testing.assert_allclose(parts.s, whole.s, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(parts.q, whole.q, rtol=1e-12, atol=1e-12)


def test_node_sums_of_two_ensembles_do_not_add():
    X, y = draw(0)
    one, other = (NodeSums(debias.plugin.extract(forest("regression", seed).fit(X, y))) for seed in (0, 1))
    with pytest.raises(debias.DebiasError, match="two different ensembles"):
        one + other


# --- (d) scores follow the features --------------------------------------------------------------------


@pytest.mark.thorough
@FEW
@given(seed=SEEDS, order=st.permutations(range(4)).filter(lambda order: order != [0, 1, 2, 3]), task=TASKS)
def test_columns_are_matched_by_name(seed, order, task):
    X, y = draw(seed, task=task)
    X_held, y_held = draw(seed + 1, 70, task)
    names = np.array(["income", "married", "grade", "age"])
    model = forest(task, seed).fit(pd.DataFrame(X, columns=names), y)
    frame = pd.DataFrame(X_held, columns=names)
    for name in ("mdi_oob", "oob_loss"):
        expected = debias.score(model, frame, y_held, name, rows="held-out")
        with pytest.warns(debias.DebiasWarning, match="another order"):
            found = debias.score(model, frame[names[order]], y_held, name, rows="held-out")
        assert found.feature_names == expected.feature_names == tuple(names)
        np.testing.assert_array_equal(found.values, expected.values)


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm"])
def test_columns_of_a_booster_are_matched_by_name(kind):
    X, y = draw(2)
    X_held, y_held = draw(3, 70)
    names = ["income", "married", "grade", "age"]
    model = booster(kind, "regression", pd.DataFrame(X, columns=names), y)
    frame = pd.DataFrame(X_held, columns=names)
    expected = debias.score(model, frame, y_held, rows="held-out")
    with pytest.warns(debias.DebiasWarning, match="another order"):
        found = debias.score(model, frame[names[::-1]], y_held, rows="held-out")
    np.testing.assert_array_equal(found.values, expected.values)


@FEW
@given(seed=SEEDS, order=st.permutations(range(4)), task=TASKS)
def test_renumbered_features_keep_their_scores(seed, order, task):
    X, y = draw(seed, task=task)
    X_held, y_held = draw(seed + 1, 70, task)
    model = forest(task, seed).fit(X, y)
    ensemble = debias.plugin.extract(model)
    position = np.argsort(order)  # feature k now stands in column position[k]
    moved = changed(ensemble, feature=np.where(ensemble.feature < 0, -1, position[ensemble.feature]))
    rows, rows_moved = (rows_of(each, model, X_held, y_held) for each in (ensemble, moved))
    rows_moved.__dict__["node_sums"] = rows.node_sums  # the model still routes on its own columns
    for name in [*EVALUATED, "mdi", "split_count"]:
        before, _ = debias.plugin.scorer(name).score(ensemble, rows)
        after, _ = debias.plugin.scorer(name).score(moved, rows_moved)
        np.testing.assert_array_equal(after, before[order])


# --- (e) the scores add up -----------------------------------------------------------------------------


@FEW
@given(seed=SEEDS, task=TASKS, deep=st.booleans(), extra=st.booleans())
def test_mdi_adds_up_to_the_impurity_that_is_gone(seed, task, deep, extra):
    X, y = draw(seed, task=task)
    model = forest(task, seed, deep, extra).fit(X, y)
    gone = []
    for tree in (estimator.tree_ for estimator in model.estimators_):
        share = tree.weighted_n_node_samples / tree.weighted_n_node_samples[0]
        leaf = tree.children_left < 0
        gone.append(tree.impurity[0] - (share * tree.impurity)[leaf].sum())
    for options in ({}, {"criterion": "variance"}):  # squared error and Gini: the two are one
        found = debias.score(model, scorer="mdi", **options).values
        assert found.sum() == pytest.approx(np.mean(gone), rel=1e-10)


@FEW
@given(seed=SEEDS, task=TASKS, deep=st.booleans(), weighted=st.booleans())
def test_loss_of_a_forest_adds_up_to_what_its_trees_save(seed, task, deep, weighted):
    # From each tree's own predictions: the loss of its constant root less the loss of its leaves.
    X, y = draw(seed, task=task)
    X_held, y_held = draw(seed + 1, 70, task)
    model = forest(task, seed, deep).fit(X, y)
    weight = np.random.default_rng(seed).uniform(0, 2, 70) if weighted else np.ones(70)
    target = y_held[:, None] if task == "regression" else y_held[:, None] == np.arange(y.max() + 1)
    saved = []
    for estimator in model.estimators_:
        predicted = estimator.predict(X_held)[:, None] if task == "regression" else estimator.predict_proba(X_held)
        constant = estimator.tree_.value[0]
        saved.append(np.average(((target - constant) ** 2 - (target - predicted) ** 2).sum(axis=1), weights=weight))
    found = held_out(model, X_held, y_held, "oob_loss", sample_weight=weight)
    assert found.sum() == pytest.approx(np.mean(saved), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("task", ["regression", "binary"])
def test_loss_on_oob_rows_adds_up(task):
    X, y = draw(4, task=task)
    model = forest(task, 4).fit(X, y)
    target = y[:, None] if task == "regression" else y[:, None] == np.arange(2)
    saved = []
    for estimator, sample in zip(model.estimators_, model.estimators_samples_, strict=True):
        out = np.setdiff1d(np.arange(len(y)), sample)
        predicted = estimator.predict(X[out])[:, None] if task == "regression" else estimator.predict_proba(X[out])
        constant = estimator.tree_.value[0]
        saved.append(((target[out] - constant) ** 2 - (target[out] - predicted) ** 2).sum(axis=1).mean())
    found = debias.score(model, X, y, "oob_loss", rows="oob").values
    assert found.sum() == pytest.approx(np.mean(saved), rel=1e-9)


def booster(kind, task, X, y, **settings):
    settings = {"n_estimators": 8, "random_state": 0, "n_jobs": 1, **settings}
    if kind == "xgboost":
        model = xgboost.XGBRegressor if task == "regression" else xgboost.XGBClassifier
        return model(**{"max_depth": 3, **settings}).fit(X, y)
    model = lightgbm.LGBMRegressor if task == "regression" else lightgbm.LGBMClassifier
    return model(**{"num_leaves": 8, "min_child_samples": 5, "verbose": -1, **settings}).fit(X, y)


def raw_margin(kind, model, X):
    raw = model.predict(X, output_margin=True) if kind == "xgboost" else model.booster_.predict(X, raw_score=True)
    return np.asarray(raw, dtype=float).reshape(len(X), -1)


@pytest.mark.thorough
@settings(max_examples=18)
@given(seed=SEEDS, kind=st.sampled_from(["xgboost", "lightgbm"]), task=TASKS, weighted=st.booleans())
def test_loss_of_a_booster_adds_up_to_what_the_model_saves(seed, kind, task, weighted):
    X, y = draw(seed, task=task)
    X_held, y_held = draw(seed + 1, 70, task)
    model = booster(kind, task, X, y)
    weight = np.random.default_rng(seed).uniform(0, 2, 70) if weighted else np.ones(70)
    form = oracle.xgboost_model(model) if kind == "xgboost" else oracle.lightgbm_model(model)
    target = form.target(y_held)
    before, after = (
        np.average([oracle.loss_at(form.loss, t, list(f)) for t, f in zip(target, margin, strict=True)], weights=weight)
        for margin in ([form.base] * 70, raw_margin(kind, model, X_held))
    )
    found = debias.score(model, X_held, y_held, "oob_loss", rows="held-out", sample_weight=weight)
    # XGBoost predicts in float32.
    assert found.values.sum() + found.details["base"] == pytest.approx(before - after, rel=1e-10, abs=2e-6)


@pytest.mark.parametrize(
    ("tree", "task"), [(DecisionTreeRegressor, "regression"), (DecisionTreeClassifier, "3-class")], ids=str
)
def test_a_tree_that_does_not_split_scores_nothing(tree, task):
    X, y = draw(8, task=task)
    model = tree(max_depth=1, min_samples_split=len(y) + 1).fit(X, y)
    X_held, y_held = draw(9, 70, task)
    for name in [*EVALUATED, "mdi", "mdi(normalize='tree')"]:
        np.testing.assert_array_equal(held_out(model, X_held, y_held, name), np.zeros(4))
