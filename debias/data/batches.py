"""Rows in batches: the interface between streaming and the sources of rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol


class Batch(NamedTuple):
    """A batch of rows: features, response and weights."""

    X: Any
    y: Any
    weight: Any = None


class Source(Protocol):
    """An object that yields rows in batches."""

    @property
    def once(self) -> bool:
        """Whether the rows can be iterated over only once."""
        ...

    @property
    def n_rows(self) -> int | None:
        """Number of rows, if it is known in advance."""
        ...

    def __iter__(self) -> Iterator[Batch]:
        """Yield the rows, in order."""
        ...
