"""Vectors of Spark ML: a column that holds all features of a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import RowsError

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
