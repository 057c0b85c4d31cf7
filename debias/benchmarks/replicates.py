"""Benchmark of replicates: time and memory of our engine beside a plain joblib loop of the same fits."""

from __future__ import annotations

import os
import platform
import subprocess
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.child_process import command
from debias.retraining.replicates import child_seed

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.console import Console

N_REPLICATES = 50
N_JOBS = 2
TEXT = f"response_permutation(mdi, replicates={N_REPLICATES})"


def run(console: Console, repeats: int = 3) -> None:
    """Print seconds and peak memory of 50 refits, by debias and by the loop, each in a separate process.

    Parameters
    ----------
    console : rich.console.Console
    repeats : int
        Number of paired runs; the order within a pair alternates.
    """
    console.print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores, debias {debias.__version__}; {N_REPLICATES} "
        f"refits of a forest to permuted responses, {N_JOBS} processes; medians of {repeats} paired runs",
        highlight=False,
    )
    pairs = []
    for turn in range(repeats):
        order = ("ours", "loop") if turn % 2 == 0 else ("loop", "ours")
        measured = {which: _measured(which) for which in order}
        pairs.append((measured["ours"], measured["loop"]))
    for k, unit in ((0, "s"), (1, "MB at the peak, all processes")):
        ratios = [ours[k] / loop[k] for ours, loop in pairs]
        console.print(
            f"  {median(ours[k] for ours, _ in pairs):.1f} {unit}; loop {median(loop[k] for _, loop in pairs):.1f}; "
            f"ratio {median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})",
            highlight=False,
        )
    console.print(f"  one fit takes {median(loop[2] for _, loop in pairs):.2f} s alone", highlight=False)


def _measured(which: str) -> tuple[float, float, float]:
    """Return seconds, peak memory in MB, and seconds of one fit, measured in a new process."""
    code = f"from debias.benchmarks.replicates import measure; measure({which!r})"
    done = subprocess.run(command(code), capture_output=True, text=True, check=True)
    seconds, memory, one = map(float, done.stdout.split())
    return seconds, memory, one


def measure(which: str) -> None:
    """Run one side and print its figures, for `_measured` to read."""
    import warnings

    from joblib import Parallel, delayed

    warnings.simplefilter("ignore")
    X, y, forest = _problem()
    begin = perf_counter()
    _fit(forest, X, y, np.random.SeedSequence(0))
    one = perf_counter() - begin
    Parallel(n_jobs=N_JOBS)(delayed(_ready)() for _ in range(2 * N_JOBS))  # the start of workers is not timed
    begin = perf_counter()
    if which == "ours":
        debias.score(forest, X, y, TEXT, seed=0, n_jobs=N_JOBS)
    else:
        children = np.random.SeedSequence(0).spawn(N_REPLICATES)
        Parallel(n_jobs=N_JOBS)(delayed(_fit)(forest, X, y, child) for child in children)
    print(perf_counter() - begin, _peak(), one)  # for the parent process


def _problem() -> tuple[NDArray[np.float32], NDArray[np.float64], Any]:
    from sklearn.ensemble import RandomForestRegressor

    rng = np.random.default_rng(0)
    X = rng.normal(size=(4_000, 20)).astype(np.float32)
    y = X[:, :5].sum(axis=1) + rng.normal(scale=2, size=len(X))
    return X, y, RandomForestRegressor(40, max_features=5, random_state=0, n_jobs=1).fit(X, y)


def _fit(forest: Any, X: NDArray[np.float32], y: NDArray[np.float64], child: np.random.SeedSequence) -> Any:
    """Fit the same forest to the same permuted response as debias does, and return its reported importance."""
    from sklearn.base import clone

    permuted = np.random.default_rng(child).permutation(y)
    return clone(forest).set_params(random_state=child_seed(child)).fit(X, permuted).feature_importances_


def _ready() -> None:
    import sklearn.ensemble  # noqa: F401


def _peak() -> float:
    """Return the sum of the peak resident memory of this process and its children, in MB (Linux)."""
    pid = os.getpid()
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        processes = [str(pid), *file.read().split()]
    total = 0
    for process in processes:
        with open(f"/proc/{process}/status") as file:
            total += sum(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    return total / 1024
