"""What is installed, for ``debias doctor``: versions, whether they are new enough, and what to do if they are not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, files, packages_distributions, requires, version
from importlib.util import find_spec

DEBIAS = "debias-trees"
"""The distribution of debias."""
FOR_DEVELOPERS = {"test", "docs", "integration"}
"""Extras whose packages users do not need."""
UNKNOWN = "unknown"
"""The version of a module that has no metadata."""
_MODULES = {"pyyaml": "yaml"}
_REQUIREMENT = re.compile(
    r"(?P<name>[\w.-]+)(\[.*?\])?(>=(?P<minimum>[\w.]+))?(; extra == [\"'](?P<extra>[\w-]+)[\"'])?"
)
"""All that requirements of debias consist of. A parser for others, ``packaging``, is none of its dependencies."""
_BEFORE_THE_RELEASE = ("a", "b", "c", "rc", "pre", "dev")


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
    found: dict[str, Requirement] = {}
    for text in requires(DEBIAS) or ():
        parts = _REQUIREMENT.fullmatch(text)
        if parts is None:
            raise ValueError(f"the requirement {text!r} of {DEBIAS} has another form than NAME>=VERSION")
        name, extra = parts["name"], parts["extra"]
        if name != DEBIAS and extra not in FOR_DEVELOPERS:
            found.setdefault(name, Requirement(name, parts["minimum"], needed=extra is None))
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


def too_old(found: Installed, minimum: str | None) -> str | None:
    """Return what to do about a package that is older than its minimum; None if it is not."""
    if minimum is None or found.version == UNKNOWN or not is_older(found.version, minimum):
        return None
    name = found.distribution
    return f"{name} {found.version} is older than {minimum}, the minimum: pip install -U {name}"


def is_older(one: str, other: str) -> bool:
    """Whether a version is older than a released one.

    Examples
    --------
    >>> [is_older(version, "2.0") for version in ("1.26.4", "2.0.0rc1", "2", "2.0.post1", "2.10")]
    [True, True, False, False, False]
    """
    mine, others = _numbers(one), _numbers(other)
    return mine < others or (mine == others and _is_before_the_release(one))


def _importable(module: str) -> bool:
    """Whether there is a module of this name; a folder without ``__init__.py`` is none. A top-level one is not run."""
    try:
        spec = find_spec(module)
    except Exception:  # its parent is missing, or fails
        return False
    return spec is not None and spec.origin is not None


def _numbers(version: str) -> list[int]:
    """Return the numbers of a release without zeros at the end: 2, 2.0 and 2.0.0 are one release."""
    numbers = [int(number) for number in _release(version).split(".") if number]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return numbers


def _is_before_the_release(version: str) -> bool:
    return version[len(_release(version)) :].lstrip("._-").startswith(_BEFORE_THE_RELEASE)


def _release(version: str) -> str:
    """Return the beginning of a version that consists of numbers: "2.0" of "2.0rc1"."""
    begin = re.match(r"\d+(\.\d+)*", version)
    return begin[0] if begin else ""
