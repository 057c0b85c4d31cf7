"""Compiled loops in threads: how many this call may use, and the work divided among them."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from debias.errors import RowsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

P = ParamSpec("P")
R = TypeVar("R")

PARTS_A_THREAD = 4
"""Trees differ in size: a thread that is done early takes another part."""

_allowed: ContextVar[int] = ContextVar("allowed", default=1)


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
    token = _allowed.set(n_jobs)
    try:
        yield
    finally:
        _allowed.reset(token)


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
    n_jobs = _allowed.get() if n_jobs is None else n_jobs
    if n_jobs == 1 or n < 2 * at_least:
        return [function(slice(0, n))]
    from concurrent.futures import ThreadPoolExecutor

    from joblib import effective_n_jobs

    n_threads = min(effective_n_jobs(n_jobs), n // at_least)
    edges = np.linspace(0, n, min(n // at_least, PARTS_A_THREAD * n_threads) + 1).astype(np.int64).tolist()
    with ThreadPoolExecutor(n_threads) as threads:
        return list(threads.map(function, map(slice, edges[:-1], edges[1:])))


@contextmanager
def meanwhile(function: Callable[[], Any]) -> Iterator[None]:
    """Call a function beside what happens in the block, if a second thread is allowed; else before it."""
    if _allowed.get() == 1:
        function()
        yield
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as thread:
        called = thread.submit(function)
        yield
        called.result()
