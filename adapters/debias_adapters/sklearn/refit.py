"""Refits of scikit-learn's estimators and of its wrappers."""

from __future__ import annotations

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


def refit_pipeline(model: Any, again: RefitInputs) -> Any:
    """Fit the transformers, and refit the last step on the transformed rows."""
    name, last = model.steps[-1]
    steps, seen = [], again.X
    if len(model.steps) > 1:
        before = fresh(model[:-1], again.seed, again.n_jobs)
        seen = before.fit_transform(again.X, again.y)
        steps = before.steps
    new = copy(model)
    new.steps = [*steps, (name, again.train(last, seen, again.y, 0))]
    return new


def refit_best(model: Any, again: RefitInputs) -> Any:
    """Refit the best estimator of a search."""
    return again.train(model.best_estimator_, again.X, again.y, 0)


def refit_attribute(name: str, model: Any, again: RefitInputs) -> Any:
    """Refit the one model inside, and keep the wrapper as it is."""
    new = copy(model)
    setattr(new, name, again.train(getattr(model, name), again.X, again.y, 0))
    return new


def refit_transformed_target(transform: Callable[[Any, Any], Any], model: Any, again: RefitInputs) -> Any:
    """Fit the transformer to the response, and refit the model on the transformed response."""
    numbers = np.asarray(again.y, dtype=np.float64)
    new = copy(model)
    new.transformer_ = fresh(model.transformer_, again.seed, again.n_jobs).fit(numbers.reshape(len(numbers), -1))
    new.regressor_ = again.train(model.regressor_, again.X, transform(new.transformer_, again.y), 0)
    return new


def refit_members(responses: list[Callable[[Any], Any] | None], model: Any, again: RefitInputs) -> Any:
    """Refit each member on its own response."""
    new = copy(model)
    new.estimators_ = [
        again.train(each, again.X, again.y if response is None else response(again.y), number)
        for number, (each, response) in enumerate(zip(model.estimators_, responses, strict=True))
    ]
    if hasattr(model, "named_estimators_"):
        new.named_estimators_ = copy(model.named_estimators_)
        names = [name for name, each in model.named_estimators_.items() if not isinstance(each, str)]
        new.named_estimators_.update(zip(names, new.estimators_, strict=True))
    return new


def refit_whole(model: Any, again: RefitInputs) -> Any:
    """Fit a clone of the wrapper as a whole, with its folds."""
    from sklearn.frozen import FrozenEstimator

    new = fresh(model, again.seed, again.n_jobs)
    if any(isinstance(part, FrozenEstimator) for part in new.get_params(deep=True).values()):
        raise UnsupportedModelError(
            f"this {type(model).__name__} holds a FrozenEstimator, which would keep its trees: refit the frozen model"
        )
    if again.sample_weight is None:
        return new.fit(again.X, again.y)
    return new.fit(again.X, again.y, sample_weight=again.sample_weight)
