"""How the time of an audit with its tests grows with rows, features, trees, their depth, and classes."""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias_bench.markdown import markdown_table
from debias_bench.measurement import publish
from debias_bench.runner import machine_line
from debias_bench.speed import grown
from debias_bench.speed_cases import classification

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rich.console import Console

    Grown = tuple[str, str, list[tuple[int, Callable[[], Any]]]]

MOST = "1.1"
"""The largest exponent that is wanted."""


def cases() -> Iterator[Grown]:
    """Yield what grows, what stays, and an audit at each size."""
    rows = (1_000, 2_000, 4_000, 8_000)
    yield "rows", "50 grown-out trees, 20 features, 2 classes", [(n, _audit(n_rows=n)) for n in rows]
    features = (25, 100, 400, 1_600)
    yield "features", "50 grown-out trees, 400 rows, 2 classes", [(p, _audit(400, n_features=p)) for p in features]
    trees = (25, 50, 100, 200)
    yield "trees", "grown out, 1,000 rows, 20 features, 2 classes", [(t, _audit(n_trees=t)) for t in trees]
    depths = (2, 4, 8, 16)
    yield "depth", "50 trees, 4,000 rows, 20 features, 2 classes", [(d, _audit(4_000, max_depth=d)) for d in depths]
    classes = (2, 4, 8, 16)
    yield "classes", "50 grown-out trees, 2,000 rows, 20 features", [(k, _audit(2_000, n_classes=k)) for k in classes]


def run(out: Path, messages: Console, *, repeats: int = 3) -> str:
    """Time all audits, and write the page and its numbers.

    Parameters
    ----------
    out : Path
        Folder to write to.
    messages : rich.console.Console
        Gets each line at once.
    repeats : int
        Number of runs of each audit, after a first one.

    Returns
    -------
    str
        The page.
    """
    out.mkdir(parents=True, exist_ok=True)
    lines = []
    for what, setting, calls in cases():
        name, exponents, seconds, *_ = grown(what, setting, calls, MOST, repeats)
        messages.print(f"{name}\n  {exponents}; {seconds}", highlight=False)
        lines.append({"what": name, "exponent": exponents.removeprefix("exponent "), "seconds": seconds})
    return publish(
        "growth",
        out,
        [
            "# How the time of an audit grows",
            "`debias bench growth`: seconds of processor time, one thread, of the default audit of a random forest on "
            "its out-of-bag rows: scores, and both tests with 200 permutations. (By default permutations stop earlier "
            "where decisions are settled, so their number would depend on the data.) Exponents are slopes of log "
            f"seconds over log size, over all sizes and between the two largest; at most {MOST} is wanted.",
            f"*Written by the runner. Medians of {repeats} runs, after a first one; {machine_line()}.*",
            markdown_table(["what", "exponent", "seconds"], [list(line.values()) for line in lines]),
            "The test of dependence takes the lines of fewer trees where features are many, down to 20, and of large "
            "data ([honest effects](../honest-effects.md)).",
        ],
        lines,
    )


def _audit(
    n_rows: int = 1_000, n_features: int = 20, n_trees: int = 50, n_classes: int = 2, max_depth: int | None = None
) -> Callable[[], Any]:
    from sklearn.ensemble import RandomForestClassifier

    X, _ = classification(n_rows, n_features)
    latent = X[:, :5].sum(axis=1) + np.random.default_rng(1).normal(scale=2, size=n_rows)
    y = np.searchsorted(np.quantile(latent, np.arange(1, n_classes) / n_classes), latent)
    forest = RandomForestClassifier(n_trees, max_depth=max_depth, random_state=0).fit(X, y)
    return partial(_audited, forest, X, y)


def _audited(forest: Any, X: Any, y: Any) -> debias.Audit:
    all_drawn = debias.Permutation(adaptive=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)
        return debias.audit(forest, X, y, rows="oob", test=all_drawn, random_state=0, n_jobs=1)
