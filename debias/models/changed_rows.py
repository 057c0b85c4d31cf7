"""The output of trees for rows in which columns are changed: as the trees see them, or as the user passes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.table import Table
from debias.data.user_columns import with_column_from
from debias.models.wrappers import unwrap
from debias.trees.routing import LEAVES_AT_ONCE, VALUES_AT_ONCE, raw_output, route
from debias.warning_log import WarningLog

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.trees.ensemble import TreeEnsemble


class ChangedRows:
    """The raw output of trees for rows in which some columns are changed.

    Only the trees that split on a changed column are followed again.

    Parameters
    ----------
    ensemble : TreeEnsemble
    X : array of shape (n_rows, n_features)
        In the ensemble's routing dtype, missing values as NaN.
    """

    def __init__(self, ensemble: TreeEnsemble, X: NDArray[np.floating[Any]]) -> None:
        self._ensemble, self._X = ensemble, X
        self._leaves = route(ensemble, X)

    def outputs(self, columns: NDArray[np.int64], values: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Return the raw output of every row with some columns set to each of several values.

        Parameters
        ----------
        columns : array of int64 of shape (n_changed,)
        values : array of shape (n_values, n_changed)
            Values of these columns, in the ensemble's routing dtype.

        Returns
        -------
        array of shape (n_rows, n_values, n_outputs)
        """
        ensemble, X = self._ensemble, self._X
        changed = self._trees_on(columns)
        raw = np.empty((len(values), len(X), ensemble.n_outputs))
        leaves = np.repeat(self._leaves[None], min(len(values), self._at_once), axis=0)
        for begin in range(0, len(values), len(leaves)):
            block = values[begin : begin + len(leaves)]
            rows = np.repeat(X[None], len(block), axis=0)
            rows[:, :, columns] = block[:, None, :]
            if changed.size:
                routed = route(ensemble, rows.reshape(-1, X.shape[1]), changed)
                leaves[: len(block), :, changed] = routed.reshape(len(block), len(X), changed.size)
            flat = leaves[: len(block)].reshape(-1, ensemble.n_trees)
            raw[begin : begin + len(block)] = raw_output(ensemble, flat, rows.reshape(-1, X.shape[1])).reshape(
                len(block), len(X), -1
            )
        return raw.transpose(1, 0, 2)

    def _trees_on(self, columns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the trees that split on one of the columns."""
        splits = self._ensemble.splits
        on_columns = np.isin(self._ensemble.feature[splits], columns)
        return np.unique(self._ensemble.tree_of_split[on_columns])

    @property
    def _at_once(self) -> int:
        """Number of values to set at once, so that changed rows and their leaves fit in memory."""
        return max(1, min(VALUES_AT_ONCE // self._X.size, LEAVES_AT_ONCE // self._leaves.size))


class TransformedRows:
    """The raw output of the trees of a wrapper for rows in which one column of X is changed.

    The transformers see the changed rows, so that columns that are computed from several columns of X change too.

    Parameters
    ----------
    model : object
        A wrapper around one model of trees.
    ensemble : TreeEnsemble
        The trees of that model.
    X : array, sparse matrix or data frame of shape (n_rows, n_features)
    """

    def __init__(self, model: Any, ensemble: TreeEnsemble, X: Any) -> None:
        self._model, self._ensemble, self._X = model, ensemble, X
        self._n_rows, n_columns = Table(X).shape
        a_value = self._n_rows * max(n_columns, ensemble.n_features)
        self._at_once = max(1, min(VALUES_AT_ONCE // a_value, LEAVES_AT_ONCE // (self._n_rows * ensemble.n_trees)))

    def outputs(self, position: int, at: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the raw output of every row with one column set to the values that some rows have in it.

        Parameters
        ----------
        position : int
            The column of X.
        at : array of int64 of shape (n_values,)
            A row with each of the values.

        Returns
        -------
        array of shape (n_rows, n_values, n_outputs)
        """
        every_row = np.arange(self._n_rows)
        parts = []
        for begin in range(0, at.size, self._at_once):
            block = at[begin : begin + self._at_once]
            rows, source = np.tile(every_row, block.size), np.repeat(block, self._n_rows)
            (member,) = unwrap(self._model, with_column_from(self._X, position, rows, source))
            table = Table(member.X).aligned_to(self._ensemble, WarningLog(quiet=True))
            matrix = table.matrix(self._ensemble)
            raw = raw_output(self._ensemble, route(self._ensemble, matrix), matrix)
            parts.append(raw.reshape(block.size, self._n_rows, -1))
        return np.concatenate(parts).transpose(1, 0, 2)
