"""Means of targets given other columns, each row left out: a stack of regressions.

No regression is right everywhere: splines miss what depends on several columns at once, a forest smooths, and a process
misses jumps. The error of each one looks like a signal, so their left-out predictions are combined with the
non-negative factors that predict best (Breiman 1996, stacked regressions). They are ridge regressions on curves and
levels without and with pairs of columns, a Gaussian process, a forest, and a forest that splits on the process too.
The last one sharpens: where the target jumps along a curve, the process is a smooth step across it, and a split of its
value follows the curve.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from debias_plugins.scorers.conditional_design import standardised
from debias_plugins.scorers.conditional_process import LeftOut, left_out_process, without_blocks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from debias_plugins.scorers.conditional_design import Design

    Array = NDArray[np.float64]
    Numbers = NDArray[np.int64]

PENALTIES = 10.0 ** np.arange(-5, 3)
"""Ridge penalties for standardised columns, per row."""
N_TREES = 40
"""Trees of a forest. Each is grown on a random half of the blocks of rows, so about 20 did not see a row."""
LEAF = 3
"""Least number of rows in a leaf of the forest."""
COLUMNS_OF_SPLIT = 8
"""A split is the best of this many columns, or of a third of them if there are more."""
ROWS_OF_TREE = 2000
"""A tree is grown on at most about this many rows."""


@dataclass(frozen=True, eq=False)
class ConditionalMean:
    """Left-out predictions of several targets; all arrays have the shape (n_rows, n_targets).

    Attributes
    ----------
    stack : array
        The combination of all regressions.
    smooth : array
        The combination without the forest that sharpens.
    process : LeftOut
        By the Gaussian process alone.
    forest : Forest
        Of the other columns alone; its leaves hold rows that are alike.
    """

    stack: Array
    smooth: Array
    process: LeftOut
    forest: Forest

    @classmethod
    def fit(
        cls, design: Design, targets: Sequence[Array], weight: Array, blocks: Numbers, generator: np.random.Generator
    ) -> ConditionalMean:
        """Predict each row from rows of other blocks.

        Parameters
        ----------
        design : Design
            The other columns.
        targets : sequence of arrays of shape (n_rows, n_targets of the kind)
            Targets of one kind share a kernel. The results have them side by side.
        weight : array of shape (n_rows,)
            Above 0.
        blocks : array of int64 of shape (n_rows,)
            Block of each row, from 0 on.
        generator : numpy.random.Generator
        """
        side_by_side = np.column_stack(targets)
        single = left_out_ridge(design.single, side_by_side, weight, blocks)
        paired = left_out_ridge(np.column_stack([design.single, design.pairs]), side_by_side, weight, blocks)
        kinds = [left_out_process(design, of_kind, weight, blocks, generator) for of_kind in targets]
        whole, half, folds = (
            np.column_stack([getattr(kind, name) for kind in kinds]) for name in ("whole", "half", "folds")
        )
        forest = Forest.fit(design.plain, side_by_side, weight, blocks, generator)
        sharp = Forest.fit(
            np.column_stack([design.plain, standardised(folds)]), side_by_side, weight, blocks, generator
        )
        learners = [single, paired, whole, forest.unseen]
        smooth = _stacked(learners, side_by_side, weight)
        stack = _stacked([*learners, sharp.unseen], side_by_side, weight)
        return cls(stack, smooth, LeftOut(whole, half, folds), forest)


def left_out_ridge(columns: Array, targets: Array, weight: Array, blocks: Numbers) -> Array:
    """Return predictions of rows by a ridge regression without their block, with the best penalty for each target."""
    root = np.sqrt(weight / weight.mean())[:, None]
    mean = np.average(targets, axis=0, weights=weight)
    centred, of_mean = root * (targets - mean), root[:, 0] / np.sqrt((root**2).sum())
    Z = standardised(columns)
    U, d = _singular(root * (Z - np.average(Z, axis=0, weights=weight)))
    along = U.T @ centred
    best, least = np.empty_like(targets), np.full(targets.shape[1], np.inf)
    for penalty in [*(PENALTIES * len(Z)), np.inf]:
        kept = d**2 / (d**2 + penalty)

        def left(rows: Numbers, kept: Array = kept) -> Array:
            hat = (U[rows] * kept) @ U[rows].T + np.outer(of_mean[rows], of_mean[rows])
            return np.asarray(np.eye(rows.size) - hat)

        diagonal = 1 - (U**2) @ kept - of_mean**2
        missed = without_blocks(centred - U @ (kept[:, None] * along), diagonal, left, blocks)
        error = (missed**2).sum(axis=0)
        better = error < least
        best[:, better], least[better] = missed[:, better], error[better]
    return np.asarray(targets - best / root)


@dataclass(frozen=True, eq=False)
class Forest:
    """A random forest of several targets.

    Attributes
    ----------
    out : array of bool of shape (n_trees, n_rows)
        Whether a tree saw no row of the block of a row.
    leaf : array of int64 of shape (n_trees, n_rows)
    unseen : array of shape (n_rows, n_targets)
        Mean over the trees that did not see the block of the row.
    """

    out: NDArray[np.bool_]
    leaf: Numbers
    unseen: Array

    @classmethod
    def fit(
        cls, columns: Array, targets: Array, weight: Array, blocks: Numbers, generator: np.random.Generator
    ) -> Forest:
        """Fit to rows; shapes as in :meth:`ConditionalMean.fit`. Without columns all rows are in one leaf."""
        from sklearn.tree import DecisionTreeRegressor

        n, n_blocks = len(targets), int(blocks.max()) + 1
        mean, size = np.average(targets, axis=0, weights=weight), targets.std(axis=0)
        standard = (targets - mean) / np.where(size > 0, size, 1.0)  # the size of a target must not decide the splits
        standard = standard if size.size else np.zeros((n, 1))
        narrow = columns.astype(np.float32) if columns.shape[1] else np.zeros((n, 1), dtype=np.float32)
        share = min((n_blocks + 1) // 2, max(1, ROWS_OF_TREE * n_blocks // n))
        out, leaf = np.empty((N_TREES, n), dtype=bool), np.empty((N_TREES, n), dtype=np.int64)
        total = np.zeros_like(standard)
        for number in range(N_TREES):
            out[number] = generator.permutation(n_blocks)[blocks] >= share
            tree = DecisionTreeRegressor(
                min_samples_leaf=LEAF,
                max_features=max(min(narrow.shape[1], COLUMNS_OF_SPLIT), narrow.shape[1] // 3),
                random_state=int(generator.integers(2**31)),
            )
            seen = ~out[number]
            tree.fit(narrow[seen], standard[seen], sample_weight=weight[seen], check_input=False)
            leaf[number] = tree.tree_.apply(narrow)
            of_leaf: Any = tree.tree_.value[:, :, 0]
            total[out[number]] += of_leaf[leaf[number, out[number]]]
        return cls(out, leaf, mean + size * total / np.maximum(out.sum(axis=0), 1)[:, None])


def _stacked(learners: list[Array], targets: Array, weight: Array) -> Array:
    """Return the non-negative combination of predictions with the smallest squared error, for each target."""
    root, combined = np.sqrt(weight), np.empty_like(targets)
    for number, target in enumerate(targets.T):
        guesses = np.column_stack([learner[:, number] for learner in learners])
        centre, mean = np.average(guesses, axis=0, weights=weight), np.average(target, weights=weight)
        factors = _not_negative(root[:, None] * (guesses - centre), root * (target - mean))
        combined[:, number] = mean + (guesses - centre) @ factors
    return combined


def _not_negative(A: Array, b: Array) -> Array:
    """Return the factors of 0 or more with the smallest squared error of A @ factors, shape (n_learners,).

    SciPy gives up where learners are nearly the same, because its steps go round in a circle. Then the best solution of
    least squares over each subset of the few learners is looked for: the optimum is one of them.
    """
    from scipy.optimize import nnls

    try:
        factors: Array = nnls(A, b)[0]
        return factors
    except RuntimeError:
        best, least = np.zeros(A.shape[1]), float(b @ b)
    for chosen in product((False, True), repeat=A.shape[1]):
        used = np.flatnonzero(chosen)
        factors = np.zeros(A.shape[1])
        factors[used] = np.linalg.lstsq(A[:, used], b, rcond=None)[0]
        error = float(((b - A @ factors) ** 2).sum())
        if factors.min() >= 0 and error < least:
            best, least = factors, error
    return best


def _singular(A: Array) -> tuple[Array, Array]:
    """Return the left singular vectors and the singular values of A, without those near 0."""
    if A.shape[0] <= A.shape[1]:
        U, d, _ = np.linalg.svd(A, full_matrices=False)
        kept = d > 1e-6 * d.max(initial=0.0)
        return U[:, kept], d[kept]
    squares, V = np.linalg.eigh(A.T @ A)
    kept = squares > 1e-12 * squares.max(initial=0.0)
    d = np.sqrt(squares[kept])
    return A @ V[:, kept] / d, d
