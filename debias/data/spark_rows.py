"""Rows of a Spark data frame: its workers compute node sums of its partitions, and only sums come back.

A task reads its partition in Arrow batches and returns one row: the number of the partition, and its sum as bytes.
Later tasks add these in groups, always in the same order, so that the same frame gives the same numbers, also after a
task was repeated. Spark plans and runs all tasks, on this machine, on a cluster, or behind Spark Connect.
"""

from __future__ import annotations

import pickle
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import cloudpickle
import numpy as np
from blake3 import blake3

from debias.data.batches import ROWS_AT_ONCE, Batch, features_of, with_whole_numbers
from debias.errors import DebiasError, RowsError
from debias.text import listed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.warning_log import WarningLog

GROUPS = (64, 4)
"""Number of sums that are left after each stage of addition; those of the last stage are sent to this process."""
BYTES_AT_ONCE = 2**26
"""Size from which a batch is not made larger, however few rows it has."""
OF_SUMS = "part int, sums binary"
TAKEN = ("double", "float", "long", "integer", "short", "byte", "boolean", "string", "varchar", "char")
"""Types of columns that are taken as they are."""
TO_NUMBERS = ("decimal", "void")
"""Types of columns that are converted to float64."""
VECTORS = ("vectorudt", "array")
"""Types of columns that may hold all features of a row."""
SAMPLE = "for example rows = df.sample(fraction=0.01, seed=0).limit(20_000).toPandas()"


def is_spark(X: Any) -> bool:
    """Whether X is a data frame of Spark, of Spark Connect or of pandas on Spark."""
    return _is_connect(X) or _is(X, "pyspark.sql", "DataFrame") or _is(X, "pyspark.pandas", "DataFrame")


def refuse_spark(X: Any) -> None:
    """Raise a RowsError if X is a Spark frame, where rows in memory are needed."""
    if is_spark(X) or isinstance(X, SparkFrame):
        raise RowsError(
            f"X is a Spark frame, and this needs all rows in memory: pass a sample, {SAMPLE}. debias.score and "
            "debias.audit take Spark frames, for scorers that need only sums at the nodes, such as mdi_oob"
        )


class SparkFrame:
    """A Spark frame behind an object of its own: a frame of Spark Connect seems to have every attribute.

    Parameters
    ----------
    frame : DataFrame of Spark, Spark Connect or pandas on Spark
    """

    def __init__(self, frame: Any) -> None:
        self.frame = frame.to_spark() if _is(frame, "pyspark.pandas", "DataFrame") else frame

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.frame.columns)


class SparkRows:
    """The rows of a Spark data frame.

    Parameters
    ----------
    X : DataFrame of Spark or Spark Connect
    y, sample_weight : str
        Names of columns of X; `sample_weight` may be None.
    wanted : tuple of str, or None
        Columns that the model knows, if it knows names; others are left out.
    log : WarningLog
        Gets a warning about columns that are left out.

    Raises
    ------
    RowsError
        A column does not exist or has a type that is neither a number nor a label, or the frame is a stream.
    """

    once = False

    def __init__(self, X: Any, y: Any, sample_weight: Any, wanted: tuple[str, ...] | None, log: WarningLog) -> None:
        if X.isStreaming:
            raise RowsError(
                "a streaming frame of Spark has no end. Add its rows up in foreachBatch, with debias.NodeSums, or pass "
                "a frame that is not a stream"
            )
        for argument, column in (("y", y), ("sample_weight", sample_weight)):
            if (column is not None or argument == "y") and not isinstance(column, str):
                raise RowsError(f"{argument} must be the name of a column of the Spark frame")
            if column is not None and column not in X.columns:
                raise RowsError(f"the Spark frame has no column {column!r} for {argument}; it has {listed(X.columns)}")
        if y == sample_weight:
            raise RowsError(f"column {y!r} of the Spark frame cannot be both the response and the weights")
        _refuse_equal_names(X)
        features = features_of(X.columns, {y, sample_weight}, wanted, "the Spark frame", log)
        if not features:
            raise RowsError("the Spark frame has no columns besides the response and the weights")
        types = {field.name: field.dataType.typeName().split("(")[0].split(" ")[0] for field in X.schema.fields}
        self._columns = _Columns(features, y, sample_weight)
        if [types[name] for name in features] in ([kind] for kind in VECTORS):
            field = X.schema[features[0]]
            _refuse_other_entries(field)
            self._columns = _Columns(features, y, sample_weight, True, names_in_vector(field))
        _refuse_other_types({name: types[name] for name in self._columns.all}, self._columns)
        self._frame = X.selectExpr(*(_expression(name, types[name]) for name in self._columns.all))

    def reduced(
        self, function: Callable[[Any, Iterable[Batch]], Any], shared: Any, add: Callable[[Any, Any], Any]
    ) -> Any:
        """See :meth:`debias.data.batches.Partitioned.reduced`.

        Raises
        ------
        DebiasError
            `function` raised it in a task; the first partition counts.
        MemoryError, ImportError
            A process of Spark lacks memory, or debias.
        """
        with _sent(self._frame, _Work(function, shared, add, self._columns)) as work:
            sums = self._frame.mapInArrow(lambda batches: _sums_of_partition(work(), batches), OF_SUMS)
            for n_groups in GROUPS:
                in_groups = sums.selectExpr(f"part % {n_groups} AS in_group", "part", "sums").repartition("in_group")
                in_order = in_groups.sortWithinPartitions("in_group", "part").select("in_group", "sums")
                sums = in_order.mapInArrow(lambda batches: _sums_of_groups(work(), batches), OF_SUMS)
            with _clear_errors():
                found = sums.collect()
        total = None
        for row in sorted(found):
            total = _added(add, total, pickle.loads(row.sums))
        if isinstance(total, DebiasError):
            raise total
        return total


@dataclass(frozen=True)
class _Columns:
    """Which columns the features, the response and the weights are in."""

    features: list[str]
    y: str
    weight: str | None
    as_vector: bool = False
    names: list[str] | None = None
    """Names of the features in a vector, if the frame knows them."""

    @property
    def all(self) -> list[str]:
        """All columns that are read."""
        return [*self.features, self.y, *([] if self.weight is None else [self.weight])]

    def batch(self, table: Any) -> Batch:
        """Return the rows of an Arrow table."""
        if self.as_vector:
            import pandas as pd

            X: Any = vectors(table.column(0))
            X = X if self.names is None else pd.DataFrame(X, columns=self.names)
            frame = _to_pandas(table.select(range(1, table.num_columns)))
        else:
            frame = _to_pandas(table)
            X = with_whole_numbers(frame[self.features], table)
        return Batch(X, frame[self.y], None if self.weight is None else frame[self.weight])


@dataclass(frozen=True)
class _Work:
    """What a task needs to know."""

    function: Callable[[Any, Iterable[Batch]], Any]
    shared: Any
    add: Callable[[Any, Any], Any]
    columns: _Columns


def _refuse_equal_names(X: Any) -> None:
    """Raise a RowsError if Spark cannot tell columns apart by their names."""
    with_case = X.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    times = Counter(name if with_case else name.lower() for name in X.columns)
    twice = sorted({name for name in X.columns if times[name if with_case else name.lower()] > 1})
    if twice:
        raise RowsError(
            f"the Spark frame has columns of the same name: {listed(twice)}"
            + ("" if with_case else " (Spark ignores case, unless spark.sql.caseSensitive is true)")
            + ". Drop or rename all but one"
        )


def _refuse_other_entries(field: Any) -> None:
    """Raise a RowsError for an array of something else than numbers."""
    if field.dataType.typeName() != "array":
        return
    of = field.dataType.elementType.simpleString()
    if of.split("(")[0] not in ("double", "float", "bigint", "int", "smallint", "tinyint", "boolean", "decimal"):
        raise RowsError(f"column {field.name!r} of the Spark frame has arrays of {of}; they must be of numbers")


def _refuse_other_types(types: dict[str, str], columns: _Columns) -> None:
    """Raise a RowsError for columns that are neither numbers nor labels."""
    allowed = (*TAKEN, *TO_NUMBERS)
    refused = {name: kind for name, kind in types.items() if kind not in allowed}
    if columns.as_vector:
        refused.pop(columns.features[0], None)
    if refused:
        advice = "convert them to numbers or labels, or leave them out"
        if set(refused.values()) & set(VECTORS):
            advice += (
                ". A vector is taken if it is the only column besides the response and the weights: select it, for "
                f"example df.select('features', {columns.y!r})"
            )
        raise RowsError(
            "columns of the Spark frame are neither numbers nor labels: "
            f"{listed([f'{name} ({kind})' for name, kind in refused.items()])}; {advice}"
        )


def _expression(name: str, kind: str) -> str:
    """Return the SQL expression that selects a column."""
    quoted = "`" + name.replace("`", "``") + "`"
    return f"CAST({quoted} AS DOUBLE) AS {quoted}" if kind in TO_NUMBERS else quoted


@contextmanager
def _sent(frame: Any, work: _Work) -> Iterator[Callable[[], _Work]]:
    """Send work to the workers once, and yield a function that gives it in a task.

    Spark Connect has no broadcast variables; there, a file of the session is sent.
    """
    session = frame.sparkSession
    if _is_connect(frame):
        data = cloudpickle.dumps(work)
        with TemporaryDirectory() as folder:
            name = f"debias-{blake3(data).hexdigest()}.pickle"
            path = Path(folder) / name
            path.write_bytes(data)
            session.addArtifact(str(path), file=True)
        yield lambda: _from_file(name)
        return
    broadcast = session.sparkContext.broadcast(_ByValue(work))
    try:
        yield lambda: broadcast.value
    finally:
        broadcast.destroy()


class _ByValue:
    """Pickles as an object that cloudpickle can pickle, and pickle perhaps cannot."""

    def __init__(self, inside: Any) -> None:
        self._inside = inside

    def __reduce__(self) -> Any:
        return cloudpickle.loads, (cloudpickle.dumps(self._inside),)


@lru_cache(maxsize=1)
def _from_file(name: str) -> _Work:
    """Return the work in a file that was sent; the processes of Python on the workers are used for many tasks."""
    from pyspark import SparkFiles

    return pickle.loads(Path(SparkFiles.get(name)).read_bytes())


def _sums_of_partition(work: _Work, arrow: Iterable[Any]) -> Iterator[Any]:
    """Yield one row: the number of the partition and the sum of its rows, or a debias error; nothing without rows."""
    from pyspark import TaskContext

    part = TaskContext.get().partitionId()
    batches = map(work.columns.batch, _tables(arrow))
    try:
        first = next(batches, None)
        if first is None:
            return
        found = work.function(work.shared, _chained(first, batches))
    except DebiasError as error:  # an error that is raised in a task would come back with the stack of Java
        found = type(error)(f"in partition {part} of the Spark frame: {error}")
    yield _row(part, found)


def _sums_of_groups(work: _Work, arrow: Iterable[Any]) -> Iterator[Any]:
    """Yield one row for each group: its number and the sum of its rows, which follow one another."""
    group, total = -1, None
    for batch in arrow:
        for number, sums in zip(batch.column(0), batch.column(1), strict=True):
            if number.as_py() != group and total is not None:
                yield _row(group, total)
                total = None
            group, total = number.as_py(), _added(work.add, total, pickle.loads(sums.as_buffer()))
    if total is not None:
        yield _row(group, total)


def _row(part: int, sums: Any) -> Any:
    """Return an Arrow batch of one row. The processes of one application exchange pickles, as Spark's own do."""
    import pyarrow

    columns = [pyarrow.array([part], pyarrow.int32()), pyarrow.array([pickle.dumps(sums)], pyarrow.binary())]
    return pyarrow.RecordBatch.from_arrays(columns, names=["part", "sums"])


def _added(add: Callable[[Any, Any], Any], total: Any, part: Any) -> Any:
    """Return the sum of two results; of errors, the first."""
    if total is None or isinstance(part, DebiasError) and not isinstance(total, DebiasError):
        return part
    return total if isinstance(total, DebiasError) else add(total, part)


def _chained(first: Batch, others: Iterator[Batch]) -> Iterator[Batch]:
    yield first
    yield from others


def _tables(arrow: Iterable[Any]) -> Iterator[Any]:
    """Yield Arrow tables of up to about ROWS_AT_ONCE rows: Spark's batches have 10,000."""
    import pyarrow

    waiting: list[Any] = []
    for batch in arrow:
        waiting.append(batch)
        n_rows = sum(part.num_rows for part in waiting)
        if n_rows >= ROWS_AT_ONCE or sum(part.nbytes for part in waiting) >= BYTES_AT_ONCE:
            yield pyarrow.Table.from_batches(waiting)
            waiting = []
    if any(part.num_rows for part in waiting):
        yield pyarrow.Table.from_batches(waiting)


def _to_pandas(table: Any) -> Any:
    """Return a pandas frame of a table, missing truth values as NaN."""
    import pyarrow

    for number, column in enumerate(table.columns):
        if pyarrow.types.is_boolean(column.type) and column.null_count:
            table = table.set_column(number, table.column_names[number], column.cast(pyarrow.int8()))
    return table.to_pandas()


@contextmanager
def _clear_errors() -> Iterator[None]:
    """Say what to do where Spark lacks memory or a package; other errors of Spark stay as they are."""
    try:
        yield
    except Exception as error:  # Spark's errors come as several types, and Java's among them only as texts
        text = str(error)
        if "maxResultSize" in text:
            raise MemoryError(
                "the node sums of this model are larger than the driver of Spark takes: the model has many leaves, and "
                f"up to {GROUPS[-1]} sums of 24 bytes or more per leaf come back. Set spark.driver.maxResultSize, and "
                "spark.driver.memory if needed, to more when Spark is started; or fit trees with fewer leaves"
            ) from None
        if "OutOfMemoryError" in text or "MemoryError" in text:
            raise MemoryError(
                "a process of Spark has too little memory. A Python worker holds the model, a batch of rows and two "
                "node sums (24 bytes or more per leaf each): set spark.executor.memory or "
                "spark.executor.memoryOverhead, and spark.driver.memory, to more when Spark is started"
            ) from None
        lacking = [name for name in ("debias", "pyarrow") if f"No module named '{name}" in text]
        if lacking:
            raise ImportError(
                f"the Python of Spark's workers has no {lacking[0]}: install debias, pyarrow and the library of "
                "the model there, in the versions of this process (docs/spark.md shows a packed environment)"
            ) from None
        raise


def _is_connect(X: Any) -> bool:
    return _is(X, "pyspark.sql.connect.dataframe", "DataFrame")


def _is(X: Any, module: str, name: str) -> bool:
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(X, getattr(loaded, name))


def vectors(column: Any) -> NDArray[np.float64]:
    """Return the values of a column of vectors.

    Parameters
    ----------
    column : Arrow column of vectors (dense or sparse) or of lists of numbers

    Returns
    -------
    array of shape (n_rows, n_features)
        What a sparse vector does not store is 0.

    Raises
    ------
    RowsError
        A vector is missing, or vectors have different lengths.
    """
    column = column.combine_chunks()
    if column.null_count:
        raise RowsError("the column of vectors has missing ones: leave out these rows")
    if not hasattr(column, "field"):  # lists of numbers
        return _of_equal_length(column)
    stored = {name: column.field(name) for name in ("type", "size", "indices", "values")}
    dense = stored["type"].to_numpy() == 1
    if dense.all():
        return _of_equal_length(stored["values"])
    return _with_sparse(dense, stored)


def names_in_vector(field: Any) -> list[str] | None:
    """Return the names of the features in a vector, if a VectorAssembler stored them in the frame; else None.

    Parameters
    ----------
    field : pyspark StructField
    """
    about = field.metadata.get("ml_attr", {})
    attributes = [each for of_kind in about.get("attrs", {}).values() for each in of_kind]
    name_of = {each["idx"]: each["name"] for each in attributes if "name" in each}
    complete = name_of and sorted(name_of) == list(range(about.get("num_attrs", 0)))
    names = [name_of[k] for k in sorted(name_of)] if complete else []
    return names if names and len(set(names)) == len(names) else None


def _of_equal_length(lists: Any) -> NDArray[np.float64]:
    lengths = lists.value_lengths().to_numpy()
    if (lengths != lengths[0]).any():
        raise _other_lengths(lengths)
    return lists.flatten().to_numpy(zero_copy_only=False).astype(np.float64).reshape(len(lists), -1)


def _with_sparse(dense: NDArray[np.bool_], stored: dict[str, Any]) -> NDArray[np.float64]:
    n_stored = stored["values"].value_lengths().to_numpy()
    sizes = np.where(dense, n_stored, stored["size"].fill_null(0).to_numpy())
    if (sizes != sizes[0]).any():
        raise _other_lengths(sizes)
    row = np.repeat(np.arange(dense.size), n_stored)
    begin = np.repeat(np.cumsum(n_stored) - n_stored, n_stored)
    at = np.arange(row.size) - begin  # of dense vectors
    at[~dense[row]] = stored["indices"].flatten().to_numpy()
    full = np.zeros((dense.size, int(sizes[0])))
    full[row, at] = stored["values"].flatten().to_numpy()
    return full


def _other_lengths(lengths: NDArray[Any]) -> RowsError:
    return RowsError(f"vectors have different lengths, from {lengths.min()} to {lengths.max()}: they must be the same")
