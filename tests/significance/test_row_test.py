"""The test by rows against scipy's t-test, against blocks summed by hand, and its level in a simulation."""

import numpy as np
import pytest
from scipy import stats
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from xgboost import XGBClassifier, XGBRegressor

import debias
from debias import RowsError, p_values
from debias.plugin import CompositionError
from debias.significance.row_test import check_procedure, row_test


@pytest.fixture
def values():
    generator = np.random.default_rng(0)
    return generator.normal(0.1, 1.0, (60, 4)) * [1, 2, 1e-8, 1e8]


def test_equal_weights_give_the_t_statistic_of_scipy(values):
    tested = row_test(values)
    reference = stats.ttest_1samp(values, 0, alternative="greater")
    np.testing.assert_allclose(tested.z, reference.statistic)
    np.testing.assert_allclose(tested.mean, values.mean(axis=0))
    np.testing.assert_allclose(tested.standard_error, stats.sem(values))
    np.testing.assert_allclose(tested.p_value, stats.t.sf(tested.z, tested.effective - 1))
    assert (tested.effective <= 60).all()


def test_light_tails_have_the_degrees_of_freedom_of_scipy():
    values = np.random.default_rng(1).uniform(-1, 1, (40, 3))
    reference = stats.ttest_1samp(values, 0, alternative="greater")
    np.testing.assert_allclose(row_test(values).p_value, reference.pvalue)


def test_few_large_numbers_cost_degrees_of_freedom():
    values = np.zeros((1000, 1))
    values[:5, 0] = [9.0, 10.0, 11.0, 10.0, 9.5]
    tested = row_test(values)
    assert 4 < tested.effective[0] < 7
    assert tested.p_value[0] > stats.ttest_1samp(values[:, 0], 0, alternative="greater").pvalue


def test_weights_of_zero_do_not_count_and_scale_does_not_matter(values):
    weight = np.random.default_rng(2).integers(0, 3, 60).astype(float)
    tested, kept = row_test(values, weight), weight > 0
    only = row_test(values[kept], 10 * weight[kept])
    np.testing.assert_allclose(tested.p_value, only.p_value)
    np.testing.assert_allclose(tested.mean, np.average(values, axis=0, weights=weight))
    assert tested.n_independent == kept.sum()
    deviation = weight[kept, None] * (values[kept] - tested.mean) / weight.sum()
    n = kept.sum()
    np.testing.assert_allclose(tested.standard_error, np.sqrt((deviation**2).sum(axis=0) * n / (n - 1)))


def test_blocks_are_the_independent_units(values):
    blocks = np.repeat(list("cabdefghijklmno"), 4)
    np.random.default_rng(3).shuffle(blocks)
    tested = row_test(values, blocks=blocks)
    means = np.array([values[blocks == label].mean(axis=0) for label in np.unique(blocks)])  # blocks of equal size
    np.testing.assert_allclose(tested.standard_error, stats.sem(means))
    assert tested.n_independent == 15


def test_single_blocks_are_rows(values):
    alone = row_test(values, blocks=np.arange(60))
    np.testing.assert_allclose(alone.p_value, row_test(values).p_value)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e9])
def test_a_number_that_never_varies_is_no_evidence(value):
    values = np.column_stack([np.full(50, value), np.arange(50.0)])
    tested = row_test(values, np.linspace(1, 2, 50))
    assert tested.p_value[0] == 1
    assert tested.standard_error[0] == tested.z[0] == 0
    assert tested.p_value[1] < 0.01


@pytest.mark.parametrize(
    ("error", "adjust"),
    [
        ("fwer", p_values.holm),
        ("fdr", p_values.false_discovery),
        ("fdr_by", lambda p: p_values.false_discovery(p, True)),
    ],
)
def test_p_values_are_adjusted(values, error, adjust):
    tested = row_test(values, error=error)
    np.testing.assert_array_equal(tested.p_adjusted, adjust(tested.p_value))
    details = tested.details(0.3)
    np.testing.assert_array_equal(details["selected"], tested.p_adjusted <= 0.3)
    assert details["test"]["error"] == error


def test_what_cannot_be_tested_is_refused(values):
    with pytest.raises(CompositionError, match="'fwer', 'fdr', 'fdr_by'"):
        row_test(values, error="holm")
    with pytest.raises(RowsError, match="at least two rows"):
        row_test(values, np.eye(60)[0])
    with pytest.raises(RowsError, match="at least two blocks"):
        row_test(values, blocks=np.zeros(60))
    with pytest.raises(CompositionError, match="alpha must be between"):
        check_procedure("fdr", 1)
    with pytest.raises(CompositionError, match="not one of"):
        check_procedure("fd", 0.05)


@pytest.mark.parametrize("correlation", [-0.5, 0.0, 0.7, 0.999])
def test_the_larger_of_two_statistics_has_its_normal_p_value(correlation):
    generator = np.random.default_rng(5)
    first, second = generator.normal(0.2, 1, (2, 500, 6))
    second = correlation * first + np.sqrt(1 - correlation**2) * second
    one, other = row_test(first), row_test(second)
    joint = one.or_other(other)
    found = np.array([np.corrcoef(first[:, k], second[:, k])[0, 1] for k in range(6)])
    z = stats.norm.isf(np.minimum(one.p_value, other.p_value))
    for k in range(6):
        both_below = stats.multivariate_normal(cov=[[1, found[k]], [found[k], 1]]).cdf([z[k], z[k]])
        np.testing.assert_allclose(joint.p_value[k], 1 - both_below, atol=1e-6)
    np.testing.assert_array_equal(joint.mean, one.mean)
    swapped = other.or_other(one)
    np.testing.assert_allclose(swapped.p_value, joint.p_value)
    np.testing.assert_allclose(swapped.z, joint.z)


def test_the_larger_of_two_statistics_where_one_never_varies():
    values = np.random.default_rng(6).normal(0.3, 1, (80, 1))
    one, nothing = row_test(values), row_test(np.zeros((80, 1)))
    np.testing.assert_allclose(one.or_other(nothing).p_value, one.p_value)
    np.testing.assert_allclose(one.or_other(one).p_value, one.p_value)
    assert nothing.or_other(nothing).p_value == 1


@pytest.mark.parametrize("error", ["fwer", "fdr"])
def test_other_p_values_are_adjusted_by_the_same_procedure(error):
    values = np.random.default_rng(7).normal(0.2, 1, (60, 4))
    test, others = row_test(values, error=error), row_test(-values, error=error)
    np.testing.assert_array_equal(test.with_p_values(others.p_value).p_adjusted, others.p_adjusted)
    np.testing.assert_array_equal(test.with_p_values(others.p_value).z, test.z)


@pytest.mark.parametrize("blocks", [None, np.repeat(np.arange(30), 4)])
def test_the_level_is_that_of_the_p_value(blocks):
    generator = np.random.default_rng(4)
    n_tests, alpha = 4000, 0.05
    noise = generator.standard_t(8, (120, n_tests))
    if blocks is not None:
        noise += 2 * generator.normal(size=(30, n_tests))[blocks]
    rate = (row_test(noise, blocks=blocks).p_value <= alpha).mean()
    assert abs(rate - alpha) < 3.5 * np.sqrt(alpha * (1 - alpha) / n_tests) + 0.004  # 0.004: the t of heavy tails


def test_intervals_of_scores_are_those_of_students_t():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 3))
    y = X[:, 0] + 0.3 * X[:, 1] + 0.2 * rng.uniform(-1, 1, 300)
    model = XGBRegressor(n_estimators=20, max_depth=2).fit(X[:200], y[:200])
    scores = debias.score(model, X[200:], y[200:], "ablation(measure='loss')", rows="held-out")
    freedom = np.array(scores.details["test"]["effective_rows"]) - 1
    lower, upper = stats.t.interval(0.9, freedom, scores.values, scores.standard_error)
    np.testing.assert_allclose(scores.interval(0.9)["lower"], lower)
    np.testing.assert_allclose(scores.interval(0.9)["upper"], upper)


@pytest.mark.parametrize(
    "scorer", ["ablation(measure='loss')", "oob_loss(p_values=True)", "permutation(p_values=True)"]
)
def test_rows_of_one_response_have_no_test_by_rows_and_no_intervals(scorer):
    """What a feature saves in rows of one class tells nothing about rows of the other one."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = (X[:, 0] + rng.normal(size=600) > 0).astype(int)
    model = XGBClassifier(n_estimators=5, max_depth=2, n_jobs=1).fit(X[:300], y[:300])
    assert debias.score(model, X[300:], y[300:], scorer, rows="held-out").p_value is not None
    with pytest.warns(debias.DebiasWarning, match=r"was not tested: the response is the same in all evaluation rows"):
        scores = debias.score(model, X[300:], np.zeros(300, dtype=int), scorer, rows="held-out")
    assert scores.p_value is None
    assert scores.selected is None
    assert scores.standard_error is None
    with pytest.raises(debias.DebiasError, match="has no intervals: the response is the same"):
        scores.interval()
    with pytest.raises(debias.DebiasError, match="were not compared"):
        scores.rank_interval()


@pytest.mark.filterwarnings("ignore:.* was not tested. the response is the same:debias.DebiasWarning")
def test_rows_of_one_response_tell_nothing_about_several_models_together():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = (X[:, 0] + rng.normal(size=600) > 0).astype(int)
    forests = [(name, RandomForestClassifier(5, max_depth=3, random_state=k)) for k, name in enumerate("ab")]
    vote = VotingClassifier(forests, voting="soft").fit(X[:300], y[:300])
    same = np.zeros(300, dtype=int)
    audit = debias.audit(vote, X[300:], same, rows="held-out", random_state=0)
    assert audit.to_frame()["share"].isna().all()
    assert audit.summary()[-1] == "The scores and shares of these rows say nothing about the features."
    for responses in (y[300:], same):
        with pytest.raises(CompositionError, match="oob_loss"):
            debias.score(vote, X[300:], responses, "oob_loss(p_values=True)", rows="held-out")
