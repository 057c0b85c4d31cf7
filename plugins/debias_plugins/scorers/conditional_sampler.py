"""Draws of some columns given all others, from rows that are like the row: the leaves of a forest.

A draw for a row comes from a donor, a row in the same leaf of a random tree. The forest predicts the columns from the
others. A category, a missing value and a number with few values are taken from the donor as they are. Other numbers
are the prediction for the row plus the residual of the donor, since rows of one leaf still differ in what is predicted
for them. The sum is replaced by the nearest value that the column has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from debias_plugins.scorers.conditional_design import encoded
from debias_plugins.scorers.conditional_mean import ConditionalMean

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Columns = tuple[Array, Array]

FEW_VALUES = 10
"""Numbers with at most this many distinct values are taken from the donors as they are."""


@dataclass(frozen=True, eq=False)
class Sampler:
    """A sampler of some columns, fitted to rows.

    Attributes
    ----------
    own : array of shape (n_fitted, n_own)
        The columns that are drawn, in the rows to which it was fitted.
    columns : (array of shape (n_fitted, n_plain), array of shape (n_fitted, n_curves))
        The other columns.
    shifted : array of bool of shape (n_own,)
        Which columns are predicted values plus residuals; the others are values of donors.
    mean : ConditionalMean
        Of the shifted columns. Donors come from the leaves of its forest.
    explained : float
        Share of the variance of the columns that the others explain in rows that the prediction did not use; the mean
        over the columns.
    """

    own: Array
    columns: Columns
    shifted: NDArray[np.bool_]
    mean: ConditionalMean
    explained: float

    @classmethod
    def fit(cls, own: Array, categorical: NDArray[np.bool_], columns: Columns, seed: int) -> Sampler:
        """Fit to rows.

        Parameters
        ----------
        own : array of shape (n_rows, n_own)
            The columns to draw, missing values as NaN.
        categorical : array of bool of shape (n_own,)
        columns : (array of shape (n_rows, n_plain), array of shape (n_rows, n_curves))
            All other columns, without missing values.
        seed : int
        """
        missing = np.isnan(own)
        n_values = [np.unique(column[~np.isnan(column)]).size for column in own.T]
        shifted = ~categorical & (np.array(n_values, dtype=np.int64) > FEW_VALUES)
        filled = np.column_stack(
            [np.where(missing[:, k], np.median(own[~missing[:, k], k]), own[:, k]) for k in np.flatnonzero(shifted)]
            or [np.empty((len(own), 0))]
        )
        # Donors are alike in what is left of the numbers, in categories, and in whether values are missing.
        of_donors = [encoded(own[:, k], bool(categorical[k])) for k in np.flatnonzero(~shifted)]
        absent = missing[:, shifted & missing.any(axis=0)].astype(np.float64)
        mean = ConditionalMean.fit(
            columns, filled, np.ones(len(own)), seed, beside=np.column_stack([absent[:, :0], *of_donors, absent])
        )
        shares = [_explained(filled[:, [k]], mean.unseen[:, [k]]) for k in range(filled.shape[1])]
        begin = filled.shape[1]
        for target in of_donors:
            shares.append(_explained(target, mean.forest.unseen[:, begin : begin + target.shape[1]]))
            begin += target.shape[1]
        return cls(own, columns, shifted, mean, float(np.mean(shares)))

    def draw_again(self, n_draws: int, generator: np.random.Generator) -> Array:
        """Return draws for the rows to which it was fitted, from trees that did not see the row and from other rows.

        The shape is (n_draws, n_rows, n_own).
        """
        out = self.mean.forest.out
        # The smallest number is that of a random tree among those that did not see the row.
        tree = np.array([np.argmin(generator.random(out.shape) - out, axis=0) for _ in range(n_draws)])
        return self._drawn(self.columns[0], tree, np.arange(len(self.own)), self.mean.unseen, generator)

    def draw(self, columns: Columns, n_draws: int, generator: np.random.Generator) -> Array:
        """Return draws for other rows, given their other columns; the shape is (n_draws, n_rows, n_own)."""
        n = len(columns[0])
        tree = generator.integers(0, len(self.mean.forest.out), (n_draws, n))
        return self._drawn(columns[0], tree, np.full(n, -1), self.mean.predict(columns), generator)

    def _drawn(
        self,
        plain: Array,
        tree: NDArray[np.int64],
        itself: NDArray[np.int64],
        predicted: Array,
        generator: np.random.Generator,
    ) -> Array:
        donors = self._donors(plain, tree, itself, generator)
        drawn = self.own[donors]
        residual = self.own[:, self.shifted] - self.mean.unseen
        drawn[:, :, self.shifted] = predicted + residual[donors]
        for k in np.flatnonzero(self.shifted):
            drawn[:, :, k] = _nearest(drawn[:, :, k], self.own[:, k])
        return drawn

    def _donors(
        self,
        plain: Array,
        tree: NDArray[np.int64],
        itself: NDArray[np.int64],
        generator: np.random.Generator,
    ) -> NDArray[np.int64]:
        """Return a random row in the same leaf of a tree, for each draw and row, but not the row itself."""
        part = generator.random(tree.shape)
        donors = np.empty(tree.shape, dtype=np.int64)
        fitted_leaf, leaf = self.mean.forest.leaves(self.columns[0]), self.mean.forest.leaves(plain)
        for number in range(leaf.shape[1]):
            order = np.argsort(fitted_leaf[:, number], kind="stable")
            begin = np.searchsorted(fitted_leaf[order, number], leaf[:, number])
            size = np.searchsorted(fitted_leaf[order, number], leaf[:, number], side="right") - begin
            place = np.full(len(plain), np.iinfo(np.int64).max)  # where the row itself stands
            inside = itself >= 0
            place[inside] = np.argsort(order)[itself[inside]]
            draw, row = np.nonzero(tree == number)
            others = size[row] - inside[row]
            chosen = begin[row] + (part[draw, row] * others).astype(np.int64)
            chosen += (chosen >= place[row]) & (others > 0)
            donors[draw, row] = order[chosen]
        return donors


def _explained(target: Array, guess: Array) -> float:
    """Return the share of the variance of some columns that a guess explains, not below 0; NaN for constant columns."""
    spread = target.var(axis=0).sum()
    return np.nan if not spread > 0 else max(0.0, 1.0 - float(((target - guess) ** 2).mean(axis=0).sum() / spread))


def _nearest(values: Array, column: Array) -> Array:
    """Return the nearest value that a column has; missing values stay missing."""
    known = np.unique(column[~np.isnan(column)])
    after = np.clip(np.searchsorted(known, values), 1, known.size - 1)
    below, above = known[after - 1], known[after]
    nearest: Array = np.where(values - below <= above - values, below, above)
    return np.where(np.isnan(values), np.nan, nearest)
