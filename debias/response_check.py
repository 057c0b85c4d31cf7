"""Does y look like the response this model predicts? Leaf counts are of X alone, and say nothing of y.

Two signs show that y is in other units, transformed, or has its labels exchanged, and noise shows neither: predictions
that lie far from all of y, and predictions that go down where y goes up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from debias.routing import raw_output, route

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.ensemble import TreeEnsemble
    from debias.notes import Notes
    from debias.response import Response
    from debias.table import Table

ROWS_TO_LOOK_AT = 500
ROWS_AT_LEAST = 20
"""With fewer rows there is no telling."""
FAR = 3.0
"""Mean error of predictions (of boosters: mean gradient of the loss), in its standard deviations over rows, from which
y is another response. It is 0 on average where y is that of training, whatever the noise."""
ONE_SIDED = ("quantile", "expectile")
"""Losses whose predictions are meant to lie to one side of most rows."""
AGAINST = -5.0
"""z-value of the covariance of predictions and y below which they go against one another: 3e-7 of models of noise."""


def warn_of_another_response(ensemble: TreeEnsemble, table: Table, response: Response, notes: Notes) -> None:
    """Warn of a response of rows the model has not seen that it cannot have been trained to predict.

    Parameters
    ----------
    ensemble : TreeEnsemble
    table : Table
        Rows, columns in the model's order; some of them are looked at, evenly spaced.
    response : Response
    notes : Notes
    """
    if table.n_rows < ROWS_AT_LEAST:
        return
    rows = np.unique(np.linspace(0, table.n_rows - 1, min(table.n_rows, ROWS_TO_LOOK_AT)).astype(np.int64))
    raw = raw_output(ensemble, route(ensemble, table.matrix(ensemble, rows)))
    predicted = raw - ensemble.base
    if ensemble.averaged and response.values is not None:
        predicted = raw - ensemble.centre
    if response.values is not None:
        values = response.values[rows]
    else:
        assert response.codes is not None
        values = np.eye(ensemble.n_outputs)[response.codes[rows]]
    numbers = ensemble.classes is None and ensemble.class_sets is None
    if numbers and ensemble.objective.name not in ONE_SIDED:
        if ensemble.averaged:
            error = values - predicted
        else:
            assert response.target is not None
            start = ensemble.base if response.margin is None else response.margin[rows]
            error = ensemble.objective.response(response.target[rows], start + predicted)
        if (np.abs(error.mean(axis=0)) > FAR * error.std(axis=0)).any():
            notes.warn(
                "y does not look like the response the model was trained on: nearly all predictions for these rows are "
                "far off to the same side. Pass y in the units of training, and transformed as in training"
            )
            return
    against = _z_of_covariance(predicted, values)
    if (against < AGAINST).any():
        notes.warn(
            "y goes down where the predictions of the model go up, so it may not be the response the model was trained "
            "on: check that y belongs to these rows, and that its labels or signs are those of training"
        )


def _z_of_covariance(predicted: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean product of deviations over its standard error, column by column; 0 where one is constant."""
    product = (predicted - predicted.mean(axis=0)) * (values - values.mean(axis=0))
    error = product.std(axis=0) / np.sqrt(len(product))
    return np.divide(product.mean(axis=0), error, out=np.zeros_like(error), where=error > 0)
