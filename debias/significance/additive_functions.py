"""The functions beside which interactions are tested: of single columns, products, and where values are missing.

The file is long because they share out the rows among them, so that none can be read without the others.
"""

from __future__ import annotations

from itertools import combinations, count
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.far_values import apart_from_far

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

FUNCTIONS_PER_ROW = 0.25
"""So many additive functions for each row, of all columns together. With half as many, curves of correlated columns
that the functions cannot follow were found as interactions."""
MOST_PER_COLUMN = 60
"""At most this many functions of a column, or an indicator of each value."""
ROWS_PER_VALUE = 4
"""A column with so many rows for each value may have an indicator of each."""
FEWEST_PER_COLUMN = 4
"""On average of the columns that vary, at least this many."""
LEAST_SIZE = 1e-3
"""Columns with which the model does less than this share of the most share functions that are left evenly."""
HINGES = 0.55
"""This part of the functions of a column are hinges, the others steps."""
ROWS_PER_FUNCTION_WITHIN = 10
"""So many rows for each product of functions of two columns of one group."""
FEW_VALUES = 12
"""In products, columns with at most this many values have an indicator of each, if there are enough rows."""
ROWS_PER_INDICATOR = 5
"""So many rows for each product of such indicators."""
LEAST_CORRELATED = 0.15
"""Where a value is missing, a column with at least this correlation works in its place."""
ROWS_PER_FUNCTION_OF_MISSING = 5
"""So many rows for each product of an indicator of missing values."""
ROWS_PER_PRODUCT = 20
"""So many rows for each product of functions of two features."""
LEAST_ALONG = 0.5
"""Two pairs are similar if the products of their features have at least this correlation."""
LEAST_ALONG_APART = 0.25
"""The same where the model uses the features of one of the pairs on no path together: it could not choose that pair."""
NEARLY_EQUAL = 0.95
"""The product of two features with at least this correlation is nearly the square of one, which is additive."""
MOST_SIMILAR = 3
"""So many similar pairs are named."""
MOST_KNOTS = {2: 7, 3: 2}
"""Of each feature in products of two and of three features; at least 1."""


def additive_functions(
    X: NDArray[np.floating[Any]], categorical: NDArray[np.bool_], size: Array | None = None
) -> Array:
    """Return additive functions of all columns, shape (n_rows, n_functions).

    A column of few values, or of categories, has an indicator of each frequent value. Others have themselves, hinges at
    normal quantiles, which are dense in the tails, and steps at even quantiles. Missing values, and those far from all
    others, have an indicator, and are the median in the other functions.

    Parameters
    ----------
    X : array of shape (n_rows, n_columns)
        Missing values are NaN.
    categorical : array of bool of shape (n_columns,)
    size : array of shape (n_columns,), optional
        Standard deviation of what the model does with each column. Those with more get more functions. None shares
        them out evenly.
    """
    n_rows, n_columns = X.shape
    most = _shared_out(
        int(FUNCTIONS_PER_ROW * n_rows),
        np.array([most_of(np.unique(X[:, j]).size, n_rows) for j in range(n_columns)]),
        np.ones(n_columns) if size is None else size,
    )
    return np.column_stack([functions_of(X[:, j], bool(categorical[j]), int(most[j])) for j in range(n_columns)])


def enough_rows(X: NDArray[np.floating[Any]], n_within: int, n_functions: int, most_per_row: float) -> int:
    """Return a number of rows for which there are not too many functions, if the columns are as in these rows.

    Parameters
    ----------
    X : array of shape (n_rows, n_columns)
        Fewer rows than that.
    n_within : int
        Number of functions of two columns of one feature on these rows.
    n_functions : int
        Number of all functions on these rows.
    most_per_row : float
    """
    n_rows, n_columns = X.shape
    is_full = n_within >= n_rows // ROWS_PER_FUNCTION_WITHIN > 0  # more rows make room for more of them

    def additive(n: int) -> int:
        return max(int(FUNCTIONS_PER_ROW * n) - n_columns, FEWEST_PER_COLUMN * n_columns)

    # Others, such as indicators of missing values, stay. On very few rows not all of them are seen.
    n_others = max(n_functions - additive(n_rows) - n_within, 2 * n_columns + int(np.isnan(X).any(axis=0).sum()))

    def fits(n: int) -> bool:
        within = n // ROWS_PER_FUNCTION_WITHIN if is_full else n_within
        return additive(n) + within + n_others <= most_per_row * n

    return next(n for n in count(n_rows + 1) if fits(n))


def most_of(n_values: int, n_rows: int) -> int:
    """Return the largest number of functions of a column that are not the constant; 0 if it does not vary.

    All missing values count as one.
    """
    return n_values - 1 if n_values * ROWS_PER_VALUE <= n_rows else min(n_values - 1, MOST_PER_COLUMN)


def functions_of(column: NDArray[np.floating[Any]], is_category: bool, most: int) -> Array:
    """Return functions of one column, as :func:`additive_functions`, shape (n_rows, n_functions).

    Parameters
    ----------
    column : array of shape (n_rows,)
        Missing values are NaN.
    is_category : bool
        Whether the values have no order.
    most : int
        At most so many beside those for missing and far values.
    """
    from scipy.special import ndtr, ndtri

    x = np.asarray(column, dtype=np.float64)
    missing = np.isnan(x)
    known = x[~missing]
    functions = [missing] if missing.any() else []
    if not known.size:
        return np.column_stack(functions)
    values, n_of_each = np.unique(known, return_counts=True)
    if is_category or values.size <= most + 1:
        frequent = values[np.argsort(-n_of_each, kind="stable")[: most + 1]]
        return np.column_stack([*functions, *(x == value for value in frequent)]).astype(np.float64)
    x, far = apart_from_far(np.where(missing, np.median(known), x))
    known = x[~missing]
    n_hinges = min(max(2, round(HINGES * most)), most - 1)
    n_steps, tail = max(0, most - n_hinges - 1), max(0.01, 5 / known.size)
    at = ndtr(np.linspace(ndtri(tail), ndtri(1 - tail), n_hinges))
    knots, edges = (np.unique(np.quantile(known, q)) for q in (at, np.arange(1, n_steps + 1) / (n_steps + 1)))
    parts = [*functions, x, *(np.maximum(x - knot, 0) for knot in knots), *(x > edge for edge in edges), far]
    return np.column_stack(parts).astype(np.float64)


def functions_within(
    X: NDArray[np.floating[Any]],
    categorical: NDArray[np.bool_],
    features: Sequence[NDArray[np.int64]],
    meets: NDArray[np.bool_],
) -> Array:
    """Return products of functions of two columns of one feature, shape (n_rows, n_functions).

    What the columns of a group do together is what one feature does alone.

    Parameters
    ----------
    X, categorical
        As for :func:`additive_functions`.
    features : sequence of arrays of int64
        The columns of each feature.
    meets : array of bool of shape (n_columns, n_columns)
        Which pairs of columns share a path of a tree. Of these, as many as there are rows for.
    """
    found, room = [np.empty((len(X), 0))], len(X) // ROWS_PER_FUNCTION_WITHIN
    for columns in features:
        for j, k in combinations(columns.tolist(), 2):
            if meets[j, k] and room > 0:
                of_pair = [_few_functions(X[:, c], bool(categorical[c]), 1) for c in (j, k)]
                found.append(_products_of(of_pair))
                room -= found[-1].shape[1]
    return np.column_stack(found)


class MissingValues:
    """What other columns do where a value is missing: a correlated column works in its place.

    So a response that is additive in the values is not additive in the columns.

    Parameters
    ----------
    X, categorical
        As for :func:`additive_functions`.
    scores : array of shape (n_rows, n_columns)
        One number for each value, 0 where it is missing, from :func:`feature_scores`.
    share : array of shape (n_rows,)
        Weights of the rows, 1 on average.
    """

    def __init__(
        self, X: NDArray[np.floating[Any]], categorical: NDArray[np.bool_], scores: Array, share: Array
    ) -> None:
        self._X, self._categorical, self._missing = X, categorical, np.isnan(X)
        self._places: list[tuple[int, int]] = []
        """Columns with missing values and those in their place; the most correlated and the most missing ones first."""
        if not self._missing.any():
            return
        known = ~self._missing
        self._number = _unit(scores, share)[0] * known
        squares = (share[:, None] * self._number**2).T @ known  # of column j where k is known
        scale = np.sqrt(squares * squares.T)
        sums = self._number.T @ (share[:, None] * self._number)
        size = np.abs(np.divide(sums, scale, out=np.zeros_like(sums), where=scale > 0))
        np.fill_diagonal(size, 0.0)
        rank = np.where(size >= LEAST_CORRELATED, size, 0.0) * np.sqrt(self._missing.mean(axis=0))[:, None]
        order = np.argsort(-rank, axis=None, kind="stable")[: int((rank > 0).sum())]
        self._places = [divmod(at, X.shape[1]) for at in order.tolist()]

    def functions(self, most: int) -> Array:
        """Return products of indicators of missing values with functions of correlated columns.

        Parameters
        ----------
        most : int
            Largest number of functions.

        Returns
        -------
        array of shape (n_rows, n_functions)
        """
        found, room = [np.empty((len(self._X), 0))], most
        for j, k in self._places:
            if room <= 0:
                break
            of_column = _few_functions(self._X[:, k], bool(self._categorical[k]), 1)
            found.append((self._missing[:, [j]] * of_column)[:, :room])
            room -= found[-1].shape[1]
        return np.column_stack(found)

    def products(self, features: Sequence[NDArray[np.int64]]) -> Array:
        """Return the same for what features do together: the score of the column in place times that of another one.

        Parameters
        ----------
        features : sequence of arrays of int64
            The columns of each feature of a pair.

        Returns
        -------
        array of shape (n_rows, n_products)
        """
        found, room = [np.empty((len(self._X), 0))], len(self._X) // ROWS_PER_PRODUCT
        for one, other in ((features[0], features[1]), (features[1], features[0])) if len(features) == 2 else ():
            for j, k in self._places:
                if j in one and k not in other and room > 0:
                    in_place = self._missing[:, j] * self._number[:, k]
                    found.append((in_place[:, None] * self._number[:, other])[:, :room])
                    room -= found[-1].shape[1]
        return np.column_stack(found)


def products(
    X: NDArray[np.floating[Any]],
    categorical: NDArray[np.bool_],
    features: Sequence[NDArray[np.int64]],
    most_knots: int | None = None,
) -> Array:
    """Return products of a function of each of two or three features, shape (n_rows, n_products).

    Together with functions of each feature they follow any function of two features, the closer the more rows there
    are.

    Parameters
    ----------
    X, categorical
        As for :func:`additive_functions`.
    features : sequence of arrays of int64
        The columns of each feature.
    most_knots : int, optional
        Of the functions of each feature; by default as many as there are rows for.
    """
    per_feature = (len(X) / ROWS_PER_PRODUCT) ** (1 / len(features))
    n_knots = int(np.clip((per_feature - 1) / 2, 1, most_knots or MOST_KNOTS[len(features)]))

    def of_features(most_values: int) -> Array:
        return _products_of(
            [
                np.column_stack(
                    [
                        _few_functions(X[:, j], bool(categorical[j]), max(1, n_knots // len(columns)), most_values)
                        for j in columns
                    ]
                )
                for columns in features
            ]
        )

    found = of_features(FEW_VALUES)
    return found if found.shape[1] <= len(X) // ROWS_PER_INDICATOR else of_features(0)


def feature_scores(
    X: NDArray[np.floating[Any]], categorical: NDArray[np.bool_], features: Sequence[NDArray[np.int64]], alone: Array
) -> Array:
    """Return one number a feature for each row, shape (n_rows, n_features).

    The normal scores of a column, 0 where it is missing; of categories and of several columns, what the model does with
    the feature alone.

    Parameters
    ----------
    X, categorical
        As for :func:`additive_functions`.
    features : sequence of arrays of int64
        The columns of each feature.
    alone : array of shape (n_rows, n_features)
        Parts of the output that need one feature.
    """
    from scipy.special import ndtri
    from scipy.stats import rankdata

    scores = alone.copy()
    for k, columns in enumerate(features):
        if len(columns) == 1 and not categorical[columns[0]]:
            x = np.asarray(X[:, columns[0]], dtype=np.float64)
            known = ~np.isnan(x)
            scores[:, k] = 0.0
            scores[known, k] = ndtri((rankdata(x[known]) - 0.5) / max(known.sum(), 1))
    return scores


class SimilarPairs:
    """The pairs of features that are similar to a pair: what a model does with one may stand in for another.

    Two pairs are similar if the products of their features are correlated. Of normal columns that correlation follows
    from those of the features (Isserlis 1918).

    Parameters
    ----------
    scores : array of shape (n_rows, n_features)
        From :func:`feature_scores`.
    share : array of shape (n_rows,)
        Weights of the rows, 1 on average.
    meets : array of bool of shape (n_features, n_features)
        Which pairs share a path of a tree.
    few_products : callable
        Products of a few functions of two features.
    """

    def __init__(
        self, scores: Array, share: Array, meets: NDArray[np.bool_], few_products: Callable[[int, int], Array]
    ) -> None:
        self._number, self._share, self._few_products = _unit(scores, share)[0], share, few_products
        self._correlation = self._number.T @ (share[:, None] * self._number) / len(share)
        self._one, self._other = np.triu_indices(len(meets), 1)
        self._meets = meets[self._one, self._other]
        self._own = self._correlation[self._one, self._other]
        self._least = np.where(self._meets, LEAST_ALONG, LEAST_ALONG_APART)
        self._least[np.abs(self._own) >= NEARLY_EQUAL] = np.inf

    def named(self, pair: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
        """Return the most similar pairs, the most similar first; at most `MOST_SIMILAR`."""
        return tuple((int(self._one[at]), int(self._other[at])) for at in self._nearest(pair)[0][:MOST_SIMILAR])

    def products(self, pair: tuple[int, ...], most: int) -> Array | None:
        """Return products of the features of similar pairs, with mean 0 and standard deviation 1.

        A pair that the model does not use has more functions, as far as there is room, because no part of the output
        shows its form.

        Parameters
        ----------
        pair : (int, int)
            The smaller number first.
        most : int
            Largest number of products.

        Returns
        -------
        array of shape (n_rows, n_products), or None
            None if there is no room for one product of each pair that is similar by `LEAST_ALONG`.
        """
        near, along = self._nearest(pair)
        alike = near[along >= LEAST_ALONG]
        if alike.size > most:
            return None
        found, room = [self._number[:, self._one[alike]] * self._number[:, self._other[alike]]], most - alike.size
        for at in near[~self._meets[near]].tolist():
            if room <= 0:
                break
            found.append(self._few_products(int(self._one[at]), int(self._other[at]))[:, :room])
            room -= found[-1].shape[1]
        return _unit(np.column_stack(found), self._share)[0]

    def _nearest(self, pair: tuple[int, ...]) -> tuple[NDArray[np.int64], Array]:
        """Return the places of similar pairs, the most similar first, and the correlations of products."""
        j, k = pair
        r, s, one, other = self._correlation[j], self._correlation[k], self._one, self._other
        # Of normal scores, whose products have the variance 1 + r^2.
        scale = np.sqrt((1 + r[k] ** 2) * (1 + self._own**2))
        along = np.abs(r[one] * s[other] + r[other] * s[one]) / scale
        along[(one == j) & (other == k)] = 0.0
        near = np.flatnonzero(along >= self._least)  # few of many pairs, so that they are sorted quickly
        near = near[np.argsort(-along[near], kind="stable")]
        return near, along[near]


def standardised(functions: Array, share: Array) -> Array:
    """Return the functions that vary, with weighted mean 0 and standard deviation 1.

    Parameters
    ----------
    functions : array of shape (n_rows, n_functions)
    share : array of shape (n_rows,)
        Weights of the rows.
    """
    unit, varies = _unit(functions, share)
    return unit[:, varies]


def orthonormal(standardised: Array, share: Array) -> Array:
    """Return functions that span the constant and the given ones: weighted sums of products are 0, of squares 1.

    Parameters
    ----------
    standardised : array of shape (n_rows, n_functions)
        From :func:`standardised`.
    share : array of shape (n_rows,)
    """
    return _spanning(np.column_stack([np.ones(len(standardised)), standardised]), share)


def freed(values: Array, basis: Sequence[Array], share: Array) -> Array:
    """Return what weighted least squares on an orthonormal basis leave of values, shape (n_rows, n_values).

    Parameters
    ----------
    values : array of shape (n_rows, n_values)
    basis : sequence of arrays of shape (n_rows, n_functions)
        Parts of a basis, from :func:`orthonormal` and :func:`orthonormal_beside`.
    share : array of shape (n_rows,)
    """
    for part in basis:
        values = values - part @ (part.T @ (share[:, None] * values))
    return values


def orthonormal_beside(basis: Sequence[Array], standardised: Array, share: Array) -> Array:
    """Return functions that span the given ones together with an orthonormal basis.

    Parameters
    ----------
    basis : sequence of arrays of shape (n_rows, n_functions)
        As for :func:`freed`.
    standardised : array of shape (n_rows, n_functions)
        From :func:`standardised`.
    share : array of shape (n_rows,)
    """
    left = freed(freed(standardised, basis, share), basis, share)  # the second time removes what rounding left
    return _spanning(left, share)


def _unit(functions: Array, share: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return functions with weighted mean 0 and standard deviation 1, and which of them vary; the others are 0."""
    centred = functions - np.average(functions, axis=0, weights=share)
    deviation = np.sqrt(np.average(centred**2, axis=0, weights=share))
    varies: NDArray[np.bool_] = deviation > 1e-10 * np.abs(functions).max(axis=0, initial=0.0)
    return np.divide(centred, deviation, out=np.zeros_like(centred), where=varies), varies


def _spanning(functions: Array, share: Array) -> Array:
    from scipy.linalg import qr

    root = np.sqrt(share)[:, None]
    # Without pivots first: that is twice as fast, and the rank is that of a small matrix.
    q, r = qr(functions * root, mode="economic", overwrite_a=True, check_finite=False)
    of_r, r, _ = qr(r, mode="economic", pivoting=True, check_finite=False)
    # Functions of variance 1 have a norm of sqrt(n).
    kept: Array = q @ of_r[:, np.abs(np.diag(r)) > 1e-7 * np.sqrt(len(share))]
    kept /= root
    return kept


def _shared_out(n_functions: int, most: NDArray[np.int64], size: Array) -> NDArray[np.int64]:
    """Return how many functions each column gets, by the largest quotients of its size and its number of functions.

    Columns with equal quotients get a function all together or none of them, whatever their order.

    Parameters
    ----------
    n_functions : int
    most : array of int of shape (n_columns,)
        What each column takes at most.
    size : array of shape (n_columns,)
        The numbers are proportional to it, beside an even share of half of the functions, up to 4 each.
    """
    n_varying = max(int((most > 0).sum()), 1)
    # As many fewer as there are columns: these are correlated.
    n_functions = max(n_functions - n_varying, FEWEST_PER_COLUMN * n_varying)
    given = np.minimum(most, min(n_functions // (2 * n_varying), FEWEST_PER_COLUMN))
    left = max(n_functions - int(given.sum()), 0)
    size = np.maximum(size, LEAST_SIZE * size.max()) if size.max() > 0 else np.ones(len(most))
    column = np.repeat(np.arange(len(most)), most - given)  # once for each further function that it takes
    number = np.concatenate([np.arange(few, all_) for few, all_ in zip(given, most, strict=True)]) + 1
    quotient = size[column] / number
    first_without = np.sort(quotient)[::-1][left] if left < quotient.size else 0.0
    return given + np.bincount(column[quotient > first_without], minlength=len(most))


def _products_of(functions: Sequence[Array]) -> Array:
    product = np.ones((len(functions[0]), 1))
    for of_feature in functions:
        product = (product[:, :, None] * of_feature[:, None, :]).reshape(len(product), -1)
    return product


def _few_functions(column: NDArray[np.floating[Any]], is_category: bool, n_knots: int, most_values: int = 0) -> Array:
    """Return a column with a hinge and a step at a few even quantiles; for few values, or categories, indicators."""
    most_values = max(most_values, 2 * n_knots + 1)
    x = np.asarray(column, dtype=np.float64)
    if is_category or np.unique(x[~np.isnan(x)]).size <= most_values:
        return functions_of(column, True, most_values - 1)
    missing = np.isnan(x)
    x, far = apart_from_far(np.where(missing, np.median(x[~missing]), x))
    knots = np.unique(np.quantile(x[~missing], np.arange(1, n_knots + 1) / (n_knots + 1)))
    indicator = [missing] if missing.any() else []
    parts = [*indicator, far, x, *(np.maximum(x - knot, 0) for knot in knots), *(x > knot for knot in knots)]
    return np.column_stack(parts).astype(np.float64)
