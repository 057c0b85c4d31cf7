"""Rows of a Dask data frame or array: each worker computes node sums of its partitions, and the sums are added.

The sums are added a few at a time, in the form of a tree. Dask plans and runs all tasks on the active scheduler:
threads of this process, or a cluster.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from typing import TYPE_CHECKING, Any

from debias.data.batches import Batch, features_of
from debias.errors import RowsError, with_article

if TYPE_CHECKING:
    from debias.warning_log import WarningLog

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
