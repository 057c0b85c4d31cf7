"""The benchmark of the daily check: its faults, its page, and that it uses the policy of the recipe."""

import io
import re
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from debias_bench import days

RECIPES = (Path(__file__).parents[2] / "docs/recipes.md").read_text()


def test_the_policy_and_the_options_are_those_of_the_recipe():
    (policy,) = re.findall(r"<!-- job policy -->\n```toml\n(.*?)```", RECIPES, flags=re.S)
    rules = tomllib.loads(policy)["history"]
    assert rules.pop("min_reference_periods") <= 30  # of which there are enough whenever the study checks
    assert rules == days.POLICY
    (job,) = re.findall(r"<!-- job -->\n```sh\n(.*?)```", RECIPES, flags=re.S)
    assert f"--recent {days.RECENT} --looks {days.LOOKS}" in job
    assert "--reference" not in job


@pytest.mark.thorough
def test_a_run_writes_a_page_and_goes_on_where_it_stopped(tmp_path, monkeypatch):
    for name, value in (
        ("FIRST_CHECK", 16),
        ("N_CHECKS", 2),
        ("BEGIN", 16),
        ("END", 18),
        ("WITHIN", 1),
        ("N_ROWS", 30),
    ):
        monkeypatch.setattr(days, name, value)
    monkeypatch.setattr(days, "MODELS", ("LightGBM",))
    monkeypatch.setattr(days, "FAULTS", {name: days.FAULTS[name] for name in ("category", "repeated")})
    messages = Console(file=io.StringIO())
    days.run(tmp_path, messages, repeats=1)
    before = (tmp_path / "days.trials.jsonl").read_text()
    page = days.run(tmp_path, messages, repeats=2)
    after = (tmp_path / "days.trials.jsonl").read_text()
    assert after.startswith(before)
    assert len(after.splitlines()) == 1 + 2 + 2
    assert (tmp_path / "days.md").read_text() == page
    assert "| LightGBM | 2 |" in page
    (row,) = (
        line for line in page.splitlines() if line.startswith("| a third of the rows come twice | LightGBM | 1 |")
    )
    assert "not found" not in row.split("|")[4], page
    figures = pd.read_csv(tmp_path / "days.csv")
    assert figures["fault"].tolist() == ["nothing", "nothing", "category", "repeated"]
    assert (figures[["gate failed", "gate not judged", "gate passed"]].sum(axis=1) == figures["checks"]).all()


@pytest.mark.parametrize("fault", days.FAULTS)
def test_a_fault_changes_what_it_says_and_nothing_else(fault):
    (X, y), (broken, its_y) = (
        days._day(np.random.default_rng(0), days.BEGIN + 40, "LightGBM", which) for which in (None, fault)
    )
    if fault == "repeated":
        assert len(broken) == len(its_y) == days.N_ROWS + days.N_ROWS // 3
        pd.testing.assert_frame_equal(broken[: days.N_ROWS], X)
        assert broken.duplicated().sum() == days.N_ROWS // 3
        return
    if fault == "season":
        np.testing.assert_allclose(broken["sensor"] - X["sensor"], 1.5)
        np.testing.assert_allclose(broken["twin"] - X["twin"], 0.9)
    else:
        np.testing.assert_array_equal(its_y, y)  # the world is as it was
    changed = [name for name in X if not (broken[name].astype(str) == X[name].astype(str)).all()]
    assert changed == list(days.FAULTS[fault][1])
    checks = {
        "permuted": lambda: np.array_equal(np.sort(broken["sensor"]), np.sort(X["sensor"])),
        "reversed": lambda: (broken["speed"] == -X["speed"]).all(),
        "cents": lambda: np.allclose(broken["price"], 100 * X["price"]),
        "stuck": lambda: broken["sensor"].nunique() == 1,
        "category": lambda: 0.15 < (broken["shop"] == "online").mean() < 0.45,
        "season": lambda: True,
    }
    assert checks[fault]()


def test_delays_count_from_the_first_check_from_which_on_all_are_red():
    def stream(red, first):
        return {"psi": red, "psi first": first}

    late = stream([False, True, False, True, True, True, True], [None, "luck", None, *["sensor"] * 4])
    assert days._of_fault([late], "stuck", "psi") == ["3", "1.00", "0.20"]
    gone = stream([True] * 6 + [False], ["sensor"] * 6 + [None])
    assert days._of_fault([late, gone], "stuck", "psi") == ["not found", "0.75", "0.09"]
    assert days._of_fault([stream([True] * 6, ["luck"] * 6)], "stuck", "psi") == ["0", "1.00", "1.00"]
