"""The Markdown page of a study: its tables, with our numbers beside the paper's, and how they were computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from debias_bench.measures import MEASURES
from debias_bench.summary import CORRELATION, FLAT

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from debias_bench.study import Study
    from debias_bench.summary import Cell, Number


def page(study: Study, cells: list[Cell], numbers: list[Number], how: str) -> str:
    """Return the page of a study.

    Parameters
    ----------
    study : Study
    cells : list of Cell
    numbers : list of Number
        The result of :func:`debias_bench.summary.summarise`.
    how : str
        Repeats, seed, machine and versions, in one line.
    """
    parts = [
        f"# {study.title}",
        f"`debias bench {study.name}`: {study.source}.",
        study.remark,
        f"*Written by the runner. {how}*",
        f"![{study.title}]({study.name}.svg)",
    ]
    for measure in (*study.measures, *(f"{CORRELATION}{reference}" for reference in study.references)):
        of_measure = [number for number in numbers if number.measure == measure]
        if not of_measure:
            continue
        parts.append(_heading(measure))
        for table in dict.fromkeys(number.table for number in of_measure):
            rows = [number for number in of_measure if number.table == table]
            parts += [f"**{table}**\n\n" + _measure_table(rows), _agreement(rows)]
    if study.feature_means:
        parts.append(
            "## Mean score of each feature\n\nWith twice its standard error. The last line tests whether the means of "
            "all features are equal (Hotelling's T-squared over paired trials)."
        )
        means = [number for number in numbers if number.measure in ("mean", FLAT)]
        for design in dict.fromkeys((number.table, number.column) for number in means):
            rows = [number for number in means if (number.table, number.column) == design]
            parts.append(f"**{': '.join(design)}**\n\n" + _means_table(rows))
    if study.sets:
        parts += [_selected(cell) for cell in cells if cell.selected is not None]
    parts += _refusals(cells)
    return "\n\n".join(part for part in parts if part) + "\n"


def number_text(value: float, digits: int = 3) -> str:
    """Return a number with `digits` significant digits, without a leading zero."""
    if np.isnan(value):
        return ""
    if value == 0:
        return "0"
    if abs(value) >= 1e5 or abs(value) < 1e-3:
        return f"{value:.{digits - 1}e}".replace("e-0", "e-").replace("e+0", "e+")
    return _short(value, max(0, digits - 1 - int(np.floor(np.log10(abs(value))))))


def _heading(measure: str) -> str:
    if measure not in MEASURES:
        return f"## {measure[0].upper()}{measure[1:]}\n\nOver features; standard errors in ()."
    title, explained = MEASURES[measure].title, MEASURES[measure].explained
    return f"## {title}\n\n{explained[0].upper()}{explained[1:]}; standard errors in ()."


def _selected(cell: Cell) -> str:
    """List the features that a scorer selects in more than half of the trials, by decreasing mean score."""
    assert cell.selected is not None
    share = cell.selected.mean(axis=0)
    order = [k for k in np.argsort(-cell.values.mean(axis=0), kind="stable") if share[k] > 0.5]
    theirs = [name for name, relevant in zip(cell.features, cell.relevant[0], strict=True) if relevant]
    ours = [cell.features[k] for k in order]
    return (
        f"**{cell.design.column}: `{cell.label}` selects**\n\n"
        f"- {', '.join(ours) or 'nothing'}\n"
        f"- not in the paper's set: {', '.join(name for name in ours if name not in theirs) or 'none'}\n"
        f"- only in the paper's set: {', '.join(name for name in theirs if name not in ours) or 'none'}"
    )


def _measure_table(rows: list[Number]) -> str:
    columns = list(dict.fromkeys(number.column for number in rows))
    published_by = {number.column: number.published.by for number in rows if number.published}
    heading = ["scorer"]
    for column in columns:
        heading += [column, published_by[column]] if column in published_by else [column]
    lines = []
    number_at = {(number.scorer, number.column): number for number in rows}
    for scorer in dict.fromkeys(number.scorer for number in rows):
        ours = any(number.trials for number in rows if number.scorer == scorer)
        line = [f"`{scorer}`" if ours else scorer]
        for column in columns:
            number = number_at.get((scorer, column))
            line.append(_with_error(number))
            if column in published_by:
                line.append(f"{number.published.value:g}".replace("0.", ".", 1) if number and number.published else "")
        lines.append(line)
    return markdown_table(heading, lines)


def _agreement(rows: list[Number]) -> str:
    """Return a sentence on the distances between our numbers and the published ones."""
    compared = [number for number in rows if not np.isnan(number.distance)]
    if not compared:
        return ""
    far = [number for number in compared if number.distance > 3]
    text = f"{len(compared) - len(far)} of {len(compared)} numbers lie within 3 standard errors of those beside them"
    named = far or [max(compared, key=lambda number: number.distance)]
    distances = "; ".join(f"`{number.scorer}` {number.column} ({number.distance:.1f})" for number in named)
    return f"{text}; {'beyond' if far else 'the farthest'}: {distances}."


def _with_error(number: Number | None) -> str:
    if number is None or not number.trials:
        return ""
    error = "" if np.isnan(number.standard_error) else f" ({_short(number.standard_error)})"
    return _short(number.mean) + error


def _short(value: float, decimals: int = 3) -> str:
    return f"{value:.{decimals}f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.{decimals}f}"


def _means_table(rows: list[Number]) -> str:
    scorers = list(dict.fromkeys(number.scorer for number in rows))
    features = [name for name in dict.fromkeys(number.feature for number in rows) if name]
    shown = {
        (number.scorer, number.feature): f"{number_text(number.mean)} ± {number_text(2 * number.standard_error, 2)}"
        for number in rows
        if number.measure == "mean"
    }
    lines = [[feature, *(shown.get((scorer, feature), "") for scorer in scorers)] for feature in features]
    flat = {number.scorer: number.mean for number in rows if number.measure == FLAT}
    lines.append(["equal means: p", *(number_text(flat.get(scorer, np.nan), 2) or "-" for scorer in scorers)])
    return markdown_table(["feature", *(f"`{scorer}`" for scorer in scorers)], lines)


def markdown_table(heading: Sequence[str], lines: Sequence[Sequence[str]], texts: Collection[int] = (0,)) -> str:
    """Return lines of cells as a Markdown table; `texts` are the positions of columns that are not numbers."""
    alignment = ["---" if k in texts else "---:" for k in range(len(heading))]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in (heading, alignment, *lines)
    )


def _refusals(cells: list[Cell]) -> list[str]:
    designs_of: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        for reason in cell.refusals:
            designs_of.setdefault((cell.label, reason), []).append(cell.design.name)
    if not designs_of:
        return []
    lines = [f"- `{label}` ({', '.join(designs)}): {reason}" for (label, reason), designs in designs_of.items()]
    return ["## Refused\n\n" + "\n".join(lines)]
