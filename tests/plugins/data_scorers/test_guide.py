"""GUIDE against hand computations, a plain-Python oracle of the paper's steps, and the paper's simulations."""

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

import debias
from debias_bench.measures import homogeneity
from debias_bench.simulate import loh, loh_missing
from debias_plugins.data_scorers.guide import decide
from support import guide_oracle


def guide(X, y, **options):
    return debias.score(None, X, y, "guide", random_state=0, **options)


def unadjusted(X, y, **options):
    return guide(X, y, adjusted=False, **options).values


def quantile(statistic, df):
    """The chi-square quantile, 1 degree of freedom, at the p-value of a statistic."""
    return stats.chi2.isf(stats.chi2.sf(statistic, df), 1)


def by_oracle(X, y, classes=False, **options):
    categorical = [not pd.api.types.is_numeric_dtype(X[name]) for name in X]
    features = [[None if pd.isna(value) else value for value in X[name]] for name in X]
    return guide_oracle.unadjusted(features, categorical, list(y), classes, **options)


def test_one_node_has_the_score_by_hand():
    """Of 8 rows, 4 have a positive residual: a has them 3:1 and 1:3, chi-square 8 (1/4 each of 4 cells / 2) = 2."""
    X = pd.DataFrame({"a": [0, 0, 0, 0, 1, 1, 1, 1], "b": [0, 1, 0, 1, 0, 1, 0, 1]})
    y = [1, 1, 1, 0, 1, 0, 0, 0]
    # b: positive residuals in rows 0, 1, 2, 4, so b = 0 has 3 of 4 and b = 1 has 1 of 4: chi-square 2 as well.
    found = unadjusted(X, y, levels=1, min_node_size=2, task="regression")
    np.testing.assert_allclose(found, np.sqrt(8) * 2, rtol=1e-12)


def test_a_missing_value_is_a_category_by_hand():
    """Groups of 4 rows: x = 0 with 4 positive residuals, x = 1 with 0, missing with 2 of 4: chi-square 8, 2 df."""
    X = pd.DataFrame({"x": [0.0] * 4 + [1.0] * 4 + [np.nan] * 4})
    y = [1] * 4 + [0] * 4 + [1, 1, 0, 0]
    found = unadjusted(X, y, levels=1, min_node_size=2, task="regression")
    np.testing.assert_allclose(found, np.sqrt(12) * quantile(8, 2), rtol=1e-12)


def test_groups_are_three_below_sixty_rows_and_four_from_there_on():
    for n, groups in ((57, 3), (60, 4)):
        x = np.arange(n)
        y = np.random.default_rng(n).normal(size=n)
        table = pd.crosstab(x * groups // n, y > y.mean())
        statistic = stats.chi2_contingency(table, correction=False).statistic
        found = unadjusted(pd.DataFrame({"x": x}), y, levels=1)
        np.testing.assert_allclose(found, np.sqrt(n) * quantile(statistic, groups - 1), rtol=1e-9)


def exclusive_or(n_each):
    """y is the parity of a and b, neither of which says anything alone; c is noise that is balanced throughout."""
    a, b, c = (np.repeat(np.arange(8) >> bit & 1, n_each) for bit in range(3))
    return pd.DataFrame({"c": c, "a": a, "b": b}), (a ^ b).astype(float)


def test_step_6_gives_a_pair_its_p_value_by_hand():
    """The pair's 2 x 4 table is perfect: chi-square n with 3 df, below 0.20 / (3 x 2); alone, chi-square is 0."""
    X, y = exclusive_or(4)
    found = unadjusted(X, y, levels=1)
    np.testing.assert_allclose(found, [0, *[np.sqrt(32) * quantile(32, 3)] * 2], rtol=1e-9, atol=1e-12)


def test_step_6_is_skipped_where_a_feature_is_significant():
    """d says enough alone (p < 0.10 / 4), so the interaction of a and b goes untested."""
    X, y = exclusive_or(4)
    d = y.copy()
    d[[0, 5, 10, 15, 20, 25]] = 1 - d[[0, 5, 10, 15, 20, 25]]
    X = X.assign(d=d)
    table = pd.crosstab(d, y)
    statistic = stats.chi2_contingency(table, correction=False).statistic
    assert stats.chi2.sf(statistic, 1) < 0.10 / 4
    alone = [stats.chi2_contingency(pd.crosstab(X[name], y), correction=False).statistic for name in X]
    expected = [np.sqrt(32) * quantile(each, 1) for each in alone]
    np.testing.assert_allclose(unadjusted(X, y, levels=1), expected, rtol=1e-9, atol=1e-12)


def test_step_6_needs_the_second_bonferroni_level():
    """With 8 rows of exclusive or the pair has chi-square 8 and p = 0.046: above 0.20 / 6, so it changes nothing."""
    X, y = exclusive_or(1)
    assert stats.chi2.sf(8, 3) > 0.20 / 6
    np.testing.assert_allclose(unadjusted(X, y, levels=1, min_node_size=2), 0, atol=1e-12)


def mixed(n, seed, missing=True):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "number": rng.normal(size=n),
            "holes": np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n)) if missing else rng.normal(size=n),
            "whole": rng.integers(0, 6, n),
            "rare": (rng.random(n) < 0.1).astype(int),
            "skewed": rng.geometric(0.6, n),
            "text": rng.choice(list("abcdefg"), n),
            "text with holes": np.where(rng.random(n) < 0.2, None, rng.choice(list("pqr"), n)),
            "missing": np.nan,
            "constant": "same",
        }
    )
    signal = X["number"] + (X["whole"] > 2) * (X["text"] < "d") + X["holes"].isna()
    return X, 0.4 * signal + rng.normal(size=n), rng


@pytest.mark.parametrize(("n", "seed"), [(40, 0), (40, 1), (40, 2), (150, 0), (150, 1), (400, 2)])
def test_regression_scores_are_the_oracles(n, seed):
    X, y, _ = mixed(n, seed)
    found = unadjusted(X, y)
    np.testing.assert_allclose(found, by_oracle(X, y), rtol=1e-8, atol=1e-9)
    assert (found[-2:] == 0).all()


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("seed", range(4))
def test_classification_scores_are_the_oracles(n_classes, seed):
    X, y, rng = mixed(200, seed)
    codes = np.clip(np.floor(y + rng.integers(0, 2, 200) + 1), 0, n_classes - 1).astype(int)
    labels = np.array(list("zyxwv"))[codes]  # in another order
    y = labels if seed % 2 else codes
    np.testing.assert_allclose(unadjusted(X, y), by_oracle(X, y, classes=True), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("options", [{"levels": 2}, {"min_node_size": 15}, {"levels": 6, "min_node_size": 1}])
def test_options_of_the_tree_are_the_oracles(options):
    X, y, _ = mixed(120, 7)
    np.testing.assert_allclose(unadjusted(X, y, **options), by_oracle(X, y, **options), rtol=1e-8, atol=1e-9)


@pytest.mark.thorough
def test_noise_that_triggers_interactions_is_the_oracles():
    rng = np.random.default_rng(2)
    for seed in range(5):
        X = mixed(150, seed, missing=seed % 2 == 0)[0]
        y = rng.normal(size=150)
        np.testing.assert_allclose(unadjusted(X, y), by_oracle(X, y), rtol=1e-8, atol=1e-9)


def test_tables_of_pairs_too_large_to_hold_are_counted_all_the_same():
    """Two features of 260 categories have 2 x 67,600 cells, which are counted by sorted keys."""
    rng = np.random.default_rng(0)
    names = [f"{each:03}" for each in range(260)]
    X = pd.DataFrame({"u": rng.permutation(names * 2), "v": rng.permutation(names * 2), "w": rng.normal(size=520)})
    y = rng.normal(size=520)
    found = unadjusted(X, y, levels=1)
    np.testing.assert_allclose(found, by_oracle(X, y, levels=1), rtol=1e-8, atol=1e-9)


def test_the_adjusted_score_is_the_ratio_to_the_mean_over_the_permuted_responses():
    drawn = loh_missing("E1", 120, seed=0)
    found = guide(drawn.X, drawn.y, replicates=40, alpha=0.1)
    data = debias.plugin.Data.of(drawn.X, drawn.y)
    scorer = debias.plugin.scorer("guide(adjusted=False)")
    rngs = [np.random.default_rng(each) for each in np.random.SeedSequence(0).spawn(40)]
    null = np.array([scorer.score(data.with_response(rng.permutation(drawn.y)))[0] for rng in rngs])
    own = scorer.score(data)[0]
    np.testing.assert_array_equal(found.details["unadjusted"], own)
    np.testing.assert_allclose(found.details["null_mean"], null.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.values, own / null.mean(axis=0), rtol=1e-12)
    assert found.details["critical"] == np.sort(null.max(axis=1))[36]  # the 37th of 40: 37 / 41 is the first above 0.9


def test_the_threshold_is_half_way_between_the_last_important_score_and_the_next():
    importance, own = np.array([3.0, 1.0, 8.0, 5.0]), np.array([20.0, 9.0, 80.0, 60.0])
    important, threshold = decide(importance, own, critical=30.0)
    assert (important.tolist(), threshold) == ([False, False, True, True], 4.0)


def test_the_threshold_where_none_or_all_are_important():
    importance, own = np.array([3.0, 1.0, 8.0]), np.array([20.0, 9.0, 80.0])
    important, threshold = decide(importance, own, critical=160.0)
    assert (important.any(), threshold) == (False, 16.0)
    important, threshold = decide(importance, own, critical=4.5)
    assert (important.all(), threshold) == (True, 0.5)
    important, threshold = decide(np.zeros(2), np.zeros(2), critical=1.0)
    assert (important.any(), threshold) == (False, 0.0)


def test_importance_and_normalized_scores_agree_on_what_is_important():
    drawn = loh("E1", seed=3)
    found = guide(drawn.X, drawn.y + 0.2 * drawn.X["N2"], replicates=60)
    important = found.selected
    assert important.any()
    assert not important.all()
    np.testing.assert_array_equal(np.array(found.details["normalized"]) >= 1, important)
    assert set(np.array(found.feature_names)[important]) <= {"N2", "N3", "N4"}
    last, following = np.sort(found.values)[::-1][important.sum() - 1 :][:2]
    assert found.threshold == (last + following) / 2
    np.testing.assert_array_equal(debias.Scores.from_json(found.to_json()).selected, important)


def test_threads_and_repeats_do_not_change_a_number():
    drawn = loh_missing("E5", 200, seed=1)
    one, two = (debias.score(None, drawn.X, drawn.y, "guide", replicates=20, random_state=5, n_jobs=n) for n in (1, 2))
    np.testing.assert_array_equal(one.values, two.values)
    other = debias.score(None, drawn.X, drawn.y, "guide", replicates=20, random_state=6)
    assert (one.values != other.values).any()


def test_the_task_follows_y_the_model_or_the_option(models):
    X, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 3
    assert guide(X, y, adjusted=False).details["task"] == "classification"
    assert guide(X, y, adjusted=False, task="regression").details["task"] == "regression"
    forest = models("sklearn", n_estimators=3).fit(X, y)
    with_model = debias.score(forest, X, y, "guide", adjusted=False)
    assert with_model.details["task"] == "regression"
    np.testing.assert_array_equal(with_model.values, unadjusted(X, y, task="regression"))
    np.testing.assert_array_equal(unadjusted(X, y.astype(float), task="regression"), with_model.values)


def test_very_strong_features_are_told_apart_beyond_the_smallest_float():
    """The p-values at the root are below 1e-308; their quantiles are finite and in order."""
    n = 6000
    x = np.arange(n) / n
    noise = np.random.default_rng(0).permutation(n) < n / 50
    y = np.where(x < 0.5, 0.0, 1.0)
    found = unadjusted(pd.DataFrame({"x": x, "blurred": np.where(noise, 1 - x, x)}), y, levels=1, task="regression")
    assert np.isfinite(found).all()
    assert found[0] > found[1] > np.sqrt(n) * 1400
    # Chi-square is n with 3 degrees of freedom, whose tail is erfc(sqrt(n / 2)) + sqrt(2 n / pi) exp(-n / 2).
    log_p = np.logaddexp(np.log(2) + special.log_ndtr(-np.sqrt(n)), 0.5 * np.log(2 * n / np.pi) - n / 2)
    np.testing.assert_allclose(found[0], np.sqrt(n) * special.ndtri_exp(log_p - np.log(2)) ** 2, rtol=1e-9)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"y": np.ones(20), "task": "regression"}, debias.RowsError, "y is 1 in every row"),
        ({"y": ["a"] * 20}, debias.RowsError, "one class only, a"),
        (
            {"X": np.eye(1200)[:, :2], "y": [f"{k}" for k in range(1200)]},
            debias.RowsError,
            "y has 1200 classes; if they are numbers, pass task='regression'",
        ),
        ({"y": list("ab") * 10, "task": "regression"}, debias.RowsError, "not numeric"),
        ({"X": np.eye(9), "y": np.arange(9.0)}, debias.RowsError, "guide needs 10 rows for one split, but there are 9"),
        ({"sample_weight": np.ones(20)}, debias.RowsError, "takes no sample_weight"),
        ({"groups": {"a": ["x0", "x1"]}}, debias.plugin.CompositionError, "cannot be summed over the columns"),
        ({"task": "ranking"}, debias.plugin.CompositionError, "task='ranking' is not one of"),
        ({"replicates": 0}, debias.plugin.CompositionError, "replicates=0"),
        (
            {"replicates": 10},
            debias.plugin.CompositionError,
            "with 10 permuted responses alpha=0.05 must be from 0.0909",
        ),
        ({"alpha": 1}, debias.plugin.CompositionError, "alpha=1"),
        ({"levels": 0}, debias.plugin.CompositionError, "levels=0"),
        ({"min_node_size": True}, debias.plugin.CompositionError, "min_node_size=True"),
    ],
)
def test_wrong_use_is_refused(given, error, message):
    with pytest.raises(error, match=message):
        debias.score(**({"model": None, "X": np.eye(20), "y": np.arange(20) * 0.5, "scorer": "guide"} | given))


def test_what_says_nothing_has_importance_zero_and_an_identifier_is_noise():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"constant": [1] * 40, "missing": [np.nan] * 40, "id": [f"{each}" for each in range(40)]})
    X["unused"] = pd.Categorical(rng.choice(list("ab"), 40), categories=list("abcdefgh"))
    X["number"] = rng.normal(size=40)
    found = guide(X, X["number"] + rng.normal(size=40), replicates=30)
    np.testing.assert_array_equal(found.values[:2], 0)
    assert np.isfinite(found.values).all()
    assert found.feature_names[found.values.argmax()] == "number"


def test_one_feature_and_ten_rows_are_enough():
    found = guide(pd.DataFrame({"x": range(10)}), np.arange(10.0), replicates=19)
    assert found.values[0] > 1


# The paper's simulations, section 4 and 7.


@pytest.mark.slow
@pytest.mark.parametrize("make", [loh, loh_missing])
def test_importance_of_noise_is_the_same_for_every_kind_of_feature(make):
    drawn = make("E0", seed=0)
    rng = np.random.default_rng(1)
    trials = [guide(drawn.X, rng.permutation(drawn.y), replicates=100).values for _ in range(300)]
    # Trials share the design X and have permuted responses of their own, as in the paper's figure 2. The null means
    # of eq. 2 are drawn anew in each.
    assert homogeneity(np.array(trials)) > 0.001
    plain = np.array([unadjusted(drawn.X, rng.permutation(drawn.y)) for _ in range(1000)])
    assert homogeneity(plain) < 0.001  # without the adjustment they differ, so the test can fail


@pytest.mark.slow
@pytest.mark.parametrize("model", ["E1", "E2", "E3", "E4", "E5"])
def test_relevant_features_have_the_highest_medians(model):
    """As in figures 4 to 8; in E2, E4 and E5 the weakest relevant feature leads by about the error of 400 draws."""
    draws = [loh(model, seed=seed) for seed in range(400)]
    scores = np.array([guide(each.X, each.y, replicates=40).values for each in draws])
    relevant = draws[0].is_relevant

    def gap(rows):
        medians = np.median(scores[rows], axis=0)
        return medians[relevant].min() - medians[~relevant].max()

    rng = np.random.default_rng(0)
    error = np.std([gap(rng.integers(0, 400, 400)) for _ in range(200)])
    assert gap(slice(None)) > (0 if model in ("E1", "E3") else -2 * error)
    ahead = scores[:, relevant].mean(axis=1) - scores[:, ~relevant].mean(axis=1)
    assert ahead.mean() > 3 * ahead.std() / np.sqrt(400)


@pytest.mark.slow
def test_the_chance_of_calling_any_noise_important_is_alpha():
    drawn = [loh("E0", seed=seed) for seed in range(300)]
    wrong = np.mean([guide(each.X, each.y, replicates=99).selected.any() for each in drawn])
    assert wrong < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 300)
