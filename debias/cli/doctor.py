"""`debias doctor`: what is installed, how it was built, and whether it works; for bug reports."""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from typing import TYPE_CHECKING, Any, cast

import click

from debias.cli.options import Command
from debias.cli.output import COULD_NOT_RUN, errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import ModuleType

    from pluggy import PluginManager

    from debias.hooks.library import Library

VARIABLES = (
    "DEBIAS_DISABLE_PLUGINS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "JOBLIB_TEMP_FOLDER",
)
"""Environment variables that change what debias does, or how fast it is."""


@click.command("doctor", cls=Command, examples=["debias doctor", "debias doctor --format json > doctor.json"])
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Format of the output.",
)
@click.option("--check/--no-check", default=True, show_default=True, help="Train a small model of each library.")
@click.pass_context
def command(context: click.Context, form: str, check: bool) -> None:
    """Say what is installed, how it was built, and whether it works. Please paste the output into bug reports.

    A small model of each installed library is trained in a process of its own, and its trees, its output and the proof
    of its bags are compared with the library. No file is written and nothing is sent anywhere.

    Exit codes: 0 all is well, 3 a package is too old or broken, a plugin cannot be used, or a library failed its check.
    """
    with errors():
        from debias.testing.self_check import findings

        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="backslashreplace")  # names may have characters that the terminal cannot show
        imports = _section(_imports)
        with _blocked(imports.get("broken", ())):
            with _printing_to_stderr():
                own = cast("click.Group", context.find_root().command).commands
                declared: list[Library] = []
                without: list[str] = []
                plugins = _section(lambda: _plugins(own, declared, without))
                packages = _section(lambda: _packages(declared))
                packages["errors"] = list(dict.fromkeys(imports["errors"] + packages["errors"]))
                report: dict[str, Any] = {
                    "debias": _section(_build),
                    "python": _section(_python),
                    "packages": packages,
                    "plugins": plugins,
                }
            well = not any(section["errors"] for section in report.values())
            found = findings(declared, without) if check else iter(())
            if form == "json":
                listed = list(found)
                report["libraries"] = [each.to_dict() for each in listed] if check else None
                from debias.text import json_text

                click.echo(json_text(report, indent=2))
            else:
                listed = []
                _print_facts(report)
                for each in found:  # printed as they come: each takes seconds
                    _print(f"  {_named(each.library, each.version):<28}{each.status}: {each.details}")
                    listed.append(each)
    if not well or any(each.status == "failed" for each in listed):
        sys.exit(COULD_NOT_RUN)


def _section(collect: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return a section of the report, or the error that ended it: the other sections are printed all the same."""
    wrong: list[str] = []
    with _noting(wrong):
        return collect()
    return {"errors": wrong}


@contextmanager
def _noting(wrong: list[str], what: str = "") -> Iterator[None]:
    """Note an error, after some words about what failed, and go on."""
    from debias.testing.self_check import error_text

    try:
        yield
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # a broken package may raise any error; panics of Rust are no Exception
        wrong.append(what + error_text(error))


def _imports() -> dict[str, Any]:
    """Return the modules of needed packages that cannot be imported. Others take long, or are checked by library."""
    from debias.testing.installed import import_problems, needed_modules

    modules = needed_modules()
    problems = import_problems(modules)
    wrong = [f"{modules[module]} does not work: {problem}" for module, problem in problems.items()]
    return {"broken": list(problems), "errors": wrong}


@contextmanager
def _blocked(broken: Iterable[str]) -> Iterator[None]:
    """Let imports of broken modules fail at once. In this process they could crash or hang."""
    blocked = [module for module in broken if module not in sys.modules]
    modules = cast("dict[str, ModuleType | None]", sys.modules)
    modules |= dict.fromkeys(blocked)
    try:
        yield
    finally:
        for module in blocked:
            modules.pop(module, None)


@contextmanager
def _printing_to_stderr() -> Iterator[None]:
    """Send to stderr what plugins print when they are imported, also from C."""
    with ExitStack() as undo, redirect_stdout(sys.stderr):
        with suppress(OSError):  # one of them is closed
            stdout = os.dup(1)
            undo.callback(os.close, stdout)
            os.dup2(2, 1)
            undo.callback(os.dup2, stdout, 1)
            undo.callback(_flush_c)
        yield
        with suppress(AttributeError, OSError):  # there is no stderr, or nobody reads it
            sys.stderr.flush()  # before the report, which goes to another stream


def _flush_c() -> None:
    """Write what the C library keeps in its buffers. On Windows it is written at the end."""
    with suppress(Exception):
        from ctypes import CDLL

        CDLL(None).fflush(None)


def _build() -> dict[str, Any]:
    """Return the version of debias, and how its kernels were compiled and are used."""
    from importlib.util import find_spec
    from pathlib import Path

    import debias
    from debias.processor import suited
    from debias.text import counted

    facts: dict[str, Any] = {
        "version": debias.__version__,
        "editable": find_spec("_editable_skbc_debias_trees") is not None,
    }
    wrong: list[str] = []
    shared = find_spec("debias._cython_shared")  # it may be broken, and is not imported here
    compiled = Path(shared.origin).with_name("compiled.json") if shared and shared.origin else None
    if compiled is not None and compiled.exists():
        facts |= json.loads(compiled.read_text())
    with _noting([]):  # of all kernels below
        from debias.trees.kernels import bins

        facts["instructions"] = "AVX2" if bins.__name__.endswith("_avx2") else "every processor"
    kernels, broken = _kernels(), list[str]()
    for package, kernel in kernels:
        with _noting(broken, f"{package}.{kernel}: "):
            suited(package, kernel)
    if broken:
        wrong.append(f"{len(broken)} of {counted(len(kernels), 'kernel')} cannot be loaded. The first is {broken[0]}")
    return {**facts, "errors": wrong}


def _kernels() -> list[tuple[str, str]]:
    """Return the package and the name of each kernel that was installed."""
    from importlib.metadata import PackageNotFoundError, files

    from debias.testing.installed import DEBIAS

    try:
        compiled = [path for path in files(DEBIAS) or () if path.suffix in (".so", ".pyd") and "kernels" in path.parts]
    except PackageNotFoundError:  # reported with the packages
        compiled = []
    names = {(".".join(path.parts[:-1]), path.name.partition(".")[0].removesuffix("_avx2")) for path in compiled}
    return sorted(names) or [("debias.trees.kernels", "bins")]


def _python() -> dict[str, Any]:
    facts: dict[str, Any] = {
        "version": platform.python_version(),
        "implementation": platform.python_implementation(),
        "platform": platform.platform(),
        "threads": "1 unless n_jobs is passed",
        "cache": "none: nothing is compiled or stored at run time",
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
    }
    wrong: list[str] = []
    with _noting(wrong, "the processors cannot be counted: "):
        from joblib import cpu_count

        facts["processors"] = cpu_count()
    return {**facts, "errors": wrong}


def _packages(declared: list[Library]) -> dict[str, Any]:
    """Return the version of each package that debias needs or can use; None if it is not installed and not needed."""
    from debias.testing.installed import installed, requirements, too_old

    modules = {each.distribution: each.module for each in declared if each.distribution is not None}
    versions: dict[str, str | None] = {}
    wrong: list[str] = []
    for name, requirement in requirements().items():
        with _noting(wrong, f"{name} does not work: "):
            found = installed(name, modules.get(name))
            if found is None and requirement.needed:
                wrong.append(f"{name} is not installed, and debias needs it: pip install {name}")
            elif found is None:
                versions[name] = None
            else:
                versions[found.distribution] = found.version
                wrong += filter(None, [too_old(found, requirement.minimum)])
    return {"versions": versions, "errors": wrong}


def _plugins(own: Mapping[str, click.Command], declared: list[Library], without: list[str]) -> dict[str, Any]:
    """Return the plugins by distribution; add the libraries they declare, and the names of those that do not work.

    `own`: the commands of debias itself, whose names plugins cannot take.
    """
    from importlib.metadata import entry_points

    from debias.hooks.commands import commands
    from debias.hooks.registry import build_what_works, libraries, scorers
    from debias.hooks.specs import PROJECT
    from debias.testing.installed import DEBIAS, UNKNOWN

    def check(manager: PluginManager) -> None:
        scorers(manager)
        libraries(manager)
        commands(manager, own)

    points = entry_points(group=PROJECT)
    manager, failures = build_what_works(points, check)
    declared += libraries(manager)
    without += failures
    provided = {point.name: point.dist for point in points}
    loaded: dict[str, list[str]] = {}
    for name, plugin in sorted(manager.list_name_plugin()):
        if plugin is not None:  # otherwise it is disabled
            dist = provided[name]
            loaded.setdefault(f"{dist.name} {dist.version}" if dist else UNKNOWN, []).append(name)
    wrong = [] if loaded else [f"no plugin is loaded, so that no model can be read: is {DEBIAS} installed with pip?"]
    return {"loaded": loaded, "errors": [*failures.values(), *wrong]}


def _print_facts(report: dict[str, Any]) -> None:
    sections = (_of_build, _of_python, _of_packages, _of_plugins)
    for section, lines in zip(report.values(), sections, strict=True):
        if section.keys() > {"errors"}:
            for line in lines(section):
                _print(line)
        for error in section["errors"]:
            _print(f"error: {error}")


def _of_build(build: dict[str, Any]) -> Iterator[str]:
    compiler = f"compiled by {build['compiler']} with Cython {build['cython']}" if "compiler" in build else "compiled"
    yield f"debias {build['version']}{' (editable)' if build['editable'] else ''}, {compiler}"
    kernels = f"kernels for {build['instructions']}" if "instructions" in build else "kernels"
    checked = "every index is checked" if build.get("indices_checked") is True else "indices are not checked"
    yield f"{kernels}: {checked}" if "indices_checked" in build else kernels


def _of_python(python: dict[str, Any]) -> Iterator[str]:
    yield f"{python['implementation']} {python['version']}, {python['platform']}"
    processors = f"{python['processors']} processors; " if "processors" in python else ""
    yield f"{processors}threads: {python['threads']}; cache: {python['cache']}"
    if python["variables"]:
        yield "variables: " + ", ".join(f"{name}={value}" for name, value in python["variables"].items())


def _of_packages(packages: dict[str, Any]) -> Iterator[str]:
    versions = packages["versions"]
    yield "packages: " + ", ".join(_named(name, version) for name, version in versions.items() if version)
    missing = [name for name, version in versions.items() if version is None]
    if missing:
        yield f"not installed, and not needed: {', '.join(missing)}"


def _of_plugins(plugins: dict[str, Any]) -> Iterator[str]:
    for name, loaded in plugins["loaded"].items():
        yield f"plugins of {name}: {', '.join(loaded)}"


def _named(name: str, version: str | None) -> str:
    from debias.testing.installed import UNKNOWN

    return f"{name} (version unknown)" if version == UNKNOWN else f"{name} {version or ''}".strip()


def _print(text: str) -> None:
    """Print a line. Messages of libraries may have several, and escapes for terminals."""
    from debias.text import escaped

    click.echo(escaped(re.sub(r"\s*[\r\n]\s*", " ", text)))
