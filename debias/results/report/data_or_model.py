"""What the data and what a new model changed of scores: a picture, and the page with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.results.console import frame_of_parts
from debias.results.report.figures import (
    MUTED,
    NORMAL_95,
    name_rows,
    new_axes,
    refuse_axes,
    refuse_most,
    settings,
)
from debias.results.report.pages import Styles, picture, render
from debias.results.tables import DASH, Table
from debias.results.vocabulary import BLUE, VERMILION

if TYPE_CHECKING:
    from debias.results.data_or_model import DataOrModel

MOST_ROWS = 12
"""A picture shows at most this many features."""
BESIDE = 0.16
"""The two parts of a feature lie at this distance from its line."""
COLUMNS = {
    "change": "change",
    "data": "by the data",
    "data_error": "standard error",
    "data_p_adjusted": "adjusted p",
    "model_part": "by the model",
    "model_error": "its standard error",
    "model_p_adjusted": "its adjusted p",
}
READING = (
    (
        "Data",
        "is what the old model alone tells: its scores on the recent days, less those on the days before.",
    ),
    (
        "Model",
        "is the new model on the recent days, less the old one on the same days. It says nothing about which of them "
        "is better.",
    ),
    (
        "No change detected",
        "does not show that there is none: more days may.",
    ),
)


def draw_parts(axes: Any, found: DataOrModel, most: int) -> None:
    """Draw both parts of the features of which one is largest, each with its 95% interval."""
    refuse_most(most)
    size = np.fmax(np.abs(found.data), np.abs(found.model))
    order = np.argsort(-size, kind="stable")
    drawn = order[:most]
    place = np.arange(drawn.size)
    for part, colour, marker, side in (("data", BLUE, "o", -BESIDE), ("model", VERMILION, "s", BESIDE)):
        value, error = getattr(found, part)[drawn], np.nan_to_num(getattr(found, f"{part}_error")[drawn])
        axes.hlines(place + side, value - NORMAL_95 * error, value + NORMAL_95 * error, color=colour, lw=1.2)
        axes.plot(value, place + side, marker, color=colour, ms=5, label=f"by the {part}")
    axes.vlines(0, -0.5, drawn.size - 0.5, color=MUTED, lw=1, zorder=1)
    name_rows(axes, [found.names[k] for k in drawn], order.size - drawn.size, "")
    axes.locator_params(axis="x", nbins=6)
    axes.set_xlabel("change of the score")


def height_of(found: DataOrModel, most: int = MOST_ROWS) -> float:
    """Return the height of the picture in inches."""
    return 1.5 + 0.34 * (min(len(found.names), most) + (len(found.names) > most))


def parts_on_axes(axes: Any, found: DataOrModel, most: int) -> Any:
    """Draw on the user's axes, or on new pyplot axes of sufficient height, and return them."""
    refuse_axes(axes)
    refuse_most(most)
    own_figure = axes is None
    with settings():
        if axes is None:
            axes = new_axes(6.4, height_of(found, most))
        draw_parts(axes, found, most)
        if own_figure:
            axes.figure.legend(loc="outside upper left", ncols=2, frameon=False)
        else:
            axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
    return axes


def data_or_model_page(found: DataOrModel, title: str | None = None) -> str:
    """Return the division of changes as one HTML page.

    Raises
    ------
    ImportError
        matplotlib or Jinja2 is not installed.
    """
    styles = Styles()
    caption = (
        "What the data and what the model changed of each score, with 95% intervals from the differences between days."
    )

    def draw(figure: Any) -> None:
        draw_parts(figure.subplots(), found, MOST_ROWS)

    drawn = picture("parts", "Data or model", caption, styles, (9.6, height_of(found)), draw, legend_columns=2)
    table = Table.of(frame_of_parts(found), (*COLUMNS, "verdict"), COLUMNS, unknown=DASH)
    return render(
        "findings.html.j2",
        styles,
        title=title or f"Did the data or the model change the scores? {found.old} and {found.new}",
        headline=found.headline,
        sentences=found.summary(),
        facts=[
            ("days before", f"{found.before.n_periods:,}"),
            ("recent days", f"{found.after.n_periods:,}"),
            ("features", f"{len(found.names):,}"),
        ],
        warnings=found.warnings,
        figures=[drawn],
        tables=[
            {
                "name": "parts",
                "heading": "All features",
                "table": table.to_html(),
                "caption": "In the unit of the scores; the two parts add up to the change.",
            }
        ],
        reading=READING,
        provenance=[("old model", found.old), ("new model", found.new), ("error rate", f"{found.error_rate:g}")],
    )
