"""What changed between two windows of a history: a picture of scores before and recently, and the page with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.results.any_look import ANY
from debias.results.fleet import headline_of
from debias.results.pair_changes import NULL_HYPOTHESIS
from debias.results.provisional import UNSEEN
from debias.results.report.figures import (
    MOST_DRAWN,
    MUTED,
    draw_by_verdict,
    name_rows,
    new_axes,
    refuse_axes,
    refuse_most,
    settings,
)
from debias.results.report.loss_change import READING as ABOUT_LOSS
from debias.results.report.loss_change import figure_of_loss, table_of_loss
from debias.results.report.pages import Styles, picture, render
from debias.results.tables import DASH, Table
from debias.results.vocabulary import ChangeVerdict

if TYPE_CHECKING:
    import pandas as pd

    from debias.results.changes import Changes
    from debias.results.pair_changes import PairChanges
    from debias.results.provisional import Provisional


NO_WARNINGS = "There are no warnings about the comparison. What was found stands above."
READING: tuple[tuple[str | ChangeVerdict, str], ...] = (
    (
        "Changed",
        "means that the response depends on the feature in another way than before, by more than chance at the "
        "stated error rate. Other rows alone are no change: they are in the column “shift”.",
    ),
    (
        ChangeVerdict.FADED,
        "means that the score of a feature was above 0 by more than chance, is not now, and that its response changed "
        "downwards. It is far below 0 if the effect turned round.",
    ),
    (
        ChangeVerdict.UNDETECTED,
        "means that it was distinguishable from noise and is not now, but no change was detected. This may be for lack "
        "of rows.",
    ),
    (
        "Slope",
        "is 1 if the response follows the splits on the feature as the model believes, 0 if it does not follow them, "
        "and below 0 if it goes the other way. If the scores are near 0, it is a ratio of two small numbers and says "
        "nothing.",
    ),
    ("Shift", "is the difference between the rows of the two windows at the splits of the model on the feature."),
    (
        ChangeVerdict.NOT_COMPARED,
        "means that the change could not be tested, for example because hardly any rows of the two windows are in the "
        "same leaves. The warnings say why.",
    ),
    (
        ChangeVerdict.UNUSED,
        "means that no tree splits on the feature. A history keeps sums at splits, so it cannot tell whether the "
        "response to the feature changed.",
    ),
    (ChangeVerdict.UNCHANGED, "does not prove that nothing changed. With more rows a change may be detected."),
)


def draw_changes(axes: Any, table: pd.DataFrame, most: int = MOST_DRAWN) -> None:
    """Draw the score before as a hollow point and the recent score in the style of its verdict, with a line between.

    Parameters
    ----------
    axes : matplotlib Axes
    table : DataFrame
        ``Changes.to_frame()``: index ``feature``; columns ``before``, ``after``, ``verdict``, ``shifted``.
    most : int
        Draw at most this many features, in the order of the table: the strongest evidence for a change first.
    """
    refuse_most(most)
    drawn, n_left = table.iloc[:most], max(0, len(table) - most)
    place = np.arange(len(drawn))
    before, after = (drawn[side].to_numpy(dtype=np.float64) for side in ("before", "after"))
    verdicts = drawn["verdict"].to_numpy(dtype=object)
    axes.plot(before, place, "o", mfc="none", mec=MUTED, ms=6, mew=1, label="before")
    draw_by_verdict(axes, verdicts, place, (before, after), after, {v: f"recently, {v.text}" for v in ChangeVerdict})
    axes.vlines(0, -0.5, len(drawn) - 0.5, color=MUTED, lw=1, zorder=1)
    name_rows(axes, list(drawn.index), n_left, "with less evidence for a change")
    for row, shifted in enumerate(drawn["shifted"].to_numpy(dtype=bool)):
        if shifted:
            style = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points", "annotation_clip": False}
            axes.annotate("rows shifted", (1, row), (4, 0), va="center", fontsize=8, color=MUTED, **style)
    axes.locator_params(axis="x", nbins=6)


def changes_on_axes(axes: Any, changes: Changes, most: int) -> Any:
    """Draw on the user's axes, or on new pyplot axes of sufficient height, and return them."""
    if not changes.compared:
        raise ValueError(f"there is nothing to draw: {changes.not_compared_because}")
    refuse_axes(axes)
    with settings():
        if axes is None:
            refuse_most(most)
            n_lines = min(most, len(changes.feature_names)) + (len(changes.feature_names) > most)
            axes = new_axes(6.8, 1.6 + 0.26 * n_lines)
        draw_changes(axes, changes.to_frame(), most)
        axes.set_xlabel("score (mdi_oob)")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
    return axes


def changes_page(changes: Changes, title: str | None = None) -> str:
    """Return the changes as one HTML page.

    Raises
    ------
    ImportError
        matplotlib or Jinja2 is not installed.
    """
    styles, summary = Styles(), changes.summary()
    if not changes.compared:
        del summary[0]  # the headline says it
    return render(
        "findings.html.j2",
        styles,
        title=title or f"What changed for this {changes.model}",
        headline=headline_of(changes),
        sentences=[*_not_judged(changes), *summary],
        facts=_facts(changes),
        warnings=changes.warnings,
        no_warnings=NO_WARNINGS,
        figures=[
            *([] if changes.loss is None else [figure_of_loss(changes.loss, styles)]),
            *([_figure(changes, styles)] if changes.compared else []),
        ],
        tables=tables_of_changes(changes),
        reading=(*READING, *(() if changes.loss is None else ABOUT_LOSS)),
        provenance=_provenance(changes),
    )


def tables_of_changes(changes: Changes) -> list[dict[str, Any]]:
    """Return the tables of all features as the templates take them; none if nothing was compared."""
    of_loss = [] if changes.loss is None else [table_of_loss(changes.loss)]
    waiting = [] if changes.provisional is None else [_provisional(changes.provisional)]
    pairs = [] if changes.pairs is None or changes.pairs.not_tested_because is not None else [_pairs(changes.pairs)]
    return [*of_loss, _table(changes), *pairs, *waiting] if changes.compared else waiting


def _pairs(found: PairChanges) -> dict[str, Any]:
    caption = (
        f"Null hypothesis of each test: {NULL_HYPOTHESIS}. The slope is 1 if the response follows the interaction as "
        "the model believes, and 0 if it does not follow it. The size is the standard deviation of the interaction "
        "beside everything else, in the unit of the response."
    )
    table = found.to_table().to_html()
    return {"name": "pairs", "heading": "Two features together", "table": table, "caption": caption}


def _provisional(found: Provisional) -> dict[str, Any]:
    frame = found.to_frame()
    table = Table.of(frame, ("shifted", *OF_PROVISIONAL), OF_PROVISIONAL, unknown=DASH)
    caption = (
        f"{UNSEEN} What a feature is expected to save is the mean loss that it would save if the response were what "
        "the model predicts. All of this is provisional, and settled when the responses are added."
    )
    return {"name": "provisional", "heading": "Before the responses", "table": table.to_html(), "caption": caption}


OF_PROVISIONAL = {
    "shift": "shift",
    "shift_p_adjusted": "adjusted p of shift",
    "expected_before": "expected to save before",
    "expected_after": "now",
    "expected_p_adjusted": "adjusted p",
    "may_be_broken": "may be broken",
}
"""Columns of the table of rows without responses, and their headings."""


def _table(changes: Changes) -> dict[str, Any]:
    frame = changes.to_frame()
    names = ("verdict", *OF_TABLE, "shifted")
    table = Table.of(frame, names, OF_TABLE, unknown=DASH)
    caption = (
        "Sorted by evidence for a change of the response. Before and recently are scores; their difference is the sum "
        "of the parts by the response and by the rows."
    )
    return {"name": "changes", "heading": "What changed", "table": table.to_html(), "caption": caption}


OF_TABLE = {
    "before": "before",
    "after": "recently",
    "response_change": "by the response",
    "rows_change": "by the rows",
    "slope_before": "slope before",
    "slope_after": "slope recently",
    "p_adjusted": "adjusted p",
    "shift": "shift",
    "shift_p_adjusted": "adjusted p of shift",
}
"""Columns of numbers of the table, and their headings."""


def _not_judged(changes: Changes) -> list[str]:
    if changes.any_look is None or not changes.compared:
        return []
    return ["Changes of the response to single features, and shifts of the rows, are not judged at any look."]


def _figure(changes: Changes, styles: Styles) -> dict[str, Any]:
    n_features = len(changes.feature_names)
    n_lines = min(n_features, MOST_DRAWN) + (n_features > MOST_DRAWN)
    some = f" Shown are {MOST_DRAWN} of {n_features:,} features." if n_features > MOST_DRAWN else ""
    caption = (
        "Score of each feature before (hollow point) and recently (marker of the verdict), the strongest evidence for "
        f"a change on top.{some}"
    )

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        draw_changes(axes, changes.to_frame())
        axes.set_xlabel("score (mdi_oob)")

    size = (9.6, 1.6 + 0.24 * n_lines)
    return picture("changes", "Before and recently", caption, styles, size, draw, legend_columns=2)


def _facts(changes: Changes) -> list[tuple[str, str]]:
    facts = [
        ("periods before", f"{changes.reference.n_periods:,}"),
        ("recent periods", f"{changes.recent.n_periods:,}"),
        ("features", f"{len(changes.feature_names):,}"),
    ]
    if changes.any_look is not None:
        facts += [("starts", f"{changes.any_look.n_starts:,}")]
    elif changes.compared:
        named = {"changed": "changed", "faded": ChangeVerdict.FADED.text, "shifted": "shifted"}
        facts += [(title, f"{int(changes.statistics[name].sum()):,}") for name, title in named.items()]
    return facts


def _provenance(changes: Changes) -> list[tuple[str, str]]:
    facts: dict[str, object] = {"model": changes.model, "series": changes.series}
    for name, window in (("periods before", changes.reference), ("recent periods", changes.recent)):
        span = "none" if window.first is None else f"{window.first} to {window.last}, {window.n_rows:,} rows"
        facts[name] = span
    facts |= {
        "family-wise error rate": f"{100 * changes.alpha:g}%",
        "comparisons that share it": "any number" if changes.looks == ANY else changes.looks,
        "least change of the slope": changes.least,
        "standard errors": changes.method,
    }
    return [(name, str(value)) for name, value in facts.items()]
