"""`debias audit --folds`: the models of a cross-validation from files."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
import skops.io
import xgboost
from click.testing import CliRunner
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import KFold, StratifiedKFold, cross_validate

import debias
from debias.cli import main
from support import simulated
from support.versions import READ_EXACTLY

N_ROWS, K = 150, 3
CV = KFold(K, shuffle=True, random_state=3)
GIVEN = ("--target", "y", "--folds", "fold", "--random-state", "0")


@pytest.fixture(autouse=True)
def loaded_at_once(monkeypatch):
    """Leave out the child process that tries a model file first; a test of tests/models/test_files.py has it."""
    monkeypatch.setattr("debias.models.sandbox.check", lambda *_: None)


def labels(splits):
    of_row = np.empty(N_ROWS, dtype=int)
    for k, (_, test) in enumerate(splits):
        of_row[test] = k
    return of_row


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A directory of boosters, files of several forests, and all rows with their folds."""
    home = tmp_path_factory.mktemp("folds")
    X, y = simulated.rows(N_ROWS, names=["a", "b", "c"])
    (home / "models").mkdir()
    for k, (train, _) in enumerate(CV.split(X)):
        model = xgboost.XGBRegressor(n_estimators=8, n_jobs=1).fit(X.iloc[train], y.iloc[train])
        model.save_model(home / "models" / f"model-{k}.ubj")
    X.assign(y=y, fold=labels(CV.split(X))).to_csv(home / "all.csv", index=False)
    forest = RandomForestRegressor(8, random_state=0)
    results = cross_validate(forest, X, y, cv=CV, return_estimator=True, return_indices=True)
    forests = results["estimator"]
    of_file = {
        "list": forests,
        "mapping": {str(k): forests[k] for k in (2, 0, 1)},
        "cross_validate": results,
        "swapped": forests[::-1],
        "one": forests[0],
    }
    for name, content in of_file.items():
        skops.io.dump(content, home / f"{name}.skops")
    classes = (y > 0).map({True: "yes", False: "no"})
    calibrated = CalibratedClassifierCV(RandomForestClassifier(8, random_state=0), cv=K).fit(X, classes)
    skops.io.dump(calibrated, home / "calibrated.skops")
    X.assign(y=classes, fold=labels(StratifiedKFold(K).split(X, classes))).to_csv(home / "classes.csv", index=False)
    return home


def run(*arguments):
    return CliRunner().invoke(main, ["audit", *map(str, arguments)])


def models_of(home):
    return {str(k): debias.load_model(home / "models" / f"model-{k}.ubj") for k in range(K)}


@pytest.mark.thorough
def test_a_directory_of_models_gives_the_audit_of_python(home):
    done = run(home / "models", home / "all.csv", *GIVEN, "--format", "json")
    assert done.exit_code == 0, done.output
    table = pd.read_csv(home / "all.csv", **READ_EXACTLY)
    expected = debias.audit_folds(models_of(home), table[["a", "b", "c"]], table["y"], table["fold"], random_state=0)
    assert json.loads(done.stdout) == json.loads(expected.to_json())
    assert run(home / "models", home / "all.csv", *GIVEN, "--format", "csv").stdout == expected.to_csv()


@pytest.mark.thorough
def test_the_table_says_how_many_folds_and_what_is_proven(home):
    done = run(home / "models", home / "all.csv", *GIVEN)
    assert done.exit_code == 0, done.output
    assert "rows of 3 folds" in done.stdout
    assert "informative folds" in done.stdout
    assert "It is proven for every fold" in done.stdout


@pytest.mark.thorough
def test_the_loss_of_folds_is_that_of_python(home, tmp_path):
    done = run(home / "models", home / "all.csv", *GIVEN, "--loss", "--json", tmp_path / "folds.json")
    assert done.exit_code == 0, done.output
    table = pd.read_csv(home / "all.csv", **READ_EXACTLY)
    rows = table[["a", "b", "c"]], table["y"], table["fold"]
    expected = debias.audit_folds(models_of(home), *rows, loss=True, random_state=0)
    assert json.loads((tmp_path / "folds.json").read_text())["loss"] == expected.loss.to_dict()
    assert " ".join(expected.loss.summary()[0].split()) in " ".join(done.stdout.split())
    without = run(home / "models" / "model-0.ubj", home / "all.csv", "--target", "y", "--loss")
    assert without.exit_code == 2
    assert "--loss compares folds" in without.output


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["list", "mapping", "cross_validate"])
def test_files_of_several_models_give_the_same_audit(home, name):
    done = run(home / f"{name}.skops", home / "all.csv", *GIVEN, "--format", "csv")
    assert done.exit_code == 0, done.output
    table = pd.read_csv(home / "all.csv", **READ_EXACTLY)
    models = debias.load_model(home / "list.skops")
    expected = debias.audit_folds(models, table[["a", "b", "c"]], table["y"], table["fold"], random_state=0)
    assert done.stdout == expected.to_csv()


def test_a_calibrated_classifier_is_audited_by_its_folds(home):
    done = run(home / "calibrated.skops", home / "classes.csv", *GIVEN, "--format", "json")
    assert done.exit_code == 0, done.output
    audits = json.loads(done.stdout)["audits"]
    assert len(audits) == K
    assert "before their probabilities are calibrated" in done.stderr


def test_models_in_another_order_are_refused(home):
    done = run(home / "swapped.skops", home / "all.csv", *GIVEN)
    assert done.exit_code == 3
    assert "the models are in another order than the folds" in done.stderr


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (lambda folder: (folder / "model-2.ubj").unlink(), "no file for the fold 2."),
        (lambda folder: shutil.copy(folder / "model-2.ubj", folder / "model-12.ubj"), "no rows for model-12.ubj"),
        (lambda folder: (folder / "model-2.ubj").rename(folder / "last.ubj"), "fold 2; no rows for last.ubj"),
        (lambda folder: shutil.copy(folder / "model-2.ubj", folder / "f02.ubj"), "fold 2: f02.ubj, model-2.ubj"),
    ],
    ids=["missing", "more", "both", "twice"],
)
def test_files_and_labels_that_do_not_agree_are_wrong_usage(home, tmp_path, changed, message):
    folder = tmp_path / "models"
    shutil.copytree(home / "models", folder)
    changed(folder)
    done = run(folder, home / "all.csv", *GIVEN)
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())


@pytest.mark.thorough
def test_names_of_files_may_have_zeros_signs_or_texts(home, tmp_path):
    table = pd.read_csv(home / "all.csv", **READ_EXACTLY)
    for labels_of_folds in (["fold_00", "fold01", "2"], ["of-north", "of.south", "of-south-north"]):
        folder = tmp_path / labels_of_folds[0]
        folder.mkdir()
        (folder / ".hidden").touch()
        for k, name in enumerate(labels_of_folds):
            shutil.copy(home / "models" / f"model-{k}.ubj", folder / f"{name}.ubj")
        texts = {0: "north", 1: "south", 2: "south-north"} if "north" in labels_of_folds[0] else {0: 0, 1: 1, 2: 2}
        table.assign(fold=table["fold"].map(texts)).to_csv(tmp_path / "all.csv", index=False)
        done = run(folder, tmp_path / "all.csv", *GIVEN, "--format", "csv")
        assert done.exit_code == 0, done.output
        assert done.stdout == run(home / "models", home / "all.csv", *GIVEN, "--format", "csv").stdout


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (("--rows", "oob"), 2, "leave --rows oob out"),
        (("--train", "{home}/all.csv"), 2, "leave --train out"),
        (("--test", "conservative"), 2, "is not a test of folds"),
        (("--folds", "fol"), 2, "has no column 'fol'"),
        (("--drop", "c"), 3, "c"),
    ],
    ids=["rows", "train", "test", "column", "feature"],
)
def test_wrong_options_have_the_usual_exit_codes(home, more, code, message):
    done = run(home / "models", home / "all.csv", *GIVEN, *(each.format(home=home) for each in more))
    assert done.exit_code == code
    assert message in " ".join(done.stderr.split())


def test_one_model_has_no_folds_and_several_need_them(home):
    done = run(home / "one.skops", home / "all.csv", *GIVEN)
    assert done.exit_code == 3
    assert "holds no models of folds" in done.stderr
    done = run(home / "list.skops", home / "all.csv", "--target", "y")
    assert done.exit_code == 3
    assert "the models of a cross-validation to debias audit --folds" in done.stderr


@pytest.mark.thorough
def test_the_page_and_the_json_are_written_beside_the_table(home, tmp_path):
    pytest.importorskip("debias.results.report.folds_page")
    done = run(home / "models", home / "all.csv", *GIVEN, "--html", tmp_path / "a.html", "--json", tmp_path / "a.json")
    assert done.exit_code == 0, done.output
    assert "<html" in (tmp_path / "a.html").read_text()
    assert len(debias.FoldsAudit.from_json((tmp_path / "a.json").read_text()).audits) == K
