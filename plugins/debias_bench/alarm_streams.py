"""Streams of days of a real model for the study of alarms, and what is watched without its trees.

All rows of a stream go through the model at once. Their losses, divided as a history divides them, are then averaged by
day, which gives the same numbers as a history that gets day after day (``tests/bench/test_alarms.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.groups import Grouping
from debias.rows.loss_parts import LossParts, loss_parts
from debias.rows.period_sums import BEFORE_PARTS, PeriodSums
from debias.rows.preparation import batch_rows
from debias_bench.change import fitted
from debias_bench.loss_changes import ALPHA, BINS, LARGE_INDEX, N_TRAINING_ROWS, Setting, drawn, response
from debias_bench.significance_settings import seed_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

N_ROWS = 60
"""Rows of a day."""
REFERENCE = 60
"""Days of the reference, the first ones."""
RECENT = 7
"""Days of the recent window of what looks a planned number of times."""
CHART_LIMIT = 3.0
"""Standard errors of a control chart."""


def trained(
    setting: Setting,
    model: str,
    rng: np.random.Generator,
    response: Callable[[np.random.Generator, Array, str], Array] = response,
) -> PeriodSums:
    """Return sums over no rows of a model that was trained on rows before any fault."""
    _, X = drawn(setting, rng, N_TRAINING_ROWS, 0, False)
    return PeriodSums(fitted(model, X, response(rng, X, model), seed_of(rng)), kept_rows=50)


@dataclass(frozen=True, eq=False)
class Stream:
    """Days of rows of one model, in order.

    Parameters
    ----------
    empty : PeriodSums
        Of the model, over no rows.
    X : array of shape (n_days, N_ROWS, n_features)
        As the model gets them.
    y : array of shape (n_days, N_ROWS)
    """

    empty: PeriodSums
    X: Array
    y: Array

    @cached_property
    def parts(self) -> LossParts:
        """The parts of the loss of all rows."""
        X, empty = self.X.reshape(-1, self.X.shape[-1]), self.empty
        rows = batch_rows(empty.model, empty.ensemble, X, self.y.ravel(), None, empty.notes, 1, False)
        matrix = rows.table.matrix(rows.ensemble, np.arange(len(X)))
        return loss_parts(rows.ensemble, np.ascontiguousarray(matrix), rows.response)

    @cached_property
    def loss_sums(self) -> Array:
        """Sums of the parts of the loss of each day, as ``PeriodSums.loss_parts``."""
        parts = self.parts
        columns = np.column_stack([parts.loss, parts.base, parts.saved, parts.rows])
        sums = columns.reshape(len(self.y), N_ROWS, -1).sum(axis=1)
        return np.hstack([np.full((len(sums), 2), float(N_ROWS)), sums])

    @cached_property
    def prediction(self) -> Array:
        """Prediction of each row, shape as `y`."""
        model: Any = self.empty.model
        X = self.X.reshape(-1, self.X.shape[-1])
        values = model.predict_proba(X)[:, 1] if hasattr(model, "predict_proba") else model.predict(X)
        return np.asarray(values, dtype=np.float64).reshape(self.y.shape)

    @cached_property
    def means(self) -> Array:
        """Means of the response, the prediction and the residual of each day, shape (n_days, 3)."""
        means = np.column_stack([self.y.mean(axis=1), self.prediction.mean(axis=1)])
        return np.column_stack([means, means[:, 0] - means[:, 1]])

    @property
    def grouping(self) -> Grouping:
        """Each feature by itself."""
        return Grouping.of(None, self.empty.ensemble.feature_names)

    @property
    def used(self) -> NDArray[np.bool_]:
        """Whether the model has a split on each feature."""
        ensemble = self.empty.ensemble
        return np.bincount(ensemble.feature[ensemble.splits], minlength=ensemble.n_features) > 0

    def forecast(self) -> Array:
        """Return the mean loss of each day that is expected without its responses.

        Each row is expected to have the mean loss of the reference rows whose predictions are in the same tenth.
        """
        edges = np.quantile(self.prediction[:REFERENCE], np.linspace(0, 1, BINS + 1)[1:-1])
        place = np.searchsorted(edges, self.prediction)
        loss = self.parts.loss.reshape(self.y.shape)[:REFERENCE].ravel()
        known = place[:REFERENCE].ravel()
        expected = np.bincount(known, loss, BINS) / np.maximum(np.bincount(known, minlength=BINS), 1)
        forecast: Array = expected[place].mean(axis=1)
        return forecast

    def sums(self, day: int) -> PeriodSums:
        """Return the sums at leaves of a day, as a history keeps them."""
        sums, empty = self.empty.empty(), self.empty
        sums.add_rows(batch_rows(empty.model, empty.ensemble, self.X[day], self.y[day], None, empty.notes, 1, False))
        return sums


def above_chart(loss: Array, n: int) -> bool:
    """Return whether the mean loss of the last days is above a control chart.

    Parameters
    ----------
    loss : array of shape (n_days,)
    n : int
        Number of days that are known.
    """
    limit = loss[:REFERENCE].mean() + CHART_LIMIT * loss[:REFERENCE].std(ddof=1) / np.sqrt(RECENT)
    return bool(loss[n - RECENT : n].mean() > limit)


def by_column(before: Array, after: Array, looks: int) -> tuple[set[int], set[int]]:
    """Return the columns with a large population stability index, and those that differ by Kolmogorov's test.

    Parameters
    ----------
    before, after : array of shape (n_rows, n_features)
    looks : int
        Number of looks that share the error rate of the test, with the columns (Bonferroni).
    """
    from scipy.stats import ks_2samp

    large, differ = set(), set()
    for column, (one, other) in enumerate(zip(before.T, after.T, strict=True)):
        edges = np.quantile(one, np.linspace(0, 1, BINS + 1)[1:-1])
        shares = [
            np.maximum(np.bincount(np.searchsorted(edges, values), minlength=BINS) / values.size, 1e-4)
            for values in (one, other)
        ]
        if ((shares[1] - shares[0]) * np.log(shares[1] / shares[0])).sum() > LARGE_INDEX:
            large.add(column)
        if ks_2samp(one, other, method="asymp").pvalue <= ALPHA / looks / before.shape[1]:
            differ.add(column)
    return large, differ


def costs(loss_sums: Array) -> Array:
    """Return the mean loss, base and cost of each feature, by day."""
    n_features = (loss_sums.shape[1] - BEFORE_PARTS) // 2
    mean = loss_sums[:, 2:] / loss_sums[:, :1]
    return np.column_stack([mean[:, :2], -mean[:, 2 : 2 + n_features]])
