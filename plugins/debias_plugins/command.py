"""The command ``debias``. It says which package is broken where debias cannot be imported.

This module imports debias when it is called, and nothing else but the standard library.
"""

from __future__ import annotations

import faulthandler
import re
import sys
import traceback
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, packages_distributions, requires, version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

COULD_NOT_RUN = 3
"""As in ``debias.cli.output``. Exit code 1, which Python gives, means a failed gate."""
DEBIAS = "debias-trees"


def main() -> None:
    """Run the command line, or say on stderr why it cannot be imported."""
    try:
        with _reporting_crashes():
            from debias.cli import main as command
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # a broken package may raise any error; panics of Rust are no Exception
        print(f"error: debias cannot be imported: {_cause(error)}", file=sys.stderr)
        if sys.argv[1:2] == ["doctor"]:
            print(f"Python {sys.version.split()[0]}, {DEBIAS} {_version(DEBIAS)}, {_needed()}", file=sys.stderr)
        sys.exit(COULD_NOT_RUN)
    command()


@contextmanager
def _reporting_crashes() -> Iterator[None]:
    """Print where a package is imported that ends the process."""
    with suppress(Exception):  # stderr is closed
        faulthandler.enable()
    yield
    faulthandler.disable()


def _cause(error: BaseException) -> str:
    """Return the first cause in one line, with the package that does not work and how to install it again."""
    cause = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    text = " ".join(f"{type(cause).__name__}: {cause}".split())
    package = _package(error)
    return f"{package} does not work: {text}; install it again: pip install --force-reinstall {package}"


def _package(error: BaseException) -> str:
    """Return the first package beside debias whose code was running, or that is missing; otherwise debias."""
    running = [str(frame.f_globals.get("__name__")) for frame, _ in traceback.walk_tb(error.__traceback__)]
    modules = [name.partition(".")[0] for name in [*running, getattr(error, "name", None) or ""]]
    others = (name for name in modules if name and not name.startswith("debias") and name not in _OURS)
    module = next(others, None)
    if module is None:
        return DEBIAS
    return packages_distributions().get(module, [module])[0]


_OURS = sys.stdlib_module_names | {"__main__"}


def _needed() -> str:
    """Return the versions of the packages that debias needs."""
    try:
        needed = [re.match(r"[\w.-]+", text) for text in requires(DEBIAS) or () if ";" not in text]
    except PackageNotFoundError:
        needed = []
    return ", ".join(f"{name[0]} {_version(name[0])}" for name in needed if name)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "(not installed)"
