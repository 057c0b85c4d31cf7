"""Simultaneous intervals of ranks: against tests of all pairs by scipy, and their coverage in a simulation."""

import numpy as np
import pytest
from scipy import stats
from sklearn.ensemble import RandomForestRegressor
from xgboost import XGBRegressor

import debias
from debias import DebiasError
from debias.significance import ranks
from debias.significance.ranks import ranks_of


def bounds(values, alpha=0.05):
    found = ranks_of(values.mean(axis=0), (values - values.mean(axis=0)) / len(values), alpha)["ranks"]
    assert found["level"] == 1 - alpha
    return found["first"], found["last"]


def by_pairs(values, alpha=0.05):
    """Return the bounds by scipy's paired t-tests of all ordered pairs, with Holm's method written out."""
    p = values.shape[1]
    tests = sorted(
        (stats.ttest_rel(values[:, j], values[:, k], alternative="greater").pvalue, j, k)
        for j in range(p)
        for k in range(p)
        if j != k
    )
    larger = []
    for step, (p_value, j, k) in enumerate(tests):
        if p_value > alpha / (len(tests) - step):
            break
        larger.append((j, k))
    first = [1 + sum(k == feature for _, k in larger) for feature in range(p)]
    last = [p - sum(j == feature for j, _ in larger) for feature in range(p)]
    return first, last


@pytest.mark.quick
@pytest.mark.parametrize("seed", range(5))
def test_bounds_are_those_of_all_paired_t_tests(seed):
    rng = np.random.default_rng(seed)
    shared = rng.uniform(-1, 1, (60, 1))  # light tails: as many degrees of freedom as scipy has
    values = shared + rng.uniform(-1, 1, (60, 6)) + [1.2, 1.0, 0.5, 0.4, 0.0, -0.3]
    assert bounds(values) == by_pairs(values)
    assert bounds(values, 0.3) == by_pairs(values, 0.3)


def test_features_without_a_split_are_compared_once_and_rank_together():
    rng = np.random.default_rng(0)
    values = np.column_stack([rng.normal(1, 1, (80, 2)), np.zeros((80, 50))])
    first, last = bounds(values)
    assert first[2:] == [3] * 50
    assert last[2:] == [52] * 50
    assert (first[:2], last[:2]) == by_pairs(values[:, :2])


def test_copies_are_never_told_apart_and_units_do_not_matter():
    values = np.random.default_rng(1).normal([2.0, 0, 1, 0.2], 1, (50, 4))[:, [0, 1, 2, 3, 0]]
    first, last = bounds(values)
    assert (first[0], last[0]) == (first[4], last[4]) == (1, 2)
    assert bounds(1e120 * values) == bounds(1e-120 * values) == (first, last)


def test_of_chance_alone_every_rank_is_possible():
    first, last = bounds(np.random.default_rng(2).normal(size=(40, 5)))
    assert (first, last) == ([1] * 5, [5] * 5)


def test_too_many_pairs_are_not_compared_and_the_reason_is_told(monkeypatch, held_out):
    monkeypatch.setattr(ranks, "MOST_VALUES", 100)
    scores = debias.score(*held_out, "ablation", rows="held-out")
    with pytest.raises(DebiasError, match="150 rows and 4 features are too many .* Pass a sample of the rows"):
        scores.rank_interval()


@pytest.fixture(scope="module")
def held_out():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(450, 4))
    y = 2 * X[:, 0] + X[:, 1] + 0.3 * X[:, 2] + rng.normal(size=450)
    return XGBRegressor(n_estimators=30, max_depth=2).fit(X[:300], y[:300]), X[300:], y[300:]


def test_ranks_of_an_audit_are_those_of_its_contributions(held_out):
    audit = debias.audit(*held_out, ["ablation", "oob_loss(p_values=True)"], rows="held-out", random_state=0)
    phi = debias.contributions(*held_out, rows="held-out").to_numpy() * len(held_out[1])
    found = audit.tested_scores.rank_interval()
    # phi is not enlarged for the degrees of freedom of nodes, and tails are not light: the same within one rank
    np.testing.assert_allclose(np.array(by_pairs(phi)), found.to_numpy().T, atol=1)
    assert audit.rank_interval().index[0] == found["first"].idxmin()
    assert (audit.rank_interval().loc[found.index] == found).all(axis=None)
    assert (found["first"] <= found["last"]).all()
    again = debias.Audit.from_json(audit.to_json())
    assert again.rank_interval().equals(audit.rank_interval())
    for name in ("ablation", "oob_loss(p_values=True)"):
        of_scorer = audit.scores[name].rank_interval()
        place = (-audit.scores[name].values).argsort().argsort() + 1
        assert ((of_scorer["first"] <= place) & (place <= of_scorer["last"])).all()


def test_blocks_are_the_independent_units(held_out):
    model, X, y = held_out
    twice = np.tile(np.arange(len(y)), 2)
    rows = debias.Dataset(X[twice], y[twice], blocks=twice)
    for scorer, test in (("mdi_oob", "naive"), ("ablation", None)):
        once = debias.score(model, X, y, scorer, rows="held-out", test=test)
        of_blocks = debias.score(model, rows, scorer=scorer, rows="held-out", test=test)
        assert of_blocks.rank_interval().equals(once.rank_interval())


def test_a_feature_that_was_not_tested_has_no_rank_and_widens_the_others():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(600, 3))
    y = X[:, 0] + X[:, 1] + X[:, 2] + 0.3 * rng.normal(size=600)
    model = XGBRegressor(n_estimators=30, max_depth=2).fit(X[:300], y[:300])
    X[300:, 2] = 0.0
    with pytest.warns(debias.DebiasWarning):
        audit = debias.audit(model, X[300:], y[300:], rows="held-out")
    assert list(audit.untested_features) == ["f2"]
    found = audit.rank_interval()
    assert sorted(found.index) == ["f0", "f1"]
    assert (found["last"] == 3).all()


def test_rows_that_are_not_held_out_have_no_ranks(diabetes):
    X, y = diabetes
    forest = RandomForestRegressor(20, random_state=0).fit(X, y)
    audit = debias.audit(forest, X, y, rows="oob", test="conservative")
    with pytest.raises(DebiasError, match="the ranks of mdi_oob were not compared. Test it on rows the model has not"):
        audit.rank_interval()
    with pytest.raises(DebiasError, match="the ranks were not compared: no test was requested"):
        debias.audit(forest, X, y, rows="oob", test=None).rank_interval()


def test_tests_that_are_no_score_have_neither_ranks_nor_intervals(held_out):
    scores = debias.score(*held_out, "permutation(p_values=True)", rows="held-out", random_state=0)
    with pytest.raises(DebiasError, match="has no intervals: a row also gives its value to other rows"):
        scores.interval()
    with pytest.raises(DebiasError, match="were not compared"):
        scores.rank_interval()
    assert not scores.has_intervals


def covered(n_sets, seed):
    """Return the share of data sets in which all intervals contain the rank, and the mean width."""
    rng, mean = np.random.default_rng(seed), np.array([1.0, 0.5, 0.5, 0.2, 0.1, 0, 0, 0])
    best = 1 + (mean[None, :] > mean[:, None]).sum(axis=1)
    worst = mean.size - (mean[None, :] < mean[:, None]).sum(axis=1)
    holds, width = [], []
    for _ in range(n_sets):
        first, last = (np.array(each) for each in bounds(mean + rng.standard_t(5, (100, mean.size))))
        holds.append((first <= best).all() and (last >= worst).all())
        width.append((last - first).mean())
    return np.mean(holds), np.mean(width)


@pytest.mark.slow
def test_all_ranks_are_covered_at_once():
    share, _ = covered(2000, 0)
    assert share > 0.95 - 3 * np.sqrt(0.95 * 0.05 / 2000)


def test_the_ranks_of_few_sets_are_covered():
    share, width = covered(60, 1)
    assert share >= 0.85  # .95 - 3.5 standard errors
    assert width < 6  # of 7: the intervals say something
