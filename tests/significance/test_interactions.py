"""The test of interactions against least squares by hand, scikit-learn's logistic regression, and its level.

Over 500 lines: the test, the choice of its rows and what the result says of both share their models and oracles.
"""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMRegressor
from scipy.stats import norm, t
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor, VotingRegressor
from sklearn.linear_model import LogisticRegression
from xgboost import XGBClassifier, XGBRanker, XGBRegressor

import debias
from debias.api import interactions as of_api
from debias.errors import CompositionError, RowsError
from debias.results.interactions import Interactions
from debias.results.vocabulary import Confirmation
from debias.significance import additive_functions as additive
from debias.significance import interactions as of_test
from debias.significance import tested_rows
from debias.significance.additive_functions import (
    MissingValues,
    SimilarPairs,
    additive_functions,
    feature_scores,
    functions_within,
    orthonormal,
    products,
    standardised,
)
from debias.significance.links import IDENTITY, LOG, LOGIT, fitted_coefficients
from debias.significance.tested_rows import _most_rows, _of_classes


def drawn(n=400, rho=0.5, product=1.5, seed=0):
    """Correlated columns, curves, a threshold and one product."""
    rng = np.random.default_rng(seed)
    x = np.sqrt(1 - rho) * rng.normal(size=(n, 5)) + np.sqrt(rho) * rng.normal(size=(n, 1))
    effect = x[:, 0] + x[:, 1] + np.sin(2 * x[:, 2]) + 2 * (x[:, 3] > 0) + product * x[:, 0] * x[:, 1]
    return pd.DataFrame(x, columns=list("abcde")), effect + rng.normal(size=n)


def fitted(X, y, n_train=200, kind=XGBRegressor, **settings):
    model = kind(**({"n_estimators": 40, "max_depth": 3, "n_jobs": 1} | settings)).fit(X[:n_train], y[:n_train])
    return model, X[n_train:], y[n_train:]


def given_to_the_test(monkeypatch, call):
    """The result of a call of debias.interactions, and the arguments of the test inside."""
    given = {}
    whole = of_test.test_interactions
    monkeypatch.setattr("debias.api.interactions.test_interactions", lambda *a: given.update(a=a) or whole(*a))
    return call(), given["a"]


def size_of_parts(alone, together, sets):
    """The standard deviation of what the model does with each feature: alone, and in each set with it."""
    of_sets = together[:, :, 0].var(axis=0)
    holding = np.array([[j in members for members in sets] for j in range(alone.shape[1])])
    return np.sqrt(alone[:, :, 0].var(axis=0) + holding @ of_sets)


def by_least_squares(y, direction, others, block=None, fitted_too=None):
    """Score, standard error (HC2, CR2) and z of y and a direction, both freed of all other functions.

    The mean product is divided by the part of the squared direction that the functions leave on average.
    """

    def rest(values):
        return values - others @ np.linalg.lstsq(others, values, rcond=1e-9)[0]

    freed, left = rest(direction), rest(y)
    everything = np.column_stack([others, direction, *([] if fitted_too is None else [fitted_too])])
    hat = everything @ np.linalg.pinv(everything, rcond=1e-9)
    variance = 0.0
    for b in np.unique(np.arange(len(y)) if block is None else block):
        at = np.flatnonzero((np.arange(len(y)) if block is None else block) == b)
        size, axes = np.linalg.eigh(hat[np.ix_(at, at)])
        root = axes @ np.diag(1 / np.sqrt(1 - np.clip(size, 0, 0.98))) @ axes.T
        variance += (freed[at] @ root @ left[at]) ** 2
    total = freed @ left
    larger = (freed**2 / (1 - np.clip(np.diag(hat), 0, 0.98))).sum() / (freed**2).sum() / len(y)
    return larger * total, larger * np.sqrt(variance), total / np.sqrt(variance)


@pytest.mark.parametrize("blocks", [None, 25])
def test_scores_and_errors_are_those_of_least_squares(monkeypatch, blocks):
    model, X, y = fitted(*drawn())
    block = None if blocks is None else np.arange(len(y)) % blocks
    rows = debias.Dataset(X, y, blocks=block)
    found, given = given_to_the_test(monkeypatch, lambda: debias.interactions(model, rows))
    _, together, alone, output, all_sets, *_ = given
    n, sets = len(y), [tuple(pair) for pair in found.pairs.tolist()]
    assert len(sets) == 10
    assert not np.isnan(found.z).any()
    rest = output[:, 0] - alone.sum(axis=1)[:, 0] - together.sum(axis=1)[:, 0]
    every = additive_functions(X.to_numpy(), np.zeros(5, bool), size_of_parts(alone, together, all_sets))
    basis = np.column_stack([np.ones(n), every, alone[:, :, 0], rest])
    # A pair that is confirmed joins the basis, with products that follow any function of it.
    assert found.confirmed == [("a", "b")]
    after = [products(X.to_numpy(), np.zeros(5, bool), ([0], [1]))] * (found.confirmed != [])
    normal = norm.ppf((X.rank().to_numpy() - 0.5) / n)
    for k, members in enumerate(sets):
        others = [basis, np.delete(together[:, :, 0], k, axis=1), *([] if members == (0, 1) else after)]
        score, error, z = by_least_squares(y, together[:, k, 0], np.column_stack(others), block)
        np.testing.assert_allclose(found.score[k], score, rtol=1e-3, atol=1e-6)
        np.testing.assert_allclose(found.standard_error[k], error, rtol=1e-3)
        np.testing.assert_allclose(found.z[k], z, rtol=1e-3, atol=1e-3)
        # The columns are correlated, so every pair is similar to others.
        if members != (0, 1):
            assert np.isnan(found.p_apart[k])
            continue
        # The second test of the one that is confirmed: the same beside products of pairs with one of its features.
        near = [pair for pair in sets if len({*pair, *members}) == 3]
        assert {*found.similar[k]} <= {*near}
        others += [np.column_stack([normal[:, i] * normal[:, j] for i, j in near])]
        *_, z = by_least_squares(y, together[:, k, 0], np.column_stack(others), block)
        n_fitted = np.linalg.matrix_rank(np.column_stack([*others, together[:, k, 0]]))
        freedom = n - n_fitted if blocks is None else blocks - 1
        # Products of correlated columns have correlations of up to .7, and a ridge of 1e-4 a row.
        assert t.isf(found.p_apart[k], freedom) == pytest.approx(z, rel=5e-3, abs=5e-3)
    covariance = np.cov(y, model.predict(X))[0, 1] * (n - 1) / n
    np.testing.assert_allclose(found.total, covariance, rtol=1e-5)
    np.testing.assert_allclose(found.share, found.score / covariance, rtol=1e-5)


@pytest.mark.thorough
def test_shares_of_few_rows_are_those_of_many():
    """More than a quarter of 500 rows is taken by functions, so that the mean product is smaller by as much."""
    X, y = drawn(16_000)
    model, X, y = fitted(X, y, 1000)
    many = debias.interactions(model, X[:12_000], y[:12_000], rows="held-out")
    at = many.sets.index(("a", "b"))
    few = [
        debias.interactions(model, X[begin : begin + 500], y[begin : begin + 500], rows="held-out").share[at]
        for begin in range(0, 15_000, 500)
    ]
    error = np.std(few, ddof=1) / np.sqrt(len(few))
    assert abs(np.mean(few) - many.share[at]) < 3 * np.hypot(error, many.share_error[at])
    assert np.hypot(error, many.share_error[at]) < 0.05 * many.share[at]


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["file", "batches", "batches of arrays", "iterator"])
def test_rows_of_files_and_batches_are_tested_as_in_memory(form, tmp_path, monkeypatch):
    model, X, y = fitted(*drawn(1000))
    weight = np.random.default_rng(3).uniform(0.5, 2, len(y))
    weight[:20] = 0.0
    expected = debias.interactions(model, X, y, sample_weight=weight, random_state=4)
    batches = [(X[at], y[at], weight[at]) for at in (slice(0, 300), slice(300, 310), slice(310, None))]
    if form == "file":
        X.assign(target=y, w=weight).to_parquet(tmp_path / "rows.parquet")
        given = {"X": tmp_path / "rows.parquet", "y": "target", "sample_weight": "w"}
    elif form == "batches of arrays":
        given = {"X": [(x.to_numpy(), *of_rows) for x, *of_rows in batches]}
    else:
        given = {"X": iter(batches) if form == "iterator" else batches}
    found = debias.interactions(model, **given, random_state=4)
    assert found.to_dict() == expected.to_dict()
    if form == "iterator":
        return
    monkeypatch.setattr(of_api, "MOST_SAMPLED", 500)
    some = debias.interactions(model, **given, random_state=4)
    assert some.n_passed == 800
    assert some.of_drawn_rows == [
        f"The test used {some.n_rows} of 800 rows, drawn at random: with more rows it would take too much memory and "
        "time. Shares are those of the drawn rows, and random_state chooses them."
    ]
    assert debias.interactions(model, **given, random_state=4).to_dict() == some.to_dict()
    assert debias.interactions(model, **given, random_state=5).score.tolist() != some.score.tolist()


def test_rows_of_classes_in_batches_are_drawn_whatever_their_class(monkeypatch):
    """Only a choice among rows in memory takes more of rare classes, and only then the sentence says so."""
    X, y = drawn(1200)
    model, X, y = fitted(X, (y > 2).astype(int), kind=XGBClassifier)
    monkeypatch.setattr(of_api, "MOST_SAMPLED", 500)
    found = debias.interactions(model, [(X[:600], y[:600]), (X[600:], y[600:])])
    assert (found.n_rows, found.n_passed) == (500, 1000)
    assert "500 of 1,000 rows, drawn at random: " in found.of_drawn_rows[0]
    monkeypatch.setattr(tested_rows, "MOST_VALUES", 2**15)
    found = debias.interactions(model, X, y)
    assert found.n_rows < 1000
    assert "of 1,000 rows, drawn at random, more of rare classes: " in found.of_drawn_rows[0]
    assert Interactions.from_json(found.to_json()).of_drawn_rows == found.of_drawn_rows


def test_a_source_is_not_read_for_a_model_that_cannot_be_tested():
    def unread():
        yield pytest.fail("a batch was read")

    X, y = drawn()
    vote = VotingRegressor([("one", XGBRegressor(n_estimators=3)), ("two", XGBRegressor(n_estimators=2))]).fit(X, y)
    with pytest.raises(CompositionError, match=r"to debias\.interactions"):
        debias.interactions(vote, unread())
    with pytest.raises(RowsError, match="needs rows that the model has not seen"):
        debias.interactions(vote.estimators_[0], unread(), rows="train")


def test_columns_of_a_file_that_the_model_does_not_know_are_told_and_sums_are_refused(tmp_path):
    model, X, y = fitted(*drawn())
    X.assign(target=y, note=y).to_parquet(tmp_path / "rows.parquet")
    with pytest.warns(debias.DebiasWarning, match="columns of .* that the model does not know are left out: note"):
        found = debias.interactions(model, tmp_path / "rows.parquet", "target")
    assert any("left out: note" in text for text in found.warnings)
    sums = debias.NodeSums(model)
    sums.update(X, y)
    with pytest.raises(CompositionError, match=r"debias\.interactions needs all rows at once"):
        debias.interactions(model, sums)


def three_together(n=1600, seed=0, triple=2.0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 4)), columns=list("abcd"))
    return X, (X.a + triple * np.sign(X.b * X.c * X.d)).to_numpy() + rng.normal(size=n)


def test_a_triple_is_freed_of_any_functions_of_its_pairs(monkeypatch):
    model, X, y = fitted(*three_together(), 800, n_estimators=60, max_depth=5)
    found, (_, together, alone, output, sets, *_) = given_to_the_test(
        monkeypatch, lambda: debias.interactions(model, X, y, features=[("b", "d", "c")])
    )
    assert found.sets == [("b", "c", "d")]
    assert found.confirmed == [("b", "c", "d")]
    assert together.shape[1] == 6 + 4
    rest = output[:, 0] - alone.sum(axis=1)[:, 0] - together.sum(axis=1)[:, 0]
    x, number = X.to_numpy(), np.zeros(4, bool)
    # The six pairs, the named triple, and the other three.
    others = np.delete(together[:, :, 0], 6, axis=1)
    sizes = size_of_parts(alone, together, sets)
    basis = [np.ones(len(y)), additive_functions(x, number, sizes), alone[:, :, 0], rest, others]
    of_pairs = [products(x, number, ([j], [k])) for j, k in ((1, 2), (1, 3), (2, 3))]
    score, error, z = by_least_squares(y, together[:, 6, 0], np.column_stack([*basis, *of_pairs]))
    np.testing.assert_allclose([found.score[0], found.standard_error[0], found.z[0]], [score, error, z], rtol=1e-3)


def test_pairs_and_triples_are_named_by_tuples():
    model, X, y = fitted(*three_together(), 800, n_estimators=60, max_depth=5)
    found = debias.interactions(model, X, y, features=[("b", "c"), ("b", "c", "d"), ("a", "b", "c")])
    assert found.sets == [("b", "c"), ("a", "b", "c"), ("b", "c", "d")]
    assert found.confirmed == [("b", "c", "d")]
    frame = found.to_frame()
    assert frame.index.names == ["feature", "other", "third"]
    assert frame.index[0] == ("b", "c", "d")
    assert found.headline.startswith("1 of 3 tested interactions is confirmed: b with c and d (")
    assert Interactions.from_json(found.to_json()).to_dict() == found.to_dict()
    assert "b with c and d" in found.to_html()
    assert "b with c and d" in repr(found)
    # The multiplicity is that of all three.
    np.testing.assert_allclose(frame["p_adjusted"].iloc[0], 3 * frame["p_value"].iloc[0])


def test_the_additive_model_of_classes_is_a_ridge_logistic_regression():
    X, y = drawn(300)
    functions = additive_functions(X.to_numpy(), np.zeros(5, bool))
    functions = functions[:, functions.std(axis=0) > 0]
    functions = (functions - functions.mean(axis=0)) / functions.std(axis=0)
    label = (y > np.median(y)).astype(float)
    ones = np.ones(len(y))
    ridge = np.repeat([0.0, 1.0], [1, functions.shape[1]])
    design = np.column_stack([ones, functions])
    coefficients, _ = fitted_coefficients(design, label, ones, 0 * ones, ridge, LOGIT)
    expected = LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000).fit(functions, label).decision_function(functions)
    np.testing.assert_allclose(design @ coefficients, expected, atol=1e-3)


def test_classes_are_compared_with_the_most_frequent_one():
    """Log odds of two classes are additive where the margins are; those of one against all others are not."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 3))
    margins = np.column_stack([np.full(3000, 1.0), 1.5 * x[:, 0], 1.5 * x[:, 1]])
    shares = np.exp(margins) / np.exp(margins).sum(axis=1, keepdims=True)
    y = (rng.random((3000, 1)) > shares.cumsum(axis=1)).sum(axis=1)
    X = pd.DataFrame(x, columns=list("abc"))
    model, X, y = fitted(X, y, 1500, XGBClassifier, n_estimators=20)
    response = np.eye(3)[y]
    comparisons = of_test._comparisons(response, np.ones(1500), LOGIT)
    most = np.bincount(y).argmax()
    for (one, rows, contrast), c in zip(comparisons, [c for c in range(3) if c != most], strict=True):
        np.testing.assert_array_equal(rows, np.flatnonzero((y == c) | (y == most)))
        np.testing.assert_array_equal(one, y[rows] == c)
        np.testing.assert_array_equal(contrast, np.eye(3)[c] - np.eye(3)[most])
    assert debias.interactions(model, X, y).confirmed == []


def test_columns_that_do_not_vary_and_those_of_few_values_leave_their_functions_to_others():
    rng = np.random.default_rng(0)
    X, number = rng.normal(size=(400, 3)), np.zeros(3, bool)
    alone = additive_functions(X, number)
    assert alone.shape[1] == 96  # a quarter of the rows, less a constant for each column, evenly
    with_constants = additive_functions(np.column_stack([X, np.ones((400, 30))]), np.zeros(33, bool))
    np.testing.assert_array_equal(with_constants[:, :96], alone)
    assert (with_constants[:, 96:] == 1).all()
    with_two_values = additive_functions(np.column_stack([X, X > 0]), np.zeros(6, bool))
    assert np.linalg.matrix_rank(with_two_values) == 3 * ((100 - 6 - 3) // 3) + 3 + 1  # and the constant
    of_one = additive_functions(X, number, np.array([1.0, 0.0, 0.0]))
    assert of_one.shape[1] == 60 + 2 * ((97 - 60) // 2)
    np.testing.assert_array_equal(of_one[:, 60], X[:, 1])  # the first column has the most that a column can have


def test_functions_are_shared_out_by_the_largest_quotients_whatever_the_order():
    """One at a time to the largest quotient of size and number, as long as all of its rank can be served."""
    rng = np.random.default_rng(0)
    for n_functions in (10, 40, 200):
        most, size = rng.integers(0, 30, 12), np.repeat(rng.random(4), 3)
        shared = additive._shared_out(n_functions, most, size)
        varying = (most > 0).sum()
        total = max(n_functions - varying, 4 * varying)
        number = np.minimum(most, min(total // (2 * varying), 4))
        while True:
            quotient = np.where(number < most, size / (number + 1), 0.0)
            next_ = (quotient == quotient.max()) & (quotient > 0)
            if not next_.any() or number.sum() + next_.sum() > total:
                break
            number = number + next_
        np.testing.assert_array_equal(shared, number)
        order = rng.permutation(12)
        np.testing.assert_array_equal(additive._shared_out(n_functions, most[order], size[order]), shared[order])


@pytest.mark.parametrize("far", [1e10, np.inf, -np.inf])
def test_values_far_from_all_others_leave_the_functions_of_the_others_as_they_are(far):
    """Hinges would differ in the last places only, or not at all."""
    x = np.random.default_rng(0).normal(size=(400, 1))
    functions = additive_functions(x, np.array([False]))
    x[:3] = far
    beside = additive_functions(x, np.array([False]))
    assert np.isfinite(beside).all()
    np.testing.assert_array_equal(beside[:, -1], np.arange(400) < 3)
    basis = standardised(beside, np.ones(400))
    assert orthonormal(basis, np.ones(400)).shape[1] == functions.shape[1] + 2


@pytest.mark.parametrize("unit", [1e-4, 1e7])
def test_the_unit_of_a_response_with_the_log_link_does_not_matter(unit):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(1000, 3)), columns=list("abc"))
    y = np.exp(0.6 * X["a"] + 0.5 * X["b"] * X["c"]) * rng.gamma(4, 1 / 4, size=1000)
    gamma = {"kind": LGBMRegressor, "objective": "gamma", "num_leaves": 8, "verbose": -1, "max_depth": -1}
    one, other = (debias.interactions(*fitted(X, of_unit, 500, **gamma), rows="held-out") for of_unit in (y, unit * y))
    assert one.confirmed == [("b", "c")]
    np.testing.assert_allclose(other.z, one.z, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(other.score, unit * one.score, rtol=1e-3, atol=1e-4 * unit * one.score.max())


def test_functions_of_a_column_follow_its_kind():
    rng = np.random.default_rng(0)
    few, many, missing = rng.integers(0, 3, 200).astype(float), rng.normal(size=200), rng.normal(size=200)
    missing[:20] = np.nan
    codes = rng.integers(0, 50, 200).astype(float)
    one = additive_functions(few[:, None], np.array([False]))
    np.testing.assert_array_equal(one.sum(axis=1), 1)
    assert one.shape[1] == 3
    assert set(np.unique(additive_functions(codes[:, None], np.array([True])))) == {0.0, 1.0}
    of_many = additive_functions(many[:, None], np.array([False]))
    np.testing.assert_array_equal(of_many[:, 0], many)
    assert of_many.shape[1] == 49  # a quarter of the rows, less the constant
    of_missing = additive_functions(missing[:, None], np.array([False]))
    np.testing.assert_array_equal(of_missing[:, 0], np.isnan(missing))
    assert np.isfinite(of_missing).all()


@pytest.mark.parametrize("kind", [XGBClassifier, RandomForestClassifier])
def test_an_interaction_of_classes_is_confirmed_and_no_other(kind):
    rng = np.random.default_rng(4)
    X = pd.DataFrame(rng.normal(size=(1600, 4)), columns=list("abcd"))
    y = rng.random(1600) < 1 / (1 + np.exp(-(X.a + 3 * X.b * X.c)))
    settings = {"n_jobs": 1} if kind is XGBClassifier else {"random_state": 0, "max_depth": 6}
    found = debias.interactions(*fitted(X, y.astype(int), 800, kind, **settings))
    assert found.confirmed == [("b", "c")]


def test_weights_are_repeated_rows_and_rows_without_weight_are_left_out():
    model, X, y = fitted(*drawn(500))
    weight = np.ones(len(y))
    weight[:60] = 0
    some = debias.interactions(model, X, y, sample_weight=weight)
    assert some.n_rows == len(y) - 60
    # The trees' shares use the same rows, so both ways are the same model and the same rows.
    alone = debias.interactions(model, X[60:], y[60:])
    np.testing.assert_allclose(some.z, alone.z, rtol=1e-6)
    double = debias.interactions(model, X, y, sample_weight=2 * np.ones(len(y)))
    np.testing.assert_allclose(double.z, debias.interactions(model, X, y).z, rtol=1e-9)


def test_pairs_that_were_asked_for_are_tested_beside_all_others():
    model, X, y = fitted(*drawn())
    every = debias.interactions(model, X, y).to_frame()
    some = debias.interactions(model, X, y, with_="a").to_frame()
    assert set(some.index) == {pair for pair in every.index if "a" in pair}
    np.testing.assert_allclose(some["z"], every.loc[some.index, "z"], rtol=1e-6)
    of_two = debias.interactions(model, X, y, features=["a", "b"])
    assert of_two.confirmed == [("a", "b")]
    np.testing.assert_allclose(of_two.p_adjusted, of_two.p_value)


def test_a_group_is_one_feature():
    model, X, y = fitted(*drawn())
    found = debias.interactions(model, X, y, groups={"ab": ["a", "b"]})
    assert found.feature_names == ("ab", "c", "d", "e")
    assert found.confirmed == []


def test_what_columns_of_a_group_do_together_is_what_one_feature_does():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.integers(0, 2, (200, 2)), rng.normal(size=(200, 2))])
    features, number, meets = [np.array([0, 1]), np.array([2]), np.array([3])], np.zeros(4, bool), np.ones((4, 4), bool)
    of_group = functions_within(x, number, features, meets)
    assert np.linalg.matrix_rank(np.column_stack([of_group, x[:, 0] * x[:, 1]])) == np.linalg.matrix_rank(of_group) == 4
    assert functions_within(x, number, [np.array([j]) for j in range(4)], meets).shape == (200, 0)
    assert functions_within(x, number, features, ~meets).shape == (200, 0)
    assert functions_within(x[:9], number, features, meets).shape == (9, 0)  # too few rows


def test_products_follow_any_function_of_two_features():
    rng = np.random.default_rng(0)
    x, number = rng.normal(size=(4000, 2)), np.zeros(2, bool)
    both = np.column_stack(
        [np.ones(4000), additive_functions(x, number), products(x, number, [np.array([0]), np.array([1])])]
    )
    for truth in (np.sign(x[:, 0] * x[:, 1]), np.sin(x[:, 0] + x[:, 1]), np.maximum(x[:, 0], x[:, 1])):
        left = truth - both @ np.linalg.lstsq(both, truth, rcond=None)[0]
        # The exclusive or has its steps between two knots: about a seventh of the rows are between them.
        assert left.var() < 0.1 * truth.var()


def test_of_many_pairs_those_that_vary_most_are_held_whatever_the_response(monkeypatch):
    model, X, y = fitted(*drawn())
    every = debias.interactions(model, X, y)
    monkeypatch.setattr("debias.api.interactions.MOST_VALUES", 4 * len(y))
    found, other = (debias.interactions(model, X, values) for values in (y, y[::-1]))
    assert found.tested.sum() == 4
    np.testing.assert_array_equal(found.tested, other.tested)
    np.testing.assert_allclose(found.spread, every.spread)
    assert found.spread[found.tested].min() > found.spread[~found.tested].max()
    assert "6 interactions were not tested" in " ".join(found.summary())
    named = debias.interactions(model, X, y, features=["a", "e"])
    assert named.tested.tolist() == [True]


@pytest.mark.parametrize("blocks", [None, 80])
def test_of_more_rows_than_can_be_tested_some_are_drawn(monkeypatch, blocks):
    model, X, y = fitted(*drawn(700))
    weight = np.ones(500)
    weight[:40] = 0.0
    rows = debias.Dataset(X, y, sample_weight=weight, blocks=None if blocks is None else np.arange(500) % blocks)
    monkeypatch.setattr(tested_rows, "MOST_VALUES", 15_000)
    found = debias.interactions(model, rows, random_state=1)
    assert 100 < found.n_rows < 300
    assert found.n_passed == 460
    assert f"The test used {found.n_rows} of 460 rows, drawn at random: with more rows" in found.summary()[1]
    assert "one that is not confirmed may still be there." in " ".join(found.summary())
    assert Interactions.from_json(found.to_json()).summary() == found.summary()
    # The same result as with these rows passed alone. Pictures have their values of columns.
    at = np.flatnonzero(X.a.isin(found.joint.columns["a"]))
    assert at.size == found.n_rows
    assert weight[at].all()
    of_drawn = debias.Dataset(X.iloc[at], y[at], blocks=None if blocks is None else at % blocks)
    alone = debias.interactions(model, of_drawn)
    assert alone.of_drawn_rows == []
    assert found.n_blocks == alone.n_blocks == blocks
    pd.testing.assert_frame_equal(found.to_frame(), alone.to_frame())
    # Which rows are drawn depends on the seed, and not on the response.
    same, other = (
        debias.interactions(model, rows.X, response, sample_weight=weight, random_state=seed)
        for response, seed in ((np.exp(y), 1), (y, 2))
    )
    if blocks is None:
        assert np.array_equal(same.joint.columns["a"], found.joint.columns["a"])
    assert not np.array_equal(other.joint.columns["a"], same.joint.columns["a"])
    compared = debias.compare(model, rows, of="pairs", random_state=1)
    assert found.of_drawn_rows[0] in compared.summary()
    for result in (found, compared):
        assert f"The test used {found.n_rows} of 460 rows, drawn at random:" in " ".join(str(result).split())


def test_one_row_of_each_block_is_drawn_first(monkeypatch):
    model, X, y = fitted(*drawn(700))
    block = np.minimum(np.arange(500), 30)  # one of 470 rows
    monkeypatch.setattr(tested_rows, "MOST_VALUES", 15_000)
    assert debias.interactions(model, debias.Dataset(X, y, blocks=block)).n_blocks == 31


def test_rare_classes_keep_more_rows_and_each_comparison_has_room(monkeypatch):
    X, y = drawn(3000)
    label = np.digitize(y, np.quantile(y, [0.55, 0.97]))  # 55, 42 and 3 %
    model, X, label = fitted(X, label, kind=XGBClassifier, n_train=600)
    counts = np.bincount(label)
    monkeypatch.setattr(tested_rows, "MOST_VALUES", 60_000)
    found, given = given_to_the_test(monkeypatch, lambda: debias.interactions(model, X, label))
    kept = np.bincount(given[0].response.codes)
    assert kept[2] == counts[2]
    assert kept[1] < counts[1]
    comparison = kept[0] + kept[1]
    assert 0.4 < kept[0] / comparison < 0.6
    assert comparison * found.n_functions <= 60_000
    assert "drawn at random, more of rare classes: with more rows" in found.summary()[1]
    assert _of_classes(np.array([900, 100]), 1000).tolist() == [900, 100]
    assert _of_classes(np.array([990, 10]), 500).tolist() == [490, 10]
    assert _of_classes(np.array([700, 300]), 500).tolist() == [350, 150]
    assert _of_classes(np.array([9000, 1000]), 500).tolist() == [375, 125]
    assert _of_classes(np.array([400, 400, 400, 10]), 500).tolist() == [250, 250, 250, 10]
    assert _of_classes(np.array([5000]), 500).tolist() == [500]


def given_columns(n, kind, n_columns=6):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, n_columns))
    if kind == "binary":
        return (X > 0).astype(float)
    if kind == "5,000 values":
        return np.floor(5000 * rng.random((n, n_columns)))
    if kind == "missing":
        X[rng.random(X.shape) < 0.1] = np.nan
    return X


@pytest.mark.parametrize("kind", ["numbers", "binary", "5,000 values", "missing"])
def test_more_rows_are_never_fewer_tested_rows_and_their_functions_have_room(monkeypatch, kind):
    monkeypatch.setattr(tested_rows, "MOST_VALUES", 200_000)
    n_tested = [_most_rows(given_columns(n, kind), np.arange(6), 15) for n in (200, 1000, 3000, 21_000, 40_000)]
    assert n_tested[0] == 200
    assert n_tested == sorted(n_tested)
    X = given_columns(40_000, kind)[: n_tested[-1]]
    n_functions = additive_functions(X, np.zeros(6, bool)).shape[1] + 15 + min(len(X) // 50, 20)
    assert 50_000 < len(X) * n_functions <= 200_000
    # Functions of all columns always have room.
    monkeypatch.setattr(tested_rows, "MOST_VALUES", 100)
    assert _most_rows(X, np.arange(6), 15) == 72
    assert _most_rows(X, np.arange(6) // 2, 3) == 90


def test_only_the_pairs_that_vary_most_are_tested():
    X, y = drawn(160)
    found = debias.interactions(*fitted(X, y, 100))
    assert found.tested.sum() == 3  # 60 rows
    untested = found.to_frame()[lambda frame: frame["verdict"] == Confirmation.UNTESTED]
    assert untested[["z", "p_value", "score"]].isna().all(axis=None)
    assert any("not tested" in sentence for sentence in found.summary())


def test_stumps_have_nothing_to_test():
    found = debias.interactions(*fitted(*drawn(), max_depth=1))
    assert len(found.pairs) == 0
    assert found.headline == "The model uses none of these features together: no interaction to test."
    assert "the features of 10 interactions together on any path" in " ".join(found.summary())  # no others were named


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"features": "a"}, "with_='a'"),
        ({"features": ["a"]}, "of two features"),
        ({"features": ["a", "q"]}, "no feature 'q'. There are: a, b, c, d, e"),
        ({"with_": "q"}, "no feature 'q'"),
        ({"features": [("a", "b", "c", "d")]}, "not two or three different features"),
        ({"features": [("a", "a")]}, "not two or three different features"),
        ({"features": [("a", "b", "a")]}, "not two or three different features"),
        ({"features": 5}, "features must be a list of names, or of tuples of names, not 5"),
        ({"features": [("a", "b"), "c"]}, "tuples and the name 'c'"),
        ({"features": [("a", "b")], "with_": "c"}, "leave with_ out"),
    ],
)
def test_wrong_arguments_say_what_to_pass(arguments, message):
    model, X, y = fitted(*drawn())
    with pytest.raises(RowsError, match=message):
        debias.interactions(model, X, y, **arguments)


def test_one_feature_has_no_interaction():
    model, X, y = fitted(*drawn())
    with pytest.raises(RowsError, match="there is one, 'all'. The columns of a group are one feature"):
        debias.interactions(model, X, y, groups={"all": list("abcde")})


def test_what_is_not_covered_is_refused():
    X, y = drawn()
    model = fitted(X, y)[0]
    with pytest.raises(RowsError, match="has not seen, and these are training rows"):
        debias.interactions(model, X[:200], y[:200], rows="train")
    forest = RandomForestRegressor(5, random_state=0).fit(X, y)
    with pytest.raises(RowsError, match="out-of-bag rows"):
        debias.interactions(forest, X, y)
    X, y = X[200:], y[200:]
    with pytest.raises(RowsError, match="in 19 blocks, and debias.interactions needs at least 20"):
        debias.interactions(model, debias.Dataset(X, y, blocks=np.arange(len(y)) % 19))
    with pytest.raises(RowsError, match="interactions need about"):
        debias.interactions(model, X[:30], y[:30])
    ranks = np.clip(np.round(y), 0, 3).astype(int)
    ranker = XGBRanker(n_estimators=5, n_jobs=1).fit(X, ranks, qid=np.arange(len(y)) // 10)
    with pytest.raises(CompositionError, match="not for rankers"):
        debias.interactions(ranker, X, ranks)  # before anything is asked of the rows
    with pytest.raises(CompositionError, match="not for rankers"):
        debias.interactions(ranker, debias.Dataset(X, ranks, qid=np.arange(len(y)) // 10), rows="held-out")


def test_json_keeps_every_number():
    found = debias.interactions(*fitted(*drawn(160), 100))
    read = Interactions.from_json(found.to_json())
    assert read.to_dict() == found.to_dict()
    pd.testing.assert_frame_equal(read.to_frame(), found.to_frame())


def test_sentences_follow_from_the_table():
    for seed, product in ((0, 1.5), (1, 0.0), (2, 3.0)):
        found = debias.interactions(*fitted(*drawn(500, product=product, seed=seed)))
        frame = found.to_frame()
        confirmed = frame[frame["verdict"] == Confirmation.CONFIRMED]
        assert list(confirmed.index) == found.confirmed
        assert (confirmed["p_adjusted"] <= 0.05).all()
        if not len(confirmed):
            assert (
                found.headline
                == f"None of {frame['z'].notna().sum()} tested interactions is confirmed on these 300 rows."
            )
        for (one, other), row in confirmed.iterrows():
            assert f"{one} with {other} ({row['share']:.1%})" in found.headline


def test_similar_pairs_are_those_whose_products_are_correlated():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(4000, 4))
    z[:, 3] = 0.9 * z[:, 0] + np.sqrt(1 - 0.81) * z[:, 3]
    share = np.ones(4000)
    every = np.ones((4, 4), dtype=bool)

    def of(columns=z, meets=every):
        return SimilarPairs(columns, share, meets, lambda j, k: np.c_[z[:, j], z[:, j] > z[:, k]])

    found = of()
    # Of (0, 3) and (j, k) the products have the correlation 2 r r / ...: none here.
    assert [found.named(pair) for pair in ((0, 1), (0, 3), (1, 2))] == [((1, 3),), (), ()]
    product = z[:, 1] * z[:, 3]
    similar = found.products((0, 1), 10)
    assert similar.shape == (4000, 1)
    np.testing.assert_allclose(similar[:, 0], (product - product.mean()) / product.std(), atol=0.1)
    assert np.corrcoef(z[:, 0] * z[:, 1], product)[0, 1] == pytest.approx(0.9, abs=0.03)
    assert found.products((1, 2), 0).shape == (4000, 0)
    assert found.products((0, 1), 0) is None
    # A pair that the model does not use has further functions, as far as there is room, and is similar earlier.
    apart = every.copy()
    apart[1, 3] = apart[3, 1] = False
    for most, n_products in ((1, 1), (2, 2), (10, 3)):
        similar = of(meets=apart).products((0, 1), most)
        assert similar.shape == (4000, n_products)
        np.testing.assert_allclose(similar.std(axis=0), 1)
    less = z.copy()
    less[:, 3] = rng.normal(size=4000) + 0.4 * z[:, 0]
    assert of(less).named((0, 1)) == ()
    assert of(less, apart).named((0, 1)) == ((1, 3),)
    assert of(less, apart).products((0, 1), 10).shape == (4000, 2)
    assert of(less, apart).products((0, 1), 0).shape == (4000, 0)
    # The product of a column and its copy is a square, which is additive: no pair stands in for it.
    copies = np.column_stack([z[:, 0], z[:, 0] + 0.01 * z[:, 1], z[:, 2], z[:, 0] + 0.01 * z[:, 2]])
    assert of(copies).named((0, 2)) == ((1, 2), (2, 3))
    assert of(copies).named((0, 1)) == ()


@pytest.mark.thorough
def test_where_a_value_is_missing_correlated_columns_are_no_interaction():
    """An additive response whose columns have missing values: others work in their place."""
    rng = np.random.default_rng(0)
    z = np.sqrt(0.5) * (rng.normal(size=(3000, 6)) + rng.normal(size=(3000, 1)))
    y = z[:, :3].sum(axis=1) + rng.normal(size=3000)
    X = pd.DataFrame(z, columns=list("abcdef")).mask(rng.random(z.shape) < 0.1)
    how = {"n_estimators": 50, "learning_rate": 0.2}
    found = debias.interactions(*fitted(X, y, 1000, **how))
    assert found.confirmed == []
    with_product = debias.interactions(*fitted(X, y + z[:, 0] * z[:, 1], 1000, **how))
    assert with_product.confirmed == [("a", "b")]


@pytest.mark.thorough
def test_a_copy_of_a_category_with_many_values_is_no_pair_of_its_own(monkeypatch):
    """What is confirmed joins with an indicator of each of its twelve values, so that nothing is left for its copy."""

    def confirmed(seed):
        rng = np.random.default_rng(seed)
        X = pd.DataFrame(rng.normal(size=(1800, 6)), columns=list("abcdef"))
        code = rng.integers(0, 12, 1800)
        copy = np.where(rng.random(1800) < 0.9, code, rng.integers(0, 12, 1800))
        for name, values in (("a", code), ("c", copy)):
            X[name] = pd.Categorical([f"v{value:02d}" for value in values])
        y = 1.5 * np.where(code % 2, -1, 1) * X["b"].to_numpy() + 0.5 * rng.normal(size=1800)
        how = {"n_estimators": 50, "learning_rate": 0.2, "enable_categorical": True}
        return debias.interactions(*fitted(X, y, 800, **how)).confirmed

    found = [confirmed(seed) for seed in range(4)]
    assert all(("a", "b") in pairs and ("b", "c") not in pairs for pairs in found)
    monkeypatch.setattr(additive, "FEW_VALUES", 0)
    assert any(("b", "c") in confirmed(seed) for seed in range(4))


def test_functions_of_missing_values_are_those_of_correlated_columns():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(1000, 4))
    z[:, 1] += z[:, 0]
    z[:, 2] += 0.5 * z[:, 0]
    X = z.copy()
    X[rng.random(1000) < 0.2, 0] = np.nan
    scores = feature_scores(X, np.zeros(4, bool), [*np.arange(4)[:, None]], X)
    share, numbers = np.ones(1000), np.zeros(4, bool)
    of_missing = MissingValues(X, numbers, scores, share)
    found = of_missing.functions(100)
    missing = np.isnan(X[:, 0])
    assert found.shape == (1000, 2 * 3)  # the column, a hinge and a step of columns 1 and 2, and none of column 3
    np.testing.assert_array_equal(found[:, 0], np.where(missing, X[:, 1], 0))
    np.testing.assert_array_equal(found[:, 3], np.where(missing, X[:, 2], 0))
    assert of_missing.functions(4).shape == (1000, 4)
    assert of_missing.functions(-3).shape == (1000, 0)
    together = of_missing.products([np.array([3]), np.array([0])])
    unit = (scores - scores.mean(axis=0)) / scores.std(axis=0)
    np.testing.assert_allclose(together, missing[:, None] * unit[:, 1:3] * unit[:, [3]])
    # The other feature of the pair is not in the place of the first one.
    assert of_missing.products([np.array([0]), np.array([1])]).shape == (1000, 1)
    assert of_missing.products([np.array([3]), np.array([2])]).shape == (1000, 0)
    none = MissingValues(z, numbers, scores, share)
    assert none.functions(100).shape == none.products([np.array([0]), np.array([1])]).shape == (1000, 0)


def test_scores_of_features_are_normal_scores_or_what_the_model_does_with_them():
    rng = np.random.default_rng(0)
    X, alone = rng.normal(size=(50, 4)), rng.normal(size=(50, 3))
    X[:5, 0] = np.nan
    columns = [np.array([0]), np.array([1]), np.array([2, 3])]
    scores = feature_scores(X, np.array([False, True, False, False]), columns, alone)
    np.testing.assert_array_equal(scores[:5, 0], 0)
    ranks = pd.Series(X[5:, 0]).rank().to_numpy()
    np.testing.assert_allclose(scores[5:, 0], norm.ppf((ranks - 0.5) / 45))
    np.testing.assert_array_equal(scores[:, 1:], alone[:, 1:])  # a category, and a group of two columns


def test_a_stand_in_of_categories_is_told_apart():
    X, y = with_stand_in(0, product=1.5)
    X["stand-in"] = pd.cut(X["stand-in"], 12, labels=list("cafbldgkhiej"))
    found = debias.interactions(*fitted(X, y, 1000, n_estimators=100, learning_rate=0.1, enable_categorical=True))
    assert found.confirmed == [("cause", "b")]
    # What the model does with the category alone is the score of its feature.
    place = found.sets.index(("b", "stand-in"))
    names = [(found.feature_names[j], found.feature_names[k]) for j, k in found.similar[place]]
    assert names == [("cause", "b")]
    assert found.p_apart[place] != found.p_value[place]


def with_stand_in(seed, product=1.0, n=2000, rho=0.95):
    """A product of the first two columns, of which the model sees the first one, or only a column that goes with it."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 4))
    x[:, 3] = rho * x[:, 0] + np.sqrt(1 - rho**2) * x[:, 3]
    y = product * x[:, 0] * x[:, 1] + 2 * x[:, 3] + x[:, 1] + x[:, 2] + 2 * rng.normal(size=n)
    return pd.DataFrame(x, columns=["cause", "b", "c", "stand-in"]), y


@pytest.mark.thorough
def test_a_pair_that_may_stand_in_for_another_is_not_confirmed_as_this_pair():
    X, y = with_stand_in(0)
    found = debias.interactions(*fitted(X, y, 1000, n_estimators=100, learning_rate=0.1))
    assert found.confirmed == [("cause", "b")]
    assert found.confirmed_or_similar == {("b", "stand-in"): [("cause", "b")]}
    assert "is confirmed, if none of the rows is a training row: cause with b (" in found.headline
    assert "; 1 more is confirmed for this or a similar pair: b with stand-in (" in found.headline
    assert "b with stand-in may stand in for cause with b: their features are correlated" in " ".join(found.summary())
    frame = found.to_frame()
    assert frame.index[1] == ("b", "stand-in")
    assert frame["verdict"].iloc[1] == Confirmation.SIMILAR
    assert frame["p_adjusted"].iloc[1] <= 0.05 < frame["p_apart"].iloc[1]
    read = Interactions.from_json(found.to_json())
    assert read.to_dict() == found.to_dict()
    assert read.confirmed_or_similar == found.confirmed_or_similar
    page = found.to_html()
    assert "confirmed, or a similar pair" in page
    assert "is tested a second time" in page
    changed = found.to_dict() | {"similar": [[]] * 6}
    with pytest.raises(debias.errors.DebiasError, match="p_apart differs from p_value"):
        Interactions.from_json(json.dumps(changed))
    # The same pair without the other column is confirmed: what is not there cannot be told.
    X, y = with_stand_in(0, rho=0.3)
    apart = debias.interactions(*fitted(X, y, 1000, n_estimators=100, learning_rate=0.1))
    assert apart.confirmed == [("cause", "b")]
    assert apart.confirmed_or_similar == {}


def test_a_pair_is_not_told_apart_without_rows_for_the_products_of_similar_ones(monkeypatch):
    """The first test confirms the stand-in, and the second one cannot be made."""
    X, y = with_stand_in(0, n=1250)
    how = {"interaction_constraints": [["cause", "c"], ["b", "c", "stand-in"]]}
    model, X, y = fitted(X, y, 1000, n_estimators=100, learning_rate=0.1, **how)
    found = debias.interactions(model, X, y)
    assert found.confirmed == []
    assert found.confirmed_or_similar == {("b", "stand-in"): [("cause", "b")]}
    place = found.sets.index(("b", "stand-in"))
    assert 0.05 < found.p_apart[place] < 1
    monkeypatch.setattr(of_test, "ROWS_PER_SIMILAR", 300)
    few = debias.interactions(model, X, y)
    assert np.isnan(few.p_apart[place])
    assert few.verdict[place] == Confirmation.SIMILAR
    assert few.confirmed_or_similar == found.confirmed_or_similar
    told = " ".join(few.summary())
    assert "correlated, and there are too few rows for a test beside products of such pairs." in told
    assert "is tested a second time" not in told
    read = Interactions.from_json(few.to_json())
    assert read.to_dict() == few.to_dict()
    assert read.confirmed_or_similar == few.confirmed_or_similar


def test_headlines_count_both_kinds():
    X, y = with_stand_in(0)
    found = debias.interactions(*fitted(X, y, 1000), rows="held-out")
    apart = {found.sets.index(("cause", "b")), found.sets.index(("b", "stand-in"))}
    p_value = np.array([1e-9 if k in apart else 0.5 for k in range(6)])

    def headline(p_apart):
        return replace(found, p_value=p_value, p_apart=np.array(p_apart)).headline

    assert headline(p_value).startswith("2 of 6 tested interactions are confirmed, if")
    neither = headline([0.5] * 6)
    assert neither.startswith("2 of 6 tested interactions are confirmed for these or similar ones, if none of the rows")
    many = replace(found, p_value=np.full(6, 1e-9), p_apart=np.full(6, 0.5)).summary()
    assert sum("may stand in for" in sentence for sentence in many) == 5 + 1
    assert "1 more pair may stand in for others too: see confirmed_or_similar." in many
    one = headline([1e-9 if k == min(apart) else 0.5 for k in range(6)])
    assert one.startswith("1 of 6 tested interactions is confirmed, if none of the rows is a training row: ")
    assert "; 1 more is confirmed for this or a similar pair: " in one


@pytest.mark.thorough
def test_classes_are_told_apart_from_stand_ins_too():
    rng = np.random.default_rng(0)
    X, y = with_stand_in(0, product=2.0, n=6000)
    y = (rng.random(6000) < 1 / (1 + np.exp(-y))).astype(int)
    found = debias.interactions(*fitted(X, y, 3000, XGBClassifier, n_estimators=100, learning_rate=0.1))
    assert found.confirmed == [("cause", "b")]
    p_apart = found.to_frame()["p_apart"]
    assert p_apart["cause", "b"] < 1e-3
    assert np.isnan(p_apart["b", "stand-in"])  # beside the confirmed pair, the first test is no reason for the second


@pytest.mark.parametrize("link", [IDENTITY, LOGIT, LOG])
def test_a_test_beside_products_is_that_of_a_model_that_has_them(link):
    rng = np.random.default_rng(0)
    n = 800
    functions, similar = rng.normal(size=(n, 20)), rng.normal(size=(n, 5))
    similar += rng.normal(size=(n, 1))
    pairs = similar[:, :3] + rng.normal(size=(n, 3))
    eta = 0.5 * functions[:, 0] + 0.4 * similar[:, 0] - 0.4 * similar[:, 3]
    mean = link.mean(eta)
    noise = {"identity": lambda: rng.normal(size=n), "logit": lambda: (rng.random(n) < mean) - mean}
    y = mean + noise.get(link.name, lambda: rng.poisson(mean) - mean)()
    ones = np.ones(n)
    sample = of_test._Sample(y, ones, 0 * ones, link, None)
    if link is IDENTITY:
        fit = of_test._LeastSquares(sample, orthonormal(standardised(functions, ones), ones))
    else:
        fit = of_test._Ridge(sample, standardised(functions, ones))
    beside = fit.test(pairs, standardised(similar, ones))
    np.testing.assert_allclose(beside, fit.beside(similar).test(pairs), rtol=5e-3)  # a ridge of 1e-4 a row
    assert (beside[2] < fit.test(pairs)[2]).any()


def found_in_additive_truth(n_sets, depth, rho, seed=0):
    """The share of p-values of at most .05 and of sets with a confirmed pair, without any interaction."""
    single, together = [], []
    for k in range(n_sets):
        X, y = drawn(1200, rho, 0.0, seed=[seed, k])
        model, X, y = fitted(X, y, 600, n_estimators=60, max_depth=depth, learning_rate=0.1)
        found = debias.interactions(model, X, y, rows="held-out")
        single.append(found.p_value[found.tested] <= 0.05)
        together.append(bool(found.confirmed))
    return np.concatenate(single), np.array(together)


@pytest.mark.slow
@pytest.mark.parametrize(("depth", "rho"), [(3, 0.5), (6, 0.9)])
def test_the_level_holds_where_columns_are_correlated(depth, rho):
    single, together = found_in_additive_truth(100, depth, rho)
    # Two standard errors; of single pairs with the sets as units, whose pairs depend on one another.
    assert together.mean() <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 100)
    assert single.mean() <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 100)


def of_classes(n=1200, seed=0):
    """Three classes: a product decides between the first two, and the last one has few rows."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 4)), columns=list("abcd"))
    y = np.where(2 * X.a * X.b + X.c + 0.5 * rng.normal(size=n) > 0, "no", "yes")
    y[rng.random(n) < 0.25] = "odd"
    return X, y


@pytest.mark.filterwarnings("ignore::debias.DebiasWarning")  # rows of two of three classes are warned of
def test_it_is_said_which_classes_the_numbers_are_about():
    X, y = of_classes()
    forest = RandomForestClassifier(40, max_depth=6, random_state=0).fit(X[:600], y[:600])
    found = debias.interactions(forest, X[600:], y[600:], rows="held-out")
    names = pd.Series(y[600:]).value_counts().index
    pair = found.sets.index(("a", "b"))
    assert found.about[pair] == f"{names[1]} against {names[0]}"
    assert set(found.about) <= {f"{name} against {names[0]}" for name in names[1:]}
    assert found.to_frame().loc[("a", "b"), "about"] == found.about[pair]
    assert found.about[pair] in repr(found)
    assert any("that of one class or response, as said beside it" in text for text in found.summary())
    assert "Functions add up to the log odds: " in " ".join(found.summary())
    again = type(found).from_json(found.to_json())
    assert (again.about, again.summary()) == (found.about, found.summary())
    # The rows of the two classes of each comparison; the larger number of functions is said.
    pairs = [np.isin(y[600:], [name, names[0]]) for name in names[1:]]
    alone = [debias.interactions(forest, X[600:][at], y[600:][at], rows="held-out").n_functions for at in pairs]
    assert found.n_functions == max(alone)


def test_numbers_have_no_classes_and_no_other_scale():
    X, y = drawn()
    found = debias.interactions(*fitted(X, y))
    assert found.about == ()
    assert "about" not in found.to_frame()
    assert "scale" not in found.settings
    older = json.loads(found.to_json())
    del older["about"], older["unfollowed"]
    assert Interactions.from_dict(older).summary() == found.summary()


@pytest.mark.filterwarnings("ignore::debias.DebiasWarning")  # it is the warning that is tested
def test_few_rows_of_a_class_are_said():
    X, y = of_classes()
    is_rare = np.arange(1200) % 200 == 7
    label = np.where(is_rare, "rare", "often")
    forest = RandomForestClassifier(20, max_depth=5, random_state=0).fit(X[:600], label[:600])
    found = debias.interactions(forest, X[600:], label[600:], rows="held-out")
    assert [text for text in found.warnings if "class 'rare' has 3 rows of 600: hardly any interaction" in text]


@pytest.mark.filterwarnings("ignore::debias.DebiasWarning")  # rows of one response are warned of
def test_a_constant_response_is_the_reason_that_is_said():
    X, y = drawn()
    model, X, y = fitted(X, y)
    found = debias.interactions(model, X, 0 * y + 1)
    assert found.headline == "No interaction was tested."
    told = " ".join(found.summary())
    assert "not tested: all rows have the same response, or additive functions" in told
    assert "one is tested for every 20 rows" not in told
