"""The combined test of dependence, by the splits of the model or by linear effects at its nodes.

The statistic of a feature is the larger of two studentised scores: that of the model's own splits, and that of lines
which are fitted at every node, whether the model split on the feature there or not (:mod:`debias.rows.effects`). With
permutations, the same larger value is taken in each permutation, so no correction for the two looks is needed.
With Student's t distribution, the smaller of the two p-values is doubled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from debias import p_values
from debias.errors import CompositionError
from debias.significance.method import Tested
from debias.significance.permutation import PERMUTATION
from debias.significance.student import NAIVE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.significance.evidence import Evidence
    from debias.significance.procedure import Procedure
    from debias.warning_log import WarningLog


@dataclass(frozen=True)
class CombinedMethod:
    """The combined test of splits and linear effects."""

    name: str = "combined"

    def require(self, evidence: Evidence) -> None:
        """Raise a CompositionError if the score has no linear effects, a RowsError if too few blocks are out of bag."""
        if evidence.effects is None:
            raise CompositionError(
                "test='combined' is for honest_effects: it tests linear effects together with the splits of the model. "
                "Score 'honest_effects', or pass test='auto'"
            )

    def test(
        self, evidence: Evidence, node_weight: NDArray[np.float64], procedure: Procedure, log: WarningLog
    ) -> Tested:
        """Test by permutations if they are the best test for these rows, otherwise with Student's t distribution."""
        if evidence.should_permute:
            return PERMUTATION.compare(evidence, node_weight, procedure, log, combined=True)
        of_splits = NAIVE.test_splits(evidence, node_weight, procedure, log)
        of_effects = NAIVE.test_effects(evidence, procedure, log)
        p_value = np.minimum(2 * np.minimum(of_splits.p_value, of_effects.p_value), 1.0)
        if procedure.error == "fwer":
            p_adjusted = p_values.holm(p_value)
        else:
            p_adjusted = p_values.false_discovery(p_value, procedure.error == "fdr_by")
        return Tested(z=np.maximum(of_splits.z, of_effects.z), p_value=p_value, p_adjusted=p_adjusted, threshold=None)


COMBINED = CombinedMethod()
