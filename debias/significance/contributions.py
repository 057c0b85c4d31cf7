"""Contributions of rows to a score, ``score_k = sum_i phi_ik``, and standard errors from them (docs/significance.md).

``phi_ik = w_i / (T n'_T) sum_t (mu_c(i) - sum_c n'_c mu_c / n'_t) . (y_i - mu'_t)``,
times the node weight of the scorer, where t are the splits on feature k on the path of row i. Given the node means, the
score is linear in the responses of the evaluation rows.

A sum of independent contributions of similar size is close to normal if there are more than a few dozen. If few values
are much larger than the others, such as those of the rows of a rare class, only the large ones count. The *effective
number* is n / (1 + excess kurtosis), and n if the tails are not heavier than normal. For a rare class of r rows it is
about r. It bounds the skewness of the sum, and it is the number of degrees of freedom of the estimated variance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import RowsError
from debias.parallel import allowed
from debias.rows.paths import LEAST_EXPONENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from debias.data.groups import Grouping
    from debias.rows.paths import Paths
    from debias.rows.rows import Rows
    from debias.significance.streamed import Steps


def contributions(
    paths: Paths, rows: Rows, node_weight: NDArray[np.float64], enlarged: bool = False
) -> NDArray[np.float64]:
    """Return the contribution of every row to the score of every feature.

    Parameters
    ----------
    paths : Paths
        Paths of `rows`.
    rows : Rows
    node_weight : array of shape (n_nodes,)
        Factor of the centred covariance of each split in the score.
    enlarged : bool
        Whether deviations are enlarged, for standard errors (see :meth:`debias.rows.paths.Paths.factor`).

    Returns
    -------
    array of float64 of shape (n_rows, n_features)
        Contributions in the unit of the score; the score is their sum over rows, unless they are enlarged. They are 0
        for rows that are not an evaluation row of any tree.
    """
    from debias.rows.kernels import paths as path_kernels

    phi = np.zeros((paths.n_rows, rows.ensemble.n_features))
    of_rows = _of_rows(paths, rows, paths.factor(node_weight, enlarged), rows.ensemble.feature[paths.splits])
    arrays: tuple[Any, ...] = (*of_rows, phi)
    with allowed(rows.n_jobs) as threads:
        threads.map(lambda part: path_kernels.contributions(*part, *arrays), paths.parts)
    # Paths have the rows of a block together, and leave out rows that had no weight in training.
    in_row_order = np.zeros((rows.n_rows, phi.shape[1]))
    in_row_order[paths.order] = phi
    return in_row_order


def moments(
    paths: Paths, rows: Rows, factor: NDArray[np.float64], grouping: Grouping
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return power sums of contributions, summed by block first, and the units of the contributions.

    Parameters
    ----------
    paths, rows
        As for :func:`contributions`.
    factor : array of shape (n_dividing, 2)
        See :meth:`debias.rows.paths.Paths.factor`.
    grouping : Grouping
        Contributions to a group of features are summed first.

    Returns
    -------
    (array of shape (4, n_groups), array of shape (n_groups,))
    """
    from debias.rows.kernels import paths as path_kernels

    column, n_groups = grouping.index[rows.ensemble.feature[paths.splits]].astype(np.int32), len(grouping.names)
    factor, unit = in_units(paths, rows, factor, column, n_groups)
    of_rows = _of_rows(paths, rows, factor, column)

    def add(part: tuple[int, int]) -> NDArray[np.float64]:
        sums = np.zeros((POWERS, n_groups))
        arrays: tuple[Any, ...] = (paths.block, *of_rows, sums)
        path_kernels.moments(*part, *arrays)
        return sums

    with allowed(rows.n_jobs) as threads:
        # Neither the parts nor their order depend on the number of threads, so the sums do not.
        total: NDArray[np.float64] = np.sum(threads.map(add, paths.parts), axis=0)
    return total, unit


def influence_error(
    paths: Paths, rows: Rows, node_weight: NDArray[np.float64], grouping: Grouping
) -> NDArray[np.float64]:
    """Return the standard error of scores on out-of-bag rows, which are drawn together with the in-bag rows.

    This is the infinitesimal jackknife with fixed splits. A row acts on the score in two ways: as an evaluation row of
    some trees (its contribution), and through the node means of the trees in whose bags it is. Without signal the
    standard error is up to sqrt(2) times too large, as for jackknives of degenerate statistics. New rows also give
    other splits. For weak features with few values this adds to the variance of the score, and it is not in this
    standard error (docs/significance.md).

    Parameters
    ----------
    paths, rows, node_weight
        As for :func:`contributions`.
    grouping : Grouping
        Contributions to a group of features are summed first.

    Returns
    -------
    array of float64 of shape (n_groups,)
    """
    unit, of_part = influences(paths, rows, node_weight, grouping)

    def add(part: tuple[int, int]) -> NDArray[np.float64]:
        of_blocks = sums_of_runs(of_part(part), paths.block[slice(*part)])
        return np.stack([of_blocks.sum(axis=0), (of_blocks**2).sum(axis=0)])

    with allowed(rows.n_jobs) as threads:
        sums = np.sum(threads.map(add, paths.parts), axis=0)
    return unit * spread(sums, paths.n_blocks)


def influences(
    paths: Paths, rows: Rows, node_weight: NDArray[np.float64], grouping: Grouping
) -> tuple[NDArray[np.float64], Callable[[tuple[int, int]], NDArray[np.float64]]]:
    """Return the units of the influences of out-of-bag rows on scores, and a function that returns those of a part.

    Parameters
    ----------
    paths, rows, node_weight, grouping
        As for :func:`influence_error`.

    Returns
    -------
    array of shape (n_groups,), function
        The function takes one of ``paths.parts`` and returns an array of shape (n_rows_of_part, n_groups), in units.
    """
    from debias.rows.kernels import paths as path_kernels

    column = grouping.index[rows.ensemble.feature[paths.splits]].astype(np.int32)
    factor, unit = in_units(paths, rows, paths.factor(node_weight), column, len(grouping.names))
    of_rows = _of_rows(paths, rows, factor, column)
    y, one = coded_response(rows)[paths.order], np.ones(paths.n_rows)
    in_bag = _weights_in_bag(paths, rows)
    n, seen = paths.evaluation_weight[:, None], paths.slot_sums(paths.evaluated, paths.weight, y)
    left, right = paths.to_left, paths.to_left + 1
    # The left factor is scale x node weight x n'_r / n'_t, and the term of a split scale x node weight x
    # n'_l n'_r / n'_t (mu_l - mu_r) . (mu'_l - mu'_r).
    apart = seen[left] / n[left] - seen[right] / n[right]
    pull = factor[:, :1] * n[left] * (apart if rows.response.values is not None else class_product(apart))
    weight = paths.slot_sums(in_bag, one, one[:, None])
    mean = np.concatenate([paths.slot_sums(in_bag, one, y) / np.where(weight > 0, weight, 1.0), weight], axis=1)

    def of_part(part: tuple[int, int]) -> NDArray[np.float64]:
        phi = np.zeros((part[1] - part[0], len(grouping.names)))
        arrays: tuple[Any, ...] = (*of_rows, in_bag, pull, mean, phi)
        path_kernels.influences(*part, *arrays)
        return phi

    return unit, of_part


def sums_of_runs(values: NDArray[np.float64], block: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the sums of the rows of each block, shape (n_blocks, n_columns), where those of a block are together."""
    begins = np.flatnonzero(np.diff(block, prepend=block[:1] - 1))
    return values if begins.size == len(values) else np.add.reduceat(values, begins, axis=0)


def _weights_in_bag(paths: Paths, rows: Rows) -> NDArray[Any]:
    """Return the weights of rows in the bags, times the weights of their classes, shape (n_trees, n_rows)."""
    assert rows.in_bag is not None
    assert paths.in_bag is not None
    if rows.in_bag.class_weight is None:
        return paths.in_bag
    # `paths.in_bag` lacks these factors, because they go with the response when it is permuted.
    return np.stack([rows.in_bag.draw(tree)[paths.order] for tree in range(rows.ensemble.n_trees)])


NEGLIGIBLE = 1e-12
"""A row with a smaller part of the largest weight changes nothing but by rounding, and is like one of weight 0."""


def counts(weight: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which rows are evaluated, by their weights."""
    return np.asarray(weight > NEGLIGIBLE * weight.max(initial=0.0))


def spread(sums: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Return sqrt(n) times the standard deviation of n contributions.

    ``sums[0]`` is their sum and ``sums[1]`` their sum of squares. Sums that are not finite are refused.
    """
    if not np.isfinite(sums).all():
        raise RowsError(
            "a score has no standard error, because contributions of rows or their powers are outside the range of "
            "floats: their weights or responses differ by too many orders of magnitude"
        )
    if n < 2:
        return np.zeros(sums.shape[1:])
    # Rounding may make the difference of equal contributions negative.
    variance = np.maximum(sums[1] - sums[0] ** 2 / n, 0.0) * (n / (n - 1))
    # If all contributions to a feature are equal, a variance above 0 is a rounding error.
    return np.sqrt(np.where(variance > 1e-20 * sums[1], variance, 0.0))


def _of_rows(paths: Paths, rows: Rows, factor: NDArray[np.float64], column: NDArray[np.int32]) -> tuple[Any, ...]:
    """Return the arguments of the compiled loops over paths, with the node values of the model."""
    y = coded_response(rows)[paths.order]
    width, tree_output = rows.ensemble.value.shape[1] - (rows.response.values is None), rows.ensemble.tree_output
    sums = paths.slot_sums(paths.evaluated, paths.weight, y, tree_output, width)
    mean = sums[paths.inside] / paths.evaluation_weight[paths.inside][:, None]
    step = np.stack([fixed_differences(paths, width), mean], axis=1)
    positions = (paths.slots, paths.evaluated, paths.start, paths.slot_of_split, column)
    return *positions, factor, step, tree_output, y, paths.weight


def fixed_differences(paths: Paths | Steps, width: int) -> NDArray[np.float64]:
    """Return the difference of the node values of the children at every dividing split, shape (n_dividing, width)."""
    ensemble = paths.ensemble
    begin = ensemble.tree_start[np.searchsorted(ensemble.tree_start, paths.splits, side="right") - 1]
    left, right = begin + ensemble.left[paths.splits], begin + ensemble.right[paths.splits]
    difference: NDArray[np.float64] = ensemble.centred_value[left] - ensemble.centred_value[right]
    return difference if difference.shape[1] == width else class_product(difference[:, 1:])


def coded_response(rows: Rows) -> NDArray[np.float64]:
    """Return the response as columns, shape (n_rows, n_outputs).

    Classes of averaged trees become one-hot columns without the first class, see `class_product`.
    """
    if rows.response.values is not None:
        return rows.response.values
    return one_hot(rows)[:, 1:].astype(np.float64)


def one_hot(rows: Rows) -> NDArray[np.uint8]:
    """Return the class of each row as one-hot columns, shape (n_rows, n_classes)."""
    assert rows.response.codes is not None
    return np.eye(rows.ensemble.n_outputs, dtype=np.uint8)[rows.response.codes]


def class_product(difference: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the coordinates of a difference a of class shares whose product with another difference b is a . b.

    Shares sum to 1, so a difference of shares sums to 0, and the first class can be left out. The product over all
    classes is ``sum_k a_k b_k + (sum_k a_k) (sum_k b_k)`` over the other classes. Whole numbers and zeros stay exact in
    these coordinates, so no rounding error looks like a contribution.

    Parameters
    ----------
    difference : array of shape (n, n_classes - 1)
        Difference a, without the first class.
    """
    return difference + difference.sum(axis=1, keepdims=True)


def in_units(
    paths: Paths, rows: Rows, factor: NDArray[np.float64], column: NDArray[np.int32], n_columns: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the factor divided by the unit of each split's column, and the units; see :func:`units`."""
    width = rows.ensemble.value.shape[1] - (rows.response.values is None)
    n = paths.evaluation_weight
    weight = np.minimum(np.stack([n[paths.to_left], n[paths.to_left + 1]], axis=1), paths.weight.max())
    unit = units(factor, fixed_differences(paths, width), weight, column, n_columns)
    return factor / unit[column][:, None], unit


def units(
    factor: NDArray[np.float64],
    difference: NDArray[np.float64],
    weight: NDArray[np.float64],
    column: NDArray[np.int32],
    n_columns: int,
) -> NDArray[np.float64]:
    """Return powers of 2 about as large as the contributions to each column would be for a response of size 1.

    Contributions are products of weight, response and node values. In these units, their fourth powers are within the
    range of floats if those of the response are.

    Parameters
    ----------
    factor : array of shape (n_dividing, 2)
    difference : array of shape (n_dividing, width)
        Difference of the values of the two children.
    weight : array of shape (n_dividing, 2)
        About the weight of a row on either side of each split.
    column : array of int32 of shape (n_dividing,)
    n_columns : int
    """
    largest = np.zeros(n_columns)
    np.maximum.at(
        largest,
        column,
        (weight * np.abs(factor)).max(axis=1, initial=0.0) * np.abs(difference).max(axis=1, initial=0.0),
    )
    return np.ldexp(1.0, np.maximum(np.frexp(np.where(largest > 0, largest, 1.0))[1], LEAST_EXPONENT))


POWERS = 4
"""Number of power sums from which the effective number is computed."""


def effective_number(sums: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Return the effective number of n values, from the sums of their first four powers.

    Parameters
    ----------
    sums : array of shape (4, n_columns)
    n : int

    Returns
    -------
    array of shape (n_columns,)
        Between 1 and n; n if all values are equal.
    """
    mean = sums[0] / n
    second = sums[1] - n * mean**2
    # Central moments from power sums, so that the contributions of rows need not be kept.
    fourth = sums[3] - 4 * mean * sums[2] + 6 * mean**2 * sums[1] - 3 * n * mean**4
    # As in `spread`: smaller deviations are rounding.
    varies = second > 1e-20 * sums[1]
    kurtosis = np.divide(n * fourth, second**2, out=np.ones_like(mean), where=varies)
    # 1 + excess kurtosis = kurtosis - 2. Lighter tails than normal do not make more rows of them.
    number: NDArray[np.float64] = n / np.clip(kurtosis - 2, 1.0, n)
    return number


def effective_rows(rows: Rows, by_block: bool = True) -> float:
    """Return the effective number of held-out rows (of blocks, if `by_block`): the minimum over response columns.

    The values are deviations from the mean, times the weight of the row, summed by block. They depend only on the
    response and the weights, not on X. So a test chosen by this number is the same for permuted responses.
    """
    used = rows.weight > 0
    weight = rows.weight[used] / rows.weight.max()
    block = (
        np.arange(used.sum())
        if rows.blocks is None or not by_block
        else np.unique(rows.blocks[used], return_inverse=True)[1]
    )
    numbers = []
    for column in _columns(rows, used):
        value = np.bincount(block, weights=weight * (column - np.average(column, weights=weight)))
        # The number has no unit; fourth powers of large responses would overflow.
        value = value / max(np.abs(value).max(), np.finfo(float).tiny)
        sums = np.array([(value**power).sum() for power in range(1, POWERS + 1)])
        numbers.append(effective_number(sums[:, None], value.size)[0])
    return float(min(numbers, default=0.0))


def is_constant(rows: Rows) -> bool:
    """Whether all rows that are evaluated have the same response."""
    paths = rows.paths
    evaluated = paths.evaluated
    used = paths.order[np.any(evaluated, axis=0)]
    codes, target, values = rows.response.codes, rows.response.target, rows.response.values
    if rows.ensemble.objective.compares_rows:
        target = None  # rows with different y may have the same gradient
    response = codes if codes is not None else target if target is not None else values
    assert response is not None
    return bool((response[used] == response[used[0]]).all())


def _columns(rows: Rows, used: NDArray[np.bool_]) -> Iterator[NDArray[np.float64]]:
    """Yield the columns of the response that are not constant."""
    if rows.response.values is not None:
        yield from (column for column in rows.response.values[used].T if np.ptp(column) > 0)
        return
    assert rows.response.codes is not None
    codes = rows.response.codes[used]
    present = np.unique(codes)
    # Of two classes one column says what the other says.
    yield from ((codes == code).astype(np.float64) for code in present[present.size == 2 :])
