"""GUIDE importance: chi-square tests at the nodes of a shallow tree, adjusted by permuted responses.

Loh and Zhou (2020), sections 2, 6 and 7; for classes, Loh (2009).

>>> import debias
>>> from sklearn.datasets import load_diabetes
>>> X, y = load_diabetes(return_X_y=True, as_frame=True)
>>> scores = debias.score(None, X, y, "guide", replicates=50, seed=0)
>>> sorted(X.columns[scores.selected])
['bmi', 'bp', 's3', 's4', 's5', 's6']
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias import CompositionError, RowsError
from debias_plugins.data_scorers.guide_threshold import check_alpha, critical_value, decide

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Result = tuple[NDArray[np.float64], dict[str, Any]]


MOST_CLASSES = 1000
"""Tables have a cell a class and group, and are not kept for more."""


@debias.data_scorer_plugin("guide", unit="ratio to its mean for noise")
def guide(
    data: debias.Data,
    *,
    adjusted: bool = True,
    replicates: int = 300,
    alpha: float = 0.05,
    task: str = "auto",
    levels: int = 4,
    min_node_size: int = 5,
) -> Result:
    """Bias-adjusted importance of GUIDE, with its threshold (Loh and Zhou 2020, eq. 1 and 2, section 6).

    At each node of a tree of four levels of splits, every feature is tested against the sign of the residuals (or the
    class) by chi-square; where none is significant, pairs are tested for interaction; the best feature splits the node.
    A feature's unadjusted score is the sum over split nodes of sqrt(n_t) times the chi-square quantile (1 degree of
    freedom) of its p-value. Its importance is that over the mean of the same score for permuted responses: 1 on average
    for noise, whatever its type, number of values and share of missing values.

    Parameters
    ----------
    data : Data of (n_rows, n_features)
        Numbers and ordered categories are ordinal, text and categories are categorical; missing values are allowed.
    adjusted : bool
        False for the unadjusted scores of eq. 1, which draw nothing.
    replicates : int
        Number of permuted responses.
    alpha : float
        If no feature matters, the probability that one or more are called important is at most this. Needs
        ``replicates >= 1 / alpha - 1``.
    task : {"auto", "classification", "regression"}
        "auto": as the model, if one is given; else classification for labels, booleans and whole numbers of at most 20
        distinct values.
    levels : int
        Levels of splits.
    min_node_size : int
        Fewest rows in a child; the paper is silent on it.

    Returns
    -------
    (array of shape (n_features,), dict)
        The scores. ``selected``: the m features with the largest scores, where m unadjusted scores exceed ``critical``,
        the level the largest unadjusted score of permuted responses exceeds with probability alpha; ``threshold``,
        half-way between the m-th and the next largest score. Beside them, lists of n_features: ``unadjusted`` scores;
        ``null_mean``, their mean for permuted responses; ``normalized``, the scores over the threshold. And ``task``.

    Raises
    ------
    RowsError
        y is constant or of one class, there are fewer than ``2 min_node_size`` rows, or sample weights.
    CompositionError
        An option is out of its range.

    Notes
    -----
    Decided where the paper is silent. An ordinal feature with at most m distinct values in a node keeps them as groups;
    otherwise each quantile is cut at the nearest place where the value changes. A feature with one value in a node has
    p = 1 and is in no pair. Splits of ordinal features try missing values on either side, and missing against the rest;
    those of categorical ones cut the levels in the order of their means (of several classes, of the share of each class
    in turn), by squared error or Gini. A node whose chosen feature has no split with `min_node_size` rows in each child
    is terminal. `critical` is the order statistic that makes the level exact, ceil((1 - alpha) (B + 1)). If m is 0 or
    all features, the threshold is the largest or smallest score, times `critical` over its unadjusted score. A feature
    whose score is 0 under all permutations, such as a constant, has importance 0.
    """
    _check(data, replicates, alpha, task, levels, min_node_size)
    is_classification = data.is_classification if task == "auto" else task == "classification"
    y, n_classes = _response(data, is_classification)
    responses = [y]
    if adjusted:
        rngs = map(np.random.default_rng, np.random.SeedSequence(data.seed).spawn(replicates))
        responses += [rng.permutation(y) for rng in rngs]
    v = _unadjusted(data, responses, n_classes, levels, min_node_size)
    details: dict[str, Any] = {"task": "classification" if is_classification else "regression"}
    if not adjusted:
        return v[0], details
    mean = v[1:].mean(axis=0)
    importance = np.divide(v[0], mean, out=np.zeros_like(mean), where=mean > 0)
    critical = critical_value(v[1:], alpha)
    important, threshold = decide(importance, v[0], critical)
    details |= {
        "unadjusted": v[0].tolist(),
        "null_mean": mean.tolist(),
        "critical": critical,
        "threshold": threshold,
        "normalized": (importance / threshold if threshold > 0 else importance).tolist(),
        "selected": important,
    }
    return importance, details


@debias.hookimpl
def debias_scorers() -> Sequence[debias.Scorer]:
    """Offer GUIDE."""
    return [guide]


def _check(data: debias.Data, replicates: int, alpha: float, task: str, levels: int, min_node_size: int) -> None:
    if task not in ("auto", "classification", "regression"):
        raise CompositionError(f"guide: task={task!r} is none of 'auto', 'classification', 'regression'")
    whole = (("replicates", replicates, 1), ("levels", levels, 1), ("min_node_size", min_node_size, 1))
    for name, number, least in whole:
        if isinstance(number, bool) or not isinstance(number, int) or number < least:
            raise CompositionError(f"guide: {name}={number!r} must be a whole number of {least} or more")
    check_alpha("guide", alpha, replicates)
    data.refuse_weights("guide")
    if data.n_rows < 2 * min_node_size:
        raise RowsError(f"guide needs {2 * min_node_size} rows to split once, but there are {data.n_rows}")


def _response(data: debias.Data, is_classification: bool) -> tuple[NDArray[np.float64], int]:
    """Return numbers and 0, or class codes and the number of classes."""
    if not is_classification:
        y = data.numbers
        if np.ptp(y) == 0:
            raise RowsError(f"y is {y[0]:g} in every row: there is nothing to explain")
        return y, 0
    classes, codes = data.labels
    if len(classes) < 2:
        raise RowsError(f"y has one class only, {classes[0]}: there is nothing to explain")
    if len(classes) > MOST_CLASSES:
        raise RowsError(f"y has {len(classes)} classes; if they are numbers, say task='regression', else merge some")
    return codes.astype(np.float64), len(classes)


def _unadjusted(
    data: debias.Data, responses: list[NDArray[np.float64]], n_classes: int, levels: int, min_node_size: int
) -> NDArray[np.float64]:
    """Return eq. 1 for each response, shape (n_responses, n_features); the coded and sorted features are shared."""
    from joblib import Parallel, delayed

    from debias_plugins.data_scorers.kernels.guide import unadjusted

    codes = np.array([column.codes for column in data.columns], dtype=np.int32)
    n_values = np.array([len(np.unique(column.values[~np.isnan(column.values)])) for column in data.columns])
    categorical = np.array([column.categorical for column in data.columns])
    sorted_rows = np.argsort(codes, axis=1, kind="stable").astype(np.int32)
    # Threads only: the compiled tree releases the interpreter, and the features are never copied.
    return np.array(
        Parallel(n_jobs=data.n_jobs, backend="threading")(
            delayed(unadjusted)(codes, n_values, categorical, sorted_rows, y, n_classes, levels, min_node_size)
            for y in responses
        )
    )
