"""The benchmark of growth: sizes that grow as they say, the same number of permutations at each, and its page."""

import io

import pandas as pd
import pytest
from rich.console import Console

from debias_bench import growth, speed


def test_a_run_writes_the_exponents_of_all_cases(tmp_path, monkeypatch):
    clock = {k: float(k) ** 2 for k in (10, 20, 40)}
    monkeypatch.setattr(speed, "_time", lambda call: clock[call()])
    calls = [(k, lambda k=k: k) for k in clock]
    monkeypatch.setattr(growth, "cases", lambda: [("rows", "5 trees", calls), ("trees", "50 rows", calls)])
    page = growth.run(tmp_path / "new", Console(file=io.StringIO()), repeats=1)
    assert page == (tmp_path / "new" / "growth.md").read_text()
    assert page.count("| 2.00, at the end 2.00 | 10: 100.000 s, 20: 400.000 s, 40: 1600.000 s |") == 2
    figures = pd.read_csv(tmp_path / "new" / "growth.csv")
    assert figures["what"].tolist() == ["growth in rows: 5 trees", "growth in trees: 50 rows"]


@pytest.mark.thorough
def test_an_audit_has_the_size_it_is_named_by_and_all_permutations():
    audit = growth._audit(120, n_features=7, n_trees=4, n_classes=3, max_depth=2)()
    assert audit.share.size == 7
    assert audit.tested_scores.n_rows <= 120
    assert audit.tested_scores.settings["n_trees"] == 4
    for name in ("mdi_oob", "honest_effects"):
        assert audit.scores[name].details["test"]["n_permutations"] == 200
