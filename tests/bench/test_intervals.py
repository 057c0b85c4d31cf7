"""The benchmark of intervals: its page, its figures, and the rival that splits the sample."""

import io

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from sklearn.linear_model import LinearRegression

from debias_bench import intervals
from debias_bench.intervals import OfModel, OfPopulation, Plan, halves, population


def test_halves_are_independent_means_of_squared_errors():
    """With a constant column of no use both losses are of the same predictions, on different rows."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=200), np.ones(200)])
    y = X[:, 0] + rng.normal(size=200)
    saved, error = halves(X, y, LinearRegression(), 0)
    assert abs(saved[1]) < 3 * error[1]
    assert error[1] == pytest.approx(np.sqrt(2 * 2 / 100), rel=0.4)  # squared normal errors have variance 2
    assert saved[0] == pytest.approx(1, abs=3 * error[0])


@pytest.mark.parametrize("learner", intervals.LEARNERS)
def test_the_best_prediction_saves_what_the_designs_say(learner):
    """By least squares on the terms of the design, with and without each feature."""
    X, y, best = population(learner, 100_000, np.random.default_rng(0))
    for k, saved in enumerate(best):
        others = np.delete(X, k, axis=1)

        def loss(X, k=None):
            if learner == "least squares":
                terms = X
            else:
                columns = [j for j in range(5) if j != k]
                of = dict(zip(columns, X.T, strict=True))
                terms = [np.ones(len(X))]
                terms += [np.sin(3 * of[0])] if 0 in of else []
                terms += [of[1] > 0] if 1 in of else []
                terms += [of[2]] if 2 in of else []
                terms += [of[2] * of[3]] if {2, 3} <= of.keys() else []
                terms = np.column_stack(terms)
            return ((y - LinearRegression().fit(terms, y).predict(terms)) ** 2).mean()

        assert loss(others, k) - loss(X) == pytest.approx(saved, abs=0.015)


@pytest.mark.thorough
def test_a_run_writes_a_page_and_its_figures(tmp_path, monkeypatch):
    settings = [
        OfModel("normal", "XGBoost", 100),
        OfPopulation("least squares", 60),
        Plan("normal", "XGBoost", "held-out", 300),
    ]
    monkeypatch.setattr(intervals, "settings", lambda: settings)
    monkeypatch.setattr(intervals, "MANY_ROWS", 2000)
    monkeypatch.setattr(intervals, "SETS", 2)
    intervals._effects.cache_clear()
    page = intervals.run(tmp_path, Console(file=io.StringIO()), repeats=2)
    intervals._effects.cache_clear()
    assert "| normal | XGBoost | 100 | 2 | `mdi_oob` | " in page
    assert "| least squares | 60 | 2 | halves | " in page
    assert "| normal | XGBoost | held-out | 300 | 2 | " in page
    figures = pd.read_csv(tmp_path / "intervals.csv")
    assert set(figures["method"]) == {"mdi_oob", "ablation loss", "oob_loss", "ours", "paired", "halves", "plan"}
    covers = figures["figure"].str.startswith("covers") | figures["figure"].str.startswith("power")
    assert figures.loc[covers, "value"].between(0, 1).all()
