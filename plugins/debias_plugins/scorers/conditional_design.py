"""Columns of a model as plain numbers and curves, for regressions on all features but some."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.plugin import TreeEnsemble

MOST_LEVELS = 20
"""Categories that get an indicator of their own, the most frequent ones; the others share the value 0."""
MOST_CURVES = 5
"""Curves of a number beside the straight line: its square, and squares of its part above a knot."""
ROWS_OF_PRODUCT, MOST_PRODUCTS = 10, 100
"""There is at most one product of two columns for so many rows, and this many altogether."""


@dataclass(frozen=True, eq=False)
class Design:
    """Every column as numbers without gaps, and as curves and products of two columns.

    A number is itself, with the median where it is missing, and an indicator of missing values if there are any. A
    category is one indicator for each of its most frequent values, one of which may be "missing".

    Parameters
    ----------
    plain : array of float64 of shape (n_rows, n_plain)
        For trees; with mean 0 and standard deviation 1.
    feature : array of int64 of shape (n_plain,)
        The feature of each plain column.
    curves : array of float64 of shape (n_rows, n_curves)
        For a linear regression, beside the plain columns.
    feature_of_curve : array of int64 of shape (n_curves, 2)
        The two features of a product; twice the same feature for a curve.
    """

    plain: NDArray[np.float64]
    feature: NDArray[np.int64]
    curves: NDArray[np.float64]
    feature_of_curve: NDArray[np.int64]

    @classmethod
    def of(cls, X: NDArray[np.float64], categorical: NDArray[np.bool_], use: NDArray[np.int64] | None = None) -> Design:
        """Encode columns.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
        categorical : array of bool of shape (n_features,)
            Which columns hold codes of categories.
        use : array of shape (n_features,), optional
            Products are made of the features with the largest of these numbers; by default there are none.
        """
        parts = [encoded(X[:, k], bool(categorical[k])) for k in range(X.shape[1])]
        # Plain columns and curves together are fewer than half the rows.
        n_curves = min(MOST_CURVES, int(len(X) / (2 * max(1, X.shape[1]))) - 1)
        bent = [curves(part[:, 0], n_curves) if part.shape[1] else part for part in parts]
        plain, owner = _side_by_side(parts, len(X)), _owner(parts)
        plain = standardised(plain)
        most = min(len(X) // ROWS_OF_PRODUCT, MOST_PRODUCTS)
        pairs = np.empty((0, 2), dtype=np.int64) if use is None else _pairs(owner, use, most)
        products = plain[:, pairs[:, 0]] * plain[:, pairs[:, 1]]
        owners = np.vstack([np.column_stack([_owner(bent)] * 2), owner[pairs]])
        return cls(plain, owner, np.column_stack([_side_by_side(bent, len(X)), products]), owners)

    def without(self, features: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the plain columns and the curves of all features but these."""
        return (
            self.plain[:, ~np.isin(self.feature, features)],
            self.curves[:, ~np.isin(self.feature_of_curve, features).any(axis=1)],
        )


def encoded(values: NDArray[np.float64], categorical: bool) -> NDArray[np.float64]:
    """Return one column as numbers without gaps, shape (n_rows, n_encoded); a constant column has none."""
    missing = np.isnan(values)
    if categorical:
        codes, count = np.unique(np.where(missing, -1.0, values), return_counts=True)
        frequent = np.sort(codes[np.argsort(-count, kind="stable")][:MOST_LEVELS])
        indicators = (np.where(missing, -1.0, values)[:, None] == frequent).astype(np.float64)
        return indicators[:, :0] if codes.size == 1 else indicators
    if missing.all():
        return np.empty((values.size, 0))
    filled = np.where(missing, np.median(values[~missing]), values)
    columns = np.column_stack([filled, missing]) if missing.any() else filled[:, None]
    return columns[:, np.ptp(columns, axis=0) > 0]


def standardised(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return columns with mean 0 and standard deviation 1, so that trees, which round to float32, see their digits."""
    spread = columns.std(axis=0)
    return np.asarray((columns - columns.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


def curves(values: NDArray[np.float64], n_curves: int) -> NDArray[np.float64]:
    """Return a quadratic spline of a column without its straight line, shape (n_rows, at most n_curves)."""
    distinct = np.unique(values)
    if n_curves < 1 or distinct.size < 3:
        return np.empty((values.size, 0))
    z = (values - values.mean()) / values.std()
    knots = np.unique(np.quantile(z, np.arange(1, n_curves) / n_curves))[: distinct.size - 3]
    bent: NDArray[np.float64] = np.column_stack([z**2, np.maximum(z[:, None] - knots, 0.0) ** 2])
    return bent


def categorical_features(ensemble: TreeEnsemble) -> NDArray[np.bool_]:
    """Return which features are categories to the model: they have labels, or a split on a set of categories."""
    found = np.zeros(ensemble.n_features, dtype=bool)
    found[list(ensemble.category_labels or {})] = True
    if ensemble.category_set is not None:
        found[ensemble.feature[ensemble.splits[ensemble.category_set[ensemble.splits] >= 0]]] = True
    return found


def _pairs(owner: NDArray[np.int64], use: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Return pairs of columns of different features, the most used features first, at most about `most` of them."""
    pairs: list[tuple[int, int]] = []
    taken: list[int] = []
    for feature in np.argsort(-use, kind="stable"):
        own = np.flatnonzero(owner == feature).tolist()
        new = [(other, column) for other in taken for column in own]
        if not use[feature] > 0 or len(pairs) + len(new) > most:
            break
        pairs += new
        taken += own
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _side_by_side(parts: list[NDArray[np.float64]], n: int) -> NDArray[np.float64]:
    return np.column_stack([np.empty((n, 0)), *parts])


def _owner(parts: list[NDArray[np.float64]]) -> NDArray[np.int64]:
    return np.repeat(np.arange(len(parts)), [part.shape[1] for part in parts])
