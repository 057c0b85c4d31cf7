"""Times of periods, and windows of them: their ends, the pinned reference, and sums over moving windows."""

from __future__ import annotations

import numbers
import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import HistoryArgumentError, HistoryError
from debias.rows.node_sums import added
from debias.text import escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from debias.monitor.store import Period, Waiting

    State = dict[str, NDArray[Any]]

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
MICROSECONDS_OF_A_DAY = 24 * 60 * 60 * 10**6
_TWO_WEEKS = 14
"""Days."""
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
            raise HistoryArgumentError(f"at={escaped(repr(at))[:LONGEST]} is not a time: {error}") from None
        raise HistoryArgumentError(
            f"at={escaped(repr(at))[:LONGEST]} is not a time: pass one date, datetime or number, or a text with a date "
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


def is_a_day(at: Any) -> bool:
    """Return whether what a user passed as a time is a day, without a time of the day."""
    if isinstance(at, str):
        return _DATE.fullmatch(at.strip()) is not None and len(at.strip()) == len("2026-01-31")
    if isinstance(at, np.datetime64):
        return np.datetime_data(at)[0] == "D"
    return isinstance(at, date) and not isinstance(at, datetime)


def refuse_far_future(moment: Moment, now: datetime | None = None) -> None:
    """Raise a HistoryError for a date more than ten years ahead: a typing error would stay the last period for good."""
    at, now = moment.as_datetime, now or datetime.now(UTC)
    if at is not None and at.replace(tzinfo=UTC) - now > FAR:
        raise HistoryArgumentError(
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
        raise HistoryArgumentError(
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
            raise HistoryArgumentError(
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


def time_text(moment: Moment) -> str:
    """Return a time as text: only the date of a midnight without a zone."""
    return moment.text.removesuffix("T00:00:00") if moment.kind == LOCAL else moment.text


def times_as_text(index: pd.Index[Any]) -> list[str]:
    """Return the times of an index that :func:`index_of` made as texts, in the form of :func:`time_text`."""
    return [at if isinstance(at, str) else time_text(Moment.of(at)) for at in index]


def _of_text(text: str) -> Moment:
    text = text.strip()  # the end of a line in a script does not make another period
    if _DATE.fullmatch(text):
        try:
            return _of_datetime(datetime.fromisoformat(text))
        except ValueError as error:
            raise HistoryArgumentError(f"at={text!r} is not a time: {error}") from None
    if _LIKE_DATE.fullmatch(text):
        raise HistoryArgumentError(f"at={text!r} is not a time: write dates as year-month-day, such as 2026-01-31")
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        encoded = b""
    if not encoded or b"\0" in encoded or len(text) > LONGEST:
        raise HistoryArgumentError(f"at={text!r} is not a label: pass a text of 1 to {LONGEST} characters")
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
        raise HistoryArgumentError(f"{name} of {number} {unit} is too long") from None


FIRST, BETWEEN = "first ", ".."
"""How a text says that a window is at the beginning ("first 30d"), or between two periods (a date, "..", a date)."""
PINNED, SETTLED, STEP = Window(span=timedelta(days=60)), Window(span=timedelta(days=30)), Window(span=timedelta(days=7))
"""The reference by default; its part that is taken as it is; and the steps in which the rest is examined."""
PINNED_PERIODS, SETTLED_PERIODS, STEP_PERIODS = 60, 30, 7
"""The same for periods without dates."""
LEAST_PINNED = 8
"""The pinned reference has so many periods if there are, however long they are."""


def moving_sums(state_of: Callable[[int], State], begins: Sequence[int]) -> Iterator[State]:
    """Yield the sum over the items ``begins[k]`` to ``k``, for each k.

    Nothing is subtracted, so no digits are lost. Each item is added about three times, however long the windows are.

    Parameters
    ----------
    state_of : callable
        Returns the sums of an item. It is called once for each, in ascending order.
    begins : sequence of int
        Not descending, and ``begins[k] <= k``.
    """
    old: list[State] = []  # sums over the items from first, first + 1, ... to the same last one; the longest at the end
    new: list[State] = []  # items after these
    sum_of_new: State = {}
    first = 0
    for end, begin in enumerate(begins):
        item = state_of(end)
        new.append(item)
        sum_of_new = added(sum_of_new, item) if sum_of_new else item
        while first < begin:
            if not old:
                old, new, sum_of_new = _ends(new), [], {}
            old.pop()
            first += 1
        parts = [part for part in (old[-1] if old else {}, sum_of_new) if part]
        yield parts[0] if len(parts) == 1 else added(*parts)


def _ends(items: list[State]) -> list[State]:
    """Return the sums over the last item, the last two, ..., and all items."""
    sums = [items[-1]]
    for item in reversed(items[:-1]):
        sums.append(added(item, sums[-1]))
    return sums


def positions_of(periods: Sequence[Period | Waiting], window: Any, name: str, last: int) -> range:
    """Return the positions of the periods in a window that ends at a position, or that is at another place.

    Parameters
    ----------
    periods : sequence of Period or Waiting
        Sorted by time.
    window : int, str, timedelta, or (first, last)
        Also "first 30d", for the first periods up to `last`, and "2026-01-01..2026-01-30", for those between two times.
    name : str
        What errors call the window.
    last : int
        Position of the last period of a window that is a number of periods or a length of time; -1 if there is none.

    Raises
    ------
    HistoryError
        This is no window, or its times are of another kind than those of the periods.
    """
    chosen = parsed(window, name)
    if isinstance(chosen, tuple):
        first, end = (_key(periods, at, name) for at in chosen)
        if first > end:
            raise HistoryArgumentError(f"{name}={window!r} is not a window: its first period comes after its last")
        keys = [period.key for period in periods]
        return range(bisect_left(keys, first), bisect_right(keys, end))
    if last < 0:
        return range(0)
    if chosen.span is not None and periods[last].kind not in (LOCAL, ZONED):
        number = f"{name}='{FIRST}60'" if isinstance(window, str) and window.strip().startswith(FIRST) else f"{name}=7"
        raise HistoryArgumentError(
            f"{name}={str(window)!r} is a length of time: it needs periods with times, and those of this history are "
            f"{IN_WORDS[periods[last].kind]}: pass a number of periods, such as {number}"
        )
    if isinstance(window, str) and window.strip().startswith(FIRST):
        return range(min(_end_of_first(periods, chosen), last + 1))
    return range(chosen.begin([period.key for period in periods], last, periods[last].kind), last + 1)


def parsed(window: Any, name: str) -> Window | tuple[Any, Any]:
    """Return the length of a window, or the first and last period that it names.

    Raises
    ------
    HistoryError
        It is no window.
    """
    if isinstance(window, str) and BETWEEN in window:
        window = tuple(at.strip() for at in window.split(BETWEEN))
    if isinstance(window, (tuple, list)):
        if len(window) != 2 or "" in window:
            raise HistoryArgumentError(
                f"{name}={window!r} is not a window: pass the first and the last period, or a length"
            )
        return window[0], window[1]
    length = window
    if isinstance(window, str) and window.strip().startswith(FIRST):
        length = window.strip().removeprefix(FIRST)
    try:
        return Window.of(length, name)
    except HistoryError:
        raise HistoryArgumentError(
            f"{name}={window!r} is not a window: pass a number of periods, such as 7, a length of time, such as '30d', "
            "'12h' or '4w', the first periods, such as 'first 30d', or a first and a last period, such as "
            "'2026-01-01..2026-01-30'"
        ) from None


def pinned(periods: list[Period], end: int, differs: Callable[[range, range], bool]) -> range:
    """Return the positions of the reference that is used by default: it begins with the first period, and never rolls.

    It has the first 60 days (or 60 periods without dates; 8 periods at least). From day 31 on, they are examined week
    by week. A week comes into the reference when the week after it does not differ from the first 30 days either: a
    week with the first days of a fault may not differ yet, and these days would hide the fault from then on.

    Parameters
    ----------
    periods : list of Period
        Sorted by time.
    end : int
        Position after the last period that may be in it.
    differs : callable
        Returns whether the periods of the second range differ from those of the first.
    """
    if not end:
        return range(0)
    dated = periods[0].kind in (LOCAL, ZONED)
    longest, settled = (
        max(LEAST_PINNED, _end_of_first(periods, window if dated else Window(count=number)))
        for window, number in ((PINNED, PINNED_PERIODS), (SETTLED, SETTLED_PERIODS))
    )
    keys = [period.key for period in periods]
    begin = before = settled
    while before < longest and begin < end:
        after = _after(keys, begin, periods[0].kind)
        if after > end or differs(range(settled), range(begin, after)):
            break
        begin, before = after, begin
    return range(min(before, longest, end))


def n_missing(periods: Sequence[Period | Waiting], begin: int) -> int | None:
    """Return how many periods are missing between those from a position on, at the usual distance between periods.

    That is the median distance of all periods. Of days, weekdays that never came in two weeks or more are not missing.

    Parameters
    ----------
    periods : sequence of Period or Waiting
        Sorted by time.
    begin : int

    Returns
    -------
    int or None
        None if periods have no dates, or are fewer than three.
    """
    if len(periods) < 3 or periods[0].kind not in (LOCAL, ZONED):
        return None
    keys = np.array([period.key for period in periods], dtype=np.int64)
    usual = float(np.median(np.diff(keys)))
    if usual == MICROSECONDS_OF_A_DAY:
        # Some days have 23 hours where clocks change.
        days = np.rint((keys - keys[0]) / MICROSECONDS_OF_A_DAY).astype(np.int64)
        expected = np.arange(days[begin], days[-1] + 1)
        if days[-1] >= _TWO_WEEKS:
            expected = expected[np.isin(expected % 7, days % 7)]
        return int((~np.isin(expected, days)).sum())
    return int(np.maximum(np.rint(np.diff(keys[begin:]) / usual) - 1, 0).sum())


def _end_of_first(periods: Sequence[Period | Waiting], window: Window) -> int:
    """Return the position after the first periods: a number of them, or those within a length of time."""
    if window.count is not None:
        return window.count
    return window.end([period.key for period in periods], 0, periods[0].kind)


def _after(keys: list[Any], begin: int, kind: str) -> int:
    """Return the position after the week that begins at a position."""
    return STEP.end(keys, begin, kind) if kind in (LOCAL, ZONED) else begin + STEP_PERIODS


def _key(periods: Sequence[Period | Waiting], at: Any, name: str) -> int | float:
    """Return the key of a time at which a window begins or ends."""
    moment = Moment.of(at)
    if any(period.kind != moment.kind for period in periods):
        raise HistoryArgumentError(f"{name}={at!r} is not of the kind of the times of this history")
    if moment.key is not None:
        return moment.key
    key = next((period.key for period in periods if period.at == moment.text), None)
    if key is None:
        raise HistoryArgumentError(f"{name}={at!r}: there is no period with this label")
    return key
