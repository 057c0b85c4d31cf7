"""Binned: the bins of every feature, computed from training rows, for scorers that fit at every node."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import RowsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from debias.trees.ensemble import TreeEnsemble

CELLS_A_BLOCK = 2**16
"""Columns are sorted together that have about this many values together: they stay in the caches."""
MOST_BINS = 2**16 - 2
"""Bins are stored as uint16; one more number is for missing values."""


class Binned:
    """The bins of every feature.

    A feature with at most `bins` distinct values has one bin per value; others have bins with about equally many rows.
    Features that the model splits as categories have one bin per level.

    Parameters
    ----------
    ensemble : TreeEnsemble
    X : array of shape (n_rows, n_features)
        Training rows.
    bins : int

    Attributes
    ----------
    categorical : array of bool of shape (n_features,)
    n_bins : array of int64 of shape (n_features,)
        That number itself is the bin of missing values and of unknown levels.
    train : array of uint16 of shape (n_features, n_rows)
        Bins of the training rows.

    Raises
    ------
    RowsError
        A column has more categories than can be handled.
    """

    def __init__(self, ensemble: TreeEnsemble, X: NDArray[np.floating[Any]], bins: int) -> None:
        self.categorical = np.zeros(ensemble.n_features, dtype=bool)
        self.categorical[list(ensemble.category_labels or {})] = True
        if ensemble.category_set is not None:
            self.categorical[ensemble.feature[ensemble.category_set >= 0]] = True
        self.edges: list[NDArray[np.float64]] = []
        for names, x in zip(*_blocks(ensemble.feature_names, X), strict=True):
            ordered, n_known = np.sort(x, axis=1), x.shape[1] - np.isnan(x).sum(axis=1)  # NaN comes last
            is_first = _is_first(ordered)
            quantiles = ordered[:, _places_of_edges(x.shape[1], bins)]
            fine = is_first.all(axis=1) & (n_known == x.shape[1]) & (x.shape[1] > bins)  # quantiles differ, too
            for k, name in enumerate(names):
                if fine[k] and not self.categorical[len(self.edges)]:
                    self.edges.append(quantiles[k])
                else:
                    self.edges.append(self._edges(name, ordered[k, : n_known[k]], is_first[k, : n_known[k]], bins))
        self.n_bins = np.array(
            [edges.size + (not levels) for edges, levels in zip(self.edges, self.categorical, strict=True)]
        )
        self.train = self.of(X)

    def _edges(
        self, name: str, values: NDArray[np.float64], is_first: NDArray[np.bool_], bins: int
    ) -> NDArray[np.float64]:
        """Return the edges between the bins of the next feature, or its levels, from its values in order."""
        distinct = values[is_first]
        if self.categorical[len(self.edges)]:
            if distinct.size > MOST_BINS:
                raise RowsError(f"column {name!r} has {distinct.size} categories; at most {MOST_BINS} are handled")
            return distinct
        if distinct.size <= bins:
            return (distinct[:-1] + distinct[1:]) / 2
        # Quantiles of the rows; a value that would fill several bins gives one edge.
        quantiles = values[_places_of_edges(values.size, bins)]
        return quantiles[_is_first(quantiles)]

    def of(self, X: NDArray[np.floating[Any]]) -> NDArray[np.uint16]:
        """Return the bin of every value, shape (n_features, n_rows).

        The last bin is for missing values and unknown levels.
        """
        from debias.rows.kernels import binned as kernels

        codes = np.empty(X.shape[::-1], dtype=np.uint16)
        for features, x in zip(*_blocks(range(X.shape[1]), X), strict=True):
            of_block = codes[features[0] : features[-1] + 1]
            edges = [self.edges[k] for k in features]
            start = np.cumsum([0, *map(len, edges)], dtype=np.int64)
            kernels.write_bins(x, np.concatenate(edges), start, of_block)
            for k in np.flatnonzero(self.categorical[features[0] : features[-1] + 1]):
                unknown = of_block[k] == edges[k].size
                unknown[~unknown] = edges[k][of_block[k][~unknown]] != x[k][~unknown]
                of_block[k][unknown] = self.n_bins[features[int(k)]]
            missing = np.isnan(x)
            if missing.any():
                of_block[...] = np.where(missing, self.n_bins[features[0] : features[-1] + 1, None], of_block)
        return codes

    @cached_property
    def lines(self) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """The feature of every line, and its value for every bin, (n_lines, n_codes); NaN: left out.

        Numbers have a line in their ranks, and a second one that tells whether they are missing, if some are.
        """
        numbers = np.flatnonzero(~self.categorical)
        has_missing = (self.train[numbers] == self.n_bins[numbers, None]).any(axis=1)
        feature_of_line = np.repeat(numbers, 1 + has_missing)
        tells_missing = np.r_[False, feature_of_line[1:] == feature_of_line[:-1]][: feature_of_line.size]
        codes, code_of_missing = np.arange(int(self.n_bins.max()) + 1), self.n_bins[feature_of_line, None]
        of_missing = np.where(codes <= code_of_missing, codes == code_of_missing, np.nan)
        value_of_code = np.empty(of_missing.shape)
        value_of_code[~tells_missing], value_of_code[tells_missing] = self._ranks(numbers), of_missing[tells_missing]
        return feature_of_line.astype(np.int32), value_of_code

    def _ranks(self, features: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the middle rank of every bin among the training rows, from -1/2 to 1/2; NaN where there is no bin."""
        n_codes = int(self.n_bins.max()) + 1
        is_bin = np.arange(n_codes) < self.n_bins[features, None]
        size = np.zeros(is_bin.shape, dtype=np.int64)
        for feature, of_bins in zip(features, size, strict=True):
            of_bins[:] = np.bincount(self.train[feature], minlength=n_codes)
        size *= is_bin
        ranks = (np.cumsum(size, axis=1) - size / 2) / np.maximum(size.sum(axis=1), 1)[:, None] - 0.5
        return np.where(is_bin, ranks, np.nan)


def _blocks(
    names: Sequence[Any], X: NDArray[np.floating[Any]]
) -> tuple[list[Sequence[Any]], Iterator[NDArray[np.float64]]]:
    """Divide the columns of X into blocks: their names, and their values (n_columns, n_rows), which are made as needed.

    Thousands of short columns take less time together.
    """
    width = max(1, CELLS_A_BLOCK // max(len(X), 1))
    begins = range(0, X.shape[1], width)
    columns = (np.ascontiguousarray(X[:, begin : begin + width].T, dtype=np.float64) for begin in begins)
    return [names[begin : begin + width] for begin in begins], columns


def _places_of_edges(n_rows: int, bins: int) -> NDArray[np.int64]:
    """Return the places of the edges between bins with about equally many rows, among sorted values."""
    return np.maximum(np.arange(1, bins) * n_rows // bins - 1, 0)


def _is_first(ordered: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which sorted numbers, along the last axis, are not equal to the one before."""
    is_first = np.ones(ordered.shape, dtype=bool)
    is_first[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    return is_first
