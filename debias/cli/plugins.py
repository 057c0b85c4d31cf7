"""`debias plugins`: what is installed, and where it comes from."""

from __future__ import annotations

import click

from debias.cli.output import errors, terminal


@click.command("plugins")
def command() -> None:
    r"""List scorers and adapters, and the distributions they come from.

    \b
    Example: debias plugins
    """
    with errors():
        from rich.table import Table
        from rich.text import Text

        import debias

        table = Table(box=None)
        for heading in ("name", "kind", "plugin", "from"):
            table.add_column(heading, overflow="fold")
        for row in debias.plugins().itertuples():
            cells = (row.name, row.kind, row.plugin, f"{row.distribution} {row.version}")
            table.add_row(*(Text(str(cell)) for cell in cells))
        terminal().print(table)
