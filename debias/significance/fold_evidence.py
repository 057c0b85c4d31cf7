"""Evidence of several folds about the same features: how their tests depend on one another, and one test of all.

The studentised score z_k of a noise feature in fold k compares the response of the test rows T_k with what the model
learned from the training rows U_k. To first order it is a bilinear form, the product of a sum over T_k and a sum over
U_k of independent vectors with mean 0, one for each row. Two such forms share the pairs of a test row and a training
row that are in both, in either role, so their correlation is (:func:`fold_correlation`)

    (|T_k & T_l| |U_k & U_l| + |T_k & U_l| |U_k & T_l|) / sqrt(|T_k| |U_k| |T_l| |U_l|).

Among K folds of cross-validation it is 1 / (K - 1), although their test rows are disjoint: an association that arises
by chance between the rows of fold 1 and fold 2 is learned by model 2 and confirmed by fold 2 of model 1, and the other
way round. So the sum of the z of K folds has a variance of up to 2 K, and not K. Models whose trees divide the rows in
different ways share less, so this is an upper limit (docs/folds.md has measured levels).

That is so of a feature that is given. Models choose few of many features, and by rows that are test rows of other
folds, so the chosen ones go with the response in all rows: :class:`Choice`. A feature that some folds do not use was
left out by them because of these rows, so its sum is compared with that of a feature that all folds use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from debias import p_values
from debias.significance.permutation import pools

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from debias.results.scores import Scores
    from debias.significance.procedure import Procedure

Combination = Literal["sum", "harmonic"]
COMBINATIONS: tuple[str, ...] = get_args(Combination)
"""How the evidence of folds is combined, by the name that users pass as ``combine=``."""
FEWEST_FOLDS = 3
"""With 2 folds each row counts as much in one fold as in the other, so their difference tells nothing."""
LARGEST_FACTOR = 10.0
"""If the variance of the mean is more than this many times that between folds, what the folds have in common hides it:
about as many rows are held out as are trained on. It is 5.3 for 3 folds."""
ROUNDING = 1e-9
"""A ratio this close to 1 is 1."""
LANDAU_LOCATION = 1 - np.euler_gamma + np.log(np.pi / 2)
"""About 0.874: the location of the Landau distribution for one p-value (Wilson 2019, equation 4)."""


@dataclass(frozen=True, eq=False)
class FoldEvidence:
    """The combined evidence of several folds.

    Parameters
    ----------
    z : array of shape (n_features,), or None
        Combined statistic: for a noise feature its variance is at most about 1. None if p-values are combined.
    p_value : array of shape (n_features,)
        One-sided p-values of single features.
    p_adjusted : array of shape (n_features,)
        P-values that are adjusted for the number of features.
    details : dict
        How they were made.
    """

    z: NDArray[np.float64] | None
    p_value: NDArray[np.float64]
    p_adjusted: NDArray[np.float64]
    details: dict[str, Any]


@dataclass(frozen=True)
class Choice:
    """From how many features models chose those that they use, by rows that are test rows of other folds.

    A noise feature has a large sum of z only if it goes with the response over the test rows of all folds together: for
    trees that are fixed, the sum has the smaller variance w'R_0 w, and it is compared with w'R w. So the probability
    that any of the features, used or not, has a sum of z or more is, to first order, at most
    ``2 n_features (1 - Phi(z sqrt(w'R w / w'R_0 w)))``.

    Parameters
    ----------
    n_features : int
        Number of features with more than one value.
    ratio : float
        w'R w / w'R_0 w: 2 for K folds, and 1 where no test row is a training row of an earlier fold.
    """

    n_features: int
    ratio: float

    def bound(self, z: NDArray[np.float64], n_used: int) -> NDArray[np.float64] | None:
        """Return the bound for each z; None where it says nothing: all models use all features, or the ratio is 1.

        Parameters
        ----------
        z : array of shape (n_features,)
        n_used : int
            Number of features that all models use.
        """
        from scipy.special import ndtr

        if self.n_features <= n_used or self.ratio < 1 + ROUNDING:
            return None
        bound: NDArray[np.float64] = np.minimum(2 * self.n_features * ndtr(-z * np.sqrt(self.ratio)), 1.0)
        return bound


def choice_of(
    n_features: int,
    test: Sequence[NDArray[np.int64]],
    n_rows: int,
    correlation: NDArray[np.float64],
    weight: NDArray[np.float64],
) -> Choice:
    """Return the choice of the models of folds.

    Parameters
    ----------
    n_features : int
    test, n_rows
        As for :func:`fold_correlation`.
    correlation, weight
        As for :func:`combine`.
    """
    tests, *_ = _shared_rows(test, test, n_rows)
    size = np.sqrt(np.diag(tests))
    of_fixed_trees = tests / np.outer(size, size)
    return Choice(n_features, float(weight @ correlation @ weight / (weight @ of_fixed_trees @ weight)))


def fold_correlation(
    train: Sequence[NDArray[np.int64] | None], test: Sequence[NDArray[np.int64]], n_rows: int
) -> NDArray[np.float64]:
    """Return the correlation of the z of a noise feature between folds, to first order.

    Parameters
    ----------
    train : sequence of (array of int64, or None)
        Positions of the training rows of each fold. If they are not known (None), all rows that are not test rows.
    test : sequence of array of int64
        Positions of the test rows of each fold.
    n_rows : int

    Returns
    -------
    array of shape (n_folds, n_folds)

    Notes
    -----
    The formula is in the description of this module. For K folds it is 1 / (K - 1). For a split by time, where later
    rows are never training rows of an earlier fold, it is 0: each z has mean 0 whatever the earlier rows are.

    Examples
    --------
    >>> import numpy as np
    >>> halves = [np.arange(0, 10), np.arange(10, 20)]
    >>> fold_correlation(halves[::-1], halves, 20)
    array([[1., 1.],
           [1., 1.]])
    """
    tests, trains, crossed = _shared_rows(train, test, n_rows)
    size = np.sqrt(np.diag(tests) * np.diag(trains))
    correlation: NDArray[np.float64] = (tests * trains + crossed * crossed.T) / np.outer(size, size)
    np.fill_diagonal(correlation, 1.0)  # without rounding
    return correlation


def combine(
    scores: Sequence[Scores],
    correlation: NDArray[np.float64],
    weight: NDArray[np.float64],
    how: str,
    procedure: Procedure,
    seed: int,
    choice: Choice | None = None,
) -> FoldEvidence:
    """Combine the tests of folds.

    Parameters
    ----------
    scores : sequence of Scores
        The tested scores of each fold, of the same features in the same order.
    correlation : array of shape (n_folds, n_folds)
        See :func:`fold_correlation`.
    weight : array of shape (n_folds,)
        Weight of the z of each fold: the square root of its number of test rows.
    how : {"sum", "harmonic"}
        "sum": the weighted sum of z, with the variance that shared rows allow; see :func:`sum_of_z`. "harmonic": the
        harmonic mean of p-values; see :func:`harmonic_mean`.
    procedure : Procedure
        The procedure of the tests of the folds.
    seed : int
        Seed of the random pairing of the folds' permutation draws.
    choice : Choice, optional
        For the sum. By default the models are taken to use all features.

    Returns
    -------
    FoldEvidence
    """
    if how == "harmonic":
        return harmonic_mean(scores, procedure)
    return sum_of_z(scores, correlation, weight, procedure, seed, choice)


def sum_of_z(
    scores: Sequence[Scores],
    correlation: NDArray[np.float64],
    weight: NDArray[np.float64],
    procedure: Procedure,
    seed: int,
    choice: Choice | None = None,
) -> FoldEvidence:
    """Test the weighted sum of z over folds; parameters as for :func:`combine`.

    The statistic is w'z / sqrt(w'R w) with the correlation R. If all folds were permuted, it is compared with sums over
    the draws of the folds, one draw of each at a time, which are independent between folds: w'z* / sqrt(w'w), where w
    has only the folds that use the feature. With few rows these have the right tails, and step-down max-z uses that
    features depend on one another. If not, the p-values of the folds are turned into normal quantiles, their sum is
    compared with the normal distribution, and the p-values are adjusted by Holm's method. No p-value is below what the
    choice of the features allows.
    """
    scale = np.sqrt(weight @ correlation @ weight)
    used_by_all = int(np.all([_present(each.z) != 0 for each in scores], axis=0).sum())
    nulls = [each.null for each in scores if each.null is not None]
    if len(nulls) == len(scores):
        z: NDArray[np.float64] = weight @ np.stack([_present(each.z) for each in scores]) / scale
        # The observed folds share rows and the draws do not, so each sum is divided by its own standard deviation.
        null = _sum_of_draws(nulls, weight, seed)
        pooled = pools(procedure, max(1, int((z != 0).sum())))
        p_value = p_values.pooled_p_values(z, null) if pooled else p_values.permutation_p_values(z, null)
        p_value, bound = _at_least(p_value, z, choice, used_by_all)
        p_adjusted = p_values.adjusted_by_draws(p_value, procedure.error, z, null)
        details: dict[str, Any] = {"n_permutations": len(null), **({"pooled": True} if pooled else {})}
    else:
        z = weight @ np.stack([_normal_scores(each) for each in scores]) / scale
        p_value, bound = _at_least(upper_tail(z), z, choice, used_by_all)
        p_adjusted = p_values.adjusted(p_value, procedure.error, z != 0)
        details = {}
    if bound is not None and procedure.error == "fwer":
        p_adjusted = np.maximum(p_adjusted, bound)
    off_diagonal = correlation[~np.eye(len(correlation), dtype=bool)]
    mean = float(off_diagonal.mean()) if off_diagonal.size else 0.0
    return FoldEvidence(z, p_value, p_adjusted, {"method": "sum of z", "correlation": mean, **details})


def _at_least(
    p_value: NDArray[np.float64], z: NDArray[np.float64], choice: Choice | None, used_by_all: int
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Return p-values that are at least the bound of the choice, divided by the number of used features; the bound."""
    bound = None if choice is None else choice.bound(z, used_by_all)
    if bound is None:
        return p_value, None
    n_used = max(int((z != 0).sum()), 1)
    return np.maximum(p_value, bound / n_used), bound


def upper_tail(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return p-values of sums of normal quantiles; 1 where no fold uses a feature, so that z is 0."""
    from scipy.special import ndtr

    # The lower tail of -z keeps the digits of small p-values.
    p_value: NDArray[np.float64] = np.where(z == 0, 1.0, np.maximum(ndtr(-z), np.finfo(float).tiny))
    return p_value


def normal_scores(p_value: NDArray[np.float64], smallest: float = np.finfo(float).tiny) -> NDArray[np.float64]:
    """Return normal quantiles of one-sided p-values, large for small ones.

    Parameters
    ----------
    p_value : array of float64
    smallest : float
        No p-value is taken to be smaller: the quantile of 0 is infinite, and one such fold would decide a sum alone.
    """
    from scipy.special import ndtri

    largest = 1 - max(smallest, np.finfo(float).eps)
    scores: NDArray[np.float64] = -ndtri(np.clip(p_value, smallest, largest))
    return scores


def harmonic_mean(scores: Sequence[Scores], procedure: Procedure) -> FoldEvidence:
    """Combine p-values of folds by their harmonic mean (Wilson 2019); parameters as for :func:`combine`.

    For the family-wise error the adjusted p-values of the folds are combined: the smallest step-down p-value of the
    noise features is a p-value of its fold, so their combination controls the family-wise error too.
    """
    p_value = harmonic_p_values(np.stack([_present(each.p_value) for each in scores]))
    if procedure.error == "fwer":
        p_adjusted = harmonic_p_values(np.stack([_present(each.p_adjusted) for each in scores]))
    else:
        used = np.any([_present(each.z) != 0 for each in scores], axis=0)
        p_adjusted = p_values.adjusted(p_value, procedure.error, used)
    return FoldEvidence(None, p_value, p_adjusted, {"method": "harmonic mean of p-values"})


def harmonic_p_values(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the asymptotically exact p-values of harmonic means (Wilson 2019, equation 4).

    1 / (harmonic mean) has a Landau distribution with location log(K) + 0.874 and scale pi / 2 in its upper tail, for
    independent p-values, and approximately for dependent ones. The p-value is never smaller than the harmonic mean.

    Parameters
    ----------
    p : array of shape (n_folds, n_features)
        P-values above 0.

    Returns
    -------
    array of shape (n_features,)
    """
    n_folds = len(p)
    mean = n_folds / (1 / p).sum(axis=0)
    if n_folds == 1:
        return mean
    location = np.log(n_folds) + LANDAU_LOCATION
    at, back = np.unique(mean, return_inverse=True)
    tail = np.array([_landau_tail((1 / each - location) / (np.pi / 2)) for each in at])
    return np.clip(np.maximum(tail, at), 0.0, 1.0)[back]


def standard_error(
    scores: NDArray[np.float64],
    train: Sequence[NDArray[np.int64] | None],
    test: Sequence[NDArray[np.int64]],
    n_rows: int,
) -> NDArray[np.float64] | None:
    """Return the standard error of the mean score over folds that share rows.

    Parameters
    ----------
    scores : array of shape (n_folds, n_features)
    train, test, n_rows
        As for :func:`fold_correlation`.

    Returns
    -------
    array of shape (n_features,), or None
        None if the differences between folds tell too little: fewer than 3 folds, or halves as training and test rows.

    Notes
    -----
    The score of a relevant feature is the product of the effect that the model learned from the training rows U_k and
    the effect in the test rows T_k. To first order it deviates from its expectation by the mean of some function of a
    row over T_k plus its mean over U_k: by the product of that function with a vector a_k over rows, which is 1 / |T_k|
    for the test rows plus 1 / |U_k| for the training rows. So the mean score has the variance |a|^2 v, where a is the
    mean of a_k and v the variance of the function, and the variance S^2 between folds has the expectation
    v sum |a_k - a|^2 / (K - 1). The ratio of both is the factor of S^2 here.

    For 5 folds the factor is 1.42. Nadeau and Bengio (2003) take 1 / K + n_test / n_train = 0.45, which is right for a
    score in which the training rows count little; docs/results/folds.md has the coverage of both. For a feature of
    noise the product has no such first-order term, and this error is too large, which is safe.
    """
    n_folds = len(scores)
    if n_folds < FEWEST_FOLDS:
        return None
    tests, trains, crossed = _shared_rows(train, test, n_rows)
    n_test, n_train = np.diag(tests), np.diag(trains)
    products = tests / np.outer(n_test, n_test) + trains / np.outer(n_train, n_train)  # a_k'a_l
    products += crossed / np.outer(n_test, n_train) + crossed.T / np.outer(n_train, n_test)
    of_mean = products.mean()
    between = (np.trace(products) - n_folds * of_mean) / (n_folds - 1)
    if of_mean > LARGEST_FACTOR * between:
        return None
    error: NDArray[np.float64] = np.sqrt(of_mean / between * scores.var(axis=0, ddof=1))
    return error


def _sum_of_draws(nulls: Sequence[NDArray[np.float64]], weight: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """Return weighted sums of one draw of each fold, shape (n_draws, n_features), in their standard deviations."""
    n_draws = min(map(len, nulls))
    total = np.zeros((n_draws, nulls[0].shape[1]))
    of_used = np.zeros(total.shape[1])
    for k, null in enumerate(nulls):
        # Folds of one size were permuted by the same orders, so the draws are paired at random.
        order = np.random.default_rng(np.random.SeedSequence([seed, k])).permutation(len(null))
        total += weight[k] * null[order[:n_draws]]
        of_used += weight[k] ** 2 * (null != 0).any(axis=0)
    return total / np.sqrt(np.where(of_used > 0, of_used, 1.0))


def _normal_scores(scores: Scores) -> NDArray[np.float64]:
    """Return the normal quantiles of the p-values of a fold; 0 for a feature that its model does not use."""
    p, z = _present(scores.p_value), _present(scores.z)
    smallest = np.finfo(float).tiny if scores.null is None else 1 / (1 + len(scores.null))
    return np.where(z == 0, 0.0, normal_scores(p, smallest))


def _landau_tail(x: float) -> float:
    """Return the probability that a Landau variable in its standard form is above x."""
    from scipy.integrate import quad

    # The integral of the density of Wilson (2019), equation 4, from x on; the integrand is at most 2 near t = 0.
    def integrand(t: float) -> float:
        return float(np.exp(-t * x - 2 / np.pi * t * np.log(t)) * np.sin(2 * t) / t) if t > 0 else 2.0

    return float(quad(integrand, 0, np.inf, limit=200)[0] / np.pi)


def _shared_rows(
    train: Sequence[NDArray[np.int64] | None], test: Sequence[NDArray[np.int64]], n_rows: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the numbers of rows |T_k & T_l|, |U_k & U_l| and |T_k & U_l|, each of shape (n_folds, n_folds)."""
    tests = [_mask(rows, n_rows) for rows in test]
    trains = [~tests[k] if rows is None else _mask(rows, n_rows) for k, rows in enumerate(train)]
    pairs = ((tests, tests), (trains, trains), (tests, trains))
    of_tests, of_trains, crossed = (
        np.array([[np.count_nonzero(one & other) for other in others] for one in ones], dtype=np.float64)
        for ones, others in pairs
    )
    return of_tests, of_trains, crossed


def _mask(positions: NDArray[np.int64], n_rows: int) -> NDArray[np.bool_]:
    mask = np.zeros(n_rows, dtype=bool)
    mask[positions] = True
    return mask


def _present(values: NDArray[np.float64] | None) -> NDArray[np.float64]:
    assert values is not None  # only tested scores are combined
    return values
