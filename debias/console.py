"""What a terminal shows of scores and audits: aligned tables with digits that matter, and sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from debias.audits import Audit
    from debias.scoring import Scores


def print_audit(console: Console, audit: Audit) -> None:
    """Print the table of an audit and what it says in sentences; warnings were shown when they arose."""
    print_table(console, audit)
    for line in audit.summary():
        console.print(_plain(line))


def print_table(console: Console, audit: Audit) -> None:
    """Print the table of an audit."""
    from rich.table import Table

    frame = audit.table
    console.print(
        _plain(f"{audit.main.settings['model']}, {audit.main.n_rows} {audit.rows_in_words} rows"), style="bold"
    )
    table = Table()
    table.add_column("feature", overflow="fold")
    for name in frame.columns:
        table.add_column(_heading(audit, name), justify="right", overflow="fold")
    columns = [_percent(frame[c]) if c in ("reported", "share") else _figures(frame[c]) for c in frame.columns]
    for row in zip(frame.index, *columns, strict=True):
        table.add_row(*(_plain(str(cell)) for cell in row))
    console.print(table)


def print_scores(console: Console, scores: Scores) -> None:
    """Print scores, the largest first, with their unit and what was proven about the rows."""
    from rich.table import Table

    order = np.argsort(-scores.values, kind="stable")
    of = scores.settings["model"] or f"{scores.n_rows} rows of data"
    console.print(_plain(f"{of}: {scores.scorer} ({scores.unit})"), style="bold")
    table = Table()
    table.add_column("feature", overflow="fold")
    table.add_column(_plain(scores.scorer), justify="right", overflow="fold")
    if scores.selected is not None:
        table.add_column("selected")
    for k, figure in zip(order, _figures(scores.values[order]), strict=True):
        decided = () if scores.selected is None else ("yes" if scores.selected[k] else "",)
        table.add_row(_plain(scores.feature_names[k]), figure, *decided)
    console.print(table)
    if scores.provenance:
        console.print(_plain(f"Scored on {scores.n_rows} {scores.rows} rows: {scores.provenance['detail']}."))


def _heading(audit: Audit, name: str) -> Text:
    return _plain({"reported": f"reported ({audit.reported_kind})", "share": "debiased share"}.get(name, name))


def _plain(text: str) -> Text:
    """Return text that is shown as it is: a feature may be called [red]."""
    from rich.text import Text

    return Text(text)


def _percent(values: object) -> list[str]:
    return [f"{value:.1%}" for value in np.asarray(values, dtype=np.float64)]


def _figures(values: object) -> list[str]:
    """Format a column with as many decimals as give its largest entry four digits, the same for every entry."""
    array = np.asarray(values, dtype=np.float64)
    largest = float(np.abs(array).max(initial=0.0))
    if largest == 0:
        return ["0"] * array.size
    decimals = 3 - int(np.floor(np.log10(largest)))
    if decimals > 8:
        return [f"{value:.3e}" for value in array]
    return [f"{value + 0.0:,.{max(0, decimals)}f}" for value in np.round(array, max(0, decimals))]
