"""Sums of Shapley values times factors from a few trees a row, for forests whose trees have thousands of leaves.

The Shapley values of one row under one tree take time in proportion to its leaves, and a prediction only in proportion
to its depth. So where trees are large, the sums over rows are estimated: the rows are divided into blocks, and those of
a block go through a few trees only, drawn anew for each block. The mean over all draws is the sum over all trees.

The trees of a block and the whole forest predict differently, so the parts of features would not add up. What is
missing is known exactly, because Shapley values add up to the prediction less the mean. It is given to the features in
proportion to the variances of their sums among trees of a block: a feature on which the trees agree gets none of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from debias.trees.shapley import shapley_sums, shapley_sums_of_trees

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.trees.ensemble import TreeEnsemble

    Array = NDArray[np.float64]

LEAVES_OF_A_TREE = 256
"""A row goes through so many trees that they have as many leaves together as all trees would have if each had these."""
FEWEST_TREES = 2
"""At least two trees tell on which features trees disagree."""
ROWS_OF_A_BLOCK = 500
"""Rows of a block, or more if there are more than `MOST_BLOCKS`: the kernel works through a tree once for a block."""
MOST_BLOCKS = 8


def trees_a_row(ensemble: TreeEnsemble) -> int:
    """Return through how many trees a row goes: all of boosted models, and of forests without large trees.

    Parameters
    ----------
    ensemble : TreeEnsemble
    """
    n_trees = ensemble.n_trees
    if not ensemble.averaged:
        return n_trees
    return min(n_trees, max(FEWEST_TREES, round(n_trees * LEAVES_OF_A_TREE / leaves_of_a_tree(ensemble))))


def leaves_of_a_tree(ensemble: TreeEnsemble) -> float:
    """Return how many leaves a tree has on average: one more than splits."""
    return (ensemble.n_nodes / ensemble.n_trees + 1) / 2


def sums_of_few_trees(
    ensemble: TreeEnsemble,
    X: NDArray[np.floating[Any]],
    factor: Array,
    output: Array,
    n_trees: int,
    n_jobs: int = 1,
) -> Array:
    """Estimate the result of :func:`debias.trees.shapley.shapley_sums` for an averaged ensemble.

    Parameters
    ----------
    ensemble : TreeEnsemble
    X : array of shape (n_rows, n_features)
        In random order, in the ensemble's routing dtype, missing values as NaN. The trees are drawn by a generator that
        starts from these values: the same rows get the same trees.
    factor : array of shape (2, n_rows, n_outputs)
    output : array of shape (n_rows, n_outputs)
        The raw output of each row minus the mean output: what its Shapley values add up to.
    n_trees : int
        Through how many trees each row goes, 2 or more.
    n_jobs : int
        Number of threads.

    Returns
    -------
    array of shape (2, n_features)
        The sum over features is exact. Features that no tree uses have 0.
    """
    rng = np.random.default_rng(crc32(np.ascontiguousarray(X).tobytes()))
    edges = np.linspace(0, len(X), min(MOST_BLOCKS, -(-len(X) // ROWS_OF_A_BLOCK)) + 1).astype(np.int64)
    # A tree comes again when all others have had their turn, so the trees of a block are different ones.
    drawn = np.resize(rng.permutation(ensemble.n_trees), (edges.size - 1, n_trees))
    sums, spread = np.zeros((2, 2, ensemble.n_features))
    for begin, end, trees in zip(edges[:-1], edges[1:], drawn, strict=True):
        of_trees = shapley_sums_of_trees(ensemble, trees, X[begin:end], factor[:, begin:end], n_jobs)
        sums += of_trees.mean(axis=0)
        spread += of_trees.var(axis=0)
    total = np.einsum("jic,ic->j", factor, output)
    rest, varied = total - sums.sum(axis=1), spread.sum(axis=1)
    if ((rest != 0) & (varied == 0)).any():  # equal trees do not tell where the rest belongs
        return shapley_sums(ensemble, X, factor, n_jobs)
    share = np.divide(rest, varied, out=np.zeros(2), where=varied > 0)
    return sums + spread * share[:, None]
