"""Options shared by the commands that read a model and rows."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import click

from debias.cli.inputs import Source


def threads(context: click.Context, parameter: click.Parameter, value: int) -> int:
    """Raise a BadParameter error if a number of threads is not valid."""
    if value < -1 or value == 0:
        raise click.BadParameter("pass 1 or more, or -1 for all cores")
    return value


format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
    help="Format of the output.",
)


def input_options(data_required: bool = True) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator for commands that take a :class:`Source`, `form` and options of their own."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def gathered(**options: Any) -> None:
            source = Source(**{field.name: options.pop(field.name) for field in fields(Source)})
            command(source, **options)

        options = [
            click.argument("model", type=click.Path(exists=True)),
            click.argument("data", type=click.Path(exists=True, dir_okay=False), required=data_required),
            click.option(
                "--trust-type",
                "trust",
                multiple=True,
                metavar="NAME",
                help="Type that a skops file may contain; can be repeated.",
            ),
            click.option("--allow-pickle", is_flag=True, help="Load pickles. A pickle runs code from its file."),
            click.option(
                "--params",
                type=click.Path(exists=True, dir_okay=False),
                help="JSON or TOML file with hyper-parameters, which XGBoost files do not keep.",
            ),
            click.option("--target", required=True, metavar="COLUMN", help="Column of DATA with the response."),
            click.option("--weight", metavar="COLUMN", help="Column of DATA with weights of the rows."),
            click.option(
                "--rows",
                type=click.Choice(["auto", "oob", "held-out", "train"]),
                default="auto",
                show_default=True,
                help="Kind of the rows in DATA.",
            ),
            click.option(
                "--train",
                type=click.Path(exists=True, dir_okay=False),
                help="Training rows, in addition to held-out DATA, for scorers that need in-bag sums or refit.",
            ),
            format_option,
            click.option("--seed", type=int, help="Seed for scorers that draw random numbers."),
            click.option("--jobs", default=1, callback=threads, show_default=True, help="Number of threads."),
        ]
        for option in reversed(options):
            gathered = option(gathered)
        return gathered

    return decorate
