"""The self-check of ``debias doctor``: a small model of each installed library is compared with its adapter.

Each library is checked in a process of its own, so that one which crashes, or does not work beside another, is reported
and ends nothing.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import TYPE_CHECKING, Any

from debias.child_process import command, run
from debias.errors import DebiasError
from debias.hooks.registry import DISABLE_VARIABLE, libraries
from debias.testing.installed import installed, requirements, too_old
from debias.trees.tested_versions import major_minor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from debias.hooks.library import Library

N_ROWS, N_COLUMNS = 120, 4
SECONDS = 120.0
"""Time limit of the check of one library, with its import."""
_MARK = "\n--- debias self-check ---\n"
_CHECKED = {
    "debias_unwrap": "unwrapping",
    "debias_extract": "trees",
    "debias_predict_raw": "output",
    "debias_in_bag": "proof of the bags",
    "debias_reported_importance": "reported importance",
    "debias_refit": "refit",
}
"""What each hook that answered stands for."""


@dataclass(frozen=True)
class Finding:
    """The result of the self-check of one library.

    Parameters
    ----------
    library : str
    version : str or None
        None if it is not installed, "unknown" if it has no metadata.
    status : {"ok", "failed", "not checked", "not installed"}
    details : str
        What was compared, or why it failed, or why it was not checked, or how to install the library.
    """

    library: str
    version: str | None
    status: str
    details: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values."""
        return asdict(self)


def findings(declared: Iterable[Library] | None = None, without: Iterable[str] = ()) -> Iterator[Finding]:
    """Yield the result of each library, in the order of their names.

    Parameters
    ----------
    declared : iterable of Library, optional
        By default those that all adapters declare.
    without : iterable of str
        Names of plugins that are not loaded, because they do not work.

    Yields
    ------
    Finding

    Examples
    --------
    >>> from debias.testing.self_check import findings
    >>> next(finding.status for finding in findings() if finding.library == "scikit-learn")
    'ok'
    """
    for library in libraries() if declared is None else declared:
        try:
            yield _finding(library, without)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # such as metadata that cannot be read
            yield Finding(library.name, None, "failed", error_text(error))


def error_text(error: BaseException) -> str:
    """Return what an error says: its type too, unless the text was written for users; its place, if it has no text."""
    text, kind = str(error).strip(), type(error).__name__
    if text:
        return text if isinstance(error, (AssertionError, DebiasError)) else f"{kind}: {text}"
    places = traceback.extract_tb(error.__traceback__)
    return f"{kind} in line {places[-1].lineno} of {Path(places[-1].filename).name}" if places else kind


def main(name: str) -> None:
    """Check a library in this process, and print the status and the details."""
    try:
        result = _checked(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a library may raise any error; panics of Rust are no Exception
        result = "failed", error_text(error)
    print(_MARK + json.dumps(result))


def _finding(library: Library, without: Iterable[str]) -> Finding:
    if library.distribution is None:
        return Finding(library.name, None, *_tried(library, without))
    found = installed(library.distribution, library.module)
    if found is None:
        return Finding(library.name, None, "not installed", f"pip install {library.distribution}")
    problem = too_old(found, _minimum(library.distribution))
    if problem is not None:  # its adapter would fail with an error that says less
        return Finding(library.name, found.version, "failed", problem)
    status, details = _tried(library, without)
    tested = library.tested_versions
    if tested is not None and major_minor(found.version) > major_minor(tested.newest):
        details += f"; newer than the newest tested, {tested.newest}"
    return Finding(library.name, found.version, status, details)


def _tried(library: Library, without: Iterable[str]) -> tuple[str, str]:
    """Return status and details of the check of a library that can be imported."""
    return ("not checked", library.train) if isinstance(library.train, str) else _checked_apart(library.name, without)


def _minimum(distribution: str) -> str | None:
    """Return the oldest version that debias works with; None without metadata, which is reported elsewhere."""
    try:
        known = requirements()
    except PackageNotFoundError:
        return None
    return known[distribution].minimum if distribution in known else None


def _checked_apart(name: str, without: Iterable[str]) -> tuple[str, str]:
    """Return status and details of a check in a process of its own."""
    words = command("from debias.testing.self_check import main; main(sys.argv[1])", name)
    disabled = ",".join(filter(None, [os.environ.get(DISABLE_VARIABLE), *without]))
    done = run(words, SECONDS, {**os.environ, DISABLE_VARIABLE: disabled})
    if done.exit_code is None:
        return "failed", f"the check did not end within {SECONDS:.0f} s"
    _, mark, result = done.printed.rpartition(_MARK)
    if not mark:
        return "failed", done.why()
    status, details = json.loads(result.splitlines()[0])  # a library may print more when the process ends
    return status, details


def _checked(name: str) -> tuple[str, str]:
    import numpy as np

    import debias
    from debias.testing.adapters import check_adapter

    (library,) = (each for each in libraries() if each.name == name)
    assert callable(library.train)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, N_COLUMNS))
    y = X[:, 0] + np.abs(X[:, 1]) + 0.1 * rng.normal(size=N_ROWS)
    trained = library.train(X, y)
    model, X_trained, y_trained = trained if isinstance(trained, tuple) else (trained, X, y)
    answered = check_adapter(model, X_trained, y_trained)
    compared = [text for hook, text in _CHECKED.items() if hook in answered]
    if "debias_extract" in answered and "debias_in_bag" not in answered:
        try:
            debias.score(model, X_trained, y_trained)
        except debias.ProvenanceError:
            compared.append("training rows are recognised")
    return "ok", ", ".join(compared)


if __name__ == "__main__":
    main(sys.argv[1])
