"""What changed between two windows of a history in what a model does with two features together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from debias.results.fields import Malformed, plain_numbers
from debias.results.tables import DASH, Table, cells
from debias.results.vocabulary import ChangeVerdict
from debias.text import counted, escaped, listed, named_together

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

NULL_HYPOTHESIS = (
    "beside effects of all columns alone, which may have changed in any way, and the other parts of the output of the "
    "model, the response goes with the interaction of these two features that the model has learned as it did before"
)
OF_TABLE = {
    "slope_before": "slope before",
    "slope_after": "slope recently",
    "error": "error of change",
    "p_adjusted": "adjusted p",
    "size": "size",
}
"""Columns of numbers of the table, and their headings."""
OF_WINDOWS = ("periods_before", "periods_after", "rows_before", "rows_after")
"""Statistics that say in how many periods and rows a pair was compared."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PairChanges:
    """Whether the response to the interactions of named pairs changed.

    Parameters
    ----------
    pairs : tuple of tuples of two str
    alpha : float
        Family-wise error rate over all pairs, and over all `looks` together.
    looks : int
        Number of comparisons that share it.
    n_incomplete : tuple of int
        In the reference and in the recent window: the periods that have sums for pairs of some of their rows only, so
        that no pair is compared in them.
    statistics : dict of str to array of shape (n_pairs,)
        See :meth:`to_frame`. NaN for pairs that were not tested, but for the numbers of periods and rows.
    untested_because : tuple of (str or None)
        Why each pair was not tested; None if it was.
    """

    STATISTICS: ClassVar[tuple[str, ...]] = (
        "slope_before",
        "slope_after",
        "before_error",
        "after_error",
        "change",
        "error",
        "p_value",
        "p_adjusted",
        "p_before",
        "p_after",
        "p_lost",
        "size",
        *OF_WINDOWS,
    )

    pairs: tuple[tuple[str, str], ...]
    alpha: float
    looks: int
    n_incomplete: tuple[int, int]
    statistics: dict[str, Array]
    untested_because: tuple[str | None, ...]

    @property
    def level(self) -> float:
        """Largest adjusted p-value of a change: ``alpha / looks``."""
        return self.alpha / self.looks

    @property
    def not_tested_because(self) -> str | None:
        """Why no pair was tested; None if some were."""
        reasons = [each for each in self.untested_because if each is not None]
        return "; ".join(dict.fromkeys(reasons)) if len(reasons) == len(self.pairs) else None

    @property
    def _tested(self) -> list[int]:
        return [k for k, each in enumerate(self.untested_because) if each is None]

    @property
    def changed(self) -> NDArray[np.bool_]:
        """Whether the response to each pair changed by more than chance."""
        return np.asarray(self.statistics["p_adjusted"] <= self.level)

    @property
    def informative_before(self) -> tuple[tuple[str, str], ...]:
        """The pairs whose slope was above 0 in the reference by more than chance."""
        return tuple(pair for pair, p in zip(self.pairs, self.statistics["p_before"], strict=True) if p <= self.level)

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Whether each pair is shown not to have faded: a larger loss of the slope than the margin is excluded.

        At the level `alpha`, because this is no alarm.
        """
        return np.asarray(self.statistics["p_lost"] <= self.alpha) & ~(self.changed & (self.statistics["change"] < 0))

    @cached_property
    def verdict(self) -> list[ChangeVerdict]:
        """One verdict per pair, with the words for features.

        - "faded": the slope was above 0 by more than chance, is not any more, and it changed downwards;
        - "changed (weaker)", "changed (stronger)": the slope changed, by the adjusted p-value;
        - "no longer distinguishable": it was above 0, and no change was detected. This may be for lack of rows;
        - "no change detected";
        - "not compared": this pair was not tested.
        """
        statistics, changed = self.statistics, self.changed
        was, is_now = (statistics[name] <= self.level for name in ("p_before", "p_after"))
        verdicts = []
        for k, change in enumerate(statistics["change"]):
            if np.isnan(statistics["p_value"][k]):
                verdicts.append(ChangeVerdict.NOT_COMPARED)
            elif changed[k] and change > 0:
                verdicts.append(ChangeVerdict.STRONGER)
            elif changed[k]:
                verdicts.append(ChangeVerdict.FADED if was[k] and not is_now[k] else ChangeVerdict.WEAKER)
            else:
                verdicts.append(ChangeVerdict.UNDETECTED if was[k] and not is_now[k] else ChangeVerdict.UNCHANGED)
        return verdicts

    @property
    def weaker(self) -> list[str]:
        """The pairs to which the response became weaker, or that faded, in words, the strongest evidence first."""
        order = np.argsort(self.statistics["p_value"], kind="stable").tolist()
        return [self._name(k) for k in order if self.verdict[k] in (ChangeVerdict.FADED, ChangeVerdict.WEAKER)]

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with index ``feature`` and ``other``, the strongest evidence for a change first.

        Columns: ``slope_before`` and ``slope_after``, 1 if the response follows the interaction as the model believes,
        0 if it does not follow it; their standard errors ``before_error`` and ``after_error``; ``change`` of the slope,
        with its standard error ``error``; ``p_value`` and ``p_adjusted`` (Holm, over the pairs) of a change that is
        larger than the margin; ``p_before`` and ``p_after``, adjusted, that the slope is above 0; ``p_lost``, small if
        a loss of more than the margin is excluded; ``size``, the standard deviation of the interaction beside
        everything else, in the unit of the response; ``periods_before`` and ``periods_after``, in which the pair was
        compared, with ``rows_before`` and ``rows_after`` (at most 1,000 of a table or batch); and ``verdict``.
        """
        import pandas as pd

        index = pd.MultiIndex.from_tuples(self.pairs, names=["feature", "other"])
        frame = pd.DataFrame(self.statistics, index=index, columns=self.STATISTICS)
        frame = frame.astype(dict.fromkeys(OF_WINDOWS, np.int64))
        frame["verdict"] = list(map(str, self.verdict))
        return frame.iloc[np.argsort(self.statistics["p_value"], kind="stable")]  # NaN comes last

    def to_table(self) -> Table:
        """Return the table of the pairs for people."""
        frame = self.to_frame()
        columns = {"pair": [named_together(pair) for pair in frame.index]}
        columns |= {title: cells(name, frame[name], DASH) for name, title in OF_TABLE.items()}
        columns["verdict"] = [ChangeVerdict(each).text for each in frame["verdict"]]
        return Table.of_cells(columns)

    def summary(self) -> list[str]:
        """Return the result in sentences."""
        verdict = self.verdict
        untested = self.not_tested()
        n_tested = len(self._tested)
        if not n_tested:
            return [f"No pair of features was tested: {'; '.join(untested)}."]
        sentences = [f"Not every pair was tested: {'; '.join(untested)}."] if untested else []
        gone = [k for k, each in enumerate(verdict) if each is ChangeVerdict.UNDETECTED]
        no_longer = [
            f"{ChangeVerdict.UNDETECTED.phrase.capitalize()}, without a change that is more than chance: "
            f"{listed([self._name(k) for k in gone])}. The recent window may be too short to show "
            f"{'it' if len(gone) == 1 else 'them'}."
        ] * bool(gone)
        found = np.flatnonzero(self.changed)
        if not found.size:
            of = "the tested pair" if n_tested == 1 else f"any of {counted(n_tested, 'tested pair')}"
            what = "No change of the response to what the model does with two features together was detected"
            return [*sentences, f"{what} for {of}.", *no_longer]
        order = found[np.argsort(self.statistics["p_value"][found], kind="stable")].tolist()
        named = [f"{self._name(k)} ({verdict[k].text}; {self._slopes(k)})" for k in order]
        return [
            *sentences,
            f"The response to what the model does with two features together changed for {found.size:,} of "
            f"{counted(n_tested, 'tested pair')}: {listed(named)}.",
            *no_longer,
        ]

    def not_tested(self) -> list[str]:
        """Return why pairs were not tested, in words, with their names if others were."""
        texts = []
        reasons = dict.fromkeys(each for each in self.untested_because if each is not None)
        for because in reasons:
            names = [self._name(k) for k, each in enumerate(self.untested_because) if each == because]
            texts.append((f"{listed(names)}, because " if len(names) < len(self.pairs) else "") + escaped(because))
        return texts

    def in_fewer_periods(self, windows: tuple[int, int]) -> list[str]:
        """Return which tested pairs are compared in fewer periods than the two windows have, in sentences."""
        sizes = [(int(self.statistics[OF_WINDOWS[0]][k]), int(self.statistics[OF_WINDOWS[1]][k])) for k in self._tested]
        texts = []
        for size in dict.fromkeys(sizes):
            if size != windows:
                names = [self._name(k) for k, each in zip(self._tested, sizes, strict=True) if each == size]
                texts.append(
                    f"Compared in the periods with sums for {'it' if len(names) == 1 else 'them'}, {size[0]:,} of "
                    f"{windows[0]:,} before and {size[1]:,} of {windows[1]:,} recent ones: {listed(names)}."
                )
        if any(self.n_incomplete):
            texts.append(
                f"In {counted(sum(self.n_incomplete), 'period')}, some of the rows have no sums for pairs, so no pair "
                "is compared there. Name the same interactions wherever rows of a period are added."
            )
        return texts

    def in_words(self, k: int) -> str:
        """Return the numbers of a pair in words."""
        return f"{self._slopes(k)}; adjusted p = {self.statistics['p_adjusted'][k]:.3g}"

    def _slopes(self, k: int) -> str:
        before, after = (self.statistics[name][k] for name in ("slope_before", "slope_after"))
        return f"slope {before:z.2f} before, {after:z.2f} recently"

    def _name(self, k: int) -> str:
        return named_together([escaped(name) for name in self.pairs[k]])

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values. Numbers that are not known are None."""
        return {
            "pairs": [list(pair) for pair in self.pairs],
            "alpha": self.alpha,
            "looks": self.looks,
            "n_incomplete": list(self.n_incomplete),
            "untested_because": list(self.untested_because),
            "verdict": self.verdict,
            "statistics": {name: plain_numbers(values) for name, values in self.statistics.items()},
        }

    @classmethod
    def read(cls, fields: Mapping[str, Any], feature_names: tuple[str, ...]) -> PairChanges:
        """Return what :meth:`to_dict` returned, from its fields.

        Raises
        ------
        Malformed
            They contradict each other.
        """
        own = {name: value for name, value in fields.items() if name != "verdict"}
        found = cls(**own | {"pairs": tuple(map(tuple, fields["pairs"]))})
        if not all(len(pair) == 2 and set(pair) <= set(feature_names) for pair in found.pairs):
            raise Malformed("pairs.pairs are not pairs of features")
        n_pairs, statistics = len(found.pairs), found.statistics
        if set(statistics) != set(cls.STATISTICS) or any(values.size != n_pairs for values in statistics.values()):
            raise Malformed(f"pairs.statistics does not have {n_pairs} numbers for each of {', '.join(cls.STATISTICS)}")
        if [each is None for each in found.untested_because] != np.isfinite(statistics["p_value"]).tolist():
            raise Malformed("pairs.untested_because does not fit pairs.statistics")
        if not all(
            (values >= 0).all() and (values % 1 == 0).all() for values in (statistics[name] for name in OF_WINDOWS)
        ):
            raise Malformed("pairs.statistics has numbers of periods or rows that are not possible")
        if not 0 < found.alpha < 1 or found.looks < 1:
            raise Malformed("pairs.alpha or pairs.looks is no error rate or number of looks")
        if fields["verdict"] != found.verdict:
            raise Malformed("pairs.verdict does not follow from pairs.statistics")
        return found
