"""`debias plugins`: the installed scorers and adapters."""

from __future__ import annotations

import click

from debias.cli.options import Command, format_option
from debias.cli.output import errors, terminal


@click.command("plugins", cls=Command, examples=["debias plugins --format json"])
@format_option
def command(form: str) -> None:
    """List the installed scorers and adapters, and the distributions that provide them."""
    with errors():
        from rich.table import Table
        from rich.text import Text

        import debias
        from debias.text import to_csv

        installed = debias.plugin.plugins()
        if form != "table":
            as_json = form == "json"
            click.echo(
                installed.to_json(orient="records", indent=2) if as_json else to_csv(installed, index=False), nl=as_json
            )
            return
        table = Table(box=None)
        for heading in ("name", "kind", "plugin", "from"):
            table.add_column(heading, overflow="fold")
        for row in installed.itertuples():
            cells = (row.name, row.kind, row.plugin, f"{row.distribution} {row.version}")
            table.add_row(*(Text(str(cell)) for cell in cells))
        terminal().print(table)
