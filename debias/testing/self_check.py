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
from typing import TYPE_CHECKING, Any, cast

from debias.child_process import command
from debias.errors import DebiasError, PluginError
from debias.hooks.registry import DISABLE_VARIABLE, plugin_manager
from debias.hooks.self_check import SelfCheck
from debias.testing import apart
from debias.testing.installed import installed, requirements, too_old
from debias.trees.tested_versions import major_minor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pluggy

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


def findings(checks: Iterable[SelfCheck] | None = None, without: Iterable[str] = ()) -> Iterator[Finding]:
    """Yield the result of each library that an adapter offers a self-check for, in the order of their names.

    Parameters
    ----------
    checks : iterable of SelfCheck, optional
        By default those that all adapters offer.
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
    for check in offered() if checks is None else checks:
        try:
            yield _finding(check, without)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # such as metadata that cannot be read
            yield Finding(check.library, None, "failed", told(error))


def offered(manager: pluggy.PluginManager | None = None) -> list[SelfCheck]:
    """Return the self-checks of all adapters, or raise a PluginError if one is wrong, or if two have one name."""
    checks: dict[str, SelfCheck] = {}
    plugin_of: dict[str, str] = {}
    for adapter in (manager or plugin_manager()).hook.debias_self_checks.get_hookimpls():
        plugin = adapter.plugin_name
        for check in cast("Sequence[object] | None", adapter.function()) or ():
            if not isinstance(check, SelfCheck):
                raise PluginError(f"debias_self_checks of the plugin {plugin!r} gives no SelfCheck: {check!r}")
            name = check.library
            if name in checks:
                raise PluginError(f"two plugins offer a self-check of {name!r}: {plugin_of[name]} and {plugin}")
            checks[name], plugin_of[name] = check, plugin
    return sorted(checks.values(), key=lambda check: check.library.lower())


def told(error: BaseException) -> str:
    """Return what an error says: its type too, unless the text was written for users; its place, if it has no text."""
    text, kind = str(error).strip(), type(error).__name__
    if text:
        return text if isinstance(error, (AssertionError, DebiasError)) else f"{kind}: {text}"
    places = traceback.extract_tb(error.__traceback__)
    return f"{kind} in line {places[-1].lineno} of {Path(places[-1].filename).name}" if places else kind


def main(library: str) -> None:
    """Check a library in this process, and print the status and the details."""
    try:
        result = _checked(library)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a library may raise any error; panics of Rust are no Exception
        result = "failed", told(error)
    print(_MARK + json.dumps(result))


def _finding(check: SelfCheck, without: Iterable[str]) -> Finding:
    found = installed(check.distribution, check.module)
    if found is None:
        return Finding(check.library, None, "not installed", f"pip install {check.distribution}")
    problem = too_old(found, _minimum(check.distribution))
    if problem is not None:  # its adapter would fail with an error that says less
        return Finding(check.library, found.version, "failed", problem)
    status, details = (
        ("not checked", check.train) if isinstance(check.train, str) else _checked_apart(check.library, without)
    )
    if check.tested is not None and major_minor(found.version) > major_minor(check.tested.newest):
        details += f"; newer than the newest tested, {check.tested.newest}"
    return Finding(check.library, found.version, status, details)


def _minimum(distribution: str) -> str | None:
    """Return the oldest version that debias works with; None without metadata, which is reported elsewhere."""
    try:
        known = requirements()
    except PackageNotFoundError:
        return None
    return known[distribution].minimum if distribution in known else None


def _checked_apart(library: str, without: Iterable[str]) -> tuple[str, str]:
    """Return status and details of a check in a process of its own."""
    words = command("from debias.testing.self_check import main; main(sys.argv[1])", library)
    disabled = ",".join(filter(None, [os.environ.get(DISABLE_VARIABLE), *without]))
    done = apart.run(words, SECONDS, {**os.environ, DISABLE_VARIABLE: disabled})
    if done.exit_code is None:
        return "failed", f"the check did not end within {SECONDS:.0f} s"
    _, mark, result = done.printed.rpartition(_MARK)
    if not mark:
        return "failed", done.why()
    status, details = json.loads(result.splitlines()[0])  # a library may print more when the process ends
    return status, details


def _checked(library: str) -> tuple[str, str]:
    import numpy as np

    import debias
    from debias.testing.adapters import check_adapter

    (check,) = (each for each in offered() if each.library == library)
    assert callable(check.train)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, N_COLUMNS))
    y = X[:, 0] + np.abs(X[:, 1]) + 0.1 * rng.normal(size=N_ROWS)
    trained = check.train(X, y)
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
