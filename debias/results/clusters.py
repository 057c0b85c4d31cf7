"""Clusters of correlated features, each tested as one feature, with the tree in which they were found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.atomic_files import written
from debias.results.report.figures import GRID, MUTED, SETTINGS, new_axes, refuse_most, settings
from debias.results.sentences import enumerated, rows_of
from debias.results.vocabulary import Verdict, error_rate_in_words
from debias.text import counted, feature_index, percent, percent_in_table, shortened

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from debias.results.scores import Scores

MOST_NAMED = 5
"""A sentence names at most this many features, and a summary this many clusters."""
MOST_DRAWN = 30


@dataclass(frozen=True)
class Cluster:
    """A set of correlated features that was tested as one feature.

    Parameters
    ----------
    features : tuple of str
        In the order of the tree.
    correlation : float
        Mean absolute rank correlation of the two parts that the cluster joins (average linkage).
    score, share : float
        Sum of the scores of the features; max(score, 0) as a share of the sum of all positive scores of features.
    z, p_adjusted : float
        Statistic of the test; p-value adjusted for all features and all clusters together.
    selected : bool
        Whether p_adjusted is at most the error rate.
    """

    features: tuple[str, ...]
    correlation: float
    score: float
    share: float
    z: float
    p_adjusted: float
    selected: bool


@dataclass(frozen=True, eq=False, repr=False)
class Clusters:
    """Features and clusters of correlated features, tested together.

    Parameters
    ----------
    scores : Scores
        The features. Their `p_adjusted` and `selected` are adjusted for features and clusters together, so they may
        differ a little from those of an audit.
    clusters : tuple of Cluster
        From the smallest distance to the largest: a cluster comes after all clusters inside of it.
    linkage : array of shape (n_features - 1, 4)
        The whole tree, as ``scipy.cluster.hierarchy.linkage`` returns it. The distance is 1 minus the mean absolute
        rank correlation.
    least_correlation : float
        Clusters of a lower correlation were not tested.
    """

    scores: Scores
    clusters: tuple[Cluster, ...]
    linkage: NDArray[np.float64]
    least_correlation: float

    def __repr__(self) -> str:
        return "\n".join(self.summary())

    @property
    def only_together(self) -> tuple[Cluster, ...]:
        """Informative clusters with no informative feature, the smallest such: none has another one inside of it."""
        alone = {
            name
            for name, found in zip(self.scores.feature_names, self.scores.selected, strict=True)  # type: ignore[arg-type]
            if found
        }
        found: list[Cluster] = []
        for each in self.clusters:
            inside = any(set(other.features) <= set(each.features) for other in found)
            if each.selected and not inside and not alone & set(each.features):
                found.append(each)
        return tuple(found)

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with one row a cluster, the largest share first.

        Index ``cluster``: the features, joined by " + ". Columns: ``n_features``, ``correlation``, ``share``,
        ``score``, ``z``, ``p_adjusted``, ``verdict``, and ``informative_alone``: how many of its features are
        informative by themselves, at the same error rate.
        """
        import pandas as pd

        alone = dict(zip(self.scores.feature_names, self.scores.selected, strict=True))  # type: ignore[arg-type]
        columns = {
            "n_features": [len(each.features) for each in self.clusters],
            "correlation": [each.correlation for each in self.clusters],
            "share": [each.share for each in self.clusters],
            "score": [each.score for each in self.clusters],
            "z": [each.z for each in self.clusters],
            "p_adjusted": [each.p_adjusted for each in self.clusters],
            "verdict": [_verdict(each.selected).value for each in self.clusters],
            "informative_alone": [sum(bool(alone[name]) for name in each.features) for each in self.clusters],
        }
        index = feature_index([" + ".join(each.features) for each in self.clusters], "cluster")
        return pd.DataFrame(columns, index=index).sort_values("share", ascending=False, kind="stable")

    def summary(self) -> list[str]:
        """Return the result in sentences: which clusters are informative although none of their features is.

        Returns
        -------
        list of str
        """
        test = self.scores.details["test"]
        error = error_rate_in_words(test.get("error"), test["alpha"])
        of_test = f"Tested together: {counted(self.scores.values.size, 'feature')} and all clusters, {error}."
        if not self.clusters:
            least = f"an absolute rank correlation of {self.least_correlation:g} or more"
            return [f"No features have {least}, so there are no clusters to test.", of_test]
        n_found = sum(each.selected for each in self.clusters)
        count = (
            f"{n_found:,} of {counted(len(self.clusters), 'cluster')} of correlated features {_is(n_found)} "
            f"{Verdict.INFORMATIVE.phrase} on {rows_of(self.scores)}."
        )
        together = sorted(self.only_together, key=lambda each: -each.share)
        lines = [
            f"{enumerated(each.features, MOST_NAMED)} have {percent(each.share)} of the debiased scores together and "
            f"are {Verdict.INFORMATIVE.phrase} together (adjusted p {_p(each.p_adjusted)}). Alone, "
            f"{'neither' if len(each.features) == 2 else 'none of them'} is. Dropping all of them may cost accuracy."
            for each in together[:MOST_NAMED]
        ]
        if len(together) > MOST_NAMED:
            lines.append(f"The same holds for {counted(len(together) - MOST_NAMED, 'more cluster')}.")
        if n_found and not together:
            phrase = Verdict.INFORMATIVE.phrase
            lines.append(f"Each {Verdict.INFORMATIVE.text} cluster has a feature that is {phrase} alone.")
        return [count, *lines, of_test]

    def to_html(self, path: Any = None, title: str | None = None) -> str:
        """Return one self-contained HTML page, and write it to `path` if that is not None.

        Raises
        ------
        ImportError
            matplotlib or Jinja2 is not installed.
        """
        from debias.results.report.clusters_page import clusters_page

        n_drawn = min(self.scores.values.size, MOST_DRAWN)
        caption = (
            f"Debiased share of {'each feature' if n_drawn == self.scores.values.size else f'{n_drawn} features'} by "
            "itself (bars), and the tree of their rank correlations. A thick blue line joins a cluster that is "
            f"{Verdict.INFORMATIVE.phrase}; the number beside it is the share of the cluster. The vertical line is the "
            "least correlation of a cluster that was tested."
        )
        page = clusters_page(
            self,
            lambda figure: _draw(self, _two_axes(figure), MOST_DRAWN),
            1.6 + 0.24 * n_drawn,
            caption,
            title,
        )
        return written(path, page)

    def plot(self, ax: Any = None, max_features: int = MOST_DRAWN) -> Any:
        """Draw the debiased shares as bars, and beside them the tree of the features.

        Parameters
        ----------
        ax : sequence of two matplotlib Axes, optional
            The axes of the bars, and those of the tree; new ones by default.
        max_features : int
            Draw at most this many features: those with the largest scores.

        Returns
        -------
        array of two matplotlib Axes
        """
        refuse_most(max_features)
        return _draw(self, ax, max_features)


def _verdict(selected: bool) -> Verdict:
    return Verdict.INFORMATIVE if selected else Verdict.INDISTINGUISHABLE


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _two_axes(figure: Any) -> Any:
    return figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))


def _draw(result: Clusters, ax: Any, most: int) -> Any:
    from scipy.cluster.hierarchy import leaves_list

    scores = result.scores
    total = np.maximum(scores.values, 0.0).sum() or 1.0
    share = np.maximum(scores.values, 0.0) / total
    drawn = set(np.argsort(-scores.values, kind="stable")[:most].tolist())
    order = [int(k) for k in leaves_list(result.linkage) if int(k) in drawn]
    with settings():
        if ax is None:
            figure = new_axes(8.4, 1.6 + 0.24 * len(order)).figure
            figure.clear()
            ax = _two_axes(figure)
            figure.suptitle("Which features matter alone, and which together", x=0.01, ha="left", fontsize=11)
        bars, tree = ax
        for selected in (True, False):
            look = _verdict(selected).display
            rows = [row for row, k in enumerate(order) if bool(scores.selected[k]) == selected]  # type: ignore[index]
            if rows:
                fill = {"color": "none", "edgecolor": look.colour} if look.hatch else {"color": look.colour}
                name = _verdict(selected).phrase
                bars.barh(rows, share[[order[row] for row in rows]], 0.62, hatch=look.hatch, label=name, **fill)
        for row, k in enumerate(order):
            beside = {"xycoords": ("axes fraction", "data"), "ha": "right", "va": "center", "fontsize": 8.5}
            bars.annotate(percent_in_table(share[k]), (1, row), **beside)
        bars.set_yticks(range(len(order)), [shortened(scores.feature_names[k]) for k in order])
        bars.set_ylim(len(order) - 0.5, -0.5)
        bars.set_xlim(0, 1.25 * max(share.max(), 1e-9))
        bars.set_xticks([])
        bars.set_xlabel("debiased share, alone")
        _draw_tree(result, tree, {k: float(row) for row, k in enumerate(order)})
        tree.set_xlim(0, 1)
        tree.set_xticks([0, 0.5, 1], ["1", "0.5", "0"])
        tree.set_xlabel("absolute rank correlation")
        tree.tick_params(axis="y", length=0, labelleft=False)
        tree.axvline(1 - result.least_correlation, color=GRID, lw=1)
        for each in (bars, tree):
            each.spines[["top", "right"]].set_visible(False)
            each.xaxis.label.set_color(SETTINGS["axes.labelcolor"])
        bars.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, fontsize=8.5)
    return ax


def _draw_tree(result: Clusters, axes: Any, place: dict[int, float]) -> None:
    """Draw the tree of the features at these places: a thick line joins a cluster that is informative."""
    n, look = result.scores.values.size, Verdict.INFORMATIVE.display
    found = {frozenset(each.features): each for each in result.clusters}
    selected = [frozenset(each.features) for each in result.clusters if each.selected]
    members: dict[int, frozenset[str]] = {k: frozenset([result.scores.feature_names[k]]) for k in range(n)}
    at: dict[int, tuple[float, float]] = {k: (0.0, row) for k, row in place.items()}
    for step, (left, right, distance, _) in enumerate(result.linkage):
        one, other, node = int(left), int(right), n + step
        members[node] = members[one] | members[other]
        ends = [at[each] for each in (one, other) if each in at]
        if not ends:
            continue
        if len(ends) == 1:
            at[node] = ends[0]
            continue
        cluster = found.get(members[node])
        is_found = cluster is not None and cluster.selected
        style = {"color": look.colour, "lw": 2.4} if is_found else {"color": MUTED, "lw": 1.0}
        (x, y), (x2, y2) = ends
        axes.plot([x, distance, distance, x2], [y, y, y2, y2], **style)
        if cluster is not None and is_found and not any(members[node] < other for other in selected):
            axes.annotate(
                percent_in_table(cluster.share), (distance, (y + y2) / 2), (3, 0), textcoords="offset points",
                va="center", fontsize=8.5, color=look.colour,
            )  # fmt: skip
        at[node] = (float(distance), (y + y2) / 2)
