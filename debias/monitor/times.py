"""Times of periods: dates, datetimes, numbers or labels, and windows of them."""

from __future__ import annotations

import numbers
import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import HistoryError
from debias.text import shown

if TYPE_CHECKING:
    import pandas as pd

LOCAL, ZONED, NUMBER, LABEL = "time", "time with zone", "number", "label"
"""Kinds of times. All periods of a history have the same kind."""
IN_WORDS = {
    LOCAL: "dates or times without a zone",
    ZONED: "times with a zone",
    NUMBER: "numbers",
    LABEL: "labels",
}
LONGEST = 200
FAR = timedelta(days=3653)
"""How far ahead of the clock the date of a period may be."""
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].+)?")
_LIKE_DATE = re.compile(r"([0-9]{1,4}([-/])[0-9]{1,2}\2[0-9]{1,4}|[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{4})([T ]+[0-9].*)?")
"""What is meant as a date: as a label it would be sorted by when it came. 1.2.3 may be a version."""
_SPAN = re.compile(r"([0-9]+) ?(d|h|w|min|s)")
_UNITS = {"d": "days", "h": "hours", "w": "weeks", "min": "minutes", "s": "seconds"}
_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_NUMPY_MICROSECOND = np.timedelta64(1, "us")


@dataclass(frozen=True)
class Moment:
    """The time of a period.

    Parameters
    ----------
    kind : {"time", "time with zone", "number", "label"}
    key : int, float or None
        What periods are sorted by: microseconds since 1970, or the number. None for a label, which is sorted by when it
        was first added.
    text : str
        The time in ISO 8601 (UTC if it has a zone), the number, or the label.
    """

    kind: str
    key: int | float | None
    text: str

    @classmethod
    def of(cls, at: Any) -> Moment:
        """Return the time that a user passed.

        Parameters
        ----------
        at : date, datetime, numpy datetime64, number or str
            A date is its midnight. A text like "2026-11-23" or "2026-11-23T10:00Z" is a date or time. Any other text is
            a label, but for dates in other forms ("2026-1-1"). Times with a zone are stored in UTC, to the microsecond.

        Raises
        ------
        HistoryError
            It is none of these, not finite, or a date in another form.
        """
        if isinstance(at, str):
            return _of_text(at)
        try:
            if getattr(getattr(at, "dtype", None), "kind", "") == "M":
                import pandas as pd

                at = pd.Timestamp(at)
            if isinstance(at, date) and at == at:  # noqa: PLR0124  # NaT is a date, and unequal to itself
                return _of_datetime(at if isinstance(at, datetime) else datetime(at.year, at.month, at.day))
            is_number = isinstance(at, numbers.Real) and not isinstance(at, (bool, np.timedelta64))
            if is_number and abs(number := float(at)) < 2**53:
                # 7 and 7.0 are one period, however the number was read.
                key = int(number) if number.is_integer() else number
                return cls(NUMBER, key, repr(key))
        except (ValueError, TypeError, OverflowError) as error:  # columns of dates, and dates after the year 9999
            raise HistoryError(f"at={shown(repr(at))[:LONGEST]} is not a time: {error}") from None
        raise HistoryError(
            f"at={shown(repr(at))[:LONGEST]} is not a time: pass one date, datetime or number, or a text with a date "
            "or a label"
        )

    @property
    def is_sound(self) -> bool:
        """Whether its parts belong together, which those in a crafted file may not."""
        if self.kind == LABEL:
            return isinstance(self.key, int) and self.key >= 0
        try:
            return self == Moment.of(self.key if self.kind == NUMBER else self.text)
        except HistoryError:
            return False

    @property
    def as_datetime(self) -> datetime | None:
        """The time, in UTC if it has a zone; None for a number or a label."""
        return datetime.fromisoformat(self.text) if self.kind in (LOCAL, ZONED) else None

    @property
    def without_key(self) -> Moment:
        """The label without its place among the labels of one history."""
        return Moment(self.kind, None, self.text)


def refuse_far_future(moment: Moment, now: datetime | None = None) -> None:
    """Raise a HistoryError for a date more than ten years ahead: a typing error would stay the last period for good."""
    at, now = moment.as_datetime, now or datetime.now(UTC)
    if at is not None and at.replace(tzinfo=UTC) - now > FAR:
        raise HistoryError(
            f"at={moment.text} is more than ten years ahead of the clock of this machine ({now:%Y-%m-%d}): all real "
            "periods would come before it. Check the year, or pass a number or a label for simulated time"
        )


@dataclass(frozen=True)
class Window:
    """The last periods up to some period: a number of them, or those of a length of time."""

    count: int | None = None
    span: timedelta | None = None

    @classmethod
    def of(cls, window: Any, name: str = "window") -> Window:
        """Return the window that a user passed: a number of periods, "30d", "12h", "4w", or a timedelta.

        Raises
        ------
        HistoryError
            It is none of these, or not positive.
        """
        given = window
        if isinstance(window, str) and (match := _SPAN.fullmatch(window.strip())):
            window = _timedelta(int(match[1]), _UNITS[match[2]], name)
        elif isinstance(window, str) and window.strip().isdecimal():
            window = int(window)
        if isinstance(window, np.timedelta64) and np.datetime_data(window)[0] not in ("Y", "M", "generic"):
            window = np.nan if np.isnat(window) else _timedelta(int(window / _NUMPY_MICROSECOND), "microseconds", name)
        if isinstance(window, timedelta) and window > timedelta(0):
            return cls(span=window)
        # numpy takes its lengths of time for whole numbers.
        if isinstance(window, numbers.Integral) and not isinstance(window, (bool, np.timedelta64)) and int(window) > 0:
            return cls(count=int(window))
        raise HistoryError(
            f"{name}={given!r} is not a window: pass a number of periods, such as 7, or a length of time, such as "
            "'30d', '12h' or '4w'"
        )

    def begin(self, keys: list[Any], end: int, kind: str) -> int:
        """Return the first position in the window that ends with position `end`.

        Parameters
        ----------
        keys : list of int or float
            Keys of the periods, ascending.
        end : int
        kind : str
            Kind of their times.

        Raises
        ------
        HistoryError
            The window is a length of time, and the periods have no times.
        """
        if self.count is not None:
            return max(0, end + 1 - self.count)
        return bisect_right(keys, keys[end] - self._length(kind), 0, end + 1)

    def end(self, keys: list[Any], begin: int, kind: str) -> int:
        """Return the position after the window that begins with position `begin`; otherwise as :meth:`begin`."""
        if self.count is not None:
            return min(len(keys), begin + self.count)
        return bisect_left(keys, keys[begin] + self._length(kind), begin)

    def _length(self, kind: str) -> int:
        """Return the length of time in microseconds."""
        if kind not in (LOCAL, ZONED):
            raise HistoryError(
                f"a window of a length of time needs periods with times, and those of this history are "
                f"{IN_WORDS[kind]}: pass a number of periods, such as 7"
            )
        assert self.span is not None
        return self.span // _MICROSECOND


def index_of(moments: list[Moment]) -> pd.Index[Any]:
    """Return the times as an index of a data frame, named ``at``: of datetimes, numbers or texts."""
    import pandas as pd

    if not moments:
        return pd.Index([], name="at", dtype=object)
    kind = moments[0].kind
    if kind in (LOCAL, ZONED):
        microseconds = [moment.key for moment in moments]
        index = pd.DatetimeIndex(pd.array(microseconds, dtype="int64").to_numpy().view("M8[us]"), name="at")
        return index.tz_localize("UTC") if kind == ZONED else index
    if kind == NUMBER:
        return pd.Index([moment.key for moment in moments], name="at")
    return pd.Index([moment.text for moment in moments], name="at", dtype=object)


def shown_time(moment: Moment) -> str:
    """Return a time as text: only the date of a midnight without a zone."""
    return moment.text.removesuffix("T00:00:00") if moment.kind == LOCAL else moment.text


def shown_index(index: pd.Index[Any]) -> list[str]:
    """Return the times of an index that :func:`index_of` made as texts, in the form of :func:`shown_time`."""
    return [at if isinstance(at, str) else shown_time(Moment.of(at)) for at in index]


def _of_text(text: str) -> Moment:
    text = text.strip()  # the end of a line in a script does not make another period
    if _DATE.fullmatch(text):
        try:
            return _of_datetime(datetime.fromisoformat(text))
        except ValueError as error:
            raise HistoryError(f"at={text!r} is not a time: {error}") from None
    if _LIKE_DATE.fullmatch(text):
        raise HistoryError(f"at={text!r} is not a time: write dates as year-month-day, such as 2026-01-31")
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        encoded = b""
    if not encoded or b"\0" in encoded or len(text) > LONGEST:
        raise HistoryError(f"at={text!r} is not a label: pass a text of 1 to {LONGEST} characters")
    return Moment(LABEL, None, text)


def _of_datetime(at: datetime) -> Moment:
    kind = LOCAL
    if at.utcoffset() is not None:
        kind, at = ZONED, at.astimezone(UTC)
    plain = datetime(at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond)
    return Moment(kind, (plain - _EPOCH) // _MICROSECOND, plain.isoformat() + ("Z" if kind == ZONED else ""))


def _timedelta(number: int, unit: str, name: str) -> timedelta:
    try:
        return timedelta(**{unit: number})
    except OverflowError:
        raise HistoryError(f"{name} of {number} {unit} is too long") from None
