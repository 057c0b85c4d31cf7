"""`debias bench`: rerun the experiments of the papers, and measure speed."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import click

from debias.cli.inputs import matrix
from debias.cli.options import Command, threads
from debias.cli.output import terminal

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
SIMULATED = (
    *("significance", "default-levels", "held-out", "out-of-bag", "dependence", "many-features", "rare-classes"),
    *("folds", "monitor", "days", "loss-changes", "alarms", "intervals", "decisions", "droppable"),
    *("interactions", "interaction-rivals"),
)
MEASUREMENTS = ("speed", "growth", *SIMULATED, "power", "aico", "citrees", "rivals", "replicates")
"""The names are repeated here, so that `debias --help` does not import the studies."""


@click.command(
    "bench",
    cls=Command,
    examples=['debias bench li-table1 --repeats 40 --jobs 2 \\\n    --scorers mdi mdi_oob "mdi_oob(shrinkage=100)"'],
)
@click.argument("study", type=click.Choice([*STUDY_NAMES, *MEASUREMENTS]))
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
    type=click.Path(exists=True, dir_okay=False),
    help="Matrix for li-chip or mdi-plus, or the 2004 cars for guide-sets, predictive-value: CSV, Parquet, Feather.",
)
@click.option("--drop", multiple=True, metavar="COLUMN", help="Column of the matrix to leave out; can be repeated.")
@click.option("--memory", is_flag=True, help="speed: also the memory of 10,000,000 rows out of core.")
@click.option("--full", is_flag=True, help="speed: up to 1,000,000 rows and 5,000 trees (about an hour).")
@click.pass_context
def command(
    context: click.Context,
    study: str,
    more: tuple[str, ...],
    repeats: int | None,
    jobs: int,
    seed: int,
    scorers: tuple[str, ...],
    out: str,
    restart: bool,
    data: str | None,
    drop: tuple[str, ...],
    memory: bool,
    full: bool,
) -> None:
    """Rerun an experiment of the papers, or measure speed.

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
    about reported importance that lead to wrong decisions, `droppable` what dropped features cost, and
    `interactions` error rates and power of the test of pairs, which `interaction-rivals` compares with other
    methods. `power` (forests) and `aico` (a boosted model) compare the power of our tests and of others; --scorers
    then takes names of tests. `citrees` compares how well models predict from the features that scores put first.
    """
    if more and not scorers:
        raise click.UsageError(f"unexpected arguments: {' '.join(more)}. Put scorers after --scorers")
    measured = {
        "speed": {"repeats", "memory", "full", "jobs", "out"},
        "growth": {"repeats", "out"},
        **dict.fromkeys(SIMULATED, {"repeats", "jobs", "out", "restart"}),
        **dict.fromkeys(("power", "aico", "citrees"), {"repeats", "jobs", "seed", "scorers", "out", "restart"}),
    }.get(study, {"repeats"})
    taken = measured if study in MEASUREMENTS else {*context.params} - {"memory", "full"}
    for name in sorted({*context.params} - taken - {"study", "more"}):
        if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
            raise click.UsageError(f"{study} has no option --{name}")
    if drop and data is None:
        raise click.UsageError("--drop needs a matrix: pass --data")
    from rich.console import Console

    messages = Console(stderr=True)
    if study in SIMULATED:
        module = "change" if study == "monitor" else study.replace("-", "_")
        simulate = import_module(f"debias_bench.{module}")
        page = simulate.run(Path(out), messages, repeats=repeats, jobs=jobs, restart=restart)
        click.echo(page, nl=False)
        click.echo(f"written to {out}: {study}.md, {study}.csv", err=True)
        return
    if study in ("power", "aico", "citrees"):
        from debias_bench import downstream, power

        asked: dict[str, Any] = {"seed": seed, "jobs": jobs, "restart": restart}
        names = (*scorers, *more)
        if study == "citrees":
            page = downstream.run(Path(out), messages, repeats=repeats or 5, scorers=names, **asked)
        else:
            page = power.run(study, Path(out), messages, repeats=repeats or 100, tests=names, **asked)
        click.echo(page, nl=False)
        click.echo(f"written to {out}: {study}.md, {study}.csv", err=True)
        return
    if study == "replicates":
        from debias_bench.rivals import run_replicates

        run_replicates(terminal(), repeats or 3)
        return
    if study == "speed":
        from debias_bench.speed import run

        run(terminal(), repeats or 5, memory, full, jobs, Path(out))
        return
    if study == "growth":
        from debias_bench import growth

        click.echo(growth.run(Path(out), messages, repeats=repeats or 3), nl=False)
        click.echo(f"written to {out}: growth.md, growth.csv", err=True)
        return
    if study == "rivals":
        from debias_bench.rivals import run_rivals

        run_rivals(terminal(), repeats or 5)
        return
    from debias_bench import studies
    from debias_bench.runner import run_study

    page = run_study(
        studies.study(study, None if data is None else matrix(data, drop, study in ("li-chip", "mdi-plus"))),
        out=Path(out),
        repeats=repeats,
        seed=seed,
        jobs=jobs,
        scorers=(*scorers, *more),
        restart=restart,
        messages=messages,
    )
    click.echo(page, nl=False)
    click.echo(f"written to {out}: {study}.csv, {study}.md, {study}.svg", err=True)
