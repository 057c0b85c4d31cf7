"""Child processes that debias starts, isolated so that they never import a file of the current directory as a module.

Python puts the current directory first on the search path of ``python -m`` and ``python -c``. A file ``html.py`` there
would be run instead of the standard library's. Children are therefore started with ``python -I``. That option also
ignores PYTHONPATH and the user's site packages, so the parent passes its own search path to the child.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

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
