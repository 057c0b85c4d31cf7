"""Options of scorers and meta-methods: as text, as plain values, and in pickles of plugins."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping


def options_text(options: Mapping[str, Any]) -> str:
    """Return options as they are written in an expression."""
    return ", ".join(f"{key}={value!r}" for key, value in options.items())


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with Python scalars instead of numpy scalars, so that they can be read back from a name."""
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in options.items()}


def by_name(plugin: Any) -> tuple[Any, ...] | None:
    """Return how another process finds a plugin that is made from a function; None if it cannot find it."""
    module, name = (getattr(plugin.function, part, "") for part in ("__module__", "__qualname__"))
    if module == "__main__":  # a script or notebook: another process has its own __main__
        return None
    in_module = getattr(sys.modules.get(module), name, None)
    if getattr(in_module, "function", None) is not plugin.function:
        return None
    return _found_by_name, (module, name, dict(plugin.options))


def _found_by_name(module: str, name: str, options: dict[str, Any]) -> Any:
    from importlib import import_module

    plugin = getattr(import_module(module), name)
    return plugin.with_options(**options) if options else plugin
