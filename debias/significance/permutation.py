"""The frozen-forest permutation test: the trees and bags stay, the response is permuted, and nothing is refitted.

The p-values of "permutation" are made here, in :meth:`PermutationMethod.test`.

Each permutation of the response gives new in-bag means and new evaluation means of the nodes, and so a new studentised
score z*. The observed z is compared with these. The observed splits were chosen to fit the real response, so the scores
cannot be compared with permuted scores, but the studentised scores can (docs/significance.md has the error rates).

Linear effects (:mod:`debias.rows.effects`) are permuted in the same way: the nodes stay, and every line is fitted
again. The combined test takes the larger of both z for each feature, in the data and in each permutation.

Over 500 lines: the statistics, the orders that are drawn and when drawing stops are one test.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from debias import p_values
from debias.errors import CompositionError, RowsError
from debias.parallel import current
from debias.progress import SLOW, task
from debias.results.vocabulary import RowsKind
from debias.rows.permuted_effects import ROUNDING, PermutedEffects
from debias.rows.screened_lines import HIGH
from debias.significance.contributions import (
    counts,
    effective_number,
    fixed_differences,
    in_units,
    one_hot,
    spread,
)
from debias.significance.feature_paths import FeaturePaths
from debias.significance.method import Tested
from debias.significance.normal_scores import NORMAL_SCORES
from debias.warning_log import LOGGER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from debias.data.groups import Grouping
    from debias.rows.effects import LinearEffects
    from debias.rows.paths import Paths
    from debias.rows.rows import Rows
    from debias.significance.evidence import Evidence
    from debias.significance.procedure import Procedure
    from debias.warning_log import WarningLog

MEMORY = 2**29
"""Largest number of bytes for the node values of permutations that are computed together."""
LANES = 16
"""Number of permutations computed together, if memory allows: more do not fit in the caches of the processor."""


RISK = 2e-3
"""Resampling risk: largest probability that all permutations would decide otherwise about a feature."""
ENOUGH_EXCEEDANCES = 20
"""Number of exceedances of each feature after which a test of the false discovery rate stops."""
MANY = 50
"""With more features than this, draws of all features are pooled if those of one feature are too few."""
ENOUGH_TO_POOL = 99
"""With fewer draws the spread of a feature is too uncertain to pool its draws with others."""
SECONDS_A_STEP = 4e-10
"""Processor time of one of `Statistic.steps_of_lines` in one permutation."""
LARGEST_DRAWS = 2
"""Number of draws above the minimum detectable z that are needed before drawing stops early, so that it is known."""


@dataclass(frozen=True)
class PermutationMethod:
    """The permutation test: the frozen-forest test on out-of-bag rows, an exact test on held-out rows.

    Parameters
    ----------
    name : str
    """

    name: str = "permutation"

    def require(self, evidence: Evidence) -> None:
        """Raise a CompositionError if rows come in batches, a RowsError if it is not calibrated."""
        if not evidence.can_permute:
            raise CompositionError(
                f"test={self.name!r} permutes the responses of all rows, so it needs all rows at once: pass X and y in "
                "memory, or test='auto'"
            )
        evidence.refuse_uncalibrated()

    def test(
        self, evidence: Evidence, node_weight: NDArray[np.float64], procedure: Procedure, log: WarningLog
    ) -> Tested:
        """Draw permutations until every decision is settled, and compare z with the z of permuted responses."""
        return self.compare(evidence, node_weight, procedure, log, combined=False)

    def compare(
        self,
        evidence: Evidence,
        node_weight: NDArray[np.float64],
        procedure: Procedure,
        log: WarningLog,
        *,
        combined: bool,
    ) -> Tested:
        """Do the same; with `combined` the statistic is the larger of the z of splits and of linear effects."""
        refuse_unequal_blocks(evidence.rows)
        drawings = evidence.drawings(node_weight, combined, procedure.within_fit)
        _tell_cost(drawings, procedure)
        tested = compared(drawings, evidence, procedure, log)
        if evidence.normal_scores is None:
            return tested
        return replace(tested, details={**tested.details, "response": NORMAL_SCORES})


PERMUTATION = PermutationMethod()


def compared(drawings: Sequence[Drawing], evidence: Evidence, procedure: Procedure, log: WarningLog) -> Tested:
    """Draw until every decision is settled, and compare z with what was drawn.

    Parameters
    ----------
    drawings : sequence of Drawing
        As for :func:`draw`.
    evidence : Evidence
    procedure : Procedure
    log : WarningLog
        Receives the warnings.

    Raises
    ------
    CompositionError
        There are so few permutations that no p-value can be small enough.
    """
    tested = decided(drawings, seed_of(evidence.rows), procedure, log)
    error, effective = _standard_error(evidence)
    if effective is not None:
        shown = {"effective_rows": [float(f"{number:.6g}") for number in effective]}
        tested = replace(tested, details={**tested.details, **shown})
    return tested.with_error(error)


def decided(drawings: Sequence[Drawing], seed: int, procedure: Procedure, log: WarningLog) -> Tested:
    """Do the same for any statistic; the result has no standard error.

    Parameters
    ----------
    drawings, procedure, log
        As for :func:`compared`.
    seed : int
        Of the drawings, for the details.
    """
    observed = np.maximum.reduce([drawing.observed for drawing in drawings])
    # A feature on which the model does not split has z = 0 whatever the response, and is no test.
    n_tests = max(1, int((observed != 0).sum()))
    pooled = pools(procedure, n_tests)
    if not pooled:
        _check_resolution(procedure, n_tests, log)
    all_drawn = replace(procedure, limits=replace(procedure.limits, adaptive=False))
    draws = draw(drawings, all_drawn if pooled else procedure)
    z, null, alpha = draws.z, draws.null, procedure.alpha
    pooled = pooled and len(null) >= ENOUGH_TO_POOL  # the time budget may have ended the drawing
    if pooled:
        p_value, n_draws = p_values.pooled_p_values(z, null), np.full(z.size, len(null))
    elif procedure.error != "fwer" and procedure.limits.adaptive:
        p_value, n_draws = p_values.sequential_p_values(z, null, ENOUGH_EXCEEDANCES)
    else:
        p_value, n_draws = p_values.permutation_p_values(z, null), np.full(z.size, len(null))
    if draws.stopped == "budget" and (1 + len(null)) * alpha < 1:
        log.warn(
            f"the time budget ended the test after {len(null)} permutations, which are too few to reject at "
            f"an error rate of {alpha:g}"
        )
    return Tested(
        z=observed,
        p_value=p_value,
        p_adjusted=p_values.adjusted_by_draws(p_value, procedure.error, z, null),
        threshold=_critical(null, alpha),
        null=null,
        details={
            "n_permutations": len(null),
            "draws_used": n_draws.tolist(),
            "stopped": draws.stopped,
            "seed": seed,
            **({"pooled": True} if pooled else {}),
            **{key: value for drawing in drawings for key, value in drawing.details.items()},
        },
    )


def compared_alone(drawings: Sequence[Drawing], procedure: Procedure) -> tuple[float, int]:
    """Draw until the decision on the first group is settled; return its p-value and the number of permutations.

    Parameters
    ----------
    drawings : sequence of Drawing
        As for :func:`draw`. Other groups than the first have z = 0, so they settle at once.
    procedure : Procedure
    """
    draws = draw(drawings, replace(procedure, error="fwer"))
    return float(p_values.permutation_p_values(draws.z[:1], draws.null[:, :1])[0]), len(draws.null)


def _tell_cost(drawings: Sequence[Drawing], procedure: Procedure) -> None:
    """Log what a long test of lines may take, what was chosen, and how to choose otherwise."""
    n_drawn, seconds = procedure.limits.n_permutations, seconds_of_lines(drawings, procedure)
    if seconds < SLOW:
        return
    for drawing in drawings:
        if "trees_of_lines" in drawing.details:
            used, n_trees, most = (drawing.details[key] for key in ("trees_of_lines", "trees", "most_trees_of_lines"))
            more = "" if used == most else f" (with dependence=True in {most:,})"
            LOGGER.info(
                f"the test of dependence may take {_rounded(seconds)} s of processor time: {n_drawn:,} permutations at "
                f"most, with lines in {used:,} of {n_trees:,} trees{more}. debias.Permutation(budget=60.0) as test "
                "limits the time; dependence=False leaves this test out of an audit"
            )


def seconds_of_lines(drawings: Sequence[Drawing], procedure: Procedure) -> float:
    """Return about how many seconds of processor time the lines of all permutations take, by the number of steps."""
    steps = sum(drawing.steps_of_lines for drawing in drawings)
    return SECONDS_A_STEP * steps * procedure.limits.n_permutations


def _rounded(seconds: float) -> str:
    return f"about {float(f'{seconds:.2g}'):,.0f}"


def seed_of(rows: Rows) -> int:
    """Return the seed of the permutations: 0 by default, so that the same call gives the same p-values."""
    return 0 if rows.seed is None else int(rows.seed)


def _standard_error(evidence: Evidence) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """Return the standard error of the scores and the effective number of rows (blocks) that it comes from.

    The error is None for linear effects, and for out-of-bag rows if the node values are not means. The number is None
    out of bag.
    """
    rows = evidence.rows
    if evidence.effects is not None:
        return None, None
    if rows.kind != RowsKind.OOB:
        [(sums, unit)] = evidence.moments([(evidence.node_weight, True)])
        n = evidence.n_independent
        return unit * spread(sums, n), effective_number(sums, n)
    return evidence.out_of_bag_error(), None


@dataclass(frozen=True, eq=False)
class Draws:
    """The draws of a permutation test.

    Parameters
    ----------
    z : array of shape (n_groups,)
        Observed studentised scores, as they are compared with those of permuted responses (see :meth:`Drawing.first`).
    null : array of shape (B, n_groups)
        Studentised scores of the permuted responses, in the order they were drawn.
    stopped : str
        Why drawing stopped: "all drawn", "settled", "budget".
    """

    z: NDArray[np.float64]
    null: NDArray[np.float64]
    stopped: str


def draw(drawings: Sequence[Drawing], procedure: Procedure) -> Draws:
    """Draw until every decision is settled; the statistic of a feature is the largest of all drawings.

    Parameters
    ----------
    drawings : sequence of Drawing
        Of the same rows, with the same seed: they permute the response in the same way.
    procedure : Procedure

    Returns
    -------
    Draws
        They depend on the seed, not on the number of threads.
    """
    started, most, settled = perf_counter(), 1 + int(procedure.limits.n_permutations), _Settled(procedure)
    batch, n = min(drawing.lanes for drawing in drawings), 0
    seconds = seconds_of_lines(drawings, procedure)
    what = "permutations" if seconds < SLOW else f"permutations ({_rounded(seconds)} s at most)"
    with task(what, most) as advance:  # the real response is the first of them
        while True:
            before, n = n, min(n + batch, most)
            # The larger value is taken in every permutation too, so two looks at the rows need no correction.
            drawn = np.maximum.reduce([drawing.first(n) for drawing in drawings])
            advance(n - before)
            if n > 1 and settled(drawn[0], drawn[1:]):
                return Draws(drawn[0], drawn[1:], "settled" if n < most else "all drawn")
            if n == most:
                return Draws(drawn[0], drawn[1:], "all drawn")
            if procedure.limits.budget is not None and perf_counter() - started > procedure.limits.budget and n > 1:
                return Draws(drawn[0], drawn[1:], "budget")


class Statistic(Protocol):
    """Studentised scores that can be computed for what a :class:`Source` draws."""

    lanes: int
    """Number of permutations computed together."""
    rounding: float
    """Bound for the rounding error of a score; 0 if it is far below ``p_values.TIE``."""
    steps_of_lines: float
    """Rows times lines, summed over trees, of which the time of a permutation is made; 0 if no lines are fitted."""

    @property
    def details(self) -> dict[str, object]:
        """What the result of the test says of the statistic."""

    def observed(self) -> NDArray[np.float64] | None:
        """Return z of the response as it is, in double precision, shape (n_groups,); None if that of `of` is."""

    def of(self, drawn: NDArray[Any]) -> NDArray[np.float64]:
        """Return z of what was drawn, shape (n_drawn, n_groups)."""


class Source(Protocol):
    """What is drawn at random."""

    def draw(self, n: int) -> NDArray[Any]:
        """Return the next n draws along the last axis. The first of all leaves the data as they are."""


class Drawing:
    """The studentised scores of the real response and of permuted responses, drawn as far as they are asked for.

    Parameters
    ----------
    statistic : Statistic
    source : Source
    """

    def __init__(self, statistic: Statistic, source: Source) -> None:
        self._statistic, self.lanes, self.details = statistic, statistic.lanes, statistic.details
        self.steps_of_lines = statistic.steps_of_lines
        self._source = source
        self._drawn: list[NDArray[np.float64]] = []

    @cached_property
    def observed(self) -> NDArray[np.float64]:
        """The z of the real response, in double precision, shape (n_groups,)."""
        z = self._statistic.observed()
        return self.first(1)[0] if z is None else z

    def first(self, n: int) -> NDArray[np.float64]:
        """Return z of the real response and of the first n - 1 permutations, shape (n, n_groups).

        The first is lowered by the largest rounding error of the statistic, so that ties count against a feature.
        """
        missing = n - sum(map(len, self._drawn))
        while missing > 0:
            batch = min(self.lanes, missing)
            drawn = self._statistic.of(self._source.draw(batch))
            if not self._drawn:
                drawn[0] -= self._statistic.rounding * np.maximum(np.abs(drawn[0]), 1.0)
            self._drawn.append(drawn)
            missing -= batch
        return np.concatenate(self._drawn)[:n]


def lanes_that_fit(paths: Paths, rows: Rows) -> int:
    """Return how many permutations are computed together."""
    width = max(1, rows.ensemble.value.shape[1])
    bytes_per_permutation = 8 * (2 * width * paths.n_splits + rows.ensemble.n_outputs * paths.n_rows)
    return max(1, min(LANES, MEMORY // max(bytes_per_permutation, 1)))


def pools(procedure: Procedure, n_features: int) -> bool:
    """Return whether the draws of all features are pooled.

    The false discovery rate of many features needs smaller p-values than the draws of one feature can give.
    """
    too_coarse = (1 + procedure.limits.n_permutations) * procedure.alpha < n_features
    enough = procedure.limits.n_permutations >= ENOUGH_TO_POOL
    return procedure.error != "fwer" and n_features > MANY and too_coarse and enough


class SplitStatistic:
    """The studentised scores of the model's own splits, for several permuted responses at once.

    Parameters
    ----------
    rows : Rows
    node_weight : array of shape (n_nodes,)
        Node weights of the statistic. With bags, the in-bag means of the nodes are recomputed from each permuted
        response. Without bags, the node values are those of the model.
    grouping : Grouping
    values : array of shape (n_rows, n_columns), optional
        A function of the response that is tested in its place; by default the response that is scored.
    n_tested : int, optional
        Number of groups that are tested, the first ones; others have z = 0. By default all.
    """

    rounding = 0.0
    steps_of_lines = 0.0

    def __init__(
        self,
        rows: Rows,
        node_weight: NDArray[np.float64],
        grouping: Grouping,
        values: NDArray[np.float64] | None = None,
        n_tested: int | None = None,
    ) -> None:
        from debias.significance.kernels import steps as step_kernels

        paths, bags = rows.paths, rows.in_bag
        column = grouping.index[rows.ensemble.feature[paths.splits]].astype(np.int32)
        self.along = along = FeaturePaths(paths, column, len(grouping.names), current(), n_tested)
        factor, self.unit = in_units(paths, rows, paths.factor(node_weight), column, along.n_columns)  # z has no unit
        self.rows, self.factor, self.lanes = rows, factor[along.splits], lanes_that_fit(paths, rows)
        self.class_weight = None if bags is None else bags.class_weight
        self.weight = np.empty(0) if (paths.weight == 1).all() else paths.weight
        self.response: NDArray[Any]
        values = rows.response.values if values is None else values
        if values is not None:
            self.kind, self.response = step_kernels.VALUES, values[paths.order]
        elif self.class_weight is None:
            self.kind, self.response = step_kernels.SHARES, one_hot(rows)[paths.order, 1:]
        else:
            self.kind, self.response = step_kernels.WEIGHED, one_hot(rows)[paths.order]
        self.width = self.response.shape[1] if rows.ensemble.averaged else rows.ensemble.value.shape[1]

    @property
    def details(self) -> dict[str, object]:
        """Nothing: all trees are tested."""
        return {}

    def observed(self) -> None:
        """Return None: all scores are in double precision."""

    def of(self, response: NDArray[Any]) -> NDArray[np.float64]:
        """Return z of permuted responses, shape (n_permutations, n_columns).

        `response` has shape (n_rows, n_outputs, n_permutations).
        """
        lanes = response.shape[2]
        y = response.reshape(len(response), -1)
        sums = self.along.moments(self.factor, self._steps(y, lanes), y, lanes)
        error = spread(sums, self.along.paths.n_blocks)
        return np.divide(sums[0], error, out=np.zeros_like(error), where=error > 0).T

    def contributions(self, response: NDArray[Any]) -> NDArray[np.float64]:
        """Return what each row, in the order of the paths, adds to the scores, shape (n_rows, n_columns).

        `response` is one permuted response, of shape (n_rows, n_outputs).
        """
        from debias.rows.kernels import paths as path_kernels

        along, paths = self.along, self.along.paths
        at = along.position
        step, phi = self._steps(response, 1)[at], np.zeros((paths.n_rows, along.n_columns))
        of_splits = (paths.start, paths.slot_of_split, along.column, self.factor[at], step)
        of_rows = (paths.ensemble.tree_output, response.astype(np.float64), paths.weight, phi)
        arrays: tuple[Any, ...] = (paths.slots, paths.evaluated, *of_splits, *of_rows)
        along.threads.map(lambda part: path_kernels.contributions(*part, *arrays), paths.parts)
        phi *= self.unit
        return phi

    def _steps(self, y: NDArray[Any], lanes: int) -> NDArray[np.float64]:
        """Return what rows add to scores at the dividing splits, see ``step_kernels.write_steps``."""
        from debias.significance.kernels import steps as step_kernels

        paths, threads = self.along.paths, self.along.threads
        step = np.empty((paths.n_splits, 2, self.width * lanes))
        if paths.in_bag is None:
            step[:, 0] = np.repeat(self._fixed_differences, lanes, axis=1)
        in_bag = np.empty((0, 0), dtype=np.uint8) if paths.in_bag is None else paths.in_bag
        n_in_bag = np.empty(0) if paths.in_bag is None else paths.in_bag_weight
        class_weight = self.class_weight if isinstance(self.class_weight, np.ndarray) else np.empty(0)
        of_rows = (paths.slots, in_bag, paths.evaluated, self.weight, y, lanes, self.kind)
        of_trees = (self.rows.ensemble.tree_output * lanes, paths.start, paths.slot_of_split)
        of_slots = (n_in_bag, paths.evaluation_weight, class_weight, self.along.position)
        arrays: tuple[Any, ...] = (*of_rows, *of_trees, *of_slots, step)
        threads.map(lambda trees: step_kernels.write_steps(*trees, *arrays), threads.shares(paths.ensemble.n_trees))
        return step

    @cached_property
    def _fixed_differences(self) -> NDArray[np.float64]:
        return fixed_differences(self.along.paths, self.width)[self.along.splits]


class EffectStatistic:
    """The studentised linear effects, for several permuted responses at once, in single precision.

    Parameters
    ----------
    effects : LinearEffects
    grouping : Grouping
    within_fit : bool
        See :class:`debias.rows.permuted_effects.PermutedEffects`.
    """

    lanes = LANES
    rounding = ROUNDING

    def __init__(self, effects: LinearEffects, grouping: Grouping, *, within_fit: bool = False) -> None:
        self.response = effects.response
        self._permuted = PermutedEffects(effects, grouping, within_fit=within_fit)
        self.steps_of_lines = self._permuted.steps
        self._n_blocks = np.unique(effects.block).size

    @property
    def details(self) -> dict[str, object]:
        """The number of trees whose lines are tested, of all trees, and of those tested with ``dependence=True``."""
        permuted = self._permuted
        of_trees = {"trees": permuted.n_trees, "most_trees_of_lines": permuted.most_trees}
        return {"trees_of_lines": len(permuted.effects.trees), **of_trees, "screened_lines": permuted.screens}

    def observed(self) -> NDArray[np.float64]:
        """Return z of the response as it is, in double precision, shape (n_groups,)."""
        return self._studentised(self._permuted.moments_in_double())

    def of(self, response: NDArray[Any]) -> NDArray[np.float64]:
        """Return z of permuted responses, shape (n_permutations, n_groups)."""
        sums, rough = self._permuted.moments(response)
        z = self._studentised(sums)
        # See debias.rows.screened_lines.
        screened = np.where(rough < HIGH, rough, np.maximum(z, HIGH))
        return np.where(np.isfinite(rough), screened, z).T

    def _studentised(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        error = spread(sums, self._n_blocks)
        return np.divide(sums[0], error, out=np.zeros_like(error), where=error > 0)


class RandomOrders:
    """Orders of rows: their own first, then random ones; if there are blocks, whole blocks are permuted.

    Parameters
    ----------
    block : array of int64 of shape (n_rows,)
        Blocks of rows, all of one size; rows of a block are together.
    seed : int
        The same blocks and seed give the same orders.
    weight : array of shape (n_rows,), optional
        Weights of the rows. Blocks without weight keep their place: they are not evaluated, and others must not get
        their responses.
    """

    def __init__(self, block: NDArray[np.int64], seed: int, weight: NDArray[np.float64] | None = None) -> None:
        self._random = np.random.default_rng(np.random.SeedSequence(seed))
        self.blocks = np.arange(block.size).reshape(np.unique(block).size, -1)
        weight = np.ones(block.size) if weight is None else weight
        self.moved = np.flatnonzero(counts(weight)[self.blocks].any(axis=1))
        self._orders = self._all_orders()

    def draw(self, n: int) -> NDArray[np.int64]:
        """Return the next n orders, shape (n_rows, n)."""
        orders = np.empty((n, self.blocks.size), dtype=np.int64)
        for order in orders:
            order[:] = next(self._orders)
        return orders.T

    def _all_orders(self) -> Iterator[NDArray[np.int64]]:
        # The identity first: the observed z is computed by the same loops, so equal responses give equal bits.
        yield self.blocks.ravel()
        moved, order = self.blocks[self.moved], self.blocks.copy()
        while True:
            drawn = moved[self._random.permutation(len(moved))]
            if len(moved) < len(order):
                order[self.moved] = drawn
                drawn = order
            yield drawn.ravel()


class PermutedResponses:
    """The response of rows in random orders, its own order first.

    Parameters
    ----------
    block, seed, weight
        As for :class:`RandomOrders`.
    response : array of shape (n_rows, n_columns)

    Raises
    ------
    RowsError
        Every block has the same responses.
    """

    def __init__(
        self, block: NDArray[np.int64], response: NDArray[Any], seed: int, weight: NDArray[np.float64] | None = None
    ) -> None:
        self._orders, self._response = RandomOrders(block, seed, weight), response
        in_blocks = response[self._orders.blocks[self._orders.moved]]
        if in_blocks.shape[1] > 1 and (in_blocks == in_blocks[0]).all():
            raise RowsError(
                "every block has the same responses in the same order, so a permutation of blocks changes nothing. "
                "Pass test='naive', which needs no permutation"
            )

    def draw(self, n: int) -> NDArray[Any]:
        """Return the next n responses, shape (n_rows, n_columns, n)."""
        from debias.significance.kernels import steps as step_kernels

        drawn = np.empty((*self._response.shape, n), dtype=self._response.dtype)
        if n:
            step_kernels.put_in_order(self._orders.draw(n).T, self._response, drawn)
        return drawn


class _Settled:
    """Decides whether drawing can stop because more draws would not change a decision.

    It never stops before the minimum detectable z is known. For the family-wise error it stops when the adjusted
    p-value of every feature is on the side of alpha where all permutations would put it, up to the resampling risk
    (:class:`debias.p_values.Boundaries`). The false discovery rate
    needs the p-values themselves: it stops when every feature has 20 exceedances, and the p-value of a feature is
    computed from the draws until then (Besag and Clifford 1991).
    """

    def __init__(self, procedure: Procedure) -> None:
        self.procedure = procedure
        self.boundaries = p_values.boundaries(procedure.alpha, int(procedure.limits.n_permutations), RISK)

    def __call__(self, z: NDArray[np.float64], null: NDArray[np.float64]) -> bool:
        if not self.procedure.limits.adaptive or (1 + len(null)) * self.procedure.alpha < LARGEST_DRAWS:
            return False
        if self.procedure.error != "fwer":
            return bool((p_values.exceeds(null, z).sum(axis=0) >= ENOUGH_EXCEEDANCES).all())
        # As in step-down max-z: each feature is compared with the largest z* of those that are not larger than itself.
        order = np.argsort(-z, kind="stable")
        exceeding = p_values.exceeds(p_values.successive_max(null[:, order]), z[order])
        return bool(self.boundaries.settled(exceeding).all())


def _critical(null: NDArray[np.float64], alpha: float) -> float | None:
    """Return the z above which the first step of step-down max-z rejects; None if no z is large enough."""
    # The observed value counts as a draw. 1e-9: a product such as .29 * 100 is just below the whole number.
    n_allowed = int(alpha * (1 + len(null)) + 1e-9)
    return float(np.sort(null.max(axis=1))[-n_allowed]) if n_allowed else None


def refuse_unequal_blocks(rows: Rows) -> None:
    """Refuse blocks of different sizes, which cannot be permuted."""
    sizes = np.unique(np.unique(rows.paths.block, return_counts=True)[1])
    if sizes.size == 1:
        return
    how = (
        "Hold out whole blocks and test on them with rows='held-out' and test='naive', or pass test='conservative'"
        if rows.kind == RowsKind.OOB
        else "Pass test='naive', which needs no permutation"
    )
    raise RowsError(
        f"blocks have from {sizes[0]} to {sizes[-1]} rows, and only blocks of one size can be permuted. {how}"
    )


def _check_resolution(procedure: Procedure, n_features: int, log: WarningLog) -> None:
    """Refuse, or warn, if B permutations cannot give p-values as small as a decision needs."""
    n_drawn, alpha, error = procedure.limits.n_permutations, procedure.alpha, procedure.error
    smallest = 1 / (1 + n_drawn)
    if smallest > alpha:
        raise CompositionError(
            f"{n_drawn} permutations give no p-value below {smallest:.3g}, so no feature can be called informative at "
            f"an error rate of {alpha:g}: pass test=debias.Permutation(n_permutations={int(np.ceil(1 / alpha)) - 1}), "
            "or more"
        )
    if error == "fwer":
        return
    factor = (1 / np.arange(1, n_features + 1)).sum() if error == "fdr_by" else 1.0
    together = int(np.ceil(smallest * n_features * factor / alpha))
    if together > n_features:
        raise CompositionError(
            f"with {n_drawn} permutations and {n_features} features, error_rate=({error!r}, {alpha:g}) cannot call any "
            "feature informative: pass test=debias.Permutation(n_permutations="
            f"{int(np.ceil(factor / alpha))}) or more, or error_rate={alpha:g}, a family-wise rate"
        )
    if together > 1:
        log.warn(
            f"{n_drawn} permutations give no p-value below {smallest:.3g}, so error_rate=({error!r}, {alpha:g}) calls "
            f"at least {together} of {n_features} features informative, or none. To find a single feature, pass "
            f"test=debias.Permutation(n_permutations={int(np.ceil(n_features * factor / alpha))}), or "
            f"error_rate={alpha:g}, a family-wise rate"
        )
