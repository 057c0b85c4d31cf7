"""Replicates handed to workers: each draws from a seed of its own, and is handed out again if its worker died."""

from __future__ import annotations

import hashlib
import pickle
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from threading import Event

    from numpy.typing import NDArray

LOSSES = 3
"""So often replicates whose workers died are handed out again: more often, and they kill them."""
OF_LOST_WORKERS = (
    "TerminatedWorkerError",
    "BrokenProcessPool",
    "FutureCancelledError",
    "CancelledError",
    "KilledWorker",
)
"""Errors of joblib's backends by which a worker that died is known."""


def results_in_order(
    function: Any, arguments: tuple[Any, ...], numbers: Iterable[int], seed: int, n_jobs: int
) -> Generator[NDArray[np.float64] | Exception]:
    """Yield the results of some replicates in order."""
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
    way = {"return_as": "generator"} if backend.supports_return_generator else {}
    outstanding: deque[int] = deque()

    def handed_out(again: list[int]) -> Iterator[int]:
        for number in chain(again, numbers):
            outstanding.append(number)
            yield number

    for losses in range(1 + LOSSES):
        again = list(outstanding)
        outstanding.clear()
        tasks = (task(seed=seed, number=number) for number in handed_out(again))
        try:
            for result in Parallel(n_jobs=n_jobs, **way)(tasks):
                outstanding.popleft()
                yield result
        except Exception as error:
            if type(error).__name__ not in OF_LOST_WORKERS or losses == LOSSES:
                raise
        else:
            return


@contextmanager
def ended(results: Generator[Any], over: Event) -> Iterator[None]:
    """Begin no replicate after the block. What workers are at is waited for, or cut off where an error ends the run."""
    try:
        yield
        over.set()
        for _ in results:
            pass
    finally:
        over.set()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # joblib warns of what it cuts off
            results.close()


def _one(
    function: Callable[..., NDArray[np.float64]], *arguments: Any, seed: int, number: int
) -> NDArray[np.float64] | Exception:
    """Run one replicate; an error is a result too, so that it does not end the others."""
    try:
        child = np.random.SeedSequence(seed, spawn_key=(number,))
        return np.asarray(function(*arguments, child), dtype=np.float64)
    except Exception as error:  # whatever a library raises belongs to this replicate alone
        return error


def _packed(function: Any, arguments: tuple[Any, ...]) -> tuple[NDArray[np.uint8], str]:
    """Return function and arguments as one array, which joblib hands to each worker once, and its digest."""
    import cloudpickle

    packed = np.frombuffer(cloudpickle.dumps((function, arguments)), dtype=np.uint8)
    return packed, hashlib.sha256(packed.data).hexdigest()


_unpacked: dict[str, Any] = {}
"""What this worker process has unpacked: one run's at a time."""


def _unpack_and_run(packed: NDArray[np.uint8], key: str, *, seed: int, number: int) -> NDArray[np.float64] | Exception:
    known = _unpacked.get(key)
    if known is None:
        known = pickle.loads(packed.data)
        _unpacked.clear()
        _unpacked[key] = known
    function, arguments = known
    return _one(function, *arguments, seed=seed, number=number)
