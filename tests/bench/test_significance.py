"""The benchmark of the tests: its estimates from the definition, its page, and that it goes on where it stopped."""

import io

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from debias_bench import refits, significance
from debias_bench.awkward_settings import awkward_settings
from debias_bench.significance import all_settings


def test_rates_are_counted_over_noise():
    p = [np.array([0.01, 0.04, 0.2]), np.array([0.3, 0.004, 0.9])]
    relevant = np.array([True, False, False])
    adjusted = [np.array([0.03, 0.08, 0.2]), np.array([0.5, 0.01, 0.9])]
    estimates = significance.level_estimates([(p[0], adjusted[0], relevant), (p[1], adjusted[1], relevant)])
    assert estimates["P(p <= 0.05)"] == pytest.approx((0.5, 0.0))  # one of two noise features in either data set
    assert estimates["P(p <= 0.01)"] == pytest.approx((0.25, 0.25))
    assert estimates["highest feature at .05"][0] == 1.0  # the second feature, in both
    assert estimates["FWER"] == pytest.approx((0.5, 0.5))
    assert estimates["power"] == pytest.approx((0.5, 0.5))
    # Benjamini-Hochberg: adjusted .03, .06, .2 finds the relevant one; .45, .012, .9 finds one of noise.
    assert estimates["FDR"] == pytest.approx((0.5, 0.5))


def test_every_setting_has_a_name_of_its_own_and_a_model_that_is_tested():
    settings = all_settings()
    assert len({setting.name for setting in settings}) == len(settings) == 45
    assert sum(setting.held_out for setting in settings) == 22


@pytest.mark.thorough
@pytest.mark.parametrize("setting", awkward_settings(), ids=lambda setting: setting.name)
def test_awkward_settings_are_tested(setting):
    """Where nothing could be tested, p-values would be 1 and error rates 0."""
    p, adjusted, relevant = significance.one_data_set(setting, 0, 0)
    assert p.shape == adjusted.shape == relevant.shape
    assert (p < 1).any()
    assert relevant.any() == (setting.name.startswith(("50 features", "beside signals")))


@pytest.mark.thorough
def test_a_run_writes_a_page_and_goes_on_where_it_stopped(tmp_path, monkeypatch):
    chosen = ("E0, XGBoost, held out, naive", "E0, conservative")
    few = [setting for setting in all_settings() if setting.name in chosen]
    monkeypatch.setattr(significance, "all_settings", lambda: few)
    monkeypatch.setattr(significance, "_cost_lines", lambda: ["- not timed"])
    messages = Console(file=io.StringIO())
    significance.run(tmp_path, messages, repeats=1)
    before = (tmp_path / "significance.trials.jsonl").read_text()
    page = significance.run(tmp_path, messages, repeats=3)
    after = (tmp_path / "significance.trials.jsonl").read_text()
    assert after.startswith(before)
    assert len(after.splitlines()) == 1 + 2 * 3
    assert "| E0, conservative | 3 |" in page
    estimates = pd.read_csv(tmp_path / "significance.csv")
    assert set(estimates["setting"]) == set(chosen)
    assert "(significance.md)" in (tmp_path / "index.md").read_text()


@pytest.mark.thorough
def test_power_beside_refits_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(refits, "DESIGNS", ("E3",))
    monkeypatch.setattr(refits, "power", lambda *_: {m: {"found": 1.0, "seconds": 2.0} for m in ("frozen", "PIMP")})
    page = refits.run(tmp_path, Console(file=io.StringIO()), repeats=2)
    assert "| E3 | 2 | 1.000 (0.000) | 1.000 (0.000) | 0.000 (0.000) | 1.000 |" in page
    assert set(pd.read_csv(tmp_path / "refits.csv")["setting"]) == {"E3"}


def test_unfinished_settings_are_named_on_the_page():
    assert significance.unfinished({"a": 3, "b": 2}, 3) == [
        "The run was stopped before all 3 data sets of these settings were simulated: b: 2."
    ]
    assert significance.unfinished({"a": 3}, 3) == []
