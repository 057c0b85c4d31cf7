"""The test of interactions: whether the response goes with what the model does with two features together.

It is Tukey's (1949) one degree of freedom for non-additivity, with the direction from the model. The response and the
interaction of a pair, e_j + e_k - e_jk on each row, are freed of additive functions of all columns and of the other
interactions by least squares; the mean of their product is tested, one-sided, with standard errors that allow for the
many functions (HC2, MacKinnon and White 1985). For classes and counts it is a score test in an additive model with the
logistic or the log link.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from debias.errors import CompositionError, RowsError
from debias.rows.dependent_columns import categorical_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.rows.rows import Rows

    Array = NDArray[np.float64]

FUNCTIONS_PER_ROW = 0.25
"""So many additive functions for each row, of all columns together. With half as many, curves of correlated columns
that the functions cannot follow were found as interactions."""
MOST_PER_COLUMN = 60
"""At most this many functions of a column."""
FEWEST_PER_COLUMN = 4
MOST_PER_ROW = 0.5
"""With more functions than this for each row, nothing is tested."""
HINGES = 0.55
"""This part of the functions of a column are hinges, the others steps."""
ROWS_PER_PAIR = 20
"""One pair is tested for so many rows: those whose interactions vary most, which does not depend on the response."""
RIDGE = 1.0
"""Of the logistic and the log link: added to the sums of squares of standardised functions."""
LEAST_RIDGE = 1e-6
"""Of the identity link, for each row and pair: interactions that are the same share their slope."""
MOST_LEVERAGE = 0.98
ITERATIONS = 50


class Link(NamedTuple):
    """How the mean of a response depends on an additive function of the columns."""

    name: str

    def mean(self, eta: Array) -> Array:
        """Return the mean."""
        if self.name == "logit":
            return 1 / (1 + np.exp(-np.clip(eta, -30, 30)))
        return np.exp(np.clip(eta, -30, 30)) if self.name == "log" else eta

    def weight(self, mean: Array) -> Array:
        """Return the derivative of the mean, which is also the variance of a class and of a count."""
        if self.name == "logit":
            return mean * (1 - mean)
        return mean if self.name == "log" else np.ones_like(mean)


IDENTITY, LOGIT, LOG = Link("identity"), Link("logit"), Link("log")
LINKS = {"logistic": LOGIT, "softmax": LOGIT, "hinge": LOGIT, "exponential": LOGIT} | dict.fromkeys(
    ("poisson", "gamma", "tweedie"), LOG
)
"""The links of objectives; that of the others with a loss is the identity."""


@dataclass(frozen=True, eq=False)
class InteractionTest:
    """The result of :func:`test_interactions`; the arrays have shape (n_pairs,).

    Parameters
    ----------
    score : array
        Mean over rows of the interaction times the response, both freed of everything else. NaN if not tested. Of
        several responses, or classes against the most frequent one: that with the smallest p-value, here and below.
    standard_error : array
    z : array
    p_value : array
        One-sided, times the number of responses or classes.
    total : array
        Covariance of the response and the output of the model.
    n_functions : int
        Number of additive functions.
    """

    score: Array
    standard_error: Array
    z: Array
    p_value: Array
    total: Array
    n_functions: int


def test_interactions(
    rows: Rows, interaction: Array, alone: Array, output: Array, asked: NDArray[np.bool_], alpha: float
) -> InteractionTest:
    """Test the interactions of the pairs that are asked for; the others are freed from these.

    Parameters
    ----------
    rows : Rows
        Held-out rows.
    interaction : array of shape (n_rows, n_pairs, n_outputs)
        From :func:`debias.rows.interactions.interactions`.
    alone : array of shape (n_rows, n_groups, n_outputs)
        From :func:`debias.rows.interactions.main_effects`.
    output : array of shape (n_rows, n_outputs)
        Output of the model.
    asked : array of bool of shape (n_pairs,)
        Which pairs are tested.
    alpha : float
        For classes and counts: a pair whose p-value, times the number of pairs, is at most this joins the model in
        which the others are tested.

    Returns
    -------
    InteractionTest

    Raises
    ------
    RowsError
        There are too few rows for additive functions of all columns.
    """
    X, categorical = rows.table.matrix(rows.ensemble), categorical_columns(rows.ensemble)
    response, link = responses(rows)
    comparisons = _comparisons(response, rows.weight, link)
    tests, n_functions = np.full((len(comparisons), 5, interaction.shape[1]), np.nan), 0
    for of_output, (y, used, contrast) in zip(tests, comparisons, strict=True):
        share = rows.weight[used] / rows.weight[used].mean()
        functions = np.column_stack([additive_functions(X[used], categorical), alone[used] @ contrast])
        offset = np.zeros(len(y)) if rows.response.margin is None else rows.response.margin[used] @ contrast
        of_output[:4], n_functions = _tested(
            interaction[used] @ contrast, functions, y, share, offset, link, asked, alpha / len(comparisons)
        )
        of_output[4] = np.average((y - np.average(y, weights=share)) * (output[used] @ contrast), weights=share)
    p_value = np.where(np.isnan(tests[:, 3]), np.inf, tests[:, 3])
    score, variance, z, smallest, total = np.take_along_axis(tests, p_value.argmin(axis=0)[None, None], axis=0)[0]
    adjusted = np.minimum(1.0, len(comparisons) * smallest)
    return InteractionTest(score, np.sqrt(variance), z, adjusted, total, n_functions)


def _comparisons(response: Array, weight: Array, link: Link) -> list[tuple[Array, NDArray[np.int64], Array]]:
    """Return the response of each test, its rows, and the contrast of the outputs that it is about.

    The log odds of a class against the most frequent one, among the rows of the two, are additive if the margins of all
    classes are. Those of a class against all others are not.
    """
    used, n_outputs = np.flatnonzero(weight > 0), response.shape[1]
    if link is not LOGIT or n_outputs == 1:
        return [(response[used, c], used, np.eye(n_outputs)[c]) for c in range(n_outputs)]
    most = int((weight @ response).argmax()) if n_outputs > 2 else 0
    comparisons = []
    for c in range(n_outputs):
        of_two = used[(response[used][:, [c, most]] > 0).any(axis=1)]
        if c != most:
            # Probabilities of two classes sum to 1: the second one says all.
            contrast = np.eye(n_outputs)[c] - (np.eye(n_outputs)[most] if n_outputs > 2 else 0.0)
            comparisons.append((response[of_two, c], of_two, contrast))
    return comparisons


def responses(rows: Rows) -> tuple[Array, Link]:
    """Return the response of each output, shape (n_rows, n_outputs), and how its mean depends on additive functions.

    Raises
    ------
    CompositionError
        The response has no mean of its own on each row: survival times, ranks, the user's own objective.
    """
    ensemble, response = rows.ensemble, rows.response
    objective = ensemble.objective
    if response.codes is not None:
        return np.eye(max(ensemble.n_outputs, 2))[response.codes][:, -ensemble.n_outputs :], LOGIT
    if ensemble.averaged:
        if response.values is None or objective.compares_rows:
            raise CompositionError("interactions are tested for numbers, classes and counts, not for survival times")
        return response.values, IDENTITY
    if objective.compares_rows or not objective.has_loss or response.target is None:
        raise CompositionError(
            "interactions are tested where each row has a response and a loss of its own: not for rankers, survival "
            "models and objectives of the user"
        )
    target = response.target
    if target.shape[1] != ensemble.n_outputs:
        target = np.broadcast_to(target[:, :1], (len(target), ensemble.n_outputs))
    return target, LINKS.get(objective.name, IDENTITY)


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


def _tested(
    interaction: Array,
    functions: Array,
    y: Array,
    share: Array,
    offset: Array,
    link: Link,
    asked: NDArray[np.bool_],
    alpha: float,
) -> tuple[Array, int]:
    """Return scores, variances, z and p-values of a comparison, NaN where not tested, and the number of functions."""
    n, n_pairs = interaction.shape
    standardised = _standardised(functions, share)
    basis = _orthonormal(standardised, share)
    size = basis.shape[1]
    if size > MOST_PER_ROW * n:
        raise RowsError(
            f"{size} additive functions of the columns are too many for {n} rows: interactions need about "
            f"{int(np.ceil(size / MOST_PER_ROW))} rows, or fewer columns"
        )
    result = np.full((4, n_pairs), np.nan)
    freed = interaction - basis @ (basis.T @ (share[:, None] * interaction))
    variance = np.average(freed**2, axis=0, weights=share)
    varies = np.flatnonzero(variance > 1e-12 * np.maximum(np.average(interaction**2, axis=0, weights=share), 1e-300))
    # Those that are asked for first, then those that vary most: a choice without the response.
    tested = varies[np.lexsort((-variance[varies], ~asked[varies]))][: max(1, n // ROWS_PER_PAIR)]
    if tested.size and y.min() < y.max():
        scale = np.sqrt(variance[tested])
        pairs = freed[:, tested] / scale
        if link is IDENTITY:
            total, squares = _partial_scores(pairs, basis, y - offset, share)
            degrees = max(n - size - tested.size, 5)
            tests = total, squares, *_t_test(total, squares, degrees)
        else:
            is_asked = asked[tested]
            tests = _forward_scores(pairs, standardised, y, share, offset, link, is_asked, alpha, max(n - size, 5))
        result[:, tested] = tests[0] * scale / n, tests[1] * scale**2 / n**2, tests[2], tests[3]
        result[:, ~asked] = np.nan
    return result, size


def _t_test(total: Array, squares: Array, degrees: int) -> tuple[Array, Array]:
    """Return z and one-sided p-values of sums, given the sums of squares."""
    from scipy.special import stdtr

    z = np.divide(total, np.sqrt(squares), out=np.zeros_like(total), where=squares > 0)
    p_value: Array = stdtr(degrees, -z)
    return z, p_value


def _partial_scores(pairs: Array, basis: Array, y: Array, share: Array) -> tuple[Array, Array]:
    """Return the sum over rows of each pair, freed of the other pairs, times what all else leaves of y; its variance.

    Parameters
    ----------
    pairs : array of shape (n_rows, n_pairs)
        Interactions that are freed of the basis, of weighted variance 1.
    basis : array of shape (n_rows, n_functions)
        From :func:`_orthonormal`.
    y, share : array of shape (n_rows,)
    """
    n = len(y)
    functions = np.column_stack([basis, pairs])
    ridge = np.repeat([0.0, LEAST_RIDGE * n], [basis.shape[1], pairs.shape[1]])
    inverse = np.linalg.inv(functions.T @ (share[:, None] * functions) + np.diag(ridge))
    coefficient = inverse @ (functions.T @ (share * y))
    first = basis.shape[1]
    direction = functions @ (inverse[:, first:] / np.diag(inverse)[first:])
    # What is left of the response without the pair, with everything else as it is.
    left = (y - functions @ coefficient)[:, None] + direction * coefficient[first:]
    return _sums(direction, left, share, share * ((functions @ inverse) * functions).sum(axis=1))


def _forward_scores(
    pairs: Array,
    functions: Array,
    y: Array,
    share: Array,
    offset: Array,
    link: Link,
    asked: NDArray[np.bool_],
    alpha: float,
    degrees: int,
) -> tuple[Array, Array, Array, Array]:
    """Return sums, variances, z and p-values of score tests of pairs in an additive model with a link.

    The pair with the smallest p-value joins the model if that is at most `alpha` over the number of pairs that are
    left, and the others are tested again, so that one interaction does not show in another one that resembles it. A
    model with all pairs at once finds too many.

    Parameters
    ----------
    pairs : array of shape (n_rows, n_pairs)
    functions : array of shape (n_rows, n_functions)
        From :func:`_standardised`. Functions that are alike share a large coefficient at a small price: the ridge keeps
        the fit smooth.
    """
    n, n_pairs = pairs.shape
    result, joined = np.zeros((4, n_pairs)), np.zeros(n_pairs, dtype=bool)
    while not joined.all():
        fitted = np.column_stack([np.ones(n), functions, pairs[:, joined]])
        ridge = np.repeat([0.0, RIDGE], [1, fitted.shape[1] - 1])
        eta, inverse = _fit(fitted, y, share, offset, ridge, link)
        mean = link.mean(eta)
        working = share * link.weight(mean)
        others = pairs[:, ~joined]
        direction = others - fitted @ (inverse @ (fitted.T @ (working[:, None] * others)))
        leverage = working * ((fitted @ inverse) * fitted).sum(axis=1)
        total, squares = _sums(direction, (y - mean)[:, None], share, leverage)
        z, p_value = _t_test(total, squares, degrees)
        result[:, ~joined] = total, squares, z, p_value
        candidates = np.flatnonzero(~joined & asked)
        if not candidates.size:
            break
        best = candidates[np.argmin(result[3, candidates])]
        if result[3, best] * candidates.size > alpha:
            break
        joined[best] = True
    return result[0], result[1], result[2], result[3]


def _sums(direction: Array, left: Array, share: Array, leverage: Array) -> tuple[Array, Array]:
    """Return the sums of products over rows and their variances, which allow for fitted functions (HC2)."""
    products = share[:, None] * direction * left
    variance = (products**2 / (1 - np.minimum(leverage, MOST_LEVERAGE))[:, None]).sum(axis=0)
    return products.sum(axis=0), variance


def _standardised(functions: Array, share: Array) -> Array:
    """Return the functions that vary, with weighted mean 0 and standard deviation 1."""
    centred = functions - np.average(functions, axis=0, weights=share)
    deviation = np.sqrt(np.average(centred**2, axis=0, weights=share))
    varies = deviation > 1e-10 * np.abs(functions).max(axis=0, initial=0.0)
    standardised: Array = centred[:, varies] / deviation[varies]
    return standardised


def _orthonormal(standardised: Array, share: Array) -> Array:
    """Return functions that span the constant and the given ones: weighted sums of products are 0, of squares 1."""
    from scipy.linalg import qr

    root = np.sqrt(share)[:, None]
    stacked = np.column_stack([np.ones(len(standardised)), standardised]) * root
    q, r, _ = qr(stacked, mode="economic", pivoting=True, check_finite=False)
    diagonal = np.abs(np.diag(r))
    orthonormal: Array = q[:, diagonal > 1e-7 * diagonal[0]] / root
    return orthonormal


def _fit(functions: Array, y: Array, share: Array, offset: Array, ridge: Array, link: Link) -> tuple[Array, Array]:
    """Return the linear predictor and the inverse of the information, by Newton's method.

    It minimises the loss of the link plus half of the sum of `ridge` times squared coefficients.
    """
    from scipy.linalg import cho_factor, cho_solve

    def loss(eta: Array, coefficient: Array) -> float:
        of_rows = np.logaddexp(0, eta) if link is LOGIT else np.exp(np.clip(eta, -30, 30))
        return float(share @ (of_rows - y * eta) + ridge @ coefficient**2 / 2)

    coefficient, eta = np.zeros(functions.shape[1]), offset.copy()
    before = loss(eta, coefficient)
    for _ in range(ITERATIONS):
        mean = link.mean(eta)
        working = share * link.weight(mean)
        information = functions.T @ (working[:, None] * functions) + np.diag(ridge)
        information[np.diag_indices_from(information)] += 1e-10 * np.trace(information)
        factor = cho_factor(information)
        step = cho_solve(factor, functions.T @ (share * (y - mean)) - ridge * coefficient)
        size = 1.0
        while (
            loss(offset + functions @ (coefficient + size * step), coefficient + size * step) > before and size > 1e-4
        ):
            size /= 2
        coefficient = coefficient + size * step
        eta = offset + functions @ coefficient
        after = loss(eta, coefficient)
        if before - after < 1e-8 * max(1.0, abs(before)):
            break
        before = after
    return eta, cho_solve(factor, np.eye(len(ridge)))
