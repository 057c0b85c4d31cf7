"""Which scores are more than chance: standard errors, z, p-values and adjusted p-values of one scorer on some rows.

Out-of-bag rows: the frozen-forest permutation test (debias.frozen_test), or a normal test with the naive standard
error, or sqrt(2) times it. Held-out rows: rows are independent given the model, so the scores are sums of independent
contributions; permutations of their response where rows are few.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from debias import nulls
from debias.contributions import influence_error, standard_error, z_scores
from debias.errors import CompositionError, RowsError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.groups import Grouping
    from debias.notes import Notes
    from debias.rows import Rows
    from debias.scoring import Scores

ERRORS = ("fwer", "fdr", "fdr_by")
METHODS = ("auto", "permutation", "conservative", "naive")
SHRINKAGE = 30.0
"""Node terms of the test statistic are multiplied by n_t / (n_t + 30): the level stays, power rises."""
FEW_ROWS = 2000
"""Held-out rows up to this many are permuted, which is exact and quick."""
RISK = 1e-3
"""Resampling risk: how often, at most, drawing stops with the wrong decision about a feature."""
ENOUGH_EXCEEDANCES = 20


@dataclass(frozen=True)
class Test:
    """How to test.

    Parameters
    ----------
    se : {"auto", "permutation", "conservative", "naive"}
        "permutation": permuted responses, trees frozen. "conservative": normal test with sqrt(2) times the naive
        standard error (out-of-bag rows). "naive": normal test, for held-out rows. "auto": permutation on out-of-bag
        rows, and on up to 2,000 held-out ones; naive on more held-out rows.
    alpha : float
        Error rate.
    error : {"fwer", "fdr", "fdr_by"}
        Family-wise error (step-down max-z; Holm for normal tests), or false discovery rate (Benjamini-Hochberg,
        Benjamini-Yekutieli).
    n_permutations : int
        At most so many are drawn.
    budget : float or None
        Seconds after which no further batch of permutations is begun.
    adaptive : bool
        Whether to stop before `n_permutations` once every decision is settled.
    """

    se: str = "auto"
    alpha: float = 0.05
    error: str = "fwer"
    n_permutations: int = 200
    budget: float | None = None
    adaptive: bool = True

    def __post_init__(self) -> None:
        if self.se not in METHODS:
            raise CompositionError(f"se={self.se!r} is none of {', '.join(map(repr, METHODS))}")
        if self.error not in ERRORS:
            raise CompositionError(f"error={self.error!r} is none of {', '.join(map(repr, ERRORS))}")
        if isinstance(self.alpha, bool) or not 0 < self.alpha < 1:
            raise CompositionError(f"alpha must be between 0 and 1, not {self.alpha!r}")
        whole = isinstance(self.n_permutations, (int, np.integer)) and not isinstance(self.n_permutations, bool)
        if not whole or self.n_permutations < 1:
            raise CompositionError(f"n_permutations must be a whole number from 1, not {self.n_permutations!r}")
        if self.budget is not None and not self.budget > 0:
            raise CompositionError(f"budget must be a number of seconds above 0, not {self.budget!r}")

    def method(self, rows: Rows) -> str:
        """Return which of the three is used for these rows."""
        if self.se == "auto":
            return "permutation" if rows.kind == "oob" or rows.n_rows <= FEW_ROWS else "naive"
        if self.se == "conservative" and rows.kind != "oob":
            raise CompositionError(
                "se='conservative' is for out-of-bag rows; on held-out rows the standard error needs no such factor: "
                "pass se='naive', or 'permutation' for few rows"
            )
        return self.se


def significance(
    scores: Scores,
    rows: Rows,
    node_weight: NDArray[np.float64],
    grouping: Grouping,
    test: Test,
    notes: Notes,
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
    test : Test
    notes : Notes
        Takes what a reader must know of the decisions.

    Returns
    -------
    Scores

    Raises
    ------
    RowsError
        Blocks of different sizes cannot change places.
    CompositionError
        So few permutations, or this `se`, can never reject.
    """
    paths = rows.paths
    method = test.method(rows)
    shrunk = _shrunk(rows)
    node_weights = node_weight * shrunk
    out_of_bag = rows.kind == "oob"
    if method == "permutation" and out_of_bag:
        error = influence_error(paths, rows, node_weight, grouping)
    else:
        error = standard_error(paths, rows, node_weight, grouping, inflated=not out_of_bag)
    details = {
        "se": method,
        "alpha": float(test.alpha),
        "error": test.error,
        "shrinkage": SHRINKAGE if shrunk.min() < 1 else 0.0,
        "n_independent": paths.n_blocks,
        "blocks": rows.blocks is not None,
    }
    null: NDArray[np.float64] | None = None
    if method == "permutation":
        _refuse_what_cannot_be_permuted(rows, paths.block)
        seed = 0 if rows.seed is None else int(rows.seed)  # the same call gives the same p-values
        _check_resolution(test, len(grouping.names), notes)
        from debias.frozen_test import permutation_draws

        draws = permutation_draws(
            paths, rows, node_weights, grouping, int(test.n_permutations), seed, _Settled(test), test.budget
        )
        z, null = draws.z, draws.null
        p_value, n_draws = nulls.sequential_p_values(z, null, ENOUGH_EXCEEDANCES)
        if test.error == "fwer":
            p_value, n_draws = nulls.permutation_p_values(z, null), np.full(z.size, len(null))
            p_adjusted = nulls.step_down_max(z, null)
        else:
            p_adjusted = nulls.false_discovery(p_value, test.error == "fdr_by")
        threshold = _critical(null, test.alpha)
        details |= {"n_permutations": len(null), "draws_used": n_draws.tolist(), "stopped": draws.stopped, "seed": seed}
        if draws.stopped == "budget" and (1 + len(null)) * test.alpha < 1:
            notes.warn(
                f"the time budget ended the test after {len(null)} permutations: too few to reject at {test.alpha:g}"
            )
    else:
        from scipy.special import log_ndtr, ndtri

        z = z_scores(paths, rows, node_weights, grouping, not out_of_bag)
        if method == "conservative":
            z, error = z / np.sqrt(2), error * np.sqrt(2)
        elif out_of_bag:
            notes.warn(
                "se='naive' on out-of-bag rows misses that trees are grown on each other's evaluation rows: too many "
                "features come out as informative. se='permutation' is calibrated, 'conservative' is on the safe side"
            )
        p_value = np.exp(log_ndtr(-z))
        p_value = np.where(z == 0, 1.0, np.maximum(p_value, np.finfo(float).tiny))
        if test.error == "fwer":
            p_adjusted = nulls.holm(p_value)
        else:
            p_adjusted = nulls.false_discovery(p_value, test.error == "fdr_by")
        threshold = float(-ndtri(test.alpha / z.size))
    return replace(
        scores,
        standard_error=error,
        z=z,
        p_value=p_value,
        p_adjusted=p_adjusted,
        selected=p_adjusted <= test.alpha,
        threshold=threshold,
        null=null,
        warnings=tuple(notes.texts),
        details={**scores.details, "test": details},
    )


def _shrunk(rows: Rows) -> NDArray[np.float64]:
    """Return n_t / (n_t + 30) of every node, or ones where the model does not store in-bag counts."""
    n = rows.ensemble.weight
    return np.ones(rows.ensemble.n_nodes) if n is None or not rows.ensemble.averaged else n / (n + SHRINKAGE)


def _critical(null: NDArray[np.float64], alpha: float) -> float | None:
    """Return what z must exceed for a feature to be found by the first step of step-down max-z; None: nothing can."""
    allowed = int(alpha * (1 + len(null)) + 1e-9)
    return float(np.sort(null.max(axis=1))[-allowed]) if allowed else None


def _refuse_what_cannot_be_permuted(rows: Rows, block: NDArray[np.int64]) -> None:
    sizes = np.unique(np.unique(block, return_counts=True)[1])
    if sizes.size > 1:
        raise RowsError(
            f"blocks have from {sizes[0]} to {sizes[-1]} rows, and only blocks of one size can change places in a "
            "permutation. Hold out whole blocks and score those rows with rows='held-out' and se='naive', or pass "
            "se='conservative'"
            if rows.kind == "oob"
            else f"blocks have from {sizes[0]} to {sizes[-1]} rows, and only blocks of one size can change places in a "
            "permutation: pass se='naive', which needs none"
        )


def _check_resolution(test: Test, n_features: int, notes: Notes) -> None:
    """Refuse or warn where B permutations cannot give p-values as small as a decision needs."""
    smallest = 1 / (1 + test.n_permutations)
    if smallest > test.alpha:
        raise CompositionError(
            f"{test.n_permutations} permutations give no p-value below {smallest:.3g}, so nothing could be found at "
            f"alpha={test.alpha:g}: pass n_permutations={int(np.ceil(1 / test.alpha)) - 1} or more"
        )
    if test.error == "fwer":
        return
    factor = (1 / np.arange(1, n_features + 1)).sum() if test.error == "fdr_by" else 1.0
    least = int(np.ceil(smallest * n_features * factor / test.alpha))
    if least > n_features:
        raise CompositionError(
            f"with {test.n_permutations} permutations and {n_features} features error={test.error!r} can find nothing "
            f"at alpha={test.alpha:g}: pass n_permutations={int(np.ceil(factor / test.alpha))} or more, or error='fwer'"
        )
    if least > 1:
        notes.warn(
            f"{test.n_permutations} permutations give no p-value below {smallest:.3g}: error={test.error!r} finds "
            f"{least} of {n_features} features together or none. n_permutations="
            f"{int(np.ceil(n_features * factor / test.alpha))} would find a single one; error='fwer' does so with these"
        )


class _Settled:
    """Whether further draws can change a decision.

    Family-wise: whether the adjusted p-value of every feature lies on its side of alpha but for the resampling risk
    (Gandy 2009). False discoveries need the p-values themselves: whether every feature has had 20 exceedances, after
    which its p-value rests on the draws until then (Besag and Clifford 1991).
    """

    def __init__(self, test: Test) -> None:
        self.test = test
        self.boundaries: nulls.Boundaries | None = None

    def __call__(self, z: NDArray[np.float64], null: NDArray[np.float64]) -> bool:
        if not self.test.adaptive:
            return False
        if self.test.error != "fwer":
            return bool((nulls.exceeds(null, z).sum(axis=0) >= ENOUGH_EXCEEDANCES).all())
        order = np.argsort(-z, kind="stable")
        exceeding = nulls.exceeds(nulls.successive_max(null[:, order]), z[order])
        if self.boundaries is None:
            self.boundaries = nulls.Boundaries.of(self.test.alpha, int(self.test.n_permutations), RISK)
        return bool(self.boundaries.settled(exceeding).all())
