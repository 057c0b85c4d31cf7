"""Rows of a Dask data frame or array: every worker sums its partitions at the nodes, and the sums are added up a tree.

Dask plans and runs all of it, on the scheduler that is active: threads of this process, or a cluster.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from copy import copy
from typing import TYPE_CHECKING, Any

from debias.data.batches import Batch
from debias.errors import RowsError

if TYPE_CHECKING:
    from debias.warning_log import WarningLog

ADDED_AT_ONCE = 4
"""Partial sums added in one step: what one worker must have in memory at a time."""


def is_dask(X: Any) -> bool:
    """Whether X is a Dask data frame or array."""
    frames, arrays = sys.modules.get("dask.dataframe"), sys.modules.get("dask.array")
    return (frames is not None and isinstance(X, frames.DataFrame)) or (
        arrays is not None and isinstance(X, arrays.Array)
    )


class DaskRows:
    """Partitions of a Dask collection.

    Parameters
    ----------
    X : dask DataFrame or Array of shape (n_rows, n_features)
    y, sample_weight : str, or dask Series or Array of shape (n_rows,)
        A column of X, or one of the same partitions; `sample_weight` may be None.
    wanted : tuple of str, or None
        Columns the model knows, if it knows names; others are left out.
    notes : WarningLog
        Takes note of columns that are left out.

    Raises
    ------
    RowsError
        There is no such column, or y has other partitions than X.
    """

    once = False
    n_rows = None

    def __init__(self, X: Any, y: Any, sample_weight: Any, wanted: tuple[str, ...] | None, notes: WarningLog) -> None:
        for what, given in (("y", y), ("sample_weight", sample_weight)):
            if isinstance(given, str) and given not in getattr(X, "columns", ()):
                raise RowsError(f"the Dask collection has no column {given!r} for {what}")
            if not isinstance(given, str) and not hasattr(given, "dask") and (given is not None or what == "y"):
                raise RowsError(f"{what} must be a column of X by name, or a Dask collection of the same partitions")
        named = {"y": y, "weight": sample_weight}
        self._columns = {what: given for what, given in named.items() if isinstance(given, str)}
        self._features: list[Any] | None = None
        if hasattr(X, "columns"):
            apart = set(self._columns.values())
            features = [name for name in X.columns if name not in apart]
            if wanted is not None and set(wanted) <= set(features):
                unused = [str(name) for name in features if name not in wanted]
                if unused:
                    notes.warn(f"columns of X the model does not know are left out: {', '.join(unused)}")
                features = list(wanted)
            self._features = features
            X = X[list(dict.fromkeys([*features, *self._columns.values()]))]  # read together: columns of one file
        beside = {what: given for what, given in named.items() if what not in self._columns and given is not None}
        self._parts = [_delayed(X), *(_delayed(given) for given in beside.values())]
        self._beside = tuple(beside)
        if len({len(parts) for parts in self._parts}) > 1:
            counts = ", ".join(str(len(parts)) for parts in self._parts)
            raise RowsError(
                f"X, y and sample_weight have different partitions ({counts}): repartition them alike, or pass the "
                "names of columns of X"
            )

    def __iter__(self) -> Iterator[Batch]:
        """Bring one partition after the other here."""
        from dask import compute

        for parts in zip(*self._parts, strict=True):
            batch = self._batch(*compute(*parts))
            if len(batch.X):
                yield batch

    def _batch(self, X: Any, *beside: Any) -> Batch:
        given = {what: X[name] for what, name in self._columns.items()} | dict(zip(self._beside, beside, strict=True))
        return Batch(X if self._features is None else X[self._features], **given)

    def reduced(self, function: Callable[..., Any], shared: Any, add: Callable[[Any, Any], Any]) -> Any:
        """Return the sum of ``function(shared, batch)`` over all partitions; None if there are no rows.

        Parameters
        ----------
        function : callable
        shared : object
            Sent to each worker once.
        add : callable
        """
        from dask import delayed

        sent = _sent(shared)
        split = copy(self)
        split._parts = []  # of tasks, which have the partitions themselves
        found = [delayed(_apply)(function, sent, split._batch, *parts) for parts in zip(*self._parts, strict=True)]
        while len(found) > 1:
            step = range(0, len(found), ADDED_AT_ONCE)
            found = [delayed(_add)(add, found[begin : begin + ADDED_AT_ONCE]) for begin in step]
        return found[0].compute()


def _delayed(collection: Any) -> list[Any]:
    if not hasattr(collection, "to_delayed"):
        raise RowsError(f"a {type(collection).__name__} is no Dask collection of rows")
    if getattr(collection, "ndim", 1) == 2 and hasattr(collection, "chunks"):
        collection = collection.rechunk({1: -1})
    parts = collection.to_delayed()
    return list(parts.ravel() if hasattr(parts, "ravel") else parts)


def _sent(shared: Any) -> Any:
    """Return a reference that tasks take: on a cluster, to a copy in each worker."""
    from dask import delayed

    distributed = sys.modules.get("distributed")
    if distributed is not None:
        try:
            client = distributed.get_client()
        except ValueError:  # no cluster: another scheduler
            return delayed(shared, traverse=False)
        return client.scatter(shared, broadcast=True, hash=False)
    return delayed(shared, traverse=False)


def _apply(function: Callable[..., Any], shared: Any, split: Callable[..., Batch], *parts: Any) -> Any:
    return function(shared, split(*parts)) if len(parts[0]) else None


def _add(add: Callable[[Any, Any], Any], parts: list[Any]) -> Any:
    total = None
    for part in parts:
        if part is not None:
            total = part if total is None else add(total, part)
    return total
