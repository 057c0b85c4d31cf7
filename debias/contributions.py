"""What each row contributes to a score: ``score_k = sum_i phi_ik`` (docs/significance.md).

``phi_ik = w_i / (T n'_T) sum over i's path, v(t) = k, of (mu_c(i) - sum_c n'_c mu_c / n'_t) . (y_i - mu'_t)``, times
the node weight of the scorer: the score is linear in the evaluation responses, once their node means are known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.paths import Paths
    from debias.rows import Rows


def contributions(paths: Paths, rows: Rows, node_weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the contribution of every row to the score of every feature.

    Parameters
    ----------
    paths : Paths
        Those of `rows`.
    rows : Rows
    node_weight : array of shape (n_nodes,)
        What the scorer multiplies the centred covariance of each split with.

    Returns
    -------
    array of float64 of shape (n_rows, n_features)
        In the unit of the score, which is the sum over rows. Rows that were never evaluated have 0.
    """
    from debias import path_kernels

    n_features = rows.ensemble.n_features
    phi = np.zeros((paths.n_rows, n_features, 1))
    column = rows.ensemble.feature[paths.splits]
    path_kernels.contributions(0, paths.n_rows, *fixed_steps(paths, rows, paths.factor(node_weight), column), phi)
    every = np.zeros((rows.n_rows, n_features))
    every[paths.order] = phi[:, :, 0]
    return every


def standard_error(
    paths: Paths,
    rows: Rows,
    node_weight: NDArray[np.float64],
    grouping: NDArray[np.int64],
    inflated: bool,
) -> NDArray[np.float64]:
    """Return the standard error of scores as sums over independent rows (blocks): sd(n phi) / sqrt(n).

    Parameters
    ----------
    paths, rows, node_weight
        As for :func:`contributions`.
    grouping : array of int64 of shape (n_features,)
        The group of each feature, numbered from 0; groups are summed first.
    inflated : bool
        See :meth:`debias.paths.Paths.factor`.

    Returns
    -------
    array of float64 of shape (n_groups,)
    """
    return spread(_moments(paths, rows, paths.factor(node_weight, inflated), grouping), paths.n_blocks)


def z_scores(
    paths: Paths,
    rows: Rows,
    node_weight: NDArray[np.float64],
    grouping: NDArray[np.int64],
    inflated: bool,
) -> NDArray[np.float64]:
    """Return score over standard error; 0 for features no tree uses. Parameters as for :func:`standard_error`."""
    score = _moments(paths, rows, paths.factor(node_weight), grouping)[0]
    error = standard_error(paths, rows, node_weight, grouping, inflated)
    return np.divide(score, error, out=np.zeros_like(score), where=error > 0)


def spread(sums: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Return sqrt(n) times the standard deviation of n contributions, from their sum and sum of squares, stacked."""
    if n < 2:
        return np.zeros(sums.shape[1:])
    variance = np.maximum(sums[1] - sums[0] ** 2 / n, 0.0) * (n / (n - 1))
    # What is left of features whose contributions are all alike is rounding.
    return np.sqrt(np.where(variance > 1e-20 * sums[1], variance, 0.0))


def fixed_steps(
    paths: Paths, rows: Rows, factor: NDArray[np.float64], column: NDArray[np.int32]
) -> tuple[NDArray[np.generic], ...]:
    """Return the arguments of the compiled walk where node values are the model's own and there is one lane."""
    y = coded_response(rows)[paths.order][:, :, None]
    step = np.empty((paths.n_splits, 2, rows.ensemble.value.shape[1] - (rows.response.values is None), 1))
    write_fixed_differences(paths, step)
    write_evaluation_means(paths, y, step)
    tree_output = rows.ensemble.tree_output
    return (
        paths.slots,
        paths.evaluated,
        paths.start,
        paths.slot_of_split,
        column,
        factor,
        step,
        tree_output,
        y,
        paths.weight,
    )


def write_fixed_differences(paths: Paths, step: NDArray[np.float64]) -> None:
    """Write the difference of the children's node values at every dividing split to ``step[:, 0]``, in every lane."""
    ensemble = paths.ensemble
    begin = ensemble.tree_start[np.searchsorted(ensemble.tree_start, paths.splits, side="right") - 1]
    left, right = begin + ensemble.left[paths.splits], begin + ensemble.right[paths.splits]
    difference = ensemble.centred_value[left] - ensemble.centred_value[right]
    if difference.shape[1] != step.shape[2]:
        difference = difference @ contrasts(difference.shape[1])
    step[:, 0] = difference[:, :, None]


def write_evaluation_means(paths: Paths, y: NDArray[np.float64], step: NDArray[np.float64]) -> None:
    """Write the mean response of the evaluation rows at every dividing split to ``step[:, 1]``."""
    for tree in range(paths.ensemble.n_trees):
        write_tree_means(paths, tree, y, step)


def write_tree_means(paths: Paths, tree: int, y: NDArray[np.float64], step: NDArray[np.float64]) -> None:
    """Do so for one tree."""
    from debias import path_kernels

    at, n = paths.of_tree(tree), paths.evaluation_weight[tree]
    first = paths.ensemble.tree_output[tree]
    mine = y[:, first : first + step.shape[2]]
    sums = np.empty((n.size, *mine.shape[1:]))
    path_kernels.sum_slots(paths.slots[tree], paths.weight * paths.evaluated[tree], mine, paths.slot_of_split[at], sums)
    path_kernels.write_means(sums, n, paths.slot_of_split[at], step[at])


def coded_response(rows: Rows) -> NDArray[np.float64]:
    """Return the response as columns, shape (n_rows, n_outputs).

    Classes of averaged trees become orthonormal contrasts of the one-hot columns, one fewer: differences of class
    shares sum to 0, so their products are the same in these coordinates.
    """
    if rows.response.values is not None:
        return rows.response.values
    assert rows.response.codes is not None
    return contrasts(rows.ensemble.n_outputs)[rows.response.codes]


def contrasts(n_classes: int) -> NDArray[np.float64]:
    """Return an orthonormal basis of the class vectors that sum to 0 (Helmert), shape (n_classes, n_classes - 1)."""
    i, j = np.arange(n_classes)[:, None], np.arange(1, n_classes)[None, :]
    return np.where(i < j, 1.0, np.where(i == j, -j, 0.0)) / np.sqrt(j * (j + 1.0))


def _moments(paths: Paths, rows: Rows, factor: NDArray[np.float64], grouping: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return sums of contributions, and of squares of their totals by block, stacked: shape (2, n_groups)."""
    from debias import path_kernels

    column = grouping[rows.ensemble.feature[paths.splits]].astype(np.int32)
    sums = np.zeros((2, int(grouping.max()) + 1, 1))
    path_kernels.moments(0, paths.n_rows, paths.block, *fixed_steps(paths, rows, factor, column), sums)
    return sums[:, :, 0]
