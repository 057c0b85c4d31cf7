"""Which scores are more than chance: standard errors, z, p-values and adjusted p-values of one scorer on some rows.

On out-of-bag rows this is the frozen-forest permutation test (debias.significance.permutation), or Student's law with
the naive standard error or sqrt(2) times it. Held-out rows are independent given the model, so a score is a sum of
independent contributions. Where many rows count, its law is Student's. Where few do, the response is permuted
(debias.significance.effective_rows).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from debias import p_values
from debias.errors import RowsError
from debias.significance.contributions import influence_error, standard_error, z_scores
from debias.significance.effective_rows import is_constant
from debias.significance.procedure import (
    FAR_BELOW,
    check_resolution,
    refuse_unequal_blocks,
    warn_of_classes_rarely_out,
    warn_of_few_blocks_out,
    warn_of_few_carriers,
    warn_of_few_rows_in_blocks,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.groups import Grouping
    from debias.results.scores import Scores
    from debias.rows.rows import Rows
    from debias.significance.procedure import Procedure
    from debias.warning_log import WarningLog


SHRINKAGE = 30.0
"""Node terms of the test statistic are multiplied by n_t / (n_t + 30): the level stays, power rises."""
RISK = 1e-3
"""Resampling risk: how often, at most, drawing stops with the wrong decision about a feature."""
ENOUGH_EXCEEDANCES = 20
CONSTANT = (
    "the response is the same in all rows that are evaluated, so nothing can be told about any feature. Pass rows in "
    "which it differs (of a classifier: rows of two classes or more)"
)
FEWEST = 4
"""Fewer rows (blocks) have so few orders that no permutation can find anything at 5 %."""
TOO_FEW = "independent rows or blocks are too few to tell any feature from noise: pass more"
LARGEST_DRAWS = 2
"""So many draws lie above the minimum detectable z before drawing stops early: without one it would not be known."""


def significance(
    scores: Scores,
    rows: Rows,
    node_weight: NDArray[np.float64],
    grouping: Grouping,
    procedure: Procedure,
    notes: WarningLog,
) -> Scores:
    """Return the scores with standard errors, z, p-values and decisions.

    Parameters
    ----------
    scores : Scores
        One value for each group of `grouping`.
    rows : Rows
    node_weight : array of shape (n_nodes,)
        What the scorer multiplies the centred covariance of each split with.
    grouping : Grouping
    procedure : Procedure
    notes : WarningLog
        Takes what a reader must know of the decisions.

    Returns
    -------
    Scores

    Raises
    ------
    RowsError
        The rows are training rows, or blocks of different sizes cannot change places.
    CompositionError
        So few permutations, or this `test`, can never reject.
    """
    refuse_training_rows(rows)
    if rows.kind == "oob":
        warn_of_classes_rarely_out(rows, notes)
    if is_constant(rows):
        return without_verdict(scores, notes)
    if rows.paths.n_blocks < FEWEST:
        return without_verdict(scores, notes, f"{rows.paths.n_blocks} {TOO_FEW}")
    paths, shrinking = rows.paths, shrunk(rows)
    chosen = procedure.method(rows)
    procedure = replace(procedure, test=chosen)
    details: dict[str, object] = {
        "method": chosen,
        "alpha": float(procedure.alpha),
        "error": procedure.error,
        "shrinkage": SHRINKAGE if shrinking.min() < 1 else 0.0,
        "n_independent": paths.n_blocks,
        "blocks": rows.blocks is not None,
    }
    method = _by_permutation if chosen == "permutation" else _by_law
    if rows.kind == "oob":
        warn_of_few_blocks_out(rows, chosen, notes)
    found = method(rows, node_weight * shrinking, grouping, procedure, notes)
    error: NDArray[np.float64] | None = None
    if chosen != "permutation" or rows.kind != "oob":
        inflated = chosen == "conservative" or rows.kind != "oob"
        error = standard_error(paths, rows, node_weight, grouping, inflated)
        error *= np.sqrt(2) if chosen == "conservative" else 1.0
    elif rows.ensemble.mean_values:
        error = influence_error(paths, rows, node_weight, grouping)
    return replace(
        scores,
        standard_error=error,
        z=found.z,
        p_value=found.p_value,
        p_adjusted=found.p_adjusted,
        selected=found.p_adjusted <= procedure.alpha,
        threshold=found.threshold,
        null=found.null,
        warnings=tuple(notes.texts),
        details={**scores.details, "test": details | found.details},
    )


def refuse_training_rows(rows: Rows) -> None:
    """Raise a RowsError if the rows are training rows."""
    if rows.kind == "train":
        raise RowsError(
            "training rows cannot be tested: the trees were fitted to them, so every score is above chance. Pass rows "
            "the model has not seen, or the training rows of a forest with bags, with rows='oob'"
        )


def without_verdict(scores: Scores, notes: WarningLog, reason: str = CONSTANT) -> Scores:
    """Return scores that were not tested, by default since the response is the same in all rows; say why."""
    notes.warn(f"nothing was tested: {reason}")
    details = {**scores.details, "untested_because": reason}
    return replace(scores, warnings=tuple(notes.texts), details=details)


@dataclass(frozen=True, eq=False)
class _Found:
    z: NDArray[np.float64]
    p_value: NDArray[np.float64]
    p_adjusted: NDArray[np.float64]
    threshold: float | None
    null: NDArray[np.float64] | None
    details: dict[str, object]


def _by_permutation(
    rows: Rows, node_weight: NDArray[np.float64], grouping: Grouping, procedure: Procedure, notes: WarningLog
) -> _Found:
    from debias.significance.permutation import permutation_draws

    refuse_unequal_blocks(rows)
    check_resolution(procedure, len(grouping.names), notes)
    seed = 0 if rows.seed is None else int(rows.seed)  # the same call gives the same p-values
    most, settled = int(procedure.n_permutations), _Settled(procedure)
    draws = permutation_draws(rows.paths, rows, node_weight, grouping, most, seed, settled, procedure.budget)
    z, null, alpha = draws.z, draws.null, procedure.alpha
    if procedure.error != "fwer" and procedure.adaptive:
        p_value, n_draws = p_values.sequential_p_values(z, null, ENOUGH_EXCEEDANCES)
    else:
        p_value, n_draws = p_values.permutation_p_values(z, null), np.full(z.size, len(null))
    if procedure.error == "fwer":
        p_adjusted = p_values.step_down_max(z, null)
    else:
        p_adjusted = p_values.false_discovery(p_value, procedure.error == "fdr_by")
    if draws.stopped == "budget" and (1 + len(null)) * alpha < 1:
        notes.warn(f"the budget ended the test after {len(null)} permutations: too few to reject at {alpha:g}")
    done = {"n_permutations": len(null), "draws_used": n_draws.tolist(), "stopped": draws.stopped, "seed": seed}
    return _Found(z, p_value, p_adjusted, _critical(null, alpha), null, done)


def _by_law(
    rows: Rows, node_weight: NDArray[np.float64], grouping: Grouping, procedure: Procedure, notes: WarningLog
) -> _Found:
    inflated = procedure.test == "conservative" or rows.kind != "oob"
    z, effective = z_scores(rows.paths, rows, node_weight, grouping, inflated)
    found = by_students_law(z, effective, rows.paths.n_blocks, rows.kind, grouping, procedure, notes)
    if rows.kind != "oob" and (found.p_adjusted <= procedure.alpha).any():
        warn_of_few_rows_in_blocks(rows, notes)
    return found


def by_students_law(
    z: NDArray[np.float64],
    effective: NDArray[np.float64],
    n_independent: int,
    kind: str,
    grouping: Grouping,
    procedure: Procedure,
    notes: WarningLog,
) -> _Found:
    """Decide by scores over their naive standard errors, each by Student's law of its effective number of rows.

    The law is the normal one where many count. Where few do, tails are heavier and skewed.
    """
    from scipy.special import stdtr, stdtrit

    if procedure.test == "conservative":
        z = z / np.sqrt(2)
    elif kind == "oob":
        notes.warn(
            "test='naive' on out-of-bag rows misses that trees are grown on each other's evaluation rows: too many "
            "features come out as informative. test='permutation' is calibrated, 'conservative' is on the safe side"
        )
    freedom = np.maximum(effective - 1, 1.0)
    p_value = np.where(z == 0, 1.0, np.maximum(stdtr(freedom, -z), np.finfo(float).tiny))
    if procedure.error == "fwer":
        p_adjusted = p_values.holm(p_value)
    else:
        p_adjusted = p_values.false_discovery(p_value, procedure.error == "fdr_by")
    close = (p_adjusted <= procedure.alpha) & (p_adjusted > procedure.alpha / FAR_BELOW)
    warn_of_few_carriers(np.where(close, effective, np.inf), n_independent, grouping, notes)
    least = float(freedom[z != 0].min(initial=freedom.max()))  # from this z on a feature is found whichever it is
    done: dict[str, object] = {"effective_rows": [float(f"{number:.6g}") for number in effective]}
    return _Found(z, p_value, p_adjusted, float(-stdtrit(least, procedure.alpha / z.size)), None, done)


def shrunk(rows: Rows) -> NDArray[np.float64]:
    """Return n_t / (n_t + 30) of every node, or ones where the model does not store in-bag counts."""
    n = rows.ensemble.weight
    return np.ones(rows.ensemble.n_nodes) if n is None or not rows.ensemble.averaged else n / (n + SHRINKAGE)


def _critical(null: NDArray[np.float64], alpha: float) -> float | None:
    """Return what z must exceed for a feature to be found by the first step of step-down max-z; None: nothing can."""
    allowed = int(alpha * (1 + len(null)) + 1e-9)
    return float(np.sort(null.max(axis=1))[-allowed]) if allowed else None


class _Settled:
    """Whether further draws can change a decision.

    Never before the minimum detectable z is known. Family-wise: whether the adjusted p-value of every feature lies on
    its side of alpha but for the resampling risk (Gandy 2009). False discoveries need the p-values themselves: whether
    every feature has had 20 exceedances, after which its p-value rests on the draws until then (Besag and Clifford
    1991).
    """

    def __init__(self, procedure: Procedure) -> None:
        self.procedure = procedure
        self.boundaries = p_values.Boundaries(procedure.alpha, RISK)

    def __call__(self, z: NDArray[np.float64], null: NDArray[np.float64]) -> bool:
        if not self.procedure.adaptive or (1 + len(null)) * self.procedure.alpha < LARGEST_DRAWS:
            return False
        if self.procedure.error != "fwer":
            return bool((p_values.exceeds(null, z).sum(axis=0) >= ENOUGH_EXCEEDANCES).all())
        order = np.argsort(-z, kind="stable")
        exceeding = p_values.exceeds(p_values.successive_max(null[:, order]), z[order])
        return bool(self.boundaries.settled(exceeding).all())
