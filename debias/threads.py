"""Threads for compiled loops, which release the interpreter's lock: how many, and who does what."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType


class Threads:
    """A few threads, to be used in a ``with`` statement; with one, everything is done where it is asked for.

    Results come in the order of the items, so that sums over them do not depend on the threads. (joblib's threads look
    for results every hundredth of a second, which is as long as a whole round of the loops here.)

    Parameters
    ----------
    n_jobs : int
        Number of threads; negative: so many fewer than there are cores, -1 for all.
    """

    def __init__(self, n_jobs: int) -> None:
        self.n = number_of_threads(n_jobs)
        self._pool = ThreadPoolExecutor(self.n) if self.n > 1 else None

    def __enter__(self) -> Threads:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def map(self, function: Callable[..., Any], items: Iterable[Any]) -> list[Any]:
        """Call a function over items; the results in order."""
        return [function(item) for item in items] if self._pool is None else list(self._pool.map(function, items))

    def begin(self, function: Callable[[], Any]) -> Callable[[], Any]:
        """Begin a call beside what else is done; what is returned gives its result. One thread calls it then."""
        return function if self._pool is None else self._pool.submit(function).result

    def shares(self, n: int) -> list[tuple[int, int]]:
        """Divide n items into stretches, a few for each thread, so that none waits long for another."""
        many = 1 if self.n == 1 else min(n, 8 * self.n)
        return [(n * i // many, n * (i + 1) // many) for i in range(many)]


def number_of_threads(n_jobs: int) -> int:
    """Return how many threads `n_jobs` means."""
    from joblib import cpu_count

    return n_jobs if n_jobs > 0 else max(cpu_count() + 1 + n_jobs, 1)
