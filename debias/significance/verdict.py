"""The verdict on scores: standard errors, z-values, p-values and adjusted p-values of one scorer on some rows.

:func:`significance` is the entry point. It chooses a method (:mod:`debias.significance.procedure`), and the method
makes the p-values: :mod:`debias.significance.permutation` or :mod:`debias.significance.student`.

On out-of-bag rows the method is the frozen-forest permutation test, or a t-test with the naive standard error or
sqrt(2) times it. Held-out rows are independent given the model, so a score is a sum of independent contributions. If
many rows count, a t-test is used. If few count (:mod:`debias.significance.effective_rows`), the response is permuted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from debias.errors import RowsError
from debias.results.untested import with_reason

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.results.scores import Scores
    from debias.rows.rows import EvaluationRows
    from debias.significance.evidence import Evidence
    from debias.significance.procedure import Procedure
    from debias.warning_log import WarningLog

SHRINKAGE = 30.0
"""The node terms of the test statistic are multiplied by n_t / (n_t + 30): the level is the same, the power higher."""


def significance(
    scores: Scores, evidence: Evidence, procedure: Procedure, log: WarningLog, *, aside: bool = False
) -> Scores:
    """Return the scores with standard errors, z-values, p-values and decisions.

    Parameters
    ----------
    scores : Scores
        One value for each group of features.
    evidence : Evidence
    procedure : Procedure
    log : WarningLog
        Receives the warnings.
    aside : bool
        Whether this test stands beside another one of the same rows. Then a missing verdict is no warning.

    Returns
    -------
    Scores
        Without a verdict if the rows cannot be tested; ``details["untested_because"]`` says why.

    Raises
    ------
    RowsError
        The rows are training rows, or blocks have different sizes and cannot be permuted.
    CompositionError
        The method cannot test these rows, or there are so few permutations that it can never reject.
    """
    _refuse_training_rows(evidence.rows)
    evidence.warn_of_classes(log)
    reason = evidence.no_verdict(procedure.test)
    if reason is not None:
        what = "nothing was tested" if evidence.effects is None else "dependence was not tested"
        (log.add if aside else log.warn)(f"{what}: {reason}")
        return replace(with_reason(scores, reason, tell_nothing=True), warnings=tuple(log.texts))
    method = procedure.method(evidence)
    shrinking = shrunk(evidence.rows)
    evidence.warn(method.name, log)
    tested = method.test(evidence, evidence.node_weight * shrinking, procedure, log)
    details: dict[str, object] = {
        "method": method.name,
        "alpha": float(procedure.alpha),
        "error": procedure.error,
        "shrinkage": SHRINKAGE if shrinking.min() < 1 else 0.0,
        "n_independent": evidence.n_independent,
        "blocks": evidence.has_blocks,
    }
    return replace(
        scores,
        standard_error=tested.standard_error,
        z=tested.z,
        p_value=tested.p_value,
        p_adjusted=tested.p_adjusted,
        selected=tested.p_adjusted <= procedure.alpha,
        threshold=tested.threshold,
        null=tested.null,
        warnings=tuple(log.texts),
        details={**scores.details, "test": details | tested.details},
    )


def shrunk(rows: EvaluationRows) -> NDArray[np.float64]:
    """Return n_t / (n_t + 30) of every node, or ones if the model does not store in-bag counts."""
    n = rows.ensemble.weight
    return np.ones(rows.ensemble.n_nodes) if n is None or not rows.ensemble.averaged else n / (n + SHRINKAGE)


def _refuse_training_rows(rows: EvaluationRows) -> None:
    if rows.kind == "train":
        raise RowsError(
            "scores on training rows cannot be tested: the trees were fitted to these rows, so every score is above "
            "chance. Pass rows the model has not seen, or pass the training rows of a forest with bags, with rows='oob'"
        )
