"""Tests of refits on arrays, for models that know names of columns."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import debias

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(120, 2)), columns=["a", "b"])
Y = (X["a"] + RNG.normal(size=120) > 0).astype(int).to_numpy()
CHANGING = "feature_permutation(mdi_oob, replicates=2, rule='z')"
COPYING = "shadow(mdi_oob, replicates=2)"


def forest():
    return RandomForestClassifier(5, random_state=0)


def figures(model, rows, scorer, feature_names=None, **options):
    given = debias.Dataset(rows, Y, feature_names=feature_names)
    return debias.score(model, given, scorer=scorer, random_state=0, **options).to_frame().iloc[:, 0]


@pytest.mark.parametrize("scorer", [CHANGING, COPYING, "response_permutation(mdi_oob, replicates=2)"])
@pytest.mark.parametrize("feature_names", [None, ["a", "b"]])
def test_an_array_gives_the_scores_of_the_frame_that_the_model_was_trained_on(scorer, feature_names):
    model = forest().fit(X, Y)
    from_array = figures(model, X.to_numpy(), scorer, feature_names=feature_names)
    pd.testing.assert_series_equal(from_array, figures(model, X, scorer))


@pytest.mark.parametrize("scorer", [CHANGING, COPYING])
def test_names_that_the_user_passes_are_those_of_refits(scorer):
    named = figures(forest().fit(X.to_numpy(), Y), X.to_numpy(), scorer, feature_names=["a", "b"])
    pd.testing.assert_series_equal(named, figures(forest().fit(X, Y), X, scorer))


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")  # scikit-learn says this of the array
def test_names_that_a_pipeline_knows_are_those_of_refits():
    model = make_pipeline(StandardScaler(), forest()).fit(X, Y)
    pd.testing.assert_series_equal(figures(model, X.to_numpy(), CHANGING), figures(model, X, CHANGING))
