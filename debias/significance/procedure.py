"""How to test: the ways there are, which one is used for which rows, and what is warned of or refused before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from debias.errors import CompositionError, RowsError
from debias.significance.effective_rows import effective_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.groups import Grouping
    from debias.rows.rows import Rows
    from debias.warning_log import WarningLog


FEW_BLOCKS = 5
"""Frozen-forest permutations need about so many independent evaluations a tree: with 0.5 and 2 whole blocks out of bag
the family-wise error was 0.1 instead of 0.05 (docs/significance.md)."""
RARELY_OUT = 0.1
"""A class is rarely out of bag if its rows are less than this times as often so as those of another."""
FEW_CARRIERS = 100
"""Where a score rests on fewer effective rows, and less than a tenth of the rows, Student's law is approximate
(docs/significance.md has its level),"""
FAR_BELOW = 100
"""and of no matter where a p-value is so many times below alpha."""
ERRORS = ("fwer", "fdr", "fdr_by")
METHODS = ("auto", "permutation", "conservative", "naive")
FEW_ROWS = 2000
"""Up to this many effective held-out rows the response is permuted, which is exact. Of 48 rows of a rare class among
4,800, or 270, Student's law by the number of rows found noise in 1 data set of 10 instead of 20; with 1,100 or more it
had its level (docs/significance.md)."""
MOST_VALUES = 4e7
"""More rows than FEW_ROWS are permuted only where rows x trees x columns of node values are at most so many: 200
permutations take half a minute of a processor then."""


@dataclass(frozen=True)
class Procedure:
    """How to test.

    Parameters
    ----------
    test : {"auto", "permutation", "conservative", "naive"}
        "permutation": permuted responses, trees frozen. "conservative": Student's law with sqrt(2) times the naive
        standard error (out-of-bag rows). "naive": Student's law, for held-out rows. "auto": permutation on out-of-bag
        rows (conservative where fewer than 5 whole blocks a tree are out of bag), and on held-out ones where 2,000 of
        them or fewer count (:mod:`debias.significance.effective_rows`); naive on other held-out rows.
    alpha : float
        Error rate.
    error : {"fwer", "fdr", "fdr_by"}
        Family-wise error (step-down max-z; Holm for Student's law), or false discovery rate (Benjamini-Hochberg,
        Benjamini-Yekutieli).
    n_permutations : int
        At most so many are drawn.
    budget : float or None
        Seconds after which no further batch of permutations is begun.
    adaptive : bool
        Whether to stop before `n_permutations` once every decision is settled.
    """

    test: str = "auto"
    alpha: float = 0.05
    error: str = "fwer"
    n_permutations: int = 200
    budget: float | None = None
    adaptive: bool = True

    def __post_init__(self) -> None:
        if self.test not in METHODS:
            raise CompositionError(f"test={self.test!r} is none of {', '.join(map(repr, METHODS))}")
        if self.error not in ERRORS:
            raise CompositionError(f"error={self.error!r} is none of {', '.join(map(repr, ERRORS))}")
        if not _is_real(self.alpha) or not 0 < self.alpha < 1:
            raise CompositionError(f"alpha must be between 0 and 1, not {self.alpha!r}")
        if not isinstance(self.adaptive, (bool, np.bool_)):
            raise CompositionError(f"adaptive must be True or False, not {self.adaptive!r}")
        whole = isinstance(self.n_permutations, (int, np.integer)) and not isinstance(self.n_permutations, bool)
        if not whole or self.n_permutations < 1:
            raise CompositionError(f"n_permutations must be a whole number from 1, not {self.n_permutations!r}")
        if self.budget is not None and not (_is_real(self.budget) and self.budget > 0):
            raise CompositionError(f"budget must be a number of seconds above 0, not {self.budget!r}")

    def method(self, rows: Rows) -> str:
        """Return which of the three is used for these rows."""
        if self.test == "auto" and rows.kind == "oob":
            return "permutation" if rows.paths.evaluated_blocks >= FEW_BLOCKS else "conservative"
        if self.test == "auto":
            return "permutation" if _few_count(rows) else "naive"
        if self.test == "conservative" and rows.kind != "oob":
            raise CompositionError(
                "test='conservative' is for out-of-bag rows; on held-out rows the standard error needs no such factor: "
                "pass test='naive', or 'permutation' for few rows"
            )
        return self.test


def _few_count(rows: Rows) -> bool:
    """Whether so few held-out rows (blocks) count that their response is to be permuted, and whether it can be."""
    sizes = np.ones(rows.n_rows) if rows.blocks is None else np.unique(rows.blocks, return_counts=True)[1]
    if np.ptp(sizes) > 0:  # they cannot change places
        return False
    if sizes.size <= FEW_ROWS:
        return True
    ensemble = rows.ensemble
    values = float(rows.n_rows) * ensemble.n_trees * ensemble.value.shape[1]
    return values <= MOST_VALUES and effective_rows(rows) <= FEW_ROWS


def _is_real(value: object) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def warn_of_classes_rarely_out(rows: Rows, notes: WarningLog) -> None:
    """Warn of classes that hardly ever are out of bag, as where class weights decide which rows are drawn."""
    codes, classes = rows.response.codes, rows.ensemble.classes
    if codes is None or classes is None:
        return
    paths = rows.paths
    n = np.bincount(codes[paths.order], minlength=classes.size)
    times = np.bincount(codes[paths.order], weights=paths.evaluated.sum(axis=0), minlength=classes.size)
    rate = np.divide(times, n * rows.ensemble.n_trees, out=np.full(n.size, np.inf), where=n > 0)
    rarest, most = int(rate.argmin()), float(rate[n > 0].max())
    if rate[rarest] < RARELY_OUT * most:
        notes.warn(
            f"rows of class {classes[rarest]!s} are out of bag {rate[rarest]:.2%} of the time and those of another "
            f"class {most:.0%}, as where weights decide which rows are drawn: out-of-bag rows tell little of what sets "
            "the class apart, and a feature that does may well be indistinguishable from noise here. Pass rows the "
            "model has not seen, with rows='held-out'"
        )


def warn_of_few_blocks_out(rows: Rows, chosen: str, notes: WarningLog) -> None:
    """Warn where so little is out of bag that permutations are not calibrated, and other tests find little."""
    n = rows.paths.evaluated_blocks
    if n >= FEW_BLOCKS:
        return
    what = "rows" if rows.blocks is None else "whole blocks"
    then = (
        "permutations are not calibrated with so few, and noise comes out too often: pass test='conservative', or"
        if chosen == "permutation"
        else "the test is conservative then and has little power:"
    )
    notes.warn(
        f"a tree has {n:.2g} {what} out of bag on average, less than {FEW_BLOCKS}; {then} hold out "
        f"{what} and test on them with rows='held-out'"
    )


def warn_of_few_carriers(effective: NDArray[np.float64], n: int, grouping: Grouping, notes: WarningLog) -> None:
    """Warn where Student's law decides about scores that rest on few effective rows; inf where it does not decide."""
    least, few = int(effective.argmin()), min(FEW_CARRIERS, n / 10)
    if effective[least] >= few:
        return
    more = int((effective < few).sum()) - 1
    others = f", and so do those of {more} more features that come out as informative" if more else ""
    notes.warn(
        f"the score of {grouping.names[least]} rests on few rows, effectively {effective[least]:.3g}, as where a class "
        f"is rare{others}: Student's law is an approximation then, and noise may come out too often. On held-out rows "
        "in memory test='permutation' is exact"
    )


def warn_of_few_rows_in_blocks(rows: Rows, notes: WarningLog) -> None:
    """Warn where few held-out rows carry the response, and lie in blocks that cannot change places in a permutation.

    Sums over blocks look normal then, and scores are as skewed as without blocks: of forests of depth 3 with balanced
    weights and a class of 1 in 20 noise was found in 0.17 (SE 0.03) of sets of 2,400 rows in 40 or in 200 blocks.
    """
    if rows.blocks is None or np.ptp(np.unique(rows.blocks, return_counts=True)[1]) == 0:
        return
    n, effective = int((rows.weight > 0).sum()), effective_rows(rows, by_block=False)
    if effective < n / 10:
        notes.warn(
            f"few rows carry the response, effectively {effective:.3g} of {n}, as where a class is rare, and blocks of "
            "different sizes cannot change places in a permutation: Student's law is an approximation then, and noise "
            "may come out too often. With blocks of one size the response is permuted instead"
        )


def refuse_unequal_blocks(rows: Rows) -> None:
    """Refuse blocks that cannot change places in a permutation."""
    sizes = np.unique(np.unique(rows.paths.block, return_counts=True)[1])
    if sizes.size == 1:
        return
    how = (
        "Hold out whole blocks and test on them with rows='held-out' and test='naive', or pass test='conservative'"
        if rows.kind == "oob"
        else "Pass test='naive', which needs no permutation"
    )
    raise RowsError(
        f"blocks have from {sizes[0]} to {sizes[-1]} rows, and only blocks of one size can change places in a "
        f"permutation. {how}"
    )


def check_resolution(procedure: Procedure, n_features: int, notes: WarningLog) -> None:
    """Refuse or warn where B permutations cannot give p-values as small as a decision needs."""
    drawn, alpha, error = procedure.n_permutations, procedure.alpha, procedure.error
    smallest = 1 / (1 + drawn)
    if smallest > alpha:
        raise CompositionError(
            f"{drawn} permutations give no p-value below {smallest:.3g}, so nothing could be found at alpha={alpha:g}: "
            f"pass n_permutations={int(np.ceil(1 / alpha)) - 1} or more"
        )
    if error == "fwer":
        return
    factor = (1 / np.arange(1, n_features + 1)).sum() if error == "fdr_by" else 1.0
    together = int(np.ceil(smallest * n_features * factor / alpha))
    if together > n_features:
        raise CompositionError(
            f"with {drawn} permutations and {n_features} features error={error!r} can find nothing at alpha={alpha:g}: "
            f"pass n_permutations={int(np.ceil(factor / alpha))} or more, or error='fwer'"
        )
    if together > 1:
        notes.warn(
            f"{drawn} permutations give no p-value below {smallest:.3g}: error={error!r} finds {together} of "
            f"{n_features} features together or none. n_permutations={int(np.ceil(n_features * factor / alpha))} "
            "would find a single one; error='fwer' does so with these"
        )
