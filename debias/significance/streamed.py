"""Standard errors of rows that come in parts: a second pass over them, once the node sums over all are known.

The contribution of a row to a score needs, beside the row, only the sums at the nodes on its path
(docs/significance.md); their sum and sum of squares add like everything else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from debias.errors import CompositionError
from debias.significance.contributions import coded_response, fixed_differences, spread, units
from debias.significance.effective_rows import POWERS, effective_number
from debias.significance.verdict import SHRINKAGE, by_students_law, refuse_training_rows, shrunk, without_verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from debias.data.groups import Grouping
    from debias.results.scores import Scores
    from debias.rows.rows import Rows, StreamedRows
    from debias.rows.streamed_sums import NodeSums
    from debias.significance.procedure import Procedure
    from debias.trees.ensemble import TreeEnsemble
    from debias.warning_log import WarningLog

    Fold = Callable[["Steps"], NDArray[np.float64]]


ROUNDING = 1e-12
"""What is left of the variance of a response that is the same in all rows, beside its square, is less."""


@dataclass(frozen=True, eq=False)
class Steps:
    """What a row adds to scores at every dividing split (see debias.rows.kernels.paths), in one or several versions.

    Parameters
    ----------
    ensemble : TreeEnsemble
    start : array of int64 of shape (n_trees + 1,)
        Where each tree's dividing splits begin.
    splits : array of int64 of shape (n_dividing,)
        Flat indices of the dividing splits in the ensemble.
    slot_of_split : array of int32 of shape (n_dividing,)
    slot_of_node : array of int32 of shape (n_nodes,)
    column : array of int32 of shape (n_dividing,)
        Group of features each splits on.
    n_groups : int
    step : array of shape (n_dividing, 2, width)
        Difference of the children's values, and mean response of the rows there.
    factors : list of array of shape (n_dividing, 2)
        One for each version.
    unit : array of shape (n_groups,)
        What contributions to each group are measured in, see :func:`debias.significance.contributions.units`.
    """

    ensemble: TreeEnsemble
    start: NDArray[np.int64]
    splits: NDArray[np.int64]
    slot_of_split: NDArray[np.int32]
    slot_of_node: NDArray[np.int32]
    column: NDArray[np.int32]
    n_groups: int
    step: NDArray[np.float64]
    factors: list[NDArray[np.float64]]
    unit: NDArray[np.float64]

    @classmethod
    def of(cls, sums: NodeSums, grouping: Grouping, versions: list[tuple[NDArray[np.float64], bool]]) -> Steps:
        """Lay out the splits with rows on both sides.

        Parameters
        ----------
        sums : NodeSums
            Over all rows.
        grouping : Grouping
        versions : list of (array of shape (n_nodes,), bool)
            What the scorer multiplies each split's term with, and whether residuals are enlarged: see
            :meth:`debias.rows.paths.Paths.factor`.
        """
        from debias.rows.kernels import paths as path_kernels

        ensemble = sums.ensemble
        splits, slots_of, slot_of_node = [], [], np.empty(ensemble.n_nodes, dtype=np.int32)
        for tree in range(ensemble.n_trees):
            nodes = slice(int(ensemble.tree_start[tree]), int(ensemble.tree_start[tree + 1]))
            left, leaf = ensemble.left[nodes], ensemble.left[nodes] < 0
            seen, grown = np.where(leaf, sums.n[nodes], 0.0), leaf.astype(np.float64)
            dividing, lies_in = np.empty((2, left.size // 2 + 1), dtype=np.int32)
            every = np.arange(left.size, dtype=np.int32)
            tree_arrays = (left, ensemble.right[nodes], ensemble.parent[nodes], seen, grown, every)
            n = path_kernels.find_slots(*tree_arrays, slot_of_node[nodes], dividing, lies_in)
            splits.append(dividing[:n].astype(np.int64) + nodes.start)
            slots_of.append(lies_in[:n])
        start = np.cumsum([0, *(part.size for part in splits)])
        at = np.concatenate(splits)
        mean = sums.s[at] / sums.n[at, None]
        mean = mean[:, 1:] if ensemble.averaged and ensemble.is_classifier else mean
        steps = cls(
            ensemble=ensemble,
            start=start,
            splits=at,
            slot_of_split=np.concatenate(slots_of),
            slot_of_node=slot_of_node,
            column=grouping.index[ensemble.feature[at]].astype(np.int32),
            n_groups=len(grouping.names),
            step=np.empty((at.size, 2, mean.shape[1])),
            factors=[_factor(sums, start, at, *version) for version in versions],
            unit=np.ones(len(grouping.names)),
        )
        steps.step[:, 0] = fixed_differences(steps, mean.shape[1])
        steps.step[:, 1] = mean
        steps.unit[:] = units(steps.factors[0], steps.step[:, 0], steps.column, steps.n_groups)
        for factor in steps.factors:
            factor /= steps.unit[steps.column][:, None]
        return steps

    def moments(self, batches: Iterable[Rows]) -> NDArray[np.float64]:
        """Return sums of the powers of contributions, in units, shape (n_versions, 4, n_groups)."""
        from debias.rows.kernels import paths as path_kernels

        total = np.zeros((len(self.factors), POWERS, self.n_groups))
        for rows in batches:
            y = coded_response(rows)
            for part, leaves in rows.leaf_blocks():
                slots = np.zeros(leaves.T.shape, dtype=np.int32)
                evaluated = (leaves.T >= 0) & (rows.weight[part] > 0)
                path_kernels.look_up(leaves, self.ensemble.tree_start, self.slot_of_node, slots)
                where = (slots, evaluated, self.start, self.slot_of_split, self.column)
                rest = (self.step, self.ensemble.tree_output, np.ascontiguousarray(y[part]), rows.weight[part])
                for factor, sums in zip(self.factors, total, strict=True):
                    path_kernels.moments(0, len(leaves), np.arange(len(leaves)), (*where, factor, *rest), sums)
        return total


def streamed_significance(
    scores: Scores,
    rows: StreamedRows,
    n_independent: int,
    node_weight: NDArray[np.float64],
    grouping: Grouping,
    procedure: Procedure,
    notes: WarningLog,
    fold: Fold,
) -> Scores:
    """Return scores with standard errors, z, p-values and decisions, by Student's law.

    Parameters
    ----------
    scores, node_weight, grouping, procedure, notes
        As for :func:`debias.significance.verdict.significance`.
    rows : StreamedRows
        With the node sums over all rows.
    n_independent : int
        Number of rows that take part.
    fold : callable
        Adds up ``steps.moments`` over all rows.

    Raises
    ------
    CompositionError
        `test` asks for what needs all rows at once.
    """
    refuse_training_rows(rows)
    if _is_constant(rows.sums):
        return without_verdict(scores, notes)
    chosen = _method(procedure.test, rows.kind)
    procedure = replace(procedure, test=chosen)
    shrinking = shrunk(rows)
    weight = node_weight * shrinking
    inflated = chosen == "conservative" or rows.kind != "oob"
    versions = [(weight, False), (weight, inflated), (node_weight, inflated)]
    steps = Steps.of(rows.sums, grouping, versions)
    plain, widened, unshrunk = fold(steps)
    score, error = plain[0], spread(widened, n_independent)
    z = np.divide(score, error, out=np.zeros_like(score), where=error > 0)
    effective = effective_number(widened, n_independent)
    found = by_students_law(z, effective, n_independent, rows.kind, grouping, procedure, notes)
    standard_error = steps.unit * spread(unshrunk, n_independent) * (np.sqrt(2) if chosen == "conservative" else 1.0)
    details = {
        "method": chosen,
        "alpha": float(procedure.alpha),
        "error": procedure.error,
        "shrinkage": SHRINKAGE if shrinking.min() < 1 else 0.0,
        "n_independent": n_independent,
        "blocks": False,
    }
    return replace(
        scores,
        standard_error=standard_error,
        z=found.z,
        p_value=found.p_value,
        p_adjusted=found.p_adjusted,
        selected=found.p_adjusted <= procedure.alpha,
        threshold=found.threshold,
        warnings=tuple(notes.texts),
        details={**scores.details, "test": details | found.details},
    )


def _is_constant(sums: NodeSums) -> bool:
    """Whether all rows have one response, up to the rounding of their sums."""
    roots = sums.ensemble.tree_start[:-1][sums.n_root > 0]
    squares = sums.q[roots]
    spread_about_mean = squares - (sums.s[roots] ** 2).sum(axis=1) / sums.n[roots]
    return bool((spread_about_mean <= ROUNDING * squares).all())


def _method(test: str, kind: str) -> str:
    if test == "permutation":
        raise CompositionError(
            "test='permutation' permutes the responses of all rows, and rows that come in batches are not all there at "
            "once: pass test='auto', or X and y in memory"
        )
    if test == "conservative" and kind != "oob":
        raise CompositionError(
            "test='conservative' is for out-of-bag rows; on held-out rows the standard error needs no such factor: "
            "pass test='naive'"
        )
    return ("conservative" if kind == "oob" else "naive") if test == "auto" else test


def _factor(
    sums: NodeSums,
    start: NDArray[np.int64],
    splits: NDArray[np.int64],
    node_weight: NDArray[np.float64],
    inflated: bool,
) -> NDArray[np.float64]:
    """Return what a row's deviation is multiplied with on either side of each dividing split, as Paths.factor does."""
    ensemble = sums.ensemble
    begin = np.repeat(ensemble.tree_start[:-1], np.diff(start))
    n, n_root = sums.n, sums.n_root
    scale = np.divide(1.0, n_root, out=np.zeros_like(n_root), where=n_root > 0)
    if ensemble.averaged:
        scale /= (n_root > 0).sum()
    left, right = n[begin + ensemble.left[splits]], n[begin + ensemble.right[splits]]
    factor = np.stack([right, -left], axis=1) / n[splits, None]
    factor *= (node_weight[splits] * np.repeat(scale, np.diff(start)))[:, None]
    if inflated:
        effective = np.maximum(n[splits] ** 2 / sums.squares[splits], 2.0)
        factor *= np.sqrt(effective / (effective - 1))[:, None]
    return factor
