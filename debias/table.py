"""The user's X in any container: names, blocks of rows, and the float matrix a model routes on."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import DebiasWarning, RowsError, nearest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.ensemble import TreeEnsemble


class Table:
    """Rows of features: a 2-d array, or a pandas, polars or Arrow table. Never changed, never copied whole.

    Parameters
    ----------
    X : array or data frame of shape (n_rows, n_features)

    Raises
    ------
    RowsError
        `X` is neither, is not two-dimensional, or is sparse.
    """

    def __init__(self, X: Any) -> None:
        import narwhals.stable.v2 as nw

        self._order: list[int] | None = None
        self._frame: Any = None
        self._array: NDArray[Any] | None = None
        self.names: tuple[str, ...] | None = None
        frame = nw.from_native(X, eager_only=True, pass_through=True)
        if isinstance(frame, nw.DataFrame):
            self._frame = frame
            self.shape = frame.shape
            columns = tuple(frame.columns)
            self.names = tuple(str(name) for name in columns) if all(isinstance(c, str) for c in columns) else None
            _refuse_non_numeric(frame)
            return
        if hasattr(X, "tocsr"):
            raise RowsError("X is a sparse matrix; pass X.toarray(), or the columns the model uses as a data frame")
        array = np.asarray(X)
        if array.ndim != 2:
            raise RowsError(f"X must be two-dimensional (n_rows, n_features); it has shape {array.shape}")
        if array.dtype.kind not in "fiub":
            try:
                array = array.astype(np.float64)
            except (TypeError, ValueError) as error:
                raise RowsError(f"X must be numeric; it has dtype {array.dtype}: {error}") from None
        self._array = array
        self.shape = array.shape

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.shape[0])

    def aligned_to(self, ensemble: TreeEnsemble) -> Table:
        """Return the same rows with columns in the model's order.

        Raises
        ------
        RowsError
            Columns are missing, or there are others; the message names them.

        Warns
        -----
        DebiasWarning
            The columns were in another order and have been put into the model's by name.
        """
        n_columns = self.shape[1]
        if self.names is None or not ensemble.named:
            if n_columns != ensemble.n_features:
                raise RowsError(f"X has {n_columns} features, but the model was trained on {ensemble.n_features}")
            return self
        wanted = list(ensemble.feature_names)
        # LightGBM stores names with spaces replaced.
        have = [name if name in wanted else "_".join(name.split()) for name in self.names]
        if have == wanted:
            return self
        if len(set(have)) != len(have):
            raise RowsError(f"X has columns of the same name: {sorted({c for c in have if have.count(c) > 1})}")
        missing = [name for name in wanted if name not in have]
        extra = [name for name in have if name not in wanted]
        if missing or extra:
            hint = nearest(missing[0], extra) if missing and extra else ""
            raise RowsError(
                "X does not have the columns the model was trained on"
                + (f"; missing: {_listed(missing)}" if missing else "")
                + (f"; not known to the model: {_listed(extra)}" if extra else "")
                + f".{hint} Pass the training columns, by their training names."
            )
        warnings.warn(
            "the columns of X are in another order than the model was trained on; they are matched by name",
            DebiasWarning,
            stacklevel=4,
        )
        ordered = Table.__new__(Table)
        ordered._frame, ordered._array, ordered.names, ordered.shape = (
            self._frame,
            self._array,
            tuple(wanted),
            self.shape,
        )
        ordered._order = [have.index(name) for name in wanted]
        return ordered

    def matrix(
        self, ensemble: TreeEnsemble, rows: slice | NDArray[np.int64] | None = None
    ) -> NDArray[np.floating[Any]]:
        """Return some rows, or all, as the float matrix the model's library routes on.

        Parameters
        ----------
        ensemble : TreeEnsemble
            Gives the precision, and the value that stands for missing.
        rows : slice or array of int, optional

        Returns
        -------
        array of shape (n_rows, n_features)
            C-contiguous, missing values as NaN.
        """
        if self._frame is None:
            assert self._array is not None
            part = self._array if rows is None else self._array[rows]
        else:
            part = _frame_rows(self._frame, rows)
        if self._order is not None:
            part = part[:, self._order]
        matrix = np.ascontiguousarray(part, dtype=ensemble.routing_dtype)
        if not np.isnan(ensemble.missing_value):
            matrix = np.where(matrix == ensemble.missing_value, np.nan, matrix).astype(ensemble.routing_dtype)
        return matrix


def _frame_rows(frame: Any, rows: slice | NDArray[np.int64] | None) -> NDArray[np.float64]:
    if rows is not None:
        frame = frame[rows] if isinstance(rows, slice) else frame[rows.tolist()]
    native = frame.to_native()
    if hasattr(native, "to_numpy") and hasattr(native, "dtypes") and hasattr(native, "iloc"):
        # pandas: nullable columns need to be told that their NA is NaN
        array: NDArray[np.float64] = native.to_numpy(dtype=np.float64, na_value=np.nan)
        return array
    columns = [np.asarray(frame[name].to_numpy(), dtype=np.float64) for name in frame.columns]
    return np.column_stack(columns)


def _refuse_non_numeric(frame: Any) -> None:
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


def _listed(names: list[str], most: int = 8) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
