"""Checks of the response of held-out rows, which compare y with the predictions of the model for all of them.

Leaf counts depend on X alone and say nothing about y. These signs show that y has other units, was transformed, or has
swapped labels: predictions that are far from all values of y, that go down where y goes up, or that vary much less than
y. Predictions that are equal to y, for all rows or for many, show that y was made from them, or that rows are copies of
training rows. Pure noise gives none of these signs. A forest also
stores the mean of y. :mod:`debias.rows.performance` says how good the predictions are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from debias.positions import evenly_spaced
from debias.results.performance import Y_IS_PREDICTED
from debias.results.vocabulary import RowsKind
from debias.rows.classes import class_codes
from debias.text import few_digits

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from numpy.typing import NDArray

    from debias.data.response import Response
    from debias.rows.rows import Rows
    from debias.trees.ensemble import TreeEnsemble
    from debias.warning_log import WarningLog

ROWS_AT_LEAST = 20
"""With fewer rows nothing is checked."""
FAR = 3.0
"""Mean error of the predictions (for boosted models: mean gradient of the loss) in standard deviations over rows. From
this value on, y is another response. The mean is 0 on average if y is the training response, whatever the noise."""
ONE_SIDED = ("quantile", "expectile")
"""Losses whose predictions should lie to one side of most rows."""
BAGS_AT_LEAST = 10
"""With fewer bags the variance of y is not estimated from the means at their roots."""
SHIFTED_Z, SHIFTED_SIZE = 4.0, 0.3
"""From this z-value, and this size in standard deviations of y, the mean of y differs from that in training."""
AGAINST = -5.0
"""z-value of the covariance of predictions and y. Below it they go in opposite directions: 3e-7 of models of noise."""
LARGEST_RATIO = 10.0
"""y that varies more than this times as much as predictions that it clearly follows may have other units. (If it
varies less than half as much, R2 is below 0, which the audit says.)"""
ERRORS_EXPECTED = 20.0
"""If the model expects at least so many wrong labels, by its own probabilities, and none is wrong, y is predicted."""
MOST_DECIMALS, STEPS, LEVELS, FLOAT32 = 9, 3.0, 10, 1e-6
"""Decimals to which predictions may have been rounded; standard deviation of y in steps of that rounding, and number of
its values, from which on equality tells something; relative rounding of predictions."""
PREDICTED_SHARE, PREDICTED_Z = 0.2, 5.0
"""Part of the rows whose y is equal to its prediction, beyond those that ties explain, and the z-value of their number.
Right rows of 38 real data sets and 12 kinds of models reached neither (912 fits; at most .14, and 4.9)."""
ROWS_TO_PREDICT = 500
"""Number of evenly spaced rows that a model around the trees predicts for, if there are more."""


def warn_of_another_response(
    rows: Rows, log: WarningLog, predicts: Callable[[Any], NDArray[np.float64]] | None = None
) -> None:
    """Warn if y cannot be the response that the model was trained on, or is what the model predicts.

    Parameters
    ----------
    rows : Rows
        Rows the model has not seen, or training rows whose y is not proven.
    log : WarningLog
    predicts : callable, optional
        Other predictions than those of the trees that users may have passed as y, for X as they passed it.
    """
    ensemble, response = rows.ensemble, rows.response
    if rows.margins is None or rows.n_rows < ROWS_AT_LEAST:
        return
    used = np.flatnonzero(np.isfinite(rows.margins).all(axis=1))  # lines in leaves may predict infinite values
    if not used.size:
        return
    raw, response = rows.margins[used], response.part(used)
    start = ensemble.base if response.margin is None else response.margin
    predicted = raw - start
    if ensemble.averaged and response.values is not None:
        predicted = raw - ensemble.centre
    if response.values is not None:
        values = response.values
    else:
        assert response.codes is not None
        values = np.eye(ensemble.n_outputs)[response.codes]
    numbers = ensemble.classes is None and ensemble.class_sets is None
    objective = ensemble.objective
    if numbers and objective.name not in ONE_SIDED and not objective.compares_rows:
        if ensemble.averaged:
            error = values - predicted
        else:
            assert response.target is not None
            error = objective.response(response.target, start + predicted)
        if (np.abs(error.mean(axis=0)) > FAR * error.std(axis=0)).any():
            log.warn(
                "y does not look like the response the model was trained on: nearly all predictions for these rows are "
                "much too high, or nearly all are much too low. Pass y in the units of training, and transformed as in "
                "training"
            )
            return
    z = _z_of_covariance(predicted, values)
    if (z < AGAINST).any():
        log.warn(
            "y goes down where the predictions of the model go up, so it may not be the response the model was trained "
            "on. Check that y belongs to these rows, and that its labels or signs are the same as in training"
        )
        return
    if _is_the_prediction(ensemble, raw, response):
        log.warn(
            f"{Y_IS_PREDICTED}s of the model. If it was made from them, scores on these rows say nothing "
            "about the response: pass what was observed"
        )
        return
    if numbers and objective.predicts_response:
        share = _share_predicted(rows, used, raw, predicts)
        if share is not None:
            log.warn(
                f"{Y_IS_PREDICTED} of the model far more often than ties of y explain: in {share:.0%} of these rows. "
                "It was predicted there and not observed, or it follows from the features, or these are copies of "
                "training rows. Pass rows that the model has not seen, with the y that was observed"
            )
            return
    if numbers and (ensemble.averaged or objective.name == "squared_error"):
        y, of_model = values.std(axis=0), predicted.std(axis=0)
        ratio = np.divide(y, of_model, out=np.zeros_like(y), where=of_model > 1e-9 * np.abs(raw).max())
        if ((ratio > LARGEST_RATIO) & (z > -AGAINST)).any():
            log.warn(
                f"y varies {few_digits(ratio.max())} times as much as the predictions of the model (standard "
                "deviations). Check that y has the units of training. If it has, the model was hardly trained: it has "
                "few trees, or a small learning rate"
            )


def _is_the_prediction(ensemble: TreeEnsemble, raw: NDArray[np.float64], response: Response) -> bool:
    """Whether y is what the model predicts: its numbers, up to their rounding, or its labels with no error at all."""
    is_probability = ensemble.objective.name == "logistic"
    codes = class_codes(ensemble, response) if is_probability else response.codes
    if codes is not None:
        share = raw if ensemble.averaged else ensemble.objective.mean(raw)
        if share.shape[1] == 1:
            share = np.column_stack([1 - share, share])
        errors_expected = float((1 - share.max(axis=1)).sum())
        return errors_expected >= ERRORS_EXPECTED and bool((share.argmax(axis=1) == codes).all())
    if ensemble.class_sets is not None or not ensemble.objective.predicts_response:
        return False
    numbers, predicted = _numbers(ensemble, raw, response)
    return all(_equal_but_for_rounding(y, p) for y, p in zip(numbers.T, predicted.T, strict=True))


def _numbers(
    ensemble: TreeEnsemble, raw: NDArray[np.float64], response: Response
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return y and its predictions in the units of the user, each of shape (n_rows, n_responses)."""
    y = response.values if ensemble.averaged else response.target
    assert y is not None
    return (y + ensemble.centre, raw) if ensemble.averaged else (y, ensemble.objective.mean(raw))


def _equal_but_for_rounding(y: NDArray[np.float64], predicted: NDArray[np.float64]) -> bool:
    """Whether y is the prediction, which may have been rounded to some decimals."""
    if np.unique(y).size < LEVELS:
        return False
    gap, rounding = np.abs(y - predicted), FLOAT32 * float(np.abs(predicted).max())
    for decimals in range(MOST_DECIMALS):
        step = 10.0**-decimals
        if y.std() >= STEPS * step and (np.abs(y - np.round(y, decimals)) <= rounding).all():
            below = np.abs(predicted) - np.abs(y)  # if decimals were cut off
            return bool((gap <= step / 2 + rounding).all() or ((below >= -rounding) & (gap <= step + rounding)).all())
    return bool((gap <= rounding).all())


def _share_predicted(
    rows: Rows,
    used: NDArray[np.int64],
    raw: NDArray[np.float64],
    predicts: Callable[[Any], NDArray[np.float64]] | None,
) -> float | None:
    """Return the share of rows whose y is equal to its prediction, if that is far more than ties of y explain."""
    numbers, predicted = _numbers(rows.ensemble, raw, rows.response.part(used))
    pairs = [(numbers, predicted)]
    if predicts is not None and rows.kind == RowsKind.HELD_OUT:
        some = evenly_spaced(used.size, ROWS_TO_PREDICT)
        others = np.asarray(predicts(rows.table.native(used[some])), dtype=np.float64)
        pairs += [(numbers[some], each) for each in np.moveaxis(others.reshape(*numbers[some].shape, -1), 2, 0)]
    shares = [share for y, of_y in pairs if (share := _share_equal(y, of_y)) is not None]
    return max(shares, default=None)


def _share_equal(y: NDArray[np.float64], predicted: NDArray[np.float64]) -> float | None:
    """Return the share of rows in which y is equal to its prediction; None if ties may explain it.

    Where y has few values, good predictions of single trees are often equal to it. They are then as often equal to y of
    the row with the next prediction.
    """
    order = np.lexsort(predicted.T)
    y, predicted = y[order], predicted[order]
    tolerance = FLOAT32 * np.abs(predicted)
    n_equal = int((np.abs(y - predicted) <= tolerance).all(axis=1).sum())
    if n_equal == len(y) and np.unique(y[:, 0]).size >= LEVELS:  # whatever the ties
        return 1.0
    n_tied = max(int((np.abs(np.roll(y, step, axis=0) - predicted) <= tolerance).all(axis=1).sum()) for step in (-1, 1))
    beyond = n_equal - n_tied
    is_many = beyond >= PREDICTED_SHARE * len(y) and beyond >= PREDICTED_Z * np.sqrt(n_equal + n_tied)
    return n_equal / len(y) if is_many and n_equal else None


def warn_of_shifted_response(ensemble: TreeEnsemble, response: Response, log: WarningLog) -> None:
    """Warn if the mean of y, or the share of a class, differs from that in training; for forests that store it.

    Parameters
    ----------
    ensemble : TreeEnsemble
    response : Response
        Response of all rows: the rows of a batch may be sorted.
    log : WarningLog
    """
    in_training = _training_mean(ensemble)
    if in_training is None or response.n_rows < ROWS_AT_LEAST:
        return
    mean, variance, n_trained = in_training
    values = response.values if response.values is not None else np.eye(ensemble.n_outputs)[response.codes]
    # The larger of the two, so that a variance that one of them underestimates gives no alarm.
    variance = np.maximum(variance, values.var(axis=0))
    size = np.abs(values.mean(axis=0) - mean) / np.sqrt(np.maximum(variance, 1e-300))
    if ((size >= SHIFTED_SIZE) & (size >= SHIFTED_Z * np.sqrt(1 / response.n_rows + 1 / n_trained))).any():
        k = int(size.argmax())
        centre = ensemble.centre[k] if ensemble.centre.size > k else 0.0
        here, before = float(values[:, k].mean() + centre), float(mean[k] + centre)
        difference = (
            f"the share of class {ensemble.classes[k]!s} is {here:.1%} among these rows and {before:.1%} in training"
            if ensemble.classes is not None
            else f"the mean of y is {here:.4g} among these rows and {before:.4g} in training"
        )
        log.warn(
            f"{difference}. If these rows were not drawn as the training rows were, or were chosen by y, the scores "
            "hold for such rows only"
        )


def _training_mean(ensemble: TreeEnsemble) -> tuple[NDArray[np.float64], NDArray[np.float64], int] | None:
    """Return mean and variance of the training response, and the number of rows; None if the nodes do not show them.

    The means at the roots vary over bags like the mean of a bag. They do not vary if bags are balanced by class.
    Weights of rows show in the weight of the roots.
    """
    if not (ensemble.averaged and ensemble.mean_values and ensemble.uniform_rows):
        return None
    if ensemble.weight is None or ensemble.count is None or ensemble.class_sets is not None:
        return None
    roots = ensemble.tree_start[:-1]
    weight, count, value = ensemble.weight[roots], ensemble.count[roots], ensemble.centred_value[roots]
    mean = value.mean(axis=0)
    if np.array_equal(weight, count):  # all rows, each once
        n = int(count[0])
        if ensemble.classes is not None:
            return mean, mean * (1 - mean), n
        if ensemble.impurity is None or ensemble.criterion != "squared_error":
            return None
        # With several responses the impurity is the mean of their variances, and each variance is at most their sum.
        return mean, np.full(mean.size, float(ensemble.impurity[roots].mean()) * mean.size), n
    n = int(weight[0])
    weighted = (weight != n).any() or (ensemble.n_train is not None and n > ensemble.n_train)
    if weighted or ensemble.n_trees < BAGS_AT_LEAST:
        return None
    variance = value.var(axis=0, ddof=1) * n
    return None if (variance <= 1e-9 * mean**2).any() else (mean, variance, n)


def _z_of_covariance(predicted: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean product of deviations over its standard error for each column; 0 if one of them is constant."""
    product = (predicted - predicted.mean(axis=0)) * (values - values.mean(axis=0))
    error = product.std(axis=0) / np.sqrt(len(product))
    return np.divide(product.mean(axis=0), error, out=np.zeros_like(error), where=error > 0)
