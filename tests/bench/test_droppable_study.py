"""The study of what dropped features cost: its losses, its table, and that a run goes on where it stopped."""

import io

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from sklearn.datasets import load_diabetes
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import brier_score_loss, log_loss
from xgboost import XGBClassifier, XGBRegressor

from debias_bench import droppable as study


@pytest.fixture
def small(monkeypatch):
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    monkeypatch.setattr(study, "data_set", lambda name: (X, y.to_numpy(), False))
    monkeypatch.setattr(study, "DATA_SETS", dict.fromkeys(("one", "two")))
    monkeypatch.setattr(study, "MODELS", ("XGBoost",))
    monkeypatch.setattr(
        study, "_model", lambda kind, is_class, seed: XGBRegressor(n_estimators=15, max_depth=2, random_state=seed)
    )
    return X, y


def test_losses_are_those_of_scikit_learn():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    labels = (y > 140).to_numpy().astype(np.int64)
    forest, booster = (
        RandomForestClassifier(9, random_state=0).fit(X, labels),
        XGBClassifier(n_estimators=5).fit(X, labels),
    )
    of_forest = 2 * brier_score_loss(labels, forest.predict_proba(X)[:, 1])  # both classes
    assert study.loss(forest, X, labels).mean() == pytest.approx(of_forest)
    assert study.loss(booster, X, labels).mean() == pytest.approx(log_loss(labels, booster.predict_proba(X)), rel=1e-6)
    shares = DummyClassifier(strategy="prior").fit(X, labels).predict_proba(X)
    assert study.loss_of_constant(labels, True, "XGBoost").mean() == pytest.approx(log_loss(labels, shares))
    of_constant = 2 * brier_score_loss(labels, shares[:, 1])
    assert study.loss_of_constant(labels, True, "forest").mean() == pytest.approx(of_constant)
    assert study.loss_of_constant(y.to_numpy(), False, "forest").mean() == pytest.approx(y.var(ddof=0))


@pytest.mark.thorough
def test_a_trial_applies_every_way_to_the_same_division(small):
    first = study.trial("one, XGBoost", 0)
    again = study.trial("one, XGBoost", 0)
    assert set(first["scores"]) == set(study.WAYS)
    for way, found in first["scores"].items():
        assert {**found, "seconds": 0} == {**again["scores"][way], "seconds": 0}
        assert (found["dropped"] == 0) <= (found["lost"] == 0)
    assert first["n"] == [176, 88, 178, 10]


@pytest.mark.thorough
def test_a_run_writes_a_page_and_goes_on_where_it_stopped(small, tmp_path, monkeypatch):
    messages = Console(file=io.StringIO())
    page = study.run(tmp_path, messages, repeats=1)
    monkeypatch.setattr(study, "trial", None)  # would fail if it were called
    assert study.run(tmp_path, messages, repeats=1) == page
    lines = pd.read_csv(tmp_path / "droppable.csv")
    assert len(lines) == 2 * len(study.WAYS)
    for way, label in study.WAYS.items():
        dropped = lines[lines["way"] == way].groupby("data")["dropped"].mean()
        assert f"| {label} | {dropped.mean():.2f} ({dropped.std() / np.sqrt(2):.2f}) |" in page


def test_means_and_their_errors_are_over_data_sets():
    trials = [
        {
            "design": f"{name}, XGBoost",
            "repeat": k,
            "scores": {"droppable": {"dropped": d, "lost": x, "t": t, "seconds": 1.0}},
        }
        for name, k, d, x, t in [("a", 0, 0.2, 0.06, 2.0), ("a", 1, 0.4, 0.06, 1.0), ("b", 0, 0.5, -0.02, -3.0)]
    ]
    line = study.table(trials, ["droppable"]).splitlines()[-1]
    # Means of the data sets: dropped .3 and .5, lost 6 and -2, violations 1 and 0, beyond chance 1/2 and 0.
    expected = ["`droppable`", "0.40 (0.10)", "2.0 (4.0)", "6.0", "0.500 (0.500)", "0.250 (0.250)", "1.0"]
    assert [cell.strip() for cell in line.strip("| ").split("|")] == expected
