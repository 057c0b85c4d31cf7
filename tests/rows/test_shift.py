"""Rows that part at the splits otherwise than the training rows did are told, by feature; fresh rows are not."""

import warnings

import numpy as np
import pandas as pd
import pytest

import debias
from debias.data.response import encode
from debias.results.policy import SMALLEST_SHIFT
from debias.rows.leaf_counts import LeafCounter
from debias.rows.shift import FALSE_ALARM, ROWS_AT_SPLIT, ROWS_ON_EACH_SIDE, shift_of
from debias.trees.routing import KnownLeaves, route

N = 600


def draw(seed, n=N):
    """Return columns of different laws, so that one cannot stand for another, and a response of all."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=n), rng.exponential(size=n), 100 + 5 * rng.normal(size=n), rng.random(n)])
    return X, X[:, 0] + X[:, 1] + X[:, 2] / 5 + X[:, 3] + rng.normal(size=n)


def with_column(k, change):
    def changed(X):
        X = X.copy()
        X[:, k] = change(X[:, k])
        return X

    return changed


WRONG = {
    "columns in another order": (lambda X: X[:, [1, 2, 3, 0]], {1, 2}),
    "another unit": (with_column(2, lambda x: 1.8 * x + 32), {2}),
    "times 1,000": (with_column(1, lambda x: 1000 * x), {1}),
    "times 2": (with_column(1, lambda x: 2 * x), {1}),
    "standardised": (lambda X: (X - X.mean(axis=0)) / X.std(axis=0), {1, 2, 3}),
    "all zeros": (np.zeros_like, {1, 2, 3}),
    "shifted by a standard deviation": (with_column(0, lambda x: x + 1), {0}),
}
KINDS = ["sklearn", "xgboost", "lightgbm"]


def score_held_out(model, X, y):
    """Return the scores, and the warnings of a shift."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scores = debias.score(model, X, y, rows="held-out")
    return scores, [str(each.message) for each in caught if "differ from the training rows" in str(each.message)]


@pytest.mark.parametrize("library", KINDS)
@pytest.mark.parametrize("change", WRONG)
def test_rows_that_cannot_be_of_this_model_are_told_with_the_features(library, change, models):
    wrong, columns = WRONG[change]
    model = models(library).fit(*draw(0))
    X, y = draw(1)
    scores, warned = score_held_out(model, wrong(X), y)
    assert len(warned) == 1
    assert warned[0] in scores.warnings
    names = scores.provenance["shifted_features"]
    assert {scores.feature_names[k] for k in columns} <= set(names)
    assert scores.provenance["shift"] > SMALLEST_SHIFT
    assert all(f"{name} <= " in warned[0] for name in names[:3])


@pytest.mark.thorough
@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("library", KINDS)
def test_fresh_rows_are_hardly_ever_called_shifted(library, task, models):
    told = 0
    for seed in range(12):
        X, y = draw(seed)
        if task == "classification":
            y = (y > 21.5).astype(int)
        model = models(library, task, n_estimators=10).fit(X[:350], y[:350])
        scores, warned = score_held_out(model, X[350:], y[350:])
        assert (scores.provenance["shift"] > 0) == bool(scores.provenance["shifted_features"]) == bool(warned)
        told += bool(warned)
    # At the stated rate of 0.001 two or more of 12 have a probability of 0.007 %.
    assert FALSE_ALARM <= 0.001
    assert told < 2


def test_shares_and_sizes_are_those_of_a_count_by_hand(models):
    X, y = draw(0)
    model = models("lightgbm", n_estimators=3, num_leaves=6).fit(X, y)
    fresh = with_column(1, lambda x: 2 * x)(draw(1, 300)[0])
    ensemble = debias.plugin.extract(model)
    counter = LeafCounter(ensemble)
    counter.add(KnownLeaves(ensemble, route(ensemble, fresh)), encode(np.zeros(300), ensemble, 300))
    found = shift_of(ensemble, counter.counts())
    sizes, largest = by_hand(ensemble, X, fresh)
    assert [each.name for each in found.features] == sorted(sizes, key=lambda name: -sizes[name])[: len(found.features)]
    for each in found.features:
        assert each.size == pytest.approx(sizes[each.name])
        split, left_in_training, left_here = largest[each.name]
        assert each.split == f"{each.name} <= {split:.4g} holds"
        assert (each.left_in_training, each.left_here) == pytest.approx((left_in_training, left_here))
    assert found.size == found.features[0].size


def by_hand(ensemble, trained_on, rows):
    """Return the effect size w of every feature, and its largest split, from the rows that go through each tree."""
    weighed, largest = {}, {}
    for t in range(ensemble.n_trees):
        tree = ensemble.tree(t)
        here = {0: (trained_on, rows)}
        for node in np.flatnonzero(tree.left >= 0):  # parents precede children
            name, threshold = ensemble.feature_names[tree.feature[node]], tree.threshold[node]
            goes_left = [part[:, tree.feature[node]] <= threshold for part in here[node]]
            here[tree.left[node]] = tuple(part[at] for part, at in zip(here[node], goes_left, strict=True))
            here[tree.right[node]] = tuple(part[~at] for part, at in zip(here[node], goes_left, strict=True))
            n, m = map(len, here[node])
            q = np.concatenate(goes_left).mean()
            rarer = min(q, 1 - q)
            few = min(n, m) < ROWS_AT_SPLIT or rarer * (n + m) < 2 * ROWS_ON_EACH_SIDE
            if rarer * min(n, m) < ROWS_ON_EACH_SIDE and few:
                continue
            p, p_here = (at.mean() for at in goes_left)
            a = (p + p_here) / 2
            w = ((p_here - p) ** 2 - q * (1 - q) * (1 / m + 1 / n)) / (a * (1 - a))
            weighed.setdefault(name, []).append((w * m, m))
            largest[name] = max(largest.get(name, (-np.inf,)), (w * m, threshold, p, p_here))
    sizes = {name: np.sqrt(max(0, sum(w for w, _ in each) / sum(m for _, m in each))) for name, each in weighed.items()}
    return sizes, {name: each[1:] for name, each in largest.items()}


@pytest.mark.parametrize("change", ["another unit", "times 1,000", "all zeros", "shifted by a standard deviation"])
def test_the_size_does_not_depend_on_the_number_of_rows(change, models):
    model = models("lightgbm").fit(*draw(0))
    sizes = []
    for n in (300, 1000, 30_000):
        X, y = draw(1, n)
        sizes.append(score_held_out(model, WRONG[change][0](X), y)[0].provenance["shift"])
    assert max(sizes) < 1.2 * min(sizes)
    assert max(sizes) <= 2


@pytest.mark.thorough
def test_a_rare_category_that_most_rows_have_is_told(models):
    """Of 200 rows fewer than five are expected to have it, by the shares in both sets together."""
    rng = np.random.default_rng(0)

    def rows(n, share):
        X = np.column_stack([rng.normal(size=n), rng.random(n) < share])
        return X, X[:, 0] + 3 * X[:, 1] + rng.normal(size=n)

    model = models("lightgbm").fit(*rows(20_000, 0.01))
    for share in (0.2, 1.0):
        scores, warned = score_held_out(model, *rows(200, share))
        assert len(warned) == 1
        assert scores.provenance["shifted_features"] == [scores.feature_names[1]]
    told = [bool(score_held_out(model, *rows(200, 0.01))[1]) for _ in range(60)]
    assert sum(told) < 2


def test_sums_of_hessians_that_weigh_the_positive_class_tell_no_shift():
    """Of fresh rows of this kind 88 % were called shifted: splits isolate the few heavy rows of the training set."""
    from xgboost import XGBClassifier

    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 5))
    y = (rng.random(6000) < 1 / (1 + np.exp(6 - X[:, 0] - X[:, 1]))).astype(int)
    model = XGBClassifier(n_estimators=20, scale_pos_weight=20, n_jobs=1).fit(X[:1500], y[:1500])
    scores, warned = score_held_out(model, X[1500:], y[1500:])
    assert (scores.provenance["shift"], scores.provenance["shifted_features"], warned) == (None, [], [])


def test_categories_that_were_coded_anew_are_told():
    from lightgbm import LGBMRegressor

    rng = np.random.default_rng(0)
    law = np.array([0.5, 0.25, 0.15, 0.1])
    codes = rng.choice(4, 900, p=law)
    X = pd.DataFrame({"a": rng.normal(size=900), "kind": pd.Categorical.from_codes(codes, list("uvwx"))})
    y = X["a"] + codes % 2 * 3 + rng.normal(size=900)
    model = LGBMRegressor(n_estimators=20, verbose=-1).fit(X[:600], y[:600])
    assert score_held_out(model, X[600:], y[600:])[1] == []
    anew = X["kind"][600:].cat.rename_categories(list("xwvu")).cat.reorder_categories(list("uvwx"))
    recoded = X[600:].assign(kind=anew)
    scores, warned = score_held_out(model, recoded, y[600:])
    assert scores.provenance["shifted_features"] == ["kind"]
    assert "kind in some set of categories holds for" in warned[0]


def test_rows_in_batches_are_told_with_the_numbers_of_rows_in_memory(models):
    X, y = draw(1)
    wrong = with_column(1, lambda x: 2 * x)(X)
    model = models("lightgbm").fit(*draw(0))
    whole, _ = score_held_out(model, wrong, y)
    parts, warned = score_held_out(model, iter([(wrong[:200], y[:200]), (wrong[200:], y[200:])]), None)
    assert parts.provenance["shift"] == pytest.approx(whole.provenance["shift"], rel=1e-12)
    assert parts.provenance["shifted_features"] == whole.provenance["shifted_features"]
    assert len(warned) == 1


@pytest.mark.parametrize("change", [np.negative, lambda y: y + 1e4])
def test_a_response_the_model_cannot_have_been_trained_on_is_told_of_rows_in_batches(change, models):
    X, y = draw(1)
    model = models("lightgbm").fit(*draw(0))
    batches = [(X[:10], change(y[:10])), (X[10:300], change(y[10:300])), (X[300:], change(y[300:]))]
    with pytest.warns(debias.DebiasWarning, match="y does not look like|y goes down where"):
        scores = debias.score(model, iter(batches), None, rows="held-out")
    assert any(text.startswith(("y does not look like", "y goes down")) for text in scores.warnings)
    right = debias.score(model, iter([(X, y)]), None, rows="held-out")
    assert not any(text.startswith("y ") for text in right.warnings)


def test_training_rows_have_no_shift(models):
    X, y = draw(0)
    forest = models("sklearn").fit(X, y)
    provenance = debias.score(forest, X, y).provenance
    assert (provenance["status"], provenance["shift"], provenance["shifted_features"]) == ("proven", None, [])


def test_the_shift_stands_in_the_audit_and_its_json(models):
    X, y = draw(1)
    model = models("xgboost").fit(*draw(0))
    with pytest.warns(debias.DebiasWarning, match="differ from the training rows"):
        audit = debias.audit(model, with_column(2, lambda x: x + 5)(X), y, test=debias.Permutation(50))
    assert audit.provenance["shifted_features"] == [audit.tested_scores.feature_names[2]]
    again = debias.Audit.from_json(audit.to_json())
    assert again.provenance == audit.provenance
