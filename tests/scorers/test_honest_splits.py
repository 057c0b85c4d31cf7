"""Honest splits against a plain-Python oracle that tries every split by the definition."""

import itertools
import math

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import debias
from debias.errors import CompositionError, RowsError
from debias_bench.simulate import loh
from support import oracle, pure_noise
from support.agreement import assert_agree
from support.honest_cases import BOOSTERS, FORESTS, fitted_booster, fitted_forest, rows_of
from support.pure_noise import z_of_means

TIE = 1e-9


def mean_of(rows):
    return oracle.mean([(y, w) for _, y, w in rows])


def weight_of(rows):
    return math.fsum(w for *_, w in rows)


def decrease(a, b):
    """Decrease of the variance, times the node's weight, when rows are parted into a and b."""
    n_a, n_b = weight_of(a), weight_of(b)
    return n_a * n_b / (n_a + n_b) * oracle.squares(oracle.minus(mean_of(a), mean_of(b)))


def number_splits(inside, n_bins):
    """Every way to part in-bag rows by a number: cuts halfway between the ranks that occur, missing either side."""
    ranks = sorted({x for x, *_ in inside if x is not None})
    missing = any(x is None for x, *_ in inside)
    for missing_left in (False, True) if missing else (None,):
        cuts = [(a + b) // 2 for a, b in itertools.pairwise(ranks)]
        if missing and not missing_left and ranks:
            cuts.append(n_bins)
        for cut in cuts:
            if missing_left is None:
                left = weight_of([row for row in inside if row[0] <= cut])
                more_left = left > weight_of(inside) - left
                yield lambda x, cut=cut, way=more_left: way if x is None else x <= cut
            else:
                yield lambda x, cut=cut, way=missing_left: way if x is None else x <= cut


def level_splits(inside):
    """Every set of the levels that occur in-bag; others stand where the mean of the node is."""
    present = sorted({x for x, *_ in inside}, key=str)
    means = {x: mean_of([row for row in inside if row[0] == x])[0] for x in present}
    for size in range(1, len(present)):
        for chosen in itertools.combinations(present, size):
            highest = max(means[x] for x in chosen)
            if highest <= min(means[x] for x in present if x not in chosen):  # the side of low means is the left one
                middle = mean_of(inside)[0] <= highest
                yield lambda x, chosen=chosen, middle=middle: x in chosen if x in means else middle


def term(inside, outside, splits):
    best, way = 0.0, None
    for goes_left in splits:
        a, b = ([row for row in inside if bool(goes_left(row[0])) is side] for side in (True, False))
        found = decrease(a, b)
        if found > best * (1 + TIE):
            best, way = found, goes_left
    if way is None:
        return 0.0
    a, b = ([row for row in inside if bool(way(row[0])) is side] for side in (True, False))
    c, d = ([row for row in outside if bool(way(row[0])) is side] for side in (True, False))
    if not c or not d:
        return 0.0
    n_c, n_d = weight_of(c), weight_of(d)
    step, moved = oracle.minus(mean_of(a), mean_of(b)), oracle.minus(mean_of(c), mean_of(d))
    return n_c * n_d / (n_c + n_d) * oracle.dot(step, moved)


def ranks(X_train, X, levels):
    """Rank of every value among the training values, halfway values going up; levels and missing values by name."""
    out = []
    for k in range(X.shape[1]):
        distinct = sorted({v for v in X_train[:, k] if not math.isnan(v)})
        middles = [(a + b) / 2 for a, b in itertools.pairwise(distinct)]
        if k in levels:
            out.append([v if v in distinct else None for v in X[:, k]])
        else:
            out.append([None if math.isnan(v) else sum(m < v for m in middles) for v in X[:, k]])
    return out, [len({v for v in X_train[:, k] if not math.isnan(v)}) for k in range(X.shape[1])]


def honest(trees, bags, X_train, r_train, X, r, weights, averaged, levels=(), min_node_size=5, shrinkage=0):
    """`bags` and `weights`: for each tree (row, weight) pairs of in-bag and evaluation rows."""
    (at_train, n_bins), (at, _) = ranks(X_train, X_train, levels), ranks(X_train, X, levels)
    found = []
    for tree, bag, evaluated in zip(trees, bags, weights, strict=True):
        part = slice(None) if averaged else slice(tree.output, tree.output + 1)
        total = math.fsum(w for _, w in evaluated)
        if not total:
            continue
        passed = [[set(tree.path(row)) for row in rows] for rows in (X_train, X)]
        score = [0.0] * X.shape[1]
        for t, _ in tree.splits():
            for k in range(X.shape[1]):
                inside = [(at_train[k][i], list(r_train[i][part]), w) for i, w in bag if t in passed[0][i]]
                outside = [(at[k][i], list(r[i][part]), w) for i, w in evaluated if t in passed[1][i] and w > 0]
                n = weight_of(inside)
                if len(inside) < 2 or len(outside) < 2 or n < min_node_size:
                    continue
                splits = level_splits(inside) if k in levels else number_splits(inside, n_bins[k])
                score[k] += term(inside, outside, splits) * n / (n + shrinkage) / total
        found.append((tree.output, score))
    outputs = [output for output, _ in found]
    return np.sum([np.array(score) / outputs.count(output) for output, score in found], axis=0)


@pytest.mark.parametrize("options", [{}, {"min_node_size": 0, "shrinkage": 20.0}], ids=str)
@pytest.mark.parametrize("case", FORESTS)
def test_scores_on_oob_rows_are_those_by_hand(case, options):
    model, X, y = fitted_forest(case, 90)
    form = oracle.sklearn_model(model)
    w = np.random.default_rng(1).integers(0, 3, len(y)) * 0.7
    bags = oracle.sklearn_bags(model, y)
    outside = [[(i, w[i]) for i in range(len(y)) if i not in {j for j, _ in bag}] for bag in bags]
    r = form.response(y)
    expected = honest(form.trees, bags, X, r, X, r, outside, averaged=True, **options)
    found = debias.score(model, X, y, "honest_splits", rows="oob", sample_weight=w, **options)
    assert_agree(found.values, expected, tolerance=1e-9)


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("case", BOOSTERS)
def test_scores_on_held_out_rows_are_those_by_hand(case, missing):
    (X, latent), (X_held, latent_held) = rows_of(120, 0, missing), rows_of(80, 1, missing)
    model, form, y, y_held = fitted_booster(case, X, latent, latent_held)
    bags = [[(i, 1.0) for i in range(len(y))]] * len(form.trees)
    outside = [[(i, 1.0) for i in range(len(y_held))]] * len(form.trees)
    expected = honest(
        form.trees, bags, X, form.response(y), X_held, form.response(y_held), outside, averaged=False, shrinkage=4
    )
    found = debias.score(model, X_held, y_held, "honest_splits", rows="held-out", train=(X, y), shrinkage=4)
    # r_0 rests on a base margin that the libraries keep in float32.
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_categories_are_parted_as_well_as_any_set_of_them_can():
    rng = np.random.default_rng(0)
    n = 240
    X = pd.DataFrame({"letter": pd.Categorical(rng.choice(list("abcdef"), n)), "number": rng.integers(0, 5, n) * 1.0})
    X.loc[rng.random(n) < 0.1, "letter"] = np.nan
    y = X["letter"].isin(["b", "e"]).to_numpy() * 2.0 + X["number"].to_numpy() + rng.normal(size=n)
    train, held = slice(0, 140), slice(140, None)
    model = lightgbm.LGBMRegressor(
        n_estimators=2, num_leaves=5, min_child_samples=4, n_jobs=1, verbose=-1, cat_smooth=1, min_data_per_group=2
    ).fit(X[train], y[train])
    ensemble = debias.plugin.extract(model)
    assert 0 in ensemble.feature[ensemble.category_set >= 0]
    codes = np.column_stack([X["letter"].cat.codes.where(X["letter"].notna()), X["number"]]).astype(float)

    def tree(k):
        view = ensemble.tree(k)
        nodes = [oracle.Node([0.0], 1.0, int(f), None) for f in view.feature]
        for node, a, b in zip(nodes, view.left, view.right, strict=True):
            node.left, node.right = int(a), int(b)
        return oracle.Tree(nodes, 0)

    from debias.trees.routing import route

    trees = [tree(k) for k in range(ensemble.n_trees)]
    leaves = {row.tobytes(): leaf for row, leaf in zip(codes, route(ensemble, codes), strict=True)}
    for k, each in enumerate(trees):  # routing has tests of its own
        parent = ensemble.tree(k).parent

        def path(row, k=k, parent=parent):
            t, passed = int(leaves[row.tobytes()][k]), []
            while t >= 0:
                passed.append(t)
                t = int(parent[t])
            return passed

        each.path = path
        each.splits = lambda each=each: [(t, node) for t, node in enumerate(each.nodes) if node.left >= 0]
    r = [[value - ensemble.base[0]] for value in y]
    bags, outside = [[(i, 1.0) for i in range(140)]] * 2, [[(i, 1.0) for i in range(100)]] * 2
    expected = honest(trees, bags, codes[train], r[train], codes[held], r[held], outside, averaged=False, levels={0})
    found = debias.score(model, X[held], y[held], "honest_splits", rows="held-out", train=(X[train], y[train]))
    assert_agree(found.values, expected, tolerance=1e-9)


def test_threads_change_nothing_and_coarse_bins_little():
    X, latent = rows_of(400, 0)
    model = RandomForestRegressor(8, random_state=0).fit(X, latent)
    one, two = (debias.score(model, X, latent, "honest_splits", n_jobs=n).values for n in (1, 2))
    np.testing.assert_array_equal(one, two)
    coarse = debias.score(model, X, latent, "honest_splits", bins=16).values
    np.testing.assert_allclose(coarse[1:], one[1:], rtol=1e-12)  # columns of few values are exact
    assert coarse[0] == pytest.approx(one[0], rel=0.2)
    assert coarse[0] != one[0]


def test_no_feature_loses_its_evidence_to_a_copy():
    X, latent = rows_of(200, 0)
    doubled = np.column_stack([X, X[:, 0]])
    model = RandomForestRegressor(5, random_state=0).fit(doubled, latent)
    scores = debias.score(model, doubled, latent, "honest_splits").values
    assert scores[0] == scores[4] > 0


def test_wrong_options_and_models_are_refused():
    X, latent = rows_of(120, 0)
    model = RandomForestRegressor(5, random_state=0).fit(X, latent)
    fresh_X, fresh = rows_of(60, 1)
    with pytest.raises(RowsError, match="train="):
        debias.score(model, fresh_X, fresh, "honest_splits", rows="held-out")
    with pytest.warns(debias.DebiasWarning), pytest.raises(RowsError, match="rows='train'"):
        debias.score(model, X, latent, "honest_splits", rows="train")
    for option in ({"bins": 1}, {"bins": 2.5}, {"min_node_size": -1}, {"shrinkage": float("nan")}):
        with pytest.raises(CompositionError, match=next(iter(option))):
            debias.score(model, X, latent, "honest_splits", **option)


@pytest.mark.slow
@pytest.mark.parametrize("response", ["10:90", "skewed"])
def test_noise_has_mean_0(response):
    rng = np.random.default_rng(2026)
    n, scores = 200, []
    for _ in range(200):
        X = pure_noise.features(rng, n)
        y = (
            rng.permutation((np.arange(n) < n // 10).astype(int))
            if response == "10:90"
            else rng.exponential(size=n) ** 2
        )
        kind = RandomForestClassifier if response == "10:90" else RandomForestRegressor
        model = kind(20, random_state=int(rng.integers(2**31))).fit(X, y)
        scores.append(debias.score(model, X, y, "honest_splits", rows="oob").values)
    assert np.abs(z_of_means(scores)).max() < 4.0  # 10 means in all: a false alarm in 0.06 % of seeds


@pytest.mark.slow
@pytest.mark.parametrize("boosted", [False, True])
def test_noise_of_loh_and_zhou_has_mean_0(boosted):
    """Model E0: binary, categorical and correlated features; a forest out of bag, XGBoost on fresh rows."""
    scores = []
    for seed in range(150):
        X, y = (drawn := loh("E0", 200, seed=seed)).numeric, drawn.y
        if boosted:
            model = xgboost.XGBRegressor(n_estimators=15, max_depth=4, n_jobs=1).fit(X, y)
            fresh = loh("E0", 200, seed=1000 + seed)
            given = {"rows": "held-out", "train": (X, y)}
            found = debias.score(model, fresh.numeric, fresh.y, "honest_splits", **given)
        else:
            model = RandomForestRegressor(20, max_features=1 / 3, random_state=seed, n_jobs=1).fit(X, y)
            found = debias.score(model, X, y, "honest_splits", rows="oob")
        scores.append(found.values)
    assert np.abs(z_of_means(scores)).max() < 4.0  # 22 means in all: a false alarm in 0.14 % of seeds


def test_lightgbm_forests_and_two_responses_are_scored():
    """A LightGBM forest on its out-of-bag rows, and a forest of two responses."""
    X, latent = rows_of(150, 0)
    forest = lightgbm.LGBMRegressor(
        boosting_type="rf", n_estimators=4, bagging_freq=1, bagging_fraction=0.6, verbose=-1, n_jobs=1
    ).fit(X, latent)
    scores = debias.score(forest, X, latent, "honest_splits", rows="oob").values
    assert scores[0] == scores.max() > 0
    both = RandomForestRegressor(4, random_state=0).fit(X, np.column_stack([latent, -latent]))
    one = RandomForestRegressor(4, random_state=0).fit(X, latent)
    of_both = debias.score(both, X, np.column_stack([latent, -latent]), "honest_splits", rows="oob").values
    np.testing.assert_allclose(of_both, 2 * debias.score(one, X, latent, "honest_splits", rows="oob").values)
