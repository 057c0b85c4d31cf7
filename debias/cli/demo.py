"""`debias demo`: a demonstration on real data with two columns of noise."""

from __future__ import annotations

import os

import click

from debias.cli.options import Command, threads
from debias.cli.output import check_files, errors, terminal


@click.command("demo", cls=Command, examples=["debias demo --html report.html"])
@click.option(
    "--seed", default=0, type=click.IntRange(0, 2**31), show_default=True, help="Seed of noise, split and models."
)
@click.option("--jobs", default=2, callback=threads, show_default=True, help="Number of threads.")
@click.option(
    "--html",
    default="debias-demo.html",
    type=click.Path(dir_okay=False, writable=True),
    show_default=True,
    help="File for the report about the forest.",
)
def command(seed: int, jobs: int, html: str) -> None:
    """Fit three models to real data plus two columns of noise, audit them, and write a report.

    The data are the diabetes data of scikit-learn; nothing is downloaded.
    """
    check_files({}, {"--html": html})
    with errors():
        from debias.benchmarks.demo import BINARY, UNIQUE, demo_audits, on_noise
        from debias.results.console import print_table

        console = terminal()
        console.print(
            f"Diabetes data of 442 patients with two columns of random numbers added: {UNIQUE} (a different value in "
            f"every row) and {BINARY}. The tables show the importance that each library reports, and debiased scores "
            "on rows the trees have not seen.\n",
            highlight=False,
        )
        for number, audit in enumerate(demo_audits(seed, jobs)):
            print_table(console, audit)
            told = (audit.summary()[0], on_noise(audit), audit.test_summary())
            console.print("".join(f"=> {sentence}\n" for sentence in told), highlight=False)
            if number == 0:
                audit.to_html(html)
        console.print(f"Open the report about the forest in a browser: {os.path.abspath(html)}", highlight=False)
