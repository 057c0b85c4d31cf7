"""Bins: the form of an ensemble of small trees that routes many rows at once (see debias.trees.kernels.bins)."""

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
"""With at most 255 cuts, a value lies in one of 256 bins. Values of the last bin go right at every split."""


@dataclass(frozen=True, eq=False)
class Bins:
    """The distinct thresholds (cuts) of every feature, and the trees expressed by them.

    Parameters
    ----------
    cuts : array of float
        The cuts of all features, one feature after another; ascending within a feature, in the precision of the rows.
    cut_start : array of int64 of shape (n_features + 1,)
        Position at which the cuts of each feature begin.
    steps : tuple
        The trees in the form that the compiled loops take.
    """

    cuts: NDArray[np.floating[Any]]
    cut_start: NDArray[np.int64]
    steps: tuple[NDArray[np.int32], NDArray[np.int64], int, NDArray[np.int32], NDArray[np.int64]]

    @property
    def n_features(self) -> int:
        """Number of features that are split on."""
        return int(np.count_nonzero(np.diff(self.cut_start)))

    @classmethod
    def of(cls, ensemble: TreeEnsemble) -> Bins | None:
        """Return the bins of an ensemble, or None if it has none.

        An ensemble has bins if one byte can number the leaves of each tree and the cuts of each feature, and if every
        split compares a value with a threshold only.
        """
        from debias.trees.kernels import bins as bin_kernels

        only_thresholds = ensemble.category_set is None and ensemble.zero_is_missing is None
        if not only_thresholds or np.diff(ensemble.tree_start).max() >= 2 * LEAVES_AT_MOST:
            return None
        splits = ensemble.splits
        feature, threshold = ensemble.feature[splits], ensemble.routing_threshold[splits]
        order = np.lexsort((threshold, feature))
        is_new_cut = np.zeros(splits.size, dtype=bool)
        is_new_cut[:1] = True
        for key in (feature[order], threshold[order]):
            is_new_cut[1:] |= key[1:] != key[:-1]
        first = order[is_new_cut]
        cut_start = np.searchsorted(feature[first], np.arange(ensemble.n_features + 1))
        if np.diff(cut_start).max(initial=0) > CUTS_AT_MOST:
            return None
        code = np.zeros(ensemble.n_nodes, dtype=np.int64)
        code[splits[order]] = np.cumsum(is_new_cut) - 1 - cut_start[feature[order]]
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
        """Return the bins of rows of shape (n_rows, n_features), as an array of shape (2 * n_features, n_rows)."""
        from debias.trees.kernels import bins as bin_kernels

        codes = np.empty((2 * X.shape[1], X.shape[0]), dtype=np.uint8)
        used = np.flatnonzero(np.diff(self.cut_start))
        over_parts(used.size, lambda part: bin_kernels.encode(X, self.cuts, self.cut_start, used[part], codes), n_jobs)
        return codes

    def leaves(self, X: NDArray[np.floating[Any]]) -> NDArray[np.int32]:
        """Return the leaf of each row in each tree, shape (n_rows, n_trees)."""
        from debias.trees.kernels import bins as bin_kernels

        n_trees = self.steps[1].size - 1
        leaves = np.empty((n_trees, len(X)), dtype=np.int32)
        bin_kernels.route(self.encode(X, 1), np.arange(n_trees), *self.steps, leaves)
        return leaves.T
