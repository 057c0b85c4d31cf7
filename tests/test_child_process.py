"""Files of the current directory are never run: not by the command, and not by the processes it starts."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import debias
from debias import child_process
from debias.models.sandbox import check
from support import simulated

SHADOWS = ("html", "json", "numpy", "sitecustomize", "usercustomize", "pickle", "struct", "runpy", "xgboost", "random")
COMMAND = str(Path(sys.executable).parent / "debias")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory, models):
    """A folder with a model, rows and a policy, and a module for every name that is likely to be imported."""
    here = tmp_path_factory.mktemp("hostile")
    X, y = simulated.rows(300, names="abc")
    models("xgboost", n_estimators=5).fit(X[:200], y[:200]).save_model(here / "model.ubj")
    X[200:].assign(outcome=y[200:]).to_csv(here / "rows.csv", index=False)
    X[:200].assign(outcome=y[:200]).to_csv(here / "train.csv", index=False)
    (here / "debias.toml").write_text("min_rows = 50\n")
    trap = f"open({str(here / 'run')!r}, 'a').write(__name__ + chr(10))\n"
    for name in SHADOWS:
        (here / f"{name}.py").write_text(trap)
    (here / "debias").mkdir()
    for name in ("__init__", "child_process", "digest"):
        (here / "debias" / f"{name}.py").write_text(trap)
    (here / "joblib").mkdir()
    (here / "joblib" / "__init__.py").write_text(trap)
    return here


def run(here, command):
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    return subprocess.run(command, cwd=here, env=kept, capture_output=True, text=True, check=False, timeout=300)


def test_the_traps_are_sprung_where_python_is_started_without_care(hostile):
    run(hostile, [sys.executable, "-c", "import html"])
    assert (hostile / "run").read_text() == "html\n"
    (hostile / "run").unlink()


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["audit", "--format", "json"], marks=pytest.mark.integration),
        pytest.param(["check", "--policy", "debias.toml"], marks=pytest.mark.integration),
        pytest.param(["score", "--scorer", "response_permutation(mdi_oob, replicates=3)", "--train", "train.csv",
                      "--params", "params.json", "--jobs", "2"], marks=pytest.mark.integration),
    ],
    ids=["audit", "check", "workers"],
)  # fmt: skip
def test_a_hostile_directory_changes_nothing(hostile, tmp_path, arguments):
    (hostile / "params.json").write_text('{"max_depth": 6}')
    plain = tmp_path / "plain"
    plain.mkdir()
    for name in ("model.ubj", "rows.csv", "train.csv", "debias.toml", "params.json"):
        (plain / name).write_bytes((hostile / name).read_bytes())
    command = [
        COMMAND,
        arguments[0],
        "model.ubj",
        "rows.csv",
        "--target",
        "outcome",
        "--random-state",
        "0",
        *arguments[1:],
    ]
    expected, found = run(plain, command), run(hostile, command)
    assert not (hostile / "run").exists(), (hostile / "run").read_text()
    assert (found.returncode, found.stdout) == (expected.returncode, expected.stdout)
    assert found.returncode in (0, 1), found.stderr


@pytest.mark.thorough
def test_children_find_what_the_parent_finds_and_not_the_current_directory(hostile, monkeypatch):
    monkeypatch.chdir(hostile)
    monkeypatch.setattr(sys, "path", ["", str(hostile), "relative", *sys.path])
    check("model.ubj")
    code = "import debias, json; print(json.dumps([debias.__file__, sys.path, sys.argv[1:]]))"
    done = subprocess.run(child_process.command(code, "a b"), capture_output=True, text=True, check=True)

    home, path, arguments = json.loads(done.stdout)
    assert home == debias.__file__
    assert arguments == ["a b"]
    assert path == [each for each in sys.path[3:] if each != str(hostile)]
    assert not (hostile / "run").exists()


def test_the_directory_debias_is_imported_from_stays(monkeypatch):
    monkeypatch.chdir(Path(child_process.__file__).parents[1])
    assert str(Path.cwd()) in child_process.search_path()


def test_the_environment_is_as_before(monkeypatch):
    monkeypatch.setenv("PYTHONSAFEPATH", "x")
    with child_process.safe_path():
        assert os.environ["PYTHONSAFEPATH"] == "1"
    assert os.environ["PYTHONSAFEPATH"] == "x"
    monkeypatch.delenv("PYTHONSAFEPATH")
    with child_process.safe_path():
        pass
    assert "PYTHONSAFEPATH" not in os.environ
