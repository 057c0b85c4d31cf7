"""The order in which features are dropped, against a plain greedy search and by hand."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from debias.api.prepared import prepared_members
from debias.data.groups import Grouping
from debias.retraining import drop_path
from debias.retraining.drop_path import DropPath, FewerFeatures, fold_of_rows
from debias.retraining.experiment import Part
from debias.rows.request import Request


class Charges:
    """Stands for the losses of a model: the rise of each set is a function of it."""

    weight = 2.0

    def __init__(self, rise, used):
        self.rise, self.used = rise, np.array(used)

    def rises(self, left_out):
        return 2.0 * np.array([self.rise(set(np.flatnonzero(row).tolist())) for row in left_out])


def path(n_features, twins=None):
    grouping = Grouping(tuple(f"f{k}" for k in range(n_features)), np.arange(n_features))
    of = FewerFeatures(
        model=None, training=Part(None, None), grouping=grouping, at=np.arange(n_features), params=None, seed=0
    )
    return DropPath(of=of, twins=twins or {}, fold=np.zeros(3, dtype=np.int64), refitted=False)


def greedy(rise, n_features, size):
    dropped = []
    while len(dropped) < size:
        rest = [k for k in range(n_features) if k not in dropped]
        dropped.append(min(rest, key=lambda k: rise({*dropped, k}) - rise(set(dropped))))
    return dropped


@pytest.mark.quick
@pytest.mark.parametrize("seed", range(5))
def test_features_are_dropped_as_a_plain_greedy_search_drops_them(seed):
    rng = np.random.default_rng(seed)
    own, shared = rng.exponential(size=6), rng.exponential(size=(6, 6))

    def rise(dropped):
        return own[list(dropped)].sum() + sum(shared[j, k] for j in dropped for k in dropped if j < k)

    expected = greedy(rise, 6, 5)
    assert path(6)._further([Charges(rise, [True] * 6)], [], 5) == expected
    first = path(6)._further([Charges(rise, [True] * 6)], [], 2)
    assert path(6)._further([Charges(rise, [True] * 6)], first, 5) == expected


def test_features_without_a_split_are_dropped_first():
    found = path(4)._further([Charges(lambda dropped: -float(0 in dropped), [True, False, True, False])], [], 3)
    assert found == [1, 3, 0]


def test_a_feature_is_charged_for_what_its_twin_cannot_replace():
    """Feature 0 and its twin 1 cost 5 each on frozen trees and 6 together; 2 costs 3. With rho^2 = .9, 0 costs .6."""

    def rise(dropped):
        return 3.0 * (2 in dropped) + {0: 0.0, 1: 5.0, 2: 6.0}[len(dropped & {0, 1})]

    losses = [Charges(rise, [True] * 3)]
    twins = {0: [(1, 0.1)], 1: [(0, 0.1)]}
    assert path(3)._charges(losses, [], [0, 1, 2]) == [5.0, 5.0, 3.0]
    np.testing.assert_allclose(path(3, twins)._charges(losses, [], [0, 1, 2]), [0.6, 0.6, 3.0])
    # Once 0 is dropped, nothing that stays replaces 1.
    np.testing.assert_allclose(path(3, twins)._charges(losses, [0], [1, 2]), [1.0, 3.0])
    assert path(3, twins)._further(losses, [], 2) == [0, 1]
    assert path(3)._further(losses, [], 1) == [2]


def test_of_many_features_several_are_dropped_at_a_time():
    many = path(95)
    assert many.at_a_time == 4
    cost = np.random.default_rng(0).permutation(95).astype(float)
    found = many._further([Charges(lambda dropped: cost[list(dropped)].sum(), [True] * 95)], [], 50)
    assert sorted(cost[found]) == list(range(50))
    assert [path(n).at_a_time for n in (1, 30, 31, 60, 61)] == [1, 1, 2, 2, 3]


def test_twins_are_columns_of_high_rank_correlation(models):
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    X = np.column_stack([x, np.exp(x) + rng.normal(size=200) * 0.2, -x, rng.normal(size=200)])
    y = X.sum(axis=1)
    model = models("sklearn", "regression", n_estimators=3).fit(X, y)
    (prepared,) = prepared_members(Request.of(model, X, y, rows="oob"), [])
    found = drop_path.twins(prepared.rows, np.arange(4))
    rho = spearmanr(prepared.rows.table.matrix(prepared.ensemble).astype(np.float64)).statistic
    assert {j: [t for t, _ in others] for j, others in found.items()} == {0: [1, 2], 1: [0, 2], 2: [0, 1], 3: []}
    for j, others in found.items():
        for t, left in others:
            assert left == pytest.approx(1 - rho[j, t] ** 2, abs=1e-9)
    grouped = drop_path.twins(prepared.rows, np.array([0, 1, 1, 2]))  # two columns of one feature have no twins
    assert grouped == {0: [], 2: []}


def test_folds_divide_each_class_evenly_and_leave_out_no_row_that_is_alone_in_its_class():
    codes = np.repeat([0, 1, 2, 3], [10, 5, 3, 1])
    fold = fold_of_rows(codes, codes.size, 3, seed=1)
    for code in (0, 1, 2):
        sizes = np.bincount(fold[codes == code], minlength=3)
        assert np.ptp(sizes) <= 1
    assert fold[codes == 3].tolist() == [-1]
    plain = fold_of_rows(None, 11, 3, seed=1)
    assert sorted(np.bincount(plain)) == [3, 4, 4]
    assert (fold_of_rows(None, 11, 3, seed=2) != plain).any()


def test_whole_queries_that_have_something_to_rank_are_left_out(monkeypatch):
    monkeypatch.setattr(drop_path, "MOST_ROWS", 30)
    query = np.repeat([4, 0, -1, 2, 1, 3], [10, 12, 40, 8, 9, 11])
    of = path(2)
    by_query = DropPath(of=of.of, twins={}, fold=np.zeros(90, dtype=np.int64), refitted=False, query=query)
    rows = np.arange(90)
    chosen = by_query._some(rows)
    # 3 of 5 queries have about 30 of 50 rows; all rows of each are chosen, and none of those with nothing to rank.
    assert np.unique(query[chosen]).tolist() == [0, 2, 4]
    assert chosen.tolist() == np.flatnonzero(np.isin(query, [0, 2, 4])).tolist()
    assert by_query._some(np.flatnonzero(query == 1)).size == 9
    assert of._some(rows).size == 30


def test_folds_do_not_depend_on_the_numbers_of_classes():
    codes = np.random.default_rng(0).integers(0, 4, 101)
    expected = fold_of_rows(codes, 101, 3, 5)
    for seed in range(3):
        numbers = np.random.default_rng(seed).permutation(4)
        np.testing.assert_array_equal(fold_of_rows(numbers[codes], 101, 3, 5), expected)
    counts = np.array([np.bincount(expected[codes == code], minlength=3) for code in range(4)])
    assert (np.ptp(counts, axis=1) <= 1).all()
