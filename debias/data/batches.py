"""Rows in batches: the interfaces between streaming and the sources of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from debias.warning_log import WarningLog

Part = TypeVar("Part")
ROWS_AT_ONCE = 65536


class Batch(NamedTuple):
    """A batch of rows: features, response and weights."""

    X: Any
    y: Any
    weight: Any = None


@runtime_checkable
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


@runtime_checkable
class Partitioned(Protocol):
    """Rows that lie in partitions, on which workers compute where they are."""

    @property
    def once(self) -> bool:
        """Whether the rows can be read only once."""
        ...

    def reduced(
        self,
        function: Callable[[Any, Iterable[Batch]], Part],
        shared: Any,
        add: Callable[[Part, Part], Part],
    ) -> Part | None:
        """Return the sum of ``function(shared, batches)`` over all partitions; None if there are no rows.

        Parameters
        ----------
        function : callable
            Called with the batches of one partition. Each has rows, and there is at least one.
        shared : object
            Sent to each worker once.
        add : callable
            ``add(total, part)`` returns the sum of two results of `function`.
        """
        ...


def features_of(
    columns: Iterable[str], others: set[str | None], wanted: tuple[str, ...] | None, where: str, log: WarningLog
) -> list[str]:
    """Return the columns that are features.

    Parameters
    ----------
    columns : iterable of str
        All columns of a source.
    others : set of str
        Columns that are not features, such as the response.
    wanted : tuple of str, or None
        Columns that the model knows, if it knows names; others are left out.
    where : str
        Name of the source.
    log : WarningLog
        Gets a warning about columns that are left out.
    """
    features = [name for name in columns if name not in others]
    if wanted is None or not set(wanted) <= set(features):
        return features
    unused = [str(name) for name in features if name not in wanted]
    if unused:
        log.warn(f"columns of {where} that the model does not know are left out: {', '.join(unused)}")
    return list(wanted)


def with_whole_numbers(X: Any, table: Any) -> Any:
    """Return features whose columns of whole numbers stay such where some are missing.

    pandas makes them float64 otherwise, and what Spark imputes depends on the type.

    Parameters
    ----------
    X : pandas DataFrame
    table : pyarrow Table
        The same rows; it has the columns of `X`, and perhaps others.
    """
    import pandas as pd
    import pyarrow as pa

    columns = {name: table.column(name) for name in X.columns}
    whole = {
        name: pd.array(column.cast(pa.int64()).to_numpy(), dtype="Int64")
        for name, column in columns.items()
        if column.null_count and pa.types.is_signed_integer(column.type)
    }
    return X.assign(**whole) if whole else X
