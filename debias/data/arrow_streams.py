"""Rows that another library computes when they are read, as Arrow tables: queries, lazy frames and streams."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from debias.data.batches import ROWS_AT_ONCE
from debias.data.spark_rows import is_spark
from debias.errors import RowsError, with_article


@dataclass(frozen=True, eq=False, kw_only=True)
class ArrowStream:
    """Rows that are read as Arrow tables.

    Parameters
    ----------
    name : str
        What the rows are, for messages.
    columns : list of str
        Names of all columns.
    tables : callable
        Reads some columns: ``tables(columns)`` yields Arrow tables, with all rows in order.
    index : list of str
        Columns that are the index of a pandas frame.
    n_rows : int or None
        Number of rows, if it is known in advance.
    once : bool
        Whether the rows can be read only once.
    """

    name: str
    columns: list[str]
    tables: Callable[[list[str]], Iterator[Any]]
    index: list[str] = field(default_factory=list)
    n_rows: int | None = None
    once: bool = False


def is_stream(X: Any) -> bool:
    """Whether X is a relation of DuckDB, a lazy frame of Polars, a table of Ibis, or an Arrow stream."""
    if _is(X, "duckdb", "DuckDBPyRelation") or _is(X, "polars", "LazyFrame") or _is(X, "ibis", "Table"):
        return True
    kind = type(X)  # a frame of Spark Connect has an attribute of any name
    in_memory = any(hasattr(kind, name) for name in ("shape", "__dataframe__", "__len__"))
    return hasattr(kind, "__arrow_c_stream__") and not in_memory and not is_spark(X)


def refuse_unreadable(X: Any) -> None:
    """Raise a RowsError if the columns of a stream cannot be told: a query is wrong, or its connection is closed."""
    try:
        _ = X.collect_schema() if hasattr(X, "collect_schema") else getattr(X, "columns", None)
    except Exception as error:  # each library has errors of its own
        raise RowsError(f"the {type(X).__name__} cannot be read: {error}") from None


def stream_of(X: Any) -> ArrowStream:
    """Return the rows of an object for which :func:`is_stream` holds.

    A relation, a lazy frame and an Ibis table are computed each time that they are read, so that they can be read
    several times; an Arrow stream is read once.

    Raises
    ------
    ImportError
        pyarrow is not installed.
    """
    try:
        import pyarrow
    except ImportError:
        raise ImportError(
            f"reading {with_article(type(X).__name__)} in batches needs pyarrow: pip install pyarrow"
        ) from None
    if _is(X, "duckdb", "DuckDBPyRelation"):
        return ArrowStream(name="the relation of DuckDB", columns=list(X.columns), tables=partial(_of_relation, X))
    if _is(X, "polars", "LazyFrame"):
        names = list(X.collect_schema().names())
        return ArrowStream(name="the lazy frame", columns=names, tables=partial(_of_lazy_frame, X))
    if _is(X, "ibis", "Table"):
        return ArrowStream(name="the table of Ibis", columns=list(X.columns), tables=partial(_of_ibis, X))
    reader = pyarrow.RecordBatchReader.from_stream(X)
    return ArrowStream(
        name="the Arrow stream", columns=list(reader.schema.names), tables=partial(_of_reader, reader), once=True
    )


def _is(X: Any, module: str, kind: str) -> bool:
    known = getattr(sys.modules.get(module), kind, None)
    return isinstance(known, type) and isinstance(X, known)


def _of_relation(relation: Any, columns: list[str]) -> Iterator[Any]:
    import pyarrow

    names = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
    yield from _of_reader(pyarrow.RecordBatchReader.from_stream(relation.select(names)), columns)


def _of_lazy_frame(frame: Any, columns: list[str]) -> Iterator[Any]:
    chosen = frame.select(columns)
    if hasattr(chosen, "collect_batches"):  # since Polars 1.34
        parts = chosen.collect_batches(chunk_size=ROWS_AT_ONCE, maintain_order=True)
    else:
        parts = chosen.collect().iter_slices(ROWS_AT_ONCE)
    for part in parts:
        yield part.to_arrow()


def _of_ibis(table: Any, columns: list[str]) -> Iterator[Any]:
    yield from _of_reader(table.select(columns).to_pyarrow_batches(chunk_size=ROWS_AT_ONCE), columns)


def _of_reader(reader: Any, columns: list[str]) -> Iterator[Any]:
    import pyarrow

    for batch in reader:
        if batch.num_rows:
            yield pyarrow.Table.from_batches([batch]).select(columns)


def with_plain_numbers(table: Any) -> Any:
    """Return an Arrow table with decimal numbers, and truth values of which some are missing, as float64.

    pandas would make objects of them.
    """
    import pyarrow
    from pyarrow import types

    for place, column in enumerate(table.schema):
        values = table.column(place)
        if types.is_boolean(column.type) and values.null_count:
            values = values.cast(pyarrow.int8())
        elif not types.is_decimal(column.type):
            continue
        table = table.set_column(place, column.name, values.cast(pyarrow.float64()))
    return table
