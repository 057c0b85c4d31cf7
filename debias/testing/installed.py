"""What is installed, for ``debias doctor``: versions, whether they are new enough, and what to do if they are not."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, files, packages_distributions, requires, version
from importlib.util import find_spec
from typing import TYPE_CHECKING

from debias.child_process import command, run

if TYPE_CHECKING:
    from collections.abc import Iterable

DEBIAS = "debias-trees"
"""The distribution of debias."""
FOR_DEVELOPERS = {"test", "docs", "integration"}
"""Extras whose packages users do not need."""
UNKNOWN = "unknown"
"""The version of a module that has no metadata."""
SECONDS = 60.0
"""Time limit of the imports of the packages that debias needs."""
_MODULES = {"pyyaml": "yaml"}
_IMPORT = """
import os
from importlib import import_module

report = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # packages may print, also from C
for module in sys.argv[1:]:
    try:
        import_module(module)
        problem = None
    except BaseException as error:  # panics of Rust are no Exception
        problem = ": ".join(filter(None, [type(error).__name__, str(error).strip()]))
    print(json.dumps([module, problem]), file=report, flush=True)
os._exit(0)  # nothing that a package does at the end matters
"""
"""Imports modules, and prints what is wrong with each."""


@dataclass(frozen=True)
class Requirement:
    """A package that debias needs, or can use.

    Parameters
    ----------
    name : str
    minimum : str or None
        The oldest version that debias works with.
    needed : bool
        Whether debias does not work without it.
    """

    name: str
    minimum: str | None
    needed: bool


@dataclass(frozen=True)
class Installed:
    """An installed package.

    Parameters
    ----------
    distribution : str
        Its name for pip, which may be another than that of the requirement: several distributions can have one module.
    version : str
        "unknown" if it has no metadata.
    modules : tuple of str
        The names to import.
    """

    distribution: str
    version: str
    modules: tuple[str, ...]


def requirements() -> dict[str, Requirement]:
    """Return the packages that debias needs or can use, by name; a PackageNotFoundError if it has no metadata."""
    from packaging.requirements import Requirement as ParsedRequirement  # not above: it may be what is broken

    found: dict[str, Requirement] = {}
    for parsed in map(ParsedRequirement, requires(DEBIAS) or ()):
        marker = parsed.marker
        of_developers = marker is not None and any(marker.evaluate({"extra": extra}) for extra in FOR_DEVELOPERS)
        if parsed.name != DEBIAS and not of_developers:
            minimum = next((each.version for each in parsed.specifier if each.operator == ">="), None)
            found.setdefault(parsed.name, Requirement(parsed.name, minimum, needed=marker is None))
    return found


def installed(distribution: str, module: str | None = None) -> Installed | None:
    """Return what is installed of a package; None if neither a distribution nor a module has its name.

    Parameters
    ----------
    distribution : str
    module : str, optional
        Its import name; by default that of the distribution, with ``_`` for ``-``.
    """
    module = module or _MODULES.get(distribution, distribution.replace("-", "_"))
    try:
        found = version(distribution)
        packages = {path.parts[0] for path in files(distribution) or () if path.parts[1:] == ("__init__.py",)}
        return Installed(distribution, found or UNKNOWN, tuple(sorted(packages)) or (module,))
    except PackageNotFoundError:
        if not _importable(module):
            return None
    others = packages_distributions().get(module)  # slow, and rarely needed
    return (
        Installed(others[0], version(others[0]), (module,)) if others else Installed(distribution, UNKNOWN, (module,))
    )


def needed_modules() -> dict[str, str]:
    """Return the modules of the needed packages that are installed, and the name of the package of each.

    It uses no package, as any may be broken.
    """
    modules: dict[str, str] = {}
    for text in requires(DEBIAS) or ():
        name = re.match(r"[\w.-]+", text)
        if name is not None and ";" not in text:  # otherwise it is needed by an extra
            found = installed(name[0])
            modules |= dict.fromkeys(found.modules if found else (), name[0])
    return modules


def import_problems(modules: Iterable[str]) -> dict[str, str]:
    """Import modules in a process of its own, and return what is wrong with those that cannot be imported.

    After one that crashes or hangs, the rest is imported in a new process.
    """
    problems: dict[str, str] = {}
    left = list(modules)
    while left:
        done = run(command(_IMPORT, *left), SECONDS)
        reported = [json.loads(line) for line in done.printed.splitlines() if line.endswith("]")]
        problems |= {module: problem for module, problem in reported if problem is not None}
        left = left[len(reported) :]
        if left:
            crashed = replace(done, printed="").why()  # the report is no message
            hangs = f"its import did not end within {SECONDS:.0f} s"
            problems[left.pop(0)] = hangs if done.exit_code is None else crashed
    return problems


def too_old(found: Installed, minimum: str | None) -> str | None:
    """Return what to do about a package that is older than its minimum; None if it is not."""
    from packaging.version import InvalidVersion, Version

    try:
        is_older = minimum is not None and Version(found.version) < Version(minimum)
    except InvalidVersion:  # not known, or a version of somebody's own build
        return None
    name = found.distribution
    return f"{name} {found.version} is older than {minimum}, the minimum: pip install -U {name}" if is_older else None


def _importable(module: str) -> bool:
    """Whether there is a module of this name; a folder without ``__init__.py`` is none. A top-level one is not run."""
    try:
        spec = find_spec(module)
    except Exception:  # its parent is missing, or fails
        return False
    return spec is not None and spec.origin is not None
