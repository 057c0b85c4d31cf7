"""OOBForest: in-bag rows set the thresholds, out-of-bag rows choose the features (Deng, Runger and Tuv 2011, sec. 3).

A feature with many values finds a threshold that looks good more easily than one with few values. In an OOBForest it
gains nothing by this: rows to which no threshold was fitted decide which feature splits a node, and importances are
sums over these rows too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import column_or_1d, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

from debias_plugins.estimators import validate_data
from debias_plugins.oob_forest.base import BaseOOBForest, OOBTree, scaled

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["OOBForestClassifier", "OOBForestRegressor", "OOBTree"]

LARGEST_Y = 1e150
"""Largest size of y; its reciprocal is the smallest range. Beyond these, importances overflow or underflow."""


class OOBForestClassifier(ClassifierMixin, BaseOOBForest):  # type: ignore[misc]
    """A random forest that chooses split features by the Gini decrease of out-of-bag rows.

    At each node `max_features` features are drawn, and each gets its best threshold on the in-bag rows. The node is
    split on the feature with the largest decrease of the Gini impurity of the node's out-of-bag rows. If no split has
    out-of-bag rows on both sides and decreases their impurity, the in-bag rows choose, and the node adds nothing to the
    importances.

    Parameters
    ----------
    n_estimators : int
    max_features : {"sqrt", "log2"}, int, float or None
        Number or share of features drawn at each node. Constant features do not count.
    max_depth : int or None
    min_samples_leaf : int
        Minimum number of distinct in-bag rows in a leaf.
    max_samples : int, float or None
        Number or share of rows drawn for each bag, with replacement. None: as many as there are rows.
    class_weight : dict, "balanced" or None
    random_state : int, RandomState or None
    n_jobs : int or None
        Number of threads. The forest does not depend on it.
    warm_start : bool
        Whether `fit` keeps the existing trees and adds more, up to `n_estimators`, on the same data.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    feature_importances_ : array of shape (n_features,)
        Decrease of the Gini impurity of out-of-bag rows at the splits on a feature, averaged over trees. They are not
        scaled to sum 1. They are never negative: noise has a small positive importance, which does not grow with its
        number of values.
    oob_score_ : float
        Accuracy on out-of-bag rows. These rows chose the split features, so it is too high; report a cross-validated
        accuracy.
    oob_decision_function_ : array of shape (n_rows, n_classes)
        Mean class fractions of the trees for which the row was out of bag; NaN for rows that were in every bag.
    trees_ : list of OOBTree
    n_features_in_ : int

    Notes
    -----
    Sample and class weights multiply the weight of in-bag and out-of-bag rows. All rows are drawn with equal
    probability. Missing values go to the side that is better in-bag; if no in-bag row of the node has a missing value,
    they go to the side with more rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from debias_plugins.oob_forest.forests import OOBForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = OOBForestClassifier(random_state=0).fit(X, y)
    >>> int(forest.feature_importances_.argmin())
    1
    """

    classes_: NDArray[Any]

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        max_features: Any = "sqrt",
        max_depth: int | None = None,
        min_samples_leaf: int = 1,
        max_samples: Any = None,
        class_weight: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        warm_start: bool = False,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_features = max_features
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.max_samples = max_samples
        self.class_weight = class_weight
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.warm_start = warm_start

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow the forest."""
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_all_finite="allow-nan")
        check_classification_targets(y)
        classes, codes = np.unique(column_or_1d(y, warn=True), return_inverse=True)
        if self.warm_start and hasattr(self, "trees_") and not np.array_equal(classes, self.classes_):
            raise ValueError("warm_start adds trees for the same classes, but y has other classes")
        weight = None if sample_weight is None else _weights(sample_weight, X)
        factor = None
        if self.class_weight is not None:
            factor = _class_factor(self.class_weight, classes, codes, y, weight)
        one_hot = np.eye(classes.size)[codes]
        # Two one-hot columns are 1 minus each other, so one of them, times sqrt(2), has the same sums of squares.
        response = np.sqrt(2.0) * one_hot[:, 1:] if classes.size == 2 else one_hot
        self.classes_ = classes
        self._class_factor = factor
        by_row = None if factor is None else factor[codes]
        mean = self._grow(X, one_hot, np.ascontiguousarray(response - response.mean(axis=0)), weight, by_row)
        self.oob_decision_function_ = mean
        seen = ~np.isnan(mean[:, 0])
        of_seen = None if weight is None else scaled(weight)[0][seen]
        scored = seen.any() and (of_seen is None or of_seen.any())
        predicted = mean[seen].argmax(axis=1)
        self.oob_score_ = float(accuracy_score(codes[seen], predicted, sample_weight=of_seen)) if scored else np.nan
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the mean class fractions of the trees, shape (n_rows, n_classes)."""
        return self._mean(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class with the largest mean fraction."""
        mean = self.predict_proba(X)  # raises NotFittedError before classes_ is read
        return self.classes_[mean.argmax(axis=1)]


class OOBForestRegressor(RegressorMixin, BaseOOBForest):  # type: ignore[misc]
    """A random forest that chooses split features by the decrease of the variance of out-of-bag rows.

    Parameters
    ----------
    n_estimators, max_features, max_depth, min_samples_leaf, max_samples, random_state, n_jobs, warm_start
        As for :class:`OOBForestClassifier`. The default of `max_features` is all features.

    Attributes
    ----------
    feature_importances_, trees_, n_features_in_
        As for :class:`OOBForestClassifier`, with the variance instead of the Gini impurity.
    oob_score_ : float
        R squared on out-of-bag rows. It is too high, because these rows chose the split features.
    oob_prediction_ : array of shape (n_rows,)
        Mean prediction of the trees for which the row was out of bag; NaN for rows that were in every bag.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from debias_plugins.oob_forest.forests import OOBForestRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> forest = OOBForestRegressor(30, random_state=0).fit(X, y)
    >>> sorted(int(k) for k in forest.feature_importances_.argsort()[-2:])  # bmi and s5
    [2, 8]
    """

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        max_features: Any = 1.0,
        max_depth: int | None = None,
        min_samples_leaf: int = 1,
        max_samples: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        warm_start: bool = False,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_features = max_features
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.max_samples = max_samples
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.warm_start = warm_start

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow the forest."""
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_all_finite="allow-nan", y_numeric=True)
        y = column_or_1d(y, warn=True).astype(np.float64)
        _refuse_out_of_range(y)
        weight = None if sample_weight is None else _weights(sample_weight, X)
        self._class_factor = None
        mean = self._grow(X, y[:, None], (y - y.mean())[:, None], weight, None)[:, 0]
        self.oob_prediction_ = mean
        seen = ~np.isnan(mean)
        of_seen = None if weight is None else scaled(weight)[0][seen]
        has_score = seen.sum() > 1 and (of_seen is None or of_seen.any())
        unit = np.ldexp(1.0, scaled(y)[1])
        both = y[seen] / unit, mean[seen] / unit
        self.oob_score_ = float(r2_score(*both, sample_weight=of_seen)) if has_score else np.nan
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the mean prediction of the trees, shape (n_rows,)."""
        return self._mean(X)[:, 0]


def _class_factor(
    class_weight: Any,
    classes: NDArray[Any],
    codes: NDArray[np.intp],
    y: NDArray[Any],
    weight: NDArray[np.float64] | None,
) -> NDArray[np.float64]:
    """Return the weight of each class; "balanced" classes have the same sum of weights."""
    if not isinstance(class_weight, str) or class_weight != "balanced":
        return np.asarray(compute_class_weight(class_weight, classes=classes, y=y), dtype=np.float64)
    by_class = np.bincount(codes, weight)  # scikit-learn's function takes weights since 1.6 only
    factor: NDArray[np.float64] = by_class.sum() / (classes.size * by_class)
    return factor


def _weights(sample_weight: Any, X: NDArray[np.float64]) -> NDArray[np.float64]:
    weight: NDArray[np.float64] = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (weight < 0).any():
        raise ValueError("Negative values in data passed to `sample_weight`")
    if not weight.any():
        raise ValueError("sample_weight is 0 for all rows")
    largest = float(weight.max())
    if not np.isfinite(largest * len(weight)):
        raise ValueError(
            f"the largest sample_weight is {largest:.3g}, and a float64 cannot hold sums of weights. Divide all "
            "weights by it; the forest stays the same"
        )
    return weight


def _refuse_out_of_range(y: NDArray[np.float64]) -> None:
    """Raise a ValueError if the square of y is outside the range of floats."""
    largest = float(np.abs(y).max())
    spread = float(np.ptp(y))
    if largest > LARGEST_Y or 0 < spread < 1 / LARGEST_Y:
        raise ValueError(
            f"y reaches {largest:.3g} and spans {spread:.3g}. Importances grow with its square, which is outside the "
            "range of floats: fit in another unit"
        )
