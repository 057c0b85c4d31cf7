"""Means of targets given other columns: a ridge regression on splines and products, and a forest of what it leaves.

A forest alone smooths a relation, and its error then looks like a signal. The ridge regression takes the part that is a
sum of smooth curves and products of two columns, and the forest the rest. The share of the forest is chosen out of bag,
so it is small if there is no rest. The prediction of a row on which the regressions were fitted does not use the row.
It is left out of the ridge regression by formula, and in the forest only trees that did not see it predict it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Columns = tuple[Array, Array]

PENALTIES = 10.0 ** np.arange(-4, 3)
"""Ridge penalties for standardised columns, per row."""
N_TREES = 40
"""Trees of a forest. Each is grown on a random half of the rows, so about 20 did not see a row."""
LEAF = 5
"""Least number of rows in a leaf of the forest."""
COLUMNS_OF_SPLIT = 8
"""A split is the best of this many columns, or of a third of them if there are more."""
MOST_OF_FOREST = 2.0
"""Largest factor of the forest's prediction. A forest smooths, so the best factor is often above 1."""
ROWS_OF_TREE = 2000
"""A tree is grown on at most this many rows."""


@dataclass(frozen=True, eq=False)
class ConditionalMean:
    """A fitted regression of several targets.

    Attributes
    ----------
    centre, scale : arrays of shape (n_columns,)
    coefficients : array of shape (n_columns, n_targets)
    intercept : array of shape (n_targets,)
    forest : Forest
        Fitted to the residuals of the ridge regression.
    share : array of shape (n_targets,)
        Factor of the forest's prediction.
    unseen : array of shape (n_rows, n_targets)
        The prediction of each row on which it was fitted, without this row.
    """

    centre: Array
    scale: Array
    coefficients: Array
    intercept: Array
    forest: Forest
    share: Array
    unseen: Array

    @classmethod
    def fit(cls, columns: Columns, targets: Array, weight: Array, seed: int, beside: Array | None = None) -> Any:
        """Fit to rows.

        Parameters
        ----------
        columns : (array of shape (n_rows, n_plain), array of shape (n_rows, n_curves))
        targets : array of shape (n_rows, n_targets)
        weight : array of shape (n_rows,)
        seed : int
        beside : array of shape (n_rows, n_others), optional
            Other targets of the forest, which are not predicted but shape its leaves.
        """
        all_columns = np.column_stack(columns)
        centre = np.average(all_columns, axis=0, weights=weight)
        scale = all_columns.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        coefficients, intercept, left = _ridge((all_columns - centre) / scale, targets, weight)
        forest = Forest.fit(columns[0], left if beside is None else np.column_stack([left, beside]), weight, seed)
        guess = forest.unseen[:, : targets.shape[1]]
        # The best factor of the forest's guess, out of bag: 0 if it only follows noise.
        power = weight @ guess**2
        share = np.divide(weight @ (guess * left), power, out=np.zeros_like(power), where=power > 0)
        share = np.clip(share, 0.0, MOST_OF_FOREST)
        return cls(centre, scale, coefficients, intercept, forest, share, targets - left + share * guess)

    def predict(self, columns: Columns) -> Array:
        """Return the means of other rows, shape (n_rows, n_targets)."""
        linear = self.intercept + ((np.column_stack(columns) - self.centre) / self.scale) @ self.coefficients
        return np.asarray(linear + self.share * self.forest.predict(columns[0])[:, : self.share.size])


@dataclass(frozen=True, eq=False)
class Forest:
    """A random forest of several targets.

    Attributes
    ----------
    trees : list of DecisionTreeRegressor
        Empty if there are no columns, or no targets. Their targets are centred and have size 1.
    mean, size : arrays of shape (n_targets,)
    out : array of bool of shape (n_trees, n_rows)
        Whether a tree did not see a row on which the forest was fitted.
    unseen : array of shape (n_rows, n_targets)
        Mean over the trees that did not see the row.
    """

    trees: list[Any]
    mean: Array
    size: Array
    out: NDArray[np.bool_]
    unseen: Array

    @classmethod
    def fit(cls, columns: Array, targets: Array, weight: Array, seed: int) -> Forest:
        """Fit to rows; shapes as in :meth:`ConditionalMean.fit`."""
        from sklearn.tree import DecisionTreeRegressor

        n = len(columns)
        mean, size = np.average(targets, axis=0, weights=weight), targets.std(axis=0)
        size = np.where(size > 0, size, 1.0)
        out = np.ones((N_TREES, n), dtype=bool)
        if not columns.shape[1] or not targets.shape[1]:
            return cls([], mean, size, out, np.broadcast_to(mean, targets.shape))
        standard = (targets - mean) / size  # the size of a target must not decide the splits
        narrow, generator = columns.astype(np.float32), np.random.default_rng(seed)
        total, trees = np.zeros_like(targets), []
        for seen_not in out:
            rows = generator.permutation(n)[: min((n + 1) // 2, ROWS_OF_TREE)]
            seen_not[rows] = False
            tree = DecisionTreeRegressor(
                min_samples_leaf=LEAF,
                max_features=max(min(narrow.shape[1], COLUMNS_OF_SPLIT), narrow.shape[1] // 3),
                random_state=int(generator.integers(2**31)),
            )
            tree.fit(narrow[rows], standard[rows], sample_weight=weight[rows], check_input=False)
            total[seen_not] += _predicted(tree, narrow[seen_not])
            trees.append(tree)
        return cls(trees, mean, size, out, mean + size * total / np.maximum(out.sum(axis=0), 1)[:, None])

    def predict(self, columns: Array) -> Array:
        """Return the means of other rows, shape (n_rows, n_targets)."""
        narrow, total = columns.astype(np.float32), np.zeros((len(columns), self.mean.size))
        for tree in self.trees:
            total += _predicted(tree, narrow)
        return np.asarray(self.mean + self.size * total / max(1, len(self.trees)))

    def leaves(self, columns: Array) -> NDArray[np.int64]:
        """Return the leaf of rows in each tree, shape (n_rows, n_trees); without trees all rows are in one leaf."""
        if not self.trees:
            return np.zeros((len(columns), N_TREES), dtype=np.int64)
        narrow = columns.astype(np.float32)
        return np.column_stack([tree.tree_.apply(narrow) for tree in self.trees])


def _predicted(tree: Any, columns: NDArray[np.float32]) -> Array:
    return np.asarray(tree.tree_.predict(columns)).reshape(len(columns), -1)


def _ridge(Z: Array, targets: Array, weight: Array) -> tuple[Array, Array, Array]:
    """Return coefficients, intercept and leave-one-out residuals, with the penalty of the smallest such residuals."""
    root = np.sqrt(weight / weight.mean())[:, None]
    intercept = np.average(targets, axis=0, weights=weight)
    centred, of_mean = root * (targets - intercept), (weight / weight.sum())[:, None]
    U, d, V = _singular(root * Z)
    along = U.T @ centred
    coefficients = np.zeros((Z.shape[1], targets.shape[1]))
    left = centred / np.maximum(1 - of_mean, 0.1)
    least = (left**2).sum(axis=0)
    for penalty in PENALTIES * len(Z):
        kept = d**2 / (d**2 + penalty)
        leverage = (U**2) @ kept[:, None] + of_mean
        now = (centred - U @ (kept[:, None] * along)) / np.maximum(1 - leverage, 0.1)
        error = (now**2).sum(axis=0)
        better = error < least
        coefficients[:, better] = (V @ ((kept / d)[:, None] * along))[:, better]
        left[:, better], least[better] = now[:, better], error[better]
    return coefficients, intercept, left / np.where(root > 0, root, 1.0)


def _singular(A: Array) -> tuple[Array, Array, Array]:
    """Return the singular vectors and values of A, without those near 0."""
    if A.shape[0] <= A.shape[1]:
        U, d, Vt = np.linalg.svd(A, full_matrices=False)
        kept = d > 1e-6 * d.max(initial=0.0)
        return U[:, kept], d[kept], Vt[kept].T
    squares, V = np.linalg.eigh(A.T @ A)
    kept = squares > 1e-12 * squares.max(initial=0.0)
    d = np.sqrt(squares[kept])
    return A @ V[:, kept] / d, d, V[:, kept]
