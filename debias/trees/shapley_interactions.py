"""Exact Shapley interactions of trees, path-dependent as the values of :mod:`debias.trees.shapley`.

The shap package (``shap_interaction_values``) and XGBoost (``pred_interactions``) compute the same. They write half of
the interaction of two features into each of two cells of a matrix, and what is left of the Shapley value of a feature
on the diagonal (Lundberg and others 2020). Here a pair has one number, the sum of both halves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.parallel import over_parts
from debias.progress import task
from debias.trees.routing import tree_nodes
from debias.trees.shapley import padded_quadrature, part_of, shapley_values, tree_edges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from debias.trees.ensemble import TreeEnsemble
    from debias.trees.kernels import shapley_interactions as kernels

MOST_ROWS = 128
"""Rows that go through the trees together."""
FEWEST_ROWS = 16
NUMBERS_AT_ONCE = 2**17
"""About this many numbers (1 MB) belong to a block of rows: they stay in the cache."""
LANES = 4
"""The kernel keeps so many parts of the sum of a pair."""


def shapley_interactions(
    ensemble: TreeEnsemble,
    X: NDArray[np.floating[Any]],
    number: NDArray[np.int32],
    n_pairs: int,
    n_jobs: int = 1,
    trees: Sequence[int] | None = None,
) -> NDArray[np.float64]:
    """Return the Shapley interactions of pairs of features on rows.

    Parameters
    ----------
    ensemble : TreeEnsemble
    X : array of shape (n_rows, n_features)
        In the ensemble's routing dtype, missing values as NaN.
    number : array of int32 of shape (n_features, n_features)
        Number of each pair of features, symmetric; -1 for pairs that are not wanted. Pairs of the same number are
        added up.
    n_pairs : int
    n_jobs : int
        Number of threads, over blocks of rows; the values do not depend on it.
    trees : sequence of int, optional
        Only these trees, added up; of all trees of an ensemble that takes means, the mean.

    Returns
    -------
    array of shape (n_rows, n_pairs, n_outputs)
        On the scale of the raw output. Half of it is added to the Shapley value of each of the two features.

    Raises
    ------
    UnsupportedModelError
        The model stores no training weights of its leaves.
    """
    from debias.trees.kernels import shapley_interactions as kernels

    chosen = np.arange(ensemble.n_trees) if trees is None else np.asarray(trees, dtype=np.int64)
    split = chosen[np.diff(ensemble.tree_start)[chosen] > 1]
    found = np.zeros((len(X), n_pairs, ensemble.n_outputs))
    # Class shares add up to 1, so the interactions of the first class follow from those of the other classes.
    shares = ensemble.averaged and ensemble.is_classifier
    outputs = np.arange(1 if shares else 0, ensemble.value.shape[1])
    if split.size and found.size and outputs.size:
        compiled = [_tree(ensemble, int(tree)) for tree in split]
        first_output = ensemble.tree_output[split]
        a_row = LANES * n_pairs * ensemble.n_outputs
        a_row += max(t.depth for t in compiled) * max(t.n_quadrature for t in compiled) * (1 + outputs.size)
        step = min(len(X), MOST_ROWS, max(FEWEST_ROWS, NUMBERS_AT_ONCE // a_row))

        def explain(blocks: slice) -> None:
            room = kernels.Room(compiled, step, outputs.size, n_pairs, ensemble.n_outputs)
            for begin in range(blocks.start * step, min(blocks.stop * step, len(X)), step):
                end = min(begin + step, len(X))
                kernels.explain(X, begin, end, compiled, first_output, outputs, number, room, found)
                advance(end - begin)

        with task("rows", len(X)) as advance:
            over_parts(-(-len(X) // step), explain, n_jobs)
    if shares:
        found[:, :, 0] = -found[:, :, 1:].sum(axis=2)
    if ensemble.averaged and trees is None:
        found /= ensemble.n_trees
    return found


def interaction_matrix(ensemble: TreeEnsemble, X: NDArray[np.floating[Any]], n_jobs: int = 1) -> NDArray[np.float64]:
    """Return the interactions as the shap package arranges them.

    Parameters
    ----------
    ensemble, X, n_jobs
        As for :func:`shapley_interactions`.

    Returns
    -------
    array of shape (n_rows, n_features, n_features, n_outputs)
        Half of the interaction of two features in each of their two cells; on the diagonal the rest of the Shapley
        value, so that rows sum to Shapley values and everything to the raw output minus the expected output.

    Raises
    ------
    UnsupportedModelError
        As for :func:`shapley_interactions`.
    """
    p = ensemble.n_features
    one, other = np.triu_indices(p, 1)
    number = np.full((p, p), -1, dtype=np.int32)
    number[one, other] = number[other, one] = np.arange(one.size)
    half = shapley_interactions(ensemble, X, number, one.size, n_jobs) / 2
    matrix = np.zeros((len(X), p, p, ensemble.n_outputs))
    matrix[:, one, other] = matrix[:, other, one] = half
    diagonal = np.arange(p)
    matrix[:, diagonal, diagonal] = shapley_values(ensemble, X, n_jobs) - matrix.sum(axis=2)
    return matrix


def _tree(ensemble: TreeEnsemble, tree: int) -> kernels.Tree:
    from debias.trees.kernels import shapley_interactions as kernels

    up, share, n_features = tree_edges(ensemble, tree)
    threshold = part_of(ensemble, tree, ensemble.routing_threshold).astype(np.float64)
    value = part_of(ensemble, tree, ensemble.value)
    # Two factors of the integrand are gone, so its degree is lower by 2: one node less is exact.
    return kernels.Tree(
        tree_nodes(ensemble, tree), threshold, up, share, value, *padded_quadrature(max(1, n_features - 1))
    )
