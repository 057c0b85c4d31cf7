import csv
import re
import subprocess
import time
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from debias_bench import speed, speed_cases

CHECKOUT = Path(__file__).parent.parent.parent
RESULTS = CHECKOUT / "docs" / "results"
MOST_CHANGES = 10
"""So many commits may change kernels before the speed is measured again."""


def test_the_ratio_is_ours_over_the_rivals_for_all_rows(monkeypatch):
    clock = {"ours": iter([9.0, 2.0, 6.0, 4.0]), "rival": iter([9.0, 1.0, 1.0, 1.0])}  # the first warms up
    monkeypatch.setattr(speed, "_time", lambda call: next(clock[call()]))
    case = speed_cases.Case("name", lambda: "ours", "rival's name", lambda: "rival", "0.6", scale=4.0)
    row = speed._timed(case, repeats=3)
    assert row == ("name", "4.000 s", "rival's name", "4.000 s", "1 (0.5 to 1.5)", "0.6")


def test_a_growth_exponent_is_the_slope_of_logarithms(monkeypatch):
    clock = {10: 1.0, 20: 4.0, 40: 16.0}
    calls = [(size, lambda size=size: size) for size in clock]
    monkeypatch.setattr(speed, "_time", lambda call: clock[call()])
    assert speed.grown("n", "setting", calls, "", 3)[1] == "exponent 2.00, at the end 2.00"


def test_the_page_is_not_much_older_than_the_kernels():
    measured = re.search(r"commit (\w+), ", (RESULTS / "speed.md").read_text(encoding="utf-8"))[1]
    git = ("git", "-C", str(CHECKOUT))
    if subprocess.run([*git, "cat-file", "-e", f"{measured}^{{commit}}"], capture_output=True).returncode:
        pytest.skip("this checkout has no history")
    since = [*git, "rev-list", "--count", "--no-merges", f"{measured}..HEAD", "--", "*.pyx", "*.pxd", "*.h"]
    n_changes = int(subprocess.run(since, capture_output=True, text=True, check=True).stdout)
    assert n_changes <= MOST_CHANGES, "the kernels changed: run debias bench speed --out docs/results"


@pytest.mark.thorough
def test_one_busy_core_of_two_is_half_of_them():
    def spin():
        end = time.process_time() + 0.3
        while time.process_time() < end:
            pass

    assert 0 < speed._share_of_cores(spin) <= 0.6  # less where others use the machine


@pytest.mark.thorough
def test_the_cases_of_histories_add_a_new_day_each_time(monkeypatch):
    drawn = speed_cases.numbers
    monkeypatch.setattr(speed_cases, "ROWS_OF_A_DAY", 300)
    monkeypatch.setattr(speed_cases, "numbers", lambda n, p, seed=0: drawn(min(n, 300 * speed_cases.DAYS), p, seed))
    cases = speed_cases.histories(full=False)
    case = next(cases)
    case.ours()
    case.ours()
    history = case.ours.args[0]
    assert history.periods["n_rows"].tolist() == [300, 300]
    assert len(case.rival()) == 300
    cases.close()
    assert not history.path.exists()


@pytest.mark.slow
def test_all_cases_run_and_are_written(monkeypatch, tmp_path):
    drawn = speed_cases.classification
    monkeypatch.setattr(
        speed_cases, "classification", lambda n, p, seed=0: drawn(min(n, 4000 if p == 20 else 400), p, seed)
    )
    numbers = speed_cases.numbers
    monkeypatch.setattr(speed_cases, "ROWS_OF_A_DAY", 50)
    monkeypatch.setattr(speed_cases, "numbers", lambda n, p, seed=0: numbers(min(n, 400), p, seed))
    shown = StringIO()
    speed.run(Console(file=shown, width=200), repeats=1, memory=False, out=tmp_path)
    page = (tmp_path / "speed.md").read_text()
    with open(tmp_path / "speed.csv", encoding="utf-8") as file:
        head, *rows = list(csv.reader(file))
    assert head == list(speed.HEADINGS)
    for name in ("forest.predict", "permutation_importance", "TreeExplainer", "pred_leaf", "exponent", "of 2 cores"):
        assert name in page
        assert name in shown.getvalue()
        assert any(name in cell for row in rows for cell in row)
    ratios = [float(row[4].split()[0]) for row in rows if row[4]]
    assert len(ratios) >= 9
    assert np.isfinite(ratios).all()
