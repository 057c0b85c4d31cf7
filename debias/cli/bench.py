"""`debias bench`: the papers' experiments, and measurements of speed."""

from __future__ import annotations

from pathlib import Path

import click

from debias.cli.inputs import matrix
from debias.cli.options import threads
from debias.cli.output import errors, terminal

STUDY_NAMES = (
    "li-table1",
    "li-chip",
    "li-depth",
    "loh-null",
    "loh-power",
    "loh-missing",
    "deng",
    "deng-partial",
    "hong",
    "merits",
    "guide-sets",
    "predictive-value",
)
MEASUREMENTS = ("speed", "significance", "rare-classes", "rivals", "replicates")
"""Named here, and not only in the catalogue, so that `debias --help` imports no study."""


@click.command("bench")
@click.argument("study", type=click.Choice([*STUDY_NAMES, *MEASUREMENTS]))
@click.argument("more", nargs=-1, metavar="")
@click.option("--repeats", type=click.IntRange(1), help="Trials, or paired runs; each study has its own default.")
@click.option("--jobs", default=1, callback=threads, show_default=True, help="Processes; -1 for all cores.")
@click.option("--seed", default=0, type=click.IntRange(0, 2**31), show_default=True, help="Of data and models.")
@click.option("--scorers", multiple=True, metavar="EXPR...", help="Scorers to compare, instead of the study's.")
@click.option("--out", default="bench", type=click.Path(file_okay=False), show_default=True, help="Folder to write to.")
@click.option("--restart", is_flag=True, help="Throw away trials that an earlier run left in the folder.")
@click.option(
    "--data",
    type=click.Path(exists=True, dir_okay=False),
    help="Matrix for li-chip, or the 2004 cars for guide-sets, predictive-value: CSV, Parquet, Feather.",
)
@click.option("--drop", multiple=True, metavar="COLUMN", help="Column of the matrix to leave out; may be given again.")
@click.option("--memory", is_flag=True, help="speed: also the memory of 10,000,000 rows out of core.")
@click.option("--full", is_flag=True, help="speed: up to 1,000,000 rows and 5,000 trees (an hour or so).")
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
    r"""Rerun an experiment of the papers, or measure speed.

    A STUDY draws data whose truth is known, fits forests, scores them, and writes STUDY.csv, STUDY.md and STUDY.svg to
    the folder, ours beside the paper's figures. Trials are kept as they come: the same command goes on where it was
    stopped. A scorer is a name or expression, of any plugin, with @held-out or @train for rows other than out-of-bag
    ones. `speed` prints ratios to the libraries' own calls, `replicates` to a bare loop of
    refits, `rivals` to those of shap and of scikit-learn's permutation_importance, `significance` error rates, power
    and cost, `rare-classes` error rates on held-out rows of few that count.

    \b
    Example: debias bench li-table1 --repeats 40 --jobs 2 --scorers mdi mdi_oob "mdi_oob(shrinkage=100)"
    """
    if more and not scorers:
        raise click.UsageError(f"what are {' '.join(more)}? Scorers follow --scorers")
    measured = {
        "speed": {"repeats", "memory", "full", "jobs", "out"},
        "significance": {"repeats", "jobs", "out", "restart"},
        "rare-classes": {"repeats", "jobs", "out", "restart"},
    }.get(study, {"repeats"})
    taken = measured if study in MEASUREMENTS else {*context.params} - {"memory", "full"}
    for name in sorted({*context.params} - taken - {"study", "more"}):
        if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
            raise click.UsageError(f"{study} takes no --{name}")
    if drop and data is None:
        raise click.UsageError("--drop is about the matrix of --data, and there is none")
    from rich.console import Console

    with errors():
        messages = Console(stderr=True)
        if study in ("significance", "rare-classes"):
            from debias.benchmarks import rare_classes, significance

            simulate, usual = (significance.run, 500) if study == "significance" else (rare_classes.run, 10)
            page = simulate(Path(out), messages, repeats=repeats or usual, jobs=jobs, restart=restart)
            click.echo(page, nl=False)
            click.echo(f"written to {out}: {study}.md, {study}.csv", err=True)
            return
        if study == "replicates":
            from debias.benchmarks import replicates

            replicates.run(terminal(), repeats or 3)
            return
        if study == "speed":
            from debias.benchmarks.speed import run

            run(terminal(), repeats or 5, memory, full, jobs, Path(out))
            return
        if study == "rivals":
            from debias.benchmarks import rivals

            rivals.run(terminal(), repeats or 5)
            return
        from debias.benchmarks import catalogue
        from debias.benchmarks.runner import run_study

        page = run_study(
            catalogue.study(study, None if data is None else matrix(data, drop, study == "li-chip")),
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
