"""`debias demo`: real data, two columns of noise, three models, a report."""

from __future__ import annotations

import os

import click

from debias.cli.options import threads
from debias.cli.output import errors, terminal


@click.command("demo")
@click.option("--seed", default=0, type=click.IntRange(0, 2**31), show_default=True, help="Of noise, split, models.")
@click.option("--jobs", default=2, callback=threads, show_default=True, help="Threads.")
@click.option(
    "--html",
    default="debias-demo.html",
    type=click.Path(dir_okay=False, writable=True),
    show_default=True,
    help="File for the report on the forest.",
)
def command(seed: int, jobs: int, html: str) -> None:
    r"""Train three models on real data plus two columns of noise, audit them, and write a report.

    The data are scikit-learn's diabetes measurements; nothing is downloaded.

    \b
    Example: debias demo --html report.html
    """
    with errors():
        from debias.benchmarks.demo import BINARY, UNIQUE, demo_audits, on_noise
        from debias.results.console import print_table

        console = terminal()
        console.print(
            f"Diabetes data of 442 patients, with two columns added that know nothing of the response: {UNIQUE} (a "
            f"different value in every row) and {BINARY}. The importance that each library reports, beside a score "
            "on rows the trees have not seen:\n",
            highlight=False,
        )
        for number, audit in enumerate(demo_audits(seed, jobs)):
            print_table(console, audit)
            console.print(f"=> {on_noise(audit)}\n=> {audit.test_summary()}\n", highlight=False)
            if number == 0:
                audit.to_html(html)
        console.print(f"The report on the forest, to open in a browser: {os.path.abspath(html)}", highlight=False)
