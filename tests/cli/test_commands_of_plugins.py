"""Commands that plugins add: one that does not work takes no other one with it, and is told with the way out."""

import importlib
import json
import re
import sys
from importlib.metadata import entry_points

import pytest
from click.testing import CliRunner

from debias.cli import debias_commands, main
from debias.hooks import commands
from debias.hooks.registry import build_manager
from debias.testing import installed as packages

OWN = sorted(each.name for each in debias_commands())
HOOK = "import click\nimport debias\n@debias.plugin.hookimpl\ndef debias_commands(): "
COMMAND = "@click.command({name!r})\ndef command():\n    'Say so.'\n    {does}\n"


def offering(name, does="click.echo('from ' + __name__)"):
    """Return the source of a plugin with one command."""
    return HOOK + "return [command]\n" + COMMAND.format(name=name, does=does)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Return a function that installs plugins, as modules with entry points of the same names."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(commands, "plugin_manager", lambda: build_manager(entry_points(group="debias")))

    def install(**modules):
        info = tmp_path / "debias_foreign-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: debias-foreign\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text("[debias]\n" + "".join(f"{name} = {name}\n" for name in modules))
        for name, source in modules.items():
            (tmp_path / f"{name}.py").write_text(source)
            monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()

    return install


def run(*arguments):
    return CliRunner().invoke(main, arguments)


def listed(done):
    """Return the names of the commands that the help lists."""
    return re.findall(r"^  ([\w-]+) ", done.stdout.partition("Commands:")[2], re.MULTILINE)


def test_the_commands_of_debias_and_of_its_plugin_are_listed():
    done = run("--help")
    assert (done.exit_code, done.stderr) == (0, "")
    assert listed(done) == sorted([*OWN, "bench", "demo"])
    assert OWN == [
        "audit",
        "check",
        "clusters",
        "compare",
        "doctor",
        "drop",
        "interactions",
        "monitor",
        "plugins",
        "score",
    ]


def test_commands_of_debias_load_no_plugin(monkeypatch):
    monkeypatch.setattr(commands, "plugin_manager", lambda: pytest.fail("plugins are loaded"))
    for name in OWN:
        assert run(name, "--help").exit_code == 0


WRONG = {
    "import": ("import missing_here", "cannot be loaded: ModuleNotFoundError: No module named 'missing_here'"),
    "exit": ("raise SystemExit(0)", "cannot be loaded: SystemExit: 0"),
    "hook": (HOOK + "1 / 0", "cannot be used: debias_commands of the plugin 'broken' failed: ZeroDivisionError"),
    "type": (HOOK + "return [print]", "must return a list of commands"),
    "one": (HOOK + "return 3", "must return a list of commands, such as functions with the decorator click.command"),
    "name": (offering("two words"), "a command of the plugin 'broken' has the name 'two words': use a word"),
    "taken": (offering("audit"), "the plugin 'broken' has a command 'audit', and so has debias: rename it"),
    "ours": (offering("demo"), "two plugins, 'bench' and 'broken', have a command 'demo': rename one"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("case", WRONG)
def test_a_plugin_that_does_not_work_takes_no_other_command_with_it(case, installed, monkeypatch):
    monkeypatch.setattr(
        packages, "import_problems", lambda modules: {}
    )  # takes seconds, and cli/test_doctor.py tests it
    source, told = WRONG[case]
    installed(broken=source, working=offering("greet"))
    done = run("--help")
    assert done.exit_code == 0
    assert listed(done) == sorted([*OWN, "bench", "demo", "greet"])
    assert done.stderr.startswith("warning: the plugin 'broken' (broken) cannot be ")
    assert told in done.stderr
    assert "DEBIAS_DISABLE_PLUGINS=broken" in done.stderr
    assert done.stderr.count("\n") == 1
    greeted = run("greet")
    assert (greeted.exit_code, greeted.stdout, greeted.stderr) == (0, "from working\n", done.stderr)
    assert "Audit" in run("check", "--help").stdout
    if case in ("import", "ours"):  # one that is not loaded, and one that is: the report reads all metadata
        report = json.loads(run("doctor", "--no-check", "--format", "json").stdout)
        assert told in " ".join(report["plugins"]["errors"])


def test_a_command_that_may_be_of_a_broken_plugin_could_not_run(installed):
    """Exit code 2 would say that the user is wrong."""
    installed(broken="import missing_here")
    done = run("greet")
    assert done.exit_code == 3
    assert "No module named 'missing_here'" in done.stderr
    assert "error: there is no command 'greet' of debias or of the plugins that work" in done.stderr


def test_of_two_plugins_with_one_command_the_first_keeps_it_and_the_other_is_told(installed):
    installed(second=offering("greet"), first=offering("greet"))
    done = run("greet")
    assert (done.exit_code, done.stdout) == (0, "from first\n")
    assert (
        "the plugin 'second' (second) cannot be used: two plugins, 'first' and 'second', have a command" in done.stderr
    )


def test_a_command_that_no_plugin_has_is_wrong_usage(monkeypatch):
    assert (run("greet").exit_code, "No such command 'greet'." in run("greet").stderr) == (2, True)
    monkeypatch.setenv("DEBIAS_DISABLE_PLUGINS", "a_plugin")
    assert "No such command 'greet'. DEBIAS_DISABLE_PLUGINS disables a_plugin." in run("greet").stderr


def test_what_a_plugin_prints_when_it_is_imported_is_no_output(installed):
    # click before 8.2.2 tests with a stderr that is not flushed at the end
    installed(talks="print('hello there', flush=True)\n" + offering("greet"))
    done = run("greet")
    assert (done.stdout, done.stderr) == ("from talks\n", "hello there\n")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("does", "code", "told"),
    [
        ("raise debias.RowsError('3 rows are too few')", 3, "error: 3 rows are too few\n"),
        ("open('/missing/file')", 3, "error: [Errno 2] No such file or directory: '/missing/file'\n"),
        ("raise KeyError('a bug')", 3, "KeyError: 'a bug'"),
        ("raise SystemExit(7)", 7, ""),
        ("raise click.UsageError('pass more')", 2, "Error: pass more"),
    ],
)
def test_errors_of_a_command_have_the_exit_codes_of_debias(does, code, told, installed):
    """Exit code 1, which Python gives for an error, would look like a failed gate."""
    installed(fails=offering("greet", does))
    done = run("greet")
    assert (done.exit_code, done.stdout) == (code, "")
    assert told in done.stderr
