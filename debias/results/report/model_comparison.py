"""How the losses of two models on the same rows differ: a picture, and the page with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from debias.results.console import columns_of_models
from debias.results.report.loss_change import Bars
from debias.results.report.pages import Styles, render
from debias.results.tables import DASH, Table
from debias.results.vocabulary import ModelVerdict

if TYPE_CHECKING:
    from debias.results.model_comparison import ModelComparison

READING = (
    (
        "Cost",
        "is above 0 if the model saves less loss by the feature than the baseline does, so that its loss is higher. "
        "All costs and the base add up to the difference of the losses.",
    ),
    (
        "Saves more, saves less",
        "is said of a feature whose cost is beyond chance, over all features together. Features that go together share "
        "what they save. So one may save less only because another one, which is new or used more, does it now.",
    ),
    (
        "Base",
        "is the loss of one constant prediction: the mean output of a model over its own training rows. It differs if "
        "the models were trained on different rows.",
    ),
)


def models_on_axes(axes: Any, comparison: ModelComparison, most: int) -> Any:
    """Draw on the user's axes, or on new pyplot axes of sufficient height, and return them."""
    return _bars(comparison).on_axes(axes, most)


def models_page(comparison: ModelComparison, title: str | None = None) -> str:
    """Return a comparison of two models as one HTML page.

    Raises
    ------
    ImportError
        matplotlib or Jinja2 is not installed.
    """
    styles, summary, names, bars = Styles(), comparison.summary(), comparison.settings, _bars(comparison)
    caption = (
        f"From the {comparison.metric} of the baseline to that of the model: what the base and each feature differ by"
        f"{bars.intervals}. Orange: the model saves less by the feature, beyond chance; blue: more; grey: the base, "
        "all other features, and those that were not tested."
    )
    return render(
        "findings.html.j2",
        styles,
        title=title or f"This {names.get('model')} and its baseline, this {names.get('baseline')}",
        headline=summary[0],
        sentences=summary[1:],
        facts=_facts(comparison),
        warnings=comparison.warnings,
        figures=[bars.figure("How the losses differ", caption, styles)],
        tables=[_table(comparison)],
        reading=READING,
        provenance=[(name.replace("_", " "), str(value)) for name, value in names.items()],
    )


def _bars(comparison: ModelComparison) -> Bars:
    return Bars(
        comparison.metric,
        comparison.loss,
        comparison.base,
        comparison.feature_names,
        comparison.statistics["cost"],
        comparison.statistics["error"],
        [each.display.colour for each in comparison.verdict],
        ("baseline", "model"),
    )


def _facts(comparison: ModelComparison) -> list[tuple[str, str]]:
    units = [("blocks of rows", f"{comparison.n_units:,}")] if comparison.in_blocks else []
    named = {"save more": ModelVerdict.MORE, "save less": ModelVerdict.LESS}
    return [
        ("rows", f"{comparison.n_rows:,}"),
        *units,
        ("features", f"{len(comparison.feature_names):,}"),
        *((title, f"{len(comparison.found(verdict)):,}") for title, verdict in named.items()),
    ]


def _table(comparison: ModelComparison) -> dict[str, Any]:
    table = Table.of(comparison.to_frame(), columns_of_models(comparison), unknown=DASH)
    caption = (
        f"In the unit of the {comparison.metric}, the largest cost first. The cost is what the baseline saves by the "
        "feature less what the model saves. The base differs by "
        f"{comparison.loss.part_in_words(comparison.base.change)}."
    )
    return {"name": "loss", "heading": "By which features they differ", "table": table.to_html(), "caption": caption}
