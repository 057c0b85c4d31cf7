"""What the commands print and how they end: results to stdout, messages and errors to stderr."""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Iterator
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
    from debias.names import message

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
        except Exception:  # a fault of ours must not exit with 1, which is a failed gate
            traceback.print_exc()
            sys.exit(COULD_NOT_RUN)


def write(path: str, text: str, mode: str = "w") -> None:
    """Write a file whole or not at all; in mode "a" add to one."""
    from debias.writing import append_text, write_text

    (append_text if mode == "a" else write_text)(path, text)


def warn(texts: tuple[str, ...]) -> None:
    """Print warnings."""
    from debias.names import message

    for text in texts:
        click.echo(f"warning: {message(text)}", err=True)


def terminal() -> Console:
    """Return standard output for tables."""
    from rich.console import Console

    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # names may have letters the terminal cannot show
    return Console() if sys.stdout.isatty() else Console(width=WIDE)
