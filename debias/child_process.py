"""Child processes that debias starts: isolated, so that no file of the current directory is taken for a module.

Python puts the current directory first on the path of ``python -m`` and ``python -c``. A file ``html.py`` lying there
would be run in the place of the standard library's. Children are therefore started by ``python -I``, which also ignores
PYTHONPATH and the packages of the user; what the parent imports from there is handed over as a path of its own.
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
    """Return the command of a child that runs some code.

    Parameters
    ----------
    code : str
        Python. It imports from where this process does, the current directory left out.
    *arguments : str
        Its ``sys.argv[1:]``.

    Returns
    -------
    list of str
    """
    return [sys.executable, "-I", "-c", _BEGIN + code, json.dumps(search_path()), *arguments]


def search_path() -> list[str]:
    """Return where children look for modules: where this process does, less the current directory.

    The current directory stays if debias itself is imported from it, as in a checkout.
    """
    here, home = Path.cwd().resolve(), Path(__file__).resolve().parents[1]
    found = [each for each in sys.path if each and Path(each).is_absolute()]
    return [each for each in found if Path(each).resolve() != here or here == home]


@contextmanager
def safe_path() -> Iterator[None]:
    """Keep the current directory off the path of workers that others start for this process, as joblib does."""
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before
