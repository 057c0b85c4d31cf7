"""Standard errors of the reported importance on unseen rows: a jackknife by hand, and the level of the sentence."""

import dataclasses

import numpy as np
import pytest
from scipy.stats import false_discovery_control, t
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor

import debias
from debias.api.prepared import prepared_members
from debias.rows.request import Request
from debias.scorers import native_unseen
from debias.scorers.native import reported_importance

COEFFICIENTS = np.array([1.0, 0.7, 0.5, 0.4, 0.3, 0.3, 0.2, 0.2])


def drawn(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, COEFFICIENTS.size))
    return X, X @ COEFFICIENTS + 2 * rng.normal(size=n)


def fitted(library, X, y):
    if library == "forest":
        return RandomForestRegressor(15, max_depth=4, max_features=3, random_state=0, n_jobs=1).fit(X, y)
    xgboost = pytest.importorskip("xgboost")
    settings = {"n_estimators": 15, "max_depth": 3, "learning_rate": 0.3, "importance_type": "total_gain", "n_jobs": 1}
    return xgboost.XGBRegressor(**settings).fit(X, y)


def audited(model, X, y, **given):
    return debias.audit(model, X, y, [], rows="held-out", test=None, **given)


@pytest.mark.thorough
@pytest.mark.parametrize("library", ["forest", "xgboost"])
def test_the_error_is_the_jackknife_of_shares_without_each_group_of_rows(library):
    X, y = drawn(300, 0)
    model = fitted(library, X[:200], y[:200])
    X, y = X[200:], y[200:]
    group = np.empty(100, dtype=int)
    group[np.random.default_rng(0).permutation(100)] = np.arange(100) % 20

    def shares(rows):
        figures = debias.score(model, X[rows], y[rows], "native_unseen", rows="held-out").values
        return figures / np.maximum(figures, 0).sum()

    whole, without = shares(group >= 0), np.array([shares(group != g) for g in range(20)])
    expected = np.sqrt(0.95 * ((without - whole) ** 2).sum(axis=0))
    audit = audited(model, X, y)
    np.testing.assert_allclose(audit.reported_unseen_error, expected, rtol=1e-5)
    np.testing.assert_allclose(audit.inflation_p, t.sf((audit.reported - whole) / expected, 19), rtol=1e-4)
    adjusted = false_discovery_control(audit.inflation_p)
    np.testing.assert_array_equal(audit.inflation_shown, adjusted <= 0.05)
    np.testing.assert_array_equal(audited(model, X, y).reported_unseen_error, audit.reported_unseen_error)
    again = debias.Audit.from_json(audit.to_json())
    np.testing.assert_array_equal(again.reported_unseen_error, audit.reported_unseen_error)
    assert again.summary() == audit.summary()


def test_blocks_stay_together_and_few_of_them_give_no_error():
    X, y = drawn(300, 0)
    model = fitted("forest", X[:200], y[:200])
    X, y = np.repeat(X[200:240], 5, axis=0), np.repeat(y[200:240], 5)
    apart = audited(model, X, y).reported_unseen_error
    together = audited(model, debias.Dataset(X, y, blocks=np.repeat(np.arange(40), 5)), None).reported_unseen_error
    assert np.median(together / apart) > 1.5, "repeated rows say nothing new"
    few = audited(model, debias.Dataset(X, y, blocks=np.arange(200) % 19), None)
    assert few.reported_unseen_error is few.inflation_p is few.inflation_shown is None
    too_high = [line for line in few.summary() if "too high: " in line]
    says = "The shares on these rows have no standard error here, so the differences may be chance."
    assert bool(too_high) == (says in few.summary())


def test_a_difference_within_its_error_is_no_bias_and_does_not_fail_a_gate():
    X, y = drawn(300, 0)
    audit = audited(fitted("forest", X[:200], y[:200]), X[200:], y[200:])
    reported = np.array([0.5, 0.3, 0.1, 0.1, 0, 0, 0, 0.0])
    unseen = np.array([0.85, 0.1, 0.05, 0, 0, 0, 0, 0.0])

    def of(*p):
        """Return the audit with p-values of the second and the fourth feature, whose reported shares are too high."""
        p_value = np.ones(8)
        p_value[[1, 3]] = p
        figures = {"reported": reported, "reported_unseen": unseen, "reported_unseen_error": np.full(8, 0.03)}
        return dataclasses.replace(audit, **figures, inflation_p=p_value)

    def told(*p):
        return [line.split(" ")[3] for line in of(*p).summary() if line.startswith("Reported too high: ")]

    def gate(limit, *p):
        return of(*p).check({"max_inflation": limit}).results[-1].status

    names = audit.tested_scores.feature_names
    assert told(0.0062, 0.0124) == [names[1], names[3]]  # at most 0.05 / 8 and 0.1 / 8, Benjamini and Hochberg
    assert told(0.0062, 0.0126) == [names[1]]
    assert told(0.0063, 0.0126) == []
    assert of(0.1, 0.1).summary()[-1].endswith("beyond the error of these rows.")
    assert (gate(0.15, 0.0062, 1), gate(0.15, 0.0063, 1), gate(0.25, 0.001, 1)) == ("failed", "not judged", "passed")


@pytest.mark.slow
@pytest.mark.parametrize(("library", "n"), [("forest", 60), ("forest", 300), ("xgboost", 60), ("xgboost", 300)])
def test_sentences_about_a_bias_that_is_none_are_rare(library, n):
    """A model of many rows reports what it does on unseen rows, so every sentence about a bias would be wrong."""
    model, wrong, without, n_sets = fitted(library, *drawn(20_000, 1)), 0, 0, 200
    for seed in range(n_sets):
        audit = audited(model, *drawn(n, [seed, 2]))
        wrong += any("too high: " in line for line in audit.summary())
        no_error = dataclasses.replace(audit, reported_unseen_error=None, inflation_p=None)
        without += any("too high: " in line for line in no_error.summary())
    assert wrong / n_sets <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / n_sets)
    assert without / n_sets > 0.2, "without the error chance is called a bias, so the test can fail"


def test_groups_in_several_passes_give_the_same_errors(monkeypatch):
    X, y = drawn(300, 0)
    model = fitted("xgboost", X[:200], y[:200])
    at_once = audited(model, X[200:], y[200:]).reported_unseen_error
    monkeypatch.setattr("debias.scorers.unseen_error.SUMS_KEPT", 3 * 15 * 15 * 7)
    np.testing.assert_allclose(audited(model, X[200:], y[200:]).reported_unseen_error, at_once, rtol=1e-5)


@pytest.mark.parametrize("kind", ["classes", "two classes", "numbers", "several numbers", "out of bag"])
def test_figures_of_averaged_trees_without_a_group_are_those_of_the_other_rows(kind, monkeypatch):
    monkeypatch.setattr(native_unseen, "LEAVES_KEPT", 1000)  # in several passes
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    y = {"several numbers": X[:, :3] + 1, "classes": rng.integers(0, 3, 300), "two classes": X[:, 0] > 0}.get(
        kind, X[:, 0]
    )
    forest = RandomForestClassifier if "classes" in kind else RandomForestRegressor
    model = forest(11, max_depth=5, random_state=0, n_jobs=1).fit(X, y)
    weight, of_row = rng.integers(0, 3, 300) * 0.7, rng.integers(-1, 20, 300)
    if kind == "out of bag":
        given = {"rows": "oob"}
    else:
        X, given = X + rng.normal(size=X.shape), {"rows": "held-out", "sample_weight": weight}
    (prepared,) = prepared_members(Request.of(model, X, y, **given), [])
    figures = native_unseen.figures_of(prepared.ensemble, reported_importance(model))
    rows = prepared.rows
    of_row = of_row if rows.is_kept is None else of_row[rows.is_kept]  # rows of weight 0 are left out
    found = figures.without_groups(rows, of_row, 20)
    for g in range(20):
        others = np.where((of_row == g) | (of_row < 0), 0.0, rows.weight)
        np.testing.assert_allclose(
            found[:, g], figures(dataclasses.replace(rows, weight=others)), rtol=1e-9, atol=1e-12
        )


@pytest.mark.filterwarnings("ignore:few rows have nearly all of the weight:debias.DebiasWarning")  # they do here
def test_groups_that_weigh_more_than_others_leave_fewer_degrees_of_freedom():
    X, y = drawn(300, 0)
    model = fitted("forest", X[:200], y[:200])
    weight = np.ones(100)
    weight[3] = 20.0
    audit = audited(model, X[200:], y[200:], sample_weight=weight)
    group = np.empty(100, dtype=int)
    group[np.random.default_rng(0).permutation(100)] = np.arange(100) % 20
    share = np.bincount(group, weights=weight) / weight.sum()
    shares = audit.reported_unseen / np.maximum(audit.reported_unseen, 0).sum()
    excess = audit.reported / audit.reported.sum() - shares
    expected = t.sf(excess / audit.reported_unseen_error, 1 / (share**2).sum() - 1)
    known = audit.reported_unseen > 0  # others are set to 0 there
    np.testing.assert_allclose(audit.inflation_p[known], expected[known], rtol=1e-4)


@pytest.mark.filterwarnings("ignore:few rows have nearly all of the weight:debias.DebiasWarning")  # they do here
@pytest.mark.parametrize("library", ["forest", "gradient boosting", "xgboost"])
def test_one_row_with_all_of_the_weight_has_no_error(library):
    X, y = drawn(300, 0)
    model = GradientBoostingRegressor(n_estimators=10) if library == "gradient boosting" else None
    model = fitted(library, X[:200], y[:200]) if model is None else model.fit(X[:200], y[:200])
    weight = np.ones(100)
    weight[3] = 1e13
    audit = audited(model, X[200:], y[200:], sample_weight=weight)
    assert audit.reported_unseen_error is audit.inflation_p is None
    debias.Audit.from_json(audit.to_json())
