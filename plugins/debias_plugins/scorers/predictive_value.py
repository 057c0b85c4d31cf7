"""Marginal and conditional predictive value: the loss that a feature saves (Loh and Zhou 2020, section 5).

With ``population=True`` they have intervals for the population: for what a feature saves in models that are trained on
other rows (leave one covariate out, Lei et al. 2018; VIMP, Williamson et al. 2023).
"""

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

LEAST_COPIES = 10
"""At least so many permuted columns show how much the score of a feature of no use varies."""
PERMUTED = 1
"""Third number of the seeds of permutations; seeds of fits have two."""


@debias.plugin.data_scorer_plugin("marginal_predictive_value", unit="decrease of cross-validated loss")
def marginal_predictive_value(
    data: Data, *, estimator: Any = None, cv: int | str = 10, population: bool = False
) -> Result:
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
    population : bool
        Whether the scores have standard errors for the population, so that :meth:`debias.Scores.interval` has
        intervals, and one-sided p-values, for independent rows. It takes twice as many fits or more. The score
        estimates what the feature saves on new rows, in models trained on as many new rows as those of each fold.

    Returns
    -------
    (array of shape (n_features,), dict)
        ``details["standard_error"]`` is the standard error of the mean difference of losses over the rows, given these
        folds; it is too small for a feature that saves little. With `population` the scores have one that is not, z
        and p-values. ``details["loss"]`` is S_j of each feature, ``details["reference"]`` is S_0; ``details["seed"]``
        is drawn at random if none was passed.

    Raises
    ------
    CompositionError
        `cv` is not a number of folds, or an estimator cannot be fitted or cannot predict.
    RowsError
        There are fewer rows than folds.
    """
    features = range(data.n_features)
    return _values(data, estimator, cv, population, sets=[[k] for k in features], reference=[], sign=1)


@debias.plugin.data_scorer_plugin("conditional_predictive_value", unit="increase of cross-validated loss")
def conditional_predictive_value(
    data: Data, *, estimator: Any = None, cv: int | str = 10, population: bool = False
) -> Result:
    """Return the loss with all features but this one minus the loss with all: CPV, S_-j - S, "drop column" or LOCO.

    Parameters
    ----------
    estimator, cv, population
        As for :func:`marginal_predictive_value`.

    Returns
    -------
    (array of shape (n_features,), dict)
        The details are the same, but ``details["loss"]`` is S_-j and ``details["reference"]`` is S.

    Raises
    ------
    CompositionError, RowsError
        As for :func:`marginal_predictive_value`.

    Notes
    -----
    The losses with and without a feature of no use are nearly equal on every row, so the variance of their difference
    tends to 0 faster than 1 / n, and its estimate is too small beside what the fits differ by. Williamson et al. (2023)
    therefore measure the two losses on different halves of the rows. Here all rows are used for both, and permuted
    columns, which are of no use, show how much scores vary without use: twice the mean of their squared scores and of
    their squared standard errors is added to the variance. This doubles the number of fits, or more for fewer than ten
    features. The variance of the paired differences is multiplied by 1 + K / (K - 1) for K folds, because other
    training rows give other models (Nadeau and Bengio 2003). docs/intervals.md has the coverage, also of the halves.
    """
    features = list(range(data.n_features))
    sets = [[other for other in features if other != k] for k in features]
    return _values(data, estimator, cv, population, sets=sets, reference=features, sign=-1)


@debias.plugin.hookimpl
def debias_scorers() -> Sequence[debias.plugin.Scorer]:
    """Return both predictive values."""
    return [marginal_predictive_value, conditional_predictive_value]


def _values(
    data: Data,
    estimator: Any,
    cv: int | str,
    population: bool,
    sets: list[list[int]],
    reference: list[int],
    sign: int,
) -> Result:
    """Return the loss of the reference features minus the loss of each set of features, times `sign`."""
    from joblib import Parallel, delayed

    if not isinstance(population, (bool, np.bool_)):
        raise CompositionError(f"population must be True or False, not {population!r}")
    data.refuse_copies("the predictive value")
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if data.seed is None else int(data.seed)
    estimators = _estimators(data, estimator)
    target = np.eye(len(data.labels[0]))[data.labels[1]] if data.is_classification else data.numbers[:, None]
    blocks = [_encoded(column.values, column.categorical) for column in data.columns]
    folds = _folds(data, cv, seed)

    # A permuted column of one value is the column itself, and would show that scores do not vary.
    varying = [k for k, block in enumerate(blocks) if _varies(block)] or list(range(data.n_features))
    n_copies = -(-LEAST_COPIES // len(varying)) if population else 0

    def loss(features: list[int], permuted: int | None = None, copy: int = 0) -> NDArray[np.float64]:
        from threadpoolctl import threadpool_limits

        of_features = [blocks[k] for k in features]
        if permuted is not None:
            rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(permuted, copy, PERMUTED)))
            place = features.index(permuted)
            of_features[place] = rng.permutation(of_features[place])
        X = np.column_stack([np.empty((data.n_rows, 0)), *of_features])
        with threadpool_limits(1):  # the fits are small and already run in parallel
            return _row_losses(X, target, data, estimators, folds, seed)

    fits: list[tuple[Any, ...]] = [(features,) for features in [reference, *sets]]
    fits += [(reference or sets[k], k, copy) for k in varying for copy in range(n_copies)]
    losses = Parallel(n_jobs=data.n_jobs)(delayed(loss)(*each) for each in fits)
    base, rest = losses[0], np.array(losses[1 : 1 + len(sets)])
    weight = np.ones(data.n_rows) if data.weight is None else data.weight
    difference = sign * (base - rest)
    values = np.average(difference, axis=1, weights=weight)
    paired = _standard_error(difference, weight)
    of_population = {}
    if population:
        without = np.array([base if sign == 1 else rest[k] for k in varying for _ in range(n_copies)])
        of_no_use = without - np.array(losses[1 + len(sets) :])
        of_population = _of_population(values, paired, of_no_use, weight, len(folds))
    return values, {
        "standard_error": paired.tolist(),
        "loss": np.average(rest, axis=1, weights=weight).tolist(),
        "reference": float(np.average(base, weights=weight)),
        "estimators": [type(estimator).__name__ for estimator in estimators],
        "cv": cv,
        "seed": seed,
        **of_population,
    }


def _varies(block: NDArray[np.float64]) -> bool:
    """Return whether the rows of an encoded column differ; missing values are one value."""
    first = block[:1]
    return not bool(((block == first) | (np.isnan(block) & np.isnan(first))).all())


def _standard_error(values: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the standard errors of weighted means over rows, shape (n_means,)."""
    deviation = weight * (values - np.average(values, axis=1, weights=weight)[:, None])
    error: NDArray[np.float64] = np.sqrt((deviation**2).sum(axis=1)) / weight.sum()
    return error


def _of_population(
    value: NDArray[np.float64],
    paired: NDArray[np.float64],
    of_no_use: NDArray[np.float64],
    weight: NDArray[np.float64],
    n_folds: int,
) -> dict[str, Any]:
    """Return standard errors for the population, z and p-values, which become fields of the scores, and a warning.

    Parameters
    ----------
    value : array of shape (n_features,)
    paired : array of shape (n_features,)
        Standard errors of the paired differences of losses.
    of_no_use : array of shape (n_copies, n_rows)
        What each permuted column saves on each row.
    weight : array of shape (n_rows,)
    n_folds : int
    """
    from scipy.special import ndtr

    mean, error = np.average(of_no_use, axis=1, weights=weight), _standard_error(of_no_use, weight)
    of_training = 1 + n_folds / (n_folds - 1)
    total = np.sqrt(of_training * paired**2 + 2 * (mean**2 + error**2).mean())
    z = np.divide(value, total, out=np.zeros_like(value), where=total > 0)
    found: dict[str, Any] = {"standard_error": total, "z": z, "p_value": ndtr(-z)}
    if mean.mean() < 0 and (4 * (mean**2).mean() > total**2).all():
        found["warnings"] = [
            f"a permuted column, which has no use, adds {-mean.mean():.3g} to the loss of these estimators: they "
            "overfit. Most of the standard errors for the population is from this. Pass an estimator that overfits "
            "less, such as one with larger leaves"
        ]
    return found


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
