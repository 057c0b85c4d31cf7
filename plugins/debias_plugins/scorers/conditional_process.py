"""Means of targets given other columns by a Gaussian process, each row left out.

The covariance of two rows is linear in the numbers, plus a smooth function of their distance (Matern 5/2, with a length
of its own for each number), plus a constant for each feature whose levels they share. Variances and lengths are those
of the largest likelihood, as in Rasmussen and Williams (2006), chapters 4 and 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from debias_plugins.scorers.conditional_design import Design

    Array = NDArray[np.float64]
    Numbers = NDArray[np.int64]

MOST_FEATURES = 10
"""The process knows so many features, those that the model splits on most."""
ROWS_OF_KERNEL, STEPS = 200, 20
"""Rows and steps of the search for the largest likelihood."""
ROWS_OF_PROCESS = 1500
"""The process is fitted to at most this many rows, since its cost is cubic."""
FOLDS = 10
"""Folds of blocks, for predictions that are the same function for many rows."""
WIDTH_OF_PRIOR = 3.0
"""Standard deviation of the logarithms of variances and lengths, around their starts."""


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Predictions of rows that are left out.

    Attributes
    ----------
    whole : array of shape (n_rows, n_targets)
        From all rows of other blocks.
    half : array of shape (n_rows, n_targets)
        From half of these rows, with the same kernel.
    folds : array of shape (n_rows, n_targets)
        From all rows of other folds. A regression on it sees one function for each fold. On `whole` it would see that
        a low prediction comes from a row with a high target, which was left out.
    """

    whole: Array
    half: Array
    folds: Array


def left_out_process(
    design: Design, targets: Array, weight: Array, blocks: Numbers, generator: np.random.Generator
) -> LeftOut:
    """Predict each row by a process that does not know its block.

    Parameters
    ----------
    design : Design
    targets : array of shape (n_rows, n_targets)
        They share one kernel.
    weight : array of shape (n_rows,)
        A row of weight 2 has half the noise.
    blocks : array of int64 of shape (n_rows,)
        From 0 on.
    generator : numpy.random.Generator
    """
    if not targets.shape[1]:
        return LeftOut(targets, targets, targets)
    mean, size = np.average(targets, axis=0, weights=weight), targets.std(axis=0)
    size = np.where(size > 0, size, 1.0)
    standard, roughness = (targets - mean) / size, weight.mean() / weight
    kernel = _Kernel.of(design)
    order = generator.permutation(len(targets))
    kernel = kernel.fitted(order[:ROWS_OF_KERNEL], standard, roughness)
    shuffled = generator.permutation(int(blocks.max()) + 1)[blocks]
    of_half, fold, known = shuffled % 2, shuffled % FOLDS, np.sort(order[:ROWS_OF_PROCESS])
    half = np.empty_like(standard)
    for part in (0, 1):
        rows = np.flatnonzero(of_half == part)
        half[rows] = kernel.left_out(rows, known[of_half[known] == part], standard, roughness, [blocks])[0]
    whole, folds = kernel.left_out(np.arange(len(targets)), known, standard, roughness, [blocks, fold])
    return LeftOut(mean + size * whole, mean + size * half, mean + size * folds)


def without_blocks(product: Array, diagonal: Array, part: Callable[[Numbers], Array], blocks: Numbers) -> Array:
    """Return what a linear smoother misses in each row if the block of the row is left out.

    Parameters
    ----------
    product : array of shape (n_rows, n_targets)
        A matrix Q times the targets: the inverse covariance, or the identity minus the hat matrix.
    diagonal : array of shape (n_rows,)
        Of Q.
    part : callable
        ``part(rows)`` returns Q for these rows and columns.
    blocks : array of int64 of shape (n_rows,)
    """
    missed: Array = product / diagonal[:, None]
    for rows in rows_of_blocks(blocks):
        missed[rows] = np.linalg.solve(part(rows), product[rows])
    return missed


def rows_of_blocks(blocks: Numbers) -> list[Numbers]:
    """Return the rows of each block that has more than one."""
    order = np.argsort(blocks, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(blocks[order])) + 1)
    return [part for part in parts if part.size > 1]


@dataclass(frozen=True, eq=False)
class _Kernel:
    """A covariance of rows with parameters, the logarithms of variances and lengths.

    These are the variance of the smooth part, of the linear part, a length for each number, a variance for each feature
    with levels, and the variance of the noise.
    """

    numbers: Array
    level: Numbers
    parameters: Array

    @classmethod
    def of(cls, design: Design) -> _Kernel:
        """Return the kernel before its parameters are fitted."""
        features = np.unique(np.concatenate([design.feature, design.feature_of_level]))
        used = features[np.argsort(-design.use[features], kind="stable")][:MOST_FEATURES]
        numbers = design.plain[:, design.number & np.isin(design.feature, used)]
        level = design.level[:, np.isin(design.feature_of_level, used)]
        start = np.r_[-1.0, -1.0, np.full(numbers.shape[1], 0.5), np.full(level.shape[1], -1.5), -1.0]
        return cls(numbers, level, start)

    @cached_property
    def _bounds(self) -> list[tuple[float, float]]:
        n_numbers, n_levels = self.numbers.shape[1], self.level.shape[1]
        return [(-7, 3), (-7, 3), *[(-3, 5)] * n_numbers, *[(-7, 3)] * n_levels, (-5, 1)]

    def fitted(self, rows: Numbers, targets: Array, roughness: Array) -> _Kernel:
        """Return the kernel with the parameters of the largest likelihood of some rows, with a weak prior."""
        from scipy.optimize import minimize

        loss = self.loss(rows, targets[rows], roughness[rows])
        options = {"maxiter": STEPS}
        best = minimize(loss, self.parameters, jac=True, method="L-BFGS-B", bounds=self._bounds, options=options).x
        return _Kernel(self.numbers, self.level, np.asarray(best))

    def loss(self, rows: Numbers, targets: Array, roughness: Array) -> Callable[[Array], tuple[float, Array]]:
        """Return a function of parameters: minus the log likelihood of rows with a weak prior, and its slopes."""
        start, w = self.parameters, targets

        def of(p: Array) -> tuple[float, Array]:
            smooth, slope, linear, equal, distance = self._parts(rows, p)
            noise = np.exp(p[-1]) * roughness
            covariance = smooth + linear + sum(equal) + np.diag(noise + 1e-6)
            inverse = np.linalg.inv(covariance)
            solved = inverse @ w
            by_covariance = 0.5 * (w.shape[1] * inverse - solved @ solved.T)
            gradient = [
                *[(by_covariance * part).sum() for part in (smooth, linear)],
                *[(by_covariance * slope * squares).sum() for squares in distance],
                *[(by_covariance * part).sum() for part in equal],
                noise @ np.diag(by_covariance),
            ]
            away = (p - start) / WIDTH_OF_PRIOR
            value = 0.5 * ((w * solved).sum() + w.shape[1] * np.linalg.slogdet(covariance)[1] + away @ away)
            return float(value), np.array(gradient) + away / WIDTH_OF_PRIOR

        return of

    def left_out(
        self, rows: Numbers, known: Numbers, targets: Array, roughness: Array, left: Sequence[Numbers]
    ) -> list[Array]:
        """Return predictions of rows by the known rows among them, without those of the row's own group.

        Parameters
        ----------
        rows, known : arrays of int64
        targets : array of shape (n_all_rows, n_targets)
        roughness : array of shape (n_all_rows,)
            Factor of the noise.
        left : sequence of arrays of int64 of shape (n_all_rows,)
            Groups of rows: blocks, or folds. There are predictions for each of these.
        """
        noise = np.exp(self.parameters[-1]) * roughness[known]
        # The constant 1 is for the mean, which is unknown.
        inverse: Array = np.asarray(np.linalg.inv(self._covariance(known, known) + 1.0 + np.diag(noise + 1e-6)))
        solved, others = inverse @ targets[known], np.setdiff1d(rows, known)
        between = self._covariance(others, known) + 1.0
        found = []
        for group in left:
            missed = without_blocks(solved, np.diag(inverse), lambda at: inverse[np.ix_(at, at)], group[known])
            predicted = np.empty_like(targets)
            predicted[known] = targets[known] - missed
            predicted[others] = between @ solved
            for one in np.intersect1d(group[others], group[known]):
                inside, here = np.flatnonzero(group[known] == one), np.flatnonzero(group[others] == one)
                predicted[others[here]] = between[here] @ (solved - inverse[:, inside] @ missed[inside])
            found.append(predicted[rows])
        return found

    def _covariance(self, rows: Numbers, others: Numbers) -> Array:
        from scipy.spatial.distance import cdist

        p, n_numbers = self.parameters, self.numbers.shape[1]
        A, B = self.numbers[rows], self.numbers[others]
        near = np.exp(-p[2 : 2 + n_numbers])
        r = np.sqrt(5) * cdist(A * near, B * near) if n_numbers else np.zeros((len(A), len(B)))
        covariance = (1 + r + r * r / 3) * np.exp(p[0] - r) + np.exp(p[1]) * (A @ B.T) / max(1, n_numbers)
        for of_levels, level in zip(p[2 + n_numbers : -1], self.level.T, strict=True):
            covariance += np.exp(of_levels) * (level[rows][:, None] == level[others])
        return np.asarray(covariance)

    def _parts(self, rows: Numbers, p: Array) -> tuple[Array, Array, Array, list[Array], list[Array]]:
        """Return the parts of the covariance of rows, the slope of the smooth part, and squared distances by number."""
        A, n_numbers = self.numbers[rows], self.numbers.shape[1]
        distance = [np.exp(-2 * p[2 + j]) * (A[:, [j]] - A[:, j]) ** 2 for j in range(n_numbers)]
        r = np.sqrt(5 * sum(distance, np.zeros((len(A), len(A)))))
        decay, linear = np.exp(p[0] - r), np.exp(p[1]) * (A @ A.T) / max(1, n_numbers)
        equal = [
            np.exp(of_levels) * (level[rows][:, None] == level[rows])
            for of_levels, level in zip(p[2 + n_numbers : -1], self.level.T, strict=True)
        ]
        return (1 + r + r * r / 3) * decay, (5 / 3) * (1 + r) * decay, linear, equal, distance
