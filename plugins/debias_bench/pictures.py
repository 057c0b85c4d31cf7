"""The pictures of a study, as SVG files in which text stays text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.atomic_files import replacing
from debias_bench.measures import MEASURES
from debias_bench.summary import CORRELATION

if TYPE_CHECKING:
    from pathlib import Path

    from debias_bench.study import Study
    from debias_bench.summary import Cell, Number

RELEVANT, NOISE = "#D55E00", "#56B4E9"
"""Colours of the Okabe-Ito palette: colour-blind readers can distinguish them, also in grey."""
PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999"]


def draw(study: Study, cells: list[Cell], numbers: list[Number], path: Path) -> None:
    """Draw the picture of a study into an SVG file.

    Raises
    ------
    ImportError
        matplotlib is not installed.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    kind = {"dots": _dots, "means": _means, "lines": _lines, "boxes": _boxes}[study.picture]
    settings: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": study.name, "font.size": 8}
    settings["text.parse_math"] = False  # names may have dollar signs
    with rc_context({**settings, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(layout="constrained")
        scored = [cell for cell in cells if len(cell.values)]
        if scored:
            kind(figure, study, scored, numbers)
        else:
            figure.text(0.5, 0.5, "no scorer gave a score", ha="center")
        with replacing(path) as file:
            figure.savefig(file, format="svg", metadata={"Date": None})


def _dots(figure: Any, study: Study, cells: list[Cell], numbers: list[Number]) -> None:
    """Draw the first measure: one panel per table, one line per scorer, one colour per column; published is hollow."""
    measure = (*study.measures, *(f"{CORRELATION}{reference}" for reference in study.references))[0]
    of_measure = [number for number in numbers if number.measure == measure]
    tables, scorers, columns = (
        list(dict.fromkeys(getattr(number, name) for number in of_measure)) for name in ("table", "scorer", "column")
    )
    figure.set_size_inches(2.2 + 2.6 * len(tables), 1.3 + 0.3 * len(scorers))
    grid = figure.subplots(1, len(tables), sharex=True, sharey=True, squeeze=False)
    panels = dict(zip(tables, grid[0], strict=True))
    for number in of_measure:
        panel, place = panels[number.table], columns.index(number.column)
        colour = PALETTE[place % len(PALETTE)]
        y = scorers.index(number.scorer) + 0.6 * ((place + 0.5) / len(columns) - 0.5)
        if number.trials:
            panel.errorbar(number.mean, y, xerr=2 * number.standard_error, fmt="o", ms=3.5, lw=1, color=colour)
        if number.published:
            panel.plot(number.published.value, y, "D", mfc="none", ms=5, color=colour)
    for table, panel in panels.items():
        panel.set_title(table, fontsize=8)
        panel.grid(axis="x", color="#dddddd", lw=0.6)
        if measure == "auc":
            panel.axvline(0.5, color="#888888", lw=0.8)
    figure.suptitle(MEASURES[measure].title if measure in MEASURES else measure, fontsize=9)
    first = panels[tables[0]]
    first.set_yticks(range(len(scorers)), scorers)
    first.invert_yaxis()
    for place, column in enumerate(columns):
        first.plot([], [], "o", ms=3.5, color=PALETTE[place % len(PALETTE)], label=column)
    if any(number.published for number in of_measure):
        first.plot([], [], "D", mfc="none", color="#444444", ms=5, label="published")
    figure.legend(loc="outside lower center", ncols=len(columns) + 1, frameon=False)


def _means(figure: Any, study: Study, cells: list[Cell], numbers: list[Number]) -> None:
    """Draw the mean score of each feature with 2-SE bars: one line per design, one panel per scorer."""

    def panel(axes: Any, cell: Cell) -> None:
        n = len(cell.values)
        mean = cell.values.mean(axis=0)
        error = cell.values.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.zeros(mean.size)
        y = np.arange(len(cell.features))
        colours = [RELEVANT if relevant else NOISE for relevant in cell.relevant[0]]
        axes.errorbar(mean, y, xerr=2 * error, fmt="none", ecolor=colours, lw=1.5)
        axes.scatter(mean, y, s=9, c="#222222", zorder=3)
        axes.axvline(0, color="#888888", lw=0.8)
        axes.set_yticks(y, cell.features)
        axes.invert_yaxis()

    _grid(figure, cells, panel, "mean score, 2-SE bars")


def _boxes(figure: Any, study: Study, cells: list[Cell], numbers: list[Number]) -> None:
    """Draw boxplots of the scores of each feature over the trials, relevant ones in red as in Loh and Zhou."""

    def panel(axes: Any, cell: Cell) -> None:
        boxes = axes.boxplot(
            cell.values, orientation="horizontal", patch_artist=True, widths=0.6, showfliers=False,
            medianprops={"color": "#222222"}, tick_labels=cell.features,
        )  # fmt: skip
        for box, relevant in zip(boxes["boxes"], cell.relevant[0], strict=True):
            box.set(facecolor=RELEVANT if relevant else NOISE, edgecolor="#444444", linewidth=0.6)
        axes.axvline(0, color="#888888", lw=0.8)
        axes.invert_yaxis()

    _grid(figure, cells, panel, "score")


def _lines(figure: Any, study: Study, cells: list[Cell], numbers: list[Number]) -> None:
    """Draw the mean score of each feature along the series of a table: one line per table, one panel per scorer."""
    tables = list(dict.fromkeys(cell.design.table for cell in cells))
    labels = list(dict.fromkeys(cell.label for cell in cells))
    figure.set_size_inches(1 + 2.3 * len(labels), 0.8 + 2.2 * len(tables))
    grid = figure.subplots(len(tables), len(labels), squeeze=False)
    for axes, table in zip(grid, tables, strict=True):
        for panel, label in zip(axes, labels, strict=True):
            series = [cell for cell in cells if cell.design.table == table and cell.label == label]
            for k, feature in enumerate(series[0].features if series else ()):
                panel.plot(
                    [cell.design.x for cell in series],
                    [cell.values[:, k].mean() for cell in series],
                    color=PALETTE[k % len(PALETTE)],
                    lw=2.2 if series[0].relevant[0, k] else 1,
                    marker="." if len(series) < 12 else None,
                    label=feature,
                )
            panel.axhline(0, color="#888888", lw=0.8)
            panel.set_title(label, fontsize=8)
            panel.set_xlabel(table)
        axes[0].set_ylabel("mean score")
    handles, names = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=min(len(names), 8), frameon=False)


def _grid(figure: Any, cells: list[Cell], draw_panel: Any, axis_label: str) -> None:
    """Draw one panel per design and scorer."""
    designs = list(dict.fromkeys(cell.design for cell in cells))
    labels = list(dict.fromkeys(cell.label for cell in cells))
    most = max((len(cell.features) for cell in cells), default=1)
    figure.set_size_inches(1 + 2.1 * len(labels), (0.7 + 0.16 * most) * len(designs) + 0.4)
    grid = figure.subplots(len(designs), len(labels), squeeze=False)
    cell_of = {(cell.design, cell.label): cell for cell in cells}
    for axes, design in zip(grid, designs, strict=True):
        for panel, label in zip(axes, labels, strict=True):
            if (design, label) not in cell_of:
                panel.set_axis_off()
                continue
            draw_panel(panel, cell_of[design, label])
            panel.set_title(f"{design.column}: {label}", fontsize=7)
            panel.ticklabel_format(axis="x", style="sci", scilimits=(-2, 3))
            panel.tick_params(labelsize=6)
            panel.locator_params(axis="x", nbins=5)
            panel.xaxis.get_offset_text().set_fontsize(6)
    figure.supxlabel(axis_label, fontsize=8)
