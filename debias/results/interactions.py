"""Which pairs of features a model uses together in a way that unseen rows confirm."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from debias import p_values
from debias.errors import CompositionError
from debias.results import console
from debias.results.base import ReportedResult
from debias.results.fields import (
    SCHEMA_VERSION,
    Malformed,
    number,
    or_missing,
    record,
    text_of,
    texts,
    tree,
    whole,
    whole_numbers,
    without_version,
)
from debias.results.tables import DASH, Table, cells
from debias.results.vocabulary import Confirmation
from debias.text import counted, listed, percent

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd
    from numpy.typing import NDArray

    from debias.results.joint_effects import JointEffects

KIND = "interactions"
ADJUSTMENTS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "fwer": p_values.holm,
    "fdr": p_values.false_discovery,
    "fdr_by": partial(p_values.false_discovery, any_dependence=True),
}
ARRAYS = ("score", "standard_error", "z", "p_value", "total", "spread")
RATES = {"fwer": "family-wise error rate", "fdr": "false discovery rate", "fdr_by": "false discovery rate"}
UNTESTED_BECAUSE = (
    "one pair is tested for every 20 rows, the pairs that vary most beyond additive functions, and none if the "
    "response is constant"
)
NULL_HYPOTHESIS = (
    "given additive functions of all columns and the other interactions of the model (with classes or counts: the "
    "confirmed ones), the response does not go with what the model does with the two features together"
)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Interactions(ReportedResult):
    """Pairs of features, and whether unseen rows confirm what the model does with both together.

    :func:`debias.interactions` makes it.

    Parameters
    ----------
    feature_names : tuple of str
    pairs : array of int64 of shape (n_pairs, 2)
        Positions in `feature_names` of the pairs whose features the model uses together on a path of a tree, of those
        that were asked for. All other pairs have no interaction in the model, exactly.
    score : array of shape (n_pairs,)
        Mean over rows of the response times the interaction, both freed of additive functions of all columns and of the
        other interactions. 0 on average if there is no such interaction. NaN if the pair was not tested.
    standard_error, z, p_value : array of shape (n_pairs,)
        Of the score; NaN if the pair was not tested. The p-value is one-sided.
    spread : array of shape (n_pairs,)
        Standard deviation over rows of what the model does with both features together, in the unit of its output.
    total : array of shape (n_pairs,)
        Covariance of the response and the output of the model on these rows. If there are several responses or classes,
        everything is that of the response, or of the class against the most frequent one, with the smallest p-value.
    n_asked : int
        Number of pairs that were asked for.
    n_rows : int
    n_functions : int
        Number of additive functions.
    error, alpha
        Error rate of the verdicts: "fwer" (Holm), "fdr" or "fdr_by", and its level.
    provenance, settings : dict
        What is known about the rows; the model, versions and the seed.
    warnings : tuple of str
    joint : JointEffects or None
        What the trees do with both features of each pair on some rows, for ``plot(kind="surface")``. It is not written
        to files.
    """

    WRITTEN_AS: ClassVar[str] = "interactions written by debias (Interactions.to_json)"

    feature_names: tuple[str, ...]
    pairs: NDArray[np.int64]
    score: NDArray[np.float64]
    standard_error: NDArray[np.float64]
    z: NDArray[np.float64]
    p_value: NDArray[np.float64]
    spread: NDArray[np.float64]
    total: NDArray[np.float64]
    n_asked: int
    n_rows: int
    n_functions: int
    error: str = "fwer"
    alpha: float = 0.05
    provenance: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    joint: JointEffects | None = None

    def __repr__(self) -> str:
        return console.short_interactions(self)

    @property
    def tested(self) -> NDArray[np.bool_]:
        """Whether each pair was tested, shape (n_pairs,)."""
        return ~np.isnan(self.p_value)

    @property
    def p_adjusted(self) -> NDArray[np.float64]:
        """P-values adjusted for the number of tested pairs, shape (n_pairs,)."""
        adjusted = np.full(len(self.pairs), np.nan)
        if self.tested.any():
            adjusted[self.tested] = ADJUSTMENTS[self.error](self.p_value[self.tested])
        return adjusted

    @property
    def verdict(self) -> list[Confirmation]:
        """One verdict per pair."""
        found = self.p_adjusted <= self.alpha
        return [
            (Confirmation.CONFIRMED if yes else Confirmation.NO_EVIDENCE) if tested else Confirmation.UNTESTED
            for yes, tested in zip(found, self.tested, strict=True)
        ]

    @property
    def confirmed(self) -> list[tuple[str, str]]:
        """The confirmed pairs, the largest share first."""
        return self._named(Confirmation.CONFIRMED)

    @property
    def share(self) -> NDArray[np.float64]:
        """Score of each pair as a share of `total`, shape (n_pairs,); NaN if that is not above 0."""
        return self.score / self._positive_total

    @property
    def share_error(self) -> NDArray[np.float64]:
        """Standard error of each share, with `total` as it is, shape (n_pairs,)."""
        return self.standard_error / self._positive_total

    @property
    def _positive_total(self) -> NDArray[np.float64]:
        return np.where(self.total > 0, self.total, np.nan)

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with a row for each pair, the confirmed pairs and the largest shares first.

        The index has the levels ``feature`` and ``other``. Columns: ``share`` and ``share_error``, ``score``,
        ``standard_error``, ``z``, ``p_value``, ``p_adjusted``, ``spread`` and ``verdict``.
        """
        import pandas as pd

        index = index_of_pairs(self.feature_names, self.pairs)
        columns = {
            name: getattr(self, name) for name in ("share", "share_error", "score", "standard_error", "z", "p_value")
        }
        columns |= {"p_adjusted": self.p_adjusted, "spread": self.spread}
        frame = pd.DataFrame(columns | {"verdict": [each.value for each in self.verdict]}, index=index)
        return frame.iloc[self._order()]

    def to_table(self, most: int | None = None) -> Table:
        """Return the table of the first pairs, or of all, for people."""
        frame = self.to_frame()[:most]
        columns = {"pair": [f"{one} with {other}" for one, other in frame.index]}
        columns["share"] = cells("share", frame["share"], DASH)
        columns["standard error"] = cells("share", frame["share_error"], DASH)
        for heading, name in (("z", "z"), ("adjusted p", "p_adjusted"), ("output, sd", "spread")):
            columns[heading] = cells(name, frame[name], DASH)
        columns["verdict"] = [Confirmation(each).text for each in frame["verdict"]]
        return Table.of_cells(columns)

    @property
    def headline(self) -> str:
        """The most important sentence."""
        pairs, n_tested = self.confirmed, int(self.tested.sum())
        if not len(self.pairs):
            return "The model uses no two of these features together: no interaction to test."
        if not n_tested:
            return "No interaction was tested."
        if not pairs:
            return f"None of {counted(n_tested, 'tested interaction')} is confirmed on these {self.n_rows:,} rows."
        shares = self.share[self._which(Confirmation.CONFIRMED)]
        named = [
            f"{one} with {other}" + (f" ({percent(share)})" if np.isfinite(share) else "")
            for (one, other), share in zip(pairs, shares, strict=True)
        ]
        verb = "is" if len(pairs) == 1 else "are"
        return f"{len(pairs)} of {counted(n_tested, 'tested interaction')} {verb} confirmed: {listed(named)}."

    def summary(self) -> list[str]:
        """Return the result in sentences: what is confirmed, what was tested and how, and what cannot be told."""
        sentences = [self.headline]
        n_tested, n_untested = int(self.tested.sum()), int((~self.tested).sum())
        if self.confirmed:
            sentences.append(
                "A share is the part of the covariance of the response and the model's output that needs both "
                "features, beyond additive functions of all columns and the other interactions."
            )
        if len(self.confirmed) > 1:
            sentences.append(
                "A small share beside a large one may be a part of it: the model splits on other features along the "
                "way, and does not follow an interaction exactly."
            )
        if n_tested:
            sentences.append(
                f"Null hypothesis of each test: {NULL_HYPOTHESIS}. {RATES[self.error].capitalize()} "
                f"{percent(self.alpha, 0)}, {self.n_functions:,} additive functions, {self.n_rows:,} rows."
            )
        if n_untested:
            were = "was" if n_untested == 1 else "were"
            sentences.append(f"{counted(n_untested, 'pair')} {were} not tested: {UNTESTED_BECAUSE}.")
        n_apart = self.n_asked - len(self.pairs)
        if n_apart:
            sentences.append(
                f"The model does not use {counted(n_apart, 'other pair')} together on any path of a tree. It has no "
                "interaction of these, and nothing is said about them."
            )
        sentences.append(
            "An interaction that the model does not use cannot be found here, and one that is not confirmed may be "
            "found with more rows."
        )
        return [*sentences, *self.warnings]

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, with a schema version. What was not tested is None."""
        arrays = {name: [None if each != each else each for each in getattr(self, name).tolist()] for name in ARRAYS}
        return {
            "kind": KIND,
            "schema_version": SCHEMA_VERSION,
            "feature_names": list(self.feature_names),
            "pairs": self.pairs.tolist(),
            **arrays,
            **{name: getattr(self, name) for name in ("n_asked", "n_rows", "n_functions", "error", "alpha")},
            "provenance": self.provenance,
            "settings": self.settings,
            "warnings": list(self.warnings),
        }

    @classmethod
    def _read(cls, plain: dict[str, Any]) -> Interactions:
        if plain.get("kind") != KIND:
            raise Malformed("it has another kind")
        fields = record(without_version(plain, "interactions"), FIELDS, "")
        del fields["kind"]
        pairs, n_pairs = fields["pairs"], len(fields["pairs"])
        if any(len(fields[name]) != n_pairs for name in ARRAYS):
            raise Malformed(f"its columns do not have {n_pairs} entries")
        if fields["error"] not in ADJUSTMENTS or not 0 < fields["alpha"] < 1:
            raise Malformed("error or alpha is not an error rate")
        if n_pairs and (pairs.max() >= len(fields["feature_names"]) or (pairs[:, 0] == pairs[:, 1]).any()):
            raise Malformed("pairs are not of two features")
        return cls(**fields)

    def _page(self, title: str | None) -> str:
        from debias.results.report.interactions import interactions_page

        return interactions_page(self, title)

    def plot(self, kind: str = "interval", ax: Any = None, max_features: int = 30, *, pair: Any = None) -> Any:
        """Draw the pairs: their shares with intervals, a matrix, the network of confirmed pairs, or one pair.

        Parameters
        ----------
        kind : {"interval", "matrix", "network", "surface"}
            "interval": the share of each tested pair with its interval, the confirmed pairs on top. "matrix": the share
            and the verdict of every pair that the model uses. "network": the confirmed pairs as lines between features.
            "surface": the joint effect of one pair in the trees, less the effects of each feature alone, as its mean
            over the rows in each cell.
        ax : matplotlib Axes, optional
            New axes by default.
        max_features : int
            Draw at most this many pairs, in a matrix features. The picture says how many are left out.
        pair : (str, str), optional
            For "surface": the features on the horizontal and on the vertical axis.

        Returns
        -------
        matplotlib Axes

        Raises
        ------
        CompositionError
            There is no such kind; no pair is confirmed, for a network; or the pair of a surface is missing, unknown or
            not used together, is of features that are not columns, or this result was read from a file.
        ImportError
            matplotlib is not installed (``pip install matplotlib``).
        """
        from debias.results.report import pairs
        from debias.results.report.figures import draw_interactions, on_axes, refuse_kind, require_matplotlib

        refuse_kind(kind, ("interval", "matrix", "network", "surface"))
        require_matplotlib()
        if pair is not None and kind != "surface":
            raise CompositionError(f"pair is for kind='surface', not kind={kind!r}")
        if kind == "surface":
            return pairs.draw_surface(self, ax, pair)
        if kind == "interval":
            return on_axes(draw_interactions, self, ax, max_features)
        return (pairs.draw_matrix if kind == "matrix" else pairs.draw_network)(self, ax, max_features)

    def _which(self, verdict: Confirmation) -> NDArray[np.int64]:
        order = self._order()
        return order[[self.verdict[k] is verdict for k in order]]

    def _named(self, verdict: Confirmation) -> list[tuple[str, str]]:
        names = self.feature_names
        return [(names[one], names[other]) for one, other in self.pairs[self._which(verdict)].tolist()]

    def _order(self) -> NDArray[np.int64]:
        """Return the confirmed pairs first, then the tested ones by score, then the others by their spread."""
        rank = {Confirmation.CONFIRMED: 0, Confirmation.NO_EVIDENCE: 1, Confirmation.UNTESTED: 2}
        verdict = np.array([rank[each] for each in self.verdict], dtype=np.int64)
        order: NDArray[np.int64] = np.lexsort((-self.spread, -np.nan_to_num(self.score, nan=-np.inf), verdict))
        return order


def index_of_pairs(feature_names: tuple[str, ...], pairs: NDArray[np.int64]) -> pd.MultiIndex:
    """Return the index of a table of pairs, with the levels ``feature`` and ``other``."""
    import pandas as pd

    names = np.array(feature_names, dtype=object)
    return pd.MultiIndex.from_arrays([names[pairs[:, 0]], names[pairs[:, 1]]], names=["feature", "other"])


def read_pairs(value: Any, at: str) -> NDArray[np.int64]:
    """Read pairs of positions, shape (n_pairs, 2)."""
    read = [whole_numbers(pair, at) for pair in value] if isinstance(value, list) else None
    if read is None or any(pair.size != 2 for pair in read):
        raise Malformed(f"{at} is not a list of pairs")
    return np.array(read, dtype=np.int64).reshape(-1, 2)


FIELDS = {
    "kind": text_of,
    "feature_names": texts,
    "pairs": read_pairs,
    **dict.fromkeys(ARRAYS, or_missing),
    **dict.fromkeys(("n_asked", "n_rows", "n_functions"), whole),
    "error": text_of,
    "alpha": number,
    "provenance": tree,
    "settings": tree,
    "warnings": texts,
}
