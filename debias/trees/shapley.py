"""Shapley values of trees, exactly, from the common form: no model library and no shap needed.

They are path-dependent: a feature that is not known goes both ways at its splits, in the shares of the training weight
(Lundberg, Erion and Lee, arXiv 1802.03888), which is what the shap package (without background data), XGBoost and
LightGBM compute. How they are computed here is told in :mod:`debias.trees.kernels.shapley`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.trees.routing import tree_nodes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.trees.ensemble import TreeEnsemble

ROWS_AT_ONCE = 1024


def shapley_values(ensemble: TreeEnsemble, X: NDArray[np.floating[Any]], n_jobs: int = 1) -> NDArray[np.float64]:
    """Return the Shapley values of rows under the whole ensemble.

    Parameters
    ----------
    ensemble : TreeEnsemble
    X : array of shape (n_rows, n_features)
        In the ensemble's routing dtype, missing values as NaN.
    n_jobs : int
        Threads, over blocks of rows; the values do not depend on it.

    Returns
    -------
    array of shape (n_rows, n_features, n_outputs)
        On the scale of the raw output: class shares, means or margins. The sum over features is the raw output less
        :func:`expected_output`.
    """
    from debias.trees.kernels import shapley as kernels

    phi = np.zeros((X.shape[0], ensemble.n_outputs, ensemble.n_features))
    # Shares of classes add up to 1, so that the values of the first class follow from the others'.
    shares = ensemble.averaged and ensemble.is_classifier
    outputs = np.arange(1 if shares else 0, ensemble.value.shape[1])

    def part(begin: int) -> None:
        rows = np.arange(begin, min(begin + ROWS_AT_ONCE, X.shape[0]))
        for tree in range(ensemble.n_trees):
            explained = _tables(ensemble, tree)
            if explained is not None:
                kernels.explain(X, rows, *explained, int(ensemble.tree_output[tree]), outputs, phi)

    begins = range(0, X.shape[0], ROWS_AT_ONCE)
    if n_jobs == 1:
        for begin in begins:
            part(begin)
    else:
        from joblib import Parallel, delayed

        Parallel(n_jobs=n_jobs, require="sharedmem")(delayed(part)(begin) for begin in begins)
    if shares:
        phi[:, 0] = -phi[:, 1:].sum(axis=1)
    if ensemble.averaged:
        phi /= ensemble.n_trees
    return phi.transpose(0, 2, 1)


def expected_output(ensemble: TreeEnsemble) -> NDArray[np.float64]:
    """Return the raw output when nothing is known of a row, shape (n_outputs,): the weighted mean of the leaves."""
    root = ensemble.value[ensemble.tree_start[:-1]]
    total = np.zeros(ensemble.n_outputs)
    for column in range(root.shape[1]):
        np.add.at(total, ensemble.tree_output + column, root[:, column])
    return total / (ensemble.n_trees if ensemble.averaged else 1) + ensemble.base


def shapley_products(
    ensemble: TreeEnsemble,
    tree: int,
    X: NDArray[np.floating[Any]],
    rows: NDArray[np.int64],
    factor: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the sum over rows of one tree's Shapley values times a factor, without keeping the values.

    Parameters
    ----------
    ensemble : TreeEnsemble
    tree : int
    X : array of shape (n_rows, n_features)
        As in :func:`shapley_values`.
    rows : array of int64 of shape (n,)
        Which rows of `X` to add up.
    factor : array of shape (n_rows, width)
        One factor for each output the tree feeds.

    Returns
    -------
    array of shape (n_features,)
        ``sum_i sum_c factor[i, c] * phi[i, feature, c]``
    """
    from debias.trees.kernels import shapley as kernels

    phi = np.zeros(ensemble.n_features)
    explained = _tables(ensemble, tree)
    if explained is not None:
        kernels.explain_product(X, rows, *explained, factor, phi)
    return phi


def _tables(ensemble: TreeEnsemble, tree: int) -> tuple[Any, Any, NDArray[np.float64]] | None:
    """Return one tree's nodes, edges and values as the kernels take them; None of a tree that never splits."""
    from debias.trees.kernels import shapley as kernels

    at = slice(int(ensemble.tree_start[tree]), int(ensemble.tree_start[tree + 1]))
    if at.stop - at.start == 1:
        return None
    nodes = tree_nodes(ensemble, tree)
    parent, feature, left, right = nodes[:4]
    up, share, n_distinct = kernels.edge_shares(left, right, parent, feature, ensemble.averaging_weight[at])
    t, weight = np.polynomial.legendre.leggauss((int(n_distinct) + 1) // 2)
    edges = (up, *kernels.edge_tables(up, share, (t + 1) / 2, weight / 2))
    return nodes, edges, ensemble.value[at]
