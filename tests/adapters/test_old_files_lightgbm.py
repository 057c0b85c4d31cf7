"""Model texts that LightGBM 3.3 and 4.0 wrote (tests/old_files/make_lightgbm.py) load, and are audited as new ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import debias

FOLDER = Path(__file__).parents[1] / "old_files" / "lightgbm"
FILES = sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.glob("*/*.txt"))
REFUSED = {
    "custom": "with a function as its objective.*text files do not",
}
READ = [name for name in FILES if name.partition("/")[2] not in REFUSED]
NOT_TOLD = "cannot check whether these rows contain training rows"
MORE_COLUMNS = {"labels": ["label"], "codes": ["code"]}
SAME_AFTER_REFIT = (
    "regression",
    "binary",
    "multiclass",
    "rf",
    "dart",
    "zero_as_missing",
    "labels",
    "codes",
    "linear_tree",
)
"""Models that newer versions train in the same way, to the last digit but a few; lines to those of float32."""


@pytest.fixture(scope="module")
def rows():
    return pd.read_csv(FOLDER / "rows.csv")


def of(name, rows, part):
    """Return the training rows or the fresh rows of a model, and their response."""
    kind, chosen = name.partition("/")[2], rows[rows["part"] == part].reset_index(drop=True)
    X, y = chosen[list("abcd") + MORE_COLUMNS.get(kind, [])], chosen["y"].to_numpy()
    if kind == "labels":
        X = X.assign(label=pd.Categorical(X["label"]))
    return X, {
        "binary": (y > 0.5).astype(int),
        "rf_binary": (y > 0.5).astype(int),
        "multiclass": np.digitize(y, [0.0, 1.2]),
    }.get(kind, y)


def load(name):
    return debias.load_model(FOLDER / f"{name}.txt")


def test_there_are_files_of_each_version():
    assert {name.partition("/")[0] for name in FILES} == {"3.3.5", "4.0.0"}
    assert len(FILES) == 2 * 14


@pytest.mark.parametrize("name", READ)
def test_a_file_predicts_what_its_version_predicted(name, rows):
    model, (X, _) = load(name), of(name, rows, "fresh")
    np.testing.assert_allclose(model.predict(X, raw_score=True), np.loadtxt(FOLDER / f"{name}.csv"), rtol=1e-12)


@pytest.mark.filterwarnings("ignore:y varies .* as much as the predictions:debias.DebiasWarning")
@pytest.mark.parametrize("name", READ)
def test_a_file_is_audited_on_fresh_rows(name, rows):
    scorers = ["mdi_oob", "oob_split"] if "linear_tree" in name else ["mdi_oob", "oob_loss", "shap"]
    audit = debias.audit(load(name), *of(name, rows, "fresh"), scorers, rows="held-out")
    for scores in audit.scores.values():
        assert scores.feature_names[:4] == ("a", "b", "c", "d")
        signal, noise = scores.values[:2], np.abs(scores.values[2:4])
        assert (signal.min() > noise.max()) == ("single_leaf" not in name)


@pytest.mark.parametrize("name", READ)
def test_its_training_rows_are_refused(name, rows):
    model, (X, y) = load(name), of(name, rows, "train")
    order = np.random.default_rng(0).permutation(len(y))
    message = NOT_TOLD if "single_leaf" in name else "training rows"
    with pytest.raises((debias.ProvenanceError, debias.DebiasWarning), match=message):  # little tells of few rows
        debias.score(model, X.iloc[order], y[order])


@pytest.mark.parametrize("version", ["3.3.5", "4.0.0"])
def test_the_bags_of_a_forest_are_proven(version, rows):
    name = f"{version}/rf"
    assert debias.score(load(name), *of(name, rows, "train")).provenance["status"] == "proven"


@pytest.mark.parametrize("name", [name for name in READ if name.partition("/")[2] in SAME_AFTER_REFIT])
def test_a_file_keeps_what_a_refit_needs(name, rows):
    model = load(name)
    again = debias.refit(model, *of(name, rows, "train"))
    X, _ = of(name, rows, "fresh")
    np.testing.assert_allclose(again.predict(X), model.predict(X), rtol=1e-5 if "linear_tree" in name else 1e-9)


@pytest.mark.parametrize("name", [name for name in FILES if name not in READ])
def test_what_cannot_be_audited_is_refused_by_its_reason(name):
    with pytest.raises(debias.UnsupportedModelError, match=REFUSED[name.partition("/")[2]]):
        load(name)
