"""Compiled loops in threads: how many this call may use, and the work divided among them."""

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
    from collections.abc import Callable, Iterator
    from concurrent.futures import Executor

P = ParamSpec("P")
R = TypeVar("R")

PARTS_A_THREAD = 4
"""Trees differ in size: a thread that is done early takes another part."""


@dataclass(frozen=True)
class _Team:
    """Threads at work for one call, the one that calls among them."""

    n_threads: int
    others: Executor


_at_work: ContextVar[_Team | None] = ContextVar("at_work", default=None)


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
def allowed(n_jobs: int) -> Iterator[None]:
    """Let the loops below use so many threads, -1 being one a core. Threads and processes they start use one each."""
    n_threads, now = _effective(n_jobs), _at_work.get()
    if n_threads == (1 if now is None else now.n_threads):
        yield
        return
    if n_threads == 1:
        with _working(None):
            yield
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(n_threads - 1) as others, _working(_Team(n_threads, others)):
        yield


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
    """
    if n_jobs is not None:
        with allowed(n_jobs):
            return over_parts(n, function, at_least=at_least)
    team = _at_work.get()
    if team is None or n < 2 * at_least:
        return [function(slice(0, n))]
    n_threads = min(team.n_threads, n // at_least)
    edges = np.linspace(0, n, min(n // at_least, PARTS_A_THREAD * n_threads) + 1).astype(np.int64).tolist()
    parts = list(map(slice, edges[:-1], edges[1:]))
    found: list[Any] = [None] * len(parts)
    left = deque(range(len(parts)))

    def work() -> None:
        while True:
            try:
                k = left.popleft()
            except IndexError:
                return
            found[k] = function(parts[k])

    helped = [team.others.submit(work) for _ in range(n_threads - 1)]
    try:
        work()
    finally:
        left.clear()
        for each in helped:
            if not each.cancel():  # else it had something else to do, and all is done without it
                each.result()
    return found


@contextmanager
def meanwhile(function: Callable[[], Any]) -> Iterator[None]:
    """Call a function beside what happens in the block, if a second thread is allowed; else before it."""
    team = _at_work.get()
    if team is None:
        function()
        yield
        return
    called = team.others.submit(function)
    yield
    called.result()


@contextmanager
def _working(team: _Team | None) -> Iterator[None]:
    token = _at_work.set(team)
    try:
        yield
    finally:
        _at_work.reset(token)


def _effective(n_jobs: int) -> int:
    if n_jobs > 0:
        return n_jobs
    from joblib import effective_n_jobs

    return int(effective_n_jobs(n_jobs))
