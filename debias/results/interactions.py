"""Which pairs of features a model uses together in a way that unseen rows confirm.

The file is long because the sentences of a result, its tables and its file are tested against each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from debias import p_values
from debias.errors import CompositionError
from debias.results import console
from debias.results.base import ReportedResult
from debias.results.fields import (
    SCHEMA_VERSION,
    Malformed,
    list_of,
    number,
    or_missing,
    or_none,
    record,
    text_of,
    texts,
    tree,
    whole,
    whole_numbers,
    without_version,
)
from debias.results.sentences import part_like_training
from debias.results.tables import DASH, Table, cells
from debias.results.vocabulary import LIKE_TRAINING, UNPROVEN, Confirmation
from debias.text import counted, escaped, listed, named_together, percent

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd
    from numpy.typing import NDArray

    from debias.results.joint_effects import JointEffects

KIND = "interactions"
ARRAYS = ("score", "standard_error", "z", "p_value", "p_apart", "total", "spread")
DRAWN_BY_CLASS = "drawn_by_class"
"""In the settings: whether rows were drawn so that more of rare classes are among them."""
MOST_NAMED = 5
"""Sentences name at most this many pairs that may stand in for others."""
RATES = {"fwer": "family-wise error rate", "fdr": "false discovery rate", "fdr_by": "false discovery rate"}
UNTESTED_BECAUSE = (
    "one is tested for every 20 rows, those that vary most beyond additive functions, which does not depend on the "
    "response"
)
NOTHING_TO_TEST = (
    "all rows have the same response, or additive functions of the columns say all that the model does with these "
    "features together"
)
UNFOLLOWED_BECAUSE = (
    "the additive functions do not follow the response along such a column, perhaps because it has too many values or "
    "jumps for these rows. What they leave would look like an interaction. More rows may help, or fewer values, such "
    "as regions in place of postcodes"
)
NULL_HYPOTHESIS = (
    "given additive functions of all columns, any functions of the confirmed pairs and the other interactions of the "
    "model, the response does not go with the part of the output that needs these features and no other"
)
NOT_BESIDE = "beside products of such pairs it is not confirmed"
TOO_FEW_ROWS = "there are too few rows for a test beside products of such pairs"
OF_SIMILAR = (
    "A confirmed pair is tested a second time, also given products of pairs with correlated features, at the same "
    "error rate. Only pairs that pass both tests are called confirmed without a similar pair."
)
OF_FOLDS = (
    "The tests of the folds are added up, with an allowance for the rows that folds share. The error rate holds for "
    "interactions that were named before anyone looked at these rows."
)
OF_TRIPLES = (
    "An interaction of three features is what their pairs do not explain: it is freed of any functions of these."
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
    triples : array of int64 of shape (n_triples, 3)
        The same of three features that were named. The arrays below have the pairs first, and then the triples: their
        shape is (n_pairs + n_triples,).
    score : array
        Mean over rows of the response times the interaction, both freed of additive functions of all columns and of the
        other interactions, with an allowance for what these take of few rows. 0 on average if there is no such
        interaction. NaN if it was not tested.
    standard_error, z, p_value : array
        Of the score; NaN if it was not tested. The p-value is one-sided.
    p_apart : array
        P-value of the same score beside products of similar pairs, for which the model may use this pair as a stand-in;
        equal to `p_value` if no pair is similar. NaN if the first test does not confirm it, so that there is no second
        one, or if there are too few rows for these products.
    similar : tuple of tuples of (int, int)
        For each interaction the most similar pairs, at most three: those whose features are correlated with its own.
    spread : array
        Standard deviation over rows of what the model does with these features only together, in the unit of its
        output.
    total : array
        Covariance of the response and the output of the model on these rows. If there are several responses or classes,
        everything is that of the response, or of the class against the most frequent one, with the smallest p-value.
    n_asked : int
        Number of pairs and triples that were asked for.
    n_rows : int
        Number of rows that were tested.
    n_passed : int or None
        Number of rows that they were drawn from, where there were too many; `n_rows` if all were tested. None in files
        of earlier versions.
    n_functions : int
        Number of additive functions; the largest one, if there are several classes or responses.
    about : tuple of str
        For each interaction, which of several classes or responses its numbers are about, as "b against a"; "" if it
        was not tested. Empty if there are no several, and over folds.
    unfollowed : tuple of str
        Features along which the response is not what the additive functions say. What these leave would look like an
        interaction, so interactions with these features are not tested.
    n_blocks : int or None
        Number of blocks of rows that depend on one another; None without blocks.
    n_folds : int or None
        Number of folds whose models were tested, each on the rows held out from it: the numbers are those of all folds
        together (:func:`debias.audit_folds`). None for one model.
    tested_folds, confirmed_folds : array of int64, or None
        Number of folds that tested each interaction (in a fold whose model does not use the features together, the
        score is 0), and of those whose own test confirms it; None for one model.
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
    p_apart: NDArray[np.float64]
    similar: tuple[tuple[tuple[int, int], ...], ...]
    spread: NDArray[np.float64]
    total: NDArray[np.float64]
    n_asked: int
    n_rows: int
    n_functions: int
    triples: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 3), dtype=np.int64))
    n_passed: int | None = None
    about: tuple[str, ...] = ()
    unfollowed: tuple[str, ...] = ()
    n_blocks: int | None = None
    n_folds: int | None = None
    tested_folds: NDArray[np.int64] | None = None
    confirmed_folds: NDArray[np.int64] | None = None
    error: str = "fwer"
    alpha: float = 0.05
    provenance: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    joint: JointEffects | None = None

    def __repr__(self) -> str:
        return console.short_interactions(self)

    @property
    def sets(self) -> list[tuple[str, ...]]:
        """Names of the features of each pair, and then of each triple."""
        return [
            tuple(self.feature_names[k] for k in members) for members in (*self.pairs.tolist(), *self.triples.tolist())
        ]

    @property
    def tested(self) -> NDArray[np.bool_]:
        """Whether each interaction was tested."""
        return ~np.isnan(self.p_value)

    @property
    def p_adjusted(self) -> NDArray[np.float64]:
        """P-values adjusted for the number of tested interactions."""
        return self._adjusted(self.p_value)

    def _adjusted(self, p_value: NDArray[np.float64]) -> NDArray[np.float64]:
        adjusted = np.full(len(p_value), np.nan)
        if self.tested.any():
            known = np.where(np.isnan(p_value), 1.0, p_value)
            adjusted[self.tested] = p_values.ADJUSTMENTS[self.error](known[self.tested])
        return adjusted

    @property
    def verdict(self) -> list[Confirmation]:
        """One verdict for each interaction."""
        found, apart = self.p_adjusted <= self.alpha, self._adjusted(self.p_apart) <= self.alpha
        verdict = np.where(
            found, np.where(apart, Confirmation.CONFIRMED, Confirmation.SIMILAR), Confirmation.NO_EVIDENCE
        )
        return [Confirmation(each) for each in np.where(self.tested, verdict, Confirmation.UNTESTED).tolist()]

    @property
    def confirmed(self) -> list[tuple[str, ...]]:
        """The confirmed pairs and triples, the largest share first, without those of `confirmed_or_similar`."""
        return self._named(Confirmation.CONFIRMED)

    @property
    def confirmed_or_similar(self) -> dict[tuple[str, ...], list[tuple[str, ...]]]:
        """The pairs that are confirmed but may stand in for others, and these others, the most similar first.

        The response goes with what the model does with the two features. Beside products of similar pairs it does not,
        or there are too few rows to tell, so these rows do not tell which pair works together.
        """
        names, sets = self.feature_names, self.sets
        return {
            sets[k]: [(names[one], names[other]) for one, other in self.similar[k]]
            for k in self._which(Confirmation.SIMILAR)
        }

    @property
    def share(self) -> NDArray[np.float64]:
        """Each score as a share of `total`; NaN if that is not above 0."""
        return self.score / self._positive_total

    @property
    def share_error(self) -> NDArray[np.float64]:
        """Standard error of each share, with `total` as it is."""
        return self.standard_error / self._positive_total

    @property
    def _positive_total(self) -> NDArray[np.float64]:
        return np.where(self.total > 0, self.total, np.nan)

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with a row for each interaction, the confirmed and the largest shares first.

        The index has the levels ``feature`` and ``other``, and ``third`` if triples were named (empty for pairs).
        Columns: ``share`` and ``share_error``, ``score``, ``standard_error``, ``z``, ``p_value``, ``p_adjusted``,
        ``p_apart`` (not adjusted), ``spread`` and ``verdict``; over folds also ``confirmed_folds`` and ``folds``.
        """
        import pandas as pd

        levels = ["feature", "other", "third"][: 3 if len(self.triples) else 2]
        members = [(*each, "")[: len(levels)] for each in self.sets]
        columns = {
            name: getattr(self, name) for name in ("share", "share_error", "score", "standard_error", "z", "p_value")
        }
        columns |= {"p_adjusted": self.p_adjusted, "p_apart": self.p_apart, "spread": self.spread}
        if self.about:
            columns["about"] = np.array(self.about, dtype=object)
        if self.confirmed_folds is not None and self.tested_folds is not None:
            columns |= {"confirmed_folds": self.confirmed_folds, "folds": self.tested_folds}
        index = pd.MultiIndex.from_arrays([list(each) for each in zip(*members, strict=True)] or [[], []], names=levels)
        frame = pd.DataFrame(columns | {"verdict": [each.value for each in self.verdict]}, index=index)
        return frame.iloc[self._order()]

    def to_table(self, most: int | None = None) -> Table:
        """Return the table of the first interactions, or of all, for people."""
        frame, order = self.to_frame()[:most], self._order()[:most]
        columns = {"features" if len(self.triples) else "pair": [named_together(self.sets[k]) for k in order]}
        if "about" in frame:
            columns["about"] = [escaped(text) or DASH for text in frame["about"]]
        columns["share"] = cells("share", frame["share"], DASH)
        columns["standard error"] = cells("share", frame["share_error"], DASH)
        for heading, name in (("z", "z"), ("adjusted p", "p_adjusted"), ("output, sd", "spread")):
            columns[heading] = cells(name, frame[name], DASH)
        if "folds" in frame:
            counts = zip(frame["confirmed_folds"], frame["folds"], strict=True)
            columns["in folds"] = [f"{one:,} of {other:,}" for one, other in counts]
        columns["verdict"] = [Confirmation(each).text for each in frame["verdict"]]
        return Table.of_cells(columns)

    @property
    def headline(self) -> str:
        """The most important sentence."""
        n_tested = int(self.tested.sum())
        if not self.sets:
            return "The model uses none of these features together: no interaction to test."
        if not n_tested:
            return "No interaction was tested."
        certain, unclear = (self._which(verdict) for verdict in (Confirmation.CONFIRMED, Confirmation.SIMILAR))
        if not certain.size and not unclear.size:
            on_rows = (
                f"on these {self.n_rows:,} rows" if self.n_folds is None else f"over {counted(self.n_folds, 'fold')}"
            )
            if n_tested == 1:
                return f"The interaction that was tested is not confirmed {on_rows}."
            return f"None of {n_tested:,} tested interactions is confirmed {on_rows}."
        over = "" if self.n_folds is None else f" over {counted(self.n_folds, 'fold')}"
        of_tested = f"of {counted(n_tested, 'tested interaction')}"
        parts: list[str] = []
        for places, to_whom in ((certain, ""), (unclear, " for this or a similar pair")):
            if places.size:
                is_one = "is" if places.size == 1 else "are"
                to_whom = (
                    to_whom if places.size == 1 else to_whom.replace("this or a similar pair", "these or similar ones")
                )
                which = f"more {is_one} confirmed" if parts else f"{of_tested} {is_one} confirmed"
                clause = "" if parts else f"{over}{self._condition()}"
                parts.append(f"{places.size} {which}{to_whom}{clause}: {listed(self._with_shares(places))}")
        return "; ".join(parts) + "."

    def _with_shares(self, places: NDArray[np.int64]) -> list[str]:
        """Return the names of interactions with their shares."""
        sets, shares = self.sets, self.share[places]
        return [
            named_together(sets[k]) + (f" ({percent(share)})" if np.isfinite(share) else "")
            for k, share in zip(places.tolist(), shares, strict=True)
        ]

    def _scale(self) -> str:
        """Return a sentence about the scale on which functions are added up; "" for that of the response."""
        scale = self.settings.get("scale")
        if scale is None:
            return ""
        return f"Functions add up to the {scale}: what is multiplied on another scale may be no interaction here. "

    def _condition(self) -> str:
        """Return the clause for rows that may be training rows."""
        status = self.provenance.get("status")
        if status == LIKE_TRAINING:
            return ", but the rows look like training rows"
        part = part_like_training(self.provenance)
        if part is not None:
            return f", but {part}"
        return ", if none of the rows is a training row" if status in UNPROVEN else ""

    def summary(self) -> list[str]:
        """Return the result in sentences: what is confirmed, what was tested and how, and what cannot be told."""
        sentences = [self.headline, *self.of_drawn_rows]
        n_tested, n_untested = int(self.tested.sum()), int((~self.tested).sum())
        unclear = self.confirmed_or_similar
        no_room = {self.sets[k] for k in np.flatnonzero(np.isnan(self.p_apart)).tolist()}
        sentences += [
            f"{named_together(pair)} may stand in for {' or '.join(map(named_together, others))}: their features are "
            f"correlated, and {TOO_FEW_ROWS if pair in no_room else NOT_BESIDE}."
            for pair, others in list(unclear.items())[:MOST_NAMED]
        ]
        if len(unclear) > MOST_NAMED:
            n_more = counted(len(unclear) - MOST_NAMED, "more pair")
            sentences.append(f"{n_more} may stand in for others too: see confirmed_or_similar.")
        if self.confirmed or unclear:
            sentences.append(
                "A share is the part of the covariance of the response and the model's output that needs these "
                "features together, beyond additive functions of all columns and the other interactions."
                + (" It is that of one class or response, as said beside it." if self.about else "")
            )
        if n_tested:
            dependent = "" if self.n_blocks is None else f" in {self.n_blocks:,} blocks"
            dependent += "" if self.n_folds is None else f" of {counted(self.n_folds, 'fold')}"
            at_most = "" if self.n_folds is None else "at most "
            sentences.append(
                f"Null hypothesis of each test: {NULL_HYPOTHESIS}. {self._scale()}{RATES[self.error].capitalize()} "
                f"{percent(self.alpha, 0)} over {counted(n_tested, 'test')}, {at_most}{self.n_functions:,} additive "
                f"functions, {self.n_rows:,} rows{dependent}."
            )
        if any(pairs and p == p for pairs, p in zip(self.similar, self.p_apart.tolist(), strict=True)):
            sentences.append(OF_SIMILAR)
        if n_tested and self.n_folds is not None:
            sentences.append(OF_FOLDS)
        if len(self.triples):
            sentences.append(OF_TRIPLES)
        n_unfollowed = sum(
            not known and not set(self.unfollowed).isdisjoint(members)
            for known, members in zip(self.tested.tolist(), self.sets, strict=True)
        )
        if n_unfollowed:
            were = "was" if n_unfollowed == 1 else "were"
            names = listed([escaped(name) for name in self.unfollowed])
            sentences.append(
                f"{counted(n_unfollowed, 'interaction')} with {names} {were} not tested: {UNFOLLOWED_BECAUSE}."
            )
        if n_untested > n_unfollowed:
            were = "was" if n_untested - n_unfollowed == 1 else "were"
            other = "other interaction" if n_unfollowed else "interaction"
            because = UNTESTED_BECAUSE if n_tested else NOTHING_TO_TEST
            sentences.append(f"{counted(n_untested - n_unfollowed, other)} {were} not tested: {because}.")
        n_apart = self.n_asked - len(self.sets)
        if n_apart:
            apart = counted(n_apart, "other interaction" if self.sets else "interaction")
            sentences.append(
                f"The model does not use the features of {apart} together on any path "
                "of a tree. Nothing is said about them."
            )
        may_be = "may still be there" if self.of_drawn_rows else "may be found with more rows"
        sentences.append(
            f"An interaction that the model does not use cannot be found here, and one that is not confirmed {may_be}."
        )
        return [*sentences, *self.warnings]

    @property
    def of_drawn_rows(self) -> list[str]:
        """A sentence if only some of the rows that were passed were tested; otherwise empty."""
        if self.n_passed is None or self.n_passed == self.n_rows:
            return []
        kept = ", more of rare classes" if self.settings.get(DRAWN_BY_CLASS) else ""
        return [
            f"The test used {self.n_rows:,} of {self.n_passed:,} rows, drawn at random{kept}: with more rows it would "
            "take too much memory and time. Shares are those of the drawn rows, and random_state chooses them."
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, with a schema version. What was not tested is None."""
        arrays = {name: [None if each != each else each for each in getattr(self, name).tolist()] for name in ARRAYS}
        return {
            "kind": KIND,
            "schema_version": SCHEMA_VERSION,
            "feature_names": list(self.feature_names),
            "pairs": self.pairs.tolist(),
            "triples": self.triples.tolist(),
            "similar": [[list(pair) for pair in pairs] for pairs in self.similar],
            "about": list(self.about),
            "unfollowed": list(self.unfollowed),
            **arrays,
            **{
                name: getattr(self, name)
                for name in ("n_asked", "n_rows", "n_passed", "n_functions", "n_blocks", "n_folds", "error", "alpha")
            },
            **{
                name: None if (values := getattr(self, name)) is None else values.tolist()
                for name in ("tested_folds", "confirmed_folds")
            },
            "provenance": self.provenance,
            "settings": self.settings,
            "warnings": list(self.warnings),
        }

    @classmethod
    def _read(cls, plain: dict[str, Any]) -> Interactions:
        if plain.get("kind") != KIND:
            raise Malformed("it has another kind")
        fields = record(
            without_version(plain, "interactions"), FIELDS, "", optional=("n_passed", "about", "unfollowed")
        )
        del fields["kind"]
        sets = [*fields["pairs"].tolist(), *fields["triples"].tolist()]
        fields["similar"] = tuple(tuple(map(tuple, pairs.tolist())) for pairs in fields["similar"])
        if any(len(fields[name]) != len(sets) for name in (*ARRAYS, "similar")):
            raise Malformed(f"its columns do not have {len(sets)} entries")
        alone = np.array([not pairs for pairs in fields["similar"]], dtype=bool)
        if not np.array_equal(fields["p_apart"][alone], fields["p_value"][alone], equal_nan=True):
            raise Malformed("p_apart differs from p_value where no pair is similar")
        of_folds = [fields[name] for name in ("tested_folds", "confirmed_folds") if fields[name] is not None]
        if any(each.size != len(sets) for each in of_folds) or len(of_folds) != 2 * (fields["n_folds"] is not None):
            raise Malformed("tested_folds or confirmed_folds contradicts n_folds")
        if fields["error"] not in p_values.ADJUSTMENTS or not 0 < fields["alpha"] < 1:
            raise Malformed("error or alpha is not an error rate")
        fields = {"n_passed": None, "about": (), "unfollowed": ()} | fields  # earlier versions wrote none
        if len(fields["about"]) not in (0, len(sets)):
            raise Malformed(f"about does not have {len(sets)} entries")
        if not set(fields["unfollowed"]) <= set(fields["feature_names"]):
            raise Malformed("unfollowed has a name that is no feature")
        n_features = len(fields["feature_names"])
        named = [*sets, *(pair for pairs in fields["similar"] for pair in pairs)]
        if any(
            len(set(members)) < len(members) or not 0 <= min(members) <= max(members) < n_features for members in named
        ):
            raise Malformed("pairs and triples are not of different features")
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
        order, found = self._order(), self.verdict
        return order[[found[k] is verdict for k in order]]

    def _named(self, verdict: Confirmation) -> list[tuple[str, ...]]:
        sets = self.sets
        return [sets[k] for k in self._which(verdict)]

    def _order(self) -> NDArray[np.int64]:
        """Return the confirmed ones first, then the tested ones by score, then the others by their spread."""
        rank = list(Confirmation)
        verdict = np.array([rank.index(each) for each in self.verdict], dtype=np.int64)
        order: NDArray[np.int64] = np.lexsort((-self.spread, -np.nan_to_num(self.score, nan=-np.inf), verdict))
        return order


def sets_of(size: int) -> Callable[[Any, str], NDArray[np.int64]]:
    """Return a reader of lists of as many positions each, shape (n_sets, size)."""

    def read(value: Any, at: str) -> NDArray[np.int64]:
        sets = [whole_numbers(members, at) for members in list_of(value, at)]
        if any(members.size != size for members in sets):
            raise Malformed(f"{at} is not a list of {size} positions each")
        return np.array(sets, dtype=np.int64).reshape(-1, size)

    return read


def index_of_pairs(feature_names: tuple[str, ...], pairs: NDArray[np.int64]) -> pd.MultiIndex:
    """Return the index of a table of pairs, with the levels ``feature`` and ``other``."""
    import pandas as pd

    names = np.array(feature_names, dtype=object)
    return pd.MultiIndex.from_arrays([names[pairs[:, 0]], names[pairs[:, 1]]], names=["feature", "other"])


FIELDS = {
    "kind": text_of,
    "feature_names": texts,
    "pairs": sets_of(2),
    "triples": sets_of(3),
    "similar": lambda value, at: [sets_of(2)(pairs, at) for pairs in list_of(value, at)],
    **dict.fromkeys(ARRAYS, or_missing),
    **dict.fromkeys(("n_asked", "n_rows", "n_functions"), whole),
    **dict.fromkeys(("about", "unfollowed"), texts),
    **dict.fromkeys(("n_passed", "n_blocks", "n_folds"), or_none(whole)),
    **dict.fromkeys(("tested_folds", "confirmed_folds"), or_none(whole_numbers)),
    "error": text_of,
    "alpha": number,
    "provenance": tree,
    "settings": tree,
    "warnings": texts,
}
