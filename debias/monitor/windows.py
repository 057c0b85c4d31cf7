"""Windows of periods: which periods are in them, and sums over moving windows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any

from debias.errors import HistoryError
from debias.monitor.times import Moment, Window
from debias.rows.node_sums import added

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from debias.monitor.store import Period

    State = dict[str, NDArray[Any]]


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
    """Return the positions of the periods in a window that ends at a position, or between two times.

    Parameters
    ----------
    periods : list of Period
        Sorted by time.
    window : int, str, timedelta, or (first, last)
    name : str
        What errors call the window.
    last : int
        Position of the last period of a window that is a number of periods or a length of time; -1 if there is none.

    Raises
    ------
    HistoryError
        This is no window, or its times are of another kind than those of the periods.
    """
    if isinstance(window, (tuple, list)):
        if len(window) != 2:
            raise HistoryError(f"{name}={window!r} is not a window: pass the first and the last period, or a length")
        first, end = (_key(periods, at, name) for at in window)
        if first > end:
            raise HistoryError(f"{name}={window!r} is not a window: its first period comes after its last")
        keys = [period.key for period in periods]
        return range(bisect_left(keys, first), bisect_right(keys, end))
    size = Window.of(window, name)
    if last < 0:
        return range(0)
    return range(size.begin([period.key for period in periods], last, periods[last].kind), last + 1)


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
