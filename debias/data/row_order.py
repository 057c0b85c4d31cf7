"""A check that y, weights and labels have their rows in the order of X, as far as pandas indexes show it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import RowsError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def refuse_other_order(X: Any, train: Any = None, **beside: Any) -> None:
    """Raise a RowsError if a response, weights or labels have the index of X in another order.

    Rows are matched by position, as in scikit-learn. If both have an index with the same labels in another order, then
    either the rows or the labels are wrong, and debias cannot know which. Other differences between indexes (one was
    reset, or comes from another table) show nothing and are ignored.

    Parameters
    ----------
    X : array or data frame of shape (n_rows, n_features)
    train : (X, y), (X, y, weight) or (X, y, weight, qid), optional
        Training rows, whose parts are compared with each other.
    **beside : array-like of shape (n_rows,) or (n_rows, any), or None
        Arguments to compare with X, by the name that the user knows.

    Raises
    ------
    RowsError
        The message names the argument, and says how to put it in order.
    """
    if isinstance(train, (tuple, list)) and len(train) in (2, 3, 4):
        names = ("the y of train", "the weight of train", "the qid of train")
        parts_of_train = dict(zip(names, train[1:], strict=False))
        _refuse(train[0], "the X of train", parts_of_train)
    _refuse(X, "X", beside)


def _refuse(X: Any, name_of_X: str, beside: dict[str, Any]) -> None:
    index = _index(X)
    for name, argument in beside.items():
        other = _index(argument)
        if index is None or other is None or len(index) != len(other) or index.equals(other):
            continue
        codes, other_codes = _codes(index, other)
        if not np.array_equal(np.bincount(codes), np.bincount(other_codes)):
            continue
        row = int(np.argmax(codes != other_codes))
        how = (
            f"{name}.loc[X.index] puts it in the order of X"
            if index.is_unique
            else "labels are repeated, so they cannot be put in order: sort the whole table before you divide it"
        )
        raise RowsError(
            f"{name} has the same index as {name_of_X}, but in another order (row {row} is {_plain(index[row])!r} in "
            f"{name_of_X} and {_plain(other[row])!r} in {name}): {how}. If the rows are in the same order and the "
            f"labels mean nothing, pass {name}.to_numpy(): arrays are matched by position"
        )


def _index(argument: Any) -> Any | None:
    pandas = sys.modules.get("pandas")  # None if pandas was never imported; then nothing can be a pandas object
    if pandas is None or not isinstance(argument, (pandas.DataFrame, pandas.Series)):
        return None
    return argument.index


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _codes(index: Any, other: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the labels of two indexes of the same length as numbers from 0; equal labels have equal numbers."""
    import pandas as pd

    codes = pd.factorize(index.append(other), use_na_sentinel=False)[0]
    return codes[: len(index)], codes[len(index) :]
