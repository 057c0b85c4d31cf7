"""Results as text: tables and sentences for a terminal, and a headline with a short table for the prompt of Python."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from debias.results.report.figures import MOST_DRAWN, drawn_features, drawn_of_scores
from debias.results.sentences import (
    doubts,
    headline,
    headline_of_folds,
    of_lines,
    of_rest,
    of_stopping,
    rows_of,
    scored_on,
)
from debias.results.tables import Table, plain, rows_named
from debias.results.vocabulary import GateStatus, displayed
from debias.text import counted, escaped, shortened

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from debias.results.audit import Audit
    from debias.results.changes import Changes
    from debias.results.clusters import Clusters
    from debias.results.comparison import Comparison
    from debias.results.data_or_model import DataOrModel
    from debias.results.droppable import Droppable
    from debias.results.fleet import Fleet
    from debias.results.folds_audit import FoldsAudit
    from debias.results.gate_outcome import Gate, Result
    from debias.results.interactions import Interactions
    from debias.results.model_comparison import ModelComparison
    from debias.results.pair_comparison import PairComparison
    from debias.results.scores import Scores

HIDDEN = {"standard_error", "p_value", "verdict", "untested_because", "dependence_p_adjusted", "dependence"}
"""Columns of an audit that do not fit a terminal. CSV, JSON and data frames have them. The finding tells the verdicts
in words, and a sentence why a feature was not tested."""
TESTED = {"z", "p_adjusted", "verdict", "finding", "informative_folds"}
OF_FOLDS = ("share", "mean", "standard_error", "rank", "informative_folds", "p_adjusted", "verdict")
"""Columns of an audit of folds for a terminal, if there is room."""
OF_CHANGES = ("before", "after", "response_change", "rows_change", "p_adjusted", "shift", "verdict")
OF_COSTS_SINCE = ("saved_before", "cost", "cost_since", "since", "p_adjusted", "verdict")
OF_MODELS = ("saved_baseline", "saved_model", "cost", "error", "p_adjusted", "verdict")
OF_DATA_OR_MODEL = {
    "change": "change",
    "data": "by the data",
    "data_p_adjusted": "adjusted p",
    "model_part": "by the model",
    "model_p_adjusted": "adjusted p of the model",
    "verdict": "verdict",
}
WIDTH = 80
"""Columns of the prompt,"""
MOST = 10
"""and the rows of its tables. A line says how many more there are."""
LEFT_OUT = {"response_change", "rows_change", "saved_before"}
"""Columns of changes for which the prompt has no room."""
LONGEST_NAME = 24
LONGEST_RULE, LONGEST_VALUE = 32, 17


def print_audit(console: Console, audit: Audit) -> None:
    """Print what matters, the table, and then the rest of the summary. Its warnings were shown when they were raised.

    If nothing was tested, the reason comes before the table.
    """
    sentences = audit.summary()
    n_before = max(1, sentences.index(audit.test_summary()))
    _print_lines(console, sentences[:n_before])
    print_table(console, audit)
    _print_lines(console, sentences[n_before:])


def print_table(console: Console, audit: Audit) -> None:
    """Print the table of an audit: of many features, those of its figures."""
    frame, n_left = audit.to_frame(), 0
    if len(frame) > MOST_DRAWN:
        drawn, n_left = drawn_features(audit)
        frame = rows_named(frame, [audit.tested_scores.feature_names[k] for k in drawn])
    names = [name for name in frame.columns if name not in HIDDEN and (audit.tested or name not in TESTED)]
    table = Table.of(frame, names, long_titles={"reported": f"reported ({audit.reported_kind})"})
    of = f"{audit.tested_scores.settings['model']}, {rows_of(audit.tested_scores)}{_performance(audit)}"
    _print_table(console, table, n_left, of)


def print_folds(console: Console, audit: FoldsAudit) -> None:
    """Print what matters over all folds, the table of the largest shares, and then the rest of the summary."""
    sentences, frame = audit.summary(), audit.to_frame()
    n_before = 1 + (sentences.index(headline_of_folds(audit)) if audit.tested else len(audit.notes))
    _print_lines(console, sentences[:n_before])
    names = [name for name in OF_FOLDS if audit.tested or name not in TESTED]
    table = Table.of(frame.iloc[:MOST_DRAWN], names, {"standard_error": "standard error"})
    of = f"{audit.models_in_words}, {audit.rows_in_words} rows of {counted(len(audit.audits), 'fold')}"
    _print_table(console, table, len(frame) - MOST_DRAWN, of)
    _print_lines(console, sentences[n_before:])


def print_scores(console: Console, scores: Scores) -> None:
    """Print scores, the largest first, with their unit and what is known about the rows."""
    order, n_left = np.argsort(-scores.values, kind="stable"), 0
    if order.size > MOST_DRAWN:
        order, n_left = drawn_of_scores(scores)
    frame = scores.to_frame().iloc[order]
    hidden = {"p_value", "selected"} if scores.p_adjusted is not None else set()  # the adjusted p-value implies both
    of = scores.settings["model"] or f"{counted(scores.n_rows or 0, 'row')} of data"
    table = Table.of(frame, [name for name in frame.columns if name not in hidden])
    _print_table(console, table, n_left, f"{of}: {scores.scorer} ({scores.unit})")
    if scores.provenance:
        _print_lines(console, [scored_on(scores)])


def print_changes(console: Console, changes: Changes) -> None:
    """Print what cannot be told or what changed, the table, and then the rest of the summary."""
    first, *rest = changes.summary()
    _print_lines(console, [first])
    if changes.compared:
        frame, columns = _judged(changes)
        _print_table(console, Table.of(frame[:MOST_DRAWN], columns), len(frame) - MOST_DRAWN)
        if changes.pairs is not None and changes.pairs.not_tested_because is None:
            _print_table(console, changes.pairs.to_table(), 0, "Two features together")
    _print_lines(console, rest)


def _judged(changes: Changes) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the table of the features, and its columns: with any number of looks, only what they cost is judged."""
    if changes.any_look is not None and changes.loss is not None:
        return changes.loss.to_frame(), OF_COSTS_SINCE
    return changes.to_frame(), OF_CHANGES


def print_fleet(console: Console, fleet: Fleet) -> None:
    """Print how many models need a look, a line for each model, and then the rest of the summary."""
    first, *rest = fleet.summary()
    _print_lines(console, [first])
    _print_table(console, fleet.table(), 0)
    _print_lines(console, rest)


def print_models(console: Console, comparison: ModelComparison) -> None:
    """Print which model is better, the table of features, and then the rest of the summary."""
    first, *rest = comparison.summary()
    _print_lines(console, [first])
    frame = comparison.to_frame()
    table = Table.of(frame[:MOST_DRAWN], columns_of_models(comparison))
    _print_table(console, table, len(frame) - MOST_DRAWN)
    _print_lines(console, rest)


def print_data_or_model(console: Console, found: DataOrModel) -> None:
    """Print the days, the table of features, and then what changed the scores."""
    first, *rest = found.summary()
    _print_lines(console, [first])
    frame = frame_of_parts(found)
    table = Table.of(frame[:MOST_DRAWN], OF_DATA_OR_MODEL, OF_DATA_OR_MODEL)
    _print_table(console, table, len(frame) - MOST_DRAWN)
    _print_lines(console, rest)


def frame_of_parts(found: DataOrModel) -> pd.DataFrame:
    """Return the table of data and model for a reader: elsewhere a column called model has words."""
    return found.to_frame().rename(columns={"model": "model_part"})


def columns_of_models(comparison: ModelComparison) -> list[str]:
    """Return the columns of a table of two models: which of them has a feature only if that is not both."""
    return [*OF_MODELS, *(["only_in"] if any(comparison.only_in) else [])]


def print_droppable(console: Console, result: Droppable) -> None:
    """Print what may be dropped, the table of the sets, and then the rest of the summary."""
    sentences = result.summary()
    _print_lines(console, sentences[:2])
    of = f"{result.settings['model']}, {counted(result.n_rows, 'held-out row')}, {result.performance.in_words()}"
    _print_table(console, table_of_drops(result), 0, of)
    _print_lines(console, sentences[2:])


def table_of_drops(result: Droppable) -> Table:
    """Return the table of the sets that were tried, for a reader."""
    frame = result.to_frame()
    names = [name for name in frame.columns if name != "rows_needed" or frame[name].notna().any()]
    names.append(names.pop(names.index("also_dropped")))  # it may be long
    frame.index = frame.index.map("{:,}".format)
    needed = f"{result.units.split()[0 if result.blocks else 1]} needed to decide"
    return Table.of(frame, names, {"rows_needed": needed}, head="dropped")


def table_of_drop_decisions(result: Droppable) -> Table:
    """Return the table with one line for each feature: those to drop first, in their order."""
    decisions, ordered = result.decisions, set(result.order)
    names = [*result.order, *(name for name in result.feature_names if name not in ordered)]
    return Table.of_cells({"feature": names, "decision": [decisions[name].text for name in names]})


def print_clusters(console: Console, found: Clusters) -> None:
    """Print what is informative together, the table of clusters, and then how and on which rows it was tested."""
    *first, of_test, of_rows = found.summary()
    _print_lines(console, first)
    if found.clusters:
        _print_table(console, found.to_table(MOST_DRAWN), len(found.clusters) - MOST_DRAWN, noun="cluster")
    _print_lines(console, [of_test, of_rows])


def print_interactions(console: Console, found: Interactions) -> None:
    """Print what is confirmed, the table of pairs, and then the rest of the summary."""
    first, *rest = found.summary()
    _print_lines(console, [first])
    if found.sets:
        _print_table(console, found.to_table(MOST_DRAWN), len(found.sets) - MOST_DRAWN, noun="interaction")
    _print_lines(console, rest)


def print_gate(console: Console, gate: Gate) -> None:
    """Print the result of each rule of a policy, and the changes from the baseline."""
    from rich.table import Table as RichTable

    rules = gate.to_table()
    table = RichTable(show_lines=True)
    columns = (rules.names, *rules.columns)
    for each in columns:
        table.add_column(each.title, overflow="fold")
    for row in zip(*(each.cells for each in columns), strict=True):
        table.add_row(*map(plain, row))
    console.print(table)
    not_judged = GateStatus.NOT_JUDGED.text
    outcome = f"was {not_judged}" if gate.status is GateStatus.NOT_JUDGED else gate.status.text
    those = gate.failures or gate.not_judged
    lines = [f"Checked: {gate.checked}"] if gate.checked else []
    lines += ["Changes from the baseline:"] if gate.changes else []
    lines += [f"  {change.in_words()}" for change in gate.changes]
    lines.append(f"The gate {outcome}{': ' if those else ''}{_rules(those)}.")
    if gate.failures and gate.not_judged:
        lines.append(f"{not_judged.capitalize()}: {_rules(gate.not_judged)}.")
    if gate.allowed_not_judged:
        lines.append(f"{not_judged.capitalize()}, which is allowed: {_rules(gate.allowed_not_judged)}.")
    _print_lines(console, lines)


def short_audit(audit: Audit) -> str:
    """Return the headline of an audit, and the features with the largest shares."""
    first = audit.strongest_first[:MOST]
    frame = rows_named(audit.to_frame(), [audit.tested_scores.feature_names[k] for k in first])
    names = [name for name in ("reported", "reported_unseen", "share") if name in frame.columns]
    names += [name for name in ("z", "p_adjusted") if audit.tested and getattr(audit.tested_scores, name) is not None]
    names += ["finding"] if audit.tested else []
    performance = "" if audit.performance is None or audit.performance.metric is None else audit.performance.in_words()
    of = ", ".join(filter(None, [rows_of(audit.tested_scores), counted(audit.share.size, "feature"), performance]))
    first_of_all = [*doubts(audit), *of_lines(audit.tested_scores), *of_stopping(audit)]
    lines = [
        f"Audit of {escaped(audit.tested_scores.settings['model'])}: {of}",
        *first_of_all,
        headline(audit),
        *of_rest(audit),
    ]
    return _short(lines, Table.of(frame, names), audit.share.size)


def short_folds(audit: FoldsAudit) -> str:
    """Return the headline of an audit of folds, and the features with the largest shares."""
    frame = audit.to_frame()
    names = ("share", "mean", *(("informative_folds", "p_adjusted", "verdict") if audit.tested else ()))
    of = f"{counted(len(audit.audits), 'fold')} of {escaped(audit.models_in_words)}"
    line = f"Audit of {of}: {audit.rows_in_words} rows, {counted(len(frame), 'feature')}"
    return _short([line, headline_of_folds(audit)], Table.of(frame.iloc[:MOST], names), len(frame))


def short_scores(scores: Scores) -> str:
    """Return what the scores are, and the largest."""
    frame = scores.to_frame().iloc[np.argsort(-scores.values, kind="stable")[:MOST]]
    p_value = "p_value" if scores.p_adjusted is None else "p_adjusted"
    names = [name for name in (scores.scorer, "z", p_value, "selected") if name in frame.columns]
    rows = "" if scores.rows is None else f"{rows_of(scores)}, "
    features = counted(len(scores.feature_names), "feature")
    of = f" of {escaped(scores.settings['model'])}" if scores.settings.get("model") else ""
    line = f"Scores {scores.scorer}{of}: {rows}{features} ({scores.unit})"
    return _short([line, *of_lines(scores)], Table.of(frame, names), len(scores.feature_names))


def short_comparison(comparison: Comparison) -> str:
    """Return where the scorers disagree most, and the scores, the largest by the first scorer first."""
    frame, scorers = comparison.to_frame(), list(comparison.scores)
    ranks = comparison.ranks.to_numpy()
    k = int(np.argmax(np.ptp(ranks, axis=1)))
    highest, lowest = int(np.argmin(ranks[k])), int(np.argmax(ranks[k]))
    if ranks[k, highest] < ranks[k, lowest]:
        where = (
            f"Largest disagreement: {escaped(str(frame.index[k]))} has rank {ranks[k, highest]:g} by "
            f"{scorers[highest]} and rank {ranks[k, lowest]:g} by {scorers[lowest]}."
        )
    else:
        where = "All scorers give the features the same ranks."
    lines = [f"Comparison of {', '.join(scorers)}: {counted(len(frame), 'feature')}", where]
    return _short(lines, Table.of(frame[:MOST], frame.columns), len(frame))


def short_changes(changes: Changes) -> str:
    """Return what changed first, and the features with the strongest evidence."""
    frame, columns = _judged(changes)
    names = [name for name in columns if name in frame.columns and name not in LEFT_OUT]
    of = f"{escaped(changes.series)} ({escaped(changes.model)}): {counted(len(frame), 'feature')}"
    return _short([f"Changes of {of}", changes.summary()[0]], Table.of(frame[:MOST], names), len(frame))


def short_droppable(result: Droppable) -> str:
    """Return what may be dropped, and the sets that were tried."""
    table = table_of_drops(result)
    kept = [column for column in table.columns if column.name not in ("also_dropped", "p_value", "rows_needed")]
    of = f"{counted(result.n_rows, 'held-out row')}, {result.performance.in_words()}"
    lines = [f"Features to drop from {escaped(result.settings['model'])}: {of}", *map(escaped, result.summary()[:2])]
    return _short(lines, Table(table.names, kept), result.sizes.size)


def short_clusters(found: Clusters) -> str:
    """Return what is informative together, and the first clusters."""
    *lines, _, _ = found.summary()
    of = f"Clusters of {escaped(str(found.scores.settings.get('model')))}"
    return _short([of, *lines], found.to_table(MOST), len(found.clusters), LONGEST_RULE)


def short_interactions(found: Interactions) -> str:
    """Return what is confirmed, and the first pairs."""
    of = f"Interactions of {escaped(str(found.settings.get('model')))}"
    return _short([of, found.headline, *found.of_drawn_rows], found.to_table(MOST), len(found.sets), LONGEST_RULE)


def short_pairs(comparison: PairComparison) -> str:
    """Return where SHAP interactions and the test disagree, and the first pairs."""
    of = f"Pairs of features of {escaped(str(comparison.settings.get('model')))}"
    lines = [of, comparison.headline, *(() if comparison.tested is None else comparison.tested.of_drawn_rows)]
    return _short(lines, comparison.to_table(MOST), len(comparison.pairs), LONGEST_RULE)


def short_models(comparison: ModelComparison) -> str:
    """Return which model is better, and the features with the largest costs."""
    frame = comparison.to_frame()
    models = " and the baseline, ".join(escaped(str(comparison.settings.get(name))) for name in ("model", "baseline"))
    names = ("cost", "error", "p_adjusted", "verdict")
    return _short([f"Losses of {models}", comparison.headline], Table.of(frame[:MOST], names), len(frame))


def short_data_or_model(found: DataOrModel) -> str:
    """Return what changed the scores of most features, and the first rows of the table."""
    frame = frame_of_parts(found)
    columns = {name: OF_DATA_OR_MODEL[name] for name in ("data", "model_part", "verdict")}
    return _short([f"Data or model: {found.summary()[0]}"], Table.of(frame[:MOST], columns, columns), len(frame))


def short_gate(gate: Gate) -> str:
    """Return whether a gate passed, and the results of its rules, failures first."""
    results = sorted(gate.results, key=lambda result: list(GateStatus).index(result.status))
    counts = [
        f"{number:,} {status.text}"
        for status in GateStatus
        if (number := sum(result.status is status for result in results))
    ]
    line = f"Gate {gate.status.text}: {counted(len(results), 'rule')} ({', '.join(counts)})"
    columns = {
        title: [shortened(displayed(getattr(result, attribute)), LONGEST_VALUE) for result in results[:MOST]]
        for title, attribute in (("result", "status"), ("value", "value"), ("limit", "limit"))
    }
    table = Table.of_cells({"rule": [result.rule for result in results[:MOST]], **columns})
    return _short([line], table, len(results), LONGEST_RULE)


def _short(lines: list[str], table: Table, n_rows: int, longest_name: int = LONGEST_NAME) -> str:
    """Return lines, folded to the width of the prompt, the table, and how many rows it leaves out."""
    n_left = n_rows - len(table.names.cells)
    more = [f"... {n_left:,} more"] if n_left > 0 else []
    folded = [part for line in lines for part in textwrap.wrap(line, WIDTH)]
    return "\n".join([*folded, *table.to_text(WIDTH, longest_name), *more])


def _print_table(console: Console, table: Table, n_left: int, of: str | None = None, noun: str = "feature") -> None:
    """Print what a table is of, the table, and how many rows it leaves out."""
    if of is not None:
        console.print(plain(of), style="bold")
    console.print(table.to_terminal(console.width))
    if n_left > 0:
        _print_lines(console, [f"... {counted(n_left, f'more {noun}')}; CSV, JSON and data frames have all."])


def _print_lines(console: Console, lines: list[str]) -> None:
    for line in lines:
        console.print(plain(line))


def _rules(results: tuple[Result, ...]) -> str:
    return ", ".join(result.rule for result in results)


def _performance(audit: Audit) -> str:
    performance = audit.performance
    if performance is None or performance.metric is None:
        return ""
    doubt = "" if performance.better_than_constant is not False else ": no better than a constant"
    return f", {performance.in_words()}{doubt}"
