"""A model file loaded in a process of its own, so that a crafted one cannot take the run down with it.

Native readers and predictors do not check what they read: an index out of range is a segmentation fault. The child
loads the file, extracts its trees, which checks their structure, and predicts a few rows with them; only then is it
loaded here.
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
"""What a child may take by default; damaged trees with cycles are walked without end."""
BYTES, TIMES_THE_FILE = 6 << 30, 40
"""Address space of the child: libraries with their threads reserve some gigabytes; trees unpack to several times."""
ROWS, NUMBERS = 8, 1_000_000
"""So many rows of random numbers are predicted, beside one of zeros and one of missing ones; of many features fewer."""
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
        After which the child is ended; by default 60, and one more a megabyte of the file.

    Raises
    ------
    DebiasError
        As :func:`debias.load_model` raises there.
    UnsupportedModelError
        The child crashed, or did not end.
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
        raise errors.UnsupportedModelError(f"{path} was not loaded within {seconds:.3g} s; it is damaged") from None
    if done.returncode == _REFUSED:
        kind, _, message = done.stdout.rpartition(_MARK)[2].partition("\n")
        raise getattr(errors, kind, errors.UnsupportedModelError)(message.strip())
    if done.returncode:
        how = signal.Signals(-done.returncode).name if done.returncode < 0 else f"exit code {done.returncode}"
        last = done.stderr.strip().splitlines()[-1:] or [""]
        raise errors.UnsupportedModelError(f"{path} is damaged: loading it ended the process ({how}) {last[0]}".strip())


def main(arguments: list[str]) -> int:
    """Do what the child does; return its exit code."""
    path = Path(arguments[-1])
    _limit_memory(path)
    trust = tuple(each.removeprefix("--trust=") for each in arguments[:-1] if each.startswith("--trust="))
    try:
        load_and_predict(path, trust, "--allow-pickle" in arguments[:-2])
    except (errors.DebiasError, OSError, ImportError, MemoryError) as error:
        text = str(error) or f"{path} is damaged: memory does not suffice for the sizes it claims"
        print(f"{_MARK}{type(error).__name__}\n{text}")
        return _REFUSED
    return 0


def load_and_predict(path: Path, trust: tuple[str, ...] = (), allow_pickle: bool = False) -> None:
    """Load a model file here, and predict rows of zeros, of missing values and of random numbers with its trees.

    What a library refuses in words is no danger: some models take no missing values. This is about what crashes, and
    about what reads beyond an end without a crash: that predicts otherwise than the trees do.

    Raises
    ------
    DebiasError
        As :func:`debias.load_model` raises, or the library predicts otherwise.
    """
    import warnings

    from debias.hooks.registry import plugin_manager
    from debias.models.extraction import as_the_adapter_wants, extract
    from debias.models.files import load
    from debias.models.wrappers import unwrap

    hook = plugin_manager().hook
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for member in unwrap(load(path, trust, allow_pickle, guard=False)):
            ensemble = extract(member.model)
            for kind, X in _rows(ensemble.n_features, ensemble.routing_dtype):
                seen = as_the_adapter_wants(ensemble, X)
                leaves = _said(lambda: hook.debias_leaves(model=member.model, ensemble=ensemble, X=seen))  # noqa: B023
                raw = _said(lambda: hook.debias_predict_raw(model=member.model, X=seen))  # noqa: B023
                if kind == "random" and ensemble.category_set is None and ensemble.category_labels is None:
                    _require_alike(path, ensemble, X, leaves, raw)


_MARK = "debias.models.sandbox refused: "
"""Before the name of the error, which libraries may have printed lines before."""


def _said(call: Callable[[], Any]) -> Any:
    """Return what a library answers; None where it refuses to, in any of its kinds of words."""
    try:
        return call()
    except MemoryError:
        raise
    except Exception:
        return None


def _require_alike(path: Path, ensemble: TreeEnsemble, X: Any, leaves: Any, raw: Any) -> None:
    from debias.trees.routing import raw_output, route

    ours = route(ensemble, X)
    found = raw_output(ensemble, ours)
    scale = 1e-3 * (np.abs(found).max() + np.abs(ensemble.value).max())
    alike = leaves is not None and np.array_equal(leaves, ours)
    if not alike or raw is None or raw.shape != found.shape or not (np.abs(raw - found) <= scale).all():
        raise errors.ExtractionError(
            f"{path} is damaged: its library does not predict what its trees do ({ensemble.source})"
        )


def _rows(n_features: int, dtype: Any) -> Iterator[tuple[str, Any]]:
    yield "zeros", np.zeros((1, n_features), dtype=dtype)
    yield "missing", np.full((1, n_features), np.nan, dtype=dtype)
    n_rows = max(1, min(ROWS, NUMBERS // max(1, n_features)))
    yield "random", np.random.default_rng(0).normal(scale=100, size=(n_rows, n_features)).astype(dtype)


def _size(path: Path) -> int:
    if path.is_dir():
        return sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
    return path.stat().st_size if path.exists() else 0


def _limit_memory(path: Path) -> None:
    """Let the process take so much that libraries and a real model have room, and a claim of gigabytes has not."""
    try:
        import resource
    except ImportError:  # not there on Windows
        return
    limit = BYTES + TIMES_THE_FILE * _size(path)
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash that is awaited leaves no file behind
