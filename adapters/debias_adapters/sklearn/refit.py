"""Refits of scikit-learn's estimators and of its wrappers."""

from __future__ import annotations

import sys
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import UnsupportedModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from debias.hooks.wrapping import RefitInputs


def fresh(estimator: Any, seed: int | None, n_jobs: int | None = None) -> Any:
    """Return an unfitted clone in which each random state, also of nested estimators, has its own seed."""
    from sklearn.base import clone

    clean = clone(estimator)
    settings = clean.get_params(deep=True)
    if n_jobs is not None:
        clean.set_params(**{name: n_jobs for name in settings if name.split("__")[-1] == "n_jobs"})
    if seed is None:
        return clean
    names = sorted(name for name in settings if name.split("__")[-1] == "random_state")
    states = np.random.SeedSequence([seed, 0]).generate_state(len(names))
    return clean.set_params(**{name: int(state) for name, state in zip(names, states, strict=True)})


def fitted(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: NDArray[np.float64] | None,
    seed: int | None,
    settings: Mapping[str, Any],
    n_jobs: int | None = None,
) -> Any:
    """Return a fitted clone with some settings changed."""
    if n_jobs is not None and "n_jobs" in estimator.get_params(deep=False):
        settings = {"n_jobs": n_jobs, **settings}
    clean = fresh(estimator, seed).set_params(**settings)
    return clean.fit(X, y) if sample_weight is None else clean.fit(X, y, sample_weight=sample_weight)


def refit_pipeline(model: Any, inputs: RefitInputs) -> Any:
    """Fit the transformers, and refit the last step on the transformed rows."""
    name, last = model.steps[-1]
    steps, transformed = [], inputs.X
    if len(model.steps) > 1:
        transformers = fresh(model[:-1], inputs.seed, inputs.n_jobs)
        transformed = transformers.fit_transform(inputs.X, inputs.y)
        steps = transformers.steps
    refitted = copy(model)
    refitted.steps = [*steps, (name, inputs.train(last, transformed, inputs.y, 0))]
    return refitted


def refit_best(model: Any, inputs: RefitInputs) -> Any:
    """Refit the best estimator of a search."""
    return inputs.train(model.best_estimator_, inputs.X, inputs.y, 0)


def refit_attribute(name: str, model: Any, inputs: RefitInputs) -> Any:
    """Refit the one model inside, and keep the wrapper as it is."""
    refitted = copy(model)
    setattr(refitted, name, inputs.train(getattr(model, name), inputs.X, inputs.y, 0))
    return refitted


def refit_transformed_target(transform: Callable[[Any, Any], Any], model: Any, inputs: RefitInputs) -> Any:
    """Fit the transformer to the response, and refit the model on the transformed response."""
    numbers = np.asarray(inputs.y, dtype=np.float64)
    refitted = copy(model)
    refitted.transformer_ = fresh(model.transformer_, inputs.seed, inputs.n_jobs).fit(numbers.reshape(len(numbers), -1))
    refitted.regressor_ = inputs.train(model.regressor_, inputs.X, transform(refitted.transformer_, inputs.y), 0)
    return refitted


def refit_members(responses: list[Callable[[Any], Any] | None], model: Any, inputs: RefitInputs) -> Any:
    """Refit each member on its own response."""
    refitted = copy(model)
    refitted.estimators_ = [
        inputs.train(member, inputs.X, inputs.y if response is None else response(inputs.y), number)
        for number, (member, response) in enumerate(zip(model.estimators_, responses, strict=True))
    ]
    if hasattr(model, "named_estimators_"):
        refitted.named_estimators_ = copy(model.named_estimators_)
        names = [name for name, member in model.named_estimators_.items() if not isinstance(member, str)]
        refitted.named_estimators_.update(zip(names, refitted.estimators_, strict=True))
    return refitted


def refit_whole(model: Any, inputs: RefitInputs) -> Any:
    """Fit a clone of the wrapper as a whole, with its folds."""
    frozen = getattr(sys.modules.get("sklearn.frozen"), "FrozenEstimator", ())  # scikit-learn 1.5 has none
    refitted = fresh(model, inputs.seed, inputs.n_jobs)
    if any(isinstance(part, frozen) for part in refitted.get_params(deep=True).values()):
        raise UnsupportedModelError(
            f"this {type(model).__name__} holds a FrozenEstimator, which would keep its trees: refit the frozen model"
        )
    if inputs.sample_weight is None:
        return refitted.fit(inputs.X, inputs.y)
    return refitted.fit(inputs.X, inputs.y, sample_weight=inputs.sample_weight)
