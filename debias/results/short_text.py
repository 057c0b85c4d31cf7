"""Results as a few lines of plain text, for the prompt of Python: a headline and a table of at most ten rows."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from debias.results.cells import HEADING, cells, columns_that_fit
from debias.results.sentences import doubts, headline, of_stopping
from debias.text import counted, shortened, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from debias.results.audit import Audit
    from debias.results.changes import Changes
    from debias.results.comparison import Comparison
    from debias.results.folds_audit import FoldsAudit
    from debias.results.gate_outcome import Gate
    from debias.results.scores import Scores

WIDTH = 80
"""Columns of a terminal."""
MOST = 10
"""A table has at most this many rows, and a line that says how many more there are."""
LONGEST_NAME = 24
LONGEST_RULE, LONGEST_VALUE = 32, 17
LEFT = {"verdict", "result"}
"""Columns of words. They are aligned to the left, those of figures to the right."""


def of_audit(audit: Audit) -> str:
    """Return the headline of an audit, and the features with the largest shares."""
    first = np.lexsort((-audit.main.values, -audit.share))[:MOST]
    columns = {} if audit.reported is None else {"reported": cells("reported", audit.reported[first])}
    columns["share"] = cells("share", audit.where_tested(audit.share)[first])
    if audit.tested:
        for name in ("z", "p_adjusted"):
            figures = getattr(audit.main, name)
            if figures is not None:
                columns[name] = cells(name, audit.where_tested(figures)[first])
        columns["verdict"] = [audit.verdict[k] for k in first]
    rows = counted(audit.main.n_rows or 0, f"{audit.rows_in_words} row")
    features = counted(audit.share.size, "feature")
    performance = "" if audit.performance is None or audit.performance.metric is None else audit.performance.in_words()
    of = ", ".join(filter(None, [rows, features, performance]))
    first_of_all = [*doubts(audit), *of_stopping(audit)]
    lines = [f"Audit of {shown(audit.main.settings['model'])}: {of}", *first_of_all, headline(audit)]
    return _text(lines, _names(audit.main.feature_names, first), columns, audit.share.size)


def of_folds(audit: FoldsAudit) -> str:
    """Return the headline of an audit of folds, and the features with the largest shares."""
    from debias.results import fold_sentences

    frame = audit.table.iloc[:MOST]
    written = ("share", "mean", "informative_folds", *(("p_adjusted", "verdict") if audit.tested else ()))
    columns = {name: cells(name, frame[name]) for name in written}
    folds, features = counted(len(audit.audits), "fold"), counted(len(audit.table), "feature")
    models = shown(audit.models_in_words)
    lines = [f"Audit of {folds} of {models}: {audit.rows_in_words} rows, {features}", fold_sentences.headline(audit)]
    return _text(lines, [shortened(str(name), LONGEST_NAME) for name in frame.index], columns, len(audit.table))


def of_scores(scores: Scores) -> str:
    """Return what the scores are, and the largest."""
    first = np.argsort(-scores.values, kind="stable")[:MOST]
    columns = {scores.scorer: cells(scores.scorer, scores.values[first])}
    for name in ("z", "p_value" if scores.p_adjusted is None else "p_adjusted", "selected"):
        figures = getattr(scores, name)
        if figures is not None:
            columns[name] = cells(name, figures[first])
    rows = "" if scores.rows is None else f"{counted(scores.n_rows or 0, f'{scores.rows_in_words} row')}, "
    features = counted(len(scores.feature_names), "feature")
    of = f" of {shown(scores.settings['model'])}" if scores.settings.get("model") else ""
    line = f"Scores {scores.scorer}{of}: {rows}{features} ({scores.unit})"
    return _text([line], _names(scores.feature_names, first), columns, len(scores.feature_names))


def of_comparison(comparison: Comparison) -> str:
    """Return where the scorers disagree most, and the scores, the largest by the first scorer first."""
    table, scorers = comparison.table, list(comparison.scores)
    ranks = comparison.ranks.to_numpy()
    k = int(np.argmax(np.ptp(ranks, axis=1)))
    highest, lowest = int(np.argmin(ranks[k])), int(np.argmax(ranks[k]))
    if ranks[k, highest] < ranks[k, lowest]:
        where = (
            f"Largest disagreement: {shown(str(table.index[k]))} has rank {ranks[k, highest]:g} by {scorers[highest]} "
            f"and rank {ranks[k, lowest]:g} by {scorers[lowest]}."
        )
    else:
        where = "All scorers give the features the same ranks."
    lines = [f"Comparison of {', '.join(scorers)}: {counted(len(table), 'feature')}", where]
    columns = {name: cells(name, table[name].to_numpy()[:MOST]) for name in table.columns}
    return _text(lines, _names(list(table.index), range(min(MOST, len(table)))), columns, len(table))


def of_gate(gate: Gate) -> str:
    """Return whether a gate passed, and the results of its rules, failures first."""
    results = sorted(gate.results, key=lambda result: ("failed", "not judged", "passed").index(result.status))
    counts = [
        f"{number:,} {status}"
        for status in ("failed", "not judged", "passed")
        if (number := sum(result.status == status for result in results))
    ]
    line = f"Gate {gate.status}: {counted(len(results), 'rule')} ({', '.join(counts)})"
    columns = {
        heading: [shortened(getattr(result, attribute), LONGEST_VALUE) for result in results[:MOST]]
        for heading, attribute in (("result", "status"), ("value", "value"), ("limit", "limit"))
    }
    rules = [shortened(result.rule, LONGEST_RULE) for result in results[:MOST]]
    return _text([line], rules, columns, len(results), "rule")


def of_changes(changes: Changes) -> str:
    """Return what changed first, and the features with the strongest evidence."""
    features = counted(len(changes.feature_names), "feature")
    lines = [f"Changes of {shown(changes.series)} ({shown(changes.model)}): {features}", changes.summary()[0]]
    frame = changes.table[:MOST]
    columns = {
        name: cells(name, frame[name])
        for name in ("before", "after", "p_adjusted", "shift", "verdict")
        if name in frame.columns
    }
    names = [shortened(str(name), LONGEST_NAME) for name in frame.index]
    return _text(lines, names, columns, len(changes.feature_names))


def _names(names: Sequence[str], which: Iterable[int]) -> list[str]:
    return [shortened(str(names[k]), LONGEST_NAME) for k in which]


def _text(lines: list[str], names: list[str], columns: dict[str, list[str]], n_rows: int, head: str = "feature") -> str:
    """Return lines, folded to the width of a terminal, and a table of the columns that fit."""
    width = max(map(len, [head, *names]))
    headings = {name: HEADING.get(name, name) for name in columns}
    widths = {name: 2 + max(map(len, [headings[name], *columns[name]])) for name in columns}
    shown_columns = columns_that_fit(widths, WIDTH - width)

    def row(name: str, of_columns: dict[str, str]) -> str:
        parts = [
            f"  {of_columns[c]:<{widths[c] - 2}}" if c in LEFT else f"{of_columns[c]:>{widths[c]}}"
            for c in shown_columns
        ]
        return f"{name:<{width}}{''.join(parts)}".rstrip()

    table = [row(head, headings)]
    table += [row(name, {c: columns[c][k] for c in shown_columns}) for k, name in enumerate(names)]
    more = [f"... {n_rows - len(names):,} more"] if n_rows > len(names) else []
    folded = [part for line in lines for part in textwrap.wrap(line, WIDTH)]
    return "\n".join([*folded, *table, *more])
