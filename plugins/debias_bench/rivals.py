"""Time of scores and of replicates beside others: scikit-learn's and shap's functions, and a plain loop of refits."""

from __future__ import annotations

import os
import platform
import subprocess
import warnings
from functools import partial
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.child_process import command
from debias.retraining.replicates import child_seed

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    Case = tuple[str, Callable[[], Any], str, Callable[[], Any]]
    from numpy.typing import NDArray

N_ROWS, N_FEATURES = 2_000, 30


def run_rivals(console: Console, repeats: int = 5) -> None:
    """Print both times and their ratio for each score and library.

    Parameters
    ----------
    console : rich.console.Console
    repeats : int
        Number of paired runs of each case, after one run that warms up.
    """
    console.print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores, debias {debias.__version__}; one thread; "
        f"{N_ROWS:,} rows, {N_FEATURES} features; medians of {repeats} paired runs; debias includes its proofs",
        highlight=False,
    )
    for name, ours, rival_name, rival in _cases():
        pairs = [(_seconds(ours), _seconds(rival)) for _ in range(repeats + 1)][1:]
        our_time, their_time = (median(times) for times in zip(*pairs, strict=True))
        ratios = [theirs / own for own, theirs in pairs]
        console.print(
            f"\n{name}\n  {our_time:.3f} s; {rival_name} {their_time:.3f} s: {median(ratios):.1f} times as long "
            f"({min(ratios):.1f} to {max(ratios):.1f})",
            highlight=False,
        )


def _cases() -> list[Case]:
    """Return name, our call, the rival's name and the rival's call; models are trained here, which is not timed."""
    from sklearn.inspection import permutation_importance

    rng = np.random.default_rng(0)
    X = rng.normal(size=(2 * N_ROWS, N_FEATURES)).astype(np.float32)
    y = (X[:, 0] * X[:, 1] + X[:, 2] + rng.normal(size=len(X)) > 0).astype(np.int64)
    train, fresh = (X[:N_ROWS], y[:N_ROWS]), (X[N_ROWS:], y[N_ROWS:])
    cases: list[Case] = []
    for name, model in _models():
        model.fit(*train)
        held_out = partial(debias.score, model, *fresh, rows="held-out", seed=0)
        theirs = partial(permutation_importance, model, *fresh, scoring="accuracy", random_state=0)
        cases += [
            (f"{name}: shap", partial(held_out, scorer="shap"), "shap.TreeExplainer", partial(_shap, model, fresh[0])),
            (f"{name}: permutation", partial(held_out, scorer="permutation"), "permutation_importance", theirs),
        ]
        if name == "random forest":
            out_of_bag = partial(debias.score, model, *train, rows="oob", seed=0)
            trees = "shap.TreeExplainer, tree by tree"
            by_tree = partial(_shap_by_tree, model, train[0])
            cases += [
                (f"{name}, out of bag: shap_oob", partial(out_of_bag, scorer="shap_oob"), trees, by_tree),
                (f"{name}, out of bag: permutation", partial(out_of_bag, scorer="permutation"), trees, by_tree),
            ]
    return cases


def _models() -> list[tuple[str, Any]]:
    from lightgbm import LGBMClassifier
    from sklearn.ensemble import RandomForestClassifier
    from xgboost import XGBClassifier

    return [
        ("random forest", RandomForestClassifier(50, min_samples_leaf=5, random_state=0)),
        ("XGBoost", XGBClassifier(n_estimators=200, n_jobs=1)),
        ("LightGBM", LGBMClassifier(n_estimators=200, n_jobs=1, verbose=-1)),
    ]


def _shap(model: Any, X: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # shap warns about the shape it returns, and about its own imports
        import shap

        return shap.TreeExplainer(model, feature_perturbation="tree_path_dependent").shap_values(X)


def _shap_by_tree(forest: Any, X: Any) -> None:
    for tree, bag in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        _shap(tree, X[np.setdiff1d(np.arange(len(X)), bag)])


def _seconds(call: Callable[[], Any]) -> float:
    begin = perf_counter()
    call()
    return perf_counter() - begin


N_REPLICATES = 50
N_JOBS = 2
TEXT = f"response_permutation(mdi, replicates={N_REPLICATES})"


def run_replicates(console: Console, repeats: int = 3) -> None:
    """Print seconds and peak memory of 50 refits, by debias and by the loop, each in a separate process.

    Parameters
    ----------
    console : rich.console.Console
    repeats : int
        Number of paired runs; the order within a pair alternates.
    """
    console.print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores, debias {debias.__version__}; {N_REPLICATES} "
        f"refits of a forest to permuted responses, {N_JOBS} processes; medians of {repeats} paired runs",
        highlight=False,
    )
    pairs = []
    for turn in range(repeats):
        order = ("ours", "loop") if turn % 2 == 0 else ("loop", "ours")
        measured = {which: _in_new_process(which) for which in order}
        pairs.append((measured["ours"], measured["loop"]))
    for k, unit in ((0, "s"), (1, "MB at the peak, all processes")):
        ratios = [ours[k] / loop[k] for ours, loop in pairs]
        console.print(
            f"  {median(ours[k] for ours, _ in pairs):.1f} {unit}; loop {median(loop[k] for _, loop in pairs):.1f}; "
            f"ratio {median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})",
            highlight=False,
        )
    console.print(f"  one fit takes {median(loop[2] for _, loop in pairs):.2f} s alone", highlight=False)


def _in_new_process(which: str) -> tuple[float, float, float]:
    """Return seconds, peak memory in MB, and seconds of one fit, measured in a new process."""
    code = f"from debias_bench.rivals import measure; measure({which!r})"
    done = subprocess.run(command(code), capture_output=True, text=True, check=True)
    seconds, memory, one = map(float, done.stdout.split())
    return seconds, memory, one


def measure(which: str) -> None:
    """Run one side and print its numbers, for `_in_new_process` to read."""
    import warnings

    from joblib import Parallel, delayed

    warnings.simplefilter("ignore")
    X, y, forest = _problem()
    begin = perf_counter()
    _fit_to_permuted(forest, X, y, np.random.SeedSequence(0))
    one = perf_counter() - begin
    Parallel(n_jobs=N_JOBS)(delayed(_ready)() for _ in range(2 * N_JOBS))  # the start of workers is not timed
    begin = perf_counter()
    if which == "ours":
        debias.score(forest, X, y, TEXT, random_state=0, n_jobs=N_JOBS)
    else:
        children = np.random.SeedSequence(0).spawn(N_REPLICATES)
        Parallel(n_jobs=N_JOBS)(delayed(_fit_to_permuted)(forest, X, y, child) for child in children)
    print(perf_counter() - begin, _peak(), one)  # for the parent process


def _problem() -> tuple[NDArray[np.float32], NDArray[np.float64], Any]:
    from sklearn.ensemble import RandomForestRegressor

    rng = np.random.default_rng(0)
    X = rng.normal(size=(4_000, 20)).astype(np.float32)
    y = X[:, :5].sum(axis=1) + rng.normal(scale=2, size=len(X))
    return X, y, RandomForestRegressor(40, max_features=5, random_state=0, n_jobs=1).fit(X, y)


def _fit_to_permuted(forest: Any, X: NDArray[np.float32], y: NDArray[np.float64], child: np.random.SeedSequence) -> Any:
    """Fit the same forest to the same permuted response as debias does, and return its reported importance."""
    from sklearn.base import clone

    permuted = np.random.default_rng(child).permutation(y)
    return clone(forest).set_params(random_state=child_seed(child)).fit(X, permuted).feature_importances_


def _ready() -> None:
    import sklearn.ensemble  # noqa: F401


def _peak() -> float:
    """Return the sum of the peak resident memory of this process and its children, in MB (Linux)."""
    pid = os.getpid()
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        processes = [str(pid), *file.read().split()]
    total = 0
    for process in processes:
        with open(f"/proc/{process}/status") as file:
            total += sum(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    return total / 1024
