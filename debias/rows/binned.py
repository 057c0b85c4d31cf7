"""Binned: the bins of every feature, computed from training rows, for scorers that fit at every node."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import RowsError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.trees.ensemble import TreeEnsemble

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
        self.edges = []
        for name, x, levels in zip(ensemble.feature_names, X.T, self.categorical, strict=True):
            values = np.sort(x[~np.isnan(x)]).astype(np.float64)
            distinct = _distinct(values)
            if levels:
                if distinct.size > MOST_BINS:
                    raise RowsError(f"column {name!r} has {distinct.size} categories; at most {MOST_BINS} are handled")
                self.edges.append(distinct)
            elif distinct.size <= bins:
                self.edges.append((distinct[:-1] + distinct[1:]) / 2)
            else:
                # Quantiles of the rows; a value that would fill several bins gives one edge.
                self.edges.append(_distinct(values[np.arange(1, bins) * values.size // bins - 1]))
        self.n_bins = np.array(
            [edges.size + (not levels) for edges, levels in zip(self.edges, self.categorical, strict=True)]
        )
        self.train = self.of(X)

    def of(self, X: NDArray[np.floating[Any]]) -> NDArray[np.uint16]:
        """Return the bin of every value, shape (n_features, n_rows).

        The last bin is for missing values and unknown levels.
        """
        codes = np.empty(X.shape[::-1], dtype=np.uint16)
        for k, edges in enumerate(self.edges):
            code = np.searchsorted(edges, X[:, k].astype(np.float64), side="left")
            other = np.isnan(X[:, k])
            if self.categorical[k]:
                inside = code < edges.size
                other |= ~inside
                other[inside] |= edges[code[inside]] != X[inside, k]
            codes[k] = np.where(other, self.n_bins[k], code)
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


def _distinct(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the distinct numbers among sorted ones."""
    is_first = np.ones(values.size, dtype=bool)
    is_first[1:] = values[1:] != values[:-1]
    return values[is_first]
