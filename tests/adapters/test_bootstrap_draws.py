"""Tests of the compiled bootstrap: it draws what NumPy draws, or is not used."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.utils import check_random_state

import debias
from debias.hooks.registry import plugin_manager
from debias_adapters.sklearn.kernels import bootstrap


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**31 - 1, 2**32 - 1])
@pytest.mark.parametrize("n_rows", [1, 2, 3, 623, 624, 625, 32768, 32769, 100_003])
def test_draws_are_those_of_random_state(seed, n_rows):
    for n_drawn in (1, n_rows // 2 + 1, n_rows):
        drawn = np.empty(n_drawn, dtype=np.int32)
        bootstrap.draw(np.uint32(seed), n_rows, drawn)
        np.testing.assert_array_equal(drawn, np.random.RandomState(seed).randint(0, n_rows, n_drawn))


@pytest.mark.parametrize("settings", [{}, {"max_samples": 0.3}, {"class_weight": "balanced"}])
def test_bags_are_those_scikit_learn_says(settings):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(203, 4)), rng.integers(0, 2, 203)
    forest = RandomForestClassifier(12, random_state=3, **settings).fit(X, y)
    bags = plugin_manager().hook.debias_in_bag(model=forest, y=y, sample_weight=None)
    for tree, drawn in enumerate(forest.estimators_samples_):
        inside = np.bincount(drawn, minlength=203)
        np.testing.assert_array_equal(np.flatnonzero(inside == 0), bags.out_of_bag(tree))
        np.testing.assert_array_equal(bags.draw(tree) > 0, inside > 0)


def test_a_draw_that_scikit_learn_changed_is_left_to_it(monkeypatch):
    """Were its function to draw otherwise, that function is asked for every tree."""
    from sklearn.ensemble import _forest

    if _forest._generate_sample_indices.__code__.co_argcount != 4:
        pytest.skip("another signature before scikit-learn 1.9")
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 3)), rng.normal(size=150)

    def half(random_state, n_samples, n_samples_bootstrap, sample_weight):
        return check_random_state(random_state).permutation(n_samples)[: n_samples_bootstrap // 2].astype(np.int32)

    monkeypatch.setattr(_forest, "_generate_sample_indices", half)
    forest = RandomForestRegressor(5, random_state=0).fit(X, y)
    scores = debias.score(forest, X, y)
    assert scores.rows == "oob"
    assert scores.provenance["status"] == "proven"
