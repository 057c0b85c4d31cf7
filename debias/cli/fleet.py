"""`debias monitor fleet` and `debias monitor metrics`: many histories at once."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from debias.cli.monitor import refuse_other_windows, with_comparison
from debias.cli.options import Command, format_option, html_option, with_options
from debias.cli.output import check_files, errors, in_options, terminal
from debias.progress import show_progress

if TYPE_CHECKING:
    from debias.results.fleet import Fleet

with_fleet = with_options(
    click.argument("histories", nargs=-1, required=True, metavar="HISTORIES..."),
    with_comparison,
    click.option(
        "--max-age-days",
        type=click.FloatRange(0),
        metavar="DAYS",
        help="A model needs a look if its last period is older.",
    ),
)


@click.command(
    "fleet",
    cls=Command,
    examples=[
        'debias monitor fleet "models/*.history" --max-age-days 3',
        'debias monitor fleet "models/*.history" --html fleet.html',
    ],
)
@with_fleet
@html_option
@format_option
def fleet(histories: tuple[str, ...], form: str, html_file: str | None, **settings: Any) -> None:
    """Look at many HISTORIES at once, files or patterns: those models first that a person should look at.

    Without --html, the loss and what each feature costs, the mean residual, new categories and repeated rows are
    judged, which takes some hundredths of a second for each model. With --html all is judged, and there is a page of
    each model, in a folder beside the page. The error rate is that of all models together.

    Exit codes: 0 nothing was found, 1 a model needs a look, 4 none does but one was not judged, such as a damaged file,
    2 wrong usage, 3 an error while running.
    """
    with errors():
        from debias.results.console import print_fleet

        found = _found(histories, html_file, settings)
        if html_file:
            found.to_html(html_file)  # in the words of the commands
        if form == "table":
            print_fleet(terminal(), found)
        else:
            click.echo(found.to_json() if form == "json" else found.to_csv(), nl=form == "json")
    sys.exit(found.exit_code)


@click.command(
    "metrics",
    cls=Command,
    examples=['debias monitor metrics "models/*.history" --output /var/lib/node_exporter/textfile/debias.prom'],
)
@with_fleet
@click.option(
    "--output", type=click.Path(dir_okay=False, writable=True), help="Write this file, complete or not at all."
)
def metrics(histories: tuple[str, ...], output: str | None, **settings: Any) -> None:
    """Write what `debias monitor fleet` tells of HISTORIES as gauges in the text format of Prometheus.

    Exit codes: 0 the gauges are written, also those of models that need a look or cannot be read, 2 wrong usage, 3 an
    error while running.
    """
    with errors():
        found = _found(histories, output, settings, pages=False)
        if output is None:
            click.echo(found.to_prometheus(), nl=False)
        else:
            found.to_prometheus(output)


def _found(histories: tuple[str, ...], output: str | None, settings: dict[str, Any], pages: bool = True) -> Fleet:
    """Return the fleet in the words of the commands; `output` must not be one of the histories."""
    import debias
    from debias.monitor.fleet import files_of

    refuse_other_windows(recent=settings["recent"], reference=settings["reference"])
    check_files({file: file for file in files_of(histories)}, {"--html" if pages else "--output": output})
    with show_progress("auto"):
        found = debias.History.fleet(list(histories), html=output if pages else None, **settings)
    return found.worded(in_options)
