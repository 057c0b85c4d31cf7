"""What a test works on: evaluation rows, the node weights of one score, and the groups of features."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from debias.significance.contributions import moments
from debias.significance.effective_rows import effective_rows, is_constant

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.groups import Grouping
    from debias.rows.rows import Rows
    from debias.warning_log import WarningLog

    Moments = tuple[NDArray[np.float64], NDArray[np.float64]]

ENOUGH_BLOCKS = 5
"""Frozen-forest permutations need about so many independent evaluations a tree. With 0.5 and 2 whole blocks out of bag
the family-wise error was 0.1 instead of 0.05 (docs/significance.md)."""
RARELY_OUT = 0.1
"""A class is rarely out of bag if its rows are less than this times as often out of bag as those of another class."""
FEW_ROWS = 2000
"""Up to this many effective held-out rows the response is permuted, which is exact. With 48 rows of a rare class among
4,800, or 270, Student's law by the number of rows found noise in 1 data set of 10 instead of 20; with 1,100 or more it
had its level (docs/significance.md)."""
MOST_VALUES = 4e7
"""More rows than FEW_ROWS are permuted only where rows x trees x columns of node values are at most this many: 200
permutations take half a minute of a processor then."""
FEWEST = 4
"""Fewer rows (blocks) have so few orders that no permutation can find anything at 5 %."""
CONSTANT = (
    "the response is the same in all rows that are evaluated, so nothing can be told about any feature. Pass rows in "
    "which it differs (of a classifier: rows of two classes or more)"
)
TOO_FEW = "independent rows or blocks are too few to tell any feature from noise: pass more"


class Evidence(Protocol):
    """What a test works on."""

    @property
    def rows(self) -> Any:
        """Evaluation rows (:class:`debias.rows.rows.EvaluationRows`)."""

    @property
    def node_weight(self) -> NDArray[np.float64]:
        """Factor of the centred covariance of each split in the score, shape (n_nodes,)."""

    @property
    def grouping(self) -> Grouping:
        """Groups of features, whose scores are summed."""

    @property
    def n_independent(self) -> int:
        """Number of rows, or of blocks of rows, that are independent of one another."""

    @property
    def has_blocks(self) -> bool:
        """Whether rows of one block depend on one another."""

    @property
    def can_permute(self) -> bool:
        """Whether the response can be permuted: all rows are in memory."""

    @property
    def should_permute(self) -> bool:
        """Whether a permutation test is the best one for these rows."""

    def no_verdict(self) -> str | None:
        """Return why no test can tell anything on these rows; None if one can."""

    def warn_of_classes(self, log: WarningLog) -> None:
        """Warn of classes whose rows are hardly ever out of bag."""

    def warn(self, method: str, log: WarningLog) -> None:
        """Warn of what makes a test by this method weak or approximate on these rows."""

    def warn_of_blocks(self, log: WarningLog) -> None:
        """Warn where Student's law is approximate because few rows carry the response in unequal blocks."""

    def moments(self, versions: list[tuple[NDArray[np.float64], bool]]) -> list[Moments]:
        """Return power sums of the contributions of rows, in one or several versions.

        Parameters
        ----------
        versions : list of (array of shape (n_nodes,), bool)
            Node weights, and whether deviations are enlarged (see :meth:`debias.rows.paths.Paths.factor`).

        Returns
        -------
        list of (array of shape (4, n_groups), array of shape (n_groups,))
            Sums of the first four powers, and the units they are measured in.
        """


@dataclass(frozen=True, eq=False)
class EvidenceInMemory:
    """Evidence of rows in memory.

    Parameters
    ----------
    rows : Rows
    node_weight : array of shape (n_nodes,)
    grouping : Grouping
    """

    rows: Rows
    node_weight: NDArray[np.float64]
    grouping: Grouping

    @property
    def n_independent(self) -> int:
        """As for any evidence."""
        return self.rows.paths.n_blocks

    @property
    def has_blocks(self) -> bool:
        """As for any evidence."""
        return self.rows.blocks is not None

    @property
    def can_permute(self) -> bool:
        """As for any evidence: rows in memory can."""
        return True

    @cached_property
    def should_permute(self) -> bool:
        """Whether enough blocks are out of bag; of held-out rows, whether few count and blocks can change places."""
        rows = self.rows
        if rows.kind == "oob":
            return rows.paths.evaluated_blocks >= ENOUGH_BLOCKS
        sizes = np.ones(rows.n_rows) if rows.blocks is None else np.unique(rows.blocks, return_counts=True)[1]
        if np.ptp(sizes) > 0:
            return False
        if sizes.size <= FEW_ROWS:
            return True
        n_values = float(rows.n_rows) * rows.ensemble.n_trees * rows.ensemble.value.shape[1]
        return n_values <= MOST_VALUES and effective_rows(rows) <= FEW_ROWS

    def no_verdict(self) -> str | None:
        """As for any evidence: the response is constant, or there are too few rows."""
        if is_constant(self.rows):
            return CONSTANT
        return f"{self.n_independent} {TOO_FEW}" if self.n_independent < FEWEST else None

    def warn(self, method: str, log: WarningLog) -> None:
        """Warn where so few blocks are out of bag that permutations are not calibrated, and other tests find little."""
        if self.rows.kind != "oob" or self.rows.paths.evaluated_blocks >= ENOUGH_BLOCKS:
            return
        what = "rows" if self.rows.blocks is None else "whole blocks"
        then = (
            "permutations are not calibrated with so few, and noise comes out too often: pass test='conservative', or"
            if method == "permutation"
            else "the test is conservative then and has little power:"
        )
        log.warn(
            f"a tree has {self.rows.paths.evaluated_blocks:.2g} {what} out of bag on average, less than "
            f"{ENOUGH_BLOCKS}; {then} hold out {what} and test on them with rows='held-out'"
        )

    def warn_of_classes(self, log: WarningLog) -> None:
        """Warn of classes that hardly ever are out of bag, as where class weights decide which rows are drawn."""
        rows = self.rows
        codes, classes = rows.response.codes, rows.ensemble.classes
        if rows.kind != "oob" or codes is None or classes is None:
            return
        paths = rows.paths
        n = np.bincount(codes[paths.order], minlength=classes.size)
        times = np.bincount(codes[paths.order], weights=paths.evaluated.sum(axis=0), minlength=classes.size)
        rate = np.divide(times, n * rows.ensemble.n_trees, out=np.full(n.size, np.inf), where=n > 0)
        rarest, most = int(rate.argmin()), float(rate[n > 0].max())
        if rate[rarest] < RARELY_OUT * most:
            log.warn(
                f"rows of class {classes[rarest]!s} are out of bag {rate[rarest]:.2%} of the time and those of another "
                f"class {most:.0%}, as where weights decide which rows are drawn: out-of-bag rows tell little of what "
                "sets the class apart, and a feature that does may well be indistinguishable from noise here. Pass "
                "rows the model has not seen, with rows='held-out'"
            )

    def warn_of_blocks(self, log: WarningLog) -> None:
        """Warn where few held-out rows carry the response, and lie in blocks that cannot change places.

        Sums over blocks look normal then, and scores are as skewed as without blocks. With forests of depth 3, balanced
        weights and a class of 1 in 20, noise was found in 0.17 (SE 0.03) of sets of 2,400 rows in 40 or in 200 blocks.
        """
        rows = self.rows
        if rows.blocks is None or np.ptp(np.unique(rows.blocks, return_counts=True)[1]) == 0:
            return
        n, effective = int((rows.weight > 0).sum()), effective_rows(rows, by_block=False)
        if effective < n / 10:
            log.warn(
                f"few rows carry the response, effectively {effective:.3g} of {n}, as where a class is rare, and "
                "blocks of different sizes cannot change places in a permutation: Student's law is an approximation "
                "then, and noise may come out too often. With blocks of one size the response is permuted instead"
            )

    def moments(self, versions: list[tuple[NDArray[np.float64], bool]]) -> list[Moments]:
        """As for any evidence; rows are gone through once a version."""
        rows, paths = self.rows, self.rows.paths
        return [
            moments(paths, rows, paths.factor(node_weight, enlarged), self.grouping)
            for node_weight, enlarged in versions
        ]
