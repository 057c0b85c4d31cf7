"""The options of every command that reads a model and rows."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import click

from debias.cli.inputs import Source


def threads(context: click.Context, parameter: click.Parameter, value: int) -> int:
    """Refuse a number of threads that is none."""
    if value < -1 or value == 0:
        raise click.BadParameter("pass 1 or more, or -1 for all cores")
    return value


format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
    help="What to print.",
)


def input_options(data_required: bool = True) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator: the command is called with a :class:`Source` and `form`, and with the options of its own."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def gathered(**given: Any) -> None:
            source = Source(**{field.name: given.pop(field.name) for field in fields(Source)})
            command(source, **given)

        options = [
            click.argument("model", type=click.Path(exists=True)),
            click.argument("data", type=click.Path(exists=True, dir_okay=False), required=data_required),
            click.option(
                "--trust-type",
                "trust",
                multiple=True,
                metavar="NAME",
                help="Type a skops file may hold; may be given again.",
            ),
            click.option("--allow-pickle", is_flag=True, help="Load pickles. They run code from the file."),
            click.option(
                "--params",
                type=click.Path(exists=True, dir_okay=False),
                help="JSON or TOML: hyper-parameters, which XGBoost files do not keep.",
            ),
            click.option("--target", required=True, metavar="COLUMN", help="Column of DATA with the response."),
            click.option("--weight", metavar="COLUMN", help="Column of DATA with weights of the rows."),
            click.option(
                "--rows",
                type=click.Choice(["auto", "oob", "held-out", "train"]),
                default="auto",
                show_default=True,
                help="What the rows of DATA are to the model.",
            ),
            click.option(
                "--train",
                type=click.Path(exists=True, dir_okay=False),
                help="Training rows beside held-out DATA, for scorers that need in-bag sums or train again.",
            ),
            format_option,
            click.option("--seed", type=int, help="Seed, for scorers that draw."),
            click.option("--jobs", default=1, callback=threads, show_default=True, help="Threads."),
        ]
        for option in reversed(options):
            gathered = option(gathered)
        return gathered

    return decorate
