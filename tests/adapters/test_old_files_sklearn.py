"""Models that older versions of scikit-learn saved: their numbers are those of the saving version, or they are refused.

``tests/old_files/make_sklearn.py`` made the files, and says how.
"""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import sklearn
from click.testing import CliRunner

import debias
from debias.cli import main
from support.versions import at_least

INSTALLED = sklearn.__version__
FOLDER = Path(__file__).parent.parent / "old_files" / "sklearn"
FILES = sorted(FOLDER.glob("*.skops"))
GROWN_AS_ROUTED, KEEPS_WEIGHTS = at_least("scikit-learn", "1.8"), at_least("scikit-learn", "1.9")


def parts(path):
    """Return the name of a model and the version that saved it."""
    name, _, version = path.stem.rpartition("-")
    return name, version


def made_of(path):
    """Return X, y and the predictions of the saving version; skip files of a version newer than the installed one."""
    name, version = parts(path)
    if not at_least("scikit-learn", version):
        pytest.skip(f"scikit-learn {version} saved it, and the installed version is older")
    made = np.load(FOLDER / f"rows-{version}.npz")
    X = made["with_holes"] if name == "missing" else made["X"]
    return X, made["labels"] if name.endswith("classes") else made["y"], made[f"of {name}"]


def loaded(path):
    if path.stem.endswith(INSTALLED):
        return debias.load_model(path)
    with pytest.warns(debias.DebiasWarning, match=f"another version of scikit-learn: {parts(path)[1]}, and"):
        return debias.load_model(path)


@pytest.mark.parametrize("path", [path for path in FILES if parts(path)[0] != "missing"], ids=lambda path: path.stem)
def test_a_file_predicts_and_scores_as_where_it_was_saved(path):
    X, y, predicted = made_of(path)
    model = loaded(path)
    found = model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)
    np.testing.assert_array_equal(found, predicted)
    name = parts(path)[0]
    if name.startswith(("boosting", "histograms")):
        with pytest.raises(debias.ProvenanceError, match="training rows"):
            debias.score(model, X, y)
        fresh = np.random.default_rng(1).normal(size=X.shape)
        scores = debias.score(model, fresh, y, rows="held-out")  # compares leaves and output with the library's
    else:
        scores = debias.score(model, X, y)
        assert (scores.rows, scores.provenance["status"]) == ("oob", "proven")
    assert scores.values.any()
    told = [text for text in scores.warnings if "another version of scikit-learn" in text]
    assert len(told) == (not path.stem.endswith(INSTALLED))


@pytest.mark.parametrize("path", [path for path in FILES if parts(path)[0] == "missing"], ids=lambda path: path.stem)
def test_a_forest_grown_with_missing_values_is_refused_or_doubted(path):
    X, y, _ = made_of(path)
    if not GROWN_AS_ROUTED:
        with pytest.raises(debias.UnsupportedModelError, match="grows trees with missing values on other rows"):
            debias.load_model(path)
        return
    model = loaded(path)
    with pytest.raises(debias.ProvenanceError):
        debias.score(model, X, y, rows="oob")
    scores = debias.score(model, np.random.default_rng(1).normal(size=(40, 3)), y[:40], rows="held-out")
    assert any("a scikit-learn before 1.9 trained this forest" in text for text in scores.warnings) == KEEPS_WEIGHTS


def test_the_version_is_told_in_the_result_of_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr("debias.models.sandbox.check", lambda *_: None)  # has its own tests
    path = FOLDER / "forest-1.5.2.skops"
    X, y, _ = made_of(path)
    np.savetxt(tmp_path / "rows.csv", np.column_stack([X, y]), delimiter=",", header="x0,x1,x2,y", comments="")
    given = [str(path), str(tmp_path / "rows.csv"), "--target", "y", "--format", "json"]
    done = CliRunner().invoke(main, ["audit", *given])
    assert done.exit_code == 0, done.output
    told = any("another version of scikit-learn: 1.5.2, and" in text for text in json.loads(done.stdout)["warnings"])
    assert told != path.stem.endswith(INSTALLED)


def test_a_pickle_that_cannot_be_loaded_names_the_version_and_the_way_out(tmp_path):
    (tmp_path / "old.pkl").write_bytes(b"\x80\x04c_loss\nNoSuchLoss\n.")
    with pytest.raises(debias.UnsupportedModelError, match=r"another version of scikit-learn.*save it with skops"):
        debias.load_model(tmp_path / "old.pkl", allow_pickle=True)


def test_another_type_of_that_old_module_is_not_trusted(tmp_path):
    """The old name of a module is replaced, and then the types are judged: a name that skops does not know is named."""
    path, other = FOLDER / "boosting-1.5.2.skops", tmp_path / "other.skops"
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(other, "w") as changed:
        for name in archive.namelist():
            text = archive.read(name)
            changed.writestr(name, text.replace(b"CyHalfSquaredError", b"make_it") if name == "schema.json" else text)
    with pytest.raises(debias.UntrustedModelError, match=r"_loss\.make_it"):
        debias.load_model(other)


def test_what_the_columns_of_a_remainder_hold_is_judged(tmp_path):
    """Only the list that scikit-learn 1.5 and 1.6 keep them in is replaced."""
    other = tmp_path / "other.skops"
    with zipfile.ZipFile(FOLDER / "remainder-1.5.2.skops") as archive, zipfile.ZipFile(other, "w") as changed:
        for name in set(archive.namelist()) - {"schema.json"}:
            changed.writestr(name, archive.read(name))
        schema = json.loads(archive.read("schema.json"))
        encode = schema["content"]["content"]["steps"]["content"][0]["content"][1]["content"]["content"]
        columns = encode["_remainder"]["content"][2]
        assert columns["__class__"] == "_RemainderColsList"
        function = {"__class__": "system", "__module__": "os", "__loader__": "FunctionNode", "__id__": 1}
        function["content"] = {"module_path": "os", "function": "system"}
        columns["content"]["content"]["data"]["content"].append(function)
        changed.writestr("schema.json", json.dumps(schema))
    with pytest.raises(debias.UntrustedModelError, match=r"not trusted: os\.system"):
        debias.load_model(other)
