"""The JUnit file of a run that ends before its outcome: never the result of an earlier run."""

import os
import signal
import subprocess
import sys
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from debias.cli import main
from debias.cli.gate import DID_NOT_FINISH, not_finished
from debias.results.gate_outcome import Gate, Result

GREEN = Gate((Result("min_rows", "passed", "5", ">= 1", "enough"),)).to_junit()
HANGS = """
import signal, sys, time
for each in (signal.SIGTERM, signal.SIGHUP):  # which these tests may have been started without, as by nohup
    signal.signal(each, signal.SIG_DFL)
from debias.cli import main
import debias.results.policy
def wait(*_):
    print("waiting", flush=True)
    time.sleep(100)
debias.results.policy.Policy.of = wait
main(sys.argv[1:])
"""


@pytest.fixture
def junit(tmp_path, monkeypatch):
    """A JUnit file of an earlier run that passed, in a folder with files that look like those of a run."""
    monkeypatch.chdir(tmp_path)
    for name in ("model.ubj", "new.csv"):
        (tmp_path / name).write_text("x\n1\n")
    (tmp_path / "policy.toml").write_text("min_rows = 5\n")
    path = tmp_path / "gate.xml"
    path.write_text(GREEN)
    return path


def error_of(path):
    root = ElementTree.parse(path).getroot()
    assert (root.get("tests"), root.get("errors"), root.get("failures")) == ("1", "1", "0")
    assert root.find("testsuite").get("name") in ("debias check", "debias monitor check", "debias monitor chekc")
    return root.find("testsuite/testcase/error").get("message")


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "model.ubj", "new.csv", "--junit", "gate.xml"],
        ["check", "model.ubj", "absent.csv", "--target", "y", "--junit=gate.xml"],
        ["check", "model.ubj", "new.csv", "--target", "y", "--policy", "absent.toml", "--junit", "gate.xml"],
        ["check", "model.ubj", "new.csv", "--target", "y", "--junit", "gate.xml", "--no-such-option"],
        [
            "check",
            "model.ubj",
            "new.csv",
            "--target",
            "y",
            "--policy",
            "policy.toml",
            "--json",
            "no/a",
            "--junit=gate.xml",
        ],
        ["monitor", "check", "a.history", "--policy", "policy.toml", "--recent", "30x", "--junit", "gate.xml"],
        ["monitor", "check", "--junit", "gate.xml"],
        ["monitor", "chekc", "a.history", "--junit", "gate.xml"],
    ],
)
def test_wrong_usage_leaves_no_green_file(junit, arguments):
    assert CliRunner().invoke(main, arguments).exit_code == 2
    assert error_of(junit)


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGKILL"])
def test_signals_leave_no_green_file(junit, name):
    given = ["check", "model.ubj", "new.csv", "--target", "y", "--policy", "policy.toml", "--junit", "gate.xml"]
    with subprocess.Popen([sys.executable, "-c", HANGS, *given], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout.readline() == "waiting\n"
        run.send_signal(getattr(signal, name))
        run.wait(60)
    assert run.returncode == (130 if name == "SIGINT" else -getattr(signal, name))
    assert error_of(junit) == DID_NOT_FINISH


def test_only_a_junit_file_that_is_named_once_is_replaced_before_the_run(junit, tmp_path):
    audit = tmp_path / "audit.json"
    audit.write_text("{}")
    for arguments in (
        ["check", "--junit", "audit.json"],  # no JUnit file
        ["check", "--baseline", "./gate.xml", "--junit", "gate.xml"],  # an input too
        ["check", "--baseline=gate.xml", f"--junit={junit}"],
        ["check", "--", "--junit", "gate.xml"],
        ["check", "gate.xml"],
        ["check", "--junit"],
        ["check", "--junit", "absent/gate.xml"],
        ["check", "--junit", os.devnull],
    ):
        not_finished(arguments)
        assert (junit.read_text(), audit.read_text()) == (GREEN, "{}"), arguments
    not_finished(["\x01\udcff", "--junit", "odd.xml"])  # no command, and no text for XML
    assert ElementTree.parse(tmp_path / "odd.xml").getroot().get("errors") == "1"
    not_finished(["check", "--junit", "new.xml"])
    assert error_of(tmp_path / "new.xml") == DID_NOT_FINISH
    not_finished(["check", "--junit", "other.xml", "--junit", "gate.xml"])  # the last one counts
    assert error_of(junit) == DID_NOT_FINISH
    assert not (tmp_path / "other.xml").exists()


def test_an_interruption_after_the_outcome_was_written_is_told(junit, monkeypatch):
    def interrupted(*_):
        junit.write_text(GREEN)
        raise KeyboardInterrupt

    monkeypatch.setattr("debias.results.policy.Policy.of", interrupted)
    given = ["check", "model.ubj", "new.csv", "--target", "y", "--policy", "policy.toml", "--junit", "gate.xml"]
    assert CliRunner().invoke(main, given).exit_code == 130
    assert error_of(junit) == DID_NOT_FINISH
