"""Features to drop: a picture of the metric against the number of features kept, and the page with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.results import console
from debias.results.drop_sentences import LIMITS
from debias.results.performance import HIGHER_IS_BETTER
from debias.results.report.figures import GRID, INK, MUTED, new_axes, refuse_axes, settings
from debias.results.report.pages import Styles, picture, render
from debias.results.vocabulary import DropStatus

if TYPE_CHECKING:
    from debias.results.droppable import Droppable


def draw_drops(result: Droppable, axes: Any) -> None:
    """Draw the metric of each refit with its bounds, that of the model, and that at the tolerance."""
    n_features = len(result.feature_names)
    kept, metric = n_features - result.sizes, result.metric_at(result.lost)
    for status in DropStatus:
        which, look = np.array([each is status for each in result.status]), status.display
        if not which.any():
            continue
        bounded = which & np.isfinite(result.low) & np.isfinite(result.high)
        style = {"color": look.colour, "lw": 1.6}
        ends = result.metric_at(result.low[bounded]), result.metric_at(result.high[bounded])
        axes.vlines(kept[bounded], *ends, **style)
        axes.plot(kept[which], metric[which], look.marker, color=look.colour, ms=6, label=status.phrase, zorder=3)
    value, at_tolerance = (float(result.metric_at(lost)) for lost in (0.0, result.tolerance))
    axes.plot(n_features, value, "D", color=INK, ms=5, label="all features")
    axes.axhline(value, color=MUTED, lw=0.8, zorder=0)
    label = f"tolerance, {100 * result.tolerance:g}% of the gain"
    axes.axhline(at_tolerance, color=INK, lw=1, ls=(0, (4, 3)), label=label, zorder=0)
    axes.set_xlabel("number of features kept")
    better = "higher" if result.performance.metric in HIGHER_IS_BETTER else "lower"
    axes.set_ylabel(f"{result.performance.metric} ({better} is better)")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(axis="y", color=GRID, lw=0.6)
    axes.set_axisbelow(True)


def drops_on_axes(result: Droppable, axes: Any) -> Any:
    """Draw on the user's axes, or on new pyplot axes, and return them."""
    refuse_axes(axes)
    is_new = axes is None
    with settings():
        axes = new_axes(7.0, 4.0) if is_new else axes
        draw_drops(result, axes)
        if is_new:
            axes.figure.legend(loc="outside upper left", ncols=3, frameon=False, fontsize=8.5)
        else:
            axes.legend(loc="best", edgecolor=GRID)
    return axes


def drop_page(result: Droppable, title: str | None = None) -> str:
    """Return the report of features to drop as one HTML page.

    Raises
    ------
    ImportError
        matplotlib or Jinja2 is not installed.
    """
    headline, *sentences = result.summary()
    styles = Styles()
    table = console.table_of_drops(result)
    return render(
        "findings.html.j2",
        styles,
        title=title or f"Which features may be dropped from {result.settings['model']}?",
        headline=headline,
        sentences=[sentence for sentence in sentences if sentence != LIMITS],
        facts=[
            ("features", f"{len(result.feature_names):,}"),
            ("may be dropped", f"{result.size:,}"),
            ("held-out rows", f"{result.n_rows:,}"),
            ("tolerance", f"{100 * result.tolerance:g}% of the gain"),
        ],
        warnings=[text for text in result.warnings if text not in sentences],
        figures=[_figure(result, styles)],
        tables=[
            {
                "name": "sets",
                "heading": "Sets that were tried",
                "table": table.to_html(),
                "caption": "Each set has the features of the sets above it too. Bounds are one-sided, each with "
                f"{100 * (1 - result.alpha):g}% confidence.",
            },
            {
                "name": "features",
                "heading": "Feature by feature",
                "table": console.table_of_drop_decisions(result).to_html(),
                "caption": "In the order in which features are dropped: by the largest certified set, then by the "
                "first larger set that has the feature. "
                '"drop" holds for all these features together, with the model that was trained without them. "keep": '
                "the model without this set, or without a smaller one of the path, loses more than the tolerance.",
            },
        ],
        reading=_reading(result),
        provenance=_provenance(result),
    )


def _figure(result: Droppable, styles: Styles) -> dict[str, Any]:
    caption = (
        "Each point is one refitted model. Its line has the bounds of its metric, given the metric of the model with "
        f"all features (diamond) and of {result.performance.reference}. The line of a certified set ends on the better "
        "side of the dashed line. One that ends there is not always certified, because all sets share one error rate."
    )
    return picture(
        "drops",
        "What is lost by dropping features",
        caption,
        styles,
        (9.6, 4.2),
        lambda figure: draw_drops(result, figure.subplots()),
        legend_columns=5,
    )


def _reading(result: Droppable) -> tuple[tuple[str, str], ...]:
    return (
        (
            "The gain",
            "is how much less loss the model has than the best constant, on rows that it has not seen. A refit that "
            "loses 0% of it is as good as the model; below 0% it is better.",
        ),
        (
            DropStatus.CERTIFIED.text.capitalize(),
            "means that the test of this set shows a loss below the tolerance. If refits truly lose more, one is "
            f"certified wrongly with probability at most {100 * result.alpha:g}%, for all sets together.",
        ),
        (
            DropStatus.UNDECIDED.text.capitalize(),
            "does not mean that the features are needed, nor that they are not: there are too few rows to tell.",
        ),
        (
            DropStatus.HARMFUL.text.capitalize(),
            "means that the refit loses more than the tolerance. Single features of the set may still be useless.",
        ),
        ("The limits.", LIMITS),
    )


def _provenance(result: Droppable) -> list[tuple[str, str]]:
    path = {"frozen": "models of folds, all features", "refitted": "models of folds, at each size", "given": "given"}
    facts = {
        **{name.replace("_", " "): value for name, value in result.settings.items()},
        "rows": result.provenance.get("status", ""),
        "what is known of the rows": result.provenance.get("detail", ""),
        "training rows": f"{result.n_train:,}",
        "order": path[result.path],
        "models trained": result.n_fits,
        "alpha": result.alpha,
    }
    return [(name, str(value)) for name, value in facts.items()]
