"""Checks that rows belong together: that y, weights, labels and changed columns stand in the order of X."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import RowsError, with_article

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray


def refuse_other_order(X: Any, train: Any = None, **beside: Any) -> None:
    """Raise a RowsError if a response, weights or labels have the index of X in another order.

    Rows are matched by position, as in scikit-learn. If both have an index with the same labels in another order, then
    either the rows or the labels are wrong, and debias cannot know which. If both have labels of one type and these are
    others, the rows may be others, such as those of another part of a split. An index that counts the rows from 0 was
    reset, or never set: it shows nothing, and is ignored. So is one of another type.

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
        n_labels = 1 + max(codes.max(initial=0), other_codes.max(initial=0))
        if not np.array_equal(np.bincount(codes, minlength=n_labels), np.bincount(other_codes, minlength=n_labels)):
            if _counts_rows(index) or _counts_rows(other) or index.dtype != other.dtype:
                continue  # one was reset, or comes from another table
            row = int(np.argmax(codes != other_codes))
            raise RowsError(
                f"{name} has another index than {name_of_X} (row {row} is {_plain(index[row])!r} in {name_of_X} and "
                f"{_plain(other[row])!r} in {name}), so it may be of other rows: pass that of the rows of {name_of_X}. "
                f"If the rows are the same and the labels mean nothing, pass {name}.to_numpy(): arrays are matched by "
                "position"
            )
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


def _counts_rows(index: Any) -> bool:
    """Whether an index is 0, 1, 2, ..., which says nothing about the rows."""
    return index.dtype.kind in "iu" and np.array_equal(index, np.arange(len(index)))


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _codes(index: Any, other: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the labels of two indexes of the same length as numbers from 0; equal labels have equal numbers."""
    import pandas as pd

    codes = pd.factorize(index.append(other), use_na_sentinel=False)[0]
    return codes[: len(index)], codes[len(index) :]


LEAST_CHANCE = 1e-9
"""Largest chance that features which move one by one make only rows that were there before. If it is smaller, then the
features have moved together."""


def require_pairs(before: pd.DataFrame, after: Any, features: Sequence[Sequence[str]]) -> None:
    """Refuse a change of X that leaves X and y unpaired.

    It may permute a feature (a column, or a group of columns), or every feature by itself. It may not move whole rows:
    then every feature stands beside the response of another row, and scores as noise.

    Parameters
    ----------
    before, after : DataFrame of shape (n_rows, n_columns)
        X before the change and after it, perhaps with more columns or fewer.
    features : sequence of sequence of str
        Columns of each feature.

    Raises
    ------
    RowsError
        The change returned no frame, or another number of rows, or the rows in another order.
    """
    import pandas as pd

    if not isinstance(after, pd.DataFrame):
        raise RowsError(f"the change of a problem returned {with_article(type(after).__name__)}: return a pandas frame")
    if len(after) != len(before):
        raise RowsError(
            f"the change of a problem made {len(after)} rows of {len(before)}, and y still has {len(before)}: choose "
            "rows with problem.rows(indices), which takes the rows of y too"
        )
    if _index_is_reordered(before.index, after.index) or _rows_are_reordered(before, after, features):
        raise RowsError(
            "the change of a problem moved whole rows of X, so that they no longer belong to the entries of y. Permute "
            "the features one by one, or permute y with problem.permuted(rng), or choose rows of both with "
            "problem.rows(indices)"
        )


def _index_is_reordered(before: pd.Index[Any], after: pd.Index[Any]) -> bool:
    """Whether an index has the same labels, without repetitions, in another order."""
    if after.equals(before) or not (before.is_unique and after.is_unique):
        return False
    return before.symmetric_difference(after).empty


def _rows_are_reordered(before: pd.DataFrame, after: pd.DataFrame, features: Sequence[Sequence[str]]) -> bool:
    """Whether all features have moved together: every row that has changed is another row of before."""
    place = [{str(name): k for k, name in enumerate(frame.columns)} for frame in (before, after)]
    n_rows, n_changed = len(before), 0
    row, moved, log_share = np.zeros(2 * n_rows, dtype=np.int64), np.zeros(n_rows, dtype=np.bool_), np.zeros(n_rows)
    for feature in features:
        if not all(name in names for names in place for name in feature):
            continue
        pairs = [(before.iloc[:, place[0][name]], after.iloc[:, place[1][name]]) for name in feature]
        same = all(old.array.equals(new.array) for old, new in pairs)
        codes = None if same else _joint([_coded(*pair) for pair in pairs])
        if codes is None or np.array_equal(codes[:n_rows], codes[n_rows:]):
            if any(old.nunique(dropna=False) > 1 for old, _ in pairs):
                return False  # this feature is still paired with y
            continue
        n_changed += 1
        row = _joint([row, codes])
        moved |= codes[:n_rows] != codes[n_rows:]
        log_share += np.log(np.bincount(codes[:n_rows])[codes[:n_rows]] / n_rows)
        if not np.isin(row[n_rows:][moved], row[:n_rows]).all():
            return False
    if n_changed < 2:
        return False
    distinct = np.unique(row[:n_rows], return_index=True)[1]
    chance_of_a_row = np.logaddexp.reduce(log_share[distinct])
    return bool(moved.sum() * min(chance_of_a_row, 0.0) < np.log(LEAST_CHANCE))


def _coded(old: pd.Series[Any], new: pd.Series[Any]) -> NDArray[np.int64]:
    """Return the values of a column before and after a change as numbers from 0, shape (2 n_rows,)."""
    import pandas as pd

    both = pd.concat([old, new], ignore_index=True)
    return pd.factorize(both, use_na_sentinel=False)[0].astype(np.int64)


def _joint(codes: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the number of each combination of codes, from 0."""
    joint = np.zeros(codes[0].size, dtype=np.int64)
    for each in codes:
        joint = np.unique(joint * (each.max() + 1) + each, return_inverse=True)[1].ravel()
    return joint
