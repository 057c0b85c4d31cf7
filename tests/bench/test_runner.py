import io
import json
import re
import sys
import zlib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from rich.console import Console

import debias
from debias.cli import main
from debias_bench import runner, studies, summary
from debias_bench.bench import MEASUREMENTS, STUDY_NAMES
from debias_bench.study import forest
from debias_bench.trials import Entrant, TrialFile
from support.small_study import STUDY, draw


def run(tmp_path, study=STUDY, **options):
    messages = Console(width=200, file=io.StringIO())
    page = runner.run_study(study, out=tmp_path, messages=messages, **options)
    return page, messages.file.getvalue()


def numbers(tmp_path, study=STUDY):
    return pd.read_csv(tmp_path / f"{study.name}.csv")


@pytest.mark.thorough
def test_a_run_writes_table_page_and_picture(tmp_path):
    page, messages = run(tmp_path)
    assert "no_such_plugin" in messages
    table = numbers(tmp_path)
    assert set(table["scorer"]) == {"mdi", "mdi_oob", "mdi_oob on held-out rows", "theirs"}
    assert (table.loc[(table["measure"] == "auc") & (table["scorer"] != "theirs"), "trials"] == 3).all()
    assert (tmp_path / "small.md").read_text() == page
    assert "| theirs |" in page
    assert "3 repeats, seed 0" in page
    assert "numpy" in page
    assert "1 of 1 numbers lie within 3 standard errors" in page
    assert "A noise feature is selected" not in page, "no scorer here has a threshold"
    svg = (tmp_path / "small.svg").read_text()
    assert "leaf 10" in svg, "text stays text"
    listed = (tmp_path / "index.md").read_text()
    day = re.search(r"commit \w+, (\S+);", page)
    assert f"| [A small study](small.md) | {day[1] if day else 'not dated'} | {debias.__version__} |" in listed


def test_a_page_without_a_date_is_listed_as_not_dated(tmp_path):
    for name, line in (("old", "*Written by the runner; Linux; debias 0.0.1, numpy 2.*"), ("bare", "Nothing.")):
        (tmp_path / f"{name}.md").write_text(f"# The {name} page\n\n{line}\n")
        (tmp_path / f"{name}.csv").write_text("")
    runner.write_index(tmp_path)
    lines = (tmp_path / "index.md").read_text().splitlines()[-2:]
    assert lines == [
        "| [The bare page](bare.md) | not dated | not told |",
        "| [The old page](old.md) | not dated | 0.0.1 |",
    ]


@pytest.mark.quick
def test_a_run_agrees_with_the_scores_of_the_library(tmp_path):
    run(tmp_path, repeats=1)
    trial = json.loads((tmp_path / "small.trials.jsonl").read_text().splitlines()[1])
    seeds = np.random.SeedSequence([0, zlib.crc32(b"s"), 0]).generate_state(2) >> 1
    drawn = draw(int(seeds[0]))
    model = forest(drawn.train, int(seeds[1]), n_estimators=5, min_samples_leaf=1)
    expected = debias.score(model, drawn.train.numeric, drawn.train.y, "mdi_oob", rows="oob")
    assert trial["scores"]["mdi_oob"]["values"] == expected.values.tolist()
    held = debias.score(model, drawn.held_out.numeric, drawn.held_out.y, "mdi_oob", rows="held-out")
    assert trial["scores"]["mdi_oob on held-out rows"]["values"] == held.values.tolist()


@pytest.mark.thorough
def test_jobs_and_interruption_do_not_move_a_number(tmp_path):
    run(tmp_path / "serial")
    run(tmp_path / "parallel", jobs=2)
    assert numbers(tmp_path / "serial").equals(numbers(tmp_path / "parallel"))
    run(tmp_path / "cut", repeats=2)
    trials = tmp_path / "cut" / "small.trials.jsonl"
    kept = trials.read_text()
    trials.write_text(kept[: int(len(kept) * 0.6)])  # as a kill in the middle of a line leaves it
    before = [line for line in trials.read_text().splitlines(keepends=True) if line.endswith("\n")]
    run(tmp_path / "cut")
    assert trials.read_text().startswith("".join(before)), "what was whole is kept, not run again"
    assert numbers(tmp_path / "serial").equals(numbers(tmp_path / "cut"))


@pytest.mark.thorough
def test_a_run_goes_on_after_a_kill_at_any_byte(tmp_path):
    run(tmp_path, repeats=1, scorers=("mdi",))
    trials = tmp_path / "small.trials.jsonl"
    whole = trials.read_bytes()
    header = whole.index(b"\n") + 1
    expected = numbers(tmp_path)
    for size in (0, 1, header - 1, header, header + 1, len(whole) - 1):
        trials.write_bytes(whole[:size])
        run(tmp_path, repeats=1, scorers=("mdi",))
        assert numbers(tmp_path).equals(expected), size


@pytest.mark.thorough
def test_a_trial_that_is_there_twice_counts_once(tmp_path):
    run(tmp_path, scorers=("mdi",))
    trials, expected = tmp_path / "small.trials.jsonl", numbers(tmp_path)
    header, *lines = trials.read_text().splitlines(keepends=True)
    trials.write_text("".join([header, *lines, *lines]))
    run(tmp_path, scorers=("mdi",))
    assert numbers(tmp_path).equals(expected)


@pytest.mark.skipif(sys.platform == "win32", reason="no locks there")
def test_two_runs_do_not_write_to_one_file(tmp_path):
    path = tmp_path / "trials.jsonl"
    with TrialFile(path, {"seed": 0}):
        for restart in (False, True):
            with pytest.raises(debias.DebiasError, match="another run is writing"):
                TrialFile(path, {"seed": 0}, restart)
    with TrialFile(path, {"seed": 0}):
        pass


@pytest.mark.thorough
def test_trials_on_other_data_are_not_mixed(tmp_path):
    def go(matrix):
        return run(tmp_path, studies.study("li-chip", matrix), repeats=1, scorers=("mdi",))

    go(small_matrix())
    go(small_matrix())
    for other in (small_matrix() + 1, small_matrix().rename(columns={0: "first"})):
        with pytest.raises(debias.DebiasError, match=r"another run \(data changed\)"):
            go(other)


def trial(repeat, **scores):
    about = {"design": STUDY.designs[0].name, "repeat": repeat, "features": ["a", "b", "c"], "rank": [0, 1, 1]}
    return {**about, "relevant": [True, False, False], "scores": scores}


def test_correlations_pair_trials_by_their_number():
    given, refused = {"values": [1.0, 2, 3], "selected": None}, {"refused": "no"}
    turned = {"values": [3.0, 2, 1], "selected": None}
    trials = [
        trial(0, ours=given, theirs=refused),
        trial(1, ours=turned, theirs=turned),
        trial(2, ours=refused, theirs=given),
    ]
    study = replace(STUDY, measures=(), references=("theirs",), feature_means=False, published=())
    found = summary.summarise(study, summary.cells(study, trials, {STUDY.designs[0].name: ["ours", "theirs"]}))
    assert [(number.scorer, number.mean, number.trials) for number in found] == [("ours", 1.0, 1)]


def test_a_scorer_of_ones_own_is_compared_with_the_references(tmp_path):
    study = replace(STUDY, references=("mdi_oob",))
    run(tmp_path, study, scorers=("ufi",))
    table = numbers(tmp_path, study).query("measure == 'correlation with mdi_oob'")
    assert set(table["scorer"]) == {"ufi"}


def test_scorers_without_a_model_are_given_no_other_rows(tmp_path):
    with pytest.raises(debias.plugin.CompositionError, match="drop @held-out"):
        run(tmp_path, scorers=("gini_merit@held-out",))


@pytest.mark.parametrize("picture", ["dots", "means", "lines", "boxes"])
def test_pictures_of_one_trial_of_none_and_of_names_with_dollars(tmp_path, picture):
    study = replace(STUDY, picture=picture, published=())
    run(tmp_path, study, repeats=1, scorers=("permutation(n_repeats=1, together={'$x_{': ['X1'], 'b$': ['X2']})",))
    assert "$x_{" in (tmp_path / "small.svg").read_text()
    without_model = replace(study, designs=tuple(replace(design, fit=None) for design in study.designs))
    page, _ = run(tmp_path, without_model, repeats=1, scorers=("mdi",), restart=True)
    assert "## Refused" in page
    assert "no scorer gave a score" in (tmp_path / "small.svg").read_text()


def test_data_that_are_not_the_cars_are_refused():
    with pytest.raises(debias.RowsError, match="not the 2004 cars.*city_mpg"):
        studies.study("predictive-value", small_matrix())


@pytest.mark.thorough
def test_a_scorer_that_joins_later_runs_alone(tmp_path):
    run(tmp_path, scorers=("mdi",))
    lines = len((tmp_path / "small.trials.jsonl").read_text().splitlines())
    run(tmp_path, scorers=("mdi", "ufi"))
    added = (tmp_path / "small.trials.jsonl").read_text().splitlines()[lines:]
    assert len(added) == 6
    assert all(list(json.loads(line)["scores"]) == ["ufi"] for line in added)
    before = (tmp_path / "small.trials.jsonl").read_text()
    run(tmp_path, scorers=("ufi",))
    assert (tmp_path / "small.trials.jsonl").read_text() == before, "nothing was missing"


@pytest.mark.thorough
def test_trials_of_another_seed_are_not_mixed(tmp_path):
    run(tmp_path, repeats=1, scorers=("mdi",))
    with pytest.raises(debias.DebiasError, match=r"another run \(seed changed\).*--restart"):
        run(tmp_path, repeats=1, scorers=("mdi",), seed=1)
    run(tmp_path, repeats=1, scorers=("mdi",), seed=1, restart=True)


def test_a_third_partys_scorer_takes_part_by_name_and_a_refusal_is_told(tmp_path):
    @debias.plugin.scorer_plugin("bench_test_constant", unit="nothing")
    def constant(ensemble, rows):
        if rows.n_rows and ensemble.n_nodes < 40:
            raise debias.RowsError("too few nodes for me")
        return np.arange(ensemble.n_features, dtype=float)

    debias.plugin.register(constant)
    page, _ = run(tmp_path, scorers=("bench_test_constant",))
    assert "## Refused" in page
    assert "too few nodes for me" in page
    # X1 to X5 score 0 to 4 in every trial, and X2 is relevant: one of four noise features is below it.
    table = numbers(tmp_path).query("measure == 'auc' and column == 'leaf 1' and scorer == 'bench_test_constant'")
    assert table["mean"].tolist() == [0.25]


def test_unknown_scorers_are_refused_before_anything_runs(tmp_path):
    with pytest.raises(debias.plugin.CompositionError, match="no scorer 'mdi_obb'"):
        run(tmp_path, scorers=("mdi", "mdi_obb"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "expression", "rows"),
    [
        ("mdi", "mdi", "oob"),
        ("mdi_oob(shrinkage=3)@held-out", "mdi_oob(shrinkage=3)", "held-out"),
        ("x('a@b')", "x('a@b')", "oob"),
    ],
)
def test_entrants_are_read(text, expression, rows):
    assert Entrant.of(text) == Entrant(expression, rows)


def small_matrix():
    return pd.DataFrame(np.random.default_rng(0).normal(size=(30, 8)))


@pytest.mark.parametrize("name", [*studies.STUDIES, *studies.ON_DATA, *studies.WITH_DATA])
def test_studies_are_consistent(name):
    study = studies.study(name, small_matrix() if name in studies.ON_DATA else None)
    assert study.name == name
    names = [design.name for design in study.designs]
    assert len(set(names)) == len(names)
    designs = {(design.table, design.column) for design in study.designs}
    assert {(figure.table, figure.column) for figure in study.published} <= designs
    assert {figure.measure for figure in study.published} <= {
        *study.measures,
        *(f"correlation with {reference}" for reference in study.references),
    }
    for text in {text for design in study.designs for text in (design.scorers or study.scorers)}:
        assert Entrant.of(text).expression.isprintable()


def test_the_command_line_knows_every_study():
    assert set(STUDY_NAMES) == {*studies.STUDIES, *studies.ON_DATA, *studies.WITH_DATA}
    assert "speed" in MEASUREMENTS


@pytest.mark.thorough
def test_bench_from_the_shell_reads_a_table_and_writes_its_own(tmp_path):
    matrix = small_matrix().rename(columns=str).assign(place="here", drop_me=1.0)
    matrix.to_csv(tmp_path / "matrix.csv", index=False)

    def bench(*arguments):
        return CliRunner().invoke(main, ["bench", *map(str, arguments), "--out", str(tmp_path / "out")])

    done = bench("li-chip", "--data", tmp_path / "matrix.csv", "--drop", "drop_me", "--repeats", 1, "--scorers", "mdi",
                 "ufi")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "left out: place" in done.stderr
    assert "30 rows and 8 columns" in done.stdout
    assert set(pd.read_csv(tmp_path / "out" / "li-chip.csv").query("trials > 0")["scorer"]) == {"mdi", "ufi"}
    assert bench("li-chip").exit_code == 3
    assert bench("deng", "mdi").exit_code == 2
    assert bench("deng", "--scorers", "nonsense").exit_code == 2
    assert bench("deng", "--data", tmp_path / "matrix.csv").exit_code == 3
    assert "no option --scorers" in CliRunner().invoke(main, ["bench", "speed", "--scorers", "mdi"]).stderr
    assert "no option --seed" in CliRunner().invoke(main, ["bench", "significance", "--seed", "1"]).stderr
    assert "no option --memory" in bench("deng", "--memory").stderr
    assert "needs a matrix" in bench("li-chip", "--drop", "place").stderr


def test_expressions_of_meta_methods_take_part_unasked(tmp_path):
    study = replace(STUDY, scorers=("mdi", "partial_permutation(mdi, replicates=2)"))
    page, messages = run(tmp_path, study, repeats=1)
    assert "partial_permutation" in page
    assert "not installed" not in messages
    assert set(numbers(tmp_path)["scorer"]) >= {"mdi", "partial_permutation(mdi, replicates=2)"}
