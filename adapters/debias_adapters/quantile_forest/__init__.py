"""Adapter of quantile-forest, whose models are scikit-learn's regression forests that also keep the leaf responses."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import debias
from debias.errors import UnsupportedModelError
from debias.hooks.library import Library
from debias.hooks.wrapping import Inner, Unwrapped
from debias_adapters.sklearn.refit import fitted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from debias.hooks.wrapping import RefitInputs


def _small_model(X: NDArray[np.float64], y: NDArray[np.float64]) -> Any:
    from quantile_forest import RandomForestQuantileRegressor

    return RandomForestQuantileRegressor(5, random_state=0).fit(X, y)


LIBRARY = Library(
    "quantile-forest",
    "quantile-forest",
    _small_model,
    tested=("1.3", "1.4"),
    extra="quantile-forest",
    page="libraries/quantile-forest",
)
_NOTE = "scores are those of the trees and their mean predictions: they are the same for all quantiles"
_QUANTILE_ONLY = {"forest_", "sorter_", "n_train_samples_", "X_train_hash_", "unsampled_indices_", "sample_weight_"}


@debias.plugin.hookimpl
def debias_libraries() -> list[Library]:
    """Declare the library."""
    return [LIBRARY]


@debias.plugin.hookimpl
def debias_unwrap(model: Any) -> Unwrapped | None:
    """Return the scikit-learn forest inside, with the same trees, seeds and settings."""
    plain_class = _plain_class(model)
    if plain_class is None:
        return None
    if not hasattr(model, "estimators_"):
        raise UnsupportedModelError(f"this quantile-forest {type(model).__name__} is not fitted; fit it first")
    plain_settings, model_settings = plain_class().get_params(), model.get_params(deep=False)
    plain = plain_class(**{name: value for name, value in model_settings.items() if name in plain_settings})
    not_copied = model_settings.keys() | _QUANTILE_ONLY
    plain.__dict__.update({name: value for name, value in vars(model).items() if name not in not_copied})
    inner = Inner(plain, "forest of means", predicts=partial(_predicted, model))
    return Unwrapped(type(model).__name__, (inner,), note=_NOTE, rewrap=partial(_refit, model))


def _plain_class(model: Any) -> Any | None:
    quantile_forest, ensemble = sys.modules.get("quantile_forest"), sys.modules.get("sklearn.ensemble")
    if quantile_forest is None or ensemble is None:
        return None
    if isinstance(model, quantile_forest.RandomForestQuantileRegressor):
        return ensemble.RandomForestRegressor
    return ensemble.ExtraTreesRegressor if isinstance(model, quantile_forest.ExtraTreesQuantileRegressor) else None


def _predicted(model: Any, X: Any) -> Any:
    """Return the quantiles that the model predicts. It does not take sparse matrices for this."""
    return model.predict(X.toarray() if hasattr(X, "toarray") else X)


def _refit(model: Any, inputs: RefitInputs) -> Any:
    settings = {} if inputs.n_jobs is None else {"n_jobs": inputs.n_jobs}
    return fitted(model, inputs.X, inputs.y, inputs.sample_weight, inputs.seed, settings)
