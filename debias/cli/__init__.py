"""The command line. Results go to stdout, all else to stderr; a file a command, each imported by what it needs."""

from __future__ import annotations

import click

from debias import __version__
from debias.child_process import safe_path
from debias.cli import audit, bench, check, demo, plugins, score


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="debias")
def main() -> None:
    """Tell which features of a trained tree model matter, and which only look as if they do."""
    click.get_current_context().with_resource(safe_path())


for each in (demo, audit, score, check, plugins, bench):
    main.add_command(each.command)
