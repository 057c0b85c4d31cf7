"""The concordance index against its definition, and as the metric of permutation importance."""

import numpy as np
import pytest
import xgboost

import debias
from debias_plugins.scorers.metrics import concordance
from support import survival


@pytest.mark.parametrize("weighted", [False, True])
def test_concordance_is_its_definition_with_ties_in_time_and_risk(weighted):
    rng = np.random.default_rng(0)
    time, event, risk = rng.integers(0, 15, 60).astype(float), rng.random(60) < 0.6, rng.integers(0, 9, (3, 60)) / 3
    weight = rng.integers(0, 3, 60).astype(float) if weighted else np.ones(60)
    expected = [survival.concordance(event, time, each, weight) for each in risk]
    np.testing.assert_allclose(concordance(time, event, risk, weight if weighted else None), expected, rtol=1e-12)


def test_weights_are_repeated_rows():
    rng = np.random.default_rng(1)
    time, event, risk = rng.integers(1, 15, 40).astype(float), rng.random(40) < 0.6, rng.random((1, 40))
    times = rng.integers(0, 4, 40)
    again = np.repeat(np.arange(40), times)
    weighted = concordance(time, event, risk, times.astype(float))
    np.testing.assert_allclose(weighted, concordance(time[again], event[again], risk[:, again]), rtol=1e-12)


def test_without_comparable_pairs_there_is_no_concordance():
    assert np.isnan(concordance(np.ones(4), np.ones(4, bool), np.ones((1, 4)))).all()


def test_concordance_is_the_metric_of_models_of_survival():
    X, y = survival.rows(300, 0)
    signed = np.where(y["event"], y["time"], -y["time"])
    model = xgboost.train({"objective": "survival:cox", "nthread": 1}, xgboost.DMatrix(X[:200], signed[:200]), 10)
    scores = debias.score(model, X[200:], signed[200:], "permutation", rows="held-out", random_state=0)
    risk = model.predict(xgboost.DMatrix(X[200:])).astype(float)
    expected = survival.concordance(y["event"][200:], y["time"][200:], risk, np.ones(100))
    assert scores.details["metric"] == "concordance"
    np.testing.assert_allclose(scores.details["baseline"], expected, rtol=1e-12)
    assert scores.values.argmax() == 0


def test_metrics_of_numbers_and_p_values_by_rows_are_refused():
    X, y = survival.rows(200, 0)
    signed = np.where(y["event"], y["time"], -y["time"])
    model = xgboost.train({"objective": "survival:cox", "nthread": 1}, xgboost.DMatrix(X, signed), 3)
    X, y = survival.rows(100, 1)
    signed = np.where(y["event"], y["time"], -y["time"])
    with pytest.raises(
        debias.plugin.CompositionError, match="risks of censored times, which metric 'r2' cannot compare"
    ):
        debias.score(model, X, signed, "permutation(metric='r2')", rows="held-out")
    with pytest.raises(debias.plugin.CompositionError, match="compares rows of survival times with each other"):
        debias.score(model, X, signed, "permutation(p_values=True)", rows="held-out")
