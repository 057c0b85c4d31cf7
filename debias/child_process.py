"""Child processes that debias starts, isolated so that they never import a file of the current directory as a module.

Python puts the current directory first on the search path of ``python -m`` and ``python -c``. A file ``html.py`` there
would be run instead of the standard library's. Children are therefore started with ``python -I``. That option also
ignores PYTHONPATH and the user's site packages, so the parent passes its own search path to the child.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_GRACE = 5.0
"""Seconds in which the output of a killed process is read."""
_BEGIN = "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1))\n"


def command(code: str, *arguments: str) -> list[str]:
    """Return the command that runs some code in a child process.

    Parameters
    ----------
    code : str
        Python code. It imports from where this process does, except from the current directory.
    *arguments : str
        The child's ``sys.argv[1:]``.

    Returns
    -------
    list of str
    """
    return [sys.executable, "-I", "-c", _BEGIN + code, json.dumps(search_path()), *arguments]


def search_path() -> list[str]:
    """Return the search path of children: that of this process without the current directory.

    The current directory stays if debias itself is imported from it, as in a checkout.
    """
    try:
        current = Path.cwd().resolve()
    except FileNotFoundError:  # it was deleted
        current = None
    home_of_debias = Path(__file__).resolve().parents[1]
    folders = [folder for folder in sys.path if folder and Path(folder).is_absolute()]
    return [folder for folder in folders if Path(folder).resolve() != current or current == home_of_debias]


@contextmanager
def safe_path() -> Iterator[None]:
    """Keep the current directory off the search path of workers that other packages, such as joblib, start."""
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


@dataclass(frozen=True)
class Ended:
    """A process that ended, or was ended.

    Parameters
    ----------
    printed, errors : str
        Its standard output and standard error.
    exit_code : int or None
        None if its time was up.
    """

    printed: str
    errors: str
    exit_code: int | None

    def why(self) -> str:
        """Return how it ended, with the last line that it wrote."""
        last = (self.errors or self.printed).strip().splitlines()[-1:] or ["it printed nothing"]
        return f"the process ended with exit code {self.exit_code}: {last[0]}"


def run(words: Sequence[str], seconds: float, environment: Mapping[str, str] | None = None) -> Ended:
    """Run a command without input; kill it, and the processes that it started, when its time is up.

    Windows kills only the process itself.

    Parameters
    ----------
    words : sequence of str
    seconds : float
        Time limit.
    environment : mapping, optional
        By default that of this process.

    Returns
    -------
    Ended
    """
    with subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=environment,
        start_new_session=True,
    ) as process:
        try:
            return Ended(*process.communicate(timeout=seconds), process.wait())
        except subprocess.TimeoutExpired:
            _kill(process)
            with suppress(subprocess.TimeoutExpired):  # a process that left the session may still hold the output
                return Ended(*process.communicate(timeout=_GRACE), None)
            return Ended("", "", None)
        except BaseException:  # Ctrl-C does not reach another session
            _kill(process)
            raise


def _kill(process: subprocess.Popen[str]) -> None:
    if sys.platform == "win32":
        process.kill()
    else:
        with suppress(ProcessLookupError, PermissionError):  # all have ended
            os.killpg(process.pid, signal.SIGKILL)
