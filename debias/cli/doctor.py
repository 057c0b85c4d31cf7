"""`debias doctor`: what is installed, how it was built, and whether it works; for bug reports."""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import click

from debias.cli.options import Command
from debias.cli.output import COULD_NOT_RUN, errors, terminal

if TYPE_CHECKING:
    from rich.console import Console

FOR_DEVELOPERS = {"test", "docs", "integration"}
"""Extras whose packages users do not need."""
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
def command(form: str, check: bool) -> None:
    """Say what is installed, how it was built, and whether it works. Please paste the output into bug reports.

    A small model of each installed library is trained in a process of its own, and its trees, its output and the proof
    of its bags are compared with the library. No file is written and nothing is sent anywhere.

    Exit codes: 0 all is well, 3 a plugin cannot be loaded or a library failed its check.
    """
    with errors():
        from debias.testing.self_check import findings

        with redirect_stdout(sys.stderr):  # a plugin may print when it is imported
            report: dict[str, Any] = {
                "debias": _build(),
                "python": _python(),
                "packages": _packages(),
                "plugins": _plugins(),
            }
        loaded = report["plugins"]["error"] is None
        checks = findings() if check and loaded else iter(())
        if form == "json":
            found = list(checks)
            report["libraries"] = [each.to_dict() for each in found] if check and loaded else None
            click.echo(json.dumps(report, indent=2))
        else:
            found = []
            console = terminal()
            _print_facts(console, report)
            for each in checks:  # printed as they come: each takes seconds
                line = f"{each.library} {each.version or ''}".strip()
                console.print(f"  {line:<28}{each.status}: {each.details}", soft_wrap=True, markup=False)
                found.append(each)
        failed = [each for each in found if each.status == "failed"]
    if failed or not loaded:
        sys.exit(COULD_NOT_RUN)


def _build() -> dict[str, Any]:
    """Return the version of debias, and how its kernels were compiled and are used."""
    from importlib.util import find_spec
    from pathlib import Path

    import debias
    from debias import _cython_shared  # type: ignore[attr-defined]  # made by the build
    from debias.trees.kernels import bins

    compiled = Path(_cython_shared.__file__).with_name("compiled.json")
    return {
        "version": debias.__version__,
        "editable": find_spec("_editable_skbc_debias_trees") is not None,
        **(json.loads(compiled.read_text()) if compiled.exists() else {}),
        "instructions": "AVX2" if bins.__name__.endswith("_avx2") else "every processor",
    }


def _python() -> dict[str, Any]:
    from joblib import cpu_count

    return {
        "version": platform.python_version(),
        "implementation": platform.python_implementation(),
        "platform": platform.platform(),
        "processors": cpu_count(),
        "threads": "1 unless n_jobs is passed",
        "cache": "none: nothing is compiled or stored at run time",
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
    }


def _packages() -> dict[str, str | None]:
    """Return the version of each package that debias needs or can use; None for those that are not installed."""
    from importlib.metadata import PackageNotFoundError, requires, version

    versions: dict[str, str | None] = {}
    for requirement in requires("debias-trees") or ():
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        extra = re.search(r"extra == ['\"]([\w-]+)", requirement)
        if name in versions or name == "debias-trees" or (extra is not None and extra[1] in FOR_DEVELOPERS):
            continue
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = None
    return versions


def _plugins() -> dict[str, Any]:
    """Return the plugins by distribution, or why they cannot be loaded."""
    from debias.errors import PluginError
    from debias.hooks.registry import plugins
    from debias.testing import self_check

    try:
        installed = plugins()
        self_check.offered()  # raises what is wrong with a check of a third party
    except PluginError as error:
        return {"loaded": {}, "error": str(error)}
    named = installed["distribution"] + " " + installed["version"]
    return {
        "loaded": {str(name): sorted(set(group)) for name, group in installed["plugin"].groupby(named)},
        "error": None,
    }


def _print_facts(console: Console, report: dict[str, Any]) -> None:
    def line(text: str) -> None:
        console.print(text, soft_wrap=True, markup=False, highlight=False)

    build, python, packages = report["debias"], report["python"], report["packages"]
    compiler = f"compiled by {build['compiler']} with Cython {build['cython']}" if "compiler" in build else "compiled"
    line(f"debias {build['version']}{' (editable)' if build['editable'] else ''}, {compiler}")
    line(f"kernels for {build['instructions']}")
    line(f"{python['implementation']} {python['version']}, {python['platform']}")
    line(f"{python['processors']} processors; threads: {python['threads']}; cache: {python['cache']}")
    if python["variables"]:
        line("variables: " + ", ".join(f"{name}={value}" for name, value in python["variables"].items()))
    line("packages: " + ", ".join(f"{name} {version}" for name, version in packages.items() if version))
    missing = [name for name, version in packages.items() if version is None]
    if missing:
        line(f"not installed, and not needed: {', '.join(missing)}")
    for name, plugins in report["plugins"]["loaded"].items():
        line(f"plugins of {name}: {', '.join(plugins)}")
    if report["plugins"]["error"]:
        line(f"error: {report['plugins']['error']}")
