"""The loss of fitted trees without the splits on any set of features, on rows that the trees have not seen.

A row goes both ways at the splits on these features (:mod:`debias.rows.without`): nothing is refitted. So the splits on
one of two features that say the same are charged for what a refit would do with the other one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from debias.rows.compared_losses import compared_losses
from debias.rows.without import child_shares, outputs_without

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from debias.rows.rows import Rows

    Array = NDArray[np.float64]

DIGITS = 10
"""Outputs that agree to so many decimal places, as shares of the largest one, are in no order."""
OUTPUTS_AT_ONCE = 2**23
"""At most about this many outputs are held in memory, but at least those of one set of features."""


class FrozenLoss:
    """The loss of one model of trees without sets of features.

    Parameters
    ----------
    rows : Rows
        Rows that the model has not seen.
    feature : array of int64 of shape (n_columns,)
        The feature that each column of the model belongs to.
    n_features : int
        Number of features. Those without a column may be left out too, which changes nothing.

    Attributes
    ----------
    used : array of bool of shape (n_features,)
        Whether a tree splits on the feature.
    weight : float
        Sum of the weights of the rows, or queries.
    """

    def __init__(self, rows: Rows, feature: NDArray[np.int64], n_features: int) -> None:
        ensemble = rows.ensemble
        assert rows.margins is not None
        self._ensemble, self._feature = ensemble, feature
        self._matrix = np.ascontiguousarray(rows.table.matrix(ensemble))
        self._share = child_shares(ensemble, rows.node_sums.n)
        self._margin = rows.margins
        self._compared = compared_losses(rows)
        self._output = self._outputs(np.zeros((1, n_features), dtype=bool))[0]
        self._loss = self._loss_at(self._output)
        self.weight = float(self._compared.weight.sum())
        self.used = np.zeros(n_features, dtype=bool)
        self.used[feature[np.unique(ensemble.feature[ensemble.splits])]] = True

    def rises(self, left_out: NDArray[np.bool_]) -> Array:
        """Return by how much the sum of the weighted losses rises without the splits on each set of features.

        The losses are those of rows, or of the queries of rankers (:mod:`debias.rows.compared_losses`).

        Parameters
        ----------
        left_out : array of bool of shape (n_sets, n_features)

        Returns
        -------
        array of shape (n_sets,)
        """
        at_once = max(1, OUTPUTS_AT_ONCE // self._margin.size)
        rises = np.empty(len(left_out))
        for begin in range(0, len(left_out), at_once):
            outputs = self._outputs(left_out[begin : begin + at_once])
            for k, output in enumerate(outputs, begin):
                rises[k] = np.sum(self._compared.weight * (self._loss_at(output) - self._loss))
        return rises

    def _loss_at(self, output: Array) -> Array:
        """Return the loss of each row, or query, at an output of :meth:`_outputs`."""
        if not self._ensemble.objective.compares_rows:
            return self._compared.loss(self._margin + (output - self._output))
        # Only the order counts. Rows that would be equal but for rounding are equal.
        scale = np.abs(self._output).max()
        return self._compared.loss(np.round(output / scale, DIGITS) if scale else output)

    def _outputs(self, left_out: NDArray[np.bool_]) -> Array:
        return outputs_without(self._ensemble, self._matrix, self._share, np.take(left_out, self._feature, axis=1))


def mean_rises(losses: Sequence[FrozenLoss], left_out: NDArray[np.bool_]) -> Array:
    """Return the mean rise of the loss over the rows, or queries, of several models, shape (n_sets,)."""
    rises: Array = np.sum([each.rises(left_out) for each in losses], axis=0) / sum(each.weight for each in losses)
    return rises
