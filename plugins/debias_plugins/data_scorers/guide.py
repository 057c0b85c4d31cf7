"""GUIDE importance: chi-square tests at the nodes of a shallow tree, adjusted by permuted responses.

The source is Loh and Zhou (2020), sections 2, 6 and 7; for classes, Loh (2009).

>>> import debias
>>> from sklearn.datasets import load_diabetes
>>> X, y = load_diabetes(return_X_y=True, as_frame=True)
>>> scores = debias.score(None, X, y, "guide", replicates=50, random_state=0)
>>> sorted(X.columns[scores.selected])
['bmi', 'bp', 's3', 's4', 's5', 's6']
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias import RowsError
from debias.parallel import allowed
from debias.plugin import CompositionError
from debias_plugins.data_scorers.guide_threshold import check_alpha, critical_value, decide

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Result = tuple[NDArray[np.float64], dict[str, Any]]


MOST_CLASSES = 1000
"""A contingency table has one cell per class and group, so the number of classes is limited."""


@debias.plugin.data_scorer_plugin("guide", unit="ratio to its mean for noise")
def guide(
    data: debias.plugin.Data,
    *,
    adjusted: bool = True,
    replicates: int = 300,
    alpha: float = 0.05,
    task: str = "auto",
    levels: int = 4,
    min_node_size: int = 5,
) -> Result:
    """Return the bias-adjusted importance of GUIDE, with its threshold (Loh and Zhou 2020, eq. 1 and 2, section 6).

    The tree has four levels of splits. At each node a chi-square test compares every feature with the sign of the
    residuals (or with the class). If no feature is significant, pairs of features are tested for interaction. The best
    feature splits the node. The unadjusted score of a feature is the sum over split nodes of sqrt(n_t) times the
    chi-square quantile (1 degree of freedom) of its p-value. The importance is the unadjusted score divided by its mean
    for permuted responses. For noise it is 1 on average, for any type, number of values and share of missing values.

    Parameters
    ----------
    data : Data of (n_rows, n_features)
        Numbers and ordered categories are ordinal; text and other categories are categorical. Missing values are
        allowed.
    adjusted : bool
        False: the unadjusted scores of eq. 1, without permutations.
    replicates : int
        Number of permuted responses.
    alpha : float
        If no feature matters, the probability to select one or more features is at most alpha. It needs
        ``replicates >= 1 / alpha - 1``.
    task : {"auto", "classification", "regression"}
        "auto": the task of the model, if there is one; otherwise classification for labels, booleans, and whole numbers
        with at most 20 distinct values.
    levels : int
        Number of levels of splits.
    min_node_size : int
        Minimum number of rows in a child. The paper does not give it.

    Returns
    -------
    (array of shape (n_features,), dict)
        The scores, and these details. ``critical``: the level that the largest unadjusted score of a permuted response
        exceeds with probability alpha. ``selected``: the m features with the largest scores, where m is the number of
        unadjusted scores above ``critical``. ``threshold``: half-way between the m-th and the next largest score.
        Lists of n_features: ``unadjusted`` scores; ``null_mean``, their mean for permuted responses; ``normalized``,
        the scores divided by the threshold. ``task``.

    Raises
    ------
    RowsError
        y is constant or has one class, there are fewer than ``2 min_node_size`` rows, or there are sample weights.
    CompositionError
        An option is out of range.

    Notes
    -----
    The paper leaves some choices open; they are made as follows. If an ordinal feature has at most m distinct values in
    a node, each value is a group; otherwise each quantile is cut at the nearest place where the value changes. A
    feature with one value in a node has p = 1 and is in no pair. Splits of ordinal features try missing values on
    either side, and missing against all other values. Splits of categorical features cut the levels in the order of
    their means (with several classes, of the share of each class in turn), by squared error or Gini impurity. If the
    chosen feature has no split with `min_node_size` rows in each child, the node is terminal. `critical` is the order
    statistic that makes the level exact, ceil((1 - alpha) (B + 1)). If m is 0 or all features, the threshold is the
    largest or smallest score times `critical` divided by its unadjusted score. If the score of a feature is 0 under all
    permutations, as for a constant, its importance is 0.
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


@debias.plugin.hookimpl
def debias_scorers() -> Sequence[debias.plugin.Scorer]:
    """Return GUIDE."""
    return [guide]


def _check(data: debias.plugin.Data, replicates: int, alpha: float, task: str, levels: int, min_node_size: int) -> None:
    if task not in ("auto", "classification", "regression"):
        raise CompositionError(f"guide: task={task!r} is not one of 'auto', 'classification', 'regression'")
    whole = (("replicates", replicates, 1), ("levels", levels, 1), ("min_node_size", min_node_size, 1))
    for name, number, least in whole:
        if isinstance(number, bool) or not isinstance(number, int) or number < least:
            raise CompositionError(f"guide: {name}={number!r} must be a whole number of {least} or more")
    check_alpha("guide", alpha, replicates)
    data.refuse_weights("guide")
    if data.n_rows < 2 * min_node_size:
        raise RowsError(f"guide needs {2 * min_node_size} rows for one split, but there are {data.n_rows}")


def _response(data: debias.plugin.Data, is_classification: bool) -> tuple[NDArray[np.float64], int]:
    """Return the numbers and 0, or the class codes and the number of classes."""
    if not is_classification:
        y = data.numbers
        if np.ptp(y) == 0:
            raise RowsError(f"y is {y[0]:g} in every row: there is nothing to explain")
        return y, 0
    classes, codes = data.labels
    if len(classes) < 2:
        raise RowsError(f"y has one class only, {classes[0]}: there is nothing to explain")
    if len(classes) > MOST_CLASSES:
        raise RowsError(f"y has {len(classes)} classes; if they are numbers, pass task='regression', else merge some")
    return codes.astype(np.float64), len(classes)


def _unadjusted(
    data: debias.plugin.Data, responses: list[NDArray[np.float64]], n_classes: int, levels: int, min_node_size: int
) -> NDArray[np.float64]:
    """Return the scores of eq. 1 for each response, shape (n_responses, n_features)."""
    from debias_plugins.data_scorers.kernels.guide import unadjusted

    codes = np.array([column.codes for column in data.columns], dtype=np.int32)
    n_values = np.array([len(np.unique(column.values[~np.isnan(column.values)])) for column in data.columns])
    categorical = np.array([column.categorical for column in data.columns])
    sorted_rows = np.argsort(codes, axis=1, kind="stable").astype(np.int32)

    def scores(y: NDArray[np.float64]) -> NDArray[np.float64]:
        found = unadjusted(codes, n_values, categorical, sorted_rows, y, n_classes, levels, min_node_size)
        return np.asarray(found)

    with allowed(data.n_jobs) as threads:
        return np.array(threads.map(scores, responses, "permutations"))
