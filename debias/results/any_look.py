"""What holds at any look: the evidence for a change of a mean by the week in which it may have begun."""

from __future__ import annotations

from dataclasses import asdict, dataclass
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
        Sum of squares about the two means.
    variance : array of shape (n_starts,)
        Variance of the difference if a unit has variance 1.
    freedom : array of shape (n_starts,)
        Degrees of freedom of the squares.
    prior : float
        Variance of the true difference under the alternative, in units of that of a unit.
    """

    since: tuple[str, ...]
    share: Array
    difference: Array
    squares: Array
    variance: Array
    freedom: Array
    prior: float

    def above(self, limit: float = 0.0) -> tuple[float, int]:
        """Return the p-value, at any look, of a rise by more than a limit, and the position of its start."""
        return self._smallest(self.difference - limit, upward=True)

    def below(self) -> tuple[float, int]:
        """Return the same of a fall."""
        return self._smallest(-self.difference, upward=True)

    def other(self) -> tuple[float, int]:
        """Return the same of any change."""
        return self._smallest(self.difference, upward=False)

    def _smallest(self, difference: Array, upward: bool) -> tuple[float, int]:
        t = difference / np.sqrt(self.squares / self.freedom * self.variance)
        p = -np.log(self.share) - log_bayes_factor(t, self.freedom, self.variance, self.prior, upward)
        first = int(np.argmin(p))  # of equal ones the earliest start
        return float(np.exp(min(p[first], 0.0))), first

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values."""
        names = ("share", "difference", "squares", "variance", "freedom")
        arrays = {name: plain_numbers(getattr(self, name)) for name in names}
        return {"since": list(self.since), **arrays, "prior": self.prior}

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Starts:
        """Return what :meth:`to_dict` returned, from its fields."""
        return cls(**fields)


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
    """

    first: str
    last: str
    n_periods: int
    n_starts: int
    of_weeks: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values."""
        return asdict(self) | {"of_weeks": list(self.of_weeks)}

    def summary(self, alpha: float) -> list[str]:
        """Return what holds at any look, and what is not judged."""
        units = "Units, taken as independent and normal, are single periods"
        if self.of_weeks:
            units += f", and weeks for {in_a_row([escaped(name) for name in self.of_weeks], MOST_NAMED)}"
        span = f"{escaped(self.first)} to {escaped(self.last)}" if self.n_periods > 1 else escaped(self.first)
        return [
            f"At any look hold the p-values of the loss, of what each feature costs, and of the means; each test has "
            f"{error_rate_in_words('fwer', alpha)} of all looks together, however many. They are of all "
            f"{counted(self.n_periods, 'period')} after the reference ({span}), with "
            f"{counted(self.n_starts, 'start')}, one a week. {units}.",
            "Not judged at any look: the response to single features, shifts of the rows, causes of a higher loss, and "
            "rows without responses. Their tests hold for a planned number of looks only, such as 365.",
        ]
