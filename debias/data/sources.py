"""Where rows come from that are not all in memory at once: files, datasets, batches."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from debias.data.batches import Batch, Source
from debias.data.dask_rows import DaskRows, is_dask
from debias.errors import RowsError

if TYPE_CHECKING:
    from debias.warning_log import WarningLog

ROWS_AT_ONCE = 65536
ENDINGS = {".parquet": "parquet", ".pq": "parquet", ".feather": "feather", ".arrow": "feather"}


def is_source(X: Any, y: Any) -> bool:
    """Whether X is a source of rows, and no table: a path, a dataset, Dask, or batches, beside which there is no y.

    Parameters
    ----------
    X, y
        As for :func:`debias.score`.
    """
    if isinstance(X, (str, Path)) or _is_dataset(X) or is_dask(X):
        return True
    if y is not None or not isinstance(X, Iterable) or any(hasattr(X, name) for name in ("shape", "__dataframe__")):
        return False
    if isinstance(X, (list, tuple)):
        return bool(X) and all(isinstance(each, tuple) and len(each) in (2, 3) and _rows(each) for each in X)
    return not isinstance(X, (dict, set, frozenset, bytes))


def source_of(X: Any, y: Any, sample_weight: Any, wanted: tuple[str, ...] | None, notes: WarningLog) -> Source:
    """Return the batches of a source.

    Parameters
    ----------
    X : str, Path, pyarrow dataset, Dask data frame or array, or iterable of (X, y) or (X, y, weight)
    y, sample_weight : str, Dask collection or None
        Of a file or dataset, the columns with the response and the weights; of Dask, such or collections; else None.
    wanted : tuple of str, or None
        Columns the model knows, if it knows names; others are left out.
    notes : WarningLog
        Takes note of columns that are left out.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    RowsError
        The file is of another format, or has no such columns; or y or weights stand beside batches.
    """
    if isinstance(X, (str, Path)):
        return _Columns(_dataset(Path(X)), str(X), y, sample_weight, wanted, notes)
    if _is_dataset(X):
        return _Columns(X, "the dataset", y, sample_weight, wanted, notes)
    if is_dask(X):
        return DaskRows(X, y, sample_weight, wanted, notes)
    if sample_weight is not None:
        raise RowsError("rows that come in batches have their weights with them: yield (X, y, weight)")
    return _Batches(X)


class _Columns:
    """A pyarrow dataset, one column of which is the response."""

    once = False

    def __init__(
        self,
        dataset: Any,
        name: str,
        y: Any,
        sample_weight: Any,
        wanted: tuple[str, ...] | None,
        notes: WarningLog,
    ) -> None:
        there, index, n_rows = _about(dataset, name)
        for what, column in (("y", y), ("sample_weight", sample_weight)):
            if what == "y" and not isinstance(column, str):
                raise RowsError(f"rows come from {name}: pass the name of the column with the response, y='...'")
            if column is not None and (not isinstance(column, str) or column not in there):
                raise RowsError(f"{name} has no column {column!r} for {what}; it has {', '.join(there)}")
        apart = {y, sample_weight, *index}
        features = [column for column in there if column not in apart]
        if wanted is not None and set(wanted) <= set(features):
            unused = [column for column in features if column not in wanted]
            if unused:
                notes.warn(f"columns of {name} the model does not know are left out: {', '.join(unused)}")
            features = list(wanted)
        if y == sample_weight:
            raise RowsError(f"column {y!r} of {name} cannot be both the response and the weights")
        self._dataset, self._name = dataset, name
        self._features, self._y, self._weight = features, y, sample_weight
        self.n_rows = n_rows

    def __iter__(self) -> Iterator[Batch]:
        columns = [*self._features, self._y, *([] if self._weight is None else [self._weight])]
        for frame in self._frames(columns):
            yield Batch(frame[self._features], frame[self._y], None if self._weight is None else frame[self._weight])

    def _frames(self, columns: list[str]) -> Iterator[Any]:
        """Read the rows, and name the source where they cannot be read."""
        with _named(self._name):
            _refuse_lacking(self._dataset, self._name, columns)
            tables = _tables(self._dataset, columns)
        while True:
            with _named(self._name):
                table = next(tables, None)
                if table is None:
                    return
                table.validate(full=True)  # of a damaged one pandas would follow offsets out of memory
            for begin in range(0, table.num_rows, ROWS_AT_ONCE):
                with _named(self._name):
                    frame = table.slice(begin, ROWS_AT_ONCE).to_pandas(ignore_metadata=True)
                yield frame


class _Batches:
    """An iterable of batches."""

    n_rows = None

    def __init__(self, batches: Iterable[Any]) -> None:
        self._batches = batches
        self.once = isinstance(batches, Iterator)

    def __iter__(self) -> Iterator[Batch]:
        for number, each in enumerate(self._batches):
            if not isinstance(each, (tuple, list)) or len(each) not in (2, 3):
                raise RowsError(
                    f"batch {number} is a {type(each).__name__}; rows that come in batches are pairs (X, y), or "
                    "triples (X, y, weight)"
                )
            if each[0].shape[0] if hasattr(each[0], "shape") else len(each[0]):
                yield Batch(*each)


@contextmanager
def _named(name: str, form: str = "") -> Iterator[None]:
    """Name a source that cannot be read: Arrow's errors are its own, ValueErrors, KeyErrors, OSErrors and more."""
    try:
        yield
    except RowsError:
        raise
    except Exception as error:
        raise RowsError(f"{name} cannot be read{form}: {error}") from None


def _about(dataset: Any, name: str) -> tuple[list[str], list[str], int]:
    """Return the columns of a dataset, those that are an index of pandas, and the number of rows."""
    with _named(name):
        about = dataset.schema.pandas_metadata or {}
        index = [each for each in about.get("index_columns", []) if isinstance(each, str)]
        return list(dataset.schema.names), index, int(dataset.count_rows())


def _refuse_lacking(dataset: Any, name: str, columns: list[str]) -> None:
    """Refuse a dataset one file of which lacks a column: it would be read as missing values."""
    fragments: list[Any] = []
    with suppress(ValueError):  # a dataset with a filter gives none
        fragments = list(dataset.get_fragments())
    for fragment in fragments:
        there = {*fragment.physical_schema.names, *_of_partition(fragment)}
        lacking = [column for column in columns if column not in there]
        if lacking:
            where = getattr(fragment, "path", "") or name
            raise RowsError(f"{where} has no column {', '.join(lacking)}, which other files of {name} have")


def _of_partition(fragment: Any) -> list[str]:
    """Return the columns that stand in the path of a file, and not in the file."""
    from pyarrow.dataset import get_partition_keys

    return list(get_partition_keys(fragment.partition_expression))


def _tables(dataset: Any, columns: list[str]) -> Iterator[Any]:
    """Read the row groups of Parquet files one by one, other files and datasets in batches.

    A scan reads ahead of whoever is slower than it, up to the whole of a file.
    """
    import pyarrow

    fragments: list[Any] = []
    if getattr(getattr(dataset, "format", None), "default_extname", "") == "parquet":
        with suppress(ValueError):  # a dataset with a filter gives none
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
            f"{path} is read in batches if it ends in {', '.join(ENDINGS)}, or is a directory of Parquet files. Read "
            "other files yourself, whole or in batches (X, y)"
        )
    try:
        from pyarrow import dataset
    except ImportError:
        raise ImportError("reading files in batches needs pyarrow: pip install debias-trees[files]") from None
    with _named(str(path), f" as {form.capitalize()}"):
        return dataset.dataset(path, format=form)


def _is_dataset(X: Any) -> bool:
    dataset = sys.modules.get("pyarrow.dataset")
    return dataset is not None and isinstance(X, dataset.Dataset)


def _rows(batch: tuple[Any, ...]) -> bool:
    return len(getattr(batch[0], "shape", ())) == 2
