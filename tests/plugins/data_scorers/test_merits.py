"""Merits of a single feature against definitions, enumeration, permutation and scikit-learn."""

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.metrics import adjusted_mutual_info_score, mutual_info_score
from sklearn.metrics.cluster import expected_mutual_information
from sklearn.tree import DecisionTreeClassifier

import debias

NAMES = ["gini_merit", "entropy_merit", "gain_ratio", "symmetric_uncertainty", "chi_square"]
TINY = ([0, 0, 1, 1, 2, 2, 2], [0, 1, 0, 0, 1, 1, 2])


def score(feature, y, scorer, **options):
    return debias.score(None, pd.DataFrame({"f": feature}), np.asarray(y), scorer, random_state=0, **options)


def impurity(labels, kind):
    shares = np.unique(labels, return_counts=True)[1] / len(labels)
    return 1 - (shares**2).sum() if kind == "gini" else -(shares * np.log(shares)).sum()


def left(feature, y, kind):
    """I(C|F) by eq. 6, branch by branch."""
    feature, y = np.asarray(feature), np.asarray(y)
    return sum((feature == value).mean() * impurity(y[feature == value], kind) for value in np.unique(feature))


def merit(feature, y, name):
    if name == "gini_merit":
        return impurity(y, "gini") - left(feature, y, "gini")
    if name == "chi_square":
        table = pd.crosstab(np.asarray(feature), np.asarray(y))
        return stats.chi2_contingency(table, correction=False).statistic
    information = impurity(y, "entropy") - left(feature, y, "entropy")
    scale = {
        "entropy_merit": 1,
        "gain_ratio": impurity(feature, "entropy"),
        "symmetric_uncertainty": (impurity(feature, "entropy") + impurity(y, "entropy")) / 2,
    }
    return information / scale[name]


@pytest.fixture(scope="module")
def larger():
    rng = np.random.default_rng(3)
    y = rng.choice(4, 300, p=[0.5, 0.3, 0.15, 0.05])
    return np.where(rng.random(300) < 0.1, y, rng.geometric(0.15, 300)), y


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.quick
def test_the_merit_is_its_definition(name, larger):
    for feature, y in (TINY, larger):
        np.testing.assert_allclose(score(feature, y, name, form="merit").values[0], merit(feature, y, name), rtol=1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("feature", [TINY[0], [0, 0, 0, 0, 0, 1, 1], range(7)])
def test_the_null_mean_is_that_of_every_permutation(name, feature):
    y = np.array(TINY[1])
    every = [merit(feature, order, name) for order in set(permutations(y.tolist()))]  # equally likely
    found = score(feature, y, name, form="excess")
    np.testing.assert_allclose(found.details["expected"][0], np.mean(every), rtol=1e-12)
    np.testing.assert_allclose(found.values[0], merit(feature, y, name) - np.mean(every), atol=1e-12)
    ratio = merit(feature, y, name) / np.mean(every)
    np.testing.assert_allclose(score(feature, y, name, form="normalized").values[0], ratio, rtol=1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize("name", NAMES)
def test_the_null_mean_is_that_of_random_permutations(name, larger):
    feature, y = larger
    rng = np.random.default_rng(0)
    draws = np.array([score(rng.permutation(feature), y, name, form="merit").values[0] for _ in range(150)])
    expected = score(feature, y, name).details["expected"][0]
    assert abs(draws.mean() - expected) < 4 * draws.std() / np.sqrt(150)


def test_information_and_its_null_mean_are_those_of_scikit_learn(larger):
    feature, y = larger
    found = score(feature, y, "entropy_merit", form="merit")
    np.testing.assert_allclose(found.values[0], mutual_info_score(feature, y), rtol=1e-12)
    table = pd.crosstab(feature, y).to_numpy()
    np.testing.assert_allclose(found.details["expected"][0], expected_mutual_information(table, 300), rtol=1e-9)
    above = score(feature, y, "entropy_merit", form="excess").values[0]
    most = (impurity(feature, "entropy") + impurity(y, "entropy")) / 2
    np.testing.assert_allclose(
        above / (most - found.details["expected"][0]), adjusted_mutual_info_score(feature, y), rtol=1e-9
    )


@pytest.mark.parametrize(("name", "kind"), [("gini_merit", "gini"), ("entropy_merit", "entropy")])
def test_the_demerit_is_hongs_ratio(name, kind):
    feature, y = TINY
    every = [left(feature, order, kind) for order in set(permutations(y))]
    np.testing.assert_allclose(
        score(feature, y, name, form="demerit").values[0], left(feature, y, kind) / np.mean(every), rtol=1e-12
    )


def test_the_error_of_the_approximation_falls_as_one_over_n_squared():
    """Equation 24 leaves terms of order 1 / N^2, so doubling N at fixed shares cuts its error about fourfold."""
    errors = []
    for times in (8, 16, 32, 64):
        feature = np.repeat([0, 0, 0, 1, 1, 2], times)
        y = np.tile(np.repeat([0, 1, 1, 2], times // 4), 6)
        exact, approximate = (
            score(feature, y, "entropy_merit", null=null).details["expected"][0] for null in ("exact", "approximate")
        )
        errors.append(abs(exact - approximate))
    assert (np.array(errors[:-1]) / errors[1:] > 3.5).all()


@pytest.mark.thorough
@pytest.mark.parametrize("name", NAMES)
def test_noise_of_any_number_of_values_has_one_on_average(name):
    rng = np.random.default_rng(1)
    y = rng.choice(3, 90, p=[0.7, 0.2, 0.1])
    X = pd.DataFrame({str(values): rng.integers(0, values, 90) for values in (2, 5, 20, 80)} | {"id": range(90)})
    form = "normalized"
    draws = np.array([debias.score(None, X, rng.permutation(y), name, form=form).values for _ in range(150)])
    error = draws.std(axis=0) / np.sqrt(150)
    assert (np.abs(draws.mean(axis=0) - 1) <= 4 * error + 1e-9).all()  # the id has the same merit under any order


@pytest.mark.parametrize(("name", "criterion"), [("gini_merit", "gini"), ("entropy_merit", "log_loss")])
def test_the_best_binary_split_of_a_number_is_that_of_a_stump(name, criterion, cancer):
    X, y = cancer
    for k in range(5):
        stump = DecisionTreeClassifier(max_depth=1, criterion=criterion).fit(X[:, [k]], y).tree_
        kept = (stump.impurity[1:] * stump.n_node_samples[1:]).sum() / len(y)
        decrease = (stump.impurity[0] - kept) * (np.log(2) if name == "entropy_merit" else 1)
        found = score(X[:, k], y, name, branching="binary", form="merit", replicates=1)
        np.testing.assert_allclose(found.values[0], decrease, rtol=1e-9)
        assert found.details["branches"] == [2]


def test_the_best_binary_split_of_categories_is_the_best_single_one():
    feature, y = list("aabbbccc"), [0, 0, 1, 1, 0, 1, 0, 1]
    best = max(merit(np.array(feature) == value, y, "gini_merit") for value in "abc")
    found = score(feature, y, "gini_merit", branching="binary", form="merit", replicates=1)
    np.testing.assert_allclose(found.values[0], best, rtol=1e-12)


@pytest.mark.slow
def test_noise_has_one_on_average_after_the_choice_of_a_best_split():
    rng = np.random.default_rng(5)
    X = pd.DataFrame(
        {"number": rng.normal(size=80), "few": rng.integers(0, 3, 80), "text": rng.choice(list("abcdef"), 80)}
    )
    y = rng.integers(0, 2, 80)
    ratios = np.array(
        [
            debias.score(
                None, X, rng.permutation(y), "gini_merit", branching="binary", replicates=50, random_state=draw
            ).values
            for draw in range(150)
        ]
    )
    error = ratios.std(axis=0) / np.sqrt(150)
    assert (np.abs(ratios.mean(axis=0) - 1) < 4 * error).all()


def test_bins_are_of_about_equal_frequency_and_missing_is_one_more():
    rng = np.random.default_rng(0)
    values = rng.normal(size=200)
    y = (values > np.median(values)).astype(int)
    expected = merit(pd.qcut(values, 4, labels=False), y, "gini_merit")
    found = score(values, y, "gini_merit", branching="bins", bins=4, form="merit")
    np.testing.assert_allclose(found.values[0], expected, rtol=1e-12)
    values[:50] = np.nan
    assert score(values, y, "gini_merit", branching="bins", bins=4).details["branches"] == [5]
    assert score([1, 2, 2, 3], [0, 1, 0, 1], "gini_merit", branching="bins").details["branches"] == [3]


def test_missing_values_are_a_value_of_their_own():
    with_missing = score([1.0, np.nan, 1.0, np.nan, 2.0], [0, 1, 0, 1, 1], "gini_merit").values
    np.testing.assert_array_equal(with_missing, score([1, 3, 1, 3, 2], [0, 1, 0, 1, 1], "gini_merit").values)


@pytest.mark.parametrize("strength", [0.1, 0.9])
def test_the_p_value_is_that_of_chi_square(strength, larger):
    rng = np.random.default_rng(0)
    feature, y = larger
    feature = np.where(rng.random(300) < strength, y, feature % 5)
    expected = stats.chi2_contingency(pd.crosstab(feature, y), correction=False).pvalue
    np.testing.assert_allclose(score(feature, y, "chi_square", form="log_p").values[0], -np.log10(expected), rtol=1e-9)


def test_p_values_too_small_for_floats_are_still_told_apart():
    y = np.repeat([0, 1], 2000)
    strong, stronger = (
        score(np.where(np.arange(4000) % m, y, 0), y, "chi_square", form="log_p").values[0] for m in (3, 9)
    )
    assert 300 < strong < stronger < np.inf


@pytest.mark.parametrize("name", NAMES)
def test_where_nothing_can_be_told_the_result_is_defined(name):
    X = pd.DataFrame({"constant": [1] * 6, "missing": [np.nan] * 6, "id": range(6)})
    for y in ([1] * 6, [0, 1] * 3):
        ratio, merit = (debias.score(None, X, y, name, form=form).values for form in ("normalized", "merit"))
        np.testing.assert_allclose(ratio, 1)  # by definition where merit and mean are 0, and of an id always
        np.testing.assert_array_equal(merit[:2], 0)
    one_row = debias.score(None, X[:1], [1], name, form="normalized").values
    np.testing.assert_array_equal(one_row, 1)


def test_an_id_has_demerit_one_though_it_leaves_no_impurity():
    assert score(range(6), [0, 1] * 3, "gini_merit", form="demerit").values[0] == 1
    assert score(range(6), [0, 1] * 3, "entropy_merit", form="demerit").values[0] == 1


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"y": np.linspace(0, 1, 6)}, debias.RowsError, "needs classes, but y is numeric"),
        ({"sample_weight": np.ones(6)}, debias.RowsError, "takes no sample_weight"),
        ({"form": "demerit"}, debias.plugin.CompositionError, "form='demerit' is not one of"),
        (
            {"branching": "best"},
            debias.plugin.CompositionError,
            "branching='best' is not one of 'full', 'bins', 'binary'",
        ),
        ({"form": "log_p", "branching": "binary"}, debias.plugin.CompositionError, "is not a p-value"),
        ({"bins": 1}, debias.plugin.CompositionError, "bins=1"),
        ({"replicates": 0}, debias.plugin.CompositionError, "replicates=0"),
    ],
)
def test_wrong_use_is_refused(given, error, message):
    with pytest.raises(error, match=message):
        debias.score(**({"model": None, "X": np.eye(6), "y": [0, 1] * 3, "scorer": "chi_square"} | given))


def test_the_same_seed_gives_the_same_numbers():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 3)), rng.integers(0, 2, 50)
    first, again, other = (
        debias.score(None, X, y, "gini_merit", branching="binary", replicates=5, random_state=s).values
        for s in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
