"""Tests with Student's t: a score, as a sum of independent contributions of rows, divided by its standard error.

The p-values of "naive" and "conservative" are made here, in :meth:`StudentMethod.decide`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from debias import p_values
from debias.errors import CompositionError
from debias.results.vocabulary import RowsKind
from debias.significance.contributions import effective_number, spread
from debias.significance.method import Tested

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.groups import Grouping
    from debias.significance.evidence import Evidence
    from debias.significance.procedure import Procedure
    from debias.warning_log import WarningLog

FEW_CARRIERS = 100
"""If a score has fewer effective rows, and these are less than a tenth of the rows, the t-test is approximate
(docs/significance.md has its level)."""
FAR_BELOW = 100
"""The approximation does not matter if a p-value is this many times smaller than alpha."""


@dataclass(frozen=True)
class StudentMethod:
    """A t-test.

    Parameters
    ----------
    name : str
    factor : float
        Factor of the naive standard error.
    enlarged_out_of_bag : bool
        Whether deviations of out-of-bag rows are enlarged, as those of held-out rows always are (see
        :meth:`debias.rows.paths.Paths.factor`).
    out_of_bag_only : bool
        Whether held-out rows are refused.
    """

    name: str
    factor: float = 1.0
    enlarged_out_of_bag: bool = False
    out_of_bag_only: bool = False

    def require(self, evidence: Evidence) -> None:
        """Raise a CompositionError if this method cannot test these rows."""
        if evidence.effects is not None and evidence.rows.kind == RowsKind.OOB:
            raise CompositionError(
                f"test={self.name!r} cannot test honest_effects on out-of-bag rows, because the fits and the rows they "
                "are evaluated on depend on one another: pass test='permutation' or test='combined'"
            )
        if self.out_of_bag_only and evidence.rows.kind != RowsKind.OOB:
            others = ", or 'permutation' for few rows" if evidence.can_permute else ""
            raise CompositionError(
                f"test={self.name!r} is for out-of-bag rows. For held-out rows, which need no factor on the standard "
                f"error, pass test='naive'{others}"
            )

    def test(
        self, evidence: Evidence, node_weight: NDArray[np.float64], procedure: Procedure, log: WarningLog
    ) -> Tested:
        """Test the scores; see :class:`debias.significance.evidence.Method`."""
        if evidence.effects is not None:
            return self.test_effects(evidence, procedure, log)
        return self.test_splits(evidence, node_weight, procedure, log)

    def test_effects(self, evidence: Evidence, procedure: Procedure, log: WarningLog) -> Tested:
        """Test linear effects on held-out rows, where contributions of rows are independent given the fits."""
        sums, n = evidence.effect_moments(), evidence.n_independent
        error = spread(sums, n)
        z = np.divide(sums[0], error, out=np.zeros_like(error), where=error > 0)
        return self.decide(z, effective_number(sums, n), n, evidence.rows.kind, evidence.grouping, procedure, log)

    def test_splits(
        self, evidence: Evidence, node_weight: NDArray[np.float64], procedure: Procedure, log: WarningLog
    ) -> Tested:
        """Test the scores with these node weights; the standard error is that of the score with its own weights."""
        enlarged = self.enlarged_out_of_bag or evidence.rows.kind != RowsKind.OOB
        versions = [(node_weight, False), (node_weight, enlarged), (evidence.node_weight, enlarged)]
        (plain, unit), (sums, unit_of_error), (of_score, unit_of_score) = evidence.moments(versions)
        n = evidence.n_independent
        score, error = unit * plain[0], unit_of_error * spread(sums, n)
        z = np.divide(score, error, out=np.zeros_like(score), where=error > 0)
        effective = effective_number(sums, n)
        tested = self.decide(z, effective, n, evidence.rows.kind, evidence.grouping, procedure, log)
        if evidence.rows.kind != RowsKind.OOB and (tested.p_adjusted <= procedure.alpha).any():
            evidence.warn_of_blocks(log)
        return tested.with_error(unit_of_score * spread(of_score, n) * self.factor)

    def decide(
        self,
        z: NDArray[np.float64],
        effective: NDArray[np.float64],
        n_independent: int,
        kind: str,
        grouping: Grouping,
        procedure: Procedure,
        log: WarningLog,
    ) -> Tested:
        """Compute p-values from scores over their naive standard errors.

        The distribution is Student's t, with the effective number of rows. It is close to the normal
        distribution if many rows count. If few count, its tails are heavier.
        """
        from scipy.special import stdtr, stdtrit

        z = z / self.factor
        if self.factor == 1 and kind == RowsKind.OOB:
            log.warn(
                f"test={self.name!r} on out-of-bag rows ignores that trees are grown on each other's evaluation rows, "
                "so too many features are called informative. test='permutation' is calibrated, and "
                "test='conservative' errs on the safe side"
            )
        # A sum of m rows that count has a variance estimated from m deviations.
        freedom = np.maximum(effective - 1, 1.0)
        # The lower tail of -z keeps the digits of small p-values, which 1 - stdtr(z) loses. A score that is 0, or that
        # has no standard error, has z = 0 and is no evidence. No p-value is 0: folds combine their inverses.
        p_value = np.where(z == 0, 1.0, np.maximum(stdtr(freedom, -z), np.finfo(float).tiny))
        testable = z != 0
        p_adjusted = p_values.adjusted(p_value, procedure.error, testable)
        # Only a rejection that the approximation could have made needs the warning.
        close = (p_adjusted <= procedure.alpha) & (p_adjusted > procedure.alpha / FAR_BELOW)
        _warn_of_few_carriers(np.where(close, effective, np.inf), n_independent, grouping, log)
        # The threshold holds for every feature: it is that of the fewest degrees of freedom.
        least = float(freedom[testable].min(initial=freedom.max()))
        return Tested(
            z=z,
            p_value=p_value,
            p_adjusted=p_adjusted,
            threshold=float(-stdtrit(least, procedure.alpha / max(testable.sum(), 1))),
            details={"effective_rows": [float(f"{number:.6g}") for number in effective]},
        )


NAIVE = StudentMethod("naive")
CONSERVATIVE = StudentMethod("conservative", float(np.sqrt(2)), enlarged_out_of_bag=True, out_of_bag_only=True)


def _warn_of_few_carriers(effective: NDArray[np.float64], n: int, grouping: Grouping, log: WarningLog) -> None:
    """Warn of scores with few effective rows; `effective` is inf where the approximation does not matter."""
    least, few = int(effective.argmin()), min(FEW_CARRIERS, n / 10)
    if effective[least] >= few:
        return
    more = int((effective < few).sum()) - 1
    others = f", and so do those of {more} more features that are called informative" if more else ""
    log.warn(
        f"the score of {grouping.names[least]} depends on few rows, effectively {effective[least]:.3g}, as happens if "
        f"a class is rare{others}. The t-test is then approximate and may call noise informative too often. On "
        "held-out rows in memory, test='permutation' is exact"
    )
