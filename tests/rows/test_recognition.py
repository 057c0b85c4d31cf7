"""What leaf counts tell about rows that are training rows in part: the limits of the share, and trees that repeat."""

from dataclasses import replace

import numpy as np
import pytest
from lightgbm import LGBMRegressor
from scipy.stats import binom
from sklearn.ensemble import ExtraTreesRegressor, GradientBoostingRegressor, RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor
from xgboost import Booster, XGBClassifier, XGBRegressor

import debias
from debias.data.response import encode
from debias.data.table import Table
from debias.rows.leaf_counts import LeafCounts
from debias.rows.recognition import SAFE, _repetition, recognise
from debias.warning_log import WarningLog

N_TRAIN, N_PASSED = 200, 160
FAMILIES = {
    "single tree": lambda seed: DecisionTreeRegressor(min_samples_leaf=3, random_state=seed),
    "extra trees": lambda seed: ExtraTreesRegressor(10, random_state=seed),
    "LightGBM": lambda seed: LGBMRegressor(n_estimators=10, n_jobs=1, verbose=-1, random_state=seed),
}


def drawn(rng, n):
    X = rng.normal(size=(n, 4))
    return X, X[:, 0] + rng.normal(size=n)


def recognition(model, X, y):
    ensemble = debias.plugin.extract(model)
    log = WarningLog()
    return recognise(ensemble, Table(X).aligned_to(ensemble, log), encode(y, ensemble, len(y), log))


@pytest.mark.thorough
@pytest.mark.parametrize("share", [0.0, 0.3, 0.6])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_largest_share_is_above_the_true_one(family, share):
    n_draws, below = 20, 0
    for seed in range(n_draws):
        rng = np.random.default_rng([seed, round(10 * share)])
        X, y = drawn(rng, N_TRAIN)
        n_seen = round(share * N_PASSED)
        fresh_X, fresh_y = drawn(rng, N_PASSED - n_seen)
        seen = rng.permutation(N_TRAIN)[:n_seen]
        found = recognition(
            FAMILIES[family](seed).fit(X, y), np.vstack([X[seen], fresh_X]), np.concatenate([y[seen], fresh_y])
        )
        below += found.at_most < share
        assert found.at_least <= found.share <= found.at_most
    # More failures than this have a probability of 0.1 % at the stated confidence.
    assert below <= binom.isf(0.001, n_draws, SAFE)


def test_most_fresh_rows_can_be_told_where_there_are_many_leaves():
    X, y = drawn(np.random.default_rng(0), 400)
    model = ExtraTreesRegressor(50, random_state=0).fit(X, y)
    found = recognition(model, *drawn(np.random.default_rng(1), 400))
    assert found.mostly_fresh
    provenance = debias.score(model, *drawn(np.random.default_rng(1), 400)).provenance
    assert provenance["status"] == "not recognised as training rows"
    assert f"at most {found.at_most:.0%} of these rows are training rows (confidence 95%)" in provenance["detail"]


def test_few_rows_are_not_called_fresh():
    X, y = drawn(np.random.default_rng(0), 400)
    model = LGBMRegressor(n_estimators=10, n_jobs=1, verbose=-1).fit(X, y)
    provenance = debias.score(model, *drawn(np.random.default_rng(1), 40)).provenance
    assert provenance["status"] == "cannot be told"
    assert "If the training rows are passed too, they are compared one by one" in provenance["detail"]
    beside = debias.score(model, *drawn(np.random.default_rng(1), 40), rows="held-out", train=(X, y)).provenance
    assert beside["status"] == "proven held-out"


@pytest.mark.parametrize("copies", [2, 3])
def test_rows_that_all_repeat_count_once(copies):
    X, y = drawn(np.random.default_rng(0), N_TRAIN)
    model = ExtraTreesRegressor(20, random_state=0).fit(X, y)
    some = np.random.default_rng(1).permutation(N_TRAIN)[:80]
    repeated = np.random.default_rng(2).permutation(np.tile(some, copies))
    once, found = recognition(model, X[some], y[some]), recognition(model, X[repeated], y[repeated])
    assert found.largely_training
    assert found.share == pytest.approx(once.share)
    assert found.p_fresh == pytest.approx(once.p_fresh)
    fresh_X, fresh_y = drawn(np.random.default_rng(3), 80)
    assert not recognition(model, np.tile(fresh_X, (copies, 1)), np.tile(fresh_y, copies)).suspicious


def test_training_rows_that_repeat_are_recognised_as_they_are():
    X, y = drawn(np.random.default_rng(0), 100)
    twice = np.random.default_rng(1).permutation(np.tile(np.arange(100), 2))
    model = ExtraTreesRegressor(20, random_state=0).fit(X[twice], y[twice])
    assert recognition(model, X[np.sort(twice)], y[np.sort(twice)]).exact


SAMPLING = {
    "XGBoost": lambda: XGBRegressor(n_estimators=20, subsample=0.5, n_jobs=1),
    "LightGBM": lambda: LGBMRegressor(
        n_estimators=20, subsample=0.5, subsample_freq=1, min_child_samples=5, n_jobs=1, verbose=-1
    ),
    "GradientBoosting": lambda: GradientBoostingRegressor(n_estimators=20, subsample=0.5, random_state=0),
}


@pytest.mark.parametrize("family", SAMPLING)
def test_rows_drawn_for_each_tree_do_not_hide_training_rows(family):
    """A tree has seen half of the training rows; the share is that of the rows the model has seen."""
    X, y = drawn(np.random.default_rng(0), 600)
    model = SAMPLING[family]().fit(X, y)
    assert debias.plugin.extract(model).sampled_share == 0.5
    fresh_X, fresh_y = drawn(np.random.default_rng(1), 300)
    half = recognition(model, np.vstack([X[:300], fresh_X]), np.concatenate([y[:300], fresh_y]))
    assert half.at_most >= 0.5
    all_seen = recognition(model, X, y)
    assert all_seen.share > 0.85  # of the rows of one tree it would be half
    assert all_seen.at_most == 1


@pytest.mark.parametrize("task", ["numbers", "classes"])
@pytest.mark.parametrize("subsample", [0.6, 1.0])
def test_the_file_of_a_booster_does_not_tell_how_rows_were_drawn_but_the_roots_do(task, subsample, tmp_path):
    X, y = drawn(np.random.default_rng(0), 600)
    kind, labels = (XGBRegressor, y) if task == "numbers" else (XGBClassifier, (y > 0).astype(int))
    model = kind(n_estimators=20, subsample=subsample, n_jobs=1).fit(X, labels)
    model.save_model(tmp_path / "model.json")
    loaded = kind()
    loaded.load_model(tmp_path / "model.json")
    assert debias.plugin.extract(model).sampled_share == pytest.approx(subsample)
    assert debias.plugin.extract(loaded).sampled_share == 1  # what XGBoost says
    fresh_X, fresh_y = drawn(np.random.default_rng(1), 600)
    fresh_labels = fresh_y if task == "numbers" else (fresh_y > 0).astype(int)
    found = recognition(loaded, fresh_X, fresh_labels)
    assert found.sampling_known == (subsample == 1)
    assert recognition(model, fresh_X, fresh_labels).sampling_known
    if subsample < 1:
        assert found.at_most == 1
        detail = debias.score(loaded, fresh_X, fresh_labels).provenance["detail"]
        assert "each tree may have been grown on a part of the training rows" in detail
        with pytest.raises(debias.ProvenanceError, match="at least about|the training rows are among"):
            debias.score(loaded, X, labels)
    else:
        assert found.at_most == recognition(model, fresh_X, fresh_labels).at_most


def test_a_model_of_an_unknown_library_may_have_drawn_rows():
    X, y = drawn(np.random.default_rng(0), 400)
    booster = Booster(model_file=bytearray(XGBRegressor(n_estimators=8, n_jobs=1).fit(X, y).get_booster().save_raw()))
    untold = replace(debias.plugin.extract(booster), sampled_share=None)
    log = WarningLog()
    rows = Table(X).aligned_to(untold, log), encode(y, untold, len(y), log)
    assert not recognise(untold, *rows).sampling_known
    assert recognise(replace(untold, n_train=400), *rows).sampling_known


def test_rows_that_repeat_unevenly_are_not_called_fresh():
    """Rows drawn with replacement vary more than rows that are independent, which hides training rows."""
    X, y = drawn(np.random.default_rng(0), 300)
    model = ExtraTreesRegressor(30, random_state=0).fit(X, y)
    fresh = drawn(np.random.default_rng(1), 300)
    assert recognition(model, *fresh).mostly_fresh
    again = np.random.default_rng(2).integers(0, 300, 900)
    assert recognition(model, fresh[0][again], fresh[1][again]).at_most == 1


def test_copies_of_few_rows_are_called_few():
    X, y = drawn(np.random.default_rng(0), 200)
    model = LGBMRegressor(n_estimators=5, n_jobs=1, verbose=-1).fit(X, y)
    some_X, some_y = drawn(np.random.default_rng(1), 10)
    detail = debias.score(model, np.tile(some_X, (10, 1)), np.tile(some_y, 10)).provenance["detail"]
    assert detail.endswith("because there are fewer than 20 different ones among them")


def tree_of(at, n_leaves, rng):
    stored = np.bincount(rng.integers(n_leaves, size=500), minlength=n_leaves) + 1.0
    reached = np.bincount(at, minlength=n_leaves).astype(float)
    return LeafCounts(0, np.arange(n_leaves), at.astype(np.int32), reached, stored, np.zeros(n_leaves, dtype=np.int64))


def repetition_by_pairs(counted):
    """The definition, pair by pair: the mean over trees of 1 over the mass of a shared leaf, centred."""
    n = counted[0].at.size

    def sum_of_squares(terms):
        of_row = [sum(terms[i][k] for k in range(n) if k != i) / (n - 1) for i in range(n)]
        overall = sum(of_row) / n
        return sum((terms[i][k] - of_row[i] - of_row[k] + overall) ** 2 for i in range(n) for k in range(n) if k != i)

    def terms_of(tree):
        share = tree.stored / tree.stored.sum()
        return [
            [float(tree.at[i] == tree.at[k]) / share[tree.at[i]] / tree.freedom for k in range(n)] for i in range(n)
        ]

    each = [terms_of(tree) for tree in counted]
    mean = [[sum(terms[i][k] for terms in each) / len(each) for k in range(n)] for i in range(n)]
    return sum_of_squares(mean) / (sum(map(sum_of_squares, each)) / len(each))


def test_repetition_of_trees_is_that_of_its_definition():
    rng = np.random.default_rng(0)
    alike = rng.integers(6, size=30)
    trees = [tree_of(np.where(rng.uniform(size=30) < 0.7, alike, rng.integers(6, size=30)), 6, rng) for _ in range(4)]
    assert _repetition(trees) == pytest.approx(repetition_by_pairs(trees), rel=1e-12)
    assert 0.25 < _repetition(trees) < 1


def test_equal_trees_count_once_and_unlike_trees_in_full():
    rng = np.random.default_rng(1)
    one = tree_of(rng.integers(20, size=300), 20, rng)
    assert _repetition([one] * 5) == pytest.approx(1)
    unlike = [tree_of(rng.integers(20, size=300), 20, rng) for _ in range(5)]
    assert _repetition(unlike) == pytest.approx(0.2, rel=0.15)


def test_one_stump_whose_counts_agree_is_no_evidence():
    """Of 40 fresh rows exactly half reach each leaf: that happens by chance."""
    from sklearn.tree import DecisionTreeRegressor

    X = np.arange(80.0)[:, None]
    model = DecisionTreeRegressor(max_depth=1).fit(X, X[:, 0])
    fresh = np.concatenate([np.linspace(0.2, 38.7, 20), np.linspace(40.2, 78.7, 20)])[:, None]
    found = recognition(model, fresh, fresh[:, 0])
    assert found.p_fresh >= binom.pmf(20, 40, 0.5) - 1e-12


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(3))
def test_overfitted_classifiers_do_not_take_fresh_rows_for_training_rows(seed):
    """Before late trees the hessians of training rows are nearly 0, and those of other rows are not."""
    rng = np.random.default_rng(seed)

    def classes(n):
        X = rng.normal(size=(n, 10))
        return X, (X[:, :5].sum(axis=1) + rng.normal(scale=2, size=n) > 0).astype(int)

    (X, y), (other_X, other_y), (fresh_X, fresh_y) = (classes(1_000) for _ in range(3))
    model = XGBClassifier(n_estimators=250, max_depth=6, n_jobs=1).fit(X, y)
    assert recognition(model, fresh_X, fresh_y).p_fresh > 0.01
    continued = XGBClassifier(n_estimators=250, max_depth=6, n_jobs=1).fit(other_X, other_y, xgb_model=model)
    assert recognition(continued, fresh_X, fresh_y).p_fresh > 0.01
    for seen_X, seen_y in ((X, y), (other_X, other_y)):
        assert recognition(continued, seen_X, seen_y).largely_training


@pytest.mark.slow
@pytest.mark.parametrize("n_rows", [54, 90])
def test_few_fresh_rows_in_many_leaves_are_not_called_training_rows(n_rows):
    """With 40 leaves a tree, and fewer rows than pairs of leaves, the overlap of trees cannot be counted."""
    rng, p_fresh = np.random.default_rng(0), []
    for _ in range(100):
        X = rng.normal(size=(200 + n_rows, 5))
        y = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=len(X))
        forest = RandomForestRegressor(30, min_samples_leaf=3, random_state=int(rng.integers(2**31)))
        p_fresh.append(recognition(forest.fit(X[:200], y[:200]), X[200:], y[200:]).p_fresh)
    # The probability that is stated, 1 %, and two standard errors. It was .15 and .125 where the overlap was counted.
    assert np.mean(np.array(p_fresh) < 0.01) <= 0.01 + 2 * np.sqrt(0.01 * 0.99 / 100)
