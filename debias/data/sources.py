"""Sources of rows that are not all in memory at once: files, queries, streams, Dask and Spark frames, and batches.

Each worker of Dask computes sums of its partitions, and the sums are added a few at a time, in the form of a tree. Dask
plans and runs all tasks on the active scheduler: threads of this process, or a cluster.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from copy import copy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from debias.data.arrow_streams import ArrowStream, is_stream, stream_of, with_plain_numbers
from debias.data.batches import ROWS_AT_ONCE, Batch, Partitioned, Source, features_of, with_whole_numbers
from debias.data.spark_rows import SAMPLE, SparkFrame, SparkRows
from debias.errors import RowsError, with_article

if TYPE_CHECKING:
    from debias.warning_log import WarningLog

ENDINGS = {".parquet": "parquet", ".pq": "parquet", ".feather": "feather", ".arrow": "feather"}
"""Endings of files that are read in batches, and Arrow's names of their formats."""


def is_source(X: Any, y: Any) -> bool:
    """Whether X is a source of rows and not a table: a path, a dataset, a query, a frame of Dask or Spark, or batches.

    Parameters
    ----------
    X, y
        As for :func:`debias.score`.
    """
    if isinstance(X, (str, Path)) or _is_dataset(X) or is_stream(X) or is_dask(X) or isinstance(X, SparkFrame):
        return True
    if y is not None or not isinstance(X, Iterable) or any(hasattr(X, name) for name in ("shape", "__dataframe__")):
        return False
    if isinstance(X, (list, tuple)):
        return bool(X) and all(isinstance(item, tuple) and len(item) in (2, 3) and _has_table(item) for item in X)
    return not isinstance(X, (dict, set, frozenset, bytes))


def source_of(
    X: Any, y: Any, sample_weight: Any, wanted: tuple[str, ...] | None, log: WarningLog
) -> Source | Partitioned:
    """Return the batches of a source.

    Parameters
    ----------
    X : object
        A str, Path, pyarrow dataset, query or stream (`is_stream`), Dask data frame or array, SparkFrame, or iterable
        of (X, y) or (X, y, weight).
    y, sample_weight : str, Dask collection or None
        For a file, dataset, query, stream or Spark frame, the names of the columns with the response and the weights.
        For Dask, such names or collections. Otherwise None.
    wanted : tuple of str, or None
        Columns that the model knows, if it knows names; others are left out.
    log : WarningLog
        Gets a warning about columns that are left out.

    Raises
    ------
    FileNotFoundError
        The file does not exist.
    RowsError
        The file has another format or lacks these columns; or weights are passed beside batches.
    """
    if isinstance(X, (str, Path)):
        return _Columns(_of_dataset(_dataset(Path(X)), str(X)), y, sample_weight, wanted, log)
    if _is_dataset(X):
        return _Columns(_of_dataset(X, "the dataset"), y, sample_weight, wanted, log)
    if is_stream(X):
        with _named(f"the {type(X).__name__}"):
            stream = stream_of(X)
        return _Columns(stream, y, sample_weight, wanted, log)
    if is_dask(X):
        return DaskRows(X, y, sample_weight, wanted, log)
    if isinstance(X, SparkFrame):
        return SparkRows(X.frame, y, sample_weight, wanted, log)
    if sample_weight is not None:
        raise RowsError("rows in batches must contain their weights: yield (X, y, weight), and leave out sample_weight")
    return _Batches(X)


def in_memory(X: Any) -> str:
    """Return the advice to pass rows in memory, in words for the user of this source."""
    if isinstance(X, SparkFrame):
        return f"pass rows in memory, {SAMPLE}"
    call = next((f" (X.{name}() has them)" for name in ("collect", "df") if hasattr(X, name)), "")
    return "pass X and y in memory" + (call if is_stream(X) else "")


class _Columns:
    """Rows as Arrow tables, in which one column is the response."""

    def __init__(
        self, stream: ArrowStream, y: Any, sample_weight: Any, wanted: tuple[str, ...] | None, log: WarningLog
    ) -> None:
        name, columns = stream.name, stream.columns
        for argument, column in (("y", y), ("sample_weight", sample_weight)):
            if argument == "y" and not isinstance(column, str):
                raise RowsError(f"the rows come from {name}: pass the name of the column with the response, y='...'")
            if column is not None and (not isinstance(column, str) or column not in columns):
                raise RowsError(f"{name} has no column {column!r} for {argument}; it has {', '.join(columns)}")
        self._features = features_of(columns, {y, sample_weight, *stream.index}, wanted, name, log)
        if y == sample_weight:
            raise RowsError(f"column {y!r} of {name} cannot be both the response and the weights")
        self._stream, self._y, self._weight = stream, y, sample_weight
        self.n_rows, self.once = stream.n_rows, stream.once

    def __iter__(self) -> Iterator[Batch]:
        columns = [*self._features, self._y, *([] if self._weight is None else [self._weight])]
        for frame, table in self._frames(columns):
            X = with_whole_numbers(frame[self._features], table)
            yield Batch(X, frame[self._y], None if self._weight is None else frame[self._weight])

    def _frames(self, columns: list[str]) -> Iterator[tuple[Any, Any]]:
        """Yield the rows as pandas frames and as Arrow tables; errors name the source."""
        tables = self._stream.tables(columns)
        while True:
            with _named(self._stream.name):
                table = next(tables, None)
                if table is None:
                    return
                table.validate(full=True)  # with a damaged table pandas would read beyond its memory
            for begin in range(0, table.num_rows, ROWS_AT_ONCE):
                with _named(self._stream.name):
                    part = with_plain_numbers(table.slice(begin, ROWS_AT_ONCE))
                    frame = part.to_pandas(ignore_metadata=True)
                yield frame, part


class _Batches:
    """An iterable of batches."""

    n_rows = None

    def __init__(self, batches: Iterable[Any]) -> None:
        self._batches = batches
        self.once = isinstance(batches, Iterator)

    def __iter__(self) -> Iterator[Batch]:
        for number, batch in enumerate(self._batches):
            if not isinstance(batch, (tuple, list)) or len(batch) not in (2, 3):
                raise RowsError(
                    f"batch {number} is {with_article(type(batch).__name__)}; batches must be pairs (X, y) or triples "
                    "(X, y, weight)"
                )
            X = batch[0]
            if X.shape[0] if hasattr(X, "shape") else len(X):
                yield Batch(*batch)


@contextmanager
def _named(name: str, form: str = "") -> Iterator[None]:
    """Turn any error in the block into a RowsError that names the source: Arrow raises errors of many types."""
    try:
        yield
    except (RowsError, ImportError):
        raise
    except Exception as error:
        raise RowsError(f"{name} cannot be read{form}: {error}") from None


def _of_dataset(dataset: Any, name: str) -> ArrowStream:
    """Return the rows of a dataset."""
    with _named(name):
        metadata = dataset.schema.pandas_metadata or {}
        index = [column for column in metadata.get("index_columns", []) if isinstance(column, str)]
        columns, n_rows = list(dataset.schema.names), int(dataset.count_rows())
    return ArrowStream(name=name, columns=columns, tables=partial(_tables, dataset, name), index=index, n_rows=n_rows)


def _refuse_lacking(dataset: Any, name: str, columns: list[str]) -> None:
    """Raise a RowsError if a file of the dataset lacks a column: Arrow would read it as missing values."""
    fragments: list[Any] = []
    with suppress(ValueError):  # a dataset with a filter has no fragments
        fragments = list(dataset.get_fragments())
    for fragment in fragments:
        columns_of_file = {*fragment.physical_schema.names, *_of_partition(fragment)}
        lacking = [column for column in columns if column not in columns_of_file]
        if lacking:
            file = getattr(fragment, "path", "") or name
            raise RowsError(f"{file} has no column {', '.join(lacking)}, which other files of {name} have")


def _of_partition(fragment: Any) -> list[str]:
    """Return the columns that are given by the path of a file instead of its content."""
    from pyarrow.dataset import get_partition_keys

    return list(get_partition_keys(fragment.partition_expression))


def _tables(dataset: Any, name: str, columns: list[str]) -> Iterator[Any]:
    """Yield the row groups of Parquet files one by one, and other files and datasets in batches.

    A scan of Parquet files reads ahead, up to a whole file, if the rows are processed more slowly than they are read.
    """
    import pyarrow

    _refuse_lacking(dataset, name, columns)
    fragments: list[Any] = []
    if getattr(getattr(dataset, "format", None), "default_extname", "") == "parquet":
        with suppress(ValueError):  # a dataset with a filter has no fragments
            fragments = list(dataset.get_fragments())
    if fragments:
        for fragment in fragments:
            for group in fragment.split_by_row_group():
                yield group.to_table(schema=dataset.schema, columns=columns, use_threads=False)
        return
    for batch in dataset.to_batches(columns=columns, batch_size=ROWS_AT_ONCE, batch_readahead=1, fragment_readahead=1):
        yield pyarrow.Table.from_batches([batch])


def _dataset(path: Path) -> Any:
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    form = "parquet" if path.is_dir() else ENDINGS.get(path.suffix.lower())
    if form is None:
        raise RowsError(
            f"{path} is not a file that debias can read: it reads files that end in {', '.join(ENDINGS)}, and "
            "directories of Parquet files. Read other files yourself, for example with pandas.read_csv, and pass the "
            "rows whole or in batches (X, y)"
        )
    try:
        from pyarrow import dataset
    except ImportError:
        raise ImportError("reading files in batches needs pyarrow: pip install pyarrow") from None
    with _named(str(path), f" as {form.capitalize()}"):
        return dataset.dataset(path, format=form)


def _is_dataset(X: Any) -> bool:
    dataset = sys.modules.get("pyarrow.dataset")
    return dataset is not None and isinstance(X, dataset.Dataset)


def _has_table(batch: tuple[Any, ...]) -> bool:
    return len(getattr(batch[0], "shape", ())) == 2


ADDED_AT_ONCE = 4
"""Number of partial sums added in one step; a worker holds this many in memory."""


def is_dask(X: Any) -> bool:
    """Whether X is a Dask data frame or array."""
    frames, arrays = sys.modules.get("dask.dataframe"), sys.modules.get("dask.array")
    return (frames is not None and isinstance(X, frames.DataFrame)) or (
        arrays is not None and isinstance(X, arrays.Array)
    )


class DaskRows:
    """The rows of a Dask collection, one batch per partition.

    Parameters
    ----------
    X : dask DataFrame or Array of shape (n_rows, n_features)
    y, sample_weight : str, or dask Series or Array of shape (n_rows,)
        The name of a column of X, or a collection with the same partitions; `sample_weight` may be None.
    wanted : tuple of str, or None
        Columns that the model knows, if it knows names; others are left out.
    notes : WarningLog
        Gets a warning about columns that are left out.

    Raises
    ------
    RowsError
        A column does not exist, or y has other partitions than X.
    """

    once = False
    n_rows = None

    def __init__(self, X: Any, y: Any, sample_weight: Any, wanted: tuple[str, ...] | None, log: WarningLog) -> None:
        for argument, value in (("y", y), ("sample_weight", sample_weight)):
            if isinstance(value, str) and value not in getattr(X, "columns", ()):
                raise RowsError(f"the Dask collection has no column {value!r} for {argument}")
            if not isinstance(value, str) and not hasattr(value, "dask") and (value is not None or argument == "y"):
                raise RowsError(
                    f"{argument} must be the name of a column of X, or a Dask collection with the same partitions"
                )
        by_field = {"y": y, "weight": sample_weight}
        self._columns = {field: value for field, value in by_field.items() if isinstance(value, str)}
        self._features: list[Any] | None = None
        if hasattr(X, "columns"):
            self._features = features_of(X.columns, {*self._columns.values()}, wanted, "X", log)
            # One selection reads all columns of a file together.
            X = X[list(dict.fromkeys([*self._features, *self._columns.values()]))]
        collections = {
            field: value for field, value in by_field.items() if field not in self._columns and value is not None
        }
        self._parts = [_delayed(X), *(_delayed(collection) for collection in collections.values())]
        self._fields_of_collections = tuple(collections)
        if len({len(parts) for parts in self._parts}) > 1:
            counts = ", ".join(str(len(parts)) for parts in self._parts)
            raise RowsError(
                f"X, y and sample_weight have different numbers of partitions ({counts}): repartition them alike, or "
                "pass the names of columns of X"
            )

    def __iter__(self) -> Iterator[Batch]:
        """Load one partition after the other into this process."""
        from dask import compute

        for parts in zip(*self._parts, strict=True):
            batch = self._batch(*compute(*parts))
            if len(batch.X):
                yield batch

    def _batch(self, X: Any, *others: Any) -> Batch:
        """Return a batch from a partition of X and those of the other collections."""
        from_columns = {field: X[name] for field, name in self._columns.items()}
        from_collections = dict(zip(self._fields_of_collections, others, strict=True))
        return Batch(X if self._features is None else X[self._features], **from_columns, **from_collections)

    def reduced(
        self, function: Callable[[Any, Iterable[Batch]], Any], shared: Any, add: Callable[[Any, Any], Any]
    ) -> Any:
        """See :meth:`debias.data.batches.Partitioned.reduced`."""
        from dask import delayed

        sent = _sent(shared)
        without_parts = copy(self)
        without_parts._parts = []  # tasks get the partitions as arguments
        sums = [
            delayed(_apply)(function, sent, without_parts._batch, *parts) for parts in zip(*self._parts, strict=True)
        ]
        while len(sums) > 1:
            begins = range(0, len(sums), ADDED_AT_ONCE)
            sums = [delayed(_add)(add, sums[begin : begin + ADDED_AT_ONCE]) for begin in begins]
        return sums[0].compute()


def _delayed(collection: Any) -> list[Any]:
    """Return the partitions of a collection as tasks."""
    if not hasattr(collection, "to_delayed"):
        raise RowsError(f"{with_article(type(collection).__name__)} is not a Dask collection of rows")
    if getattr(collection, "ndim", 1) == 2 and hasattr(collection, "chunks"):
        collection = collection.rechunk({1: -1})
    parts = collection.to_delayed()
    return list(parts.ravel() if hasattr(parts, "ravel") else parts)


def _sent(shared: Any) -> Any:
    """Return an object for tasks to share; on a cluster, a reference to a copy in each worker."""
    from dask import delayed

    distributed = sys.modules.get("distributed")
    if distributed is not None:
        try:
            client = distributed.get_client()
        except ValueError:  # there is no cluster: the scheduler is in this process
            return delayed(shared, traverse=False)
        return client.scatter(shared, broadcast=True, hash=False)
    return delayed(shared, traverse=False)


def _apply(function: Callable[..., Any], shared: Any, to_batch: Callable[..., Batch], *parts: Any) -> Any:
    return function(shared, [to_batch(*parts)]) if len(parts[0]) else None


def _add(add: Callable[[Any, Any], Any], parts: list[Any]) -> Any:
    total = None
    for part in parts:
        if part is not None:
            total = part if total is None else add(total, part)
    return total
