"""Threads for compiled loops, which release the interpreter's lock, and the settings of parallel replicates.

Loops run in shares, of trees or rows, also in one thread: between two of them progress is told and Ctrl-C is answered.
"""

from __future__ import annotations

import os
from collections import deque
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from debias.errors import RowsError
from debias.progress import task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Executor
    from pathlib import Path

P = ParamSpec("P")
R = TypeVar("R")

SHARES_A_THREAD = 8
"""Trees differ in size: a thread that finishes early takes another share."""
STEPS_A_THREAD = 50_000
"""Fewer steps of a compiled loop take less time than calling it."""
FEWEST_SHARES = 32
"""A share should take less than a second, after which Ctrl-C is answered."""


class Threads:
    """The calling thread and the threads that help it; made by :func:`allowed`.

    Results come in the order of the items, so sums over them do not depend on the threads. (joblib's threads look
    for results every hundredth of a second, which is as long as many of the loops here take.)

    Parameters
    ----------
    n : int
        Number of threads.
    others : Executor, optional
        Runs all threads except the calling one; None if there is no other thread.
    """

    def __init__(self, n: int, others: Executor | None = None) -> None:
        self.n, self._others = n, others

    def map(self, function: Callable[[Any], Any], items: Iterable[Any], what: str | None = None) -> list[Any]:
        """Call a function with every item, and return the results in order. Calls may not write to the same memory.

        Progress is reported after each item; `what` names them, see :func:`debias.progress.task`.
        """
        all_items = list(items)
        with task(what, len(all_items)) as advance:
            return self._map(function, all_items, advance)

    def _map(self, function: Callable[[Any], Any], all_items: list[Any], advance: Callable[[], None]) -> list[Any]:
        results: list[Any] = [None] * len(all_items)
        left = deque(range(len(all_items)))

        def work() -> None:
            while True:
                try:
                    k = left.popleft()
                except IndexError:
                    return
                results[k] = function(all_items[k])
                advance()

        n_helpers = 0 if self._others is None else max(0, min(self.n, len(all_items)) - 1)
        helpers = [] if self._others is None else [self._others.submit(work) for _ in range(n_helpers)]
        try:
            work()
        finally:
            left.clear()
            for helper in helpers:
                if not helper.cancel():  # a helper that never started is cancelled: the others did all the work
                    helper.result()
        return results

    def begin(self, function: Callable[[], Any]) -> Callable[[], Any]:
        """Start a call in another thread, and return a function that gives its result.

        Without another thread, the returned function is `function` itself.
        """
        return function if self._others is None else self._others.submit(function).result

    def shares(self, n: int, at_least: int = 1) -> list[tuple[int, int]]:
        """Divide n items into contiguous shares, several for each thread, so that no thread waits long.

        A share has `at_least` items, or all of them.
        """
        n_shares = max(1, min(n // at_least, max(FEWEST_SHARES, SHARES_A_THREAD * self.n)))
        return [(n * i // n_shares, n * (i + 1) // n_shares) for i in range(n_shares)]


_ALONE = Threads(1)
_at_work: ContextVar[Threads] = ContextVar("at_work", default=_ALONE)


def threads(n_jobs: int | None) -> int:
    """Return the number of threads; 1 for None."""
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0:
        raise RowsError(f"n_jobs={n_jobs!r} is not a number of threads: pass 1 or more, or -1 for all cores")
    return int(n_jobs)


def in_threads(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function with a keyword ``n_jobs``: everything it calls may use that many threads."""

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        n_jobs: Any = kwargs.get("n_jobs")
        with allowed(threads(n_jobs)):
            return function(*args, **kwargs)

    return called


def current() -> Threads:
    """Return the threads that are allowed here."""
    return _at_work.get()


def n_allowed(n_jobs: int | None) -> int:
    """Return the number of threads that `over_parts` uses for `n_jobs`."""
    return current().n if n_jobs is None else _number(n_jobs)


@contextmanager
def allowed(n_jobs: int) -> Iterator[Threads]:
    """Allow loops in the block some threads. Threads and processes that they start use one each.

    Parameters
    ----------
    n_jobs : int
        Number of threads; -1 for one a core.

    Yields
    ------
    Threads
        ``map`` of it calls a function with each of some items, and reports progress.

    Examples
    --------
    >>> from debias.parallel import allowed
    >>> with allowed(2) as threads:
    ...     threads.map(abs, [1, -2, 3], "trees")
    [1, 2, 3]
    """
    n, current = _number(n_jobs), _at_work.get()
    if n == current.n:
        yield current
    elif n == 1:
        with _working(_ALONE):
            yield _ALONE
    else:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(n - 1) as others, _working(Threads(n, others)) as team:
            yield team


def over_parts(n: int, function: Callable[[slice], Any], n_jobs: int | None = None, at_least: int = 1) -> list[Any]:
    """Call a function with slices that together make up ``range(n)``, and return its results in order.

    Parameters
    ----------
    n : int
    function : callable
        Its calls may not write to the same memory. They run in parallel if they release the interpreter's lock.
    n_jobs : int, optional
        Number of threads; by default as many as are :func:`allowed`.
    at_least : int
        How many items are worth a call.

    Returns
    -------
    list
        What the function returned for each slice, in order.
    """
    if n_jobs is not None:
        with allowed(n_jobs):
            return over_parts(n, function, at_least=at_least)
    team = _at_work.get()
    return team.map(function, [slice(*share) for share in team.shares(n, at_least)])


def worth(n: int, work: int) -> int:
    """Return how many items are worth a call, for `at_least` of :func:`over_parts`.

    Parameters
    ----------
    n : int
        Number of items.
    work : int
        Number of steps that the items take together, such as visits of nodes or of rows.

    Returns
    -------
    int
        At least 1.

    Examples
    --------
    >>> worth(100, 1_000_000)
    5
    """
    return max(1, STEPS_A_THREAD * n // max(1, work))


@contextmanager
def meanwhile(function: Callable[[], Any]) -> Iterator[None]:
    """Call a function while the block runs, if a second thread is allowed; otherwise before the block."""
    result = _at_work.get().begin(function)
    if result is function:
        function()
        del function, result  # frees what they hold
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
class Refits:
    """How meta-methods refit the model.

    Parameters
    ----------
    params : mapping or estimator, optional
        Hyper-parameters for refits. They replace those that the model stores; if it stores none, pass all of them. For
        a Booster whose file lost its hyper-parameters, an unfitted XGBoost estimator; the Booster is then scored as
        that estimator.
    budget : float, optional
        Time limit of the replicates of a meta-method in seconds; no limit by default. The replicates finished until
        then are used.
    checkpoint : str or Path, optional
        File that keeps the finished replicates of a meta-method. The same call continues from there.

    Raises
    ------
    RowsError
        The time limit is not a number of seconds.

    Examples
    --------
    >>> import debias
    >>> debias.Refits(params={"learning_rate": 0.1}, budget=600.0).budget
    600.0
    """

    params: Any = None
    budget: float | None = None
    checkpoint: str | Path | None = None

    def __post_init__(self) -> None:
        is_number = isinstance(self.budget, (int, float, np.integer, np.floating)) and not isinstance(self.budget, bool)
        if self.budget is not None and not (is_number and self.budget > 0):
            raise RowsError(f"budget={self.budget!r} must be a number of seconds above 0")
        if self.checkpoint is not None and not isinstance(self.checkpoint, str | os.PathLike):
            raise RowsError(f"checkpoint={self.checkpoint!r} must be the path of a file")

    @property
    def has_limits(self) -> bool:
        """Whether there is a time limit or a checkpoint, which only refits can use."""
        return self.budget is not None or self.checkpoint is not None

    def engine(self, n_jobs: int) -> Engine:
        """Return the settings for running replicates with a number of workers."""
        return Engine(n_jobs=n_jobs, budget=self.budget, checkpoint=self.checkpoint)


def checked(refits: Any) -> Refits:
    """Return the settings of refits that a user passed; those by default for None.

    Raises
    ------
    RowsError
        They are something else.
    """
    if refits is None:
        return Refits()
    if not isinstance(refits, Refits):
        raise RowsError(f"refits={refits!r} must be debias.Refits(params=, budget=, checkpoint=), or None")
    return refits


@dataclass(frozen=True, eq=False, kw_only=True)
class Engine:
    """The settings for running replicates.

    Parameters
    ----------
    n_jobs : int
        Number of workers of the active joblib backend (``joblib.parallel_config``): processes by default.
    budget : float, optional
        Time limit in seconds. Replicates that are not finished by then are left out, except the first; no limit by
        default.
    checkpoint : str or Path, optional
        File that keeps finished replicates; the same run continues from there.
    """

    n_jobs: int = 1
    budget: float | None = None
    checkpoint: str | Path | None = None

    def __post_init__(self) -> None:
        if self.budget is not None and not self.budget > 0:
            raise RowsError(f"budget={self.budget!r} must be a number of seconds above 0")

    @property
    def inner(self) -> Engine:
        """The engine inside a replicate: one worker."""
        return Engine()
