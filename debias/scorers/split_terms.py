"""Terms of splits, computed by compiled loops in threads, and their sums by feature."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.parallel import over_parts

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from debias.trees.ensemble import TreeEnsemble

    Array = NDArray[np.float64]

SPLITS_PER_THREAD = 10_000
"""A thread is worth its cost for at least this many splits."""


def terms_of_splits(ensemble: TreeEnsemble, kernel: Callable[..., None], *node_arrays: Any) -> Array:
    """Return the term of each split, shape (n_splits,), as a loop of :mod:`debias.scorers.kernels.node` computes it."""
    splits, children, _ = ensemble.links
    terms = np.empty(splits.size)

    def part(of: slice) -> None:
        kernel(splits[of], children[of], *node_arrays, terms[of])

    over_parts(splits.size, part, at_least=SPLITS_PER_THREAD)
    return terms


def sum_by_feature(ensemble: TreeEnsemble, terms: Array, tree_scale: Array) -> Array:
    """Return the sum of the terms of the splits on each feature, each multiplied by the scale of its tree."""
    from debias.scorers.kernels import node as kernels

    score = np.zeros(ensemble.n_features)
    splits, _, tree_of_split = ensemble.links
    kernels.sum_by_feature(splits, tree_of_split, ensemble.feature, terms, tree_scale, score)
    return score
