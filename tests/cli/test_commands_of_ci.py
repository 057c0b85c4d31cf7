"""No name is a command of a CI service, in any format or error, on standard output or standard error."""

import json
import re

import numpy as np
import pandas as pd
import pytest
import skops.io
from click.testing import CliRunner
from sklearn.ensemble import RandomForestRegressor

import debias
from debias.cli import main
from debias.text import escaped, json_text, without_commands

NAMES = [
    "::error::stop",
    " ::add-mask::x",
    "##vso[task.complete result=Succeeded;]done",
    "a ##vso[task.setvariable]b",
    "##[group]x",
    "##teamcity[buildStatus status='SUCCESS']",
    "\x1b[0Ksection_start:1:x\r\x1b[0K",
    "line\n::error::two",
    "long " * 40 + "::warning::x",
]
COMMAND = re.compile(r"^\s*::|##[\w.-]*\[|section_(start|end):\d+:[^\r]*\r\x1b", re.MULTILINE)


def quiet(text):
    assert COMMAND.search(text.replace("\r", "\n")) is None, COMMAND.search(text)
    assert "\x1b" not in text


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A model whose columns, file and response have names that are commands."""
    home = tmp_path_factory.mktemp("ci")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, len(NAMES))), columns=NAMES)
    y = X.iloc[:, 0] + rng.normal(size=200)
    model = RandomForestRegressor(3, max_depth=2, random_state=0).fit(X[:100], y[:100])
    return model, X, y, home


@pytest.mark.thorough
def test_every_form_of_a_result_is_quiet_and_json_is_faithful(hostile):
    model, X, y, _ = hostile
    audit = debias.audit(model, X[100:], y[100:], ["mdi_oob"], test="naive", rows="held-out", dependence=False)
    gate = audit.check({"must_be_informative": [NAMES[2], NAMES[0]], "max_inflation": 0.5})
    scores = audit.tested_scores
    texts = [audit.to_csv(), audit.to_html(), scores.to_csv(), gate.to_csv(), gate.to_markdown(), gate.to_junit()]
    texts += [audit.to_json(), audit.to_json(indent=None), scores.to_json(), gate.to_json(), *audit.summary()]
    for text in texts:
        quiet(text)
    assert json.loads(scores.to_json())["feature_names"] == NAMES
    assert debias.Audit.from_json(audit.to_json()).tested_scores.feature_names == tuple(NAMES)
    assert debias.Audit.from_json(audit.to_json()).to_json() == audit.to_json()


@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_the_commands_print_none(hostile, form, monkeypatch):
    model, X, y, home = hostile
    monkeypatch.setattr("debias.models.sandbox.check", lambda *_, **__: None)
    path, data = home / "##vso[x].skops", home / "##[y].parquet"
    skops.io.dump(model, path)
    X[100:].assign(outcome=y).to_parquet(data)
    (home / "policy.toml").write_text('must_be_informative = ["##vso[a]"]\n[history]\n')
    for arguments in (
        ["audit", path, data, "--target", "outcome", "--format", form],
        ["audit", path, data, "--target", "##vso[outcome]"],
        ["audit", path, data, "--target", "outcome", "--scorer", "##vso[scorer]"],
        ["audit", path, home / "::error::", "--target", "outcome"],
        ["##vso[command]"],
        ["score", path, data, "--target", "outcome", "--format", form],
        ["check", path, data, "--target", "outcome", "--format", form, "--policy", home / "policy.toml"],
    ):
        done = CliRunner().invoke(main, [str(argument) for argument in arguments])
        quiet(done.stdout)
        quiet(done.stderr)
        if form == "json" and done.exit_code == 0:
            json.loads(done.stdout)


def test_our_own_commands_for_github_are_written(hostile, monkeypatch):
    model, X, y, home = hostile
    monkeypatch.setattr("debias.models.sandbox.check", lambda *_, **__: None)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    skops.io.dump(model, home / "model.skops")
    X[100:].assign(outcome=y).to_parquet(home / "rows.parquet")
    (home / "failing.toml").write_text("min_rows = 1000\n")
    given = [
        "check",
        home / "model.skops",
        home / "rows.parquet",
        "--target",
        "outcome",
        "--policy",
        home / "failing.toml",
    ]
    done = CliRunner().invoke(main, [str(argument) for argument in given])
    assert re.search(r"^::error title=debias check::", done.stderr, re.MULTILINE)
    assert "##vso[" not in done.output


def test_errors_in_python_are_quiet():
    with pytest.raises(debias.DebiasError) as caught:
        debias.plugin.scorer("##vso[task.complete]")
    quiet(str(caught.value))


def test_what_is_no_command_stays():
    for text in ("std::vector", "a::b", "# title", "## title", "#[x]", "## [x]", "x = 1"):
        assert without_commands(text) == escaped(text) == text
    assert json.loads(json_text({"##[a": "::b"})) == {"##[a": "::b"}
