"""The study of folds: its estimates, its page, and that it goes on where it stopped."""

import io

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from debias_bench import folds
from debias_bench.folds import METHODS, SPLITTERS, UNEQUAL, Setting, estimates_of, one_data_set, rate


def trial(adjusted, mean=0.0, error=1.0):
    """Return a trial in which every method gives these adjusted p-values."""
    return {
        "adjusted": dict.fromkeys(METHODS, adjusted),
        "z": [2.0] * 8,
        "mean": [mean] * 8,
        "error": [error] * 8,
        "nadeau_bengio": [error / 2] * 8,
        "naive_error": [error / 4] * 8,
        "freedom": 4,
    }


def test_numbers_are_rates_over_data_sets():
    setting = Setting("XGBoost", "5 folds", 200, signals=True)
    found, missed = [0.01, 0.01, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9], [0.01, 0.9, 0.9, 0.03, 0.9, 0.9, 0.9, 0.9]
    # means of 2, -2 and errors of 1: Student's t with 4 degrees of freedom reaches 2.78, half of it does not reach 2
    estimates = estimates_of(setting, [trial(found, 2.0), trial(missed, -2.0)])
    assert estimates["power, sum"] == (pytest.approx(0.5), pytest.approx(1 / 6))
    assert estimates["FWER, sum"] == (0.5, pytest.approx(0.5))
    assert estimates["variance of z"][0] == 4
    assert estimates["coverage, error, relevant"][0] == 1
    assert estimates["coverage, nadeau_bengio, relevant"][0] == 0
    assert estimates["ratio, error, noise"][0] == pytest.approx(1 / np.sqrt(8))
    noise = estimates_of(Setting("XGBoost", "5 folds", 200), [trial(found, 1.0), trial(missed, -1.0)])
    assert noise["FWER, sum"][0] == 1  # the same features are noise here
    assert "power, sum" not in noise


def test_a_rate_has_its_standard_error():
    assert rate(np.array([True, False, False, False])) == (0.25, pytest.approx(0.25))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "setting", [Setting("XGBoost", "2 folds", 60), Setting("LightGBM", UNEQUAL, 120, signals=True)]
)
def test_a_data_set_has_fixed_numbers(setting):
    first = one_data_set(setting, 3)
    assert first == one_data_set(setting, 3)
    assert set(first["adjusted"]) == set(METHODS)
    assert (first["error"] is None) == (setting.folds == "2 folds")


@pytest.mark.thorough
def test_a_run_writes_a_page_and_goes_on_where_it_stopped(tmp_path, monkeypatch):
    settings = [Setting("XGBoost", "3 folds", 60), Setting("forest", "5 periods", 60, signals=True)]
    monkeypatch.setattr(folds, "settings", lambda: settings)
    monkeypatch.setattr(folds, "N_PERMUTATIONS", 19)
    messages = Console(file=io.StringIO())
    folds.run(tmp_path, messages, repeats=1)
    before = (tmp_path / "folds.trials.jsonl").read_text()
    page = folds.run(tmp_path, messages, repeats=2)
    after = (tmp_path / "folds.trials.jsonl").read_text()
    assert after.startswith(before)
    assert len(after.splitlines()) == 1 + 2 * 2
    assert page.count("| XGBoost, 3 folds, n = 60 | 2 | ") == 2
    assert page.count("| forest, 5 periods, n = 60, signals beside | 2 | ") == 3
    estimates = pd.read_csv(tmp_path / "folds.csv")
    assert set(estimates["setting"]) == {setting.name for setting in settings}
    assert (estimates["data_sets"] == 2).all()


def test_every_setting_of_the_tables_has_folds_that_exist():
    assert all(setting.folds in {*SPLITTERS, UNEQUAL} for setting in folds.settings())
    assert len({setting.name for setting in folds.settings()}) == len(folds.settings())
