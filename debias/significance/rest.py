"""The rest, together: whether the features that a test did not find are more than noise as one group.

Weak features may each be too weak for a test of their own, and matter together. So the rest is tested as one feature,
as with ``groups=``: its score is the sum of the scores of its features, and its null hypothesis is that of a single
feature. The permutations are those of the test of features.

The same rows chose the group. That costs no level. If the test of features found all features that are more than noise,
and nothing else, the rest is the set of all noise features. Which features these are does not depend on the rows, so
this set is found together with probability alpha at most, and so is it whenever it happens to be the rest. If a feature
that is more than noise was missed, the hypothesis is false. There remain the rows on which noise was found alone, and
these have probability alpha at most by the test of features (docs/significance.md has measured rates).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.results.rest import TOO_FEW_DRAWS, UNTESTED_BECAUSE
from debias.significance.evidence import TWO_GROUPS
from debias.significance.permutation import compared_alone
from debias.significance.residuals import ResidualMethod, drawings_of
from debias.significance.student import StudentMethod
from debias.warning_log import WarningLog

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.significance.evidence import Evidence
    from debias.significance.method import Method
    from debias.significance.procedure import Procedure

THE_REST = TWO_GROUPS[0]
IN_BATCHES = (
    "the rows came in batches, and such a group needs another pass over them. Audit them again with these features as "
    "one group (groups=)"
)
OUT_OF_TIME = "the time budget ended the test of the features. Pass debias.Permutation with a larger budget"


def rest_of(
    found: NDArray[np.bool_],
    evidence: Evidence,
    method: Method,
    node_weight: NDArray[np.float64],
    procedure: Procedure,
    seconds: float,
    log: WarningLog,
) -> dict[str, Any]:
    """Test the features that were not found as one group.

    Parameters
    ----------
    found : array of bool of shape (n_groups,)
        Whether the test of features found each feature (group of columns).
    evidence : Evidence
        That of the test of features.
    method : Method
        The method of that test.
    node_weight : array of shape (n_nodes,)
        Node weights of the test statistic.
    procedure : Procedure
        `alpha` is the error rate of this test too, whatever the kind of error rate of the test of features.
    seconds : float
        How long the test of features took, which counts against a time budget.
    log : WarningLog
        Receives what is to be known about the group.

    Returns
    -------
    dict
        The ``p_value`` and, if there were permutations, ``n_permutations``; or ``untested_because``. Empty if fewer
        than two features are left: the test of features has tested one alone.
    """
    if (~found).sum() < 2:
        return {}
    together = evidence.divided(found)
    if together is None:
        return {UNTESTED_BECAUSE: IN_BATCHES}
    limits = procedure.limits
    if limits.budget is not None:
        if seconds >= limits.budget:
            return {UNTESTED_BECAUSE: OUT_OF_TIME}
        limits = replace(limits, budget=limits.budget - seconds)
    if isinstance(method, StudentMethod):
        noted = WarningLog(quiet=True)
        tested = method.test_splits(together, node_weight, procedure, noted)
        for text in noted.texts:
            if THE_REST in text:  # others are about the other group, or were issued before
                log.add(text)  # no warning: the verdicts do not rest on it
        return {"p_value": float(tested.p_value[0])}
    of_residuals = isinstance(method, ResidualMethod)
    drawings = drawings_of(together, node_weight, 1) if of_residuals else together.drawings(node_weight)
    p_value, n_drawn = compared_alone(drawings, replace(procedure, limits=limits))
    if (1 + n_drawn) * procedure.alpha < 1:
        return {UNTESTED_BECAUSE: TOO_FEW_DRAWS.format(n_drawn)}
    return {"p_value": p_value, "n_permutations": n_drawn}
