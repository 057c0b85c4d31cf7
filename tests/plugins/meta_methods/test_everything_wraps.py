"""Every scorer that comes with debias goes into every meta-method that suits it."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import debias
from debias_bench import simulate

OF_MODELS = (
    *("mdi", "mdi_oob", "ufi", "oob_split", "oob_loss", "honest_splits"),
    *("native", "permutation(n_repeats=1)", "shap", "shap_oob"),
)
OF_DATA = (
    *("gini_merit", "entropy_merit", "gain_ratio", "symmetric_uncertainty", "chi_square", "contextual_merit"),
    *("guide(replicates=2, alpha=0.4)", "oob_forest(n_estimators=3)"),
)
WRAPPED = (
    "response_permutation({}, replicates=2)",
    "shadow({}, replicates=2)",
    "partial_permutation({}, replicates=2)",
    "threshold(response_permutation({}, replicates=2), alpha=0.5)",
)


@pytest.fixture(scope="module")
def given():
    drawn = simulate.strobl(60, seed=0)
    X, y = drawn.numeric, drawn.y
    return RandomForestClassifier(5, random_state=0, min_samples_leaf=5).fit(X, y), X, y


@pytest.mark.parametrize("wrapped", WRAPPED)
@pytest.mark.parametrize("scorer", OF_MODELS)
def test_every_meta_method_wraps_every_scorer_of_models(scorer, wrapped, given):
    check(debias.score(*given, wrapped.format(scorer), random_state=0), given[1], scorer, wrapped)


@pytest.mark.parametrize("wrapped", WRAPPED)
@pytest.mark.parametrize("scorer", OF_DATA)
def test_every_meta_method_wraps_every_scorer_of_data(scorer, wrapped, given):
    check(debias.score(None, *given[1:], wrapped.format(scorer), random_state=0), given[1], scorer, wrapped)


@pytest.mark.parametrize("scorer", [each for each in OF_MODELS if each != "permutation(n_repeats=1)"])
def test_groups_inside_are_summed_first(scorer, given):
    groups = {"rest": ["X3", "X4", "X5"]}
    whole = debias.score(*given, f"response_permutation({scorer}, replicates=2)", random_state=0).null
    grouped = debias.score(*given, f"response_permutation({scorer}, replicates=2)", random_state=0, groups=groups).null
    np.testing.assert_allclose(grouped[:, 2], whole[:, 2:].sum(axis=1), rtol=1e-9, atol=1e-12)


def check(scores, X, scorer, wrapped):
    assert scores.values.shape == (X.shape[1],)
    assert np.isfinite(scores.values).all()
    assert scores.null.shape == (2, X.shape[1])
    assert scores.null.std() > 0, "the replicates are different draws"
    assert scorer.partition("(")[0] in scores.scorer
    assert (scores.selected is not None) == wrapped.startswith("threshold")
