"""Names that a module offers, and imports from other modules when they are first used."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def lazy_names(
    module: str, names: Mapping[str, str], submodules: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a module whose names are imported when they are first used.

    Type checkers learn the names from imports behind ``if TYPE_CHECKING``; the two functions stand behind its ``else``,
    so that a checker refuses other names.

    Parameters
    ----------
    module : str
        The ``__name__`` of the module.
    names : mapping of str to str
        Modules, and the names that come from each, with spaces between them.
    submodules : str
        Names of modules inside of this one, with spaces between them.

    Returns
    -------
    (callable, callable)
    """
    origins = {name: origin for origin, several in names.items() for name in several.split()}
    inside = frozenset(submodules.split())

    def get(name: str) -> Any:
        # What cannot be imported raises the error of its import, which says what is missing and where.
        if name in inside:
            return import_module(f"{module}.{name}")
        if name not in origins:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        found = getattr(import_module(origins[name]), name)
        setattr(sys.modules[module], name, found)  # Python asks once
        return found

    def all_names() -> list[str]:
        of_python = (name for name in vars(sys.modules[module]) if name.startswith("__"))
        return sorted({*of_python, *origins, *inside})

    return get, all_names
