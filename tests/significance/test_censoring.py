"""Tests of the warning that censoring depends on a feature."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import xgboost
from scipy.stats import binomtest

import debias
from debias.significance.censoring import dependence_of_censoring, features_of_censoring
from support.survival import rows


def times(rng, n=300, of_event=0.0, of_censoring=0.0):
    """Return four columns, and times of which events follow the first one, and censoring the second."""
    X = rng.normal(size=(n, 4))
    time = rng.exponential(np.exp(-of_event * X[:, 0]))
    end = rng.exponential(np.exp(-of_censoring * X[:, 1]))
    return X, np.minimum(time, end), time <= end


def found(X, time, event, feature=None, weight=None):
    feature = np.arange(X.shape[1]) if feature is None else feature
    weight = np.ones(len(X)) if weight is None else weight
    return features_of_censoring(X, feature, time, event, weight).tolist()


@pytest.mark.parametrize("of_event", [0.0, 1.5])
def test_features_on_which_only_events_depend_are_not_named(of_event):
    rng = np.random.default_rng(0)
    named = sum(bool(found(*times(rng, of_event=of_event))) for _ in range(400))
    assert binomtest(named, 400, 0.01, alternative="greater").pvalue > 1e-3


@pytest.mark.parametrize("shape", [lambda x: x, np.abs], ids=["line", "U"])
def test_features_on_which_censoring_depends_are_named(shape):
    rng = np.random.default_rng(1)
    for _ in range(20):
        X = rng.normal(size=(300, 4))
        time, end = rng.exponential(np.exp(-X[:, 0])), rng.exponential(np.exp(-1.5 * shape(X[:, 1])))
        assert found(X, np.minimum(time, end), time <= end) == [1]


def test_columns_of_one_feature_are_named_once_and_missing_values_and_weights_are_allowed():
    rng = np.random.default_rng(2)
    X, time, event = times(rng, of_censoring=1.5)
    assert found(X, time, event, feature=np.array([0, 1, 1, 2])) == [1]
    weight = rng.integers(1, 3, len(X)).astype(float)
    X[rng.random(len(X)) < 0.1, 1] = np.nan
    assert found(X, time, event, weight=weight) == [1]
    assert found(X, time, np.ones(len(X), dtype=bool)) == []  # nothing is censored


def test_the_statistic_of_two_groups_is_that_of_the_log_rank_test_of_censoring():
    """Ranks of two groups are two numbers; observed less expected censored rows are counted at each time."""
    rng = np.random.default_rng(3)
    group = rng.integers(0, 2, 200).astype(float)
    time, end = rng.exponential(size=200), rng.exponential(np.exp(-0.8 * group))
    until, event = np.minimum(time, end), time <= end
    observed_less_expected = sum(group[until == t].sum() - group[until >= t].mean() for t in until[~event])
    hazard = np.array([sum(1 / (until >= t).sum() for t in until[~event] if t <= each) for each in until])
    # Centred ranks of a binary column are 100 times the column less its mean, and the residuals sum to 0.
    terms = (group - group.mean()) * (~event - hazard)
    expected = abs(observed_less_expected) / np.sqrt((terms**2).sum())
    z = dependence_of_censoring(group[:, None], until, event, np.ones(200))
    assert z.shape == (2, 1)
    assert z[0, 0] == pytest.approx(expected)


def audited(seed, censoring_by_noise, n=1000, **given):
    X, y = rows(2 * n, seed, censoring_by_noise=censoring_by_noise)
    signed = np.where(y["event"], y["time"], -y["time"])
    settings = {"objective": "survival:cox", "max_depth": 4, "eta": 0.1, "nthread": 1, "seed": 0}
    model = xgboost.train(settings, xgboost.DMatrix(X[:n], label=signed[:n]), 60)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train = (X[:n], signed[:n])
        audit = debias.audit(model, X[n:], signed[n:], rows="held-out", train=train, random_state=0, **given)
    return audit, [str(each.message) for each in caught if "censoring depends" in str(each.message)]


def test_an_audit_names_a_feature_that_only_decides_who_is_censored():
    audit, told = audited(0, 2.0)
    frame = audit.to_frame()
    assert (frame.loc["f1", "verdict"] == "informative") or (str(frame.loc["f1", "dependence"]) == "dependent")
    (text,) = told
    assert text.startswith("censoring depends on f1: how long rows are followed differs with the values. A feature")
    assert text in audit.warnings
    assert audited(0, 0.0)[1] == []
    assert audited(0, 2.0, test=None)[1] == []
