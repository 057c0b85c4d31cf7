"""Commands with an example, and options shared by the commands that read a model and rows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import click
from click.core import ParameterSource

from debias.cli.inputs import Source
from debias.cli.tables import is_query


class Command(click.Command):
    """A command whose help ends with examples, written as they are.

    Parameters
    ----------
    examples : sequence of str
        Each may have several lines.
    refused : mapping of str to str, optional
        Names of shared options that have no meaning for this command, and the error if one is given. The help leaves
        them out.
    """

    def __init__(
        self, *arguments: Any, examples: Sequence[str] = (), refused: Mapping[str, str] | None = None, **settings: Any
    ) -> None:
        super().__init__(*arguments, **settings)
        self.examples = examples
        self.refused = dict(refused or {})
        for parameter in self.params:
            if isinstance(parameter, click.Option) and parameter.name in self.refused:
                parameter.hidden = True

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, unless an option is given that it refuses."""
        for name, reason in self.refused.items():
            if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT:
                raise click.UsageError(reason, ctx)
        return super().invoke(ctx)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        lines = [line for example in self.examples for line in example.splitlines()]
        formatter.write("".join(f"{line}\n" for line in ["", "Examples:" if self.examples[1:] else "Example:"]))
        formatter.write("".join(f"  {line}\n" for line in lines))


class _ModelPath(click.Path):
    """An existing file or directory of a model, or its address in MLflow."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return an address as it is, and check a path."""
        from debias.models.loading import is_address

        return value if is_address(value) else super().convert(value, param, ctx)


MODEL = _ModelPath(exists=True)


class _TablePath(click.Path):
    """An existing file of a table, or a query of DuckDB."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a query as it is, and check a path."""
        return value if is_query(value) else super().convert(value, param, ctx)


TABLE = _TablePath(exists=True, dir_okay=False)


def threads(context: click.Context, parameter: click.Parameter, value: int) -> int:
    """Check a number of threads: the ``callback=`` of an option of click.

    Parameters
    ----------
    context : click.Context
    parameter : click.Parameter
    value : int

    Returns
    -------
    int
        The value.

    Raises
    ------
    click.BadParameter
        It is 0 or below -1, which stands for all cores.
    """
    if value < -1 or value == 0:
        raise click.BadParameter("pass 1 or more, or -1 for all cores")
    return value


def _separator(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Return the character that separates columns; "tab" is one."""
    if value in ("tab", "\\t"):
        return "\t"
    if value is not None and (len(value) != 1 or value in "\r\n"):
        raise click.BadParameter("pass one character, such as ';', or tab")
    return value


def with_options(*options: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds options and arguments to a command, in this order."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


trust_option = click.option(
    "--trust-type", "trust", multiple=True, metavar="NAME", help="Type that a skops file may contain; can be repeated."
)
pickle_option = click.option("--allow-pickle", is_flag=True, help="Load pickles. A pickle runs code from its file.")
load_option = click.option(
    "--load-seconds",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="Processor time for loading MODEL in a process of its own.  [default: 60, and 1 for each MB]",
)
params_option = click.option(
    "--params",
    type=click.Path(exists=True, dir_okay=False),
    help="JSON or TOML file with hyper-parameters, which XGBoost files do not keep.",
)
target_option = click.option("--target", required=True, metavar="COLUMN", help="Column of DATA with the response.")
weight_option = click.option("--weight", metavar="COLUMN", help="Column of DATA with weights of the rows.")
base_margin_option = click.option(
    "--base-margin",
    metavar="COLUMN",
    help="Column of DATA with the start margin of each row, such as the log of an exposure, if the model was trained "
    "with one (base_margin, init_score, offset). It is no feature.",
)
drop_option = click.option("--drop", multiple=True, metavar="COLUMN", help="Column to leave out; can be repeated.")
separator_option = click.option(
    "--separator",
    callback=_separator,
    metavar="CHARACTER",
    help="What separates the columns of CSV files: a character or tab.  [default: , or tab for .tsv]",
)
decimal_option = click.option(
    "--decimal", type=click.Choice([".", ","]), default=".", show_default=True, help="Decimal sign of CSV files."
)
na_option = click.option(
    "--na",
    multiple=True,
    metavar="TEXT",
    help="Text of CSV files that means a missing value, besides empty cells; can be repeated. --na '' says that only "
    "empty cells are missing.",
)
format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
    help="Format of the output.",
)
error_rate_option = click.option(
    "--error-rate",
    default=0.05,
    show_default=True,
    type=click.FloatRange(0, 1, True, True),
    help="Error rate of the verdicts.",
)
permutations_option = click.option(
    "--permutations",
    type=click.IntRange(1),
    metavar="NUMBER",
    help="Test by permutations, by at most this many.  [default: up to 200, where permutations are the best test]",
)
jobs_option = click.option("--jobs", default=1, callback=threads, show_default=True, help="Number of threads.")
html_option = click.option(
    "--html", "html_file", type=click.Path(dir_okay=False, writable=True), help="Also write a report to this file."
)


def input_options(data_required: bool = True) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator for commands that take a :class:`Source`, `form` and options of their own."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def gathered(**options: Any) -> None:
            source = Source(**{field.name: options.pop(field.name) for field in fields(Source)})
            command(source, **options)

        options = [
            click.argument("model", type=MODEL),
            click.argument("data", type=TABLE, required=data_required),
            trust_option,
            pickle_option,
            load_option,
            params_option,
            target_option,
            weight_option,
            base_margin_option,
            click.option(
                "--blocks",
                metavar="COLUMN",
                help="Column of DATA that is the same in rows which depend on one another (a patient, a week). It is "
                "no feature.",
            ),
            click.option(
                "--qid",
                metavar="COLUMN",
                help="Column of DATA with the query of each row, for rankers; FILE of --train has it too. It is no "
                "feature.",
            ),
            click.option(
                "--groups",
                type=click.Path(exists=True, dir_okay=False),
                help="JSON or TOML file with groups of columns that are scored as one: names, and lists of columns.",
            ),
            click.option(
                "--level",
                type=click.Choice(["source", "model"]),
                help="Score the columns of DATA (source), or those that the trees see after the steps of a pipeline.",
            ),
            drop_option,
            separator_option,
            decimal_option,
            na_option,
            click.option(
                "--rows",
                type=click.Choice(["auto", "oob", "held-out", "train"]),
                default="auto",
                show_default=True,
                help="Kind of the rows in DATA.",
            ),
            click.option(
                "--train",
                type=TABLE,
                help="Training rows, in addition to held-out DATA, for scorers that need in-bag sums or refit.",
            ),
            format_option,
            click.option("--random-state", type=int, metavar="SEED", help="Seed of all random draws."),
            jobs_option,
            click.option(
                "--progress/--no-progress",
                default=None,
                help="Show what is done and the time left. The default is to do so in a terminal, after two seconds.",
            ),
        ]
        return with_options(*options)(gathered)

    return decorate
