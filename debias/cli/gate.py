"""Output of the commands that check rules: `debias check` and `debias monitor check`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from debias.cli.output import GATE_FAILED, echo_command, reader_is_gone, terminal, write

if TYPE_CHECKING:
    from debias.results.gate_outcome import Gate


FILES = (
    click.option("--junit", type=click.Path(dir_okay=False, writable=True), help="Write JUnit XML to this file."),
    click.option(
        "--summary",
        envvar="GITHUB_STEP_SUMMARY",
        show_envvar=True,
        type=click.Path(dir_okay=False, writable=True),
        help="Append Markdown to this file.",
    ),
)


def with_files_of_gate(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options for the files that :func:`report` writes."""
    for option in reversed(FILES):
        function = option(function)
    return function


def report(gate: Gate, form: str, junit: str | None, summary: str | None) -> None:
    """Print a gate, and write the files that were asked for.

    Parameters
    ----------
    gate : Gate
    form : {"table", "json", "csv"}
    junit : str, optional
        Path for JUnit XML.
    summary : str, optional
        Path of a file to which Markdown is appended.
    """
    from debias.results.console import print_gate

    if junit:
        write(junit, gate.to_junit())
    if summary:
        write(summary, gate.to_markdown(), "a")
    if os.environ.get("GITHUB_ACTIONS") == "true" and (lines := gate.to_annotations()):
        echo_command("\n".join(lines))
    if form == "table":
        print_gate(terminal(), gate)
    else:
        click.echo(gate.to_json() if form == "json" else gate.to_csv(), nl=form == "json")


def exit_unless_passed(gate: Gate) -> None:
    """Exit with the code of a failed gate if a rule did not pass."""
    if not gate.passed:
        sys.exit(GATE_FAILED)


@contextmanager
def errors_in(junit: str | None) -> Iterator[None]:
    """Write an error to the JUnit file: the file of an earlier run may say that all rules passed."""
    try:
        yield
    except Exception as error:
        if junit is not None and not reader_is_gone(error):  # the file was written before anything was printed
            from debias.results.gate_outcome import junit_of_error

            write(junit, junit_of_error(f"{type(error).__name__}: {error}"))
        raise
