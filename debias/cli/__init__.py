"""The command line: one file per command. Results go to stdout, everything else to stderr."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from debias import __version__
from debias.child_process import safe_path
from debias.cli import audit, bench, check, demo, doctor, monitor, plugins, score
from debias.cli.gate import not_finished
from debias.cli.output import defused


class Group(click.Group):
    """The commands. Errors of click are printed outside of every context, so their output is guarded here."""

    def main(self, *arguments: Any, **settings: Any) -> Any:
        """Run a command."""
        with defused():
            not_finished(_given(*arguments, **settings))
            return super().main(*arguments, **settings)


def _given(args: Sequence[str] | None = None, *_: Any, **__: Any) -> Sequence[str]:
    return sys.argv[1:] if args is None else args


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="debias")
def main() -> None:
    """Find out which features of a trained tree model really matter."""
    click.get_current_context().with_resource(safe_path())


for module in (demo, audit, score, check, monitor, plugins, doctor, bench):
    main.add_command(module.command)
