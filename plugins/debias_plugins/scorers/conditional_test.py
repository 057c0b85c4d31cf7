"""The conditional test: two statistics for each column, an allowance for errors of the regressions, and the verdict.

The statistics are covariances of residuals. That of the response is multiplied by that of the model's effect, which is
the prediction without its mean over draws of the column; and by that of the column itself, in the direction of the
effect. The second one says more where the model is poor, and the first where the effect is not a straight line.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from debias.plugin import row_test
from debias_plugins.scorers.conditional_design import Design, encoded
from debias_plugins.scorers.conditional_mean import ConditionalMean, left_out_ridge
from debias_plugins.scorers.conditional_sampler import draws, is_shifted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.plugin import RowTest

    Array = NDArray[np.float64]
    Numbers = NDArray[np.int64]
    Flags = NDArray[np.bool_]

RATE = 1.0
"""Squared error that a regression still has, per squared error that it saves with twice the rows. It is 1 / (2^g - 1)
for a squared error that falls with n^-g: 1 for g = 1, as for a model of the right form."""
SHARPENED = 2.0
"""Squared error that a regression still has, per squared error that it saves by sharpening. This is measured: the steps
of curved jumps are about this much too smooth."""
TOO_ROUGH = 1.0
"""A column is not tested if the errors of the regressions may move the statistic by so many standard errors."""

ROUGH = "errors of the regressions on the other columns may move its statistic by {:.2g} standard errors"
DOUBTFUL = "it covaries with the response, but errors of the regressions on the other columns may have made that"


@dataclass(frozen=True, eq=False)
class Regressions:
    """What the other columns say of a group of columns and of the response.

    Attributes
    ----------
    mean : ConditionalMean
        The encoded columns of the group, then the outputs.
    own : array of shape (n_known, n_own)
        The encoded columns of the group.
    shifted : array of int64
        The encoded columns that are drawn as a prediction plus an error.
    shifted_feature : array of bool of shape (n_features of the group,)
        Their features.
    response : array of shape (n_known, n_outputs)
    others : Design
    weight : array of shape (n_known,)
    blocks : array of int64 of shape (n_known,)
    known_sampler : bool
        Whether the conditional distribution of the group is known.
    explained : float
        Share of the variance of the group that the others explain in left-out rows; mean over its columns.
    """

    mean: ConditionalMean
    own: Array
    shifted: Numbers
    shifted_feature: Flags
    response: Array
    others: Design
    weight: Array
    blocks: Numbers
    known_sampler: bool
    explained: float

    @classmethod
    def fit(
        cls,
        columns: Array,
        categorical: Flags,
        response: Array,
        others: Design,
        weight: Array,
        blocks: Numbers,
        *,
        known_sampler: bool,
        generator: np.random.Generator,
    ) -> Regressions:
        """Fit to the rows that are known: those of the test first, then training rows.

        Parameters
        ----------
        columns : array of shape (n_known, n_features of the group)
            Missing values as NaN.
        categorical : array of bool of shape (n_features of the group,)
        response : array of shape (n_known, n_outputs)
            Without outputs, there are only draws.
        others : Design
            Of all other columns.
        weight, blocks : arrays of shape (n_known,)
        known_sampler : bool
        generator : numpy.random.Generator
        """
        parts = [encoded(columns[:, k], bool(categorical[k])) for k in range(columns.shape[1])]
        shifted_feature = is_shifted(columns, categorical)
        if known_sampler:
            parts, shifted_feature = [part[:, :0] for part in parts], np.zeros_like(shifted_feature)
        begin, own = np.cumsum([0, *[part.shape[1] for part in parts]]), np.column_stack(parts)
        mean = ConditionalMean.fit(others, [own, response], weight, blocks, generator)
        guess = mean.stack[:, : own.shape[1]]
        shares = [_explained(own[:, a:b], guess[:, a:b]) for a, b in zip(begin, begin[1:], strict=False) if b > a]
        explained = float(np.mean(shares)) if shares else np.nan
        shifted = begin[:-1][shifted_feature]
        return cls(mean, own, shifted, shifted_feature, response, others, weight, blocks, known_sampler, explained)

    def draws(self, columns: Array, n_draws: int, n_rows: int, generator: np.random.Generator) -> Array:
        """Return draws of the columns of the group for the first rows, shape (n_draws, n_rows, n_features)."""
        predicted = self.mean.stack[:, self.shifted]
        return draws(columns, self.shifted_feature, predicted, self.mean.forest, n_draws, n_rows, generator)


@dataclass(frozen=True, eq=False)
class Verdict:
    """The test of some groups of columns.

    Attributes
    ----------
    test : RowTest
        Of the larger statistic, with p-values after the allowance.
    allowance : array of shape (n_tested,)
        The most by which the errors of the regressions may move a statistic, in standard errors.
    p_plain : array of shape (n_tested,)
        The p-values without allowance.
    untested : array of bool of shape (n_tested,)
    reasons : list of str
        Why a group was not tested; "" if it was.
    """

    test: RowTest
    allowance: Array
    p_plain: Array
    untested: Flags
    reasons: list[str]


@dataclass(frozen=True, eq=False)
class RowTerms:
    """The terms of rows, whose means are the statistics of groups of columns.

    Arrays have the shape (n_rows, n_tested) unless stated.

    Attributes
    ----------
    of_model : array
        Products of the residual of the response and of the model's effect.
    of_column : array
        Products of the residual of the response and of the column, in the direction of the effect.
    bias : array of shape (n_tested,)
        The most by which errors of the regressions move the mean of `of_column`.
    explained : array of shape (n_tested,)
    """

    of_model: Array
    of_column: Array
    bias: Array
    explained: Array

    @classmethod
    def empty(cls, n_rows: int, n_tested: int) -> RowTerms:
        """Return terms to be filled: zeros, and NaN for the explained shares."""
        shape = n_rows, n_tested
        return cls(np.zeros(shape), np.zeros(shape), np.zeros(n_tested), np.full(n_tested, np.nan))

    def fill(self, k: int, regressions: Regressions, effect: Array, weight: Array) -> None:
        """Fill the terms of a group.

        Parameters
        ----------
        k : int
            Number of the group.
        regressions : Regressions
        effect : array of shape (n_rows, n_outputs)
            The predictions without their means over draws of the group.
        weight : array of shape (n_rows,)
        """
        n, n_own, mean = len(effect), regressions.own.shape[1], regressions.mean
        target = np.column_stack([regressions.own, regressions.response])
        own, response = np.split((target - mean.stack)[:n], [n_own], axis=1)
        if regressions.known_sampler:  # the mean of the effect given the other columns is 0
            self.of_model[:, k] = (effect * response).sum(axis=1)
            return
        # The frozen model is a regression of its own training rows, so its effect is not regressed on these.
        columns = np.column_stack([regressions.others.single[:n], mean.stack[:n, :n_own]])
        effect = effect - left_out_ridge(columns, effect, weight, regressions.blocks[:n])
        root = np.sqrt(weight)[:, None]
        direction = np.linalg.lstsq(root * own, root * effect, rcond=None)[0]  # the response has no part in it
        self.of_model[:, k] = (effect * response).sum(axis=1)
        self.of_column[:, k] = (own @ direction * response).sum(axis=1)

        def size(gap: Array) -> tuple[Array, Array]:
            return ((gap[:, :n_own] @ direction) ** 2).sum(axis=1), (gap[:, n_own:] ** 2).sum(axis=1)

        # The mean product of two errors is at most the root of the product of their mean squares. These cannot be seen,
        # but more rows and sharper regressions save some of them.
        pairs = (RATE, mean.process.half, mean.process.whole), (SHARPENED, mean.smooth, mean.stack)
        left = np.zeros(2)
        for factor, worse, better in pairs:
            saved = [
                np.average(a - b, weights=regressions.weight)
                for a, b in zip(size(target - worse), size(target - better), strict=True)
            ]
            left += factor * np.maximum(saved, 0.0)
        self.bias[k] = np.sqrt(left[0] * left[1])

    def verdict(self, weight: Array, blocks: Numbers | None, error: str, alpha: float) -> Verdict:
        """Return the test by the larger of both statistics.

        A column is not tested if it is selected only without the allowance, or if it is not selected and the allowance
        is large.

        Parameters
        ----------
        weight : array of shape (n_rows,)
        blocks : array of shape (n_rows,), optional
        error : str
        alpha : float
        """
        by_model = row_test(self.of_model, weight, blocks, error=error)
        by_column = row_test(self.of_column, weight, blocks, error=error)
        plain = by_model.or_other(by_column)
        spread = by_column.standard_error
        allowance = np.divide(self.bias, spread, out=np.zeros_like(spread), where=spread > 0)
        allowed = _less(by_model, allowance).or_other(_less(by_column, allowance))
        test = plain.with_p_values(allowed.p_value)
        rejected = test.p_adjusted <= alpha
        rough, doubtful = (allowance > TOO_ROUGH) & ~rejected, (plain.p_adjusted <= alpha) & ~rejected
        reasons = [
            ROUGH.format(allowance[k]) if rough[k] else DOUBTFUL if doubtful[k] else "" for k in range(spread.size)
        ]
        return Verdict(test, allowance, plain.p_value, rough | doubtful, reasons)


def _less(test: RowTest, allowance: Array) -> RowTest:
    """Return a test whose statistic is smaller by so many standard errors."""
    from scipy.special import ndtr, ndtri

    return replace(test, p_value=ndtr(ndtri(test.p_value) + allowance))


def _explained(target: Array, guess: Array) -> float:
    """Return the share of the variance of some columns that a guess explains, not below 0."""
    return max(0.0, 1.0 - float(((target - guess) ** 2).mean(axis=0).sum() / target.var(axis=0).sum()))
