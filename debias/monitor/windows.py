"""Windows of periods: which periods are in them, what the pinned reference is, and sums over moving windows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from debias.errors import HistoryError
from debias.monitor.times import LOCAL, ZONED, Moment, Window
from debias.rows.node_sums import added

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from debias.monitor.store import Period

    State = dict[str, NDArray[Any]]

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


def positions_of(periods: list[Period], window: Any, name: str, last: int) -> range:
    """Return the positions of the periods in a window that ends at a position, or that is at another place.

    Parameters
    ----------
    periods : list of Period
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
            raise HistoryError(f"{name}={window!r} is not a window: its first period comes after its last")
        keys = [period.key for period in periods]
        return range(bisect_left(keys, first), bisect_right(keys, end))
    if last < 0:
        return range(0)
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
            raise HistoryError(f"{name}={window!r} is not a window: pass the first and the last period, or a length")
        return window[0], window[1]
    length = window
    if isinstance(window, str) and window.strip().startswith(FIRST):
        length = window.strip().removeprefix(FIRST)
    try:
        return Window.of(length, name)
    except HistoryError:
        raise HistoryError(
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


def _end_of_first(periods: list[Period], window: Window) -> int:
    """Return the position after the first periods: a number of them, or those within a length of time."""
    if window.count is not None:
        return window.count
    return window.end([period.key for period in periods], 0, periods[0].kind)


def _after(keys: list[Any], begin: int, kind: str) -> int:
    """Return the position after the week that begins at a position."""
    return STEP.end(keys, begin, kind) if kind in (LOCAL, ZONED) else begin + STEP_PERIODS


def _key(periods: list[Period], at: Any, name: str) -> int | float:
    """Return the key of a time at which a window begins or ends."""
    moment = Moment.of(at)
    if any(period.kind != moment.kind for period in periods):
        raise HistoryError(f"{name}={at!r} is not of the kind of the times of this history")
    if moment.key is not None:
        return moment.key
    key = next((period.key for period in periods if period.at == moment.text), None)
    if key is None:
        raise HistoryError(f"{name}={at!r}: there is no period with this label")
    return key
