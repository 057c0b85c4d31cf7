"""Processes of their own for ``debias doctor``: what crashes, hangs or prints there ends and spoils no report."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_GRACE = 5.0
"""Seconds in which the output of a killed process is read."""


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
