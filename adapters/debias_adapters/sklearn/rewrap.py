"""What each of scikit-learn's wrappers becomes around models that were trained again."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from debias.errors import UnsupportedModelError
from debias_adapters.sklearn.refit import fresh

if TYPE_CHECKING:
    from collections.abc import Callable

    from debias.hooks.wrapping import RefitInputs


def pipeline(model: Any, again: RefitInputs) -> Any:
    """Fit the transformers to the rows, and train the last step on what they make of them."""
    name, last = model.steps[-1]
    steps, seen = [], again.X
    if len(model.steps) > 1:
        before = fresh(model[:-1], again.seed, again.n_jobs)
        seen = before.fit_transform(again.X, again.y)
        steps = before.steps
    new = copy(model)
    new.steps = [*steps, (name, again.train(last, seen, again.y, 0))]
    return new


def best(model: Any, again: RefitInputs) -> Any:
    """Train what a search found."""
    return again.train(model.best_estimator_, again.X, again.y, 0)


def attribute(name: str, model: Any, again: RefitInputs) -> Any:
    """Train the one model inside, and leave what is around it."""
    new = copy(model)
    setattr(new, name, again.train(getattr(model, name), again.X, again.y, 0))
    return new


def transformed_target(transform: Callable[[Any, Any], Any], model: Any, again: RefitInputs) -> Any:
    """Fit the transformer to the response, and train on what it makes of it."""
    import numpy as np

    numbers = np.asarray(again.y, dtype=np.float64)
    new = copy(model)
    new.transformer_ = fresh(model.transformer_, again.seed, again.n_jobs).fit(numbers.reshape(len(numbers), -1))
    new.regressor_ = again.train(model.regressor_, again.X, transform(new.transformer_, again.y), 0)
    return new


def members(responses: list[Callable[[Any], Any] | None], model: Any, again: RefitInputs) -> Any:
    """Train every member on its own response."""
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


def whole(model: Any, again: RefitInputs) -> Any:
    """Fit a clone of the wrapper itself, folds and all."""
    from sklearn.frozen import FrozenEstimator

    new = fresh(model, again.seed, again.n_jobs)
    if any(isinstance(part, FrozenEstimator) for part in new.get_params(deep=True).values()):
        raise UnsupportedModelError(
            f"this {type(model).__name__} is fitted around a FrozenEstimator, and would keep its trees: refit the "
            "model that is frozen"
        )
    if again.sample_weight is None:
        return new.fit(again.X, again.y)
    return new.fit(again.X, again.y, sample_weight=again.sample_weight)
