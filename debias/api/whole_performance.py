"""How well a model predicts whose predictions are not those of the one model of trees inside."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.api.prepared import PreparedRows
from debias.data.user_columns import copied
from debias.models.wrappers import is_one
from debias.results.performance import Performance
from debias.results.vocabulary import BEFORE_CALIBRATION, RowsKind
from debias.rows.performance import Measure, performance_of_predictions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.api.prepared import Prepared
    from debias.hooks.wrapping import Predictions

    Array = NDArray[np.float64]


def performance_of_model(prepared: Prepared) -> Performance:
    """Return how well the whole model predicts the rows.

    The predictions of one model of trees with weight 1 are those of its trees. Others are asked of the model itself: of
    several models, of calibrated probabilities, and of a model whose trees were grown on a transformed response.

    Parameters
    ----------
    prepared : Prepared
        One of the models of trees inside.
    """
    members = prepared.request.members
    is_calibrated = BEFORE_CALIBRATION in (*prepared.member.notes, *prepared.ensemble.notes)
    is_transformed = prepared.member.positions is None and _is_transformed(prepared)
    if not is_one(members) or is_calibrated or is_transformed:
        asked = _asked(prepared)
        if isinstance(asked, Performance):
            return asked
        if len(members) > 1:
            return Performance(untold_because=f"{len(members)} models are combined, and {asked}")
        if is_transformed:
            return Performance(untold_because=f"the trees were grown on a transformed response, and {asked}")
        if members[0].weight != 1:
            return Performance(untold_because=f"the output of the model inside is multiplied, and {asked}")
    performance = prepared.facts.performance()
    if is_calibrated and performance.recalibration is not None:
        return replace(performance, before_calibration=True)
    return performance


def _is_transformed(prepared: Prepared) -> bool:
    """Whether a model around the trees transforms a response of numbers, and back what the trees predict."""
    y, of_trees = prepared.request.y, prepared.member.y
    if of_trees is None or of_trees is y or prepared.ensemble.classes is not None:
        return False
    one, other = (np.asarray(each, dtype=np.float64).ravel() for each in (y, of_trees))
    return not np.array_equal(one, other)


def _asked(prepared: Prepared) -> Performance | str:
    """Return the performance of the predictions of the model itself, or why they are not known."""
    request, member, rows = prepared.request, prepared.member, prepared.rows
    whole = member.whole
    if whole is None:
        return "debias does not combine their predictions"
    if not isinstance(prepared, PreparedRows):
        return "the rows came in batches"
    if rows.kind != RowsKind.HELD_OUT or member.positions is not None:
        return "their predictions are of rows that they have seen"
    if request.base_margin is not None:
        return "their predictions start from the margins of the rows"
    if whole.classes is None and any(Measure.metric_of(each.ensemble) != "R2" for each in request.members):
        return "they were not trained for the squared error of y"
    try:
        with warnings.catch_warnings():  # of columns without names, for example, of which members have warned
            warnings.simplefilter("ignore")
            predicted = np.asarray(whole.predict(copied(request.X)), dtype=np.float64)
        target = _target(whole, request.y)
    except Exception as error:  # libraries raise errors of many types; the audit does not need these predictions
        return f"the model could not be asked for their predictions: {error}"
    if target is None:
        return "y has a value that is none of its classes"
    predicted = predicted.reshape(len(predicted), -1)
    if predicted.shape != target.shape:
        return "its predictions have another shape than y"
    kept = slice(None) if rows.is_kept is None else rows.is_kept
    labels = None if whole.classes is None else tuple(map(str, whole.classes))
    used = rows.weight > 0
    units = None if rows.blocks is None else rows.blocks[used]
    return performance_of_predictions(predicted[kept][used], target[kept][used], rows.weight[used], units, labels)


def _target(whole: Predictions, y: Any) -> Array | None:
    """Return one-hot classes or numbers, shape (n_rows, n_outputs); None if y has a value that is no class."""
    if whole.classes is None:
        numbers = np.asarray(y, dtype=np.float64)
        return numbers.reshape(len(numbers), -1)
    number = {label: k for k, label in enumerate(whole.classes)}
    codes = [number.get(label, -1) for label in np.asarray(y).ravel().tolist()]
    return None if -1 in codes else np.eye(len(number))[codes]
