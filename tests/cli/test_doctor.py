"""Tests of `debias doctor`: what it says of the installation, and what it makes of libraries that fail."""

import json
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.ensemble import RandomForestRegressor

import debias
from debias.cli import main
from debias.hooks.self_check import SelfCheck
from debias.testing import self_check


def run(*arguments):
    return CliRunner().invoke(main, ["doctor", *arguments])


@pytest.fixture
def only(monkeypatch):
    """Return a function that leaves some self-checks: those of libraries, or others."""

    def leave(*checks):
        ours = {check.library: check for check in self_check.offered()}
        chosen = [ours[check] if isinstance(check, str) else check for check in checks]
        monkeypatch.setattr(self_check, "offered", lambda: chosen)

    return leave


def test_the_facts_are_those_of_this_process():
    done = run("--no-check", "--format", "json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["debias"]["version"] == debias.__version__
    assert report["packages"]["numpy"] == np.__version__
    assert "xgboost_boosters" in report["plugins"]["loaded"][f"debias-trees {debias.__version__}"]
    assert report["plugins"]["error"] is None
    assert report["libraries"] is None


def test_the_text_has_the_same_facts():
    done = run("--no-check")
    assert done.exit_code == 0, done.output
    assert f"debias {debias.__version__}" in done.stdout
    assert f"numpy {np.__version__}" in done.stdout
    assert "xgboost_boosters" in done.stdout


def test_each_base_library_passes_in_a_process_of_its_own(only):
    only("scikit-learn", "XGBoost", "LightGBM")
    done = run("--format", "json")
    assert done.exit_code == 0, done.output
    found = {each["library"]: each for each in json.loads(done.stdout)["libraries"]}
    assert {each["status"] for each in found.values()} == {"ok"}
    assert "proof of the bags" in found["scikit-learn"]["details"]
    for library in ("XGBoost", "LightGBM"):
        assert "training rows are recognised" in found[library]["details"]


def test_a_library_that_is_not_installed_or_not_trained_is_no_failure(only):
    only(SelfCheck("Nothing", "no-such-distribution", len), SelfCheck("Slow", "numpy", "it takes minutes"))
    done = run()
    assert done.exit_code == 0, done.output
    assert "not installed: pip install no-such-distribution" in done.stdout
    assert "not checked: it takes minutes" in done.stdout


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (lambda X, y: 1 / 0, "ZeroDivisionError"),
        (lambda X, y: sys.exit(0), "SystemExit: 0"),
        (lambda X, y: object(), "no adapter recognises"),
        (lambda X, y: (RandomForestRegressor(2, random_state=0).fit(X, y), X[::-1], y), "bags do not reproduce"),
    ],
)
def test_a_check_that_fails_says_why(train, message, monkeypatch, capsys):
    monkeypatch.setattr(self_check, "offered", lambda: [SelfCheck("Broken", "numpy", train)])
    self_check.main("Broken")
    status, details = json.loads(capsys.readouterr().out.rpartition("\n--- debias self-check ---\n")[2])
    assert status == "failed"
    assert message in details


def test_a_library_may_print_when_its_process_ends(only, monkeypatch):
    only("scikit-learn")
    command = self_check.command
    talks = "import atexit; atexit.register(print, 'bye'); "
    monkeypatch.setattr(self_check, "command", lambda code, *words: command(talks + code, *words))
    (found,) = self_check.findings()
    assert found.status == "ok"


def test_a_library_that_crashes_is_a_failure(only, monkeypatch):
    only("scikit-learn")
    crashing = self_check.command("import os; os.abort()")
    monkeypatch.setattr(self_check, "command", lambda *_: crashing)
    done = run()
    assert done.exit_code == 3
    assert "failed: the process ended with exit code" in done.stdout


def test_a_plugin_that_cannot_be_loaded_is_named(monkeypatch):
    def broken():
        raise debias.PluginError("the plugin 'mine' (mine.hooks) cannot be loaded")

    monkeypatch.setattr("debias.hooks.registry.plugin_manager", broken)
    done = run()
    assert done.exit_code == 3
    assert "error: the plugin 'mine' (mine.hooks) cannot be loaded" in done.stdout


@pytest.mark.parametrize(
    ("offer", "message"),
    [
        (["xgboost"], "debias_self_checks of the plugin 'mine' gives no SelfCheck: 'xgboost'"),
        ([SelfCheck("XGBoost", "xgboost", len)], "two plugins offer a self-check of 'XGBoost': "),
        (None, "debias_self_checks of the plugin 'mine' failed: ZeroDivisionError"),
    ],
)
def test_a_wrong_self_check_of_a_plugin_is_reported_in_json_too(offer, message):
    class Mine:
        @debias.hookimpl
        def debias_self_checks(self):
            print("plugins may print")
            return 1 / 0 if offer is None else offer

    debias.register(Mine(), name="mine")
    try:
        done = run("--format", "json")
    finally:
        debias.unregister("mine")
    assert done.exit_code == 3
    report = json.loads(done.stdout)
    assert message in report["plugins"]["error"]
    assert report["libraries"] is None
    assert "plugins may print" in done.stderr


def test_no_self_check_is_no_error():
    class Mine:
        @debias.hookimpl
        def debias_self_checks(self):
            return None

    before = self_check.offered()
    debias.register(Mine(), name="mine")
    try:
        assert self_check.offered() == before
    finally:
        debias.unregister("mine")
