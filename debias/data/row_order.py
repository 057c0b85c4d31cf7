"""Whether what stands beside X has its rows in the order of X, as far as pandas indexes tell."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import RowsError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def refuse_other_order(X: Any, train: Any = None, **beside: Any) -> None:
    """Refuse a response, weights or labels whose index has the labels of X in another order.

    Rows are taken by position, as scikit-learn takes them. Where both have an index with the same labels, and not in
    the same order, either the rows or the labels are wrong, and which cannot be told. Other indexes (one was reset, or
    cut from another table) tell nothing and are not looked at.

    Parameters
    ----------
    X : array or data frame of shape (n_rows, n_features)
    train : (X, y) or (X, y, weight), optional
        Training rows, which are compared among themselves.
    **beside : array-like of shape (n_rows,) or (n_rows, any), or None
        By the name they have for the user.

    Raises
    ------
    RowsError
        The message names the argument, and says how to put it in order.
    """
    if isinstance(train, (tuple, list)) and len(train) in (2, 3):
        named = dict(zip(("the y of train", "the weight of train"), train[1:], strict=False))
        _refuse(train[0], "the X of train", named)
    _refuse(X, "X", beside)


def _refuse(X: Any, of: str, beside: dict[str, Any]) -> None:
    index = _index(X)
    for name, given in beside.items():
        other = _index(given)
        if index is None or other is None or len(index) != len(other) or index.equals(other):
            continue
        here, there = _codes(index, other)
        if not np.array_equal(np.bincount(here), np.bincount(there)):
            continue
        row = int(np.argmax(here != there))
        ours, theirs = (each.item() if isinstance(each, np.generic) else each for each in (index[row], other[row]))
        how = (
            f"{name}.loc[X.index] puts it in the order of X"
            if index.is_unique
            else "the labels repeat, so that nothing can put them in order: sort the whole table before it is divided"
        )
        raise RowsError(
            f"{name} has the same index as {of}, but in another order (row {row} is {ours!r} in {of} and "
            f"{theirs!r} in {name}): {how}. If the rows are in one order and the labels mean nothing, pass "
            f"{name}.to_numpy(): arrays are taken by position"
        )


def _index(given: Any) -> Any | None:
    pandas = sys.modules.get("pandas")  # of a library that was never imported nothing is there
    if pandas is None or not isinstance(given, (pandas.DataFrame, pandas.Series)):
        return None
    return given.index


def _codes(index: Any, other: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the labels of two indexes of one length as numbers from 0, the same for the same label."""
    import pandas as pd

    codes = pd.factorize(index.append(other), use_na_sentinel=False)[0]
    return codes[: len(index)], codes[len(index) :]
