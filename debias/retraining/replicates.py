"""Replicates: hundreds of refits with their seeds, workers, time budgets and checkpoints.

Replicate b draws from ``numpy.random.SeedSequence(seed, spawn_key=(b,))`` wherever it runs, and results are taken in
order. So a serial run, threads, processes and a cluster give the same numbers. With a time budget, the results are the
first replicates, not the fastest ones.
"""

from __future__ import annotations

import hashlib
import pickle
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from threading import Event
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import CompositionError, RefitError, UnsupportedModelError
from debias.parallel import Engine
from debias.progress import task

if TYPE_CHECKING:
    from numpy.typing import NDArray

LOSSES = 3
"""How often replicates are started again after their workers died. After that, the replicates are the likely cause."""
OF_LOST_WORKERS = (
    "TerminatedWorkerError",
    "BrokenProcessPool",
    "FutureCancelledError",
    "CancelledError",
    "KilledWorker",
)
"""Errors of joblib backends that mean that a worker died."""
_unpacked: dict[str, Any] = {}
"""Function and arguments that this worker process has unpacked, for one run at a time."""


FATAL = (CompositionError, UnsupportedModelError)
"""Errors that every replicate would raise, so they end the run."""


@dataclass(frozen=True, eq=False)
class Replicates:
    """The results of replicates.

    Parameters
    ----------
    values : array of float64 of shape (n_done, ...)
        Results of the replicates without an error, in order.
    n_wanted : int
    stopped : str
        "all drawn", "budget" or "settled".
    failures : tuple of str
        A sentence for each replicate that failed: its number, seed and error.
    n_damaged : int
        Number of damaged replicates in the checkpoint; they are drawn again if they are needed.
    """

    values: NDArray[np.float64]
    n_wanted: int
    stopped: str
    failures: tuple[str, ...] = ()
    n_damaged: int = 0

    def report(self) -> dict[str, Any]:
        """Return details for the scores, including ``warnings`` if there are any."""
        details: dict[str, Any] = {"replicates": len(self.values), "stopped": self.stopped}
        warnings_of_run = []
        if self.stopped == "budget":
            warnings_of_run.append(f"the time budget ended after {len(self.values)} of {self.n_wanted} replicates")
        if self.n_damaged:
            warnings_of_run.append(
                f"{self.n_damaged} of the replicates in the checkpoint were damaged: they are not used, and drawn again"
            )
        if self.failures:
            details["failures"] = list(self.failures)
            warnings_of_run.append(
                f"{len(self.failures)} of {self.n_wanted} replicates failed; the first: {self.failures[0]}"
            )
        return details | ({"warnings": warnings_of_run} if warnings_of_run else {})


@dataclass(eq=False)
class _Run:
    """The results of the replicates so far."""

    results: list[NDArray[np.float64]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def take(self, number: int, seed: int, result: NDArray[np.float64] | Exception) -> None:
        if isinstance(result, FATAL):
            raise result
        if isinstance(result, Exception):
            self.failures.append(
                f"replicate {number}, numpy.random.SeedSequence({seed}, spawn_key=({number},)): "
                f"{type(result).__name__}: {result}"
            )
        else:
            self.results.append(result)


def replicate(
    function: Callable[..., NDArray[np.float64]],
    *arguments: Any,
    n: int,
    seed: int,
    engine: Engine | None = None,
    fingerprint: Callable[[], str] | None = None,
    settled: Callable[[NDArray[np.float64]], bool] | None = None,
) -> Replicates:
    """Call a function once a replicate, each time with a seed of its own.

    Parameters
    ----------
    function : callable
        Called as ``function(*arguments, child)``, where `child` is a ``numpy.random.SeedSequence``. It returns an array
        that always has the same shape. If workers are processes, the function and its arguments must be picklable.
    *arguments
        Arguments, the same for all replicates. Large ones are passed to each worker once.
    n : int
        Number of replicates.
    seed : int
    engine : Engine, optional
        Serial by default.
    fingerprint : callable, optional
        Called if there is a checkpoint. It returns a text that identifies everything that the results depend on, except
        `n`.
    settled : callable, optional
        Called after each replicate with the results so far, shape (b, ...). The run ends when it returns True.

    Returns
    -------
    Replicates

    Raises
    ------
    RefitError
        Every replicate failed.
    DebiasError
        An error that every replicate would raise: for example, the model cannot be refitted.
    """
    engine = engine or Engine()
    run, started, stopped = _Run(), perf_counter(), "all drawn"
    with _checkpoint(engine, fingerprint) as (kept, keep, n_damaged), task("replicates", n) as advance:
        over = Event()
        todo = (number for number in range(n) if number not in kept and not over.is_set())
        fresh = results_in_order(function, arguments, todo, seed, engine.n_jobs)
        with ended(fresh, over):
            for number in range(n):
                known = kept.get(number)
                result = next(fresh) if known is None else known
                run.take(number, seed, result)
                if known is None and not isinstance(result, Exception):
                    keep(number, result)
                advance()
                if settled is not None and run.results and settled(np.array(run.results)):
                    stopped = "settled"
                    break
                if engine.budget is not None and perf_counter() - started > engine.budget and number + 1 < n:
                    stopped = "budget"
                    break
    if not run.results:
        raise RefitError(f"none of {len(run.failures)} replicates could be run; the first: {run.failures[0]}")
    return Replicates(np.array(run.results), n, stopped, tuple(run.failures), n_damaged)


def child_seed(child: np.random.SeedSequence) -> int:
    """Return a seed for the fits and scores of a replicate; it has 31 bits, because libraries take no more.

    Parameters
    ----------
    child : numpy.random.SeedSequence
        Seed sequence of the replicate.

    Returns
    -------
    int
    """
    return int(child.generate_state(1)[0] >> 1)


@contextmanager
def _checkpoint(engine: Engine, fingerprint: Callable[[], str] | None) -> Iterator[tuple[dict[int, Any], Any, int]]:
    if engine.checkpoint is None or fingerprint is None:
        yield {}, lambda number, values: None, 0
        return
    from debias.retraining.checkpoint import Checkpoint

    with Checkpoint(engine.checkpoint, fingerprint()) as file:
        kept = file.read()
        yield kept, file.write, file.n_damaged


def results_in_order(
    function: Any, arguments: tuple[Any, ...], numbers: Iterable[int], seed: int, n_jobs: int
) -> Generator[NDArray[np.float64] | Exception]:
    """Yield the results of the replicates with these numbers, in order."""
    if n_jobs == 1:
        yield from (_one(function, *arguments, seed=seed, number=number) for number in numbers)
        return
    from joblib import Parallel, delayed
    from joblib.parallel import get_active_backend

    backend = get_active_backend()[0]
    if getattr(backend, "uses_threads", False):
        task = partial(delayed(_one), function, *arguments)
    else:
        task = partial(delayed(_unpack_and_run), *_packed(function, arguments))
    settings = {"return_as": "generator"} if backend.supports_return_generator else {}
    outstanding: deque[int] = deque()

    def handed_out(lost: list[int]) -> Iterator[int]:
        for number in chain(lost, numbers):
            outstanding.append(number)
            yield number

    for losses in range(1 + LOSSES):
        lost = list(outstanding)
        outstanding.clear()
        tasks = (task(seed=seed, number=number) for number in handed_out(lost))
        try:
            for result in Parallel(n_jobs=n_jobs, **settings)(tasks):
                outstanding.popleft()
                yield result
        except Exception as error:
            if type(error).__name__ not in OF_LOST_WORKERS or losses == LOSSES:
                raise
        else:
            return


@contextmanager
def ended(results: Generator[Any], over: Event) -> Iterator[None]:
    """Start no replicate after the block. Running replicates are finished, or cancelled if an error ends the run."""
    try:
        yield
        over.set()
        for _ in results:
            pass
    finally:
        over.set()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # joblib warns of tasks that it cancels
            results.close()


def _one(
    function: Callable[..., NDArray[np.float64]], *arguments: Any, seed: int, number: int
) -> NDArray[np.float64] | Exception:
    """Run one replicate; return an error as a result, so that it does not end the others."""
    try:
        child = np.random.SeedSequence(seed, spawn_key=(number,))
        return np.asarray(function(*arguments, child), dtype=np.float64)
    except Exception as error:  # any error of a library belongs to this replicate alone
        return error


def _packed(function: Any, arguments: tuple[Any, ...]) -> tuple[NDArray[np.uint8], str]:
    """Return function and arguments as one array, which joblib sends to each worker once, and its digest."""
    import cloudpickle

    packed = np.frombuffer(cloudpickle.dumps((function, arguments)), dtype=np.uint8)
    return packed, hashlib.sha256(packed.data).hexdigest()


def _unpack_and_run(packed: NDArray[np.uint8], key: str, *, seed: int, number: int) -> NDArray[np.float64] | Exception:
    unpacked = _unpacked.get(key)
    if unpacked is None:
        unpacked = pickle.loads(packed.data)
        _unpacked.clear()
        _unpacked[key] = unpacked
    function, arguments = unpacked
    return _one(function, *arguments, seed=seed, number=number)
