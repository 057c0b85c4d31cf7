"""The benchmark of rare classes: its errors, its page, and that it goes on where it stopped."""

import io

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from debias_bench import rare_classes
from debias_bench.rare_classes import MODELS, Setting, rate


def test_errors_are_over_models_or_binomial_whichever_are_larger():
    alike = np.array([[True] * 10, [False] * 10])
    assert rate(alike) == (0.5, pytest.approx(0.5))  # two models, not twenty sets
    apart = np.array([[True] * 5 + [False] * 5] * 2)
    assert rate(apart) == (0.5, pytest.approx(np.sqrt(0.25 / 20)))
    nothing = rate(np.zeros((2, 10), dtype=bool))
    assert nothing == (0.0, pytest.approx(1 / 20))


@pytest.mark.thorough
def test_a_run_writes_a_page_and_goes_on_where_it_stopped(tmp_path, monkeypatch):
    settings = [Setting(20, MODELS[0], 500), Setting(10, MODELS[3], 500)]
    monkeypatch.setattr(rare_classes, "settings", lambda: settings)
    monkeypatch.setattr(rare_classes, "N_TRAINING_ROWS", 300)
    any_found = rare_classes.any_found
    monkeypatch.setattr(rare_classes, "any_found", lambda setting, number: any_found(setting, number, sets=3))
    messages = Console(file=io.StringIO())
    rare_classes.run(tmp_path, messages, repeats=1)
    before = (tmp_path / "rare-classes.trials.jsonl").read_text()
    page = rare_classes.run(tmp_path, messages, repeats=2)
    after = (tmp_path / "rare-classes.trials.jsonl").read_text()
    assert after.startswith(before)
    assert len(after.splitlines()) == 1 + 2 * 2
    assert "| 1:20 | 500 | 25 | forest, balanced | 6 | " in page
    figures = pd.read_csv(tmp_path / "rare-classes.csv")
    assert list(figures["test"].unique()) == list(rare_classes.TESTS)
    assert (figures["sets"] == 6).all()


@pytest.mark.thorough
def test_sets_with_too_few_rows_of_the_class_count_as_sets_in_which_a_t_test_finds_nothing(monkeypatch):
    """Two rows of the class, by the way they are drawn."""
    monkeypatch.setattr(rare_classes, "N_TRAINING_ROWS", 300)
    found = rare_classes.any_found(Setting(100_000, MODELS[0], 200), 0, sets=2)
    assert [*found["effective"], *found["normal"]] == [False] * 4
    assert all(each.dtype == bool for each in found.values())
