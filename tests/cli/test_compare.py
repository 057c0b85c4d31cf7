"""`debias compare`: its output, files and exit codes."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from lightgbm import LGBMClassifier
from xgboost import XGBClassifier

import debias
from debias.cli import main
from debias.results.model_comparison import ModelComparison


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two models: one takes a, b and c; the other d, a, b and the town, whose labels look like numbers."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(1200, 4)), columns=list("abcd"))
    X["town"] = pd.Categorical(rng.choice(["01", "02", "x"], 1200))
    y = (X["a"] + X["b"] * (X["c"] > 0) + (X["town"] == "01") + 0.8 * rng.normal(size=1200) > 0.5).astype(int)
    home = tmp_path_factory.mktemp("compare")
    seen = slice(0, 700)
    old = XGBClassifier(n_estimators=20, max_depth=3, n_jobs=1).fit(X.iloc[seen][["a", "b", "c"]], y[seen])
    new = LGBMClassifier(n_estimators=20, n_jobs=1, verbose=-1).fit(X.iloc[seen][["d", "a", "b", "town"]], y[seen])
    old.save_model(home / "old.ubj")
    new.booster_.save_model(home / "new.txt")
    table = X.assign(y=y, day=np.arange(1200) // 20, note="NA")[700:]
    table.to_csv(home / "rows.csv", index=False)
    (home / "debias.toml").write_text('[models]\nmax_loss_increase = 0.5\nmust_not_save_less = ["c"]\n')
    return home, debias.compare(new, X[700:], y[700:], baseline=old)


@pytest.fixture(autouse=True)
def loaded_at_once(monkeypatch):
    """Leave out the child process that tries a model file first; tests/models/test_files.py tests it."""
    monkeypatch.setattr("debias.models.sandbox.check", lambda *_: None)


def run(home, *more):
    given = [home / "new.txt", home / "rows.csv", "--target", "y", "--baseline", home / "old.ubj"]
    return CliRunner().invoke(main, ["compare", *map(str, [*given, *more])])


@pytest.mark.thorough
def test_it_has_the_numbers_of_python(files, tmp_path):
    home, expected = files
    done = run(home, "--format", "json", "--html", tmp_path / "page.html", "--json", tmp_path / "found.json")
    assert done.exit_code == 0, done.output
    found = ModelComparison.from_dict(json.loads(done.stdout))
    assert found.to_json() == ModelComparison.from_json(tmp_path / "found.json").to_json()
    assert found.loss.change == pytest.approx(expected.loss.change, abs=1e-9)
    np.testing.assert_allclose(found.to_frame()["cost"], expected.to_frame()["cost"], atol=1e-9)
    assert found.only_in == expected.only_in
    assert "How the losses differ" in (tmp_path / "page.html").read_text()
    table = run(home, "--blocks", "day")
    assert table.exit_code == 0, table.output
    assert "25 blocks of 500 rows" in " ".join(table.stdout.split())


def test_the_gate_ends_the_run(files, tmp_path):
    home, _ = files
    done = run(home, "--policy", home / "debias.toml", "--junit", tmp_path / "gate.xml", "--format", "json")
    rules = {result["rule"]: result["status"] for result in json.loads(done.stdout)["results"]}
    assert rules["max_loss_increase"] == "passed"
    assert done.exit_code == {"passed": 0, "failed": 1}[rules["must_not_save_less: c"]]
    assert "max_loss_increase" in (tmp_path / "gate.xml").read_text()
    assert 'name="debias compare"' in (tmp_path / "gate.xml").read_text()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--junit", "x.xml"], "are about rules: give --policy"),
        (["--groups", "rows.csv"], "two models are compared without --groups"),
        (["--train", "rows.csv"], "two models are compared without --train"),
        (["--qid", "c"], "two models are compared without --qid"),
        (["--rows", "oob"], "--rows oob is not one of"),
    ],
)
def test_wrong_use_is_told(files, more, message, monkeypatch):
    home, _ = files
    monkeypatch.chdir(home)
    done = run(home, *more)
    assert done.exit_code in (2, 3)
    assert message in " ".join(done.output.split())
