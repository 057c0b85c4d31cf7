"""Tests of ensembles whose format stores no training weights of leaves."""

import dataclasses

import numpy as np
import pytest

import debias
from debias.hooks.registry import scorers
from debias.testing.scorers import TASKS, toy_rows
from debias.trees.fingerprint import trees_digest
from debias.trees.shapley import shapley_values

OF_TREES = sorted(
    name for name, scorer in scorers().items() if isinstance(scorer, debias.plugin.TreeScorer) and name != "native"
)


def without(rows):
    return dataclasses.replace(rows, ensemble=dataclasses.replace(rows.ensemble, averaging_weight=None))


@pytest.mark.parametrize("task", TASKS)
def test_inner_nodes_are_plain_means_of_their_leaves(task):
    ensemble = without(toy_rows(task)).ensemble
    assert ensemble.averaging_weight is None
    assert "plain means of the leaves below" in ensemble.notes[-1]
    assert dataclasses.replace(ensemble).notes == ensemble.notes
    for number in range(ensemble.n_trees):
        tree = ensemble.tree(number)
        below = [[k] if left < 0 else [] for k, left in enumerate(tree.left)]
        for node in reversed(range(len(below))):
            if tree.left[node] >= 0:
                below[node] = below[tree.left[node]] + below[tree.right[node]]
                np.testing.assert_allclose(tree.value[node], tree.value[below[node]].mean(axis=0), rtol=1e-12)


@pytest.mark.parametrize("task", TASKS)
def test_with_weights_of_the_leaves_the_means_are_those_of_training(task):
    ensemble = toy_rows(task).ensemble
    again = dataclasses.replace(ensemble, averaging_weight=None).with_leaf_weights(ensemble.averaging_weight)
    np.testing.assert_allclose(again.value, ensemble.value, rtol=1e-9, atol=1e-12)
    assert again.notes == ensemble.notes
    nothing = dataclasses.replace(ensemble, averaging_weight=None)
    np.testing.assert_allclose(nothing.with_leaf_weights(np.zeros(ensemble.n_nodes)).value, nothing.value, rtol=1e-12)


def test_the_trees_have_a_fingerprint_of_their_own():
    rows = toy_rows(TASKS[0])
    assert trees_digest(without(rows).ensemble) == trees_digest(without(rows).ensemble)


@pytest.mark.parametrize("task", TASKS)
def test_shapley_values_are_refused_with_what_to_do(task):
    ensemble = without(toy_rows(task)).ensemble
    X = np.zeros((3, ensemble.n_features))
    with pytest.raises(debias.UnsupportedModelError, match=r"no training weights of its leaves.*Use another scorer"):
        shapley_values(ensemble, X)


@pytest.mark.thorough
@pytest.mark.parametrize("name", OF_TREES)
@pytest.mark.parametrize("task", TASKS)
def test_only_scorers_of_shapley_values_need_the_weights(task, name):
    def outcome(rows):
        try:
            return scorers()[name].score(rows.ensemble, rows)[0]
        except debias.DebiasError as error:
            return type(error)

    rows = toy_rows(task)
    stored, absent = outcome(rows), outcome(without(rows))
    if "shap" in name:
        assert absent is debias.UnsupportedModelError
    elif isinstance(stored, type):  # the toy model is refused for another reason
        assert absent is stored
    else:
        assert absent.shape == stored.shape
        assert np.isfinite(absent).all()
