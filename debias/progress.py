"""Progress of long calls: one line with the time left, in a terminal or a notebook, after two seconds.

A public function shows progress (:func:`with_progress`), and long loops say how far they are (:func:`task`). The
report is kept in a context variable, so that it need not be passed through every function. Other threads and processes
find none there: the loops that they run are silent.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys
import threading
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, Protocol, TypeVar

from debias.errors import RowsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    Progress = bool | str | None | Callable[[int, int], None]
    """"auto" (or None), True, False, or a callable, see :func:`debias.show_progress`."""
    Display = Callable[["State"], None]

P = ParamSpec("P")
R = TypeVar("R")

AFTER = 2.0
"""Seconds that a call may take without a line."""
EVERY = 0.2
"""Seconds between two states of the line."""
EVERY_LINE = 10.0
"""Seconds between two lines if stderr is a file or a pipe."""
NOT_WATCHED = ("CI", "PYTEST_CURRENT_TEST")
"""Environment variables that mean that nobody watches the terminal."""
SLOW = 10.0
"""Seconds from which on the time of a call is logged, at the level INFO."""
WORKING = "working"


class State(NamedTuple):
    """How far a task is."""

    what: str = WORKING
    done: int = 0
    total: int | None = None
    started: float = 0.0

    @property
    def share(self) -> float:
        """The share that is done; 0 if the total is not known."""
        return self.done / self.total if self.total else 0.0

    @property
    def left(self) -> str:
        """The time left in words; "" as long as nothing is done."""
        if not self.done or not self.total:
            return ""
        seconds = round((perf_counter() - self.started) * (self.total - self.done) / self.done)
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02} left"

    @property
    def text(self) -> str:
        """The state in one line."""
        return " ".join(part for part in (self.what, f"{self.share:4.0%}" if self.total else "", self.left) if part)


class _Report(Protocol):
    """What tasks tell how far they are."""

    def tell(self, state: State, named: bool) -> None:
        """Take a new state of the task; `named`: it counts what a user asked for, not parts of a computation."""


class _Silent:
    """Reports nothing."""

    def tell(self, state: State, named: bool) -> None: ...


class _Callable:
    """Calls a function of the user with the number done and the total."""

    def __init__(self, function: Callable[[int, int], None]) -> None:
        self._function = function

    def tell(self, state: State, named: bool) -> None:
        if named and state.done and state.total:
            self._function(state.done, state.total)


class _Line:
    """Shows the last state from a thread of its own, so that loops are not slowed down, and time passes in long steps.

    Parameters
    ----------
    display : callable
        Returns a context manager whose value shows a state.
    after, every : float
        Seconds before the first state, and between two states.
    """

    def __init__(self, display: Callable[[], AbstractContextManager[Display]], after: float, every: float) -> None:
        self._display, self._after, self._every = display, after, every
        self._state, self._over = State(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="debias-progress", daemon=True)

    def tell(self, state: State, named: bool) -> None:
        self._state = state

    def __enter__(self) -> _Line:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        if self._over.wait(self._after):
            return
        with self._display() as show:
            show(self._state)
            while not self._over.wait(self._every):
                show(self._state)


_SILENT = _Silent()
_report: ContextVar[_Report | None] = ContextVar("report", default=None)


@contextmanager
def show_progress(progress: Progress = "auto") -> Iterator[None]:
    """Show how far the calls in the block are, and the time left.

    Without it, a call shows one line on stderr after two seconds, in a terminal or notebook.

    Parameters
    ----------
    progress : {"auto", True, False} or callable
        - "auto": as without this block; inside another such block it adds nothing to that.
        - True: at once; in a file or pipe a line each ten seconds.
        - False: nothing.
        - A callable is called with the number done and the total of permutations, replicates (refits), folds, features
          or rows, whatever takes long; when the total changes, another step has begun.

    Returns
    -------
    context manager

    Raises
    ------
    RowsError
        Progress is something else.

    Examples
    --------
    >>> import debias
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> forest = RandomForestRegressor(random_state=0).fit(X, y)
    >>> with debias.show_progress(False):
    ...     audit = debias.audit(forest, X, y)
    """
    if progress is None or (isinstance(progress, str) and progress == "auto"):
        if _report.get() is not None or not _is_watched():
            yield
            return
        display, after, every = _notebook if _in_notebook() else _terminal, AFTER, EVERY
    elif progress is True:
        is_terminal = _is_terminal()
        display = _notebook if _in_notebook() else _terminal if is_terminal else _lines
        after, every = (0.0, EVERY) if display is not _lines else (EVERY_LINE, EVERY_LINE)
    elif progress is False or callable(progress):
        with _reporting(_SILENT if progress is False else _Callable(progress)):
            yield
        return
    else:
        raise RowsError(f'progress={progress!r} must be "auto", True, False, or a function of (done, total)')
    with _Line(display, after, every) as line, _reporting(line):
        yield


def with_progress(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a public function: it shows the progress of the tasks in everything it calls, and logs a long time."""

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        began = perf_counter()
        try:
            with show_progress():
                return function(*args, **kwargs)
        finally:
            took = perf_counter() - began
            if took >= SLOW:
                logging.getLogger("debias").info("debias.%s took %.1f s", function.__name__, took)

    return called


@contextmanager
def task(what: str | None, total: int) -> Iterator[Callable[..., None]]:
    """Report the progress of a loop. The tasks inside a task are silent.

    Parameters
    ----------
    what : str or None
        What the loop counts, such as "permutations". None for parts of a computation: functions that users pass to
        :func:`show_progress` are not told of these.
    total : int
        How many there are; with fewer the loop ended early.

    Yields
    ------
    callable
        Call it, from any thread, when one more is done, or with the number of those that were done.

    Examples
    --------
    >>> from debias.progress import show_progress, task
    >>> with show_progress(lambda done, total: print(f"{done} of {total}")), task("features", 2) as advance:
    ...     for _ in range(2):
    ...         advance()
    1 of 2
    2 of 2
    """
    report = _report.get()
    if report is None or report is _SILENT:
        yield lambda n=1: None
        return
    lock, done, started = threading.Lock(), 0, perf_counter()

    def advance(n: int = 1) -> None:
        nonlocal done
        with lock:
            done += n
            report.tell(State(what or WORKING, done, total, started), what is not None)

    advance(0)
    try:
        with _reporting(_SILENT):
            yield advance
    finally:
        report.tell(State(), False)


@contextmanager
def _reporting(report: _Report) -> Iterator[None]:
    token = _report.set(report)
    try:
        yield
    finally:
        _report.reset(token)


def _is_watched() -> bool:
    """Whether a user sees a line on stderr, and no other thread or process writes one of its own."""
    if threading.current_thread() is not threading.main_thread() or multiprocessing.parent_process() is not None:
        return False
    if any(os.environ.get(name) for name in NOT_WATCHED):
        return False
    return _in_notebook() or (_is_terminal() and os.environ.get("TERM") != "dumb")


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _in_notebook() -> bool:
    """Whether cells of a notebook are run by a kernel of IPython, which shows HTML."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None or "ipykernel" not in sys.modules else ipython.get_ipython()
    return type(shell).__name__ == "ZMQInteractiveShell"


@contextmanager
def _terminal() -> Iterator[Display]:
    """Show one line of a terminal, which is removed at the end."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[rest]}")
    settings: dict[str, Any] = {
        "console": Console(stderr=True, force_terminal=True),
        "transient": True,
        "auto_refresh": False,
        "redirect_stdout": sys.stdout is not None and sys.stdout.isatty(),  # a file or pipe keeps its output
    }
    with Progress(*columns, **settings) as bar:
        line = bar.add_task(WORKING, total=None, rest="")

        def show(state: State) -> None:
            rest = f"{state.share:4.0%} {state.left}" if state.total else ""
            bar.update(line, description=state.what, completed=state.done, total=state.total, rest=rest, refresh=True)

        yield show


@contextmanager
def _notebook() -> Iterator[Display]:
    """Show a bar below the cell of a notebook, which is removed at the end."""
    page: Any = import_module("IPython.display")
    handle = page.display(page.HTML(""), display_id=True)

    def show(state: State) -> None:
        bar = f'<progress max="1" value="{state.share}"></progress>' if state.total else "<progress></progress>"
        handle.update(page.HTML(f"<div>{bar} {state.text}</div>"))

    try:
        yield show
    finally:
        handle.update(page.HTML(""))


@contextmanager
def _lines() -> Iterator[Display]:
    """Write a line for each state, for logs."""
    yield lambda state: print(f"debias: {state.text}", file=sys.stderr, flush=True)
