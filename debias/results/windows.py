"""A window of the periods of a history, and means of such periods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from debias.text import counted, escaped, told_apart, with_sign

if TYPE_CHECKING:
    from collections.abc import Sequence

ENOUGH_PERIODS = 8
"""With fewer periods a window does not show how much they vary."""
ADD_RESPONSES = "Add the rows of a period again with their responses, with the same at="
"""What to do if all periods wait for their responses."""


@dataclass(frozen=True)
class WindowOfPeriods:
    """A window of periods.

    Parameters
    ----------
    first, last : str or None
        Its first and last period; None if it has none.
    n_periods, n_rows : int
    """

    first: str | None
    last: str | None
    n_periods: int
    n_rows: int


@dataclass(frozen=True)
class MeanOfPeriods:
    """The mean of the response, the prediction or the residual of the periods of two windows.

    Parameters
    ----------
    of : {"response", "prediction", "residual"}
        For boosted trees, the mean of the response and of the prediction is less a constant.
    before, after : float
    p_value : float
        Test that the periods of the recent window have the same mean, together and each alone; NaN with fewer than 8
        periods in the reference window.
    changed : bool
        It is at most alpha / looks.
    most : str
        The recent period that deviates most.
    since : str or None
        With ``looks="any"``, the first period of the start with the smallest p-value, which is of all periods since
        then. None otherwise.
    most_mean : float or None
        Mean of the period `most`. None in results that an earlier version of debias stored, and with ``looks="any"``.
    alone : bool
        Whether `p_value` is that of the period `most`: the mean of the whole window is not beyond chance.
    output : str or None
        The class, or the response, that the numbers are of; None if there is one.
    typical_change : float or None
        With ``looks="any"``, if ranks of periods are compared because few of the reference lie far from the others: the
        median of the differences of a period since then and one of the reference, 0 if that does not show how they
        differ. None otherwise.
    """

    of: str
    before: float
    after: float
    p_value: float
    changed: bool
    most: str
    since: str | None = None
    most_mean: float | None = None
    alone: bool = False
    output: str | None = None
    typical_change: float | None = None

    @property
    def name(self) -> str:
        """How a sentence calls it: "mean residual", "mean residual of class 'low'"."""
        return f"mean {self.of}" if self.output is None else f"mean {self.of} of {escaped(self.output)}"

    @property
    def in_words(self) -> str:
        """The numbers that `p_value` is of: both windows, or the reference and a single period."""
        if not self.alone or self.most_mean is None:
            before, after = told_apart(self.before, self.after)
            means = f"{before} before, {after} recently"
            if self.typical_change is None:
                return means
            return f"{self.moved_by}; means: {means}"
        before, after = told_apart(self.before, self.most_mean)
        return f"{before} before, {after} in {escaped(self.most)} alone"

    @property
    def at_most(self) -> str:
        """Which period deviates most, as the end of a sentence, unless the numbers are its own."""
        return "" if self.alone else f"; {escaped(self.most)} deviates most"

    @property
    def moved_by(self) -> str:
        """By how much it moved, in words."""
        if self.typical_change is not None:
            by = f"by {with_sign(self.typical_change)} " if self.typical_change else ""
            return f"{by}by the ranks of periods"
        if not self.alone or self.most_mean is None:
            return f"by {with_sign(self.after - self.before)}"
        return f"by {with_sign(self.most_mean - self.before)} in {escaped(self.most)}"


def not_judged_mean(of: str) -> str:
    """Return how a warning begins that says why the mean of something is not judged."""
    return f"the mean {of} is not judged: "


def why_not_judged(of: str, n_periods: int, warnings: Sequence[str]) -> str:
    """Return why the mean of something has no p-value.

    Parameters
    ----------
    of : str
        "residual", for example.
    n_periods : int
        Number of periods to compare with.
    warnings : sequence of str
        Those of the comparison.
    """
    begin = not_judged_mean(of)
    told = next((text.removeprefix(begin) for text in warnings if text.startswith(begin)), None)
    if told is not None:
        return told
    if n_periods >= ENOUGH_PERIODS:
        return "the means of these periods are not known"
    return too_few_periods(n_periods)


def too_few_periods(n_periods: int) -> str:
    """Return why nothing is judged with so few periods in the reference."""
    verb = "does" if n_periods == 1 else "do"
    return f"{counted(n_periods, 'period')} to compare with {verb} not show how much means vary"


def last_periods(number: int) -> str:
    """Return the last periods in words: "the last period", "the last 3 periods"."""
    return "the last period" if number == 1 else f"the last {counted(number, 'period')}"


def waiting_in_words(n_newer: int) -> str:
    """Return what is said of periods that come after all periods with responses."""
    verb = "waits for its responses and is" if n_newer == 1 else "wait for their responses and are"
    return f"{counted(n_newer, 'newer period')} {verb} not judged"
