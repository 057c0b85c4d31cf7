"""The martingale residual, as a response, against a response weighted by the inverse probability of censoring."""

import numpy as np
import pytest

from debias.trees.survival_objectives import CoxObjective
from support import survival

N = 20_000


def z_of_covariance(feature, response):
    """Return the covariance of a feature and a response over its standard error."""
    products = (feature - feature.mean()) * (response - response.mean())
    return products.mean() / (products.std() / np.sqrt(len(products)))


def residual(y):
    columns = np.column_stack([y["time"], y["event"]])
    return CoxObjective(signed=False).joint_response(columns, np.zeros((len(y), 1)), np.ones(len(y)), None)[:, 0]


def weighted_log_time(y):
    """Return the log of the time of an event over the Kaplan-Meier probability of being uncensored until then."""
    order = np.argsort(y["time"])
    event = y["event"][order]
    at_risk = np.arange(len(y), 0, -1)
    uncensored_before = np.concatenate([[1.0], np.cumprod(1 - ~event / at_risk)[:-1]])
    response = np.empty(len(y))
    response[order] = np.log(y["time"][order]) * event / uncensored_before
    return response


def test_residuals_of_debias_are_the_definition():
    _, y = survival.rows(60, 0)
    y["time"] = np.round(y["time"], 1)  # ties
    np.testing.assert_allclose(residual(y), survival.residuals(y), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_a_feature_that_drives_censoring_only_has_no_covariance_with_the_residual(seed):
    X, y = survival.rows(N, seed, censoring_by_noise=1.5)
    assert z_of_covariance(X[:, 0], residual(y)) > 20
    assert abs(z_of_covariance(X[:, 1], residual(y))) < 3.5
    assert z_of_covariance(X[:, 1], weighted_log_time(y)) < -4  # its weights are those of the marginal censoring


def test_within_rows_of_high_risk_the_residual_of_all_rows_depends_on_censoring():
    """The limit that docs/methods.md states: a residual that is computed within the node would not."""
    X, y = survival.rows(N, 0, censoring_by_noise=1.5)
    inside = X[:, 0] > 0.5
    assert z_of_covariance(X[inside, 1], residual(y)[inside]) < -4
    assert abs(z_of_covariance(X[inside, 1], residual(y[inside]))) < 3.5
