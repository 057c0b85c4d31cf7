"""Functions of single columns, beside which interactions are tested, and their products."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

FUNCTIONS_PER_ROW = 0.25
"""So many additive functions for each row, of all columns together. With half as many, curves of correlated columns
that the functions cannot follow were found as interactions."""
MOST_PER_COLUMN = 60
"""At most this many functions of a column."""
FEWEST_PER_COLUMN = 4
HINGES = 0.55
"""This part of the functions of a column are hinges, the others steps."""
ROWS_PER_FUNCTION_WITHIN = 10
"""So many rows for each product of functions of two columns of one group."""
ROWS_PER_PRODUCT = 20
"""So many rows for each product of functions of two features."""
LEAST_ALONG = 0.5
"""Two pairs are similar if the products of their features have at least this correlation."""
MOST_SIMILAR = 3
"""So many similar pairs are named."""
MOST_KNOTS = {2: 7, 3: 2}
"""Of each feature in products of two and of three features; at least 1."""


def additive_functions(X: NDArray[np.floating[Any]], categorical: NDArray[np.bool_]) -> Array:
    """Return additive functions of all columns, shape (n_rows, n_functions).

    A column of few values, or of categories, has an indicator of each frequent value. Others have themselves, hinges at
    normal quantiles, which are dense in the tails, and steps at even quantiles. Missing values have an indicator, and
    are the median in the other functions.

    Parameters
    ----------
    X : array of shape (n_rows, n_columns)
        Missing values are NaN.
    categorical : array of bool of shape (n_columns,)
    """
    n_rows, n_columns = X.shape
    per_column = int(FUNCTIONS_PER_ROW * n_rows / n_columns) - 1
    most = min(MOST_PER_COLUMN, max(FEWEST_PER_COLUMN, per_column))
    return np.column_stack([_functions(X[:, j], bool(categorical[j]), most) for j in range(n_columns)])


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


def products(
    X: NDArray[np.floating[Any]], categorical: NDArray[np.bool_], features: Sequence[NDArray[np.int64]]
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
    """
    per_feature = (len(X) / ROWS_PER_PRODUCT) ** (1 / len(features))
    n_knots = int(np.clip((per_feature - 1) / 2, 1, MOST_KNOTS[len(features)]))
    return _products_of(
        [
            np.column_stack(
                [_few_functions(X[:, j], bool(categorical[j]), max(1, n_knots // len(columns))) for j in columns]
            )
            for columns in features
        ]
    )


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


class SimilarProducts(NamedTuple):
    """Products of the features of pairs that are similar to other pairs.

    Parameters
    ----------
    products : array of shape (n_rows, n_products)
        With mean 0 and standard deviation 1.
    column : dict
        The column of each pair that has one.
    of_pair : dict
        The pairs that are similar to each tested pair, the most similar first; at most `MOST_SIMILAR`.
    """

    products: Array
    column: dict[tuple[int, ...], int]
    of_pair: dict[tuple[int, ...], tuple[tuple[int, int], ...]]


def similar_products(scores: Array, pairs: Sequence[tuple[int, ...]], share: Array, most: int) -> SimilarProducts:
    """Return products of the scores of two features, of the pairs that are similar to tested pairs.

    What a model does with one pair may stand in for another pair of correlated features. Of normal columns the
    correlation of two products follows from those of their features (Isserlis 1918).

    Parameters
    ----------
    scores : array of shape (n_rows, n_features)
        From :func:`feature_scores`.
    pairs : sequence of (int, int)
        Those that are tested, the smaller number first.
    share : array of shape (n_rows,)
        Weights of the rows, 1 on average.
    most : int
        Largest number of products: those of the pairs that are most similar to another.
    """
    number, _ = _unit(scores, share)
    correlation = number.T @ (share[:, None] * number) / len(share)
    one, other = np.triu_indices(len(correlation), 1)
    along = np.zeros(one.size)
    of_pair: dict[tuple[int, ...], tuple[tuple[int, int], ...]] = {}
    for j, k in pairs:
        r, s = correlation[j], correlation[k]
        # Of normal scores, whose products have the variance 1 + r^2.
        scale = np.sqrt((1 + r[k] ** 2) * (1 + correlation[one, other] ** 2))
        with_pair = np.abs(r[one] * s[other] + r[other] * s[one]) / scale
        with_pair[(one == j) & (other == k)] = 0.0
        near = np.flatnonzero(with_pair >= LEAST_ALONG)  # few of many pairs, so that they are sorted quickly
        first = near[np.argsort(-with_pair[near], kind="stable")[:MOST_SIMILAR]]
        of_pair[j, k] = tuple((int(one[at]), int(other[at])) for at in first)
        np.maximum(along, with_pair, out=along)
    order = np.argsort(-along, kind="stable")[: max(most, 0)]
    order = order[along[order] >= LEAST_ALONG]
    one, other = one[order], other[order]
    column: dict[tuple[int, ...], int] = {(j, k): at for at, (j, k) in enumerate(np.c_[one, other].tolist())}
    return SimilarProducts(_unit(number[:, one] * number[:, other], share)[0], column, of_pair)


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


def orthonormal_beside(basis: Array, standardised: Array, share: Array) -> Array:
    """Return functions that span the given ones together with an orthonormal basis.

    Parameters
    ----------
    basis : array of shape (n_rows, n_basis)
        From :func:`orthonormal`.
    standardised : array of shape (n_rows, n_functions)
        From :func:`standardised`.
    share : array of shape (n_rows,)
    """
    left = standardised
    for _ in range(2):  # the second time removes what rounding left
        left = left - basis @ (basis.T @ (share[:, None] * left))
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
    q, r, _ = qr(functions * root, mode="economic", pivoting=True, check_finite=False)
    # Functions of variance 1 have a norm of sqrt(n).
    kept: Array = q[:, np.abs(np.diag(r)) > 1e-7 * np.sqrt(len(share))] / root
    return kept


def _functions(column: NDArray[np.floating[Any]], is_category: bool, most: int) -> Array:
    from scipy.special import ndtr, ndtri

    x = np.asarray(column, dtype=np.float64)
    missing = np.isnan(x)
    known = x[~missing]
    functions = [missing] if missing.any() else []
    if not known.size:
        return np.column_stack(functions)
    values, count = np.unique(known, return_counts=True)
    if is_category or values.size <= most:
        frequent = values[np.argsort(-count, kind="stable")[:most]]
        return np.column_stack([*functions, *(x == value for value in frequent)]).astype(np.float64)
    x = np.where(missing, np.median(known), x)
    n_hinges = max(2, round(HINGES * most))
    n_steps, tail = max(1, most - n_hinges - 1), max(0.01, 5 / known.size)
    at = ndtr(np.linspace(ndtri(tail), ndtri(1 - tail), n_hinges))
    knots, edges = (np.unique(np.quantile(known, q)) for q in (at, np.arange(1, n_steps + 1) / (n_steps + 1)))
    parts = [*functions, x, *(np.maximum(x - knot, 0) for knot in knots), *(x > edge for edge in edges)]
    return np.column_stack(parts).astype(np.float64)


def _products_of(functions: Sequence[Array]) -> Array:
    product = np.ones((len(functions[0]), 1))
    for of_feature in functions:
        product = (product[:, :, None] * of_feature[:, None, :]).reshape(len(product), -1)
    return product


def _few_functions(column: NDArray[np.floating[Any]], is_category: bool, n_knots: int) -> Array:
    """Return a column with a hinge and a step at a few even quantiles; for few values, or categories, indicators."""
    x = np.asarray(column, dtype=np.float64)
    if is_category or np.unique(x[~np.isnan(x)]).size <= 2 * n_knots + 1:
        return _functions(column, True, 2 * n_knots + 1)
    missing = np.isnan(x)
    known = x[~missing]
    x = np.where(missing, np.median(known), x)
    knots = np.unique(np.quantile(known, np.arange(1, n_knots + 1) / (n_knots + 1)))
    indicator = [missing] if missing.any() else []
    parts = [*indicator, x, *(np.maximum(x - knot, 0) for knot in knots), *(x > knot for knot in knots)]
    return np.column_stack(parts).astype(np.float64)
