"""`debias check`, and the commands of docs/gate.md as they stand there."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner

from debias.cli import main
from support.shell import in_bash

PAGE = (Path(__file__).parents[2] / "docs/gate.md").read_text()


def block(name):
    return re.search(rf"^<!-- {name} -->\n```\w+\n(.*?)^```", PAGE, re.M | re.S).group(1)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """The files of the drift example, and the audit of the old model, made by the page's own code and command."""
    here = tmp_path_factory.mktemp("gate")
    (here / "debias.toml").write_text(block("drift policy"))
    _, *command = block("drift commands").splitlines()[0].split()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        patch.setattr("debias.models.sandbox.check", lambda *_: None)  # has its own tests
        exec(block("drift data"), {})
        done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    return here


def run(home, *arguments):
    given = ["new.ubj", "new.csv", "--target", "outcome", "--random-state", "0", *arguments]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        patch.setattr("debias.models.sandbox.check", lambda *_: None)  # has its own tests
        for name in ("GITHUB_STEP_SUMMARY", "GITHUB_ACTIONS"):
            patch.delenv(name, raising=False)
        return CliRunner().invoke(main, ["check", *given])


def without_percents(lines):
    """Return the lines without the numbers of percents, and these numbers."""
    text = "\n".join(lines)
    return re.sub(r"[0-9.]+%", "%", text), [float(each) for each in re.findall(r"([0-9.]+)%", text)]


@pytest.mark.thorough
def test_the_drift_example_names_what_changed_and_fails(home):
    done = in_bash(block("drift commands").splitlines()[1], cwd=home)
    assert done.returncode == 1, done.stderr
    printed, found = block("drift output").splitlines(), done.stdout.splitlines()
    in_words, percents = zip(*map(without_percents, (found[-len(printed) :], printed)), strict=True)
    assert in_words[0] == in_words[1]
    np.testing.assert_allclose(*percents, atol=0.5)  # they differ between versions of XGBoost
    assert "humidity: rank 2" in done.stdout
    assert "unconfirmed alone" in done.stdout


@pytest.mark.thorough
def test_the_workflow_of_the_page_runs(home, tmp_path):
    commands = re.findall(r"^      - run: (?:\|\n((?:          .*\n)+)|(.*)\n)", block("workflow"), re.M)
    install, (check, _) = commands
    assert install[1].startswith("pip install")
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    command = "\n".join(line.removeprefix("          ") for line in check.splitlines())
    done = in_bash(command, cwd=home, environment={"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)})
    assert done.returncode == 1
    assert summary.read_text().startswith("before\n## debias check: failed (2 rules failed)")
    assert "humidity" in summary.read_text()
    annotations = [line for line in done.stderr.splitlines() if line.startswith("::error")]
    assert len(annotations) == 2
    kept = re.search(r"path: \|\n((?: {12}.*\n)+)", block("workflow")).group(1).split()
    assert sorted(kept) == ["audit.json", "debias.xml", "report.html"]
    for name in kept:
        assert (home / name).stat().st_size > 0
    suite = ElementTree.parse(home / "debias.xml").getroot()[0]
    assert suite.get("failures") == "2"


@pytest.mark.thorough
def test_a_policy_that_holds_exits_with_0(home):
    (home / "good.toml").write_text('must_be_informative = ["temperature"]\n')
    done = run(home, "--policy", "good.toml", "--format", "json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["passed"] is True
    assert run(home, "--policy", "good.toml", "--format", "csv").stdout.startswith("rule,status")


@pytest.mark.parametrize(
    ("policy", "more", "code", "message"),
    [
        ("min_row = 3", [], 2, "Did you mean 'min_rows'"),
        ("max_rank_change = 1", [], 2, "pass --baseline AUDIT.json"),
        ("max_rank_change = 1", ["--baseline", "new.csv"], 3, "new.csv: not an audit or scores written by debias"),
        ("min_rows = 3", ["--rows", "train"], 3, "training rows cannot pass a gate"),
        ("min_rows = 3", ["--target", "nothing"], 2, "has no column 'nothing'"),
        ("min_rows = 3", ["--rows", "oob"], 3, "error: "),
        ("min_rows = 99999", [], 1, ""),
    ],
)
def test_exit_codes_tell_a_failed_gate_from_wrong_use_and_from_what_could_not_run(home, policy, more, code, message):
    (home / "policy.toml").write_text(policy)
    done = run(home, "--policy", "policy.toml", *more)
    assert (done.exit_code, message in done.stderr) == (code, True), done.stderr


def test_a_fault_of_ours_is_no_failed_gate(home, monkeypatch):
    (home / "policy.toml").write_text("min_rows = 1")
    monkeypatch.setattr("debias.results.gate._results", lambda *_: 1 / 0)
    done = run(home, "--policy", "policy.toml")
    assert done.exit_code == 3
    assert "ZeroDivisionError" in done.stderr


def test_without_a_policy_pyproject_is_read(home):
    (home / "pyproject.toml").write_text("[tool.debias]\nmin_rows = 99999\n")
    done = run(home)
    assert done.exit_code == 1
    assert "min_rows" in done.stdout


@pytest.mark.thorough
def test_a_reader_that_is_gone_leaves_the_verdict_in_the_junit_file(home, tmp_path):
    given = ["new.ubj", "new.csv", "--target", "outcome", "--policy", "debias.toml", "--baseline", "old.json"]
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as gone:
        command = [sys.executable, "-m", "debias.cli", "check", *given, "--junit", str(tmp_path / "junit.xml")]
        done = subprocess.run(command, cwd=home, stdout=gone, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 141, done.stderr
    assert not ElementTree.parse(tmp_path / "junit.xml").findall(".//error")
