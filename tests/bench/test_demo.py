from pathlib import Path

import pytest
from click.testing import CliRunner

from debias.cli import main
from debias_bench.demo import UNIQUE, demo_audits

PAGE = (Path(__file__).parents[2] / "docs" / "shell.md").read_text()


@pytest.fixture(scope="module")
def forest():
    """The audit of the first model of the demo."""
    return next(iter(demo_audits()))


@pytest.mark.thorough
def test_demo_shows_what_each_library_ranks_too_high_and_writes_a_report(tmp_path):
    done = CliRunner().invoke(main, ["demo", "--jobs", "1", "--html", str(tmp_path / "report.html")])
    assert done.exit_code == 0, done.output
    assert done.stdout.count("=> noise_") == 3
    told = " ".join(done.stdout.split())
    shown = PAGE[PAGE.index("From its output:") :].split("```text")[1].split("```")[0]
    assert " ".join(shown.split()) in told  # the page shows what it prints
    for library in ("RandomForestRegressor", "XGBRegressor", "LGBMRegressor"):
        assert library in done.stdout
    assert str(tmp_path / "report.html") in done.stdout.replace("\n", "")
    assert "RandomForestRegressor" in (tmp_path / "report.html").read_text()


@pytest.mark.thorough
def test_the_forest_ranks_a_column_of_noise_above_age(forest):
    reported = dict(zip(forest.tested_scores.feature_names, forest.reported, strict=True))
    assert reported[UNIQUE] > reported["age"]
    assert sum(value > reported[UNIQUE] for value in reported.values()) == 4  # fifth of twelve
    assert forest.to_frame().loc[UNIQUE, "share"] < 0.001
    assert (forest.tested_scores.rows, forest.provenance["status"]) == ("oob", "proven")


@pytest.mark.thorough
def test_the_same_seed_gives_the_same_numbers(forest):
    assert forest.to_json() == next(iter(demo_audits(n_jobs=2))).to_json()
