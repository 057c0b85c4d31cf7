"""Bins of an ensemble of small trees: what routes many rows at once (see debias.trees.kernels.bins)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.parallel import over_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.trees.ensemble import TreeEnsemble

LEAVES_AT_MOST = 256
CUTS_AT_MOST = 255
"""A value lies in one of 256 bins then; those of the last go right at every split."""


@dataclass(frozen=True, eq=False)
class Bins:
    """Thresholds of every feature, and the trees in terms of them.

    Parameters
    ----------
    cuts : array of float
        The distinct thresholds of each feature, ascending, in the precision of the rows.
    cut_start : array of int64 of shape (n_features + 1,)
        Where those of each feature begin.
    steps : tuple
        The trees as the compiled loops take them.
    """

    cuts: NDArray[np.floating[Any]]
    cut_start: NDArray[np.int64]
    steps: tuple[Any, ...]

    @property
    def n_features(self) -> int:
        """Number of features that are split on."""
        return int(np.count_nonzero(np.diff(self.cut_start)))

    @classmethod
    def of(cls, ensemble: TreeEnsemble) -> Bins | None:
        """Return the bins of an ensemble; None if a byte does not number its leaves or cuts, or not all splits cut."""
        from debias.trees.kernels import bins as bin_kernels

        by_cuts_alone = ensemble.category_set is None and ensemble.zero_is_missing is None
        if not by_cuts_alone or np.diff(ensemble.tree_start).max() >= 2 * LEAVES_AT_MOST:
            return None
        splits = ensemble.splits
        feature, threshold = ensemble.feature[splits], ensemble.routing_threshold[splits]
        order = np.lexsort((threshold, feature))
        new = np.zeros(splits.size, dtype=bool)
        new[:1] = True
        for key in (feature[order], threshold[order]):
            new[1:] |= key[1:] != key[:-1]
        first = order[new]
        cut_start = np.searchsorted(feature[first], np.arange(ensemble.n_features + 1))
        if np.diff(cut_start).max(initial=0) > CUTS_AT_MOST:
            return None
        code = np.zeros(ensemble.n_nodes, dtype=np.int64)
        code[splits[order]] = np.cumsum(new) - 1 - cut_start[feature[order]]
        steps = np.empty((splits.size, 5), dtype=np.int32)
        step_start, leaf_start = np.zeros((2, ensemble.n_trees + 1), dtype=np.int64)
        leaf = np.empty(ensemble.n_nodes - splits.size, dtype=np.int32)
        n_places = bin_kernels.compile_trees(
            ensemble.tree_start,
            ensemble.left,
            ensemble.right,
            ensemble.feature,
            code,
            ensemble.missing_left,
            ensemble.n_features,
            steps,
            step_start,
            leaf,
            leaf_start,
        )
        return cls(threshold[first], cut_start, (steps, step_start, n_places, leaf, leaf_start))

    def encode(self, X: NDArray[np.floating[Any]], n_jobs: int | None = None) -> NDArray[np.uint8]:
        """Return the bins of rows (n_rows, n_features): an array of shape (2 * n_features, n_rows)."""
        from debias.trees.kernels import bins as bin_kernels

        codes = np.empty((2 * X.shape[1], X.shape[0]), dtype=np.uint8)
        used = np.flatnonzero(np.diff(self.cut_start))
        over_parts(used.size, lambda of: bin_kernels.encode(X, self.cuts, self.cut_start, used[of], codes), n_jobs)
        return codes

    def leaves(self, X: NDArray[np.floating[Any]]) -> NDArray[np.int32]:
        """Return the leaf of each row in each tree, shape (n_rows, n_trees)."""
        from debias.trees.kernels import bins as bin_kernels

        n_trees = self.steps[1].size - 1
        leaves = np.empty((n_trees, len(X)), dtype=np.int32)
        bin_kernels.route(self.encode(X, 1), np.arange(n_trees), *self.steps, leaves)
        return leaves.T
