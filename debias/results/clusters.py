"""Clusters of features that say the same, each tested as one feature, with the tree in which they were found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from debias.results import console, stored
from debias.results.audit import Audit
from debias.results.base import ReportedResult
from debias.results.fields import (
    AGREE,
    SCHEMA_VERSION,
    Malformed,
    list_of,
    mapping,
    number,
    record,
    table,
    text_of,
    texts,
    without_version,
    yes_or_no,
)
from debias.results.report.figures import GRID, MUTED, SETTINGS, new_axes, refuse_most, settings
from debias.results.scores import Scores
from debias.results.sentences import condition_of_verdicts, enumerated, rows_of, scored_on
from debias.results.tables import Table
from debias.results.vocabulary import Verdict, error_rate_in_words
from debias.text import counted, feature_index, percent, percent_in_table, shortened

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from debias.results.fields import Reader

KIND = "clusters"
MOST_NAMED = 5
"""A sentence names at most this many features, and a summary this many clusters."""
MOST_DRAWN = 30


@dataclass(frozen=True)
class Cluster:
    """A set of features that say the same, which was tested as one feature.

    Parameters
    ----------
    features : tuple of str
        In the order of the tree.
    likeness : float
        Mean likeness of the features of the two parts that the cluster joins (average linkage).
    score, share : float
        Sum of the scores of the features; max(score, 0) as a share of the sum of all positive scores of features.
    z, p_adjusted : float
        Statistic of the test; p-value adjusted for all features and all clusters together, the smallest of its own and
        of those of its parts.
    selected : bool
        Whether p_adjusted is at most the error rate.
    """

    features: tuple[str, ...]
    likeness: float
    score: float
    share: float
    z: float
    p_adjusted: float
    selected: bool


@dataclass(frozen=True, eq=False, repr=False)
class Clusters(ReportedResult):
    """Features and clusters of features that say the same, tested together.

    :func:`debias.clusters` makes it, and says what the likeness is.

    Parameters
    ----------
    scores : Scores
        The features. Their `p_adjusted` and `selected` are adjusted for features and clusters together, so they may
        differ a little from those of an audit.
    clusters : tuple of Cluster
        From the smallest distance to the largest: a cluster comes after all clusters inside of it.
    linkage : array of shape (n_features - 1, 4)
        The whole tree, as ``scipy.cluster.hierarchy.linkage`` returns it. The distance is 1 minus the mean likeness.
    least_likeness : float
        Clusters of a lower likeness were not tested.
    """

    WRITTEN_AS: ClassVar[str] = "clusters written by debias (Clusters.to_json)"

    scores: Scores
    clusters: tuple[Cluster, ...]
    linkage: NDArray[np.float64]
    least_likeness: float

    def __repr__(self) -> str:
        return console.short_clusters(self)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader of the tests must know."""
        return self.scores.warnings

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

        Index ``cluster``: the features, joined by " + ". Columns: ``n_features``, ``likeness``, ``share``,
        ``score``, ``z``, ``p_adjusted``, ``verdict``, and ``informative_alone``: how many of its features are
        informative by themselves, at the same error rate.
        """
        import pandas as pd

        alone = dict(zip(self.scores.feature_names, self.scores.selected, strict=True))  # type: ignore[arg-type]
        columns = {
            "n_features": [len(each.features) for each in self.clusters],
            "likeness": [each.likeness for each in self.clusters],
            "share": [each.share for each in self.clusters],
            "score": [each.score for each in self.clusters],
            "z": [each.z for each in self.clusters],
            "p_adjusted": [each.p_adjusted for each in self.clusters],
            "verdict": [_verdict(each.selected).value for each in self.clusters],
            "informative_alone": [sum(bool(alone[name]) for name in each.features) for each in self.clusters],
        }
        index = feature_index([" + ".join(each.features) for each in self.clusters], "cluster")
        return pd.DataFrame(columns, index=index).sort_values("share", ascending=False, kind="stable")

    def to_table(self, most: int | None = None) -> Table:
        """Return the table of the first clusters, or of all, for people."""
        frame = self.to_frame().iloc[:most]
        found = frame["verdict"] == Verdict.INFORMATIVE.value
        frame["together"] = np.where(found, Verdict.INFORMATIVE.text, "not confirmed")
        names = ["together", "share", "p_adjusted", "informative_alone", "n_features", "likeness", "z"]
        titles = {"n_features": "features", "informative_alone": "informative alone"}
        return Table.of(frame, names, titles, head="cluster")

    def summary(self) -> list[str]:
        """Return the result in sentences: which clusters are informative although none of their features is.

        Returns
        -------
        list of str
            How many clusters are informative comes first, and how many are parts of others. The last two sentences
            are about the test and the rows.
        """
        of_rows = scored_on(self.scores)
        test = self.scores.details["test"]
        error = error_rate_in_words(test.get("error"), test["alpha"])
        features = counted(self.scores.values.size, "feature")
        of_test = f"Tested{f' together: {features} and all clusters' if self.clusters else f': {features}'}, {error}."
        if not self.clusters:
            least = f"a likeness of {self.least_likeness:g} or more"
            return [f"No features have {least}, so there are no clusters to test.", of_test, of_rows]
        n_found = sum(each.selected for each in self.clusters)
        count = (
            f"{n_found:,} of {counted(len(self.clusters), 'cluster')} of similar features "
            f"{_is(1 if len(self.clusters) == 1 else n_found)} {Verdict.INFORMATIVE.phrase} on "
            f"{rows_of(self.scores)}{condition_of_verdicts(self._audit, named=True)}."
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
        return [count, *self._nested(), *lines, of_test, of_rows]

    @property
    def outermost(self) -> tuple[Cluster, ...]:
        """The clusters that are no part of a larger one. No two of them have a feature in common."""
        sets = [set(each.features) for each in self.clusters]
        return tuple(
            each for each, own in zip(self.clusters, sets, strict=True) if not any(own < other for other in sets)
        )

    @property
    def _audit(self) -> Audit:
        """The features as an audit, whose sentences are those of this result too."""
        return Audit.of(None, "not reported", {self.scores.scorer: self.scores}, tested_scorer=self.scores.scorer)

    def _nested(self) -> list[str]:
        """Return how many clusters are parts of others, if any is, and what is found of those that are not."""
        outermost = self.outermost
        n_parts = len(self.clusters) - len(outermost)
        if not n_parts:
            return []
        n_found = sum(each.selected for each in outermost)
        are_parts = "is a part of a larger one" if n_parts == 1 else "are parts of larger ones"
        if len(outermost) == 1:
            found = f"The outermost cluster is {Verdict.INFORMATIVE.phrase if n_found else 'not confirmed'}"
        else:
            of = f"{n_found:,} of the {len(outermost):,} outermost clusters"
            found = f"{of} {_is(n_found)} {Verdict.INFORMATIVE.phrase}"
        return [f"{n_parts:,} of these clusters {are_parts}, so their shares overlap. {found}."]

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, with a schema version."""
        return {
            "kind": KIND,
            "schema_version": SCHEMA_VERSION,
            "scores": {self.scores.scorer: self.scores.to_dict()},
            "clusters": [{**asdict(each), "features": list(each.features)} for each in self.clusters],
            "linkage": self.linkage.tolist(),
            "least_likeness": self.least_likeness,
            "summary": self.summary(),
        }

    @classmethod
    def _read(cls, plain: dict[str, Any]) -> Clusters:
        if plain.get("kind") != KIND:
            raise Malformed("it has another kind")
        fields = record(without_version(plain, KIND), FIELDS, "")
        if len(fields["scores"]) != 1:
            raise Malformed("it does not have one kind of scores")
        [(name, of_features)] = fields["scores"].items()
        scores = Scores(**stored.scores_fields(mapping(of_features, f"scores.{name}"), f"scores.{name}."))
        stored.check_read_scores(scores)
        result = cls(scores, fields["clusters"], fields["linkage"].reshape(-1, 4), fields["least_likeness"])
        _check(result)
        return result

    def _page(self, title: str | None) -> str:
        from debias.results.report.clusters_page import clusters_page

        n_drawn = min(self.scores.values.size, MOST_DRAWN)
        caption = (
            f"Debiased share of {'each feature' if n_drawn == self.scores.values.size else f'{n_drawn} features'} by "
            "itself (bars), and the tree of their likeness. A thick blue line joins a cluster that is "
            f"{Verdict.INFORMATIVE.phrase}; the number beside it is the share of the cluster. The vertical line is the "
            "least likeness of a cluster that was tested."
        )
        return clusters_page(
            self,
            lambda figure: _draw(self, _two_axes(figure), MOST_DRAWN),
            1.6 + 0.24 * n_drawn,
            caption,
            title,
        )

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


def nodes(linkage: NDArray[np.float64], n_features: int) -> list[tuple[int, ...]]:
    """Return the features of every node of a tree, in the order of the tree: single features, then the joined ones."""
    members: list[tuple[int, ...]] = [(k,) for k in range(n_features)]
    for left, right, *_ in linkage:
        members.append(members[int(left)] + members[int(right)])
    return members


def _check(result: Clusters) -> None:
    """Raise a Malformed unless the clusters are those of the tree, with sums of scores and decisions that follow."""
    scores, linkage = result.scores, result.linkage
    n, test = scores.values.size, scores.details.get("test")
    if scores.selected is None or scores.p_adjusted is None or not isinstance(test, dict):
        raise Malformed("its scores are not tested")
    alpha = test.get("alpha")
    if not isinstance(alpha, float) or not 0 < alpha < 1 or not 0 < result.least_likeness < 1:
        raise Malformed("alpha and least_likeness are not between 0 and 1")
    joined = linkage[:, :2].ravel().tolist()
    in_order = all(each < n + step // 2 for step, each in enumerate(joined))
    if len(linkage) != n - 1 or sorted(joined) != list(range(2 * len(linkage))) or not in_order:
        raise Malformed("linkage is not a tree of its features")
    tested = [
        (members, 1 - float(row[2]))
        for members, row in zip(nodes(linkage, n)[n:], linkage, strict=True)
        if row[2] <= 1 - result.least_likeness
    ]
    if len(tested) != len(result.clusters):
        raise Malformed("clusters are not those of linkage and least_likeness")
    total = float(np.maximum(scores.values, 0.0).sum()) or 1.0
    for each, (members, likeness) in zip(result.clusters, tested, strict=True):
        score = float(scores.values[list(members)].sum())
        follows = [likeness, score, max(score, 0.0) / total]
        if each.features != tuple(scores.feature_names[k] for k in members):
            raise Malformed("clusters are not those of linkage")
        if not np.allclose([each.likeness, each.score, each.share], follows, rtol=AGREE, atol=AGREE):
            raise Malformed(f"likeness, score or share of {each.features[0]!r} and others do not follow")
        if not 0 <= each.p_adjusted <= 1 or each.selected != (each.p_adjusted <= alpha):
            raise Malformed(f"p_adjusted or selected of {each.features[0]!r} and others contradict alpha")
    if not np.array_equal(scores.selected, scores.p_adjusted <= alpha):
        raise Malformed("selected contradicts p_adjusted")


def _clusters(value: Any, at: str) -> tuple[Cluster, ...]:
    return tuple(
        Cluster(**record(mapping(each, f"{at}[{k}]"), OF_CLUSTER, f"{at}[{k}]."))
        for k, each in enumerate(list_of(value, at))
    )


OF_CLUSTER: dict[str, Reader] = {
    "features": texts,
    **dict.fromkeys(("likeness", "score", "share", "z", "p_adjusted"), number),
    "selected": lambda value, at: bool(yes_or_no([value], at)[0]),
}
FIELDS: dict[str, Reader] = {
    "kind": text_of,
    "scores": mapping,
    "clusters": _clusters,
    "linkage": table,
    "least_likeness": number,
    "summary": texts,
}


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
    leaves = leaves_list(result.linkage) if len(result.linkage) else [0]
    order = [int(k) for k in leaves if int(k) in drawn]
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
        tree.set_xlabel("likeness")
        tree.tick_params(axis="y", length=0, labelleft=False)
        tree.axvline(1 - result.least_likeness, color=GRID, lw=1)
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
                percent_in_table(cluster.share), (distance, (y + y2) / 2), (3, 1), textcoords="offset points",
                va="bottom", fontsize=8.5, color=look.colour,
            )  # fmt: skip
        at[node] = (float(distance), (y + y2) / 2)
