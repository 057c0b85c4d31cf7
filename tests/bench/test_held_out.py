"""The benchmark of the tests on held-out rows: its trials repeat, and its page has the rates of each test."""

import io

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from debias_bench import held_out
from debias_bench.held_out import TESTS, settings, trial


def test_every_design_has_a_name_of_its_own_and_says_what_is_relevant():
    names = [setting.name for setting in settings()]
    assert len(set(names)) == len(names) == 20
    for setting in settings():
        sample = setting.draw(np.random.default_rng(0), 60)
        assert len(sample.X) == len(sample.y) == 60
        assert sample.relevant.any()
        assert sample.noise is None or not (sample.noise & sample.relevant).any()


@pytest.mark.thorough
def test_a_trial_gives_the_same_rates_again_and_each_test_takes_part():
    (setting,) = [each for each in settings() if each.name == "additive, 50 rows"]
    first = trial(setting, 1)
    np.testing.assert_equal(first, trial(setting, 1))
    assert set(first) == set(TESTS)
    assert all(0 <= rate <= 1 for rates in first.values() for rate in rates)


TRIALS = [
    {"design": "d", "repeat": 0, "scores": {"residuals": [0.5, 0.0], "a": [0.9, 1.0], "b": [0.7, 0.0], "c": [0.4, 0]}},
    {"design": "d", "repeat": 1, "scores": {"residuals": [0.7, 0.0], "a": [0.9, 1.0], "b": [0.8, 0.0]}},
    {"design": "e", "repeat": 0, "scores": {"residuals": [0.0, 1.0], "b": {"refused": "no"}}},
]


def test_the_best_other_test_is_the_best_of_those_that_hold_the_level():
    """a finds most, and noise in each data set; b is .15 above the default in these two sets, by .2 and .1."""
    assert not held_out.holds(np.array([1.0, 1.0]))
    name, (difference, error) = held_out.behind(TRIALS, "d", ["a", "b", "c"])
    assert name == "b"
    assert (difference, error) == pytest.approx((-0.15, 0.05))
    assert held_out.behind(TRIALS, "e", ["b"]) is None
    name, (difference, error) = held_out.behind(TRIALS, "d", ["c"])  # on the data set of c alone
    assert (name, difference) == ("c", pytest.approx(0.1))
    assert np.isnan(error)


@pytest.mark.thorough
def test_a_run_writes_a_page(tmp_path, monkeypatch):
    chosen = [each for each in settings() if each.name in ("class of 5 %, 100 rows", "additive, 50 rows")]
    monkeypatch.setattr(held_out, "settings", lambda: chosen)
    page = held_out.run(tmp_path, Console(file=io.StringIO()), repeats=2)
    assert "| additive, 50 rows |" in page
    assert "; 2 |" in page
    lines = pd.read_csv(tmp_path / "held-out.csv")
    assert set(lines["test"]) == set(TESTS)
    assert (lines["data_sets"] == 2).all()
