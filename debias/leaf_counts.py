"""How many rows the leaves of some trees hold, beside how many training rows the model says they held."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from debias.routing import block_size, route

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.ensemble import TreeEnsemble
    from debias.response import Response
    from debias.table import Table

TREES_AT_MOST = 30
ROUNDS_AT_MOST = 10
"""Of a booster that stores sums of hessians: later ones rest on the few rows that are not yet fitted."""


@dataclass(frozen=True, eq=False)
class LeafCounts:
    """Counts in the leaves of one tree.

    Parameters
    ----------
    at : array of int64 of shape (n_rows,)
        Leaf of each row, numbered from 0.
    found, stored : array of float64 of shape (n_leaves,)
        Rows that reach each leaf, and training rows it held. Where the library stores sums of hessians, both are such
        sums, in units of a typical row.
    group : array of int64 of shape (n_leaves,)
        Which class the leaf speaks for; 0 throughout in regression.
    """

    at: NDArray[np.int64]
    found: NDArray[np.float64]
    stored: NDArray[np.float64]
    group: NDArray[np.int64]

    @property
    def freedom(self) -> int:
        """Leaves less classes: how many counts are free once the rows of each class are counted."""
        return self.group.size - np.unique(self.group).size


def count_leaves(ensemble: TreeEnsemble, table: Table, response: Response) -> list[LeafCounts]:
    """Count rows in the leaves of up to 30 trees that have more leaves than classes.

    Parameters
    ----------
    ensemble : TreeEnsemble
    table : Table
        Rows in question, columns in the model's order.
    response : Response
        Gives the classes that were weighed in training.

    Returns
    -------
    list of LeafCounts
        Empty if the model stores nothing that tells numbers of training rows.
    """
    if ensemble.count is None and (ensemble.cover is None or ensemble.averaged or not _covers_count_rows(ensemble)):
        return []
    trees = _sample(ensemble)
    leaves = np.empty((trees.size, table.n_rows), dtype=np.int32).T
    step = block_size(trees.size)
    for begin in range(0, table.n_rows, step):
        rows = slice(begin, begin + step)
        leaves[rows] = route(ensemble, table.matrix(ensemble, rows), trees=trees)
    curvatures = None if ensemble.count is not None else _curvatures(ensemble, trees, leaves, response)
    counted = []
    for j, tree in enumerate(trees):
        nodes = slice(ensemble.tree_start[tree], ensemble.tree_start[tree + 1])
        leaf = np.flatnonzero(ensemble.left[nodes] < 0)
        at = np.searchsorted(leaf, leaves[:, j])
        if ensemble.count is not None:
            found, stored = np.bincount(at, minlength=leaf.size), ensemble.count[nodes][leaf]
        else:
            assert curvatures is not None
            assert ensemble.cover is not None
            h = curvatures[j]
            if not h.any():
                continue
            unit = h @ h / h.sum()
            found, stored = np.bincount(at, weights=h, minlength=leaf.size) / unit, ensemble.cover[nodes][leaf] / unit
        counted.append(
            LeafCounts(at, found.astype(np.float64), stored.astype(np.float64), _group(ensemble, nodes, leaf))
        )
    return [each for each in counted if each.freedom > 0 and each.stored.min() > 0]


def _sample(ensemble: TreeEnsemble) -> NDArray[np.int64]:
    """Return trees spread over the ensemble; the first ones where covers depend on the margin before the tree."""
    if ensemble.count is None and not _unit_curvature(ensemble):
        return np.arange(min(ensemble.n_trees, (1 if ensemble.rescaled else ROUNDS_AT_MOST) * ensemble.trees_a_round))
    trees = np.arange(ensemble.n_trees)
    if ensemble.count is not None and not ensemble.averaged:
        at_root = ensemble.count[ensemble.tree_start[:-1]]
        trees = trees[at_root == at_root.max()]  # LightGBM's goss takes all rows at first, and some by gradient later
    return trees[np.unique(np.linspace(0, trees.size - 1, min(TREES_AT_MOST, trees.size)).astype(np.int64))]


def _covers_count_rows(ensemble: TreeEnsemble) -> bool:
    """Whether the covers of the first round are whole numbers of rows: they are not if rows had weights or margins."""
    if not ensemble.objective.has_loss or ensemble.value.shape[1] > 1:
        return False
    if ensemble.objective.curvature_needs_response:
        return True
    n_first = ensemble.trees_a_round
    first = slice(0, ensemble.tree_start[n_first])
    leaf = ensemble.left[first] < 0
    assert ensemble.cover is not None
    at_base = ensemble.objective.curvature(ensemble.base)[ensemble.tree_output[:n_first]]
    per_row = np.repeat(at_base * _factor(ensemble), np.diff(ensemble.tree_start[: n_first + 1]))
    rows = ensemble.cover[first][leaf] / per_row[leaf]
    if ensemble.positive_weight != 1:
        return True  # a leaf holds n_0 + w n_1 rows' worth
    return bool(np.allclose(rows, np.round(rows), rtol=1e-4, atol=1e-3))


def _curvatures(
    ensemble: TreeEnsemble, trees: NDArray[np.int64], leaves: NDArray[np.int32], response: Response
) -> list[NDArray[np.float64]]:
    """Return each row's hessian as each of `trees` saw it, weighed as the classes were."""
    if _unit_curvature(ensemble):
        return [np.ones(len(leaves)) for _ in trees]
    assert response.target is not None
    weight = np.where(response.target[:, 0] == 1, ensemble.positive_weight, 1.0) if ensemble.n_outputs == 1 else 1.0
    margin = np.tile(ensemble.base, (len(leaves), 1)) if response.margin is None else response.margin.copy()
    curvatures = []
    for j, tree in enumerate(trees):
        output = ensemble.tree_output[tree]
        if tree % ensemble.trees_a_round == 0:
            before = ensemble.objective.curvature(margin, response.target)
        curvatures.append(before[:, output] * _factor(ensemble) * weight)
        margin[:, output] += ensemble.value[ensemble.tree_start[tree] + leaves[:, j], 0]
    return curvatures


def _unit_curvature(ensemble: TreeEnsemble) -> bool:
    return ensemble.objective.name in ("squared_error", "absolute_error", "quantile")


def _factor(ensemble: TreeEnsemble) -> float:
    return 2.0 if ensemble.objective.name == "softmax" else 1.0  # XGBoost's hessian of softmax is 2 p (1 - p)


def _group(ensemble: TreeEnsemble, nodes: slice, leaf: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the class each leaf speaks for: the most frequent one, or whether a booster's margin goes up."""
    value = ensemble.value[nodes][leaf]
    if ensemble.objective.name not in ("logistic", "softmax", "hinge") and not ensemble.is_classifier:
        return np.zeros(leaf.size, dtype=np.int64)
    return value.argmax(axis=1) if value.shape[1] > 1 else (value[:, 0] > 0).astype(np.int64)
