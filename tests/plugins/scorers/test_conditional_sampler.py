import numpy as np
import pytest
import scipy.optimize

from debias_plugins.scorers.conditional_design import Design, curves, encoded
from debias_plugins.scorers.conditional_mean import PENALTIES, ConditionalMean, Forest, _not_negative, left_out_ridge
from debias_plugins.scorers.conditional_process import left_out_process
from debias_plugins.scorers.conditional_sampler import draws
from debias_plugins.scorers.conditional_test import Regressions

N = 1500


def of(X, categorical=(), use=None):
    is_categorical = np.isin(np.arange(X.shape[1]), categorical)
    return Design.of(X, is_categorical, np.ones(X.shape[1], dtype=np.int64) if use is None else use)


def fitted(own, others, categorical=False, seed=0, blocks=None):
    n = len(own)
    return Regressions.fit(
        own.reshape(n, -1),
        np.array([categorical]),
        np.empty((n, 0)),
        of(others),
        np.ones(n),
        np.arange(n) if blocks is None else blocks,
        known_sampler=False,
        generator=np.random.default_rng(seed),
    )


def drawn_again(own, others, n_draws, rng, **options):
    """Return draws of one column, shape (n_draws, n_rows), and the regressions."""
    fit = fitted(own, others, **options)
    return fit.draws(own.reshape(len(own), -1), n_draws, len(own), rng)[:, :, 0], fit


# --- the sampler against the distribution it estimates -------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("relation", [lambda z: 0.8 * z, lambda z: z**2, lambda z: np.sin(1.5 * z)])
def test_draws_of_numbers_have_the_conditional_mean_and_spread(relation):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(N, 2))
    signal = relation(z[:, 0])
    drawn, fit = drawn_again(signal + 0.6 * rng.normal(size=N), z, 4, rng)
    rest = drawn - signal
    # The rest is that of the truth, 0.36, with an error of the curves; four draws of the rows are of one fit.
    assert abs(rest.mean()) < 4 * 0.6 / np.sqrt(N)
    assert rest.var() == pytest.approx(0.36, rel=0.12)
    assert abs(np.corrcoef(rest.mean(axis=0), signal)[0, 1]) < 0.15
    assert fit.explained == pytest.approx(signal.var() / (signal.var() + 0.36), abs=0.05)


@pytest.mark.thorough
def test_a_draw_knows_nothing_of_the_row_itself_beyond_the_others():
    rng = np.random.default_rng(3)
    z, own = rng.normal(size=(N, 2)), rng.normal(size=N)
    for drawn in drawn_again(0.8 * z[:, 0] + 0.6 * own, z, 3, rng)[0]:
        rest = drawn - 0.8 * z[:, 0]
        assert abs(np.corrcoef(rest, own)[0, 1]) < 4 / np.sqrt(N)


@pytest.mark.thorough
def test_the_spread_may_depend_on_the_others():
    rng = np.random.default_rng(1)
    z = rng.uniform(-1, 1, size=(N, 1))
    own = z[:, 0] + np.where(z[:, 0] > 0, 2.0, 0.2) * rng.normal(size=N)
    rest = drawn_again(own, z, 5, rng)[0] - z[:, 0]
    ratio = rest[:, z[:, 0] > 0.3].std() / rest[:, z[:, 0] < -0.3].std()
    assert ratio > 2


@pytest.mark.thorough
def test_draws_of_categories_have_the_conditional_shares():
    rng = np.random.default_rng(0)
    z = rng.integers(0, 3, size=(N, 1)).astype(float)
    shares = np.array([[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7]])
    x = np.array([rng.choice(3, p=shares[int(row)]) for row in z[:, 0]]).astype(float)
    drawn = drawn_again(x, z, 5, rng, categorical=True)[0]
    for level in range(3):
        of_level = drawn[:, z[:, 0] == level]
        found = np.array([(of_level == code).mean() for code in range(3)])
        true = np.array([(x[z[:, 0] == level] == code).mean() for code in range(3)])
        np.testing.assert_allclose(found, true, atol=4 * np.sqrt(0.25 / (N / 3)))


@pytest.mark.thorough
def test_missing_values_are_drawn_where_they_are_likely():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(N, 1))
    x = np.where(rng.random(N) < np.where(z[:, 0] > 0, 0.5, 0.05), np.nan, z[:, 0] + rng.normal(size=N))
    missing = np.isnan(drawn_again(x, z, 5, rng)[0])
    for part in (z[:, 0] > 0.2, z[:, 0] < -0.2):
        # Five draws of about 600 rows.
        assert missing[:, part].mean() == pytest.approx(np.isnan(x[part]).mean(), abs=4 * np.sqrt(0.25 / (5 * 600)))


def test_draws_are_values_that_the_column_has():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(500, 1))
    counts = rng.poisson(np.exp(1 + z[:, 0])).astype(float)
    assert set(np.unique(drawn_again(counts, z, 3, rng)[0])) <= set(counts)


@pytest.mark.parametrize("block_size", [1, 3])
def test_a_donor_is_never_of_the_block_of_the_row(block_size):
    rng = np.random.default_rng(0)
    own, blocks = np.arange(30.0), np.arange(30) // block_size
    forest = Forest.fit(np.empty((30, 0)), own[:, None], np.ones(30), blocks, rng)
    drawn = draws(own[:, None], np.array([False]), np.empty((30, 0)), forest, 2000, 30, rng)[:, :, 0].astype(int)
    assert not (blocks[drawn] == blocks).any()
    # Without other columns every row of other blocks is a donor.
    assert all(np.unique(drawn[:, row]).size == 30 - block_size for row in range(30))


# --- the regressions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("block_size", [1, 3])
def test_residuals_of_the_ridge_regression_are_those_without_the_block(block_size):
    rng = np.random.default_rng(0)
    n = 30
    weight, blocks = rng.uniform(0.5, 2.0, n), np.arange(n) // block_size
    Z = rng.normal(size=(n, 4))
    Z = (Z - Z.mean(axis=0)) / Z.std(axis=0)
    target = (Z @ [1.0, 0.5, 0.0, 0.0] + rng.normal(size=n))[:, None]
    predicted = left_out_ridge(Z, target, weight, blocks)
    w = weight / weight.mean()

    def without(block, penalty):
        kept, out = blocks != block, blocks == block
        A = np.column_stack([np.ones(n), Z])
        # The formula centres the columns once; with a penalty this is the regression with an intercept.
        A[:, 1:] -= np.average(Z, axis=0, weights=weight)
        squares = (A[kept] * w[kept, None]).T @ A[kept] + np.diag([0.0, *[penalty * n] * 4])
        return A[out] @ np.linalg.solve(squares, (A[kept] * w[kept, None]).T @ target[kept, 0])

    by_hand = np.array(
        [np.concatenate([without(b, penalty) for b in range(n // block_size)]) for penalty in [*PENALTIES, np.inf][:-1]]
    )
    best = np.argmin((weight * (target[:, 0] - by_hand) ** 2).sum(axis=1))
    np.testing.assert_allclose(predicted[:, 0], by_hand[best], rtol=1e-6)


def test_wide_and_narrow_designs_give_the_same_ridge_regression():
    rng = np.random.default_rng(0)
    Z, target, ones = rng.normal(size=(40, 38)), rng.normal(size=(40, 1)), np.ones(40)
    wide = np.column_stack([Z, np.zeros((40, 5))])
    np.testing.assert_allclose(
        left_out_ridge(wide, target, ones, np.arange(40)), left_out_ridge(Z, target, ones, np.arange(40)), atol=1e-7
    )


def test_noise_is_predicted_by_its_mean_without_the_row():
    """The largest penalty is infinite, so a regression of noise on noise is left out altogether."""
    target = np.random.default_rng(0).normal(size=(30, 1))
    predicted = left_out_ridge(np.empty((30, 0)), target, np.ones(30), np.arange(30))
    np.testing.assert_allclose(predicted, (target.sum() - target) / 29)


@pytest.mark.parametrize("block_size", [1, 4])
@pytest.mark.parametrize("most_rows", [100, 20])
def test_the_process_predicts_rows_from_other_blocks(monkeypatch, block_size, most_rows):
    """Left out by formula and by hand is the same, also for rows that the process does not know."""
    from debias_plugins.scorers import conditional_process as module

    monkeypatch.setattr(module, "ROWS_OF_PROCESS", most_rows)
    rng = np.random.default_rng(0)
    n = 60
    X = np.column_stack([rng.normal(size=n), rng.integers(0, 3, n)])
    targets = np.column_stack([np.sin(X[:, 0]), X[:, 1]]) + 0.3 * rng.normal(size=(n, 2))
    weight, blocks = rng.uniform(0.5, 2.0, n), np.arange(n) // block_size
    kernel = module._Kernel.of(of(X))
    known = np.sort(rng.permutation(n)[:most_rows])
    found = kernel.left_out(np.arange(n), known, targets, 1 / weight, [blocks])[0]
    covariance = kernel._covariance(np.arange(n), np.arange(n)) + 1.0
    noise = np.diag(np.exp(kernel.parameters[-1]) / weight + 1e-6)
    for row in range(n):
        at = known[blocks[known] != blocks[row]]
        by_hand = covariance[row, at] @ np.linalg.solve((covariance + noise)[np.ix_(at, at)], targets[at])
        np.testing.assert_allclose(found[row], by_hand, rtol=1e-6, atol=1e-9)


def test_the_slope_of_the_likelihood_is_that_of_its_values():
    from scipy.optimize import approx_fprime, check_grad

    from debias_plugins.scorers import conditional_process as module

    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(30, 2)), rng.integers(0, 3, 30)])
    kernel = module._Kernel.of(of(X))
    parts = kernel._parts(np.arange(30), kernel.parameters)
    covariance = parts[0] + parts[2] + sum(parts[3])
    np.testing.assert_allclose(kernel._covariance(np.arange(30), np.arange(30)), covariance, rtol=1e-6)
    loss = kernel.loss(np.arange(30), rng.normal(size=(30, 2)), rng.uniform(0.5, 2, 30))
    at = kernel.parameters + 0.1 * rng.normal(size=kernel.parameters.size)
    error = check_grad(lambda p: loss(p)[0], lambda p: loss(p)[1], at)
    assert error < 1e-4 * np.linalg.norm(approx_fprime(at, lambda p: loss(p)[0]))


def test_the_process_finds_a_smooth_curve_and_the_means_of_levels():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=400), rng.integers(0, 20, 400)])
    signal = np.sin(2 * X[:, 0]) + rng.normal(size=20)[X[:, 1].astype(int)]
    target = (signal + 0.3 * rng.normal(size=400))[:, None]
    found = left_out_process(of(X), target, np.ones(400), np.arange(400), rng)
    error = [np.mean((guess[:, 0] - signal) ** 2) for guess in (found.whole, found.half)]
    assert error[0] < 0.25 * 0.3**2  # 20 means and a curve cost about 30 of 400 rows
    assert error[0] < error[1]


def test_trees_do_not_see_the_rows_they_predict():
    """If each block has a target of its own, predictions of rows by trees that saw it would follow it."""
    rng = np.random.default_rng(0)
    blocks = np.arange(400) // 2
    columns, noise = np.repeat(rng.normal(size=(200, 3)), 2, axis=0), np.repeat(rng.normal(size=(200, 1)), 2, axis=0)
    forest = Forest.fit(columns, noise, np.ones(400), blocks, rng)
    assert abs(np.corrcoef(forest.unseen[:, 0], noise[:, 0])[0, 1]) < 4 / np.sqrt(200)
    alone = Forest.fit(columns, noise, np.ones(400), np.arange(400), rng)
    assert np.corrcoef(alone.unseen[:, 0], noise[:, 0])[0, 1] > 0.3
    assert forest.out.mean() == 0.5


@pytest.mark.parametrize(
    "relation",
    [
        lambda z: z[:, 0],
        lambda z: np.sin(2 * z[:, 0]),
        lambda z: np.sign(z[:, 0]),
        lambda z: np.sign(z[:, 0] * z[:, 1]),
        lambda z: z.max(axis=1),
    ],
    ids=["line", "sine", "jump", "two jumps", "max"],
)
def test_the_stack_finds_lines_curves_and_jumps(relation):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(600, 2))
    signal = relation(z)[:, None]
    fit = ConditionalMean.fit(
        of(z), [signal + 0.5 * rng.normal(size=(600, 1))], np.ones(600), np.arange(600), np.random.default_rng(1)
    )
    error = ((fit.stack - signal) ** 2).mean()
    assert error < 0.2 * signal.var()
    # The factors of five regressions cost about 5 rows of noise.
    best = min(((guess - signal) ** 2).mean() for guess in (fit.forest.unseen, fit.process.whole))
    assert error < best + 2 * 5 * 0.5**2 / 600


# --- the design ----------------------------------------------------------------------------------------


def test_columns_become_numbers_with_their_gaps_marked():
    gaps = np.array([1.0, np.nan, 3.0, 4.0])
    np.testing.assert_array_equal(encoded(gaps, False), [[1, 0], [3, 1], [3, 0], [4, 0]])
    np.testing.assert_array_equal(encoded(gaps, True), np.eye(4)[[1, 0, 2, 3]])
    assert encoded(np.ones(4), False).shape == encoded(np.ones(4), True).shape == (4, 0)
    assert encoded(np.full(4, np.nan), False).shape == (4, 0)
    assert encoded(np.arange(150.0), True).shape == (150, 100)


def test_trees_see_the_digits_of_large_numbers():
    """Seconds since 1970 have no digits below 128 in float32, in which trees compare."""
    z = np.random.default_rng(0).normal(size=(500, 1))
    assert np.unique(of(1.7e9 + z).plain.astype(np.float32)).size == 500


def test_curves_and_lines_hold_a_parabola():
    x = np.random.default_rng(0).normal(size=200)
    A = np.column_stack([np.ones(200), x, curves(x, 5)])
    assert A.shape == (200, 7)
    left = x**2 - A @ np.linalg.lstsq(A, x**2, rcond=None)[0]
    assert np.abs(left).max() < 1e-9
    assert curves(np.repeat([0.0, 1.0], 5), 5).shape == (10, 0)
    assert curves(x, 0).shape == (200, 0)


def test_a_number_with_few_values_has_levels_and_leaves_with_them():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=60), np.arange(60) % 10, np.arange(60) % 2])
    design = of(X)
    assert design.feature_of_level.tolist() == [1]  # two values are a line
    of_site = design.curves[:, design.feature_of_curve == 1][:, -10:]
    np.testing.assert_array_equal(of_site, np.eye(10)[np.arange(60) % 10])
    rest = design.without(np.array([1]))
    assert rest.level.shape == (60, 0)
    assert set(rest.feature_of_curve) == {0}


def test_many_columns_of_codes_have_fewer_indicators_than_half_the_rows():
    codes = np.random.default_rng(0).integers(0, 25, (200, 30)).astype(float)
    use = np.arange(30)
    design = of(codes, use=use)
    indicator = np.isin(design.curves, [0, 1]).all(axis=0)
    assert indicator.sum() == 100
    assert set(design.feature_of_curve[indicator]) == set(range(25, 30))  # 5 columns with 20 of 25 levels
    as_categories = of(codes, categorical=range(30))
    assert (np.bincount(as_categories.feature) == 20).all()


def test_the_columns_of_a_feature_leave_together():
    X = np.column_stack([np.arange(12.0), np.tile([0.0, 1.0, 2.0], 4), np.r_[np.nan, np.arange(11.0)]])
    design = of(X, categorical=[1])
    assert design.feature.tolist() == [0, 1, 1, 1, 2, 2]
    assert design.number.tolist() == [True, False, False, False, True, True]
    rest = design.without(np.array([1]))
    assert rest.feature.tolist() == [0, 2, 2]
    assert not (rest.features_of_pair == 1).any()


def test_pairs_are_of_the_most_used_columns_and_leave_with_either():
    X = np.random.default_rng(0).normal(size=(60, 4))
    design = of(X, use=np.array([5, 0, 9, 7]))
    products, slanted = design.features_of_pair[:3], design.features_of_pair[3:]
    assert products.tolist() == [[2, 3], [2, 0], [3, 0]]  # feature 1 has no split
    assert {tuple(pair) for pair in slanted.tolist()} == {(2, 3), (2, 0), (3, 0)}
    standard = (X - X.mean(axis=0)) / X.std(axis=0)
    np.testing.assert_allclose(design.plain, standard)
    np.testing.assert_allclose(design.pairs[:, 0], standard[:, 2] * standard[:, 3])
    at = [k for k, pair in enumerate(design.features_of_pair.tolist()) if pair == [2, 3]][1]
    total = standard[:, 2] + standard[:, 3]
    np.testing.assert_allclose(design.pairs[:, at], ((total - total.mean()) / total.std()) ** 2)
    assert not (design.without(np.array([3])).features_of_pair == 3).any()
    # 60 rows have room for 6 products, which are those of 4 columns; 50 rows for 5, so there are 3.
    n_slanted = [of(X[:n]).pairs.shape[1] for n in (60, 50)]
    n_curves = [curves(X[:n, 0], 5).shape[1] for n in (60, 50)]
    assert n_slanted == [6 + 12 * n_curves[0], 3 + 12 * n_curves[1]]


@pytest.mark.parametrize("sign", [1, -1])
def test_where_scipy_gives_up_the_stack_is_the_best_combination_of_each_subset(sign, monkeypatch):
    """SciPy's own solution of the same problem, which it can solve, is the oracle."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(60, 5))
    A[:, 3], A[:, 4] = A[:, 0], -A[:, 1]  # learners that say the same, and the opposite
    b = sign * (A @ [1.0, 0.5, -2.0, 0.0, 0.0]) + rng.normal(size=60)
    expected = np.linalg.norm(A @ scipy.optimize.nnls(A, b)[0] - b)

    def gives_up(*_):
        raise RuntimeError("Maximum number of iterations reached.")

    monkeypatch.setattr(scipy.optimize, "nnls", gives_up)
    factors = _not_negative(A, b)
    assert factors.min() >= 0
    assert np.linalg.norm(A @ factors - b) == pytest.approx(expected, rel=1e-9)
    np.testing.assert_array_equal(_not_negative(A, np.zeros(60)), 0)
