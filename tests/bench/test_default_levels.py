"""Error rates of the default test: each setting is tested, and a page is written."""

import io

import numpy as np
import pytest
from rich.console import Console

from debias_bench import default_levels, significance, significance_settings
from debias_bench.awkward_settings import awkward_settings
from debias_bench.dependence import further_settings


def test_every_setting_has_a_name_of_its_own():
    names = [each.name for each in [*significance_settings.settings(), *awkward_settings(), *further_settings()]]
    assert len(set(names)) == len(names) == 64
    assert len(default_levels.chosen_settings()) == 40


@pytest.mark.thorough
@pytest.mark.parametrize("setting", awkward_settings(), ids=lambda setting: setting.name)
def test_awkward_settings_are_tested(setting):
    """Where nothing could be tested, p-values would be 1 and error rates 0."""
    p, adjusted, relevant = significance.one_data_set(setting, 0, 0, of="auto")
    assert p.shape == adjusted.shape == relevant.shape
    assert (p < 1).any()
    assert relevant.any() == setting.name.startswith(("50 features", "beside signals"))


def test_the_sentence_over_all_settings_counts_data_sets_with_noise():
    sets = [([0.01, 0.2], [True, False]), ([0.2, 0.05], [True, False]), ([0.9, 0.04], [False, False])]
    trials = [
        {"design": "d", "repeat": k, "scores": {"frozen": {"p": p, "adjusted": p, "relevant": relevant}}}
        for k, (p, relevant) in enumerate(sets)
    ]
    assert default_levels._together(trials) == (
        "Over all settings, any noise feature was found in 0.667 (0.333) of 3 data sets."
    )


@pytest.mark.thorough
def test_a_run_writes_a_page(tmp_path, monkeypatch):
    (setting,) = [each for each in awkward_settings() if each.name.startswith("5 % of class 1, 100 rows")]
    monkeypatch.setattr(default_levels, "chosen_settings", lambda: [setting])
    page = default_levels.run(tmp_path, Console(file=io.StringIO()), repeats=2)
    assert "| 5 % of class 1, 100 rows, held out | 2 |" in page


def test_the_default_on_held_out_rows_is_not_the_test_of_scores():
    (setting,) = [each for each in significance_settings.settings() if each.name == "E0, XGBoost, held out"]
    residuals, scores = (significance.one_data_set(setting, 0, 0, of=of)[0] for of in ("auto", "response"))
    assert not np.array_equal(residuals, scores)
