"""The benchmark of the tests on held-out rows: its trials repeat, and its page has the rates of each test."""

import io

import numpy as np
import pytest
from rich.console import Console

from debias_bench import held_out
from debias_bench.held_out import TESTS, settings, trial


def test_every_design_has_a_name_of_its_own_and_says_what_is_relevant():
    names = [setting.name for setting in settings()]
    assert len(set(names)) == len(names)
    for setting in settings():
        sample = setting.draw(np.random.default_rng(0), 60)
        assert len(sample.X) == len(sample.y) == 60
        assert sample.relevant.any() == (setting.table == "power" or "signals" in setting.name)


def test_a_trial_gives_the_same_rates_again():
    (setting,) = [each for each in settings() if each.name == "additive, 50 rows"]
    first = trial(setting, 0)
    np.testing.assert_equal(first, trial(setting, 0))
    assert first.keys() == TESTS.keys()
    assert all(0 <= rate <= 1 for rates in first.values() for rate in rates)


@pytest.mark.thorough
def test_a_run_writes_a_page(tmp_path, monkeypatch):
    chosen = [each for each in settings() if each.name in ("normal, 100 rows", "additive, 50 rows")]
    monkeypatch.setattr(held_out, "settings", lambda: chosen)
    page = held_out.run(tmp_path, Console(file=io.StringIO()), repeats=2)
    assert "| normal, 100 rows | 2 | " in page
    assert "| additive, 50 rows | 2 | " in page
