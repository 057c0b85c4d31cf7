"""What each row contributes to a score: ``score_k = sum_i phi_ik`` (docs/significance.md).

``phi_ik = w_i / (T n'_T) sum over i's path, v(t) = k, of (mu_c(i) - sum_c n'_c mu_c / n'_t) . (y_i - mu'_t)``, times
the node weight of the scorer: the score is linear in the evaluation responses, once their node means are known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.groups import Grouping
    from debias.paths import Paths
    from debias.rows import Rows
    from debias.streamed_errors import Steps


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
    grouping: Grouping,
    inflated: bool,
) -> NDArray[np.float64]:
    """Return the standard error of scores as sums over independent rows (blocks): sd(n phi) / sqrt(n).

    Parameters
    ----------
    paths, rows, node_weight
        As for :func:`contributions`.
    grouping : Grouping
        Groups are summed first.
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
    grouping: Grouping,
    inflated: bool,
) -> NDArray[np.float64]:
    """Return score over standard error; 0 for features no tree uses. Parameters as for :func:`standard_error`."""
    score = _moments(paths, rows, paths.factor(node_weight), grouping)[0]
    error = standard_error(paths, rows, node_weight, grouping, inflated)
    return np.divide(score, error, out=np.zeros_like(score), where=error > 0)


def influence_error(
    paths: Paths, rows: Rows, node_weight: NDArray[np.float64], grouping: Grouping
) -> NDArray[np.float64]:
    """Return the standard error of scores on out-of-bag rows, whose in-bag rows are drawn with them.

    The infinitesimal jackknife with the splits held: a row acts on the score as an evaluation row of some trees (its
    contribution) and through the node means of the trees in whose bags it is. Under no signal it is up to sqrt(2) times
    too large, as jackknives of degenerate statistics are.

    Parameters
    ----------
    paths, rows, node_weight, grouping
        As for :func:`standard_error`.

    Returns
    -------
    array of float64 of shape (n_groups,)
    """
    from debias import path_kernels

    column = grouping.index[rows.ensemble.feature[paths.splits]].astype(np.int32)
    factor = paths.factor(node_weight)
    arrays = fixed_steps(paths, rows, factor, column)
    y = coded_response(rows)[paths.order]
    in_bag = _weights_in_bag(paths, rows)
    pull = np.empty((paths.n_splits, y.shape[1]))
    mean = np.empty((2 * paths.n_splits + rows.ensemble.n_trees, y.shape[1] + 1))
    for tree in range(rows.ensemble.n_trees):
        at, first = paths.of_tree(tree), 2 * int(paths.start[tree]) + tree
        n = paths.evaluation_weight[tree]
        seen = paths.slot_sums(tree, paths.weight * paths.evaluated[tree], y)
        # The left factor is scale x node weight x n'_r / n'_t, and the term of a split scale x node weight x
        # n'_l n'_r / n'_t (mu_l - mu_r) . (mu'_l - mu'_r).
        apart = seen[1::2] / n[1::2, None] - seen[2::2] / n[2::2, None]
        pull[at] = (factor[at, 0] * n[1::2])[:, None] * apart
        weight = paths.slot_sums(tree, in_bag[tree], np.ones((paths.n_rows, 1)))
        part = slice(first, first + n.size)
        mean[part, :-1] = paths.slot_sums(tree, in_bag[tree], y) / np.where(weight > 0, weight, 1.0)
        mean[part, -1:] = weight
    sums = np.zeros((2, len(grouping.names)))
    where = (paths.slots, in_bag, paths.start, paths.slot_of_split, column)
    for begin, end in paths.parts():
        phi = np.zeros((end - begin, sums.shape[1], 1))
        path_kernels.contributions(begin, end, *arrays, phi)
        path_kernels.influences(begin, end, *where, pull, mean, y, phi[:, :, 0])
        by_block = np.unique(paths.block[begin:end], return_inverse=True)[1].ravel()
        total = np.zeros((by_block[-1] + 1, sums.shape[1]))
        np.add.at(total, by_block, phi[:, :, 0])
        sums += total.sum(axis=0), (total**2).sum(axis=0)
    return spread(sums, paths.n_blocks)


def _weights_in_bag(paths: Paths, rows: Rows) -> NDArray[np.generic]:
    """Return the weights rows had in the bags' nodes, with those of their classes, shape (n_trees, n_rows)."""
    assert rows.in_bag is not None
    assert paths.in_bag is not None
    if rows.in_bag.class_weight is None:
        return paths.in_bag
    return np.stack([rows.in_bag.draw(tree)[paths.order] for tree in range(rows.ensemble.n_trees)])


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


def write_fixed_differences(paths: Paths | Steps, step: NDArray[np.float64]) -> None:
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


def _moments(paths: Paths, rows: Rows, factor: NDArray[np.float64], grouping: Grouping) -> NDArray[np.float64]:
    """Return sums of contributions, and of squares of their totals by block, stacked: shape (2, n_groups)."""
    from debias import path_kernels

    column = grouping.index[rows.ensemble.feature[paths.splits]].astype(np.int32)
    sums = np.zeros((2, len(grouping.names), 1))
    path_kernels.moments(0, paths.n_rows, paths.block, *fixed_steps(paths, rows, factor, column), sums)
    return sums[:, :, 0]
