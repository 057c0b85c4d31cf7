"""The benchmark of the comparison of windows: its streams, its page, and that it goes on where it stopped."""

import io

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from debias_bench import change
from debias_bench.change import MODELS, NULL, POWER, X_ONLY, Setting


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(change, "N_TRAINING_ROWS", 300)
    for cached in (change._empty, change._window):
        cached.cache_clear()
    yield
    for cached in (change._empty, change._window):
        cached.cache_clear()


@pytest.mark.thorough
def test_a_run_writes_a_page_and_goes_on_where_it_stopped(tmp_path, monkeypatch):
    settings = [Setting(NULL, "nothing", 3, 2, 60, weighted=True), Setting(POWER, "gone", 8, 8, 60, factor=0.0)]
    monkeypatch.setattr(change, "settings", lambda: settings)
    messages = Console(file=io.StringIO())
    change.run(tmp_path, messages, repeats=1)
    before = (tmp_path / "monitor.trials.jsonl").read_text()
    page = change.run(tmp_path, messages, repeats=2)
    after = (tmp_path / "monitor.trials.jsonl").read_text()
    assert after.startswith(before)
    assert len(after.splitlines()) == 1 + 2 * 2 * len(MODELS)
    assert "| gone | XGBoost | 2 | 1.000 (0.354) |" in page
    assert (tmp_path / "monitor.md").read_text() == page
    figures = pd.read_csv(tmp_path / "monitor.csv")
    assert (figures["trials"] == 2).all()
    assert set(figures["outcome"]) == set(change.outcome(settings[0], MODELS[0], 0))


def test_windows_are_the_same_for_the_same_trial_and_others_for_another():
    setting = Setting(X_ONLY, "moved", 2, 2, 50, drift="mean", sizes=True, day_slope=0.5, day_mean=0.5)
    one = change._window(setting, MODELS[0], 0, True)
    change._window.cache_clear()
    again, other = (change._window(setting, MODELS[0], number, True) for number in (0, 1))
    assert (one[0].s == again[0].s).all()
    assert one[0].n_rows != other[0].n_rows or (one[0].s != other[0].s).any()
    assert {period.n_rows for period in one} <= set(range(25, 76))


@pytest.mark.parametrize("drift", ["mean", "correlation", "spread", "rare"])
def test_a_drift_changes_x_as_it_is_described(drift):
    X = change._rows(np.random.default_rng(0), 20_000, drift)
    assert X.shape == (20_000, change.N_FEATURES)
    means, spreads = np.zeros(8), np.ones(8)
    correlation = 0.0
    if drift == "mean":
        means[:2] = 0.5
    elif drift == "spread":
        spreads[:] = 1.3
    elif drift == "correlation":
        correlation = 0.6
    else:
        corner = ((X[:, 0] > 0) & (X[:, 1] > 0)).mean()
        assert corner == pytest.approx(0.5, abs=0.015)  # 3 / (3 + 3) instead of 1 / 4
        return
    np.testing.assert_allclose(X.mean(axis=0), means, atol=0.04)
    np.testing.assert_allclose(X.std(axis=0), spreads, atol=0.04)
    assert np.corrcoef(X[:, 0], X[:, 4])[0, 1] == pytest.approx(correlation, abs=0.03)
