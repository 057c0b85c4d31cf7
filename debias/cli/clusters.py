"""`debias clusters`: which features say the same, and which of them matter together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from debias.cli.options import Command, error_rate_option, html_option, input_options
from debias.cli.output import check_files, errors, terminal, warn
from debias.progress import show_progress

if TYPE_CHECKING:
    from debias.cli.inputs import Source


@click.command(
    "clusters",
    cls=Command,
    examples=[
        "debias clusters model.skops train.csv --target outcome --html clusters.html",
        "debias clusters model.ubj heldout.csv --target outcome --least-likeness 0.7",
    ],
)
@input_options()
@click.option(
    "--least-likeness",
    default=0.5,
    show_default=True,
    type=click.FloatRange(0, 1, True, True),
    help="Clusters of a lower likeness are not tested.",
)
@click.option(
    "--permutations", default=200, show_default=True, type=click.IntRange(1), help="Number of permutations of the test."
)
@error_rate_option
@html_option
def command(
    source: Source, form: str, least_likeness: float, permutations: int, error_rate: float, html_file: str | None
) -> None:
    """Cluster features of MODEL that say the same, and test on DATA which are informative together."""
    check_files(source.files, {"--html": html_file})
    with errors():
        import debias
        from debias.results.console import print_clusters

        with show_progress(source.progress):
            model, rows, options = source.read()
            found = debias.clusters(
                model,
                rows,
                least_likeness=least_likeness,
                error_rate=error_rate,
                n_permutations=permutations,
                **options,
            )
        warn(found.warnings)
        if html_file:
            found.to_html(html_file)
        if form == "table":
            print_clusters(terminal(), found)
        else:
            click.echo(found.to_json() if form == "json" else found.to_csv(), nl=form == "json")
