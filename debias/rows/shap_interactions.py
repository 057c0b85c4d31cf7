"""SHAP interactions of pairs over evaluation rows: their size, and how they go with the response on unseen rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from debias.errors import RowsError
from debias.parallel import allowed
from debias.results.vocabulary import RowsKind
from debias.rows.interactions import pairs_on_paths
from debias.trees.shapley_interactions import shapley_interactions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from debias.rows.rows import Rows

VALUES_AT_ONCE = 2**22
"""At most about this many interactions are held in memory, but at least those of `FEWEST_ROWS` rows."""
FEWEST_ROWS = 256


class ShapInteractions(NamedTuple):
    """SHAP interactions of pairs of features that are on one path of a tree. All others are 0, exactly.

    Parameters
    ----------
    pairs : array of int64 of shape (n_pairs, 2)
        Positions of the features.
    size : array of shape (n_pairs,)
        Mean over the rows of the absolute interaction, summed over outputs.
    covariance : array of shape (n_pairs,) or None
        Covariance of the interaction and the response on rows that the trees have not seen; None on training rows.
    """

    pairs: NDArray[np.int64]
    size: NDArray[np.float64]
    covariance: NDArray[np.float64] | None


def shap_interactions(rows: Rows, group: NDArray[np.int64], n_groups: int) -> ShapInteractions:
    """Return the SHAP interactions of all pairs of groups over evaluation rows.

    The interaction of two groups on a row is the sum over the columns of the one and of the other.

    Parameters
    ----------
    rows : Rows
    group : array of int64 of shape (n_features,)
        Group of each column.
    n_groups : int

    Raises
    ------
    RowsError
        No row is out of bag.
    """
    pairs = np.argwhere(np.triu(pairs_on_paths(rows.ensemble, group, n_groups)))
    of_groups = np.full((n_groups, n_groups), -1, dtype=np.int32)
    of_groups[pairs[:, 0], pairs[:, 1]] = of_groups[pairs[:, 1], pairs[:, 0]] = np.arange(len(pairs))
    number = np.ascontiguousarray(of_groups[np.ix_(group, group)])
    response = rows.response.values
    if response is None:
        assert rows.response.codes is not None
        response = np.eye(rows.ensemble.n_outputs)[rows.response.codes]
    size, product = np.zeros(len(pairs)), np.zeros(len(pairs))
    centred = rows.weight[:, None] * (response - np.average(response, axis=0, weights=rows.weight))
    two_classes = rows.ensemble.is_classifier and rows.ensemble.n_outputs == 2
    for block, phi in _blocks(rows, number, len(pairs), np.arange(rows.n_rows)):
        explained = phi[:, :, 1:] if two_classes else phi  # as in the scorer `shap`
        size += rows.weight[block] @ np.abs(explained).sum(axis=2)
        product += np.einsum("io,ipo->p", centred[block], phi)
    total = rows.weight.sum()
    if rows.kind == RowsKind.TRAIN:
        return ShapInteractions(pairs, size / total, None)
    covariance = product / total if rows.in_bag is None else _out_of_bag(rows, number, len(pairs), response)
    return ShapInteractions(pairs, size / total, covariance)


def _out_of_bag(
    rows: Rows, number: NDArray[np.int32], n_pairs: int, response: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the covariance over the out-of-bag rows of each tree, the mean over trees, as `shap_oob` does."""
    ensemble, in_bag = rows.ensemble, rows.in_bag
    assert in_bag is not None

    def covariance(tree: int) -> NDArray[np.float64] | None:
        at = in_bag.out_of_bag(tree)
        weight = rows.weight[at]
        if not weight.sum() > 0:
            return None
        centred = np.zeros_like(response)
        centred[at] = weight[:, None] * (response[at] - np.average(response[at], axis=0, weights=weight))
        product = np.zeros(n_pairs)
        for block, phi in _blocks(rows, number, n_pairs, at, tree):
            product += np.einsum("io,ipo->p", centred[block], phi)
        return product / weight.sum()

    with allowed(rows.n_jobs) as threads:
        of_trees = threads.map(covariance, range(ensemble.n_trees), "trees")
    scored = [of_tree for of_tree in of_trees if of_tree is not None]
    if not scored:
        raise RowsError(
            "no row is out of bag in any tree, so there is nothing to evaluate on. Pass rows the model has not seen, "
            "with rows='held-out'"
        )
    total: NDArray[np.float64] = np.sum(scored, axis=0)
    return total / len(scored) if ensemble.averaged else total


def _blocks(
    rows: Rows, number: NDArray[np.int32], n_pairs: int, at: NDArray[np.int64], tree: int | None = None
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Yield blocks of rows, and their interactions under one tree or all."""
    X = rows.table.matrix(rows.ensemble)
    step = max(FEWEST_ROWS, VALUES_AT_ONCE // max(1, n_pairs * rows.ensemble.n_outputs))
    n_jobs, trees = (rows.n_jobs, None) if tree is None else (1, [tree])
    for begin in range(0, at.size, step):
        block = at[begin : begin + step]
        yield block, shapley_interactions(rows.ensemble, X[block], number, n_pairs, n_jobs, trees)
