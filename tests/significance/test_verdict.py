"""Tests of the verdicts of audits, and of requests that are refused."""

from __future__ import annotations

import json
import warnings
from typing import get_args

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, kurtosis, t
from sklearn.ensemble import BaggingRegressor, ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor
from xgboost import XGBRegressor

import debias
from debias.significance import procedure
from debias.significance.procedure import METHODS, TestName
from support.missing_values import needs_them_in_forests

pytestmark = pytest.mark.filterwarnings("ignore:about .* rows (are|may be) training rows:debias.DebiasWarning")


@pytest.fixture(scope="module")
def data():
    """Two relevant features, two of noise and one that is constant, so that no tree uses it."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(240, 5)), columns=["strong", "weak", "noise", "values", "constant"])
    X["values"] = rng.integers(0, 3, 240)
    X["constant"] = 1.0
    return X, 2 * X["strong"] + 0.7 * X["weak"] + rng.normal(size=240)


@pytest.fixture(scope="module")
def forest(data):
    return RandomForestRegressor(60, random_state=0, min_samples_leaf=3).fit(*data)


@pytest.fixture(scope="module")
def audit(forest, data):
    return debias.audit(forest, *data, random_state=0)


@pytest.mark.quick
def test_verdicts_tell_signal_from_noise(audit):
    verdict = audit.to_frame()["verdict"]
    assert verdict["strong"] == verdict["weak"] == "informative"
    assert set(verdict[["noise", "values", "constant"]]) == {"indistinguishable"}
    noise = audit.to_frame().loc[verdict == "indistinguishable", "reported"].sum()
    assert audit.unsupported_share == pytest.approx(noise)
    assert f"they have {noise:.1%} of the reported importance" in audit.test_summary()
    assert (audit.to_frame()["p_adjusted"] >= audit.to_frame()["p_value"]).all()


def test_a_feature_no_tree_uses_has_z_0_and_p_1(audit):
    row = audit.to_frame().loc["constant"]
    assert (row["mdi_oob"], row["standard_error"], row["z"], row["p_value"], row["p_adjusted"]) == (0, 0, 0, 1, 1)


def test_the_minimum_detectable_z_is_where_single_step_p_crosses_alpha(audit):
    scores = audit.tested_scores
    largest = scores.null.max(axis=1)
    above = (1 + (largest >= scores.threshold * (1 + 1e-6)).sum()) / (1 + len(largest))
    below = (1 + (largest >= scores.threshold * (1 - 1e-6)).sum()) / (1 + len(largest))
    assert above <= 0.05 < below


def test_an_audit_with_its_null_survives_json(audit, tmp_path):
    again = debias.Audit.from_json(audit.to_json(draws=tmp_path / "draws.npz"), draws=tmp_path / "draws.npz")
    np.testing.assert_array_equal(again.tested_scores.null, audit.tested_scores.null)
    pd.testing.assert_frame_equal(again.to_frame(), audit.to_frame())
    assert json.loads(audit.to_json())["unsupported_share"] == audit.unsupported_share


def test_without_a_test_everything_is_untested(forest, data):
    audit = debias.audit(forest, *data, test=None)
    assert set(audit.to_frame()["verdict"]) == {"untested"}
    assert audit.to_frame()["p_value"].isna().all()
    assert audit.unsupported_share is None
    assert audit.tested_scores.standard_error is None
    with pytest.raises(debias.DebiasError, match="without standard errors"):
        audit.tested_scores.interval()


@pytest.mark.filterwarnings("ignore:these are scores on training rows:debias.DebiasWarning")
def test_training_rows_are_not_tested(data):
    X, y = data
    audit = debias.audit(XGBRegressor(n_estimators=5).fit(X, y), X, y, rows="train")
    assert set(audit.to_frame()["verdict"]) == {"untested"}
    with pytest.raises(debias.RowsError, match="training rows cannot be tested"):
        debias.score(XGBRegressor(n_estimators=5).fit(X, y), X, y, rows="train", test="auto")


def test_score_is_tested_on_request_and_as_the_audit_is(forest, data, audit):
    assert debias.score(forest, *data).z is None
    scores = debias.score(forest, *data, test="auto", random_state=0)
    np.testing.assert_array_equal(scores.z, audit.tested_scores.z)
    assert list(scores.to_frame()) == ["mdi_oob", "standard_error", "z", "p_value", "p_adjusted", "selected"]


def test_the_naive_test_gives_larger_z_than_the_conservative_one(forest, data):
    found = debias.score(forest, *data, test="conservative")
    with pytest.warns(debias.DebiasWarning, match="too many"):
        naive = debias.score(forest, *data, test="naive")
    from scipy.stats import t

    used = naive.z != 0
    # Beside the factor the conservative one has the correction for small nodes, of between 1 and sqrt(2).
    assert (np.abs(naive.z[used]) >= np.abs(found.z[used]) * np.sqrt(2)).all()
    assert (np.abs(naive.z[used]) <= np.abs(found.z[used]) * 2).all()
    freedom = np.array(naive.details["test"]["effective_rows"]) - 1
    assert ((freedom > 2) & (freedom <= 239))[used].all()
    np.testing.assert_allclose(naive.p_value[used], t.sf(naive.z[used], freedom[used]), rtol=1e-4)
    # From the threshold on a feature is found whichever it is; the constant one is no test.
    np.testing.assert_allclose(t.sf(naive.threshold, freedom[used].min()), 0.05 / 4, rtol=1e-4)
    assert used.sum() == 4
    assert found.null is None


def test_intervals_are_those_of_student(audit):
    """With the number of rows less one as degrees of freedom; held out, with the effective number of rows or blocks."""
    freedom = audit.tested_scores.n_rows - 1
    interval = audit.tested_scores.interval(0.9)
    np.testing.assert_allclose(interval.mean(axis=1), audit.tested_scores.values)
    np.testing.assert_allclose(
        interval["upper"] - audit.tested_scores.values, t.ppf(0.95, freedom) * audit.tested_scores.standard_error
    )
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 3)), rng.normal(size=150)
    model = ExtraTreesRegressor(10, min_samples_leaf=5, random_state=0).fit(X[:90], y[:90])
    in_blocks = debias.Dataset(X[90:], y[90:], blocks=np.arange(60) // 5)
    scores = debias.audit(model, in_blocks, rows="held-out").tested_scores
    reach = scores.interval()["upper"] - scores.values
    of_blocks = debias.contributions(model, in_blocks, rows="held-out").groupby(np.arange(60) // 5).sum()
    effective = 12 / np.maximum(kurtosis(of_blocks) + 1, 1)
    # The contributions that make errors are larger by n / (n - 1) in nodes of n rows, so the numbers differ a little.
    np.testing.assert_allclose(reach, t.ppf(0.975, np.maximum(effective - 1, 1)) * scores.standard_error, rtol=0.02)
    assert effective.min() < 5  # the others have 11 degrees of freedom, or nearly
    with pytest.raises(debias.DebiasError, match="between 0 and 1"):
        audit.tested_scores.interval(95)


def test_drawing_stops_once_every_verdict_is_settled():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(100, 3)), rng.normal(size=100)
    forest = RandomForestRegressor(30, random_state=0).fit(X, y)
    early = debias.audit(forest, X, y, random_state=0, test=debias.Permutation(999)).tested_scores
    full = debias.audit(forest, X, y, random_state=0, test=debias.Permutation(999, adaptive=False)).tested_scores
    assert early.details["test"]["stopped"] == "settled"
    assert len(early.null) < 300 < len(full.null) == 999
    np.testing.assert_array_equal(early.null, full.null[: len(early.null)])
    np.testing.assert_array_equal(early.selected, full.selected)


def test_the_minimum_detectable_z_is_known_where_drawing_stops_early():
    """Where nothing is found it is what tells how much could have been."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, 3)), rng.integers(0, 2, 60)
    forest = RandomForestClassifier(10, random_state=0).fit(X, y)
    for error in ("fwer", "fdr"):
        found = debias.audit(
            forest, X, y, random_state=0, error_rate=(error, 0.05), test=debias.Permutation(999)
        ).tested_scores
        assert found.details["test"]["stopped"] == "settled"
        assert found.threshold == np.sort(found.null.max(axis=1))[-int(0.05 * (1 + len(found.null)))]


def test_without_early_stopping_p_values_rest_on_all_draws(forest, data):
    found = debias.audit(
        forest, *data, random_state=0, test=debias.Permutation(399, adaptive=False), error_rate=("fdr", 0.05)
    ).tested_scores
    assert set(found.details["test"]["draws_used"]) == {399}
    np.testing.assert_allclose(found.p_value, (1 + (found.null >= found.z).sum(axis=0)) / 400)


def test_leaves_that_are_no_means_have_p_values_but_no_standard_errors(data):
    X, y = data
    medians = RandomForestRegressor(20, random_state=0, criterion="absolute_error", max_depth=4).fit(X, y)
    audit = debias.audit(medians, X, y, random_state=0)
    assert audit.to_frame().loc["strong", "verdict"] == "informative"
    assert audit.tested_scores.standard_error is None
    assert debias.Audit.from_json(audit.to_json()).tested_scores.standard_error is None
    with pytest.raises(debias.DebiasError, match="leaves hold no means of y"):
        audit.tested_scores.interval()


def test_error_rates_are_told_as_they_were_asked_for(forest, data):
    audit = debias.audit(forest, *data, error_rate=0.025, test="conservative", dependence=False)
    assert "Test: conservative standard errors, family-wise error rate 2.5%" in audit.test_summary()


def test_false_discoveries_rest_on_sequential_p_values(forest, data):
    found = debias.audit(
        forest, *data, random_state=0, test=debias.Permutation(999), error_rate=("fdr", 0.05)
    ).tested_scores
    test = found.details["test"]
    used = np.array(test["draws_used"])
    assert used.min() < used.max() == test["n_permutations"]
    for k, (p, n) in enumerate(zip(found.p_value, used, strict=True)):
        above = int((found.null[:n, k] >= found.z[k] - 1e-9 * abs(found.z[k])).sum())
        assert p == (20 / n if above == 20 else (1 + above) / (1 + n))
    from scipy.stats import false_discovery_control

    used = found.z != 0
    np.testing.assert_allclose(found.p_adjusted[used], false_discovery_control(found.p_value[used]))
    assert found.p_adjusted[~used].tolist() == [1]  # the constant column


def test_a_budget_ends_the_test_and_what_was_drawn_counts(forest, data):
    with pytest.warns(debias.DebiasWarning, match=r"budget ended the test after 15 permutations"):
        found = debias.audit(forest, *data, random_state=0, test=debias.Permutation(budget=1e-9)).tested_scores
    assert found.details["test"]["stopped"] == "budget"
    assert len(found.null) == 15


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"test": "bootstrap"}, "test='bootstrap' is not one of"),
        ({"test": "combined"}, "an audit makes it with dependence=True"),
        ({"test": debias.Permutation}, "is not one of"),
        ({"dependence": "yes"}, "dependence='yes' must be"),
        ({"test": None, "dependence": True}, "leave one of the two out"),
        ({"error_rate": ("bonferroni", 0.05)}, "error_rate=.* is not an error rate: pass a number between 0 and 1"),
        ({"error_rate": "fdr"}, "a method .* and a number, such as"),
        ({"error_rate": 1.5}, "is not an error rate"),
        ({"error_rate": ("fdr", "0.05")}, "is not an error rate"),
        ({"test": debias.Permutation(10)}, r"pass test=debias\.Permutation\(n_permutations=19\), or more"),
        ({"test": debias.Permutation(20), "error_rate": ("fdr_by", 0.05)}, "cannot call any feature"),
        ({"groups": ["strong"]}, "groups must be a mapping"),
        ({"groups": {"g": ["stron"]}}, "Did you mean 'strong'"),
        ({"groups": {"g": ["weak"], "h": []}}, "group 'h' has no columns"),
        ({"groups": {"g": ["weak"], "h": ["weak"]}}, "is in the groups 'g' and 'h'"),
        ({"groups": {"noise": ["weak"]}}, "rename the group"),
    ],
)
def test_wrong_use_is_refused(forest, data, given, message):
    with pytest.raises((debias.plugin.CompositionError, debias.RowsError), match=message):
        debias.audit(forest, *data, **given)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"budget": "1"}, "seconds above 0"),
        ({"budget": 0}, "seconds above 0"),
        ({"n_permutations": 0}, "whole number, 1 or more"),
        ({"adaptive": "no"}, "adaptive must be True or False"),
    ],
)
def test_limits_of_permutations_that_are_none_are_refused(limits, message):
    with pytest.raises(debias.plugin.CompositionError, match=message):
        debias.Permutation(**limits)


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        (np.zeros(240), "all rows are in one block"),
        (np.zeros(3), "one label per row"),
        ([None, *range(239)], "no label in row 0"),
        (np.r_[0, 0, 0, np.arange(3, 240)], "Hold out whole blocks"),
    ],
)
def test_blocks_that_cannot_be_tested_are_refused(forest, data, blocks, message):
    with pytest.raises((debias.plugin.CompositionError, debias.RowsError), match=message):
        debias.audit(forest, debias.Dataset(*data, blocks=blocks))


def test_what_is_no_sum_over_rows_has_no_test(forest, data):
    for scorer in ("ufi", "oob_loss", "mdi", "mdi_oob(centre='none')"):
        with pytest.raises(debias.plugin.CompositionError, match="no (contributions of rows|rows, so)"):
            debias.score(forest, *data, scorer, test="auto")
    with pytest.raises(debias.plugin.CompositionError, match="no contributions"):
        debias.contributions(forest, *data, scorer="oob_split")


def test_conservative_is_for_out_of_bag_rows(forest, data):
    X, y = data
    with pytest.raises(debias.plugin.CompositionError, match="test='naive'"):
        debias.score(forest, X + 0.01, y, rows="held-out", test="conservative")


def test_few_permutations_are_warned_of_under_false_discovery(forest, data):
    with pytest.warns(debias.DebiasWarning, match="features informative, or none"):
        debias.audit(forest, *data, error_rate=("fdr", 0.05), test=debias.Permutation(30))


def test_groups_add_up_in_every_column(forest, data):
    groups = {"signal": ["strong", "weak"], "rest": ["noise", "values", "constant"]}
    alone = debias.audit(forest, *data, random_state=0)
    audit = debias.audit(forest, *data, groups=groups, random_state=0)
    assert list(audit.tested_scores.feature_names) == ["signal", "rest"]
    for name in ("reported", "mdi_oob", "oob_loss"):
        expected = alone.to_frame().loc[["strong", "weak"], name].sum()
        assert audit.to_frame().loc["signal", name] == pytest.approx(expected)
    assert audit.to_frame().loc["signal", "verdict"] == "informative"


def test_a_row_is_out_of_bag_only_if_its_block_is(forest, data):
    X, y = data
    blocks = np.arange(240) % 120  # rows i and i + 120
    inside = np.stack([np.bincount(s, minlength=240) > 0 for s in forest.estimators_samples_])
    together = inside | np.roll(inside, 120, axis=1)
    phi = debias.contributions(forest, debias.Dataset(X, y, blocks=blocks)).to_numpy()
    never = together.all(axis=0)
    assert not phi[never].any()
    assert (phi[~never] != 0).any(axis=1).mean() > 0.9
    np.testing.assert_allclose(
        phi.sum(axis=0), debias.score(forest, debias.Dataset(X, y, blocks=blocks)).values, atol=1e-12
    )


def test_few_blocks_out_of_bag_are_tested_conservatively():
    """Of 400 rows in clusters of five about half a cluster is out of bag: permutations are refused then."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 3)), rng.normal(size=400)
    forest = RandomForestRegressor(40, random_state=0).fit(X, y)
    blocks = np.arange(400) // 5
    with pytest.warns(debias.DebiasWarning, match=r"a tree has 0\.\d+ whole blocks out of bag .* has little power"):
        audit = debias.audit(forest, debias.Dataset(X, y, blocks=blocks))
    assert audit.tested_scores.details["test"]["method"] == "conservative"
    with pytest.raises(debias.RowsError, match=r"less than 5\. Permutations are not calibrated then.*conservative"):
        debias.score(forest, debias.Dataset(X, y, blocks=blocks), test="permutation")


def bagged_trees(seed, n_features=3, depth=3):
    """Return trees of which each saw 90 % of 100 rows of noise, and the rows."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(100, n_features)), rng.normal(size=100)
    tree = DecisionTreeRegressor(max_depth=depth)
    return BaggingRegressor(tree, 30, max_samples=0.9, bootstrap=False, random_state=seed).fit(X, y), X, y


def test_large_bags_are_tested_conservatively():
    bagged, X, y = bagged_trees(0)
    with pytest.warns(debias.DebiasWarning, match=r"the bag of a tree has 90% of the rows, .* has little power"):
        audit = debias.audit(bagged, X, y, rows="oob")
    assert audit.tested_scores.details["test"]["method"] == "conservative"
    assert set(audit.to_frame()["dependence"]) == {"untested"}
    assert any("linear effects are not tested out of bag: hold out rows" in text for text in audit.summary())
    with pytest.raises(debias.RowsError, match=r"more than 68%: all trees .* not calibrated then.*conservative"):
        debias.score(bagged, X, y, rows="oob", test="permutation")
    small = BaggingRegressor(bagged.estimator, 30, max_samples=0.6, bootstrap=False, random_state=0).fit(X, y)
    assert debias.audit(small, X, y, rows="oob").tested_scores.details["test"]["method"] == "permutation"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::debias.DebiasWarning")
@pytest.mark.parametrize(("n_features", "depth"), [(3, 2), (10, 1), (50, 1), (200, 3)])
def test_noise_is_found_with_large_bags_no_more_often_than_the_error_rate(n_features, depth):
    """By permutations it was found in .10, .15, .15 and .22 of such data sets."""
    found = 0
    for seed in range(150):
        bagged, X, y = bagged_trees(seed, n_features, depth)
        found += bool(debias.audit(bagged, X, y, rows="oob", dependence=False).tested_scores.selected.any())
    assert found <= binom.ppf(0.999, 150, 0.05)


def test_blocks_with_the_same_responses_in_the_same_order_are_not_permuted():
    # Matched pairs, the case first: each permutation of the pairs gives the response itself.
    X = np.random.default_rng(0).normal(size=(200, 3))
    pairs, case_first = np.arange(200) // 2, np.tile([1, 0], 100)
    model = RandomForestClassifier(5, random_state=0).fit(X, case_first)
    fresh = np.random.default_rng(1).normal(size=(200, 3))
    matched = debias.Dataset(fresh, case_first, blocks=pairs)
    with pytest.raises(debias.RowsError, match="same responses in the same order.* test='naive'"):
        debias.audit(model, matched, rows="held-out", test="permutation")
    assert debias.audit(model, matched, rows="held-out").tested_scores.details["test"]["draws"] == "random signs"
    case_first[:2] = 0, 1
    debias.audit(model, matched, rows="held-out", test="permutation")


def test_blocks_of_which_none_is_out_of_bag_are_refused():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 3)), rng.normal(size=400)
    forest = RandomForestRegressor(20, random_state=0).fit(X, y)
    message = "no tree has a whole block out of bag, so there is nothing to evaluate on: blocks have 20 rows. Train on"
    with pytest.raises(debias.RowsError, match=message):
        debias.audit(forest, debias.Dataset(X, y, blocks=np.arange(400) // 20))
    with pytest.raises(debias.RowsError, match="blocks have 50 to 350 rows"):
        debias.score(forest, debias.Dataset(X, y, blocks=np.arange(400) < 50), test="conservative")


def repeats(X, y, times):
    return np.repeat(X, times, axis=0), np.repeat(y, times)


@pytest.mark.filterwarnings("ignore:consecutive rows are alike:debias.DebiasWarning")
@pytest.mark.parametrize("times", [2, 5])
@pytest.mark.parametrize("kind", ["continuous", "mixed", "rounded"])
def test_repeated_rows_are_warned_of(kind, times):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 4))
    if kind == "mixed":
        X[:, 1:] = rng.integers(0, 2, (100, 3))
    if kind == "rounded":
        X = np.round(100 * X)
    X, y = repeats(X, rng.normal(size=100), times)
    forest = RandomForestRegressor(5, random_state=0).fit(X, y)
    with pytest.warns(debias.DebiasWarning, match="repeat the values of another row"):
        debias.audit(forest, X, y, test=debias.Permutation(19))


@pytest.mark.parametrize(
    "kind",
    [
        *("categories", "counts", "twins", "one rounded", "heaped", "derived", "zeros"),
        pytest.param("missing", marks=needs_them_in_forests),
    ],
)
def test_legitimate_equal_rows_are_not_warned_of(kind):
    rng = np.random.default_rng(0)
    n = 400
    X = rng.integers(0, 4, (n, 3)).astype(float)
    if kind == "counts":
        X = rng.poisson(30, (n, 2)).astype(float)
    if kind == "twins":  # the same column in two units
        X = np.round(rng.normal(size=n), 2)[:, None] * [1, 1.8]
    if kind == "one rounded":
        X = np.column_stack([np.round(rng.normal(size=n), 2), X])
    if kind == "heaped":  # amounts that people round, some to a thousand, some to a hundred, and a few not at all
        unit = rng.choice([1, 100, 1000], n, p=[0.1, 0.3, 0.6])
        X = np.column_stack([np.round(rng.normal(50000, 15000, n) / unit) * unit, X])
    if kind == "derived":
        age = rng.integers(18, 90, n).astype(float)
        X = np.column_stack([age, age**2, np.sqrt(age), X])
    if kind in ("zeros", "missing"):  # of one fine column, beside others that tell nothing or everything
        X = np.column_stack([rng.normal(size=(n, 2)), X])
        X[rng.random(n) < 0.3, 0] = 0 if kind == "zeros" else np.nan
    y = rng.integers(0, 2, n)
    forest = RandomForestClassifier(5, random_state=0).fit(X, y)
    audit = debias.audit(forest, X, y, test=debias.Permutation(19))  # warnings are errors here
    assert not audit.tested_scores.details["test"]["blocks"]


@pytest.mark.thorough
def test_the_mirrored_null_needs_many_scores_that_are_not_positive():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 250)), None
    y = X[:, 0] + 0.3 * rng.normal(size=300)
    forest = RandomForestRegressor(40, random_state=0, max_features=0.3).fit(X, y)
    scores = debias.score(forest, X, y).mirrored()
    assert scores.p_value.argmin() == 0
    assert scores.p_value.min() > 0
    assert scores.selected[0]
    assert not any("mirrored null is coarse" in note for note in scores.warnings)
    few = debias.score(forest, X, y, groups={"rest": [f"x{k}" for k in range(20, 250)]}).mirrored()
    assert "mirrored null is coarse" in few.warnings[-1]


@pytest.mark.parametrize(("balanced", "test"), [(True, "permutation"), (True, "auto"), (False, "permutation")])
def test_weights_that_follow_the_response_are_warned_of(balanced, test):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 3)), (rng.random(400) < 0.1).astype(int)
    weight = np.where(y == 1, 9.0, 1.0) if balanced else rng.uniform(0.5, 2, size=400)
    model = RandomForestClassifier(20, random_state=0).fit(X[:200], y[:200])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        given = {"rows": "held-out", "sample_weight": weight[200:], "random_state": 0, "test": test}
        debias.audit(model, X[200:], y[200:], **given)
    warned = any("depend on their response" in str(one.message) for one in caught)
    assert warned == (balanced and test == "permutation")  # residuals take their weight with them


def test_options_are_typed_with_the_names_of_all_tests():
    assert set(get_args(TestName)) == {"auto", "none", *METHODS}


@pytest.mark.parametrize(
    ("test", "dependence", "method", "tested"),
    [
        (None, "auto", None, False),
        ("none", "auto", None, False),
        ("auto", "auto", "auto", "auto"),
        ("auto", True, "auto", True),
        ("permutation", False, "permutation", False),
        (debias.Permutation(7), "auto", "permutation", "auto"),
        ("naive", False, "naive", False),
    ],
)
def test_the_scores_are_tested_by_one_argument_and_dependence_by_another(test, dependence, method, tested):
    tests = procedure.Tests.asked(test, dependence, ("fdr", 0.1))
    assert tests.dependence == tested
    assert (tests.of_scores and tests.of_scores.test) == method
    assert method is None or (tests.of_scores.alpha, tests.of_scores.error) == (0.1, "fdr")
    assert method is None or tests.of_scores.limits == (
        test if isinstance(test, debias.Permutation) else debias.Permutation()
    )
