"""Interactions: a picture of the scores of pairs with their intervals, and the page with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from debias.results.report.figures import MOST_DRAWN, draw_interactions
from debias.results.report.pages import Styles, picture, render
from debias.results.vocabulary import Confirmation
from debias.text import counted

if TYPE_CHECKING:
    from debias.results.interactions import Interactions

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
        Confirmation.NO_EVIDENCE.text.capitalize(),
        "does not prove that there is no interaction. With more rows it may be confirmed. An interaction that the "
        "model does not use cannot be found.",
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
    ]
    warnings = set(found.warnings)
    return render(
        "findings.html.j2",
        styles,
        title=title or f"Which features work together in a {found.settings.get('model', 'model')}",
        headline=found.headline,
        sentences=[sentence for sentence in summary if sentence != found.headline and sentence not in warnings],
        facts=facts,
        warnings=found.warnings,
        figures=[_figure(found, styles, n_tested)] if n_tested else [],
        tables=[
            {
                "name": "pairs",
                "heading": "All interactions",
                "table": found.to_table().to_html(),
                "caption": "Confirmed ones first, then by score. “Standard deviation of the output” is that of what "
                "the model does with these features, and no others, together.",
            }
        ],
        reading=READING,
        provenance=[(name.replace("_", " "), str(value)) for name, value in found.settings.items()]
        + [(f"rows: {name}".replace("_", " "), str(value)) for name, value in found.provenance.items()],
    )


def _figure(found: Interactions, styles: Styles, n_tested: int) -> dict[str, Any]:
    n_drawn = min(n_tested, MOST_DRAWN)
    some = f" Shown are {n_drawn} of {counted(n_tested, 'test')}." if n_tested > n_drawn else ""

    def draw(figure: Any) -> None:
        draw_interactions(found, figure.subplots())

    return picture(
        "interactions",
        "Interactions",
        f"Share of each tested interaction, and its 95% interval alone. The colour and marker show the verdict.{some}",
        styles,
        (9.6, 1.3 + 0.25 * (n_drawn + (n_tested > n_drawn))),
        draw,
        legend_columns=3,
    )
