"""The benchmark of the tests: its estimates from the definition, its page, and that it goes on where it stopped."""

import io

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from debias_bench import significance
from debias_bench.significance_settings import settings


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


@pytest.mark.thorough
def test_a_run_writes_a_page_and_goes_on_where_it_stopped(tmp_path, monkeypatch):
    few = [setting for setting in settings() if setting.name in ("E0, XGBoost, held out, naive", "E0, conservative")]
    monkeypatch.setattr(significance, "settings", lambda: few)
    monkeypatch.setattr(significance, "POWER", ("E3",))
    monkeypatch.setattr(significance, "_cost_lines", lambda: ["- not timed"])
    monkeypatch.setattr(
        significance, "power", lambda *_: {m: {"found": 1.0, "seconds": 2.0} for m in ("frozen", "PIMP")}
    )
    messages = Console(file=io.StringIO())
    significance.run(tmp_path, messages, repeats=1)
    before = (tmp_path / "significance.trials.jsonl").read_text()
    page = significance.run(tmp_path, messages, repeats=3)
    after = (tmp_path / "significance.trials.jsonl").read_text()
    assert after.startswith(before)
    assert len(after.splitlines()) == 1 + 2 * 3 + 2
    assert "| E0, conservative | 3 |" in page
    assert "| E3 | 2 | 1.000 (0.000) | 1.000 (0.000) | 0.000 (0.000) | 1.000 |" in page
    estimates = pd.read_csv(tmp_path / "significance.csv")
    assert set(estimates["setting"]) == {*(setting.name for setting in few), "power, E3"}
    assert "(significance.md)" in (tmp_path / "index.md").read_text()


def test_unfinished_settings_are_named_on_the_page():
    assert significance.unfinished({"a": 3, "b": 2}, 3) == [
        "The run was stopped before all 3 data sets of these settings were simulated: b: 2."
    ]
    assert significance.unfinished({"a": 3}, 3) == []
