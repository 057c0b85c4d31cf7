"""Training a model again: the same settings, other rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.row_order import refuse_other_order
from debias.errors import DebiasError, RowsError, UnsupportedModelError
from debias.hooks.registry import plugin_manager
from debias.hooks.wrapping import RefitInputs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from debias.hooks.wrapping import Unwrapped


def refit(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: NDArray[np.float64] | None = None,
    *,
    seed: int | None = None,
    n_jobs: int | None = None,
    params: Mapping[str, Any] | None = None,
) -> Any:
    """Train a new model of the same kind and with the same settings on other rows.

    Early stopping is off: there are as many rounds as the model predicts with (but for models inside a calibration, a
    stack or an elimination of features, which is fitted again whole, as it is set). What is wrapped around the trees is
    trained again as well (transformers, votes), except where it has no part in them: a search comes back as its best
    estimator, a threshold as it was.

    Parameters
    ----------
    model : estimator or Booster
        Fitted. Never changed.
    X : array or data frame of shape (n_rows, n_features)
        As the model was trained on.
    y : array-like of shape (n_rows,) or (n_rows, n_responses)
    sample_weight : array of shape (n_rows,), optional
    seed : int, optional
        Sets every random state inside the new model, each to a number of its own; by default the settings of the model
        stand.
    n_jobs : int, optional
        Threads of the new model, where it has such a setting; by default its own.
    params : mapping, optional
        Settings of the innermost model that go before those it kept.

    Returns
    -------
    object
        The fitted model.

    Raises
    ------
    UnsupportedModelError
        The model is of no known kind, did not keep its settings, or cannot be trained again for another reason.
    RowsError
        Its library does not take these rows, weights or parameters; the message is the library's own.

    Examples
    --------
    >>> import debias
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import HistGradientBoostingRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> stopped = HistGradientBoostingRegressor(early_stopping=True, random_state=0).fit(X, y)
    >>> again = debias.refit(stopped, X[::2], y[::2], seed=1)
    >>> again.n_iter_ == stopped.n_iter_
    True
    """
    refuse_other_order(X, y=y, sample_weight=sample_weight)
    found: Unwrapped | None = plugin_manager().hook.debias_unwrap(model=model)
    if found is None:
        return _refit_trees(model, X, y, sample_weight, seed, n_jobs, params)
    rewrap = found.rewrap
    if rewrap is None:
        raise UnsupportedModelError(f"a {found.kind} cannot be trained again; refit the models inside it")

    def train(inner: Any, X: Any, y: Any, number: int) -> Any:
        child = None if seed is None else int(np.random.SeedSequence([seed, 1, number]).generate_state(1)[0])
        return refit(inner, X, y, sample_weight, seed=child, n_jobs=n_jobs, params=params)

    return _or_say_why(model, lambda: rewrap(RefitInputs(X, y, sample_weight, seed, n_jobs, train)))


def with_params(model: Any, params: Any) -> tuple[Any, Mapping[str, Any] | None]:
    """Return the model with the settings of an estimator, or a mapping of them to train it again with."""
    from collections.abc import Mapping

    if params is None or isinstance(params, Mapping):
        return model, params
    return restored(model, params), None


def restored(model: Any, params: Any) -> Any:
    """Return a copy of a model that has the hyper-parameters its file lost.

    Parameters
    ----------
    model : Booster
    params : mapping or estimator
        Names and values, or an unfitted estimator.

    Raises
    ------
    UnsupportedModelError
        Such models lose none.
    RowsError
        There is no such hyper-parameter, or the trees say that it was another.
    """
    found = plugin_manager().hook.debias_restore(model=model, params=params)
    if found is None:
        raise UnsupportedModelError(
            f"a {type(model).__name__} keeps its hyper-parameters in its file: leave params out; others to train it "
            "again with are the params of debias.score, as a mapping"
        )
    return found


def _refit_trees(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: NDArray[np.float64] | None,
    seed: int | None,
    n_jobs: int | None,
    params: Mapping[str, Any] | None,
) -> Any:
    if n_jobs is not None and hasattr(model, "get_params") and "n_jobs" in model.get_params(deep=False):
        params = {"n_jobs": n_jobs, **(params or {})}
    weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    hook = plugin_manager().hook.debias_refit
    fresh = _or_say_why(model, lambda: hook(model=model, X=X, y=y, sample_weight=weight, seed=seed, params=params))
    if fresh is None:
        kind = type(model)
        raise UnsupportedModelError(f"no adapter trains a {kind.__module__}.{kind.__qualname__} again")
    return fresh


def _or_say_why(model: Any, train: Callable[[], Any]) -> Any:
    """Train; whatever a library raises is about what it was given, and says which model did not take it."""
    try:
        return train()
    except DebiasError:
        raise
    except Exception as error:
        raise RowsError(f"this {type(model).__name__} cannot be trained again on what was passed: {error}") from error
