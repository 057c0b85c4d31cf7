"""Columns of a model as plain numbers, levels and curves, for regressions on all features but some."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from debias.plugin import apart_from_far

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.plugin import TreeEnsemble

    Array = NDArray[np.float64]
    Owners = NDArray[np.int64]

FEWEST_LEVELS, MOST_LEVELS = 20, 100
"""Values of a column that get an indicator of their own, the most frequent ones; the others share the value 0. There
are more of them if few columns have any."""
ROWS_OF_LEVEL = 6
"""A number with at most one value for so many rows may be a code: each value gets an indicator."""
MOST_CURVES = 5
"""Curves of a number beside the straight line: its square, and squares of its part above a knot."""
ROWS_OF_PRODUCT, MOST_PRODUCTS = 10, 100
"""There is at most one product of two columns for so many rows, and this many altogether."""
MOST_OBLIQUE = 6
"""Curves of sums and differences are made of so many numbers, those that the model splits on most."""


@dataclass(frozen=True, eq=False)
class Design:
    """Every column as numbers without gaps, and as levels, curves and products of two columns.

    A number is itself, with the median where it is missing or far from all others, and indicators of such values. A
    category is one indicator for each of its most frequent values, one of which may be "missing".

    Parameters
    ----------
    plain : array of float64 of shape (n_rows, n_plain)
        For trees; with mean 0 and standard deviation 1.
    feature : array of int64 of shape (n_plain,)
        The feature of each plain column.
    number : array of bool of shape (n_plain,)
        Which plain columns are not indicators of a category.
    level : array of int64 of shape (n_rows, n_levelled)
        Codes of the categories, and of numbers with few values.
    feature_of_level : array of int64 of shape (n_levelled,)
    curves : array of float64 of shape (n_rows, n_curves)
        For a linear regression, beside the plain columns: curves of one feature, and indicators of its values.
    feature_of_curve : array of int64 of shape (n_curves,)
    pairs : array of float64 of shape (n_rows, n_pairs)
        Products of two columns, and curves of their sum and difference.
    features_of_pair : array of int64 of shape (n_pairs, 2)
    use : array of int64 of shape (n_features,)
        How often the model splits on each feature.
    """

    plain: Array
    feature: Owners
    number: NDArray[np.bool_]
    level: NDArray[np.int64]
    feature_of_level: Owners
    curves: Array
    feature_of_curve: Owners
    pairs: Array
    features_of_pair: Owners
    use: Owners

    @classmethod
    def of(cls, X: Array, categorical: NDArray[np.bool_], use: NDArray[np.int64]) -> Design:
        """Encode columns.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
        categorical : array of bool of shape (n_features,)
            Which columns hold codes of categories.
        use : array of shape (n_features,)
            Pairs are made of the features with the largest of these numbers above 0.
        """
        n = len(X)
        few = ~categorical & np.array([2 < np.unique(column).size <= n / ROWS_OF_LEVEL for column in X.T], dtype=bool)
        levelled = np.flatnonzero(few | categorical)
        most = int(np.clip(n // (2 * max(1, levelled.size)), FEWEST_LEVELS, MOST_LEVELS))
        parts = [encoded(X[:, k], bool(categorical[k]), most) for k in range(X.shape[1])]
        plain, owner = standardised(_side_by_side(parts, n)), _owner(parts)
        # Plain columns and curves together are fewer than half the rows.
        n_curves = min(MOST_CURVES, int(n / (2 * max(1, X.shape[1]))) - 1)
        bent = [curves(part[:, 0], n_curves) if part.shape[1] else part for part in parts]
        codes = [np.unique(X[:, k], return_inverse=True)[1].reshape(n) for k in levelled]
        of_codes = _indicators(X, few, use, most)
        products = _pairs(owner, use, min(n // ROWS_OF_PRODUCT, MOST_PRODUCTS))
        first = np.searchsorted(owner, np.arange(X.shape[1]))
        numbers = [
            k for k in np.argsort(-use, kind="stable") if use[k] > 0 and not categorical[k] and (owner == k).any()
        ]
        oblique = [(first[a], first[b]) for i, b in enumerate(numbers[:MOST_OBLIQUE]) for a in numbers[:i]]
        slanted = [curves(plain[:, a] + sign * plain[:, b], n_curves) for a, b in oblique for sign in (1.0, -1.0)]
        pairs = [plain[:, products[:, 0]] * plain[:, products[:, 1]], *slanted]
        columns_of_slanted = np.repeat(np.array(oblique, dtype=np.int64).reshape(-1, 2), 2, axis=0)
        columns_of_slanted = np.repeat(columns_of_slanted, [part.shape[1] for part in slanted], axis=0)
        return cls(
            plain,
            owner,
            ~categorical[owner],
            np.column_stack([np.empty((n, 0), dtype=np.int64), *codes]),
            levelled,
            _side_by_side([*bent, *of_codes], n),
            np.concatenate([_owner(bent), _owner(of_codes)]),
            _side_by_side(pairs, n),
            owner[np.vstack([products, columns_of_slanted])],
            use,
        )

    def without(self, features: NDArray[np.int64]) -> Design:
        """Return the columns of all features but these."""
        plain = ~np.isin(self.feature, features)
        level = ~np.isin(self.feature_of_level, features)
        curve = ~np.isin(self.feature_of_curve, features)
        pair = ~np.isin(self.features_of_pair, features).any(axis=1)
        return Design(
            self.plain[:, plain],
            self.feature[plain],
            self.number[plain],
            self.level[:, level],
            self.feature_of_level[level],
            self.curves[:, curve],
            self.feature_of_curve[curve],
            self.pairs[:, pair],
            self.features_of_pair[pair],
            self.use,
        )

    @property
    def single(self) -> Array:
        """Columns and curves of one feature each."""
        return np.column_stack([self.plain, self.curves])


def encoded(values: Array, categorical: bool, most: int = MOST_LEVELS) -> Array:
    """Return one column as numbers without gaps, shape (n_rows, n_encoded); a constant column has none.

    A category has indicators of at most so many values, by default of 100.
    """
    missing = np.isnan(values)
    if categorical:
        codes, count = np.unique(np.where(missing, -1.0, values), return_counts=True)
        frequent = np.sort(codes[np.argsort(-count, kind="stable")][:most])
        indicators = (np.where(missing, -1.0, values)[:, None] == frequent).astype(np.float64)
        return indicators[:, :0] if codes.size == 1 else indicators
    if missing.all():
        return np.empty((values.size, 0))
    near, far = apart_from_far(np.where(missing, np.median(values[~missing]), values).astype(np.float64))
    columns = np.column_stack([near, missing, far] if missing.any() else [near, far])
    return columns[:, np.ptp(columns, axis=0) > 0]


def standardised(columns: Array) -> Array:
    """Return columns with mean 0 and standard deviation 1, so that trees, which round to float32, see their digits."""
    spread = columns.std(axis=0)
    return np.asarray((columns - columns.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


def curves(values: Array, n_curves: int) -> Array:
    """Return a quadratic spline of a column without its straight line, shape (n_rows, at most n_curves)."""
    distinct = np.unique(values)
    if n_curves < 1 or distinct.size < 3:
        return np.empty((values.size, 0))
    z = (values - values.mean()) / values.std()
    knots = np.unique(np.quantile(z, np.arange(1, n_curves) / n_curves))[: distinct.size - 3]
    bent: Array = np.column_stack([z**2, np.maximum(z[:, None] - knots, 0.0) ** 2])
    return bent


def categorical_features(ensemble: TreeEnsemble) -> NDArray[np.bool_]:
    """Return which features are categories to the model: they have labels, or a split on a set of categories."""
    found = np.zeros(ensemble.n_features, dtype=bool)
    found[list(ensemble.category_labels or {})] = True
    if ensemble.category_set is not None:
        found[ensemble.feature[ensemble.splits[ensemble.category_set[ensemble.splits] >= 0]]] = True
    return found


def _indicators(X: Array, few: NDArray[np.bool_], use: NDArray[np.int64], most: int) -> list[Array]:
    """Return indicators of the values of columns with few values, the most used ones, fewer than half the rows."""
    parts = [np.empty((len(X), 0)) for _ in few]
    for k in np.argsort(-use, kind="stable"):
        if few[k]:
            part = encoded(X[:, k], True, most)
            if sum(of.shape[1] for of in parts) + part.shape[1] > len(X) / 2:
                break
            parts[k] = part
    return parts


def _pairs(owner: Owners, use: NDArray[np.int64], most: int) -> Owners:
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


def _side_by_side(parts: list[Array], n: int) -> Array:
    return np.column_stack([np.empty((n, 0)), *parts])


def _owner(parts: list[Array]) -> Owners:
    return np.repeat(np.arange(len(parts)), [part.shape[1] for part in parts])
