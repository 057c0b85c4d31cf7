"""What was told when a model was loaded from a file, kept for the results of that model."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

_told: WeakKeyDictionary[Any, tuple[str, ...]] = WeakKeyDictionary()


def remember(model: Any, texts: tuple[str, ...]) -> None:
    """Keep texts for the results of a model that was just loaded."""
    if texts:
        with suppress(TypeError):  # not every object can be a key
            _told[model] = texts


def told_of(model: Any) -> tuple[str, ...]:
    """Return what was told when a model was loaded; nothing for models that were not."""
    try:
        return _told.get(model, ())
    except TypeError:
        return ()
