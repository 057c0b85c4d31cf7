"""Hooks for scikit-learn's meta-estimators: pipelines, searches, calibration, votes, multi-output, and their folds."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.data.table import names_of_columns, numbered_columns
from debias.errors import RowsError, UnsupportedModelError, with_article
from debias.hooks.cross_validated import CrossValidated
from debias.hooks.wrapping import BEFORE_CALIBRATION, Inner, Predictions, Supervised, Unwrapped
from debias_adapters.sklearn import refit
from debias_adapters.sklearn.columns import labels_before, names_out, passes_through, sources, transformed
from debias_adapters.sklearn.stacks import kept, place_among, stack
from debias_adapters.sklearn.supervised import supervised_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


@debias.plugin.hookimpl
def debias_unwrap(model: Any) -> Unwrapped | None:
    """Return the models inside a meta-estimator."""
    for (module, names), unwrap in WRAPPERS.items():
        loaded = sys.modules.get(module)
        kinds = tuple(getattr(loaded, name) for name in names if hasattr(loaded, name))
        if kinds and isinstance(model, kinds):
            _require_fitted(model)
            unwrapped = unwrap(model)
            return None if unwrapped is None else replace(unwrapped, whole=_predictions(model))
    return None


def _predictions(model: Any) -> Predictions | None:
    """Return how a meta-estimator predicts: probabilities of one label a row, or numbers."""
    classes = getattr(model, "classes_", None)
    if classes is None:
        return Predictions(partial(_asked, model, "predict")) if hasattr(model, "predict") else None
    one_label = isinstance(classes, np.ndarray) and classes.ndim == 1 and not getattr(model, "multilabel_", False)
    if not one_label or not hasattr(model, "predict_proba"):
        return None
    return Predictions(partial(_asked, model, "predict_proba"), tuple(classes.tolist()))


def _asked(model: Any, method: str, X: Any) -> Any:
    """Return what a method of a model returns for rows, whose named columns may be in another order."""
    names, known = _names(model)
    if names is not None and known and hasattr(X, "columns") and set(names) <= set(map(str, X.columns)):
        X = X[list(names)]
    return getattr(model, method)(X)


@debias.plugin.hookimpl
def debias_cross_validated(results: Any) -> CrossValidated | None:
    """Return the models of the folds of a calibrated classifier, or how those of a search are trained again."""
    calibration, search = sys.modules.get("sklearn.calibration"), sys.modules.get("sklearn.model_selection._search")
    if calibration is not None and isinstance(results, calibration.CalibratedClassifierCV):
        return _folds_of_calibrated(results)
    return _folds_of_search(results) if search is not None and isinstance(results, search.BaseSearchCV) else None


@debias.plugin.hookimpl
def debias_splits(cv: int, X: Any, y: Any, is_classifier: bool) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Divide rows as ``cv=5`` does in scikit-learn: in stratified folds for a classifier, and in blocks otherwise."""
    from sklearn.model_selection import check_cv

    try:
        return list(check_cv(cv, y, classifier=is_classifier).split(X, y))
    except ValueError as error:
        raise RowsError(f"the rows cannot be divided by cv={cv}: {error}") from error


def _folds_of_calibrated(model: Any) -> CrossValidated:
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
    cv = 5 if model.cv is None else model.cv
    return CrossValidated("CalibratedClassifierCV", models, cv, note=BEFORE_CALIBRATION)


def _folds_of_search(model: Any) -> CrossValidated:
    """Return how the models of a search's folds are trained again: it keeps none."""
    from sklearn.base import is_classifier

    kind = type(model).__name__
    if not hasattr(model, "best_estimator_"):
        raise UnsupportedModelError(
            f"this {kind} has no best_estimator_: it is not fitted, or was fitted with refit=False. Fit it with "
            "refit=True"
        )
    note = (
        f"{with_article(kind)} keeps no models of folds, so debias has trained its best_estimator_ again on each "
        "fold. Other arguments that its fit was given, such as groups or eval_set, are not used again. The parameters "
        "were chosen on these folds, so scores on them are a little too high on average"
    )
    cv = 5 if model.cv is None else model.cv
    fit = partial(_fitted_again, model)
    return CrossValidated(kind, None, cv, fit=fit, is_classifier=is_classifier(model.best_estimator_), note=note)


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


def _pipeline(model: Any) -> Unwrapped:
    name, last = model.steps[-1]
    samplers = [step for step in model.steps[:-1] if hasattr(step[1], "fit_resample")]  # of imbalanced-learn
    transformers, rewrap, resampled = model[:-1], partial(refit.refit_pipeline, model), None
    if samplers:
        transformers, rewrap = _without(samplers, model), partial(refit.refit_whole, model)
        resampled = (
            f"the pipeline resamples its training rows ({', '.join(type(step).__name__ for _, step in samplers)})"
        )
    if all(passes_through(step) for _, step in transformers.steps):
        return Unwrapped("Pipeline", (Inner(last, f"step {name!r}", resampled=resampled),), rewrap=rewrap)
    names, named = _names(model)
    known = names if named and not _looks_at_names(transformers.steps) else None
    inner = Inner(
        last,
        f"step {name!r}",
        transform=partial(_transformed, transformers.steps, known),
        columns=partial(_sources, transformers, names),
        resampled=resampled,
        feature_names=names_out(transformers, names or ()),
        supervised=partial(supervised_in, transformers),
        labels=partial(labels_before, transformers, len(names or ())),
    )
    return Unwrapped("Pipeline", (inner,), names, rewrap=rewrap, named=named)


def _without(samplers: list[tuple[str, Any]], model: Any) -> Any:
    """Return the steps of a pipeline before the last one that transform rows at prediction."""
    from sklearn.pipeline import Pipeline

    return Pipeline([step for step in model.steps[:-1] if step not in samplers])


def _search(model: Any) -> Unwrapped:
    kind = type(model).__name__
    if not hasattr(model, "best_estimator_"):
        raise UnsupportedModelError(
            f"this {kind} has no best_estimator_: it was fitted with refit=False. Fit it with refit=True"
        )
    return Unwrapped(kind, (Inner(model.best_estimator_, "best_estimator_"),), rewrap=partial(refit.refit_best, model))


def _attribute(name: str, model: Any) -> Unwrapped:
    rewrap = partial(refit.refit_attribute, name, model)
    return Unwrapped(type(model).__name__, (Inner(getattr(model, name), name),), rewrap=rewrap)


def _elimination(model: Any) -> Unwrapped:
    names, named = _names(model)
    inner = Inner(
        model.estimator_,
        "estimator_",
        transform=model.transform,
        columns=np.flatnonzero(model.support_),
        feature_names=names_out(model, names or ()),
        supervised=lambda X, y: Supervised(f"this {type(model).__name__}"),
        labels=partial(labels_before, model, len(names or ())),
    )
    rewrap = partial(refit.refit_whole, model)
    return Unwrapped(type(model).__name__, (inner,), names, rewrap=rewrap, named=named)


def _calibrated(model: Any) -> Unwrapped:
    """Return the models that are calibrated: one, or one for each fold."""
    folds = model.calibrated_classifiers_
    inner = tuple(Inner(fold.estimator, f"fold {k}", 1 / len(folds)) for k, fold in enumerate(folds))
    return Unwrapped("CalibratedClassifierCV", inner, note=BEFORE_CALIBRATION, rewrap=partial(refit.refit_whole, model))


def _transformed_target(model: Any) -> Unwrapped:
    note = "scores are on the scale of the transformed response, on which the trees were grown"
    inner = Inner(model.regressor_, "regressor_", response=partial(_transform_target, model.transformer_))
    rewrap = partial(refit.refit_transformed_target, _transform_target, model)
    return Unwrapped("TransformedTargetRegressor", (inner,), note=note, rewrap=rewrap)


def _multi_output(model: Any) -> Unwrapped:
    kind = type(model).__name__
    models = model.estimators_
    inner = tuple(
        Inner(part, f"response {k}", response=partial(_response_column, k, len(models)))
        for k, part in enumerate(models)
    )
    rewrap = partial(refit.refit_members, [member.response for member in inner], model)
    return Unwrapped(kind, inner, note=f"scores are sums over the {len(models)} responses", rewrap=rewrap)


def _one_against_rest(model: Any) -> Unwrapped:
    from sklearn.multiclass import _ConstantPredictor

    models, labels = model.estimators_, model.label_binarizer_
    constant = [k for k, part in enumerate(models) if isinstance(part, _ConstantPredictor)]
    if constant:
        raise UnsupportedModelError(
            f"in this OneVsRestClassifier the model of class {model.classes_[constant[0]]!r} is a constant: in "
            "training no row had the class, or every row. Fit it on rows with and without each class"
        )
    inner = tuple(
        Inner(part, f"class {label!r}", response=partial(_one_class, labels, k))
        for k, (part, label) in enumerate(zip(models, model.classes_[-len(models) :].tolist(), strict=True))
    )
    note = f"scores are sums over {len(models)} models, each of which tells one class from the others"
    rewrap = partial(refit.refit_members, [member.response for member in inner], model)
    return Unwrapped("OneVsRestClassifier", inner, note=note, rewrap=rewrap)


def _one_against_one(model: Any) -> Unwrapped:
    raise UnsupportedModelError(
        f"each of the {len(model.estimators_)} models in this OneVsOneClassifier was trained on the rows of two "
        "classes only, and their votes do not add up. Score them one by one on these rows: for the first, "
        "rows = numpy.isin(y, model.classes_[:2]); debias.score(model.estimators_[0], X[rows], "
        "(y[rows] == model.classes_[1]).astype(int))"
    )


def _output_code(model: Any) -> Unwrapped:
    raise UnsupportedModelError(
        "the models in this OutputCodeClassifier tell random sets of classes apart, and the nearest code decides, so "
        "their scores do not add up. Score model.estimators_ one by one, each with the column of "
        "model.code_book_[numpy.searchsorted(model.classes_, y)] it was trained on"
    )


def _vote(model: Any) -> Unwrapped:
    kind = type(model).__name__
    is_classifier = hasattr(model, "classes_")
    if is_classifier and model.voting != "soft":
        raise UnsupportedModelError(
            f"this {kind} has voting={model.voting!r}: it counts votes, and scores do not add up over votes. Score its "
            "members, model.estimators_, one by one."
        )
    names, weights = kept(model), model._weights_not_none
    shares = np.full(len(names), 1.0) if weights is None else np.asarray(weights, dtype=np.float64)
    if not shares.sum():
        raise UnsupportedModelError(
            f"the weights of this {kind} add up to 0, so its mean of predictions is not defined, and it cannot predict "
            "itself. Change weights="
        )
    shares = shares / shares.sum()
    response = partial(_encoded, model.le_) if is_classifier else None
    inner = tuple(
        Inner(member, f"member {name!r}", float(weight), response=response)
        for name, member, weight in zip(names, model.estimators_, shares, strict=True)
    )
    note = f"scores are means over {len(inner)} members, by their weights in the vote"
    rewrap = partial(refit.refit_members, [response] * len(inner), model)
    return Unwrapped(kind, inner, note=note, rewrap=rewrap)


def _bag(model: Any) -> Unwrapped | None:
    """Return the models of a bag of forests or boosted models; None for a bag of single trees, which is a forest."""
    from sklearn.ensemble import BaggingClassifier, BaggingRegressor
    from sklearn.tree import BaseDecisionTree

    kind, models = type(model).__name__, model.estimators_
    if type(model) not in (BaggingClassifier, BaggingRegressor) or isinstance(models[0], BaseDecisionTree):
        return None
    is_classifier = hasattr(model, "classes_")
    if is_classifier and not hasattr(models[0], "predict_proba"):
        raise UnsupportedModelError(
            f"this {kind} counts the votes of {type(models[0]).__name__} models, which have no probabilities, and "
            "scores do not add up over votes. Score its members, model.estimators_, one by one."
        )
    names, named = _names(model)
    assert names is not None  # bags count their columns
    response = partial(place_among, model.classes_) if is_classifier else None
    inner = []
    for k, (member, features) in enumerate(zip(models, model.estimators_features_, strict=True)):
        columns = np.asarray(features, dtype=np.int64)
        inner.append(
            Inner(
                member,
                f"member {k}",
                1 / len(models),
                transform=partial(_chosen_columns, names if named else None, columns),
                response=response,
                columns=columns,
                feature_names=tuple(names[k] for k in columns),
                reweights=True,
            )
        )
    note = f"scores are means over {len(inner)} members"
    return Unwrapped(kind, tuple(inner), names, note=note, rewrap=partial(refit.refit_whole, model), named=named)


def _chosen_columns(names: tuple[str, ...] | None, columns: NDArray[np.int64], X: Any) -> Any:
    """Return the columns that a member of a bag sees, without names, as a bag passes them on."""
    if names is not None and hasattr(X, "columns"):
        X = X[list(names)]
    return X[:, columns] if hasattr(X, "tocsr") else np.asarray(X)[:, columns]


def _chain(model: Any) -> Unwrapped:
    raise UnsupportedModelError(
        f"{with_article(type(model).__name__)} passes predicted responses to its next models as features, and these "
        "are not columns of X. Score model.estimators_ one by one."
    )


WRAPPERS: dict[tuple[str, tuple[str, ...]], Callable[[Any], Unwrapped | None]] = {
    ("sklearn.pipeline", ("Pipeline",)): _pipeline,
    ("sklearn.model_selection._search", ("BaseSearchCV",)): _search,
    ("sklearn.model_selection", ("FixedThresholdClassifier", "TunedThresholdClassifierCV")): partial(
        _attribute, "estimator_"
    ),
    ("sklearn.frozen", ("FrozenEstimator",)): partial(_attribute, "estimator"),
    ("sklearn.feature_selection", ("RFE",)): _elimination,
    ("sklearn.calibration", ("CalibratedClassifierCV",)): _calibrated,
    ("sklearn.compose", ("TransformedTargetRegressor",)): _transformed_target,
    ("sklearn.multioutput", ("MultiOutputClassifier", "MultiOutputRegressor")): _multi_output,
    ("sklearn.multioutput", ("ClassifierChain", "RegressorChain")): _chain,
    ("sklearn.multiclass", ("OneVsRestClassifier",)): _one_against_rest,
    ("sklearn.multiclass", ("OneVsOneClassifier",)): _one_against_one,
    ("sklearn.multiclass", ("OutputCodeClassifier",)): _output_code,
    ("sklearn.ensemble", ("VotingClassifier", "VotingRegressor")): _vote,
    ("sklearn.ensemble", ("StackingClassifier", "StackingRegressor")): stack,
    ("sklearn.ensemble", ("BaggingClassifier", "BaggingRegressor")): _bag,
}
"""Keys are modules and names of classes in them. A module is loaded if the user has a model of such a class."""


def _require_fitted(model: Any) -> None:
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(model)
    except NotFittedError as error:
        raise UnsupportedModelError(f"this {type(model).__name__} is not fitted; fit it first") from error


def _names(model: Any) -> tuple[tuple[str, ...] | None, bool]:
    """Return the names of the columns a model was fitted to, and whether it saw names.

    Without, they are numbered. A transformer of the user, or a vectorizer, may store nothing about its columns: None.
    """
    for _, step in getattr(model, "steps", []):  # a pipeline asks its first step, which may be None
        if not passes_through(step):
            return _names(step)
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        return tuple(str(name) for name in names), True
    n_columns = getattr(model, "n_features_in_", None)
    if n_columns is None:
        return None, False
    return tuple(f"x{k}" for k in range(n_columns)), False


def _looks_at_names(steps: list[tuple[str, Any]]) -> bool:
    """Whether the first step of a pipeline takes columns by name, or refuses them in another order than in training."""
    from sklearn.preprocessing import FunctionTransformer

    first = next(step for _, step in steps if not passes_through(step))
    return type(first).__module__.startswith("sklearn.") and not isinstance(first, FunctionTransformer)


def _transformed(steps: list[tuple[str, Any]], names: tuple[str, ...] | None, X: Any) -> Any:
    return transformed(steps, X if names is None else _in_order(names, X))


def _in_order(names: tuple[str, ...], X: Any) -> Any:
    """Return a table with the columns of training, in their order; X itself if it has no names, or not all of these."""
    from sklearn.utils import _safe_indexing

    given = names_of_columns(X)
    if given is None or given == names or len(set(given)) < len(given) or not set(names) <= set(given):
        return X
    return _safe_indexing(X, [given.index(name) for name in names], axis=1)


def _sources(transformers: Any, names: tuple[str, ...] | None, X: Any) -> list[tuple[int, ...]]:
    n_columns = len(numbered_columns(X) if names is None else names)
    seen = X if names is None else _in_order(names, X)
    return sources(transformers, n_columns, None if X is None else lambda: seen)


def _transform_target(transformer: Any, y: Any) -> NDArray[np.float64]:
    numbers = np.asarray(y, dtype=np.float64)
    changed = np.asarray(transformer.transform(numbers.reshape(len(numbers), -1)), dtype=np.float64)
    return changed[:, 0] if changed.ndim == 2 and changed.shape[1] == 1 else changed


def _response_column(which: int, n_responses: int, y: Any) -> NDArray[Any]:
    columns = np.asarray(y)
    if columns.ndim != 2 or columns.shape[1] != n_responses:
        raise RowsError(f"y must have {n_responses} columns, as in training; it has shape {columns.shape}")
    return columns[:, which]


def _one_class(labels: Any, which: int, y: Any) -> NDArray[np.int64]:
    """Return whether each row is of a class, or of the second of two, as a OneVsRestClassifier encodes it."""
    given = np.asarray(y)
    if given.ndim == 1:
        unknown = sorted(set(given.tolist()) - set(labels.classes_.tolist()), key=str)
        if unknown:
            raise RowsError(f"y has labels that the model never saw: {unknown[:5]}")
    columns = labels.transform(given)
    dense = columns.toarray() if hasattr(columns, "toarray") else np.asarray(columns)
    return dense[:, which].astype(np.int64)


def _encoded(encoder: Any, y: Any) -> NDArray[Any]:
    return np.asarray(encoder.transform(np.asarray(y)))
