"""Cloning scikit-learn estimators: the same settings, new random states, other rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


def fresh(estimator: Any, seed: int | None, n_jobs: int | None = None) -> Any:
    """Return an unfitted clone, each of its random states, however deep, set to a number of its own."""
    from sklearn.base import clone

    copy = clone(estimator)
    settings = copy.get_params(deep=True)
    if n_jobs is not None:
        copy.set_params(**{name: n_jobs for name in settings if name.split("__")[-1] == "n_jobs"})
    if seed is None:
        return copy
    names = sorted(name for name in settings if name.split("__")[-1] == "random_state")
    states = np.random.SeedSequence([seed, 0]).generate_state(len(names))
    return copy.set_params(**{name: int(state) for name, state in zip(names, states, strict=True)})


def fitted(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: NDArray[np.float64] | None,
    seed: int | None,
    settings: Mapping[str, Any],
) -> Any:
    """Return a clone with some settings changed, fitted to rows."""
    copy = fresh(estimator, seed).set_params(**settings)
    return copy.fit(X, y) if sample_weight is None else copy.fit(X, y, sample_weight=sample_weight)
