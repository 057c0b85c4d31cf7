"""`debias interactions`: which features a model uses together, tested on rows it has not seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from debias.cli.options import Command, error_rate_option, html_option, input_options
from debias.cli.output import check_files, errors, terminal, warn
from debias.progress import show_progress

if TYPE_CHECKING:
    from debias.cli.inputs import Source


@click.command(
    "interactions",
    cls=Command,
    examples=[
        "debias interactions model.ubj heldout.csv --target outcome --html interactions.html",
        "debias interactions model.ubj heldout.csv --target outcome --with age",
    ],
)
@input_options()
@click.option("--feature", "features", multiple=True, metavar="NAME", help="Test pairs of these; can be repeated.")
@click.option("--with", "with_", metavar="NAME", help="Test only pairs with this feature.")
@error_rate_option
@html_option
def command(
    source: Source, form: str, features: tuple[str, ...], with_: str | None, error_rate: float, html_file: str | None
) -> None:
    """Test which pairs of features MODEL uses together in a way that DATA, rows it has not seen, confirms."""
    check_files(source.files, {"--html": html_file})
    with errors():
        import debias
        from debias.results.console import print_interactions

        with show_progress(source.progress):
            model, rows, options = source.read()
            found = debias.interactions(
                model, rows, features=list(features) or None, with_=with_, error_rate=error_rate, **options
            )
        warn(found.warnings)
        if html_file:
            found.to_html(html_file)
        if form == "table":
            print_interactions(terminal(), found)
        else:
            click.echo(found.to_json() if form == "json" else found.to_csv(), nl=form == "json")
