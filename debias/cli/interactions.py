"""`debias interactions`: which features a model uses together, tested on rows it has not seen."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

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
        "debias interactions model.ubj heldout.csv --target outcome --triple age bmi sex",
    ],
)
@input_options()
@click.option("--feature", "features", multiple=True, metavar="NAME", help="Test pairs of these; can be repeated.")
@click.option("--with", "with_", metavar="NAME", help="Test only pairs with this feature.")
@click.option(
    "--triple",
    "triples",
    nargs=3,
    multiple=True,
    metavar="A B C",
    help="Test what these three do together and no two of them, beside the pairs of --feature; can be repeated.",
)
@error_rate_option
@html_option
def command(
    source: Source,
    form: str,
    features: tuple[str, ...],
    with_: str | None,
    triples: tuple[tuple[str, str, str], ...],
    error_rate: float,
    html_file: str | None,
) -> None:
    """Test which pairs of features MODEL uses together in a way that DATA, rows it has not seen, confirms."""
    check_files(source.files, {"--html": html_file})
    if triples and with_ is not None:
        raise click.UsageError("--triple and --with exclude each other: name the pairs with --feature")
    if len(features) == 1 and with_ in (None, *features):
        raise click.UsageError("a pair needs two features: give --feature again, or leave it out")
    named: list[Any] = [*combinations(features, 2), *triples] if triples else list(features)
    with errors():
        import debias
        from debias.results.console import print_interactions

        with show_progress(source.progress):
            model, rows, options = source.read()
            found = debias.interactions(
                model, rows, features=named or None, with_=with_, error_rate=error_rate, **options
            )
        warn(found.warnings)
        if html_file:
            found.to_html(html_file)
        if form == "table":
            print_interactions(terminal(), found)
        else:
            click.echo(found.to_json() if form == "json" else found.to_csv(), nl=form == "json")
