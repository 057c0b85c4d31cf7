"""Tracing of the columns of any transformer by trial: permute one input column, and see which outputs change.

It needs no knowledge of the transformer, only its method ``transform``, which is called on copies of some rows.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.user_columns import copied
from debias.errors import UnsupportedModelError
from debias.positions import evenly_spaced

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROWS = 200
"""Number of rows, evenly spread, in which one column at a time is permuted."""
ROWS_TO_CHECK = 2000
"""Number of rows, evenly spread, on which what was found is checked."""
PERMUTATIONS = 2
"""Number of permutations of each column: one may leave rare values where they are."""
_MISSING = 1.2345e300
"""Stands for NaN in a comparison of sparse matrices, where NaN would differ from itself."""


def probed(transformer: Any, X: Any) -> list[tuple[int, ...]]:
    """Return for each output column the input columns that it is computed from.

    Values are permuted within their column, so the transformer sees no value that X does not have. If no column changes
    some output, columns that changed nothing are tried again in more rows. Afterwards, for each
    set of input columns that was found, all other columns are permuted together in more rows: the outputs must stay the
    same. An output that no column changes has an empty tuple.

    Parameters
    ----------
    transformer : fitted transformer
    X : array, sparse matrix or data frame of shape (n_rows, n_features)
        It is not changed.

    Returns
    -------
    list of tuple of int, of length n_columns_out

    Raises
    ------
    UnsupportedModelError
        The transformer gives other outputs for the same rows, or outputs depend on columns that could not be found.
    """
    kind = type(transformer).__name__
    rng = np.random.default_rng(0)
    some, more = (_rows(X, evenly_spaced(_n_rows(X), most)) for most in (ROWS, ROWS_TO_CHECK))
    before = _outputs(transformer, some)
    n_columns = some.shape[1] if len(some.shape) == 2 else 1
    if n_columns == 1:
        return [(0,)] * before.shape[1]
    if _changed(before, _outputs(transformer, some)).any():
        raise UnsupportedModelError(
            f"the transformer {kind} gives other values each time it transforms the same rows, so its columns cannot "
            "be traced back to those of X. Pass level='model' to score the columns that the trees see"
        )
    depends = np.zeros((n_columns, before.shape[1]), dtype=bool)
    for rows in (some, more):
        before = _outputs(transformer, rows)
        for column in np.flatnonzero(~depends.any(axis=1)).tolist():  # in more rows, those that changed nothing in some
            for _ in range(PERMUTATIONS):
                permuted = _with_permuted(rows, [column], rng)
                depends[column] |= _changed(before, _outputs(transformer, permuted))
        if depends.any(axis=0).all():
            break
    made_of = [tuple(np.flatnonzero(of_output).tolist()) for of_output in depends.T]
    before = _outputs(transformer, more)
    for found in dict.fromkeys(made_of):
        others = [column for column in range(n_columns) if column not in found]
        changed = _changed(before, _outputs(transformer, _with_permuted(more, others, rng)))
        if any(changed[k] for k, columns in enumerate(made_of) if columns == found and found):
            raise UnsupportedModelError(
                f"the transformer {kind} computes a column from columns of X that matter in few rows, and these could "
                "not be found. Pass level='model' to score the columns that the trees see"
            )
    return made_of


def _outputs(transformer: Any, X: Any) -> Any:
    """Return the output for some rows as a sparse matrix, an array of numbers, or a frame of pandas."""
    import narwhals.stable.v2 as nw
    import pandas as pd

    with warnings.catch_warnings():  # the rows were transformed before, and these warnings were seen
        warnings.simplefilter("ignore")
        output = transformer.transform(copied(X))  # a transformer may change what it gets
    if hasattr(output, "tocsc"):
        sparse = output.tocsc().astype(np.float64)
        sparse.data[np.isnan(sparse.data)] = _MISSING
        return sparse
    frame = nw.from_native(output, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return pd.DataFrame({k: frame[name].to_numpy() for k, name in enumerate(frame.columns)})
    array = np.asarray(output)
    array = array if array.ndim == 2 else array[:, None]
    return array if array.dtype.kind in "fiub" else pd.DataFrame(array)


def _changed(before: Any, after: Any) -> NDArray[np.bool_]:
    """Return which columns of two outputs differ; missing values are equal to each other."""
    if hasattr(before, "tocsc"):
        return np.asarray((before != after).getnnz(axis=0) > 0)
    if isinstance(before, np.ndarray):
        return np.asarray(((before != after) & ~((before != before) & (after != after))).any(axis=0))
    return np.array([not before[k].equals(after[k]) for k in before.columns], dtype=bool)


def _with_permuted(X: Any, columns: list[int], rng: np.random.Generator) -> Any:
    """Return a copy of rows in which some columns are permuted together."""
    import narwhals.stable.v2 as nw

    order = rng.permutation(X.shape[0])
    if hasattr(X, "iloc"):
        changed = X.copy()
        for k in columns:
            changed.isetitem(k, X.iloc[order, k].array)
        return changed
    if hasattr(X, "tocsc"):
        from scipy.sparse import diags_array

        chosen = np.zeros(X.shape[1])
        chosen[columns] = 1
        kept = X.tocsr() @ diags_array(1 - chosen)
        return (kept + X.tocsr()[order] @ diags_array(chosen)).asformat(X.format)
    frame = nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        permuted = frame[order.tolist()]
        names = [frame.columns[k] for k in columns]
        return frame.with_columns(*[permuted[name].alias(name) for name in names]).to_native()
    changed = np.array(X)
    changed[:, columns] = changed[order][:, columns]
    return changed


def _rows(X: Any, at: NDArray[np.int64]) -> Any:
    """Return some rows of X in its own container; of a list, as an array."""
    import narwhals.stable.v2 as nw

    if hasattr(X, "iloc"):
        return X.iloc[at]
    if hasattr(X, "tocsr"):
        return X.tocsr()[at].asformat(X.format if X.format in ("csr", "csc") else "csr")
    frame = nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return frame[at.tolist()].to_native()
    return [X[k] for k in at] if isinstance(X, list) and not isinstance(X[0], (list, tuple)) else np.asarray(X)[at]


def _n_rows(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)
