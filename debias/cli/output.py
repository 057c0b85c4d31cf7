"""What the commands print and how they end: results to stdout, messages and errors to stderr."""

from __future__ import annotations

import io
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console

GATE_FAILED, COULD_NOT_RUN = 1, 3
WIDE = 160
"""Columns to print on where standard output is no terminal, and nothing has to fit."""


@contextmanager
def errors() -> Iterator[None]:
    """Print expected errors to stderr in a line, and exit with the code for "could not run" or "wrong usage".

    Warnings are part of every result, and printed from there.
    """
    from debias.errors import CompositionError, DebiasError, PolicyError
    from debias.text import message

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except (CompositionError, PolicyError) as error:
            raise click.UsageError(message(str(error))) from None
        except (DebiasError, OSError, ImportError) as error:
            click.echo(f"error: {message(str(error))}", err=True)
            sys.exit(COULD_NOT_RUN)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except SystemExit as ended:  # by a table at a closed pipe, or by a plugin: its code would pass for a verdict
            click.echo(f"error: the run was ended before its result was printed (exit code {ended.code})", err=True)
            sys.exit(COULD_NOT_RUN)
        except Exception:  # a fault of ours must not exit with 1, which is a failed gate
            traceback.print_exc()
            sys.exit(COULD_NOT_RUN)


def distinct_files(inputs: Mapping[str, str | None], outputs: Mapping[str, str | None]) -> None:
    """Refuse to write a file that is read, or two outputs to one file; named as on the command line.

    An audit written over the baseline would let the next run compare a model that failed with itself.
    """
    seen = [(name, path) for name, path in inputs.items() if path is not None]
    for name, path in outputs.items():
        if path is None or (os.path.exists(path) and not os.path.isfile(path)):  # a terminal, or /dev/null
            continue
        for other, taken in seen:
            if _same_file(path, taken):
                raise click.UsageError(f"{name} and {other} are one file, {path}: write to another one")
        seen.append((name, path))


def _same_file(one: str, other: str) -> bool:
    if os.path.exists(one) and os.path.exists(other):
        return os.path.samefile(one, other)
    return os.path.realpath(one) == os.path.realpath(other)


def write(path: str, text: str, mode: str = "w") -> None:
    """Write a file whole or not at all; in mode "a" add to one."""
    from debias.atomic_files import append_text, write_text

    (append_text if mode == "a" else write_text)(path, text)


def warn(texts: tuple[str, ...]) -> None:
    """Print warnings, a line each."""
    from debias.text import shown

    for text in texts:
        click.echo(shown(f"warning: {text}"), err=True)


def terminal() -> Console:
    """Return standard output for tables; nothing is shown where it is closed."""
    from rich.console import Console

    if sys.stdout is None:
        return Console(file=io.StringIO(), width=WIDE)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # names may have letters the terminal cannot show
    return Console() if sys.stdout.isatty() else Console(width=WIDE)
