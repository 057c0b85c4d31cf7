"""Loading of a model file in a separate process, so that a crafted file cannot crash the run.

Native readers and predictors do not check what they read: an index out of range is a segmentation fault. The child
process loads the file, extracts its trees, which checks their structure, and predicts a few rows with them. Only then
is the file loaded in this process.
"""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from debias import errors
from debias.child_process import command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from debias.trees.ensemble import TreeEnsemble

SECONDS, SECONDS_A_MEGABYTE = 60.0, 1.0
"""Time limit of a child by default; a walk through damaged trees with cycles never ends."""
BYTES, TIMES_THE_FILE = 6 << 30, 40
"""Address space of a child: libraries and their threads reserve gigabytes, and trees in memory outgrow their file."""
ROWS, NUMBERS = 8, 1_000_000
"""Rows of random numbers that are predicted, in addition to a row of zeros and a row of missing values. With many
features there are fewer rows: at most this many numbers."""
_REFUSED = 3


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
    seconds = SECONDS + SECONDS_A_MEGABYTE * _size(file) / 1e6 if seconds is None else seconds
    flags = [*(f"--trust={name}" for name in trust), *(["--allow-pickle"] if allow_pickle else [])]
    words = command("from debias.models.sandbox import main; sys.exit(main(sys.argv[1:]))", *flags, "--", str(file))
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=seconds, errors="replace", stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise errors.UnsupportedModelError(f"{path} did not load within {seconds:.3g} s; it is damaged") from None
    if done.returncode == _REFUSED:
        kind, _, message = done.stdout.rpartition(_MARK)[2].partition("\n")
        raise getattr(errors, kind, errors.UnsupportedModelError)(message.strip())
    if done.returncode:
        how = signal.Signals(-done.returncode).name if done.returncode < 0 else f"exit code {done.returncode}"
        last = done.stderr.strip().splitlines()[-1:] or [""]
        raise errors.UnsupportedModelError(f"{path} is damaged: loading it ended the process ({how}) {last[0]}".strip())


def main(arguments: list[str]) -> int:
    """Run the child's task, and return its exit code."""
    path = Path(arguments[-1])
    _limit_memory(path)
    flags = arguments[:-1]
    trust = tuple(flag.removeprefix("--trust=") for flag in flags if flag.startswith("--trust="))
    try:
        load_and_predict(path, trust, "--allow-pickle" in arguments[:-2])
    except (errors.DebiasError, OSError, ImportError, MemoryError) as error:
        text = str(error) or f"{path} is damaged: there is not enough memory for the sizes it states"
        print(f"{_MARK}{type(error).__name__}\n{text}")
        return _REFUSED
    return 0


def load_and_predict(path: Path, trust: tuple[str, ...] = (), allow_pickle: bool = False) -> None:
    """Load a model file in this process, and predict rows of zeros, of missing values and of random numbers.

    An error that the library raises is no danger: some models take no missing values. The danger is a crash, or a read
    beyond the end of an array without a crash. Such a read shows as a prediction that differs from that of the trees.

    Raises
    ------
    DebiasError
        As :func:`debias.load_model` raises, or the library predicts otherwise than the trees.
    """
    import warnings

    from debias.hooks.registry import plugin_manager
    from debias.models.extraction import as_the_adapter_wants
    from debias.models.files import load
    from debias.models.wrappers import extract, unwrap

    hook = plugin_manager().hook
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for member in unwrap(load(path, trust, allow_pickle, guard=False)):
            ensemble = extract(member.model)
            for kind, X in _rows(ensemble.n_features, ensemble.routing_dtype):
                seen = as_the_adapter_wants(ensemble, X)
                leaves = _answer(lambda: hook.debias_leaves(model=member.model, ensemble=ensemble, X=seen))  # noqa: B023
                raw = _answer(lambda: hook.debias_predict_raw(model=member.model, X=seen))  # noqa: B023
                if kind == "random" and ensemble.category_set is None and ensemble.category_labels is None:
                    _require_alike(path, ensemble, X, leaves, raw)


_MARK = "debias.models.sandbox refused: "
"""Marks where the name of the error begins: libraries may have printed other lines before."""


def _answer(call: Callable[[], Any]) -> Any:
    """Return the result of a call of a library, or None if it raised an error of any type."""
    try:
        return call()
    except MemoryError:
        raise
    except Exception:
        return None


def _require_alike(path: Path, ensemble: TreeEnsemble, X: Any, leaves: Any, raw: Any) -> None:
    from debias.trees.routing import raw_output, route

    our_leaves = route(ensemble, X)
    ours = raw_output(ensemble, our_leaves)
    tolerance = 1e-3 * (np.abs(ours).max() + np.abs(ensemble.value).max())
    same_leaves = leaves is not None and np.array_equal(leaves, our_leaves)
    if not same_leaves or raw is None or raw.shape != ours.shape or not (np.abs(raw - ours) <= tolerance).all():
        raise errors.ExtractionError(
            f"{path} is damaged: its library does not predict what its trees predict ({ensemble.source})"
        )


def _rows(n_features: int, dtype: Any) -> Iterator[tuple[str, Any]]:
    yield "zeros", np.zeros((1, n_features), dtype=dtype)
    yield "missing", np.full((1, n_features), np.nan, dtype=dtype)
    n_rows = max(1, min(ROWS, NUMBERS // max(1, n_features)))
    yield "random", np.random.default_rng(0).normal(scale=100, size=(n_rows, n_features)).astype(dtype)


def _size(path: Path) -> int:
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return path.stat().st_size if path.exists() else 0


def _limit_memory(path: Path) -> None:
    """Limit the memory of the process: enough for libraries and a real model, not for sizes that a bad file states."""
    try:
        import resource
    except ImportError:  # not there on Windows
        return
    limit = BYTES + TIMES_THE_FILE * _size(path)
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # crashes are expected here and should leave no core file
