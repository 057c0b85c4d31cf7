"""Output for a terminal: tables of scores, audits and gates, and sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from debias.results.untested import tell_nothing
from debias.text import counted, percent_in_table, shown

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from debias.results.audit import Audit
    from debias.results.gate_outcome import Gate
    from debias.results.scores import Scores


HEADING = {"share": "debiased share", "standard_error": "standard error, splits fixed", "p_adjusted": "adjusted p"}
HIDDEN = {"standard_error", "p_value", "untested_because", "unproven_because", "dependence_p_adjusted"}
"""Columns of an audit that do not fit a terminal. CSV, JSON and data frames have them; a sentence says the last."""
NARROW = 110
"""A terminal with fewer columns than this has no room for the scores either."""
TESTED = {"z", "p_adjusted", "verdict", "dependence"}
WORDS = {"verdict", "dependence"}


def print_audit(console: Console, audit: Audit) -> None:
    """Print the table and the summary of an audit. Its warnings were shown when they were raised."""
    sentences = audit.summary()
    n_before = 1 if tell_nothing(audit.main) else 0  # the reason why the table says nothing comes before it
    for line in sentences[:n_before]:
        console.print(_plain(line))
    print_table(console, audit)
    for line in sentences[n_before:]:
        console.print(_plain(line))


def print_table(console: Console, audit: Audit) -> None:
    """Print the table of an audit."""
    from rich.table import Table

    frame = audit.table
    console.print(_plain(f"{audit.main.settings['model']}, {_rows(audit.main)}"), style="bold")
    table = Table()
    table.add_column("feature", overflow="fold", min_width=min(14, max(len(_plain(name)) for name in frame.index)))
    printed = [name for name in frame.columns if name not in HIDDEN and (audit.tested or name not in TESTED)]
    if console.width < NARROW and audit.tested:
        printed = [name for name in printed if name not in audit.scores and name != "dependence"]
    columns = []
    for name in printed:
        justify: Literal["left", "right"] = "left" if name in WORDS else "right"
        heading = _plain("reported") if console.width < NARROW and name == "reported" else _heading(audit, name)
        written = cells(name, frame[name])
        width = max(map(len, [*written, *heading.plain.split()])) if console.width < NARROW else None
        table.add_column(heading, justify=justify, overflow="fold", no_wrap=name in WORDS, max_width=width)
        columns.append(written)
    for row in zip(frame.index, *columns, strict=True):
        table.add_row(*(_plain(str(cell)) for cell in row))
    console.print(table)


def print_scores(console: Console, scores: Scores) -> None:
    """Print scores, the largest first, with their unit and what is known about the rows."""
    from rich.table import Table

    order = np.argsort(-scores.values, kind="stable")
    of = scores.settings["model"] or f"{counted(scores.n_rows or 0, 'row')} of data"
    frame = scores.to_frame().iloc[order]
    hidden = {"p_value", "selected"} if scores.p_adjusted is not None else set()  # the adjusted p-value implies both
    printed = [name for name in frame.columns if name not in hidden]
    console.print(_plain(f"{of}: {scores.scorer} ({scores.unit})"), style="bold")
    table = Table()
    table.add_column("feature", overflow="fold")
    for name in printed:
        table.add_column(_plain(HEADING.get(name, name)), justify="right", overflow="fold")
    columns = [cells(name, frame[name]) for name in printed]
    for row in zip(frame.index, *columns, strict=True):
        table.add_row(*(_plain(str(cell)) for cell in row))
    console.print(table)
    if scores.provenance:
        console.print(_plain(f"Scored on {_rows(scores)}: {scores.provenance['detail']}."))


def print_gate(console: Console, gate: Gate) -> None:
    """Print the result of each rule of a policy, and the changes from the baseline."""
    from rich.table import Table

    table = Table(show_lines=True)
    for heading in ("rule", "result", "value", "limit", "reason"):
        table.add_column(heading, overflow="fold")
    for result in gate.results:
        row = (result.rule, result.status, result.value, result.limit, result.reason)
        table.add_row(*(_plain(cell) for cell in row))
    console.print(table)
    if gate.changes:
        console.print(_plain("Changes from the baseline:"))
    for change in gate.changes:
        console.print(_plain(f"  {change.in_words()}"))
    verdict = f"failed: {', '.join(result.rule for result in gate.failures)}" if gate.failures else "passed"
    console.print(_plain(f"The gate {verdict}."))


def cells(name: str, values: object) -> list[str]:
    """Format a column of an audit or of scores for a reader, by its name."""
    return FORMAT.get(name, _figures)(values)


def _heading(audit: Audit, name: str) -> Text:
    return _plain(f"reported ({audit.reported_kind})" if name == "reported" else HEADING.get(name, name))


def _rows(scores: Scores) -> str:
    return counted(scores.n_rows or 0, f"{scores.rows_in_words} row")


def _plain(text: str) -> Text:
    """Return text without markup: a feature may be called [red] or have characters that move the cursor."""
    from rich.text import Text

    return Text(shown(text))


def _p_values(values: object) -> list[str]:
    return ["< 0.001" if value < 0.001 else f"{value:.3f}" for value in np.asarray(values, dtype=np.float64)]


def _z(values: object) -> list[str]:
    return [f"{value + 0.0:.2f}" for value in np.round(np.asarray(values, dtype=np.float64), 2)]


def _words(values: object) -> list[str]:
    return [str(value) for value in np.asarray(values, dtype=object)]


def _yes(values: object) -> list[str]:
    return ["yes" if value else "" for value in np.asarray(values, dtype=bool)]


def _percent(values: object) -> list[str]:
    return [percent_in_table(value) for value in np.asarray(values, dtype=np.float64)]


def _figures(values: object) -> list[str]:
    """Format a column with the same number of decimals everywhere: the largest entry has four digits."""
    array = np.asarray(values, dtype=np.float64)
    largest = float(np.abs(array).max(initial=0.0))
    if largest == 0:
        return ["0"] * array.size
    decimals = 3 - int(np.floor(np.log10(largest)))
    if decimals > 8:
        return [f"{value:.3e}" for value in array]
    return [f"{value + 0.0:,.{max(0, decimals)}f}" for value in np.round(array, max(0, decimals))]


FORMAT = {
    "reported": _percent,
    "share": _percent,
    "z": _z,
    "p_value": _p_values,
    "p_adjusted": _p_values,
    "verdict": _words,
    "dependence": _words,
    "dependence_p_adjusted": _p_values,
    "selected": _yes,
}
