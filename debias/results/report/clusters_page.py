"""Clusters of similar features as one HTML page: sentences, bars beside the tree, and the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from debias.results.report.pages import Styles, packages_of_reports, picture, render

if TYPE_CHECKING:
    from collections.abc import Callable

    from debias.results.clusters import Clusters

READING = (
    ("A cluster", "is a set of features whose mean likeness is high. It is tested as one feature."),
    (
        "The likeness",
        "of two features is their absolute rank correlation, or how well a split on one does what the trees do with "
        "the other, if that is more: 1 if they say the same, 0 if neither tells anything of the other.",
    ),
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
    styles, scores, n_clusters = Styles(), result.scores, len(result.clusters)
    with packages_of_reports():
        figures = [picture("clusters", "Alone and together", caption, styles, (8.4, height), draw)]
    told = result.summary()
    return render(
        "findings.html.j2",
        styles,
        title=title or f"Which features of this {scores.settings['model']} matter together",
        headline=told[0],
        sentences=told[1:],
        facts=[("features", f"{scores.values.size:,}"), ("clusters", f"{n_clusters:,}")],
        warnings=scores.warnings,
        figures=figures,
        tables=[
            {
                "name": "table",
                "heading": "Clusters",
                "table": result.to_table().to_html(),
                "caption": "Sorted by debiased share."
                + (" Shares of a cluster and of its parts overlap." if len(result.outermost) < n_clusters else ""),
            }
        ],
        reading=READING,
        provenance=[("model", scores.settings["model"]), ("evidence", scores.provenance["detail"])],
    )
