"""Marginal and conditional predictive value: the loss that a feature saves (Loh and Zhou 2020, section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias import RowsError
from debias.plugin import CompositionError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.plugin import Data

    Result = tuple[NDArray[np.float64], dict[str, Any]]


@debias.plugin.data_scorer_plugin("marginal_predictive_value", unit="decrease of cross-validated loss")
def marginal_predictive_value(data: Data, *, estimator: Any = None, cv: int | str = 10) -> Result:
    """Return the loss without any feature minus the loss with this feature alone: MPV, S_0 - S_j.

    The loss is the squared error (for classes the Brier score, the squared error of the probabilities) on rows to which
    the estimators were not fitted. A feature without information scores about 0, or less because of overfitting.

    Parameters
    ----------
    estimator : scikit-learn estimator, sequence of them, or None
        The predictions of several estimators are averaged. None: a random forest and extra trees, with 100 trees and at
        least 5 rows per leaf, and histogram gradient boosting with at most 8 leaves per tree. Clones are fitted; a
        random state that is None, also in an estimator inside them, is set from the seed. Columns of categories are
        one-hot encoded.
    cv : int or "loo"
        Number of folds of the cross-validation. The seed draws the folds (stratified for classes), the same for all
        features. "loo" leaves one row out at a time, as the paper does.

    Returns
    -------
    (array of shape (n_features,), dict)
        ``details["standard_error"]`` is the standard error of the mean difference of losses over the rows, given these
        folds. ``details["loss"]`` is S_j of each feature, ``details["reference"]`` is S_0; ``details["seed"]`` is drawn
        at random if none was passed.

    Raises
    ------
    CompositionError
        `cv` is not a number of folds, or an estimator cannot be fitted or cannot predict.
    RowsError
        There are fewer rows than folds.
    """
    features = range(data.n_features)
    return _values(data, estimator, cv, sets=[[k] for k in features], reference=[], sign=1)


@debias.plugin.data_scorer_plugin("conditional_predictive_value", unit="increase of cross-validated loss")
def conditional_predictive_value(data: Data, *, estimator: Any = None, cv: int | str = 10) -> Result:
    """Return the loss with all features but this one minus the loss with all: CPV, S_-j - S, "drop column" or LOCO.

    Parameters
    ----------
    estimator, cv
        As for :func:`marginal_predictive_value`.

    Returns
    -------
    (array of shape (n_features,), dict)
        The details are the same, but ``details["loss"]`` is S_-j and ``details["reference"]`` is S.

    Raises
    ------
    CompositionError, RowsError
        As for :func:`marginal_predictive_value`.
    """
    features = list(range(data.n_features))
    sets = [[other for other in features if other != k] for k in features]
    return _values(data, estimator, cv, sets=sets, reference=features, sign=-1)


@debias.plugin.hookimpl
def debias_scorers() -> Sequence[debias.plugin.Scorer]:
    """Return both predictive values."""
    return [marginal_predictive_value, conditional_predictive_value]


def _values(
    data: Data, estimator: Any, cv: int | str, sets: list[list[int]], reference: list[int], sign: int
) -> Result:
    """Return the loss of the reference features minus the loss of each set of features, times `sign`."""
    from joblib import Parallel, delayed

    data.refuse_copies("the predictive value")
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if data.seed is None else int(data.seed)
    estimators = _estimators(data, estimator)
    target = np.eye(len(data.labels[0]))[data.labels[1]] if data.is_classification else data.numbers[:, None]
    blocks = [_encoded(column.values, column.categorical) for column in data.columns]
    folds = _folds(data, cv, seed)

    def loss(features: list[int]) -> NDArray[np.float64]:
        from threadpoolctl import threadpool_limits

        X = np.column_stack([np.empty((data.n_rows, 0)), *(blocks[k] for k in features)])
        with threadpool_limits(1):  # the fits are small and already run in parallel
            return _row_losses(X, target, data, estimators, folds, seed)

    losses = Parallel(n_jobs=data.n_jobs)(delayed(loss)(features) for features in [reference, *sets])
    base, rest = losses[0], np.array(losses[1:])
    weight = np.ones(data.n_rows) if data.weight is None else data.weight
    difference = sign * (base - rest)
    values = np.average(difference, axis=1, weights=weight)
    squares = weight**2 @ (difference - values[:, None]).T ** 2
    return values, {
        "standard_error": (np.sqrt(squares) / weight.sum()).tolist(),
        "loss": np.average(rest, axis=1, weights=weight).tolist(),
        "reference": float(np.average(base, weights=weight)),
        "estimators": [type(estimator).__name__ for estimator in estimators],
        "cv": cv,
        "seed": seed,
    }


def _row_losses(
    X: NDArray[np.float64],
    target: NDArray[np.float64],
    data: Data,
    estimators: list[Any],
    folds: list[tuple[NDArray[np.int64], NDArray[np.int64]]],
    seed: int,
) -> NDArray[np.float64]:
    """Return the loss of each row, predicted by estimators that were fitted to the other folds, shape (n_rows,)."""
    predicted = np.zeros_like(target)
    one = 1 / len(estimators)
    for number, (train, test) in enumerate(folds):
        weight = None if data.weight is None else data.weight[train]
        if X.shape[1] == 0:
            predicted[test] = np.average(target[train], axis=0, weights=weight)
            continue
        for place, estimator in enumerate(estimators):
            state = np.random.SeedSequence(seed, spawn_key=(number, place)).generate_state(1)[0]
            predicted[test] += one * _fitted_output(estimator, X, target, data, train, test, weight, int(state >> 1))
    return ((target - predicted) ** 2).sum(axis=1)


def _fitted_output(
    estimator: Any,
    X: NDArray[np.float64],
    target: NDArray[np.float64],
    data: Data,
    train: NDArray[np.int64],
    test: NDArray[np.int64],
    weight: NDArray[np.float64] | None,
    state: int,
) -> NDArray[np.float64]:
    """Fit a clone of an estimator to the training rows; return what it predicts for the test rows."""
    from sklearn.base import clone

    copy = clone(estimator)
    unset = [name for name, value in copy.get_params().items() if value is None and _is_random_state(name)]
    copy.set_params(**dict.fromkeys(unset, state))
    y = data.labels[1] if data.is_classification else target[:, 0]
    try:
        copy.fit(X[train], y[train], **({} if weight is None else {"sample_weight": weight}))
        if not data.is_classification:
            return np.asarray(copy.predict(X[test]), dtype=np.float64).reshape(-1, 1)
        output = np.zeros((test.size, target.shape[1]))
        output[:, copy.classes_] = copy.predict_proba(X[test])
    except (TypeError, ValueError, AttributeError) as error:
        raise CompositionError(
            f"{type(estimator).__name__} cannot be fitted to these rows"
            f"{'' if weight is None else ' with their weights'} and predict"
            f"{' probabilities' if data.is_classification else ''}: {error}"
        ) from error
    return output


def _is_random_state(name: str) -> bool:
    """Return whether a parameter is the random state of an estimator, or of an estimator inside it."""
    return name == "random_state" or name.endswith("__random_state")


def _estimators(data: Data, chosen: Any) -> list[Any]:
    if chosen is not None:
        return list(chosen) if isinstance(chosen, (list, tuple)) else [chosen]
    from sklearn import ensemble

    kind = "Classifier" if data.is_classification else "Regressor"
    return [
        getattr(ensemble, f"RandomForest{kind}")(min_samples_leaf=5),
        getattr(ensemble, f"ExtraTrees{kind}")(min_samples_leaf=5),
        getattr(ensemble, f"HistGradientBoosting{kind}")(max_leaf_nodes=8),
    ]


def _folds(data: Data, cv: int | str, seed: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    from sklearn.model_selection import KFold, StratifiedKFold

    if cv != "loo" and (isinstance(cv, (bool, str)) or not isinstance(cv, int) or cv < 2):
        raise CompositionError(f"cv must be a number of folds, 2 or more, or 'loo', not {cv!r}")
    n_folds = data.n_rows if cv == "loo" else int(cv)
    if data.n_rows < max(n_folds, 2):
        raise RowsError(f"{data.n_rows} rows cannot be divided into {n_folds} folds; pass cv='loo' or fewer")
    rows = np.arange(data.n_rows)
    if cv == "loo":
        return [(np.delete(rows, row), rows[row : row + 1]) for row in rows]
    generator = np.random.RandomState(seed % 2**32)
    if data.is_classification and np.bincount(data.labels[1]).min() >= n_folds:
        return list(StratifiedKFold(n_folds, shuffle=True, random_state=generator).split(rows, data.labels[1]))
    return list(KFold(n_folds, shuffle=True, random_state=generator).split(rows))


def _encoded(values: NDArray[np.float64], categorical: bool) -> NDArray[np.float64]:
    """Return a numeric column as it is, and a categorical one as one column per category; missing is all 0."""
    if not categorical:
        return values[:, None]
    return (values[:, None] == np.unique(values[~np.isnan(values)])).astype(np.float64)
