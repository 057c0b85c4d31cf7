"""The change of the mean loss between two windows of periods, divided into the base and each feature, with errors.

Periods are the units: means over rows are compared, and their standard errors are from the differences between periods.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from debias.data.groups import Grouping
from debias.p_values import holm_of_known
from debias.results.loss_change import LossChange, PartOfLoss
from debias.rows.period_sums import BEFORE_PARTS, group_variance
from debias.significance.period_means import ENOUGH_PERIODS
from debias.text import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

FEW_COUNT = 3.0
"""With fewer degrees of freedom only large changes of the loss are found."""
ROUNDING = 1e-12
"""A smaller standard error, relative to the loss, is 0 up to rounding."""


@dataclass(frozen=True, eq=False)
class PeriodLosses:
    """The parts of the loss of the periods of a window.

    Parameters
    ----------
    sums : array of shape (n_periods, 4 + 2 n_features)
        Of the periods whose loss was divided, as ``PeriodSums.loss_parts``.
    group : array of int64 of shape (n_periods,)
        Their groups of consecutive periods, which are left out together.
    n_periods : int
        Number of periods of the window, also of those without parts.
    metrics : tuple of str
        The losses, each once.
    reasons : tuple of str
        Why other periods have no parts, each reason once.
    """

    sums: Array
    group: NDArray[np.int64]
    n_periods: int
    metrics: tuple[str, ...]
    reasons: tuple[str, ...]


class HasLossParts(Protocol):
    """A period whose loss was divided, or why it was not: ``PeriodSums``, or what is known without sums at leaves."""

    @property
    def loss_parts(self) -> Array | None:
        """Sums over rows of the parts of the loss; None if they are not those of all rows."""

    @property
    def metric(self) -> str | None:
        """Name of the loss; None if it is not divided."""

    @property
    def no_loss(self) -> str | None:
        """Why it is not divided; None if it is."""


class LossesOfPeriods:
    """Collects the parts of the loss of periods.

    Parameters
    ----------
    n_features : int
    """

    def __init__(self, n_features: int) -> None:
        self._sums: list[Array] = []
        self._group: list[int] = []
        self._n_features, self._n_periods = n_features, 0
        self._metrics: dict[str, None] = {}
        self._reasons: dict[str, None] = {}

    def add(self, period: HasLossParts, group: int) -> None:
        """Add a period, and the number of its group."""
        self._n_periods += 1
        parts = period.loss_parts
        if parts is None or period.metric is None:
            self._reasons[period.no_loss or "they were added without parts of the loss"] = None
            return
        self._sums.append(parts)
        self._group.append(group)
        self._metrics[period.metric] = None

    def collected(self) -> PeriodLosses:
        """Return the parts of all periods that were added."""
        sums = np.array(self._sums).reshape(-1, BEFORE_PARTS + 2 * self._n_features)
        group = np.array(self._group, dtype=np.int64)
        return PeriodLosses(sums, group, self._n_periods, tuple(self._metrics), tuple(self._reasons))


def compare_losses(
    before: PeriodLosses, after: PeriodLosses, grouping: Grouping, used: NDArray[np.bool_], level: float
) -> tuple[LossChange | None, str | None]:
    """Compare the mean losses of two windows, and their parts.

    Parameters
    ----------
    before, after : PeriodLosses
    grouping : Grouping
        Groups of features. What they save is summed.
    used : array of bool of shape (n_groups,)
        Whether the model has a split on the group. Others save nothing, and are not tested.
    level : float
        Largest adjusted p-value of a feature that costs more.

    Returns
    -------
    (LossChange or None, str or None)
        The second is why there is no comparison, or that it lacks periods.
    """
    windows = (before, after)
    reasons = dict.fromkeys((*before.reasons, *after.reasons))
    missing = [window.n_periods - len(window.sums) for window in windows]
    if not all(len(window.sums) for window in windows) or {*before.metrics} != {*after.metrics}:
        where = " and ".join(
            f"{counted(number, f'{name} period')}"
            for number, name in zip(missing, ("reference", "recent"), strict=True)
            if number
        )
        return None, f"{where} without parts of the loss: {'; '.join(reasons)}" if where else "their losses differ"
    means, variance, freedom = estimates(windows, grouping)
    change, error = means[1] - means[0], np.sqrt(variance)
    error[error <= ROUNDING * abs(means[0][0])] = np.nan
    n = len(grouping.names)
    at = {name: slice(2 + k * n, 2 + (k + 1) * n) for k, name in enumerate(("cost", "rows", "response"))}
    p_cost = np.where(used, _above(change, error, freedom)[at["cost"]], np.nan)
    adjusted = holm_of_known(p_cost)
    statistics = {
        "saved_before": -means[0][at["cost"]],
        "saved_after": -means[1][at["cost"]],
        "cost": change[at["cost"]],
        "error": error[at["cost"]],
        "rows_cost": change[at["rows"]],
        "rows_error": error[at["rows"]],
        "response_cost": change[at["response"]],
        "response_error": error[at["response"]],
        "p_value": p_cost,
        "p_adjusted": adjusted,
    }
    loss, base = (
        PartOfLoss(float(means[0][k]), float(means[1][k]), float(error[k]), float(freedom[k])) for k in (0, 1)
    )
    found = LossChange(
        metric=before.metrics[0],
        feature_names=grouping.names,
        loss=loss,
        base=base,
        level=level,
        n_periods=(len(before.sums), len(after.sums)),
        n_rows=(int(before.sums[:, 1].sum()), int(after.sums[:, 1].sum())),
        statistics=statistics,
        p_response=_p_of_response(windows, two_sided(change / error, freedom)[at["response"]][used]),
    )
    lacking = [
        f"{number:,} of {counted(window.n_periods, f'{name} period')}"
        for number, window, name in zip(missing, windows, ("reference", "recent"), strict=True)
        if number
    ]
    return found, f"{' and '.join(lacking)} without parts of the loss: {'; '.join(reasons)}" if lacking else None


def two_sided(t: Array, freedom: Array | float) -> Array:
    """Return two-sided p-values of Student's t."""
    from scipy.special import stdtr

    p: Array = 2 * stdtr(freedom, -np.abs(t))
    return p


def _p_of_response(windows: tuple[PeriodLosses, PeriodLosses], of_features: Array) -> float | None:
    """Return the smallest p-value that what features cost by the response differs, of each (Holm) or of their sum.

    Parameters
    ----------
    windows : (PeriodLosses, PeriodLosses)
    of_features : array of shape (n_used,)
        P-values of the features, not adjusted.
    """
    n_features = (windows[0].sums.shape[1] - BEFORE_PARTS) // 2
    together = Grouping(("all features",), np.zeros(n_features, dtype=np.int64))
    means, variance, freedom = estimates(windows, together)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (means[1] - means[0]) / np.sqrt(variance)
    p = np.append(holm_of_known(of_features), two_sided(t, freedom)[-1])
    known = p[np.isfinite(p)]
    return float(known.min()) if known.size else None


def estimates(windows: tuple[PeriodLosses, PeriodLosses], grouping: Grouping) -> tuple[list[Array], Array, Array]:
    """Return means of both windows, the variances of their differences, and the degrees of freedom of these.

    Parameters
    ----------
    windows : (PeriodLosses, PeriodLosses)
    grouping : Grouping

    Returns
    -------
    (list of two arrays, array, array)
        Each array has the loss, the base, and for all features their cost (minus what they save), that by the rows, and
        that by the response: shape (2 + 3 n_groups,).
    """
    weights = [window.sums[:, 0] for window in windows]
    values = [mean_parts(window.sums, grouping) for window in windows]
    means = [weight @ value / weight.sum() for weight, value in zip(weights, values, strict=True)]
    joined = [_joined(window) for window in windows]
    enough = [len(each) >= ENOUGH_PERIODS for each in joined]
    own = [variance_of_mean(mean_parts(each, grouping), each[:, 0], each[:, 1]) for each in joined]
    variance = own[0][0] + own[1][0]
    if all(enough):
        squares = own[0][0] ** 2 / own[0][1] + own[1][0] ** 2 / own[1][1]
        welch = np.divide(variance**2, squares, out=np.ones_like(variance), where=squares > 0)
        return means, variance, welch
    if not any(enough):
        return means, np.full_like(variance, np.nan), np.ones_like(variance)
    # The periods of the shorter window are taken to vary as those of the other one do, or more if they are seen to.
    few, many = (0, 1) if enough[1] else (1, 0)
    carried, freedom = _carried(values[many], weights[many], weights[few])
    return means, own[many][0] + np.fmax(own[few][0], carried), np.full_like(variance, freedom)


def few_periods_count(losses: tuple[PeriodLosses, PeriodLosses]) -> list[str]:
    """Return a warning for each window of which few periods decide the mean loss and its error."""
    texts = []
    for window, name in zip(losses, ("reference", "recent"), strict=True):
        joined = _joined(window)
        if len(joined) < ENOUGH_PERIODS:
            continue
        _, freedom = variance_of_mean(joined[:, 2:3], joined[:, 0], joined[:, 1])
        if freedom < FEW_COUNT:
            texts.append(
                f"few of the {name} periods have most of the rows. So the standard error of the mean loss is known as "
                f"if from {1 + freedom:.2g} periods, and only large changes are found. Choose periods that have about "
                "as many rows as one another"
            )
    return texts


def mean_parts(sums: Array, grouping: Grouping) -> Array:
    """Return the means of periods: loss, base, and for features minus what they save, in all, by rows, by response."""
    n_features = grouping.index.size
    mean = sums / sums[:, :1]
    saved, rows = (
        grouping.sum_columns(mean[:, begin : begin + n_features]) for begin in (BEFORE_PARTS, BEFORE_PARTS + n_features)
    )
    return np.hstack([mean[:, 2:BEFORE_PARTS], -saved, -rows, rows - saved])


def _joined(window: PeriodLosses) -> Array:
    """Return the sums of groups of consecutive periods."""
    groups, at = np.unique(window.group, return_inverse=True)
    sums = np.zeros((groups.size, window.sums.shape[1]))
    np.add.at(sums, at, window.sums)
    return sums


def variance_of_mean(values: Array, weight: Array, n_rows: Array | None = None) -> tuple[Array, float]:
    """Return the variance of a weighted mean over units, and its degrees of freedom; by leaving out one at a time.

    The variance is unbiased for independent rows. If the values of a unit are those of a sample of its rows only, its
    part of the variance is larger than its weight tells.

    Parameters
    ----------
    values : array of shape (n_units, n_values)
    weight : array of shape (n_units,)
    n_rows : array of shape (n_units,), optional
        Number of rows that the values of each unit come from. By default it goes with the weight.
    """
    share = weight / weight.sum()
    if weight.size < 2:
        return np.full(values.shape[1], np.nan), 1.0
    mean = share @ values
    without = (mean - share[:, None] * values) / (1 - share[:, None])
    if n_rows is None:
        return group_variance(mean, without, share)
    # Deviation g is share x (value less the mean of the others). Of its expected square, the own part is to be counted.
    of_unit = share**2 / n_rows
    of_others = (of_unit.sum() - of_unit) * (share / (1 - share)) ** 2
    variance = np.tensordot(of_unit / (of_unit + of_others), (mean - without) ** 2, axes=1)
    part = of_unit / of_unit.sum()
    return variance, max(1.0, 1 / float((part**2).sum()) - 1)


def _carried(values: Array, weight: Array, other: Array) -> tuple[Array, float]:
    """Return the variance of the mean of other periods, if they vary as these do, and more if they have fewer rows.

    Periods of more rows than is usual are not taken to vary less, as for :mod:`debias.significance.period_means`.
    """
    share, size = weight / weight.sum(), np.median(weight)
    more = np.maximum(size / weight, 1.0)
    squares = ((values - share @ values) ** 2 / more[:, None]).sum(axis=0) / (weight.size - 1)
    of_other = other / other.sum()
    return squares * float((of_other**2 * np.maximum(size / other, 1.0)).sum()), float(weight.size - 1)


def _above(change: Array, error: Array, freedom: Array) -> Array:
    """Return one-sided p-values of an increase; NaN where the standard error is not known."""
    from scipy.special import stdtr

    with np.errstate(divide="ignore", invalid="ignore"):
        p: Array = stdtr(freedom, -change / error)
    return p
