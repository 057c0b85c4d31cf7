"""How long scores take beside the libraries' own calls on the same rows: medians of paired runs."""

from __future__ import annotations

import os
import platform
from functools import partial
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

import debias

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from rich.console import Console

FOREST_SCORES: list[Any] = ["mdi", "mdi_oob", "ufi", "oob_split", "oob_loss"]
BOOSTER_SCORES: list[list[Any]] = [["mdi_oob", "oob_split"], ["mdi_oob", "oob_split", "oob_loss"]]


def run(console: Console, repeats: int, memory: bool) -> None:
    """Print the table of ratios, and the memory of a million rows if asked.

    Parameters
    ----------
    console : rich.console.Console
    repeats : int
        Paired runs of each case; the order within a pair alternates.
    memory : bool
        Whether to measure memory as well.
    """
    console.print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores, debias {debias.__version__}; one thread; "
        f"medians of {repeats} paired runs",
        highlight=False,
    )
    for name, ours, rival_name, rival in _cases():
        pairs = _paired(ours, rival, repeats)
        ratios = [a / b for a, b in pairs]
        seconds = median(a for a, _ in pairs), median(b for _, b in pairs)
        console.print(
            f"\n{name}\n  {seconds[0]:.4f} s; {rival_name} {seconds[1]:.4f} s; ratio {median(ratios):.2f} "
            f"({min(ratios):.2f} to {max(ratios):.2f})",
            highlight=False,
        )
    if memory:
        console.print("\n" + _memory_of_a_million_rows(), highlight=False)


def _cases() -> list[tuple[str, Callable[[], Any], str, Callable[[], Any]]]:
    """Return name, our call, the rival's name and call; models are trained here, outside the clock."""
    cases: list[tuple[str, Callable[[], Any], str, Callable[[], Any]]] = []
    for n_rows, n_trees, n_features in ((20_000, 100, 50), (1_000, 50, 50)):
        X, y = _classification(n_rows, n_features)
        forest = _forest(X, y, n_trees)
        cases.append(
            (
                f"forest, {n_trees} grown-out trees, n={n_rows:,}, p={n_features}: five scores on OOB rows",
                partial(debias.audit, forest, X, y, FOREST_SCORES, rows="oob", se=None),
                "forest.predict(X)",
                partial(forest.predict, X),
            )
        )
    X, y = _classification(100_000, 20)
    for scorers in BOOSTER_SCORES:
        cases += [_xgboost_case(X, y, scorers), _lightgbm_case(X, y, scorers)]
    return cases


def _xgboost_case(X: NDArray[np.float32], y: NDArray[np.int64], scorers: list[Any]) -> tuple[str, Any, str, Any]:
    import xgboost

    half = len(X) // 2
    model = xgboost.XGBClassifier(n_estimators=500, max_depth=6, n_jobs=1).fit(X[:half], y[:half])
    booster = model.get_booster()
    return (
        f"XGBoost, 500 trees of depth 6, n={half:,} held out: {', '.join(scorers)}",
        lambda: debias.audit(model, X[half:], y[half:], scorers, rows="held-out", se=None),
        "predict(pred_leaf=True)",
        lambda: booster.predict(xgboost.DMatrix(X[half:], nthread=1), pred_leaf=True),
    )


def _lightgbm_case(X: NDArray[np.float32], y: NDArray[np.int64], scorers: list[Any]) -> tuple[str, Any, str, Any]:
    import lightgbm

    half = len(X) // 2
    model = lightgbm.LGBMClassifier(n_estimators=500, max_depth=6, num_leaves=63, n_jobs=1, verbose=-1)
    booster = model.fit(X[:half], y[:half]).booster_
    return (
        f"LightGBM, 500 trees of depth 6, n={half:,} held out: {', '.join(scorers)}",
        lambda: debias.audit(model, X[half:], y[half:], scorers, rows="held-out", se=None),
        "predict(pred_leaf=True)",
        lambda: booster.predict(X[half:], pred_leaf=True, num_threads=1),
    )


def _paired(ours: Callable[[], Any], rival: Callable[[], Any], repeats: int) -> list[tuple[float, float]]:
    ours(), rival()  # compile, warm the caches
    pairs = []
    for turn in range(repeats):
        if turn % 2:
            b, a = _time(rival), _time(ours)
        else:
            a, b = _time(ours), _time(rival)
        pairs.append((a, b))
    return pairs


def _time(call: Callable[[], Any]) -> float:
    begin = perf_counter()
    call()
    return perf_counter() - begin


def _classification(n_rows: int, n_features: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    y = (X[:, :5].sum(axis=1) + rng.normal(scale=2, size=n_rows) > 0).astype(np.int64)
    return X, y


def _forest(X: NDArray[np.float32], y: NDArray[np.int64], n_trees: int, **settings: Any) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(n_trees, random_state=0, n_jobs=-1, **settings).fit(X, y)
    return forest.set_params(n_jobs=1)


def _memory_of_a_million_rows() -> str:
    """Return the growth of the peak resident memory while 100 trees are scored on 1,000,000 rows (Linux)."""
    X, y = _classification(1_000_000, 20)
    forest = _forest(X, y, 100, max_depth=12, max_samples=0.2)
    debias.audit(forest, X[:1000], y[:1000], FOREST_SCORES, rows="train", se=None)
    before = _resident("VmRSS")
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # resets the peak
    n_nodes = sum(tree.tree_.node_count for tree in forest.estimators_)
    begin = perf_counter()
    debias.audit(forest, X, y, FOREST_SCORES, rows="oob", se=None)
    seconds = perf_counter() - begin
    grown = _resident("VmHWM") - before
    return (
        f"1,000,000 rows, 100 trees of depth 12 ({n_nodes:,} nodes), p=20: peak memory grew by {grown:.0f} MB beyond "
        f"X and the model, in {seconds:.0f} s"
    )


def _resident(field: str) -> float:
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(field):
                return int(line.split()[1]) / 1024
    raise OSError(f"this system does not tell {field}")
