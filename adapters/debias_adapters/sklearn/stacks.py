"""Stacks: a linear final estimator makes a weighted sum of the members, whose scores add up with these weights."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import RowsError, UnsupportedModelError
from debias.hooks.wrapping import Inner, Unwrapped
from debias_adapters.sklearn import refit
from debias_adapters.sklearn.columns import passes_through

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

FITTED_BEFORE = (
    "The members were fitted before the stack, so debias cannot tell whether its coefficients were fitted to these "
    "rows: if they were, noise may look informative"
)
PROBABILITIES_STACKED = "the margins of the members are added, though the final estimator takes their probabilities"


def stack(model: Any) -> Unwrapped:
    """Return the members of a stack, of which a linear final estimator makes a weighted sum."""
    kind = type(model).__name__
    is_classifier, names = hasattr(model, "classes_"), kept(model)
    coefficients = _coefficients_of_classes(model) if is_classifier else _coefficients(model)
    if coefficients is None or model.passthrough or coefficients.shape != (len(names),):
        raise UnsupportedModelError(
            f"this {kind} combines its members by {type(model.final_estimator_).__name__}"
            f"{' and passes X on to it' if model.passthrough else ''}: only a linear final estimator, such as "
            f"{'LogisticRegression' if is_classifier else 'Ridge'}, without passthrough gives the members weights to "
            f"add scores with. {_one_by_one(model)}"
        )
    # With "prefit", fitting the stack again does not fit the members.
    prefit = isinstance(model.cv, str)
    fitted_before = prefit or any(type(member).__name__ == "FrozenEstimator" for member in model.estimators_)
    fitted_to_them = f"the coefficients of this {kind} were fitted to predictions of its members for them"
    inner = tuple(
        Inner(
            member,
            f"member {name!r}",
            float(coefficient),
            response=_as_member_takes_it(model, name, member) if is_classifier else None,
            tuned_on_unseen=None if fitted_before else fitted_to_them,
            note_of_margin=PROBABILITIES_STACKED if method == "predict_proba" else None,
        )
        for name, member, coefficient, method in zip(
            names, model.estimators_, coefficients, model.stack_method_, strict=True
        )
    )
    note, has_link = f"scores are sums over {len(inner)} members, times their coefficients", True
    if is_classifier:
        note += f" in the decision function of {type(model.final_estimator_).__name__}"
    elif _predicts_the_sum(model.final_estimator_, coefficients):
        has_link = False
    else:
        note += f", of which {type(model.final_estimator_).__name__} computes its predictions"
    if fitted_before:
        note += f". {FITTED_BEFORE}"
    rewrap = None if prefit else partial(refit.refit_whole, model)
    return Unwrapped(kind, inner, note=note, rewrap=rewrap, has_link=has_link)


def kept(model: Any) -> list[str]:
    """Return the names of the members of a vote or a stack that were not dropped."""
    return [name for name, member in model.estimators if not (isinstance(member, str) and member == "drop")]


def place_among(classes: NDArray[Any], y: Any) -> NDArray[np.int64]:
    """Return the places of labels among the classes, as a bag encodes them."""
    given = np.asarray(y)
    unknown = sorted(set(given.tolist()) - set(classes.tolist()), key=str)
    if unknown:
        raise RowsError(f"y has labels that the model never saw: {unknown[:5]}")
    return np.searchsorted(classes, given).astype(np.int64)


def _coefficients(model: Any) -> NDArray[np.float64] | None:
    """Return the weights of the members in the predictions of a stack of regressors; None if it has none."""
    final, factors = _behind_scalers(model.final_estimator_)
    coefficients = getattr(final, "coef_", None)
    return None if coefficients is None else np.asarray(coefficients, dtype=np.float64) * factors


def _behind_scalers(final: Any) -> tuple[Any, NDArray[np.float64]]:
    """Return the estimator inside searches and pipelines of scalers, and the factors of its columns in the scalers."""
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

    linear = (MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler)  # they multiply each column and add a constant
    if hasattr(final, "best_estimator_"):
        return _behind_scalers(final.best_estimator_)
    if not isinstance(final, Pipeline):
        return final, np.ones(1)
    scalers = [step for _, step in final.steps[:-1] if not passes_through(step)]
    if any(type(step) not in linear or getattr(step, "clip", False) for step in scalers):
        return final, np.ones(1)
    last, factors = _behind_scalers(final.steps[-1][1])
    for step in scalers:
        n = step.n_features_in_
        factors = factors * np.diag(step.transform(np.eye(n)) - step.transform(np.zeros((n, n))))
    return last, factors


def _predicts_the_sum(final: Any, coefficients: NDArray[np.float64]) -> bool:
    """Return whether a regressor predicts the weighted sum of its columns and a constant, and no function of it.

    A PoissonRegressor, for example, predicts the exponential of the sum.
    """
    n = len(coefficients)
    points = np.vstack([np.zeros(n), np.ones(n), np.eye(n)])
    predicted = np.asarray(final.predict(points), dtype=np.float64).ravel()
    rounding = 1e-6 * np.abs(predicted).max()  # some libraries compute in float32
    return np.allclose(predicted - predicted[0], points @ coefficients, rtol=1e-4, atol=rounding)


def _coefficients_of_classes(model: Any) -> NDArray[np.float64] | None:
    """Return the weights of the members in the decision function of a stack for two classes; None if it has none.

    Raises
    ------
    UnsupportedModelError
        The stack has more classes or several responses, or its members pass labels on.
    """
    from sklearn.linear_model._base import LinearClassifierMixin

    kind = type(model).__name__
    if isinstance(model.classes_, list):
        raise UnsupportedModelError(
            f"this {kind} has {len(model.classes_)} responses, whose predictions its final estimator mixes, so its "
            "members have no weights to add scores with. Fit one stack for each response"
        )
    if len(model.classes_) > 2:
        raise UnsupportedModelError(
            f"this {kind} tells {len(model.classes_)} classes apart: each class has coefficients of its own for the "
            "probabilities of all classes, so its members have no single weights to add scores with. "
            f"{_one_by_one(model)}"
        )
    labels = [name for name, method in zip(kept(model), model.stack_method_, strict=True) if method == "predict"]
    if labels:
        raise UnsupportedModelError(
            f"member {labels[0]!r} of this {kind} passes predicted labels or numbers on, and scores do not add up over "
            "these. Fit a stack of classifiers with probabilities, with stack_method='auto', which passes these on"
        )
    # Other classifiers may have a coef_ too, of which they make something else than this sum.
    final, factors = _behind_scalers(model.final_estimator_)
    if not isinstance(final, LinearClassifierMixin):
        return None
    return np.asarray(final.coef_, dtype=np.float64).ravel() * factors


def _as_member_takes_it(model: Any, name: str, member: Any) -> Callable[[Any], Any] | None:
    """Return what changes y to the labels of a member of a stack: their places among the classes, or nothing.

    A stack fits its members to the places. Those that were fitted before have labels of their own.
    """
    own, classes = np.asarray(getattr(member, "classes_", np.arange(2))), model.classes_
    if np.array_equal(own, np.arange(2)):
        return partial(place_among, classes)
    if np.array_equal(own, classes):
        return None
    raise UnsupportedModelError(
        f"member {name!r} of this {type(model).__name__} was fitted before, to the classes {own.tolist()}, and the "
        f"stack to {classes.tolist()}. Fit both to the same labels"
    )


def _one_by_one(model: Any) -> str:
    """Return that the members of a stack can be scored one by one, and with which y."""
    classes = getattr(model, "classes_", np.arange(2))
    of_members = [np.asarray(getattr(member, "classes_", classes)) for member in model.estimators_]
    if all(np.array_equal(own, classes) for own in of_members):
        return "Score model.estimators_ one by one."
    return "Score model.estimators_ one by one, with y = numpy.searchsorted(model.classes_, y)."
