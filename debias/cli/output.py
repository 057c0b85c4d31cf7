"""Output and exit codes of the commands: results go to stdout, messages and errors to stderr.

Messages of the library are put in the words of the command line. The core speaks of ``rows='held-out'`` and ``train=``;
a user of the commands has ``--rows held-out`` and ``--train``.
"""

from __future__ import annotations

import errno
import io
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, cast

import click

if TYPE_CHECKING:
    from rich.console import Console

COULD_NOT_RUN, INTERRUPTED, READER_GONE = 3, 130, 141
WIDE = 160
"""Columns of the output if standard output is not a terminal."""
OPTIONS = (
    # Calls, and arguments that the commands always fill in.
    (r"debias\.score\(None, X, y, '([^']*)'\)", r"debias score --no-model DATA --scorer '\1'"),
    (r"debias\.audit_folds\b", r"debias audit --folds"),
    (r"debias\.(score|audit)\b(?!\()", r"debias \1"),
    (r"\btest, blocks or base_margin\b", "--blocks or --base-margin"),
    (r"\bblocks, qid and base_margin\b", "--blocks, --qid and --base-margin"),
    (r"\bblocks (and|or) base_margin\b", r"--blocks \1 --base-margin"),
    (r"(?<!['\w])base_margin(?!['\w])=?", "--base-margin"),
    (r"np\.ones\(len\(X\)\)", "a column of ones"),
    # What hands type instead of an argument or a table.
    (
        r"\bPass (?:X|X_train)\[model\.feature_names_in_\], the columns that it was trained on",
        "Pass a table with the columns that it was trained on, in their order; --drop leaves a column out",
    ),
    (r"\. To name columns that have no names, pass debias\.Dataset\(X, y, feature_names=\.\.\.\)", ""),
    (r"\bas random_state\b", "as --random-state"),
    # Arguments with a value. A scorer's own options of the same name are told from those by what follows.
    (r"\btrain=debias\.Dataset\([^)]*\)", "--train FILE"),
    (r"\btrain=\(X_train, y_train\)", "--train FILE"),
    (r"\bdebias\.Dataset\(X, y, (blocks|qid)=\.\.\.\)", r"--\1 COLUMN"),
    (r"\bdebias\.Dataset\(X, y, --base-margin\.\.\.\)", "--base-margin COLUMN"),
    (r"\bdebias\.Dataset\(X, y, blocks=X\['([^']*)'\]\)", r"--blocks '\1'"),
    (r"\bdebias\.Dataset\(X, y, blocks=(.+?)\)(?=, on (?:rows|cells) )", r"--blocks COLUMN, with \1 in it"),
    (
        r"\brefits=debias\.Refits\(params=\{\.\.\.\}\)(?: \(params=\{\} if it was trained with the defaults\))?"
        r"(?:, or as params= of debias\.refit)?",
        "--params FILE",
    ),
    (r"\btest=debias\.Permutation\((?:n_permutations=)?(\d+)\)", r"--permutations \1"),
    (r"\berror_rate=\('(\w+)', ([0-9.e-]+)\)", r"--error-method \1 --error-rate \2"),
    (r"\berror_rate=([0-9][0-9.e-]*[0-9])", r"--error-rate \1"),
    (r"\bdependence=True\b", "--dependence"),
    (r", or a debias\.Permutation\b", ""),
    (r"\brefits are for\b", "--params is for"),
    (r"\bleave refits out\b", "leave --params out"),
    (r"\bparams=\{\}", "--params FILE"),
    (r"\bscorers=\['([^']*)'\]", r"--scorer '\1'"),
    (r"\b(tested|rows|level)='([^']*)'", r"--\1 '\2'"),
    (r"\btest='([^']*)'(?! is not one of)", r"--test \1"),
    (r"\btest=None\b", "--test none"),
    (r"\bn_permutations\b", "--permutations"),
    (r"\bn_jobs=(?=-?[0-9])", "--jobs "),
    (r"\brandom_state=(?=-?[0-9])", "--random-state "),
    # The folds of a cross-validation.
    (
        r"Likely causes: cv= has another random_state or shuffle than in training, the models",
        "Likely causes: --folds has other folds than in training, the models",
    ),
    (r"\. With labels as cv=, all other", ". All other"),
    (r"\bpass cv= as \(train, test\) positions", "audit them in Python, with (train, test) positions"),
    (r"\bcv=(?!\w)", "--folds"),
    (r"\breplace=True\b", "--replace"),
    (r"\bbaseline=(?!\w)", "--baseline"),
    (r"\bpart='\.\.\.'", "--part NAME"),
    (r"\binteractions=(?!\w)", "--interaction"),
    (r"\b([Ll])eave interactions out\b", r"\1eave --interaction out"),
    (r"\btrained_until=(?=')", "--trained-until "),
    (r"\bloss=True\b", "--loss"),
    (r"\b(at|label|looks|recent|reference|window|old|like)=(?=')", r"--\1 "),
    (r"\b(recent|reference)=(?=[0-9])", r"--\1 "),
    # Arguments without a value.
    (r"\b(train|tested|test|groups|blocks|qid|params|level|rows)=(?![\w'\"({\[-])", r"--\1"),
    (r"\b(at|label|looks|series|timeout|recent|reference|window|old|like)=(?![\w'\"({\[-])", r"--\1"),
    (r"\bn_jobs=(?![\w-])", "--jobs"),
    (r"\bscorers=(?!\w)", "--scorer"),
    (r"\bsample_weight=?(?!\w)", "--weight"),
    (r"`(rows|train|blocks|qid|groups|params|level)`", r"--\1"),
    (r"\bleave (params|blocks|qid|groups|test|tested|level) out\b", r"leave --\1 out"),
    (r"\bleave out (params|blocks|qid|groups|test|tested|level)\b", r"leave out --\1"),
    (r"\b(params) (is|are|have|must)\b", r"--\1 \2"),
    (r"\b(blocks|qid|groups) (has|is|must)\b", r"--\1 \2"),
    # The table and the response.
    (r"\bX and y\b", "DATA"),
    (r"(?<![\w'\".\[(])X(?![\w'\"\[()]|\.\w)", "DATA"),
    (r"(?<=\. )y(?= \w)", "The response"),
    (r"(?<![\w'\".\[(])y(?![\w'\"\[(,)=]|\.\w)", "the response"),
    # Plain words need no quotes.
    (r"(--\w+) '([\w-]+)'", r"\1 \2"),
)
"""Patterns in messages, and the options that replace them, one after the other."""


class Defused:
    """A stream on which nothing is a command of the CI service that reads the output, whoever writes it.

    What the results write has none (see :func:`debias.text.escaped`). This is for messages of libraries and of click.
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: Any) -> Any:
        """Write text; bytes are refused by the stream."""
        from debias.text import without_commands_in_lines

        return self.stream.write(without_commands_in_lines(text) if isinstance(text, str) else text)


@contextmanager
def defused() -> Iterator[None]:
    """Let nothing that is written to standard output and standard error be a command of a CI service."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (stream and cast("TextIO", Defused(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def echo_command(text: str) -> None:
    """Write lines that are meant as commands of GitHub to standard error."""
    click.echo(text, file=getattr(sys.stderr, "stream", sys.stderr))


@contextmanager
def errors(may_exit: bool = False) -> Iterator[None]:
    """Print expected errors to stderr, and exit with the code for wrong usage or for "could not run".

    Python warnings are ignored here: every result has its warnings, and the commands print those. With `may_exit`, what
    runs may end the process with an exit code of its own.
    """
    from debias.errors import CompositionError, DebiasError, HistoryArgumentError, PolicyError
    from debias.text import message

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except (CompositionError, HistoryArgumentError, PolicyError) as error:
            raise click.UsageError(message(in_options(str(error)))) from None
        except (DebiasError, OSError, ImportError) as error:
            if reader_is_gone(error):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes it when it ends
                sys.exit(READER_GONE)
            full = isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None
            where = "standard output: " if full else ""  # errors of files name them
            click.echo(f"error: {where}{message(in_options(str(error)))}", err=True)
            sys.exit(COULD_NOT_RUN)
        except (click.ClickException, click.exceptions.Exit, click.Abort, GeneratorExit):
            raise
        except KeyboardInterrupt:  # click would exit with 1, which means a failed gate
            click.echo("interrupted", err=True)
            sys.exit(INTERRUPTED)
        except SystemExit as ended:  # from a scorer or an adapter: its exit code must not look like a verdict
            if may_exit:
                raise
            click.echo(f"error: the run ended before it printed its result (exit code {ended.code})", err=True)
            sys.exit(COULD_NOT_RUN)
        except BaseException:  # a bug, or a panic of a package in Rust, must not exit with 1: a failed gate
            click.echo(traceback.format_exc(), err=True)
            sys.exit(COULD_NOT_RUN)


def reader_is_gone(error: Exception) -> bool:
    """Tell if an error says that nobody reads standard output any more, as in ``debias ... | head -1``."""
    if isinstance(error, BrokenPipeError):  # of standard output, or of another pipe
        try:
            os.write(sys.stdout.fileno(), b"\n")
        except BrokenPipeError:
            return True
    return False


def check_files(inputs: Mapping[str, str | None], outputs: Mapping[str, str | None]) -> None:
    """Raise a UsageError if an output cannot be written, or would overwrite an input or another output.

    This is found out before the work is done. If an audit overwrote the baseline, the next run would compare a failed
    model with itself.

    Parameters
    ----------
    inputs, outputs : mapping of str to str or None
        Paths by the names of their options; None where an option is not used.

    Raises
    ------
    click.UsageError
        The message names the option and the path.
    """
    seen = [(name, path) for name, path in inputs.items() if path is not None]
    for name, path in outputs.items():
        if path is None or (os.path.exists(path) and not os.path.isfile(path)):  # a terminal, or /dev/null
            continue
        folder = os.path.dirname(os.path.realpath(path))
        if not os.path.isdir(folder):
            raise click.UsageError(f"{name}: the folder {folder} does not exist, so {path} cannot be written")
        if not os.access(folder, os.W_OK):
            raise click.UsageError(f"{name}: the folder {folder} is not writable, so {path} cannot be written")
        for other, taken in seen:
            if _same_file(path, taken):
                raise click.UsageError(f"{name} and {other} are the same file, {path}: choose another file")
        seen.append((name, path))


def _same_file(one: str, other: str) -> bool:
    if os.path.exists(one) and os.path.exists(other):
        return os.path.samefile(one, other)
    return os.path.realpath(one) == os.path.realpath(other)


def write(path: str, text: str, mode: str = "w") -> None:
    """Write a file completely or not at all; in mode "a" append to it."""
    from debias.atomic_files import append_text, write_text

    (append_text if mode == "a" else write_text)(path, text)


def warn(texts: tuple[str, ...]) -> None:
    """Print warnings, one per line."""
    from debias.text import escaped

    for text in texts:
        click.echo(escaped(f"warning: {in_options(text)}"), err=True)


def terminal() -> Console:
    """Return a console on standard output; if that is closed, the console prints nothing.

    Returns
    -------
    rich.console.Console
        Where a reader goes away, as in ``debias ... | head``, printing raises a BrokenPipeError.
    """
    from rich.console import Console

    class Terminal(Console):
        def on_broken_pipe(self) -> None:  # rich would exit with 1, which means a failed gate
            raise BrokenPipeError

    if sys.stdout is None:
        return Console(file=io.StringIO(), width=WIDE)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # names may have characters that the terminal cannot show
    return Terminal() if sys.stdout.isatty() else Terminal(width=WIDE)


def in_options(text: str) -> str:
    """Return a message with options in place of arguments.

    Parameters
    ----------
    text : str

    Returns
    -------
    str

    Examples
    --------
    >>> from debias.cli.output import in_options
    >>> in_options("Pass rows='held-out' and train=(X_train, y_train)")
    'Pass --rows held-out and --train FILE'
    """
    for pattern, option in OPTIONS:
        text = re.sub(pattern, option, text)
    return text
