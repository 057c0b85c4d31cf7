"""Tests of pipelines of PyCaret 4, which are scikit-learn's and need no adapter."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import debias
from debias.errors import UnsupportedModelError

pytestmark = pytest.mark.integration
N = 200


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYCARET_CUSTOM_LOGGING_PATH", str(tmp_path_factory.mktemp("logs") / "logs.log"))
        yield pytest.importorskip("pycaret.tasks")


def rows(seed):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"number": rng.normal(size=N), "noise": rng.integers(0, 3, N), "text": rng.choice(list("uvw"), N)})
    y = X["number"] + 2 * (X["text"] == "u") + 0.3 * rng.normal(size=N)
    X.loc[rng.random(N) < 0.1, "number"] = np.nan
    return X, y


def experiment(tasks, X, y, kind="RegressionExperiment"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(tasks, kind)(target="y", session_id=1).fit(X.assign(y=y))


def test_a_pipeline_is_scored_as_one_of_scikit_learn(tasks):
    X, y = rows(0)
    found = experiment(tasks, X, y)
    pipeline = found.create_model("rf").pipeline
    scores = debias.score(pipeline, found.X_train, found.y_train)
    assert scores.provenance["status"] == "proven"
    assert set(scores.feature_names) == set(X.columns)
    final = found.finalize_model(pipeline).pipeline
    assert debias.score(final, X, y).provenance["status"] == "proven"


def test_labels_are_the_numbers_of_the_experiment(tasks):
    X, y = rows(0)
    found = experiment(tasks, X, np.where(y > 1, "yes", "no"), "ClassificationExperiment")
    pipeline = found.create_model("rf").pipeline
    encoded = found.get_config("y_train_transformed")
    assert debias.score(pipeline, found.X_train, encoded).provenance["status"] == "proven"


def test_an_experiment_is_refused(tasks):
    X, y = rows(0)
    found = experiment(tasks, X, y)
    with pytest.raises(UnsupportedModelError, match="no adapter recognises"):
        debias.score(found, X, y)
