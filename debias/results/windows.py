"""A window of the periods of a history, and means of such periods."""

from __future__ import annotations

from dataclasses import dataclass

from debias.text import counted


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


def waiting_in_words(n_newer: int) -> str:
    """Return what is said of periods that come after all periods with responses."""
    verb = "waits for its responses and is" if n_newer == 1 else "wait for their responses and are"
    return f"{counted(n_newer, 'newer period')} {verb} not judged"
