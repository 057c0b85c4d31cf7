"""SHAP interactions beside the test of interactions: where the two put other pairs first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from debias.results import console
from debias.results.base import BaseResult
from debias.results.fields import (
    SCHEMA_VERSION,
    Malformed,
    numbers,
    or_missing,
    record,
    text_of,
    texts,
    tree,
    whole,
    without_version,
)
from debias.results.interactions import Interactions, index_of_pairs, sets_of
from debias.results.tables import DASH, Table, cells
from debias.results.vocabulary import Confirmation, RowsKind
from debias.text import counted, few_digits, percent

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

KIND = "comparison of pairs"
FOUND = (Confirmation.CONFIRMED, Confirmation.SIMILAR)
MOST_NAMED = 3
"""Sentences name at most this many pairs of a kind."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class PairComparison(BaseResult):
    """SHAP interactions of pairs of features, beside the test whether unseen rows confirm the pairs.

    ``debias.compare(..., of="pairs")`` makes it. Sizes are not compared, only ranks: SHAP interactions are in the unit
    of the output, scores of the test in that of output times response.

    Parameters
    ----------
    feature_names : tuple of str
    pairs : array of int64 of shape (n_pairs, 2)
        Positions in `feature_names` of all pairs that the model uses together on a path of a tree. The SHAP interaction
        of any other pair is 0, exactly.
    shap_interactions : array of shape (n_pairs,)
        Mean over rows of the absolute SHAP interaction, summed over outputs (of two classes, that of the second). It is
        twice what the shap package has in one cell of its matrix.
    shap_interactions_oob : array of shape (n_pairs,)
        Covariance of the SHAP interaction and the response on rows that the trees have not seen; NaN on training rows.
    tested : Interactions or None
        The test; None if these rows or this model cannot be tested.
    untested_because : str
        Why `tested` is None; empty otherwise.
    rows : str
        Kind of the rows.
    n_rows : int
    provenance, settings : dict
        What is known about the rows; the model, versions and the seed.
    warnings : tuple of str
    """

    WRITTEN_AS: ClassVar[str] = "a comparison of pairs written by debias (PairComparison.to_json)"

    feature_names: tuple[str, ...]
    pairs: NDArray[np.int64]
    shap_interactions: NDArray[np.float64]
    shap_interactions_oob: NDArray[np.float64]
    tested: Interactions | None
    untested_because: str
    rows: str
    n_rows: int
    provenance: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return console.short_pairs(self)

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with a row for each pair, the largest SHAP interactions first.

        The index has the levels ``feature`` and ``other``. Columns: ``shap_interactions``, ``shap_interactions_oob``;
        ``share``, ``p_adjusted`` and ``verdict`` of the test; and the ranks ``shap_rank``, ``oob_rank`` and
        ``tested_rank``, 1 for the largest. NaN and "untested" where there is no test.
        """
        import pandas as pd

        columns: dict[str, Any] = {
            "shap_interactions": self.shap_interactions,
            "shap_interactions_oob": self.shap_interactions_oob,
        }
        frame = pd.DataFrame(columns, index=index_of_pairs(self.feature_names, self.pairs))
        if self.tested is None:
            frame[["share", "score", "p_adjusted"]] = np.nan
            frame["verdict"] = Confirmation.UNTESTED.value
        else:
            test = self.tested.to_frame()[["share", "score", "p_adjusted", "verdict"]]
            frame = frame.join(test)
            frame["verdict"] = frame["verdict"].fillna(Confirmation.UNTESTED.value)
        ranks = {"shap_rank": "shap_interactions", "oob_rank": "shap_interactions_oob", "tested_rank": "score"}
        for rank, of in ranks.items():
            frame[rank] = frame[of].rank(ascending=False, method="min")
        return frame.drop(columns="score").sort_values("shap_interactions", ascending=False, kind="stable")

    @property
    def disagreements(self) -> pd.DataFrame:
        """Pairs about which SHAP interactions and the test disagree, by rank of their SHAP interaction.

        With K confirmed pairs (those that may stand in for similar ones are among them; at least 1 is taken), these are
        the pairs that SHAP puts among its first K and that are not confirmed, and the confirmed pairs that it puts
        behind. Empty if no pair was tested.

        Returns
        -------
        DataFrame
            Columns ``shap_rank``, ``verdict`` and ``why``.
        """
        frame = self.to_frame()
        confirmed = frame["verdict"].isin(FOUND)
        first = frame["shap_rank"] <= max(1, int(confirmed.sum()))
        differ = frame[(first != confirmed) & self._any_tested][["shap_rank", "verdict"]].copy()
        differ["why"] = [
            f"{Confirmation(verdict).text}, and {self._place(rank)} by SHAP interactions"
            for verdict, rank in zip(differ["verdict"], differ["shap_rank"], strict=True)
        ]
        return differ

    def summary(self) -> list[str]:
        """Return in sentences where the two disagree, and what each says."""
        sentences = [self.headline, *(() if self.tested is None else self.tested.of_drawn_rows)]
        differ = self.disagreements
        of_verdict = {verdict: differ[differ["verdict"] == verdict.value] for verdict in Confirmation}
        for verdict, say in (
            (Confirmation.NO_EVIDENCE, "{pair} is {place} by SHAP interactions, and unseen rows do not confirm it."),
            (Confirmation.UNTESTED, "{pair} is {place} by SHAP interactions, and was not tested."),
            (Confirmation.CONFIRMED, "{pair} is confirmed, and is only {place} by SHAP interactions."),
            (
                Confirmation.SIMILAR,
                "{pair} or a similar pair is confirmed, and is only {place} by SHAP interactions.",
            ),
        ):
            named = of_verdict[verdict].iloc[:MOST_NAMED]
            for (one, other), rank in zip(named.index, named["shap_rank"], strict=True):
                sentences.append(say.format(pair=f"{one} with {other}", place=self._place(rank)))
            n_left = len(of_verdict[verdict]) - MOST_NAMED
            if n_left > 0:
                sentences.append(f"So it is for {counted(n_left, 'more pair')}: see disagreements.")
        if len(self.pairs):
            sentences.append(
                "Ranks are compared and not sizes, because SHAP interactions are in the unit of the output and the "
                "test is about the response."
            )
            sentences.append(
                "SHAP interactions describe the model and have no error rate: they are above 0 also for pairs that do "
                "not work together."
            )
        if self.rows == RowsKind.TRAIN and len(self.pairs):
            sentences.append(
                "These are training rows, so nothing here says whether an interaction holds on other rows."
            )
        return [*sentences, *self.warnings]

    @property
    def headline(self) -> str:
        """The most important sentence."""
        if not len(self.pairs):
            return "The model uses no two features together: all SHAP interactions are 0, and there is nothing to test."
        if self.tested is None:
            return f"SHAP interactions alone, without a test: {self.untested_because}"
        if not self._any_tested:
            return "No pair was tested, so SHAP interactions stand alone."
        n_confirmed = len(self.tested.confirmed) + len(self.tested.confirmed_or_similar)
        if not n_confirmed:
            (one, other), n_tested = self.to_frame().index[0], int(self.tested.tested.sum())
            return (
                f"None of {counted(n_tested, 'tested pair')} is confirmed at {percent(self.tested.alpha, 0)}; SHAP "
                f"interactions put {one} with {other} first."
            )
        differ = self.disagreements
        n_late = int(differ["verdict"].isin(FOUND).sum())
        n_first = n_confirmed - n_late
        are = "is" if n_first == 1 else "are"
        pairs = "the confirmed pair" if n_confirmed == 1 else f"{n_confirmed} confirmed pairs"
        among = "first" if n_confirmed == 1 else f"among the first {n_confirmed}"
        if n_confirmed == 1:
            return f"SHAP interactions put {pairs} {'first' if n_first else 'behind others'}, of {len(self.pairs)}."
        return f"{n_first} of {pairs} {are} {among} of {len(self.pairs)} by SHAP interactions."

    def to_table(self, most: int | None = None) -> Table:
        """Return the table of the first pairs, or of all, for people."""
        frame = self.to_frame()[:most]
        columns = {"pair": [f"{one} with {other}" for one, other in frame.index]}
        columns["SHAP rank"] = [f"{rank:.0f}" for rank in frame["shap_rank"]]
        columns["SHAP interaction"] = [few_digits(value) for value in frame["shap_interactions"]]
        unseen = frame["shap_interactions_oob"]
        columns["with the response"] = [DASH if value != value else few_digits(value) for value in unseen]
        columns["tested share"] = cells("share", frame["share"], DASH)
        columns["adjusted p"] = cells("p_adjusted", frame["p_adjusted"], DASH)
        columns["verdict"] = [Confirmation(each).text for each in frame["verdict"]]
        return Table.of_cells(columns)

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, with a schema version. What is not known is None."""
        return {
            "kind": KIND,
            "schema_version": SCHEMA_VERSION,
            "feature_names": list(self.feature_names),
            "pairs": self.pairs.tolist(),
            "shap_interactions": self.shap_interactions.tolist(),
            "shap_interactions_oob": [None if v != v else v for v in self.shap_interactions_oob.tolist()],
            "tested": None if self.tested is None else self.tested.to_dict(),
            **{name: getattr(self, name) for name in ("untested_because", "rows", "n_rows", "provenance", "settings")},
            "warnings": list(self.warnings),
        }

    @classmethod
    def _read(cls, plain: dict[str, Any]) -> PairComparison:
        if plain.get("kind") != KIND:
            raise Malformed(f"its kind is not {KIND!r}")
        fields = record(without_version(plain, "a comparison of pairs"), FIELDS, "")
        del fields["kind"]
        tested = fields["tested"]
        fields["tested"] = None if tested is None else Interactions.from_dict(tested)
        n_pairs = len(fields["pairs"])
        if any(len(fields[name]) != n_pairs for name in ("shap_interactions", "shap_interactions_oob")):
            raise Malformed(f"its columns do not have {n_pairs} entries")
        if n_pairs and fields["pairs"].max() >= len(fields["feature_names"]):
            raise Malformed("pairs are not of two features")
        return cls(**fields)

    @property
    def _any_tested(self) -> bool:
        return self.tested is not None and bool(self.tested.tested.any())

    def _place(self, rank: float) -> str:
        return f"number {rank:.0f} of {len(self.pairs)}"


FIELDS = {
    "kind": text_of,
    "feature_names": texts,
    "pairs": sets_of(2),
    "shap_interactions": numbers,
    "shap_interactions_oob": or_missing,
    "tested": lambda value, at: None if value is None else tree(value, at),
    "untested_because": text_of,
    "rows": text_of,
    "n_rows": whole,
    "provenance": tree,
    "settings": tree,
    "warnings": texts,
}
