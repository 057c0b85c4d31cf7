"""Refitting of a model: the same settings on other rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.blocks import encode_queries
from debias.data.chosen_rows import rows_of
from debias.data.row_order import refuse_other_order
from debias.data.user_columns import copied
from debias.errors import DebiasError, RowsError, UnsupportedModelError, with_article
from debias.hooks.registry import plugin_manager
from debias.hooks.wrapping import RefitInputs
from debias.models.extraction import trees_of
from debias.random_state import seed_of
from debias.trees.ranking_objectives import refuse_weights_in_queries
from debias.wrong_arguments import explains_wrong_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray
    from pluggy import HookCaller

    from debias.hooks.wrapping import Unwrapped
    from debias.random_state import RandomState


@explains_wrong_arguments
def refit(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: NDArray[np.float64] | None = None,
    *,
    qid: Any = None,
    random_state: RandomState = None,
    n_jobs: int | None = None,
    params: Mapping[str, Any] | None = None,
) -> Any:
    """Train a new model of the same kind and with the same settings on other rows.

    Early stopping is off: the new model has as many rounds as the old one predicts with. (Exceptions are models inside
    a calibration, a stack or a recursive feature elimination, which is refitted as a whole with its own settings.)
    Wrappers around the trees, such as transformers and votes, are refitted too. Wrappers that do not change the trees
    are not: of a search only the best estimator is refitted, and a decision threshold stays as it was.

    Parameters
    ----------
    model : estimator or Booster
        Fitted. Never changed.
    X : array or data frame of shape (n_rows, n_features)
        As the model was trained on.
    y : array-like of shape (n_rows,) or (n_rows, n_responses)
    sample_weight : array of shape (n_rows,), optional
        For a ranker, the same for all rows of a query.
    qid : array-like of shape (n_rows,), optional
        The query of each row, for rankers, which need it. Rows of a query need not be together: they are put together
        before training.
    random_state : int or numpy.random.Generator, optional
        Sets every random state inside the new model, each to a different number. By default they stay as in the model.
    n_jobs : int, optional
        Number of threads of the new model, if it has such a setting; by default as in the model.
    params : mapping, optional
        Settings of the innermost model. They replace those that the model kept.

    Returns
    -------
    object
        The fitted model.

    Raises
    ------
    UnsupportedModelError
        The model is of an unknown kind, did not keep its settings, or cannot be refitted for another reason.
    RowsError
        The library does not accept these rows, weights or parameters; the message is that of the library. Or the model
        is a ranker and `qid` is missing, has not one label per row, or divides rows of different weights.

    Examples
    --------
    >>> import debias
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import HistGradientBoostingRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> stopped = HistGradientBoostingRegressor(early_stopping=True, random_state=0).fit(X, y)
    >>> again = debias.refit(stopped, X[::2], y[::2], random_state=1)
    >>> again.n_iter_ == stopped.n_iter_
    True
    """
    refuse_other_order(X, y=y, sample_weight=sample_weight, qid=qid)
    seed = seed_of(random_state)
    unwrapped: Unwrapped | None = plugin_manager().hook.debias_unwrap(model=model)
    if unwrapped is None:
        return _refit_trees(model, X, y, sample_weight, qid, seed, n_jobs, params)
    rewrap = unwrapped.rewrap
    if rewrap is None:
        raise UnsupportedModelError(f"{with_article(unwrapped.kind)} cannot be refitted; refit the models inside it")

    def train(inner: Any, X: Any, y: Any, number: int) -> Any:
        child = None if seed is None else int(np.random.SeedSequence([seed, 1, number]).generate_state(1)[0])
        return refit(inner, X, y, sample_weight, qid=qid, random_state=child, n_jobs=n_jobs, params=params)

    return _naming_the_model(
        model, lambda: rewrap(RefitInputs(copied(X), copied(y), sample_weight, seed, n_jobs, train))
    )


def with_params(model: Any, params: Any) -> tuple[Any, Mapping[str, Any] | None]:
    """Return the model and a mapping of parameters for refits; parameters of an estimator go into the model itself."""
    from collections.abc import Mapping

    if params is None or isinstance(params, Mapping):
        return model, params
    return restored(model, params), None


def restored(model: Any, params: Any) -> Any:
    """Return a copy of a model with the hyper-parameters that its file did not keep.

    Parameters
    ----------
    model : Booster
    params : mapping or estimator
        Names and values, or an unfitted estimator.

    Raises
    ------
    UnsupportedModelError
        Files of such models keep their hyper-parameters.
    RowsError
        A hyper-parameter does not exist, or the trees show that it had another value.
    """
    restored_model = plugin_manager().hook.debias_restore(model=model, params=params)
    if restored_model is None:
        raise UnsupportedModelError(
            f"{with_article(type(model).__name__)} keeps its hyper-parameters in its file: leave params out. To refit "
            "it with other hyper-parameters, pass refits=debias.Refits(params={...}) to debias.score"
        )
    return restored_model


def _refit_trees(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: NDArray[np.float64] | None,
    qid: Any,
    seed: int | None,
    n_jobs: int | None,
    params: Mapping[str, Any] | None,
) -> Any:
    weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    X = _with_categories(model, X)
    query = encode_queries(qid, trees_of(model), np.shape(y)[0], several=False) if qid is not None else None
    hook = plugin_manager().hook.debias_refit
    if query is not None:
        X, y, weight, query = _by_query(X, y, weight, query)
        hook = _hook_with_queries()
    passed: dict[str, Any] = {"sample_weight": weight, "seed": seed, "params": params, "n_jobs": n_jobs, "qid": query}
    refitted = _naming_the_model(model, lambda: hook(model=model, X=X, y=y, **passed))
    if refitted is None:
        kind, with_queries = type(model), "" if query is None else " with queries"
        raise UnsupportedModelError(
            f"no adapter can refit a {kind.__module__}.{kind.__qualname__}{with_queries}. A refit needs the fitted "
            "model of a library that debias can train with, not a file or a conversion of it"
        )
    return refitted


def _with_categories(model: Any, X: Any) -> Any:
    """Return a pandas frame with the labels of the model's categories as categories, as in training.

    Rows of a CSV file have texts and whole numbers in their place, which libraries refuse, or take for numbers.
    """
    if not (hasattr(X, "columns") and hasattr(X, "dtypes") and hasattr(X, "assign")):
        return X
    plain = [name for name, dtype in X.dtypes.items() if str(dtype) != "category"]
    if not plain or not X.columns.is_unique:
        return X
    import pandas as pd

    try:
        ensemble = trees_of(model)
    except DebiasError:  # the refit tells what is wrong with the model
        return X
    labels = {ensemble.feature_names[k]: known for k, known in (ensemble.category_labels or {}).items()}
    as_trained = {}
    for name in (name for name in plain if name in labels):
        known = {label: None for label in labels[name].tolist() if label is not None}  # in order
        categories = known | dict.fromkeys(X[name].dropna().unique().tolist())
        as_trained[name] = pd.Categorical(X[name], categories=list(categories))
    return X.assign(**as_trained) if as_trained else X


def _by_query(
    X: Any, y: Any, weight: NDArray[np.float64] | None, query: NDArray[np.int64]
) -> tuple[Any, Any, NDArray[np.float64] | None, NDArray[np.int64]]:
    """Return rows with those of each query together, as libraries want them; the queries keep their order."""
    refuse_weights_in_queries(weight, query)
    order = np.argsort(query, kind="stable")
    if (order == np.arange(order.size)).all():
        return X, y, weight, query
    return rows_of(X, order), np.asarray(y)[order], None if weight is None else weight[order], query[order]


def _hook_with_queries() -> HookCaller:
    """Return the hook of the adapters that train rankers: the others would forget the queries."""
    manager = plugin_manager()
    without = [each.plugin for each in manager.hook.debias_refit.get_hookimpls() if "qid" not in each.argnames]
    return manager.subset_hook_caller("debias_refit", without)


def _naming_the_model(model: Any, train: Callable[[], Any]) -> Any:
    """Train, and turn any error of the library into a RowsError that names the model."""
    try:
        return train()
    except DebiasError:
        raise
    except Exception as error:
        raise RowsError(f"this {type(model).__name__} cannot be refitted on the rows passed: {error}") from error
