import json
from contextlib import nullcontext

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.inspection import permutation_importance
from sklearn.metrics import accuracy_score, get_scorer, make_scorer, mean_squared_error, roc_auc_score
from xgboost import XGBRegressor

import debias
from support.missing_values import IN_FORESTS
from support.versions import at_least


@pytest.fixture(scope="module")
def halves(diabetes):
    X, y = diabetes[0].to_numpy(dtype=np.float32), diabetes[1].to_numpy()
    order = np.random.default_rng(1).permutation(len(y))
    return X[order[:250]], y[order[:250]], X[order[250:]], y[order[250:]]


@pytest.fixture(scope="module")
def oob_forest(halves):
    X, y = halves[0], (halves[1] > np.median(halves[1])).astype(int)
    return RandomForestClassifier(15, random_state=3).fit(X, y), X, y


# --- held-out rows: scikit-learn's own number ----------------------------------------------------------


@pytest.mark.parametrize("library", ["sklearn", "xgboost", "lightgbm"])
@pytest.mark.parametrize("metric", ["neg_mean_squared_error", "r2", "neg_median_absolute_error"])
def test_held_out_regression_is_scikit_learns(halves, models, library, metric):
    X, y, X_test, y_test = halves
    model = models(library).fit(X, y)
    ours = debias.score(
        model, X_test, y_test, "permutation", rows="held-out", metric=metric, n_repeats=3, random_state=11
    )
    theirs = permutation_importance(model, X_test, y_test, scoring=metric, n_repeats=3, random_state=11)
    # XGBoost adds up 40 trees in float32, whose precision is 6e-8.
    exact = {"rtol": 0, "atol": abs(ours.details["baseline"]) * (1e-12 if library == "sklearn" else 5e-6)}
    np.testing.assert_allclose(ours.values, theirs.importances_mean, **exact)
    spread = theirs.importances.std(axis=1, ddof=1) / np.sqrt(3)
    np.testing.assert_allclose(ours.details["standard_error"], spread, **exact)


@pytest.mark.thorough
@pytest.mark.parametrize("library", ["sklearn", "xgboost", "lightgbm"])
@pytest.mark.parametrize("metric", [None, "neg_log_loss", "roc_auc"])
def test_held_out_classification_is_scikit_learns(cancer, models, library, metric):
    X, y = cancer[0].astype(np.float32), np.where(cancer[1] == 1, "yes", "no") if library == "sklearn" else cancer[1]
    model = models(library, "classification", n_estimators=10).fit(X[:400], y[:400])
    ours = debias.score(
        model, X[400:], y[400:], "permutation", rows="held-out", metric=metric, n_repeats=2, random_state=5
    )
    theirs = permutation_importance(model, X[400:], y[400:], scoring=metric, n_repeats=2, random_state=5)
    np.testing.assert_allclose(ours.values, theirs.importances_mean, atol=1e-12 if library == "sklearn" else 1e-6)
    assert np.abs(ours.values).max() > 1e-3


@pytest.mark.thorough
@pytest.mark.quick
def test_three_classes_with_missing_values_and_weights_agree_with_scikit_learn(models):
    X, y = load_iris(return_X_y=True)
    rng = np.random.default_rng(0)
    X[rng.random(X.shape) < 0.2] = np.nan
    weight, test = rng.exponential(size=75), np.arange(150) % 2 == 1
    for library in ("sklearn", "xgboost", "lightgbm")[not IN_FORESTS :]:
        model = models(library, "classification", n_estimators=8).fit(X[~test], y[~test])
        for metric in ("accuracy", "neg_log_loss"):
            ours = debias.score(
                model,
                X[test],
                y[test],
                "permutation",
                rows="held-out",
                sample_weight=weight,
                metric=metric,
                random_state=1,
            )
            theirs = permutation_importance(
                model, X[test], y[test], scoring=metric, random_state=1, sample_weight=weight
            )
            np.testing.assert_allclose(ours.values, theirs.importances_mean, atol=1e-5)


@pytest.mark.filterwarnings("ignore:the model has 2 responses:debias.DebiasWarning")
def test_several_responses_agree_with_scikit_learn(halves):
    X, y, X_test, y_test = halves
    several, several_test = np.column_stack([y, X[:, 0]]), np.column_stack([y_test, X_test[:, 0]])
    forest = RandomForestRegressor(5, random_state=0).fit(X, several)
    ours = debias.score(forest, X_test, several_test, "permutation", rows="held-out", random_state=3)
    theirs = permutation_importance(forest, X_test, several_test, scoring="neg_mean_squared_error", random_state=3)
    np.testing.assert_allclose(ours.values, theirs.importances_mean, rtol=1e-9, atol=1e-9)


@pytest.mark.thorough
def test_a_callable_metric_is_a_scikit_learn_scorer(halves, models):
    X, y, X_test, y_test = halves
    model = models("sklearn").fit(X, y)
    ours = make_scorer(lambda truth, predicted: -np.abs(truth - predicted).max())
    found = debias.score(model, X_test, y_test, "permutation", rows="held-out", metric=ours, random_state=2)
    theirs = permutation_importance(model, X_test, y_test, scoring=ours, random_state=2)
    np.testing.assert_allclose(found.values, theirs.importances_mean, rtol=1e-10)


# --- out of bag: a loop over trees, columns and rows ---------------------------------------------------


def brute_force(forest, X, y, quality, seed, n_repeats, groups=None):
    """Return the decrease for each tree and column, from scikit-learn's trees and bags alone."""
    groups = groups or [[k] for k in range(X.shape[1])]
    drops = []
    for t, (tree, bag) in enumerate(zip(forest.estimators_, forest.estimators_samples_, strict=True)):
        out = np.setdiff1d(np.arange(len(X)), bag)
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(t,)))
        shuffles = [rng.permutation(len(out)) for _ in range(n_repeats)]
        before = quality(tree, X[out], y[out])
        drop = np.zeros(X.shape[1])
        for columns in groups:
            for shuffle in shuffles:
                permuted = X[out].copy()
                permuted[:, columns] = X[out][shuffle][:, columns]
                drop[columns] += (before - quality(tree, permuted, y[out])) / n_repeats
        drops.append(drop)
    return np.array(drops)


QUALITIES = {
    "accuracy": lambda tree, X, y: accuracy_score(y, tree.predict(X)),
    "roc_auc": lambda tree, X, y: roc_auc_score(y, tree.predict_proba(X)[:, 1]),
}


@pytest.mark.thorough
@pytest.mark.parametrize("metric", QUALITIES)
def test_out_of_bag_is_a_loop_over_trees(oob_forest, metric):
    forest, X, y = oob_forest
    scores = debias.score(forest, X, y, "permutation", rows="oob", metric=metric, n_repeats=2, random_state=9)
    drops = brute_force(forest, X, y, QUALITIES[metric], 9, 2)
    np.testing.assert_allclose(scores.values, drops.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(scores.details["standard_error"], drops.std(axis=0, ddof=1) / np.sqrt(15), atol=1e-12)
    assert scores.values.max() > 0.01


def test_out_of_bag_regression_and_the_metrics_that_are_computed_at_once(halves):
    X, y = halves[:2]
    forest = RandomForestRegressor(10, random_state=0, max_samples=0.3, min_samples_leaf=3).fit(X, y)
    found = debias.score(forest, X, y, "permutation", rows="oob", n_repeats=1, random_state=4)
    drops = brute_force(forest, X, y, lambda tree, X, y: -mean_squared_error(y, tree.predict(X)), 4, 1)
    np.testing.assert_allclose(found.values, drops.mean(axis=0), rtol=1e-9)
    slow = get_scorer("neg_mean_squared_error")
    same = debias.score(forest, X, y, "permutation", rows="oob", metric=slow, n_repeats=1, random_state=4)
    np.testing.assert_allclose(found.values, same.values, rtol=1e-9)


@pytest.mark.thorough
def test_a_group_is_permuted_together(oob_forest, halves):
    forest, X, y = oob_forest
    groups = {"some": ["x0", "x8"], "others": ["x2", "x3", "x4"]}
    columns = [[0, 8], [2, 3, 4], [1], [5], [6], [7], [9]]
    scores = debias.score(forest, X, y, "permutation", rows="oob", together=groups, n_repeats=2, random_state=9)
    drops = brute_force(forest, X, y, QUALITIES["accuracy"], 9, 2, columns)
    size = np.ones(10)
    size[[0, 8]], size[[2, 3, 4]] = 2, 3
    np.testing.assert_allclose(scores.values * size, drops.mean(axis=0), atol=1e-12)
    spread = drops.std(axis=0, ddof=1) / np.sqrt(15)
    np.testing.assert_allclose(scores.details["standard_error"] * size, spread, atol=1e-12)
    assert scores.details["together"] == pytest.approx({"some": drops[:, 0].mean(), "others": drops[:, 2].mean()})
    # The columns of a group sum to its score, which is what groups= of debias.score does.
    summed = debias.score(
        *(forest, X, y, debias.plugin.scorer("permutation", together=groups, n_repeats=2)),
        rows="oob",
        groups=groups,
        random_state=9,
    )
    assert summed.values[0] == pytest.approx(drops[:, 0].mean())
    held = debias.score(
        forest,
        halves[2],
        halves[3] > np.median(halves[1]),
        "permutation",
        rows="held-out",
        together=groups,
        random_state=1,
    )
    assert held.values[0] == held.values[8] != held.values[1]


# --- conditional ---------------------------------------------------------------------------------------


def test_conditional_permutation_takes_from_a_copy_what_its_original_tells():
    rng = np.random.default_rng(0)
    z = rng.normal(size=2000)
    # The response knows z alone; the second column is z with some noise, the third is of no use.
    X = np.column_stack([z, z + 0.3 * rng.normal(size=2000), rng.normal(size=2000)])
    y = z + 0.5 * rng.normal(size=2000)
    forest = RandomForestRegressor(40, max_features=1, min_samples_leaf=5, random_state=0).fit(X, y)
    plain = debias.score(forest, X, y, "permutation", rows="oob", random_state=0)
    within = debias.score(forest, X, y, "permutation", rows="oob", conditional=0.2, random_state=0)
    assert plain.values[1] > 0.2
    assert within.values[1] < 0.2 * plain.values[1]
    assert within.details["strata"][1] > 20
    # The third column is related to no other: nothing to hold, the same permutations.
    assert within.details["strata"][2] == 1
    assert within.values[2] == plain.values[2]


def test_donors_come_from_the_stratum_and_each_row_gives_once():
    from debias_plugins.scorers.permutation import _donors

    rng = np.random.default_rng(0)
    strata = rng.integers(0, 4, (3, 100)).astype(np.int32)
    at = rng.choice(100, 37, replace=False)
    donors = _donors(at, rng.permutation(37), strata)
    for stratum, donor in zip(strata, donors, strict=True):
        assert (stratum[donor] == stratum[at]).all()
        assert sorted(donor) == sorted(at)
    # Within a stratum of m rows each donor is as likely for each row: 1 / m.
    stratum = np.zeros((1, 3), dtype=np.int32)
    first = [_donors(np.arange(3), rng.permutation(3), stratum)[0, 0] for _ in range(3000)]
    assert np.abs(np.bincount(first) - 1000).max() < 4 * np.sqrt(3000 * 2 / 9)


# --- manners -------------------------------------------------------------------------------------------


def test_one_seed_gives_one_answer_whatever_the_threads(oob_forest, halves):
    forest, X, y = oob_forest
    state = np.random.get_state()[1].copy()  # noqa: NPY002 - it is the global state that is looked at
    one = debias.score(forest, X, y, "permutation", random_state=3)
    assert (debias.score(forest, X, y, "permutation", random_state=3, n_jobs=2).values == one.values).all()
    assert (debias.score(forest, X, y, "permutation", random_state=4).values != one.values).any()
    fresh = debias.score(forest, X, y, "permutation")
    again = debias.score(forest, X, y, "permutation", random_state=fresh.details["seed"])
    assert (again.values == fresh.values).all()
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002
    assert debias.Scores.from_json(one.to_json()).details == one.details
    json.loads(fresh.to_json())


def test_a_feature_no_tree_uses_scores_exactly_0(halves):
    X, y, X_test, y_test = halves
    X, X_test = X.copy(), X_test.copy()
    X[:, 4] = 0
    model = XGBRegressor(n_estimators=5, max_depth=2).fit(X, y)
    assert debias.score(model, X_test, y_test, "permutation", rows="held-out").values[4] == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"metric": "acuracy"}, "Did you mean 'accuracy'"),
        ({"metric": "r2"}, "metric r2"),
        ({"n_repeats": 0}, "n_repeats"),
        ({"stratum_size": 2.5}, "stratum_size"),
        ({"conditional": 2}, "between 0 and 1"),
        ({"conditional": True}, "between 0 and 1"),
    ],
)
def test_wrong_options_are_refused(halves, options, said):
    X = halves[0]
    y = np.where(halves[1] > 150, "high", "low")
    forest = RandomForestClassifier(3, random_state=0).fit(X, y)
    with pytest.raises(debias.plugin.CompositionError, match=said):
        debias.score(forest, X, y, "permutation", rows="oob", **options)


@pytest.mark.parametrize("together", [{"a": ["x0"], "b": ["x0"]}, {"a": ["y0"]}, ["x0"]])
def test_wrong_groups_are_refused(oob_forest, together):
    with pytest.raises(debias.RowsError, match="group"):
        debias.score(*oob_forest, "permutation", rows="oob", together=together)


def test_a_seed_that_scikit_learn_does_not_take_is_refused(halves):
    forest = RandomForestRegressor(2, random_state=0).fit(*halves[:2])
    with pytest.raises(debias.plugin.CompositionError, match="2\\*\\*32"):
        debias.score(forest, *halves[2:], "permutation", rows="held-out", random_state=2**32)
    debias.score(forest, *halves[:2], "permutation", rows="oob", random_state=2**32)


def test_a_metric_that_is_not_defined_on_the_rows_is_refused(halves):
    X, y = halves[0], (halves[1] > np.sort(halves[1])[-3]).astype(int)
    forest = RandomForestClassifier(30, random_state=0).fit(X, y)
    if at_least("scikit-learn", "1.6"):
        told = (
            pytest.warns(UserWarning, match="Only one class"),
            pytest.raises(debias.RowsError, match="roc_auc is nan"),
        )
    else:  # an error of scikit-learn
        told = (
            nullcontext(),
            pytest.raises(debias.plugin.CompositionError, match="roc_auc cannot be computed.*Only one class"),
        )
    with told[0], told[1]:
        debias.score(forest, X, y, "permutation", rows="oob", metric="roc_auc")


@pytest.mark.parametrize("settings", [{"objective": "poisson"}, {"reg_sqrt": True}, {"objective": "mae"}])
def test_other_objectives_predict_on_the_scale_of_the_response(halves, models, settings):
    X, y, X_test, y_test = halves
    model = models("lightgbm", n_estimators=10, **settings).fit(X, y)
    ours = debias.score(model, X_test, y_test, "permutation", rows="held-out", n_repeats=1, random_state=1)
    theirs = permutation_importance(
        model, X_test, y_test, scoring="neg_mean_squared_error", n_repeats=1, random_state=1
    )
    np.testing.assert_allclose(ours.values, theirs.importances_mean, atol=1e-8 * np.abs(ours.details["baseline"]))


def test_a_margin_of_each_row_comes_before_the_trees(halves):
    X, y, X_test, y_test = halves
    margin = 30 * X_test[:, 1].astype(float) + 150
    model = XGBRegressor(n_estimators=10, n_jobs=1).fit(X, y, base_margin=30 * X[:, 1].astype(float) + 150)
    found = debias.score(
        model, debias.Dataset(X_test, y_test, base_margin=margin), scorer="permutation", rows="held-out", random_state=0
    )
    expected = -mean_squared_error(y_test, model.predict(X_test, base_margin=margin))
    assert found.details["baseline"] == pytest.approx(expected, rel=1e-5)


# --- p-values by rows ----------------------------------------------------------------------------------


@pytest.mark.parametrize("library", ["sklearn", "xgboost", "lightgbm"])
@pytest.mark.parametrize("metric", ["neg_mean_squared_error", "neg_mean_absolute_error"])
def test_p_values_are_those_of_the_losses_of_rows(halves, models, library, metric):
    X, y, X_test, y_test = halves
    model = models(library).fit(X, y)
    options = {"rows": "held-out", "metric": metric, "n_repeats": 2, "random_state": 11}
    found = debias.score(model, X_test, y_test, "permutation", p_values=True, error="fdr", alpha=0.1, **options)
    shuffler, at, saved = np.random.RandomState(11), np.arange(len(y_test)), np.zeros(X_test.shape)
    generator, shuffling = np.random.RandomState(shuffler.randint(np.iinfo(np.int32).max + 1)), at.copy()
    power = 2 if metric == "neg_mean_squared_error" else 1
    before = np.abs(model.predict(X_test) - y_test) ** power
    rows = at
    for _ in range(2):
        generator.shuffle(shuffling)
        rows = rows[shuffling]
        for k in range(X.shape[1]):
            permuted = X_test.copy()
            permuted[:, k] = X_test[rows, k]
            saved[:, k] += (np.abs(model.predict(permuted) - y_test) ** power - before) / 2
    exact = {"rtol": 1e-3 if library == "xgboost" else 1e-9, "atol": 1e-3 if library == "xgboost" else 1e-9}
    np.testing.assert_allclose(found.values, saved.mean(axis=0), **exact)
    np.testing.assert_allclose(found.standard_error, saved.std(axis=0, ddof=1) / np.sqrt(len(y_test)), **exact)
    plain = debias.score(model, X_test, y_test, "permutation", **options)
    np.testing.assert_array_equal(found.values, plain.values)
    assert plain.p_value is None
    assert "standard_error" not in found.details
    assert found.details["test"]["method"] == "rows"
    assert found.selected.tolist() == (found.p_adjusted <= 0.1).tolist()
    assert debias.Scores.from_json(found.to_json()).p_value.tolist() == found.p_value.tolist()


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("library", ["sklearn", "xgboost", "lightgbm"])
@pytest.mark.parametrize("metric", ["accuracy", "neg_log_loss", "neg_brier_score"])
def test_the_mean_of_the_row_losses_is_the_metric(models, library, metric, n_classes):
    if metric == "neg_brier_score" and n_classes > 2 and not at_least("scikit-learn", "1.7"):
        pytest.skip("the Brier score of several classes came with scikit-learn 1.7")
    X, y = load_iris(return_X_y=True)
    y, test, weight = np.minimum(y, n_classes - 1), np.arange(150) % 3 == 1, np.random.default_rng(0).random(50)
    model = models(library, "classification", n_estimators=5).fit(X[~test], y[~test])
    scores = debias.score(
        model,
        X[test],
        y[test],
        "permutation",
        rows="held-out",
        sample_weight=weight,
        metric=metric,
        random_state=1,
        p_values=True,
        together={"sepal": ["x0", "x1"]} if library == "sklearn" else None,
    )
    z = np.divide(scores.values, scores.standard_error, out=np.zeros(4), where=scores.standard_error > 0)
    np.testing.assert_allclose(scores.z, z, rtol=1e-5, atol=1e-6)  # so the mean of the row losses is the score
    assert scores.p_value.min() < 0.01
    if library == "sklearn":
        assert scores.p_value[0] == scores.p_value[1]


def test_p_values_are_by_block(halves, models):
    X, y, X_test, y_test = halves
    model = models("sklearn").fit(X, y)
    twice = {"X": np.repeat(X_test, 2, axis=0), "y": np.repeat(y_test, 2)}
    shared = {"rows": "held-out", "p_values": True, "random_state": 1, "metric": "neg_mean_squared_error"}
    alone = debias.score(model, X_test, y_test, "permutation", **shared)
    blocks = np.repeat(np.arange(len(y_test)), 2)
    blocked = debias.score(model, debias.Dataset(twice["X"], twice["y"], blocks=blocks), scorer="permutation", **shared)
    assert blocked.details["test"]["n_independent"] == alone.details["test"]["n_independent"] == len(y_test)
    assert blocked.details["test"]["blocks"]
    doubled = debias.score(model, twice["X"], twice["y"], "permutation", **shared)
    assert (doubled.standard_error <= blocked.standard_error).all()


def test_p_values_that_would_be_wrong_are_refused(oob_forest, halves, models):
    forest, X, y = oob_forest
    with pytest.raises(debias.plugin.CompositionError, match=r"out-of-bag rows: .*debias.audit tests mdi_oob"):
        debias.score(forest, X, y, "permutation", rows="oob", p_values=True)
    with (
        pytest.warns(debias.DebiasWarning),
        pytest.raises(debias.RowsError, match="the trees were fitted to these rows"),
    ):
        debias.score(forest, X, y, "permutation", rows="train", p_values=True)
    X_test, y_test = halves[2], (halves[3] > np.median(halves[1])).astype(int)
    for metric in ("roc_auc", make_scorer(accuracy_score), "neg_mean_squared_error"):
        with pytest.raises(
            debias.plugin.CompositionError, match="Use 'accuracy' or 'neg_log_loss' or 'neg_brier_score'"
        ):
            debias.score(forest, X_test, y_test, "permutation", rows="held-out", metric=metric, p_values=True)
    with pytest.raises(debias.plugin.CompositionError, match="p_values must be True or False"):
        debias.score(forest, X_test, y_test, "permutation", rows="held-out", p_values="yes")
    with pytest.raises(debias.plugin.CompositionError, match="alpha must be between 0 and 1"):
        debias.score(forest, X_test, y_test, "permutation", rows="held-out", p_values=True, alpha=2)
    with pytest.raises(debias.plugin.CompositionError, match="cannot test sums .* those of groups="):
        debias.score(
            forest, X_test, y_test, "permutation", rows="held-out", p_values=True, groups={"both": ["x0", "x1"]}
        )


@pytest.mark.slow
def test_correlated_noise_scores_above_0_out_of_bag_and_mdi_oob_does_not():
    """The reason why p-values are refused out of bag, and why docs/choosing.md names this case."""
    means = {"permutation": [], "mdi_oob": []}
    for number in range(40):
        rng = np.random.default_rng([21, number])
        X = np.sqrt(0.95) * rng.normal(size=(200, 1)) + np.sqrt(0.05) * rng.normal(size=(200, 5))
        y = rng.normal(size=200)
        forest = RandomForestRegressor(50, max_features=1 / 3, random_state=number).fit(X, y)
        for name, scores in means.items():
            scores.append(debias.score(forest, X, y, name, rows="oob", random_state=number).values.mean())
    for name, above in (("permutation", True), ("mdi_oob", False)):
        error = np.std(means[name], ddof=1) / np.sqrt(40)
        assert (np.mean(means[name]) > 0.1) == above
        assert above or abs(np.mean(means[name])) < 3 * error
