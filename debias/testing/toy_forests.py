"""Small tree models that need no library: two forests, of numbers and of classes, and a boosted model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.response import encode
from debias.data.table import Table
from debias.rows.provenance import Provenance
from debias.rows.rows import Rows
from debias.trees.ensemble import TreeEnsemble
from debias.trees.in_bag import InBag
from debias.trees.objectives import LOGISTIC, SQUARED_ERROR

if TYPE_CHECKING:
    from numpy.typing import NDArray

TASKS = ("a regression forest", "a forest of two classes", "a boosted model of two classes")
N_ROWS, N_TREES, DEPTH = 60, 4, 3
NAMES = ("informative", "noise", "unused", "binary", "last")


def toy_rows(task: str, order: NDArray[np.int64] | None = None, seed: int = 0) -> Rows:
    """Return rows of a toy model: out-of-bag rows of a forest, held-out rows of a boosted model.

    Parameters
    ----------
    task : str
        One of `TASKS`.
    order : array of int64 of shape (5,), optional
        Order of the features. The trees and rows are otherwise the same.
    seed : int
        The seed of the rows, for scorers that draw random numbers.

    Returns
    -------
    Rows
        Their ``ensemble`` has a feature without a split, and, for a forest, all optional statistics.
    """
    order = np.arange(len(NAMES)) if order is None else order
    rng = np.random.default_rng(1)
    X = rng.normal(size=(N_ROWS, len(NAMES)))
    X[:, 3] = X[:, 3] > 0
    y: NDArray[Any] = X[:, 0] + X[:, 3] + rng.normal(size=N_ROWS)
    if task != TASKS[0]:
        y = np.where(y > np.median(y), "yes", "no")
    bags = [rng.integers(0, N_ROWS, N_ROWS) for _ in range(N_TREES)]
    ensemble = _ensemble(task, X, y, bags, order, rng)
    boosted = task == TASKS[2]
    return Rows(
        ensemble=ensemble,
        model=None,
        table=Table(X[:, order]),
        response=encode(y, ensemble, N_ROWS),
        weight=np.ones(N_ROWS),
        kind="held-out" if boosted else "oob",
        in_bag=None if boosted else InBag.from_rows(bags, N_ROWS),
        provenance=Provenance("held-out" if boosted else "oob", "known", "a toy model of debias.testing"),
        seed=seed,
    )


def _ensemble(
    task: str,
    X: NDArray[np.float64],
    y: NDArray[Any],
    bags: list[NDArray[np.int64]],
    order: NDArray[np.int64],
    rng: np.random.Generator,
) -> TreeEnsemble:
    boosted, numbers = task == TASKS[2], task == TASKS[0]
    target = y[:, None].astype(float) if numbers else (y[:, None] == ["no", "yes"]).astype(float)
    trees = [_grown(X, target, bag, order, rng) for bag in bags]
    joined: dict[str, Any] = {
        name: np.concatenate([np.asarray([node[name] for node in tree]) for tree in trees]) for name in trees[0][0]
    }
    stored: dict[str, Any] = {"weight": joined["weight"], "count": joined["count"], "impurity": joined["impurity"]}
    if boosted:
        stored = {"gain": joined["impurity"] * joined["weight"], "cover": joined["weight"] / 4}
        joined["value"] = 0.5 * (joined["value"][:, 1:] - 0.5)
    return TreeEnsemble(
        tree_start=np.cumsum([0] + [len(tree) for tree in trees]),
        feature=joined["feature"],
        threshold=joined["threshold"],
        left=joined["left"],
        right=joined["right"],
        missing_left=joined["missing_left"],
        value=joined["value"],
        averaging_weight=joined["weight"],
        tree_output=np.zeros(len(trees), dtype=np.int32),
        base=np.zeros(2 if task == TASKS[1] else 1),
        averaged=not boosted,
        objective=LOGISTIC if boosted else SQUARED_ERROR,
        feature_names=tuple(NAMES[k] for k in order),
        named=True,
        classes=None if numbers else np.array(["no", "yes"]),
        routing_dtype=np.dtype(np.float64),
        source=task.removeprefix("a "),
        version="debias.testing",
        criterion=None if boosted else "squared_error" if numbers else "gini",
        mean_values=not boosted,
        n_train=len(y),
        **stored,
    )


def _grown(
    X: NDArray[np.float64],
    target: NDArray[np.float64],
    bag: NDArray[np.int64],
    order: NDArray[np.int64],
    rng: np.random.Generator,
) -> list[dict[str, Any]]:
    """Grow a tree with random splits, which do not depend on the order of the features."""
    used = [k for k, name in enumerate(NAMES) if name != "unused"]
    nodes: list[dict[str, Any]] = []

    def grow(rows: NDArray[np.int64], depth: int) -> int:
        feature, mean = int(rng.choice(used)), target[rows].mean(axis=0)
        here = len(nodes)
        nodes.append(
            {
                "feature": -1, "threshold": 0.0, "left": -1, "right": -1, "missing_left": True, "value": mean,
                "weight": float(len(rows)), "count": len(np.unique(rows)),
                "impurity": float(((target[rows] - mean) ** 2).sum(axis=1).mean()),
            }
        )  # fmt: skip
        threshold = float(np.median(X[rows, feature]))
        left = X[rows, feature] <= threshold
        if depth < DEPTH and 0 < left.sum() < len(rows):
            children = {"left": grow(rows[left], depth + 1), "right": grow(rows[~left], depth + 1)}
            nodes[here] |= {"feature": int(np.flatnonzero(order == feature)[0]), "threshold": threshold, **children}
        return here

    grow(bag, 0)
    return nodes
