"""Tests of AdaBoostClassifier: its trees vote alike, and scores are those of their definition."""

import copy

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import AdaBoostClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

import debias
from debias.trees.routing import raw_output, route
from debias.trees.shapley import expected_output, shapley_values
from support import oracle
from support.versions import at_least

N = 160
OF_VOTES = {} if at_least("scikit-learn", "1.6") else {"algorithm": "SAMME"}  # the only algorithm since
HELD_OUT = {"rows": "held-out", "random_state": 0}


def drawn(n_classes, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 5)).round(1)
    y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=N), np.linspace(-1, 1, n_classes + 1)[1:-1])
    return X, np.array(["c", "a", "d", "b"])[y]


def boosted(n_classes, depth=2, member=DecisionTreeClassifier, **settings):
    settings = {"n_estimators": 6, "random_state": 0, **OF_VOTES, **settings}
    model = AdaBoostClassifier(member(max_depth=depth, random_state=0), **settings)
    return model.fit(*drawn(n_classes))


def margin_of(model, X):
    """The margin whose logistic function, or softmax, is predict_proba."""
    found = model.decision_function(X)
    return found[:, None] if found.ndim == 1 else found / (len(model.classes_) - 1)


@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize(("depth", "member"), [(1, DecisionTreeClassifier), (3, ExtraTreeClassifier)])
@pytest.mark.parametrize("rate", [1.0, 0.3])
def test_trees_vote_alike(n_classes, depth, member, rate):
    model = boosted(n_classes, depth, member, learning_rate=rate)
    X, _ = drawn(n_classes, seed=1)
    ensemble = debias.plugin.extract(model)
    leaves = route(ensemble, X.astype(np.float32))
    np.testing.assert_array_equal(leaves, np.column_stack([each.apply(X) for each in model.estimators_]))
    margin = raw_output(ensemble, leaves)
    np.testing.assert_allclose(margin, margin_of(model, X), atol=1e-12)
    shares = ensemble.objective.mean(margin)
    expected = model.predict_proba(X)
    np.testing.assert_allclose(shares, expected[:, 1:] if n_classes == 2 else expected, atol=1e-12)


@pytest.mark.skipif(at_least("scikit-learn", "1.6"), reason="scikit-learn 1.6 removed SAMME.R")
@pytest.mark.filterwarnings("ignore:The SAMME.R algorithm:FutureWarning")
@pytest.mark.parametrize("n_classes", [2, 3])
def test_votes_by_probabilities_are_read_alike(n_classes):
    model = boosted(n_classes, algorithm="SAMME.R")
    X, _ = drawn(n_classes, seed=1)
    ensemble = debias.plugin.extract(model)
    margin = raw_output(ensemble, route(ensemble, X.astype(np.float32)))
    np.testing.assert_allclose(margin, margin_of(model, X), rtol=1e-9)


def by_definition(model):
    """The trees with the votes of their leaves, read from predict: one model of oracle.py for each output."""
    form, classes = oracle.sklearn_model(model), list(model.classes_)
    form.averaged, form.classes = False, [str(each) for each in classes]
    form.loss = "logistic" if len(classes) == 2 else "softmax"
    form.base = [0.0] if len(classes) == 2 else [0.0] * len(classes)
    total = model.estimator_weights_.sum()
    for tree, member, weight in zip(form.trees, model.estimators_, model.estimator_weights_, strict=False):
        for node, shares in zip(tree.nodes, member.tree_.value[:, 0], strict=True):
            vote = member.classes_[np.argmax(shares)]
            if len(classes) == 2:
                node.leaf_value = [(2 if vote == classes[1] else -2) * weight / total]
            else:
                others = len(classes) - 1
                node.leaf_value = [(1 if each == vote else -1 / others) / others * weight / total for each in classes]
    return form


def one_output(form, k):
    """The same trees with one of their outputs."""
    of_output = copy.deepcopy(form)
    for tree in of_output.trees:
        tree.output = k
        for node in tree.nodes:
            node.leaf_value = [node.leaf_value[k]]
    return of_output


@pytest.mark.parametrize("n_classes", [2, 3])
def test_scores_are_those_of_the_definition(n_classes):
    model = boosted(n_classes)
    X, y = drawn(n_classes, seed=1)
    weight = np.random.default_rng(2).integers(0, 3, N).astype(float)
    form, labels = by_definition(model), [str(label) for label in y]
    forms = [one_output(form, k) for k in range(len(form.base))]
    expected = sum(
        oracle.score("mdi_oob", oracle.see_boosted(each, X, labels, weight), 5, averaged=False) for each in forms
    )
    given = {"sample_weight": weight, **HELD_OUT}
    np.testing.assert_allclose(debias.score(model, X, y, "mdi_oob", **given).values, expected, rtol=1e-9, atol=1e-12)
    saved, _ = oracle.running_loss(form, X, labels, weight)
    np.testing.assert_allclose(debias.score(model, X, y, "oob_loss", **given).values, saved, rtol=1e-9, atol=1e-12)


def test_shapley_values_add_up_to_the_margin():
    model = boosted(2)
    X, _ = drawn(2, seed=1)
    ensemble = debias.plugin.extract(model)
    values = shapley_values(ensemble, X.astype(np.float32))
    np.testing.assert_allclose(values.sum(axis=1) + expected_output(ensemble), margin_of(model, X), atol=1e-10)


def test_what_the_model_reports_is_shown_and_has_no_figure_on_unseen_rows():
    model = boosted(3)
    audit = debias.audit(model, *drawn(3, seed=1), **HELD_OUT)
    np.testing.assert_allclose(audit.reported, model.feature_importances_)
    assert audit.reported_unseen is None
    assert "debias cannot compute" in audit.no_unseen_because


def test_training_rows_are_recognised_and_wrappers_find_the_model_inside():
    X, y = drawn(2)
    with pytest.raises(debias.ProvenanceError, match="these are the training rows"):
        debias.audit(boosted(2, depth=3), X, y)
    calibrated = CalibratedClassifierCV(boosted(2).set_params(), cv=2, ensemble=False).fit(X, y)
    assert debias.score(calibrated, *drawn(2, seed=1), **HELD_OUT).rows == "held-out"


@pytest.mark.parametrize("scorer", ["mdi", "ufi", "honest_effects", "shap_oob"])
def test_training_rows_beside_held_out_ones_have_their_own_weights(scorer):
    """The trees were grown with other weights, of which users know nothing."""
    model, train = boosted(3), drawn(3)
    scores = debias.score(model, *drawn(3, seed=1), scorer, train=train, **HELD_OUT)
    assert np.isfinite(scores.values).all()
    if scorer == "ufi":
        form, labels = by_definition(model), ([str(each) for each in y] for y in (drawn(3, seed=1)[1], train[1]))
        of_rows, of_train = labels
        expected = sum(
            oracle.score(
                "ufi",
                oracle.see_boosted(one_output(form, k), drawn(3, seed=1)[0], of_rows, train=(train[0], of_train)),
                5,
                averaged=False,
            )
            for k in range(3)
        )
        np.testing.assert_allclose(scores.values, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.thorough
def test_noise_has_mean_0():
    """With x3 and x4 drawn anew for each set of rows, their scores have mean 0."""
    model, found = boosted(2, depth=3), []
    used = np.unique(debias.plugin.extract(model).feature)
    assert {3, 4} <= set(used.tolist())
    for seed in range(200):
        X, y = drawn(2, seed=seed + 10)
        found.append(debias.score(model, X, y, "mdi_oob", **HELD_OUT).values[3:])
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(200)
    assert (np.abs(mean) <= 4 * error).all()
    assert (error > 0).all()


def test_what_cannot_be_scored_is_refused_by_name():
    X, y = drawn(2)
    of_lines = AdaBoostClassifier(LogisticRegression(), n_estimators=3, **OF_VOTES).fit(X, y)
    with pytest.raises(
        debias.UnsupportedModelError, match="members of this .*AdaBoostClassifier are LogisticRegression"
    ):
        debias.score(of_lines, X, y)
    with pytest.raises(debias.UnsupportedModelError, match="not fitted; fit it first"):
        debias.score(AdaBoostClassifier(), X, y)
    with pytest.raises(debias.InBagUnavailableError):
        debias.score(boosted(2), X, y, rows="oob")
