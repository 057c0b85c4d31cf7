"""`debias bench`: rerun the experiments of the papers, one or all, and measure speed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from debias.cli.inputs import matrix
from debias.cli.options import Command, threads
from debias.cli.output import COULD_NOT_RUN, terminal
from debias_bench.make_page import COMPARED, SIMULATED, TIMED, make_page

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

STUDY_NAMES = (
    "li-table1",
    "li-chip",
    "li-depth",
    "li-matched",
    "loh-null",
    "loh-power",
    "loh-missing",
    "deng",
    "deng-partial",
    "hong",
    "merits",
    "guide-sets",
    "predictive-value",
    "mdi-plus",
)
MEASUREMENTS = (*TIMED, *SIMULATED, *COMPARED, "rivals", "replicates")
"""The names are repeated here, so that `debias --help` does not import the studies."""
WITHOUT_PAGE = ("rivals", "replicates")
WITH_DATA = ("li-chip", "guide-sets", "predictive-value", "mdi-plus")
OPTIONS = {
    "--all": {"quick", "full", "jobs", "out", "restart", "data"},
    "speed": {"repeats", "memory", "full", "jobs", "out"},
    "growth": {"repeats", "out"},
    **dict.fromkeys(SIMULATED, {"repeats", "jobs", "out", "restart"}),
    **dict.fromkeys(COMPARED, {"repeats", "jobs", "seed", "scorers", "out", "restart"}),
    **dict.fromkeys(WITHOUT_PAGE, {"repeats"}),
}
"""The options that are taken with --all and by each measurement; studies take all but those of speed and --all."""


@click.command(
    "bench",
    cls=Command,
    examples=[
        'debias bench li-table1 --repeats 40 --jobs 2 \\\n    --scorers mdi mdi_oob "mdi_oob(shrinkage=100)"',
        "debias bench --all --quick --out bench-quick --data li-chip=matrix.csv",
    ],
)
@click.argument("study", type=click.Choice([*STUDY_NAMES, *MEASUREMENTS]), required=False)
@click.argument("more", nargs=-1, metavar="")
@click.option(
    "--repeats", type=click.IntRange(1), help="Number of trials or paired runs; the default depends on the study."
)
@click.option("--jobs", default=1, callback=threads, show_default=True, help="Processes; -1 for all cores.")
@click.option("--seed", default=0, type=click.IntRange(0, 2**31), show_default=True, help="Seed of data and models.")
@click.option("--scorers", multiple=True, metavar="EXPR...", help="Scorers to compare, instead of those of the study.")
@click.option("--out", default="bench", type=click.Path(file_okay=False), show_default=True, help="Folder to write to.")
@click.option("--restart", is_flag=True, help="Delete the trials of an earlier run in the folder.")
@click.option(
    "--data",
    multiple=True,
    type=click.Path(dir_okay=False),
    help="Matrix for li-chip or mdi-plus, or the 2004 cars for guide-sets, predictive-value: CSV, Parquet, Feather. "
    "After --all: STUDY=FILE, which can be repeated.",
)
@click.option("--drop", multiple=True, metavar="COLUMN", help="Column of the matrix to leave out; can be repeated.")
@click.option("--memory", is_flag=True, help="speed: also the memory of 10,000,000 rows out of core.")
@click.option("--all", "all_studies", is_flag=True, help="All studies that write a page, with --quick or --full.")
@click.option("--quick", is_flag=True, help="--all: one repeat of each study, to see that it runs.")
@click.option(
    "--full",
    is_flag=True,
    help="--all: as many repeats as the published pages have (days). speed: up to 1,000,000 rows and 5,000 trees "
    "(about an hour).",
)
@click.pass_context
def command(
    context: click.Context,
    study: str | None,
    more: tuple[str, ...],
    repeats: int | None,
    jobs: int,
    seed: int,
    scorers: tuple[str, ...],
    out: str,
    restart: bool,
    data: tuple[str, ...],
    drop: tuple[str, ...],
    memory: bool,
    all_studies: bool,
    quick: bool,
    full: bool,
) -> None:
    """Rerun an experiment of the papers or all of them, or measure speed.

    A STUDY simulates data with known relevant features, fits and scores forests, and writes STUDY.csv, STUDY.md and
    STUDY.svg to the folder, with the numbers of the paper for comparison. Each trial is saved, so the same command
    continues an interrupted run. A scorer is a name or an expression from any plugin, with @held-out or @train to
    score rows that are not out-of-bag.

    The measurements: `speed` compares with the libraries' own calls, `growth` has the time of audits by their size,
    `replicates` compares with a plain loop of refits, `rivals` with shap and scikit-learn's permutation_importance.
    `significance` measures error rates, power and cost, `default-levels` error rates of the default on held-out and
    awkward data, `held-out` the power of tests on held-out rows, `out-of-bag` that of two tests out of bag,
    `dependence` those of the test of dependence, `many-features` where its lines are fitted in few trees,
    `rare-classes` error rates if few rows count, `folds` those over the folds of a cross-validation, and `monitor`
    those of the comparison of two windows of a history. `days` checks histories every day by the recipe, with and
    without faults. `loss-changes` counts which features are blamed for a change of the loss. `alarms` counts false
    alarms of histories over 1,000 days, and the days until a fault is found. `intervals` measures
    the coverage of intervals, and the power at planned numbers of rows. `decisions` counts, on real data, sentences
    about reported importance that lead to wrong decisions, `droppable` what dropped features cost
    (`droppable-rankers` and `droppable-survival` of such models), and `interactions` error rates and power of the
    test of pairs, which `interaction-rivals` compares with other methods. `conditional` compares
    `conditional_importance` with other tests. `power` (forests) and `aico` (a boosted model) compare the power of our
    tests and of others; --scorers then takes names of tests. `citrees` compares how well models predict from the
    features that scores put first.

    `--all` makes the pages of all studies in one folder, one after the other, and index.md, which says when each was
    measured. A study that fails is named with the reason, the others run, and the exit code is 3.
    """
    if more and not scorers:
        raise click.UsageError(f"unexpected arguments: {' '.join(more)}. Put scorers after --scorers")
    if (study is None) != all_studies:
        raise click.UsageError("pass a STUDY or --all, not both" if all_studies else "name a STUDY, or pass --all")
    name = study or "--all"
    taken = OPTIONS.get(name, {*context.params} - {"memory", "full", "quick"})
    for option in sorted({*context.params} - taken - {"study", "more", "all_studies"}):
        if context.get_parameter_source(option) is not click.core.ParameterSource.DEFAULT:
            raise click.UsageError(f"{name} has no option --{option}")
    if all_studies:
        if quick == full:
            raise click.UsageError("pass either --quick or --full after --all")
        sys.exit(_all(Path(out), quick, jobs, restart, data))
    if drop and not data:
        raise click.UsageError("--drop needs a matrix: pass --data")
    if data[1:]:
        raise click.UsageError(f"{study} takes one file of data")
    if study in WITHOUT_PAGE:
        from debias_bench import rivals

        run = {"rivals": rivals.run_rivals, "replicates": rivals.run_replicates}[name]
        run(terminal(), **({"repeats": repeats} if repeats else {}))
        return
    page = make_page(
        name,
        Path(out),
        terminal() if study == "speed" else _messages(),
        repeats=repeats,
        jobs=jobs,
        seed=seed,
        scorers=(*scorers, *more),
        restart=restart,
        data=_table(name, data[0], drop) if data else None,
        **({"memory": memory, "full": full} if study == "speed" else {}),
    )
    if study != "speed":  # it has printed each line at once
        click.echo(page, nl=False)
    picture = f", {study}.svg" if study in STUDY_NAMES else ""
    click.echo(f"written to {out}: {study}.md, {study}.csv{picture}", err=True)


def _all(out: Path, quick: bool, jobs: int, restart: bool, data: tuple[str, ...]) -> int:
    """Make all pages, print a line for each, and return the exit code."""
    from debias_bench.all_studies import make_all, told

    of_studies = {}
    for text in data:
        name, equals, path = text.partition("=")
        if not equals or name not in WITH_DATA:
            raise click.UsageError(
                f"--data {text}: after --all, write STUDY=FILE; STUDY is one of {', '.join(WITH_DATA)}"
            )
        of_studies[name] = _table(name, path, ())
    names = [name for name in (*STUDY_NAMES, *MEASUREMENTS) if name not in (*TIMED, *WITHOUT_PAGE)] + [*TIMED]
    outcomes = make_all(names, out, _messages(), quick=quick, jobs=jobs, restart=restart, data=of_studies)
    for outcome in outcomes:
        click.echo(f"{outcome.study}: {told(outcome)}")
    failed = [outcome.study for outcome in outcomes if outcome.reason]
    click.echo(f"{len(outcomes) - len(failed)} of {len(outcomes)} pages made; {out / 'index.md'} lists them")
    return COULD_NOT_RUN if failed else 0


def _table(study: str, path: str, drop: tuple[str, ...]) -> pd.DataFrame:
    if not Path(path).is_file():
        raise click.UsageError(f"--data: there is no file {path}")
    return matrix(path, drop, numeric=study in ("li-chip", "mdi-plus"))


def _messages() -> Console:
    from rich.console import Console

    return Console(stderr=True)
