"""Commands in bash, with the `debias` of the Python that runs the tests."""

import os
import subprocess
import sys
from pathlib import Path


def in_bash(command, *arguments, cwd=None, options="-eu", environment=None):
    """Run a command with this Python's `debias` first on the path and without the variables of GitHub Actions.

    Parameters
    ----------
    command : str
        What bash runs.
    *arguments : str
        ``$0``, ``$1``, ... of the command.
    cwd : path or None
        Folder to run in; None for the current one.
    options : str
        Options of bash before ``-c``, separated by spaces.
    environment : dict or None
        Further variables.

    Returns
    -------
    subprocess.CompletedProcess
        With the output as text.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")}
    kept["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", *options.split(), "-c", command, *arguments],
        cwd=cwd,
        env=kept | (environment or {}),
        capture_output=True,
        text=True,
        check=False,
    )
