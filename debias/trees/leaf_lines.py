"""Lines in the leaves of trees: what they add to the values of the leaves.

A leaf with a line predicts ``value + offset + sum of slope times feature``, and its value alone for a row in which one
of these features is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import ExtractionError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.trees.ensemble import TreeEnsemble

LEAVES_AT_ONCE = 2**18
"""So many leaves of rows are added at once, in some ten megabytes."""


def check_leaf_lines(ensemble: TreeEnsemble) -> None:
    """Raise an ExtractionError if the arrays of lines do not fit each other, the nodes or the features."""
    source = ensemble.source
    arrays = (ensemble.line_start, ensemble.line_feature, ensemble.line_slope, ensemble.line_offset)
    if all(array is None for array in arrays):
        return
    start, feature, slope, offset = arrays
    if start is None or feature is None or slope is None or offset is None:
        raise ExtractionError(f"{source}: some arrays of lines in leaves are given, others are None")
    n_terms = feature.size
    if start.size != ensemble.n_nodes + 1 or start[0] != 0 or start[-1] != n_terms or (start[1:] < start[:-1]).any():
        raise ExtractionError(f"{source}: `line_start` does not divide {n_terms} terms of lines among the nodes")
    if slope.size != n_terms or not (np.isfinite(slope).all() and np.isfinite(offset).all()):
        raise ExtractionError(f"{source}: lines need one finite slope for each term, and finite offsets")
    if n_terms and (feature.min() < 0 or feature.max() >= ensemble.n_features):
        raise ExtractionError(f"{source}: a line in a leaf uses a feature that the model does not have")
    at_splits = ensemble.left >= 0
    if np.diff(start)[at_splits].any() or offset[at_splits].any():
        raise ExtractionError(f"{source}: a node that splits has a line; only leaves have lines")
    if ensemble.averaged or ensemble.value.shape[1] > 1:
        raise ExtractionError(f"{source}: lines in leaves are read for sums of trees with one output each")


def add_lines(
    ensemble: TreeEnsemble, X: NDArray[np.floating[Any]], leaves: NDArray[np.int32], raw: NDArray[np.float64]
) -> None:
    """Add what the lines of the leaves of rows add to the values of these leaves.

    Parameters
    ----------
    ensemble : TreeEnsemble
        With lines in its leaves.
    X : array of shape (n_rows, n_features)
        In the ensemble's routing dtype, missing values as NaN.
    leaves : array of int32 of shape (n_rows, n_trees)
        Leaf of each row in every tree.
    raw : array of float64 of shape (n_rows, n_outputs)
        It is changed.
    """
    at_once = max(1, LEAVES_AT_ONCE // ensemble.n_trees)
    for begin in range(0, len(leaves), at_once):
        rows = slice(begin, begin + at_once)
        added = _added(ensemble, X[rows], leaves[rows])
        for output in range(ensemble.n_outputs):
            raw[rows, output] += added[:, ensemble.tree_output == output].sum(axis=1)


def _added(ensemble: TreeEnsemble, X: NDArray[np.floating[Any]], leaves: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return what the lines add to the values of the leaves, shape (n_rows, n_trees)."""
    start, feature = ensemble.line_start, ensemble.line_feature
    slope, offset = ensemble.line_slope, ensemble.line_offset
    assert start is not None
    assert feature is not None
    assert slope is not None
    assert offset is not None
    nodes = (leaves + ensemble.tree_start[:-1]).ravel()
    n_terms = start[nodes + 1] - start[nodes]
    leaf = np.repeat(np.arange(nodes.size), n_terms)  # the leaf of each term
    term = np.arange(leaf.size) + np.repeat(start[nodes] - (np.cumsum(n_terms) - n_terms), n_terms)
    x = X[leaf // ensemble.n_trees, feature[term]]
    with np.errstate(over="ignore", invalid="ignore"):  # infinite values of X give what they give in the library
        added = offset[nodes] + np.bincount(leaf, weights=slope[term] * x, minlength=nodes.size)
    added[leaf[np.isnan(x)]] = 0.0
    return added.reshape(leaves.shape)
