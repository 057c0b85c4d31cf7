"""A window of the periods of a history, and means of such periods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from debias.text import counted

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
    """

    of: str
    before: float
    after: float
    p_value: float
    changed: bool
    most: str
    since: str | None = None


def not_judged_mean(of: str) -> str:
    """Return how a warning begins that says why the mean of something is not judged at any look."""
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
    verb = "does" if n_periods == 1 else "do"
    return f"{counted(n_periods, 'period')} to compare with {verb} not show how much means vary"


def last_periods(number: int) -> str:
    """Return the last periods in words: "the last period", "the last 3 periods"."""
    return "the last period" if number == 1 else f"the last {counted(number, 'period')}"


def waiting_in_words(n_newer: int) -> str:
    """Return what is said of periods that come after all periods with responses."""
    verb = "waits for its responses and is" if n_newer == 1 else "wait for their responses and are"
    return f"{counted(n_newer, 'newer period')} {verb} not judged"
