"""`debias monitor fleet` and `debias monitor metrics`."""

import csv
import io
import json
import os
import shutil

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.ensemble import GradientBoostingRegressor

import debias
from debias.cli import main

WINDOWS = ("--recent", "9", "--reference", "first 20")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Histories of 29 days: nothing changed, age permuted from day 20 on; and a file of another program."""
    here = tmp_path_factory.mktemp("fleet")
    rng = np.random.default_rng(0)

    def rows(n_rows):
        X = pd.DataFrame(rng.normal(size=(n_rows, 3)), columns=["bmi", "age", "noise"])
        return X, X["bmi"] + X["age"] + 0.5 * rng.normal(size=n_rows)

    model = GradientBoostingRegressor(n_estimators=30, random_state=0).fit(*rows(500))
    histories = {name: debias.History(model, here / f"{name}.history") for name in ("same", "broken")}
    for day in range(1, 30):
        X, y = rows(100)
        for name, history in histories.items():
            broken = name == "broken" and day > 20
            history.add(X.assign(age=rng.permutation(X["age"])) if broken else X, y, at=f"2026-10-{day:02}")
    (here / "foreign.history").write_text("no history")
    return here


@pytest.fixture
def run(home, monkeypatch):
    monkeypatch.chdir(home)
    return lambda *arguments: CliRunner().invoke(main, ["monitor", *map(str, arguments)])


@pytest.mark.thorough
def test_the_lines_are_those_of_the_library_and_the_code_is_that_of_the_worst(run):
    expected = debias.History.fleet("*.history", 9, "first 20")
    done = run("fleet", "*.history", *WINDOWS)
    assert done.exit_code == 1
    assert done.stdout.startswith("1 of 3 models needs a look: broken.history.")
    assert "features that cost more than before: age" in " ".join(done.stdout.split())
    assert run("fleet", "same.history", "foreign.history", *WINDOWS).exit_code == 4
    assert run("fleet", "same.history", *WINDOWS).exit_code == 0
    assert run("fleet", "same.history", *WINDOWS, "--max-age-days", "1e6").exit_code == 0
    assert run("fleet", "same.history", *WINDOWS, "--max-age-days", "0").exit_code in (0, 1)  # by the clock
    found = json.loads(run("fleet", "*.history", *WINDOWS, "--format", "json").stdout)
    assert found["models"] == json.loads(expected.to_json())["models"]
    rows = list(csv.DictReader(io.StringIO(run("fleet", "*.history", *WINDOWS, "--format", "csv").stdout)))
    assert [row["verdict"] for row in rows] == ["needs a look", "not judged", "nothing found"]


def test_reasons_are_in_the_words_of_the_commands(run):
    done = run("fleet", "same.history", "--recent", "9", "--reference", "2026-10-15..2026-10-25", "--format", "csv")
    assert done.exit_code == 4
    assert "--reference and --recent have periods in common" in done.stdout.replace("=", "")


def test_wrong_use_is_an_error(run):
    for arguments, code, message in (
        (("fleet",), 2, "HISTORIES"),
        (("fleet", "none*"), 2, "no file fits 'none*'"),
        (("fleet", "*.history", "--recent", "x"), 2, "--recent x is not a window"),
        (("fleet", "*.history", "--html", "same.history"), 2, "the same file"),
        (("metrics", "*.history", "--output", "same.history"), 2, "the same file"),
        (("fleet", "*.history", "--looks", "0"), 2, "--looks"),
    ):
        done = run(*arguments)
        assert done.exit_code == code, (arguments, done.output)
        assert message in " ".join(done.stderr.split()), (arguments, done.stderr)


def test_metrics_are_written_whatever_they_tell(run, tmp_path):
    done = run("metrics", "*.history", *WINDOWS)
    assert done.exit_code == 0
    assert done.stdout == debias.History.fleet("*.history", 9, "first 20").to_prometheus()
    assert 'debias_verdict{history="foreign.history",series="",verdict="not judged"} 1.0' in done.stdout.splitlines()
    path = tmp_path / "debias.prom"
    assert run("metrics", "*.history", *WINDOWS, "--output", path).exit_code == 0
    assert path.read_text() == done.stdout
    assert os.listdir(tmp_path) == ["debias.prom"]


@pytest.mark.thorough
def test_the_page_has_a_page_of_each_model_beside_it(run, tmp_path, home):
    shutil.copy(home / "broken.history", tmp_path)
    done = run("fleet", tmp_path / "broken.history", *WINDOWS, "--html", tmp_path / "page.html")
    assert done.exit_code == 1, done.output
    assert 'href="page_models/broken.html"' in (tmp_path / "page.html").read_text()
    assert "This model needs a look" in (tmp_path / "page_models/broken.html").read_text()
