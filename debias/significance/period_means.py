"""The means of the response, the prediction and the residual of periods: whether they differ between two windows.

This comes before any question about features. If the mean residual of a period moves (a sensor is stuck, a price rose),
every column that is nearly the same for all rows of a period follows it, and seems to have become important.

The residual is the response minus the prediction, or the negative gradient of the loss there. A period varies around
the mean of its window as the periods of the reference window do, and more if it has fewer rows.

Means of few rows of a skewed response are skewed, as those of a rare class or of claims are, and the largest of many is
then far from what it would be if they were normal. So each p-value is the larger of two:

- of Student's t distribution. If the rows of recent periods differ more among themselves than those of the reference
  do, the means of these periods are taken to vary more: one row far from the others is no change.
- of Pearson's distribution of type III with the skewness of the statistic. The skewness of a period is that of the
  periods of the reference.

One odd day in the reference makes all of this blind. So the ranks of the periods of both windows are compared too: if
every recent day lies above the usual ones, that is no chance, whatever the distribution is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from debias.results.windows import MeanOfPeriods, not_judged_mean
from debias.trees.ensemble import numbered_outputs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from debias.rows.period_sums import PeriodSums
    from debias.trees.ensemble import TreeEnsemble

    Array = NDArray[np.float64]

OF = ("response", "prediction", "residual")
ENOUGH_PERIODS = 8
"""With fewer periods in the reference window, it is not known how much means of periods vary."""
ROUNDING = 1e-9
"""Deviations that are smaller, relative to the largest mean, are rounding errors."""
OF_SKEWNESS = 1.5
"""Some dozen values seldom have one from the long tail of their distribution, so their skewness is smaller than that of
it, and is multiplied by this number."""


@dataclass(frozen=True, eq=False)
class PeriodMeans:
    """Means of periods.

    Parameters
    ----------
    weight : array of shape (n_periods,)
    mean : array of shape (n_periods, 3, n_outputs)
        Of the response, the prediction and the residual. For boosted trees the first two are less a constant.
    variance : array of shape (n_periods, 3, n_outputs), optional
        Of these means, by the differences between the rows of a period. NaN where it is not known.
    """

    weight: Array
    mean: Array
    variance: Array | None = None


@dataclass(frozen=True, eq=False)
class MeansComparison:
    """Whether the means of two windows differ. Arrays have one entry for each of OF.

    Parameters
    ----------
    before, after : array of shape (3,)
        Means of the output whose mean changed with the smallest p-value.
    p_value : array of shape (3,)
        Of the window, of the ranks of its periods, and of each of them alone, with Bonferroni's bound over these and
        over outputs. NaN if the reference window has fewer than 8 periods.
    changed : array of bool of shape (3,)
    most : tuple of int
        Position, in the recent window, of the period that deviates most.
    most_mean : array of shape (3,)
        Mean of that period.
    alone : array of bool of shape (3,)
        Whether the p-value is that of a single period, and the window as a whole shows no change.
    output : tuple of int
        The output that the numbers are of.
    n_outputs : int
    has_outliers : array of bool of shape (3,)
        Whether few periods of the reference lie far from the others, so that only larger changes are found.
    is_constant : bool
        Whether an output of the response is the same in all periods of the reference: it is not judged, nor is its
        residual.
    by_few_rows : array of bool of shape (3,)
        Whether the means would differ if the rows of recent periods differed among themselves as usual. They differ
        more, so that few rows may make the difference: it is not judged, and the p-value is NaN.
    """

    before: Array
    after: Array
    p_value: Array
    changed: NDArray[np.bool_]
    most: tuple[int, ...]
    most_mean: Array
    alone: NDArray[np.bool_]
    output: tuple[int, ...]
    n_outputs: int
    has_outliers: NDArray[np.bool_]
    is_constant: bool
    by_few_rows: NDArray[np.bool_]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know where a mean is not judged, or no change of the mean residual was found."""
        k = OF.index("residual")
        texts = []
        if self.is_constant and np.isnan(self.p_value[k]):
            texts.append(f"{not_judged_mean(OF[k])}{CONSTANT}")
        elif self.by_few_rows[k]:
            texts.append(f"{not_judged_mean(OF[k])}{BY_FEW_ROWS}")
        elif self.has_outliers[k] and not self.changed[k]:
            texts.append(OUTLIERS)
        because = THE_SAME if self.by_few_rows[k] else BY_FEW_ROWS
        return *texts, *(f"{not_judged_mean(OF[j])}{because}" for j in np.flatnonzero(self.by_few_rows) if j != k)

    def of(self, k: int, times: Sequence[str], names: Sequence[str]) -> MeanOfPeriods:
        """Return what was found of one of OF.

        Parameters
        ----------
        k : int
        times : sequence of str
            How the recent periods are called.
        names : sequence of str
            How the outputs of the model are called, see :func:`names_of_outputs`.
        """
        return MeanOfPeriods(
            OF[k],
            float(self.before[k]),
            float(self.after[k]),
            float(self.p_value[k]),
            bool(self.changed[k]),
            times[self.most[k]],
            most_mean=float(self.most_mean[k]),
            alone=bool(self.alone[k]),
            output=names[self.output[k]] if self.n_outputs > 1 else None,
        )


def compare_means(before: PeriodMeans, after: PeriodMeans, level: float) -> MeansComparison:
    """Compare the means of the periods of two windows.

    Parameters
    ----------
    before, after : PeriodMeans
    level : float
        Largest p-value of a change.
    """
    centre, recent = (np.average(each.mean, axis=0, weights=each.weight) for each in (before, after))
    n_after, n_outputs = after.weight.size, centre.shape[1]
    deviation = after.mean - centre
    p_each = np.full((n_after + 1, *centre.shape), np.nan)
    far, by_few_rows = np.abs(deviation), np.zeros(len(OF), dtype=bool)
    if before.weight.size >= ENOUGH_PERIODS:
        known, p_of_ranks = _Reference(before, centre), _p_of_ranks(before, after)
        more = known.varies_more(after)
        p_one = _p_of_each(known, after, more, p_of_ranks)
        p_each = np.minimum(p_one * (n_after + 1) * n_outputs, 1.0)
        far = -p_one[:-1]
        p_each[:, not_known(before)] = np.nan
        if (more > 1).any():
            # Whether it is only because the rows of recent periods differ more that no change is found.
            as_usual = _p_of_each(known, after, np.ones_like(more), p_of_ranks) * (n_after + 1) * n_outputs
            as_usual[np.isnan(p_each)] = np.nan
            by_few_rows = (as_usual <= level).any(axis=(0, 2)) & ~(p_each <= level).any(axis=(0, 2))
    smallest = p_each.min(axis=0)  # (3, n_outputs)
    output = np.argmin(np.where(np.isnan(smallest), np.inf, smallest), axis=1)
    # Of an output that is not judged nobody knows whether it changed.
    unknown = np.isnan(smallest).any(axis=1) & ~(smallest.min(axis=1, where=~np.isnan(smallest), initial=2.0) <= level)
    output = np.where(unknown, np.isnan(smallest).argmax(axis=1), output)
    at = np.arange(len(OF))
    p_value, of_window = smallest[at, output], p_each[-1, at, output]
    largest = np.maximum(*(np.abs(each.mean).max(axis=(0, 1)) for each in (before, after)))
    most = [int(np.argmax(far[:, k, j])) for k, j in enumerate(output)]
    return MeansComparison(
        *without_rounding(centre[at, output], recent[at, output], largest[output]),
        np.where(by_few_rows, np.nan, p_value),
        p_value <= level,
        tuple(most),
        after.mean[most, at, output],
        (of_window > p_value) & (of_window > level),
        tuple(output.tolist()),
        centre.shape[1],
        (excess_kurtosis(before.mean - centre) > HEAVY)[at, output],
        bool(not_known(before).any()) and before.weight.size >= ENOUGH_PERIODS,
        by_few_rows,
    )


def _p_of_each(known: _Reference, after: PeriodMeans, more: Array, p_of_ranks: Array) -> Array:
    """Return p-values of each recent period, and of all together, shape (n_periods + 1, 3, n_outputs)."""
    p_value = np.empty((after.weight.size + 1, *known.centre.shape))
    for k, weight in enumerate(after.weight):
        one = slice(k, k + 1)
        p_value[k] = known.p_values(after.mean[k] - known.centre, np.ones(1), np.array([weight]), more[one])
    apart = np.average(after.mean, axis=0, weights=after.weight) - known.centre
    of_all = known.p_values(apart, after.weight / after.weight.sum(), after.weight, more)
    p_value[-1] = np.minimum(2 * np.minimum(of_all, p_of_ranks), 1.0)
    return p_value


def not_known(before: PeriodMeans) -> NDArray[np.bool_]:
    """Return for each of OF and each output whether a reference hides how much its means vary.

    So it is of an output of the response that is the same in all periods, up to rounding, such as a class without rows,
    and of its residual. That varies with the predictions only, and far less than with the first rows of the class.
    """
    response = before.mean[:, OF.index("response")]
    is_constant = np.ptp(response, axis=0) <= ROUNDING * np.abs(response).max(axis=0)
    return np.stack([is_constant & (of != "prediction") for of in OF])


def _p_of_ranks(before: PeriodMeans, after: PeriodMeans) -> Array:
    """Return p-values of the test of Mann and Whitney, shape (3, n_outputs); 1 if periods are of other sizes.

    Means of fewer rows of a skewed response have another median.
    """
    from scipy.stats import mannwhitneyu

    sizes = [float(np.median(each.weight)) for each in (before, after)]
    if max(sizes) > ALIKE * min(sizes):
        return np.ones(before.mean.shape[1:])
    with np.errstate(divide="ignore", invalid="ignore"):  # where all periods are equal
        p_value = mannwhitneyu(before.mean, after.mean, method="asymptotic").pvalue
    return np.where(np.isnan(p_value), 1.0, p_value)


class _Reference:
    """How the means of the periods of a reference window vary, for each of OF and each output.

    Parameters
    ----------
    before : PeriodMeans
    centre : array of shape (3, n_outputs)
        Their mean.
    """

    def __init__(self, before: PeriodMeans, centre: Array) -> None:
        self.centre = centre
        # The usual number of rows: one period of very many rows is not the measure of the others.
        self._size, self._n = float(np.median(before.weight)), before.weight.size
        self._share, self._rows = before.weight / before.weight.sum(), self._of_rows(before.weight)
        self._unit = np.maximum(np.abs(before.mean).max(), np.finfo(float).tiny)  # squares stay within floats
        values = (before.mean - centre) / self._unit / np.sqrt(self._rows)[:, None, None]
        self._squares = np.maximum((values**2).sum(axis=0) / (self._n - 1), ROUNDING**2)
        second, third = ((values**k).mean(axis=0) for k in (2, 3))
        varies = second > ROUNDING**2
        second = np.where(varies, second, 1.0)
        unbiased = np.sqrt(self._n * (self._n - 1)) / (self._n - 2)
        self._skewness = np.where(varies, OF_SKEWNESS * unbiased * third / second**1.5, 0.0)
        within = self._of_rows_within(before)
        is_known = np.isfinite(within)
        number = is_known.sum(axis=0)
        total = np.where(is_known, within, 0.0).sum(axis=0)
        self._within = np.divide(total, number, out=np.full(total.shape, np.nan), where=number > 0)

    def varies_more(self, after: PeriodMeans) -> Array:
        """Return by how much the means of periods are taken to vary more, because their rows do.

        Shape (n_periods, 3, n_outputs); 1 where it is not known. The variance of a mean is that of what the rows of a
        period share, and that of independent rows. If the latter grows, the former need not: the whole grows by the
        difference at most. Where the rows are the same in every period, and differ among themselves by far more than
        the means do, it grows by the ratio.
        """
        within = self._of_rows_within(after)
        known = np.isfinite(within) & np.isfinite(self._within)
        usual = np.where(known, self._within, 1.0)
        ratio = np.divide(within, usual, out=np.full_like(within, np.inf), where=usual > 0)
        by_difference = 1 + (within - usual) / self._squares
        more: Array = np.where(known, np.minimum(ratio, by_difference), 1.0)
        return more

    def _of_rows_within(self, periods: PeriodMeans) -> Array:
        """Return the variances within periods, for the usual number of rows, in the unit of the squares."""
        if periods.variance is None:
            return np.full_like(periods.mean, np.nan)
        return periods.variance / self._unit / self._unit / self._of_rows(periods.weight)[:, None, None]

    def p_values(self, apart: Array, share: Array, weight: Array, more: Array) -> Array:
        """Return two-sided p-values, shape (3, n_outputs), of the mean of some periods less the centre.

        Parameters
        ----------
        apart : array of shape (3, n_outputs)
        share : array of shape (n_periods,)
            Shares of the periods in their mean.
        weight : array of shape (n_periods,)
            Weights of their rows.
        more : array of shape (n_periods, 3, n_outputs)
            From :meth:`varies_more`.
        """
        from scipy.special import gammaincc, ndtri, stdtr

        rows = self._of_rows(weight)
        # Cumulants of a sum of independent periods. That of order k of a mean of n rows goes with n^(1 - k).
        of_centre = (self._share**2 * self._rows).sum()
        variance = (share**2 * rows).sum() + of_centre
        larger = np.maximum(np.tensordot(share**2 * rows, more, axes=1) + of_centre, variance)
        third = (share**3 * rows**2).sum() - (self._share**3 * self._rows**2).sum()
        t = np.clip(apart / self._unit, -FAR, FAR) / np.sqrt(self._squares * variance)
        skewness = np.maximum(np.sign(t) * self._skewness * third / variance**1.5, 0.0)
        shape = 4 / np.maximum(skewness, NOT_SKEWED) ** 2
        z = -ndtri(stdtr(self._n - 1, -np.abs(t)))
        tail = np.where(skewness > NOT_SKEWED, gammaincc(shape, shape + np.minimum(z, FAR) * np.sqrt(shape)), 0.0)
        of_student = stdtr(self._n - 1, -np.abs(t) * np.sqrt(variance / larger))
        p_value: Array = np.minimum(2 * np.maximum(of_student, tail), 1.0)
        return p_value

    def _of_rows(self, weight: Array) -> Array:
        """Return by how much a period varies more than one of the usual number of rows.

        A period of more rows is not taken to vary less: what its rows share does not average out.
        """
        rows: Array = np.maximum(self._size / weight, 1.0)
        return rows


ALIKE = 1.5
"""Periods are of other sizes if the usual one of a window has more than so many times the rows of the other's."""
CONSTANT = (
    "the response is the same in all periods of the reference, so it does not show how much means vary. Choose a "
    "reference in which it varies"
)
BY_FEW_ROWS = (
    "the recent mean differs from that of the reference, but rows of the recent periods differ among themselves by "
    "more than those of the reference do, so that few rows may be the reason. Look at the rows with the largest "
    "errors. If they are wrong, mend them, and replace the periods"
)
THE_SAME = "few rows may be the reason that it differs, as for the mean residual"
OUTLIERS = (
    "the mean residuals of few periods of the reference lie far from the others, so only larger changes of it are "
    "found. If something was wrong in these periods, choose a reference without them"
)
HEAVY = 3.0
"""Excess kurtosis of the double exponential distribution. A reference with heavier tails has outliers."""
NOT_SKEWED = 1e-3
"""Pearson's distribution with a smaller skewness is normal."""
FAR = 1e100
"""A larger z has a p-value of 0."""


def excess_kurtosis(deviation: Array) -> Array:
    """Return the excess kurtosis over the first axis of deviations from a centre; 0 where nothing varies."""
    largest = np.abs(deviation).max(axis=0)
    values = deviation / np.where(largest > 0, largest, 1.0)  # fourth powers stay within floats
    second = (values**2).mean(axis=0)
    fourth = (values**4).mean(axis=0)
    excess: Array = np.where(largest > 0, fourth / np.where(largest > 0, second, 1.0) ** 2 - 3, 0.0)
    return excess


def names_of_outputs(ensemble: TreeEnsemble | None, n_outputs: int) -> tuple[str, ...]:
    """Return how the outputs of a model are called; a model that is not known, such as that of a file, has numbers."""
    if ensemble is None or ensemble.n_outputs != n_outputs:
        return numbered_outputs(n_outputs)
    of_one_set = ensemble.classes is not None and ensemble.class_sets is None
    return tuple(f"class {name}" if of_one_set else name for name in ensemble.output_names)


def without_rounding(before: Array, after: Array, largest: Array) -> tuple[Array, Array]:
    """Return means of two windows without what is rounding error of their sums.

    Means of the same rows in another order are equal then, and a mean that is 0 but for rounding is 0.

    Parameters
    ----------
    before, after : array
    largest : array
        Largest mean of a period, in size, of the same output.
    """
    tiny = ROUNDING * largest
    after = np.where(np.abs(after - before) <= tiny, before, after)
    return np.where(np.abs(before) <= tiny, 0.0, before), np.where(np.abs(after) <= tiny, 0.0, after)


def means_of(sums: PeriodSums) -> Array:
    """Return the means of a period, shape (3, n_outputs), see :class:`PeriodMeans`."""
    ensemble, means = sums.ensemble, _as_added(sums)
    if ensemble.averaged and sums.s.shape[1] == ensemble.n_outputs:
        means[:2] += ensemble.centre
    return _without_mirrored(means, ensemble)


def variances_of(sums: PeriodSums) -> Array:
    """Return the variances of the means of a period by the differences between its rows, see :class:`PeriodMeans`."""
    return _without_mirrored(sums.variances_of_means(_as_added(sums)), sums.ensemble)


def _as_added(sums: PeriodSums) -> Array:
    """Return the means of the values that are added up at the nodes: those of forests are less a constant."""
    ensemble = sums.ensemble
    roots = ensemble.tree_start[:-1]
    if sums.s.shape[1] == ensemble.n_outputs:
        response, residual = sums.s[roots[0]], sums.residual[roots[0]]
    else:  # each tree has one output
        first = [int(np.argmax(ensemble.tree_output == output)) for output in range(ensemble.n_outputs)]
        response, residual = sums.s[roots[first], 0], sums.residual[roots[first], 0]
    means: Array = np.stack([response, response - residual, residual]) / sums.total_weight
    return means


def _without_mirrored(means: Array, ensemble: TreeEnsemble) -> Array:
    """Return what is known of the means of each output; the two classes of a forest mirror each other."""
    return means[:, 1:] if ensemble.averaged and ensemble.is_classifier and ensemble.n_outputs == 2 else means
