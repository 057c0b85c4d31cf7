"""Loading of a model file in a separate process, so that a crafted file cannot crash the run.

Native readers and predictors do not check what they read: an index out of range is a segmentation fault. The child
process loads the file, extracts its trees, which checks their structure, and predicts a few rows with them. Only then
is the file loaded in this process.
"""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from debias import errors
from debias.child_process import command

if TYPE_CHECKING:
    pass

SECONDS, SECONDS_A_MEGABYTE = 60.0, 1.0
"""Time limit of a child by default; a walk through damaged trees with cycles never ends."""
REFUSED = 3


def check(
    path: str | Path, trust: tuple[str, ...] = (), allow_pickle: bool = False, seconds: float | None = None
) -> None:
    """Load a model file in a child process, and predict a few rows there.

    Parameters
    ----------
    path : str or Path
    trust : tuple of str
    allow_pickle : bool
        As for :func:`debias.load_model`.
    seconds : float, optional
        Time limit of the child; by default 60, plus one second per megabyte of the file.

    Raises
    ------
    DebiasError
        The error that :func:`debias.load_model` raised in the child.
    UnsupportedModelError
        The child crashed, or did not finish in time.
    """
    file = Path(path).absolute()
    seconds = SECONDS + SECONDS_A_MEGABYTE * file_size(file) / 1e6 if seconds is None else seconds
    flags = [*(f"--trust={name}" for name in trust), *(["--allow-pickle"] if allow_pickle else [])]
    words = command("from debias.models.trial import main; sys.exit(main(sys.argv[1:]))", *flags, "--", str(file))
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=seconds, errors="replace", stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise errors.UnsupportedModelError(f"{path} did not load within {seconds:.3g} s; it is damaged") from None
    if done.returncode == REFUSED:
        kind, _, message = done.stdout.rpartition(MARK)[2].partition("\n")
        raise getattr(errors, kind, errors.UnsupportedModelError)(message.strip())
    if done.returncode:
        how = signal.Signals(-done.returncode).name if done.returncode < 0 else f"exit code {done.returncode}"
        last = done.stderr.strip().splitlines()[-1:] or [""]
        raise errors.UnsupportedModelError(f"{path} is damaged: loading it ended the process ({how}) {last[0]}".strip())


MARK = "debias.models.sandbox refused: "
"""Marks where the name of the error begins: libraries may have printed other lines before."""


def file_size(path: Path) -> int:
    """Return the number of bytes of a file, or of all files in a directory."""
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return path.stat().st_size if path.exists() else 0
