"""The trial of a model file in the child process that :mod:`debias.models.sandbox` starts."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from debias import errors
from debias.models.sandbox import MARK, REFUSED, file_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from debias.trees.ensemble import TreeEnsemble


BYTES, TIMES_THE_FILE = 6 << 30, 40
"""Address space of a child: libraries and their threads reserve gigabytes, and trees in memory outgrow their file."""
ROWS, NUMBERS = 8, 1_000_000
"""Rows of random numbers that are predicted, in addition to a row of zeros and a row of missing values. With many
features there are fewer rows: at most this many numbers."""


def main(arguments: list[str]) -> int:
    """Run the child's task, and return its exit code."""
    path = Path(arguments[-1])
    flags = arguments[:-1]
    _limit(
        path, next((float(flag.removeprefix("--seconds=")) for flag in flags if flag.startswith("--seconds=")), None)
    )
    trust = tuple(flag.removeprefix("--trust=") for flag in flags if flag.startswith("--trust="))
    try:
        load_and_predict(path, trust, "--allow-pickle" in arguments[:-2])
    except (errors.DebiasError, OSError, ImportError, MemoryError) as error:
        text = str(error) or f"{path} is damaged: there is not enough memory for the sizes it states"
        print(f"{MARK}{type(error).__name__}\n{text}")
        return REFUSED
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
    from debias.models.folds import models_in
    from debias.models.wrappers import extract, unwrap

    hook = plugin_manager().hook
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = models_in(load(path, trust, allow_pickle, guard=False))
        for member in (member for model in models for member in unwrap(model)):
            ensemble = extract(member.model)
            for kind, X in _rows(ensemble.n_features, ensemble.routing_dtype):
                seen = as_the_adapter_wants(ensemble, X)
                leaves = _answer(lambda: hook.debias_leaves(model=member.model, ensemble=ensemble, X=seen))  # noqa: B023
                raw = _answer(lambda: hook.debias_predict_raw(model=member.model, X=seen))  # noqa: B023
                if kind == "random" and ensemble.category_set is None and ensemble.category_labels is None:
                    _require_alike(path, ensemble, X, leaves, raw)


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


def _limit(path: Path, seconds: float | None) -> None:
    """Limit processor time and memory: enough for libraries and a real model, not for sizes that a bad file states.

    Libraries reserve address space that they never use, so its limit is wide; the parent watches what is used.
    """
    try:
        import resource
    except ImportError:  # not there on Windows
        return
    limits = [(resource.RLIMIT_AS, BYTES + TIMES_THE_FILE * file_size(path)), (resource.RLIMIT_CORE, 0)]
    if seconds is not None:
        limits.append((resource.RLIMIT_CPU, math.ceil(seconds)))
    for kind, limit in limits:
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
