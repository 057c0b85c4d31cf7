"""Responses of losses that compare rows, against their definitions."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor

from debias import RowsError
from debias.data.response import encode
from debias.plugin import extract
from debias.trees.ranking_objectives import Pairwise
from debias.trees.survival_objectives import CoxObjective, cumulative_hazard

COLUMNS = CoxObjective(signed=False)


def survival(n, seed, ties=False):
    """Return times, events and weights, with ties among events and censored rows if asked for."""
    rng = np.random.default_rng(seed)
    time = rng.integers(1, n // 4, n).astype(float) if ties else rng.exponential(size=n)
    return time, rng.random(n) < 0.6, rng.integers(1, 4, n).astype(float)


def cox_response(objective, y, margin=0.0, weight=1.0):
    n = len(y)
    return objective.joint_response(y, np.full((n, 1), margin), np.full(n, weight), None)[:, 0]


@pytest.mark.parametrize("ties", [False, True])
def test_response_of_cox_is_the_negative_gradient_of_breslows_partial_likelihood(ties):
    time, event, weight = survival(40, 0, ties)
    margin = np.random.default_rng(1).normal(size=40)

    def likelihood(margin):
        at_risk = time[None, :] >= time[:, None]  # row i: the rows at risk at the time of row i
        log_risk = np.log((at_risk * weight * np.exp(margin)).sum(axis=1))
        return (weight * event * (margin - log_risk)).sum()

    step = 1e-6
    gradient = [(likelihood(margin + step * e) - likelihood(margin - step * e)) / (2 * step) for e in np.eye(40)]
    y = np.column_stack([time, event])
    got = COLUMNS.joint_response(y, margin[:, None], weight, None)[:, 0]
    np.testing.assert_allclose(weight * got, gradient, atol=1e-7)
    assert abs(weight @ got) < 1e-12


def test_cumulative_hazard_is_that_of_nelson_and_aalen():
    time, event = np.array([2.0, 1.0, 3.0, 2.0, 2.0]), np.array([True, True, False, True, False])
    hazard = cumulative_hazard(time, event, np.ones(5), np.ones(5))
    np.testing.assert_allclose(hazard, [1 / 5 + 2 / 4, 1 / 5, 1 / 5 + 2 / 4, 1 / 5 + 2 / 4, 1 / 5 + 2 / 4])


def test_constant_margins_cancel_and_weights_are_repeated_rows():
    time, event, weight = survival(30, 2, ties=True)
    y = np.column_stack([time, event])
    np.testing.assert_allclose(cox_response(COLUMNS, y, margin=3.0), cox_response(COLUMNS, y), atol=1e-12)
    weighted = COLUMNS.joint_response(y, np.zeros((30, 1)), weight, None)[:, 0]
    repeats = np.repeat(np.arange(30), weight.astype(int))
    np.testing.assert_allclose(weighted[repeats], cox_response(COLUMNS, y[repeats]), atol=1e-12)


def test_rows_without_a_weight_change_nothing():
    time, event, weight = survival(30, 3)
    weight[10:] = 0
    y = np.column_stack([time, event])
    got = COLUMNS.joint_response(y, np.zeros((30, 1)), weight, None)[:10]
    np.testing.assert_allclose(got, COLUMNS.joint_response(y[:10], np.zeros((10, 1)), weight[:10], None), atol=1e-12)


def test_signed_times_are_times_and_events():
    time, event, _ = survival(30, 4)
    signed = np.where(event, time, -time)[:, None]
    assert (cox_response(CoxObjective(), signed) == cox_response(COLUMNS, np.column_stack([time, event]))).all()


def test_cox_refuses_a_response_without_events_and_columns_in_another_order():
    with pytest.raises(RowsError, match="none of these rows has an event"):
        cox_response(CoxObjective(), -np.ones((5, 1)))
    time, event, _ = survival(30, 5)
    with pytest.raises(RowsError, match="the time in its first column, and 1 for an event"):
        COLUMNS.check(np.column_stack([event, time]))


def forest_of_risks():
    """Return averaged trees whose leaf values are risks of an event."""
    ensemble = extract(RandomForestRegressor(3, random_state=0).fit(np.arange(40.0)[:, None], np.arange(40.0)))
    return replace(ensemble, objective=COLUMNS, mean_values=False)


def test_averaged_trees_take_times_and_events_in_columns_or_fields():
    time, event, _ = survival(40, 6)
    columns = np.column_stack([time, event])
    expected = cox_response(COLUMNS, columns)[:, None]
    fields = np.array(list(zip(event, time, strict=True)), dtype=[("status", bool), ("days", float)])
    for y in (columns, fields, pd.DataFrame(columns)):
        response = encode(y, forest_of_risks(), 40)
        np.testing.assert_array_equal(response.values, expected)
        np.testing.assert_array_equal(response.target, columns)


def test_a_response_of_survival_times_in_another_form_is_refused():
    ensemble = forest_of_risks()
    with pytest.raises(RowsError, match="must have 2 values per row"):
        encode(np.ones(40), ensemble, 40)
    two_times = np.zeros(40, dtype=[("start", float), ("end", float)])
    with pytest.raises(RowsError, match="y has the fields start, end"):
        encode(two_times, ensemble, 40)
    missing = np.column_stack([np.full(40, np.nan), np.ones(40)])
    with pytest.raises(RowsError, match="missing or infinite in 40 rows"):
        encode(missing, ensemble, 40)


def test_the_first_response_of_a_loss_that_compares_rows_is_that_of_all_rows():
    y, query = np.array([[2.0], [0.0], [1.0], [1.0], [0.0]]), np.array([0, 0, 0, 1, 1])
    loss = Pairwise()
    found = loss.first_response(loss.target_of(y, 1), np.zeros(1), query=query)
    assert np.array_equal(found, loss.joint_response(y, np.zeros((5, 1)), np.ones(5), query))
    assert loss.why_unscored(has_queries=True) is None
    assert "pass debias.Dataset(X, y, qid=...), the query of each row" in loss.why_unscored(has_queries=False)
