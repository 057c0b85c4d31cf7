"""What holds at any look: the evidence for a change of a mean by the week in which it may have begun."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.p_values import log_bayes_factor
from debias.results.fields import plain_numbers
from debias.results.sentences import in_a_row
from debias.results.vocabulary import error_rate_in_words
from debias.text import counted, escaped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

ANY = "any"
"""The value of `looks` for any number of looks."""
NOT_AT_ANY_LOOK = "its tests hold for a planned number of looks only, such as 365"
"""Why something is not judged with any number of looks."""
MOST_NAMED = 5
THE_LOSS = "the loss"
"""How `AnyLook` calls the loss."""
ROUNDING = 1e-9
"""Differences that are smaller, relative to the largest mean of the reference, are rounding errors."""
MOST_PAIRED = 1000
"""Differences of pairs of units are computed of at most so many units of each window."""
EQUAL = 0.1
"""Units whose ranks are compared are equal if they differ by less than this part of the spread of the reference."""


@dataclass(frozen=True, eq=False)
class Starts:
    """The evidence that a mean changed, for each start: a week in which the change may have begun.

    Parameters
    ----------
    since : tuple of str
        First period of each start.
    share : array of shape (n_starts,)
        Share of the error rate of each start.
    difference : array of shape (n_starts,)
        Mean since the start, less that of the reference.
    squares : array of shape (n_starts,)
        Sum of squares about the two means. This and the difference are those of normal scores if there are `units`.
    variance : array of shape (n_starts,)
        Variance of the difference if a unit has variance 1.
    freedom : array of shape (n_starts,)
        Degrees of freedom of the squares.
    prior : float
        Variance of the true difference under the alternative, in units of that of a unit.
    units : RankedUnits, optional
        The units, if their ranks are compared.
    """

    since: tuple[str, ...]
    share: Array
    difference: Array
    squares: Array
    variance: Array
    freedom: Array
    prior: float
    units: RankedUnits | None = None

    def difference_at(self, start: int) -> float:
        """Return how much larger periods since a start are, in the unit of the mean.

        The difference of the two means. If ranks are compared, the median of the differences of any two units: 0 if
        that does not show how they differ, as where most units are equal.
        """
        if self.units is None:
            return float(self.difference[start])
        return self.units.typical_difference(start, np.sign(self.difference[start]))

    def above(self, limit: float = 0.0) -> tuple[float, int]:
        """Return the p-value, at any look, of a rise by more than a limit, and the position of its start."""
        return self._smallest(*self._less(limit), upward=True)

    def below(self) -> tuple[float, int]:
        """Return the same of a fall."""
        fallen = -self.difference
        if self.units is not None:
            # Few far units may have raised the mean: then it is no fall that the others are lower than before.
            fallen = np.where(self.units.means_rose(), np.minimum(fallen, 0.0), fallen)
        return self._smallest(fallen, self.squares, upward=True)

    def other(self) -> tuple[float, int]:
        """Return the same of any change."""
        return self._smallest(self.difference, self.squares, upward=False)

    def _less(self, limit: float) -> tuple[Array, Array]:
        """Return the differences and the squares if the later units were smaller by a limit."""
        if self.units is None or limit == 0.0:
            return self.difference - limit, self.squares
        return self.units.scores(limit)

    def _smallest(self, difference: Array, squares: Array, upward: bool) -> tuple[float, int]:
        t = difference / np.sqrt(squares / self.freedom * self.variance)
        p = -np.log(self.share) - log_bayes_factor(t, self.freedom, self.variance, self.prior, upward)
        first = int(np.argmin(p))  # of equal ones the earliest start
        return float(np.exp(min(p[first], 0.0))), first

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values."""
        names = ("share", "difference", "squares", "variance", "freedom")
        arrays = {name: plain_numbers(getattr(self, name)) for name in names}
        units = {} if self.units is None else {"units": self.units.to_dict()}
        return {"since": list(self.since), **arrays, "prior": self.prior} | units

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Starts:
        """Return what :meth:`to_dict` returned, from its fields."""
        units = fields.get("units")
        return cls(**dict(fields) | {"units": None if units is None else RankedUnits(**units)})


@dataclass(frozen=True, eq=False)
class RankedUnits:
    """Means of units whose ranks are compared, because few units of the reference lie far from the others.

    The normal score of a unit is the quantile of the normal distribution at its rank among the m units of the
    reference: (rank - 1/2) / m for one of these, and (number below + 1/2) / (m + 1) for a later one. Of equal units,
    half are below. Units are equal if they differ by less than a fifth of the distance of the median of the reference
    from its nearer quartile; where that is 0, because more than a quarter are equal, of a quarter of the median
    distance of the others. Means of counts differ by a little if the numbers of rows do.

    Parameters
    ----------
    before : array of shape (m,)
        Of the reference, ascending.
    later : array of shape (n_later,)
    first : array of int64 of shape (n_starts,)
        Position of the first of the later units of each start, ascending.
    """

    before: Array
    later: Array
    first: NDArray[np.int64]

    def scores(self, limit: float = 0.0) -> tuple[Array, Array]:
        """Return the difference of the mean normal scores, and the squares about them, of each start.

        Parameters
        ----------
        limit : float
            What is taken from each later unit.
        """
        from scipy.special import ndtri

        of_before = self.of_reference(self.before)
        of_later = ndtri((self._below(self.later - limit) + 0.5) / (self.before.size + 1))
        apart = of_later - of_before.mean()
        number, sums, squares = (np.cumsum(apart[::-1] ** power)[::-1][self.first] for power in (0, 1, 2))
        difference = sums / number
        total = ((of_before - of_before.mean()) ** 2).sum() + np.maximum(squares - sums * difference, 0.0)
        return difference, total

    def of_reference(self, units: Array) -> Array:
        """Return the normal scores of units of the reference, of which half of each is below itself."""
        from scipy.special import ndtri

        scores: Array = ndtri(self._below(units) / self.before.size)
        return scores

    def typical_difference(self, start: int, direction: float) -> float:
        """Return the median of the differences of a unit since a start and one of the reference.

        0 if it is no larger than the differences of equal units, or has another direction than the ranks: `direction`
        is 1 if they rose, and -1 if they fell.
        """
        later = self.later[self.first[start] :]
        median = float(np.median(_some(later)[:, None] - _some(self.before)))
        return median if direction * median > self._tolerance else 0.0

    def means_rose(self) -> NDArray[np.bool_]:
        """Return for each start whether the mean of the units since then is above that of the reference."""
        number = self.later.size - self.first
        rose: NDArray[np.bool_] = np.cumsum(self.later[::-1])[::-1][self.first] / number > self.before.mean()
        return rose

    def most_equal(self) -> int:
        """Return the largest number of units of the reference that are equal."""
        below, up_to = self._places(self.before)
        return int((up_to - below).max())

    def share_tied(self) -> float:
        """Return the share of the units of the reference that have the most frequent value, up to rounding."""
        up_to = np.searchsorted(self.before, self.before + self._rounding, "right")
        return float((up_to - np.arange(self.before.size)).max() / self.before.size)

    def to_dict(self) -> dict[str, list[Any]]:
        """Return plain Python values."""
        return {"before": plain_numbers(self.before), "later": plain_numbers(self.later), "first": self.first.tolist()}

    def _below(self, values: Array) -> Array:
        below, up_to = self._places(values)
        number: Array = (below + up_to) / 2
        return number

    def _places(self, values: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return how many units of the reference are below values, and how many are below or equal."""
        below = np.searchsorted(self.before, values - self._tolerance, "left")
        return below, np.searchsorted(self.before, values + self._tolerance, "right")

    @cached_property
    def _rounding(self) -> float:
        return ROUNDING * float(np.abs(self.before).max())

    @cached_property
    def _tolerance(self) -> float:
        """The largest difference of equal units."""
        low, middle, high = np.quantile(self.before, [0.25, 0.5, 0.75])
        spread = 2 * min(middle - low, high - middle)  # up to half of the units may be far on one side
        if spread <= self._rounding:  # more than a quarter are equal
            apart = np.abs(self.before - middle)
            others = apart[apart > self._rounding]
            spread = np.median(others) / 2 if others.size else 0.0
        return max(EQUAL * float(spread), self._rounding)


def _some(units: Array) -> Array:
    """Return units, or quantiles of very many."""
    return units if units.size <= MOST_PAIRED else np.quantile(units, (np.arange(MOST_PAIRED) + 0.5) / MOST_PAIRED)


@dataclass(frozen=True)
class AnyLook:
    """What was looked at, and what of it holds at any look.

    Parameters
    ----------
    first, last : str
        First and last period after the reference.
    n_periods : int
        Number of these periods.
    n_starts : int
        Number of weeks among them in which a change may have begun.
    of_weeks : tuple of str
        What is judged by the means of weeks, because periods of the reference depend on those before them: names of
        features, "the loss", "the base", "the mean residual", ...
    by_ranks : tuple of str
        What is judged by the ranks of its units, because few of the reference lie far from the others.
    """

    first: str
    last: str
    n_periods: int
    n_starts: int
    of_weeks: tuple[str, ...] = ()
    by_ranks: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values."""
        return asdict(self) | {"of_weeks": list(self.of_weeks), "by_ranks": list(self.by_ranks)}

    def summary(self, alpha: float) -> list[str]:
        """Return what holds at any look, and what is not judged."""
        units = "Units, taken as independent and normal, are single periods"
        if self.of_weeks:
            units += f", and weeks for {in_a_row([escaped(name) for name in self.of_weeks], MOST_NAMED)}"
        if self.by_ranks:
            units += (
                ". The ranks of units are compared for "
                f"{in_a_row([escaped(name) for name in self.by_ranks], MOST_NAMED)}, because few units of the "
                "reference lie far from the others; a difference since a start is then the median of those of two "
                "units, and not told if it is 0"
            )
        span = f"{escaped(self.first)} to {escaped(self.last)}" if self.n_periods > 1 else escaped(self.first)
        return [
            f"At any look hold the p-values of the loss, of what each feature costs, and of the means; each test has "
            f"{error_rate_in_words('fwer', alpha)} of all looks together, however many. They are of all "
            f"{counted(self.n_periods, 'period')} after the reference ({span}), with "
            f"{counted(self.n_starts, 'start')}, one a week. {units}.",
            "Not judged at any look: the response to single features, shifts of the rows, causes of a higher loss, and "
            "rows without responses. Their tests hold for a planned number of looks only, such as 365.",
        ]
