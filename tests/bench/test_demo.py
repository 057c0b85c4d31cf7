from pathlib import Path

from click.testing import CliRunner

from debias.benchmarks.demo import UNIQUE, demo_audits
from debias.cli import main

README = (Path(__file__).parents[2] / "README.md").read_text()


def test_demo_shows_what_each_library_ranks_too_high_and_writes_a_report(tmp_path):
    done = CliRunner().invoke(main, ["demo", "--jobs", "1", "--html", str(tmp_path / "report.html")])
    assert done.exit_code == 0, done.output
    assert done.stdout.count("=> noise_") == 3
    told = " ".join(done.stdout.split())
    shown = README[README.index("From its output:") :].split("```text")[1].split("```")[0]
    assert " ".join(shown.split()) in told  # the README shows what it prints
    for library in ("RandomForestRegressor", "XGBRegressor", "LGBMRegressor"):
        assert library in done.stdout
    assert str(tmp_path / "report.html") in done.stdout.replace("\n", "")
    assert "RandomForestRegressor" in (tmp_path / "report.html").read_text()


def test_the_forest_ranks_a_column_of_noise_above_age():
    forest = next(iter(demo_audits()))
    reported = dict(zip(forest.main.feature_names, forest.reported, strict=True))
    assert reported[UNIQUE] > reported["age"]
    assert sum(value > reported[UNIQUE] for value in reported.values()) == 4  # fifth of twelve
    assert forest.table.loc[UNIQUE, "share"] < 0.001
    assert (forest.main.rows, forest.provenance["status"]) == ("oob", "proven")


def test_the_same_seed_gives_the_same_numbers():
    first, second = next(iter(demo_audits())), next(iter(demo_audits(n_jobs=2)))
    assert first.to_json() == second.to_json()
