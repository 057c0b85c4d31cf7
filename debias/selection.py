"""Selection of features with scikit-learn: ``DebiasedSelector`` and ``DebiasedImportance``.

Both inherit from scikit-learn's classes, and ``import debias`` must not load scikit-learn. They are therefore plugins,
found by entry points of the group ``debias.selection``.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    from importlib.metadata import entry_points

    for point in entry_points(group="debias.selection", name=name):
        return point.load()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    from importlib.metadata import entry_points

    return sorted(entry_points(group="debias.selection").names)
