"""Clusters of correlated features as one HTML page: sentences, bars beside the tree, and the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from debias.results.report.pages import Styles, packages_of_reports, picture, render
from debias.results.tables import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from debias.results.clusters import Clusters

READING = (
    ("A cluster", "is a set of features whose mean absolute rank correlation is high. It is tested as one feature."),
    (
        "The error rate",
        "is that of all features and all clusters together, so a feature may have a larger p-value here than in an "
        "audit.",
    ),
    (
        "Together",
        "is not the same as needed: a cluster has information on the response, and only a fit without its features "
        "tells what the model loses.",
    ),
)


def clusters_page(
    result: Clusters, draw: Callable[[Any], None], height: float, caption: str, title: str | None = None
) -> str:
    """Return clusters as one HTML page.

    Parameters
    ----------
    result : Clusters
    draw : callable
        Draws on a matplotlib figure.
    height : float
        Of the figure, in inches.
    caption : str
        What the figure shows.
    title : str, optional

    Raises
    ------
    ImportError
        matplotlib or Jinja2 is not installed.
    """
    styles, frame, scores = Styles(), result.to_frame(), result.scores
    with packages_of_reports():
        figures = [picture("clusters", "Alone and together", caption, styles, (8.4, height), draw)]
    columns = ["verdict", "n_features", "informative_alone", "share", "correlation", "z", "p_adjusted"]
    titles = {"n_features": "features", "informative_alone": "informative alone", "share": "debiased"}
    table = Table.of(frame, columns, titles, head="cluster").to_html()
    told = result.summary()
    return render(
        "findings.html.j2",
        styles,
        title=title or f"Which features of this {scores.settings['model']} matter together",
        headline=told[0],
        sentences=told[1:],
        facts=[("features", f"{scores.values.size:,}"), ("clusters", f"{len(frame):,}")],
        warnings=scores.warnings,
        figures=figures,
        tables=[{"name": "table", "heading": "Clusters", "table": table, "caption": "Sorted by debiased share."}],
        reading=READING,
        provenance=[("model", scores.settings["model"]), ("evidence", scores.provenance["detail"])],
    )
