"""Intervals for the population: the standard error by hand, and coverage of the loss that least squares saves."""

import numpy as np
import pytest
from scipy.special import ndtr
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import debias
from debias.errors import DebiasWarning
from debias.plugin import CompositionError

MPV, CPV = "marginal_predictive_value", "conditional_predictive_value"
SHARED = np.sqrt(0.5)
EFFECTS = np.array([0.8, 0.3, 0.1, 0.0, 0.0])


def drawn(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    X[:, 4] = SHARED * (X[:, 0] + X[:, 4])  # of no use, and correlated with the strongest feature
    return X, X @ EFFECTS + rng.normal(size=n)


TRUTH = EFFECTS**2 * [0.5, 1, 1, 1, 1]
"""What the best linear prediction saves: the variance of a feature given the others is .5 for the first one."""


@pytest.mark.thorough
@pytest.mark.parametrize("scorer", [MPV, CPV])
def test_the_standard_error_adds_what_permuted_columns_score(scorer):
    X, y = drawn(60, 0)
    weight = np.random.default_rng(1).uniform(0.5, 2, 60)
    model, folds = LinearRegression(), list(KFold(3, shuffle=True, random_state=7).split(X))
    found = debias.score(
        None, X, y, scorer, estimator=model, cv=3, population=True, random_state=7, sample_weight=weight
    )

    def losses(X):
        X = X if X.shape[1] else np.zeros((60, 1))
        fitted = cross_val_predict(model, X, y, cv=folds, params={"sample_weight": weight})
        return (y - fitted) ** 2

    def error(saved):
        return np.sqrt((weight**2 * (saved - np.average(saved, weights=weight)) ** 2).sum()) / weight.sum()

    of_no_use, paired = [], []
    for k in range(5):
        others = np.delete(X, k, axis=1)
        without = losses(others) if scorer == CPV else losses(X[:, :0])
        paired.append(error(without - losses(X if scorer == CPV else X[:, [k]])))
        for copy in range(2):  # ten copies of five features
            rng, permuted = np.random.default_rng(np.random.SeedSequence(7, spawn_key=(k, copy, 1))), X.copy()
            permuted[:, [k]] = rng.permutation(permuted[:, [k]])
            of_no_use.append(without - losses(permuted if scorer == CPV else permuted[:, [k]]))
    floor = np.mean([np.average(saved, weights=weight) ** 2 + error(saved) ** 2 for saved in of_no_use])
    expected = np.sqrt((1 + 3 / 2) * np.array(paired) ** 2 + 2 * floor)
    np.testing.assert_allclose(found.standard_error, expected)
    np.testing.assert_allclose(found.z, found.values / expected)
    np.testing.assert_allclose(found.p_value, ndtr(-found.z))
    plain = debias.score(None, X, y, scorer, estimator=model, cv=3, random_state=7, sample_weight=weight)
    assert (plain.values == found.values).all()
    assert plain.standard_error is None
    np.testing.assert_allclose(plain.details["standard_error"], paired)


@pytest.mark.thorough
def test_workers_and_classes_change_nothing_of_it():
    X, y = drawn(80, 1)
    options = {"estimator": DecisionTreeClassifier(max_depth=2), "cv": 2, "population": True, "random_state": 0}
    one, two = (debias.score(None, X, y > 0, CPV, n_jobs=jobs, **options) for jobs in (1, 2))
    assert (one.standard_error == two.standard_error).all()
    assert (one.interval()["lower"] < one.values).all()


def test_estimators_that_overfit_are_told_of():
    X, y = drawn(120, 2)
    overfits, smooth = DecisionTreeRegressor(random_state=0), DecisionTreeRegressor(min_samples_leaf=20)
    options = {"cv": 3, "population": True, "random_state": 0}
    with pytest.warns(DebiasWarning, match="has no use, adds 1.* overfits less"):
        debias.score(None, X, y, MPV, estimator=overfits, **options)
    assert not debias.score(None, X, y, MPV, estimator=smooth, **options).warnings


@pytest.mark.parametrize("scorer", [MPV, CPV])
def test_columns_of_one_value_change_no_standard_error(scorer):
    X, y = drawn(60, 0)
    constants = np.column_stack([X, np.ones(60), np.full(60, -2.0)])
    options = {"estimator": LinearRegression(), "cv": 3, "population": True, "random_state": 7}
    few, more = (debias.score(None, table, y, scorer, **options) for table in (X, constants))
    np.testing.assert_allclose(more.standard_error[:5], few.standard_error)
    alone = debias.score(None, np.ones((60, 2)), y, scorer, **options)  # nothing varies, and nothing is of use
    np.testing.assert_allclose(alone.values, 0, atol=1e-12)


def test_population_is_yes_or_no():
    with pytest.raises(CompositionError, match="population must be True or False, not 'yes'"):
        debias.score(None, *drawn(40, 2), CPV, population="yes")


def coverage(n, n_sets, seed):
    """Return the share of data sets whose interval contains the truth, for each feature, and the mean widths."""
    covers, widths = [], []
    for number in range(n_sets):
        X, y = drawn(n, [seed, number])
        interval = debias.score(
            None, X, y, CPV, estimator=LinearRegression(), cv=5, population=True, random_state=number
        ).interval()
        covers.append((interval["lower"] <= TRUTH) & (interval["upper"] >= TRUTH))
        widths.append(interval["upper"] - interval["lower"])
    return np.mean(covers, axis=0), np.mean(widths, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("n", [300, 1000, 5000])
def test_intervals_cover_what_a_feature_saves_in_the_population(n):
    covers, widths = coverage(n, 300, n)
    assert (covers >= 0.93 - 2.5 * np.sqrt(0.93 * 0.07 / 300)).all()
    assert (widths[3:] < 30 / n).all()  # of no use: narrow, of order 1 / n


@pytest.mark.thorough
def test_few_intervals_cover_it():
    covers, _ = coverage(300, 4, 0)
    assert covers.mean() >= 0.75  # of 20 intervals
