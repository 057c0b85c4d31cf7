"""Output for a terminal: tables of scores, audits and gates, and sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from debias.results import fold_sentences
from debias.results.cells import HEADING, cells, columns_that_fit
from debias.results.report.drawn import MOST_DRAWN, drawn_features, drawn_of_scores
from debias.text import counted, shown

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from debias.results.audit import Audit
    from debias.results.changes import Changes
    from debias.results.folds_audit import FoldsAudit
    from debias.results.gate_outcome import Gate, Result
    from debias.results.scores import Scores


HIDDEN = {"standard_error", "p_value", "untested_because", "unproven_because", "dependence_p_adjusted"}
"""Columns of an audit that do not fit a terminal. CSV, JSON and data frames have them; a sentence says the last."""
TESTED = {"z", "p_adjusted", "verdict", "dependence"}
OF_FOLDS = ("share", "mean", "standard_error", "rank", "informative_folds", "p_adjusted", "verdict")
"""Columns of an audit of folds for a terminal, if there is room."""
WORDS = {"verdict", "dependence"}
OF_CHANGES = ("before", "after", "response_change", "rows_change", "p_adjusted", "shift", "verdict")
SHORTEST_NAME = 14
"""A name is folded if it is longer than this and there is no room."""
BETWEEN = 3
"""Columns of a terminal that a table takes for each of its columns: two spaces and a line."""


def print_audit(console: Console, audit: Audit) -> None:
    """Print what matters, the table, and then the rest of the summary. Its warnings were shown when they were raised.

    If nothing was tested, the reason comes before the table.
    """
    sentences = audit.summary()
    n_before = max(1, sentences.index(audit.test_summary()))
    for line in sentences[:n_before]:
        console.print(_plain(line))
    print_table(console, audit)
    for line in sentences[n_before:]:
        console.print(_plain(line))


def print_table(console: Console, audit: Audit) -> None:
    """Print the table of an audit: of many features, those of its figures. Verdicts are the last to give way."""
    from rich.table import Table

    frame, n_left = audit.table, 0
    if len(frame) > MOST_DRAWN:
        drawn, n_left = drawn_features(audit)
        frame = frame.loc[[audit.main.feature_names[k] for k in drawn]]
    console.print(_plain(f"{audit.main.settings['model']}, {_rows(audit.main)}{_performance(audit)}"), style="bold")
    longest = max(len(_plain(name)) for name in ["feature", *frame.index])
    written = {
        name: cells(name, frame[name])
        for name in frame.columns
        if name not in HIDDEN and (audit.tested or name not in TESTED)
    }
    room = console.width - 1 - BETWEEN
    wide = {name: max(map(len, [*column, _heading(audit, name)])) + BETWEEN for name, column in written.items()}
    tight = sum(wide.values()) + longest > room
    if tight:
        widths = {
            name: max(map(len, [*column, *HEADING.get(name, name).split()])) + BETWEEN
            for name, column in written.items()
        }
        printed = columns_that_fit(widths, room - min(longest, SHORTEST_NAME))
    else:
        widths, printed = wide, list(wide)
    table = Table()
    table.add_column("feature", overflow="fold", min_width=min(SHORTEST_NAME, longest))
    for name in printed:
        justify: Literal["left", "right"] = "left" if name in WORDS else "right"
        heading = HEADING.get(name, name) if tight else _heading(audit, name)
        table.add_column(
            _plain(heading), justify=justify, overflow="fold", no_wrap=name in WORDS, max_width=widths[name] - BETWEEN
        )
    for row in zip(frame.index, *(written[name] for name in printed), strict=True):
        table.add_row(*(_plain(str(cell)) for cell in row))
    console.print(table)
    _print_left_out(console, n_left)


def print_folds(console: Console, audit: FoldsAudit) -> None:
    """Print what matters over all folds, the table of the largest shares, and then the rest of the summary."""
    from rich.table import Table

    sentences, frame = audit.summary(), audit.table.iloc[:MOST_DRAWN]
    n_before = 1 + (sentences.index(fold_sentences.headline(audit)) if audit.tested else len(audit.notes))
    for line in sentences[:n_before]:
        console.print(_plain(line))
    written = {name: cells(name, frame[name]) for name in OF_FOLDS if audit.tested or name not in TESTED}
    longest = max(len(_plain(name)) for name in ["feature", *frame.index])
    heading = HEADING | {"standard_error": "standard error"}
    widths = {
        name: max(map(len, [*column, *heading.get(name, name).split()])) + BETWEEN for name, column in written.items()
    }
    printed = columns_that_fit(widths, console.width - 1 - BETWEEN - min(longest, SHORTEST_NAME))
    rows = f"{audit.rows_in_words} rows of {counted(len(audit.audits), 'fold')}"
    console.print(_plain(f"{audit.models_in_words}, {rows}"), style="bold")
    table = Table()
    table.add_column("feature", overflow="fold", min_width=min(SHORTEST_NAME, longest))
    for name in printed:
        justify: Literal["left", "right"] = "left" if name in WORDS else "right"
        table.add_column(_plain(heading.get(name, name)), justify=justify, overflow="fold", no_wrap=name in WORDS)
    for row in zip(frame.index, *(written[name] for name in printed), strict=True):
        table.add_row(*(_plain(str(cell)) for cell in row))
    console.print(table)
    _print_left_out(console, len(audit.table) - len(frame))
    for line in sentences[n_before:]:
        console.print(_plain(line))


def print_scores(console: Console, scores: Scores) -> None:
    """Print scores, the largest first, with their unit and what is known about the rows."""
    from rich.table import Table

    order, n_left = np.argsort(-scores.values, kind="stable"), 0
    if order.size > MOST_DRAWN:
        order, n_left = drawn_of_scores(scores)
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
    _print_left_out(console, n_left)
    if scores.provenance:
        console.print(_plain(f"Scored on {_rows(scores)}: {scores.provenance['detail']}."))


def print_changes(console: Console, changes: Changes) -> None:
    """Print what cannot be told or what changed, the table, and then the rest of the summary."""
    from rich.table import Table

    first, *rest = changes.summary()
    console.print(_plain(first))
    if changes.compared:
        frame = changes.table[:MOST_DRAWN]
        table = Table()
        table.add_column("feature", overflow="fold")
        columns = {name: cells(name, frame[name]) for name in OF_CHANGES}
        for name in OF_CHANGES:
            justify: Literal["left", "right"] = "left" if name in WORDS else "right"
            table.add_column(_plain(HEADING.get(name, name.replace("_", " "))), justify=justify, overflow="fold")
        for row in zip(frame.index, *columns.values(), strict=True):
            table.add_row(*(_plain(str(cell)) for cell in row))
        console.print(table)
        _print_left_out(console, len(changes.feature_names) - len(frame))
    for line in rest:
        console.print(_plain(line))


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
    outcome = {"passed": "passed", "failed": "failed", "not judged": "was not judged"}[gate.status]
    rules = gate.failures or gate.not_judged
    console.print(_plain(f"The gate {outcome}{': ' if rules else ''}{_rules(rules)}."))
    if gate.failures and gate.not_judged:
        console.print(_plain(f"Not judged: {_rules(gate.not_judged)}."))
    if gate.allowed_not_judged:
        console.print(_plain(f"Not judged, which is allowed: {_rules(gate.allowed_not_judged)}."))


def _rules(results: tuple[Result, ...]) -> str:
    return ", ".join(result.rule for result in results)


def _print_left_out(console: Console, n_left: int) -> None:
    if n_left:
        console.print(_plain(f"... {counted(n_left, 'more feature')}; CSV, JSON and data frames have all."))


def _performance(audit: Audit) -> str:
    performance = audit.performance
    if performance is None or performance.metric is None:
        return ""
    doubt = "" if performance.better_than_constant is not False else ": no better than a constant"
    return f", {performance.in_words()}{doubt}"


def _heading(audit: Audit, name: str) -> str:
    return f"reported ({audit.reported_kind})" if name == "reported" else HEADING.get(name, name)


def _rows(scores: Scores) -> str:
    return counted(scores.n_rows or 0, f"{scores.rows_in_words} row")


def _plain(text: str) -> Text:
    """Return text without markup: a feature may be called [red] or have characters that move the cursor."""
    from rich.text import Text

    return Text(shown(text))
