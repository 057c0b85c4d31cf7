"""Permuted linear effects in single precision, against double precision, which tests of honest effects check."""

from dataclasses import replace

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.ensemble import RandomForestRegressor

import debias
from debias.data.groups import Grouping
from debias.rows import effects as effects_module
from debias.rows import permuted_effects
from debias.rows.permuted_effects import ROUNDING, PermutedEffects
from support.linear_effects import effects_of, forest, permuted, rows_of
from support.missing_values import IN_FORESTS, needs_them_in_forests


def studentised(sums, n):
    variance = np.maximum(sums[1] - sums[0] ** 2 / n, 0) * n / (n - 1)
    varies = variance > 1e-20 * sums[1]
    return np.divide(sums[0], np.sqrt(variance), out=np.zeros_like(variance), where=varies)


def by_definition(effects, grouping, response):
    """Return the studentised scores, by contributions in double precision, one response after the other."""
    found = []
    for lane in range(response.shape[2]):
        phi = np.zeros((effects.n_rows, effects.ensemble.n_features))

        def write(features, contributed, phi=phi):
            phi[:, features] = contributed[:, :, 0]

        singles = [[feature] for feature in range(phi.shape[1])]
        effects.for_groups(singles, effects.centred(response[:, :, lane : lane + 1]), write)
        of_block = np.stack([phi[effects.block == block].sum(axis=0) for block in np.unique(effects.block)])
        of_group = grouping.sum_columns(of_block)
        found.append(studentised(np.stack([of_group.sum(axis=0), (of_group**2).sum(axis=0)]), len(of_group)))
    return np.stack(found, axis=1)


def assert_same_scores(effects, lanes=5, groups=None):
    """Both precisions give the same scores, up to `ROUNDING`; return how many groups are in single precision."""
    grouping = Grouping.of(groups, effects.ensemble.feature_names)
    response, together = permuted(effects, lanes), PermutedEffects(effects, grouping)
    found = studentised(together.moments(response)[0], np.unique(effects.block).size)
    expected = by_definition(effects, grouping, response)
    assert found.shape == (len(grouping.names), lanes)
    assert (np.abs(found - expected) <= ROUNDING * np.maximum(np.abs(expected), 1)).all()
    in_double = studentised(together.moments_in_double(), np.unique(effects.block).size)
    np.testing.assert_allclose(in_double, expected[:, 0], rtol=1e-9, atol=1e-9)
    return len(grouping.names) - len(together._in_double), found


@pytest.mark.parametrize(
    ("p", "lanes", "n_trees"), [(1, 1, 1), (3, 16, 5), (4, 17, 5), (5, 15, 2), (9, 33, 5)], ids=str
)
def test_numbers_of_lines_and_permutations(p, lanes, n_trees):
    X, latent = rows_of(300, p)
    n, found = assert_same_scores(effects_of(forest(X, latent, n_trees), X, latent), lanes)
    assert n == p
    assert np.abs(found[:, 0]).max() > 3


@pytest.mark.parametrize("cuts", [[0.0], [1.5], [-0.5, 0.5]], ids=["balanced", "rare", "3 classes"])
def test_classes(cuts):
    X, latent = rows_of(300, 6)
    y = np.digitize(latent, cuts)
    assert assert_same_scores(effects_of(forest(X, y), X, y))[0] == 6


def test_several_outputs():
    X, latent = rows_of(300, 6)
    y = np.column_stack([latent, latent**2, np.cos(latent)])
    assert assert_same_scores(effects_of(forest(X, y), X, y))[0] == 6


@pytest.mark.skipif(not IN_FORESTS, reason="scikit-learn's forests take no missing values")
@pytest.mark.parametrize("groups", [None, {"a": ["x0", "x3"], "b": ["x1", "x2", "x4", "x5", "x6"]}], ids=["", "groups"])
def test_missing_values(groups):
    X, latent = rows_of(400, 9, missing=0.2)
    X[:, [2, 5]] = np.nan_to_num(X[:, [2, 5]])
    X[:, 7] = np.nan
    X[:12, 7] = 1.0
    effects = effects_of(forest(X, latent), X, latent)
    assert assert_same_scores(effects, groups=groups)[0] == (9 if groups is None else 4)


@pytest.mark.parametrize("size", [2, 5, 8, 9])
def test_groups_of_features(size):
    X, latent = rows_of(300, 12)
    effects = effects_of(forest(X, latent), X, latent)
    groups = {"first": [f"x{k}" for k in range(size)], "last": ["x10", "x11"]}
    assert assert_same_scores(effects, groups=groups)[0] == 12 - size


def test_a_group_without_features_scores_0(monkeypatch):
    X, latent = rows_of(300, 3)
    effects = effects_of(forest(X, latent), X, latent)
    grouping = Grouping(("x0", "dropped", "x1", "x2"), np.array([0, 2, 3]))
    filled = np.empty

    def filled_with_7(*shape, **dtype):
        made = filled(*shape, **dtype)
        made.fill(7)  # also of truth values, which NumPy 2.0 makes in np.unique
        return made

    monkeypatch.setattr(np, "empty", filled_with_7)
    sums, _ = PermutedEffects(effects, grouping).moments(permuted(effects, 3))
    np.testing.assert_array_equal(sums[:, 1], 0)
    assert sums[:, [0, 2, 3]].all()


@pytest.mark.parametrize("size", [1, 2, 5, 75])
@pytest.mark.parametrize("held_out", [False, True])
def test_blocks_of_rows(size, held_out):
    X, latent = rows_of(450, 5)
    blocks = np.arange(450) % (150 // size)
    if held_out:
        model = xgboost.XGBRegressor(n_estimators=3, max_depth=3, n_jobs=1).fit(X[150:], latent[150:])
        data = debias.Dataset(X[:150], latent[:150], blocks=blocks[:150])
        effects = effects_of(model, data, rows="held-out", train=(X[150:], latent[150:]))
    else:
        model = forest(X, latent, max_samples=0.2)
        effects = effects_of(model, debias.Dataset(X, latent, blocks=np.arange(450) // min(size, 3)))
    assert assert_same_scores(effects)[0] == (0 if held_out and size == 75 else 5)  # two blocks


@pytest.mark.parametrize("unit", [1.0, 1e-60, 1e60])
def test_the_unit_of_evaluation_weights_does_not_matter(unit):
    X, latent = rows_of(300, 5)
    weight = np.random.default_rng(1).integers(0, 4, 100) * unit
    model = xgboost.XGBRegressor(n_estimators=3, max_depth=3, n_jobs=1).fit(X[100:], latent[100:])
    data = debias.Dataset(X[:100], latent[:100], sample_weight=weight)
    assert assert_same_scores(effects_of(model, data, rows="held-out", train=(X[100:], latent[100:])))[0] == 5


def test_weights_of_rows():
    X, latent = rows_of(300, 5)
    weight = np.random.default_rng(1).integers(0, 4, 300) * 0.7
    model = RandomForestRegressor(5, random_state=0).fit(X, latent, sample_weight=weight)
    assert assert_same_scores(effects_of(model, X, latent, sample_weight=weight))[0] == 5


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("cuts", [None, [0.0], [-0.5, 0.5]], ids=["numbers", "2 classes", "3 classes"])
def test_held_out_rows(cuts, missing):
    X, latent = rows_of(400, 6, missing=missing)
    y = latent if cuts is None else np.digitize(latent, cuts)
    model = (xgboost.XGBRegressor if cuts is None else xgboost.XGBClassifier)(n_estimators=3, max_depth=3, n_jobs=1)
    model.fit(X[:250], y[:250])
    effects = effects_of(model, X[250:], y[250:], rows="held-out", train=(X[:250], y[:250]))
    assert assert_same_scores(effects)[0] == 6


def test_values_that_are_missing_only_in_the_evaluated_rows():
    X, latent = rows_of(400, 5)
    model = xgboost.XGBRegressor(n_estimators=3, max_depth=3, n_jobs=1).fit(X[:250], latent[:250])
    held = X[250:].copy()
    held[::7, 2] = np.nan
    effects = effects_of(model, held, latent[250:], rows="held-out", train=(X[:250], latent[:250]))
    assert assert_same_scores(effects)[0] == 5


def test_categories_and_their_groups_are_in_double_precision():
    X, latent = rows_of(400, 4)
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["letter"] = pd.Categorical(np.random.default_rng(0).choice(list("xyz"), 400))
    y = latent + (frame["letter"] == "x")
    model = lightgbm.LGBMRegressor(n_estimators=3, num_leaves=6, n_jobs=1, verbose=-1).fit(frame[:250], y[:250])
    effects = effects_of(model, frame[250:], y[250:], rows="held-out", train=(frame[:250], y[:250]))
    assert assert_same_scores(effects)[0] == 4
    assert assert_same_scores(effects, groups={"both": ["a", "letter"]})[0] == 3


def test_very_many_ranks_and_large_weights_are_in_double_precision(monkeypatch):
    X, latent = rows_of(1500, 3)
    model = forest(X, latent)
    for bins, n in ((1000, 3), (1400, 0)):
        assert assert_same_scores(effects_of(model, X, latent, bins=bins))[0] == n
    monkeypatch.setattr(permuted_effects, "MOST_WEIGHT", 1.5)
    assert assert_same_scores(effects_of(model, X, latent))[0] == 0


@pytest.mark.parametrize("outlier", [1e4, 1e6, 1e10])
def test_an_outlier_of_the_response_is_in_double_precision(outlier):
    X, latent = rows_of(300, 6)
    latent[3] = outlier
    assert assert_same_scores(effects_of(forest(X, latent), X, latent), 20)[0] == 0


@pytest.mark.parametrize("small", [1e-3, 1e-50])
def test_very_unequal_weights_are_in_double_precision(small):
    X, latent = rows_of(300, 6)
    weights = np.where(np.arange(300) < 150, small, 1.0)
    of_evaluation = debias.Dataset(X, latent, sample_weight=weights)
    assert assert_same_scores(effects_of(forest(X, latent), of_evaluation, None, min_node_size=1.0), 20)[0] == 0


def test_ranks_that_hardly_differ_in_small_nodes():
    X, latent = rows_of(3000, 1)
    model = forest(X, latent, min_samples_leaf=20)
    assert assert_same_scores(effects_of(model, X, latent, bins=1000))[0] == 1


def test_stumps_constant_columns_and_nodes_without_lines():
    X, latent = rows_of(300, 6)
    X[:, 2], X[:, 3] = 5.0, np.arange(300) == 7  # the row of the 1 is never in the bag and evaluated
    effects = effects_of(forest(X, latent, max_depth=1), X, latent)
    _, found = assert_same_scores(effects)
    np.testing.assert_array_equal(found[2:4], 0)
    np.testing.assert_array_equal(effects.contributions(300)[:, 2:4], 0)
    model = forest(X[:25], latent[:25], max_depth=1)
    _, found = assert_same_scores(effects_of(model, X[:25], latent[:25]))
    np.testing.assert_array_equal(found, 0)


def test_seats_in_any_order():
    """XGBoost grows by levels or by gain: children do not follow their parents."""
    X, latent = rows_of(600, 4)
    model = xgboost.XGBRegressor(n_estimators=2, grow_policy="lossguide", max_leaves=12, max_depth=0, n_jobs=1)
    model.fit(X[:400], latent[:400])
    effects = effects_of(model, X[400:], latent[400:], rows="held-out", train=(X[:400], latent[:400]))
    assert max(tree.parent.size for tree in effects.trees) > 5
    assert assert_same_scores(effects)[0] == 4


@pytest.mark.parametrize("unit", [1e-30, 1e30])
def test_the_unit_of_the_response_does_not_matter(unit):
    X, latent = rows_of(300, 4)
    effects = effects_of(forest(X, latent), X, latent)
    other = assert_same_scores(replace(effects, response=effects.response * unit))[1]
    np.testing.assert_allclose(assert_same_scores(effects)[1], other, rtol=ROUNDING, atol=ROUNDING)


def test_equal_responses_have_equal_bits_in_every_lane_and_batch():
    X, latent = rows_of(300, 5)
    effects = effects_of(forest(X, latent), X, latent)
    together = PermutedEffects(effects, Grouping.of(None, effects.ensemble.feature_names))
    sums, _ = together.moments(np.repeat(effects.response[:, :, None], 35, axis=2))
    np.testing.assert_array_equal(sums, np.repeat(sums[:, :, :1], 35, axis=2))


def test_threads_and_memory_change_no_bit(monkeypatch):
    X, latent = rows_of(300, 9)
    model, sums = forest(X, latent), []
    for n_jobs, memory in ((1, 2**28), (2, 2**28), (2, 0)):
        monkeypatch.setattr(permuted_effects, "MEMORY", memory)
        effects = effects_of(model, X, latent, n_jobs=n_jobs)
        together = PermutedEffects(
            effects, Grouping.of({"a": [f"x{k}" for k in range(6)]}, effects.ensemble.feature_names)
        )
        sums.append([together.moments(permuted(effects, 20))[0] for _ in range(2)])
    np.testing.assert_array_equal(sums[0], sums[1])
    np.testing.assert_array_equal(sums[0], sums[2])
    np.testing.assert_array_equal(sums[0][0], sums[0][1])


def test_of_large_data_the_lines_of_the_first_trees_are_tested(monkeypatch):
    X, latent = rows_of(300, 5)
    y = np.digitize(latent, [-0.5, 0.5])
    model = xgboost.XGBClassifier(n_estimators=6, max_depth=3, n_jobs=1).fit(X[:200], y[:200])
    given = {"rows": "held-out", "train": (X[:200], y[:200]), "random_state": 0}
    every, repeated = (debias.audit(model, X[200:], y[200:], **given).scores["honest_effects"] for _ in range(2))
    np.testing.assert_array_equal(every.z, repeated.z)
    assert every.details["test"]["trees_of_lines"] == 18
    monkeypatch.setattr(permuted_effects, "MOST_WORK", 1.0)
    monkeypatch.setattr(permuted_effects, "LEAST_TREES", 2)
    effects = effects_of(model, X[200:], y[200:], rows="held-out", train=(X[:200], y[:200]))
    few = debias.audit(model, X[200:], y[200:], **given).scores["honest_effects"]
    assert few.details["test"]["trees_of_lines"] == 6
    np.testing.assert_array_equal(few.values, every.values)
    assert [tree.first for tree in effects.of_first_trees(2).trees] == [0, 1, 2] * 2
    first = model.get_booster()[:2]
    of_first = effects_of(first, X[200:], y[200:], rows="held-out", train=(X[:200], y[:200]))
    grouping = Grouping.of(None, effects.ensemble.feature_names)
    one, two = (studentised(PermutedEffects(each, grouping).moments_in_double(), 100) for each in (effects, of_first))
    np.testing.assert_allclose(one, two, rtol=1e-9)


def test_one_response_has_the_same_bits_whether_lines_are_computed_together(monkeypatch):
    X, latent = rows_of(400, 11, missing=0.05)
    X[:, 1:9] = np.nan_to_num(X[:, 1:9])
    model = xgboost.XGBClassifier(n_estimators=3, max_depth=3, n_jobs=1).fit(X[:250], np.digitize(latent[:250], [0, 1]))
    effects = effects_of(
        model,
        X[250:],
        np.digitize(latent[250:], [0, 1]),
        rows="held-out",
        train=(X[:250], np.digitize(latent[:250], [0, 1])),
        min_node_size=10.0,
    )
    singles = [[feature] for feature in range(11)]
    assert effects.complete_lines(singles)[0].tolist() == list(range(1, 9))
    found = [effects.contributions(150, folded) for folded in (False, True)]
    monkeypatch.setattr(type(effects), "complete_lines", lambda self, members: np.empty((2, 0), dtype=np.int64))
    np.testing.assert_array_equal(found, [effects.contributions(150, folded) for folded in (False, True)])


@pytest.mark.thorough
def test_within_a_fit_few_trees_are_tested_where_features_are_many():
    X, latent = rows_of(300, 80)
    model = RandomForestRegressor(60, random_state=0, max_features=8).fit(X, latent)
    default, full = (
        debias.audit(model, X, latent, rows="oob", random_state=0, dependence=dependence).scores["honest_effects"]
        for dependence in ("auto", True)
    )
    # .5 x log2(300) x sqrt(80) x 60 trees / 80 lines
    assert default.details["test"]["trees_of_lines"] == 27
    assert full.details["test"]["trees_of_lines"] == 60
    np.testing.assert_array_equal(default.values, full.values)
    effects = effects_of(model, X, latent)
    grouping = Grouping.of(None, effects.ensemble.feature_names)
    few = PermutedEffects(effects, grouping, within_fit=True)
    alone = PermutedEffects(effects.of_first_trees(27), grouping)
    np.testing.assert_array_equal(few.moments_in_double(), alone.moments_in_double())


def test_within_a_fit_no_tree_is_left_out_where_features_are_few():
    X, latent = rows_of(300, 12)
    effects = effects_of(RandomForestRegressor(12, random_state=0).fit(X, latent), X, latent)
    grouping = Grouping.of(None, effects.ensemble.feature_names)
    for within_fit in (True, False):
        assert len(PermutedEffects(effects, grouping, within_fit=within_fit).effects.trees) == 12


def test_trees_whose_bags_have_one_response_add_nothing():
    X, latent = rows_of(300, 5)
    y = (np.arange(300) % 2).astype(float)
    effects = effects_of(forest(X, latent), X, latent)
    first = effects.trees[0].inside[0]
    y[first] = 1 / 3
    effects = replace(effects, response=y[:, None])
    assert not effects.fits_nothing
    without = replace(effects, trees=effects.trees[1:])
    np.testing.assert_array_equal(effects.contributions(300), without.contributions(300))
    flat = replace(effects, trees=effects.trees[:1])
    assert flat.fits_nothing
    np.testing.assert_array_equal(flat.contributions(300), 0)
    grouping = Grouping.of({"two": ["x0", "x1"]}, effects.ensemble.feature_names)
    np.testing.assert_array_equal(PermutedEffects(flat, grouping).moments_in_double(), 0)


def test_trees_in_one_call_or_each_in_its_own_give_the_same_bits(monkeypatch):
    X, latent = rows_of(300, 9)
    effects = effects_of(forest(X, latent), X, latent)
    found = []
    for rows_a_call in (1, 700, 2**14):
        monkeypatch.setattr(effects_module, "ROWS_A_CALL", rows_a_call)
        found.append(effects.contributions(300))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


@needs_them_in_forests
def test_tiles_in_one_call_or_each_in_its_own_give_the_same_bits(monkeypatch):
    X, latent = rows_of(300, 30, missing=0.05)
    X[:, 1:9] = np.nan_to_num(X[:, 1:9])
    effects = effects_of(RandomForestRegressor(5, random_state=0).fit(X, latent), X, latent)
    grouping = Grouping.of(
        {"many": [f"x{k}" for k in range(3, 14)], "few": ["x1", "x20"]}, effects.ensemble.feature_names
    )
    found, n_calls = [], []
    for rows_a_call in (1, 4000, 2**17):
        monkeypatch.setattr(permuted_effects, "ROWS_A_CALL", rows_a_call)
        together = PermutedEffects(effects, grouping)
        n_calls.append(len(together._runs))
        found.append(together.moments(permuted(effects, 18))[0])
    assert n_calls[0] > n_calls[1] > n_calls[2] == 1
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


@needs_them_in_forests
def test_the_steps_of_a_permutation_are_counted():
    X, latent = rows_of(300, 12, missing=0.1)
    y = np.digitize(latent, [-0.5, 0.5])
    effects = effects_of(forest(X, y, 7), X, y)
    grouping = Grouping.of(None, effects.ensemble.feature_names)
    n_lines = 2 * 12  # every feature has missing values
    together = PermutedEffects(effects, grouping)
    assert together.steps == 7 * 300 * n_lines * 3  # a row is in the bag of a tree or is evaluated; three classes
    assert (together.n_trees, together.most_trees) == (7, 7)
