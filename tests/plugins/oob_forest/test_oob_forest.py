"""OOBForest against a plain-Python tree grown by the definition, scikit-learn's checks, and its place in debias."""

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import debias
from debias.errors import CompositionError, RowsError
from debias_bench.simulate import deng_t1
from debias_plugins.oob_forest.forests import OOBForestClassifier, OOBForestRegressor
from support import simulated
from support.estimator_checks import with_checks

BAGS = {"check_sample_weight_equivalence_on_dense_data": "a row of weight 2 is not drawn into bags as two rows are"}
PURE = {"check_class_weight_classifiers": "leaves are grown until they are pure, where class weights have no say"}


@with_checks(
    [OOBForestClassifier(5), OOBForestRegressor(5)],
    failing=lambda forest: BAGS | PURE if isinstance(forest, OOBForestClassifier) else BAGS,
)
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


# --- the definition ------------------------------------------------------------------------------------


def random_numbers(state):
    """SplitMix64, as published."""
    mask = 2**64 - 1
    while True:
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        yield z ^ (z >> 31)


class Grown:
    """One tree of lists; `rows` are (row, weight) pairs."""

    def __init__(self, X, y, weight, bag, seed, max_features, max_depth, min_leaf):
        self.X, self.y, self.random = X, y, random_numbers(seed)
        self.settings, self.order = (max_features, max_depth, min_leaf), list(range(X.shape[1]))
        n = len(X)
        self.importance = [0.0] * X.shape[1]
        inside = [(i, weight[i] * bag[i]) for i in range(n) if bag[i] and weight[i] > 0]
        outside = [(i, weight[i]) for i in range(n) if not bag[i] and weight[i] > 0]
        self.n_out = math.fsum(w for _, w in outside)
        self.nodes = []
        self.add(inside, outside, 0)

    def mass(self, rows):
        """Weighted sum of squares around the mean."""
        n = math.fsum(w for _, w in rows)
        total = 0.0
        for c in range(self.y.shape[1]):
            mean = math.fsum(w * self.y[i, c] for i, w in rows) / n if rows else 0.0
            total += math.fsum(w * (self.y[i, c] - mean) ** 2 for i, w in rows)
        return total

    def part(self, rows, k, threshold, missing_left):
        def left(i):
            return bool(missing_left if math.isnan(self.X[i, k]) else self.X[i, k] <= threshold)

        return [row for row in rows if left(row[0])], [row for row in rows if not left(row[0])]

    def best_split(self, rows, k, min_leaf):
        present = sorted({self.X[i, k] for i, _ in rows if not math.isnan(self.X[i, k])})
        missing = any(math.isnan(self.X[i, k]) for i, _ in rows)
        thresholds = [(a + b) / 2 for a, b in zip(present, present[1:], strict=False)]
        best = None
        for way in (False, True) if missing else (None,):
            for threshold in thresholds + ([math.inf] if missing and not way and present else []):
                a, b = self.part(rows, k, threshold, way)
                if min(len(a), len(b)) < min_leaf:
                    continue
                gain = self.mass(rows) - self.mass(a) - self.mass(b)
                if best is None or gain > best[0] + 1e-9:
                    more = math.fsum(w for _, w in a) > math.fsum(w for _, w in b)
                    best = (gain, threshold, more if way is None else way)
        return best

    def add(self, inside, outside, depth):
        max_features, max_depth, min_leaf = self.settings
        at = len(self.nodes)
        n = math.fsum(w for _, w in inside)
        node = {"value": [math.fsum(w * self.y[i, c] for i, w in inside) / n for c in range(self.y.shape[1])]}
        self.nodes.append(node)
        if depth == max_depth or len(inside) < 2 * min_leaf or len({tuple(self.y[i]) for i, _ in inside}) == 1:
            return at
        tried, chosen, most = [], None, 0.0
        for place in range(len(self.order)):
            if len(tried) == max_features:
                break
            pick = place + next(self.random) % (len(self.order) - place)
            self.order[place], self.order[pick] = self.order[pick], self.order[place]
            k = self.order[place]
            split = self.best_split(inside, k, min_leaf)
            if split is None:
                continue
            a, b = self.part(outside, k, *split[1:])
            out = self.mass(outside) - self.mass(a) - self.mass(b) if a and b else 0.0
            tried.append((k, split, out))
        for each in tried:
            if each[2] > most + 1e-9:
                chosen, most = each, each[2]
        if chosen is None:
            for each in tried:
                if chosen is None or each[1][0] > chosen[1][0] + 1e-9:
                    chosen = each
        if chosen is None:
            return at
        k, (_, threshold, missing_left), _ = chosen
        self.importance[k] += most / self.n_out
        node |= {"feature": k, "threshold": threshold, "missing_left": missing_left}
        parts = zip(*(self.part(rows, k, threshold, missing_left) for rows in (inside, outside)), strict=True)
        node["left"], node["right"] = (self.add(*both, depth + 1) for both in parts)
        return at


def rows_of(n, seed, missing=0.0):
    kinds = ("normal", range(2), range(4), range(11), "ones")
    return simulated.rows(n, kinds, (1, 1, 0, -0.2), missing=missing, seed=seed)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("task", ["regression", "binary", "3-class"])
def test_trees_are_grown_by_the_definition(task, missing, weighted):
    X, latent = rows_of(110, 0, missing)
    weight = np.random.default_rng(5).integers(0, 4, len(X)) * 0.5 if weighted else None
    settings = {"max_features": 2, "max_depth": 6 if weighted else None, "min_samples_leaf": 3 if missing else 1}
    if task == "regression":
        y, response = latent + 5, latent[:, None] + 5
        forest = OOBForestRegressor(5, random_state=3, max_samples=0.8, **settings).fit(X, y, weight)
    else:
        y = np.digitize(latent, [0.8] if task == "binary" else [-0.5, 0.8])
        response = np.eye(y.max() + 1)[y]
        forest = OOBForestClassifier(5, random_state=3, **settings).fit(X, y, weight)
    importance = np.zeros(X.shape[1])
    for k, tree in enumerate(forest.trees_):
        bag = np.bincount(forest.in_bag(k), minlength=len(X))
        w = np.ones(len(X)) if weight is None else weight
        grown = Grown(X, response, w, bag, tree.seed, 2, settings["max_depth"], settings["min_samples_leaf"])
        importance += grown.importance
        assert len(grown.nodes) == tree.feature.size > 5
        for t, node in enumerate(grown.nodes):
            assert node.get("feature", -1) == tree.feature[t]
            np.testing.assert_allclose(tree.value[t], node["value"], atol=1e-9)
            if "feature" in node:
                assert (node["left"], node["right"]) == (tree.left[t], tree.right[t])
                assert node["threshold"] == pytest.approx(tree.threshold[t])
                assert node["missing_left"] == tree.missing_left[t]
    np.testing.assert_allclose(forest.feature_importances_, importance / 5, atol=1e-9)
    assert forest.feature_importances_[0] > 0


# --- the estimator -------------------------------------------------------------------------------------


def test_threads_seeds_and_warm_start_give_one_forest():
    X, latent = rows_of(200, 0, 0.1)
    one = OOBForestRegressor(12, random_state=0).fit(X, latent)
    two = OOBForestRegressor(12, random_state=0, n_jobs=2).fit(X, latent)
    grown = OOBForestRegressor(5, random_state=0, warm_start=True).fit(X, latent)
    first = grown.trees_[0]
    grown.set_params(n_estimators=12).fit(X, latent)
    assert grown.trees_[0] is first
    for other in (two, grown):
        np.testing.assert_array_equal(one.predict(X), other.predict(X))
        np.testing.assert_allclose(one.feature_importances_, other.feature_importances_, rtol=1e-12)
        assert one.oob_score_ == pytest.approx(other.oob_score_, rel=1e-12)
    assert not np.array_equal(one.predict(X), clone(one).set_params(random_state=1).fit(X, latent).predict(X))


def test_out_of_bag_predictions_are_of_the_trees_that_did_not_see_the_row():
    X, latent = rows_of(80, 0)
    forest = OOBForestRegressor(6, random_state=0).fit(X, latent)
    leaf = forest.apply(X)
    for i in range(len(X)):
        seen = [t.value[leaf[i, k], 0] for k, t in enumerate(forest.trees_) if i not in set(forest.in_bag(k))]
        assert forest.oob_prediction_[i] == pytest.approx(np.mean(seen) if seen else np.nan, nan_ok=True)


def test_weights_so_different_that_a_row_has_all_of_the_weight():
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(60, 3)), np.ones(60)
    weight[5], weight[9] = 1e20, 1e-20
    forest = OOBForestRegressor(30, random_state=0).fit(X, X[:, 0] + rng.normal(size=60), weight)
    assert np.isfinite(forest.feature_importances_).all()
    assert np.isfinite(forest.predict(X)).all()


def test_class_weights_move_predictions():
    X, latent = rows_of(200, 0)
    y = np.where(latent > 1.5, "yes", "no")
    plain = OOBForestClassifier(30, random_state=0, max_depth=2).fit(X, y)
    balanced = OOBForestClassifier(30, random_state=0, max_depth=2, class_weight="balanced").fit(X, y)
    assert set(plain.predict(X)) <= {"yes", "no"}
    np.testing.assert_allclose(plain.predict_proba(X).sum(axis=1), 1)
    assert (balanced.predict(X) == "yes").sum() > (plain.predict(X) == "yes").sum()
    by_hand = OOBForestClassifier(30, random_state=0, max_depth=2)
    by_hand.fit(X, y, np.where(y == "yes", len(y) / 2 / (y == "yes").sum(), len(y) / 2 / (y == "no").sum()))
    np.testing.assert_allclose(by_hand.predict_proba(X), balanced.predict_proba(X))


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_estimators": 0},
        {"max_features": "auto"},
        {"max_features": 0},
        {"max_features": 9},
        {"max_samples": 1.5},
        {"min_samples_leaf": 0},
        {"max_depth": 0},
    ],
    ids=str,
)
def test_senseless_settings_are_refused(wrong):
    X, latent = rows_of(30, 0)
    with pytest.raises(ValueError, match=next(iter(wrong))):
        OOBForestRegressor(**wrong).fit(X, latent)


def test_columns_all_missing_or_constant_have_importance_0():
    X, latent = rows_of(60, 0)
    X[:, 2] = np.nan
    forest = OOBForestRegressor(5, random_state=0).fit(X, latent)
    assert forest.feature_importances_[2] == forest.feature_importances_[4] == 0
    constant = OOBForestRegressor(5, random_state=0).fit(X, np.full(60, 3.0))
    np.testing.assert_array_equal(constant.predict(X), 3.0)


# --- in debias -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["regression", "binary", "3-class"])
@pytest.mark.quick
def test_trees_are_extracted_and_bags_proven(task):
    X, latent = rows_of(150, 0, 0.1)
    X = pd.DataFrame(X, columns=list("abcde"))
    weight = np.random.default_rng(5).integers(0, 3, len(X)) * 1.0
    if task == "regression":
        y, forest = latent + 9, OOBForestRegressor(8, random_state=0)
    else:
        y = np.array(["p", "q", "r"])[np.digitize(latent, [0.8] if task == "binary" else [-0.5, 0.8])]
        forest = OOBForestClassifier(8, random_state=0, class_weight="balanced")
    forest.fit(X, y, weight)
    scores = debias.score(forest, X, y, "mdi_oob", rows="oob", sample_weight=weight)
    assert scores.rows == "oob"
    assert scores.values[0] > 0
    mdi = debias.score(forest, scorer="mdi").values
    np.testing.assert_allclose(mdi, debias.score(forest, scorer="mdi(criterion='variance')").values, rtol=1e-9)
    audit = debias.audit(forest, X, y, sample_weight=weight, random_state=0, test=debias.Permutation(20))
    share = forest.feature_importances_ / forest.feature_importances_.sum()
    np.testing.assert_allclose(audit.to_frame()["reported"][list("abcde")], share)
    assert (debias.score(forest, X, y, "honest_splits", sample_weight=weight).values != 0).any()
    with pytest.raises(debias.ProvenanceError):
        debias.score(forest, X, y[::-1].copy(), rows="oob", sample_weight=weight)
    again = debias.refit(forest, X, y, random_state=1)
    assert type(again) is type(forest)


def test_its_importance_is_the_forests_own_oob_split():
    """Without rows that fell back on the in-bag choice, importances are sums of out-of-bag decreases by definition."""
    X, latent = rows_of(300, 0)
    forest = OOBForestRegressor(10, random_state=0, max_depth=3).fit(X, latent)
    found = debias.score(forest, X, latent, "oob_split", rows="oob").values
    np.testing.assert_allclose(found, forest.feature_importances_, rtol=1e-9)


def test_the_scorer_of_data_gives_the_forests_importances():
    drawn = deng_t1(300, seed=0)
    scores = debias.score(None, drawn.X, drawn.y, "oob_forest", n_estimators=20, random_state=4)
    forest = OOBForestClassifier(20, random_state=4).fit(drawn.X.to_numpy(), drawn.y)
    np.testing.assert_array_equal(scores.values, forest.feature_importances_)
    assert scores.details["oob_score"] == forest.oob_score_
    with pytest.raises(RowsError, match="constant"):
        debias.score(None, drawn.X, np.zeros(len(drawn.X), dtype=int), "oob_forest")
    with pytest.raises(CompositionError, match="max_features"):
        debias.score(None, drawn.X, drawn.y, "oob_forest", max_features=0)


def test_importances_of_attributes_with_many_values_keep_their_order():
    """Deng, Runger and Tuv (2011), T1: four groups, and noise of 1280, 64, 32, 8, 8 and 2 values below them all."""
    drawn = [deng_t1(1280, seed=seed) for seed in range(3)]
    mean = np.mean(
        [debias.score(None, d.X, d.y, "oob_forest", n_estimators=40, random_state=0).values for d in drawn], axis=0
    )
    at = dict(zip(drawn[0].X.columns, mean, strict=True))
    strong, noise = [at[f"X{k}"] for k in range(1, 5)], [at[f"U{k}"] for k in range(1, 7)]
    assert min(strong) > at["X5"] > at["X6"] > max(noise)


def test_three_rows_are_enough():
    X = np.arange(6.0).reshape(3, 2)
    forest = OOBForestClassifier(10, random_state=0).fit(X, [0, 1, 1])
    assert np.isfinite(forest.predict_proba(X)).all()
    assert np.isfinite(forest.feature_importances_).all()


# --- the range of floats -------------------------------------------------------------------------------


def same_trees(forest, other, of_weight=1.0, of_y=1.0):
    for one, two in zip(forest.trees_, other.trees_, strict=True):
        for name in ("feature", "threshold", "left", "right", "missing_left", "count"):
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
        np.testing.assert_array_equal(one.value * of_y, two.value)
        np.testing.assert_array_equal(one.weight * of_weight, two.weight)
        np.testing.assert_array_equal(one.impurity * of_y * of_y, two.impurity)
    np.testing.assert_array_equal(forest.feature_importances_ * of_y * of_y, other.feature_importances_)
    assert forest.oob_score_ == other.oob_score_


@pytest.mark.parametrize("factor", [2.0**-1000, 2.0**-660, 2.0**660, 2.0**1000])
@pytest.mark.parametrize("kind", [OOBForestClassifier, OOBForestRegressor])
def test_the_unit_of_weights_does_not_matter(kind, factor):
    X, latent = rows_of(150, 1)
    y = latent if kind is OOBForestRegressor else (latent > 0.8).astype(int)
    weight = np.random.default_rng(2).uniform(0.5, 3, len(X))
    plain, other = (kind(4, random_state=0).fit(X, y, weight * unit) for unit in (1.0, factor))
    assert len(plain.trees_[0].left) > 20
    same_trees(plain, other, of_weight=factor)


@pytest.mark.parametrize("factor", [2.0**-490, 2.0**490])
def test_the_unit_of_y_does_not_matter(factor):
    X, y = rows_of(150, 1)
    plain, other = (OOBForestRegressor(4, random_state=0).fit(X, y * unit) for unit in (1.0, factor))
    same_trees(plain, other, of_y=factor)


def test_what_is_outside_the_range_of_floats_is_refused():
    X, y = rows_of(150, 1)
    for unit in (1e160, 1e-170):
        with pytest.raises(ValueError, match="fit in another unit"):
            OOBForestRegressor(4).fit(X, y * unit)
    for forest, response in ((OOBForestRegressor(4), y), (OOBForestClassifier(4), y > 0)):
        with pytest.raises(ValueError, match="Divide all weights by it"):
            forest.fit(X, response, np.full(len(X), 1e307))
