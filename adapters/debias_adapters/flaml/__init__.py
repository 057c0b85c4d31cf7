"""Adapter of FLAML: the search, and the estimator around the model that it found."""

from __future__ import annotations

import sys
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.errors import RowsError, UnsupportedModelError
from debias.hooks.library import Library
from debias.hooks.wrapping import Inner, Unwrapped

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.hooks.wrapping import RefitInputs

LIBRARY = Library(
    "FLAML",
    "flaml",
    "its models are those of the other libraries",
    tested=("2.6", "2.8"),
    extra="flaml",
    page="libraries/automl",
)
SHUFFLED = ("uniform", "stratified")
"""Ways to split the rows for which FLAML shuffles them first."""
RARE = 20
"""FLAML repeats the rows of classes with fewer rows than this."""
PARTS_OF_DATES = ("year", "month", "day", "hour", "minute", "second", "dayofweek", "dayofyear", "quarter")


@debias.plugin.hookimpl
def debias_libraries() -> list[Library]:
    """Declare the library."""
    return [LIBRARY]


@debias.plugin.hookimpl
def debias_unwrap(model: Any) -> Unwrapped | None:
    """Return the estimator that a search found, or the model of a library inside such an estimator."""
    flaml = sys.modules.get("flaml.automl.automl")
    if flaml is None:
        return None
    if isinstance(model, flaml.AutoML):
        return _of_search(model)
    estimators = sys.modules["flaml.automl.model"]
    return _of_estimator(model, estimators) if isinstance(model, estimators.BaseEstimator) else None


def _of_search(model: Any) -> Unwrapped:
    if model.model is None:
        raise UnsupportedModelError(
            "this FLAML AutoML holds no model: it is not fitted, or its time was too short. Fit it with a larger "
            "time_budget"
        )
    task = model._state.task
    if task.is_ts_forecast() or task.is_nlp() or task.is_rank():
        raise UnsupportedModelError(
            f"this FLAML AutoML was fitted for the task {task.name!r}, whose rows are not independent examples with "
            "one response. debias scores FLAML's classification and regression"
        )
    labels = model.label_transformer
    inner = Inner(
        model.model,
        "model",
        transform=partial(_transformed, model),
        response=labels.transform if labels else None,
        training_order=partial(_training_order, model),
    )
    refit = partial(_refit_search, model)
    transformer = model.feature_transformer
    if not transformer or not hasattr(
        transformer, "_cat_columns"
    ):  # rows of an array or sparse matrix stay as they are
        return Unwrapped("AutoML", (inner,), rewrap=refit)
    names, columns = _columns(transformer)
    traced = replace(inner, columns=columns, feature_names=tuple(map(str, model._feature_names_in_)))
    n_dropped = model._ndim - len(names)
    note = f"FLAML dropped constant columns or labels that differ in each row, without a score: {n_dropped}"
    return Unwrapped("AutoML", (traced,), names, note=note if n_dropped else None, rewrap=refit)


def _of_estimator(model: Any, estimators: Any) -> Unwrapped:
    if isinstance(model, estimators.SparkEstimator):
        raise UnsupportedModelError(
            "this FLAML estimator was trained on Spark and takes frames of pandas on Spark: score the model inside "
            "(automl.model.estimator) on the features that Spark made"
        )
    if model.estimator is None:
        raise UnsupportedModelError(f"this FLAML {type(model).__name__} is not fitted; fit it first")
    inner = Inner(model.estimator, "estimator", transform=partial(_seen_by_library, model))
    return Unwrapped(type(model).__name__, (inner,), rewrap=partial(_refit_estimator, model))


def _transformed(model: Any, X: Any) -> Any:
    if not hasattr(X, "columns") and getattr(getattr(X, "dtype", None), "kind", "f") not in "buif":
        raise RowsError(
            "FLAML numbers the labels in an array anew in each call, so its predictions for a row depend on the other "
            "rows. Fit and score it on a data frame"
        )
    twice = [name for name in getattr(X, "columns", ()) if name in _parts_of_dates(model.feature_transformer)]
    if twice:
        raise RowsError(
            f"X has a column {twice[0]!r}, which is also FLAML's name for a part of a date, so its score cannot be "
            "told from that of the date. Rename the column and fit again"
        )
    return model._state.task.preprocess(X, model.feature_transformer)


def _seen_by_library(model: Any, X: Any) -> Any:
    return model._preprocess(X)


def _columns(transformer: Any) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Return the user's columns that FLAML kept, and for each column it makes the one of them it comes from."""
    date_of = _parts_of_dates(transformer)
    sources = [date_of.get(column, column) for column in [*transformer._cat_columns, *transformer._num_columns]]
    names = list(dict.fromkeys(sources))
    return tuple(map(str, names)), np.array([names.index(source) for source in sources], dtype=np.int64)


def _parts_of_dates(transformer: Any) -> dict[str, Any]:
    """Return the column of dates that each column such as "year_born" is made of."""
    return {f"{part}_{date}": date for date in transformer._datetime_columns for part in PARTS_OF_DATES}


def _training_order(model: Any, y: Any) -> NDArray[np.int64]:
    """Return the order of FLAML's final training rows: rare classes are repeated, and then all rows are shuffled."""
    from flaml.config import RANDOM_SEED
    from sklearn.utils import shuffle

    positions = np.arange(len(y))
    if model._split_type not in SHUFFLED:
        return positions
    state = model._state
    if state.task.is_classification() and model._auto_augment and getattr(state, "sample_weight_all", None) is None:
        codes = np.asarray(y)
        for label, count in zip(*np.unique(codes, return_counts=True), strict=True):
            rows = np.flatnonzero(codes == label)
            positions = np.append(positions, np.tile(rows, -(-max(RARE - count, 0) // count)))
    return np.asarray(shuffle(positions, random_state=RANDOM_SEED))


def _refit_search(model: Any, inputs: RefitInputs) -> Any:
    """Refit the model that was found; the preparation of columns, which does not depend on y, stays as it is."""
    labels = model.label_transformer
    y = labels.transform(np.asarray(inputs.y)) if labels else inputs.y
    refitted = copy(model)
    refitted._trained_estimator = inputs.train(model.model, _transformed(model, inputs.X), y, 0)
    refitted._split_type = "time"  # its rows were not shuffled
    return refitted


def _refit_estimator(model: Any, inputs: RefitInputs) -> Any:
    refitted = copy(model)
    refitted._model = inputs.train(model.estimator, _seen_by_library(model, inputs.X), inputs.y, 0)
    return refitted
