"""A separate process in which a model file is tried first, so that a crafted file cannot crash the run.

Native readers and predictors do not check what they read: an index out of range is a segmentation fault. The child
process loads the file, extracts its trees, which checks their structure, and predicts a few rows with them
(``load_and_predict`` of :mod:`debias.models.loading`). Only then is the file loaded in this process. Time and memory of
the child are limited.
"""

from __future__ import annotations

import json
import math
import os
import signal
import stat
import subprocess
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from debias import errors
from debias.child_process import command

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS, SECONDS_A_MEGABYTE = 60.0, 1.0
"""Limit of a child's processor time by default; a walk through damaged trees with cycles never ends."""
WAIT = 20
"""Times this limit that a child may take by the clock: other processes may have the processors."""
MEGABYTES, TIMES_THE_FILE, LEAST = 300, 20, 600
"""Limit of a child's memory: 300 MB, which the libraries need, and 20 times the file; but at least 600 MB."""
PAUSE = 0.02
REFUSED = 3
"""Exit code of a child that refused a file."""
LONGEST = 10**6
"""Bytes of a child's output that are read."""
MARK = "debias.models.sandbox refused: "
"""Marks where the name of the error begins: libraries may have printed other lines before."""
BYTES, ADDRESSES_A_BYTE = 6 << 30, 40
"""Address space of a child: libraries and their threads reserve gigabytes, and trees in memory outgrow their file."""
_PARAMS = "--params="
_CHILD = "from debias.models import loading, sandbox; sys.exit(sandbox.main(loading.load_and_predict, sys.argv[1:]))"
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def check(
    path: str | Path,
    trust: tuple[str, ...] = (),
    allow_pickle: bool = False,
    seconds: float | None = None,
    params: Any = None,
) -> None:
    """Load a model file in a child process, and predict a few rows there.

    Parameters
    ----------
    path : str or Path
    trust : tuple of str
    allow_pickle : bool
        As for :func:`debias.load_model`.
    seconds : float, optional
        Limit of the child's processor time; by default 60, plus one second per megabyte of the file. By the clock it
        may take 20 times as long, because the machine may be busy.
    params : mapping or estimator, optional
        As for :func:`debias.load_model`. A mapping of plain values is passed on: some files are no model without it.

    Raises
    ------
    DebiasError
        The error that :func:`debias.load_model` raised in the child.
    UnsupportedModelError
        The child crashed, did not finish in time, or needed more memory than 300 MB and 20 times
        the file (at least 600 MB); or the path is no regular file, and no directory of regular files.
    """
    refuse_devices(Path(path))
    file = Path(path).absolute()
    size = file_size(file) / 1e6
    seconds = SECONDS + SECONDS_A_MEGABYTE * size if seconds is None else seconds
    flags = [
        f"--seconds={seconds}",
        *(f"--trust={name}" for name in trust),
        *(["--allow-pickle"] if allow_pickle else []),
        *_params_flag(params),
    ]
    words = command(_CHILD, *flags, "--", str(file))
    with tempfile.TemporaryFile() as told, tempfile.TemporaryFile() as problems:
        child = subprocess.Popen(
            words, stdout=told, stderr=problems, stdin=subprocess.DEVNULL, env=os.environ | _ONE_THREAD
        )
        try:
            _watch(child, path, seconds, max(LEAST, MEGABYTES + ADDRESSES_A_BYTE * size))
        finally:
            child.kill()
            child.wait()
        output, last = (_text_of(stream) for stream in (told, problems))
    if child.returncode == REFUSED:
        kind, _, message = output.rpartition(MARK)[2].partition("\n")
        raise getattr(errors, kind, errors.UnsupportedModelError)(message.strip())
    if child.returncode == -getattr(signal, "SIGXCPU", 0):
        raise errors.UnsupportedModelError(
            f"{path} did not finish within {seconds:.3g} s of processor time while it was loaded: it is damaged, or "
            "very large. For a file that you know, allow more (--load-seconds, seconds=)"
        )
    if child.returncode:
        how = signal.Signals(-child.returncode).name if child.returncode < 0 else f"exit code {child.returncode}"
        end = (last.strip().splitlines() or [""])[-1]
        raise errors.UnsupportedModelError(f"{path} is damaged: loading it ended the process ({how}) {end}".strip())


def _params_flag(params: Any) -> list[str]:
    try:
        return [f"{_PARAMS}{json.dumps(params)}"] if isinstance(params, dict) else []
    except TypeError:  # no plain values: the child tries the file without them
        return []


def _watch(child: subprocess.Popen[bytes], path: str | Path, seconds: float, megabytes: float) -> None:
    """Wait until a child ends, or its time or memory is used up."""
    end = time.monotonic() + WAIT * seconds
    while True:
        try:
            child.wait(PAUSE)
            return
        except subprocess.TimeoutExpired:
            pass
        if time.monotonic() > end:
            raise errors.UnsupportedModelError(
                f"{path} did not finish within {WAIT * seconds:.3g} s while it was loaded. The machine may be busy: "
                "try again, or allow more (--load-seconds, seconds=)"
            )
        used = _megabytes(child.pid)
        if used > megabytes:
            raise errors.UnsupportedModelError(
                f"{path} needed more than {megabytes:,.0f} MB of memory while it was loaded, too much for its size: it "
                "is damaged, or not a model"
            )


def _megabytes(pid: int) -> float:
    """Return the memory that a process uses; 0 where the system does not tell."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    except (OSError, IndexError, ValueError):  # it has ended
        return 0.0


def _text_of(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read(LONGEST).decode("utf-8", "replace")


def refuse_devices(path: Path) -> None:
    """Raise an UnsupportedModelError if a path is no regular file and no directory of these, also through links."""
    for each in (path, *(path.rglob("*") if path.is_dir() else ())):
        try:
            mode = each.stat().st_mode
        except FileNotFoundError:  # the reader says so, with its own words; a link without a target is not read
            continue
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise errors.UnsupportedModelError(
                f"{each} is no regular file, but a device, a pipe or a socket, or a link to one: a model is a file or "
                "a directory of files"
            )


def file_size(path: Path) -> int:
    """Return the number of bytes of a file, or of all files in a directory."""
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return path.stat().st_size if path.exists() else 0


def main(load_and_predict: Callable[[Path, tuple[str, ...], bool, Any], None], arguments: list[str]) -> int:
    """Run the child's task within its limits, and return its exit code."""
    path = Path(arguments[-1])
    flags = arguments[:-1]
    _limit(
        path, next((float(flag.removeprefix("--seconds=")) for flag in flags if flag.startswith("--seconds=")), None)
    )
    trust = tuple(flag.removeprefix("--trust=") for flag in flags if flag.startswith("--trust="))
    params = next((json.loads(flag.removeprefix(_PARAMS)) for flag in flags if flag.startswith(_PARAMS)), None)
    try:
        load_and_predict(path, trust, "--allow-pickle" in arguments[:-2], params)
    except (errors.DebiasError, OSError, ImportError, MemoryError) as error:
        text = str(error) or f"{path} is damaged: there is not enough memory for the sizes it states"
        print(f"{MARK}{type(error).__name__}\n{text}")
        return REFUSED
    return 0


def _limit(path: Path, seconds: float | None) -> None:
    """Limit processor time and memory: enough for libraries and a real model, not for sizes that a bad file states.

    Libraries reserve address space that they never use, so its limit is wide; the parent watches what is used.
    """
    try:
        import resource
    except ImportError:  # not there on Windows
        return
    limits = [(resource.RLIMIT_AS, BYTES + ADDRESSES_A_BYTE * file_size(path)), (resource.RLIMIT_CORE, 0)]
    if seconds is not None:
        limits.append((resource.RLIMIT_CPU, math.ceil(seconds)))
    for kind, limit in limits:
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
