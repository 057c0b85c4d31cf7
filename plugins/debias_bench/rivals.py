"""Benchmark of permutation and SHAP scores: their time beside scikit-learn's and shap's functions on the same rows."""

from __future__ import annotations

import os
import platform
import warnings
from functools import partial
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

import debias

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    Case = tuple[str, Callable[[], Any], str, Callable[[], Any]]

N_ROWS, N_FEATURES = 2_000, 30


def run(console: Console, repeats: int) -> None:
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
