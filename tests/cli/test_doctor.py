"""Tests of `debias doctor`: what it says of the installation, and what it makes of libraries that fail."""

import importlib.metadata
import json
import os
import subprocess
import sys
import time
from functools import cache
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from packaging.requirements import Requirement
from sklearn.ensemble import RandomForestRegressor

import debias
import debias_plugins.command
from debias import child_process, processor
from debias.cli import main
from debias.hooks import registry
from debias.hooks.library import Library
from debias.hooks.registry import plugin_manager
from debias.testing import installed, self_check

OURS = f"debias-trees {importlib.metadata.version('debias-trees')}"
"""Of the metadata, which may be older than ``debias.__version__`` in a checkout."""


def run(*arguments):
    return CliRunner().invoke(main, ["doctor", *arguments])


@pytest.fixture(scope="module")
def problems_here():
    """What the process that imports the needed packages says where all is well."""
    return installed.import_problems(installed.needed_modules())


FILES = cache(installed.files)
"""The files of a package by its metadata, read once: those of some packages are thousands."""


@pytest.fixture
def imports_apart():
    """Marks the tests that start the process that imports the needed packages."""


@pytest.fixture(autouse=True)
def imported_once(request, problems_here, monkeypatch):
    """Let that process, which takes seconds, start once for all other tests, and metadata be read once."""
    ours = installed.requirements()
    monkeypatch.setattr(
        installed, "files", lambda name: FILES(name) if name in ours else importlib.metadata.files(name)
    )
    if "imports_apart" not in request.fixturenames:
        monkeypatch.setattr(installed, "import_problems", lambda modules: problems_here)


@pytest.fixture
def only(monkeypatch):
    """Return a function that leaves some self-checks: those of libraries, or others."""

    def leave(*checks):
        ours = {library.name: library for library in registry.libraries()}
        chosen = [ours[check] if isinstance(check, str) else check for check in checks]
        monkeypatch.setattr(registry, "libraries", lambda manager=None: chosen)
        monkeypatch.setattr(self_check, "libraries", lambda: chosen)

    return leave


@pytest.fixture
def foreign(tmp_path, monkeypatch):
    """Return a function that installs a distribution with plugins into a folder on the search path."""
    plugin_manager()  # that of this process, without what is installed here
    monkeypatch.syspath_prepend(tmp_path)

    def install(distribution="debias-foreign", **modules):
        info = tmp_path / f"{distribution.replace('-', '_')}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")
        (info / "top_level.txt").write_text("".join(f"{name}\n" for name in modules))
        points = "".join(f"{name} = {name}\n" for name, source in modules.items() if "debias" in source)
        (info / "entry_points.txt").write_text(f"[debias]\n{points}")
        for name, source in modules.items():
            (tmp_path / f"{name}.py").write_text(source)
            monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()
        return tmp_path

    return install


def versions_are(monkeypatch, **versions):
    known = importlib.metadata.version
    monkeypatch.setattr(installed, "version", lambda name: versions.get(name) or known(name))


@pytest.mark.thorough
def test_the_facts_are_those_of_this_process(imports_apart):
    done = run("--no-check", "--format", "json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["debias"]["version"] == debias.__version__
    assert report["packages"]["versions"]["numpy"] == np.__version__
    assert "xgboost_boosters" in report["plugins"]["loaded"][OURS]
    assert [report[section]["errors"] for section in ("debias", "python", "packages", "plugins")] == [[]] * 4
    assert report["libraries"] is None


@pytest.mark.thorough
def test_the_text_has_the_same_facts():
    done = run("--no-check")
    assert done.exit_code == 0, done.output
    assert f"debias {debias.__version__}" in done.stdout
    assert f"numpy {np.__version__}" in done.stdout
    assert "xgboost_boosters" in done.stdout


@pytest.mark.integration  # scikit-learn alone is checked below
def test_each_base_library_passes_in_a_process_of_its_own(only):
    only("scikit-learn", "XGBoost", "LightGBM")
    done = run("--format", "json")
    assert done.exit_code == 0, done.output
    found = {each["library"]: each for each in json.loads(done.stdout)["libraries"]}
    assert {each["status"] for each in found.values()} == {"ok"}
    assert "proof of the bags" in found["scikit-learn"]["details"]
    for library in ("XGBoost", "LightGBM"):
        assert "training rows are recognised" in found[library]["details"]


@pytest.mark.thorough
def test_a_library_that_is_not_installed_or_not_trained_is_no_failure(only):
    only(Library("Nothing", "no-such-distribution", len), Library("Slow", "numpy", "it takes minutes"))
    done = run()
    assert done.exit_code == 0, done.output
    assert "not installed: pip install no-such-distribution" in done.stdout
    assert "not checked: it takes minutes" in done.stdout


class Panic(BaseException):
    """As the PanicException of packages in Rust, which is no Exception."""


def panic(*_):
    raise Panic("of Rust")


@pytest.mark.thorough
def test_a_panic_of_a_package_ends_nothing(monkeypatch):
    monkeypatch.setattr(processor, "import_module", panic)
    done = run("--no-check")
    assert done.exit_code == 3
    assert "The first is debias.data.kernels" in done.stdout
    assert ": Panic: of Rust\n" in done.stdout
    assert "xgboost_boosters" in done.stdout


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (lambda X, y: 1 / 0, "ZeroDivisionError"),
        (lambda X, y: sys.exit(0), "SystemExit: 0"),
        (lambda X, y: panic(), "Panic: of Rust"),
        (lambda X, y: object(), "no adapter recognises"),
        (lambda X, y: (RandomForestRegressor(2, random_state=0).fit(X, y), X[::-1], y), "bags do not reproduce"),
    ],
)
def test_a_check_that_fails_says_why(train, message, monkeypatch, capsys):
    monkeypatch.setattr(self_check, "libraries", lambda: [Library("Broken", "numpy", train)])
    self_check.main("Broken")
    status, details = json.loads(capsys.readouterr().out.rpartition("\n--- debias self-check ---\n")[2])
    assert status == "failed"
    assert message in details


@pytest.mark.thorough
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


@pytest.mark.parametrize(
    ("version", "is_old"),
    [("1.26.4", True), ("2.0.0rc1", True), ("2", False), ("2.0.post1", False), ("2.10", False), ("of our own", False)],
)
def test_a_package_older_than_its_minimum_is_told(version, is_old):
    problem = installed.too_old(installed.Installed("numpy", version, ("numpy",)), "2.0")
    expected = f"numpy {version} is older than 2.0, the minimum: pip install -U numpy"
    assert problem == (expected if is_old else None)


def test_every_requirement_is_known():
    known = installed.requirements()
    for text in importlib.metadata.requires("debias-trees"):
        expected = Requirement(text)
        found = known.get(expected.name)
        of_developers = any(f'"{extra}"' in str(expected.marker) for extra in installed.FOR_DEVELOPERS)
        if not of_developers and expected.name != "debias-trees":
            assert f">={found.minimum}" in map(str, expected.specifier)
            assert found.needed == (expected.marker is None)


def test_an_old_library_is_a_failure_that_says_what_to_do(only, monkeypatch):
    only("XGBoost", "LightGBM")
    versions_are(monkeypatch, xgboost="1.7.6", lightgbm="3.3.5", numpy="1.26.4", matplotlib="3.9.0")
    done = run()
    assert done.exit_code == 3
    for package, version, minimum in (
        ("xgboost", "1.7.6", "2.1"),
        ("lightgbm", "3.3.5", "4.3"),
        ("numpy", "1.26.4", "2.0"),
        ("matplotlib", "3.9.0", "3.10"),
    ):
        text = f"{package} {version} is older than {minimum}, the minimum: pip install -U {package}\n"
        assert f"error: {text}" in done.stdout
        assert (f"failed: {text}" in done.stdout) == (package in ("xgboost", "lightgbm"))


def test_a_library_that_is_newer_than_those_tested_is_no_failure(only):
    def check(name, newest):
        return Library(name, "numpy", "it takes minutes", tested=("1.0", newest))

    only(check("New", "1.5"), check("Known", "99.9"))
    done = run()
    assert done.exit_code == 0, done.output
    assert "not checked: it takes minutes; newer than the newest tested, 1.5\n" in done.stdout
    assert "not checked: it takes minutes\n" in done.stdout


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("package", "form"),
    [("pandas", "text"), ("joblib", "json"), ("rich", "text"), ("scipy", "json")],
)
def test_all_else_is_said_where_a_package_cannot_be_imported(package, form, tmp_path, monkeypatch, imports_apart):
    (tmp_path / f"{package}.py").write_text("raise ImportError('no library')")
    monkeypatch.syspath_prepend(tmp_path)  # also of the process that imports packages
    monkeypatch.setitem(sys.modules, package, None)
    done = run("--no-check", "--format", form)
    assert done.exit_code == 3
    assert f"{package} does not work: ImportError: no library" in done.stdout
    assert ("the processors cannot be counted: " in done.stdout) == (package == "joblib")
    for text in (debias.__version__, np.__version__, "xgboost_boosters", sys.platform.capitalize()):
        assert text in done.stdout


@pytest.mark.thorough
def test_a_package_that_crashes_is_said_and_not_imported_here(tmp_path, monkeypatch, imports_apart):
    source = f"import os\nopen({str(tmp_path / 'importers')!r}, 'a').write(f'{{os.getpid()}}\\n')\nos.abort()"
    (tmp_path / "joblib.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "joblib")
    done = run("--no-check", "--format", "json")
    assert done.exit_code == 3
    report = json.loads(done.stdout)
    assert any(text.startswith("joblib does not work: the process ended") for text in report["packages"]["errors"])
    assert "the processors cannot be counted: " in report["python"]["errors"][0]
    assert "xgboost_boosters" in report["plugins"]["loaded"][OURS]
    assert str(os.getpid()) not in (tmp_path / "importers").read_text().split()
    assert "joblib" not in sys.modules


@pytest.mark.thorough
def test_imports_go_on_after_one_that_crashes_or_hangs(tmp_path, monkeypatch, imports_apart):
    sources = {
        "works": "import os; os.write(1, b'noise\\n'); print('[]')",
        "aborts": "import os; os.abort()",
        "panics": "class Panic(BaseException): pass\nraise Panic('of Rust')",
        "hangs": "import time; time.sleep(1000)",
        "leaves": "import sys; sys.exit(0)",
        "kills": "import os; os._exit(7)",
    }
    for name, source in sources.items():
        (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(installed, "SECONDS", 5.0)
    problems = installed.import_problems([*sources, "json"])
    assert problems.pop("aborts").startswith("the process ended with exit code ")
    assert problems == {
        "panics": "Panic: of Rust",
        "hangs": "its import did not end within 5 s",
        "leaves": "SystemExit: 0",
        "kills": "the process ended with exit code 7: it printed nothing",
    }


def test_the_modules_of_all_needed_packages_are_known():
    known = installed.needed_modules()
    needed = {name for name, requirement in installed.requirements().items() if requirement.needed}
    assert set(known.values()) == needed
    assert known["sklearn"] == "scikit-learn"


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform == "win32", reason="only the process itself is killed there")
def test_a_process_is_killed_with_those_that_it_started(tmp_path):
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'])\n"
        "print(child.pid, flush=True); time.sleep(1000)"
    )
    ended = child_process.run([sys.executable, "-c", code], 5.0)
    assert ended.exit_code is None
    is_dead = False
    for _ in range(100):  # the system removes it when it has time
        try:
            state = Path(f"/proc/{ended.printed.strip()}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            state = "gone"
        is_dead = is_dead or state in ("Z", "gone")
        if is_dead:
            break
        time.sleep(0.1)
    assert is_dead


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform == "win32", reason="another C library")
def test_what_plugins_print_from_c_does_not_spoil_the_report(foreign):
    talks = "import os, ctypes, debias\nos.write(1, b'written')\nctypes.CDLL(None).printf(b'printed')\n"
    folder = foreign(talks=talks + "@debias.plugin.hookimpl\ndef debias_unwrap(model): pass\n")
    code = "from debias.cli import main; main(['doctor', '--no-check', '--format', 'json'])"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["plugins"]["loaded"]["debias-foreign 1.2"] == ["talks"]
    assert "written" in done.stderr
    assert "printed" in done.stderr


@pytest.mark.parametrize("form", ["text", "json"])
def test_all_else_is_said_where_a_kernel_cannot_be_loaded(form, monkeypatch):
    known = processor.import_module

    def unloadable(name):
        if name == "debias.scorers.kernels.node":
            raise ImportError("node.abi3.so: invalid ELF header")
        return known(name)

    monkeypatch.setattr(processor, "import_module", unloadable)
    done = run("--no-check", "--format", form)
    assert done.exit_code == 3
    assert (
        "kernels cannot be loaded. The first is debias.scorers.kernels.node: ImportError: node.abi3.so: inv"
        in done.stdout
    )
    assert "xgboost_boosters" in done.stdout


def test_all_else_is_said_without_metadata(monkeypatch, only):
    only(Library("Arrays", "numpy", "it takes minutes"))

    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(installed, "requires", missing)
    monkeypatch.setattr(importlib.metadata, "files", missing)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [])
    done = run()
    assert done.exit_code == 3
    assert "No package metadata was found for debias-trees" in done.stdout
    assert "no plugin is loaded" in done.stdout
    assert "kernels for " in done.stdout
    assert "not checked: it takes minutes" in done.stdout


def test_a_needed_package_that_is_missing_is_an_error(monkeypatch):
    known = installed.installed
    monkeypatch.setattr(installed, "installed", lambda name, module: None if name == "rich" else known(name, module))
    done = run("--no-check")
    assert done.exit_code == 3
    assert "error: rich is not installed, and debias needs it: pip install rich" in done.stdout


def test_a_broken_packaging_ends_nothing(only, monkeypatch):
    """The doctor itself compares versions with it."""
    only("scikit-learn")
    for module in ("packaging.requirements", "packaging.version"):
        monkeypatch.setitem(sys.modules, module, None)  # an import fails
    done = run()
    assert done.exit_code == 3
    assert f"debias {debias.__version__}" in done.stdout
    assert "plugins of debias-trees" in done.stdout
    assert "error: ModuleNotFoundError: import of packaging.requirements halted" in done.stdout


@pytest.mark.thorough
@pytest.mark.parametrize("broken", [False, True])
def test_a_module_counts_also_if_pip_knows_it_by_another_name_or_not_at_all(broken, only, foreign, monkeypatch):
    source = "raise ValueError('broken')" if broken else ""
    folder = foreign("other-name", of_another=source)
    (folder / "of_nothing.py").write_text(source)
    (folder / "only_a_folder").mkdir()
    only(
        Library("Renamed", "its-name", "it takes minutes", "of_another"),
        Library("Copied", "of-nothing", "it takes minutes"),
        Library("Left over", "only-a-folder", "it takes minutes"),
    )
    done = run()
    assert done.exit_code == 0, done.output
    libraries = [" ".join(line.split()) for line in done.stdout.splitlines()[-3:]]
    assert libraries == [
        "Renamed 1.2 not checked: it takes minutes",
        "Copied (version unknown) not checked: it takes minutes",
        "Left over not installed: pip install only-a-folder",
    ]


def test_a_package_of_another_name_stands_among_the_packages(foreign, monkeypatch):
    known = importlib.metadata.version

    def version(name):
        if name == "xgboost":
            raise PackageNotFoundError(name)
        return known(name)

    monkeypatch.setattr(installed, "version", version)
    monkeypatch.setattr(installed, "packages_distributions", lambda: {"xgboost": ["xgboost-cpu"]})
    foreign("xgboost-cpu")
    done = run("--no-check", "--format", "json")
    versions = json.loads(done.stdout)["packages"]["versions"]
    assert versions["xgboost-cpu"] == "1.2"
    assert "xgboost" not in versions


def test_messages_of_libraries_cannot_control_the_terminal(only, monkeypatch):
    only("scikit-learn")
    raw = "\x1b]0;title\x07\x1b[31mred\n  second line\r\nthird"
    monkeypatch.setattr(self_check, "_checked_apart", lambda *_: ("failed", raw))
    done = run()
    assert done.exit_code == 3
    assert done.stdout.endswith(r"failed: \x1b]0;title\x07\x1b[31mred second line third" + "\n")


@pytest.mark.parametrize("kind", [AssertionError, ValueError, debias.RowsError])
def test_an_error_without_text_says_where_it_was_raised(kind):
    with pytest.raises(kind) as raised:
        raise kind
    assert self_check.error_text(raised.value) == f"{kind.__name__} in line {raised.tb.tb_lineno} of test_doctor.py"


@pytest.mark.thorough
def test_it_works_in_a_directory_that_was_deleted(only, tmp_path, monkeypatch, imports_apart):
    only("scikit-learn")
    here = tmp_path / "deleted"
    here.mkdir()
    monkeypatch.chdir(here)
    here.rmdir()
    done = run()
    assert done.exit_code == 0, done.output
    assert " ok: trees" in done.stdout


@pytest.mark.parametrize("checked", [False, True])
def test_a_build_that_checks_every_index_is_told_apart(checked, tmp_path, monkeypatch):
    from debias import _cython_shared

    facts = {"compiler": "GNU 1.2", "cython": "3.4", "indices_checked": checked}
    (tmp_path / "compiled.json").write_text(json.dumps(facts))
    monkeypatch.setattr(_cython_shared.__spec__, "origin", str(tmp_path / "_cython_shared.so"))
    instructions = "AVX2" if processor.has_avx2() else "every processor"
    text = "every index is checked" if checked else "indices are not checked"
    assert f"compiled by GNU 1.2 with Cython 3.4\nkernels for {instructions}: {text}\n" in run("--no-check").stdout
    assert json.loads(run("--no-check", "--format", "json").stdout)["debias"].items() >= facts.items()


def test_every_plugin_is_listed(foreign):
    foreign(unwraps="import debias\n@debias.plugin.hookimpl\ndef debias_unwrap(model): pass\n")
    loaded = json.loads(run("--no-check", "--format", "json").stdout)["plugins"]["loaded"]
    assert loaded["debias-foreign 1.2"] == ["unwraps"]
    ours = {point.name for point in importlib.metadata.distribution("debias-trees").entry_points.select(group="debias")}
    assert set(loaded[OURS]) == ours


HOOK = "import debias\nfrom debias.hooks.library import Library\nprint('plugins may print')\n@debias.plugin.hookimpl\n"
WRONG = {
    "import": (
        "import missing_here  # debias",
        "cannot be loaded: ModuleNotFoundError: No module named 'missing_here'",
    ),
    "hook": (HOOK + "def debias_scorer(): pass", "cannot be loaded: PluginValidationError: "),
    "scorers": (
        HOOK + "def debias_scorers(): return [debias.plugin.scorer('mdi_oob')]",
        "cannot be used: two scorers are called 'mdi_oob'",
    ),
    "no_check": (
        HOOK + "def debias_libraries(): return ['xgboost']",
        "cannot be used: debias_libraries of the plugin 'a_wrong_one' gives no Library: 'xgboost'",
    ),
    "second_check": (
        HOOK + "def debias_libraries(): return [Library('XGBoost', 'xgboost', len)]",
        "cannot be used: two plugins declare the library 'XGBoost': xgboost_boosters and a_wrong_one",
    ),
    "failing_check": (
        HOOK + "def debias_libraries(): return 1 / 0",
        "cannot be used: debias_libraries of the plugin 'a_wrong_one' failed: ZeroDivisionError",
    ),
}


@pytest.mark.parametrize(("what", "form"), [*((what, "json") for what in WRONG), ("import", "text"), ("hook", "text")])
def test_a_plugin_that_does_not_work_is_named_and_the_others_are_loaded(what, form, foreign):
    source, message = WRONG[what]
    foreign(a_wrong_one=source, works="import debias\n@debias.plugin.hookimpl\ndef debias_unwrap(model): pass\n")
    done = run("--no-check", "--format", form)
    assert done.exit_code == 3
    assert f"the plugin 'a_wrong_one' (a_wrong_one) {message}" in done.stdout
    assert "DEBIAS_DISABLE_PLUGINS=a_wrong_one" in done.stdout
    assert ("plugins may print" in done.stderr) == (what != "import")
    if form == "json":
        loaded = json.loads(done.stdout)["plugins"]["loaded"]
        assert loaded["debias-foreign 1.2"] == ["works"]
        assert {"node_scorers", "xgboost_boosters"} <= set(loaded[OURS])
    else:
        assert "plugins of debias-foreign 1.2: works\n" in done.stdout


def test_of_two_plugins_with_one_name_none_is_loaded(foreign):
    foreign(node_scorers="import debias")
    done = run("--no-check")
    assert done.exit_code == 3
    assert "error: two plugins are called 'node_scorers': " in done.stdout
    assert "native_scorers, native_unseen, ngboost_models, onnx_models, oob_forest" in done.stdout


@pytest.mark.thorough
def test_the_libraries_are_checked_without_the_plugins_that_do_not_work(foreign):
    folder = foreign(a_wrong_one="import missing_here  # debias")
    code = (
        "from debias.cli import main; from debias.hooks import registry; libraries = registry.libraries\n"
        "only = lambda manager=None: [each for each in libraries(manager) if each.name == 'scikit-learn']\n"
        "registry.libraries = only; main(['doctor'])"
    )
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path, "DEBIAS_DISABLE_PLUGINS": "ablation"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert "the plugin 'a_wrong_one' (a_wrong_one) cannot be loaded" in done.stdout
    assert " ok: trees, output, proof of the bags" in done.stdout
    assert " ablation" not in done.stdout


COMMAND = str(Path(sys.executable).with_name("debias.exe" if sys.platform == "win32" else "debias"))


def run_with_broken(folder, module, source, *arguments):
    (folder / module).mkdir()
    (folder / module / "__init__.py").write_text(source)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}
    return subprocess.run([COMMAND, *arguments], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        *((module, ["doctor", "--format", "json"]) for module in ("numpy", "pluggy", "cloudpickle", "click")),
        ("numpy", ["check", "--help"]),
    ],
)
def test_a_package_without_which_debias_cannot_be_imported_is_named(module, arguments, tmp_path):
    source = "class Panic(BaseException): pass\ntry: import missing_here\nexcept ImportError as error: "
    done = run_with_broken(tmp_path, module, source + "raise Panic('many\\nlines') from error", *arguments)
    assert (done.returncode, done.stdout) == (3, "")
    first, *more = done.stderr.splitlines()
    assert first == (
        f"error: debias cannot be imported: {module} does not work: ModuleNotFoundError: No module named "
        f"'missing_here'; install it again: pip install --force-reinstall {module}"
    )
    assert len(more) == (arguments[0] == "doctor")
    for line in more:
        assert f", numpy {np.__version__}, " in line
        assert f", {OURS}, " in line


@pytest.mark.thorough
@pytest.mark.parametrize(("module", "package"), [("click", "click"), ("debias.cli.doctor", "debias-trees")])
def test_what_is_missing_is_named(module, package, monkeypatch, capsys):
    for name in [name for name in sys.modules if name.startswith("debias.cli")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SystemExit) as ended:
        debias_plugins.command.main()
    told = capsys.readouterr().err
    assert ended.value.code == 3
    assert f": {package} does not work: " in told
    assert told.endswith(f"pip install --force-reinstall {package}\n")


def test_a_package_that_crashes_while_debias_is_imported_is_shown(tmp_path):
    done = run_with_broken(tmp_path, "blake3", "import os\nos.abort()", "doctor")
    assert done.returncode not in (0, 1)
    assert f'"{tmp_path / "blake3" / "__init__.py"}", line 2 in <module>' in done.stderr


def test_no_library_is_no_error():
    class Mine:
        @debias.plugin.hookimpl
        def debias_libraries(self):
            return None

    before = registry.libraries()
    debias.plugin.register(Mine(), name="mine")
    try:
        assert registry.libraries() == before
    finally:
        debias.plugin.unregister("mine")
