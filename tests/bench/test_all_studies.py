"""`debias bench --all` makes every page, or says why not."""

import io
import re
from importlib import import_module
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner
from rich.console import Console

from debias import DebiasError
from debias.cli import main
from debias_bench import all_studies, studies
from debias_bench.all_studies import FIRST, PUBLISHED, SHORTER, make_all
from debias_bench.bench import MEASUREMENTS, STUDY_NAMES, WITHOUT_PAGE
from debias_bench.make_page import SIMULATED
from debias_bench.measurement import Measurement
from debias_bench.runner import machine_line

RESULTS = Path(__file__).parent.parent.parent / "docs" / "results"
NAMES = sorted({*STUDY_NAMES, *MEASUREMENTS} - {*WITHOUT_PAGE})


@pytest.fixture
def asked(monkeypatch):
    """What studies were asked for, of a runner that only writes pages; "li-depth" fails, and so does "li-chip"."""
    calls = []

    def make_page(name, out, messages, **options):
        calls.append((name, options))
        if name == "li-chip":
            raise DebiasError("no matrix")
        if name == "li-depth":
            raise ImportError("No module named 'theirs'")
        (out / f"{name}.md").write_text(f"# The page of {name}\n\n*Written by the runner. {machine_line()}.*\n")
        (out / f"{name}.csv").write_text("")

    monkeypatch.setattr(all_studies, "make_page", make_page)
    return calls


def made(names, out, **options):
    return {each.study: each.reason for each in make_all(names, out, Console(file=io.StringIO()), **options)}


def test_a_study_that_fails_is_named_with_its_reason_and_the_others_run(asked, tmp_path):
    found = made(["hong", "li-chip", "li-depth", "deng"], tmp_path, quick=False)
    assert found == {
        "hong": "", "li-chip": "no matrix", "li-depth": "ImportError: No module named 'theirs'", "deng": "",
    }  # fmt: skip
    assert "| [The page of deng](deng.md) | 2" in (tmp_path / "index.md").read_text()


@pytest.mark.thorough
def test_the_shell_makes_every_page_prints_a_line_for_each_and_says_by_its_exit_code_that_some_failed(asked, tmp_path):
    done = CliRunner().invoke(main, ["bench", "--all", "--quick", "--out", str(tmp_path)])
    assert done.exit_code == 3, done.output
    assert sorted(name for name, _ in asked) == NAMES
    assert "li-chip: not made: no matrix" in done.stdout.splitlines()
    assert f"{len(NAMES) - 2} of {len(NAMES)} pages made" in done.stdout


def test_there_is_no_page_of_results_that_is_not_made():
    assert {page.stem for page in RESULTS.glob("*.md")} - {"index"} <= {*NAMES}


def test_a_quick_run_says_so_on_its_pages_and_does_not_replace_others(asked, tmp_path):
    quick, published = tmp_path / "quick", tmp_path / "published"
    made(["hong", "deng-partial", "droppable"], quick, quick=True)
    assert asked[0][1]["repeats"] == 1
    assert asked[1][1]["scorers"] == SHORTER["deng-partial"]
    assert [options["first"] for _, options in asked] == [None, None, FIRST["droppable"]]
    lines = (quick / "hong.md").read_text().splitlines()
    assert (lines[0], lines[2][:18]) == ("# The page of hong", "*From a quick run ")
    assert ", quick run |" in (quick / "index.md").read_text()
    made(["hong"], quick, quick=True)  # continues
    made(["hong"], quick, quick=False)  # more repeats of the same trials
    assert asked[-1][1].keys().isdisjoint({"scorers", "first"})
    assert "quick run" not in (quick / "hong.md").read_text()
    made(["hong", "deng"], published, quick=False)
    with pytest.raises(DebiasError, match=r"would replace them: hong\. Pass another --out"):
        made(["merits", "hong"], published, quick=True)


def test_measurements_of_time_are_not_repeated_when_a_run_continues(asked, tmp_path):
    for options in ({}, {}, {"restart": True}):
        made(["growth"], tmp_path, quick=True, **options)
    assert [name for name, _ in asked] == ["growth", "growth"], "the second run found a page of this commit and day"
    page = tmp_path / "growth.md"
    page.write_text(page.read_text().replace(machine_line(), "another day"))
    made(["growth"], tmp_path, quick=True)
    assert len(asked) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--all"], "pass either --quick or --full"),
        (["--all", "--quick", "--full"], "pass either --quick or --full"),
        (["hong", "--all", "--quick"], "not both"),
        ([], "name a STUDY, or pass --all"),
        (["hong", "--quick"], "hong has no option --quick"),
        (["--all", "--quick", "--repeats", "3"], "--all has no option --repeats"),
        (["--all", "--quick", "--data", "x.csv"], "write STUDY=FILE; STUDY is one of li-chip, guide-sets"),
        (["--all", "--quick", "--data", "hong=x.csv"], "write STUDY=FILE; STUDY is one of li-chip, guide-sets"),
        (["--all", "--quick", "--data", "li-chip=absent.csv"], "there is no file absent.csv"),
        (["li-chip", "--data", "absent.csv"], "there is no file absent.csv"),
        (["li-chip", "--data", "a.csv", "--data", "b.csv"], "li-chip takes one file of data"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments, message):
    done = CliRunner().invoke(main, ["bench", *arguments])
    assert done.exit_code == 2, done.output
    assert message in " ".join(done.stderr.split())


def repeats_of(name):
    """Return the number of repeats of a full run."""
    if name in PUBLISHED:
        return PUBLISHED[name]
    if name in SIMULATED:
        return import_module(
            f"debias_bench.{'change' if name == 'monitor' else name.replace('-', '_')}"
        ).run.__self__.repeats
    return {"power": 100, "growth": 3}.get(name) or studies.study(name).repeats


WITH_NUMBERS = [name for name in NAMES if (RESULTS / f"{name}.md").exists() and name not in ("days", "alarms")]
"""Studies with a page that tells the number of repeats."""


@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_a_full_run_has_as_many_repeats_as_the_published_page(name):
    text = (RESULTS / f"{name}.md").read_text(encoding="utf-8")
    told = re.findall(r"(\d+) repeats, seed|Medians of (\d+) |folds, (\d+) times\. Models|up to (\d+) division", text)
    told = [int(number) for found in told for number in found if number]
    table = pd.read_csv(RESULTS / f"{name}.csv")
    for column, times in (("data_sets", 1), ("trials", 1), ("sets", 20 if name == "rare-classes" else 1)):
        told = told or [number / times for number in table.get(column, ())]
    told = told or list(table.get("repeat", ()) + 1)
    assert repeats_of(name) in told


def number_of(number):
    return {"design": "a", "repeat": number, "scores": {"number": number}}


def test_the_first_trials_of_a_measurement_are_run_and_shown(tmp_path):
    measurement = Measurement(
        "small",
        5,
        lambda repeats: (("a", number, number_of, number) for number in range(repeats)),
        lambda trials, repeats: [f"# {len(trials)} of {repeats}"],
        lambda trials: trials,
    )
    messages = Console(file=io.StringIO())
    assert measurement.run(tmp_path, messages, first=2) == "# 2 of 5\n"
    assert len((tmp_path / "small.trials.jsonl").read_text().splitlines()) == 1 + 2
    assert measurement.run(tmp_path, messages) == "# 5 of 5\n"


@pytest.mark.thorough
def test_studies_of_all_kinds_run_quickly(tmp_path):
    names = ["merits", "deng"]
    assert made(names, tmp_path, quick=True) == dict.fromkeys(names, "")
    pages = {name: (tmp_path / f"{name}.md").read_text() for name in names}
    assert all("*From a quick run" in page and machine_line() in page for page in pages.values())
    before = (tmp_path / "deng.trials.jsonl").read_bytes()
    made(["deng"], tmp_path, quick=True)
    assert (tmp_path / "deng.trials.jsonl").read_bytes() == before
    assert (tmp_path / "index.md").read_text().count(", quick run |") == 2
