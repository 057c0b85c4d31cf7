"""Rows of X in which one column is changed, passed through everything that stands before the trees."""

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
            raw = raw_output(self._ensemble, route(self._ensemble, table.matrix(self._ensemble)))
            parts.append(raw.reshape(block.size, self._n_rows, -1))
        return np.concatenate(parts).transpose(1, 0, 2)
