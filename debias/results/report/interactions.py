"""The page of interactions: shares with intervals, the matrix of pairs, and the surfaces of confirmed pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import with_article
from debias.results.report.figures import MOST_DRAWN, draw_interactions
from debias.results.report.pages import Styles, picture, render
from debias.results.report.pairs import draw_matrix, draw_surface, has_surface, matrix_size
from debias.results.vocabulary import Confirmation
from debias.text import counted, named_together

if TYPE_CHECKING:
    from debias.results.interactions import Interactions

WIDTH = 9.6
"""Of each picture, in inches, so that their letters have one size."""
MOST_IN_MATRIX = 15
"""The matrix of the page has at most this many features,"""
MOST_SURFACES = 4
"""and so many confirmed pairs have a surface."""
READING = (
    (
        "Share",
        "is the part of the covariance of the response and the model's output that needs these features together, "
        "beyond additive functions of all columns and the other interactions. It is 0 on average if there is no such "
        "interaction.",
    ),
    (
        Confirmation.CONFIRMED.text.capitalize(),
        "means that the response goes with what the model does with these features together, by more than chance at "
        "the stated error rate over all tests. The interval is that of one test alone, so it may lie above 0 beside "
        f"“{Confirmation.NO_EVIDENCE.text}”.",
    ),
    (
        Confirmation.SIMILAR.text.capitalize(),
        "means that it is confirmed, but not beside products of pairs with correlated features. The model may use this "
        "pair in place of one of those, and these rows do not tell which.",
    ),
    (
        Confirmation.NO_EVIDENCE.text.capitalize(),
        "does not prove that there is no interaction. With more rows it may be confirmed. An interaction that the "
        "model does not use cannot be found.",
    ),
    (
        Confirmation.UNTESTED.text.capitalize(),
        "means that nothing was learned about it. The sentences at the top say why.",
    ),
    ("Verdicts", "are about what goes together on these rows, not about causes."),
)


def interactions_page(found: Interactions, title: str | None = None) -> str:
    """Return the report as one HTML page.

    Raises
    ------
    ImportError
        matplotlib or Jinja2 is not installed.
    """
    styles, summary = Styles(), found.summary()
    n_tested = int(found.tested.sum())
    facts = [
        ("features", f"{len(found.feature_names):,}"),
        ("used together by the model", f"{len(found.sets):,}"),
        ("tested", f"{n_tested:,}"),
        (Confirmation.CONFIRMED.text, f"{len(found.confirmed):,}"),
        (Confirmation.SIMILAR.text, f"{len(found.confirmed_or_similar):,}"),
    ]
    warnings = set(found.warnings)
    return render(
        "findings.html.j2",
        styles,
        title=title or f"Which features work together in {with_article(str(found.settings.get('model', 'model')))}",
        headline=found.headline,
        sentences=[sentence for sentence in summary if sentence != found.headline and sentence not in warnings],
        facts=facts,
        warnings=found.warnings,
        no_warnings="There are no warnings beside what the sentences above say of the rows.",
        figures=_figures(found, styles, n_tested),
        tables=[]
        if not found.sets
        else [
            {
                "name": "pairs",
                "heading": "All interactions",
                "table": found.to_table().to_html(),
                "caption": "Confirmed ones first, then by score. “Output, sd” is the standard deviation over rows of "
                "what the model does with these features, and no others, together.",
            }
        ],
        reading=READING,
        provenance=[(name.replace("_", " "), str(value)) for name, value in found.settings.items()]
        + [(f"rows: {name}".replace("_", " "), str(value)) for name, value in found.provenance.items()],
    )


def _figures(found: Interactions, styles: Styles, n_tested: int) -> list[dict[str, Any]]:
    """Return the pictures for which there are numbers."""
    figures = []
    if n_tested:
        figures.append(_intervals(found, styles, n_tested))
    if n_tested and len(found.pairs) > 1:
        figures.append(_matrix(found, styles))
    pairs = [pair for pair in (*found.confirmed, *found.confirmed_or_similar) if has_surface(found, pair)]
    for number, pair in enumerate(pairs[:MOST_SURFACES]):
        some = f" Drawn are {MOST_SURFACES} of {len(pairs)} confirmed pairs." if len(pairs) > MOST_SURFACES else ""
        figures.append(_surface(found, styles, number, pair, some if number == 0 else ""))
    return figures


def _intervals(found: Interactions, styles: Styles, n_tested: int) -> dict[str, Any]:
    n_drawn = min(n_tested, MOST_DRAWN)
    some = f" Shown are {n_drawn} of {counted(n_tested, 'test')}." if n_tested > n_drawn else ""

    def draw(figure: Any) -> None:
        draw_interactions(found, figure.subplots())

    return picture(
        "interactions",
        "Interactions",
        f"Share of each tested interaction, and its 95% interval alone. The colour and marker show the verdict.{some}",
        styles,
        (WIDTH, 1.3 + 0.25 * (n_drawn + (n_tested > n_drawn))),
        draw,
        legend_columns=3,
    )


def _matrix(found: Interactions, styles: Styles) -> dict[str, Any]:
    def draw(figure: Any) -> None:
        draw_matrix(found, figure.subplots(), MOST_IN_MATRIX)

    return picture(
        "matrix",
        "Pairs",
        "Colour and number: share of the covariance of response and output that needs both features; mark: verdict. "
        "The trees use the features of a pair without a cell on no path together.",
        styles,
        (WIDTH, matrix_size(min(np.unique(found.pairs).size, MOST_IN_MATRIX))[1]),
        draw,
    )


def _surface(found: Interactions, styles: Styles, number: int, pair: tuple[str, ...], some: str) -> dict[str, Any]:
    def draw(figure: Any) -> None:
        draw_surface(found, figure.subplots(), pair)

    return picture(
        f"surface-{number}",
        named_together(pair),
        "What the trees do with both features together, less what they do with each alone: its mean over the rows in "
        f"each cell, in the unit of the output. Edges of cells are quantiles; a cell without rows is empty.{some}",
        styles,
        (WIDTH, 4.8),
        draw,
    )
