"""Output of the commands that check rules."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

import click

from debias.cli.output import echo_command, in_options, reader_is_gone, terminal, write

if TYPE_CHECKING:
    from debias.results.gate_outcome import Gate


DID_NOT_FINISH = "the run did not finish, so nothing was judged; its output may say why"
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


def with_allowed(rules: Sequence[str]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds the option for rules that need not be judged, as `allowed`."""
    return click.option(
        "--allow-not-judged",
        "allowed",
        multiple=True,
        metavar="RULE",
        callback=partial(_known, rules),
        help="Pass although this rule, or one result of it ('RULE: FEATURE'), could not be judged; can be repeated. It "
        "must not fail.",
    )


def _known(rules: Sequence[str], ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    for each in given:
        if each.split(":")[0] not in rules:
            raise click.BadParameter(f"there is no rule {each!r}; rules are {', '.join(rules)}")
    return given


def report(gate: Gate, of: str, form: str, junit: str | None, summary: str | None) -> None:
    """Print a gate, and write the files that were asked for.

    Parameters
    ----------
    gate : Gate
    of : str
        File that was checked, for the files.
    form : {"table", "json", "csv"}
    junit : str, optional
        Path for JUnit XML.
    summary : str, optional
        Path of a file to which Markdown is appended.
    """
    from debias.results.console import print_gate

    checked = f"{of}. {gate.checked}".strip()
    gate = replace(gate, checked=checked, warnings=tuple(map(in_options, gate.warnings)))
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
    """Exit with the code of the gate if it did not pass."""
    if not gate.passed:
        sys.exit(gate.exit_code)


def not_finished(arguments: Sequence[str]) -> None:
    """Say in the JUnit file of a command line that the run did not finish, until the outcome replaces this.

    The file of an earlier run may say that all rules passed, and nothing else can be written when this run is killed.
    The arguments are not parsed yet, so a file is left alone if it is no JUnit file or another argument names it.
    """
    given = [part for argument in takewhile(lambda each: each != "--", arguments) for part in _parts(argument)]
    paths = [path for name, path in pairwise(given) if name == "--junit"]
    if not paths or not _may_replace(paths[-1], [os.path.realpath(each) for each in given if each != "--junit"]):
        return
    from debias.results.gate_outcome import junit_of_error

    with suppress(OSError):  # the command says why it cannot be written
        write(paths[-1], junit_of_error(DID_NOT_FINISH, _command_of(arguments)))


def _command_of(arguments: Sequence[str]) -> str:
    """Return the command of a command line that is not parsed yet."""
    return " ".join(["debias", *arguments[: 2 if arguments[0] == "monitor" else 1]])


def _command_of_context() -> str:
    """Return the command that runs, by whatever name it was called."""
    context = click.get_current_context()
    return f"debias{context.command_path.removeprefix(context.find_root().command_path)}"


def _parts(argument: str) -> list[str]:
    return argument.split("=", 1) if argument.startswith("--") else [argument]


def _may_replace(path: str, named: list[str]) -> bool:
    """Return whether a path is a new file, an empty one or a JUnit file, and the arguments name it once."""
    if named.count(os.path.realpath(path)) != 1 or (os.path.exists(path) and not os.path.isfile(path)):
        return False
    try:
        with open(path, "rb") as file:
            start = file.read(500)
    except FileNotFoundError:
        return os.path.isdir(os.path.dirname(os.path.realpath(path)))
    except (OSError, ValueError):
        return False
    return not start or b"<testsuite" in start


@contextmanager
def errors_in(junit: str | None) -> Iterator[None]:
    """Write what ends the run to the JUnit file, also if the outcome was written before."""
    try:
        yield
    except BaseException as error:
        if junit is not None and not (isinstance(error, Exception) and reader_is_gone(error)):
            from debias.results.gate_outcome import junit_of_error

            cause = f"{type(error).__name__}: {error}" if isinstance(error, Exception) else DID_NOT_FINISH
            write(junit, junit_of_error(cause, _command_of_context()))
        raise
