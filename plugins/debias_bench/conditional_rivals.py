"""Tests of conditional independence by others, restated from their publications, and the CFI of hidimstat.

Each returns the p-value of one column: whether the response depends on it given the others.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

N_DRAWS = 10
ARF_TREES, ARF_LEAF, ARF_ROUNDS = 10, 20, 10
"""Trees, smallest leaf and rounds of an adversarial forest: the defaults of the authors' package xplainfi."""


@dataclass(frozen=True, eq=False)
class Case:
    """A fitted model with its training rows and as many new rows.

    Parameters
    ----------
    model : object
        Fitted to the training rows.
    train, new : tuple of arrays
        X and y.
    unfitted : callable
        ``unfitted()`` returns a model of the same kind, to fit again.
    column : int
        The column to test.
    seed : int
    """

    model: Any
    train: tuple[Array, Array]
    new: tuple[Array, Array]
    unfitted: Callable[[], Any]
    column: int
    seed: int

    @property
    def rows(self) -> tuple[Array, Array]:
        """All rows, training rows first."""
        return np.vstack([self.train[0], self.new[0]]), np.concatenate([self.train[1], self.new[1]])


def gcm(case: Case) -> float:
    """Test the generalised covariance measure (Shah and Peters 2020), with out-of-bag residuals of forests."""
    from scipy.stats import norm
    from sklearn.ensemble import RandomForestRegressor

    X, y = case.rows
    others, residuals = np.delete(X, case.column, axis=1), []
    for target in (X[:, case.column], y):
        forest = RandomForestRegressor(200, min_samples_leaf=5, oob_score=True, random_state=case.seed)
        residuals.append(target - forest.fit(others, target).oob_prediction_)
    products = residuals[0] * residuals[1]
    statistic = np.sqrt(products.size) * products.mean() / products.std()
    return float(2 * norm.sf(abs(statistic)))


def cfi(case: Case) -> float:
    """Return the p-value of hidimstat's conditional feature importance (Chamma et al. 2023), with its defaults."""
    from hidimstat import CFI

    importance = CFI(case.model, random_state=case.seed)
    importance.fit_importance(*case.new)
    return float(importance.pvalues_[case.column])


def carfi(case: Case) -> float:
    """Test conditional feature importance with draws from an adversarial random forest (cARFi, Blesch et al. 2025).

    One-sided t-test over the new rows of what the squared error grows by.
    """
    from scipy.stats import ttest_1samp

    rng = np.random.default_rng(case.seed)
    X, y = case.new
    leaves = Leaves.of(case.train[0], rng)
    before, grown = (y - case.model.predict(X)) ** 2, np.zeros(y.size)
    for values in leaves.draws(X, case.column, N_DRAWS, rng):
        changed = X.copy()
        changed[:, case.column] = values
        grown += (y - case.model.predict(changed)) ** 2 - before
    return float(ttest_1samp(grown, 0.0, alternative="greater").pvalue) if grown.any() else 1.0


def semi_knockoffs(case: Case, regression: Callable[[int], Any]) -> float:
    """Test by semi-knockoffs (Reyero-Lobo et al. 2026): the column drawn without and with knowledge of the response.

    The model and both regressions are fitted to all rows. Draws are predictions with permuted residuals, and Wilcoxon's
    one-sided signed-rank test compares the squared errors.
    """
    from scipy.stats import wilcoxon

    rng = np.random.default_rng(case.seed)
    X, y = case.rows
    model = case.unfitted().fit(X, y)
    column, others = X[:, case.column], np.delete(X, case.column, axis=1)
    losses = []
    for known in (others, np.column_stack([others, y])):
        predicted = regression(case.seed).fit(known, column).predict(known)
        drawn = X.copy()
        drawn[:, case.column] = predicted + rng.permutation(column - predicted)
        losses.append((y - model.predict(drawn)) ** 2)
    return float(wilcoxon(*losses, alternative="greater").pvalue)


def ridge(seed: int) -> Any:
    """Return the ridge regression of the authors of semi-knockoffs."""
    from sklearn.linear_model import RidgeCV

    return RidgeCV(alphas=np.logspace(-3, 3, 10), cv=5)


def boosting(seed: int) -> Any:
    """Return their gradient boosting."""
    from sklearn.ensemble import GradientBoostingRegressor

    return GradientBoostingRegressor(n_estimators=200, max_depth=3, random_state=seed)


@dataclass(frozen=True, eq=False)
class Leaves:
    """The leaves of an adversarial random forest (Watson et al. 2023), in which columns are nearly independent.

    Parameters
    ----------
    share : array of shape (n_leaves,)
        Share of the rows in the leaf.
    low, high : arrays of shape (n_leaves, n_columns)
        The box of the leaf.
    mean, deviation : arrays of shape (n_leaves, n_columns)
        Of the rows in it.
    """

    share: Array
    low: Array
    high: Array
    mean: Array
    deviation: Array

    @classmethod
    def of(cls, X: Array, rng: np.random.Generator) -> Leaves:
        """Fit the forest, and describe its leaves."""
        forest = _adversarial_forest(X, rng)
        parts = [_boxes(each.tree_, X.shape[1]) for each in forest.estimators_]
        nodes = forest.apply(X)
        share, low, high, mean, deviation = [], [], [], [], []
        for tree, boxes in enumerate(parts):
            for leaf in np.unique(nodes[:, tree]):
                rows = X[nodes[:, tree] == leaf]
                if len(rows) < 2:
                    continue
                share.append(len(rows) / len(X))
                low.append(boxes[0][leaf])
                high.append(boxes[1][leaf])
                mean.append(rows.mean(axis=0))
                deviation.append(rows.std(axis=0, ddof=1))
        return cls(np.array(share), np.array(low), np.array(high), np.array(mean), np.array(deviation))

    def draws(self, X: Array, column: int, n_draws: int, rng: np.random.Generator) -> Array:
        """Return draws of a column given the other columns, shape (n_draws, n_rows)."""
        from scipy.stats import truncnorm

        others = np.delete(np.arange(X.shape[1]), column)
        deviation = np.maximum(self.deviation, 1e-9)
        low, high = (self.low - self.mean) / deviation, (self.high - self.mean) / deviation
        log_weight = np.tile(np.log(self.share), (len(X), 1))
        for k in others:
            log_weight += truncnorm.logpdf(X[:, [k]], low[:, k], high[:, k], loc=self.mean[:, k], scale=deviation[:, k])
        log_weight -= log_weight.max(axis=1, keepdims=True)
        cumulative = np.cumsum(np.exp(log_weight), axis=1)
        drawn = np.empty((n_draws, len(X)))
        for draw in drawn:
            point = rng.random(len(X)) * cumulative[:, -1]
            leaf = np.minimum((cumulative < point[:, None]).sum(axis=1), self.share.size - 1)
            draw[:] = truncnorm.rvs(
                low[leaf, column],
                high[leaf, column],
                loc=self.mean[leaf, column],
                scale=deviation[leaf, column],
                random_state=rng,
            )
        return drawn


def _adversarial_forest(X: Array, rng: np.random.Generator) -> Any:
    """Return the forest that tells rows from rows with independent columns in its own leaves, until it cannot."""
    from sklearn.ensemble import RandomForestClassifier

    n = len(X)
    label = np.repeat([0, 1], n)
    synthetic, last, accuracy = rng.permuted(X, axis=0), None, np.inf
    for _ in range(ARF_ROUNDS):
        forest = RandomForestClassifier(
            ARF_TREES, min_samples_leaf=ARF_LEAF, oob_score=True, random_state=int(rng.integers(2**31))
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of ten trees, some rows are out of bag in none
            forest.fit(np.vstack([X, synthetic]), label)
        if last is not None and forest.oob_score_ > accuracy:
            return last
        last, accuracy = forest, forest.oob_score_
        if accuracy <= 0.5:
            break
        synthetic = _within_leaves(X, forest.apply(X), rng)
    return last


def _within_leaves(X: Array, nodes: NDArray[np.int64], rng: np.random.Generator) -> Array:
    """Return as many rows, each with columns drawn independently from the rows of a random leaf."""
    synthetic = np.empty_like(X)
    of_row, tree = rng.integers(0, len(X), len(X)), rng.integers(0, nodes.shape[1], len(X))
    for k, (row, t) in enumerate(zip(of_row, tree, strict=True)):
        together = np.flatnonzero(nodes[:, t] == nodes[row, t])
        synthetic[k] = X[rng.choice(together, X.shape[1]), np.arange(X.shape[1])]
    return synthetic


def _boxes(tree: Any, n_columns: int) -> tuple[Array, Array]:
    """Return the lower and upper bounds of every node."""
    low, high = np.full((tree.node_count, n_columns), -np.inf), np.full((tree.node_count, n_columns), np.inf)
    for node in range(tree.node_count):  # children have larger numbers
        left, right, feature = tree.children_left[node], tree.children_right[node], tree.feature[node]
        if left < 0:
            continue
        for child in (left, right):
            low[child], high[child] = low[node], high[node]
        high[left, feature] = low[right, feature] = tree.threshold[node]
    return low, high
