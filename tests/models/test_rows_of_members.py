"""Tests of wrappers whose members were trained on rows in another order, or each without one fold of the rows."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor

import debias
from debias.errors import DebiasWarning, ProvenanceError
from debias.hooks.registry import plugin_manager
from debias.hooks.wrapping import Inner, Unwrapped
from debias.trees.in_bag import InBag
from support import simulated

N = 90


class Shuffled:
    """A wrapper that trains a forest on its rows in another order, some of them twice."""

    def __init__(self, model, order):
        self.model, self.order = model, order

    def fit(self, X, y, weight=None):
        self.model.fit(X.iloc[self.order], y[self.order], None if weight is None else weight[self.order])
        return self


class Folds:
    """A wrapper with a model for each fold, trained without it."""

    def __init__(self, make, tuned=None):
        self.make, self.tuned = make, tuned

    def fit(self, X, y):
        self.X, self.y = X, y
        self.positions = np.array_split(np.random.default_rng(8).permutation(len(y)), 3)
        rest = [np.setdiff1d(np.arange(len(y)), fold) for fold in self.positions]
        self.models = [self.make().fit(X.iloc[rows], y[rows]) for rows in rest]
        return self

    def unseen(self, X, y):
        if not (X.equals(self.X) and np.array_equal(y, self.y)):
            raise ProvenanceError("these are not the rows of the folds")
        return self.positions


@pytest.fixture(autouse=True)
def adapter():
    @debias.plugin.hookimpl
    def debias_unwrap(model):
        if isinstance(model, Shuffled):
            return Unwrapped("Shuffled", (Inner(model.model, "model", training_order=lambda y: model.order),))
        if isinstance(model, Folds):
            inner = [
                Inner(each, f"fold {k}", 1 / 3, tuned_on_unseen=model.tuned) for k, each in enumerate(model.models)
            ]
            return Unwrapped("Folds", tuple(inner), unseen=model.unseen)
        return None

    plugin = SimpleNamespace(debias_unwrap=debias_unwrap)
    plugin_manager().register(plugin, "wrappers_of_this_file")
    yield
    plugin_manager().unregister(plugin)


def forest(kind=RandomForestRegressor, **settings):
    return kind(8, random_state=0, **settings)


def rows(seed=0):
    X, y = simulated.rows(N, 3, (1, 1), names="abc", seed=seed)
    return X, y.to_numpy()


def test_bags_are_proven_in_the_order_of_training():
    X, y = rows()
    order = np.random.default_rng(1).permutation(N)
    model = Shuffled(forest(), order).fit(X, y)
    scores = debias.score(model, X, y)
    direct = debias.score(model.model, X.iloc[order], y[order])
    assert scores.rows == direct.rows == "oob"
    assert scores.provenance == direct.provenance
    np.testing.assert_allclose(scores.values, direct.values, rtol=1e-12)
    phi = debias.contributions(model, X, y).to_numpy()
    np.testing.assert_allclose(phi[order], debias.contributions(model.model, X.iloc[order], y[order]), atol=1e-15)
    with pytest.raises(ProvenanceError, match="not the training rows in training order"):
        debias.score(model, X.iloc[order], y[order], rows="oob")


def test_training_rows_beside_held_out_ones_are_put_in_the_models_order():
    X, y = rows()
    order = np.random.default_rng(1).permutation(N)
    model = Shuffled(forest(), order).fit(X, y)
    new = rows(1)
    ours = debias.score(model, *new, "ufi", rows="held-out", train=(X, y))
    theirs = debias.score(model.model, *new, "ufi", rows="held-out", train=(X.iloc[order], y[order]))
    np.testing.assert_allclose(ours.values, theirs.values, rtol=1e-12)
    with pytest.raises(ProvenanceError, match="train"):
        debias.score(model, *new, "ufi", rows="held-out", train=(X[::-1], y[::-1]))


@pytest.mark.parametrize("class_weight", [None, "balanced", "balanced_subsample"])
def test_a_row_that_was_trained_on_twice_is_out_of_bag_if_both_copies_are(class_weight):
    X, y = rows()
    classes = (y > 0.8).astype(int)
    order = np.random.default_rng(1).permutation(np.append(np.arange(N), np.flatnonzero(classes)))
    model = Shuffled(forest(RandomForestClassifier, class_weight=class_weight), order).fit(X, classes)
    scores = debias.score(model, X, classes, rows="oob")
    assert scores.provenance["status"] == "proven"
    expected, one_tree = np.zeros(3), forest(RandomForestClassifier)
    for tree, drawn in zip(model.model.estimators_, model.model.estimators_samples_, strict=True):
        out = np.setdiff1d(np.arange(N), order[drawn])
        one_tree.__dict__.update({**vars(model.model), "estimators_": [tree], "n_estimators": 1})
        expected += debias.score(one_tree, X.iloc[out], classes[out], rows="held-out").values / 8
    np.testing.assert_allclose(scores.values, expected, rtol=1e-10, atol=1e-14)


def test_training_weights_follow_the_order():
    X, y = rows()
    weight = np.random.default_rng(2).integers(1, 4, N).astype(float)
    order = np.random.default_rng(1).permutation(N)
    model = Shuffled(forest(), order).fit(X, y, weight)
    ours = debias.score(model, X, y, rows="oob", sample_weight=weight)
    theirs = debias.score(model.model, X.iloc[order], y[order], rows="oob", sample_weight=weight[order])
    np.testing.assert_allclose(ours.values, theirs.values, rtol=1e-12)


def test_bags_in_another_order():
    bags = InBag.from_rows([np.array([0, 0, 2]), np.array([1])], 4).in_order(np.array([1, 0, 2, 0]), 3)
    np.testing.assert_array_equal(bags.draw(0), [0, 2, 1])
    np.testing.assert_array_equal(bags.samples(0), [0, 1, 1])
    np.testing.assert_array_equal(bags.draw(1), [1, 0, 0])
    np.testing.assert_array_equal(bags.out_of_bag(0), [0])
    np.testing.assert_array_equal(bags.out_of_bag(1), [1, 2])


def test_rows_without_a_weight_stay_excluded():
    bags = InBag(lambda tree: np.array([1.0, 0, 0]), 3, 1, excluded=np.array([False, True, False]))
    np.testing.assert_array_equal(bags.in_order(np.array([2, 0, 1]), 3).excluded, [True, False, False])


@pytest.mark.parametrize("make", [forest, lambda: HistGradientBoostingRegressor(max_iter=5)], ids=["forest", "boosted"])
def test_each_model_is_scored_on_its_own_fold(make):
    X, y = rows()
    model = Folds(make).fit(X, y)
    weight = np.random.default_rng(2).integers(1, 4, N).astype(float)
    for given in (None, weight):
        for asked in ("auto", "oob"):
            scores = debias.score(model, X, y, rows=asked, sample_weight=given)
            parts = [
                debias.score(
                    each, X.iloc[fold], y[fold], rows="held-out", sample_weight=None if given is None else given[fold]
                ).values
                for each, fold in zip(model.models, model.positions, strict=True)
            ]
            np.testing.assert_allclose(scores.values, np.mean(parts, axis=0), rtol=1e-12)
            assert (scores.rows, scores.n_rows, scores.provenance["status"]) == ("oob", N, "proven")
    phi = debias.contributions(model, X, y).to_numpy()
    np.testing.assert_allclose(phi.sum(axis=0), debias.score(model, X, y).values, rtol=1e-10)
    of_first = debias.contributions(model.models[0], X.iloc[model.positions[0]], y[model.positions[0]], rows="held-out")
    np.testing.assert_allclose(phi[model.positions[0]], of_first / 3, rtol=1e-12)


def test_an_audit_of_folds_has_no_p_values():
    X, y = rows()
    audit = debias.audit(Folds(forest).fit(X, y), X, y)
    assert "was scored on the rows that it alone has not seen" in audit.untested_because
    assert "debias.audit_folds" in audit.untested_because


def test_other_rows_than_those_of_the_folds_are_no_oob_rows():
    X, y = rows()
    model = Folds(forest).fit(X, y)
    with pytest.raises(ProvenanceError, match="these are not the rows of the folds"):
        debias.score(model, X[::-1], y[::-1], rows="oob")
    with pytest.raises(ProvenanceError, match="training rows"):  # by the counts in the leaves
        debias.score(model, X[::-1], y[::-1])
    new_X, new_y = rows(1)
    expected = np.mean([debias.score(each, new_X, new_y, rows="held-out").values for each in model.models], axis=0)
    scores = debias.score(model, new_X, new_y, rows="held-out")
    assert scores.rows == "held-out"
    np.testing.assert_allclose(scores.values, expected, rtol=1e-12)


def test_blocks_and_indexes_of_folds_change_no_score():
    X, y = rows()
    model = Folds(forest).fit(X, y)
    plain = debias.score(model, X, y).values
    np.testing.assert_allclose(
        debias.score(model, debias.Dataset(X, y, blocks=np.arange(N) // 2)).values, plain, rtol=1e-12
    )
    np.testing.assert_allclose(debias.score(model, X, pd.Series(y, index=X.index)).values, plain, rtol=1e-12)


def test_rows_that_something_was_chosen_on_must_be_asked_for():
    X, y = rows()
    model = Folds(forest, tuned="the number of trees was chosen by their loss").fit(X, y)
    with pytest.raises(ProvenanceError, match=r"number of trees was chosen by their loss, so scores.*too high"):
        debias.score(model, X, y)
    with pytest.warns(DebiasWarning, match="too high on average, also those of noise") as caught:
        scores = debias.score(model, X, y, rows="oob")
    assert len(caught) == 1
    assert any("too high" in text for text in scores.warnings)
    debias.score(model, *rows(1), rows="held-out")
