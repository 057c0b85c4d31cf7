import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import roc_auc_score

from debias_bench import measures
from debias_bench.measures import Outcome

PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), min_size=2, max_size=12)


@pytest.mark.thorough
@given(PAIRS)
def test_auc_is_that_of_scikit_learn(pairs):
    score = np.array([pair[0] for pair in pairs], dtype=float)
    relevant = np.array([pair[1] > 0 for pair in pairs])
    got = measures.auc(Outcome(score, np.where(relevant, 0, 1), relevant))
    if relevant.all() or not relevant.any():
        assert np.isnan(got)
    else:
        assert got == pytest.approx(roc_auc_score(relevant, score), abs=1e-12)


@given(PAIRS)
@example([(0, 1), (0, 1), (1, 0), (1, 2), (2, 1), (2, 1)])
def test_order_is_somers_d_of_the_score_given_the_group(pairs):
    score = np.array([pair[0] for pair in pairs], dtype=float)
    rank = np.array([pair[1] for pair in pairs])
    got = measures.order(Outcome(score, rank, rank == 0))
    if len(set(rank)) < 2:
        assert np.isnan(got)
    elif len(set(score)) < 2:
        assert got == 0  # SciPy gives NaN there
    else:
        with np.errstate(invalid="ignore"):  # SciPy's standard error may be 0 / 0
            expected = stats.somersd(-rank, score).statistic
        assert got == pytest.approx(expected, abs=1e-12)


def test_first_and_on_top_are_those_by_hand():
    relevant = np.array([True, True, False, False])
    rank = np.where(relevant, 0, 1)
    assert measures.first(Outcome(np.array([3.0, 1, 2, 0]), rank, relevant)) == 1
    assert measures.first(Outcome(np.array([1.0, 1, 2, 0]), rank, relevant)) == 0
    assert measures.first(Outcome(np.array([2.0, 1, 2, 0]), rank, relevant)) == 0.5
    assert measures.on_top(Outcome(np.array([3.0, 2, 1, 0]), rank, relevant)) == 1
    assert measures.on_top(Outcome(np.array([3.0, 1, 1, 0]), rank, relevant)) == 0, "a tie is not above"


def test_false_alarms_and_finds_are_those_by_hand():
    relevant = np.array([True, True, False])
    score, rank = np.zeros(3), np.zeros(3, dtype=int)
    assert measures.false_alarm(Outcome(score, rank, relevant, np.array([True, False, False]))) == 0
    assert measures.false_alarm(Outcome(score, rank, relevant, np.array([False, False, True]))) == 1
    assert measures.found(Outcome(score, rank, relevant, np.array([True, False, True]))) == 0.5
    assert np.isnan(measures.false_alarm(Outcome(score, rank, relevant, None)))
    assert np.isnan(measures.found(Outcome(score, rank, np.zeros(3, dtype=bool), np.ones(3, dtype=bool))))


def test_mean_and_error_leave_out_undefined_trials():
    assert measures.mean_and_error(np.array([1.0, 3.0, np.nan])) == (2.0, 1.0, 2)
    assert measures.mean_and_error(np.array([2.0]))[::2] == (2.0, 1)
    assert measures.mean_and_error(np.array([np.nan]))[2] == 0


def test_homogeneity_of_two_features_is_the_paired_t_test():
    scores = np.random.default_rng(0).normal(size=(20, 2)) + [0.0, 0.4]
    expected = stats.ttest_rel(scores[:, 0], scores[:, 1]).pvalue
    assert measures.homogeneity(scores) == pytest.approx(expected, rel=1e-9)


def test_homogeneity_is_uniform_where_means_are_equal_but_variances_are_not():
    rng = np.random.default_rng(1)
    scale = np.array([1.0, 5.0, 0.2, 1.0])
    p = [measures.homogeneity(rng.normal(size=(30, 4)) * scale + rng.normal(size=(30, 1))) for _ in range(400)]
    assert stats.kstest(p, "uniform").pvalue > 0.001


def test_homogeneity_of_a_difference_that_never_varies_is_impossible():
    scores = np.zeros((30, 3))
    scores[:, 2] = np.random.default_rng(3).normal(size=30)
    assert measures.homogeneity(scores) > 0.01
    scores[:, 1] = 1
    assert measures.homogeneity(scores) == 0


def test_homogeneity_without_enough_trials_or_spread_is_undefined():
    assert np.isnan(measures.homogeneity(np.ones((10, 3))))
    assert np.isnan(measures.homogeneity(np.random.default_rng(2).normal(size=(3, 5))))
