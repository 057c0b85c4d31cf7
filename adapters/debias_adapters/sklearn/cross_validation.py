"""The folds of scikit-learn: those of calibrated classifiers and searches, and the folds of ``cv=5``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import RowsError, UnsupportedModelError, with_article
from debias.hooks.cross_validated import CrossValidated

if TYPE_CHECKING:
    from numpy.typing import NDArray


def of_calibrated(model: Any) -> CrossValidated:
    """Return the models that a CalibratedClassifierCV calibrates; its folds are made again from its ``cv``."""
    members = getattr(model, "calibrated_classifiers_", None)
    if members is None:
        raise UnsupportedModelError("this CalibratedClassifierCV is not fitted; fit it first")
    if isinstance(model.cv, str) or type(model.estimator).__name__ == "FrozenEstimator":
        raise UnsupportedModelError(
            "this CalibratedClassifierCV calibrates a model that was fitted before, so it holds no models of folds: "
            "audit that model with debias.audit"
        )
    if len(members) == 1:
        raise UnsupportedModelError(
            "this CalibratedClassifierCV was fitted with ensemble=False: it holds one model, trained on all rows, and "
            "not those of the folds. Fit it with ensemble=True, or audit the model with debias.audit"
        )
    models = [member.estimator for member in members]
    note = "scores are of the trees before their probabilities are calibrated"
    cv = 5 if model.cv is None else model.cv
    return CrossValidated("CalibratedClassifierCV", models, cv, note=note)


def of_search(model: Any) -> CrossValidated:
    """Return how the models of a search's folds are trained again: it keeps none."""
    from sklearn.base import is_classifier

    kind = type(model).__name__
    if not hasattr(model, "best_estimator_"):
        raise UnsupportedModelError(
            f"this {kind} has no best_estimator_: it is not fitted, or was fitted with refit=False. Refit it"
        )
    note = (
        f"{with_article(kind)} keeps no models of folds, so debias has trained its best_estimator_ again on each "
        "fold. Other arguments that its fit was given, such as groups or eval_set, are not used again. The parameters "
        "were chosen on these folds, so scores on them are a little too high on average"
    )
    cv = 5 if model.cv is None else model.cv
    fit = partial(_fitted_again, model)
    return CrossValidated(kind, None, cv, fit=fit, is_classifier=is_classifier(model.best_estimator_), note=note)


def divided(cv: int, X: Any, y: Any, is_classifier: bool) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Divide rows as scikit-learn does for ``cv=5``: in stratified folds for a classifier, and in blocks otherwise.

    Raises
    ------
    RowsError
        The rows cannot be divided into so many folds.
    """
    from sklearn.model_selection import check_cv

    try:
        return list(check_cv(cv, y, classifier=is_classifier).split(X, y))
    except ValueError as error:
        raise RowsError(f"the rows cannot be divided by cv={cv}: {error}") from error


def _fitted_again(model: Any, X: Any, y: Any, train: NDArray[Any], sample_weight: Any) -> Any:
    from sklearn.base import clone
    from sklearn.utils import _safe_indexing

    estimator, weights = clone(model.best_estimator_), {}
    try:
        if sample_weight is not None:
            weights[_name_of_weights(estimator)] = np.asarray(sample_weight, dtype=np.float64)[train]
        return estimator.fit(_safe_indexing(X, train), _safe_indexing(y, train), **weights)
    except Exception as error:  # libraries raise errors of many types for rows and arguments that they do not take
        raise RowsError(
            f"the {type(estimator).__name__} of this {type(model).__name__} cannot be trained again on the training "
            f"rows{f' with {next(iter(weights))}' if weights else ''}, so train the models of the folds yourself and "
            f"pass them as a list, with cv=: {error}"
        ) from error


def _name_of_weights(estimator: Any) -> str:
    """Return what the argument of `fit` for the sample weights is called; a pipeline passes it on to its last step."""
    from sklearn.pipeline import Pipeline

    if not isinstance(estimator, Pipeline):
        return "sample_weight"
    name, last = estimator.steps[-1]
    return f"{name}__{_name_of_weights(last)}"
