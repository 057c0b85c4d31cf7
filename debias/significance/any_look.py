"""Tests of means of periods that hold at any look, however often and whenever one looks.

Periods after a fixed reference are compared with it. A change may have begun in any week j = 0, 1, 2, ... after the
reference. For each of these starts, the Bayes factor BF_j compares the mean of all periods since then with that of the
reference. Start j has the share 52 / ((52 + j) (53 + j)) of the error rate; these add up to 1 over all j. The p-value
is the smallest 1 / (share_j BF_j).

If units are independent and normal with one variance and mean, each BF_j is a martingale that begins with 1, so that
it ever reaches 1 / (share_j alpha) with a probability of at most share_j alpha (Ville 1939). The p-value is then at
most alpha, at whatever look, with a probability of at most alpha.

A *unit* is a period. Where the periods of the reference depend on those before them, it is a week of periods; that is
chosen for each mean, from the reference alone.

Where few units of the reference lie far from the others, means of units are not nearly normal. Then the normal scores
of their ranks among the reference are compared, by the same Bayes factors. One unit that lies far from all others is no
evidence then, and many that lie a little higher are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from debias.results.any_look import ROUNDING, RankedUnits, Starts
from debias.significance.period_means import ALIKE, excess_kurtosis

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Integers = NDArray[np.int64]

ENOUGH_UNITS = 8
"""A reference of fewer units does not show how much they vary: nothing is judged then."""
STARTS = 52
"""Half of the error rate is for the starts of so many weeks, and the rest for all later ones."""
MEMORY = 0.1
"""Periods have a memory if the correlation of each with the next one is larger in the reference."""
IN_A_WEEK = 4
"""Weeks of fewer periods do not join enough of them to lose a memory: such means are not judged."""
OF_TAILS = 2.0
"""Some dozen values seldom have one from the tails of their distribution, so their excess kurtosis is smaller than that
of it, and is multiplied by this number."""
LEVEL, TARGET = 0.05 / 10 / (STARTS + 1), 30
"""The prior makes the difference that is found at this level after so many periods as small as it can be."""
LAST_WEEKS = 4
"""Ranks are compared only as long as units of so many last weeks have about as many rows as those of the reference."""
ENOUGH_FOR_TAILS = 14
"""Of so many units, small and large ones are compared too, and of fewer the median only."""
TIED, ALIKE_TIES = 0.25, 1.05
"""If a larger part of the units of the reference have one mean, as those of rare events, the numbers of rows must be
more alike: they would break the ties."""
OTHER_SIZES = (
    "few periods of the reference lie far from the others, so that only the ranks of periods can be compared, and "
    "later ones have other numbers of rows. Wait for the responses of all their rows, or choose a reference of periods "
    "of about as many rows"
)
FEW_VALUES = (
    f"most periods of the reference have the same mean, and fewer than {ENOUGH_UNITS} another one, so that it does not "
    "show how far periods lie by chance. Choose a longer reference, or add weeks in place of days"
)
RANKED_ABOVE = 2.0
"""Excess kurtosis of a reference above which ranks are compared: its effective number of units is a fifth of all then,
and less power is lost by ranks."""


@dataclass(frozen=True, eq=False)
class PeriodValues:
    """Means of periods in the order of time.

    Parameters
    ----------
    values : array of shape (n_periods, n_values)
    weight : array of shape (n_periods,)
        Number of rows of each period, or the sum of their weights.
    week : array of int64 of shape (n_periods,)
        Number of the week of each period, from 0, ascending. Of the reference, and of the periods after it, the first
        week begins where they do.
    """

    values: Array
    weight: Array
    week: Integers


@dataclass(frozen=True, eq=False)
class Evidence:
    """The evidence for a change of each of several means.

    Parameters
    ----------
    starts : sequence of (Starts or None)
        One for each mean; None if it is not judged.
    of_weeks : array of bool of shape (n_values,)
        Whether its units are weeks.
    has_outliers : array of bool of shape (n_values,)
        Whether few units of the reference lie far from the others, so that ranks are compared.
    unknown : sequence of str
        Why the reference does not show how far the units of a mean lie by chance; "" if it does, or has too few units.
    n_units : tuple of int
        Number of periods of the reference, and of its complete weeks.
    n_later_weeks : int
        Number of complete weeks after it.
    """

    starts: Sequence[Starts | None]
    of_weeks: NDArray[np.bool_]
    has_outliers: NDArray[np.bool_]
    unknown: Sequence[str]
    n_units: tuple[int, int]
    n_later_weeks: int

    @property
    def judged_by_weeks(self) -> NDArray[np.bool_]:
        """For each mean, whether it is judged, and its units are weeks."""
        return self.of_weeks & self._is_judged

    @property
    def judged_by_ranks(self) -> NDArray[np.bool_]:
        """For each mean, whether it is judged, by the ranks of its units."""
        return self.has_outliers & self._is_judged

    @property
    def _is_judged(self) -> NDArray[np.bool_]:
        return np.array([starts is not None for starts in self.starts], dtype=bool)

    def p_values(self, upward: bool) -> tuple[Array, Array, list[str]]:
        """Return p-values, differences since the start that has them, and the first periods of these starts.

        Parameters
        ----------
        upward : bool
            Whether the alternative is an increase only.

        Returns
        -------
        (array, array, list of str)
            Each of length n_values: NaN, NaN and "" where nothing is judged.
        """
        p, since = np.full((2, len(self.starts)), np.nan)
        names = [""] * len(self.starts)
        for k, starts in enumerate(self.starts):
            if starts is not None:
                p[k], first = starts.above() if upward else starts.other()
                since[k], names[k] = starts.difference_at(first), starts.since[first]
        return p, since, names


def evidence_of(before: PeriodValues, after: PeriodValues, names: Sequence[str]) -> Evidence:
    """Return the evidence that means changed after the reference.

    Parameters
    ----------
    before : PeriodValues
        The reference.
    after : PeriodValues
        All periods after it, up to now.
    names : sequence of str
        Of the periods after the reference.

    Returns
    -------
    Evidence

    Notes
    -----
    The variance of a unit is taken to be larger by the factor size / weight if its weight is below `size`, the mean of
    the reference. Units of more rows are not taken to vary less: what their rows share does not average out. Heavy
    tails of the reference count as fewer units. With an excess kurtosis above 2, the ranks of the units are compared:
    otherwise a rise of lognormal losses was found in .24 of 100 streams of 1,000 days, though nothing changed. Means
    of other numbers of rows have other distributions, so this needs units after the reference, and in the last four
    weeks (at least the last four units), that have about as many rows: the median is 1 / 1.5 to 1.5 times that of the
    reference, and so are the first and the last decile of all units after it, if there are 14. If a quarter of the
    units of the reference have one mean, as those of rare events, medians must be within 1 / 1.05 to 1.05, unless the
    numbers of rows vary so much that their difference may be chance. A mean is not judged without that, if the
    reference has fewer than 8 units, does not vary, or if more than half of its units have one mean, and fewer than 8
    another one.

    Examples
    --------
    >>> import numpy as np
    >>> from debias.significance.any_look import PeriodValues, evidence_of
    >>> rng = np.random.default_rng(1)
    >>> days = np.arange(100)
    >>> values = rng.normal(size=(100, 1)) + 2.0 * (days >= 80)[:, None]
    >>> before, after = (PeriodValues(values[at], np.ones(at.size), (at - at[0]) // 7) for at in (days[:60], days[60:]))
    >>> p_value, _, since = evidence_of(before, after, [str(day) for day in days[60:]]).p_values(upward=True)
    >>> (p_value < 1e-5).tolist(), since
    ([True], ['81'])
    """
    usual = int(np.median(np.unique(before.week, return_counts=True)[1]))
    of_periods = _Units.of(before, after, TARGET)
    memory = memory_of(before.values)
    if of_periods is not None:
        for k in np.flatnonzero(of_periods.has_outliers).tolist():  # one far period hides how alike neighbours are
            memory[k] = memory_of(of_periods.ranked[k].of_reference(before.values[:, [k]]))[0]
    weekly = memory > MEMORY
    weeks = _joined(before, usual if usual >= IN_A_WEEK else np.inf)
    later_weeks = _joined(after, usual)
    of_weeks = _Units.of(weeks, later_weeks, max(TARGET / usual, 1.0)) if weekly.any() else None
    if of_weeks is not None and of_periods is not None:  # the kurtosis of few weeks does not show far periods
        of_weeks = replace(of_weeks, has_outliers=of_weeks.varies & (of_weeks.has_outliers | of_periods.has_outliers))
    starts: list[Starts | None] = []
    has_outliers, unknown = np.zeros(weekly.size, dtype=bool), [""] * weekly.size
    for k, is_weekly in enumerate(weekly):
        units = of_weeks if is_weekly else of_periods
        if units is None or not units.varies[k]:
            starts.append(None)
            continue
        has_outliers[k], unknown[k] = units.has_outliers[k], units.unknown(k)
        starts.append(None if unknown[k] else units.starts(k, after.week, names))
    n_units = len(before.weight), len(weeks.weight)
    return Evidence(starts, weekly, has_outliers, unknown, n_units, len(later_weeks.weight))


def memory_of(values: Array) -> Array:
    """Return the correlation of each period with the next one, shape (n_values,), corrected for its bias.

    Parameters
    ----------
    values : array of shape (n_periods, n_values)
    """
    apart = values - values.mean(axis=0)
    squares = (apart**2).sum(axis=0)
    products = (apart[1:] * apart[:-1]).sum(axis=0)
    correlation = np.divide(products, squares, out=np.zeros_like(squares), where=squares > 0)
    return correlation + np.where(squares > 0, 1 / len(values), 0.0)


def prior_of(variance: float, target: float) -> float:
    """Return the variance of the true difference under the alternative, in units of that of a unit.

    Parameters
    ----------
    variance : float
        Of the mean of the reference.
    target : float
        Number of units after which the smallest difference is to be found.
    """
    from scipy.special import lambertw

    return float((variance + 1 / target) * (-lambertw(-(LEVEL**2) / np.e, -1).real - 1))


def shares_of(start: Integers) -> Array:
    """Return the share of the error rate of the starts with these numbers: they add up to 1 over 0, 1, 2, ..."""
    return STARTS / ((STARTS + start) * (STARTS + start + 1.0))


def effective_units(deviation: Array) -> Array:
    """Return the effective number of units, at least 2: as `contributions.effective_number`, with `OF_TAILS`.

    Of heavy tails few values show how much all vary.

    Parameters
    ----------
    deviation : array of shape (n_units, n_values)
        Of units of the reference from their centre.
    """
    n = len(deviation)
    number: Array = np.maximum(n / np.clip(1 + OF_TAILS * excess_kurtosis(deviation), 1.0, n), 2.0)
    return number


def _joined(periods: PeriodValues, usual: float) -> PeriodValues:
    """Return the means of weeks. The last week is left out if it has fewer periods than a week usually has.

    There are none if `usual` is infinite.
    """
    if np.isinf(usual):
        return PeriodValues(periods.values[:0], periods.weight[:0], periods.week[:0])
    week, at, count = np.unique(periods.week, return_inverse=True, return_counts=True)
    weight: Array = np.bincount(at, periods.weight, week.size).astype(np.float64)
    sums = np.zeros((week.size, periods.values.shape[1]))
    np.add.at(sums, at, periods.weight[:, None] * periods.values)
    complete = slice(week.size - bool(week.size and count[-1] < usual))
    return PeriodValues((sums / weight[:, None])[complete], weight[complete], week[complete])


@dataclass(frozen=True, eq=False)
class _Units:
    """Sums of the units after the reference from each start on, for all means at once."""

    before: PeriodValues
    after: PeriodValues
    first: Integers
    """Position of the first unit of each start that has units."""
    week: Integers
    """Week of these units."""
    varies: NDArray[np.bool_]
    """Whether each mean varies in the reference."""
    difference: Array
    squares: Array
    variance: Array
    freedom: Array
    """Shape (n_starts, n_values), as `difference` and `squares`."""
    prior: float
    has_outliers: NDArray[np.bool_]

    @classmethod
    def of(cls, before: PeriodValues, after: PeriodValues, target: float) -> _Units | None:
        """Return the sums; None if there are too few units."""
        if len(before.weight) < ENOUGH_UNITS or not len(after.weight):
            return None
        size = before.weight.mean()
        of_before, of_after = (np.minimum(each.weight / size, 1.0) for each in (before, after))
        centre = of_before @ before.values / of_before.sum()
        apart_before = np.sqrt(of_before)[:, None] * (before.values - centre)
        squares_before = (apart_before**2).sum(axis=0)
        # Of heavy tails few values show how much all vary. The reference alone tells it, so that it is fixed.
        n_before = effective_units(apart_before)
        floor = len(of_before) * (ROUNDING * np.abs(before.values).max(axis=0)) ** 2
        week, first = np.unique(after.week, return_index=True)
        apart = after.values - centre
        total, sums, squares = (
            np.cumsum((of_after[:, None] * apart**power)[::-1], axis=0)[::-1][first] for power in (0, 1, 2)
        )
        difference = sums / total
        return cls(
            before,
            after,
            first,
            week,
            squares_before > floor,
            difference,
            squares_before * (n_before / len(of_before)) + np.maximum(squares - sums * difference, 0.0),
            np.asarray(1 / of_before.sum() + 1 / total[:, 0], dtype=np.float64),
            n_before + (len(of_after) - first - 2.0)[:, None],
            prior_of(1 / of_before.sum(), target),
            (excess_kurtosis(apart_before) > RANKED_ABOVE) & (squares_before > floor),
        )

    def starts(self, k: int, week: Integers, names: Sequence[str]) -> Starts:
        """Return the evidence about one mean that varies; `week` and `names` are of the periods after the reference."""
        # A start in a week without units has the same units as the next start with some, and a larger share.
        earliest = np.concatenate([[0], self.week[:-1] + 1])
        since, share = tuple(names[at] for at in np.searchsorted(week, self.week)), shares_of(earliest)
        if self.has_outliers[k]:
            units = self.ranked[k]
            n_before, n_since = len(units.before), len(units.later) - self.first
            variance = np.asarray(1 / n_before + 1 / n_since, dtype=np.float64)
            freedom = np.asarray(n_before + n_since - 2.0, dtype=np.float64)
            return Starts(since, share, *units.scores(), variance, freedom, self.prior, units)
        return Starts(
            since,
            share,
            self.difference[:, k],
            self.squares[:, k],
            self.variance,
            self.freedom[:, k],
            self.prior,
        )

    @cached_property
    def ranked(self) -> list[RankedUnits]:
        """The units of each mean, for their ranks."""
        each = zip(np.sort(self.before.values, axis=0).T, self.after.values.T, strict=True)
        return [RankedUnits(np.ascontiguousarray(before), later, self.first) for before, later in each]

    def unknown(self, k: int) -> str:
        """Return why the reference does not show how far the units of one mean lie by chance; "" if it does."""
        units = self.ranked[k]
        n_units, most = units.before.size, units.most_equal()
        if 2 * most > n_units and n_units - most < ENOUGH_UNITS:
            return FEW_VALUES
        if not self.has_outliers[k]:
            return ""
        alike, break_ties = self._sizes
        return "" if alike and not (break_ties and units.share_tied() > TIED) else OTHER_SIZES

    @cached_property
    def _sizes(self) -> tuple[bool, bool]:
        """Whether later units have about as many rows as those of the reference, and whether they would break ties.

        Units of all weeks by the median, and the first and the last decile; those of the last weeks by the median.
        """
        in_last_weeks = self.after.week > self.after.week[-1] - LAST_WEEKS
        in_last_weeks[-LAST_WEEKS:] = True  # also of months
        usual, later = self.before.weight, self.after.weight
        last = later[in_last_weeks]
        tails = [0.1, 0.9] if min(later.size, usual.size) >= ENOUGH_FOR_TAILS else []
        ratios = [_ratio(later, usual, at) for at in (0.5, *tails)]
        breaks = any(_ratio(each, usual, 0.5) > ALIKE_TIES and _differ(each, usual) for each in (later, last))
        return max(*ratios, _ratio(last, usual, 0.5)) <= ALIKE, breaks


def _ratio(sizes: Array, usual: Array, at: float) -> float:
    """Return the ratio of a quantile of two samples of numbers of rows, 1 or above."""
    one, other = (float(np.quantile(each, at)) for each in (sizes, usual))
    return max(one, other) / min(one, other)


def _differ(sizes: Array, usual: Array) -> bool:
    """Return whether numbers of rows differ beyond chance: those that vary break ties at random."""
    from scipy.stats import mannwhitneyu

    return bool(np.ptp(np.append(sizes, usual)) > 0 and mannwhitneyu(sizes, usual, method="asymptotic").pvalue <= 0.05)
