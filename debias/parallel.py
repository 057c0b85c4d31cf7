"""Threads for compiled loops, which release the interpreter's lock: how many a call may use, and who does what."""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from debias.errors import RowsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Executor
    from pathlib import Path

    Progress = bool | Callable[[int, int], None]

P = ParamSpec("P")
R = TypeVar("R")

SHARES_A_THREAD = 8
"""Trees differ in size: a thread that is done early takes another share."""


class Threads:
    """The thread that calls, and those that help it; :func:`allowed` makes them.

    Results come in the order of the items, so that sums over them do not depend on the threads. (joblib's threads look
    for results every hundredth of a second, which is as long as many of the loops here.)

    Parameters
    ----------
    n : int
        Number of threads.
    others : Executor, optional
        All but the one that calls; None if it is alone.
    """

    def __init__(self, n: int, others: Executor | None = None) -> None:
        self.n, self._others = n, others

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        """Call a function over items, which may not write to the same places; the results in order."""
        every = list(items)
        if self._others is None or len(every) < 2:
            return [function(item) for item in every]
        found: list[Any] = [None] * len(every)
        left = deque(range(len(every)))

        def work() -> None:
            while True:
                try:
                    k = left.popleft()
                except IndexError:
                    return
                found[k] = function(every[k])

        helping = [self._others.submit(work) for _ in range(min(self.n, len(every)) - 1)]
        try:
            work()
        finally:
            left.clear()
            for each in helping:
                if not each.cancel():  # else that thread had something else to do, and all is done without it
                    each.result()
        return found

    def begin(self, function: Callable[[], Any]) -> Callable[[], Any]:
        """Begin a call beside what else is done; what is returned gives its result. A thread alone calls it then."""
        return function if self._others is None else self._others.submit(function).result

    def shares(self, n: int) -> list[tuple[int, int]]:
        """Divide n items into stretches, a few for each thread, so that none waits long for another."""
        many = 1 if self.n == 1 else min(n, SHARES_A_THREAD * self.n)
        return [(n * i // many, n * (i + 1) // many) for i in range(many)]


_ALONE = Threads(1)
_at_work: ContextVar[Threads] = ContextVar("at_work", default=_ALONE)


def threads(n_jobs: int | None) -> int:
    """Return the number of threads; 1 for None."""
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0:
        raise RowsError(f"n_jobs={n_jobs!r} is no number of threads: pass 1 or more, or -1 for all cores")
    return int(n_jobs)


def in_threads(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function with a keyword ``n_jobs`` use so many threads in all it calls."""

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        n_jobs: Any = kwargs.get("n_jobs")
        with allowed(threads(n_jobs)):
            return function(*args, **kwargs)

    return called


@contextmanager
def allowed(n_jobs: int) -> Iterator[Threads]:
    """Let the loops below use so many threads, -1 being one a core. Threads and processes they start use one each."""
    n, now = _number(n_jobs), _at_work.get()
    if n == now.n:
        yield now
    elif n == 1:
        with _working(_ALONE):
            yield _ALONE
    else:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(n - 1) as others, _working(Threads(n, others)) as team:
            yield team


def over_parts(n: int, function: Callable[[slice], Any], n_jobs: int | None = None, at_least: int = 1) -> list[Any]:
    """Call a function with slices that make up ``range(n)``, and return what it returned, in order.

    Parameters
    ----------
    n : int
    function : callable
        Its calls may not write to the same places, and must release the lock for them to run beside one another.
    n_jobs : int, optional
        Threads; by default as many as are :func:`allowed`.
    at_least : int
        How many items are worth a thread.

    Returns
    -------
    list
        What the function returned for each slice, in order.
    """
    if n_jobs is not None:
        with allowed(n_jobs):
            return over_parts(n, function, at_least=at_least)
    team = _at_work.get()
    shares = [(0, n)] if n < 2 * at_least else team.shares(n)
    return team.map(function, [slice(*share) for share in shares])


@contextmanager
def meanwhile(function: Callable[[], Any]) -> Iterator[None]:
    """Call a function beside what happens in the block, if a second thread is allowed; else before it."""
    result = _at_work.get().begin(function)
    if result is function:
        function()
        del function, result  # and what they hold
        yield
        return
    del function
    yield
    result()


@contextmanager
def _working(team: Threads) -> Iterator[Threads]:
    token = _at_work.set(team)
    try:
        yield team
    finally:
        _at_work.reset(token)


def _number(n_jobs: int) -> int:
    if n_jobs > 0:
        return n_jobs
    from joblib import cpu_count

    return max(int(cpu_count()) + 1 + n_jobs, 1)


@dataclass(frozen=True, eq=False, kw_only=True)
class Engine:
    """How replicates are run.

    Parameters
    ----------
    n_jobs : int
        Workers, of the joblib backend that is active (``joblib.parallel_config``): processes by default.
    progress : bool or callable
        True: a bar on stderr, if that is a terminal. A callable gets the number done and the number wanted.
    budget : float, optional
        Seconds after which no replicate is waited for but the first; no limit by default.
    checkpoint : str or Path, optional
        File in which finished replicates are kept; the same run goes on from there.
    """

    n_jobs: int = 1
    progress: Progress = False
    budget: float | None = None
    checkpoint: str | Path | None = None

    def __post_init__(self) -> None:
        if self.budget is not None and not self.budget > 0:
            raise RowsError(f"budget={self.budget!r} must be a number of seconds above 0")

    @property
    def inner(self) -> Engine:
        """The engine inside a replicate: one worker, and silent."""
        return Engine()
