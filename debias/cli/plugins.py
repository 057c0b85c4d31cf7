"""`debias plugins`: what is installed, and where it comes from."""

from __future__ import annotations

import click

from debias.cli.options import format_option
from debias.cli.output import errors, terminal


@click.command("plugins")
@format_option
def command(form: str) -> None:
    r"""List scorers and adapters, and the distributions they come from.

    \b
    Example: debias plugins --format json
    """
    with errors():
        from rich.table import Table
        from rich.text import Text

        import debias
        from debias.text import to_csv

        found = debias.plugins()
        if form != "table":
            as_json = form == "json"
            click.echo(found.to_json(orient="records", indent=2) if as_json else to_csv(found, index=False), nl=as_json)
            return
        table = Table(box=None)
        for heading in ("name", "kind", "plugin", "from"):
            table.add_column(heading, overflow="fold")
        for row in found.itertuples():
            cells = (row.name, row.kind, row.plugin, f"{row.distribution} {row.version}")
            table.add_row(*(Text(str(cell)) for cell in cells))
        terminal().print(table)
