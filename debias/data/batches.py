"""Rows in batches: what streaming asks of wherever they come from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol


class Batch(NamedTuple):
    """Some rows."""

    X: Any
    y: Any
    weight: Any = None


class Source(Protocol):
    """Rows in batches."""

    @property
    def once(self) -> bool:
        """Whether the rows can be gone through once only."""
        ...

    @property
    def n_rows(self) -> int | None:
        """Number of rows, if it is known beforehand."""
        ...

    def __iter__(self) -> Iterator[Batch]:
        """Go through the rows, in order."""
        ...
