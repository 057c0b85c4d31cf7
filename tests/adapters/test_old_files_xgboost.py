"""Files of models that older versions of XGBoost wrote: tests/old_files/make_xgboost.py made them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import xgboost

import debias
from debias.trees.routing import raw_output, route
from support.versions import at_least

HOME = Path(__file__).parents[1] / "old_files/xgboost"
N_TRAIN = 100
VERSIONS = ("1.7.6", "2.1.4", "3.0.5")
NAMES = ("squared", "logistic", "softprob", "absolute", "dart", "categories", "stopped")
EACH = pytest.mark.parametrize(
    ("version", "name", "ending"),
    [(version, name, ending) for version in VERSIONS for name in NAMES for ending in ("json", "ubj")],
)


def rows(name):
    table = np.loadtxt(HOME / "rows.csv", delimiter=",", skiprows=1)
    X, y = table[:, :4], table[:, 4]
    if name == "logistic":
        return X, (y > 1) * 1
    return X, np.digitize(y, [0, 1.5]) if name == "softprob" else y


def loaded(version, name, ending):
    return debias.load_model(HOME / version / f"{name}.{ending}")


@EACH
def test_margins_are_those_of_the_version_that_wrote_the_file(version, name, ending):
    X, _ = rows(name)
    ensemble = debias.plugin.extract(loaded(version, name, ending))
    expected = np.array(json.loads((HOME / version / "margins.json").read_text())[name]).reshape(len(X), -1)
    np.testing.assert_allclose(
        raw_output(ensemble, route(ensemble, X.astype(np.float32))), expected, rtol=1e-5, atol=1e-5
    )


@EACH
@pytest.mark.filterwarnings("ignore:these rows differ from the training rows:debias.DebiasWarning")
def test_fresh_rows_are_audited_and_training_rows_refused(version, name, ending):
    X, y = rows(name)
    model = loaded(version, name, ending)
    audit = debias.audit(model, X[N_TRAIN:], y[N_TRAIN:], ["mdi_oob", "oob_loss"], rows="held-out")
    values = audit.scores["mdi_oob"].values
    assert values.argmax() in (0, 2)  # the columns that the response depends on most
    with pytest.raises(debias.ProvenanceError, match="these are the training rows"):
        debias.score(model, X[:N_TRAIN][::-1], y[:N_TRAIN][::-1])


def test_a_file_whose_base_score_the_installed_version_misreads_is_refused(monkeypatch):
    """XGBoost before 3.1 reads 0.5 in place of a list, and predicts without an error."""
    if at_least("xgboost", "3.1"):
        monkeypatch.setattr(xgboost, "__version__", "3.0.5")
    with pytest.raises(debias.UnsupportedModelError, match=r"is installed, which reads its base score as 0\.5"):
        debias.load_model(HOME.parent / "pmml/plain_extreme.json")
