"""`debias interactions`: its output, files and exit codes."""

import json
import re

import numpy as np
import pandas as pd
import pytest
import xgboost
from click.testing import CliRunner

from debias.cli import main
from debias.results.interactions import Interactions


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(800, 4)), columns=list("abcd"))
    table = X.assign(outcome=X["a"] + 2 * X["b"] * X["c"] + rng.normal(size=800), day=np.arange(800) // 10)
    home = tmp_path_factory.mktemp("interactions")
    model = xgboost.XGBRegressor(n_estimators=40, max_depth=3, n_jobs=1).fit(X[:400], table["outcome"][:400])
    model.save_model(home / "model.ubj")
    table[400:].to_csv(home / "heldout.csv", index=False)
    return home


@pytest.fixture(autouse=True)
def loaded_at_once(monkeypatch):
    """Leave out the child process that tries a model file first; tests/models/test_files.py tests it."""
    monkeypatch.setattr("debias.models.sandbox.check", lambda *_: None)


def run(home, *more):
    given = [home / "model.ubj", home / "heldout.csv", "--target", "outcome"]
    return CliRunner().invoke(main, ["interactions", *map(str, [*given, *more])])


@pytest.mark.thorough
@pytest.mark.quick
def test_it_prints_what_is_confirmed_and_writes_the_page(files, tmp_path):
    done = run(files, "--drop", "day", "--html", tmp_path / "page.html")
    assert done.exit_code == 0, done.output
    text = re.sub(r"\s+", " ", done.stdout)
    assert "1 of 6 tested interactions is confirmed: b with c (" in text
    assert "b with c" in (tmp_path / "page.html").read_text()


def test_triples_are_tested_beside_the_pairs_of_features(files):
    given = ["--blocks", "day", "--feature", "b", "--feature", "c", "--triple", "c", "a", "b", "--format", "json"]
    done = run(files, *given)
    assert done.exit_code == 0, done.output
    found = Interactions.from_dict(json.loads(done.stdout))
    assert found.sets == [("b", "c"), ("a", "b", "c")]
    assert found.n_blocks == 40
    one = run(files, "--drop", "day", "--feature", "b", "--triple", "a", "b", "c")
    assert one.exit_code == 2
    assert "a pair needs two features" in one.output


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--feature", "a"], "a pair needs two features: give --feature again"),
        (["--with", "a", "--feature", "a"], "a pair needs two features: give --feature again"),
        (["--with", "a", "--triple", "a", "b", "c"], "--triple and --with exclude each other"),
    ],
)
def test_wrong_use_is_said_in_words_of_the_shell(files, given, message):
    done = run(files, "--drop", "day", *given)
    assert (done.exit_code, message in done.output) == (2, True)


def test_a_feature_named_twice_is_no_triple(files):
    done = run(files, "--drop", "day", "--triple", "a", "b", "a")
    assert done.exit_code != 0
    assert "('a', 'b', 'a') in features is not two or three different features" in done.output
