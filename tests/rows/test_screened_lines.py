"""Screened lines: a rough z by its definition, and the moments of all lines where it is high."""

import numpy as np
import pytest
import xgboost
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import debias
from debias.data.groups import Grouping
from debias.rows import permuted_effects, screened_lines
from debias.rows.permuted_effects import PermutedEffects
from support.linear_effects import effects_of, forest, permuted, rows_of


def settings():
    X, latent = rows_of(300, 9)
    yield "numbers", effects_of(forest(X, latent), X, latent)
    for cuts in ([0.0], [-0.5, 0.5]):
        y = np.digitize(latent, cuts)
        yield f"{len(cuts) + 1} classes", effects_of(forest(X, y), X, y)
        model = xgboost.XGBClassifier(n_estimators=3, max_depth=3, n_jobs=1).fit(X[:200], y[:200])
        yield (
            f"{len(cuts) + 1} classes held out",
            effects_of(model, X[200:], y[200:], rows="held-out", train=(X[:200], y[:200])),
        )
    y = np.column_stack([latent, latent**2])
    yield "several outputs", effects_of(forest(X, y), X, y)
    blocks = debias.Dataset(X, latent, blocks=np.arange(300) // 3)
    yield "blocks", effects_of(forest(X, latent, max_samples=0.2), blocks)
    weight = np.random.default_rng(1).integers(0, 4, 300) * 0.7
    model = RandomForestRegressor(5, random_state=0).fit(X, latent, sample_weight=weight)
    yield "weights", effects_of(model, X, latent, sample_weight=weight)


SETTINGS = dict(settings())
MANY_LINES = ("2 classes", "3 classes", "3 classes held out", "several outputs")
"""Settings in which the definition, line by line, takes long."""


def screened(effects, groups=None):
    """Return permuted effects with screened lines."""
    grouping = Grouping.of(groups, effects.ensemble.feature_names)
    together = PermutedEffects(effects, grouping, within_fit=True)
    assert together.screens
    return together


@pytest.fixture(autouse=True)
def features_are_many(monkeypatch):
    monkeypatch.setattr(permuted_effects, "FIT_SHARE", 1e-9)
    monkeypatch.setattr(permuted_effects, "LEAST_SCREENED", 1)


@pytest.mark.parametrize("name", SETTINGS)
def test_where_everything_is_high_the_moments_are_those_of_all_lines(name, monkeypatch):
    effects = SETTINGS[name]
    every = PermutedEffects(effects, Grouping.of(None, effects.ensemble.feature_names))
    monkeypatch.setattr(screened_lines, "HIGH", -np.inf)
    found, rough = screened(effects).moments(permuted(effects, 19))
    expected, infinite = every.moments(permuted(effects, 19))
    np.testing.assert_array_equal(found, expected)  # the same bits
    assert np.isfinite(rough).all()
    assert (infinite == np.inf).all()


@pytest.mark.parametrize("name", SETTINGS)
def test_lines_have_moments_where_their_rough_z_is_high(name, monkeypatch):
    effects = SETTINGS[name]
    monkeypatch.setattr(screened_lines, "HIGH", 1.2)
    every = PermutedEffects(effects, Grouping.of(None, effects.ensemble.feature_names))
    found, rough = screened(effects).moments(permuted(effects, 70))
    expected, _ = every.moments(permuted(effects, 70))
    high = rough >= screened_lines.HIGH
    assert 5 < high.sum() < high.size / 4
    np.testing.assert_array_equal(found[:, high], expected[:, high])
    np.testing.assert_array_equal(found[:, ~high], 0)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.thorough] * (name in MANY_LINES)) for name in SETTINGS]
)
def test_rough_z_by_definition(name, monkeypatch):
    effects = SETTINGS[name]
    monkeypatch.setattr(screened_lines, "TILES_OF_SPREAD", 1)
    monkeypatch.setattr(screened_lines, "ROUGH_TREES", 2)
    together = screened(effects)
    response = permuted(effects, 3)
    _, rough = together.moments(response)
    expected = np.stack([rough_by_definition(effects, response[:, :, b]) for b in range(3)], axis=1)
    np.testing.assert_allclose(rough * together._spread, expected, rtol=2e-4, atol=2e-4)
    # Of one tile, which has the first four lines, in 16 orders that are not those of the test.
    orders = list(screened_lines.random_orders(effects.block, 16))
    in_orders = [rough_by_definition(effects, effects.response[order])[:4] for order in orders]
    np.testing.assert_allclose(together._spread, np.sqrt(np.mean(np.square(in_orders))), rtol=1e-4)


def rough_by_definition(effects, response):
    """Return the rough z of every line in two trees of each output, node by node, in double precision."""
    y = effects.centred(response[:, :, None])[:, :, 0]
    y_in = y if effects.response_in is None else effects.response_in
    feature, value = effects.lines
    score, squares = np.zeros((2, feature.size))
    for tree in effects.of_first_trees(2).trees:
        columns = slice(tree.first, tree.first + effects.width)
        for node in range(tree.parent.size):
            inside, outside = (at_node(tree, side, node) for side in (tree.inside, tree.outside))
            if inside[1].sum() < effects.min_node_size or not outside[0].size:
                continue
            for line in range(feature.size):
                x_in = value[line][effects.codes_in[feature[line], inside[0]]]
                x = value[line][effects.codes[feature[line], outside[0]]]
                x_in, x = x_in - np.average(x_in, weights=inside[1]), x - np.average(x, weights=outside[1])
                if np.ptp(x_in) == 0 or np.ptp(x) == 0:
                    continue
                slope = (inside[1] * x_in) @ y_in[inside[0], columns] / (inside[1] @ x_in**2) * tree.scale[node]
                of_node = y[outside[0], columns]
                variance = np.average(
                    (of_node - np.average(of_node, axis=0, weights=outside[1])) ** 2, axis=0, weights=outside[1]
                )
                score[line] += slope @ ((outside[1] * x) @ of_node)
                # Weights are in units of the largest.
                squares[line] += slope**2 @ variance * (outside[1] @ x**2) * effects.weight.max()
    return np.divide(score, np.sqrt(squares), out=np.zeros_like(score), where=squares > 0)


def at_node(tree, side, node):
    """Return the rows of a tree below a node, and their weights."""
    below = [node]
    for child in range(node + 1, tree.parent.size):
        if tree.parent[child] in below:
            below.append(child)
    chosen = np.isin(side[1], below)
    return side[0][chosen], side[2][chosen]


def test_groups_missing_values_and_categories_are_not_screened():
    X, latent = rows_of(300, 12, missing=0.05)
    X[:, 1:9] = np.nan_to_num(X[:, 1:9])
    effects = effects_of(
        xgboost.XGBRegressor(n_estimators=3, n_jobs=1).fit(X[:200], latent[:200]),
        X[200:],
        latent[200:],
        rows="held-out",
        train=(X[:200], latent[:200]),
    )
    groups = {"two": effects.ensemble.feature_names[1:3]}
    grouping = Grouping.of(groups, effects.ensemble.feature_names)
    together = screened(effects, groups)
    found, rough = together.moments(permuted(effects, 5))
    alone = [grouping.names.index(effects.ensemble.feature_names[k]) for k in range(3, 9)]
    np.testing.assert_array_equal(np.flatnonzero(np.isfinite(rough).all(axis=1)), sorted(alone))
    expected, _ = PermutedEffects(effects, grouping).moments(permuted(effects, 5))
    others = np.setdiff1d(np.arange(len(grouping.names)), alone)
    np.testing.assert_array_equal(found[:, others], expected[:, others])


def test_threads_and_memory_change_no_bit(monkeypatch):
    X, latent = rows_of(300, 9)
    model, found = forest(X, latent), []
    for n_jobs, memory, rows_a_call in ((1, 2**28, 2**17), (2, 2**28, 1), (2, 0, 1)):
        monkeypatch.setattr(screened_lines, "MEMORY", memory)
        monkeypatch.setattr(permuted_effects, "ROWS_A_CALL", rows_a_call)
        effects = effects_of(model, X, latent, n_jobs=n_jobs)
        together = screened(effects)
        found.extend(together.moments(permuted(effects, 20)) for _ in range(2))
    for sums, rough in found[1:]:
        np.testing.assert_array_equal(sums, found[0][0])
        np.testing.assert_array_equal(rough, found[0][1])


def test_stumps_constant_columns_and_nodes_without_lines():
    X, latent = rows_of(300, 6)
    X[:, 2], X[:, 3] = 5.0, np.arange(300) == 7  # the row of the 1 is never in the bag and evaluated
    effects = effects_of(forest(X, latent, max_depth=1), X, latent)
    sums, rough = screened(effects).moments(permuted(effects, 20))
    np.testing.assert_array_equal(rough[2:4], 0)
    np.testing.assert_array_equal(sums[:, 2:4], 0)
    model = forest(X[:25], latent[:25], max_depth=1)
    effects = effects_of(model, X[:25], latent[:25])
    _, rough = screened(effects).moments(permuted(effects, 20))
    np.testing.assert_array_equal(rough, 0)


def test_the_statistic_is_the_rough_z_or_z_where_that_is_high():
    from debias.significance.permutation import EffectStatistic

    effects = SETTINGS["2 classes"]
    grouping = Grouping.of(None, effects.ensemble.feature_names)
    response = permuted(effects, 160)
    few, every = (EffectStatistic(effects, grouping, within_fit=within_fit) for within_fit in (True, False))
    assert (few.details["screened_lines"], every.details["screened_lines"]) == (True, False)
    _, rough = screened(effects).moments(response)
    z, found = every.of(response), few.of(response)
    high = rough.T >= screened_lines.HIGH
    assert ((z > screened_lines.HIGH) & high).sum() > 3
    assert ((z < screened_lines.HIGH) & high).any()
    np.testing.assert_array_equal(found[~high], rough.T[~high])
    np.testing.assert_array_equal(found[high], np.maximum(z[high], screened_lines.HIGH))
    np.testing.assert_array_equal(few.observed(), every.observed())


def test_only_the_default_screens_and_only_where_features_are_many(monkeypatch):
    X, latent = rows_of(200, 50)
    monkeypatch.setattr(permuted_effects, "LEAST_SCREENED", 50)
    y = (latent > 0).astype(int)
    model = RandomForestClassifier(20, random_state=0).fit(X, y)
    given = {"rows": "oob", "random_state": 0}
    few, every = (debias.audit(model, X, y, dependence=dependence, **given) for dependence in ("auto", True))
    monkeypatch.setattr(permuted_effects, "FIT_SHARE", 100.0)
    not_many = debias.audit(model, X, y, **given)
    monkeypatch.setattr(permuted_effects, "FIT_SHARE", 1e-9)
    monkeypatch.setattr(permuted_effects, "LEAST_SCREENED", 51)
    few_lines = debias.audit(model, X, y, **given)
    audits = (few, every, not_many, few_lines)
    tests = [each.scores["honest_effects"].details["test"]["screened_lines"] for each in audits]
    assert tests == [True, False, False, False]
    np.testing.assert_array_equal(
        every.scores["honest_effects"].p_adjusted, not_many.scores["honest_effects"].p_adjusted
    )
    np.testing.assert_array_equal(every.scores["honest_effects"].z, few.scores["honest_effects"].z)
