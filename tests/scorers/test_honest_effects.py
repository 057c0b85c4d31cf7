"""Honest effects against a plain-Python oracle: lines and level means at every node, by the definition."""

import math
from functools import partial

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import softmax
from scipy.stats import norm
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import debias
from debias.errors import CompositionError, RowsError
from debias.scorers.mixed_evidence import fitted_weights, log_e_values, mixed_evidence
from support import honest_cases, oracle, pure_noise
from support.agreement import assert_agree
from support.honest_cases import BOOSTERS, FORESTS, fitted_booster, fitted_forest
from support.pure_noise import z_of_means


def weighted_mean(pairs):
    return math.fsum(w * v for v, w in pairs) / math.fsum(w for _, w in pairs)


def fitted_line(inside, x_of, least):
    """Return the fitted value of every x by a line on the in-bag rows with an x; None if there is no line."""
    known = [(x_of(x), y, w) for x, y, w in inside if x_of(x) is not None]
    if math.fsum(w for *_, w in known) < least or len({x for x, *_ in known}) < 2:
        return None
    centre = weighted_mean([(x, w) for x, _, w in known])
    level = [weighted_mean([(y[c], w) for _, y, w in known]) for c in range(len(known[0][1]))]
    square = math.fsum(w * (x - centre) ** 2 for x, _, w in known)
    slope = [math.fsum(w * (x - centre) * (y[c] - level[c]) for x, y, w in known) / square for c in range(len(level))]
    return lambda x: None if x_of(x) is None else [b * x_of(x) for b in slope]


def fitted_levels(inside, least):
    """Return the in-bag mean of every level, less that of the node; levels without in-bag rows are at the mean."""
    if math.fsum(w for *_, w in inside) < least:
        return None
    width = len(inside[0][1])
    mean = [weighted_mean([(y[c], w) for _, y, w in inside]) for c in range(width)]
    of_level = {
        level: [weighted_mean([(y[c], w) for x, y, w in inside if x == level]) - mean[c] for c in range(width)]
        for level in {x for x, *_ in inside}
    }
    return lambda x: of_level.get(x, [0.0] * width)


def covariance(fit, outside):
    """Sum of centred products of fitted values and responses, over the rows that have a fitted value."""
    rows = [(fit(x), y, w) for x, y, w in outside if fit(x) is not None]
    if fit is None or not rows:
        return 0.0
    total = 0.0
    for c in range(len(rows[0][1])):
        centre = weighted_mean([(f[c], w) for f, _, w in rows])
        total += math.fsum(w * (f[c] - centre) * y[c] for f, y, w in rows)
    return total


def middle_ranks(column):
    known = sorted(v for v in column if not math.isnan(v))
    return {v: (known.index(v) + known.count(v) / 2) / len(known) - 0.5 for v in set(known)}


def effects(trees, bags, X_train, r_train, X, r, weights, averaged, levels=(), min_node_size=30, shrinkage=300):
    """`bags` and `weights`: for each tree (row, weight) pairs of in-bag and evaluation rows."""
    ranks = [middle_ranks(X_train[:, k]) for k in range(X.shape[1])]
    found = []
    for tree, bag, evaluated in zip(trees, bags, weights, strict=True):
        part = slice(None) if averaged else slice(tree.output, tree.output + 1)
        total = math.fsum(w for _, w in evaluated)
        if not total:
            continue
        passed = [[set(tree.path(row)) for row in rows] for rows in (X_train, X)]
        score = [0.0] * X.shape[1]
        for t in range(len(tree.nodes)):
            for k in range(X.shape[1]):
                inside = [(X_train[i, k], list(r_train[i][part]), w) for i, w in bag if t in passed[0][i]]
                outside = [(X[i, k], list(r[i][part]), w) for i, w in evaluated if t in passed[1][i] and w > 0]
                n = math.fsum(w for *_, w in inside)
                if n < min_node_size or n == 0 or (t > 0 and len(outside) < 2):
                    continue
                if k in levels:
                    names = {None if math.isnan(v) else v for v in X_train[:, k]} - {None}
                    named = lambda x, names=names: x if x in names else None  # noqa: E731
                    at_levels = [[(named(x), y, w) for x, y, w in rows] for rows in (inside, outside)]
                    fits = [fitted_levels(at_levels[0], max(min_node_size, 2 * (len(names) + 1)))]
                    outside = at_levels[1]
                else:
                    rank = lambda x, of=ranks[k]: None if math.isnan(x) else of[x]  # noqa: E731
                    fits = [fitted_line(inside, rank, min_node_size)]
                    if np.isnan(X_train[:, k]).any():
                        fits.append(fitted_line(inside, lambda x: float(math.isnan(x)), min_node_size))
                terms = math.fsum(covariance(fit, outside) for fit in fits if fit is not None)
                score[k] += terms * n / (n + shrinkage) / total
        found.append((tree.output, score))
    outputs = [output for output, _ in found]
    return np.sum([np.array(score) / outputs.count(output) for output, score in found], axis=0)


rows_of = partial(honest_cases.rows_of, first="rounded")  # ranks of rounded values have ties


@pytest.mark.parametrize("options", [{}, {"min_node_size": 6, "shrinkage": 20.0}], ids=str)
@pytest.mark.parametrize("case", FORESTS)
def test_effects_on_oob_rows_are_those_by_hand(case, options):
    model, X, y = fitted_forest(case, 110, first="rounded")
    form = oracle.sklearn_model(model)
    w = np.random.default_rng(1).integers(0, 3, len(y)) * 0.7
    bags = oracle.sklearn_bags(model, y)
    if case == "balanced":  # lines do not use the weights of classes; the same rows are drawn without them
        bags = oracle.sklearn_bags(RandomForestClassifier(4, random_state=0).fit(X, y), y)
    outside = [[(i, w[i]) for i in range(len(y)) if i not in {j for j, _ in bag}] for bag in bags]
    r = form.response(y)
    expected = effects(form.trees, bags, X, r, X, r, outside, averaged=True, **options)
    found = debias.score(model, X, y, "honest_effects", kind="linear", rows="oob", sample_weight=w, **options)
    assert_agree(found.values, expected, tolerance=1e-9)


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("case", BOOSTERS)
def test_effects_on_held_out_rows_are_those_by_hand(case, missing):
    (X, latent), (X_held, latent_held) = rows_of(120, 0, missing), rows_of(80, 1, missing)
    for k in range(X.shape[1]):  # ranks are those of training values: no other values here
        X_held[~np.isin(X_held[:, k], X[:, k]) & ~np.isnan(X_held[:, k]), k] = np.nanmin(X[:, k])
    model, form, y, y_held = fitted_booster(case, X, latent, latent_held)
    bags = [[(i, 1.0) for i in range(len(y))]] * len(form.trees)
    outside = [[(i, 1.0) for i in range(len(y_held))]] * len(form.trees)
    expected = effects(form.trees, bags, X, form.response(y), X_held, form.response(y_held), outside, averaged=False)
    found = debias.score(model, X_held, y_held, "honest_effects(kind='linear')", rows="held-out", train=(X, y))
    # r_0 rests on a base margin that the libraries keep in float32.
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("min_node_size", [30, 5])
def test_level_means_of_categories(min_node_size):
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
    from debias.trees.routing import route

    leaves = {row.tobytes(): leaf for row, leaf in zip(codes, route(ensemble, codes), strict=True)}
    trees = [oracle.Tree([oracle.Node([0.0], 1.0)] * ensemble.tree(k).left.size) for k in range(ensemble.n_trees)]
    for k, tree in enumerate(trees):  # routing has tests of its own
        parent = ensemble.tree(k).parent

        def path(row, k=k, parent=parent):
            t, passed = int(leaves[row.tobytes()][k]), []
            while t >= 0:
                passed.append(t)
                t = int(parent[t])
            return passed

        tree.path = path
    r = [[value - ensemble.base[0]] for value in y]
    bags, outside = [[(i, 1.0) for i in range(140)]] * 2, [[(i, 1.0) for i in range(100)]] * 2
    given = (trees, bags, codes[train], r[train], codes[held], r[held], outside)
    expected = effects(*given, averaged=False, levels={0}, min_node_size=min_node_size)
    found = debias.score(
        model,
        X[held],
        y[held],
        f"honest_effects(kind='linear', min_node_size={min_node_size})",
        rows="held-out",
        train=(X[train], y[train]),
    )
    assert_agree(found.values, expected, tolerance=1e-9)


def test_contributions_sum_to_the_score_and_blocks_are_respected():
    X, latent = rows_of(300, 0)
    model = RandomForestRegressor(30, random_state=0, min_samples_leaf=3).fit(X, latent)
    scores = debias.score(model, X, latent, "honest_effects(kind='linear')").values
    phi = debias.contributions(model, X, latent, "honest_effects(kind='linear')")
    np.testing.assert_allclose(phi.sum(), scores, rtol=1e-9)
    pairs = np.arange(300) // 2
    in_blocks = debias.score(
        model, debias.Dataset(X, latent, blocks=pairs), scorer="honest_effects(kind='linear')"
    ).values
    assert not np.allclose(in_blocks, scores)
    groups = {"all": list(debias.plugin.extract(model).feature_names[:2])}
    grouped = debias.score(model, X, latent, "honest_effects(kind='linear')", groups=groups).values
    assert grouped.sum() == pytest.approx(scores.sum())


def test_monotone_transformations_change_nothing():
    """Ranks are used, as trees use them: the nodes are the same if the thresholds divide the rows in the same way."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = X[:, 0] + rng.normal(size=300)
    forest = RandomForestRegressor(20, random_state=0, min_samples_leaf=10).fit(X, y)
    ranks = np.argsort(np.argsort(X, axis=0), axis=0)
    of_ranks = RandomForestRegressor(20, random_state=0, min_samples_leaf=10).fit(ranks, y)
    one, other = (
        debias.score(*given, "honest_effects(kind='linear')") for given in ((forest, X, y), (of_ranks, ranks, y))
    )
    np.testing.assert_allclose(one.values, other.values, rtol=0.2, atol=0.02)


@pytest.mark.quick
def test_two_classes_have_the_score_of_their_numbers():
    X, latent = rows_of(300, 0)
    y = (latent > 0.5).astype(int)
    classes = RandomForestClassifier(10, random_state=0, criterion="gini", max_features=None).fit(X, y)
    numbers = RandomForestRegressor(10, random_state=0, max_features=None).fit(X, y)
    one, other = (debias.score(model, X, y, "honest_effects(kind='linear')").values for model in (classes, numbers))
    np.testing.assert_allclose(one, 2 * other, rtol=0.2, atol=0.005)  # one-hot columns have twice the product


def folded_lines(model, X, y):
    """Contributions to lines in the distance of each rank from the middle one."""
    found = []

    @debias.plugin.scorer_plugin("folded", unit="")
    def folded(ensemble, rows):
        effects = rows.linear_effects(min_node_size=30.0, shrinkage=300.0, bins=256)
        found.append(effects.contributions(rows.n_rows, folded=True))
        return np.zeros(ensemble.n_features)

    debias.score(model, X, y, folded)
    return found[0]


def test_folded_lines_find_a_u_shape_without_splits():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = np.abs(X[:, 0]) + rng.normal(size=400)
    model = RandomForestRegressor(30, random_state=0, max_depth=1, n_jobs=1).fit(X[:, [1, 2, 0]], y)
    scores = folded_lines(model, X[:, [1, 2, 0]], y).sum(axis=0)
    assert scores[2] > 10 * np.abs(scores[:2]).max()
    middle = np.abs(np.argsort(np.argsort(X[:, 0])) + 0.5 - 200)  # the distance as a feature of its own has a line
    beside = np.column_stack([X[:, 1], X[:, 2], X[:, 0], middle])
    model = RandomForestRegressor(30, random_state=0, max_depth=1, max_features=1, n_jobs=1).fit(beside, y)
    of_lines = debias.score(model, beside, y, "honest_effects(kind='linear')").values
    assert folded_lines(model, beside, y).sum(axis=0)[2] == pytest.approx(of_lines[3], rel=0.1)


def test_splits_are_honest_splits_and_both_combines_both_studentised_scores():
    X, latent = rows_of(300, 0)
    model = RandomForestRegressor(20, random_state=0, min_samples_leaf=3).fit(X, latent)
    splits = debias.score(model, X, latent, "honest_effects(kind='splits')").values
    np.testing.assert_array_equal(splits, debias.score(model, X, latent, "honest_splits").values)
    both, linear = (
        debias.score(model, X, latent, "honest_effects", test=test, random_state=0)
        for test in ("combined", "permutation")
    )
    of_splits = debias.score(model, X, latent, test="permutation", random_state=0)
    np.testing.assert_array_equal(both.z, np.maximum(linear.z, of_splits.z))
    n = min(len(both.null), len(linear.null), len(of_splits.null))
    np.testing.assert_array_equal(both.null[:n], np.maximum(linear.null[:n], of_splits.null[:n]))  # common permutations
    assert n >= 40
    folded = folded_lines(model, X, latent)
    fold = folded.sum(axis=0) / np.sqrt(len(folded) * folded.var(axis=0, ddof=1))
    p = np.array([p_of_fits(z) + 0.0005 for z in (linear.z, fold)] + [norm.sf(of_splits.z)])
    np.testing.assert_allclose(both.values, mixed_evidence_by_hand(p, (0.475, 0.05, 0.475)), rtol=1e-5)


def p_of_fits(z):
    return 2 * norm.sf((z + np.sqrt(z**2 + 4)) / 2)


def e_values(p):
    """The mean of k p^(k - 1) over k, by quadrature."""
    return np.vectorize(lambda each: quad(lambda k: k * each ** (k - 1), 0, 1)[0])(p)


def mixed_evidence_by_hand(p, prior):
    """Weights are shares of a mixture at its mode: half a feature and 9 of noise are counted before."""
    e = e_values(p)

    def loss(free):
        share = softmax([*free, 0.0])
        fit = np.log(share[:-1] @ e + share[-1]).sum()
        return -fit - 0.5 * np.dot(prior, np.log(share[:-1])) - 9 * np.log(share[-1])

    share = softmax([*minimize(loss, np.log(np.array(prior) / 18), method="BFGS", tol=1e-9).x, 0.0])[:-1]
    return np.log(share @ e / share.sum())


def p_values(rng, n_features, found):
    """P-values of noise, but for the first features, whose z of one of three kinds is about 4."""
    z = rng.normal(size=(3, n_features))
    for k, kind in enumerate(found):
        z[kind, k] += 4
    return norm.sf(z)


@pytest.mark.parametrize("found", [(), (0, 0, 0), (2, 2), (0, 1, 2), (1,) * 12], ids=str)
def test_weights_of_kinds_are_the_mode_of_a_mixture(found):
    p = p_values(np.random.default_rng(1), 30, found)
    prior = np.array((0.5, 0.1, 0.4))
    np.testing.assert_allclose(mixed_evidence(np.log(p), prior), mixed_evidence_by_hand(p, prior), rtol=1e-4, atol=1e-5)
    weights = fitted_weights(log_e_values(np.log(p)), prior)
    assert weights.sum() == pytest.approx(1)
    assert weights.min() > 0
    if found and len(set(found)) == 1:
        assert weights[found[0]] > prior[found[0]]


def test_evidence_does_not_depend_on_the_order_of_features_or_kinds_and_grows_with_each():
    rng = np.random.default_rng(2)
    log_p, prior = np.log(p_values(rng, 40, (0, 0, 1, 2))), np.array((0.7, 0.05, 0.25))
    evidence = mixed_evidence(log_p, prior)
    order = rng.permutation(40)
    np.testing.assert_allclose(mixed_evidence(log_p[:, order], prior), evidence[order], rtol=1e-9)
    np.testing.assert_allclose(mixed_evidence(log_p[[2, 0, 1]], prior[[2, 0, 1]]), evidence, rtol=1e-9)
    for kind in range(3):
        smaller = log_p.copy()
        smaller[kind, 7] -= 3
        assert mixed_evidence(smaller, prior)[7] > evidence[7]
    nearly = log_p + rng.normal(scale=1e-6, size=log_p.shape)
    np.testing.assert_allclose(mixed_evidence(nearly, prior), evidence, atol=1e-4)


def test_e_values_of_extreme_p_values():
    log_p = -np.array([0.0, 1e-16, 1e-9, 0.999e-3, 1.001e-3, 1.0, 30.0, 1e5])
    found = log_e_values(log_p)
    assert found[0] == pytest.approx(np.log(0.5))
    assert (np.diff(found) >= 0).all()
    np.testing.assert_allclose(np.exp(found[:6]), e_values(np.exp(log_p[:6])), rtol=1e-9)
    np.testing.assert_allclose(found[6:], -log_p[6:] - 2 * np.log(-log_p[6:]), rtol=1e-9)


def auc(scores, relevant):
    return np.mean(scores[relevant][:, None] > scores[~relevant])


@pytest.mark.parametrize(("kind", "gain"), [(0, 0.0), (1, 0.08), (2, 0.02)], ids=["lines", "folded lines", "splits"])
def test_kinds_that_no_feature_has_do_not_spoil_the_ranking(kind, gain):
    """Fitted weights against the harmonic mean of p-values with fixed weights, and against the kind itself."""
    rng = np.random.default_rng(0)
    relevant, prior, before = np.arange(50) < 5, np.array((0.475, 0.05, 0.475)), np.array((0.7, 0.05, 0.25))
    found = []
    for _ in range(200):
        z = rng.normal(size=(3, 50))
        z[kind, relevant] += 2.5
        p = norm.sf(z)
        found.append(
            [auc(scores, relevant) for scores in (z[kind], mixed_evidence(np.log(p), prior), before @ (1 / p))]
        )
    best, fitted, fixed = np.mean(found, axis=0)
    assert fitted > fixed + gain
    assert fitted > best - 0.03


def breast_cancer(rng, n=300):
    """Real columns, correlated in groups, and a response that rests on two conditions on three of them."""
    X = load_breast_cancer().data[rng.permutation(569)[:n]]
    relevant = rng.choice(30, 3, replace=False)
    ranks = np.argsort(np.argsort(X[:, relevant], axis=0), axis=0) / n
    mean = ((ranks[:, 0] > 0.5) & (ranks[:, 1] > 0.4)) + 0.7 * (ranks[:, 2] > 0.5)
    return X, mean + rng.normal(scale=mean.std(), size=n), np.isin(np.arange(30), relevant)


def test_among_correlated_columns_the_splits_of_the_model_decide():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(12):
        X, y, relevant = breast_cancer(rng)
        model = RandomForestRegressor(40, random_state=0, max_features=1 / 3, min_samples_leaf=5, n_jobs=1).fit(X, y)
        of_lines, both = (
            debias.score(model, X, y, f"honest_effects(kind='{kind}')").values for kind in ("linear", "both")
        )
        found.append([auc(scores, relevant) for scores in (of_lines, both)])
    of_lines, both = np.mean(found, axis=0)
    assert both > of_lines + 0.05


def test_the_evidence_of_a_group_is_the_mean_of_that_of_its_columns_which_does_not_depend_on_the_groups():
    X, latent = rows_of(300, 0)
    model = RandomForestRegressor(20, random_state=0, min_samples_leaf=3).fit(X, latent)
    alone = debias.score(model, X, latent, "honest_effects")
    first, second, *others = alone.feature_names
    grouped = debias.score(model, X, latent, "honest_effects", groups={"pair": [first, second]})
    assert grouped.feature_names == ("pair", *others)
    np.testing.assert_allclose(grouped.values, [np.log(np.exp(alone.values[:2]).mean()), *alone.values[2:]])


def test_a_category_is_found_whose_other_levels_are_noise():
    """Sums of logs put a category of 40 levels, of which one matters much, behind all noise."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(600, 10)), columns=[f"n{k}" for k in range(10)])
    X["city"] = rng.integers(0, 40, 600).astype(str)
    encoder = make_column_transformer((OneHotEncoder(sparse_output=False), ["city"]), remainder="passthrough")
    of_city, of_noise = [], []
    for effect in (5.0, 0.0):
        y = effect * (X["city"] == "0") + rng.normal(size=600)
        model = make_pipeline(encoder, RandomForestRegressor(40, random_state=0, min_samples_leaf=3)).fit(X, y)
        found = debias.score(model, X, y, "honest_effects")
        scores = pd.Series(found.values, found.feature_names)
        of_city.append(scores["city"])
        of_noise.append(scores.drop("city").max())
    assert of_city[0] > of_noise[0]
    assert -0.7 <= of_city[1] < 1 < of_city[0]


@pytest.mark.parametrize("kind", ["out of bag", "held out, few", "held out, many"])
def test_the_test_finds_what_a_model_does_not_use(kind):
    """The second column is the sign of the first with noise: the model hardly splits on it."""
    rng = np.random.default_rng(3)
    n = 5000 if kind == "held out, many" else 400
    X = rng.normal(size=(n, 6))
    X[:, 1] = np.where(rng.random(n) < 0.85, np.sign(X[:, 0]), -np.sign(X[:, 0]))
    y = X[:, 0] + rng.normal(size=n)
    half = n // 2
    if kind == "out of bag":
        model = RandomForestRegressor(50, random_state=0, min_samples_leaf=5, n_jobs=1).fit(X, y)
        audit = debias.audit(model, X, y, random_state=0)
    else:
        model = xgboost.XGBRegressor(n_estimators=30, max_depth=2, learning_rate=0.2, n_jobs=1).fit(X[:half], y[:half])
        given = {"rows": "held-out", "train": (X[:half], y[:half])}
        audit = debias.audit(model, X[half:], y[half:], random_state=0, **given)
    assert audit.dependence[:2] == ["dependent", "dependent"]
    assert audit.dependence[2:].count("dependent") <= 1
    assert audit.to_frame().loc[audit.tested_scores.feature_names[1], "dependence"] == "dependent"
    assert any("The response depends on" in sentence for sentence in audit.summary())


@pytest.mark.thorough
def test_a_sentence_says_of_a_dependent_feature_only_what_was_tested():
    """The model may make much use of a feature that is not confirmed alone: here a quarter of the reported."""
    X = np.random.default_rng(0).normal(size=(700, 4))[100:400]
    audits = []
    for seed in range(12):
        y = 0.25 * X[:, 0] + 0.25 * X[:, 1] + np.random.default_rng(seed).normal(size=300)
        model = RandomForestRegressor(20, random_state=0, n_jobs=1).fit(X, y)
        audits.append(debias.audit(model, X, y, [], random_state=0, test=debias.Permutation(50)))
    said = [
        (audit.reported[k], f"What this model does with one of them is not confirmed: x{k}.", audit.summary())
        for audit in audits
        for k in range(4)
        if (audit.verdict[k], audit.dependence[k]) == ("indistinguishable", "dependent")
        and list(zip(audit.verdict, audit.dependence, strict=True)).count(("indistinguishable", "dependent")) == 1
    ]
    assert max(share for share, _, _ in said) > 0.2
    assert all(any(line.endswith(sentence) for line in summary) for _, sentence, summary in said)


def test_threads_change_no_number():
    X, latent = rows_of(400, 0)
    model = RandomForestRegressor(8, random_state=0).fit(X, latent)
    one, two = (
        debias.score(model, X, latent, "honest_effects", test="combined", random_state=1, n_jobs=n) for n in (1, 2)
    )
    np.testing.assert_array_equal(one.values, two.values)
    np.testing.assert_array_equal(one.null, two.null)


def test_wrong_options_and_rows_are_refused():
    X, latent = rows_of(120, 0)
    model = RandomForestRegressor(5, random_state=0).fit(X, latent)
    fresh_X, fresh = rows_of(60, 1)
    with pytest.raises(RowsError, match="train="):
        debias.score(model, fresh_X, fresh, "honest_effects", rows="held-out")
    with pytest.raises(RowsError, match="train="):
        debias.audit(model, fresh_X, fresh, rows="held-out", dependence=True)
    assert debias.audit(model, fresh_X, fresh, rows="held-out").dependence is None
    with pytest.warns(debias.DebiasWarning), pytest.raises(RowsError, match="rows='train'"):
        debias.score(model, X, latent, "honest_effects", rows="train")
    with pytest.raises(CompositionError, match="test='combined' is for honest_effects"):
        debias.score(model, X, latent, test="combined")
    with pytest.raises(CompositionError, match="pass test='permutation'"):
        debias.score(model, X, latent, "honest_effects", test="conservative")
    for option in ({"kind": "lines"}, {"bins": 1}, {"min_node_size": -1}, {"shrinkage": float("nan")}):
        with pytest.raises(CompositionError, match=next(iter(option))):
            debias.score(model, X, latent, "honest_effects", **option)


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
        scores.append(debias.score(model, X, y, "honest_effects(kind='linear')", rows="oob").values)
    assert np.abs(z_of_means(scores)).max() < 4.0  # 10 means in all: a false alarm in 0.06 % of seeds


def test_very_many_rows_times_trees_are_left_out_with_a_warning(monkeypatch):
    X, latent = rows_of(120, 0)
    model = RandomForestRegressor(5, random_state=0).fit(X, latent)
    monkeypatch.setattr("debias.api.prepared.MOST_ROUTED", 599)
    with pytest.warns(debias.DebiasWarning, match="dependence was not tested: rows times trees are 6e"):
        audit = debias.audit(model, X, latent, random_state=0)
    assert audit.dependence is None
    assert debias.audit(model, X, latent, random_state=0, dependence=True).dependence is not None


def test_training_rows_that_contain_the_evaluated_rows_are_refused():
    X, latent = rows_of(300, 0)
    X[:, 0] = np.random.default_rng(0).normal(size=300)
    model = xgboost.XGBRegressor(n_estimators=5, max_depth=2, n_jobs=1).fit(X[:200], latent[:200])
    both = pytest.warns(debias.DebiasWarning, match="are also in train="), pytest.raises(RowsError, match="100% of the")
    with both[0], both[1]:
        debias.score(model, X[200:], latent[200:], "honest_effects", rows="held-out", train=(X, latent))
    debias.score(model, X[200:], latent[200:], "honest_effects", rows="held-out", train=(X[:200], latent[:200]))
    few_values = np.round(X[:, 1:])  # equal rows are normal here
    model = xgboost.XGBClassifier(n_estimators=5, max_depth=2, n_jobs=1).fit(few_values[:200], latent[:200] > 0)
    given = {"rows": "held-out", "train": (few_values[:200], latent[:200] > 0)}
    debias.score(model, few_values[200:], latent[200:] > 0, "honest_effects", **given)


def test_the_main_scorer_of_an_audit_has_shares():
    X, latent = rows_of(120, 0)
    model = RandomForestRegressor(5, random_state=0).fit(X, latent)
    with pytest.raises(CompositionError, match="has no shares"):
        debias.audit(model, X, latent, tested="honest_effects")


@pytest.mark.parametrize("held_out", [False, True])
def test_the_unit_of_training_weights_does_not_matter(held_out):
    X, latent = rows_of(300, 0)
    weight = np.random.default_rng(0).uniform(0.5, 2, size=300)
    found = []
    for unit in (1.0, 2.0**-12):
        if held_out:
            model = xgboost.XGBRegressor(n_estimators=5, max_depth=2, min_child_weight=0, reg_lambda=0, n_jobs=1)
            model.fit(X[:200], latent[:200], sample_weight=weight[:200] * unit)
            given = {
                "rows": "held-out",
                "train": debias.Dataset(X[:200], latent[:200], sample_weight=weight[:200] * unit),
            }
            found.append(debias.score(model, X[200:], latent[200:], "honest_effects(kind='linear')", **given).values)
        else:
            model = RandomForestRegressor(10, random_state=0).fit(X, latent, sample_weight=weight * unit)
            given = {"sample_weight": weight * unit}
            found.append(debias.score(model, X, latent, "honest_effects(kind='linear')", **given).values)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)
    assert found[0].any()
