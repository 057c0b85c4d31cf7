"""Contributions of rows, z and frozen-forest permutations against brute force (tests/support/oracle.py)."""

from __future__ import annotations

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier

import debias
from debias.significance.contributions import spread
from support import oracle, simulated
from support.agreement import assert_agree

N = 70
SMALL = {"n_estimators": 4, "random_state": 0}
pytestmark = pytest.mark.filterwarnings("ignore:about .* rows (are|may be) training rows:debias.DebiasWarning")


def rows_of(task, n=N, seed=0):
    kinds = ("normal", range(2), range(5), "normal")
    cuts = {"regression": None, "binary": [1.0], "3-class": [-0.5, 1.2]}[task]
    X, y = simulated.rows(n, kinds, (1, 1), cuts=cuts, seed=seed)
    return X, y + 3 if task == "regression" else y


def some_weight(n=N):
    return simulated.weights(n, seed=5)


FORESTS = {
    "regression": lambda: (RandomForestRegressor(**SMALL), "regression"),
    "binary": lambda: (RandomForestClassifier(**SMALL, max_depth=4), "binary"),
    "3-class": lambda: (RandomForestClassifier(**SMALL, min_samples_leaf=3), "3-class"),
    "extra": lambda: (ExtraTreesClassifier(**SMALL, bootstrap=True), "3-class"),
    "medians": lambda: (RandomForestRegressor(**SMALL, criterion="absolute_error", max_depth=4), "regression"),
    "small-bags": lambda: (RandomForestRegressor(**SMALL, max_samples=0.3), "regression"),
    "balanced-subsample": lambda: (
        RandomForestClassifier(**SMALL, class_weight="balanced_subsample", max_depth=4),
        "3-class",
    ),
    "weights of classes in bagged trees": lambda: (
        BaggingClassifier(DecisionTreeClassifier(class_weight={0: 0.5, 1: 4.0}, max_depth=4), 4, random_state=0),
        "binary",
    ),
    "balanced-draws": lambda: (RandomForestClassifier(**SMALL, class_weight="balanced", max_depth=4), "binary"),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", FORESTS)
def test_contributions_of_a_forest_are_the_oracles_and_add_up(kind, weighted):
    model, task = FORESTS[kind]()
    X, y = rows_of(task)
    weight = some_weight() if weighted else None
    model.fit(X, y)
    phi = debias.contributions(model, X, y, sample_weight=weight)
    grown = oracle.grow_forest(model, X, y, weight)
    assert_agree(phi.to_numpy(), oracle.contributions(oracle.sklearn_model(model), grown, X, y))
    assert_agree(phi.sum().to_numpy(), debias.score(model, X, y, sample_weight=weight).values)


@pytest.mark.parametrize("options", ["shrinkage=30", "weights='in_bag'", "weights='in_bag', shrinkage=5"])
@pytest.mark.parametrize("task", ["regression", "3-class"])
def test_contributions_sum_to_the_score_under_its_options(options, task):
    X, y = rows_of(task)
    kind = RandomForestRegressor if task == "regression" else RandomForestClassifier
    model = kind(**SMALL).fit(X, y)
    phi = debias.contributions(model, X, y, f"mdi_oob({options})")
    assert_agree(phi.sum().to_numpy(), debias.score(model, X, y, f"mdi_oob({options})").values)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("task", ["regression", "binary", "3-class"])
@pytest.mark.parametrize("blocked", [False, True])
@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_contributions_of_a_boosted_model_are_the_oracles_and_add_up(library, blocked, task, weighted):
    X, y = rows_of(task, 200)
    fresh_X, fresh_y = rows_of(task, 60, seed=1)
    weight = some_weight(60) if weighted else None
    settings = {"n_estimators": 4, "max_depth": 3, "n_jobs": 1}
    if library == "xgboost":
        kind = xgboost.XGBRegressor if task == "regression" else xgboost.XGBClassifier
        model = kind(**settings).fit(X, y)
        form = oracle.xgboost_model(model)
    else:
        kind = lightgbm.LGBMRegressor if task == "regression" else lightgbm.LGBMClassifier
        model = kind(**settings, verbose=-1).fit(X, y)
        form = oracle.lightgbm_model(model)
    block = np.arange(60) % 17 if blocked else None  # of three and of four rows
    given = debias.Dataset(fresh_X, fresh_y, sample_weight=weight, blocks=block)
    phi = debias.contributions(model, given, rows="held-out")
    grown = oracle.grow_fixed(form, 60, weight)
    assert_agree(phi.to_numpy(), oracle.contributions(form, grown, fresh_X, fresh_y))
    assert_agree(phi.sum().to_numpy(), debias.score(model, given, rows="held-out").values)
    scores = debias.score(model, given, rows="held-out", test="naive")
    corrected = oracle.contributions(form, grown, fresh_X, fresh_y, inflated=True, block=block)
    if blocked:
        corrected = np.stack([corrected[block == label].sum(axis=0) for label in range(17)])
    elif weighted:
        corrected = corrected[weight > 0]  # rows of weight 0 are no rows
    error = np.sqrt(len(corrected)) * corrected.std(axis=0, ddof=1)
    assert_agree(scores.standard_error, error)
    assert_agree(scores.z, np.divide(scores.values, error, out=np.zeros(4), where=error > 0))


@pytest.mark.filterwarnings("ignore:a tree has .* out of bag on average:debias.DebiasWarning")
@pytest.mark.parametrize("blocked", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", FORESTS)
def test_frozen_permutations_of_a_forest_are_those_by_walking_the_trees(kind, weighted, blocked, monkeypatch):
    """Permute y, make all node means anew by walking the trees, and studentise: the compiled draws are the same."""
    monkeypatch.setattr("debias.significance.evidence.ENOUGH_BLOCKS", 1)  # the numbers are right with any number
    model, task = FORESTS[kind]()
    X, y = rows_of(task)
    weight = some_weight() if weighted else None
    block = np.arange(N) // 2 if blocked else None
    model.fit(X, y)
    given = debias.Dataset(X, y, sample_weight=weight, blocks=block)
    found = debias.audit(model, given, test=debias.Permutation(19), dependence=False, random_state=3).tested_scores
    shuffle = np.random.default_rng(np.random.SeedSequence(3))
    form = oracle.sklearn_model(model)

    def z(response):
        grown = oracle.grow_forest(model, X, response, weight, shrinkage=30, means=True, block=block)
        return oracle.studentised(oracle.contributions(form, grown, X, response), block)

    assert_agree(found.z, z(y))
    rows_of_block = np.arange(N).reshape(-1, 1 if block is None else 2)
    moved = np.flatnonzero(((np.ones(N) if weight is None else weight)[rows_of_block] > 0).any(axis=1))
    for draw in found.null[:4]:
        order = rows_of_block.copy()
        order[moved] = rows_of_block[moved[shuffle.permutation(moved.size)]]
        assert_agree(draw, z(y[order.ravel()]))


@pytest.mark.parametrize("task", ["regression", "3-class"])
def test_frozen_permutations_of_held_out_rows_are_those_by_walking_the_trees(task):
    X, y = rows_of(task, 200)
    fresh_X, fresh_y = rows_of(task, 40, seed=1)
    kind = xgboost.XGBRegressor if task == "regression" else xgboost.XGBClassifier
    model = kind(n_estimators=3, max_depth=3, n_jobs=1).fit(X, y)
    found = debias.audit(
        model, fresh_X, fresh_y, rows="held-out", random_state=3, test=debias.Permutation(19, of="response")
    ).tested_scores
    form, shuffle = oracle.xgboost_model(model), np.random.default_rng(np.random.SeedSequence(3))
    grown = oracle.grow_fixed(form, 40)
    for draw in found.null[:3]:
        phi = oracle.contributions(form, grown, fresh_X, fresh_y[shuffle.permutation(40)])
        assert_agree(draw, oracle.studentised(phi))


@pytest.mark.filterwarnings("ignore:a tree has .* out of bag on average:debias.DebiasWarning")
@pytest.mark.parametrize("task", ["binary", "3-class"])
@pytest.mark.parametrize("weighted", [False, True])
def test_what_contributes_nothing_has_a_z_of_0(task, weighted, monkeypatch):
    """All evaluation rows of a feature's nodes may be of one class: rounding must not make a z of that."""
    monkeypatch.setattr("debias.significance.evidence.ENOUGH_BLOCKS", 1)
    X, y = rows_of(task, 60)
    weight = some_weight(60) if weighted else None
    block = np.arange(60) // 2
    model = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, y)
    given = debias.Dataset(X, y, sample_weight=weight, blocks=block)
    found = debias.audit(model, given, test=debias.Permutation(60), dependence=False, random_state=3).tested_scores
    shuffle, form = np.random.default_rng(np.random.SeedSequence(3)), oracle.sklearn_model(model)
    n_zero, rows_of_block = 0, np.arange(60).reshape(-1, 2)
    moved = np.flatnonzero(((np.ones(60) if weight is None else weight)[rows_of_block] > 0).any(axis=1))
    for draw in found.null:
        order = rows_of_block.copy()
        order[moved] = rows_of_block[moved[shuffle.permutation(moved.size)]]
        response = y[order.ravel()]
        grown = oracle.grow_forest(model, X, response, weight, shrinkage=30, means=True, block=block)
        phi = np.abs(oracle.contributions(form, grown, X, response)).max(axis=0)
        zero = phi < 1e-12 * phi.max()
        assert (draw[zero] == 0).all()
        n_zero += zero.sum()
    assert n_zero > 0


@pytest.mark.thorough
def test_what_does_not_fit_in_memory_is_made_anew_and_is_the_same(monkeypatch):
    X, y = rows_of("3-class", 3000)
    model = RandomForestClassifier(**SMALL).fit(X, y)
    first = debias.audit(model, X, y, random_state=1, test=debias.Permutation(40))
    monkeypatch.setattr("debias.significance.feature_paths.MEMORY", 2**15)
    for n_jobs in (1, 2):
        again = debias.audit(model, X, y, random_state=1, test=debias.Permutation(40), n_jobs=n_jobs)
        np.testing.assert_array_equal(again.tested_scores.null, first.tested_scores.null)


def test_threads_take_several_columns_at_a_time():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 40))
    y = (X[:, 0] + rng.normal(size=200) > 0).astype(int)
    model = RandomForestClassifier(**SMALL).fit(X, y)
    first = debias.audit(model, X, y, random_state=1, test=debias.Permutation(40))
    assert debias.audit(model, X, y, random_state=1, test=debias.Permutation(40), n_jobs=2).to_json() == first.to_json()


def test_threads_and_the_number_of_permutations_side_by_side_change_nothing(monkeypatch):
    X, y = rows_of("3-class", 700)
    model = RandomForestClassifier(**SMALL).fit(X, y)
    first = debias.audit(model, X, y, random_state=1, test=debias.Permutation(40))
    assert debias.audit(model, X, y, random_state=1, test=debias.Permutation(40), n_jobs=2).to_json() == first.to_json()
    monkeypatch.setattr("debias.significance.permutation.LANES", 3)
    again = debias.audit(model, X, y, random_state=1, test=debias.Permutation(40))
    np.testing.assert_allclose(again.tested_scores.null, first.tested_scores.null, rtol=1e-12)
    assert not np.allclose(
        debias.audit(model, X, y, random_state=2, test=debias.Permutation(40)).tested_scores.null,
        first.tested_scores.null,
    )


def test_groups_are_summed_before_they_are_studentised():
    X, y = rows_of("regression")
    model = RandomForestRegressor(**SMALL).fit(X, y)
    groups = {"pair": ["x1", "x3"]}
    found = debias.score(model, X, y, groups=groups, test="conservative")
    assert found.feature_names == ("x0", "pair", "x2")
    grown = oracle.grow_forest(model, X, y, shrinkage=30, means=True)
    phi, inflated = (
        oracle.contributions(oracle.sklearn_model(model), grown, X, y, inflated=each) for each in (False, True)
    )
    phi, inflated = (np.column_stack([of[:, 0], of[:, 1] + of[:, 3], of[:, 2]]) for of in (phi, inflated))
    assert_agree(found.z, phi.sum(axis=0) / (np.sqrt(2 * N) * inflated.std(axis=0, ddof=1)))
    alone = debias.score(model, X, y).values
    assert_agree(found.values, [alone[0], alone[1] + alone[3], alone[2]])


def test_contributions_keep_the_index_and_come_in_the_order_of_the_rows(diabetes, models):
    X, y = diabetes
    X = X.set_index(pd.Index([f"patient {i}" for i in range(len(X))]))
    model = models("sklearn").fit(X, y)
    phi = debias.contributions(model, X, y)
    assert phi.index.equals(X.index)
    assert list(phi.columns) == list(X.columns)
    blocked = debias.contributions(
        model, debias.Dataset(X, y, blocks=np.arange(len(y))[::-1])
    )  # kept in another order inside
    np.testing.assert_allclose(blocked, phi, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["regression", "3-class", "balanced-subsample"])
def test_the_standard_error_is_the_jackknife_of_reweighted_rows(kind):
    """Change the weight of one row a little, in the bags and out of them, and see how the score moves."""
    model, task = FORESTS[kind]()
    X, y = rows_of(task, 40)
    model.fit(X, y)
    form, bags = oracle.sklearn_model(model), oracle.sklearn_bags(model, y)
    response, step = form.response(y), 1e-5

    def score(row, factor):
        change = [factor if i == row else 1.0 for i in range(40)]
        total = np.zeros(4)
        for tree, bag in zip(form.trees, bags, strict=True):
            inside = {i for i, _ in bag}
            outside = [(i, change[i]) for i in range(40) if i not in inside]
            rows = oracle.arrivals(tree, X, response, outside)
            grown = oracle.arrivals(tree, X, response, [(i, w * change[i]) for i, w in bag])
            for t, node in tree.splits():
                for c in (node.left, node.right):
                    if rows[c]:
                        moved = oracle.minus(oracle.mean(rows[c]), oracle.mean(rows[t]))
                        term = oracle.count(rows[c]) * oracle.dot(oracle.mean(grown[c]), moved)
                        total[node.feature] += term / len(outside) / len(form.trees)
        return total

    influence = np.array([(score(i, 1 + step) - score(i, 1 - step)) / (2 * step) for i in range(40)])
    found = debias.audit(model, X, y, test=debias.Permutation(19)).tested_scores.standard_error
    np.testing.assert_allclose(found, np.sqrt(40) * influence.std(axis=0, ddof=1), rtol=1e-6)


# --- weights of very different size --------------------------------------------------------------------


def assert_same_tests(one, other):
    for name in ("values", "standard_error", "z", "p_value"):
        # The size of a weight far below 1 changes nothing, except in what only such rows decide.
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-9, atol=1e-14)
    assert (one.standard_error > 0).all()


@pytest.mark.parametrize("how", ["naive", "permutation", "batches"])
def test_the_size_of_tiny_weights_does_not_matter_on_held_out_rows(how):
    """Scores are those without these rows. Standard errors count them, and rows of weight 0 they do not."""
    model = RandomForestRegressor(6, random_state=0).fit(*rows_of("regression", 120))
    X, y = rows_of("regression", 120, seed=1)
    tiny = np.random.default_rng(0).random(len(X)) < 0.5

    def scored(size):
        weight = np.where(tiny, size, 1.0)
        if how != "batches":
            return debias.score(model, X, y, rows="held-out", sample_weight=weight, test=how)
        parts = [(X[i : i + 40], y[i : i + 40], weight[i : i + 40]) for i in (0, 40, 80)]
        return debias.score(model, parts, rows="held-out", test="naive")

    first = scored(1e-150)
    np.testing.assert_allclose(scored(0.0).values, first.values, rtol=1e-9, atol=1e-14)
    for size in (1e-160, 1e-165, 1e-200, 1e-300, 5e-324):
        assert_same_tests(scored(size), first)


@pytest.mark.filterwarnings("ignore:test=.naive. on out-of-bag rows:debias.DebiasWarning")
@pytest.mark.parametrize("test", ["naive", "conservative", "permutation"])
def test_the_size_of_tiny_weights_does_not_matter_out_of_bag(test):
    X, y = rows_of("regression", 120)
    tiny = np.random.default_rng(0).random(len(X)) < 0.5
    weights = [np.where(tiny, size, 1.0) for size in (1e-100, 1e-150, 1e-200, 1e-300)]
    model = RandomForestRegressor(30, random_state=0).fit(X, y, sample_weight=weights[-1])
    first, *others = (debias.score(model, X, y, sample_weight=weight, test=test) for weight in weights)
    for other in others:
        assert_same_tests(first, other)


@pytest.mark.filterwarnings("ignore:the weights of these rows depend on their response:debias.DebiasWarning")
@pytest.mark.parametrize("test", ["naive", "permutation"])
def test_a_feature_that_only_rows_of_tiny_weight_reach_is_tested(test):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 2, 200), rng.normal(size=200)]).astype(float)
    y = np.where(X[:, 0] == 1, X[:, 1], 9.0) + np.where(X[:, 0] == 1, rng.normal(size=200), 0)
    model = RandomForestRegressor(5, max_features=None, max_depth=3, random_state=0).fit(X, y)
    drawn = X[rng.permutation(200)]
    response = np.where(drawn[:, 0] == 1, drawn[:, 1], 9.0) + rng.normal(size=200)

    def of(size):
        weight = np.where(drawn[:, 0] == 1, size, 1.0)
        score = debias.score(model, drawn, response, rows="held-out", sample_weight=weight, test=test)
        return score.z, score.p_value, score.values / size, score.standard_error / size

    expected = of(1e-20)
    assert (expected[0] > 3).all()
    for size in (1e-80, 1e-100, 1e-160, 1e-200, 1e-300):
        np.testing.assert_allclose(of(size), expected, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:test=.naive. on out-of-bag rows:debias.DebiasWarning")
@pytest.mark.parametrize("test", ["naive", "conservative", "permutation"])
def test_the_unit_of_weights_does_not_matter(test):
    X, y = rows_of("regression", 120)
    model = RandomForestRegressor(30, random_state=0).fit(X, y)
    plain, *others = (
        debias.score(model, X, y, sample_weight=some_weight(120) * unit, test=test) for unit in (1.0, 1e-99, 1e99)
    )
    for other in others:
        for name in ("values", "standard_error", "z", "p_value"):
            np.testing.assert_allclose(getattr(plain, name), getattr(other, name), rtol=1e-9)


def test_sums_that_are_not_finite_give_no_standard_error():
    for value in (np.nan, np.inf):
        with pytest.raises(debias.RowsError, match="no standard error"):
            spread(np.array([[1.0, 2.0], [3.0, value]]), 5)
