"""What containers of rows hold, as arrays; what cannot be read as numbers is refused."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import RowsError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def repeated_columns(X: Any) -> list[str]:
    """Return the names that several columns of a frame have."""
    columns = getattr(X, "columns", None)
    if columns is None or callable(columns) or not hasattr(columns, "__iter__"):
        return []
    names = [str(name) for name in columns]
    return sorted(name for name, times in Counter(names).items() if times > 1)


def two_dimensional(X: Any) -> NDArray[Any]:
    """Return rows that are no frame as an array: of floats where they can be, of objects where labels are."""
    if isinstance(X, np.ma.MaskedArray):
        raise RowsError("X is a masked array; pass X.filled(numpy.nan)")
    array = rows_and_columns(X)
    if array.dtype.kind == "O":
        with suppress(TypeError, ValueError):  # labels of categories, if the model knows such; else refused by name
            return array.astype(np.float64)
    elif array.dtype.kind not in "fiub":
        raise RowsError(f"X must be numeric; it has dtype {array.dtype}")
    return array


def rows_and_columns(X: Any) -> NDArray[Any]:
    """Return an array, or what numpy makes one of, if it has two dimensions."""
    try:
        array = np.asarray(X)
    except ValueError:
        raise RowsError("X must be two-dimensional (n_rows, n_features); its rows have different lengths") from None
    if array.ndim != 2:
        raise RowsError(f"X must be two-dimensional (n_rows, n_features); it has shape {array.shape}")
    return array


def to_dense(part: Any, absent: float) -> NDArray[np.floating[Any]]:
    """Return a dense array of a sparse one, `absent` where it has no entry."""
    if absent == 0:
        return np.asarray(part.toarray())
    entries = part.tocoo()
    dense = np.full(part.shape, absent, dtype=np.result_type(part.dtype, np.float32))
    dense[entries.row, entries.col] = entries.data
    return dense


def frame_rows(frame: Any, rows: slice | NDArray[np.int64] | None) -> NDArray[np.float64]:
    """Return some rows of a frame, or all, as floats; missing values as NaN."""
    if rows is not None:
        frame = some_rows(frame, rows)
    native = frame.to_native()
    if is_pandas(frame):
        # pandas: nullable columns need to be told that their NA is NaN
        array: NDArray[np.float64] = native.to_numpy(dtype=np.float64, na_value=np.nan)
        return array
    columns = [np.asarray(frame[name].to_numpy(), dtype=np.float64) for name in frame.columns]
    return np.column_stack(columns)


def some_rows(frame: Any, rows: slice | NDArray[np.int64]) -> Any:
    """Return some rows of a frame."""
    return frame[rows] if isinstance(rows, slice) else frame[rows.tolist()]


def is_pandas(frame: Any) -> bool:
    """Whether a frame is pandas' own."""
    native = frame.to_native()
    return hasattr(native, "to_numpy") and hasattr(native, "dtypes") and hasattr(native, "iloc")


def refuse_non_numeric(frame: Any) -> None:
    """Raise RowsError if columns of a frame are not numeric; the message names them."""
    wrong = {
        str(name): str(dtype)
        for name, dtype in zip(frame.columns, frame.schema.dtypes(), strict=True)
        if not (dtype.is_numeric() or str(dtype) == "Boolean")
    }
    if wrong:
        raise RowsError(
            f"these columns of X are not numeric: {', '.join(f'{name} ({dtype})' for name, dtype in wrong.items())}. "
            "Pass X as the model saw it, after any encoding."
        )
