"""X and y that stand in the place of one another, or are passed together: what to type instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from debias.errors import RowsError, with_article


def refuse_mistaken_rows(X: Any, y: Any) -> None:
    """Raise a RowsError that says what to type if X is no table of features, but something else of the user.

    Parameters
    ----------
    X, y : object
        As the user passed them.

    Raises
    ------
    RowsError
        X is a model, a dictionary, a pair of X and y, or the response, with the table of features as y.
    """
    if hasattr(X, "predict"):
        raise RowsError(f"X is {with_article(type(X).__name__)}: pass the model first, then X and y")
    if isinstance(X, Mapping) and not hasattr(X, "shape"):  # a sparse matrix of scipy is a dictionary too
        raise RowsError(f"X is {with_article(type(X).__name__)}: pass pandas.DataFrame(X)")
    if isinstance(X, tuple) and y is None and len(X) in (2, 3) and n_dimensions(X[0]) == 2:
        raise RowsError(f"X is a tuple of {len(X)} tables: pass them one by one, as X and y")
    if n_dimensions(X) == 1 and n_dimensions(y) == 2 and y.shape[1] > 1 and is_of_numbers(X):
        raise RowsError(
            f"X has one column of numbers and y has {y.shape[1]} columns: pass the table of features as X, and the "
            "response as y"
        )


def n_dimensions(data: Any) -> int | None:
    """Return the number of dimensions of an array or a frame; None for anything else."""
    shape = getattr(data, "shape", None)
    return len(shape) if isinstance(shape, tuple) else None


def is_of_numbers(column: Any) -> bool:
    """Whether the type of a column of numpy, pandas or polars is one of numbers."""
    dtype = column.dtype
    if hasattr(dtype, "is_numeric"):  # of polars
        return bool(dtype.is_numeric())
    return getattr(dtype, "kind", "O") in "fiu"
