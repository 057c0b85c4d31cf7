"""The test of interactions: whether the response goes with what the model does with two features together.

It is Tukey's (1949) one degree of freedom for non-additivity, with the direction from the model. The response and the
part of the output that needs both features and no other are freed of additive functions of all columns and of the other
interactions by least squares; the sum of their product is tested, one-sided, with standard errors that allow for the
many functions (HC2, MacKinnon and White 1985). For classes and counts it is a score test in an additive model with the
logistic or the log link.

What a model does with one pair may stand in for another pair with correlated features. Each pair that is
confirmed is tested again, beside products of the pairs that are similar to it.

Over 500 lines, because both links, the forward steps and the second test are one procedure.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import CompositionError, RowsError
from debias.rows.dependent_columns import categorical_columns
from debias.rows.interactions import pairs_on_paths
from debias.significance.additive_functions import (
    ROWS_PER_FUNCTION_OF_MISSING,
    MissingValues,
    SimilarPairs,
    additive_functions,
    enough_rows,
    feature_scores,
    freed,
    functions_within,
    orthonormal,
    orthonormal_beside,
    products,
    standardised,
)
from debias.significance.links import IDENTITY, LINKS, LOG, LOGIT, fitted_coefficients
from debias.significance.misfit import Remains
from debias.text import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from numpy.typing import NDArray

    from debias.rows.rows import Rows
    from debias.significance.links import Link
    from debias.trees.ensemble import TreeEnsemble

    Array = NDArray[np.float64]

MOST_PER_ROW = 0.5
"""With more functions than this for each row, nothing is tested."""
MOST_WITH_MISSING = 0.45
"""Functions of missing values join the others up to so many for each row."""
ROWS_PER_PAIR = 20
"""One pair is tested for so many rows: those whose interactions vary most, which does not depend on the response."""
RIDGE = 1.0
"""Of the logistic and the log link: added to the sums of squares of standardised functions."""
LEAST_RIDGE = 1e-6
"""Of the identity link, for each row and pair: interactions that are the same share their slope."""
RIDGE_OF_PRODUCTS = 1e-4
"""The same for products of pairs."""
ROWS_PER_SIMILAR = 10
"""A pair is tested beside one product of another pair for so many rows at most."""
MOST_BESIDE = 0.65
"""With more functions and products than this for each row, pairs are not told apart."""
LEVEL_OF_MISFIT = 0.01
"""A column along which the response is not what the additive functions say, at this level, is not followed."""
MOST_LEVERAGE = 0.98
FEWEST_DEGREES = 5


@dataclass(frozen=True, eq=False)
class InteractionTest:
    """The result of :func:`test_interactions`; the arrays have shape (n_pairs,).

    Parameters
    ----------
    score : array
        Mean over rows of the interaction times the response, both freed of everything else, with an allowance for what
        the functions take of few rows. NaN if not tested. Of several responses, or classes against the most frequent
        one: that with the smallest p-value, here and below.
    standard_error : array
    z : array
    p_value : array
        One-sided, times the number of responses or classes.
    total : array
        Covariance of the response and the output of the model.
    p_apart : array
        The same as `p_value` beside products of similar pairs; `p_value` where no other pair is similar. NaN if there
        are too few rows for the products of all similar pairs, or if the first test is no reason for the second one.
    similar : list of tuples of (int, int)
        The most similar pairs of each, at most `MOST_SIMILAR`.
    n_functions : int
        Number of additive functions of a comparison, the largest one.
    about : list of str
        The classes or responses that the numbers of each set are about; "" if there is one comparison, or no test.
    unfollowed : array of bool of shape (n_features,)
        Columns that the additive functions of a comparison do not follow. It does not test sets with one.
    scale : str or None
        What the functions add up to; None if that is the response.
    """

    score: Array
    standard_error: Array
    z: Array
    p_value: Array
    total: Array
    p_apart: Array
    similar: list[tuple[tuple[int, int], ...]]
    n_functions: int
    about: list[str]
    unfollowed: NDArray[np.bool_]
    scale: str | None


def test_interactions(
    rows: Rows,
    together: Array,
    alone: Array,
    output: Array,
    sets: Sequence[tuple[int, ...]],
    group: NDArray[np.int64],
    asked: NDArray[np.bool_],
    alpha: float,
    told_apart: float,
) -> InteractionTest:
    """Test the sets of features that are asked for; they are freed of the others.

    Parameters
    ----------
    rows : Rows
        Held-out rows.
    together : array of shape (n_rows, n_sets, n_outputs)
        Parts of the output that need all features of a set, from :func:`debias.rows.interactions.parts`.
    alone : array of shape (n_rows, n_groups, n_outputs)
        Parts of the output that need one feature.
    output : array of shape (n_rows, n_outputs)
        Output of the model.
    sets : sequence of tuple of int
        Pairs, and triples: those that are asked for are also freed of products of functions of their pairs. The pairs
        are freed of the other triples.
    group : array of int64 of shape (n_features,)
    asked : array of bool of shape (n_sets,)
        Which sets are tested.
    alpha : float
        A pair whose p-value, times the number of pairs, is at most this joins the model in which the others are tested.
    told_apart : float
        Of pairs that do not join, those with a p-value of at most this are tested beside similar pairs too.

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
    tests, n_functions = np.full((len(comparisons), 6, len(sets)), np.nan), 0
    unfollowed = np.zeros(group.size, dtype=bool)
    similar = []
    rest = output - alone.sum(axis=1) - together.sum(axis=1)
    columns = [np.flatnonzero(group == g) for g in range(alone.shape[1])]
    meets = pairs_on_paths(rows.ensemble, np.arange(group.size), group.size)
    features_meet = pairs_on_paths(rows.ensemble, group, alone.shape[1])
    for of_output, (y, used, contrast) in zip(tests, comparisons, strict=True):
        share = rows.weight[used] / rows.weight[used].mean()
        size = _sizes_of_parts(alone[used] @ contrast, together[used] @ contrast, sets)[group]
        of_columns = (
            additive_functions(X[used], categorical, size),
            functions_within(X[used], categorical, columns, meets),
        )
        functions = np.column_stack([*of_columns, alone[used] @ contrast, rest[used] @ contrast])
        scores = feature_scores(
            X[used], categorical, [*np.arange(group.size)[:, None]], (alone[used] @ contrast)[:, group]
        )
        missing = MissingValues(X[used], categorical, scores, share)
        room = min(len(y) // ROWS_PER_FUNCTION_OF_MISSING, int(MOST_WITH_MISSING * len(y)) - functions.shape[1])
        functions = standardised(np.column_stack([functions, missing.functions(room)]), share)
        basis = orthonormal(functions, share)
        if basis.shape[1] > MOST_PER_ROW * len(y):
            enough = enough_rows(X[used], of_columns[1].shape[1], functions.shape[1], MOST_PER_ROW)
            few = f"{counted(len(y), 'row')} {'is' if len(y) == 1 else 'are'} too few"
            raise RowsError(
                f"{few} for additive functions of {counted(group.size, 'column')}: interactions need about {enough:,} "
                "rows, or fewer columns"
            )
        offset = np.zeros(len(y)) if rows.response.margin is None else rows.response.margin[used] @ contrast
        block = None if rows.blocks is None else np.unique(rows.blocks[used], return_inverse=True)[1]
        of_output[:5], n_here, of_pairs, unfollowed_here = _tested(
            _Sample(y, share, offset, link, block),
            functions,
            basis,
            together[used] @ contrast,
            partial(_products_of, X[used], categorical, columns, missing),
            SimilarPairs(
                feature_scores(X[used], categorical, columns, alone[used] @ contrast),
                share,
                features_meet,
                partial(_few_products_of, X[used], categorical, columns),
            ),
            sets,
            asked,
            alpha / len(comparisons),
            told_apart,
            LEVEL_OF_MISFIT / len(comparisons),
            (X[used], group),
        )
        n_functions, unfollowed = max(n_functions, n_here), unfollowed | unfollowed_here
        of_output[5] = np.average((y - np.average(y, weights=share)) * (output[used] @ contrast), weights=share)
        similar.append(of_pairs)
    best = np.where(np.isnan(tests[:, 3]), np.inf, tests[:, 3]).argmin(axis=0)
    score, variance, z, smallest, apart, total = np.take_along_axis(tests, best[None, None], axis=0)[0]
    adjusted, adjusted_apart = (np.minimum(1.0, len(comparisons) * p) for p in (smallest, apart))
    names = [_named(contrast, rows.ensemble.output_names) for _, _, contrast in comparisons]
    about = ["" if len(names) == 1 or p != p else names[at] for at, p in zip(best.tolist(), smallest, strict=True)]
    of_sets = [similar[at].get(members, ()) for at, members in zip(best.tolist(), sets, strict=True)]
    return InteractionTest(
        score,
        np.sqrt(variance),
        z,
        adjusted,
        total,
        adjusted_apart,
        of_sets,
        n_functions,
        about,
        unfollowed,
        link.adds_up_to,
    )


def _named(contrast: Array, names: tuple[str, ...]) -> str:
    """Return which outputs a contrast is about."""
    first, last = int(contrast.argmax()), int(contrast.argmin())
    return f"{names[first]} against {names[last]}" if contrast.min() < 0 else names[first]


def _sizes_of_parts(alone: Array, together: Array, sets: Sequence[tuple[int, ...]]) -> Array:
    """Return the standard deviation of what the model does with each feature, shape (n_features,)."""
    variance, of_sets = alone.var(axis=0), together.var(axis=0)
    for members, of_set in zip(sets, of_sets, strict=True):
        variance[list(members)] += of_set
    return np.sqrt(variance)


def _products_of(
    X: NDArray[np.floating[Any]],
    categorical: NDArray[np.bool_],
    columns: list[NDArray[np.int64]],
    missing: MissingValues,
    members: tuple[int, ...],
) -> Array:
    features = [columns[g] for g in members]
    return np.column_stack([products(X, categorical, features), missing.products(features)])


def _few_products_of(
    X: NDArray[np.floating[Any]], categorical: NDArray[np.bool_], columns: list[NDArray[np.int64]], j: int, k: int
) -> Array:
    return products(X, categorical, [columns[j], columns[k]], most_knots=2)


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
    refuse_responses_without_mean(ensemble)
    if response.codes is not None:
        return np.eye(max(ensemble.n_outputs, 2))[response.codes][:, -ensemble.n_outputs :], LOGIT
    if ensemble.averaged:
        assert response.values is not None
        return response.values, IDENTITY
    target = response.target
    assert target is not None
    if target.shape[1] != ensemble.n_outputs:
        target = np.broadcast_to(target[:, :1], (len(target), ensemble.n_outputs))
    return target, LINKS.get(ensemble.objective.name, IDENTITY)


def refuse_responses_without_mean(ensemble: TreeEnsemble) -> None:
    """Raise a CompositionError if the response has no mean of its own on each row: see :func:`responses`."""
    objective = ensemble.objective
    if ensemble.averaged and objective.compares_rows:
        raise CompositionError("interactions are tested for numbers, classes and counts, not for survival times")
    if not ensemble.averaged and (objective.compares_rows or not objective.has_loss):
        raise CompositionError(
            "interactions are tested where each row has a response and a loss of its own: not for rankers, survival "
            "models, models of a distribution and objectives of the user"
        )


@dataclass(frozen=True, eq=False)
class _Sample:
    """The rows of a comparison; arrays of shape (n_rows,).

    Parameters
    ----------
    y : array
        Response.
    share : array
        Weights, 1 on average.
    offset : array
        What is known of the linear predictor.
    link : Link
    block : array of int64, or None
        Block of each row: 0, 1, ...
    """

    y: Array
    share: Array
    offset: Array
    link: Link
    block: NDArray[np.int64] | None

    def sums(self, direction: Array, left: Array, working: Array, *fitted: Array) -> tuple[Array, Array]:
        """Return sums over rows of products, and their variances, which allow for the fitted functions.

        What is left on a row, or block, is divided by the square root of one less its leverage: HC2 of MacKinnon and
        White (1985), CR2 of Bell and McCaffrey (2002) with blocks. The functions leave less of the square of a
        direction than there is, on each row one less its leverage of it. So the sums are larger by as much, and their
        means are those of many rows.

        Parameters
        ----------
        direction : array of shape (n_rows, n_pairs)
        left : array of shape (n_rows, n_pairs) or (n_rows, 1)
            What the fit leaves of the response.
        working : array of shape (n_rows,)
            Weights of the least squares that were solved last.
        *fitted : arrays of shape (n_rows, n_functions)
            Side by side; their product with its transpose, times the weights, is the matrix that projects on what was
            fitted.
        """
        products = self.share[:, None] * direction * left
        squares = np.sum([np.einsum("ij,ij->i", part, part) for part in fitted], axis=0)
        kept = 1 - np.minimum(working * squares, MOST_LEVERAGE)
        of_rows = working[:, None] * direction**2
        size = of_rows.sum(axis=0)
        larger = np.divide((of_rows / kept[:, None]).sum(axis=0), size, out=np.ones_like(size), where=size > 0)
        if self.block is None:
            return larger * products.sum(axis=0), larger**2 * (products**2 / kept[:, None]).sum(axis=0)
        root = np.sqrt(working)[:, None]
        scaled, rest = root * direction, self.share[:, None] * left / root
        variance = np.zeros(direction.shape[1])
        for b in range(int(self.block.max()) + 1):
            at = self.block == b
            of_block = np.column_stack([part[at] for part in fitted])
            axes, size, _ = np.linalg.svd(root[at] * of_block, full_matrices=False)
            more = 1 / np.sqrt(1 - np.minimum(size**2, MOST_LEVERAGE)) - 1
            adjusted = rest[at] + axes @ (more[:, None] * (axes.T @ rest[at]))
            variance += (scaled[at] * adjusted).sum(axis=0) ** 2
        return larger * products.sum(axis=0), larger**2 * variance

    def unit_and_dispersion(self) -> tuple[float, float]:
        """Return the unit in which the response is fitted, and its variance over its mean in that unit.

        They are 1 but for the log link. There the mean of the response, beside the offset, is the unit, and the ridge
        is in proportion to the dispersion, so that a response in cents has the test of one in dollars. The dispersion
        of counts, in units of one, is about 1.
        """
        if self.link is not LOG:
            return 1.0, 1.0
        exposure = np.exp(self.offset)
        unit = float(self.share @ self.y / (self.share @ exposure))
        return unit, float(self.share @ ((self.y / unit - exposure) ** 2 / exposure) / self.share.sum())

    def degrees(self, n_functions: int) -> int:
        """Return the degrees of freedom of a test beside so many functions."""
        if self.block is not None:
            return int(self.block.max())
        return max(len(self.y) - n_functions, FEWEST_DEGREES)


class _Fit:
    """An additive model of the response; pairs are tested beside it.

    Parameters
    ----------
    sample : _Sample
    *functions : arrays of shape (n_rows, n_functions)
        Additive functions, and those of the sets that joined. They stay apart, because the first ones are many.
    """

    def __init__(self, sample: _Sample, *functions: Array) -> None:
        self.sample, self.functions = sample, functions

    @property
    def n_functions(self) -> int:
        """Number of functions."""
        return sum(part.shape[1] for part in self.functions)

    def beside(self, functions: Array) -> Self:
        """Return the model with further functions."""
        return type(self)(self.sample, *self.functions, self.further(standardised(functions, self.sample.share)))

    def further(self, functions: Array) -> Array:
        """Return standardised functions as they join the model."""
        return functions

    def following(self, functions: Array) -> Self:
        """Return the model with a pair and functions that follow it; without these if there are too few rows."""
        with_all = self.beside(functions)
        fits = with_all.n_functions <= MOST_PER_ROW * len(functions)
        return with_all if fits else self.beside(functions[:, :1])

    def test(self, pairs: Array, similar: Array | None = None) -> Array:
        """Return sums, variances, z and one-sided p-values of pairs, shape (4, n_pairs).

        Parameters
        ----------
        pairs : array of shape (n_rows, n_pairs)
            Freed of the additive functions.
        similar : array of shape (n_rows, n_products), optional
            Products of other pairs, beside which they are tested.
        """
        from scipy.special import stdtr

        total, squares, degrees = self.scores(pairs, np.empty((len(pairs), 0)) if similar is None else similar)
        z = np.divide(total, np.sqrt(squares), out=np.zeros_like(total), where=squares > 0)
        return np.stack([total, squares, z, stdtr(degrees, -z)])

    def p_apart(self, pair: tuple[int, ...], pairs: Array, place: int, similar_to: SimilarPairs) -> float:
        """Return the p-value of a pair, which is one column of `pairs`, beside the products of similar ones."""
        n_rows = len(pairs)
        room = min(n_rows // ROWS_PER_SIMILAR, int(MOST_BESIDE * n_rows) - self.n_functions)
        similar = similar_to.products(pair, room)
        return np.nan if similar is None else float(self.test(pairs, similar)[3, place])

    def scores(self, pairs: Array, similar: Array) -> tuple[Array, Array, int]:
        """Return sums over rows for pairs, their variances, and the degrees of freedom."""
        raise NotImplementedError

    def remains(self) -> Remains:
        """Return what is left of the response."""
        raise NotImplementedError


class _LeastSquares(_Fit):
    """The identity link: the functions are orthonormal, and each pair is freed of all others."""

    def further(self, functions: Array) -> Array:
        return orthonormal_beside(self.functions, functions, self.sample.share)

    def scores(self, pairs: Array, similar: Array) -> tuple[Array, Array, int]:
        share, n_pairs = self.sample.share, pairs.shape[1]
        y = freed((self.sample.y - self.sample.offset)[:, None], self.functions, share)
        others = np.column_stack([freed(pairs, self.functions[1:], share), freed(similar, self.functions, share)])
        weighted = share[:, None] * others
        ridge = np.repeat([LEAST_RIDGE, RIDGE_OF_PRODUCTS], [n_pairs, similar.shape[1]])
        inverse = np.linalg.inv(others.T @ weighted + len(share) * np.diag(ridge))
        coefficient = inverse @ (weighted.T @ y)
        direction = others @ (inverse / np.diag(inverse))[:, :n_pairs]
        # What is left of the response without the pair, with everything else as it is.
        left = y - others @ coefficient + direction * coefficient[:n_pairs, 0]
        of_others = others @ np.linalg.cholesky(inverse)
        degrees = self.sample.degrees(self.n_functions + of_others.shape[1])
        return *self.sample.sums(direction, left, share, *self.functions, of_others), degrees

    def remains(self) -> Remains:
        root = np.sqrt(self.sample.share)
        fitted, y = root[:, None] * np.column_stack(self.functions), root * (self.sample.y - self.sample.offset)
        return Remains(y - fitted @ (fitted.T @ y), fitted, self.sample.share, self.sample.block)


class _Ridge(_Fit):
    """The logistic and the log link, with a ridge.

    Functions that are alike share a large coefficient at a small price: the ridge keeps the fit smooth. Pairs are not
    freed of one another here: with all of them in the model too many are found.
    """

    _start: Array | None = None

    def beside(self, functions: Array) -> Self:
        with_more = super().beside(functions)
        with_more._start = self._fitted_alone[1]
        return with_more

    def scores(self, pairs: Array, similar: Array) -> tuple[Array, Array, int]:
        sample = self.sample
        fitted = self._fitted(similar, self._fitted_alone[1]) if similar.shape[1] else self._fitted_alone
        functions, _, unit, y, mean, working, inverse = fitted
        direction = pairs - functions @ (inverse @ (functions.T @ (working[:, None] * pairs)))
        left = (y - mean)[:, None]
        total, squares = sample.sums(direction, left, working, functions @ np.linalg.cholesky(inverse))
        return unit * total, unit**2 * squares, sample.degrees(functions.shape[1] - 1)

    def remains(self) -> Remains:
        functions, _, _, y, mean, working, inverse = self._fitted_alone
        root = np.sqrt(working)
        left = np.divide(self.sample.share * (y - mean), root, out=np.zeros_like(root), where=root > 0)
        fitted = root[:, None] * (functions @ np.linalg.cholesky(inverse))
        return Remains(left, fitted, working, self.sample.block)

    @cached_property
    def _fitted_alone(self) -> tuple[Array, Array, float, Array, Array, Array, Array]:
        return self._fitted(np.empty((len(self.sample.y), 0)), self._start)

    def _fitted(self, more: Array, start: Array | None) -> tuple[Array, Array, float, Array, Array, Array, Array]:
        """Fit the response with further functions, beginning with the coefficients of the first ones.

        Return all functions, their coefficients, the unit of the response, the response in it, its mean, the weights of
        the least squares that were solved last, and the inverse of the information.
        """
        sample = self.sample
        functions = np.column_stack([np.ones(len(more)), *self.functions, more])
        unit, dispersion = sample.unit_and_dispersion()
        ridge = dispersion * np.repeat([0.0, RIDGE], [1, functions.shape[1] - 1])
        y = sample.y / unit
        coefficients, inverse = fitted_coefficients(
            functions, y, sample.share, sample.offset, ridge, sample.link, start
        )
        mean = sample.link.mean(sample.offset + functions @ coefficients)
        return functions, coefficients, unit, y, mean, sample.share * sample.link.weight(mean), inverse


def _tested(
    sample: _Sample,
    functions: Array,
    basis: Array,
    together: Array,
    products_of: Callable[[tuple[int, ...]], Array],
    similar_to: SimilarPairs,
    sets: Sequence[tuple[int, ...]],
    asked: NDArray[np.bool_],
    alpha: float,
    told_apart: float,
    misfit: float,
    columns: tuple[NDArray[np.floating[Any]], NDArray[np.int64]],
) -> tuple[Array, int, dict[tuple[int, ...], tuple[tuple[int, int], ...]], NDArray[np.bool_]]:
    """Return the tests of a comparison, the number of functions, the similar pairs of each, and unfollowed columns.

    The tests are scores, variances, z, p-values, and p-values beside products of similar pairs; NaN where not tested.

    Parameters
    ----------
    sample : _Sample
    functions : array of shape (n_rows, n_functions)
        Additive functions, and what the model does with more features than those of a set; standardised.
    basis : array
        An orthonormal basis of them.
    together : array of shape (n_rows, n_sets)
    products_of : callable
        Products of functions of the features of a set.
    similar_to : SimilarPairs
    sets : sequence of tuple of int
    asked : array of bool of shape (n_sets,)
    alpha, told_apart : float
    misfit : float
        Level at which a column is not followed.
    columns : (array of shape (n_rows, n_features), array of int64 of shape (n_features,))
        The columns, and the feature of each.
    """
    n, share, result = len(sample.y), sample.share, np.full((5, len(sets)), np.nan)
    beside_basis = freed(together, [basis], share)
    variance = np.average(beside_basis**2, axis=0, weights=share)
    varies = variance > 1e-12 * np.maximum(np.average(together**2, axis=0, weights=share), 1e-300)
    is_other = np.array([len(members) == 3 for members in sets], dtype=bool) & ~asked
    # Those that are asked for first, then those that vary most: a choice without the response.
    order = np.lexsort((-variance, ~asked, ~varies | is_other))
    chosen = order[: min(int((varies & ~is_other).sum()), max(1, n // ROWS_PER_PAIR))]
    chosen = np.append(chosen, np.flatnonzero(varies & is_other))
    X, group = columns
    unfollowed: NDArray[np.bool_] = np.zeros(group.size, dtype=bool)
    if not chosen.size or sample.y.min() == sample.y.max():
        return result, basis.shape[1], {}, unfollowed
    scale = np.sqrt(variance)
    scaled = np.divide(beside_basis, scale, out=np.zeros_like(together), where=varies)
    similar = {sets[k]: similar_to.named(sets[k]) for k in chosen.tolist() if len(sets[k]) == 2}
    fit: _Fit = _LeastSquares(sample, basis) if sample.link is IDENTITY else _Ridge(sample, functions)

    def following(k: int) -> Array:
        """Return functions that follow what features do together."""
        return np.column_stack([scaled[:, k], products_of(sets[k])])

    def apart(fit: _Fit, left: list[int], place: int) -> float:
        """Return the p-value beside similar pairs of one of those that are left; NaN for a triple."""
        if len(sets[left[place]]) == 3:
            return np.nan
        return fit.p_apart(sets[left[place]], scaled[:, left], place, similar_to)

    additive, checked = fit, np.zeros(group.size, dtype=bool)
    remains: Remains | None = None
    while True:
        others = np.setdiff1d(np.flatnonzero(varies), chosen)
        fit = additive.beside(scaled[:, others] @ scale[others, None]) if others.size else additive
        joined = _forward(fit, scaled, chosen, following, apart, asked, alpha, told_apart, result)
        # Only a column of a set that would be found can make it a false one.
        found = np.flatnonzero(result[3] <= max(alpha, told_apart)).tolist()
        to_check = np.flatnonzero(np.isin(group, [g for k in found for g in sets[k]]) & ~checked)
        if to_check.size:
            remains = remains or additive.remains()
            unfollowed[to_check] = [remains.p_value(X[:, j]) <= misfit for j in to_check.tolist()]
            checked[to_check] = True
        if not unfollowed[to_check].any():
            break
        without = np.unique(group[unfollowed]).tolist()
        chosen = np.array([k for k in chosen.tolist() if set(sets[k]).isdisjoint(without)], dtype=np.int64)
        result[:] = np.nan
    tested: list[int] = chosen.tolist()
    for k in (k for k in tested if len(sets[k]) == 3 and asked[k]):
        inside = [j for j in tested if len(sets[j]) == 2 and set(sets[j]) <= set(sets[k])]
        beside = fit
        for j in [*inside, *(j for j in joined if j not in [*inside, k])]:
            beside = beside.following(following(j))
        left = [j for j in tested if j not in [*inside, *joined, k]]
        result[:4, [k]] = beside.test(scaled[:, [*left, k]])[:, -1:]
    alone = [not similar.get(members) for members in sets]
    result[4, alone] = result[3, alone]
    result[0], result[1] = result[0] * scale / n, result[1] * (scale / n) ** 2
    result[:, ~asked] = np.nan
    return result, basis.shape[1], similar, unfollowed


def _forward(
    fit: _Fit,
    scaled: Array,
    chosen: NDArray[np.int64],
    following: Callable[[int], Array],
    apart: Callable[[_Fit, list[int], int], float],
    asked: NDArray[np.bool_],
    alpha: float,
    told_apart: float,
    result: Array,
) -> list[int]:
    """Write sums, variances, z and p-values of tests into `result`, and return the sets that joined the model.

    The set with the smallest p-value joins the additive model if that is at most `alpha` over the number of sets that
    are left, with functions that follow any interaction of its features, and the others are tested again. So what the
    trees leave of a strong interaction does not show in others. A pair that joins is tested beside similar pairs, and
    so are those in the end whose p-value is at most `told_apart`.
    """
    left, joined = chosen.tolist(), list[int]()
    while left:
        tests = fit.test(scaled[:, left])
        result[:4, left] = tests
        times = np.where(asked[left], asked[left].sum(), len(left))
        best = int(np.argmin(tests[3] * times))
        if tests[3, best] * times[best] > alpha:
            for place in np.flatnonzero(asked[left] & (tests[3] <= told_apart)).tolist():
                result[4, left[place]] = apart(fit, left, place)
            break
        if asked[left[best]]:
            result[4, left[best]] = apart(fit, left, best)
        joined.append(left.pop(best))
        fit = fit.following(following(joined[-1]))
    return joined
