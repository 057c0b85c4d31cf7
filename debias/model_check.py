"""A model file loaded in a process of its own, so that a crafted one cannot take the run down with it.

Native readers and predictors do not check what they read: an index out of range is a segmentation fault. The child
loads the file and extracts its trees, which checks their structure; only then is it loaded here.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from debias import errors

SECONDS = 300.0
"""What a child may take; damaged trees with cycles are walked without end."""
BYTES, TIMES_THE_FILE = 6 << 30, 40
"""Address space of the child: libraries with their threads reserve some gigabytes; trees unpack to several times."""
_REFUSED = 3


def check(path: str, trust: tuple[str, ...] = (), allow_pickle: bool = False, seconds: float = SECONDS) -> None:
    """Load a model file in a child process.

    Parameters
    ----------
    path : str
    trust : tuple of str
    allow_pickle : bool
        As for :func:`debias.load_model`.
    seconds : float
        After which the child is ended.

    Raises
    ------
    DebiasError
        As :func:`debias.load_model` raises there.
    UnsupportedModelError
        The child crashed, or did not end.
    """
    flags = [*(f"--trust={name}" for name in trust), *(["--allow-pickle"] if allow_pickle else [])]
    command = [sys.executable, "-m", "debias.model_check", *flags, "--", str(Path(path).absolute())]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, errors="replace")
    except subprocess.TimeoutExpired:
        raise errors.UnsupportedModelError(f"{path} was not loaded within {seconds:g} s; it is damaged") from None
    if done.returncode == _REFUSED:
        kind, _, message = done.stdout.partition("\n")
        raise getattr(errors, kind, errors.UnsupportedModelError)(message.strip())
    if done.returncode:
        how = signal.Signals(-done.returncode).name if done.returncode < 0 else f"exit code {done.returncode}"
        last = done.stderr.strip().splitlines()[-1:] or [""]
        raise errors.UnsupportedModelError(f"{path} is damaged: loading it ended the process ({how}) {last[0]}".strip())


def _main(arguments: list[str]) -> int:
    import warnings

    from debias.model_files import load

    warnings.simplefilter("ignore")
    _limit_memory(Path(arguments[-1]))
    trust = tuple(each.removeprefix("--trust=") for each in arguments if each.startswith("--trust="))
    try:
        load(Path(arguments[-1]), trust, "--allow-pickle" in arguments[:-2])
    except (errors.DebiasError, OSError, ImportError, MemoryError) as error:
        print(f"{type(error).__name__}\n{error}")
        return _REFUSED
    return 0


def _limit_memory(path: Path) -> None:
    """Let the process take so much that libraries and a real model have room, and a claim of gigabytes has not."""
    try:
        import resource
    except ImportError:  # not there on Windows
        return
    size = sum(each.stat().st_size for each in path.rglob("*")) if path.is_dir() else path.stat().st_size
    limit = BYTES + TIMES_THE_FILE * size
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
