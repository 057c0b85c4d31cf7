"""Rows of weight 0 are never evaluated: their responses change no test."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor

import debias


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    y = X[:, 0] + 0.2 * X[:, 1] + rng.normal(size=400)
    weight = (rng.random(200) < 0.7).astype(float)
    garbage = np.where(weight > 0, y[200:], 1e4 * rng.standard_cauchy(200))
    return X, y, weight, garbage


@pytest.fixture(scope="module")
def model(rows):
    X, y, _, _ = rows
    return GradientBoostingRegressor(n_estimators=20, max_depth=2, random_state=0).fit(X[:200], y[:200])


TESTS = {
    "permutation": ("mdi_oob", {"test": "permutation"}),
    "shap_oob": ("shap_oob(p_values=True)", {}),
    "residuals": ("mdi_oob", {"test": "residuals"}),
    "naive": ("mdi_oob", {"test": "naive"}),
}


@pytest.mark.parametrize("name", TESTS)
def test_responses_of_rows_without_weight_change_no_test(name, model, rows):
    X, y, weight, garbage = rows
    scorer, settings = TESTS[name]
    found = [
        debias.score(
            model, X[200:], response, scorer, sample_weight=weight, rows="held-out", random_state=0, **settings
        )
        for response in (y[200:], garbage)
    ]
    for field in ("values", "z", "p_value", "selected"):
        np.testing.assert_allclose(*(np.asarray(getattr(each, field), dtype=float) for each in found), rtol=1e-9)


def test_rows_without_weight_keep_their_responses_in_bags_too(rows):
    X, y, _, _ = rows
    weight = np.r_[np.zeros(60), np.ones(340)]
    garbage = np.where(weight > 0, y, 1e4 * np.sin(np.arange(400.0)))
    forest = RandomForestRegressor(30, random_state=0).fit(X, y, sample_weight=weight)
    found = [
        debias.score(forest, X, response, test="permutation", sample_weight=weight, random_state=0)
        for response in (y, garbage)
    ]
    np.testing.assert_allclose(found[0].z, found[1].z, rtol=1e-9)
    np.testing.assert_array_equal(found[0].p_value, found[1].p_value)


def test_rows_without_weight_do_not_count_in_naive_standard_errors_out_of_bag(rows):
    """It was trained on all rows, so that those of weight 0 are in its bags. The error is that of the others."""
    X, y, _, _ = rows
    weight = (np.arange(400) % 4 == 0).astype(float)
    forest = RandomForestRegressor(30, min_samples_leaf=3, random_state=0).fit(X, y)
    with pytest.warns(debias.DebiasWarning, match="ignores that trees are grown"):
        found = debias.score(forest, X, y, test="naive", sample_weight=weight, rows="oob")
    assert found.details["test"]["n_independent"] == found.n_rows == 100
    phi = debias.contributions(forest, X, y, sample_weight=weight, rows="oob").to_numpy()
    assert not phi[weight == 0].any()
    np.testing.assert_allclose(found.standard_error, 10 * phi[weight > 0].std(axis=0, ddof=1), rtol=1e-9)


@pytest.mark.parametrize("least", [1e-6, 0.05, 1.0])
def test_rows_of_which_few_have_nearly_all_of_the_weight_are_warned_of(least, recwarn):
    """Kish's number of rows of equal weight: (sum of w)^2 / sum of w^2."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = X[:, 0] + rng.normal(size=600)
    model = GradientBoostingRegressor(n_estimators=5, max_depth=2, random_state=0).fit(X[:300], y[:300])
    weight = np.where(np.arange(300) < 10, 1.0, least)
    debias.audit(model, X[300:], y[300:], sample_weight=weight, rows="held-out", random_state=0)
    told = [str(each.message) for each in recwarn if "nearly all of the weight" in str(each.message)]
    count = weight.sum() ** 2 / (weight**2).sum()
    assert bool(told) == (count < 30)
    assert not told or f"these 300 rows tell as much as about {count:.0f} rows of equal weight" in told[0]
