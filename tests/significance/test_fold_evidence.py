"""The dependence of folds and the combination of their tests, against definitions by brute force and simulation."""

from itertools import product

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from sklearn.model_selection import KFold, RepeatedKFold, ShuffleSplit, TimeSeriesSplit

from debias.p_values import false_discovery, holm, step_down_max
from debias.results.scores import Scores
from debias.significance.fold_evidence import (
    Choice,
    choice_of,
    combine,
    fold_correlation,
    harmonic_mean,
    harmonic_p_values,
    standard_error,
    sum_of_z,
)
from debias.significance.procedure import Permutation, Procedure

N_ROWS = 24
SPLITTERS = [
    KFold(2),
    KFold(5, shuffle=True, random_state=0),
    RepeatedKFold(n_splits=4, n_repeats=3, random_state=1),
    ShuffleSplit(5, test_size=0.3, train_size=0.5, random_state=2),
    TimeSeriesSplit(4),
    TimeSeriesSplit(4, max_train_size=6, gap=1),
]
FWER = Procedure(limits=Permutation(39))


def parts(splitter, n_rows=N_ROWS):
    splits = list(splitter.split(np.zeros(n_rows)))
    return [train for train, _ in splits], [test for _, test in splits]


def correlation_of_pairs(train, test):
    """Return the correlation of sums over pairs of a test row and a training row, each pair with a random number.

    The number of a pair is the same whichever of its rows is the test row.
    """
    pairs = [{frozenset(pair) for pair in product(a.tolist(), b.tolist())} for a, b in zip(train, test, strict=True)]
    return np.array([[len(one & other) / np.sqrt(len(one) * len(other)) for other in pairs] for one in pairs])


def scores_of(z, null=None, p_value=None, error="fwer"):
    """Return scores with these numbers of a test, and p-values as the tests make them."""
    z = np.asarray(z, dtype=np.float64)
    if null is not None:
        p_value, p_adjusted = (1 + (null >= z).sum(axis=0)) / (1 + len(null)), step_down_max(z, null)
    else:
        p_value = stats.norm.sf(z) if p_value is None else np.asarray(p_value)
        p_adjusted = holm(p_value)
    return Scores(
        values=z,
        feature_names=tuple(f"x{k}" for k in range(z.size)),
        scorer="mdi_oob",
        unit="",
        rows="held-out",
        n_rows=10,
        provenance={},
        details={"test": {"alpha": 0.05, "error": error}},
        warnings=(),
        settings={},
        z=z,
        p_value=p_value,
        p_adjusted=p_adjusted,
        selected=p_adjusted <= 0.05,
        null=null,
    )


def permuted(rng, n_features=4, n_draws=39, shift=0.0):
    return scores_of(rng.normal(size=n_features) + shift, rng.normal(size=(n_draws, n_features)))


@pytest.mark.parametrize("splitter", SPLITTERS, ids=str)
def test_the_correlation_of_folds_counts_the_pairs_of_rows_that_they_share(splitter):
    train, test = parts(splitter)
    assert fold_correlation(train, test, N_ROWS) == pytest.approx(correlation_of_pairs(train, test))


@pytest.mark.parametrize("n_folds", [2, 3, 6])
def test_folds_of_a_cross_validation_have_correlation_1_over_k_minus_1(n_folds):
    correlation = fold_correlation(*parts(KFold(n_folds)), N_ROWS)
    expected = np.full((n_folds, n_folds), 1 / (n_folds - 1))
    np.fill_diagonal(expected, 1)
    assert correlation == pytest.approx(expected)
    assert correlation.sum() == pytest.approx(2 * n_folds)


def test_periods_are_uncorrelated():
    assert np.array_equal(fold_correlation(*parts(TimeSeriesSplit(4)), N_ROWS), np.eye(4))


def test_training_rows_that_are_not_known_are_all_others():
    train, test = parts(KFold(4))
    known = fold_correlation(train, test, N_ROWS)
    assert np.array_equal(fold_correlation([None] * 4, test, N_ROWS), known)
    assert np.array_equal(fold_correlation([train[0], None, train[2], None], test, N_ROWS), known)


@pytest.mark.parametrize("splitter", [SPLITTERS[0], SPLITTERS[1], SPLITTERS[2], SPLITTERS[4]], ids=str)
def test_bilinear_scores_of_noise_have_this_correlation(splitter):
    """Means over test rows, projected on means over training rows, of vectors with mean 0."""
    rng, n_sets, dimension = np.random.default_rng(0), 4000, 60
    train, test = parts(splitter)
    rows = rng.normal(size=(n_sets, N_ROWS, dimension))
    learned = np.stack([rows[:, part].sum(axis=1) for part in train])
    seen = np.stack([rows[:, part].sum(axis=1) for part in test])
    z = np.einsum("kid,kid->ki", learned / np.linalg.norm(learned, axis=2, keepdims=True), seen)
    z /= np.sqrt([[part.size] for part in test])
    expected = fold_correlation(train, test, N_ROWS)
    error = (1 - expected**2) / np.sqrt(n_sets)
    # lengths of the vectors vary a little, which takes up to 1 / dimension off the correlation
    assert (np.abs(np.corrcoef(z) - expected) <= 4 * error + 1.5 / dimension).all()


def test_the_sum_of_z_follows_its_definition():
    rng = np.random.default_rng(0)
    scores, weight = [permuted(rng, shift=1.0) for _ in range(3)], np.array([1.0, 2.0, 1.5])
    correlation = fold_correlation(*parts(KFold(3)), N_ROWS)
    evidence = sum_of_z(scores, correlation, weight, FWER, seed=3)
    variance = sum(weight[k] * weight[m] * correlation[k, m] for k in range(3) for m in range(3))
    z = sum(w * each.z for w, each in zip(weight, scores, strict=True)) / np.sqrt(variance)
    orders = [np.random.default_rng(np.random.SeedSequence([3, k])).permutation(39) for k in range(3)]
    null = sum(w * each.null[order] for w, each, order in zip(weight, scores, orders, strict=True))
    null = null / np.sqrt((weight**2).sum())
    assert evidence.z == pytest.approx(z)
    assert evidence.p_value == pytest.approx((1 + (null >= z).sum(axis=0)) / 40)
    assert evidence.p_adjusted == pytest.approx(step_down_max(z, null))
    assert evidence.details == {"method": "sum of z", "correlation": pytest.approx(0.5), "n_permutations": 39}


def test_one_fold_keeps_its_own_p_values():
    scores = permuted(np.random.default_rng(1), shift=1.0)
    for how in ("sum", "harmonic"):
        evidence = combine([scores], np.eye(1), np.ones(1), how, FWER, 0)
        assert evidence.p_value == pytest.approx(scores.p_value)
        assert evidence.p_adjusted == pytest.approx(scores.p_adjusted)


def test_draws_are_paired_at_random_so_that_folds_with_equal_draws_are_independent():
    rng = np.random.default_rng(2)
    null, z = rng.normal(size=(1999, 3)), np.array([1.0, 0.0, 2.0])
    scores = [scores_of(z, null), scores_of(z, null)]
    evidence = sum_of_z(scores, np.eye(2), np.ones(2), Procedure(limits=Permutation(1999)), seed=0)
    # normal draws with variance 1; if equal draws met, their sum would have a variance of 2
    assert evidence.p_value == pytest.approx(stats.norm.sf(2 * z / np.sqrt(2)), abs=4 * 0.5 / np.sqrt(2000))


def test_the_fold_with_the_fewest_draws_limits_their_number():
    rng = np.random.default_rng(3)
    scores = [permuted(rng, n_draws=39), permuted(rng, n_draws=25)]
    assert sum_of_z(scores, np.eye(2), np.ones(2), FWER, 0).details["n_permutations"] == 25


def test_folds_with_and_without_draws_are_combined_by_normal_quantiles():
    rng = np.random.default_rng(4)
    by_draws, by_t = permuted(rng, 3), scores_of([1.0, 0.0, 9.0], p_value=[0.02, 1.0, 1e-12])
    correlation = np.array([[1.0, 0.3], [0.3, 1.0]])
    evidence = sum_of_z([by_draws, by_t], correlation, np.array([1.0, 2.0]), FWER, 0)
    first = stats.norm.isf(np.clip(by_draws.p_value, 1 / 40, 39 / 40))
    second = np.array([stats.norm.isf(0.02), 0.0, stats.norm.isf(1e-12)])  # the second model does not use x1
    z = (first + 2 * second) / np.sqrt(1 + 4 + 2 * 2 * 0.3)
    assert evidence.z == pytest.approx(z)
    assert evidence.p_value == pytest.approx(stats.norm.sf(z))
    assert evidence.p_adjusted == pytest.approx(holm(stats.norm.sf(z)))
    assert "n_permutations" not in evidence.details


def test_a_feature_that_no_model_uses_has_p_value_1():
    unused = scores_of([0.0, 2.0], p_value=[1.0, 0.02])
    evidence = sum_of_z([unused, unused], np.eye(2), np.ones(2), FWER, 0)
    assert evidence.p_value[0] == evidence.p_adjusted[0] == 1


@pytest.mark.parametrize("error", ["fdr", "fdr_by"])
@pytest.mark.parametrize("how", ["sum", "harmonic"])
def test_false_discovery_rates_adjust_the_combined_p_values(error, how):
    rng = np.random.default_rng(5)
    scores = [permuted(rng, shift=1.5) for _ in range(2)]
    evidence = combine(scores, np.eye(2), np.ones(2), how, Procedure(error=error), 0)
    assert evidence.p_adjusted == pytest.approx(false_discovery(evidence.p_value, error == "fdr_by"))


def test_draws_of_many_features_are_pooled_for_a_false_discovery_rate():
    rng = np.random.default_rng(6)
    scores = [permuted(rng, n_features=60, n_draws=199, shift=np.r_[8.0, np.zeros(59)]) for _ in range(2)]
    evidence = sum_of_z(scores, np.eye(2), np.ones(2), Procedure(error="fdr", limits=Permutation(199)), 0)
    assert evidence.details["pooled"] is True
    assert evidence.p_value[0] < 1 / 200


def landau_density(x):
    def integrand(t):
        return np.exp(-t * x - 2 / np.pi * t * np.log(t)) * np.sin(2 * t)

    return quad(integrand, 0, np.inf, limit=200)[0] / np.pi


@pytest.mark.parametrize("n_folds", [2, 5, 15])
def test_harmonic_p_values_are_the_tail_of_the_landau_distribution(n_folds):
    p = np.full((n_folds, 1), 0.04)
    location, scale = np.log(n_folds) + 1 - np.euler_gamma + np.log(np.pi / 2), np.pi / 2
    tail = quad(landau_density, (25 - location) / scale, 400, limit=200)[0]
    beyond = 1 / 400 * 2 / np.pi  # the density falls like (2 / pi) / x^2
    assert harmonic_p_values(p)[0] == pytest.approx(tail + beyond, rel=0.01)


@pytest.mark.parametrize("n_folds", [2, 5, 15])
def test_harmonic_p_values_of_independent_p_values_have_their_level(n_folds):
    p = np.random.default_rng(7).uniform(size=(n_folds, 20_000))
    mean = n_folds / (1 / p).sum(axis=0)
    critical = np.interp(0.01, harmonic_p_values(np.tile(grid := np.linspace(0.004, 0.02, 50), (n_folds, 1))), grid)
    assert (mean <= critical).mean() == pytest.approx(0.01, abs=3 * np.sqrt(0.01 * 0.99 / 20_000))


def test_the_harmonic_mean_combines_adjusted_p_values_for_the_family_wise_error():
    rng = np.random.default_rng(8)
    scores = [permuted(rng, shift=1.5) for _ in range(3)]
    evidence = harmonic_mean(scores, FWER)
    assert evidence.z is None
    assert np.array_equal(evidence.p_adjusted, harmonic_p_values(np.stack([each.p_adjusted for each in scores])))
    assert np.array_equal(evidence.p_value, harmonic_p_values(np.stack([each.p_value for each in scores])))
    plain = 3 / sum(1 / each.p_adjusted for each in scores)
    assert (evidence.p_adjusted >= plain).all()


def weights_of_rows(train, test):
    """Return the vectors a_k: weights of rows in the mean over the test rows plus the mean over the training rows."""
    weights = np.zeros((len(test), N_ROWS))
    for k, (of_train, of_test) in enumerate(zip(train, test, strict=True)):
        weights[k, of_test] += 1 / of_test.size
        weights[k, of_train] += 1 / of_train.size
    return weights


@pytest.mark.parametrize("splitter", SPLITTERS[1:], ids=str)
def test_the_standard_error_follows_its_definition(splitter):
    train, test = parts(splitter)
    scores = np.random.default_rng(9).normal(size=(len(test), 2))
    weights = weights_of_rows(train, test)
    mean = weights.mean(axis=0)
    between = sum((each - mean) @ (each - mean) for each in weights) / (len(test) - 1)
    expected = np.sqrt(mean @ mean / between * scores.var(axis=0, ddof=1))
    assert standard_error(scores, train, test, N_ROWS) == pytest.approx(expected)


def test_the_standard_error_of_folds_has_a_factor_that_depends_on_their_number():
    for n_folds in (3, 4, 6, 12):
        factor = 4 * (n_folds - 1) ** 2 / ((n_folds - 2) ** 2 * n_folds)
        scores = np.random.default_rng(10).normal(size=(n_folds, 1))
        expected = np.sqrt(factor * scores.var(axis=0, ddof=1))
        assert standard_error(scores, *parts(KFold(n_folds)), N_ROWS) == pytest.approx(expected)


@pytest.mark.parametrize("splitter", [KFold(2), RepeatedKFold(n_splits=2, n_repeats=3), ShuffleSplit(9, test_size=0.5)])
def test_halves_tell_no_standard_error(splitter):
    train, test = parts(splitter)
    assert standard_error(np.random.default_rng(0).normal(size=(len(test), 1)), train, test, N_ROWS) is None


@pytest.mark.parametrize("splitter", SPLITTERS[1:], ids=str)
def test_intervals_of_products_of_effects_cover(splitter):
    """Scores of a relevant feature: the mean over test rows times the mean over training rows."""
    rng, n_sets, effect = np.random.default_rng(11), 4000, 30.0
    train, test = parts(splitter)
    rows = effect + rng.normal(size=(n_sets, N_ROWS))
    scores = np.stack([rows[:, u].mean(axis=1) * rows[:, t].mean(axis=1) for u, t in zip(train, test, strict=True)])
    error = standard_error(scores, train, test, N_ROWS)
    ratio = np.sqrt((error**2).mean()) / scores.mean(axis=0).std()
    assert ratio == pytest.approx(
        1, abs=4 / np.sqrt(2 * n_sets) + 4 * (error**2).std() / (error**2).mean() / 2 / np.sqrt(n_sets)
    )


def test_the_standard_error_of_nadeau_and_bengio_would_be_too_small():
    rng, (train, test) = np.random.default_rng(12), parts(KFold(4))
    rows = 30.0 + rng.normal(size=(2000, N_ROWS))
    scores = np.stack([rows[:, u].mean(axis=1) * rows[:, t].mean(axis=1) for u, t in zip(train, test, strict=True)])
    theirs = np.sqrt((1 / 4 + 1 / 3) * scores.var(axis=0, ddof=1))
    assert np.sqrt((theirs**2).mean()) < 0.7 * scores.mean(axis=0).std()


@pytest.mark.parametrize("splitter", SPLITTERS, ids=str)
def test_the_ratio_is_that_of_the_variances_with_models_that_learn_and_with_fixed_trees(splitter):
    train, test = parts(splitter)
    correlation, weight = fold_correlation(train, test, N_ROWS), np.sqrt([part.size for part in test])
    choice = choice_of(7, test, N_ROWS, correlation, weight)
    rows = np.zeros((len(test), N_ROWS))
    for of_fold, part in zip(rows, test, strict=True):
        of_fold[part] = 1 / np.sqrt(part.size)  # the z of fixed trees is the mean over the test rows, to scale
    fixed = rows @ rows.T
    assert choice.ratio == pytest.approx((weight @ correlation @ weight) / (weight @ fixed @ weight))
    if isinstance(splitter, KFold):
        assert choice.ratio == pytest.approx(2, rel=0.02)  # folds of 24 rows are not all of one size
    if isinstance(splitter, TimeSeriesSplit):
        assert choice.ratio == pytest.approx(1)


@pytest.mark.thorough
@pytest.mark.parametrize(("n_folds", "n_used"), [(5, 5), (50, 1)])
def test_where_models_choose_few_of_many_features_noise_is_found_no_more_often(n_folds, n_used):
    """Each model uses those of 200 features of noise that go best with the response in its training rows.

    With 50 folds nearly all models choose the same feature, and only the bound knows that it is the best of 200.
    """
    n_sets, n_features, n_draws = 200, 200, 199
    rng, found = np.random.default_rng(0), {"with choice": 0, "without": 0}
    train, test = parts(KFold(n_folds), 100)
    correlation, weight = fold_correlation(train, test, 100), np.ones(n_folds)
    choice = choice_of(n_features, test, 100, correlation, weight)
    procedure = Procedure(limits=Permutation(n_draws))
    for number in range(n_sets):
        association = rng.normal(size=(100, n_features))
        folds = []
        for U, T in zip(train, test, strict=True):
            learned = association[U].sum(axis=0)
            used = np.argsort(-np.abs(learned))[:n_used]
            z, null = np.zeros(n_features), np.zeros((n_draws, n_features))
            z[used] = np.sign(learned[used]) * association[T][:, used].sum(axis=0) / np.sqrt(T.size)
            null[:, used] = rng.normal(size=(n_draws, n_used))
            folds.append(scores_of(z, null))
        for name, of in (("with choice", choice), ("without", None)):
            found[name] += (sum_of_z(folds, correlation, weight, procedure, number, of).p_adjusted <= 0.05).any()
    error = np.sqrt(0.05 * 0.95 / n_sets)
    assert found["with choice"] / n_sets <= 0.05 + 3 * error
    if n_used == 1:
        assert found["without"] / n_sets > 0.05 + 3 * error


def test_a_feature_that_few_folds_use_is_compared_with_one_that_all_use():
    rng, (train, test) = np.random.default_rng(0), parts(KFold(4))
    z, nulls = rng.normal(size=(4, 3)), rng.normal(size=(4, 59, 3))
    z[1:, 1], nulls[1:, :, 1] = 0, 0  # the other folds have no split on it
    correlation, weight = fold_correlation(train, test, N_ROWS), np.ones(4)
    folds = [scores_of(own, null) for own, null in zip(z, nulls, strict=True)]
    found = sum_of_z(folds, correlation, weight, Procedure(limits=Permutation(59)), 0)
    combined = z[0, 1] / np.sqrt(correlation.sum())
    assert found.z[1] == pytest.approx(combined)
    assert found.p_value[1] == (1 + (nulls[0, :, 1] >= combined).sum()) / 60


def test_a_bound_says_nothing_where_all_features_are_used_or_no_test_row_is_a_training_row():
    z = np.array([3.0, 1.0, 0.0])
    assert Choice(2, 2.0).bound(z, 2) is None
    assert Choice(50, 1.0).bound(z, 2) is None
    np.testing.assert_allclose(Choice(50, 2.0).bound(z, 2), np.minimum(100 * stats.norm.sf(z * np.sqrt(2)), 1))
